/* SPDX-License-Identifier: MPL-2.0 */
/* replaced_test.c -- another broker takes the journal, and the first one does not know that yet.
 * It serves the clients that it has, and those that find it again.
 *
 * Three writers have a topic each, and two readers read all of them.  Connections break all the
 * time.  So clients come to the next broker, and some of them back to the first one, which knows
 * less than they do.  It must not tell any of them what is true no more: nobody's session ends, and
 * each reader gets each value once.
 *
 *   ERRBUS_SIM_SEEDS, ERRBUS_SIM_FROM   as in sim_test.c (default 200, from 1) */
#include "tests/sim/coverage.h"
#include "tests/sim/scene.h"
#include "tests/sim/seeds.h"

#include "broker/io/durability.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>

enum {
    SEEDS_DEFAULT = 200,
    WRITERS = 3,
    PARTIES = 5,
    RESUME_MS = 3000,
    ROUNDS = 40,
    ROUND_MS = 50
};

static const char *const parties[PARTIES] = {"alice", "bob", "carol", "rita", "rob"};
static const char *const topics[WRITERS] = {"alice/w", "bob/w", "carol/w"};
static const char *const patterns[WRITERS] = {"alice/#", "bob/#", "carol/#"};

static struct scene scene;
static struct dice dice;
static uint64_t value_count;

static void write_one(uint32_t writer)
{
    char text[32];
    (void)snprintf(text, sizeof text, "value number %" PRIu64, ++value_count); /* it fits */
    cr_assert_eq(scene_publish(&scene, parties[writer], topics[writer], text), CODE_OK);
}

static void begin(uint64_t seed, uint32_t no_notice_permille)
{
    struct scene_options options;
    scene_options_init(&options);
    options.world.seed = seed;
    options.world.core.has_facts = true;
    options.world.core.resume_ms = RESUME_MS;
    options.lost_after_ms = options.grace_ms = RESUME_MS;
    options.world.log_most_ns = WORLD_MS;
    options.world.no_notice_permille = no_notice_permille;
    dice_init(&dice, seed);
    options.world.sync_most_ns = dice_between(&dice, 1, 20 * WORLD_MS);
    durability_tell(DURABILITY_SHARED, &options.world.core);
    value_count = 0;
    scene_open(&scene, &options);
    for (int i = 0; i < PARTIES; i++)
        scene_join(&scene, parties[i]);
    scene_run(&scene, 200);
    for (int reader = WRITERS; reader < PARTIES; reader++)
        for (int writer = 0; writer < WRITERS; writer++)
            scene_subscribe(&scene, parties[reader], patterns[writer]);
    for (uint32_t writer = 0; writer < WRITERS; writer++)
        write_one(writer);
    scene_run(&scene, 200);
}

static void replace(void)
{
    bool is_standing = dice_hits(&dice, 300);
    world_replace_by_spare(
        scene.stage.world, is_standing ? dice_between(&dice, 0, 500 * WORLD_MS) : 0,
        dice_between(&dice, 1, 1000 * WORLD_MS), dice_between(&dice, 0, 50 * WORLD_MS));
}

/* Some parties, or this one alone, are on their way to the first broker when the other one takes
 * the journal. */
static void lose_some(uint32_t mover)
{
    for (uint32_t i = 0; i < PARTIES; i++)
        if (mover == PARTIES ? dice_hits(&dice, 500) : i == mover)
            scene_break(&scene, parties[i]);
    scene_run(&scene, (int64_t)dice_below(&dice, 2 * ROUND_MS));
}

/* Its connection breaks, or carries nothing any more: then it tries the other broker. */
static void upset(uint32_t party)
{
    if (dice_hits(&dice, 300))
        scene_break(&scene, parties[party]);
    else
        world_half_open(scene.stage.world, party, dice_hits(&dice, 500) ? WAY_UP : WAY_DOWN);
}

/* In a quiet seed one party alone moves, and writes. */
static void check_seed(uint64_t seed)
{
    begin(seed, 0);
    bool is_quiet = seed % 2 == 0;
    uint32_t mover = (uint32_t)dice_below(&dice, PARTIES);
    lose_some(is_quiet ? mover : PARTIES);
    replace();
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t party = is_quiet ? mover : (uint32_t)dice_below(&dice, PARTIES);
        scene_run(&scene, (int64_t)dice_below(&dice, ROUND_MS));
        upset(party);
        if (party < WRITERS && dice_hits(&dice, 500))
            write_one(party);
    }
    scene_run(&scene, 3 * RESUME_MS);
    for (int i = 0; i < PARTIES; i++) {
        const struct app *app = scene_app(&scene, parties[i]);
        cr_assert(app_is_up(app), "seed %" PRIu64 ": %s is not up", seed, parties[i]);
        cr_assert(i < WRITERS || app->taken_count == value_count,
                  "seed %" PRIu64 ": %s took %" PRIu64 " values of %" PRIu64, seed, parties[i],
                  app->taken_count, value_count);
    }
    const char *broken = scene_close(&scene);
    cr_assert_null(broken, "seed %" PRIu64 ": %s", seed, broken);
}

Test(replaced, broker_tells_nobody_what_is_true_no_more)
{
    uint64_t from = seeds_first();
    uint64_t count = seeds_count(SEEDS_DEFAULT);
    for (uint64_t seed = from; seed < from + count; seed++)
        check_seed(seed);
    cr_expect_eq(coverage_replacements(), count);
}

/* Rob's way to the first broker carries nothing any more, and that broker is not told.  Rob comes
 * to the next one, and ends there in good order. */
static void leave_at_the_next_one(void)
{
    struct app *rob = scene_app(&scene, "rob");
    world_half_open(scene.stage.world, PARTIES - 1, WAY_DOWN);
    uint32_t link = world_link(scene.stage.world, rob->host);
    for (int i = 0; i < ROUNDS; i++) {
        scene_run(&scene, ROUND_MS);
        if (app_is_up(rob) && world_link(scene.stage.world, rob->host) != link)
            break;
    }
    app_leave(rob);
    struct session *session = world_session(scene.stage.world, rob->host);
    for (int i = 0; i < ROUNDS && session_state(session) != SESSION_OVER; i++)
        scene_run(&scene, ROUND_MS);
}

/* Another process of that name may come then, whatever the first broker knows. */
Test(replaced, broker_refuses_nobody_whom_the_next_one_takes)
{
    uint64_t from = seeds_first();
    uint64_t count = seeds_count(SEEDS_DEFAULT);
    for (uint64_t seed = from; seed < from + count; seed++) {
        begin(seed, 1000);
        world_replace_by_spare(scene.stage.world, 0, RESUME_MS * WORLD_MS / 2,
                               dice_between(&dice, 0, ROUND_MS * WORLD_MS));
        leave_at_the_next_one();
        scene_start(&scene, "rob", 2 * RESUME_MS);
        cr_assert(app_is_up(scene_app(&scene, "rob")), "seed %" PRIu64, seed);
        const char *broken = scene_close(&scene);
        cr_assert_null(broken, "seed %" PRIu64 ": %s", seed, broken);
    }
}
