/* SPDX-License-Identifier: MPL-2.0 */
/* waiters.h -- wakes threads of the application, and knows which of them wait for data. */
#ifndef API_WAITERS_H
#define API_WAITERS_H

#include "libbus/api/model.h"

/* A receiver found data without waiting for it: it is as quick as its writers, or slower.  Lock
 * held. */
void waiters_found_data(struct bus *bus);
/* Whether data may be left to receivers for API_LEAVE_MS: one of them looks for itself, and nobody
 * else waits for it.  Lock held. */
bool waiters_may_leave_data(const struct bus *bus);
/* Wakes who waits for cond, in api_wait() or lane_wait().  Lock held. */
void waiters_broadcast(struct bus *bus, pthread_cond_t *cond);
/* A channel has another connection, or none: what is polled is set anew.  Lock held. */
void waiters_reconnected(struct bus *bus);

#endif
