/* SPDX-License-Identifier: MPL-2.0 */
/* cycle.h -- one cycle of waits: what it is made of, whether it is sure, and what is said of it. */
#ifndef CORE_WAITS_CYCLE_H
#define CORE_WAITS_CYCLE_H

#include "broker/core/model.h"
#include "libbus/base/wait_graph.h"

struct cycle {
    const struct wait_walk *walk;
    struct wait_graph *graph; /* solved */
    uint32_t number;          /* of the cycle in the graph */
    uint32_t first;           /* a party of it */
    uint32_t party_count;
    bool is_sure;                     /* only the broker can end one of its waits */
    const struct wait_edge *youngest; /* of the waits of parties; NULL: there is none */
    struct wait_cycle key;
};

struct cycle_text {
    char data[LIMIT_ERROR_MESSAGE_BYTES + 1];
    size_t bytes;
};

/* The party of a node; NULL: it is none, or gone. */
struct party *cycle_party(const struct core *core, const struct wait_walk *walk, uint32_t node);
/* Whether this wait holds up the one that waits: all its calls may be blocked for ever. */
bool cycle_counts(const struct core *core, const struct wait_walk *walk,
                  const struct wait_edge *edge);
/* walk, graph and number are set: fills in the rest. */
void cycle_examine(const struct core *core, struct cycle *cycle);
bool cycle_has(const struct cycle *cycle, uint32_t node);
bool cycle_has_wait(const struct core *core, const struct cycle *cycle,
                    const struct wait_edge *edge);
void cycle_describe(const struct core *core, struct cycle *cycle, struct cycle_text *sentence);

#endif
