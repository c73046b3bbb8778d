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
/* Values behind the last slot; room for an entry is reserved. */
void write_keep(struct core *core, struct topic *topic, const struct slot_entry *entry);
/* One open slot behind the last; false: no room. */
bool write_promise(struct core *core, struct topic *topic, uint64_t seq, uint64_t value_bytes_max,
                   int64_t deadline_ms, int64_t due_wall_ns);
/* One chunk more of an open slot's value; false: no memory. */
bool write_add_chunk(struct core *core, struct open_slot *open, uint64_t total,
                     const struct chunk *chunk);
void write_whole(struct core *core, struct open_slot *open);
struct open_slot *write_find_open(struct core *core, struct topic *topic, uint64_t seq);
/* Those that it has, or new ones that say nothing; NULL: no memory. */
struct slot_terms *write_terms(struct core *core, struct open_slot *open);
/* Takes it out of all but its awaits and its table, and gives it back. */
void write_forget_open(struct core *core, struct open_slot *open);
void write_remember_uploaded(struct core *core, struct session *session, uint32_t topic,
                             uint64_t seq);
void write_remember_upload_refused(struct core *core, struct session *session, uint32_t topic,
                                   uint64_t seq);
void write_refusals_again(struct core *core, struct session *session, uint64_t after);
void write_uploads_again(struct core *core, struct session *session);

/* Open slots of the session's party were settled with this, and not by its own word. */
void write_tell_settled(struct core *core, struct session *session, const struct refusal *settled);

#endif
