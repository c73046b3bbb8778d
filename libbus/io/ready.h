/* SPDX-License-Identifier: MPL-2.0 */
/* ready.h -- waits for libzmq sockets with one poll(2). zmq_poll() over four sockets makes more
 * than a dozen system calls, a tenth of what a small batch costs.
 *
 * The descriptor of a socket (ZMQ_FD) reports changes, not states.  It becomes readable when
 * something changed, and any call on the socket may clear it.  So a caller first asks the socket,
 * and polls if nothing is there: a change in between still shows in the descriptor.  A socket that
 * is always read until it is empty need not be asked while it is empty. */
#ifndef IO_READY_H
#define IO_READY_H

#include <stdbool.h>

/* Whether the socket has any of these (ZMQ_POLLIN, ZMQ_POLLOUT) now. */
bool ready_has(void *socket, int events);
/* To be polled for POLLIN; -1: none, which poll(2) passes over. */
int ready_fd(void *socket);

#endif
