/* SPDX-License-Identifier: MPL-2.0 */
/* open_slot.h -- a slot without outcome, and what came of its value so far. */
#ifndef CORE_MODEL_OPEN_SLOT_H
#define CORE_MODEL_OPEN_SLOT_H

#include "broker/core/tables/event.h"
#include "broker/core/tables/timers.h"
#include "libbus/base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define OPEN_SLOT_DS_NS INT64_C(100000000)

/* An open slot, beside its entry in the topic. */
struct open_slot {
    uint32_t id;
    uint32_t since_ds; /* since when, by core_clock() in tenths of a second: in what was a hole */
    uint64_t seq;
    struct topic *topic;
    uint64_t value_bytes_max;
    struct slot_terms *terms; /* NULL: it has none */
    struct list awaits;
    struct list party_link;
    struct chunks *chunks; /* of its value that came; or NULL */
};

/* What few open slots need: there may be a million of the others. */
struct slot_terms {
    uint32_t id;
    struct open_slot *open;
    struct timer timer;
    bool is_looked_again;   /* its timer was late, and is set once more */
    int64_t deadline_ms;    /* -1: none */
    int64_t ends_ns;        /* the deadline; INT64_MAX: none */
    int64_t due_wall_ns;    /* the same by the wall clock, for a restart */
    struct list needs;      /* edges in core->needs */
    uint32_t request_topic; /* topic of the request that it answers; 0: it is no reply */
    uint64_t request_seq;
    bool is_unserved;         /* no member served it when that was looked at last ... */
    int64_t unserved_ns;      /* ... and it fails then if none does */
    struct list request_link; /* in that topic's requests */
};

/* Whether it is the reply slot of a request. */
static inline bool open_slot_is_reply(const struct open_slot *open)
{
    return open->terms != NULL && open->terms->request_topic != 0;
}

/* A value in chunks: its slot and the readers on the way through it share it. */
struct chunk {
    uint64_t begin; /* of its bytes in the value */
    payload_id payload;
    uint32_t bytes; /* of the value */
    uint32_t frame_bytes;
    uint32_t offset; /* of the frame in the payload */
};

/* What a chunk costs in memory: its frame, and this struct.  In small chunks a value costs many
 * times its bytes. */
static inline uint64_t chunk_cost(uint64_t frame_bytes)
{
    return frame_bytes + sizeof(struct chunk);
}

struct chunks {
    uint32_t id;
    uint32_t refs;
    struct chunk *items;
    uint32_t count, room;
    uint64_t bytes; /* that came so far */
    uint64_t cost;  /* chunk_cost() of all that are here */
    uint64_t total;
    /* A value that passes through: streams/passing.c. */
    bool is_passing;
    uint64_t charged;      /* what it counts, however much of it is here */
    uint64_t window_bytes; /* its writer may be so far ahead of its readers */
    uint64_t gone;         /* bytes that all its readers took, and that are not here any more */
    uint32_t first;        /* index of the first chunk that is here */
    uint64_t limit;        /* what its writer was last told */
    int64_t moved_ns;      /* when something of it came or went last; core_clock() */
};

/* What it counts in its topic and its job. */
static inline uint64_t chunks_weight(const struct chunks *chunks)
{
    return chunks->is_passing ? chunks->charged : chunks->cost;
}

#endif
