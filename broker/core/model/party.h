/* SPDX-License-Identifier: MPL-2.0 */
/* party.h -- a party of a job, and its incarnation. */
#ifndef CORE_MODEL_PARTY_H
#define CORE_MODEL_PARTY_H

#include "broker/core/model/report.h"
#include "broker/core/tables/party.h"
#include "libbus/base/limits.h"
#include "libbus/base/list.h"
#include "libbus/base/span.h"

#include <stdbool.h>
#include <stdint.h>

#define RANK_NONE UINT32_MAX

/* How an incarnation ended, or several: the oldest ends of a party become one. */
struct party_end {
    uint32_t first; /* incarnations first to incarnation */
    uint32_t incarnation;
    struct failure *failure; /* a reference: the newest of theirs; NULL: all ended well */
};

enum run_rule {               /* HELLO.run_rule: whether a party begins the next run */
                RUN_AS_FOUND, /* if its last incarnation ended well, and the run is over */
                RUN_CONTINUE, /* never */
                RUN_FOLLOW,   /* never; and a run may end while it is there */
                RUN_NEXT,     /* always */
};

struct party {
    uint32_t id;
    struct span name; /* owned */
    struct job *job;
    enum party_state state;
    uint32_t incarnation;     /* 0: never joined */
    uint32_t attempt;         /* of the job, when it began */
    uint32_t first;           /* the first incarnation in that attempt */
    uint8_t run_rule;         /* enum run_rule: as its HELLO says */
    int64_t joined_ns;        /* when it began; 0: before a restart */
    int64_t ended_ns;         /* when the last incarnation ended, by the wall clock; 0: never */
    uint64_t error_count;     /* made here about this incarnation */
    uint64_t error_limit;     /* a fact says that numbers up to here may be in use */
    struct failure *ended_by; /* a reference: why the last incarnation ended; NULL: well, or it
                                 has not ended */
    struct party_end ends[LIMIT_PARTY_ENDS]; /* of earlier ones of this attempt, oldest first */
    uint32_t end_count;
    uint64_t client;         /* client id of the HELLO that began it; 0: none */
    struct account *account; /* a reference: of who joined last */
    struct list account_link;
    uint32_t principal;      /* of that account, in the table in force; 0: it is not there */
    uint32_t dial;           /* HELLO.dial of that client's last connection */
    uint32_t rank;           /* its place in the job, or RANK_NONE */
    struct session *session; /* that writes and reads for the live incarnation, or NULL */
    struct session *guard;   /* that speaks of its end alone, see lifecycle/guard.c; or NULL */
    uint32_t program_count;  /* sessions that a guarded incarnation has had */
    uint64_t program_client; /* as client and dial, of the last of them */
    uint32_t program_dial;
    uint32_t numbered[LIMIT_OWN_NUMBERS]; /* ids of topics by the numbers that it gave; or 0; or
                                             that one was refused: streams/number.c */
    struct list topics;                   /* it writes */
    struct list open_slots;               /* it owes */
    uint32_t open_count;
    struct complaints complaints; /* about it */
    struct list watches;          /* subscriptions that name it */
    struct list durables;         /* its durable subscriptions */
    struct list job_link;
    struct list bare_link;
};

static inline bool party_is_live(const struct party *party)
{
    return party->incarnation > 0 && !party_is_final(party->state);
}

/* How the last incarnation ended. */
static inline struct party_end party_last_end(const struct party *party)
{
    return (struct party_end){
        .first = party->incarnation, .incarnation = party->incarnation, .failure = party->ended_by};
}

/* It ended in this attempt of its job.  One that ended in an earlier one has not come yet. */
static inline bool party_is_over(const struct party *party, uint32_t attempt)
{
    return party_is_final(party->state) && party->attempt == attempt;
}

/* Any of the sessions of a live party, the writing one first. */
static inline struct session *party_any_session(const struct party *party)
{
    return party->session != NULL ? party->session : party->guard;
}

#endif
