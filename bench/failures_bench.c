/* SPDX-License-Identifier: MPL-2.0 */
/* failures_bench.c -- how a failure disturbs a steady load on another topic, and how soon the
 * readers of the failed party know.  The cause is one of: the party fails a slot, is killed, is
 * stopped, or loses its link; or the broker is killed and started again.
 *
 * The program prints the latency of the load before and after the cause, and three times:
 *
 *   detected    a tap has the first event of the party.
 *   raised      the reader that waits for the party's slot has the error.
 *   recovered   the party's next value is there; for the broker: the next value of the load.
 *
 * Detected and raised count from the cause.  Once the error is raised, the program mends the cause:
 * it starts the killed party anew, wakes the stopped one, or restores the link.  The recovery of a
 * party counts from there.  The JSON file has the latency window by window, and report.sh plots it
 * for each cause. */
#include "bench/harness.h"
#include "tests/lib/folder.h"
#include "tests/lib/relay.h"

#include <bus/tap.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES 256
#define EVERY_NS INT64_C(1000000)
#define BEFORE_NS INT64_C(600000000)
#define AFTER_NS INT64_C(2000000000)
#define WARM_NS INT64_C(200000000) /* of the time before */
#define COUNT ((BEFORE_NS + AFTER_NS) / EVERY_NS)
#define WINDOW_NS INT64_C(100000000)
#define WINDOWS ((int)((BEFORE_NS - WARM_NS + AFTER_NS) / WINDOW_NS))
/* Of the party that it happens to. */
#define HEARTBEAT_MS 50
#define LOST_AFTER_MS 500
#define GRACE_MS 100
#define STARTS_MAX 8
#define SOON_MS 20000

enum cause { FAIL, KILL, STOP, LINK, RESTART, CAUSES };
static const char *const causes[CAUSES] = {"fail", "kill -9", "stop", "link loss",
                                           "broker restart"};

struct stamp {
    int64_t sent_ns;
    int64_t took_ns;
};

/* ---- roles ----------------------------------------------------------------------------------- */

/* pace ENDPOINT: the load */
static int pace(char **words)
{
    char value[BYTES] = "";
    struct bus *bus = bench_open(words[0], "pacing");
    role_ready();
    role_wait_go();
    int64_t at_ns = test_now_ns();
    for (int64_t i = 0; i < COUNT; i++) {
        bench_sleep_until(at_ns += EVERY_NS);
        int64_t now_ns = test_now_ns();
        memcpy(value, &now_ns, sizeof now_ns);
        bench_check(bus_publish(bus, "t", value, sizeof value), "publish");
    }
    bench_check(bus_flush(bus, 60000), "flush");
    role_say_done(0);
    role_wait_go();
    return 0;
}

/* follow ENDPOINT: receives it, and tells of each value when it was sent and how long it took */
static int follow(char **words)
{
    static struct stamp stamps[COUNT];
    struct bus *bus = bench_open(words[0], "following");
    struct bus_sub *sub = bench_subscribe(bus, "pacing/t");
    role_ready();
    for (int64_t i = 0; i < COUNT; i++) {
        struct bus_msg *msg = NULL;
        bench_check(bus_sub_recv(sub, 60000, &msg, NULL), "receive");
        int64_t now_ns = test_now_ns();
        if (bus_msg_seq(msg) != (uint64_t)i) {
            bench_die("value %lld is missing", (long long)i);
        }
        memcpy(&stamps[i].sent_ns, bus_msg_value(msg, NULL), sizeof now_ns);
        stamps[i].took_ns = now_ns - stamps[i].sent_ns;
        bus_msg_free(&msg);
    }
    role_say_done(COUNT);
    for (int64_t i = 0; i < COUNT; i++) {
        printf("at %lld %lld\n", (long long)stamps[i].sent_ns, (long long)stamps[i].took_ns);
    }
    fflush(stdout);
    role_wait_go();
    return 0;
}

static struct bus *open_victim(const char *endpoint)
{
    struct bus_options options;
    struct bus *bus = NULL;
    bus_options_init(&options);
    options.party = "victim";
    options.heartbeat_ms = HEARTBEAT_MS;
    options.lost_after_ms = LOST_AFTER_MS;
    options.reconnect_grace_ms = GRACE_MS;
    bench_check(bus_open(endpoint, &options, SOON_MS, &bus, NULL), "bus_open");
    return bus;
}

/* hold ENDPOINT: says a value and promises the next one, which it fails when told to; told that it
 * is lost, it begins anew */
static int hold(char **words)
{
    for (int start = 1; start <= STARTS_MAX; start++) {
        struct bus *bus = open_victim(words[0]);
        struct bus_slot *slot = NULL;
        bench_check(bus_publish(bus, "w", NULL, 0), "publish");
        bench_check(bus_slot_reserve(bus, "w", BUS_FOREVER, &slot), "reserve");
        bench_check(bus_flush(bus, SOON_MS), "flush");
        if (start == 1) {
            role_ready();
        }
        struct pollfd items[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                  {.fd = bus_failure_fd(bus), .events = POLLIN}};
        poll(items, 2, -1);
        if (items[1].revents == 0) {
            role_wait_go();
            role_say_done(test_now_ns());
            bus_slot_fail(&slot, NULL);
            bench_check(bus_publish(bus, "w", NULL, 0), "publish");
            role_wait_go();
        }
        bus_slot_fail(&slot, NULL);
        bus_close(&bus, BUS_POLL);
    }
    return 0;
}

/* wait ENDPOINT: tells of all that comes of it, until it is killed */
static int wait_for(char **words)
{
    struct bus *bus = bench_open(words[0], "waiting");
    struct bus_sub *sub = bench_subscribe(bus, "victim/w");
    enum bus_err err = BUS_OK;
    role_ready();
    while (err == BUS_OK || err == BUS_EFAILED || err == BUS_EENDED) {
        struct bus_msg *msg = NULL;
        err = bus_sub_recv(sub, BUS_FOREVER, &msg, NULL);
        if (err == BUS_OK || err == BUS_EFAILED) {
            printf("%s %lld\n", err == BUS_OK ? "value" : "error", (long long)test_now_ns());
            fflush(stdout);
        }
        bus_msg_free(&msg);
    }
    bench_check(err, "receive");
    return 0;
}

/* tap ENDPOINT: the same on the control channel */
static int tap_events(char **words)
{
    struct bus_tap *tap = NULL;
    enum bus_err err = bus_tap_open(words[0], NULL, SOON_MS, &tap, NULL);
    bench_check(err, "tap");
    role_ready();
    while (err == BUS_OK) {
        const struct bus_event *event = NULL;
        err = bus_tap_next(tap, BUS_FOREVER, &event, NULL);
        if (err == BUS_OK && strcmp(bus_event_party(event), "victim") == 0) {
            printf("event %lld\n", (long long)test_now_ns());
            fflush(stdout);
        }
    }
    bench_check(err, "tap");
    return 0;
}

/* ---- one run --------------------------------------------------------------------------------- */

enum { DETECTED, RAISED, RECOVERED, MARKS };
static const char *const marks[MARKS] = {"detected", "raised", "recovered"};

struct outcome {
    double marks[MARKS][BENCH_RUNS_MAX]; /* us; NAN: there is none */
    double p99_before[BENCH_RUNS_MAX];
    double p99_after[BENCH_RUNS_MAX];
    double max_after[BENCH_RUNS_MAX];
    struct samples windows[WINDOWS]; /* of all runs together */
};

struct scene {
    struct folder folder;
    struct broker broker;
    struct relay relay;
    struct process pacing;
    struct process following;
    struct process victim;
    struct process waiting;
    struct process tapping;
    int64_t cause_ns;
    int64_t end_ns; /* of the cause; 0: it has none */
};

static void start(struct process *role, const char *name, const char *endpoint)
{
    const char *const words[] = {"failures_bench", name, endpoint, NULL};
    role_start(role, words);
}

/* At the endpoints it had, if it had any. */
static void start_broker(struct scene *scene, enum cause cause)
{
    char journal[FOLDER_PATH_BYTES_MAX + 16];
    char control[BROKER_ENDPOINT_BYTES_MAX] = "tcp://127.0.0.1:*";
    char data[BROKER_ENDPOINT_BYTES_MAX] = "tcp://127.0.0.1:*";
    if (scene->broker.control[0] != '\0') {
        memcpy(control, scene->broker.control, sizeof control);
        memcpy(data, scene->broker.data, sizeof data);
        broker_fini(&scene->broker);
    }
    snprintf(journal, sizeof journal, "%s/journal", scene->folder.path);
    const char *const words[] = {"--control",
                                 control,
                                 "--data",
                                 data,
                                 "--journal",
                                 cause == RESTART ? journal : "none",
                                 cause == RESTART ? "--durability" : NULL,
                                 "process",
                                 NULL};
    if (!broker_start(&scene->broker, words)) {
        bench_die("errbusd is not ready: %s", process_complained(&scene->broker.process));
    }
}

/* When the next line of this kind was, not before since_ns. */
static int64_t next_line(struct process *role, const char *kind, int64_t since_ns)
{
    const char *line = NULL;
    size_t bytes = strlen(kind);
    while (process_line(role, SOON_MS, &line)) {
        int64_t at_ns = strncmp(line, kind, bytes) == 0 ? strtoll(line + bytes, NULL, 10) : 0;
        if (at_ns >= since_ns && at_ns > 0) {
            return at_ns;
        }
    }
    bench_die("no %scame: %s", kind, process_complained(role));
}

static void set_the_scene(struct scene *scene, enum cause cause)
{
    const char *endpoint = NULL;
    if (!folder_make(&scene->folder) || !relay_open(&scene->relay)) {
        bench_die("no folder, or no relay");
    }
    start_broker(scene, cause);
    endpoint = scene->broker.control;
    if (!relay_start(&scene->relay, endpoint, scene->broker.data)) {
        bench_die("the relay does not start");
    }
    start(&scene->waiting, "wait", endpoint);
    if (cause != RESTART) {
        start(&scene->tapping, "tap", endpoint);
    }
    /* Heartbeats are on the control channel; data does not pass the relay. */
    start(&scene->victim, "hold", cause == LINK ? scene->relay.control_endpoint : endpoint);
    (void)next_line(&scene->waiting, "value ", 1);
    start(&scene->pacing, "pace", endpoint);
    start(&scene->following, "follow", endpoint);
}

static void bring_about(struct scene *scene, enum cause cause)
{
    scene->cause_ns = test_now_ns();
    switch (cause) {
    case FAIL:
        role_go(&scene->victim);
        scene->cause_ns = role_done(&scene->victim);
        break;
    case KILL: process_signal(&scene->victim, SIGKILL); break;
    case STOP: process_signal(&scene->victim, SIGSTOP); break;
    case LINK: relay_set(&scene->relay, RELAY_SILENT); break;
    case RESTART:
        process_signal(&scene->broker.process, SIGKILL);
        start_broker(scene, cause);
        break;
    case CAUSES: break;
    }
}

static bool has_end(enum cause cause)
{
    return cause == KILL || cause == STOP || cause == LINK;
}

/* For the party to come back: it is started anew, goes on, is reached again. */
static void end_cause(struct scene *scene, enum cause cause)
{
    if (!has_end(cause)) {
        return;
    }
    scene->end_ns = test_now_ns();
    if (cause == KILL) {
        role_fini(&scene->victim);
        start(&scene->victim, "hold", scene->broker.control);
    } else if (cause == STOP) {
        process_signal(&scene->victim, SIGCONT);
    } else {
        relay_set(&scene->relay, RELAY_WHOLE);
    }
}

static double us_since(int64_t at_ns, int64_t since_ns)
{
    return (double)(at_ns - since_ns) / 1000;
}

/* Reads what the load met; when the first value arrived that was sent behind the cause. */
static int64_t take_stamps(struct scene *scene, struct outcome *outcome, size_t run)
{
    struct samples before = {.count = 0};
    struct samples after = {.count = 0};
    const char *line = NULL;
    int64_t first_ns = INT64_MAX;
    (void)role_done(&scene->following);
    for (int64_t i = 0; i < COUNT; i++) {
        long long sent_ns = 0;
        long long took_ns = 0;
        if (!process_line(&scene->following, SOON_MS, &line) ||
            sscanf(line, "at %lld %lld", &sent_ns, &took_ns) != 2) {
            bench_die("a sample was due: %s", process_complained(&scene->following));
        }
        int64_t since_ns = sent_ns - scene->cause_ns;
        if (since_ns >= 0 && sent_ns + took_ns < first_ns) {
            first_ns = sent_ns + took_ns;
        }
        int64_t window = since_ns + BEFORE_NS - WARM_NS;
        if (window >= 0) {
            samples_add(since_ns < 0 ? &before : &after, took_ns);
            if (window / WINDOW_NS < WINDOWS) {
                samples_add(&outcome->windows[window / WINDOW_NS], took_ns);
            }
        }
    }
    outcome->p99_before[run] = samples_percentile(&before, 99);
    outcome->p99_after[run] = samples_percentile(&after, 99);
    outcome->max_after[run] = samples_percentile(&after, 100);
    samples_fini(&before);
    samples_fini(&after);
    return first_ns;
}

static void run_one(enum cause cause, struct outcome *outcome, size_t run)
{
    struct scene scene;
    int64_t at_ns[MARKS] = {0};
    memset(&scene, 0, sizeof scene);
    set_the_scene(&scene, cause);
    role_go(&scene.pacing);
    bench_sleep_until(test_now_ns() + BEFORE_NS);
    bring_about(&scene, cause);
    if (cause != RESTART) {
        at_ns[DETECTED] = next_line(&scene.tapping, "event ", scene.cause_ns);
        at_ns[RAISED] = next_line(&scene.waiting, "error ", scene.cause_ns);
        end_cause(&scene, cause);
        at_ns[RECOVERED] = next_line(&scene.waiting, "value ", scene.cause_ns);
    }
    int64_t first_ns = take_stamps(&scene, outcome, run);
    if (cause == RESTART) {
        at_ns[RECOVERED] = first_ns;
    }
    for (int mark = 0; mark < MARKS; mark++) {
        int64_t since_ns = mark == RECOVERED && scene.end_ns > 0 ? scene.end_ns : scene.cause_ns;
        outcome->marks[mark][run] = at_ns[mark] > 0 ? us_since(at_ns[mark], since_ns) : NAN;
    }
    role_fini(&scene.pacing);
    role_fini(&scene.following);
    role_fini(&scene.victim);
    role_fini(&scene.waiting);
    role_fini(&scene.tapping);
    relay_fini(&scene.relay);
    broker_fini(&scene.broker);
    folder_fini(&scene.folder);
}

/* ---- telling --------------------------------------------------------------------------------- */

static void tell(const struct bench *bench, enum cause cause, const char *what,
                 const double *values)
{
    char text[96];
    struct bench_row row = {.what = text,
                            .system = "errbus",
                            .unit = "us",
                            .values = values,
                            .runs = bench->runs,
                            .n = (uint64_t)COUNT};
    if (!isnan(values[0])) {
        snprintf(text, sizeof text, "%s, %s", causes[cause], what);
        bench_tell(bench, &row);
    }
}

/* Lines for the plot: each window's latency, and the marks. */
static void draw(const struct bench *bench, enum cause cause, struct outcome *outcome)
{
    FILE *file = bench->json_path != NULL ? fopen(bench->json_path, "ae") : NULL;
    if (file == NULL) {
        return;
    }
    for (int i = 0; i < WINDOWS; i++) {
        struct samples *window = &outcome->windows[i];
        if (window->count > 0) {
            int64_t from_ns = i * WINDOW_NS - (BEFORE_NS - WARM_NS);
            fprintf(file,
                    "{\"timeline\":\"%s\",\"ms\":%.6g,\"p50\":%.6g,\"p99\":%.6g,\"max\":%.6g}\n",
                    causes[cause], (double)(from_ns + WINDOW_NS / 2) / 1e6,
                    samples_percentile(window, 50), samples_percentile(window, 99),
                    samples_percentile(window, 100));
        }
    }
    for (int mark = 0; mark < MARKS; mark++) {
        double at_us = bench_median(outcome->marks[mark], bench->runs);
        /* It was told from the end of the cause, which is when it was raised. */
        if (mark == RECOVERED && has_end(cause)) {
            at_us += bench_median(outcome->marks[RAISED], bench->runs);
        }
        if (!isnan(at_us)) {
            fprintf(file, "{\"timeline\":\"%s\",\"mark\":\"%s\",\"ms\":%.6g}\n", causes[cause],
                    marks[mark], at_us / 1000);
        }
    }
    fclose(file);
}

int main(int argc, char **argv)
{
    static struct outcome outcomes[CAUSES];
    static const struct {
        const char *name;
        int (*run)(char **words);
    } roles[] = {{"pace", pace},
                 {"follow", follow},
                 {"hold", hold},
                 {"wait", wait_for},
                 {"tap", tap_events}};
    struct bench bench;
    for (size_t i = 0; argc == 3 && i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(argv[1], roles[i].name) == 0) {
            return roles[i].run(argv + 2);
        }
    }
    if (!bench_init(&bench, "failures", argc, argv)) {
        return 2;
    }
    for (size_t run = 0; run < bench.runs; run++) {
        for (enum cause cause = 0; cause < CAUSES; cause++) {
            run_one(cause, &outcomes[cause], run);
        }
    }
    for (enum cause cause = 0; cause < CAUSES; cause++) {
        struct outcome *outcome = &outcomes[cause];
        for (int mark = 0; mark < MARKS; mark++) {
            tell(&bench, cause, marks[mark], outcome->marks[mark]);
        }
        tell(&bench, cause, "others' p99 before", outcome->p99_before);
        tell(&bench, cause, "others' p99 after", outcome->p99_after);
        tell(&bench, cause, "others' max after", outcome->max_after);
        draw(&bench, cause, outcome);
        for (int i = 0; i < WINDOWS; i++) {
            samples_fini(&outcome->windows[i]);
        }
    }
    return 0;
}
