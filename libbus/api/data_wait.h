/* SPDX-License-Identifier: MPL-2.0 */
/* data_wait.h -- waiting for what comes over the data channel. */
#ifndef API_DATA_WAIT_H
#define API_DATA_WAIT_H

#include "libbus/api/model.h"

/* As api_wait(), for data: the first thread that waits also polls the data channel. */
bool data_wait(struct bus *bus, pthread_cond_t *cond, unsigned *waiters, int64_t deadline_ns);

#endif
