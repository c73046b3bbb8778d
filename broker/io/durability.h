/* SPDX-License-Identifier: MPL-2.0 */
/* durability.h -- what the broker promises of its journal, and so what its output waits for.
 *
 *                      memory     process      disk         shared
 *   outcomes         at once    in the log   in the log   on the disk
 *   answers          at once    in the log   on the disk  on the disk
 *   WELCOME          at once    in the log   on the disk  the next sync
 *   conclusions      at once    at once      at once      the next sync
 *   all else         at once    at once      at once      at once
 *
 * "In the log" survives the end of the broker's process, "on the disk" the end of its machine.  At
 * `shared` the next broker may be on another machine, and it has only what is on the disk.  So
 * nothing that anybody was shown is forgotten there.
 *
 * "The next sync" is one that begins when the part has been made.  Another broker may have the
 * journal by then, and this one not know it.  Such a broker must welcome and refuse nobody, for it
 * may know less of a party than the party does.  Its syncs fail.  Nearly all that a broker says
 * follows from facts, which need such a sync anyway.  That a party is refused is no fact. */
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
/* Where the facts behind a part must be before it is sent.  NEXT_SYNC: on the disk, too, and the
 * journal was still ours behind that. */
enum durability_wait { WAIT_FOR_NOTHING, WAIT_FOR_LOG, WAIT_FOR_DISK, WAIT_FOR_NEXT_SYNC };

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
