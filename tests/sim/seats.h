/* SPDX-License-Identifier: MPL-2.0 */
/* seats.h -- processes that want one shard, each below its loop: it waits for the shard, opens the
 * journal, and then syncs it, or says that it is its own still.  The store is the model of nodes.h.
 *
 * Each process has a thread, because a call of the journal waits for the store while its broker
 * goes on.  But one thread of all runs at a time: the caller's, or that of a seat within
 * seats_run().  So a seed does the same again.  What a seat waits for takes virtual time. */
#ifndef SIM_SEATS_H
#define SIM_SEATS_H

#include "broker/journal/journal.h"
#include "tests/sim/nodes.h"

#include <stdbool.h>
#include <stdint.h>

enum { SEATS = 2 };
enum seat_news {
    SEAT_WAITS,      /* until a time, or for seats_wake() */
    SEAT_HAS_SHARD,  /* and the journal is open */
    SEAT_HAS_SYNCED, /* all that seats_write_fn wrote last */
    SEAT_IS_OVER,    /* the process has ended */
};

/* In the seat's thread: writes what the journal lacks.  Whether it is to be synced. */
typedef bool seats_write_fn(void *arg, unsigned seat);

struct seats;

struct seats *seats_new(uint64_t seed, seats_write_fn *write, void *arg);
/* All processes are killed. */
void seats_free(struct seats **seats);
/* For faults. */
struct nodes *seats_nodes(struct seats *seats);

/* A process begins there, where none is. */
void seats_start(struct seats *seats, unsigned seat);
/* It is gone at once, if there is one. */
void seats_kill(struct seats *seats, unsigned seat);
bool seats_are_taken(const struct seats *seats, unsigned seat);
/* Lets a process go on at this time, unless it waits for longer.  out_again_ms: when it must be let
 * go on; INT64_MAX: it need not, or that was told before. */
enum seat_news seats_run(struct seats *seats, unsigned seat, int64_t now_ms, int64_t *out_again_ms);
/* There is something to write: if it waits for that, it does not any more. */
void seats_wake(struct seats *seats, unsigned seat);

/* From SEAT_HAS_SHARD to SEAT_IS_OVER. */
struct journal *seats_journal(struct seats *seats, unsigned seat);
/* When the last call began after which the journal was its own. */
int64_t seats_kept_ms(const struct seats *seats, unsigned seat);

#endif
