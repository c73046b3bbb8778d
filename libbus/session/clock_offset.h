/* SPDX-License-Identifier: MPL-2.0 */
/* clock_offset.h -- estimates the broker's monotonic clock from beats and their echoes.
 *
 * The method is that of NTP (RFC 5905, section 8).  The estimate takes the echo to be made in the
 * middle of the round trip, so its error is half of the trip at most.  The sample with the shortest
 * trip is kept.  It ages, because the two clocks drift.
 *
 * Two samples that contradict each other show that one clock jumped.  That happens when a machine
 * was suspended, or when the broker starts again on another machine.  Then the newer sample holds,
 * however long its trip. */
#ifndef SESSION_CLOCK_OFFSET_H
#define SESSION_CLOCK_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

struct clock_offset {
    bool is_known;
    uint64_t offset_ns; /* broker's minus ours, modulo 2^64: the broker's number is only a number */
    int64_t half_ns;    /* half of the round trip */
    int64_t sampled_ns; /* our clock */
};

/* A message left at sent_ns (our clock), and its answer with broker_ns arrived at now_ns.  An
 * answer from before sent_ns is ignored. */
void clock_offset_sample(struct clock_offset *clock, int64_t sent_ns, int64_t broker_ns,
                         int64_t now_ns);
/* The broker's clock at our now_ns; now_ns itself before the first sample.  Each value asks, so
 * this is inline. */
static inline int64_t clock_offset_at(const struct clock_offset *clock, int64_t now_ns)
{
    return clock->is_known ? (int64_t)((uint64_t)now_ns + clock->offset_ns) : now_ns;
}
/* The same with its uncertainty: UINT64_MAX before the first sample.  out may be NULL. */
int64_t clock_offset_broker_ns(const struct clock_offset *clock, int64_t now_ns,
                               uint64_t *out_uncertainty_ns);

#endif
