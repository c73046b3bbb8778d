/* SPDX-License-Identifier: MPL-2.0 */
/* plan.h -- what is cut, when, for how long, and what must come of it. */
#ifndef TESTS_CUT_PLAN_H
#define TESTS_CUT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum phase {
    PHASE_COMPUTES, /* A */
    PHASE_WAITS,    /* B */
    PHASE_SENDS,    /* C */
    PHASE_RECEIVES, /* D */
    PHASE_COUNT,
};

enum kind {
    KIND_LINK,    /* the link goes down */
    KIND_DROP,    /* all frames are dropped, no link goes down, nothing is reset */
    KIND_ONE_WAY, /* the same in one direction */
    KIND_LOSS,    /* 30 % of the frames are */
    KIND_DELAY,   /* 200 ms +- 100 each way */
    KIND_RATE,    /* 256 KiB a second each way */
    KIND_RESET,   /* a middlebox answers every segment with a reset */
    KIND_ADDRESS, /* the host loses its address, and gets another in the end */
    KIND_COUNT,
};

/* LINK: whose end goes down.  ONE_WAY: from where nothing comes any more.  RESET: who is reset, the
 * other end hearing nothing. */
enum end {
    END_BOTH,
    END_PARTY,
    END_BROKER,
    END_COUNT,
};

enum outcome {
    OUTCOME_RESUMED, /* nothing lost, nothing twice, nobody failed */
    OUTCOME_LOST,    /* told to all in time; whoever came back was fenced */
    OUTCOME_EITHER,  /* one of the two, and nothing between */
    OUTCOME_COUNT,
};

struct plan {
    enum phase phase;
    enum kind kind;
    enum end end;
    bool is_longer;   /* than the bound that applies */
    bool is_in_short; /* form of the run */
    int parties;      /* that are like each other; the last one's link is cut */
    int times;        /* how often */
    int64_t cut_ms;   /* at least, and until the loss is known if it is to be; -1: for good */
    int64_t lost_after_ms;
    int64_t grace_ms;
    const char *pattern; /* in the log of the last party */
    int64_t after_ms;    /* ... and so long behind it */
    int64_t after_bytes; /* ... or so many bytes carried */
};

struct result {
    bool is_good;
    char why[256];        /* it is not */
    enum outcome outcome; /* COUNT: neither */
    int64_t cut_ms;       /* really */
    int64_t detected_ms;  /* from the cut until the broker said lost; these four: -1: never */
    int64_t noticed_ms;   /* ... until the party asked for a new connection */
    int64_t waited_ms;    /* ... until the last waiter had the error */
    int64_t resumed_ms;   /* from the mending until all was done */
    uint64_t lost;        /* values */
    uint64_t twice;
    uint64_t carried_bytes; /* on the last party's link, in the direction of the large value */
};

#define LARGE_BYTES ((size_t)20 * 1024 * 1024)

extern const char *const phase_names[PHASE_COUNT];
extern const char *const kind_names[KIND_COUNT];
extern const char *const end_names[END_COUNT];
extern const char *const outcome_names[OUTCOME_COUNT + 1];

/* The plan number index of the table; false: there is none. */
bool plan_at(size_t index, struct plan *out_plan);

/* What is not said yet (0 or NULL) is what the phase, the kind and is_longer ask for. */
void plan_complete(struct plan *plan);

enum outcome plan_expected(const struct plan *plan);

/* The time after which the last party is lost, from the moment it is cut. */
int64_t plan_bound_ms(const struct plan *plan);

bool plan_is_fedavg(const struct plan *plan);

/* "A drop longer" */
void plan_name(const struct plan *plan, char *name, size_t bytes);

#endif
