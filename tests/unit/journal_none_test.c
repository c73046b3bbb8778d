/* SPDX-License-Identifier: MPL-2.0 */
/* journal_none_test.c -- the journal that keeps nothing, and keeps to the rules all the same. */
#include "broker/journal/journal.h"

#include <criterion/criterion.h>

Test(journal_none, is_the_only_making)
{
    struct journal *journal = NULL;
    cr_expect_eq(journal_open("/var/lib/errbus", &journal), JOURNAL_MAKING);
    cr_expect_eq(journal_open("", &journal), JOURNAL_MAKING);
    cr_expect_eq(journal_open("nonesuch", &journal), JOURNAL_MAKING);
    cr_expect_null(journal);
    cr_expect_not_null(journal_strerror(JOURNAL_MAKING));
    cr_expect_eq(journal_open("none", &journal), JOURNAL_OK);
    journal_close(&journal);
    cr_expect_null(journal);
}

Test(journal_none, counts_positions_and_keeps_no_record)
{
    struct journal *journal = NULL;
    struct span records[2] = {span_text("a"), span_text("b")};
    struct span record;
    cr_assert_eq(journal_open("none", &journal), JOURNAL_OK);
    uint64_t lease = journal_lease(journal);
    cr_expect_eq(journal_next(journal), 0);
    cr_expect_eq(journal_append(journal, lease, 0, records, 2), JOURNAL_OK);
    cr_expect_eq(journal_next(journal), 2);
    cr_expect_eq(journal_first(journal), 2);
    for (uint64_t at = 0; at < 4; at++)
        cr_expect_eq(journal_read(journal, at, &record), JOURNAL_END);
    journal_trim(journal, 1);
    cr_expect_eq(journal_next(journal), 2);
    journal_close(&journal);
}

Test(journal_none, refuses_a_wrong_position_and_another_lease)
{
    struct journal *journal = NULL;
    struct span record = span_text("a");
    cr_assert_eq(journal_open("none", &journal), JOURNAL_OK);
    uint64_t lease = journal_lease(journal);
    cr_expect_eq(journal_append(journal, lease, 1, &record, 1), JOURNAL_POSITION);
    cr_expect_eq(journal_append(journal, lease - 1, 0, &record, 1), JOURNAL_FENCED);
    cr_expect_eq(journal_append(journal, lease + 1, 0, &record, 1), JOURNAL_FENCED);
    cr_expect_eq(journal_next(journal), 0);
    cr_expect_eq(journal_append(journal, lease, 0, &record, 1), JOURNAL_OK);
    cr_expect_eq(journal_append(journal, lease, 0, &record, 1), JOURNAL_POSITION);
    journal_close(&journal);
}
