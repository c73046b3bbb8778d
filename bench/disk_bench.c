/* SPDX-License-Identifier: MPL-2.0 */
/* disk_bench.c -- how long an error in place takes at durability `disk` while values of another
 * topic go to that disk as fast as it takes them; and how fast that is.  For values of 64 KiB and
 * of 1 MiB:
 *
 *   rate       of one writer to one reader, beside a plain program that appends blocks of the same
 *              size past the cache (O_DIRECT) and ends with an fdatasync(), as dd(1) does
 *   in place   from bus_slot_fail() until the reader has the error, with and without those values
 *   a sync     of the same disk at the same time: another program writes 512 bytes and calls
 *              fdatasync().  Errors are told in the median of these, too, and p99 beside p99 */
#include "bench/systems.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECONDS 2.0
#define COUNT 1500
#define EVERY_NS INT64_C(2000000)
#define DEVICE_BYTES ((size_t)256 << 20)
#define SYNC_BYTES 512
#define SYNC_EVERY_NS INT64_C(10000000)
#define SYNCS_MAX 100000
#define ALIGN_BYTES 4096
#define FULL_AFTER_BYTES ((int64_t)64 << 20) /* several times all queues on the way */

static const struct load loads[] = {
    {"64 KiB", (size_t)64 << 10, 1, 4},
    {"1 MiB", (size_t)1 << 20, 1, 1},
};
enum { LOADS = 2 };

/* ---- roles ----------------------------------------------------------------------------------- */

/* fail ENDPOINT COUNT: reserves, and fails what it reserved at a steady pace; the moment goes with
 * it */
static int fail_slots(char **words)
{
    struct bus *bus = bench_open(words[0], "failing");
    uint64_t count = strtoull(words[1], NULL, 10);
    role_ready();
    role_wait_go();
    int64_t at_ns = test_now_ns();
    for (uint64_t i = 0; i < count; i++) {
        struct bus_slot *slot = NULL;
        bench_check(bus_slot_reserve(bus, "w", BUS_FOREVER, &slot), "reserve");
        bench_sleep_until(at_ns += EVERY_NS);
        struct bus_error *error = bus_error_new("bench.failed", NULL, "on purpose");
        bench_check(bus_error_set_code(error, test_now_ns()), "code");
        bus_slot_fail(&slot, error);
        bus_error_unref(&error);
    }
    bench_check(bus_flush(bus, 60000), "flush");
    role_say_done(0);
    bus_close(&bus, 10000);
    return 0;
}

/* receive ENDPOINT COUNT: the errors */
static int receive(char **words)
{
    struct samples samples = {.count = 0};
    struct bus *bus = bench_open(words[0], "waiting");
    uint64_t count = strtoull(words[1], NULL, 10);
    struct bus_sub *sub = bench_subscribe(bus, "failing/w");
    role_ready();
    for (uint64_t i = 0; i < count; i++) {
        struct bus_error *error = bench_take_error(sub);
        samples_add(&samples, test_now_ns() - bus_error_code(error));
        bus_error_unref(&error);
    }
    samples_drop(&samples, samples.count / 10);
    role_say_done((int64_t)samples.count);
    samples_say(&samples);
    role_wait_go();
    bus_sub_close(&sub);
    bus_close(&bus, 10000);
    return 0;
}

/* flood ENDPOINT BYTES: as much as goes, until it is killed */
static int flood(char **words)
{
    size_t bytes = strtoull(words[1], NULL, 10);
    char *value = calloc(1, bytes);
    struct bus *bus = bench_open(words[0], "flooding");
    enum bus_err err = value != NULL ? BUS_OK : BUS_ENOMEM;
    role_ready();
    while (err == BUS_OK) {
        err = bus_publish(bus, "bulk", value, bytes);
    }
    bench_check(err, "publish");
    return 0;
}

/* drain ENDPOINT BYTES: takes it, until it is killed; says so once all queues are full */
static int drain(char **words)
{
    int64_t bytes = strtoll(words[1], NULL, 10);
    struct bus *bus = bench_open(words[0], "draining");
    struct bus_sub *sub = bench_subscribe(bus, "flooding/bulk");
    enum bus_err err = BUS_OK;
    role_ready();
    for (int64_t taken = 0; err == BUS_OK; taken++) {
        struct bus_msg *msg = NULL;
        if (taken == FULL_AFTER_BYTES / bytes) {
            role_say_done(taken);
        }
        err = bus_sub_recv(sub, 60000, &msg, NULL);
        bus_msg_free(&msg);
    }
    bench_check(err, "receive");
    return 0;
}

static int make_file(const char *folder, int flags)
{
    char path[512];
    snprintf(path, sizeof path, "%s/file", folder);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);
    if (file < 0) {
        bench_die("%s: %s", path, strerror(errno));
    }
    return file;
}

/* sync FOLDER COUNT: one block behind the other in a file that has its room, as the journal writes,
 * each with a sync */
static int sync_blocks(char **words)
{
    char block[SYNC_BYTES];
    struct samples samples = {.count = 0};
    int file = make_file(words[0], 0);
    int count = (int)strtol(words[1], NULL, 10);
    memset(block, 'x', sizeof block);
    if (posix_fallocate(file, 0, (off_t)count * SYNC_BYTES) != 0) {
        bench_die("the disk is full");
    }
    role_ready();
    role_wait_go();
    int64_t at_ns = test_now_ns();
    for (int i = 0; i < count; i++) {
        bench_sleep_until(at_ns += SYNC_EVERY_NS);
        int64_t from_ns = test_now_ns();
        if (pwrite(file, block, sizeof block, (off_t)i * SYNC_BYTES) != SYNC_BYTES ||
            fdatasync(file) != 0) {
            bench_die("the disk cannot be written");
        }
        samples_add(&samples, test_now_ns() - from_ns);
    }
    role_say_done((int64_t)samples.count);
    samples_say(&samples);
    role_wait_go();
    close(file);
    return 0;
}

/* ---- one run ----------------------------------------------------------------------------------*/

enum figure {
    ERROR_P50,
    ERROR_P99,
    SYNC_P50,
    SYNC_P99,
    P50_BY_SYNCS,
    P99_BY_SYNCS,
    P99_TO_P99,
    FIGURES
};
static const struct {
    const char *what;
    const char *system;
    const char *unit;
} figures[FIGURES] = {
    [ERROR_P50] = {"p50", "in place", "us"},
    [ERROR_P99] = {"p99", "in place", "us"},
    [SYNC_P50] = {"p50", "a sync", "us"},
    [SYNC_P99] = {"p99", "a sync", "us"},
    [P50_BY_SYNCS] = {"p50", "in place by syncs", "syncs"},
    [P99_BY_SYNCS] = {"p99", "in place by syncs", "syncs"},
    [P99_TO_P99] = {"p99", "in place to a sync", "x"},
};

/* By run; the last place is that of an idle broker. */
static double raised[LOADS + 1][FIGURES][BENCH_RUNS_MAX];
static double rates[LOADS][BENCH_RUNS_MAX];
static double device_rates[LOADS][BENCH_RUNS_MAX];

static void start(struct process *role, const char *name, const char *at, size_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", number);
    const char *const words[] = {"disk_bench", name, at, text, NULL};
    role_start(role, words);
}

static void take(struct process *role, double *out_p50, double *out_p99)
{
    struct samples samples = {.count = 0};
    samples_read(&samples, role, (size_t)role_done(role));
    *out_p50 = samples_percentile(&samples, 50);
    *out_p99 = samples_percentile(&samples, 99);
    samples_fini(&samples);
}

struct cast {
    struct process receiving, failing, syncing, draining, flooding;
};

/* bytes: of each value of the bulk; 0: there is none. */
static void play(struct cast *cast, const char *at, const char *folder, size_t bytes, size_t count,
                 double out[FIGURES][BENCH_RUNS_MAX], size_t run)
{
    start(&cast->receiving, "receive", at, count);
    start(&cast->failing, "fail", at, count);
    start(&cast->syncing, "sync", folder, count * EVERY_NS / SYNC_EVERY_NS);
    if (bytes > 0) {
        start(&cast->draining, "drain", at, bytes);
        start(&cast->flooding, "flood", at, bytes);
        (void)role_done(&cast->draining);
    }
    role_go(&cast->syncing);
    role_go(&cast->failing);
    take(&cast->receiving, &out[ERROR_P50][run], &out[ERROR_P99][run]);
    take(&cast->syncing, &out[SYNC_P50][run], &out[SYNC_P99][run]);
    out[P50_BY_SYNCS][run] = out[ERROR_P50][run] / out[SYNC_P50][run];
    out[P99_BY_SYNCS][run] = out[ERROR_P99][run] / out[SYNC_P50][run];
    out[P99_TO_P99][run] = out[ERROR_P99][run] / out[SYNC_P99][run];
}

static void run_beside(size_t bytes, size_t count, double out[FIGURES][BENCH_RUNS_MAX], size_t run)
{
    struct folder folder;
    struct broker broker;
    struct cast cast;
    char journal[FOLDER_PATH_BYTES_MAX + 16];
    memset(&cast, 0, sizeof cast);
    if (!folder_make(&folder)) {
        bench_die("no folder can be made");
    }
    snprintf(journal, sizeof journal, "%s/journal", folder.path);
    const char *const words[] = {"--journal", journal, "--durability", "disk", NULL};
    if (!broker_start(&broker, words)) {
        bench_die("errbusd is not ready: %s", process_complained(&broker.process));
    }
    play(&cast, broker.control, folder.path, bytes, count, out, run);
    role_fini(&cast.flooding);
    role_fini(&cast.draining);
    role_fini(&cast.syncing);
    role_fini(&cast.failing);
    role_fini(&cast.receiving);
    broker_fini(&broker);
    folder_fini(&folder);
}

/* Where a file system takes no writes past the cache, they go through it. */
static double run_device(size_t bytes, size_t total)
{
    struct folder folder;
    void *block = NULL;
    size_t count = total / bytes;
    if (!folder_make(&folder) || posix_memalign(&block, ALIGN_BYTES, bytes) != 0) {
        bench_die("no folder or memory");
    }
    memset(block, 'x', bytes);
    int file = make_file(folder.path, 0);
    (void)fcntl(file, F_SETFL, O_DIRECT); /* or not, see above */
    int64_t from_ns = test_now_ns();
    for (size_t i = 0; i < count; i++) {
        if (write(file, block, bytes) != (ssize_t)bytes) {
            bench_die("the disk cannot be written");
        }
    }
    if (fdatasync(file) != 0) {
        bench_die("the disk cannot be written");
    }
    int64_t took_ns = test_now_ns() - from_ns;
    close(file);
    free(block);
    folder_fini(&folder);
    return (double)count * 1e9 / (double)took_ns;
}

/* Every second run begins with the other one. */
static void run_rates(const struct bench *bench, const struct system *system, size_t i, size_t run)
{
    const struct load *load = &loads[i];
    uint64_t count = load_count(load, system, bench->is_quick ? SECONDS / 10 : SECONDS);
    size_t total = bench->is_quick ? DEVICE_BYTES / 10 : DEVICE_BYTES;
    if (run % 2 == 1) {
        device_rates[i][run] = run_device(load->bytes, total);
    }
    if (!system_rate(system, load, count, &rates[i][run])) {
        bench_die("%s does not carry values", system->name);
    }
    if (run % 2 == 0) {
        device_rates[i][run] = run_device(load->bytes, total);
    }
}

/* ---- telling --------------------------------------------------------------------------------- */

static void tell_raised(const struct bench *bench, const char *when, size_t place, uint64_t n)
{
    char what[64];
    for (size_t i = 0; i < FIGURES; i++) {
        struct bench_row row = {.what = what,
                                .system = figures[i].system,
                                .unit = figures[i].unit,
                                .values = raised[place][i],
                                .runs = bench->runs,
                                .n = n};
        snprintf(what, sizeof what, "%s, %s", when, figures[i].what);
        bench_tell(bench, &row);
    }
}

static void tell_rates(const struct bench *bench, size_t i)
{
    struct bench_row row = {.what = loads[i].what,
                            .system = "errbus disk",
                            .unit = "1/s",
                            .values = rates[i],
                            .runs = bench->runs,
                            .n = 1};
    double ours = bench_tell(bench, &row);
    row.system = "device";
    row.values = device_rates[i];
    row.ratio = ours / bench_median(device_rates[i], bench->runs);
    bench_tell(bench, &row);
}

static void ask(const struct bench *bench)
{
    char when[64];
    struct systems systems;
    size_t count = bench_count(bench, COUNT);
    systems_find(&systems, bench, FOR_RATE);
    for (size_t run = 0; run < bench->runs; run++) {
        run_beside(0, count, raised[LOADS], run);
        for (size_t i = 0; i < LOADS; i++) {
            run_beside(loads[i].bytes, count, raised[i], run);
            run_rates(bench, systems.at[0], i, run);
        }
    }
    for (size_t i = 0; i < LOADS; i++) {
        tell_rates(bench, i);
    }
    tell_raised(bench, "idle", LOADS, count);
    for (size_t i = 0; i < LOADS; i++) {
        snprintf(when, sizeof when, "beside %s", loads[i].what);
        tell_raised(bench, when, i, count);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(char **words);
    } roles[] = {{"fail", fail_slots},
                 {"receive", receive},
                 {"flood", flood},
                 {"drain", drain},
                 {"sync", sync_blocks}};
    struct bench bench;
    for (size_t i = 0; argc > 2 && i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(argv[1], roles[i].name) == 0) {
            return roles[i].run(argv + 2);
        }
    }
    if (!bench_init(&bench, "disk", argc, argv)) {
        return 2;
    }
    bench.systems = "errbus disk";
    ask(&bench);
    return 0;
}
