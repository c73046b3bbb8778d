/* SPDX-License-Identifier: MPL-2.0 */
/* event_json.h -- an event of a job, as a line of JSON. */
#ifndef CLIENTS_EVENT_JSON_H
#define CLIENTS_EVENT_JSON_H

#include <bus/tap.h>
#include <stdio.h>

void event_json_print(FILE *out, const struct bus_event *event);

#endif
