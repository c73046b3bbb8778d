/* SPDX-License-Identifier: MPL-2.0 */
/* journal_folder_test.c -- the journal in a real directory: what the file system refuses
 * is told in a sentence, and a journal of each format that was ever released is read. */
#include "broker/journal/format.h"
#include "broker/journal/journal.h"
#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEGMENT 65536
#define NOBODY 65534
#define V1 TEST_SOURCE_DIR "/tests/corpus/journal/v1"

static struct folder own;
static const char *const folder = own.path;

static void set_up(void)
{
    cr_assert(folder_make(&own));
}

static void tear_down(void)
{
    folder_fini(&own);
}

TestSuite(journal_folder, .init = set_up, .fini = tear_down);

static struct journal_opened opened;
static char complaint[JOURNAL_COMPLAINT_BYTES];

static enum journal_err try_open(const char *where, bool may_create, struct journal **out_journal)
{
    struct journal_options options = {
        .may_create = may_create, .id = 0xabcdef, .segment_bytes = SEGMENT};
    complaint[0] = '\0';
    return journal_open(where, &options, out_journal, &opened, complaint);
}

static struct journal *must_open(const char *where)
{
    struct journal *journal = NULL;
    cr_assert_eq(try_open(where, true, &journal), JOURNAL_OK, "%s", complaint);
    return journal;
}

static void expect_refusal(const char *where, enum journal_err expected, const char *sentence)
{
    struct journal *journal = NULL;
    enum journal_err err = try_open(where, true, &journal);
    cr_expect_eq(err, expected, "%s: %s", journal_strerror(err), complaint);
    cr_expect(strstr(complaint, sentence) != NULL, "'%s' is not in: %s", sentence, complaint);
    cr_expect(strstr(complaint, where) != NULL, "%s is not in: %s", where, complaint);
    journal_close(&journal);
}

static void append(struct journal *journal, const void *data, size_t bytes)
{
    struct journal_record record = {1, span_of(data, bytes)};
    cr_assert_eq(
        journal_append(journal, journal_lease(journal), journal_next(journal), &record, 1, 0, NULL),
        JOURNAL_OK, "%s", journal_complaint(journal));
}

static uint64_t count(struct journal *journal)
{
    struct journal_found found = {.next = journal_first(journal)};
    uint64_t number = 0;
    while (journal_read(journal, found.next, &found) == JOURNAL_OK)
        number++;
    return number;
}

Test(journal_folder, makes_its_directory_and_keeps_what_it_is_given)
{
    char where[256];
    static const uint8_t bytes[30000];
    snprintf(where, sizeof where, "%s/state/errbus/journal", folder);
    struct journal *journal = must_open(where);
    cr_expect(opened.is_new);
    for (size_t i = 0; i < 10; i++)
        append(journal, bytes, sizeof bytes);
    cr_expect_eq(journal_sync(journal, journal_next(journal)), JOURNAL_OK);
    cr_expect_eq(journal_trim(journal, 130000), JOURNAL_OK);
    cr_expect_gt(journal_first(journal), 0);
    uint64_t left = count(journal);
    journal_close(&journal);
    journal = must_open(where);
    cr_expect_not(opened.is_new);
    cr_expect_eq(journal_id(journal), 0xabcdef);
    cr_expect_eq(count(journal), left);
    journal_close(&journal);
}

Test(journal_folder, lets_in_one_process_at_a_time)
{
    char sentence[128];
    struct journal *journal = must_open(folder);
    snprintf(sentence, sizeof sentence, "another broker (process %ld) has the journal in",
             (long)getpid());
    expect_refusal(folder, JOURNAL_LOCKED, sentence);
    append(journal, "x", 1);
    journal_close(&journal);
    journal = must_open(folder);
    cr_expect_eq(count(journal), 1);
    journal_close(&journal);
}

/* The lock goes with the process, and what it appended stays. */
Test(journal_folder, goes_to_the_next_process_when_one_is_killed)
{
    int told[2];
    char byte = 0;
    int status = 0;
    cr_assert_eq(pipe(told), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        struct journal *journal = must_open(folder);
        append(journal, "kept", 4);
        if (write(told[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    cr_assert_eq(read(told[0], &byte, 1), 1);
    expect_refusal(folder, JOURNAL_LOCKED, "another broker");
    cr_assert_eq(kill(child, SIGKILL), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    struct journal *journal = must_open(folder);
    cr_expect_eq(count(journal), 1);
    journal_close(&journal);
    close(told[0]);
    close(told[1]);
}

/* Appends for ever, and says each time that it did. */
static _Noreturn void append_and_tell(int told)
{
    struct journal *journal = must_open(folder);
    static uint8_t bytes[20000];
    for (uint64_t number = count(journal);; number++) {
        format_put64(bytes, number);
        append(journal, bytes, 8 + (size_t)(number * 7919 % (sizeof bytes - 8)));
        if (write(told, "x", 1) != 1)
            _exit(1);
    }
}

/* Killed anywhere, it has what it said it had, and at most one batch more. */
Test(journal_folder, has_what_a_killed_process_appended)
{
    uint64_t appended = 0;
    for (size_t round = 0; round < 20; round++) {
        int told[2];
        char bytes[256];
        ssize_t got = 0;
        int status = 0;
        cr_assert_eq(pipe(told), 0);
        pid_t child = fork();
        cr_assert_geq(child, 0);
        if (child == 0) {
            close(told[0]);
            append_and_tell(told[1]);
        }
        close(told[1]);
        for (size_t said = 0; said < 1 + round * 3; said += (size_t)got, appended += (size_t)got)
            cr_assert_gt(got = read(told[0], bytes, 1), 0);
        cr_assert_eq(kill(child, SIGKILL), 0);
        cr_assert_eq(waitpid(child, &status, 0), child);
        while ((got = read(told[0], bytes, sizeof bytes)) > 0)
            appended += (uint64_t)got;
        close(told[0]);
        struct journal *journal = must_open(folder);
        uint64_t there = count(journal);
        cr_assert(there == appended || there == appended + 1, "%llu of %llu",
                  (unsigned long long)there, (unsigned long long)appended);
        appended = there;
        journal_close(&journal);
    }
}

Test(journal_folder, says_what_the_file_system_refuses)
{
    char where[256];
    struct journal *journal = NULL;
    snprintf(where, sizeof where, "%s/file", folder);
    int file = open(where, O_CREAT | O_WRONLY, 0600);
    cr_assert_geq(file, 0);
    close(file);
    expect_refusal(where, JOURNAL_IO, "is not a directory");
    snprintf(where, sizeof where, "%s/file/below", folder);
    expect_refusal(where, JOURNAL_IO, "is not a directory");
    snprintf(where, sizeof where, "%s/absent", folder);
    cr_expect_eq(try_open(where, false, &journal), JOURNAL_MISSING);
    cr_expect(strstr(complaint, "there is no directory") != NULL, "%s", complaint);
    cr_expect_eq(try_open(folder, false, &journal), JOURNAL_MISSING);
    cr_expect(strstr(complaint, "there is no journal in") != NULL, "%s", complaint);
    snprintf(where, sizeof where, "%s/00000000000000000000.journal", folder);
    cr_assert_eq(mkdir(where, 0700), 0);
    expect_refusal(folder, JOURNAL_IO, "cannot be read: Is a directory");
}

/* As nobody, since root may do anything. */
Test(journal_folder, says_that_it_has_no_rights)
{
    char path[256];
    struct journal *journal = must_open(folder);
    append(journal, "x", 1);
    journal_close(&journal);
    cr_assert_eq(chmod(folder, 0755), 0);
    if (geteuid() == 0)
        cr_assert_eq(seteuid(NOBODY), 0);
    else
        cr_assert_eq(chmod(folder, 0500), 0);
    snprintf(path, sizeof path, "%s/lock", folder);
    if (getuid() != 0)
        cr_assert_eq(chmod(path, 0), 0);
    expect_refusal(folder, JOURNAL_IO, "/lock' cannot be written: Permission denied");
    snprintf(path, sizeof path, "%s/below", folder);
    expect_refusal(path, JOURNAL_IO, "/below' cannot be made: Permission denied");
    cr_assert_eq(seteuid(getuid()), 0);
    cr_assert_eq(chmod(folder, 0), 0);
    if (geteuid() == 0)
        cr_assert_eq(seteuid(NOBODY), 0);
    expect_refusal(folder, JOURNAL_IO, "cannot be opened: Permission denied");
    cr_assert_eq(seteuid(getuid()), 0);
    cr_assert_eq(chmod(folder, 0700), 0);
}

/* ---- formats --------------------------------------------------------------------------------- */

/* The records of tests/corpus/journal/v1: kind, and bytes that count up from the kind. */
static const struct {
    uint16_t kind;
    size_t bytes;
} v1_records[] = {{1, 0}, {2, 1}, {3, 7}, {4, 8}, {5, 9}, {6, 100}, {7, 3900}, {8, 3}};
enum { V1_COUNT = sizeof v1_records / sizeof *v1_records };

static void fill_v1(size_t i, uint8_t *body)
{
    for (size_t k = 0; k < v1_records[i].bytes; k++)
        body[k] = (uint8_t)(v1_records[i].kind + k);
}

static void write_v1(const char *where)
{
    static uint8_t bodies[V1_COUNT][3900];
    struct journal_record records[V1_COUNT];
    struct journal *journal = NULL;
    struct journal_options options = {
        .may_create = true, .id = 0x0123456789abcdef, .segment_bytes = 4096};
    for (size_t i = 0; i < V1_COUNT; i++) {
        fill_v1(i, bodies[i]);
        records[i] =
            (struct journal_record){v1_records[i].kind, span_of(bodies[i], v1_records[i].bytes)};
    }
    cr_assert_eq(journal_open(where, &options, &journal, &opened, complaint), JOURNAL_OK);
    uint64_t lease = journal_lease(journal);
    /* A batch of one, one of five with a checkpoint, and two that go over segments. */
    const size_t counts[] = {1, 5, 1, 1};
    for (size_t i = 0, at = 0; i < 4; at += counts[i++]) {
        unsigned how = i == 1 ? JOURNAL_CHECKPOINT_BEGIN | JOURNAL_CHECKPOINT_END : 0;
        cr_assert_eq(journal_append(journal, lease, journal_next(journal), records + at, counts[i],
                                    how, NULL),
                     JOURNAL_OK);
        cr_assert_eq(journal_sync(journal, journal_next(journal)), JOURNAL_OK);
    }
    journal_close(&journal);
}

static const char *const v1_files[] = {"00000000000000000000.journal",
                                       "00000000000000000312.journal"};

Test(journal_folder, reads_format_1)
{
    uint8_t body[3900];
    struct journal_found found = {.next = 0};
    for (size_t i = 0; i < 2; i++)
        cr_assert(folder_copy(V1, folder, v1_files[i]), "%s", v1_files[i]);
    struct journal *journal = must_open(folder);
    cr_expect_str_eq(opened.cut, "");
    cr_expect_eq(journal_id(journal), UINT64_C(0x0123456789abcdef));
    for (size_t i = 0; i < V1_COUNT; i++) {
        cr_assert_eq(journal_read(journal, found.next, &found), JOURNAL_OK);
        fill_v1(i, body);
        cr_expect_eq(found.kind, v1_records[i].kind);
        cr_expect(span_equal(found.body, span_of(body, v1_records[i].bytes)));
        cr_expect_eq(found.is_begin, i == 1);
        cr_expect_eq(found.is_end, i == 5);
        if (i == 1)
            cr_expect_eq(journal_start(journal), found.at);
    }
    cr_expect_eq(journal_read(journal, found.next, &found), JOURNAL_END);
    append(journal, "goes on", 7);
    journal_close(&journal);
}

/* As long as 1 is the newest format, it is written as it was. */
Test(journal_folder, writes_format_1_as_it_was)
{
    const char *keep = getenv("ERRBUS_WRITE_JOURNAL_CORPUS");
    write_v1(keep != NULL ? keep : folder);
    for (size_t i = 0; i < 2 && keep == NULL; i++) {
        static uint8_t bytes[2][8192];
        char path[512];
        size_t counts[2];
        for (size_t k = 0; k < 2; k++) {
            snprintf(path, sizeof path, "%s/%s", k == 0 ? V1 : folder, v1_files[i]);
            FILE *file = fopen(path, "re");
            cr_assert_not_null(file, "%s", path);
            counts[k] = fread(bytes[k], 1, sizeof bytes[k], file);
            fclose(file);
        }
        cr_expect_eq(counts[0], counts[1]);
        cr_expect_eq(memcmp(bytes[0], bytes[1], counts[0]), 0, "%s", v1_files[i]);
    }
}
