/* SPDX-License-Identifier: MPL-2.0 */
/* errors.c -- errbus errors: what failed in a job so far, oldest first; or the whole of one error.
 *
 * The history is what the control topic keeps: a tap reads it from its oldest event up to the one
 * that was the newest when it began. */
#include "clients/errbus.h"

#include "clients/attached.h"
#include "clients/cli.h"
#include "clients/error_list.h"

#include <bus/report.h>
#include <bus/seal.h>
#include <bus/tap.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often to look whether the newest event has a smaller id now: a broker that crashed may have
 * lost events that it told. */
#define LOOK_MS INT64_C(500)

enum { ERROR_ID_BYTES_MAX = 2 * BUS_NAME_BYTES_MAX + 50 }; /* JOB/PARTY/INCARNATION/N */

/* A copy of the event that told of an error: the library's event is gone with the next one. */
struct told {
    uint64_t id;
    int64_t at_ns;
    uint64_t count;
    bool is_late;                             /* behind the final verdict */
    char first_error[ERROR_ID_BYTES_MAX + 1]; /* of those that it stands for; empty: of one */
    char last_error[ERROR_ID_BYTES_MAX + 1];
    char name[BUS_NAME_BYTES_MAX + 1];
    char party[BUS_NAME_BYTES_MAX + 1]; /* whom the event is about; empty: nobody */
    uint32_t incarnation;
    char job[BUS_NAME_BYTES_MAX + 1];
};

struct errors {
    struct cli cli;
    const char *since;      /* an id, "oldest", or NULL */
    const char *attachment; /* of the one that is asked for; NULL: none */
    const char *id;         /* the one to show; NULL: all */
    const char *key;        /* file of the key that opens what is sealed; NULL: none */
    struct bus_tap *tap;
    uint64_t next_id; /* the first event not read yet */
    int64_t printed;
    struct error_ids met;
    struct bus_error *found; /* the error to show, and its event */
    bool is_found_itself;    /* it has an event of its own, and is not only a cause */
    struct told told;
    bool is_found_among; /* it may be one of several that this event stands for: */
    struct told told_among;
};

/* ---- printing ---------------------------------------------------------------------------------*/

/* "2026-11-21 12:00:01.234". */
static void print_clock(int64_t at_ns)
{
    char at[CLI_TIME_BYTES_MAX];
    cli_time_text(at_ns, at);
    char *day_end = strchr(at, 'T');
    if (day_end != NULL) {
        *day_end = ' ';
    }
    printf("%.23s", at);
}

/* Prints the library's description, each line indented. */
static void print_described(const struct bus_error *error)
{
    size_t bytes = bus_error_describe(error, NULL, 0) + 1;
    char *text = malloc(bytes);
    if (text != NULL) {
        bus_error_describe(error, text, bytes);
    }
    char *rest = text;
    for (char *line; (line = rest) != NULL;) {
        rest = strchr(line, '\n');
        if (rest != NULL) {
            *rest++ = '\0';
        }
        fputs("     ", stdout);
        cli_print_text(stdout, line, "");
        putchar('\n');
    }
    free(text);
}

/* "  42 2026-11-21 12:00:01.234 party.lost (2)", and who, what, where, why below it. */
static void print_listed(const struct told *told, const struct bus_error *error)
{
    printf("%4" PRIu64 " ", told->id);
    print_clock(told->at_ns);
    printf(" %s", told->name);
    if (told->party[0] != '\0' && strcmp(told->party, bus_error_party(error)) != 0) {
        putchar(' '); /* the error is another party's */
        cli_print_text(stdout, told->party, "");
        printf("/%" PRIu32, told->incarnation);
    }
    error_count_print(stdout, told->count, told->first_error, told->last_error);
    printf("%s\n", told->is_late ? ", late" : "");
    print_described(error);
}

/* shown_by: also what the broker has of its attachments; or NULL. */
static void print_json(const struct told *told, const struct bus_error *error,
                       const struct cli *shown_by)
{
    struct cli_json *line = cli_json_of_error(error);
    if (shown_by != NULL) {
        attached_json(shown_by, error, line);
    }
    struct cli_json *event = cli_json_object(line, "event");
    cli_json_number(event, "id", (int64_t)told->id);
    cli_json_time(event, "at", told->at_ns);
    cli_json_text(event, "job", told->job);
    cli_json_text(event, "event", told->name);
    if (told->party[0] != '\0') {
        cli_json_text(event, "party", told->party);
        cli_json_number(event, "incarnation", told->incarnation);
    }
    if (told->count > 0) {
        cli_json_number(event, "count", (int64_t)told->count);
    }
    if (told->first_error[0] != '\0') {
        cli_json_text(event, "first_error", told->first_error);
        cli_json_text(event, "last_error", told->last_error);
    }
    if (told->is_late) {
        cli_json_bool(event, "late", true);
    }
    cli_json_print(&line, stdout);
}

static void print_field(const char *name, const char *text)
{
    if (text[0] != '\0') {
        printf("%-13s ", name);
        cli_print_text(stdout, text, "");
        putchar('\n');
    }
}

static void print_message(const char *message)
{
    if (message[0] != '\0') {
        printf("%-13s ", "message");
        cli_print_last_line(stdout, message);
        putchar('\n');
        cli_print_other_lines(stdout, message, 18);
    }
}

static void print_who(const struct bus_error *error)
{
    if (bus_error_party(error)[0] != '\0') {
        printf("%-13s ", "party");
        cli_print_text(stdout, bus_error_party(error), "");
        printf("/%" PRIu32, bus_error_incarnation(error));
        if (bus_error_attempt(error) > 0) {
            printf(", attempt %" PRIu32, bus_error_attempt(error));
        }
        putchar('\n');
    }
    if (bus_error_host(error)[0] != '\0') {
        printf("%-13s ", "host");
        cli_print_text(stdout, bus_error_host(error), "");
        printf(", process %" PRId64 "\n", bus_error_pid(error));
    }
}

static void print_where(const struct bus_error *error)
{
    uint64_t seq = 0;
    const char *topic = bus_error_topic(error, &seq);
    if (topic != NULL) {
        printf("%-13s ", "slot");
        cli_print_text(stdout, topic, "");
        printf(" %" PRIu64 "\n", seq);
    }
    if (bus_error_occurred_ns(error) != 0) {
        char at[CLI_TIME_BYTES_MAX];
        cli_time_text(bus_error_occurred_ns(error), at);
        print_field("occurred at", at);
    }
    uint64_t uncertainty_ns = 0;
    if (bus_error_broker_ns(error, &uncertainty_ns) != 0 && uncertainty_ns <= INT64_MAX) {
        printf("%-13s %.6f s, within %.6f s\n", "broker clock",
               (double)bus_error_broker_ns(error, NULL) / 1e9, (double)uncertainty_ns / 1e9);
    }
}

/* Each field on a line of its own; a stacktrace on as many as it has. */
static void print_fields(const struct cli *cli, const struct bus_error *error)
{
    int recoverable = bus_error_recoverable(error);
    print_field("id", bus_error_id(error));
    print_field("kind", bus_error_kind(error));
    print_field("type", bus_error_type(error));
    print_message(bus_error_message(error));
    print_field("origin", bus_error_is_system(error) ? "system" : "user");
    print_field("claimed by", bus_error_claimed_by(error));
    print_who(error);
    print_where(error);
    for (size_t i = 0; bus_error_blame_at(error, i) != NULL; i++) {
        print_field("blames", bus_error_blame_at(error, i));
    }
    if (bus_error_code(error) != 0) {
        printf("%-13s %" PRId64 "\n", "code", bus_error_code(error));
    }
    if (bus_error_exit_code(error) >= 0) {
        printf("%-13s %d\n", "exit code", bus_error_exit_code(error));
    }
    if (bus_error_signal(error) > 0) {
        printf("%-13s %d\n", "signal", bus_error_signal(error));
    }
    print_field("trace id", bus_error_trace_id(error));
    print_field("recoverable", recoverable < 0 ? "unknown" : recoverable == 1 ? "yes" : "no");
    if (bus_error_retry_after_ms(error) >= 0) {
        printf("%-13s %" PRId64 " ms\n", "retry after", bus_error_retry_after_ms(error));
    }
    if (bus_error_causes_left_out(error) > 0) {
        printf("%-13s %" PRIu32 " causes\n", "left out", bus_error_causes_left_out(error));
    }
    if (bus_error_is_cut(error) != 0) {
        print_field("cut", "message or stacktrace lack their middle");
    }
    if (bus_error_sealed_bytes(error) > 0) {
        printf("%-13s %zu bytes, to %s\n", "sealed", bus_error_sealed_bytes(error),
               bus_error_auditor(error));
    }
    attached_print(cli, error);
    if (bus_error_stacktrace(error)[0] != '\0') {
        printf("%-13s\n", "stacktrace");
        cli_print_text(stdout, bus_error_stacktrace(error), "\n\t");
        putchar('\n');
    }
}

/* Prints the error, its causes, and the event that told of it. */
static void print_whole(const struct cli *cli, const struct told *told,
                        const struct bus_error *error)
{
    const struct bus_error *list[ERROR_LIST_MAX];
    size_t count = error_list_of(error, list);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            printf("\nbecause%s\n", list[i] == bus_error_root(error) ? " (root)" : "");
        }
        print_fields(cli, list[i]);
    }
    printf("\n%-13s %" PRIu64 " %s", "told by event", told->id, told->name);
    if (told->first_error[0] != '\0') {
        error_count_print(stdout, told->count, told->first_error, told->last_error);
    }
    fputs(", ", stdout);
    print_clock(told->at_ns);
    putchar('\n');
}

/* ---- reading ----------------------------------------------------------------------------------*/

static struct told told_by(const struct bus_event *event)
{
    struct told told = {.id = bus_event_id(event),
                        .at_ns = bus_event_at_ns(event),
                        .count = bus_event_count(event),
                        .is_late = bus_event_is_late(event) != 0};
    snprintf(told.name, sizeof told.name, "%s", bus_event_name(event));
    snprintf(told.party, sizeof told.party, "%s",
             bus_event_party(event) != NULL ? bus_event_party(event) : "");
    told.incarnation = bus_event_incarnation(event);
    snprintf(told.job, sizeof told.job, "%s", bus_event_job(event));
    snprintf(told.first_error, sizeof told.first_error, "%s", bus_event_first_error(event));
    snprintf(told.last_error, sizeof told.last_error, "%s", bus_event_last_error(event));
    return told;
}

/* Keeps the error that is asked for.  Its own event is preferred: as a cause it may be cut. */
static void look_at(struct errors *errors, const struct bus_event *event)
{
    const struct bus_error *error = error_list_find(bus_event_error(event), errors->id);
    bool is_itself = error == bus_event_error(event);
    if (!errors->is_found_among &&
        error_id_is_within(errors->id, bus_event_first_error(event), bus_event_last_error(event))) {
        errors->is_found_among = true;
        errors->told_among = told_by(event);
    }
    if (error == NULL || errors->is_found_itself || (errors->found != NULL && !is_itself)) {
        return;
    }
    bus_error_unref(&errors->found);
    errors->found = bus_error_ref(error);
    errors->is_found_itself = is_itself;
    errors->told = told_by(event);
}

/* False: memory is short. */
static bool take(struct errors *errors, const struct bus_event *event)
{
    const struct bus_error *error = bus_event_error(event);
    bool is_short = false;
    if (error != NULL && errors->id != NULL) {
        look_at(errors, event);
    } else if (error != NULL && error_ids_add(&errors->met, bus_error_id(error), &is_short)) {
        struct told told = told_by(event);
        errors->printed += 1;
        if (errors->cli.is_json) {
            print_json(&told, error, NULL);
        } else {
            print_listed(&told, error);
        }
    }
    return !is_short;
}

/* Says that older events are no longer kept.  That is no failure, but the user must know it. */
static void tell_gap(struct errors *errors)
{
    uint64_t first = 0;
    uint64_t last = 0;
    bus_tap_gap(errors->tap, &first, &last);
    fprintf(stderr, "%s: events %" PRIu64 " to %" PRIu64 " are no longer kept\n",
            errors->cli.program, first, last);
    errors->next_id = last + 1;
}

/* Takes one event, or looks whether one is still to come.  True: go on. */
static bool step(struct errors *errors, int *out_result)
{
    const struct bus_event *event = NULL;
    struct bus_error *error = NULL;
    bool is_short = false;
    enum bus_err err =
        bus_tap_next(errors->tap, cli_left_within(&errors->cli, LOOK_MS), &event, &error);
    if (err == BUS_OK) {
        errors->next_id = bus_event_id(event) + 1;
        is_short = !take(errors, event);
    } else if (err == BUS_EOVERRUN) {
        tell_gap(errors);
    } else if (err != BUS_ETIMEDOUT || cli_left_ms(&errors->cli) == 0) {
        *out_result = cli_report(&errors->cli, err, &error);
        return false;
    }
    bus_error_unref(&error);
    if (is_short) {
        *out_result = cli_report(&errors->cli, BUS_ENOMEM, NULL);
    }
    return !is_short && cli_flush_output(&errors->cli, out_result);
}

static int read_history(struct errors *errors)
{
    int result = CLI_OK;
    while (errors->next_id < bus_tap_next_id(errors->tap) && !errors->is_found_itself &&
           (errors->cli.count < 0 || errors->printed < errors->cli.count)) {
        if (!step(errors, &result)) {
            return result;
        }
    }
    return result;
}

static int write_piece(const void *bytes, size_t count, void *arg)
{
    (void)arg; /* there is one output */
    return fwrite(bytes, 1, count, stdout) == count ? 0 : 1;
}

/* Fetches the attachment, and opens it if there is a key. */
static enum bus_err fetch(const struct errors *errors, struct bus_admin *admin,
                          struct bus_error **out_error)
{
    int64_t timeout_ms = cli_open_ms(&errors->cli);
    if (errors->key != NULL) {
        return bus_admin_attachment_open(admin, NULL, errors->found, errors->attachment,
                                         errors->key, timeout_ms, write_piece, NULL, out_error);
    }
    return bus_admin_attachment_fetch(admin, NULL, errors->id, errors->attachment, timeout_ms,
                                      write_piece, NULL, out_error);
}

/* Prints the bytes of the attachment, and nothing else. */
static int show_attachment(struct errors *errors)
{
    struct bus_admin *admin = NULL;
    struct bus_error *error = NULL;
    int result = cli_admin_open(&errors->cli, &admin);
    if (result != CLI_OK) {
        return result;
    }
    enum bus_err err = fetch(errors, admin, &error);
    bus_admin_close(&admin);
    (void)cli_flush_output(&errors->cli, &result);
    if (err != BUS_OK && result == CLI_OK) {
        result = cli_report(&errors->cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, &error);
        return err == BUS_EOVERRUN || err == BUS_EPROTO ? CLI_FAILED : result; /* not whole */
    }
    bus_error_unref(&error);
    return result;
}

/* Says that the error is one of several alike, of which the history has only the last.  Each stands
 * at its slot. */
static void tell_among(const struct errors *errors)
{
    const struct told *told = &errors->told_among;
    fprintf(stderr,
            "%s: '%.500s' was told with others that are alike, by event %" PRIu64 " %s: %" PRIu64
            " from %s to %s, the one that is kept\n",
            errors->cli.program, errors->id, told->id, told->name, told->count, told->first_error,
            told->last_error);
}

/* Opens what is sealed.  CLI_OK, or the exit code after saying why not. */
static int open_found(struct errors *errors)
{
    struct bus_error *opened = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_error_open(errors->found, errors->key, &opened, &error);
    if (err != BUS_OK) {
        int result = cli_report(&errors->cli, err, &error);
        return err == BUS_EDENIED ? result : CLI_FAILED;
    }
    bus_error_unref(&errors->found);
    errors->found = opened;
    return CLI_OK;
}

static int show(struct errors *errors)
{
    int result = CLI_OK;
    if (errors->found == NULL && errors->is_found_among) {
        tell_among(errors);
        return CLI_FAILED;
    }
    if (errors->found == NULL) {
        fprintf(stderr, "%s: the job's history has no error '%.500s'\n", errors->cli.program,
                errors->id);
        return CLI_FAILED;
    }
    if (errors->key != NULL && errors->attachment != NULL) {
        return show_attachment(errors);
    }
    if (errors->key != NULL) {
        result = open_found(errors);
    }
    if (result != CLI_OK) {
        return result;
    }
    if (errors->cli.is_json) {
        print_json(&errors->told, errors->found, &errors->cli);
    } else {
        print_whole(&errors->cli, &errors->told, errors->found);
    }
    (void)cli_flush_output(&errors->cli, &result);
    return result;
}

/* Asks a question first, because a tap would wait for a broker. */
static int find_broker(const struct errors *errors)
{
    struct bus_admin *admin = NULL;
    int result = cli_admin_open(&errors->cli, &admin);
    if (result == CLI_OK) {
        result = cli_find_job(&errors->cli, admin);
    }
    bus_admin_close(&admin);
    return result;
}

static int run(struct errors *errors, uint64_t from_id)
{
    struct bus_tap_options options;
    struct bus_error *error = NULL;
    int result = find_broker(errors);
    if (result != CLI_OK) {
        return result;
    }
    bus_tap_options_init(&options);
    options.job = errors->cli.job;
    options.from_id = from_id;
    options.broker_lost_ms = CLI_LOST_MS;
    enum bus_err err =
        bus_tap_open(errors->cli.server, &options, cli_open_ms(&errors->cli), &errors->tap, &error);
    if (err != BUS_OK) {
        return cli_report(&errors->cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, &error);
    }
    errors->next_id = from_id;
    cli_watch(NULL, errors->tap);
    result = read_history(errors);
    if (result == CLI_OK && errors->id != NULL && !cli_is_stopped()) {
        result = show(errors);
    }
    cli_watch(NULL, NULL);
    bus_tap_close(&errors->tap);
    error_ids_fini(&errors->met);
    bus_error_unref(&errors->found);
    return result;
}

/* Nothing, or "show ID".  A key is for one error, so there "show" may be left out. */
static bool read_operands(struct errors *errors)
{
    const struct cli *cli = &errors->cli;
    bool is_show = cli->argc == 2 && strcmp(cli->argv[0], "show") == 0;
    bool is_id = errors->key != NULL && cli->argc == 1;
    errors->id = is_show ? cli->argv[1] : is_id ? cli->argv[0] : NULL;
    return cli->argc == 0 || is_show || is_id;
}

int errors_main(int argc, char **argv)
{
    struct errors errors = {
        .cli = {.program = "errbus errors",
                .prints_lines = true,
                .count_help = "end after N errors (no limit)",
                .is_observer = true,
                .operands = "[show ID]",
                .summary = "Lists what failed in a job so far, oldest first, each error "
                           "once.\nWith show: prints the whole of one error."}};
    const struct cli_flag flags[] = {
        {0, "since", CLI_TEXT, &errors.since, "ID", "first event: its id, or oldest (oldest)"},
        {0, "attachment", CLI_TEXT, &errors.attachment, "NAME",
         "with show: print this attachment of the error, and nothing else"},
        {0, "open", CLI_TEXT, &errors.key, "KEYFILE",
         "with show: open what was sealed to the key in this file"},
    };
    uint64_t from_id = 1;
    int result = CLI_OK;
    if (!cli_start(&errors.cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    if (!read_operands(&errors)) {
        return cli_usage(&errors.cli, "expected no operand, or 'show' and the id of an error");
    }
    if (errors.attachment != NULL && errors.id == NULL) {
        return cli_usage(&errors.cli, "--attachment needs 'show' and the id of an error");
    }
    if (errors.key != NULL && errors.id == NULL) {
        return cli_usage(&errors.cli, "--open needs the id of an error");
    }
    if (errors.attachment != NULL && errors.key == NULL) {
        return show_attachment(&errors);
    }
    if (errors.since != NULL &&
        (!cli_event_id_read(errors.since, &from_id) || from_id == BUS_TAP_NOW)) {
        return cli_usage(&errors.cli, "--since takes an id or oldest, not '%.100s'", errors.since);
    }
    return run(&errors, from_id);
}
