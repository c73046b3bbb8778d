/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_copy.c -- see postgres_copy.h. */
#include "broker/journal/postgres_copy.h"

#include "broker/journal/shard_cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void copy_init(struct postgres_copy *copy, struct store *store, struct disk *folder)
{
    *copy = (struct postgres_copy){.store = store, .folder = folder};
}

void copy_fini(struct postgres_copy *copy)
{
    free(copy->files);
    copy->files = NULL;
    copy->count = copy->capacity = 0;
}

/* The result of a call to the cache, which has its sentence if it failed. */
static int of_cache(struct postgres_copy *copy, int result)
{
    if (result >= 0)
        return result;
    copy->has_failed = true;
    snprintf(copy->store->why, sizeof copy->store->why,
             "the copy in '%.700s' cannot be written: %s", copy->folder->name, strerror(-result));
    return result;
}

/* ---- which files there are ------------------------------------------------------------------- */

static struct copied *find_copied(struct postgres_copy *copy, uint64_t number)
{
    for (size_t i = 0; i < copy->count; i++)
        if (copy->files[i].file.number == number)
            return &copy->files[i];
    return NULL;
}

/* NULL: no memory. */
static struct copied *add_copied(struct postgres_copy *copy)
{
    if (copy->count == copy->capacity) {
        size_t capacity = copy->capacity > 0 ? 2 * copy->capacity : 16;
        struct copied *grown = realloc(copy->files, capacity * sizeof *grown);
        if (grown == NULL)
            return NULL;
        copy->files = grown;
        copy->capacity = capacity;
    }
    copy->files[copy->count] = (struct copied){.room = 0};
    return &copy->files[copy->count++];
}

static int see_file(void *arg, const struct store_file *file)
{
    struct postgres_copy *copy = arg;
    struct copied *copied = find_copied(copy, file->number);
    if (copied == NULL)
        copied = add_copied(copy);
    if (copied == NULL)
        return -ENOMEM;
    if (copied->file.filenode != 0 && copied->file.filenode != file->filenode)
        *copied = (struct copied){.room = 0}; /* somebody restored it: it is read anew */
    copied->file = *file;
    copied->is_listed = true;
    return 0;
}

static int unlink_copied(struct postgres_copy *copy, const struct copied *copied)
{
    char name[FORMAT_NAME_BYTES];
    shard_cache_name(copied->file.number, name);
    int result = copy->folder->ops->unlink(copy->folder, name);
    return result == -ENOENT ? 0 : of_cache(copy, result); /* no look came to it */
}

static int forget_unlisted(struct postgres_copy *copy)
{
    int result = 0;
    size_t kept = 0;
    for (size_t i = 0; i < copy->count; i++)
        if (result < 0 || copy->files[i].is_listed)
            copy->files[kept++] = copy->files[i];
        else
            result = unlink_copied(copy, &copy->files[i]);
    copy->count = kept;
    return result;
}

static int list_files(struct postgres_copy *copy)
{
    for (size_t i = 0; i < copy->count; i++)
        copy->files[i].is_listed = false;
    int result = store_list(copy->store, see_file, copy);
    return result < 0 ? result : forget_unlisted(copy);
}

/* What another session read is not for this one. */
static int begin_in_session(struct postgres_copy *copy)
{
    if (copy->session == copy->store->session)
        return 0;
    copy->count = 0;
    copy->is_behind = true;
    int result = shard_cache_empty(copy->folder, copy->store->why, sizeof copy->store->why);
    if (result == 0)
        copy->session = copy->store->session;
    return result;
}

/* ---- what is in them ------------------------------------------------------------------------- */

struct copying {
    struct postgres_copy *copy;
    int fd;
    uint64_t bytes;
};

static int write_piece(void *arg, uint64_t at, struct span body)
{
    struct copying *copying = arg;
    struct postgres_copy *copy = copying->copy;
    struct iovec piece = {.iov_base = (void *)(uintptr_t)body.data, .iov_len = body.bytes};
    int result = of_cache(copy, disk_write_all(copy->folder, copying->fd, &piece, 1, at));
    copying->bytes += body.bytes;
    if (result == 0 && copy->on_piece != NULL)
        result = copy->on_piece(copy->on_piece_arg, body.bytes);
    return result;
}

/* So much may be read yet. */
struct allowance {
    uint64_t bytes;
    unsigned answers;
};

static int read_pieces(struct copying *copying, struct copied *copied, struct allowance *allowance)
{
    struct postgres_copy *copy = copying->copy;
    for (;;) {
        if (allowance->bytes == 0 || allowance->answers == 0) {
            copy->is_behind = true;
            return 0;
        }
        copying->bytes = 0;
        int count =
            store_fetch(copy->store, copied->file.number, &copied->read, write_piece, copying);
        if (count <= 0)
            return count;
        allowance->answers--;
        allowance->bytes -= copying->bytes < allowance->bytes ? copying->bytes : allowance->bytes;
    }
}

static int reserve(struct postgres_copy *copy, struct copied *copied, int fd)
{
    if (copied->file.bytes <= copied->room)
        return 0;
    int result = of_cache(copy, copy->folder->ops->reserve(copy->folder, fd, copied->file.bytes));
    if (result == 0)
        copied->room = copied->file.bytes;
    return result;
}

static int read_file(struct postgres_copy *copy, struct copied *copied, struct allowance *allowance)
{
    char name[FORMAT_NAME_BYTES];
    struct disk *folder = copy->folder;
    bool is_new = copied->room == 0 && copied->read.seq == 0;
    shard_cache_name(copied->file.number, name);
    struct copying copying = {
        .copy = copy, .fd = folder->ops->open(folder, name, is_new ? DISK_MAKE : DISK_WRITE)};
    if (copying.fd < 0)
        return of_cache(copy, copying.fd);
    int result = reserve(copy, copied, copying.fd);
    if (result == 0 && copied->file.has_pieces)
        result = read_pieces(&copying, copied, allowance);
    folder->ops->shut(folder, copying.fd);
    return result;
}

static int read_files(struct postgres_copy *copy, struct allowance allowance)
{
    int result = begin_in_session(copy);
    if (result == 0)
        result = list_files(copy);
    copy->is_behind = false;
    for (size_t i = 0; result == 0 && i < copy->count; i++)
        result = read_file(copy, &copy->files[i], &allowance);
    return result;
}

int copy_follow(struct postgres_copy *copy)
{
    const struct allowance look = {COPY_FOLLOW_BYTES, COPY_FOLLOW_ANSWERS};
    bool is_begun = copy->session == copy->store->session;
    if (is_begun && !copy->is_behind && ++copy->tries < COPY_FOLLOW_TRIES)
        return 0;
    copy->tries = 0;
    copy->on_piece = NULL;
    int result = read_files(copy, look);
    if (result != -EIO || copy->has_failed)
        return result;
    copy->store->why[0] = '\0'; /* the session ended, or a file is gone since it was listed */
    return 0;
}

int copy_complete(struct postgres_copy *copy, int (*on_piece)(void *arg, uint64_t bytes), void *arg)
{
    copy->on_piece = on_piece;
    copy->on_piece_arg = arg;
    return read_files(copy, (struct allowance){UINT64_MAX, UINT32_MAX});
}

int copy_hand_over(struct postgres_copy *copy)
{
    int result = 0;
    char name[FORMAT_NAME_BYTES];
    for (size_t i = 0; result == 0 && i < copy->count; i++) {
        shard_cache_name(copy->files[i].file.number, name);
        result =
            of_cache(copy, copy->folder->ops->rename(copy->folder, name, copy->files[i].file.name));
    }
    return result;
}
