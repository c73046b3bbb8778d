/* SPDX-License-Identifier: MPL-2.0 */
/* text_table_test.c -- lines that are broken at blanks; status_text_test.c has the tables. */
#include "clients/text_table.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static void expect_wrapped(const char *text, size_t first, size_t width, const char *expected)
{
    char *printed = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&printed, &bytes);
    text_print_wrapped(out, text, first, width);
    fclose(out);
    cr_expect_str_eq(printed, expected, "printed:\n%s", printed);
    free(printed);
}

/* An error on a terminal: what goes on is indented, a line that is there stays. */
Test(text_table, wraps_lines_at_blanks)
{
    expect_wrapped("one two three", 0, 13, "one two three");
    expect_wrapped("one two three", 0, 12, "one two\n  three");
    expect_wrapped("one two three", 1, 13, "one two\n  three");
    expect_wrapped("one two three", 0, 0, "one two three");
    expect_wrapped("one\n  because two three four", 0, 15, "one\n  because two\n    three four");
    expect_wrapped("a averyverylongword b", 0, 8, "a\n  averyverylongword\n  b");
    expect_wrapped("\xe5\xba\x97\xe5\x93\x81 \xe5\xba\x97", 0, 6,
                   "\xe5\xba\x97\xe5\x93\x81\n  \xe5\xba\x97");
    expect_wrapped("a \x1b[2J", 0, 80, "a \\x1b[2J");
    expect_wrapped("end\n", 0, 80, "end\n");
    expect_wrapped("", 0, 80, "");
}
