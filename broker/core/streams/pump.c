/* SPDX-License-Identifier: MPL-2.0 */
/* pump.c -- sending: who gets which frames next, in order and in turn.
 *
 * Each subscription has a window of its own.  It takes from its routes in turn, at most a batch at
 * a time; answers to waits come before them.  A step sends a bounded number of things.  What is
 * left stays in the pump, and core_deadline_ns() says that there is more. */
#include "broker/core/streams/pump.h"

#include "broker/core/record/failure.h"
#include "broker/core/record/tell.h"
#include "broker/core/record/text.h"
#include "broker/core/streams/await.h"
#include "broker/core/streams/lease.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/passing.h"
#include "broker/core/streams/sub.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/slot_table.h"

#define STEP_SENDS_MAX 4096

/* Party numbers in END frames, apart from those of topics. */
#define PARTY_NUMBER_BIT UINT32_C(0x80000000)

enum pumped { PUMP_SENT, PUMP_NOTHING, PUMP_NO_MEMORY };

/* ---- a frame made here ----------------------------------------------------------------------- */

static uint64_t send_frame(struct core *core, struct session *session, uint32_t sub,
                           enum frame_kind kind, uint32_t topic, uint64_t seq, struct span value)
{
    struct effect_frame *made = effects_frame(core->effects, session->data, sub, kind);
    made->frame.attempt = session->job->attempt;
    made->frame.topic = topic;
    made->frame.seq = seq;
    made->frame.stamp_ns = core->now_ns;
    made->frame.value = value;
    return frame_total(value.bytes);
}

/* Names a topic.  Until it is named again its slots are of this share. */
static uint64_t send_topic(struct core *core, struct session *session, uint32_t sub,
                           const struct topic *topic, const struct topic_share *share)
{
    bool is_followed = share->end_seq < topic->slots.next_seq;
    uint64_t sent = send_frame(core, session, sub, FRAME_TOPIC, topic->number,
                               is_followed ? share->end_seq : 0, topic->name);
    if (share->incarnation > 0)
        core->effects->frames[core->effects->frame_count - 1].frame.reply_to = share->incarnation;
    return sent;
}

static uint64_t send_gap(struct core *core, struct session *session, uint32_t sub, uint32_t topic,
                         uint64_t seq, uint64_t count, enum gap_reason reason)
{
    uint8_t encoded[FRAME_GAP_BYTES_MAX];
    struct effect_frame *made = effects_frame(core->effects, session->data, sub, FRAME_GAP);
    made->frame.attempt = session->job->attempt;
    made->frame.topic = topic;
    made->frame.seq = seq;
    made->frame.stamp_ns = core->now_ns;
    made->gap = (struct frame_gap){.count = count, .reason = reason};
    return frame_total(frame_gap_encode(encoded, &made->gap));
}

/* Whole frames. */
static uint64_t send_stored(struct core *core, struct session *session, uint32_t sub,
                            payload_id payload, uint32_t offset, uint32_t bytes, uint32_t frames)
{
    struct effect *effect = effects_range(core->effects, session->data, sub, payload);
    effect->offset = offset;
    effect->bytes = bytes;
    effect->count = frames;
    effect->is_whole = true;
    return bytes;
}

/* Bytes of a frame with so many values of this size. */
static uint32_t values_bytes(uint32_t value_bytes, uint32_t count)
{
    return FRAME_HEADER_BYTES + count * (uint32_t)frame_padded(value_bytes);
}

/* Whether the entry's values are all of their frame. */
static bool is_whole(const struct slot_entry *entry)
{
    return entry->place.skip == 0 && entry->place.frame_count == entry->count;
}

/* Values of an entry, behind the first skip ones. */
static uint64_t send_part(struct core *core, struct session *session, uint32_t sub,
                          const struct slot_entry *entry, uint32_t skip)
{
    struct effect *effect = effects_part(core->effects, session->data, sub, entry->ref);
    effect->offset = entry->place.offset;
    effect->skip = entry->place.skip + skip;
    effect->count = entry->count - skip;
    effect->is_whole = true;
    effect->bytes = values_bytes(entry->place.value_bytes, effect->count);
    return effect->bytes;
}

/* One chunk; *offset moves behind it.  Whether it was the last. */
static bool send_chunk(struct core *core, struct session *session, uint32_t sub,
                       const struct chunks *chunks, uint64_t *offset, uint64_t *sent)
{
    const struct chunk *chunk = chunks_at(chunks, *offset);
    must(chunk != NULL);
    *sent += send_stored(core, session, sub, chunk->payload, chunk->offset, chunk->frame_bytes, 1);
    core->effects->items[core->effects->count - 1].is_whole = false; /* settled by its last one */
    *offset = chunk->begin + chunk->bytes;
    return *offset == chunks->total;
}

/* A value, or a piece of it, that is sent with another header than its writer's. */
struct headed {
    conn_id conn;
    uint32_t sub;
    struct frame head; /* all but kind, stamp and value */
    const struct slot_entry *entry;
    uint64_t seq;           /* of the entry's slots */
    uint64_t *chunk_offset; /* bytes sent so far of a value in chunks */
    uint64_t *sent;
};

/* Whether it is whole with that. */
static bool send_headed(struct core *core, const struct headed *what)
{
    const struct slot_entry *entry = what->entry;
    const struct chunks *chunks =
        entry->state == SLOT_CHUNKED ? pool_find(&core->chunk_sets, entry->ref) : NULL;
    const struct chunk *chunk = chunks != NULL ? chunks_at(chunks, *what->chunk_offset) : NULL;
    struct effect *effect = effects_task(core->effects, what->conn, what->sub,
                                         chunk != NULL ? chunk->payload : entry->ref);
    struct frame *head = &core->effects->frames[effect->index].frame;
    *head = what->head;
    head->flags = chunk != NULL ? FRAME_CHUNK : FRAME_VALUE;
    effect->offset = chunk != NULL ? chunk->offset : entry->place.offset;
    effect->bytes = chunk != NULL ? chunk->frame_bytes : values_bytes(entry->place.value_bytes, 1);
    *what->sent += effect->bytes;
    if (chunk == NULL) {
        effect->skip = entry->place.skip + (uint32_t)(what->seq - entry->first_seq);
        return true;
    }
    *what->chunk_offset = chunk->begin + chunk->bytes;
    return *what->chunk_offset == chunks->total;
}

/* The stored frame of a dead letter has the header of its task.  So it is sent with a header of its
 * own. */
static bool send_letter(struct core *core, struct session *session, uint32_t sub,
                        const struct topic *topic, const struct slot_entry *entry, uint64_t seq,
                        uint64_t *chunk_offset, uint64_t *sent)
{
    return send_headed(core, &(struct headed){.conn = session->data,
                                              .sub = sub,
                                              .head = {.delivery = 1,
                                                       .attempt = session->job->attempt,
                                                       .topic = topic->number,
                                                       .seq = seq,
                                                       .reply_to = FRAME_NO_REPLY},
                                              .entry = entry,
                                              .seq = seq,
                                              .chunk_offset = chunk_offset,
                                              .sent = sent});
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Where what is sent waits for the disk, the window has more.  Over a link it has that without it,
 * for the round trip that is measured has the sync in it. */
static uint64_t window_now(const struct core *core, struct flow_window *flow,
                           struct sync_round *round, uint64_t taken)
{
    if (core->options.holds_outcomes) {
        uint64_t more = sync_round_bytes(round, core->kept, taken);
        flow_window_widen(flow, flow->is_far ? 0 : more);
    }
    return flow_window_bytes(flow);
}

/* ---- awaited slots --------------------------------------------------------------------------- */

static bool await_send(struct core *core, struct session *session, struct await *await,
                       uint64_t *sent)
{
    const struct slot_entry *outcome = &await->outcome;
    struct topic *topic = await->topic;
    if (outcome->state == SLOT_ERROR) {
        *sent += send_frame(core, session, 0, FRAME_ERROR, topic->number, await->seq,
                            failure_span(pool_find(&core->failures, outcome->ref)));
        return true;
    }
    if (!await->is_value_wanted) {
        *sent += send_frame(core, session, 0, FRAME_VALUE, topic->number, await->seq, SPAN_NONE);
        return true;
    }
    if (topic->letters != NULL)
        return send_letter(core, session, 0, topic, outcome, await->seq, &await->chunk_offset,
                           sent);
    if (outcome->state == SLOT_VALUE) {
        *sent += is_whole(outcome)
                     ? send_stored(core, session, 0, outcome->ref, outcome->place.offset,
                                   values_bytes(outcome->place.value_bytes, 1), 1)
                     : send_part(core, session, 0, outcome, 0);
        return true;
    }
    const struct chunks *chunks = pool_find(&core->chunk_sets, outcome->ref);
    if (await->chunk_offset >= chunks->total)
        await->chunk_offset = 0;
    return send_chunk(core, session, 0, chunks, &await->chunk_offset, sent);
}

/* Whoever may not read a topic is told no number of it: 0 stands for the name that it said. */
static bool pump_denial(struct core *core, struct session *session, const struct await *await,
                        uint64_t *sent)
{
    *sent += send_frame(core, session, 0, FRAME_TOPIC, 0, 0, await->denied);
    *sent += send_frame(core, session, 0, FRAME_ERROR, 0, await->seq,
                        failure_span(pool_find(&core->failures, await->outcome.ref)));
    session->await_topic = 0;
    return true;
}

/* Sends TOPIC for the topic of the wait, unless it was the last one that was named. */
static void name_awaited(struct core *core, struct session *session, const struct await *await,
                         uint64_t *sent)
{
    struct topic_share share = topic_share_at(await->topic, await->seq);
    if (session->await_topic != await->topic->number ||
        session->await_incarnation != share.incarnation) {
        *sent += send_topic(core, session, 0, await->topic, &share);
        session->await_topic = await->topic->number;
        session->await_incarnation = share.incarnation;
    }
}

/* Whether it is answered with that. */
static bool pump_answer(struct core *core, struct session *session, struct await *await,
                        uint64_t *sent)
{
    if (await->topic == NULL)
        return pump_denial(core, session, await, sent);
    name_awaited(core, session, await, sent);
    return await_send(core, session, await, sent);
}

/* The next answer; values in pieces take turns. */
static void pump_ready(struct core *core, struct session *session, uint64_t *sent)
{
    struct await *await = LIST_OWNER(session->awaits_ready.next, struct await, link);
    if (pump_answer(core, session, await, sent)) {
        await_free(core, await);
    } else {
        list_remove(&await->link);
        list_push(&session->awaits_ready, &await->link);
    }
}

/* The next piece of a value whose slot is open; they take turns, too. */
static void pump_coming(struct core *core, struct session *session, uint64_t *sent)
{
    struct await *await = LIST_OWNER(session->awaits_coming.next, struct await, coming_link);
    const struct chunks *chunks = await_pieces(core, await);
    list_remove(&await->coming_link);
    if (chunks == NULL)
        return;
    name_awaited(core, session, await, sent);
    (void)send_chunk(core, session, 0, chunks, &await->chunk_offset, sent);
    if (await->chunk_offset < chunks->bytes)
        list_push(&session->awaits_coming, &await->coming_link);
}

static enum pumped pump_await(struct core *core, struct session *session)
{
    bool is_ready = !list_is_empty(&session->awaits_ready);
    bool is_any = is_ready || !list_is_empty(&session->awaits_coming);
    uint64_t in_flight = session->await_sent - session->await_taken;
    if (!is_any || in_flight >= window_now(core, &session->await_flow, &session->await_round,
                                           session->await_taken)) {
        flow_window_stopped(&session->await_flow, is_any);
        return PUMP_NOTHING;
    }
    uint64_t sent = 0;
    if (is_ready)
        pump_ready(core, session, &sent);
    else
        pump_coming(core, session, &sent);
    flow_window_piece(&session->await_flow, sent);
    flow_window_sent(&session->await_flow, session->await_sent, session->await_sent + sent,
                     core_clock(core));
    session->await_sent += sent;
    if (core->options.holds_outcomes)
        sync_round_sent(&session->await_round, core->steps, session->await_taken);
    session->data_sent += sent;
    return PUMP_SENT;
}

/* ---- subscriptions --------------------------------------------------------------------------- */

static bool reserve_flight(struct core *core, struct sub *sub)
{
    if (sub->flight_count < sub->flight_room)
        return true;
    uint32_t room = sub->flight_room ? sub->flight_room * 2 : 16;
    struct flight *flights = memory_take(core->memory, room * sizeof *flights);
    if (flights == NULL)
        return false;
    for (uint32_t i = 0; i < sub->flight_count; i++)
        flights[i] = sub->flights[(sub->flight_head + i) & (sub->flight_room - 1)];
    memory_give(core->memory, sub->flights, sub->flight_room * sizeof *flights);
    sub->flights = flights;
    sub->flight_room = room;
    sub->flight_head = 0;
    return true;
}

/* end_seq UINT64_MAX: an end. */
static void take_off(const struct core *core, struct sub *sub, struct route *route,
                     uint64_t end_seq, uint64_t bytes)
{
    flow_window_piece(&sub->flow, bytes);
    flow_window_sent(&sub->flow, sub->sent_bytes, sub->sent_bytes + bytes, core_clock(core));
    sub->sent_bytes += bytes;
    if (core->options.holds_outcomes)
        sync_round_sent(&sub->round, core->steps, sub->taken_bytes);
    sub->session->data_sent += bytes;
    uint32_t at = (sub->flight_head + sub->flight_count) & (sub->flight_room - 1);
    sub->flights[at] = (struct flight){.route = route,
                                       .end_seq = end_seq,
                                       .offset = route != NULL ? route->chunk_offset : 0,
                                       .end_bytes = sub->sent_bytes};
    sub->flight_count += 1;
}

/* Readers get the end of an incarnation before the values of the next one.  So an end that is due
 * holds those values back. */
static uint64_t route_limit(const struct sub *sub, const struct topic *topic)
{
    LIST_EACH(link, &sub->endings) {
        const struct ending *ending = LIST_OWNER(link, struct ending, link);
        if (!ending->is_sent && ending->party == topic->writer)
            return topic_end_of(topic, ending->incarnation);
    }
    return UINT64_MAX;
}

static void tell_lossy(struct core *core, struct route *route, uint64_t count)
{
    if (route->is_lossy)
        return;
    route->is_lossy = true;
    struct sub *sub = route->sub;
    struct text text;
    text_init(&text);
    text_add_span(&text, sub->party->name);
    text_add(&text, " loses frames of ");
    text_add_span(&text, route->topic->name);
    text_add(&text, ", as it asked to rather than hold its writer back");
    tell(core, sub->job,
         &(struct tell){.name = EVENT_CONSUMER_SLOW,
                        .party = sub->party,
                        .incarnation = sub->party->incarnation,
                        .topic = route->topic,
                        .seq = route->next_seq,
                        .count = count,
                        .text = text.data});
}

/* Slots that were gone before the subscription came, and slots that went because it was slow, are
 * two gaps.  A durable name that nobody read for too long was not slow: all is one gap. */
static uint64_t route_gap(struct core *core, struct route *route, uint64_t first_seq)
{
    struct sub *sub = route->sub;
    bool was_gone = route->next_seq < route->gone_seq;
    if (was_gone && route->gone_seq < first_seq && !sub_holds(sub))
        first_seq = route->gone_seq;
    uint64_t count = first_seq - route->next_seq;
    enum gap_reason reason = was_gone || sub_holds(sub) ? GAP_NOT_KEPT : GAP_OVERFLOW;
    if (reason == GAP_OVERFLOW)
        tell_lossy(core, route, count);
    uint64_t bytes = send_gap(core, sub->session, sub->number, route->topic->number,
                              route->next_seq, count, reason);
    route->next_seq = first_seq;
    route->chunk_offset = 0;
    return bytes;
}

/* Tells the reader which slots of earlier attempts it missed, before it gets any of this one. */
static uint64_t route_missed(struct core *core, struct route *route)
{
    route->is_missed_sent = true;
    return send_gap(core, route->sub->session, route->sub->number, route->topic->number,
                    route->missed_seq, route->missed_count, GAP_ATTEMPT);
}

/* Frames that are next to each other in one payload are sent together, up to the size of a batch.
 * A frame of which only a part is wanted, or is here, is sent alone. */
static uint64_t route_values(struct core *core, struct route *route, uint32_t index, uint64_t limit)
{
    struct topic *topic = route->topic;
    struct session *session = route->sub->session;
    uint32_t number = route->sub->number;
    struct slot_entry *entry = slot_table_at(&topic->slots, index);
    uint32_t skip = (uint32_t)(route->next_seq - entry->first_seq);
    payload_id payload = entry->ref;
    uint32_t offset = entry->place.offset;
    uint32_t bytes = 0;
    uint32_t frames = 0;
    entry->is_sealed = true;
    route->next_seq = slot_entry_end(entry);
    if (skip > 0 || !is_whole(entry))
        return send_part(core, session, number, entry, skip);
    for (;;) {
        bytes += values_bytes(entry->place.value_bytes, entry->count);
        frames += 1;
        if (++index == topic->slots.count)
            break;
        entry = slot_table_at(&topic->slots, index);
        if (entry->state != SLOT_VALUE || entry->ref != payload || !is_whole(entry) ||
            entry->place.offset != offset + bytes || slot_entry_end(entry) > limit)
            break;
        entry->is_sealed = true;
        route->next_seq = slot_entry_end(entry);
    }
    return send_stored(core, session, number, payload, offset, bytes, frames);
}

/* Sends the bytes of an open slot's value that came and were not sent.  They are no outcome, so
 * they seal nothing.  The rest follows, or the outcome of the slot.  A reply is sent only when it
 * is whole: one worker may begin it, and another one begin it anew. */
static const struct chunks *route_coming(const struct core *core, const struct route *route,
                                         const struct slot_entry *entry)
{
    const struct open_slot *open = pool_find(&core->open_slots, entry->ref);
    if (route->topic->is_replies ||
        (open->chunks != NULL && passing_is_missed(route, open->chunks)))
        return NULL;
    return open->chunks != NULL && route->chunk_offset < open->chunks->bytes ? open->chunks : NULL;
}

/* Whether the value passed through before this route came, or faster than it could. */
static bool is_missed_value(const struct core *core, const struct route *route,
                            const struct slot_entry *entry)
{
    return entry->state == SLOT_CHUNKED &&
           passing_is_missed(route, pool_find(&core->chunk_sets, entry->ref));
}

/* The outcome that this route comes to next, or a piece of it. */
static uint64_t route_outcome(struct core *core, struct route *route, uint32_t index,
                              uint64_t limit)
{
    struct topic *topic = route->topic;
    struct session *session = route->sub->session;
    uint32_t number = route->sub->number;
    struct slot_entry *entry = slot_table_at(&topic->slots, index);
    uint64_t sent = 0;
    bool is_done = true;
    if (entry->state == SLOT_VALUE && topic->letters == NULL) {
        route->chunk_offset = 0;
        return route_values(core, route, index, limit);
    }
    entry->is_sealed = true;
    if (entry->state == SLOT_ERROR)
        sent = send_frame(core, session, number, FRAME_ERROR, topic->number, route->next_seq,
                          failure_span(pool_find(&core->failures, entry->ref)));
    else if (topic->letters != NULL)
        is_done = send_letter(core, session, number, topic, entry, route->next_seq,
                              &route->chunk_offset, &sent);
    else
        is_done = send_chunk(core, session, number, pool_find(&core->chunk_sets, entry->ref),
                             &route->chunk_offset, &sent);
    if (is_done) {
        route->next_seq += 1;
        route->chunk_offset = 0;
    }
    return sent;
}

/* Sends what comes next on this route; 0: nothing can be sent on it now. */
static uint64_t route_send(struct core *core, struct route *route)
{
    struct topic *topic = route->topic;
    struct session *session = route->sub->session;
    uint32_t number = route->sub->number;
    uint64_t limit = route_limit(route->sub, topic);
    struct topic_share share = topic_share_at(topic, route->next_seq);
    uint64_t first_seq = slot_table_first_seq(&topic->slots);
    uint64_t sent = 0;
    uint32_t index;
    if (route->is_late && passing_is_awaited(core, route))
        return 0;
    if (first_seq < route->late_seq)
        first_seq = route->late_seq;
    bool is_missed = route->missed_count > 0 && !route->is_missed_sent;
    bool is_gap = route->next_seq < first_seq && route->next_seq < topic->slots.next_seq;
    if (route->next_seq >= limit && !is_missed)
        return 0;
    bool is_there = slot_table_find(&topic->slots, route->next_seq, &index);
    bool is_open = is_there && slot_table_at(&topic->slots, index)->state == SLOT_OPEN;
    const struct chunks *coming =
        is_open ? route_coming(core, route, slot_table_at(&topic->slots, index)) : NULL;
    if (!is_gap && !is_missed && (!is_there || (is_open && coming == NULL))) {
        route->is_lossy = false; /* it has caught up */
        passing_look(core, route);
        return 0;
    }
    if (route->named_on != session->data || route->named_incarnation != share.incarnation) {
        sent += send_topic(core, session, number, topic, &share);
        route->named_on = session->data;
        route->named_incarnation = share.incarnation;
    }
    if (is_missed)
        return sent + route_missed(core, route);
    if (is_gap)
        return sent + route_gap(core, route, first_seq);
    if (coming == NULL && is_missed_value(core, route, slot_table_at(&topic->slots, index)))
        return sent + route_gap(core, route, route->next_seq + 1);
    if (coming == NULL)
        return sent +
               route_outcome(core, route, index, limit < share.end_seq ? limit : share.end_seq);
    (void)send_chunk(core, session, number, coming, &route->chunk_offset, &sent);
    return sent;
}

static uint64_t send_end(struct core *core, const struct sub *sub, uint32_t number,
                         const struct ending *ending)
{
    struct effect_frame *made =
        effects_frame(core->effects, sub->session->data, sub->number, FRAME_END);
    made->frame.attempt = sub->job->attempt;
    made->frame.topic = number;
    made->frame.seq = ending->incarnation;
    made->frame.stamp_ns = core->now_ns;
    made->frame.value = failure_span(ending->failure);
    if (ending->first < ending->incarnation)
        made->frame.reply_to = ending->first;
    return frame_total(made->frame.value.bytes);
}

/* The first end that is due and not sent, if all before it is. */
static enum pumped pump_ending(struct core *core, struct sub *sub)
{
    struct ending *ending = NULL;
    LIST_EACH(link, &sub->endings)
        if (ending == NULL && !LIST_OWNER(link, struct ending, link)->is_sent)
            ending = LIST_OWNER(link, struct ending, link);
    if (ending == NULL)
        return PUMP_NOTHING;
    struct party *party = ending->party;
    LIST_EACH(link, &party->topics) {
        const struct topic *topic = LIST_OWNER(link, struct topic, party_link);
        uint32_t id;
        if (id_map_get(&sub->route_ids, topic->id, &id) &&
            ((struct route *)pool_find(&core->routes, id))->next_seq <
                topic_end_of(topic, ending->incarnation))
            return PUMP_NOTHING;
    }
    uint32_t number = PARTY_NUMBER_BIT | party->id;
    uint64_t sent =
        send_frame(core, sub->session, sub->number, FRAME_TOPIC, number, 0, party->name);
    sent += send_end(core, sub, number, ending);
    ending->is_sent = true;
    take_off(core, sub, NULL, UINT64_MAX, sent);
    LIST_EACH(link, &sub->routes) /* what its next incarnation wrote was held back */
    {
        struct route *route = LIST_OWNER(link, struct route, sub_link);
        if (route->topic->writer == party)
            route_ready(core, route);
    }
    return PUMP_SENT;
}

/* ---- members of groups ----------------------------------------------------------------------- */

/* The task's value, or one piece of it; whether that was the last. */
static bool task_send(struct core *core, const struct sub *member, struct task *task,
                      const struct slot_entry *entry, uint64_t seq, uint64_t *sent)
{
    const struct topic *topic = task->topic;
    const struct open_slot *reply = task_reply(core, task);
    struct frame head = {.delivery = (uint8_t)task->delivery,
                         .attempt = member->job->attempt,
                         .topic = topic->number,
                         .seq = task->seq,
                         .stamp_ns = core->now_ns,
                         .reply_to = reply != NULL ? reply->seq : FRAME_NO_REPLY};
    if (entry->state != SLOT_ERROR)
        return send_headed(core, &(struct headed){.conn = member->session->data,
                                                  .sub = member->number,
                                                  .head = head,
                                                  .entry = entry,
                                                  .seq = seq,
                                                  .chunk_offset = &task->chunk_offset,
                                                  .sent = sent});
    head.flags = FRAME_ERROR;
    head.value = failure_span(pool_find(&core->failures, entry->ref));
    effects_frame(core->effects, member->session->data, member->number, FRAME_ERROR)->frame = head;
    *sent += frame_total(head.value.bytes);
    return true;
}

/* Sends TOPIC for the topic numbers in a task's frame, unless the connection has had it. */
static uint64_t name_topics(struct core *core, struct sub *member, const struct task *task)
{
    const struct topic *topic = task->topic;
    const struct open_slot *reply = task_reply(core, task);
    struct topic_share share = topic_share_at(topic, task->seq);
    uint64_t sent = 0;
    if (member->named_topic != topic->number || member->named_incarnation != share.incarnation)
        sent += send_topic(core, member->session, member->number, topic, &share);
    member->named_topic = topic->number;
    member->named_incarnation = share.incarnation;
    if (reply == NULL || member->named_replies == reply->topic->number)
        return sent;
    member->named_replies = reply->topic->number;
    return sent + send_frame(core, member->session, member->number, FRAME_TOPIC,
                             reply->topic->number, 0, reply->topic->name);
}

/* The first lease that it was not sent. */
static enum pumped pump_member(struct core *core, struct sub *member)
{
    uint64_t seq;
    uint32_t index;
    if (list_is_empty(&member->unsent))
        return PUMP_NOTHING;
    struct task *task = LIST_OWNER(member->unsent.next, struct task, unsent_link);
    struct topic *topic = task_topic(task, &seq);
    bool is_found = slot_table_find(&topic->slots, seq, &index);
    must(is_found); /* the group's place holds it while it has members */
    uint64_t sent = name_topics(core, member, task);
    if (task_send(core, member, task, slot_table_at(&topic->slots, index), seq, &sent))
        list_remove(&task->unsent_link);
    take_off(core, member, NULL, 0, sent);
    return PUMP_SENT;
}

/* One thing for this subscription, whose window has room. */
static enum pumped pump_next(struct core *core, struct sub *sub)
{
    if (!reserve_flight(core, sub))
        return PUMP_NO_MEMORY;
    if (sub->group != NULL)
        return pump_member(core, sub);
    while (!list_is_empty(&sub->ready)) {
        struct route *route = LIST_OWNER(sub->ready.next, struct route, ready_link);
        list_remove(&route->ready_link);
        uint64_t sent = route_send(core, route);
        if (sent == 0)
            continue;
        take_off(core, sub, route, route->next_seq, sent);
        list_push(&sub->ready, &route->ready_link);
        return PUMP_SENT;
    }
    return pump_ending(core, sub);
}

static enum pumped pump_sub(struct core *core, struct sub *sub)
{
    uint64_t in_flight = sub->sent_bytes - sub->taken_bytes;
    bool is_held =
        in_flight > 0 && in_flight >= window_now(core, &sub->flow, &sub->round, sub->taken_bytes);
    enum pumped pumped = is_held ? PUMP_NOTHING : pump_next(core, sub);
    if (pumped == PUMP_NOTHING)
        flow_window_stopped(&sub->flow, is_held);
    return pumped;
}

/* PUMP_NOTHING: nothing is left.  PUMP_SENT: there may be more, after the others had their turn. */
static enum pumped pump_session(struct core *core, struct session *session, uint32_t *left)
{
    if (session->data == 0 || !session->is_ready)
        return PUMP_NOTHING;
    while (*left > 0 && pump_await(core, session) == PUMP_SENT)
        *left -= 1;
    while (*left > 0 && !list_is_empty(&session->subs_ready)) {
        struct sub *sub = LIST_OWNER(session->subs_ready.next, struct sub, ready_link);
        list_remove(&sub->ready_link);
        enum pumped pumped = pump_sub(core, sub);
        if (pumped == PUMP_NOTHING)
            continue;
        list_remove(&sub->ready_link); /* an end that was sent has put it back already */
        list_push(&session->subs_ready, &sub->ready_link);
        if (pumped == PUMP_NO_MEMORY)
            return PUMP_NO_MEMORY;
        *left -= 1;
    }
    return *left > 0 ? PUMP_NOTHING : PUMP_SENT;
}

/* Whom memory was short for is tried again with the next event. */
static void put_back(struct core *core, struct list *starved)
{
    LIST_EACH(link, starved) {
        list_remove(link);
        list_push(&core->pump, link);
    }
}

void pump_all(struct core *core)
{
    uint32_t left = STEP_SENDS_MAX;
    struct list starved;
    list_init(&starved);
    while (left > 0 && !list_is_empty(&core->pump)) {
        struct session *session = LIST_OWNER(core->pump.next, struct session, pump_link);
        list_remove(&session->pump_link);
        enum pumped pumped = pump_session(core, session, &left);
        if (pumped == PUMP_NOTHING)
            continue;
        list_remove(&session->pump_link); /* an end that was sent may have put it back already */
        list_push(pumped == PUMP_NO_MEMORY ? &starved : &core->pump, &session->pump_link);
        if (pumped == PUMP_SENT) /* the others' turn comes first */
            core->has_more = true;
    }
    put_back(core, &starved);
}
