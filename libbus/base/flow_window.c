/* SPDX-License-Identifier: MPL-2.0 */
/* flow_window.c -- see flow_window.h. */
#include "libbus/base/flow_window.h"

#include "libbus/base/limits.h"

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_US UINT64_C(1000)
#define US_PER_S UINT64_C(1000000)
/* What is computed stays within 64 bits: so many bytes in a round, and so long a round trip. */
#define ROUND_BYTES_MAX (UINT64_C(1) << 33)
#define PART_UNIT 1024
/* The bytes of an answer take so many round trips, at least and at most. */
enum { QUESTION_TRIPS = 3, QUESTION_TRIPS_MOST = 8 };
/* Processors are late by one slack; a round that is later than two has a queue in it. */
enum { LATE_SLACKS = 2 };

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

static uint64_t at_most(uint64_t bytes, uint64_t most)
{
    return bytes < most ? bytes : most;
}

void flow_window_widen(struct flow_window *flow, uint64_t bytes)
{
    uint64_t used = flow->least_bytes + flow->more_bytes;
    bytes = at_most(bytes, used < flow->most_bytes ? flow->most_bytes - used : 0);
    flow->share->wanted += bytes - flow->extra_bytes; /* as in set_more() */
    flow->extra_bytes = bytes;
}

void flow_window_init(struct flow_window *flow, struct flow_share *share, uint64_t floor_bytes,
                      uint64_t most_bytes)
{
    *flow = (struct flow_window){
        .share = share,
        .floor_bytes = floor_bytes < most_bytes ? floor_bytes : most_bytes,
        .least_bytes = floor_bytes < most_bytes ? floor_bytes : most_bytes,
        .goal_bytes = floor_bytes < most_bytes ? floor_bytes : most_bytes,
        .most_bytes = most_bytes,
    };
}

void flow_window_fini(struct flow_window *flow)
{
    set_more(flow, 0);
    flow_window_widen(flow, 0);
}

uint64_t flow_carried(uint64_t rate, int64_t ns)
{
    return rate / US_PER_S * ((uint64_t)ns / NS_PER_US) +
           rate % US_PER_S * ((uint64_t)ns / NS_PER_US) / US_PER_S;
}

uint64_t flow_question_bytes(uint64_t bytes, int64_t took_ns, int64_t least_ns)
{
    if (took_ns / (1 + QUESTION_TRIPS) < least_ns)
        return bytes * 2;
    return took_ns / (1 + QUESTION_TRIPS_MOST) < least_ns ? bytes : bytes / 2;
}

static void know_trip(struct flow_window *flow, int64_t trip_ns)
{
    flow->trip_ns = trip_ns < 1 ? 1 : trip_ns > LIMIT_TRIP_NS_MAX ? LIMIT_TRIP_NS_MAX : trip_ns;
}

static uint64_t start_bytes(const struct flow_window *flow)
{
    int64_t trip_ns = flow->is_trip_given ? flow->trip_ns / 2 : flow->trip_ns; /* of two links */
    uint64_t bytes = flow_carried(FLOW_START_RATE, trip_ns);
    if (bytes < FLOW_START_BYTES_MIN)
        bytes = FLOW_START_BYTES_MIN;
    return at_most(bytes, flow->is_trip_given ? flow->floor_bytes : FLOW_START_BYTES_MAX);
}

/* Divides the window into what is not shared with others, and what is. */
static void set_bytes(struct flow_window *flow, uint64_t bytes)
{
    flow->least_bytes = at_most(bytes, flow->floor_bytes);
    set_more(flow, bytes - flow->least_bytes);
}

static void begin(struct flow_window *flow)
{
    flow->goal_bytes = at_most(flow->is_far ? start_bytes(flow) : flow->floor_bytes, //
                               flow->most_bytes);
    set_bytes(flow, flow->goal_bytes);
    if (flow->is_far) /* what comes lets it double */
        flow->goal_bytes = at_most(2 * flow->goal_bytes, flow->most_bytes);
}

void flow_window_restart(struct flow_window *flow, int64_t trip_ns)
{
    flow_window_fini(flow);
    flow_window_init(flow, flow->share, flow->floor_bytes, flow->most_bytes);
    flow_window_learn(flow, trip_ns);
}

static void forget_link(struct flow_window *flow)
{
    struct flow_window old = *flow;
    flow_window_init(flow, flow->share, flow->floor_bytes, flow->most_bytes);
    flow->more_bytes = old.more_bytes;
    flow->extra_bytes = old.extra_bytes;
    flow->arrived = old.arrived;
    flow->arrived_ns = old.arrived_ns;
    flow->is_trip_given = old.is_trip_given;
}

/* What was measured of a link of another kind does not count. */
void flow_window_learn(struct flow_window *flow, int64_t trip_ns)
{
    bool is_new = flow->is_far != (trip_ns > 0);
    if (is_new)
        forget_link(flow);
    flow->is_far = trip_ns > 0;
    if (trip_ns > 0 && (flow->trip_ns == 0 || trip_ns < flow->trip_ns))
        know_trip(flow, trip_ns);
    if (is_new)
        begin(flow);
}

void flow_window_set_trip(struct flow_window *flow, int64_t trip_ns)
{
    bool is_longer = trip_ns > flow->trip_ns && flow->rates[0] == 0 && flow->rates[1] == 0;
    flow->is_trip_given = true;
    flow_window_learn(flow, trip_ns);
    if (!flow->is_far)
        return;
    know_trip(flow, trip_ns);
    if (is_longer)
        begin(flow);
}

uint64_t flow_rate(uint64_t bytes, int64_t ns)
{
    if (bytes > ROUND_BYTES_MAX)
        bytes = ROUND_BYTES_MAX;
    return bytes * NS_PER_S / (ns > 0 ? (uint64_t)ns : 1);
}

int64_t flow_time_ns(uint64_t rate, uint64_t bytes)
{
    return rate > 0 ? (int64_t)(at_most(bytes, ROUND_BYTES_MAX) * NS_PER_S / rate) : 0;
}

static void next_pieces(struct flow_window *flow)
{
    flow->pieces[1] = flow->pieces[0];
    flow->pieces[0] = 0;
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
            next_pieces(flow);
            flow->rounds = 0;
            flow->period_ns = now_ns;
        }
        flow->rounds += 1;
    }
    if ((is_held || rate > flow_window_rate(flow)) && rate > flow->rates[0])
        flow->rates[0] = rate;
}

static int64_t slack_ns(const struct flow_window *flow)
{
    int64_t least_ns = flow->trip_ns < FLOW_SLACK_NS ? flow->trip_ns : FLOW_SLACK_NS;
    int64_t share_ns = flow->trip_ns / 8;
    if (share_ns > FLOW_SLACK_MOST_NS)
        share_ns = FLOW_SLACK_MOST_NS;
    return share_ns > least_ns ? share_ns : least_ns;
}

/* What lies in the links: each is passed on when it is whole. */
static uint64_t pieces_under_way(const struct flow_window *flow)
{
    return at_most((flow->is_trip_given ? 2 : 1) * flow_window_largest_piece(flow),
                   ROUND_BYTES_MAX);
}

/* Whether a queue stands before the link: a round lasts, or lasted, so much longer than it would
 * without one. */
static bool is_late(const struct flow_window *flow, int64_t round_ns)
{
    int64_t pieces_ns = flow_time_ns(flow_window_rate(flow), pieces_under_way(flow));
    return round_ns - flow->trip_ns - pieces_ns > LATE_SLACKS * slack_ns(flow);
}

/* Where the rate grew by a fourth, the window was too small: it doubles again.  The link is full
 * where the rate does not follow, and a queue was seen; or it does not for some rounds. */
static void see_growth(struct flow_window *flow, bool is_queue, bool is_held)
{
    uint64_t rate = flow_window_rate(flow);
    if (rate > flow->start_rate + flow->start_rate / 4) {
        flow->start_rate = rate;
        flow->flat_rounds = 0;
        flow->is_full = false;
        flow->was_late = false;
    } else if (is_held && !flow->is_full) {
        flow->flat_rounds += 1;
        flow->is_full = is_queue || flow->was_late || flow->flat_rounds >= FLOW_FLAT_ROUNDS;
        flow->was_full = flow->was_full || flow->is_full;
        if (flow->is_full)
            flow->start_rate = rate;
    }
    if (flow->start_rate / 2 > rate)
        flow->start_rate = rate;
}

/* When the rate falls, either a queue stands before a link that became slower, or the path became
 * longer.  Only a new measurement can tell. */
static void see_trip(struct flow_window *flow, int64_t trip_ns, int64_t now_ns)
{
    uint64_t rate = flow_window_rate(flow);
    bool is_first = flow->trip_seen_ns == 0;
    if (flow->is_trip_given)
        trip_ns = flow->trip_ns;
    if (flow->trip_ns == 0 || trip_ns < flow->trip_ns || flow->is_draining || is_first) {
        if (flow->trip_ns == 0 || trip_ns < flow->trip_ns || flow->is_draining)
            know_trip(flow, trip_ns);
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

/* A round trip at this rate, and a little more. */
static uint64_t filled_by(const struct flow_window *flow, uint64_t rate)
{
    return flow_carried(rate, flow->trip_ns + slack_ns(flow)) + pieces_under_way(flow) +
           FLOW_STEP_BYTES;
}

static uint64_t spurt_rate(const struct flow_window *flow)
{
    uint64_t spurt = flow->spurts[0] > flow->spurts[1] ? flow->spurts[0] : flow->spurts[1];
    return spurt > flow_window_rate(flow) ? spurt : flow_window_rate(flow);
}

/* What the link carries. */
static uint64_t window_of(const struct flow_window *flow)
{
    uint64_t rate = flow_window_rate(flow);
    uint64_t bytes;
    if (flow->is_draining)
        bytes = flow_carried(rate, flow->trip_ns / 4 * 3); /* less: no queue */
    else if (flow->is_full)
        bytes = filled_by(flow, rate);
    else if (flow->was_late) /* by an eighth more the rate grows, if it was no queue */
        bytes =
            filled_by(flow, spurt_rate(flow)) + flow_carried(spurt_rate(flow), flow->trip_ns / 8);
    else { /* what is measured was sent a round trip ago, in half of the window or less */
        bytes = flow_carried(rate, FLOW_START_TRIPS * flow->trip_ns);
        if (!flow->was_full && bytes < start_bytes(flow))
            bytes = start_bytes(flow);
    }
    uint64_t least_bytes = at_most(FLOW_LEAST_BYTES, flow->floor_bytes);
    return bytes > least_bytes ? bytes : least_bytes;
}

/* A short link is slow where a piece that fills the window takes long.  The link would be idle
 * until the answer comes.  So there is room for another piece. */
static void see_near(struct flow_window *flow, int64_t round_ns)
{
    uint64_t piece = flow_window_largest_piece(flow);
    bool is_slow = round_ns >= FLOW_SLOW_LEAST_NS && round_ns < FLOW_SLOW_MOST_NS &&
                   piece > flow->floor_bytes / 2 && !flow->is_trip_given;
    flow->goal_bytes = at_most(flow->floor_bytes + (is_slow ? piece : 0), flow->most_bytes);
    next_pieces(flow);
}

static void end_round(struct flow_window *flow, int64_t now_ns)
{
    struct flow_round *round = &flow->round;
    int64_t round_ns = now_ns - round->sent_ns;
    round->is_on = false;
    if (!flow->is_far) {
        see_near(flow, round_ns);
        return;
    }
    see_rate(flow, flow_rate(flow->arrived - round->arrived, now_ns - round->arrived_ns),
             round->is_held, now_ns);
    see_trip(flow, round_ns, now_ns);
    bool is_queue = round->is_held && is_late(flow, round_ns);
    see_growth(flow, is_queue, round->is_held);
    flow->spurts[1] = flow->spurts[0];
    flow->spurts[0] = 0;
    flow->goal_bytes = at_most(window_of(flow), flow->most_bytes);
}

void flow_window_mark(struct flow_window *flow, uint64_t position, int64_t now_ns)
{
    uint32_t end = flow->mark_first + flow->mark_count;
    if (flow->mark_count == FLOW_MARKS)
        return;
    if (flow->mark_count > 0 &&
        now_ns - flow->marks[(end - 1) % FLOW_MARKS].sent_ns < flow->trip_ns / FLOW_MARKS)
        return;
    flow->marks[end % FLOW_MARKS] = (struct flow_mark){.position = position, .sent_ns = now_ns};
    flow->mark_count += 1;
}

/* Within a burst bytes come as fast as the link carries them, long before the window fills it. */
static void see_spurt(struct flow_window *flow, int64_t now_ns)
{
    int64_t part_ns = flow->trip_ns / FLOW_MARKS;
    uint64_t bytes = flow->arrived - flow->spurt_arrived;
    if (part_ns < FLOW_SLACK_NS)
        part_ns = FLOW_SLACK_NS;
    if (now_ns - flow->spurt_ns < part_ns ||
        bytes / FLOW_SPURT_PIECES < flow_window_largest_piece(flow))
        return;
    uint64_t rate = flow_rate(bytes, now_ns - flow->spurt_ns);
    if (rate > flow->spurts[0])
        flow->spurts[0] = rate;
    flow->spurt_arrived = flow->arrived;
    flow->spurt_ns = now_ns;
}

/* Whether a mark was late that has arrived by now, or the next one is late already. */
static bool see_marks(struct flow_window *flow, int64_t now_ns)
{
    bool is_queue = false;
    while (flow->mark_count > 0) {
        const struct flow_mark *mark = &flow->marks[flow->mark_first];
        is_queue = is_queue || is_late(flow, now_ns - mark->sent_ns);
        if (flow->arrived < mark->position)
            break;
        flow->mark_first = (flow->mark_first + 1) % FLOW_MARKS;
        flow->mark_count -= 1;
    }
    return is_queue;
}

/* At the start: the window does not wait for the end of a round to see a queue. */
static void see_start(struct flow_window *flow, int64_t now_ns)
{
    see_spurt(flow, now_ns);
    if (!see_marks(flow, now_ns) || flow->is_draining)
        return;
    if (!flow->was_late)
        flow->start_rate = flow_window_rate(flow);
    flow->was_late = true;
    flow->goal_bytes = at_most(window_of(flow), flow->most_bytes);
}

/* What arrived lets the window grow by so much.  After the start it is at once what it was before a
 * round trip was measured, if that is little. */
static uint64_t growth(const struct flow_window *flow, uint64_t bytes, uint64_t arrived)
{
    uint64_t below = bytes < flow->floor_bytes ? flow->floor_bytes - bytes : 0;
    if (flow->is_full)
        return below > arrived / 4 ? below : arrived / 4;
    return arrived;
}

void flow_window_arrived(struct flow_window *flow, uint64_t position, int64_t now_ns)
{
    struct flow_round *round = &flow->round;
    if (position <= flow->arrived)
        return;
    uint64_t bytes = flow->least_bytes + flow->more_bytes;
    uint64_t most_bytes = bytes + growth(flow, bytes, position - flow->arrived);
    flow->arrived = position;
    flow->arrived_ns = now_ns;
    if (round->is_on && position >= round->position)
        end_round(flow, now_ns);
    if (flow->is_far && !flow->is_full)
        see_start(flow, now_ns);
    else
        flow->mark_count = 0;
    if (bytes != flow->goal_bytes)
        set_bytes(flow, at_most(flow->goal_bytes, most_bytes));
}
