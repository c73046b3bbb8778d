/* SPDX-License-Identifier: MPL-2.0 */
/* run_party.c -- a copy of the program as a party: it joins, and its end is reported to the bus. */
#include "clients/run.h"
#include "clients/run_trace.h"

#include <inttypes.h>
#include <string.h>

#define TYPE_OUT_OF_TIME "run.timed_out"
#define TYPE_STUCK "run.not_ended"
#define TYPE_RUN_OVER "errbus.attempt_over"
#define LEAVE_MS 1000
#define WHERE_BYTES_MAX BUS_NAME_BYTES_MAX

enum bus_err run_party_open(struct run_member *member, struct bus_error **reterr)
{
    struct bus_options options;
    const struct cli *cli = &member->run->cli;
    cli_bus_options(cli, &options);
    options.party = member->party;
    options.is_guard = 1;
    return bus_open(cli->server, &options, cli_open_ms(cli), &member->bus, reterr);
}

/* Says why the party is over, but not by our word, and returns the exit code. */
static int tell_stopped(struct run *run, struct run_member *member, const struct bus_error *error)
{
    char who[BUS_NAME_BYTES_MAX + 64];
    int code = run_job_code(run, error);
    member->is_unneeded = code == CLI_OK;
    run->is_overtaken |= !run->is_created && strcmp(bus_error_type(error), TYPE_RUN_OVER) == 0;
    (void)snprintf(who, sizeof who, "%s: %s is stopped", run->cli.program, member->party);
    run_note_error(run, who, error);
    return code;
}

/* Another party failed the job when this one had joined, and bus_open() had not returned. */
static bool is_stopped_early(const struct run_member *member)
{
    return member->open_err == BUS_EFENCED && member->open_error != NULL &&
           strcmp(bus_error_kind(member->open_error), "rejected") != 0;
}

int run_party_not_open(struct run *run, struct run_member *member)
{
    if (is_stopped_early(member)) {
        int result = tell_stopped(run, member, member->open_error);
        return member->is_unneeded ? RUN_UNNEEDED : result;
    }
    bool is_unneeded = run_job_code(run, member->open_error) == CLI_OK;
    enum bus_err err = member->open_err == BUS_ETIMEDOUT ? BUS_ELOST : member->open_err;
    int code = cli_report(&run->cli, err, &member->open_error);
    return is_unneeded ? RUN_UNNEEDED : code;
}

/* ---- ends -------------------------------------------------------------------------------------*/

/* Copies the last line of the output, without control characters. */
static void put_last_line(const struct run_output *output, char where[WHERE_BYTES_MAX + 1])
{
    char line[RUN_KEPT_BYTES];
    size_t bytes;
    const char *tail = run_output_tail(output, &bytes);
    bytes = run_trace_last_line(tail, bytes, output->said_bytes > bytes, line);
    (void)snprintf(where, WHERE_BYTES_MAX + 1, "output: %.*s", (int)bytes,
                   line); /* its beginning */
    for (char *at = where; *at != '\0'; at++) {
        *at = (unsigned char)*at < ' ' || *at == 0x7f ? '?' : *at;
    }
}

/* What it said last, on whichever stream that was. */
void run_party_moves(struct run *run, struct run_member *member, bool is_promised)
{
    char where[WHERE_BYTES_MAX + 1];
    const struct run_output *output = &member->child.streams[member->child.last_stream].output;
    if (!is_promised) {
        bus_progress(member->bus, BUS_FOREVER);
        return;
    }
    put_last_line(output, where);
    bus_progress_at(member->bus, run->stall_ms, output->said_bytes > 0 ? where : "no output yet");
}

static void fail(struct run *run, struct run_member *member, struct bus_error *error)
{
    bus_fail(member->bus, error);
    run_note_error(run, run->cli.program, error);
    bus_error_unref(&error);
}

static void fail_by_end(struct run *run, struct run_member *member, bool is_started, int number)
{
    struct run_error end;
    char path[RUN_PATH_BYTES_MAX + 16];
    run_child_error(&member->child, run->command[0], is_started, number, &end);
    (void)snprintf(path, sizeof path, "%s/stderr", member->child.folder); /* path has room */
    if (member->child.streams[RUN_STDERR].output.said_bytes > 0) {
        (void)bus_error_add_file(end.error, "stderr", path); /* without memory: none */
    }
    bus_fail(member->bus, end.error);
    if (end.is_of_file) {
        run_note_error(run, run->cli.program, end.error);
    } else {
        run_note_end(run, run->cli.program, end.error);
    }
    bus_error_unref(&end.error);
}

/* Fails the party by the error file of a program that was stopped, if it wrote one before.  False:
 * it did not. */
static bool fail_by_file(struct run *run, struct run_member *member)
{
    struct run_error told;
    if (member->has_told) {
        return true;
    }
    if (!run_child_told(&member->child, &told)) {
        return false;
    }
    member->has_told = true;
    fail(run, member, told.error);
    return true;
}

void run_party_report(struct run *run, struct run_member *member, enum run_how how, int number)
{
    bool is_stopped = how != RUN_COMPLETED && how != RUN_FAILED && how != RUN_NOT_STARTED;
    member->is_reported = true;
    if (is_stopped && fail_by_file(run, member)) {
        return;
    }
    switch (how) {
    case RUN_COMPLETED:
        (void)bus_complete(member->bus, BUS_POLL); /* leaving waits for the answer */
        break;
    case RUN_FAILED: fail_by_end(run, member, true, number); break;
    case RUN_NOT_STARTED: fail_by_end(run, member, false, number); break;
    case RUN_OUT_OF_TIME:
        fail(run, member,
             bus_error_new(TYPE_OUT_OF_TIME, NULL, "%s was not done when --wait %g passed",
                           run->command[0], (double)run->cli.wait_ms / 1000));
        break;
    case RUN_STUCK:
        fail(run, member,
             bus_error_new(TYPE_STUCK, NULL, "%s did not end by SIGKILL within %" PRId64 " ms",
                           run->command[0], RUN_KILL_WAIT_MS));
        break;
    case RUN_LEFT: /* leaving says it */
    case RUN_TERMINATED: /* said by whoever ended it */ break;
    }
}

/* ---- what the program waits for ---------------------------------------------------------------*/

void run_party_notices(struct run *run, struct run_member *member)
{
    struct bus_error *notice = NULL;
    while (bus_notice(member->bus, BUS_POLL, &notice) == BUS_OK) {
        run_note_notice(run, notice);
        bus_error_unref(&notice);
    }
}

/* ---- over, but not by our word ----------------------------------------------------------------*/

int run_party_over(struct run *run, struct run_member *member)
{
    struct bus_error *error = bus_failure(member->bus);
    if (error == NULL) {
        return CLI_DENIED;
    }
    int code = tell_stopped(run, member, error);
    bus_error_unref(&error);
    /* Without a wait: the verdict is not final yet. */
    return fail_by_file(run, member) ? CLI_FAILED : code;
}

int run_party_closed(struct run *run, struct run_member *member, int code)
{
    enum bus_err err = member->close_err;
    member->close_err = BUS_OK;
    if (err == BUS_OK || err == BUS_ECLOSED || code != CLI_OK || member->is_unneeded) {
        return code;
    }
    return cli_report(&run->cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, NULL);
}
