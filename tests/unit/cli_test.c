/* SPDX-License-Identifier: MPL-2.0 */
/* cli_test.c -- flags, exit codes, times, base64 and the JSON forms of the command line. */
#include "clients/cli.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- flags ------------------------------------------------------------------------------------*/

struct flags_case {
    const char *words[6]; /* behind the name of the program */
    bool is_good;
    const char *problem; /* a part of the sentence */
    const char *text;
    int64_t number;
    int64_t ms;
    bool yes;
    int operands;
};

static const struct flags_case flags_cases[] = {
    {{NULL}, true, NULL, NULL, -1, -1, false, 0},
    {{"a", "b"}, true, NULL, NULL, -1, -1, false, 2},
    {{"-t", "x", "a"}, true, NULL, "x", -1, -1, false, 1},
    {{"a", "-tx", "b"}, true, NULL, "x", -1, -1, false, 2},
    {{"--text=x"}, true, NULL, "x", -1, -1, false, 0},
    {{"--text", "x", "--text", "y"}, true, NULL, "y", -1, -1, false, 0},
    {{"-t", ""}, true, NULL, "", -1, -1, false, 0},
    {{"-n", "0"}, true, NULL, NULL, 0, -1, false, 0},
    {{"-n7", "-y"}, true, NULL, NULL, 7, -1, true, 0},
    {{"--seconds", "1.5"}, true, NULL, NULL, -1, 1500, false, 0},
    {{"--", "-n", "--yes"}, true, NULL, NULL, -1, -1, false, 2},
    {{"-t"}, false, "'-t' needs a value", NULL, -1, -1, false, 0},
    {{"--text"}, false, "'--text' needs a value", NULL, -1, -1, false, 0},
    {{"-x"}, false, "unknown flag '-x'", NULL, -1, -1, false, 0},
    {{"--wrong"}, false, "'--wrong'", NULL, -1, -1, false, 0},
    {{"--yes=no"}, false, "'--yes=no'", NULL, -1, -1, false, 0},
    {{"-n", "many"},
     false,
     "--number takes a whole number of at least 0, not 'many'",
     NULL,
     -1,
     -1,
     false,
     0},
    {{"--seconds=soon"},
     false,
     "--seconds takes a number of seconds, not 'soon'",
     NULL,
     -1,
     -1,
     false,
     0},
};

static void check_flags(const struct flags_case *c)
{
    char *argv[8] = {(char *)"program"};
    const char *text = NULL;
    int64_t number = -1;
    int64_t ms = -1;
    bool yes = false;
    const struct cli_flag flags[] = {
        {'t', "text", CLI_TEXT, &text, "TEXT", "a text"},
        {'n', "number", CLI_NUMBER, &number, "N", "a number"},
        {0, "seconds", CLI_SECONDS, &ms, "SECONDS", "a time"},
        {'y', "yes", CLI_YES, &yes, NULL, "yes"},
    };
    char problem[CLI_PROBLEM_BYTES_MAX] = "";
    int argc = 1;
    int operands_at = 0;
    for (; c->words[argc - 1] != NULL; argc++) {
        argv[argc] = (char *)c->words[argc - 1];
    }

    bool is_good = cli_flags_read(flags, 4, argc, argv, &operands_at, problem);
    cr_assert_eq(is_good, c->is_good, "%s", c->words[0]);
    if (!c->is_good) {
        cr_assert_not_null(strstr(problem, c->problem), "'%s' is not in '%s'", c->problem, problem);
        return;
    }
    cr_assert_eq(text == NULL, c->text == NULL, "%s", c->words[0]);
    cr_assert(text == NULL || strcmp(text, c->text) == 0, "%s", c->words[0]);
    cr_assert_eq(number, c->number, "%s", c->words[0]);
    cr_assert_eq(ms, c->ms, "%s", c->words[0]);
    cr_assert_eq(yes, c->yes, "%s", c->words[0]);
    cr_assert_eq(argc - operands_at, c->operands, "%s", c->words[0]);
}

Test(cli, reads_flags_wherever_they_stand_and_names_what_is_wrong)
{
    for (size_t i = 0; i < sizeof flags_cases / sizeof flags_cases[0]; i++) {
        check_flags(&flags_cases[i]);
    }
}

Test(cli, takes_as_many_flags_as_there_is_room_for)
{
    static char names[CLI_FLAGS_MAX + 1][8];
    struct cli_flag flags[CLI_FLAGS_MAX + 1];
    bool yes = false;
    char *argv[] = {(char *)"program", (char *)"--f31", NULL};
    char problem[CLI_PROBLEM_BYTES_MAX];
    int operands_at = 0;
    for (size_t i = 0; i <= CLI_FLAGS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "f%zu", i);
        flags[i] = (struct cli_flag){0, names[i], CLI_YES, &yes, NULL, ""};
    }
    cr_assert(cli_flags_read(flags, CLI_FLAGS_MAX, 2, argv, &operands_at, problem));
    cr_assert(yes);
    cr_assert_not(cli_flags_read(flags, CLI_FLAGS_MAX + 1, 2, argv, &operands_at, problem));
}

Test(cli, reads_whole_numbers_and_seconds)
{
    static const struct {
        const char *text;
        int64_t number; /* -1: refused */
        int64_t ms;     /* the same */
    } cases[] = {
        {"0", 0, 0},
        {"12", 12, 12000},
        {"9223372036854775807", INT64_MAX, -1},
        {"9223372036854775808", -1, -1},
        {"1000000000", 1000000000, 1000000000000},
        {"1000000001", 1000000001, -1},
        {"0.5", -1, 500},
        {".5", -1, 500},
        {"5.", -1, 5000},
        {"1.2345", -1, 1234},
        {"", -1, -1},
        {".", -1, -1},
        {"-1", -1, -1},
        {"+1", -1, -1},
        {" 1", -1, -1},
        {"1 ", -1, -1},
        {"1e3", -1, -1},
        {"0x1", -1, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t number = -1;
        int64_t ms = -1;
        cr_assert_eq(cli_number_read(cases[i].text, &number), cases[i].number >= 0, "'%s'",
                     cases[i].text);
        cr_assert_eq(number, cases[i].number, "'%s'", cases[i].text);
        cr_assert_eq(cli_seconds_read(cases[i].text, &ms), cases[i].ms >= 0, "'%s'", cases[i].text);
        cr_assert_eq(ms, cases[i].ms, "'%s'", cases[i].text);
    }
}

Test(cli, gives_every_code_its_exit)
{
    static const int exits[] = {
        [BUS_OK] = CLI_OK,           [BUS_EINVAL] = CLI_USAGE,
        [BUS_ENOMEM] = CLI_FAILED,   [BUS_ETIMEDOUT] = CLI_TIMEDOUT,
        [BUS_EFULL] = CLI_FAILED,    [BUS_ETOOBIG] = CLI_FAILED,
        [BUS_EPROTO] = CLI_FAILED,   [BUS_ELOST] = CLI_LOST,
        [BUS_EOVERRUN] = CLI_OK,     [BUS_EFAILED] = CLI_REMOTE,
        [BUS_ESETTLED] = CLI_FAILED, [BUS_EFENCED] = CLI_DENIED,
        [BUS_EDENIED] = CLI_DENIED,  [BUS_ECLOSED] = CLI_FAILED,
        [BUS_EENDED] = CLI_OK,
    };
    for (size_t i = 0; i < sizeof exits / sizeof exits[0]; i++) {
        cr_assert_eq(cli_exit_of((enum bus_err)i), exits[i], "code %zu", i);
    }
}

Test(cli, counts_down_what_is_left_of_the_wait)
{
    struct cli cli = {.wait_ms = BUS_FOREVER, .started_ms = cli_now_ms()};
    cr_assert_eq(cli_left_ms(&cli), BUS_FOREVER);
    cr_assert_eq(cli_left_within(&cli, 7), 7);
    cli.wait_ms = 3600000;
    cr_assert(cli_left_ms(&cli) > 0 && cli_left_ms(&cli) <= 3600000);
    cr_assert_eq(cli_left_within(&cli, 7), 7);
    cli.started_ms -= 3600001;
    cr_assert_eq(cli_left_ms(&cli), 0);
    cr_assert_eq(cli_left_within(&cli, 7), 0);
}

/* Not if nobody ever answered, nor while there is time, nor if the last answer is long ago. */
Test(cli, takes_a_broker_for_lost_that_did_not_answer)
{
    struct cli cli = {.wait_ms = 0, .started_ms = cli_now_ms()};
    cr_expect_eq(cli_unanswered(&cli, BUS_ETIMEDOUT), BUS_ELOST);
    cli_answered(&cli);
    cr_expect_eq(cli_unanswered(&cli, BUS_ETIMEDOUT), BUS_ETIMEDOUT, "the wait alone is over");
    cr_expect_eq(cli_unanswered(&cli, BUS_EDENIED), BUS_EDENIED);
    cr_expect_not(cli_is_only_over(&cli, 0));
    cli.wait_ms = BUS_FOREVER;
    cr_expect_eq(cli_unanswered(&cli, BUS_ETIMEDOUT), BUS_ELOST);
    cli.wait_ms = 0;
    cli.answered_ms -= CLI_LOST_MS;
    cr_expect_eq(cli_unanswered(&cli, BUS_ETIMEDOUT), BUS_ELOST);
}

/* An hour is not waited for: the wait is over at once. */
Test(cli, pauses_until_the_wait_is_over, .timeout = 60)
{
    struct cli cli = {.program = "test", .wait_ms = 0, .started_ms = cli_now_ms()};
    int result = CLI_OK;
    cr_expect_not(cli_pause(&cli, 3600000));
    cr_expect_not(cli_pause_or_end(&cli, 3600000, &result));
    cr_expect_eq(result, CLI_TIMEDOUT);
    result = CLI_DENIED;
    cr_expect_not(cli_pause_or_end(&cli, 3600000, &result));
    cr_expect_eq(result, CLI_DENIED, "of a shard, before");
    cli.wait_ms = BUS_FOREVER;
    result = CLI_OK;
    cr_expect(cli_pause_or_end(&cli, 0, &result));
    cr_expect_eq(result, CLI_OK);
}

Test(cli, writes_times_as_rfc_3339)
{
    static const struct {
        int64_t at_ns;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000000000Z"},
        {1, "1970-01-01T00:00:00.000000001Z"},
        {-1, "1969-12-31T23:59:59.999999999Z"},
        {INT64_C(1700000000123456789), "2023-11-14T22:13:20.123456789Z"},
        {INT64_MAX, "2262-04-11T23:47:16.854775807Z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[CLI_TIME_BYTES_MAX];
        cli_time_text(cases[i].at_ns, text);
        cr_assert_str_eq(text, cases[i].text);
    }
}

/* ---- JSON -------------------------------------------------------------------------------------*/

/* RFC 4648 section 10, and bytes beyond ASCII. */
Test(cli, writes_base64)
{
    static const struct {
        const char *value;
        size_t bytes;
        const char *text;
    } cases[] = {
        {"", 0, ""},
        {"f", 1, "Zg=="},
        {"fo", 2, "Zm8="},
        {"foo", 3, "Zm9v"},
        {"foob", 4, "Zm9vYg=="},
        {"fooba", 5, "Zm9vYmE="},
        {"foobar", 6, "Zm9vYmFy"},
        {"\xff\xfe\xfd", 3, "//79"},
        {"\0\xff", 2, "AP8="},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[16];
        cli_base64(cases[i].value, cases[i].bytes, text);
        cr_assert_str_eq(text, cases[i].text);
        cr_assert_eq(cli_base64_bytes(cases[i].bytes), strlen(cases[i].text));
    }
}

/* Prints *object, and compares it with what it should be, without the newline at its end. */
static void check_line(struct cli_json **object, const char *expected)
{
    char *line = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&line, &bytes);
    cr_assert_not_null(file);
    cr_assert(cli_json_print(object, file));
    cr_assert_eq(fclose(file), 0);
    cr_assert_null(*object);
    cr_assert_gt(bytes, 0);
    cr_assert_eq(line[bytes - 1], '\n');
    line[bytes - 1] = '\0';
    cr_assert_str_eq(line, expected);
    free(line);
}

Test(cli, prints_values_as_text_where_they_are_utf_8)
{
    static const struct {
        const char *value;
        size_t bytes;
        const char *line;
    } cases[] = {
        {"", 0, "{\"v\":\"\"}"},
        {"one\ntwo", 7, "{\"v\":\"one\\ntwo\"}"},
        {"a\0b", 3, "{\"v\":\"a\\u0000b\"}"},
        {"\xc3\xa4", 2, "{\"v\":\"\xc3\xa4\"}"},
        {"\xc3", 1, "{\"v\":\"ww==\",\"encoding\":\"base64\"}"},
        {"\xc0\x80", 2, "{\"v\":\"wIA=\",\"encoding\":\"base64\"}"},
        {"\xed\xa0\x80", 3, "{\"v\":\"7aCA\",\"encoding\":\"base64\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cli_json *object = cli_json_new();
        cli_json_value(object, "v", cases[i].value, cases[i].bytes);
        check_line(&object, cases[i].line);
    }
}

Test(cli, prints_members_in_the_order_they_came)
{
    struct cli_json *object = cli_json_new();
    cli_json_text(object, "text", "a");
    cli_json_text(object, "none", NULL);
    cli_json_text(object, "broken", "a\xff");
    cli_json_number(object, "number", INT64_MIN);
    cli_json_bool(object, "yes", true);
    cli_json_time(object, "at", 1);
    cli_json_time(object, "never", 0);
    struct cli_json *array = cli_json_array(object, "list");
    cli_json_number(cli_json_append(array), "n", 1);
    cli_json_number(cli_json_append(array), "n", 2);
    check_line(&object, "{\"text\":\"a\",\"none\":null,\"broken\":\"a?\","
                        "\"number\":-9223372036854775808,\"yes\":true,"
                        "\"at\":\"1970-01-01T00:00:00.000000001Z\",\"never\":null,"
                        "\"list\":[{\"n\":1},{\"n\":2}]}");
}

/* Texts that JSON has as they are, and others. */
Test(cli, writes_a_line_as_the_object_that_has_its_members)
{
    static const char *const texts[] = {
        "",  "plain",    "a \"word\"", "back\\slash", "one\ntwo",       "\x01\x1f\x7f",
        "/", "\xc3\xa4", "\xff",       "\xc3",        "a\xed\xa0\x80!", "\xe2\x80\xa8",
        NULL};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *file = open_memstream(&text, &bytes);
        cr_assert_not_null(file);
        struct cli_line line = cli_line_begin(file);
        cli_line_text(&line, "v", texts[i]);
        cli_line_number(&line, "least", INT64_MIN);
        cli_line_text(&line, "w", texts[i]);
        cli_line_end(&line);
        cr_assert_eq(fclose(file), 0);
        cr_assert_gt(bytes, 0);
        cr_assert_eq(text[bytes - 1], '\n');
        text[bytes - 1] = '\0';
        struct cli_json *object = cli_json_new();
        cli_json_text(object, "v", texts[i]);
        cli_json_number(object, "least", INT64_MIN);
        cli_json_text(object, "w", texts[i]);
        check_line(&object, text);
        free(text);
    }
}

/* Whether line has text, count times. */
static void check_has(const char *line, const char *text, size_t count)
{
    size_t found = 0;
    for (const char *at = strstr(line, text); at != NULL; at = strstr(at + 1, text)) {
        found++;
    }
    cr_assert_eq(found, count, "%zu times '%s' in %s", found, text, line);
}

static char *error_line(const struct bus_error *error)
{
    char *line = NULL;
    size_t bytes = 0;
    struct cli_json *object = cli_json_new();
    FILE *file = open_memstream(&line, &bytes);
    cr_assert_not_null(file);
    cli_json_error(object, "error", error);
    cr_assert(cli_json_print(&object, file));
    cr_assert_eq(fclose(file), 0);
    return line;
}

Test(cli, prints_an_error_with_cause_and_root)
{
    struct bus_error *root = bus_error_new("app.root", NULL, "disk \"full\"");
    struct bus_error *middle = bus_error_new("app.middle", root, "no gradients");
    struct bus_error *top = bus_error_new("app.top", middle, "no round");
    cr_assert_eq(bus_error_set_recoverable(top, 1), BUS_OK);
    cr_assert_eq(bus_error_set_code(top, 28), BUS_OK);

    char *line = error_line(top);
    check_has(line, "\"cause\":{", 2);
    check_has(line, "\"cause\":null", 1);
    check_has(line, "\"causes\"", 0);
    check_has(line, "\"root\":{", 1);
    check_has(line, "\"type\":\"app.top\"", 1);
    check_has(line, "\"type\":\"app.middle\"", 1);
    check_has(line, "\"type\":\"app.root\"", 2);
    check_has(line, "\"message\":\"disk \\\"full\\\"\"", 2);
    check_has(line, "\"recoverable\":true", 1);
    check_has(line, "\"recoverable\":null", 3);
    check_has(line, "\"code\":28", 1);
    free(line);
    bus_error_unref(&top);
    bus_error_unref(&middle);
    bus_error_unref(&root);
}

Test(cli, prints_all_causes_where_there_are_more)
{
    struct bus_error *one = bus_error_new("app.one", NULL, "1");
    struct bus_error *two = bus_error_new("app.two", NULL, "2");
    struct bus_error *both = bus_error_new("app.both", one, "both");
    cr_assert_eq(bus_error_add_cause(both, two), BUS_OK);

    char *line = error_line(both);
    check_has(line, "\"causes\":[{", 1);
    check_has(line, "\"type\":\"app.one\"", 3); /* as a cause, among the causes, as the root */
    check_has(line, "\"type\":\"app.two\"", 1);
    free(line);
    bus_error_unref(&both);
    bus_error_unref(&two);
    bus_error_unref(&one);
}

/* ---- texts of others --------------------------------------------------------------------------*/

Test(cli, shows_control_characters_and_keeps_what_it_is_told)
{
    static const struct {
        const char *text;
        const char *kept;
        const char *shown;
    } cases[] = {
        {"", "", ""},
        {"plain, gr\xc3\xbc\xc3\x9f", "", "plain, gr\xc3\xbc\xc3\x9f"},
        {"a\nb\tc\x7f", "", "a\\nb\\x09c\\x7f"},
        {"a\nb\tc\x1b[0m", "\n\t", "a\nb\tc\\x1b[0m"},
        {"\xc2\x80\xc2\x9f\xc2\xa0\xc3\x80", "", "\\u0080\\u009f\xc2\xa0\xc3\x80"},
        {"cut \xc2", "", "cut \xc2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *shown = NULL;
        size_t bytes = 0;
        FILE *file = open_memstream(&shown, &bytes);
        cr_assert_not_null(file);
        cli_print_text(file, cases[i].text, cases[i].kept);
        fclose(file);
        cr_expect_str_eq(shown, cases[i].shown, "case %zu", i);
        free(shown);
    }
}
