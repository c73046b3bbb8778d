/* SPDX-License-Identifier: MPL-2.0 */
/* admin.h -- what an operator asks a broker.  The conventions of bus/bus.h hold here too. */
#ifndef BUS_ADMIN_H
#define BUS_ADMIN_H

#include <bus/bus.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bus_admin; /* one handle: a connection to a broker, for any number of calls */

#define BUS_JOB_ALL "" /* as job of bus_admin_status_get(): all jobs */

struct bus_admin_options {
    size_t struct_bytes; /* set by bus_admin_options_init */
    const char *job;     /* of calls that name none.  NULL: $ERRBUS_JOB, else "default" */
};
#define bus_admin_options_init(o) bus_admin_options_init_sized((o), sizeof *(o))
BUS_API void bus_admin_options_init_sized(struct bus_admin_options *options, size_t bytes);

/* Connects to a broker, without joining any job.  Endpoint, timeout and errors as bus_open().  The
 * handle keeps its connection.  It makes a new one when that is lost: a broker that was started
 * again answers the next call.
 *
 * Each call below takes the handle, a job (NULL: the handle's) and timeout_ms.  Errors of all:
 * BUS_EINVAL; BUS_ETIMEDOUT: no answer in time, in reterr what each endpoint said last if no broker
 * is in reach; BUS_ELOST: the broker went away during the call, and stayed away for 30 s; what else
 * bus_open() says.  After BUS_ETIMEDOUT and BUS_ELOST the broker may have carried out what it was
 * told, or not.  Calls of several threads take turns: a call that waits for a final verdict keeps
 * the others waiting, each for its timeout at most.  [any] */
BUS_API enum bus_err bus_admin_open(const char *endpoint, const struct bus_admin_options *options,
                                    int64_t timeout_ms, struct bus_admin **out_admin,
                                    struct bus_error **reterr);
/* No call of another thread may be under way.  What the calls gave stays.  [one] */
BUS_API void bus_admin_close(struct bus_admin **admin);

/* ---- jobs -------------------------------------------------------------------------------------*/

enum bus_pending {
    BUS_PENDING_DELIVER = 0, /* what a failed party had committed is delivered all the same */
    BUS_PENDING_REPLACE = 1, /* as far as nobody was sent it, its error takes the place */
};
enum bus_strategy { /* of the verdict: which error is the root */
                    BUS_STRATEGY_CAUSAL = 0,
                    BUS_STRATEGY_EARLIEST = 1,
                    BUS_STRATEGY_FIRST = 2,
};
struct bus_job_options {
    size_t struct_bytes;
    uint32_t min;           /* 1: parties without which it cannot go on */
    uint32_t max;           /* 0: as many as come; or min and more */
    int64_t join_window_ms; /* 30000; 0: min will do at once, and nobody is replaced below min */
    int64_t settle_ms;      /* 2000: so long reports are awaited before a verdict is final */
    uint32_t max_restarts;  /* 0: attempts after the first, up to 1000 */
    int64_t deadline_ms;    /* BUS_FOREVER, or 1 to a year: from now on, for all attempts */
    int pending;            /* enum bus_pending */
    int strategy;           /* enum bus_strategy */
    int disclosure;         /* 0: each party as it likes; or an enum bus_disclosure: no party lets
                               others see more of its errors */
};
#define bus_job_options_init(o) bus_job_options_init_sized((o), sizeof *(o))
BUS_API void bus_job_options_init_sized(struct bus_job_options *options, size_t bytes);

/* Creates a job, before its first party opens a bus.  One of this name that was created with the
 * same options is fine, whoever made it; where nobody is, it is forgotten after the broker's linger
 * time.
 * Errors: as bus_open(); BUS_ESETTLED (errbus.job_differs): there is another one of this name, or
 * parties are in it; BUS_EDENIED (errbus.job_over).  [any] */
BUS_API enum bus_err bus_admin_job_create(struct bus_admin *admin, const char *job,
                                          const struct bus_job_options *options, int64_t timeout_ms,
                                          struct bus_error **reterr);

/* Ends a job, created or not: each of its buses is over (BUS_EFENCED) with an error of kind
 * cancelled and type errbus.job_cancelled, which also takes the place of what was open.  why is for
 * people, up to 400 bytes, or NULL.  One that is cancelled already is fine.
 * Errors: as bus_open(); BUS_EINVAL (errbus.no_job); BUS_EDENIED (errbus.job_over).  [any] */
BUS_API enum bus_err bus_admin_job_cancel(struct bus_admin *admin, const char *job, const char *why,
                                          int64_t timeout_ms, struct bus_error **reterr);

struct bus_job; /* a picture of one job at one moment; immutable */

/* Read by pointer only, fields may be appended.  Strings are never NULL. */
struct bus_job_info {
    const char *name;
    const char *state; /* free: nobody created it; gathering running short failing pausing, and the
                          final completed failed cancelled */
    uint32_t min;      /* this and the next seven as in the options */
    uint32_t max;
    int64_t join_window_ms;
    int64_t settle_ms;
    uint32_t max_restarts;
    int64_t deadline_ms;
    int pending;
    int strategy;
    uint32_t attempt;              /* which try, from 1 */
    uint64_t epoch;                /* 0: there was none yet */
    uint32_t world_size;           /* of that epoch */
    size_t member_count;           /* those who wait included */
    const struct bus_error *error; /* what it, or its last attempt, failed of; or NULL */
    int disclosure;                /* as in the options */
};
struct bus_job_member {
    const char *party;
    uint32_t incarnation;
    const char *state; /* scheduling running failing completed */
    int64_t rank;      /* -1: it waits for a place */
};
/* Errors: as bus_open(); BUS_EINVAL (errbus.no_job).  [any] */
BUS_API enum bus_err bus_admin_job_get(struct bus_admin *admin, const char *job, int64_t timeout_ms,
                                       struct bus_job **out_job, struct bus_error **reterr);
BUS_API const struct bus_job_info *bus_job_info(const struct bus_job *job);
/* Members by rank, then those who wait, the longest first.  index < member_count, else NULL. */
BUS_API const struct bus_job_member *bus_job_member_at(const struct bus_job *job, size_t index);
BUS_API void bus_job_free(struct bus_job **job);

/* ---- status -----------------------------------------------------------------------------------*/

struct bus_status; /* a picture of the broker at one moment; immutable */

enum bus_status_kind {
    BUS_STATUS_JOB = 0,
    BUS_STATUS_PARTY = 1,
    BUS_STATUS_TOPIC = 2,
    BUS_STATUS_SUB = 3,
    BUS_STATUS_GROUP = 4, /* more may come */
};

/* One row; read it by pointer only, fields may be appended.  Strings are never NULL. */
struct bus_status_row {
    enum bus_status_kind kind;
    const char *job;
    const char *name;  /* job, party, topic, group; subscription: durable name or first pattern */
    const char *party; /* the party, the topic's writer, the subscriber; group: "" */
    const char *state; /* party: running failing completed failed lost left terminated, and
                              suspect or grace for one in doubt; subscription: live, kept; group:
                              live, or kept without a member */
    uint32_t incarnation;
    uint64_t silent_ms;     /* party: since its last sign of life */
    uint64_t open;          /* job, party, topic: slots reserved and not settled */
    uint64_t pending;       /* topic: settled slots kept; subscription: not acknowledged (lag) */
    uint64_t pending_bytes; /* job, topic: bytes kept */
    uint64_t next_seq;      /* topic: the first number that is free; job: the next event's id */
    const char *pattern;    /* group, as all below: its topics */
    uint32_t members;
    uint64_t credit;  /* tasks that they may have at a time, all together */
    uint64_t leased;  /* tasks that they have */
    uint64_t waiting; /* tasks that nobody has, those that are put off among them */
    uint32_t dead;    /* dead letters */
};

/* Asks for one job, or for all (NULL), without joining any.
 * Errors: as bus_open(); BUS_ETIMEDOUT.  [any] */
BUS_API enum bus_err bus_admin_status_get(struct bus_admin *admin, const char *job,
                                          int64_t timeout_ms, struct bus_status **out_status,
                                          struct bus_error **reterr);
BUS_API size_t bus_status_count(const struct bus_status *status);
/* Jobs by name, in each its parties, topics, subscriptions, groups.  index < count, else NULL. */
BUS_API const struct bus_status_row *bus_status_at(const struct bus_status *status, size_t index);
BUS_API const char *bus_status_version(const struct bus_status *status); /* of the broker */
/* What survives of what is acknowledged: "memory", nothing; "process", the end of the broker's
 * process; "disk", that of its machine too; more may come. */
BUS_API const char *bus_status_durability(const struct bus_status *status);
/* Its journal; read it by pointer only, fields may be appended.  Strings are never NULL.  Positions
 * count bytes from when the journal was made. */
struct bus_status_journal {
    const char *making;    /* "none", and all below is empty; "folder"; more may come */
    const char *directory; /* for people: not all that a path may be is text */
    const char *state;  /* well; full: values are held back; refused: everything is; failed; "?" */
    const char *reason; /* a sentence about a state that is not well */
    uint64_t bytes;     /* of its files */
    uint64_t first;     /* position of the oldest record kept */
    uint64_t next;      /* where it ends */
    uint64_t synced;    /* what lies before is on the disk */
    uint64_t spilled;   /* batches and pieces of values that are in the journal alone */
    uint64_t spilled_bytes;
};
BUS_API const struct bus_status_journal *bus_status_journal(const struct bus_status *status);
BUS_API uint64_t bus_status_uptime_ms(const struct bus_status *status);
BUS_API uint64_t bus_status_refused(const struct bus_status *status); /* messages, ever */
BUS_API void bus_status_free(struct bus_status **status);

/* ---- dead letters ------------------------------------------------------------------------------
 *
 * A task of a group that was given to members as often as it may be, or that one of them rejected
 * for ever, is a dead letter: its value, and why, with the errors of all deliveries as causes.  It
 * is kept until it is dropped, or given again and done.  16384 of a group are kept; then the oldest
 * goes.  They can be read as topics, too: "_groups/GROUP/dead" has the values, "_groups/GROUP/why"
 * at the same number the errors. */

struct bus_dead; /* letters of a group at one moment; immutable */
/* Read it by pointer only, fields may be appended.  Strings are never NULL. */
struct bus_letter {
    uint64_t number;      /* in its group, from 0 */
    const char *topic;    /* where the task was ... */
    uint64_t seq;         /* ... and its slot */
    unsigned deliveries;  /* how often it was given to a member */
    int64_t at_ns;        /* wall clock of the broker when it died */
    uint64_t value_bytes; /* of the task */
    int is_replayed;      /* 1: the group has it again, and it is not done yet */
    const char *type;     /* of the error of its last delivery; "" if it had none */
    const char *message;
    uint32_t attempt; /* of the job, in which it died */
};
#define BUS_DEAD_ALL UINT64_MAX /* as number: all of them */

/* All of them, by number.  job NULL: $ERRBUS_JOB, else "default".
 * Errors: as bus_open(); BUS_EINVAL (errbus.no_group); BUS_ETIMEDOUT.  [any] */
BUS_API enum bus_err bus_admin_dead_list(struct bus_admin *admin, const char *job,
                                         const char *group, int64_t timeout_ms,
                                         struct bus_dead **out_dead, struct bus_error **reterr);
/* One, with its value and error.  Errors: as bus_dead_list().  [any] */
BUS_API enum bus_err bus_admin_dead_show(struct bus_admin *admin, const char *job,
                                         const char *group, uint64_t number, int64_t timeout_ms,
                                         struct bus_dead **out_dead, struct bus_error **reterr);
/* Gives the group a letter again (as a task that wants no reply, with deliveries from 1), or drops
 * it; or all that nobody works on.  out_count (may be NULL): how many there were.
 * Errors: as bus_dead_list(), if there is no such letter or it is given again already.  [any] */
BUS_API enum bus_err bus_admin_dead_replay(struct bus_admin *admin, const char *job,
                                           const char *group, uint64_t number, int64_t timeout_ms,
                                           uint64_t *out_count, struct bus_error **reterr);
BUS_API enum bus_err bus_admin_dead_drop(struct bus_admin *admin, const char *job,
                                         const char *group, uint64_t number, int64_t timeout_ms,
                                         uint64_t *out_count, struct bus_error **reterr);
BUS_API size_t bus_dead_count(const struct bus_dead *dead);
BUS_API const struct bus_letter *bus_dead_at(const struct bus_dead *dead, size_t index); /* NULL */
/* After bus_dead_show(): why it died, or NULL if that is not known; and its value, never NULL. */
BUS_API const struct bus_error *bus_dead_error(const struct bus_dead *dead);
BUS_API const void *bus_dead_value(const struct bus_dead *dead, size_t *out_bytes);
BUS_API void bus_dead_free(struct bus_dead **dead);

/* ---- why a job failed --------------------------------------------------------------------------
 *
 * A verdict names one root among all the errors that a job's parties ended with, whatever the order
 * they came in; the others lead to it, by cause or by blame, or stand apart. */

struct bus_report; /* a verdict, with all that was weighed; immutable */

enum bus_report_role {
    BUS_REPORT_ROOT = 0,
    BUS_REPORT_VICTIM = 1, /* leads to the root */
    BUS_REPORT_APART = 2,  /* does not */
};

/* Read both by pointer only, fields may be appended.  Strings are never NULL. */
struct bus_report_summary {
    const char *state;       /* "none": the job goes on, ended well, or is not known;
                                "provisional": errors are still awaited; "final" */
    const char *why;         /* a sentence: why the root, and no other */
    const char *reason;      /* the same as a word: alone stamp stamp_close stamped surer named
                                arrived; no_root: there is none */
    const char *strategy;    /* causal, earliest, first */
    uint32_t attempt;        /* of the job */
    uint32_t candidates;     /* errors that the root was chosen from */
    uint32_t close;          /* others of them, so close that clocks cannot tell */
    uint32_t victims;        /* errors that lead to the root */
    uint32_t apart;          /* errors that do not */
    uint32_t aside;          /* errors that the job survived, or that nobody failed of */
    uint32_t unknown_causes; /* that nobody knows, though they are named */
    int is_complete;         /* 0: there are such, or errors were left out for want of room */
    uint32_t rows_left_out;  /* errors that are not among the rows, beyond 4096 */
};
struct bus_report_row {
    enum bus_report_role role;
    uint32_t number;  /* of the row; rows come in the order in which the errors occurred */
    uint32_t next;    /* victim: the row behind it on its way to the root; else its own number */
    int is_blame;     /* victim: 1: it blames the party of that row, 0: it names it as its cause */
    uint32_t steps;   /* victim: how far the root is; a blame counts as two */
    int64_t stamp_ns; /* when, by the broker's monotonic clock; 0: no stamp to go by */
    uint64_t uncertainty_ns; /* of that */
    const char *id;
    const char *party;
    uint32_t incarnation;
    const char *kind;
    const char *type; /* this and the message: "" where only others speak of the error */
    const char *message;
};

/* Asks about one job (NULL: $ERRBUS_JOB, else "default"), without joining it; is_waiting: 1: for
 * the final verdict, when it is said.
 * Errors: as bus_open(); BUS_ETIMEDOUT.  [any] */
BUS_API enum bus_err bus_admin_report_get(struct bus_admin *admin, const char *job, int is_waiting,
                                          int64_t timeout_ms, struct bus_report **out_report,
                                          struct bus_error **reterr);
BUS_API const struct bus_report_summary *bus_report_summary(const struct bus_report *report);
BUS_API const struct bus_error *bus_report_root(const struct bus_report *report); /* or NULL */
BUS_API size_t bus_report_count(const struct bus_report *report);
/* index < count, else NULL. */
BUS_API const struct bus_report_row *bus_report_at(const struct bus_report *report, size_t index);
/* The row of this number, or NULL. */
BUS_API const struct bus_report_row *bus_report_find(const struct bus_report *report,
                                                     uint32_t number);
BUS_API void bus_report_free(struct bus_report **report);

/* ---- attachments ------------------------------------------------------------------------------*/

/* Takes the next bytes of an attachment; not 0: no more is wanted.  It cannot call the handle that
 * calls it. */
typedef int bus_attachment_fn(const void *bytes, size_t count, void *arg);
/* Fetches an attachment of the error of that id, from its beginning to its end, piece by piece.
 * Errors: BUS_EINVAL (errbus.not_kept): there is none, or none any more; BUS_EOVERRUN: it was taken
 * to where it ends in its middle, by now or for ever, reterr says which and how much there is;
 * BUS_ECLOSED: take wanted no more.  [any]  Wire: FETCH */
BUS_API enum bus_err bus_admin_attachment_fetch(struct bus_admin *admin, const char *job,
                                                const char *error_id, const char *name,
                                                int64_t timeout_ms, bus_attachment_fn *take,
                                                void *arg, struct bus_error **reterr);

struct bus_attachments; /* those of one error at one moment; immutable */
/* What the broker has of one.  Read it by pointer only, fields may be appended. */
struct bus_attachment {
    const char *name;
    int64_t bytes;     /* that it was said to have; -1: not known */
    int64_t arrived;   /* that came of it */
    const char *state; /* "whole"; "coming": it is being brought; "away": whoever brings it is not
                          there for the moment; "cut": they are gone, the rest is lost; "full": the
                          job keeps no more, the rest is lost; "dropped": nothing of it is kept any
                          more, newer ones needed the room */
};
/* Those of the error of that id, in the order in which the broker heard of them; none of an error
 * that has none, or of which nothing is known any more.
 * Errors: BUS_EINVAL (errbus.no_job): there is no such job.  [any]  Wire: ATTACHMENTS */
BUS_API enum bus_err bus_admin_attachment_list(struct bus_admin *admin, const char *job,
                                               const char *error_id, int64_t timeout_ms,
                                               struct bus_attachments **out_list,
                                               struct bus_error **reterr);
BUS_API size_t bus_attachments_count(const struct bus_attachments *list);
/* index < count, else NULL. */
BUS_API const struct bus_attachment *bus_attachments_at(const struct bus_attachments *list,
                                                        size_t index);
BUS_API void bus_attachments_free(struct bus_attachments **list);

#ifdef __cplusplus
}
#endif

#endif
