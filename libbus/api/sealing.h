/* SPDX-License-Identifier: MPL-2.0 */
/* sealing.h -- what of an error leaves the process sealed to an auditor. */
#ifndef API_SEALING_H
#define API_SEALING_H

#include "libbus/api/model.h"
#include "libbus/io/seal.h"
#include "libbus/wire/sealed.h"

enum { SEALING_LIST_BYTES_MAX = 3 + LIMIT_ERROR_ATTACHMENTS * (SEALED_NAME_BYTES + 1 + 9) };

/* Belongs to an error with something sealed; one block. */
struct error_sealing {
    bool is_open; /* the error object has what is sealed: it was made here, or opened here */
    uint8_t label[SEALED_LABEL_BYTES]; /* of its attachments, if it was made here */
    char auditor[KEY_TEXT_BYTES + 1];  /* the public key to which it is sealed */
    size_t list_bytes;                 /* of its attachments, under the names that others see */
    uint8_t list[SEALING_LIST_BYTES_MAX];
    size_t bytes;
    uint8_t data[]; /* as error_record.sealed */
};

/* Seals the trace of an error that this bus stamps with this id.  NULL: nothing is to be sealed, or
 * it cannot be: then nothing of it may leave the process. */
struct error_sealing *sealing_make(struct bus *bus, const struct bus_error *error, struct span id);
/* Keeps what came sealed.  NULL: no memory. */
struct error_sealing *sealing_keep(struct span sealed);
/* The error object has what is sealed from now on, with these attachments. */
void sealing_opened(struct error_sealing *sealing, const struct error_attachment *attachments);
/* Whether errors of this bus leave it without their traces, sealed or not at all. */
bool sealing_is_on(const struct bus *bus);
/* Opens a trace into room of SEALED_TRACE_BYTES_MAX; out_trace borrows from it.  NULL: it is open;
 * otherwise a sentence without its end: "it is sealed to ..., and the key is ...". */
const char *sealing_open(const struct error_sealing *sealing, struct span id,
                         const struct key_pair *pair, uint8_t *room,
                         struct sealed_trace *out_trace);

#endif
