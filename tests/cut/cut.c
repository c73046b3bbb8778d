/* SPDX-License-Identifier: MPL-2.0 */
/* cut.c -- cuts links between real hosts, and looks what becomes of the parties.
 *
 *   cut [--short] [--list] [--only TEXT] [--results FILE] [-v]     cases of the table (plan.c)
 *   cut --phase A|B|C|D --kind KIND [--end party|broker] [--longer]
 *       [--parties N] [--times N] [--cut SECONDS] [--lost-after SECONDS] [--grace SECONDS]
 *       [--pattern TEXT] [--after SECONDS] [-v]                    a case of one's own
 *
 * Prints a line for each case, and appends one of JSON to FILE.  Exit codes: 0 all as it must be, 1
 * something is not, 2 usage, 77 skipped: links cannot be made here. */
#include "tests/cut/cast.h"
#include "tests/cut/hosts.h"
#include "tests/cut/plan.h"
#include "tests/cut/run.h"
#include "tests/lib/process.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 64
#define EXIT_USAGE 2
#define EXIT_SKIPPED 77

struct command {
    bool is_short;
    bool is_list;
    bool is_talkative;
    bool is_own; /* case */
    const char *only;
    const char *results;
    struct plan plan;
};

/* ---- what is asked for ------------------------------------------------------------------------*/

static bool find_name(const char *const *names, size_t count, const char *text, unsigned *out_index)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], text) == 0) {
            *out_index = (unsigned)i;
            return true;
        }
    }
    return false;
}

static bool read_ms(const char *text, int64_t *out_ms)
{
    char *end = NULL;
    double number = strtod(text, &end);
    *out_ms = (int64_t)(number * 1000);
    return end != text && *end == '\0' && number > -2 && number < 86400;
}

static bool read_count(const char *text, int least, int most, int *out_count)
{
    char *end = NULL;
    long number = strtol(text, &end, 10);
    *out_count = (int)number;
    return end != text && *end == '\0' && number >= least && number <= most;
}

static bool take_option(struct command *command, int option, const char *text)
{
    struct plan *plan = &command->plan;
    unsigned index = 0;
    bool is_good = true;
    command->is_own |= option >= 'A' && option <= 'Z';
    switch (option) {
    case 's': command->is_short = true; break;
    case 'l': command->is_list = true; break;
    case 'v': command->is_talkative = true; break;
    case 'o': command->only = text; break;
    case 'r': command->results = text; break;
    case 'P':
        is_good = find_name(phase_names, PHASE_COUNT, text, &index);
        plan->phase = (enum phase)index;
        break;
    case 'K':
        is_good = find_name(kind_names, KIND_COUNT, text, &index);
        plan->kind = (enum kind)index;
        break;
    case 'E':
        is_good = find_name(end_names, END_COUNT, text, &index);
        plan->end = (enum end)index;
        break;
    case 'L': plan->is_longer = true; break;
    case 'N': is_good = read_count(text, 2, WIRE_PORTS_MAX - 2, &plan->parties); break;
    case 'T': is_good = read_count(text, 1, 10000, &plan->times); break;
    case 'C': is_good = read_ms(text, &plan->cut_ms); break;
    case 'S': is_good = read_ms(text, &plan->lost_after_ms); break;
    case 'G': is_good = read_ms(text, &plan->grace_ms); break;
    case 'X': plan->pattern = text; break;
    case 'A': is_good = read_ms(text, &plan->after_ms); break;
    default: is_good = false; break;
    }
    return is_good;
}

static bool read_command(struct command *command, int argc, char **argv)
{
    static const struct option options[] = {
        {"short", no_argument, NULL, 's'},         {"list", no_argument, NULL, 'l'},
        {"only", required_argument, NULL, 'o'},    {"results", required_argument, NULL, 'r'},
        {"phase", required_argument, NULL, 'P'},   {"kind", required_argument, NULL, 'K'},
        {"end", required_argument, NULL, 'E'},     {"longer", no_argument, NULL, 'L'},
        {"parties", required_argument, NULL, 'N'}, {"times", required_argument, NULL, 'T'},
        {"cut", required_argument, NULL, 'C'},     {"lost-after", required_argument, NULL, 'S'},
        {"grace", required_argument, NULL, 'G'},   {"pattern", required_argument, NULL, 'X'},
        {"after", required_argument, NULL, 'A'},   {NULL, 0, NULL, 0},
    };
    int option = 0;
    bool is_good = true;
    while (is_good && (option = getopt_long(argc, argv, "v", options, NULL)) != -1) {
        is_good = take_option(command, option, optarg);
    }
    return is_good && optind == argc;
}

/* ---- what came of it --------------------------------------------------------------------------*/

static void print_line(const struct plan *plan, const struct result *result)
{
    char name[NAME_BYTES];
    plan_name(plan, name, sizeof name);
    printf("%-28s %-4s %-8s cut %5.1f s, detected %6lld ms, waited %6lld ms, noticed %6lld ms, "
           "resumed %6lld ms, lost %llu, twice %llu%s%s\n",
           name, result->is_good ? "ok" : "BAD", outcome_names[result->outcome],
           (double)result->cut_ms / 1000, (long long)result->detected_ms,
           (long long)result->waited_ms, (long long)result->noticed_ms,
           (long long)result->resumed_ms, (unsigned long long)result->lost,
           (unsigned long long)result->twice, result->is_good ? "" : ": ", result->why);
    fflush(stdout);
}

/* Names and reasons are ours, and need no escapes; but a pattern in a reason might. */
static void append_json(const char *path, const struct plan *plan, const struct result *result)
{
    char name[NAME_BYTES];
    char why[sizeof result->why];
    plan_name(plan, name, sizeof name);
    snprintf(why, sizeof why, "%s", result->why);
    for (char *at = why; (at = strpbrk(at, "\"\\")) != NULL;) {
        *at = '\'';
    }
    FILE *file = fopen(path, "ae");
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return;
    }
    fprintf(file,
            "{\"case\":\"%s\",\"phase\":\"%s\",\"kind\":\"%s\",\"end\":\"%s\",\"longer\":%s,"
            "\"parties\":%d,\"times\":%d,\"cut_s\":%.3f,\"lost_after_s\":%.3f,\"grace_s\":%.3f,"
            "\"outcome\":\"%s\",\"detected_ms\":%lld,\"noticed_ms\":%lld,\"waited_ms\":%lld,"
            "\"resumed_ms\":%lld,\"carried_bytes\":%llu,\"lost\":%llu,\"twice\":%llu,\"ok\":%s,"
            "\"why\":\"%s\"}\n",
            name, phase_names[plan->phase], kind_names[plan->kind], end_names[plan->end],
            plan->is_longer ? "true" : "false", plan->parties, plan->times,
            (double)result->cut_ms / 1000, (double)plan->lost_after_ms / 1000,
            (double)plan->grace_ms / 1000, outcome_names[result->outcome],
            (long long)result->detected_ms, (long long)result->noticed_ms,
            (long long)result->waited_ms, (long long)result->resumed_ms,
            (unsigned long long)result->carried_bytes, (unsigned long long)result->lost,
            (unsigned long long)result->twice, result->is_good ? "true" : "false", why);
    if (fclose(file) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    }
}

/* ---- all cases --------------------------------------------------------------------------------*/

static bool is_chosen(const struct command *command, const struct plan *plan)
{
    char name[NAME_BYTES];
    plan_name(plan, name, sizeof name);
    return (!command->is_short || plan->is_in_short) &&
           (command->only == NULL || strstr(name, command->only) != NULL);
}

static bool run_one(const struct command *command, const struct hosts *hosts, struct plan *plan)
{
    struct result result;
    plan_complete(plan);
    run_plan(hosts, plan, command->is_talkative, &result);
    print_line(plan, &result);
    if (command->results != NULL) {
        append_json(command->results, plan, &result);
    }
    return result.is_good;
}

static int run_all(const struct command *command, const struct hosts *hosts)
{
    struct plan plan = command->plan;
    unsigned good = 0;
    unsigned bad = 0;
    if (command->is_own) {
        return run_one(command, hosts, &plan) ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    for (size_t i = 0; plan_at(i, &plan); i++) {
        if (is_chosen(command, &plan)) {
            bool is_good = run_one(command, hosts, &plan);
            good += is_good;
            bad += !is_good;
        }
    }
    printf("%u as they must be, %u not\n", good, bad);
    return good > 0 && bad == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void list(void)
{
    char name[NAME_BYTES];
    struct plan plan;
    for (size_t i = 0; plan_at(i, &plan); i++) {
        plan_name(&plan, name, sizeof name);
        printf("%-28s%s\n", name, plan.is_in_short ? " short form" : "");
    }
}

int main(int argc, char **argv)
{
    struct command command = {.only = NULL};
    struct hosts hosts = {.count = 0};
    char problem[HOSTS_PROBLEM_BYTES_MAX];
    if (!read_command(&command, argc, argv)) {
        fprintf(stderr, "usage: see the head of tests/cut/cut.c\n");
        return EXIT_USAGE;
    }
    if (command.is_list) {
        list();
        return EXIT_SUCCESS;
    }
    process_remember_own_path();
    struct plan widest = command.plan;
    plan_complete(&widest);
    if (!hosts_open(&hosts, (size_t)widest.parties + 2, problem)) {
        printf("skipped: %s\n", problem);
        return EXIT_SKIPPED;
    }
    int code = run_all(&command, &hosts);
    hosts_close(&hosts);
    return code;
}
