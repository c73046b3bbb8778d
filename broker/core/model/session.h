/* SPDX-License-Identifier: MPL-2.0 */
/* session.h -- the state of one connection of a party or an observer. */
#ifndef CORE_MODEL_SESSION_H
#define CORE_MODEL_SESSION_H

#include "broker/core/tables/event.h"
#include "broker/core/tables/sync_round.h"
#include "broker/core/tables/timers.h"
#include "libbus/base/flow_window.h"
#include "libbus/base/list.h"
#include "libbus/base/map.h"
#include "libbus/base/span.h"
#include "libbus/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

/* The messages that may wait for the frames before them, by their numbers. */
enum parked_type {
    PARKED_COMPLETE = MSG_COMPLETE,
    PARKED_LEAVE = MSG_LEAVE,
    PARKED_FAIL_PARTY = MSG_FAIL_PARTY,
    PARKED_FAIL = MSG_FAIL,
    PARKED_RETRACT = MSG_RETRACT,
    PARKED_UNSUBSCRIBE = MSG_UNSUBSCRIBE,
    PARKED_ACK = MSG_ACK,
    PARKED_TASK = MSG_TASK,
};
/* A control message that waits for the data before it. */
struct parked {
    struct list link;
    enum parked_type type;
    uint64_t number;
    uint64_t after;
    uint32_t topic;
    uint64_t seq;
    uint32_t sub;      /* ACK, TASK */
    uint32_t durable;  /* ACK: id of a durable subscription, which may be closed by then */
    uint32_t delivery; /* TASK, as all below */
    uint32_t how;
    int64_t retry_after_ms;
    bool is_told;            /* its event has been told */
    struct failure *failure; /* a reference, or NULL */
};

struct refusal {
    uint32_t topic; /* its number for clients */
    uint64_t seq;
    struct failure *failure; /* a reference */
    uint32_t count;          /* slots from seq on */
};

#define GRANTED_KEPT 1024  /* answers that are given again when the question comes again */
#define REFUSALS_KEPT 1024 /* sent again after a reconnect; as the client keeps LIMIT_REFUSALS */

/* The newest values in chunks that are whole.  Their writer may not know that, and send chunks of
 * them again.  Of older values only those are known that the topic keeps. */
enum { UPLOADED_KEPT = 32 };

/* A party whose attempt is over, and whose client is still heard: lifecycle/late.c. */
struct late {
    struct span party;    /* owned: its name */
    uint32_t incarnation; /* its last one */
    uint32_t attempt;
    int64_t until_ns;     /* end of the time in which it is heard; core_clock() */
    struct failure *over; /* a reference: why the attempt is over */
};

/* Since when calls of the client are blocked, as WAITING says; core_clock(); 0: none is. */
struct blocked {
    int64_t slots_ns;
    uint32_t topic; /* the one slot that they wait for; 0: all that are awaited */
    uint64_t seq;
    int64_t room_ns;
    uint32_t room_topic; /* the one that they write; 0: several */
    int64_t reads_ns;
    uint32_t sub; /* the client's number of a subscription; 0: several */
    int64_t barrier_ns;
    int64_t members_ns;
    bool is_sure;        /* only the broker ends these calls */
    uint64_t data_bytes; /* the client had received so much when it said so */
    uint64_t number;     /* of that WAITING */
    uint64_t words;      /* so often WAITING said something new, or PROGRESS came */
};

/* What is accepted, and the client was not told yet: record/accept.c. */
struct owed {
    struct list link;     /* in core->owing */
    uint64_t bytes;       /* of batches */
    int64_t due_ns;       /* the latest moment for ACCEPTED */
    uint32_t prompt_left; /* batches that are answered at once */
    uint32_t prompt_next; /* prompt_left of the next time that waiting was in vain */
};

enum notice_kind {
    NOTICE_NEVER_JOINED, /* about a party */
    NOTICE_UNSERVED,     /* about a topic of requests */
    NOTICE_GONE,         /* about the first slot of a gap, "TOPIC#SEQ" */
};
/* What the session waits for, perhaps in vain, and what its group lost: streams/notice.c. */
struct notice {
    struct list link;
    enum notice_kind kind;
    struct span about;     /* owned */
    int64_t since_ns;      /* core_clock() */
    struct failure *error; /* a reference: what is told; NULL: its time is not over */
    bool is_said;          /* on the connection of today; by a guard's connection it is not */
};

/* What a courier fetches: record/courier.c. */
struct fetching {
    struct attachment *attachment; /* or NULL */
    struct list link;              /* in its fetchers */
    uint64_t request;
    uint64_t next, end;      /* what is still to be sent of it */
    uint64_t room_bytes;     /* FETCH.window_bytes */
    uint64_t taken;          /* of the bytes that were sent on this data connection */
    struct flow_window flow; /* of these bytes */
};

struct session {
    uint32_t id;
    uint64_t token;
    struct job *job;      /* NULL: an observer of no job, or of one that does not exist yet */
    struct span job_name; /* owned: of the job that does not exist yet; empty: of none */
    struct party *party;  /* NULL: an observer */
    struct late *late;    /* owned: the party that it was; NULL: any other session */
    uint32_t incarnation;
    uint32_t principal;      /* who greeted, in core->access; 0: there is no access file */
    struct account *account; /* a reference: of who greeted */
    conn_id control;         /* 0: closed */
    conn_id data;            /* 0: not attached */
    uint32_t dial;           /* HELLO.dial of the last connection */
    bool is_guard;           /* party->guard, not party->session */
    bool is_ready;           /* READY came on this connection */
    bool is_suspect;
    bool is_at_barrier;
    int64_t barrier_ns; /* since when it is there; core_clock() */
    struct blocked blocked;
    int64_t heard_ns;   /* last sign of life; core_clock() */
    int64_t trip_ns;    /* the round trip of its link, as BEAT says; 0: it is short */
    bool is_unjudged;   /* ... or as long as it is not known: BEAT says so */
    int64_t greeted_ns; /* when it greeted on this connection; core_clock(); 0: not yet */
    int64_t closed_ns;  /* when the connection closed */
    int64_t suspect_ns; /* since when it is suspect */
    int64_t beat_ns;    /* heartbeat, lost_after, grace: as its HELLO says */
    int64_t lost_after_ns;
    int64_t grace_ns;
    int64_t returned_ns;      /* when the broker came back that had been away; see
                                  session_returned_all(); INT64_MIN: the client came back */
    unsigned unheard_returns; /* how often the broker came back since it was heard */
    bool is_looked_again;     /* the timer fired late, and was set once more */
    bool is_stall_excused;    /* a late timer of progress was set once more */
    uint64_t progress_ms;
    struct span host; /* owned: the host of its process; host and pid are for people */
    uint64_t pid;
    struct span trace_id; /* owned: the trace of W3C that its work is a part of; may be empty */
    struct span where;    /* owned: what its last promise of progress says of its place */
    struct timer timer;
    struct timer progress;
    uint64_t data_number;  /* last frame accepted */
    uint64_t control_seen; /* newest numbered control message */
    uint64_t data_told;    /* in the last ACCEPTED */
    uint64_t control_told;
    uint64_t data_noted; /* in the last fact */
    uint64_t control_noted, seen_noted;
    struct list parked;
    uint32_t parked_count;
    uint64_t parked_bytes; /* of their errors */
    struct list subs;
    struct id_map sub_ids;     /* the client's number -> id in core->subs */
    struct list awaits;        /* not answered yet */
    struct list awaits_ready;  /* to be answered */
    struct list awaits_coming; /* pieces came of their values that were not sent */
    struct attachment *brings; /* or NULL; this and all brings_: record/courier.c */
    struct job *brings_job;
    uint64_t brings_request;
    uint64_t brings_limit; /* credit: pieces may begin below it */
    struct list turn_link; /* in core->turns or turn_waiters */
    int64_t turn_ns;       /* when its turn began */
    bool has_turn;
    uint64_t brought_bytes;        /* of pieces on this data connection */
    struct flow_window bring_flow; /* of these bytes */
    struct fetching fetching;
    struct id_map await_ids; /* want -> id in core->awaits */
    uint64_t data_sent;      /* bytes of frames on this data connection */
    uint64_t data_said;      /* the first so many wait for no journal */
    uint64_t data_marked;    /* and so many when the journal has data_marked_step */
    uint64_t data_marked_step;
    uint64_t await_sent; /* bytes on subscription 0 and this connection */
    uint64_t await_taken;
    struct sync_round await_round;
    struct flow_window await_flow;
    uint32_t await_topic;         /* number of the last topic named on subscription 0 */
    uint32_t await_incarnation;   /* ... for slots of this one */
    struct refusal *refusals;     /* ring of REFUSALS_KEPT, made when first needed */
    uint64_t *granted;            /* ring of GRANTED_KEPT: numbers of RETRACTs that were done */
    uint64_t refusal_number;      /* of the newest */
    uint64_t chunk_refused_topic; /* the last upload refused: its other chunks get no answer */
    uint64_t chunk_refused_seq;
    struct {
        uint32_t topic; /* 0: none */
        uint64_t seq;
    } uploaded[UPLOADED_KEPT]; /* the newest values in chunks that are whole, a ring */
    uint32_t uploaded_at;
    struct list pump_link;  /* in core->pump while there may be something to send */
    struct list subs_ready; /* subscriptions that may have something to send */
    struct list dirty_link; /* in core->dirty: ACCEPTED is due */
    struct owed owed;
    struct list tap_link; /* in the job's taps, or in core->early_taps */
    uint64_t tap_next;    /* next event to send */
    uint64_t tap_taken;
    bool tap_is_live;            /* it has had the newest event once */
    uint64_t tap_window;         /* it has room for so many; 0: no tap */
    uint64_t tap_begin;          /* of the bytes of all events of the job: where its flow began, */
    uint64_t tap_taken_bytes;    /* ... and what lies behind tap_taken */
    struct flow_window tap_flow; /* of these bytes */
    struct list notices;         /* of struct notice, in the order in which the waits began */
    uint32_t notice_count;
    bool missed_notice;        /* memory was short: streams/notice.c looks again */
    struct timer notice_timer; /* the next of them whose time will be over */
    struct list verdict_link;  /* in a judgement's waiters */
    uint64_t verdict_request;
    uint64_t reload_request; /* RELOAD that waits for its answer, with has_reload */
    bool has_reload;
    bool is_revoked; /* while another access table comes into force: it loses its access */
};

/* All numbered control messages up to this one are done. */
static inline uint64_t session_control_number(const struct session *session)
{
    if (list_is_empty(&session->parked))
        return session->control_seen;
    return LIST_OWNER(session->parked.next, struct parked, link)->number - 1;
}

#endif
