/* SPDX-License-Identifier: MPL-2.0 */
/* settle.h -- the control messages that settle, behind their data; settling. */
#ifndef CORE_SETTLING_SETTLE_H
#define CORE_SETTLING_SETTLE_H

#include "broker/core/model.h"

void settle_tell(struct core *core, struct topic *topic, uint64_t seq, struct failure *failure);
/* An open slot gets its outcome; deadline, waits, routes and accounts follow. */
void settle_open(struct core *core, struct open_slot *open, enum slot_state state, uint32_t ref,
                 struct slot_place place);
void settle_open_failed(struct core *core, struct open_slot *open, struct failure *failure);
void settle_deadline(struct core *core, struct open_slot *open);
/* All values of the writer's last life that nobody was sent become the error; for replay, one entry
 * of them. */
void settle_replace_unseen(struct core *core, struct topic *topic, struct failure *failure);
void settle_replace_entry(struct core *core, struct topic *topic, struct slot_entry *entry,
                          struct failure *failure);
/* A value that nobody was sent becomes the error; room for two entries more is reserved. */
void settle_replace(struct core *core, struct topic *topic, uint64_t seq, struct failure *failure);
/* The message waits for its data; false: too many do, or no memory. */
/* The error of a party that leaves what it owes. */
struct failure *settle_left_failure(struct core *core, struct party *party);
bool settle_park(struct core *core, struct session *session, const struct parked *op);
/* What was parked up to this number is done. */
void settle_passed(struct core *core, struct session *session, uint64_t number);
bool settle_remember_granted(struct core *core, struct session *session, uint64_t number);
/* FAIL RETRACT COMPLETE LEAVE FAIL_PARTY ACK(numbered): now, or when the data before is in.
 * A complaint about the message, or NULL. */
const char *settle_message(struct core *core, struct session *session, const struct msg *msg);
void settle_parked(struct core *core, struct session *session);
/* The session ends: what is parked settles with what is there.  Whether a LEAVE was among it. */
bool settle_parked_at_end(struct core *core, struct session *session);
void parked_free_all(struct core *core, struct session *session);

void settle_whole(struct core *core, struct open_slot *open);

#endif
