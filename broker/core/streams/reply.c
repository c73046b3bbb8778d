/* SPDX-License-Identifier: MPL-2.0 */
/* reply.c -- the slot for the reply of a request, and how the two find each other.
 *
 * The topic of the request has the id of the reply slot, by the number of the request.  The reply
 * slot has the request in its terms.  When the reply is settled the number stays, with the id 0:
 * the slot was a request. */
#include "broker/core/streams/reply.h"

#include "broker/core/record/note.h"
#include "broker/core/streams/lease.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/sub.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/timers.h"

bool reply_link(struct core *core, struct topic *topic, uint64_t seq, struct open_slot *reply)
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

void reply_unlink(struct core *core, struct open_slot *reply)
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

struct open_slot *reply_find(const struct core *core, const struct topic *topic, uint64_t seq,
                             bool *out_is_request)
{
    uint32_t id = 0;
    *out_is_request = id_map_get(&topic->request_ids, seq, &id);
    return id != 0 ? pool_find(&core->open_slots, id) : NULL;
}

void reply_forget(struct core *core, struct topic *topic, const struct slot_entry *entry)
{
    bool is_request;
    for (uint32_t i = 0; i < entry->count && topic->request_ids.count > 0; i++) {
        struct open_slot *reply = reply_find(core, topic, entry->first_seq + i, &is_request);
        if (reply != NULL)
            reply_unlink(core, reply);
        id_map_remove(&topic->request_ids, entry->first_seq + i);
    }
}

void reply_settled(struct core *core, struct open_slot *reply, struct failure *failure)
{
    struct topic *topic = pool_find(&core->topics, reply->terms->request_topic);
    uint64_t seq = reply->terms->request_seq;
    reply_unlink(core, reply);
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

struct task *reply_task(const struct core *core, const struct session *session,
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

bool reply_is_served(const struct core *core, const struct open_slot *reply)
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

void reply_look_at(struct core *core, struct open_slot *reply, int64_t due_ns)
{
    struct slot_terms *terms = reply->terms;
    if (terms->is_unserved && due_ns > terms->unserved_ns)
        due_ns = terms->unserved_ns;
    if (due_ns > terms->ends_ns)
        due_ns = terms->ends_ns;
    if (due_ns == INT64_MAX)
        timers_clear(&core->timers, &terms->timer);
    else
        timers_set(&core->timers, &terms->timer, due_ns);
}

/* While a member serves it only its deadline counts: ten thousand waiting replies cost nothing. */
void reply_arm(struct core *core, struct open_slot *reply)
{
    struct slot_terms *terms = reply->terms;
    bool was_unserved = terms->is_unserved;
    terms->is_unserved = !reply_is_served(core, reply);
    if (!terms->is_unserved)
        reply_look_at(core, reply, terms->ends_ns);
    else if (!was_unserved) { /* whoever comes and goes since then, its time goes on */
        terms->unserved_ns = core_clock(core) + core->options.unserved_ms * MS_NS;
        reply_look_at(core, reply, core_clock(core) + LIMIT_NOTICE_MS * MS_NS);
    }
}

void reply_arm_all(struct core *core, struct topic *topic)
{
    LIST_EACH(link, &topic->requests)
        reply_arm(core, LIST_OWNER(link, struct slot_terms, request_link)->open);
}
