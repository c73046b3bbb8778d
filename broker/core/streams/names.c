/* SPDX-License-Identifier: MPL-2.0 */
/* names.c -- finds jobs and parties by name, and makes parties; names with a
 * meaning of their own. */
#include "broker/core/streams/names.h"

#include "broker/core/record/account.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/tell.h"
#include "broker/core/tables/timers.h"
#include "libbus/base/pattern.h"

#include <string.h>

static const char replies_level[] = "_replies";

bool name_is_replies(struct span topic)
{
    struct span party = topic_party(topic);
    size_t bytes = sizeof replies_level - 1;
    return topic.bytes == party.bytes + 1 + bytes &&
           memcmp((const char *)topic.data + party.bytes + 1, replies_level, bytes) == 0;
}

struct job *job_known(const struct core *core, struct span name)
{
    uint32_t id;
    return name_map_get(&core->job_names, name, &id) ? pool_find(&core->jobs, id) : NULL;
}

void party_keep_end(struct core *core, struct party *party)
{
    struct party_end end = party_last_end(party);
    party->ended_by = NULL;
    if (end.incarnation == 0 || party->attempt != party->job->attempt) {
        failure_unref(core, end.failure);
        return;
    }
    if (party->end_count == LIMIT_PARTY_ENDS) { /* the two oldest become one */
        struct party_end *oldest = &party->ends[0];
        struct party_end *next = &party->ends[1];
        next->first = oldest->first;
        if (next->failure == NULL)
            next->failure = oldest->failure;
        else
            failure_unref(core, oldest->failure);
        party->end_count -= 1;
        for (uint32_t i = 0; i < party->end_count; i++)
            party->ends[i] = party->ends[i + 1];
    }
    party->ends[party->end_count++] = end;
}

void party_forget_ends(struct core *core, struct party *party)
{
    for (uint32_t i = 0; i < party->end_count; i++)
        failure_unref(core, party->ends[i].failure);
    party->end_count = 0;
}

void party_free(struct core *core, struct party *party)
{
    party_forget_ends(core, party);
    name_map_remove(&party->job->parties, party->name);
    list_remove(&party->job_link);
    list_remove(&party->bare_link);
    party->job->party_count -= 1;
    party->job->part_count -= party->attempt == party->job->attempt;
    failure_unref(core, party->ended_by);
    timers_unreserve(&core->timers, &party->complaints.timer);
    failure_forget_fallen(core); /* its number may be another's soon */
    list_remove(&party->account_link);
    account_unref(core, party->account);
    span_drop(core, &party->name);
    pool_give(&core->parties, party);
}

void party_update_bare(struct party *party)
{
    bool is_bare = !party_is_live(party) && party_any_session(party) == NULL &&
                   list_is_empty(&party->topics) && list_is_empty(&party->watches) &&
                   list_is_empty(&party->durables) && party->rank == RANK_NONE;
    if (is_bare && !list_is_linked(&party->bare_link))
        list_push(&party->job->bare_list, &party->bare_link);
    else if (!is_bare)
        list_remove(&party->bare_link);
}

void party_place(struct party *party, uint32_t rank)
{
    party->rank = rank;
    party_update_bare(party);
}

struct party *party_make(struct core *core, uint32_t id, struct job *job, struct span name)
{
    struct party *party = core_take(&core->parties, id);
    if (party == NULL)
        return NULL;
    if (!timers_reserve(&core->timers)) {
        pool_give(&core->parties, party);
        return NULL;
    }
    complaints_init(&party->complaints, job, party);
    if (!span_keep(core, name, &party->name) ||
        !name_map_put(&job->parties, party->name, party->id)) {
        timers_unreserve(&core->timers, &party->complaints.timer);
        span_drop(core, &party->name);
        pool_give(&core->parties, party);
        return NULL;
    }
    party->job = job;
    party->rank = RANK_NONE;
    list_init(&party->topics);
    list_init(&party->open_slots);
    list_init(&party->watches);
    list_init(&party->durables);
    list_init(&party->bare_link);
    party->account = account_ref(&core->nobody);
    list_push(&core->nobody.parties, &party->account_link);
    list_push(&job->party_list, &party->job_link);
    job->party_count += 1;
    party_update_bare(party); /* until somebody needs it */
    note_party_known(core, party);
    return party;
}

static struct party *party_new(struct core *core, struct job *job, struct span name)
{
    if (job->party_count >= core->options.parties_max && !list_is_empty(&job->bare_list)) {
        struct party *oldest = LIST_OWNER(job->bare_list.next, struct party, bare_link);
        tell_complaints(core, &oldest->complaints);
        note_party_forgotten(core, oldest);
        party_free(core, oldest);
    }
    return job->party_count < core->options.parties_max ? party_make(core, 0, job, name) : NULL;
}

struct party *party_get(struct core *core, struct job *job, struct span name)
{
    uint32_t id;
    if (name_map_get(&job->parties, name, &id))
        return pool_find(&core->parties, id);
    return party_new(core, job, name);
}
