/* SPDX-License-Identifier: MPL-2.0 */
/* stranger.c -- see stranger.h. */
#include "tests/lib/stranger.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void say(int fd, const char *text)
{
    (void)send(fd, text, strlen(text), MSG_NOSIGNAL); /* it may be gone already */
}

static void take_guest(struct stranger *stranger, int fd)
{
    if (stranger->kind == STRANGER_GREETS)
        say(fd, "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
    if (stranger->kind == STRANGER_CLOSES || stranger->guest_count == STRANGER_GUESTS_MAX)
        close(fd);
    else
        stranger->guests[stranger->guest_count++] = fd;
}

/* Whether the guest stays. */
static bool serve_guest(const struct stranger *stranger, int fd)
{
    char text[512];
    ssize_t bytes = recv(fd, text, sizeof text, 0);
    if (bytes <= 0 || stranger->kind == STRANGER_HANGS_UP)
        return false;
    if (stranger->kind != STRANGER_ANSWERS || memchr(text, '\n', (size_t)bytes) == NULL)
        return true;
    say(fd, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    return false;
}

static void *serve(void *arg)
{
    struct stranger *stranger = arg;
    for (;;) {
        struct pollfd items[STRANGER_GUESTS_MAX + 1] = {
            {.fd = stranger->listener, .events = POLLIN}};
        for (size_t i = 0; i < stranger->guest_count; i++)
            items[i + 1] = (struct pollfd){.fd = stranger->guests[i], .events = POLLIN};
        if (poll(items, stranger->guest_count + 1, -1) < 0)
            continue;
        for (size_t i = stranger->guest_count; i-- > 0;) {
            if (items[i + 1].revents == 0 || serve_guest(stranger, stranger->guests[i]))
                continue;
            close(stranger->guests[i]);
            stranger->guests[i] = stranger->guests[--stranger->guest_count];
        }
        if (items[0].revents == 0)
            continue;
        int fd = accept(stranger->listener, NULL, NULL);
        if (fd < 0)
            return NULL; /* stranger_stop() wants that */
        stranger->came_count++;
        take_guest(stranger, fd);
    }
}

bool stranger_start(struct stranger *stranger, enum stranger_kind kind)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    *stranger = (struct stranger){.kind = kind};
    stranger->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (stranger->listener < 0 ||
        bind(stranger->listener, (const struct sockaddr *)&address, bytes) != 0 ||
        listen(stranger->listener, STRANGER_GUESTS_MAX) != 0 ||
        getsockname(stranger->listener, (struct sockaddr *)&address, &bytes) != 0)
        return false;
    (void)snprintf(stranger->endpoint, sizeof stranger->endpoint, "tcp://127.0.0.1:%u",
                   (unsigned)ntohs(address.sin_port)); /* fits */
    return pthread_create(&stranger->thread, NULL, serve, stranger) == 0;
}

void stranger_stop(struct stranger *stranger)
{
    shutdown(stranger->listener, SHUT_RDWR);
    pthread_join(stranger->thread, NULL);
    close(stranger->listener);
    while (stranger->guest_count > 0)
        close(stranger->guests[--stranger->guest_count]);
}
