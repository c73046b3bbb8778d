/* SPDX-License-Identifier: MPL-2.0 */
/* verdict_json.c -- see verdict_json.h. */
#include "clients/verdict_json.h"

#include "clients/cli.h"

static void add_row(struct cli_json *rows, const struct bus_report_row *row)
{
    struct cli_json *object = cli_json_append(rows);
    cli_json_number(object, "row", row->number);
    cli_json_text(object, "role", bus_report_role_name(row->role));
    if (row->role == BUS_REPORT_VICTIM) {
        cli_json_number(object, "next", row->next);
        cli_json_text(object, "by", row->is_blame ? "blame" : "cause");
        cli_json_number(object, "steps", row->steps);
    }
    if (row->stamp_ns != 0) {
        cli_json_number(object, "stamp_ns", row->stamp_ns);
        cli_json_number(object, "uncertainty_ns", (int64_t)row->uncertainty_ns);
    } else {
        cli_json_null(object, "stamp_ns");
    }
    cli_json_text(object, "id", row->id);
    cli_json_text(object, "party", row->party);
    cli_json_number(object, "incarnation", row->incarnation);
    cli_json_text(object, "kind", row->kind);
    cli_json_text(object, "type", row->type);
    cli_json_text(object, "message", row->message);
}

void verdict_json_print(FILE *out, const struct bus_report *report)
{
    const struct bus_report_summary *summary = bus_report_summary(report);
    struct cli_json *line = cli_json_new();
    cli_json_text(line, "state",
                  summary->outlook == BUS_OUTLOOK_GOES_ON ? "running"
                  : summary->outlook == BUS_OUTLOOK_ENDED_WELL
                      ? "ended"
                      : bus_report_state_name(summary->state));
    cli_json_number(line, "attempt", summary->attempt);
    cli_json_text(line, "strategy", bus_strategy_name(summary->strategy));
    cli_json_text(line, "reason", bus_report_reason_name(summary->reason));
    cli_json_text(line, "why", summary->why);
    cli_json_number(line, "candidates", summary->candidates);
    cli_json_number(line, "close", summary->close);
    cli_json_number(line, "victims", summary->victims);
    cli_json_number(line, "apart", summary->apart);
    cli_json_number(line, "aside", summary->aside);
    cli_json_number(line, "unknown_causes", summary->unknown_causes);
    cli_json_number(line, "rows_left_out", summary->rows_left_out);
    cli_json_bool(line, "complete", summary->is_complete != 0);
    if (bus_report_root(report) != NULL) {
        cli_json_error(line, "root", bus_report_root(report));
    } else {
        cli_json_null(line, "root");
    }
    struct cli_json *rows = cli_json_array(line, "errors");
    for (size_t i = 0; i < bus_report_count(report); i++) {
        add_row(rows, bus_report_at(report, i));
    }
    cli_json_print(&line, out);
}
