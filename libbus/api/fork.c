/* SPDX-License-Identifier: MPL-2.0 */
/* fork.c -- counts forks, so that a child can tell that a handle belongs to its parent. */
#include "libbus/api/fork.h"

#include "libbus/api/alone.h"
#include "libbus/api/model.h"

atomic_uint fork_generation;

static void count_fork(void)
{
    atomic_fetch_add_explicit(&fork_generation, 1, memory_order_relaxed);
    alone_forked();
}

static void watch_forks(void)
{
    /* Without memory for it a child that goes on without exec is not told from its parent. */
    (void)pthread_atfork(NULL, NULL, count_fork);
}

unsigned fork_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    return atomic_load_explicit(&fork_generation, memory_order_relaxed);
}
