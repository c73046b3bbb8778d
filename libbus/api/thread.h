/* SPDX-License-Identifier: MPL-2.0 */
/* thread.h -- the library's thread. */
#ifndef API_THREAD_H
#define API_THREAD_H

#include "libbus/api/model.h"

/* A thread of the library: named, all signals blocked. */
bool thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg);
void *thread_main(void *bus);

#endif
