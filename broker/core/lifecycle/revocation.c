/* SPDX-License-Identifier: MPL-2.0 */
/* revocation.c -- see revocation.h. */
#include "broker/core/lifecycle/revocation.h"

#include "broker/core/groups/subscription.h"
#include "broker/core/lifecycle/ending.h"
#include "broker/core/lifecycle/session.h"
#include "broker/core/record/access_news.h"
#include "broker/core/record/account.h"
#include "broker/core/record/courier.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/rights.h"
#include "broker/core/record/text.h"
#include "broker/core/tables/party.h"
#include "libbus/base/must.h"

#define NO_ROOM_TEXT "the broker is short of memory for the topics that this party may read now"

/* What it reads and awaits is looked at, too: to be sent nothing without a word would let it wait
 * for ever. */
static bool party_may_go_on(const struct core *core, const struct party *party)
{
    const struct session *session = party->session;
    if (access_may_be(core->access, party->principal, party->job->name, party->name) == 0)
        return false;
    if (session == NULL)
        return true;
    LIST_EACH(link, &session->subs)
        if (!sub_is_allowed(core, LIST_OWNER(link, struct sub, session_link)))
            return false;
    LIST_EACH(link, &session->awaits)
        if (!rights_may_read(core, party,
                             LIST_OWNER(link, struct await, session_link)->topic->name))
            return false;
    LIST_EACH(link, &session->awaits_ready) {
        const struct await *await = LIST_OWNER(link, struct await, link);
        bool is_denied = await->topic == NULL;
        if (!is_denied && !rights_may_read(core, party, await->topic->name))
            return false;
    }
    return true;
}

/* A party of before there was an access file has no owner. */
static void add_reason(struct text *text, const struct party *party)
{
    if (party->account->name.bytes == 0) {
        text_add(text, "it joined before the broker had an access file");
        return;
    }
    text_add(text, "access of ");
    text_add_span(text, party->account->name);
    text_add(text, " was withdrawn");
}

static void revoke(struct core *core, struct session *session)
{
    struct party *party = session->party;
    struct text text;
    text_init(&text);
    text_add(&text, "party ");
    text_add_span(&text, party->name);
    text_add(&text, " lost: ");
    add_reason(&text, party);
    struct failure *failure =
        failure_make(core, &(struct failure_spec){.job = session->job,
                                                  .party = party,
                                                  .session = session,
                                                  .kind = ERROR_PARTY_LOST,
                                                  .type = ERROR_TYPE_REVOKED,
                                                  .message = text.data,
                                                  .occurred_ns = core->now_ns});
    session_end_party(core, session, PARTY_IS_LOST, failure, CODE_EDENIED);
    failure_unref(core, failure);
}

static bool observer_may_go_on(const struct core *core, const struct session *session)
{
    struct span job = session->job != NULL ? session->job->name : session->job_name;
    bool is_tapping = session->tap_window > 0;
    return session->principal != 0 &&
           (!is_tapping || access_may(core->access, session->principal, ACCESS_TAP, job) != 0);
}

/* Who waits for a verdict asks again on another connection, and is judged anew.  A courier asks
 * again for the rest of what it fetches. */
static void look_at_observer(struct core *core, struct session *session)
{
    if (!observer_may_go_on(core, session))
        session_dismiss(core, session, CODE_EDENIED, NULL);
    else if (list_is_linked(&session->verdict_link))
        session_drop(core, session);
    else
        courier_ask_again(core, session);
}

/* The number that the principal has in the new table. */
static uint32_t number_of(const struct access *access, const struct access *before,
                          uint32_t principal)
{
    return access_find(access, access_name(before, principal));
}

/* Marks the sessions of parties that lose their access, and counts these parties. */
static uint32_t mark_revoked(struct core *core)
{
    struct session *session = NULL;
    uint32_t count = 0;
    while ((session = pool_next(&core->sessions, session != NULL ? session->id : 0)) != NULL) {
        struct party *party = session->party;
        session->is_revoked = party != NULL && !party_may_go_on(core, party);
        count += session->is_revoked && session == party_any_session(party);
    }
    return count;
}

/* ---- rights that came ------------------------------------------------------------------------ */

/* Whether the table of before let the subscription have all that it is for. */
static bool had_all(const struct sub *sub, const struct access *before)
{
    const struct party *party = sub->party;
    uint32_t principal = access_find(before, party->account->name);
    for (uint32_t i = 0; i < sub->pattern_count; i++)
        if (access_may_cover(before, principal, sub->job->name, party->name, sub->patterns[i]) == 0)
            return false;
    return true;
}

/* A reader that is not given what it may read now would wait for it, and nobody would tell it. */
static void end_reader(struct core *core, struct sub *sub)
{
    struct session *session = sub->session;
    if (session == NULL) {
        sub_end(core, sub); /* a durable name: it is made anew when it is opened */
        return;
    }
    struct failure *failure =
        failure_make(core, &(struct failure_spec){.job = session->job,
                                                  .party = sub->party,
                                                  .session = session,
                                                  .kind = ERROR_PARTY_LOST,
                                                  .type = ERROR_TYPE_NO_MEMORY,
                                                  .message = NO_ROOM_TEXT,
                                                  .occurred_ns = core->now_ns});
    session_end_party(core, session, PARTY_IS_LOST, failure, CODE_ENOMEM);
    failure_unref(core, failure);
}

/* Subscriptions follow what they may read since now.  Of what was in force before a restart nobody
 * knows: then all of them are looked at. */
static void follow_more(struct core *core, const struct access *before)
{
    struct sub *sub;
    uint32_t id = 0;
    while ((sub = pool_next(&core->subs, id)) != NULL) {
        id = sub->id;
        bool is_shared = sub_is_place(sub) || sub_is_member(sub); /* its members may read all */
        bool had_less = !core->is_judged || (core->access != before && !had_all(sub, before));
        if (!is_shared && had_less && !sub_follow_all(core, sub))
            end_reader(core, sub);
    }
    core->is_judged = true;
}

void revocation_step(struct core *core, const struct access *access)
{
    const struct access *before = core->access;
    struct party *party = NULL;
    struct session *session = NULL;
    uint32_t id = 0;
    must(before != NULL && access != NULL);
    while ((party = pool_next(&core->parties, party != NULL ? party->id : 0)) != NULL)
        party->principal = access_find(access, party->account->name);
    while ((session = pool_next(&core->sessions, id)) != NULL) {
        id = session->id;
        session->principal = session->party != NULL ? session->party->principal
                                                    : number_of(access, before, session->principal);
    }
    core->access = access;
    accounts_review(core);
    uint32_t revoked = mark_revoked(core);
    if (access != before) /* else a key of it has ended */
        access_news_reloaded(core, before, access, revoked);
    id = 0;
    while ((session = pool_next(&core->sessions, id)) != NULL) {
        id = session->id;
        if (session->party == NULL)
            look_at_observer(core, session);
        else if (session->is_revoked)
            revoke(core, session);
    }
    follow_more(core, before);
}
