/* SPDX-License-Identifier: MPL-2.0 */
/* throughput_bench.c -- how many values a second go from one publisher through the broker to each
 * of its subscribers, in Errbus and in all that it is measured against.
 *
 * Publisher, broker and subscribers are processes.  The systems take turns, run by run.  A rate
 * is of nine tenths of the values: from when they begin to be sent to when the slowest subscriber
 * has them all.
 *
 * With --curve it also tells how much processor time a value costs, all processes together.  Beside
 * errbus, the column of ratios then says which part of it is not the cipher's. */
#include "bench/systems.h"

#define SECONDS 1.0

static const struct load loads[] = {
    {"16 B", 16, 1, 128},
    {"256 B", 256, 1, 64},
    {"4 KiB", 4096, 1, 8},
    {"64 KiB", (size_t)64 * 1024, 1, 4},
    {"1 MiB", (size_t)1024 * 1024, 1, 1},
    {"256 B to 8, each", 256, READERS_MAX, 64},
};
static const struct load large_load = {"64 MiB", (size_t)64 * 1024 * 1024, 1, 1};

static void ask(const struct bench *bench, const struct systems *systems, const struct load *load)
{
    static struct results results, processor;
    results = processor = (struct results){.n = {0}};
    char what[64];
    for (size_t run = 0; run < bench->runs; run++) {
        for (size_t i = 0; i < systems->count; i++) {
            uint64_t count =
                load_count(load, systems->at[i], bench->is_quick ? SECONDS / 10 : SECONDS);
            double before_us = bench_children_us();
            results.n[i] = processor.n[i] = count;
            results.is_out[i] = results.is_out[i] ||
                                !system_rate(systems->at[i], load, count, &results.values[i][run]);
            processor.values[i][run] = (bench_children_us() - before_us) / (double)count;
            processor.is_out[i] = results.is_out[i] || !system_is_ours(systems->at[i]);
        }
    }
    systems_tell(bench, systems, &results, load->what, "1/s");
    if (bench->is_curve) {
        snprintf(what, sizeof what, "%s, processor", load->what);
        systems_tell(bench, systems, &processor, what, "us");
    }
}

static void keep(struct systems *systems, enum system_flag flag)
{
    size_t count = 0;
    for (size_t i = 0; i < systems->count; i++) {
        if ((systems->at[i]->flags & (unsigned)flag) != 0) {
            systems->at[count++] = systems->at[i];
        }
    }
    systems->count = count;
}

int main(int argc, char **argv)
{
    struct bench bench;
    struct systems systems;
    if (!bench_init(&bench, "throughput", argc, argv)) {
        return 2;
    }
    systems_find(&systems, &bench, FOR_RATE);
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        ask(&bench, &systems, &loads[i]);
    }
    if (!bench.is_long) {
        keep(&systems, LARGE_TOO);
    }
    if (!bench.is_quick || bench.is_long) {
        ask(&bench, &systems, &large_load);
    }
    return 0;
}
