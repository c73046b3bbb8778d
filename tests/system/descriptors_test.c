/* SPDX-License-Identifier: MPL-2.0 */
/* descriptors_test.c -- parties whose processes have no descriptors left (brokers: storm_test.c):
 * who wants in is told so, who is in goes on and comes back when there are some again. */
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(descriptors, .init = revival_begin, .fini = revival_close, .timeout = 240);

static void expect_values(struct bus_sub *sub, uint64_t first, int count)
{
    for (int i = 0; i < count; i++) {
        expect_value(sub, "alice/w", first + (uint64_t)i, "x-%d", i);
    }
}

/* Her connections are gone, and no others are to be had: what she writes waits for them. */
Test(descriptors, that_are_all_taken_cost_a_party_nothing_but_time)
{
    enum { SOME = 20, TRIES_MS = 1000 };
    static const char *const words[] = {"heartbeat_ms=100", "lost_after_ms=20000",
                                        "reconnect_grace_ms=20000", NULL};
    struct party alice;
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    party_start(&alice, "alice", words);
    for (int round = 0; round < 2; round++) {
        party_do(&alice, "OK", "publish w %d x", SOME);
        party_do(&alice, "OK", "flush %d", (int)SOON_MS);
        expect_values(sub, (uint64_t)round * SOME, SOME);
        if (round == 0) /* both her connections are there */
            party_do(&alice, "OK", "descriptors 0");
    }
    revival_kill();
    revival_start("process", NULL);
    must_flush(bob);
    party_do(&alice, "OK", "publish w %d x", SOME);
    party_do(&alice, "TIMEDOUT", "flush %d", TRIES_MS);
    party_do(&alice, "OK", "descriptors 1");
    party_do(&alice, "OK", "flush %d", (int)SOON_MS);
    expect_values(sub, UINT64_C(2) * SOME, SOME);
    party_do(&alice, "OK", "close %d", (int)SOON_MS);
    expect_end(sub, NULL);
    party_fini(&alice);
    bus_sub_close(&sub);
    must_close(&bob);
}

/* With every number of free ones from none to plenty: it is told, or it works, and nothing that was
 * taken is kept. */
Test(descriptors, that_are_too_few_are_told_to_who_opens)
{
    enum { PLENTY = 60, OPEN_MS = 300 };
    struct rlimit before;
    int refused = 0;
    int opened = 0;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    int highest = dup(0);
    close(highest);
    for (int spare = 0; spare <= PLENTY; spare++) {
        struct rlimit few = {.rlim_cur = (rlim_t)(highest + spare), .rlim_max = before.rlim_max};
        struct bus_options options;
        struct bus *bus = NULL;
        struct bus_error *error = NULL;
        bus_options_init(&options);
        options.party = "late";
        options.reconnect_grace_ms = 0;
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
        enum bus_err err =
            bus_open(stage.control, &options, spare < PLENTY ? OPEN_MS : SOON_MS, &bus, &error);
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        cr_expect(err == BUS_OK || err == BUS_ENOMEM || err == BUS_ETIMEDOUT, "%d spare: %s", spare,
                  code_name(err));
        if (err == BUS_ENOMEM)
            cr_expect_not_null(strstr(bus_error_message(error), "ulimit -n"), "%s",
                               bus_error_message(error));
        refused += err == BUS_ENOMEM;
        opened = err == BUS_OK;
        bus_error_unref(&error);
        bus_close(&bus, SOON_MS);
        int now = dup(0);
        close(now);
        cr_expect_eq(now, highest, "%d spare, and %d is kept", spare, now - highest);
    }
    cr_expect_gt(refused, 10);
    cr_expect_eq(opened, 1, "with %d it works", PLENTY);
}
