/* SPDX-License-Identifier: MPL-2.0 */
/* fact.h -- the facts of schemas/facts.def as C, to bytes and back: what a journal keeps.
 *
 * As messages (msg.h): the table expands to structs and descriptors, one walker does the rest. */
#ifndef WIRE_FACT_H
#define WIRE_FACT_H

#include "libbus/base/limits.h"
#include "libbus/base/span.h"
#include "libbus/wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

/* struct fact_kept { uint64_t topic; ... }; and so on.  str and bin are spans, borrowed. */
#define FACT(upper, name, number, weight, of, what) struct fact_##name {
#define FIELD_U64(fact, field, largest, what) uint64_t field;
#define FIELD_I64(fact, field, smallest, what) int64_t field;
#define FIELD_STR(fact, field, shortest, longest, what) struct span field;
#define FIELD_BIN(fact, field, shortest, longest, what) struct span field;
#define FACT_END(upper, name)                                                                      \
    }                                                                                              \
    ;
#include "schemas/facts.def"

/* As large as the largest number, whatever the order of the rows. */
union fact_largest {
    char none;
#define FACT(upper, name, number, weight, of, what) char name[number];
#include "schemas/facts.def"
};

enum fact_type {
    FACT_NONE = 0,
#define FACT(upper, name, number, weight, of, what) FACT_##upper = number,
#include "schemas/facts.def"
    FACT_TYPE_COUNT = sizeof(union fact_largest) + 1, /* beyond the largest */
};
struct fact {
    enum fact_type type;
    union {
#define FACT(upper, name, number, weight, of, what) struct fact_##name name;
#include "schemas/facts.def"
    } as;
};

/* The fact's name in facts.def in lower case, or NULL. */
const char *fact_name(enum fact_type type);
/* Whether it may use the space that is set aside for bad news. */
bool fact_is_essential(enum fact_type type);

/* Checks every field against its limits and writes to out; out_bytes is what was written.
 * Errors: WIRE_FULL: room is short (LIMIT_FACT_BYTES always does); WIRE_RANGE, WIRE_UTF8. */
enum wire_err fact_encode(const struct fact *fact, uint8_t *out, size_t room, size_t *out_bytes);

/* Reads one fact, all of record; its spans borrow from record.  Errors: those of wire_walk();
 * WIRE_TOO_BIG, WIRE_FORMAT, WIRE_RANGE, WIRE_UTF8; WIRE_UNKNOWN: a newer version wrote it. */
enum wire_err fact_decode(struct span record, struct fact *out_fact);

#endif
