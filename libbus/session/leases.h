/* SPDX-License-Identifier: MPL-2.0 */
/* leases.h -- the tasks that this party holds as a member of groups.
 *
 * A lease begins when its task is handed out.  It ends when the broker has accepted what became of
 * the task.  So after a reconnect the session can tell the broker of every task that it need not
 * send again.  The number of a lease is never used again: settling a task of a closed subscription
 * changes nothing.
 *
 *   HELD   the application has the task
 *   DUE    the application settled it; TASK is to be sent
 *   SAID   TASK was sent, with a number
 *
 * The broker may end a lease before its task is here, or is handed out: its word is on the control
 * channel.  Then the task is remembered as LOST, and is not handed out when it comes. */
#ifndef SESSION_LEASES_H
#define SESSION_LEASES_H

#include "libbus/base/buffer.h"
#include "libbus/base/limits.h"
#include "libbus/base/list.h"
#include "libbus/base/map.h"
#include "libbus/base/memory.h"
#include "libbus/base/pool.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

enum lease_state { LEASE_HELD, LEASE_DUE, LEASE_SAID, LEASE_LOST };

/* So many tasks are remembered as LOST: all that one member may have. */
enum { LEASES_LOST_MAX = LIMIT_GROUP_CREDIT };

enum lease_end { /* TASK.how */
                 LEASE_DONE = 0,
                 LEASE_RETURNED = 1,
                 LEASE_REJECTED = 2,
                 LEASE_FAILED = 3,
};

struct lease {
    uint32_t id; /* for the pool */
    enum lease_state state;
    uint64_t number;
    uint32_t sub;   /* as in SUBSCRIBE */
    uint32_t topic; /* the broker's number */
    uint64_t seq;
    uint8_t delivery;
    uint64_t reply_to;  /* FRAME_NO_REPLY: it is no request */
    struct buffer *why; /* is_over: the broker's reason, or NULL */
    bool is_over;       /* the broker ended it: settling it has no effect */
    /* DUE and SAID */
    enum lease_end end;
    int64_t retry_after_ms;
    struct buffer *error;    /* or NULL */
    uint64_t after_upload;   /* its reply is among the uploads up to this ordinal */
    uint64_t settled;        /* leases.settled when it was settled */
    uint64_t control_number; /* SAID: of the TASK */
    struct list link;        /* in held, due, said or lost */
};

struct leases {
    struct memory *memory;
    struct pool pool;
    struct id_map by_number;
    uint64_t last;    /* number given last */
    uint64_t settled; /* how many were settled so far */
    struct list held;
    struct list due;
    struct list said; /* by control_number */
    struct list lost;
    uint32_t lost_count;
};

/* One delivery of a task to a subscription. */
struct lease_key {
    uint32_t sub;
    uint32_t topic;
    uint64_t seq;
    uint8_t delivery;
};

void leases_init(struct leases *leases, struct memory *memory);
void leases_fini(struct leases *leases);
/* A lease for a task, whose fields the caller fills in.  NULL: no memory. */
struct lease *leases_add(struct leases *leases);
/* NULL: it is settled, or its subscription is closed. */
struct lease *leases_find(const struct leases *leases, uint64_t number);
/* The lease of this delivery of this slot, in any state; NULL: there is none. */
struct lease *leases_find_task(const struct leases *leases, const struct lease_key *key);
/* The broker ended a lease whose task was not handed out.  Without memory it is not remembered. */
void leases_lose(struct leases *leases, const struct lease_key *key);
/* Whether that happened to this task; it is then forgotten. */
bool leases_was_lost(struct leases *leases, const struct lease_key *key);
/* HELD to DUE.  error is copied; without memory the lease goes without it. */
void leases_settle(struct leases *leases, struct lease *lease, enum lease_end end,
                   int64_t retry_after_ms, struct span error, uint64_t after_upload);
void leases_said(struct leases *leases, struct lease *lease, uint64_t control_number);
/* Control messages up to this number are accepted: frees the leases that they settled. */
void leases_accept(struct leases *leases, uint64_t control_number);
/* Whether the first `settled` leases that were settled are accepted. */
bool leases_reached(const struct leases *leases, uint64_t settled);
/* The subscription is closed, and TASK was sent for its settled tasks. */
void leases_drop(struct leases *leases, uint32_t sub);

#endif
