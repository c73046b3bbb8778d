/* SPDX-License-Identifier: MPL-2.0 */
/* sub_list.h -- the subscriptions of a bus: their count, messages that come back, who is woken. */
#ifndef API_SUB_LIST_H
#define API_SUB_LIST_H

#include "libbus/api/model.h"

/* A topic's name, for as long as the subscription and its messages live. */
struct name {
    struct name *next;
    char text[LIMIT_NAME_BYTES + 1];
};

struct chunk {
    struct chunk *next;
    struct bus_msg msgs[];
};

struct bus_sub {
    struct bus *bus;
    uint32_t number; /* the session's */
    uint32_t index;  /* in bus->sub_slots */
    atomic_ulong refs;
    atomic_int fd; /* -1: not asked for */
    atomic_bool is_waiting;
    _Atomic(struct bus_msg *) come_back;

    /* with the bus's lock */
    struct list link; /* in bus->subs */
    pthread_cond_t news;
    unsigned waiters;
    struct bus_msg *spare; /* came back, may be used again */
    uint32_t spare_count;

    /* the receiver's */
    _Atomic(struct bus_msg *) ready; /* fetched, to be given out; atomic for bus_sub_fd() alone */
    struct bus_msg *pool;            /* unused */
    uint32_t pool_count;
    uint32_t msg_count; /* ever allocated */
    bool is_pool_short; /* the last fetch could have taken more */
    struct chunk *chunks;
    struct bus_msg *given; /* error, gap or end given last: acknowledged by the next call */
    const char *slot_topic;
    uint64_t slot_seq;
    struct frame_origin slot_origin;
    uint64_t gap_first;
    uint64_t gap_count;
    struct memory memory; /* of topics */
    struct id_map topics; /* broker's number -> index into topic_names */
    struct name **topic_names;
    uint32_t topic_count;
    uint32_t topic_room;
    struct name *spare_name; /* reserved before a frame is taken */
    uint32_t last_topic;
    const char *last_name; /* of last_topic; NULL: none yet */
};

/* Drops count references; the last one frees the subscription. */
void sub_unref(struct bus_sub *sub, unsigned long count);
/* Acknowledges what was given back since.  Lock held. */
void sub_collect_one(struct bus_sub *sub);
/* The same, and what comes back from now on is only freed.  Lock held. */
void sub_detach_one(struct bus_sub *sub);
/* Drops count references of a buffer at once: messages that came together lie in one batch. */
void buffer_drop_many(struct buffer *buffer, unsigned count);

struct bus *sub_bus(const struct bus_sub *sub);
/* The message is done with: back to its subscription, which acknowledges.  Any thread. */
void sub_give_back(struct bus_msg *msg);
/* Acknowledges a message that the application keeps; once.  Lock held. */
void sub_ack_kept(struct bus_msg *msg);
/* For all subscriptions: acknowledges what was given back since.  Lock held. */
void sub_collect_all(struct bus *bus);
/* The bus closes: what comes back from now on is only freed.  Lock held. */
void sub_detach_all(struct bus *bus);
/* The session has something for these subscriptions, or for all.  Lock held. */
void sub_tell(struct bus *bus);
void sub_tell_all(struct bus *bus);

#endif
