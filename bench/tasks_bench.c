/* SPDX-License-Identifier: MPL-2.0 */
/* tasks_bench.c -- requests a second that eight workers answer, from the first request to the last
 * reply.  Then the same while one worker after the other is killed and replaced.  Each case runs
 * with credit for one task, so that no task waits at a busy worker, and with credit for 64. */
#include "bench/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 20000
#define WORKERS 8
#define KILLS 16 /* evenly, by replies */
#define WAIT_MS 120000

/* work ENDPOINT PARTY CREDIT: answers whatever comes, until it is ended */
static _Noreturn void work(char **words)
{
    struct bus *bus = bench_open(words[0], words[1]);
    struct bus_sub_options options;
    struct bus_sub *sub = NULL;
    bus_sub_options_init(&options);
    options.group = "team";
    options.credit = (int)strtol(words[2], NULL, 10);
    options.deliver_max = 16;
    bench_check(bus_sub_open(bus, "asking/tasks", &options, &sub), "subscribe");
    bench_check(bus_flush(bus, 10000), "flush");
    role_ready();
    for (;;) {
        struct bus_msg *msg = NULL;
        size_t bytes;
        bench_check(bus_sub_recv(sub, BUS_FOREVER, &msg, NULL), "receive");
        const void *value = bus_msg_value(msg, &bytes);
        bench_check(bus_msg_reply(&msg, value, bytes), "reply");
    }
}

struct team {
    struct process workers[WORKERS];
    const char *endpoint;
    const char *credit;
    unsigned born;
};

static void employ(struct team *team, size_t place)
{
    char name[32];
    snprintf(name, sizeof name, "worker-%u", team->born++);
    const char *const words[] = {"tasks_bench", "work", team->endpoint, name, team->credit, NULL};
    role_start(&team->workers[place], words);
}

static void dismiss(struct team *team, size_t place)
{
    process_signal(&team->workers[place], SIGKILL);
    process_fini(&team->workers[place]);
}

/* All wants are values: none was given so often that it died. */
static void check_all(struct bus_want *wants, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (wants[i].msg == NULL) {
            bench_die("request %llu: %s", (unsigned long long)i,
                      wants[i].error != NULL ? bus_error_message(wants[i].error) : "no reply");
        }
    }
}

/* Requests a second. */
static double ask_all(uint64_t count, const char *credit, bool is_harmed)
{
    static const char task[256];
    struct broker broker;
    bench_broker(&broker);
    struct team team = {.endpoint = broker.control, .credit = credit};
    struct bus *bus = bench_open(broker.control, "asking");
    struct bus_want *wants = calloc(count, sizeof *wants);
    if (wants == NULL) {
        bench_die("no memory");
    }
    for (size_t i = 0; i < WORKERS; i++) {
        employ(&team, i);
    }
    int64_t begun_ns = test_now_ns();
    for (uint64_t i = 0; i < count; i++) {
        wants[i].topic = bus_replies(bus);
        bench_check(bus_request(bus, "tasks", task, sizeof task, BUS_FOREVER, &wants[i].seq),
                    "request");
    }
    for (uint64_t kill = 1; is_harmed && kill <= KILLS; kill++) {
        bench_check(bus_gather(bus, wants, count, kill * count / (KILLS + 1), count, WAIT_MS, NULL),
                    "gather");
        dismiss(&team, kill % WORKERS);
        employ(&team, kill % WORKERS);
    }
    bench_check(bus_gather(bus, wants, count, count, count, WAIT_MS, NULL), "gather");
    int64_t ended_ns = test_now_ns();
    check_all(wants, count);
    bus_wants_free(wants, count);
    free(wants);
    bench_check(bus_close(&bus, 10000), "close");
    for (size_t i = 0; i < WORKERS; i++) {
        dismiss(&team, i);
    }
    broker_fini(&broker);
    return (double)count * 1e9 / (double)(ended_ns - begun_ns);
}

/* With and without take turns, so that both meet the same machine. */
static void ask(const struct bench *bench, const char *credit)
{
    double values[2][BENCH_RUNS_MAX];
    char what[2][64];
    uint64_t count = bench_count(bench, COUNT);
    double whole = 0;
    for (size_t run = 0; run < bench->runs; run++) {
        for (size_t i = 0; i < 2; i++) {
            values[i][run] = ask_all(count, credit, i == 1);
        }
    }
    for (size_t i = 0; i < 2; i++) {
        snprintf(what[i], sizeof what[i], "credit %s, %s", credit,
                 i == 0 ? "nobody is killed" : "16 are killed");
        struct bench_row row = {.what = what[i],
                                .system = "errbus",
                                .unit = "1/s",
                                .values = values[i],
                                .runs = bench->runs,
                                .n = count};
        row.ratio = whole > 0 ? bench_median(values[i], bench->runs) / whole : 0;
        whole = bench_tell(bench, &row);
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    if (argc == 5 && strcmp(argv[1], "work") == 0) {
        work(argv + 2);
    }
    if (!bench_init(&bench, "tasks", argc, argv)) {
        return 2;
    }
    ask(&bench, "1");
    ask(&bench, "64");
    return 0;
}
