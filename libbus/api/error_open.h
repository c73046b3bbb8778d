/* SPDX-License-Identifier: MPL-2.0 */
/* error_open.h -- sealed traces of errors, opened with the key of the auditor. */
#ifndef API_ERROR_OPEN_H
#define API_ERROR_OPEN_H

#include "libbus/api/model.h"
#include "libbus/api/sealing.h"

/* Reads the key file and opens the trace of this error into room of SEALED_TRACE_BYTES_MAX.  The
 * key is written to out_pair, and has to be forgotten whatever is returned. */
enum bus_err error_open_trace(const struct bus_error *error, const char *key_path, uint8_t *room,
                              struct sealed_trace *out_trace, struct key_pair *out_pair,
                              struct bus_error **reterr);

#endif
