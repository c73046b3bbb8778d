/* SPDX-License-Identifier: MPL-2.0 */
/* shard_cache.h -- the directory in which a broker has its copy of a shard.  It is this broker's
 * alone, and what another process left in it is never trusted: it is emptied first. */
#ifndef JOURNAL_SHARD_CACHE_H
#define JOURNAL_SHARD_CACHE_H

#include "broker/journal/disk.h"
#include "broker/journal/format.h"

#include <stddef.h>

/* 0; -EBUSY: another broker has it; or another negative errno.  Where a sentence says more, it is
 * in why, of `bytes`. */
int shard_cache_lock(struct disk *folder, struct disk_owner *out_owner, char *why, size_t bytes);
/* Removes all of a journal that is there, and marks the directory as a cache.  -EEXIST, and why: it
 * has a journal and no mark, so that may be a journal that somebody needs. */
int shard_cache_empty(struct disk *folder, char *why, size_t bytes);
/* The name of a file until the copy of the shard is whole, by its number in the store. */
void shard_cache_name(uint64_t number, char out_name[FORMAT_NAME_BYTES]);

#endif
