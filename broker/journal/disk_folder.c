/* SPDX-License-Identifier: MPL-2.0 */
/* disk_folder.c -- a disk that is a directory of the file system. */
#include "broker/journal/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_NAME "lock"
enum { LEASE = 1 }; /* of all owners: the lock lets in one at a time */

struct folder {
    struct disk disk;
    char *path;
    int fd;
    int lock; /* -1: not taken */
};

static int folder_fd(struct disk *disk)
{
    return ((struct folder *)(void *)disk)->fd;
}

static int code(long result)
{
    return result < 0 ? -errno : 0;
}

/* ---- the lock -------------------------------------------------------------------------------- */

static int64_t read_pid(int fd)
{
    char text[32];
    ssize_t bytes = pread(fd, text, sizeof text - 1, 0);
    if (bytes <= 0)
        return 0;
    text[bytes] = '\0';
    return strtoll(text, NULL, 10);
}

static int write_pid(int fd)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)length, 0) != length)
        return code(-1);
    return 0;
}

/* A lock of flock(2) goes with the process that has it, however it ends. */
static int folder_lock(struct disk *disk, bool is_reader, struct disk_owner *out_owner)
{
    struct folder *folder = (struct folder *)(void *)disk;
    int result = 0;
    int how = is_reader ? O_RDONLY : O_RDWR | O_CREAT;
    *out_owner = (struct disk_owner){.lease = LEASE};
    int fd = openat(folder->fd, LOCK_NAME, how | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return is_reader && errno == ENOENT ? 0 : code(fd);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        result = -errno;
        out_owner->pid = read_pid(fd);
    } else if (!is_reader) {
        result = write_pid(fd);
    }
    if (result < 0)
        close(fd);
    else
        folder->lock = fd;
    return result;
}

/* If somebody removes the lock file, another process can lock a new one.  As long as none does,
 * this owner is alone. */
static int check_owner(const struct folder *folder)
{
    struct stat own;
    struct stat other;
    if (folder->lock < 0 || fstat(folder->lock, &own) != 0 || own.st_nlink > 0)
        return 0;
    bool is_taken = fstatat(folder->fd, LOCK_NAME, &other, AT_SYMLINK_NOFOLLOW) == 0;
    return is_taken ? -DISK_FENCED : 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

static int folder_list(struct disk *disk, void (*visit)(void *arg, const char *name), void *arg)
{
    int fd = openat(folder_fd(disk), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return code(fd);
    DIR *names = fdopendir(fd);
    if (names == NULL) {
        close(fd);
        return -ENOMEM;
    }
    const struct dirent *entry = NULL;
    errno = 0;
    while ((entry = readdir(names)) != NULL) {
        visit(arg, entry->d_name);
        errno = 0;
    }
    int result = -errno;
    closedir(names);
    return result;
}

static int folder_rename(struct disk *disk, const char *from, const char *to)
{
    int fd = folder_fd(disk);
    return code(renameat(fd, from, fd, to));
}

static int folder_unlink(struct disk *disk, const char *name)
{
    return code(unlinkat(folder_fd(disk), name, 0));
}

static int folder_sync_names(struct disk *disk)
{
    int result = 0;
    do
        result = fsync(folder_fd(disk));
    while (result != 0 && errno == EINTR);
    return result != 0 ? code(result) : check_owner((struct folder *)(void *)disk);
}

/* ---- files ----------------------------------------------------------------------------------- */

static int folder_open(struct disk *disk, const char *name, enum disk_how how)
{
    static const int flags[] = {
        [DISK_READ] = O_RDONLY, [DISK_WRITE] = O_RDWR, [DISK_MAKE] = O_RDWR | O_CREAT | O_TRUNC};
    int fd = openat(folder_fd(disk), name, flags[how] | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? code(fd) : fd;
}

static void folder_shut(struct disk *disk, int file)
{
    (void)disk;
    close(file); /* what matters was synced before */
}

static int64_t folder_read(struct disk *disk, int file, const struct iovec *pieces, int count,
                           uint64_t offset)
{
    (void)disk;
    ssize_t bytes = 0;
    do
        bytes = preadv(file, pieces, count, (off_t)offset);
    while (bytes < 0 && errno == EINTR);
    return bytes < 0 ? -errno : bytes;
}

static int64_t folder_write(struct disk *disk, int file, const struct iovec *pieces, int count,
                            uint64_t offset)
{
    (void)disk;
    ssize_t bytes = 0;
    do
        bytes = pwritev(file, pieces, count < IOV_MAX ? count : IOV_MAX, (off_t)offset);
    while (bytes < 0 && errno == EINTR);
    return bytes < 0 ? -errno : bytes;
}

/* After EINTR it asks again.  Any other failure is final, for the system reports it only once. */
static int folder_sync(struct disk *disk, int file)
{
    int result = 0;
    do
        result = fdatasync(file);
    while (result != 0 && errno == EINTR);
    return result != 0 ? code(result) : check_owner((struct folder *)(void *)disk);
}

/* Syncs a part of a file, as fdatasync() syncs all of it.  Only msync() of a mapping can do that;
 * no page of the mapping is ever touched. */
static int folder_sync_until(struct disk *disk, int file, uint64_t offset)
{
    void *map = mmap(NULL, offset, PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        return folder_sync(disk, file);
    int result = 0;
    do
        result = code(msync(map, offset, MS_SYNC));
    while (result == -EINTR);
    (void)munmap(map, offset);
    return result != 0 ? result : check_owner((struct folder *)(void *)disk);
}

/* A failure stays with the file until fdatasync tells it. */
static void folder_push(struct disk *disk, int file, uint64_t offset, uint64_t bytes)
{
    (void)disk;
    (void)sync_file_range(file, (off_t)offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
}

static void folder_ahead(struct disk *disk, int file, uint64_t offset, uint64_t bytes)
{
    (void)disk;
    (void)posix_fadvise(file, (off_t)offset, (off_t)bytes, POSIX_FADV_WILLNEED); /* or it waits */
}

static int folder_reserve(struct disk *disk, int file, uint64_t bytes)
{
    (void)disk;
    int err = 0;
    do
        err = posix_fallocate(file, 0, (off_t)bytes);
    while (err == EINTR);
    return -err;
}

static int64_t folder_size(struct disk *disk, int file)
{
    (void)disk;
    struct stat status;
    if (fstat(file, &status) != 0)
        return -errno;
    return S_ISREG(status.st_mode) ? status.st_size : -EISDIR;
}

static void folder_close(struct disk *disk)
{
    struct folder *folder = (struct folder *)(void *)disk;
    if (folder->lock >= 0)
        close(folder->lock);
    if (folder->fd >= 0)
        close(folder->fd);
    free(folder->path);
    free(folder);
}

static const struct disk_ops folder_ops = {.lock = folder_lock,
                                           .list = folder_list,
                                           .open = folder_open,
                                           .shut = folder_shut,
                                           .read = folder_read,
                                           .write = folder_write,
                                           .sync = folder_sync,
                                           .sync_until = folder_sync_until,
                                           .push = folder_push,
                                           .ahead = folder_ahead,
                                           .reserve = folder_reserve,
                                           .size = folder_size,
                                           .rename = folder_rename,
                                           .unlink = folder_unlink,
                                           .sync_names = folder_sync_names,
                                           .close = folder_close};

/* ---- opening --------------------------------------------------------------------------------- */

/* Makes path and what leads to it. */
static int make_folders(char *path)
{
    for (char *at = path + 1;; at++) {
        if (*at != '/' && *at != '\0')
            continue;
        char end = *at;
        *at = '\0';
        int result = mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : -errno;
        *at = end;
        if (result < 0 || end == '\0')
            return result;
    }
}

static int sync_parent(const char *path)
{
    int result = 0;
    char *parent = NULL;
    if (asprintf(&parent, "%s/..", path) < 0)
        return -ENOMEM;
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        result = code(fsync(fd));
        close(fd);
    }
    free(parent);
    return result;
}

/* is_made: what failed was to make it. */
static int folder_complain(int err, const char *path, bool is_made, char *complaint)
{
    if (err == -ENOENT && !is_made)
        snprintf(complaint, DISK_COMPLAINT_BYTES, "there is no directory '%.900s'", path);
    else if (err == -ENOTDIR)
        snprintf(complaint, DISK_COMPLAINT_BYTES, "'%.900s' is not a directory", path);
    else
        snprintf(complaint, DISK_COMPLAINT_BYTES, "the directory '%.800s' cannot be %s: %s", path,
                 is_made ? "made" : "opened", strerror(-err));
    return err;
}

int disk_folder_open(const char *path, bool may_make, struct disk **out_disk, char *complaint)
{
    int result = 0;
    bool is_made = false;
    struct folder *folder = calloc(1, sizeof *folder);
    if (folder == NULL)
        return folder_complain(-ENOMEM, path, is_made, complaint);
    folder->fd = -1;
    folder->lock = -1;
    folder->path = strdup(path);
    if (folder->path == NULL) {
        result = -ENOMEM;
        goto done;
    }
    folder->disk = (struct disk){.ops = &folder_ops, .scheme = "folder", .name = folder->path};
    folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0 && errno == ENOENT && may_make && path[0] != '\0') {
        result = make_folders(folder->path);
        is_made = result < 0;
        if (result == 0)
            folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (folder->fd >= 0)
            result = sync_parent(path);
    }
    if (result == 0)
        result = code(folder->fd);
done:
    if (result < 0) {
        folder_complain(result, path, is_made, complaint);
        folder_close(&folder->disk);
    } else {
        *out_disk = &folder->disk;
    }
    return result;
}
