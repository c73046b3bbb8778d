/* SPDX-License-Identifier: MPL-2.0 */
/* ready_test.c -- what /readyz says of a journal, and of a broker that does not answer. */
#include "clients/web/ready.h"

#include <bus/bus.h>
#include <criterion/criterion.h>
#include <string.h>

Test(ready, knows_each_state_of_a_journal)
{
    static const struct {
        const char *state;
        const char *words;
    } cases[] = {
        {"", "ready\n"},
        {"well", "ready\n"},
        {"full", "not ready: the journal's disk is full"},
        {"refused", "not ready: the journal cannot be written now"},
        {"failed", "not ready: the journal cannot be written any more"},
        {"of a later version", "not ready: the journal is in a state"},
    };
    char text[READY_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool is_ready = ready_say_journal(cases[i].state, text);
        cr_expect_eq(is_ready, strcmp(cases[i].words, "ready\n") == 0, "%s", cases[i].state);
        cr_expect_eq(strncmp(text, cases[i].words, strlen(cases[i].words)), 0, "%s", text);
        cr_expect_eq(text[strlen(text) - 1], '\n');
    }
}

Test(ready, says_why_a_broker_does_not_answer)
{
    char text[READY_BYTES];
    struct bus_error *error = bus_error_new("test.silent", NULL, "two seconds are over");
    cr_assert_not_null(error);
    cr_expect(!ready_say(NULL, error, text));
    cr_expect_str_eq(text, "not ready: the broker does not answer: two seconds are over\n");
    cr_expect(!ready_say(NULL, NULL, text));
    cr_expect_str_eq(text, "not ready: the broker does not answer: out of memory\n");
    bus_error_unref(&error);
}
