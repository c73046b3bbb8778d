/* SPDX-License-Identifier: MPL-2.0 */
/* heap.c -- of the broker for tests, one allocation fails where the environment says:
 *
 *   ERRBUS_NUMBER_FAIL_ALLOCATION=N   the Nth of its own; libzmq's are not counted
 *
 * Its objects ask allocation.h. */
#include "broker/io/failpoint.h"
#include "tests/lib/failpoint/allocation.h"

#include <stdatomic.h>
#include <stdbool.h>

static atomic_ulong asked;
static atomic_ulong fail_at; /* 0: not looked up yet */

bool allocation_is_granted(void)
{
    if (atomic_load(&fail_at) == 0)
        atomic_store(&fail_at, failpoint_number("FAIL_ALLOCATION", UINT64_MAX));
    return atomic_fetch_add(&asked, 1) + 1 != atomic_load(&fail_at);
}
