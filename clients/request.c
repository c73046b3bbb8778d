/* SPDX-License-Identifier: MPL-2.0 */
/* request.c -- errbus request: asks a group, and prints the reply, or the error in its place.
 *
 * The request ends with this process.  When the process leaves, by a signal or because --wait is
 * over, the broker cancels the request and tells the worker. */
#include "clients/errbus.h"

#include "clients/cli.h"
#include "clients/input.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct request {
    struct cli cli;
    const char *topic;
    const char *value; /* NULL: all of standard input */
    struct input input;
    int64_t deadline_ms; /* BUS_FOREVER: none */
};

/* ---- the reply --------------------------------------------------------------------------------*/

static void print_reply(const struct request *request, const struct bus_msg *reply)
{
    size_t bytes = 0;
    const void *value = bus_msg_value(reply, &bytes);
    if (request->cli.is_json) {
        struct cli_json *line = cli_json_new();
        cli_json_text(line, "kind", "reply");
        cli_json_text(line, "topic", bus_msg_topic(reply));
        cli_json_number(line, "seq", (int64_t)bus_msg_seq(reply));
        cli_json_value(line, "value", value, bytes);
        cli_json_print(&line, stdout);
    } else {
        fwrite(value, 1, bytes, stdout); /* cli_flush_output() reports a failure */
        bool is_line = bytes > 0 && ((const char *)value)[bytes - 1] == '\n';
        if (!is_line && isatty(STDOUT_FILENO)) {
            putchar('\n'); /* only a terminal gets it, for the prompt */
        }
    }
}

static void print_error(const struct request *request, uint64_t seq, const struct bus_error *error)
{
    if (request->cli.is_json) {
        struct cli_json *line = cli_json_new();
        cli_json_text(line, "kind", "error");
        cli_json_text(line, "topic", bus_replies(request->cli.bus));
        cli_json_number(line, "seq", (int64_t)seq);
        cli_json_error(line, "error", error);
        cli_json_print(&line, stdout);
    } else {
        cli_print_error(stderr, request->cli.program, error);
    }
}

static int report(const struct request *request, enum bus_err err, struct bus_error **error)
{
    if (err != BUS_EINVAL) {
        return cli_report(&request->cli, err, error);
    }
    return cli_usage(&request->cli,
                     "'%.250s' is not a topic: expected NAME or PARTY/NAME, at most %d bytes with "
                     "the party, without '+' and '#'",
                     request->topic, BUS_NAME_BYTES_MAX);
}

static int ask(const struct request *request)
{
    uint64_t seq = 0;
    struct bus *bus = request->cli.bus;
    struct bus_msg *reply = NULL;
    struct bus_error *error = NULL;
    int result = CLI_OK;
    enum bus_err err = bus_request(bus, request->topic, request->input.bytes, request->input.count,
                                   request->deadline_ms, &seq);
    if (err != BUS_OK) {
        return report(request, err, NULL);
    }
    err = bus_await(bus, bus_replies(bus), seq, cli_left_ms(&request->cli), &reply, &error);
    if (err == BUS_OK) {
        print_reply(request, reply);
        bus_msg_free(&reply);
    } else if (err == BUS_EFAILED) {
        print_error(request, seq, error);
        bus_error_unref(&error);
        result = CLI_REMOTE;
    } else {
        return cli_report(&request->cli, err, &error);
    }
    int flushed = CLI_OK;
    return cli_flush_output(&request->cli, &flushed) ? result : flushed;
}

static int run(struct request *request)
{
    int64_t count = request->cli.count < 0 ? 1 : request->cli.count;
    request->cli.run_rule = BUS_RUN_CONTINUE;
    int result = cli_open(&request->cli, NULL);
    if (result != CLI_OK) {
        return result;
    }
    cli_notices_begin(&request->cli);
    if (cli_is_anothers(&request->cli, request->topic)) {
        result = CLI_DENIED;
    } else if (request->value != NULL || input_read_all(&request->input, &request->cli, &result)) {
        result = CLI_OK;
        for (int64_t i = 0; i < count && result == CLI_OK && !cli_is_stopped(); i++) {
            result = ask(request);
        }
    }
    return cli_close(&request->cli, result);
}

int request_main(int argc, char **argv)
{
    struct request request = {
        .cli = {.program = "errbus request",
                .prints_lines = true,
                .count_help = "ask N times, one after the other (1)",
                .operands = "TOPIC [VALUE]",
                .summary = "Sends VALUE, or all of standard input, as a request to a group that "
                           "takes TOPIC.\nPrints the reply, or the error that took its place."},
        .deadline_ms = BUS_FOREVER,
    };
    const struct cli_flag flags[] = {
        {'d', "deadline", CLI_SECONDS, &request.deadline_ms, "SECONDS",
         "fail the request after this time, at most a day (none)"},
    };
    int result = CLI_OK;
    if (!cli_start(&request.cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    if (request.cli.argc < 1 || request.cli.argc > 2) {
        return cli_usage(&request.cli, "expected a TOPIC and at most one VALUE, not %d operands",
                         request.cli.argc);
    }
    const struct cli_range deadline = {"deadline", request.deadline_ms, 1, CLI_DAY_MS, true};
    if (cli_check_ranges(&request.cli, &deadline, 1) != CLI_OK) {
        return CLI_USAGE;
    }
    request.topic = request.cli.argv[0];
    if (request.cli.argc == 2) {
        request.value = request.cli.argv[1];
        request.input.count = strlen(request.value);
        request.input.bytes = strdup(request.value);
        if (request.input.bytes == NULL) {
            return cli_report(&request.cli, BUS_ENOMEM, NULL);
        }
    }
    result = run(&request);
    input_fini(&request.input);
    return result;
}
