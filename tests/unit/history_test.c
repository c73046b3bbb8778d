/* SPDX-License-Identifier: MPL-2.0 */
/* history_test.c -- the newest events of a job: limits, ids that are missing, ids that fall. */
#include "clients/web/history.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct history history;

static void tear_down(void)
{
    history_fini(&history);
}

TestSuite(history, .fini = tear_down);

static void add(uint64_t id)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64 "\n", id);
    cr_assert(history_add(&history, id, strdup(text), strdup(text), NULL));
}

static uint64_t found(uint64_t id)
{
    const struct history_event *event = history_find(&history, id);
    return event != NULL ? event->id : 0;
}

Test(history, finds_the_first_event_from_an_id_on)
{
    cr_expect_eq(found(0), 0, "it is empty");
    cr_expect_eq(history_newest(&history, 5), 0);
    add(3);
    add(4);
    add(9);
    cr_expect_eq(found(0), 3);
    cr_expect_eq(found(3), 3);
    cr_expect_eq(found(4), 4);
    cr_expect_eq(found(5), 9, "5 to 8 are missing");
    cr_expect_eq(found(10), 0, "there is none yet");
    cr_expect_eq(history_newest(&history, 2), 4);
    cr_expect_eq(history_newest(&history, 3), 3);
    cr_expect_eq(history_newest(&history, 4), 3);
    cr_expect_str_eq(history_at(&history, 2)->whole, "9\n");
}

Test(history, keeps_so_many_events)
{
    for (uint64_t id = 1; id <= HISTORY_EVENTS_MAX - 1; id++) {
        add(id);
    }
    cr_expect_eq(history.count, HISTORY_EVENTS_MAX - 1);
    add(HISTORY_EVENTS_MAX);
    cr_expect_eq(history.count, HISTORY_EVENTS_MAX);
    cr_expect_eq(found(0), 1);
    add(HISTORY_EVENTS_MAX + 1);
    cr_expect_eq(history.count, HISTORY_EVENTS_MAX);
    cr_expect_eq(found(0), 2, "the oldest went");
    cr_expect_eq(found(HISTORY_EVENTS_MAX + 1), HISTORY_EVENTS_MAX + 1);
}

static char *text_of(size_t bytes)
{
    char *text = calloc(1, bytes + 1);
    memset(text, 'x', bytes);
    return text;
}

Test(history, keeps_so_many_bytes)
{
    enum { HALF = HISTORY_BYTES_MAX / 2 };
    cr_assert(history_add(&history, 1, text_of(HALF - 8), text_of(8), NULL));
    cr_assert(history_add(&history, 2, text_of(HALF - 8), text_of(8), NULL));
    cr_expect_eq(history.count, 2, "they fill it");
    cr_expect_eq(history.bytes, HISTORY_BYTES_MAX);
    cr_assert(history_add(&history, 3, text_of(0), text_of(1), NULL));
    cr_expect_eq(history.count, 2);
    cr_expect_eq(found(0), 2);
    cr_assert(history_add(&history, 4, text_of(HISTORY_BYTES_MAX), text_of(8), NULL));
    cr_expect_eq(history.count, 1, "the newest stays, whatever its size");
    cr_expect_eq(found(0), 4);
}

Test(history, begins_again_when_an_id_does_not_rise)
{
    add(5);
    add(6);
    cr_expect_eq(history.forgotten, 0);
    add(6);
    cr_expect_eq(history.forgotten, 1);
    cr_expect_eq(history.count, 1);
    add(1);
    cr_expect_eq(history.forgotten, 2);
    cr_expect_eq(found(0), 1);
    cr_expect_eq(history.next_id, 2);
}

Test(history, forgets_all_when_it_is_told_to)
{
    add(5);
    history_forget(&history);
    cr_expect_eq(history.forgotten, 1);
    cr_expect_eq(history.count, 0);
    cr_expect_eq(history.bytes, 0);
    add(1);
    cr_expect_eq(history.forgotten, 1, "ids begin anew");
    cr_expect_eq(found(0), 1);
}

Test(history, takes_no_event_without_text)
{
    add(1);
    cr_expect_not(history_add(&history, 2, NULL, strdup("x"), NULL));
    cr_expect_not(history_add(&history, 2, strdup("x"), NULL, NULL));
    cr_expect_eq(history.count, 1);
    cr_expect_eq(history.next_id, 2, "readers see that 2 is missing when 3 comes");
}
