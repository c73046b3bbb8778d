/* SPDX-License-Identifier: MPL-2.0 */
/* unknown_keys.h -- connections that go through the whole handshake of CURVE
 * (rfc.zeromq.org/spec/26), with a key that the broker does not know.
 *
 * Sockets of libzmq would cost the flooder many times what they cost the broker.  So the words are
 * made here, from libsodium: two products of keys for each handshake, where the broker has four. */
#ifndef BENCH_UNKNOWN_KEYS_H
#define BENCH_UNKNOWN_KEYS_H

#include <stdbool.h>
#include <stdint.h>

struct unknown_keys_told {
    uint64_t dialled;
    uint64_t complete; /* whose last word was said */
    uint64_t refused;  /* ... and the broker answered that the key is refused */
};

/* False: this program has no libsodium. */
bool unknown_keys_are_there(void);
/* Dials from this IPv4 address of the machine each every_ns, until there is something to read from
 * standard input.  endpoint: "tcp://KEY@127.0.0.1:PORT" of a broker.  A connection is closed when
 * 200 others have come behind it. */
void unknown_keys_flood(const char *endpoint, const char *from, int64_t every_ns,
                        struct unknown_keys_told *out_told);

#endif
