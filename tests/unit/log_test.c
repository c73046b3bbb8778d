/* SPDX-License-Identifier: MPL-2.0 */
/* log_test.c -- one line a record: as text and as JSON, with a priority and without. */
#include "broker/io/log.h"
#include "libbus/base/limits.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITTEN_BYTES = 64 * 1024, LONG_BYTES = 5000, TEXT_BYTES = 4095, DATE_BYTES = 24 };

static FILE *file; /* takes the place of standard error */
static int own_stderr;
static char written[WRITTEN_BYTES];

static void set_up(void)
{
    file = tmpfile();
    own_stderr = dup(STDERR_FILENO);
    cr_assert_not_null(file);
    cr_assert_geq(dup2(fileno(file), STDERR_FILENO), 0);
}

static void tear_down(void)
{
    dup2(own_stderr, STDERR_FILENO);
    close(own_stderr);
    fclose(file);
}

TestSuite(log, .init = set_up, .fini = tear_down);

static void choose(bool is_json, bool has_priority)
{
    log_init(&(struct log_style){.is_json = is_json, .has_priority = has_priority});
}

/* What was written since the last call; each time is checked, and stands there as TIME. */
static const char *take(void)
{
    static char masked[WRITTEN_BYTES];
    ssize_t bytes = pread(fileno(file), written, sizeof written - 1, 0);
    written[bytes > 0 ? bytes : 0] = '\0';
    cr_assert_eq(ftruncate(fileno(file), 0), 0);
    lseek(fileno(file), 0, SEEK_SET);
    char *date = strstr(written, "20");
    if (date == NULL || strlen(date) < DATE_BYTES || date[DATE_BYTES - 1] != 'Z')
        return written;
    cr_expect(date[4] == '-' && date[10] == 'T' && date[19] == '.', "%s", date);
    snprintf(masked, sizeof masked, "%.*sTIME%s", (int)(date - written), written,
             date + DATE_BYTES);
    return masked;
}

Test(log, writes_lines_of_text)
{
    choose(false, false);
    log_line(LOG_INFO, "a %d", 1);
    cr_expect_str_eq(take(), "TIME errbusd info: a 1\n");
    log_line(LOG_WARNING, "b\n\x1b[2Jc\x7f\"");
    cr_expect_str_eq(take(), "TIME errbusd warning: b??[2Jc?\"\n");
    log_line(LOG_ERROR, "c");
    cr_expect_str_eq(take(), "errbusd: c\n");
    log_line(LOG_DETAIL, "d");
    cr_expect_str_eq(take(), "");
    log_init(&(struct log_style){.is_verbose = true});
    log_line(LOG_DETAIL, "d");
    cr_expect_str_eq(take(), "TIME errbusd info: d\n");
}

Test(log, begins_with_a_priority_where_one_is_wanted)
{
    choose(false, true);
    log_line(LOG_ERROR, "a");
    cr_expect_str_eq(take(), "<3>a\n");
    log_line(LOG_WARNING, "b");
    cr_expect_str_eq(take(), "<4>b\n");
    log_line(LOG_INFO, "c");
    cr_expect_str_eq(take(), "<6>c\n");
    choose(true, true);
    log_line(LOG_WARNING, "d");
    cr_expect_str_eq(
        take(),
        "<4>{\"time\":\"TIME\",\"level\":\"warning\",\"program\":\"errbusd\",\"message\":\"d\"}\n");
}

Test(log, writes_an_object_a_line)
{
    choose(true, false);
    log_line(LOG_ERROR, "a");
    cr_expect_str_eq(
        take(),
        "{\"time\":\"TIME\",\"level\":\"error\",\"program\":\"errbusd\",\"message\":\"a\"}\n");
    log_line(LOG_INFO, "%s", "");
    cr_expect_str_eq(
        take(),
        "{\"time\":\"TIME\",\"level\":\"info\",\"program\":\"errbusd\",\"message\":\"\"}\n");
}

static void expect_escaped(const char *text, const char *expected)
{
    char line[512];
    log_line(LOG_INFO, "%s", text);
    snprintf(line, sizeof line,
             "{\"time\":\"TIME\",\"level\":\"info\",\"program\":\"errbusd\",\"message\":\"%s\"}\n",
             expected);
    cr_expect_str_eq(take(), line);
}

/* Foreign text stays inside its string and its line, steers no terminal, and is UTF-8. */
Test(log, escapes_what_json_cannot_have)
{
    choose(true, false);
    expect_escaped("\"},{\"level\":\"error\\", "\\\"},{\\\"level\\\":\\\"error\\\\");
    expect_escaped("a\nb\r\t\x1b[2J\x7f", "a\\u000ab\\u000d\\u0009\\u001b[2J\\u007f");
    expect_escaped("\xc2\x9b"
                   "2J\xc2\xa0",
                   "\\u009b2J\xc2\xa0");
    expect_escaped("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    expect_escaped("\xff"
                   "a\xc3",
                   "\\ufffda\\ufffd");
    expect_escaped("\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"); /* a surrogate */
    expect_escaped("\xc0\xaf", "\\ufffd\\ufffd");            /* overlong */
}

/* The longest text of which each byte is escaped. */
Test(log, ends_each_line_whole)
{
    char text[LONG_BYTES + 1];
    memset(text, '\x01', LONG_BYTES);
    text[LONG_BYTES] = '\0';
    choose(true, false);
    log_line(LOG_INFO, "%s", text);
    const char *line = take();
    size_t bytes = strlen(line);
    const char *message = strstr(line, "\"message\":\"");
    cr_assert_not_null(message);
    cr_expect_str_eq(line + bytes - 3, "\"}\n");
    cr_expect_eq(line + bytes - 3 - (message + 11), (ptrdiff_t)6 * TEXT_BYTES);
}

Test(log, gives_the_members_of_an_event)
{
    struct log_event event = {.name = span_text("party.lost"),
                              .job = span_text("job\"1"),
                              .party = span_text("alice"),
                              .incarnation = 3};
    choose(false, false);
    log_event(LOG_WARNING, &event, "party.lost job/alice/3");
    cr_expect_str_eq(take(), "TIME errbusd warning: party.lost job/alice/3\n");
    log_event(LOG_DETAIL, &event, "party.lost job/alice/3");
    cr_expect_str_eq(take(), "");
    choose(true, false);
    log_event(LOG_WARNING, &event, "party.lost job/alice/3");
    cr_expect_str_eq(
        take(),
        "{\"time\":\"TIME\",\"level\":\"warning\",\"program\":\"errbusd\",\"event\":\"party.lost\","
        "\"job\":\"job\\\"1\",\"party\":\"alice\",\"incarnation\":3,"
        "\"message\":\"party.lost job/alice/3\"}\n");
    event.party = SPAN_NONE;
    log_event(LOG_INFO, &event, "its connection\nclosed");
    cr_expect_str_eq(
        take(),
        "{\"time\":\"TIME\",\"level\":\"info\",\"program\":\"errbusd\",\"event\":\"party.lost\","
        "\"job\":\"job\\\"1\",\"message\":\"its connection\\u000aclosed\"}\n");
}

/* Foreign names are escaped, as all text is; what is not known is not there. */
Test(log, says_whose_connection_and_which_error_it_is)
{
    struct log_event event = {.name = span_text("party.failed"),
                              .job = span_text("train"),
                              .party = span_text("alice"),
                              .incarnation = 1,
                              .principal = span_text("ac\"me"),
                              .peer = span_text("127.0.0.1"),
                              .error = span_text("train/alice/1/2")};
    choose(true, false);
    log_event(LOG_WARNING, &event, "x");
    cr_expect_str_eq(take(), "{\"time\":\"TIME\",\"level\":\"warning\",\"program\":\"errbusd\","
                             "\"event\":\"party.failed\","
                             "\"job\":\"train\",\"party\":\"alice\",\"incarnation\":1,"
                             "\"principal\":\"ac\\\"me\",\"peer\":\"127.0.0.1\","
                             "\"error\":\"train/alice/1/2\",\"message\":\"x\"}\n");
    log_event(LOG_WARNING, &(struct log_event){.peer = span_text("uid 7")}, "y");
    cr_expect_str_eq(
        take(),
        "{\"time\":\"TIME\",\"level\":\"warning\",\"program\":\"errbusd\",\"peer\":\"uid 7\","
        "\"message\":\"y\"}\n");
}

/* Each member as long as it can be, and each byte of it escaped. */
Test(log, has_room_for_the_longest_members)
{
    char text[LONG_BYTES];
    memset(text, '\x01', sizeof text);
    struct span name = span_of(text, LIMIT_NAME_BYTES);
    struct log_event event = {.name = name,
                              .job = name,
                              .party = name,
                              .incarnation = UINT64_MAX,
                              .principal = name,
                              .peer = name,
                              .error = span_of(text, LIMIT_ERROR_ID_BYTES)};
    text[TEXT_BYTES] = '\0';
    choose(true, true);
    log_event(LOG_WARNING, &event, text);
    const char *line = take();
    size_t bytes = strlen(line);
    const char *message = strstr(line, "\"message\":\"");
    cr_assert_not_null(message);
    cr_expect_str_eq(line + bytes - 3, "\"}\n");
    cr_expect_eq(line + bytes - 3 - (message + 11), (ptrdiff_t)6 * TEXT_BYTES);
}

Test(log, knows_the_stream_of_the_journal)
{
    struct stat status;
    char stream[64];
    cr_assert_eq(fstat(fileno(file), &status), 0);
    snprintf(stream, sizeof stream, "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    cr_expect(log_is_journal(stream));
    size_t bytes = strlen(stream);
    snprintf(stream + bytes, sizeof stream - bytes, "0");
    cr_expect_not(log_is_journal(stream));
    snprintf(stream + bytes, sizeof stream - bytes, " ");
    cr_expect_not(log_is_journal(stream));
    snprintf(stream, sizeof stream, "%ju:%ju", (uintmax_t)status.st_dev + 1,
             (uintmax_t)status.st_ino);
    cr_expect_not(log_is_journal(stream));
    cr_expect_not(log_is_journal(NULL));
    cr_expect_not(log_is_journal(""));
    cr_expect_not(log_is_journal("1"));
}

static void log_from_other(enum log_level level, const char *line)
{
    log_program(level, "errbus-web", span_text(line));
}

/* As text it is as the program wrote it; in JSON it is one object as all others. */
Test(log, names_the_other_program_that_says_a_line)
{
    choose(false, false);
    log_from_other(LOG_INFO, "errbus web: \x1b[2J");
    cr_expect_str_eq(take(), "errbus web: ?[2J\n");
    choose(false, true);
    log_from_other(LOG_WARNING, "a");
    cr_expect_str_eq(take(), "<4>a\n");
    choose(true, false);
    log_from_other(LOG_WARNING, "a \"b\"\xff");
    cr_expect_str_eq(take(), "{\"time\":\"TIME\",\"level\":\"warning\",\"program\":\"errbus-web\","
                             "\"message\":\"a \\\"b\\\"\\ufffd\"}\n");
}
