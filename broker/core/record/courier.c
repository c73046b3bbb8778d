/* SPDX-License-Identifier: MPL-2.0 */
/* courier.c -- couriers: sessions that bring attachments, and sessions that fetch them.
 *
 * A courier has a data channel, and connections of its own; as a rule it is an observer.  So what a
 * party says never waits behind what it has attached.  A courier brings one attachment at a time,
 * in pieces, within a window of credit.  LIMIT_BRINGERS couriers have a window at a time, in turn.
 * So at most LIMIT_BRINGERS windows lie between the broker and the values that come.  A courier
 * that does not use its window loses its turn after a second.
 *
 * Fetched bytes go out in windows, too.  The client asks for the next window when it has one.
 *
 * Which courier brings what is no fact.  After a restart couriers come again, and go on behind the
 * pieces that are kept. */
#include "broker/core/record/courier.h"

#include "broker/core/record/attachment.h"
#include "broker/core/record/auditor.h"
#include "broker/core/record/text.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/timers.h"
#include "libbus/base/pattern.h"
#include "libbus/wire/disclosure.h"
#include "libbus/wire/sealed.h"

#include <string.h>

/* A turn is worth so much: time enough for a window over any link that is of use. */
#define TURN_NS (1000 * MS_NS)

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

static void end_turn(struct core *core, struct session *session)
{
    if (session->has_turn)
        core->turn_count -= 1;
    session->has_turn = false;
    list_remove(&session->turn_link);
}

/* Gives windows to those who wait, as long as there are turns. */
static void deal_turns(struct core *core)
{
    while (core->turn_count < LIMIT_BRINGERS && !list_is_empty(&core->turn_waiters)) {
        struct session *session = LIST_OWNER(core->turn_waiters.next, struct session, turn_link);
        list_remove(&session->turn_link);
        list_push(&core->turns, &session->turn_link);
        core->turn_count += 1;
        session->has_turn = true;
        session->turn_ns = core_clock(core);
        session->brings_limit = session->brings->bytes + LIMIT_BRING_WINDOW_BYTES;
        tell_brought(core, session, CODE_OK, session->brings, ATTACHMENT_COMING);
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
    attachment->courier = NULL;
    attachment->left_ns = core_clock(core);
    session->brings = NULL;
    session->brings_limit = 0;
    end_turn(core, session);
}

void courier_gone(struct core *core, struct session *session)
{
    bool had_turn = session->has_turn;
    stop_bringing(core, session);
    if (had_turn)
        deal_turns(core);
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
    courier_gone(core, session); /* one at a time */
    session->brings_request = msg->request;
    struct attachment *attachment = accept_bringing(core, session, job, msg);
    if (attachment == NULL)
        return NULL;
    if (attachment->courier != NULL) /* of an older connection, or another process */
        courier_gone(core, attachment->courier);
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
    }
    return NULL;
}

/* ---- fetching -------------------------------------------------------------------------------- */

/* So many bytes from offset on, on the data channel; io puts them in. */
static void send_pieces(struct core *core, struct session *session, uint64_t request,
                        const struct attachment *attachment, uint64_t offset, uint64_t count)
{
    uint64_t begin = 0;
    session->data_sent += count;
    for (uint32_t i = 0; i < attachment->count && count > 0; i++) {
        const struct piece *piece = &attachment->pieces[i];
        uint64_t end = begin + piece->bytes;
        if (offset < end) {
            uint64_t bytes = end - offset < count ? end - offset : count;
            struct msg *msg = effects_msg(core->effects, session->data, MSG_FETCHED_PIECE);
            struct effect *effect = &core->effects->items[core->effects->count - 1];
            msg->as.fetched_piece.request = request;
            msg->as.fetched_piece.offset = offset;
            effect->payload = piece->payload;
            effect->offset = (uint32_t)(offset - begin);
            effect->bytes = (uint32_t)bytes;
            offset += bytes;
            count -= bytes;
        }
        begin = end;
    }
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void courier_fetch(struct core *core, struct session *session, const struct msg_fetch *msg)
{
    const struct job *job = find_job(core, msg->job);
    const struct attachment *attachment =
        job != NULL ? attach_find(core, job, msg->error, msg->name) : NULL;
    if (attachment == NULL) {
        effects_job_done(core->effects, session->control, msg->request, CODE_EINVAL,
                         job != NULL ? ERROR_TYPE_NOT_KEPT : ERROR_TYPE_NO_JOB,
                         job != NULL
                             ? "the error has no attachment of this name, or it is kept no more"
                             : text_say(&core->why_held, "there is no job ", msg->job));
        return;
    }
    uint64_t offset = least(msg->offset, attachment->bytes);
    uint64_t under_way = session->data_sent - least(msg->received, session->data_sent);
    uint64_t credit = LIMIT_FETCH_WINDOW_BYTES - least(under_way, LIMIT_FETCH_WINDOW_BYTES);
    uint64_t count = least(attachment->bytes - offset, least(msg->window_bytes, credit));
    struct msg_fetched *fetched =
        &effects_msg(core->effects, session->control, MSG_FETCHED)->as.fetched;
    fetched->request = msg->request;
    fetched->total = attachment->bytes;
    fetched->offset = offset;
    fetched->count = count;
    fetched->state = attach_state(core, attachment);
    fetched->promised = attachment->promised;
    fetched->arrived = attachment->arrived;
    send_pieces(core, session, msg->request, attachment, offset, count);
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
