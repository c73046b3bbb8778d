/* SPDX-License-Identifier: MPL-2.0 */
/* letter.h -- dead letters: tasks that no member could do. */
#ifndef CORE_GROUPS_LETTER_H
#define CORE_GROUPS_LETTER_H

#include "broker/core/model.h"

/* The topics of a group's letters; false: no room. */
bool letter_topics(struct core *core, struct group *group);
/* What is left of a task that nobody could do. */
void letter_write(struct core *core, struct task *task, struct failure *failure);
struct letter *letter_find(const struct group *group, uint64_t number);
/* false: no memory. */
bool letter_keep(struct core *core, struct group *group, const struct letter *terms);
void letter_message(struct core *core, struct session *session, const struct msg_dead *msg);

#endif
