/* SPDX-License-Identifier: MPL-2.0 */
/* tap.c -- errbus tap: follows a job's control topic, one line an event: for people, and coloured,
 * on a terminal, and JSON otherwise.  On request, failures go to OpenTelemetry. */
#include "clients/errbus.h"

#include "clients/cli.h"
#include "clients/error_list.h"
#include "clients/event_json.h"
#include "clients/otlp.h"

#include <bus/tap.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tap {
    struct cli cli;
    const char *since; /* an id, "oldest" or "now", or NULL */
    int64_t until;     /* the last id wanted; -1: no end */
    struct bus_tap *tap;
    bool is_text;     /* for people, terminal or not */
    const char *otlp; /* NULL, a path, or "-" for standard output */
    FILE *otlp_file;
    bool has_colours;
};

#define COLOUR_OFF "\033[0m"

/* The colour of an event: red for a failure, yellow for a warning, green for a success. */
static const char *colour_of(const struct tap *tap, const char *name)
{
    static const struct {
        const char *name;
        const char *colour;
    } colours[] = {
        {"verdict.final", "\033[31m"},   {"verdict.provisional", "\033[31m"},
        {"party.lost", "\033[31m"},      {"party.failed", "\033[31m"},
        {"slot.failed", "\033[31m"},     {"refused", "\033[31m"},
        {"party.suspect", "\033[33m"},   {"consumer.slow", "\033[33m"},
        {"party.completed", "\033[32m"}, {"party.joined", "\033[32m"},
        {"party.resumed", "\033[32m"},   {"journal.full", "\033[31m"},
        {"journal.refused", "\033[31m"}, {"journal.well", "\033[32m"},
    };
    for (size_t i = 0; tap->has_colours && i < sizeof colours / sizeof colours[0]; i++) {
        if (strcmp(name, colours[i].name) == 0) {
            return colours[i].colour;
        }
    }
    return "";
}

/* "42 12:00:01.234 party.lost      alice/1 2 slots: why" */
static void print_event(const struct tap *tap, const struct bus_event *event)
{
    const char *colour = colour_of(tap, bus_event_name(event));
    const struct bus_error *error = bus_event_error(event);
    char at[CLI_TIME_BYTES_MAX];

    cli_time_text(bus_event_at_ns(event), at);
    const char *clock = strchr(at, 'T') != NULL ? strchr(at, 'T') + 1 : at;
    printf("%4" PRIu64 " %.12s %s%-15s%s", bus_event_id(event), clock, colour,
           bus_event_name(event), colour[0] != '\0' ? COLOUR_OFF : "");
    if (bus_event_party(event)[0] != '\0') {
        printf(" %s/%" PRIu32, bus_event_party(event), bus_event_incarnation(event));
    }
    if (bus_event_topic(event)[0] != '\0') {
        printf(" %s %" PRIu64, bus_event_topic(event), bus_event_seq(event));
    }
    error_count_print(stdout, bus_event_count(event), bus_event_first_error(event),
                      bus_event_last_error(event));
    if (bus_event_text(event)[0] != '\0') {
        putchar(' ');
        cli_print_text(stdout, bus_event_text(event), "");
    }
    if (error != NULL) {
        printf(": %s: ", bus_error_kind(error));
        cli_print_text(stdout, bus_error_type(error), "");
        fputs(": ", stdout);
        cli_print_last_line(stdout, bus_error_message(error));
    }
    putchar('\n');
}

/* Prints a gap.  Live events follow it.  The missed events are not fetched: a tap that is behind
 * would fall further behind. */
static void print_gap(const struct tap *tap)
{
    uint64_t first = 0;
    uint64_t last = 0;
    bus_tap_gap(tap->tap, &first, &last);
    if (tap->cli.is_json) {
        struct cli_json *line = cli_json_new();
        cli_json_text(line, "event", "missed");
        cli_json_number(line, "first_id", (int64_t)first);
        cli_json_number(line, "last_id", (int64_t)last);
        cli_json_print(&line, stdout);
    } else {
        printf("%4" PRIu64 " missed, up to %" PRIu64 ": errbus tap --since %" PRIu64
               " --until %" PRIu64 " prints what the broker still has\n",
               first, last, first, last);
    }
}

static bool prints_events(const struct tap *tap)
{
    return tap->otlp_file != stdout;
}

/* On standard output lines of OpenTelemetry stand alone. */
static void say_gap(const struct tap *tap)
{
    uint64_t first = 0;
    uint64_t last = 0;
    bus_tap_gap(tap->tap, &first, &last);
    fprintf(stderr,
            "%s: events %" PRIu64 " to %" PRIu64
            " were missed: errbus tap --otlp - --since %" PRIu64 " --until %" PRIu64
            " writes what the broker still has\n",
            tap->cli.program, first, last, first, last);
}

/* Returns an exit code; CLI_OK: it is written, or there is nothing to write. */
static int write_otlp(const struct tap *tap, const struct bus_event *event)
{
    if (tap->otlp_file == NULL || otlp_write(tap->otlp_file, event)) {
        return CLI_OK;
    }
    if (tap->otlp_file == stdout && errno == EPIPE) {
        return CLI_OK; /* cli_flush_output() ends it */
    }
    fprintf(stderr, "%s: %s: %s\n", tap->cli.program, tap->otlp, strerror(errno));
    return CLI_FAILED;
}

static void print_one(const struct tap *tap, const struct bus_event *event)
{
    if (!prints_events(tap)) {
        return;
    }
    if (tap->cli.is_json) {
        event_json_print(stdout, event);
    } else {
        print_event(tap, event);
    }
}

static int follow(struct tap *tap)
{
    int64_t printed = 0;
    while (tap->cli.count < 0 || printed < tap->cli.count) {
        const struct bus_event *event = NULL;
        struct bus_error *error = NULL;
        int result = CLI_OK;
        enum bus_err err = bus_tap_next(tap->tap, cli_left_ms(&tap->cli), &event, &error);
        if (err == BUS_EOVERRUN && prints_events(tap)) {
            print_gap(tap);
        } else if (err == BUS_EOVERRUN) {
            say_gap(tap);
        } else if (err == BUS_EENDED) {
            bus_error_unref(&error);
            return CLI_OK;
        } else if (err != BUS_OK) {
            return cli_report(&tap->cli, err, &error);
        } else {
            print_one(tap, event);
            result = write_otlp(tap, event);
        }
        printed += err == BUS_OK;
        bus_error_unref(&error);
        if (result != CLI_OK || !cli_flush_output(&tap->cli, &result)) {
            return result;
        }
    }
    return CLI_OK;
}

static int run(struct tap *tap, uint64_t from_id)
{
    struct bus_tap_options options;
    struct bus_error *error = NULL;
    bus_tap_options_init(&options);
    options.job = tap->cli.job;
    options.from_id = from_id;
    options.until_id = tap->until > 0 ? (uint64_t)tap->until : 0;
    options.broker_lost_ms = CLI_LOST_MS;
    options.on_doubt = cli_tell_doubt;
    options.on_doubt_arg = cli_doubt_arg(&tap->cli);
    cli_waiting_begin(&tap->cli);
    enum bus_err err =
        bus_tap_open(tap->cli.server, &options, cli_open_ms(&tap->cli), &tap->tap, &error);
    cli_waiting_end();
    if (err != BUS_OK) {
        return cli_report(&tap->cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, &error);
    }
    tap->cli.is_broker_known = true;
    cli_watch(NULL, tap->tap);
    int result = follow(tap);
    cli_watch(NULL, NULL);
    bus_tap_close(&tap->tap);
    return result;
}

/* Reads --since and --until.  CLI_OK, or a usage error if the range is wrong. */
static int read_range(const struct tap *tap, uint64_t *out_from_id)
{
    *out_from_id = tap->until >= 0 ? 1 : BUS_TAP_NOW;
    if (tap->since != NULL && !cli_event_id_read(tap->since, out_from_id)) {
        return cli_usage(&tap->cli, "--since takes an id, oldest or now, not '%.100s'", tap->since);
    }
    bool is_now = *out_from_id == BUS_TAP_NOW;
    if (tap->until == 0 || (tap->until > 0 && !is_now && *out_from_id > (uint64_t)tap->until)) {
        return cli_usage(&tap->cli, "--until takes an id of at least 1, and not below --since");
    }
    return CLI_OK;
}

/* Opens the file for OpenTelemetry, to append to it.  An exit code; CLI_OK: it is open, or none is
 * asked for. */
static int open_otlp(struct tap *tap)
{
    if (tap->otlp == NULL) {
        return CLI_OK;
    }
    tap->otlp_file = strcmp(tap->otlp, "-") == 0 ? stdout : fopen(tap->otlp, "ae");
    if (tap->otlp_file != NULL) {
        return CLI_OK;
    }
    fprintf(stderr, "%s: %s: %s\n", tap->cli.program, tap->otlp, strerror(errno));
    return CLI_FAILED;
}

static int close_otlp(struct tap *tap, int result)
{
    if (tap->otlp_file == NULL || tap->otlp_file == stdout || fclose(tap->otlp_file) == 0) {
        return result;
    }
    fprintf(stderr, "%s: %s: %s\n", tap->cli.program, tap->otlp, strerror(errno));
    return CLI_FAILED;
}

/* Whether to use colours: only on a terminal that has them, and without NO_COLOR
 * (https://no-color.org). */
static bool wants_colours(void)
{
    const char *spared = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) != 0 && (spared == NULL || spared[0] == '\0') &&
           terminal != NULL && strcmp(terminal, "dumb") != 0;
}

int tap_main(int argc, char **argv)
{
    struct tap tap = {
        .cli = {.program = "errbus tap",
                .prints_lines = true,
                .count_help = "end after N events (no limit)",
                .is_observer = true,
                .operands = "",
                .summary =
                    "Prints the events of a job as they happen: who joined, failed or was lost, "
                    "and why.\nWhere output is not a terminal, each line is a JSON object."},
        .until = -1,
        .has_colours = wants_colours()};
    const struct cli_flag flags[] = {
        {0, "since", CLI_TEXT, &tap.since, "ID", "first event: its id, oldest, or now (now)"},
        {'f', "from", CLI_TEXT, &tap.since, "ID", "the same"},
        {0, "until", CLI_NUMBER, &tap.until, "ID",
         "last event; without --since, begin with the oldest"},
        {0, "text", CLI_YES, &tap.is_text, NULL,
         "print lines for people where output is not a terminal"},
        {0, "otlp", CLI_TEXT, &tap.otlp, "FILE",
         "also append failures to FILE, as log records of OpenTelemetry in JSON; -: print these "
         "alone"},
    };
    uint64_t from_id = 0;
    int result = CLI_OK;
    if (!cli_start(&tap.cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    if (tap.cli.argc != 0) {
        return cli_usage(&tap.cli, "unexpected operand '%.100s'", tap.cli.argv[0]);
    }
    if (tap.is_text && tap.cli.is_json) {
        return cli_usage(&tap.cli, "--text and --json exclude each other");
    }
    if (tap.is_text && tap.otlp != NULL && strcmp(tap.otlp, "-") == 0) {
        return cli_usage(&tap.cli, "--otlp - and --text exclude each other: both write to standard "
                                   "output");
    }
    tap.cli.is_json |= !tap.is_text && isatty(STDOUT_FILENO) == 0;
    result = read_range(&tap, &from_id);
    if (result == CLI_OK) {
        result = open_otlp(&tap);
    }
    return result == CLI_OK ? close_otlp(&tap, run(&tap, from_id)) : result;
}
