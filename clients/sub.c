/* SPDX-License-Identifier: MPL-2.0 */
/* sub.c -- errbus sub: prints the values of topics, and the errors in their place.
 *
 * Each frame is printed and flushed before it is acknowledged.  So a durable name never passes over
 * a frame that was not written. */
#include "clients/errbus.h"

#include "clients/cli.h"

#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

enum { CLI_AGAIN = -1 }; /* no exit code: the next run of the job began */

/* What was said of a topic. */
struct seen {
    char topic[BUS_NAME_BYTES_MAX + 1];
    uint32_t incarnation; /* of its writer, that the last slot is of */
    uint64_t told_seq;    /* another one begins here; 0: nothing was said */
};

struct sub {
    struct cli cli;
    const char *durable; /* a name, or NULL */
    const char *from;    /* a number, "oldest" or "now" */
    bool is_blocking;    /* hold writers back rather than lose frames */
    bool is_verbose;     /* topic and number before each value */
    bool is_raw;         /* the bytes of each value, and nothing else */
    struct bus_sub *sub;
    int64_t from_seq;
    int64_t printed; /* values and errors */
    bool has_error;  /* one of them was an error */
    bool has_ends;   /* the pattern names a party: the ends of its incarnations come, too */
    void *seen;      /* a tree of struct seen, by topic */
};

static int compare_seen(const void *a, const void *b)
{
    return strcmp(((const struct seen *)a)->topic, ((const struct seen *)b)->topic);
}

/* NULL: no memory.  *out_is_new: there is no such topic yet. */
static struct seen *see_topic(struct sub *sub, const char *topic, bool *out_is_new)
{
    struct seen *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return NULL;
    }
    snprintf(made->topic, sizeof made->topic, "%s", topic);
    void *node = tsearch(made, &sub->seen, compare_seen);
    struct seen *found = node != NULL ? *(struct seen **)node : NULL;
    *out_is_new = found == made;
    if (found != made) {
        free(made);
    }
    return found;
}

static void forget_topics(struct sub *sub)
{
    while (sub->seen != NULL) {
        struct seen *seen = *(struct seen **)sub->seen;
        tdelete(seen, &sub->seen, compare_seen);
        free(seen);
    }
}

/* Says on standard error which incarnation of the writer the slots are of, if a topic has slots of
 * several: at the first slot, and at each change.  If the pattern names a party, the ends of its
 * incarnations show the changes.  JSON has it in each line. */
static void tell_incarnation(struct sub *sub)
{
    uint64_t seq = 0;
    uint64_t later = 0;
    bool is_new = false;
    const char *topic = bus_sub_slot(sub->sub, &seq);
    uint32_t incarnation = bus_sub_incarnation(sub->sub, &later);
    int party = (int)strcspn(topic, "/");
    struct seen *seen = see_topic(sub, topic, &is_new);
    if (seen == NULL || incarnation == seen->incarnation) {
        return;
    }
    if (is_new && later > 0) {
        char numbers[64];
        snprintf(numbers, sizeof numbers, "number %" PRIu64 " is", seq);
        if (later - seq > 1) {
            snprintf(numbers, sizeof numbers, "numbers %" PRIu64 " to %" PRIu64 " are", seq,
                     later - 1);
        }
        fprintf(stderr,
                "%s: %s: %s of %.*s/%" PRIu32 ", which ended; %.*s began again with %" PRIu64 "\n",
                sub->cli.program, topic, numbers, party, topic, incarnation, party, topic, later);
        seen->told_seq = later;
    } else if (!is_new && !sub->has_ends && seq != seen->told_seq) {
        fprintf(stderr,
                "%s: %s: numbers from %" PRIu64 " on are of %.*s/%" PRIu32
                ", those before of %.*s/%" PRIu32 "\n",
                sub->cli.program, topic, seq, party, topic, incarnation, party, topic,
                seen->incarnation);
    }
    seen->incarnation = incarnation;
}

static void print_value(const struct sub *sub, const struct bus_msg *msg)
{
    size_t bytes = 0;
    const void *value = bus_msg_value(msg, &bytes);
    if (sub->cli.is_json) {
        struct cli_json *line = cli_json_new();
        cli_json_text(line, "kind", "value");
        cli_json_text(line, "topic", bus_msg_topic(msg));
        cli_json_number(line, "seq", (int64_t)bus_msg_seq(msg));
        cli_json_number(line, "incarnation", bus_msg_incarnation(msg, NULL));
        cli_json_value(line, "value", value, bytes);
        cli_json_print(&line, stdout);
        return;
    }
    if (sub->is_verbose) {
        printf("%s %" PRIu64 " ", bus_msg_topic(msg), bus_msg_seq(msg));
    }
    fwrite(value, 1, bytes, stdout);
    if (!sub->is_raw) {
        putchar('\n');
    }
}

/* Prints "alice/2", or "alice/1 to alice/7" if one message tells the ends of several
 * incarnations. */
static void print_who_ended(const struct sub *sub)
{
    uint64_t last = 0;
    uint64_t first = 0;
    const char *party = bus_sub_slot(sub->sub, &last);
    if (bus_sub_gap(sub->sub, &first) > 1) {
        fprintf(stderr, "%s: %s/%" PRIu64 " to %s/%" PRIu64 " ended", sub->cli.program, party,
                first, party, last);
    } else {
        fprintf(stderr, "%s: %s/%" PRIu64 " ended", sub->cli.program, party, last);
    }
}

static void put_since(const struct sub *sub, struct cli_json *line)
{
    uint64_t first = 0;
    if (bus_sub_gap(sub->sub, &first) > 1) {
        cli_json_number(line, "since", (int64_t)first);
    }
}

static void print_remote_error(const struct sub *sub, const struct bus_error *error)
{
    uint64_t seq = 0;
    const char *topic = bus_sub_slot(sub->sub, &seq);
    bool is_end = strchr(topic, '/') == NULL; /* the topic is a party, seq its incarnation */
    if (sub->cli.is_json) {
        struct cli_json *line = cli_json_new();
        cli_json_text(line, "kind", "error");
        cli_json_text(line, "topic", topic);
        cli_json_number(line, "seq", (int64_t)seq);
        if (is_end) {
            put_since(sub, line);
        }
        cli_json_error(line, "error", error);
        cli_json_print(&line, stdout);
        return;
    }
    if (is_end) {
        print_who_ended(sub);
        fputc('\n', stderr);
    } else {
        fprintf(stderr, "%s: %s %" PRIu64 " failed\n", sub->cli.program, topic, seq);
    }
    cli_print_error(stderr, sub->cli.program, error);
}

static void print_gap(const struct sub *sub, const struct bus_error *why)
{
    uint64_t first = 0;
    uint64_t missing = bus_sub_gap(sub->sub, &first);
    const char *topic = bus_sub_slot(sub->sub, NULL);
    if (sub->cli.is_json) {
        struct cli_json *line = cli_json_new();
        cli_json_text(line, "kind", "gap");
        cli_json_text(line, "topic", topic);
        cli_json_number(line, "seq", (int64_t)first);
        cli_json_number(line, "missing", (int64_t)missing);
        cli_json_text(line, "type", bus_error_type(why));
        cli_json_print(&line, stdout);
        return;
    }
    fprintf(stderr, "%s: %s\n", sub->cli.program, bus_error_message(why));
}

static void print_end(const struct sub *sub)
{
    uint64_t incarnation = 0;
    const char *party = bus_sub_slot(sub->sub, &incarnation);
    if (sub->cli.is_json) {
        struct cli_json *line = cli_json_new();
        cli_json_text(line, "kind", "end");
        cli_json_text(line, "party", party);
        cli_json_number(line, "incarnation", (int64_t)incarnation);
        put_since(sub, line);
        cli_json_print(&line, stdout);
        return;
    }
    print_who_ended(sub);
    fputs(" and owed nothing\n", stderr);
}

/* Prints a frame, a gap or an end.  False: err is none of these. */
static bool print_received(struct sub *sub, enum bus_err err, const struct bus_msg *msg,
                           const struct bus_error *error)
{
    bool is_slot = (err == BUS_OK || err == BUS_EFAILED) && bus_sub_incarnation(sub->sub, NULL) > 0;
    if (is_slot && !sub->cli.is_json) {
        tell_incarnation(sub);
    }
    switch (err) {
    case BUS_OK:
        print_value(sub, msg);
        sub->printed++;
        return true;
    case BUS_EFAILED:
        print_remote_error(sub, error);
        sub->printed++;
        sub->has_error = true;
        return true;
    case BUS_EOVERRUN: print_gap(sub, error); return true;
    case BUS_EENDED: print_end(sub); return true;
    default: return false;
    }
}

/* Whether this party is over because the next run of its job began. */
static bool is_run_over(const struct sub *sub)
{
    struct bus_error *why = bus_failure(sub->cli.bus);
    bool is_over = why != NULL && strcmp(bus_error_type(why), "errbus.attempt_over") == 0;
    if (is_over) {
        fprintf(stderr, "%s: the next run of the job began\n", sub->cli.program);
    }
    bus_error_unref(&why);
    return is_over;
}

/* Receives until --count is reached, --wait is over, a signal comes, or this party is over. */
static int receive_all(struct sub *sub)
{
    while (sub->cli.count < 0 || sub->printed < sub->cli.count) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        int result = CLI_OK;
        enum bus_err err = bus_sub_recv(sub->sub, cli_left_ms(&sub->cli), &msg, &error);
        if (err == BUS_ETIMEDOUT && sub->has_error) {
            bus_error_unref(&error);
            break;
        }
        if (err == BUS_EFENCED && is_run_over(sub)) {
            bus_error_unref(&error);
            return CLI_AGAIN;
        }
        if (!print_received(sub, err, msg, error)) {
            return cli_report(&sub->cli, err, &error);
        }
        bus_error_unref(&error);
        if (!cli_flush_output(&sub->cli, &result)) {
            bus_msg_return(&msg);
            return result;
        }
        bus_msg_free(&msg);
    }
    return CLI_OK;
}

/* Reads the value of --from.  False: it is unknown. */
static bool read_from(const char *text, int64_t *out_seq)
{
    if (strcmp(text, "oldest") == 0) {
        *out_seq = BUS_FROM_OLDEST;
        return true;
    }
    if (strcmp(text, "now") == 0) {
        *out_seq = BUS_FROM_NOW;
        return true;
    }
    return cli_number_read(text, out_seq);
}

/* Reads one run of the job; *out_again: another run has begun. */
static int run(struct sub *sub, const char *pattern, bool *out_again)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.name = sub->durable;
    options.from_seq = sub->from_seq;
    options.overflow =
        sub->is_blocking || sub->durable != NULL ? BUS_OVERFLOW_BLOCK : BUS_OVERFLOW_GAP;
    sub->cli.run_rule = BUS_RUN_FOLLOW; /* a durable name holds the run by what it has not read */
    int result = cli_open(&sub->cli, NULL);
    if (result != CLI_OK) {
        return result;
    }
    if (sub->durable != NULL && !cli_has_party(&sub->cli)) {
        fprintf(
            stderr,
            "%s: --durable without --party: only a party named %s can continue this subscription\n",
            sub->cli.program, bus_party(sub->cli.bus));
    }
    cli_notices_begin(&sub->cli);
    enum bus_err err = bus_sub_open(sub->cli.bus, pattern, &options, &sub->sub);
    if (err == BUS_OK) {
        result = receive_all(sub);
    } else if (err == BUS_EFENCED && is_run_over(sub)) {
        result = CLI_AGAIN;
    } else if (err == BUS_EINVAL) {
        result =
            cli_usage(&sub->cli,
                      "'%.250s' is not a pattern: expected levels between '/', '+' for any one "
                      "level, '#' at the end for the rest, at most %d bytes",
                      pattern, BUS_NAME_BYTES_MAX);
    } else {
        result = cli_report(&sub->cli, err, NULL);
    }
    if (result == CLI_OK && sub->has_error) {
        result = CLI_REMOTE;
    }
    *out_again = result == CLI_AGAIN;
    bus_sub_close(&sub->sub);
    forget_topics(sub);
    return cli_close(&sub->cli, result);
}

/* Goes from run to run.  In each it begins at the run's beginning, or at the number of --from. */
static int run_all(struct sub *sub, const char *pattern)
{
    bool is_again = false;
    int result = run(sub, pattern, &is_again);
    while (is_again) {
        is_again = false;
        if (sub->from_seq == BUS_FROM_NOW) {
            sub->from_seq = 0;
        }
        result = run(sub, pattern, &is_again);
    }
    return result;
}

int sub_main(int argc, char **argv)
{
    struct sub sub = {.from = "0",
                      .cli = {.program = "errbus sub",
                              .prints_lines = true,
                              .count_help = "end after N values and errors (no limit)",
                              .operands = "PATTERN",
                              .summary = "Prints the values of the topics that match PATTERN, and "
                                         "the errors that took their place."}};
    const struct cli_flag flags[] = {
        {'b', "block", CLI_YES, &sub.is_blocking, NULL,
         "hold writers back instead of losing values"},
        {'d', "durable", CLI_TEXT, &sub.durable, "NAME",
         "continue where the durable subscription NAME of this party was"},
        {'f', "from", CLI_TEXT, &sub.from, "WHERE", "a slot number, oldest or now (0)"},
        {0, "raw", CLI_YES, &sub.is_raw, NULL, "print the bytes of each value, and no newline"},
        {'v', "verbose", CLI_YES, &sub.is_verbose, NULL,
         "print topic and number before each value"},
    };
    int result = CLI_OK;
    if (!cli_start(&sub.cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    if (sub.cli.argc != 1) {
        return cli_usage(&sub.cli, "expected one PATTERN, as 'alice/#', not %d operands",
                         sub.cli.argc);
    }
    if (sub.is_raw && (sub.is_verbose || sub.cli.is_json)) {
        return cli_usage(&sub.cli, "--raw cannot be used with --verbose or --json");
    }
    if (!read_from(sub.from, &sub.from_seq)) {
        return cli_usage(&sub.cli, "--from takes a slot number, oldest or now, not '%.100s'",
                         sub.from);
    }
    if (sub.durable != NULL && !cli_is_name(sub.durable, BUS_NAME_BYTES_MAX)) {
        return cli_usage(&sub.cli,
                         "--durable takes a name of 1 to %d bytes of UTF-8, without '/', '+', '#' "
                         "and control characters, not '%.200s'",
                         BUS_NAME_BYTES_MAX, sub.durable);
    }
    if (!cli_is_pattern(&sub.cli, sub.cli.argv[0])) {
        return CLI_USAGE;
    }
    sub.has_ends = strchr("+#", sub.cli.argv[0][0]) == NULL;
    return run_all(&sub, sub.cli.argv[0]);
}
