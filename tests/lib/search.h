/* SPDX-License-Identifier: MPL-2.0 */
/* search.h -- looks for secrets where they must not be. */
#ifndef TESTS_LIB_SEARCH_H
#define TESTS_LIB_SEARCH_H

#include <stdbool.h>
#include <sys/types.h>

/* How many files of a folder hold it, which has less than 256 bytes. */
unsigned folder_holds(const char *folder_path, const char *secret);
/* The same with what a process has in its memory: 1 or 0; -1: it may not be read. */
int memory_holds(pid_t pid, const char *secret);

#endif
