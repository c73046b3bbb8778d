/* SPDX-License-Identifier: MPL-2.0 */
/* scrape_bench.c -- what a scrape costs the others: the round trip of a value and its answer, with
 * so many parties and topics, while somebody asks for all metrics every second, and while nobody
 * does.
 *
 * Both are measured in turn, over the same broker, several times: on a machine that others use,
 * only neighbours can be compared.  One party publishes the moment; another publishes it back. */
#include "bench/harness.h"

#include <bus/metrics.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 8000 /* round trips of one measurement: eight seconds */
#define EVERY_NS INT64_C(1000000)
#define SCRAPE_NS INT64_C(1000000000)
#define WAIT_MS 60000
#define CROWD_MS 600000 /* no crowd takes as long */

enum {
    CROWDS = 10,
    CROWD_PARTIES = 100, /* in one process */
    CROWD_TOPICS = 100,  /* of each party */
    QUICK_PARTIES = 4,
    NAME_BYTES = 32,
};

/* ---- roles ----------------------------------------------------------------------------------- */

/* crowd ENDPOINT NUMBER PARTIES: parties with topics, a value in each, who then do nothing */
static int crowd(char **words)
{
    unsigned parties = (unsigned)strtoul(words[2], NULL, 10);
    char name[NAME_BYTES];
    struct bus **buses = calloc(parties, sizeof *buses);
    if (buses == NULL) {
        bench_die("no memory");
    }
    for (unsigned i = 0; i < parties; i++) {
        snprintf(name, sizeof name, "crowd%s_%u", words[1], i);
        buses[i] = bench_open(words[0], name);
        for (unsigned j = 0; j < CROWD_TOPICS; j++) {
            snprintf(name, sizeof name, "t%u", j);
            bench_check(bus_publish(buses[i], name, "x", 1), "publish");
        }
    }
    for (unsigned i = 0; i < parties; i++) {
        bench_check(bus_flush(buses[i], WAIT_MS), "flush");
    }
    role_ready();
    role_wait_go(); /* until it is killed */
    return 0;
}

static int64_t take_moment(struct bus_sub *sub)
{
    struct bus_msg *msg = NULL;
    int64_t at_ns = 0;
    bench_check(bus_sub_recv(sub, WAIT_MS, &msg, NULL), "receive");
    memcpy(&at_ns, bus_msg_value(msg, NULL), sizeof at_ns);
    bus_msg_free(&msg);
    return at_ns;
}

/* echo ENDPOINT: publishes what it receives, until it is killed */
static int echo(char **words)
{
    struct bus *bus = bench_open(words[0], "echoing");
    struct bus_sub *sub = bench_subscribe(bus, "asking/w");
    role_ready();
    for (;;) {
        int64_t at_ns = take_moment(sub);
        bench_check(bus_publish(bus, "w", &at_ns, sizeof at_ns), "publish");
    }
    return 0;
}

/* ask ENDPOINT COUNT: round trips at a steady pace, each time that it is told to go */
static int ask_round_trips(char **words)
{
    struct bus *bus = bench_open(words[0], "asking");
    struct bus_sub *sub = bench_subscribe(bus, "echoing/w");
    uint64_t count = strtoull(words[1], NULL, 10);
    role_ready();
    for (;;) {
        struct samples samples = {.count = 0};
        role_wait_go();
        int64_t at_ns = test_now_ns();
        for (uint64_t i = 0; i < count; i++) {
            bench_sleep_until(at_ns += EVERY_NS);
            int64_t now_ns = test_now_ns();
            bench_check(bus_publish(bus, "w", &now_ns, sizeof now_ns), "publish");
            int64_t began_ns = take_moment(sub);
            samples_add(&samples, test_now_ns() - began_ns);
        }
        role_say_done((int64_t)samples.count);
        samples_say(&samples);
        samples_fini(&samples);
    }
    return 0;
}

/* scrape ENDPOINT: asks for all metrics, as errbus web does, every second until it is killed */
static int scrape(char **words)
{
    struct bus_admin *admin = NULL;
    struct bus_metrics *metrics = NULL;
    bench_check(bus_admin_open(words[0], NULL, WAIT_MS, &admin, NULL), "open");
    role_ready();
    for (int64_t at_ns = test_now_ns();; at_ns += SCRAPE_NS) {
        bench_check(bus_admin_metrics_get(admin, WAIT_MS, &metrics, NULL), "metrics");
        bus_metrics_free(&metrics);
        bench_sleep_until(at_ns + SCRAPE_NS);
    }
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

enum way { QUIET, SCRAPED, WAYS };
static const char *const ways[WAYS] = {"nobody scrapes", "scraped every second"};

struct answer {
    double p50[BENCH_RUNS_MAX];
    double p99[BENCH_RUNS_MAX];
    struct samples together;
};

static void measure(struct process *asking, const char *endpoint, enum way way,
                    struct answer *answer, size_t run)
{
    struct process scraping = {.pid = 0};
    struct samples samples = {.count = 0};
    const char *const words[] = {"scrape_bench", "scrape", endpoint, NULL};
    if (way == SCRAPED) {
        role_start(&scraping, words);
    }
    role_go(asking);
    samples_read(&samples, asking, (size_t)role_done(asking));
    answer->p50[run] = samples_percentile(&samples, 50);
    answer->p99[run] = samples_percentile(&samples, 99);
    samples_add_all(&answer->together, &samples);
    samples_fini(&samples);
    role_fini(&scraping);
}

static void report(const struct bench *bench, struct answer answers[WAYS], uint64_t n)
{
    for (enum way way = QUIET; way < WAYS; way++) {
        const double *const values[] = {answers[way].p50, answers[way].p99};
        const double *const quiet[] = {answers[QUIET].p50, answers[QUIET].p99};
        static const char *const names[] = {"round trip, p50", "round trip, p99"};
        for (int i = 0; i < 2; i++) {
            struct bench_row row = {.what = names[i],
                                    .system = ways[way],
                                    .unit = "us",
                                    .values = values[i],
                                    .runs = bench->runs,
                                    .n = n};
            if (way == SCRAPED) {
                row.ratio =
                    bench_median(values[i], bench->runs) / bench_median(quiet[i], bench->runs);
            }
            bench_tell(bench, &row);
        }
        bench_draw_percentiles(bench, "scrape: a value and its answer", ways[way],
                               &answers[way].together);
    }
}

/* All at once: each joins one party after the other. */
static void open_crowds(const struct bench *bench, const char *endpoint,
                        struct process crowds[CROWDS])
{
    char number[NAME_BYTES], parties[NAME_BYTES];
    const char *line = NULL;
    snprintf(parties, sizeof parties, "%d", bench->is_quick ? QUICK_PARTIES : CROWD_PARTIES);
    for (int i = 0; i < CROWDS; i++) {
        snprintf(number, sizeof number, "%d", i);
        const char *const words[] = {"scrape_bench", "crowd", endpoint, number, parties, NULL};
        if (!process_start(&crowds[i], words, NULL)) {
            bench_die("a crowd cannot be started");
        }
    }
    for (int i = 0; i < CROWDS; i++) {
        if (!process_line(&crowds[i], CROWD_MS, &line) || strcmp(line, "ready") != 0) {
            bench_die("a crowd is not ready: %s", process_complained(&crowds[i]));
        }
    }
}

static void run_all(const struct bench *bench)
{
    static struct answer answers[WAYS];
    struct process crowds[CROWDS];
    struct process echoing, asking;
    struct broker broker;
    char count[NAME_BYTES];
    uint64_t n = bench_count(bench, COUNT);
    snprintf(count, sizeof count, "%llu", (unsigned long long)n);
    bench_broker(&broker);
    open_crowds(bench, broker.control, crowds);
    const char *const echo_words[] = {"scrape_bench", "echo", broker.control, NULL};
    const char *const ask_words[] = {"scrape_bench", "ask", broker.control, count, NULL};
    role_start(&echoing, echo_words);
    role_start(&asking, ask_words);
    for (size_t run = 0; run < bench->runs; run++) {
        for (int i = 0; i < WAYS; i++) { /* each is the first one every other time */
            enum way way = (enum way)((run + (size_t)i) % WAYS);
            measure(&asking, broker.control, way, &answers[way], run);
        }
    }
    report(bench, answers, n);
    role_fini(&asking);
    role_fini(&echoing);
    for (int i = 0; i < CROWDS; i++) {
        role_fini(&crowds[i]);
    }
    broker_fini(&broker);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(char **words);
    } roles[] = {{"crowd", crowd}, {"echo", echo}, {"ask", ask_round_trips}, {"scrape", scrape}};
    struct bench bench;
    for (size_t i = 0; argc > 2 && i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(argv[1], roles[i].name) == 0) {
            return roles[i].run(argv + 2);
        }
    }
    if (!bench_init(&bench, "scrape", argc, argv)) {
        return 2;
    }
    run_all(&bench);
    return 0;
}
