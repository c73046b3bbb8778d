/* SPDX-License-Identifier: MPL-2.0 */
/* metrics.c -- the answer to METRICS: figures of the core, collected over one step or several.
 *
 * Counters are kept where things happen (record/count.c).  All else is collected when somebody
 * asks: a walk goes through whole pools by number, so it may rest between any two numbers, whatever
 * comes or goes meanwhile.  A step looks at so many numbers at most, of all walks together, or
 * tells as much as costs the same.  So a gauge is put together from several moments, a few
 * milliseconds apart. */
#include "broker/core/step/metrics.h"

#include "broker/core/lifecycle/session.h"
#include "broker/core/record/count.h"
#include "broker/core/record/rights.h"
#include "broker/core/streams/sub.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/task.h"
#include "libbus/base/pool.h"

#include <string.h>

enum { ROW_COST = 8 }; /* of the budget: a row is a message, which io encodes */

#define OTHER_NAME "_other" /* no job and no group may be called so */

/* As bus_state_name() has them, and in this order. */
static const char *const states[] = {"scheduling", "running", "suspect", "grace", "failing",
                                     "completed",  "failed",  "lost",    "left",  "terminated"};
enum { STATES = sizeof states / sizeof states[0] };

static const char *const outcomes[COUNT_OUTCOMES] = {
    [COUNT_VALUE] = "value", [COUNT_ERROR] = "error"};
static const char *const speakers[COUNT_SPEAKERS] = {
    [COUNT_PARTY] = "party", [COUNT_OBSERVER] = "observer", [COUNT_UNKNOWN] = "unknown"};

struct job_sum {
    uint32_t job; /* its id; of the others: 0 */
    uint64_t open, bytes, held_back, lag;
    uint64_t parties[STATES];
    int64_t open_ns, silent_ns, waiting_ns;
};
struct group_sum {
    uint32_t group; /* its id; of the others: 0 */
    uint64_t waiting, leased, dead;
};

enum phase {
    COLLECT_JOBS,
    COLLECT_PARTIES,
    COLLECT_GROUPS, /* before routes and tasks, which count for them */
    COLLECT_ROUTES,
    COLLECT_TASKS,
    TELL_SAMPLES,
    TELL_HISTOGRAMS,
    TELL_BROKER,
    TELL_JOBS,
    TELL_GROUPS,
    PHASE_COUNT,
};

struct metrics_walk {
    struct list link; /* in core->metrics_walks */
    uint32_t session; /* who asked */
    uint64_t token;   /* of that session */
    uint64_t request;
    enum phase phase;
    uint32_t cursor; /* the last number of a pool that was looked at, or the next row */
    bool has_others; /* jobs that are not listed */
    bool has_other_groups;
    uint32_t group_count;
    struct id_map group_places; /* id -> place in groups */
    struct metric_figures figures;
    struct job_sum jobs[COUNT_JOBS + 1];               /* the first: the others */
    struct group_sum groups[LIMIT_METRICS_GROUPS + 1]; /* the same */
};

/* ---- collecting ------------------------------------------------------------------------------ */

/* A place may have come to another job since this walk began. */
static struct job_sum *sum_of(struct metrics_walk *walk, const struct job *job)
{
    struct job_sum *sum = &walk->jobs[job->count_place];
    if (job->count_place == 0)
        walk->has_others = true;
    else if (sum->job != job->id)
        *sum = (struct job_sum){.job = job->id};
    return sum;
}

static void sum_job(struct core *core, struct metrics_walk *walk, const void *item)
{
    const struct job *job = item;
    struct job_sum *sum = sum_of(walk, job);
    (void)core; /* the job is enough */
    sum->open += job->open_count;
    sum->bytes += job->bytes;
    sum->held_back += job->held_back_count;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The longest time that a call has been blocked. */
static int64_t blocked_ns(const struct core *core, const struct blocked *blocked)
{
    const int64_t since[] = {blocked->slots_ns, blocked->room_ns, blocked->reads_ns,
                             blocked->barrier_ns, blocked->members_ns};
    int64_t longest_ns = 0;
    for (size_t i = 0; i < sizeof since / sizeof since[0]; i++)
        if (since[i] != 0)
            longest_ns = later(longest_ns, core_clock(core) - since[i]);
    return longest_ns;
}

static void sum_party(struct core *core, struct metrics_walk *walk, const void *item)
{
    const struct party *party = item;
    struct job_sum *sum = sum_of(walk, party->job);
    const struct session *live = party_any_session(party);
    const char *state = session_state_name(party);
    if (party->incarnation == 0)
        return; /* the place of groups, or who is only waited for */
    for (int i = 0; i < STATES; i++)
        sum->parties[i] += strcmp(state, states[i]) == 0;
    if (live != NULL && party_is_live(party)) {
        sum->silent_ns = later(sum->silent_ns, core_clock(core) - live->heard_ns);
        sum->waiting_ns = later(sum->waiting_ns, blocked_ns(core, &live->blocked));
    }
    if (!list_is_empty(&party->open_slots)) { /* in the order in which they were promised */
        const struct open_slot *oldest =
            LIST_OWNER(party->open_slots.next, struct open_slot, party_link);
        sum->open_ns = later(sum->open_ns, core_clock(core) - oldest->since_ds * OPEN_SLOT_DS_NS);
    }
}

static struct group_sum *group_sum_of(struct metrics_walk *walk, uint32_t group)
{
    uint32_t place = 0;
    if (!id_map_get(&walk->group_places, group, &place))
        walk->has_other_groups = true;
    return &walk->groups[place];
}

/* What a group was not given yet: the values behind its place. */
static void sum_route(struct core *core, struct metrics_walk *walk, const void *item)
{
    const struct route *route = item;
    const struct topic *topic = route->topic;
    uint64_t floor = route_floor(route);
    uint64_t lag = floor < topic->slots.next_seq ? topic->slots.next_seq - floor : 0;
    struct job_sum *sum = sum_of(walk, topic->job);
    (void)core; /* the route is enough */
    if (sub_is_place(route->sub))
        group_sum_of(walk, route->sub->group->id)->waiting +=
            topic->slots.next_seq - route->next_seq - topic->open_count;
    else if (lag > sum->lag)
        sum->lag = lag;
}

static void sum_group(struct core *core, struct metrics_walk *walk, const void *item)
{
    const struct group *group = item;
    (void)core; /* the group is enough */
    if (walk->group_count < LIMIT_METRICS_GROUPS &&
        id_map_put(&walk->group_places, group->id, walk->group_count + 1))
        walk->groups[++walk->group_count].group = group->id;
    group_sum_of(walk, group->id)->dead += group->letter_count;
}

/* A task that is no value behind the place any more. */
static void sum_task(struct core *core, struct metrics_walk *walk, const void *item)
{
    const struct task *task = item;
    struct group_sum *sum = group_sum_of(walk, task->group->id);
    (void)core; /* the task is enough */
    sum->leased += task->state == TASK_LEASED;
    sum->waiting += task->state == TASK_WAITING || task->state == TASK_DELAYED;
}

/* Looks at numbers of one pool; false: the budget is used up. */
static bool sum_pool(struct core *core, struct metrics_walk *walk, const struct pool *pool,
                     void (*collect)(struct core *, struct metrics_walk *, const void *),
                     uint32_t *budget)
{
    while (walk->cursor < pool->chunk_count * POOL_CHUNK_ITEMS) {
        if (*budget == 0)
            return false;
        *budget -= 1;
        walk->cursor += 1;
        const void *item = pool_find(pool, walk->cursor);
        if (item != NULL)
            collect(core, walk, item);
    }
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct teller {
    struct core *core;
    const struct session *session;
    uint64_t request;
    uint32_t *budget;
};

static struct msg_metric_row *add_metric(const struct teller *teller, enum metric metric,
                                         uint64_t value)
{
    struct msg_metric_row *row =
        &effects_msg(teller->core->effects, teller->session->control, MSG_METRIC_ROW)
             ->as.metric_row;
    row->request = teller->request;
    row->metric = metric;
    row->value = value;
    *teller->budget -= *teller->budget < ROW_COST ? *teller->budget : ROW_COST;
    return row;
}

static void put_word(const struct teller *teller, enum metric metric, const char *words,
                     uint64_t value)
{
    add_metric(teller, metric, value)->words = span_text(words);
}

static void put_of_job(const struct teller *teller, enum metric metric, struct span job,
                       const char *word, uint64_t value)
{
    struct msg_metric_row *row = add_metric(teller, metric, value);
    row->job = job;
    row->words = span_text(word);
}

static bool put_samples(const struct teller *teller, struct metrics_walk *walk)
{
    while (walk->cursor < SAMPLE_COUNT) {
        if (*teller->budget < ROW_COST)
            return false;
        uint64_t value = walk->figures.samples[walk->cursor];
        const struct metric_sample_kind *kind = &metric_sample_kinds[walk->cursor];
        if (value != METRIC_NOT_KNOWN)
            put_word(teller, kind->metric, kind->words, value);
        walk->cursor += 1;
    }
    return true;
}

static void put_histogram(const struct teller *teller, enum metric metric,
                          const struct histogram *histogram)
{
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        add_metric(teller, metric, histogram->counts[i])->part = METRIC_PART_BUCKET + i;
    add_metric(teller, metric, histogram->sum_ns)->part = METRIC_PART_SUM;
}

static bool put_histograms(const struct teller *teller, struct metrics_walk *walk)
{
    const struct {
        enum metric metric;
        const struct histogram *histogram;
    } all[] = {{METRIC_JOURNAL_WRITE, &walk->figures.journal_write},
               {METRIC_STEP, &walk->figures.step},
               {METRIC_ERROR_DELIVERY, &walk->figures.error_delivery}};
    while (walk->cursor < sizeof all / sizeof all[0]) {
        if (*teller->budget < ROW_COST)
            return false;
        put_histogram(teller, all[walk->cursor].metric, all[walk->cursor].histogram);
        walk->cursor += 1;
    }
    return true;
}

static bool put_broker(const struct teller *teller)
{
    const struct core *core = teller->core;
    if (*teller->budget < ROW_COST)
        return false;
    put_word(teller, METRIC_BUILD_INFO, core->options.version, 1);
    add_metric(teller, METRIC_JOBS, core->jobs.used);
    add_metric(teller, METRIC_VALUES, core->counts.values);
    add_metric(teller, METRIC_TAP_MISSED, core->counts.tap_missed);
    for (unsigned i = 0; i < COUNT_REASONS; i++)
        put_word(teller, METRIC_REFUSED, count_reason_name(i), core->counts.refused[i]);
    for (unsigned i = 0; i < ACCESS_QUOTA_COUNT; i++)
        if (i != ACCESS_RATE) /* beyond it a writer waits, and nothing is refused */
            put_word(teller, METRIC_QUOTA_REFUSED, access_quota_name((enum access_quota)i),
                     core->counts.quota_refused[i]);
    for (int i = 0; i < COUNT_SPEAKERS; i++)
        put_word(teller, METRIC_VIOLATIONS, speakers[i], core->counts.violations[i]);
    return true;
}

static uint64_t ns_of(int64_t ns)
{
    return ns > 0 ? (uint64_t)ns : 0;
}

static void put_job(const struct teller *teller, struct span name, const struct job_sum *sum,
                    const struct job_counts *counts)
{
    put_of_job(teller, METRIC_SLOTS_OPEN, name, "", sum->open);
    put_of_job(teller, METRIC_SLOT_OPEN_OLDEST, name, "", ns_of(sum->open_ns));
    put_of_job(teller, METRIC_KEPT, name, "", sum->bytes);
    put_of_job(teller, METRIC_PARTY_SILENT_MAX, name, "", ns_of(sum->silent_ns));
    put_of_job(teller, METRIC_WAITING_OLDEST, name, "", ns_of(sum->waiting_ns));
    put_of_job(teller, METRIC_WRITERS_HELD_BACK, name, "", sum->held_back);
    put_of_job(teller, METRIC_SUBSCRIPTION_LAG_MAX, name, "", sum->lag);
    for (int i = 0; i < COUNT_OUTCOMES; i++)
        put_of_job(teller, METRIC_SLOTS_SETTLED, name, outcomes[i], counts->settled[i]);
    for (unsigned kind = 0; kind < ERROR_KIND_COUNT; kind++)
        if (count_is_error(kind))
            put_of_job(teller, METRIC_ERRORS, name, error_kind_name(kind), counts->errors[kind]);
    for (int i = 0; i < STATES; i++)
        put_of_job(teller, METRIC_PARTIES, name, states[i], sum->parties[i]);
}

/* The others have no gauges once there are none, but their counters stay. */
static bool put_jobs(const struct teller *teller, struct metrics_walk *walk)
{
    while (walk->cursor <= COUNT_JOBS) {
        if (*teller->budget < ROW_COST)
            return false;
        const struct counts *counts = &teller->core->counts;
        const struct job_sum *sum = &walk->jobs[walk->cursor];
        const struct job *job =
            walk->cursor > 0 ? pool_find(&teller->core->jobs, counts->jobs[walk->cursor]) : NULL;
        if (walk->cursor == 0 && (walk->has_others || counts->has_others))
            put_job(teller, span_text(OTHER_NAME), sum, &counts->others);
        else if (job != NULL && sum->job == job->id)
            put_job(teller, job->name, sum, &job->counts);
        walk->cursor += 1;
    }
    return true;
}

static void put_group(const struct teller *teller, struct span job, struct span name,
                      const struct group_sum *sum)
{
    const struct {
        const char *state;
        uint64_t tasks;
    } all[] = {{"waiting", sum->waiting}, {"leased", sum->leased}, {"dead", sum->dead}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct msg_metric_row *row = add_metric(teller, METRIC_GROUP_TASKS, all[i].tasks);
        row->job = job;
        row->group = name;
        row->words = span_text(all[i].state);
    }
}

/* Groups of jobs that are not listed are among the others. */
static bool put_groups(const struct teller *teller, struct metrics_walk *walk)
{
    struct group_sum *others = &walk->groups[0];
    while (walk->cursor < walk->group_count) {
        if (*teller->budget < ROW_COST)
            return false;
        const struct group_sum *sum = &walk->groups[++walk->cursor];
        const struct group *group = pool_find(&teller->core->groups, sum->group);
        if (group == NULL)
            continue;
        if (group->place->job->count_place > 0) {
            put_group(teller, group->place->job->name, group->place->name, sum);
            continue;
        }
        walk->has_other_groups = true;
        others->waiting += sum->waiting;
        others->leased += sum->leased;
        others->dead += sum->dead;
    }
    if (walk->has_other_groups)
        put_group(teller, span_text(OTHER_NAME), span_text(OTHER_NAME), others);
    return true;
}

static void put_end(const struct teller *teller)
{
    effects_msg(teller->core->effects, teller->session->control, MSG_METRICS_END)
        ->as.metrics_end.request = teller->request;
}

/* ---- walks ----------------------------------------------------------------------------------- */

/* One phase, or a part of it; false: the budget is used up. */
static bool do_phase(const struct teller *teller, struct metrics_walk *walk)
{
    struct core *core = teller->core;
    uint32_t *budget = teller->budget;
    switch (walk->phase) {
    case COLLECT_JOBS: return sum_pool(core, walk, &core->jobs, sum_job, budget);
    case COLLECT_PARTIES: return sum_pool(core, walk, &core->parties, sum_party, budget);
    case COLLECT_GROUPS: return sum_pool(core, walk, &core->groups, sum_group, budget);
    case COLLECT_ROUTES: return sum_pool(core, walk, &core->routes, sum_route, budget);
    case COLLECT_TASKS: return sum_pool(core, walk, &core->tasks, sum_task, budget);
    case TELL_SAMPLES: return put_samples(teller, walk);
    case TELL_HISTOGRAMS: return put_histograms(teller, walk);
    case TELL_BROKER: return put_broker(teller);
    case TELL_JOBS: return put_jobs(teller, walk);
    case TELL_GROUPS: return put_groups(teller, walk);
    case PHASE_COUNT: break;
    }
    return true;
}

static void answer_free(struct core *core, struct metrics_walk *walk)
{
    list_remove(&walk->link);
    id_map_fini(&walk->group_places);
    memory_give(core->memory, walk, sizeof *walk);
}

/* true: it is over. */
static bool answer_on(struct core *core, struct metrics_walk *walk, uint32_t *budget)
{
    const struct session *session = pool_find(&core->sessions, walk->session);
    if (session == NULL || session->token != walk->token || session->control == 0)
        return true; /* nobody wants to know any more */
    if (!rights_allow(core, session, &(struct msg){.type = MSG_METRICS})) { /* they were lost */
        effects_job_done(core->effects, session->control, walk->request, CODE_EDENIED,
                         ERROR_TYPE_NOT_AUTHORISED, RIGHTS_DENIED_TEXT);
        return true;
    }
    const struct teller teller = {core, session, walk->request, budget};
    while (walk->phase < PHASE_COUNT) {
        if (!do_phase(&teller, walk))
            return false;
        walk->phase += 1;
        walk->cursor = 0;
    }
    put_end(&teller);
    return true;
}

void metrics_go_on(struct core *core, uint32_t budget)
{
    LIST_EACH(link, &core->metrics_walks) {
        struct metrics_walk *walk = LIST_OWNER(link, struct metrics_walk, link);
        if (budget > 0 && answer_on(core, walk, &budget))
            answer_free(core, walk);
    }
}

void metrics_ask(struct core *core, const struct session *session, const struct msg_metrics *msg,
                 const struct metric_figures *figures)
{
    struct metrics_walk *walk = NULL;
    LIST_EACH(link, &core->metrics_walks) { /* one answer at a time */
        struct metrics_walk *last = LIST_OWNER(link, struct metrics_walk, link);
        if (last->session == session->id)
            answer_free(core, last);
    }
    walk = memory_take(core->memory, sizeof *walk);
    if (walk == NULL) {
        effects_job_done(core->effects, session->control, msg->request, CODE_ENOMEM,
                         ERROR_TYPE_FULL, "the broker is short of memory");
        return;
    }
    walk->session = session->id;
    walk->token = session->token;
    walk->request = msg->request;
    id_map_init(&walk->group_places, core->memory);
    for (int i = 0; i < SAMPLE_COUNT; i++)
        walk->figures.samples[i] = METRIC_NOT_KNOWN;
    if (figures != NULL)
        walk->figures = *figures;
    list_init(&walk->link);
    list_push(&core->metrics_walks, &walk->link);
}

void metrics_forget(struct core *core)
{
    LIST_EACH(link, &core->metrics_walks)
        answer_free(core, LIST_OWNER(link, struct metrics_walk, link));
}
