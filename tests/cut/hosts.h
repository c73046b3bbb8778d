/* SPDX-License-Identifier: MPL-2.0 */
/* hosts.h -- network namespaces that stand for hosts, each with one cable into a wire.
 *
 * None of them has a name: they are held by descriptors of this process and by whoever runs in
 * them, so the kernel takes them away when the last of these ends, however that comes about, and
 * any number of runs may go on at a time. */
#ifndef TESTS_CUT_HOSTS_H
#define TESTS_CUT_HOSTS_H

#include "tests/cut/wire.h"

#include <stdbool.h>
#include <stddef.h>

#define HOSTS_PROBLEM_BYTES_MAX 512
#define HOST_ADDRESS_BYTES_MAX 32

struct hosts {
    size_t count;
    int own;                     /* the namespace of this thread */
    int spaces[WIRE_PORTS_MAX];  /* the namespaces; -1: none */
    int sockets[WIRE_PORTS_MAX]; /* of the near ends */
    struct wire *wire;
};

/* Moves this thread into namespaces of its own, of users too where that takes no root, and makes
 * the hosts 0 to count - 1; before any thread is started.  False: problem is a sentence why not. */
bool hosts_open(struct hosts *hosts, size_t count, char problem[HOSTS_PROBLEM_BYTES_MAX]);

/* What this thread starts from now on runs on that host. */
bool hosts_enter(const struct hosts *hosts, size_t host);
/* ... and from now on on none of them. */
void hosts_leave(const struct hosts *hosts);

/* The address of a host; of its second one if it has moved. */
void host_address(size_t host, bool is_moved, char address[HOST_ADDRESS_BYTES_MAX]);

/* Runs ip(8) with these lines as its batch, on a host, or beside the wire (host == count).  False:
 * it complained, and that is printed. */
bool hosts_ip(const struct hosts *hosts, size_t host, const char *lines);

/* Takes a zeroed struct too. */
void hosts_close(struct hosts *hosts);

#endif
