/* SPDX-License-Identifier: MPL-2.0 */
/* disk_kinds.c -- the disks that errbusd knows.  The broker for tests has another list
 * (tests/lib/disk/disk_kinds.c). */
#include "broker/journal/disk.h"

const struct disk_kind disk_kinds[] = {
    {"folder", disk_folder_open, "PATH", NULL},
    {"postgres", disk_postgres_open, "CONNINFO", disk_postgres_open_shard},
};
const size_t disk_kind_count = sizeof disk_kinds / sizeof *disk_kinds;
