/* SPDX-License-Identifier: MPL-2.0 */
/* durability_test.c -- what each level promises, kind by kind. */
#include "broker/io/durability.h"

#include <criterion/criterion.h>

/* By level: outcomes, answers, WELCOME, conclusions. */
static const enum durability_wait expected[DURABILITY_COUNT][4] = {
    [DURABILITY_MEMORY] = {WAIT_FOR_NOTHING, WAIT_FOR_NOTHING, WAIT_FOR_NOTHING, WAIT_FOR_NOTHING},
    [DURABILITY_PROCESS] = {WAIT_FOR_LOG, WAIT_FOR_LOG, WAIT_FOR_LOG, WAIT_FOR_NOTHING},
    [DURABILITY_DISK] = {WAIT_FOR_LOG, WAIT_FOR_DISK, WAIT_FOR_DISK, WAIT_FOR_NOTHING},
    [DURABILITY_SHARED] = {WAIT_FOR_DISK, WAIT_FOR_DISK, WAIT_FOR_NEXT_SYNC, WAIT_FOR_NEXT_SYNC},
};

Test(durability, says_what_each_kind_of_output_waits_for)
{
    for (int level = 0; level < DURABILITY_COUNT; level++) {
        enum durability at = (enum durability)level;
        cr_expect_eq(durability_wait(at, CORE_PORT_NEWS), WAIT_FOR_NOTHING, "%d", level);
        cr_expect_eq(durability_wait(at, CORE_PORT_OUTCOME), expected[level][0], "%d", level);
        cr_expect_eq(durability_wait(at, CORE_PORT_ANSWER), expected[level][1], "%d", level);
        cr_expect_eq(durability_wait(at, CORE_PORT_WELCOME), expected[level][2], "%d", level);
        cr_expect_eq(durability_wait(at, CORE_PORT_CONCLUSION), expected[level][3], "%d", level);
        cr_expect_eq(durability_syncs(at), level >= DURABILITY_DISK, "%d", level);
        cr_expect_eq(durability_named(durability_name(at)), at);
    }
    cr_expect_eq(durability_named("hope"), DURABILITY_COUNT);
    cr_expect_eq(durability_named(""), DURABILITY_COUNT);
}

/* A window is not full of frames that wait for the disk. */
Test(durability, tells_the_core_whether_frames_are_held)
{
    for (int level = 0; level < DURABILITY_COUNT; level++) {
        struct core_options options = {.durability = UINT8_MAX};
        durability_tell((enum durability)level, &options);
        cr_expect_eq(options.durability, level);
        cr_expect_eq(options.holds_outcomes, level == DURABILITY_SHARED, "%d", level);
    }
}
