/* SPDX-License-Identifier: MPL-2.0 */
/* request.c -- requests: a value with a slot for its reply.
 *
 * The reply slot is one of "PARTY/_replies", a topic of the requester.  It is owed, has a deadline,
 * and ends with its party, as any slot.  Only the member that has the lease of the request may
 * settle it (reply_task); the requester may retract it.  When it is settled, nobody works on the
 * request any more.  The member that has it is told (reply_settled), and a request that was not
 * given yet is passed over.
 *
 * A request is not trimmed while its reply slot is open.  A request that no group with a member
 * serves fails after a while (request_look). */
#include "broker/core/groups/request.h"

#include "broker/core/record/failure.h"
#include "broker/core/record/text.h"
#include "broker/core/settling/settle.h"
#include "broker/core/streams/notice.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/reply.h"
#include "broker/core/tables/event.h"

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

/* The slot for the reply to a request that is being written, or NULL. */
static struct open_slot *reply_of(struct core *core, const struct session *session, uint64_t seq)
{
    struct topic *replies = replies_of(core, session->party);
    struct open_slot *reply = replies != NULL ? open_slot_find(core, replies, seq) : NULL;
    return reply != NULL && !open_slot_is_reply(reply) ? reply : NULL; /* else another request's */
}

static void reject_reply(struct core *core, struct session *session, struct open_slot *reply,
                         const char *type, const char *message)
{
    struct failure *failure =
        failure_of_rejection(core, session, type, message, reply->topic, reply->seq);
    settle_open_failed(core, reply, failure);
    failure_unref(core, failure);
}

void request_refused(struct core *core, struct session *session, uint64_t reply_to)
{
    struct open_slot *reply = reply_of(core, session, reply_to);
    if (reply != NULL)
        reject_reply(core, session, reply, ERROR_TYPE_NOT_OPEN, "the request was not accepted");
}

void request_written(struct core *core, struct session *session, struct topic *topic,
                     const struct event_range *range, bool is_kept)
{
    if (topic->is_replies)
        return; /* a reply is no request: it could come to wait for itself */
    if (!is_kept) {
        request_refused(core, session, range->reply_to);
        return;
    }
    struct open_slot *reply = reply_of(core, session, range->reply_to);
    if (reply_link(core, topic, range->seq, reply)) {
        if (reply != NULL)
            reply_arm(core, reply);
    } else if (reply != NULL)
        reject_reply(core, session, reply, ERROR_TYPE_NO_MEMORY, "the broker is short of memory");
}

/* ---- time ------------------------------------------------------------------------------------ */

bool request_look(struct core *core, struct open_slot *reply)
{
    const struct topic *topic = pool_find(&core->topics, reply->terms->request_topic);
    struct topic *replies = reply->topic;
    struct text text;
    if (core_clock(core) >= reply->terms->ends_ns)
        return true;
    if (reply_is_served(core, reply)) {
        reply_arm(core, reply);
        return false;
    }
    if (core_clock(core) < reply->terms->unserved_ns) {
        notice_unserved(core, reply);
        reply_look_at(core, reply, reply->terms->unserved_ns);
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
