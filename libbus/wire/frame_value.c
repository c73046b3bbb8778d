/* SPDX-License-Identifier: MPL-2.0 */
/* frame_value.c -- the values of RESERVE and GAP frames, small msgpack arrays; see frame.h. */
#include "libbus/base/must.h"
#include "libbus/wire/field.h"
#include "libbus/wire/frame.h"
#include "libbus/wire/msg.h"
#include "libbus/wire/walk.h"

/* reason as it is on the wire. */
struct gap_fields {
    uint64_t count;
    uint64_t reason;
};

static const struct field reserve_fields[] = {
    FIELD_ROW_I64(frame_reserve, deadline_ms, -1),
    FIELD_ROW_U64(frame_reserve, value_bytes_max, LIMIT_VALUE_BYTES),
    FIELDS_END,
};
static const struct field need_fields[] = {
    FIELD_ROW_STR(frame_need, topic, 1, LIMIT_NAME_BYTES),
    FIELD_ROW_U64(frame_need, seq, UINT64_MAX),
    FIELDS_END,
};
static const struct field gap_fields[] = {
    FIELD_ROW_U64(gap_fields, count, UINT64_MAX),
    FIELD_ROW_U64(gap_fields, reason, GAP_REASON_COUNT - 1),
    FIELDS_END,
};

static size_t array_encode(const struct field *fields, uint32_t count, const void *object,
                           uint8_t *out, size_t room)
{
    struct field_writer writer;
    field_writer_init(&writer, out, room);
    must(msgpack_pack_array(&writer.packer, count) == 0);
    must(fields_write(fields, count, object, &writer) == WIRE_OK);
    return writer.at;
}

/* Steps into the array in value, and reads those of the fields that it has.  The walk then stands
 * behind them. */
static enum wire_err array_begin(const struct field *fields, uint32_t count, void *object,
                                 struct span value, struct walk *walk, uint32_t *out_elements)
{
    enum wire_err err = wire_walk(value);
    if (err != WIRE_OK)
        return err;
    *walk = walk_of(value);
    err = walk_array(walk, out_elements);
    if (err != WIRE_OK)
        return err;
    return fields_read(fields, count, object, walk, out_elements);
}

size_t frame_reserve_encode(uint8_t out[FRAME_RESERVE_BYTES_MAX],
                            const struct frame_reserve *reserve)
{
    must(reserve->need_count == 0);
    return array_encode(reserve_fields, FIELDS_COUNT(reserve_fields), reserve, out,
                        FRAME_RESERVE_BYTES_MAX);
}

/* Writes one array, with topic and number of each need in turn. */
static void needs_write(const struct frame_need *needs, uint32_t count, struct field_writer *writer)
{
    must(count <= LIMIT_SLOT_NEEDS);
    must(msgpack_pack_array(&writer->packer, 2 * (size_t)count) == 0);
    for (uint32_t i = 0; i < count; i++)
        must(fields_write(need_fields, FIELDS_COUNT(need_fields), &needs[i], writer) == WIRE_OK);
}

size_t frame_promise_encode(uint8_t *out, size_t room, const struct frame_reserve *reserve,
                            const struct frame_need *needs)
{
    struct field_writer writer;
    uint32_t fields = FIELDS_COUNT(reserve_fields);
    field_writer_init(&writer, out, room);
    must(msgpack_pack_array(&writer.packer, fields + (reserve->need_count > 0)) == 0);
    must(fields_write(reserve_fields, fields, reserve, &writer) == WIRE_OK);
    if (reserve->need_count > 0)
        needs_write(needs, reserve->need_count, &writer);
    return writer.at;
}

static enum wire_err need_read(struct walk *walk, struct frame_need *out_need)
{
    uint32_t elements = FIELDS_COUNT(need_fields);
    *out_need = (struct frame_need){.topic = SPAN_NONE};
    return fields_read(need_fields, FIELDS_COUNT(need_fields), out_need, walk, &elements);
}

/* Reads the array of needs at which the walk stands. */
static enum wire_err needs_read(struct walk *walk, struct frame_reserve *reserve)
{
    uint32_t elements = 0;
    struct frame_need need;
    enum wire_err err = walk_array(walk, &elements);
    if (err == WIRE_OK && (elements % 2 != 0 || elements / 2 > LIMIT_SLOT_NEEDS))
        err = WIRE_RANGE;
    size_t begin = walk->at;
    for (uint32_t i = 0; err == WIRE_OK && i < elements / 2; i++)
        err = need_read(walk, &need);
    reserve->need_count = elements / 2;
    reserve->needs = span_of(walk->data + begin, walk->at - begin);
    return err;
}

enum wire_err frame_reserve_decode(struct span value, struct frame_reserve *out_reserve)
{
    struct frame_reserve reserve = {.deadline_ms = -1};
    struct walk walk;
    uint32_t elements = 0;
    enum wire_err err = array_begin(reserve_fields, FIELDS_COUNT(reserve_fields), &reserve, value,
                                    &walk, &elements);
    if (err == WIRE_OK && elements > 0)
        err = needs_read(&walk, &reserve);
    if (err == WIRE_OK)
        *out_reserve = reserve;
    return err;
}

bool frame_need_next(struct span *needs, struct frame_need *out_need)
{
    struct walk walk = walk_of(*needs);
    if (needs->bytes == 0)
        return false;
    enum wire_err err = need_read(&walk, out_need);
    must(err == WIRE_OK); /* frame_reserve_decode() checked it */
    *needs = span_of(walk.data + walk.at, walk.bytes - walk.at);
    return true;
}

size_t frame_gap_encode(uint8_t out[FRAME_GAP_BYTES_MAX], const struct frame_gap *gap)
{
    struct gap_fields fields = {.count = gap->count, .reason = (uint64_t)gap->reason};
    return array_encode(gap_fields, FIELDS_COUNT(gap_fields), &fields, out, FRAME_GAP_BYTES_MAX);
}

enum wire_err frame_gap_decode(struct span value, struct frame_gap *out_gap)
{
    struct gap_fields fields = {0};
    struct walk walk;
    uint32_t elements = 0;
    enum wire_err err =
        array_begin(gap_fields, FIELDS_COUNT(gap_fields), &fields, value, &walk, &elements);
    if (err == WIRE_OK)
        *out_gap =
            (struct frame_gap){.count = fields.count, .reason = (enum gap_reason)fields.reason};
    return err;
}
