/* SPDX-License-Identifier: MPL-2.0 */
/* session_courier.c -- attachments of errors, brought and fetched: see PROTOCOL.md, "Attachments".
 *
 * Attachments use only the data channel.  The session keeps nothing of them beyond what is under
 * way.  After a reconnect a courier reads the file again from where the broker has it.  A fetch
 * goes on behind the last piece that came. */
#include "libbus/session/session_courier.h"

#include "libbus/base/must.h"
#include "libbus/session/model.h"
#include "libbus/session/session_connection.h"

#include <string.h>

/* The size of a PIECE without its bytes, at most. */
enum { PIECE_SLACK_BYTES = 64 };
/* Of fetched bytes: so many are taken before the broker is told, if more are there. */
enum { TAKEN_STEP_BYTES = 2 * LIMIT_ATTACHMENT_PIECE_BYTES };

static struct span keep(char *room, size_t room_bytes, struct span text)
{
    must(text.bytes <= room_bytes);
    memcpy(room, text.data, text.bytes);
    return span_of(room, text.bytes);
}

static void keep_label(struct session_label *label, const struct session_attachment *attachment)
{
    label->job = keep(label->job_text, sizeof label->job_text, attachment->job);
    label->error = keep(label->error_text, sizeof label->error_text, attachment->error);
    label->name = keep(label->name_text, sizeof label->name_text, attachment->name);
}

/* ---- bringing -------------------------------------------------------------------------------- */

void session_bring(struct session *session, const struct session_attachment *attachment,
                   uint64_t promised)
{
    uint64_t request = session->courier.bring.request;
    memset(&session->courier.bring, 0, sizeof session->courier.bring);
    keep_label(&session->courier.bring.label, attachment);
    session->courier.bring.request = request;
    session->courier.bring.promised = promised;
    session->courier.bring.is_on = true;
    session->courier.bring.is_due = true;
    session->courier.bring.code = CODE_ETIMEDOUT;
}

bool session_piece_wanted(const struct session *session, uint64_t *out_offset)
{
    const struct session_courier *courier = &session->courier;
    bool is_wanted = courier->bring.is_on && courier->bring.is_answered &&
                     !courier->bring.is_last_sent && courier->bring.sent < courier->bring.limit &&
                     session->phase == PHASE_UP && session->action == SESSION_NOTHING &&
                     session->part == NULL;
    if (is_wanted)
        *out_offset = courier->bring.sent;
    return is_wanted;
}

void session_piece(struct session *session, struct span bytes, bool is_last)
{
    struct msg msg = {.type = MSG_PIECE,
                      .as.piece = {.request = session->courier.bring.request,
                                   .offset = session->courier.bring.sent,
                                   .is_last = is_last,
                                   .bytes = bytes}};
    size_t written = 0;
    must(session->part == NULL && (is_last || bytes.bytes == LIMIT_ATTACHMENT_PIECE_BYTES));
    session->part = spares_take(&session->spares, bytes.bytes + PIECE_SLACK_BYTES);
    if (session->part == NULL) {
        session_lose_link(session); /* no memory: the next connection sends it again */
        return;
    }
    must(msg_encode(&msg, session->part->data, session->part->room, &written) == WIRE_OK);
    session->part->bytes = written;
    session->courier.bring.sent += bytes.bytes;
    session->courier.bring.is_last_sent = is_last;
}

enum wire_code session_brought(const struct session *session, struct session_attached *out_attached)
{
    if (out_attached != NULL)
        *out_attached = session->courier.bring.attached;
    if (session->courier.bring.is_on && session->once.code != CODE_OK)
        return session->once.code;
    return session->courier.bring.code;
}

void courier_brought_in(struct session *session, const struct msg_brought *brought)
{
    struct session_courier *courier = &session->courier;
    if (brought->request > courier->bring.request) {
        session_break(session, "BROUGHT for what is not brought");
        return;
    }
    if (brought->request < courier->bring.request || !courier->bring.is_on || courier->bring.is_due)
        return;
    bool is_over = brought->state == ATTACHMENT_WHOLE || brought->code != CODE_OK;
    if ((brought->code != CODE_OK && !code_is_error(brought->code)) ||
        brought->state >= ATTACHMENT_STATE_COUNT ||
        (!is_over && courier->bring.is_answered && brought->bytes > courier->bring.sent)) {
        session_break(session, "more of an attachment was kept than was sent");
        return;
    }
    if (!courier->bring.is_answered)
        courier->bring.sent = brought->bytes;
    courier->bring.is_answered = true;
    courier->bring.kept = brought->bytes;
    courier->bring.limit = brought->limit_bytes;
    courier->bring.attached = (struct session_attached){
        .state = (enum attachment_state)brought->state,
        .bytes = brought->bytes,
        .promised = courier->bring.promised,
    };
    session_data_moved(session);
    if (is_over) {
        courier->bring.code = (enum wire_code)brought->code;
        courier->bring.is_on = false;
        courier->bring.kept = courier->bring.sent; /* no answer to a piece is due any more */
    }
    session->news.is_status = true;
}

/* ---- fetching -------------------------------------------------------------------------------- */

void session_fetch(struct session *session, const struct session_attachment *attachment)
{
    struct session_courier *courier = &session->courier;
    uint64_t request = courier->fetch.request;
    rows_fini(&courier->fetch.pieces);
    memset(&courier->fetch, 0, sizeof courier->fetch);
    rows_init(&courier->fetch.pieces, session->memory, SESSION_FETCHED_MAX);
    keep_label(&courier->fetch.label, attachment);
    courier->fetch.request = request;
    courier->fetch.is_on = true;
    courier->fetch.is_due = true;
    courier->fetch.code = CODE_ETIMEDOUT;
}

static void finish_fetch(struct session *session, enum wire_code code)
{
    session->courier.fetch.code = code;
    session->courier.fetch.is_on = false;
    session->news.is_status = true;
}

/* Asks for the rest once all pieces have come.  Of a whole attachment there is none. */
static void ask_for_rest(struct session *session)
{
    struct session_courier *courier = &session->courier;
    if (!courier->fetch.is_answered || courier->fetch.next < courier->fetch.end)
        return;
    courier->fetch.is_answered = false;
    if (courier->fetch.is_whole)
        finish_fetch(session, CODE_OK);
    else
        courier->fetch.is_due = true;
}

bool session_fetch_take(struct session *session, struct span *out_bytes)
{
    struct session_courier *courier = &session->courier;
    struct span part;
    struct msg msg;
    if (!rows_pop(&courier->fetch.pieces, &part))
        return false;
    must(msg_decode(part, MSG_LANE_DATA, MSG_TO_CLIENT, &msg, NULL) == WIRE_OK); /* as it came */
    *out_bytes = msg.as.fetched_piece.bytes;
    courier->fetch.taken += out_bytes->bytes;
    return true;
}

enum wire_code session_fetched(const struct session *session, struct session_attached *out_attached,
                               struct span *out_why)
{
    const struct session_courier *courier = &session->courier;
    *out_attached = courier->fetch.attached;
    *out_why = span_of(courier->fetch.why, courier->fetch.why_bytes);
    if (courier->fetch.pieces.count > 0)
        return CODE_ETIMEDOUT;
    if (courier->fetch.is_on && session->once.code != CODE_OK)
        return session->once.code;
    return courier->fetch.code;
}

/* Whether this answers the FETCH under way. */
static bool is_asked(struct session *session, uint64_t request)
{
    const struct session_courier *courier = &session->courier;
    if (request > courier->fetch.request)
        session_break(session, "an answer to what was not asked");
    return request == courier->fetch.request && courier->fetch.is_on && !courier->fetch.is_due &&
           !courier->fetch.is_answered;
}

/* What is under way ends earlier, for the broker keeps no more of it.  The next FETCH says why. */
static void cut_fetch(struct session *session, const struct msg_fetched *fetched)
{
    struct session_courier *courier = &session->courier;
    if (fetched->count > 0 || fetched->offset < courier->fetch.next ||
        fetched->offset > courier->fetch.end) {
        session_break(session, "a second FETCHED does not fit the first");
        return;
    }
    courier->fetch.end = fetched->offset;
    courier->fetch.is_whole = false;
    ask_for_rest(session);
}

void courier_fetched_in(struct session *session, const struct msg_fetched *fetched)
{
    struct session_courier *courier = &session->courier;
    if (courier->fetch.is_answered && fetched->request == courier->fetch.request) {
        cut_fetch(session, fetched);
        return;
    }
    if (!is_asked(session, fetched->request))
        return;
    if (fetched->state >= ATTACHMENT_STATE_COUNT || fetched->offset > UINT64_MAX - fetched->count) {
        session_break(session, "FETCHED is not well formed");
        return;
    }
    courier->fetch.is_answered = true;
    courier->fetch.end = fetched->offset + fetched->count;
    courier->fetch.is_whole =
        fetched->state == ATTACHMENT_WHOLE && courier->fetch.end == fetched->total;
    courier->fetch.attached =
        (struct session_attached){.state = (enum attachment_state)fetched->state,
                                  .bytes = fetched->arrived,
                                  .promised = fetched->promised};
    if (fetched->count == 0)
        finish_fetch(session, CODE_OK);
    else
        ask_for_rest(session); /* its pieces may have come before it */
}

void courier_done_in(struct session *session, const struct msg_job_done *done)
{
    struct session_courier *courier = &session->courier;
    if (!is_asked(session, done->request))
        return;
    if (!code_is_error(done->code)) {
        session_break(session, "nothing was fetched, without a reason");
        return;
    }
    courier->fetch.why_bytes =
        done->message.bytes <= sizeof courier->fetch.why ? done->message.bytes : 0;
    memcpy(courier->fetch.why, done->message.data, courier->fetch.why_bytes);
    finish_fetch(session, (enum wire_code)done->code);
}

/* ---- pings ----------------------------------------------------------------------------------- */

void session_ping_data(struct session *session)
{
    session->courier.ping.is_on = true;
    session->courier.ping.is_due = true;
}

struct buffer *courier_ping_part(struct session *session)
{
    struct session_courier *courier = &session->courier;
    if (!courier->ping.is_due) /* each turn asks; a message takes longer to clear than to ask */
        return NULL;
    struct msg msg = {.type = MSG_DATA_PING,
                      .as.data_ping = {.request = courier->ping.request + 1}};
    size_t written = 0;
    struct buffer *part = spares_take(&session->spares, PIECE_SLACK_BYTES);
    if (part == NULL)
        return NULL;
    must(msg_encode(&msg, part->data, part->room, &written) == WIRE_OK);
    part->bytes = written;
    courier->ping.request += 1;
    courier->ping.is_due = false;
    return part;
}

static void pong_in(struct session *session, const struct msg_data_pong *pong)
{
    struct session_courier *courier = &session->courier;
    if (pong->request > courier->ping.request) {
        session_break(session, "DATA_PONG to no DATA_PING");
        return;
    }
    if (pong->request < courier->ping.request || !courier->ping.is_on || courier->ping.is_due)
        return; /* to one before */
    courier->ping.is_on = false;
    courier->ping.pong = *pong;
    session->news.is_status = true;
}

enum wire_code session_ponged_data(const struct session *session, struct msg_data_pong *out_pong)
{
    *out_pong = session->courier.ping.pong;
    if (session->courier.ping.is_on)
        return session->once.code != CODE_OK ? session->once.code : CODE_ETIMEDOUT;
    return CODE_OK;
}

/* ---- what comes on the data channel ---------------------------------------------------------- */

void courier_piece_in(struct session *session, struct span part)
{
    struct session_courier *courier = &session->courier;
    struct msg msg;
    enum wire_err err = msg_decode(part, MSG_LANE_DATA, MSG_TO_CLIENT, &msg, NULL);
    if (err == WIRE_OK && msg.type == MSG_DATA_PONG) {
        pong_in(session, &msg.as.data_pong);
        return;
    }
    if (err != WIRE_OK || msg.type != MSG_FETCHED_PIECE) {
        session_break(session, err != WIRE_OK ? wire_strerror(err) : "no piece of an attachment");
        return;
    }
    const struct msg_fetched_piece *piece = &msg.as.fetched_piece;
    session->data_received += piece->bytes.bytes;
    if (piece->request < courier->fetch.request || !courier->fetch.is_on)
        return; /* a piece of a fetch that was given up */
    if (piece->request > courier->fetch.request || piece->offset != courier->fetch.next ||
        courier->fetch.pieces.count == SESSION_FETCHED_MAX) {
        session_break(session, "a piece of an attachment that was not asked for");
        return;
    }
    if (!rows_push(&courier->fetch.pieces, part)) {
        session_lose_link(session); /* no memory: the next connection asks again */
        return;
    }
    courier->fetch.next += piece->bytes.bytes;
    session->news.is_status = true;
    ask_for_rest(session);
}

/* ---- what is said ---------------------------------------------------------------------------- */

/* When all that came is taken, and before that after some pieces.  The last pieces of what was
 * asked for need no word: the next FETCH tells of them. */
static bool is_taken_due(const struct session_courier *courier)
{
    uint64_t untold = courier->fetch.taken - courier->fetch.taken_told;
    bool is_more = courier->fetch.is_on && courier->fetch.is_answered &&
                   courier->fetch.next < courier->fetch.end;
    return is_more && untold > 0 &&
           (courier->fetch.pieces.count == 0 || untold >= TAKEN_STEP_BYTES);
}

bool courier_message(struct session *session, struct msg *out)
{
    struct session_courier *courier = &session->courier;
    if (courier->bring.is_due) {
        const struct session_label *label = &courier->bring.label;
        courier->bring.is_due = false;
        out->type = MSG_BRING;
        out->as.bring = (struct msg_bring){.request = ++courier->bring.request,
                                           .job = label->job,
                                           .error = label->error,
                                           .name = label->name,
                                           .promised = courier->bring.promised};
        return true;
    }
    if (courier->fetch.is_on && courier->fetch.is_due && courier->fetch.pieces.count == 0) {
        const struct session_label *label = &courier->fetch.label;
        courier->fetch.is_due = false;
        courier->fetch.taken = courier->fetch.taken_told = session->data_received;
        out->type = MSG_FETCH;
        out->as.fetch = (struct msg_fetch){.request = ++courier->fetch.request,
                                           .job = label->job,
                                           .error = label->error,
                                           .name = label->name,
                                           .offset = courier->fetch.next,
                                           .window_bytes = LIMIT_FETCH_WINDOW_BYTES,
                                           .received = session->data_received};
        return true;
    }
    if (is_taken_due(courier)) {
        courier->fetch.taken_told = courier->fetch.taken;
        out->type = MSG_FETCH_TAKEN;
        out->as.fetch_taken = (struct msg_fetch_taken){.bytes = courier->fetch.taken};
        return true;
    }
    return false;
}

void courier_rewind(struct session *session)
{
    struct session_courier *courier = &session->courier;
    courier->bring.is_due = courier->bring.is_on;
    courier->bring.is_answered = courier->bring.is_last_sent = false;
    courier->bring.sent = courier->bring.kept = courier->bring.limit = 0;
    courier->fetch.is_due = courier->fetch.is_on;
    courier->fetch.is_answered = false;
    courier->ping.is_due = courier->ping.is_on;
    session->data_received = 0;
    session->data_announced = 0;
}

void courier_fini(struct session *session)
{
    rows_fini(&session->courier.fetch.pieces);
}
