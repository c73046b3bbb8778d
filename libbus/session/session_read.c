/* SPDX-License-Identifier: MPL-2.0 */
/* session_read.c -- awaited slots, subscriptions, and frames from the data channel. */
#include "libbus/session/session_read.h"

#include "libbus/base/pattern.h"
#include "libbus/session/model.h"
#include "libbus/session/session_acks.h"
#include "libbus/session/session_connection.h"
#include "libbus/session/session_courier.h"
#include "libbus/session/session_say.h"
#include "libbus/session/session_tasks.h"

/* Each subscription may have so much under way, however many there are. */
#define WINDOW_MIN_BYTES (UINT64_C(16) * 1024)

/* TAKEN is said for each such share of the least window, before the broker has used it up. */
enum { TAKEN_SHARE = 4 };

/* ---- awaiting -------------------------------------------------------------------------------- */

enum wire_code session_await(struct session *session, struct span topic, uint64_t seq,
                             bool is_value_wanted, uint64_t *out_want)
{
    if (session->once.code != CODE_OK)
        return session->once.code;
    if (session->is_leaving)
        return CODE_ECLOSED;
    if (!topic_is_valid(topic) || seq >= ACK_PREFIX_SEQ_MAX)
        return CODE_EINVAL;
    if (session->options.is_guard)
        return CODE_EDENIED;
    struct known_topic *known;
    enum wire_code code = known_topics_open(&session->known, topic, &known);
    if (code != CODE_OK)
        return code;
    return wants_add(&session->wants, known, seq, is_value_wanted ? WANT_VALUE : WANT_OUTCOME,
                     out_want);
}

enum wire_code session_want_take(struct session *session, uint64_t want, struct session_item *out)
{
    enum wire_code code = wants_take(&session->wants, want, out);
    if (code == CODE_ETIMEDOUT && session->once.code != CODE_OK)
        return session->once.code;
    return code;
}

uint64_t session_want_answered(const struct session *session, uint64_t after)
{
    return wants_answered(&session->wants, after);
}

void session_unawait(struct session *session, uint64_t want)
{
    wants_cancel(&session->wants, want);
}

/* ---- subscribing ----------------------------------------------------------------------------- */

static uint64_t window_bytes(const struct session *session)
{
    uint64_t share = session->options.inbox_bytes_max / (session->inbox.subs.used + 1);
    if (share < WINDOW_MIN_BYTES)
        return WINDOW_MIN_BYTES;
    return share < LIMIT_SUB_WINDOW_BYTES ? share : LIMIT_SUB_WINDOW_BYTES;
}

static bool options_are_valid(struct span pattern, const struct session_sub_options *options)
{
    return pattern_is_valid(pattern) &&
           (options->name.bytes == 0 || name_is_valid(options->name)) &&
           (options->group.bytes == 0 ||
            (party_is_valid(options->group) && options->group.bytes <= LIMIT_GROUP_NAME_BYTES)) &&
           options->from_seq >= FROM_OLDEST && options->overflow <= 1 &&
           options->keep_ms <= (uint64_t)LIMIT_PERIOD_MS_MAX &&
           options->credit <= LIMIT_GROUP_CREDIT && options->deliver_max <= LIMIT_DELIVER &&
           options->lease_ms <= (uint64_t)LIMIT_PERIOD_MS_MAX &&
           (options->group.bytes == 0 || (options->name.bytes == 0 && !options->is_in_pieces));
}

enum wire_code session_subscribe(struct session *session, struct span pattern,
                                 const struct session_sub_options *options, uint32_t *out_sub)
{
    if (session->once.code != CODE_OK)
        return session->once.code;
    if (session->is_leaving)
        return CODE_ECLOSED;
    if (!options_are_valid(pattern, options))
        return CODE_EINVAL;
    if (session->options.is_guard)
        return CODE_EDENIED;
    if (session->inbox.subs.used == LIMIT_SUBS)
        return CODE_EFULL;
    uint64_t window = window_bytes(session);
    struct inbox_sub *sub = inbox_sub_new(&session->inbox);
    if (sub == NULL)
        return CODE_ENOMEM;
    sub->is_durable = options->name.bytes > 0;
    sub->is_shared = options->group.bytes > 0;
    sub->is_in_pieces = options->is_in_pieces;
    sub->window_bytes = window;
    sub->step_bytes =
        (window < DEFAULT_SUB_WINDOW_BYTES ? window : DEFAULT_SUB_WINDOW_BYTES) / TAKEN_SHARE;
    struct msg msg = {
        .type = MSG_SUBSCRIBE,
        .as.subscribe = {.number = session->controls.last + 1,
                         .sub = sub->number,
                         .pattern = pattern,
                         .name = options->name,
                         .group = options->group,
                         .from_seq = options->from_seq,
                         .overflow = options->overflow,
                         .keep_ms = options->keep_ms,
                         .window_bytes = window,
                         .credit = options->credit,
                         .lease_ms = options->lease_ms,
                         .deliver_max = options->deliver_max},
    };
    enum wire_code code = session_say(session, &msg, 0);
    if (code != CODE_OK) {
        inbox_sub_free(&session->inbox, sub);
        return code;
    }
    sub->is_open = true;
    sub->opened_by = session->controls.last;
    *out_sub = sub->number;
    return CODE_OK;
}

/* NULL: it is closed, or is being closed. */
static struct inbox_sub *sub_find(const struct session *session, uint32_t number)
{
    struct inbox_sub *sub = inbox_sub_find(&session->inbox, number);
    return sub != NULL && !sub->is_closing ? sub : NULL;
}

enum wire_code session_sub_add(struct session *session, uint32_t number, struct span pattern)
{
    if (session->once.code != CODE_OK)
        return session->once.code;
    struct inbox_sub *sub = sub_find(session, number);
    if (sub == NULL || session->is_leaving)
        return CODE_ECLOSED;
    if (!pattern_is_valid(pattern))
        return CODE_EINVAL;
    if (sub->code != CODE_OK)
        return sub->code;
    struct msg msg = {
        .type = MSG_SUB_ADD,
        .as.sub_add = {.number = session->controls.last + 1,
                       .sub = sub->number,
                       .pattern = pattern},
    };
    return session_say(session, &msg, 0);
}

/* ---- receiving ------------------------------------------------------------------------------- */

void session_sub_notify(struct session *session, struct inbox_sub *sub)
{
    if (!list_is_linked(&sub->news) && !sub->is_closing)
        list_push(&session->sub_news, &sub->news);
    session->news.is_sub = true;
}

uint32_t session_sub_news(struct session *session)
{
    if (list_is_empty(&session->sub_news))
        return 0;
    struct inbox_sub *sub = LIST_OWNER(session->sub_news.next, struct inbox_sub, news);
    list_remove(&sub->news);
    return sub->number;
}

/* Looks for the next item; a batch that breaks the protocol ends the session. */
static enum wire_code look_for_item(struct session *session, struct inbox_sub *sub)
{
    enum wire_code code = inbox_look(&session->inbox, sub);
    if (code == CODE_EPROTO)
        session_break(session, "a frame that does not belong there");
    return code;
}

static void sub_data_in(struct session *session, struct inbox_sub *sub, struct buffer **batch)
{
    enum wire_code code = inbox_receive(&session->inbox, sub, batch);
    if (code == CODE_ENOMEM) {
        session_lose_link(session); /* the broker sends it again on the next connection */
    } else if (code == CODE_EPROTO) {
        session_break(session, "a batch that is not well formed, or beyond the window");
    } else {
        (void)look_for_item(session, sub); /* lack of memory is reported when the receiver asks */
        acks_taken(session, sub);
        if (sub->is_ready || sub->count > 0)
            session_sub_notify(session, sub);
    }
}

/* The next waits that are denied are of this name: it has no number here. */
static enum wire_code denied_topic_in(struct session *session, struct span name)
{
    return name_is_valid(name) ? known_topics_open(&session->known, name, &session->denied)
                               : CODE_EPROTO;
}

static enum wire_code want_topic_in(struct session *session, const struct frame *frame)
{
    if (frame->topic == 0)
        return denied_topic_in(session, frame->value);
    enum wire_code code = known_topics_number(&session->known, frame->topic, frame->value);
    if (code == CODE_OK)
        known_topics_find(&session->known, frame->topic)->origin = frame_origin_of(frame);
    return code;
}

/* NULL: nothing was named so, or it is no outcome that such a topic has. */
static struct known_topic *want_topic(const struct session *session, const struct frame *frame)
{
    bool is_error = (frame->flags & FRAME_KIND_MASK) == FRAME_ERROR;
    if (frame->topic == 0)
        return is_error ? session->denied : NULL;
    return known_topics_find(&session->known, frame->topic);
}

static enum wire_code want_frame_in(struct session *session, const struct frame *frame,
                                    struct buffer *batch)
{
    if ((frame->flags & FRAME_KIND_MASK) == FRAME_TOPIC)
        return want_topic_in(session, frame);
    struct known_topic *topic = want_topic(session, frame);
    if (topic == NULL)
        return CODE_EPROTO;
    switch (wants_frame(&session->wants, topic, frame, batch, session->value_bytes_max)) {
    case WANTS_BROKEN: return CODE_EPROTO;
    case WANTS_ANSWERED: session->news.is_want = true; break;
    case WANTS_NOTHING: break;
    }
    return CODE_OK;
}

/* A batch of subscription 0: awaited slots. */
static void want_data_in(struct session *session, struct buffer *batch)
{
    struct batch_reader reader;
    struct frame frame;
    enum wire_code code = CODE_OK;
    enum wire_err err = batch_reader_init(&reader, buffer_span(batch));
    while (err == WIRE_OK && code == CODE_OK) {
        err = batch_reader_next(&reader, &frame);
        if (err != WIRE_OK)
            break;
        code = want_frame_in(session, &frame, batch);
        session->wants_taken.taken += frame.frame_bytes;
    }
    if (code == CODE_ENOMEM)
        session_lose_link(session); /* the next connection asks again */
    else if (err != WIRE_EMPTY || code != CODE_OK)
        session_break(session, "an awaited slot that does not belong there");
    else if (session->wants_taken.taken - session->wants_taken.told >=
             (session->trip.is_near ? DEFAULT_SUB_WINDOW_BYTES / TAKEN_SHARE : FLOW_STEP_BYTES))
        session->wants_taken.is_due = true;
}

void session_data_in(struct session *session, int64_t now_ns, struct span head,
                     struct buffer **out_batch)
{
    session_see_time(session, now_ns);
    struct buffer *batch = *out_batch;
    *out_batch = NULL;
    /* What an old connection still had does not count. */
    bool is_connected = session->action == SESSION_NOTHING && !session->is_ready_due &&
                        (session->phase == PHASE_ATTACH || session->phase == PHASE_UP);
    uint32_t number = 0;
    if (!is_connected)
        goto done;
    if (session->is_courier && batch != NULL) {
        session->heard_ns = session->inflow_ns = session->alive_ns = session->now_ns;
        courier_piece_in(session, buffer_span(batch));
        goto done;
    }
    if (batch == NULL || batch->bytes < BATCH_HEADER_BYTES ||
        delivery_header_read(head, &number) != WIRE_OK || number > session->inbox.last_number) {
        session_break(session, "a delivery to no subscription");
        goto done;
    }
    session->heard_ns = session->now_ns;
    session->inflow_ns = session->now_ns;
    session->data_received += batch->bytes - BATCH_HEADER_BYTES;
    if (session->phase == PHASE_UP)
        session->alive_ns = session->now_ns;
    if (number == 0) {
        want_data_in(session, batch);
        goto done;
    }
    struct inbox_sub *sub = sub_find(session, number);
    if (sub != NULL)
        sub_data_in(session, sub, &batch);
done:
    buffer_unref(&batch);
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* Why nothing can be taken. */
static enum wire_code nothing_to_take(const struct session *session, const struct inbox_sub *sub,
                                      struct buffer **out_error)
{
    if (sub != NULL && sub->code != CODE_OK) {
        if (out_error != NULL)
            *out_error = sub->error != NULL ? buffer_ref(sub->error) : NULL;
        return sub->code;
    }
    if (session->once.code != CODE_OK)
        return session->once.code;
    return sub != NULL ? CODE_ETIMEDOUT : CODE_ECLOSED;
}

/* Makes a task a lease.  A task whose value had no memory here goes back to the broker. */
static enum wire_code hand_task(struct session *session, const struct inbox_sub *sub,
                                struct session_item *item)
{
    enum wire_code code = tasks_take(session, sub, item);
    if (code == CODE_OK && item->kind == SESSION_ITEM_GAP) {
        session_task_end(session, item->lease, SESSION_TASK_RETURNED, 0, SPAN_NONE);
        code = CODE_ENOMEM;
    }
    if (code != CODE_OK)
        buffer_unref(&item->buffer);
    return code;
}

enum wire_code session_sub_take(struct session *session, uint32_t number, struct session_item *out,
                                struct buffer **out_error)
{
    return session_sub_take_range(session, number, 1, out, out_error);
}

static enum wire_code take_item(struct session *session, struct inbox_sub *sub, uint32_t values_max,
                                struct session_item *out, struct buffer **out_error)
{
    enum wire_code code = sub != NULL ? look_for_item(session, sub) : CODE_OK;
    if (code == CODE_ENOMEM)
        return code;
    if (sub == NULL || !sub->is_ready)
        return nothing_to_take(session, sub, out_error);
    enum wire_code look_code;
    code = inbox_take(&session->inbox, sub, values_max, out, &look_code);
    if (look_code == CODE_EPROTO)
        session_break(session, "a frame that does not belong there");
    acks_taken(session, sub);
    return code;
}

enum wire_code session_sub_take_range(struct session *session, uint32_t number, uint32_t values_max,
                                      struct session_item *out, struct buffer **out_error)
{
    for (;;) {
        struct inbox_sub *sub = sub_find(session, number);
        enum wire_code code = take_item(session, sub, values_max, out, out_error);
        if (code != CODE_OK || !sub->is_shared)
            return code;
        if (!tasks_drop_lost(session, sub, out))
            return hand_task(session, sub, out);
    }
}

bool session_sub_is_readable(const struct session *session, uint32_t number)
{
    const struct inbox_sub *sub = sub_find(session, number);
    return session->once.code != CODE_OK || sub == NULL || sub->is_ready || sub->count > 0 ||
           sub->code != CODE_OK;
}

struct span session_topic_name(const struct session *session, uint32_t topic)
{
    const struct known_topic *known = known_topics_find(&session->known, topic);
    return known != NULL ? known->name : SPAN_NONE;
}
