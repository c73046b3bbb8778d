/* SPDX-License-Identifier: MPL-2.0 */
/* allocation.h -- programs in which an allocation fails when the program says so.  They are linked
 * with --wrap=malloc,--wrap=calloc,--wrap=realloc: where our own objects call these, allocation.c
 * answers.  What libzmq takes for itself is not ours. */
#ifndef TESTS_LIB_FAILPOINT_ALLOCATION_H
#define TESTS_LIB_FAILPOINT_ALLOCATION_H

#include <stdbool.h>

/* The program's: it is asked before each allocation.  false: that one fails.  By any thread. */
bool allocation_is_granted(void);

#endif
