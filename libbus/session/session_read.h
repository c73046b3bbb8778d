/* SPDX-License-Identifier: MPL-2.0 */
/* session_read.h -- what other files need of subscriptions. */
#ifndef SESSION_SESSION_READ_H
#define SESSION_SESSION_READ_H

#include "libbus/session/model.h"

/* The subscription has news for session_sub_news(). */
void session_sub_notify(struct session *session, struct inbox_sub *sub);

#endif
