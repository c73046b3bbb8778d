/* SPDX-License-Identifier: MPL-2.0 */
/* event_warnings_test.c -- which warnings about lost parties are lines, and which are summed. */
#include "broker/io/event_warnings.h"

#include "libbus/base/limits.h"
#include "libbus/wire/error.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define MS INT64_C(1000000)
#define BEGIN_NS (INT64_C(5000) * MS)
#define PERIOD_NS (LIMIT_EVENT_WARNINGS_MS * MS)

static struct event_warnings warnings;
static char text[EVENT_WARNINGS_TEXT_BYTES];

static void set_up(void)
{
    event_warnings_init(&warnings, BEGIN_NS);
}

TestSuite(event_warnings, .init = set_up);

static bool take(const char *name, unsigned number, int64_t now_ns)
{
    char line[128];
    snprintf(line, sizeof line, "%s job/p/%u: gone", name, number);
    return event_warnings_take(&warnings, span_text(name), line, now_ns);
}

/* So many, from the first one on, are lines. */
static void expect_lines(const char *name, unsigned first, unsigned count, int64_t now_ns)
{
    for (unsigned i = 0; i < count; i++)
        cr_expect(take(name, first + i, now_ns), "%s %u", name, first + i);
}

static void expect_nothing_to_sum(int64_t now_ns, bool is_end)
{
    cr_expect_null(event_warnings_next(&warnings, now_ns, is_end, text), "%s", text);
}

Test(event_warnings, are_lines_up_to_the_limit)
{
    expect_lines(EVENT_PARTY_LOST, 1, LIMIT_EVENT_WARNINGS - 1, BEGIN_NS);
    cr_expect_eq(event_warnings_due_ns(&warnings), INT64_MAX);
    cr_expect(take(EVENT_PARTY_LOST, LIMIT_EVENT_WARNINGS, BEGIN_NS));
    cr_expect_eq(event_warnings_due_ns(&warnings), INT64_MAX);
    expect_nothing_to_sum(BEGIN_NS + 2 * PERIOD_NS, true);
    cr_expect_not(take(EVENT_PARTY_LOST, LIMIT_EVENT_WARNINGS + 1, BEGIN_NS));
    cr_expect_eq(event_warnings_due_ns(&warnings), BEGIN_NS + PERIOD_NS);
}

Test(event_warnings, are_summed_beyond_it_when_their_time_has_come)
{
    expect_lines(EVENT_PARTY_LOST, 1, LIMIT_EVENT_WARNINGS, BEGIN_NS);
    cr_expect_not(take(EVENT_PARTY_LOST, 65, BEGIN_NS + 1));
    cr_expect_not(take(EVENT_PARTY_LOST, 66, BEGIN_NS + 2));
    cr_expect_eq(event_warnings_due_ns(&warnings), BEGIN_NS + 1 + PERIOD_NS);
    expect_nothing_to_sum(BEGIN_NS + PERIOD_NS, false);
    cr_expect_str_eq(event_warnings_next(&warnings, BEGIN_NS + 1 + PERIOD_NS, false, text),
                     EVENT_PARTY_LOST);
    cr_expect_str_eq(text, "party.lost: 2 more within 10 s ('errbus tap' tells of each), the last "
                           "one: job/p/66: gone");
    cr_expect_eq(event_warnings_due_ns(&warnings), INT64_MAX);
    expect_nothing_to_sum(BEGIN_NS + 2 * PERIOD_NS, true);
}

Test(event_warnings, are_lines_again_one_a_second)
{
    expect_lines(EVENT_PARTY_LOST, 1, LIMIT_EVENT_WARNINGS, BEGIN_NS);
    cr_expect_not(take(EVENT_PARTY_LOST, 65, BEGIN_NS + 1000 * MS - 1));
    cr_expect(take(EVENT_PARTY_LOST, 66, BEGIN_NS + 1000 * MS));
    cr_expect_not(take(EVENT_PARTY_LOST, 67, BEGIN_NS + 1000 * MS));
    int64_t later_ns = BEGIN_NS + 1000 * MS * (LIMIT_EVENT_WARNINGS + 1);
    expect_lines(EVENT_PARTY_LOST, 68, LIMIT_EVENT_WARNINGS, later_ns);
    cr_expect_not(take(EVENT_PARTY_LOST, 200, later_ns));
}

Test(event_warnings, have_a_limit_for_each_kind_of_event)
{
    expect_lines(EVENT_PARTY_LOST, 1, LIMIT_EVENT_WARNINGS, BEGIN_NS);
    cr_expect_not(take(EVENT_PARTY_LOST, 65, BEGIN_NS));
    expect_lines(EVENT_BROKER_FORGOT, 1, LIMIT_EVENT_WARNINGS, BEGIN_NS);
    cr_expect_not(take(EVENT_BROKER_FORGOT, 65, BEGIN_NS + 3 * MS));
    cr_expect_eq(event_warnings_due_ns(&warnings), BEGIN_NS + PERIOD_NS);
    expect_lines(EVENT_REFUSED, 1, 2 * LIMIT_EVENT_WARNINGS, BEGIN_NS); /* the core bounds these */
    cr_expect_str_eq(event_warnings_next(&warnings, BEGIN_NS + 4 * MS, true, text),
                     EVENT_PARTY_LOST);
    cr_expect_str_eq(event_warnings_next(&warnings, BEGIN_NS + 4 * MS, true, text),
                     EVENT_BROKER_FORGOT);
    cr_expect_str_eq(text, "broker.forgot: 1 more within 1 s ('errbus tap' tells of each), the "
                           "last one: job/p/65: gone");
    expect_nothing_to_sum(BEGIN_NS + 4 * MS, true);
}

Test(event_warnings, have_lines_as_long_as_an_event_may_be)
{
    char line[EVENT_WARNINGS_LAST_BYTES];
    memset(line, 'z', sizeof line);
    memcpy(line, "party.lost ", strlen("party.lost "));
    line[sizeof line - 1] = '\0';
    expect_lines(EVENT_PARTY_LOST, 1, LIMIT_EVENT_WARNINGS, BEGIN_NS);
    cr_expect_not(event_warnings_take(&warnings, span_text(EVENT_PARTY_LOST), line, BEGIN_NS));
    cr_assert_not_null(event_warnings_next(&warnings, BEGIN_NS, true, text));
    cr_expect_str_eq(strstr(text, "zzz"), line + strlen("party.lost "));
}
