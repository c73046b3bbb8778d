/* SPDX-License-Identifier: MPL-2.0 */
/* crew.c -- tasks by group and slot, requests by both of their slots, letters by group and number;
 * see crew.h. */
#include "tests/sim/crew.h"

#include "libbus/base/map.h"
#include "libbus/base/must.h"
#include "libbus/base/pattern.h"
#include "libbus/wire/error.h"
#include "tests/sim/coverage.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAYINGS_MAX = 32, DEATHS_MAX = 8, MEMBERS_MAX = 64 };
#define CREW_BYTES_MAX (UINT64_C(1) << 30)
/* Keys: groups, topics and numbers are small here. */
#define KEY_SEQ_BITS 32
#define KEY_TOPIC_BITS 16

struct delivery {
    uint32_t given_count;
    uint32_t record;
    int64_t given_ns;
    bool may_lapse;
    bool is_back; /* its member said that it is not done, or went */
    bool is_never;
    int64_t due_ns;
};

struct task {
    struct delivery deliveries[CREW_DELIVERIES + 1];
    uint32_t death_count;
    uint64_t deaths[DEATHS_MAX]; /* marks of why */
    uint32_t done; /* the delivery of which it was accepted that it is done; 0: none */
};

/* What somebody who had the request said that its outcome is. */
struct saying {
    struct outcome outcome;
    uint32_t group, delivery;
    int64_t said_ns;
};

struct request {
    uint32_t topic;
    uint64_t seq;
    int64_t deadline_ms, asked_ns;
    struct saying sayings[SAYINGS_MAX];
    uint32_t saying_count;  /* may be more: then nothing is known of the others */
    bool is_silent;         /* somebody said that it is done, and nothing else */
    struct outcome outcome; /* as seen */
};

struct letter {
    uint32_t topic;
    uint64_t seq;
    struct outcome why;
};

struct member {
    uint32_t group, record;
    int64_t since_ns;
};

struct table { /* of anything that has a key */
    struct id_map map;
    void *items;
    uint32_t count, room;
    size_t item_bytes;
};

struct crew {
    struct oracle *oracle;
    struct memory memory;
    struct crew_group groups[CREW_GROUPS];
    uint32_t group_count;
    struct table tasks, requests, letters;
    struct id_map requests_by_task; /* the same, by the slot that asks */
    struct member members[MEMBERS_MAX];
    uint32_t member_count;
    bool is_clock_wrong;
    char text[CREW_TEXT];
};

/* ---- tables ---------------------------------------------------------------------------------- */

static uint64_t key_of(uint32_t group, uint32_t topic, uint64_t seq)
{
    must(seq >> KEY_SEQ_BITS == 0 && topic >> KEY_TOPIC_BITS == 0);
    return ((uint64_t)group << KEY_TOPIC_BITS | topic) << KEY_SEQ_BITS | seq;
}

static void table_init(struct table *table, struct memory *memory, size_t item_bytes)
{
    *table = (struct table){.item_bytes = item_bytes};
    id_map_init(&table->map, memory);
}

static void table_fini(struct table *table)
{
    id_map_fini(&table->map);
    free(table->items);
}

static void *table_find(const struct table *table, uint64_t key)
{
    uint32_t index;
    if (!id_map_get(&table->map, key, &index))
        return NULL;
    return (char *)table->items + index * table->item_bytes;
}

/* Zeroed if it is new; good until the next one. */
static void *table_get(struct table *table, uint64_t key)
{
    void *known = table_find(table, key);
    if (known != NULL)
        return known;
    if (table->count == table->room) {
        table->room = table->room > 0 ? table->room * 2 : 64;
        table->items = realloc(table->items, table->room * table->item_bytes);
        must(table->items != NULL);
    }
    bool is_put = id_map_put(&table->map, key, table->count);
    must(is_put);
    void *item = (char *)table->items + table->count * table->item_bytes;
    memset(item, 0, table->item_bytes);
    table->count += 1;
    return item;
}

static struct task *task_get(struct crew *crew, uint32_t group, uint32_t topic, uint64_t seq)
{
    return table_get(&crew->tasks, key_of(group, topic, seq));
}

static struct request *request_find(const struct crew *crew, uint32_t reply_topic, uint64_t seq)
{
    return table_find(&crew->requests, key_of(0, reply_topic, seq));
}

static struct request *request_of_task(const struct crew *crew, uint32_t topic, uint64_t seq)
{
    uint32_t index;
    if (!id_map_get(&crew->requests_by_task, key_of(0, topic, seq), &index))
        return NULL;
    return (struct request *)crew->requests.items + index;
}

/* ---- the crew -------------------------------------------------------------------------------- */

struct crew *crew_new(struct oracle *oracle)
{
    struct crew *crew = calloc(1, sizeof *crew);
    must(crew != NULL);
    crew->oracle = oracle;
    memory_heap_init(&crew->memory, CREW_BYTES_MAX);
    table_init(&crew->tasks, &crew->memory, sizeof(struct task));
    table_init(&crew->requests, &crew->memory, sizeof(struct request));
    table_init(&crew->letters, &crew->memory, sizeof(struct letter));
    id_map_init(&crew->requests_by_task, &crew->memory);
    return crew;
}

void crew_free(struct crew **crew)
{
    struct crew *old = *crew;
    if (old == NULL)
        return;
    *crew = NULL;
    table_fini(&old->tasks);
    table_fini(&old->requests);
    table_fini(&old->letters);
    id_map_fini(&old->requests_by_task);
    free(old);
}

uint32_t crew_group_add(struct crew *crew, const struct crew_group *group)
{
    must(crew->group_count < CREW_GROUPS && group->deliver_max <= CREW_DELIVER);
    crew->groups[crew->group_count] = *group;
    return crew->group_count++;
}

struct crew_group *crew_group_at(struct crew *crew, uint32_t group)
{
    return &crew->groups[group];
}

uint32_t crew_group_count(const struct crew *crew)
{
    return crew->group_count;
}

void crew_doubt_clocks(struct crew *crew)
{
    crew->is_clock_wrong = true;
}

void crew_joined(struct crew *crew, uint32_t group, uint32_t record, int64_t now_ns)
{
    if (crew->member_count < MEMBERS_MAX)
        crew->members[crew->member_count++] =
            (struct member){.group = group, .record = record, .since_ns = now_ns};
}

void crew_parted(struct crew *crew, uint32_t group, uint32_t record)
{
    for (uint32_t i = 0; i < crew->member_count; i++)
        if (crew->members[i].group == group && crew->members[i].record == record) {
            crew->members[i] = crew->members[--crew->member_count];
            return;
        }
}

static const char *complain(struct crew *crew, uint32_t topic, uint64_t seq, const char *by,
                            const char *format, ...) __attribute__((format(printf, 5, 6)));

static const char *complain(struct crew *crew, uint32_t topic, uint64_t seq, const char *by,
                            const char *format, ...)
{
    char what[CREW_TEXT / 2];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args); /* may be cut */
    va_end(args);
    (void)snprintf(crew->text, sizeof crew->text, "%s %" PRIu64 ": %s, says %s",
                   oracle_topic_at(crew->oracle, topic)->name, seq, what, by); /* may be cut */
    return crew->text;
}

/* ---- leases ---------------------------------------------------------------------------------- */

/* Whether the task may have been given to somebody else meanwhile, whatever its holder did. */
static bool may_be_over(struct crew *crew, const struct delivery *delivery)
{
    return delivery->given_count != 1 || oracle_is_doubting(crew->oracle) || delivery->may_lapse ||
           oracle_record_at(crew->oracle, delivery->record)->ended_ns != INT64_MAX;
}

/* A letter that is given again is a task anew, whose deliveries count on. */
static uint32_t incarnations_of(const struct crew *crew, uint32_t group, const struct task *task)
{
    uint32_t replays = crew->groups[group].replays;
    if (oracle_is_doubting(crew->oracle))
        return 1 + replays;
    return 1 + (task->death_count < replays ? task->death_count : replays);
}

static const char *check_again(struct crew *crew, const struct crew_lease *lease,
                               const struct delivery *before, int64_t now_ns, const char *by)
{
    if (may_be_over(crew, before))
        return NULL;
    if (!before->is_back)
        return complain(crew, lease->topic, lease->seq, by,
                        "is given to another, and the one who has it goes on");
    if (before->is_never)
        return complain(crew, lease->topic, lease->seq, by, "is given again, and was never to be");
    if (now_ns < before->due_ns && !crew->is_clock_wrong)
        return complain(crew, lease->topic, lease->seq, by, "is given again too soon");
    return NULL;
}

const char *crew_given(struct crew *crew, const struct crew_lease *lease, int64_t now_ns,
                       const char *by)
{
    const struct crew_group *group = &crew->groups[lease->group];
    struct task *task = task_get(crew, lease->group, lease->topic, lease->seq);
    uint32_t incarnations = incarnations_of(crew, lease->group, task);
    /* A letter of an earlier attempt has another name than the task that died: each time that
     * letters were given again counts. */
    uint32_t most = group->deliver_max * (1 + group->replays);
    if (lease->delivery == 0 || lease->delivery > most)
        return complain(crew, lease->topic, lease->seq, by,
                        "comes with delivery %" PRIu32 " of %" PRIu32, lease->delivery, most);
    struct delivery *delivery = &task->deliveries[lease->delivery];
    const struct delivery *before = &task->deliveries[lease->delivery - 1];
    const char *wrong = NULL;
    if (delivery->given_count >= (oracle_is_doubting(crew->oracle) ? incarnations : 1))
        return complain(crew, lease->topic, lease->seq, by, "delivery %" PRIu32 " is given twice",
                        lease->delivery);
    bool was_done = task->done > 0 && lease->delivery > task->done && task->death_count == 0;
    if (was_done && (!oracle_is_doubting(crew->oracle) || group->replays == 0))
        return complain(crew, lease->topic, lease->seq, by, "is given again, and was done");
    if (lease->delivery > 1 && task->death_count == 0)
        wrong = check_again(crew, lease, before, now_ns, by);
    *delivery = (struct delivery){.given_count = delivery->given_count + 1,
                                  .record = lease->record,
                                  .given_ns = now_ns,
                                  .may_lapse = lease->may_lapse};
    return wrong;
}

void crew_back(struct crew *crew, const struct crew_lease *lease, int64_t due_ns, bool is_never)
{
    struct delivery *delivery =
        &task_get(crew, lease->group, lease->topic, lease->seq)->deliveries[lease->delivery];
    delivery->is_back = true;
    delivery->due_ns = due_ns;
    delivery->is_never = is_never;
}

/* A lease that ends with silence may have ended before its task was handed out: what is said of it
 * then is in vain, and nobody is told so. */
const char *crew_done(struct crew *crew, const struct crew_lease *lease, const char *by)
{
    struct task *task = task_get(crew, lease->group, lease->topic, lease->seq);
    const struct delivery *delivery = &task->deliveries[lease->delivery];
    if (task->death_count > 0)
        return oracle_is_doubting(crew->oracle) || crew->groups[lease->group].replays > 0 ||
                       delivery->may_lapse
                   ? NULL
                   : complain(crew, lease->topic, lease->seq, by, "is done, and a dead letter");
    if (delivery->given_count == 1 && !delivery->may_lapse && lease->delivery < CREW_DELIVERIES &&
        task->deliveries[lease->delivery + 1].given_count > 0)
        return complain(crew, lease->topic, lease->seq, by,
                        "is accepted as done, and was given to another");
    task->done = lease->delivery;
    return NULL;
}

/* ---- requests -------------------------------------------------------------------------------- */

void crew_asked(struct crew *crew, uint32_t record, uint32_t topic, uint64_t seq,
                uint32_t reply_topic, uint64_t reply_seq, int64_t deadline_ms, int64_t now_ns)
{
    (void)record; /* its topics name it */
    struct request *request = table_get(&crew->requests, key_of(0, reply_topic, reply_seq));
    *request = (struct request){
        .topic = topic, .seq = seq, .deadline_ms = deadline_ms, .asked_ns = now_ns};
    uint64_t key = key_of(0, topic, seq);
    id_map_remove(&crew->requests_by_task,
                  key); /* said in an incarnation that the broker never heard */
    bool is_put = id_map_put(&crew->requests_by_task, key,
                             (uint32_t)(request - (struct request *)crew->requests.items));
    must(is_put);
}

void crew_answered(struct crew *crew, const struct crew_lease *lease, struct outcome outcome,
                   int64_t now_ns)
{
    struct request *request = request_find(crew, lease->reply_topic, lease->reply_seq);
    if (request == NULL)
        return;
    if (request->saying_count < SAYINGS_MAX)
        request->sayings[request->saying_count] = (struct saying){.outcome = outcome,
                                                                  .group = lease->group,
                                                                  .delivery = lease->delivery,
                                                                  .said_ns = now_ns};
    request->saying_count += 1;
}

void crew_silent(struct crew *crew, const struct crew_lease *lease)
{
    struct request *request = request_find(crew, lease->reply_topic, lease->reply_seq);
    if (request != NULL)
        request->is_silent = true;
}

/* What a worker said that is this outcome; NULL: none did, or there was no room to note it. */
static const struct saying *saying_of(const struct request *request, struct outcome outcome)
{
    const struct saying *saying = NULL;
    for (uint32_t i = 0; i < request->saying_count && i < SAYINGS_MAX; i++)
        if (request->sayings[i].outcome.kind == outcome.kind &&
            request->sayings[i].outcome.mark == outcome.mark)
            saying = &request->sayings[i];
    return saying;
}

/* Promise 5, for tasks: who had lost the lease to another by then did not settle it. */
static const char *check_answer(struct crew *crew, const struct request *request,
                                struct outcome outcome, const char *by)
{
    const struct saying *saying = saying_of(request, outcome);
    if (request->saying_count > SAYINGS_MAX)
        return NULL;
    if (saying == NULL)
        return complain(crew, request->topic, request->seq, by, "has an answer that nobody gave");
    const struct task *task = task_get(crew, saying->group, request->topic, request->seq);
    for (uint32_t i = saying->delivery + 1; i <= CREW_DELIVERIES && task->death_count == 0; i++)
        if (task->deliveries[i].given_count > 0 && task->deliveries[i].given_ns < saying->said_ns)
            return complain(crew, request->topic, request->seq, by,
                            "was answered by who had lost it to another");
    return NULL;
}

bool crew_died_of(const struct crew *crew, uint32_t group, uint32_t topic, uint64_t seq,
                  uint64_t mark)
{
    const struct task *task = table_find(&crew->tasks, key_of(group, topic, seq));
    for (uint32_t i = 0; task != NULL && i < task->death_count; i++)
        if (i == DEATHS_MAX || task->deaths[i] == mark || task->deaths[i] == OUTCOME_STAND_IN)
            return true;
    return false;
}

static bool has_died_of(const struct crew *crew, const struct request *request, uint64_t mark)
{
    for (uint32_t group = 0; group < crew->group_count; group++)
        if (crew_died_of(crew, group, request->topic, request->seq, mark))
            return true;
    return false;
}

/* Somebody who was a member before the request was said, and is one. */
static bool is_served(struct crew *crew, const struct request *request)
{
    const struct oracle_topic *topic = oracle_topic_at(crew->oracle, request->topic);
    for (uint32_t i = 0; i < crew->member_count; i++) {
        const struct member *member = &crew->members[i];
        const struct crew_group *group = &crew->groups[member->group];
        if (group->job == topic->job % ORACLE_ATTEMPT && member->since_ns < request->asked_ns &&
            oracle_record_at(crew->oracle, member->record)->ended_ns == INT64_MAX &&
            pattern_matches(span_text(group->pattern), span_text(topic->name)))
            return true;
    }
    return false;
}

static const char *check_reason(struct crew *crew, const struct request *request,
                                struct outcome outcome, struct span type, int64_t now_ns,
                                const char *by)
{
    bool is_dead = span_equal(type, span_text(ERROR_TYPE_DEAD_LETTER)) ||
                   span_equal(type, span_text(ERROR_TYPE_WORKER_LOST));
    /* Of one with secrets the type says nothing. */
    if (span_equal(type, span_text("app.not_done")) || saying_of(request, outcome) != NULL)
        return check_answer(crew, request, outcome, by);
    if (is_dead && !oracle_is_doubting(crew->oracle) && !has_died_of(crew, request, outcome.mark))
        return complain(crew, request->topic, request->seq, by, "failed as a dead letter, is none");
    if (span_equal(type, span_text(ERROR_TYPE_UNANSWERED)) && !request->is_silent)
        return complain(crew, request->topic, request->seq, by,
                        "failed as unanswered, and nobody was silent");
    if (span_equal(type, span_text(ERROR_TYPE_DEADLINE)) &&
        (request->deadline_ms < 0 ||
         (!crew->is_clock_wrong && now_ns < request->asked_ns + request->deadline_ms * 1000000)))
        return complain(crew, request->topic, request->seq, by, "failed before its deadline");
    if (span_equal(type, span_text(ERROR_TYPE_UNSERVED)) && is_served(crew, request))
        return complain(crew, request->topic, request->seq, by,
                        "failed as unserved, and a member is there");
    return NULL;
}

/* What is a dead letter was not answered. */
static const char *check_dead(struct crew *crew, const struct request *request, const char *by)
{
    if (request->outcome.kind != OUTCOME_VALUE)
        return NULL;
    for (uint32_t group = 0; group < crew->group_count; group++) {
        const struct task *task =
            table_find(&crew->tasks, key_of(group, request->topic, request->seq));
        if (task != NULL && task->death_count > 0)
            return complain(crew, request->topic, request->seq, by,
                            "was answered, and is a dead letter");
    }
    return NULL;
}

static enum coverage_request end_of(struct outcome outcome, struct span type)
{
    static const struct {
        const char *type;
        enum coverage_request end;
    } ends[] = {{ERROR_TYPE_UNANSWERED, COVERAGE_UNANSWERED},
                {"app.not_done", COVERAGE_NOT_DONE},
                {ERROR_TYPE_DEAD_LETTER, COVERAGE_DEAD_LETTER},
                {ERROR_TYPE_WORKER_LOST, COVERAGE_WORKER_LOST},
                {ERROR_TYPE_DEADLINE, COVERAGE_DEADLINE},
                {ERROR_TYPE_UNSERVED, COVERAGE_UNSERVED},
                {"app.taken_back", COVERAGE_TAKEN_BACK}};
    if (outcome.kind == OUTCOME_VALUE)
        return COVERAGE_ANSWERED;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (span_equal(type, span_text(ends[i].type)))
            return ends[i].end;
    return COVERAGE_OTHER;
}

static uint32_t deliveries_of(const struct crew *crew, const struct request *request)
{
    uint32_t most = 0;
    for (uint32_t group = 0; group < crew->group_count; group++) {
        const struct task *task =
            table_find(&crew->tasks, key_of(group, request->topic, request->seq));
        for (uint32_t i = most + 1; task != NULL && i <= CREW_DELIVERIES; i++)
            if (task->deliveries[i].given_count > 0)
                most = i;
    }
    return most;
}

const char *crew_outcome(struct crew *crew, uint32_t reply_topic, uint64_t seq,
                         struct outcome outcome, struct span type, int64_t now_ns, const char *by)
{
    struct request *request = request_find(crew, reply_topic, seq);
    const char *wrong;
    if (request == NULL || outcome.kind == OUTCOME_NONE || request->outcome.kind != OUTCOME_NONE)
        return NULL; /* no request's, or looked at before: it stays the same (oracle.h) */
    request->outcome = outcome;
    if (outcome.kind != OUTCOME_SOME_VALUE)
        coverage_request(deliveries_of(crew, request),
                         outcome.kind == OUTCOME_ERROR && saying_of(request, outcome) != NULL
                             ? COVERAGE_NOT_DONE
                             : end_of(outcome, type));
    switch (outcome.kind) {
    case OUTCOME_VALUE:
        wrong = check_answer(crew, request, outcome, by);
        return wrong != NULL ? wrong : check_dead(crew, request, by);
    case OUTCOME_SOME_VALUE: request->outcome.kind = OUTCOME_NONE; return NULL;
    case OUTCOME_ERROR: return check_reason(crew, request, outcome, type, now_ns, by);
    case OUTCOME_NONE: break;
    }
    return NULL;
}

/* ---- dead letters ---------------------------------------------------------------------------- */

const char *crew_died(struct crew *crew, uint32_t group, uint32_t topic, uint64_t seq,
                      uint64_t number, struct outcome why)
{
    struct task *task = task_get(crew, group, topic, seq);
    const struct request *request = request_of_task(crew, topic, seq);
    bool was_done = task->done > 0 && task->death_count == 0;
    uint32_t incarnations = incarnations_of(crew, group, task);
    if (task->death_count < DEATHS_MAX)
        task->deaths[task->death_count] = why.mark;
    task->death_count += 1;
    struct letter *letter = table_get(&crew->letters, key_of(group, 0, number));
    *letter = (struct letter){.topic = topic, .seq = seq, .why = why};
    if (was_done)
        return complain(crew, topic, seq, "the broker", "is a dead letter, and was done");
    if (task->death_count > incarnations)
        return complain(crew, topic, seq, "the broker", "is a dead letter twice");
    return request != NULL ? check_dead(crew, request, "the broker") : NULL;
}

const char *crew_shown(struct crew *crew, uint32_t group, uint32_t topic, uint64_t seq,
                       uint64_t number)
{
    if (table_find(&crew->letters, key_of(group, 0, number)) != NULL)
        return NULL;
    return crew_died(crew, group, topic, seq, number,
                     (struct outcome){.kind = OUTCOME_ERROR, .mark = OUTCOME_STAND_IN});
}

const char *crew_letter(struct crew *crew, uint32_t group, uint64_t number, bool is_why,
                        struct outcome outcome, const char *by)
{
    const struct letter *letter = table_find(&crew->letters, key_of(group, 0, number));
    if (letter == NULL)
        return NULL; /* of an attempt whose events are not told apart */
    if (outcome.kind == OUTCOME_ERROR && outcome.mark == OUTCOME_STAND_IN)
        return NULL;
    bool is_known = letter->why.mark != OUTCOME_STAND_IN;
    if (is_why && is_known && (outcome.kind != OUTCOME_ERROR || outcome.mark != letter->why.mark))
        return complain(crew, letter->topic, letter->seq, by,
                        "has another error beside it as a dead letter than it died of");
    struct outcome known = oracle_known(crew->oracle, letter->topic, letter->seq);
    if (!is_why && known.kind == OUTCOME_VALUE && outcome.kind == OUTCOME_VALUE &&
        known.mark != outcome.mark)
        return complain(crew, letter->topic, letter->seq, by,
                        "has another value as a dead letter than in its slot");
    return NULL;
}
