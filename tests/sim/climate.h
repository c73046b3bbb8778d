/* SPDX-License-Identifier: MPL-2.0 */
/* climate.h -- what one seed is like: how many there are, what they like to do, and what is done
 * to them.  Drawn anew for each seed, with whole kinds of actions and faults left out (swarm
 * testing: Groce et al. 2012), for what is common in all runs hides what is rare in each. */
#ifndef SIM_CLIMATE_H
#define SIM_CLIMATE_H

#include "tests/sim/dice.h"
#include "tests/sim/world.h"

#include <stdint.h>

enum speech {
    SPEECH_PUBLISH,
    SPEECH_RESERVE,
    SPEECH_COMMIT,
    SPEECH_FAIL,
    SPEECH_RETRACT,
    SPEECH_AGAIN, /* settles what was settled */
    SPEECH_SUBSCRIBE,
    SPEECH_SUB_ADD,
    SPEECH_UNSUBSCRIBE,
    SPEECH_TAKE,
    SPEECH_ACK,
    SPEECH_RETURN,
    SPEECH_AWAIT,
    SPEECH_UNAWAIT,
    SPEECH_FLUSH,
    SPEECH_PROGRESS,
    SPEECH_END,  /* leaves, fails as a whole, completes */
    SPEECH_JOIN, /* a group */
    SPEECH_WORK, /* takes tasks, and says what becomes of one */
    SPEECH_REQUEST,
    SPEECH_CANCEL,  /* takes a request back */
    SPEECH_LETTERS, /* somebody has dead letters given again, or drops them */
    SPEECH_COUNT,
};

enum fault {
    FAULT_BREAK,
    FAULT_BREAK_ONE, /* one channel alone */
    FAULT_HALF_OPEN,
    FAULT_STALL,
    FAULT_FREEZE,
    FAULT_KILL,
    FAULT_INTRUDE,
    FAULT_REPEAT, /* what was sent before is sent again, as an impatient client may */
    FAULT_STOP,   /* the broker does nothing for a while */
    FAULT_CLOCK,  /* its wall clock jumps */
    FAULT_FULL,   /* its disk is full for a while */
    FAULT_MEMORY, /* one of its allocations fails */
    FAULT_RIVAL,  /* another broker begins with its journal */
    FAULT_LATE,   /* the broker is late, and looks at its timers before it reads what came */
    FAULT_COUNT,
};

/* What becomes of a task. */
enum fate {
    FATE_REPLY, /* or done, if it is no request */
    FATE_DONE,
    FATE_BACK,
    FATE_LATER,
    FATE_NEVER,
    FATE_FAILED,
    FATE_COUNT,
};

enum { CLIMATE_GROUPS = 3 };

struct climate {
    uint32_t job_count;
    uint32_t party_count; /* of each job */
    uint32_t topic_count; /* of each party */
    int64_t active_ns;    /* so long they act */
    int64_t speech_every_ns;
    uint32_t speech_weights[SPEECH_COUNT];
    int64_t fault_every_ns; /* 0: none */
    uint32_t fault_weights[FAULT_COUNT];
    uint32_t quiet_permille; /* of closed connections nobody is told of */
    int64_t notice_most_ns;
    int64_t freeze_most_ns;
    int64_t restart_most_ns;
    uint32_t restart_permille;
    uint32_t deadline_permille; /* of reservations */
    int64_t deadline_most_ms;
    uint32_t chosen_permille; /* of reservations: a number of one's own */
    uint32_t needs_permille;  /* of reservations: they need others */
    uint32_t large_permille;  /* of values: some KiB and more */
    int64_t large_bytes_max;  /* the most that these have */
    uint32_t bulk_max;        /* values in chunks, in all */
    size_t small_bytes_max;
    uint32_t durable_permille, gap_permille; /* of subscriptions */
    int64_t keep_most_ms;
    int64_t heartbeat_ms, lost_after_ms, grace_ms, broker_lost_ms;
    size_t outbox_bytes_max, inbox_bytes_max;
    uint64_t chunk_bytes_max; /* 0: as the protocol allows */
    uint32_t group_count;     /* of each job; 0: nobody has any, and nobody asks */
    uint32_t deliver_max[CLIMATE_GROUPS];
    int64_t group_from[CLIMATE_GROUPS];
    uint32_t credit_most;
    uint32_t lapse_permille; /* of members: their leases end with silence */
    uint32_t fate_weights[FATE_COUNT];
    int64_t retry_most_ms;
    uint32_t deadline_asked_permille; /* of requests */
};

/* Also fills in what the climate says about the world. */
void climate_draw(struct climate *climate, struct world_options *options, struct dice *dice);
/* What came later is drawn by dice of its own, so that old seeds are what they were: groups and
 * requests, and what befalls the broker beside its end. */
void climate_draw_more(struct climate *climate, struct world_options *options, struct dice *dice);
const char *climate_fault_name(enum fault fault);
uint32_t climate_pick(struct dice *dice, const uint32_t *weights, uint32_t count);

#endif
