/* SPDX-License-Identifier: MPL-2.0 */
/* never_joined.c -- tells a session that it waits for a party of which nobody has ever heard.
 *
 * A name may be misspelt, and the wait for it then lasts for ever.  It may also be right, and the
 * party late.  The broker cannot know that, so it ends no wait, and says what it knows: once for
 * each session and name, when the wait has lasted for a second.  At that moment it looks whether
 * the party has joined meanwhile, and whether the session still waits.  So whatever joins, or ends
 * a wait, has nothing to do for this.
 *
 * A session has LIMIT_NOTICES names at most, and is told of no further one.  Without memory it is
 * told of none.  No fact tells of any of it: see broker/design/time_and_loss.md. */
#include "broker/core/streams/never_joined.h"

#include "broker/core/record/failure.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/tell.h"
#include "broker/core/record/text.h"
#include "broker/core/streams/names.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/near_name.h"
#include "broker/core/tables/timers.h"
#include "libbus/base/pattern.h"

static bool has_joined(struct core *core, const struct job *job, struct span name)
{
    uint32_t id;
    const struct party *party =
        name_map_get(&job->parties, name, &id) ? pool_find(&core->parties, id) : NULL;
    return party != NULL && party->incarnation > 0;
}

/* ---- what a session waits for ---------------------------------------------------------------- */

static bool sub_names(const struct sub *sub, struct span name)
{
    struct span party;
    for (uint32_t i = 0; i < sub->pattern_count; i++)
        if (pattern_names_party(sub->patterns[i], &party) && span_equal(party, name))
            return true;
    return false;
}

static bool is_waiting(const struct session *session, struct span name)
{
    LIST_EACH(link, &session->awaits) {
        const struct await *await = LIST_OWNER(link, struct await, session_link);
        if (span_equal(await->topic->writer->name, name))
            return true;
    }
    LIST_EACH(link, &session->subs)
        if (sub_names(LIST_OWNER(link, struct sub, session_link), name))
            return true;
    return false;
}

/* The first of those whose time is not over; NULL: none. */
static struct never_joined *next_due(const struct session *session)
{
    LIST_EACH(link, &session->never_joined) {
        struct never_joined *item = LIST_OWNER(link, struct never_joined, link);
        if (item->notice == NULL)
            return item;
    }
    return NULL;
}

static void arm(struct core *core, struct session *session)
{
    const struct never_joined *next = next_due(session);
    if (next != NULL)
        timers_set(&core->timers, &session->never_joined_timer,
                   next->since_ns + LIMIT_NEVER_JOINED_MS * MS_NS);
}

static bool is_known(const struct session *session, struct span name)
{
    LIST_EACH(link, &session->never_joined)
        if (span_equal(LIST_OWNER(link, struct never_joined, link)->name, name))
            return true;
    return false;
}

static void drop(struct core *core, struct session *session, struct never_joined *item)
{
    list_remove(&item->link);
    session->never_joined_count -= 1;
    failure_unref(core, item->notice);
    span_drop(core, &item->name);
    memory_give(core->memory, item, sizeof *item);
}

void never_joined_wait(struct core *core, struct session *session, struct span name)
{
    if (session->never_joined_count == LIMIT_NOTICES || is_known(session, name) ||
        span_equal(name, span_text(GROUPS_PARTY)) || has_joined(core, session->job, name))
        return;
    struct never_joined *item = memory_take(core->memory, sizeof *item);
    if (item == NULL)
        return;
    list_push(&session->never_joined, &item->link);
    session->never_joined_count += 1;
    item->since_ns = core_clock(core);
    if (!span_keep(core, name, &item->name))
        drop(core, session, item);
    else if (session->never_joined_timer.place == 0)
        arm(core, session);
}

void never_joined_wait_all(struct core *core, const struct sub *sub)
{
    struct span party;
    for (uint32_t i = 0; i < sub->pattern_count; i++)
        if (pattern_names_party(sub->patterns[i], &party))
            never_joined_wait(core, sub->session, party);
}

void never_joined_resume(struct core *core, struct session *session)
{
    LIST_EACH(link, &session->subs)
        never_joined_wait_all(core, LIST_OWNER(link, struct sub, session_link));
}

void never_joined_forget(struct core *core, struct session *session)
{
    LIST_EACH(link, &session->never_joined)
        drop(core, session, LIST_OWNER(link, struct never_joined, link));
}

/* ---- telling --------------------------------------------------------------------------------- */

/* The nearest of the others that joined; of several the one that the job has known longest. */
static const struct party *nearest(const struct session *session, struct span name)
{
    const struct party *best = NULL;
    uint32_t best_edits = UINT32_MAX;
    LIST_EACH(link, &session->job->party_list) {
        const struct party *party = LIST_OWNER(link, struct party, job_link);
        uint32_t edits;
        if (party != session->party && party->incarnation > 0 &&
            near_name(name, party->name, &edits) && edits < best_edits) {
            best = party;
            best_edits = edits;
        }
    }
    return best;
}

static void write_text(const struct core *core, const struct session *session,
                       const struct never_joined *item, struct text *text)
{
    const struct party *meant = nearest(session, item->name);
    text_init(text);
    text_add(text, "no party named '");
    text_add_span(text, item->name);
    text_add(text, "' has ever joined the job; ");
    if (meant != NULL) {
        text_add(text, "did you mean '");
        text_add_span(text, meant->name);
        text_add(text, "'? ");
    } else
        text_add(text, "start it, or correct the name; ");
    text_add_span(text, session->party->name);
    text_add(text, " has waited for it for ");
    text_add_number(text, (uint64_t)((core_clock(core) - item->since_ns) / MS_NS));
    text_add(text, " ms");
}

static void say_to(struct core *core, const struct session *to, const struct never_joined *item)
{
    if (to == NULL || to->control == 0 || !to->is_ready)
        return; /* told when it is back */
    struct msg_notice *msg = &effects_msg(core->effects, to->control, MSG_NOTICE)->as.notice;
    msg->about = item->name;
    msg->error = failure_span(item->notice);
}

static void tell_waiting(struct core *core, struct session *session, struct never_joined *item)
{
    struct text text;
    write_text(core, session, item, &text);
    item->notice = failure_make(core, &(struct failure_spec){.job = session->job,
                                                             .party = session->party,
                                                             .session = session,
                                                             .kind = ERROR_NOTICE,
                                                             .type = ERROR_TYPE_NEVER_JOINED,
                                                             .message = text.data,
                                                             .blame = item->name});
    tell(core, session->job,
         &(struct tell){.name = EVENT_PARTY_NEVER_JOINED,
                        .party = session->party,
                        .incarnation = session->incarnation,
                        .text = text.data,
                        .failure = item->notice});
    say_to(core, session, item);
    say_to(core, session->party->guard, item);
}

void never_joined_timer(struct core *core, struct session *session)
{
    struct never_joined *item = next_due(session);
    if (item != NULL && !has_joined(core, session->job, item->name) &&
        is_waiting(session, item->name))
        tell_waiting(core, session, item);
    else if (item != NULL)
        drop(core, session, item); /* a later wait is another one */
    arm(core, session);
}

void never_joined_tell_again(struct core *core, const struct session *to)
{
    const struct session *session = to->party->session; /* the one that waits, if to is a guard */
    if (session == NULL)
        return;
    LIST_EACH(link, &session->never_joined) {
        const struct never_joined *item = LIST_OWNER(link, struct never_joined, link);
        if (item->notice != NULL && !has_joined(core, session->job, item->name) &&
            is_waiting(session, item->name))
            say_to(core, to, item);
    }
}
