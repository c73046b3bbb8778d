/* SPDX-License-Identifier: MPL-2.0 */
/* lane_wait.h -- waiting for what comes over one channel. */
#ifndef API_LANE_WAIT_H
#define API_LANE_WAIT_H

#include "libbus/api/model.h"

/* As api_wait(), for what comes on this lane: the first thread that waits also polls it. */
bool lane_wait(struct bus *bus, enum link_lane lane, pthread_cond_t *cond, unsigned *waiters,
               int64_t deadline_ns);

#endif
