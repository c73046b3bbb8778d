/* SPDX-License-Identifier: MPL-2.0 */
/* open_slot.h -- a slot without outcome, and what came of its value so far. */
#ifndef CORE_MODEL_OPEN_SLOT_H
#define CORE_MODEL_OPEN_SLOT_H

#include "broker/core/tables/event.h"
#include "broker/core/tables/timers.h"
#include "libbus/base/list.h"

#include <stdbool.h>
#include <stdint.h>

/* What an open slot has beside its entry. */
struct open_slot {
    uint32_t id;
    uint64_t seq;
    struct topic *topic;
    uint64_t value_bytes_max;
    struct slot_terms *terms; /* NULL: it has none */
    struct list awaits;
    struct list party_link;
    struct chunks *chunks; /* what came so far, or NULL */
};

/* What few open slots have: there may be a million of the others. */
struct slot_terms {
    uint32_t id;
    struct open_slot *open;
    struct timer timer;
    int64_t deadline_ms;    /* -1: none */
    int64_t ends_ns;        /* the deadline; INT64_MAX: none */
    int64_t due_wall_ns;    /* the same by the wall clock, for a restart */
    struct list needs;      /* edges in core->needs */
    uint32_t request_topic; /* of the request that it is for; 0: it is for none */
    uint64_t request_seq;
    struct list request_link; /* in that topic's requests */
};

/* Whether it is for a reply, whose request it has in its terms. */
static inline bool open_slot_is_reply(const struct open_slot *open)
{
    return open->terms != NULL && open->terms->request_topic != 0;
}

/* A value in chunks: shared by its slot and by who is being sent it. */
struct chunk {
    payload_id payload;
    uint32_t bytes; /* of the value in it */
    uint32_t frame_bytes;
    uint32_t offset; /* of its frame in the payload */
};

struct chunks {
    uint32_t id;
    uint32_t refs;
    struct chunk *items;
    uint32_t count, room;
    uint64_t bytes; /* that came */
    uint64_t total;
};

#endif
