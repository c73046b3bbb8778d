/* SPDX-License-Identifier: MPL-2.0 */
/* nodes.h -- PostgreSQL as a model: three nodes, of which one takes writes, and a commit waits for
 * one of the two others.  Brokers reach it by doors (postgres_door.h).
 *
 * All it answers follows from a seed.  While a statement is on its way, carried out, or waits for a
 * standby, `meanwhile` is called: it lets time pass, and others act.  A commit can be seen before a
 * standby has it, and goes with its node.  It knows the statements of postgres_store.c and
 * postgres_take.c by their text, and carries out what they say and no more. */
#ifndef SIM_NODES_H
#define SIM_NODES_H

#include "broker/journal/postgres_store.h"
#include "tests/sim/dice.h"

enum { NODES_CLIENTS_MAX = 4 };

enum nodes_cut {
    NODES_WHOLE,
    NODES_CLOSED, /* connections end, and none can be made */
    NODES_SILENT, /* nothing passes */
};

struct nodes;
typedef void nodes_meanwhile_fn(void *arg, unsigned client, int64_t ms);

struct nodes *nodes_new(uint64_t seed, nodes_meanwhile_fn *meanwhile, void *arg);
void nodes_free(struct nodes **nodes);

/* A door for this client, who has no other one. */
struct door *nodes_door(struct nodes *nodes, unsigned client);
/* The client's process is gone: its doors do nothing any more. */
void nodes_kill(struct nodes *nodes, unsigned client);

int64_t nodes_now_ms(const struct nodes *nodes);
void nodes_pass(struct nodes *nodes, int64_t ms);
/* A client from all nodes. */
void nodes_cut(struct nodes *nodes, unsigned client, enum nodes_cut cut);
/* The standbys from the node that takes writes. */
void nodes_cut_standbys(struct nodes *nodes, bool is_cut);
/* The node that takes writes is gone with all that no standby has.  The standby that has most takes
 * writes so much later. */
void nodes_fail_over(struct nodes *nodes, int64_t after_ms);
/* The same, but a standby takes writes that lacks at least the last commit that was confirmed, and
 * perhaps some before it.  false: there is none to lack. */
bool nodes_promote_lagging(struct nodes *nodes);
/* Whoever waits for a standby waits no more, and is warned. */
void nodes_cancel(struct nodes *nodes);
/* No commit waits for a standby any more, and each says so; or all do again. */
void nodes_set_aside(struct nodes *nodes, bool is_set_aside);
/* All cables are whole, and commits wait for a standby. */
void nodes_heal(struct nodes *nodes);
/* The sessions of this client end. */
void nodes_terminate(struct nodes *nodes, unsigned client);
/* Nobody waits for anything any more. */
void nodes_give_up(struct nodes *nodes);

/* Of the row that can be seen. */
uint64_t nodes_epoch(const struct nodes *nodes);
/* What must not be: a shard was taken from a holder that is well.  NULL: nothing yet. */
const char *nodes_wrong(const struct nodes *nodes);
/* How often an answer was in doubt, and a commit was undone with its node. */
uint64_t nodes_doubts(const struct nodes *nodes);
uint64_t nodes_undone(const struct nodes *nodes);

#endif
