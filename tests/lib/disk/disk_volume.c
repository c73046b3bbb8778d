/* SPDX-License-Identifier: MPL-2.0 */
/* disk_volume.c -- a folder whose files change when they are synced; see disk_volume.h. */
#include "tests/lib/disk/disk_volume.h"

#include "libbus/base/must.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes that were written and not synced. */
struct piece {
    struct piece *next;
    int file;
    uint64_t offset;
    size_t bytes;
    uint8_t data[];
};
struct volume {
    struct disk disk;
    struct disk *folder;
    pthread_mutex_t lock; /* a lazy journal is synced beside the appends; protects the pieces */
    struct piece *first;  /* in the order in which they were written */
    struct piece *last;
    char gone[PATH_MAX]; /* the file that says so */
};

static struct volume *volume_of(struct disk *disk)
{
    return (struct volume *)(void *)disk;
}

static struct disk *folder_of(struct disk *disk)
{
    return volume_of(disk)->folder;
}

static bool is_gone(struct disk *disk)
{
    return access(volume_of(disk)->gone, F_OK) == 0;
}

/* ---- what is not synced ---------------------------------------------------------------------- */

static int volume_keep(struct volume *volume, int file, const struct iovec *from, uint64_t offset)
{
    struct piece *piece = malloc(sizeof *piece + from->iov_len);
    if (piece == NULL)
        return -ENOMEM;
    *piece = (struct piece){.file = file, .offset = offset, .bytes = from->iov_len};
    if (piece->bytes > 0)
        memcpy(piece->data, from->iov_base, piece->bytes);
    pthread_mutex_lock(&volume->lock);
    if (volume->last != NULL)
        volume->last->next = piece;
    else
        volume->first = piece;
    volume->last = piece;
    pthread_mutex_unlock(&volume->lock);
    return 0;
}

static int put(struct volume *volume, const struct piece *piece)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)piece->data, .iov_len = piece->bytes};
    return disk_write_all(volume->folder, piece->file, &part, 1, piece->offset);
}

/* Writes the pieces of a file that begin below this offset into the folder. */
static int settle(struct volume *volume, int file, uint64_t below)
{
    struct piece **link = &volume->first;
    int result = 0;
    pthread_mutex_lock(&volume->lock);
    volume->last = NULL;
    while (*link != NULL) {
        struct piece *piece = *link;
        if (piece->file == file && piece->offset < below && result == 0) {
            result = put(volume, piece);
            *link = piece->next;
            free(piece);
        } else {
            volume->last = piece;
            link = &piece->next;
        }
    }
    pthread_mutex_unlock(&volume->lock);
    return result;
}

/* Puts what is not synced over what was read from the folder; how many bytes there are now. */
static uint64_t cover(struct volume *volume, int file, uint8_t *data, uint64_t offset, uint64_t got,
                      uint64_t wanted)
{
    pthread_mutex_lock(&volume->lock);
    for (const struct piece *piece = volume->first; piece != NULL; piece = piece->next) {
        uint64_t from = piece->offset > offset ? piece->offset : offset;
        uint64_t until = piece->offset + piece->bytes;
        if (until > offset + wanted)
            until = offset + wanted;
        if (piece->file != file || from >= until)
            continue;
        memcpy(data + (from - offset), piece->data + (from - piece->offset), until - from);
        if (until - offset > got)
            got = until - offset;
    }
    pthread_mutex_unlock(&volume->lock);
    return got;
}

/* ---- the operations -------------------------------------------------------------------------- */

static int volume_lock(struct disk *disk, bool is_reader, struct disk_owner *out_owner)
{
    struct disk *folder = folder_of(disk);
    return is_gone(disk) ? -EIO : folder->ops->lock(folder, is_reader, out_owner);
}

static int volume_list(struct disk *disk, void (*visit)(void *arg, const char *name), void *arg)
{
    struct disk *folder = folder_of(disk);
    return is_gone(disk) ? -EIO : folder->ops->list(folder, visit, arg);
}

static int volume_open(struct disk *disk, const char *name, enum disk_how how)
{
    struct disk *folder = folder_of(disk);
    return is_gone(disk) ? -EIO : folder->ops->open(folder, name, how);
}

/* As a file system does it some time later. */
static void volume_shut(struct disk *disk, int file)
{
    struct disk *folder = folder_of(disk);
    if (!is_gone(disk))
        (void)settle(volume_of(disk), file, UINT64_MAX); /* nobody asked whether it went well */
    folder->ops->shut(folder, file);
}

static int64_t volume_read(struct disk *disk, int file, const struct iovec *pieces, int count,
                           uint64_t offset)
{
    struct disk *folder = folder_of(disk);
    int64_t got = 0;
    for (int i = 0; i < count; i++) {
        int64_t some =
            is_gone(disk) ? -EIO : folder->ops->read(folder, file, pieces + i, 1, offset);
        if (some < 0)
            return some;
        some = (int64_t)cover(volume_of(disk), file, pieces[i].iov_base, offset, (uint64_t)some,
                              pieces[i].iov_len);
        got += some;
        offset += (uint64_t)some;
        if ((uint64_t)some < pieces[i].iov_len)
            break;
    }
    return got;
}

static int64_t volume_write(struct disk *disk, int file, const struct iovec *pieces, int count,
                            uint64_t offset)
{
    uint64_t at = offset;
    for (int i = 0; i < count; i++) {
        int result = is_gone(disk) ? -EIO : volume_keep(volume_of(disk), file, pieces + i, at);
        if (result < 0)
            return result;
        at += pieces[i].iov_len;
    }
    return (int64_t)(at - offset);
}

static int volume_sync_until(struct disk *disk, int file, uint64_t offset)
{
    struct disk *folder = folder_of(disk);
    int result = is_gone(disk) ? -EIO : settle(volume_of(disk), file, offset);
    return result < 0 ? result : folder->ops->sync_until(folder, file, offset);
}

static int volume_sync(struct disk *disk, int file)
{
    return volume_sync_until(disk, file, UINT64_MAX);
}

static void volume_hint(struct disk *disk, int file, uint64_t offset, uint64_t bytes)
{
    (void)disk; /* nothing is begun */
    (void)file;
    (void)offset;
    (void)bytes;
}

static int volume_reserve(struct disk *disk, int file, uint64_t bytes)
{
    struct disk *folder = folder_of(disk);
    return is_gone(disk) ? -EIO : folder->ops->reserve(folder, file, bytes);
}

static int64_t volume_size(struct disk *disk, int file)
{
    struct disk *folder = folder_of(disk);
    struct volume *volume = volume_of(disk);
    int64_t bytes = is_gone(disk) ? -EIO : folder->ops->size(folder, file);
    pthread_mutex_lock(&volume->lock);
    for (struct piece *piece = volume->first; piece != NULL; piece = piece->next)
        if (bytes >= 0 && piece->file == file && piece->offset + piece->bytes > (uint64_t)bytes)
            bytes = (int64_t)(piece->offset + piece->bytes);
    pthread_mutex_unlock(&volume->lock);
    return bytes;
}

static int volume_rename(struct disk *disk, const char *from, const char *to)
{
    struct disk *folder = folder_of(disk);
    return is_gone(disk) ? -EIO : folder->ops->rename(folder, from, to);
}

static int volume_unlink(struct disk *disk, const char *name)
{
    struct disk *folder = folder_of(disk);
    return is_gone(disk) ? -EIO : folder->ops->unlink(folder, name);
}

static int volume_sync_names(struct disk *disk)
{
    struct disk *folder = folder_of(disk);
    return is_gone(disk) ? -EIO : folder->ops->sync_names(folder);
}

/* What is not synced is gone with the process. */
static void volume_close(struct disk *disk)
{
    struct volume *volume = volume_of(disk);
    while (volume->first != NULL) {
        struct piece *piece = volume->first;
        volume->first = piece->next;
        free(piece);
    }
    disk_close(&volume->folder);
    pthread_mutex_destroy(&volume->lock);
    free(volume);
}

/* ---- opening --------------------------------------------------------------------------------- */

int disk_volume_open(const char *rest, bool may_make, struct disk **out_disk, char *complaint)
{
    static const struct disk_ops ops = {.lock = volume_lock,
                                        .list = volume_list,
                                        .open = volume_open,
                                        .shut = volume_shut,
                                        .read = volume_read,
                                        .write = volume_write,
                                        .sync = volume_sync,
                                        .sync_until = volume_sync_until,
                                        .push = volume_hint,
                                        .ahead = volume_hint,
                                        .reserve = volume_reserve,
                                        .size = volume_size,
                                        .rename = volume_rename,
                                        .unlink = volume_unlink,
                                        .sync_names = volume_sync_names,
                                        .close = volume_close};
    struct volume *volume = calloc(1, sizeof *volume);
    if (volume == NULL)
        return -ENOMEM;
    int length = snprintf(volume->gone, sizeof volume->gone, "%s.gone", rest);
    must(length > 0 && (size_t)length < sizeof volume->gone);
    int result = disk_folder_open(rest, may_make, &volume->folder, complaint);
    if (result < 0 || pthread_mutex_init(&volume->lock, NULL) != 0) {
        disk_close(&volume->folder);
        free(volume);
        return result < 0 ? result : -ENOMEM;
    }
    volume->disk = (struct disk){.ops = &ops, .scheme = "volume", .name = volume->folder->name};
    *out_disk = &volume->disk;
    return 0;
}
