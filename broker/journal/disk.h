/* SPDX-License-Identifier: MPL-2.0 */
/* disk.h -- all that the journal asks of the system: one directory and the files in it.
 *
 * A small layer, so that tests can refuse, tear, lose and delay what is written, and see in which
 * order it was brought to the disk (tests/lib/sim_disk.h).  disk_folder_open() is the real one.
 *
 * Calls return 0 or more, or a negative errno.  Files are named without a path, and by a handle
 * once they are open.  From one thread at a time. */
#ifndef JOURNAL_DISK_H
#define JOURNAL_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define DISK_COMPLAINT_BYTES 1024

enum disk_how {
    DISK_READ,  /* for reading */
    DISK_WRITE, /* for both */
    DISK_MAKE,  /* for both, and empty; made if it is not there */
};

struct disk;
struct disk_ops {
    /* One opener at a time; taken until close.  -EWOULDBLOCK: another has it, whose process is told
     * if it is known (else 0).  With is_reader nothing is written, and where there is no lock, and
     * none can be made, none is taken. */
    int (*lock)(struct disk *disk, bool is_reader, int64_t *out_pid);
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
    void (*close)(struct disk *disk); /* the lock too; frees what the disk has */
};
struct disk {
    const struct disk_ops *ops;
    const char *name; /* of the directory, for people */
};

/* All of it or a failure. */
int disk_write_all(struct disk *disk, int file, struct iovec *pieces, int count, uint64_t offset);
/* Bytes at one place; as many as there are. */
int64_t disk_read_at(struct disk *disk, int file, void *out, size_t bytes, uint64_t offset);
void disk_close(struct disk **disk);

/* A directory of the file system, made with its parents if may_make and it is not there.  0, or a
 * negative errno with a sentence in complaint, of DISK_COMPLAINT_BYTES. */
int disk_folder_open(const char *path, bool may_make, struct disk **out_disk, char *complaint);

#endif
