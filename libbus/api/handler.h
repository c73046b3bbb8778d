/* SPDX-License-Identifier: MPL-2.0 */
/* handler.h -- the thread that runs the failure handler. */
#ifndef API_HANDLER_H
#define API_HANDLER_H

#include "libbus/api/model.h"

void *handler_main(void *bus);
/* Waits for a handler that runs or is to run; false: it still runs, and goes on alone. */
bool handler_finish(struct bus *bus, int64_t deadline_ns);

#endif
