/* SPDX-License-Identifier: MPL-2.0 */
/* attachment.h -- an attachment of an error, and its pieces. */
#ifndef CORE_MODEL_ATTACHMENT_H
#define CORE_MODEL_ATTACHMENT_H

#include "broker/core/tables/event.h"
#include "libbus/base/list.h"
#include "libbus/base/span.h"
#include "libbus/wire/error.h"

#include <stdbool.h>
#include <stdint.h>

struct piece {
    payload_id payload;
    uint32_t bytes;
};

struct attachment {
    uint32_t id;
    uint32_t error_bytes; /* the key begins with the error's id: so long */
    struct span key;      /* owned; see record/attachment.c */
    struct piece *pieces;
    uint32_t count, room;
    uint64_t bytes;              /* kept */
    uint64_t arrived;            /* bytes that came, kept or not */
    uint64_t promised;           /* bytes, as its error says; or ERROR_BYTES_UNKNOWN */
    enum attachment_state state; /* COMING, WHOLE, FULL, DROPPED; see attach_state() */
    struct account *account;     /* a reference: of the party that its error is of */
    struct session *courier;     /* who brings it, or NULL */
    struct list fetchers;        /* sessions that fetch it */
    int64_t left_ns;             /* since when nobody brings it; core_clock() */
    struct list link;            /* in job->attachments */
};

/* A piece that a courier brings. */
struct attach_piece {
    payload_id payload; /* 0: it has no bytes */
    uint32_t bytes;
    bool is_last;
};

#endif
