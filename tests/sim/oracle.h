/* SPDX-License-Identifier: MPL-2.0 */
/* oracle.h -- what is known of every slot by all who saw it, and whether it fits together.
 *
 * Values are known by their bytes, errors by their id.  Whoever writes says so beforehand
 * (oracle_said); whoever receives asks (oracle_seen) and is told what does not fit:
 *
 *   promise 1  another outcome than somebody saw before; a value that was refused or retracted;
 *              an error where a value was accepted, and the other way round
 *   promise 3  a value in another place than it was written to
 *   promise 5  a value that its writer said after it was declared lost
 *   needs      a value that was said when somebody had seen that what it needs failed; a slot that
 *              fell, and nothing that it needs did
 *   isolation  a value of another job, or of another attempt of it */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

enum outcome_kind {
    OUTCOME_NONE,
    OUTCOME_VALUE,
    OUTCOME_ERROR,
    OUTCOME_SOME_VALUE, /* a value, bytes not known */
};

struct outcome {
    enum outcome_kind kind;
    uint64_t mark; /* of the value's bytes, or of the error's id */
};
/* As mark: the error that stands in for any for which memory was short. */
#define OUTCOME_STAND_IN 0

/* What is known of one incarnation of a party. */
struct oracle_record {
    uint32_t job;
    char party[32];
    uint32_t incarnation; /* 0: not known yet */
    uint32_t attempt;     /* of the job, in which it took part; 0: not known */
    int64_t lost_ns;      /* when the broker declared it lost; INT64_MAX: it did not */
    int64_t ended_ns;     /* when the broker said that it ended, in whatever way; INT64_MAX */
    bool is_replaced;     /* it was lost because another client of its name came */
    bool is_process;      /* a process of the party stands behind it */
};

/* Topics begin anew with each attempt: those of attempt n, from 1, have the job's number and n - 1
 * times this. */
enum { ORACLE_ATTEMPT = 100 };
static inline uint32_t oracle_space(uint32_t job, uint32_t attempt)
{
    return job + ORACLE_ATTEMPT * (attempt > 1 ? attempt - 1 : 0);
}

struct oracle_topic {
    uint32_t job; /* and attempt */
    char name[64];
    uint64_t next_seq;        /* above all that was accepted or seen */
    int64_t accepted_said_ns; /* when the newest of what was accepted was said; -1: nothing */
};

enum { ORACLE_RECORDS = 512, ORACLE_TOPICS = 512, ORACLE_TEXT = 256 };

struct oracle;

struct oracle *oracle_new(void);
void oracle_free(struct oracle **oracle);

/* From now on memory may have been short: events, and refusals, may be missing. */
void oracle_doubt(struct oracle *oracle);
bool oracle_is_doubting(const struct oracle *oracle);

uint32_t oracle_record(struct oracle *oracle, uint32_t job, const char *party);
struct oracle_record *oracle_record_at(struct oracle *oracle, uint32_t record);
/* What is known of this incarnation; NULL: nobody spoke of it yet. */
struct oracle_record *oracle_record_find(struct oracle *oracle, uint32_t job, struct span party,
                                         uint32_t incarnation);
/* That party has learnt the number of its incarnation. */
void oracle_record_named(struct oracle *oracle, uint32_t record, uint32_t incarnation);
/* The broker says that this incarnation ended.  NULL, or what is wrong. */
const char *oracle_record_ended(struct oracle *oracle, uint32_t job, struct span party,
                                uint32_t incarnation, bool is_lost, int64_t now_ns);
/* ... because another client of its name came. */
void oracle_record_replaced(struct oracle *oracle, uint32_t job, struct span party,
                            uint32_t incarnation);
/* A client that greets again, before it was welcomed, is the same incarnation.  So each incarnation
 * that was replaced, and that nobody was told of, is of a process that ended before it was told.
 * NULL, or what is wrong. */
const char *oracle_check_replaced(struct oracle *oracle);
uint32_t oracle_topic(struct oracle *oracle, uint32_t job, struct span name);
struct oracle_topic *oracle_topic_at(struct oracle *oracle, uint32_t topic);
uint32_t oracle_topic_count(const struct oracle *oracle);

struct outcome outcome_of_value(struct span value);
struct outcome outcome_of_error(struct span error_id);

/* That incarnation is about to write this value to that slot.  Values shorter than 8 bytes are not
 * told apart, and so not remembered. */
void oracle_said(struct oracle *oracle, uint32_t record, uint32_t topic, uint64_t seq,
                 struct span value, int64_t now_ns);

/* That incarnation promises a slot that needs the other one.  (If the promise is not heard, a later
 * incarnation may give its number to another slot.) */
void oracle_needs(struct oracle *oracle, uint32_t record, uint32_t topic, uint64_t seq,
                  uint32_t need_topic, uint64_t need_seq);
/* The name of something that this slot needs and that is known to have failed; NULL: nothing. */
const char *oracle_failed_need(const struct oracle *oracle, uint32_t record, uint32_t topic,
                               uint64_t seq);
/* An error that stands for what it needs was seen in its place.  NULL, or what is wrong. */
const char *oracle_fell(struct oracle *oracle, uint32_t topic, uint64_t seq, const char *by);

/* Each gives NULL, or what is wrong, borrowed until the next call. */
const char *oracle_seen(struct oracle *oracle, uint32_t topic, uint64_t seq, struct outcome outcome,
                        int64_t now_ns, const char *by);
/* Its writer was told that it stands. */
const char *oracle_accepted(struct oracle *oracle, uint32_t topic, uint64_t seq,
                            struct outcome outcome, const char *by);
/* Its writer wants its value back: until it knows more, what stands is what is seen. */
void oracle_doubted(struct oracle *oracle, uint32_t topic, uint64_t seq);
/* It was told that its error stands, and not the value (NONE: it wrote none that is known). */
const char *oracle_retracted(struct oracle *oracle, uint32_t topic, uint64_t seq,
                             struct outcome error, struct outcome value, const char *by);
/* Its writer was told that this outcome, which it said, does not stand. */
const char *oracle_refused(struct oracle *oracle, uint32_t topic, uint64_t seq,
                           struct outcome outcome, const char *by);
/* The incarnation that wrote it, as far as that is known; NULL: nobody knows. */
const struct oracle_record *oracle_origin(const struct oracle *oracle, struct outcome outcome);
struct outcome oracle_known(const struct oracle *oracle, uint32_t topic, uint64_t seq);

#endif
