/* SPDX-License-Identifier: MPL-2.0 */
/* subscription.c -- how subscriptions are opened and closed, also those of groups.
 *
 * Where a subscription is in its topics is in streams/sub.c. */
#include "broker/core/groups/subscription.h"

#include "broker/core/groups/group.h"
#include "broker/core/record/account.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/rights.h"
#include "broker/core/streams/names.h"
#include "broker/core/streams/notice.h"
#include "broker/core/streams/sub.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/timers.h"
#include "libbus/base/pattern.h"

/* A lease lasts for so many beats at least: a party is suspect after two and a half. */
#define LEASE_BEATS_MIN 3

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
    sub_add_past_endings(core, sub, party);
    if (party_is_over(party, sub->job->attempt))
        ending_add(core, sub, party);
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

static void sub_answer(struct core *core, struct session *session, uint64_t number, uint32_t sub,
                       enum wire_code code, const char *type, const char *message)
{
    struct failure *failure = failure_of_answer(core, session, code, type, message);
    struct msg_subscribed *msg =
        &effects_msg(core->effects, session->control, MSG_SUBSCRIBED)->as.subscribed;
    msg->number = number;
    msg->sub = sub;
    msg->code = code;
    msg->error = failure_span(failure);
    failure_unref(core, failure);
}

bool sub_follow_all(struct core *core, struct sub *sub)
{
    LIST_EACH(link, &sub->job->topic_list) {
        struct topic *topic = LIST_OWNER(link, struct topic, job_link);
        if (!sub_wants(sub, topic->name))
            continue;
        if (!sub_follow(core, sub, topic))
            return false;
        topic_update(core, topic);
    }
    return true;
}

/* The topics of a pattern, and the party that it names, unless they are followed already.  false:
 * no room for all of that. */
static bool follow_pattern(struct core *core, struct sub *sub, struct span pattern)
{
    struct span party;
    LIST_EACH(link, &sub->job->topic_list) {
        struct topic *topic = LIST_OWNER(link, struct topic, job_link);
        if (sub_matches(sub, pattern, topic->name)) {
            if (!sub_follow(core, sub, topic))
                return false;
            topic_update(core, topic);
        }
    }
    return sub_is_place(sub) || !pattern_names_party(pattern, &party) ||
           add_watch(core, sub, party);
}

static bool add_pattern(struct core *core, struct sub *sub, struct span pattern)
{
    return sub_keep_pattern(core, sub, pattern) && follow_pattern(core, sub, pattern);
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
    flow_window_init(&sub->flow, &core->reader_windows, 0, 0);
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
    account_count(party->account, ACCESS_SUBSCRIPTIONS, 1);
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
    flow_window_fini(&sub->flow);
    flow_window_init(&sub->flow, &core->reader_windows, DEFAULT_SUB_WINDOW_BYTES,
                     terms->window_bytes);
    flow_window_restart(&sub->flow, session->trip_ns);
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

/* Whether the name is known, or the party may have one more. */
static bool may_be_named(const struct party *party, struct span name)
{
    uint32_t count = 0;
    if (name.bytes == 0 || find_durable(party, name) != NULL)
        return true;
    LIST_EACH(link, &party->durables)
        count += 1;
    return count < LIMIT_SUBS;
}

/* The members of a group are given any of its values, so each must be allowed them all.  Any other
 * subscription follows those topics alone that its party may read. */
static bool may_subscribe(const struct core *core, const struct party *party, struct span pattern,
                          bool is_shared)
{
    return is_shared ? rights_may_share(core, party, pattern)
                     : rights_may_match(core, party, pattern);
}

/* What is wrong with the request itself, or NULL; out_type is its type. */
static const char *subscribe_complaint(struct core *core, const struct session *session,
                                       const struct msg_subscribe *msg, const char **out_type)
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
    *out_type = ERROR_TYPE_NOT_AUTHORISED;
    if (!may_subscribe(core, session->party, msg->pattern, msg->group.bytes > 0))
        return RIGHTS_DENIED_TEXT;
    *out_type = ERROR_TYPE_FULL;
    if (session->sub_ids.count >= LIMIT_SUBS || !may_be_named(session->party, msg->name))
        return "the party has 4096 subscriptions already";
    *out_type = ERROR_TYPE_QUOTA;
    if (find_durable(session->party, msg->name) == NULL &&
        !account_has_room(session->party->account, ACCESS_SUBSCRIPTIONS, 1))
        return account_refuse(core, session->party->account, ACCESS_SUBSCRIPTIONS);
    return NULL;
}

static void open_durable(struct core *core, struct session *session, struct sub *sub,
                         const struct msg_subscribe *msg, bool is_again)
{
    uint32_t number = (uint32_t)msg->sub;
    struct sub_terms terms = terms_of(msg);
    if (sub->session != NULL)
        sub_answer(core, session, msg->number, number, CODE_EDENIED, ERROR_TYPE_DURABLE_TAKEN,
                   "a live handle has this durable name");
    else if (sub->pattern_count == 0 || !span_equal(sub->patterns[0], msg->pattern))
        sub_answer(core, session, msg->number, number, CODE_EDENIED, ERROR_TYPE_DURABLE_DIFFERS,
                   "the durable name exists with another pattern");
    else if (is_again || !sub_attach(core, session, sub, &terms)) /* refused, or closed since */
        sub_answer(core, session, msg->number, number, CODE_EFULL, ERROR_TYPE_NO_MEMORY,
                   "the broker is short of memory");
    else {
        note_sub_attached(core, sub);
        take_over(core, sub);
        notice_wait_all(core, sub);
        sub_answer(core, session, msg->number, number, CODE_OK, "", "");
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

/* A member follows no topic itself: it receives the values that are leased to it. */
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
        notice_wait_all(core, sub);
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
        sub_answer(
            core, session, msg->number, number, CODE_EDENIED, ERROR_TYPE_GROUP_DIFFERS,
            "the group exists with another pattern, or gives tasks as often as another number "
            "says");
        return;
    }
    if (group == NULL && !is_again)
        group = found_group(core, session, msg);
    if (group == NULL || is_again || !open_share(core, session, group, msg))
        sub_answer(core, session, msg->number, number, CODE_EFULL, ERROR_TYPE_FULL,
                   "the broker has no room for another subscription");
    else
        sub_answer(core, session, msg->number, number, CODE_OK, "", "");
}

void sub_open(struct core *core, struct session *session, const struct msg_subscribe *msg,
              bool is_again)
{
    const char *type;
    uint32_t number = (uint32_t)msg->sub;
    if (sub_find(core, session, number) != NULL) { /* said again: the answer was lost */
        sub_answer(core, session, msg->number, number, CODE_OK, "", "");
        return;
    }
    const char *wrong = subscribe_complaint(core, session, msg, &type);
    if (wrong != NULL) {
        bool is_full = strcmp(type, ERROR_TYPE_FULL) == 0 || strcmp(type, ERROR_TYPE_QUOTA) == 0;
        sub_answer(core, session, msg->number, number, is_full ? CODE_EFULL : CODE_EDENIED, type,
                   wrong);
        return;
    }
    if (msg->group.bytes > 0) {
        open_member(core, session, msg, is_again);
        return;
    }
    struct sub *sub = msg->name.bytes > 0 ? find_durable(session->party, msg->name) : NULL;
    if (sub != NULL && sub->session == NULL && core->access != NULL && !sub_is_allowed(core, sub)) {
        sub_end(core, sub); /* it is made anew, without what may not be read any more */
        sub = NULL;
    }
    if (sub != NULL) {
        open_durable(core, session, sub, msg, is_again);
        return;
    }
    /* The message came before.  If the subscription is not there, it was refused, or is closed: it
     * is not opened now. */
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
        sub_answer(core, session, msg->number, number, CODE_EFULL, ERROR_TYPE_FULL,
                   "the broker has no room for another subscription");
        return;
    }
    sub_answer(core, session, msg->number, number, CODE_OK, "", "");
    sub_ready(core, sub);
    notice_wait_all(core, sub);
}

static bool has_pattern(const struct sub *sub, struct span pattern)
{
    for (uint32_t i = 0; i < sub->pattern_count; i++)
        if (span_equal(sub->patterns[i], pattern))
            return true;
    return false;
}

static void answer_added(struct core *core, struct sub *sub, uint64_t number, bool is_added)
{
    sub_answer(core, sub->session, number, sub->number, is_added ? CODE_OK : CODE_EFULL,
               is_added ? "" : ERROR_TYPE_FULL,
               is_added ? "" : "the subscription has no room for another pattern");
    if (is_added)
        notice_wait_all(core, sub);
}

void sub_add(struct core *core, struct session *session, const struct msg_sub_add *msg)
{
    uint32_t number = (uint32_t)msg->sub;
    struct sub *sub = sub_find(core, session, number);
    if (sub == NULL) { /* refused, as its SUBSCRIBED has said, or closed meanwhile */
        sub_answer(core, session, msg->number, number, CODE_EDENIED, ERROR_TYPE_NOT_OPEN,
                   "there is no such subscription");
        return;
    }
    if (has_pattern(sub, msg->pattern)) { /* said again: perhaps there was no room for all of it */
        answer_added(core, sub, msg->number,
                     sub_is_member(sub) || follow_pattern(core, sub, msg->pattern));
        return;
    }
    if (!pattern_is_valid(msg->pattern))
        sub_answer(core, session, msg->number, number, CODE_EDENIED, ERROR_TYPE_NAME,
                   "the pattern is not well formed");
    else if (!may_subscribe(core, session->party, msg->pattern, false))
        sub_answer(core, session, msg->number, number, CODE_EDENIED, ERROR_TYPE_NOT_AUTHORISED,
                   RIGHTS_DENIED_TEXT);
    else if (sub_is_member(sub))
        sub_answer(core, session, msg->number, number, CODE_EDENIED, ERROR_TYPE_GROUP_DIFFERS,
                   "the pattern of a group is fixed when it is made");
    else
        answer_added(core, sub, msg->number,
                     sub->pattern_count < LIMIT_SUB_PATTERNS &&
                         add_pattern(core, sub, msg->pattern));
}

/* ---- closing --------------------------------------------------------------------------------- */

static void leave_session(struct core *core, struct sub *sub)
{
    if (sub->session != NULL)
        id_map_remove(&sub->session->sub_ids, sub->number);
    sub->session = NULL;
    flow_window_fini(&sub->flow);
    list_remove(&sub->session_link);
    list_remove(&sub->ready_link);
    (void)core;
}

/* Drops the parked acknowledgements of this subscription: its number may be used again soon. */
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
    account_count(sub->party->account, ACCESS_SUBSCRIPTIONS, (uint64_t)-1);
    party_update_bare(sub->party);
    pool_give(&core->subs, sub);
}

void sub_end(struct core *core, struct sub *sub)
{
    if (sub_is_member(sub))
        group_leave(core, sub, NULL); /* said before it is gone */
    note_sub_closed(core, sub);
    sub_free(core, sub);
}

void sub_detach(struct core *core, struct sub *sub)
{
    if (sub->name.bytes == 0) {
        sub_end(core, sub);
        return;
    }
    leave_session(core, sub);
    timers_set(&core->timers, &sub->timer, core_clock(core) + sub->keep_ns);
    note_sub_detached(core, sub);
}

bool sub_is_allowed(const struct core *core, const struct sub *sub)
{
    for (uint32_t i = 0; i < sub->pattern_count; i++)
        if (!may_subscribe(core, sub->party, sub->patterns[i], sub_is_member(sub)))
            return false;
    LIST_EACH(link, &sub->routes)
        if (!rights_may_read(core, sub->party,
                             LIST_OWNER(link, struct route, sub_link)->topic->name))
            return false;
    return true;
}

void sub_review(struct core *core, struct party *party)
{
    if (core->access == NULL)
        return;
    LIST_EACH(link, &party->durables)
        if (!sub_is_allowed(core, LIST_OWNER(link, struct sub, durable_link)))
            sub_end(core, LIST_OWNER(link, struct sub, durable_link));
    if (party->session == NULL)
        return;
    LIST_EACH(link, &party->session->subs)
        if (!sub_is_allowed(core, LIST_OWNER(link, struct sub, session_link)))
            sub_end(core, LIST_OWNER(link, struct sub, session_link));
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

/* ---- what is owed ---------------------------------------------------------------------------- */

bool route_is_unread(const struct route *route)
{
    return route_floor(route) < route->topic->slots.next_seq;
}

/* Whether a durable name has not acknowledged all, or a group has not done all. */
static bool sub_is_owed(const struct sub *sub)
{
    if (sub->name.bytes == 0 || sub->is_expired)
        return false;
    if (sub_is_place(sub))
        return group_undone(sub->group) > 0;
    LIST_EACH(link, &sub->routes)
        if (route_is_unread(LIST_OWNER(link, struct route, sub_link)))
            return true;
    return false;
}

const struct sub *job_find_owed(const struct job *job)
{
    LIST_EACH(link, &job->sub_list)
        if (sub_is_owed(LIST_OWNER(link, struct sub, job_link)))
            return LIST_OWNER(link, struct sub, job_link);
    return NULL;
}
