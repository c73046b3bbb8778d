/* SPDX-License-Identifier: MPL-2.0 */
/* failpoint.c -- the broker for tests dies where the environment says; see broker/io/failpoint.h.
 *
 *   ERRBUS_FAILPOINT=NAME:COUNT   as by kill -9, when it gets to NAME for the COUNTth time
 *   ERRBUS_HOLD=NAME:COUNT        its thread says "held" on standard error and stays there
 *   ERRBUS_SLOW=NAME:MS           its thread sleeps each time that it gets to NAME
 *   ERRBUS_NUMBER_NAME=N          N instead of the usual number of this name */
#include "broker/io/failpoint.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_ulong reached;
static atomic_ulong reached_to_hold;

/* The number if the variable says NAME:NUMBER, else 0. */
static unsigned long number_for(const char *variable, const char *name)
{
    const char *wanted = getenv(variable);
    size_t length = strlen(name);
    if (wanted == NULL || strncmp(wanted, name, length) != 0 || wanted[length] != ':')
        return 0;
    return strtoul(wanted + length + 1, NULL, 10);
}

/* Whether the variable says NAME:COUNT, and this is that time. */
static bool is_meant(const char *variable, const char *name, atomic_ulong *count)
{
    unsigned long wanted = number_for(variable, name);
    return wanted != 0 && atomic_fetch_add(count, 1) + 1 == wanted;
}

void failpoint_reach(const char *name)
{
    if (is_meant("ERRBUS_FAILPOINT", name, &reached))
        kill(getpid(), SIGKILL);
    unsigned long slow_ms = number_for("ERRBUS_SLOW", name);
    if (slow_ms != 0)
        usleep((useconds_t)slow_ms * 1000);
    if (is_meant("ERRBUS_HOLD", name, &reached_to_hold)) {
        fprintf(stderr, "held\n");
        for (;;)
            pause();
    }
}

uint64_t failpoint_number(const char *name, uint64_t usual)
{
    char variable[64];
    snprintf(variable, sizeof variable, "ERRBUS_NUMBER_%s", name);
    const char *value = getenv(variable);
    return value != NULL ? strtoull(value, NULL, 10) : usual;
}
