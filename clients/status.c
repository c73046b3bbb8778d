/* SPDX-License-Identifier: MPL-2.0 */
/* status.c -- errbus status: what a broker holds at this moment. */
#include "clients/errbus.h"

#include "clients/cli.h"
#include "clients/status_text.h"
#include "clients/text_table.h"

#include <bus/admin.h>
#include <stdlib.h>

#define EVERY_MS INT64_C(1000) /* between two prints, with --count */

struct asked {
    struct cli cli;
    bool is_all; /* show rows that are otherwise only counted */
};

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
        cli_json_number(line, "open", (int64_t)row->open);
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
    cli_json_print(&line, stdout);
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

static void print_json(const struct bus_status *status, const struct bus_status_row *const *rows)
{
    struct cli_json *line = cli_json_new();
    cli_json_text(line, "kind", "broker");
    cli_json_text(line, "version", bus_status_version(status));
    cli_json_text(line, "durability", bus_durability_name(bus_status_durability(status)));
    cli_json_number(line, "uptime_ms", (int64_t)bus_status_uptime_ms(status));
    cli_json_number(line, "refused", (int64_t)bus_status_refused(status));
    cli_json_print(&line, stdout);
    print_journal_json(bus_status_journal(status),
                       bus_durability_name(bus_status_durability(status)));
    for (size_t i = 0; i < bus_status_count(status); i++) {
        print_row_json(rows[i]);
    }
}

/* False: memory is short. */
static bool print_status(const struct asked *asked, const struct bus_status *status)
{
    size_t count = bus_status_count(status);
    const struct bus_status_row **rows = calloc(count + 1, sizeof *rows);
    if (rows == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        rows[i] = bus_status_at(status, i);
    }
    struct status_picture picture = {.version = bus_status_version(status),
                                     .durability =
                                         bus_durability_name(bus_status_durability(status)),
                                     .uptime_ms = bus_status_uptime_ms(status),
                                     .refused = bus_status_refused(status),
                                     .journal = bus_status_journal(status),
                                     .rows = rows,
                                     .count = count};
    struct status_style style = {.columns = text_stream_columns(stdout), .is_all = asked->is_all};
    bool is_printed = true;
    status_sort(rows, count);
    if (asked->cli.is_json) {
        print_json(status, rows);
    } else {
        is_printed = status_text_print(stdout, &picture, &style);
    }
    free(rows);
    return is_printed;
}

/* The job that the user asked for.  An empty name overrides the environment: no job. */
static const char *job_asked(const struct cli *cli)
{
    const char *job = cli->job != NULL ? cli->job : getenv("ERRBUS_JOB");
    return job != NULL ? job : BUS_JOB_ALL;
}

/* Prints the status once.  True: another one may follow. */
static bool show(const struct asked *asked, struct bus_admin *admin, const char *job, int *out_exit)
{
    const struct cli *cli = &asked->cli;
    struct bus_status *status = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_admin_status_get(admin, job, cli_open_ms(cli), &status, &error);
    if (err != BUS_OK) {
        *out_exit = cli_report(cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, &error);
        return false;
    }
    bool is_printed = print_status(asked, status);
    bus_status_free(&status);
    if (!is_printed) {
        *out_exit = cli_report(cli, BUS_ENOMEM, NULL);
        return false;
    }
    return cli_flush_output(cli, out_exit);
}

/* Prints the status --count times, one second apart. */
static int show_all(struct asked *asked, struct bus_admin *admin, const char *job)
{
    int result = CLI_OK;
    int64_t count = asked->cli.count < 0 ? 1 : asked->cli.count;
    for (int64_t i = 0; i < count; i++) {
        if (i > 0 && cli_wait(&asked->cli, -1, EVERY_MS) != CLI_WOKEN_TIME) {
            break;
        }
        if (!show(asked, admin, job, &result)) {
            break;
        }
    }
    return result;
}

int status_main(int argc, char **argv)
{
    struct asked asked = {
        .cli = {
            .program = "errbus status",
            .prints_lines = true,
            .count_help = "print N snapshots, a second apart (1)",
            .is_observer = true,
            .operands = "",
            .summary =
                "Shows the broker's journal, jobs, parties, topics, subscriptions and groups."}};
    struct cli *cli = &asked.cli;
    const struct cli_flag flags[] = {
        {'a', "all", CLI_YES, &asked.is_all, NULL,
         "list parties that ended long ago, and long tables, in full"},
    };
    int result = CLI_OK;
    if (!cli_start(cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    if (cli->argc != 0) {
        return cli_usage(cli, "unexpected operand '%.100s'", cli->argv[0]);
    }
    struct bus_admin *admin = NULL;
    const char *job = job_asked(cli);
    cli->job = job[0] != '\0' ? job : NULL; /* of the handle; each question names its own */
    result = cli_admin_open(cli, &admin);
    if (result != CLI_OK) {
        return result;
    }
    if (asked.cli.job != NULL) {
        result = cli_find_job(&asked.cli, admin);
    }
    if (result == CLI_OK) {
        result = show_all(&asked, admin, job);
    }
    bus_admin_close(&admin);
    return result;
}
