/* SPDX-License-Identifier: MPL-2.0 */
/* session_acks.c -- tells the broker what was taken (credit) and acknowledged (durability).
 *
 * TAKEN carries credit.  The session sends it after a quarter of the least window, and with each
 * beat, so that many frames cost one message.  If its reader waits it sends it sooner: over a link,
 * and where it sent none for a while.
 *
 * The ACK of a subscription that is not durable only shows its lag in the status.  Such an ACK has
 * no number.  It goes out with every fourth TAKEN, and with each beat.
 *
 * The ACK of a durable subscription has a number.  It must not overtake a commit that the
 * application made before it acknowledged.  The field `after` orders it behind frames.  Behind
 * uploads the ACK waits here, with the position that it had when it began to wait.  Each topic has
 * at most one ACK under way, so all acknowledgements of one round trip become one message. */
#include "libbus/session/session_acks.h"

#include "libbus/session/model.h"
#include "libbus/session/session_say.h"
#include "libbus/session/session_tasks.h"

/* An ACK that only shows the lag goes out after so many steps of TAKEN. */
enum { LAG_STEPS = 4 };

static struct inbox_sub *sub_of_talk(struct list *link)
{
    return LIST_OWNER(link, struct inbox_sub, talk);
}

static struct inbox_sub *sub_of_acking(struct list *link)
{
    return LIST_OWNER(link, struct inbox_sub, acking);
}

static struct inbox_sub *sub_of_closing(struct list *link)
{
    return LIST_OWNER(link, struct inbox_sub, closing);
}

static struct inbox_stream *stream_of(struct list *link)
{
    return LIST_OWNER(link, struct inbox_stream, dirty);
}

static void talk(struct session *session, struct inbox_sub *sub)
{
    if (!list_is_linked(&sub->talk) && !sub->is_closing)
        list_push(&session->talk, &sub->talk);
}

/* ---- acknowledging --------------------------------------------------------------------------- */

static void make_due(struct session *session, struct inbox_stream *stream)
{
    stream->ack_due_seq = stream->acks.next_seq;
    stream->ack_after_upload = session_uploads_under_way(session);
}

static void make_dirty(struct session *session, struct inbox_sub *sub, struct inbox_stream *stream)
{
    if (!list_is_linked(&stream->dirty)) {
        list_push(&sub->dirty, &stream->dirty);
        make_due(session, stream);
    } else if (stream->ack_after_upload >= session_uploads_under_way(session)) {
        make_due(session, stream);
    }
    if (!list_is_linked(&sub->acking))
        list_push(&session->acking, &sub->acking);
    session->is_ack_due = session->is_ack_due || sub->is_durable;
}

void session_ack(struct session *session, uint32_t number, uint32_t topic, uint64_t seq)
{
    session_ack_range(session, number, topic, seq, 1);
}

void session_ack_range(struct session *session, uint32_t number, uint32_t topic, uint64_t first_seq,
                       uint64_t count)
{
    struct inbox_sub *sub = inbox_sub_find(&session->inbox, number);
    struct inbox_stream *stream =
        sub != NULL ? inbox_stream_find(&session->inbox, sub, topic) : NULL;
    if (stream != NULL && ack_prefix_ack_range(&stream->acks, first_seq, count) &&
        !stream->is_party)
        make_dirty(session, sub, stream);
}

/* Any ACK of the topic acknowledges the PAST item, even an ACK of no slot. */
void session_ack_past(struct session *session, uint32_t number, uint32_t topic)
{
    struct inbox_sub *sub = inbox_sub_find(&session->inbox, number);
    struct inbox_stream *stream =
        sub != NULL ? inbox_stream_find(&session->inbox, sub, topic) : NULL;
    if (stream != NULL)
        make_dirty(session, sub, stream);
}

bool session_control_is_due(const struct session *session)
{
    return session->is_ack_due || session->is_task_due || !list_is_empty(&session->talk) ||
           !list_is_empty(&session->closing);
}

void session_return(struct session *session, uint32_t number, uint32_t topic, uint64_t seq)
{
    struct inbox_sub *sub = inbox_sub_find(&session->inbox, number);
    struct inbox_stream *stream =
        sub != NULL ? inbox_stream_find(&session->inbox, sub, topic) : NULL;
    if (stream != NULL)
        ack_prefix_return(&stream->acks, seq);
}

/* ---- numbered -------------------------------------------------------------------------------- */

static bool say_ack(struct session *session, struct inbox_sub *sub, struct inbox_stream *stream,
                    uint64_t next_seq, uint64_t after_upload)
{
    struct msg msg = {
        .type = MSG_ACK,
        .as.ack = {.sub = sub->number,
                   .topic = stream->topic,
                   .next_seq = next_seq,
                   .number = session->controls.last + 1,
                   .after = session->outbox.last},
    };
    if (session_say(session, &msg, after_upload) != CODE_OK)
        return false;
    stream->ack_number = session->controls.last;
    stream->ack_told_seq = next_seq;
    if (stream->acks.next_seq > next_seq)
        make_due(session, stream);
    else
        list_remove(&stream->dirty);
    return true;
}

static bool say_sub_acks(struct session *session, struct inbox_sub *sub)
{
    LIST_EACH(link, &sub->dirty) {
        struct inbox_stream *stream = stream_of(link);
        bool is_under_way = stream->ack_number > session->controls.accepted;
        if (is_under_way || !uploads_reached(&session->uploads, stream->ack_after_upload))
            continue;
        bool is_free = session_uploads_under_way(session) == 0;
        if (!say_ack(session, sub, stream, is_free ? stream->acks.next_seq : stream->ack_due_seq,
                     0))
            return false;
    }
    if (list_is_empty(&sub->dirty))
        list_remove(&sub->acking);
    return true;
}

static bool say_all_of_sub(struct session *session, struct inbox_sub *sub, uint64_t after_upload)
{
    LIST_EACH(link, &sub->dirty) {
        struct inbox_stream *stream = stream_of(link);
        if (!say_ack(session, sub, stream, stream->acks.next_seq, after_upload))
            return false;
    }
    list_remove(&sub->acking);
    return true;
}

bool acks_say_all(struct session *session, uint64_t after_upload)
{
    LIST_EACH(link, &session->acking)
        if (sub_of_acking(link)->is_durable &&
            !say_all_of_sub(session, sub_of_acking(link), after_upload))
            return false;
    return true;
}

/* ---- closing --------------------------------------------------------------------------------- */

/* Sends UNSUBSCRIBE behind the last acknowledgements; false: it has to wait.  A subscription whose
 * pattern was refused stays until its reader closes it: the reader is told of the refusal. */
static bool close_sub(struct session *session, struct inbox_sub *sub)
{
    if (!uploads_reached(&session->uploads, sub->close_after_upload))
        return false;
    if (sub->is_durable && !say_all_of_sub(session, sub, 0))
        return false;
    if (sub->is_shared && !tasks_say_of(session, sub->number))
        return false;
    struct msg msg = {
        .type = MSG_UNSUBSCRIBE,
        .as.unsubscribe = {.number = session->controls.last + 1,
                           .sub = sub->number,
                           .is_drop = sub->is_drop},
    };
    if (sub->is_open && session_say(session, &msg, 0) != CODE_OK)
        return false;
    sub->is_open = false;
    list_remove(&sub->closing);
    if (sub->is_closing)
        inbox_sub_free(&session->inbox, sub);
    return true;
}

void session_unsubscribe(struct session *session, uint32_t number, bool is_drop)
{
    struct inbox_sub *sub = inbox_sub_find(&session->inbox, number);
    if (sub == NULL || sub->is_closing)
        return;
    bool has_acks = sub->is_durable && !is_drop && !list_is_empty(&sub->dirty);
    sub->is_closing = true;
    sub->is_drop = is_drop;
    sub->close_after_upload = has_acks ? session_uploads_under_way(session) : 0;
    list_remove(&sub->talk);
    list_remove(&sub->news);
    leases_drop(&session->leases, sub->number);
    list_remove(&sub->closing);
    if (!close_sub(session, sub))
        list_push(&session->closing, &sub->closing);
}

void acks_sub_refused(struct session *session, struct inbox_sub *sub, uint64_t number)
{
    if (number == sub->opened_by)
        sub->is_open = false;
    else if (!sub->is_shared && !sub->is_closing && !close_sub(session, sub))
        list_push(&session->closing, &sub->closing);
}

enum wire_code session_sub_drain(struct session *session, uint32_t number)
{
    const struct inbox_sub *sub = inbox_sub_find(&session->inbox, number);
    struct msg msg = {
        .type = MSG_UNSUBSCRIBE,
        .as.unsubscribe = {.number = session->controls.last + 1, .sub = number, .is_drained = 1},
    };
    if (session->once.code != CODE_OK)
        return session->once.code;
    if (sub == NULL || !sub->is_shared)
        return CODE_EINVAL;
    return sub->code == CODE_OK ? session_say(session, &msg, 0) : CODE_OK;
}

/* ---- marks ----------------------------------------------------------------------------------- */

static bool has_durable_acks(const struct session *session)
{
    for (struct list *link = session->acking.next; link != &session->acking; link = link->next)
        if (sub_of_acking(link)->is_durable)
            return true;
    return false;
}

static void round_begin(struct session *session)
{
    session->ack_round.is_active = true;
    session->ack_round.is_next_wanted = false;
    session->ack_round.after_upload = session_uploads_under_way(session);
}

static void round_step(struct session *session)
{
    struct session_ack_round *round = &session->ack_round;
    while (round->is_active && uploads_reached(&session->uploads, round->after_upload) &&
           acks_say_all(session, 0)) {
        round->done += 1;
        round->control_number = session->controls.last;
        round->is_active = false;
        if (round->is_next_wanted)
            round_begin(session);
    }
}

uint64_t acks_mark(struct session *session)
{
    struct session_ack_round *round = &session->ack_round;
    if (!has_durable_acks(session))
        return 0;
    uint64_t mark = round->done + 1;
    if (round->is_active) {
        round->is_next_wanted = true;
        mark += 1;
    } else {
        round_begin(session);
    }
    round_step(session);
    return mark;
}

bool acks_mark_reached(const struct session *session, uint64_t mark)
{
    return mark == 0 || (session->ack_round.done >= mark &&
                         session->controls.accepted >= session->ack_round.control_number);
}

void acks_say(struct session *session)
{
    round_step(session);
    tasks_say(session);
    LIST_EACH(link, &session->closing)
        (void)close_sub(session, sub_of_closing(link)); /* tried again next time */
    if (!session->is_ack_due)
        return;
    bool is_done = true;
    LIST_EACH(link, &session->acking)
        if (sub_of_acking(link)->is_durable)
            is_done = say_sub_acks(session, sub_of_acking(link)) && is_done;
    session->is_ack_due = !is_done;
}

/* ---- not numbered ---------------------------------------------------------------------------- */

/* A reader on one machine with its broker tells of 128 KiB, a tenth of a millisecond at full rate.
 * One that takes less tells of what it has so often. */
#define TAKEN_PAUSE_NS (5 * SESSION_NS_PER_MS)
/* HELLO.run_rule: follow. */
#define RULE_OF_VIEWERS 2

static int64_t pause_end_ns(const struct inbox_sub *sub)
{
    return sub->told_ns + TAKEN_PAUSE_NS;
}

/* Over a link a reader that waits for more says so: the window may be less than a step.  It is so
 * while nobody knows how long the link is.  The link may also be that of the writer, whose window
 * of the topic is then as small.  Of that the reader knows nothing.  So one that is near says so,
 * too, a little while after it last did.  A viewer holds the run until the broker knows that it has
 * taken all.  When that is to be said; INT64_MAX: not before a step, or the next beat. */
static int64_t early_ns(const struct session *session, struct inbox_sub *sub, uint64_t untold)
{
    if (sub->is_ready || sub->count > 0)
        return INT64_MAX;
    if (session->options.run_rule == RULE_OF_VIEWERS)
        return untold > 0 ? session->now_ns : INT64_MAX;
    if (untold < FLOW_STEP_BYTES)
        return INT64_MAX;
    if (sub->told_ns == 0)
        sub->told_ns = session->now_ns;
    return session->trip.is_near ? pause_end_ns(sub) : session->now_ns;
}

void acks_taken(struct session *session, struct inbox_sub *sub)
{
    uint64_t untold = sub->taken - sub->taken_told;
    int64_t due_ns = untold >= sub->step_bytes ? session->now_ns : early_ns(session, sub, untold);
    if (due_ns <= session->now_ns) {
        talk(session, sub);
    } else if (due_ns < INT64_MAX && !list_is_linked(&sub->untold)) {
        list_push(&session->untold, &sub->untold);
        session->untold_ns = earlier_ns(session->untold_ns, due_ns);
    }
}

/* untold_ns has come. */
static void tell_untold(struct session *session)
{
    session->untold_ns = INT64_MAX;
    LIST_EACH(link, &session->untold) {
        struct inbox_sub *sub = LIST_OWNER(link, struct inbox_sub, untold);
        int64_t due_ns = pause_end_ns(sub);
        if (due_ns > session->now_ns) { /* it said so meanwhile */
            session->untold_ns = earlier_ns(session->untold_ns, due_ns);
            continue;
        }
        list_remove(link);
        acks_taken(session, sub);
    }
}

void acks_rewind(struct session *session)
{
    struct inbox_stream *stream = NULL;
    session->is_ack_due = true;
    LIST_EACH(link, &session->talk)
        list_remove(link);
    while ((stream = pool_next(&session->inbox.streams, stream != NULL ? stream->id : 0)) != NULL)
        if (!stream->sub->is_durable && !stream->is_party && stream->ack_told_seq > 0)
            make_dirty(session, stream->sub, stream);
}

/* Whether an ACK of a subscription that is not durable is due: it shows the lag in the status. */
static bool is_lag_due(const struct inbox_sub *sub)
{
    return !sub->is_durable && !list_is_empty(&sub->dirty) &&
           (sub->is_lag_due || sub->taken - sub->lag_told >= LAG_STEPS * sub->step_bytes);
}

static bool has_news(const struct inbox_sub *sub)
{
    return sub->taken != sub->taken_told || is_lag_due(sub);
}

void acks_beat(struct session *session)
{
    struct inbox_sub *sub = NULL;
    while ((sub = pool_next(&session->inbox.subs, sub != NULL ? sub->id : 0)) != NULL) {
        sub->is_lag_due = !list_is_empty(&sub->dirty);
        if (has_news(sub))
            talk(session, sub);
    }
    session->wants_taken.is_due = session->wants_taken.taken != session->wants_taken.told;
}

static void taken_message(struct msg *out, uint32_t sub, uint64_t bytes)
{
    out->type = MSG_TAKEN;
    out->as.taken = (struct msg_taken){.sub = sub, .bytes = bytes};
}

static bool sub_message(const struct session *session, struct inbox_sub *sub, struct msg *out)
{
    if (sub->taken != sub->taken_told) {
        taken_message(out, sub->number, sub->taken);
        sub->taken_told = sub->taken;
        sub->told_ns = session->now_ns;
        return true;
    }
    if (!is_lag_due(sub))
        return false;
    sub->is_lag_due = true; /* until every dirty stream is told */
    struct inbox_stream *stream = stream_of(sub->dirty.next);
    out->type = MSG_ACK;
    out->as.ack = (struct msg_ack){
        .sub = sub->number, .topic = stream->topic, .next_seq = stream->acks.next_seq};
    stream->ack_told_seq = stream->acks.next_seq;
    list_remove(&stream->dirty);
    if (list_is_empty(&sub->dirty)) {
        list_remove(&sub->acking);
        sub->is_lag_due = false;
        sub->lag_told = sub->taken;
    }
    return true;
}

bool acks_message(struct session *session, struct msg *out)
{
    if (session->now_ns >= session->untold_ns)
        tell_untold(session);
    if (session->wants_taken.is_due) {
        taken_message(out, 0, session->wants_taken.taken);
        session->wants_taken.told = session->wants_taken.taken;
        session->wants_taken.is_due = false;
        return true;
    }
    while (!list_is_empty(&session->talk)) {
        struct inbox_sub *sub = sub_of_talk(session->talk.next);
        bool is_any = sub_message(session, sub, out);
        if (!has_news(sub))
            list_remove(&sub->talk);
        if (is_any)
            return true;
    }
    return false;
}
