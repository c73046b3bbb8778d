/* SPDX-License-Identifier: MPL-2.0 */
/* event_fd.c -- descriptors that become readable when something happened. */
#include "libbus/api/event_fd.h"

#include "libbus/api/model.h"

#include <sys/eventfd.h>
#include <unistd.h>

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
