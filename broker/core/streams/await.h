/* SPDX-License-Identifier: MPL-2.0 */
/* await.h -- waits for single slots, promised or not. */
#ifndef CORE_STREAMS_AWAIT_H
#define CORE_STREAMS_AWAIT_H

#include "broker/core/model.h"

/* A complaint about the message, or NULL. */
const char *await_open(struct core *core, struct session *session, const struct msg_await *msg);
void await_close(struct core *core, struct session *session, uint64_t want);
void await_settled(struct core *core, struct list *awaits, struct slot_entry *entry);
void await_promised(struct core *core, struct topic *topic);
/* A piece came of the slot's value, which is not whole. */
void await_coming(struct core *core, const struct open_slot *open);
/* What came of the value for which it waits and was not sent; NULL: nothing did. */
const struct chunks *await_pieces(struct core *core, struct await *await);
void await_never(struct core *core, struct party *party, struct failure *failure);
/* Waits of the session for this slot end with the failure, whatever becomes of the slot. */
void await_fail(struct core *core, struct session *session, uint32_t topic, uint64_t seq,
                struct failure *failure);
void await_free(struct core *core, struct await *await);
/* One of those that wait for the smallest number that is not promised; NULL: nobody waits. */
static inline struct await *await_unpromised(const struct topic *topic)
{
    struct seq_node *first = seq_queue_first(&topic->unpromised);
    return first != NULL ? LIST_OWNER(first, struct await, unpromised) : NULL;
}
void await_free_unused(struct core *core); /* those that the last step answered */

#endif
