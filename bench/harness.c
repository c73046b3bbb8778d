/* SPDX-License-Identifier: MPL-2.0 */
/* harness.c -- what the benchmark programs share; see harness.h. */
#include "bench/harness.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define ROLE_MS 300000 /* no role takes as long */
#define RUNS 5

void bench_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void bench_check(enum bus_err err, const char *what)
{
    if (err != BUS_OK) {
        bench_die("%s: %s", what, bus_strerror(err));
    }
}

/* One word, and the one behind it where it takes one; false: not a word for us. */
static bool take_word(struct bench *bench, char **words, int *at, int count)
{
    const char *word = words[*at];
    const char *next = *at + 1 < count ? words[*at + 1] : NULL;
    if (strcmp(word, "--quick") == 0) {
        bench->is_quick = true;
        bench->runs = 1;
        return true;
    }
    if (strcmp(word, "--long") == 0) {
        bench->is_long = true;
        return true;
    }
    if (strcmp(word, "--curve") == 0) {
        bench->is_curve = true;
        return true;
    }
    ++*at;
    if (next != NULL && strcmp(word, "--runs") == 0) {
        bench->runs = (size_t)strtoul(next, NULL, 10);
    } else if (next != NULL && strcmp(word, "--json") == 0) {
        bench->json_path = next;
    } else if (next != NULL && strcmp(word, "--systems") == 0) {
        bench->systems = next;
    } else if (next != NULL && strcmp(word, "--only") == 0) {
        bench->only = next;
    } else {
        return false;
    }
    return true;
}

bool bench_init(struct bench *bench, const char *question, int argc, char **argv)
{
    bool is_known = true;
    *bench = (struct bench){.question = question, .runs = RUNS};
    for (int i = 1; is_known && i < argc; i++) {
        is_known = take_word(bench, argv, &i, argc);
    }
    if (!is_known || bench->runs < 1 || bench->runs > BENCH_RUNS_MAX) {
        fprintf(stderr,
                "usage: %s [--quick] [--long] [--curve] [--runs 1..%d] [--json FILE] [--systems "
                "NAME,...] [--only BEGINNING,...]\n",
                argv[0], BENCH_RUNS_MAX);
        return false;
    }
    return true;
}

bool bench_wants(const struct bench *bench, const char *name)
{
    bool is_wanted = bench->only == NULL;
    for (const char *word = bench->only; word != NULL && !is_wanted;) {
        size_t length = strcspn(word, ",");
        is_wanted = strncmp(name, word, length) == 0;
        word = word[length] == ',' ? word + length + 1 : NULL;
    }
    return is_wanted;
}

uint64_t bench_count(const struct bench *bench, uint64_t count)
{
    return bench->is_quick && count >= 10 ? count / 10 : count;
}

/* ---- telling --------------------------------------------------------------------------------- */

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

double bench_quantile(const double *values, size_t count, double share)
{
    double sorted[BENCH_RUNS_MAX];
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, compare_doubles);
    double place = share * (double)(count - 1);
    size_t below = (size_t)place;
    size_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - (double)below) * (sorted[above] - sorted[below]);
}

double bench_median(const double *values, size_t count)
{
    return bench_quantile(values, count, 0.5);
}

/* Processor and cores, as far as the system tells. */
static void machine_name(char *text, size_t bytes)
{
    struct utsname system;
    char line[256];
    char model[128] = "unknown processor";
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':') != NULL) {
            snprintf(model, sizeof model, "%.100s", strchr(line, ':') + 2);
            model[strcspn(model, "\n\"\\")] = '\0';
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    uname(&system);
    snprintf(text, bytes, "%s, %ld cores, Linux %s", model, sysconf(_SC_NPROCESSORS_ONLN),
             system.release);
}

static void append_json(const struct bench *bench, const struct bench_row *row, double median)
{
    char machine[512];
    const char *commit = getenv("BENCH_COMMIT");
    FILE *file = fopen(bench->json_path, "ae");
    if (file == NULL) {
        bench_die("%s cannot be written", bench->json_path);
    }
    machine_name(machine, sizeof machine);
    fprintf(
        file,
        "{\"question\":\"%s\",\"what\":\"%s\",\"system\":\"%s\",\"unit\":\"%s\",\"median\":%.6g,"
        "\"q1\":%.6g,\"q3\":%.6g,\"ratio\":%.4g,\"runs\":[",
        bench->question, row->what, row->system, row->unit, median,
        bench_quantile(row->values, row->runs, 0.25), bench_quantile(row->values, row->runs, 0.75),
        row->ratio);
    for (size_t i = 0; i < row->runs; i++) {
        fprintf(file, "%s%.6g", i > 0 ? "," : "", row->values[i]);
    }
    fprintf(file, "],\"n\":%llu,\"machine\":\"%s\",\"commit\":\"%s\",\"at\":%lld}\n",
            (unsigned long long)row->n, machine, commit != NULL ? commit : "unknown",
            (long long)time(NULL));
    fclose(file);
}

double bench_tell(const struct bench *bench, const struct bench_row *row)
{
    double median = bench_median(row->values, row->runs);
    char ratio[32] = "";
    const char *unit = row->unit;
    double scale = 1;
    if (strcmp(row->unit, "1/s") == 0 && median >= 1e3) {
        scale = median >= 1e6 ? 1e6 : 1e3;
        unit = median >= 1e6 ? "M/s" : "k/s";
    }
    if (row->ratio > 0) {
        snprintf(ratio, sizeof ratio, "%6.2f x", row->ratio);
    }
    printf("%-11s %-30s %-18s %9.2f %-5s %9.2f %9.2f %s\n", bench->question, row->what, row->system,
           median / scale, unit, bench_quantile(row->values, row->runs, 0.25) / scale,
           bench_quantile(row->values, row->runs, 0.75) / scale, ratio);
    fflush(stdout);
    if (bench->json_path != NULL) {
        append_json(bench, row, median);
    }
    return median;
}

void bench_draw_percentiles(const struct bench *bench, const char *title, const char *curve,
                            struct samples *samples)
{
    static const double percents[] = {10, 25,   50,   75,   90,    95,   98,
                                      99, 99.5, 99.8, 99.9, 99.95, 99.99};
    FILE *file = bench->json_path != NULL ? fopen(bench->json_path, "ae") : NULL;
    for (size_t i = 0; file != NULL && i < sizeof percents / sizeof percents[0]; i++) {
        if ((100 - percents[i]) * (double)samples->count >= 100) {
            fprintf(file,
                    "{\"percentiles\":\"%s\",\"curve\":\"%s\",\"percent\":%.6g,\"us\":%.6g}\n",
                    title, curve, percents[i], samples_percentile(samples, percents[i]));
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* ---- samples --------------------------------------------------------------------------------- */

void samples_add(struct samples *samples, int64_t ns)
{
    if (samples->count == samples->room) {
        samples->room = samples->room == 0 ? 1024 : 2 * samples->room;
        samples->at = realloc(samples->at, samples->room * sizeof *samples->at);
        if (samples->at == NULL) {
            bench_die("no memory for samples");
        }
    }
    samples->at[samples->count++] = ns;
}

void samples_add_all(struct samples *samples, const struct samples *others)
{
    for (size_t i = 0; i < others->count; i++) {
        samples_add(samples, others->at[i]);
    }
}

static int compare_numbers(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

double samples_percentile(struct samples *samples, double percent)
{
    if (samples->count == 0) {
        return 0;
    }
    qsort(samples->at, samples->count, sizeof *samples->at, compare_numbers);
    size_t index = (size_t)((double)samples->count * percent / 100);
    index = index < samples->count ? index : samples->count - 1;
    return (double)samples->at[index] / 1000;
}

void samples_read(struct samples *samples, struct process *role, size_t count)
{
    const char *line = NULL;
    while (samples->count < count) {
        if (!process_line(role, ROLE_MS, &line) || strncmp(line, "sample ", 7) != 0) {
            bench_die("a sample was due: %s", process_complained(role));
        }
        samples_add(samples, strtoll(line + 7, NULL, 10));
    }
}

void samples_say(const struct samples *samples)
{
    for (size_t i = 0; i < samples->count; i++) {
        printf("sample %lld\n", (long long)samples->at[i]);
    }
    fflush(stdout);
}

void samples_drop(struct samples *samples, size_t count)
{
    count = count < samples->count ? count : samples->count;
    samples->count -= count;
    if (count > 0) {
        memmove(samples->at, samples->at + count, samples->count * sizeof *samples->at);
    }
}

void samples_fini(struct samples *samples)
{
    free(samples->at);
    memset(samples, 0, sizeof *samples);
}

/* ---- roles ----------------------------------------------------------------------------------- */

void role_start(struct process *role, const char *const *words)
{
    const char *line = NULL;
    if (!process_start(role, words, NULL) || !process_line(role, ROLE_MS, &line) ||
        strcmp(line, "ready") != 0) {
        bench_die("%s %s is not ready: %s", words[0], words[1], process_complained(role));
    }
}

void role_go(struct process *role)
{
    if (!process_say(role, "go\n", 3)) {
        bench_die("a role does not listen: %s", process_complained(role));
    }
}

int64_t role_done(struct process *role)
{
    const char *line = NULL;
    if (!process_line(role, ROLE_MS, &line) || strncmp(line, "done ", 5) != 0) {
        bench_die("a role did not end its work: %s", process_complained(role));
    }
    return strtoll(line + 5, NULL, 10);
}

void role_fini(struct process *role)
{
    process_fini(role);
}

void role_ready(void)
{
    puts("ready");
    fflush(stdout);
}

void role_wait_go(void)
{
    char line[16];
    if (fgets(line, sizeof line, stdin) == NULL) {
        exit(0); /* who would tell us is gone */
    }
}

void role_say_done(int64_t number)
{
    printf("done %lld\n", (long long)number);
    fflush(stdout);
}

void bench_broker(struct broker *broker)
{
    if (!broker_start(broker, NULL)) {
        bench_die("errbusd is not ready: %s", process_complained(&broker->process));
    }
}

struct bus *bench_open(const char *endpoint, const char *party)
{
    struct bus_options options;
    struct bus *bus = NULL;
    bus_options_init(&options);
    options.party = party;
    options.reconnect_grace_ms = 100;
    bench_check(bus_open(endpoint, &options, 10000, &bus, NULL), "bus_open");
    return bus;
}

struct bus_sub *bench_subscribe(struct bus *bus, const char *topic)
{
    struct bus_sub *sub = NULL;
    bench_check(bus_sub_open(bus, topic, NULL, &sub), "subscribe");
    bench_check(bus_flush(bus, 10000), "flush");
    return sub;
}

struct bus_error *bench_take_error(struct bus_sub *sub)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    if (bus_sub_recv(sub, 60000, &msg, &error) != BUS_EFAILED) {
        bench_die("an error was due");
    }
    return error;
}

void bench_sleep_until(int64_t at_ns)
{
    struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

double bench_children_us(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_CHILDREN, &usage) != 0) {
        bench_die("getrusage");
    }
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}
