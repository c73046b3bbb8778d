/* SPDX-License-Identifier: MPL-2.0 */
/* why.h -- ask a broker who waits for whom in a job.
 *
 * The question goes over a handle of bus/admin.h, and its conventions hold here too. */
#ifndef BUS_WHY_H
#define BUS_WHY_H

#include <bus/admin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- bus_why: who waits for whom --------------------------------------------------------------*/

/* The answer is a graph.  An edge leads from a node that waits to the node that it waits for.  Most
 * nodes are parties.  A node that waits for nobody, and for which others wait, is a root: it is the
 * one to look at.  Parties that wait for each other, so that none can go on, are a cycle. */
struct bus_why; /* a snapshot of the waits of one job */

enum bus_why_kind {
    BUS_WHY_PARTY = 0,
    BUS_WHY_BARRIER = 1,  /* waits for all members that are not there */
    BUS_WHY_GROUP = 2,    /* waits for any of its members, while all are busy */
    BUS_WHY_JOB = 3,      /* its parties have not come */
    BUS_WHY_READER = 4,   /* a durable name that nobody reads */
    BUS_WHY_REQUESTS = 5, /* a topic of requests that no group serves */
    BUS_WHY_ROOM = 6,     /* the memory of the job, which is used up */
    BUS_WHY_SLOT = 7,     /* the slot that was asked for, or one that it needs */
    BUS_WHY_RATE = 8,     /* a limit of the rate, in the access file of the broker */
    BUS_WHY_UNKNOWN = 9,
};
/* What a node waits for. */
enum bus_wait {
    BUS_WAIT_SLOT = 0,       /* slots that the other promised */
    BUS_WAIT_UNPROMISED = 1, /* slots that the other has not promised yet */
    BUS_WAIT_REPLY = 2,      /* replies to requests that the other works on */
    BUS_WAIT_GROUP = 3,      /* replies to requests that no member of the group works on */
    BUS_WAIT_BUSY = 4,       /* the group waits for a member that has tasks */
    BUS_WAIT_UNSERVED = 5,   /* replies to requests that no group serves */
    BUS_WAIT_BARRIER = 6,    /* the party is at the barrier */
    BUS_WAIT_MISSING = 7,    /* the other is not at the barrier */
    BUS_WAIT_CREDIT = 8,     /* room to write, until the other has taken values */
    BUS_WAIT_ROOM = 9,       /* room to write, in the memory of the job */
    BUS_WAIT_GATHER = 10,    /* parties that have not come */
    BUS_WAIT_READ = 11,      /* the next value of a subscription, which the other promised */
    BUS_WAIT_OWED = 12,      /* the other owes the slot; if it never promised it: unpromised */
    BUS_WAIT_NEEDED = 13,    /* the slot needs the other slot */
    BUS_WAIT_MEMBERS = 14,   /* another membership of the job */
    BUS_WAIT_RATE = 15,      /* room to write: the limit of the rate lets no more through now */
    BUS_WAIT_UNKNOWN = 16,
};
/* The words that the command line prints.  Never NULL; static.  [any] [signal] */
BUS_API const char *bus_why_kind_name(enum bus_why_kind kind);
BUS_API const char *bus_wait_name(enum bus_wait wait);

struct bus_why_node {
    enum bus_why_kind kind;
    const char *name;     /* of the party, group, job, durable name or topic; rate: whose limit it
                             is; "": that of all who have no name */
    uint32_t incarnation; /* party; 0: it never came */
    enum bus_state state; /* party */
    uint64_t silent_ms;   /* party: time since its last sign of life */
    const char *where;    /* party: what bus_progress_at() said last */
    uint64_t open;        /* party: slots that it owes; slot: 1 until it is settled */
    uint64_t count;       /* barrier: members not there; group: members; job: parties that are
                             missing; durable name: slots not read; rate: bytes a second */
    uint64_t seq;         /* slot */
    int is_root;
    uint32_t cycle;    /* its cycle, from 1 on; 0: it is in none */
    size_t waiters;    /* parties that wait for it, directly or not, outside its cycle */
    uint64_t since_ms; /* the longest wait for it */
};
struct bus_why_edge {
    size_t from; /* index of a node */
    size_t to;
    enum bus_wait wait;
    uint64_t count;    /* slots, tasks or parties that it stands for */
    uint64_t since_ms; /* the longest of these waits */
    int is_blocked;    /* 0: the party waits with no call that has been blocked for a second */
    const char *topic; /* of the slot of the longest wait; "": it is about none */
    uint64_t seq;
};

/* Asks who waits for whom.  topic not NULL: slot seq of it is in the answer, with who owes it and
 * what it needs; else seq does not count.  The caller frees the snapshot.  Nodes stand in this
 * order: roots, those with the most waiters first; the members of each cycle; all others.
 * Errors: BUS_EINVAL: errbus.no_job, or errbus.not_open: nobody writes or awaits the topic.  [any]
 * Wire: WHY */
BUS_API BUS_MUST_USE enum bus_err bus_why_get(struct bus_admin *admin, const char *job,
                                              const char *topic, uint64_t seq, int64_t timeout_ms,
                                              struct bus_why **out_why, struct bus_error **reterr);
/* How many nodes the graph has.  [any] */
BUS_API size_t bus_why_node_count(const struct bus_why *why);
/* NULL: index is not below the count.  [any] */
BUS_API const struct bus_why_node *bus_why_node_at(const struct bus_why *why, size_t index);
/* How many edges the graph has.  [any] */
BUS_API size_t bus_why_edge_count(const struct bus_why *why);
/* NULL: index is not below the count.  [any] */
BUS_API const struct bus_why_edge *bus_why_edge_at(const struct bus_why *why, size_t index);
/* The index-th of the parties that wait for a node, directly or not, outside its cycle, the nearest
 * first; NULL: there are not so many.  It looks in the snapshot, so one thread at a time.  [one] */
BUS_API const struct bus_why_node *bus_why_waiter_at(struct bus_why *why, size_t node,
                                                     size_t index);
/* Edges that the answer had no room for.  [any] */
BUS_API uint64_t bus_why_left_out(const struct bus_why *why);
BUS_API void bus_why_free(struct bus_why **why); /* [one] */

/* ---- bus_without: what would fail if a party were lost now ------------------------------------*/

struct bus_without; /* what follows from the loss of one party */

enum bus_without_kind {
    BUS_WITHOUT_OWED = 0,  /* slots that it owes fail */
    BUS_WITHOUT_NEEDS = 1, /* slots of others fail, for they need one that fails */
    BUS_WITHOUT_REPLY = 2, /* replies fail: it works on the requests, and nobody is to try again */
    BUS_WITHOUT_REPLACED = 3, /* its error takes the place of values that nobody was sent */
    BUS_WITHOUT_PARTY = 4,    /* the error is raised at this party: it awaits or reads such slots */
    BUS_WITHOUT_GROUP = 5,    /* ... at members of this group */
    BUS_WITHOUT_READER = 6,   /* ... at who reads this durable name next */
    BUS_WITHOUT_AGAIN = 7,    /* its tasks of this group are given to other members */
    BUS_WITHOUT_DEAD = 8,     /* its tasks of this group become dead letters */
    BUS_WITHOUT_EMPTY = 9,    /* the group has no other member */
    BUS_WITHOUT_UNREAD = 10,  /* nobody reads its durable name any more */
    BUS_WITHOUT_UNKNOWN = 11,
};
/* The word that the command line prints.  Never NULL; static.  [any] [signal] */
BUS_API const char *bus_without_kind_name(enum bus_without_kind kind);

struct bus_without_row {
    enum bus_without_kind kind;
    const char *name; /* of the topic, party, group or durable name */
    uint64_t seq;     /* slots: the first one */
    uint64_t count;   /* slots in a row; tasks; times that an error is raised */
};

enum bus_without_outlook {
    BUS_WITHOUT_JOB_GOES_ON = 0,
    BUS_WITHOUT_JOB_COMPLETES = 1,
    BUS_WITHOUT_JOB_WAITS =
        2, /* too few are left: the job waits for others, and fails without them */
    BUS_WITHOUT_JOB_FAILS =
        3, /* too few are left: the verdict follows, and ends the attempt for all */
};
/* The word that JSON has.  Never NULL; static.  [any] [signal] */
BUS_API const char *bus_without_outlook_name(enum bus_without_outlook outlook);
struct bus_without_job {
    enum bus_without_outlook outlook;
    uint32_t present;       /* parties that are left */
    uint32_t min;           /* parties that the job needs; 0: nobody created it */
    uint64_t window_ms;     /* so long it waits for others */
    uint32_t attempts_left; /* may follow if this attempt fails */
};

/* Asks what would follow if the broker lost this party now: which slots fail, where the error is
 * raised, and what becomes of the job.  The broker decides this as it decides the loss itself, so
 * the answer is what follows, if nothing else happens before.  The caller frees the answer.
 * Errors: BUS_EINVAL: errbus.no_job, or errbus.no_party: the party is not in the job.  [any]
 * Wire: WITHOUT */
BUS_API BUS_MUST_USE enum bus_err bus_without_get(struct bus_admin *admin, const char *job,
                                                  const char *party, int64_t timeout_ms,
                                                  struct bus_without **out_without,
                                                  struct bus_error **reterr);
/* How many rows the answer has; they stand in the order of their kinds.  [any] */
BUS_API size_t bus_without_count(const struct bus_without *without);
/* NULL: index is not below the count.  [any] */
BUS_API const struct bus_without_row *bus_without_at(const struct bus_without *without,
                                                     size_t index);
/* What becomes of the job.  [any] */
BUS_API const struct bus_without_job *bus_without_job(const struct bus_without *without);
/* Slots that the answer had no room for.  [any] */
BUS_API uint64_t bus_without_left_out(const struct bus_without *without);
BUS_API void bus_without_free(struct bus_without **without); /* [one] */

#ifdef __cplusplus
}
#endif

#endif
