/* SPDX-License-Identifier: MPL-2.0 */
/* late.h -- what parties report after the final verdict on their attempt. */
#ifndef CORE_LIFECYCLE_LATE_H
#define CORE_LIFECYCLE_LATE_H

#include "broker/core/model.h"

/* The session ends because of `over`; its client is heard for a while. */
void late_begin(struct core *core, struct session *session, struct failure *over);
void late_message(struct core *core, struct session *session, const struct msg *msg);
void late_end(struct core *core, struct session *session); /* it is told so */
void late_free(struct core *core, struct late **late);     /* NULL is a no-op */

#endif
