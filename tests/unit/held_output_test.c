/* SPDX-License-Identifier: MPL-2.0 */
/* held_output_test.c -- parts wait for their ticket, in order, each stage by itself. */
#include "broker/io/held_output.h"

#include <criterion/criterion.h>

static struct memory memory;
static struct hold hold;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    hold_init(&hold, &memory);
}

static void fini(void)
{
    hold_fini(&hold);
    cr_assert_eq(memory.bytes_used, 0);
}

TestSuite(held_output, .init = init, .fini = fini);

static void push(enum hold_stage stage, uint64_t ticket, conn_id conn)
{
    struct held held = {.ticket = ticket, .conn = conn, .part = buffer_copy(span_text("part"))};
    hold_push(&hold, stage, &held);
}

static void expect(enum hold_stage stage, uint64_t reached, conn_id conn)
{
    struct held held;
    cr_assert(hold_pop(&hold, stage, reached, &held));
    cr_assert_eq(held.conn, conn);
    buffer_unref(&held.part);
}

static void expect_none(enum hold_stage stage, uint64_t reached)
{
    struct held held;
    cr_assert_not(hold_pop(&hold, stage, reached, &held));
}

Test(held_output, gives_what_has_reached_its_ticket)
{
    cr_assert(hold_is_empty(&hold, HOLD_OUTCOMES));
    push(HOLD_OUTCOMES, 3, 1);
    push(HOLD_OUTCOMES, 3, 2);
    push(HOLD_OUTCOMES, 5, 3);
    cr_assert_not(hold_is_empty(&hold, HOLD_OUTCOMES));
    expect_none(HOLD_OUTCOMES, 2);
    expect(HOLD_OUTCOMES, 3, 1);
    expect(HOLD_OUTCOMES, 4, 2);
    expect_none(HOLD_OUTCOMES, 4);
    expect(HOLD_OUTCOMES, 9, 3);
    cr_assert(hold_is_empty(&hold, HOLD_OUTCOMES));
}

Test(held_output, keeps_its_stages_apart)
{
    push(HOLD_ANSWERS, 1, 1);
    push(HOLD_OUTCOMES, 2, 2);
    expect_none(HOLD_ANSWERS, 0);
    expect(HOLD_OUTCOMES, 2, 2);
    expect(HOLD_ANSWERS, 1, 1);
}

Test(held_output, keeps_order_however_much_waits)
{
    uint64_t next = 1;
    for (uint64_t ticket = 1; ticket <= 1000; ticket++) {
        push(HOLD_OUTCOMES, ticket, (conn_id)ticket);
        if (ticket % 3 == 0) {
            expect(HOLD_OUTCOMES, ticket, (conn_id)next);
            next += 1;
        }
    }
    for (; next <= 1000; next++)
        expect(HOLD_OUTCOMES, 1000, (conn_id)next);
    push(HOLD_OUTCOMES, 1001, 1); /* what is left is freed by fini */
}

Test(held_output, drops_what_waits_for_a_connection)
{
    for (conn_id conn = 1; conn <= 200; conn++)
        push(HOLD_OUTCOMES, conn, conn % 3);
    push(HOLD_ANSWERS, 1, 1);
    hold_drop(&hold, HOLD_OUTCOMES, 1);
    for (conn_id conn = 1; conn <= 200; conn++)
        if (conn % 3 != 1)
            expect(HOLD_OUTCOMES, conn, conn % 3);
    expect_none(HOLD_OUTCOMES, UINT64_MAX);
    expect(HOLD_ANSWERS, 1, 1);
}
