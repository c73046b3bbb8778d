/* SPDX-License-Identifier: MPL-2.0 */
/* journal_calls_test.c -- calls that a journal refuses on any disk, and how its name chooses one.
 */
#include "broker/journal/journal.h"

#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct journal *must_open(void)
{
    struct journal *journal = NULL;
    struct journal_options options = {.may_create = true};
    struct journal_opened opened;
    char complaint[JOURNAL_COMPLAINT_BYTES];
    cr_assert_eq(journal_open("memory:calls", &options, &journal, &opened, complaint), JOURNAL_OK);
    cr_expect(opened.is_new);
    cr_expect_str_eq(opened.cut, "");
    return journal;
}

static enum journal_err open_named(const char *where, bool may_create, char *complaint)
{
    struct journal *journal = NULL;
    struct journal_options options = {.may_create = may_create, .id = 7};
    struct journal_opened opened;
    enum journal_err err = journal_open(where, &options, &journal, &opened, complaint);
    cr_expect((err == JOURNAL_OK) == (journal != NULL));
    journal_close(&journal);
    cr_expect_null(journal);
    return err;
}

Test(journal_calls, names_choose_the_disk)
{
    struct folder folder;
    char name[FOLDER_PATH_BYTES_MAX + 16];
    char complaint[JOURNAL_COMPLAINT_BYTES] = "";
    cr_assert(folder_make(&folder));
    cr_expect_eq(open_named("memory:names", false, complaint), JOURNAL_MISSING);
    cr_expect(strstr(complaint, "memory:names") != NULL, "%s", complaint);
    cr_expect_eq(open_named("memory:names", true, complaint), JOURNAL_OK);
    cr_expect_eq(open_named("memory:names", false, complaint), JOURNAL_OK, "it is there still");
    cr_expect_eq(open_named(folder.path, true, complaint), JOURNAL_OK);
    snprintf(name, sizeof name, "folder:%s", folder.path);
    cr_expect_eq(open_named(name, false, complaint), JOURNAL_OK, "the same");
    snprintf(name, sizeof name, "folder:%s/a:b", folder.path);
    cr_expect_eq(open_named(name, true, complaint), JOURNAL_OK);
    cr_expect_eq(open_named(name + strlen("folder:"), false, complaint), JOURNAL_OK,
                 "a path with a colon is no scheme");
    folder_fini(&folder);
}

Test(journal_calls, an_unknown_scheme_is_refused_with_those_that_are_known)
{
    char complaint[JOURNAL_COMPLAINT_BYTES] = "";
    struct journal_reader *reader = NULL;
    const char *const names[] = {"postgresql:host=a", ":x", "folde:/tmp", "folderr:/tmp",
                                 "Memory:x"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool is_path = names[i][0] == ':';
        cr_expect_eq(open_named(names[i], false, complaint),
                     is_path ? JOURNAL_MISSING : JOURNAL_DISK, "%s", names[i]);
    }
    (void)open_named(names[0], true, complaint);
    cr_expect(strstr(complaint, "'postgresql:'") != NULL, "%s", complaint);
    cr_expect(strstr(complaint, "folder:PATH") != NULL, "%s", complaint);
    cr_expect(strstr(complaint, "postgres:CONNINFO") != NULL, "%s", complaint);
    cr_expect(strstr(complaint, "memory:NAME") != NULL, "%s", complaint);
    cr_expect_eq(journal_reader_open(names[0], 7, &reader, complaint), JOURNAL_DISK);
    cr_expect_null(reader);
}

Test(journal_calls, has_a_word_for_every_code)
{
    for (enum journal_err err = JOURNAL_OK; err <= JOURNAL_MISSING; err++)
        cr_expect_str_neq(journal_strerror(err), "no such code");
    cr_expect_str_eq(journal_strerror((enum journal_err)(JOURNAL_MISSING + 1)), "no such code");
}

Test(journal_calls, refuses_a_wrong_position_and_another_lease)
{
    struct journal *journal = must_open();
    struct journal_record record = {1, span_text("a")};
    uint64_t lease = journal_lease(journal);
    cr_expect_eq(journal_append(journal, lease, 8, &record, 1, 0, NULL), JOURNAL_POSITION);
    cr_expect_eq(journal_append(journal, lease - 1, 0, &record, 1, 0, NULL), JOURNAL_FENCED);
    cr_expect_eq(journal_append(journal, lease + 1, 0, &record, 1, 0, NULL), JOURNAL_FENCED);
    cr_expect_eq(journal_next(journal), 0);
    cr_expect_eq(journal_append(journal, lease, 0, &record, 1, 0, NULL), JOURNAL_OK);
    cr_expect_eq(journal_append(journal, lease, 0, &record, 1, 0, NULL), JOURNAL_POSITION);
    uint64_t end = journal_next(journal);
    cr_expect_eq(journal_sync(journal, end + 1), JOURNAL_POSITION);
    cr_expect_eq(journal_trim(journal, end + 1), JOURNAL_POSITION);
    cr_expect_eq(journal_sync(journal, end), JOURNAL_OK);
    journal_close(&journal);
}

Test(journal_calls, refuses_kinds_of_its_own_and_no_records_at_all)
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
