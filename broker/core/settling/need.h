/* SPDX-License-Identifier: MPL-2.0 */
/* need.h -- slots that need others, and fail with them. */
#ifndef CORE_SETTLING_NEED_H
#define CORE_SETTLING_NEED_H

#include "broker/core/model.h"

/* What is wrong with what the slot of this range needs: a type of error; or NULL. */
const char *need_refusal(struct core *core, const struct topic *topic,
                         const struct event_range *range, const char **out_message);
/* A slot that was just promised needs what its range says, in which nothing is wrong; it is settled
 * at once if some of that has failed.  false: no memory. */
bool need_take(struct core *core, struct open_slot *open, const struct event_range *range);
bool need_add(struct core *core, struct open_slot *open, const struct topic *needed, uint64_t seq);
/* Slots are settled with an error, whoever needs them is, too, in this step or a later one. */
void need_slots_failed(struct core *core, struct topic *topic, uint64_t first_seq, uint64_t count,
                       struct failure *failure);
/* Whether something that this slot needs has failed; then it is settled now, and gone. */
bool need_overtakes(struct core *core, struct open_slot *open);
void need_fall(struct core *core);   /* in each step: so many as may fall in one */
void need_resume(struct core *core); /* at the end of a replay */

#endif
