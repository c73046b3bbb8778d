/* SPDX-License-Identifier: MPL-2.0 */
/* open_list.h -- the parties that this process has open, so that its exit can flush them. */
#ifndef API_OPEN_LIST_H
#define API_OPEN_LIST_H

#include "libbus/api/model.h"

void open_list_add(struct bus *bus);
void open_list_remove(struct bus *bus); /* no effect if it was never added */
/* Visits each bus with its lock, until deadline_ns.  visit may release the lock only to wait.  A
 * bus that is visited stays on the list, and is not freed.  Left out are buses of a parent process,
 * and buses whose lock this thread or another one keeps. */
void open_list_visit(int64_t deadline_ns, void (*visit)(struct bus *bus, int64_t deadline_ns));

#endif
