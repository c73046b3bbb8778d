/* SPDX-License-Identifier: MPL-2.0 */
/* service_manager.h -- tells the service manager that started the broker how the broker does.
 *
 * The protocol is that of sd_notify(3): a datagram with lines NAME=VALUE, sent to the socket that
 * $NOTIFY_SOCKET names.  The protocol is stable and takes a few lines, so errbusd needs no library
 * of systemd for it, and other service managers that speak it are served alike.
 *
 * All calls come from the thread of the loop.  A broker that nobody manages says nothing. */
#ifndef IO_SERVICE_MANAGER_H
#define IO_SERVICE_MANAGER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SERVICE_MANAGER_COMPLAINT_BYTES = 512 };

struct service_manager {
    int fd;                 /* -1: nobody wants to know */
    int64_t watchdog_ns;    /* between two signs of life; 0: the manager expects none */
    int64_t watchdog_ns_at; /* when the next one is due; INT64_MAX: none is */
    int64_t extend_ns_at;   /* when the manager is asked for more time again */
};

/* What the environment says; NULL: nothing. */
struct service_manager_environment {
    const char *socket;       /* NOTIFY_SOCKET: a path, or '@' and an abstract name */
    const char *watchdog_us;  /* WATCHDOG_USEC */
    const char *watchdog_pid; /* WATCHDOG_PID: whom the manager watches */
    pid_t pid;                /* of this process */
};

/* Without a socket in the environment this does nothing.  false: the manager cannot be told
 * anything; complaint is a sentence.  The other calls may be made all the same. */
bool service_manager_open(struct service_manager *manager,
                          const struct service_manager_environment *environment,
                          char complaint[SERVICE_MANAGER_COMPLAINT_BYTES]);
void service_manager_close(struct service_manager *manager);

/* The start goes on: asks for more time, at most every few seconds.  For people: what is done, and
 * how much of it; percent negative: that is not known. */
void service_manager_extend(struct service_manager *manager, int64_t now_ns, const char *what,
                            int percent);
/* The start is done: this is a spare, which waits for its shard as long as it takes, and gives no
 * signs of life meanwhile. */
void service_manager_spare(const struct service_manager *manager);
/* The broker serves.  From now on it gives signs of life, if the manager expects them. */
void service_manager_ready(struct service_manager *manager, int64_t now_ns);
/* It reads its configuration again; service_manager_ready() follows. */
void service_manager_reloading(const struct service_manager *manager, int64_t now_ns);
void service_manager_stopping(const struct service_manager *manager);

/* A sign of life, if one is due. */
void service_manager_live(struct service_manager *manager, int64_t now_ns);
/* When service_manager_live() is to be called at the latest; INT64_MAX: never. */
static inline int64_t service_manager_due_ns(const struct service_manager *manager)
{
    return manager->watchdog_ns_at;
}

#endif
