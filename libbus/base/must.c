/* SPDX-License-Identifier: MPL-2.0 */
/* must.c -- ends a process whose invariant is broken.  It is the one place of the library that
 * prints, because no caller is left to get a code. */
#include "libbus/base/must.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void must_fail(const char *claim, const char *file, int line)
{
    fprintf(stderr, "errbus: broken invariant: %s (%s:%d)\n", claim, file, line);
    abort();
}
