/* SPDX-License-Identifier: MPL-2.0 */
/* crew.h -- what is known of each task and request by all who had to do with it, and whether that
 * fits together.  Slots and their outcomes are the oracle's; here is who was to bring them about:
 *
 *   leases    no delivery of a task is given twice, none beyond deliver_max each time that it was
 *             no letter; a task that is given
 *             again had come back, and no sooner than was asked for; what was accepted as done is
 *             given to nobody any more, and is no dead letter
 *   requests  a reply that stands was given to that request, before anybody else had it; an error
 *             has its reason: somebody was silent, or failed it, or nobody served it, or it died
 *   letters   what is a dead letter has that outcome, and its value or error under its number */
#ifndef SIM_CREW_H
#define SIM_CREW_H

#include "tests/sim/oracle.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    CREW_GROUPS = 8,
    CREW_DELIVER = 16,           /* deliver_max of a group, at most */
    CREW_DELIVERIES = UINT8_MAX, /* of one task, all times together that it was a letter */
    CREW_TEXT = 400,
};

struct crew_group {
    uint32_t job;
    const char *name;
    const char *pattern;
    uint32_t deliver_max;
    int64_t from_seq;
    int64_t keep_ms;
    uint32_t replays; /* so often its letters were given again */
};

/* One delivery of a task. */
struct crew_lease {
    uint32_t group;
    uint32_t topic; /* the oracle's */
    uint64_t seq;
    uint32_t delivery;
    uint32_t record; /* the oracle's */
    bool may_lapse;  /* it lasts for so long without a sign of life */
    bool is_request;
    uint32_t reply_topic;
    uint64_t reply_seq;
};

struct crew;

struct crew *crew_new(struct oracle *oracle);
void crew_free(struct crew **crew);
uint32_t crew_group_add(struct crew *crew, const struct crew_group *group);
struct crew_group *crew_group_at(struct crew *crew, uint32_t group);
uint32_t crew_group_count(const struct crew *crew);

/* From now on clocks may have jumped: nothing is too early. */
void crew_doubt_clocks(struct crew *crew);

/* A member is known to be in force; its subscription is closed, or it ended. */
void crew_joined(struct crew *crew, uint32_t group, uint32_t record, int64_t now_ns);
void crew_parted(struct crew *crew, uint32_t group, uint32_t record);

/* That incarnation asks; deadline_ms -1: for as long as it takes. */
void crew_asked(struct crew *crew, uint32_t record, uint32_t topic, uint64_t seq,
                uint32_t reply_topic, uint64_t reply_seq, int64_t deadline_ms, int64_t now_ns);

/* What members do with a lease; is_never: it is not to be given again. */
void crew_back(struct crew *crew, const struct crew_lease *lease, int64_t due_ns, bool is_never);
void crew_answered(struct crew *crew, const struct crew_lease *lease, struct outcome outcome,
                   int64_t now_ns);
void crew_silent(struct crew *crew, const struct crew_lease *lease);

/* Whether this task of the group is a dead letter because of the error with this mark. */
bool crew_died_of(const struct crew *crew, uint32_t group, uint32_t topic, uint64_t seq,
                  uint64_t mark);

/* Each gives NULL, or what is wrong, borrowed until the next call. */
const char *crew_given(struct crew *crew, const struct crew_lease *lease, int64_t now_ns,
                       const char *by);
/* Its member was told that it stands that it is done. */
const char *crew_done(struct crew *crew, const struct crew_lease *lease, const char *by);
/* The broker says that a task is letter `number` of its group. */
const char *crew_died(struct crew *crew, uint32_t group, uint32_t topic, uint64_t seq,
                      uint64_t number, struct outcome why);
/* The same of a letter that the broker shows; nothing, if that is known.  Why it died is not. */
const char *crew_shown(struct crew *crew, uint32_t group, uint32_t topic, uint64_t seq,
                       uint64_t number);
/* Somebody sees how a reply slot was settled; type: of an error. */
const char *crew_outcome(struct crew *crew, uint32_t reply_topic, uint64_t seq,
                         struct outcome outcome, struct span type, int64_t now_ns, const char *by);
/* Somebody reads what stands under a number of dead letters; is_why: the errors. */
const char *crew_letter(struct crew *crew, uint32_t group, uint64_t number, bool is_why,
                        struct outcome outcome, const char *by);

#endif
