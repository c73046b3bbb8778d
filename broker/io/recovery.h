/* SPDX-License-Identifier: MPL-2.0 */
/* recovery.h -- a journal is read, and the port is where the broker was that wrote it. */
#ifndef IO_RECOVERY_H
#define IO_RECOVERY_H

#include "broker/io/core_port.h"
#include "broker/io/service_manager.h"
#include "broker/journal/journal.h"

#include <stdbool.h>
#include <stdint.h>

struct recovery {
    uint64_t steps; /* that were replayed */
    uint64_t payloads;
    uint64_t gaps; /* where a repair cut something out */
};

/* Replays the journal into a port that is new and resumes it.  The manager is told meanwhile that
 * the start goes on.  false: complaint, of
 * JOURNAL_COMPLAINT_BYTES, is a sentence that names the position. */
bool recovery_run(struct journal *journal, struct core_port *port, struct core_port_now now,
                  struct service_manager *manager, struct recovery *out, char *complaint);

#endif
