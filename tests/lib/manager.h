/* SPDX-License-Identifier: MPL-2.0 */
/* manager.h -- the service manager of a test: the socket to which a broker tells how it does, as
 * sd_notify(3) has it.  What fails, fails the test that calls. */
#ifndef TESTS_LIB_MANAGER_H
#define TESTS_LIB_MANAGER_H

#include <stdbool.h>
#include <stdint.h>

enum { MANAGER_MESSAGE_BYTES = 512 };

struct manager {
    int fd;
    char variable[256];                  /* NOTIFY_SOCKET=..., for the broker's environment */
    char message[MANAGER_MESSAGE_BYTES]; /* the last one */
};

/* name: a path, or '@' and an abstract name. */
void manager_listen(struct manager *manager, const char *name);
void manager_close(struct manager *manager);
/* false: no message came in this time. */
bool manager_hear(struct manager *manager, int64_t timeout_ms);

#endif
