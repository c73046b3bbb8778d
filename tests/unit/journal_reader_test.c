/* SPDX-License-Identifier: MPL-2.0 */
/* journal_reader_test.c -- bodies of records, read beside the writer, from another thread too. */
#include "broker/journal/format.h"
#include "broker/journal/journal.h"
#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ID 0xabcdef
#define SEGMENT 65536
#define BODY_BYTES 1000

static struct folder folder;
static struct journal *journal;
static struct journal_reader *reader;
static char complaint[JOURNAL_COMPLAINT_BYTES];

static void set_up(void)
{
    struct journal_options options = {.may_create = true, .id = ID, .segment_bytes = SEGMENT};
    struct journal_opened opened;
    cr_assert(folder_make(&folder));
    enum journal_err err = journal_open(folder.path, &options, &journal, &opened, complaint);
    cr_assert_eq(err, JOURNAL_OK, "%s", complaint);
    err = journal_reader_open(folder.path, ID, &reader, complaint);
    cr_assert_eq(err, JOURNAL_OK, "%s", complaint);
}

static void tear_down(void)
{
    journal_reader_close(&reader);
    journal_close(&journal);
    folder_fini(&folder);
}

TestSuite(journal_reader, .init = set_up, .fini = tear_down);

static uint64_t append(uint8_t filling)
{
    uint8_t body[BODY_BYTES];
    uint64_t at = 0;
    memset(body, filling, sizeof body);
    struct journal_record record = {1, span_of(body, sizeof body)};
    enum journal_err err =
        journal_append(journal, journal_lease(journal), journal_next(journal), &record, 1, 0, &at);
    cr_assert_eq(err, JOURNAL_OK, "%s", journal_complaint(journal));
    return at;
}

static void expect_body(uint64_t at, uint8_t filling)
{
    uint8_t expected[BODY_BYTES];
    uint8_t body[BODY_BYTES] = {0};
    memset(expected, filling, sizeof expected);
    enum journal_err err = journal_reader_fetch(reader, at, body, sizeof body);
    cr_assert_eq(err, JOURNAL_OK, "%s: %s", journal_strerror(err),
                 journal_reader_complaint(reader));
    cr_assert_eq(memcmp(body, expected, sizeof body), 0);
}

static void expect_refusal(uint64_t at, size_t bytes, enum journal_err expected)
{
    uint8_t body[2 * BODY_BYTES];
    enum journal_err err = journal_reader_fetch(reader, at, body, bytes);
    cr_expect_eq(err, expected, "%s", journal_strerror(err));
    cr_expect_not_null(strstr(journal_reader_complaint(reader), folder.path), "%s",
                       journal_reader_complaint(reader));
}

Test(journal_reader, reads_what_was_appended_since_it_was_opened_in_any_segment)
{
    enum { COUNT = 200 }; /* some segments */
    uint64_t at[COUNT];
    for (int i = 0; i < COUNT; i++) {
        at[i] = append((uint8_t)i);
        expect_body(at[i], (uint8_t)i);
    }
    for (int i = COUNT; i-- > 0;)
        expect_body(at[i], (uint8_t)i);
}

Test(journal_reader, refuses_what_is_no_record_of_this_size)
{
    uint64_t at = append(1);
    uint64_t next = append(2);
    expect_refusal(at + FORMAT_ALIGN, BODY_BYTES, JOURNAL_DAMAGED);
    expect_refusal(at, BODY_BYTES - 1, JOURNAL_DAMAGED);
    expect_refusal(at, BODY_BYTES + 1, JOURNAL_DAMAGED);
    expect_refusal(journal_next(journal), BODY_BYTES, JOURNAL_DAMAGED);
    expect_body(at, 1);
    expect_body(next, 2);
}

Test(journal_reader, refuses_a_body_that_changed)
{
    char path[FOLDER_PATH_BYTES_MAX + 64];
    uint64_t at = append(3);
    snprintf(path, sizeof path, "%s/00000000000000000000.journal", folder.path);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    cr_assert_eq(pwrite(fd, "x", 1, (off_t)(FORMAT_SEGMENT_BYTES + at + FORMAT_RECORD_BYTES)), 1);
    close(fd);
    expect_refusal(at, BODY_BYTES, JOURNAL_DAMAGED);
    cr_expect_not_null(strstr(journal_reader_complaint(reader), "00000000000000000000.journal"));
}

Test(journal_reader, refuses_the_records_of_another_journal)
{
    uint64_t at = append(4);
    journal_reader_close(&reader);
    cr_assert_eq(journal_reader_open(folder.path, ID + 1, &reader, complaint), JOURNAL_OK);
    expect_refusal(at, BODY_BYTES, JOURNAL_DAMAGED);
}

Test(journal_reader, holds_what_was_trimmed_until_it_is_told_to_forget)
{
    enum { COUNT = 200 };
    uint64_t at[COUNT];
    for (int i = 0; i < COUNT; i++)
        at[i] = append((uint8_t)i);
    expect_body(at[0], 0);
    cr_assert_eq(journal_trim(journal, at[COUNT - 1]), JOURNAL_OK);
    cr_assert_gt(journal_first(journal), at[0]);
    expect_body(at[0], 0); /* its file is open */
    journal_reader_forget(reader, at[COUNT - 1]);
    expect_refusal(at[0], BODY_BYTES, JOURNAL_END);
    expect_body(at[COUNT - 1], COUNT - 1);
}

Test(journal_reader, needs_a_directory_with_a_journal_that_keeps_something)
{
    struct journal_reader *other = NULL;
    char path[FOLDER_PATH_BYTES_MAX + 16];
    snprintf(path, sizeof path, "%s/nothing", folder.path);
    cr_expect_eq(journal_reader_open(path, ID, &other, complaint), JOURNAL_MISSING);
    cr_expect_not_null(strstr(complaint, path), "%s", complaint);
    cr_expect_null(other);
}

/* ---- beside the writer ----------------------------------------------------------------------- */

enum { WRITTEN = 2000 };
static uint64_t places[WRITTEN];
static atomic_int written;

static void *write_all(void *arg)
{
    (void)arg;
    for (int i = 0; i < WRITTEN; i++) {
        places[i] = append((uint8_t)i);
        atomic_store(&written, i + 1);
        if (i % 500 == 499)
            cr_assert_eq(journal_trim(journal, places[i - 100]), JOURNAL_OK);
    }
    return NULL;
}

Test(journal_reader, reads_while_another_thread_appends_and_trims)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, write_all, NULL), 0);
    int last = 0;
    while (last < WRITTEN) {
        int count = atomic_load(&written);
        if (count == 0 || count == last)
            continue;
        last = count;
        expect_body(places[count - 1], (uint8_t)(count - 1));
    }
    cr_assert_eq(pthread_join(thread, NULL), 0);
}

static bool is_realloc_failing;
void *__real_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);

/* The linker puts it in the place of realloc(), where our own objects call that. */
void *__wrap_realloc(void *block, size_t bytes)
{
    return is_realloc_failing ? NULL : __real_realloc(block, bytes);
}

Test(journal_reader, reads_on_when_there_is_memory_again)
{
    enum { SEGMENTS = 70 }; /* more than have room at first */
    uint64_t at = append(5);
    while (journal_next(journal) < SEGMENTS * SEGMENT)
        at = append(6);
    is_realloc_failing = true;
    expect_refusal(at, BODY_BYTES, JOURNAL_MEMORY);
    is_realloc_failing = false;
    expect_body(at, 6);
}
