/* SPDX-License-Identifier: MPL-2.0 */
/* status_json.h -- what a broker holds, as JSON: a line for each row. */
#ifndef CLIENTS_STATUS_JSON_H
#define CLIENTS_STATUS_JSON_H

#include <bus/admin.h>
#include <stddef.h>
#include <stdio.h>

/* The word for rows of this kind, "job".  Never NULL; static. */
const char *status_json_kind(enum bus_status_kind kind);
/* The broker, its journal, then count rows in this order. */
void status_json_print(FILE *out, const struct bus_status *status,
                       const struct bus_status_row *const *rows, size_t count);

#endif
