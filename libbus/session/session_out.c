/* SPDX-License-Identifier: MPL-2.0 */
/* session_out.c -- the next message to send, on both channels.
 *
 * A control message is encoded once, when its turn comes, and stays in session.stage until the link
 * takes it.  The order is: heartbeats and progress; topics that we numbered; numbered messages;
 * questions about topics and wants; credit; messages of observers. */
#include "libbus/session/session_out.h"

#include "libbus/base/must.h"
#include "libbus/session/model.h"
#include "libbus/session/session_acks.h"
#include "libbus/session/session_connection.h"
#include "libbus/session/session_courier.h"
#include "libbus/session/session_disclosure.h"
#include "libbus/session/session_member.h"
#include "libbus/session/session_tasks.h"
#include "libbus/session/session_verdict.h"
#include "libbus/session/session_waiting.h"
#include "libbus/session/session_watch.h"

#include <string.h>

/* ---- control --------------------------------------------------------------------------------- */

static void hello_message(struct session *session, struct msg *out)
{
    const struct session_options *options = &session->options;
    out->type = MSG_HELLO;
    out->as.hello = (struct msg_hello){
        .major = PROTOCOL_MAJOR,
        .minor = PROTOCOL_MINOR,
        .library = options->library,
        .job = options->job,
        .party = options->party,
        .role = session->is_observer ? 1
                : options->is_guard  ? 2
                                     : 0,
        .token = session->token,
        .heartbeat_ms = (uint64_t)options->heartbeat_ms,
        .lost_after_ms = (uint64_t)options->lost_after_ms,
        .grace_ms = (uint64_t)options->grace_ms,
        .broker = session->token != 0 ? session->broker : 0,
        .attempt = session->token != 0 ? session->attempt : 0,
        .refusal_number = session->token != 0 ? session->refusal_number : 0,
        .data_number = session->token != 0 ? session->outbox.accepted : 0,
        .control_number = session->token != 0 ? session->controls.accepted : 0,
        .dial = session->dials,
        .client = options->client,
        .guard = session->token == 0 ? options->guard : 0,
        .run = options->run,
        .run_rule = options->run_rule,
        .auditor = options->auditor,
        .can_seal = options->can_seal,
    };
    session->is_hello_due = false;
    session->is_hello_sent = true;
    session->hello_ns = session->now_ns;
}

/* The POSITION of the next stream; false: all were told. */
static bool position_message(struct session *session, struct msg *out)
{
    const struct inbox_stream *stream;
    while ((stream = pool_next(&session->inbox.streams, session->position_at)) != NULL) {
        session->position_at = stream->id;
        if (stream->is_party || stream->sub->is_closing || stream->sub->is_shared ||
            stream->sub->code != CODE_OK)
            continue;
        out->type = MSG_POSITION;
        out->as.position = (struct msg_position){.sub = stream->sub->number,
                                                 .topic = stream->topic,
                                                 .next_seq = stream->position_seq,
                                                 .chunk_offset = stream->position_offset};
        return true;
    }
    return false;
}

static bool attach_message(struct session *session, struct msg *out)
{
    if (!session->is_ready_due)
        return false;
    if (position_message(session, out) || tasks_message(session, out) ||
        wants_await(&session->wants, out))
        return true;
    out->type = MSG_READY;
    out->as.ready = (struct msg_ready){.pid = 0};
    if (!session->is_observer && session_disclosure(session) < DISCLOSURE_TYPE) {
        out->as.ready.host = session->options.host;
        out->as.ready.pid = session->options.pid;
    }
    if (!session->is_observer && session_disclosure(session) < DISCLOSURE_NONE)
        out->as.ready.trace_id = session->options.trace_id;
    session->is_ready_due = false;
    return true;
}

static void say_beat(struct session *session, struct msg *out)
{
    out->type = MSG_BEAT;
    out->as.beat = (struct msg_beat){.sent_ns = session->now_ns,
                                     .trip_ns = (uint64_t)trip_far_ns(&session->trip),
                                     .broker_ns = session->echo_broker_ns,
                                     .is_unjudged = trip_is_open(&session->trip)};
}

static void plan_beat(struct session *session)
{
    session->beat_ns = session->now_ns + session->options.heartbeat_ms * SESSION_NS_PER_MS;
}

/* ATTACHED may wait for the journal for longer than a party may be silent. */
static bool early_beat_message(struct session *session, struct msg *out)
{
    if (session->now_ns < session->beat_ns)
        return false;
    say_beat(session, out);
    plan_beat(session);
    return true;
}

static bool beat_message(struct session *session, struct msg *out)
{
    bool is_due = session->now_ns >= session->beat_ns;
    if (!is_due && !session->is_trip_due)
        return false;
    session->is_trip_due = false;
    say_beat(session, out);
    if (!is_due)
        return true;
    plan_beat(session);
    acks_beat(session);
    watch_beat(session);
    waiting_beat(session);
    return true;
}

static bool progress_message(struct session *session, struct msg *out)
{
    if (!session->is_progress_due)
        return false;
    session->is_progress_due = false;
    bool is_told = session_disclosure(session) < DISCLOSURE_TYPE; /* a stall names it */
    out->type = MSG_PROGRESS;
    out->as.progress = (struct msg_progress){
        .next_within_ms = session->progress_ms,
        .where = is_told ? span_of(session->where, session->where_bytes) : SPAN_NONE};
    return true;
}

static bool topic_message(struct session *session, struct msg *out)
{
    if (list_is_empty(&session->own.asks))
        return false;
    struct own_topic *topic = LIST_OWNER(session->own.asks.next, struct own_topic, ask);
    list_remove(&topic->ask);
    if (topic->state == OWN_TOPIC_UNKNOWN)
        topic->state = OWN_TOPIC_ASKED;
    out->type = MSG_TOPIC_OPEN;
    out->as.topic_open =
        (struct msg_topic_open){.request = topic->id,
                                .topic = topic->name,
                                .own_number = topic->is_own_number ? topic->topic : 0,
                                .needed_bytes = own_topic_has_set(topic) ? topic->needed_bytes : 0};
    return true;
}

/* Stages the next numbered message; false: there is none, or it waits for uploads. */
static bool stage_control(struct session *session)
{
    struct control *control = controls_next(&session->controls);
    if (control == NULL || !uploads_reached(&session->uploads, control->after_upload))
        return false;
    memcpy(session->stage, control->data, control->bytes);
    session->stage_bytes = control->bytes;
    controls_sent(&session->controls);
    return true;
}

static void stage(struct session *session, const struct msg *msg)
{
    enum wire_err err = msg_encode(msg, session->stage, LIMIT_CONTROL_BYTES, &session->stage_bytes);
    must(err == WIRE_OK); /* everything in it was checked when it was said */
}

static bool stage_next(struct session *session)
{
    struct msg msg; /* whoever has something to say fills it; clearing it would cost each turn */
    bool is_any = false;
    switch (session->phase) {
    case PHASE_GREET:
        is_any = session->is_hello_due;
        if (is_any)
            hello_message(session, &msg);
        break;
    case PHASE_ATTACH:
        is_any = attach_message(session, &msg) || early_beat_message(session, &msg);
        break;
    case PHASE_UP:
        is_any = beat_message(session, &msg) || progress_message(session, &msg);
        if (is_any)
            break;
        acks_say(session);
        if (own_topics_has_urgent(&session->own)) {
            is_any = topic_message(session, &msg);
            break;
        }
        if (stage_control(session))
            return true;
        /* UNAWAIT goes first: one AWAIT beyond LIMIT_AWAITS at the broker is a violation. */
        is_any = topic_message(session, &msg) || wants_unawait(&session->wants, &msg) ||
                 wants_await(&session->wants, &msg) || member_message(session, &msg) ||
                 acks_message(session, &msg) || watch_message(session, &msg) ||
                 verdict_message(session, &msg) || courier_message(session, &msg) ||
                 (session->waiting.is_live && waiting_message(session, &msg));
        break;
    case PHASE_WAIT:
    case PHASE_OVER:
    case PHASE_COUNT: break;
    }
    if (is_any)
        stage(session, &msg);
    return is_any;
}

bool session_control_out(struct session *session, int64_t now_ns, uint8_t *out, size_t *out_bytes)
{
    session_see_time(session, now_ns);
    if (session->action == SESSION_CONNECT_CONTROL)
        return false;
    if (session->stage_bytes == 0 && !stage_next(session))
        return false;
    memcpy(out, session->stage, session->stage_bytes);
    *out_bytes = session->stage_bytes;
    return true;
}

void session_control_sent(struct session *session)
{
    session->stage_bytes = 0;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Only uploads need the window: without them nothing is measured. */
static void count_sent(struct session *session, uint64_t bytes)
{
    flow_window_piece(&session->flow, bytes);
    if (session->uploads.bytes > 0)
        flow_window_sent(&session->flow, session->data_sent, session->data_sent + bytes,
                         session->now_ns);
    session->data_sent += bytes;
}

/* The part with the next chunk of an upload; NULL: no memory. */
static struct buffer *cut_chunk(struct session *session, struct upload *upload)
{
    struct buffer *part = spares_take(&session->spares, upload_part_bytes(upload));
    if (part == NULL)
        return NULL;
    part->bytes = upload_part_bytes(upload);
    upload_part_write(upload, part->data);
    uint64_t before = session->uploads.under_way;
    uploads_sent(&session->uploads, upload);
    count_sent(session, session->uploads.under_way - before);
    pace_sent(&session->pace, upload->topic, upload->seq, upload->sent, session->now_ns);
    return part;
}

static inline bool is_uploading(const struct session *session)
{
    bool is_pinging = session->courier.ping.is_due && session->phase == PHASE_UP;
    return session->part != NULL || is_pinging || !list_is_empty(&session->uploads.items);
}

static inline bool is_data_due(const struct session *session)
{
    return outbox_is_due(&session->outbox, session->now_ns) || is_uploading(session);
}

bool session_is_uploading(const struct session *session)
{
    return is_uploading(session);
}

bool session_data_is_due(const struct session *session)
{
    return is_data_due(session);
}

bool session_data_may_be_due(const struct session *session)
{
    return is_data_due(session) || outbox_has_pause(&session->outbox);
}

bool session_data_is_due_at(struct session *session, int64_t now_ns)
{
    session_see_time(session, now_ns);
    return session_data_is_due(session);
}

struct buffer *session_data_out(struct session *session, int64_t now_ns)
{
    session_see_time(session, now_ns);
    if (session->action != SESSION_NOTHING)
        return NULL;
    if (session->part != NULL || session->phase != PHASE_UP)
        return session->part;
    session->part = courier_ping_part(session);
    if (session->part != NULL)
        return session->part;
    /* Batches and chunks take turns, so that neither holds the other up. */
    bool is_batch_turn = session->is_chunk_last && outbox_is_due(&session->outbox, now_ns);
    struct upload *upload =
        is_batch_turn ? NULL : uploads_next(&session->uploads, session->outbox.sent);
    if (upload != NULL)
        session->part = cut_chunk(session, upload);
    struct buffer *part =
        session->part != NULL ? session->part : outbox_part(&session->outbox, now_ns);
    if (part == NULL && session->uploads.bytes > 0)
        flow_window_stopped(&session->flow, session->uploads.unsent > 0);
    return part;
}

void session_data_sent(struct session *session)
{
    uint64_t own_bytes = session->part != NULL ? session->part->bytes : 0; /* under way already */
    if (session->outbox.sent == session->outbox.accepted && session->uploads.under_way <= own_bytes)
        session_data_moved(session); /* nothing else is under way */
    if (session->part == NULL) {
        count_sent(session, outbox_part(&session->outbox, session->now_ns)->bytes);
        outbox_part_sent(&session->outbox, session->now_ns);
        session->is_chunk_last = false;
        return;
    }
    session->is_chunk_last = !session->is_attach_part;
    session->is_attach_part = false;
    spares_give(&session->spares, &session->part);
}
