/* SPDX-License-Identifier: MPL-2.0 */
/* storms_test.c -- what is alike, how much of it is told each, and what has no place of its own. */
#include "broker/core/tables/storms.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>
#include <string.h>

static struct memory memory;
static struct storms storms;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    storms_init(&storms, &memory);
}

static void fini(void)
{
    storms_fini(&storms);
    must(memory.bytes_used == 0); /* all memory is given back */
}

TestSuite(storms, .init = init, .fini = fini);

static struct storm_key key(uint32_t party, uint32_t incarnation, uint32_t topic, const char *like)
{
    return (struct storm_key){.event = STORM_SLOT_FAILED,
                              .party = party,
                              .incarnation = incarnation,
                              .topic = topic,
                              .like = span_text(like)};
}

Test(storms, are_of_one_incarnation_one_place_and_one_reason)
{
    const struct storm_key keys[] = {key(1, 1, 1, "a"), key(2, 1, 1, "a"), key(1, 2, 1, "a"),
                                     key(1, 1, 2, "a"), key(1, 1, 1, "b"), key(1, 1, 1, "")};
    struct storm *found[sizeof keys / sizeof keys[0]];
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        found[i] = storms_find(&storms, &keys[i]);
        for (size_t k = 0; k < i; k++)
            cr_assert_neq(found[i], found[k], "%zu and %zu", i, k);
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        cr_assert_eq(storms_find(&storms, &keys[i]), found[i]);
    struct storm_key refused = keys[0];
    refused.event = STORM_REFUSED;
    cr_assert_neq(storms_find(&storms, &refused), found[0]);
}

Test(storms, tell_so_many_and_hold_the_rest)
{
    struct storm_key one = key(1, 1, 1, "a");
    struct storm *storm = storms_find(&storms, &one);
    for (int i = 0; i < LIMIT_STORM_TOLD; i++)
        cr_assert(storm_tells(storm, LIMIT_STORM_TOLD), "%d", i);
    cr_assert_not(storm_tells(storm, LIMIT_STORM_TOLD));
    cr_assert_not(storm_tells(storm, LIMIT_STORM_TOLD));
    storm->is_used = false; /* it is over */
    cr_assert(storm_tells(storms_find(&storms, &one), LIMIT_STORM_TOLD));
}

Test(storms, take_what_has_no_place_for_alike)
{
    struct storm *rest = NULL;
    for (uint32_t topic = 1; topic <= LIMIT_STORMS + 2; topic++) {
        struct storm_key one = key(7, 1, topic, "a");
        struct storm *storm = storms_find(&storms, &one);
        cr_assert_eq(storm->topic, topic <= LIMIT_STORMS ? topic : 0);
        cr_assert_eq(storm->party, topic <= LIMIT_STORMS ? 7 : 0);
        if (topic > LIMIT_STORMS)
            cr_assert(rest == NULL || rest == storm);
        rest = topic > LIMIT_STORMS ? storm : NULL;
    }
    struct storm_key last = key(7, 1, LIMIT_STORMS, "a");
    cr_assert_eq(storms_find(&storms, &last)->topic, LIMIT_STORMS);
    struct storm_key refused = {.event = STORM_REFUSED, .party = 7};
    cr_assert_neq(storms_find(&storms, &refused), rest, "each kind of event has its own");
}

Test(storms, compare_long_reasons_by_what_counts)
{
    char text[LIMIT_ERROR_TYPE_BYTES + 2];
    memset(text, 'x', sizeof text);
    struct storm_key longest = key(1, 1, 1, "");
    longest.like = span_of(text, LIMIT_ERROR_TYPE_BYTES);
    struct storm *storm = storms_find(&storms, &longest);
    longest.like = span_of(text, LIMIT_ERROR_TYPE_BYTES + 1);
    cr_assert_eq(storms_find(&storms, &longest), storm);
    longest.like = span_of(text, LIMIT_ERROR_TYPE_BYTES - 1);
    cr_assert_neq(storms_find(&storms, &longest), storm);
}

Test(storms, are_none_without_memory)
{
    memory_heap_init(&memory, 100);
    struct storm_key one = key(1, 1, 1, "a");
    cr_assert_null(storms_find(&storms, &one));
    cr_assert_null(storms_at(&storms, 0));
}
