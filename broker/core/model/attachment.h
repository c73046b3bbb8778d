/* SPDX-License-Identifier: MPL-2.0 */
/* attachment.h -- what belongs to an error and is too long for it. */
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
    uint32_t error_bytes; /* of the key: the error's id */
    struct span key;      /* owned; see record/attachment.c */
    struct piece *pieces;
    uint32_t count, room;
    uint64_t bytes;              /* kept */
    uint64_t arrived;            /* of it, kept or not */
    uint64_t promised;           /* by its error; ERROR_BYTES_UNKNOWN */
    enum attachment_state state; /* COMING, WHOLE, FULL, DROPPED; see attach_state() */
    struct session *courier;     /* who brings it, or NULL */
    int64_t left_ns;             /* since when nobody does, on the core's running clock */
    struct list link;            /* in job->attachments */
};

/* One piece that comes. */
struct attach_piece {
    payload_id payload; /* 0: it has no bytes */
    uint32_t bytes;
    bool is_last;
};

#endif
