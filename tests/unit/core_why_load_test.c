/* SPDX-License-Identifier: MPL-2.0 */
/* core_why_load_test.c -- a thousand parties with as many awaits as there may be: how many steps a
 * look and a question take, and how long the longest of them is.
 *
 * The times are printed and not judged, for they belong to the machine. */
#include "broker/core/core.h"
#include "broker/core/model.h"
#include "broker/core/waits/deadlock.h"
#include "broker/core/waits/walk.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MS INT64_C(1000000)

enum { PARTIES = 1000, AWAITS = 65536, OBSERVER = PARTIES + 1, DATA = 10000 };
enum { TARGETS = 44 }; /* whom each party waits for: edges just below their limit */
enum { TARGETS_ALL = AWAITS / PARTIES };
enum { RING = 62 }; /* parties of a ring: 16 cycles, as many as are remembered */

static struct memory memory, effects_memory;
static struct core *core;
static struct effects effects;
static int64_t now_ns;
static uint64_t token; /* of the last WELCOME */
static uint64_t wants;

static struct {
    int64_t longest_ns; /* since forget() */
    uint32_t steps;
    uint32_t nodes, edges, rows; /* of answers */
    uint64_t left_out;
    uint32_t answers;
    uint32_t deadlocks, members;
} seen;

static void forget(void)
{
    memset(&seen, 0, sizeof seen);
}

static int64_t cpu_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void look_at_msg(const struct msg *msg)
{
    if (msg->type == MSG_WELCOME)
        token = msg->as.welcome.token;
    seen.nodes += msg->type == MSG_WHY_NODE;
    seen.edges += msg->type == MSG_WHY_EDGE;
    seen.rows += msg->type == MSG_WITHOUT_ROW;
    seen.answers += msg->type == MSG_WHY_END || msg->type == MSG_WITHOUT_END;
    if (msg->type == MSG_WHY_END)
        seen.left_out = msg->as.why_end.left_out;
}

static void step(struct event event)
{
    event.now_ns = now_ns;
    event.wall_ns = now_ns;
    effects_clear(&effects);
    int64_t began_ns = cpu_ns();
    core_step(core, &event, &effects);
    int64_t took_ns = cpu_ns() - began_ns;
    seen.steps += 1;
    if (took_ns > seen.longest_ns)
        seen.longest_ns = took_ns;
    for (uint32_t i = 0; i < effects.count; i++) {
        const struct effect *effect = &effects.items[i];
        const struct effect_log *log = &effects.logs[effect->index];
        if (effect->type == EFFECT_SEND_MSG)
            look_at_msg(&effects.msgs[effect->index]);
        if (effect->type != EFFECT_LOG || !span_equal(log->name, span_text(EVENT_JOB_DEADLOCK)))
            continue;
        seen.deadlocks += 1;
        seen.members += (uint32_t)log->count;
    }
}

static void message(conn_id conn, struct msg msg)
{
    step((struct event){.type = EVENT_MESSAGE, .conn = conn, .as.msg = &msg});
}

static void pass_ms(int64_t ms)
{
    int64_t until_ns = now_ns + ms * MS;
    while (core_deadline_ns(core) <= until_ns) {
        if (core_deadline_ns(core) > now_ns)
            now_ns = core_deadline_ns(core);
        step((struct event){.type = EVENT_TICK});
    }
    now_ns = until_ns;
}

static void print(const char *what)
{
    fprintf(stderr, "%-34s %5u steps, the longest %4lld us\n", what, seen.steps,
            (long long)(seen.longest_ns / 1000));
}

/* ---- parties --------------------------------------------------------------------------------- */

static const char *party_name(uint32_t number)
{
    static char name[16];
    (void)snprintf(name, sizeof name, "p%u", number);
    return name;
}

static void greet(conn_id conn, const char *job, const char *party, uint64_t role)
{
    message(conn, (struct msg){.type = MSG_HELLO,
                               .as.hello = {.major = PROTOCOL_MAJOR,
                                            .job = span_text(job),
                                            .party = span_text(party),
                                            .role = role,
                                            .heartbeat_ms = 1000,
                                            .lost_after_ms = 3600000,
                                            .grace_ms = 3600000}});
}

static void join(uint32_t number)
{
    conn_id conn = number + 1;
    greet(conn, "job", party_name(number), 0);
    message(conn + DATA,
            (struct msg){.type = MSG_ATTACH, .as.attach = {.token = token, .connection = conn}});
    message(conn, (struct msg){.type = MSG_READY, .as.ready = {.host = span_text("h")}});
}

static void await_slot(uint32_t number, uint32_t of, const char *topic)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%s/%s", party_name(of), topic);
    message(number + 1, (struct msg){.type = MSG_AWAIT,
                                     .as.await = {.want = ++wants, .topic = span_text(name)}});
}

static void say_waiting(uint32_t number)
{
    message(number + 1, (struct msg){.type = MSG_WAITING, .as.waiting = {.slots_ms = 1000}});
}

static void ask(struct msg msg)
{
    msg.as.why.request = 1;
    message(OBSERVER, msg);
    while (seen.answers == 0)
        step((struct event){.type = EVENT_TICK});
}

/* The party awaits so many of those behind it in its ring, and then more values of the same. */
static void begin_waits(uint32_t ring, uint32_t targets)
{
    static const char *const topics[] = {"x", "y", "z"};
    for (uint32_t i = 0; i < PARTIES; i++)
        join(i);
    for (uint32_t i = 0; i < AWAITS; i++) {
        uint32_t number = i % PARTIES;
        uint32_t nth = i / PARTIES;
        uint32_t first = number - number % ring;
        uint32_t size = first + ring <= PARTIES ? ring : PARTIES - first;
        uint32_t ahead = nth % targets % (size - 1) + 1;
        await_slot(number, first + (number - first + ahead) % size, topics[nth / targets % 3]);
    }
    for (uint32_t i = 0; i < PARTIES; i++)
        say_waiting(i);
    greet(OBSERVER, "", "", 1);
    cr_assert_eq(core->awaits.used, AWAITS);
}

static void init(void)
{
    struct core_options options;
    memory_heap_init(&memory, UINT64_MAX);
    memory_heap_init(&effects_memory, UINT64_MAX);
    core_options_init(&options);
    effects_init(&effects, &effects_memory);
    now_ns = 1000 * MS;
    wants = 0;
    core = core_new(&memory, &options, now_ns);
    cr_assert_not_null(core);
}

static void fini(void)
{
    core_free(&core);
    effects_fini(&effects);
}

TestSuite(core_why_load, .init = init, .fini = fini, .timeout = 60);

/* ---- a thousand parties ---------------------------------------------------------------------- */

static void ask_why(uint32_t edges, uint64_t left_out)
{
    forget();
    ask((struct msg){.type = MSG_WHY, .as.why = {.job = span_text("job")}});
    print("  errbus why");
    cr_expect_eq(seen.nodes, PARTIES);
    cr_expect_eq(seen.edges, edges, "%u edges", seen.edges);
    cr_expect_eq(seen.left_out, left_out);
    cr_expect_gt(seen.steps, AWAITS / LIMIT_ANSWER_STEP);
}

static void ask_without(void)
{
    forget();
    ask((struct msg){.type = MSG_WITHOUT,
                     .as.without = {.job = span_text("job"), .party = span_text("p7")}});
    print("  errbus why --without");
    cr_expect_gt(seen.rows, 0);
    cr_expect_gt(seen.steps, AWAITS / LIMIT_ANSWER_STEP);
}

/* The awaits are looked at in as many steps as they need, and a pass over the edges is one step. */
static void look_twice(uint32_t cycles)
{
    enum { PASSES = 6 };
    forget();
    pass_ms(LIMIT_WHY_LOOK_MS + 1);
    print("  first look");
    cr_expect_eq(seen.deadlocks, 0);
    cr_expect_gt(seen.steps, AWAITS / LIMIT_ANSWER_STEP + PASSES + cycles);
    forget();
    pass_ms(LIMIT_WHY_LOOK_MS);
    print("  second look");
    cr_expect_eq(seen.deadlocks, cycles, "%u cycles", seen.deadlocks);
    cr_expect_gt(seen.steps, AWAITS / LIMIT_ANSWER_STEP + PASSES + cycles);
}

Test(core_why_load, looks_at_one_large_cycle_in_short_steps)
{
    begin_waits(PARTIES, TARGETS);
    fprintf(stderr, "%u parties, %u awaits, one cycle\n", PARTIES, AWAITS);
    look_twice(1);
    cr_expect_eq(seen.members, PARTIES);
    ask_why(PARTIES * TARGETS, 0);
    ask_without();
}

Test(core_why_load, looks_at_many_cycles_in_short_steps)
{
    begin_waits(RING, TARGETS);
    fprintf(stderr, "%u parties, %u awaits, rings of %u\n", PARTIES, AWAITS, RING);
    look_twice(LIMIT_WHY_CYCLES);
}

/* A node of which waits are left out may go on by one of these. */
Test(core_why_load, sees_no_cycle_where_edges_are_left_out)
{
    begin_waits(PARTIES, TARGETS_ALL);
    fprintf(stderr, "%u parties, %u awaits, each of another pair\n", PARTIES, AWAITS);
    look_twice(0);
    ask_why(LIMIT_WHY_EDGES, PARTIES * TARGETS_ALL - LIMIT_WHY_EDGES);
}

/* ---- the bound ------------------------------------------------------------------------------- */

/* A ring of barriers, and as many edges as make a pass cost that much. */
static struct wait_walk *make_walk(uint32_t cost)
{
    enum { NODES = 100 };
    struct wait_walk *walk = walk_begin(core, pool_next(&core->jobs, 0));
    cr_assert_not_null(walk);
    for (uint32_t i = 0; i < NODES; i++)
        (void)walk_node(walk, WAIT_NODE_BARRIER, i + 1, NULL);
    for (uint32_t i = 0; walk->node_count + walk->edge_count < cost; i++)
        walk_edge(walk, &(struct wait_edge){.from = i % NODES,
                                            .to = (i % NODES + 1 + i / NODES) % NODES,
                                            .kind = WAIT_MISSING,
                                            .is_said = true});
    return walk;
}

/* How many nodes and edges it looks at in each step. */
static void expect_costs(uint32_t cost, uint32_t first_budget, uint32_t first_spent)
{
    struct wait_walk *walk = make_walk(cost);
    struct job *job = walk_job(core, walk);
    uint32_t budget = first_budget;
    cr_expect(!deadlock_judge(core, job, walk, &budget));
    cr_expect_eq(first_budget - budget, first_spent, "%u: %u", cost, first_budget - budget);
    uint32_t steps = 0;
    bool is_over = false;
    while (!is_over && steps++ < 100) {
        budget = LIMIT_ANSWER_STEP;
        is_over = deadlock_judge(core, job, walk, &budget);
        cr_expect(LIMIT_ANSWER_STEP - budget <= LIMIT_ANSWER_STEP / cost * cost ||
                  cost > LIMIT_ANSWER_STEP);
    }
    cr_expect(is_over);
    walk_free(core, walk);
}

Test(core_why_load, looks_at_so_many_nodes_and_edges_in_a_step)
{
    enum { STEP = LIMIT_ANSWER_STEP };
    join(0);
    expect_costs(STEP / 2, STEP, STEP);
    expect_costs(STEP / 2 + 1, STEP, STEP / 2 + 1);
    expect_costs(STEP - 1, STEP, STEP - 1);
    expect_costs(STEP - 1, STEP - 1, STEP - 1);
    expect_costs(STEP - 1, STEP - 2, 0);
    expect_costs(STEP, STEP, STEP);
    expect_costs(STEP, STEP - 1, 0);
    expect_costs(STEP + 1, STEP, STEP);
    expect_costs(STEP + 1, STEP - 1, 0);
}
