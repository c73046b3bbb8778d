/* SPDX-License-Identifier: MPL-2.0 */
/* greeting_probe.h -- asks what listens at an endpoint, after a handshake failed without a reason.
 *
 * libzmq 4.3.4 tells a client of a failed handshake the same in three cases: it has no key and
 * should, it has one and should not, or the other side has another key.  So this opens one
 * connection of its own, and reads the greeting of ZMTP, which names the mechanism. */
#ifndef IO_GREETING_PROBE_H
#define IO_GREETING_PROBE_H

enum greeting {
    GREETING_NONE,    /* nothing accepts a connection there now */
    GREETING_FOREIGN, /* no ZMTP 3 */
    GREETING_NULL,    /* it asks for no key */
    GREETING_CURVE,   /* it asks for a key */
};

/* endpoint: "tcp://HOST:PORT"; anything else is GREETING_NONE.  Takes half a second at most, and
 * what it takes to look the name up. */
enum greeting greeting_probe(const char *endpoint);

#endif
