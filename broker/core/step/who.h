/* SPDX-License-Identifier: MPL-2.0 */
/* who.h -- who is connected, or may come back. */
#ifndef CORE_STEP_WHO_H
#define CORE_STEP_WHO_H

#include "broker/core/model.h"

/* So many sessions from a place on.  Their keys and addresses, of which the core knows nothing, are
 * filled in when the rows are encoded. */
void tell_who(struct core *core, struct session *session, const struct msg_who *msg);

#endif
