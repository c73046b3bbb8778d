/* SPDX-License-Identifier: MPL-2.0 */
/* open_list.c -- the parties that this process has open, so that its exit can flush them.
 *
 * The process may end anywhere: in a signal handler that interrupted a call, or while other threads
 * are in calls. So each wait for a lock has a bound. */
#include "libbus/api/open_list.h"

#include "libbus/api/clock.h"
#include "libbus/api/fork.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"

#include <time.h>

#define LOOK_NS 1000000 /* between two tries to take a lock */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list open_buses = {.prev = &open_buses, .next = &open_buses};

void open_list_add(struct bus *bus)
{
    pthread_mutex_lock(&list_lock);
    list_push(&open_buses, &bus->open);
    pthread_mutex_unlock(&list_lock);
}

void open_list_remove(struct bus *bus)
{
    pthread_mutex_lock(&list_lock);
    list_remove(&bus->open);
    pthread_mutex_unlock(&list_lock);
}

/* false: the deadline has passed.  ThreadSanitizer does not know pthread_mutex_clocklock(). */
static bool lock_until(pthread_mutex_t *lock, int64_t deadline_ns)
{
    while (pthread_mutex_trylock(lock) != 0) {
        if (api_now_ns() >= deadline_ns)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
    return true;
}

void open_list_visit(int64_t deadline_ns, void (*visit)(struct bus *bus, int64_t deadline_ns))
{
    if (api_thread.locks_held > 0 || !lock_until(&list_lock, deadline_ns))
        return;
    LIST_EACH(link, &open_buses) {
        struct bus *bus = LIST_OWNER(link, struct bus, open);
        if (api_is_foreign(bus) || !lock_until(&bus->lock, deadline_ns))
            continue;
        api_thread.locks_held++;
        visit(bus, deadline_ns);
        api_unlock(bus);
    }
    pthread_mutex_unlock(&list_lock);
}
