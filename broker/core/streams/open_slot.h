/* SPDX-License-Identifier: MPL-2.0 */
/* open_slot.h -- slots without outcome: promised, their terms, the pieces of their values. */
#ifndef CORE_STREAMS_OPEN_SLOT_H
#define CORE_STREAMS_OPEN_SLOT_H

#include "broker/core/model.h"

/* Chunks of a reply that its worker does not finish. */
void open_slot_drop_chunks(struct core *core, struct open_slot *reply);
/* One open slot behind the last; false: no room. */
bool open_slot_promise(struct core *core, struct topic *topic, uint64_t seq,
                       uint64_t value_bytes_max, int64_t deadline_ms, int64_t due_wall_ns);
/* One chunk more of an open slot's value; false: no memory. */
bool open_slot_add_chunk(struct core *core, struct open_slot *open, uint64_t total,
                         const struct chunk *chunk);
struct open_slot *open_slot_find(struct core *core, struct topic *topic, uint64_t seq);
/* Those that it has, or new ones that say nothing; NULL: no memory. */
struct slot_terms *open_slot_terms(struct core *core, struct open_slot *open);
/* Takes it out of all but its awaits and its table, and gives it back. */
void open_slot_forget(struct core *core, struct open_slot *open);

#endif
