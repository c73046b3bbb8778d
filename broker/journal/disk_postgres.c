/* SPDX-License-Identifier: MPL-2.0 */
/* disk_postgres.c -- a disk that is a shard in PostgreSQL, with a directory as its cache.
 *
 * All that is written goes to the cache, and a note of it is kept in memory.  A sync commits what
 * was noted: names, sizes and bytes in one transaction (postgres_store.h).  So the store holds what
 * was synced, all of it and nothing else.  Nothing is synced in the cache.  Whoever takes the shard
 * has emptied its own cache, and filled it from the store (postgres_copy.h).
 *
 * The bytes that were written last are kept in memory until the sync, as far as they lie behind
 * each other in one file.  They go to the cache while the server works on the commit: a cache on a
 * busy disk took up to a sixth of the time of bulk (bench/README.md).  Other bytes are read back
 * from the cache.  Whoever reads the cache by itself reads what was synced. */
#include "broker/journal/postgres_copy.h"

#include "broker/journal/postgres_drops.h"
#include "broker/journal/shard_cache.h"
#include "libbus/base/must.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of files: those of one holder are above those of all before. */
#define FILES_OF_EPOCH_BITS 24
/* A holder that reads for long says that it is there, each time it has read so much. */
enum { KEEP_BYTES = 16 * 1024 * 1024, KEEP_PIECES = 2048 };
/* The bytes of a commit are gathered in a buffer, which is kept unless it is larger: bulk comes in
 * commits of up to 8 MiB.  No more are kept from the cache. */
enum { BODIES_KEPT_BYTES = 8 * 1024 * 1024 };

/* Bytes that were written since the last sync. */
struct range {
    uint64_t from;
    uint64_t until;
};

struct cached {
    struct store_file file;
    bool is_stored;  /* the store has its name */
    bool is_changed; /* and not as it is now */
    bool is_gone;    /* from the cache, and not from the store */
    struct range *ranges;
    size_t range_count;
    size_t range_room;
};

/* Bytes that the cache has not got yet: the first of postgres.bodies. */
struct unwritten {
    struct cached *cached; /* NULL: none */
    int fd;
    struct range range;
};

/* A file that is open for writing. */
struct handle {
    int fd;
    struct cached *cached;
};

struct postgres {
    struct disk disk;
    struct disk *folder; /* the cache */
    struct shard_kept kept;
    struct store store;
    struct postgres_copy copy; /* until the shard is taken */
    char name[64];
    void (*on_copy)(void *arg); /* see struct disk_shard */
    void *on_copy_arg;
    bool has_folder; /* its lock */
    struct cached **files;
    size_t count;
    size_t room;
    uint64_t next_number;
    struct handle *handles;
    size_t handle_count;
    size_t handle_room;
    struct store_drops drops;
    uint8_t *bodies; /* of the next commit, one after the other */
    uint64_t bodies_room;
    struct unwritten unwritten;
    int cache_fault;     /* of what was to be written behind; 0, or a negative errno */
    uint64_t read_bytes; /* since it last said that it is there */
    unsigned read_pieces;
};

static struct postgres *postgres_of(struct disk *disk)
{
    return (struct postgres *)(void *)disk;
}

/* Room for one more.  false: no memory. */
static bool has_room_for(void **items, size_t *room, size_t count, size_t bytes)
{
    if (count < *room)
        return true;
    size_t wanted = *room > 0 ? 2 * *room : 16;
    void *grown = realloc(*items, wanted * bytes);
    if (grown == NULL)
        return false;
    *items = grown;
    *room = wanted;
    return true;
}

/* ---- notes ----------------------------------------------------------------------------------- */

static struct cached *find_cached(const struct postgres *postgres, const char *name)
{
    for (size_t i = 0; i < postgres->count; i++)
        if (!postgres->files[i]->is_gone && strcmp(postgres->files[i]->file.name, name) == 0)
            return postgres->files[i];
    return NULL;
}

/* NULL: no memory. */
static struct cached *add_cached(struct postgres *postgres, const char *name)
{
    struct cached *cached = calloc(1, sizeof *cached);
    void *items = postgres->files;
    bool has_room = cached != NULL &&
                    has_room_for(&items, &postgres->room, postgres->count, sizeof *postgres->files);
    postgres->files = items;
    if (!has_room) {
        free(cached);
        return NULL;
    }
    cached->file.number = postgres->next_number++;
    cached->is_changed = true;
    snprintf(cached->file.name, sizeof cached->file.name, "%s", name);
    postgres->files[postgres->count++] = cached;
    return cached;
}

static void forget_ranges(struct cached *cached)
{
    free(cached->ranges);
    cached->ranges = NULL;
    cached->range_count = cached->range_room = 0;
}

static void note_gone(struct cached *cached)
{
    cached->is_gone = true;
    forget_ranges(cached);
}

static bool is_open(const struct postgres *postgres, const struct cached *cached)
{
    bool is_any = false;
    for (size_t i = 0; i < postgres->handle_count; i++)
        is_any = is_any || postgres->handles[i].cached == cached;
    return is_any;
}

/* Frees the notes of files that are gone from the store, too, and that nobody has open. */
static void forget_gone(struct postgres *postgres)
{
    size_t kept = 0;
    for (size_t i = 0; i < postgres->count; i++) {
        struct cached *cached = postgres->files[i];
        if (!cached->is_gone || cached->is_stored || is_open(postgres, cached)) {
            postgres->files[kept++] = cached;
        } else {
            forget_ranges(cached);
            free(cached);
        }
    }
    postgres->count = kept;
}

/* Notes a range, as one with those that it touches.  false: no memory. */
static bool note_range(struct cached *cached, uint64_t from, uint64_t until)
{
    size_t kept = 0;
    void *items = cached->ranges;
    bool has_room =
        has_room_for(&items, &cached->range_room, cached->range_count, sizeof *cached->ranges);
    cached->ranges = items;
    if (!has_room)
        return false;
    for (size_t i = 0; i < cached->range_count; i++) {
        struct range range = cached->ranges[i];
        if (range.until < from || range.from > until) {
            cached->ranges[kept++] = range;
        } else {
            from = range.from < from ? range.from : from;
            until = range.until > until ? range.until : until;
        }
    }
    cached->ranges[kept] = (struct range){.from = from, .until = until};
    cached->range_count = kept + 1;
    return true;
}

static void note_size(struct cached *cached, uint64_t bytes)
{
    if (bytes <= cached->file.bytes)
        return;
    cached->file.bytes = bytes;
    cached->is_changed = true;
}

static struct cached *cached_of(const struct postgres *postgres, int fd)
{
    for (size_t i = 0; i < postgres->handle_count; i++)
        if (postgres->handles[i].fd == fd)
            return postgres->handles[i].cached;
    must(!"a file that is written was opened for writing");
    return NULL;
}

static bool add_handle(struct postgres *postgres, int fd, struct cached *cached)
{
    void *items = postgres->handles;
    bool has_room = has_room_for(&items, &postgres->handle_room, postgres->handle_count,
                                 sizeof *postgres->handles);
    postgres->handles = items;
    if (has_room)
        postgres->handles[postgres->handle_count++] = (struct handle){fd, cached};
    return has_room;
}

/* ---- writing behind -------------------------------------------------------------------------- */

/* Keeps what is there.  false: no memory. */
static bool has_bodies(struct postgres *postgres, uint64_t bytes)
{
    if (bytes <= postgres->bodies_room)
        return true;
    uint64_t room = 2 * postgres->bodies_room;
    room = room > BODIES_KEPT_BYTES ? BODIES_KEPT_BYTES : room;
    room = room > bytes ? room : bytes;
    uint8_t *bodies = realloc(postgres->bodies, room);
    if (bodies == NULL)
        return false;
    postgres->bodies = bodies;
    postgres->bodies_room = room;
    return true;
}

static uint64_t range_bytes(const struct range *range)
{
    return range->until - range->from;
}

/* Brings to the cache what it has not got.  The next commit tells a failure. */
static void write_behind(struct postgres *postgres)
{
    struct unwritten *unwritten = &postgres->unwritten;
    if (unwritten->cached == NULL)
        return;
    struct iovec piece = {postgres->bodies, range_bytes(&unwritten->range)};
    int result = disk_write_all(postgres->folder, unwritten->fd, &piece, 1, unwritten->range.from);
    if (postgres->cache_fault == 0)
        postgres->cache_fault = result;
    unwritten->cached = NULL;
}

static void write_meanwhile(void *arg)
{
    write_behind(arg);
}

/* Keeps a write from the cache, behind the bytes that are kept already.  The file has room for it.
 * false: it must be written. */
static bool write_later(struct postgres *postgres, struct handle handle, const struct iovec *pieces,
                        int count, struct range range)
{
    struct unwritten *unwritten = &postgres->unwritten;
    bool is_next = unwritten->cached == handle.cached && unwritten->range.until == range.from;
    uint64_t kept = is_next ? range_bytes(&unwritten->range) : 0;
    if (range.until > handle.cached->file.bytes || kept + range_bytes(&range) > BODIES_KEPT_BYTES)
        return false;
    if (!is_next)
        write_behind(postgres);
    if (!has_bodies(postgres, kept + range_bytes(&range)) ||
        !note_range(handle.cached, range.from, range.until))
        return false;
    if (!is_next)
        *unwritten = (struct unwritten){handle.cached, handle.fd, {range.from, range.from}};
    for (int i = 0; i < count; i++) {
        memcpy(postgres->bodies + kept, pieces[i].iov_base, pieces[i].iov_len);
        kept += pieces[i].iov_len;
    }
    unwritten->range.until = range.until;
    return true;
}

/* ---- committing ------------------------------------------------------------------------------ */

static uint64_t noted_bytes(const struct postgres *postgres)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < postgres->count; i++)
        for (size_t j = 0; j < postgres->files[i]->range_count; j++)
            bytes += postgres->files[i]->ranges[j].until - postgres->files[i]->ranges[j].from;
    return bytes;
}

/* Reads a range back from the cache; 0, or a negative errno. */
static int read_back(struct postgres *postgres, int fd, const struct range *range, uint8_t *out)
{
    uint64_t at = range->from;
    while (at < range->until) {
        int64_t got = disk_read_at(postgres->folder, fd, out + (at - range->from),
                                   (size_t)(range->until - at), at);
        if (got <= 0)
            return got < 0 ? (int)got : -EIO;
        at += (uint64_t)got;
    }
    return 0;
}

static void add_pieces(const struct postgres *postgres, struct store_change *change, uint64_t file,
                       const struct range *range, const uint8_t *body)
{
    for (uint64_t at = range->from; at < range->until; at += STORE_PIECE_BYTES) {
        uint64_t left = range->until - at;
        size_t bytes = left < STORE_PIECE_BYTES ? (size_t)left : STORE_PIECE_BYTES;
        store_change_write(change, &postgres->store, file, at,
                           span_of(body + (at - range->from), bytes));
    }
}

/* Reads back from one file at a time. */
struct reading {
    const char *name;
    int fd;        /* -1: not open */
    uint8_t *body; /* where the next bytes go, behind all that were read */
};

static int add_read_back(struct postgres *postgres, struct store_change *change, uint64_t file,
                         struct reading *reading, struct range range)
{
    struct disk *folder = postgres->folder;
    if (range.from >= range.until)
        return 0;
    if (reading->fd < 0)
        reading->fd = folder->ops->open(folder, reading->name, DISK_READ);
    if (reading->fd < 0)
        return reading->fd;
    int result = read_back(postgres, reading->fd, &range, reading->body);
    if (result == 0)
        add_pieces(postgres, change, file, &range, reading->body);
    reading->body += range_bytes(&range);
    return result;
}

/* The part of a range that is in memory alone; an empty one at its end: none. */
static struct range in_memory(const struct postgres *postgres, const struct cached *cached,
                              const struct range *range)
{
    const struct unwritten *unwritten = &postgres->unwritten;
    bool is_in = unwritten->cached == cached && unwritten->range.from >= range->from &&
                 unwritten->range.until <= range->until;
    return is_in ? unwritten->range : (struct range){range->until, range->until};
}

/* Adds what was written to a file. */
static int add_writes(struct postgres *postgres, struct store_change *change,
                      const struct cached *cached, struct reading *reading)
{
    int result = 0;
    const struct store_file *file = &cached->file;
    if (cached->range_count == 0)
        return 0;
    reading->name = file->name;
    reading->fd = -1;
    if (!file->has_pieces)
        store_change_make(change, &postgres->store, file->number);
    for (size_t i = 0; result == 0 && i < cached->range_count; i++) {
        struct range range = cached->ranges[i];
        struct range memory = in_memory(postgres, cached, &range);
        result = add_read_back(postgres, change, file->number, reading,
                               (struct range){range.from, memory.from});
        add_pieces(postgres, change, file->number, &memory, postgres->bodies);
        if (result == 0)
            result = add_read_back(postgres, change, file->number, reading,
                                   (struct range){memory.until, range.until});
    }
    if (reading->fd >= 0)
        postgres->folder->ops->shut(postgres->folder, reading->fd);
    return result;
}

/* Rows of names are changed last, as the fence is: whoever is stopped in the midst of a commit
 * holds no lock that the next holder waits for. */
static int add_changes(struct postgres *postgres, struct store_change *change)
{
    int result = 0;
    bool has_unwritten = postgres->unwritten.cached != NULL;
    uint64_t kept = has_unwritten ? range_bytes(&postgres->unwritten.range) : 0;
    struct reading reading = {.body = postgres->bodies + kept};
    for (size_t i = 0; result == 0 && i < postgres->count; i++)
        if (!postgres->files[i]->is_gone)
            result = add_writes(postgres, change, postgres->files[i], &reading);
    for (size_t i = 0; result == 0 && i < postgres->count; i++) {
        const struct cached *cached = postgres->files[i];
        if (cached->is_gone && cached->is_stored)
            store_change_remove(change, &postgres->store, cached->file.number);
        if (!cached->is_gone && cached->is_changed)
            store_change_name(change, &postgres->store, &cached->file);
    }
    return result;
}

/* What the store has now. */
static void note_committed(struct postgres *postgres)
{
    for (size_t i = 0; i < postgres->count; i++) {
        struct cached *cached = postgres->files[i];
        if (cached->is_gone && cached->is_stored && cached->file.has_pieces)
            store_drops_add(&postgres->drops, cached->file.number);
        cached->file.has_pieces = cached->file.has_pieces || cached->range_count > 0;
        cached->is_stored = !cached->is_gone;
        cached->is_changed = false;
        forget_ranges(cached);
    }
    forget_gone(postgres);
}

static void forget_bodies(struct postgres *postgres)
{
    free(postgres->bodies);
    postgres->bodies = NULL;
    postgres->bodies_room = 0;
}

/* What is in memory alone goes to the cache while the server works, or behind that. */
static int commit_change(struct postgres *postgres, struct store_change *change)
{
    struct door *door = postgres->store.door;
    door->meanwhile = write_meanwhile;
    door->meanwhile_arg = postgres;
    int result = store_commit(&postgres->store, change);
    door->meanwhile = NULL;
    return result;
}

/* Without a sentence of the store the result says enough. */
static void explain(struct postgres *postgres, int result)
{
    postgres->disk.why = result < 0 && postgres->store.why[0] != '\0' ? postgres->store.why : NULL;
}

/* What failed before, as a drop may have, says nothing of what fails now. */
static void forget_why(struct postgres *postgres)
{
    postgres->store.why[0] = '\0';
    postgres->disk.why = NULL;
}

static int postgres_commit(struct postgres *postgres)
{
    struct store_change change;
    forget_why(postgres);
    if (!has_bodies(postgres, noted_bytes(postgres)))
        return -ENOMEM;
    store_change_init(&change);
    int result = add_changes(postgres, &change);
    if (result == 0 && change.count > 0)
        result = commit_change(postgres, &change);
    else if (result == 0 && postgres->store.is_fenced)
        result = -DISK_FENCED;
    bool is_committed = result == 0 && change.count > 0;
    store_change_fini(&change);
    write_behind(postgres);
    if (postgres->bodies_room > BODIES_KEPT_BYTES)
        forget_bodies(postgres);
    if (is_committed) {
        note_committed(postgres);
        store_drops_behind_commit(&postgres->drops, &postgres->store);
    }
    explain(postgres, result);
    return result == 0 ? postgres->cache_fault : result;
}

/* ---- taking the shard ------------------------------------------------------------------------ */

/* To be called for each piece that was read.  Otherwise another one takes the shard meanwhile. */
static int keep_reading(struct postgres *postgres, uint64_t bytes)
{
    postgres->read_bytes += bytes;
    if (postgres->read_bytes < KEEP_BYTES && ++postgres->read_pieces < KEEP_PIECES)
        return 0;
    postgres->read_bytes = postgres->read_pieces = 0;
    return store_keep(&postgres->store);
}

static int keep_copying(void *arg, uint64_t bytes)
{
    struct postgres *postgres = arg;
    if (postgres->on_copy != NULL)
        postgres->on_copy(postgres->on_copy_arg);
    return keep_reading(postgres, bytes);
}

/* Notes what the store has, which the cache has from here on. */
static int note_copied(struct postgres *postgres)
{
    for (size_t i = 0; i < postgres->copy.count; i++) {
        const struct store_file *file = &postgres->copy.files[i].file;
        struct cached *cached = add_cached(postgres, file->name);
        if (cached == NULL)
            return -ENOMEM;
        cached->file = *file;
        cached->is_stored = true;
        cached->is_changed = false;
    }
    return 0;
}

static void forget_files(struct postgres *postgres)
{
    for (size_t i = 0; i < postgres->count; i++) {
        forget_ranges(postgres->files[i]);
        free(postgres->files[i]);
    }
    postgres->count = 0;
}

/* Who was replaced while it read may have read what the next one wrote, or a part of that.  So it
 * looks at the row behind that.  -EWOULDBLOCK: it is to be taken again. */
static int fill_cache(struct postgres *postgres)
{
    struct postgres_copy *copy = &postgres->copy;
    int result = copy_complete(copy, keep_copying, postgres);
    if (result == -EIO && !postgres->store.is_connected)
        return -EWOULDBLOCK;
    int kept = result == 0 || result == -EIO ? store_keep(&postgres->store) : result;
    if (kept == -DISK_FENCED)
        return -EWOULDBLOCK;
    result = result == 0 ? kept : result;
    if (result == 0)
        result = copy_hand_over(copy);
    postgres->next_number = (postgres->store.epoch << FILES_OF_EPOCH_BITS) + 1;
    if (result == 0)
        result = note_copied(postgres);
    copy_fini(copy);
    if (result == 0)
        store_sweep(&postgres->store);
    return result;
}

/* Another one has the shard, or may have it. */
static int follow(struct postgres *postgres)
{
    bool is_answered = postgres->store.is_connected && postgres->store.why[0] == '\0';
    int result = is_answered ? copy_follow(&postgres->copy) : 0;
    return result == 0 ? -EWOULDBLOCK : result;
}

static int postgres_lock(struct disk *disk, bool is_reader, struct disk_owner *out_owner)
{
    struct postgres *postgres = postgres_of(disk);
    int result = 0;
    char *why = postgres->store.why;
    must(!is_reader); /* readers open the cache */
    *why = '\0';
    if (!postgres->has_folder)
        result = shard_cache_lock(postgres->folder, out_owner, why, sizeof postgres->store.why);
    postgres->has_folder = postgres->has_folder || result == 0;
    if (result == 0)
        result = store_take(&postgres->store);
    if (result == 0)
        result = fill_cache(postgres);
    else if (result == -EWOULDBLOCK)
        result = follow(postgres);
    *out_owner = (struct disk_owner){.lease = postgres->store.epoch};
    memcpy(out_owner->holder, postgres->store.holder, sizeof out_owner->holder);
    disk->why = result < 0 && *why != '\0' ? why : NULL;
    return result;
}

/* ---- the operations -------------------------------------------------------------------------- */

static int postgres_list(struct disk *disk, void (*visit)(void *arg, const char *name), void *arg)
{
    struct disk *folder = postgres_of(disk)->folder;
    return folder->ops->list(folder, visit, arg);
}

static int postgres_open(struct disk *disk, const char *name, enum disk_how how)
{
    struct postgres *postgres = postgres_of(disk);
    struct disk *folder = postgres->folder;
    if (strlen(name) >= FORMAT_NAME_BYTES)
        return -ENAMETOOLONG;
    write_behind(postgres);
    int fd = how == DISK_MAKE ? shard_cache_make(folder, &postgres->kept, name)
                              : folder->ops->open(folder, name, how);
    if (fd < 0 || how == DISK_READ)
        return fd;
    struct cached *cached = find_cached(postgres, name);
    if (cached != NULL && how == DISK_MAKE) {
        note_gone(cached);
        cached = NULL;
    }
    if (cached == NULL)
        cached = add_cached(postgres, name);
    if (cached == NULL || !add_handle(postgres, fd, cached)) {
        folder->ops->shut(folder, fd);
        return -ENOMEM;
    }
    return fd;
}

static void postgres_shut(struct disk *disk, int file)
{
    struct postgres *postgres = postgres_of(disk);
    write_behind(postgres);
    for (size_t i = 0; i < postgres->handle_count; i++)
        if (postgres->handles[i].fd == file) {
            postgres->handles[i] = postgres->handles[--postgres->handle_count];
            break;
        }
    postgres->folder->ops->shut(postgres->folder, file);
}

static int64_t postgres_read(struct disk *disk, int file, const struct iovec *pieces, int count,
                             uint64_t offset)
{
    struct postgres *postgres = postgres_of(disk);
    struct disk *folder = postgres->folder;
    write_behind(postgres);
    int64_t got = folder->ops->read(folder, file, pieces, count, offset);
    if (got > 0)
        (void)keep_reading(postgres, (uint64_t)got); /* the next sync fails as it does */
    return got;
}

static int64_t postgres_write(struct disk *disk, int file, const struct iovec *pieces, int count,
                              uint64_t offset)
{
    struct postgres *postgres = postgres_of(disk);
    struct cached *cached = cached_of(postgres, file);
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    if (bytes == 0)
        return 0;
    if (!cached->is_gone && write_later(postgres, (struct handle){file, cached}, pieces, count,
                                        (struct range){offset, offset + bytes}))
        return (int64_t)bytes;
    write_behind(postgres);
    int64_t written = postgres->folder->ops->write(postgres->folder, file, pieces, count, offset);
    if (written <= 0 || cached->is_gone)
        return written;
    if (!note_range(cached, offset, offset + (uint64_t)written))
        return -ENOMEM; /* the journal takes it for not written, and wipes or writes it again */
    note_size(cached, offset + (uint64_t)written);
    return written;
}

static int postgres_sync(struct disk *disk, int file)
{
    (void)file; /* all of it is one commit */
    return postgres_commit(postgres_of(disk));
}

static int postgres_sync_until(struct disk *disk, int file, uint64_t offset)
{
    (void)offset;
    return postgres_sync(disk, file);
}

static void postgres_push(struct disk *disk, int file, uint64_t offset, uint64_t bytes)
{
    (void)disk; /* the cache need not be on a disk */
    (void)file;
    (void)offset;
    (void)bytes;
}

static void postgres_ahead(struct disk *disk, int file, uint64_t offset, uint64_t bytes)
{
    struct disk *folder = postgres_of(disk)->folder;
    folder->ops->ahead(folder, file, offset, bytes);
}

static int postgres_reserve(struct disk *disk, int file, uint64_t bytes)
{
    struct postgres *postgres = postgres_of(disk);
    int result = shard_cache_reserve(postgres->folder, &postgres->kept, file, bytes);
    if (result == 0)
        note_size(cached_of(postgres, file), bytes);
    return result;
}

static int64_t postgres_size(struct disk *disk, int file)
{
    struct disk *folder = postgres_of(disk)->folder;
    return folder->ops->size(folder, file);
}

static int postgres_rename(struct disk *disk, const char *from, const char *to)
{
    struct postgres *postgres = postgres_of(disk);
    struct cached *cached = find_cached(postgres, from);
    struct cached *old = find_cached(postgres, to);
    if (strlen(to) >= FORMAT_NAME_BYTES)
        return -ENAMETOOLONG;
    int result = postgres->folder->ops->rename(postgres->folder, from, to);
    if (result < 0 || cached == NULL)
        return result;
    if (old != NULL && old != cached)
        note_gone(old);
    snprintf(cached->file.name, sizeof cached->file.name, "%s", to);
    cached->is_changed = true;
    return 0;
}

static int postgres_unlink(struct disk *disk, const char *name)
{
    struct postgres *postgres = postgres_of(disk);
    struct disk *folder = postgres->folder;
    struct cached *cached = find_cached(postgres, name);
    int result = cached != NULL && !is_open(postgres, cached)
                     ? shard_cache_give_up(folder, &postgres->kept, name, cached->file.bytes)
                     : folder->ops->unlink(folder, name);
    if (result == 0 && cached != NULL)
        note_gone(cached);
    return result;
}

static int postgres_sync_names(struct disk *disk)
{
    return postgres_commit(postgres_of(disk));
}

static int postgres_keep(struct disk *disk)
{
    struct postgres *postgres = postgres_of(disk);
    int result = store_keep(&postgres->store);
    if (result == 0)
        store_drops_when_idle(&postgres->drops, &postgres->store);
    explain(postgres, result);
    return result;
}

static void postgres_give_up(struct disk *disk)
{
    atomic_store(&postgres_of(disk)->store.door->is_given_up, true);
}

static void postgres_away(struct disk *disk, char *out)
{
    store_away(&postgres_of(disk)->store, out);
}

static void postgres_close(struct disk *disk)
{
    struct postgres *postgres = postgres_of(disk);
    if (postgres->store.door != NULL)
        store_release(&postgres->store);
    store_fini(&postgres->store);
    copy_fini(&postgres->copy);
    disk_close(&postgres->folder);
    forget_files(postgres);
    free(postgres->files);
    free(postgres->handles);
    store_drops_fini(&postgres->drops);
    forget_bodies(postgres);
    free(postgres);
}

/* ---- opening --------------------------------------------------------------------------------- */

static const struct disk_ops postgres_ops = {.lock = postgres_lock,
                                             .list = postgres_list,
                                             .open = postgres_open,
                                             .shut = postgres_shut,
                                             .read = postgres_read,
                                             .write = postgres_write,
                                             .sync = postgres_sync,
                                             .sync_until = postgres_sync_until,
                                             .push = postgres_push,
                                             .ahead = postgres_ahead,
                                             .reserve = postgres_reserve,
                                             .size = postgres_size,
                                             .rename = postgres_rename,
                                             .unlink = postgres_unlink,
                                             .sync_names = postgres_sync_names,
                                             .keep = postgres_keep,
                                             .give_up = postgres_give_up,
                                             .away = postgres_away,
                                             .close = postgres_close};

int disk_postgres_open_door(struct door **door, const char *conninfo,
                            const struct disk_shard *shard, struct disk **out_disk, char *complaint)
{
    struct postgres *postgres = calloc(1, sizeof *postgres);
    if (postgres == NULL) {
        (*door)->ops->close(*door);
        *door = NULL;
        snprintf(complaint, DISK_COMPLAINT_BYTES, "out of memory");
        return -ENOMEM;
    }
    snprintf(postgres->name, sizeof postgres->name, "postgres, shard %u", shard->number);
    postgres->on_copy = shard->on_copy;
    postgres->on_copy_arg = shard->on_copy_arg;
    int result = store_init(&postgres->store, door, conninfo, shard->number, shard->replicas);
    if (result == 0)
        result = disk_folder_open(shard->cache, true, &postgres->folder, complaint);
    else
        snprintf(complaint, DISK_COMPLAINT_BYTES, "out of memory");
    if (result == 0) {
        result = store_connect(&postgres->store) ? store_prepare(&postgres->store) : -EIO;
        if (result < 0)
            snprintf(complaint, DISK_COMPLAINT_BYTES,
                     "the journal in shard %u of PostgreSQL: %.900s", shard->number,
                     postgres->store.why);
    }
    if (result < 0) {
        postgres_close(&postgres->disk);
        return result;
    }
    copy_init(&postgres->copy, &postgres->store, postgres->folder);
    postgres->disk = (struct disk){.ops = &postgres_ops,
                                   .scheme = "postgres",
                                   .name = postgres->name,
                                   .files = postgres->folder->name};
    *out_disk = &postgres->disk;
    return 0;
}

int disk_postgres_open_shard(const char *rest, const struct disk_shard *shard,
                             struct disk **out_disk, char *complaint)
{
    struct door *door = door_new();
    if (door != NULL)
        return disk_postgres_open_door(&door, rest, shard, out_disk, complaint);
    snprintf(complaint, DISK_COMPLAINT_BYTES, "out of memory");
    return -ENOMEM;
}

int disk_postgres_open(const char *rest, bool may_make, struct disk **out_disk, char *complaint)
{
    (void)rest;
    (void)may_make;
    (void)out_disk;
    snprintf(complaint, DISK_COMPLAINT_BYTES,
             "a journal in PostgreSQL has no files to look at: its broker checks it when it "
             "starts, and pg_basebackup(1) copies it");
    return -ENOTSUP;
}
