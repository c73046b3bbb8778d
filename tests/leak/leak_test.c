/* SPDX-License-Identifier: MPL-2.0 */
/* leak_test.c -- leaks, and nothing else is wrong: it must fail where leaks are looked for. */
#include <criterion/criterion.h>
#include <stdlib.h>

static void *volatile kept;

Test(leak, is_a_fault_of_a_test_that_passes)
{
    kept = malloc(100);
    cr_expect_not_null(kept);
    kept = NULL;
}
