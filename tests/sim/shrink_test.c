/* SPDX-License-Identifier: MPL-2.0 */
/* shrink_test.c -- what makes failing runs short (shrink.h, trial.h), tried where it is known what
 * has to be left. */
#include "tests/sim/trial.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOMENTS = 1000, PLANTED_MOMENTS_MAX = 8, PLANTED_SEEDS = 12 };

/* ---- leaving out, with a run that is none ---------------------------------------------------- */

static const uint64_t needed[] = {3, 500, 501, 998};
#define NEEDED (sizeof needed / sizeof needed[0])

static bool has_all_needed(void *arg, const struct script *script, unsigned eases)
{
    size_t found = 0;
    (void)arg;
    for (uint32_t i = 0; i < script->count && found < NEEDED; i++)
        found += script->moments[i].value == needed[found];
    return found == NEEDED && (eases & 2) == 0; /* the second ease takes the failure away */
}

static void fill(struct script *script)
{
    *script = (struct script){0};
    for (uint64_t i = 0; i < MOMENTS; i++)
        script_add(script, (struct script_moment){.at_ns = (int64_t)i,
                                                  .what = (uint32_t)(i % 5),
                                                  .who = (uint32_t)(i % 7),
                                                  .value = i});
}

Test(shrink, leaves_what_is_needed_and_nothing_else)
{
    struct script script;
    fill(&script);
    struct shrink shrink = {.script = &script, .fails = has_all_needed};
    shrink_run(&shrink, 3);
    cr_assert_eq(script.count, NEEDED);
    for (size_t i = 0; i < NEEDED; i++)
        cr_expect_eq(script.moments[i].value, needed[i]);
    cr_expect_eq(shrink.eases, 1u | 4u);
    cr_expect_lt(shrink.runs, SHRINK_RUNS_MAX);
    script_fini(&script);
}

static bool never_fails(void *arg, const struct script *script, unsigned eases)
{
    (void)arg;
    (void)script;
    (void)eases;
    return false;
}

Test(shrink, leaves_all_where_nothing_can_be_left_out)
{
    struct script script;
    fill(&script);
    struct shrink shrink = {.script = &script, .fails = never_fails};
    shrink_run(&shrink, 3);
    cr_expect_eq(script.count, MOMENTS);
    cr_expect_eq(shrink.eases, 0);
    script_fini(&script);
}

/* ---- a seed, recorded and played again ------------------------------------------------------- */

/* To the part, unless two things were due in the very same nanosecond: a script does not keep which
 * of them came first. */
Test(shrink, plays_again_what_was_recorded)
{
    enum { SEEDS = 20 };
    unsigned same = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct script script = {0};
        struct swarm_report first, second;
        swarm_run(seed, &(const struct swarm_options){.recorded = &script}, &first);
        swarm_run(seed, &(const struct swarm_options){.replayed = &script}, &second);
        same += first.digest == second.digest;
        cr_expect_gt(script.count, 20);
        script_fini(&script);
    }
    cr_expect_geq(same, SEEDS * 9 / 10);
}

/* ---- the whole way --------------------------------------------------------------------------- */

/* Somebody takes something back: that takes a process, something written, and the retraction. */
Test(shrink, tells_a_planted_failure_in_a_few_lines)
{
    uint32_t failing = 0;
    for (uint64_t seed = 1; seed <= PLANTED_SEEDS; seed++) {
        struct trial trial;
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = tmpfile();
        cr_assert_not_null(out);
        if (trial_open(&trial, seed, true)) {
            trial_shorten(&trial, out);
            cr_expect_leq(trial.script.count, PLANTED_MOMENTS_MAX, "seed %u", (unsigned)seed);
            cr_assert_eq(fseek(out, 0, SEEK_SET), 0);
            bytes = 65536;
            text = calloc(1, bytes);
            cr_assert_not_null(text);
            cr_assert_gt(fread(text, 1, bytes - 1, out), 0);
            cr_expect_not_null(strstr(text, " retracts\n"), "%s", text);
            cr_expect_not_null(strstr(text, "in the end: planted: "), "%s", text);
            free(text);
            failing += 1;
        }
        trial_close(&trial);
        (void)fclose(out); /* nothing of it is needed */
    }
    cr_expect_gt(failing, PLANTED_SEEDS / 3);
}
