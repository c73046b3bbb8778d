/* SPDX-License-Identifier: MPL-2.0 */
/* journal_none_test.c -- the journal that keeps nothing, and keeps to the rules all the same. */
#include "broker/journal/journal.h"

#include <criterion/criterion.h>

static struct journal *must_open(void)
{
    struct journal *journal = NULL;
    struct journal_options options = {.may_create = true};
    struct journal_opened opened;
    char complaint[JOURNAL_COMPLAINT_BYTES];
    cr_assert_eq(journal_open("none", &options, &journal, &opened, complaint), JOURNAL_OK);
    cr_expect(opened.is_new);
    cr_expect_str_eq(opened.cut, "");
    return journal;
}

Test(journal_none, is_asked_for_by_its_name)
{
    struct journal *journal = NULL;
    struct journal_options options = {.may_create = false};
    struct journal_opened opened;
    char complaint[JOURNAL_COMPLAINT_BYTES] = "";
    cr_expect_eq(journal_open("", &options, &journal, &opened, complaint), JOURNAL_MAKING);
    cr_expect(strstr(complaint, "'none'") != NULL);
    cr_expect_null(journal);
    journal = must_open();
    journal_close(&journal);
    cr_expect_null(journal);
    journal_close(&journal);
}

Test(journal_none, has_a_word_for_every_code)
{
    for (enum journal_err err = JOURNAL_OK; err <= JOURNAL_MISSING; err++)
        cr_expect_str_neq(journal_strerror(err), "no such code");
    cr_expect_str_eq(journal_strerror((enum journal_err)(JOURNAL_MISSING + 1)), "no such code");
}

Test(journal_none, counts_positions_and_keeps_no_record)
{
    struct journal_record records[2] = {{1, span_text("a")}, {2, span_text("b")}};
    struct journal_found found;
    uint64_t at[2] = {9, 9};
    char body = 'x';
    struct journal *journal = must_open();
    uint64_t lease = journal_lease(journal);
    cr_expect_eq(journal_next(journal), 0);
    cr_expect_eq(journal_append(journal, lease, 0, records, 2, 0, at), JOURNAL_OK);
    cr_expect(at[0] == 0 && at[1] == 1);
    cr_expect_eq(journal_next(journal), 2);
    cr_expect_eq(journal_first(journal), 2);
    cr_expect_eq(journal_start(journal), 2);
    cr_expect_eq(journal_sync(journal, 2), JOURNAL_OK);
    for (uint64_t i = 0; i < 4; i++) {
        cr_expect_eq(journal_read(journal, i, &found), JOURNAL_END);
        cr_expect_eq(journal_fetch(journal, i, &body, 1), JOURNAL_END);
    }
    cr_expect_eq(journal_trim(journal, 1), JOURNAL_OK);
    cr_expect_eq(journal_next(journal), 2);
    journal_close(&journal);
}

Test(journal_none, refuses_a_wrong_position_and_another_lease)
{
    struct journal *journal = must_open();
    struct journal_record record = {1, span_text("a")};
    uint64_t lease = journal_lease(journal);
    cr_expect_eq(journal_append(journal, lease, 1, &record, 1, 0, NULL), JOURNAL_POSITION);
    cr_expect_eq(journal_append(journal, lease - 1, 0, &record, 1, 0, NULL), JOURNAL_FENCED);
    cr_expect_eq(journal_append(journal, lease + 1, 0, &record, 1, 0, NULL), JOURNAL_FENCED);
    cr_expect_eq(journal_next(journal), 0);
    cr_expect_eq(journal_append(journal, lease, 0, &record, 1, 0, NULL), JOURNAL_OK);
    cr_expect_eq(journal_append(journal, lease, 0, &record, 1, 0, NULL), JOURNAL_POSITION);
    cr_expect_eq(journal_sync(journal, 2), JOURNAL_POSITION);
    cr_expect_eq(journal_trim(journal, 2), JOURNAL_POSITION);
    journal_close(&journal);
}

Test(journal_none, refuses_kinds_of_its_own_and_no_records_at_all)
{
    struct journal *journal = must_open();
    uint64_t lease = journal_lease(journal);
    const struct {
        uint16_t kind;
        enum journal_err err;
    } cases[] = {{0, JOURNAL_LIMIT},
                 {JOURNAL_KIND_MAX + 1, JOURNAL_LIMIT},
                 {UINT16_MAX, JOURNAL_LIMIT},
                 {1, JOURNAL_OK},
                 {JOURNAL_KIND_MAX, JOURNAL_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct journal_record record = {cases[i].kind, SPAN_NONE};
        cr_expect_eq(journal_append(journal, lease, journal_next(journal), &record, 1, 0, NULL),
                     cases[i].err);
    }
    cr_expect_eq(journal_append(journal, lease, journal_next(journal), NULL, 0, 0, NULL),
                 JOURNAL_LIMIT);
    journal_close(&journal);
}
