/* SPDX-License-Identifier: MPL-2.0 */
/* disk_probe.h -- whether a disk answers, beside what is measured on it.
 *
 * A thread writes a small block and syncs it, over and over.  Usually that takes a fraction of a
 * millisecond.  Where it takes longer than a limit, the disk counts as still for all of that time.
 * Whoever waits for a sync of that disk then waited, too. */
#ifndef BENCH_DISK_PROBE_H
#define BENCH_DISK_PROBE_H

#include <stdint.h>

struct disk_probe;

/* Makes a file at path, which nobody else uses.  Ends the program where it fails. */
struct disk_probe *disk_probe_start(const char *path, int64_t limit_ns);
/* Ends it, and removes the file.  For how long the disk was still, all in all. */
int64_t disk_probe_end(struct disk_probe **probe);

#endif
