/* SPDX-License-Identifier: MPL-2.0 */
/* clock_test.c -- the random number of a client, where the system gives some and where not. */
#include "libbus/api/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/types.h>

#define NUMBER UINT64_C(0x123456789abcdef)

static ssize_t given; /* bytes, or -1 */
ssize_t __wrap_getrandom(void *buffer, size_t bytes, unsigned flags);

/* The linker puts it in the place of getrandom(). */
ssize_t __wrap_getrandom(void *buffer, size_t bytes, unsigned flags)
{
    const uint64_t number = NUMBER;
    (void)flags; /* it never waits */
    cr_assert_eq(bytes, sizeof number);
    if (given > 0)
        memcpy(buffer, &number, (size_t)given);
    else
        errno = EAGAIN;
    return given;
}

Test(clock, gives_a_random_number_of_the_system)
{
    given = sizeof(uint64_t);
    cr_expect_eq(api_random(), NUMBER);
}

/* The broker takes 0 for a client that it does not know. */
Test(clock, gives_no_number_where_the_system_gives_none)
{
    given = -1;
    cr_expect_eq(api_random(), 0);
    given = sizeof(uint64_t) - 1;
    cr_expect_eq(api_random(), 0);
}
