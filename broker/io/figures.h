/* SPDX-License-Identifier: MPL-2.0 */
/* figures.h -- what the loop counts and measures for METRICS. */
#ifndef IO_FIGURES_H
#define IO_FIGURES_H

#include "broker/io/peers.h"
#include "libbus/wire/metric.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a handshake of ZeroMQ ended. */
enum handshake { HANDSHAKE_OK, HANDSHAKE_UNKNOWN_KEY, HANDSHAKE_PROTOCOL, HANDSHAKE_UNFINISHED };
enum { HANDSHAKE_COUNT = HANDSHAKE_UNFINISHED + 1 };

struct figures {
    int64_t start_wall_ns;
    uint64_t own_fds; /* descriptors that were open at the start */
    uint64_t handshakes[HANDSHAKE_COUNT];
    uint64_t messages_in[LANE_COUNT], messages_out[LANE_COUNT];
    uint64_t bytes_in[LANE_COUNT], bytes_out[LANE_COUNT];
    uint64_t silent;  /* connections that were closed without a valid first message */
    uint64_t refused; /* ... and that were refused for failures of their address */
    uint64_t steps;   /* of the core, that were measured */
    struct histogram step;
    struct histogram error_delivery;
};

/* When the broker starts, and has no connections yet. */
void figures_begin(struct figures *figures, int64_t wall_ns);
/* Counts an event of a monitor, if it ends a handshake; type: ZMQ_EVENT_... */
void figures_see_event(struct figures *figures, unsigned type);
/* Gives all that is known here; the process as the system describes it now.  What is not known
 * stays METRIC_NOT_KNOWN.  connections: that are open, each with a descriptor. */
void figures_tell(const struct figures *figures, uint32_t connections, struct metric_figures *out);

/* Processor time of this process; 0: not known. */
uint64_t figures_cpu_ns(void);

#endif
