/* SPDX-License-Identifier: MPL-2.0 */
/* listen_filter.h -- the kernel drops what some addresses send to a listening socket.
 *
 * libzmq accepts a connection and begins its handshake before anybody can object, and the thread
 * that does it carries the messages of all parties.  A filter of the socket (socket(7),
 * SO_ATTACH_FILTER) sees the first packet of a connection.  If it drops that, there is no
 * connection: nothing is accepted, and no thread of the broker is woken.  The other side sends the
 * packet again after a second, so a client comes in when its address is not refused any more.
 * Connections that stand are not filtered. */
#ifndef IO_LISTEN_FILTER_H
#define IO_LISTEN_FILTER_H

#include "broker/io/refused_addresses.h"

#include <stdbool.h>
#include <stdint.h>

/* Takes the place of the filter of before.  false: the kernel refuses it, and fd is as it was. */
bool listen_filter_set(int fd, const struct refused_addresses *refused);

#endif
