/* SPDX-License-Identifier: MPL-2.0 */
/* shard_jobs.c -- see shard_jobs.h. */
#include "broker/io/shard_jobs.h"

#include "libbus/base/must.h"

#include <string.h>

enum { ROOM_FIRST = 16 };

void shard_jobs_init(struct shard_jobs *jobs, struct memory *memory)
{
    *jobs = (struct shard_jobs){.memory = memory};
    name_map_init(&jobs->names, memory);
}

void shard_jobs_fini(struct shard_jobs *jobs)
{
    for (uint32_t i = 0; i < jobs->waiting_count; i++)
        buffer_unref(&jobs->waiting[i].part);
    for (uint32_t i = 0; i < jobs->used; i++)
        memory_give(jobs->memory, jobs->jobs[i].name, jobs->jobs[i].name_bytes);
    memory_give(jobs->memory, jobs->waiting, jobs->waiting_room * sizeof *jobs->waiting);
    memory_give(jobs->memory, jobs->jobs, jobs->room * sizeof *jobs->jobs);
    name_map_fini(&jobs->names);
    shard_jobs_init(jobs, jobs->memory);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static struct shard_job *find(const struct shard_jobs *jobs, struct span name)
{
    uint32_t place;
    return name_map_get(&jobs->names, name, &place) ? &jobs->jobs[place] : NULL;
}

static uint32_t job_place(const struct shard_jobs *jobs, const struct shard_job *job)
{
    return (uint32_t)(job - jobs->jobs);
}

/* A place that is free, or the one behind all others; false: there is no room. */
static bool find_room(struct shard_jobs *jobs, uint32_t *out_place)
{
    bool is_crowded = jobs->names.count >= SHARD_JOBS_MAX;
    uint32_t place = jobs->names.count < jobs->used ? 0 : jobs->used;
    while (place < jobs->used && jobs->jobs[place].name != NULL)
        place++;
    if (!is_crowded && place == jobs->room) {
        uint32_t room = jobs->room > 0 ? 2 * jobs->room : ROOM_FIRST;
        size_t size = sizeof *jobs->jobs;
        struct shard_job *grown =
            memory_resize(jobs->memory, jobs->jobs, jobs->room * size, room * size);
        if (grown == NULL)
            return false;
        jobs->jobs = grown;
        jobs->room = room;
    }
    *out_place = place;
    return !is_crowded;
}

/* NULL: no room, or no memory. */
static struct shard_job *add_job(struct shard_jobs *jobs, struct span name)
{
    uint32_t place;
    if (!find_room(jobs, &place))
        return NULL;
    char *text = memory_take(jobs->memory, name.bytes);
    if (text == NULL)
        return NULL;
    memcpy(text, name.data, name.bytes);
    if (!name_map_put(&jobs->names, span_of(text, name.bytes), place)) {
        memory_give(jobs->memory, text, name.bytes);
        return NULL;
    }
    jobs->used += place == jobs->used;
    jobs->jobs[place] = (struct shard_job){.name = text, .name_bytes = (uint32_t)name.bytes};
    return &jobs->jobs[place];
}

static void forget_job(struct shard_jobs *jobs, struct shard_job *job)
{
    name_map_remove(&jobs->names, span_of(job->name, job->name_bytes));
    memory_give(jobs->memory, job->name, job->name_bytes);
    *job = (struct shard_job){.name = NULL};
}

bool shard_jobs_add(struct shard_jobs *jobs, struct span name)
{
    struct shard_job *job = find(jobs, name);
    if (job != NULL)
        return true;
    job = add_job(jobs, name);
    if (job != NULL)
        job->is_ours = true;
    return job != NULL;
}

/* ---- greetings ------------------------------------------------------------------------------- */

static bool waits(const struct shard_jobs *jobs, conn_id conn)
{
    for (uint32_t i = 0; i < jobs->waiting_count; i++)
        if (jobs->waiting[i].conn == conn)
            return true;
    return false;
}

/* false: no room, or no memory. */
static bool wait(struct shard_jobs *jobs, conn_id conn, const struct shard_job *job,
                 struct span part)
{
    if (jobs->waiting_count >= SHARD_WAITING_MAX ||
        jobs->waiting_bytes + part.bytes > SHARD_WAITING_BYTES)
        return false;
    if (jobs->waiting_count == jobs->waiting_room) {
        uint32_t room = jobs->waiting_room > 0 ? 2 * jobs->waiting_room : ROOM_FIRST;
        size_t size = sizeof *jobs->waiting;
        struct shard_greeting *grown =
            memory_resize(jobs->memory, jobs->waiting, jobs->waiting_room * size, room * size);
        if (grown == NULL)
            return false;
        jobs->waiting = grown;
        jobs->waiting_room = room;
    }
    struct buffer *copy = buffer_copy(part);
    if (copy == NULL)
        return false;
    jobs->waiting[jobs->waiting_count++] =
        (struct shard_greeting){.conn = conn, .job = job_place(jobs, job), .part = copy};
    jobs->waiting_bytes += part.bytes;
    return true;
}

enum shard_word shard_jobs_greet(struct shard_jobs *jobs, conn_id conn, struct span name,
                                 struct span part)
{
    struct shard_job *job = find(jobs, name);
    if (job != NULL && job->is_ours) {
        job->unused_step = 0;
        return SHARD_IS_OURS;
    }
    if (waits(jobs, conn))
        return SHARD_DROP;
    bool is_new = job == NULL;
    if (is_new)
        job = add_job(jobs, name);
    if (job == NULL)
        return SHARD_DROP;
    if (wait(jobs, conn, job, part))
        return is_new ? SHARD_ASK : SHARD_WAIT;
    if (is_new)
        forget_job(jobs, job);
    return SHARD_DROP;
}

void shard_jobs_told(struct shard_jobs *jobs, struct span name, bool is_ours)
{
    struct shard_job *job = find(jobs, name);
    must(job != NULL && !job->is_ours); /* it is asked for once, and stays until it is answered */
    job->is_ours = is_ours;
}

static void take_out(struct shard_jobs *jobs, uint32_t at)
{
    jobs->waiting_bytes -= jobs->waiting[at].part->bytes;
    jobs->waiting_count -= 1;
    memmove(&jobs->waiting[at], &jobs->waiting[at + 1],
            (jobs->waiting_count - at) * sizeof *jobs->waiting);
}

bool shard_jobs_next(struct shard_jobs *jobs, struct span name, conn_id *out_conn,
                     struct buffer **out_part)
{
    struct shard_job *job = find(jobs, name);
    uint32_t at = 0;
    if (job == NULL)
        return false;
    while (at < jobs->waiting_count && jobs->waiting[at].job != job_place(jobs, job))
        at++;
    if (at == jobs->waiting_count) {
        if (!job->is_ours)
            forget_job(jobs, job);
        return false;
    }
    *out_conn = jobs->waiting[at].conn;
    *out_part = jobs->waiting[at].part;
    take_out(jobs, at);
    return true;
}

void shard_jobs_drop(struct shard_jobs *jobs, conn_id conn)
{
    for (uint32_t i = 0; i < jobs->waiting_count; i++)
        if (jobs->waiting[i].conn == conn) {
            struct buffer *part = jobs->waiting[i].part;
            take_out(jobs, i);
            buffer_unref(&part);
            return; /* a connection has one at most */
        }
}

/* ---- leaving --------------------------------------------------------------------------------- */

bool shard_jobs_each(const struct shard_jobs *jobs, uint32_t *at, struct span *out_name)
{
    while (*at < jobs->used) {
        const struct shard_job *job = &jobs->jobs[(*at)++];
        if (job->name == NULL || !job->is_ours)
            continue;
        *out_name = span_of(job->name, job->name_bytes);
        return true;
    }
    return false;
}

bool shard_jobs_review(struct shard_jobs *jobs, struct span name, bool is_used, uint64_t step,
                       uint64_t kept)
{
    struct shard_job *job = find(jobs, name);
    must(job != NULL && job->is_ours);
    if (is_used) {
        job->unused_step = 0;
    } else if (job->unused_step == 0) {
        job->unused_step = step > 0 ? step : 1;
    } else if (kept >= job->unused_step) {
        forget_job(jobs, job);
        return true;
    }
    return false;
}
