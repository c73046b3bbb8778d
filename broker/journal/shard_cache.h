/* SPDX-License-Identifier: MPL-2.0 */
/* shard_cache.h -- the directory in which a broker has its copy of a shard.  It is this broker's
 * alone, and what another process left in it is never trusted: it is emptied first. */
#ifndef JOURNAL_SHARD_CACHE_H
#define JOURNAL_SHARD_CACHE_H

#include "broker/journal/disk.h"
#include "broker/journal/format.h"

#include <stddef.h>
#include <stdint.h>

/* Files of segments that were given up, to be used again: their pages are there, and to find new
 * ones takes longer than to write to them.  All are of one size.  What they had is still in them,
 * behind what is written anew; no record there belongs to its position.
 *
 * A lazy journal keeps its files itself (journal_flush.c), under the same names.  One in a shard
 * cannot: it has names in the store, and what it renames keeps its table there.  So the journal
 * removes a segment and makes a new one, and only the cache knows that the file is the same. */
struct shard_kept {
    unsigned count;
    uint64_t bytes; /* of each */
};

/* 0; -EBUSY: another broker has it; or another negative errno.  Where a sentence says more, it is
 * in why, of `bytes`. */
int shard_cache_lock(struct disk *folder, struct disk_owner *out_owner, char *why, size_t bytes);
/* Removes all of a journal that is there, and marks the directory as a cache.  -EEXIST, and why: it
 * has a journal and no mark, so that may be a journal that somebody needs. */
int shard_cache_empty(struct disk *folder, char *why, size_t bytes);
/* The name of a file until the copy of the shard is whole, by its number in the store. */
void shard_cache_name(uint64_t number, char out_name[FORMAT_NAME_BYTES]);

/* A new file, which may be one that was kept.  Returns its handle, or a negative errno. */
int shard_cache_make(struct disk *folder, struct shard_kept *kept, const char *name);
/* Gives a file up: it is kept or removed.  bytes: that it has.  0, or a negative errno. */
int shard_cache_give_up(struct disk *folder, struct shard_kept *kept, const char *name,
                        uint64_t bytes);
/* Gives a file room (`reserve` of struct disk).  On a full disk it removes what is kept first. */
int shard_cache_reserve(struct disk *folder, struct shard_kept *kept, int file, uint64_t bytes);

#endif
