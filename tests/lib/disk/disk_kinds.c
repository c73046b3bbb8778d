/* SPDX-License-Identifier: MPL-2.0 */
/* disk_kinds.c -- the disks that the tests and their broker know: errbusd's, one in memory, and one
 * that can be lost. */
#include "tests/lib/disk/disk_memory.h"
#include "tests/lib/disk/disk_volume.h"

const struct disk_kind disk_kinds[] = {
    {"folder", disk_folder_open, "PATH", NULL},
    {"postgres", disk_postgres_open, "CONNINFO", disk_postgres_open_shard},
    {"memory", disk_memory_open, "NAME", NULL},
    {"volume", disk_volume_open, "PATH", NULL},
};
const size_t disk_kind_count = sizeof disk_kinds / sizeof *disk_kinds;
