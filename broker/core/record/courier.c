/* SPDX-License-Identifier: MPL-2.0 */
/* courier.c -- couriers: sessions that bring attachments, and sessions that fetch them.
 *
 * A courier has a data channel, and connections of its own; as a rule it is an observer.  So what a
 * party says never waits behind what it has attached.  A courier brings one attachment at a time,
 * in pieces, within a window of credit.  LIMIT_BRINGERS couriers have a window at a time, in turn.
 * So at most LIMIT_BRINGERS windows lie between the broker and the values that come.  A courier
 * that does not use its window loses its turn after a second.
 *
 * Over a link the window follows the link (flow_window.h).  What is granted counts as sent, and the
 * pieces that came have arrived.  While no courier waits for a turn, credit is granted again as
 * pieces come.  So the link is not idle for a round trip between two windows.
 *
 * A fetched attachment goes out as fast as the courier takes it: at most a window is under way.
 * The window follows the link, too.
 *
 * Which courier brings what is no fact.  After a restart couriers come again, and go on behind the
 * pieces that are kept. */
#include "broker/core/record/courier.h"

#include "broker/core/record/attachment.h"
#include "broker/core/record/auditor.h"
#include "broker/core/record/text.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/timers.h"
#include "libbus/base/limits.h"
#include "libbus/base/pattern.h"
#include "libbus/wire/disclosure.h"
#include "libbus/wire/sealed.h"

#include <string.h>

/* A turn is worth so much: time enough for a window over any link that is of use. */
#define TURN_NS (1000 * MS_NS)
/* Credit is granted again when such a part of a window is used. */
enum { BRING_STEPS = 4 };

static void fetch_no_more(struct session *session)
{
    session->fetching.attachment = NULL;
    list_remove(&session->fetching.link);
}

/* ---- credit ---------------------------------------------------------------------------------- */

static void tell_brought(struct core *core, const struct session *session, enum wire_code code,
                         const struct attachment *attachment, enum attachment_state state)
{
    struct msg_brought *msg =
        &effects_msg(core->effects, session->control, MSG_BROUGHT)->as.brought;
    msg->request = session->brings_request;
    msg->code = code;
    msg->state = state;
    msg->bytes = attachment != NULL ? attachment->arrived : 0;
    msg->limit_bytes = session->brings_limit;
}

void courier_windows_init(struct core *core, struct session *session)
{
    list_init(&session->turn_link);
    list_init(&session->fetching.link);
    flow_window_init(&session->bring_flow, &core->topic_windows, DEFAULT_BRING_WINDOW_BYTES,
                     LIMIT_BRING_WINDOW_BYTES);
    flow_window_init(&session->fetching.flow, &core->reader_windows, DEFAULT_FETCH_WINDOW_BYTES,
                     LIMIT_FETCH_WINDOW_BYTES);
}

void courier_windows_fini(struct session *session)
{
    flow_window_fini(&session->bring_flow);
    flow_window_fini(&session->fetching.flow);
}

void courier_windows_learn(struct session *session, int64_t trip_ns)
{
    flow_window_learn(&session->bring_flow, trip_ns);
    flow_window_learn(&session->fetching.flow, trip_ns);
}

static void end_turn(struct core *core, struct session *session)
{
    if (session->has_turn)
        core->turn_count -= 1;
    session->has_turn = false;
    list_remove(&session->turn_link);
}

/* Its turn begins, now: it gets a whole window, and is the last of those that have a turn. */
static void grant_window(struct core *core, struct session *session)
{
    struct attachment *attachment = session->brings;
    uint64_t unused =
        session->brings_limit > attachment->bytes ? session->brings_limit - attachment->bytes : 0;
    uint64_t window = flow_window_bytes(&session->bring_flow);
    list_remove(&session->turn_link);
    list_push(&core->turns, &session->turn_link);
    session->turn_ns = core_clock(core);
    if (window > unused) {
        flow_window_stopped(&session->bring_flow, true); /* it always has more to send */
        flow_window_sent(&session->bring_flow, session->brought_bytes + unused,
                         session->brought_bytes + window, core_clock(core));
        session->brings_limit = attachment->bytes + window;
    }
    tell_brought(core, session, CODE_OK, attachment, ATTACHMENT_COMING);
}

/* Gives windows to those who wait, as long as there are turns. */
static void deal_turns(struct core *core)
{
    while (core->turn_count < LIMIT_BRINGERS && !list_is_empty(&core->turn_waiters)) {
        struct session *session = LIST_OWNER(core->turn_waiters.next, struct session, turn_link);
        core->turn_count += 1;
        session->has_turn = true;
        grant_window(core, session);
    }
    if (list_is_empty(&core->turn_waiters))
        timers_clear(&core->timers, &core->turn_timer);
    else
        timers_set(&core->timers, &core->turn_timer,
                   LIST_OWNER(core->turns.next, struct session, turn_link)->turn_ns + TURN_NS);
}

void courier_turn_over(struct core *core)
{
    struct session *oldest = LIST_OWNER(core->turns.next, struct session, turn_link);
    if (!list_is_empty(&core->turns) && core_clock(core) >= oldest->turn_ns + TURN_NS)
        end_turn(core, oldest); /* its window is still its own */
    deal_turns(core);
}

static void stop_bringing(struct core *core, struct session *session)
{
    struct attachment *attachment = session->brings;
    if (attachment == NULL)
        return;
    flow_window_break(&session->bring_flow);
    attachment->courier = NULL;
    attachment->left_ns = core_clock(core);
    session->brings = NULL;
    session->brings_limit = 0;
    end_turn(core, session);
}

/* One attachment at a time. */
static void bring_no_more(struct core *core, struct session *session)
{
    bool had_turn = session->has_turn;
    stop_bringing(core, session);
    if (had_turn)
        deal_turns(core);
}

void courier_gone(struct core *core, struct session *session)
{
    bring_no_more(core, session);
    fetch_no_more(session);
}

void courier_lose(struct core *core, struct attachment *attachment, enum attachment_state state)
{
    struct session *session = attachment->courier;
    if (session == NULL)
        return;
    stop_bringing(core, session);
    if (session->control != 0)
        tell_brought(core, session, CODE_EFULL, attachment, state);
    deal_turns(core);
}

/* ---- bringing -------------------------------------------------------------------------------- */

static void refuse_bringing(struct core *core, struct session *session, enum wire_code code)
{
    session->brings_limit = 0;
    tell_brought(core, session, code, NULL, ATTACHMENT_CUT);
}

/* An id of this job: job/party/incarnation/number. */
static bool is_of_job(const struct job *job, struct span error)
{
    return error.bytes > job->name.bytes + 1 &&
           memcmp(error.data, job->name.data, job->name.bytes) == 0 &&
           ((const char *)error.data)[job->name.bytes] == '/';
}

static struct job *find_job(struct core *core, struct span name)
{
    uint32_t id;
    return name_map_get(&core->job_names, name, &id) ? pool_find(&core->jobs, id) : NULL;
}

/* The attachment that is to be brought, which somebody may bring now, or NULL: that is answered. */
static struct attachment *accept_bringing(struct core *core, struct session *session,
                                          struct job *job, const struct msg_bring *msg)
{
    if (job == NULL || !is_of_job(job, msg->error) || !name_is_valid(msg->name)) {
        refuse_bringing(core, session, CODE_EINVAL);
        return NULL;
    }
    if (auditor_disclosure(job) >= DISCLOSURE_MESSAGE && !sealed_name_is_valid(msg->name)) {
        refuse_bringing(core, session, CODE_EDENIED); /* nobody may see what is attached */
        return NULL;
    }
    struct attachment *attachment =
        attach_announce(core, job, msg->error, msg->name, msg->promised);
    if (attachment == NULL) {
        refuse_bringing(core, session, CODE_EFULL);
        return NULL;
    }
    if (attachment->state != ATTACHMENT_COMING) {
        bool is_whole = attachment->state == ATTACHMENT_WHOLE;
        tell_brought(core, session, is_whole ? CODE_OK : CODE_EFULL, attachment, attachment->state);
        return NULL;
    }
    return attachment;
}

const char *courier_bring(struct core *core, struct session *session, const struct msg_bring *msg)
{
    struct job *job = find_job(core, msg->job);
    bring_no_more(core, session);
    session->brings_request = msg->request;
    struct attachment *attachment = accept_bringing(core, session, job, msg);
    if (attachment == NULL)
        return NULL;
    if (attachment->courier != NULL) /* of an older connection, or another process */
        bring_no_more(core, attachment->courier);
    attachment->courier = session;
    session->brings = attachment;
    session->brings_job = job;
    list_push(&core->turn_waiters, &session->turn_link);
    deal_turns(core);
    if (!session->has_turn)
        tell_brought(core, session, CODE_OK, attachment, ATTACHMENT_COMING);
    return NULL;
}

/* What is wrong with a piece, or NULL. */
static const char *piece_complaint(const struct session *session, const struct msg_piece *msg)
{
    if (msg->offset != session->brings->bytes)
        return "a piece of an attachment out of order";
    if (msg->offset >= session->brings_limit)
        return "a piece of an attachment without credit";
    if (!msg->is_last && msg->bytes.bytes < LIMIT_ATTACHMENT_PIECE_BYTES)
        return "a piece of an attachment that is not whole";
    return NULL;
}

/* Over a link credit comes back as it is used, but while others wait each has a window alone. */
static bool may_grant_more(const struct core *core, const struct session *session)
{
    uint64_t window = flow_window_bytes(&session->bring_flow);
    uint64_t unused = session->brings_limit - session->brings->bytes;
    return session->bring_flow.is_far && session->has_turn && list_is_empty(&core->turn_waiters) &&
           unused + window / BRING_STEPS <= window;
}

const char *courier_piece(struct core *core, struct session *session, const struct msg_piece *msg,
                          payload_id payload)
{
    struct attachment *attachment = session->brings;
    struct job *job = session->brings_job;
    if (attachment == NULL || msg->request != session->brings_request)
        return NULL; /* it is over, and that is under way */
    const char *complaint = piece_complaint(session, msg);
    if (complaint != NULL)
        return complaint;
    const struct attach_piece piece = {
        .payload = payload, .bytes = (uint32_t)msg->bytes.bytes, .is_last = msg->is_last != 0};
    session->brought_bytes += piece.bytes;
    flow_window_piece(&session->bring_flow, piece.bytes);
    flow_window_arrived(&session->bring_flow, session->brought_bytes, core_clock(core));
    if (!attach_make_room(core, job, attachment, piece.bytes) ||
        !attach_add(core, job, attachment, &piece)) {
        attach_end(core, job, attachment, ATTACHMENT_FULL);
    } else if (attachment->state == ATTACHMENT_WHOLE) {
        stop_bringing(core, session);
        tell_brought(core, session, CODE_OK, attachment, ATTACHMENT_WHOLE);
        deal_turns(core);
    } else if (attachment->bytes >= session->brings_limit) {
        end_turn(core, session);
        list_push(&core->turn_waiters, &session->turn_link);
        deal_turns(core);
    } else if (may_grant_more(core, session)) {
        grant_window(core, session);
    }
    return NULL;
}

/* ---- fetching -------------------------------------------------------------------------------- */

static uint64_t less_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* All pieces but the last have LIMIT_ATTACHMENT_PIECE_BYTES.  Sends the rest of one on the data
 * channel; io puts its bytes in. */
static void send_piece(struct core *core, struct session *session)
{
    struct fetching *fetching = &session->fetching;
    uint64_t skipped = fetching->next % LIMIT_ATTACHMENT_PIECE_BYTES;
    uint64_t bytes =
        less_of(LIMIT_ATTACHMENT_PIECE_BYTES - skipped, fetching->end - fetching->next);
    struct msg *msg = effects_msg(core->effects, session->data, MSG_FETCHED_PIECE);
    struct effect *effect = &core->effects->items[core->effects->count - 1];
    msg->as.fetched_piece.request = fetching->request;
    msg->as.fetched_piece.offset = fetching->next;
    effect->payload =
        fetching->attachment->pieces[fetching->next / LIMIT_ATTACHMENT_PIECE_BYTES].payload;
    effect->offset = (uint32_t)skipped;
    effect->bytes = (uint32_t)bytes;
    flow_window_piece(&fetching->flow, bytes);
    flow_window_sent(&fetching->flow, session->data_sent, session->data_sent + bytes,
                     core_clock(core));
    fetching->next += bytes;
    session->data_sent += bytes;
}

static void send_window(struct core *core, struct session *session)
{
    struct fetching *fetching = &session->fetching;
    uint64_t window = less_of(flow_window_bytes(&fetching->flow), fetching->room_bytes);
    while (fetching->next < fetching->end && session->data_sent - fetching->taken < window)
        send_piece(core, session);
    flow_window_stopped(&fetching->flow, fetching->next < fetching->end);
    if (fetching->next == fetching->end)
        fetch_no_more(session);
}

/* A courier that fetches says FETCHED once, and again if the attachment ends before. */
static void tell_fetched(struct core *core, const struct session *session,
                         const struct attachment *attachment)
{
    struct msg_fetched *fetched =
        &effects_msg(core->effects, session->control, MSG_FETCHED)->as.fetched;
    fetched->request = session->fetching.request;
    fetched->total = attachment->bytes;
    fetched->offset = session->fetching.next;
    fetched->count = session->fetching.end - session->fetching.next;
    fetched->state = attach_state(core, attachment);
    fetched->promised = attachment->promised;
    fetched->arrived = attachment->arrived;
}

static void count_taken(struct core *core, struct session *session, uint64_t bytes)
{
    session->fetching.taken = bytes;
    flow_window_arrived(&session->fetching.flow, bytes, core_clock(core));
}

const char *courier_taken(struct core *core, struct session *session, uint64_t bytes)
{
    if (bytes > session->data_sent || bytes < session->fetching.taken)
        return "more of an attachment was taken than was sent";
    count_taken(core, session, bytes);
    if (session->fetching.attachment != NULL)
        send_window(core, session);
    return NULL;
}

void courier_ask_again(struct core *core, struct session *session)
{
    const struct attachment *attachment = session->fetching.attachment;
    if (attachment == NULL)
        return;
    session->fetching.end = session->fetching.next;
    if (session->control != 0)
        tell_fetched(core, session, attachment);
    fetch_no_more(session);
}

void courier_cut(struct core *core, struct attachment *attachment)
{
    LIST_EACH(link, &attachment->fetchers)
        courier_ask_again(core, LIST_OWNER(link, struct session, fetching.link));
}

void courier_fetch(struct core *core, struct session *session, const struct msg_fetch *msg)
{
    struct fetching *fetching = &session->fetching;
    const struct job *job = find_job(core, msg->job);
    struct attachment *attachment =
        job != NULL ? attach_find(core, job, msg->error, msg->name) : NULL;
    fetch_no_more(session); /* one attachment at a time */
    if (attachment == NULL) {
        effects_job_done(core->effects, session->control, msg->request, CODE_EINVAL,
                         job != NULL ? ERROR_TYPE_NOT_KEPT : ERROR_TYPE_NO_JOB,
                         job != NULL
                             ? "the error has no attachment of this name, or it is kept no more"
                             : text_say(&core->why_held, "there is no job ", msg->job));
        return;
    }
    fetching->request = msg->request;
    fetching->next = less_of(msg->offset, attachment->bytes);
    fetching->end = attachment->bytes;
    fetching->room_bytes = msg->window_bytes;
    fetching->attachment = attachment;
    list_push(&attachment->fetchers, &fetching->link);
    tell_fetched(core, session, attachment);
    if (msg->received <= session->data_sent && msg->received > fetching->taken)
        count_taken(core, session, msg->received);
    send_window(core, session);
}

void courier_list(struct core *core, struct session *session, const struct msg_attachments *msg)
{
    const struct job *job = find_job(core, msg->job);
    if (job == NULL) {
        effects_job_done(core->effects, session->control, msg->request, CODE_EINVAL,
                         ERROR_TYPE_NO_JOB,
                         text_say(&core->why_held, "there is no job ", msg->job));
        return;
    }
    LIST_EACH(link, &job->attachments) {
        const struct attachment *attachment = LIST_OWNER(link, struct attachment, link);
        if (!span_equal(attach_error(attachment), msg->error))
            continue;
        struct msg_attachment_row *row =
            &effects_msg(core->effects, session->control, MSG_ATTACHMENT_ROW)->as.attachment_row;
        row->request = msg->request;
        row->name = attach_name(attachment);
        row->promised = attachment->promised;
        row->bytes = attachment->arrived;
        row->state = attach_state(core, attachment);
    }
    effects_job_done(core->effects, session->control, msg->request, CODE_OK, "", "");
}
