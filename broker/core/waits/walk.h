/* SPDX-License-Identifier: MPL-2.0 */
/* walk.h -- the graph of a job's waits, while it is collected: nodes and edges, each once. */
#ifndef CORE_WAITS_WALK_H
#define CORE_WAITS_WALK_H

#include "broker/core/model.h"

/* A walk through the waits of a job, which begins with the next waits_go_on(); NULL: no memory. */
struct wait_walk *walk_begin(struct core *core, struct job *job);
void walk_free(struct core *core, struct wait_walk *walk);
/* The job; NULL: it is gone. */
struct job *walk_job(const struct core *core, const struct wait_walk *walk);

/* The number of the node, made if it is new; WAIT_GRAPH_NONE: no room.  Not of a slot.  out_is_new
 * may be NULL. */
uint32_t walk_node(struct wait_walk *walk, enum wait_node_kind kind, uint32_t id, bool *out_is_new);
/* The same of a slot; open NULL: it is not open, so no other needs it. */
uint32_t walk_slot(struct wait_walk *walk, const struct topic *topic, uint64_t seq,
                   const struct open_slot *open);
/* A wait of this node has no room.  It may be the one that ends, so the node is in no cycle. */
void walk_leave_out(struct wait_walk *walk, uint32_t from);
/* One wait more: an edge, or a part of one that is there. */
void walk_edge(struct wait_walk *walk, const struct wait_edge *wait);

#endif
