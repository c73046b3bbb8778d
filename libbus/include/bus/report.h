/* SPDX-License-Identifier: MPL-2.0 */
/* report.h -- ask a broker why a job failed, and for the attachments of its errors.
 *
 * The questions go over a handle of bus/admin.h, and its conventions hold here too. */
#ifndef BUS_REPORT_H
#define BUS_REPORT_H

#include <bus/admin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- bus_admin_report: why a job failed -------------------------------------------------------*/

/* A verdict names one root among all the errors that the parties of a job ended with.  The order in
 * which the errors arrived does not matter.  Other errors lead to the root, by cause or by blame,
 * or stand apart from it. */
struct bus_report; /* a snapshot of a verdict, with all errors that were weighed */

enum bus_report_state {
    BUS_REPORT_NONE = 0,        /* there is no verdict: bus_report_summary.outlook says why */
    BUS_REPORT_PROVISIONAL = 1, /* the broker still waits for errors */
    BUS_REPORT_FINAL = 2,
};
/* How the job fares. */
enum bus_outlook {
    BUS_OUTLOOK_UNKNOWN = 0, /* the broker has no job of this name */
    BUS_OUTLOOK_GOES_ON = 1, /* it has not ended, and has not failed so far */
    BUS_OUTLOOK_ENDED_WELL = 2,
    BUS_OUTLOOK_FAILED = 3, /* there is a verdict */
};
/* Why the broker chose this root. */
enum bus_report_reason {
    BUS_REASON_NO_ROOT = 0,     /* there is no root */
    BUS_REASON_ALONE = 1,       /* no other error could be the root */
    BUS_REASON_STAMP = 2,       /* it occurred first */
    BUS_REASON_STAMP_CLOSE = 3, /* it occurred first, by less than clocks can tell */
    BUS_REASON_STAMPED = 4,     /* the others have no time that can be compared */
    BUS_REASON_SURER = 5,       /* at equal times, its time is more certain */
    BUS_REASON_NAMED = 6,       /* nothing but names and ids tells the candidates apart */
    BUS_REASON_ARRIVED = 7,     /* it reached the broker first */
    BUS_REASON_UNKNOWN = 8,
};
enum bus_report_role {
    BUS_REPORT_ROOT = 0,
    BUS_REPORT_VICTIM = 1, /* leads to the root */
    BUS_REPORT_APART = 2,  /* does not */
};
/* The words that the command line prints.  Never NULL; static.  [any] [signal] */
BUS_API const char *bus_report_state_name(enum bus_report_state state);
BUS_API const char *bus_outlook_name(enum bus_outlook outlook);
BUS_API const char *bus_report_reason_name(enum bus_report_reason reason);
BUS_API const char *bus_report_role_name(enum bus_report_role role);

struct bus_report_summary {
    enum bus_report_state state;
    enum bus_outlook outlook;
    enum bus_report_reason reason;
    enum bus_strategy strategy;
    const char *why;         /* the reason as a sentence about this job's errors */
    uint32_t attempt;        /* of the job */
    uint32_t candidates;     /* errors that could be the root */
    uint32_t close;          /* other candidates, so close in time that clocks cannot tell */
    uint32_t victims;        /* errors that lead to the root */
    uint32_t apart;          /* errors that do not */
    uint32_t aside;          /* errors that the job survived, or that nobody failed of */
    uint32_t unknown_causes; /* causes that errors name and the broker does not know */
    int is_complete;         /* 0: there are unknown causes, or errors without room */
    uint32_t rows_left_out;  /* errors beyond the 4096 rows of a report */
};
struct bus_report_row {
    enum bus_report_role role;
    uint32_t number;  /* of the row; rows are in the order in which the errors occurred */
    uint32_t next;    /* victim: the next row on its way to the root; else its own number */
    int is_blame;     /* victim: 1: it blames the party of that row; 0: that row is its cause */
    uint32_t steps;   /* victim: steps to the root; a blame counts as two */
    int64_t stamp_ns; /* when it occurred, by the broker's monotonic clock; 0: not known */
    uint64_t uncertainty_ns; /* how far stamp_ns may be off */
    const char *id;
    const char *party;
    uint32_t incarnation;
    const char *kind; /* as bus_error_kind() */
    const char *type; /* type and message are "" if only other errors speak of this one */
    const char *message;
};

/* Fetches the verdict on a job.  is_waiting 1: waits for the final verdict, however long the job
 * goes on or has ended well; a job that the broker does not have is answered at once.  The caller
 * frees the snapshot.  [any]  Wire: VERDICT_ASK */
BUS_API BUS_MUST_USE enum bus_err bus_admin_report_get(struct bus_admin *admin, const char *job,
                                                       int is_waiting, int64_t timeout_ms,
                                                       struct bus_report **out_report,
                                                       struct bus_error **reterr);
/* The verdict in short.  [any] */
BUS_API const struct bus_report_summary *bus_report_summary(const struct bus_report *report);
/* The root, or NULL.  [any] */
BUS_API const struct bus_error *bus_report_root(const struct bus_report *report);
/* How many rows the report has.  [any] */
BUS_API size_t bus_report_count(const struct bus_report *report);
/* NULL: index is not below the count.  [any] */
BUS_API const struct bus_report_row *bus_report_at(const struct bus_report *report, size_t index);
/* The row of this number, or NULL.  [any] */
BUS_API const struct bus_report_row *bus_report_find(const struct bus_report *report,
                                                     uint32_t number);
BUS_API void bus_report_free(struct bus_report **report); /* [one] */

/* ---- bus_admin_attachment: attachments of an error --------------------------------------------*/

/* Takes the next bytes of an attachment; they are borrowed for the call.  Not 0: no more is wanted.
 * It must not call the handle that calls it. */
typedef int bus_attachment_fn(const void *bytes, size_t count, void *arg);
/* Fetches one attachment of an error, from its first byte to its last, piece by piece.  error_id is
 * what bus_error_id() says.  The handle opens a second connection for the first fetch and keeps it.
 * Errors: BUS_EINVAL (errbus.not_kept): the broker has no such attachment, or dropped it;
 * BUS_EOVERRUN: take has all bytes that arrived so far, and some are missing behind them: reterr
 * says how many and why; BUS_ECLOSED: take wanted no more.  [any]  Wire: FETCH */
BUS_API BUS_MUST_USE enum bus_err bus_admin_attachment_fetch(struct bus_admin *admin,
                                                             const char *job, const char *error_id,
                                                             const char *name, int64_t timeout_ms,
                                                             bus_attachment_fn *take, void *arg,
                                                             struct bus_error **reterr);

enum bus_attachment_state {
    BUS_ATTACHMENT_UNKNOWN = 0,
    BUS_ATTACHMENT_COMING = 1,  /* its party is sending it */
    BUS_ATTACHMENT_AWAY = 2,    /* its party is not connected, and may come back */
    BUS_ATTACHMENT_WHOLE = 3,   /* all of it arrived */
    BUS_ATTACHMENT_CUT = 4,     /* its party is gone: the rest is lost */
    BUS_ATTACHMENT_FULL = 5,    /* the job's room is used up: the rest is lost */
    BUS_ATTACHMENT_DROPPED = 6, /* newer attachments needed the room: all of it is lost */
};
/* The word that the command line prints.  Never NULL; static.  [any] [signal] */
BUS_API const char *bus_attachment_state_name(enum bus_attachment_state state);

struct bus_attachments; /* a snapshot of what the broker has of one error's attachments */

struct bus_attachment {
    const char *name;
    int64_t bytes;   /* size when the error was told; -1: not known */
    int64_t arrived; /* bytes of it that the broker received */
    enum bus_attachment_state state;
};
/* Lists the attachments of an error, in the order in which the broker heard of them.  The list is
 * empty if the error has none, or if the broker forgot the error.  The caller frees it.
 * Errors: BUS_EINVAL (errbus.no_job).  [any]  Wire: ATTACHMENTS */
BUS_API BUS_MUST_USE enum bus_err bus_admin_attachment_list(struct bus_admin *admin,
                                                            const char *job, const char *error_id,
                                                            int64_t timeout_ms,
                                                            struct bus_attachments **out_list,
                                                            struct bus_error **reterr);
/* How many attachments the list has.  [any] */
BUS_API size_t bus_attachments_count(const struct bus_attachments *list);
/* NULL: index is not below the count.  [any] */
BUS_API const struct bus_attachment *bus_attachments_at(const struct bus_attachments *list,
                                                        size_t index);
BUS_API void bus_attachments_free(struct bus_attachments **list); /* [one] */

#ifdef __cplusplus
}
#endif

#endif
