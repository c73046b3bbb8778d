/* SPDX-License-Identifier: MPL-2.0 */
/* notice.c -- tells a session that it waits, perhaps in vain.
 *
 * The name of a party may be misspelt, and the wait for it then lasts for ever.  It may also be
 * right, and the party late.  The broker cannot know that, so it ends no wait, and says what it
 * knows: once for each session and name, when the wait has lasted for a second.  At that moment it
 * looks whether the party has joined meanwhile, and whether the session still waits.  So whatever
 * joins, or ends a wait, has nothing to do for this.
 *
 * A request that no group takes is told in the same way, once for each topic.  When it has to fail
 * is decided in streams/reply.c, and the same timer serves both.
 *
 * The members of a group are told of slots that were gone when the group came to them.
 *
 * On another connection a session is told again of what is still true: the last connection may have
 * lost it.
 *
 * A session has LIMIT_NOTICES at most, and is told of nothing further.  Without memory its waits
 * are looked at again a second later.  No fact tells of any of it: see
 * broker/design/time_and_loss.md. */
#include "broker/core/streams/notice.h"

#include "broker/core/record/failure.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/tell.h"
#include "broker/core/record/text.h"
#include "broker/core/streams/names.h"
#include "broker/core/streams/reply.h"
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
static struct notice *next_due(const struct session *session)
{
    LIST_EACH(link, &session->notices) {
        struct notice *item = LIST_OWNER(link, struct notice, link);
        if (item->error == NULL)
            return item;
    }
    return NULL;
}

static void arm(struct core *core, struct session *session)
{
    const struct notice *next = next_due(session);
    if (next != NULL)
        timers_set(&core->timers, &session->notice_timer, next->since_ns + LIMIT_NOTICE_MS * MS_NS);
    else if (session->missed_notice)
        timers_set(&core->timers, &session->notice_timer,
                   core_clock(core) + LIMIT_NOTICE_MS * MS_NS);
}

/* NULL: there is none about this. */
static struct notice *find(const struct session *session, struct span name)
{
    LIST_EACH(link, &session->notices)
        if (span_equal(LIST_OWNER(link, struct notice, link)->about, name))
            return LIST_OWNER(link, struct notice, link);
    return NULL;
}

static void drop(struct core *core, struct session *session, struct notice *item)
{
    list_remove(&item->link);
    session->notice_count -= 1;
    failure_unref(core, item->error);
    list_push(&core->unused_notices, &item->link);
}

void notice_free_unused(struct core *core)
{
    LIST_EACH(link, &core->unused_notices) {
        struct notice *item = LIST_OWNER(link, struct notice, link);
        list_remove(link);
        span_drop(core, &item->about);
        memory_give(core->memory, item, sizeof *item);
    }
}

/* NULL: there is one about this, or there is no room. */
static struct notice *add_notice(struct core *core, struct session *session, enum notice_kind kind,
                                 struct span about)
{
    if (session->notice_count == LIMIT_NOTICES || find(session, about) != NULL)
        return NULL;
    struct notice *item = memory_take(core->memory, sizeof *item);
    if (item == NULL) {
        session->missed_notice = true;
        return NULL;
    }
    list_push(&session->notices, &item->link);
    session->notice_count += 1;
    item->kind = kind;
    item->since_ns = core_clock(core);
    if (span_keep(core, about, &item->about))
        return item;
    session->missed_notice = true;
    drop(core, session, item);
    return NULL;
}

/* false: there is no connection; it is told when there is one. */
static bool say_to(struct core *core, const struct session *to, const struct notice *item)
{
    if (to == NULL || to->control == 0 || !to->is_ready)
        return false;
    struct msg_notice *msg = &effects_msg(core->effects, to->control, MSG_NOTICE)->as.notice;
    msg->about = item->about;
    msg->error = failure_span(item->error);
    return true;
}

/* Each wait for it may find that it was due while there was no connection, and was over when there
 * was one again. */
static void say_late(struct core *core, const struct session *session, struct span name)
{
    struct notice *item = find(session, name);
    if (item != NULL && item->error != NULL && !item->is_said)
        item->is_said = say_to(core, session, item);
}

void notice_wait(struct core *core, struct session *session, struct span name)
{
    bool is_party = !span_equal(name, span_text(GROUPS_PARTY));
    if (!is_party || has_joined(core, session->job, name))
        return;
    (void)add_notice(core, session, NOTICE_NEVER_JOINED, name);
    say_late(core, session, name);
    if (session->notice_timer.place == 0)
        arm(core, session);
}

void notice_wait_all(struct core *core, const struct sub *sub)
{
    struct span party;
    for (uint32_t i = 0; i < sub->pattern_count; i++)
        if (pattern_names_party(sub->patterns[i], &party))
            notice_wait(core, sub->session, party);
}

void notice_resume(struct core *core, struct session *session)
{
    LIST_EACH(link, &session->awaits)
        notice_wait(core, session,
                    LIST_OWNER(link, struct await, session_link)->topic->writer->name);
    LIST_EACH(link, &session->subs)
        notice_wait_all(core, LIST_OWNER(link, struct sub, session_link));
}

void notice_forget(struct core *core, struct session *session)
{
    LIST_EACH(link, &session->notices)
        drop(core, session, LIST_OWNER(link, struct notice, link));
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

static void write_never_joined(const struct core *core, const struct session *session,
                               const struct notice *item, struct text *text)
{
    const struct party *meant = nearest(session, item->about);
    text_init(text);
    text_add(text, "no party named '");
    text_add_span(text, item->about);
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

/* false: there is no memory for the error, and nothing is told. */
static bool say(struct core *core, struct session *session, struct notice *item,
                const struct failure_spec *what)
{
    struct failure_spec spec = *what;
    spec.job = session->job;
    spec.party = session->party;
    spec.session = session;
    spec.kind = ERROR_NOTICE;
    item->error = failure_make(core, &spec);
    if (failure_is_spare(core, item->error)) {
        failure_unref(core, item->error);
        item->error = NULL;
        return false;
    }
    item->is_said = say_to(core, session, item);
    (void)say_to(core, session->party->guard, item);
    return true;
}

static void tell_never_joined(struct core *core, struct session *session, struct notice *item)
{
    struct text text;
    write_never_joined(core, session, item, &text);
    if (!say(core, session, item,
             &(struct failure_spec){
                 .type = ERROR_TYPE_NEVER_JOINED, .message = text.data, .blame = item->about})) {
        item->since_ns = core_clock(core); /* told a second later, if it still waits then */
        return;
    }
    tell(core, session->job,
         &(struct tell){.name = EVENT_PARTY_NEVER_JOINED,
                        .party = session->party,
                        .incarnation = session->incarnation,
                        .text = text.data,
                        .failure = item->error});
}

void notice_unserved(struct core *core, const struct open_slot *reply)
{
    const struct slot_terms *terms = reply->terms;
    struct topic *topic = pool_find(&core->topics, terms->request_topic);
    struct session *session = reply->topic->writer->session;
    struct notice *item =
        session != NULL ? add_notice(core, session, NOTICE_UNSERVED, topic->name) : NULL;
    struct text text;
    if (item == NULL)
        return;
    text_init(&text);
    text_add(&text, "no group with a member takes requests of '");
    text_add_span(&text, topic->name);
    text_add(&text, "'; start a worker, or correct the topic; they fail after ");
    text_add_number(&text, (uint64_t)core->options.unserved_ms);
    text_add(&text, " ms without one");
    if (!say(core, session, item,
             &(struct failure_spec){.type = ERROR_TYPE_UNSERVED,
                                    .message = text.data,
                                    .topic = reply->topic,
                                    .seq = reply->seq}))
        drop(core, session, item);
}

/* Each gap is a notice of its own. */
static void write_gap_name(const struct route *route, struct text *text)
{
    text_init(text);
    text_add_span(text, route->topic->name);
    text_add(text, "#");
    text_add_number(text, route->next_seq);
    text_add(text, " of ");
    text_add_span(text, route->sub->name);
}

void notice_gone(struct core *core, const struct route *route, uint64_t first_seq)
{
    const struct group *group = route->sub->group;
    uint64_t count = first_seq - route->next_seq;
    struct text name;
    struct text text;
    write_gap_name(route, &name);
    text_init(&text);
    text_add(&text, "the group '");
    text_add_span(&text, group->place->name);
    text_add(&text, "' goes on with ");
    text_add_span(&text, route->topic->name);
    text_add(&text, "#");
    text_add_number(&text, first_seq);
    text_add(&text, ": the broker no longer keeps ");
    text_add_number(&text, count);
    text_add(&text, count == 1 ? " slot before it" : " slots before it");
    tell(core, route->topic->job,
         &(struct tell){.name = EVENT_TASKS_GONE,
                        .topic = route->topic,
                        .seq = route->next_seq,
                        .count = count,
                        .text = text.data});
    LIST_EACH(link, &group->members) {
        struct session *session = LIST_OWNER(link, struct sub, member_link)->session;
        struct notice *item =
            add_notice(core, session, NOTICE_GONE, span_of(name.data, name.bytes));
        if (item == NULL)
            continue;
        if (!say(core, session, item,
                 &(struct failure_spec){.type = ERROR_TYPE_NOT_KEPT,
                                        .message = text.data,
                                        .topic = route->topic,
                                        .seq = route->next_seq}))
            drop(core, session, item);
    }
}

void notice_timer(struct core *core, struct session *session)
{
    if (session->missed_notice) {
        session->missed_notice = false;
        notice_resume(core, session);
    }
    struct notice *item = next_due(session);
    if (item != NULL && !has_joined(core, session->job, item->about) &&
        is_waiting(session, item->about))
        tell_never_joined(core, session, item);
    else if (item != NULL)
        drop(core, session, item); /* a later wait gets a notice of its own */
    arm(core, session);
}

/* Requests of the session in this topic still wait for a member. */
static bool is_unserved(const struct core *core, const struct session *session, struct span name)
{
    uint32_t id;
    const struct topic *topic =
        name_map_get(&session->job->topics, name, &id) ? pool_find(&core->topics, id) : NULL;
    if (topic == NULL)
        return false;
    LIST_EACH(link, &topic->requests) {
        const struct slot_terms *terms = LIST_OWNER(link, struct slot_terms, request_link);
        if (terms->open->topic->writer == session->party && !reply_is_served(core, terms->open))
            return true;
    }
    return false;
}

/* Slots that are gone stay gone, but a wait may be over by now. */
static bool is_true_still(struct core *core, const struct session *session,
                          const struct notice *item)
{
    switch (item->kind) {
    case NOTICE_NEVER_JOINED:
        return !has_joined(core, session->job, item->about) && is_waiting(session, item->about);
    case NOTICE_UNSERVED: return is_unserved(core, session, item->about);
    case NOTICE_GONE: break;
    }
    return true;
}

void notice_tell_again(struct core *core, const struct session *to)
{
    const struct session *session = to->party->session; /* the one that waits, if to is a guard */
    if (session == NULL)
        return;
    LIST_EACH(link, &session->notices) {
        struct notice *item = LIST_OWNER(link, struct notice, link);
        bool is_said =
            item->error != NULL && is_true_still(core, session, item) && say_to(core, to, item);
        if (to == session)
            item->is_said = is_said;
    }
}
