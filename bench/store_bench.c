/* SPDX-License-Identifier: MPL-2.0 */
/* store_bench.c -- errbusd over PostgreSQL beside a plain loop over libpq (peers/postgres_store.c)
 * that commits the same bytes to the same servers: a primary and two standbys, of which one must
 * confirm each commit.  Both take turns in each run.
 *
 *   128 KiB, 1 MiB     bytes a second; the loop waits for each commit
 *   256 B flushed      publish and bus_flush(), beside a commit of the loop
 *   256 B at 10000/s   one way to a reader, beside a loop whose commits take all that is due
 *
 * The figures are those of a server that has run for a while.  A new one makes each file of its WAL
 * and each page of its tables anew, which takes longer than to use old ones again.  So all runs of
 * bulk come first, and are long: the server then has files to use again.  A checkpoint before each
 * side's bulk, and behind the last, brings to the disk what was left, so that nobody waits for it.
 *
 * Where the disk answers nobody for a while, nobody's commit is confirmed meanwhile.  Of the 3 s in
 * which 10,000 values a second come, 30 ms of that are above the p99.  So the bench tells for how
 * long the disk was still (disk_probe.h).
 *
 * A virtual machine may give free memory back to its host.  To get it again took ten times as long
 * as to write to it (README.md).  So each side's bulk begins with as much as it writes to. */
#include "bench/disk_probe.h"
#include "bench/harness.h"
#include "tests/lib/postgres.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MS 60000
#define STILL_NS INT64_C(8000000) /* what is asked of the p99 */
enum { NUMBER_BYTES = 24, STANDBYS = 2 };

enum way { BULK, FLUSHED, PACED };
static const struct load {
    const char *what;
    const char *bytes;
    enum way way;
    uint64_t count;
    const char *every_ns;
} loads[] = {{"128 KiB", "131072", BULK, 800, "0"},
             {"1 MiB", "1048576", BULK, 500, "0"},
             {"256 B flushed", "256", FLUSHED, 2000, "0"},
             {"256 B at 10000/s", "256", PACED, 30000, "100000"}};
enum { LOADS = sizeof loads / sizeof loads[0] };

enum side { ERRBUS, LOOP, SIDES };
static const char *const sides[SIDES] = {"errbus", "libpq loop"};

/* Bytes a second, or the percentiles, by run. */
struct answer {
    double p50[BENCH_RUNS_MAX];
    double p99[BENCH_RUNS_MAX];
    double still_ms[BENCH_RUNS_MAX]; /* the disk */
};
static struct answer answers[LOADS][SIDES];

/* ---- roles ----------------------------------------------------------------------------------- */

/* write ENDPOINT PARTY BYTES COUNT EVERY_NS IS_FLUSHED */
static int write_values(char **words)
{
    struct bus *bus = bench_open(words[0], words[1]);
    size_t bytes = strtoul(words[2], NULL, 10);
    uint64_t count = strtoull(words[3], NULL, 10);
    int64_t every_ns = strtoll(words[4], NULL, 10);
    bool is_flushed = strcmp(words[5], "1") == 0;
    struct samples samples = {.count = 0};
    char *value = calloc(1, bytes);
    if (value == NULL) {
        bench_die("no memory");
    }
    role_ready();
    role_wait_go();
    int64_t start_ns = test_now_ns();
    for (uint64_t i = 0; i < count; i++) {
        int64_t at_ns = start_ns + (int64_t)i * every_ns;
        if (every_ns > 0) {
            bench_sleep_until(at_ns);
        }
        int64_t now_ns = every_ns > 0 ? at_ns : test_now_ns();
        memcpy(value, &now_ns, sizeof now_ns);
        bench_check(bus_publish(bus, "w", value, bytes), "publish");
        if (is_flushed) {
            bench_check(bus_flush(bus, WAIT_MS), "flush");
            samples_add(&samples, test_now_ns() - now_ns);
        }
    }
    bench_check(bus_flush(bus, WAIT_MS), "flush");
    role_say_done(test_now_ns() - start_ns);
    samples_say(&samples);
    samples_fini(&samples);
    free(value);
    bench_check(bus_close(&bus, WAIT_MS), "close");
    return 0;
}

/* read ENDPOINT PARTY COUNT: says when it had all, and how long each was on its way */
static int read_values(char **words)
{
    char topic[64];
    char name[64];
    snprintf(name, sizeof name, "reader_of_%s", words[1]);
    snprintf(topic, sizeof topic, "%s/w", words[1]);
    struct bus *bus = bench_open(words[0], name);
    struct bus_sub *sub = bench_subscribe(bus, topic);
    uint64_t count = strtoull(words[2], NULL, 10);
    struct samples samples = {.count = 0};
    role_ready();
    for (uint64_t i = 0; i < count; i++) {
        struct bus_msg *msg = NULL;
        int64_t at_ns = 0;
        bench_check(bus_sub_recv(sub, WAIT_MS, &msg, NULL), "receive");
        memcpy(&at_ns, bus_msg_value(msg, NULL), sizeof at_ns);
        samples_add(&samples, test_now_ns() - at_ns);
        bus_msg_free(&msg);
    }
    role_say_done(test_now_ns());
    samples_say(&samples);
    samples_fini(&samples);
    bus_sub_close(&sub);
    bench_check(bus_close(&bus, WAIT_MS), "close");
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void note(const struct load *load, struct answer *answer, size_t run, uint64_t count,
                 int64_t took_ns, struct samples *samples)
{
    if (load->way == BULK) {
        answer->p50[run] = (double)count * strtod(load->bytes, NULL) * 1e9 / (double)took_ns;
        return;
    }
    samples_drop(samples, samples->count / 10); /* the first tenth warms up */
    answer->p50[run] = samples_percentile(samples, 50);
    answer->p99[run] = samples_percentile(samples, 99);
}

static void run_loop(const char *conninfo, const struct load *load, uint64_t count,
                     struct answer *answer, size_t run)
{
    struct process loop = {.pid = 0};
    struct samples samples = {.count = 0};
    char number[NUMBER_BYTES];
    snprintf(number, sizeof number, "%llu", (unsigned long long)count);
    const char *const words[] = {"postgres_store", conninfo,       load->bytes,
                                 number,           load->every_ns, NULL};
    role_start(&loop, words);
    role_go(&loop);
    int64_t took_ns = role_done(&loop);
    samples_read(&samples, &loop, count);
    role_fini(&loop);
    note(load, answer, run, count, took_ns, &samples);
    samples_fini(&samples);
}

/* The reader has a value once a quorum has it. */
static void run_errbus(const char *endpoint, const struct load *load, uint64_t count,
                       struct answer *answer, size_t run)
{
    struct process writer = {.pid = 0};
    struct process reader = {.pid = 0};
    struct samples samples = {.count = 0};
    char number[NUMBER_BYTES];
    char party[64];
    snprintf(number, sizeof number, "%llu", (unsigned long long)count);
    snprintf(party, sizeof party, "writer_%zu_%zu", (size_t)(load - loads), run);
    const char *const read_words[] = {"store_bench", "read", endpoint, party, number, NULL};
    const char *const write_words[] = {
        "store_bench", "write", endpoint,       party,
        load->bytes,   number,  load->every_ns, load->way == FLUSHED ? "1" : "0",
        NULL};
    role_start(&reader, read_words);
    role_start(&writer, write_words);
    int64_t start_ns = test_now_ns();
    role_go(&writer);
    int64_t flushed_ns = role_done(&writer);
    int64_t end_ns = role_done(&reader);
    samples_read(&samples, load->way == FLUSHED ? &writer : &reader, count);
    role_fini(&writer);
    role_fini(&reader);
    (void)flushed_ns;
    note(load, answer, run, count, end_ns - start_ns, &samples);
    samples_fini(&samples);
}

/* On all nodes; on a standby it is a restartpoint. */
static void make_checkpoint(struct postgres *postgres)
{
    char answer[16];
    for (unsigned i = 0; i < postgres->count; i++) {
        if (!postgres_query(postgres, i, "CHECKPOINT; SELECT 1", answer, sizeof answer)) {
            bench_die("%s", postgres->why);
        }
    }
}

enum { WRITERS = 4 }; /* three servers write each value to a table, and errbusd to its cache */

/* Writes so much to a file, and removes it: the memory is free then, and is there. */
static void get_memory(const struct postgres *postgres, uint64_t bytes)
{
    static const char block[1024 * 1024];
    char path[POSTGRES_PATH_BYTES];
    snprintf(path, sizeof path, "%s/memory", postgres->folder.path);
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    for (uint64_t written = 0; fd >= 0 && written < bytes; written += sizeof block) {
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block) {
            bench_die("no room for %llu bytes in %s", (unsigned long long)bytes, path);
        }
    }
    if (fd < 0 || close(fd) != 0 || unlink(path) != 0) {
        bench_die("cannot make and remove %s", path);
    }
}

static void run_side(enum side side, const struct postgres *postgres, const char *endpoint,
                     size_t index, uint64_t count, size_t run)
{
    struct answer *answer = &answers[index][side];
    if (side == LOOP) {
        run_loop(postgres->conninfo, &loads[index], count, answer, run);
    } else {
        run_errbus(endpoint, &loads[index], count, answer, run);
    }
}

static void run_beside_probe(enum side side, const struct postgres *postgres, const char *endpoint,
                             size_t index, uint64_t count, size_t run)
{
    char path[POSTGRES_PATH_BYTES];
    snprintf(path, sizeof path, "%s/probe", postgres->folder.path);
    struct disk_probe *probe = disk_probe_start(path, STILL_NS);
    run_side(side, postgres, endpoint, index, count, run);
    answers[index][side].still_ms[run] = (double)disk_probe_end(&probe) / 1e6;
}

static void measure_load(const struct bench *bench, struct postgres *postgres, const char *endpoint,
                         size_t index, size_t run)
{
    const struct load *load = &loads[index];
    uint64_t count = bench_count(bench, load->count);
    for (size_t turn = 0; turn < SIDES; turn++) {
        if (load->way == BULK) {
            make_checkpoint(postgres); /* what was left to be written */
            get_memory(postgres, WRITERS * count * strtoull(load->bytes, NULL, 10));
        }
        enum side side = (enum side)((run + turn) % SIDES);
        if (load->way == PACED) {
            run_beside_probe(side, postgres, endpoint, index, count, run);
        } else {
            run_side(side, postgres, endpoint, index, count, run);
        }
    }
}

static void measure(const struct bench *bench, struct postgres *postgres, const char *endpoint)
{
    size_t bulks = 0;
    while (loads[bulks].way == BULK) {
        bulks++;
    }
    for (size_t run = 0; run < bench->runs; run++) {
        for (size_t i = 0; i < bulks; i++) {
            measure_load(bench, postgres, endpoint, i, run);
        }
    }
    make_checkpoint(postgres);
    for (size_t run = 0; run < bench->runs; run++) {
        for (size_t i = bulks; i < LOADS; i++) {
            measure_load(bench, postgres, endpoint, i, run);
        }
    }
}

enum figure { P50, P99, STILL };

static const double *values_of(const struct answer *answer, enum figure figure)
{
    return figure == P50 ? answer->p50 : figure == P99 ? answer->p99 : answer->still_ms;
}

static const char *unit_of(const struct load *load, enum figure figure)
{
    if (load->way == BULK)
        return "B/s";
    return figure == STILL ? "ms" : "us";
}

static void tell(const struct bench *bench, const struct load *load, const char *which,
                 enum figure figure)
{
    double medians[SIDES];
    char what[64];
    snprintf(what, sizeof what, "%s%s", load->what, which);
    for (size_t side = 0; side < SIDES; side++) {
        const struct answer *answer = &answers[load - loads][side];
        struct bench_row row = {.what = what,
                                .system = sides[side],
                                .unit = unit_of(load, figure),
                                .values = values_of(answer, figure),
                                .runs = bench->runs,
                                .n = bench_count(bench, load->count)};
        if (side == LOOP && figure != STILL)
            row.ratio = medians[ERRBUS] / bench_median(row.values, row.runs);
        medians[side] = bench_tell(bench, &row);
    }
}

static void tell_all(const struct bench *bench)
{
    for (size_t i = 0; i < LOADS; i++) {
        bool is_bulk = loads[i].way == BULK;
        tell(bench, &loads[i], is_bulk ? "" : ", p50", P50);
        if (!is_bulk)
            tell(bench, &loads[i], ", p99", P99);
        if (loads[i].way == PACED)
            tell(bench, &loads[i], ", disk still", STILL);
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    struct postgres postgres;
    struct broker broker;
    char journal[POSTGRES_CONNINFO_BYTES + 16];
    char cache[POSTGRES_PATH_BYTES];
    if (argc == 8 && strcmp(argv[1], "write") == 0) {
        return write_values(argv + 2);
    }
    if (argc == 5 && strcmp(argv[1], "read") == 0) {
        return read_values(argv + 2);
    }
    if (!bench_init(&bench, "store", argc, argv)) {
        return 2;
    }
    char path[512];
    if (!postgres_is_installed()) {
        printf("skipped: " POSTGRES_MISSING "\n");
        return 77;
    }
    if (access(process_path("postgres_store", path, sizeof path), X_OK) != 0) {
        printf("skipped: libpq was not there when this was built: install libpq-dev\n");
        return 77;
    }
    if (!postgres_start(&postgres, STANDBYS)) {
        bench_die("%s", postgres.why);
    }
    snprintf(journal, sizeof journal, "postgres:%s", postgres.conninfo);
    snprintf(cache, sizeof cache, "%s/cache", postgres.folder.path);
    const char *const more[] = {"--journal", journal, "--cache", cache, NULL};
    if (!broker_start(&broker, more)) {
        bench_die("errbusd is not ready: %s", process_complained(&broker.process));
    }
    measure(&bench, &postgres, broker.control);
    tell_all(&bench);
    broker_fini(&broker);
    postgres_fini(&postgres);
    return 0;
}
