/* SPDX-License-Identifier: MPL-2.0 */
/* run_output_test.c -- lines are shown whole and in order, the end is kept, nothing grows. */
#include "clients/run_output.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct run_output output;
static char waiting[RUN_WAITING_BYTES_MAX];
static char shown[RUN_SHOWN_BYTES_MAX];

static void begin(void)
{
    run_output_init(&output, waiting);
}

static void say(const char *text)
{
    run_output_add(&output, text, strlen(text));
}

static void expect_shown(const char *prefix, bool is_all, const char *text)
{
    size_t bytes = run_output_show(&output, prefix, is_all, shown);
    cr_assert_eq(bytes, strlen(text), "%zu bytes: %.*s", bytes, (int)bytes, shown);
    cr_assert_eq(memcmp(shown, text, bytes), 0, "%.*s", (int)bytes, shown);
}

static void expect_tail(const char *text)
{
    size_t bytes;
    const char *tail = run_output_tail(&output, &bytes);
    cr_assert_eq(bytes, strlen(text));
    cr_assert_eq(memcmp(tail, text, bytes), 0);
}

/* However little of it can be shown. */
static void expect_tail_ends(const char *text)
{
    size_t bytes;
    const char *tail = run_output_tail(&output, &bytes);
    cr_assert_eq(memcmp(tail + bytes - strlen(text), text, strlen(text)), 0);
}

/* ---- showing ----------------------------------------------------------------------------------*/

Test(run_output, shows_whole_lines_behind_their_prefix)
{
    begin();
    expect_shown("a: ", false, "");
    say("one\n\ntw");
    expect_shown("a: ", false, "a: one\na: \n");
    expect_shown("a: ", false, "");
    say("o\nthree");
    expect_shown("a: ", false, "a: two\n");
    expect_shown("a: ", true, "a: three\n");
    expect_shown("a: ", true, "");
    cr_assert_eq(output.said_bytes, strlen("one\n\ntwo\nthree"));
}

Test(run_output, shows_bytes_as_they_came_without_a_prefix)
{
    begin();
    say("prompt> ");
    expect_shown(NULL, false, "prompt> ");
    say("\n\n");
    expect_shown(NULL, true, "\n\n");
}

Test(run_output, shows_a_line_that_is_too_long_in_pieces)
{
    char *line = malloc(RUN_LINE_BYTES_MAX + 8);
    cr_assert_not_null(line);
    for (size_t bytes = RUN_LINE_BYTES_MAX - 1; bytes <= RUN_LINE_BYTES_MAX + 1; bytes++) {
        begin();
        memset(line, 'x', bytes);
        line[bytes - 1] = '\n';
        run_output_add(&output, line, bytes);
        size_t count = run_output_show(&output, "p", false, shown);
        size_t rest = run_output_show(&output, "p", false, shown);
        /* A newline is added to the piece, and the line's own one comes behind the rest. */
        cr_assert_eq(count + rest, bytes <= RUN_LINE_BYTES_MAX ? bytes + 1 : bytes + 3);
    }
    free(line);
}

Test(run_output, fills_the_room_for_what_is_shown_and_no_more)
{
    char prefix[256];
    char line[64];
    size_t total = 0;
    size_t count;
    begin();
    memset(prefix, 'p', sizeof prefix - 1);
    prefix[sizeof prefix - 1] = '\0';
    memset(line, 'y', sizeof line);
    line[sizeof line - 1] = '\n';
    for (int i = 0; i < 1000; i++) {
        run_output_add(&output, line, sizeof line);
    }
    while ((count = run_output_show(&output, prefix, false, shown)) > 0) {
        cr_assert_leq(count, RUN_SHOWN_BYTES_MAX);
        cr_assert_eq(shown[count - 1], '\n');
        total += count;
    }
    cr_assert_eq(total, 1000 * (sizeof line + sizeof prefix - 1));
}

/* What is said of a program stands behind what the program had said, and waits for nothing else. */
Test(run_output, knows_what_comes_ahead_of_a_message)
{
    begin();
    run_output_mark(&output);
    say("one\n");
    cr_expect_not(run_output_is_ahead(&output, "a: ", false));
    run_output_mark(&output);
    say("two\nthr");
    cr_expect(run_output_is_ahead(&output, "a: ", false));
    expect_shown("a: ", false, "a: one\na: two\n");
    cr_expect_not(run_output_is_ahead(&output, "a: ", false));
    run_output_mark(&output);
    cr_expect_not(run_output_is_ahead(&output, "a: ", false), "its line may never end");
    cr_expect(run_output_is_ahead(&output, "a: ", true));
    cr_expect(run_output_is_ahead(&output, NULL, false));
    expect_shown("a: ", true, "a: thr\n");
    cr_expect_not(run_output_is_ahead(&output, "a: ", true));
}

Test(run_output, counts_what_has_no_room_to_be_shown)
{
    static char block[RUN_WAITING_BYTES_MAX / 2];
    begin();
    memset(block, 'z', sizeof block);
    run_output_add(&output, block, sizeof block - 1);
    cr_assert_eq(run_output_room(&output), 1);
    say("!");
    cr_assert_eq(run_output_room(&output), 0);
    run_output_add(&output, block, sizeof block);
    cr_assert_eq(output.unshown_bytes, 0);
    say("more");
    cr_assert_eq(output.unshown_bytes, 4);
    cr_assert_eq(output.said_bytes, RUN_WAITING_BYTES_MAX + 4);
    expect_tail_ends("more");
}

/* ---- what is kept -----------------------------------------------------------------------------*/

Test(run_output, keeps_the_end)
{
    begin();
    expect_tail("");
    say("first\n");
    say("last\r\n\n");
    expect_tail("first\nlast\r\n\n");
    say("unfinished");
}

Test(run_output, keeps_the_same_end_in_whatever_pieces_it_came)
{
    static const size_t pieces[] = {
        1, 7, RUN_KEPT_BYTES - 1, RUN_KEPT_BYTES, RUN_KEPT_BYTES + 1, 3 * RUN_KEPT_BYTES};
    static char text[5 * RUN_KEPT_BYTES + 3];
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)('a' + i % 23);
    }
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        begin();
        for (size_t at = 0; at < sizeof text; at += pieces[i]) {
            size_t left = sizeof text - at;
            run_output_add(&output, text + at, left < pieces[i] ? left : pieces[i]);
            output.waiting_bytes = 0;
        }
        size_t bytes;
        const char *tail = run_output_tail(&output, &bytes);
        cr_assert_eq(bytes, RUN_KEPT_BYTES);
        cr_assert_eq(memcmp(tail, text + sizeof text - bytes, bytes), 0, "pieces of %zu",
                     pieces[i]);
        cr_assert_eq(output.said_bytes, sizeof text);
    }
}
