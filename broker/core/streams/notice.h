/* SPDX-License-Identifier: MPL-2.0 */
/* notice.h -- tells a session that it waits, perhaps in vain. */
#ifndef CORE_STREAMS_NOTICE_H
#define CORE_STREAMS_NOTICE_H

#include "broker/core/model.h"

/* The session waits for what the party of this name does.  If the party has never joined the job,
 * and has not after LIMIT_NOTICE_MS, the session is told so once. */
void notice_wait(struct core *core, struct session *session, struct span name);
/* The same for all parties that the patterns of this subscription name. */
void notice_wait_all(struct core *core, const struct sub *sub);
/* The request of this reply has waited for LIMIT_NOTICE_MS, and no group with a member takes its
 * topic.  Its session is told so once for each topic. */
void notice_unserved(struct core *core, const struct open_slot *reply);
/* The group of this route has come to slots that are not kept any more: those below first_seq.
 * Taps and all members are told. */
void notice_gone(struct core *core, const struct route *route, uint64_t first_seq);
/* The session's timer fired: LIMIT_NOTICE_MS are over for one name. */
void notice_timer(struct core *core, struct session *session);
/* The session of a party or guard has another connection.  The last one may have lost notices, so
 * all that are still true are sent again.  The client ignores those that it knows. */
void notice_tell_again(struct core *core, const struct session *to);
/* At the end of a replay: finds what the session waits for, because no fact says so. */
void notice_resume(struct core *core, struct session *session);
/* The session goes. */
void notice_forget(struct core *core, struct session *session);
void notice_free_unused(struct core *core); /* those that the last step dropped */

#endif
