/* SPDX-License-Identifier: MPL-2.0 */
/* seal_bench.c -- what it costs to seal traces to an auditor, beside what goes out in the open.
 *
 *   trace            a call of bus_slot_fail() with a stacktrace of 4 KiB
 *   attachment       one of 32 MiB, from the failed slot until the broker has all of it
 *   attachment read  fetched again; and opened, where it is sealed
 *
 * The two take turns, and every second run begins with the other one.  Each has a broker of its
 * own. */
#include "bench/harness.h"
#include "tests/lib/folder.h"

#include <bus/access.h>
#include <bus/report.h>
#include <bus/seal.h>
#include <stdlib.h>
#include <string.h>

#define TRACES 2000
#define STACK_BYTES 4096
#define ATTACHMENT_BYTES (UINT64_C(32) * 1024 * 1024)
#define NS_PER_US 1e3
#define TIMEOUT_MS 60000

enum { OPEN, SEALED, WAYS };
static const char *const way_names[WAYS] = {"in the open", "sealed"};

enum { TRACE, BROUGHT, READ, FIGURES };
static const struct {
    const char *what, *unit;
} figures[FIGURES] = {
    {"trace of 4 KiB", "us"}, {"attachment", "MB/s"}, {"attachment read", "MB/s"}};

/* The auditor, the parties, and the broker of one run. */
struct scene {
    struct folder folder;
    struct broker broker;
    char key_path[FOLDER_PATH_BYTES_MAX + 8];
    char key[BUS_KEY_TEXT_BYTES];
    struct bus *failing;
    struct bus *waiting;
    struct bus_sub *sub;
};

static double values[FIGURES][WAYS][BENCH_RUNS_MAX];

static struct bus *open_party(const struct scene *scene, const char *name, const char *auditor)
{
    struct bus_options options;
    struct bus *bus = NULL;
    bus_options_init(&options);
    options.party = name;
    options.disclosure = BUS_DISCLOSURE_FULL;
    options.auditor = auditor;
    bench_check(bus_open(scene->broker.control, &options, TIMEOUT_MS, &bus, NULL), "bus_open");
    return bus;
}

static void scene_open(struct scene *scene, int way)
{
    if (!folder_make(&scene->folder))
        bench_die("no folder can be made");
    snprintf(scene->key_path, sizeof scene->key_path, "%s/key", scene->folder.path);
    bench_check(bus_key_new(scene->key_path, scene->key, NULL), "bus_key_new");
    bench_broker(&scene->broker);
    scene->failing = open_party(scene, "failing", way == SEALED ? scene->key : NULL);
    scene->waiting = open_party(scene, "waiting", NULL);
    scene->sub = bench_subscribe(scene->waiting, "failing/w");
}

static void scene_close(struct scene *scene)
{
    bus_sub_close(&scene->sub);
    bench_check(bus_close(&scene->waiting, TIMEOUT_MS), "close");
    bench_check(bus_close(&scene->failing, TIMEOUT_MS), "close");
    broker_fini(&scene->broker);
    folder_fini(&scene->folder);
}

static struct bus_slot *reserve(const struct scene *scene)
{
    struct bus_slot *slot = NULL;
    bench_check(bus_slot_reserve(scene->failing, "w", BUS_FOREVER, &slot), "reserve");
    return slot;
}

/* Where an error is in the open, its trace must be there; where it is sealed, not. */
static void check_error(const struct bus_error *error, int way)
{
    bool is_sealed = bus_error_sealed_bytes(error) > 0;
    bool has_stack = *bus_error_stacktrace(error) != '\0';
    if (is_sealed != (way == SEALED) || has_stack == is_sealed)
        bench_die("an error is not %s", way_names[way]);
}

/* In us, of half of the calls at most. */
static double measure_traces(const struct scene *scene, int way, uint64_t count)
{
    static char stack[STACK_BYTES + 1];
    struct samples samples = {.count = 0};
    memset(stack, 'x', STACK_BYTES);
    for (uint64_t i = 0; i < count; i++) {
        struct bus_slot *slot = reserve(scene);
        struct bus_error *error = bus_error_new("bench.failed", NULL, "on purpose");
        bench_check(bus_error_set_stacktrace(error, stack), "stacktrace");
        int64_t from_ns = test_now_ns();
        bus_slot_fail(&slot, error);
        samples_add(&samples, test_now_ns() - from_ns);
        bus_error_unref(&error);
        error = bench_take_error(scene->sub);
        check_error(error, way);
        bus_error_unref(&error);
    }
    double us = samples_percentile(&samples, 50);
    samples_fini(&samples);
    return us;
}

static int count_bytes(const void *bytes, size_t count, void *arg)
{
    uint64_t *sum = arg;
    (void)bytes;
    *sum += count;
    return 0;
}

static double mb_a_second(uint64_t bytes, int64_t ns)
{
    return (double)bytes / NS_PER_US * 1e6 / (double)ns;
}

static double measure_read(const struct scene *scene, int way, const struct bus_error *error,
                           uint64_t bytes)
{
    struct bus_admin *admin = NULL;
    uint64_t sum = 0;
    enum bus_err err;
    bench_check(bus_admin_open(scene->broker.control, NULL, TIMEOUT_MS, &admin, NULL), "admin");
    int64_t from_ns = test_now_ns();
    if (way == SEALED)
        err = bus_admin_attachment_open(admin, "default", error, "data", scene->key_path,
                                        TIMEOUT_MS, count_bytes, &sum, NULL);
    else
        err = bus_admin_attachment_fetch(admin, "default", bus_error_id(error), "data", TIMEOUT_MS,
                                         count_bytes, &sum, NULL);
    int64_t ns = test_now_ns() - from_ns;
    bench_check(err, "fetch");
    if (sum != bytes)
        bench_die("%llu bytes came", (unsigned long long)sum);
    bus_admin_close(&admin);
    return mb_a_second(bytes, ns);
}

static void measure_attachment(const struct scene *scene, int way, uint64_t bytes, double *brought,
                               double *read)
{
    struct bus_slot *slot = reserve(scene);
    struct bus_error *error = bus_error_new("bench.failed", NULL, "on purpose");
    char *data = malloc(bytes);
    if (data == NULL)
        bench_die("no memory");
    memset(data, 'x', bytes);
    bench_check(bus_error_add_data(error, "data", data, bytes), "attach");
    free(data);
    int64_t from_ns = test_now_ns();
    bus_slot_fail(&slot, error);
    bench_check(bus_flush(scene->failing, TIMEOUT_MS), "flush");
    *brought = mb_a_second(bytes, test_now_ns() - from_ns);
    bus_error_unref(&error);
    error = bench_take_error(scene->sub);
    *read = measure_read(scene, way, error, bytes);
    bus_error_unref(&error);
}

static void run_one(const struct bench *bench, int way, size_t run)
{
    struct scene scene;
    scene_open(&scene, way);
    values[TRACE][way][run] = measure_traces(&scene, way, bench_count(bench, TRACES));
    measure_attachment(&scene, way, bench_count(bench, ATTACHMENT_BYTES),
                       &values[BROUGHT][way][run], &values[READ][way][run]);
    scene_close(&scene);
}

static void tell(const struct bench *bench, int figure)
{
    double open = bench_median(values[figure][OPEN], bench->runs);
    double sealed = bench_median(values[figure][SEALED], bench->runs);
    for (int way = 0; way < WAYS; way++) {
        struct bench_row row = {.what = figures[figure].what,
                                .system = way_names[way],
                                .unit = figures[figure].unit,
                                .values = values[figure][way],
                                .runs = bench->runs,
                                .n = figure == TRACE ? bench_count(bench, TRACES) : 1,
                                .ratio = way == OPEN ? sealed / open : 0};
        bench_tell(bench, &row);
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    if (!bench_init(&bench, "seal", argc, argv))
        return 2;
    for (size_t run = 0; run < bench.runs; run++)
        for (int i = 0; i < WAYS; i++)
            run_one(&bench, run % 2 == 0 ? i : WAYS - 1 - i, run);
    for (int figure = 0; figure < FIGURES; figure++)
        tell(&bench, figure);
    return 0;
}
