/* SPDX-License-Identifier: MPL-2.0 */
/* core_without_test.c -- what would fail without a party, and what then fails when it is lost.
 *
 * In many random jobs the question is asked, and the party's connections are then cut.  What the
 * answer says is compared with the tables and frames after the loss. */
#include "broker/core/model.h"
#include "broker/core/tables/job.h"
#include "tests/unit/core_driver.h"

TestSuite(core_without, .init = init, .fini = fini);

enum { OBSERVER = 9, PARTIES_MAX = 5, ACTS = 40, SLOTS_MAX = 512, JOBS = 1000, NAMES = 2 };

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
    enum { MANY = 3 * LIMIT_WHY_STEP };
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
    cr_expect(count >= 2 * MANY / LIMIT_WHY_STEP, "%u steps", count);
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

/* What the answer says, or what then came. */
struct outcome {
    struct slot failed[SLOTS_MAX];
    uint32_t failed_count;
    uint64_t raised[PARTIES_MAX + 1];
    uint64_t dead, empty, unread;
};

static struct {
    uint64_t failed, needed, raised, dead, empty, unread, replaced, short_jobs, failing_jobs;
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
    (void)snprintf(pattern, sizeof pattern, "%s/jobs", name_of(which + 1));
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
        struct msg_job_create job = a_job(1 + roll(plan.parties), plan.parties);
        job.join_window_ms = roll(2) == 0 ? 0 : 60000;
        job.settle_ms = 60000;
        job.pending = roll(2);
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

static void look_before(void)
{
    struct topic *topic = NULL;
    before.count = 0;
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

static void count_raised(struct outcome *outcome)
{
    char *rest = NULL;
    for (char *line = strtok_r(said, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        unsigned conn, sub;
        unsigned long long seq;
        if (sscanf(line, "%u < sub %u error #%llu", &conn, &sub, &seq) == 3 && sub != 1)
            outcome->raised[conn - 10] += 1;
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
    enum job_state state = job->state == JOB_FREE ? JOB_FREE : states[told->outlook];
    cr_assert_eq(job->state, state, "seed %llu: the job is %s, not %s", (unsigned long long)seed,
                 job_state_name(job->state), job_state_name(state));
    cr_assert_eq(present, told->present, "seed %llu", (unsigned long long)seed);
    seen.short_jobs += job->state == JOB_SHORT;
    seen.failing_jobs += job->state == JOB_FAILING;
}

static void ask_and_lose(uint64_t seed)
{
    static struct outcome told, came;
    play(seed);
    conn_id lost = 1 + roll(plan.parties);
    look_before();
    ask_without(name_of(lost));
    struct msg_without_end end = without_told;
    cr_assert_eq(end.code, CODE_OK, "seed %llu", (unsigned long long)seed);
    read_answer(&told);
    lose(lost, &came);
    compare_slots(seed, &told, &came);
    compare_job(seed, &end);
    settle_rest(lost);
    count_raised(&came);
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
                  seen.failing_jobs > 0,
              "something was never to be seen");
}
