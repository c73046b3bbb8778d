/* SPDX-License-Identifier: MPL-2.0 */
/* model.h -- struct session: all the state that a session has.
 *
 * Only the session_*.c files include this header.  The leaves (outbox, inbox, wants, ...) do not
 * know the session: a leaf computes, a session_*.c file decides.  session.h has the layers. */
#ifndef SESSION_MODEL_H
#define SESSION_MODEL_H

#include "libbus/base/flow_window.h"
#include "libbus/base/trip.h"
#include "libbus/base/limits.h"
#include "libbus/base/list.h"
#include "libbus/session/clock_offset.h"
#include "libbus/session/controls.h"
#include "libbus/session/inbox.h"
#include "libbus/session/known_topics.h"
#include "libbus/session/leases.h"
#include "libbus/session/once.h"
#include "libbus/session/notices.h"
#include "libbus/session/outbox.h"
#include "libbus/session/own_topics.h"
#include "libbus/session/pace.h"
#include "libbus/session/period.h"
#include "libbus/session/phase.h"
#include "libbus/session/refused.h"
#include "libbus/session/results.h"
#include "libbus/session/rows.h"
#include "libbus/session/session.h"
#include "libbus/session/session_observe.h"
#include "libbus/session/spares.h"
#include "libbus/session/uploads.h"
#include "libbus/session/wants.h"

/* Between two attempts to connect: the first back-off, and the longest first one of a client that
 * was up.  That one is a tenth of its grace, so that there is time for several attempts. */
#define SESSION_BACKOFF_MIN_NS (20 * SESSION_NS_PER_MS)
#define SESSION_BACKOFF_LOST_NS (100 * SESSION_NS_PER_MS)
enum { SESSION_GRACE_PARTS = 10 };
/* A broker that takes over is there within seconds.  For so long after the last word of a broker a
 * client with several endpoints waits an eighth of a beat at most between two attempts. */
#define SESSION_HASTE_NS (10000 * SESSION_NS_PER_MS)
enum { SESSION_HASTE_PARTS = 8 };
#define SESSION_GREET_MIN_NS                                                                       \
    (250 * SESSION_NS_PER_MS)                        /* a WELCOME is waited for at least so long */
#define SESSION_SILENCE_NS (100 * SESSION_NS_PER_MS) /* beyond two beats: the broker is silent */
/* A tick that comes so much later than it was due shows that this process stood still. */
#define SESSION_LATE_NS SESSION_SILENCE_NS

/* A long link needs so many round trips for the transport and WELCOME, and as many for data and
 * ATTACHED. */
#define SESSION_GREET_ROUNDS 5
/* After so many brokers in a row that sent a client elsewhere, it gives up. */
#define SESSION_HOPS_MAX 4
/* So many connections get one beat each to answer.  Later connections get more and more time. */
#define SESSION_TRIES_PROMPT 4

enum {
    SESSION_SCRATCH_BYTES = LIMIT_ERROR_BYTES + 1024, /* for any message that is queued */
    /* An error made here: a message, and names. */
    SESSION_ERROR_BYTES = LIMIT_ERROR_MESSAGE_BYTES + 4 * LIMIT_NAME_BYTES + 1024,
    SESSION_SPARE_ERROR_BYTES = 200,
};

struct session_taken { /* subscription 0: awaited slots */
    uint64_t taken;    /* bytes on this data connection */
    uint64_t told;
    bool is_due;
};

/* A round of acknowledgements that wait for uploads, and for which marks wait; see
 * session_acks.c. */
struct session_ack_round {
    bool is_active;
    bool is_next_wanted;     /* marks were set after it began */
    uint64_t done;           /* rounds that have ended */
    uint64_t after_upload;   /* of the active one */
    uint64_t control_number; /* of the last round that has ended */
};

struct session_tap_state {
    bool is_on;
    bool is_due;       /* TAP is to be sent */
    bool is_taken_due; /* TAP_TAKEN is to be sent */
    bool is_any;       /* events came */
    uint64_t from_id;
    uint64_t received_id;  /* the newest received */
    uint64_t taken_id;     /* the newest taken */
    uint64_t event_next;   /* of the job, as WELCOME said; 0: not known */
    uint32_t window;       /* as said in TAP on this connection */
    uint32_t untold;       /* events taken since TAP_TAKEN, */
    uint64_t untold_bytes; /* ... and their bytes */
    uint32_t foreign;      /* the oldest in rows: their ids mean nothing to this broker */
    struct rows rows;
};

/* In what a call waited whose timeout passed. */
enum { SESSION_PAUSED_MAX = 4 }; /* of a kind: one for each thread that waits in slices */
struct session_paused {
    bool is_on;
    bool is_slice;
    bool is_old;    /* a beat found it */
    bool is_placed; /* the place below is known */
    uint32_t sub;
    uint32_t own_topic;
    uint64_t seq;
    uint32_t topic_bytes;
    char topic[LIMIT_NAME_BYTES];
};

/* Calls of one kind that are blocked. */
struct session_blocked {
    unsigned count;
    unsigned timed;      /* of these, with a timeout */
    uint64_t changes;    /* calls that began or ended */
    uint64_t seen;       /* changes at a beat */
    int64_t seen_ns;     /* the first beat with these changes */
    bool is_told;        /* the broker takes them for blocked */
    uint64_t told;       /* changes when it was told last */
    struct buffer *over; /* WAIT_OVER ended them with this error; NULL: it did not */
    struct session_paused paused[SESSION_PAUSED_MAX];
    bool is_one; /* the place below is that of all */
    uint32_t sub;
    uint32_t own_topic;
    uint64_t seq;
    uint32_t topic_bytes;
    char topic[LIMIT_NAME_BYTES];
};

struct session_waiting {
    struct session_blocked calls[SESSION_WAIT_COUNT];
    bool is_live; /* there may be something to say: calls were blocked at the last beat, or told */
    bool is_due;  /* on a new connection */
    bool has_told;
    int64_t told_ns;
    bool is_asked;          /* whether the threads of these calls are alone */
    bool is_alone;          /* they are */
    bool is_sure_told;      /* WAITING.is_sure, as said last */
    uint64_t received_told; /* WAITING.data_bytes, as said last */
    uint64_t number;        /* of the last WAITING */
};

struct session_question {
    bool is_on; /* asked, and not answered to the end */
    bool is_due;
    bool is_complete; /* rows may be taken */
    uint64_t request;
    struct msg msg; /* its texts lie below */
    uint8_t texts[SESSION_TEXTS_BYTES];
    struct rows rows;
};

/* Names an attachment. */
struct session_label {
    struct span job, error, name; /* in the texts below */
    char job_text[LIMIT_NAME_BYTES];
    char error_text[LIMIT_ERROR_ID_BYTES];
    char name_text[LIMIT_NAME_BYTES];
};

/* The pieces of a window.  The first may begin within a piece, and the last goes beyond it. */
enum { SESSION_FETCHED_MAX = LIMIT_FETCH_WINDOW_BYTES / LIMIT_ATTACHMENT_PIECE_BYTES + 2 };

struct session_courier {
    struct {
        struct session_label label;
        uint64_t promised;
        bool is_on;  /* under way */
        bool is_due; /* BRING is to be said */
        bool is_answered;
        bool is_last_sent;
        uint64_t request;
        uint64_t sent;  /* up to here on this connection */
        uint64_t kept;  /* as the broker said */
        uint64_t limit; /* credit */
        enum wire_code code;
        struct session_attached attached;
    } bring;
    struct {
        struct session_label label;
        bool is_on;
        bool is_due; /* FETCH is to be said, once all that came is taken */
        bool is_answered;
        uint64_t request;
        uint64_t next; /* the next byte that is to come */
        uint64_t end;  /* behind the last byte that comes, once FETCH is answered */
        bool is_whole; /* nothing follows behind that */
        enum wire_code code;
        struct session_attached attached;
        char why[SESSION_WHY_BYTES];
        size_t why_bytes;
        struct rows pieces;  /* FETCHED_PIECEs, in order */
        uint64_t taken;      /* bytes of pieces on this data connection */
        uint64_t taken_told; /* ... as FETCH or FETCH_TAKEN said */
    } fetch;
    struct {
        bool is_on;  /* not answered */
        bool is_due; /* DATA_PING is to be said */
        uint64_t request;
        struct msg_data_pong pong; /* the answer */
    } ping;
};

struct session_verdict {
    /* what this party heard of its job */
    struct buffer *error; /* NULL: nothing */
    unsigned state;       /* as in VERDICT */
    /* the question */
    bool is_on; /* asked, and VERDICT did not come */
    bool is_due;
    bool is_waiting; /* for the final one */
    uint32_t attempt;
    bool is_complete; /* rows may be taken */
    uint64_t request;
    struct span job; /* in job_text */
    char job_text[LIMIT_NAME_BYTES];
    struct rows rows;
};

/* This party's progress through the barriers of an epoch. */
struct session_barrier {
    uint64_t epoch;
    uint64_t round;   /* the barrier at which it is, or to which it comes next */
    bool is_there;    /* it waits */
    bool is_due;      /* BARRIER is to be sent */
    bool is_answered; /* code, and error if it is not OK */
    enum wire_code code;
    struct buffer *error;
};

struct session {
    struct memory *memory;
    struct session_options options;
    char *texts; /* behind the spans of options */
    size_t text_bytes;
    struct once once;
    struct session_news news;
    int64_t now_ns; /* the latest time that a call gave */

    /* connection */
    enum phase phase;
    enum session_action action;
    bool is_observer;
    bool is_courier;
    bool is_welcome;          /* was up once */
    bool is_leaving;          /* LEAVE or FAIL_PARTY was queued */
    bool is_let_go;           /* the broker answered it */
    uint64_t complete_number; /* of COMPLETE; 0: not said, or refused */
    bool is_failing;          /* the job failed: only LEAVE or FAIL_PARTY may still be sent */
    bool is_hello_due;
    bool is_hello_sent; /* on this connection, asking for a new session */
    bool is_attach_due;
    bool is_ready_due;
    uint32_t position_at; /* the stream whose POSITION was told last */
    uint32_t dials;       /* connections begun */
    uint32_t given_up;    /* of them, in a row, without an answer */
    int64_t attempt_ns;   /* when this connection was begun */
    int64_t backoff_ns;
    bool is_again;         /* this connection, or the next one, is to where the last one was up */
    bool is_sent_on;       /* since it was up, a broker said that another one has the job */
    int64_t retry_ns;      /* WAIT: when to try again */
    int64_t step_ns;       /* GREET, ATTACH: when to give this connection up */
    bool is_link_made;     /* GREET: somebody accepted it */
    int64_t heard_ns;      /* last message on this connection */
    int64_t alive_ns;      /* last message while up, on any */
    int64_t data_ns;       /* since when nothing of what was sent on the data channel is accepted */
    int64_t data_stall_ns; /* after so long the data channel is taken for dead */
    int64_t inflow_ns;     /* since when nothing came of what the broker says it sent as data */
    int64_t inflow_stall_ns; /* after so long the data channel is taken for dead */
    uint64_t data_received;  /* bytes of frames on this data connection */
    uint64_t data_announced; /* as the broker says, the newest ECHO */
    int64_t echo_broker_ns;  /* of the newest ECHO on this connection; 0: none came */
    int64_t beat_ns;         /* when the next BEAT is due */
    int64_t hello_ns;        /* when HELLO was sent */
    int64_t held_name_ns;    /* until then, an earlier session of ours may have the name */
    bool is_bye_said;        /* by the broker that was the last to welcome us */
    char elsewhere[LIMIT_ENDPOINT_BYTES + 1]; /* where the broker sent us; "": nowhere */
    uint32_t hops;                            /* brokers in a row that sent us elsewhere */
    char dialled[LIMIT_ENDPOINT_BYTES + 1];
    char welcomed[LIMIT_ENDPOINT_BYTES + 1]; /* dialled, when WELCOME came from there */

    /* what WELCOME said */
    uint64_t token; /* 0: no session yet */
    uint64_t broker;
    uint32_t incarnation;
    uint32_t attempt;
    struct session_run run;
    uint64_t value_bytes_max;
    int64_t patience_ms; /* broker_lost_ms is this at least; until there is a WELCOME, 0 */
    uint8_t durability;  /* of the newest acknowledgement; until there is one, as WELCOME said */
    bool is_job_created;
    enum disclosure job_disclosure;
    uint8_t job_auditor[LIMIT_KEY_BYTES];
    size_t job_auditor_bytes; /* 0: the job has none */
    char data_endpoint[LIMIT_ENDPOINT_BYTES + 1];
    struct clock_offset clock;
    uint64_t error_count; /* ids given */

    /* what is to be sent */
    uint8_t *stage;      /* LIMIT_CONTROL_BYTES: the message that the link did not take yet */
    size_t stage_bytes;  /* 0: none */
    uint8_t *scratch;    /* SESSION_SCRATCH_BYTES, for encoding */
    struct buffer *part; /* ATTACH or a chunk that the link did not take yet */
    bool is_attach_part; /* part is ATTACH */
    bool is_chunk_last;  /* the last part sent was a chunk: a batch goes first */
    struct spares spares;
    struct control *spare_leave;
    struct control *spare_fail;
    uint8_t spare_error[SESSION_SPARE_ERROR_BYTES]; /* stands in when there is no memory for one */
    size_t spare_error_bytes;
    bool is_progress_due;
    bool is_progress_said;
    uint64_t progress_ms;
    uint32_t where_bytes;
    char where[LIMIT_NAME_BYTES];

    /* writing */
    struct outbox outbox;
    struct uploads uploads;
    struct pace pace;
    struct flow_share flow_share; /* bounds nothing: the values are here anyway */
    struct trip trip;             /* of this connection */
    bool is_trip_due;             /* BEAT tells of it, or asks for another answer */
    struct flow_window flow;      /* of all data to the broker; uploads follow it */
    uint64_t data_sent;           /* bytes of batches and chunks on this data connection */
    struct controls controls;
    struct own_topics own;
    struct refused refused;
    uint64_t refusal_number; /* last REFUSAL received */
    struct results results;

    struct notices notices;

    /* reading */
    struct known_topics known;
    struct wants wants;
    struct known_topic *denied; /* what topic number 0 stands for; NULL: nothing yet */
    struct session_taken wants_taken;
    struct inbox inbox;
    struct list sub_news; /* inbox_sub.news */
    struct list talk;     /* inbox_sub.talk */
    struct list untold;   /* inbox_sub.untold */
    int64_t untold_ns;    /* when the first of these is due; INT64_MAX: none is */
    struct list acking;   /* inbox_sub.acking */
    struct list closing;  /* inbox_sub.closing */
    bool is_ack_due;      /* a numbered ACK may be said */
    struct leases leases;
    bool is_task_due;  /* a TASK may be said */
    uint32_t lease_at; /* the lease whose POSITION was told last */
    struct session_ack_round ack_round;

    /* observing */
    struct session_tap_state tap;
    struct session_question question;
    struct session_waiting waiting;
    struct session_verdict verdict;
    struct session_courier courier;

    /* taking part in a job that was created */
    struct session_membership membership;
    struct session_barrier barrier;
};

/* From these numbers of WELCOME.durability on an answer waits for a disk, and for a shared one. */
enum { SESSION_DURABILITY_DISK = 2, SESSION_DURABILITY_SHARED = 3 };

static inline void session_set_durability(struct session *session, uint64_t durability)
{
    session->durability = (uint8_t)durability;
    outbox_see_disk(&session->outbox, durability >= SESSION_DURABILITY_SHARED ? OUTBOX_SHARED_DISK
                                      : durability >= SESSION_DURABILITY_DISK ? OUTBOX_OWN_DISK
                                                                              : OUTBOX_NO_DISK);
}

/* Over a long link all uploads share the window.  A link that is not judged may be slow: little is
 * under way before what follows. */
static inline void session_set_windows(struct session *session)
{
    uint64_t window = flow_window_bytes(&session->flow);
    bool is_far = trip_is_far(&session->trip);
    session->uploads.window_bytes = window;
    bool is_open = trip_is_open(&session->trip);
    session->uploads.all_bytes = is_far ? window : is_open ? LIMIT_UNJUDGED_BYTES : UINT64_MAX;
    outbox_see_link(&session->outbox, is_far);
}

/* Whether bytes are missing of what the broker says it sent on the data channel. */
static inline bool session_is_behind(const struct session *session)
{
    return session->data_received < session->data_announced;
}

/* Time goes forward only: an earlier now_ns changes nothing. */
static inline void session_see_time(struct session *session, int64_t now_ns)
{
    if (session->now_ns < now_ns)
        session->now_ns = now_ns;
}

#endif
