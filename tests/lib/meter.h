/* SPDX-License-Identifier: MPL-2.0 */
/* meter.h -- measurements during a run: frames per interval, how long beats took, and memory and
 * descriptors of the broker's process and of one client. */
#ifndef TESTS_LIB_METER_H
#define TESTS_LIB_METER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum { METER_BINS = 4096, METER_BIN_MS = 50, METER_SECONDS_MAX = 200000, METER_LANES = 8 };

struct meter_second {
    int64_t at_ms; /* since the beginning */
    uint64_t frames;
    int64_t median_us, most_us; /* of the slower pulse; 0: none was heard */
    int64_t broker_kib;         /* -1: it was not there */
    int64_t broker_fds;
    int64_t broker_pid;
    int64_t client_kib; /* the same of a client */
    int64_t client_fds;
    int64_t client_pid;
    int64_t late_us; /* how late this process was woken, on average: the machine's own share */
};

struct meter {
    int64_t begin_ms;
    uint64_t bins[METER_BINS][METER_LANES]; /* a ring: frames by time, and by who wrote them */
    int64_t newest_bin;
    struct meter_second now; /* is being filled */
    int64_t late_sum_us, late_count;
    struct meter_second *seconds;
    size_t count, room;
};

void meter_begin(struct meter *meter);
void meter_fini(struct meter *meter);
void meter_frames(struct meter *meter, size_t lane, uint64_t count); /* came just now */
void meter_beats(struct meter *meter, int64_t median_us, int64_t most_us);
void meter_late(struct meter *meter, int64_t late_us); /* woken so late, just now */
/* To be called often: completes a second when it is over. */
void meter_look(struct meter *meter, pid_t broker, pid_t client, FILE *results);
/* Frames a second between two times, a minute ago at most; lanes: a bit for each that counts. */
double meter_rate(struct meter *meter, unsigned lanes, int64_t from_ms, int64_t to_ms);
#define METER_ALL UINT_MAX

struct meter_slope {
    const char *name;
    const char *unit;
    double mean;
    double an_hour;  /* by least squares */
    double expected; /* its growth over the time that was measured */
    double bound;    /* of that */
    bool is_flat;
    bool is_judged; /* else it says more of the machine than of the bus */
};
enum { METER_SLOPES = 6 };
/* Over the second half of the run, for the broker and the client that were there at its end; how
 * many: those of the client come last, and there are none without it.  0: too few seconds to say
 * anything.  How late the machine wakes a process is told and not judged; and where that grew, no
 * latency is judged. */
size_t meter_slopes(const struct meter *meter, struct meter_slope out_slopes[METER_SLOPES]);

#endif
