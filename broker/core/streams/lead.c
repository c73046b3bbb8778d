/* SPDX-License-Identifier: MPL-2.0 */
/* lead.c -- the lead of a writer: how many bytes it may be ahead of its readers.
 *
 * A value waits behind all bytes before it, and so does an error in its place.  So the window
 * follows the rate of the readers, in rounds of three steps.  Credit is granted.  A value comes
 * that was written with that credit.  The value is sent to all readers that hold the writer back.
 * If the last step takes longer than LEAD_NS, the window shrinks by an eighth; otherwise it grows
 * by an eighth.  So half of the values are sent within that time, however many bytes that is.
 * Where readers keep up, the window reaches its full size, also over slow links: no value waits for
 * credit that is not used.  A round takes as long as the writer's round trip.  So the effect of a
 * change is seen before the next change.
 *
 * The full window is --topic-window, or what the links of the writer and its readers carry in their
 * round trips, if that is more (lead_measure()).  The rate is the largest at which readers took
 * values in the last seconds.
 *
 * When no reader takes anything, no value can be sent soon.  So after LEAD_PAUSE_NS a writer that
 * waits gets the full window.  When a reader takes something again, the window has its former size.
 * None of this is a fact.  Credit is one, and a restarted broker begins with the full window. */
#include "broker/core/streams/lead.h"

#include "broker/core/streams/sub.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/timers.h"

/* Most values reach the reader within a millisecond, with 0.4 ms of 4 KiB values on the way to it
 * (two cores, bench/README.md). */
#define LEAD_NS (MS_NS * 3 / 10)
/* With a journal more values are on the way: they are written (0.2 ms) and synced before they are
 * sent. */
#define LEAD_JOURNAL_NS MS_NS
/* Longer than a reader takes to report what it received, over links with such a round trip. */
#define LEAD_PAUSE_NS (MS_NS * 100)
/* The smallest window: what one reader on this machine may have on its way, and as much again.
 * With that alone the rate is a tenth lower. */
#define LEAD_LEAST_BYTES (2 * DEFAULT_SUB_WINDOW_BYTES)
/* Of the window: by so much it grows and shrinks.  Of the whole: so much is left, or the least. */
#define LEAD_SHARE 8
/* The rate of readers is measured over a round trip of their links and the writer's, but over no
 * less and no more than this. */
#define LEAD_PERIOD_LEAST_NS (MS_NS * 5)
#define LEAD_PERIOD_MOST_NS (MS_NS * 500)
/* So long the largest rate and the shortest round trip are believed, as for a flow_window. */
#define LEAD_KEPT_NS FLOW_TRIP_KEPT_NS

void lead_init(struct core *core, struct topic *topic)
{
    topic->lead = (struct lead){.window_bytes = core->options.topic_window_bytes};
    list_init(&topic->lead.waits_link);
}

static void set_more(struct core *core, struct lead *lead, uint64_t more_bytes)
{
    core->topic_windows.wanted += more_bytes - lead->more_bytes; /* modulo 2^64 */
    lead->more_bytes = more_bytes;
}

void lead_forget(struct core *core, struct topic *topic)
{
    list_remove(&topic->lead.waits_link);
    set_more(core, &topic->lead, 0);
}

/* Over a long link a round takes long, so each step is a larger one. */
static void lead_grow(const struct core *core, struct topic *topic)
{
    struct lead *lead = &topic->lead;
    uint64_t whole = lead_whole(core, topic);
    bool is_far = lead->trip_ns >= FLOW_NEAR_NS;
    uint64_t step = (is_far ? whole / 2 : lead->window_bytes) / LEAD_SHARE + 1;
    uint64_t grown = lead->window_bytes + step;
    lead->window_bytes = grown < whole ? grown : whole;
}

static void shrink(const struct core *core, struct lead *lead)
{
    uint64_t whole = core->options.topic_window_bytes;
    uint64_t least = whole / LEAD_SHARE < LEAD_LEAST_BYTES ? whole / LEAD_SHARE : LEAD_LEAST_BYTES;
    lead->window_bytes -= lead->window_bytes / LEAD_SHARE;
    if (lead->window_bytes < least)
        lead->window_bytes = least;
}

/* Whether the readers wait for the writer: the next slot to send is still open. */
static bool is_owed(const struct topic *topic, uint64_t sent_seq)
{
    uint32_t index;
    return slot_table_find(&topic->slots, sent_seq, &index) &&
           slot_table_at(&topic->slots, index)->state == SLOT_OPEN;
}

/* If credit takes long to come back as a value, half of that time.  Otherwise nothing could be sent
 * while it is on its way. */
static int64_t patience_ns(const struct core *core, const struct lead *lead)
{
    int64_t least_ns = core->options.durability > 0 ? LEAD_JOURNAL_NS : LEAD_NS;
    int64_t trip_ns = lead->trip_ns / 2;
    if (trip_ns > LEAD_PAUSE_NS)
        return LEAD_PAUSE_NS;
    return trip_ns > least_ns ? trip_ns : least_ns;
}

static void lead_move(struct core *core, struct lead *lead, enum lead_state state, uint64_t mark)
{
    lead->state = state;
    lead->mark = mark;
    lead->since_ns = core_clock(core);
}

void lead_granted(struct core *core, struct topic *topic)
{
    struct lead *lead = &topic->lead;
    bool is_stopped = topic->credit_limit <= topic->credit_used;
    uint64_t before = is_stopped ? topic->credit_used : topic->credit_limit;
    if (lead->state == LEAD_GRANT)
        lead_move(core, lead, LEAD_USE, before);
    if (lead->crossings > 0 || before == 0)
        return; /* the first credit lies there until the writer has something to write */
    lead->crossings = is_stopped ? 1 : 2;
    lead->is_from_stop = is_stopped;
    lead->trip_mark = before;
    lead->trip_begin_ns = core_clock(core);
}

/* The last value of some credit may be larger than the rest of it, and is not yet written with the
 * next.  A writer that had credit left may have taken its time: its link may be shorter, but not
 * longer than that. */
void lead_cross(struct core *core, struct topic *topic)
{
    struct lead *lead = &topic->lead;
    int64_t now_ns = core_clock(core);
    int64_t trip_ns = now_ns - lead->trip_begin_ns;
    lead->trip_mark = topic->credit_used;
    lead->crossings -= 1;
    bool is_old = lead->is_from_stop && now_ns - lead->least_seen_ns >= LEAD_KEPT_NS;
    if (lead->crossings > 0 || (lead->least_ns > 0 && trip_ns > lead->least_ns && !is_old))
        return;
    lead->least_ns = trip_ns > 0 ? trip_ns : 1;
    lead->least_seen_ns = now_ns;
}

void lead_look(struct core *core, struct topic *topic, uint64_t sent_seq)
{
    struct lead *lead = &topic->lead;
    int64_t passed_ns = core_clock(core) - lead->since_ns;
    if (lead->state == LEAD_USE && topic->credit_used > lead->mark) {
        lead->trip_ns = passed_ns;
        lead_move(core, lead, LEAD_SEND, topic->slots.next_seq);
    } else if (lead->state == LEAD_SEND && sent_seq >= lead->mark) {
        lead_grow(core, topic);
        lead_move(core, lead, LEAD_GRANT, 0);
    } else if (lead->state == LEAD_SEND && passed_ns > patience_ns(core, lead)) {
        if (!is_owed(topic, sent_seq))
            shrink(core, lead);
        lead_move(core, lead, LEAD_GRANT, 0);
    }
}

/* The round trip of the writer's link and of the longest link of a reader. */
static int64_t links_ns(const struct topic *topic)
{
    int64_t most_ns = 0;
    LIST_EACH(link, &topic->routes) {
        const struct sub *sub = LIST_OWNER(link, struct route, topic_link)->sub;
        if (sub_holds(sub) && sub->flow.trip_ns > most_ns)
            most_ns = sub->flow.trip_ns;
    }
    return topic->lead.least_ns + most_ns;
}

static void see_rate(struct lead *lead, uint64_t rate, int64_t now_ns)
{
    if (rate > lead->rate + lead->rate / 4)
        lead->flat_periods = 0;
    else
        lead->flat_periods += lead->flat_periods < FLOW_FLAT_ROUNDS;
    if (rate < lead->rate && now_ns - lead->rate_seen_ns < LEAD_KEPT_NS)
        return;
    lead->rate = rate;
    lead->rate_seen_ns = now_ns;
}

/* What the links carry in their round trips, beyond --topic-window; as in flow_window.h. */
static uint64_t more_of(const struct core *core, const struct lead *lead, int64_t trip_ns)
{
    uint64_t floor_bytes = core->options.topic_window_bytes;
    int64_t slack_ns = trip_ns / 8 > FLOW_SLACK_NS ? trip_ns / 8 : FLOW_SLACK_NS;
    if (trip_ns < FLOW_NEAR_NS)
        return 0;
    if (lead->flat_periods < FLOW_FLAT_ROUNDS)
        slack_ns = trip_ns;
    uint64_t bytes = flow_carried(lead->rate, trip_ns + slack_ns);
    uint64_t more_bytes = bytes > floor_bytes ? bytes - floor_bytes : 0;
    uint64_t most_bytes = (LIMIT_TOPIC_WINDOW_TIMES - 1) * floor_bytes;
    return more_bytes < most_bytes ? more_bytes : most_bytes;
}

void lead_measure(struct core *core, struct topic *topic)
{
    struct lead *lead = &topic->lead;
    int64_t now_ns = core_clock(core);
    uint64_t taken = topic->credit_used - topic->untaken_bytes;
    uint64_t whole = lead_whole(core, topic);
    bool is_whole = lead->window_bytes >= whole;
    int64_t trip_ns = links_ns(topic);
    uint64_t passed = taken > lead->period_taken ? taken - lead->period_taken : 0;
    see_rate(lead, flow_rate(passed, now_ns - lead->period_ns), now_ns);
    set_more(core, lead, more_of(core, lead, trip_ns));
    if (is_whole || lead->window_bytes > lead_whole(core, topic))
        lead->window_bytes = lead_whole(core, topic);
    lead->period_taken = taken;
    lead->period_ns = now_ns;
    lead->period_end_ns = now_ns + (trip_ns < LEAD_PERIOD_LEAST_NS  ? LEAD_PERIOD_LEAST_NS
                                    : trip_ns > LEAD_PERIOD_MOST_NS ? LEAD_PERIOD_MOST_NS
                                                                    : trip_ns);
}

/* For the first in line: all wait for the same time. */
static void lead_arm(struct core *core)
{
    const struct list *first = core->lead_waiters.next;
    if (core->lead_timer.place == 0 && !list_is_empty(&core->lead_waiters))
        timers_set(&core->timers, &core->lead_timer,
                   LIST_OWNER(first, struct topic, lead.waits_link)->lead.waits_ns + LEAD_PAUSE_NS);
}

void lead_wait(struct core *core, struct topic *topic)
{
    struct lead *lead = &topic->lead;
    bool is_waiting = topic->credit_limit <= topic->credit_used &&
                      lead_window(core, topic) < lead_whole(core, topic);
    if (!is_waiting)
        list_remove(&lead->waits_link);
    else if (!list_is_linked(&lead->waits_link)) {
        lead->waits_ns = core_clock(core);
        list_push(&core->lead_waiters, &lead->waits_link);
        lead_arm(core);
    }
}

void lead_timer(struct core *core)
{
    struct list *first = core->lead_waiters.next;
    struct topic *topic = LIST_OWNER(first, struct topic, lead.waits_link);
    if (list_is_empty(&core->lead_waiters))
        return;
    if (topic->lead.waits_ns + LEAD_PAUSE_NS <= core_clock(core)) {
        list_remove(first);
        topic->lead.is_paused = true;
        topic_grant(core, topic, false);
    }
    lead_arm(core);
}

bool lead_is_slow(const struct core *core, const struct topic *topic)
{
    return lead_window(core, topic) == lead_whole(core, topic) ||
           core_clock(core) - topic->held_back_ns >= LEAD_PAUSE_NS;
}
