/* SPDX-License-Identifier: MPL-2.0 */
/* session.h -- what a client knows: one membership, pure.
 *
 * Calls of the application and parts from the broker go in, with the time; parts to send, frames
 * to hand out and news for waiters are pulled out.  No clock, no I/O, no thread, no randomness:
 * whoever holds the session (libbus/api with its lock, the simulation without one) carries bytes
 * and time.  schemas/PROTOCOL.md is the law it follows.
 *
 * Order of use, whenever anything went in: pull session_action() until none, then
 * session_control_out() and session_data_out() as long as the link takes them, then look at
 * session_news() and wake whom it concerns.
 *
 * Layers, lowest first.  A file calls only files of lower layers; tests/rules/layers.table checks
 * that.  Each file of layer 4 and above has a header of the same name for what others may call.
 *
 *    1  leaves that stand alone: phase, once, controls, known_topics, ...
 *    2  leaves over leaves: inbox (frames received), outbox (frames not accepted yet), uploads
 *       (values sent in chunks), wants (awaited slots)
 *    3  session.h, and 4 session_observe.h, session_disclosure.h: what the application's side
 *       may call
 *    5  model.h            struct session
 *    6  session_state      what can be read of a session
 *    7  session_errors     errors made by this client
 *    8  session_unaccepted values that the broker had not accepted when the incarnation ended
 *    9  session_connection connections: made, given up, closed; the end of the session
 *   10  session_say        numbered control messages
 *       session_waiting    calls that have been blocked for long
 *   11  session_time       retries, silent links, a lost broker
 *       session_write      topics, slots, refusals
 *       session_verdict    why the job cannot go on
 *       session_watch      the tap, and questions about jobs
 *       session_courier    attachments of errors
 *       session_member     membership and barriers
 *   12  session_tasks      tasks of groups
 *   13  session_acks       TAKEN and ACK
 *   14  session_read       wants, subscriptions, what comes on the data channel
 *       session_mark       whether the broker answered all that was said
 *       session_leave      progress, failure and leave of the party
 *   15  session_greeting   from HELLO to ATTACHED
 *   16  session_in         one control message from the broker, dispatched
 *       session_out        the next message to send, on both channels
 *       session            creating and freeing a session */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include "libbus/base/buffer.h"
#include "libbus/base/memory.h"
#include "libbus/base/span.h"
#include "libbus/session/earlier.h"
#include "libbus/session/item.h"
#include "libbus/session/wait_place.h"
#include "libbus/wire/disclosure.h"
#include "libbus/wire/error.h"
#include "libbus/wire/frame.h"
#include "libbus/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct session;

struct session_options {
    struct span job;     /* empty: an observer that does not tap */
    struct span party;   /* empty: observer */
    struct span library; /* name and version, for the greeting */
    struct span host;
    uint64_t pid;
    struct span trace_id; /* of W3C: LIMIT_TRACE_ID_BYTES or empty; our errors have it */
    uint64_t client; /* client id: no other session has it; 0: two HELLOs may make two sessions */
    int64_t heartbeat_ms;
    int64_t lost_after_ms;
    int64_t grace_ms;
    int64_t broker_lost_ms;
    uint32_t endpoints; /* among which SESSION_CONNECT_CONTROL chooses; 0: one */
    size_t outbox_bytes_max, inbox_bytes_max;
    uint64_t chunk_bytes_max;   /* of a value in one frame; 0: LIMIT_CHUNK_BYTES */
    bool is_guard;              /* it says how the party ends, and neither writes nor reads */
    bool is_courier;            /* an observer that brings and fetches attachments */
    enum disclosure disclosure; /* of our errors */
    struct span auditor;        /* public key to which we seal traces, LIMIT_KEY_BYTES; or empty */
    bool can_seal;
    uint64_t guard;   /* 0, or the token of the guard for whose incarnation we speak */
    struct span run;  /* name of the run that we are part of; empty: by run_rule */
    uint8_t run_rule; /* as HELLO.run_rule */
};

enum session_state {
    SESSION_CONNECTING, /* no broker yet: HELLO said, or about to be */
    SESSION_GREETED,    /* WELCOME came, the data channel is not attached yet */
    SESSION_UP,
    SESSION_OVER, /* see session_end() */
    SESSION_STATE_COUNT,
};

/* options are copied.  Errors: CODE_ENOMEM. */
enum wire_code session_new(struct memory *memory, const struct session_options *options,
                           int64_t now_ns, struct session **out_session);
void session_free(struct session **session);
enum session_state session_state(const struct session *session);
/* The largest value that the job allows; UINT64_MAX: no limit was told yet. */
uint64_t session_value_bytes_max(const struct session *session);
bool session_is_welcome(const struct session *session); /* has been up at least once */

/* ---- time and link in ------------------------------------------------------------------------ */

/* Times are monotonic ns of this process.  session_deadline_ns(): by when session_tick() must be
 * called; INT64_MAX: never. */
void session_tick(struct session *session, int64_t now_ns);
int64_t session_deadline_ns(const struct session *session);
/* The connection of a lane is known to be closed or could not be made. */
void session_link_closed(struct session *session, int64_t now_ns);
void session_link_made(struct session *session); /* control: somebody accepted it; said often */
/* Takes one part from the broker.  One that breaks the protocol ends the session: CODE_EPROTO. */
void session_control_in(struct session *session, int64_t now_ns, struct span part);
/* head: the delivery header.  batch is taken over (set to NULL); data aligned to 8. */
void session_data_in(struct session *session, int64_t now_ns, struct span head,
                     struct buffer **batch);

/* ---- link out -------------------------------------------------------------------------------- */

enum session_action {
    SESSION_NOTHING,
    SESSION_CONNECT_CONTROL, /* a fresh control connection, to the next of the endpoints if there
                                are several; what stood before is closed, but for
                                session_keeps_link() */
    SESSION_CONNECT_DATA,    /* a fresh data connection to session_data_endpoint() */
    SESSION_DISCONNECT,      /* both; the session is over and everything was sent */
};
/* What to do with the link now; each is given once. */
enum session_action session_action(struct session *session);
const char *session_data_endpoint(const struct session *session);
bool session_has_action(const struct session *session); /* whether there is any; it stays */
/* With SESSION_CONNECT_CONTROL: whether the old connections are put aside, open and unread, until
 * the next SESSION_CONNECT_DATA or SESSION_DISCONNECT. */
bool session_keeps_link(const struct session *session);
/* The endpoint to which SESSION_CONNECT_CONTROL was carried out.  The error of a lost or stopped
 * broker names it: UTF-8, at most LIMIT_ENDPOINT_BYTES. */
void session_dialled(struct session *session, struct span endpoint);

/* The next control message to send, encoded into out (LIMIT_CONTROL_BYTES); false: none now.
 * session_control_sent() says that the link took it; without it the same one comes again. */
bool session_control_out(struct session *session, int64_t now_ns, uint8_t *out, size_t *out_bytes);
void session_control_sent(struct session *session);
/* Whether credit or acknowledgements are worth a message now.  They are if more than a part of the
 * window was taken or acknowledged since the last one, or if an acknowledgement is durable. */
bool session_control_is_due(const struct session *session);
/* The next part for the data channel, borrowed; NULL: none now.  Seals the open batch. */
struct buffer *session_data_out(struct session *session, int64_t now_ns);
void session_data_sent(struct session *session);
/* Whether there may be a part to send.  A batch may still wait for the broker's answer, to grow. */
bool session_data_is_due(const struct session *session);
/* Whether values in chunks are under way.  Their chunks are copied only when their turn comes. */
bool session_is_uploading(const struct session *session);

/* ---- the end of this party ------------------------------------------------------------------- */

/* Why the session is over, and an encoded error; CODE_OK while it is not over.  The codes are
 * EFENCED, ELOST, ECLOSED, EPROTO and EDENIED; after a refused greeting, the broker's code; and
 * EFULL for a status beyond LIMIT_CONTROL_QUEUE rows.  The first cause stays.  out_error may be
 * NULL.  It gets a reference of the caller's, or NULL if there is no error (ECLOSED after a
 * leave). */
enum wire_code session_end(const struct session *session, struct buffer **out_error);

/* ---- news: what changed since the last call, for those who wait ------------------------------ */

struct session_news {
    bool is_state;    /* session_state() or session_end() changed */
    bool is_accepted; /* outbox shrank: flushes, room */
    bool is_credit;   /* credit or a topic's number came */
    bool is_result;   /* a RESULT came, a membership, or the answer at a barrier */
    bool is_want;     /* a want is answered */
    bool is_refusal;
    bool is_notice;
    bool is_sub;    /* a subscription has something: see session_sub_news() */
    bool is_tap;    /* events */
    bool is_status; /* status rows are complete */
};
struct session_news session_news(struct session *session);

/* ---- writing --------------------------------------------------------------------------------- */

/* All calls return the code for the application.  CODE_ETIMEDOUT means "not now": wait for news
 * (is_credit, is_accepted), and call again. */

/* The session's number of a topic of ours, for the calls below; name is the whole topic.
 * Errors: EINVAL (name), EDENIED (another's), EFULL, ENOMEM. */
enum wire_code session_topic(struct session *session, struct span name, uint32_t *out_topic);

/* Publishes count values as one unit, all or none.  out_first_seq may be NULL.
 * Errors: ETIMEDOUT: no room, credit or number yet; ETOOBIG; EFULL: never will fit; ENOMEM; the
 * end's code. */
enum wire_code session_publish(struct session *session, int64_t now_ns, uint32_t topic,
                               const struct span *values, size_t count, uint64_t *out_first_seq);
/* The same for one value that is copied already.  With CODE_OK the session takes it over, by
 * reference if it travels in chunks. */
enum wire_code session_publish_owned(struct session *session, int64_t now_ns, uint32_t topic,
                                     struct buffer **value);

/* seq -1: the next.  Errors: ETIMEDOUT; ESETTLED: below the next free one; ETOOBIG; ENOMEM. */
enum wire_code session_reserve(struct session *session, int64_t now_ns, uint32_t topic, int64_t seq,
                               int64_t deadline_ms, uint64_t value_bytes_max, uint64_t *out_seq);

/* The same for a slot that needs other slots: when one of them fails, it fails too.  A need of the
 * same topic must have a number below the slot's.  Errors: the same; EINVAL: a need has not, or
 * there are more than LIMIT_SLOT_NEEDS. */
struct session_reservation {
    int64_t seq;
    int64_t deadline_ms;
    uint64_t value_bytes_max;
    const struct frame_need *needs; /* topics: well-formed */
    size_t need_count;
};
enum wire_code session_reserve_with(struct session *session, int64_t now_ns, uint32_t topic,
                                    const struct session_reservation *promise, uint64_t *out_seq);
/* The first number that is free, of a topic that was opened. */
uint64_t session_next_seq(const struct session *session, uint32_t topic,
                          struct session_earlier *out_earlier);
/* Whether the broker has settled this slot of ours, so that a value would come too late. */
bool session_is_settled(const struct session *session, uint32_t topic, uint64_t seq);

/* Commits a value: value is copied; or owned, a buffer of any size, is taken over.  An owned one
 * above SESSION_OWNED_BYTES is read when it is sent.  Errors: ETIMEDOUT: the outbox is full;
 * ETOOBIG; ESETTLED: the slot is known to have failed. */
#define SESSION_OWNED_BYTES (UINT64_C(64) * 1024)
enum wire_code session_commit(struct session *session, int64_t now_ns, uint32_t topic, uint64_t seq,
                              struct span value);
enum wire_code session_commit_owned(struct session *session, int64_t now_ns, uint32_t topic,
                                    uint64_t seq, struct buffer **value);

/* Fails the slot; error: encoded.  Cannot fail, because the reservation set room aside. */
void session_fail(struct session *session, int64_t now_ns, uint32_t topic, uint64_t seq,
                  struct span error);
/* Errors: ENOMEM.  The answer comes as session_result(number). */
enum wire_code session_retract(struct session *session, uint32_t topic, uint64_t seq,
                               struct span error, uint64_t *out_number);
/* Errors: EINVAL: slots of ours are open. */
enum wire_code session_complete(struct session *session, uint64_t *out_number);
/* Takes the RESULT of number: returns its code, and its error or NULL in out_error, which may be
 * NULL. CODE_ETIMEDOUT: not yet; the end's code: it will not come. */
enum wire_code session_result(struct session *session, uint64_t number, struct buffer **out_error);

/* Reports the failure of the party.  The session ends with CODE_ECLOSED, unless the job is failing:
 * then the first cause stands. */
void session_fail_party(struct session *session, struct span error);
void session_leave(struct session *session);
/* where: up to LIMIT_NAME_BYTES, for people. */
void session_progress(struct session *session, uint64_t next_within_ms, struct span where);

/* A mark of everything that was sent so far, and whether the broker has answered all of it. */
struct session_mark {
    uint64_t data_number;
    uint64_t control_number;
    uint64_t bulk_number;
    uint64_t ack_number;  /* acknowledgements of durable subscriptions; 0: none were waiting */
    uint64_t task_number; /* tasks that were settled */
};
struct session_mark session_mark(struct session *session);
bool session_mark_reached(const struct session *session, struct session_mark mark);
/* Whether the broker answered all values and messages up to now, whatever the connection does. */
bool session_is_answered(const struct session *session);
/* Whether LEAVE or FAIL_PARTY was queued. */
bool session_is_leaving(const struct session *session);
bool session_has_room(const struct session *session); /* in the outbox, for bus_room_fd() */
/* Changes when the broker gives credit for topic, or takes bytes that a write to it waits behind.
 * 0: a topic of another party. */
uint64_t session_write_progress(struct session *session, uint32_t topic);

/* Takes the oldest refusal: topic (borrowed), seq, and the encoded error (the caller's); false:
 * none. The newest LIMIT_REFUSALS are kept.  session_refusals_ever() counts all, for flush. */
bool session_refusal(struct session *session, struct span *out_topic, uint64_t *out_seq,
                     struct buffer **out_error);
uint64_t session_refusals_ever(const struct session *session);

/* The oldest notice that was not taken, an encoded error of the caller's; NULL: none.  What there
 * is stays when the session is over. */
struct buffer *session_notice(struct session *session);
bool session_has_notice(const struct session *session);

/* Id for an error made here: "job/party/incarnation/n", n odd (the broker's are even). */
size_t session_error_id(struct session *session, char *out, size_t room);
/* The token for parties that share a guard's incarnation; 0: no WELCOME yet. */
uint64_t session_token(const struct session *session);
uint32_t session_incarnation(const struct session *session);
uint32_t session_attempt(const struct session *session);
/* The durability of acknowledgements, as the newest WELCOME, ACCEPTED or CHUNKED said it. */
uint8_t session_durability(const struct session *session);
/* The broker's monotonic clock as estimated here, and how far that may be off. */
int64_t session_broker_ns(const struct session *session, int64_t now_ns, uint64_t *out_uncertainty);

/* ---- awaiting -------------------------------------------------------------------------------- */

/* Errors: EINVAL (topic), EFULL (LIMIT_AWAITS), ENOMEM, the end's code. */
enum wire_code session_await(struct session *session, struct span topic, uint64_t seq,
                             bool is_value_wanted, uint64_t *out_want);

/* CODE_OK: the item; CODE_ENOMEM: it came, but there was no memory for the value.  Both forget the
 * want. CODE_ETIMEDOUT: not yet; the end's code: it will not come. */
enum wire_code session_want_take(struct session *session, uint64_t want, struct session_item *out);
/* The want that was answered next after this one (0: first) and was not taken yet; 0: none. */
uint64_t session_want_answered(const struct session *session, uint64_t after);
void session_unawait(struct session *session, uint64_t want);

/* ---- subscribing ----------------------------------------------------------------------------- */

struct session_sub_options {
    struct span name;  /* empty: not durable */
    struct span group; /* empty: it shares with nobody */
    uint32_t credit;   /* of a member, as all behind it: tasks that it may have at a time; 0: 1 */
    uint64_t lease_ms; /* 0: they last until it is lost */
    uint32_t deliver_max; /* 0: the group's */
    int64_t from_seq;
    uint64_t overflow;
    uint64_t keep_ms;
    bool is_in_pieces; /* values in chunks are handed out as they come; not to members of groups */
};
enum wire_code session_subscribe(struct session *session, struct span pattern,
                                 const struct session_sub_options *options, uint32_t *out_sub);
enum wire_code session_sub_add(struct session *session, uint32_t sub, struct span pattern);
void session_unsubscribe(struct session *session, uint32_t sub, bool is_drop);
/* Drains a member of a group: it gets no more tasks, and keeps those that it has. */
enum wire_code session_sub_drain(struct session *session, uint32_t sub);

/* Takes the next frame.  CODE_OK: the item; CODE_ETIMEDOUT: nothing is here; EDENIED and others:
 * the subscription was refused (out_error); the end's code: all that is here was taken. */
enum wire_code session_sub_take(struct session *session, uint32_t sub, struct session_item *out,
                                struct buffer **out_error);
/* The same, with up to values_max values at once if they came together. */
enum wire_code session_sub_take_range(struct session *session, uint32_t sub, uint32_t values_max,
                                      struct session_item *out, struct buffer **out_error);
bool session_sub_is_readable(const struct session *session, uint32_t sub);
/* ---- groups ---------------------------------------------------------------------------------- */

/* Settles a task (TASK in PROTOCOL.md), once for each that was handed out, after its reply.  It has
 * no effect if the lease is over or the subscription is closed.  error: encoded, or empty. */
enum session_task_how {
    SESSION_TASK_DONE = 0,
    SESSION_TASK_RETURNED = 1,
    SESSION_TASK_REJECTED = 2, /* retry_after_ms -1: never again */
    SESSION_TASK_FAILED = 3,
};
void session_task_end(struct session *session, uint64_t lease, enum session_task_how how,
                      int64_t retry_after_ms, struct span error);
/* Settles the reply slot of a request with a value, which also ends the task.  owned: the buffer of
 * the value, of which a reference is taken if it is large; NULL: the value is copied.  Errors:
 * EINVAL: it is no request; ESETTLED: its lease is over; ETIMEDOUT: no room in the outbox; ETOOBIG;
 * ENOMEM; ECLOSED: its subscription is closed; the end's code. */
enum wire_code session_task_reply(struct session *session, int64_t now_ns, uint64_t lease,
                                  struct span value, struct buffer *owned);
/* Whether somebody else ended the lease.  out_why may be NULL; it gets the encoded error (the
 * caller's reference), or NULL if none came.  news.is_result tells of it. */
bool session_task_is_over(const struct session *session, uint64_t lease, struct buffer **out_why);
/* Publishes value to topic as a request.  Reserves the next slot of replies, this party's topic
 * "_replies", for the member that gets the request.  deadline_ms -1: none.  Errors: as
 * session_publish(). */
enum wire_code session_request(struct session *session, int64_t now_ns, uint32_t topic,
                               uint32_t replies, struct span value, struct buffer *owned,
                               int64_t deadline_ms, uint64_t *out_seq);

/* The next subscription with news since the last call, or 0. */
uint32_t session_sub_news(struct session *session);
/* topic: the broker's number.  The name is borrowed as long as the session exists. */
struct span session_topic_name(const struct session *session, uint32_t topic);

/* Acknowledges a slot of a subscription, in any order; the broker hears of a prefix.  For a GAP or
 * DROPPED item, seq is the last missing slot: item.seq + item.count - 1. */
void session_ack(struct session *session, uint32_t sub, uint32_t topic, uint64_t seq);
/* The same for count slots from first_seq on, with one look-up. */
void session_ack_range(struct session *session, uint32_t sub, uint32_t topic, uint64_t first_seq,
                       uint64_t count);
/* Acknowledges a PAST item. */
void session_ack_past(struct session *session, uint32_t sub, uint32_t topic);
/* Gives the slot back: this subscription never acknowledges it, nor any slot after it. */
void session_return(struct session *session, uint32_t sub, uint32_t topic, uint64_t seq);

/* ---- taking part in a job that was created --------------------------------------------------- */

struct session_membership {
    uint64_t epoch; /* 0: none yet */
    uint32_t attempt;
    uint32_t rank;
    uint32_t world_size;
};
/* What the broker said of the run when this party joined it. */
struct session_run {
    uint32_t incarnations; /* of this party in it, with this one; 0: not welcome yet */
    bool is_continued;     /* all its parties had ended, and then others joined it */
    int64_t rest_ns;       /* when the last of them had ended, by the broker's wall clock */
};
struct session_run session_run(const struct session *session);
/* The newest. */
struct session_membership session_membership(const struct session *session);
bool session_job_is_created(const struct session *session); /* as far as is known */
/* Comes to the next barrier of this epoch, or goes on waiting there.  CODE_OK: all members are
 * there; CODE_ETIMEDOUT: not yet.  Otherwise they will not all come, and out_error (may be NULL)
 * gets an error: EFAILED: the membership changed; EENDED: a member completed; the end's code. */
enum wire_code session_barrier(struct session *session, uint64_t epoch, struct buffer **out_error);
/* Stops waiting there, until it comes again. */
void session_barrier_leave(struct session *session);

#endif
