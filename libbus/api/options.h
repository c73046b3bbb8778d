/* SPDX-License-Identifier: MPL-2.0 */
/* options.h -- options of the public calls: defaults, environment, checks. */
#ifndef API_OPTIONS_H
#define API_OPTIONS_H

#include "libbus/api/model.h"
#include "libbus/base/key_text.h"

/* Copies the caller's struct over the defaults in known.  false: it has unknown bytes that are not
 * zero. */
bool options_take(void *known, size_t known_bytes, const void *given, size_t given_bytes);
/* Fills the caller's struct with the defaults that it has room for, then zeros, and its size at the
 * front. */
void options_give(void *options, size_t bytes, const void *defaults, size_t default_bytes);
/* Timeouts are 0 and up, or BUS_FOREVER. */
static inline bool options_time_is_valid(int64_t timeout_ms)
{
    return timeout_ms >= BUS_FOREVER;
}
/* The same, and slices. */
static inline bool options_wait_is_valid(int64_t timeout_ms)
{
    return timeout_ms >= BUS_SLICE_LIMITED;
}
/* The options in force, checked; job and party are written to the two texts. */
enum bus_err options_of_bus(const struct bus_options *given, struct bus_options *out_options,
                            char job[LIMIT_NAME_BYTES + 1], char party[LIMIT_NAME_BYTES + 1],
                            struct bus_error **reterr);
/* The token in force for a party of this job: of options, or of the environment; 0: none. */
enum bus_err options_token(const struct bus_options *options, uint64_t *out_token,
                           struct bus_error **reterr);
/* Reads bus_options.traceparent: its trace id, LIMIT_TRACE_ID_BYTES; has_id says whether there is
 * one. */
enum bus_err options_traceparent(const char *given, uint8_t out_id[LIMIT_TRACE_ID_BYTES],
                                 bool *out_has_id, struct bus_error **reterr);
/* Reads the public key of an auditor; NULL or "": none, and has_key says so. */
enum bus_err options_auditor(const char *text, uint8_t out_key[KEY_BYTES], bool *out_has_key,
                             struct bus_error **reterr);
enum bus_err options_job(const char *given, char job[LIMIT_NAME_BYTES + 1],
                         struct bus_error **reterr);
enum bus_err options_periods(const struct bus_options *options, struct bus_error **reterr);

#endif
