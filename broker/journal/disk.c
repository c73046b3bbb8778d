/* SPDX-License-Identifier: MPL-2.0 */
/* disk.c -- what all disks have in common: how they are chosen by name, and whole reads and writes.
 */
#include "broker/journal/disk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { SCHEME_SHOWN_MAX = 100 };

/* Steps over what was written: the first piece that has bytes left, its rest. */
static int disk_step(struct iovec **pieces, int *count, size_t bytes)
{
    while (*count > 0 && bytes >= (*pieces)->iov_len) {
        bytes -= (*pieces)->iov_len;
        (*pieces)++;
        (*count)--;
    }
    if (*count > 0) {
        (*pieces)->iov_base = (uint8_t *)(*pieces)->iov_base + bytes;
        (*pieces)->iov_len -= bytes;
    }
    return *count;
}

int disk_write_all(struct disk *disk, int file, struct iovec *pieces, int count, uint64_t offset)
{
    while (disk_step(&pieces, &count, 0) > 0) {
        int64_t written = disk->ops->write(disk, file, pieces, count, offset);
        if (written <= 0)
            return written < 0 ? (int)written : -EIO;
        disk_step(&pieces, &count, (size_t)written);
        offset += (uint64_t)written;
    }
    return 0;
}

int64_t disk_read_at(struct disk *disk, int file, void *out, size_t bytes, uint64_t offset)
{
    struct iovec piece = {.iov_base = out, .iov_len = bytes};
    return disk->ops->read(disk, file, &piece, 1, offset);
}

void disk_close(struct disk **disk)
{
    if (*disk != NULL)
        (*disk)->ops->close(*disk);
    *disk = NULL;
}

/* ---- by name --------------------------------------------------------------------------------- */

/* Length of the scheme that a name begins with; 0: it is a path. */
static size_t scheme_length(const char *where)
{
    size_t length = strcspn(where, ":/.");
    return where[length] == ':' ? length : 0;
}

static const struct disk_kind *find_kind(const char *where)
{
    size_t length = scheme_length(where);
    if (length == 0)
        return &disk_kinds[0];
    for (size_t i = 0; i < disk_kind_count; i++)
        if (strlen(disk_kinds[i].scheme) == length &&
            memcmp(disk_kinds[i].scheme, where, length) == 0)
            return &disk_kinds[i];
    return NULL;
}

static int refuse_scheme(const char *where, char *complaint)
{
    int length = (int)scheme_length(where);
    size_t used = (size_t)snprintf(complaint, DISK_COMPLAINT_BYTES,
                                   "unknown scheme '%.*s:' of a journal; use",
                                   length < SCHEME_SHOWN_MAX ? length : SCHEME_SHOWN_MAX, where);
    for (size_t i = 0; i < disk_kind_count && used < DISK_COMPLAINT_BYTES; i++)
        used += (size_t)snprintf(complaint + used, DISK_COMPLAINT_BYTES - used, "%s %s:%s",
                                 i > 0 ? "," : "", disk_kinds[i].scheme, disk_kinds[i].rest);
    if (used < DISK_COMPLAINT_BYTES)
        snprintf(complaint + used, DISK_COMPLAINT_BYTES - used, "%s",
                 ", or a directory without a scheme");
    return -DISK_UNKNOWN;
}

int disk_open(const char *where, bool may_make, struct disk **out_disk, char *complaint)
{
    const struct disk_kind *kind = find_kind(where);
    size_t length = scheme_length(where);
    if (kind == NULL)
        return refuse_scheme(where, complaint);
    return kind->open(where + (length > 0 ? length + 1 : 0), may_make, out_disk, complaint);
}

bool disk_is_shared(const char *where)
{
    const struct disk_kind *kind = find_kind(where);
    return kind != NULL && kind->open_shard != NULL;
}

int disk_open_shard(const char *where, bool may_make, const struct disk_shard *shard,
                    struct disk **out_disk, char *complaint)
{
    if (shard == NULL || !disk_is_shared(where))
        return disk_open(where, may_make, out_disk, complaint);
    return find_kind(where)->open_shard(where + scheme_length(where) + 1, shard, out_disk,
                                        complaint);
}
