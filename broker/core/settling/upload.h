/* SPDX-License-Identifier: MPL-2.0 */
/* upload.h -- what a writer is told of its values in chunks: how much is here, what came before. */
#ifndef CORE_SETTLING_UPLOAD_H
#define CORE_SETTLING_UPLOAD_H

#include "broker/core/model.h"

void upload_remember(struct core *core, struct session *session, uint32_t topic, uint64_t seq);
void upload_remember_refused(struct core *core, struct session *session, uint32_t topic,
                             uint64_t seq);
void uploads_tell_again(struct core *core, struct session *session);
/* A chunk of a value that is whole, and may not even be kept any more. */
bool upload_is_known(const struct session *session, const struct topic *topic,
                     const struct event_run *run);
void upload_tell(struct core *core, struct session *session, const struct topic *topic,
                 uint64_t seq, uint64_t bytes);

#endif
