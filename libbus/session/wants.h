/* SPDX-License-Identifier: MPL-2.0 */
/* wants.h -- awaited slots: questions to the broker, and answers that were not taken yet.
 *
 * All wants of one slot share at most two AWAITs: one for the outcome alone, one for the value.  A
 * frame of the slot answers all of them, with one exception.  An empty VALUE is either the outcome
 * alone, or a value of no bytes.  So while the outcome alone may be under way, an empty VALUE does
 * not answer wants of the value: the session asks for it again.
 *
 * This holds for wants that were cancelled too, because UNAWAIT and the answer may cross.  Such a
 * slot is kept as stale; the newest LIMIT_STALE_WANTS of them stay. */
#ifndef SESSION_WANTS_H
#define SESSION_WANTS_H

#include "libbus/base/list.h"
#include "libbus/base/map.h"
#include "libbus/base/memory.h"
#include "libbus/base/pool.h"
#include "libbus/session/assembly.h"
#include "libbus/session/item.h"
#include "libbus/session/known_topics.h"
#include "libbus/wire/frame.h"
#include "libbus/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

enum want_mode { WANT_OUTCOME = 0, WANT_VALUE = 1, WANT_MODE_COUNT = 2 };

enum want_ask_state {
    WANT_ASK_NONE,
    WANT_ASK_DUE,  /* AWAIT is to be sent */
    WANT_ASK_OUT,  /* was sent on this connection and not answered */
    WANT_ASK_DROP, /* UNAWAIT is to be sent */
};

struct want_ask {
    enum want_ask_state state;
    bool is_told;    /* the broker may know of it */
    uint64_t number; /* as in AWAIT */
};

struct want_slot {
    uint32_t id;       /* for the pool */
    uint32_t outcomes; /* outcomes alone that may be under way */
    struct known_topic *topic;
    uint64_t seq;
    struct want_ask asks[WANT_MODE_COUNT];
    struct list wants; /* not answered yet */
    struct list due;   /* in wants.due */
    struct list drop;  /* in wants.drops */
    struct list stale; /* in wants.stale */
    struct assembly assembly;
};

struct want {
    uint32_t id; /* for the pool */
    enum want_mode mode;
    uint64_t number;
    struct list link;       /* in want_slot.wants; answered: in wants.answered */
    struct want_slot *slot; /* NULL: answered */
    enum wire_code code;    /* answered: CODE_OK, or CODE_ENOMEM */
    struct session_item item;
};

struct wants {
    struct memory *memory;
    struct pool wants;
    struct pool slots;
    struct id_map by_number;
    struct list due;      /* slots with an AWAIT to send */
    struct list drops;    /* slots with an UNAWAIT to send */
    struct list stale;    /* slots without wants, oldest first */
    struct list answered; /* wants that were not taken yet, in the order of their answers */
    uint32_t stale_count;
    uint64_t last_number;
};

void wants_init(struct wants *wants, struct memory *memory);
void wants_fini(struct wants *wants);

/* Errors: CODE_EFULL: LIMIT_AWAITS; CODE_ENOMEM. */
enum wire_code wants_add(struct wants *wants, struct known_topic *topic, uint64_t seq,
                         enum want_mode mode, uint64_t *out_number);
/* CODE_OK: answered, *out is the caller's, the want is forgotten; CODE_ENOMEM: answered, but there
 * was no memory for the value, forgotten too; CODE_ETIMEDOUT: not yet; CODE_EINVAL: no such
 * want. */
enum wire_code wants_take(struct wants *wants, uint64_t number, struct session_item *out);
/* The want that was answered next after this one (0: first) and was not taken yet; 0: none. */
uint64_t wants_answered(const struct wants *wants, uint64_t after);
void wants_cancel(struct wants *wants, uint64_t number);

/* The next AWAIT to send; its topic is borrowed.  false: none. */
bool wants_await(struct wants *wants, struct msg *out);
/* The next UNAWAIT to send. */
bool wants_unawait(struct wants *wants, struct msg *out);
/* A new connection: asks again for all that is not answered. */
void wants_rewind(struct wants *wants);

enum wants_verdict {
    WANTS_NOTHING, /* nothing is answered (yet) */
    WANTS_ANSWERED,
    WANTS_BROKEN,
};
/* A frame of subscription 0 that lies in part; topic is what its number stands for. */
enum wants_verdict wants_frame(struct wants *wants, struct known_topic *topic,
                               const struct frame *frame, struct buffer *part,
                               uint64_t value_bytes_max);

#endif
