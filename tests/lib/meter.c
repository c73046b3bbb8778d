/* SPDX-License-Identifier: MPL-2.0 */
/* meter.c -- bins, seconds and slopes; see meter.h. */
#include "tests/lib/meter.h"

#include "tests/lib/process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND_MS 1000
#define HOUR_MS 3600000.0
#define SECONDS_LEAST 8
/* What may come of chance: memory grows in steps, beats wait for a busy machine. */
#define MEMORY_SHARE 0.10
#define MEMORY_KIB 16384.0
#define CLIENT_KIB 4096.0
#define DESCRIPTORS 8.0
#define LATENCY_SHARE 0.5
#define LATENCY_US 5000.0
#define LATE_US 100.0

void meter_begin(struct meter *meter)
{
    memset(meter, 0, sizeof *meter);
    meter->begin_ms = test_now_ms();
    meter->now.at_ms = meter->begin_ms;
}

void meter_fini(struct meter *meter)
{
    free(meter->seconds);
    meter->seconds = NULL;
}

static void turn_to(struct meter *meter, int64_t bin)
{
    int64_t first = bin - meter->newest_bin > METER_BINS ? bin - METER_BINS : meter->newest_bin;
    for (int64_t at = first + 1; at <= bin; at++) {
        memset(meter->bins[at % METER_BINS], 0, sizeof meter->bins[0]);
    }
    meter->newest_bin = bin > meter->newest_bin ? bin : meter->newest_bin;
}

void meter_frames(struct meter *meter, size_t lane, uint64_t count)
{
    int64_t bin = (test_now_ms() - meter->begin_ms) / METER_BIN_MS;
    turn_to(meter, bin);
    meter->bins[bin % METER_BINS][lane % METER_LANES] += count;
    meter->now.frames += count;
}

void meter_beats(struct meter *meter, int64_t median_us, int64_t most_us)
{
    struct meter_second *now = &meter->now;
    now->median_us = median_us > now->median_us ? median_us : now->median_us;
    now->most_us = most_us > now->most_us ? most_us : now->most_us;
}

double meter_rate(struct meter *meter, unsigned lanes, int64_t from_ms, int64_t to_ms)
{
    int64_t first = (from_ms - meter->begin_ms) / METER_BIN_MS;
    int64_t last = (to_ms - meter->begin_ms) / METER_BIN_MS;
    uint64_t sum = 0;
    turn_to(meter, (test_now_ms() - meter->begin_ms) / METER_BIN_MS);
    for (int64_t bin = first < 0 ? 0 : first; bin < last; bin++) {
        for (size_t lane = 0; lane < METER_LANES; lane++) {
            sum += (lanes >> lane & 1) != 0 ? meter->bins[bin % METER_BINS][lane] : 0;
        }
    }
    return last > first ? (double)sum * 1000 / (double)((last - first) * METER_BIN_MS) : 0;
}

void meter_late(struct meter *meter, int64_t late_us)
{
    meter->late_sum_us += late_us > 0 ? late_us : 0;
    meter->late_count++;
}

/* ---- the broker's process ---------------------------------------------------------------------*/

static int64_t descriptors(pid_t pid)
{
    char path[64];
    int64_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    while (folder != NULL && readdir(folder) != NULL) {
        count++;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return count;
}

static void keep(struct meter *meter)
{
    if (meter->count == METER_SECONDS_MAX) {
        return;
    }
    if (meter->count == meter->room) {
        size_t room = meter->room > 0 ? 2 * meter->room : 256;
        struct meter_second *seconds = realloc(meter->seconds, room * sizeof *seconds);
        if (seconds == NULL) {
            return; /* what was measured so far has to do */
        }
        meter->seconds = seconds;
        meter->room = room;
    }
    meter->seconds[meter->count++] = meter->now;
}

void meter_look(struct meter *meter, pid_t broker, pid_t client, FILE *results)
{
    int64_t now_ms = test_now_ms();
    struct meter_second *now = &meter->now;
    if (now_ms < now->at_ms + SECOND_MS) {
        return;
    }
    now->broker_pid = broker;
    now->broker_kib = broker > 0 ? test_resident_kib(broker) : -1;
    now->broker_fds = broker > 0 ? descriptors(broker) : -1;
    now->late_us = meter->late_count > 0 ? meter->late_sum_us / meter->late_count : 0;
    meter->late_sum_us = meter->late_count = 0;
    now->client_pid = client;
    now->client_kib = client > 0 ? test_resident_kib(client) : -1;
    now->client_fds = client > 0 ? descriptors(client) : -1;
    fprintf(results,
            "{\"what\":\"second\",\"at_s\":%.3f,\"frames\":%" PRIu64 ",\"latency_us\":%" PRId64
            ",\"latency_most_us\":%" PRId64 ",\"broker_kib\":%" PRId64 ",\"broker_fds\":%" PRId64
            ",\"client_kib\":%" PRId64 ",\"client_fds\":%" PRId64 ",\"late_us\":%" PRId64 "}\n",
            (double)(now_ms - meter->begin_ms) / 1000, now->frames, now->median_us, now->most_us,
            now->broker_kib, now->broker_fds, now->client_kib, now->client_fds, now->late_us);
    keep(meter);
    meter->now = (struct meter_second){.at_ms = now_ms};
}

/* ---- slopes -----------------------------------------------------------------------------------*/

enum { LATENCY = 2, LATENESS = 3, BROKER_SLOPES = 4 }; /* the others are of the client */

static double value_of(const struct meter_second *second, int which)
{
    switch (which) {
    case 0: return (double)second->broker_kib;
    case 1: return (double)second->broker_fds;
    case LATENCY: return (double)second->median_us;
    case LATENESS: return (double)second->late_us;
    case BROKER_SLOPES: return (double)second->client_kib;
    default: return (double)second->client_fds;
    }
}

static int64_t pid_of(const struct meter_second *second, int which)
{
    return which < BROKER_SLOPES ? second->broker_pid : second->client_pid;
}

/* A straight line through the seconds from first on that have a value. */
static size_t fit(const struct meter *meter, size_t first, int which, struct meter_slope *slope)
{
    double n = 0, sum_t = 0, sum_v = 0, sum_tt = 0, sum_tv = 0, span_ms = 0;
    int64_t pid = pid_of(&meter->seconds[meter->count - 1], which);
    for (size_t i = first; i < meter->count; i++) {
        const struct meter_second *second = &meter->seconds[i];
        double t = (double)(second->at_ms - meter->seconds[first].at_ms);
        double v = value_of(second, which);
        if (pid_of(second, which) != pid || v <= 0) {
            continue;
        }
        n += 1;
        sum_t += t;
        sum_v += v;
        sum_tt += t * t;
        sum_tv += t * v;
        span_ms = t;
    }
    double width = n * sum_tt - sum_t * sum_t;
    double a_ms = width > 0 ? (n * sum_tv - sum_t * sum_v) / width : 0;
    slope->mean = n > 0 ? sum_v / n : 0;
    slope->an_hour = a_ms * HOUR_MS;
    slope->expected = a_ms * span_ms;
    return (size_t)n;
}

size_t meter_slopes(const struct meter *meter, struct meter_slope out_slopes[METER_SLOPES])
{
    static const struct meter_slope names[METER_SLOPES] = {
        {.name = "memory of the broker", .unit = "KiB", .bound = MEMORY_KIB},
        {.name = "descriptors of the broker", .unit = "", .bound = DESCRIPTORS},
        {.name = "median latency of a beat", .unit = "us", .bound = LATENCY_US},
        {.name = "lateness of the machine", .unit = "us", .bound = LATE_US},
        {.name = "memory of a client", .unit = "KiB", .bound = CLIENT_KIB},
        {.name = "descriptors of a client", .unit = "", .bound = DESCRIPTORS},
    };
    static const double shares[METER_SLOPES] = {MEMORY_SHARE, 0, LATENCY_SHARE, LATENCY_SHARE,
                                                MEMORY_SHARE, 0};
    bool is_enough = meter->count >= 2 * SECONDS_LEAST;
    int count = 0;
    for (int i = 0; is_enough && i < METER_SLOPES; i++) {
        struct meter_slope *slope = &out_slopes[i];
        *slope = names[i];
        is_enough = fit(meter, meter->count / 2, i, slope) >= SECONDS_LEAST;
        double share = shares[i] * slope->mean;
        slope->bound = share > slope->bound ? share : slope->bound;
        slope->is_flat = slope->expected <= slope->bound;
        slope->is_judged = i != LATENESS;
        count = is_enough ? i + 1 : count;
    }
    if (count >= BROKER_SLOPES) {
        out_slopes[LATENCY].is_judged = out_slopes[LATENESS].is_flat;
    }
    return count >= BROKER_SLOPES ? (size_t)count : 0;
}
