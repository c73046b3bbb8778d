/* SPDX-License-Identifier: MPL-2.0 */
/* tap.h -- watch a job: who joins, fails or is lost, and why.
 *
 * A tap is an observer: it is no party, holds nobody back, and sees no values.  Each event has an
 * id that counts from 1 in each job.  The broker keeps the newest events, so a tap may begin in the
 * past.  A tap that reads too slowly learns which ids it missed, and can ask for them again.  The
 * conventions of bus/bus.h hold here too. */
#ifndef BUS_TAP_H
#define BUS_TAP_H

#include <bus/bus.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- bus_tap: follow the events of a job ------------------------------------------------------*/

struct bus_tap;   /* one observer of one job */
struct bus_event; /* one event, borrowed until the next bus_tap_next() */

/* As from_id: only events to come. */
#define BUS_TAP_NOW UINT64_MAX

struct bus_tap_options {
    size_t struct_bytes;    /* set by bus_tap_options_init */
    const char *job;        /* NULL: $ERRBUS_JOB, else "default" */
    uint64_t from_id;       /* BUS_TAP_NOW, or the first event wanted; 0 or 1: the oldest kept */
    int64_t heartbeat_ms;   /* 1000: the tap reconnects after two heartbeats without an answer */
    int64_t broker_lost_ms; /* 30000: how long the broker may be out of reach */
    uint64_t until_id;      /* 0: no end; or the last event wanted: BUS_EENDED follows it */
    const char *key;        /* path of the key file, as in bus_options */
    bus_doubt_fn *on_doubt; /* as in bus_options */
    void *on_doubt_arg;
};
/* Fills in the defaults. */
#define bus_tap_options_init(o) bus_tap_options_init_sized((o), sizeof *(o))
BUS_API void bus_tap_options_init_sized(struct bus_tap_options *options, size_t bytes);

/* Opens a tap; endpoint, timeout_ms and errors are as in bus_open().  The tap is in force when the
 * call returns.  It makes no job: if there is none of the name, it waits for the job, and gets its
 * events from the first one on.  After a reconnect it continues behind the last event that it gave.
 * [any]  Wire: TAP */
BUS_API BUS_MUST_USE enum bus_err bus_tap_open(const char *endpoint,
                                               const struct bus_tap_options *options,
                                               int64_t timeout_ms, struct bus_tap **out_tap,
                                               struct bus_error **reterr);

/* Takes the next event, oldest first.  A tap that begins in the past gets all events that the
 * broker keeps.  A tap that has reached the newest event and then falls 4096 events or 4 MiB behind
 * skips to the next new event.  BUS_EOVERRUN says so, and the next call continues there.
 * Errors: BUS_ETIMEDOUT; BUS_EOVERRUN: see bus_tap_gap(); BUS_EENDED: the tap gave until_id;
 * BUS_ELOST; BUS_ECLOSED.  [one] */
BUS_API BUS_MUST_USE enum bus_err bus_tap_next(struct bus_tap *tap, int64_t timeout_ms,
                                               const struct bus_event **out_event,
                                               struct bus_error **reterr);

/* After BUS_EOVERRUN: the first and the last id that the tap missed.  A new tap from the one id
 * until the other can read them while the broker keeps them.  The broker keeps the newest 16384
 * events of a job, 16 MiB at most.  So at least 12288 events, or 12 MiB, follow before the first
 * missed event goes.  [one] */
BUS_API void bus_tap_gap(const struct bus_tap *tap, uint64_t *out_first_id, uint64_t *out_last_id);

/* The id of the job's next event when the tap was opened.  Events below it are history: a tap that
 * has read up to it has read all of the history.  The number falls if a broker that crashed forgot
 * events.  0: the broker does not say.  [any] */
BUS_API uint64_t bus_tap_next_id(const struct bus_tap *tap);

/* The broker instance that the tap is connected to, or was last, as bus_status_instance() has it.
 * When it changes, the tap goes on with the first event of the other instance: ids count from 1
 * again.  A tap that is opened to continue behind an id should compare the instances.  [any] */
BUS_API uint64_t bus_tap_instance(const struct bus_tap *tap);

/* A descriptor that is readable while bus_tap_next() would not wait.  Poll it; do not read or close
 * it.  It lives as long as the tap.  -1: there is no descriptor left.  [any] */
BUS_API int bus_tap_fd(const struct bus_tap *tap);

/* Ends bus_tap_next(), present and future, with BUS_ECLOSED.  [any] [signal] */
BUS_API void bus_tap_stop(struct bus_tap *tap);
/* Frees the tap and its event.  [one] */
BUS_API void bus_tap_close(struct bus_tap **tap);

/* ---- bus_event: read one event ----------------------------------------------------------------*/

/* The calls below read an event.  Texts and errors are borrowed until the next bus_tap_next(). */

/* Its id, when it happened, by the broker's wall clock, and its job.  [any] */
BUS_API uint64_t bus_event_id(const struct bus_event *event);
BUS_API int64_t bus_event_at_ns(const struct bus_event *event);
BUS_API const char *bus_event_job(const struct bus_event *event);
/* What happened; later versions add names:
 * "party.joined" "party.suspect" "party.resumed" "party.lost" "party.left" "party.failed"
 * "party.completed" "party.terminated" "slot.failed" "consumer.slow" "refused"
 * "verdict.provisional" "verdict.final" "job.created" "job.epoch" "job.short" "job.failing"
 * "job.attempt" "job.completed" "job.failed" "job.cancelled"
 * "journal.full" "journal.refused" "journal.well" "leases.lost" "task.dead"
 * "tasks.dropped" "job.run" "party.never_joined" "tasks.gone" "job.deadlock"
 * "access.reloaded" "access.refused" "access.expiring" "broker.forgot".  [any] */
BUS_API const char *bus_event_name(const struct bus_event *event);
/* The party and its incarnation; "" and 0: the event is about none.  [any] */
BUS_API const char *bus_event_party(const struct bus_event *event);
BUS_API uint32_t bus_event_incarnation(const struct bus_event *event);
/* The topic, "" if there is none, and the number of the slot in it.  [any] */
BUS_API const char *bus_event_topic(const struct bus_event *event);
BUS_API uint64_t bus_event_seq(const struct bus_event *event);
/* How many slots, or errors that are alike, the event stands for.  [any] */
BUS_API uint64_t bus_event_count(const struct bus_event *event);
/* A remark for people, or "".  [any] */
BUS_API const char *bus_event_text(const struct bus_event *event);
/* 1: the event is in the journal, and survives what the broker's durability says.  0: it was not in
 * the journal when it was told.  Events wait for nothing, so the newest are 0.  [any] */
BUS_API int bus_event_is_durable(const struct bus_event *event);
/* 1: its error came after the final verdict of the job, and does not change it.  [any] */
BUS_API int bus_event_is_late(const struct bus_event *event);
/* The ids of the first and the last error that the event stands for; "" if it stands for one.
 * Errors of one party, type and topic are told one by one up to 64.  Further ones within a second
 * are one event: it has their count, these ids, and the last error.  [any] */
BUS_API const char *bus_event_first_error(const struct bus_event *event);
BUS_API const char *bus_event_last_error(const struct bus_event *event);
/* The error that the event tells of, or NULL.  [any] */
BUS_API const struct bus_error *bus_event_error(const struct bus_event *event);

#ifdef __cplusplus
}
#endif

#endif
