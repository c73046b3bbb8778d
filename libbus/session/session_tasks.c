/* SPDX-License-Identifier: MPL-2.0 */
/* session_tasks.c -- tasks of groups and replies to requests: PROTOCOL.md, "Groups", "Requests".
 *
 * TASK must not overtake the reply that it settles.  The field `after` orders it behind frames.
 * Behind an upload it waits here, while other tasks go first. */
#include "libbus/session/session_tasks.h"

#include "libbus/base/pattern.h"
#include "libbus/session/model.h"
#include "libbus/session/session_say.h"
#include "libbus/session/session_write.h"

#include <string.h>

#define REPLIES_LEVEL "/_replies"

/* ---- taking ---------------------------------------------------------------------------------- */

enum wire_code tasks_take(struct session *session, const struct inbox_sub *sub,
                          struct session_item *item)
{
    struct lease *lease = leases_add(&session->leases);
    if (lease == NULL)
        return CODE_ENOMEM;
    lease->sub = sub->number;
    lease->topic = item->topic;
    lease->seq = item->seq;
    lease->delivery = item->delivery;
    lease->reply_to = item->reply_to;
    item->lease = lease->number;
    return CODE_OK;
}

/* It is given back.  If its lease is over, as the broker said, that changes nothing.  Otherwise it
 * is another task of the same name, as a dead letter that was replayed. */
bool tasks_drop_lost(struct session *session, const struct inbox_sub *sub,
                     struct session_item *item)
{
    const struct lease_key key = {
        .sub = sub->number, .topic = item->topic, .seq = item->seq, .delivery = item->delivery};
    if (!leases_was_lost(&session->leases, &key))
        return false;
    if (tasks_take(session, sub, item) == CODE_OK)
        session_task_end(session, item->lease, SESSION_TASK_RETURNED, 0, SPAN_NONE);
    buffer_unref(&item->buffer);
    return true;
}

void tasks_over_in(struct session *session, const struct msg_task_over *over)
{
    const struct lease_key key = {.sub = (uint32_t)over->sub,
                                  .topic = (uint32_t)over->topic,
                                  .seq = over->seq,
                                  .delivery = (uint8_t)over->delivery};
    const struct inbox_sub *sub = inbox_sub_find(&session->inbox, key.sub);
    struct lease *lease = leases_find_task(&session->leases, &key);
    if (lease == NULL && sub != NULL && !sub->is_closing)
        leases_lose(&session->leases, &key); /* the task is not handed out yet */
    if (lease == NULL || lease->is_over)
        return;
    lease->is_over = true;
    lease->why = over->error.bytes > 0 ? buffer_copy(over->error) : NULL;
    session->news.is_result = true;
}

bool session_task_is_over(const struct session *session, uint64_t number, struct buffer **out_why)
{
    const struct lease *lease = leases_find(&session->leases, number);
    if (lease != NULL && !lease->is_over)
        return false;
    if (out_why != NULL)
        *out_why = lease != NULL && lease->why != NULL ? buffer_ref(lease->why) : NULL;
    return true;
}

/* ---- settling -------------------------------------------------------------------------------- */

void session_task_end(struct session *session, uint64_t number, enum session_task_how how,
                      int64_t retry_after_ms, struct span error)
{
    struct lease *lease = leases_find(&session->leases, number);
    if (lease == NULL)
        return;
    leases_settle(&session->leases, lease, (enum lease_end)how, retry_after_ms, error,
                  session_uploads_under_way(session));
    session->is_task_due = true;
}

static bool say_task(struct session *session, struct lease *lease, uint64_t after_upload)
{
    struct msg msg = {
        .type = MSG_TASK,
        .as.task = {.number = session->controls.last + 1,
                    .after = session->outbox.last,
                    .sub = lease->sub,
                    .topic = lease->topic,
                    .seq = lease->seq,
                    .delivery = lease->delivery,
                    .how = (uint64_t)lease->end,
                    .retry_after_ms = lease->retry_after_ms,
                    .error = lease->error != NULL ? buffer_span(lease->error) : SPAN_NONE},
    };
    if (session_say(session, &msg, after_upload) != CODE_OK)
        return false;
    leases_said(&session->leases, lease, session->controls.last);
    return true;
}

void tasks_say(struct session *session)
{
    bool is_done = true;
    if (!session->is_task_due)
        return;
    LIST_EACH(link, &session->leases.due) {
        struct lease *lease = LIST_OWNER(link, struct lease, link);
        if (!uploads_reached(&session->uploads, lease->after_upload))
            continue; /* tasks_say() comes again when it is */
        is_done = is_done && say_task(session, lease, 0);
    }
    session->is_task_due = !is_done;
}

bool tasks_say_of(struct session *session, uint32_t sub)
{
    LIST_EACH(link, &session->leases.due) {
        struct lease *lease = LIST_OWNER(link, struct lease, link);
        if (lease->sub != sub)
            continue;
        if (!uploads_reached(&session->uploads, lease->after_upload) ||
            !say_task(session, lease, 0))
            return false;
    }
    return true;
}

bool tasks_say_all(struct session *session, uint64_t after_upload)
{
    LIST_EACH(link, &session->leases.due)
        if (!say_task(session, LIST_OWNER(link, struct lease, link), after_upload))
            return false;
    return true;
}

bool tasks_message(struct session *session, struct msg *out)
{
    const struct lease *lease;
    while ((lease = pool_next(&session->leases.pool, session->lease_at)) != NULL) {
        session->lease_at = lease->id;
        if (lease->is_over)
            continue;
        out->type = MSG_POSITION;
        out->as.position = (struct msg_position){.sub = lease->sub,
                                                 .topic = lease->topic,
                                                 .next_seq = lease->seq,
                                                 .chunk_offset = lease->delivery};
        return true;
    }
    return false;
}

/* ---- replies --------------------------------------------------------------------------------- */

/* The topic that the task's replies are written to, as one of ours. */
static enum wire_code replies_of(struct session *session, const struct lease *lease,
                                 struct own_topic **out_topic)
{
    char name[LIMIT_NAME_BYTES + sizeof REPLIES_LEVEL];
    const struct known_topic *known = known_topics_find(&session->known, lease->topic);
    struct span party = topic_party(known->name);
    struct known_topic *replies;
    memcpy(name, party.data, party.bytes);
    memcpy(name + party.bytes, REPLIES_LEVEL, sizeof REPLIES_LEVEL - 1);
    struct span whole = span_of(name, party.bytes + sizeof REPLIES_LEVEL - 1);
    enum wire_code code = known_topics_open(&session->known, whole, &replies);
    if (code != CODE_OK)
        return code;
    if (replies->number == 0)
        return CODE_EINVAL; /* the broker names it before it sends the first request */
    code = own_topics_open(&session->own, whole, out_topic);
    if (code == CODE_OK && (*out_topic)->state != OWN_TOPIC_OPEN) {
        code = own_topics_number(&session->own, *out_topic, replies->number);
        list_remove(&(*out_topic)->ask);
        if (code == CODE_OK)
            (*out_topic)->state = OWN_TOPIC_OPEN;
    }
    return code;
}

enum wire_code session_task_reply(struct session *session, int64_t now_ns, uint64_t number,
                                  struct span value, struct buffer *owned)
{
    session_see_time(session, now_ns);
    struct lease *lease = leases_find(&session->leases, number);
    struct own_topic *topic;
    if (session->once.code != CODE_OK)
        return session->once.code;
    if (lease == NULL)
        return CODE_ECLOSED;
    if (lease->reply_to == FRAME_NO_REPLY)
        return CODE_EINVAL;
    if (lease->is_over)
        return CODE_ESETTLED;
    enum wire_code code = replies_of(session, lease, &topic);
    if (code == CODE_OK)
        code = session_commit_foreign(session, topic, lease->reply_to, value, owned);
    if (code == CODE_OK)
        session_task_end(session, number, SESSION_TASK_DONE, 0, SPAN_NONE);
    return code;
}
