/* SPDX-License-Identifier: MPL-2.0 */
/* options.h -- options of the public calls: defaults, environment, checks. */
#ifndef API_OPTIONS_H
#define API_OPTIONS_H

#include "libbus/api/model.h"

/* Defaults, then what the caller's struct has; NULL: defaults.  false: bytes behind what is
 * known. */
bool options_take(void *known, size_t known_bytes, const void *given, size_t given_bytes);
/* Defaults into the caller's struct, as far as it goes, zero behind, and its size at its front. */
void options_give(void *options, size_t bytes, const void *defaults, size_t default_bytes);
/* Timeouts are 0 and up, or BUS_FOREVER. */
static inline bool options_time_is_valid(int64_t timeout_ms)
{
    return timeout_ms >= BUS_FOREVER;
}
/* The options in force, checked; job and party are written to the two texts. */
enum bus_err options_of_bus(const struct bus_options *given, struct bus_options *out_options,
                            char job[LIMIT_NAME_BYTES + 1], char party[LIMIT_NAME_BYTES + 1],
                            struct bus_error **reterr);
/* The token in force for a party of this job: of options, or of the environment; 0: none. */
enum bus_err options_token(const struct bus_options *options, uint64_t *out_token,
                           struct bus_error **reterr);
enum bus_err options_job(const char *given, char job[LIMIT_NAME_BYTES + 1],
                         struct bus_error **reterr);
enum bus_err options_periods(const struct bus_options *options, struct bus_error **reterr);

#endif
