/* SPDX-License-Identifier: MPL-2.0 */
/* waits.h -- questions of operators and looks for deadlocks, a bounded part of them in a step. */
#ifndef CORE_WAITS_WAITS_H
#define CORE_WAITS_WAITS_H

#include "broker/core/model.h"

/* At the end of a tick, and of the step of a question: looks at so many objects at most, however
 * many ask. */
void waits_go_on(struct core *core, uint32_t budget);
void waits_forget(struct core *core); /* when the core is freed */

#endif
