/* SPDX-License-Identifier: MPL-2.0 */
/* ipc_test.c -- connections within the machine: what they may have on their way, on either side. */
#include "tests/lib/expect.h"
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { ROOM_BYTES = 1024 * 1024 }; /* MONITOR_ROOM_BYTES, which is not for users */

TestSuite(ipc, .init = revival_begin, .fini = revival_close, .timeout = 60);

static long number_of(const char *path)
{
    long number = 0;
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fscanf(file, "%ld", &number), 1);
    (void)fclose(file);
    return number;
}

/* What the kernel counts for a socket that asked for so much: twice as much (socket(7)). */
static long counted(long bytes)
{
    long most = number_of("/proc/sys/net/core/wmem_max");
    return 2 * (bytes < most ? bytes : most);
}

/* A descriptor of our own for one of that process; -1: there is none, or it is no socket. */
static int descriptor_of(int pidfd, const char *name)
{
    int fd = (int)strtol(name, NULL, 10);
    return name[0] == '.' ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0U);
}

/* Whether it is a connection to or at this endpoint. */
static bool is_at(int fd, const char *endpoint)
{
    struct sockaddr_un own = {0};
    struct sockaddr_un other = {0};
    socklen_t own_bytes = sizeof own;
    socklen_t other_bytes = sizeof other;
    if (getsockname(fd, (struct sockaddr *)&own, &own_bytes) != 0 || own.sun_family != AF_UNIX ||
        getpeername(fd, (struct sockaddr *)&other, &other_bytes) != 0)
        return false; /* nobody is there: it listens */
    const char *path = endpoint + strlen("ipc://");
    return strcmp(own.sun_path, path) == 0 || strcmp(other.sun_path, path) == 0;
}

/* The least that a connection of this process at the endpoint may send; 0: it has none. */
static long least_room(pid_t pid, const char *endpoint)
{
    char path[64];
    long least = 0;
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0U);
    DIR *descriptors = opendir(path);
    cr_assert(pidfd >= 0 && descriptors != NULL);
    for (struct dirent *entry = readdir(descriptors); entry != NULL; entry = readdir(descriptors)) {
        int room = 0;
        socklen_t bytes = sizeof room;
        int fd = descriptor_of(pidfd, entry->d_name);
        if (fd >= 0 && is_at(fd, endpoint) &&
            getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, &bytes) == 0 &&
            (least == 0 || room < least))
            least = room;
        if (fd >= 0)
            close(fd);
    }
    closedir(descriptors);
    close(pidfd);
    return least;
}

static void expect_room(pid_t pid, const char *endpoint, long wanted)
{
    long room = least_room(pid, endpoint);
    cr_expect_eq(room, wanted, "%ld has %ld at %s, not %ld", (long)pid, room, endpoint, wanted);
}

/* Both sides give it when they hear of the connection, which is before anything comes over it. */
Test(ipc, has_room_for_one_batch_behind_another_on_either_side)
{
    struct bus *alice = must_open("alice");
    must_publish(alice, "w", "text");
    must_flush(alice);
    expect_room(getpid(), revival.data, counted(ROOM_BYTES));
    expect_room(stage.process.pid, revival.data, counted(ROOM_BYTES));
    long usual = number_of("/proc/sys/net/core/wmem_default");
    expect_room(getpid(), revival.control, usual);
    expect_room(stage.process.pid, revival.control, usual);
    must_close(&alice);
}
