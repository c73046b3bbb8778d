/* SPDX-License-Identifier: MPL-2.0 */
/* beside_bench.c -- the latency of a small value while values of 4 KiB go as fast as they can
 * through the same broker.  It is the wait of a failure that a system sends as a value.
 * raise_bench.c measures how long Errbus takes to raise a failure.
 *
 *   alone         there is no other load.
 *   own sockets   processes of their own write and read the small values, on another topic.
 *   same reader   one process reads both, over one connection.
 *   same stream   some of the bulk values are timed: they wait in their writer's queue too. */
#include "bench/peer.h"
#include "bench/systems.h"

#include <string.h>

#define SMALL_BYTES 64
#define BULK_BYTES 4096
#define BULK_GROUP 8
#define COUNT 1000
#define EVERY_NS INT64_C(2000000)
#define FULL_AFTER_NS INT64_C(300000000) /* of bulk: all queues are full */

enum place { ALONE, OWN_SOCKETS, SAME_READER, SAME_STREAM, PLACES };
static const char *const places[PLACES] = {"alone", "own sockets", "same reader", "same stream"};

static struct results p50[PLACES];
static struct results p99[PLACES];
static struct results bulk_rate;

/* ---- the bulk ---------------------------------------------------------------------------------*/

struct bulk {
    struct process writer;
    struct process reader;
    int64_t first_ns; /* when the reader told for the first time how far it is */
    uint64_t first_count;
    int64_t last_ns; /* and for the last time */
    uint64_t last_count;
};

/* The next that the reader tells; false: it is gone, or says something else. */
static bool follow(struct bulk *bulk)
{
    const char *line = NULL;
    unsigned long long count = 0;
    long long ns = 0;
    if (!process_line(&bulk->reader, 10000, &line) ||
        sscanf(line, "at %llu %lld", &count, &ns) != 2) {
        return false;
    }
    bulk->last_ns = ns;
    bulk->last_count = count;
    if (bulk->first_ns == 0) {
        bulk->first_ns = ns;
        bulk->first_count = count;
    }
    return true;
}

static bool follow_until(struct bulk *bulk, int64_t at_ns)
{
    bool is_there = true;
    while (is_there && bulk->last_ns < at_ns) {
        is_there = follow(bulk);
    }
    return is_there;
}

/* Up to full queues, from where its rate counts. */
static bool bulk_start(const struct stage *stage, struct bulk *bulk, uint64_t samples)
{
    bool is_full =
        stage_role(stage, &bulk->writer, "write", "topic=b bytes=%d group=%d readers=1", BULK_BYTES,
                   BULK_GROUP) &&
        stage_role(stage, &bulk->reader, "read", "topic=%s bytes=%d told=1 beside=%d samples=%llu",
                   samples > 0 ? PEER_ALL_TOPICS : "b", BULK_BYTES, SMALL_BYTES,
                   (unsigned long long)samples) &&
        stage_go(stage, &bulk->writer) && follow(bulk) &&
        follow_until(bulk, bulk->first_ns + FULL_AFTER_NS);
    bulk->first_ns = bulk->last_ns;
    bulk->first_count = bulk->last_count;
    return is_full || stage_complain(stage, &bulk->reader, "carries no bulk");
}

static double bulk_rate_of(const struct bulk *bulk)
{
    int64_t ns = bulk->last_ns - bulk->first_ns;
    return ns > 0 ? (double)(bulk->last_count - bulk->first_count) * 1e9 / (double)ns : 0;
}

static void bulk_end(struct bulk *bulk)
{
    process_fini(&bulk->writer);
    process_fini(&bulk->reader);
}

/* ---- one run ----------------------------------------------------------------------------------*/

/* Small values in processes of their own, with or without bulk. */
static bool time_small(const struct stage *stage, uint64_t count, struct bulk *bulk,
                       struct samples *samples)
{
    struct process writer = {0};
    struct process reader = {0};
    int64_t end_ns = 0;
    bool is_done =
        stage_role(stage, &writer, "write", "topic=v bytes=%d count=%llu every_ns=%lld readers=1",
                   SMALL_BYTES, (unsigned long long)count, (long long)EVERY_NS) &&
        stage_role(stage, &reader, "read", "topic=v bytes=%d count=%llu", SMALL_BYTES,
                   (unsigned long long)count) &&
        (bulk == NULL || bulk_start(stage, bulk, 0)) && stage_go(stage, &writer) &&
        stage_result(stage, &reader, &end_ns, samples) &&
        (bulk == NULL || follow_until(bulk, end_ns));
    process_fini(&writer);
    process_fini(&reader);
    return is_done;
}

/* Small values from a writer of their own to the reader of the bulk. */
static bool time_between(const struct stage *stage, uint64_t count, struct bulk *bulk,
                         struct samples *samples)
{
    struct process writer = {0};
    int64_t end_ns = 0;
    bool is_done =
        stage_role(stage, &writer, "write", "topic=v bytes=%d count=%llu every_ns=%lld readers=1",
                   SMALL_BYTES, (unsigned long long)count, (long long)EVERY_NS) &&
        bulk_start(stage, bulk, count) && stage_go(stage, &writer) &&
        stage_result(stage, &bulk->reader, &end_ns, samples);
    process_fini(&writer);
    return is_done;
}

/* Some of the bulk's own. */
static bool time_bulk(const struct stage *stage, uint64_t count, struct bulk *bulk,
                      struct samples *samples)
{
    int64_t end_ns = 0;
    return stage_role(stage, &bulk->writer, "write",
                      "topic=b bytes=%d group=%d readers=1 stamp_ns=%lld", BULK_BYTES, BULK_GROUP,
                      (long long)EVERY_NS) &&
           stage_role(stage, &bulk->reader, "read", "topic=b bytes=%d samples=%llu", BULK_BYTES,
                      (unsigned long long)count) &&
           stage_go(stage, &bulk->writer) && stage_result(stage, &bulk->reader, &end_ns, samples);
}

static bool run_place(const struct stage *stage, enum place place, uint64_t count,
                      struct bulk *bulk, struct samples *samples)
{
    switch (place) {
    case SAME_READER: return time_between(stage, count, bulk, samples);
    case SAME_STREAM: return time_bulk(stage, count, bulk, samples);
    default: return time_small(stage, count, place == ALONE ? NULL : bulk, samples);
    }
}

static void run_one(const struct system *system, enum place place, uint64_t count, size_t at,
                    size_t run)
{
    struct samples samples = {.count = 0};
    struct bulk bulk;
    struct stage stage;
    memset(&bulk, 0, sizeof bulk);
    bool is_done = stage_open(&stage, system, place == ALONE ? SMALL_BYTES : BULK_BYTES) &&
                   run_place(&stage, place, count, &bulk, &samples);
    samples_drop(&samples, samples.count / 5);
    p50[place].values[at][run] = samples_percentile(&samples, 50);
    p99[place].values[at][run] = samples_percentile(&samples, 99);
    p50[place].n[at] = p99[place].n[at] = bulk_rate.n[at] = count;
    p50[place].is_out[at] = p99[place].is_out[at] = !is_done;
    if (place == OWN_SOCKETS) {
        bulk_rate.values[at][run] = bulk_rate_of(&bulk);
        bulk_rate.is_out[at] = !is_done;
    }
    bulk_end(&bulk);
    stage_close(&stage);
    samples_fini(&samples);
}

static void report(const struct bench *bench, const struct systems *systems)
{
    char what[64];
    for (int place = 0; place < PLACES; place++) {
        snprintf(what, sizeof what, "%s, p50", places[place]);
        systems_tell(bench, systems, &p50[place], what, "us");
        snprintf(what, sizeof what, "%s, p99", places[place]);
        systems_tell(bench, systems, &p99[place], what, "us");
    }
    systems_tell(bench, systems, &bulk_rate, "the bulk meanwhile", "1/s");
}

int main(int argc, char **argv)
{
    struct bench bench;
    struct systems systems;
    if (!bench_init(&bench, "beside", argc, argv)) {
        return 2;
    }
    systems_find(&systems, &bench, FOR_LATENCY);
    for (size_t i = 0; i < systems.count; i++) {
        bool is_out = (systems.at[i]->flags & ONE_TOPIC) != 0;
        p50[SAME_READER].is_out[i] = p99[SAME_READER].is_out[i] = is_out;
    }
    for (size_t run = 0; run < bench.runs; run++) {
        for (size_t i = 0; i < systems.count; i++) {
            for (enum place place = 0; place < PLACES; place++) {
                if (!p50[place].is_out[i]) {
                    run_one(systems.at[i], place, bench_count(&bench, COUNT), i, run);
                }
            }
        }
    }
    report(&bench, &systems);
    return 0;
}
