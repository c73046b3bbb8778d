/* SPDX-License-Identifier: MPL-2.0 */
/* status_json.c -- see status_json.h. */
#include "clients/status_json.h"

#include "clients/cli.h"
#include "clients/status_text.h"

#include <inttypes.h>
#include <stdio.h>

enum { INSTANCE_DIGITS = 16 };

const char *status_json_kind(enum bus_status_kind kind)
{
    switch (kind) {
    case BUS_STATUS_JOB: return "job";
    case BUS_STATUS_PARTY: return "party";
    case BUS_STATUS_TOPIC: return "topic";
    case BUS_STATUS_SUB: return "subscription";
    case BUS_STATUS_GROUP: return "group";
    }
    return "?";
}

static void print_row(FILE *out, const struct bus_status_row *row)
{
    struct cli_line line = cli_line_begin(out);
    cli_line_text(&line, "kind", status_json_kind(row->kind));
    cli_line_text(&line, "job", row->job);
    cli_line_text(&line, "name", row->name);
    switch (row->kind) {
    case BUS_STATUS_JOB:
        cli_line_text(&line, "state", bus_state_name(row->state));
        cli_line_number(&line, "open", (int64_t)row->open);
        cli_line_number(&line, "pending_bytes", (int64_t)row->pending_bytes);
        cli_line_number(&line, "next_event", (int64_t)row->next_seq);
        cli_line_number(&line, "window_bytes", (int64_t)row->window_bytes);
        break;
    case BUS_STATUS_PARTY:
        cli_line_text(&line, "state", bus_state_name(row->state));
        cli_line_number(&line, "incarnation", row->incarnation);
        if (status_has_ended(row)) {
            cli_line_number(&line, "ended_ms", (int64_t)row->ended_ms);
            cli_line_text(&line, "reason", row->reason);
        } else {
            cli_line_number(&line, "silent_ms", (int64_t)row->silent_ms);
        }
        if (row->where[0] != '\0') {
            cli_line_text(&line, "where", row->where);
        }
        cli_line_number(&line, "open", (int64_t)row->open);
        if (row->open_topic[0] != '\0') {
            cli_line_text(&line, "open_topic", row->open_topic);
            cli_line_number(&line, "open_seq", (int64_t)row->open_seq);
            cli_line_number(&line, "open_ms", (int64_t)row->open_ms);
        }
        break;
    case BUS_STATUS_TOPIC:
        cli_line_text(&line, "party", row->party);
        cli_line_number(&line, "open", (int64_t)row->open);
        cli_line_number(&line, "pending", (int64_t)row->pending);
        cli_line_number(&line, "pending_bytes", (int64_t)row->pending_bytes);
        cli_line_number(&line, "next_seq", (int64_t)row->next_seq);
        cli_line_number(&line, "window_bytes", (int64_t)row->window_bytes);
        break;
    case BUS_STATUS_SUB:
        cli_line_text(&line, "party", row->party);
        cli_line_text(&line, "state", bus_state_name(row->state));
        cli_line_number(&line, "incarnation", row->incarnation);
        cli_line_number(&line, "lag", (int64_t)row->pending);
        cli_line_number(&line, "window_bytes", (int64_t)row->window_bytes);
        break;
    case BUS_STATUS_GROUP:
        cli_line_text(&line, "topic", row->pattern);
        cli_line_text(&line, "state", bus_state_name(row->state));
        cli_line_number(&line, "members", row->members);
        cli_line_number(&line, "credit", (int64_t)row->credit);
        cli_line_number(&line, "leased", (int64_t)row->leased);
        cli_line_number(&line, "waiting", (int64_t)row->waiting);
        cli_line_number(&line, "dead", row->dead);
        break;
    }
    cli_line_end(&line);
}

static void print_journal(FILE *out, const struct bus_status_journal *journal,
                          const char *durability)
{
    struct cli_line line = cli_line_begin(out);
    cli_line_text(&line, "kind", "journal");
    cli_line_text(&line, "backend", journal->backend);
    cli_line_text(&line, "durability", durability);
    cli_line_text(&line, "directory", journal->directory);
    cli_line_text(&line, "state", bus_journal_state_name(journal->state));
    cli_line_text(&line, "reason", journal->reason);
    cli_line_number(&line, "bytes", (int64_t)journal->bytes);
    cli_line_number(&line, "first", (int64_t)journal->first);
    cli_line_number(&line, "next", (int64_t)journal->next);
    cli_line_number(&line, "synced", (int64_t)journal->synced);
    cli_line_number(&line, "spilled", (int64_t)journal->spilled);
    cli_line_number(&line, "spilled_bytes", (int64_t)journal->spilled_bytes);
    cli_line_end(&line);
}

void status_json_print(FILE *out, const struct bus_status *status,
                       const struct bus_status_row *const *rows, size_t count)
{
    const char *durability = bus_durability_name(bus_status_durability(status));
    struct cli_line line = cli_line_begin(out);
    char instance[INSTANCE_DIGITS + 1]; /* JSON's readers take numbers for doubles */
    snprintf(instance, sizeof instance, "%0*" PRIx64, INSTANCE_DIGITS, bus_status_instance(status));
    cli_line_text(&line, "kind", "broker");
    cli_line_text(&line, "version", bus_status_version(status));
    cli_line_text(&line, "instance", instance);
    cli_line_text(&line, "durability", durability);
    cli_line_number(&line, "uptime_ms", (int64_t)bus_status_uptime_ms(status));
    cli_line_number(&line, "cpu_ms", (int64_t)bus_status_cpu_ms(status));
    cli_line_number(&line, "refused", (int64_t)bus_status_refused(status));
    cli_line_end(&line);
    print_journal(out, bus_status_journal(status), durability);
    for (size_t i = 0; i < count; i++) {
        print_row(out, rows[i]);
    }
}
