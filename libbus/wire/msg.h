/* SPDX-License-Identifier: MPL-2.0 */
/* msg.h -- the messages of schemas/messages.def as C, to bytes and back; and what the table decides
 * of each kind, for broker and client: whoever needs that asks msg_kind().
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

#include <stdbool.h>
#include <stddef.h>
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

/* The same numbers by direction, for switches that have a case for each message and no default:
 * switch (msg_to_broker(msg)). */
enum msg_to_broker {
#define TO_BROKER(upper, name, number, lane, speakers, right, id, weight, answer, refusal, what)   \
    TO_BROKER_##upper = number,
#include "schemas/messages.def"
};
enum msg_to_client {
#define TO_CLIENT(upper, name, number, lane, time, id, wait, part, what) TO_CLIENT_##upper = number,
#include "schemas/messages.def"
};

/* ---- what the table decides ------------------------------------------------------------------ */
/* The columns of messages.def; it says there what each value means. */

enum msg_speaker {
    MSG_BY_NEWCOMER = 1 << 0,
    MSG_BY_PARTY = 1 << 1,
    MSG_BY_GUARD = 1 << 2,
    MSG_BY_OBSERVER = 1 << 3,
    MSG_BY_COURIER = 1 << 4,
    MSG_BY_LATE = 1 << 5,
    MSG_BY_ANYONE = MSG_BY_PARTY | MSG_BY_GUARD | MSG_BY_OBSERVER | MSG_BY_COURIER,
};
enum msg_right {
    MSG_MINE,
    MSG_GREETS,
    MSG_TOPICS,
    MSG_OWN_JOB,
    MSG_STATES,
    MSG_TAPS,
    MSG_JOBS,
    MSG_LETTERS,
    MSG_ERRORS,
    MSG_AUTHOR,
    MSG_BROKER,
};
enum msg_id { MSG_NO_ID, MSG_NUMBER, MSG_NUMBER_OR_0, MSG_REQUEST };
enum msg_weight { MSG_LIGHT, MSG_ORDERED, MSG_HEAVY, MSG_BYTES };
enum msg_time { MSG_GREETING, MSG_ATTACHING, MSG_SESSION, MSG_RESUMING, MSG_ALWAYS };
enum msg_wait { MSG_AT_ONCE, MSG_OUTCOMES, MSG_ANSWERS, MSG_CONCLUSIONS, MSG_OF_PARTY };
enum msg_part { MSG_UNASKED, MSG_ROW, MSG_ANSWER };

struct msg_kind {
    const char *name; /* in lower case */
    enum msg_lane lane;
    enum msg_direction direction;
    enum msg_id id;
    size_t id_at; /* of the id's field in its struct; with NO_ID of nothing */
    union {
        struct {
            unsigned speakers; /* of enum msg_speaker */
            enum msg_right right;
            enum msg_weight weight;
            enum msg_type answer, refusal; /* MSG_NONE: none */
        } to_broker;
        struct {
            enum msg_time time;
            enum msg_wait wait;
            enum msg_part part;
            enum msg_type question; /* of a ROW, otherwise MSG_NONE */
        } to_client;
    } as; /* by direction */
};

/* NULL: no message has this number. */
const struct msg_kind *msg_kind(unsigned number);
/* The message's name in messages.def in lower case, or NULL. */
const char *msg_name(enum msg_type type);
/* A message that goes this way, for a switch. */
enum msg_to_broker msg_to_broker(const struct msg *msg);
enum msg_to_client msg_to_client(const struct msg *msg);
/* Its number or request, as the column id has it; 0: it has none. */
uint64_t msg_id(const struct msg *msg);
void msg_id_set(struct msg *msg, uint64_t id);
/* Whether it counts among the numbered messages of its session, and must have a number. */
bool msg_is_numbered(const struct msg *msg);
/* Whether it ends the answer to a question. */
bool msg_is_end(const struct msg *msg);
/* Copies the strings and bytes of its fields into room, and lets the fields point there; false:
 * they take more than that. */
bool msg_keep(struct msg *msg, uint8_t *room, size_t room_bytes);

/* ---- to bytes and back ----------------------------------------------------------------------- */

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
