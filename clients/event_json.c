/* SPDX-License-Identifier: MPL-2.0 */
/* event_json.c -- see event_json.h. */
#include "clients/event_json.h"

#include "clients/cli.h"

void event_json_print(FILE *out, const struct bus_event *event)
{
    struct cli_json *line = cli_json_new();
    const char *topic = bus_event_topic(event);
    cli_json_number(line, "id", (int64_t)bus_event_id(event));
    cli_json_time(line, "at", bus_event_at_ns(event));
    cli_json_text(line, "job", bus_event_job(event));
    cli_json_text(line, "event", bus_event_name(event));
    cli_json_text(line, "party", bus_event_party(event));
    cli_json_number(line, "incarnation", bus_event_incarnation(event));
    if (topic[0] != '\0') {
        cli_json_text(line, "topic", topic);
        cli_json_number(line, "seq", (int64_t)bus_event_seq(event));
    }
    if (bus_event_count(event) > 0) {
        cli_json_number(line, "count", (int64_t)bus_event_count(event));
    }
    cli_json_bool(line, "durable", bus_event_is_durable(event) != 0);
    if (bus_event_is_late(event) != 0) {
        cli_json_bool(line, "late", true);
    }
    if (bus_event_text(event)[0] != '\0') {
        cli_json_text(line, "text", bus_event_text(event));
    }
    if (bus_event_first_error(event)[0] != '\0') {
        cli_json_text(line, "first_error", bus_event_first_error(event));
        cli_json_text(line, "last_error", bus_event_last_error(event));
    }
    if (bus_event_error(event) != NULL) {
        cli_json_error(line, "error", bus_event_error(event));
    }
    cli_json_print(&line, out);
}
