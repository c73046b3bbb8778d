/* SPDX-License-Identifier: MPL-2.0 */
/* event_stream_test.c -- server-sent events: each once, in order, with what is missing. */
#include "clients/web/event_stream.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct history history;
static uint64_t next_id;
static uint32_t forgotten;

static void tear_down(void)
{
    history_fini(&history);
}

TestSuite(event_stream, .fini = tear_down);

static void add(uint64_t id)
{
    char text[32];
    snprintf(text, sizeof text, "{\"id\":%" PRIu64 "}\n", id);
    cr_assert(history_add(&history, id, strdup(text), strdup(text), NULL));
}

static void expect(const char *expected)
{
    char *text = event_stream_text(&history, &next_id, &forgotten);
    if (expected == NULL) {
        cr_expect_null(text, "%s", text);
    } else {
        cr_assert_not_null(text);
        cr_expect_str_eq(text, expected);
    }
    free(text);
}

Test(event_stream, tells_each_event_once)
{
    expect(NULL);
    add(1);
    add(2);
    expect("id: 1\ndata: {\"id\":1}\n\nid: 2\ndata: {\"id\":2}\n\n");
    expect(NULL);
    add(3);
    expect("id: 3\ndata: {\"id\":3}\n\n");
}

Test(event_stream, goes_on_behind_the_event_that_a_page_has)
{
    add(1);
    add(2);
    next_id = 2;
    expect("id: 2\ndata: {\"id\":2}\n\n");
    next_id = 3;
    expect(NULL);
}

Test(event_stream, says_which_events_are_missing)
{
    add(5);
    next_id = 0;
    expect("id: 5\ndata: {\"id\":5}\n\n"); /* who has none yet misses none */
    next_id = 3;
    expect("id: 4\nevent: gap\ndata: {\"first_id\":3,\"last_id\":4}\n\n"
           "id: 5\ndata: {\"id\":5}\n\n");
    add(7);
    expect("id: 6\nevent: gap\ndata: {\"first_id\":6,\"last_id\":6}\n\n"
           "id: 7\ndata: {\"id\":7}\n\n");
}

/* The tap was too slow at the end of a storm, and nothing happens for long. */
Test(event_stream, says_at_once_that_the_last_events_are_missing)
{
    add(5);
    next_id = 5;
    history_skip(&history, 9);
    expect("id: 5\ndata: {\"id\":5}\n\n"
           "id: 8\nevent: gap\ndata: {\"first_id\":6,\"last_id\":8}\n\n");
    expect(NULL);
    history_skip(&history, 7); /* it is behind that */
    expect(NULL);
    add(9);
    expect("id: 9\ndata: {\"id\":9}\n\n");
    next_id = 0;
    expect("id: 5\ndata: {\"id\":5}\n\n"
           "id: 8\nevent: gap\ndata: {\"first_id\":6,\"last_id\":8}\n\n"
           "id: 9\ndata: {\"id\":9}\n\n");
}

Test(event_stream, says_that_the_broker_forgot_events)
{
    add(5);
    next_id = 6;
    add(1);
    expect("event: reset\ndata: {}\n\nid: 1\ndata: {\"id\":1}\n\n");
    expect(NULL);
    next_id = 9; /* a page that was away all the time */
    expect("event: reset\ndata: {}\n\nid: 1\ndata: {\"id\":1}\n\n");
}

/* Another broker has no event yet: the page is told at once, and once. */
Test(event_stream, says_that_all_was_forgotten)
{
    add(5);
    next_id = 6;
    history_forget(&history);
    expect("event: reset\ndata: {}\n\n");
    expect(NULL);
    add(1);
    expect("id: 1\ndata: {\"id\":1}\n\n");
}

/* Nor does the page have the first events of the other broker. */
Test(event_stream, says_that_events_are_missing_behind_a_reset)
{
    add(5);
    next_id = 6;
    history_forget(&history);
    history_skip(&history, 4);
    expect("event: reset\ndata: {}\n\n"
           "id: 3\nevent: gap\ndata: {\"first_id\":1,\"last_id\":3}\n\n");
    expect(NULL);
}

Test(event_stream, tells_much_in_parts)
{
    enum { EVENTS = 3000 };
    size_t texts = 0;
    uint64_t before = 0;
    for (uint64_t id = 1; id <= EVENTS; id++) {
        add(id);
    }
    for (char *text; (text = event_stream_text(&history, &next_id, &forgotten)) != NULL; texts++) {
        cr_expect_lt(strlen(text), 4 * EVENT_STREAM_TEXT_BYTES);
        cr_expect_gt(next_id, before);
        before = next_id;
        free(text);
    }
    cr_expect_gt(texts, 1);
    cr_expect_eq(next_id, EVENTS + 1);
}
