/* SPDX-License-Identifier: MPL-2.0 */
/* fence_test.c -- a broker whose journal another broker has taken over ends, and says so. */
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(fence, .init = revival_open, .fini = revival_close, .timeout = 120);

/* The file of the lock is removed, so a second broker gets in.  What the first one accepts from now
 * on would be lost, or lie across what the second one writes: so it accepts nothing. */
static void expect_fenced(const char *durability)
{
    char lock[sizeof revival.journal + 8];
    struct broker second;
    snprintf(lock, sizeof lock, "%s/lock", revival.journal);
    revival_start(durability, NULL);
    struct bus *alice = must_open("alice");
    struct bus_slot *slot = must_reserve(alice, "behind");
    must_publish(alice, "before", "1");
    must_flush(alice);
    cr_assert_eq(unlink(lock), 0);
    cr_assert(broker_start(&second, (const char *const[]){"--journal", revival.journal, NULL}));
    must_commit(&slot, "2");
    cr_expect_eq(process_wait(&stage.process, SOON_MS), 1);
    const char *said = process_complained(&stage.process);
    cr_expect(strstr(said, "journal: the journal cannot be written any more: "
                           "another broker has taken over the journal in '") != NULL,
              "%s", said);
    (void)bus_close(&alice, 0); /* nobody is there to hear of it */
    cr_expect_eq(broker_stop(&second, SOON_MS), 0, "%s", process_complained(&second.process));
    broker_fini(&second);
    broker_fini(&stage);
}

Test(fence, ends_the_first_broker_at_its_next_sync)
{
    expect_fenced("disk");
}

Test(fence, ends_it_also_where_a_flush_beside_syncs)
{
    expect_fenced("process");
}
