/* SPDX-License-Identifier: MPL-2.0 */
/* status.c -- errbus status: what a broker holds at this moment. */
#include "clients/errbus.h"

#include "clients/cli.h"
#include "clients/shards.h"
#include "clients/status_json.h"
#include "clients/status_text.h"
#include "clients/text_table.h"

#include <bus/admin.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define EVERY_MS INT64_C(1000) /* between two prints, with --count */

enum { SHARD_TEXT_BYTES = 64 };

struct asked {
    struct cli cli;
    bool is_all;   /* show rows that are otherwise only counted */
    int64_t shard; /* of this one alone; -1: of all */
};

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
        status_json_print(stdout, status, rows, count);
    } else {
        is_printed = status_text_print(stdout, &picture, &style);
    }
    free(rows);
    return is_printed;
}

/* What stands before the status of a shard. */
static void print_shard(const struct cli *cli, const struct shards_row *shard)
{
    if (cli->is_json) {
        struct cli_json *line = cli_json_new();
        cli_json_text(line, "kind", "shard");
        cli_json_number(line, "shard", shard->number);
        cli_json_text(line, "endpoint", shard->endpoint);
        cli_json_print(&line, stdout);
    } else {
        printf("shard %" PRIu32 " at %s\n", shard->number, shard->endpoint);
    }
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
        *out_exit = cli_report(cli, cli_unanswered(cli, err), &error);
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

/* Gives the next of so many shards its part of the time that is left: one that does not answer
 * takes nothing from the others. */
static void limit_wait(struct cli *cli, size_t shards_left)
{
    if (cli->wait_ms < 0) {
        return;
    }
    cli->wait_ms = cli_left_ms(cli) / (int64_t)shards_left;
    cli->started_ms = cli_now_ms();
}

/* Prints the status of one shard, of so many that are still to be asked.  An exit code. */
static int show_shard(const struct asked *asked, struct shards *shards, size_t index,
                      size_t shards_left)
{
    struct cli there = asked->cli;
    struct shards_row shard = shards_at(shards, index);
    struct bus_admin_options options;
    struct bus_admin *admin = NULL;
    struct bus_error *error = NULL;
    char text[SHARD_TEXT_BYTES];
    snprintf(text, sizeof text, "%s: shard %" PRIu32, asked->cli.program, shard.number);
    there.program = text;
    there.server = shard.endpoint;
    limit_wait(&there, shards_left);
    cli_admin_options(&there, &options);
    cli_waiting_begin(&there);
    enum bus_err err = shards_open(shards, index, &options, cli_open_ms(&there), &admin, &error);
    cli_waiting_end();
    int result = cli_report(&there, cli_unanswered(&there, err), &error);
    if (result != CLI_OK) {
        return result;
    }
    print_shard(&asked->cli, &shard);
    struct asked of_it = {.cli = there, .is_all = asked->is_all};
    (void)show(&of_it, admin, BUS_JOB_ALL, &result);
    return result;
}

/* Prints the status of each shard, or of the one that was asked for.  Whoever cannot be reached is
 * named, and the others are shown.  An exit code: the last one that is not CLI_OK. */
static int show_shards(const struct asked *asked, struct shards *shards)
{
    int result = CLI_OK;
    bool is_found = false;
    for (size_t i = 0; i < shards_count(shards); i++) {
        struct shards_row shard = shards_at(shards, i);
        bool is_asked = asked->shard < 0 || (int64_t)shard.number == asked->shard;
        if (shard.endpoint[0] == '\0' || !is_asked) {
            continue;
        }
        is_found = true;
        int shown = show_shard(asked, shards, i, asked->shard < 0 ? shards_count(shards) - i : 1);
        result = shown != CLI_OK ? shown : result;
    }
    if (is_found) {
        return result;
    }
    fprintf(stderr, "%s: no broker has shard %" PRId64 ", or has had it\n", asked->cli.program,
            asked->shard);
    return CLI_FAILED;
}

/* Prints all that was asked for once.  True: another one may follow. */
static bool show_once(const struct asked *asked, struct bus_admin *admin, const char *job,
                      int *out_exit)
{
    struct bus_error *error = NULL;
    if (job[0] != '\0') {
        return show(asked, admin, job, out_exit);
    }
    struct shards *shards = shards_new(admin);
    enum bus_err err =
        shards != NULL ? shards_look(shards, cli_open_ms(&asked->cli), &error) : BUS_ENOMEM;
    bool may_follow = false;
    if (err != BUS_OK) {
        *out_exit = cli_report(&asked->cli, cli_unanswered(&asked->cli, err), &error);
    } else if (!shards_are_several(shards) && asked->shard < 0) {
        may_follow = show(asked, admin, job, out_exit);
    } else {
        int shown = show_shards(asked, shards);
        *out_exit = shown != CLI_OK ? shown : *out_exit;
        may_follow = cli_flush_output(&asked->cli, out_exit);
    }
    shards_free(&shards);
    return may_follow;
}

/* Prints the status --count times, one second apart. */
static int show_all(struct asked *asked, struct bus_admin *admin, const char *job)
{
    int result = CLI_OK;
    int64_t count = asked->cli.count < 0 ? 1 : asked->cli.count;
    for (int64_t i = 0; i < count; i++) {
        if (i > 0 && !cli_pause_or_end(&asked->cli, EVERY_MS, &result)) {
            break;
        }
        if (!show_once(asked, admin, job, &result)) {
            break;
        }
        cli_answered(&asked->cli);
    }
    return result;
}

int status_main(int argc, char **argv)
{
    struct asked asked = {
        .shard = -1,
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
        {0, "shard", CLI_NUMBER, &asked.shard, "N", "ask the broker of this shard alone (all)"},
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
