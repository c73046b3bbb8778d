/* SPDX-License-Identifier: MPL-2.0 */
/* service_manager.c -- see service_manager.h.
 *
 * A manager that does not read must not stop the broker.  So a message waits for room in the
 * manager's queue for a second at most, and a sign of life does not wait at all: it is tried again
 * in the next round. */
#include "broker/io/service_manager.h"

#include "broker/io/failpoint.h"
#include "broker/io/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)

enum {
    MESSAGE_BYTES = 256,
    SEND_WAIT_S = 1,
    EXTEND_EVERY_MS = 5000,
    EXTEND_TIMES = 12, /* so many of these periods may pass until the next word: a minute */
    RETRY_MS = 20,     /* a sign of life for which there was no room */
    SIGNS_OF_LIFE = 2, /* in the time that the manager waits for one */
};

/* ---- opening --------------------------------------------------------------------------------- */

/* What is wrong with the name of a socket, or NULL. */
static const char *read_address(const char *name, struct sockaddr_un *out_address,
                                socklen_t *out_bytes)
{
    size_t bytes = strlen(name);
    if (name[0] != '/' && name[0] != '@')
        return "is neither a path nor an abstract name (@NAME)";
    if (bytes < 2 || bytes >= sizeof out_address->sun_path)
        return "has a length that no socket of this kind can have";
    *out_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out_address->sun_path, name, bytes);
    *out_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
    if (name[0] == '@')
        out_address->sun_path[0] = '\0'; /* an abstract name has no NUL at its end */
    else
        *out_bytes += 1;
    return NULL;
}

static bool read_positive(const char *text, int64_t *out_number)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    *out_number = number;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && number > 0;
}

/* How often the manager wants a sign of life; 0: never, or of another process. */
static int64_t read_watchdog(const struct service_manager_environment *environment)
{
    int64_t us = 0;
    int64_t pid = environment->pid;
    if (environment->watchdog_us == NULL || !read_positive(environment->watchdog_us, &us) ||
        us > INT64_MAX / NS_PER_US)
        return 0;
    if (environment->watchdog_pid != NULL && !read_positive(environment->watchdog_pid, &pid))
        return 0;
    return pid == environment->pid ? us * NS_PER_US / SIGNS_OF_LIFE : 0;
}

bool service_manager_open(struct service_manager *manager,
                          const struct service_manager_environment *environment,
                          char complaint[SERVICE_MANAGER_COMPLAINT_BYTES])
{
    struct sockaddr_un address;
    socklen_t bytes = 0;
    struct timeval wait = {.tv_sec = SEND_WAIT_S};
    *manager = (struct service_manager){.fd = -1, .watchdog_ns_at = INT64_MAX};
    if (environment->socket == NULL || environment->socket[0] == '\0')
        return true;
    const char *fault = read_address(environment->socket, &address, &bytes);
    if (fault == NULL) {
        manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (manager->fd < 0 ||
            setsockopt(manager->fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) != 0 ||
            connect(manager->fd, (struct sockaddr *)&address, bytes) != 0)
            fault = strerror(errno);
    }
    if (fault != NULL) {
        snprintf(complaint, SERVICE_MANAGER_COMPLAINT_BYTES,
                 "the service manager is not told that the broker serves: the socket in "
                 "$NOTIFY_SOCKET, '%.120s': %.120s",
                 environment->socket, fault);
        service_manager_close(manager);
        return false;
    }
    manager->watchdog_ns = read_watchdog(environment);
    return true;
}

void service_manager_close(struct service_manager *manager)
{
    if (manager->fd >= 0)
        close(manager->fd);
    manager->fd = -1;
    manager->watchdog_ns_at = INT64_MAX;
}

/* ---- telling --------------------------------------------------------------------------------- */

/* how: flags of send(2).  0, or an errno. */
static int send_message(const struct service_manager *manager, const char *message, int how)
{
    ssize_t sent = 0;
    if (manager->fd < 0)
        return 0;
    do
        sent = send(manager->fd, message, strlen(message), how | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? errno : 0;
}

static void tell(const struct service_manager *manager, const char *message)
{
    int err = send_message(manager, message, 0);
    if (err != 0)
        log_line(LOG_WARNING, "the service manager does not take '%.*s': %s",
                 (int)strcspn(message, "\n"), message, strerror(err));
}

void service_manager_extend(struct service_manager *manager, int64_t now_ns, const char *what,
                            int percent)
{
    char message[MESSAGE_BYTES];
    char share[32] = "";
    int64_t every_ms = (int64_t)failpoint_number("EXTEND_MS", EXTEND_EVERY_MS);
    if (manager->fd < 0 || now_ns < manager->extend_ns_at)
        return;
    manager->extend_ns_at = now_ns + every_ms * NS_PER_MS;
    if (percent >= 0)
        snprintf(share, sizeof share, ": %d %%", percent);
    snprintf(message, sizeof message, "EXTEND_TIMEOUT_USEC=%" PRId64 "\nSTATUS=%.100s%s",
             EXTEND_TIMES * INT64_C(1000) * EXTEND_EVERY_MS, what, share);
    tell(manager, message);
}

/* systemd kills what is not ready in time, and 'systemctl start' waits until it is. */
void service_manager_spare(const struct service_manager *manager)
{
    tell(manager, "READY=1\nSTATUS=spare: waits for its shard\nWATCHDOG_USEC=0");
}

/* The time between signs of life is told, for a spare has set it to none. */
void service_manager_ready(struct service_manager *manager, int64_t now_ns)
{
    char message[MESSAGE_BYTES] = "READY=1\nSTATUS=serving";
    if (manager->watchdog_ns > 0 && manager->fd >= 0) {
        manager->watchdog_ns_at = now_ns;
        snprintf(message, sizeof message, "READY=1\nSTATUS=serving\nWATCHDOG_USEC=%" PRId64,
                 SIGNS_OF_LIFE * manager->watchdog_ns / NS_PER_US);
    }
    tell(manager, message);
}

void service_manager_reloading(const struct service_manager *manager, int64_t now_ns)
{
    char message[MESSAGE_BYTES];
    snprintf(message, sizeof message,
             "RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\nSTATUS=reading the access file again",
             now_ns / NS_PER_US);
    tell(manager, message);
}

void service_manager_stopping(const struct service_manager *manager)
{
    tell(manager, "STOPPING=1\nSTATUS=telling the parties");
}

void service_manager_live(struct service_manager *manager, int64_t now_ns)
{
    if (now_ns < manager->watchdog_ns_at)
        return;
    bool is_full = send_message(manager, "WATCHDOG=1", MSG_DONTWAIT) == EAGAIN;
    manager->watchdog_ns_at = now_ns + (is_full ? RETRY_MS * NS_PER_MS : manager->watchdog_ns);
}
