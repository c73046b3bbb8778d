/* SPDX-License-Identifier: MPL-2.0 */
/* refused_addresses_test.c -- an address is refused for its time and no longer, and there is room
 * for so many. */
#include "broker/io/refused_addresses.h"

#include <criterion/criterion.h>

#define TIME_NS (LIMIT_REFUSED_ADDRESS_MS * INT64_C(1000000))

static struct refused_addresses refused;

Test(refused_addresses, go_when_their_time_is_over)
{
    cr_expect_eq(refused_addresses_due_ns(&refused), INT64_MAX);
    cr_expect_not(refused_addresses_take_change(&refused, 0));
    refused_addresses_add(&refused, 7, 10);
    refused_addresses_add(&refused, 8, 20);
    cr_expect(refused_addresses_take_change(&refused, 20));
    cr_expect_not(refused_addresses_take_change(&refused, 20));
    cr_expect_eq(refused_addresses_due_ns(&refused), 10 + TIME_NS);
    cr_expect(refused_addresses_has(&refused, 7, 9 + TIME_NS));
    cr_expect_not(refused_addresses_take_change(&refused, 9 + TIME_NS));
    cr_expect_not(refused_addresses_has(&refused, 7, 10 + TIME_NS));
    cr_expect(refused_addresses_take_change(&refused, 10 + TIME_NS));
    cr_expect(refused_addresses_has(&refused, 8, 10 + TIME_NS));
    cr_expect_eq(refused_addresses_due_ns(&refused), 20 + TIME_NS);
    cr_expect(refused_addresses_take_change(&refused, INT64_MAX));
    cr_expect_eq(refused.count, 0);
}

Test(refused_addresses, keep_their_time_when_they_come_again)
{
    refused_addresses_add(&refused, 7, 10);
    refused_addresses_add(&refused, 7, 20);
    cr_expect_eq(refused.count, 1);
    cr_expect_eq(refused.total, 1);
    cr_expect_not(refused_addresses_has(&refused, 7, 10 + TIME_NS));
    refused_addresses_add(&refused, 7, 10 + TIME_NS); /* the first time is over */
    cr_expect_eq(refused.count, 1);
    cr_expect_eq(refused.total, 2);
    cr_expect(refused_addresses_has(&refused, 7, 9 + 2 * TIME_NS));
}

Test(refused_addresses, have_room_for_so_many)
{
    for (uint64_t address = 1; address <= LIMIT_REFUSED_ADDRESSES + 1; address++)
        refused_addresses_add(&refused, address, 0);
    cr_expect(refused_addresses_has(&refused, LIMIT_REFUSED_ADDRESSES, 0));
    cr_expect_not(refused_addresses_has(&refused, LIMIT_REFUSED_ADDRESSES + 1, 0));
    cr_expect_eq(refused.last, LIMIT_REFUSED_ADDRESSES);
    refused_addresses_add(&refused, LIMIT_REFUSED_ADDRESSES + 1, TIME_NS);
    cr_expect(refused_addresses_has(&refused, LIMIT_REFUSED_ADDRESSES + 1, TIME_NS));
}
