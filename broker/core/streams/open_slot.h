/* SPDX-License-Identifier: MPL-2.0 */
/* open_slot.h -- slots without outcome: their terms, and the chunks of their values. */
#ifndef CORE_STREAMS_OPEN_SLOT_H
#define CORE_STREAMS_OPEN_SLOT_H

#include "broker/core/model.h"

/* Reserves one open slot behind the last; false: no room. */
bool open_slot_promise(struct core *core, struct topic *topic, uint64_t seq,
                       uint64_t value_bytes_max, int64_t deadline_ms, int64_t due_wall_ns);
/* The open slot of this number, or NULL. */
struct open_slot *open_slot_find(struct core *core, struct topic *topic, uint64_t seq);
/* The terms of the slot, made if it has none; NULL: no memory. */
struct slot_terms *open_slot_terms(struct core *core, struct open_slot *open);
/* Adds one chunk to the slot's value; false: no memory. */
bool open_slot_add_chunk(struct core *core, struct open_slot *open, uint64_t total,
                         const struct chunk *chunk);
/* What a value of total bytes costs in chunks of so many bytes, above 0. */
uint64_t chunks_cost_of(uint64_t total, uint64_t chunk_bytes);
/* The chunk that holds byte at of the value; NULL: it is gone, or not here yet. */
const struct chunk *chunks_at(const struct chunks *chunks, uint64_t at);
/* Drops the chunks of a reply that its worker does not finish. */
void open_slot_drop_chunks(struct core *core, struct open_slot *reply);
/* Frees the open slot and its terms.  Its entry in the topic and its awaits stay. */
void open_slot_forget(struct core *core, struct open_slot *open);

#endif
