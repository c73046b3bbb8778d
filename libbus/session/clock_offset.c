/* SPDX-License-Identifier: MPL-2.0 */
/* clock_offset.c -- one sample and its age; see clock_offset.h. */
#include "libbus/session/clock_offset.h"

#include <stddef.h>

/* The clocks of ordinary machines drift apart by at most 100 ppm. */
enum { DRIFT_DIVISOR = 10000 };

static uint64_t uncertainty(const struct clock_offset *clock, int64_t now_ns)
{
    uint64_t age = now_ns > clock->sampled_ns ? (uint64_t)now_ns - (uint64_t)clock->sampled_ns : 0;
    return (uint64_t)clock->half_ns + age / DRIFT_DIVISOR;
}

/* Whether a new sample and the kept one agree within their errors. */
static bool may_both_hold(const struct clock_offset *clock, uint64_t offset_ns, uint64_t half_ns,
                          int64_t now_ns)
{
    uint64_t slack_ns = half_ns + uncertainty(clock, now_ns);
    uint64_t ahead_ns = offset_ns - clock->offset_ns; /* modulo 2^64: large if it is behind */
    return ahead_ns <= slack_ns || 0 - ahead_ns <= slack_ns;
}

void clock_offset_sample(struct clock_offset *clock, int64_t sent_ns, int64_t broker_ns,
                         int64_t now_ns)
{
    if (sent_ns > now_ns || sent_ns < 0)
        return;
    int64_t half_ns = (now_ns - sent_ns) / 2;
    uint64_t offset_ns = (uint64_t)broker_ns - (uint64_t)(sent_ns + half_ns);
    bool is_worse = clock->is_known && (uint64_t)half_ns > uncertainty(clock, now_ns);
    if (is_worse && may_both_hold(clock, offset_ns, (uint64_t)half_ns, now_ns))
        return;
    clock->is_known = true;
    clock->offset_ns = offset_ns;
    clock->half_ns = half_ns;
    clock->sampled_ns = now_ns;
}

int64_t clock_offset_broker_ns(const struct clock_offset *clock, int64_t now_ns,
                               uint64_t *out_uncertainty_ns)
{
    if (out_uncertainty_ns != NULL)
        *out_uncertainty_ns = clock->is_known ? uncertainty(clock, now_ns) : UINT64_MAX;
    return clock_offset_at(clock, now_ns);
}
