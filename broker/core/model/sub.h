/* SPDX-License-Identifier: MPL-2.0 */
/* sub.h -- a subscription, where it is in each topic, and waits for single slots. */
#ifndef CORE_MODEL_SUB_H
#define CORE_MODEL_SUB_H

#include "broker/core/tables/event.h"
#include "broker/core/tables/seq_queue.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/sync_round.h"
#include "broker/core/tables/timers.h"
#include "libbus/base/flow_window.h"
#include "libbus/base/list.h"
#include "libbus/base/map.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

struct watch { /* a pattern's first level names this party */
    struct list sub_link;
    struct list party_link;
    struct sub *sub;
    struct party *party;
};

struct ending { /* an end that is to be told to a subscription, kept until it is taken */
    struct list link;
    bool is_sent;
    struct party *party;
    uint32_t first; /* it stands for the ends of these: first to incarnation */
    uint32_t incarnation;
    struct failure *failure; /* a reference, or NULL */
};

struct flight {          /* sent, not yet taken */
    struct route *route; /* NULL: an end */
    uint64_t end_seq;
    uint64_t offset;    /* sent with it, and before, of the value of end_seq */
    uint64_t end_bytes; /* sub->sent_bytes behind it */
};

struct sub {
    uint32_t id;
    uint32_t number;         /* the client's number for it */
    struct session *session; /* NULL: a durable name without a reader */
    struct party *party;
    struct job *job;
    struct span *patterns; /* owned */
    uint32_t pattern_count;
    struct span name; /* owned; empty: not durable */
    int64_t from_seq; /* as in SUBSCRIBE */
    bool is_gap;      /* slots are dropped for it; it holds no writer back */
    bool is_expired;  /* without a reader for too long: as is_gap until it has one */
    int64_t keep_ns;
    struct timer timer;
    uint64_t window_bytes;   /* the largest, as in SUBSCRIBE */
    struct flow_window flow; /* the window now; positions are sent_bytes and taken_bytes */
    uint64_t sent_bytes;     /* on this connection */
    uint64_t taken_bytes;
    struct sync_round round;
    struct flight *flights; /* ring */
    uint32_t flight_room, flight_head, flight_count;
    struct list routes;
    struct id_map route_ids; /* topic -> id in core->routes */
    struct list ready;       /* routes that may have something to send */
    struct list endings;
    struct list watches;
    struct list session_link;
    struct list job_link;
    struct list durable_link;
    struct list ready_link; /* in session->subs_ready */
    struct group *group;    /* whose place or member it is; or NULL */
    /* of a member: */
    struct list member_link; /* in group->members */
    struct list idle_link;   /* in group->idle while it may be given more */
    struct list leases;      /* its tasks, in the order of the leases */
    struct list unsent;      /* of these, not sent on this connection */
    uint32_t held_count;     /* of leases */
    uint32_t credit;         /* most leases; 0: it is given nothing more */
    int64_t lease_ns;        /* 0: a lease lasts until the member is lost */
    struct timer lease_timer;
    bool is_looked_again; /* its timer was late, and is set once more */
    uint32_t named_topic; /* number of the last topic named on this connection */
    uint32_t named_incarnation;
    uint32_t named_replies;
};

struct route { /* where a subscription is in a topic */
    uint32_t id;
    struct sub *sub;
    struct topic *topic;
    uint64_t next_seq;          /* the next to be sent */
    uint64_t chunk_offset;      /* sent of the value of next_seq */
    uint64_t taken_seq;         /* below it all is taken */
    uint64_t taken_offset;      /* taken of the value of taken_seq */
    uint64_t acked_seq;         /* below it all is acknowledged */
    uint64_t gone_seq;          /* what is below it was gone when the route began */
    uint64_t late_seq;          /* it came late for what passed through below: it gets none of it */
    bool is_late;               /* the value of late_seq passes through still */
    conn_id named_on;           /* the connection on which TOPIC was sent */
    uint32_t named_incarnation; /* ... for slots of this one */
    bool is_lossy;              /* a gap was told, and consumer.slow once for it */
    uint64_t missed_seq;        /* first slot that a durable name missed when an attempt ended */
    uint64_t missed_count;      /* slots missed since then; 0 after an acknowledgement */
    bool is_missed_sent;        /* on this connection */
    struct list sub_link;
    struct list topic_link;
    struct list ready_link; /* in sub->ready */
    struct list tasks;      /* of a group: tasks that are not over, by seq */
    struct id_map task_ids; /* ... and letters of this attempt given again: seq -> id in
                               core->tasks */
};

enum await_state {
    AWAIT_UNPROMISED, /* unpromised: in topic->unpromised, or not placed yet */
    AWAIT_OPEN,       /* link: open_slot->awaits */
    AWAIT_READY,      /* link: session->awaits_ready; the outcome is held here */
};

struct await {
    uint32_t id;
    enum await_state state;
    uint64_t want;
    struct session *session;
    struct topic *topic; /* NULL: the wait was denied, or there was no room */
    struct span denied;  /* the name that it was said with then; owned */
    uint64_t seq;
    bool is_value_wanted;
    int64_t since_ns; /* core_clock() */
    uint64_t chunk_offset;
    struct slot_entry outcome; /* READY: a single slot, ref counted */
    struct seq_node unpromised;
    struct list link;
    struct list session_link; /* in session->awaits until READY */
    struct list coming_link;  /* OPEN: in session->awaits_coming */
};

#endif
