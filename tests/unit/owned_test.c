/* SPDX-License-Identifier: MPL-2.0 */
/* owned_test.c -- when the bytes of the application go back to it: at once, or, while its thread
 * holds a lock, behind that. */
#include "libbus/api/owned.h"

#include <criterion/criterion.h>

static unsigned freed;
static void *freed_value;
static void *freed_arg;

static void count_free(void *value, void *arg)
{
    freed++;
    freed_value = value;
    freed_arg = arg;
}

static char value[] = "of the application";
static int arg;

static struct buffer *must_own(void)
{
    struct buffer *buffer = owned_new(value, sizeof value, count_free, &arg);
    cr_assert_not_null(buffer);
    return buffer;
}

Test(owned, goes_back_at_once_where_no_lock_is_held)
{
    struct buffer *buffer = must_own();
    buffer_unref(&buffer);
    cr_expect_eq(freed, 1);
    cr_expect_eq(freed_value, value);
    cr_expect_eq(freed_arg, &arg);
    cr_expect_null(api_thread.put_aside);
}

/* What it calls may take that lock. */
Test(owned, goes_back_behind_the_lock)
{
    struct buffer *first = must_own();
    struct buffer *second = must_own();
    api_thread.locks_held = 1;
    buffer_unref(&first);
    buffer_unref(&second);
    cr_expect_eq(freed, 0);
    api_thread.locks_held = 0;
    owned_release_put_aside();
    cr_expect_eq(freed, 2);
    cr_expect_null(api_thread.put_aside);
}

/* A call that fails leaves the value to its caller. */
Test(owned, stays_with_the_application_that_is_refused)
{
    struct buffer *buffer = must_own();
    owned_discard(&buffer);
    cr_expect_null(buffer);
    cr_expect_eq(freed, 0);
}
