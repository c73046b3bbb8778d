/* SPDX-License-Identifier: MPL-2.0 */
/* names_test.c -- every word that the broker says stands for a value of a public enum, and back. */
#include "libbus/api/names.h"

#include "broker/core/tables/job.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/verdict.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect_state(const char *word)
{
    enum bus_state state = names_state(span_text(word));
    cr_expect_neq(state, BUS_STATE_UNKNOWN, "%s", word);
    cr_expect_str_eq(bus_state_name(state), word);
}

Test(names, has_every_state_that_the_broker_says)
{
    static const char *const others[] = {"lingering", "suspect", "grace", "live", "kept"};
    for (int state = 0; state < JOB_STATE_COUNT; state++)
        expect_state(job_state_name((enum job_state)state));
    for (int state = 0; state < PARTY_STATE_COUNT; state++)
        expect_state(party_state_name((enum party_state)state));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        expect_state(others[i]);
}

Test(names, has_every_reason_and_strategy_of_a_verdict)
{
    for (int i = 0; i < VERDICT_REASON_COUNT; i++) {
        const char *word = verdict_reason_name((enum verdict_reason)i);
        cr_expect_neq(names_reason(span_text(word)), BUS_REASON_UNKNOWN, "%s", word);
        cr_expect_str_eq(bus_report_reason_name(names_reason(span_text(word))), word);
    }
    for (int i = 0; i < VERDICT_STRATEGY_COUNT; i++) {
        const char *word = verdict_strategy_name((enum verdict_strategy)i);
        cr_expect_neq(names_strategy(span_text(word)), BUS_STRATEGY_UNKNOWN, "%s", word);
        cr_expect_str_eq(bus_strategy_name(names_strategy(span_text(word))), word);
    }
}

Test(names, has_a_word_for_each_outlook)
{
    cr_expect_str_eq(bus_outlook_name(BUS_OUTLOOK_UNKNOWN), "unknown");
    cr_expect_str_eq(bus_outlook_name(BUS_OUTLOOK_GOES_ON), "goes_on");
    cr_expect_str_eq(bus_outlook_name(BUS_OUTLOOK_ENDED_WELL), "ended_well");
    cr_expect_str_eq(bus_outlook_name(BUS_OUTLOOK_FAILED), "failed");
    cr_expect_str_eq(bus_outlook_name((enum bus_outlook)(BUS_OUTLOOK_FAILED + 1)), "unknown");
}

Test(names, says_unknown_of_what_it_does_not_know)
{
    static const char *const words[] = {"", "unheard_of", "unknown", "RUNNING", "runnin"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        cr_expect_eq(names_state(span_text(words[i])), BUS_STATE_UNKNOWN);
        cr_expect_eq(names_reason(span_text(words[i])), BUS_REASON_UNKNOWN);
        cr_expect_eq(names_strategy(span_text(words[i])), BUS_STRATEGY_UNKNOWN);
    }
    cr_expect_str_eq(bus_state_name((enum bus_state)(BUS_STATE_KEPT + 1)), "unknown");
    cr_expect_str_eq(bus_disclosure_name((enum bus_disclosure)0), "unknown", "0 has no word");
    cr_expect_str_eq(bus_durability_name((enum bus_durability) - 1), "unknown");
}

/* The words that everybody knows from strerror(3), where there is one. */
Test(names, has_usual_words_for_codes)
{
    cr_expect_str_eq(bus_strerror(BUS_EINVAL), "invalid argument");
    cr_expect_str_eq(bus_strerror(BUS_ENOMEM), "out of memory");
    cr_expect_str_eq(bus_strerror(BUS_ETIMEDOUT), "timed out");
    cr_expect_str_eq(bus_strerror(BUS_ETOOBIG), "too large");
    cr_expect_str_eq(bus_strerror(BUS_ESETTLED), "already settled");
    cr_expect_str_eq(bus_strerror(BUS_EDENIED), "permission denied");
}
