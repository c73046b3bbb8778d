/* SPDX-License-Identifier: MPL-2.0 */
/* session_waiting.c -- tells the broker which calls have been blocked for long.
 *
 * A call that blocks changes two numbers here, and neither reads a clock nor wakes anybody.  The
 * next beat sees that calls are blocked.  If none of them ended, and no other began, until
 * LIMIT_WAITING_MS later, they have been blocked for as long: the broker is told.  It is told again
 * as soon as one of them ends, but not twice within LIMIT_WAITING_MS.
 *
 * Who must look at something else from time to time waits in slices: calls with short timeouts, one
 * after the other.  Bindings of other languages do that, to see signals.  Such calls are one wait,
 * unless a beat finds none of them waiting; of slices that say so (BUS_SLICE), two beats.  Between
 * two of these nothing is told: what the thread does there does not count.
 *
 * WAITING.is_sure says that nothing but an answer of the broker ends these calls: none has a
 * timeout, no other thread of the process could do anything, and all that was written before was
 * accepted.  Only such calls may be ended as part of a deadlock. */
#include "libbus/session/session_waiting.h"

#include "libbus/base/must.h"

#include <string.h>

#define WAITING_NS (LIMIT_WAITING_MS * SESSION_NS_PER_MS)

/* ---- calls ----------------------------------------------------------------------------------- */

static bool is_same_place(const struct session_paused *paused,
                          const struct session_wait_place *place)
{
    if (place == NULL || !paused->is_placed)
        return place == NULL && !paused->is_placed;
    return paused->seq == place->seq && paused->sub == place->sub &&
           paused->own_topic == place->own_topic &&
           span_equal(span_of(paused->topic, paused->topic_bytes), place->topic);
}

static unsigned count_paused(const struct session_blocked *blocked)
{
    unsigned count = 0;
    for (int i = 0; i < SESSION_PAUSED_MAX; i++)
        count += blocked->paused[i].is_on;
    return count;
}

static unsigned count_slices(const struct session_blocked *blocked)
{
    unsigned count = 0;
    for (int i = 0; i < SESSION_PAUSED_MAX; i++)
        count += blocked->paused[i].is_on && blocked->paused[i].is_slice;
    return count;
}

/* A thread looks at something else between two slices of its wait. */
static bool is_between_slices(const struct session *session)
{
    unsigned count = 0;
    for (int kind = 0; kind < SESSION_WAIT_COUNT; kind++)
        count += count_slices(&session->waiting.calls[kind]);
    return count > 0;
}

/* The paused wait does not go on. */
static void lapse(struct session *session, enum session_wait kind, struct session_paused *paused)
{
    if (!paused->is_on)
        return;
    session->waiting.calls[kind].changes += 1;
    paused->is_on = false;
    if (paused->is_slice && kind == SESSION_WAIT_BARRIER)
        session_barrier_leave(session);
}

/* A beat finds it. */
static void grow_old(struct session *session, enum session_wait kind, struct session_paused *paused)
{
    if (!paused->is_slice || paused->is_old)
        lapse(session, kind, paused);
    paused->is_old = true;
}

/* false: no such wait is paused. */
static bool go_on(struct session_blocked *blocked, const struct session_wait_place *place)
{
    for (int i = 0; i < SESSION_PAUSED_MAX; i++) {
        struct session_paused *paused = &blocked->paused[i];
        if (!paused->is_on || !is_same_place(paused, place))
            continue;
        paused->is_on = false;
        return true;
    }
    return false;
}

void session_wait_begin(struct session *session, enum session_wait kind,
                        const struct session_wait_place *place, struct session_patience patience)
{
    struct session_blocked *blocked = &session->waiting.calls[kind];
    blocked->changes += !go_on(blocked, place);
    blocked->count += 1;
    blocked->timed += patience.is_timed;
    if (blocked->over != NULL)
        buffer_unref(&blocked->over);
    blocked->is_one = blocked->count + count_paused(blocked) == 1 && place != NULL;
    if (!blocked->is_one)
        return;
    blocked->seq = place->seq;
    blocked->sub = place->sub;
    blocked->own_topic = place->own_topic;
    blocked->topic_bytes = (uint32_t)place->topic.bytes;
    if (place->topic.bytes > 0)
        memcpy(blocked->topic, place->topic.data, place->topic.bytes);
}

void session_wait_end(struct session *session, enum session_wait kind,
                      struct session_patience patience)
{
    struct session_blocked *blocked = &session->waiting.calls[kind];
    must(blocked->count > 0);
    blocked->changes += 1;
    blocked->count -= 1;
    blocked->timed -= patience.is_timed;
    blocked->is_one = false;
}

void session_wait_pause(struct session *session, enum session_wait kind,
                        const struct session_wait_place *place, struct session_patience patience)
{
    struct session_blocked *blocked = &session->waiting.calls[kind];
    struct session_paused *paused = &blocked->paused[0];
    must(blocked->count > 0);
    for (int i = 1; i < SESSION_PAUSED_MAX && paused->is_on; i++)
        paused = &blocked->paused[i];
    lapse(session, kind, paused); /* if all are on */
    blocked->count -= 1;
    blocked->timed -= patience.is_timed;
    *paused = (struct session_paused){
        .is_on = true, .is_slice = patience.is_slice, .is_placed = place != NULL};
    if (place == NULL)
        return;
    paused->seq = place->seq;
    paused->sub = place->sub;
    paused->own_topic = place->own_topic;
    paused->topic_bytes = (uint32_t)place->topic.bytes;
    if (place->topic.bytes > 0)
        memcpy(paused->topic, place->topic.data, place->topic.bytes);
}

unsigned session_wait_count(const struct session *session)
{
    unsigned count = 0;
    for (int kind = 0; kind < SESSION_WAIT_COUNT; kind++)
        count += session->waiting.calls[kind].count + count_slices(&session->waiting.calls[kind]);
    return count;
}

bool session_wait_is_asked(const struct session *session)
{
    return session->waiting.is_asked;
}

void session_wait_answer(struct session *session, bool is_alone)
{
    session->waiting.is_asked = false;
    session->waiting.is_alone = is_alone;
}

bool session_wait_over(const struct session *session, enum session_wait kind,
                       struct buffer **out_error)
{
    struct buffer *over = session->waiting.calls[kind].over;
    if (over == NULL)
        return false;
    *out_error = buffer_ref(over);
    return true;
}

uint32_t waiting_over_in(struct session *session, const struct msg_wait_over *msg)
{
    enum session_wait kind = msg->kind == 0 ? SESSION_WAIT_ROOM : SESSION_WAIT_READS;
    struct session_blocked *blocked = &session->waiting.calls[kind];
    bool is_it = blocked->count > 0 && msg->number == session->waiting.number && blocked->is_told &&
                 blocked->told == blocked->changes;
    if (!is_it || blocked->over != NULL)
        return 0;
    blocked->over = buffer_copy(msg->error);
    session->news.is_result = true; /* for the call that waits for room */
    return kind == SESSION_WAIT_READS ? blocked->sub : 0;
}

void waiting_fini(struct session *session)
{
    for (int kind = 0; kind < SESSION_WAIT_COUNT; kind++)
        buffer_unref(&session->waiting.calls[kind].over);
}

/* ---- what is said ---------------------------------------------------------------------------- */

static bool is_silent(const struct session *session)
{
    return session->is_observer || session->options.is_guard;
}

/* Whether these calls were blocked when seen_ns was, and are. */
static bool is_seen(const struct session_blocked *blocked)
{
    return blocked->count + count_paused(blocked) > 0 && blocked->seen == blocked->changes;
}

static bool is_long(const struct session *session, const struct session_blocked *blocked)
{
    return is_seen(blocked) && session->now_ns >= later_ns(blocked->seen_ns, WAITING_NS);
}

void waiting_beat(struct session *session)
{
    session->waiting.is_live = session->waiting.is_due;
    for (enum session_wait kind = 0; kind < SESSION_WAIT_COUNT; kind++) {
        struct session_blocked *blocked = &session->waiting.calls[kind];
        for (int i = 0; i < SESSION_PAUSED_MAX; i++)
            grow_old(session, kind, &blocked->paused[i]);
        session->waiting.is_live |= blocked->count + count_paused(blocked) > 0 || blocked->is_told;
        if (is_seen(blocked))
            continue;
        blocked->seen = blocked->changes;
        blocked->seen_ns = session->now_ns;
    }
    session->waiting.is_asked = session->waiting.is_live && !is_silent(session);
}

/* Whether nothing that this session wrote is still to be accepted or answered. */
static bool is_all_accepted(const struct session *session)
{
    return session->outbox.bytes == 0 && session->uploads.bytes == 0 &&
           session->controls.first == NULL;
}

/* Whether the calls that are told, and no others, are blocked until the broker answers. */
static bool is_sure(const struct session *session)
{
    const struct session_waiting *waiting = &session->waiting;
    for (int kind = 0; kind < SESSION_WAIT_COUNT; kind++) {
        const struct session_blocked *blocked = &waiting->calls[kind];
        bool is_in_one = kind == SESSION_WAIT_SLOTS || blocked->is_one;
        if (blocked->count > 0 && (blocked->timed > 0 || !is_in_one || !is_long(session, blocked)))
            return false;
    }
    return session_wait_count(session) > 0 && waiting->is_alone && is_all_accepted(session);
}

/* What was said of all calls that are told has changed. */
static bool is_certainty_news(const struct session *session)
{
    const struct session_waiting *waiting = &session->waiting;
    bool is_any = false;
    for (int kind = 0; kind < SESSION_WAIT_COUNT; kind++)
        is_any |= waiting->calls[kind].is_told;
    if (!is_any)
        return false;
    bool is_sure_now = is_sure(session);
    return is_sure_now != waiting->is_sure_told ||
           (is_sure_now && waiting->received_told != session->data_received);
}

/* What was told is over, or what is blocked was not told. */
static bool is_news(const struct session *session, const struct session_blocked *blocked)
{
    return blocked->is_told ? blocked->told != blocked->changes : is_long(session, blocked);
}

int64_t waiting_deadline_ns(const struct session *session)
{
    int64_t deadline_ns = INT64_MAX;
    if (is_silent(session) || session->stage_bytes > 0 || session->waiting.is_asked ||
        is_between_slices(session))
        return INT64_MAX;
    for (int kind = 0; kind < SESSION_WAIT_COUNT; kind++) {
        const struct session_blocked *blocked = &session->waiting.calls[kind];
        if (blocked->is_told && blocked->told != blocked->changes)
            deadline_ns = earlier_ns(deadline_ns, session->waiting.told_ns);
        else if (!blocked->is_told && is_seen(blocked))
            deadline_ns = earlier_ns(deadline_ns, blocked->seen_ns);
    }
    if (deadline_ns == INT64_MAX)
        return INT64_MAX;
    if (deadline_ns < session->waiting.told_ns)
        deadline_ns = session->waiting.told_ns;
    return later_ns(deadline_ns, WAITING_NS);
}

/* How long it has been blocked; 0: it is not, or not for long. */
static uint64_t take_ms(struct session *session, enum session_wait kind)
{
    struct session_blocked *blocked = &session->waiting.calls[kind];
    blocked->is_told = is_long(session, blocked);
    blocked->told = blocked->changes;
    return blocked->is_told ? (uint64_t)((session->now_ns - blocked->seen_ns) / SESSION_NS_PER_MS)
                            : 0;
}

static struct span name_of_own(struct session *session, uint32_t own_topic)
{
    const struct own_topic *topic = own_topics_find(&session->own, own_topic);
    return topic != NULL ? topic->name : SPAN_NONE;
}

bool waiting_message(struct session *session, struct msg *out)
{
    struct session_waiting *waiting = &session->waiting;
    bool is_any = waiting->is_due || is_certainty_news(session);
    for (int kind = 0; kind < SESSION_WAIT_COUNT; kind++)
        is_any |= is_news(session, &waiting->calls[kind]);
    bool is_early = waiting->has_told && !waiting->is_due &&
                    session->now_ns < later_ns(waiting->told_ns, WAITING_NS);
    if (!is_any || is_early || is_silent(session) || waiting->is_asked ||
        is_between_slices(session))
        return false;
    const struct session_blocked *slots = &waiting->calls[SESSION_WAIT_SLOTS];
    const struct session_blocked *reads = &waiting->calls[SESSION_WAIT_READS];
    const struct session_blocked *room = &waiting->calls[SESSION_WAIT_ROOM];
    waiting->is_sure_told = is_sure(session);
    waiting->received_told = session->data_received;
    waiting->number += 1;
    out->type = MSG_WAITING;
    out->as.waiting = (struct msg_waiting){
        .slots_ms = take_ms(session, SESSION_WAIT_SLOTS),
        .room_ms = take_ms(session, SESSION_WAIT_ROOM),
        .reads_ms = take_ms(session, SESSION_WAIT_READS),
        .topic = slots->is_one ? span_of(slots->topic, slots->topic_bytes) : SPAN_NONE,
        .seq = slots->is_one ? slots->seq : 0,
        .sub = reads->is_one ? reads->sub : 0,
        .barrier_ms = take_ms(session, SESSION_WAIT_BARRIER),
        .members_ms = take_ms(session, SESSION_WAIT_MEMBERS),
        .room_topic = room->is_one ? name_of_own(session, room->own_topic) : SPAN_NONE,
        .is_sure = waiting->is_sure_told,
        .data_bytes = waiting->received_told,
        .number = waiting->number,
    };
    waiting->is_due = false;
    waiting->has_told = true;
    waiting->told_ns = session->now_ns;
    return true;
}

void waiting_rewind(struct session *session)
{
    session->waiting.is_due = session->waiting.has_told;
    session->waiting.is_live |= session->waiting.is_due;
}
