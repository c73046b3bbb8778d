/* SPDX-License-Identifier: MPL-2.0 */
/* refusal.c -- REFUSED: tells a writer which of its slots got another outcome than it gave them. */
#include "broker/core/settling/refusal.h"

#include "broker/core/record/count.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/tables/effect.h"

/* number 0: it was not remembered. */
static void put_refusal(struct core *core, struct session *session, const struct refusal *refusal,
                        uint64_t number)
{
    struct msg *msg = effects_msg(core->effects, session->control, MSG_REFUSAL);
    msg->as.refusal.topic = refusal->topic;
    msg->as.refusal.seq = refusal->seq;
    msg->as.refusal.error = failure_span(refusal->failure);
    msg->as.refusal.number = number;
    msg->as.refusal.count = refusal->count > 1 ? refusal->count : 0;
}

static void send_refusal(struct core *core, struct session *session, uint64_t number)
{
    put_refusal(core, session, &session->refusals[number % REFUSALS_KEPT], number);
}

static bool refusal_keep(struct core *core, struct session *session, const struct refusal *refusal)
{
    if (session->refusals == NULL)
        session->refusals = memory_take(core->memory, REFUSALS_KEPT * sizeof *session->refusals);
    if (session->refusals == NULL)
        return false;
    uint64_t number = ++session->refusal_number;
    struct refusal *place = &session->refusals[number % REFUSALS_KEPT];
    failure_unref(core, place->failure);
    *place = *refusal;
    place->failure = failure_ref(refusal->failure);
    note_refused(core, session, number);
    return true;
}

/* Without memory for the ring the refusal is sent once, and not again after a reconnect.  A writer
 * that missed it would go on as if its value stood, and would never correct its credit. */
static void remember_and_tell(struct core *core, struct session *session,
                              const struct refusal *refusal)
{
    bool is_kept = refusal_keep(core, session, refusal);
    if (session->control != 0)
        put_refusal(core, session, refusal, is_kept ? session->refusal_number : 0);
}

bool refusal_remember(struct core *core, struct session *session, uint32_t topic, uint64_t seq,
                      uint32_t count, struct failure *failure)
{
    return refusal_keep(
        core, session,
        &(struct refusal){.topic = topic, .seq = seq, .failure = failure, .count = count});
}

void refusal_of_slots(struct core *core, struct session *session, struct topic *topic, uint64_t seq,
                      uint32_t count, const char *type, const char *message, struct failure *cause)
{
    enum error_kind kind = cause != NULL ? cause->kind : ERROR_REJECTED;
    struct failure *failure = failure_make(core, &(struct failure_spec){.job = session->job,
                                                                        .party = session->party,
                                                                        .kind = kind,
                                                                        .type = type,
                                                                        .message = message,
                                                                        .topic = topic,
                                                                        .seq = seq,
                                                                        .cause = cause});
    count_refusals(core, type, count);
    remember_and_tell(
        core, session,
        &(struct refusal){.topic = topic->number, .seq = seq, .failure = failure, .count = count});
    failure_unref(core, failure);
}

void refusal_of_numbers(struct core *core, struct session *session, uint32_t number, uint64_t seq,
                        uint32_t count, const char *type, const char *message)
{
    struct failure *failure = failure_of_rejection(core, session, type, message, NULL, 0);
    count_refusals(core, type, count);
    remember_and_tell(
        core, session,
        &(struct refusal){.topic = number, .seq = seq, .failure = failure, .count = count});
    failure_unref(core, failure);
}

void refusals_tell_again(struct core *core, struct session *session, uint64_t after)
{
    if (after >= session->refusal_number) /* whatever a client says that it has seen */
        return;
    uint64_t first = after + 1;
    if (session->refusal_number >= REFUSALS_KEPT &&
        first <= session->refusal_number - REFUSALS_KEPT)
        first = session->refusal_number - REFUSALS_KEPT + 1;
    for (uint64_t number = first; number <= session->refusal_number; number++)
        send_refusal(core, session, number);
}

void refusal_tell(struct core *core, struct session *session, const struct refusal *settled)
{
    remember_and_tell(core, session, settled);
}
