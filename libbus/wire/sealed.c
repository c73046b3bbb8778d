/* SPDX-License-Identifier: MPL-2.0 */
/* sealed.c -- see sealed.h. */
#include "libbus/wire/sealed.h"

#include "libbus/base/must.h"
#include "libbus/wire/field.h"
#include "libbus/wire/msg.h"

#include <string.h>

enum { TRACE_VERSION = 1 };

static const char name_prefix[] = "sealed.";

/* ---- traces ---------------------------------------------------------------------------------- */

static const struct field trace_fields[] = {
    FIELD_ROW_STR(sealed_trace, id, 1, LIMIT_ERROR_ID_BYTES),
    FIELD_ROW_BIN(sealed_trace, label, SEALED_LABEL_BYTES, SEALED_LABEL_BYTES),
    FIELD_ROW_STR(sealed_trace, type, 0, LIMIT_ERROR_TYPE_BYTES),
    FIELD_ROW_STR(sealed_trace, message, 0, LIMIT_ERROR_MESSAGE_BYTES),
    FIELD_ROW_STR(sealed_trace, stacktrace, 0, LIMIT_ERROR_STACK_BYTES),
    FIELD_ROW_U64(sealed_trace, is_cut, 1),
    FIELD_ROW_BIN(sealed_trace, attachments, 0, ERROR_ATTACHED_BYTES_MAX),
    FIELDS_END,
};

enum wire_err sealed_trace_encode(const struct sealed_trace *trace, uint8_t *out, size_t room,
                                  size_t *out_bytes)
{
    return fields_encode(TRACE_VERSION, trace_fields, FIELDS_COUNT(trace_fields), trace, out, room,
                         out_bytes);
}

enum wire_err sealed_trace_decode(struct span bytes, struct sealed_trace *out_trace)
{
    struct sealed_trace trace = {.is_cut = 0};
    if (bytes.bytes > SEALED_TRACE_BYTES_MAX)
        return WIRE_TOO_BIG;
    enum wire_err err = wire_walk(bytes);
    if (err != WIRE_OK)
        return err;
    if (wire_number(bytes) != TRACE_VERSION)
        return WIRE_UNKNOWN;
    err = fields_decode(bytes, trace_fields, FIELDS_COUNT(trace_fields), &trace);
    if (err == WIRE_OK && trace.attachments.bytes > 0 &&
        !error_attached_is_valid(trace.attachments))
        err = WIRE_FORMAT;
    if (err == WIRE_OK)
        *out_trace = trace;
    return err;
}

/* ---- pieces of attachments ------------------------------------------------------------------- */

/* In front of the bytes of a piece, numbers with their lowest byte first:
 * label 16, attachment 4, is_last 1, zeros 3, offset 8. */
enum { AT_ATTACHMENT = 16, AT_LAST = 20, AT_ZEROS = 21, AT_OFFSET = 24 };

static void number_write(uint64_t number, size_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (uint8_t)(number >> (8 * i));
}

static uint64_t number_read(const uint8_t *bytes, size_t count)
{
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++)
        number |= (uint64_t)bytes[i] << (8 * i);
    return number;
}

void sealed_piece_write(const struct sealed_piece *piece, uint8_t out[SEALED_PIECE_HEAD_BYTES])
{
    memset(out, 0, SEALED_PIECE_HEAD_BYTES);
    memcpy(out, piece->label, SEALED_LABEL_BYTES);
    number_write(piece->attachment, 4, out + AT_ATTACHMENT);
    out[AT_LAST] = piece->is_last;
    number_write(piece->offset, 8, out + AT_OFFSET);
}

bool sealed_piece_read(struct span plain, struct sealed_piece *out_piece, struct span *out_bytes)
{
    const uint8_t *bytes = plain.data;
    if (plain.bytes < SEALED_PIECE_HEAD_BYTES ||
        plain.bytes > SEALED_PIECE_HEAD_BYTES + SEALED_PIECE_BYTES || bytes[AT_LAST] > 1 ||
        number_read(bytes + AT_ZEROS, 3) != 0)
        return false;
    memcpy(out_piece->label, bytes, SEALED_LABEL_BYTES);
    out_piece->attachment = (uint32_t)number_read(bytes + AT_ATTACHMENT, 4);
    out_piece->is_last = bytes[AT_LAST] == 1;
    out_piece->offset = number_read(bytes + AT_OFFSET, 8);
    *out_bytes = span_of(bytes + SEALED_PIECE_HEAD_BYTES, plain.bytes - SEALED_PIECE_HEAD_BYTES);
    return true;
}

uint64_t sealed_bytes(uint64_t plain_bytes)
{
    uint64_t pieces = plain_bytes / SEALED_PIECE_BYTES +
                      (plain_bytes % SEALED_PIECE_BYTES != 0 || plain_bytes == 0);
    uint64_t added = pieces * (SEALED_BOX_BYTES + SEALED_PIECE_HEAD_BYTES);
    return plain_bytes <= UINT64_MAX - 1 - added ? plain_bytes + added : ERROR_BYTES_UNKNOWN;
}

/* ---- names ----------------------------------------------------------------------------------- */

void sealed_name(uint32_t attachment, char out[SEALED_NAME_BYTES])
{
    uint32_t number = attachment + 1;
    size_t at = sizeof name_prefix - 1;
    must(number <= 99);
    memcpy(out, name_prefix, at);
    if (number >= 10)
        out[at++] = (char)('0' + number / 10);
    out[at++] = (char)('0' + number % 10);
    out[at] = '\0';
}

bool sealed_name_is_valid(struct span name)
{
    const char *text = name.data;
    size_t prefix = sizeof name_prefix - 1;
    if (name.bytes <= prefix || name.bytes > prefix + 2 || memcmp(text, name_prefix, prefix) != 0)
        return false;
    for (size_t i = prefix; i < name.bytes; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return text[prefix] != '0';
}
