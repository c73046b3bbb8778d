/* SPDX-License-Identifier: MPL-2.0 */
/* latency_bench.c -- how long a value is on its way, one way, at a low rate: 256 bytes, a thousand
 * a second, from the call that sends it to the return of the one that receives it, in Errbus and
 * in all that it is measured against.
 *
 * Both ends read the same monotonic clock. */
#include "bench/systems.h"

#define BYTES 256
#define COUNT 3000
#define EVERY_NS INT64_C(1000000)

static struct results p50;
static struct results p99;
static struct samples together[SYSTEMS_MAX]; /* of all runs */

static void run_one(const struct system *system, uint64_t count, size_t at, size_t run)
{
    struct samples samples = {.count = 0};
    bool is_done = system_latency(system, BYTES, EVERY_NS, count, &samples);
    p50.values[at][run] = samples_percentile(&samples, 50);
    p99.values[at][run] = samples_percentile(&samples, 99);
    p50.n[at] = p99.n[at] = count;
    p50.is_out[at] = p99.is_out[at] = !is_done;
    samples_add_all(&together[at], &samples);
    samples_fini(&samples);
}

int main(int argc, char **argv)
{
    struct bench bench;
    struct systems systems;
    if (!bench_init(&bench, "latency", argc, argv)) {
        return 2;
    }
    systems_find(&systems, &bench, FOR_LATENCY);
    for (size_t run = 0; run < bench.runs; run++) {
        for (size_t i = 0; i < systems.count; i++) {
            if (!p50.is_out[i]) {
                run_one(systems.at[i], bench_count(&bench, COUNT), i, run);
            }
        }
    }
    systems_tell(&bench, &systems, &p50, "256 B at 1000/s, p50", "us");
    systems_tell(&bench, &systems, &p99, "256 B at 1000/s, p99", "us");
    for (size_t i = 0; i < systems.count; i++) {
        bench_draw_percentiles(&bench, "latency: 256 B at 1000/s", systems.at[i]->name,
                               &together[i]);
        samples_fini(&together[i]);
    }
    return 0;
}
