/* SPDX-License-Identifier: MPL-2.0 */
/* inproc_broker.h -- the broker's core on a thread of this process, for race tests. */
#ifndef LIB_INPROC_BROKER_H
#define LIB_INPROC_BROKER_H

#include <stddef.h>

struct inproc_broker;

/* Ends the process with a sentence if there is no memory: nothing can be tested then. */
struct inproc_broker *inproc_broker_start(const char *name);
/* "inproc://NAME/control" */
const char *inproc_broker_endpoint(const struct inproc_broker *broker);
/* Closes all connections at once, as a killed broker does. */
void inproc_broker_kill(struct inproc_broker **broker);

#endif
