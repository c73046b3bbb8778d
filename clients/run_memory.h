/* SPDX-License-Identifier: MPL-2.0 */
/* run_memory.h -- whether the kernel kills for want of memory, where we and our programs run.
 *
 * A process is in one control group that accounts for memory: of version 2, or, as long as that
 * controller is mounted by itself, of version 1 (cgroups(7)).  Both count kills there, version 1
 * since Linux 4.13: in memory.events, or in memory.oom_control. */
#ifndef CLIENTS_RUN_MEMORY_H
#define CLIENTS_RUN_MEMORY_H

#include <stdint.h>

/* How often the kernel has killed in our control group; 0: never, or it does not tell.  root: a
 * prefix of /proc and /sys, or "". */
uint64_t run_memory_kills(const char *root);

#endif
