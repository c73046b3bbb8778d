/* SPDX-License-Identifier: MPL-2.0 */
/* clock.c -- clocks, deadlines, and random numbers. */
#include "libbus/api/clock.h"

#include "libbus/api/model.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
#define SLICE_MS 100 /* so soon a caller looks at its signals */

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

const char *api_time_text(int64_t wall_ns, char text[API_TIME_BYTES_MAX])
{
    const time_t seconds = (time_t)(wall_ns / NS_PER_S);
    struct tm utc;
    bool is_told = gmtime_r(&seconds, &utc) != NULL &&
                   strftime(text, API_TIME_BYTES_MAX, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0;
    if (!is_told)
        (void)snprintf(text, API_TIME_BYTES_MAX, "an unknown time");
    return text;
}

/* Field 22 of /proc/self/stat: when this process began, in ticks since the system was started.  The
 * name of the program stands in brackets, and may itself have brackets and blanks.  So the fields
 * are counted behind the last bracket. */
static int64_t began_ticks(void)
{
    enum { STAT_BYTES = 1024, FIELDS_BEFORE = 20 };
    char text[STAT_BYTES];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        (void)close(fd);
    text[bytes > 0 ? bytes : 0] = '\0';
    const char *at = strrchr(text, ')');
    for (int i = 0; at != NULL && i < FIELDS_BEFORE; i++)
        at = strchr(at + 1, ' ');
    return at != NULL ? strtoll(at, NULL, 10) : -1;
}

int64_t api_process_began_ns(void)
{
    int64_t now_ns = api_now_ns();
    int64_t ticks = began_ticks();
    long ticks_per_s = sysconf(_SC_CLK_TCK);
    if (ticks < 0 || ticks_per_s <= 0)
        return now_ns;
    int64_t age_ns = clock_ns(CLOCK_BOOTTIME) - ticks * (NS_PER_S / ticks_per_s);
    return age_ns > 0 ? now_ns - age_ns : now_ns;
}

int64_t api_deadline_ns(int64_t timeout_ms)
{
    if (timeout_ms == BUS_FOREVER)
        return INT64_MAX;
    int64_t now_ns = api_now_ns();
    if (timeout_ms < 0)
        timeout_ms = SLICE_MS;
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
