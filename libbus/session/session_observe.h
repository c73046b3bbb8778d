/* SPDX-License-Identifier: MPL-2.0 */
/* session_observe.h -- the calls of observers and couriers, those about verdicts, and patience. */
#ifndef SESSION_SESSION_OBSERVE_H
#define SESSION_SESSION_OBSERVE_H

#include "libbus/session/session.h"

enum {
    SESSION_WHY_BYTES = 400,
    SESSION_TEXTS_BYTES = LIMIT_NAME_BYTES + LIMIT_ERROR_ID_BYTES, /* of a question */
};

/* ---- the verdict ----------------------------------------------------------------------------- */

/* The verdict that this party heard of its job: 0 none, 1 provisional, 2 final.  Unless it is 0,
 * out_error gets a reference to the root as an encoded error. */
unsigned session_verdict(const struct session *session, struct buffer **out_error);
/* Whether the party ended because its job failed (session_end() says EFENCED), but still has its
 * connection: it may fail for a reason of its own, or leave. */
bool session_is_failing(const struct session *session);
/* Asks the broker about this job; is_waiting: for the final verdict, when there is one. */
/* attempt 0: the newest. */
void session_ask_verdict(struct session *session, struct span job, uint32_t attempt,
                         bool is_waiting);
/* Takes one message of the answer: VERDICT_ROWs, then VERDICT.  It is borrowed until the next call.
 * false: none (yet).  news: is_status. */
bool session_verdict_take(struct session *session, struct msg *out_row);

/* ---- observers ------------------------------------------------------------------------------- */

void session_tap(struct session *session, uint64_t from_id);
/* Takes the next event, EVENT or MISSED, borrowed until the next call; false: none. */
bool session_event_take(struct session *session, struct msg *out_event);
/* The id of the job's next event, as the last WELCOME said; 0: not known. */
uint64_t session_event_next(const struct session *session);
/* Number of the broker instance, as the last WELCOME said; 0: there was none. */
uint64_t session_instance(const struct session *session);
/* broker_lost_ms of the options, or the patience that the broker asks for if that is more. */
int64_t session_broker_lost_ms(const struct session *session);
/* Asks one question at a time: a message with a request and an answer.  The session fills in the
 * request and copies the texts, SESSION_TEXTS_BYTES together at most. */
void session_ask(struct session *session, const struct msg *question);
/* Takes one message of the answer: rows, then the one that ends it (msg_is_end()).  It is borrowed
 * until the next call; false: none (yet). */
bool session_answer_take(struct session *session, struct msg *out_row);

/* ---- couriers -------------------------------------------------------------------------------- */

/* An attachment; texts are well formed, and copied. */
struct session_attachment {
    struct span job;
    struct span error; /* its id */
    struct span name;
};
/* How much of an attachment has come, as the broker says. */
struct session_attached {
    enum attachment_state state;
    uint64_t bytes;    /* that came */
    uint64_t promised; /* of its size; ERROR_BYTES_UNKNOWN */
};

/* Begins to bring this attachment, from the byte up to which the broker has it.  An attachment that
 * was under way stays as it is. */
void session_bring(struct session *session, const struct session_attachment *attachment,
                   uint64_t promised);
/* The offset of the piece that may be sent now; false: none.  A piece has
 * LIMIT_ATTACHMENT_PIECE_BYTES, or is the last. */
bool session_piece_wanted(const struct session *session, uint64_t *out_offset);
void session_piece(struct session *session, struct span bytes, bool is_last);
/* CODE_ETIMEDOUT: it goes on; CODE_OK: it is whole; EFULL, EINVAL: it is cut here; the end's code.
 * out_attached, which may be NULL, says how much came.  news: is_status. */
enum wire_code session_brought(const struct session *session,
                               struct session_attached *out_attached);

/* Begins to fetch this attachment, from its beginning. */
void session_fetch(struct session *session, const struct session_attachment *attachment);
/* The next bytes in order, borrowed until the next call; false: none (yet).  news: is_status. */
bool session_fetch_take(struct session *session, struct span *out_bytes);
/* CODE_ETIMEDOUT: more is to come, or to be taken; CODE_OK: that was all, and out_attached says of
 * how much; the end's code.  Otherwise there is nothing, and out_why (borrowed) tells people
 * why. */
enum wire_code session_fetched(const struct session *session, struct session_attached *out_attached,
                               struct span *out_why);

/* Begins to ask the broker for a sign of life over the data channel. */
void session_ping_data(struct session *session);
/* CODE_ETIMEDOUT: it did not answer yet; CODE_OK: out_pong is its answer; the end's code.  news:
 * is_status. */
enum wire_code session_ponged_data(const struct session *session, struct msg_data_pong *out_pong);

#endif
