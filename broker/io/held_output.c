/* SPDX-License-Identifier: MPL-2.0 */
/* held_output.c -- see held_output.h. */
#include "broker/io/held_output.h"

#include "libbus/base/must.h"

enum { ROOM_FIRST = 64 };

void held_output_init(struct held_output *output, struct memory *memory)
{
    *output = (struct held_output){.memory = memory};
}

static struct held *at(const struct held_output_queue *queue, uint32_t index)
{
    return &queue->ring[(queue->head + index) & (queue->room - 1)];
}

void held_output_fini(struct held_output *output)
{
    for (int stage = 0; stage < HELD_STAGE_COUNT; stage++) {
        struct held_output_queue *queue = &output->queues[stage];
        for (uint32_t i = 0; i < queue->count; i++)
            buffer_unref(&at(queue, i)->part);
        memory_give(output->memory, queue->ring, queue->room * sizeof *queue->ring);
    }
    held_output_init(output, output->memory);
}

static void held_grow(struct held_output *output, struct held_output_queue *queue)
{
    uint32_t room = queue->room > 0 ? queue->room * 2 : ROOM_FIRST;
    const struct ring_use use = {queue->room, queue->head, queue->count};
    struct held *ring = memory_grow_ring(output->memory, queue->ring, sizeof *ring, &use, room);
    must(ring != NULL);
    queue->ring = ring;
    queue->room = room;
    queue->head = 0;
}

void held_output_push(struct held_output *output, enum held_output_stage stage,
                      const struct held *held)
{
    struct held_output_queue *queue = &output->queues[stage];
    must(queue->count == 0 || at(queue, queue->count - 1)->ticket <= held->ticket);
    if (queue->count == queue->room)
        held_grow(output, queue);
    queue->count += 1;
    *at(queue, queue->count - 1) = *held;
}

bool held_output_pop(struct held_output *output, enum held_output_stage stage, uint64_t reached,
                     struct held *out_held)
{
    struct held_output_queue *queue = &output->queues[stage];
    if (queue->count == 0 || at(queue, 0)->ticket > reached)
        return false;
    *out_held = *at(queue, 0);
    queue->head = (queue->head + 1) & (queue->room - 1);
    queue->count -= 1;
    return true;
}

void held_output_drop(struct held_output *output, enum held_output_stage stage, conn_id conn)
{
    struct held_output_queue *queue = &output->queues[stage];
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

bool held_output_is_empty(const struct held_output *output, enum held_output_stage stage)
{
    return output->queues[stage].count == 0;
}
