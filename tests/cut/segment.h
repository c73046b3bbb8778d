/* SPDX-License-Identifier: MPL-2.0 */
/* segment.h -- TCP over IPv4 in an Ethernet frame, as far as a middlebox looks at it. */
#ifndef TESTS_CUT_SEGMENT_H
#define TESTS_CUT_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEGMENT_RESET_BYTES 54 /* Ethernet, IPv4 and TCP headers without options */
#define SEGMENT_FIN 0x01
#define SEGMENT_SYN 0x02
#define SEGMENT_RST 0x04
#define SEGMENT_ACK 0x10

struct segment {
    uint8_t ethernet[12]; /* where to, where from */
    uint8_t addresses[8]; /* where from, where to */
    uint8_t ports[4];     /* the same */
    uint32_t seq;
    uint32_t ack;
    uint32_t bytes; /* it takes of the sequence, its SYN and FIN included */
    uint8_t flags;
};

/* False: the frame is something else. */
bool segment_read(struct segment *segment, const uint8_t *frame, size_t bytes);

/* The same two ends, in the same direction. */
bool segment_is_alike(const struct segment *one, const struct segment *other);

/* What makes the sender of segment give its connection up at once: a reset that bears the very
 * number it waits for (RFC 5961, 3.2), or refuses its greeting (RFC 9293, 3.10.7.1). */
void segment_reset(const struct segment *segment, uint8_t frame[SEGMENT_RESET_BYTES]);

#endif
