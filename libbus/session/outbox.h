/* SPDX-License-Identifier: MPL-2.0 */
/* outbox.h -- frames that the broker has not accepted yet, in batches, with running numbers.
 *
 * A frame joins the open batch.  A value joins the frame before it if that has the same topic, size
 * and stamp, and the slot number before.  A batch is sealed when it is full.  It is also sealed
 * when the link asks for something to send, unless unaccepted_max batches wait for the broker.  So
 * nothing waits at low rates.  Under load batches grow for one round trip at most, as in Nagle's
 * algorithm (RFC 896).  Where answers wait for a disk, few bytes do not wait for them: small_bytes.
 * Where they wait for a disk that is shared, a batch goes when the one before it is answered, and
 * waits for that no longer than pause_ns.
 *
 * A sealed batch stays until the broker has accepted its last frame.  After a reconnect it is sent
 * again as a whole, and the broker drops what it has (PROTOCOL.md, "Numbers").
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

/* With so many batches under way, a batch that is not full waits for an answer: the broker works on
 * one, and the other follows.  Without this limit batches stay small. */
enum { OUTBOX_UNACCEPTED_MAX = 2 };
/* Over a link answers take long: an error behind values would wait one round trip more. */
enum { OUTBOX_UNACCEPTED_FAR = 16 };
/* An answer that waits for a disk waits for what others write there.  So many batches may be under
 * way if they have few bytes together: an error now and then does not wait for a sync of bulk. */
enum { OUTBOX_UNACCEPTED_SMALL = 64, OUTBOX_SMALL_BYTES = 8192 };
/* One sync of a shared disk takes all that has come, and it takes long.  What is sent during a sync
 * waits for the next one.  So as long as there are no more bytes than this, one batch is under way
 * there, and the next one has all that came meanwhile.  Each batch wakes threads of client and
 * broker.  These may take processors from the servers that keep the disk (bench/README.md). */
enum { OUTBOX_UNACCEPTED_SHARED = 1, OUTBOX_ALONE_BYTES = 16384 };
/* One sync may take much longer than others.  So a batch that is not full follows this long after
 * the last one, if fewer than OUTBOX_UNACCEPTED_SMALL are under way. */
#define OUTBOX_PAUSE_NS INT64_C(2000000)

/* Frames of this size let a batch grow to LIMIT_BATCH_BYTES.  libzmq is slow with single messages
 * of about 64 KiB; batches of several such frames have 1.7 times the throughput. */
enum { OUTBOX_BULK_FRAME_BYTES = 16384 };

struct outbox_batch {
    struct buffer *part;
    uint64_t last; /* number of its last value or other frame */
};

/* The last frame of the open batch.  Its header is written when nothing can join it any more. */
struct outbox_tail {
    struct frame frame;  /* of its value only the size counts */
    size_t offset;       /* 0: there is none */
    uint64_t next_seq;   /* of a value that joins it */
    size_t joining_room; /* in bytes, for values that join it; 0: none can */
};

/* A value that goes out in a VALUE frame, delivered for the first time, without reply_to. */
struct outbox_value {
    uint32_t attempt;
    uint32_t topic;
    uint64_t seq;
    int64_t stamp_ns;
    struct span value;
};

struct outbox {
    struct memory *memory;
    struct spares *spares;
    struct buffer *open; /* room for the header, then frames; NULL: none */
    uint32_t open_frames;
    struct outbox_tail tail;
    uint64_t open_first;       /* number of the first of the open batch */
    uint64_t last;             /* number of the last value or other frame that was appended */
    uint64_t sent;             /* ... that was handed out on this connection, or accepted */
    uint64_t sent_ever;        /* ... handed out at all */
    uint64_t accepted;         /* ... accepted */
    uint64_t bytes;            /* of all frames here */
    uint64_t under_way;        /* of the parts handed out on this connection, and not accepted */
    size_t likely_bytes;       /* size of the last batch; of one large frame only a part */
    struct outbox_batch *ring; /* sealed, in order */
    uint32_t room;             /* 0 or a power of two */
    uint32_t head;
    uint32_t count;
    uint32_t sent_count;     /* of these, handed out on this connection */
    uint32_t unaccepted_max; /* OUTBOX_UNACCEPTED_MAX, or _FAR */
    bool is_far;             /* the link is long */
    uint32_t small_max;      /* with a disk: OUTBOX_UNACCEPTED_SMALL, else 0 */
    uint64_t small_bytes; /* ... and so many bytes together do not wait: OUTBOX_SMALL_BYTES, or 0 */
    uint64_t alone_bytes; /* with no more, one is under way: OUTBOX_ALONE_BYTES, or 0 */
    int64_t pause_ns;     /* OUTBOX_PAUSE_NS, or INT64_MAX: a batch waits for answers alone */
    int64_t sent_ns;      /* when the last one was handed out */
};

void outbox_init(struct outbox *outbox, struct memory *memory, struct spares *spares);
void outbox_fini(struct outbox *outbox);

/* What an answer waits for. */
enum outbox_disk { OUTBOX_NO_DISK, OUTBOX_OWN_DISK, OUTBOX_SHARED_DISK };
void outbox_see_disk(struct outbox *outbox, enum outbox_disk disk);
/* Whether the link to the broker is long. */
void outbox_see_link(struct outbox *outbox, bool is_far);

/* Appends one frame, with one value, and numbers it (outbox->last); false: no memory, and nothing
 * changed.  A batch has batch_bytes at most with it, and with values that join it, unless the frame
 * is large or alone. */
bool outbox_append(struct outbox *outbox, const struct frame *frame, uint64_t batch_bytes);
/* Whether the value may join the last frame; and the bookkeeping after count values joined. */
static inline bool outbox_may_join(const struct outbox *outbox, const struct outbox_value *value)
{
    const struct outbox_tail *tail = &outbox->tail;
    size_t bytes = frame_padded(value->value.bytes);
    return bytes > 0 && tail->joining_room >= bytes &&
           tail->frame.value.bytes == value->value.bytes && tail->frame.topic == value->topic &&
           tail->frame.stamp_ns == value->stamp_ns && tail->next_seq == value->seq &&
           tail->frame.attempt == value->attempt;
}
static inline void outbox_joined(struct outbox *outbox, uint32_t count, size_t bytes)
{
    outbox->open->bytes += bytes;
    outbox->bytes += bytes;
    outbox->last += count;
    outbox->tail.joining_room -= bytes;
    outbox->tail.next_seq += count;
    outbox->tail.frame.more = (uint16_t)(outbox->tail.frame.more + count);
}
/* Lets a value join the last frame, and numbers it; false: it needs a frame of its own. */
static inline bool outbox_join(struct outbox *outbox, const struct outbox_value *value)
{
    if (!outbox_may_join(outbox, value))
        return false;
    frame_value_write(outbox->open->data + outbox->open->bytes, value->value);
    outbox_joined(outbox, 1, frame_padded(value->value.bytes));
    return true;
}
/* The same for up to count values, of which `value` has the first.  Returns how many joined.
 * Values that are adjacent in memory are copied together. */
size_t outbox_join_many(struct outbox *outbox, const struct outbox_value *value,
                        const struct span *values, size_t count);

/* A point to which outbox_back() returns, as long as nothing after it was sent. */
struct outbox_point {
    uint32_t count;
    bool is_open;
    size_t open_bytes;
    uint32_t open_frames;
    uint64_t open_first;
    struct outbox_tail tail;
    uint64_t last;
    uint64_t bytes;
};
struct outbox_point outbox_point(const struct outbox *outbox);
void outbox_back(struct outbox *outbox, struct outbox_point point);

/* Whether the open batch goes though it is not full. */
static inline bool outbox_is_open_due(const struct outbox *outbox, int64_t now_ns)
{
    uint64_t bytes = outbox->under_way + outbox->open->bytes;
    uint32_t most =
        bytes <= outbox->alone_bytes ? OUTBOX_UNACCEPTED_SHARED : outbox->unaccepted_max;
    return outbox->sent_count < most ||
           (outbox->sent_count < outbox->small_max &&
            (bytes <= outbox->small_bytes || now_ns - outbox->sent_ns >= outbox->pause_ns));
}
/* Whether the open batch goes without an answer, once the time has come. */
static inline bool outbox_has_pause(const struct outbox *outbox)
{
    return outbox->open_frames > 0 && outbox->pause_ns < INT64_MAX &&
           outbox->sent_count < outbox->small_max && outbox->sent_count == outbox->count;
}
/* Whether there is a batch to be sent now. */
static inline bool outbox_is_due(const struct outbox *outbox, int64_t now_ns)
{
    return outbox->sent_count < outbox->count ||
           (outbox->open_frames > 0 && outbox_is_open_due(outbox, now_ns));
}
/* The next batch for this connection, borrowed, or NULL; the same until outbox_part_sent(). */
struct buffer *outbox_part(struct outbox *outbox, int64_t now_ns);
void outbox_part_sent(struct outbox *outbox, int64_t now_ns);
/* Everything up to number is accepted.  false: that was never sent. */
bool outbox_accept(struct outbox *outbox, uint64_t number);
/* The batch at index, counted from the first that is not accepted whole; borrowed; NULL: there is
 * none. */
struct buffer *outbox_batch(struct outbox *outbox, uint32_t index);
/* A new connection: everything here is sent again. */
void outbox_rewind(struct outbox *outbox);

#endif
