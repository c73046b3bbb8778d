/* SPDX-License-Identifier: MPL-2.0 */
/* flow_window.c -- see flow_window.h. */
#include "libbus/base/flow_window.h"

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_US UINT64_C(1000)
#define US_PER_S UINT64_C(1000000)
/* What is computed stays within 64 bits: so many bytes in a round, and so long a round trip. */
#define ROUND_BYTES_MAX (UINT64_C(1) << 33)
#define PART_UNIT 1024
#define TRIP_NS_MAX (INT64_C(10) * 1000000000)

/* In units of 1/PART_UNIT, so that 64 bits hold it. */
uint64_t flow_share_part(const struct flow_share *share, uint64_t more_bytes)
{
    return more_bytes / PART_UNIT * (share->bytes_max / (share->wanted / PART_UNIT + 1));
}

static void set_more(struct flow_window *flow, uint64_t more_bytes)
{
    flow->share->wanted += more_bytes - flow->more_bytes; /* modulo 2^64, as the sum is */
    flow->more_bytes = more_bytes;
}

void flow_window_init(struct flow_window *flow, struct flow_share *share, uint64_t floor_bytes,
                      uint64_t most_bytes)
{
    *flow = (struct flow_window){
        .share = share,
        .floor_bytes = floor_bytes < most_bytes ? floor_bytes : most_bytes,
        .least_bytes = floor_bytes < most_bytes ? floor_bytes : most_bytes,
        .most_bytes = most_bytes,
    };
}

void flow_window_fini(struct flow_window *flow)
{
    set_more(flow, 0);
}

void flow_window_restart(struct flow_window *flow)
{
    flow_window_fini(flow);
    flow_window_init(flow, flow->share, flow->floor_bytes, flow->most_bytes);
}

uint64_t flow_rate(uint64_t bytes, int64_t ns)
{
    if (bytes > ROUND_BYTES_MAX)
        bytes = ROUND_BYTES_MAX;
    return bytes * NS_PER_S / (ns > 0 ? (uint64_t)ns : 1);
}

static uint64_t rate_max(const struct flow_window *flow)
{
    return flow->rates[0] > flow->rates[1] ? flow->rates[0] : flow->rates[1];
}

/* A period ends after some rounds.  It also ends after as many shortest round trips: where a queue
 * stands the link became slower, and each round takes long. */
static void see_rate(struct flow_window *flow, uint64_t rate, bool is_held, int64_t now_ns)
{
    if (is_held) {
        bool is_over = flow->rounds >= FLOW_PERIOD_ROUNDS ||
                       now_ns - flow->period_ns >= FLOW_PERIOD_ROUNDS * flow->trip_ns;
        if (is_over) {
            flow->rates[1] = flow->rates[0];
            flow->rates[0] = 0;
            flow->rounds = 0;
            flow->period_ns = now_ns;
        }
        flow->rounds += 1;
    }
    if ((is_held || rate > rate_max(flow)) && rate > flow->rates[0])
        flow->rates[0] = rate;
}

/* Where the rate grew by a fourth, the window was too small: it doubles again.  Where the rate does
 * not follow, or half of a round trip stands in a queue, the link is full. */
static void see_growth(struct flow_window *flow, int64_t trip_ns, bool is_held)
{
    uint64_t rate = rate_max(flow);
    if (rate > flow->start_rate + flow->start_rate / 4) {
        flow->start_rate = rate;
        flow->flat_rounds = 0;
        flow->is_full = false;
    } else if (is_held && !flow->is_full) {
        flow->flat_rounds += 1;
        flow->is_full = flow->flat_rounds >= FLOW_FLAT_ROUNDS;
    }
    if (is_held && trip_ns / 3 * 2 > flow->trip_ns)
        flow->is_full = true;
    if (flow->start_rate > rate)
        flow->start_rate = rate;
}

/* When the rate falls, either a queue stands before a link that became slower, or the path became
 * longer.  Only a new measurement can tell. */
static void see_trip(struct flow_window *flow, int64_t trip_ns, int64_t now_ns)
{
    if (trip_ns > TRIP_NS_MAX)
        trip_ns = TRIP_NS_MAX;
    if (trip_ns < 1)
        trip_ns = 1;
    uint64_t rate = rate_max(flow);
    if (flow->trip_ns == 0 || trip_ns <= flow->trip_ns || flow->is_draining) {
        flow->trip_ns = trip_ns;
        flow->trip_seen_ns = now_ns;
        flow->trip_rate = rate;
        flow->is_draining = false;
    } else {
        flow->is_draining = now_ns - flow->trip_seen_ns >= FLOW_TRIP_KEPT_NS ||
                            rate < flow->trip_rate - flow->trip_rate / 4;
    }
    if (flow->trip_rate < rate)
        flow->trip_rate = rate;
}

uint64_t flow_carried(uint64_t rate, int64_t ns)
{
    return rate / US_PER_S * ((uint64_t)ns / NS_PER_US) +
           rate % US_PER_S * ((uint64_t)ns / NS_PER_US) / US_PER_S;
}

static int64_t slack_ns(const struct flow_window *flow)
{
    int64_t least_ns = flow->trip_ns < FLOW_SLACK_NS ? flow->trip_ns : FLOW_SLACK_NS;
    if (!flow->is_full)
        return 2 * flow->trip_ns; /* what is measured is what was sent a round trip ago */
    return flow->trip_ns / 8 > least_ns ? flow->trip_ns / 8 : least_ns;
}

/* Less than the link carries: no queue. */
static uint64_t drained(const struct flow_window *flow)
{
    return flow_carried(rate_max(flow), flow->trip_ns / 4 * 3);
}

/* What the link carries, beyond the floor. */
static uint64_t more_of(const struct flow_window *flow)
{
    uint64_t rate = rate_max(flow);
    if (flow->trip_ns < FLOW_NEAR_NS)
        return 0;
    uint64_t bytes =
        flow->is_draining ? drained(flow) : flow_carried(rate, flow->trip_ns + slack_ns(flow));
    if (bytes <= flow->floor_bytes)
        return 0;
    if (!flow->is_draining)
        bytes += flow->floor_bytes / FLOW_STEPS;
    return (bytes < flow->most_bytes ? bytes : flow->most_bytes) - flow->floor_bytes;
}

/* A floor that is more than the link carries is a queue, too. */
static uint64_t least_of(const struct flow_window *flow)
{
    uint64_t step = flow->floor_bytes / FLOW_STEPS;
    if (!flow->is_draining || flow->trip_ns < FLOW_NEAR_NS)
        return flow->floor_bytes;
    uint64_t bytes = drained(flow);
    if (bytes < step)
        bytes = step;
    return bytes < flow->floor_bytes ? bytes : flow->floor_bytes;
}

static void end_round(struct flow_window *flow, int64_t now_ns)
{
    struct flow_round *round = &flow->round;
    round->is_on = false;
    see_rate(flow, flow_rate(flow->arrived - round->arrived, now_ns - round->arrived_ns),
             round->is_held, now_ns);
    see_trip(flow, now_ns - round->sent_ns, now_ns);
    see_growth(flow, now_ns - round->sent_ns, round->is_held);
    flow->goal_bytes = more_of(flow);
    flow->least_bytes = least_of(flow);
}

void flow_window_arrived(struct flow_window *flow, uint64_t position, int64_t now_ns)
{
    struct flow_round *round = &flow->round;
    if (position <= flow->arrived)
        return;
    uint64_t passed = position - flow->arrived;
    uint64_t most_bytes = flow->more_bytes + (flow->is_full ? passed / 4 : passed);
    flow->arrived = position;
    flow->arrived_ns = now_ns;
    if (round->is_on && position >= round->position)
        end_round(flow, now_ns);
    if (flow->more_bytes != flow->goal_bytes)
        set_more(flow, flow->goal_bytes < most_bytes ? flow->goal_bytes : most_bytes);
}
