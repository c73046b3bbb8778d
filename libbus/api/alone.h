/* SPDX-License-Identifier: MPL-2.0 */
/* alone.h -- whether a process has threads of its application that are not blocked in this bus. */
#ifndef API_ALONE_H
#define API_ALONE_H

#include <stdbool.h>

/* A thread of the library says both of itself, and runs nothing of the application in between. */
void alone_thread_begins(void);
void alone_thread_ends(void);
void alone_forked(void); /* in the child: no thread of the library is there */

/* Whether the process has no threads but those of the library and of its transport, and `blocked`
 * others.  false also if that cannot be known. */
bool alone_is(unsigned blocked);

#endif
