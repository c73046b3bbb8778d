/* SPDX-License-Identifier: MPL-2.0 */
/* error_fields.h -- fields of error objects that few need. */
#ifndef API_ERROR_FIELDS_H
#define API_ERROR_FIELDS_H

#include "libbus/api/model.h"

/* id: LIMIT_TRACE_ID_BYTES, or another length: none. */
void trace_set(struct trace *trace, struct span id);
/* Its own, or that of the bus that it was given to. */
const struct trace *error_trace(const struct bus_error *error);

#endif
