/* SPDX-License-Identifier: MPL-2.0 */
/* disk.c -- what all makings of a disk have in common. */
#include "broker/journal/disk.h"

#include <errno.h>

/* Steps over what was written: the first piece that has bytes left, its rest. */
static int step(struct iovec **pieces, int *count, size_t bytes)
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
    while (step(&pieces, &count, 0) > 0) {
        int64_t written = disk->ops->write(disk, file, pieces, count, offset);
        if (written <= 0)
            return written < 0 ? (int)written : -EIO;
        step(&pieces, &count, (size_t)written);
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
