/* SPDX-License-Identifier: MPL-2.0 */
/* otlp.h -- failures as log records of OpenTelemetry, in the JSON form of its protocol (OTLP). */
#ifndef CLIENTS_OTLP_H
#define CLIENTS_OTLP_H

#include <bus/tap.h>
#include <stdbool.h>
#include <stdio.h>

/* Writes an event that has an error as one line: a LogsData with one record.  Other events write
 * nothing.  false: no memory, or the file takes no more. */
bool otlp_write(FILE *file, const struct bus_event *event);

#endif
