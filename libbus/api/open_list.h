/* SPDX-License-Identifier: MPL-2.0 */
/* open_list.h -- the parties that this process has open, for when it ends. */
#ifndef API_OPEN_LIST_H
#define API_OPEN_LIST_H

#include "libbus/api/model.h"

void open_list_add(struct bus *bus);
void open_list_remove(struct bus *bus); /* one that was never added: nothing happens */
/* Visits each with its lock, which visit gives up at most to wait with it, until deadline_ns.  A
 * bus that is visited stays on the list, and is not freed.  Buses of a parent process, and those
 * whose lock this thread or another one keeps, are left out. */
void open_list_visit(int64_t deadline_ns, void (*visit)(struct bus *bus, int64_t deadline_ns));

#endif
