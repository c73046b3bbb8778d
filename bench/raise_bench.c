/* SPDX-License-Identifier: MPL-2.0 */
/* raise_bench.c -- the time from bus_slot_fail() until the slot's reader has the error, and
 * until its event is on the control channel.  Each case runs over tcp and over ipc:
 *
 *   - an idle broker, and one that another topic saturates;
 *   - without a tap: the promised value instead of the error, for comparison;
 *   - behind values of the same topic, at full rate, with the rate that is left and the rate
 *     without errors; over tcp also a small value among them, 200 times a second by its due time,
 *     from the thread that publishes them: so it waits in bus_publish() for room, too;
 *   - with keys: beside a flood of false handshakes at this broker, and at another one.  The second
 *     says what the flood costs by the processor time that it takes from the machine.  The same
 *     beside whole handshakes with a key that nobody knows; their processor time is told.
 *
 * The error carries the time of its failure as its code.  All processes read one monotonic
 * clock. */
#include "bench/curve.h"
#include "bench/harness.h"
#include "bench/unknown_keys.h"
#include "tests/lib/folder.h"
#include "tests/lib/knock.h"

#include <bus/tap.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COUNT 1500
#define EVERY_NS INT64_C(2000000)
#define DUE_EVERY_NS INT64_C(5000000)
#define VALUE_BYTES 256
#define DUE_BYTES 64
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

/* flood ENDPOINT: as much as goes, until it is killed; with a word more, with a broken promise now
 * and then */
static int flood(char **words)
{
    static char value[BULK_BYTES];
    struct bus *bus = bench_open(words[0], "flooding");
    enum bus_err err = BUS_OK;
    int64_t due_ns = words[1] != NULL ? test_now_ns() : INT64_MAX;
    role_ready();
    while (err == BUS_OK) {
        err = bus_publish(bus, "bulk", value, sizeof value);
        if (due_ns != INT64_MAX && test_now_ns() >= due_ns) {
            struct bus_slot *slot = NULL;
            bench_check(bus_slot_reserve(bus, "bulk", BUS_FOREVER, &slot), "reserve");
            settle(&slot, false);
            due_ns = test_now_ns() + EVERY_NS;
        }
    }
    bench_check(err, "publish");
    return 0;
}

/* flood_due ENDPOINT: as much as goes, until it is killed; now and then a small value when it is
 * due, with that time */
static int flood_due(char **words)
{
    static char value[BULK_BYTES];
    int64_t due[DUE_BYTES / sizeof(int64_t)] = {0};
    struct bus *bus = bench_open(words[0], "flooding");
    enum bus_err err = BUS_OK;
    role_ready();
    due[0] = test_now_ns() + DUE_EVERY_NS;
    while (err == BUS_OK) {
        err = bus_publish(bus, "bulk", value, sizeof value);
        for (; err == BUS_OK && test_now_ns() >= due[0]; due[0] += DUE_EVERY_NS) {
            err = bus_publish(bus, "bulk", due, sizeof due);
        }
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

/* The time that a small value among the bulk was due; 0: it is of the bulk. */
static int64_t due_of(const struct bus_msg *msg)
{
    size_t bytes = 0;
    int64_t due_ns = 0;
    const void *value = bus_msg_value(msg, &bytes);
    if (bytes == DUE_BYTES) {
        memcpy(&due_ns, value, sizeof due_ns);
    }
    return due_ns;
}

/* stay ENDPOINT COUNT: takes the bulk with the errors, or the small values, in it; says how many
 * values a second it took
 * once all queues were full, for as long as it takes to fail COUNT slots elsewhere */
static int stay_behind(char **words)
{
    struct samples samples = {.count = 0};
    struct bus *bus = bench_open(words[0], "staying");
    int64_t lasts_ns = strtoll(words[1], NULL, 10) * EVERY_NS;
    struct bus_sub *sub = bench_subscribe(bus, "flooding/bulk");
    int64_t taken = 0;
    int64_t full_ns = 0;
    int64_t now_ns = 0;
    role_ready();
    while (full_ns == 0 || now_ns < full_ns + lasts_ns) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        enum bus_err err = bus_sub_recv(sub, 60000, &msg, &error);
        now_ns = test_now_ns();
        if (err == BUS_EFAILED) {
            if (full_ns != 0) {
                samples_add(&samples, now_ns - bus_error_code(error));
            }
            bus_error_unref(&error);
            continue;
        }
        bench_check(err, "receive");
        int64_t due_ns = due_of(msg);
        bus_msg_free(&msg);
        if (due_ns != 0) {
            if (full_ns != 0) {
                samples_add(&samples, now_ns - due_ns);
            }
        } else if (++taken == FULL_AFTER) {
            full_ns = now_ns;
        }
    }
    role_say_done((int64_t)((double)(taken - FULL_AFTER) * 1e9 / (double)(now_ns - full_ns)));
    return tell(&samples);
}

/* ---- false handshakes ------------------------------------------------------------------------ */

enum { KNOCKS_KEPT = 200 };
#define KNOCK_EVERY_NS INT64_C(500000) /* 2,000 connections a second */

/* knock ENDPOINT: from another address of this machine, until it is killed; each connection stays
 * for a tenth of a second */
static int knock_on(char **words)
{
    int fds[KNOCKS_KEPT];
    if (strrchr(words[0], ':') == NULL)
        bench_die("no endpoint to knock at: %s", words[0]);
    for (unsigned i = 0; i < KNOCKS_KEPT; i++)
        fds[i] = -1;
    role_ready();
    int64_t at_ns = test_now_ns();
    for (unsigned i = 0;; i = (i + 1) % KNOCKS_KEPT) {
        bench_sleep_until(at_ns += KNOCK_EVERY_NS);
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = knock(words[0], "127.0.0.2", NULL);
    }
}

/* ---- unknown keys ---------------------------------------------------------------------------- */

static int64_t own_processor_ns(void)
{
    struct timespec used;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0)
        bench_die("no clock of the processor time");
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

/* unknown ENDPOINT: from another address of this machine, until it is told to go.  Then it says, by
 * the second: how many connections it began, how many handshakes it completed, how many of these
 * keys were refused, and how many us of processor time it had. */
static int unknown(char **words)
{
    struct unknown_keys_told told;
    role_ready();
    int64_t begin_ns = test_now_ns();
    int64_t used_ns = own_processor_ns();
    unknown_keys_flood(words[0], "127.0.0.2", KNOCK_EVERY_NS, &told);
    double seconds = (double)(test_now_ns() - begin_ns) / 1e9;
    role_wait_go();
    role_say_done((int64_t)((double)told.dialled / seconds));
    role_say_done((int64_t)((double)told.complete / seconds));
    role_say_done((int64_t)((double)told.refused / seconds));
    role_say_done((int64_t)((double)(own_processor_ns() - used_ns) / 1e3 / seconds));
    role_wait_go();
    return 0;
}

/* ---- one run ------------------------------------------------------------------------------- */

enum place { IN_PLACE, ON_TAP, PLACES };
struct raised {
    double p50[PLACES][BENCH_RUNS_MAX];
    double p99[PLACES][BENCH_RUNS_MAX];
    double bulk_rate[BENCH_RUNS_MAX];
    double bulk_us[BENCH_RUNS_MAX];  /* processor time for one of its values, of all processes */
    struct samples together[PLACES]; /* of all runs */
};

enum way { OVER_TCP, OVER_IPC, OVER_CURVE, WAYS };
/* What is measured over each of them. */
static const char *const place_names[WAYS][2] = {
    {"in place", "tap"}, {"in place ipc", "tap ipc"}, {"in place curve", "tap curve"}};
static const char *const bulk_names[WAYS] = {"errbus", "errbus ipc", "errbus curve"};
static const char *const whole_names[WAYS] = {"no errors", "no errors ipc", "no errors curve"};

/* Of the flood of unknown keys, for a second. */
enum flood_figure { DIALLED, COMPLETE, REFUSED, FLOODER_US, FLOOD_FIGURES };
struct flooded {
    struct raised raised;
    double figures[FLOOD_FIGURES][BENCH_RUNS_MAX];
};

struct site {
    struct folder folder;
    struct broker broker;
};

static void site_open(struct site *site, enum way way)
{
    char control[BROKER_ENDPOINT_BYTES_MAX];
    char data[BROKER_ENDPOINT_BYTES_MAX];
    if (!folder_make(&site->folder)) {
        bench_die("no folder can be made");
    }
    snprintf(control, sizeof control, "ipc://%s/control", site->folder.path);
    snprintf(data, sizeof data, "ipc://%s/data", site->folder.path);
    /* Each error is told, as like ones are not that come as fast. */
    const char *words[12] = {"--test-like-errors", "1000000"};
    if (way == OVER_CURVE) {
        (void)curve_words(site->folder.path, words, 2);
        curve_use(site->folder.path);
    } else if (way == OVER_IPC) {
        words[2] = "--control";
        words[3] = control;
        words[4] = "--data";
        words[5] = data;
    }
    if (!broker_start(&site->broker, words)) {
        bench_die("errbusd is not ready: %s", process_complained(&site->broker.process));
    }
}

static void site_close(struct site *site)
{
    broker_fini(&site->broker);
    folder_fini(&site->folder);
    curve_forget();
}

static void start(struct process *role, const struct site *site, const char *name,
                  const char *count, const char *more)
{
    const char *const words[] = {"raise_bench", name, site->broker.control, count, more, NULL};
    role_start(role, words);
}

static void take(struct process *role, struct raised *raised, enum place place, size_t run)
{
    struct samples samples = {.count = 0};
    samples_read(&samples, role, (size_t)role_done(role));
    raised->p50[place][run] = samples_percentile(&samples, 50);
    raised->p99[place][run] = samples_percentile(&samples, 99);
    samples_add_all(&raised->together[place], &samples);
    samples_fini(&samples);
}

static void run_one(const char *count, enum way way, bool is_loaded, struct raised *raised,
                    size_t run)
{
    struct site site;
    struct process failing;
    struct process places[PLACES];
    struct process flooding = {.pid = 0};
    struct process draining = {.pid = 0};
    double before_us = bench_children_us();
    int64_t taken = 0;
    site_open(&site, way);
    start(&places[IN_PLACE], &site, "receive", count, NULL);
    start(&places[ON_TAP], &site, "tap", count, NULL);
    start(&failing, &site, "fail", count, NULL);
    if (is_loaded) {
        start(&draining, &site, "drain", NULL, NULL);
        start(&flooding, &site, "flood", NULL, NULL);
    }
    int64_t before = is_loaded ? role_done(&draining) : 0;
    int64_t start_ns = test_now_ns();
    role_go(&failing);
    take(&places[ON_TAP], raised, ON_TAP, run);
    take(&places[IN_PLACE], raised, IN_PLACE, run);
    if (is_loaded) {
        role_go(&draining);
        taken = role_done(&draining);
        raised->bulk_rate[run] =
            (double)(taken - before) * 1e9 / (double)(test_now_ns() - start_ns);
    }
    role_fini(&flooding);
    role_fini(&draining);
    role_fini(&failing);
    role_fini(&places[IN_PLACE]);
    role_fini(&places[ON_TAP]);
    site_close(&site);
    if (is_loaded)
        raised->bulk_us[run] = (bench_children_us() - before_us) / (double)taken;
}

/* Nobody taps; the one place is the receiver's. */
static void run_untapped(const char *count, const char *is_value, struct raised *raised, size_t run)
{
    struct site site;
    struct process failing;
    struct process receiving;
    site_open(&site, OVER_TCP);
    start(&receiving, &site, "receive", count, is_value);
    start(&failing, &site, "fail", count, is_value);
    role_go(&failing);
    take(&receiving, raised, IN_PLACE, run);
    role_fini(&failing);
    role_fini(&receiving);
    site_close(&site);
}

/* Behind the bulk of the same topic, which such a role publishes; is_failing NULL: nothing but the
 * bulk, or what that role has in it. */
static void run_behind(const char *count, enum way way, const char *role, const char *is_failing,
                       struct raised *raised, size_t run)
{
    struct site site;
    struct process flooding;
    struct process staying;
    site_open(&site, way);
    start(&staying, &site, "stay", count, NULL);
    start(&flooding, &site, role, is_failing, NULL);
    raised->bulk_rate[run] = (double)role_done(&staying);
    take(&staying, raised, IN_PLACE, run);
    role_fini(&flooding);
    role_fini(&staying);
    site_close(&site);
}

/* Errors beside false handshakes or unknown keys: at their own broker, or at another one. */
static void run_flooded(const char *count, const char *role, bool is_own, struct flooded *flooded,
                        size_t run)
{
    struct site site;
    struct site other;
    struct process failing;
    struct process places[PLACES];
    struct process knocking;
    site_open(&other, OVER_CURVE);
    site_open(&site, OVER_CURVE);
    start(&places[IN_PLACE], &site, "receive", count, NULL);
    start(&places[ON_TAP], &site, "tap", count, NULL);
    start(&failing, &site, "fail", count, NULL);
    start(&knocking, is_own ? &site : &other, role, NULL, NULL);
    role_go(&failing);
    take(&places[ON_TAP], &flooded->raised, ON_TAP, run);
    take(&places[IN_PLACE], &flooded->raised, IN_PLACE, run);
    if (strcmp(role, "unknown") == 0) {
        role_go(&knocking);
        for (int i = 0; i < FLOOD_FIGURES; i++)
            flooded->figures[i][run] = (double)role_done(&knocking);
    }
    role_fini(&knocking);
    role_fini(&failing);
    role_fini(&places[IN_PLACE]);
    role_fini(&places[ON_TAP]);
    site_close(&site);
    site_close(&other);
}

/* ---- telling --------------------------------------------------------------------------------- */

static void report(const struct bench *bench, const char *when, enum way way, enum place last,
                   struct raised *raised, uint64_t n)
{
    char what[64];
    char curve[96];
    for (enum place place = 0; place <= last; place++) {
        struct bench_row row = {.what = what,
                                .system = place_names[way][place],
                                .unit = "us",
                                .values = raised->p50[place],
                                .runs = bench->runs,
                                .n = n};
        snprintf(what, sizeof what, "%s, p50", when);
        bench_tell(bench, &row);
        row.values = raised->p99[place];
        snprintf(what, sizeof what, "%s, p99", when);
        bench_tell(bench, &row);
        snprintf(curve, sizeof curve, "%s, %s", row.system, when);
        bench_draw_percentiles(bench, "raise: from a failure to its error", curve,
                               &raised->together[place]);
    }
}

/* Beside the error what the value took, and the one to the other. */
static void report_untapped(const struct bench *bench, struct raised *error, struct raised *value,
                            uint64_t n)
{
    report(bench, "untapped", OVER_TCP, IN_PLACE, error, n);
    for (int i = 0; i < 2; i++) {
        const double *errors = i == 0 ? error->p50[IN_PLACE] : error->p99[IN_PLACE];
        struct bench_row row = {.what = i == 0 ? "untapped, p50" : "untapped, p99",
                                .system = "a value",
                                .unit = "us",
                                .values = i == 0 ? value->p50[IN_PLACE] : value->p99[IN_PLACE],
                                .runs = bench->runs,
                                .n = n};
        row.ratio = bench_median(errors, bench->runs) / bench_median(row.values, bench->runs);
        bench_tell(bench, &row);
    }
    bench_draw_percentiles(bench, "raise: from a failure to its error", "a value, untapped",
                           &value->together[IN_PLACE]);
}

/* whole: without errors; NULL: nothing to compare with. */
static void report_rate(const struct bench *bench, const char *what, enum way way,
                        const struct raised *raised, const struct raised *whole, uint64_t n)
{
    struct bench_row row = {.what = what,
                            .system = bulk_names[way],
                            .unit = "1/s",
                            .values = raised->bulk_rate,
                            .runs = bench->runs,
                            .n = n};
    double median = bench_tell(bench, &row);
    if (whole != NULL) {
        row.system = whole_names[way];
        row.values = whole->bulk_rate;
        row.ratio = median / bench_median(row.values, bench->runs);
        bench_tell(bench, &row);
    }
}

/* What a value of the bulk costs, and the share of it over tcp that is not the cipher's. */
static void report_processor(const struct bench *bench, enum way way, const struct raised *raised,
                             const struct raised *tcp, uint64_t n)
{
    struct bench_row row = {.what = "the bulk meanwhile, processor",
                            .system = bulk_names[way],
                            .unit = "us",
                            .values = raised->bulk_us,
                            .runs = bench->runs,
                            .n = n};
    row.ratio =
        bench_median(tcp->bulk_us, bench->runs) / bench_median(raised->bulk_us, bench->runs);
    bench_tell(bench, &row);
}

/* How many there were, and the processor time that the flooder had of a second. */
static void report_flood(const struct bench *bench, const char *system,
                         const struct flooded *flooded)
{
    static const char *const names[FLOOD_FIGURES] = {
        "unknown keys: connections begun", "unknown keys: handshakes completed",
        "unknown keys: refused", "unknown keys: the flooder, a second"};
    for (int i = 0; i < FLOOD_FIGURES; i++) {
        struct bench_row row = {.what = names[i],
                                .system = system,
                                .unit = i == FLOODER_US ? "us" : "1/s",
                                .values = flooded->figures[i],
                                .runs = bench->runs};
        bench_tell(bench, &row);
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

struct answers {
    struct raised idle, loaded, behind, alone;
};

/* With keys alone: by which role its own broker is flooded, or another one. */
enum { AT_OWN, AT_OTHER, FLOOD_PLACES };
enum { FALSE_HANDSHAKES, UNKNOWN_KEYS, FLOOD_KINDS };
static const char *const flood_roles[FLOOD_KINDS] = {"knock", "unknown"};
static const char *const flood_names[FLOOD_KINDS][FLOOD_PLACES] = {
    {"flooded", "another is flooded"},
    {"flooded by unknown keys", "another is flooded by unknown keys"}};
static struct flooded floods[FLOOD_KINDS][FLOOD_PLACES];

static int flood_kinds(void)
{
    return unknown_keys_are_there() ? FLOOD_KINDS : UNKNOWN_KEYS;
}

static void run_floods(const char *count, size_t run)
{
    for (int kind = 0; kind < flood_kinds(); kind++)
        for (int place = AT_OWN; place < FLOOD_PLACES; place++)
            run_flooded(count, flood_roles[kind], place == AT_OWN, &floods[kind][place], run);
}

static void report_floods(const struct bench *bench, uint64_t n)
{
    for (int kind = 0; kind < flood_kinds(); kind++)
        for (int place = AT_OWN; place < FLOOD_PLACES; place++)
            report(bench, flood_names[kind][place], OVER_CURVE, ON_TAP, &floods[kind][place].raised,
                   n);
    for (int place = AT_OWN; flood_kinds() > UNKNOWN_KEYS && place < FLOOD_PLACES; place++)
        report_flood(bench, place == AT_OWN ? "its broker" : "another",
                     &floods[UNKNOWN_KEYS][place]);
}

static void ask(const struct bench *bench, uint64_t n)
{
    static struct answers over[WAYS];
    enum way ways = bench->is_curve ? WAYS : OVER_CURVE;
    static struct raised due;
    static struct raised error;
    static struct raised value;
    char count[32];
    snprintf(count, sizeof count, "%llu", (unsigned long long)n);
    for (size_t run = 0; run < bench->runs; run++) {
        for (enum way way = OVER_TCP; way < ways; way++) {
            run_one(count, way, false, &over[way].idle, run);
            run_one(count, way, true, &over[way].loaded, run);
            run_behind(count, way, "flood", "failing", &over[way].behind, run);
            run_behind(count, way, "flood", NULL, &over[way].alone, run);
        }
        run_behind(count, OVER_TCP, "flood_due", NULL, &due, run);
        if (bench->is_curve)
            run_floods(count, run);
        run_untapped(count, NULL, &error, run);
        run_untapped(count, "value", &value, run);
    }
    for (enum way way = OVER_TCP; way < ways; way++) {
        struct answers *answers = &over[way];
        report(bench, "idle", way, ON_TAP, &answers->idle, n);
        report(bench, "beside 4 KiB bulk", way, ON_TAP, &answers->loaded, n);
        report(bench, "behind its own 4 KiB bulk", way, IN_PLACE, &answers->behind, n);
        report_rate(bench, "the bulk meanwhile", way, &answers->loaded, NULL, n);
        if (bench->is_curve)
            report_processor(bench, way, &answers->loaded, &over[OVER_TCP].loaded, n);
        report_rate(bench, "its own bulk meanwhile", way, &answers->behind, &answers->alone, n);
    }
    report(bench, "due in its own 4 KiB bulk", OVER_TCP, IN_PLACE, &due, n);
    report_rate(bench, "its own bulk beside due values", OVER_TCP, &due, &over[OVER_TCP].alone, n);
    if (bench->is_curve)
        report_floods(bench, n);
    report_untapped(bench, &error, &value, n);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(char **words);
    } roles[] = {{"fail", fail_slots}, {"receive", receive}, {"tap", tap_events},
                 {"flood", flood},     {"drain", drain},     {"stay", stay_behind},
                 {"knock", knock_on},  {"unknown", unknown}, {"flood_due", flood_due}};
    struct bench bench;
    for (size_t i = 0; argc > 2 && i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(argv[1], roles[i].name) == 0) {
            return roles[i].run(argv + 2);
        }
    }
    if (!bench_init(&bench, "raise", argc, argv)) {
        return 2;
    }
    ask(&bench, bench_count(&bench, COUNT));
    return 0;
}
