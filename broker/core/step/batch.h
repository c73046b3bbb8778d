/* SPDX-License-Identifier: MPL-2.0 */
/* batch.h -- frames of a batch: reserve, value, commit, chunks; what is refused. */
#ifndef CORE_STEP_BATCH_H
#define CORE_STEP_BATCH_H

#include "broker/core/model.h"

/* A complaint about the batch, or NULL; the session may be gone afterwards. */
const char *write_batch(struct core *core, struct session *session, const struct event *event);
/* A refusal to the session's client, its cause the outcome that stands. */
void write_refuse(struct core *core, struct session *session, struct topic *topic, uint64_t seq,
                  enum error_kind kind, const char *type, const char *message,
                  struct failure *cause);
/* The session's next refusal is remembered; false: no memory. */
bool write_remember(struct core *core, struct session *session, uint32_t topic, uint64_t seq,
                    uint32_t count, struct failure *failure);
void write_remember_uploaded(struct core *core, struct session *session, uint32_t topic,
                             uint64_t seq);
void write_remember_upload_refused(struct core *core, struct session *session, uint32_t topic,
                                   uint64_t seq);
void write_refusals_again(struct core *core, struct session *session, uint64_t after);
void write_uploads_again(struct core *core, struct session *session);

/* Open slots of the session's party were settled with this, and not by its own word. */
void write_tell_settled(struct core *core, struct session *session, const struct refusal *settled);

#endif
