/* SPDX-License-Identifier: MPL-2.0 */
/* effect.c -- the list of what is to be done. */
#include "broker/core/tables/effect.h"

#include "libbus/base/must.h"

/* Gives back memory that the snapshot of a large state took.  Memory that steps take is kept. */
enum { FACT_ROOM_KEPT = 512 * 1024, ITEM_ROOM_KEPT = 32768 };

void effects_init(struct effects *effects, struct memory *memory)
{
    *effects = (struct effects){.memory = memory};
}

void effects_fini(struct effects *effects)
{
    memory_give(effects->memory, effects->items, effects->room * sizeof *effects->items);
    memory_give(effects->memory, effects->msgs, effects->msg_room * sizeof *effects->msgs);
    memory_give(effects->memory, effects->frames, effects->frame_room * sizeof *effects->frames);
    memory_give(effects->memory, effects->logs, effects->log_room * sizeof *effects->logs);
    memory_give(effects->memory, effects->fact_bytes, effects->fact_room);
    effects_init(effects, effects->memory);
}

void effects_clear(struct effects *effects)
{
    effects->count = 0;
    effects->msg_count = 0;
    effects->frame_count = 0;
    effects->log_count = 0;
    effects->fact_used = 0;
    if (effects->fact_room > FACT_ROOM_KEPT) {
        memory_give(effects->memory, effects->fact_bytes, effects->fact_room);
        effects->fact_bytes = NULL;
        effects->fact_room = 0;
    }
    if (effects->room > ITEM_ROOM_KEPT) {
        memory_give(effects->memory, effects->items, effects->room * sizeof *effects->items);
        effects->items = NULL;
        effects->room = 0;
    }
}

/* Room for one more of item_bytes each. */
static void *effects_grow(struct effects *effects, void *items, uint32_t *room, uint32_t count,
                          size_t item_bytes)
{
    if (count < *room)
        return items;
    uint32_t more = *room ? *room * 2 : 64;
    must(more > *room);
    void *grown = memory_resize(effects->memory, items, *room * item_bytes, more * item_bytes);
    must(grown != NULL);
    *room = more;
    return grown;
}

static struct effect *append(struct effects *effects, enum effect_type type, conn_id conn)
{
    effects->items = effects_grow(effects, effects->items, &effects->room, effects->count,
                                  sizeof *effects->items);
    struct effect *effect = &effects->items[effects->count++];
    *effect = (struct effect){.type = type, .conn = conn};
    return effect;
}

struct msg *effects_msg(struct effects *effects, conn_id conn, enum msg_type type)
{
    effects->msgs = effects_grow(effects, effects->msgs, &effects->msg_room, effects->msg_count,
                                 sizeof *effects->msgs);
    append(effects, EFFECT_SEND_MSG, conn)->index = effects->msg_count;
    struct msg *msg = &effects->msgs[effects->msg_count++];
    *msg = (struct msg){.type = type};
    return msg;
}

void effects_job_done(struct effects *effects, conn_id conn, uint64_t request, enum wire_code code,
                      const char *type, const char *message)
{
    struct msg *msg = effects_msg(effects, conn, MSG_JOB_DONE);
    msg->as.job_done.request = request;
    msg->as.job_done.code = code;
    msg->as.job_done.type = span_text(type);
    msg->as.job_done.message = span_text(message);
}

struct effect_frame *effects_frame(struct effects *effects, conn_id conn, uint32_t sub,
                                   enum frame_kind kind)
{
    effects->frames = effects_grow(effects, effects->frames, &effects->frame_room,
                                   effects->frame_count, sizeof *effects->frames);
    struct effect *effect = append(effects, EFFECT_SEND_FRAME, conn);
    effect->index = effects->frame_count;
    effect->sub = sub;
    struct effect_frame *made = &effects->frames[effects->frame_count++];
    *made = (struct effect_frame){
        .frame = {.flags = (uint16_t)kind, .delivery = 1, .reply_to = FRAME_NO_REPLY}};
    return made;
}

struct effect *effects_range(struct effects *effects, conn_id conn, uint32_t sub,
                             payload_id payload)
{
    struct effect *effect = append(effects, EFFECT_SEND_RANGE, conn);
    effect->sub = sub;
    effect->payload = payload;
    return effect;
}

struct effect *effects_part(struct effects *effects, conn_id conn, uint32_t sub, payload_id payload)
{
    struct effect *effect = effects_range(effects, conn, sub, payload);
    effect->type = EFFECT_SEND_PART;
    return effect;
}

struct effect *effects_task(struct effects *effects, conn_id conn, uint32_t sub, payload_id payload)
{
    (void)effects_frame(effects, conn, sub, FRAME_VALUE);
    struct effect *effect = &effects->items[effects->count - 1];
    effect->type = EFFECT_SEND_TASK;
    effect->payload = payload;
    return effect;
}

void effects_retain(struct effects *effects, payload_id payload, uint32_t count)
{
    struct effect *effect = append(effects, EFFECT_RETAIN, 0);
    effect->payload = payload;
    effect->count = count;
}

void effects_release(struct effects *effects, payload_id payload, uint32_t count)
{
    struct effect *effect = append(effects, EFFECT_RELEASE, 0);
    effect->payload = payload;
    effect->count = count;
}

void effects_drop(struct effects *effects, conn_id conn)
{
    append(effects, EFFECT_DROP, conn);
}

void effects_reload(struct effects *effects, conn_id conn)
{
    append(effects, EFFECT_RELOAD, conn);
}

struct effect_log *effects_log(struct effects *effects, conn_id conn)
{
    effects->logs = effects_grow(effects, effects->logs, &effects->log_room, effects->log_count,
                                 sizeof *effects->logs);
    append(effects, EFFECT_LOG, conn)->index = effects->log_count;
    struct effect_log *log = &effects->logs[effects->log_count++];
    *log = (struct effect_log){.incarnation = 0};
    return log;
}

size_t effects_fact_room(size_t room, size_t used)
{
    while (room - used < LIMIT_FACT_BYTES) {
        size_t more = room > 0 ? room * 2 : 2 * (size_t)LIMIT_FACT_BYTES;
        must(more > room);
        room = more;
    }
    return room;
}

void effects_fact(struct effects *effects, const struct fact *fact, payload_id payload)
{
    size_t bytes = 0;
    size_t room = effects_fact_room(effects->fact_room, effects->fact_used);
    if (room > effects->fact_room) {
        effects->fact_bytes =
            memory_resize(effects->memory, effects->fact_bytes, effects->fact_room, room);
        must(effects->fact_bytes != NULL);
        effects->fact_room = room;
    }
    enum wire_err err = fact_encode(fact, effects->fact_bytes + effects->fact_used,
                                    effects->fact_room - effects->fact_used, &bytes);
    must(err == WIRE_OK); /* what the core keeps is within the limits of what came */
    struct effect *effect = append(effects, EFFECT_FACT, 0);
    effect->payload = payload;
    effect->offset = effects->fact_used;
    effect->bytes = (uint32_t)bytes;
    effect->index = (uint32_t)fact->type;
    effects->fact_used += bytes;
}

struct span effects_record(const struct effects *effects, const struct effect *effect)
{
    return span_of(effects->fact_bytes + effect->offset, effect->bytes);
}
