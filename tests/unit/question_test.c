/* SPDX-License-Identifier: MPL-2.0 */
/* question_test.c -- requests below /api/: paths, arguments, escapes. */
#include "clients/web/question.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Arguments as "name=text", up to NULL. */
static const char *find(void *arg, const char *name)
{
    size_t bytes = strlen(name);
    for (const char *const *at = arg; *at != NULL; at++) {
        if (strncmp(*at, name, bytes) == 0 && (*at)[bytes] == '=') {
            return *at + bytes + 1;
        }
    }
    return NULL;
}

static enum question_fault read_with(const char *path, const char *const *arguments,
                                     struct question *out)
{
    const char *why = "";
    enum question_fault fault = question_read(path, find, (void *)(uintptr_t)arguments, out, &why);
    if (fault == QUESTION_MALFORMED) {
        cr_expect_eq(why[strlen(why) - 1], '\n', "%s", why);
    }
    return fault;
}

Test(question, knows_its_paths_and_no_other)
{
    static const char *const all[] = {"job=train", "id=train/a/1/1", "name=stderr", "from=7", NULL};
    static const char *const paths[QUESTION_KINDS] = {
        [QUESTION_STATUS] = "/api/status",   [QUESTION_WHY] = "/api/why",
        [QUESTION_VERDICT] = "/api/verdict", [QUESTION_EVENTS] = "/api/events",
        [QUESTION_ERROR] = "/api/error",     [QUESTION_ATTACHMENT] = "/api/attachment",
        [QUESTION_STREAM] = "/api/stream",
    };
    static const char *const others[] = {"/api",          "/api/",          "/api/status/",
                                         "/api//status",  "/api/../status", "/API/status",
                                         "/api/%73tatus", "/api/statusx",   ""};
    struct question question;
    for (int kind = 0; kind < QUESTION_KINDS; kind++) {
        cr_assert_eq(read_with(paths[kind], all, &question), QUESTION_OK, "%s", paths[kind]);
        cr_expect_eq(question.kind, (enum question_kind)kind);
        cr_expect_str_eq(question.job, "train");
        bool has_id = kind == QUESTION_ERROR || kind == QUESTION_ATTACHMENT;
        cr_expect_str_eq(question.id, has_id ? "train/a/1/1" : "",
                         "what is not needed is not kept");
        cr_expect_str_eq(question.name, kind == QUESTION_ATTACHMENT ? "stderr" : "");
        bool has_from = kind == QUESTION_EVENTS || kind == QUESTION_STREAM;
        cr_expect_eq(question.from, has_from ? 7 : 0);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        cr_expect_eq(read_with(others[i], all, &question), QUESTION_NO_PATH, "%s", others[i]);
    }
}

Test(question, needs_what_its_kind_needs)
{
    static const char *const none[] = {NULL};
    static const char *const empty[] = {"job=", NULL};
    static const char *const job[] = {"job=train", NULL};
    static const char *const id[] = {"job=train", "id=x", NULL};
    struct question question;
    cr_expect_eq(read_with("/api/status", none, &question), QUESTION_OK, "the whole broker");
    cr_expect_str_empty(question.job);
    cr_expect_eq(read_with("/api/why", none, &question), QUESTION_MALFORMED);
    cr_expect_eq(read_with("/api/why", empty, &question), QUESTION_MALFORMED);
    cr_expect_eq(read_with("/api/error", job, &question), QUESTION_MALFORMED);
    cr_expect_eq(read_with("/api/attachment", id, &question), QUESTION_MALFORMED);
}

Test(question, decodes_escapes_and_refuses_broken_ones)
{
    static const struct {
        const char *text;
        const char *decoded; /* NULL: refused */
    } cases[] = {
        {"", ""},
        {"a%20b", "a b"},
        {"%3Cimg%3e", "<img>"},
        {"%C3%BC", "\xc3\xbc"},
        {"%2B%25", "+%"},
        {"%", NULL},
        {"%4", NULL},
        {"%zz", NULL},
        {"%4g", NULL},
        {"a%00b", NULL},
        {"1234567", "1234567"},
        {"12345678", NULL},
        {"123456%37", "1234567"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[8] = "?";
        bool is_read = question_decode(cases[i].text, out, sizeof out);
        cr_expect_eq(is_read, cases[i].decoded != NULL, "%s", cases[i].text);
        if (is_read && cases[i].decoded != NULL) {
            cr_expect_str_eq(out, cases[i].decoded);
        }
    }
}

Test(question, takes_a_name_as_long_as_a_name_may_be)
{
    char text[BUS_NAME_BYTES_MAX + 8] = "job=";
    const char *const arguments[] = {text, NULL};
    struct question question;
    memset(text + 4, 'a', BUS_NAME_BYTES_MAX);
    cr_expect_eq(read_with("/api/why", arguments, &question), QUESTION_OK);
    cr_expect_eq(strlen(question.job), BUS_NAME_BYTES_MAX);
    text[4 + BUS_NAME_BYTES_MAX] = 'a';
    cr_expect_eq(read_with("/api/why", arguments, &question), QUESTION_MALFORMED);
}

Test(question, reads_whole_numbers_alone)
{
    static const char *const bad[] = {"", "-1", "1x", " 1", "18446744073709551616", "0x1"};
    uint64_t number = 0;
    cr_expect(question_number("18446744073709551615", &number));
    cr_expect_eq(number, UINT64_MAX);
    cr_expect(question_number("0", &number));
    cr_expect_eq(number, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_expect_not(question_number(bad[i], &number), "'%s'", bad[i]);
    }
}

Test(question, is_the_same_if_all_of_it_is)
{
    struct question one = {.kind = QUESTION_ERROR, .job = "a", .id = "b", .name = "c", .from = 1};
    struct question other = one;
    cr_expect(question_is_same(&one, &other));
    other.kind = QUESTION_EVENTS;
    cr_expect_not(question_is_same(&one, &other));
    other = one;
    other.job[0] = 'x';
    cr_expect_not(question_is_same(&one, &other));
    other = one;
    other.id[0] = 'x';
    cr_expect_not(question_is_same(&one, &other));
    other = one;
    other.name[0] = 'x';
    cr_expect_not(question_is_same(&one, &other));
    other = one;
    other.from = 2;
    cr_expect_not(question_is_same(&one, &other));
}
