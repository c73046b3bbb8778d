/* SPDX-License-Identifier: MPL-2.0 */
/* pace.h -- how many bytes of a value go into one frame.
 *
 * A value in one frame is taken where it lies in its batch, and costs everybody one part and one
 * answer.  A frame of 1 MiB takes half of the processor time of four frames with 256 KiB
 * (bench/README.md).  But a frame counts only once all of it has arrived, and the next data on the
 * connection waits behind it.  So pieces are small until one was accepted soon after it was sent.
 * They become small again after a slow one, or when the data channel stood still. */
#ifndef SESSION_PACE_H
#define SESSION_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* LIMIT_UPLOAD_BYTES within this time are 70 Mbit/s.  At that rate the largest frame takes an
 * eighth of a second. */
#define PACE_SOON_NS INT64_C(250000000)

struct pace {
    uint64_t bytes;     /* at most, of a value in one frame, from now on */
    uint64_t bytes_max; /* LIMIT_CHUNK_BYTES or less */
    bool is_timed;      /* the answer to this piece is timed: ... */
    uint32_t topic;
    uint64_t seq;
    uint64_t end; /* of the piece, in the value */
    int64_t sent_ns;
};

/* bytes_max 0: LIMIT_CHUNK_BYTES. */
void pace_init(struct pace *pace, uint64_t bytes_max);
/* A piece of a value was sent, up to byte end. */
void pace_sent(struct pace *pace, uint32_t topic, uint64_t seq, uint64_t end, int64_t now_ns);
/* So many bytes of a value are accepted. */
void pace_accepted(struct pace *pace, uint32_t topic, uint64_t seq, uint64_t bytes, int64_t now_ns);
/* A new connection: the piece that is timed will get no answer. */
void pace_rewind(struct pace *pace);
/* The broker accepted nothing of what was sent for too long. */
void pace_stalled(struct pace *pace);

#endif
