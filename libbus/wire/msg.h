/* SPDX-License-Identifier: MPL-2.0 */
/* msg.h -- the messages of schemas/messages.def as C, to bytes and back.
 *
 * The table expands to structs and to descriptors; one walker each encodes, decodes and checks
 * limits.  Decoding first walks the bytes with bounds of its own (depth, elements, bytes left),
 * then hands the fields to msgpack-c, one by one; never an array or a map, so none allocates. */
#ifndef WIRE_MSG_H
#define WIRE_MSG_H

#include "libbus/base/limits.h"
#include "libbus/base/span.h"
#include "libbus/base/utf8.h"
#include "libbus/wire/frame.h"

#include <stdint.h>

#define PROTOCOL_MAJOR 1
#define PROTOCOL_MINOR 0

enum msg_lane { MSG_LANE_CONTROL, MSG_LANE_DATA };
enum msg_direction { MSG_TO_BROKER, MSG_TO_CLIENT };

/* struct msg_hello { uint64_t major; ... }; and so on.  str and bin are spans, borrowed. */
#define MESSAGE(upper, name, number, lane, direction, what) struct msg_##name {
#define FIELD_U64(msg, field, largest, what) uint64_t field;
#define FIELD_I64(msg, field, smallest, what) int64_t field;
#define FIELD_STR(msg, field, shortest, longest, what) struct span field;
#define FIELD_BIN(msg, field, shortest, longest, what) struct span field;
#define MESSAGE_END(upper, name)                                                                   \
    char end_;                                                                                     \
    }                                                                                              \
    ;
#include "schemas/messages.def"

enum msg_type {
    MSG_NONE = 0,
#define MESSAGE(upper, name, number, lane, direction, what) MSG_##upper = number,
#include "schemas/messages.def"
};
struct msg {
    enum msg_type type;
    union {
#define MESSAGE(upper, name, number, lane, direction, what) struct msg_##name name;
#include "schemas/messages.def"
    } as;
};

/* The message's name in messages.def in lower case, or NULL. */
const char *msg_name(enum msg_type type);

/* Checks every field against its limits and writes to out; out_bytes is what was written.
 * Errors: WIRE_FULL: room is short (LIMIT_CONTROL_BYTES always does); WIRE_RANGE, WIRE_UTF8. */
enum wire_err msg_encode(const struct msg *msg, uint8_t *out, size_t room, size_t *out_bytes);

/* Reads one message, all of part; its spans borrow from part.  Only messages of this lane and
 * direction are taken: the others, and batches, are WIRE_LANE.  out_number, if not NULL, is written
 * on every outcome: wire_number(part). */
enum wire_err msg_decode(struct span part, enum msg_lane lane, enum msg_direction direction,
                         struct msg *out_msg, unsigned *out_number);

/* The number that part begins with: that of a message, known or not, BATCH_NUMBER or
 * DELIVERY_NUMBER; MSG_NONE: there is none to be read; UINT_MAX: a larger one. */
unsigned wire_number(struct span part);

/* The bounded walk: exactly one msgpack object, well formed, within depth and items. */
enum wire_err wire_walk(struct span part);

#endif
