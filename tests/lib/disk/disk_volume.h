/* SPDX-License-Identifier: MPL-2.0 */
/* disk_volume.h -- "volume:PATH": a folder on a volume that a machine may lose.
 *
 * What is written to a file reaches the folder when the file is synced or shut.  So a broker that
 * ends leaves what it synced and nothing else, as for a broker on another machine.  The volume is
 * taken away from this process while there is a file "PATH.gone": then each call that changes or
 * reads something gives EIO. */
#ifndef TESTS_LIB_DISK_VOLUME_H
#define TESTS_LIB_DISK_VOLUME_H

#include "broker/journal/disk.h"

int disk_volume_open(const char *rest, bool may_make, struct disk **out_disk, char *complaint);

#endif
