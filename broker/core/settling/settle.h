/* SPDX-License-Identifier: MPL-2.0 */
/* settle.h -- the one way from an open slot to its outcome. */
#ifndef CORE_SETTLING_SETTLE_H
#define CORE_SETTLING_SETTLE_H

#include "broker/core/model.h"

/* The event that a slot failed. */
void settle_tell(struct core *core, struct topic *topic, uint64_t seq, struct failure *failure);
/* An open slot gets its outcome; deadline, waits, routes and byte counts follow. */
void settle_open(struct core *core, struct open_slot *open, enum slot_state state, uint32_t ref,
                 struct slot_place place);
void settle_open_failed(struct core *core, struct open_slot *open, struct failure *failure);
/* All chunks of the value are here. */
void settle_whole(struct core *core, struct open_slot *open);
/* The deadline of the slot has passed. */
void settle_deadline(struct core *core, struct open_slot *open);
/* Its value passes through, and its readers take nothing of it. */
void settle_stalled(struct core *core, struct open_slot *open);
/* Values of the writer's last incarnation that nobody was sent become the error. */
void settle_replace_unseen(struct core *core, struct topic *topic, struct failure *failure);
/* The same of one entry; for replay, too. */
void settle_replace_entry(struct core *core, struct topic *topic, struct slot_entry *entry,
                          struct failure *failure);
/* A value that nobody was sent becomes the error; room for two entries more is reserved. */
void settle_replace(struct core *core, struct topic *topic, uint64_t seq, struct failure *failure);

/* A value of the writer's incarnation that nobody was sent: with pending = replace the error of the
 * writer takes its place. */
bool settle_is_unseen(const struct topic *topic, const struct slot_entry *entry);

#endif
