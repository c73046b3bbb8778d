/* SPDX-License-Identifier: MPL-2.0 */
/* nearest_test.c -- which word somebody meant, and when nobody can know. */
#include "clients/nearest.h"

#include <criterion/criterion.h>
#include <string.h>

Test(nearest, finds_the_word_that_was_meant)
{
    static const char *const words[] = {"pub",     "sub",    "errors", "verdict",
                                        "request", "status", "worker", "reserve-only"};
    static const struct {
        const char *word;
        const char *meant; /* NULL: none */
    } cases[] = {
        {"pub", "pub"},
        {"pubb", "pub"}, /* one too many */
        {"pu", "pub"},   /* one too few */
        {"pbu", "pub"},  /* two swapped */
        {"sup", "sub"},  /* another one */
        {"bub", "pub"},  /* the first of two that are as near */
        {"p", NULL},     /* all of it would have to be another */
        {"xy", NULL},
        {"", NULL},
        {"stauts", "status"},
        {"sttaus", "status"},
        {"statu", "status"},
        {"staaatus", "status"}, /* two */
        {"staaaatus", NULL},    /* three */
        {"publish", NULL},
        {"resrve-onyl", "reserve-only"},
        {"reserve-onlyreserve-onlyreserve-only", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *meant = nearest_word(cases[i].word, words, sizeof words / sizeof words[0]);
        if (cases[i].meant == NULL)
            cr_expect_null(meant, "'%s' is no %s", cases[i].word, meant);
        else
            cr_expect(meant != NULL && strcmp(meant, cases[i].meant) == 0, "'%s' is %s",
                      cases[i].word, meant);
    }
    cr_expect_null(nearest_word("pub", words, 0));
}

/* At the limit of its length a word is still looked at. */
Test(nearest, looks_at_words_up_to_a_length)
{
    static const char longest[] = "abcdefghijklmnopqrstuvwxyzABCDEF"; /* 32 */
    static const char longer[] = "abcdefghijklmnopqrstuvwxyzABCDEFG";
    const char *const words[] = {longer, longest};
    cr_assert_eq(strlen(longest), NEAREST_BYTES_MAX);
    cr_expect_str_eq(nearest_word(longest, words, 2), longest);
    cr_expect_null(nearest_word(longer, words, 2));
}
