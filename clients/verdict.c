/* SPDX-License-Identifier: MPL-2.0 */
/* verdict.c -- errbus verdict: why a job failed: the root, why it is the root, and what followed
 * from it, each error below the one that it leads to. */
#include "clients/errbus.h"

#include "clients/cli.h"
#include "clients/verdict_json.h"

#include <bus/report.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INDENT_MAX 40         /* columns; deeper rows stand there */
#define LOOK_MS INT64_C(1000) /* how often --final looks whether the job ended without a verdict */

enum {
    VERDICT_FAILED = CLI_REMOTE, /* there is a verdict */
    VERDICT_GOES_ON = 8,         /* exit status: the job has not ended, and has not failed so far */
};

struct verdict {
    struct cli cli;
    bool is_final; /* wait for the final one */
    struct bus_report *report;
    const char *job; /* as the broker calls it; borrowed from status, "" if it has none */
    struct bus_status *status;
};

/* ---- for people -------------------------------------------------------------------------------*/

/* Prints "+12.345 ms", the time from the root to the row; nothing if a time is not known. */
static void print_apart(const struct bus_report_row *row, const struct bus_report_row *root)
{
    if (root == NULL || row == root || row->stamp_ns == 0 || root->stamp_ns == 0) {
        return;
    }
    printf(", %+.3f ms", (double)(row->stamp_ns - root->stamp_ns) / 1e6);
}

/* "bob/1: application app.reset: connection reset by peer (blames alice/1, +3.100 ms)". */
static void print_row(const struct bus_report *report, const struct bus_report_row *row,
                      const struct bus_report_row *root, size_t depth)
{
    size_t indent = 2 * depth < INDENT_MAX ? 2 * depth : INDENT_MAX;
    printf("%*s", (int)indent, "");
    cli_print_text(stdout, row->party[0] != '\0' ? row->party : "the broker", "");
    printf("/%" PRIu32 ": %s", row->incarnation, row->kind);
    if (row->type[0] != '\0') {
        printf(" ");
        cli_print_text(stdout, row->type, "");
        printf(": ");
        cli_print_last_line(stdout, row->message);
    }
    printf(" (");
    cli_print_text(stdout, row->id, "");
    const struct bus_report_row *next = bus_report_find(report, row->next);
    if (row->role == BUS_REPORT_VICTIM && row->is_blame && next != NULL) {
        printf(", blames ");
        cli_print_text(stdout, next->party, "");
    }
    print_apart(row, root);
    printf(")\n");
    cli_print_other_lines(stdout, row->message, (int)indent + 4);
}

/* Prints the errors that follow from the root, each below its cause.  stack has room for all
 * rows. */
static void print_victims(const struct bus_report *report, const struct bus_report_row *root,
                          size_t (*stack)[2])
{
    size_t count = bus_report_count(report);
    size_t height = 0;
    for (size_t i = count; i-- > 0;) {
        if (bus_report_at(report, i) == root) {
            stack[height][0] = i;
            stack[height++][1] = 1;
        }
    }
    while (height > 0) {
        size_t index = stack[--height][0];
        size_t depth = stack[height][1];
        const struct bus_report_row *row = bus_report_at(report, index);
        print_row(report, row, root, depth);
        for (size_t i = count; i-- > 0;) {
            const struct bus_report_row *other = bus_report_at(report, i);
            if (other->role == BUS_REPORT_VICTIM && other->next == row->number) {
                stack[height][0] = i;
                stack[height++][1] = depth + 1;
            }
        }
    }
}

static void print_apart_rows(const struct bus_report *report, const struct bus_report_row *root)
{
    bool is_first = true;
    for (size_t i = 0; i < bus_report_count(report); i++) {
        const struct bus_report_row *row = bus_report_at(report, i);
        if (row->role == BUS_REPORT_APART) {
            printf("%s", is_first ? "apart from that\n" : "");
            print_row(report, row, root, 1);
            is_first = false;
        }
    }
}

/* Prints what makes the verdict less certain. */
static void print_doubts(const struct bus_report_summary *summary)
{
    if (summary->close > 0) {
        printf("%" PRIu32
               " other errors are too close in time for the clocks to tell which was first\n",
               summary->close);
    }
    if (summary->unknown_causes > 0) {
        printf("incomplete: errors name %" PRIu32 " causes that the broker does not have\n",
               summary->unknown_causes);
    } else if (!summary->is_complete) {
        printf("incomplete: the broker had no room for all errors\n");
    }
    if (summary->rows_left_out > 0) {
        printf("%" PRIu32 " errors are not shown\n", summary->rows_left_out);
    }
}

/* False: memory is short. */
static bool print_text(const struct bus_report *report)
{
    const struct bus_report_summary *summary = bus_report_summary(report);
    const struct bus_report_row *root = NULL;
    for (size_t i = 0; i < bus_report_count(report); i++) {
        if (bus_report_at(report, i)->role == BUS_REPORT_ROOT) {
            root = bus_report_at(report, i);
        }
    }
    printf("%s verdict on attempt %" PRIu32 " (%s)\n", bus_report_state_name(summary->state),
           summary->attempt, bus_strategy_name(summary->strategy));
    size_t(*stack)[2] = calloc(bus_report_count(report) + 1, sizeof *stack);
    if (stack == NULL) {
        return false;
    }
    print_victims(report, root, stack);
    free(stack);
    printf("why: ");
    cli_print_text(stdout, summary->why, "");
    printf("\n");
    print_apart_rows(report, root);
    print_doubts(summary);
    return true;
}

/* ---- without a verdict ------------------------------------------------------------------------*/

static size_t count_parties(const struct bus_status *status, enum bus_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < bus_status_count(status); i++) {
        const struct bus_status_row *row = bus_status_at(status, i);
        count += row->kind == BUS_STATUS_PARTY && row->state == state;
    }
    return count;
}

/* Prints "2 completed, 1 left", in the order of the states' numbers. */
static void print_parties(const struct bus_status *status)
{
    const char *before = "";
    for (enum bus_state state = BUS_STATE_UNKNOWN; state <= BUS_STATE_KEPT; state++) {
        size_t count = count_parties(status, state);
        if (count > 0) {
            printf("%s%zu %s", before, count, bus_state_name(state));
            before = ", ";
        }
    }
    fputs(before[0] == '\0' ? "nobody has joined it yet" : "", stdout);
}

/* "Ended well" is said where all parties did; else the line says where their errors are. */
static void print_outlook(const struct verdict *verdict)
{
    bool goes_on = bus_report_summary(verdict->report)->outlook == BUS_OUTLOOK_GOES_ON;
    bool all_did = count_parties(verdict->status, BUS_STATE_FAILED) == 0 &&
                   count_parties(verdict->status, BUS_STATE_LOST) == 0;
    printf("no verdict: job ");
    cli_print_text(stdout, verdict->job, "");
    fputs(goes_on ? " goes on (" : all_did ? " ended well (" : " ended (", stdout);
    print_parties(verdict->status);
    printf(")");
    if (!goes_on && !all_did) {
        printf("; errbus errors -j ");
        cli_print_text(stdout, verdict->job, "");
        printf(" says what went wrong");
    }
    printf("\n");
}

/* The name of the job, and the states of its parties. */
static enum bus_err look(struct verdict *verdict, struct bus_admin *admin,
                         struct bus_error **reterr)
{
    enum bus_err err =
        bus_admin_status_get(admin, NULL, cli_open_ms(&verdict->cli), &verdict->status, reterr);
    for (size_t i = 0; err == BUS_OK && i < bus_status_count(verdict->status); i++) {
        const struct bus_status_row *row = bus_status_at(verdict->status, i);
        if (row->kind == BUS_STATUS_JOB) {
            verdict->job = row->name;
        }
    }
    return err;
}

/* ---- the program ------------------------------------------------------------------------------*/

/* Asks for the report.  is_waiting: waits for a final one, at most LOOK_MS. */
static enum bus_err ask(struct verdict *verdict, struct bus_admin *admin, bool is_waiting,
                        struct bus_error **reterr)
{
    const struct cli *cli = &verdict->cli;
    int64_t bound_ms = is_waiting ? cli_left_within(cli, LOOK_MS) : cli_open_ms(cli);
    bus_report_free(&verdict->report);
    enum bus_err err =
        bus_admin_report_get(admin, NULL, is_waiting, bound_ms, &verdict->report, reterr);
    if (is_waiting && err == BUS_ETIMEDOUT && cli_left_ms(cli) != 0) {
        bus_error_unref(reterr);
        err = bus_admin_report_get(admin, NULL, false, cli_open_ms(cli), &verdict->report, reterr);
    }
    return err;
}

/* Why the broker has no report: it has no such job.  BUS_OK: it has the job by now. */
static enum bus_err find_job(const struct verdict *verdict, struct bus_admin *admin,
                             struct bus_error **reterr)
{
    struct bus_job *job = NULL;
    enum bus_err err = bus_admin_job_get(admin, NULL, cli_open_ms(&verdict->cli), &job, reterr);
    bus_job_free(&job);
    return err;
}

/* The report; --final asks until it cannot change any more. */
static enum bus_err find(struct verdict *verdict, struct bus_admin *admin,
                         struct bus_error **reterr)
{
    for (;;) {
        enum bus_err err = ask(verdict, admin, verdict->is_final, reterr);
        const struct bus_report_summary *summary =
            err == BUS_OK ? bus_report_summary(verdict->report) : NULL;
        bool is_unknown = summary != NULL && summary->outlook == BUS_OUTLOOK_UNKNOWN;
        if (is_unknown) {
            err = find_job(verdict, admin, reterr);
        }
        if (err != BUS_OK) {
            return err;
        }
        bool is_open =
            summary->outlook == BUS_OUTLOOK_GOES_ON ||
            (summary->outlook == BUS_OUTLOOK_FAILED && summary->state == BUS_REPORT_PROVISIONAL);
        if (!is_unknown && (!verdict->is_final || !is_open)) {
            return BUS_OK;
        }
    }
}

static int show(struct verdict *verdict)
{
    static const int exits[] = {[BUS_OUTLOOK_GOES_ON] = VERDICT_GOES_ON,
                                [BUS_OUTLOOK_ENDED_WELL] = CLI_OK,
                                [BUS_OUTLOOK_FAILED] = VERDICT_FAILED};
    const struct cli *cli = &verdict->cli;
    enum bus_outlook outlook = bus_report_summary(verdict->report)->outlook;
    int result = exits[outlook];
    if (cli->is_json) {
        verdict_json_print(stdout, verdict->report);
    } else if (outlook != BUS_OUTLOOK_FAILED) {
        print_outlook(verdict);
    } else if (!print_text(verdict->report)) {
        return cli_report(cli, BUS_ENOMEM, NULL);
    }
    (void)cli_flush_output(cli, &result);
    return result;
}

static int run(struct verdict *verdict)
{
    const struct cli *cli = &verdict->cli;
    struct bus_admin *admin = NULL;
    struct bus_error *error = NULL;
    int result = cli_admin_open(cli, &admin);
    if (result != CLI_OK) {
        return result;
    }
    enum bus_err err = find(verdict, admin, &error);
    if (err == BUS_OK && bus_report_summary(verdict->report)->outlook != BUS_OUTLOOK_FAILED) {
        err = look(verdict, admin, &error);
    }
    bus_admin_close(&admin);
    if (err == BUS_OK) {
        result = show(verdict);
    } else {
        bool is_lost = err == BUS_ETIMEDOUT && !verdict->is_final;
        result = cli_report(cli, is_lost ? BUS_ELOST : err, &error);
    }
    bus_report_free(&verdict->report);
    bus_status_free(&verdict->status);
    return result;
}

int verdict_main(int argc, char **argv)
{
    struct verdict verdict = {.job = "",
                              .cli = {.program = "errbus verdict",
                                      .prints_lines = true,
                                      .is_observer = true,
                                      .exits = ",\n             0 the job ended well, 3 it "
                                               "failed, 8 it goes on, 2 there is no such job",
                                      .operands = "",
                                      .summary = "Shows why a job failed: the root cause, the "
                                                 "reason for it, and what followed from it."}};
    const struct cli_flag flags[] = {
        {'f', "final", CLI_YES, &verdict.is_final, NULL, "wait for the final verdict"},
    };
    int result = CLI_OK;
    if (!cli_start(&verdict.cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    if (verdict.cli.argc != 0) {
        return cli_usage(&verdict.cli, "unexpected operand '%.100s'", verdict.cli.argv[0]);
    }
    return run(&verdict);
}
