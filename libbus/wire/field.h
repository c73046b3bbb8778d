/* SPDX-License-Identifier: MPL-2.0 */
/* field.h -- structs as msgpack arrays, by descriptors of their fields; for this folder alone. */
#ifndef WIRE_FIELD_H
#define WIRE_FIELD_H

#include "libbus/base/span.h"
#include "libbus/wire/frame.h"
#include "libbus/wire/walk.h"

#include <msgpack.h>
#include <stddef.h>
#include <stdint.h>

enum field_type { FIELD_NONE, FIELD_U64, FIELD_I64, FIELD_STR, FIELD_BIN };

struct field {
    enum field_type type;
    size_t offset;    /* in its struct: of a uint64_t, an int64_t or a struct span */
    int64_t smallest; /* I64; STR and BIN: the least bytes */
    uint64_t largest; /* U64; STR and BIN: the most bytes */
};

/* Rows for tables of fields.  The tables end with FIELDS_END, so that none is empty. */
#define FIELD_ROW_U64(owner, member, most)                                                         \
    {                                                                                              \
        .type = FIELD_U64, .offset = offsetof(struct owner, member), .largest = (most)             \
    }
#define FIELD_ROW_I64(owner, member, least)                                                        \
    {                                                                                              \
        .type = FIELD_I64, .offset = offsetof(struct owner, member), .smallest = (least)           \
    }
#define FIELD_ROW_BYTES(kind, owner, member, least, most)                                          \
    {                                                                                              \
        .type = (kind), .offset = offsetof(struct owner, member), .smallest = (least),             \
        .largest = (most)                                                                          \
    }
#define FIELD_ROW_STR(owner, member, least, most)                                                  \
    FIELD_ROW_BYTES(FIELD_STR, owner, member, least, most)
#define FIELD_ROW_BIN(owner, member, least, most)                                                  \
    FIELD_ROW_BYTES(FIELD_BIN, owner, member, least, most)
#define FIELDS_END                                                                                 \
    {                                                                                              \
        .type = FIELD_NONE                                                                         \
    }
#define FIELDS_COUNT(table) ((uint32_t)(sizeof(table) / sizeof((table)[0]) - 1))

/* Bytes being written: a packer over room that is given. */
struct field_writer {
    uint8_t *out;
    size_t room;
    size_t at;
    msgpack_packer packer;
};
/* The packer keeps a pointer to the writer: it must stay where it is. */
void field_writer_init(struct field_writer *writer, uint8_t *out, size_t room);

/* Whether the field of object is within its limits: WIRE_RANGE, WIRE_UTF8. */
enum wire_err field_check(const struct field *field, const void *object);

/* Checks and appends count fields of object.  Adds WIRE_FULL to the errors of field_check(). */
enum wire_err fields_write(const struct field *fields, uint32_t count, const void *object,
                           struct field_writer *writer);

/* Reads fields from the next elements objects, which were walked before; spans borrow.  A missing
 * one stays as it is in object, but still has to be within its limits; *elements is what is left
 * of them. */
enum wire_err fields_read(const struct field *fields, uint32_t count, void *object,
                          struct walk *walk, uint32_t *elements);

/* A message or a fact: an array of its number, then the fields of object.  Errors: as
 * fields_write(). */
enum wire_err fields_encode(uint32_t number, const struct field *fields, uint32_t count,
                            const void *object, uint8_t *out, size_t room, size_t *out_bytes);
/* The fields of one that was walked, and in which wire_number() read a number.  Errors: as
 * fields_read(). */
enum wire_err fields_decode(struct span record, const struct field *fields, uint32_t count,
                            void *object);

#endif
