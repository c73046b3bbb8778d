/* SPDX-License-Identifier: MPL-2.0 */
/* waits.h -- questions of operators and looks for deadlocks, a bounded part of them in each step.
 */
#ifndef CORE_WAITS_WAITS_H
#define CORE_WAITS_WAITS_H

#include "broker/core/model.h"

/* At the end of each step: looks at LIMIT_WHY_STEP objects at most, however many ask. */
void waits_go_on(struct core *core);
void waits_forget(struct core *core); /* when the core is freed */

#endif
