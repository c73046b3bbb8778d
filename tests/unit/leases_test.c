/* SPDX-License-Identifier: MPL-2.0 */
/* leases_test.c -- what a member of groups has: until the broker has accepted what became of it. */
#include "libbus/session/leases.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>

static struct memory memory;
static struct leases leases;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    leases_init(&leases, &memory);
}

static void fini(void)
{
    leases_fini(&leases);
    must(memory.bytes_used == 0);
}

TestSuite(leases, .init = init, .fini = fini);

static struct lease *add(uint32_t sub, uint64_t seq)
{
    struct lease *lease = leases_add(&leases);
    cr_assert_not_null(lease);
    lease->sub = sub;
    lease->topic = 7;
    lease->seq = seq;
    lease->delivery = 1;
    return lease;
}

static struct lease *find(uint32_t sub, uint32_t topic, uint64_t seq, uint8_t delivery)
{
    return leases_find_task(&leases, &(struct lease_key){sub, topic, seq, delivery});
}

Test(leases, are_here_until_what_became_of_them_is_accepted)
{
    struct lease *lease = add(1, 5);
    uint64_t number = lease->number;
    cr_expect_eq(leases_find(&leases, number), lease);
    leases_settle(&leases, lease, LEASE_REJECTED, 100, span_text("why"), 3);
    cr_expect_null(leases_find(&leases, number), "nobody settles it twice");
    cr_expect_eq(find(1, 7, 5, 1), lease);
    cr_expect_eq(lease->state, LEASE_DUE);
    cr_expect_eq(lease->end, LEASE_REJECTED);
    cr_expect_eq(lease->retry_after_ms, 100);
    cr_expect_eq(lease->after_upload, 3);
    cr_expect(span_equal(buffer_span(lease->error), span_text("why")));
    leases_said(&leases, lease, 10);
    leases_accept(&leases, 9);
    cr_expect_eq(find(1, 7, 5, 1), lease);
    leases_accept(&leases, 10);
    cr_expect_null(find(1, 7, 5, 1));
}

Test(leases, are_found_by_sub_topic_slot_and_delivery)
{
    struct lease *lease = add(1, 5);
    cr_expect_eq(find(1, 7, 5, 1), lease);
    cr_expect_null(find(2, 7, 5, 1));
    cr_expect_null(find(1, 8, 5, 1));
    cr_expect_null(find(1, 7, 6, 1));
    cr_expect_null(find(1, 7, 5, 2));
}

Test(leases, that_are_over_are_gone_when_they_are_settled)
{
    struct lease *lease = add(1, 5);
    lease->is_over = true;
    leases_settle(&leases, lease, LEASE_DONE, 0, SPAN_NONE, 0);
    cr_expect_null(find(1, 7, 5, 1));
    cr_expect(list_is_empty(&leases.due));
}

Test(leases, of_a_closed_subscription_go_but_what_is_due_of_it_stays)
{
    uint64_t held = add(1, 5)->number;
    uint64_t other = add(2, 5)->number;
    struct lease *due = add(1, 6);
    leases_settle(&leases, due, LEASE_DONE, 0, SPAN_NONE, 0);
    leases_drop(&leases, 1);
    cr_expect_null(leases_find(&leases, held));
    cr_expect_not_null(leases_find(&leases, other));
    cr_expect_eq(find(1, 7, 6, 1), due);
}

static bool was_lost(uint64_t seq)
{
    return leases_was_lost(&leases, &(struct lease_key){1, 7, seq, 1});
}

Test(leases, that_were_over_before_they_began_are_remembered_once)
{
    leases_lose(&leases, &(struct lease_key){1, 7, 5, 1});
    cr_expect_not(was_lost(6));
    cr_expect(was_lost(5));
    cr_expect_not(was_lost(5));
    leases_lose(&leases, &(struct lease_key){1, 7, 5, 1});
    leases_drop(&leases, 1);
    cr_expect_not(was_lost(5), "its subscription is closed");
    for (uint64_t seq = 0; seq <= LEASES_LOST_MAX; seq++)
        leases_lose(&leases, &(struct lease_key){1, 7, seq, 1});
    cr_expect_not(was_lost(0), "the oldest is forgotten");
    cr_expect(was_lost(1));
}

Test(leases, have_numbers_that_are_never_used_again)
{
    uint64_t first = add(1, 5)->number;
    leases_drop(&leases, 1);
    cr_expect_neq(add(1, 5)->number, first);
    cr_expect_null(leases_find(&leases, first));
}

Test(leases, are_none_without_memory)
{
    memory.bytes_max = memory.bytes_used;
    cr_expect_null(leases_add(&leases));
    memory.bytes_max = UINT64_MAX;
    (void)add(1, 1);
}
