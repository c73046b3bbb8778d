/* SPDX-License-Identifier: MPL-2.0 */
/* msg.c -- received values. */
#include "libbus/api/msg.h"

#include "libbus/api/fork.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/api/sub_list.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

struct bus_msg *msg_new(const char *topic, struct session_item *item)
{
    size_t name_bytes = strlen(topic) + 1;
    struct bus_msg *msg = malloc(sizeof *msg + name_bytes);
    if (msg == NULL)
        return NULL;
    memcpy(msg + 1, topic, name_bytes);
    *msg = (struct bus_msg){
        .buffer = item->buffer,
        .value = item->value,
        .topic = (const char *)(msg + 1),
        .seq = item->seq,
        .stamp_ns = item->stamp_ns,
        .origin = item->origin,
        .delivery = item->delivery,
    };
    item->buffer = NULL;
    return msg;
}

/* For calls that read: NULL reads as a message of nothing. */
static const struct bus_msg *msg_or_none(const struct bus_msg *msg)
{
    static const struct bus_msg none = {.topic = ""};
    return msg != NULL ? msg : &none;
}

const char *bus_msg_topic(const struct bus_msg *msg)
{
    return msg_or_none(msg)->topic;
}

uint64_t bus_msg_seq(const struct bus_msg *msg)
{
    return msg_or_none(msg)->seq;
}

const void *bus_msg_value(const struct bus_msg *msg, size_t *out_bytes)
{
    alignas(8) static const unsigned char no_bytes[8] = {0};
    struct span value = msg_or_none(msg)->value;
    if (out_bytes != NULL)
        *out_bytes = value.bytes;
    return value.bytes > 0 ? value.data : no_bytes;
}

size_t bus_msg_count(const struct bus_msg *msg, size_t *out_stride)
{
    if (out_stride != NULL)
        *out_stride = frame_padded(msg_or_none(msg)->value.bytes);
    if (msg == NULL)
        return 0;
    return msg->count > 1 ? (size_t)msg->count : 1;
}

int bus_msg_piece(const struct bus_msg *msg, uint64_t *out_offset, uint64_t *out_total_bytes)
{
    const struct bus_msg *read = msg_or_none(msg);
    uint64_t total_bytes = read->total_bytes > 0 ? read->total_bytes : read->value.bytes;
    if (out_offset != NULL)
        *out_offset = read->offset;
    if (out_total_bytes != NULL)
        *out_total_bytes = total_bytes;
    return msg != NULL && msg->offset + msg->value.bytes == total_bytes;
}

unsigned bus_msg_delivery(const struct bus_msg *msg)
{
    if (msg == NULL)
        return 0;
    return msg->delivery > 0 ? msg->delivery : 1;
}

uint32_t bus_msg_incarnation(const struct bus_msg *msg, uint64_t *out_later_seq)
{
    const struct frame_origin *origin = &msg_or_none(msg)->origin;
    if (out_later_seq != NULL)
        *out_later_seq = origin->later_seq;
    return origin->incarnation;
}

struct bus_msg *bus_msg_dup(const struct bus_msg *msg)
{
    if (msg == NULL)
        return NULL;
    size_t name_bytes = strlen(msg->topic) + 1;
    struct bus_msg *dup = malloc(sizeof *dup + name_bytes);
    if (dup == NULL)
        return NULL;
    *dup = *msg;
    memcpy(dup + 1, msg->topic, name_bytes);
    dup->topic = (const char *)(dup + 1);
    dup->sub = NULL;
    dup->next = NULL;
    dup->lease = 0;
    dup->is_request = false;
    if (dup->buffer != NULL)
        buffer_ref(dup->buffer);
    return dup;
}

static void finish(struct bus_msg **msg, enum msg_done done)
{
    if (msg == NULL || *msg == NULL)
        return;
    struct bus_msg *finished = *msg;
    *msg = NULL;
    if (finished->sub != NULL) {
        finished->done = (uint8_t)(finished->is_acknowledged ? MSG_SETTLED : done);
        sub_give_back(finished);
        return;
    }
    buffer_unref(&finished->buffer);
    free(finished);
}

void msg_settled(struct bus_msg **msg)
{
    finish(msg, MSG_SETTLED);
}

void bus_msg_free(struct bus_msg **msg)
{
    finish(msg, MSG_ACKNOWLEDGED);
}

void bus_msg_return(struct bus_msg **msg)
{
    finish(msg, MSG_RETURNED);
}

void bus_msg_ack(struct bus_msg *msg)
{
    if (msg == NULL || msg->sub == NULL || msg->is_acknowledged)
        return;
    struct bus *bus = sub_bus(msg->sub);
    if (api_is_foreign(bus))
        return;
    api_lock(bus);
    sub_ack_kept(msg);
    api_unlock_wake(bus);
}
