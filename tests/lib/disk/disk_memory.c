/* SPDX-License-Identifier: MPL-2.0 */
/* disk_memory.c -- a disk in the memory of this process; see disk_memory.h. */
#include "tests/lib/disk/disk_memory.h"

#include "libbus/base/must.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = 64, FILES_MAX = 4096, HANDLES_MAX = 1024 };

/* A file, for as long as it has a name or is open. */
struct file {
    uint8_t *data;
    uint64_t bytes; /* its size */
    uint64_t room;  /* of data */
    unsigned uses;  /* names and handles */
};
struct entry {
    char name[NAME_BYTES];
    struct file *file; /* NULL: a free place */
};
/* What is stored under a name, until the process ends. */
struct store {
    struct store *next;
    char name[NAME_BYTES + 8]; /* with the scheme */
    struct entry entries[FILES_MAX];
    uint64_t bytes;
    uint64_t lease; /* of the owner; 0: there was none yet */
    bool is_owned;
};
/* A store, opened once. */
struct memory_disk {
    struct disk disk;
    struct store *store;
    uint64_t lease; /* 0: not an owner */
    struct file *handles[HANDLES_MAX];
};

static pthread_mutex_t big_lock = PTHREAD_MUTEX_INITIALIZER; /* protects all below, and all disks */
static struct store *stores;

static struct memory_disk *memory_of(struct disk *disk)
{
    return (struct memory_disk *)(void *)disk;
}

/* ---- with the lock --------------------------------------------------------------------------- */

static void unuse(struct store *store, struct file *file)
{
    file->uses--;
    if (file->uses > 0)
        return;
    store->bytes -= file->room;
    free(file->data);
    free(file);
}

static struct entry *find_entry(struct store *store, const char *name)
{
    for (size_t i = 0; i < FILES_MAX; i++)
        if (store->entries[i].file != NULL && strcmp(store->entries[i].name, name) == 0)
            return &store->entries[i];
    return NULL;
}

static int make_entry(struct store *store, const char *name, struct entry **out_entry)
{
    size_t i = 0;
    if (strlen(name) >= NAME_BYTES)
        return -ENAMETOOLONG;
    while (i < FILES_MAX && store->entries[i].file != NULL)
        i++;
    struct file *file = i < FILES_MAX ? calloc(1, sizeof *file) : NULL;
    if (file == NULL)
        return i < FILES_MAX ? -ENOMEM : -ENOSPC;
    file->uses = 1;
    store->entries[i].file = file;
    snprintf(store->entries[i].name, NAME_BYTES, "%s", name);
    *out_entry = &store->entries[i];
    return 0;
}

static int resize(struct store *store, struct file *file, uint64_t bytes)
{
    if (bytes > file->room) {
        uint64_t more = bytes - file->room;
        if (more > DISK_MEMORY_BYTES - store->bytes)
            return -ENOSPC;
        uint8_t *data = realloc(file->data, bytes);
        if (data == NULL)
            return -ENOMEM;
        memset(data + file->room, 0, more);
        file->data = data;
        file->room = bytes;
        store->bytes += more;
    }
    file->bytes = bytes > file->bytes ? bytes : file->bytes;
    return 0;
}

static int check_owner(const struct memory_disk *memory)
{
    return memory->lease != 0 && memory->lease != memory->store->lease ? -DISK_FENCED : 0;
}

/* What a sync does here: nothing but to see whose the disk is. */
static int note_sync(const struct memory_disk *memory)
{
    return check_owner(memory);
}

static struct file *file_of(struct memory_disk *memory, int handle)
{
    must(handle >= 0 && handle < HANDLES_MAX && memory->handles[handle] != NULL);
    return memory->handles[handle];
}

static int open_entry(struct memory_disk *memory, const char *name, enum disk_how how)
{
    struct entry *entry = find_entry(memory->store, name);
    int handle = 0;
    int result = how == DISK_READ ? 0 : check_owner(memory);
    while (handle < HANDLES_MAX && memory->handles[handle] != NULL)
        handle++;
    if (result == 0 && handle == HANDLES_MAX)
        result = -EMFILE;
    if (result == 0 && entry == NULL)
        result = how == DISK_MAKE ? make_entry(memory->store, name, &entry) : -ENOENT;
    if (result < 0)
        return result;
    struct file *file = entry->file;
    if (how == DISK_MAKE) {
        memory->store->bytes -= file->room;
        free(file->data);
        file->data = NULL;
        file->bytes = file->room = 0;
    }
    file->uses++;
    memory->handles[handle] = file;
    return handle;
}

static int rename_entry(struct memory_disk *memory, const char *from, const char *to)
{
    struct entry *entry = find_entry(memory->store, from);
    struct entry *old = find_entry(memory->store, to);
    int result = check_owner(memory);
    if (result < 0 || entry == NULL || entry == old)
        return result < 0 ? result : entry == NULL ? -ENOENT : 0;
    if (old != NULL) {
        unuse(memory->store, old->file);
        old->file = NULL;
    }
    snprintf(entry->name, NAME_BYTES, "%s", to);
    return 0;
}

static int unlink_entry(struct memory_disk *memory, const char *name)
{
    struct entry *entry = find_entry(memory->store, name);
    int result = check_owner(memory);
    if (result < 0 || entry == NULL)
        return result < 0 ? result : -ENOENT;
    unuse(memory->store, entry->file);
    entry->file = NULL;
    return 0;
}

static int64_t read_pieces(const struct file *file, const struct iovec *pieces, int count,
                           uint64_t offset)
{
    int64_t got = 0;
    for (int i = 0; i < count && offset < file->bytes; i++) {
        uint64_t left = file->bytes - offset;
        size_t bytes = left < pieces[i].iov_len ? (size_t)left : pieces[i].iov_len;
        if (bytes > 0)
            memcpy(pieces[i].iov_base, file->data + offset, bytes);
        offset += bytes;
        got += (int64_t)bytes;
    }
    return got;
}

static int64_t write_pieces(struct memory_disk *memory, struct file *file,
                            const struct iovec *pieces, int count, uint64_t offset)
{
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    uint64_t end = offset + bytes;
    int result = check_owner(memory);
    if (result == 0)
        result = resize(memory->store, file, end > file->bytes ? end : file->bytes);
    if (result < 0)
        return result;
    for (int i = 0; i < count; i++) {
        if (pieces[i].iov_len > 0)
            memcpy(file->data + offset, pieces[i].iov_base, pieces[i].iov_len);
        offset += pieces[i].iov_len;
    }
    return (int64_t)bytes;
}

static int take_lock(struct memory_disk *memory, bool is_reader, struct disk_owner *out_owner)
{
    struct store *store = memory->store;
    *out_owner = (struct disk_owner){.lease = store->lease, .pid = (int64_t)getpid()};
    if (store->is_owned)
        return -EWOULDBLOCK;
    if (is_reader)
        return 0;
    store->is_owned = true;
    memory->lease = out_owner->lease = ++store->lease;
    return 0;
}

static struct store *find_store(const char *name)
{
    struct store *store = stores;
    while (store != NULL && strcmp(store->name, name) != 0)
        store = store->next;
    return store;
}

static struct store *make_store(const char *name)
{
    struct store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return NULL;
    snprintf(store->name, sizeof store->name, "%s", name);
    store->next = stores;
    stores = store;
    return store;
}

/* ---- the operations -------------------------------------------------------------------------- */

static int memory_lock(struct disk *disk, bool is_reader, struct disk_owner *out_owner)
{
    pthread_mutex_lock(&big_lock);
    int result = take_lock(memory_of(disk), is_reader, out_owner);
    pthread_mutex_unlock(&big_lock);
    return result;
}

/* A visitor must not call this disk: nor does any. */
static int memory_list(struct disk *disk, void (*visit)(void *arg, const char *name), void *arg)
{
    pthread_mutex_lock(&big_lock);
    struct store *store = memory_of(disk)->store;
    for (size_t i = 0; i < FILES_MAX; i++)
        if (store->entries[i].file != NULL)
            visit(arg, store->entries[i].name);
    pthread_mutex_unlock(&big_lock);
    return 0;
}

static int memory_open(struct disk *disk, const char *name, enum disk_how how)
{
    pthread_mutex_lock(&big_lock);
    int result = open_entry(memory_of(disk), name, how);
    pthread_mutex_unlock(&big_lock);
    return result;
}

static void memory_shut(struct disk *disk, int handle)
{
    pthread_mutex_lock(&big_lock);
    struct memory_disk *memory = memory_of(disk);
    unuse(memory->store, file_of(memory, handle));
    memory->handles[handle] = NULL;
    pthread_mutex_unlock(&big_lock);
}

static int64_t memory_read(struct disk *disk, int handle, const struct iovec *pieces, int count,
                           uint64_t offset)
{
    pthread_mutex_lock(&big_lock);
    int64_t result = read_pieces(file_of(memory_of(disk), handle), pieces, count, offset);
    pthread_mutex_unlock(&big_lock);
    return result;
}

static int64_t memory_write(struct disk *disk, int handle, const struct iovec *pieces, int count,
                            uint64_t offset)
{
    pthread_mutex_lock(&big_lock);
    struct memory_disk *memory = memory_of(disk);
    int64_t result = write_pieces(memory, file_of(memory, handle), pieces, count, offset);
    pthread_mutex_unlock(&big_lock);
    return result;
}

static int memory_sync_names(struct disk *disk)
{
    pthread_mutex_lock(&big_lock);
    int result = note_sync(memory_of(disk));
    pthread_mutex_unlock(&big_lock);
    return result;
}

static int memory_sync(struct disk *disk, int handle)
{
    (void)handle;
    return memory_sync_names(disk);
}

static int memory_sync_until(struct disk *disk, int handle, uint64_t offset)
{
    (void)offset;
    return memory_sync(disk, handle);
}

static void memory_hint(struct disk *disk, int handle, uint64_t offset, uint64_t bytes)
{
    (void)disk; /* nothing to begin: it is there */
    (void)handle;
    (void)offset;
    (void)bytes;
}

static int memory_reserve(struct disk *disk, int handle, uint64_t bytes)
{
    pthread_mutex_lock(&big_lock);
    struct memory_disk *memory = memory_of(disk);
    struct file *file = file_of(memory, handle);
    int result = check_owner(memory);
    if (result == 0)
        result = resize(memory->store, file, bytes);
    pthread_mutex_unlock(&big_lock);
    return result;
}

static int64_t memory_size(struct disk *disk, int handle)
{
    pthread_mutex_lock(&big_lock);
    int64_t bytes = (int64_t)file_of(memory_of(disk), handle)->bytes;
    pthread_mutex_unlock(&big_lock);
    return bytes;
}

static int memory_rename(struct disk *disk, const char *from, const char *to)
{
    pthread_mutex_lock(&big_lock);
    int result = rename_entry(memory_of(disk), from, to);
    pthread_mutex_unlock(&big_lock);
    return result;
}

static int memory_unlink(struct disk *disk, const char *name)
{
    pthread_mutex_lock(&big_lock);
    int result = unlink_entry(memory_of(disk), name);
    pthread_mutex_unlock(&big_lock);
    return result;
}

static void memory_close(struct disk *disk)
{
    pthread_mutex_lock(&big_lock);
    struct memory_disk *memory = memory_of(disk);
    for (size_t i = 0; i < HANDLES_MAX; i++)
        if (memory->handles[i] != NULL)
            unuse(memory->store, memory->handles[i]);
    if (memory->lease != 0 && check_owner(memory) == 0)
        memory->store->is_owned = false;
    pthread_mutex_unlock(&big_lock);
    free(memory);
}

/* ---- opening --------------------------------------------------------------------------------- */

int disk_memory_open(const char *rest, bool may_make, struct disk **out_disk, char *complaint)
{
    static const struct disk_ops ops = {.lock = memory_lock,
                                        .list = memory_list,
                                        .open = memory_open,
                                        .shut = memory_shut,
                                        .read = memory_read,
                                        .write = memory_write,
                                        .sync = memory_sync,
                                        .sync_until = memory_sync_until,
                                        .push = memory_hint,
                                        .ahead = memory_hint,
                                        .reserve = memory_reserve,
                                        .size = memory_size,
                                        .rename = memory_rename,
                                        .unlink = memory_unlink,
                                        .sync_names = memory_sync_names,
                                        .close = memory_close};
    char name[NAME_BYTES + 8];
    struct memory_disk *memory = NULL;
    struct store *store = NULL;
    int result = 0;
    if (snprintf(name, sizeof name, "memory:%s", rest) >= (int)sizeof name) {
        snprintf(complaint, DISK_COMPLAINT_BYTES, "the name of a disk in memory is too long");
        return -ENAMETOOLONG;
    }
    memory = calloc(1, sizeof *memory);
    pthread_mutex_lock(&big_lock);
    store = find_store(name);
    if (store == NULL)
        result = may_make ? 0 : -ENOENT;
    if (store == NULL && may_make && memory != NULL)
        store = make_store(name);
    pthread_mutex_unlock(&big_lock);
    if (result == 0 && store == NULL)
        result = -ENOMEM;
    if (memory == NULL)
        result = -ENOMEM;
    if (result < 0) {
        free(memory);
        snprintf(complaint, DISK_COMPLAINT_BYTES, "the disk '%s' cannot be opened: %s", name,
                 strerror(-result));
        return result;
    }
    memory->disk = (struct disk){.ops = &ops, .scheme = "memory", .name = store->name};
    memory->store = store;
    *out_disk = &memory->disk;
    return 0;
}

void disk_memory_take(const char *rest)
{
    char name[NAME_BYTES + 8];
    snprintf(name, sizeof name, "memory:%s", rest);
    pthread_mutex_lock(&big_lock);
    struct store *store = find_store(name);
    must(store != NULL);
    store->lease++;
    store->is_owned = false;
    pthread_mutex_unlock(&big_lock);
}
