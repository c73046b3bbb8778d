/* SPDX-License-Identifier: MPL-2.0 */
/* deadlock_test.c -- parties of which each thread publishes values and awaits those of others, one
 * after the other, in any order, over a slow network whose connections break.
 *
 * Values stay, so who is stuck in the end does not depend on time: it is found before, by letting
 * each thread go on that can.  Held to all along:
 *   - Where no thread is stuck, no event says that none can go on, and no wait is ended.
 *   - Where each party has one thread, each cycle is told once and soon, with as many members as it
 *     has, also when nothing else happens any more.  No other event of the kind comes.
 *   - In a job that ends such waits, no party with one thread is stuck in the end. */
#include "tests/sim/play.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { HOSTS = 5, THREADS = 2, OPS = 6, SEEDS_DEFAULT = 100 };
enum { ASKER = HOSTS };
enum { ACT_GO, ACT_BREAK };
#define PLAY_MS 120000
/* A second until a beat sees the wait, one until it is told, the phase of the looks, and two. */
#define TOLD_MS ((int64_t)3 * LIMIT_WHY_LOOK_MS + 3 * LIMIT_WAITING_MS)

struct op {
    bool is_await;
    uint32_t host, thread; /* whose topic */
    uint64_t seq;
    int64_t compute_ms; /* before it */
};

struct thread {
    struct op ops[OPS];
    uint32_t count, at;
    uint64_t published; /* by all its ops before at */
    bool is_computing;
    uint64_t want; /* 0: it does not wait */
    int64_t since_ns;
};

static struct play {
    struct world *world;
    struct thread threads[HOSTS][THREADS];
    uint32_t host_count, thread_count;
    bool is_ending;           /* the job ends waits */
    uint32_t cycles_expected; /* with one thread each */
    uint32_t members_expected;
    bool is_any_stuck;
    uint32_t told, members_told; /* events, and their members */
    uint32_t told_sure;
    uint32_t ended; /* waits */
} play;

static struct {
    uint64_t stuck, free, cycles, ended;
} seen;

static const char *const names[HOSTS] = {"a", "b", "c", "d", "e"};

static void topic_name(char name[8], uint32_t host, uint32_t thread)
{
    (void)snprintf(name, 8, "%s/%u", names[host], thread % THREADS);
}

/* ---- who is stuck ---------------------------------------------------------------------------- */

static uint64_t published_by(const struct thread *thread, uint32_t at)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < at; i++)
        count += !thread->ops[i].is_await;
    return count;
}

/* Where each thread stops: at its end, or at an await that nothing will answer. */
static void run_dry(uint32_t at[HOSTS][THREADS])
{
    bool has_moved = true;
    memset(at, 0, HOSTS * sizeof *at);
    while (has_moved) {
        has_moved = false;
        for (uint32_t i = 0; i < play.host_count * play.thread_count; i++) {
            uint32_t host = i / play.thread_count;
            uint32_t number = i % play.thread_count;
            const struct thread *thread = &play.threads[host][number];
            const struct op *op = &thread->ops[at[host][number]];
            if (at[host][number] == thread->count ||
                (op->is_await && published_by(&play.threads[op->host][op->thread],
                                              at[op->host][op->thread]) <= op->seq))
                continue;
            at[host][number] += 1;
            has_moved = true;
        }
    }
}

/* With one thread each, a stuck party waits for one other: cycles are found by following. */
static void count_cycles(uint32_t at[HOSTS][THREADS])
{
    bool is_counted[HOSTS] = {false};
    for (uint32_t first = 0; first < play.host_count; first++) {
        uint32_t host = first;
        uint32_t length = 0;
        do {
            const struct thread *thread = &play.threads[host][0];
            if (at[host][0] == thread->count)
                break;
            host = thread->ops[at[host][0]].host;
            length += 1;
        } while (host != first && length <= HOSTS);
        if (host != first || length < 2 || is_counted[first])
            continue;
        play.cycles_expected += 1;
        play.members_expected += length;
        for (uint32_t i = 0; i < length; i++) {
            is_counted[host] = true;
            host = play.threads[host][0].ops[at[host][0]].host;
        }
    }
}

static void expect_stuck(void)
{
    uint32_t at[HOSTS][THREADS];
    run_dry(at);
    for (uint32_t host = 0; host < play.host_count; host++)
        for (uint32_t i = 0; i < play.thread_count; i++)
            play.is_any_stuck |= at[host][i] < play.threads[host][i].count;
    if (play.thread_count == 1)
        count_cycles(at);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void compute(uint32_t host, uint32_t number)
{
    struct thread *thread = &play.threads[host][number];
    thread->is_computing = true;
    world_at(play.world,
             world_now_ns(play.world) + (thread->ops[thread->at].compute_ms + 1) * WORLD_MS, ACT_GO,
             host, number);
}

static void next_op(uint32_t host, uint32_t number)
{
    struct thread *thread = &play.threads[host][number];
    if (++thread->at < thread->count)
        compute(host, number);
}

static void do_publish(uint32_t host, uint32_t number)
{
    struct session *session = world_session(play.world, host);
    uint32_t topic;
    char name[8];
    struct span value = span_text("v");
    topic_name(name, host, number);
    enum wire_code code = session_topic(session, span_text(name), &topic);
    if (code == CODE_OK)
        code = session_publish(session, world_host_ns(play.world, host), topic, &value, 1, NULL);
    if (code == CODE_OK)
        next_op(host, number);
    else { /* it waits for a number or for room, and tries again */
        play.threads[host][number].is_computing = true;
        world_at(play.world, world_now_ns(play.world) + 50 * WORLD_MS, ACT_GO, host, number);
    }
}

static void do_await(uint32_t host, struct thread *thread)
{
    struct session *session = world_session(play.world, host);
    const struct op *op = &thread->ops[thread->at];
    char name[8];
    topic_name(name, op->host, op->thread);
    cr_assert_eq(session_await(session, span_text(name), op->seq, false, &thread->want), CODE_OK);
    thread->since_ns = world_now_ns(play.world);
    session_wait_begin(session, SESSION_WAIT_SLOTS,
                       &(struct session_wait_place){.topic = span_text(name), .seq = op->seq},
                       (struct session_patience){0});
}

static void go(uint32_t host, uint32_t number)
{
    struct thread *thread = &play.threads[host][number];
    thread->is_computing = false;
    if (thread->ops[thread->at].is_await)
        do_await(host, thread);
    else
        do_publish(host, number);
    world_pump(play.world, host);
}

/* A wait is answered: with the value, or with the error that ends it. */
static void look(uint32_t host, uint32_t number)
{
    struct thread *thread = &play.threads[host][number];
    struct session *session = world_session(play.world, host);
    struct session_item item;
    if (thread->want == 0 || session_want_take(session, thread->want, &item) != CODE_OK)
        return;
    if (item.kind == SESSION_ITEM_ERROR) {
        play.ended += 1;
        if (!play.is_ending || !play.is_any_stuck)
            world_violate(play.world, "a wait of %s was ended", names[host]);
    }
    buffer_unref(&item.buffer);
    thread->want = 0;
    session_wait_end(session, SESSION_WAIT_SLOTS, (struct session_patience){0});
    next_op(host, number);
}

static void on_news(void *arg, uint32_t host, const struct session_news *news)
{
    (void)arg;
    (void)news;
    if (host >= HOSTS)
        return;
    for (uint32_t i = 0; i < play.thread_count; i++)
        look(host, i);
    if (session_end(world_session(play.world, host), NULL) != CODE_OK)
        world_violate(play.world, "%s is over", names[host]);
}

/* Without the world's answer the session takes the process for one with other threads. */
static bool is_alone(void *arg, uint32_t host)
{
    (void)arg;
    for (uint32_t i = 0; host < HOSTS && i < play.thread_count; i++)
        if (play.threads[host][i].is_computing)
            return false;
    return true;
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool ends_with(struct span text, const char *end)
{
    size_t bytes = strlen(end);
    return text.bytes >= bytes &&
           memcmp((const char *)text.data + text.bytes - bytes, end, bytes) == 0;
}

static void on_event(void *arg, uint32_t job, const struct msg_event *event)
{
    (void)arg;
    (void)job;
    if (!span_equal(event->name, span_text(EVENT_JOB_DEADLOCK)))
        return;
    bool is_sure = ends_with(event->text, ": none can go on");
    play.told += 1;
    play.members_told += (uint32_t)event->count;
    play.told_sure += is_sure;
    if (is_sure && !play.is_any_stuck)
        world_violate(play.world, "a deadlock is told, and nobody is stuck: %.*s",
                      (int)event->text.bytes, (const char *)event->text.data);
    if (play.thread_count == 1 && !play.is_any_stuck)
        world_violate(play.world, "an event tells of waits that all end");
}

/* The last member of a cycle began to wait long before. */
static void check_told_soon(void)
{
    int64_t last_ns = 0;
    for (uint32_t host = 0; host < play.host_count; host++)
        if (play.threads[host][0].is_computing)
            return;
        else if (play.threads[host][0].want != 0 && play.threads[host][0].since_ns > last_ns)
            last_ns = play.threads[host][0].since_ns;
    if (world_now_ns(play.world) - last_ns > TOLD_MS * WORLD_MS && play.told < play.cycles_expected)
        world_violate(play.world, "%u cycles are told, not %u", play.told, play.cycles_expected);
}

static void on_act(void *arg, uint32_t what, uint32_t who, uint64_t value)
{
    (void)arg;
    if (what == ACT_GO)
        go(who, (uint32_t)value);
    else if (world_link(play.world, who) != 0)
        world_break(play.world, who, 1U << CHANNEL_CONTROL | 1U << CHANNEL_DATA, 0, 0);
}

/* ---- a seed ---------------------------------------------------------------------------------- */

static void make_thread(struct dice *dice, uint32_t host, uint32_t await_permille,
                        struct thread *thread)
{
    thread->count = (uint32_t)dice_between(dice, 1, OPS);
    for (uint32_t i = 0; i < thread->count; i++) {
        struct op *op = &thread->ops[i];
        op->is_await = dice_hits(dice, await_permille);
        op->host = (host + (uint32_t)dice_between(dice, 1, play.host_count - 1)) % play.host_count;
        op->thread = (uint32_t)dice_below(dice, play.thread_count);
        op->seq = dice_below(dice, 2);
        op->compute_ms =
            dice_hits(dice, 200) ? dice_between(dice, 0, 15000) : dice_between(dice, 0, 50);
    }
}

static void open_world(uint64_t seed)
{
    struct world_options options = play_options(seed, 20, 80);
    memset(&play, 0, sizeof play);
    options.hooks = (struct world_hooks){
        .on_news = on_news, .on_act = on_act, .on_event = on_event, .is_alone = is_alone};
    options.check_every = 0;
    play.world = world_new(&options);
    (void)world_tap(play.world, "job");
    struct dice *dice = world_dice(play.world);
    play.host_count = (uint32_t)dice_between(dice, 2, HOSTS);
    play.thread_count = seed % 3 == 0 ? THREADS : 1;
    play.is_ending = seed % 2 == 0;
    uint32_t await_permille = dice_hits(dice, 300) ? 450 : 180; /* most runs have no stuck party */
    struct host_options host = {.job = "job",
                                .heartbeat_ms = 500,
                                .lost_after_ms = 20000,
                                .grace_ms = 20000,
                                .broker_lost_ms = 60000};
    for (uint32_t i = 0; i < HOSTS; i++) {
        host.party = names[i];
        (void)world_host(play.world, &host);
        for (uint32_t k = 0; i < play.host_count && k < play.thread_count; k++)
            make_thread(dice, i, await_permille, &play.threads[i][k]);
    }
    host.job = host.party = "";
    (void)world_host(play.world, &host);
    expect_stuck();
}

static void begin(void)
{
    play_create_job(play.world, ASKER, 1000,
                    (struct msg_job_create){.job = span_text("job"),
                                            .min = play.host_count,
                                            .max = play.host_count,
                                            .join_timeout_ms = -1,
                                            .deadline_ms = -1,
                                            .deadlock = play.is_ending});
    world_kill(play.world, ASKER, true, 0);
    for (uint32_t host = 0; host < play.host_count; host++)
        world_start(play.world, host);
    world_run(play.world, world_now_ns(play.world) + 2000 * WORLD_MS);
    for (uint32_t host = 0; host < play.host_count; host++)
        for (uint32_t i = 0; i < play.thread_count; i++)
            compute(host, i);
}

/* A party that waits in vain, for others that do. */
static bool is_in_cycle(uint32_t first)
{
    uint32_t host = first;
    for (uint32_t i = 0; i < HOSTS; i++) {
        const struct thread *thread = &play.threads[host][0];
        if (thread->want == 0)
            return false;
        host = thread->ops[thread->at].host;
        if (host == first)
            return true;
    }
    return false;
}

static void check_end(void)
{
    if (play.thread_count > 1)
        return;
    if (!play.is_ending &&
        (play.told != play.cycles_expected || play.members_told != play.members_expected))
        world_violate(play.world, "%u cycles of %u are told, not %u of %u", play.told,
                      play.members_told, play.cycles_expected, play.members_expected);
    for (uint32_t host = 0; play.is_ending && host < play.host_count; host++)
        if (is_in_cycle(host))
            world_violate(play.world, "%s is stuck in a cycle in the end", names[host]);
}

static void run(uint64_t seed)
{
    open_world(seed);
    begin();
    struct dice *dice = world_dice(play.world);
    for (uint32_t i = 0; seed % 5 == 0 && i < 4; i++)
        world_at(play.world, world_now_ns(play.world) + dice_between(dice, 0, 20000) * WORLD_MS,
                 ACT_BREAK, (uint32_t)dice_below(dice, play.host_count), 0);
    int64_t end_ns = world_now_ns(play.world) + PLAY_MS * WORLD_MS;
    while (world_now_ns(play.world) < end_ns && world_violation(play.world) == NULL) {
        world_run(play.world, world_now_ns(play.world) + 1000 * WORLD_MS);
        if (play.thread_count == 1 && !play.is_ending && seed % 5 != 0 &&
            world_violation(play.world) == NULL)
            check_told_soon();
    }
    if (world_violation(play.world) == NULL)
        check_end();
    seen.stuck += play.is_any_stuck;
    seen.free += !play.is_any_stuck;
    seen.cycles += play.told;
    seen.ended += play.ended;
    play_end(&play.world, seed);
}

Test(deadlock, is_told_if_parties_wait_for_each_other_and_never_else, .timeout = 900)
{
    uint64_t count = seeds_count(SEEDS_DEFAULT);
    SEEDS_EACH(seed, count)
        run(seed);
    fprintf(stderr,
            "%" PRIu64 " seeds: %" PRIu64 " with a stuck party, %" PRIu64 " without; %" PRIu64
            " cycles told, %" PRIu64 " waits ended\n",
            count, seen.stuck, seen.free, seen.cycles, seen.ended);
    cr_expect(count < SEEDS_DEFAULT ||
                  (seen.stuck > 0 && seen.free > 0 && seen.cycles > 0 && seen.ended > 0),
              "something was never to be seen");
}
