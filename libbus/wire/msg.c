/* SPDX-License-Identifier: MPL-2.0 */
/* msg.c -- the messages of schemas/messages.def as descriptors, and their walkers; see msg.h. */
#include "libbus/wire/msg.h"

#include "libbus/base/must.h"
#include "libbus/wire/field.h"

#include <string.h>

/* ---- the table as data ----------------------------------------------------------------------- */
#define MESSAGE(upper, name, number, lane, direction, what)                                        \
    static const struct field fields_##name[] = {
#define FIELD_U64(owner, member, largest, what) FIELD_ROW_U64(msg_##owner, member, largest),
#define FIELD_I64(owner, member, smallest, what) FIELD_ROW_I64(msg_##owner, member, smallest),
#define FIELD_STR(owner, member, least, most, what) FIELD_ROW_STR(msg_##owner, member, least, most),
#define FIELD_BIN(owner, member, least, most, what) FIELD_ROW_BIN(msg_##owner, member, least, most),
#define MESSAGE_END(upper, name)                                                                   \
    FIELDS_END                                                                                     \
    }                                                                                              \
    ;                                                                                              \
    _Static_assert(MSG_##upper != MSG_NONE && sizeof(struct msg_##name) > 0, "a row begins it");
#include "schemas/messages.def"

/* The columns as messages.def names them. */
enum {
    NEWCOMER = MSG_BY_NEWCOMER,
    PARTY = MSG_BY_PARTY,
    GUARD = MSG_BY_GUARD,
    OBSERVER = MSG_BY_OBSERVER,
    COURIER = MSG_BY_COURIER,
    LATE = MSG_BY_LATE,
    ANYONE = MSG_BY_ANYONE,
};
#define ID_AT_NUMBER(name) offsetof(struct msg_##name, number)
#define ID_AT_NUMBER_OR_0(name) offsetof(struct msg_##name, number)
#define ID_AT_REQUEST(name) offsetof(struct msg_##name, request)
#define ID_AT_NO_ID(name) 0
#define ANSWER .part = MSG_ANSWER
#define END ANSWER
#define UNASKED .part = MSG_UNASKED
#define ROW_OF(asked) .part = MSG_ROW, .question = MSG_##asked
#define PIECE_OF(asked) ROW_OF(asked)

/* An open column leaves an undeclared name behind, or no expression where one must be. */
static const struct msg_kind kinds[] = {
#define TO_BROKER(upper, title, number, side, by, right_is, id_is, weight_is, answer_is,           \
                  refusal_is, what)                                                                \
    [number] = {.name = #title,                                                                    \
                .lane = MSG_LANE_##side,                                                           \
                .direction = MSG_TO_BROKER,                                                        \
                .id = MSG_##id_is,                                                                 \
                .id_at = ID_AT_##id_is(title),                                                     \
                .as.to_broker = {.speakers = (by),                                                 \
                                 .right = MSG_##right_is,                                          \
                                 .weight = MSG_##weight_is,                                        \
                                 .answer = MSG_##answer_is,                                        \
                                 .refusal = MSG_##refusal_is}},
#define TO_CLIENT(upper, title, number, side, time_is, id_is, wait_is, part_is, what)              \
    [number] = {.name = #title,                                                                    \
                .lane = MSG_LANE_##side,                                                           \
                .direction = MSG_TO_CLIENT,                                                        \
                .id = MSG_##id_is,                                                                 \
                .id_at = ID_AT_##id_is(title),                                                     \
                .as.to_client = {part_is, .time = MSG_##time_is, .wait = MSG_##wait_is}},
#include "schemas/messages.def"
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* A table of its own, because only this folder knows fields. */
static const struct {
    const struct field *fields;
    uint32_t count;
} tables[KINDS] = {
#define MESSAGE(upper, title, number, lane, direction, what)                                       \
    [number] = {.fields = fields_##title, .count = FIELDS_COUNT(fields_##title)},
#include "schemas/messages.def"
};

/* ---- what the table decides ------------------------------------------------------------------ */
const struct msg_kind *msg_kind(unsigned number)
{
    return number < KINDS && kinds[number].name != NULL ? &kinds[number] : NULL;
}

static const struct msg_kind *kind_of(const struct msg *msg)
{
    const struct msg_kind *kind = msg_kind((unsigned)msg->type);
    must(kind != NULL);
    return kind;
}

const char *msg_name(enum msg_type type)
{
    const struct msg_kind *kind = msg_kind((unsigned)type);
    return kind != NULL ? kind->name : NULL;
}

enum msg_to_broker msg_to_broker(const struct msg *msg)
{
    must(kind_of(msg)->direction == MSG_TO_BROKER);
    return (enum msg_to_broker)msg->type;
}

enum msg_to_client msg_to_client(const struct msg *msg)
{
    must(kind_of(msg)->direction == MSG_TO_CLIENT);
    return (enum msg_to_client)msg->type;
}

uint64_t msg_id(const struct msg *msg)
{
    const struct msg_kind *kind = kind_of(msg);
    uint64_t id = 0;
    if (kind->id != MSG_NO_ID)
        memcpy(&id, (const char *)&msg->as + kind->id_at, sizeof id);
    return id;
}

void msg_id_set(struct msg *msg, uint64_t id)
{
    const struct msg_kind *kind = kind_of(msg);
    must(kind->id != MSG_NO_ID);
    memcpy((char *)&msg->as + kind->id_at, &id, sizeof id);
}

bool msg_is_numbered(const struct msg *msg)
{
    const struct msg_kind *kind = kind_of(msg);
    return kind->id == MSG_NUMBER || (kind->id == MSG_NUMBER_OR_0 && msg_id(msg) != 0);
}

bool msg_is_end(const struct msg *msg)
{
    const struct msg_kind *kind = kind_of(msg);
    return kind->direction == MSG_TO_CLIENT && kind->as.to_client.part == MSG_ANSWER;
}

bool msg_keep(struct msg *msg, uint8_t *room, size_t room_bytes)
{
    must(kind_of(msg) != NULL);
    size_t at = 0;
    for (uint32_t i = 0; i < tables[msg->type].count; i++) {
        const struct field *field = &tables[msg->type].fields[i];
        struct span span;
        if (field->type != FIELD_STR && field->type != FIELD_BIN)
            continue;
        memcpy(&span, (const char *)&msg->as + field->offset, sizeof span);
        if (span.bytes > room_bytes - at)
            return false;
        if (span.bytes > 0)
            memcpy(room + at, span.data, span.bytes);
        span = span_of(room + at, span.bytes);
        memcpy((char *)&msg->as + field->offset, &span, sizeof span);
        at += span.bytes;
    }
    return true;
}

/* ---- out ------------------------------------------------------------------------------------- */
enum wire_err msg_encode(const struct msg *msg, uint8_t *out, size_t room, size_t *out_bytes)
{
    must(kind_of(msg) != NULL);
    return fields_encode((uint32_t)msg->type, tables[msg->type].fields, tables[msg->type].count,
                         &msg->as, out, room, out_bytes);
}

/* ---- in -------------------------------------------------------------------------------------- */
/* Whether a message of this number may come here, for a part that is well formed. */
static enum wire_err message_admit(unsigned number, enum msg_lane lane,
                                   enum msg_direction direction)
{
    if (number == BATCH_NUMBER || number == DELIVERY_NUMBER)
        return WIRE_LANE;
    if (number == MSG_NONE)
        return WIRE_FORMAT;
    const struct msg_kind *kind = msg_kind(number);
    if (kind == NULL)
        return WIRE_UNKNOWN;
    return kind->lane == lane && kind->direction == direction ? WIRE_OK : WIRE_LANE;
}

enum wire_err msg_decode(struct span part, enum msg_lane lane, enum msg_direction direction,
                         struct msg *out_msg, unsigned *out_number)
{
    unsigned number = wire_number(part);
    if (out_number != NULL)
        *out_number = number;
    if (part.bytes > LIMIT_CONTROL_BYTES)
        return WIRE_TOO_BIG;
    enum wire_err err = wire_walk(part);
    if (err != WIRE_OK)
        return err;
    err = message_admit(number, lane, direction);
    if (err != WIRE_OK)
        return err;
    struct msg msg = {.type = (enum msg_type)number};
    err = fields_decode(part, tables[number].fields, tables[number].count, &msg.as);
    if (err == WIRE_OK)
        *out_msg = msg;
    return err;
}
