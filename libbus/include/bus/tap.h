/* SPDX-License-Identifier: MPL-2.0 */
/* tap.h -- watching a job's control topic: who joined, failed, was lost, and why.
 *
 * A tap is an observer: it is no party, holds nobody back, and sees no values.  Events have ids
 * that count from 1 in each job; the broker keeps the newest of them, so a tap may begin in the
 * past, and one that follows too slowly is told which ids it missed, and may ask for them again.
 * The conventions of bus/bus.h hold here too. */
#ifndef BUS_TAP_H
#define BUS_TAP_H

#include <bus/bus.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bus_tap;   /* one observer of one job */
struct bus_event; /* one event, borrowed until the next bus_tap_next() */

#define BUS_TAP_NOW UINT64_MAX /* as from_id: only what comes */

struct bus_tap_options {
    size_t struct_bytes;    /* set by bus_tap_options_init */
    const char *job;        /* NULL: $ERRBUS_JOB, else "default" */
    uint64_t from_id;       /* BUS_TAP_NOW, or the first event wanted; 0 or 1: the oldest kept */
    int64_t heartbeat_ms;   /* 1000: after two without an answer the connection is made anew */
    int64_t broker_lost_ms; /* 30000: the broker's absence after which bus_tap_next() gives up */
    uint64_t until_id;      /* 0: none; else the last event wanted: behind it is BUS_EENDED */
};
#define bus_tap_options_init(o) bus_tap_options_init_sized((o), sizeof *(o))
BUS_API void bus_tap_options_init_sized(struct bus_tap_options *options, size_t bytes);

/* Endpoint, timeout and errors as bus_open().  When it returns the tap is in force.  After a
 * reconnect it goes on behind the last event that it gave.  [any] */
BUS_API BUS_MUST_USE enum bus_err bus_tap_open(const char *endpoint,
                                               const struct bus_tap_options *options,
                                               int64_t timeout_ms, struct bus_tap **out_tap,
                                               struct bus_error **reterr);

/* The next event, oldest first.  BUS_EOVERRUN: events are missing here, see bus_tap_gap(); the
 * next call goes on behind them.  A tap that begins in the past gets all that the broker keeps.
 * One that has come to the newest event, and falls 4096 events or 4 MiB of them behind, goes on
 * with what happens next: so it tells what is going on now, and what it left out can be read beside
 * it.
 * Errors: BUS_ETIMEDOUT, BUS_EOVERRUN, BUS_EENDED: until_id was given; BUS_ELOST, BUS_ECLOSED.
 * [one] */
BUS_API BUS_MUST_USE enum bus_err bus_tap_next(struct bus_tap *tap, int64_t timeout_ms,
                                               const struct bus_event **out_event,
                                               struct bus_error **reterr);

/* After BUS_EOVERRUN: the first and the last id that were missed.  They can be had again by a new
 * tap from from_id to until_id, as long as the broker keeps them: the newest 16384 of a job, 16 MiB
 * at most; so there are 12288 events, or 12 MiB, to come before the first of them goes. */
BUS_API void bus_tap_gap(const struct bus_tap *tap, uint64_t *out_first_id, uint64_t *out_last_id);

/* What was still to come when the tap was opened: the id of the job's next event then.  So all that
 * is below it is history, and a tap that has read up to it knows that there is no more.  Less if a
 * broker that crashed has forgotten events since; 0: the broker does not tell.  [any] */
BUS_API uint64_t bus_tap_next_id(const struct bus_tap *tap);

/* As bus_sub_fd().  [any] */
BUS_API int bus_tap_fd(const struct bus_tap *tap);

/* Ends a bus_tap_next() under way or to come with BUS_ECLOSED.  [any] [signal] */
BUS_API void bus_tap_stop(struct bus_tap *tap);
BUS_API void bus_tap_close(struct bus_tap **tap); /* [one] */

BUS_API uint64_t bus_event_id(const struct bus_event *event);
BUS_API int64_t bus_event_at_ns(const struct bus_event *event); /* broker's wall clock */
BUS_API const char *bus_event_job(const struct bus_event *event);
/* "party.joined" "party.suspect" "party.resumed" "party.lost" "party.left" "party.failed"
 * "party.completed" "party.terminated" "slot.failed" "consumer.slow" "refused"
 * "verdict.provisional" "verdict.final" "job.created" "job.epoch" "job.short" "job.failing"
 * "job.attempt" "job.completed" "job.failed" "job.cancelled"
 * "journal.full" "journal.refused" "journal.well" "leases.lost" "task.dead"
 * "tasks.dropped"; more may come. */
BUS_API const char *bus_event_name(const struct bus_event *event);
BUS_API const char *bus_event_party(const struct bus_event *event);    /* "" if none */
BUS_API uint32_t bus_event_incarnation(const struct bus_event *event); /* 0 if none */
BUS_API const char *bus_event_topic(const struct bus_event *event);    /* "" if none */
BUS_API uint64_t bus_event_seq(const struct bus_event *event);         /* with a topic */
BUS_API uint64_t bus_event_count(const struct bus_event *event);       /* slots it stands for */
BUS_API const char *bus_event_text(const struct bus_event *event);     /* for people; "" */
/* 1: the broker has it after a restart, as far as its durability goes; 0: when it was told, it was
 * not in a journal yet.  Events wait for nothing, so those that have just happened are not. */
BUS_API int bus_event_is_durable(const struct bus_event *event);
/* 1: its error came when the final verdict of the job had been said, and counts no more. */
BUS_API int bus_event_is_late(const struct bus_event *event);
/* Errors that are alike (of one party, of one type, in one topic) are told one by one up to 64;
 * what comes beyond them within a second is one event, with their count, the ids of the first and
 * the last, and the last as its error.  "" where the event stands for one. */
BUS_API const char *bus_event_first_error(const struct bus_event *event);
BUS_API const char *bus_event_last_error(const struct bus_event *event);
BUS_API const struct bus_error *bus_event_error(const struct bus_event *event); /* or NULL */

#ifdef __cplusplus
}
#endif

#endif
