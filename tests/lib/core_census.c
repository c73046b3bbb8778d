/* SPDX-License-Identifier: MPL-2.0 */
/* core_census.c -- one table names what must be empty; failures are counted by hand.
 *
 * The memory that a core gives back does not show such a leak: core_free() frees whole pools. */
#include "tests/lib/core_census.h"

#include "broker/core/model.h"

#include <stddef.h>
#include <stdio.h>

/* What a core of no job has none of. */
static const struct {
    const char *name;
    size_t offset;
} pools[] = {
    {"jobs", offsetof(struct core, jobs)},
    {"sessions", offsetof(struct core, sessions)},
    {"parties", offsetof(struct core, parties)},
    {"topics", offsetof(struct core, topics)},
    {"open slots", offsetof(struct core, open_slots)},
    {"terms of slots", offsetof(struct core, slot_terms)},
    {"sets of chunks", offsetof(struct core, chunk_sets)},
    {"subscriptions", offsetof(struct core, subs)},
    {"routes", offsetof(struct core, routes)},
    {"awaits", offsetof(struct core, awaits)},
    {"groups", offsetof(struct core, groups)},
    {"tasks", offsetof(struct core, tasks)},
    {"attachments", offsetof(struct core, attachments)},
    {"accounts", offsetof(struct core, accounts)},
    {"needed slots", offsetof(struct core, needs.heads)},
    {"needs", offsetof(struct core, needs.edges)},
};

static const struct {
    const char *name;
    size_t offset;
} lists[] = {
    {"sessions to send to", offsetof(struct core, pump)},
    {"sessions to be answered", offsetof(struct core, dirty)},
    {"sessions that are owed an answer", offsetof(struct core, owing)},
    {"full jobs", offsetof(struct core, tight)},
    {"jobs with new events", offsetof(struct core, told)},
    {"jobs to be weighed", offsetof(struct core, jobs_due)},
    {"jobs to be ended", offsetof(struct core, jobs_over)},
    {"judgements", offsetof(struct core, judged)},
    {"groups to be dealt to", offsetof(struct core, groups_due)},
    {"turns", offsetof(struct core, turns)},
    {"sessions that wait for a turn", offsetof(struct core, turn_waiters)},
    {"walks through waits", offsetof(struct core, wait_walks)},
    {"writers that wait for readers", offsetof(struct core, lead_waiters)},
    {"slots that fall", offsetof(struct core, falling)},
};

enum { SPARE_ID = 1 }; /* the failure that every core makes first, and keeps */

/* Those that are referred to: one without references goes with the next step. */
static uint64_t count_failures(const struct core *core)
{
    uint64_t count = 0;
    const struct failure *failure = NULL;
    while ((failure = pool_next(&core->failures, failure != NULL ? failure->id : 0)) != NULL)
        count += failure->id == SPARE_ID ? failure->refs != 1 : failure->refs > 0;
    return count;
}

static uint64_t count_held(const struct account *account)
{
    uint64_t count = account->refs;
    for (unsigned i = 0; i < ACCESS_QUOTA_COUNT; i++)
        count += account->held[i] > 0;
    return count;
}

static const char *left(uint64_t count, const char *name)
{
    static char text[100];
    (void)snprintf(text, sizeof text, "%llu %s", (unsigned long long)count, name); /* fits */
    return text;
}

const char *core_census_left(const struct core *core)
{
    const char *base = (const char *)core;
    for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++) {
        const struct pool *pool = (const void *)(base + pools[i].offset);
        if (pool->used > 0)
            return left(pool->used, pools[i].name);
    }
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (!list_is_empty((const void *)(base + lists[i].offset)))
            return left(1, lists[i].name);
    if (count_failures(core) > 0)
        return left(count_failures(core), "failures");
    if (core->job_names.count + core->conns.count + core->tokens.count > 0)
        return left(core->job_names.count + core->conns.count + core->tokens.count,
                    "names, connections and tokens");
    if (count_held(&core->nobody) > 0)
        return left(count_held(&core->nobody), "counts of the account without a name");
    return core->parked_bytes > 0 ? left(core->parked_bytes, "bytes that are parked") : NULL;
}

/* ---- accounts -------------------------------------------------------------------------------- */

static void recount(const struct core *core, struct account *count)
{
    const struct session *session = NULL;
    const struct party *party = NULL;
    const struct topic *topic = NULL;
    const struct sub *sub = NULL;
    const struct attachment *attachment = NULL;
    const struct job *job = NULL;
    while ((session = pool_next(&core->sessions, session != NULL ? session->id : 0)) != NULL)
        if (session->account->id == count->id) {
            count->refs += 1;
            count->held[ACCESS_CONNECTIONS] += 1;
        }
    while ((party = pool_next(&core->parties, party != NULL ? party->id : 0)) != NULL)
        if (party->account->id == count->id) {
            count->refs += 1;
            count->held[ACCESS_OPEN_SLOTS] += party->open_count;
        }
    while ((sub = pool_next(&core->subs, sub != NULL ? sub->id : 0)) != NULL)
        count->held[ACCESS_SUBSCRIPTIONS] += sub->party->account->id == count->id;
    while ((attachment = pool_next(&core->attachments, attachment != NULL ? attachment->id : 0)) !=
           NULL)
        if (attachment->account->id == count->id) {
            count->refs += 1;
            count->held[ACCESS_ATTACHMENTS] += attachment->bytes;
        }
    while ((topic = pool_next(&core->topics, topic != NULL ? topic->id : 0)) != NULL)
        if (topic->writer->account->id == count->id) {
            count->held[ACCESS_BYTES] += topic->bytes;
            count->held[ACCESS_TOPICS] += topic->is_opened;
        }
    while ((job = pool_next(&core->jobs, job != NULL ? job->id : 0)) != NULL)
        if (job->account->id == count->id) {
            count->refs += 1;
            count->held[ACCESS_JOBS] += 1;
        }
}

static const char *miscounted(const struct core *core, const struct account *account)
{
    static char text[200];
    struct account count = {.id = account->id};
    recount(core, &count);
    if (count.refs != account->refs) {
        (void)snprintf(text, sizeof text, "'%.*s' has %u references, not %u", /* may be cut */
                       (int)account->name.bytes, (const char *)account->name.data, account->refs,
                       count.refs);
        return text;
    }
    for (unsigned i = 0; i < ACCESS_QUOTA_COUNT; i++) {
        if (count.held[i] == account->held[i])
            continue;
        (void)snprintf(text, sizeof text, "'%.*s' has %llu %s, not %llu", /* may be cut */
                       (int)account->name.bytes, (const char *)account->name.data,
                       (unsigned long long)account->held[i],
                       access_quota_name((enum access_quota)i), (unsigned long long)count.held[i]);
        return text;
    }
    return NULL;
}

/* Topics whose writers are stopped; of a job, or those that wait for a rate. */
static const char *stopped_miscounted(const struct core *core)
{
    static char text[200];
    const struct job *job = NULL;
    const struct topic *topic = NULL;
    uint32_t waiting = 0;
    while ((job = pool_next(&core->jobs, job != NULL ? job->id : 0)) != NULL) {
        uint32_t count = 0;
        LIST_EACH(link, &job->topic_list) {
            count += LIST_OWNER(link, struct topic, job_link)->is_held_back;
        }
        if (count == job->held_back_count)
            continue;
        (void)snprintf(text, sizeof text, "%u topics of a job are held back, not %u", count,
                       job->held_back_count);
        return text;
    }
    while ((topic = pool_next(&core->topics, topic != NULL ? topic->id : 0)) != NULL)
        waiting += list_is_linked(&topic->rate_link);
    if (waiting == core->rate_wait_count)
        return NULL;
    (void)snprintf(text, sizeof text, "%u topics wait for a rate, not %u", waiting,
                   core->rate_wait_count);
    return text;
}

const char *core_census_miscounted(const struct core *core)
{
    const char *wrong = miscounted(core, &core->nobody);
    if (wrong == NULL)
        wrong = stopped_miscounted(core);
    const struct account *account = NULL;
    while (wrong == NULL &&
           (account = pool_next(&core->accounts, account != NULL ? account->id : 0)) != NULL)
        wrong = miscounted(core, account);
    return wrong;
}
