/* SPDX-License-Identifier: MPL-2.0 */
/* priority.c -- see priority.h. */
#include "clients/web/priority.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>

void priority_lower(void)
{
    const struct sched_param none = {.sched_priority = 0};
    if (sched_getscheduler(0) != SCHED_OTHER) {
        return;
    }
    (void)sched_setscheduler(0, SCHED_BATCH, &none);
    errno = 0;
    int nice = getpriority(PRIO_PROCESS, 0);
    if (errno == 0 && nice < PRIORITY_NICE) {
        (void)setpriority(PRIO_PROCESS, 0, PRIORITY_NICE);
    }
}
