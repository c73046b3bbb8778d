/* SPDX-License-Identifier: MPL-2.0 */
/* upload.h -- what a writer is told of its values in chunks. */
#ifndef CORE_SETTLING_UPLOAD_H
#define CORE_SETTLING_UPLOAD_H

#include "broker/core/model.h"

/* Tells the writer how many bytes of the value are here.  number: of the topic. */
void upload_tell(struct core *core, struct session *session, uint32_t number, uint64_t seq,
                 uint64_t bytes);
/* The same of an open slot, and how far the value may be sent. */
void upload_tell_open(struct core *core, struct session *session, const struct open_slot *open);
/* Tells it of all values in chunks that are not whole. */
void uploads_tell_again(struct core *core, struct session *session);
/* The value is whole: its chunks, sent again, are no news. */
void upload_remember(struct core *core, struct session *session, uint32_t topic, uint64_t seq);
/* The value is refused: its other chunks are dropped without another refusal. */
void upload_remember_refused(struct core *core, struct session *session, uint32_t topic,
                             uint64_t seq);
/* Whether the chunk is of a value that is whole.  The value may be kept no more. */
bool upload_is_known(const struct session *session, const struct topic *topic,
                     const struct event_range *range);

#endif
