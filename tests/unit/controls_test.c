/* SPDX-License-Identifier: MPL-2.0 */
/* controls_test.c -- numbered messages: order, answers, saying again. */
#include "libbus/session/controls.h"

#include "libbus/base/limits.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>

static struct memory memory;
static struct controls controls;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    controls_init(&controls, &memory);
}

static void fini(void)
{
    controls_fini(&controls);
    must(memory.bytes_used == 0);
}

TestSuite(controls, .init = init, .fini = fini);

static void append(bool is_question)
{
    struct control *control = control_new(&memory, 4);
    control->bytes = 1;
    control->is_question = is_question;
    controls_append(&controls, &control, 0);
    cr_assert_null(control);
}

/* Of so many bytes, which nobody reads. */
static void append_bytes(size_t bytes)
{
    struct control *control = control_new(&memory, 4);
    control->bytes = 4;
    controls_append(&controls, &control, 0);
    controls.newest->end += bytes - 4;
    controls.end += bytes - 4;
}

static void expect_next(uint64_t number)
{
    struct control *control = controls_next(&controls);
    cr_assert_not_null(control);
    cr_assert_eq(control->number, number, "%llu", (unsigned long long)control->number);
    controls_sent(&controls);
}

Test(controls, numbers_and_sends_in_order)
{
    cr_assert_null(controls_next(&controls));
    for (int i = 0; i < 3; i++)
        append(false);
    cr_assert_eq(controls.last, 3);
    expect_next(1);
    append(false);
    for (uint64_t number = 2; number <= 4; number++)
        expect_next(number);
    cr_assert_null(controls_next(&controls));
    cr_assert_not(controls_accept(&controls, 5));
    cr_assert(controls_accept(&controls, 2));
    controls_rewind(&controls);
    expect_next(3);
    expect_next(4);
    cr_assert(controls_accept(&controls, 4));
    cr_assert(controls_accept(&controls, 1)); /* an old answer */
    cr_assert_eq(controls.accepted, 4);
    controls_rewind(&controls);
    cr_assert_null(controls_next(&controls));
}

Test(controls, keeps_questions_until_they_are_answered)
{
    append(true);
    append(false);
    append(true);
    for (uint64_t number = 1; number <= 3; number++)
        expect_next(number);
    cr_assert(controls_accept(&controls, 3));
    controls_rewind(&controls);
    for (uint64_t number = 1; number <= 3; number++) /* 2 is said again along with them */
        expect_next(number);
    controls_answer(&controls, 3);
    controls_answer(&controls, 77);
    controls_rewind(&controls);
    expect_next(1);
    controls_answer(&controls, 1);
    cr_assert_null(controls_next(&controls));
    cr_assert_null(controls.first);
}

Test(controls, keeps_an_answered_question_until_it_is_accepted)
{
    append(true);
    expect_next(1);
    controls_answer(&controls, 1);
    controls_rewind(&controls);
    expect_next(1);
    cr_assert(controls_accept(&controls, 1));
    cr_assert_null(controls.first);
}

Test(controls, does_not_drown_the_broker)
{
    for (uint64_t i = 0; i < LIMIT_PARKED_OPS; i++)
        append(false);
    for (uint64_t number = 1; number <= LIMIT_PARKED_OPS / 2; number++)
        expect_next(number);
    cr_assert_null(controls_next(&controls));
    cr_assert(controls_accept(&controls, 1));
    expect_next(LIMIT_PARKED_OPS / 2 + 1);
    cr_assert_null(controls_next(&controls));
}

/* Of these n are under way, one byte less, and one more: the first goes alone. */
Test(controls, does_not_drown_the_broker_in_bytes)
{
    const size_t most = LIMIT_PARKED_BYTES / 4;
    for (size_t spare = 0; spare <= 2; spare++) {
        uint64_t first = controls.last + 1;
        append_bytes(most - 10);
        append_bytes(9 + spare);
        expect_next(first);
        cr_assert_eq(controls_next(&controls) == NULL, spare == 2);
        cr_assert(controls_accept(&controls, first));
        expect_next(first + 1);
        cr_assert(controls_accept(&controls, first + 1));
    }
    append_bytes(2 * most);
    expect_next(7);
    append_bytes(1);
    cr_assert_null(controls_next(&controls));
    controls_rewind(&controls);
    expect_next(7);
    cr_assert_null(controls_next(&controls));
}

/* A question that waits for its answer is kept, and weighs nothing once it is accepted. */
Test(controls, counts_no_bytes_that_are_accepted)
{
    append(true);
    expect_next(1);
    cr_assert(controls_accept(&controls, 1));
    append_bytes(LIMIT_PARKED_BYTES / 4 - 1);
    append(false);
    append(false);
    expect_next(2);
    expect_next(3);
    cr_assert_null(controls_next(&controls));
    controls_answer(&controls, 1);
    cr_assert(controls_accept(&controls, 2));
    expect_next(4);
}

Test(controls, hurries)
{
    struct control *control = control_new(&memory, 4);
    control->bytes = 4;
    controls_append(&controls, &control, 9);
    cr_assert_eq(controls_next(&controls)->after_upload, 9);
    controls_hurry(&controls);
    cr_assert_eq(controls_next(&controls)->after_upload, 0);
    control = NULL;
    control_free(&memory, &control);
    memory.bytes_max = memory.bytes_used;
    cr_assert_null(control_new(&memory, 4));
}
