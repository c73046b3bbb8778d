/* SPDX-License-Identifier: MPL-2.0 */
/* sealed.h -- what a party seals to its auditor: the bytes that go into a seal, and come out of it.
 *
 * error_record.sealed has the auditor's public key, then a sealed box (libbus/io/seal.h) with one
 * trace.  An attachment is brought under another name, and each piece of it is a sealed box of its
 * own, so a courier can go on with any piece.  The pieces name their place: the label is drawn for
 * each error, and stands in its trace.  So pieces that were left out, exchanged or taken from
 * another error do not open. */
#ifndef WIRE_SEALED_H
#define WIRE_SEALED_H

#include "libbus/wire/error.h"

enum {
    SEALED_KEY_BYTES = 32,
    SEALED_BOX_BYTES = 48, /* a sealed box is so much longer than what is in it */
    SEALED_LABEL_BYTES = 16,
    SEALED_PIECE_HEAD_BYTES = 32,
    /* of an attachment, in a piece that is whole */
    SEALED_PIECE_BYTES = LIMIT_ATTACHMENT_PIECE_BYTES - SEALED_BOX_BYTES - SEALED_PIECE_HEAD_BYTES,
    SEALED_TRACE_BYTES_MAX = LIMIT_ERROR_SEALED_BYTES - SEALED_KEY_BYTES - SEALED_BOX_BYTES,
    SEALED_NAME_BYTES = 16, /* with its NUL */
};

struct sealed_trace {
    struct span id;    /* of its error */
    struct span label; /* SEALED_LABEL_BYTES */
    struct span type;  /* empty: the error itself has it; the same holds for the message */
    struct span message;
    struct span stacktrace;
    uint64_t is_cut;         /* as in the record */
    struct span attachments; /* with their true names and sizes; as in the record */
};
/* Errors: those of error_encode(). */
enum wire_err sealed_trace_encode(const struct sealed_trace *trace, uint8_t *out, size_t room,
                                  size_t *out_bytes);
/* Reads bytes that came out of a seal: anybody can make one.  Errors: those of error_decode(). */
enum wire_err sealed_trace_decode(struct span bytes, struct sealed_trace *out_trace);

/* The place of a piece: an attachment by its number from 0, and an offset in its own bytes. */
struct sealed_piece {
    uint8_t label[SEALED_LABEL_BYTES];
    uint32_t attachment;
    bool is_last;
    uint64_t offset;
};
void sealed_piece_write(const struct sealed_piece *piece, uint8_t out[SEALED_PIECE_HEAD_BYTES]);
/* The piece and its bytes; false: it is too short, or not in this form. */
bool sealed_piece_read(struct span plain, struct sealed_piece *out_piece, struct span *out_bytes);

/* The size of an attachment of so many bytes when it is sealed; ERROR_BYTES_UNKNOWN stays. */
uint64_t sealed_bytes(uint64_t plain_bytes);
/* The name under which an attachment is brought, "sealed.1" for number 0. */
void sealed_name(uint32_t attachment, char out[SEALED_NAME_BYTES]);
bool sealed_name_is_valid(struct span name);

#endif
