/* SPDX-License-Identifier: MPL-2.0 */
/* ready.h -- waiting for sockets of libzmq with one poll(2): zmq_poll() over four of them makes
 * more than a dozen system calls each time, a tenth of what a small batch costs.
 *
 * The descriptor of a socket (ZMQ_FD) tells of changes, not of how things stand: it becomes
 * readable when something is to be looked at, and any call on the socket may take that away.  So:
 * ask how things stand; if nothing is there, poll; whatever comes in between is still to be seen in
 * the descriptor.  A socket that is only ever read until it is empty needs not be asked, once it
 * was empty: before, what comes is no change to it. */
#ifndef IO_READY_H
#define IO_READY_H

#include <stdbool.h>

/* Whether the socket has any of these (ZMQ_POLLIN, ZMQ_POLLOUT) now. */
bool ready_has(void *socket, int events);
/* To be polled for POLLIN; -1: none, which poll(2) passes over. */
int ready_fd(void *socket);

#endif
