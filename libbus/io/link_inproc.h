/* SPDX-License-Identifier: MPL-2.0 */
/* link_inproc.h -- the server's side of link_inproc.c, for a broker in the same process.
 *
 * A server has a name.  Links reach its lanes at "inproc://NAME/control" and "inproc://NAME/data".
 * Any thread may call these functions, but only one waits. */
#ifndef IO_LINK_INPROC_H
#define IO_LINK_INPROC_H

#include "libbus/io/link.h"

#include <stdbool.h>
#include <stdint.h>

struct inproc; /* a server */

enum inproc_event {
    INPROC_NOTHING,
    INPROC_PART,   /* a part from conn */
    INPROC_CLOSED, /* conn is closed by its link */
};
struct inproc_in {
    enum inproc_event event;
    enum link_lane lane;
    uint32_t conn;       /* counts from 1; never used again */
    struct buffer *part; /* given to the caller */
};

/* name: at most 63 bytes, of no other server.  Errors: LINK_RESOURCES, LINK_ENDPOINT. */
enum link_err inproc_open(const char *name, struct inproc **out_server);
/* Connections close as they do when a process is killed. */
void inproc_close(struct inproc **server);

enum inproc_event inproc_receive(struct inproc *server, struct inproc_in *out);
/* To a conn that is gone: dropped.  head is NULL on the control lane.  References are taken
 * over. */
void inproc_send(struct inproc *server, uint32_t conn, struct buffer **head, struct buffer **part);
/* Closes a connection from this side. */
void inproc_drop(struct inproc *server, uint32_t conn);
/* Waits for something to receive, inproc_wake(), or timeout_ms (-1: no limit). */
void inproc_wait(struct inproc *server, int64_t timeout_ms);
void inproc_wake(struct inproc *server);
/* How often a thread of this process, named by the kernel's number, waited on a link.  A wait for a
 * lock is not counted.  0: it never did, or 256 other threads did before. */
uint64_t inproc_waits_of(long thread);

#endif
