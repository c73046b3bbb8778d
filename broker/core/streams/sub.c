/* SPDX-License-Identifier: MPL-2.0 */
/* sub.c -- subscriptions: their positions in their topics, and what they are sent.
 *
 * A route is the position of a subscription in one topic.  It has three numbers, in this order:
 *   acked_seq  the reader has acknowledged all slots below it; it counts after a restart
 *   taken_seq  the reader has received all slots below it; it gives the writer credit
 *   next_seq   the next slot to be sent
 * After a reconnect of the same session the route goes on at taken_seq, or further on if the client
 * says so.  A new handle of a durable name goes on at acked_seq. */
#include "broker/core/streams/sub.h"

#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/rights.h"
#include "broker/core/streams/lease.h"
#include "broker/core/streams/names.h"
#include "broker/core/streams/passing.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/slot_table.h"
#include "libbus/base/pattern.h"

bool sub_holds(const struct sub *sub)
{
    return !sub->is_gap && !sub->is_expired;
}

uint64_t route_floor(const struct route *route)
{
    return route->sub->name.bytes > 0 ? route->acked_seq : route->taken_seq;
}

void route_restart(struct core *core, struct route *route, uint64_t next_seq)
{
    bool is_place = sub_is_place(route->sub); /* the place of a group: its members are sent tasks,
                                               * and no route */
    if (is_place)
        route_forget_tasks(core, route);
    else if (next_seq > route->acked_seq) {
        if (route->missed_count == 0)
            route->missed_seq = route->acked_seq;
        route->missed_count += next_seq - route->acked_seq;
    }
    route->is_missed_sent = false;
    route->gone_seq = 0;
    route->late_seq = 0;
    route->is_late = false;
    route->next_seq = 0;
    route->chunk_offset = 0;
    route->taken_seq = 0;
    route->taken_offset = 0;
    route->acked_seq = 0;
}

struct sub *sub_find(struct core *core, struct session *session, uint32_t number)
{
    uint32_t id;
    return id_map_get(&session->sub_ids, number, &id) ? pool_find(&core->subs, id) : NULL;
}

bool sub_matches(const struct sub *sub, struct span pattern, struct span topic)
{
    struct span party;
    bool is_letters = span_equal(topic_party(topic), span_text(GROUPS_PARTY));
    if (sub_is_place(sub) ? is_letters || name_is_replies(topic)
                          : is_letters && !pattern_names_party(pattern, &party))
        return false;
    return !sub_is_member(sub) && pattern_matches(pattern, topic);
}

bool sub_wants(const struct sub *sub, struct span topic)
{
    for (uint32_t i = 0; i < sub->pattern_count; i++)
        if (sub_matches(sub, sub->patterns[i], topic))
            return true;
    return false;
}

/* ---- readiness ------------------------------------------------------------------------------- */

void sub_mark(struct core *core, struct sub *sub)
{
    struct session *session = sub->session;
    if (session == NULL || session->data == 0 || !session->is_ready)
        return; /* sub_ready() marks it when both channels stand */
    if (!list_is_linked(&sub->ready_link))
        list_push(&session->subs_ready, &sub->ready_link);
    core_mark_pump(core, session);
}

void route_ready(struct core *core, struct route *route)
{
    if (!list_is_linked(&route->ready_link))
        list_push(&route->sub->ready, &route->ready_link);
    if (route->sub->group != NULL)
        group_due(core, route->sub->group);
    sub_mark(core, route->sub);
}

void sub_ready(struct core *core, struct sub *sub)
{
    LIST_EACH(link, &sub->routes)
        route_ready(core, LIST_OWNER(link, struct route, sub_link));
    if (sub_is_member(sub))
        leases_ready(core, sub);
    sub_mark(core, sub);
}

/* ---- routes ---------------------------------------------------------------------------------- */

/* The first slot from this one on that is not settled yet. */
static uint64_t first_unsettled(const struct topic *topic, uint64_t from_seq)
{
    uint64_t seq = topic->slots.next_seq;
    uint32_t open_left = topic->open_count;
    for (uint32_t i = topic->slots.count; i-- > 0 && open_left > 0;) {
        const struct slot_entry *entry = slot_table_at(&topic->slots, i);
        if (entry->first_seq < from_seq)
            break;
        if (entry->state == SLOT_OPEN) {
            seq = entry->first_seq;
            open_left -= 1;
        }
    }
    return seq;
}

struct route *sub_route(struct core *core, struct sub *sub, struct topic *topic, uint64_t seq)
{
    struct route *route = pool_take(&core->routes);
    if (route == NULL || !id_map_put(&sub->route_ids, topic->id, route->id)) {
        if (route != NULL)
            pool_give(&core->routes, route);
        return NULL;
    }
    route->next_seq = seq;
    route->taken_seq = seq;
    route->acked_seq = seq;
    route->gone_seq = slot_table_first_seq(&topic->slots);
    route->sub = sub;
    route->topic = topic;
    list_init(&route->ready_link);
    list_init(&route->tasks);
    passing_meet(core, route);
    id_map_init(&route->task_ids, core->memory);
    list_push(&sub->routes, &route->sub_link);
    list_push(&topic->routes, &route->topic_link);
    note_followed(core, route, seq);
    route_ready(core, route);
    return route;
}

bool sub_follow(struct core *core, struct sub *sub, struct topic *topic)
{
    uint32_t known;
    uint64_t seq = (uint64_t)sub->from_seq;
    if (id_map_get(&sub->route_ids, topic->id, &known))
        return true;
    if (!sub_is_place(sub) && !rights_may_read(core, sub->party, topic->name))
        return true; /* for this reader, there is no such topic */
    if (sub->from_seq == FROM_OLDEST)
        seq = slot_table_first_seq(&topic->slots);
    else if (sub->from_seq == FROM_NOW)
        seq = first_unsettled(topic, 0);
    else if (seq < topic->begin_seq)
        seq = topic->begin_seq; /* numbers below it were never slots */
    return sub_route(core, sub, topic, seq) != NULL;
}

void route_free(struct core *core, struct route *route)
{
    struct sub *sub = route->sub;
    for (uint32_t i = 0; i < sub->flight_count; i++) {
        struct flight *flight = &sub->flights[(sub->flight_head + i) & (sub->flight_room - 1)];
        if (flight->route == route)
            flight->route = NULL;
    }
    id_map_remove(&sub->route_ids, route->topic->id);
    route_forget_tasks(core, route);
    list_remove(&route->ready_link);
    list_remove(&route->sub_link);
    list_remove(&route->topic_link);
    pool_give(&core->routes, route);
}

void sub_rewind(struct core *core, struct sub *sub)
{
    (void)core; /* nothing is sent before READY */
    sub->sent_bytes = 0;
    sub->taken_bytes = 0;
    sub->round = (struct sync_round){.step = 0};
    flow_window_restart(&sub->flow, sub->session != NULL ? sub->session->trip_ns : 0);
    sub->flight_count = 0;
    if (sub_is_member(sub))
        leases_rewind(sub);
    LIST_EACH(link, &sub->endings)
        LIST_OWNER(link, struct ending, link)->is_sent = false;
    LIST_EACH(link, &sub->routes) {
        struct route *route = LIST_OWNER(link, struct route, sub_link);
        route->next_seq = route->taken_seq;
        route->is_missed_sent = false;
        route->chunk_offset = 0;
        route->named_on = 0;
    }
}

/* Whether the slots below next_seq may have been sent.  The broker forgets with a connection what
 * it sent on it.  A subscription that was closed before its acknowledgement came tells no position
 * on the next connection. */
static bool may_be_sent(const struct route *route, uint64_t next_seq)
{
    return next_seq <= route->next_seq ||
           next_seq <= first_unsettled(route->topic, route->next_seq);
}

/* A client acknowledged slots, closed the durable name and opened it again.  The acknowledgement is
 * parked until the data before it is here.  Until then the new handle skips those slots. */
void sub_pass_done(struct core *core, struct session *session)
{
    LIST_EACH(link, &session->parked) {
        const struct parked *op = LIST_OWNER(link, struct parked, link);
        struct sub *sub = op->durable != 0 ? pool_find(&core->subs, op->durable) : NULL;
        uint32_t id;
        if (sub == NULL || sub->session != session || !id_map_get(&sub->route_ids, op->topic, &id))
            continue;
        struct route *route = pool_find(&core->routes, id);
        if (op->seq > route->next_seq && may_be_sent(route, op->seq)) {
            route->next_seq = route->taken_seq = op->seq;
            route->taken_offset = 0;
        }
    }
}

/* ---- the ends of parties --------------------------------------------------------------------- */

void ending_free(struct core *core, struct ending *ending)
{
    list_remove(&ending->link);
    failure_unref(core, ending->failure);
    memory_give(core->memory, ending, sizeof *ending);
}

/* In the place of the oldest one that it covers, if it stands for several; else behind all others.
 * NULL: no memory. */
static struct ending *ending_place(struct core *core, struct sub *sub, const struct party *party,
                                   const struct party_end *end)
{
    struct ending *place = NULL;
    LIST_EACH(link, &sub->endings) {
        struct ending *ending = LIST_OWNER(link, struct ending, link);
        if (end->first == end->incarnation)
            break; /* it is one, and new */
        if (ending->party != party || ending->first < end->first ||
            ending->incarnation > end->incarnation)
            continue;
        if (place != NULL)
            ending_free(core, ending);
        else
            place = ending;
    }
    if (place != NULL) {
        failure_unref(core, place->failure);
        return place;
    }
    place = memory_take(core->memory, sizeof *place);
    if (place != NULL)
        list_push(&sub->endings, &place->link);
    return place;
}

bool sub_add_ending(struct core *core, struct sub *sub, struct party *party, struct party_end end)
{
    struct failure *failure = failure_ref(end.failure);
    struct ending *ending = ending_place(core, sub, party, &end);
    if (ending == NULL) {
        failure_unref(core, failure);
        return false;
    }
    ending->party = party;
    ending->first = end.first;
    ending->incarnation = end.incarnation;
    ending->failure = failure;
    ending->is_sent = false;
    note_end_due(core, sub, ending);
    sub_mark(core, sub);
    return true;
}

/* Nobody reads the durable name, and its party ends again and again: the two oldest ends become
 * one.  So no more are kept than a party has itself (party_keep_end()). */
static void merge_oldest(struct core *core, struct sub *sub, struct party *party)
{
    const struct ending *oldest[2] = {NULL, NULL};
    uint32_t count = 0;
    LIST_EACH(link, &sub->endings) {
        const struct ending *ending = LIST_OWNER(link, struct ending, link);
        if (ending->party == party && count++ < 2)
            oldest[count - 1] = ending;
    }
    if (count < LIMIT_PARTY_ENDS)
        return;
    struct party_end both = {.first = oldest[0]->first,
                             .incarnation = oldest[1]->incarnation,
                             .failure = oldest[1]->failure != NULL ? oldest[1]->failure
                                                                   : oldest[0]->failure};
    (void)sub_add_ending(core, sub, party, both); /* there is a place for it */
}

void ending_add(struct core *core, struct sub *sub, struct party *party)
{
    if (sub->session == NULL && !core->is_replaying)
        merge_oldest(core, sub, party);
    (void)sub_add_ending(core, sub, party, party_last_end(party));
}

/* Whether this end is still ahead of the subscription: it has not been sent all slots of that
 * incarnation, or it reads from number 0. */
static bool is_ahead(struct core *core, const struct sub *sub, const struct party *party,
                     uint32_t incarnation)
{
    bool has_route = false;
    LIST_EACH(link, &party->topics) {
        const struct topic *topic = LIST_OWNER(link, struct topic, party_link);
        uint32_t id;
        if (!id_map_get(&sub->route_ids, topic->id, &id))
            continue;
        const struct route *route = pool_find(&core->routes, id);
        if (route->next_seq <= topic->begin_seq ||
            route->next_seq < topic_end_of(topic, incarnation))
            return true;
        has_route = true;
    }
    return !has_route && sub->from_seq == 0;
}

void sub_add_past_endings(struct core *core, struct sub *sub, struct party *party)
{
    for (uint32_t i = 0; i < party->end_count; i++)
        if (sub->from_seq != FROM_NOW && is_ahead(core, sub, party, party->ends[i].incarnation))
            (void)sub_add_ending(core, sub, party, party->ends[i]);
}

void sub_end_told(struct core *core, struct sub *sub)
{
    ending_free(core, LIST_OWNER(sub->endings.next, struct ending, link));
    note_end_told(core, sub);
}

void sub_ended(struct core *core, struct party *party)
{
    LIST_EACH(link, &party->watches)
        ending_add(core, LIST_OWNER(link, struct watch, party_link)->sub, party);
}

bool sub_watch(struct core *core, struct sub *sub, struct party *party)
{
    struct watch *watch = memory_take(core->memory, sizeof *watch);
    if (watch == NULL)
        return false;
    watch->sub = sub;
    watch->party = party;
    list_push(&sub->watches, &watch->sub_link);
    list_push(&party->watches, &watch->party_link);
    party_update_bare(party);
    note_watched(core, watch);
    return true;
}

/* ---- opening --------------------------------------------------------------------------------- */

bool sub_keep_pattern(struct core *core, struct sub *sub, struct span pattern)
{
    struct span kept;
    if (!span_keep(core, pattern, &kept))
        return false;
    struct span *patterns =
        memory_resize(core->memory, sub->patterns, sub->pattern_count * sizeof *patterns,
                      (sub->pattern_count + 1) * sizeof *patterns);
    if (patterns == NULL) {
        span_drop(core, &kept);
        return false;
    }
    sub->patterns = patterns;
    sub->patterns[sub->pattern_count++] = kept;
    note_pattern_added(core, sub, kept);
    return true;
}

/* ---- closing --------------------------------------------------------------------------------- */

void sub_expire(struct core *core, struct sub *sub)
{
    sub->is_expired = true;
    note_sub_expired(core, sub);
    LIST_EACH(link, &sub->routes)
        topic_update(core, LIST_OWNER(link, struct route, sub_link)->topic);
    topic_seek_room(core, sub->job); /* what it held may go */
}

/* ---- taken and acknowledged ------------------------------------------------------------------ */

/* The reader has received taken_bytes: removes the messages in flight up to there. */
static void land(struct core *core, struct sub *sub)
{
    while (sub->flight_count > 0) {
        const struct flight *flight = &sub->flights[sub->flight_head];
        if (flight->end_bytes > sub->taken_bytes)
            return;
        struct route *route = flight->route;
        bool is_end = flight->end_seq == UINT64_MAX;
        uint64_t end_seq = flight->end_seq;
        uint64_t offset = flight->offset;
        sub->flight_head = (sub->flight_head + 1) & (sub->flight_room - 1);
        sub->flight_count -= 1;
        if (is_end)
            sub_end_told(core, sub);
        else if (route != NULL && end_seq > route->taken_seq) {
            route->taken_seq = end_seq;
            route->taken_offset = offset;
            topic_update(core, route->topic);
        } else if (route != NULL && end_seq == route->taken_seq && offset > route->taken_offset) {
            route->taken_offset = offset;
            if (route->topic->passing != NULL)
                topic_update(core, route->topic);
        }
    }
}

const char *sub_taken(struct core *core, struct session *session, const struct msg_taken *msg)
{
    if (msg->sub == 0) {
        if (msg->bytes > session->await_sent || msg->bytes < session->await_taken)
            return "more was taken than was sent";
        session->await_taken = msg->bytes;
        flow_window_arrived(&session->await_flow, msg->bytes, core_clock(core));
        core_mark_pump(core, session);
        return NULL;
    }
    struct sub *sub = sub_find(core, session, (uint32_t)msg->sub);
    if (sub == NULL)
        return NULL; /* closed meanwhile */
    if (msg->bytes > sub->sent_bytes || msg->bytes < sub->taken_bytes)
        return "more was taken than was sent";
    sub->taken_bytes = msg->bytes;
    flow_window_arrived(&sub->flow, msg->bytes, core_clock(core));
    land(core, sub);
    sub_mark(core, sub);
    return NULL;
}

void sub_acknowledge(struct core *core, struct route *route, uint64_t next_seq)
{
    route->acked_seq = next_seq;
    route->missed_count = 0; /* the client acknowledges after it was told of the missed slots */
    if (next_seq > route->taken_seq) {
        route->taken_seq = next_seq;
        route->taken_offset = 0;
    }
    if (next_seq > route->next_seq)
        route->next_seq = next_seq; /* during a replay, or if it was sent on an earlier
                                     * connection */
    if (route->sub->name.bytes > 0)
        note_acknowledged(core, route);
    topic_update(core, route->topic);
}

uint32_t sub_durable(struct core *core, struct session *session, uint32_t number)
{
    const struct sub *sub = sub_find(core, session, number);
    return sub != NULL && sub->name.bytes > 0 ? sub->id : 0;
}

/* Finds the subscription of an acknowledgement.  A durable name that was closed while the
 * acknowledgement was parked keeps its position, so the acknowledgement still counts. */
static struct sub *sub_of_ack(struct core *core, struct session *session, const struct parked *op)
{
    struct sub *sub = sub_find(core, session, op->sub);
    if (sub == NULL && op->durable != 0)
        sub = pool_find(&core->subs, op->durable);
    bool is_its_own = sub != NULL && sub->party == session->party;
    return is_its_own ? sub : NULL;
}

void sub_ack(struct core *core, struct session *session, const struct parked *op)
{
    struct sub *sub = sub_of_ack(core, session, op);
    uint32_t id;
    if (sub == NULL || !id_map_get(&sub->route_ids, op->topic, &id))
        return; /* closed meanwhile */
    struct route *route = pool_find(&core->routes, id);
    if (!may_be_sent(route, op->seq))
        return;
    if (op->seq > route->acked_seq || route->missed_count > 0)
        sub_acknowledge(core, route, op->seq > route->acked_seq ? op->seq : route->acked_seq);
}
