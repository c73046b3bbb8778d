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

static enum wire_err array_decode(const struct field *fields, uint32_t count, void *object,
                                  struct span value)
{
    uint32_t elements = 0;
    enum wire_err err = wire_walk(value);
    if (err != WIRE_OK)
        return err;
    struct walk walk = walk_of(value);
    err = walk_array(&walk, &elements);
    if (err != WIRE_OK)
        return err;
    return fields_read(fields, count, object, &walk, &elements);
}

size_t frame_reserve_encode(uint8_t out[FRAME_RESERVE_BYTES_MAX],
                            const struct frame_reserve *reserve)
{
    return array_encode(reserve_fields, FIELDS_COUNT(reserve_fields), reserve, out,
                        FRAME_RESERVE_BYTES_MAX);
}

enum wire_err frame_reserve_decode(struct span value, struct frame_reserve *out_reserve)
{
    struct frame_reserve reserve = {.deadline_ms = -1};
    enum wire_err err = array_decode(reserve_fields, FIELDS_COUNT(reserve_fields), &reserve, value);
    if (err == WIRE_OK)
        *out_reserve = reserve;
    return err;
}

size_t frame_gap_encode(uint8_t out[FRAME_GAP_BYTES_MAX], const struct frame_gap *gap)
{
    struct gap_fields fields = {.count = gap->count, .reason = (uint64_t)gap->reason};
    return array_encode(gap_fields, FIELDS_COUNT(gap_fields), &fields, out, FRAME_GAP_BYTES_MAX);
}

enum wire_err frame_gap_decode(struct span value, struct frame_gap *out_gap)
{
    struct gap_fields fields = {0};
    enum wire_err err = array_decode(gap_fields, FIELDS_COUNT(gap_fields), &fields, value);
    if (err == WIRE_OK)
        *out_gap =
            (struct frame_gap){.count = fields.count, .reason = (enum gap_reason)fields.reason};
    return err;
}
