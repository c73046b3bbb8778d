/* SPDX-License-Identifier: MPL-2.0 */
/* attachment.c -- replays facts about attachments of errors. */
#include "broker/core/replay/facts.h"

#include "broker/core/record/attachment.h"
#include "broker/core/replay/lookup.h"

const char *replay_attachment_announced(struct core *core, struct job *job,
                                        const struct fact_attachment_announced *fact)
{
    if (attach_find(core, job, fact->error, fact->name) != NULL)
        return WRONG_NO_ORDER;
    return attach_announce(core, job, fact->error, fact->name, fact->promised) != NULL
               ? NULL
               : WRONG_NO_MEMORY;
}

const char *replay_attached(struct core *core, struct job *job, const struct fact_attached *fact,
                            payload_id payload)
{
    if ((payload == 0) != (fact->bytes == 0))
        return WRONG_NO_PAYLOAD;
    struct attachment *known = attach_find(core, job, fact->error, fact->name);
    if (known == NULL || known->state != ATTACHMENT_COMING)
        return WRONG_NO_ORDER;
    return attach_add(core, job, known,
                      &(struct attach_piece){.payload = payload,
                                             .bytes = (uint32_t)fact->bytes,
                                             .is_last = fact->is_last != 0})
               ? NULL
               : WRONG_NO_MEMORY;
}

const char *replay_attachment_dropped(struct core *core, struct job *job,
                                      const struct fact_attachment_dropped *fact)
{
    struct attachment *known = attach_find(core, job, fact->error, fact->name);
    bool is_full = fact->state == ATTACHMENT_FULL;
    if (known == NULL || (!is_full && fact->state != ATTACHMENT_DROPPED) ||
        known->state == ATTACHMENT_DROPPED || (is_full && known->state != ATTACHMENT_COMING))
        return WRONG_NO_ORDER;
    attach_end(core, job, known, (enum attachment_state)fact->state);
    known->arrived = fact->arrived;
    return NULL;
}

const char *replay_attachment_forgotten(struct core *core, struct job *job,
                                        const struct fact_attachment_forgotten *fact)
{
    struct attachment *known = attach_find(core, job, fact->error, fact->name);
    if (known == NULL)
        return WRONG_NO_ORDER;
    attach_forget(core, job, known);
    return NULL;
}
