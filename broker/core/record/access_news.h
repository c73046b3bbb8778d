/* SPDX-License-Identifier: MPL-2.0 */
/* access_news.h -- what operators are told of the access file.
 *
 * An operator who asks for the file to be read again is answered before anybody loses access: it
 * may be the operator.  The events go to the taps of all jobs. */
#ifndef CORE_RECORD_ACCESS_NEWS_H
#define CORE_RECORD_ACCESS_NEWS_H

#include "broker/core/model.h"

void access_news_asked(struct core *core, struct session *session, const struct msg_reload *msg);
/* Another table comes into force, and so many parties lose their access. */
void access_news_reloaded(struct core *core, const struct access *before,
                          const struct access *access, uint32_t revoked);
void access_news_word(struct core *core, enum access_word word, const char *text);

#endif
