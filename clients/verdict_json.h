/* SPDX-License-Identifier: MPL-2.0 */
/* verdict_json.h -- why a job failed, as JSON. */
#ifndef CLIENTS_VERDICT_JSON_H
#define CLIENTS_VERDICT_JSON_H

#include <bus/report.h>
#include <stdio.h>

/* One line.  Without a verdict, "state" says whether the job goes on. */
void verdict_json_print(FILE *out, const struct bus_report *report);

#endif
