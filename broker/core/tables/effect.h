/* SPDX-License-Identifier: MPL-2.0 */
/* effect.h -- what the core wants done, in order.  Whatever effects point to (names, encoded
 * errors) stands until the next core_step(). */
#ifndef CORE_EFFECT_H
#define CORE_EFFECT_H

#include "broker/core/tables/event.h"
#include "libbus/base/limits.h"
#include "libbus/base/memory.h"
#include "libbus/wire/error.h"
#include "libbus/wire/fact.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum effect_type {
    EFFECT_SEND_MSG,   /* a control message to conn */
    EFFECT_SEND_RANGE, /* frames that lie in a payload, to conn (data), as they are */
    EFFECT_SEND_PART,  /* some values of one of them, in a frame with a header of its own */
    EFFECT_SEND_TASK,  /* one value of one of them, or a piece, with a header made here */
    EFFECT_SEND_FRAME, /* a frame made here: TOPIC ERROR GAP END, or an empty VALUE */
    EFFECT_RETAIN,     /* count more references on payload */
    EFFECT_RELEASE,    /* count fewer */
    EFFECT_DROP,       /* forget conn: parts from it are ignored from now on */
    EFFECT_LOG,        /* a line for the operator's log; conn: whom it is about, or 0 */
    EFFECT_RELOAD,     /* read the access file again, for conn; then EVENT_ACCESS or ACCESS_WORD */
    EFFECT_FACT,       /* append this record to the journal, before what comes behind it is said */
};

struct effect {
    enum effect_type type;
    conn_id conn;
    uint32_t sub;       /* SEND_...: the client's number of the subscription */
    payload_id payload; /* FACT: whose bytes stand beside it; 0: it has none;
                           SEND_MSG of DEAD_VALUE: where its bytes are; 0: they are none;
                           SEND_MSG of FETCHED_PIECE: where its bytes are */
    size_t offset;      /* SEND_RANGE, SEND_PART: of the first frame; FACT: in fact_bytes;
                           SEND_MSG of FETCHED_PIECE: in the payload */
    uint32_t bytes;     /* ...: of what is sent, with headers; FACT: of the record;
                           SEND_MSG of FETCHED_PIECE: its own */
    uint32_t count;     /* SEND_RANGE: frames; SEND_PART: values; RETAIN, RELEASE: references;
                           SEND_MSG of DEAD_VALUE: bytes of the value before those wanted */
    uint32_t skip;      /* SEND_PART, SEND_TASK: values of the frame before the first one sent */
    bool is_whole; /* SEND_RANGE, SEND_PART: the step that let the payload in settled these slots */
    uint32_t index; /* of the message, frame or log line in the arrays below;
                       FACT: its enum fact_type */
};

struct effect_frame {
    struct frame frame;   /* value: borrowed */
    struct frame_gap gap; /* of a GAP: its value is encoded by who carries the effect out */
};

/* What a log line tells. */
struct effect_log {
    struct span name;  /* of the event */
    struct span job;   /* empty: it is about a connection without a session */
    struct span party; /* empty: it is about no party */
    uint64_t incarnation;
    uint64_t count;
    struct span text;
    struct span error;                    /* id of the error that it tells of; empty: of none */
    char principal[LIMIT_NAME_BYTES + 1]; /* whom the party belongs to; "": not known */
};

/* Grows as needed; cleared and used again for each step. */
struct effects {
    struct memory *memory;
    struct effect *items;
    uint32_t count, room;
    struct msg *msgs;
    uint32_t msg_count, msg_room;
    struct effect_frame *frames;
    uint32_t frame_count, frame_room;
    struct effect_log *logs;
    uint32_t log_count, log_room;
    uint8_t *fact_bytes; /* encoded, one behind the other */
    size_t fact_used, fact_room;
};

void effects_init(struct effects *effects, struct memory *memory);
void effects_fini(struct effects *effects);
void effects_clear(struct effects *effects);

/* Each appends one and gives what is to be filled in; the pointer is good until the next one.
 * Memory for effects is set aside by the caller's allocator; if even that is used up the process
 * ends (must): a broker that cannot say what it decided must not go on deciding. */
struct msg *effects_msg(struct effects *effects, conn_id conn, enum msg_type type);
/* JOB_DONE: a request of an operator is answered with this code. */
void effects_job_done(struct effects *effects, conn_id conn, uint64_t request, enum wire_code code,
                      const char *type, const char *message);
struct effect_frame *effects_frame(struct effects *effects, conn_id conn, uint32_t sub,
                                   enum frame_kind kind);
struct effect *effects_range(struct effects *effects, conn_id conn, uint32_t sub,
                             payload_id payload);
struct effect *effects_part(struct effects *effects, conn_id conn, uint32_t sub,
                            payload_id payload);
/* The effect's index is that of the frame in effects->frames: kind, topic, seq, delivery, reply_to
 * and attempt are to be filled in; stamp and value are those of the stored one. */
struct effect *effects_task(struct effects *effects, conn_id conn, uint32_t sub,
                            payload_id payload);
void effects_retain(struct effects *effects, payload_id payload, uint32_t count);
void effects_release(struct effects *effects, payload_id payload, uint32_t count);
void effects_drop(struct effects *effects, conn_id conn);
void effects_reload(struct effects *effects, conn_id conn);
/* The pointer is good until the next one. */
struct effect_log *effects_log(struct effects *effects, conn_id conn);
/* The fact is encoded here: what its spans point to may go. */
void effects_fact(struct effects *effects, const struct fact *fact, payload_id payload);
/* The room for facts that leaves room for one fact more: twice the room, as often as needed.  The
 * facts of a checkpoint may have many gigabytes. */
size_t effects_fact_room(size_t room, size_t used);
/* The record of a FACT, borrowed until the next one is appended. */
struct span effects_record(const struct effects *effects, const struct effect *effect);

#endif
