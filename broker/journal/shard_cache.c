/* SPDX-License-Identifier: MPL-2.0 */
/* shard_cache.c -- see shard_cache.h. */
#include "broker/journal/shard_cache.h"

#include "broker/journal/layout.h"
#include "broker/journal/proof.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* This name says that the directory is a cache, and may be emptied. */
#define CACHE_MARK "cache"
#define COPY_PREFIX "copy"

/* Another broker's cache is that of another shard or bus, too, so nobody waits for it. */
int shard_cache_lock(struct disk *folder, struct disk_owner *out_owner, char *why, size_t bytes)
{
    int result = folder->ops->lock(folder, false, out_owner);
    if (result != -EWOULDBLOCK)
        return result;
    snprintf(why, bytes,
             "'%.900s' is the cache of another broker, process %" PRId64
             ": name another directory with --cache DIR",
             folder->name, out_owner->pid);
    return -EBUSY;
}

struct found_names {
    struct disk *folder;
    bool has_mark;
    bool has_journal;
    bool is_emptying;
    int result;
};

static bool is_of_journal(const char *name)
{
    uint64_t first;
    return segment_name_read(name, &first) || strcmp(name, LAYOUT_SPARE) == 0 ||
           strcmp(name, LAYOUT_NEXT) == 0 || strcmp(name, PROOF_NAME) == 0 ||
           strncmp(name, LAYOUT_KEPT, strlen(LAYOUT_KEPT)) == 0 ||
           strncmp(name, COPY_PREFIX, strlen(COPY_PREFIX)) == 0;
}

void shard_cache_name(uint64_t number, char out_name[FORMAT_NAME_BYTES])
{
    snprintf(out_name, FORMAT_NAME_BYTES, COPY_PREFIX "%" PRIu64, number);
}

static void see_name(void *arg, const char *name)
{
    struct found_names *found = arg;
    found->has_mark = found->has_mark || strcmp(name, CACHE_MARK) == 0;
    if (!is_of_journal(name))
        return;
    found->has_journal = true;
    if (found->is_emptying && found->result == 0)
        found->result = found->folder->ops->unlink(found->folder, name);
}

int shard_cache_empty(struct disk *folder, char *why, size_t bytes)
{
    struct found_names found = {.folder = folder};
    int result = folder->ops->list(folder, see_name, &found);
    if (result == 0 && found.has_journal && !found.has_mark) {
        snprintf(why, bytes,
                 "'%.900s' has a journal, and a cache is emptied at each start: name another "
                 "directory with --cache DIR",
                 folder->name);
        return -EEXIST;
    }
    int mark = result == 0 ? folder->ops->open(folder, CACHE_MARK, DISK_MAKE) : result;
    if (mark < 0)
        return mark;
    folder->ops->shut(folder, mark);
    found.is_emptying = true;
    result = folder->ops->list(folder, see_name, &found);
    return result < 0 ? result : found.result;
}

int shard_cache_make(struct disk *folder, struct shard_kept *kept, const char *name)
{
    char file[FORMAT_NAME_BYTES];
    enum disk_how how = DISK_MAKE;
    if (kept->count > 0 && strcmp(name, LAYOUT_NEXT) == 0) {
        layout_kept_name(--kept->count, file);
        if (folder->ops->rename(folder, file, name) == 0)
            how = DISK_WRITE;
    }
    return folder->ops->open(folder, name, how);
}

int shard_cache_give_up(struct disk *folder, struct shard_kept *kept, const char *name,
                        uint64_t bytes)
{
    uint64_t first;
    char file[FORMAT_NAME_BYTES];
    bool is_segment = segment_name_read(name, &first) && bytes > 0;
    bool is_alike = kept->count == 0 || bytes == kept->bytes;
    if (is_segment && is_alike && kept->count < LAYOUT_KEPT_MAX) {
        layout_kept_name(kept->count, file);
        if (folder->ops->rename(folder, name, file) == 0) {
            kept->bytes = bytes;
            kept->count++;
            return 0;
        }
    }
    return folder->ops->unlink(folder, name);
}

/* Whether there was any. */
static bool release_all(struct disk *folder, struct shard_kept *kept)
{
    char file[FORMAT_NAME_BYTES];
    bool has_any = kept->count > 0;
    while (kept->count > 0) {
        layout_kept_name(--kept->count, file);
        (void)folder->ops->unlink(folder, file); /* or the next one that is kept takes its place */
    }
    return has_any;
}

int shard_cache_reserve(struct disk *folder, struct shard_kept *kept, int file, uint64_t bytes)
{
    int result = folder->ops->reserve(folder, file, bytes);
    if (journal_err_of(result) == JOURNAL_FULL && release_all(folder, kept))
        result = folder->ops->reserve(folder, file, bytes);
    return result;
}
