/* SPDX-License-Identifier: MPL-2.0 */
/* greeting_probe.h -- asks what listens at an endpoint, after a handshake failed without a reason.
 *
 * libzmq 4.3.4 tells a client of a failed handshake the same in many cases: it has no key and
 * should, it has one and should not, the other side has another key, or speaks no ZeroMQ at all.
 * Of a handshake that does not end it tells nothing.  So this opens one connection of its own, and
 * reads the greeting of ZMTP, which names the mechanism.  A server of ZMTP sends the beginning of
 * its greeting as soon as it has accepted a connection. */
#ifndef IO_GREETING_PROBE_H
#define IO_GREETING_PROBE_H

#include <stdint.h>
#include <sys/socket.h>

enum greeting {
    GREETING_WOKEN,   /* it ended early */
    GREETING_UNCLEAR, /* no connection, or one that ends whatever is said: a tunnel without its
                         other end, a broker that goes, or one that refuses our address */
    GREETING_SILENT,  /* it takes connections, and says nothing: it stands still, or never speaks */
    GREETING_HUNG_UP, /* it closed when it heard a greeting of ZeroMQ */
    GREETING_FOREIGN, /* what it says is no greeting of ZMTP 3 */
    GREETING_NULL,    /* it asks for no key */
    GREETING_CURVE,   /* it asks for a key */
    GREETING_OTHER,   /* it speaks ZMTP 3, and asks for anything else */
};

/* endpoint: "tcp://HOST:PORT"; anything else is GREETING_UNCLEAR.  peer: the address that it had,
 * which is then not looked up again; AF_UNSPEC: not known.  So only a connection that ended before
 * its address was read leads to a look-up, of a name that was looked up in that moment.
 *
 * It first listens for listen_ms: that is for how long a connection may last that the other side
 * closes by itself.  It ends early if wake_fd is readable, with GREETING_WOKEN; -1: there is none.
 * It takes a second more than listen_ms at most, and what a look-up takes. */
enum greeting greeting_probe(const struct sockaddr_storage *peer, const char *endpoint,
                             int64_t listen_ms, int wake_fd);

/* The address at the other end of a connection, if it is one of tcp to the port of the endpoint;
 * else AF_UNSPEC.  fd may be closed by now. */
void greeting_probe_peer(int fd, const char *endpoint, struct sockaddr_storage *out_peer);

#endif
