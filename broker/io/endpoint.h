/* SPDX-License-Identifier: MPL-2.0 */
/* endpoint.h -- where the broker listens, and where clients are told to come. */
#ifndef IO_ENDPOINT_H
#define IO_ENDPOINT_H

#include "libbus/base/limits.h"

#include <stdbool.h>

enum { ENDPOINT_COMPLAINT_BYTES = 1024 };

/* Binds the socket to HOST:PORT, tcp://HOST:PORT (PORT '*' or 0: a free one) or ipc://PATH, and
 * tells what it really got.  A path that a live process listens on, or that is no socket, is
 * refused; libzmq itself would take it away from its owner.  false: complaint is one clear
 * sentence. */
bool endpoint_bind(void *socket, const char *endpoint, char out_real[LIMIT_ENDPOINT_BYTES],
                   char complaint[ENDPOINT_COMPLAINT_BYTES]);

/* NULL: it has the form of an endpoint to bind; otherwise what is wrong with it. */
const char *endpoint_fault(const char *endpoint);
/* The same of what clients can be told: see endpoint_advertise(). */
const char *endpoint_advertise_fault(const char *wish);
/* Whether a bound endpoint can be reached from this machine alone. */
bool endpoint_is_local(const char *real);
/* The same of one that is to be bound. */
bool endpoint_wish_is_local(const char *endpoint);

/* Removes the socket's file, if the endpoint (as it was asked for) has one: libzmq leaves it
 * behind. Only while it is ours: before the socket is closed. */
void endpoint_remove(const char *endpoint);

/* What clients are told of the data channel: `wish` if it is an endpoint, that host and the real
 * port if it is a host; if it is empty the real endpoint, of host '*' (as they reached
 * control) if both channels listen at the same address or data listens at all of them.  false: it
 * is neither, or there is no room. */
bool endpoint_advertise(const char *control, const char *data, const char *wish,
                        char out[LIMIT_ENDPOINT_BYTES]);

/* Where clients of other brokers are told that the control channel is: `wish` if it is an endpoint,
 * that host and the real port if it is a host.  If it is empty, the real endpoint; but if that is
 * all addresses of the machine, the host of `advertise`, or else `host`.  false: none of these. */
bool endpoint_announce(const char *control, const char *wish, const char *advertise,
                       const char *host, char out[LIMIT_ENDPOINT_BYTES]);

#endif
