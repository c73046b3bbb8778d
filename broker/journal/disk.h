/* SPDX-License-Identifier: MPL-2.0 */
/* disk.h -- all that the journal asks of the system: one directory, its owner, and its files.
 *
 * Everything that reads or writes a journal goes through this layer: writer, reader and tools.  The
 * name of a journal says which disk it is on.  A new kind of disk is one file with these functions,
 * and one row in disk_kinds.c.  Tests have a disk in memory (tests/lib/disk/) and one that refuses,
 * tears, loses and delays what is written (tests/lib/sim_disk.h).
 *
 * Calls return 0 or more, or a negative errno.  Files are named without a path, and by a handle
 * once they are open.  From one thread at a time. */
#ifndef JOURNAL_DISK_H
#define JOURNAL_DISK_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define DISK_COMPLAINT_BYTES 1024

/* Errnos of this layer's own. */
#define DISK_FENCED EOWNERDEAD       /* the disk is another's by now; nothing was done */
#define DISK_UNKNOWN EPROTONOSUPPORT /* no disk has this scheme */
#define DISK_FORGOT ESTALE /* it lacks what it had confirmed: an older copy took its place */

enum { DISK_KEEP_MS = 500, DISK_HOLDER_BYTES = 160 };

enum disk_how {
    DISK_READ,  /* for reading */
    DISK_WRITE, /* for both */
    DISK_MAKE,  /* for both, and empty; made if it is not there */
};

/* Who has the disk. */
struct disk_owner {
    uint64_t lease; /* this caller's; not less than that of any owner before */
    int64_t pid;    /* the other process that has the disk; 0: not known */
    /* This caller, where a disk that lost a lease may give it again; "": the lease is enough. */
    char holder[DISK_HOLDER_BYTES];
};

struct disk;
struct disk_ops {
    /* One owner at a time, until close.  0: out_owner has the lease.  -EWOULDBLOCK: another has
     * it, and out_owner->pid is set.  With is_reader nothing is written, and where there is no
     * lock, and none can be made, none is taken.  An owner may lose the disk to another one: then
     * sync, sync_until and sync_names return -DISK_FENCED, and any call that changes something may.
     */
    int (*lock)(struct disk *disk, bool is_reader, struct disk_owner *out_owner);
    /* All names in the directory, in any order. */
    int (*list)(struct disk *disk, void (*visit)(void *arg, const char *name), void *arg);
    int (*open)(struct disk *disk, const char *name, enum disk_how how);
    void (*shut)(struct disk *disk, int file);
    /* As many bytes as there are, up to what is asked for. */
    int64_t (*read)(struct disk *disk, int file, const struct iovec *pieces, int count,
                    uint64_t offset);
    /* As many as it took: 1 or more. */
    int64_t (*write)(struct disk *disk, int file, const struct iovec *pieces, int count,
                     uint64_t offset);
    /* All that was written to it is on the disk afterwards.  After a failure: unknown. */
    int (*sync)(struct disk *disk, int file);
    /* The same of what was written below this offset; the rest may wait.  Of a file that is written
     * over, the rest is what it was before. */
    int (*sync_until)(struct disk *disk, int file, uint64_t offset);
    /* Begins to bring a range to the disk and waits for nothing; a failure is told by sync. */
    void (*push)(struct disk *disk, int file, uint64_t offset, uint64_t bytes);
    /* Begins to read a range and waits for nothing. */
    void (*ahead)(struct disk *disk, int file, uint64_t offset, uint64_t bytes);
    /* The file has so many bytes, and room on the disk for all of them; what is new is zero. */
    int (*reserve)(struct disk *disk, int file, uint64_t bytes);
    int64_t (*size)(struct disk *disk, int file);
    int (*rename)(struct disk *disk, const char *from, const char *to);
    int (*unlink)(struct disk *disk, const char *name);
    /* Names made, changed and gone are so on the disk afterwards. */
    int (*sync_names)(struct disk *disk);
    /* Says that the owner is still there: it must do so, or sync, every DISK_KEEP_MS.  0,
     * -DISK_FENCED, or another negative errno, which is final.  NULL: nobody waits for that. */
    int (*keep)(struct disk *disk);
    /* [any] What waits for another machine ends soon, with -ECANCELED.  NULL: nothing does. */
    void (*give_up)(struct disk *disk);
    /* [any] Why the disk is away, as far as it can tell; "": it is not.  out: of
     * DISK_COMPLAINT_BYTES.  NULL: it never is. */
    void (*away)(struct disk *disk, char *out);
    void (*close)(struct disk *disk); /* the lock too; frees what the disk has */
};
struct disk {
    const struct disk_ops *ops;
    const char *scheme;
    const char *name;  /* for people: the directory, or scheme and rest */
    const char *files; /* a directory with the same files, for readers; NULL: `name` is it */
    const char *why;   /* the last failure as a sentence; NULL: its errno says enough */
};
/* Of a disk that several machines reach: which part of it, and what is this machine's. */
struct disk_shard {
    unsigned number;
    unsigned replicas; /* copies on other machines that must confirm a sync */
    const char *cache; /* a directory for a copy of its files */
    /* Called while the copy is made, again and again: that may take long.  NULL: nobody asks. */
    void (*on_copy)(void *arg);
    void *on_copy_arg;
};
/* One kind of disk. */
struct disk_kind {
    const char *scheme;
    /* rest: what the name has behind "scheme:".  0, or a negative errno with a sentence in
     * complaint, of DISK_COMPLAINT_BYTES. */
    int (*open)(const char *rest, bool may_make, struct disk **out_disk, char *complaint);
    const char *rest; /* what is expected there, for people */
    /* The same of one shard; it may be made.  NULL: this kind of disk has none. */
    int (*open_shard)(const char *rest, const struct disk_shard *shard, struct disk **out_disk,
                      char *complaint);
};
/* All kinds that this program knows (disk_kinds.c); the first is that of a name without a scheme.
 */
extern const struct disk_kind disk_kinds[];
extern const size_t disk_kind_count;

/* The disk of this name: "scheme:rest", or a path alone, which is a directory.  A name is a path
 * if a '/' or '.' stands before its first ':', or if it has none.  0, or a negative errno with a
 * sentence in complaint, of DISK_COMPLAINT_BYTES; -DISK_UNKNOWN: it names the schemes that are
 * known. */
int disk_open(const char *where, bool may_make, struct disk **out_disk, char *complaint);

/* The same to own it.  shard NULL: a disk without shards. */
int disk_open_shard(const char *where, bool may_make, const struct disk_shard *shard,
                    struct disk **out_disk, char *complaint);
/* Whether a disk of this name has shards. */
bool disk_is_shared(const char *where);

/* All of it or a failure. */
int disk_write_all(struct disk *disk, int file, struct iovec *pieces, int count, uint64_t offset);
/* Bytes at one place; as many as there are. */
int64_t disk_read_at(struct disk *disk, int file, void *out, size_t bytes, uint64_t offset);
void disk_close(struct disk **disk);

/* "folder:PATH": a directory of the file system, made with its parents if may_make and it is not
 * there. */
int disk_folder_open(const char *path, bool may_make, struct disk **out_disk, char *complaint);

/* "postgres:CONNINFO": a shard in PostgreSQL (postgres_store.h).  The first one refuses. */
int disk_postgres_open(const char *rest, bool may_make, struct disk **out_disk, char *complaint);
int disk_postgres_open_shard(const char *rest, const struct disk_shard *shard,
                             struct disk **out_disk, char *complaint);
/* The same through this door, which it takes over. */
struct door;
int disk_postgres_open_door(struct door **door, const char *conninfo,
                            const struct disk_shard *shard, struct disk **out_disk,
                            char *complaint);

#endif
