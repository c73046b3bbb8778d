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

/* How many bytes a connection within the machine (ipc) may have under way.  The kernel counts the
 * memory that they take, for a batch a quarter more.  Its default is 208 KiB, so that a second
 * batch does not fit behind the first.  Then each part that is read wakes the sender, and an error
 * behind many small values waits several times longer (bench/README.md, "Behind one's own bulk").
 * Half of this size was too little. */
#define MONITOR_ROOM_BYTES (1024 * 1024)

/* Gives a connection within the machine that much room, or what net.core.wmem_max allows.  It
 * leaves other connections as they are.  fd comes from an event.  If it is closed by now, the call
 * does nothing; if it has become another such connection, the room does no harm. */
void monitor_give_room(int fd);

#endif
