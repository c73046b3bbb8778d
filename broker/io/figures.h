/* SPDX-License-Identifier: MPL-2.0 */
/* figures.h -- what the loop counts and measures for METRICS. */
#ifndef IO_FIGURES_H
#define IO_FIGURES_H

#include "broker/io/peers.h"
#include "libbus/wire/metric.h"

#include <stddef.h>
#include <stdint.h>

struct figures {
    int64_t start_wall_ns;
    uint64_t messages_in[LANE_COUNT], messages_out[LANE_COUNT];
    uint64_t bytes_in[LANE_COUNT], bytes_out[LANE_COUNT];
    uint64_t silent;  /* connections that were closed without a valid first message */
    uint64_t refused; /* ... and that were refused for failures of their address */
    uint64_t steps;   /* of the core, that were measured */
    struct histogram step;
    struct histogram error_delivery;
};

/* Gives all that is known here; the process as the system describes it now.  What is not known
 * stays METRIC_NOT_KNOWN. */
void figures_tell(const struct figures *figures, struct metric_figures *out);

#endif
