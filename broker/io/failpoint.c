/* SPDX-License-Identifier: MPL-2.0 */
/* failpoint.c -- nothing happens; see failpoint.h. */
#include "broker/io/failpoint.h"

void failpoint_reach(const char *name)
{
    (void)name;
}

uint64_t failpoint_number(const char *name, uint64_t usual)
{
    (void)name;
    return usual;
}
