/* SPDX-License-Identifier: MPL-2.0 */
/* failure.h -- errors that slots, events and ends share. */
#ifndef CORE_MODEL_FAILURE_H
#define CORE_MODEL_FAILURE_H

#include "libbus/base/limits.h"
#include "libbus/base/list.h"
#include "libbus/base/span.h"
#include "libbus/wire/error.h"

#include <stdbool.h>
#include <stdint.h>

/* A failure that slots, events and ends share: the encoded error and what the core needs of it. */
struct failure {
    uint32_t id; /* of the pool; first in every pooled object */
    uint32_t refs;
    uint8_t *bytes;
    uint32_t byte_count;
    uint32_t id_bytes; /* where the error's id lies in bytes */
    uint32_t id_at;
    uint32_t type_bytes; /* where its type lies */
    uint32_t type_at;
    uint32_t slot_count; /* entries of topics that are this error: streams/entry.c */
    bool is_paid_by_job; /* the entry that paid for its bytes is gone, and others are not */
    uint64_t number;     /* in facts; 0: no fact has named it */
    enum error_kind kind;
    struct list same_id;     /* other failures with its id, in a ring */
    struct list unused_link; /* in core->unused_failures: no reference is left */
};

/* An error that a job can fail of, kept for reports and snapshots. */
struct judged {
    struct failure *failure;  /* a reference */
    int64_t at_ns;            /* when it came */
    int64_t believed_from_ns; /* no stamp of its incarnation counts before; 0: not known */
    uint32_t blamed[LIMIT_ERROR_BLAMES]; /* incarnations of the parties it blames; 0: not known */
};

/* An error that stands for the open slots of an incarnation that fall because of root. */
struct fallen {
    struct failure *root;    /* a reference; NULL: the place is free */
    struct failure *failure; /* a reference */
    uint32_t party;
    uint32_t incarnation;
};

#endif
