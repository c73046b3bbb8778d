/* SPDX-License-Identifier: MPL-2.0 */
/* priority.h -- who waits where there are more threads than cores: not the parties.
 *
 * Who looks at a page waits for milliseconds without seeing it.  A round trip of a party through
 * the broker is not as long. */
#ifndef CLIENTS_WEB_PRIORITY_H
#define CLIENTS_WEB_PRIORITY_H

enum { PRIORITY_NICE = 10 };

/* Of this thread and those that it starts: at least that nice, and as a batch, which takes no core
 * from a thread that runs.  Where a user chose another policy, such as a real-time one, or the
 * system refuses, it stays as it is. */
void priority_lower(void);

#endif
