/* SPDX-License-Identifier: MPL-2.0 */
/* shard_cache.h -- the directory in which a broker has its copy of a shard.  It is this broker's
 * alone, and is never trusted: whoever takes the shard empties it first. */
#ifndef JOURNAL_SHARD_CACHE_H
#define JOURNAL_SHARD_CACHE_H

#include "broker/journal/disk.h"

#include <stddef.h>

/* 0; -EBUSY: another broker has it; or another negative errno.  Where a sentence says more, it is
 * in why, of `bytes`. */
int shard_cache_lock(struct disk *folder, struct disk_owner *out_owner, char *why, size_t bytes);
/* Removes all of a journal that is there, and marks the directory as a cache.  -EEXIST, and why: it
 * has a journal and no mark, so that may be a journal that somebody needs. */
int shard_cache_empty(struct disk *folder, char *why, size_t bytes);

#endif
