/* SPDX-License-Identifier: MPL-2.0 */
/* endpoint.h -- a list of endpoints, and what happened at each. */
#ifndef API_ENDPOINT_H
#define API_ENDPOINT_H

#include "libbus/api/model.h"

/* list: NULL: $ERRBUS_SERVER, else the default.  Errors: BUS_EINVAL, with a sentence. */
enum bus_err endpoints_read(struct endpoints *endpoints, const char *list,
                            struct bus_error **reterr);
const char *endpoints_next(struct endpoints *endpoints);
void endpoints_describe(const struct endpoints *endpoints, char *text, size_t room);

#endif
