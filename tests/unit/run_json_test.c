/* SPDX-License-Identifier: MPL-2.0 */
/* run_json_test.c -- what is left of JSON that is too long or breaks off is JSON again. */
#include "clients/cli.h"
#include "clients/run_json.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct run_json *json;

/* The text, fed in pieces of this size; until the next call. */
static const char *made_of(const char *text, size_t bytes, size_t piece, bool *out_is_torn)
{
    size_t count = 0;
    if (json != NULL)
        run_json_free(&json);
    json = run_json_new();
    cr_assert_not_null(json);
    for (size_t at = 0; at < bytes; at += piece)
        if (!run_json_feed(json, text + at, bytes - at < piece ? bytes - at : piece))
            break;
    const char *out = run_json_finish(json, &count, out_is_torn);
    ((char *)(size_t)out)[count] = '\0'; /* it has room: what closes all is kept */
    return out;
}

Test(run_json, closes_what_breaks_off)
{
    static const struct {
        const char *text, *made;
        bool is_torn;
    } cases[] = {
        {"{\"a\": 1, \"b\": [true, {\"c\": \"d\"}]}\n", "{\"a\":1,\"b\":[true,{\"c\":\"d\"}]}",
         false},
        {"{\"a\": 1, \"b\": \"te", "{\"a\":1,\"b\":\"te\"}", true},
        {"{\"a\": 1, \"b\": \"te\\", "{\"a\":1,\"b\":\"te\"}", true},
        {"{\"a\": 1, \"b\": \"te\\u00e", "{\"a\":1,\"b\":\"te\"}", true},
        {"{\"a\": 1, \"b\": \"te\\ud83d", "{\"a\":1,\"b\":\"te\"}", true},
        {"{\"a\": 1, \"b\": \"te\xf0\x9f\x98", "{\"a\":1,\"b\":\"te\"}", true},
        {"{\"a\": 1, \"b", "{\"a\":1}", true},
        {"{\"a\": 1, \"b\"", "{\"a\":1}", true},
        {"{\"a\": 1, \"b\":", "{\"a\":1}", true},
        {"{\"a\": 1, \"b\": 12", "{\"a\":1}", true},
        {"{\"a\": 1, \"b\": fal", "{\"a\":1}", true},
        {"{\"a\": 1, \"b\": [1, {\"c\": \"x\", ", "{\"a\":1,\"b\":[1,{\"c\":\"x\"}]}", true},
        {"{\"a\": 1,", "{\"a\":1}", true},
        {"{", "{}", true},
        {"", "", false},
        {"no JSON", "noJSON", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t piece = 1; piece < 40; piece += 7) {
            bool is_torn = false;
            const char *made = made_of(cases[i].text, strlen(cases[i].text), piece, &is_torn);
            cr_expect_str_eq(made, cases[i].made, "case %zu", i);
            cr_expect_eq(is_torn, cases[i].is_torn, "case %zu", i);
        }
    run_json_free(&json);
}

Test(run_json, keeps_both_ends_of_a_long_string_and_all_behind_it)
{
    enum { BYTES = 1 << 20 };
    static char text[BYTES + 200];
    bool is_torn = true;
    size_t at = (size_t)snprintf(text, sizeof text, "{\"long\":\"first ");
    while (at < BYTES) {
        memcpy(text + at, "\\u00e9\xc3\xa9 line\\n", 15);
        at += 15;
    }
    snprintf(text + at, sizeof text - at, "last\",\"code\":7,\"recoverable\":false}");
    const char *made = made_of(text, strlen(text), 65536, &is_torn);
    char problem[CLI_PROBLEM_BYTES_MAX];
    int64_t code = 0;
    bool yes = true;
    cr_assert_not(is_torn);
    cr_assert_lt(strlen(made), 3 * RUN_JSON_STRING_MAX);
    struct cli_json *object = cli_json_read(made, strlen(made), problem);
    cr_assert_not_null(object, "%s", problem);
    const char *whole = cli_json_find_text(object, "long");
    cr_assert_not_null(whole);
    cr_expect_eq(strncmp(whole, "first ", 6), 0);
    cr_expect_str_eq(whole + strlen(whole) - 4, "last");
    cr_expect_not_null(strstr(whole, " bytes cut ...]"));
    cr_expect(cli_json_find_number(object, "code", &code) && code == 7);
    cr_expect(cli_json_find_bool(object, "recoverable", &yes) && !yes);
    cli_json_free(&object);
    run_json_free(&json);
}

/* Wherever it breaks off, what is left is JSON. */
Test(run_json, makes_json_of_every_beginning)
{
    static const char whole[] =
        "{\"type\":\"t\",\"message\":\"a\\u00e9\\ud83d\\ude00\xf0\x9f\x98\x80\\n\","
        "\"causes\":[{\"type\":\"u\",\"message\":\"\",\"code\":-12}],"
        "\"recoverable\":true}";
    for (size_t bytes = 1; bytes < sizeof whole - 1; bytes++) {
        char problem[CLI_PROBLEM_BYTES_MAX];
        bool is_torn = false;
        const char *made = made_of(whole, bytes, 3, &is_torn);
        cr_expect(is_torn);
        struct cli_json *object = cli_json_read(made, strlen(made), problem);
        cr_expect_not_null(object, "%zu: %s: %s", bytes, problem, made);
        cli_json_free(&object);
    }
    run_json_free(&json);
}

Test(run_json, is_bounded_whatever_comes)
{
    enum { BYTES = 3 << 20 };
    static const char *const units[] = {"[", "{\"a\":", "1,", "\"", "\\", "]", "}", "\"x\",", "x"};
    char *text = malloc(BYTES);
    cr_assert_not_null(text);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        bool is_torn = false;
        text[0] = i % 2 == 0 ? '[' : '{';
        for (size_t at = 1; at < BYTES; at++)
            text[at] = units[i][at % strlen(units[i])];
        cr_expect_lt(strlen(made_of(text, BYTES, 65536, &is_torn)), RUN_JSON_BYTES_MAX);
    }
    free(text);
    run_json_free(&json);
}
