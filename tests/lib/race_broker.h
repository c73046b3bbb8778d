/* SPDX-License-Identifier: MPL-2.0 */
/* race_broker.h -- the broker of a race test, in one of two forms that the build chooses:
 *
 *   race_broker_inproc.c   its core on a thread of this process, over the in-process link
 *   race_broker_live.c     a real errbusd with keys, over the link that programs have */
#ifndef LIB_RACE_BROKER_H
#define LIB_RACE_BROKER_H

#include <stdbool.h>
#include <stdint.h>

struct race_broker;

/* Whether it is a process of its own: that takes longer to start. */
extern const bool race_is_live;

/* Ends the process with a sentence if there is no memory, or no broker: nothing can be tested
 * then. */
struct race_broker *race_broker_start(const char *name);
const char *race_broker_endpoint(const struct race_broker *broker);
const char *race_broker_data_endpoint(const struct race_broker *broker);
/* Lets it stand still, and go on. */
void race_broker_hold(struct race_broker *broker, bool is_held);
/* Closes all connections at once, as a killed broker does. */
void race_broker_kill(struct race_broker **broker);
/* How often a thread of this process, named by the kernel's number, waited on a link.  A wait for a
 * lock is not counted.  0: it never did, or 256 other threads did before. */
uint64_t race_waits_of(long thread);

#endif
