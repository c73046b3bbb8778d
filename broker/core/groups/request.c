/* SPDX-License-Identifier: MPL-2.0 */
/* request.c -- requests: a value with a slot for its reply.
 *
 * The slot is one of "party/_replies", which belongs to the requester as any slot of its own: it is
 * owed, has a deadline, and ends with its party.  Only, its value or error comes from whoever the
 * request is leased to (request_task), and from nobody else; the requester may take it back.  So
 * however it is settled, it is settled once, and then nobody works on it any more: whoever has the
 * request is told (request_settled), and who has not been given it is not (pass_over).
 *
 * A request holds its slot as a subscription would: it is not trimmed while its reply is open.  One
 * that no group with a member serves fails after a while (request_look). */
#include "broker/core/groups/request.h"

#include "broker/core/groups/group.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/text.h"
#include "broker/core/settling/settle.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/sub.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/event.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/timers.h"

/* ---- linking --------------------------------------------------------------------------------- */

bool request_link(struct core *core, struct topic *topic, uint64_t seq, struct open_slot *reply)
{
    struct slot_terms *terms = reply != NULL ? open_slot_terms(core, reply) : NULL;
    if ((reply != NULL && terms == NULL) ||
        !id_map_put(&topic->request_ids, seq, reply != NULL ? reply->id : 0))
        return false;
    if (reply != NULL) {
        terms->request_topic = topic->id;
        terms->request_seq = seq;
        list_push(&topic->requests, &terms->request_link);
    }
    note_requested(core, topic, seq, reply);
    return true;
}

void request_unlink(struct core *core, struct open_slot *reply)
{
    struct slot_terms *terms = reply->terms;
    struct topic *topic = pool_find(&core->topics, terms->request_topic);
    list_remove(&terms->request_link);
    terms->request_topic = 0;
    if (topic == NULL)
        return;
    id_map_remove(&topic->request_ids, terms->request_seq);
    bool is_put = id_map_put(&topic->request_ids, terms->request_seq, 0);
    must(is_put); /* in the room that it had */
}

struct open_slot *request_reply(const struct core *core, const struct topic *topic, uint64_t seq,
                                bool *out_is_request)
{
    uint32_t id = 0;
    *out_is_request = id_map_get(&topic->request_ids, seq, &id);
    return id != 0 ? pool_find(&core->open_slots, id) : NULL;
}

void request_forget(struct core *core, struct topic *topic, const struct slot_entry *entry)
{
    bool is_request;
    for (uint32_t i = 0; i < entry->count && topic->request_ids.count > 0; i++) {
        struct open_slot *reply = request_reply(core, topic, entry->first_seq + i, &is_request);
        if (reply != NULL)
            request_unlink(core, reply);
        id_map_remove(&topic->request_ids, entry->first_seq + i);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static struct topic *replies_of(const struct core *core, const struct party *party)
{
    LIST_EACH(link, &party->topics) {
        struct topic *topic = LIST_OWNER(link, struct topic, party_link);
        if (topic->is_replies)
            return topic;
    }
    (void)core; /* it hangs on the party */
    return NULL;
}

static void reject_reply(struct core *core, struct session *session, struct open_slot *reply,
                         const char *type, const char *message)
{
    struct failure *failure = failure_make(core, &(struct failure_spec){.job = session->job,
                                                                        .party = session->party,
                                                                        .kind = ERROR_REJECTED,
                                                                        .type = type,
                                                                        .message = message,
                                                                        .topic = reply->topic,
                                                                        .seq = reply->seq});
    settle_open_failed(core, reply, failure);
    failure_unref(core, failure);
}

void request_written(struct core *core, struct session *session, struct topic *topic,
                     const struct event_run *run, bool is_kept)
{
    if (topic->is_replies)
        return; /* a reply is no request: it could come to wait for itself */
    struct topic *replies = replies_of(core, session->party);
    struct open_slot *reply = replies != NULL ? open_slot_find(core, replies, run->reply_to) : NULL;
    if (reply != NULL && open_slot_is_reply(reply))
        reply = NULL; /* it is another request's */
    if (!is_kept && reply != NULL)
        reject_reply(core, session, reply, ERROR_TYPE_NOT_OPEN, "the request was not accepted");
    if (!is_kept)
        return;
    if (request_link(core, topic, run->seq, reply)) {
        if (reply != NULL)
            request_arm(core, reply);
    } else if (reply != NULL)
        reject_reply(core, session, reply, ERROR_TYPE_NO_MEMORY, "the broker is short of memory");
}

/* ---- settling -------------------------------------------------------------------------------- */

void request_settled(struct core *core, struct open_slot *reply, struct failure *failure)
{
    struct topic *topic = pool_find(&core->topics, reply->terms->request_topic);
    uint64_t seq = reply->terms->request_seq;
    request_unlink(core, reply);
    if (core->is_replaying)
        return; /* what followed is told by facts of its own */
    LIST_EACH(link, &topic->routes) {
        struct route *route = LIST_OWNER(link, struct route, topic_link);
        uint32_t id;
        if (sub_is_place(route->sub) && id_map_get(&route->task_ids, seq, &id))
            task_cancel(core, pool_find(&core->tasks, id), failure);
        if (sub_is_place(route->sub))
            route_ready(core, route); /* it may be the next, and to be passed over */
    }
    topic_update(core, topic);
}

struct task *request_task(const struct core *core, const struct session *session,
                          const struct open_slot *reply)
{
    const struct slot_terms *terms = reply->terms;
    struct topic *topic = terms != NULL ? pool_find(&core->topics, terms->request_topic) : NULL;
    if (topic == NULL)
        return NULL;
    LIST_EACH(link, &topic->routes) {
        struct route *route = LIST_OWNER(link, struct route, topic_link);
        uint32_t id;
        if (!sub_is_place(route->sub) || !id_map_get(&route->task_ids, terms->request_seq, &id))
            continue;
        struct task *task = pool_find(&core->tasks, id);
        if (task->holder != NULL && task->holder->session == session)
            return task;
    }
    return NULL;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Whether somebody works on it, or a group with a member that may be given it has it, or will come
 * to it: one that began behind it never will. */
static bool is_served(const struct core *core, const struct open_slot *reply)
{
    const struct topic *topic = pool_find(&core->topics, reply->terms->request_topic);
    LIST_EACH(link, &topic->routes) {
        const struct route *route = LIST_OWNER(link, struct route, topic_link);
        const struct task *task = NULL;
        uint64_t seq = reply->terms->request_seq;
        uint32_t id;
        if (!sub_is_place(route->sub))
            continue;
        if (id_map_get(&route->task_ids, seq, &id))
            task = pool_find(&core->tasks, id);
        if ((route->sub->group->taker_count > 0 && (task != NULL || seq >= route->next_seq)) ||
            (task != NULL && task->holder != NULL))
            return true;
    }
    return false;
}

/* While it is served its deadline alone counts: ten thousand that wait cost nothing meanwhile. */
void request_arm(struct core *core, struct open_slot *reply)
{
    struct slot_terms *terms = reply->terms;
    int64_t due_ns = core_clock(core) + core->options.unserved_ms * MS_NS;
    bool is_armed = terms->timer.place != 0 && terms->timer.due_ns < due_ns;
    if (due_ns > terms->ends_ns || is_served(core, reply))
        due_ns = terms->ends_ns;
    else if (is_armed)
        return; /* whoever comes and goes besides, it is not served since then */
    if (due_ns == INT64_MAX)
        timers_clear(&core->timers, &terms->timer);
    else
        timers_set(&core->timers, &terms->timer, due_ns);
}

void request_arm_all(struct core *core, struct topic *topic)
{
    LIST_EACH(link, &topic->requests)
        request_arm(core, LIST_OWNER(link, struct slot_terms, request_link)->open);
}

bool request_look(struct core *core, struct open_slot *reply)
{
    const struct topic *topic = pool_find(&core->topics, reply->terms->request_topic);
    struct topic *replies = reply->topic;
    struct text text;
    if (core_clock(core) >= reply->terms->ends_ns)
        return true;
    if (is_served(core, reply)) {
        request_arm(core, reply);
        return false;
    }
    text_init(&text);
    text_add(&text, "no group with a member takes the request ");
    text_add_span(&text, topic->name);
    text_add(&text, "#");
    text_add_number(&text, reply->terms->request_seq);
    text_add(&text, " within ");
    text_add_number(&text, (uint64_t)core->options.unserved_ms);
    text_add(&text, " ms");
    struct failure *failure = failure_make(core, &(struct failure_spec){.job = replies->job,
                                                                        .party = replies->writer,
                                                                        .kind = ERROR_REJECTED,
                                                                        .type = ERROR_TYPE_UNSERVED,
                                                                        .message = text.data,
                                                                        .topic = replies,
                                                                        .seq = reply->seq});
    settle_open_failed(core, reply, failure);
    failure_unref(core, failure);
    return false;
}
