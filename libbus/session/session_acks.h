/* SPDX-License-Identifier: MPL-2.0 */
/* session_acks.h -- TAKEN and ACK. */
#ifndef SESSION_SESSION_ACKS_H
#define SESSION_SESSION_ACKS_H

#include "libbus/session/model.h"

/* Sends numbered ACKs and UNSUBSCRIBEs that are due. */
void acks_say(struct session *session);
/* Sends all acknowledgements of durable subscriptions, whatever is being uploaded; false: no
 * memory. */
bool acks_say_all(struct session *session, uint64_t after_upload);
/* For session_mark() and session_mark_reached(). */
uint64_t acks_mark(struct session *session);
bool acks_mark_reached(const struct session *session, uint64_t mark);
/* The broker refused the SUBSCRIBE or SUB_ADD of this number.  After a refused SUB_ADD the broker
 * still has the subscription, and would hold back writers for a reader that takes nothing. */
void acks_sub_refused(struct session *session, struct inbox_sub *sub, uint64_t number);
/* The next TAKEN, or the next ACK without a number; false: there is none. */
bool acks_message(struct session *session, struct msg *out);
/* A new connection: messages without a number may be lost, and go out again with its first beat. */
void acks_rewind(struct session *session);
/* With each beat: also sends what is less than a quarter of a window. */
void acks_beat(struct session *session);
/* Bytes were taken: TAKEN is due once they are a quarter of the window, or after a little while. */
void acks_taken(struct session *session, struct inbox_sub *sub);

#endif
