/* SPDX-License-Identifier: MPL-2.0 */
/* runs.c -- a received batch as runs of frames; see runs.h. */
#include "broker/io/runs.h"

#include "libbus/base/limits.h"

#include <string.h>

enum { ROOM_FIRST = 256 };

void runs_init(struct runs *runs, struct memory *memory)
{
    *runs = (struct runs){.memory = memory};
}

void runs_fini(struct runs *runs)
{
    memory_give(runs->memory, runs->items, runs->room * sizeof *runs->items);
    *runs = (struct runs){.memory = runs->memory};
}

static struct event_run *append(struct runs *runs)
{
    if (runs->count == runs->room) {
        uint32_t room = runs->room > 0 ? runs->room * 2 : ROOM_FIRST;
        size_t size = sizeof *runs->items;
        struct event_run *items =
            memory_resize(runs->memory, runs->items, runs->room * size, room * size);
        if (items == NULL)
            return NULL;
        runs->items = items;
        runs->room = room;
    }
    return &runs->items[runs->count++];
}

bool runs_is_batch(struct span part)
{
    static const uint8_t head[] = {0x95, 0xcd, BATCH_NUMBER >> 8, BATCH_NUMBER & 0xff};
    return part.bytes >= sizeof head && memcmp(part.data, head, sizeof head) == 0;
}

/* What the value of a RESERVE or CHUNK says, into the run. */
static enum wire_err read_value(struct event_run *run, struct span value)
{
    enum wire_err err = WIRE_OK;
    struct frame_reserve reserve;
    struct frame_chunk chunk;
    switch (run->kind) {
    case FRAME_VALUE: break;
    case FRAME_COMMIT: break;
    case FRAME_RESERVE:
        err = frame_reserve_decode(value, &reserve);
        if (err != WIRE_OK)
            break;
        run->deadline_ms = reserve.deadline_ms;
        run->value_bytes_max = reserve.value_bytes_max;
        break;
    case FRAME_CHUNK:
        err = frame_chunk_decode(value, &chunk);
        if (err != WIRE_OK)
            break;
        run->chunk_total = chunk.total_bytes;
        run->chunk_offset = chunk.offset;
        run->chunk_bytes = (uint32_t)chunk.bytes.bytes;
        break;
    case FRAME_ERROR:
    case FRAME_TOPIC:
    case FRAME_GAP:
    case FRAME_END:
    case FRAME_KIND_COUNT: err = WIRE_LANE; break;
    }
    return err;
}

static enum wire_err append_run(struct runs *runs, const struct batch_run *read)
{
    struct event_run *run = append(runs);
    if (run == NULL)
        return WIRE_FULL;
    *run = (struct event_run){
        .kind = (enum frame_kind)(read->first.flags & FRAME_KIND_MASK),
        .attempt = read->first.attempt,
        .topic = read->first.topic,
        .seq = read->first.seq,
        .count = read->count,
        .stride = read->stride,
        .offset = (uint32_t)read->offset,
        .value_bytes = (uint32_t)read->first.value.bytes,
        .deadline_ms = -1,
    };
    return read_value(run, read->first.value);
}

enum wire_err runs_read(struct runs *runs, struct span part)
{
    struct batch_reader reader;
    struct batch_run read;
    runs->count = 0;
    enum wire_err err = batch_reader_init(&reader, part);
    if (err != WIRE_OK)
        return err;
    runs->number = reader.number;
    runs->frames = reader.frames;
    while ((err = batch_reader_next_run(&reader, &read)) == WIRE_OK)
        if ((err = append_run(runs, &read)) != WIRE_OK)
            return err;
    return err == WIRE_EMPTY ? WIRE_OK : err;
}
