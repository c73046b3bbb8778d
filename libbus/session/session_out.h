/* SPDX-License-Identifier: MPL-2.0 */
/* session_out.h -- when a publisher sends what it has written, beside session_data_is_due(). */
#ifndef SESSION_SESSION_OUT_H
#define SESSION_SESSION_OUT_H

#include "libbus/session/session.h"

/* Whether something is due, or is once the time has come (OUTBOX_PAUSE_NS): a publisher does not
 * read the clock for each value. */
bool session_data_may_be_due(const struct session *session);
/* session_data_is_due() at this time. */
bool session_data_is_due_at(struct session *session, int64_t now_ns);

#endif
