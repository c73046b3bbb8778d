/* SPDX-License-Identifier: MPL-2.0 */
/* child_lines_test.c -- what a child writes in pieces comes to the log in lines. */
#include "broker/io/child_lines.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WRITTEN_BYTES = 64 * 1024, MANY_LINES = 2000 };

static FILE *file; /* takes the place of standard error */
static int own_stderr;
static char written[WRITTEN_BYTES];
static struct child_lines lines;
static int end; /* the child's */

static void set_up(void)
{
    file = tmpfile();
    own_stderr = dup(STDERR_FILENO);
    cr_assert_not_null(file);
    cr_assert_geq(dup2(fileno(file), STDERR_FILENO), 0);
    child_lines_init(&lines, "child", LOG_WARNING);
    cr_assert_eq(lines.fd, -1);
    cr_assert_eq(child_lines_open(&lines, &end), 0);
}

static void tear_down(void)
{
    dup2(own_stderr, STDERR_FILENO);
    close(own_stderr);
    fclose(file);
}

TestSuite(child_lines, .init = set_up, .fini = tear_down, .timeout = 60);

static void say(const char *text)
{
    cr_assert_eq(write(end, text, strlen(text)), (ssize_t)strlen(text));
}

/* What was logged since the last call. */
static const char *take(void)
{
    ssize_t bytes = pread(fileno(file), written, sizeof written - 1, 0);
    written[bytes > 0 ? bytes : 0] = '\0';
    cr_assert_eq(ftruncate(fileno(file), 0), 0);
    lseek(fileno(file), 0, SEEK_SET);
    return written;
}

Test(child_lines, wait_for_their_end)
{
    child_lines_read(&lines);
    cr_expect_str_eq(take(), "");
    say("one");
    child_lines_read(&lines);
    cr_expect_str_eq(take(), "");
    say(" line\n\ntwo\nthr");
    child_lines_read(&lines);
    cr_expect_str_eq(take(), "one line\ntwo\n");
    say("ee\n");
    child_lines_read(&lines);
    cr_expect_str_eq(take(), "three\n");
    close(end);
    child_lines_close(&lines);
    cr_expect_str_eq(take(), "");
}

/* Else a loop that polls its pipe would never sleep again. */
Test(child_lines, of_a_child_that_closes_them_are_over)
{
    say("a\nlast");
    close(end);
    child_lines_read(&lines);
    cr_expect_str_eq(take(), "a\nlast\n");
    cr_expect_eq(lines.fd, -1);
    child_lines_read(&lines);
    child_lines_close(&lines);
    cr_expect_str_eq(take(), "");
    cr_assert_eq(child_lines_open(&lines, &end), 0); /* the next child */
    say("b\n");
    child_lines_read(&lines);
    cr_expect_str_eq(take(), "b\n");
    close(end);
    child_lines_close(&lines);
}

/* One that its end does not wait for: a child of the child may keep the pipe. */
Test(child_lines, are_closed_with_what_is_left)
{
    for (int i = 0; i < MANY_LINES; i++)
        say("0123456789abcd\n");
    say("end");
    child_lines_close(&lines);
    cr_expect_eq(lines.fd, -1);
    const char *text = take();
    cr_expect_eq(strlen(text), MANY_LINES * strlen("0123456789abcd\n") + strlen("end\n"));
    cr_expect_str_eq(text + strlen(text) - strlen("\nend\n"), "\nend\n");
    close(end);
}

static void expect_line_of(size_t bytes, size_t first, size_t second)
{
    char text[2 * CHILD_LINE_BYTES];
    char expected[sizeof text + 2];
    memset(text, 'x', sizeof text);
    text[bytes] = '\n';
    cr_assert_eq(write(end, text, bytes + 1), (ssize_t)bytes + 1);
    child_lines_read(&lines);
    memset(expected, 'x', sizeof expected);
    expected[first] = '\n';
    expected[first + 1 + second] = '\n';
    expected[first + 1 + second + (second > 0)] = '\0';
    if (second == 0)
        expected[first + 1] = '\0';
    cr_expect_str_eq(take(), expected, "%zu", bytes);
}

Test(child_lines, that_are_too_long_become_several)
{
    expect_line_of(CHILD_LINE_BYTES - 1, CHILD_LINE_BYTES - 1, 0);
    expect_line_of(CHILD_LINE_BYTES, CHILD_LINE_BYTES, 0);
    expect_line_of(CHILD_LINE_BYTES + 1, CHILD_LINE_BYTES, 1);
    close(end);
    child_lines_close(&lines);
}
