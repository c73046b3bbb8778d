/* SPDX-License-Identifier: MPL-2.0 */
/* sub.c -- subscriptions and where they are.
 *
 * A route is a subscription's place in one topic, with three positions:
 *   acked_seq <= taken_seq <= next_seq
 * next_seq: to be sent.  taken_seq: the receiver has what is below (credit).  acked_seq: it is done
 * with what is below (durability).  A fresh connection of the same session goes on at taken_seq, or
 * further on where the client says so; a new life of a durable name at acked_seq. */
#include "broker/core/streams/sub.h"

#include "broker/core/groups/group.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/streams/lease.h"
#include "broker/core/streams/names.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/timers.h"
#include "libbus/base/pattern.h"

/* A lease lasts for so many beats at least: a party is suspect after two and a half. */
#define LEASE_BEATS_MIN 3

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
    bool is_place = sub_is_place(route->sub); /* of a group, which nobody reads from there */
    if (is_place)
        route_forget_tasks(core, route);
    else if (next_seq > route->acked_seq) {
        if (route->missed_count == 0)
            route->missed_seq = route->acked_seq;
        route->missed_count += next_seq - route->acked_seq;
    }
    route->is_missed_sent = false;
    route->next_seq = 0;
    route->chunk_offset = 0;
    route->taken_seq = 0;
    route->acked_seq = 0;
}

struct sub *sub_find(struct core *core, struct session *session, uint32_t number)
{
    uint32_t id;
    return id_map_get(&session->sub_ids, number, &id) ? pool_find(&core->subs, id) : NULL;
}

/* Dead letters are for who asks for them by name; no group takes them, or replies, for tasks. */
static bool matches(const struct sub *sub, struct span pattern, struct span topic)
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
        if (matches(sub, sub->patterns[i], topic))
            return true;
    return false;
}

/* ---- readiness ------------------------------------------------------------------------------- */

void sub_mark(struct core *core, struct sub *sub)
{
    struct session *session = sub->session;
    if (session == NULL || session->data == 0 || !session->is_ready)
        return; /* sub_ready() does it when both channels stand */
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
        member_ready(core, sub);
    sub_mark(core, sub);
}

/* ---- routes ---------------------------------------------------------------------------------- */

/* "Only what comes": from the first slot on that is not settled yet. */
static uint64_t first_unsettled(const struct topic *topic)
{
    uint64_t seq = topic->slots.next_seq;
    uint32_t open_left = topic->open_count;
    for (uint32_t i = topic->slots.count; i-- > 0 && open_left > 0;)
        if (slot_table_at(&topic->slots, i)->state == SLOT_OPEN) {
            seq = slot_table_at(&topic->slots, i)->first_seq;
            open_left -= 1;
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
    route->sub = sub;
    route->topic = topic;
    list_init(&route->ready_link);
    list_init(&route->tasks);
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
    if (sub->from_seq == 0)
        seq = slot_table_first_seq(&topic->slots);
    else if (sub->from_seq < 0)
        seq = first_unsettled(topic);
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
    sub->flight_count = 0;
    if (sub_is_member(sub))
        member_rewind(sub);
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

/* Whether so much may have been sent.  What was sent is forgotten with the connection, and of a
 * subscription that was closed before its acknowledgement came no position is told on the next. */
static bool may_be_sent(const struct route *route, uint64_t next_seq)
{
    return next_seq <= route->next_seq || next_seq <= first_unsettled(route->topic);
}

/* What its client was done with before it closed a durable name does not come to the next handle,
 * though that is not in force as long as the data before it is on its way. */
void sub_pass_done(struct core *core, struct session *session)
{
    LIST_EACH(link, &session->parked) {
        const struct parked *op = LIST_OWNER(link, struct parked, link);
        struct sub *sub = op->durable != 0 ? pool_find(&core->subs, op->durable) : NULL;
        uint32_t id;
        if (sub == NULL || sub->session != session || !id_map_get(&sub->route_ids, op->topic, &id))
            continue;
        struct route *route = pool_find(&core->routes, id);
        if (op->seq > route->next_seq && may_be_sent(route, op->seq))
            route->next_seq = route->taken_seq = op->seq;
    }
}

/* ---- the ends of parties --------------------------------------------------------------------- */

static void ending_free(struct core *core, struct ending *ending)
{
    list_remove(&ending->link);
    failure_unref(core, ending->failure);
    memory_give(core->memory, ending, sizeof *ending);
}

bool sub_add_ending(struct core *core, struct sub *sub, struct party *party, uint32_t incarnation,
                    struct failure *failure)
{
    struct ending *ending = memory_take(core->memory, sizeof *ending);
    if (ending == NULL)
        return false;
    ending->party = party;
    ending->incarnation = incarnation;
    ending->failure = failure_ref(failure);
    list_push(&sub->endings, &ending->link);
    note_end_due(core, sub, ending);
    sub_mark(core, sub);
    return true;
}

/* Without memory its slots and waits have told it; the end itself is lost. */
static void add_ending(struct core *core, struct sub *sub, struct party *party,
                       struct failure *failure)
{
    (void)sub_add_ending(core, sub, party, party->incarnation, failure);
}

void sub_end_told(struct core *core, struct sub *sub)
{
    ending_free(core, LIST_OWNER(sub->endings.next, struct ending, link));
    note_end_told(core, sub);
}

void sub_ended(struct core *core, struct party *party, struct failure *failure)
{
    LIST_EACH(link, &party->watches)
        add_ending(core, LIST_OWNER(link, struct watch, party_link)->sub, party, failure);
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

static bool add_watch(struct core *core, struct sub *sub, struct span party_name)
{
    struct party *party = party_get(core, sub->job, party_name);
    if (party == NULL)
        return false;
    LIST_EACH(link, &sub->watches)
        if (LIST_OWNER(link, struct watch, sub_link)->party == party)
            return true;
    if (!sub_watch(core, sub, party))
        return false;
    if (party_is_final(party->state))
        add_ending(core, sub, party, party->ended_by);
    return true;
}

static void watch_free(struct core *core, struct watch *watch)
{
    struct party *party = watch->party;
    list_remove(&watch->sub_link);
    list_remove(&watch->party_link);
    memory_give(core->memory, watch, sizeof *watch);
    party_update_bare(party);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void answer(struct core *core, struct session *session, uint64_t number, uint32_t sub,
                   enum wire_code code, const char *type, const char *message)
{
    struct failure *failure = NULL;
    if (code != CODE_OK)
        failure = failure_make(core, &(struct failure_spec){.job = session->job,
                                                            .party = session->party,
                                                            .kind = ERROR_REJECTED,
                                                            .type = type,
                                                            .message = message});
    struct msg_subscribed *msg =
        &effects_msg(core->effects, session->control, MSG_SUBSCRIBED)->as.subscribed;
    msg->number = number;
    msg->sub = sub;
    msg->code = code;
    msg->error = failure_span(failure);
    failure_unref(core, failure);
}

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

/* One more pattern: its topics, and the party that it names.  false: no room. */
static bool add_pattern(struct core *core, struct sub *sub, struct span pattern)
{
    struct span party;
    if (!sub_keep_pattern(core, sub, pattern))
        return false;
    LIST_EACH(link, &sub->job->topic_list) {
        if (link == &sub->job->trim_at)
            continue;
        struct topic *topic = LIST_OWNER(link, struct topic, job_link);
        if (matches(sub, pattern, topic->name)) {
            if (!sub_follow(core, sub, topic))
                return false;
            topic_update(core, topic);
        }
    }
    return sub_is_place(sub) || !pattern_names_party(pattern, &party) ||
           add_watch(core, sub, party);
}

struct sub *sub_make(struct core *core, uint32_t id, struct party *party, struct span name,
                     int64_t from_seq, int64_t keep_ns)
{
    struct sub *sub = core_take(&core->subs, id);
    if (sub == NULL)
        return NULL;
    sub->party = party;
    sub->job = party->job;
    sub->from_seq = from_seq;
    sub->keep_ns = keep_ns;
    sub->timer.kind = TIMER_SUB;
    id_map_init(&sub->route_ids, core->memory);
    list_init(&sub->routes);
    list_init(&sub->ready);
    list_init(&sub->endings);
    list_init(&sub->watches);
    list_init(&sub->session_link);
    list_init(&sub->durable_link);
    list_init(&sub->ready_link);
    list_init(&sub->member_link);
    list_init(&sub->idle_link);
    list_init(&sub->leases);
    list_init(&sub->unsent);
    if (!timers_reserve(&core->timers)) {
        pool_give(&core->subs, sub);
        return NULL;
    }
    list_push(&party->job->sub_list, &sub->job_link);
    if (!span_keep(core, name, &sub->name)) {
        sub_free(core, sub);
        return NULL;
    }
    if (name.bytes > 0)
        list_push(&party->durables, &sub->durable_link);
    party_update_bare(party);
    return sub;
}

static struct sub *sub_new(struct core *core, struct session *session,
                           const struct msg_subscribe *msg)
{
    int64_t keep_ms = msg->keep_ms != 0 ? (int64_t)msg->keep_ms : DEFAULT_SUB_KEEP_MS;
    return sub_make(core, 0, session->party, msg->name, msg->from_seq, keep_ms * MS_NS);
}

static struct sub_terms terms_of(const struct msg_subscribe *msg)
{
    return (struct sub_terms){.number = (uint32_t)msg->sub,
                              .is_gap = msg->overflow == 1,
                              .window_bytes = msg->window_bytes};
}

bool sub_attach(struct core *core, struct session *session, struct sub *sub,
                const struct sub_terms *terms)
{
    if (!id_map_put(&session->sub_ids, terms->number, sub->id))
        return false;
    sub->session = session;
    sub->number = terms->number;
    sub->is_gap = terms->is_gap;
    sub->is_expired = false;
    sub->window_bytes = terms->window_bytes;
    timers_clear(&core->timers, &sub->timer);
    list_push(&session->subs, &sub->session_link);
    return true;
}

/* A durable name goes on at its last acknowledgement. */
static void take_over(struct core *core, struct sub *sub)
{
    LIST_EACH(link, &sub->routes) {
        struct route *route = LIST_OWNER(link, struct route, sub_link);
        route->taken_seq = route->acked_seq;
    }
    sub_rewind(core, sub);
    sub_pass_done(core, sub->session);
    LIST_EACH(link, &sub->routes)
        topic_update(core, LIST_OWNER(link, struct route, sub_link)->topic);
    sub_ready(core, sub);
}

static struct sub *find_durable(const struct party *party, struct span name)
{
    LIST_EACH(link, &party->durables) {
        struct sub *sub = LIST_OWNER(link, struct sub, durable_link);
        if (span_equal(sub->name, name))
            return sub;
    }
    return NULL;
}

/* What is wrong with the request itself, or NULL; out_type is its type. */
static const char *complaint(const struct session *session, const struct msg_subscribe *msg,
                             const char **out_type)
{
    *out_type = ERROR_TYPE_PROTOCOL;
    if (msg->sub == 0)
        return "subscriptions are numbered from 1: 0 is what AWAIT is answered on";
    *out_type = ERROR_TYPE_NAME;
    if (!pattern_is_valid(msg->pattern))
        return "the pattern is not well formed";
    if (msg->name.bytes > 0 && !name_is_valid(msg->name))
        return "the durable name is not well formed";
    if (msg->group.bytes > 0 && (!party_is_valid(msg->group) || msg->name.bytes > 0 ||
                                 msg->group.bytes > LIMIT_GROUP_NAME_BYTES))
        return "the group's name is not well formed, or its member has a durable name";
    *out_type = ERROR_TYPE_FULL;
    if (session->sub_ids.count >= LIMIT_SUBS)
        return "the party has 4096 subscriptions already";
    return NULL;
}

static void open_durable(struct core *core, struct session *session, struct sub *sub,
                         const struct msg_subscribe *msg, bool is_again)
{
    uint32_t number = (uint32_t)msg->sub;
    struct sub_terms terms = terms_of(msg);
    if (sub->session != NULL)
        answer(core, session, msg->number, number, CODE_EDENIED, ERROR_TYPE_DURABLE_TAKEN,
               "a live handle has this durable name");
    else if (sub->pattern_count == 0 || !span_equal(sub->patterns[0], msg->pattern))
        answer(core, session, msg->number, number, CODE_EDENIED, ERROR_TYPE_DURABLE_DIFFERS,
               "the durable name exists with another pattern");
    else if (is_again || !sub_attach(core, session, sub, &terms)) /* refused, or closed since */
        answer(core, session, msg->number, number, CODE_EFULL, ERROR_TYPE_NO_MEMORY,
               "the broker is short of memory");
    else {
        note_sub_attached(core, sub);
        take_over(core, sub);
        answer(core, session, msg->number, number, CODE_OK, "", "");
    }
}

/* The group's place in its topics, made by its first member; NULL: no room. */
static struct group *found_group(struct core *core, struct session *session,
                                 const struct msg_subscribe *msg)
{
    struct party *party = party_get(core, session->job, span_text(GROUPS_PARTY));
    int64_t keep_ms = msg->keep_ms != 0 ? (int64_t)msg->keep_ms : DEFAULT_SUB_KEEP_MS;
    struct sub *place =
        party != NULL ? sub_make(core, 0, party, msg->group, msg->from_seq, keep_ms * MS_NS) : NULL;
    if (place == NULL)
        return NULL;
    note_sub_opened(core, place);
    uint32_t deliver_max = msg->deliver_max != 0 ? (uint32_t)msg->deliver_max : DEFAULT_DELIVER;
    struct group *group = group_make(core, place, deliver_max);
    if (group != NULL && add_pattern(core, place, msg->pattern))
        return group;
    note_sub_closed(core, place);
    sub_free(core, place);
    return NULL;
}

/* A member itself follows no topic: it is sent what is leased to it. */
static bool open_share(struct core *core, struct session *session, struct group *group,
                       const struct msg_subscribe *msg)
{
    struct sub_terms terms = terms_of(msg);
    struct member_terms member = {.credit = msg->credit != 0 ? (uint32_t)msg->credit : 1,
                                  .lease_ns = (int64_t)msg->lease_ms * MS_NS};
    struct sub *sub = sub_new(core, session, msg);
    if (member.lease_ns > 0 && member.lease_ns < LEASE_BEATS_MIN * session->beat_ns)
        member.lease_ns = LEASE_BEATS_MIN * session->beat_ns;
    if (sub == NULL || !sub_attach(core, session, sub, &terms)) {
        if (sub != NULL)
            sub_free(core, sub);
        return false;
    }
    note_sub_opened(core, sub);
    if (sub_keep_pattern(core, sub, msg->pattern) && group_join(core, group, sub, &member)) {
        sub_ready(core, sub);
        return true;
    }
    note_sub_closed(core, sub);
    sub_free(core, sub);
    return false;
}

static void open_member(struct core *core, struct session *session, const struct msg_subscribe *msg,
                        bool is_again)
{
    uint32_t number = (uint32_t)msg->sub;
    struct group *group = group_find(core, session->job, msg->group);
    if (group != NULL && (!span_equal(group->place->patterns[0], msg->pattern) ||
                          (msg->deliver_max != 0 && msg->deliver_max != group->deliver_max))) {
        answer(core, session, msg->number, number, CODE_EDENIED, ERROR_TYPE_GROUP_DIFFERS,
               "the group exists with another pattern, or gives tasks as often as another number "
               "says");
        return;
    }
    if (group == NULL && !is_again)
        group = found_group(core, session, msg);
    if (group == NULL || is_again || !open_share(core, session, group, msg))
        answer(core, session, msg->number, number, CODE_EFULL, ERROR_TYPE_FULL,
               "the broker has no room for another subscription");
    else
        answer(core, session, msg->number, number, CODE_OK, "", "");
}

void sub_open(struct core *core, struct session *session, const struct msg_subscribe *msg,
              bool is_again)
{
    const char *type;
    uint32_t number = (uint32_t)msg->sub;
    if (sub_find(core, session, number) != NULL) { /* said again: the answer was lost */
        answer(core, session, msg->number, number, CODE_OK, "", "");
        return;
    }
    const char *wrong = complaint(session, msg, &type);
    if (wrong != NULL) {
        answer(core, session, msg->number, number,
               type == ERROR_TYPE_FULL ? CODE_EFULL : CODE_EDENIED, type, wrong);
        return;
    }
    if (msg->group.bytes > 0) {
        open_member(core, session, msg, is_again);
        return;
    }
    struct sub *sub = msg->name.bytes > 0 ? find_durable(session->party, msg->name) : NULL;
    if (sub != NULL) {
        open_durable(core, session, sub, msg, is_again);
        return;
    }
    /* What came before and is not there was refused, or is closed: it does not come to life. */
    struct sub_terms terms = terms_of(msg);
    sub = is_again ? NULL : sub_new(core, session, msg);
    bool is_attached = sub != NULL && sub_attach(core, session, sub, &terms);
    if (is_attached)
        note_sub_opened(core, sub);
    if (!is_attached || !add_pattern(core, sub, msg->pattern)) {
        if (is_attached)
            note_sub_closed(core, sub);
        if (sub != NULL)
            sub_free(core, sub);
        answer(core, session, msg->number, number, CODE_EFULL, ERROR_TYPE_FULL,
               "the broker has no room for another subscription");
        return;
    }
    answer(core, session, msg->number, number, CODE_OK, "", "");
    sub_ready(core, sub);
}

void sub_add(struct core *core, struct session *session, const struct msg_sub_add *msg)
{
    uint32_t number = (uint32_t)msg->sub;
    struct sub *sub = sub_find(core, session, number);
    if (sub == NULL) { /* refused, as its SUBSCRIBED has said, or closed meanwhile */
        answer(core, session, msg->number, number, CODE_EDENIED, ERROR_TYPE_NOT_OPEN,
               "there is no such subscription");
        return;
    }
    for (uint32_t i = 0; i < sub->pattern_count; i++)
        if (span_equal(sub->patterns[i], msg->pattern)) {
            answer(core, session, msg->number, number, CODE_OK, "", "");
            return;
        }
    if (!pattern_is_valid(msg->pattern))
        answer(core, session, msg->number, number, CODE_EDENIED, ERROR_TYPE_NAME,
               "the pattern is not well formed");
    else if (sub_is_member(sub))
        answer(core, session, msg->number, number, CODE_EDENIED, ERROR_TYPE_GROUP_DIFFERS,
               "the pattern of a group is fixed when it is made");
    else if (sub->pattern_count >= LIMIT_SUB_PATTERNS || !add_pattern(core, sub, msg->pattern))
        answer(core, session, msg->number, number, CODE_EFULL, ERROR_TYPE_FULL,
               "the subscription has no room for another pattern");
    else {
        answer(core, session, msg->number, number, CODE_OK, "", "");
        sub_ready(core, sub);
    }
}

/* ---- closing --------------------------------------------------------------------------------- */

static void leave_session(struct core *core, struct sub *sub)
{
    if (sub->session != NULL)
        id_map_remove(&sub->session->sub_ids, sub->number);
    sub->session = NULL;
    list_remove(&sub->session_link);
    list_remove(&sub->ready_link);
    (void)core;
}

/* What waits to be acknowledged of it: its number may be another's soon. */
static void forget_acks(struct sub *sub)
{
    struct session *session = sub->party->session;
    if (session == NULL || sub->name.bytes == 0)
        return;
    LIST_EACH(link, &session->parked)
        if (LIST_OWNER(link, struct parked, link)->durable == sub->id)
            LIST_OWNER(link, struct parked, link)->durable = 0;
}

void sub_free(struct core *core, struct sub *sub)
{
    forget_acks(sub);
    if (sub_is_place(sub))
        group_free(core, sub->group);
    else if (sub->group != NULL)
        group_leave(core, sub, NULL);
    leave_session(core, sub);
    LIST_EACH(link, &sub->routes) {
        struct topic *topic = LIST_OWNER(link, struct route, sub_link)->topic;
        route_free(core, LIST_OWNER(link, struct route, sub_link));
        topic_update(core, topic);
    }
    LIST_EACH(link, &sub->endings)
        ending_free(core, LIST_OWNER(link, struct ending, link));
    LIST_EACH(link, &sub->watches)
        watch_free(core, LIST_OWNER(link, struct watch, sub_link));
    for (uint32_t i = 0; i < sub->pattern_count; i++)
        span_drop(core, &sub->patterns[i]);
    memory_give(core->memory, sub->patterns, sub->pattern_count * sizeof *sub->patterns);
    memory_give(core->memory, sub->flights, sub->flight_room * sizeof *sub->flights);
    id_map_fini(&sub->route_ids);
    list_remove(&sub->durable_link);
    list_remove(&sub->job_link);
    span_drop(core, &sub->name);
    timers_unreserve(&core->timers, &sub->timer);
    party_update_bare(sub->party);
    pool_give(&core->subs, sub);
}

void sub_detach(struct core *core, struct sub *sub)
{
    if (sub->name.bytes == 0) {
        if (sub_is_member(sub))
            group_leave(core, sub, NULL); /* said before it is gone */
        note_sub_closed(core, sub);
        sub_free(core, sub);
        return;
    }
    leave_session(core, sub);
    timers_set(&core->timers, &sub->timer, core_clock(core) + sub->keep_ns);
    note_sub_detached(core, sub);
}

void sub_close(struct core *core, struct session *session, uint32_t number, bool is_drop)
{
    struct sub *sub = sub_find(core, session, number);
    if (sub == NULL)
        return; /* refused, or closed before */
    if (is_drop && sub->group == NULL) {
        note_sub_closed(core, sub);
        sub_free(core, sub);
    } else
        sub_detach(core, sub);
}

/* Only a member is given anything. */
void sub_drain(struct core *core, struct session *session, uint32_t number)
{
    struct sub *sub = sub_find(core, session, number);
    if (sub != NULL && sub_is_member(sub))
        group_drain(core, sub);
}

void sub_expire(struct core *core, struct sub *sub)
{
    sub->is_expired = true;
    note_sub_expired(core, sub);
    LIST_EACH(link, &sub->routes)
        topic_update(core, LIST_OWNER(link, struct route, sub_link)->topic);
}

/* ---- taken and acknowledged ------------------------------------------------------------------ */

/* What was in flight up to so many bytes has arrived where it was wanted. */
static void land(struct core *core, struct sub *sub)
{
    while (sub->flight_count > 0) {
        const struct flight *flight = &sub->flights[sub->flight_head];
        if (flight->end_bytes > sub->taken_bytes)
            return;
        struct route *route = flight->route;
        bool is_end = flight->end_seq == UINT64_MAX;
        uint64_t end_seq = flight->end_seq;
        sub->flight_head = (sub->flight_head + 1) & (sub->flight_room - 1);
        sub->flight_count -= 1;
        if (is_end)
            sub_end_told(core, sub);
        else if (route != NULL && end_seq > route->taken_seq) {
            route->taken_seq = end_seq;
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
        core_mark_pump(core, session);
        return NULL;
    }
    struct sub *sub = sub_find(core, session, (uint32_t)msg->sub);
    if (sub == NULL)
        return NULL; /* closed meanwhile */
    if (msg->bytes > sub->sent_bytes || msg->bytes < sub->taken_bytes)
        return "more was taken than was sent";
    sub->taken_bytes = msg->bytes;
    land(core, sub);
    sub_mark(core, sub);
    return NULL;
}

void sub_acknowledge(struct core *core, struct route *route, uint64_t next_seq)
{
    route->acked_seq = next_seq;
    route->missed_count = 0; /* it comes before all others */
    if (next_seq > route->taken_seq)
        route->taken_seq = next_seq;
    if (next_seq > route->next_seq)
        route->next_seq = next_seq; /* in a replay, or sent on an earlier connection */
    if (route->sub->name.bytes > 0)
        note_acknowledged(core, route);
    topic_update(core, route->topic);
}

uint32_t sub_durable(struct core *core, struct session *session, uint32_t number)
{
    const struct sub *sub = sub_find(core, session, number);
    return sub != NULL && sub->name.bytes > 0 ? sub->id : 0;
}

/* A durable name that was closed while the acknowledgement waited for its data stays all the same,
 * and with it what was done with before. */
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
