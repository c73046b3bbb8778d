/* SPDX-License-Identifier: MPL-2.0 */
/* frame.h -- batches and frames of the data channel: fixed headers, written and checked by hand.
 *
 * A batch is one part: a batch header, then frames.  Every frame is valid msgpack,
 *
 *   0x98                     array of 8
 *   0xcd u16                 flags: kind and mark (enum frame_kind, FRAME_LAST_CHUNK) in the lowest
 *                            five bits; above them how many values follow the first
 *   0xcc u8                  delivery: 1 the first time, never 0
 *   0xce u32                 attempt
 *   0xce u32                 topic: its number
 *   0xcf u64                 seq: the slot of the (first) value, below UINT64_MAX
 *   0xcf u64                 stamp: when it was written, ns of the broker's monotonic clock as its
 *                            writer reckons it; below 0 in two's complement
 *   0xcf u64                 reply_to: for requests the slot of the writer's "_replies", else
 *                            FRAME_NO_REPLY
 *   0xc6 u32 ...             value, at byte 48, then 0..7 nil (0xc0) up to a multiple of 8
 *
 * so values lie on 8-byte boundaries of a part that does.  A VALUE frame without reply_to may
 * hold more than one: of one size, at least a byte, for slots whose numbers follow each other.
 * Each is padded with nil to a multiple of 8; the padding of all but the last counts as the frame's
 * value.  (With a header for each value of 16 bytes, three quarters of all copying were headers.)
 * The header of a batch likewise:
 *
 *   0x95 0xcd u16 (BATCH) 0x00..0x7f format 0xce u32 (frames) 0xce u32 (bytes behind the header)
 *   0xcf u64 (number of the first; to subscribers 0)        24 bytes in all
 *
 * and of what precedes a batch to a subscriber, as a part of its own:
 *
 *   0x92 0xcd u16 (DELIVERY) 0xce u32 (the client's number of the subscription)       9 bytes
 *
 * Numbers are big-endian, as msgpack has them.  See PROTOCOL.md, "Encoding". */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include "libbus/base/limits.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BATCH_NUMBER 0x0b00 /* stands where messages have their number; no message has it */
#define DELIVERY_NUMBER 0x0b01
#define BATCH_FORMAT 1
enum { BATCH_HEADER_BYTES = 24, FRAME_HEADER_BYTES = 48, DELIVERY_HEADER_BYTES = 9 };

#define FRAME_NO_REPLY UINT64_MAX
#define FRAME_KIND_MASK 0x000f
#define FRAME_LAST_CHUNK 0x0010 /* with CHUNK: the value is whole after this */
#define FRAME_MORE_SHIFT 5
#define FRAME_MORE_MAX 2047 /* values behind the first: what is left of 16 bits */

enum frame_kind {
    FRAME_VALUE = 0,   /* reserve and commit in one; to subscribers: the slot's value */
    FRAME_COMMIT = 1,  /* settles a reserved slot; to subscribers: the slot's value */
    FRAME_RESERVE = 2, /* promises the slot; value: msgpack array, see frame_reserve_encode() */
    FRAME_CHUNK = 3,   /* part of a value: 16 bytes (total, offset; u64 big-endian), then bytes */
    FRAME_ERROR = 4,   /* to subscribers: the error that stands here; value: an encoded error */
    FRAME_TOPIC = 5,   /* to subscribers: value is the name of this topic number; reply_to: the
                          incarnation of the slots that follow, or FRAME_NO_REPLY; seq: the
                          first slot of a later incarnation, or 0.  To the broker: the name of a
                          topic that the client numbers */
    FRAME_GAP = 6, /* to subscribers: slots from seq on are missing; value: frame_gap_encode() */
    FRAME_END = 7, /* to subscribers: topic names a party, which ended; seq: its incarnation;
                      reply_to: the first of the incarnations up to seq that it stands for; value:
                      an encoded error, or empty: it completed or left owing nothing */
    FRAME_KIND_COUNT = 8,
};

struct frame {
    uint16_t flags; /* kind | mark */
    uint16_t more;  /* values behind the first, with the numbers behind seq; only of VALUE */
    uint8_t delivery;
    uint32_t attempt;
    uint32_t topic;
    uint64_t seq;
    int64_t stamp_ns;
    uint64_t reply_to;
    struct span value;  /* the first; borrowed from the part; the next is frame_padded() behind */
    size_t frame_bytes; /* header, values and padding */
};

enum wire_err {
    WIRE_OK = 0,
    WIRE_EMPTY,     /* nothing there */
    WIRE_TRUNCATED, /* ends in the middle */
    WIRE_TRAILING,  /* bytes behind the end */
    WIRE_FORMAT,    /* not the msgpack that stands here */
    WIRE_DEPTH,     /* nested deeper than LIMIT_WALK_DEPTH */
    WIRE_ITEMS,     /* more elements than LIMIT_WALK_ITEMS, or than bytes are left */
    WIRE_UNKNOWN,   /* no message of this number */
    WIRE_LANE,      /* a message of the other channel or direction */
    WIRE_RANGE,     /* a field outside its limits */
    WIRE_UTF8,      /* text that is not UTF-8 */
    WIRE_TOO_BIG,   /* larger than its limit */
    WIRE_FULL,      /* no room to write */
    WIRE_ERR_COUNT,
};
const char *wire_strerror(enum wire_err err);

static inline size_t frame_padded(size_t value_bytes)
{
    return (value_bytes + 7) / 8 * 8;
}
static inline size_t frame_total(size_t value_bytes)
{
    return FRAME_HEADER_BYTES + frame_padded(value_bytes);
}
/* The numbers that a frame takes: one for each value. */
static inline uint32_t frame_count(const struct frame *frame)
{
    return (uint32_t)frame->more + 1;
}

/* Writes the header of a frame with frame->value.bytes to out, which has FRAME_HEADER_BYTES. */
void frame_header_write(uint8_t *out, const struct frame *frame);
/* Writes header, values and padding; out has frame_total(frame->value.bytes) bytes, and
 * frame_padded() more for each value behind the first, which lie in frame->value.data as they do in
 * a frame. */
void frame_write(uint8_t *out, const struct frame *frame);
/* Writes one value and its padding; out has frame_padded() bytes. */
static inline void frame_value_write(uint8_t *out, struct span value)
{
    static const uint8_t padding[8] = {0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0};
    size_t padded = frame_padded(value.bytes);
    if (padded != value.bytes)
        memcpy(out + padded - sizeof padding, padding, sizeof padding);
    if (value.bytes > 0)
        memcpy(out, value.data, value.bytes);
}
/* Writes some values of a frame that was checked, from the one behind skip others on, as a frame of
 * their own; returns its bytes: frame_total() of a value and frame_padded() for each more. */
size_t frame_part_write(uint8_t *out, const uint8_t *whole, uint32_t skip, uint32_t count);
/* Writes one value of a frame that was checked, or its piece of one, as a frame with the kind,
 * topic, seq, delivery, reply_to and attempt of as; stamp and mark stay.  Returns its bytes. */
size_t frame_task_write(uint8_t *out, const uint8_t *whole, uint32_t skip, const struct frame *as);
/* That value, or the bytes of it in a CHUNK. */
struct span frame_value_at(const uint8_t *whole, uint32_t skip);
/* Changes the topic number of a written frame: a broker that started anew gives new numbers. */
void frame_topic_rewrite(uint8_t *frame, uint32_t topic);

void batch_header_write(uint8_t out[BATCH_HEADER_BYTES], uint32_t frames, uint32_t bytes,
                        uint64_t number);
void delivery_header_write(uint8_t out[DELIVERY_HEADER_BYTES], uint32_t sub);
enum wire_err delivery_header_read(struct span part, uint32_t *out_sub);

/* Reading: batch_reader_init checks the batch's header, each batch_reader_next one frame, whole.
 * A batch is good if next returned WIRE_EMPTY in the end; frames read before an error stand.  The
 * part may lie at any address.  Errors: WIRE_FORMAT, WIRE_TRUNCATED, WIRE_TRAILING; WIRE_TOO_BIG:
 * a part beyond LIMIT_PART_BYTES, a value beyond what its kind may have (VALUE and COMMIT
 * LIMIT_CHUNK_BYTES); WIRE_ITEMS: more frames than bytes; WIRE_RANGE: all else said above. */
struct batch_reader {
    const uint8_t *data; /* the whole part */
    size_t bytes;
    size_t at;
    uint32_t frames_left;
    uint32_t frames;
    uint64_t number;
    uint64_t count; /* numbers that were taken by what was read */
};
enum wire_err batch_reader_init(struct batch_reader *reader, struct span part);
enum wire_err batch_reader_next(struct batch_reader *reader, struct frame *out_frame);

/* What a TOPIC frame says of the slots that follow. */
struct frame_origin {
    uint32_t incarnation; /* of the writer, that reserved them; 0: not known */
    uint64_t later_seq;   /* the first slot of a later incarnation; 0: there was none yet */
};
static inline struct frame_origin frame_origin_of(const struct frame *frame)
{
    bool is_known = frame->reply_to <= UINT32_MAX;
    return (struct frame_origin){.incarnation = is_known ? (uint32_t)frame->reply_to : 0,
                                 .later_seq = frame->seq};
}

/* The values of RESERVE, CHUNK and GAP frames.  encode returns the bytes written. */
struct frame_reserve {
    int64_t deadline_ms;      /* -1: none */
    uint64_t value_bytes_max; /* 0: not said */
    uint32_t need_count;      /* of slots that it needs, at most LIMIT_SLOT_NEEDS */
    struct span needs;        /* decoded: for frame_need_next(); borrowed */
};
struct frame_need {
    struct span topic; /* the whole topic, 1 to LIMIT_NAME_BYTES, UTF-8 */
    uint64_t seq;
};
enum { FRAME_RESERVE_BYTES_MAX = 32, FRAME_CHUNK_PREFIX_BYTES = 16, FRAME_GAP_BYTES_MAX = 64 };
/* A topic has a head of 2 bytes at most, a number has 9 in all. */
enum {
    FRAME_NEED_BYTES_MAX = LIMIT_NAME_BYTES + 11,
    FRAME_PROMISE_BYTES_MAX = FRAME_RESERVE_BYTES_MAX + LIMIT_SLOT_NEEDS * FRAME_NEED_BYTES_MAX,
};
/* Without needs.  Fields beyond their limits are a broken invariant: must(). */
size_t frame_reserve_encode(uint8_t out[FRAME_RESERVE_BYTES_MAX],
                            const struct frame_reserve *reserve);
/* With reserve->need_count of them; room FRAME_RESERVE_BYTES_MAX and FRAME_NEED_BYTES_MAX for each
 * are enough.  reserve->needs is not read. */
size_t frame_promise_encode(uint8_t *out, size_t room, const struct frame_reserve *reserve,
                            const struct frame_need *needs);
/* Needs are checked, too: WIRE_RANGE for more than LIMIT_SLOT_NEEDS, and for a topic without a
 * number. */
enum wire_err frame_reserve_decode(struct span value, struct frame_reserve *out_reserve);
/* Steps over the first of needs that were decoded; false: there are none left. */
bool frame_need_next(struct span *needs, struct frame_need *out_need);

struct frame_chunk {
    uint64_t total_bytes;
    uint64_t offset;
    struct span bytes;
};
void frame_chunk_prefix_write(uint8_t out[FRAME_CHUNK_PREFIX_BYTES], uint64_t total_bytes,
                              uint64_t offset);
enum wire_err frame_chunk_decode(struct span value, struct frame_chunk *out_chunk);

enum gap_reason {
    GAP_OVERFLOW = 0, /* the subscription asked to drop rather than to hold back */
    GAP_NOT_KEPT = 1, /* older than what is kept */
    GAP_ATTEMPT = 2,  /* of an older attempt */
    GAP_REASON_COUNT = 3,
};
struct frame_gap {
    uint64_t count;
    enum gap_reason reason;
};
size_t frame_gap_encode(uint8_t out[FRAME_GAP_BYTES_MAX], const struct frame_gap *gap);
enum wire_err frame_gap_decode(struct span value, struct frame_gap *out_gap);

#endif
