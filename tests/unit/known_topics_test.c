/* SPDX-License-Identifier: MPL-2.0 */
/* known_topics_test.c -- names and the broker's numbers for them. */
#include "libbus/session/known_topics.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>
#include <string.h>

static struct memory memory;
static struct known_topics known;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    known_topics_init(&known, &memory);
}

static void fini(void)
{
    known_topics_fini(&known);
    must(memory.bytes_used == 0);
}

TestSuite(known_topics, .init = init, .fini = fini);

Test(known_topics, meets_names_and_numbers_in_any_order)
{
    struct known_topic *x, *again;
    char name[] = "bob/x";
    cr_assert_eq(known_topics_open(&known, span_text(name), &x), CODE_OK);
    name[4] = 'y'; /* names are copied */
    cr_assert_null(known_topics_find(&known, 5));
    cr_assert_eq(known_topics_number(&known, 5, span_text("bob/x")), CODE_OK);
    cr_assert_eq(known_topics_find(&known, 5), x);
    cr_assert_eq(known_topics_number(&known, 6, span_text(name)), CODE_OK);
    cr_assert_eq(known_topics_open(&known, span_text("bob/y"), &again), CODE_OK);
    cr_assert_eq(known_topics_find(&known, 6), again);
    cr_assert_neq(x, again);
}

Test(known_topics, refuses_another_name_for_a_number)
{
    cr_assert_eq(known_topics_number(&known, 5, span_text("bob/x")), CODE_OK);
    cr_assert_eq(known_topics_number(&known, 5, span_text("bob/x")), CODE_OK);
    cr_assert_eq(known_topics_number(&known, 5, span_text("bob/y")), CODE_EPROTO);
    cr_assert_eq(known_topics_number(&known, 0, span_text("bob/x")), CODE_EPROTO);
    cr_assert_eq(known_topics_number(&known, 6, span_text("")), CODE_EPROTO);
    cr_assert_eq(known_topics_number(&known, 6, span_text("bob/\x7f")), CODE_EPROTO);
    cr_assert_eq(known_topics_number(&known, 6, span_text("bob/\xff")), CODE_EPROTO);
    cr_assert_null(known_topics_find(&known, 6));
}

Test(known_topics, says_so_when_memory_is_short)
{
    struct known_topic *topic;
    memory.bytes_max = 0;
    cr_assert_eq(known_topics_open(&known, span_text("bob/x"), &topic), CODE_ENOMEM);
    cr_assert_eq(known_topics_number(&known, 1, span_text("bob/x")), CODE_ENOMEM);
    memory.bytes_max = UINT64_MAX;
    cr_assert_eq(known_topics_number(&known, 1, span_text("bob/x")), CODE_OK);
}
