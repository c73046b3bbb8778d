/* SPDX-License-Identifier: MPL-2.0 */
/* channel.h -- one of the broker's two channels: a ROUTER that listens, and its monitor. */
#ifndef IO_CHANNEL_H
#define IO_CHANNEL_H

#include "broker/io/endpoint.h"
#include "broker/io/peers.h"
#include "libbus/base/limits.h"

#include <stdbool.h>
#include <stdint.h>
#include <zmq.h>

struct channel {
    enum lane lane;
    void *socket;
    void *monitor;
    int fd; /* of socket and monitor, to be polled */
    int monitor_fd;
    char asked[LIMIT_ENDPOINT_BYTES];    /* as it was configured */
    char endpoint[LIMIT_ENDPOINT_BYTES]; /* as it was bound; empty: not listening */
};

/* "control" or "data". */
const char *channel_name(enum lane lane);

/* Makes the sockets, and binds none.  false: errno says why; close it all the same. */
bool channel_open(struct channel *channel, void *context, enum lane lane);
/* Listens.  false: complaint is one clear sentence. */
bool channel_bind(struct channel *channel, const char *endpoint,
                  char complaint[ENDPOINT_COMPLAINT_BYTES]);
/* Removes the file of an ipc endpoint, so that nobody else finds the broker.  Its connections
 * stay. */
void channel_remove_endpoint(struct channel *channel);
/* Closes what is open; zeroed memory is fine. */
void channel_close(struct channel *channel);

/* Addresses a connection by its routing number: the next channel_send() goes to it.  0, or
 * EHOSTUNREACH: it is gone; EAGAIN: it does not read. */
int channel_address(struct channel *channel, uint32_t routing);
/* Sends a part to the connection that was addressed, on the data channel behind its head.  head
 * NULL: alone there, too.  The caller closes part. */
void channel_send(struct channel *channel, const uint8_t *head, zmq_msg_t *part);

#endif
