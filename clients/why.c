/* SPDX-License-Identifier: MPL-2.0 */
/* why.c -- errbus why: who waits for whom in a job, and who everybody waits for. */
#include "clients/errbus.h"

#include "clients/cli.h"
#include "clients/why_text.h"

#include <bus/why.h>
#include <string.h>

#define EVERY_MS INT64_C(1000) /* between two snapshots, with --watch */

struct asked {
    struct cli cli;
    bool is_dot;
    bool is_watch;
    const char *without; /* a party; NULL: who waits is asked */
    const char *job;     /* NULL: as flags and environment say */
    const char *party;
    const char *topic;
    int64_t seq;
};

/* ---- what the operands mean ------------------------------------------------------------------ */

static bool has_party(const struct bus_status *status, const char *name)
{
    for (size_t i = 0; i < bus_status_count(status); i++) {
        const struct bus_status_row *row = bus_status_at(status, i);
        if (row->kind == BUS_STATUS_PARTY && strcmp(row->name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_job(const struct bus_status *status, const char *name)
{
    for (size_t i = 0; i < bus_status_count(status); i++) {
        const struct bus_status_row *row = bus_status_at(status, i);
        if (row->kind == BUS_STATUS_JOB && strcmp(row->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* One operand is a party of the job, or else the name of a job. */
static int find_operand(struct asked *asked, struct bus_admin *admin, const char *word)
{
    struct bus_status *status = NULL;
    struct bus_error *error = NULL;
    const struct cli *cli = &asked->cli;
    enum bus_err err = bus_admin_status_get(admin, NULL, cli_open_ms(cli), &status, &error);
    if (err == BUS_OK && has_party(status, word)) {
        asked->party = word;
        bus_status_free(&status);
        return CLI_OK;
    }
    bus_status_free(&status);
    if (err == BUS_OK) { /* of any shard: it is asked for by name */
        err = bus_admin_status_get(admin, word, cli_open_ms(cli), &status, &error);
    }
    if (err == BUS_EINVAL) { /* no job has such a name */
        bus_error_unref(&error);
        err = BUS_OK;
    }
    if (err != BUS_OK) {
        return cli_report(cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, &error);
    }
    bool is_job = has_job(status, word);
    bus_status_free(&status);
    asked->job = word;
    if (is_job) {
        return CLI_OK;
    }
    return cli_usage(cli,
                     "'%.100s' is neither a party of this job nor a job; for a slot give its "
                     "topic and number",
                     word);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void print_why(const struct asked *asked, struct bus_why *why)
{
    if (asked->cli.is_json) {
        why_json_print(stdout, why);
    } else if (asked->is_dot) {
        why_dot_print(stdout, why);
    } else if (asked->party != NULL) {
        why_party_print(stdout, why, asked->party);
    } else if (asked->topic != NULL) {
        why_slot_print(stdout, why);
    } else {
        why_text_print(stdout, why);
    }
}

/* What would fail without a party, in place of who waits. */
static bool show_without(const struct asked *asked, struct bus_admin *admin, int *out_exit)
{
    struct bus_without *without = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_without_get(admin, asked->job, asked->without, cli_open_ms(&asked->cli),
                                       &without, &error);
    if (err != BUS_OK) {
        *out_exit = cli_report(&asked->cli, cli_unanswered(&asked->cli, err), &error);
        return false;
    }
    if (asked->cli.is_json) {
        without_json_print(stdout, without, asked->without);
    } else {
        without_text_print(stdout, without, asked->without);
    }
    bus_without_free(&without);
    return cli_flush_output(&asked->cli, out_exit);
}

/* True: another snapshot may follow. */
static bool show(const struct asked *asked, struct bus_admin *admin, int *out_exit)
{
    struct bus_why *why = NULL;
    struct bus_error *error = NULL;
    if (asked->without != NULL) {
        return show_without(asked, admin, out_exit);
    }
    enum bus_err err = bus_why_get(admin, asked->job, asked->topic, (uint64_t)asked->seq,
                                   cli_open_ms(&asked->cli), &why, &error);
    if (err != BUS_OK) {
        *out_exit = cli_report(&asked->cli, cli_unanswered(&asked->cli, err), &error);
        return false;
    }
    print_why(asked, why);
    bus_why_free(&why);
    return cli_flush_output(&asked->cli, out_exit);
}

static int show_all(struct asked *asked, struct bus_admin *admin)
{
    int result = CLI_OK;
    int64_t count = asked->cli.count;
    if (count < 0) {
        count = asked->is_watch ? INT64_MAX : 1;
    }
    while (count-- > 0 && show(asked, admin, &result) && count > 0) {
        cli_answered(&asked->cli);
        if (!cli_pause_or_end(&asked->cli, EVERY_MS, &result)) {
            break;
        }
        if (!asked->cli.is_json) {
            printf("\n");
        }
    }
    return result;
}

static int read_operands(struct asked *asked)
{
    struct cli *cli = &asked->cli;
    if (cli->argc > 2) {
        return cli_usage(cli, "unexpected operand '%.100s'", cli->argv[2]);
    }
    if (asked->is_dot && cli->is_json) {
        return cli_usage(cli, "--dot and --json exclude each other");
    }
    if (asked->without != NULL && (cli->argc > 1 || asked->is_dot)) {
        return cli_usage(cli, "--without takes no topic, and no --dot");
    }
    if (asked->without != NULL && cli->argc == 1) {
        asked->job = cli->argv[0];
    }
    if (cli->argc == 2) {
        asked->topic = cli->argv[0];
        if (!cli_number_read(cli->argv[1], &asked->seq)) {
            return cli_usage(cli,
                             "the number of a slot is a whole number of at least 0, not "
                             "'%.100s'",
                             cli->argv[1]);
        }
    }
    return CLI_OK;
}

int why_main(int argc, char **argv)
{
    struct asked asked = {
        .cli = {.program = "errbus why",
                .prints_lines = true,
                .count_help = "print N snapshots, a second apart (1; with --watch no limit)",
                .is_observer = true,
                .operands = "[JOB | PARTY | TOPIC SEQ]",
                .summary = "Says for whom everybody waits in a job, since when, and where that one "
                           "is."}};
    struct cli *cli = &asked.cli;
    const struct cli_flag flags[] = {
        {0, "dot", CLI_YES, &asked.is_dot, NULL, "print the graph for dot(1)"},
        {0, "without", CLI_TEXT, &asked.without, "PARTY",
         "say what would fail if PARTY were lost now"},
        {0, "watch", CLI_YES, &asked.is_watch, NULL, "print it again each second"},
    };
    struct bus_admin *admin = NULL;
    int result = CLI_OK;
    if (!cli_start(cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    result = read_operands(&asked);
    if (result == CLI_OK) {
        result = cli_admin_open(cli, &admin);
    }
    if (result == CLI_OK && cli->argc == 1 && asked.without == NULL) {
        result = find_operand(&asked, admin, cli->argv[0]);
    }
    if (result == CLI_OK) {
        result = show_all(&asked, admin);
    }
    bus_admin_close(&admin);
    return result;
}
