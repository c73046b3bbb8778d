/* SPDX-License-Identifier: MPL-2.0 */
/* link_bench.c -- what is carried over long links: writer and readers are each behind one, which
 * link_relay stands for, and the server is between them.  For each delay, rate and size:
 *
 *   share      of the rate of its link that the values take which come to a reader
 *   in place   from the failure of a slot behind saturated bulk of its own topic until the reader
 *              has the error; for the peers, which have no errors, a value of the bulk itself
 *   control    from that failure until its event is at a tap, whose link is as long
 *
 * With eight readers one is behind a link ten times slower.  A point takes some seconds; one where
 * two values would take longer than that is left out, and said. */
#include "bench/long_link.h"
#include "bench/systems.h"

#include <bus/tap.h>
#include <stdlib.h>
#include <string.h>

#define OWN_SYSTEMS "errbus,errbus disk,raw,zmq proxy,nats library"
#define MS INT64_C(1000000)
#define EVERY_NS (50 * MS) /* one error, or one value that is timed */
#define TELL_NS (20 * MS)  /* a reader says how far it is */
#define WARM_NS (400 * MS) /* and ten round trips over both links: windows have grown */
#define ROUND_TRIPS 10
#define WAYS_IN_TRIP 4 /* the windows of a topic follow the writer's link and the reader's */
#define MEASURED_NS (1500 * MS)
#define VALUES_MIN 2
#define SAMPLES_MIN 3
#define LOOK_MS 100
#define START_MS 30000 /* of a role */
#define POINT_NS_MAX (20000 * MS)
#define SLOWER 10
#define IN_PLACE_US 60e3 /* an error may take so long, and both links */
#define CONTROL_US 20e3
#define FAILED 1e-3

struct size {
    const char *name;
    size_t bytes;
    size_t group;
};
static const struct size sizes[] = {{"256 B", 256, 64},
                                    {"64 KiB", (size_t)64 * 1024, 1},
                                    {"1 MiB", (size_t)1024 * 1024, 1},
                                    {"64 MiB", (size_t)64 * 1024 * 1024, 1}};
static const struct rate {
    const char *name;
    uint64_t bits;
} rates[] = {{"10M", 10000000}, {"100M", 100000000}, {"1G", 1000000000}};
static const struct delay {
    const char *name;
    int64_t us;
} delays[] = {{"0.1 ms", 100}, {"5 ms", 5000}, {"25 ms", 25000}, {"100 ms", 100000}};
enum { SIZES = 4, RATES = 3, DELAYS = 4, SIZE_64K = 1, RATE_1G = 2, DELAY_25 = 2 };

struct point {
    const struct size *size;
    const struct rate *rate;
    const struct delay *delay;
    size_t readers;
};

/* What one run of one system at one point gave. */
struct measured {
    double share;
    double slow_share;
    double in_place_us[2]; /* p50, p99 */
    double control_us[2];
    uint64_t values;
};

/* ---- roles of Errbus --------------------------------------------------------------------------*/

static void fail_one(struct bus *bus)
{
    struct bus_slot *slot = NULL;
    bench_check(bus_slot_reserve(bus, "bulk", BUS_FOREVER, &slot), "reserve");
    struct bus_error *error = bus_error_new("bench.failed", NULL, "on purpose");
    bench_check(bus_error_set_code(error, test_now_ns()), "code");
    bus_slot_fail(&slot, error);
    bus_error_unref(&error);
}

/* flood ENDPOINT BYTES: as much as goes, with an error now and then, until it is killed */
static void play_flood(char **words)
{
    size_t bytes = strtoull(words[1], NULL, 10);
    char *value = calloc(1, bytes);
    struct bus *bus = bench_open(words[0], "flooding");
    if (value == NULL) {
        bench_die("no memory");
    }
    role_ready();
    role_wait_go();
    int64_t due_ns = test_now_ns();
    for (;;) {
        bench_check(bus_publish(bus, "bulk", value, bytes), "publish");
        if (test_now_ns() >= due_ns) {
            fail_one(bus);
            due_ns = test_now_ns() + EVERY_NS;
        }
    }
}

static void tell_sample(int64_t since_ns)
{
    printf("sample %lld\n", (long long)(test_now_ns() - since_ns));
    fflush(stdout);
}

/* drain ENDPOINT NAME: takes it, and says how far it is and how long each error took */
static void play_drain(char **words)
{
    struct bus *bus = bench_open(words[0], words[1]);
    struct bus_sub *sub = bench_subscribe(bus, "flooding/bulk");
    unsigned long long count = 0;
    unsigned long long errors = 0;
    int64_t told_ns = 0;
    role_ready();
    for (;;) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        enum bus_err err = bus_sub_recv(sub, BUS_FOREVER, &msg, &error);
        if (err == BUS_EFAILED) {
            tell_sample(bus_error_code(error));
            bus_error_unref(&error);
            errors++;
            continue;
        }
        bench_check(err, "receive");
        if (bus_msg_seq(msg) != count + errors) {
            bench_die("slot %llu where %llu was due", (unsigned long long)bus_msg_seq(msg),
                      count + errors);
        }
        bus_msg_free(&msg);
        count++;
        if (test_now_ns() >= told_ns + TELL_NS) {
            told_ns = test_now_ns();
            printf("at %llu %lld\n", count, (long long)told_ns);
            fflush(stdout);
        }
    }
}

/* tap ENDPOINT: says how long each error took on the control channel */
static void play_tap(char **words)
{
    struct bus_tap *tap = NULL;
    bench_check(bus_tap_open(words[0], NULL, 10000, &tap, NULL), "tap");
    role_ready();
    for (;;) {
        const struct bus_event *event = NULL;
        bench_check(bus_tap_next(tap, BUS_FOREVER, &event, NULL), "tap");
        if (strcmp(bus_event_name(event), "slot.failed") == 0) {
            tell_sample(bus_error_code(bus_event_error(event)));
        }
    }
}

/* ---- one run ----------------------------------------------------------------------------------*/

/* The processes of a run; peers have a stage, Errbus has its broker. */
struct run {
    const struct point *point;
    struct stage stage;
    struct broker broker;
    struct long_link link;
    struct long_link slow_link;
    struct process writer;
    struct process tap;
    struct process readers[READERS_MAX];
};

/* How far a reader is, and its samples from a time on. */
struct progress {
    unsigned long long first;
    unsigned long long last;
    int64_t first_ns; /* 0: nothing counts yet */
    int64_t last_ns;
    struct samples samples;
};

static bool is_own(const struct system *system)
{
    return strcmp(system->program, "errbus_peer") == 0;
}

/* Is there a way to have it behind links, and does its mode mean anything here? */
static bool can_be_far(const struct system *system)
{
    bool is_known = !is_own(system) || system->mode[0] == '\0' ||
                    strcmp(system->mode, "process") == 0 || strcmp(system->mode, "disk") == 0;
    return is_known && (system->flags & OVER_IPC) == 0;
}

static bool complain(const struct run *run, struct process *role, const char *what)
{
    return stage_complain(&run->stage, role, what);
}

/* words: from the role on. */
static bool start_own(struct run *run, struct process *role, const char *name, const char *at,
                      const char *more)
{
    const char *const words[] = {"link_bench", name, at, more, NULL};
    const char *line = NULL;
    return (process_start(role, words, NULL) && process_line(role, START_MS, &line) &&
            strcmp(line, "ready") == 0) ||
           complain(run, role, "does not start");
}

static bool start_links(struct run *run, const char *at)
{
    const struct point *point = run->point;
    return long_link_start(&run->link, at, point->rate->bits, point->delay->us) &&
           long_link_start(&run->slow_link, at, point->rate->bits / SLOWER, point->delay->us);
}

static const char *link_of(const struct run *run, size_t reader)
{
    bool is_slow = run->point->readers > 1 && reader + 1 == run->point->readers;
    return is_slow ? run->slow_link.at : run->link.at;
}

static bool start_broker(struct run *run, const struct system *system)
{
    char at[2 * BROKER_ENDPOINT_BYTES_MAX + 8];
    char journal[FOLDER_PATH_BYTES_MAX + 16];
    if (!folder_make(&run->stage.folder)) {
        bench_die("no folder can be made");
    }
    snprintf(journal, sizeof journal, "%s/journal", run->stage.folder.path);
    /* Each error is told, as like ones are not that come as fast. */
    const char *const words[] = {"--test-like-errors",
                                 "1000000",
                                 system->mode[0] != '\0' ? "--journal" : NULL,
                                 journal,
                                 "--durability",
                                 system->mode,
                                 NULL};
    if (!broker_start(&run->broker, words)) {
        return complain(run, &run->broker.process, "is not ready");
    }
    snprintf(at, sizeof at, "%s,data=%s", run->broker.control, run->broker.data);
    return start_links(run, at);
}

static bool start_errbus(struct run *run, const struct system *system)
{
    char bytes[32];
    snprintf(bytes, sizeof bytes, "%zu", run->point->size->bytes);
    bool is_up = start_broker(run, system) &&
                 start_own(run, &run->tap, "tap", run->link.at, NULL) &&
                 start_own(run, &run->writer, "flood", run->link.at, bytes);
    for (size_t i = 0; is_up && i < run->point->readers; i++) {
        char name[32];
        snprintf(name, sizeof name, "draining%zu", i);
        is_up = start_own(run, &run->readers[i], "drain", link_of(run, i), name);
    }
    return is_up;
}

/* The stage as it is seen from behind a link. */
static struct stage behind(const struct run *run, const char *at)
{
    struct stage stage = run->stage;
    snprintf(stage.at, sizeof stage.at, "%s", at);
    return stage;
}

static bool start_peer(struct run *run, const struct system *system)
{
    const struct point *point = run->point;
    if (!stage_open(&run->stage, system, point->size->bytes) || !start_links(run, run->stage.at)) {
        return false;
    }
    struct stage far = behind(run, run->link.at);
    bool is_up =
        stage_role(&far, &run->writer, "write", "bytes=%zu group=%zu readers=%zu stamp_ns=%lld",
                   point->size->bytes, point->size->group, point->readers, (long long)EVERY_NS);
    for (size_t i = 0; is_up && i < point->readers; i++) {
        far = behind(run, link_of(run, i));
        is_up = stage_role(&far, &run->readers[i], "read", "bytes=%zu told_ns=%lld",
                           point->size->bytes, (long long)TELL_NS);
    }
    return is_up;
}

/* The next that a process says.  false: nothing in that time. */
static bool follow(struct process *role, struct progress *progress, int64_t warm_ns,
                   int64_t wait_ms)
{
    const char *line = NULL;
    unsigned long long count = 0;
    long long ns = 0;
    if (!process_line(role, wait_ms, &line)) {
        return false;
    }
    if (sscanf(line, "sample %lld", &ns) == 1 && test_now_ns() >= warm_ns) {
        samples_add(&progress->samples, ns);
    }
    if (sscanf(line, "at %llu %lld", &count, &ns) == 2 && ns >= warm_ns) {
        progress->first = progress->first_ns == 0 ? count : progress->first;
        progress->first_ns = progress->first_ns == 0 ? ns : progress->first_ns;
        progress->last = count;
        progress->last_ns = ns;
    }
    return true;
}

static double share_of(const struct progress *progress, const struct size *size, uint64_t rate)
{
    int64_t ns = progress->last_ns - progress->first_ns;
    double bits = (double)(progress->last - progress->first) * (double)size->bytes * 8;
    return ns > 0 ? bits * 1e9 / (double)ns / (double)rate : 0;
}

static void keep_times(struct samples *samples, double us[2])
{
    us[0] = samples_percentile(samples, 50);
    us[1] = samples_percentile(samples, 99);
}

static bool has_values(const struct progress *progress)
{
    return progress->last >= progress->first + VALUES_MIN;
}

static bool is_enough(const struct run *run, const struct progress *progress,
                      const struct progress *slow, int64_t lasts_ns)
{
    return has_values(progress) && progress->last_ns >= progress->first_ns + lasts_ns &&
           progress->samples.count >= SAMPLES_MIN && (run->point->readers == 1 || has_values(slow));
}

/* What a process said meanwhile. */
static void catch_up(struct process *role, struct progress *progress, int64_t warm_ns)
{
    while (role->pid != 0 && follow(role, progress, warm_ns, 0)) {
        continue;
    }
}

/* A value takes so long over the slowest link. */
static int64_t value_ns(const struct point *point)
{
    double slowest = (double)point->rate->bits / (point->readers > 1 ? SLOWER : 1);
    return (int64_t)((double)point->size->bytes * 8 * 1e9 / slowest);
}

/* With --long a point also has the time for as many values as it needs, one under way and one to
 * begin with. */
static int64_t point_ns_max(const struct bench *bench, const struct point *point)
{
    return POINT_NS_MAX + (bench->is_long ? (VALUES_MIN + 2) * value_ns(point) : 0);
}

/* Follows the first reader, and hears what the others say, until all have enough or the time of a
 * point is over. */
static bool measure(const struct bench *bench, struct run *run, struct measured *measured)
{
    const struct point *point = run->point;
    struct process *last = &run->readers[point->readers - 1];
    struct progress progress = {.first = 0};
    struct progress slow = {.first = 0};
    struct progress control = {.first = 0};
    int64_t warm_ns =
        test_now_ns() + WARM_NS + ROUND_TRIPS * WAYS_IN_TRIP * point->delay->us * 1000;
    int64_t until_ns = warm_ns + point_ns_max(bench, point);
    int64_t lasts_ns = bench->is_quick ? MEASURED_NS / 5 : MEASURED_NS;
    while (test_now_ns() < until_ns && !is_enough(run, &progress, &slow, lasts_ns)) {
        (void)follow(&run->readers[0], &progress, warm_ns, LOOK_MS);
        if (point->readers > 1) {
            catch_up(last, &slow, warm_ns);
        }
    }
    catch_up(&run->tap, &control, warm_ns);
    measured->share = share_of(&progress, point->size, point->rate->bits);
    measured->slow_share = share_of(&slow, point->size, point->rate->bits / SLOWER);
    measured->values = progress.last - progress.first;
    keep_times(&progress.samples, measured->in_place_us);
    keep_times(&control.samples, measured->control_us);
    samples_fini(&progress.samples);
    samples_fini(&slow.samples);
    samples_fini(&control.samples);
    return measured->share > 0 || complain(run, &run->writer, "two values did not come in time");
}

/* false: it failed, and said so. */
static bool run_point(const struct bench *bench, const struct system *system,
                      const struct point *point, struct measured *measured)
{
    static struct run run;
    run = (struct run){.point = point, .stage = {.system = system}};
    bool is_done = (is_own(system) ? start_errbus(&run, system) : start_peer(&run, system)) &&
                   stage_go(&run.stage, &run.writer) && measure(bench, &run, measured);
    process_fini(&run.writer);
    process_fini(&run.tap);
    for (size_t i = 0; i < point->readers; i++) {
        process_fini(&run.readers[i]);
    }
    long_link_fini(&run.link);
    long_link_fini(&run.slow_link);
    broker_fini(&run.broker);
    stage_close(&run.stage);
    return is_done;
}

/* ---- all points -------------------------------------------------------------------------------*/

/* Points are judged by the size of their values; small ones at the highest rate by themselves. */
static const char *const classes[] = {"256 B below 1G", "64 KiB", "1 MiB", "64 MiB", "256 B at 1G"};
enum { CLASS_SMALL_1G = SIZES, CLASSES };

static size_t class_of(const struct point *point)
{
    bool is_small_1g = point->size == &sizes[0] && point->rate == &rates[RATE_1G];
    return is_small_1g ? CLASS_SMALL_1G : (size_t)(point->size - sizes);
}

/* The least and the most over all points, of each run; 0: not measured.  A point where Errbus
 * failed counts as FAILED. */
struct least {
    double to_raw[CLASSES][BENCH_RUNS_MAX];
    double to_nats[CLASSES][BENCH_RUNS_MAX];
    double in_place[BENCH_RUNS_MAX];
    double control[BENCH_RUNS_MAX];
};
static struct least least;

/* Two values take no longer than a point may. */
static bool fits(const struct bench *bench, const struct point *point)
{
    return bench->is_long || VALUES_MIN * value_ns(point) <= POINT_NS_MAX;
}

static void name_point(const struct point *point, const char *figure, char *name, size_t bytes)
{
    snprintf(name, bytes, "%s %s %s%s, %s", point->delay->name, point->rate->name,
             point->size->name, point->readers > 1 ? " to 8" : "", figure);
}

/* One figure of all systems, out of measured[system][run]; offset: of a double in it. */
static void tell(const struct bench *bench, const struct systems *systems,
                 struct measured measured[][BENCH_RUNS_MAX], const bool *is_out,
                 const struct point *point, const char *figure, const char *unit, size_t offset)
{
    static struct results results;
    char name[64];
    bool is_there = false;
    results = (struct results){.n = {0}};
    name_point(point, figure, name, sizeof name);
    for (size_t i = 0; i < systems->count; i++) {
        results.is_out[i] = is_out[i];
        results.n[i] = measured[i][0].values;
        for (size_t run = 0; run < bench->runs; run++) {
            memcpy(&results.values[i][run], (const char *)&measured[i][run] + offset,
                   sizeof(double));
        }
        bool is_measured = !is_out[i] && results.values[i][0] > 0;
        results.is_out[i] = !is_measured;
        is_there |= is_measured;
    }
    if (is_there) {
        systems_tell(bench, systems, &results, name, unit);
    }
}

static void lower(double *least_value, double value)
{
    value = value > FAILED ? value : FAILED;
    if (*least_value == 0 || value < *least_value) {
        *least_value = value;
    }
}

static void raise_to(double *most_value, double value)
{
    *most_value = value > *most_value ? value : *most_value;
}

/* What an error may take, in us: both links, and in place some time and the value before it. */
static double allowed_us(const struct point *point, bool is_in_place)
{
    double value_us = (double)point->size->bytes * 8 * 1e6 / (double)point->rate->bits;
    return (double)(2 * point->delay->us) + (is_in_place ? IN_PLACE_US + value_us : CONTROL_US);
}

/* Of ours to a peer's; 0: ours failed, whatever the peer did. */
static double ratio_to(const struct measured *ours, const struct measured *peer)
{
    return ours->share > 0 ? ours->share / peer->share : 0;
}

/* What one run at one point means for the least and the most of all. */
static void compare(const struct point *point, const struct systems *systems,
                    struct measured measured[][BENCH_RUNS_MAX], const bool *is_out, size_t run)
{
    size_t class = class_of(point);
    const struct measured *ours = NULL;
    for (size_t i = 0; i < systems->count; i++) {
        const char *name = systems->at[i]->name;
        const struct measured *one = &measured[i][run];
        if (strcmp(name, "errbus") == 0) {
            ours = one; /* its share is 0 where it failed */
        }
        if (is_out[i] && (ours == NULL || ours == one || ours->share > 0)) {
            continue;
        }
        if (ours == one) {
            raise_to(&least.in_place[run], one->in_place_us[1] / allowed_us(point, true));
            raise_to(&least.control[run], one->control_us[1] / allowed_us(point, false));
        }
        if (ours != NULL && point->readers == 1 && strcmp(name, "raw") == 0) {
            lower(&least.to_raw[class][run], ratio_to(ours, one));
        }
        if (ours != NULL && point->readers == 1 && strcmp(name, "nats library") == 0) {
            lower(&least.to_nats[class][run], ratio_to(ours, one));
        }
    }
}

static void ask(const struct bench *bench, const struct systems *systems, const struct point *point)
{
    static struct measured measured[SYSTEMS_MAX][BENCH_RUNS_MAX];
    bool is_out[SYSTEMS_MAX] = {false};
    char name[64];
    name_point(point, "", name, sizeof name);
    if (!bench_wants(bench, name)) {
        return;
    }
    if (!fits(bench, point)) {
        name_point(point, "left out: two values take too long", name, sizeof name);
        printf("%-11s %s\n", bench->question, name);
        return;
    }
    memset(measured, 0, sizeof measured);
    for (size_t run = 0; run < bench->runs; run++) {
        for (size_t i = 0; i < systems->count; i++) {
            is_out[i] = is_out[i] || !run_point(bench, systems->at[i], point, &measured[i][run]);
        }
        compare(point, systems, measured, is_out, run);
    }
    const struct {
        const char *figure;
        const char *unit;
        size_t offset;
    } figures[] = {{"share", "share", offsetof(struct measured, share)},
                   {"slow share", "share", offsetof(struct measured, slow_share)},
                   {"in place p50", "us", offsetof(struct measured, in_place_us)},
                   {"in place p99", "us", offsetof(struct measured, in_place_us) + sizeof(double)},
                   {"control p50", "us", offsetof(struct measured, control_us)},
                   {"control p99", "us", offsetof(struct measured, control_us) + sizeof(double)}};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        tell(bench, systems, measured, is_out, point, figures[i].figure, figures[i].unit,
             figures[i].offset);
    }
}

static void tell_least(const struct bench *bench, const char *what, const char *system,
                       const double *values)
{
    struct bench_row row = {
        .what = what, .system = system, .unit = "x", .values = values, .runs = bench->runs, .n = 1};
    if (values[0] > 0) {
        bench_tell(bench, &row);
    }
}

static void tell_all_least(const struct bench *bench)
{
    for (size_t i = 0; i < CLASSES; i++) {
        tell_least(bench, classes[i], "errbus to raw", least.to_raw[i]);
        tell_least(bench, classes[i], "errbus to nats", least.to_nats[i]);
    }
    tell_least(bench, "in place p99 to allowed", "errbus", least.in_place);
    tell_least(bench, "control p99 to allowed", "errbus", least.control);
}

/* Without --long: each rate at 25 ms, and each delay at 1 Gbit/s; to eight readers with 64 KiB. */
static bool is_asked(const struct bench *bench, size_t size, size_t rate, size_t delay,
                     size_t readers)
{
    if (bench->is_quick) {
        bool is_slower = rate == 1 && size == (readers == 1 ? 0 : SIZE_64K);
        return delay == 1 && ((rate == RATE_1G && readers == 1) || is_slower);
    }
    return bench->is_long ||
           ((rate == RATE_1G || delay == DELAY_25) && (readers == 1 || size == SIZE_64K));
}

static void ask_all(const struct bench *bench, const struct systems *systems)
{
    const size_t readers[] = {1, READERS_MAX};
    for (size_t i = 0; i < 2 * SIZES * RATES * DELAYS; i++) {
        size_t many = i / (SIZES * RATES * DELAYS);
        size_t rate = i / (SIZES * DELAYS) % RATES;
        size_t delay = i / SIZES % DELAYS;
        struct point point = {&sizes[i % SIZES], &rates[rate], &delays[delay], readers[many]};
        if (is_asked(bench, i % SIZES, rate, delay, point.readers)) {
            ask(bench, systems, &point);
        }
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    struct systems systems;
    const struct {
        const char *name;
        void (*play)(char **words);
    } roles[] = {{"flood", play_flood}, {"drain", play_drain}, {"tap", play_tap}};
    for (size_t i = 0; argc > 2 && i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(argv[1], roles[i].name) == 0) {
            roles[i].play(argv + 2);
        }
    }
    if (!bench_init(&bench, "link", argc, argv)) {
        return 2;
    }
    bench.systems = bench.systems != NULL ? bench.systems : OWN_SYSTEMS;
    systems_find(&systems, &bench, FOR_RATE);
    for (size_t i = 0; i < systems.count; i++) {
        if (!can_be_far(systems.at[i])) {
            bench_die("%s cannot be behind a link", systems.at[i]->name);
        }
    }
    ask_all(&bench, &systems);
    tell_all_least(&bench);
    return 0;
}
