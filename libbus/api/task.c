/* SPDX-License-Identifier: MPL-2.0 */
/* task.c -- requests, and how members of groups settle their tasks. */
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/fork.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/api/msg.h"
#include "libbus/api/publish.h"
#include "libbus/api/sub_list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- requests -------------------------------------------------------------------------------- */

/* Lock held. */
static enum bus_err request(struct bus *bus, const char *topic, struct span value,
                            struct buffer *owned, int64_t deadline_ms, uint64_t *out_seq)
{
    uint32_t number = 0;
    uint32_t replies = 0;
    struct publish_patience patience = {0};
    enum bus_err err = api_over(bus);
    if (err == BUS_OK)
        err = publish_topic(bus, topic, &number);
    if (err == BUS_OK)
        err = publish_topic(bus, bus->replies, &replies);
    while (err == BUS_OK) {
        enum wire_code code = session_request(bus->session, api_stamp_ns(bus), number, replies,
                                              value, owned, deadline_ms, out_seq);
        if (code != CODE_ETIMEDOUT)
            return (enum bus_err)code;
        err = publish_wait(bus, number, &patience);
    }
    return err;
}

/* Lock held. */
static enum bus_err say_not_requested(struct bus *bus, enum bus_err err, const char *topic,
                                      size_t value_bytes)
{
    char whole[LIMIT_NAME_BYTES + 1];
    if (err == BUS_EINVAL && publish_whole_name(bus, topic, whole) == BUS_OK &&
        strcmp(whole, bus->replies) == 0)
        return error_say(NULL, err, ERROR_TYPE_NAME,
                         "'%.250s' has the replies to the requests of %s: a request needs another "
                         "topic",
                         topic, bus->party);
    return publish_say(bus, err, topic, value_bytes, NULL);
}

enum bus_err bus_request(struct bus *bus, const char *topic, const void *value, size_t value_bytes,
                         int64_t deadline_ms, uint64_t *out_seq)
{
    struct buffer *copy = NULL;
    const struct span one = span_of(value, value_bytes);
    if (bus == NULL || topic == NULL || out_seq == NULL || (value == NULL && value_bytes > 0))
        return error_say_code(BUS_EINVAL, __func__);
    if (deadline_ms != BUS_FOREVER && (deadline_ms <= 0 || deadline_ms > LIMIT_PERIOD_MS_MAX))
        return error_say_code(BUS_EINVAL, __func__);
    if (api_is_foreign(bus))
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    if (value_bytes > API_COPY_BYTES && value_bytes <= LIMIT_VALUE_BYTES &&
        (copy = buffer_copy(one)) == NULL)
        return error_say_code(BUS_ENOMEM, __func__);
    api_lock(bus);
    enum bus_err err =
        request(bus, topic, copy != NULL ? buffer_span(copy) : one, copy, deadline_ms, out_seq);
    (void)say_not_requested(bus, err, topic, value_bytes);
    api_unlock_wake(bus);
    buffer_unref(&copy);
    return err;
}

const char *bus_replies(const struct bus *bus)
{
    return bus != NULL ? bus->replies : "";
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* The bus of a task that its member may still settle, or NULL. */
static struct bus *bus_of(const struct bus_msg *msg)
{
    struct bus *bus = msg->sub != NULL && msg->lease != 0 ? sub_bus(msg->sub) : NULL;
    return bus != NULL && !api_is_foreign(bus) ? bus : NULL;
}

/* Settles the task, and frees the message. */
static void end(struct bus_msg **msg, enum session_task_how how, int64_t retry_after_ms,
                const struct bus_error *error)
{
    struct bus *bus = bus_of(*msg);
    if (bus == NULL || (*msg)->is_acknowledged) {
        bus_msg_return(msg);
        return;
    }
    api_lock(bus);
    if (bus->session != NULL) {
        struct span encoded = SPAN_NONE;
        if (error != NULL || how == SESSION_TASK_FAILED)
            encoded = error_to_wire(bus, error, ERROR_TYPE_ABANDONED, (*msg)->topic, (*msg)->seq);
        session_task_end(bus->session, (*msg)->lease, how, retry_after_ms, encoded);
    }
    api_unlock_wake(bus);
    msg_settled(msg);
}

void bus_msg_reject(struct bus_msg **msg, const struct bus_error *why, int64_t retry_after_ms)
{
    if (msg == NULL || *msg == NULL)
        return;
    if (retry_after_ms > LIMIT_PERIOD_MS_MAX)
        retry_after_ms = LIMIT_PERIOD_MS_MAX;
    end(msg, SESSION_TASK_REJECTED, retry_after_ms < 0 ? -1 : retry_after_ms, why);
}

void bus_msg_fail(struct bus_msg **msg, const struct bus_error *error)
{
    if (msg != NULL && *msg != NULL)
        end(msg, SESSION_TASK_FAILED, -1, error);
}

/* Lock held. */
static enum bus_err reply(struct bus *bus, const struct bus_msg *msg, struct span value,
                          struct buffer *owned)
{
    struct publish_patience patience = {0};
    enum bus_err err = api_ended(bus);
    while (err == BUS_OK) {
        enum wire_code code =
            session_task_reply(bus->session, api_stamp_ns(bus), msg->lease, value, owned);
        if (code != CODE_ETIMEDOUT)
            return (enum bus_err)code;
        /* Requests may be answered after bus_stop() too, but then nothing waits. */
        err = publish_wait(bus, 0, &patience);
        if (err == BUS_ECLOSED && api_ended(bus) == BUS_OK)
            err = BUS_EFULL;
    }
    return err;
}

/* Whether another try can help: then the message stays with the caller. */
static bool is_kept_after(enum bus_err err)
{
    return err == BUS_EINVAL || err == BUS_ENOMEM || err == BUS_ETIMEDOUT || err == BUS_EFULL ||
           err == BUS_ETOOBIG;
}

/* Lock held. */
static enum bus_err say_not_replied(struct bus *bus, enum bus_err err, const struct bus_msg *msg,
                                    size_t value_bytes)
{
    if (err == BUS_ESETTLED)
        return error_say(NULL, err, ERROR_TYPE_LEASE_OVER,
                         "nobody waits any more for the reply to %s#%" PRIu64
                         ": bus_msg_is_over() says why",
                         msg->topic, msg->seq);
    if (err == BUS_EINVAL)
        return error_say(NULL, err, ERROR_TYPE_ARGUMENT, "%s#%" PRIu64 " is not a request",
                         msg->topic, msg->seq);
    return publish_say(bus, err, bus->replies, value_bytes, NULL);
}

enum bus_err bus_msg_reply(struct bus_msg **msg, const void *value, size_t value_bytes)
{
    struct buffer *copy = NULL;
    const struct span one = span_of(value, value_bytes);
    if (msg == NULL || *msg == NULL || (value == NULL && value_bytes > 0))
        return error_say_code(BUS_EINVAL, __func__);
    if ((*msg)->lease == 0)
        return error_say_code(BUS_EINVAL, __func__);
    struct bus *bus = bus_of(*msg);
    if (bus == NULL) {
        bus_msg_free(msg);
        return error_say_code(BUS_ECLOSED, __func__);
    }
    if (value_bytes > LIMIT_VALUE_BYTES)
        return error_say_code(BUS_ETOOBIG, __func__);
    if (value_bytes > API_COPY_BYTES && (copy = buffer_copy(one)) == NULL)
        return error_say_code(BUS_ENOMEM, __func__);
    api_lock(bus);
    enum bus_err err = (*msg)->is_acknowledged
                           ? BUS_ESETTLED
                           : reply(bus, *msg, copy != NULL ? buffer_span(copy) : one, copy);
    bool is_over = err == BUS_ESETTLED || api_ended(bus) != BUS_OK;
    (void)say_not_replied(bus, err, *msg, value_bytes);
    api_unlock_wake(bus);
    buffer_unref(&copy);
    if (err == BUS_OK)
        msg_settled(msg);
    else if (is_over && !is_kept_after(err))
        bus_msg_free(msg); /* its lease is over: this only frees it */
    else if (!is_kept_after(err))
        bus_msg_return(msg); /* another member may answer */
    return err;
}

int bus_msg_is_request(const struct bus_msg *msg)
{
    return msg != NULL && msg->is_request;
}

int bus_msg_is_over(const struct bus_msg *msg, struct bus_error **out_why)
{
    struct buffer *why = NULL;
    if (msg == NULL)
        return 0;
    struct bus *bus = bus_of(msg);
    bool is_over = msg->lease != 0 && !msg->is_acknowledged;
    if (is_over && bus != NULL) {
        api_lock(bus);
        is_over = bus->session == NULL || session_task_is_over(bus->session, msg->lease, &why);
        api_unlock(bus);
    }
    if (is_over && out_why != NULL)
        *out_why = why != NULL ? error_from_wire(buffer_span(why)) : NULL;
    buffer_unref(&why);
    return is_over;
}
