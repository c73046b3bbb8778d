/* SPDX-License-Identifier: MPL-2.0 */
/* brokers_test.c -- whole brokers of one shard over the model of PostgreSQL (nodes.h), with
 * parties, under faults.  One process has the shard, and another one waits for it (seats.h).  They
 * are killed, stopped, and cut off from the store.  Nodes are lost, waits are cancelled, and the
 * quorum is set aside.  Connections of parties break.
 *
 * A broker that lost the shard may serve on until it learns that, or must be mute.  Parties find
 * either.  What a broker tells anybody waits for its commits, which may be in doubt.
 *
 * Three writers have a topic each, and two readers read all of them.  Nobody's session ends, and
 * each reader gets each value, and each error, once.  A fourth writer is killed and started again,
 * so what it wrote may be in no commit.  Both readers get the same of that.
 *
 *   ERRBUS_SIM_SEEDS, ERRBUS_SIM_FROM   as in sim_test.c (default 250, from 1) */
#include "tests/sim/coverage.h"
#include "tests/sim/nodes.h"
#include "tests/sim/scene.h"
#include "tests/sim/seats.h"
#include "tests/sim/seeds.h"

#include "broker/io/durability.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>

enum {
    SEEDS_DEFAULT = 250,
    WRITERS = 3,
    PARTIES = 5,
    ROUNDS = 200,
    ROUND_MS = 200,
    SOON_MS = 12,         /* about as long as a commit takes */
    SILENCE_MS = 1000,    /* a link that is silent for longer is dialled anew, */
    PATIENCE_MS = 600000, /* ... and nobody is lost for that */
    REST_MS = 120000,     /* until all have all behind the last fault, at most, */
    LAST_MS = 1000,       /* ... and nothing more comes */
    DOWN_MS = 8000,       /* no node takes writes for so long at most */
};

static const char *const parties[PARTIES] = {"alice", "bob", "carol", "rita", "rob"};
static const char *const topics[WRITERS] = {"alice/w", "bob/w", "carol/w"};
static const char *const patterns[] = {"alice/#", "bob/#", "carol/#", "dora/#"};
enum { PATTERNS = sizeof patterns / sizeof patterns[0] };

static struct scene scene;
static struct dice dice;
static uint64_t values; /* that were tried to be written */
static bool is_there;   /* dora runs, who is killed */
static uint64_t seqs[WRITERS];
static bool is_open[WRITERS]; /* the last slot of this writer */
static struct {
    uint64_t taken, doubts, undone, killed, stopped, failed_over, set_aside;
} sums;

/* A value, a slot, or what becomes of a slot. */
static void say_something(uint32_t writer)
{
    char text[32];
    if (is_open[writer]) {
        scene_fail(&scene, parties[writer], topics[writer], seqs[writer]++, "app.hot", false);
        is_open[writer] = false;
    } else if (dice_hits(&dice, 300)) {
        cr_assert_eq(scene_reserve(&scene, parties[writer], topics[writer], -1), CODE_OK);
        is_open[writer] = true;
    } else {
        (void)snprintf(text, sizeof text, "value number %" PRIu64, values++); /* it fits */
        cr_assert_eq(scene_publish(&scene, parties[writer], topics[writer], text), CODE_OK);
        seqs[writer]++;
    }
}

/* It takes a moment until it is up, and says nothing before.  Where the broker does not know yet
 * that it was killed, its name is taken, and it begins again. */
static void start_dora(void)
{
    if (is_there && session_state(world_session(scene.stage.world,
                                                scene_app(&scene, "dora")->host)) != SESSION_OVER)
        return;
    scene_start(&scene, "dora", 0);
    is_there = true;
}

static void kill_dora(void)
{
    scene_kill(&scene, "dora", dice_between(&dice, 0, 100));
    is_there = false;
}

/* It writes and is killed, or is started. */
static void move_dora(void)
{
    char text[32];
    start_dora();
    (void)snprintf(text, sizeof text, "value number %" PRIu64, values++); /* it fits */
    if (app_is_up(scene_app(&scene, "dora")))
        (void)scene_publish(&scene, "dora", "dora/w", text); /* or it is not welcome any more */
    scene_run(&scene, (int64_t)dice_below(&dice, SOON_MS));
    if (dice_hits(&dice, 300))
        kill_dora();
}

static void begin(uint64_t seed)
{
    struct scene_options options;
    scene_options_init(&options);
    options.world.seed = seed;
    options.world.check_every = 20;
    options.world.shard_seed = seed + UINT64_C(1000000007);
    options.world.trace = getenv("ERRBUS_SIM_TRACE") != NULL ? stderr : NULL;
    options.world.core.has_facts = true;
    options.world.core.resume_ms = PATIENCE_MS;
    options.lost_after_ms = SILENCE_MS;
    options.grace_ms = options.broker_lost_ms = PATIENCE_MS;
    durability_tell(DURABILITY_SHARED, &options.world.core);
    dice_init(&dice, seed);
    values = 0;
    is_there = false;
    scene_open(&scene, &options);
    for (int i = 0; i < PARTIES; i++)
        scene_start(&scene, parties[i], 200);
    for (int reader = WRITERS; reader < PARTIES; reader++)
        for (int i = 0; i < PATTERNS; i++)
            scene_subscribe(&scene, parties[reader], patterns[i]);
    for (uint32_t writer = 0; writer < WRITERS; writer++) {
        seqs[writer] = 0;
        is_open[writer] = false;
        say_something(writer);
    }
    start_dora();
    scene_run(&scene, 500);
}

static void fail_something(void)
{
    struct nodes *nodes = world_nodes(scene.stage.world);
    unsigned seat = (unsigned)dice_below(&dice, SEATS);
    switch (dice_below(&dice, 12)) {
    case 0: nodes_cut(nodes, seat, NODES_CLOSED); break;
    case 1: nodes_cut(nodes, seat, NODES_SILENT); break;
    case 2: nodes_cut_standbys(nodes, true); break;
    case 3:
        nodes_fail_over(nodes, dice_between(&dice, 100, DOWN_MS));
        sums.failed_over++;
        break;
    case 4: nodes_cancel(nodes); break;
    case 5: nodes_terminate(nodes, seat); break;
    case 6:
        world_kill_seat(scene.stage.world, seat);
        sums.killed++;
        break;
    case 7:
        nodes_set_aside(nodes, true);
        sums.set_aside++;
        break;
    case 8:
        world_stop_seat(scene.stage.world, seat, dice_between(&dice, 0, 10000) * WORLD_MS);
        sums.stopped++;
        break;
    default: nodes_heal(nodes);
    }
}

/* A party that is heard no more would be lost, for it is silent. */
static void upset(uint32_t party)
{
    if (dice_hits(&dice, 500))
        scene_break(&scene, parties[party]);
    else
        world_half_open(scene.stage.world, party, WAY_DOWN);
}

static uint64_t taken_by(const char *reader)
{
    return scene_app(&scene, reader)->taken_count;
}

static bool has_read_all(const char *reader, uint32_t writer)
{
    uint32_t space = oracle_space(0, 1);
    uint32_t topic = oracle_topic(scene.stage.oracle, space, span_text(topics[writer]));
    const struct app_position *place = app_position(scene_app(&scene, reader)->subs[writer], topic);
    return place != NULL && place->next_seq == seqs[writer];
}

/* What is missing, or more than there may be; NULL: nothing.  Of dora nobody knows how much is. */
static const char *missing(void)
{
    for (uint32_t i = 0; i < PARTIES; i++)
        if (!app_is_up(scene_app(&scene, parties[i])))
            return "a party is not up";
    for (uint32_t writer = 0; writer < WRITERS; writer++)
        for (int reader = WRITERS; reader < PARTIES; reader++)
            if (!has_read_all(parties[reader], writer))
                return "a reader has not read all";
    if (taken_by("rita") != taken_by("rob"))
        return "one reader has read more than the other one";
    return app_is_up(scene_app(&scene, "dora")) ? NULL : "dora is not up";
}

static void must_have_all(uint64_t seed)
{
    for (int64_t waited_ms = 0; waited_ms < REST_MS && missing() != NULL; waited_ms += ROUND_MS) {
        start_dora();
        scene_run(&scene, ROUND_MS);
    }
    scene_run(&scene, LAST_MS);
    const char *broken = world_violation(scene.stage.world);
    cr_assert_null(broken, "seed %" PRIu64 ": %s", seed, broken);
    cr_assert_null(missing(), "seed %" PRIu64 ": %s", seed, missing());
}

/* What world_digest() is then. */
static uint64_t check_seed(uint64_t seed)
{
    begin(seed);
    for (int i = 0; i < ROUNDS; i++) {
        scene_run(&scene, (int64_t)dice_below(&dice, ROUND_MS));
        if (dice_hits(&dice, 150))
            fail_something();
        if (dice_hits(&dice, 50))
            upset((uint32_t)dice_below(&dice, PARTIES));
        say_something((uint32_t)dice_below(&dice, WRITERS));
        if (dice_hits(&dice, 300))
            move_dora();
    }
    nodes_heal(world_nodes(scene.stage.world));
    for (uint32_t writer = 0; writer < WRITERS; writer++)
        if (is_open[writer])
            say_something(writer);
    must_have_all(seed);
    struct nodes *nodes = world_nodes(scene.stage.world);
    cr_assert_null(nodes_wrong(nodes), "seed %" PRIu64 ": %s", seed, nodes_wrong(nodes));
    sums.taken += nodes_epoch(nodes);
    sums.doubts += nodes_doubts(nodes);
    sums.undone += nodes_undone(nodes);
    uint64_t digest = world_digest(scene.stage.world);
    const char *broken = scene_close(&scene);
    cr_assert_null(broken, "seed %" PRIu64 ": %s", seed, broken);
    return digest;
}

Test(brokers, of_one_shard_keep_what_anybody_was_told)
{
    uint64_t count = seeds_count(SEEDS_DEFAULT);
    SEEDS_EACH(seed, count)
        (void)check_seed(seed); /* each has another one */
    fprintf(stderr,
            "%" PRIu64 " taken, %" PRIu64 " beside a broker that served on, %" PRIu64
            " killed, %" PRIu64 " stopped, %" PRIu64 " nodes lost, %" PRIu64
            " quorums set aside, %" PRIu64 " doubts, %" PRIu64 " commits undone\n",
            sums.taken, coverage_replacements(), sums.killed, sums.stopped, sums.failed_over,
            sums.set_aside, sums.doubts, sums.undone);
    if (count < SEEDS_DEFAULT)
        return;
    cr_expect_gt(sums.taken, 2 * count); /* where nothing happens nothing is proved */
    cr_expect_gt(coverage_replacements(), count / 8);
    cr_expect_gt(sums.doubts, count);
    cr_expect_gt(sums.undone, count / 8);
}

/* Threads of seats run one at a time. */
Test(brokers, do_the_same_again_under_a_seed)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        cr_expect_eq(check_seed(seed), check_seed(seed), "seed %" PRIu64, seed);
}
