/* SPDX-License-Identifier: MPL-2.0 */
/* never_joined.h -- tells a session that it waits for a party of which nobody has ever heard. */
#ifndef CORE_STREAMS_NEVER_JOINED_H
#define CORE_STREAMS_NEVER_JOINED_H

#include "broker/core/model.h"

/* The session waits for what the party of this name does.  If the party has never joined the job,
 * and has not after LIMIT_NEVER_JOINED_MS, the session is told so once. */
void never_joined_wait(struct core *core, struct session *session, struct span name);
/* The same for all parties that the patterns of this subscription name. */
void never_joined_wait_all(struct core *core, const struct sub *sub);
/* The session's timer: one name's time is over. */
void never_joined_timer(struct core *core, struct session *session);
/* A party's session, or its guard's, has another connection.  On that it is told again of names
 * that the party still waits for, since the last connection may have lost that.  Its client knows
 * the names that it was told of. */
void never_joined_tell_again(struct core *core, const struct session *to);
/* Ends a replay: what the session waits for is not in any fact, but what it subscribed to is. */
void never_joined_resume(struct core *core, struct session *session);
/* The session goes. */
void never_joined_forget(struct core *core, struct session *session);

#endif
