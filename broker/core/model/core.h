/* SPDX-License-Identifier: MPL-2.0 */
/* core.h -- the root of all tables. */
#ifndef CORE_MODEL_CORE_H
#define CORE_MODEL_CORE_H

#include "broker/core/core.h"
#include "broker/core/model/account.h"
#include "broker/core/model/count.h"
#include "broker/core/model/failure.h"
#include "broker/core/model/report.h"
#include "broker/core/model/session.h"
#include "broker/core/tables/needs.h"
#include "broker/core/tables/timers.h"
#include "libbus/base/flow_window.h"
#include "libbus/base/list.h"
#include "libbus/base/map.h"
#include "libbus/base/memory.h"
#include "libbus/base/pool.h"
#include "libbus/wire/error.h"

#include <stdbool.h>
#include <stdint.h>

#define MS_NS INT64_C(1000000)
#define STOPS_TEXT "the broker stops"

enum { FALLEN_KEPT = 32 }; /* parties that share errors while a chain or fan falls */

struct core {
    struct memory *memory;
    struct core_options options;
    char *strings; /* version and data endpoint */
    size_t string_bytes;
    const struct access *access;          /* borrowed; NULL: everybody may do everything */
    const struct event_shards *shards;    /* the same */
    const struct metric_figures *figures; /* of the step under way; or NULL */
    bool is_judged;                       /* all subscriptions are as access lets them be */
    uint32_t speaker;        /* principal of the connection whose message this is; see access */
    struct effects *effects; /* of the step under way */
    int64_t now_ns;          /* of the step under way */
    int64_t wall_ns;
    uint64_t random;
    uint64_t steps;          /* steps so far, with the one under way */
    uint64_t kept;           /* steps that the journal has, as the event says */
    payload_id payload;      /* beside the message of this step; 0: none */
    int64_t away_ns;         /* time in which the broker itself did not run */
    int64_t excused_ns;      /* core_clock(): before it no standstill is excused */
    int64_t back_ns;         /* now_ns of the end of the last standstill */
    struct core_moment seen; /* the newest moment in facts */
    int64_t start_ns;
    struct pool jobs, parties, sessions, topics, open_slots, slot_terms, chunk_sets, subs, routes,
        awaits, failures, groups, tasks;
    struct account nobody; /* of everybody without a name: all, if there is no access file */
    struct pool accounts;
    uint32_t rate_wait_count; /* topics in rate_waiters of all accounts */
    struct name_map account_names;
    struct name_map job_names;
    struct name_map failure_ids; /* id of an error -> its failure: record/authors.h */
    struct id_map conns;         /* conn -> session id */
    struct id_map tokens;        /* token -> session id */
    struct timers timers;
    struct flow_share topic_windows;  /* beyond --topic-window: streams/lead.c; and of couriers that
                                          bring */
    struct flow_share reader_windows; /* of all subscriptions, awaits, taps, and couriers that
                                         fetch */
    struct list pump;                 /* sessions with something to send */
    struct list dirty;                /* sessions whose ACCEPTED is due */
    struct list owing;                /* sessions that are owed an ACCEPTED, the oldest first */
    struct list tight;                /* full jobs in which a writer waits */
    struct list told;                 /* jobs with new events */
    struct list early_taps;           /* sessions that tap jobs that do not exist yet */
    struct list jobs_due;             /* jobs to be weighed at the end of the step */
    struct list jobs_over;           /* jobs whose linger time is over: effects may point to them */
    struct list judged;              /* judgements to be looked at */
    struct list unused_failures;     /* failures without references */
    struct list unused_notices;      /* notices of no session: effects may still point to them */
    struct list unused_awaits;       /* denied waits that were answered, likewise */
    struct event_text *unused_texts; /* of events that are not kept any more, likewise */
    struct list groups_due;          /* groups that may have something to give */
    struct pool attachments;
    struct list turns;        /* sessions with a window for what they bring, oldest first */
    struct list turn_waiters; /* sessions that wait for one */
    uint32_t turn_count;
    struct timer turn_timer;   /* fires when the oldest turn is over */
    struct list metrics_walks; /* answers to METRICS under way */
    struct counts counts;
    struct list wait_walks;   /* who waits for whom: questions and looks under way */
    int64_t answering_ns;     /* since when there is a question under way, or a look; 0: none is */
    struct list lead_waiters; /* topics whose writers wait for readers, longest first */
    struct timer lead_timer;  /* fires when the first of them has waited for long */
    struct needs needs;
    struct list falling;               /* need_heads: slots that failed, and may still be needed */
    struct failure *falling_root;      /* while a slot falls: the failure that began it */
    struct fallen fallen[FALLEN_KEPT]; /* a ring of the newest */
    uint32_t fallen_at;
    struct text why_held;  /* what the last refusal said; until the next one */
    struct refusal fell;   /* a row of fallen slots to tell their writer of; failure NULL: none */
    uint64_t parked_bytes; /* of all sessions */
    struct complaints unknown;
    struct journal_word journal;
    bool is_noting; /* decisions become facts */
    bool is_replaying;
    uint64_t failure_number;      /* of the newest failure in a fact */
    struct id_map replayed;       /* in a replay: number of a failure -> id; a reference each */
    bool is_stopping;             /* BYE was said; new clients are told BYE, too */
    bool has_more;                /* a bound of this step was reached: call core_step() again */
    struct error_record *scratch; /* LIMIT_ERROR_RECORDS + 1, where an error is composed */
    uint8_t *scratch_bytes;       /* LIMIT_ERROR_BYTES */
    struct error_record *joined;  /* AUTHORS_ROOM, where a chain is put together */
};

/* The core's clock: monotonic, without the time in which the broker itself stood still. */
static inline int64_t core_clock(const struct core *core)
{
    return core->now_ns - core->away_ns;
}

/* A timer that fires so much late shows that the broker was late itself.  It may not have read all
 * messages that came. */
#define LATE_LOOK_NS (10 * MS_NS)

/* After such a time it looks again before it judges: as long as it was late, most_ns at most.
 * 0: it was not late. */
static inline int64_t core_second_look_ns(const struct core *core, const struct timer *timer,
                                          int64_t most_ns)
{
    int64_t late_ns = core_clock(core) - timer->due_ns;
    if (late_ns <= LATE_LOOK_NS)
        return 0;
    return late_ns < most_ns ? late_ns : most_ns;
}

/* One from the pool: any, or while replaying the one of this number, unless it is in use. */
static inline void *core_take(struct pool *pool, uint32_t id)
{
    if (id == 0)
        return pool_take(pool);
    return pool_find(pool, id) == NULL ? pool_take_at(pool, id) : NULL;
}

/* ACCEPTED is due. */
static inline void core_mark_dirty(struct core *core, struct session *session)
{
    if (!list_is_linked(&session->dirty_link))
        list_push(&core->dirty, &session->dirty_link);
}

/* There may be something to send to it. */
static inline void core_mark_pump(struct core *core, struct session *session)
{
    if (!list_is_linked(&session->pump_link))
        list_push(&core->pump, &session->pump_link);
}

/* Until when the client of a session has time to come back to a broker that was away itself. */
static inline int64_t session_window_ns(const struct core *core, const struct session *session)
{
    return session->returned_ns + core->options.resume_ms * MS_NS;
}

#endif
