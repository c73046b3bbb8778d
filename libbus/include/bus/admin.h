/* SPDX-License-Identifier: MPL-2.0 */
/* admin.h -- ask a broker about its jobs, and change them, without taking part in one.
 *
 * A program opens one handle and asks any number of questions over it.  Each answer is a snapshot:
 * an object that shows the broker at one moment, never changes, and outlives the handle.  The
 * conventions of bus/bus.h hold here too.
 *
 * A row or summary that a call returns is borrowed from its snapshot.  Read such structs by pointer
 * only: later versions append fields.  Their strings are never NULL.  Enums only grow: a value that
 * this version of the library does not know is reported as ..._UNKNOWN.
 *
 * For more: bus/report.h (why a job failed), bus/why.h (who waits), bus/dead.h (dead letters),
 * bus/metrics.h (figures). */
#ifndef BUS_ADMIN_H
#define BUS_ADMIN_H

#include <bus/bus.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- bus_admin: a handle on a broker ----------------------------------------------------------*/

struct bus_admin; /* one handle: a connection to a broker, for any number of calls */

struct bus_admin_options {
    size_t struct_bytes;    /* set by bus_admin_options_init */
    const char *job;        /* of calls that name none.  NULL: $ERRBUS_JOB, else "default" */
    int is_patient;         /* 1: bus_admin_open() waits for a broker that does not run yet */
    const char *key;        /* path of the key file, as in bus_options */
    bus_doubt_fn *on_doubt; /* as in bus_options */
    void *on_doubt_arg;
};
/* Fills in the defaults. */
#define bus_admin_options_init(o) bus_admin_options_init_sized((o), sizeof *(o))
BUS_API void bus_admin_options_init_sized(struct bus_admin_options *options, size_t bytes);

/* Connects to a broker as an observer: the handle joins no job and creates none.  endpoint and
 * timeout_ms are as in bus_open().  Where no endpoint can be connected to, the call fails after two
 * tries at each (BUS_ELOST), unless is_patient is set.  The handle keeps its connection.  When the
 * connection is lost, the handle makes a new one: a broker that was restarted answers the next
 * call.
 *
 * Every call on a handle takes three arguments that mean the same everywhere:
 *   admin       the handle.
 *   job         the job that the call is about.  NULL: the job of the options.
 *   timeout_ms  the bound of the call.  It includes the wait for the call's turn.
 *
 * Threads: several threads may use one handle.  Their calls take turns, one at a time.  A call that
 * waits for a final verdict makes the others wait: give such a call a handle of its own.
 *
 * Errors of every call: BUS_EINVAL; BUS_ETIMEDOUT: no answer in time (type errbus.unreachable: no
 * broker in reach, the message says what each endpoint said last); BUS_ELOST: no broker in reach
 * when the handle was opened (the same type and message), or the broker went away during the call
 * and stayed away for 30 seconds; otherwise as bus_open().  After BUS_ETIMEDOUT or
 * BUS_ELOST the broker may or may not have done what the call asked for.  [any] */
BUS_API BUS_MUST_USE enum bus_err bus_admin_open(const char *endpoint,
                                                 const struct bus_admin_options *options,
                                                 int64_t timeout_ms, struct bus_admin **out_admin,
                                                 struct bus_error **reterr);

/* Closes the connections and frees the handle.  No call of another thread may be under way.
 * Snapshots stay valid.  [one] */
BUS_API void bus_admin_close(struct bus_admin **admin);

/* ---- bus_admin_ping: is the broker well? ------------------------------------------------------*/

enum bus_channel {
    BUS_CHANNEL_CONTROL = 0, /* questions, errors, signs of life */
    BUS_CHANNEL_DATA = 1,    /* values and attachments */
};
struct bus_pong {       /* this layout never grows */
    int64_t trip_ns;    /* from the question to its answer, as this process saw it */
    uint64_t uptime_ms; /* how long the broker has run */
    int journal;        /* enum bus_journal_state; of a broker without a journal: it is well */
};
/* Asks the broker for a sign of life over one of its channels.  Only the trip of the question is
 * measured, not the opening of a connection.  A broker whose journal takes nothing answers, too.
 * Errors: BUS_ELOST (errbus.unreachable): no data channel.  [any]  Wire: PING, DATA_PING */
BUS_API BUS_MUST_USE enum bus_err bus_admin_ping(struct bus_admin *admin, enum bus_channel channel,
                                                 int64_t timeout_ms, struct bus_pong *out_pong,
                                                 struct bus_error **reterr);

/* What a job, party, subscription or group does at the moment. */
enum bus_state {
    BUS_STATE_UNKNOWN = 0,     /* this version of the library has no name for it */
    BUS_STATE_FREE = 1,        /* job: nobody created it; parties come and go */
    BUS_STATE_LINGERING = 2,   /* job: no party is left; the broker keeps it for a while */
    BUS_STATE_GATHERING = 3,   /* job: waits for enough parties */
    BUS_STATE_RUNNING = 4,     /* job, party */
    BUS_STATE_SHORT = 5,       /* job: too few parties are left; it waits for others */
    BUS_STATE_FAILING = 6,     /* job, party: a failure is known, the end is not */
    BUS_STATE_PAUSING = 7,     /* job: waits before its next attempt */
    BUS_STATE_COMPLETED = 8,   /* job, party: final */
    BUS_STATE_FAILED = 9,      /* job, party: final */
    BUS_STATE_CANCELLED = 10,  /* job: final */
    BUS_STATE_SCHEDULING = 11, /* party: waits for a place among the members */
    BUS_STATE_SUSPECT = 12,    /* party: connected, but silent for too long */
    BUS_STATE_GRACE = 13,      /* party: its connection closed; it may reconnect */
    BUS_STATE_LOST = 14,       /* party: final */
    BUS_STATE_LEFT = 15,       /* party: final */
    BUS_STATE_TERMINATED = 16, /* party: final */
    BUS_STATE_LIVE = 17,       /* subscription: a party reads it; group: it has members */
    BUS_STATE_KEPT = 18,       /* subscription or group: nobody reads it; the broker keeps it */
};
/* The word that the command line prints, "running".  Never NULL; static.  [any] [signal] */
BUS_API const char *bus_state_name(enum bus_state state);

/* ---- bus_admin_job: create, inspect and cancel a job ------------------------------------------*/

/* What becomes of values that a party committed before it failed. */
enum bus_pending {
    BUS_PENDING_DELIVER = 0, /* subscribers still receive them */
    BUS_PENDING_REPLACE = 1, /* the party's error replaces those that were sent to nobody yet */
};
/* Which error of a failed job is its root. */
enum bus_strategy {
    BUS_STRATEGY_CAUSAL = 0,   /* the one that the others lead to, by cause and by blame */
    BUS_STRATEGY_EARLIEST = 1, /* the one that occurred first */
    BUS_STRATEGY_FIRST = 2,    /* the one that reached the broker first */
    BUS_STRATEGY_UNKNOWN = 3,  /* in answers only */
};
/* What becomes of parties that wait for each other, so that none can go on. */
enum bus_deadlock {
    BUS_DEADLOCK_TELL = 0, /* the event job.deadlock tells of them */
    BUS_DEADLOCK_FAIL = 1, /* and the youngest of their waits fails, so that the others go on: the
                              call returns BUS_EFAILED with an error of kind dependency and type
                              errbus.deadlock, whose causes are the other waits.  The slot stays
                              open, and may be awaited again.  This happens only where nothing else
                              can end the waits: no blocked call has a timeout, all threads of the
                              processes are blocked, and what they wrote was accepted */
};
/* The words of the command line.  Never NULL; static.  [any] [signal] */
BUS_API const char *bus_deadlock_name(enum bus_deadlock deadlock);
BUS_API const char *bus_pending_name(enum bus_pending pending);
BUS_API const char *bus_strategy_name(enum bus_strategy strategy);

struct bus_job_options {
    size_t struct_bytes;    /* set by bus_job_options_init */
    uint32_t min;           /* 1: the job fails if fewer parties than this remain */
    uint32_t max;           /* 0: no limit; or min and more: others wait for a place */
    int64_t join_window_ms; /* 30000: how long the job waits for more parties.  0: min are enough at
                               once, and a missing party is not replaced */
    int64_t join_timeout_ms; /* 600000: how long parties wait for the job to begin, from the first
                                party on.  Then it fails with errbus.too_few_joined, which says who
                                came.  1 to a day, or BUS_FOREVER */
    int64_t settle_ms;       /* 2000: how long the broker waits for reports before a verdict is
                               final */
    uint32_t max_restarts;   /* 0: attempts after the first; 1000 at most */
    int64_t deadline_ms;     /* BUS_FOREVER, or 1 to a year: for all attempts together */
    int pending;             /* enum bus_pending */
    int strategy;            /* enum bus_strategy */
    int disclosure;          /* 0: each party chooses; or an enum bus_disclosure: no party discloses
                               more of its errors than this */
    int deadlock;            /* enum bus_deadlock */
    const char *auditor;     /* NULL: none; or a public key ("ebp_..."): see bus/seal.h */
};
/* Fills in the defaults. */
#define bus_job_options_init(o) bus_job_options_init_sized((o), sizeof *(o))
BUS_API void bus_job_options_init_sized(struct bus_job_options *options, size_t bytes);

/* Creates a job, before its first party opens a bus.  options NULL: the defaults.  If a job of this
 * name was created with equal options, the call succeeds.  The broker forgets a job that no party
 * joins after its linger time (errbusd --linger).
 * Errors: BUS_ESETTLED (errbus.job_differs): the job exists with other options, or parties are in
 * it; BUS_EDENIED (errbus.job_over): it has ended.  [any]  Wire: JOB_CREATE */
BUS_API BUS_MUST_USE enum bus_err bus_admin_job_create(struct bus_admin *admin, const char *job,
                                                       const struct bus_job_options *options,
                                                       int64_t timeout_ms,
                                                       struct bus_error **reterr);

/* What was removed with a job. */
struct bus_job_forgotten { /* this layout never grows */
    uint32_t parties;
    uint32_t topics;
    uint64_t slots;       /* settled, with a value or an error */
    uint64_t slots_bytes; /* of them */
    uint32_t names;       /* durable names and groups */
    uint32_t dead;        /* dead letters */
};
/* Removes a job that no party is in, with its values, durable names, groups, dead letters, events
 * and verdict: the next party of that name begins with nothing.  out_forgotten, which may be NULL:
 * what that was.
 * Errors: BUS_EINVAL (errbus.no_job); BUS_EDENIED (errbus.run_under_way): parties are in it, as the
 * message says.  [any]  Wire: JOB_FORGET */
BUS_API BUS_MUST_USE enum bus_err bus_admin_job_forget(struct bus_admin *admin, const char *job,
                                                       int64_t timeout_ms,
                                                       struct bus_job_forgotten *out_forgotten,
                                                       struct bus_error **reterr);

/* Ends a job, whether somebody created it or not.  Each bus of the job is then over, with
 * BUS_EFENCED and an error of kind cancelled and type errbus.job_cancelled.  The same error settles
 * its open slots.  why is a message for people: UTF-8, cut at 400 bytes, or NULL.  Cancelling a
 * cancelled job succeeds.
 * Errors: BUS_EINVAL (errbus.no_job); BUS_EDENIED (errbus.job_over).  [any]  Wire: JOB_CANCEL */
BUS_API BUS_MUST_USE enum bus_err bus_admin_job_cancel(struct bus_admin *admin, const char *job,
                                                       const char *why, int64_t timeout_ms,
                                                       struct bus_error **reterr);

struct bus_job; /* a snapshot of one job */

struct bus_job_info {
    const char *name;
    enum bus_state state;
    uint32_t min; /* this and the next eight: as in struct bus_job_options */
    uint32_t max;
    int64_t join_window_ms;
    int64_t join_timeout_ms;
    int64_t settle_ms;
    uint32_t max_restarts;
    int64_t deadline_ms;
    int pending;
    int strategy;
    uint32_t attempt;              /* counts from 1 */
    uint64_t epoch;                /* 0: there was none yet */
    uint32_t world_size;           /* members of that epoch */
    size_t member_count;           /* members, and parties that wait for a place */
    const struct bus_error *error; /* why the job or its last attempt failed; or NULL */
    int disclosure;                /* as in struct bus_job_options */
    int deadlock;                  /* the same */
    const char *auditor;           /* the same; "": none */
};
struct bus_job_member {
    const char *party;
    uint32_t incarnation;
    enum bus_state state; /* scheduling, running, failing or completed */
    int64_t rank;         /* -1: it waits for a place */
};

/* Takes a snapshot of one job.  The caller frees it.
 * Errors: BUS_EINVAL (errbus.no_job).  [any]  Wire: JOB_SHOW */
BUS_API BUS_MUST_USE enum bus_err bus_admin_job_get(struct bus_admin *admin, const char *job,
                                                    int64_t timeout_ms, struct bus_job **out_job,
                                                    struct bus_error **reterr);
/* The job itself.  [any] */
BUS_API const struct bus_job_info *bus_job_info(const struct bus_job *job);
/* Its members by rank, then the parties that wait, the longest wait first.  NULL: index is not
 * below member_count.  [any] */
BUS_API const struct bus_job_member *bus_job_member_at(const struct bus_job *job, size_t index);
BUS_API void bus_job_free(struct bus_job **job); /* [one] */

/* ---- bus_admin_status: what a broker holds ----------------------------------------------------*/

struct bus_status; /* a snapshot of a broker */

enum bus_status_kind {
    BUS_STATUS_JOB = 0,
    BUS_STATUS_PARTY = 1,
    BUS_STATUS_TOPIC = 2,
    BUS_STATUS_SUB = 3,
    BUS_STATUS_GROUP = 4,
};

struct bus_status_row {
    enum bus_status_kind kind;
    const char *job;
    const char *name;     /* job, party, topic or group; subscription: its durable name, or else its
                             first pattern */
    const char *party;    /* the party, the topic's writer, the subscriber; group: "" */
    enum bus_state state; /* of a topic: BUS_STATE_UNKNOWN */
    uint32_t incarnation;
    uint64_t silent_ms; /* live party: time since the broker last heard it */
    uint64_t ended_ms;  /* party that ended: time since then; 0: not known */
    const char *reason; /* party that ended: type of the error that ended it; else "" */
    uint64_t open;      /* job, party, topic: slots reserved and not settled */
    uint64_t
        pending; /* topic: settled slots kept; subscription: not acknowledged, in 4096 topics */
    uint64_t pending_bytes; /* job, topic: bytes of values kept */
    uint64_t next_seq;      /* topic: the first free slot number; job: the id of the next event */
    uint64_t window_bytes; /* topic: so far its writer may be ahead of its readers; subscription: so
                               much may be on its way to it; job: to all its subscriptions */
    const char *pattern;   /* this and all below: of a group.  Its topics */
    uint32_t members;
    uint64_t credit;        /* tasks that all members together may hold */
    uint64_t leased;        /* tasks that they hold */
    uint64_t waiting;       /* tasks that no member holds; delayed tasks count */
    uint32_t dead;          /* dead letters */
    const char *open_topic; /* this and all below: of a party.  Topic of the oldest slot that it
                               owes; "": it owes none */
    uint64_t open_seq;      /* number of that slot */
    uint64_t open_ms;       /* how long that slot has been open */
    const char *where;      /* live party: what bus_progress_at() said last */
};

/* As job of bus_admin_status_get(): all jobs. */
#define BUS_JOB_ALL ""
/* Takes a snapshot of one job, or of all jobs (BUS_JOB_ALL).  A job that the broker does not know
 * gives no rows.  A long snapshot comes in parts, each of another moment: what comes or goes
 * meanwhile may be in it, all else is in it once.  The caller frees it.  [any]  Wire: STATUS */
BUS_API BUS_MUST_USE enum bus_err bus_admin_status_get(struct bus_admin *admin, const char *job,
                                                       int64_t timeout_ms,
                                                       struct bus_status **out_status,
                                                       struct bus_error **reterr);
/* As kinds below, to be added up: rows of one kind.  0 or BUS_STATUS_ALL: of all kinds. */
#define BUS_STATUS_ONLY(kind) (1u << (kind))
#define BUS_STATUS_ALL 0u
/* The same for rows of some kinds only: BUS_STATUS_ONLY(BUS_STATUS_JOB) is for jobs.  The broker
 * looks at nothing of the other kinds, so a question that leaves the topics out costs it little.
 * [any]  Wire: STATUS */
BUS_API BUS_MUST_USE enum bus_err bus_admin_status_get_some(struct bus_admin *admin,
                                                            const char *job, unsigned kinds,
                                                            int64_t timeout_ms,
                                                            struct bus_status **out_status,
                                                            struct bus_error **reterr);
/* How many rows the snapshot has.  [any] */
BUS_API size_t bus_status_count(const struct bus_status *status);
/* Jobs by name; in each job its parties, topics, subscriptions and groups, by name.  NULL: index is
 * not below the count.  [any] */
BUS_API const struct bus_status_row *bus_status_at(const struct bus_status *status, size_t index);
/* The version of the broker, "0.1.0".  [any] */
BUS_API const char *bus_status_version(const struct bus_status *status);
/* What acknowledged values and errors survive at this broker.  [any] */
BUS_API enum bus_durability bus_status_durability(const struct bus_status *status);
/* How long the broker has run.  [any] */
BUS_API uint64_t bus_status_uptime_ms(const struct bus_status *status);
/* How much processor time the broker has used, all its threads together.  0: not known; a broker
 * from before this function does not tell it.  [any] */
BUS_API uint64_t bus_status_cpu_ms(const struct bus_status *status);
/* Which broker instance this is: a random number, drawn by a broker that starts without a journal
 * or with a new one.  A restart with the journal keeps it.  Jobs and ids of events mean something
 * within one instance only.  [any] */
BUS_API uint64_t bus_status_instance(const struct bus_status *status);
/* How many messages the broker refused since it started.  [any] */
BUS_API uint64_t bus_status_refused(const struct bus_status *status);

enum bus_journal_state {
    BUS_JOURNAL_WELL = 0,
    BUS_JOURNAL_FULL = 1,    /* the broker holds values back until there is room */
    BUS_JOURNAL_REFUSED = 2, /* writes fail: the broker holds everything back */
    BUS_JOURNAL_FAILED = 3,  /* final */
    BUS_JOURNAL_UNKNOWN = 4,
};
/* The word that the command line prints.  Never NULL; static.  [any] [signal] */
BUS_API const char *bus_journal_state_name(enum bus_journal_state state);
/* Positions count bytes from the journal's creation. */
struct bus_status_journal {
    const char *backend;   /* "none": there is no journal, and all below is empty; "folder" */
    const char *directory; /* for people: a path need not be UTF-8 */
    enum bus_journal_state state;
    const char *reason; /* a sentence about a state that is not well; else "" */
    uint64_t bytes;     /* size of its files */
    uint64_t first;     /* position of the oldest record kept */
    uint64_t next;      /* position behind the newest record */
    uint64_t synced;    /* records before this position are on the disk */
    uint64_t spilled;   /* batches and pieces of values whose bytes are in the journal alone */
    uint64_t spilled_bytes;
};
/* The journal of the broker.  Never NULL.  [any] */
BUS_API const struct bus_status_journal *bus_status_journal(const struct bus_status *status);
BUS_API void bus_status_free(struct bus_status **status); /* [one] */

/* ---- bus_shards: several brokers that are one bus -------------------------------------------- */

/* A broker whose journal is in PostgreSQL may be one of several, see errbusd(8).  A call on a
 * handle that names a job asks the broker that has the job, whichever one it was opened with. */

struct bus_shards; /* a snapshot: the shards of one database whose brokers said where they are */

struct bus_shard {
    uint32_t number;
    const char *endpoint; /* of its broker, as bus_admin_open() takes it; nobody may be there */
    int is_here;          /* the broker that answers has it */
};
/* Asks for all shards, by their numbers.  A broker without shards tells of none.  Errors: as of
 * every call on a handle.  [any]  Wire: SHARDS */
BUS_API BUS_MUST_USE enum bus_err bus_shards_get(struct bus_admin *admin, int64_t timeout_ms,
                                                 struct bus_shards **out_shards,
                                                 struct bus_error **reterr);
BUS_API size_t bus_shards_count(const struct bus_shards *shards); /* [any] */
/* One of them, from 0 on; NULL: there is none.  [any] */
BUS_API const struct bus_shard *bus_shards_at(const struct bus_shards *shards, size_t index);
BUS_API void bus_shards_free(struct bus_shards **shards); /* [one] */

#ifdef __cplusplus
}
#endif

#endif
