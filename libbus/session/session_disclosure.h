/* SPDX-License-Identifier: MPL-2.0 */
/* session_disclosure.h -- how much of its errors a party lets others see, and whom it lets see the
 * rest. */
#ifndef SESSION_SESSION_DISCLOSURE_H
#define SESSION_SESSION_DISCLOSURE_H

#include "libbus/session/session.h"

/* How much of its errors this party lets others see: its own choice, or that of its job. */
enum disclosure session_disclosure(const struct session *session);
/* What the job asks of all its parties; UNSAID: nothing. */
enum disclosure session_job_disclosure(const struct session *session);
/* The public key to which this party seals the traces of its errors; empty: to none.  A key that
 * the broker alone vouches for gets what the broker would have got without one. */
struct span session_auditor(const struct session *session);

#endif
