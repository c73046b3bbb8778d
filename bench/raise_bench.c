/* SPDX-License-Identifier: MPL-2.0 */
/* raise_bench.c -- how long from bus_slot_fail() to the error raised at who waits for the slot, and
 * to its event on the control channel; idle, and while another topic saturates the broker.  And how
 * long that is, where nobody taps, for the value that was promised.
 *
 * The error carries the moment of its failure as its code; all processes read one monotonic
 * clock. */
#include "bench/harness.h"

#include <bus/tap.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 1500
#define EVERY_NS INT64_C(2000000)
#define VALUE_BYTES 256
#define BULK_BYTES 4096
#define FULL_AFTER 32768 /* values taken: 128 MiB, several times all queues on the way together */

/* ---- roles ----------------------------------------------------------------------------------- */

/* Keeps or breaks a promise; the moment goes with it. */
static void settle(struct bus_slot **slot, bool is_value)
{
    int64_t now_ns[VALUE_BYTES / sizeof(int64_t)] = {test_now_ns()};
    if (is_value) {
        bench_check(bus_slot_commit(slot, now_ns, sizeof now_ns), "commit");
        return;
    }
    struct bus_error *error = bus_error_new("bench.failed", NULL, "on purpose");
    bench_check(bus_error_set_code(error, test_now_ns()), "code");
    bus_slot_fail(slot, error);
    bus_error_unref(&error);
}

/* fail ENDPOINT COUNT: reserves, and fails what it reserved at a steady pace; with a word more, it
 * keeps what it promised */
static int fail_slots(char **words)
{
    struct bus *bus = bench_open(words[0], "failing");
    uint64_t count = strtoull(words[1], NULL, 10);
    struct bus_slot *slot = NULL;
    bench_check(bus_slot_reserve(bus, "w", BUS_FOREVER, &slot), "reserve");
    bench_check(bus_flush(bus, 10000), "flush");
    role_ready();
    role_wait_go();
    int64_t at_ns = test_now_ns();
    for (uint64_t i = 0; i < count; i++) {
        bench_sleep_until(at_ns += EVERY_NS);
        settle(&slot, words[2] != NULL);
        bench_check(bus_slot_reserve(bus, "w", BUS_FOREVER, &slot), "reserve");
    }
    bench_check(bus_flush(bus, 60000), "flush");
    role_say_done(0);
    role_wait_go();
    bus_slot_fail(&slot, NULL);
    bus_close(&bus, 10000);
    return 0;
}

static int tell(struct samples *samples)
{
    role_say_done((int64_t)samples->count);
    samples_say(samples);
    role_wait_go();
    samples_fini(samples);
    return 0;
}

/* The moment that goes with the next one, which has to be of this kind. */
static int64_t take_next(struct bus_sub *sub, bool is_value)
{
    int64_t at_ns = 0;
    if (is_value) {
        struct bus_msg *msg = NULL;
        bench_check(bus_sub_recv(sub, 60000, &msg, NULL), "receive");
        memcpy(&at_ns, bus_msg_value(msg, NULL), sizeof at_ns);
        bus_msg_free(&msg);
        return at_ns;
    }
    struct bus_error *error = bench_take_error(sub);
    at_ns = bus_error_code(error);
    bus_error_unref(&error);
    return at_ns;
}

/* receive ENDPOINT COUNT: in place; with a word more, values */
static int receive(char **words)
{
    struct samples samples = {.count = 0};
    struct bus *bus = bench_open(words[0], "waiting");
    uint64_t count = strtoull(words[1], NULL, 10);
    struct bus_sub *sub = bench_subscribe(bus, "failing/w");
    role_ready();
    for (uint64_t i = 0; i < count; i++) {
        int64_t at_ns = take_next(sub, words[2] != NULL);
        int64_t now_ns = test_now_ns();
        if (i >= count / 10) {
            samples_add(&samples, now_ns - at_ns);
        }
    }
    int result = tell(&samples);
    bus_sub_close(&sub);
    bus_close(&bus, 10000);
    return result;
}

/* tap ENDPOINT COUNT: on the control channel */
static int tap_events(char **words)
{
    struct samples samples = {.count = 0};
    uint64_t count = strtoull(words[1], NULL, 10);
    struct bus_tap *tap = NULL;
    bench_check(bus_tap_open(words[0], NULL, 10000, &tap, NULL), "tap");
    role_ready();
    for (uint64_t i = 0; i < count;) {
        const struct bus_event *event = NULL;
        bench_check(bus_tap_next(tap, 60000, &event, NULL), "tap");
        int64_t now_ns = test_now_ns();
        if (strcmp(bus_event_name(event), "slot.failed") != 0) {
            continue;
        }
        if (i >= count / 10) {
            samples_add(&samples, now_ns - bus_error_code(bus_event_error(event)));
        }
        i++;
    }
    int result = tell(&samples);
    bus_tap_close(&tap);
    return result;
}

/* flood ENDPOINT: as much as goes, until it is killed */
static int flood(char **words)
{
    static char value[BULK_BYTES];
    struct bus *bus = bench_open(words[0], "flooding");
    enum bus_err err = BUS_OK;
    role_ready();
    while (err == BUS_OK) {
        err = bus_publish(bus, "bulk", value, sizeof value);
    }
    bench_check(err, "publish");
    return 0;
}

static _Atomic int64_t drained;
static sem_t is_full;

static void *take_values(void *arg)
{
    struct bus_sub *sub = arg;
    enum bus_err err = BUS_OK;
    while (err == BUS_OK) {
        struct bus_msg *msg = NULL;
        err = bus_sub_recv(sub, 60000, &msg, NULL);
        bus_msg_free(&msg);
        if (atomic_fetch_add(&drained, 1) == FULL_AFTER) {
            sem_post(&is_full);
        }
    }
    bench_check(err, "receive");
    return NULL;
}

/* drain ENDPOINT: takes it, until it is killed; says how much it took once all queues are full, and
 * again when told to go */
static int drain(char **words)
{
    struct bus *bus = bench_open(words[0], "draining");
    struct bus_sub *sub = bench_subscribe(bus, "flooding/bulk");
    pthread_t thread;
    if (sem_init(&is_full, 0, 0) != 0 || pthread_create(&thread, NULL, take_values, sub) != 0) {
        bench_die("no thread");
    }
    role_ready();
    while (sem_wait(&is_full) != 0) {
        continue; /* a signal came */
    }
    role_say_done(atomic_load(&drained));
    role_wait_go();
    role_say_done(atomic_load(&drained));
    role_wait_go();
    return 0;
}

/* ---- one run ------------------------------------------------------------------------------- */

enum place { IN_PLACE, ON_TAP, PLACES };
struct raised {
    double p50[PLACES][BENCH_RUNS_MAX];
    double p99[PLACES][BENCH_RUNS_MAX];
    double bulk_rate[BENCH_RUNS_MAX];
};

static void take(struct process *role, struct raised *raised, enum place place, size_t run)
{
    struct samples samples = {.count = 0};
    samples_read(&samples, role, (size_t)role_done(role));
    raised->p50[place][run] = samples_percentile(&samples, 50);
    raised->p99[place][run] = samples_percentile(&samples, 99);
    samples_fini(&samples);
}

/* Each is told, as like ones are not that come as fast. */
static const char *const every_error[] = {"--like-errors", "1000000", NULL};

static void run_one(const char *count, struct raised *raised, size_t run, bool is_loaded)
{
    struct broker broker;
    struct process failing;
    struct process places[PLACES];
    struct process flooding = {.pid = 0};
    struct process draining = {.pid = 0};
    if (!broker_start(&broker, every_error)) {
        bench_die("errbusd is not ready: %s", process_complained(&broker.process));
    }
    const char *const receive_words[] = {"raise_bench", "receive", broker.control, count, NULL};
    const char *const tap_words[] = {"raise_bench", "tap", broker.control, count, NULL};
    const char *const fail_words[] = {"raise_bench", "fail", broker.control, count, NULL};
    const char *const drain_words[] = {"raise_bench", "drain", broker.control, NULL};
    const char *const flood_words[] = {"raise_bench", "flood", broker.control, NULL};
    role_start(&places[IN_PLACE], receive_words);
    role_start(&places[ON_TAP], tap_words);
    role_start(&failing, fail_words);
    if (is_loaded) {
        role_start(&draining, drain_words);
        role_start(&flooding, flood_words);
    }
    int64_t before = is_loaded ? role_done(&draining) : 0;
    int64_t start_ns = test_now_ns();
    role_go(&failing);
    take(&places[ON_TAP], raised, ON_TAP, run);
    take(&places[IN_PLACE], raised, IN_PLACE, run);
    if (is_loaded) {
        role_go(&draining);
        raised->bulk_rate[run] =
            (double)(role_done(&draining) - before) * 1e9 / (double)(test_now_ns() - start_ns);
    }
    role_fini(&flooding);
    role_fini(&draining);
    role_fini(&failing);
    role_fini(&places[IN_PLACE]);
    role_fini(&places[ON_TAP]);
    broker_fini(&broker);
}

/* Nobody taps; the one place is the receiver's. */
static void run_untapped(const char *count, struct raised *raised, size_t run, const char *is_value)
{
    struct broker broker;
    struct process failing;
    struct process receiving;
    if (!broker_start(&broker, every_error)) {
        bench_die("errbusd is not ready: %s", process_complained(&broker.process));
    }
    const char *const receive_words[] = {"raise_bench", "receive", broker.control,
                                         count,         is_value,  NULL};
    const char *const fail_words[] = {"raise_bench", "fail", broker.control, count, is_value, NULL};
    role_start(&receiving, receive_words);
    role_start(&failing, fail_words);
    role_go(&failing);
    take(&receiving, raised, IN_PLACE, run);
    role_fini(&failing);
    role_fini(&receiving);
    broker_fini(&broker);
}

/* The error, and what it is to the value. */
static void report_untapped(const struct bench *bench, const struct raised *error,
                            const struct raised *value, uint64_t n)
{
    for (int i = 0; i < 2; i++) {
        const double *errors = i == 0 ? error->p50[IN_PLACE] : error->p99[IN_PLACE];
        const double *values = i == 0 ? value->p50[IN_PLACE] : value->p99[IN_PLACE];
        struct bench_row row = {.what = i == 0 ? "untapped, p50" : "untapped, p99",
                                .system = "in place",
                                .unit = "us",
                                .values = errors,
                                .runs = bench->runs,
                                .n = n};
        double median = bench_tell(bench, &row);
        row.system = "a value";
        row.values = values;
        row.ratio = median / bench_median(values, bench->runs);
        bench_tell(bench, &row);
    }
}

static void report(const struct bench *bench, const char *when, const struct raised *raised,
                   uint64_t n)
{
    static const char *const systems[PLACES] = {"in place", "tap"};
    char what[64];
    for (int place = 0; place < PLACES; place++) {
        struct bench_row row = {.what = what,
                                .system = systems[place],
                                .unit = "us",
                                .values = raised->p50[place],
                                .runs = bench->runs,
                                .n = n};
        snprintf(what, sizeof what, "%s, p50", when);
        bench_tell(bench, &row);
        row.values = raised->p99[place];
        snprintf(what, sizeof what, "%s, p99", when);
        bench_tell(bench, &row);
    }
}

int main(int argc, char **argv)
{
    static struct raised idle;
    static struct raised loaded;
    static struct raised error;
    static struct raised value;
    static const struct {
        const char *name;
        int (*run)(char **words);
    } roles[] = {{"fail", fail_slots},
                 {"receive", receive},
                 {"tap", tap_events},
                 {"flood", flood},
                 {"drain", drain}};
    struct bench bench;
    char count[32];
    for (size_t i = 0; argc > 2 && i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(argv[1], roles[i].name) == 0) {
            return roles[i].run(argv + 2);
        }
    }
    if (!bench_init(&bench, "raise", argc, argv)) {
        return 2;
    }
    uint64_t n = bench_count(&bench, COUNT);
    snprintf(count, sizeof count, "%llu", (unsigned long long)n);
    for (size_t run = 0; run < bench.runs; run++) {
        run_one(count, &idle, run, false);
        run_one(count, &loaded, run, true);
        run_untapped(count, &error, run, NULL);
        run_untapped(count, &value, run, "value");
    }
    report(&bench, "idle", &idle, n);
    report(&bench, "beside 4 KiB bulk", &loaded, n);
    report_untapped(&bench, &error, &value, n);
    struct bench_row row = {.what = "the bulk meanwhile",
                            .system = "errbus",
                            .unit = "1/s",
                            .values = loaded.bulk_rate,
                            .runs = bench.runs,
                            .n = n};
    bench_tell(&bench, &row);
    return 0;
}
