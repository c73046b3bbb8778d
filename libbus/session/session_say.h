/* SPDX-License-Identifier: MPL-2.0 */
/* session_say.h -- numbered control messages. */
#ifndef SESSION_SESSION_SAY_H
#define SESSION_SESSION_SAY_H

#include "libbus/session/model.h"

/* Queues a numbered message; the caller wrote controls.last + 1 into it as its number.  The message
 * is sent once the upload of this ordinal is done; 0: at once.  Errors: CODE_ENOMEM. */
enum wire_code session_say(struct session *session, const struct msg *msg, uint64_t after_upload);
/* The same for a message whose RESULT the caller takes by *out_number.  Errors: CODE_ENOMEM. */
enum wire_code session_say_asking(struct session *session, const struct msg *msg,
                                  uint64_t after_upload, uint64_t *out_number);
/* The same for a message that has memory set aside in *spare.  Without other memory the message
 * uses that, and the small error of model.h replaces *error, which lies in msg and may be NULL. */
void session_say_surely(struct session *session, struct msg *msg, struct span *error,
                        struct control **spare, uint64_t after_upload);
/* The ordinal of the newest upload, for messages that wait for all uploads; 0: there is none. */
uint64_t session_uploads_under_way(const struct session *session);

#endif
