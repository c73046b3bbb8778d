/* SPDX-License-Identifier: MPL-2.0 */
/* inbox.h -- frames received, by subscription, in the batches they came in.
 *
 * A batch stays whole until its last frame was handed out.  Each item that is handed out holds a
 * reference of the batch, so no value is copied.  The exception is a value that came in chunks and
 * that the reader wants whole.
 *
 * The inbox looks up the next item of a subscription as soon as there is one.  It skips names of
 * topics, frames received before, and chunks of an incomplete value; they count as taken at once.
 * Invariant: a subscription with batches has an item ready, or memory was short.  So everyone can
 * see whether a receiver would wait.
 *
 * Slots of one topic arrive in ascending order.  After a reconnect the broker sends from the
 * POSITION that it was told, and the inbox drops what comes twice by its number. */
#ifndef SESSION_INBOX_H
#define SESSION_INBOX_H

#include "libbus/base/buffer.h"
#include "libbus/base/list.h"
#include "libbus/base/map.h"
#include "libbus/base/memory.h"
#include "libbus/base/pool.h"
#include "libbus/session/ack_prefix.h"
#include "libbus/session/assembly.h"
#include "libbus/session/item.h"
#include "libbus/session/known_topics.h"
#include "libbus/wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

/* One topic in one subscription, or one party whose end was told. */
struct inbox_stream {
    uint32_t id; /* for the pool */
    uint32_t topic;
    struct inbox_sub *sub;
    bool is_started; /* next_seq is valid */
    bool is_party;
    uint64_t next_seq; /* the first slot that was not looked up yet */
    struct assembly assembly;
    uint64_t position_seq; /* as in POSITION; after inbox_positions() */
    uint64_t position_offset;
    struct ack_prefix acks;
    bool is_past_told;          /* the gap of earlier attempts was handed out */
    struct frame_origin origin; /* of the slots that are looked up next */
    struct list dirty;          /* in inbox_sub.dirty while an ACK is due */
    uint64_t ack_due_seq;       /* the position of that ACK, which is sent once ... */
    uint64_t ack_after_upload;  /* ... uploads up to this ordinal are done */
    uint64_t ack_told_seq;
    uint64_t ack_number; /* of the last ACK; 0: none, or it has no number */
};

struct inbox_batch {
    struct buffer *part;
    uint32_t connection; /* on which it came */
};

struct inbox_sub {
    uint32_t id;     /* for the pool */
    uint32_t number; /* as in SUBSCRIBE */
    bool is_durable;
    bool is_shared;    /* a member of a group: each frame is a task, in whatever order */
    bool is_in_pieces; /* chunks are handed out as they come */
    bool is_closing;   /* the reader closed it; UNSUBSCRIBE is sent once ... */
    bool is_drop;
    bool is_open;                /* the broker has it, or will have */
    uint64_t opened_by;          /* the control number of SUBSCRIBE */
    uint64_t close_after_upload; /* ... uploads up to this ordinal are done */
    uint64_t window_bytes;       /* the largest that the broker may use */
    uint64_t step_bytes;         /* TAKEN is said each time that so much more was taken */
    enum wire_code code;         /* refused */
    struct buffer *error;
    struct inbox_batch *ring; /* room is 0 or a power of two */
    uint32_t room;
    uint32_t head;
    uint32_t count;
    struct batch_reader reader; /* of the first batch, if is_reading */
    bool is_reading;
    bool is_ready;
    struct session_item ready; /* its buffer is the first batch's, or a reference: ready_value */
    struct buffer *ready_value;
    struct inbox_stream *ready_stream;
    uint64_t ready_bytes;  /* of its (first) value, with what stands before it */
    struct id_map streams; /* topic to inbox_stream.id */
    struct inbox_stream *recent;
    uint32_t named_topic; /* the topic named last, and whose slots follow */
    struct frame_origin named;
    uint64_t received; /* bytes of frames on this data connection */
    uint64_t taken;
    uint64_t taken_told;
    int64_t told_ns;     /* when that was told, or the first bytes were taken */
    uint64_t lag_told;   /* not durable: the value of taken at the last ACK */
    bool is_lag_due;     /* such an ACK is due */
    struct list news;    /* session.sub_news */
    struct list talk;    /* session.talk: TAKEN or ACK to be sent now */
    struct list untold;  /* session.untold: TAKEN to be sent a little later */
    struct list acking;  /* session.acking: dirty is not empty */
    struct list closing; /* session.closing */
    struct list dirty;   /* streams */
};

struct inbox {
    struct memory *memory;
    struct pool subs;
    struct pool streams;
    struct id_map by_number;
    struct inbox_sub *recent; /* that received last; NULL: none, or it was freed */
    struct known_topics *topics;
    uint32_t last_number;
    uint32_t connection; /* counts data connections */
    uint64_t value_bytes_max;
};

void inbox_init(struct inbox *inbox, struct memory *memory, struct known_topics *topics);
void inbox_fini(struct inbox *inbox);

/* NULL: no memory, or LIMIT_SUBS. */
struct inbox_sub *inbox_sub_new(struct inbox *inbox);
struct inbox_sub *inbox_sub_find(const struct inbox *inbox, uint32_t number);
void inbox_sub_free(struct inbox *inbox, struct inbox_sub *sub);
/* NULL: nothing of that topic was received. */
struct inbox_stream *inbox_stream_find(const struct inbox *inbox, const struct inbox_sub *sub,
                                       uint32_t topic);

/* Each call below returns CODE_OK, or CODE_ENOMEM: nothing changed, try again; or CODE_EPROTO: the
 * batch breaks the protocol, and an item that was ready before it still is. */

/* Takes the batch over on CODE_OK. */
enum wire_code inbox_receive(struct inbox *inbox, struct inbox_sub *sub, struct buffer **part);
/* Looks up the next item if none is ready.  CODE_OK and none ready: there is none. */
enum wire_code inbox_look(struct inbox *inbox, struct inbox_sub *sub);
/* Hands the ready item out (CODE_ETIMEDOUT: none), or values_max of its values, then looks up the
 * next.  out_look: what that gave. */
enum wire_code inbox_take(struct inbox *inbox, struct inbox_sub *sub, uint32_t values_max,
                          struct session_item *out, enum wire_code *out_look);
/* Computes the POSITION of every stream, behind all unread frames. */
enum wire_code inbox_positions(struct inbox *inbox);
/* A new data connection: its count of bytes begins at 0. */
void inbox_reconnect(struct inbox *inbox);

#endif
