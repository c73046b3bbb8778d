/* SPDX-License-Identifier: MPL-2.0 */
/* rights.c -- see rights.h. */
#include "broker/core/record/rights.h"

#include "broker/core/record/account.h"
#include "libbus/base/must.h"

#include <stddef.h>
#include <string.h>

bool rights_is_same(const struct core *core, uint32_t principal)
{
    return core->access == NULL || (principal != 0 && principal == core->speaker);
}

bool rights_may_be(const struct core *core, struct span job, struct span party)
{
    return core->access == NULL || access_may_be(core->access, core->speaker, job, party) != 0;
}

bool rights_may_observe(const struct core *core, struct span job)
{
    bool may = core->access == NULL;
    for (unsigned right = ACCESS_PARTY; !may && right <= ACCESS_ADMIN; right *= 2)
        may = access_may(core->access, core->speaker, (enum access_right)right, job) != 0;
    return may;
}

bool rights_take_party(struct core *core, struct party *party)
{
    struct account *account = account_get(core, account_speaker(core));
    if (account == NULL)
        return false;
    account_take_party(core, party, account);
    party->principal = core->speaker;
    return true;
}

void rights_resume(struct core *core)
{
    struct party *party = NULL;
    while ((party = pool_next(&core->parties, party != NULL ? party->id : 0)) != NULL)
        party->principal =
            core->access != NULL ? access_find(core->access, party->account->name) : 0;
    struct session *session = NULL;
    while ((session = pool_next(&core->sessions, session != NULL ? session->id : 0)) != NULL)
        session->principal = session->party != NULL ? session->party->principal : 0;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Where the messages have the job that they are about. */
#define JOB_OF(upper, lower)                                                                       \
    {                                                                                              \
        MSG_##upper, offsetof(struct msg_##lower, job)                                             \
    }
static const struct {
    enum msg_type type;
    size_t at;
} jobs_asked[] = {
    JOB_OF(STATUS, status),
    JOB_OF(VERDICT_ASK, verdict_ask),
    JOB_OF(JOB_CREATE, job_create),
    JOB_OF(JOB_SHOW, job_show),
    JOB_OF(JOB_CANCEL, job_cancel),
    JOB_OF(JOB_FORGET, job_forget),
    JOB_OF(DEAD, dead),
    JOB_OF(FETCH, fetch),
    JOB_OF(BRING, bring),
    JOB_OF(ATTACHMENTS, attachments),
    JOB_OF(WHY, why),
    JOB_OF(WITHOUT, without),
};

/* The job that a question is about; a tap is about that of its session. */
static struct span job_asked(const struct session *session, const struct msg *msg)
{
    struct span job = session->job != NULL ? session->job->name : session->job_name;
    if (msg->type == MSG_METRICS)
        return SPAN_NONE; /* all jobs */
    size_t rows = sizeof jobs_asked / sizeof jobs_asked[0];
    size_t at = 0;
    while (at < rows && jobs_asked[at].type != msg->type)
        at++;
    must(at < rows || msg_kind((unsigned)msg->type)->as.to_broker.right == MSG_TAPS);
    if (at < rows)
        memcpy(&job, (const char *)&msg->as + jobs_asked[at].at, sizeof job);
    return job;
}

struct span rights_party_of(struct span id)
{
    const char *at = id.data;
    const char *slash = id.bytes > 0 ? memchr(at, '/', id.bytes) : NULL;
    if (slash == NULL)
        return SPAN_NONE;
    size_t left = id.bytes - (size_t)(slash + 1 - at);
    const char *end = left > 0 ? memchr(slash + 1, '/', left) : NULL;
    return end != NULL ? span_of(slash + 1, (size_t)(end - slash - 1)) : SPAN_NONE;
}

static bool may(const struct core *core, const struct session *session, enum access_right right,
                struct span job)
{
    return access_may(core->access, session->principal, right, job) != 0;
}

bool rights_allow(const struct core *core, const struct session *session, const struct msg *msg)
{
    enum msg_right right = msg_kind((unsigned)msg->type)->as.to_broker.right;
    if (core->access == NULL || right <= MSG_TOPICS)
        return true; /* the handler asks about topics */
    if (right == MSG_BROKER)
        return may(core, session, ACCESS_ADMIN, SPAN_NONE);
    struct span job = job_asked(session, msg);
    bool is_own = session->party != NULL && span_equal(session->job->name, job);
    switch (right) {
    case MSG_MINE:
    case MSG_GREETS:
    case MSG_TOPICS:
    case MSG_BROKER: return true; /* decided above */
    case MSG_OWN_JOB:
        return is_own || may(core, session, ACCESS_STATUS, job) ||
               may(core, session, ACCESS_TAP, job);
    case MSG_STATES:
        return may(core, session, ACCESS_STATUS, job) || may(core, session, ACCESS_TAP, job);
    case MSG_TAPS: return may(core, session, ACCESS_TAP, job);
    case MSG_JOBS: return may(core, session, ACCESS_JOB, job);
    case MSG_LETTERS: return may(core, session, ACCESS_DEAD, job);
    case MSG_ERRORS:
        return may(core, session, ACCESS_TAP, job) ||
               access_may_read_all(core->access, session->principal, job) != 0;
    case MSG_AUTHOR:
        return access_may_be(core->access, session->principal, job,
                             rights_party_of(msg->as.bring.error)) != 0;
    }
    return false;
}

/* ---- topics ---------------------------------------------------------------------------------- */

bool rights_may_read(const struct core *core, const struct party *party, struct span topic)
{
    return core->access == NULL || access_may_read(core->access, party->principal, party->job->name,
                                                   party->name, topic) != 0;
}

bool rights_may_match(const struct core *core, const struct party *party, struct span pattern)
{
    return core->access == NULL || access_may_match(core->access, party->principal,
                                                    party->job->name, party->name, pattern) != 0;
}

bool rights_may_share(const struct core *core, const struct party *party, struct span pattern)
{
    return core->access == NULL || access_may_cover(core->access, party->principal,
                                                    party->job->name, party->name, pattern) != 0;
}
