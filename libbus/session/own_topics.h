/* SPDX-License-Identifier: MPL-2.0 */
/* own_topics.h -- the topics that this party writes: credit, and the slots that it must settle.
 *
 * The record of a slot reserves what its settlement needs: room in the outbox, and a control
 * message.  The message is large enough for the small error that replaces an error for which there
 * is no memory. */
#ifndef SESSION_OWN_TOPICS_H
#define SESSION_OWN_TOPICS_H

#include "libbus/base/list.h"
#include "libbus/base/map.h"
#include "libbus/base/memory.h"
#include "libbus/base/pool.h"
#include "libbus/base/span.h"
#include "libbus/session/controls.h"
#include "libbus/session/earlier.h"
#include "libbus/wire/error.h"

#include <stdbool.h>
#include <stdint.h>

/* FAIL with the small error of session_errors.c: less than 200 bytes, and four numbers of at most 9
 * bytes. */
enum { OWN_SLOT_SPARE_BYTES = 256 };

enum own_topic_state {
    OWN_TOPIC_UNKNOWN, /* to be asked for */
    OWN_TOPIC_ASKED,
    OWN_TOPIC_REFUSED, /* code says why */
    /* In these slots may be reserved: */
    OWN_TOPIC_NUMBERED, /* by us, and no TOPIC frame names it yet */
    OWN_TOPIC_OPEN,
};

struct own_topic {
    uint32_t id;    /* the session's number of it; for the pool */
    uint32_t topic; /* the number that the broker knows; NUMBERED, OPEN */
    enum own_topic_state state;
    enum wire_code code;
    struct span name;
    struct list ask;   /* in own_topics.asks while TOPIC_OPEN is to be sent */
    uint64_t next_seq; /* the first number that is free */
    struct session_earlier earlier;
    uint64_t used_bytes; /* credit (PROTOCOL.md, "Writing") */
    uint64_t limit_bytes;
    uint64_t needed_bytes; /* the limit with which a set of values can be written; 0: none waits */
    uint64_t batch_bytes;  /* of small frames, in one batch */
    bool is_doubtful;      /* the broker refused one of its frames, which may have used credit */
    bool is_recount;       /* TOPIC_OPEN is sent again to learn the credit used */
    bool is_own_number;    /* topic is a number that we gave */
    bool is_unanswered;    /* ... and TOPIC_OPENED has not come */
    struct id_map slots;   /* seq to own_slot.id */
};

struct own_slot {
    uint32_t id;    /* for the pool */
    bool is_failed; /* the broker refused it: committing it says so */
    uint64_t seq;
    uint64_t reserve_number;  /* of the frame that reserved it */
    uint64_t value_bytes_max; /* 0: not said */
    uint64_t held_bytes;      /* of the outbox, kept for its value */
    struct control *spare;
};

struct own_topics {
    struct memory *memory;
    struct pool topics;
    struct own_topic *recent; /* that was found last; topics stay */
    struct pool slots;
    struct name_map by_name;
    struct id_map by_number;
    struct list asks;     /* those with numbers of ours are first */
    uint32_t next_number; /* that we may give */
    uint32_t numbers_left;
    uint64_t held_bytes; /* of all slots */
};

void own_topics_init(struct own_topics *own, struct memory *memory);
void own_topics_fini(struct own_topics *own);

/* The topic of this name, made if it is new.  Errors: CODE_EFULL, CODE_ENOMEM. */
enum wire_code own_topics_open(struct own_topics *own, struct span name,
                               struct own_topic **out_topic);
/* NULL: no such topic.  Most calls look for the topic that was found last.  That case is fast,
 * because all else on the path of a value waits for this look-up. */
static inline struct own_topic *own_topics_find(struct own_topics *own, uint32_t id)
{
    if (own->recent != NULL && own->recent->id == id)
        return own->recent;
    struct own_topic *topic = pool_find(&own->topics, id);
    if (topic != NULL)
        own->recent = topic;
    return topic;
}
/* Gives a topic that was not asked for a number of ours, if one is left: then it can be written at
 * once (PROTOCOL.md, "Writing"). */
void own_topics_give_number(struct own_topics *own, struct own_topic *topic);
/* Whether TOPIC_OPEN with a number of ours is to be sent: before what names that number. */
static inline bool own_topics_has_urgent(const struct own_topics *own)
{
    return !list_is_empty(&own->asks) &&
           LIST_OWNER(own->asks.next, struct own_topic, ask)->is_own_number;
}
/* Whether a set of values waits for more credit than a single value needs. */
static inline bool own_topic_has_set(const struct own_topic *topic)
{
    return topic->needed_bytes > topic->limit_bytes;
}
struct own_topic *own_topics_by_number(const struct own_topics *own, uint32_t topic);
/* TOPIC_OPENED came with the broker's number.  Errors: CODE_ENOMEM; CODE_EPROTO: another topic has
 * this number, or this one had another. */
enum wire_code own_topics_number(struct own_topics *own, struct own_topic *topic, uint32_t number);
/* TOPIC_OPEN is to be sent (again). */
void own_topics_ask(struct own_topics *own, struct own_topic *topic);
/* A new connection: asks again where the answer may be lost. */
void own_topics_rewind(struct own_topics *own);

/* The record of a slot that is being reserved; NULL: no memory. */
struct own_slot *own_slot_new(struct own_topics *own, struct own_topic *topic, uint64_t seq);
/* NULL: it is not open. */
struct own_slot *own_slot_find(const struct own_topics *own, const struct own_topic *topic,
                               uint64_t seq);
void own_slot_free(struct own_topics *own, struct own_topic *topic, struct own_slot *slot);

#endif
