/* SPDX-License-Identifier: MPL-2.0 */
/* pub.c -- errbus pub: publishes values, or settles a slot with an error, and ends when all is
 * acknowledged.  It prints each refusal, and its exit code tells of them. */
#include "clients/errbus.h"

#include "clients/cli.h"
#include "clients/input.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TYPE_BYTES_MAX BUS_NAME_BYTES_MAX
#define HOLD_DEFAULT_MS BUS_FOREVER

struct pub {
    struct cli cli;
    const char *topic;
    const char *value;   /* NULL: each line of standard input; "-": all of it */
    const char *file;    /* its bytes are the value; or NULL */
    const char *failure; /* TYPE:MESSAGE, or NULL */
    bool is_promise;     /* reserve, and hold */
    bool is_new_run;     /* begin the next run of the job */
    int64_t hold_ms;     /* how long; BUS_FOREVER: until a signal */
    int64_t seq;         /* of the next slot, or BUS_NEXT */
    int64_t sent;        /* values */
};

/* The bytes of standard input that are read and not sent yet. */
struct lines {
    struct input input;
    size_t searched; /* up to here there is no newline */
};

/* As cli_report().  BUS_EINVAL can only be about the topic. */
static int report(const struct pub *pub, enum bus_err err, struct bus_error **error)
{
    if (err != BUS_EINVAL) {
        return cli_report(&pub->cli, err, error);
    }
    bus_error_unref(error);
    return cli_usage(&pub->cli,
                     "'%.250s' is not a topic: expected NAME or PARTY/NAME, at most %d bytes with "
                     "the party, without '+' and '#'",
                     pub->topic, BUS_NAME_BYTES_MAX);
}

/* ---- values -----------------------------------------------------------------------------------*/

static enum bus_err reserve_numbered(struct pub *pub, struct bus_slot **out_slot,
                                     struct bus_error **reterr)
{
    struct bus_slot_options options;
    bus_slot_options_init(&options);
    options.seq = pub->seq;
    enum bus_err err = bus_slot_reserve_with(pub->cli.bus, pub->topic, &options, out_slot, reterr);
    if (err == BUS_OK && pub->seq != BUS_NEXT) {
        pub->seq++;
    }
    return err;
}

static enum bus_err send_numbered(struct pub *pub, const char *value, size_t bytes)
{
    struct bus_slot *slot = NULL;
    enum bus_err err = reserve_numbered(pub, &slot, NULL);
    if (err == BUS_OK) {
        err = bus_slot_commit(&slot, value, bytes);
        bus_slot_fail(&slot, NULL); /* no effect, unless the commit left it open */
    }
    return err;
}

static enum bus_err send_value(struct pub *pub, const char *value, size_t bytes)
{
    enum bus_err err = pub->seq != BUS_NEXT ? send_numbered(pub, value, bytes)
                                            : bus_publish(pub->cli.bus, pub->topic, value, bytes);
    if (err == BUS_OK) {
        pub->sent++;
    }
    return err;
}

static bool is_enough(const struct pub *pub)
{
    return pub->cli.count >= 0 && pub->sent >= pub->cli.count;
}

/* Sends the whole lines that were read.  What follows the last newline is only sent if is_end. */
static enum bus_err send_lines(struct pub *pub, struct lines *lines, bool is_end)
{
    enum bus_err err = BUS_OK;
    struct input *input = &lines->input;
    size_t start = 0;
    while (err == BUS_OK && start < input->count && !is_enough(pub)) {
        size_t from = start > lines->searched ? start : lines->searched;
        char *newline = memchr(input->bytes + from, '\n', input->count - from);
        if (newline == NULL && !is_end) {
            break;
        }
        size_t end = newline != NULL ? (size_t)(newline - input->bytes) : input->count;
        err = send_value(pub, input->bytes + start, end - start);
        start = newline != NULL ? end + 1 : end;
    }
    memmove(input->bytes, input->bytes + start, input->count - start);
    input->count -= start;
    lines->searched = input->count;
    return err;
}

/* Says why this party is over, and returns the exit code. */
static int report_end(struct pub *pub)
{
    struct bus_error *verdict = bus_failure(pub->cli.bus);
    bool is_lost = verdict != NULL && strcmp(bus_error_kind(verdict), "broker_lost") == 0;
    return cli_report(&pub->cli, is_lost ? BUS_ELOST : BUS_EFENCED, &verdict);
}

static int send_input(struct pub *pub)
{
    struct lines lines = {.searched = 0};
    int result = CLI_OK;
    int more = 1;
    while (more == 1 && result == CLI_OK && !is_enough(pub)) {
        enum cli_woken woken = cli_wait(&pub->cli, STDIN_FILENO, cli_left_ms(&pub->cli));
        if (woken == CLI_WOKEN_OVER) {
            result = report_end(pub);
        } else if (woken == CLI_WOKEN_TIME) {
            result = cli_report(&pub->cli, BUS_ETIMEDOUT, NULL);
        }
        if (woken != CLI_WOKEN_READABLE) {
            break;
        }
        more = input_read_more(&lines.input, &pub->cli, STDIN_FILENO, "standard input");
        enum bus_err err = send_lines(pub, &lines, more == 0);
        result = more < 0 ? CLI_FAILED : report(pub, err, NULL);
    }
    input_fini(&lines.input);
    return result;
}

/* Sends a file, or all of standard input, as one value. */
static int send_whole(struct pub *pub)
{
    struct input input = {.bytes = NULL};
    int result = CLI_FAILED;
    if (pub->file != NULL ? input_read_file(&input, &pub->cli, pub->file)
                          : input_read_all(&input, &pub->cli, &result)) {
        const char *value = input.bytes != NULL ? input.bytes : "";
        result = report(pub, send_value(pub, value, input.count), NULL);
    }
    input_fini(&input);
    return result;
}

/* Prints all refusals.  CLI_REMOTE if one lost against an error, CLI_FAILED if another, CLI_OK if
 * there is none. */
static int print_refusals(struct pub *pub)
{
    int result = CLI_OK;
    struct bus_error *refusal = NULL;
    while (bus_refusal(pub->cli.bus, &refusal) == BUS_OK) {
        if (pub->cli.is_json) {
            struct cli_json *line = cli_json_new();
            cli_json_text(line, "kind", "refused");
            cli_json_error(line, "error", refusal);
            cli_json_print(&line, stdout);
        } else {
            cli_print_error(stderr, pub->cli.program, refusal);
        }
        if (result != CLI_REMOTE) {
            result = bus_error_cause(refusal) != NULL ? CLI_REMOTE : CLI_FAILED;
        }
        bus_error_unref(&refusal);
    }
    return result;
}

/* ---- promises and errors ----------------------------------------------------------------------*/

static int reserve(struct pub *pub, struct bus_slot **out_slot)
{
    struct bus_error *error = NULL;
    enum bus_err err = reserve_numbered(pub, out_slot, &error);
    return report(pub, err, &error);
}

static int send_failure(struct pub *pub)
{
    char type[TYPE_BYTES_MAX + 1];
    const char *colon = strchr(pub->failure, ':');
    struct bus_slot *slot = NULL;
    int result = reserve(pub, &slot);
    if (result != CLI_OK) {
        return result;
    }
    snprintf(type, sizeof type, "%.*s", (int)(colon - pub->failure), pub->failure);
    struct bus_error *error = bus_error_new(type, NULL, "%s", colon + 1);
    bus_slot_fail(&slot, error);
    bus_error_unref(&error);
    return CLI_OK;
}

static void print_promise(const struct pub *pub, const struct bus_slot *slot)
{
    char topic[BUS_NAME_BYTES_MAX + 1];
    const char *party = bus_party(pub->cli.bus);
    bool is_whole =
        strncmp(pub->topic, party, strlen(party)) == 0 && pub->topic[strlen(party)] == '/';
    snprintf(topic, sizeof topic, "%s%s%s", is_whole ? "" : party, is_whole ? "" : "/", pub->topic);
    if (pub->cli.is_json) {
        struct cli_json *line = cli_json_new();
        cli_json_text(line, "kind", "reserved");
        cli_json_text(line, "topic", topic);
        cli_json_number(line, "seq", (int64_t)bus_slot_seq(slot));
        cli_json_print(&line, stdout);
    } else {
        printf("reserved %s %" PRIu64 "\n", topic, bus_slot_seq(slot));
    }
}

/* Leaves the slot open: the way in which this process ends settles it. */
static int hold_promise(struct pub *pub)
{
    struct bus_slot *slot = NULL;
    int result = reserve(pub, &slot);
    if (result != CLI_OK) {
        return result;
    }
    enum bus_err err = bus_flush(pub->cli.bus, cli_left_ms(&pub->cli));
    if (err == BUS_ESETTLED) {
        result = print_refusals(pub);
    } else if (err != BUS_OK) {
        result = cli_report(&pub->cli, err, NULL);
    } else {
        print_promise(pub, slot);
        if (cli_flush_output(&pub->cli, &result) &&
            cli_wait(&pub->cli, -1, pub->hold_ms) == CLI_WOKEN_OVER) {
            result = report_end(pub);
        }
    }
    result = cli_close(&pub->cli, result);
    bus_slot_fail(&slot, NULL); /* the bus is closed: this only frees it */
    return result;
}

/* ---- the end ----------------------------------------------------------------------------------*/

/* Waits until all that was sent is answered. */
static int finish(struct pub *pub, int result)
{
    enum bus_err err = bus_flush(pub->cli.bus, cli_left_ms(&pub->cli));
    int refused = print_refusals(pub);
    if (result == CLI_OK && err != BUS_ESETTLED) {
        result = cli_report(&pub->cli, err, NULL);
    }
    if (result == CLI_OK) {
        result = refused;
    }
    return cli_close(&pub->cli, result);
}

static int run(struct pub *pub)
{
    int result = cli_open(&pub->cli, NULL);
    if (result != CLI_OK) {
        return result;
    }
    if (cli_is_anothers(&pub->cli, pub->topic)) {
        return cli_close(&pub->cli, CLI_DENIED);
    }
    if (pub->is_promise) {
        return hold_promise(pub);
    }
    if (pub->failure != NULL) {
        result = send_failure(pub);
    } else if (pub->file != NULL || (pub->value != NULL && strcmp(pub->value, "-") == 0)) {
        result = send_whole(pub);
    } else if (pub->value != NULL) {
        result = report(pub, send_value(pub, pub->value, strlen(pub->value)), NULL);
    } else {
        result = send_input(pub);
    }
    return finish(pub, result);
}

/* CLI_USAGE if some flags do not go together; else CLI_OK. */
static int check(const struct pub *pub)
{
    const struct cli *cli = &pub->cli;
    if (cli->argc < 1 || cli->argc > 2) {
        return cli_usage(cli, "expected a TOPIC and at most one VALUE, not %d operands", cli->argc);
    }
    if (pub->failure != NULL && pub->is_promise) {
        return cli_usage(cli, "--fail and --reserve-only exclude each other");
    }
    if (cli->argc == 2 && (pub->failure != NULL || pub->is_promise)) {
        return cli_usage(cli, "a VALUE and --%s exclude each other",
                         pub->is_promise ? "reserve-only" : "fail");
    }
    if (pub->file != NULL && (cli->argc == 2 || pub->failure != NULL || pub->is_promise)) {
        return cli_usage(cli, "--file excludes a VALUE, --fail and --reserve-only");
    }
    if (pub->hold_ms != HOLD_DEFAULT_MS && !pub->is_promise) {
        return cli_usage(cli, "--hold needs --reserve-only");
    }
    if (pub->failure != NULL) {
        const char *colon = strchr(pub->failure, ':');
        if (colon == NULL || colon == pub->failure || colon - pub->failure > TYPE_BYTES_MAX) {
            return cli_usage(cli, "--fail takes TYPE:MESSAGE, not '%.100s'", pub->failure);
        }
    }
    return CLI_OK;
}

int pub_main(int argc, char **argv)
{
    struct pub pub = {
        .cli = {.program = "errbus pub",
                .prints_lines = true,
                .count_help = "end after N lines (no limit)",
                .operands = "TOPIC [VALUE]",
                .summary =
                    "Publishes VALUE, or each line of standard input, to TOPIC.  '-' as VALUE "
                    "is all of\nstandard input as one value.  Ends when the broker has "
                    "acknowledged all of it."},
        .hold_ms = HOLD_DEFAULT_MS,
        .seq = BUS_NEXT};
    const struct cli_flag flags[] = {
        {0, "fail", CLI_TEXT, &pub.failure, "TYPE:MESSAGE", "settle the next slot with this error"},
        {0, "file", CLI_TEXT, &pub.file, "FILE", "publish the bytes of FILE as one value"},
        {0, "seq", CLI_NUMBER, &pub.seq, "N", "number of the first slot (the next one)"},
        {0, "reserve-only", CLI_YES, &pub.is_promise, NULL,
         "promise the next value, and send none"},
        {0, "hold", CLI_SECONDS, &pub.hold_ms, "SECONDS",
         "keep the promise open for this time (until a signal)"},
        {0, "new-run", CLI_YES, &pub.is_new_run, NULL, "begin the next run of the job"},
    };
    int result = CLI_OK;
    if (!cli_start(&pub.cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    result = check(&pub);
    if (result != CLI_OK) {
        return result;
    }
    pub.cli.run_rule = pub.is_new_run ? BUS_RUN_NEXT : BUS_RUN_CONTINUE;
    pub.topic = pub.cli.argv[0];
    pub.value = pub.cli.argc == 2 ? pub.cli.argv[1] : NULL;
    return run(&pub);
}
