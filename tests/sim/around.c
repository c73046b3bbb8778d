/* SPDX-License-Identifier: MPL-2.0 */
/* around.c -- the linker puts these functions in the place of others (tests/CMakeLists.txt): the
 * product knows nothing of it. */
#include "tests/sim/around.h"

#include <stdio.h>
#include <unistd.h>

#define WALL_NS INT64_C(1700000000000000000)
enum { PROCESS = 4711 };

int64_t __wrap_api_now_ns(void);
int64_t __wrap_api_wall_ns(void);
int __wrap_gethostname(char *out, size_t room);
pid_t __wrap_getpid(void);

static int64_t clock_ns;
static char host_name[AROUND_HOST_BYTES];

void around_set(int64_t now_ns, const char *host)
{
    clock_ns = now_ns;
    (void)snprintf(host_name, sizeof host_name, "%s", host); /* it is short enough */
}

int64_t __wrap_api_now_ns(void)
{
    return clock_ns;
}

int64_t __wrap_api_wall_ns(void)
{
    return WALL_NS + clock_ns;
}

int __wrap_gethostname(char *out, size_t room)
{
    (void)snprintf(out, room, "%s", host_name); /* there is room for any name */
    return 0;
}

pid_t __wrap_getpid(void)
{
    return PROCESS;
}
