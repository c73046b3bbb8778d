/* SPDX-License-Identifier: MPL-2.0 */
/* core.c -- what every call stands on: clocks, descriptors, the lock and waiting with it, and the
 * application's buffers, which are never released with a lock held. */
#include "libbus/api/api_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "libbus/base/must.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

atomic_uint core_fork_generation;

API_OWN_THREAD struct api_thread api_thread;

/* ---- forks ----------------------------------------------------------------------------------- */

static void count_fork(void)
{
    atomic_fetch_add_explicit(&core_fork_generation, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    /* Without memory for it a child that goes on without exec is not told from its parent. */
    (void)pthread_atfork(NULL, NULL, count_fork);
}

unsigned core_watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    return atomic_load_explicit(&core_fork_generation, memory_order_relaxed);
}

/* ---- buffers of the application -------------------------------------------------------------- */

struct owned {
    struct buffer buffer;
    void (*free_fn)(void *value, void *arg);
    void *arg;
    struct owned *next; /* while it is put aside */
};

static void owned_free(struct owned *owned)
{
    if (owned->free_fn != NULL)
        owned->free_fn(owned->buffer.data, owned->arg);
    free(owned);
}

static void owned_release(struct buffer *buffer)
{
    struct owned *owned = buffer->owner;
    if (api_thread.locks_held == 0) {
        owned_free(owned);
        return;
    }
    owned->next = api_thread.put_aside;
    api_thread.put_aside = owned;
}

static void release_put_aside(void)
{
    while (api_thread.put_aside != NULL) {
        struct owned *owned = api_thread.put_aside;
        api_thread.put_aside = owned->next;
        owned_free(owned);
    }
}

struct buffer *owned_new(void *value, size_t value_bytes, void (*free_fn)(void *, void *),
                         void *arg)
{
    struct owned *owned = calloc(1, sizeof *owned);
    if (owned == NULL)
        return NULL;
    atomic_init(&owned->buffer.refs, 1);
    owned->buffer.data = value;
    owned->buffer.bytes = value_bytes;
    owned->buffer.room = value_bytes;
    owned->buffer.release = owned_release;
    owned->buffer.owner = owned;
    owned->free_fn = free_fn;
    owned->arg = arg;
    return &owned->buffer;
}

void owned_discard(struct buffer **buffer)
{
    struct owned *owned = (*buffer)->owner;
    owned->free_fn = NULL;
    buffer_unref(buffer);
}

/* ---- clocks, descriptors --------------------------------------------------------------------- */

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

uint64_t api_random(void)
{
    uint64_t random;
    return getrandom(&random, sizeof random, GRND_NONBLOCK) == (ssize_t)sizeof random ? random : 0;
}

int64_t api_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

int64_t api_wall_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

void api_see_time(struct bus *bus, int64_t now_ns)
{
    bus->stamp_ns = now_ns;
    bus->stamp_uses = API_STAMP_USES;
}

int64_t api_deadline_ns(int64_t timeout_ms)
{
    if (timeout_ms == BUS_FOREVER)
        return INT64_MAX;
    int64_t now_ns = api_now_ns();
    return timeout_ms > (INT64_MAX - now_ns) / NS_PER_MS ? INT64_MAX
                                                         : now_ns + timeout_ms * NS_PER_MS;
}

int64_t api_left_ms(int64_t deadline_ns)
{
    if (deadline_ns == INT64_MAX)
        return BUS_FOREVER;
    int64_t left_ns = deadline_ns - api_now_ns();
    return left_ns > 0 ? (left_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
}

int api_event_fd(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void api_signal_fd(int fd)
{
    const uint64_t one = 1;
    if (fd >= 0)
        (void)!write(fd, &one, sizeof one); /* full means that it is readable already */
}

void api_clear_fd(int fd)
{
    uint64_t count;
    if (fd >= 0)
        (void)!read(fd, &count, sizeof count); /* empty is what is wanted */
}

/* ---- lock and waits -------------------------------------------------------------------------- */

void api_after_unlock(struct bus *bus, bool has_waited)
{
    if (api_thread.put_aside != NULL && api_thread.locks_held == 0)
        release_put_aside();
    if (has_waited)
        api_unref(bus);
}

void api_wake(struct bus *bus)
{
    if (!bus->is_asleep)
        return;
    bus->is_asleep = false;
    link_wake(bus->link);
}

void api_unlock_wake(struct bus *bus)
{
    api_wake(bus);
    api_unlock(bus);
}

/* A handler may close the bus meanwhile: it goes when we are out of it. */
void api_wait_begin(struct bus *bus)
{
    if (api_thread.has_waited)
        return;
    api_thread.has_waited = true;
    api_ref(bus);
}

bool api_wait(struct bus *bus, pthread_cond_t *cond, unsigned *waiters, int64_t deadline_ns)
{
    if (deadline_ns != INT64_MAX && api_now_ns() >= deadline_ns)
        return false;
    if (api_thread.put_aside != NULL) { /* what is waited for may depend on it */
        api_ref(bus);
        api_unlock(bus);
        api_lock(bus);
        api_thread.has_waited = true;
        return true;
    }
    api_wait_begin(bus);
    int result = 0;
    *waiters += 1;
    if (deadline_ns == INT64_MAX) {
        result = pthread_cond_wait(cond, &bus->lock);
    } else {
        const struct timespec until = {.tv_sec = (time_t)(deadline_ns / NS_PER_S),
                                       .tv_nsec = (long)(deadline_ns % NS_PER_S)};
        result = pthread_cond_timedwait(cond, &bus->lock, &until);
    }
    *waiters -= 1;
    must(result == 0 || result == ETIMEDOUT);
    return true; /* the next call finds out about the deadline, after another look */
}

bool api_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool is_made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                   pthread_cond_init(cond, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return is_made;
}
