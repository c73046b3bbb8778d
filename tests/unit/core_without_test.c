/* SPDX-License-Identifier: MPL-2.0 */
/* core_without_test.c -- what would fail without a party, and what then fails when it is lost.
 *
 * In many random jobs the question is asked, and the party's connections are then cut.  What the
 * answer says is compared with the tables and frames after the loss. */
#include "broker/core/model.h"
#include "broker/core/streams/sub.h"
#include "broker/core/tables/job.h"
#include "tests/unit/core_driver.h"

TestSuite(core_without, .init = init, .fini = fini);

enum { OBSERVER = 9, PARTIES_MAX = 5, ACTS = 40, SLOTS_MAX = 512, JOBS = 1000, NAMES = 2 };
enum { NEWCOMER = PARTIES_MAX + 1, READERS_MAX = 16, GROUPS_MAX = 2 };
enum { SUB_GROUPS = 100, SUB_READERS = 200 }; /* of who takes over: the first of each */
enum { PATIENCE_MS = 5000 };

static void ask_without(const char *party)
{
    message(OBSERVER,
            (struct msg){.type = MSG_WITHOUT,
                         .as.without = {
                             .request = 4, .job = span_text(job_name), .party = span_text(party)}});
    for (int i = 0; i < 1000 && strstr(said, "9 < without ") == NULL; i++)
        step((struct event){.type = EVENT_TICK});
}

/* ---- by hand --------------------------------------------------------------------------------- */

Test(core_without, names_slots_parties_and_the_job)
{
    ask_from(OBSERVER);
    create_job(OBSERVER, a_job(2, 2));
    join(1);
    join(2);
    uint32_t x = open_topic(1, "alice/x");
    uint32_t y = open_topic(2, "bob/y");
    reserve(1, x, 0);
    reserve(1, x, 1);
    reserve_after(2, y, 0, "alice/x", 1);
    await_slot(2, 1, "alice/x", 7);
    subscribe(2, 2, "alice/x", "", 0, 0);
    forget();
    ask_without("alice");
    EXPECT("9 < owed alice/x#0 x2\n"
           "9 < needs bob/y#0 x1\n"
           "9 < party bob#0 x3\n"
           "9 < without 0 waits, 1 of 2\n");
    ask_without("bob");
    EXPECT("9 < owed bob/y#0 x1\n"
           "9 < without 0 waits, 1 of 2\n");
}

Test(core_without, refuses_a_party_that_is_not_there)
{
    ask_from(OBSERVER);
    join(1);
    forget();
    ask_without("carol");
    EXPECT("9 < without 1 errbus.no_party\n");
    leave(1, 0);
    forget();
    ask_without("alice");
    EXPECT("9 < without 1 errbus.no_party\n");
    job_name = "other";
    ask_without("alice");
    job_name = "job";
    EXPECT("9 < without 1 errbus.no_job\n");
}

/* A slot that many need: no step looks at more of them than it may. */
Test(core_without, looks_at_a_bounded_part_in_each_step, .timeout = 60)
{
    enum { MANY = 3 * LIMIT_ANSWER_STEP };
    is_alone = true;
    ask_from(OBSERVER);
    join(1);
    join(2);
    uint32_t x = open_topic(1, "alice/x");
    uint32_t y = open_topic(2, "bob/y");
    reserve(1, x, 0);
    for (uint64_t seq = 0; seq < MANY; seq++)
        reserve_after(2, y, seq, "alice/x", 0);
    forget();
    message(OBSERVER,
            (struct msg){.type = MSG_WITHOUT,
                         .as.without = {.job = span_text(job_name), .party = span_text("alice")}});
    unsigned count = 0;
    while (strstr(said, "9 < without ") == NULL && count++ < 1000)
        step((struct event){.type = EVENT_TICK});
    cr_expect(count >= 2 * MANY / LIMIT_ANSWER_STEP, "%u steps", count);
    EXPECT_OF("9 < owed alice/x#0 x1\n9 < needs bob/y#0 x%d\n9 < without 0 goes on, 0 of 0\n",
              MANY);
}

/* ---- random jobs ----------------------------------------------------------------------------- */

struct slot {
    uint32_t topic;
    uint64_t seq;
};

static struct plan {
    uint64_t chance;
    uint32_t parties;
    uint32_t topics[PARTIES_MAX + 1][NAMES];
    uint64_t next[PARTIES_MAX + 1][NAMES];
    uint64_t requests[PARTIES_MAX + 1];
    uint64_t wants;
    uint32_t subs[PARTIES_MAX + 1];
} plan;

struct count_of {
    char name[40];
    uint64_t count;
};

/* What the answer says, or what then came. */
struct outcome {
    struct slot failed[SLOTS_MAX];
    uint32_t failed_count;
    uint64_t raised[NEWCOMER + 1];
    struct count_of groups[GROUPS_MAX]; /* where the error is raised at members */
    uint32_t group_count;
    struct count_of readers[READERS_MAX]; /* ... at the next reader of a durable name */
    uint32_t reader_count;
    uint64_t again, dead, empty, unread;
};

static struct {
    uint64_t failed, needed, raised, dead, empty, unread, replaced, short_jobs, failing_jobs;
    uint64_t again, at_groups, at_readers, attempts, no_attempts, gathering_jobs, no_newcomers;
} seen;

static uint32_t roll(uint32_t count)
{
    plan.chance = plan.chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((plan.chance >> 33) % count);
}

static const char *topic_of(conn_id conn, uint32_t number)
{
    static char name[32];
    (void)snprintf(name, sizeof name, "%s/%u", name_of(conn), number);
    return name;
}

static void do_request(conn_id conn)
{
    char name[32];
    uint64_t seq = plan.requests[conn]++;
    (void)snprintf(name, sizeof name, "%s/_replies", name_of(conn));
    uint32_t replies = open_topic(conn, name);
    (void)snprintf(name, sizeof name, "%s/jobs", name_of(conn));
    uint32_t jobs = open_topic(conn, name);
    reserve(conn, replies, seq);
    reply_to = seq;
    publish(conn, jobs, seq, 1, 20);
    reply_to = FRAME_NO_REPLY;
    (void)snprintf(name, sizeof name, "%s/_replies", name_of(conn));
    await_slot(conn, ++plan.wants, name, seq);
}

static void do_share(conn_id conn)
{
    static const char *const groups[] = {"g", "h"};
    char pattern[32];
    uint32_t which = roll(2);
    (void)snprintf(pattern, sizeof pattern, roll(2) == 0 ? "%s/jobs" : "%s/0", name_of(which + 1));
    subscribe_as(conn, (struct msg_subscribe){.sub = 1,
                                              .pattern = span_text(pattern),
                                              .group = span_text(groups[which]),
                                              .window_bytes = 512 * 1024,
                                              .keep_ms = 60000,
                                              .credit = 1 + roll(3),
                                              .deliver_max = 1 + which});
}

static void act(void)
{
    conn_id conn = 1 + roll(plan.parties);
    conn_id other = 1 + roll(plan.parties);
    uint32_t number = roll(NAMES);
    uint32_t second = roll(NAMES);
    uint64_t *next = &plan.next[conn][number];
    char durable[16] = "";
    switch (roll(10)) {
    case 0:
    case 1: reserve(conn, plan.topics[conn][number], (*next)++); break;
    case 2:
    case 3:
        if (plan.next[other][second] > 0 && (conn != other || number != second))
            reserve_after(conn, plan.topics[conn][number], (*next)++, topic_of(other, second),
                          roll((uint32_t)plan.next[other][second]));
        break;
    case 4: publish(conn, plan.topics[conn][number], (*next)++, 1, 5); break;
    case 5:
    case 6: await_slot(conn, ++plan.wants, topic_of(other, second), roll(8)); break;
    case 7:
        if (roll(3) == 0)
            (void)snprintf(durable, sizeof durable, "d%u", plan.subs[conn]);
        subscribe(conn, 2 + plan.subs[conn]++, topic_of(other, second), durable, FROM_OLDEST, 0);
        break;
    case 8: do_request(conn); break;
    case 9:
        if (numbers[conn] % 2 == 0)
            do_share(conn);
        break;
    }
    said_bytes = 0;
    said[0] = '\0';
}

static void play(uint64_t seed)
{
    memset(&plan, 0, sizeof plan);
    plan.chance = seed * UINT64_C(0x9e3779b97f4a7c15);
    plan.parties = 2 + roll(PARTIES_MAX - 1);
    ask_from(OBSERVER);
    if (roll(4) > 0) {
        struct msg_job_create job = a_job(1 + roll(plan.parties), plan.parties + roll(4) / 3);
        job.join_window_ms = roll(2) == 0 ? 0 : PATIENCE_MS;
        job.settle_ms = PATIENCE_MS;
        job.pending = roll(2);
        job.max_restarts = roll(3);
        create_job(OBSERVER, job);
    }
    for (conn_id conn = 1; conn <= plan.parties; conn++)
        join(conn);
    for (conn_id conn = 1; conn <= plan.parties; conn++)
        for (uint32_t i = 0; i < NAMES; i++)
            plan.topics[conn][i] = open_topic(conn, topic_of(conn, i));
    for (int i = 0; i < ACTS; i++)
        act();
    pass_ms(100);
    forget();
}

/* ---- what is said ---------------------------------------------------------------------------- */

static struct job *the_job(void)
{
    return pool_next(&core->jobs, 0);
}

static struct topic *topic_named(const char *name)
{
    uint32_t id;
    cr_assert(name_map_get(&the_job()->topics, span_text(name), &id), "%s", name);
    return pool_find(&core->topics, id);
}

static conn_id conn_named(const char *party)
{
    for (conn_id conn = 1; conn <= PARTIES_MAX; conn++)
        if (strcmp(name_of(conn), party) == 0)
            return conn;
    return 0;
}

static void add_count(struct count_of *counts, uint32_t *count, uint32_t most, const char *name,
                      uint64_t more)
{
    uint32_t i = 0;
    while (i < *count && strcmp(counts[i].name, name) != 0)
        i += 1;
    cr_assert_lt(i, most);
    if (i == *count) {
        (void)snprintf(counts[i].name, sizeof counts[i].name, "%s", name);
        counts[(*count)++].count = 0;
    }
    counts[i].count += more;
}

static uint64_t count_of(const struct count_of *counts, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(counts[i].name, name) == 0)
            return counts[i].count;
    return 0;
}

static void add_failed(struct outcome *outcome, uint32_t topic, uint64_t seq)
{
    cr_assert_lt(outcome->failed_count, SLOTS_MAX);
    outcome->failed[outcome->failed_count++] = (struct slot){topic, seq};
}

static void read_row(struct outcome *outcome, const char *kind, const char *name, unsigned seq,
                     unsigned count)
{
    bool is_slot = strcmp(kind, "owed") == 0 || strcmp(kind, "needs") == 0 ||
                   strcmp(kind, "reply") == 0 || strcmp(kind, "replaced") == 0;
    for (unsigned i = 0; is_slot && i < count; i++)
        add_failed(outcome, topic_named(name)->id, seq + i);
    seen.needed += strcmp(kind, "needs") == 0;
    seen.replaced += strcmp(kind, "replaced") == 0;
    if (strcmp(kind, "party") == 0)
        outcome->raised[conn_named(name)] += count;
    if (strcmp(kind, "dead") == 0)
        outcome->dead += count;
    if (strcmp(kind, "again") == 0)
        outcome->again += count;
    if (strcmp(kind, "group") == 0)
        add_count(outcome->groups, &outcome->group_count, GROUPS_MAX, name, count);
    if (strcmp(kind, "reader") == 0)
        add_count(outcome->readers, &outcome->reader_count, READERS_MAX, name, count);
    outcome->empty += strcmp(kind, "empty") == 0;
    outcome->unread += strcmp(kind, "unread") == 0;
}

static void read_answer(struct outcome *outcome)
{
    char *rest = NULL;
    memset(outcome, 0, sizeof *outcome);
    for (char *line = strtok_r(said, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char kind[16], name[40];
        unsigned seq, count;
        if (sscanf(line, "9 < %15s %39[^#]#%u x%u", kind, name, &seq, &count) == 4)
            read_row(outcome, kind, name, seq, count);
    }
    forget();
}

/* ---- what happens ---------------------------------------------------------------------------- */

static struct before {
    struct slot unsettled[SLOTS_MAX]; /* or not an error, at least */
    uint32_t count;
    uint64_t letters, groups, unread;
    struct lease {
        uint32_t id, topic;
        uint64_t seq;
    } leases[SLOTS_MAX]; /* of the party that is lost */
    uint32_t lease_count;
    enum job_state state;
    uint32_t attempt;
} before;

static uint64_t count_letters(void)
{
    uint64_t count = 0;
    struct group *group = NULL;
    while ((group = pool_next(&core->groups, group != NULL ? group->id : 0)) != NULL)
        count += group->letter_count;
    return count;
}

static uint64_t count_groups(void)
{
    uint64_t count = 0;
    struct group *group = NULL;
    while ((group = pool_next(&core->groups, group != NULL ? group->id : 0)) != NULL)
        count += group->taker_count > 0;
    return count;
}

static uint64_t count_unread(void)
{
    uint64_t count = 0;
    struct sub *sub = NULL;
    while ((sub = pool_next(&core->subs, sub != NULL ? sub->id : 0)) != NULL)
        count += sub->name.bytes > 0 && sub->group == NULL && sub->session == NULL;
    return count;
}

static bool is_failed(uint32_t topic_id, uint64_t seq)
{
    uint32_t index;
    struct topic *topic = pool_find(&core->topics, topic_id);
    return topic != NULL && slot_table_find(&topic->slots, seq, &index) &&
           slot_table_at(&topic->slots, index)->state == SLOT_ERROR;
}

static bool is_same_task(const struct task *task, const struct lease *lease)
{
    return task->topic->id == lease->topic && task->seq == lease->seq;
}

static void look_at_leases(conn_id lost)
{
    struct task *task = NULL;
    before.lease_count = 0;
    while ((task = pool_next(&core->tasks, task != NULL ? task->id : 0)) != NULL) {
        if (task->holder == NULL ||
            !span_equal(task->holder->party->name, span_text(name_of(lost))))
            continue;
        cr_assert_lt(before.lease_count, SLOTS_MAX);
        before.leases[before.lease_count++] = (struct lease){task->id, task->topic->id, task->seq};
    }
}

/* Tasks that the lost party had, and that are tasks still. */
static uint64_t count_again(void)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < before.lease_count; i++) {
        const struct task *task = pool_find(&core->tasks, before.leases[i].id);
        count += task != NULL && is_same_task(task, &before.leases[i]);
    }
    return count;
}

static void look_before(conn_id lost)
{
    struct topic *topic = NULL;
    before.count = 0;
    before.state = the_job()->state;
    before.attempt = the_job()->attempt;
    look_at_leases(lost);
    while ((topic = pool_next(&core->topics, topic != NULL ? topic->id : 0)) != NULL)
        for (uint64_t seq = slot_table_first_seq(&topic->slots); seq < topic->slots.next_seq; seq++)
            if (!is_failed(topic->id, seq) && topic->letters == NULL) {
                cr_assert_lt(before.count, SLOTS_MAX);
                before.unsettled[before.count++] = (struct slot){topic->id, seq};
            }
    before.letters = count_letters();
    before.groups = count_groups();
    before.unread = count_unread();
}

/* All others settle what they owe, so that readers get what stands behind it. */
static void settle_rest(conn_id lost)
{
    for (conn_id conn = 1; conn <= plan.parties; conn++)
        for (uint32_t i = 0; conn != lost && i < NAMES; i++) {
            struct topic *topic = pool_find(&core->topics, plan.topics[conn][i]);
            for (uint64_t seq = 0; seq < plan.next[conn][i]; seq++) {
                uint32_t index;
                if (slot_table_find(&topic->slots, seq, &index) &&
                    slot_table_at(&topic->slots, index)->state == SLOT_OPEN)
                    commit(conn, topic->id, seq, 6);
            }
        }
    pass_ms(100);
}

static void copy_text(char text[40], struct span from)
{
    (void)snprintf(text, 40, "%.*s", (int)from.bytes, (const char *)from.data);
}

static uint32_t readers[READERS_MAX], reader_count; /* durable names, by the number of who reads */

/* Reads a durable name, or joins a group. */
static void take_over(conn_id conn, const struct sub *sub, uint32_t group)
{
    char pattern[40], name[40];
    struct msg_subscribe msg = {.window_bytes = 512 * 1024, .keep_ms = 60000};
    copy_text(pattern, sub->patterns[0]);
    copy_text(name, sub->name);
    msg.pattern = span_text(pattern);
    if (sub->group != NULL) {
        cr_assert_leq(group, GROUPS_MAX);
        msg.sub = SUB_GROUPS + group - 1;
        msg.group = span_text(name);
        msg.credit = SLOTS_MAX;
        msg.deliver_max = sub->group->deliver_max;
    } else {
        cr_assert_lt(reader_count, READERS_MAX);
        readers[reader_count] = sub->id;
        msg.sub = SUB_READERS + reader_count++;
        msg.name = span_text(name);
    }
    subscribe_as(conn, msg);
}

/* A newcomer, or one that is left: a job that fails takes nobody in. */
static conn_id find_reader(conn_id lost)
{
    tokens[NEWCOMER] = 0;
    join(NEWCOMER);
    if (tokens[NEWCOMER] != 0)
        return NEWCOMER;
    seen.no_newcomers += 1;
    return lost == 1 ? 2 : 1;
}

/* One party takes all that the groups have left, and a newcomer reads what nobody reads.  false:
 * there is none.  A durable name belongs to its party, so the name of the lost one is read by
 * nobody then, and the end of the attempt takes it along. */
static bool read_what_is_left(conn_id lost)
{
    struct sub *sub = NULL;
    uint32_t group_count = 0;
    conn_id conn = find_reader(lost);
    reader_count = 0;
    while ((sub = pool_next(&core->subs, sub != NULL ? sub->id : 0)) != NULL)
        if (sub_is_place(sub) || (conn == NEWCOMER && sub->name.bytes > 0 && !sub_is_member(sub) &&
                                  sub->session == NULL))
            take_over(conn, sub, group_count += sub_is_place(sub));
    pass_ms(100);
    return conn == NEWCOMER;
}

static void count_raised_at(struct outcome *outcome, unsigned conn, unsigned number)
{
    char name[40];
    struct session *session = NULL;
    const struct sub *member = NULL;
    if (number >= SUB_READERS) {
        const struct sub *read = pool_find(&core->subs, readers[number - SUB_READERS]);
        copy_text(name, read->name);
        add_count(outcome->readers, &outcome->reader_count, READERS_MAX, name, 1);
        return;
    }
    if (number < SUB_GROUPS && number != 1) {
        outcome->raised[conn] += 1;
        return;
    }
    while ((session = pool_next(&core->sessions, session != NULL ? session->id : 0)) != NULL)
        if (session->control == conn)
            member = sub_find(core, session, number);
    cr_assert_not_null(member);
    copy_text(name, member->group->place->name);
    add_count(outcome->groups, &outcome->group_count, GROUPS_MAX, name, 1);
}

static void count_raised(struct outcome *outcome)
{
    char *rest = NULL;
    for (char *line = strtok_r(said, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        unsigned conn, sub;
        unsigned long long seq;
        if (sscanf(line, "%u < sub %u error #%llu", &conn, &sub, &seq) == 3)
            count_raised_at(outcome, conn - 10, sub);
    }
    forget();
}

static void lose(conn_id lost, struct outcome *outcome)
{
    memset(outcome, 0, sizeof *outcome);
    closed(lost);
    closed(lost + 10);
    pass_ms(1500);
    for (uint32_t i = 0; i < before.count; i++)
        if (is_failed(before.unsettled[i].topic, before.unsettled[i].seq))
            add_failed(outcome, before.unsettled[i].topic, before.unsettled[i].seq);
    outcome->again = count_again();
    outcome->dead = count_letters() - before.letters;
    outcome->empty = before.groups - count_groups();
    outcome->unread = count_unread() - before.unread;
}

static int slot_compare(const void *left, const void *right)
{
    const struct slot *a = left;
    const struct slot *b = right;
    if (a->topic != b->topic)
        return a->topic < b->topic ? -1 : 1;
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static void compare_slots(uint64_t seed, struct outcome *told, struct outcome *came)
{
    qsort(told->failed, told->failed_count, sizeof told->failed[0], slot_compare);
    qsort(came->failed, came->failed_count, sizeof came->failed[0], slot_compare);
    cr_assert_eq(told->failed_count, came->failed_count, "seed %llu: %u slots were told, %u failed",
                 (unsigned long long)seed, told->failed_count, came->failed_count);
    for (uint32_t i = 0; i < told->failed_count; i++)
        cr_assert_eq(slot_compare(&told->failed[i], &came->failed[i]), 0, "seed %llu",
                     (unsigned long long)seed);
}

static void compare_job(uint64_t seed, const struct msg_without_end *told)
{
    static const enum job_state states[] = {[JOB_GOES_ON] = JOB_RUNNING,
                                            [JOB_IS_DONE] = JOB_COMPLETED,
                                            [JOB_WAITS_FOR_OTHERS] = JOB_SHORT,
                                            [JOB_CANNOT_GO_ON] = JOB_FAILING};
    const struct job *job = the_job();
    uint64_t present = roster_present(&job->roster) + job->roster.waiting_count;
    enum job_state state = before.state == JOB_RUNNING || before.state == JOB_SHORT
                               ? states[told->outlook]
                               : before.state;
    if (before.state == JOB_SHORT && told->outlook == JOB_GOES_ON)
        state = JOB_RUNNING;
    cr_assert_eq(job->state, state, "seed %llu: the job is %s, not %s", (unsigned long long)seed,
                 job_state_name(job->state), job_state_name(state));
    cr_assert_eq(present, told->present, "seed %llu", (unsigned long long)seed);
    seen.short_jobs += job->state == JOB_SHORT;
    seen.failing_jobs += job->state == JOB_FAILING;
}

static void compare_counts(uint64_t seed, const struct count_of *told, uint32_t told_count,
                           const struct count_of *came, uint32_t came_count, uint64_t *sum)
{
    for (uint32_t i = 0; i < told_count; i++) {
        *sum += told[i].count;
        cr_assert_eq(told[i].count, count_of(came, came_count, told[i].name),
                     "seed %llu: %s was to get %llu errors, and got %llu", (unsigned long long)seed,
                     told[i].name, (unsigned long long)told[i].count,
                     (unsigned long long)count_of(came, came_count, told[i].name));
    }
    for (uint32_t i = 0; i < came_count; i++)
        cr_assert_eq(came[i].count, count_of(told, told_count, came[i].name),
                     "seed %llu: %s got %llu errors, and none was told", (unsigned long long)seed,
                     came[i].name, (unsigned long long)came[i].count);
}

/* Nobody else is lost until the job has waited for others, and its errors have settled. */
static void compare_attempts(uint64_t seed, const struct msg_without_end *told, conn_id lost)
{
    bool is_over = told->outlook == JOB_WAITS_FOR_OTHERS || told->outlook == JOB_CANNOT_GO_ON;
    for (int i = 0; i < 13 && the_job() != NULL && the_job()->attempt == before.attempt; i++) {
        pass_ms(1000);
        for (conn_id conn = 1; conn <= plan.parties; conn++)
            if (conn != lost && tokens[conn] != 0)
                beat(conn);
    }
    forget();
    const struct job *job = the_job();
    cr_assert_not_null(job, "seed %llu", (unsigned long long)seed);
    uint32_t expected = before.attempt + (is_over && told->attempts_left > 0);
    cr_assert_eq(job->attempt, expected, "seed %llu: attempt %u, not %u", (unsigned long long)seed,
                 job->attempt, expected);
    if (is_over && told->attempts_left == 0)
        cr_assert_eq(job->state, JOB_FAILED, "seed %llu", (unsigned long long)seed);
    seen.attempts += expected > before.attempt;
    seen.no_attempts += is_over && told->attempts_left == 0;
}

static void ask_and_lose(uint64_t seed)
{
    static struct outcome told, came;
    play(seed);
    conn_id lost = 1 + roll(plan.parties);
    look_before(lost);
    seen.gathering_jobs += before.state == JOB_GATHERING;
    ask_without(name_of(lost));
    struct msg_without_end end = without_told;
    cr_assert_eq(end.code, CODE_OK, "seed %llu", (unsigned long long)seed);
    read_answer(&told);
    lose(lost, &came);
    compare_slots(seed, &told, &came);
    compare_job(seed, &end);
    settle_rest(lost);
    count_raised(&came);
    bool has_newcomer = read_what_is_left(lost);
    count_raised(&came);
    compare_counts(seed, told.groups, told.group_count, came.groups, came.group_count,
                   &seen.at_groups);
    if (has_newcomer)
        compare_counts(seed, told.readers, told.reader_count, came.readers, came.reader_count,
                       &seen.at_readers);
    cr_assert_eq(told.again, came.again, "seed %llu: %llu tasks were to be given again, not %llu",
                 (unsigned long long)seed, (unsigned long long)told.again,
                 (unsigned long long)came.again);
    seen.again += told.again;
    for (conn_id conn = 1; conn <= plan.parties; conn++)
        cr_assert_eq(told.raised[conn], came.raised[conn],
                     "seed %llu: %s was to get %llu errors, and got %llu", (unsigned long long)seed,
                     name_of(conn), (unsigned long long)told.raised[conn],
                     (unsigned long long)came.raised[conn]);
    cr_assert_eq(told.dead, came.dead, "seed %llu: letters", (unsigned long long)seed);
    cr_assert_eq(told.empty, came.empty, "seed %llu: groups", (unsigned long long)seed);
    cr_assert_eq(told.unread, came.unread, "seed %llu: readers", (unsigned long long)seed);
    seen.failed += told.failed_count;
    seen.raised += told.raised[1] + told.raised[2];
    seen.dead += told.dead;
    seen.empty += told.empty;
    seen.unread += told.unread;
    leave(NEWCOMER, 0);
    compare_attempts(seed, &end, lost);
}

Test(core_without, says_what_then_happens_in_a_thousand_jobs, .timeout = 300)
{
    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        is_alone = true;
        ask_and_lose(seed);
        fini();
        init();
    }
    is_alone = true;
    cr_expect(seen.failed > 0 && seen.needed > 0 && seen.raised > 0 && seen.dead > 0 &&
                  seen.empty > 0 && seen.unread > 0 && seen.replaced > 0 && seen.short_jobs > 0 &&
                  seen.failing_jobs > 0 && seen.again > 0 && seen.at_groups > 0 &&
                  seen.at_readers > 0 && seen.attempts > 0 && seen.no_attempts > 0 &&
                  seen.gathering_jobs > 0 && seen.no_newcomers > 0,
              "something was never to be seen");
}
