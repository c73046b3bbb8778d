/* SPDX-License-Identifier: MPL-2.0 */
/* held_output.c -- see held_output.h. */
#include "broker/io/held_output.h"

#include "libbus/base/must.h"

enum { ROOM_FIRST = 64 };

void hold_init(struct hold *hold, struct memory *memory)
{
    *hold = (struct hold){.memory = memory};
}

static struct held *at(const struct hold_queue *queue, uint32_t index)
{
    return &queue->ring[(queue->head + index) & (queue->room - 1)];
}

void hold_fini(struct hold *hold)
{
    for (int stage = 0; stage < HOLD_STAGE_COUNT; stage++) {
        struct hold_queue *queue = &hold->queues[stage];
        for (uint32_t i = 0; i < queue->count; i++)
            buffer_unref(&at(queue, i)->part);
        memory_give(hold->memory, queue->ring, queue->room * sizeof *queue->ring);
    }
    hold_init(hold, hold->memory);
}

static void grow(struct hold *hold, struct hold_queue *queue)
{
    uint32_t room = queue->room > 0 ? queue->room * 2 : ROOM_FIRST;
    struct held *ring = memory_take(hold->memory, room * sizeof *ring);
    must(ring != NULL);
    for (uint32_t i = 0; i < queue->count; i++)
        ring[i] = *at(queue, i);
    memory_give(hold->memory, queue->ring, queue->room * sizeof *ring);
    queue->ring = ring;
    queue->room = room;
    queue->head = 0;
}

void hold_push(struct hold *hold, enum hold_stage stage, const struct held *held)
{
    struct hold_queue *queue = &hold->queues[stage];
    must(queue->count == 0 || at(queue, queue->count - 1)->ticket <= held->ticket);
    if (queue->count == queue->room)
        grow(hold, queue);
    queue->count += 1;
    *at(queue, queue->count - 1) = *held;
}

bool hold_pop(struct hold *hold, enum hold_stage stage, uint64_t reached, struct held *out_held)
{
    struct hold_queue *queue = &hold->queues[stage];
    if (queue->count == 0 || at(queue, 0)->ticket > reached)
        return false;
    *out_held = *at(queue, 0);
    queue->head = (queue->head + 1) & (queue->room - 1);
    queue->count -= 1;
    return true;
}

void hold_drop(struct hold *hold, enum hold_stage stage, conn_id conn)
{
    struct hold_queue *queue = &hold->queues[stage];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < queue->count; i++) {
        struct held *held = at(queue, i);
        if (held->conn == conn)
            buffer_unref(&held->part);
        else
            *at(queue, kept++) = *held;
    }
    queue->count = kept;
}

bool hold_is_empty(const struct hold *hold, enum hold_stage stage)
{
    return hold->queues[stage].count == 0;
}
