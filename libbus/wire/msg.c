/* SPDX-License-Identifier: MPL-2.0 */
/* msg.c -- the messages of schemas/messages.def as descriptors, and their walkers; see msg.h. */
#include "libbus/wire/msg.h"

#include "libbus/base/must.h"
#include "libbus/wire/field.h"

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
    ;
#include "schemas/messages.def"

struct message {
    const char *name; /* NULL: no message has this number */
    enum msg_lane lane;
    enum msg_direction direction;
    const struct field *fields;
    uint32_t field_count;
};

static const struct message messages[] = {
#define MESSAGE(upper, title, number, side, toward, what)                                          \
    [number] = {.name = #title,                                                                    \
                .lane = MSG_LANE_##side,                                                           \
                .direction = MSG_##toward,                                                         \
                .fields = fields_##title,                                                          \
                .field_count = FIELDS_COUNT(fields_##title)},
#include "schemas/messages.def"
};

static const struct message *message_find(uint64_t number)
{
    if (number >= sizeof messages / sizeof messages[0] || messages[number].name == NULL)
        return NULL;
    return &messages[number];
}

const char *msg_name(enum msg_type type)
{
    const struct message *message = message_find((uint64_t)type);
    return message != NULL ? message->name : NULL;
}

/* ---- out ------------------------------------------------------------------------------------- */
enum wire_err msg_encode(const struct msg *msg, uint8_t *out, size_t room, size_t *out_bytes)
{
    const struct message *message = message_find((uint64_t)msg->type);
    must(message != NULL);
    return fields_encode((uint32_t)msg->type, message->fields, message->field_count, &msg->as, out,
                         room, out_bytes);
}

/* ---- in -------------------------------------------------------------------------------------- */
/* What number says, for a part that is well formed. */
static enum wire_err message_admit(unsigned number, enum msg_lane lane,
                                   enum msg_direction direction, const struct message **out_message)
{
    if (number == BATCH_NUMBER || number == DELIVERY_NUMBER)
        return WIRE_LANE;
    if (number == MSG_NONE)
        return WIRE_FORMAT;
    const struct message *message = message_find(number);
    if (message == NULL)
        return WIRE_UNKNOWN;
    if (message->lane != lane || message->direction != direction)
        return WIRE_LANE;
    *out_message = message;
    return WIRE_OK;
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
    const struct message *message;
    err = message_admit(number, lane, direction, &message);
    if (err != WIRE_OK)
        return err;
    struct msg msg = {.type = (enum msg_type)number};
    err = fields_decode(part, message->fields, message->field_count, &msg.as);
    if (err == WIRE_OK)
        *out_msg = msg;
    return err;
}
