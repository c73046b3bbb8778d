/* SPDX-License-Identifier: MPL-2.0 */
/* exit_test.c -- what a party said before its process ended comes out, however it ended. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

TestSuite(exit, .init = stage_open, .fini = stage_close, .timeout = 300);

enum { ROUNDS = 50, STATUS = 3, ENDS = 5 };

static void leaver_start(struct process *leaver, const char *what, const char *how)
{
    const char *line = NULL;
    const char *const argv[] = {"test_leaver", stage.control, what, how, NULL};
    cr_assert(process_start(leaver, argv, NULL), "test_leaver did not start");
    cr_assert(process_line(leaver, SOON_MS, &line), "%s", process_complained(leaver));
    cr_assert_str_eq(line, "ready");
}

/* Ends by itself, and how long that took. */
static int64_t leaver_end(struct process *leaver, int status)
{
    int64_t start_ms = test_now_ms();
    cr_assert(process_say(leaver, "go\n", 3));
    cr_expect_eq(process_wait(leaver, SOON_MS), status, "%s", process_complained(leaver));
    int64_t took_ms = test_now_ms() - start_ms;
    process_fini(leaver);
    return took_ms;
}

/* Before anybody can have noticed that the connection is gone for good. */
static void expect_failed_party(struct bus_tap *tap, const char *how, int round)
{
    for (;;) {
        const struct bus_event *event = NULL;
        cr_assert_eq(bus_tap_next(tap, SOON_MS, &event, NULL), BUS_OK, "%s", how);
        const char *name = bus_event_name(event);
        if (strcmp(name, "party.failed") == 0) {
            cr_expect_str_eq(bus_error_type(bus_event_error(event)), "app.leaver", "%s", how);
            return;
        }
        cr_assert(strcmp(name, "party.lost") != 0, "%s, round %d: lost, not failed", how, round);
    }
}

static void expect_rounds(const char *how, int rounds)
{
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    for (int round = 0; round < rounds; round++) {
        struct process leaver;
        leaver_start(&leaver, "fail", how);
        (void)leaver_end(&leaver, strcmp(how, "abort") == 0 ? 128 + SIGABRT : STATUS);
        expect_failed_party(tap, how, round);
    }
    bus_tap_close(&tap);
}

Test(exit, in_the_failure_handler_leaves_the_error_behind)
{
    expect_rounds("handler", ROUNDS);
}

Test(exit, in_the_handler_while_main_closes_leaves_the_error_behind)
{
    expect_rounds("closing", ROUNDS);
}

Test(exit, right_after_bus_fail_leaves_the_error_behind)
{
    static const char *const ways[] = {"exit", "waiting", "thread", "atexit",
                                       "fork", "flush",   "abort"};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        expect_rounds(ways[i], ROUNDS / 5);
}

/* Slots are numbered on from incarnation to incarnation. */
Test(exit, leaves_values_and_failed_slots_behind)
{
    struct bus *bob = must_open("bob");
    static const char *const ways[] = {"exit", "waiting", "thread", "atexit", "fork", "flush"};
    uint64_t seq = 0;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct process leaver;
        leaver_start(&leaver, "value", ways[i]);
        (void)leaver_end(&leaver, STATUS);
        expect_awaited(bob, "alice/w", seq++, "last");
        leaver_start(&leaver, "slot", ways[i]);
        (void)leaver_end(&leaver, STATUS);
        struct bus_error *error = expect_await_failed(bob, "alice/w", seq++, "application");
        cr_expect_str_eq(bus_error_type(error), "app.leaver", "%s", ways[i]);
        bus_error_unref(&error);
    }
    must_close(&bob);
}

Test(exit, in_a_signal_handler_ends_the_process)
{
    for (int round = 0; round < 3; round++) {
        struct process leaver;
        leaver_start(&leaver, "nothing", "signal");
        cr_expect_lt(leaver_end(&leaver, STATUS), 1000 + 1000 + AT_ONCE_MS);
    }
}

/* The library stays: its threads run, and the end of the process waits for their answers. */
Test(exit, of_a_process_that_unloaded_the_library_leaves_its_values_behind)
{
    struct bus *bob = must_open("bob");
    for (uint64_t round = 0; round < 3; round++) {
        struct process unloader;
        const char *const argv[] = {"test_unloader", stage.control, NULL};
        cr_assert(process_start(&unloader, argv, NULL), "test_unloader did not start");
        cr_expect_eq(process_wait(&unloader, SOON_MS), STATUS, "%s", process_complained(&unloader));
        process_fini(&unloader);
        expect_awaited(bob, "alice/w", 2 * round, "before");
        expect_awaited(bob, "alice/w", 2 * round + 1, "after");
    }
    must_close(&bob);
}

/* A broker that answers nothing: what is unsaid is given up after a second, and where nothing is,
 * nothing is waited for.  A busy machine delays some of several ends, and not each. */
Test(exit, has_a_bound_without_a_broker)
{
    static const struct {
        const char *what;
        int64_t least_ms;
        int64_t most_ms;
    } cases[] = {
        {"nothing", 0, 900}, {"fail", 900, 1000 + AT_ONCE_MS}, {"more", 900, 1000 + AT_ONCE_MS}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t shortest_ms = INT64_MAX;
        for (int end = 0; end < ENDS && shortest_ms >= cases[i].most_ms; end++) {
            struct process leaver;
            leaver_start(&leaver, cases[i].what, "exit");
            process_signal(&stage.process, SIGSTOP);
            int64_t took_ms = leaver_end(&leaver, STATUS);
            process_signal(&stage.process, SIGCONT);
            cr_expect_geq(took_ms, cases[i].least_ms, "%s", cases[i].what);
            shortest_ms = took_ms < shortest_ms ? took_ms : shortest_ms;
        }
        cr_expect_lt(shortest_ms, cases[i].most_ms, "%s", cases[i].what);
    }
}
