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
 * When no reader takes anything, no value can be sent soon.  So after LEAD_PAUSE_NS a writer that
 * waits gets the full window.  When a reader takes something again, the window has its former size.
 * None of this is a fact.  Credit is one, and a restarted broker begins with the full window. */
#include "broker/core/streams/lead.h"

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

void lead_init(struct core *core, struct topic *topic)
{
    topic->lead = (struct lead){.window_bytes = core->options.topic_window_bytes};
    list_init(&topic->lead.waits_link);
}

void lead_forget(struct topic *topic)
{
    list_remove(&topic->lead.waits_link);
}

static void lead_grow(struct core *core, struct lead *lead)
{
    uint64_t whole = core->options.topic_window_bytes;
    uint64_t step = lead->window_bytes / LEAD_SHARE + 1;
    lead->window_bytes = whole - lead->window_bytes > step ? lead->window_bytes + step : whole;
}

static void shrink(struct core *core, struct lead *lead)
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
    uint64_t before =
        topic->credit_limit > topic->credit_used ? topic->credit_limit : topic->credit_used;
    if (topic->lead.state == LEAD_GRANT)
        lead_move(core, &topic->lead, LEAD_USE, before);
}

void lead_look(struct core *core, struct topic *topic, uint64_t sent_seq)
{
    struct lead *lead = &topic->lead;
    int64_t passed_ns = core_clock(core) - lead->since_ns;
    if (lead->state == LEAD_USE && topic->credit_used > lead->mark) {
        lead->trip_ns = passed_ns;
        lead_move(core, lead, LEAD_SEND, topic->slots.next_seq);
    } else if (lead->state == LEAD_SEND && sent_seq >= lead->mark) {
        lead_grow(core, lead);
        lead_move(core, lead, LEAD_GRANT, 0);
    } else if (lead->state == LEAD_SEND && passed_ns > patience_ns(core, lead)) {
        if (!is_owed(topic, sent_seq))
            shrink(core, lead);
        lead_move(core, lead, LEAD_GRANT, 0);
    }
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
                      lead_window(core, topic) < core->options.topic_window_bytes;
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
    return lead_window(core, topic) == core->options.topic_window_bytes ||
           core_clock(core) - topic->held_back_ns >= LEAD_PAUSE_NS;
}
