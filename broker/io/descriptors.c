/* SPDX-License-Identifier: MPL-2.0 */
/* descriptors.c -- see descriptors.h. */
#include "broker/io/descriptors.h"

#include "libbus/base/limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    SPARE_DESCRIPTORS = 24, /* that libzmq and the loop open, and then some */
    OWN_DESCRIPTORS = 128,  /* kept from connections: for these, and the journal's files */
};

/* libzmq aborts when its own threads find no descriptors, so this checks that some are left. */
bool descriptors_are_enough(void)
{
    int fds[SPARE_DESCRIPTORS];
    int count = 0;
    while (count < SPARE_DESCRIPTORS) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            break;
        fds[count++] = fd;
    }
    bool is_enough = count == SPARE_DESCRIPTORS;
    while (count > 0)
        close(fds[--count]);
    return is_enough;
}

/* How many connections the descriptors are enough for.  Of few descriptors, they get half. */
uint32_t descriptors_for_connections(void)
{
    struct rlimit limit;
    rlim_t most = 2 * LIMIT_CONNECTIONS;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > most + OWN_DESCRIPTORS)
        return (uint32_t)most;
    bool is_small = limit.rlim_cur < 2 * OWN_DESCRIPTORS;
    return (uint32_t)(is_small ? limit.rlim_cur / 2 : limit.rlim_cur - OWN_DESCRIPTORS);
}
