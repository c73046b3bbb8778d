/* SPDX-License-Identifier: MPL-2.0 */
/* admin.h -- what an operator asks a broker.  The conventions of bus/bus.h hold here too. */
#ifndef BUS_ADMIN_H
#define BUS_ADMIN_H

#include <bus/bus.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bus_status; /* a picture of the broker at one moment; immutable */

enum bus_status_kind {
    BUS_STATUS_JOB = 0,
    BUS_STATUS_PARTY = 1,
    BUS_STATUS_TOPIC = 2,
    BUS_STATUS_SUB = 3,
};

/* One row; read it by pointer only, fields may be appended.  Strings are never NULL. */
struct bus_status_row {
    enum bus_status_kind kind;
    const char *job;
    const char *name;  /* job, party, topic; subscription: durable name or first pattern */
    const char *party; /* the party, the topic's writer, the subscriber */
    const char *state; /* party: running failing completed failed lost left terminated, and
                              suspect or grace for one in doubt; subscription: live, kept */
    uint32_t incarnation;
    uint64_t silent_ms;     /* party: since its last sign of life */
    uint64_t open;          /* job, party, topic: slots reserved and not settled */
    uint64_t pending;       /* topic: settled slots kept; subscription: not acknowledged (lag) */
    uint64_t pending_bytes; /* job, topic: bytes kept */
    uint64_t next_seq;      /* topic: the first number that is free; job: the next event's id */
};

/* Asks for one job, or for all (NULL), without joining any.
 * Errors: as bus_open(); BUS_ETIMEDOUT.  [any] */
BUS_API enum bus_err bus_status_get(const char *endpoint, const char *job, int64_t timeout_ms,
                                    struct bus_status **out_status, struct bus_error **reterr);
BUS_API size_t bus_status_count(const struct bus_status *status);
/* Jobs by name, in each its parties, topics, subscriptions.  index < count, else NULL. */
BUS_API const struct bus_status_row *bus_status_at(const struct bus_status *status, size_t index);
BUS_API const char *bus_status_version(const struct bus_status *status); /* of the broker */
/* What survives of what is acknowledged: "memory", nothing; "process", the end of the broker's
 * process; "disk", that of its machine too; more may come. */
BUS_API const char *bus_status_durability(const struct bus_status *status);
/* Its journal; read it by pointer only, fields may be appended.  Strings are never NULL.  Positions
 * count bytes from when the journal was made. */
struct bus_status_journal {
    const char *making;    /* "none", and all below is empty; "embedded"; more may come */
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

#ifdef __cplusplus
}
#endif

#endif
