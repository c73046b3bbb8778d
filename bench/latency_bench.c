/* SPDX-License-Identifier: MPL-2.0 */
/* latency_bench.c -- how long a value is on its way, one way, at a low rate: 256 bytes, a thousand
 * a second, from bus_publish() to the return of bus_sub_recv(), beside a plain libzmq proxy.
 *
 * Both ends read the same monotonic clock. */
#include "bench/harness.h"

#include <stdlib.h>
#include <string.h>

#define BYTES 256
#define COUNT 3000
#define EVERY_NS INT64_C(1000000)

/* pace ENDPOINT COUNT */
static int pace(char **words)
{
    struct bus *bus = bench_open(words[0], "writer");
    uint64_t count = strtoull(words[1], NULL, 10);
    char value[BYTES] = "";
    role_ready();
    role_wait_go();
    int64_t at_ns = test_now_ns();
    for (uint64_t i = 0; i < count; i++) {
        bench_sleep_until(at_ns += EVERY_NS);
        int64_t now_ns = test_now_ns();
        memcpy(value, &now_ns, sizeof now_ns);
        bench_check(bus_publish(bus, "w", value, sizeof value), "publish");
    }
    bench_check(bus_flush(bus, 10000), "flush");
    role_say_done(0);
    role_wait_go();
    bus_close(&bus, 10000);
    return 0;
}

/* time ENDPOINT COUNT; the first tenth warms up */
static int time_values(char **words)
{
    struct samples samples = {.count = 0};
    struct bus *bus = bench_open(words[0], "reader");
    uint64_t count = strtoull(words[1], NULL, 10);
    struct bus_sub *sub = bench_subscribe(bus, "writer/w");
    role_ready();
    for (uint64_t i = 0; i < count; i++) {
        struct bus_msg *msg = NULL;
        int64_t sent_ns = 0;
        size_t bytes = 0;
        bench_check(bus_sub_recv(sub, 60000, &msg, NULL), "receive");
        int64_t now_ns = test_now_ns();
        memcpy(&sent_ns, bus_msg_value(msg, &bytes), sizeof sent_ns);
        bus_msg_free(&msg);
        if (i >= count / 10) {
            samples_add(&samples, now_ns - sent_ns);
        }
    }
    role_say_done((int64_t)samples.count);
    samples_say(&samples);
    role_wait_go();
    samples_fini(&samples);
    bus_sub_close(&sub);
    bus_close(&bus, 10000);
    return 0;
}

struct latency {
    double p50[BENCH_RUNS_MAX];
    double p99[BENCH_RUNS_MAX];
};

static void take(struct process *reader, struct latency *latency, size_t run)
{
    struct samples samples = {.count = 0};
    samples_read(&samples, reader, (size_t)role_done(reader));
    latency->p50[run] = samples_percentile(&samples, 50);
    latency->p99[run] = samples_percentile(&samples, 99);
    samples_fini(&samples);
}

static void run_errbus(const char *count, struct latency *latency, size_t run)
{
    struct broker broker;
    struct process writer;
    struct process reader;
    bench_broker(&broker);
    const char *const reader_words[] = {"latency_bench", "time", broker.control, count, NULL};
    const char *const writer_words[] = {"latency_bench", "pace", broker.control, count, NULL};
    role_start(&reader, reader_words);
    role_start(&writer, writer_words);
    role_go(&writer);
    take(&reader, latency, run);
    role_fini(&writer);
    role_fini(&reader);
    broker_fini(&broker);
}

static void run_proxy(const char *count, struct latency *latency, size_t run)
{
    struct process proxy;
    struct process writer;
    struct process reader;
    const char *line = NULL;
    char in[128];
    char out[128];
    const char *const proxy_words[] = {"zmq_proxy", "proxy", "256", NULL};
    role_start(&proxy, proxy_words);
    if (!process_line(&proxy, 10000, &line) || sscanf(line, "%127s %127s", in, out) != 2) {
        bench_die("the proxy does not tell its endpoints");
    }
    const char *const writer_words[] = {"zmq_proxy", "pace", in, "256", count, "1000000", NULL};
    const char *const reader_words[] = {"zmq_proxy", "time", out, "256", count, NULL};
    role_start(&writer, writer_words);
    role_start(&reader, reader_words);
    role_go(&writer);
    take(&reader, latency, run);
    role_fini(&writer);
    role_fini(&reader);
    role_fini(&proxy);
}

int main(int argc, char **argv)
{
    static struct latency errbus;
    static struct latency proxy;
    struct bench bench;
    char count[32];
    if (argc == 4 && strcmp(argv[1], "pace") == 0) {
        return pace(argv + 2);
    }
    if (argc == 4 && strcmp(argv[1], "time") == 0) {
        return time_values(argv + 2);
    }
    if (!bench_init(&bench, "latency", argc, argv)) {
        return 2;
    }
    uint64_t n = bench_count(&bench, COUNT);
    snprintf(count, sizeof count, "%llu", (unsigned long long)n);
    for (size_t run = 0; run < bench.runs; run++) {
        run_proxy(count, &proxy, run);
        run_errbus(count, &errbus, run);
    }
    struct bench_row row = {.unit = "us", .runs = bench.runs, .n = n};
    const struct {
        const char *what;
        const char *system;
        const double *values;
        const double *base;
    } rows[] = {{"256 B at 1000/s, p50", "zmq proxy", proxy.p50, NULL},
                {"256 B at 1000/s, p50", "errbus", errbus.p50, proxy.p50},
                {"256 B at 1000/s, p99", "zmq proxy", proxy.p99, NULL},
                {"256 B at 1000/s, p99", "errbus", errbus.p99, proxy.p99}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        row.what = rows[i].what;
        row.system = rows[i].system;
        row.values = rows[i].values;
        row.ratio = rows[i].base != NULL ? bench_median(rows[i].values, bench.runs) /
                                               bench_median(rows[i].base, bench.runs)
                                         : 0;
        bench_tell(&bench, &row);
    }
    return 0;
}
