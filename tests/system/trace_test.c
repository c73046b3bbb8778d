/* SPDX-License-Identifier: MPL-2.0 */
/* trace_test.c -- errors lead to the traces that users have: the trace id of $TRACEPARENT is in the
 * errors of a party and in those about it, and `errbus tap --otlp` hands them on. */
#include "tests/lib/expect.h"
#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define OTHER_TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define TRACEPARENT "00-" TRACE "-b7ad6b7169203331-01"
#define HOSTILE "</script>\"\\ \xc3\xa9 \x01 %s"

static void close_stage(void)
{
    unsetenv("TRACEPARENT");
    stage_close();
}

TestSuite(trace, .init = stage_open, .fini = close_stage, .timeout = 120);

/* A party whose work is a part of this trace; NULL: as the environment says. */
static struct bus *open_in(const char *party, const char *traceparent)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.traceparent = traceparent;
    return must_open_with(&options);
}

/* Fails a slot of this bus; the error as bob reads it, the caller's. */
static struct bus_error *fail_and_read(struct bus *alice, const char *message)
{
    struct bus *bob = must_open_frank("bob");
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.bad", message);
    struct bus_error *error = expect_await_failed(bob, "alice/w", 0, "application");
    must_close(&bob);
    return error;
}

static void expect_trace(struct bus *alice, const char *trace_id)
{
    struct bus_error *error = fail_and_read(alice, "why");
    cr_expect_str_eq(bus_error_trace_id(error), trace_id);
    bus_error_unref(&error);
    must_close(&alice);
}

Test(trace, of_the_environment_is_in_the_errors_of_a_party)
{
    setenv("TRACEPARENT", TRACEPARENT, 1);
    expect_trace(open_in("alice", NULL), TRACE);
}

Test(trace, of_the_options_comes_first)
{
    setenv("TRACEPARENT", TRACEPARENT, 1);
    expect_trace(open_in("alice", "00-" OTHER_TRACE "-b7ad6b7169203331-01"), OTHER_TRACE);
}

Test(trace, may_be_declined)
{
    setenv("TRACEPARENT", TRACEPARENT, 1);
    expect_trace(open_in("alice", ""), "");
}

/* W3C Trace Context: what cannot be read is passed over. */
Test(trace, of_the_environment_is_passed_over_if_it_is_none)
{
    setenv("TRACEPARENT", "00-" TRACE "-b7ad6b7169203331", 1);
    expect_trace(open_in("alice", NULL), "");
}

Test(trace, of_the_options_must_be_one)
{
    struct bus_options options;
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    bus_options_init(&options);
    options.traceparent = TRACE;
    expect_code(bus_open(stage.control, &options, SOON_MS, &bus, &error), BUS_EINVAL);
    cr_assert_not_null(error);
    cr_expect_not_null(strstr(bus_error_message(error), "traceparent is '" TRACE "'"), "%s",
                       bus_error_message(error));
    bus_error_unref(&error);
}

/* An error has one trace: its own comes first, and one that comes from elsewhere keeps its. */
Test(trace, of_an_error_is_its_own)
{
    struct bus *alice = open_in("alice", TRACEPARENT);
    struct bus *bob = open_in("bob", "00-" OTHER_TRACE "-b7ad6b7169203331-01");
    struct bus_error *own = bus_error_new("app.own", NULL, "why");
    expect_code(bus_error_set_trace_id(own, OTHER_TRACE), BUS_OK);
    struct bus_slot *slot = must_reserve(alice, "own");
    bus_slot_fail(&slot, own);
    bus_error_unref(&own);
    struct bus_error *error = expect_await_failed(bob, "alice/own", 0, "application");
    cr_expect_str_eq(bus_error_trace_id(error), OTHER_TRACE);
    bus_error_unref(&error);

    slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.bad", "why");
    struct bus_error *cause = expect_await_failed(bob, "alice/w", 0, "application");
    struct bus_error *later = bus_error_new("app.later", cause, "because");
    slot = must_reserve(bob, "w");
    bus_slot_fail(&slot, later);
    error = expect_await_failed(alice, "bob/w", 0, "application");
    cr_expect_str_eq(bus_error_trace_id(error), OTHER_TRACE);
    cr_expect_str_eq(bus_error_trace_id(bus_error_root(error)), TRACE);
    bus_error_unref(&error);
    bus_error_unref(&later);
    bus_error_unref(&cause);
    must_close(&alice);
    must_close(&bob);
}

/* What the broker says of a party that can say nothing any more. */
Test(trace, of_a_killed_party_is_in_the_error_about_it)
{
    static const char *const words[] = {"reconnect_grace_ms=100", NULL};
    static const char *const in_trace[] = {"TRACEPARENT=" TRACEPARENT, NULL};
    struct bus *bob = must_open("bob");
    struct party alice = {.process.pid = 0};
    party_start_in(&alice, "alice", words, in_trace);
    party_do(&alice, "OK", "reserve w");
    party_kill(&alice);
    struct bus_error *error = expect_await_failed(bob, "alice/w", 0, "party_lost");
    cr_expect_str_eq(bus_error_trace_id(error), TRACE);
    bus_error_unref(&error);
    party_fini(&alice);
    must_close(&bob);
}

/* ---- errbus run ------------------------------------------------------------------------------ */

/* It hands the trace on, and its own error about the program has it. */
Test(trace, of_errbus_run_is_that_of_its_program)
{
    static const char *const in_trace[] = {"TRACEPARENT=" TRACEPARENT, NULL};
    struct folder logs;
    cr_assert(folder_make(&logs));
    const char *argv[] = {"errbus", "run",   "-s",        stage.control,
                          "-p",     "alice", "--log-dir", logs.path,
                          "--",     "sh",    "-c",        "echo \"is $TRACEPARENT\"; exit 7",
                          NULL};
    struct process run = {.pid = 0};
    cr_assert(process_start(&run, argv, in_trace));
    cr_expect_eq(process_wait(&run, SOON_MS), 7, "%s", process_complained(&run));
    cr_expect_not_null(strstr(process_said(&run), "is " TRACEPARENT "\n"), "%s",
                       process_said(&run));
    process_fini(&run);
    folder_fini(&logs);
    struct bus_tap *tap = must_tap("default", 1);
    const struct bus_error *error = bus_event_error(expect_event(tap, "party.failed", "alice"));
    cr_assert_not_null(error);
    cr_expect_str_eq(bus_error_trace_id(error), TRACE);
    bus_tap_close(&tap);
}

/* ---- errbus tap --otlp ----------------------------------------------------------------------- */

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "(none)";
}

/* The value of an attribute: of either kind as text, as the protocol has it. */
static const char *attribute(const json_t *owner, const char *key)
{
    size_t index = 0;
    const json_t *each = NULL;
    json_array_foreach(json_object_get(owner, "attributes"), index, each)
    {
        const json_t *value = json_object_get(each, "value");
        if (strcmp(text_at(each, "key"), key) != 0)
            continue;
        const json_t *text = json_object_get(value, "stringValue");
        return json_string_value(text != NULL ? text : json_object_get(value, "intValue"));
    }
    return "(none)";
}

static const json_t *only(const json_t *owner, const char *key)
{
    const json_t *array = json_object_get(owner, key);
    cr_assert_eq(json_array_size(array), 1, "%s", key);
    return json_array_get(array, 0);
}

static bool is_number(const char *text)
{
    return *text != '\0' && strspn(text, "0123456789") == strlen(text);
}

/* One line is a LogsData with one record: that of alice's failed slot. */
static void expect_failure(const char *line, const char *message)
{
    json_error_t wrong;
    json_t *data = json_loads(line, 0, &wrong);
    cr_assert_not_null(data, "%s: %s", wrong.text, line);
    const json_t *source = only(data, "resourceLogs");
    const json_t *resource = json_object_get(source, "resource");
    const json_t *scoped = only(source, "scopeLogs");
    const json_t *record = only(scoped, "logRecords");
    cr_expect_str_eq(attribute(resource, "service.name"), "alice");
    cr_expect_str_eq(attribute(resource, "service.namespace"), "default");
    cr_expect(is_number(attribute(resource, "process.pid")), "%s", line);
    cr_expect_str_eq(text_at(json_object_get(scoped, "scope"), "name"), "errbus");
    cr_expect_str_eq(text_at(json_object_get(scoped, "scope"), "version"), bus_version());
    cr_expect(is_number(text_at(record, "timeUnixNano")), "%s", line);
    cr_expect(is_number(text_at(record, "observedTimeUnixNano")), "%s", line);
    cr_expect_eq(json_integer_value(json_object_get(record, "severityNumber")), 17);
    cr_expect_str_eq(text_at(record, "severityText"), "ERROR");
    cr_expect_str_eq(text_at(json_object_get(record, "body"), "stringValue"), message);
    cr_expect_str_eq(text_at(record, "traceId"), TRACE);
    cr_expect_str_eq(attribute(record, "event.name"), "slot.failed");
    cr_expect_str_eq(attribute(record, "exception.type"), "app.bad");
    cr_expect_str_eq(attribute(record, "exception.message"), message);
    cr_expect_str_eq(attribute(record, "errbus.error.kind"), "application");
    cr_expect_str_eq(attribute(record, "errbus.topic"), "alice/w");
    cr_expect_str_eq(attribute(record, "errbus.seq"), "0");
    cr_expect_str_eq(attribute(record, "errbus.root.id"), "(none)", "it is the root");
    json_decref(data);
}

static struct process tap_with(const char *otlp, const char *format, int expected)
{
    const char *argv[] = {"errbus", "tap", "-s", stage.control, "--since", "oldest", "--until",
                          "3",      "-W",  "20", "--otlp",      otlp,      format,   NULL};
    struct process process = {.pid = 0};
    cr_assert(process_start(&process, argv, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), expected, "%s", process_complained(&process));
    return process;
}

/* Events 1 to 3: alice joins, bob joins, a slot of alice fails. */
static void make_events(const char *message)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = "alice";
    options.disclosure = BUS_DISCLOSURE_FULL;
    options.traceparent = TRACEPARENT;
    struct bus *alice = must_open_with(&options);
    struct bus_error *error = fail_and_read(alice, message);
    bus_error_unref(&error);
    must_close(&alice);
}

Test(trace, is_in_log_records_of_opentelemetry)
{
    make_events("why");
    struct process tap = tap_with("-", NULL, 0);
    const char *said = process_said(&tap);
    cr_assert_not_null(strchr(said, '\n'), "%s", said);
    cr_expect_str_empty(strchr(said, '\n') + 1, "one failure, and no event: %s", said);
    expect_failure(said, "why");
    process_fini(&tap);
}

/* Carol fails because of an error that the broker does not find in her job: a claim. */
Test(trace, tells_no_claim_as_the_root)
{
    struct bus_options options;
    bus_options_init(&options);
    options.job = "other";
    options.party = "alice";
    options.disclosure = BUS_DISCLOSURE_FULL;
    struct bus *alice = must_open_with(&options);
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.bad", "why");
    struct bus_error *cause = expect_await_failed(alice, "alice/w", 0, "application");
    must_close(&alice);
    struct bus *carol = must_open_frank("carol");
    slot = must_reserve(carol, "w");
    struct bus_error *worse = bus_error_new("app.worse", cause, "it fails, too");
    bus_slot_fail(&slot, worse);
    bus_error_unref(&worse);
    must_flush(carol);
    must_close(&carol);
    struct process tap = tap_with("-", NULL, 0);
    json_error_t wrong;
    json_t *data = json_loads(process_said(&tap), 0, &wrong);
    cr_assert_not_null(data, "%s: %s", wrong.text, process_said(&tap));
    const json_t *record = only(only(only(data, "resourceLogs"), "scopeLogs"), "logRecords");
    cr_expect_str_eq(attribute(record, "exception.type"), "app.worse");
    cr_expect_str_eq(attribute(record, "errbus.root.id"), "(none)", "%s", process_said(&tap));
    cr_expect_str_eq(attribute(record, "errbus.root.party"), "(none)");
    json_decref(data);
    process_fini(&tap);
    bus_error_unref(&cause);
}

Test(trace, is_in_a_file_beside_the_events)
{
    struct folder folder;
    char path[FOLDER_PATH_BYTES_MAX + 16];
    char line[4096] = "";
    cr_assert(folder_make(&folder));
    snprintf(path, sizeof path, "%s/failures.jsonl", folder.path);
    make_events(HOSTILE);
    for (int i = 1; i <= 2; i++) { /* it appends */
        struct process tap = tap_with(path, "--text", 0);
        cr_expect_not_null(strstr(process_said(&tap), " slot.failed     alice/1 alice/w 0"));
        process_fini(&tap);
        FILE *file = fopen(path, "r");
        int lines = 0;
        cr_assert_not_null(file);
        while (fgets(line, sizeof line, file) != NULL) {
            expect_failure(line, HOSTILE);
            lines++;
        }
        cr_expect_eq(lines, i);
        fclose(file);
    }
    folder_fini(&folder);
}

static void expect_complained(struct process *process, const char *part)
{
    cr_expect_not_null(strstr(process_complained(process), part), "not '%s' in: %s", part,
                       process_complained(process));
    process_fini(process);
}

Test(trace, that_cannot_be_written_is_said)
{
    make_events("why");
    struct process tap = tap_with("/nowhere/failures.jsonl", NULL, 1);
    expect_complained(&tap, "errbus tap: /nowhere/failures.jsonl: No such file or directory");
    tap = tap_with("/dev/full", NULL, 1);
    expect_complained(&tap, "errbus tap: /dev/full: No space left on device");
    tap = tap_with("-", "--text", 2);
    expect_complained(&tap, "--otlp - and --text exclude each other");
}
