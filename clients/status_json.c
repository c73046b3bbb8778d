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
    struct cli_json *line = cli_json_new();
    cli_json_text(line, "kind", status_json_kind(row->kind));
    cli_json_text(line, "job", row->job);
    cli_json_text(line, "name", row->name);
    switch (row->kind) {
    case BUS_STATUS_JOB:
        cli_json_text(line, "state", bus_state_name(row->state));
        cli_json_number(line, "open", (int64_t)row->open);
        cli_json_number(line, "pending_bytes", (int64_t)row->pending_bytes);
        cli_json_number(line, "next_event", (int64_t)row->next_seq);
        cli_json_number(line, "window_bytes", (int64_t)row->window_bytes);
        break;
    case BUS_STATUS_PARTY:
        cli_json_text(line, "state", bus_state_name(row->state));
        cli_json_number(line, "incarnation", row->incarnation);
        if (status_has_ended(row)) {
            cli_json_number(line, "ended_ms", (int64_t)row->ended_ms);
            cli_json_text(line, "reason", row->reason);
        } else {
            cli_json_number(line, "silent_ms", (int64_t)row->silent_ms);
        }
        if (row->where[0] != '\0') {
            cli_json_text(line, "where", row->where);
        }
        cli_json_number(line, "open", (int64_t)row->open);
        if (row->open_topic[0] != '\0') {
            cli_json_text(line, "open_topic", row->open_topic);
            cli_json_number(line, "open_seq", (int64_t)row->open_seq);
            cli_json_number(line, "open_ms", (int64_t)row->open_ms);
        }
        break;
    case BUS_STATUS_TOPIC:
        cli_json_text(line, "party", row->party);
        cli_json_number(line, "open", (int64_t)row->open);
        cli_json_number(line, "pending", (int64_t)row->pending);
        cli_json_number(line, "pending_bytes", (int64_t)row->pending_bytes);
        cli_json_number(line, "next_seq", (int64_t)row->next_seq);
        cli_json_number(line, "window_bytes", (int64_t)row->window_bytes);
        break;
    case BUS_STATUS_SUB:
        cli_json_text(line, "party", row->party);
        cli_json_text(line, "state", bus_state_name(row->state));
        cli_json_number(line, "incarnation", row->incarnation);
        cli_json_number(line, "lag", (int64_t)row->pending);
        cli_json_number(line, "window_bytes", (int64_t)row->window_bytes);
        break;
    case BUS_STATUS_GROUP:
        cli_json_text(line, "topic", row->pattern);
        cli_json_text(line, "state", bus_state_name(row->state));
        cli_json_number(line, "members", row->members);
        cli_json_number(line, "credit", (int64_t)row->credit);
        cli_json_number(line, "leased", (int64_t)row->leased);
        cli_json_number(line, "waiting", (int64_t)row->waiting);
        cli_json_number(line, "dead", row->dead);
        break;
    }
    cli_json_print(&line, out);
}

static void print_journal(FILE *out, const struct bus_status_journal *journal,
                          const char *durability)
{
    struct cli_json *line = cli_json_new();
    cli_json_text(line, "kind", "journal");
    cli_json_text(line, "backend", journal->backend);
    cli_json_text(line, "durability", durability);
    cli_json_text(line, "directory", journal->directory);
    cli_json_text(line, "state", bus_journal_state_name(journal->state));
    cli_json_text(line, "reason", journal->reason);
    cli_json_number(line, "bytes", (int64_t)journal->bytes);
    cli_json_number(line, "first", (int64_t)journal->first);
    cli_json_number(line, "next", (int64_t)journal->next);
    cli_json_number(line, "synced", (int64_t)journal->synced);
    cli_json_number(line, "spilled", (int64_t)journal->spilled);
    cli_json_number(line, "spilled_bytes", (int64_t)journal->spilled_bytes);
    cli_json_print(&line, out);
}

void status_json_print(FILE *out, const struct bus_status *status,
                       const struct bus_status_row *const *rows, size_t count)
{
    const char *durability = bus_durability_name(bus_status_durability(status));
    struct cli_json *line = cli_json_new();
    char instance[INSTANCE_DIGITS + 1]; /* JSON's readers take numbers for doubles */
    snprintf(instance, sizeof instance, "%0*" PRIx64, INSTANCE_DIGITS, bus_status_instance(status));
    cli_json_text(line, "kind", "broker");
    cli_json_text(line, "version", bus_status_version(status));
    cli_json_text(line, "instance", instance);
    cli_json_text(line, "durability", durability);
    cli_json_number(line, "uptime_ms", (int64_t)bus_status_uptime_ms(status));
    cli_json_number(line, "cpu_ms", (int64_t)bus_status_cpu_ms(status));
    cli_json_number(line, "refused", (int64_t)bus_status_refused(status));
    cli_json_print(&line, out);
    print_journal(out, bus_status_journal(status), durability);
    for (size_t i = 0; i < count; i++) {
        print_row(out, rows[i]);
    }
}
