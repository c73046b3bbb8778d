/* SPDX-License-Identifier: MPL-2.0 */
/* broker.h -- a real errbusd on free ports. */
#ifndef TESTS_LIB_BROKER_H
#define TESTS_LIB_BROKER_H

#include "tests/lib/process.h"

#define BROKER_ENDPOINT_BYTES_MAX 256

struct broker {
    struct process process;
    char control[BROKER_ENDPOINT_BYTES_MAX]; /* as its ready line has them */
    char data[BROKER_ENDPOINT_BYTES_MAX];
};

/* Starts errbusd with the arguments in more (NULL at their end, or NULL), on free ports of the
 * loopback where they do not name endpoints and without a journal where they name none, and waits
 * for its ready line.  False: it is not ready; broker->process tells why.
 *
 * ERRBUS_TEST_JOURNAL=NAME gives that journal to all brokers whose tests name none, and starts the
 * broker for tests, which knows more disks.  A test that starts a broker over the same journal
 * again names a folder of its own. */
bool broker_start(struct broker *broker, const char *const *more);

/* SIGTERM, and its exit code; -1: it did not end within timeout_ms. */
int broker_stop(struct broker *broker, int64_t timeout_ms);

void broker_fini(struct broker *broker);

#endif
