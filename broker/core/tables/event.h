/* SPDX-License-Identifier: MPL-2.0 */
/* event.h -- what can happen to the broker's core.  Everything it decides, it decides from these:
 * time, randomness and bytes come in here and nowhere else. */
#ifndef CORE_EVENT_H
#define CORE_EVENT_H

#include "libbus/base/access.h"
#include "libbus/base/span.h"
#include "libbus/wire/frame.h"
#include "libbus/wire/metric.h"
#include "libbus/wire/msg.h"

#include <stdint.h>

/* A connection of either channel, numbered by the io layer, never used again. */
typedef uint32_t conn_id;
/* A received part whose bytes io keeps; the core counts references by effects. */
typedef uint32_t payload_id;

enum event_type {
    EVENT_TICK,        /* time passed */
    EVENT_MESSAGE,     /* a decoded message of the control channel, or ATTACH, or PIECE */
    EVENT_DATA,        /* a decoded batch */
    EVENT_CLOSED,      /* this connection is known to be closed */
    EVENT_VIOLATION,   /* this connection sent what breaks the protocol */
    EVENT_STOP,        /* the broker is told to stop: say BYE */
    EVENT_JOURNAL,     /* the journal's state is another now */
    EVENT_ACCESS,      /* another access table is in force, or a key of this one has ended */
    EVENT_ACCESS_WORD, /* news of the access file that change no table */
    EVENT_TYPE_COUNT,
};

/* What the journal takes. */
enum journal_health {
    HEALTH_WELL,
    HEALTH_FULL,    /* no values: its disk is full */
    HEALTH_REFUSED, /* nothing: it cannot be written */
    HEALTH_COUNT,
};

enum access_word {
    ACCESS_IS_REFUSED,  /* it was read again, and is wrong */
    ACCESS_IS_EXPIRING, /* a key or uid is near its end */
};

/* A frame, as the core needs to know it: one slot, or a range of values for slots whose numbers
 * follow each other. */
struct event_range {
    enum frame_kind kind;
    uint32_t attempt;
    uint32_t topic;           /* its number for clients */
    uint64_t seq;             /* of the first value */
    uint32_t count;           /* values; 1 unless VALUE */
    int64_t stamp_ns;         /* when it was written, by the broker's clock */
    uint32_t offset;          /* of the frame in the payload */
    uint32_t value_bytes;     /* of each value */
    int64_t deadline_ms;      /* RESERVE: -1 none */
    uint64_t value_bytes_max; /* RESERVE: 0 not said */
    uint32_t need_count;      /* RESERVE: slots that it needs */
    union {
        struct span needs; /* RESERVE: for frame_need_next(); good during the step */
        struct span name;  /* TOPIC: of the topic; good during the step */
    };
    uint64_t chunk_total;  /* CHUNK: bytes of the whole value */
    uint64_t chunk_offset; /* CHUNK */
    uint32_t chunk_bytes;  /* CHUNK: bytes of the value in it */
    uint64_t reply_to;     /* VALUE, RESERVE: of a request; FRAME_NO_REPLY: it is none */
};

/* The shards of the broker's store, and where their brokers are; borrowed until all effects are
 * taken. */
struct event_shard {
    uint32_t number;
    struct span endpoint;
    bool is_here; /* it is this broker's */
};
struct event_shards {
    const struct event_shard *items;
    uint32_t count;
};

struct event {
    enum event_type type;
    int64_t now_ns;     /* monotonic clock of the broker; never goes back */
    int64_t wall_ns;    /* wall clock, for people; may jump */
    uint64_t random;    /* fresh with each event; for tokens */
    uint64_t kept;      /* what was decided in so many of the first steps is in the journal */
    conn_id conn;       /* MESSAGE, DATA, CLOSED, VIOLATION */
    uint32_t principal; /* MESSAGE: whose connection it is, by the table in force; 0: nobody's */
    const struct metric_figures *figures; /* MESSAGE: of METRICS, what io counts; or NULL */
    const struct event_shards *shards;    /* MESSAGE: of SHARDS; NULL: there are none */
    payload_id payload;                   /* MESSAGE: of a PIECE with bytes, these; else 0 */
    union {
        const struct msg *msg; /* MESSAGE */
        struct {
            uint64_t number;    /* of the first range; 0: chunks */
            payload_id payload; /* io holds a reference during the step */
            uint32_t payload_bytes;
            const struct event_range *ranges;
            uint32_t range_count;
        } data;                      /* DATA */
        const struct access *access; /* ACCESS: borrowed until the next one; never NULL */
        struct {
            enum access_word word;
            const char *text;  /* for people */
        } access_word;         /* ACCESS_WORD */
        const char *complaint; /* VIOLATION: what was wrong, for people */
        struct {
            enum journal_health health;
            const char *text; /* what is held back and why, for people */
        } journal;            /* JOURNAL */
    } as;
};

#endif
