/* SPDX-License-Identifier: MPL-2.0 */
/* exit_race.c -- the process ends while threads of it are in calls that fail: each keeps its last
 * error, and what keeps them goes. */
#include "tests/lib/race.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 4 };

static atomic_int failed;

static void *fail_on(void *arg)
{
    (void)arg;
    for (;;) {
        struct bus *bus = NULL;
        check(bus_open("nowhere", NULL, BUS_POLL, &bus, NULL) != BUS_OK);
        struct bus_error *error = bus_last_error(); /* NULL: the process ends */
        bus_error_unref(&error);
        atomic_fetch_add(&failed, 1);
    }
}

int main(int argc, char **argv)
{
    int rounds = race_rounds(argc, argv, 10000);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        check(pthread_create(&thread, NULL, fail_on, NULL) == 0);
        check(pthread_detach(thread) == 0);
    }
    while (atomic_load(&failed) < rounds)
        check_code(bus_open("nowhere", NULL, BUS_POLL, NULL, NULL), BUS_EINVAL);
    printf("%d rounds\n", rounds);
    return 0;
}
