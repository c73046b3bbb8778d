/* SPDX-License-Identifier: MPL-2.0 */
/* play.h -- for tests: what the simulations of one subject have in common, which play one seed
 * after another, each in a world of its own. */
#ifndef SIM_PLAY_H
#define SIM_PLAY_H

#include "tests/sim/seeds.h"
#include "tests/sim/world.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>

/* A world with facts and a patient broker, in which a part takes so long at the most. */
static inline struct world_options play_options(uint64_t seed, int64_t control_ms, int64_t data_ms)
{
    struct world_options options;
    world_options_init(&options);
    options.seed = seed;
    options.core.has_facts = true;
    options.core.linger_ms = 3600000;
    options.delay_most_ns[CHANNEL_CONTROL] = control_ms * WORLD_MS;
    options.delay_most_ns[CHANNEL_DATA] = data_ms * WORLD_MS;
    options.check_every = 20;
    options.trace = getenv("ERRBUS_SIM_TRACE") != NULL ? stderr : NULL;
    return options;
}

enum { PLAY_TRIES = 10 };

/* Starts an observer, asks, and returns the code.  The host has time to greet, and as much again
 * for the answer.  A link that is silent for longer than two beats is dialled anew: more time. */
static inline uint64_t play_ask_of_job(struct world *world, uint32_t host, int64_t time_ms,
                                       const struct msg *question)
{
    struct msg answer;
    world_start(world, host);
    struct session *session = world_session(world, host);
    int tries = 0;
    do
        world_run(world, world_now_ns(world) + time_ms * WORLD_MS);
    while (session_state(session) != SESSION_UP && ++tries < PLAY_TRIES);
    cr_assert_eq(session_state(session), SESSION_UP);
    session_ask(session, question);
    world_pump(world, host);
    bool is_answered = false;
    for (tries = 0; tries < PLAY_TRIES && !is_answered; tries++) {
        world_run(world, world_now_ns(world) + time_ms * WORLD_MS);
        is_answered = session_answer_take(session, &answer);
    }
    cr_assert(is_answered);
    return answer.as.job_done.code;
}

static inline void play_create_job(struct world *world, uint32_t host, int64_t time_ms,
                                   struct msg_job_create job)
{
    const struct msg create = {.type = MSG_JOB_CREATE, .as.job_create = job};
    cr_assert_eq(play_ask_of_job(world, host, time_ms, &create), CODE_OK);
}

/* Gives take() all that is there for a subscription; 0: there is none. */
static inline void play_read_all(struct world *world, uint32_t host, const uint32_t *sub,
                                 void (*take)(uint32_t host, const struct session_item *item))
{
    struct session_item item;
    struct session *session = world_session(world, host);
    while (*sub != 0 && session_sub_take(session, *sub, &item, NULL) == CODE_OK) {
        take(host, &item);
        buffer_unref(&item.buffer);
    }
}

/* No promise was broken.  Otherwise the test ends here: other seeds would say the same. */
static inline void play_end(struct world **world, uint64_t seed)
{
    const char *violation = world_violation(*world);
    cr_assert_null(violation, "seed %" PRIu64 ": %s", seed, violation);
    world_kill_all(*world);
    world_close(*world);
    world_free(world);
}

#endif
