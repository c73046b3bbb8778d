/* SPDX-License-Identifier: MPL-2.0 */
/* forgotten_test.c -- a broker begins over an older copy of its journal, as behind a restored
 * backup: whoever was told more than the copy has learns of it, and nobody else.
 *
 * Three writers have a topic each.  Each writes some values, a copy is made, and some write more,
 * which is accepted and read.  Then the broker is killed, and the next one begins with the copy.
 *
 *   ERRBUS_SIM_SEEDS, ERRBUS_SIM_FROM   as in sim_test.c (default 200, from 1) */
#include "tests/sim/scene.h"
#include "tests/sim/seeds.h"

#include "libbus/wire/error.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SEEDS_DEFAULT = 200, WRITERS = 3, READERS = 2, VALUES_MOST = 4, RESUME_MS = 1000 };
enum { BREAKS = 40, BREAK_MS = 20 };

static const char *const writers[WRITERS] = {"alice", "bob", "carol"};
static const char *const topics[WRITERS] = {"alice/w", "bob/w", "carol/w"};
static const char *const patterns[WRITERS] = {"alice/#", "bob/#", "carol/#"};
static const char *const readers[READERS] = {"rita", "rob"};

static struct scene scene;
static struct dice dice;
static uint64_t value_count;

static uint64_t write_some(uint32_t writer, uint64_t count)
{
    char text[32];
    for (uint64_t i = 0; i < count; i++) {
        (void)snprintf(text, sizeof text, "value number %" PRIu64, ++value_count); /* it fits */
        cr_assert_eq(scene_publish(&scene, writers[writer], topics[writer], text), CODE_OK);
    }
    scene_flush(&scene, writers[writer]);
    return count;
}

static void begin(uint64_t seed)
{
    struct scene_options options;
    scene_options_init(&options);
    options.world.seed = seed;
    options.world.core.has_facts = true;
    options.world.core.resume_ms = RESUME_MS;
    dice_init(&dice, seed);
    scene_open(&scene, &options);
    for (int i = 0; i < WRITERS; i++)
        scene_join(&scene, writers[i]);
    for (int i = 0; i < READERS; i++)
        scene_join(&scene, readers[i]);
    for (int i = 0; i < READERS; i++)
        for (int writer = 0; writer < WRITERS; writer++)
            scene_subscribe(&scene, readers[i], patterns[writer]);
    for (uint32_t writer = 0; writer < WRITERS; writer++)
        (void)write_some(writer, dice_below(&dice, VALUES_MOST));
    for (int i = 0; i < READERS; i++)
        scene_flush(&scene, readers[i]);
    scene_run(&scene, 50);
}

/* Whether its session is over because the broker forgot something. */
static bool is_forgotten(const char *party)
{
    static struct error_record records[LIMIT_ERROR_RECORDS];
    struct buffer *error = NULL;
    uint32_t count = 0;
    struct session *session = world_session(scene.stage.world, scene_app(&scene, party)->host);
    bool is_it =
        session_end(session, &error) == CODE_ELOST && error != NULL &&
        error_decode(buffer_span(error), records, LIMIT_ERROR_RECORDS, &count) == WIRE_OK &&
        count > 0 && span_equal(records[0].type, span_text(ERROR_TYPE_FORGOTTEN));
    buffer_unref(&error);
    return is_it;
}

static bool was_told_the_end(const struct app *reader, uint32_t writer)
{
    for (uint32_t sub = 0; sub < APP_SUBS; sub++)
        if (reader->subs[sub] != NULL &&
            strcmp(reader->subs[sub]->patterns[0], patterns[writer]) == 0)
            return reader->subs[sub]->end_count > 0;
    return false;
}

static void check_writer(uint64_t seed, uint32_t writer, bool is_concerned)
{
    cr_assert_eq(is_forgotten(writers[writer]), is_concerned, "seed %" PRIu64 ": %s", seed,
                 writers[writer]);
    if (!is_concerned)
        cr_assert(app_is_up(scene_app(&scene, writers[writer])), "seed %" PRIu64 ": %s", seed,
                  writers[writer]);
    for (int i = 0; i < READERS; i++) {
        const struct app *reader = scene_app(&scene, readers[i]);
        cr_assert(is_forgotten(readers[i]) || was_told_the_end(reader, writer) == is_concerned,
                  "seed %" PRIu64 ": %s of %s", seed, readers[i], writers[writer]);
    }
}

/* While the next broker begins, connections break, and answers are lost with them. */
static void shake(void)
{
    for (int i = 0; i < BREAKS; i++) {
        scene_run(&scene, (int64_t)dice_below(&dice, BREAK_MS));
        scene_break(&scene, writers[dice_below(&dice, WRITERS)]);
    }
}

static uint32_t check_seed(uint64_t seed)
{
    uint64_t more[WRITERS];
    uint32_t concerned = 0;
    begin(seed);
    world_back_up(scene.stage.world);
    for (uint32_t writer = 0; writer < WRITERS; writer++)
        more[writer] = write_some(writer, dice_below(&dice, VALUES_MOST));
    scene_run(&scene, 50);
    world_restore_broker(scene.stage.world, dice_between(&dice, 0, 200 * WORLD_MS));
    if (seed % 2 == 0)
        shake();
    scene_run(&scene, 2 * RESUME_MS);
    for (uint32_t writer = 0; writer < WRITERS; writer++) {
        check_writer(seed, writer, more[writer] > 0);
        concerned += more[writer] > 0;
    }
    const char *broken = scene_close(&scene);
    cr_assert_null(broken, "seed %" PRIu64 ": %s", seed, broken);
    return concerned;
}

Test(forgotten, is_told_to_all_whom_it_concerns)
{
    uint64_t from = seeds_first();
    uint64_t count = seeds_count(SEEDS_DEFAULT);
    uint64_t concerned = 0;
    for (uint64_t seed = from; seed < from + count; seed++)
        concerned += check_seed(seed);
    cr_expect(count < SEEDS_DEFAULT || (concerned > count && concerned < WRITERS * count));
}
