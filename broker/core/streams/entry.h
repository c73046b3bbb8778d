/* SPDX-License-Identifier: MPL-2.0 */
/* entry.h -- what the outcome of a slot refers to, and how many bytes it counts. */
#ifndef CORE_STREAMS_ENTRY_H
#define CORE_STREAMS_ENTRY_H

#include "broker/core/model.h"

/* What it counts in its topic, its job, and the account of its writer. */
uint64_t topic_weight(const struct core *core, const struct slot_entry *entry);
/* An entry's weight changed from before to after. */
void topic_account(struct topic *topic, const struct slot_entry *entry, uint64_t before,
                   uint64_t after);
/* One reference more, or less, to what the entry refers to. */
void entry_ref(struct core *core, const struct slot_entry *entry);
void entry_unref(struct core *core, const struct slot_entry *entry);
void chunks_unref(struct core *core, struct chunks *chunks);
/* An entry of a topic became this error: it pays for its bytes if no other entry has it.  Before
 * its weight is counted. */
void entry_set_error(struct core *core, struct slot_entry *entry, struct failure *failure);
/* The topic drops this entry, an error, and counts it no more. */
void entry_drop_error(struct core *core, struct topic *topic, const struct slot_entry *entry);

#endif
