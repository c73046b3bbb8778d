/* SPDX-License-Identifier: MPL-2.0 */
/* lead.c -- the lead of a writer: how many bytes it may be ahead of its readers.
 *
 * A value waits behind all bytes before it, and so does an error in its place.  So the window
 * follows the rate of the readers, in rounds of three steps.  Credit is granted.  A value comes
 * that was written with that credit.  The value is sent to all readers that hold the writer back.
 * If the last step takes longer than LEAD_NS, the window shrinks by an eighth; otherwise it grows
 * by an eighth.  So half of the values are sent within that time, however many bytes that is.
 * What queues on its way to the broker is sent as soon as it comes.  So the window also shrinks
 * when a round as a whole takes longer than LEAD_ROUND_NS and the writer used half of the window in
 * it.
 * A slow writer has the least, too, and more as soon as it is faster.  A round takes as long as
 * credit needs to come back as a value.  So the effect of a change is seen before the next change.
 *
 * Over links a round takes long, and what is on its way is known: the window is a flow_window
 * (flow_window.h).  What is granted is sent, and what all readers took has arrived.
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
/* A round may take so long where half of the window is used in it.  Then the whole takes twice
 * that, at most.  1 ms costs values of 64 KiB and 1 MiB a twentieth of their rate. */
#define LEAD_ROUND_NS (MS_NS * 3 / 2)
/* Where values or batches are large the window has room for so many, however long they take. */
#define LEAD_PIECES 8
/* Longer than a reader takes to report what it received, over links with such a round trip. */
#define LEAD_PAUSE_NS (MS_NS * 100)
/* The smallest window: what one reader on this machine may have on its way, and as much again.
 * With that alone the rate is a tenth lower. */
#define LEAD_LEAST_BYTES (2 * DEFAULT_SUB_WINDOW_BYTES)
/* Of the window: by so much it grows and shrinks.  Of the whole: so much is left, or the least. */
#define LEAD_SHARE 8
/* The links are looked at once in a round trip, but no less and no more often than this. */
#define LEAD_MEASURE_LEAST_NS (MS_NS * 5)
#define LEAD_MEASURE_MOST_NS (MS_NS * 500)
/* A writer that waits for credit writes as soon as it comes; threads may be late by so much. */
#define LEAD_PROMPT_NS (MS_NS * 10)
/* Nothing is known of the rate: so long a value may take. */
#define LEAD_VALUE_NS (MS_NS * 500)
#define LEAD_PAUSE_MOST_NS (MS_NS * 5000)
/* Over a link batches are such a part of the window, or take so long if that is less.  A batch is
 * passed on when it is whole, so what is behind it waits for it on each link. */
#define LEAD_BATCHES 8
#define LEAD_BATCH_NS (MS_NS * 5)
#define LEAD_BATCH_LEAST_BYTES (UINT64_C(8) * 1024)

void lead_init(struct core *core, struct topic *topic)
{
    struct lead *lead = &topic->lead;
    uint64_t most_bytes = core->options.topic_window_bytes;
    *lead = (struct lead){.window_bytes = most_bytes};
    flow_window_init(&lead->flow, &core->topic_windows,
                     most_bytes < FLOW_START_BYTES_MAX ? most_bytes : FLOW_START_BYTES_MAX,
                     LIMIT_TOPIC_WINDOW_TIMES * most_bytes);
    list_init(&lead->waits_link);
}

void lead_forget(struct topic *topic)
{
    list_remove(&topic->lead.waits_link);
    flow_window_fini(&topic->lead.flow);
}

static void lead_grow(const struct core *core, struct lead *lead)
{
    uint64_t whole = core->options.topic_window_bytes;
    uint64_t grown = lead->window_bytes + lead->window_bytes / LEAD_SHARE + 1;
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

/* So long a value may take from the broker to its readers.  With a journal credit may take long to
 * come back as a value, as it waits for the disk: then half of that time.  Otherwise nothing could
 * be sent while it is on its way. */
static int64_t patience_ns(const struct core *core, const struct lead *lead)
{
    if (core->options.durability == 0)
        return LEAD_NS;
    int64_t trip_ns = lead->trip_ns / 2;
    if (trip_ns > LEAD_PAUSE_NS)
        return LEAD_PAUSE_NS;
    return trip_ns > LEAD_JOURNAL_NS ? trip_ns : LEAD_JOURNAL_NS;
}

/* Whether the window takes too long: much queues between the writer and the broker, or the writer
 * is slow and needs less.  A round that begins without credit uses little of the window, and tells
 * nothing of it.  With a journal a round waits for the disk. */
static bool is_deep(const struct core *core, const struct topic *topic, int64_t sent_ns)
{
    const struct lead *lead = &topic->lead;
    return core->options.durability == 0 && lead->trip_ns + sent_ns > LEAD_ROUND_NS &&
           lead->window_bytes > LEAD_PIECES * flow_window_largest_piece(&lead->flow) &&
           topic->credit_used - lead->used_before > lead->window_bytes / 2;
}

static void lead_move(struct core *core, struct lead *lead, enum lead_state state, uint64_t mark)
{
    lead->state = state;
    lead->mark = mark;
    lead->since_ns = core_clock(core);
}

void lead_granted(struct core *core, struct topic *topic, uint64_t room)
{
    struct lead *lead = &topic->lead;
    uint64_t before = topic_is_stopped(topic) ? topic->credit_used : topic->credit_limit;
    uint64_t written = lead->taken_bytes + topic->untaken_bytes;
    if (lead->state == LEAD_GRANT) {
        lead->used_before = topic->credit_used;
        lead_move(core, lead, LEAD_USE, before);
    }
    flow_window_sent(&lead->flow, written, written + room, core_clock(core));
    if (lead->is_timed || before == 0)
        return; /* the first credit lies there until the writer has something to write */
    lead->is_timed = true;
    lead->timed_mark = before;
    lead->timed_ns = core_clock(core);
    lead->timed_stamp_ns = core->now_ns;
}

/* A writer that waited for this credit wrote when it came, half of a round trip later.  The time
 * of the value on its link does not count, for the window has room for pieces anyway.  While no
 * rate is known that time is not known, and the round trip is what the client said. */
void lead_time(struct core *core, struct topic *topic, uint64_t bytes, int64_t stamp_ns)
{
    struct lead *lead = &topic->lead;
    int64_t value_ns = flow_time_ns(flow_window_rate(&lead->flow), bytes);
    int64_t least_ns = topic->writer->session != NULL ? topic->writer->session->trip_ns : 0;
    int64_t trip_ns = core_clock(core) - lead->timed_ns - value_ns;
    if (trip_ns < least_ns || (flow_window_rate(&lead->flow) == 0 && least_ns > 0))
        trip_ns = least_ns;
    int64_t prompt_ns = lead->writer_ns / 4 * 3 + LEAD_PROMPT_NS;
    bool is_held = stamp_ns - lead->timed_stamp_ns <= prompt_ns;
    lead->is_timed = false;
    flow_window_stopped(&lead->flow, is_held);
    if (lead->writer_ns == 0 || trip_ns < lead->writer_ns || (is_held && lead->flow.is_draining))
        lead->writer_ns = trip_ns > 0 ? trip_ns : 1;
}

void lead_look(struct core *core, struct topic *topic, uint64_t sent_seq)
{
    struct lead *lead = &topic->lead;
    int64_t passed_ns = core_clock(core) - lead->since_ns;
    if (lead->state == LEAD_USE && topic->credit_used > lead->mark) {
        lead->trip_ns = passed_ns;
        lead_move(core, lead, LEAD_SEND, topic->slots.next_seq);
    } else if (lead->state == LEAD_SEND && sent_seq >= lead->mark) {
        if (is_deep(core, topic, passed_ns))
            shrink(core, lead);
        else
            lead_grow(core, lead);
        lead_move(core, lead, LEAD_GRANT, 0);
    } else if (lead->state == LEAD_SEND && passed_ns > patience_ns(core, lead)) {
        if (!is_owed(topic, sent_seq))
            shrink(core, lead);
        lead_move(core, lead, LEAD_GRANT, 0);
    }
}

/* The round trip of the writer's link and of the longest link of a reader. */
void lead_measure(struct core *core, struct topic *topic)
{
    struct lead *lead = &topic->lead;
    int64_t most_ns = 0;
    lead->is_for_group = false;
    LIST_EACH(link, &topic->routes) {
        const struct sub *sub = LIST_OWNER(link, struct route, topic_link)->sub;
        if (sub_holds(sub) && sub->flow.is_far && sub->flow.trip_ns > most_ns)
            most_ns = sub->flow.trip_ns;
        lead->is_for_group = lead->is_for_group || (sub_holds(sub) && sub_is_place(sub));
    }
    int64_t writer_ns = topic->writer->session != NULL ? topic->writer->session->trip_ns : 0;
    if (writer_ns > 0 && lead->writer_ns > 0)
        writer_ns = lead->writer_ns;
    int64_t trip_ns = writer_ns + most_ns;
    flow_window_set_trip(&lead->flow, trip_ns);
    lead->measure_ns = core_clock(core) + (trip_ns < LEAD_MEASURE_LEAST_NS  ? LEAD_MEASURE_LEAST_NS
                                           : trip_ns > LEAD_MEASURE_MOST_NS ? LEAD_MEASURE_MOST_NS
                                                                            : trip_ns);
}

uint64_t lead_batch_bytes(const struct topic *topic, uint64_t most_bytes)
{
    uint64_t bytes = flow_window_bytes(&topic->lead.flow) / LEAD_BATCHES;
    uint64_t carried = flow_carried(flow_window_rate(&topic->lead.flow), LEAD_BATCH_NS);
    if (carried > 0 && carried < bytes)
        bytes = carried;
    if (!lead_is_far(topic) || bytes >= most_bytes)
        return most_bytes;
    return bytes > LEAD_BATCH_LEAST_BYTES ? bytes : LEAD_BATCH_LEAST_BYTES;
}

/* In this time a reader that takes anything would have said so: over a link, in the time of two
 * windows. */
static int64_t pause_ns(const struct core *core, const struct topic *topic)
{
    const struct flow_window *flow = &topic->lead.flow;
    if (!lead_is_far(topic))
        return LEAD_PAUSE_NS;
    uint64_t rate = flow_window_rate(flow);
    uint64_t value_ns = LEAD_VALUE_NS;
    if (rate > 0)
        value_ns = lead_window(core, topic) * UINT64_C(1000) / (rate / 1000000 + 1);
    int64_t ns = LEAD_PAUSE_NS + 2 * (flow->trip_ns + (int64_t)value_ns);
    return ns < LEAD_PAUSE_MOST_NS ? ns : LEAD_PAUSE_MOST_NS;
}

/* For the first in line: all wait for the same time. */
static void lead_arm(struct core *core)
{
    const struct list *first = core->lead_waiters.next;
    if (core->lead_timer.place == 0 && !list_is_empty(&core->lead_waiters))
        timers_set(&core->timers, &core->lead_timer,
                   LIST_OWNER(first, struct topic, lead.waits_link)->lead.waits_ns + LEAD_PAUSE_NS);
}

void lead_need(struct core *core, struct topic *topic, uint64_t needed_limit)
{
    topic->needed_limit = needed_limit;
    if (topic->credit_limit < needed_limit)
        topic_grant(core, topic, false);
}

void lead_wait(struct core *core, struct topic *topic)
{
    struct lead *lead = &topic->lead;
    bool is_waiting = topic_is_stopped(topic) && lead_window(core, topic) < lead_whole(core, topic);
    if (!is_waiting)
        list_remove(&lead->waits_link);
    else if (!list_is_linked(&lead->waits_link)) {
        lead->waits_ns = lead->waits_since_ns = core_clock(core);
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
    struct lead *lead = &topic->lead;
    int64_t now_ns = core_clock(core);
    if (lead_is_unjudged(topic))
        lead_measure(core, topic); /* its link may be known by now */
    if (now_ns - lead->waits_since_ns >= pause_ns(core, topic)) {
        list_remove(first);
        lead->is_paused = !lead_is_unjudged(topic);
        topic_grant(core, topic, false);
    } else if (lead->waits_ns + LEAD_PAUSE_NS <= now_ns) {
        lead->waits_ns = now_ns;
        list_remove(first);
        list_push(&core->lead_waiters, first);
    }
    lead_arm(core);
}

bool lead_is_slow(const struct core *core, const struct topic *topic)
{
    bool is_whole = !lead_is_far(topic) && lead_window(core, topic) == lead_whole(core, topic);
    return is_whole || core_clock(core) - topic->held_back_ns >= pause_ns(core, topic);
}
