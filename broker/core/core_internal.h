/* SPDX-License-Identifier: MPL-2.0 */
/* core_internal.h -- the tables of the core and who calls whom within it.
 *
 *   core.c                  one event in; after it: accept, pump
 *   lifecycle/session.c     greeting, resuming, life and death of sessions and parties
 *   settling/settle.c       the control messages that settle, behind their data; settling
 *   settling/need.c         slots that need others, and fall with them
 *   record/attachment.c     what belongs to errors and is too long for them
 *   step/batch.c            frames of a batch: reserve, value, commit, chunks; what is refused
 *   streams/topic.c         topics: opening, credit, what is kept and what may go
 *   streams/lead.c          how far a writer may be ahead of readers that take
 *   lifecycle/guard.c       parties of which another process speaks too
 *   streams/sub.c           subscriptions: opening, positions, acknowledging
 *   streams/await.c         waiting for given slots
 *   streams/pump.c          sending: who gets which frames next
 *   groups/group.c          groups: members, leases, what becomes of a task that was not done
 *   groups/letter.c         dead letters of groups
 *   groups/request.c        requests: tasks with a slot for the reply
 *   lifecycle/membership.c  jobs that were created: members, epochs, attempts, ends
 *   lifecycle/barrier.c     where the members of an epoch meet
 *   record/failure.c        error objects: made, taken over, shared
 *   lifecycle/judgement.c   why a job cannot go on: what is weighed, when it is said, and to whom
 *   record/tell.c           the control topic, taps, status
 *   record/note.c           what is decided, as facts for a journal
 *   replay/replay.c         facts back into tables
 *   replay/snapshot.c       tables into facts
 *
 * Nothing points to what may go before it: owners take their dependants down first (job: parties,
 * topics, subs; session: subs, awaits, operations). */
#ifndef CORE_INTERNAL_H
#define CORE_INTERNAL_H

#include "broker/core/core.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/needs.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/roster.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/storms.h"
#include "broker/core/tables/task.h"
#include "broker/core/tables/timers.h"
#include "broker/core/tables/verdict.h"
#include "libbus/base/limits.h"
#include "libbus/base/list.h"
#include "libbus/base/map.h"
#include "libbus/base/must.h"
#include "libbus/base/pool.h"
#include "libbus/wire/error.h"

#include <stdbool.h>
#include <stdint.h>

#define MS_NS INT64_C(1000000)
#define RANK_NONE UINT32_MAX
#define STOPS_TEXT "the broker stops"

/* A sentence; see record/text.c. */
struct text {
    char data[512];
    size_t bytes;
};

/* Somebody breaks the protocol: operators are told, but not each time. */
struct complaints {
    struct job *job;      /* NULL: a stranger, all jobs are told */
    struct party *party;  /* NULL: nobody with a name */
    struct timer timer;   /* set for a while after they were told of */
    int64_t period_ms;    /* that while */
    uint64_t count;       /* that came since */
    uint32_t incarnation; /* whose the last is */
    struct text text;     /* the last */
};

/* The journal is well or not: all jobs are told, but not each time if that changes for ever. */
struct journal_word {
    enum journal_health health; /* as it is */
    enum journal_health told;   /* ... and as all jobs were told */
    bool has_changed;           /* since then, if only for a moment */
    struct timer timer;         /* set for a while after they were told */
    int64_t period_ms;          /* that while */
    struct text text;           /* about how it is */
};

/* A failure that slots, events and ends share: the encoded error and what the core needs of it. */
struct failure {
    uint32_t id; /* of the pool; first in every pooled object */
    uint32_t refs;
    uint8_t *bytes;
    uint32_t byte_count;
    uint32_t id_bytes; /* the error's id lies in bytes, here: */
    uint32_t id_at;
    uint32_t type_bytes; /* and its type, likewise */
    uint32_t type_at;
    uint64_t number; /* in facts; 0: none has spoken of it */
    enum error_kind kind;
    struct list grave; /* in core->graves once nobody refers to it: gone at the next step */
};

/* An error that a job can fail of: kept, so that it can be told, and told again by a snapshot. */
struct judged {
    struct failure *failure; /* a reference */
    int64_t at_ns;           /* when it came */
    int64_t life_from_ns;    /* when the life began that it ended; 0: not known */
    uint32_t
        blamed[LIMIT_ERROR_BLAMES]; /* which lives of the parties it blames; 0: cannot be told */
};

/* What a job failed of, or may: lifecycle/judgement.c. */
struct judgement {
    struct verdict verdict;
    struct judged *errors; /* in the order in which they came */
    uint32_t count, room;
    uint32_t survived_count; /* of these, the first so many */
    uint64_t bytes;          /* of the errors */
    struct name_map by_id;   /* id of an error -> its failure's in core->failures */
    bool is_said;
    bool is_final;
    int64_t said_ns;
    struct failure *root;   /* as it was said last: a reference */
    struct span why;        /* as it was said last: owned */
    struct span why_before; /* what this step may have told before that; owned */
    struct timer timer;     /* the next look */
    struct list link;       /* in core->judged: to be looked at when the step ends */
    struct list waiters;    /* observers that asked for the final word */
};

struct job {
    uint32_t id;
    struct span name; /* owned */
    uint32_t attempt;
    struct name_map parties; /* name -> id in core->parties */
    struct name_map topics;  /* name -> id in core->topics */
    struct list party_list;
    struct list topic_list;
    struct list sub_list;  /* all subscriptions, attached or kept */
    struct list bare_list; /* ended parties that nothing refers to, oldest first */
    struct list taps;      /* sessions that follow the control topic */
    uint32_t party_count;
    uint32_t session_count; /* parties and observers */
    uint64_t bytes;         /* of kept values */
    uint64_t open_count;
    struct list trim_at;    /* a mark in topic_list: where trimming under pressure goes on */
    struct list hungry;     /* topics whose writers wait for room in the job, not in the topic */
    uint64_t hungry_bytes;  /* bytes, when they were last looked at */
    struct list tight_link; /* in core->tight: somebody is held back because it is full */
    struct timer linger;
    struct job_spec spec;
    enum job_state state;
    struct roster roster;
    bool is_called_off;  /* its deadline passed, or it was cancelled: no other attempt */
    bool is_window_over; /* GATHERING: min will do */
    int64_t pause_ms;    /* PAUSING */
    int64_t due_wall_ns; /* the deadline by the wall clock, for a restart */
    struct timer window; /* join window, or pause: by its state */
    struct timer deadline;
    struct failure *failure; /* a reference: what it, or its last attempt, failed of; or NULL */
    struct failure *loss;    /* a reference: of the first member lost in this epoch; or NULL */
    uint64_t error_count;    /* of its own, without a party */
    uint64_t round;          /* barriers passed in this epoch */
    uint64_t meeting_epoch;  /* of those who are at one: */
    uint32_t meeting_count;
    struct list due_link;     /* in core->jobs_due: parties came or went */
    struct job_event *events; /* ring of events, newest LIMIT_EVENTS */
    uint32_t event_room;
    uint64_t event_next; /* id of the next; the oldest kept is event_first */
    uint64_t event_first;
    uint64_t event_bytes;
    uint64_t event_bytes_ever; /* those that are kept no more included */
    struct list tell_link;     /* in core->told while taps are to be served */
    struct judgement judgement;
    struct complaints observers; /* about them */
    struct storms storms;        /* of slots that failed, and of what was refused */
    struct timer storms_timer;
    struct list attachments; /* oldest first */
    struct name_map attachment_names;
    uint32_t attachment_count;
    uint64_t attachment_bytes;
};

struct job_event {
    uint64_t id;
    int64_t at_ns;
    int64_t broker_ns; /* the same by the clock that does not jump; 0: of older facts */
    char *text;        /* owned: name, party, topic and text one behind the other */
    uint32_t name_bytes, party_bytes, topic_bytes, text_bytes;
    uint32_t first_bytes, last_bytes; /* ids of errors, behind them */
    uint32_t incarnation;
    uint64_t seq;
    uint64_t count;
    bool is_late;            /* behind the final verdict */
    uint64_t step;           /* in which it was told; 0: before a restart */
    uint64_t bytes_before;   /* of job->event_bytes_ever */
    struct failure *failure; /* a reference, or NULL */
};

struct party {
    uint32_t id;
    struct span name; /* owned */
    struct job *job;
    enum party_state state;
    uint32_t incarnation;     /* 0: never joined */
    int64_t joined_ns;        /* when it began; 0: before a restart */
    uint64_t error_count;     /* made here about this incarnation */
    uint64_t error_limit;     /* a fact says that numbers up to here may be in use */
    struct failure *ended_by; /* a reference: why the last incarnation ended; NULL: well, or it
                                 has not ended */
    uint64_t life;            /* HELLO.life that began it; 0: none, or before a restart */
    uint32_t dial;            /* HELLO.dial of that life's last connection */
    uint32_t rank;            /* its place in the job, or RANK_NONE */
    struct session *session;  /* that writes and reads for the live incarnation, or NULL */
    struct session *guard;    /* that speaks of its end alone, see lifecycle/guard.c; or NULL */
    uint32_t voice_count;     /* sessions that a guarded incarnation has had */
    uint64_t voice_life;      /* as life and dial, of the last of them */
    uint32_t voice_dial;
    struct list topics;     /* it writes */
    struct list open_slots; /* it owes */
    uint32_t open_count;
    struct complaints complaints; /* about it */
    struct list watches;          /* subscriptions that name it */
    struct list durables;         /* its durable subscriptions */
    struct list job_link;
    struct list bare_link;
};

/* Waiting control message: settles when the data before it is in. */
struct parked {
    struct list link;
    enum msg_type type;
    uint64_t number;
    uint64_t after;
    uint32_t topic;
    uint64_t seq;
    uint32_t sub;      /* ACK, TASK */
    uint32_t durable;  /* ACK: the subscription, if it has a name: it may be closed by then */
    uint32_t delivery; /* TASK, as all below */
    uint32_t how;
    int64_t retry_after_ms;
    bool is_told;            /* its event went out already */
    struct failure *failure; /* a reference, or NULL */
};

struct refusal {
    uint32_t topic;
    uint64_t seq;
    struct failure *failure; /* a reference */
    uint32_t count;          /* slots from seq on */
};
#define GRANTED_KEPT 1024  /* said again when they are asked again, whatever came of the slot */
#define REFUSALS_KEPT 1024 /* sent again after a reconnect; as the client keeps LIMIT_REFUSALS */

/* Values in chunks that may be whole here without their writer's knowing: its chunks of them, sent
 * again, are no news.  Of older ones only those are known that are kept. */
enum { UPLOADED_KEPT = 32 };

/* Of a party whose attempt is over: lifecycle/late.c. */
struct late {
    struct span party;    /* owned: its name */
    uint32_t incarnation; /* that it was */
    uint32_t attempt;
    int64_t until_ns;     /* so long it is heard, on the core's running clock */
    struct failure *over; /* a reference: why it is over */
};

/* What a client was not told yet of what is accepted: record/accept.c. */
struct owed {
    struct list link;     /* in core->owing */
    uint64_t bytes;       /* of batches */
    int64_t due_ns;       /* when it is told at the latest */
    uint32_t prompt_left; /* batches that are answered at once */
    uint32_t prompt_next; /* ... so many the next time that it was in vain to wait */
};

struct session {
    uint32_t id;
    uint64_t token;
    struct job *job;     /* NULL: an observer of none */
    struct party *party; /* NULL: an observer */
    struct late *late;   /* owned: of what was a party; NULL: all others */
    uint32_t incarnation;
    conn_id control; /* 0: closed */
    conn_id data;    /* 0: not attached */
    uint32_t dial;   /* HELLO.dial of the last connection */
    bool is_guard;   /* party->guard, not party->session */
    bool is_ready;   /* READY came on this connection */
    bool is_suspect;
    bool is_at_barrier;
    int64_t heard_ns;   /* last sign of life, on the core's running clock */
    int64_t closed_ns;  /* when its connection closed */
    int64_t suspect_ns; /* since when it is suspect */
    int64_t beat_ns;    /* heartbeat, lost_after, grace as it asked */
    int64_t lost_after_ns;
    int64_t grace_ns;
    int64_t returned_ns;      /* when the broker was back that had been away; see
                                  session_returned_all(); INT64_MIN: its client is, too */
    unsigned unheard_returns; /* so often since it was heard */
    bool is_looked_again;     /* a look that came late was not the last one */
    bool is_stall_excused;    /* once in a promise of progress */
    uint64_t progress_ms;
    struct span host; /* owned: where its process runs, as it said; it and pid are for people */
    uint64_t pid;
    struct span where; /* owned: where it was when it said so last */
    struct timer timer;
    struct timer progress;
    uint64_t data_number;  /* last frame accepted */
    uint64_t control_seen; /* last numbered control message that came */
    uint64_t data_told;    /* as in the last ACCEPTED */
    uint64_t control_told;
    uint64_t data_noted; /* as in the last fact */
    uint64_t control_noted, seen_noted;
    struct list parked;
    uint32_t parked_count;
    uint64_t parked_bytes; /* of the errors in them */
    struct list subs;
    struct id_map sub_ids;     /* the client's number -> id in core->subs */
    struct list awaits;        /* not answered yet */
    struct list awaits_ready;  /* to be answered */
    struct attachment *brings; /* or NULL; as all below, see record/courier.c */
    struct job *brings_job;
    uint64_t brings_request;
    uint64_t brings_limit; /* its credit: pieces may begin below */
    struct list turn_link; /* in core->turns or turn_waiters */
    int64_t turn_ns;       /* since when it has its turn */
    bool has_turn;
    struct id_map await_ids; /* want -> id in core->awaits */
    uint64_t data_sent;      /* bytes of frames on this data connection, */
    uint64_t data_said;      /* ... of which so many at least wait for no journal, */
    uint64_t data_marked;    /* ... and so many do not once this step is kept: */
    uint64_t data_marked_step;
    uint64_t await_sent; /* bytes on subscription 0 and this connection */
    uint64_t await_taken;
    uint32_t await_topic;         /* the last one named on it */
    struct refusal *refusals;     /* ring of REFUSALS_KEPT, made when first needed */
    uint64_t *granted;            /* ring of GRANTED_KEPT: numbers of RETRACTs that were done */
    uint64_t refusal_number;      /* of the newest */
    uint64_t chunk_refused_topic; /* the last upload refused: its other chunks are dropped mutely */
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
    struct list tap_link;
    uint64_t tap_next; /* next event to send */
    uint64_t tap_taken;
    bool tap_is_live;         /* it was sent the newest event once: it follows */
    uint64_t tap_window;      /* 0: no tap */
    struct list verdict_link; /* in a judgement's waiters */
    uint64_t verdict_request;
};

struct end_mark {
    uint32_t incarnation;
    uint64_t seq; /* the first slot that is not of this incarnation */
};
enum { END_MARKS = 4 };

/* How far the writer of a topic may be ahead: streams/lead.c. */
struct lead {
    uint64_t window_bytes; /* so much may be not taken, as long as something is */
    bool is_paused;        /* nothing was taken for a while: until something is, it is the whole */
    enum lead_state {
        LEAD_GRANT, /* until more credit is granted */
        LEAD_USE,   /* ... until it is used; mark: credit that there was before */
        LEAD_SEND,  /* ... until what it was used for is sent; mark: the end of these slots */
    } state;
    uint64_t mark;
    int64_t since_ns;       /* it is in this state */
    int64_t trip_ns;        /* from credit that was granted to the value that it was used for */
    struct list waits_link; /* in core->lead_waiters: the writer waits at less than the whole */
    int64_t waits_ns;       /* since when it does, and nothing is taken */
};

struct topic {
    uint32_t id;
    struct span name; /* owned */
    struct job *job;
    struct party *writer;
    struct slot_table slots;
    struct list routes;
    struct list unpromised;    /* awaits for numbers not reserved yet, by seq */
    struct list requests;      /* reply slots of the requests in it that are not settled, by seq */
    struct id_map request_ids; /* seq of a request -> id of its reply slot; 0: settled */
    bool is_replies;           /* of requests: "party/_replies" */
    struct group *letters;     /* whose dead letters it has, or why they died; NULL: it has none */
    struct list party_link;
    struct list job_link;
    struct list hungry_link;          /* in job->hungry */
    struct end_mark marks[END_MARKS]; /* newest last */
    uint32_t mark_count;
    uint32_t open_count;
    uint64_t begin_seq; /* the first number that was ever reserved */
    bool is_opened;     /* its writer has asked for it */
    uint64_t bytes;     /* of all that is kept */
    uint64_t credit_used;
    uint64_t credit_limit;
    uint64_t taken_floor;   /* below it every holding subscription has taken all */
    uint64_t untaken_bytes; /* from there on */
    uint64_t done_floor;    /* below it nobody needs it any more */
    uint64_t done_bytes;    /* kept below it */
    uint64_t done_slots;
    struct lead lead;
    bool is_held_back;      /* its writer waits, and less than half of its window is taken */
    bool is_slow_told;      /* ... which was told as consumer.slow */
    int64_t held_back_ns;   /* since when */
    uint32_t falling_count; /* of its failed slots, those in core->falling: it is not trimmed */
};

/* What an open slot has beside its entry. */
struct open_slot {
    uint32_t id;
    uint64_t seq;
    struct topic *topic;
    uint64_t value_bytes_max;
    struct slot_terms *terms; /* NULL: it has none */
    struct list awaits;
    struct list party_link;
    struct chunks *chunks; /* what came so far, or NULL */
};

/* What few open slots have: there may be a million of the others. */
struct slot_terms {
    uint32_t id;
    struct open_slot *open;
    struct timer timer;
    int64_t deadline_ms;    /* -1: none */
    int64_t ends_ns;        /* the deadline; INT64_MAX: none */
    int64_t due_wall_ns;    /* the same by the wall clock, for a restart */
    struct list needs;      /* edges in core->needs */
    uint32_t request_topic; /* of the request that it is for; 0: it is for none */
    uint64_t request_seq;
    struct list request_link; /* in that topic's requests */
};

/* Whether it is for a reply, whose request it has in its terms. */
static inline bool open_slot_is_reply(const struct open_slot *open)
{
    return open->terms != NULL && open->terms->request_topic != 0;
}

struct piece {
    payload_id payload;
    uint32_t bytes;
};
struct attachment {
    uint32_t id;
    uint32_t error_bytes; /* of the key: the error's id */
    struct span key;      /* owned; see record/attachment.c */
    struct piece *pieces;
    uint32_t count, room;
    uint64_t bytes;              /* kept */
    uint64_t arrived;            /* of it, kept or not */
    uint64_t promised;           /* by its error; ERROR_BYTES_UNKNOWN */
    enum attachment_state state; /* COMING, WHOLE, FULL, DROPPED; see attach_state() */
    struct session *courier;     /* who brings it, or NULL */
    int64_t left_ns;             /* since when nobody does, on the core's running clock */
    struct list link;            /* in job->attachments */
};

/* An error that stands for what a life of a party owes and root takes. */
struct fallen {
    struct failure *root;    /* a reference; NULL: there is none here */
    struct failure *failure; /* a reference */
    uint32_t party;
    uint32_t incarnation;
};
enum { FALLEN_KEPT = 32 }; /* parties that share errors while a chain or fan falls */

/* A value in chunks: shared by its slot and by who is being sent it. */
struct chunk {
    payload_id payload;
    uint32_t bytes; /* of the value in it */
    uint32_t frame_bytes;
    uint32_t offset; /* of its frame in the payload */
};
struct chunks {
    uint32_t id;
    uint32_t refs;
    struct chunk *items;
    uint32_t count, room;
    uint64_t bytes; /* that came */
    uint64_t total;
};

struct watch { /* a pattern's first level names this party */
    struct list sub_link;
    struct list party_link;
    struct sub *sub;
    struct party *party;
};
struct ending { /* an end that is to be told to a subscription, kept until it is taken */
    struct list link;
    bool is_sent;
    struct party *party;
    uint32_t incarnation;
    struct failure *failure; /* a reference, or NULL */
};

struct flight {          /* sent, not yet taken */
    struct route *route; /* NULL: an end */
    uint64_t end_seq;
    uint64_t end_bytes; /* of the subscription's sent_bytes */
};

struct sub {
    uint32_t id;
    uint32_t number;         /* the client's */
    struct session *session; /* NULL: a durable name that nobody reads */
    struct party *party;
    struct job *job;
    struct span *patterns; /* owned */
    uint32_t pattern_count;
    struct span name; /* owned; empty: not durable */
    int64_t from_seq;
    bool is_gap;     /* drops rather than holds back */
    bool is_expired; /* kept too long: as is_gap until somebody reads it again */
    int64_t keep_ns;
    struct timer timer;
    uint64_t window_bytes;
    uint64_t sent_bytes; /* on this connection */
    uint64_t taken_bytes;
    struct flight *flights; /* ring */
    uint32_t flight_room, flight_head, flight_count;
    struct list routes;
    struct id_map route_ids; /* topic -> id in core->routes */
    struct list ready;       /* routes that may have something to send */
    struct list endings;
    struct list watches;
    struct list session_link;
    struct list job_link;
    struct list durable_link;
    struct list ready_link; /* in session->subs_ready */
    struct group *group;    /* that it is the place of, or a member of; NULL: neither */
    /* of a member: */
    struct list member_link; /* in group->members */
    struct list idle_link;   /* in group->idle while it may be given more */
    struct list leases;      /* tasks that it has, in the order in which it was given them */
    struct list unsent;      /* of these, those that it was not sent on this connection */
    uint32_t held_count;     /* of leases */
    uint32_t credit;         /* so many at most; 0: it is given nothing more */
    int64_t lease_ns;        /* 0: they last until it is lost */
    struct timer lease_timer;
    uint32_t named_topic; /* named on this connection last */
    uint32_t named_replies;
};

struct route { /* where a subscription is in a topic */
    uint32_t id;
    struct sub *sub;
    struct topic *topic;
    uint64_t next_seq;     /* to be sent */
    uint64_t chunk_offset; /* within it */
    uint64_t taken_seq;    /* below it all is taken */
    uint64_t acked_seq;    /* below it all is acknowledged */
    conn_id named_on;      /* the connection on which TOPIC was sent */
    bool is_lossy;         /* a gap was told: consumer.slow said once an episode */
    uint64_t missed_seq;   /* what a durable one had not acknowledged when an attempt ended ... */
    uint64_t missed_count; /* ... until it has acknowledged that; over all attempts since */
    bool is_missed_sent;   /* on this connection */
    struct list sub_link;
    struct list topic_link;
    struct list ready_link; /* in sub->ready */
    struct list tasks;      /* of a group: those that are not over, by seq */
    struct id_map task_ids; /* ... and letters of this attempt given again: seq -> id in
                               core->tasks */
};

/* What members share: groups/group.c. */
struct group {
    uint32_t id;
    struct sub *place; /* in its topics: a durable name of the party that stands for all groups */
    uint32_t deliver_max;
    struct list members;  /* subscriptions */
    uint32_t taker_count; /* of these, those that may be given something, now or later */
    struct list idle;     /* of these, those with credit left, who waited longest first */
    struct list waiting;  /* tasks that were given before, and are to be again */
    struct list due_link; /* in core->groups_due: there may be something to give */
    struct list letters;  /* dead ones, by number */
    uint32_t letter_count;
    struct id_map past_ids; /* of earlier attempts, given again: number -> id in core->tasks */
    struct topic *dead;     /* the values of letters; NULL: there was none yet */
    struct topic *why;      /* ... and their errors */
};

/* How a task was put off. */
struct task_delay {
    int64_t due_wall_ns; /* not given before, by the wall clock; 0: it is not put off */
    int64_t ms;          /* from the moment of that on; 0: an older broker did not say */
};

/* A value that was given to a member and is not done. */
struct task {
    uint32_t id;
    enum task_state state;
    struct group *group;
    struct route *route; /* the group's, in the topic that it is of */
    struct topic *topic; /* this and seq: its name for members and facts, see group_task_make() */
    uint64_t seq;
    struct letter *letter;   /* that it was, and where its value is; NULL: in the topic */
    uint32_t delivery;       /* how often it was given to a member */
    struct sub *holder;      /* LEASED */
    uint64_t chunk_offset;   /* LEASED: of its value that was sent */
    struct timer timer;      /* DELAYED */
    struct task_delay delay; /* kept until it is given */
    struct failure *errors[LIMIT_DELIVER]; /* of deliveries: references */
    uint32_t error_count;
    struct list route_link;  /* in route->tasks, unless it was a letter */
    struct list holder_link; /* in holder->leases, or group->waiting */
    struct list unsent_link; /* in holder->unsent */
};

/* A task that nobody could do: the slot of this number in both topics of its group. */
struct letter {
    struct list link;
    uint64_t number;
    struct topic *topic; /* where it was */
    uint64_t seq;
    uint32_t deliveries;
    int64_t at_ns;
    uint32_t attempt;  /* of the job, in which it died */
    struct task *task; /* it was given again; or NULL */
};

enum await_state {
    AWAIT_UNPROMISED, /* link: topic->unpromised */
    AWAIT_OPEN,       /* link: open_slot->awaits */
    AWAIT_READY,      /* link: session->awaits_ready; the outcome is held here */
};
struct await {
    uint32_t id;
    enum await_state state;
    uint64_t want;
    struct session *session;
    struct topic *topic;
    uint64_t seq;
    bool is_value_wanted;
    uint64_t chunk_offset;
    struct slot_entry outcome; /* READY: a single slot, ref counted */
    struct list link;
    struct list session_link; /* in session->awaits until READY */
};

struct core {
    struct memory *memory;
    struct core_options options;
    char *strings; /* version and data endpoint */
    size_t string_bytes;
    struct effects *effects; /* of the step under way */
    int64_t now_ns;          /* of the step under way */
    int64_t wall_ns;
    uint64_t random;
    uint64_t steps;          /* so far, the one under way included */
    uint64_t kept;           /* ... as the event said */
    payload_id payload;      /* of the message: what it brings along; 0: nothing */
    int64_t away_ns;         /* time in which the broker itself did not run */
    int64_t excused_ns;      /* on its running clock: before that it is late at its own cost */
    struct core_moment seen; /* in facts */
    int64_t start_ns;
    struct pool jobs, parties, sessions, topics, open_slots, slot_terms, chunk_sets, subs, routes,
        awaits, failures, groups, tasks;
    struct name_map job_names;
    struct id_map conns;  /* conn -> session id */
    struct id_map tokens; /* token -> session id */
    struct timers timers;
    struct list pump;       /* sessions */
    struct list dirty;      /* sessions */
    struct list owing;      /* sessions that are owed an ACCEPTED, the oldest first */
    struct list tight;      /* jobs */
    struct list told;       /* jobs with new events */
    struct list jobs_due;   /* to be weighed at the end of the step */
    struct list judged;     /* judgements to be looked at */
    struct list graves;     /* failures */
    struct list groups_due; /* there may be something to give to members */
    struct pool attachments;
    struct list turns;        /* sessions with a window for what they bring, oldest first */
    struct list turn_waiters; /* ... that wait for one */
    uint32_t turn_count;
    struct timer turn_timer;  /* the oldest turn is over */
    struct list lead_waiters; /* topics whose writers wait for what is to be taken, longest first */
    struct timer lead_timer;  /* the first of them has waited for long */
    struct needs needs;
    struct list falling;               /* need_heads: slots that failed, and may still be needed */
    struct failure *falling_root;      /* while a dependant is settled: what all began with */
    struct fallen fallen[FALLEN_KEPT]; /* the newest, a ring */
    uint32_t fallen_at;
    struct refusal fell;   /* slots in a row whose writer is to be told; failure NULL: none */
    uint64_t parked_bytes; /* of all sessions */
    uint64_t refused_count;
    struct complaints strangers;
    struct journal_word journal;
    bool is_noting; /* decisions are told as facts */
    bool is_replaying;
    uint64_t failure_number;      /* of the newest that a fact spoke of */
    struct id_map replayed;       /* while replaying: number of a failure -> id; a reference each */
    bool is_stopping;             /* BYE was said, and is to whoever comes */
    bool has_more;                /* the pump's or the timers' bound was reached */
    struct error_record *scratch; /* LIMIT_ERROR_RECORDS + 1, for making errors */
    uint8_t *scratch_bytes;       /* LIMIT_ERROR_BYTES */
};

/* The core's clock: monotonic, without the time in which the broker itself stood still. */
static inline int64_t core_clock(const struct core *core)
{
    return core->now_ns - core->away_ns;
}

/* ---- core.c: small things for all ---- */
bool span_keep(struct core *core, struct span text, struct span *out_owned);
void span_drop(struct core *core, struct span *owned);
void core_mark_dirty(struct core *core, struct session *session);
void core_mark_pump(struct core *core, struct session *session);

/* One from the pool: any, or while replaying the one of this number, unless it is in use. */
static inline void *core_take(struct pool *pool, uint32_t id)
{
    if (id == 0)
        return pool_take(pool);
    return pool_find(pool, id) == NULL ? pool_take_at(pool, id) : NULL;
}

/* ---- record/accept.c ---- */

void accept_init(struct session *session);
/* Nothing is owed to it any more. */
void accept_drop(struct session *session);
/* Answers, or puts it off, whoever said something in this step, and whoever has waited for long. */
void accept_all(struct core *core, const struct event *event);
/* When core_step() is to be called for that; INT64_MAX: nobody waits. */
int64_t accept_deadline_ns(const struct core *core);

/* ---- lifecycle/session.c ---- */
struct session_terms {
    uint64_t token;
    conn_id conn;  /* 0: closed */
    uint32_t dial; /* of that connection */
    uint64_t heartbeat_ms, lost_after_ms, grace_ms;
    struct span host; /* copied */
    uint64_t pid;
    bool is_guard;
};
void session_hello(struct core *core, conn_id conn, const struct msg_hello *hello);
void session_attach(struct core *core, conn_id conn, const struct msg_attach *msg);
void session_position(struct core *core, struct session *session, const struct msg_position *msg);
void session_ready(struct core *core, struct session *session, const struct msg_ready *msg);
/* Where its process runs is known now. */
void session_locate(struct core *core, struct session *session, struct span host, uint64_t pid);
void session_beat(struct core *core, struct session *session, const struct msg_beat *beat);
void session_promise(struct core *core, struct session *session, const struct msg_progress *msg);
void session_hear(struct core *core, struct session *session);
void session_closed(struct core *core, conn_id conn);
void session_violation(struct core *core, conn_id conn, const char *complaint);
void session_timer(struct core *core, struct session *session);
void session_stalled(struct core *core, struct session *session);
/* The session is gone, and its connection goes on with that of an observer, who takes late over.
 * false: so does the connection. */
bool session_outlive(struct core *core, struct session *session, struct late *late);
/* The party of this session ends: slots, waits and watchers are told, and the session with it. */
void session_end_party(struct core *core, struct session *session, enum party_event event,
                       struct failure *failure, enum wire_code code);
/* The same of the party alone, by what ended its job. */
void party_terminate(struct core *core, struct party *party, struct failure *failure);
void session_completed(struct core *core, struct session *session);
static inline bool party_is_live(const struct party *party)
{
    return party->incarnation > 0 && !party_is_final(party->state);
}
void session_free_all(struct core *core);
struct party *party_get(struct core *core, struct job *job, struct span name);
struct job *job_get(struct core *core, struct span name); /* NULL: no room */
/* Without sessions it lasts for its linger time. */
void job_keep(struct core *core, struct job *job);
/* id 0: any. */
struct job *job_make(struct core *core, uint32_t id, struct span name);
void job_free(struct core *core, struct job *job);
struct party *party_make(struct core *core, uint32_t id, struct job *job, struct span name);
void party_free(struct core *core, struct party *party);
struct session *session_make(struct core *core, struct job *job, const struct session_terms *terms);
/* The party begins a new life in this session. */
void session_begin(struct core *core, struct party *party, struct session *session,
                   uint32_t incarnation);
void session_drop(struct core *core, struct session *session);
void session_resume(struct core *core, struct session *session); /* at the end of a replay */
/* Behind a standstill of so long. */
void session_returned_all(struct core *core, int64_t gap_ns);
/* Until when its client has time to come back to a broker that was away itself. */
int64_t session_window_ns(const struct core *core, const struct session *session);
void party_update_bare(struct party *party);
/* Tells its client that its incarnation is over, and drops it.  failure may be NULL. */
void session_dismiss(struct core *core, struct session *session, enum wire_code code,
                     struct failure *failure);
void job_linger(struct core *core, struct job *job); /* its timer fired */
struct session *session_of_conn(struct core *core, conn_id conn);

/* ---- lifecycle/guard.c ---- */
/* A session that speaks for the incarnation of a guard. */
void guard_begin_voice(struct core *core, struct party *party, struct session *session);
bool guard_may_say(enum msg_type type);
/* What its guard knows: a voice is over, its incarnation is not.  code is for its client. */
void guard_end_voice(struct core *core, struct party *party, enum wire_code code);
/* It waits with the loss of a closed voice at least as long as for its guard. */
int64_t guard_grace_ns(const struct session *session);
/* Any of the sessions of a live party, the writing one first. */
static inline struct session *party_any_session(const struct party *party)
{
    return party->session != NULL ? party->session : party->guard;
}

/* ---- step/batch.c ---- */
void write_batch(struct core *core, struct session *session, const struct event *event);
/* A refusal to the session's client, its cause the outcome that stands. */
void write_refuse(struct core *core, struct session *session, struct topic *topic, uint64_t seq,
                  enum error_kind kind, const char *type, const char *message,
                  struct failure *cause);
/* The session's next refusal is remembered; false: no memory. */
bool write_remember(struct core *core, struct session *session, uint32_t topic, uint64_t seq,
                    uint32_t count, struct failure *failure);
/* Values behind the last slot; room for an entry is reserved. */
void write_keep(struct core *core, struct topic *topic, const struct slot_entry *entry);
/* One open slot behind the last; false: no room. */
bool write_promise(struct core *core, struct topic *topic, uint64_t seq, uint64_t value_bytes_max,
                   int64_t deadline_ms, int64_t due_wall_ns);
/* One chunk more of an open slot's value; false: no memory. */
bool write_add_chunk(struct core *core, struct open_slot *open, uint64_t total,
                     const struct chunk *chunk);
void write_whole(struct core *core, struct open_slot *open);
struct open_slot *write_find_open(struct core *core, struct topic *topic, uint64_t seq);
/* Those that it has, or new ones that say nothing; NULL: no memory. */
struct slot_terms *write_terms(struct core *core, struct open_slot *open);
/* Takes it out of all but its awaits and its table, and gives it back. */
void write_forget_open(struct core *core, struct open_slot *open);
void write_remember_uploaded(struct core *core, struct session *session, uint32_t topic,
                             uint64_t seq);
void write_remember_upload_refused(struct core *core, struct session *session, uint32_t topic,
                                   uint64_t seq);
void write_refusals_again(struct core *core, struct session *session, uint64_t after);
void write_uploads_again(struct core *core, struct session *session);

/* Open slots of the session's party were settled with this, and not by its own word. */
void write_tell_settled(struct core *core, struct session *session, const struct refusal *settled);

/* ---- record/attachment.c ---- */
struct attach_piece {
    payload_id payload; /* 0: it has no bytes */
    uint32_t bytes;
    bool is_last;
};
struct span attach_error(const struct attachment *attachment); /* id of its error */
struct span attach_name(const struct attachment *attachment);
struct attachment *attach_find(struct core *core, const struct job *job, struct span error,
                               struct span name);
/* How it fares, as others are told. */
enum attachment_state attach_state(const struct core *core, const struct attachment *attachment);
/* The one of this name, new if need be; NULL: no memory. */
struct attachment *attach_announce(struct core *core, struct job *job, struct span error,
                                   struct span name, uint64_t promised);
/* All that an error has. */
void attach_take(struct core *core, struct job *job, const struct error_record *record);
/* Whether so many bytes more of this one may be kept; older ones go for them. */
bool attach_make_room(struct core *core, struct job *job, const struct attachment *attachment,
                      uint64_t bytes);
/* false: no memory. */
bool attach_add(struct core *core, struct job *job, struct attachment *attachment,
                const struct attach_piece *piece);
/* FULL or DROPPED; whoever brings it is told. */
void attach_end(struct core *core, struct job *job, struct attachment *attachment,
                enum attachment_state state);
void attach_forget(struct core *core, struct job *job, struct attachment *attachment);
void attach_forget_all(struct core *core, struct job *job);
void attach_resume(struct core *core);
void attach_snapshot(struct core *core, const struct job *job);

/* ---- record/courier.c ---- */
void courier_bring(struct core *core, struct session *session, const struct msg_bring *msg);
void courier_piece(struct core *core, struct session *session, const struct msg_piece *msg,
                   payload_id payload);
void courier_fetch(struct core *core, struct session *session, const struct msg_fetch *msg);
void courier_refuse_old(struct core *core, struct session *session, uint64_t request);
void courier_list(struct core *core, struct session *session, const struct msg_attachments *msg);
/* The session goes: what it brings is left where it is. */
void courier_gone(struct core *core, struct session *session);
/* The attachment is not kept, or not on: whoever brings it is told. */
void courier_lose(struct core *core, struct attachment *attachment, enum attachment_state state);
void courier_turn_over(struct core *core);

/* ---- settling/need.c ---- */
/* What is wrong with what the slot of this run needs: a type of error; or NULL. */
const char *need_refusal(struct core *core, const struct topic *topic, const struct event_run *run,
                         const char **out_message);
/* A slot that was just promised needs what its run says, in which nothing is wrong; it is settled
 * at once if some of that has failed.  false: no memory. */
bool need_take(struct core *core, struct open_slot *open, const struct event_run *run);
bool need_add(struct core *core, struct open_slot *open, const struct topic *needed, uint64_t seq);
/* Slots are settled with an error, whoever needs them is, too, in this step or a later one. */
void need_slots_failed(struct core *core, struct topic *topic, uint64_t first_seq, uint64_t count,
                       struct failure *failure);
/* Whether something that this slot needs has failed; then it is settled now, and gone. */
bool need_overtakes(struct core *core, struct open_slot *open);
void need_fall(struct core *core); /* in each step: so many as may fall in one */
void need_forget_topic(struct core *core, struct topic *topic); /* its slots go */
void need_forget_errors(struct core *core);
void need_resume(struct core *core); /* at the end of a replay */

/* ---- settling/settle.c ---- */
void settle_tell(struct core *core, struct topic *topic, uint64_t seq, struct failure *failure);
/* An open slot gets its outcome; deadline, waits, routes and accounts follow. */
void settle_open(struct core *core, struct open_slot *open, enum slot_state state, uint32_t ref,
                 struct slot_place place);
void settle_open_failed(struct core *core, struct open_slot *open, struct failure *failure);
void settle_deadline(struct core *core, struct open_slot *open);
/* All values of the writer's last life that nobody was sent become the error; for replay, one entry
 * of them. */
void settle_replace_unseen(struct core *core, struct topic *topic, struct failure *failure);
void settle_replace_entry(struct core *core, struct topic *topic, struct slot_entry *entry,
                          struct failure *failure);
/* A value that nobody was sent becomes the error; room for two entries more is reserved. */
void settle_replace(struct core *core, struct topic *topic, uint64_t seq, struct failure *failure);
/* The message waits for its data; false: too many do, or no memory. */
/* The error of a party that leaves what it owes. */
struct failure *settle_left_failure(struct core *core, struct party *party);
bool settle_park(struct core *core, struct session *session, const struct parked *op);
/* What was parked up to this number is done. */
void settle_passed(struct core *core, struct session *session, uint64_t number);
bool settle_remember_granted(struct core *core, struct session *session, uint64_t number);
/* FAIL RETRACT COMPLETE LEAVE FAIL_PARTY ACK(numbered): now, or when the data before is in. */
void settle_message(struct core *core, struct session *session, const struct msg *msg);
void settle_parked(struct core *core, struct session *session);
/* The session ends: what is parked settles with what is there.  Whether a LEAVE was among it. */
bool settle_parked_at_end(struct core *core, struct session *session);
uint64_t settle_control_number(const struct session *session);
void parked_free_all(struct core *core, struct session *session);

/* ---- streams/topic.c ---- */
void topic_open(struct core *core, struct session *session, const struct msg_topic_open *msg);
struct topic *topic_get(struct core *core, struct job *job, struct span name, enum wire_code *out);
/* id 0: any.  No subscription follows it yet. */
struct topic *topic_make(struct core *core, uint32_t id, struct party *writer, struct span name);
void topic_free(struct core *core, struct topic *topic);
/* Settled slots below seq go. */
void topic_cut(struct core *core, struct topic *topic, uint64_t seq);
/* Entries were split: what is counted by where they end is counted anew. */
void topic_recount(struct core *core, struct topic *topic);
uint64_t topic_weight(const struct core *core, const struct slot_entry *entry);
/* An entry's weight changed from before to after. */
void topic_account(struct topic *topic, const struct slot_entry *entry, uint64_t before,
                   uint64_t after);
/* The first number that is ever reserved is seq, not 0: nobody missed those below it. */
void topic_begin(struct core *core, struct topic *topic, uint64_t seq);
/* Another attempt of its job: it is empty, and its numbers begin at 0.  Nobody is there to be told,
 * but durable names. */
void topic_restart(struct core *core, struct topic *topic, bool keeps_letters);
/* Slots [first, end) came or were settled: routes and waits get going. */
void topic_news(struct core *core, struct topic *topic, uint64_t first_seq, uint64_t end_seq);
/* Positions changed, or bytes: what is taken and done with, what may go, what credit there is. */
void topic_update(struct core *core, struct topic *topic);
void topic_grant(struct core *core, struct topic *topic, bool is_forced);
/* Makes room in jobs that are full, once nothing walks their topics any more. */
void topic_relieve(struct core *core);
/* The slots [first, first + count) are settled with failure, as a run at the end. */
bool topic_append_failed(struct core *core, struct topic *topic, uint64_t first_seq, uint64_t count,
                         struct failure *failure);
bool job_has_room(struct core *core, struct job *job, uint64_t bytes);
void topic_mark_end(struct core *core, struct topic *topic, uint32_t incarnation, uint64_t seq);
uint64_t topic_end_of(const struct topic *topic, uint32_t incarnation);
void entry_ref(struct core *core, const struct slot_entry *entry);
void entry_unref(struct core *core, const struct slot_entry *entry);
void chunks_unref(struct core *core, struct chunks *chunks);

/* ---- streams/lead.c ---- */
void lead_init(struct core *core, struct topic *topic);
void lead_forget(struct topic *topic);
/* So much may be not taken now. */
static inline uint64_t lead_window(const struct core *core, const struct topic *topic)
{
    return topic->lead.is_paused ? core->options.topic_window_bytes : topic->lead.window_bytes;
}
/* All who hold writers back have taken something. */
static inline void lead_taken(struct topic *topic)
{
    topic->lead.is_paused = false;
    list_remove(&topic->lead.waits_link);
}
/* All who hold writers back were sent what lies below sent_seq. */
void lead_look(struct core *core, struct topic *topic, uint64_t sent_seq);
/* There was no credit left, or is none: whether the writer waits for what is to be taken. */
void lead_wait(struct core *core, struct topic *topic);
/* More credit is about to be, for a writer that goes on. */
void lead_granted(struct core *core, struct topic *topic);
void lead_timer(struct core *core);
/* Whether who holds this topic's writer back is to be called slow. */
bool lead_is_slow(const struct core *core, const struct topic *topic);

/* ---- streams/sub.c ---- */
/* is_again: it came before on another connection, and is answered as it was then. */
void sub_open(struct core *core, struct session *session, const struct msg_subscribe *msg,
              bool is_again);
void sub_add(struct core *core, struct session *session, const struct msg_sub_add *msg);
void sub_close(struct core *core, struct session *session, uint32_t number, bool is_drop);
void sub_drain(struct core *core, struct session *session, uint32_t number);
void sub_taken(struct core *core, struct session *session, const struct msg_taken *msg);
void sub_ack(struct core *core, struct session *session, const struct parked *op);
/* The durable subscription of this number; 0: there is none. */
uint32_t sub_durable(struct core *core, struct session *session, uint32_t number);
void sub_detach(struct core *core, struct sub *sub); /* its session ends */
void sub_free(struct core *core, struct sub *sub);
void sub_expire(struct core *core, struct sub *sub);
void sub_rewind(struct core *core, struct sub *sub); /* a fresh connection */
/* ... and what lies before the acknowledgements that wait for their data is not sent again. */
void sub_pass_done(struct core *core, struct session *session);
/* id 0: any; name empty: not durable. */
struct sub *sub_make(struct core *core, uint32_t id, struct party *party, struct span name,
                     int64_t from_seq, int64_t keep_ns);
struct sub_terms {
    uint32_t number;
    bool is_gap;
    uint64_t window_bytes;
};
bool sub_attach(struct core *core, struct session *session, struct sub *sub,
                const struct sub_terms *terms);
bool sub_keep_pattern(struct core *core, struct sub *sub, struct span pattern);
bool sub_watch(struct core *core, struct sub *sub, struct party *party);
bool sub_add_ending(struct core *core, struct sub *sub, struct party *party, uint32_t incarnation,
                    struct failure *failure);
void sub_end_told(struct core *core, struct sub *sub);
struct route *sub_route(struct core *core, struct sub *sub, struct topic *topic, uint64_t seq);
void sub_acknowledge(struct core *core, struct route *route, uint64_t next_seq);
struct sub *sub_find(struct core *core, struct session *session, uint32_t number);
bool sub_wants(const struct sub *sub, struct span topic);
bool sub_follow(struct core *core, struct sub *sub, struct topic *topic); /* a new topic */
bool sub_holds(const struct sub *sub);                                    /* holds writers back */
/* Another attempt begins, which it reads from 0 on; in the last one slots went up to next_seq. */
void route_restart(struct core *core, struct route *route, uint64_t next_seq);
uint64_t route_floor(const struct route *route);
void route_free(struct core *core, struct route *route);
void route_ready(struct core *core, struct route *route);
void sub_ready(struct core *core, struct sub *sub);
/* There may be something to send to it. */
void sub_mark(struct core *core, struct sub *sub);
void sub_ended(struct core *core, struct party *party, struct failure *failure);

/* ---- streams/await.c ---- */
void await_open(struct core *core, struct session *session, const struct msg_await *msg);
void await_close(struct core *core, struct session *session, uint64_t want);
void await_settled(struct core *core, struct list *awaits, struct slot_entry *entry);
void await_promised(struct core *core, struct topic *topic);
void await_never(struct core *core, struct party *party, struct failure *failure);
void await_free(struct core *core, struct await *await);

/* ---- groups/group.c ---- */
/* Groups are durable names of this party, which nobody is. */
#define GROUPS_PARTY "_groups"
struct member_terms {
    uint32_t credit;
    int64_t lease_ns;
};
/* The group of this name, or NULL. */
struct group *group_find(struct core *core, const struct job *job, struct span name);
/* This subscription is the place of a group from now on; NULL: no memory. */
struct group *group_make(struct core *core, struct sub *place, uint32_t deliver_max);
/* ... and this one a member; false: no memory. */
bool group_join(struct core *core, struct group *group, struct sub *sub,
                const struct member_terms *terms);
/* A subscription that is the place of a group, or its member, goes.  Its leases are nobody's any
 * more: with this failure, or (NULL) one that says that it left. */
void group_leave(struct core *core, struct sub *member, struct failure *failure);
/* A member is given nothing more; what it has it keeps. */
void group_drain(struct core *core, struct sub *member);
void group_free(struct core *core, struct group *group);
/* A party's life is over: what its members hold is given to others, in the same step. */
void group_party_ended(struct core *core, struct session *session, struct failure *failure);
static inline bool sub_is_member(const struct sub *sub)
{
    return sub->group != NULL && sub->group->place != sub;
}
static inline bool sub_is_place(const struct sub *sub)
{
    return sub->group != NULL && sub->group->place == sub;
}
void group_due(struct core *core, struct group *group);
/* At the end of a step: what can be given is given. */
void groups_deal(struct core *core);
/* A member's connection stands; another one begins; its client has this lease. */
void group_member_ready(struct core *core, struct sub *member);
void group_member_rewind(struct sub *member);
void group_member_has(struct core *core, struct sub *member, const struct msg_position *msg);
/* What a member has made of a task. */
void group_settle(struct core *core, struct session *session, const struct parked *op);
void group_lease_timer(struct core *core, struct sub *member);
void group_task_timer(struct core *core, struct task *task);
/* NULL: there is no such task. */
struct task *group_task(const struct core *core, const struct group *group, uint32_t topic,
                        uint64_t seq);
/* The slot of the task's reply, or NULL: it wants none. */
struct open_slot *group_reply(const struct core *core, const struct task *task);
/* Where the task's value is. */
struct topic *task_topic(const struct task *task, uint64_t *out_seq);
/* It is done, cancelled or dead: nobody is told. */
void task_end(struct core *core, struct task *task);
/* The same, and whoever has it is told; failure may be NULL. */
void task_cancel(struct core *core, struct task *task, struct failure *failure);
/* A letter becomes a task; NULL: no memory. */
struct task *task_of_letter(struct core *core, struct group *group, struct letter *letter);
/* The job begins another attempt: its tasks are none. */
void group_route_restart(struct core *core, struct route *route);
void group_restart(struct core *core, struct group *group, bool keeps_letters);
/* Tasks that nobody has, those that are put off and letters that were given again among them. */
uint64_t group_waiting(const struct group *group);
/* Before it does: operators are told of what was not done, and never will be. */
void groups_tell_dropped(struct core *core, struct job *job, struct failure *failure);
void groups_resume(struct core *core); /* at the end of a replay */
/* For replay. */
struct task *group_lease(struct core *core, struct route *route, struct task *task, uint64_t seq,
                         uint32_t delivery, struct sub *member);
/* It is named by its slot, and a letter that is given again by the slot that it was; one of an
 * earlier attempt by that in which its value lies, for its own number may be another task's now.
 * NULL: no memory. */
struct task *group_task_make(struct core *core, struct route *route, struct letter *letter,
                             uint64_t seq);
bool task_add_error(struct task *task, struct failure *failure);
void task_back(struct core *core, struct task *task, struct failure *failure,
               struct task_delay delay);
void group_pass(struct core *core, struct route *route, uint64_t next_seq);

/* ---- groups/letter.c ---- */
/* The topics of a group's letters; false: no room. */
bool letter_topics(struct core *core, struct group *group);
/* What is left of a task that nobody could do. */
void letter_write(struct core *core, struct task *task, struct failure *failure);
struct letter *letter_find(const struct group *group, uint64_t number);
/* false: no memory. */
bool letter_keep(struct core *core, struct group *group, const struct letter *terms);
void letter_free(struct core *core, struct group *group, struct letter *letter);
/* Below it no slot of this topic may go: a letter needs it.  UINT64_MAX: it is no such topic. */
uint64_t letter_floor(const struct topic *topic);
void letter_message(struct core *core, struct session *session, const struct msg_dead *msg);

/* ---- groups/request.c ---- */
bool request_is_replies(struct span topic);
/* The slot of this run was written as a request: it gets its reply slot, or that fails. */
void request_written(struct core *core, struct session *session, struct topic *topic,
                     const struct event_run *run, bool is_kept);
/* For replay, too: reply NULL: it is settled.  false: no memory. */
bool request_link(struct core *core, struct topic *topic, uint64_t seq, struct open_slot *reply);
/* The reply slot that is not settled, or NULL; out_is_request: whether the slot is a request. */
struct open_slot *request_reply(const struct core *core, const struct topic *topic, uint64_t seq,
                                bool *out_is_request);
/* Its reply slot is about to be settled: tasks for it are cancelled.  failure: what with; NULL: a
 * value. */
void request_settled(struct core *core, struct open_slot *reply, struct failure *failure);
/* The task with which this session may settle the reply slot, or NULL. */
struct task *request_task(const struct core *core, const struct session *session,
                          const struct open_slot *reply);
/* A slot that may have been a request is kept no more. */
void request_forget(struct core *core, struct topic *topic, const struct slot_entry *entry);
void request_unlink(struct core *core, struct open_slot *reply);
/* Its timer fired: whether that was its deadline.  Otherwise it was looked at. */
bool request_look(struct core *core, struct open_slot *reply);
void request_arm(struct core *core, struct open_slot *reply);
/* The last member of a group that serves the topic is gone: its requests wait for another. */
void request_arm_all(struct core *core, struct topic *topic);
/* Chunks of a reply that its worker does not finish. */
void request_drop_chunks(struct core *core, struct open_slot *reply);

/* ---- streams/pump.c ---- */
void pump_all(struct core *core);

/* ---- lifecycle/membership.c ---- */
void job_create(struct core *core, struct session *session, const struct msg_job_create *msg);
void job_show(struct core *core, struct session *session, const struct msg_job_show *msg);
/* The session may be gone afterwards. */
void job_cancel(struct core *core, struct session *session, const struct msg_job_cancel *msg);
/* Why nobody may join it now, or not this party (NULL: anybody), and the type of that error; or
 * NULL. */
const char *job_refusal(const struct job *job, const struct party *party, const char **out_type);
/* A life of a party begins; room for it in the roster is reserved. */
void job_joined(struct core *core, struct party *party);
/* A life of a party is over. */
void job_left(struct core *core, struct party *party);
/* ... with this error; called before job_left(). */
void job_lost(struct core *core, struct party *party, struct failure *failure);
void job_greet(struct core *core, struct session *session); /* its place, on a new connection */
void jobs_settle(struct core *core); /* at the end of a step: what follows from all that */
void job_window_over(struct core *core, struct job *job);
void job_deadline_passed(struct core *core, struct job *job);
bool job_is_timed(const struct job *job);
void job_resume(struct core *core, struct job *job); /* at the end of a replay */
/* For its verdict: whether it can go on. */
void job_count(const struct job *job, struct verdict_job *out);
/* What takes the place of what its parties still owe; one reference for the caller. */
struct failure *job_ending(struct core *core, struct job *job);
/* Its verdict is final: another attempt, or the end, follows. */
void job_conclude_soon(struct core *core, struct job *job);
/* For replay, too. */
void job_begin(struct core *core, struct job *job, const struct job_spec *spec,
               int64_t due_wall_ns);
void job_set_state(struct core *core, struct job *job, enum job_state state,
                   struct failure *failure);
void job_place(struct core *core, struct party *party, uint32_t rank);
void job_begin_attempt(struct core *core, struct job *job, uint32_t attempt, bool keeps_letters);

/* ---- lifecycle/late.c ---- */
/* The session ends for over; whoever stands behind it is heard for a while. */
void late_begin(struct core *core, struct session *session, struct failure *over);
void late_message(struct core *core, struct session *session, const struct msg *msg);
void late_end(struct core *core, struct session *session); /* it is told so */
void late_free(struct core *core, struct late **late);     /* NULL is a no-op */

/* ---- lifecycle/barrier.c ---- */
void barrier_come(struct core *core, struct session *session, const struct msg_barrier *msg);
void barrier_forget(struct session *session);          /* it is not there any more */
void barrier_look(struct core *core, struct job *job); /* whether all are there now */
/* Whoever waits there is told this instead. */
void barrier_end(struct core *core, struct job *job, enum wire_code code, const char *type,
                 const char *message);

/* ---- record/failure.c ---- */
struct failure_spec {
    struct job *job;
    struct party *party;           /* whose failure it is; NULL: the broker's word about the job */
    const struct session *session; /* of its process; NULL: as far as the party has one */
    enum error_kind kind;
    const char *type;
    const char *message;
    struct topic *topic; /* the slot, or NULL */
    uint64_t seq;
    struct failure *cause;         /* or NULL */
    struct failure *const *causes; /* behind it; as many of them as there is room for */
    uint32_t cause_count;
    int64_t occurred_ns; /* 0: now */
    uint64_t uncertainty_ns;
};
/* Failure number 1 stands in for all that memory is short for: made while there is some, in a core
 * whose clocks still stand at 0, so that it is the same in whoever replays its facts.  false: no
 * memory. */
bool failure_keep_spare(struct core *core);
/* One reference for the caller.  Without memory: the failure set aside for that. */
struct failure *failure_make(struct core *core, const struct failure_spec *spec);
/* An error as a client encoded it, with who it is from put right; of bytes that cannot be read, one
 * that says so. */
struct failure *failure_take(struct core *core, struct session *session, struct span bytes,
                             struct topic *topic, uint64_t seq, bool *out_is_readable);
/* The same of a life that is over.  NULL: it cannot be read, or does not say that it is its. */
struct failure *failure_take_late(struct core *core, struct party *party, uint32_t incarnation,
                                  uint32_t attempt, struct span bytes);
/* Counts and tells that an error could not be read; failure stands in its place. */
void failure_refuse(struct core *core, struct session *session, struct failure *failure);
/* One that a fact tells of, with one reference.  NULL: no memory, or no error. */
struct failure *failure_restore(struct core *core, struct span bytes);
/* The error of this id within failure, with what led to it, as one of its own.  NULL: it is not
 * there, or no memory. */
struct failure *failure_extract(struct core *core, const struct failure *failure, struct span id);
/* What the verdict knows of an error of which nothing else is kept. */
struct failure *failure_recall(struct core *core, const struct job *job,
                               const struct verdict_error *error);
struct failure *failure_ref(struct failure *failure); /* NULL: NULL */
void failure_unref(struct core *core, struct failure *failure);
void failure_bury(struct core *core); /* those that nobody refers to since the last step */
static inline struct span failure_span(const struct failure *failure)
{
    return failure != NULL ? span_of(failure->bytes, failure->byte_count) : SPAN_NONE;
}
static inline struct span failure_id(const struct failure *failure)
{
    return span_of(failure->bytes + failure->id_at, failure->id_bytes);
}
static inline struct span failure_type(const struct failure *failure)
{
    return span_of(failure->bytes + failure->type_at, failure->type_bytes);
}

/* ---- lifecycle/judgement.c ---- */
/* false: no memory. */
bool judge_init(struct core *core, struct job *job);
void judge_fini(struct core *core, struct job *job);
/* An error that the job can fail of: of this party, which has not ended by it yet, or the broker's
 * word about the job (NULL).  Whether it came too late to count. */
bool judge_error(struct core *core, struct job *job, const struct party *party,
                 struct failure *failure);
/* The job's parties changed, or time passed: it is looked at when this step ends. */
void judge_look(struct core *core, struct job *job);
/* A party is done, and well. */
void judge_completed(struct core *core, struct job *job);
/* A party begins a life. */
void judge_joined(struct core *core, struct job *job);
/* What comes from now on is weighed anew. */
void judge_anew(struct core *core, struct job *job);
void judge_all(struct core *core); /* at the end of a step */
/* A party is back on another connection: it may have missed what was said. */
void judge_tell_again(struct core *core, struct session *session);
void judge_asked(struct core *core, struct session *session, const struct msg_verdict_ask *msg);
/* While replaying. */
bool judge_restore_error(struct core *core, struct job *job, const struct judged *judged);
void judge_restore_survived(struct job *job);
bool judge_restore_said(struct core *core, struct job *job, bool is_final, int64_t at_ns,
                        struct failure *root, struct span why);
void judge_resume(struct core *core, struct job *job); /* at its end */

/* ---- record/tell.c ---- */
struct tell {
    const char *name;
    struct party *party;
    uint32_t incarnation;
    struct topic *topic;
    uint64_t seq;
    uint64_t count;
    const char *text;
    struct failure *failure;
    struct failure *first; /* where it stands for several errors: the first of them, or NULL */
    bool is_late;          /* it came when the final verdict had been said */
    bool is_logged;        /* io has said so already */
};
void tell(struct core *core, struct job *job, const struct tell *what);
/* The same, unless there were many like it: then later, together with others. */
void tell_like(struct core *core, struct job *job, enum storm_event event, const struct tell *what);
/* What is held is told now: of this party, which is about to be over; NULL: all. */
void tell_storms(struct core *core, struct job *job, const struct party *party);
void tell_storms_again(struct core *core, struct job *job); /* its time has come */
struct tell_event {
    uint64_t id;
    int64_t at_ns, broker_ns;
    struct span name, party, topic, text, first_error, last_error; /* copied */
    uint32_t incarnation;
    uint64_t seq;
    uint64_t count;
    struct failure *failure;
    bool is_late;
};
/* The newest of the job's events; older ones go when there are too many.  false: no memory. */
bool tell_keep(struct core *core, struct job *job, const struct tell_event *what);
void complaints_init(struct complaints *complaints, struct job *job, struct party *party);
/* The protocol was broken: those who watch the job, or all jobs, learn of it; at once if it is the
 * first time, else with a count when its time has come. */
void tell_complaint(struct core *core, struct complaints *complaints, uint32_t incarnation,
                    const char *text);
void tell_complaints(struct core *core, struct complaints *complaints); /* its time has come */
void tell_tap(struct core *core, struct session *session, const struct msg_tap *msg);
void tell_taken(struct core *core, struct session *session, uint64_t id);
void tell_pump(
    struct core *core); /* at the end of a step: events that are evicted in it are not sent */
/* The journal's state is this one now. */
void tell_journal(struct core *core, enum journal_health health, const char *text);
void tell_journal_again(struct core *core); /* its time has come */
/* A job that begins learns what the others were told. */
void tell_journal_to(struct core *core, struct job *job);
void tell_forget(struct core *core, struct job *job);
void tell_status(struct core *core, struct session *session, const struct msg_status *msg);

/* ---- record/note.c: facts; nothing happens unless core->is_noting ---- */
void note_failure_made(struct core *core, struct failure *failure);
void note_failure_forgotten(struct core *core, const struct failure *failure);
void note_job_begun(struct core *core, const struct job *job);
void note_job_ended(struct core *core, const struct job *job);
void note_job_created(struct core *core, const struct job *job);
void note_job_moved(struct core *core, const struct job *job);
void note_placed(struct core *core, const struct party *party);
void note_queued(struct core *core, const struct party *party);
void note_epoch_begun(struct core *core, const struct job *job);
void note_met(struct core *core, const struct job *job);
void note_attempt_begun(struct core *core, const struct job *job);
void note_party_known(struct core *core, const struct party *party);
void note_party_forgotten(struct core *core, const struct party *party);
void note_party_joined(struct core *core, const struct party *party);
void note_party_ended(struct core *core, const struct party *party);
void note_session_ended(struct core *core, const struct party *party);
void note_guard_joined(struct core *core, const struct party *party);
void note_voice_joined(struct core *core, const struct party *party);
void note_guard_ended(struct core *core, const struct party *party);
void note_located(struct core *core, const struct session *session);
void note_error_numbers(struct core *core, const struct party *party);
void note_numbers(struct core *core, struct session *session);
void note_parked(struct core *core, const struct session *session, const struct parked *op);
void note_progress(struct core *core, const struct session *session);
void note_topic_known(struct core *core, const struct topic *topic);
void note_topic_forgotten(struct core *core, const struct topic *topic);
void note_topic_opened(struct core *core, const struct topic *topic);
void note_topic_begun(struct core *core, const struct topic *topic);
void note_credit(struct core *core, const struct topic *topic);
void note_end_marked(struct core *core, const struct topic *topic, const struct end_mark *mark);
void note_trimmed(struct core *core, const struct topic *topic);
/* A new entry: values, an error, or an open slot without chunks. */
void note_entry(struct core *core, const struct topic *topic, const struct slot_entry *entry);
static inline void note_appended(struct core *core, const struct topic *topic,
                                 const struct slot_entry *entry)
{
    if (core->is_noting) /* on the way of every value: without a journal a branch is all it costs */
        note_entry(core, topic, entry);
}
void note_attached(struct core *core, const struct job *job, const struct attachment *attachment,
                   const struct attach_piece *piece);
void note_attachment_announced(struct core *core, const struct job *job,
                               const struct attachment *attachment);
void note_attachment_dropped(struct core *core, const struct job *job,
                             const struct attachment *attachment);
void note_attachment_forgotten(struct core *core, const struct job *job,
                               const struct attachment *attachment);
void note_needed(struct core *core, const struct open_slot *open, struct need_key key);
/* An open slot got its outcome. */
void note_settled(struct core *core, const struct topic *topic, const struct slot_entry *entry);
void note_retracted(struct core *core, const struct topic *topic, const struct slot_entry *entry);
void note_chunk_added(struct core *core, const struct topic *topic, uint64_t seq, uint64_t total,
                      const struct chunk *chunk);
void note_refused(struct core *core, const struct session *session, uint64_t number);
void note_uploaded(struct core *core, const struct session *session, uint32_t topic, uint64_t seq);
void note_upload_refused(struct core *core, const struct session *session);
void note_granted(struct core *core, const struct session *session, uint64_t number);
void note_sub_opened(struct core *core, const struct sub *sub);
void note_pattern_added(struct core *core, const struct sub *sub, struct span pattern);
void note_watched(struct core *core, const struct watch *watch);
void note_followed(struct core *core, const struct route *route, uint64_t seq);
void note_missed(struct core *core, const struct route *route);
void note_sub_attached(struct core *core, const struct sub *sub);
void note_sub_detached(struct core *core, const struct sub *sub);
void note_sub_expired(struct core *core, const struct sub *sub);
void note_sub_closed(struct core *core, const struct sub *sub);
void note_acknowledged(struct core *core, const struct route *route);
void note_end_due(struct core *core, const struct sub *sub, const struct ending *ending);
void note_end_told(struct core *core, const struct sub *sub);
void note_group_made(struct core *core, const struct group *group);
void note_member_joined(struct core *core, const struct sub *member);
void note_member_drained(struct core *core, const struct sub *member);
void note_leased(struct core *core, const struct task *task);
void note_task_back(struct core *core, const struct task *task, struct failure *failure);
void note_task_error(struct core *core, const struct task *task, struct failure *failure);
void note_task_ended(struct core *core, const struct task *task);
void note_passed(struct core *core, const struct route *route);
void note_requested(struct core *core, const struct topic *topic, uint64_t seq,
                    const struct open_slot *reply);
void note_letter_kept(struct core *core, const struct group *group, const struct letter *letter);
void note_letter_replayed(struct core *core, const struct group *group,
                          const struct letter *letter);
void note_letter_gone(struct core *core, const struct group *group, const struct letter *letter);
void note_event(struct core *core, const struct job *job, const struct job_event *event);
void note_verdict_error(struct core *core, const struct job *job, const struct judged *judged);
void note_verdict_survived(struct core *core, const struct job *job);
void note_verdict_said(struct core *core, const struct job *job);
void note_verdict_forgotten(struct core *core, const struct job *job);

/* ---- replay/replay.c ---- */
void replay_forget(struct core *core); /* failures that facts spoke of are held no longer */

/* ---- record/text.c: sentences without stdio ---- */
void text_init(struct text *text);
void text_add(struct text *text, const char *part);
void text_add_span(struct text *text, struct span part);
void text_add_number(struct text *text, uint64_t number);

#endif
