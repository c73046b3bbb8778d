/* SPDX-License-Identifier: MPL-2.0 */
/* ready.c -- see ready.h. */
#include "libbus/io/ready.h"

#include <stddef.h>
#include <zmq.h>

bool ready_has(void *socket, int events)
{
    int has = 0;
    size_t bytes = sizeof has;
    return zmq_getsockopt(socket, ZMQ_EVENTS, &has, &bytes) == 0 && (has & events) != 0;
}

int ready_fd(void *socket)
{
    int fd = -1;
    size_t bytes = sizeof fd;
    return zmq_getsockopt(socket, ZMQ_FD, &fd, &bytes) == 0 ? fd : -1;
}
