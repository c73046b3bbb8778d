/* SPDX-License-Identifier: MPL-2.0 */
/* disclosure_test.c -- what goes at each level, and what never does. */
#include "libbus/wire/disclosure.h"

#include <criterion/criterion.h>
#include <string.h>

static struct error_record whole(void)
{
    static const uint8_t trace[16] = {1};
    struct error_record record;
    error_record_init(&record);
    record.id = span_text("job/alice/1/3");
    record.job = span_text("job");
    record.attempt = 2;
    record.party = span_text("alice");
    record.incarnation = 1;
    record.kind = ERROR_APPLICATION;
    record.type = span_text("app.secret");
    record.message = span_text("a secret");
    record.stacktrace = span_text("in secret.c");
    record.code = 28;
    record.recoverable = RECOVERABLE_YES;
    record.retry_after_ms = 500;
    record.origin = ORIGIN_SYSTEM;
    record.occurred_ns = 11;
    record.uncertainty_ns = 12;
    record.wall_ns = 13;
    record.host = span_text("secret-host");
    record.pid = 14;
    record.exit_code = 3;
    record.signal = 9;
    record.topic = span_text("alice/w");
    record.seq = 15;
    record.blames = span_text("bob");
    record.trace_id = span_of(trace, sizeof trace);
    record.left_out = 16;
    record.is_cut = 1;
    record.cause_count = 1;
    record.causes[0] = 1;
    record.more_blame_count = 1;
    record.more_blames[0] = span_text("carol");
    return record;
}

static void expect_what_remains(const struct error_record *record)
{
    struct error_record all = whole();
    cr_expect(span_equal(record->id, all.id) && span_equal(record->job, all.job));
    cr_expect(span_equal(record->party, all.party) && span_equal(record->topic, all.topic));
    cr_expect(record->attempt == 2 && record->incarnation == 1 && record->kind == all.kind);
    cr_expect(record->code == 28 && record->recoverable == RECOVERABLE_YES);
    cr_expect(record->retry_after_ms == 500 && record->origin == ORIGIN_SYSTEM);
    cr_expect(record->occurred_ns == 11 && record->uncertainty_ns == 12 && record->wall_ns == 13);
    cr_expect(record->seq == 15 && record->left_out == 16);
    cr_expect(span_equal(record->blames, all.blames) && record->more_blame_count == 1);
    cr_expect(span_equal(record->more_blames[0], all.more_blames[0]));
    cr_expect(record->cause_count == 1 && record->causes[0] == 1);
}

Test(disclosure, takes_more_at_each_level)
{
    for (int level = DISCLOSURE_UNSAID; level <= DISCLOSURE_NONE; level++) {
        struct error_record record = whole();
        disclosure_apply((enum disclosure)level, &record);
        expect_what_remains(&record);
        cr_expect_eq(record.stacktrace.bytes > 0, level < DISCLOSURE_MESSAGE, "%d", level);
        bool has_message = span_equal(record.message, span_text("a secret"));
        cr_expect_eq(has_message, level < DISCLOSURE_TYPE, "%d", level);
        cr_expect_eq(record.is_cut, level < DISCLOSURE_TYPE, "%d", level);
        cr_expect_eq(record.host.bytes > 0, level < DISCLOSURE_TYPE, "%d", level);
        cr_expect_eq(record.pid, level < DISCLOSURE_TYPE ? 14 : 0, "%d", level);
        bool has_type = span_equal(record.type, span_text("app.secret"));
        cr_expect_eq(has_type, level < DISCLOSURE_NONE, "%d", level);
        cr_expect_eq(record.exit_code, level < DISCLOSURE_NONE ? 3 : -1, "%d", level);
        cr_expect_eq(record.signal, level < DISCLOSURE_NONE ? 9 : 0, "%d", level);
        cr_expect_eq(record.trace_id.bytes > 0, level < DISCLOSURE_NONE, "%d", level);
    }
}

Test(disclosure, is_that_of_the_stricter)
{
    for (int a = DISCLOSURE_UNSAID; a <= DISCLOSURE_NONE; a++)
        for (int b = DISCLOSURE_UNSAID; b <= DISCLOSURE_NONE; b++)
            cr_expect_eq(disclosure_stricter((enum disclosure)a, (enum disclosure)b),
                         a > b ? a : b);
}

/* The broker's errors about a party have even numbers; those about a job alone have no party. */
Test(disclosure, spares_what_the_bus_made)
{
    struct span alice = span_text("alice");
    cr_expect(disclosure_spares(span_text("job/alice/1/2"), alice));
    cr_expect(disclosure_spares(span_text("job/alice/1/30"), alice));
    cr_expect(disclosure_spares(span_text("job//0/1"), SPAN_NONE));
    cr_expect_not(disclosure_spares(span_text("job/alice/1/3"), alice));
    cr_expect_not(disclosure_spares(span_text("job/alice/1/29"), alice));
    cr_expect_not(disclosure_spares(span_text("job/alice/1/"), alice));
    cr_expect_not(disclosure_spares(SPAN_NONE, alice));
    cr_expect_not(disclosure_spares(SPAN_NONE, SPAN_NONE));
}
