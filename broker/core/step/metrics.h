/* SPDX-License-Identifier: MPL-2.0 */
/* metrics.h -- the answer to METRICS, a bounded part of it in a step. */
#ifndef CORE_STEP_METRICS_H
#define CORE_STEP_METRICS_H

#include "broker/core/model.h"

/* The answer follows at the end of this step and of ticks.  figures: what is counted outside of
 * the core, copied; NULL: nothing. */
void metrics_ask(struct core *core, const struct session *session, const struct msg_metrics *msg,
                 const struct metric_figures *figures);
/* At the end of a tick, and of the step of a question: looks at so many objects at most, however
 * many ask. */
void metrics_go_on(struct core *core, uint32_t budget);
void metrics_forget(struct core *core); /* when the core is freed */

#endif
