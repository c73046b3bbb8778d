/* SPDX-License-Identifier: MPL-2.0 */
/* journal_fence_test.c -- a journal whose disk becomes another owner's: nothing more is written. */
#include "broker/journal/journal.h"

#include "tests/lib/disk/disk_memory.h"
#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct journal *must_open(const char *where, bool is_lazy)
{
    struct journal *journal = NULL;
    struct journal_options options = {.may_create = true, .id = 7, .is_lazy = is_lazy};
    struct journal_opened opened;
    char complaint[JOURNAL_COMPLAINT_BYTES] = "";
    cr_assert_eq(journal_open(where, &options, &journal, &opened, complaint), JOURNAL_OK, "%s",
                 complaint);
    return journal;
}

static enum journal_err append(struct journal *journal, const char *body)
{
    struct journal_record record = {.kind = 1, .body = span_text(body)};
    return journal_append(journal, journal_lease(journal), journal_next(journal), &record, 1, 0,
                          NULL);
}

/* The bodies of all records, one behind the other. */
static void expect_records(struct journal *journal, const char *bodies)
{
    char all[64] = "";
    size_t bytes = 0;
    struct journal_found found;
    for (uint64_t at = journal_first(journal); journal_read(journal, at, &found) == JOURNAL_OK;
         at = found.next) {
        cr_assert_lt(bytes + found.body.bytes, sizeof all);
        memcpy(all + bytes, found.body.data, found.body.bytes);
        bytes += found.body.bytes;
    }
    cr_expect_str_eq(all, bodies);
}

/* Every call that changes something is refused from now on, and says why. */
static void expect_fenced(struct journal *journal)
{
    uint64_t next = journal_next(journal);
    struct journal_flush *flush = NULL;
    cr_expect_eq(append(journal, "x"), JOURNAL_FENCED);
    cr_expect_eq(journal_next(journal), next);
    cr_expect(journal_synced(journal) < next);
    cr_expect_eq(journal_sync(journal, next), JOURNAL_FENCED);
    cr_expect_eq(journal_trim(journal, next), JOURNAL_FENCED);
    cr_expect_eq(journal_flush_begin(journal, &flush), JOURNAL_FENCED);
    cr_expect_null(flush);
    cr_expect(strstr(journal_complaint(journal), "another broker has taken over") != NULL, "%s",
              journal_complaint(journal));
}

Test(journal_fence, a_write_to_a_disk_that_is_anothers_ends_the_journal)
{
    struct journal *old = must_open("memory:write", false);
    cr_assert_eq(append(old, "a"), JOURNAL_OK);
    cr_assert_eq(journal_sync(old, journal_next(old)), JOURNAL_OK);
    cr_assert_eq(append(old, "b"), JOURNAL_OK);
    disk_memory_take("write");
    struct journal *new = must_open("memory:write", false);
    cr_expect_gt(journal_lease(new), journal_lease(old));
    cr_expect_eq(append(new, "c"), JOURNAL_OK);
    cr_expect_eq(append(old, "x"), JOURNAL_FENCED);
    cr_expect(strstr(journal_complaint(old), "another broker has taken over") != NULL);
    expect_fenced(old);
    journal_close(&old);
    cr_expect_eq(append(new, "d"), JOURNAL_OK, "the old one's end is nothing to the new one");
    expect_records(new, "abcd");
    journal_close(&new);
    new = must_open("memory:write", false);
    expect_records(new, "abcd");
    journal_close(&new);
}

Test(journal_fence, a_sync_tells_it_and_moves_no_mark)
{
    for (int is_lazy = 0; is_lazy <= 1; is_lazy++) {
        const char *where = is_lazy ? "memory:lazy" : "memory:eager";
        struct journal *journal = must_open(where, is_lazy != 0);
        cr_assert_eq(append(journal, "a"), JOURNAL_OK);
        disk_memory_take(where + strlen("memory:"));
        cr_expect_eq(journal_sync(journal, journal_next(journal)), JOURNAL_FENCED);
        expect_fenced(journal);
        journal_close(&journal);
    }
}

Test(journal_fence, a_flush_in_another_thread_tells_it_when_it_ends)
{
    struct journal_flush *flush = NULL;
    struct journal *journal = must_open("memory:flush", true);
    cr_assert_eq(append(journal, "a"), JOURNAL_OK);
    cr_assert_eq(journal_flush_begin(journal, &flush), JOURNAL_OK);
    cr_assert_not_null(flush);
    disk_memory_take("flush");
    journal_flush_run(flush);
    cr_expect_eq(journal_flush_end(journal, &flush), JOURNAL_FENCED);
    expect_fenced(journal);
    journal_close(&journal);
}

/* Whoever removes the file of the lock lets in another process.  As long as nobody comes, the owner
 * is alone all the same. */
Test(journal_fence, a_lock_that_was_removed_and_taken_again_fences_the_first_owner)
{
    struct folder folder;
    char path[FOLDER_PATH_BYTES_MAX + 16];
    cr_assert(folder_make(&folder));
    struct journal *old = must_open(folder.path, false);
    snprintf(path, sizeof path, "%s/lock", folder.path);
    cr_assert_eq(append(old, "a"), JOURNAL_OK);
    cr_assert_eq(unlink(path), 0);
    cr_expect_eq(journal_sync(old, journal_next(old)), JOURNAL_OK, "nobody came");
    struct journal *new = must_open(folder.path, false);
    cr_expect_eq(append(old, "b"), JOURNAL_OK, "not heard of yet");
    cr_expect_eq(journal_sync(old, journal_next(old)), JOURNAL_FENCED);
    expect_fenced(old);
    journal_close(&old);
    journal_close(&new);
    folder_fini(&folder);
}
