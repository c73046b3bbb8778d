/* SPDX-License-Identifier: MPL-2.0 */
/* skew.c -- wrong clocks for tests.  A program that is linked with this file, and its libraries,
 * see the clocks of the machine with an offset from the environment:
 *
 *   ERRBUS_SKEW_MONOTONIC=N   the monotonic clock is N seconds ahead, as if the machine had started
 *                             N seconds earlier
 *   ERRBUS_SKEW_WALL=N        the wall clock is N seconds ahead
 *   ERRBUS_SKEW_FILE=PATH     the file has two int64_t, seconds in the same order, which are added
 *                             at each reading: the clocks jump when the file is written
 *
 * Without these variables the clocks are right. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The libraries are to find these, whatever else is hidden. */
#pragma GCC visibility push(default)
int clock_gettime(clockid_t id, struct timespec *time);
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                           const struct timespec *until);
#pragma GCC visibility pop

/* Wall clocks count from 1970, the others from when a machine was started. */
#define WALL_SECONDS_MIN 1000000000

enum clock { CLOCK_OF_MACHINE, CLOCK_ON_WALL, CLOCKS };
static const char *const names[CLOCKS] = {"ERRBUS_SKEW_MONOTONIC", "ERRBUS_SKEW_WALL"};

typedef _Atomic int64_t jumps[CLOCKS];
static jumps none;
static jumps *jumped = &none;

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("ERRBUS_SKEW_FILE");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *found = fd >= 0 ? mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (found != MAP_FAILED)
        jumped = found;
    if (fd >= 0)
        close(fd);
}

static time_t seconds_ahead(enum clock clock)
{
    const char *value = getenv(names[clock]);
    return (value != NULL ? (time_t)strtoll(value, NULL, 10) : 0) +
           (time_t)atomic_load(&(*jumped)[clock]);
}

int clock_gettime(clockid_t id, struct timespec *time)
{
    int result = (int)syscall(SYS_clock_gettime, id, time);
    if (result == 0 && id == CLOCK_MONOTONIC)
        time->tv_sec += seconds_ahead(CLOCK_OF_MACHINE);
    else if (result == 0 && id == CLOCK_REALTIME)
        time->tv_sec += seconds_ahead(CLOCK_ON_WALL);
    return result;
}

typedef int timedwait_fn(pthread_cond_t *cond, pthread_mutex_t *mutex,
                         const struct timespec *until);

/* What it waits for is a moment of a clock that is read above; the one below is right. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                           const struct timespec *until)
{
    union {
        void *found;
        timedwait_fn *call;
    } next = {.found = dlsym(RTLD_NEXT, "pthread_cond_timedwait")};
    struct timespec right = *until;
    right.tv_sec -=
        seconds_ahead(until->tv_sec < WALL_SECONDS_MIN ? CLOCK_OF_MACHINE : CLOCK_ON_WALL);
    return next.call(cond, mutex, &right);
}
