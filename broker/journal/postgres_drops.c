/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_drops.c -- see postgres_drops.h. */
#include "broker/journal/postgres_drops.h"

#include <stdlib.h>

/* A table that is locked, as by a backup, is tried again after so many commits.  One time that the
 * holder says that it is there, because nothing is to be committed, counts as many. */
enum { PAUSE_LOCKED = 1000, PASSED_WHEN_IDLE = 50 };
/* One whose connection broke is tried again soon, for the server may have ended by itself.  If that
 * breaks the next connection, too, the drop takes longer than the server is waited for. */
enum { PAUSE_BROKEN = PASSED_WHEN_IDLE };
/* Tables that wait while there is something to commit. */
enum { WAITING_MAX = 8 };

void store_drops_add(struct store_drops *drops, uint64_t file)
{
    if (drops->count == drops->room) {
        size_t room = drops->room > 0 ? 2 * drops->room : 16;
        uint64_t *grown = realloc(drops->files, room * sizeof *grown);
        if (grown == NULL)
            return;
        drops->files = grown;
        drops->room = room;
    }
    drops->files[drops->count++] = file;
}

static unsigned next_pause(struct store_drops *drops, const struct store *store)
{
    bool is_again = drops->is_broken;
    drops->is_broken = !store->is_connected;
    return drops->is_broken && !is_again ? PAUSE_BROKEN : PAUSE_LOCKED;
}

/* Until no more than these wait, or one could not be dropped. */
static void drop_some(struct store_drops *drops, struct store *store, unsigned passed,
                      size_t waiting_max)
{
    drops->pause = drops->pause > passed ? drops->pause - passed : 0;
    while (drops->count > waiting_max && drops->pause == 0) {
        if (store_drop(store, drops->files[drops->count - 1])) {
            drops->count--;
            drops->is_broken = false;
        } else {
            drops->pause = next_pause(drops, store);
        }
    }
}

void store_drops_behind_commit(struct store_drops *drops, struct store *store)
{
    drop_some(drops, store, 1, WAITING_MAX);
}

void store_drops_when_idle(struct store_drops *drops, struct store *store)
{
    drop_some(drops, store, PASSED_WHEN_IDLE, 0);
}

void store_drops_fini(struct store_drops *drops)
{
    free(drops->files);
    *drops = (struct store_drops){.count = 0};
}
