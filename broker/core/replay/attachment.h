/* SPDX-License-Identifier: MPL-2.0 */
/* attachment.h -- replays facts about attachments of errors. */
#ifndef CORE_REPLAY_ATTACHMENT_H
#define CORE_REPLAY_ATTACHMENT_H

#include "broker/core/model.h"

/* A fact of an attachment of this job. */
const char *replay_of_attachment(struct core *core, const struct fact *fact, struct job *job,
                                 payload_id payload);

#endif
