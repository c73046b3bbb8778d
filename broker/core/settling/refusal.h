/* SPDX-License-Identifier: MPL-2.0 */
/* refusal.h -- REFUSED: tells a writer which of its slots got another outcome than it gave them. */
#ifndef CORE_SETTLING_REFUSAL_H
#define CORE_SETTLING_REFUSAL_H

#include "broker/core/model.h"

/* Refuses the slots from seq on, LIMIT_REFUSAL_SLOTS at most, in one message with one error.
 * cause: the outcome that stands in all of them, or NULL. */
void refusal_of_slots(struct core *core, struct session *session, struct topic *topic, uint64_t seq,
                      uint32_t count, const char *type, const char *message, struct failure *cause);
/* The same in a topic that could not be opened. */
void refusal_of_numbers(struct core *core, struct session *session, uint32_t number, uint64_t seq,
                        uint32_t count, const char *type, const char *message);
/* Slots of the session's party were settled with an error that the party did not say. */
void refusal_tell(struct core *core, struct session *session, const struct refusal *settled);
/* Keeps the session's next refusal, so that it can be sent again; false: no memory. */
bool refusal_remember(struct core *core, struct session *session, uint32_t topic, uint64_t seq,
                      uint32_t count, struct failure *failure);
/* Sends the refusals again whose numbers are above after. */
void refusals_tell_again(struct core *core, struct session *session, uint64_t after);

#endif
