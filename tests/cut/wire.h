/* SPDX-License-Identifier: MPL-2.0 */
/* wire.h -- an Ethernet switch of our own, whose cables can be cut, slowed, and lied about.
 *
 * Each host hangs on one port: the near end of a veth pair, read and written whole frames at a time
 * by one thread.  What a kernel may or may not have (netem, netfilter) is not needed, and what the
 * cable carried is known to the byte.  All calls are for the one thread that made the wire. */
#ifndef TESTS_CUT_WIRE_H
#define TESTS_CUT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_PORTS_MAX 16
#define WIRE_SHARE_ALL 1000 /* of a thousand frames */

enum wire_way {
    WIRE_FROM_HOST,
    WIRE_TO_HOST,
    WIRE_WAY_COUNT,
};

/* What befalls frames one way.  All zero: nothing. */
struct wire_fault {
    unsigned drop_share; /* of a thousand */
    unsigned flip_share; /* of a thousand have a bit turned over, behind the Ethernet header */
    int delay_ms;        /* on average ... */
    int jitter_ms;       /* ... and so much more or less; frames stay in order */
    int64_t rate_bytes;  /* a second; 0: as fast as it goes */
    bool is_resetting;   /* TCP segments are dropped, and answered with a reset */
};

struct wire_count {
    uint64_t frames; /* carried */
    uint64_t bytes;
    uint64_t dropped;
    uint64_t greetings; /* TCP connections that somebody asked for, those dropped included */
};

struct wire;

/* descriptors: of a raw packet socket for each port.  The host on port p has the last byte p of its
 * Ethernet address.  seed: of what is left to chance.  NULL: no memory, no thread. */
struct wire *wire_open(const int *descriptors, size_t count, uint64_t seed);

/* From now on.  Turning is_resetting on also sends the host (WIRE_FROM_HOST), or whoever it speaks
 * with (WIRE_TO_HOST), a reset for each connection that is known. */
void wire_set(struct wire *wire, size_t port, enum wire_way way, const struct wire_fault *fault);

/* Since the last wire_clear(). */
struct wire_count wire_counted(struct wire *wire, size_t port, enum wire_way way);

/* No faults anywhere, nothing under way, counts of 0. */
void wire_clear(struct wire *wire);

void wire_close(struct wire **wire);

#endif
