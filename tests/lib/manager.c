/* SPDX-License-Identifier: MPL-2.0 */
/* manager.c -- see manager.h. */
#include "tests/lib/manager.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void manager_listen(struct manager *manager, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    cr_assert_lt(strlen(name), sizeof address.sun_path);
    memcpy(address.sun_path, name, strlen(name));
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(manager->fd, (struct sockaddr *)&address, bytes), 0);
    snprintf(manager->variable, sizeof manager->variable, "NOTIFY_SOCKET=%s", name);
}

void manager_close(struct manager *manager)
{
    close(manager->fd);
    manager->fd = -1;
}

bool manager_hear(struct manager *manager, int64_t timeout_ms)
{
    struct pollfd item = {.fd = manager->fd, .events = POLLIN};
    if (poll(&item, 1, (int)timeout_ms) != 1)
        return false;
    ssize_t bytes = recv(manager->fd, manager->message, sizeof manager->message - 1, 0);
    cr_assert_gt(bytes, 0);
    manager->message[bytes] = '\0';
    return true;
}
