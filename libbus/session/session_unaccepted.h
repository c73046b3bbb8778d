/* SPDX-License-Identifier: MPL-2.0 */
/* session_unaccepted.h -- values that the broker had not accepted when the incarnation ended. */
#ifndef SESSION_SESSION_UNACCEPTED_H
#define SESSION_SESSION_UNACCEPTED_H

#include "libbus/session/model.h"

/* Each value that was not accepted before this incarnation was over becomes a refusal. */
void session_refuse_unaccepted(struct session *session);

#endif
