/* SPDX-License-Identifier: MPL-2.0 */
/* shared_bench.c -- what it costs that readers wait for the disk: durability `shared` beside
 * `disk`, on the same disk, in pairs of runs that follow each other.
 *
 *   4 KiB      the rate of one writer to one reader, shared to disk
 *   one way    256 bytes, a thousand a second: how much later half of them come, in syncs of that
 *              disk; a sync is a write of 512 bytes and an fdatasync() */
#include "bench/systems.h"
#include "tests/lib/folder.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define SECONDS 1.0
#define PACED_BYTES 256
#define PACED_COUNT 3000
#define PACED_EVERY_NS INT64_C(1000000)
#define SYNCS 300
#define SYNC_BYTES 512

static const struct load load = {"4 KiB", 4096, 1, 8};

enum { DISK, SHARED, LEVELS };
static const char names[] = "errbus disk,errbus shared";

/* By run. */
static double ratios[BENCH_RUNS_MAX];
static double ways_us[LEVELS][BENCH_RUNS_MAX];
static double syncs_us[BENCH_RUNS_MAX];
static double delays[BENCH_RUNS_MAX];

static double measure_rate(const struct bench *bench, const struct system *system)
{
    double rate = 0;
    uint64_t count = load_count(&load, system, bench->is_quick ? SECONDS / 10 : SECONDS);
    if (!system_rate(system, &load, count, &rate)) {
        bench_die("%s does not carry values", system->name);
    }
    return rate;
}

static double measure_way_us(const struct bench *bench, const struct system *system)
{
    struct samples samples = {.count = 0};
    uint64_t count = bench_count(bench, PACED_COUNT);
    if (!system_latency(system, PACED_BYTES, PACED_EVERY_NS, count, &samples)) {
        bench_die("%s does not carry values at a pace", system->name);
    }
    double us = samples_percentile(&samples, 50);
    samples_fini(&samples);
    return us;
}

/* One block behind the other in a file that has its room, as the journal writes. */
static void sync_all(int file, uint64_t count, struct samples *samples)
{
    char block[SYNC_BYTES];
    memset(block, 'x', sizeof block);
    for (uint64_t i = 0; i < count; i++) {
        int64_t from_ns = test_now_ns();
        if (pwrite(file, block, sizeof block, (off_t)(i * sizeof block)) != (ssize_t)sizeof block ||
            fdatasync(file) != 0) {
            bench_die("the disk cannot be written");
        }
        samples_add(samples, test_now_ns() - from_ns);
    }
}

static double measure_sync_us(const struct bench *bench)
{
    struct folder folder;
    char path[FOLDER_PATH_BYTES_MAX + 8];
    struct samples samples = {.count = 0};
    uint64_t count = bench_count(bench, SYNCS);
    if (!folder_make(&folder)) {
        bench_die("no folder can be made");
    }
    snprintf(path, sizeof path, "%s/file", folder.path);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || posix_fallocate(file, 0, (off_t)(count * SYNC_BYTES)) != 0) {
        bench_die("%s cannot be made", path);
    }
    sync_all(file, count, &samples);
    close(file);
    folder_fini(&folder);
    double us = samples_percentile(&samples, 50);
    samples_fini(&samples);
    return us;
}

/* Every second run begins with the other level. */
static void run_pair(const struct bench *bench, const struct systems *systems, size_t run)
{
    double rates[LEVELS];
    for (size_t i = 0; i < LEVELS; i++) {
        size_t level = run % 2 == 0 ? i : LEVELS - 1 - i;
        rates[level] = measure_rate(bench, systems->at[level]);
        ways_us[level][run] = measure_way_us(bench, systems->at[level]);
    }
    syncs_us[run] = measure_sync_us(bench);
    ratios[run] = rates[SHARED] / rates[DISK];
    delays[run] = (ways_us[SHARED][run] - ways_us[DISK][run]) / syncs_us[run];
}

static void tell(const struct bench *bench, const char *what, const char *system, const char *unit,
                 const double *values)
{
    struct bench_row row = {.what = what,
                            .system = system,
                            .unit = unit,
                            .values = values,
                            .runs = bench->runs,
                            .n = bench_count(bench, PACED_COUNT)};
    bench_tell(bench, &row);
}

int main(int argc, char **argv)
{
    struct bench bench;
    struct systems systems;
    if (!bench_init(&bench, "shared", argc, argv)) {
        return 2;
    }
    bench.systems = names;
    systems_find(&systems, &bench, FOR_RATE);
    for (size_t run = 0; run < bench.runs; run++) {
        run_pair(&bench, &systems, run);
    }
    tell(&bench, "4 KiB", "shared to disk", "x", ratios);
    tell(&bench, "one way p50", "errbus disk", "us", ways_us[DISK]);
    tell(&bench, "one way p50", "errbus shared", "us", ways_us[SHARED]);
    tell(&bench, "a sync, p50", "device", "us", syncs_us);
    tell(&bench, "one way p50, later by", "shared", "syncs", delays);
    return 0;
}
