/* SPDX-License-Identifier: MPL-2.0 */
/* session_write.h -- what other files need of writing. */
#ifndef SESSION_SESSION_WRITE_H
#define SESSION_SESSION_WRITE_H

#include "libbus/session/model.h"

/* Commits a value to a reply slot of another party.  owned: the buffer of a large value, of which a
 * reference is taken; NULL: the value is copied.
 * Errors: CODE_ETIMEDOUT, CODE_ETOOBIG, CODE_ENOMEM. */
enum wire_code session_commit_foreign(struct session *session, const struct own_topic *topic,
                                      uint64_t seq, struct span value, struct buffer *owned);

#endif
