/* SPDX-License-Identifier: MPL-2.0 */
/* status.c -- errbus status: what a broker holds at this moment. */
#include "clients/errbus.h"

#include "clients/cli.h"

#include <bus/admin.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_MS INT64_C(1000) /* between two pictures, with --count */

static const char *kind_text(enum bus_status_kind kind)
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

static void print_row_json(const struct bus_status_row *row)
{
    struct cli_json *line = cli_json_new();
    cli_json_text(line, "kind", kind_text(row->kind));
    cli_json_text(line, "job", row->job);
    cli_json_text(line, "name", row->name);
    switch (row->kind) {
    case BUS_STATUS_JOB:
        cli_json_number(line, "open", (int64_t)row->open);
        cli_json_number(line, "pending_bytes", (int64_t)row->pending_bytes);
        cli_json_number(line, "next_event", (int64_t)row->next_seq);
        break;
    case BUS_STATUS_PARTY:
        cli_json_text(line, "state", bus_state_name(row->state));
        cli_json_number(line, "incarnation", row->incarnation);
        cli_json_number(line, "silent_ms", (int64_t)row->silent_ms);
        cli_json_number(line, "open", (int64_t)row->open);
        break;
    case BUS_STATUS_TOPIC:
        cli_json_text(line, "party", row->party);
        cli_json_number(line, "open", (int64_t)row->open);
        cli_json_number(line, "pending", (int64_t)row->pending);
        cli_json_number(line, "pending_bytes", (int64_t)row->pending_bytes);
        cli_json_number(line, "next_seq", (int64_t)row->next_seq);
        break;
    case BUS_STATUS_SUB:
        cli_json_text(line, "party", row->party);
        cli_json_text(line, "state", bus_state_name(row->state));
        cli_json_number(line, "incarnation", row->incarnation);
        cli_json_number(line, "lag", (int64_t)row->pending);
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
    cli_json_print(&line, stdout);
}

static void print_row(const struct bus_status_row *row)
{
    switch (row->kind) {
    case BUS_STATUS_JOB:
        printf("job %s: %" PRIu64 " open, %" PRIu64 " bytes kept\n", row->name, row->open,
               row->pending_bytes);
        break;
    case BUS_STATUS_PARTY:
        printf("  party %s/%" PRIu32 ": %s, last sign of life %" PRIu64 ".%03" PRIu64
               " s ago, %" PRIu64 " open\n",
               row->name, row->incarnation, bus_state_name(row->state), row->silent_ms / 1000,
               row->silent_ms % 1000, row->open);
        break;
    case BUS_STATUS_TOPIC:
        printf("  topic %s: %" PRIu64 " open, %" PRIu64 " pending (%" PRIu64
               " bytes), next %" PRIu64 "\n",
               row->name, row->open, row->pending, row->pending_bytes, row->next_seq);
        break;
    case BUS_STATUS_SUB:
        printf("  subscription %s of %s: %s, %" PRIu64 " behind\n", row->name, row->party,
               bus_state_name(row->state), row->pending);
        break;
    case BUS_STATUS_GROUP:
        printf("  group %s of %s: %" PRIu32 " %s, %" PRIu64 " of %" PRIu64 " leased, %" PRIu64
               " waiting, %" PRIu32 " dead\n",
               row->name, row->pattern, row->members, row->members == 1 ? "member" : "members",
               row->leased, row->credit, row->waiting, row->dead);
        break;
    }
}

static void print_journal_json(const struct bus_status_journal *journal, const char *durability)
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
    cli_json_print(&line, stdout);
}

/* What a state that is not well means for those who send. */
static const char *held_text(enum bus_journal_state state)
{
    if (state == BUS_JOURNAL_FULL)
        return "values are held back";
    return state == BUS_JOURNAL_REFUSED ? "everything is held back" : bus_journal_state_name(state);
}

static void print_journal(const struct bus_status_journal *journal)
{
    if (strcmp(journal->backend, "none") == 0) {
        printf("journal none\n");
        return;
    }
    printf("journal %s (%s): %" PRIu64 " bytes, first %" PRIu64 ", next %" PRIu64
           ", synced %" PRIu64 ", %" PRIu64 " pieces on the disk only (%" PRIu64 " bytes)\n",
           journal->directory, journal->backend, journal->bytes, journal->first, journal->next,
           journal->synced, journal->spilled, journal->spilled_bytes);
    if (journal->state != BUS_JOURNAL_WELL)
        printf("  %s: %s\n", held_text(journal->state), journal->reason);
}

static void print_status(const struct cli *cli, const struct bus_status *status)
{
    uint64_t uptime_ms = bus_status_uptime_ms(status);
    if (cli->is_json) {
        struct cli_json *line = cli_json_new();
        cli_json_text(line, "kind", "broker");
        cli_json_text(line, "version", bus_status_version(status));
        cli_json_text(line, "durability", bus_durability_name(bus_status_durability(status)));
        cli_json_number(line, "uptime_ms", (int64_t)uptime_ms);
        cli_json_number(line, "refused", (int64_t)bus_status_refused(status));
        cli_json_print(&line, stdout);
        print_journal_json(bus_status_journal(status),
                           bus_durability_name(bus_status_durability(status)));
    } else {
        printf("broker %s: up %" PRIu64 " s, durability %s, %" PRIu64 " messages refused\n",
               bus_status_version(status), uptime_ms / 1000,
               bus_durability_name(bus_status_durability(status)), bus_status_refused(status));
        print_journal(bus_status_journal(status));
    }
    for (size_t i = 0; i < bus_status_count(status); i++) {
        if (cli->is_json) {
            print_row_json(bus_status_at(status, i));
        } else {
            print_row(bus_status_at(status, i));
        }
    }
}

/* The job asked for.  An empty name takes back what the environment says. */
static const char *job_asked(const struct cli *cli)
{
    const char *job = cli->job != NULL ? cli->job : getenv("ERRBUS_JOB");
    return job != NULL ? job : BUS_JOB_ALL;
}

/* True: another picture may follow. */
static bool show(const struct cli *cli, struct bus_admin *admin, const char *job, int *out_exit)
{
    struct bus_status *status = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_admin_status_get(admin, job, cli_open_ms(cli), &status, &error);
    if (err != BUS_OK) {
        *out_exit = cli_report(cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, &error);
        return false;
    }
    print_status(cli, status);
    bus_status_free(&status);
    return cli_flush_output(cli, out_exit);
}

int status_main(int argc, char **argv)
{
    struct cli cli = {
        .program = "errbus status",
        .prints_lines = true,
        .count_help = "print N pictures, a second apart (1)",
        .is_observer = true,
        .operands = "",
        .summary = "Shows the broker's journal, jobs, parties, topics, subscriptions and groups."};
    int result = CLI_OK;
    if (!cli_start(&cli, argc, argv, NULL, 0, &result)) {
        return result;
    }
    if (cli.argc != 0) {
        return cli_usage(&cli, "unexpected operand '%.100s'", cli.argv[0]);
    }
    struct bus_admin *admin = NULL;
    const char *job = job_asked(&cli);
    cli.job = job[0] != '\0' ? job : NULL; /* the handle's; each question names its own */
    result = cli_admin_open(&cli, &admin);
    if (result != CLI_OK) {
        return result;
    }
    int64_t count = cli.count < 0 ? 1 : cli.count;
    for (int64_t i = 0; i < count && (i == 0 || cli_wait(&cli, -1, EVERY_MS) == CLI_WOKEN_TIME);
         i++) {
        if (!show(&cli, admin, job, &result)) {
            break;
        }
    }
    bus_admin_close(&admin);
    return result;
}
