/* SPDX-License-Identifier: MPL-2.0 */
/* clock_offset.h -- the broker's monotonic clock, reckoned from beats and their echoes.
 *
 * As in NTP (RFC 5905, section 8): the echo is taken to have been made in the middle of the round
 * trip, wrong by half of it at most.  The sample with the shortest trip is kept; it ages, because
 * the two clocks drift.  Two samples that cannot both be right show that one of the clocks has
 * jumped, as it does when a machine was suspended, or the broker begins again on another one: then
 * the newer holds, however long its trip. */
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

/* A message of sent_ns (our clock) was answered with broker_ns and came back at now_ns.  A trip
 * that ends before it began is no sample. */
void clock_offset_sample(struct clock_offset *clock, int64_t sent_ns, int64_t broker_ns,
                         int64_t now_ns);
/* now_ns itself, with an uncertainty of UINT64_MAX, before the first sample.  out may be NULL. */
int64_t clock_offset_broker_ns(const struct clock_offset *clock, int64_t now_ns,
                               uint64_t *out_uncertainty_ns);

#endif
