/* SPDX-License-Identifier: MPL-2.0 */
/* must.c -- the end of a process whose invariant is broken: the one place of the library that
 * speaks, because nobody is left to return a code to. */
#include "libbus/base/must.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void must_fail(const char *claim, const char *file, int line)
{
    fprintf(stderr, "errbus: broken invariant: %s (%s:%d)\n", claim, file, line);
    abort();
}
