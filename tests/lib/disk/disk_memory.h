/* SPDX-License-Identifier: MPL-2.0 */
/* disk_memory.h -- "memory:NAME": a disk in the memory of this process, for the journal of tests.
 *
 * It is the second implementation of broker/journal/disk.h, so whatever passes on it as on a
 * directory goes through that layer alone.  Its files last as long as the process: a disk that is
 * closed and opened again by its name has them still.  One disk may be open several times, as by
 * the journal and its reader, which may be in different threads.  All calls of one process share
 * one lock.  A disk is full at DISK_MEMORY_BYTES. */
#ifndef TESTS_LIB_DISK_MEMORY_H
#define TESTS_LIB_DISK_MEMORY_H

#include "broker/journal/disk.h"

/* Of all files of one disk. */
#define DISK_MEMORY_BYTES (UINT64_C(1024) * 1024 * 1024)

int disk_memory_open(const char *rest, bool may_make, struct disk **out_disk, char *complaint);
/* Another process takes the disk of this name: its owner is fenced from now on. */
void disk_memory_take(const char *rest);

#endif
