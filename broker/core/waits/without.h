/* SPDX-License-Identifier: MPL-2.0 */
/* without.h -- the answer to what would fail if a party were lost now. */
#ifndef CORE_WAITS_WITHOUT_H
#define CORE_WAITS_WITHOUT_H

#include "broker/core/model.h"

/* The answer comes in this step, or in it and some that follow. */
void without_ask(struct core *core, struct session *session, const struct msg_without *msg);
/* The next part of the answer.  true: all was told. */
bool without_go_on(struct core *core, struct session *asker, struct wait_walk *walk,
                   uint32_t *budget);
void without_free(struct core *core, struct without *without); /* NULL: nothing */

#endif
