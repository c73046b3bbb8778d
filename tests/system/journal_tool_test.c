/* SPDX-License-Identifier: MPL-2.0 */
/* journal_tool_test.c -- errbusd --check, --repair, --export over a journal of format 1, as an
 * operator uses them. */
#include "tests/lib/folder.h"
#include "tests/lib/process.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define V1 TEST_SOURCE_DIR "/tests/corpus/journal/v1"
#define FIRST "00000000000000000000.journal"
#define SECOND "00000000000000000312.journal"
#define END_MS 20000
/* Of the record with one byte, 2: the second of the journal. */
#define FLAW_OFFSET (64 + 24 + 24)

static struct folder folder;
static struct process process;

static void set_up(void)
{
    cr_assert(folder_make(&folder));
    cr_assert(folder_copy(V1, folder.path, FIRST));
    cr_assert(folder_copy(V1, folder.path, SECOND));
}

static void tear_down(void)
{
    folder_fini(&folder);
}

static void spoil(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder.path, FIRST);
    int file = open(path, O_WRONLY);
    cr_assert_geq(file, 0);
    cr_assert_eq(pwrite(file, "?", 1, FLAW_OFFSET), 1);
    close(file);
}

/* Runs it to its end; what it said is there until the next. */
static void expect_end(const char *tool, const char *where, int status, const char *text)
{
    const char *const words[] = {"errbusd", tool, where, NULL};
    process_fini(&process);
    cr_assert(process_start(&process, words, NULL));
    cr_assert_eq(process_wait(&process, END_MS), status, "%s%s", process_said(&process),
                 process_complained(&process));
    cr_expect(strstr(process_said(&process), text) != NULL ||
                  strstr(process_complained(&process), text) != NULL,
              "'%s' is not in: %s%s", text, process_said(&process), process_complained(&process));
}

static size_t count_files(const char *name)
{
    char path[512];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", folder.path, name);
    return stat(path, &status) == 0;
}

Test(journal_tool, checks_a_journal_and_changes_nothing, .init = set_up, .fini = tear_down)
{
    expect_end("--check", folder.path, 0, "is whole: 9 records");
    cr_expect_eq(count_files("lock"), 0);
    cr_expect_eq(count_files("spare"), 0);
    spoil();
    expect_end("--check", folder.path, 1, FIRST "' is damaged at position 24 (offset 88), 32 B");
    expect_end("--check", folder.path, 1, "is damaged: 8 records");
    process_fini(&process);
}

Test(journal_tool, repairs_it_and_saves_what_it_cuts, .init = set_up, .fini = tear_down)
{
    spoil();
    expect_end("--repair", folder.path, 0, "cut out, what stood there is in 'lost-");
    cr_expect_eq(count_files("lost-00000000000000000024-00000000000000000056"), 1);
    expect_end("--check", folder.path, 0, "is whole: 9 records");
    expect_end("--repair", folder.path, 0, "is whole");
    process_fini(&process);
}

Test(journal_tool, exports_lines_of_json, .init = set_up, .fini = tear_down)
{
    size_t good = 0;
    size_t bad = 0;
    json_int_t last = -1;
    spoil();
    expect_end("--export", folder.path, 1, "\"crc\":false");
    for (const char *at = process_said(&process); *at != '\0'; at = strchr(at, '\n') + 1) {
        json_error_t error;
        json_t *line = json_loads(at, JSON_DISABLE_EOF_CHECK, &error);
        cr_assert_not_null(line, "%s: %s", error.text, at);
        json_int_t position = json_integer_value(json_object_get(line, "position"));
        if (json_is_true(json_object_get(line, "crc"))) {
            json_int_t bytes = json_integer_value(json_object_get(line, "bytes"));
            const char *body = json_string_value(json_object_get(line, "body"));
            cr_assert_not_null(body);
            cr_expect_eq(strlen(body), 2 * (size_t)bytes);
            cr_expect_gt(position, last);
            last = position;
            good++;
        } else {
            cr_expect_eq(position, 24);
            bad++;
        }
        json_decref(line);
    }
    cr_expect_eq(good, 8);
    cr_expect_eq(bad, 1);
    process_fini(&process);
}

Test(journal_tool, says_in_words_what_it_cannot_do, .init = set_up, .fini = tear_down)
{
    char path[512];
    expect_end("--check", "/nonexistent/journal", 1,
               "errbusd: there is no directory '/nonexistent/journal'");
    cr_expect_str_empty(process_said(&process));
    expect_end("--check", NULL, 2, "--check takes the directory of a journal");
    snprintf(path, sizeof path, "%s/%s", folder.path, FIRST);
    expect_end("--export", path, 1, "errbusd: '");
    expect_end("--export", path, 1, "is not a directory");
    cr_assert_eq(unlink(path), 0);
    expect_end("--check", folder.path, 1, "a file is missing: none has positions 0 to 312");
    process_fini(&process);
}
