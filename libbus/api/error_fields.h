/* SPDX-License-Identifier: MPL-2.0 */
/* error_fields.h -- fields of error objects that few need. */
#ifndef API_ERROR_FIELDS_H
#define API_ERROR_FIELDS_H

#include "libbus/api/model.h"

void error_keep_trace_id(struct bus_error *error, struct span trace_id); /* empty: none */

#endif
