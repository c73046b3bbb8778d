/* SPDX-License-Identifier: MPL-2.0 */
/* throughput_bench.c -- how many values a second go from one publisher through the broker to each
 * of its subscribers, beside a plain libzmq proxy that does the same work.
 *
 * Publisher, broker and subscribers are processes.  The two systems take turns, run by run.  A rate
 * is that of the slowest subscriber, from a tenth of its values on to the last. */
#include "bench/harness.h"

#include <stdlib.h>
#include <string.h>

#define READERS_MAX 8
#define MANY_MAX 1024

struct load {
    const char *what;
    size_t bytes;
    uint64_t count;
    size_t readers;
    size_t many; /* values a call of bus_publish_many() */
};

static const struct load loads[] = {
    {"16 B", 16, 4000000, 1, 128},
    {"256 B", 256, 2000000, 1, 64},
    {"4 KiB", 4096, 250000, 1, 8},
    {"64 KiB", (size_t)64 * 1024, 20000, 1, 4},
    {"1 MiB", (size_t)1024 * 1024, 1500, 1, 1},
    {"256 B to 8, each", 256, 300000, READERS_MAX, 64},
};

/* ---- roles ----------------------------------------------------------------------------------- */

static void publish_all(struct bus *bus, size_t bytes, uint64_t count, size_t many)
{
    struct bus_value values[MANY_MAX];
    void *value = calloc(1, bytes);
    if (value == NULL) {
        bench_die("no memory");
    }
    for (size_t i = 0; i < many; i++) {
        values[i] = (struct bus_value){value, bytes};
    }
    for (uint64_t sent = 0; sent < count; sent += many) {
        size_t next = count - sent < many ? (size_t)(count - sent) : many;
        enum bus_err err = many > 1 ? bus_publish_many(bus, "w", values, next)
                                    : bus_publish(bus, "w", value, bytes);
        bench_check(err, "publish");
    }
    bench_check(bus_flush(bus, BUS_FOREVER), "flush");
    free(value);
}

/* publish ENDPOINT BYTES COUNT MANY */
static int publish(char **words)
{
    struct bus *bus = bench_open(words[0], "writer");
    role_ready();
    role_wait_go();
    publish_all(bus, strtoul(words[1], NULL, 10), strtoull(words[2], NULL, 10),
                strtoul(words[3], NULL, 10));
    role_say_done(0);
    role_wait_go();
    bus_close(&bus, 10000);
    return 0;
}

/* subscribe ENDPOINT NAME BYTES COUNT */
static int subscribe(char **words)
{
    struct bus *bus = bench_open(words[0], words[1]);
    size_t bytes = strtoul(words[2], NULL, 10);
    uint64_t count = strtoull(words[3], NULL, 10);
    int64_t start_ns = 0;
    struct bus_sub *sub = bench_subscribe(bus, "writer/w");
    role_ready();
    for (uint64_t i = 0; i < count; i++) {
        struct bus_msg *msg = NULL;
        size_t got = 0;
        bench_check(bus_sub_recv(sub, 60000, &msg, NULL), "receive");
        bus_msg_value(msg, &got);
        if (got != bytes || bus_msg_seq(msg) != i) {
            bench_die("not what was sent: %zu bytes at %llu", got,
                      (unsigned long long)bus_msg_seq(msg));
        }
        bus_msg_free(&msg);
        if (i == count / 10) {
            start_ns = test_now_ns();
        }
    }
    role_say_done(test_now_ns() - start_ns);
    role_wait_go();
    bus_sub_close(&sub);
    bus_close(&bus, 10000);
    return 0;
}

/* ---- one run ------------------------------------------------------------------------------- */

static double rate_of(struct process *readers, size_t reader_count, uint64_t count)
{
    int64_t slowest_ns = 1;
    for (size_t i = 0; i < reader_count; i++) {
        int64_t ns = role_done(&readers[i]);
        slowest_ns = ns > slowest_ns ? ns : slowest_ns;
    }
    return (double)(count - count / 10 - 1) * 1e9 / (double)slowest_ns;
}

static double run_errbus(const struct load *load, uint64_t count, size_t many)
{
    struct broker broker;
    struct process writer;
    struct process readers[READERS_MAX];
    char bytes_text[32];
    char count_text[32];
    char many_text[32];
    char names[READERS_MAX][32];
    snprintf(bytes_text, sizeof bytes_text, "%zu", load->bytes);
    snprintf(count_text, sizeof count_text, "%llu", (unsigned long long)count);
    snprintf(many_text, sizeof many_text, "%zu", many);
    bench_broker(&broker);
    for (size_t i = 0; i < load->readers; i++) {
        snprintf(names[i], sizeof names[i], "r%zu", i);
        const char *const words[] = {
            "throughput_bench", "subscribe", broker.control, names[i], bytes_text,
            count_text,         NULL};
        role_start(&readers[i], words);
    }
    const char *const words[] = {
        "throughput_bench", "publish", broker.control, bytes_text, count_text, many_text, NULL};
    role_start(&writer, words);
    role_go(&writer);
    double rate = rate_of(readers, load->readers, count);
    role_done(&writer);
    role_fini(&writer);
    for (size_t i = 0; i < load->readers; i++) {
        role_fini(&readers[i]);
    }
    broker_fini(&broker);
    return rate;
}

/* The same work, by peers/zmq_proxy.c. */
static double run_proxy(const struct load *load, uint64_t count)
{
    struct process proxy;
    struct process writer;
    struct process readers[READERS_MAX];
    const char *line = NULL;
    char in[128];
    char out[128];
    char bytes_text[32];
    char count_text[32];
    char readers_text[32];
    snprintf(bytes_text, sizeof bytes_text, "%zu", load->bytes);
    snprintf(count_text, sizeof count_text, "%llu", (unsigned long long)count);
    snprintf(readers_text, sizeof readers_text, "%zu", load->readers);
    const char *const proxy_words[] = {"zmq_proxy", "proxy", bytes_text, NULL};
    role_start(&proxy, proxy_words);
    if (!process_line(&proxy, 10000, &line) || sscanf(line, "%127s %127s", in, out) != 2) {
        bench_die("the proxy does not tell its endpoints");
    }
    const char *const writer_words[] = {"zmq_proxy", "publish",    in,  bytes_text,
                                        count_text,  readers_text, NULL};
    role_start(&writer, writer_words);
    for (size_t i = 0; i < load->readers; i++) {
        const char *const words[] = {"zmq_proxy", "subscribe", out, bytes_text, count_text, NULL};
        role_start(&readers[i], words);
    }
    role_go(&writer);
    double rate = rate_of(readers, load->readers, count);
    role_fini(&writer);
    for (size_t i = 0; i < load->readers; i++) {
        role_fini(&readers[i]);
    }
    role_fini(&proxy);
    return rate;
}

static void ask(const struct bench *bench, const struct load *load)
{
    double by_proxy[BENCH_RUNS_MAX];
    double by_one[BENCH_RUNS_MAX];
    double by_many[BENCH_RUNS_MAX];
    uint64_t count = bench_count(bench, load->count);
    for (size_t run = 0; run < bench->runs; run++) {
        by_proxy[run] = run_proxy(load, count);
        by_one[run] = run_errbus(load, count, 1);
        by_many[run] = load->many > 1 ? run_errbus(load, count, load->many) : 0;
    }
    struct bench_row row = {.what = load->what,
                            .system = "zmq proxy",
                            .unit = "1/s",
                            .values = by_proxy,
                            .runs = bench->runs,
                            .n = count};
    double proxy = bench_tell(bench, &row);
    row.system = "errbus";
    row.values = by_one;
    row.ratio = bench_median(by_one, bench->runs) / proxy;
    bench_tell(bench, &row);
    if (load->many > 1) {
        row.system = "errbus, many";
        row.values = by_many;
        row.ratio = bench_median(by_many, bench->runs) / proxy;
        bench_tell(bench, &row);
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    if (argc == 6 && strcmp(argv[1], "publish") == 0) {
        return publish(argv + 2);
    }
    if (argc == 6 && strcmp(argv[1], "subscribe") == 0) {
        return subscribe(argv + 2);
    }
    if (!bench_init(&bench, "throughput", argc, argv)) {
        return 2;
    }
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        ask(&bench, &loads[i]);
    }
    return 0;
}
