/* SPDX-License-Identifier: MPL-2.0 */
/* cli_json_test.c -- what is read of JSON: each kind under its key, and nothing of another kind. */
#include "clients/cli.h"

#include <criterion/criterion.h>
#include <string.h>

static struct cli_json *read_text(const char *text)
{
    char problem[CLI_PROBLEM_BYTES_MAX] = "";
    struct cli_json *object = cli_json_read(text, strlen(text), problem);
    cr_assert_not_null(object, "%s", problem);
    return object;
}

Test(cli_json, finds_each_kind_under_its_key_and_no_other)
{
    static const char *const keys[] = {"text",  "number", "bool", "object",
                                       "array", "null",   "real", "missing"};
    struct cli_json *all =
        read_text("{\"text\":\"t\",\"number\":-9223372036854775808,\"bool\":true,"
                  "\"object\":{\"a\":1},\"array\":[{},7],\"null\":null,\"real\":1.0}");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int64_t number = 0;
        bool yes = false;
        cr_expect_eq(cli_json_find_text(all, keys[i]) != NULL, i == 0, "%s", keys[i]);
        cr_expect_eq(cli_json_find_number(all, keys[i], &number), i == 1, "%s", keys[i]);
        cr_expect_eq(number, i == 1 ? INT64_MIN : 0);
        cr_expect_eq(cli_json_find_bool(all, keys[i], &yes), i == 2, "%s", keys[i]);
        cr_expect_eq(yes, i == 2);
        cr_expect_eq(cli_json_find_object(all, keys[i]) != NULL, i == 3, "%s", keys[i]);
        cr_expect_eq(cli_json_find_array(all, keys[i]) != NULL, i == 4, "%s", keys[i]);
        cr_expect_eq(cli_json_has(all, keys[i]), i != 5 && i != 7, "%s", keys[i]);
    }
    cr_expect_str_eq(cli_json_find_text(all, "text"), "t");
    const struct cli_json *array = cli_json_find_array(all, "array");
    cr_expect_eq(cli_json_count(array), 2);
    cr_expect_not_null(cli_json_object_at(array, 0));
    cr_expect_null(cli_json_object_at(array, 1), "no object");
    cr_expect_null(cli_json_object_at(array, 2), "behind the end");
    cli_json_free(&all);
    cr_expect_null(all);
    cli_json_free(&all); /* nothing: no harm */
}

Test(cli_json, finds_nothing_in_nothing)
{
    int64_t number;
    cr_expect_null(cli_json_find_text(NULL, "a"));
    cr_expect_not(cli_json_find_number(NULL, "a", &number));
    cr_expect_null(cli_json_find_object(NULL, "a"));
    cr_expect_null(cli_json_find_array(NULL, "a"));
    cr_expect_not(cli_json_has(NULL, "a"));
    cr_expect_eq(cli_json_count(NULL), 0);
    cr_expect_null(cli_json_object_at(NULL, 0));
}

Test(cli_json, says_where_it_is_no_json)
{
    char problem[CLI_PROBLEM_BYTES_MAX] = "";
    cr_expect_null(cli_json_read("{\n\"a\":\n}", 8, problem));
    cr_expect_not_null(strstr(problem, "line 3: "), "%s", problem);
    cr_expect_null(cli_json_read("[]", 2, problem));
    cr_expect_str_eq(problem, "no JSON object");
    cr_expect_null(cli_json_read("{}", 1, problem), "bytes count, not a NUL");
}
