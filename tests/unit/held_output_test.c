/* SPDX-License-Identifier: MPL-2.0 */
/* held_output_test.c -- parts wait for their ticket, in order, each stage by itself. */
#include "broker/io/held_output.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>

static struct memory memory;
static struct held_output output;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    held_output_init(&output, &memory);
}

static void fini(void)
{
    held_output_fini(&output);
    must(memory.bytes_used == 0);
}

TestSuite(held_output, .init = init, .fini = fini);

static void push(enum held_output_stage stage, uint64_t ticket, conn_id conn)
{
    struct held held = {.ticket = ticket, .conn = conn, .part = buffer_copy(span_text("part"))};
    held_output_push(&output, stage, &held);
}

static void expect(enum held_output_stage stage, uint64_t reached, conn_id conn)
{
    struct held held;
    cr_assert(held_output_pop(&output, stage, reached, &held));
    cr_assert_eq(held.conn, conn);
    buffer_unref(&held.part);
}

static void expect_none(enum held_output_stage stage, uint64_t reached)
{
    struct held held;
    cr_assert_not(held_output_pop(&output, stage, reached, &held));
}

Test(held_output, gives_what_has_reached_its_ticket)
{
    cr_assert(held_output_is_empty(&output, HELD_OUTCOMES));
    push(HELD_OUTCOMES, 3, 1);
    push(HELD_OUTCOMES, 3, 2);
    push(HELD_OUTCOMES, 5, 3);
    cr_assert_not(held_output_is_empty(&output, HELD_OUTCOMES));
    expect_none(HELD_OUTCOMES, 2);
    expect(HELD_OUTCOMES, 3, 1);
    expect(HELD_OUTCOMES, 4, 2);
    expect_none(HELD_OUTCOMES, 4);
    expect(HELD_OUTCOMES, 9, 3);
    cr_assert(held_output_is_empty(&output, HELD_OUTCOMES));
}

Test(held_output, keeps_its_stages_apart)
{
    push(HELD_ANSWERS, 1, 1);
    push(HELD_OUTCOMES, 2, 2);
    expect_none(HELD_ANSWERS, 0);
    expect(HELD_OUTCOMES, 2, 2);
    expect(HELD_ANSWERS, 1, 1);
}

Test(held_output, keeps_order_however_much_waits)
{
    uint64_t next = 1;
    for (uint64_t ticket = 1; ticket <= 1000; ticket++) {
        push(HELD_OUTCOMES, ticket, (conn_id)ticket);
        if (ticket % 3 == 0) {
            expect(HELD_OUTCOMES, ticket, (conn_id)next);
            next += 1;
        }
    }
    for (; next <= 1000; next++)
        expect(HELD_OUTCOMES, 1000, (conn_id)next);
    push(HELD_OUTCOMES, 1001, 1); /* what is left is freed by fini */
}

Test(held_output, drops_what_waits_for_a_connection)
{
    for (conn_id conn = 1; conn <= 200; conn++)
        push(HELD_OUTCOMES, conn, conn % 3);
    push(HELD_ANSWERS, 1, 1);
    held_output_drop(&output, HELD_OUTCOMES, 1);
    for (conn_id conn = 1; conn <= 200; conn++)
        if (conn % 3 != 1)
            expect(HELD_OUTCOMES, conn, conn % 3);
    expect_none(HELD_OUTCOMES, UINT64_MAX);
    expect(HELD_ANSWERS, 1, 1);
}
