/* SPDX-License-Identifier: MPL-2.0 */
/* waits.h -- questions and looks under way: so much of them in each step. */
#ifndef CORE_WAITS_WAITS_H
#define CORE_WAITS_WAITS_H

#include "broker/core/model.h"

/* At the end of each step: no more than LIMIT_WHY_STEP, whoever asks. */
void waits_go_on(struct core *core);
void waits_forget(struct core *core); /* when the core is freed */

#endif
