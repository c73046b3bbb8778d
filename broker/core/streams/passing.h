/* SPDX-License-Identifier: MPL-2.0 */
/* passing.h -- values in chunks that have no room in their job: they pass through the broker. */
#ifndef CORE_STREAMS_PASSING_H
#define CORE_STREAMS_PASSING_H

#include "broker/core/model.h"
#include "broker/core/tables/slot_table.h"

/* What a value counts that passes through this open slot in chunks of so many bytes.  0: it may
 * not. */
uint64_t passing_charge(struct core *core, struct open_slot *open, uint64_t chunk_bytes);
/* Its first chunk is here, and nothing of it is gone. */
void passing_begin(struct core *core, struct open_slot *open, uint64_t charge);
/* All of it came: from now on it counts what is here. */
void passing_end(struct core *core, struct open_slot *open);
/* Something of it came. */
void passing_came(const struct core *core, struct open_slot *open);
/* Its timer is due.  Whether its readers took nothing for so long that the value is refused. */
bool passing_is_stalled(struct core *core, struct open_slot *open);
/* The slot is settled otherwise: its writer need not wait. */
void passing_drop(struct core *core, struct open_slot *open);
/* Readers took something, or went: what all of them took goes, and the writer may go on. */
void passing_update(struct core *core, struct topic *topic);
/* So much of the value may be sent until more is told; 0: all. */
uint64_t passing_limit(const struct topic *topic, uint64_t seq);
/* CHUNKED: so many bytes of the value are accepted. */
void passing_tell(struct core *core, struct session *session, const struct topic *topic,
                  uint64_t seq, uint64_t bytes);

/* Whether a chunk more, of this cost, is what the writer was told that it may send. */
static inline bool passing_has_room(const struct chunks *chunks, uint64_t cost)
{
    return chunks->cost + cost <= chunks->charged;
}

/* A value passes through: whether its writer has to wait for the readers. */
static inline bool passing_is_held(const struct topic *topic)
{
    return topic->passing->chunks->bytes >= passing_limit(topic, topic->passing->seq);
}

/* Whether a part of it is gone.  Who comes late cannot have it. */
static inline bool passing_is_cut(const struct core *core, const struct slot_entry *entry)
{
    return entry->state == SLOT_CHUNKED &&
           ((const struct chunks *)pool_find(&core->chunk_sets, entry->ref))->gone > 0;
}

/* Whether what this route is to be sent next of it is gone. */
static inline bool passing_is_missed(const struct route *route, const struct chunks *chunks)
{
    return route->chunk_offset < chunks->gone;
}

/* A route begins there.  So far it is late for values that passed through. */
void passing_meet(const struct core *core, struct route *route);
/* Whether the route waits for the outcome of a value that passes through. */
bool passing_is_awaited(const struct core *core, struct route *route);

/* The route has nothing to send.  If what it needs is gone, the value does not wait for it. */
void passing_leave(struct core *core, struct route *route);
static inline void passing_look(struct core *core, struct route *route)
{
    if (route->topic->passing != NULL)
        passing_leave(core, route);
}

#endif
