/* SPDX-License-Identifier: MPL-2.0 */
/* attachment.h -- replays facts about attachments of errors. */
#ifndef CORE_REPLAY_ATTACHMENT_H
#define CORE_REPLAY_ATTACHMENT_H

#include "broker/core/model.h"

const char *replay_attachment_announced(struct core *core,
                                        const struct fact_attachment_announced *fact);
/* Before there were announcements, the first piece stood for one. */
const char *replay_attached(struct core *core, const struct fact_attached *fact,
                            payload_id payload);
const char *replay_attachment_dropped(struct core *core,
                                      const struct fact_attachment_dropped *fact);
const char *replay_attachment_forgotten(struct core *core,
                                        const struct fact_attachment_forgotten *fact);

#endif
