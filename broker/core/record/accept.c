/* SPDX-License-Identifier: MPL-2.0 */
/* accept.c -- ACCEPTED: tells clients what is accepted, at the end of each step.
 *
 * An answer wakes three threads.  A writer that sends one large batch after the other waits for
 * none of these answers.  So ACCEPTED may wait behind a large batch, until more batches came or
 * LIMIT_ACCEPT_MS passed.  The core learns whether the writer waits after all.  When the time
 * passes in vain, batches are answered at once for a while, each time twice as long.  When putting
 * off pays again, this begins anew.  A writer that flushes behind each large value is soon answered
 * at once. */
#include "broker/core/record/accept.h"

#include "broker/core/record/note.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/event.h"

/* A batch of this size is one of many: a client whose values are few sends what it has
 * (libbus/session/outbox.h). */
#define LARGE_BATCH_BYTES (DEFAULT_BATCH_BYTES / 2)
/* Batches that are answered at once when putting off was in vain. */
enum { PROMPT_MIN = 4, PROMPT_MAX = 1024 };

void accept_init(struct session *session)
{
    session->owed = (struct owed){.prompt_next = PROMPT_MIN};
    list_init(&session->owed.link);
}

void accept_drop(struct session *session)
{
    list_remove(&session->owed.link);
    session->owed.bytes = 0;
}

static void accepted_say(struct core *core, struct session *session)
{
    struct msg *msg = effects_msg(core->effects, session->control, MSG_ACCEPTED);
    msg->as.accepted.data_number = session->data_told = session->data_number;
    msg->as.accepted.control_number = session->control_told = session_control_number(session);
    msg->as.accepted.durability = core->options.durability;
    accept_drop(session);
}

/* Whether the answer to this event may wait; batch_bytes: what of it is a batch of this session. */
static bool may_wait(struct session *session, uint32_t batch_bytes)
{
    struct owed *owed = &session->owed;
    if (batch_bytes < LARGE_BATCH_BYTES || session->control_told != session_control_number(session))
        return false;
    if (owed->prompt_left > 0) {
        owed->prompt_left -= 1;
        return false;
    }
    owed->bytes += batch_bytes;
    if (owed->bytes < LIMIT_ACCEPT_BYTES)
        return true;
    owed->prompt_next = PROMPT_MIN;
    return false;
}

static void put_off(struct core *core, struct session *session)
{
    if (list_is_linked(&session->owed.link))
        return;
    session->owed.due_ns = core->now_ns + LIMIT_ACCEPT_MS * MS_NS;
    list_push(&core->owing, &session->owed.link);
}

static void accepted_answer(struct core *core, struct session *session, const struct event *event)
{
    bool is_batch = event->type == EVENT_DATA && event->conn == session->data;
    if (session->control == 0 || (session->data_told == session->data_number &&
                                  session->control_told == session_control_number(session)))
        return;
    if (may_wait(session, is_batch ? event->as.data.payload_bytes : 0))
        put_off(core, session);
    else
        accepted_say(core, session);
}

static struct session *first_owing(const struct core *core)
{
    return list_is_empty(&core->owing) ? NULL
                                       : LIST_OWNER(core->owing.next, struct session, owed.link);
}

/* The writer waits for it, or sends no more. */
static void answer_overdue(struct core *core)
{
    struct session *session;
    while ((session = first_owing(core)) != NULL && session->owed.due_ns <= core->now_ns) {
        struct owed *owed = &session->owed;
        owed->prompt_left = owed->prompt_next;
        owed->prompt_next = owed->prompt_next < PROMPT_MAX ? owed->prompt_next * 2 : PROMPT_MAX;
        if (session->control != 0)
            accepted_say(core, session);
        accept_drop(session);
    }
}

void accept_all(struct core *core, const struct event *event)
{
    LIST_EACH(link, &core->dirty) {
        struct session *session = LIST_OWNER(link, struct session, dirty_link);
        list_remove(link);
        if (session->party != NULL && !session->is_guard)
            note_numbers(core, session);
        accepted_answer(core, session, event);
    }
    answer_overdue(core);
}

int64_t accept_deadline_ns(const struct core *core)
{
    const struct session *session = first_owing(core);
    return session != NULL ? session->owed.due_ns : INT64_MAX;
}
