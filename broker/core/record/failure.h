/* SPDX-License-Identifier: MPL-2.0 */
/* failure.h -- error objects: made by the broker, taken over from clients, shared by count. */
#ifndef CORE_RECORD_FAILURE_H
#define CORE_RECORD_FAILURE_H

#include "broker/core/model.h"

struct failure_spec {
    struct job *job;
    struct party *party; /* whose failure it is; NULL: the broker's word about the job */
    bool
        is_brokers; /* the broker's own fault, which this party noticed: the error names no party */
    const struct session *session; /* of its process; NULL: as far as the party has one */
    enum error_kind kind;
    const char *type;
    const char *message;
    struct topic *topic; /* the slot, or NULL */
    uint64_t seq;
    struct span blame;             /* the party that it blames; empty: none */
    struct failure *cause;         /* or NULL */
    struct failure *const *causes; /* behind it; as many of them as there is room for */
    uint32_t cause_count;
    int64_t occurred_ns; /* 0: now */
    uint64_t uncertainty_ns;
};
/* Makes failure number 1, which is used when memory is short.  It is made first, in a core whose
 * clocks are still at 0, so that it is the same in every replay.  false: no memory. */
bool failure_keep_spare(struct core *core);
/* One reference for the caller.  Without memory: the failure set aside for that. */
struct failure *failure_make(struct core *core, const struct failure_spec *spec);
/* It is that one. */
bool failure_is_spare(const struct core *core, const struct failure *failure);
/* Why the broker rejects what this session asked or wrote.  topic and seq: the slot, or NULL, 0. */
struct failure *failure_of_rejection(struct core *core, const struct session *session,
                                     const char *type, const char *message, struct topic *topic,
                                     uint64_t seq);
/* The same for an answer that is about no slot.  NULL: the code is CODE_OK, nothing is rejected. */
struct failure *failure_of_answer(struct core *core, const struct session *session,
                                  enum wire_code code, const char *type, const char *message);
/* Takes an error that a client encoded, and corrects the fields that say who it is from.  If the
 * bytes cannot be read, the result is an error that says so. */
struct failure *failure_take(struct core *core, struct session *session, struct span bytes,
                             struct topic *topic, uint64_t seq, bool *out_is_readable);
/* The same for an incarnation that is over.  NULL: it cannot be read, or is not about that
 * incarnation. */
struct failure *failure_take_late(struct core *core, struct party *party, uint32_t incarnation,
                                  uint32_t attempt, struct span bytes);
/* Counts and tells that an error could not be read; failure stands in its place. */
void failure_refuse(struct core *core, struct session *session, struct failure *failure);
/* The failure of a fact, with one reference.  NULL: no memory, or not an error. */
struct failure *failure_restore(struct core *core, struct span bytes);
/* At the end of a replay: no number of an error about a job is given again while that error is
 * kept. */
void failure_resume_numbers(struct core *core);
/* The error with this id within failure, with its own causes.  NULL: it is not there, or no
 * memory. */
struct failure *failure_extract(struct core *core, const struct failure *failure, struct span id);
/* The same error without its details and its causes, for which there is no room.  It takes the
 * caller's reference, and gives one. */
struct failure *failure_shorten(struct core *core, struct failure *failure);
/* Makes an error from what the verdict kept of it; nothing else is left. */
struct failure *failure_recall(struct core *core, const struct job *job,
                               const struct verdict_error *error);
struct failure *failure_ref(struct failure *failure); /* NULL: NULL */
void failure_unref(struct core *core, struct failure *failure);
void failure_free_unused(struct core *core); /* those that nobody refers to since the last step */

static inline struct span failure_span(const struct failure *failure)
{
    return failure != NULL ? span_of(failure->bytes, failure->byte_count) : SPAN_NONE;
}

static inline struct span failure_id(const struct failure *failure)
{
    return span_of(failure->bytes + failure->id_at, failure->id_bytes);
}

static inline struct span failure_type(const struct failure *failure)
{
    return span_of(failure->bytes + failure->type_at, failure->type_bytes);
}

void failure_forget_replayed(
    struct core *core); /* failures that facts spoke of are held no longer */
void failure_forget_fallen(struct core *core);

#endif
