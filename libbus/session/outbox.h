/* SPDX-License-Identifier: MPL-2.0 */
/* outbox.h -- frames that were said and are not accepted yet, in batches, with running numbers.
 *
 * Frames join the open batch; it is sealed when it is full, or when the link asks for something to
 * send and the broker has accepted all but OUTBOX_UNACCEPTED_MAX batches of what was sent.  So at
 * low rates nothing is held back, and under load batches grow by themselves, for the time of one
 * answer of the broker at most (as Nagle's algorithm, RFC 896, but for batches).  Sealed batches
 * stay, sent or not, until the broker has accepted their last frame; after a reconnect they are
 * sent again whole, and the broker drops what it has (PROTOCOL.md, "Numbers").
 *
 * Invariant: when a batch is open there is room in the ring for it, so sealing cannot fail. */
#ifndef SESSION_OUTBOX_H
#define SESSION_OUTBOX_H

#include "libbus/base/buffer.h"
#include "libbus/base/memory.h"
#include "libbus/session/spares.h"
#include "libbus/wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

/* Batches on their way before one that is not full waits for an answer: one to be worked on, one to
 * follow it.  Without it batches of 256 B values held 12 values, with it more than 100. */
enum { OUTBOX_UNACCEPTED_MAX = 2 };

/* From this size on frames let a batch grow to LIMIT_BULK_BATCH_BYTES (performance.md, 4). */
enum { OUTBOX_BULK_FRAME_BYTES = 16384 };

struct outbox_batch {
    struct buffer *part;
    uint64_t last; /* number of its last frame */
};

struct outbox {
    struct memory *memory;
    struct spares *spares;
    struct buffer *open; /* room for the header, then frames; NULL: none */
    uint32_t open_frames;
    uint64_t last;             /* number of the last frame that was appended */
    uint64_t sent;             /* ... that was handed out on this connection, or accepted */
    uint64_t sent_ever;        /* ... handed out at all */
    uint64_t accepted;         /* ... accepted */
    uint64_t bytes;            /* of all frames here */
    size_t likely_bytes;       /* how large the last batch became */
    struct outbox_batch *ring; /* sealed, in order */
    uint32_t room;             /* 0 or a power of two */
    uint32_t head;
    uint32_t count;
    uint32_t sent_count; /* of these, handed out on this connection */
};

void outbox_init(struct outbox *outbox, struct memory *memory, struct spares *spares);
void outbox_fini(struct outbox *outbox);

/* Appends one frame and numbers it (outbox->last); false: no memory. */
bool outbox_append(struct outbox *outbox, const struct frame *frame);

/* Where the outbox stands, to take back what is appended after it, as long as none was sent. */
struct outbox_point {
    uint32_t count;
    bool is_open;
    size_t open_bytes;
    uint32_t open_frames;
    uint64_t last;
    uint64_t bytes;
};
struct outbox_point outbox_point(const struct outbox *outbox);
void outbox_back(struct outbox *outbox, struct outbox_point point);

/* Whether there is a batch to be sent now. */
bool outbox_is_due(const struct outbox *outbox);
/* The next batch for this connection, borrowed, or NULL; the same until outbox_part_sent(). */
struct buffer *outbox_part(struct outbox *outbox);
void outbox_part_sent(struct outbox *outbox);
/* Everything up to number is accepted.  false: that was never sent. */
bool outbox_accept(struct outbox *outbox, uint64_t number);
/* The batch behind index others that are not accepted whole, borrowed; NULL: there is none. */
struct buffer *outbox_batch(struct outbox *outbox, uint32_t index);
/* A new connection: all that is here is to be sent again. */
void outbox_rewind(struct outbox *outbox);

#endif
