/* SPDX-License-Identifier: MPL-2.0 */
/* session_courier_test.c -- a courier's session: what answers a fetch, and what comes too late. */
#include "libbus/session/session_courier.h"

#include "tests/unit/session_driver.h"

static struct driver d;

/* A courier names no party. */
static void courier_up(void)
{
    struct session_options options = driver_options("");
    options.is_courier = true;
    driver_init_with(&d, &options);
    driver_greet_to_attach(&d, false);
    driver_attached(&d);
}

static uint64_t fetch(const char *name)
{
    session_fetch(d.session, &(struct session_attachment){.job = span_text("train"),
                                                          .error = span_text("train/bob/1/1"),
                                                          .name = span_text(name)});
    return driver_expect(&d, MSG_FETCH).as.fetch.request;
}

static enum wire_code fetched(void)
{
    struct session_attached attached;
    struct span why;
    return session_fetched(d.session, &attached, &why);
}

static void say_fetched(uint64_t request, uint64_t count)
{
    driver_say(
        &d, &(struct msg){.type = MSG_FETCHED, .as.fetched = {.request = request, .count = count}});
}

Test(session_courier, is_done_with_the_answer_to_what_it_asked_last_alone)
{
    courier_up();
    uint64_t first = fetch("log");
    uint64_t second = fetch("stderr");
    cr_assert_eq(second, first + 1);
    say_fetched(first, 0); /* given up: it says nothing of the second */
    cr_expect_eq(fetched(), CODE_ETIMEDOUT);
    say_fetched(second, 0);
    cr_expect_eq(fetched(), CODE_OK);
    driver_fini(&d);
}

Test(session_courier, takes_no_second_answer_while_bytes_are_under_way)
{
    courier_up();
    uint64_t request = fetch("log");
    say_fetched(request, 100);
    cr_expect_eq(fetched(), CODE_ETIMEDOUT, "none of the 100 bytes is here");
    say_fetched(request, 0); /* repeated */
    cr_expect_eq(fetched(), CODE_ETIMEDOUT);
    driver_fini(&d);
}

Test(session_courier, breaks_with_a_broker_that_answers_what_was_not_asked)
{
    courier_up();
    uint64_t request = fetch("log");
    say_fetched(request + 1, 0);
    cr_expect_eq(session_state(d.session), SESSION_OVER);
    cr_expect_eq(fetched(), CODE_EPROTO);
    driver_fini(&d);
}
