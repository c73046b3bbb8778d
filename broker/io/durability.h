/* SPDX-License-Identifier: MPL-2.0 */
/* durability.h -- what the broker promises of its journal, and so what its output waits for.
 *
 *                      memory     process      disk         shared
 *   outcomes         at once    in the log   in the log   on the disk
 *   answers          at once    in the log   on the disk  on the disk
 *   conclusions      at once    at once      at once      on the disk
 *   all else         at once    at once      at once      at once
 *
 * "In the log" survives the end of the broker's process, "on the disk" the end of its machine.  At
 * `shared` the next broker may be on another machine, and it has only what is on the disk.  So
 * nothing that anybody was shown is forgotten there. */
#ifndef IO_DURABILITY_H
#define IO_DURABILITY_H

#include "broker/io/core_port.h"

/* The numbers are those of WELCOME.durability. */
enum durability {
    DURABILITY_MEMORY,
    DURABILITY_PROCESS,
    DURABILITY_DISK,
    DURABILITY_SHARED,
    DURABILITY_COUNT
};
/* Where the facts behind a part must be before it is sent. */
enum durability_wait { WAIT_FOR_NOTHING, WAIT_FOR_LOG, WAIT_FOR_DISK };

/* As in the table above. */
enum durability_wait durability_wait(enum durability durability, enum core_port_saying saying);
/* Whether the journal is synced as it comes. */
bool durability_syncs(enum durability durability);
/* What the core has to know of it. */
void durability_tell(enum durability durability, struct core_options *options);
/* As on the command line. */
const char *durability_name(enum durability durability);
/* DURABILITY_COUNT: there is no level of this name. */
enum durability durability_named(const char *name);

#endif
