/* SPDX-License-Identifier: MPL-2.0 */
/* why_bench.c -- what waits cost those who do not wait: values a second from one publisher to one
 * subscriber beside a thousand parties, while none of them waits for anybody, while all of them
 * wait for one that is stuck, and while somebody then asks who waits for whom every second.
 *
 * The three are measured in turn, over the same broker, several times: on a machine that others
 * use, only neighbours can be compared. */
#include "bench/harness.h"

#include <bus/admin.h>
#include <bus/why.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 6000000 /* values of one measurement */
#define VALUE_BYTES 256
#define EVERY_NS INT64_C(1000000000)
#define SEEN_NS INT64_C(3000000000) /* a party says that it waits after a second */
#define WAIT_MS 60000
#define WAITING_MS 600000 /* nobody waits as long */

enum {
    CROWDS = 10,
    CROWD_PARTIES = 100, /* in one process */
    AWAITS = 65,         /* of each party: 65,000 in all, and there may be 65,536 */
    QUICK_PARTIES = 4,
    NAME_BYTES = 32,
};

static const char stuck[] = "stuck/owed";

/* ---- roles ----------------------------------------------------------------------------------- */

/* A party of a crowd, whose thread waits. */
struct waiter {
    struct bus *bus;
    uint64_t first; /* the first slot that it waits for */
    pthread_t thread;
};

static void *wait_for_stuck(void *arg)
{
    struct waiter *waiter = arg;
    struct bus_want wants[AWAITS] = {{.topic = NULL}};
    for (uint64_t i = 0; i < AWAITS; i++) {
        wants[i] = (struct bus_want){.topic = stuck, .seq = waiter->first + i};
    }
    bench_check(bus_gather(waiter->bus, wants, AWAITS, AWAITS, 0, WAITING_MS, NULL), "gather");
    bus_wants_free(wants, AWAITS);
    return NULL;
}

/* crowd ENDPOINT NUMBER PARTIES: parties that do nothing, and wait each time that they are told to
 * go, until there is what they wait for */
static int crowd(char **words)
{
    unsigned parties = (unsigned)strtoul(words[2], NULL, 10);
    char name[NAME_BYTES];
    struct waiter *waiters = calloc(parties, sizeof *waiters);
    if (waiters == NULL) {
        bench_die("no memory");
    }
    for (unsigned i = 0; i < parties; i++) {
        snprintf(name, sizeof name, "crowd%s_%u", words[1], i);
        waiters[i].bus = bench_open(words[0], name);
    }
    role_ready();
    for (;;) {
        role_wait_go(); /* until it is killed */
        for (unsigned i = 0; i < parties; i++) {
            if (pthread_create(&waiters[i].thread, NULL, wait_for_stuck, &waiters[i]) != 0) {
                bench_die("a thread cannot be started");
            }
        }
        for (unsigned i = 0; i < parties; i++) {
            (void)pthread_join(waiters[i].thread, NULL); /* it was started */
            waiters[i].first += AWAITS;
        }
        role_say_done(parties);
    }
    return 0;
}

/* stuck ENDPOINT: what the crowds wait for, each time that it is told to go */
static int be_stuck(char **words)
{
    struct bus *bus = bench_open(words[0], "stuck");
    role_ready();
    for (;;) {
        role_wait_go(); /* until it is killed */
        for (int i = 0; i < AWAITS; i++) {
            bench_check(bus_publish(bus, "owed", "x", 1), "publish");
        }
        bench_check(bus_flush(bus, WAIT_MS), "flush");
        role_say_done(AWAITS);
    }
    return 0;
}

/* write ENDPOINT COUNT: so many values, each time that it is told to go */
static int write_values(char **words)
{
    static const char value[VALUE_BYTES];
    struct bus *bus = bench_open(words[0], "writing");
    uint64_t count = strtoull(words[1], NULL, 10);
    role_ready();
    for (;;) {
        role_wait_go(); /* until it is killed */
        for (uint64_t i = 0; i < count; i++) {
            bench_check(bus_publish(bus, "w", value, sizeof value), "publish");
        }
        bench_check(bus_flush(bus, WAIT_MS), "flush");
    }
    return 0;
}

/* read ENDPOINT COUNT: says how long they took, from the first to the last */
static int read_values(char **words)
{
    struct bus *bus = bench_open(words[0], "reading");
    struct bus_sub *sub = bench_subscribe(bus, "writing/w");
    uint64_t count = strtoull(words[1], NULL, 10);
    role_ready();
    for (;;) {
        int64_t began_ns = 0;
        role_wait_go(); /* until it is killed */
        for (uint64_t i = 0; i < count; i++) {
            struct bus_msg *msg = NULL;
            bench_check(bus_sub_recv(sub, WAIT_MS, &msg, NULL), "receive");
            bus_msg_free(&msg);
            began_ns = i == 0 ? test_now_ns() : began_ns;
        }
        role_say_done(test_now_ns() - began_ns);
    }
    return 0;
}

/* why ENDPOINT: asks who waits for whom, as errbus why --watch does, until it is killed */
static int ask_why(char **words)
{
    struct bus_admin *admin = NULL;
    struct bus_why *why = NULL;
    bench_check(bus_admin_open(words[0], NULL, WAIT_MS, &admin, NULL), "open");
    role_ready();
    for (int64_t at_ns = test_now_ns();; at_ns += EVERY_NS) {
        bench_check(bus_why_get(admin, "default", NULL, 0, WAIT_MS, &why, NULL), "why");
        if (bus_why_edge_count(why) == 0) {
            bench_die("nobody is said to wait");
        }
        bus_why_free(&why);
        bench_sleep_until(at_ns + EVERY_NS);
    }
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

enum way { QUIET, WAITING, ASKED, WAYS };
static const char *const ways[WAYS] = {"nobody waits", "all wait", "asked meanwhile"};

/* Those who stay from the first measurement to the last. */
struct people {
    struct broker broker;
    struct process crowds[CROWDS];
    struct process stuck, writing, reading;
};

static double rate_of(struct people *people, uint64_t count)
{
    role_go(&people->reading);
    role_go(&people->writing);
    return (double)(count - 1) * 1e9 / (double)role_done(&people->reading);
}

static void let_wait(struct people *people)
{
    for (int i = 0; i < CROWDS; i++) {
        role_go(&people->crowds[i]);
    }
    bench_sleep_until(test_now_ns() + SEEN_NS);
}

static void end_waits(struct people *people)
{
    role_go(&people->stuck);
    (void)role_done(&people->stuck); /* a number that we know */
    for (int i = 0; i < CROWDS; i++) {
        (void)role_done(&people->crowds[i]); /* the same */
    }
}

static double measure(struct people *people, enum way way, uint64_t count)
{
    struct process asking = {.pid = 0};
    const char *const words[] = {"why_bench", "why", people->broker.control, NULL};
    if (way != QUIET) {
        let_wait(people);
    }
    if (way == ASKED) {
        role_start(&asking, words);
    }
    double rate = rate_of(people, count);
    role_fini(&asking);
    if (way != QUIET) {
        end_waits(people);
    }
    return rate;
}

/* All at once: each joins one party after the other. */
static void open_crowds(const struct bench *bench, struct people *people)
{
    char number[NAME_BYTES], parties[NAME_BYTES];
    const char *line = NULL;
    snprintf(parties, sizeof parties, "%d", bench->is_quick ? QUICK_PARTIES : CROWD_PARTIES);
    for (int i = 0; i < CROWDS; i++) {
        snprintf(number, sizeof number, "%d", i);
        const char *const words[] = {"why_bench", "crowd", people->broker.control,
                                     number,      parties, NULL};
        if (!process_start(&people->crowds[i], words, NULL)) {
            bench_die("a crowd cannot be started");
        }
    }
    for (int i = 0; i < CROWDS; i++) {
        if (!process_line(&people->crowds[i], WAITING_MS, &line) || strcmp(line, "ready") != 0) {
            bench_die("a crowd is not ready: %s", process_complained(&people->crowds[i]));
        }
    }
}

static void open_people(const struct bench *bench, struct people *people, const char *count)
{
    bench_broker(&people->broker);
    open_crowds(bench, people);
    const char *control = people->broker.control;
    const char *const stuck_words[] = {"why_bench", "stuck", control, NULL};
    const char *const write_words[] = {"why_bench", "write", control, count, NULL};
    const char *const read_words[] = {"why_bench", "read", control, count, NULL};
    role_start(&people->stuck, stuck_words);
    role_start(&people->writing, write_words);
    role_start(&people->reading, read_words);
}

static void close_people(struct people *people)
{
    role_fini(&people->reading);
    role_fini(&people->writing);
    role_fini(&people->stuck);
    for (int i = 0; i < CROWDS; i++) {
        role_fini(&people->crowds[i]);
    }
    broker_fini(&people->broker);
}

static void run_all(const struct bench *bench)
{
    static double rates[WAYS][BENCH_RUNS_MAX];
    static struct people people;
    char count[NAME_BYTES];
    uint64_t n = bench_count(bench, COUNT);
    snprintf(count, sizeof count, "%llu", (unsigned long long)n);
    open_people(bench, &people, count);
    for (size_t run = 0; run < bench->runs; run++) {
        for (size_t i = 0; i < WAYS; i++) { /* each is the first one in its turn */
            enum way way = (enum way)((run + i) % WAYS);
            rates[way][run] = measure(&people, way, n);
        }
    }
    close_people(&people);
    for (enum way way = QUIET; way < WAYS; way++) {
        struct bench_row row = {.what = "256 B beside 1,000 parties",
                                .system = ways[way],
                                .unit = "1/s",
                                .values = rates[way],
                                .runs = bench->runs,
                                .n = n};
        if (way != QUIET) {
            row.ratio =
                bench_median(rates[way], bench->runs) / bench_median(rates[QUIET], bench->runs);
        }
        bench_tell(bench, &row);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(char **words);
    } roles[] = {{"crowd", crowd},
                 {"stuck", be_stuck},
                 {"write", write_values},
                 {"read", read_values},
                 {"why", ask_why}};
    struct bench bench;
    for (size_t i = 0; argc > 2 && i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(argv[1], roles[i].name) == 0) {
            return roles[i].run(argv + 2);
        }
    }
    if (!bench_init(&bench, "why", argc, argv)) {
        return 2;
    }
    run_all(&bench);
    return 0;
}
