/* SPDX-License-Identifier: MPL-2.0 */
/* monitor.c -- see monitor.h. */
#include "libbus/io/monitor.h"

#include "libbus/io/part.h"

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <zmq.h>

bool monitor_read(void *monitor, struct monitor_event *out_event)
{
    zmq_msg_t msg;
    uint16_t type = 0;
    uint32_t value = 0;
    zmq_msg_init(&msg);
    bool is_read = part_receive(monitor, &msg);
    if (is_read && zmq_msg_size(&msg) >= sizeof type + sizeof value) {
        memcpy(&type, zmq_msg_data(&msg), sizeof type);
        memcpy(&value, (const char *)zmq_msg_data(&msg) + sizeof type, sizeof value);
    }
    while (is_read && zmq_msg_more(&msg)) /* the address, which we do not need */
        if (!part_receive(monitor, &msg))
            break;
    zmq_msg_close(&msg);
    *out_event = (struct monitor_event){.type = type, .value = (int)value};
    return is_read;
}

void monitor_give_room(int fd)
{
    int domain = 0;
    int room = MONITOR_ROOM_BYTES;
    socklen_t bytes = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_UNIX)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room); /* the kernel may cut it */
}
