/* SPDX-License-Identifier: MPL-2.0 */
/* sim_disk.c -- a disk in memory that can fail; see sim_disk.h. */
#include "tests/lib/sim_disk.h"

#include "libbus/base/must.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 512
#define FILES_MAX 1024
#define PENDING_MAX 256
#define FAULTS_MAX 8
#define TOLD_MAX 256
#define PID 4711
#define LEASE 1

struct sim_file {
    uint8_t *cache;
    uint8_t *medium;
    bool *is_dirty; /* by sector */
    size_t room;    /* of all three */
    size_t bytes;
    size_t medium_bytes;
    bool is_used;
};

struct sim_name {
    char name[64];
    int file; /* -1: none */
};

/* A name that is not on the medium yet as it is; both of a rename have one group. */
struct sim_pending {
    struct sim_name to;
    uint32_t group;
};

struct sim_fault {
    unsigned calls;
    uint64_t skip;
    uint64_t times;
    int err;
};

struct sim_disk {
    struct disk disk;
    uint64_t dice;
    struct sim_file files[FILES_MAX];
    struct sim_name seen[NAMES_MAX]; /* as programs see them */
    size_t seen_count;
    struct sim_name kept[NAMES_MAX]; /* as they are on the medium */
    size_t kept_count;
    struct sim_pending pending[PENDING_MAX];
    size_t pending_count;
    uint32_t group;
    struct sim_fault faults[FAULTS_MAX];
    size_t fault_count;
    uint64_t calls;
    uint64_t stop_after;
    uint64_t limit;
    char told[TOLD_MAX];
    size_t told_count;
    int handles;
    bool is_open;
    bool is_locked;
    bool is_stingy;
    bool is_hoarding; /* see sim_disk_hoard() */
    sem_t *held;      /* see sim_disk_hold() */
    bool is_all_held;
    atomic_uint waiting;
};

/* A journal's second thread syncs beside the first. */
static pthread_mutex_t big_lock = PTHREAD_MUTEX_INITIALIZER;

static void let_in(pthread_mutex_t **lock)
{
    pthread_mutex_unlock(*lock);
}

static pthread_mutex_t *keep_out(void)
{
    pthread_mutex_lock(&big_lock);
    return &big_lock;
}

/* One thread at a time, up to the end of the function. */
#define GUARD() pthread_mutex_t *guard __attribute__((cleanup(let_in), unused)) = keep_out()

static struct sim_disk *sim_of(struct disk *disk)
{
    return (struct sim_disk *)(void *)disk;
}

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t roll(struct sim_disk *sim)
{
    uint64_t z = sim->dice += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static bool flip(struct sim_disk *sim)
{
    return (roll(sim) & 1) != 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

static int find_name(const struct sim_name *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i].name, name) == 0)
            return (int)i;
    return -1;
}

static void set_name(struct sim_name *names, size_t *count, const struct sim_name *to)
{
    int index = find_name(names, *count, to->name);
    if (index < 0 && to->file >= 0) {
        must(*count < NAMES_MAX);
        names[(*count)++] = *to;
    } else if (index >= 0 && to->file >= 0) {
        names[index] = *to;
    } else if (index >= 0) {
        memmove(names + index, names + index + 1, (--*count - (size_t)index) * sizeof *names);
    }
}

static void change_name(struct sim_disk *sim, const char *name, int file)
{
    struct sim_name to = {.file = file};
    must(strlen(name) < sizeof to.name && sim->pending_count < PENDING_MAX);
    memcpy(to.name, name, strlen(name) + 1);
    set_name(sim->seen, &sim->seen_count, &to);
    sim->pending[sim->pending_count++] = (struct sim_pending){.to = to, .group = sim->group};
}

static struct sim_file *file_named(struct sim_disk *sim, const char *name)
{
    int index = find_name(sim->seen, sim->seen_count, name);
    return index < 0 ? NULL : &sim->files[sim->seen[index].file];
}

/* ---- files ----------------------------------------------------------------------------------- */

static void file_fini(struct sim_file *file)
{
    free(file->cache);
    free(file->medium);
    free(file->is_dirty);
    *file = (struct sim_file){.is_used = false};
}

static void *grown(void *block, size_t old_bytes, size_t bytes)
{
    uint8_t *bigger = realloc(block, bytes);
    must(bigger != NULL);
    memset(bigger + old_bytes, 0, bytes - old_bytes);
    return bigger;
}

static void make_room(struct sim_file *file, size_t bytes)
{
    size_t room = (bytes + SIM_SECTOR) / SIM_SECTOR * SIM_SECTOR;
    if (room <= file->room)
        return;
    file->cache = grown(file->cache, file->room, room);
    file->medium = grown(file->medium, file->room, room);
    file->is_dirty = grown(file->is_dirty, file->room / SIM_SECTOR, room / SIM_SECTOR);
    file->room = room;
}

static int new_file(struct sim_disk *sim)
{
    for (int i = 0; i < FILES_MAX; i++)
        if (!sim->files[i].is_used) {
            sim->files[i].is_used = true;
            return i;
        }
    must(!"enough files");
    return -1;
}

/* Frees what no name leads to any more. */
static void collect(struct sim_disk *sim)
{
    bool is_named[FILES_MAX] = {false};
    for (size_t i = 0; i < sim->seen_count; i++)
        is_named[sim->seen[i].file] = true;
    for (size_t i = 0; i < sim->kept_count; i++)
        is_named[sim->kept[i].file] = true;
    for (size_t i = 0; i < sim->pending_count; i++)
        if (sim->pending[i].to.file >= 0)
            is_named[sim->pending[i].to.file] = true;
    for (int i = 0; i < FILES_MAX; i++)
        if (sim->files[i].is_used && !is_named[i])
            file_fini(&sim->files[i]);
}

static void keep_sector(struct sim_file *file, size_t sector)
{
    memcpy(file->medium + sector * SIM_SECTOR, file->cache + sector * SIM_SECTOR, SIM_SECTOR);
}

static void settle(struct sim_disk *sim, struct sim_file *file, bool is_whole)
{
    for (size_t i = 0; i < file->room / SIM_SECTOR; i++) {
        if (file->is_dirty[i] && (is_whole || flip(sim)))
            keep_sector(file, i);
        file->is_dirty[i] = false;
    }
    file->medium_bytes = is_whole || flip(sim) ? file->bytes : file->medium_bytes;
}

/* What was dirty is gone. */
static void drop_file(struct sim_file *file)
{
    for (size_t i = 0; i < file->room / SIM_SECTOR; i++)
        file->is_dirty[i] = false;
    file->bytes = file->medium_bytes;
    if (file->room == 0)
        return;
    memset(file->medium + file->bytes, 0, file->room - file->bytes);
    memcpy(file->cache, file->medium, file->room);
}

/* How the machine went: what was dirty is lost, is there, is there in part, or up to a place. */
static void crash_file(struct sim_disk *sim, struct sim_file *file)
{
    uint64_t mood = roll(sim) % 4;
    size_t sectors = file->room / SIM_SECTOR;
    size_t until = sectors > 0 ? roll(sim) % (sectors + 1) : 0;
    for (size_t i = 0; i < sectors; i++) {
        bool is_kept = mood == 1 || (mood == 2 && flip(sim)) || (mood == 3 && i < until);
        if (file->is_dirty[i] && is_kept)
            keep_sector(file, i);
    }
    if (flip(sim))
        file->medium_bytes = file->bytes;
    drop_file(file);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* 0, or why this call fails. */
static int fate(struct sim_disk *sim, enum sim_call call, char letter)
{
    if (call != SIM_READ) {
        sim->calls++;
        if (sim->told_count + 1 < TOLD_MAX)
            sim->told[sim->told_count++] = letter;
        if (sim->calls > sim->stop_after)
            return -EIO;
    }
    for (size_t i = 0; i < sim->fault_count; i++) {
        struct sim_fault *fault = &sim->faults[i];
        if ((fault->calls & call) == 0 || fault->times == 0)
            continue;
        if (fault->skip > 0) {
            fault->skip--;
            continue;
        }
        fault->times -= fault->times != SIM_NO_LIMIT;
        return -fault->err;
    }
    return 0;
}

static bool is_stopped(const struct sim_disk *sim)
{
    return sim->calls > sim->stop_after;
}

static uint64_t used_bytes(const struct sim_disk *sim)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < sim->seen_count; i++)
        bytes += sim->files[sim->seen[i].file].bytes;
    return bytes;
}

/* ---- the operations -------------------------------------------------------------------------- */

static int sim_lock(struct disk *disk, bool is_reader, struct disk_owner *out_owner)
{
    GUARD();
    struct sim_disk *sim = sim_of(disk);
    (void)is_reader;
    if (sim->is_locked) {
        out_owner->pid = PID;
        return -EWOULDBLOCK;
    }
    out_owner->lease = LEASE;
    sim->is_locked = true;
    return 0;
}

static int sim_list(struct disk *disk, void (*visit)(void *arg, const char *name), void *arg)
{
    GUARD();
    struct sim_disk *sim = sim_of(disk);
    int result = fate(sim, SIM_READ, ' ');
    visit(arg, ".");
    visit(arg, "..");
    for (size_t i = sim->seen_count; result == 0 && i > 0; i--)
        visit(arg, sim->seen[i - 1].name);
    return result;
}

static int sim_open(struct disk *disk, const char *name, enum disk_how how)
{
    GUARD();
    struct sim_disk *sim = sim_of(disk);
    int index = find_name(sim->seen, sim->seen_count, name);
    int result = how == DISK_READ ? fate(sim, SIM_READ, ' ') : fate(sim, SIM_OPEN, 'o');
    if (result < 0)
        return result;
    if (how != DISK_MAKE && index < 0)
        return -ENOENT;
    sim->handles++;
    if (how != DISK_MAKE)
        return sim->seen[index].file;
    /* Emptied in place is made anew: what the medium has of it is in doubt all the same. */
    sim->group++;
    int file = new_file(sim);
    change_name(sim, name, file);
    return file;
}

static void sim_shut(struct disk *disk, int file)
{
    GUARD();
    sim_of(disk)->handles--;
    (void)file;
}

static int64_t sim_read(struct disk *disk, int handle, const struct iovec *pieces, int count,
                        uint64_t offset)
{
    GUARD();
    struct sim_disk *sim = sim_of(disk);
    const struct sim_file *file = &sim->files[handle];
    int64_t total = 0;
    int result = fate(sim, SIM_READ, ' ');
    for (int i = 0; result == 0 && i < count && offset < file->bytes; i++) {
        uint64_t left = file->bytes - offset;
        size_t bytes = pieces[i].iov_len < left ? pieces[i].iov_len : (size_t)left;
        if (bytes > 0)
            memcpy(pieces[i].iov_base, file->cache + offset, bytes);
        offset += bytes;
        total += (int64_t)bytes;
    }
    return result < 0 ? result : total;
}

static void write_piece(struct sim_disk *sim, struct sim_file *file, const void *data, size_t bytes,
                        uint64_t offset)
{
    if (bytes == 0)
        return;
    make_room(file, offset + bytes);
    for (size_t i = offset / SIM_SECTOR; i <= (offset + bytes - 1) / SIM_SECTOR; i++) {
        if (file->is_dirty[i] && flip(sim))
            keep_sector(file, i); /* as it was before: written back at any time */
        file->is_dirty[i] = true;
    }
    memcpy(file->cache + offset, data, bytes);
    file->bytes = file->bytes > offset + bytes ? file->bytes : offset + bytes;
}

static int64_t sim_write(struct disk *disk, int handle, const struct iovec *pieces, int count,
                         uint64_t offset)
{
    GUARD();
    struct sim_disk *sim = sim_of(disk);
    struct sim_file *file = &sim->files[handle];
    uint64_t total = 0;
    uint64_t written = 0;
    for (int i = 0; i < count; i++)
        total += pieces[i].iov_len;
    int result = fate(sim, SIM_WRITE, 'w');
    if (is_stopped(sim))
        return result;
    uint64_t until = total;
    if (result == 0 && offset + total > file->bytes && sim->limit != SIM_NO_LIMIT &&
        used_bytes(sim) + offset + total - file->bytes > sim->limit)
        return -ENOSPC;
    if (result < 0)
        until = roll(sim) % 3 == 0 ? total : roll(sim) % (total + 1);
    else if (sim->is_stingy)
        until = 1 + roll(sim) % total;
    for (int i = 0; i < count && written < until; i++) {
        uint64_t left = until - written;
        size_t bytes = pieces[i].iov_len < left ? pieces[i].iov_len : (size_t)left;
        write_piece(sim, file, pieces[i].iov_base, bytes, offset + written);
        written += bytes;
    }
    return result < 0 ? result : (int64_t)written;
}

/* Without the lock: others go on meanwhile. */
static void wait_held(struct sim_disk *sim)
{
    atomic_fetch_add(&sim->waiting, 1);
    while (sem_wait(sim->held) != 0)
        continue; /* a signal came */
    atomic_fetch_sub(&sim->waiting, 1);
}

static int sim_sync(struct disk *disk, int handle)
{
    struct sim_disk *sim = sim_of(disk);
    if (sim->is_all_held)
        wait_held(sim);
    GUARD();
    int result = fate(sim, SIM_SYNC, 's');
    if (!is_stopped(sim))
        settle(sim, &sim->files[handle], result == 0);
    return result;
}

static int sim_sync_until(struct disk *disk, int handle, uint64_t offset)
{
    struct sim_disk *sim = sim_of(disk);
    if (sim->held != NULL)
        wait_held(sim);
    GUARD();
    struct sim_file *file = &sim->files[handle];
    int result = fate(sim, SIM_SYNC, 's');
    for (size_t i = 0; !is_stopped(sim) && i < file->room / SIM_SECTOR; i++) {
        if (i * SIM_SECTOR >= offset)
            break;
        if (file->is_dirty[i] && (result == 0 || flip(sim)))
            keep_sector(file, i);
        file->is_dirty[i] = false;
    }
    if (!is_stopped(sim))
        file->medium_bytes = result == 0 || flip(sim) ? file->bytes : file->medium_bytes;
    return result;
}

/* Some of it gets there, some later. */
static void sim_push(struct disk *disk, int handle, uint64_t offset, uint64_t bytes)
{
    GUARD();
    struct sim_disk *sim = sim_of(disk);
    struct sim_file *file = &sim->files[handle];
    if (sim->told_count + 1 < TOLD_MAX)
        sim->told[sim->told_count++] = 'p';
    for (uint64_t i = offset / SIM_SECTOR; i < (offset + bytes) / SIM_SECTOR; i++)
        if (!is_stopped(sim) && i < file->room / SIM_SECTOR && file->is_dirty[i] && flip(sim))
            keep_sector(file, i);
}

/* All is in memory. */
static void sim_ahead(struct disk *disk, int handle, uint64_t offset, uint64_t bytes)
{
    GUARD();
    (void)disk;
    (void)handle;
    (void)offset;
    (void)bytes;
}

static int sim_reserve(struct disk *disk, int handle, uint64_t bytes)
{
    GUARD();
    struct sim_disk *sim = sim_of(disk);
    struct sim_file *file = &sim->files[handle];
    int result = fate(sim, SIM_RESERVE, 'f');
    if (result < 0 || bytes <= file->bytes)
        return result;
    if (sim->limit != SIM_NO_LIMIT && used_bytes(sim) + bytes - file->bytes > sim->limit) {
        result = -ENOSPC;
        bytes = file->bytes;
        if (sim->is_hoarding && used_bytes(sim) < sim->limit)
            bytes += sim->limit - used_bytes(sim);
    }
    make_room(file, bytes);
    file->bytes = bytes;
    return result;
}

static int64_t sim_size(struct disk *disk, int handle)
{
    GUARD();
    return (int64_t)sim_of(disk)->files[handle].bytes;
}

static int sim_rename(struct disk *disk, const char *from, const char *to)
{
    GUARD();
    struct sim_disk *sim = sim_of(disk);
    int result = fate(sim, SIM_RENAME, 'r');
    if (result < 0)
        return result;
    int index = find_name(sim->seen, sim->seen_count, from);
    if (index < 0)
        return -ENOENT;
    sim->group++;
    change_name(sim, to, sim->seen[index].file);
    change_name(sim, from, -1);
    return 0;
}

static int sim_unlink(struct disk *disk, const char *name)
{
    GUARD();
    struct sim_disk *sim = sim_of(disk);
    int result = fate(sim, SIM_UNLINK, 'u');
    if (result < 0)
        return result;
    if (find_name(sim->seen, sim->seen_count, name) < 0)
        return -ENOENT;
    sim->group++;
    change_name(sim, name, -1);
    return 0;
}

static int sim_sync_names(struct disk *disk)
{
    GUARD();
    struct sim_disk *sim = sim_of(disk);
    int result = fate(sim, SIM_SYNC_NAMES, 'n');
    if (result < 0)
        return result;
    for (size_t i = 0; i < sim->pending_count; i++)
        set_name(sim->kept, &sim->kept_count, &sim->pending[i].to);
    sim->pending_count = 0;
    collect(sim);
    return 0;
}

static void sim_close(struct disk *disk)
{
    GUARD();
    sim_disk_kill(sim_of(disk));
}

static const struct disk_ops sim_ops = {.lock = sim_lock,
                                        .list = sim_list,
                                        .open = sim_open,
                                        .shut = sim_shut,
                                        .read = sim_read,
                                        .write = sim_write,
                                        .sync = sim_sync,
                                        .sync_until = sim_sync_until,
                                        .push = sim_push,
                                        .ahead = sim_ahead,
                                        .reserve = sim_reserve,
                                        .size = sim_size,
                                        .rename = sim_rename,
                                        .unlink = sim_unlink,
                                        .sync_names = sim_sync_names,
                                        .close = sim_close};

/* ---- made anew ------------------------------------------------------------------------------- */

struct sim_disk *sim_disk_new(uint64_t seed)
{
    struct sim_disk *sim = calloc(1, sizeof *sim);
    must(sim != NULL);
    sim->disk = (struct disk){.ops = &sim_ops, .scheme = "sim", .name = "sim"};
    sim->dice = seed;
    sim->stop_after = SIM_NO_LIMIT;
    sim->limit = SIM_NO_LIMIT;
    return sim;
}

void sim_disk_free(struct sim_disk **sim)
{
    if (*sim != NULL)
        for (int i = 0; i < FILES_MAX; i++)
            file_fini(&(*sim)->files[i]);
    free(*sim);
    *sim = NULL;
}

struct sim_disk *sim_disk_clone(const struct sim_disk *sim, uint64_t seed)
{
    struct sim_disk *clone = sim_disk_new(seed);
    for (size_t i = 0; i < sim->seen_count; i++) {
        const struct sim_file *file = &sim->files[sim->seen[i].file];
        sim_disk_put(clone, sim->seen[i].name, file->cache, file->bytes);
    }
    return clone;
}

struct disk *sim_disk_open(struct sim_disk *sim)
{
    must(!sim->is_open);
    sim->is_open = true;
    return &sim->disk;
}

void sim_disk_take_lock(struct sim_disk *sim)
{
    sim->is_locked = true;
}

void sim_disk_fault(struct sim_disk *sim, unsigned calls, uint64_t skip, uint64_t times, int err)
{
    must(sim->fault_count < FAULTS_MAX);
    sim->faults[sim->fault_count++] =
        (struct sim_fault){.calls = calls, .skip = skip, .times = times, .err = err};
}

void sim_disk_stop_after(struct sim_disk *sim, uint64_t calls)
{
    sim->stop_after = calls == SIM_NO_LIMIT ? SIM_NO_LIMIT : sim->calls + calls;
}

uint64_t sim_disk_below(struct sim_disk *sim, uint64_t count)
{
    must(count > 0);
    return roll(sim) % count;
}

int sim_disk_handles(const struct sim_disk *sim)
{
    return sim->handles;
}

uint64_t sim_disk_calls(const struct sim_disk *sim)
{
    return sim->calls;
}

void sim_disk_limit(struct sim_disk *sim, uint64_t bytes)
{
    sim->limit = bytes;
}

static int sim_keep(struct disk *disk)
{
    (void)disk;
    return 0;
}

void sim_disk_need_keeping(struct sim_disk *sim)
{
    static struct disk_ops kept;
    kept = sim_ops;
    kept.keep = sim_keep;
    sim->disk.ops = &kept;
}

void sim_disk_hold(struct sim_disk *sim, sem_t *held)
{
    sim->held = held;
}

void sim_disk_hold_all(struct sim_disk *sim, sem_t *held)
{
    sim->is_all_held = true;
    sim_disk_hold(sim, held);
}

bool sim_disk_is_held(struct sim_disk *sim)
{
    return atomic_load(&sim->waiting) > 0;
}

void sim_disk_stint(struct sim_disk *sim)
{
    sim->is_stingy = true;
}

void sim_disk_hoard(struct sim_disk *sim)
{
    sim->is_hoarding = true;
}

void sim_disk_kill(struct sim_disk *sim)
{
    sim->is_open = false;
    sim->is_locked = false;
    sim->stop_after = SIM_NO_LIMIT;
    sim->fault_count = 0;
}

/* The names are those on the medium. */
static void forget_names(struct sim_disk *sim)
{
    sim->pending_count = 0;
    memcpy(sim->seen, sim->kept, sizeof sim->seen);
    sim->seen_count = sim->kept_count;
    collect(sim);
}

void sim_disk_crash(struct sim_disk *sim)
{
    sim_disk_kill(sim);
    for (size_t i = 0; i < sim->pending_count;) {
        uint32_t group = sim->pending[i].group;
        bool is_kept = flip(sim);
        for (; i < sim->pending_count && sim->pending[i].group == group; i++)
            if (is_kept)
                set_name(sim->kept, &sim->kept_count, &sim->pending[i].to);
    }
    forget_names(sim);
    for (int i = 0; i < FILES_MAX; i++)
        if (sim->files[i].is_used)
            crash_file(sim, &sim->files[i]);
}

void sim_disk_move(struct sim_disk *sim)
{
    sim_disk_kill(sim);
    forget_names(sim);
    for (int i = 0; i < FILES_MAX; i++)
        if (sim->files[i].is_used)
            drop_file(&sim->files[i]);
}

/* ---- what is there --------------------------------------------------------------------------- */

uint8_t *sim_disk_file(struct sim_disk *sim, const char *name, size_t *out_bytes)
{
    struct sim_file *file = file_named(sim, name);
    if (file == NULL)
        return NULL;
    *out_bytes = file->bytes;
    return file->cache;
}

void sim_disk_put(struct sim_disk *sim, const char *name, const void *data, size_t bytes)
{
    sim_disk_remove(sim, name);
    int handle = new_file(sim);
    struct sim_file *file = &sim->files[handle];
    make_room(file, bytes);
    if (bytes > 0)
        memcpy(file->cache, data, bytes);
    file->bytes = bytes;
    sim->group++;
    change_name(sim, name, handle);
    for (size_t i = 0; i < file->room / SIM_SECTOR; i++)
        file->is_dirty[i] = true;
    settle(sim, file, true);
    set_name(sim->kept, &sim->kept_count, &sim->pending[--sim->pending_count].to);
}

void sim_disk_cut(struct sim_disk *sim, const char *name, size_t bytes)
{
    struct sim_file *file = file_named(sim, name);
    must(file != NULL && bytes <= file->bytes);
    memset(file->cache + bytes, 0, file->bytes - bytes);
    file->bytes = bytes;
    for (size_t i = 0; i < file->room / SIM_SECTOR; i++)
        file->is_dirty[i] = true;
    settle(sim, file, true);
}

void sim_disk_remove(struct sim_disk *sim, const char *name)
{
    struct sim_name gone = {.file = -1};
    must(strlen(name) < sizeof gone.name);
    memcpy(gone.name, name, strlen(name) + 1);
    set_name(sim->seen, &sim->seen_count, &gone);
    set_name(sim->kept, &sim->kept_count, &gone);
    collect(sim);
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

uint64_t sim_disk_unsynced(const struct sim_disk *sim, const char *name, uint64_t offset)
{
    int index = find_name(sim->seen, sim->seen_count, name);
    const struct sim_file *file = index >= 0 ? &sim->files[sim->seen[index].file] : NULL;
    uint64_t bytes = 0;
    for (size_t i = 0; file != NULL && i < file->room / SIM_SECTOR && i * SIM_SECTOR < offset; i++)
        bytes += file->is_dirty[i] ? SIM_SECTOR : 0;
    return bytes;
}

const char *sim_disk_name(const struct sim_disk *sim, size_t i)
{
    const char *names[NAMES_MAX];
    for (size_t k = 0; k < sim->seen_count; k++)
        names[k] = sim->seen[k].name;
    if (i >= sim->seen_count)
        return NULL;
    qsort(names, sim->seen_count, sizeof *names, compare_names);
    return names[i];
}

const char *sim_disk_told(struct sim_disk *sim)
{
    static char told[TOLD_MAX];
    memcpy(told, sim->told, sizeof told);
    memset(sim->told, 0, sizeof sim->told);
    sim->told_count = 0;
    return told;
}
