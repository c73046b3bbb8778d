/* SPDX-License-Identifier: MPL-2.0 */
/* alone_test.c -- which threads of a process are counted, and how many may be. */
#include "libbus/api/alone.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/time.h>

enum { TASKS_MAX = 256 /* as in alone.c */, STACK_BYTES = 64 * 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t threads[TASKS_MAX];
static unsigned thread_count;

static void *wait_for_lock(void *arg)
{
    (void)pthread_mutex_lock(&lock); /* it can be locked */
    (void)pthread_mutex_unlock(&lock);
    return arg;
}

static void start_threads(unsigned count)
{
    pthread_attr_t attributes;
    cr_assert_eq(pthread_attr_init(&attributes), 0);
    cr_assert_eq(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    for (; thread_count < count; thread_count++)
        cr_assert_eq(pthread_create(&threads[thread_count], &attributes, wait_for_lock, NULL), 0);
    (void)pthread_attr_destroy(&attributes); /* it was made */
}

static void set_up(void)
{
    (void)pthread_mutex_lock(&lock); /* it can be locked */
}

static void tear_down(void)
{
    (void)pthread_mutex_unlock(&lock); /* set_up() locked it */
    while (thread_count > 0)
        (void)pthread_join(threads[--thread_count], NULL); /* it was started */
}

/* The threads of the process as it began: those of the test's own framework. */
static unsigned first_threads(void)
{
    unsigned count = 0;
    while (!alone_is(count))
        cr_assert_lt(++count, TASKS_MAX, "the process is never alone");
    return count;
}

TestSuite(alone, .init = set_up, .fini = tear_down, .timeout = 60);

Test(alone, is_a_process_whose_threads_are_all_blocked)
{
    unsigned before = first_threads();
    start_threads(3);
    cr_expect_not(alone_is(before + 2));
    cr_expect(alone_is(before + 3));
    cr_expect(alone_is(before + 4));
}

Test(alone, is_no_process_with_too_many_threads)
{
    unsigned before = first_threads();
    start_threads(TASKS_MAX - 1 - before);
    cr_expect(alone_is(TASKS_MAX - 1));
    start_threads(TASKS_MAX - before);
    cr_expect_not(alone_is(TASKS_MAX));
    cr_expect_not(alone_is(TASKS_MAX + 1));
}

Test(alone, is_no_process_that_a_timer_will_wake)
{
    struct itimerval timer = {.it_value = {.tv_sec = 600}};
    unsigned before = first_threads();
    cr_assert_eq(setitimer(ITIMER_REAL, &timer, NULL), 0);
    cr_expect_not(alone_is(before));
    timer.it_value.tv_sec = 0;
    cr_assert_eq(setitimer(ITIMER_REAL, &timer, NULL), 0);
    cr_expect(alone_is(before));
}

/* A thread of the library is not one that the caller has to count. */
Test(alone, counts_threads_of_the_library_by_themselves)
{
    unsigned before = first_threads();
    start_threads(1);
    cr_expect_not(alone_is(before));
    alone_thread_begins();
    cr_expect(alone_is(before));
    alone_thread_ends();
    cr_expect_not(alone_is(before));
}
