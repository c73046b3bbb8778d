/* SPDX-License-Identifier: MPL-2.0 */
/* end_wait.h -- ends the youngest wait of a cycle, so that its other members go on. */
#ifndef CORE_WAITS_END_WAIT_H
#define CORE_WAITS_END_WAIT_H

#include "broker/core/waits/cycle.h"

/* The cycle is sure.  The error that the wait ended with; one reference for the caller. */
struct failure *end_wait(struct core *core, const struct cycle *cycle, const char *text);

#endif
