/* SPDX-License-Identifier: MPL-2.0 */
/* flow_window.h -- how many bytes of a flow may be on their way at a time.
 *
 * A flow goes from one sender to one receiver, who says how much arrived.  Its window is what the
 * link carries in a round trip: the rate at which bytes arrived, times the shortest round trip, and
 * a little more.  So the link is full, and no queue stands in it.  Both are measured as BBR does it
 * (Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14, 2016):
 *
 *   rate        What arrived in one round trip, by the time that it took.  The largest of the last
 *               rounds counts.  So one late answer changes nothing, and a link that became slower
 *               is known after FLOW_PERIODS periods.
 *   round trip  The shortest within FLOW_TRIP_KEPT_NS.  After that time it is measured anew, and
 *               also when the rate fell by a fourth: the path may be longer now.  Until then the
 *               window is less than the link carries, so no queue is part of what is measured.
 *   start       The window doubles with each round trip, until the rate follows no longer.  It
 *               begins with what FLOW_START_RATE carries in a round trip.
 *   marks       At the start FLOW_MARKS rounds overlap.  As soon as one of them is late, the window
 *               is no more than what the fastest spurt would fill.  A queue of one burst looks
 *               the same: there the rate still grows, and the start goes on.
 *   pieces      What is sent at once arrives at once.  So the window has room for one piece more.
 *               It has for two, if it follows the links of a writer and of a reader.
 *
 * A round in which the sender had less to send than the window allows says nothing about the link.
 * It counts only if it was faster than all rounds before.
 *
 * The window grows by no more than what arrives meanwhile.  So the sender never sends a burst.
 *
 * The window depends on the rate and the round trip, and neither can exceed what the link has.  So
 * the window does not feed on itself.  On a short link the window is floor_bytes, and one piece if
 * the link is so slow that it would be idle between two large ones.  On a long one it may be less:
 * half a MiB is a long queue before a slow link.  The caller says which it is (trip.h): rounds that
 * wait for their own bytes cannot tell.  All time is given by the caller, and positions count bytes
 * of one connection. */
#ifndef BASE_FLOW_WINDOW_H
#define BASE_FLOW_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

/* A path may change.  So its shortest round trip counts for this time. */
#define FLOW_TRIP_KEPT_NS INT64_C(10000000000)
/* Answers are late by some milliseconds where processors are shared.  So the window has so much
 * more, but at most what another round trip carries. */
#define FLOW_SLACK_NS INT64_C(10000000)
/* An eighth of a long round trip would be a queue: so much is enough. */
#define FLOW_SLACK_MOST_NS INT64_C(25000000)
/* On a short link a piece takes so long, at least and at most, if there is to be room for another:
 * the answer takes a millisecond, which is much of the one and little of the other. */
#define FLOW_SLOW_LEAST_NS INT64_C(4000000)
#define FLOW_SLOW_MOST_NS INT64_C(50000000)
enum {
    FLOW_PERIODS = 2,       /* whose largest rate counts: this one, and the one before */
    FLOW_PERIOD_ROUNDS = 4, /* rounds in a period, or the time of as many shortest round trips */
    FLOW_FLAT_ROUNDS = 3,   /* so often the rate grows by less than a fourth: the link is full */
    /* The least window over a link, and what its receiver may have without having told it. */
    FLOW_LEAST_BYTES = 32768,
    FLOW_STEP_BYTES = 16384,
    FLOW_START_BYTES_MIN = 131072,  /* the first window: what FLOW_START_RATE bytes a second */
    FLOW_START_BYTES_MAX = 2097152, /* ... carry in a round trip, but no less and no more */
    FLOW_START_RATE = 5242880,
    FLOW_START_TRIPS = 6,  /* at the start the window is at most what comes in so many trips */
    FLOW_MARKS = 6,        /* so many rounds overlap there */
    FLOW_SPURT_PIECES = 4, /* a spurt has as many pieces or more: one that is early is a part */
};

/* What is measured in one round: from when something is sent until it has arrived. */
struct flow_round {
    bool is_on;
    bool is_held;      /* the window held the sender back before that */
    uint64_t position; /* the round ends when this has arrived */
    int64_t sent_ns;
    uint64_t arrived;   /* what had arrived when the round began, */
    int64_t arrived_ns; /* and since when nothing more had arrived */
};

/* One of the rounds that overlap at the start: it only tells whether a queue stands there. */
struct flow_mark {
    uint64_t position;
    int64_t sent_ns;
};

/* What windows have beyond their floors.  Together they may have so much.  If they want more, each
 * gets the same part of what it wants. */
struct flow_share {
    uint64_t bytes_max;
    uint64_t wanted; /* the sum */
};

/* What a window gets that wants so many bytes, while all together want too many. */
uint64_t flow_share_part(const struct flow_share *share, uint64_t more_bytes);

static inline uint64_t flow_share_get(const struct flow_share *share, uint64_t more_bytes)
{
    return share->wanted <= share->bytes_max ? more_bytes : flow_share_part(share, more_bytes);
}

/* Bytes a second; how long bytes take at such a rate, and what it carries in a time.  No rate takes
 * no time. */
uint64_t flow_rate(uint64_t bytes, int64_t ns);
int64_t flow_time_ns(uint64_t rate, uint64_t bytes);
uint64_t flow_carried(uint64_t rate, int64_t ns);

struct flow_window {
    struct flow_share *share;
    uint64_t floor_bytes;
    uint64_t most_bytes;
    uint64_t least_bytes; /* the floor; over a link, less if it carries less */
    uint64_t more_bytes;  /* what it wants beyond that, */
    uint64_t extra_bytes; /* ... and by flow_window_widen() */
    uint64_t goal_bytes;  /* what the whole grows to */
    uint64_t arrived;     /* position */
    int64_t arrived_ns;
    struct flow_round round;
    struct flow_mark marks[FLOW_MARKS]; /* that have not arrived, a ring */
    uint32_t mark_first, mark_count;
    uint64_t spurts[FLOW_PERIODS]; /* how fast bytes came at most: in this round, in the last one */
    uint64_t spurt_arrived;        /* what had arrived when the present spurt began, */
    int64_t spurt_ns;              /* ... and when that was */
    uint64_t pieces[FLOW_PERIODS]; /* the largest that was sent at once; as rates */
    bool is_far;                   /* the window follows its link; else it is the floor */
    bool is_trip_given;            /* by flow_window_set_trip(): rounds do not measure it */
    bool is_held;                  /* the window is what the sender waits for */
    bool is_draining;              /* the next round measures the round trip anew */
    bool is_full;                  /* the start is over: the rate does not follow the window */
    bool was_full;                 /* it was once */
    bool was_late;                 /* at the start: a queue was seen since the rate last grew */
    uint32_t flat_rounds;
    uint64_t start_rate;          /* the rate when it last grew by a fourth */
    uint64_t rates[FLOW_PERIODS]; /* bytes a second; the first is of this period */
    uint32_t rounds;              /* of this period */
    int64_t period_ns;            /* when it began */
    int64_t trip_ns;              /* the shortest; 0: not known */
    int64_t trip_seen_ns;         /* when it was measured */
    uint64_t trip_rate;           /* the largest rate since then */
};

/* The floor is at most most_bytes. */
void flow_window_init(struct flow_window *flow, struct flow_share *share, uint64_t floor_bytes,
                      uint64_t most_bytes);
/* The flow is over; it may be called twice. */
void flow_window_fini(struct flow_window *flow);
/* A new connection: positions begin at 0.  The round trip of a long link, or 0: it is short. */
void flow_window_restart(struct flow_window *flow, int64_t trip_ns);
/* The same, once it is known on a connection.  A short link may be found to be long, and back. */
void flow_window_learn(struct flow_window *flow, int64_t trip_ns);
/* As flow_window_learn().  The caller measures round trips, and this is the shortest one now. */
void flow_window_set_trip(struct flow_window *flow, int64_t trip_ns);

/* The largest of the last rounds. */
static inline uint64_t flow_window_rate(const struct flow_window *flow)
{
    return flow->rates[0] > flow->rates[1] ? flow->rates[0] : flow->rates[1];
}

/* How much to ask for next, where one question follows the answer of the one before.  The last one
 * asked for so many bytes, and took so long; the quickest took least_ns.  The link is idle for a
 * round trip between two answers.  So it is asked for more while the bytes take less than three
 * of these, and for less where they take eight. */
uint64_t flow_question_bytes(uint64_t bytes, int64_t took_ns, int64_t least_ns);

/* The window now. */
static inline uint64_t flow_window_bytes(const struct flow_window *flow)
{
    return flow->least_bytes + flow_share_get(flow->share, flow->more_bytes + flow->extra_bytes);
}

/* The window has so many bytes beside what its link asks for, within most_bytes, until it is told
 * otherwise. */
void flow_window_widen(struct flow_window *flow, uint64_t bytes);

/* So much is sent at once, and arrives at once. */
static inline void flow_window_piece(struct flow_window *flow, uint64_t bytes)
{
    if (flow->pieces[0] < bytes)
        flow->pieces[0] = bytes;
}

static inline uint64_t flow_window_largest_piece(const struct flow_window *flow)
{
    return flow->pieces[0] > flow->pieces[1] ? flow->pieces[0] : flow->pieces[1];
}

/* At the start: what is sent now ends there. */
void flow_window_mark(struct flow_window *flow, uint64_t position, int64_t now_ns);

/* What is sent now lies between these positions. */
static inline void flow_window_sent(struct flow_window *flow, uint64_t from, uint64_t until,
                                    int64_t now_ns)
{
    if (flow->is_far && flow->is_held && !flow->is_full)
        flow_window_mark(flow, until, now_ns);
    if (flow->round.is_on)
        return;
    flow->round = (struct flow_round){
        .is_on = true,
        .is_held = flow->is_held,
        .position = until,
        .sent_ns = now_ns,
        .arrived = flow->arrived,
        .arrived_ns = from > flow->arrived ? flow->arrived_ns : now_ns, /* or nothing was sent */
    };
}

/* The sender stopped: because of the window, or because it has no more. */
static inline void flow_window_stopped(struct flow_window *flow, bool is_held)
{
    flow->is_held = is_held;
}

/* Nothing more comes of what was sent, or granted: the round tells nothing. */
static inline void flow_window_break(struct flow_window *flow)
{
    flow->round.is_on = false;
    flow->mark_count = 0;
}

/* The receiver has all up to this position. */
void flow_window_arrived(struct flow_window *flow, uint64_t position, int64_t now_ns);

#endif
