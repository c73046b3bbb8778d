/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_drops.h -- tables of files that are gone, which are to be dropped.
 *
 * To drop a table takes as long as some commits, and whoever waits for the next commit waits for
 * that, too.  So it is done when nothing is to be committed, or when many tables wait. */
#ifndef JOURNAL_POSTGRES_DROPS_H
#define JOURNAL_POSTGRES_DROPS_H

#include "broker/journal/postgres_store.h"

struct store_drops {
    uint64_t *files; /* gone from the store, and each has a table there */
    size_t count;
    size_t room;
    unsigned pause; /* until the next attempt */
    bool is_broken; /* in the last attempt the connection broke */
};

/* Without memory the table stays until the next holder sweeps. */
void store_drops_add(struct store_drops *drops, uint64_t file);
/* Behind a commit, and behind a sign of the holder where nothing is to be committed. */
void store_drops_behind_commit(struct store_drops *drops, struct store *store);
void store_drops_when_idle(struct store_drops *drops, struct store *store);
void store_drops_fini(struct store_drops *drops);

#endif
