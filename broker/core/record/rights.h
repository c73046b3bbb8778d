/* SPDX-License-Identifier: MPL-2.0 */
/* rights.h -- who may say and read what; the one place that asks the access file.
 *
 * A principal is who a connection belongs to, as the broker's io found out; the core never sees a
 * key.  A greeting binds a session to the principal of its connection, and a party to that of its
 * first session.  Whatever else names a session, a token or a client id, counts only for the same
 * principal.  Without an access file everybody is principal 0, and may do everything. */
#ifndef CORE_RECORD_RIGHTS_H
#define CORE_RECORD_RIGHTS_H

#include "broker/core/model.h"

/* What everybody is told who may not, whatever it is. */
#define RIGHTS_DENIED_TEXT "this key may not do that here"

/* The speaker of this message may be that party. */
bool rights_may_be(const struct core *core, struct span job, struct span party);
/* The speaker may observe that job; a speaker who may not is an observer of no job. */
bool rights_may_observe(const struct core *core, struct span job);
/* The speaker is who the session, or the party, belongs to. */
bool rights_is_same(const struct core *core, uint32_t principal);
/* A party belongs to the speaker from now on.  false: no memory. */
bool rights_take_party(struct core *core, struct party *party);
/* After a replay: the table's number of who each party belongs to. */
void rights_resume(struct core *core);

/* The second part of the id of an error, "job/party/incarnation/n"; empty: it has none. */
struct span rights_party_of(struct span id);

/* As the column `right` of messages.def has it. */
bool rights_allow(const struct core *core, const struct session *session, const struct msg *msg);

/* What a party may read: a topic; some topic, or each, that the pattern matches. */
bool rights_may_read(const struct core *core, const struct party *party, struct span topic);
bool rights_may_match(const struct core *core, const struct party *party, struct span pattern);
bool rights_may_share(const struct core *core, const struct party *party, struct span pattern);

#endif
