/* SPDX-License-Identifier: MPL-2.0 */
/* lead.c -- the lead of a writer: how far it may be ahead of readers that take.
 *
 * A value waits behind all that lies here, and so does an error in its place.  So the window
 * follows what readers take, in rounds of three steps.  Credit is granted; a value comes that was
 * written with it; that value is sent to all readers that hold the writer back.  If the last step
 * takes longer than LEAD_NS, the window shrinks by an eighth; if not, it grows by an eighth.  So
 * half of the values are sent within that time, whatever number of bytes that is.  Where readers
 * keep up, the window is the whole, also over slow links: nobody waits behind credit that is not
 * used.  A round is as long as the writer is far away, so a change is seen before the next one is
 * made.
 *
 * Where nothing is taken, nothing need be sent soon.  So a writer that waits has the whole window
 * after LEAD_PAUSE_NS, until something is taken again; then it has the former window.  None of this
 * is a fact.  Credit is one, and a restarted broker begins with the whole window. */
#include "broker/core/streams/lead.h"

#include "broker/core/streams/topic.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/timers.h"

/* With what is on its way to a reader (0.4 ms of 4 KiB values on two cores, bench/README.md) most
 * values are with it after a millisecond. */
#define LEAD_NS (MS_NS * 3 / 10)
/* With a journal more is on its way: what is written before it is said (0.2 ms, and a sync). */
#define LEAD_JOURNAL_NS MS_NS
/* Longer than a reader needs to say that it took something, over links of up to that much. */
#define LEAD_PAUSE_NS (MS_NS * 100)
/* The window is never less than what one reader may have on its way, and as much again behind it:
 * with that alone the rate is a tenth less. */
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

/* Whether readers wait for the writer: the next slot to send is still open. */
static bool is_owed(const struct topic *topic, uint64_t sent_seq)
{
    uint32_t index;
    return slot_table_find(&topic->slots, sent_seq, &index) &&
           slot_table_at(&topic->slots, index)->state == SLOT_OPEN;
}

/* Where credit takes long to come back as a value, half of that: or there would be nothing to send
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
