/* SPDX-License-Identifier: MPL-2.0 */
/* attachment.h -- attachments of errors: known by name, kept in pieces, within a budget. */
#ifndef CORE_RECORD_ATTACHMENT_H
#define CORE_RECORD_ATTACHMENT_H

#include "broker/core/model.h"

struct span attach_error(const struct attachment *attachment); /* id of its error */
struct span attach_name(const struct attachment *attachment);
struct attachment *attach_find(struct core *core, const struct job *job, struct span error,
                               struct span name);
/* How it fares, as others are told. */
enum attachment_state attach_state(const struct core *core, const struct attachment *attachment);
/* The one of this name, new if need be; NULL: no memory. */
struct attachment *attach_announce(struct core *core, struct job *job, struct span error,
                                   struct span name, uint64_t promised);
/* All that an error has. */
void attach_take(struct core *core, struct job *job, const struct error_record *record);
/* Whether so many bytes more of this one may be kept; older ones go for them. */
bool attach_make_room(struct core *core, struct job *job, const struct attachment *attachment,
                      uint64_t bytes);
/* false: no memory. */
bool attach_add(struct core *core, struct job *job, struct attachment *attachment,
                const struct attach_piece *piece);
/* FULL or DROPPED; whoever brings it is told. */
void attach_end(struct core *core, struct job *job, struct attachment *attachment,
                enum attachment_state state);
void attach_forget(struct core *core, struct job *job, struct attachment *attachment);
void attach_forget_all(struct core *core, struct job *job);
void attach_resume(struct core *core);
void attach_snapshot(struct core *core, const struct job *job);

#endif
