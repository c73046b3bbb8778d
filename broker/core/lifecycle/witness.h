/* SPDX-License-Identifier: MPL-2.0 */
/* witness.h -- a client knows more than the broker: the broker forgot what it had said. */
#ifndef CORE_LIFECYCLE_WITNESS_H
#define CORE_LIFECYCLE_WITNESS_H

#include "broker/core/model.h"

/* Compares what HELLO says was acknowledged with what the broker has.  If the broker has less, the
 * incarnation is over (errbus.forgotten), and the result is a sentence for the client; else NULL.
 * The text stands until the step ends. */
const char *witness_hello(struct core *core, struct session *session,
                          const struct msg_hello *hello);
/* HELLO has the token of a session that is over.  If its client's incarnation ended so, the result
 * is that sentence again; else NULL. */
const char *witness_recall(struct core *core, const struct msg_hello *hello);
/* The same as witness_hello() for a reader that was sent slots of this topic below next_seq, if
 * nobody can send them again.  true: its incarnation is over. */
bool witness_position(struct core *core, struct session *session, struct topic *topic,
                      uint64_t next_seq);

#endif
