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

/* The number of the node, made if it is new; WAIT_GRAPH_NONE: no room.  out_is_new may be NULL. */
uint32_t walk_node(struct wait_walk *walk, enum wait_node_kind kind, uint32_t id, uint64_t seq,
                   bool *out_is_new);
/* One wait more: an edge, or a part of one that is there. */
void walk_edge(struct wait_walk *walk, const struct wait_edge *wait);

#endif
