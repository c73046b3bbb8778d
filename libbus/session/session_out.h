/* SPDX-License-Identifier: MPL-2.0 */
/* session_out.h -- when a publisher sends what it has written, beside session_data_is_due(). */
#ifndef SESSION_SESSION_OUT_H
#define SESSION_SESSION_OUT_H

#include "libbus/session/session.h"

/* Whether that depends on the time, which a publisher does not read for each value; and the same at
 * that time. */
bool session_data_has_pause(const struct session *session);
bool session_data_is_due_at(struct session *session, int64_t now_ns);

#endif
