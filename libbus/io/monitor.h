/* SPDX-License-Identifier: MPL-2.0 */
/* monitor.h -- events of a socket's connections, from libzmq's socket monitor.  The library's link
 * and the broker's loop use it. */
#ifndef IO_MONITOR_H
#define IO_MONITOR_H

#include <stdbool.h>

struct monitor_event {
    unsigned type; /* ZMQ_EVENT_... */
    int value;     /* a descriptor or an errno */
};

/* Takes the next event, never waits.  false: there is none. */
bool monitor_read(void *monitor, struct monitor_event *out_event);

/* What a connection within the machine (ipc) may have on its way, in bytes: the kernel counts what
 * they take of its memory, a quarter more for a batch.  With the 208 KiB that it gives by itself a
 * batch does not fit behind another one: whoever sends is woken for each part of one that is read,
 * and what is behind its own stream of 4 KiB waited for 7 ms at p99, and for 1.5 with this
 * (bench/README.md, "Behind one's own bulk").  Half of it was too little. */
#define MONITOR_ROOM_BYTES (1024 * 1024)

/* Gives it that much room, or what net.core.wmem_max allows; not if it is no such connection.  For
 * a descriptor that an event told of: if it is closed by now, nothing is done, and if it became
 * another one of that kind, no harm. */
void monitor_give_room(int fd);

#endif
