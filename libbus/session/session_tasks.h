/* SPDX-License-Identifier: MPL-2.0 */
/* session_tasks.h -- the tasks that members of groups hold. */
#ifndef SESSION_SESSION_TASKS_H
#define SESSION_SESSION_TASKS_H

#include "libbus/session/model.h"

/* The application gets a task, which becomes a lease.  Errors: CODE_ENOMEM. */
enum wire_code tasks_take(struct session *session, const struct inbox_sub *sub,
                          struct session_item *item);
/* Whether the task's lease was over before it came.  Then it is given back, and not handed out. */
bool tasks_drop_lost(struct session *session, const struct inbox_sub *sub,
                     struct session_item *item);
void tasks_over_in(struct session *session, const struct msg_task_over *over);
/* Sends TASK for all settled tasks whose replies are uploaded. */
void tasks_say(struct session *session);
/* Sends TASK for the settled tasks of one subscription; false: no memory, or a reply is still an
 * upload. */
bool tasks_say_of(struct session *session, uint32_t sub);
/* Sends TASK for all settled tasks, whatever is being uploaded; false: no memory. */
bool tasks_say_all(struct session *session, uint64_t after_upload);
/* The next POSITION of a lease; false: there is none left. */
bool tasks_message(struct session *session, struct msg *out);

#endif
