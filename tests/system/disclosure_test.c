/* SPDX-License-Identifier: MPL-2.0 */
/* disclosure_test.c -- secrets in errors, and everything in which they could be found: the wire,
 * the journal, the broker's log, what taps, status, history and verdict tell, and whoever receives
 * the error, over a chain of parties. */
#include "tests/lib/expect.h"
#include "tests/lib/process.h"
#include "tests/lib/relay.h"
#include "tests/lib/search.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct relay relay;
static struct folder folder;
static char wire[FOLDER_PATH_BYTES_MAX + 8];
static char journal[FOLDER_PATH_BYTES_MAX + 8];

/* Each in a place of its own, so that a test can say which of them may be seen. */
#define IN_TYPE "app.c0nfidential_type"
#define IN_MESSAGE "c0nfidential_message"
#define IN_STACK "/c0nfidential_folder/c0nfidential_stack.c"
#define IN_CAUSE "c0nfidential_cause"
#define IN_CAUSE_STACK "c0nfidential_cause_stack"
#define IN_WHERE "c0nfidential_where"
#define IN_OUTPUT "c0nfidential_output"
#define IN_SOURCE "c0nfidential_source"
#define IN_PLACE "/c0nfidential_place/train.py"
#define IN_FILE "c0nfidential_attachment"
#define IN_FILE_NAME "c0nfidential_name"
/* Of these nobody is told at any level, unless a program says them itself. */
#define IN_ARGUMENT "c0nfidential_argument"
#define IN_ENVIRONMENT "c0nfidential_environment"

static void open_stage(void)
{
    cr_assert(folder_make(&folder));
    snprintf(wire, sizeof wire, "%s/wire", folder.path);
    snprintf(journal, sizeof journal, "%s/journal", folder.path);
    cr_assert(relay_open(&relay));
    relay.record_folder = folder.path;
    const char *const more[] = {"--advertise", relay.data_endpoint, "--journal",
                                journal,       "--verbose",         NULL};
    stage_open_with(more);
    cr_assert(relay_start(&relay, stage.control, stage.data));
}

static void close_stage(void)
{
    relay_fini(&relay);
    stage_close();
    folder_fini(&folder);
}

/* The first level has the stage of the test, each further one a stage of its own. */
static void begin_level(int level)
{
    if (level > BUS_DISCLOSURE_FULL) {
        close_stage();
        open_stage();
    }
}

TestSuite(disclosure, .init = open_stage, .fini = close_stage, .timeout = 120);

/* ---- looking everywhere ---------------------------------------------------------------------- */

/* What a program of ours prints of the job. */
static struct process ask(const char *const *words)
{
    const char *argv[12] = {"errbus"};
    struct process process;
    size_t count = 1;
    for (; words[count - 1] != NULL; count++)
        argv[count] = words[count - 1];
    argv[count++] = "--server";
    argv[count++] = stage.control;
    argv[count] = NULL;
    cr_assert(process_start(&process, argv, NULL));
    cr_assert_neq(process_wait(&process, SOON_MS), -1);
    return process;
}

static bool is_told(const char *const *words, const char *secret)
{
    struct process process = ask(words);
    cr_expect_gt(strlen(process_said(&process)), 0, "%s told nothing", words[0]);
    bool is_found = strstr(process_said(&process), secret) != NULL ||
                    strstr(process_complained(&process), secret) != NULL;
    process_fini(&process);
    return is_found;
}

/* Whether the secret can be found in all places, or in none. */
static void expect_seen(const char *secret, bool is_seen)
{
    static const char *const asked[][3] = {{"errors", "--json", NULL},
                                           {"errors", NULL},
                                           {"status", "--json", NULL},
                                           {"verdict", "--json", NULL}};
    cr_expect_eq(folder_holds(folder.path, secret) > 0, is_seen, "wire: %s", secret);
    cr_expect_eq(folder_holds(journal, secret) > 0, is_seen, "journal: %s", secret);
    cr_expect_eq(is_told(asked[0], secret), is_seen, "errors: %s", secret);
    if (is_seen)
        return;
    cr_expect_not(is_told(asked[1], secret), "errors for people: %s", secret);
    cr_expect_not(is_told(asked[2], secret), "status: %s", secret);
    cr_expect_not(is_told(asked[3], secret), "verdict: %s", secret);
}

/* All events of the job so far, as JSON. */
static void expect_untold_by_tap(const char *secret)
{
    struct bus_tap *tap = must_tap("default", 1);
    uint64_t next_id = bus_tap_next_id(tap);
    cr_expect_gt(next_id, 1, "nothing was told");
    for (uint64_t id = 0; id + 1 < next_id;) {
        const struct bus_event *event = NULL;
        struct bus_error *error = NULL;
        char text[4096] = "";
        expect_code_of(bus_tap_next(tap, SOON_MS, &event, &error), BUS_OK, &error);
        id = bus_event_id(event);
        if (bus_event_error(event) != NULL)
            (void)bus_error_describe(bus_event_error(event), text, sizeof text);
        cr_expect_null(strstr(text, secret), "%s", text);
        cr_expect_null(strstr(bus_event_text(event), secret), "%s", bus_event_text(event));
    }
    bus_tap_close(&tap);
}

/* The broker ends, and what it wrote is read: its log, and a journal that was closed. */
static void expect_unlogged(const char *const *secrets)
{
    process_signal(&stage.process, SIGTERM);
    cr_assert_eq(process_wait(&stage.process, SOON_MS), 0);
    cr_expect_not_null(strstr(process_complained(&stage.process), "SIGTERM"), "there is no log");
    cr_expect_gt(folder_holds(journal, "default"), 0, "there is no journal");
    for (; *secrets != NULL; secrets++) {
        cr_expect_null(strstr(process_complained(&stage.process), *secrets), "log: %s", *secrets);
        cr_expect_null(strstr(process_said(&stage.process), *secrets), "log: %s", *secrets);
        cr_expect_eq(folder_holds(journal, *secrets), 0, "journal: %s", *secrets);
    }
}

/* ---- parties --------------------------------------------------------------------------------- */

static bool is_bob_discreet; /* by his job, or his environment */

static struct bus *open_at(const char *party, int disclosure)
{
    return must_open_over(&relay, party, disclosure);
}

/* With a cause that never was on a bus. */
static struct bus_error *secret_error(void)
{
    struct bus_error *cause = bus_error_new(IN_TYPE, NULL, "%s", IN_CAUSE);
    expect_code(bus_error_set_stacktrace(cause, IN_CAUSE_STACK), BUS_OK);
    expect_code(bus_error_set_code(cause, 5), BUS_OK);
    struct bus_error *error = bus_error_new(IN_TYPE, cause, "%s", IN_MESSAGE);
    expect_code(bus_error_set_stacktrace(error, IN_STACK), BUS_OK);
    expect_code(bus_error_set_code(error, 28), BUS_OK);
    expect_code(bus_error_set_recoverable(error, 1), BUS_OK);
    expect_code(bus_error_set_retry_after(error, 1500), BUS_OK);
    expect_code(bus_error_set_blame(error, "carol"), BUS_OK);
    expect_code(bus_error_add_data(error, IN_FILE_NAME, IN_FILE, strlen(IN_FILE)), BUS_OK);
    bus_error_unref(&cause);
    return error;
}

/* alice fails a slot and then herself; bob passes that on, and carol has it from him. */
static void fail_over_a_chain(int disclosure, char root_id[200])
{
    struct bus *alice = open_at("alice", disclosure);
    struct bus *bob = open_at("bob", 0);
    struct bus *carol = open_at("carol", 0);
    struct bus_sub *bobs = must_subscribe(bob, "alice/w");
    struct bus_sub *carols = must_subscribe(carol, "bob/w");
    struct bus_slot *slot = must_reserve(alice, "w");
    struct bus_slot *next = must_reserve(bob, "w");
    struct bus_error *error = secret_error();
    bus_progress_at(alice, 60000, IN_WHERE);
    bus_slot_fail(&slot, error);
    struct bus_error *raised = expect_error(bobs, "alice/w", 0, "application");
    struct bus_error *own = bus_error_new("app.no_input", raised, "nothing to work on");
    bus_slot_fail(&next, own);
    bus_error_unref(&own);
    struct bus_error *last = expect_error(carols, "bob/w", 0, "application");

    /* What remains, over both hops. */
    const struct bus_error *origin = bus_error_cause(last);
    cr_assert_not_null(origin);
    cr_expect_str_eq(bus_error_id(origin), bus_error_id(raised));
    cr_expect_str_eq(bus_error_id(origin), bus_error_id(error));
    cr_expect_str_eq(bus_error_party(origin), "alice");
    cr_expect_str_eq(bus_error_kind(origin), "application");
    cr_expect_eq(bus_error_code(origin), 28);
    cr_expect_eq(bus_error_recoverable(origin), 1);
    cr_expect_eq(bus_error_retry_after_ms(origin), 1500);
    cr_expect_str_eq(bus_error_blame(origin), "carol");
    cr_expect_gt(bus_error_occurred_ns(origin), 0);
    const struct bus_error *root = bus_error_root(last);
    cr_expect_str_eq(bus_error_id(root), bus_error_id(bus_error_root(error)));
    cr_expect_eq(bus_error_code(root), 5);
    if (!is_bob_discreet)
        cr_expect_str_eq(bus_error_message(last), "nothing to work on");
    snprintf(root_id, 200, "%s", bus_error_id(root));
    /* Here it is as it was made. */
    cr_expect_str_eq(bus_error_message(error), IN_MESSAGE);
    cr_expect_str_eq(bus_error_stacktrace(error), IN_STACK);

    bus_fail(alice, error);
    (void)bus_close(&alice, SOON_MS); /* it failed */
    expect_code(bus_flush(bob, SOON_MS), BUS_OK);
    bus_error_unref(&error);
    bus_error_unref(&raised);
    bus_error_unref(&last);
    bus_sub_close(&bobs);
    bus_sub_close(&carols);
    must_close(&bob);
    must_close(&carol);
}

/* The name of this machine, where it is one that nothing else is called by. */
static void expect_host_seen(bool is_seen)
{
    enum { TELLING_BYTES = 6 };
    char host[256] = "";
    cr_assert_eq(gethostname(host, sizeof host - 1), 0);
    if (strlen(host) < TELLING_BYTES || strcmp(host, "localhost") == 0)
        return;
    cr_expect_eq(folder_holds(folder.path, host) > 0, is_seen, "wire: %s", host);
    cr_expect_eq(folder_holds(journal, host) > 0, is_seen, "journal: %s", host);
}

static void expect_level(int disclosure, int effective)
{
    static const char *const all[] = {IN_TYPE,        IN_MESSAGE, IN_STACK, IN_CAUSE,
                                      IN_CAUSE_STACK, IN_WHERE,   NULL};
    char root_id[200];
    fail_over_a_chain(disclosure, root_id);
    relay_fini(&relay); /* all that it recorded is in its files */
    expect_seen(root_id, true);
    expect_seen(IN_STACK, effective < BUS_DISCLOSURE_MESSAGE);
    expect_seen(IN_CAUSE_STACK, effective < BUS_DISCLOSURE_MESSAGE);
    expect_seen(IN_MESSAGE, effective < BUS_DISCLOSURE_TYPE);
    expect_seen(IN_CAUSE, effective < BUS_DISCLOSURE_TYPE);
    expect_seen(IN_TYPE, effective < BUS_DISCLOSURE_NONE);
    if (effective < BUS_DISCLOSURE_TYPE || is_bob_discreet)
        expect_host_seen(effective < BUS_DISCLOSURE_TYPE);
    cr_expect_eq(folder_holds(journal, IN_FILE) > 0, effective == BUS_DISCLOSURE_FULL);
    cr_expect_eq(folder_holds(journal, IN_FILE_NAME) > 0, effective == BUS_DISCLOSURE_FULL);
    cr_expect_eq(folder_holds(folder.path, IN_FILE) > 0, effective == BUS_DISCLOSURE_FULL);
    if (effective >= BUS_DISCLOSURE_TYPE) {
        expect_seen(IN_WHERE, false);
        expect_untold_by_tap(IN_MESSAGE);
        expect_untold_by_tap(IN_CAUSE);
    }
    const char *const *hidden = effective == BUS_DISCLOSURE_NONE   ? all
                                : effective == BUS_DISCLOSURE_TYPE ? all + 1
                                                                   : all + 6;
    expect_unlogged(hidden);
}

Test(disclosure, is_of_messages_by_default)
{
    expect_level(0, BUS_DISCLOSURE_MESSAGE);
}

Test(disclosure, shows_all_to_whom_all_may_be_shown)
{
    expect_level(BUS_DISCLOSURE_FULL, BUS_DISCLOSURE_FULL);
}

Test(disclosure, hides_messages_and_files)
{
    expect_level(BUS_DISCLOSURE_TYPE, BUS_DISCLOSURE_TYPE);
}

Test(disclosure, hides_everything)
{
    expect_level(BUS_DISCLOSURE_NONE, BUS_DISCLOSURE_NONE);
}

static void create_job(int disclosure)
{
    struct bus_job_options options;
    struct bus_error *error = NULL;
    bus_job_options_init(&options);
    options.disclosure = disclosure;
    options.join_window_ms = 0;
    expect_code_of(bus_admin_job_create(stage_admin(), "default", &options, SOON_MS, &error),
                   BUS_OK, &error);
    struct bus_job *job = NULL;
    expect_code_of(bus_admin_job_get(stage_admin(), "default", SOON_MS, &job, &error), BUS_OK,
                   &error);
    cr_expect_eq(bus_job_info(job)->disclosure, disclosure);
    bus_job_free(&job);
}

Test(disclosure, is_the_jobs_where_that_is_stricter)
{
    create_job(BUS_DISCLOSURE_NONE);
    is_bob_discreet = true;
    expect_level(BUS_DISCLOSURE_FULL, BUS_DISCLOSURE_NONE);
}

Test(disclosure, is_the_partys_where_that_is_stricter)
{
    create_job(BUS_DISCLOSURE_FULL);
    expect_level(BUS_DISCLOSURE_TYPE, BUS_DISCLOSURE_TYPE);
}

Test(disclosure, is_chosen_by_name_and_number)
{
    struct bus_options options;
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    bus_options_init(&options);
    options.party = "alice";
    for (int level = -1; level <= BUS_DISCLOSURE_NONE + 1; level += BUS_DISCLOSURE_NONE + 2) {
        options.disclosure = level;
        expect_code_of(bus_open(stage.control, &options, SOON_MS, &bus, &error), BUS_EINVAL,
                       &error);
    }
    options.disclosure = 0;
    setenv("ERRBUS_DISCLOSURE", "a little", 1);
    expect_code_of(bus_open(stage.control, &options, SOON_MS, &bus, &error), BUS_EINVAL, &error);
    setenv("ERRBUS_DISCLOSURE", "none", 1);
    is_bob_discreet = true;
    expect_level(0, BUS_DISCLOSURE_NONE);
    unsetenv("ERRBUS_DISCLOSURE");
}

/* Whoever runs a program says how much may be seen of it; the program can only say less. */
Test(disclosure, is_the_environments_where_that_is_stricter)
{
    setenv("ERRBUS_DISCLOSURE", "type", 1);
    is_bob_discreet = true;
    expect_level(BUS_DISCLOSURE_FULL, BUS_DISCLOSURE_TYPE);
    unsetenv("ERRBUS_DISCLOSURE");
}

Test(disclosure, is_the_programs_where_that_is_stricter)
{
    setenv("ERRBUS_DISCLOSURE", "full", 1);
    expect_level(BUS_DISCLOSURE_NONE, BUS_DISCLOSURE_NONE);
    unsetenv("ERRBUS_DISCLOSURE");
}

/* ---- what programs of ours make errors of ---------------------------------------------------- */

static const char *const level_names[] = {
    [BUS_DISCLOSURE_FULL] = "full",
    [BUS_DISCLOSURE_MESSAGE] = "message",
    [BUS_DISCLOSURE_TYPE] = "type",
    [BUS_DISCLOSURE_NONE] = "none",
};

static const char *const never_told[] = {IN_ARGUMENT, IN_ENVIRONMENT, NULL};

static void expect_never_told(void)
{
    for (int i = 0; never_told[i] != NULL; i++) {
        expect_seen(never_told[i], false);
        expect_untold_by_tap(never_told[i]);
    }
    expect_unlogged(never_told);
}

/* A program says what failed in an error file. */
static const char with_file[] =
    "cat >\"$ERRBUS_ERROR_FILE\" <<END\n"
    "{\"type\": \"" IN_TYPE "\", \"message\": \"" IN_MESSAGE "\", \"code\": 28,\n"
    " \"stacktrace\": \"" IN_STACK "\", \"causes\": [{\"type\": \"" IN_TYPE "\",\n"
    " \"message\": \"" IN_CAUSE "\", \"stacktrace\": \"" IN_CAUSE_STACK "\"}]}\n"
    "END\n"
    "echo " IN_OUTPUT " >&2; exit 3";

/* A program says it as Python does. */
static const char with_traceback[] =
    "cat >&2 <<END\n" IN_OUTPUT "\n"
    "Traceback (most recent call last):\n  File \"" IN_PLACE "\", line 7, in <module>\n"
    "    " IN_SOURCE "()\nValueError: " IN_MESSAGE "\nEND\nexit 3";

static void run_at(int level, const char *script)
{
    static const char *const environment[] = {"SECRET=" IN_ENVIRONMENT, NULL};
    char logs[FOLDER_PATH_BYTES_MAX + 8];
    snprintf(logs, sizeof logs, "%s/logs", folder.path);
    const char *const argv[] = {"errbus",
                                "run",
                                "--server",
                                relay.control_endpoint,
                                "-p",
                                "alice",
                                "--plain",
                                "--stall",
                                "60",
                                "--disclosure",
                                level_names[level],
                                "--log-dir",
                                logs,
                                "--",
                                "sh",
                                "-c",
                                script,
                                "sh",
                                IN_ARGUMENT,
                                NULL};
    struct process run;
    cr_assert(process_start(&run, argv, environment));
    cr_expect_eq(process_wait(&run, SOON_MS), 3, "%s", process_complained(&run));
    cr_expect_not_null(strstr(process_complained(&run), IN_OUTPUT), "it is shown here");
    process_fini(&run);
    relay_fini(&relay);
}

/* A program that knows nothing of the bus: what it said last is in the message of its end. */
Test(disclosure, holds_for_errbus_run)
{
    static const char *const secrets[] = {IN_OUTPUT, NULL};
    run_at(BUS_DISCLOSURE_TYPE, "echo " IN_OUTPUT " >&2; exit 3");
    expect_seen("run.exit_status", true);
    expect_seen(IN_OUTPUT, false);
    expect_untold_by_tap(IN_OUTPUT);
    expect_unlogged(secrets);
}

Test(disclosure, holds_for_error_files)
{
    for (int level = BUS_DISCLOSURE_FULL; level <= BUS_DISCLOSURE_NONE; level++) {
        begin_level(level);
        run_at(level, with_file);
        expect_seen(IN_STACK, level < BUS_DISCLOSURE_MESSAGE);
        expect_seen(IN_CAUSE_STACK, level < BUS_DISCLOSURE_MESSAGE);
        expect_seen(IN_MESSAGE, level < BUS_DISCLOSURE_TYPE);
        expect_seen(IN_CAUSE, level < BUS_DISCLOSURE_TYPE);
        expect_seen(IN_TYPE, level < BUS_DISCLOSURE_NONE);
        cr_expect_eq(folder_holds(folder.path, IN_OUTPUT) > 0, level == BUS_DISCLOSURE_FULL);
        cr_expect_eq(folder_holds(journal, IN_OUTPUT) > 0, level == BUS_DISCLOSURE_FULL);
        expect_never_told();
    }
}

/* The trace is the stacktrace, and its last line the message. */
Test(disclosure, holds_for_traces)
{
    for (int level = BUS_DISCLOSURE_FULL; level <= BUS_DISCLOSURE_TYPE; level++) {
        begin_level(level);
        run_at(level, with_traceback);
        expect_seen(IN_SOURCE, level < BUS_DISCLOSURE_MESSAGE);
        expect_seen(IN_PLACE, level < BUS_DISCLOSURE_MESSAGE);
        expect_seen("sh exited with status 3: ValueError: " IN_MESSAGE,
                    level < BUS_DISCLOSURE_TYPE);
        expect_seen("run.exit_status", true);
    }
}

/* ---- workers, requests and dead letters ------------------------------------------------------ */

/* The program that does the tasks ends with the status that a task asks for. */
static void start_worker(struct process *worker, int level)
{
    char disclosure[40];
    snprintf(disclosure, sizeof disclosure, "ERRBUS_DISCLOSURE=%s", level_names[level]);
    const char *const environment[] = {disclosure, "SECRET=" IN_ENVIRONMENT, NULL};
    const char *const argv[] = {"errbus",
                                "worker",
                                "--server",
                                relay.control_endpoint,
                                "-p",
                                "worker",
                                "-C",
                                "2",
                                "--deliver",
                                "1",
                                "group",
                                "--",
                                "sh",
                                "-c",
                                "read status; echo " IN_OUTPUT " >&2; exit $status",
                                "sh",
                                IN_ARGUMENT,
                                NULL};
    cr_assert(process_start(worker, argv, environment));
}

/* One request that is failed, and one task that is rejected until it is dead. */
static void work_at(int level)
{
    struct process worker;
    struct bus_tap *tap = must_tap("default", BUS_TAP_NOW);
    struct bus *master = open_at("master", 0);
    start_worker(&worker, level);
    (void)expect_event(tap, "party.joined", "worker");
    uint64_t seq = 0;
    cr_assert_eq(bus_request(master, "group", "3\n", 2, BUS_FOREVER, &seq), BUS_OK);
    struct bus_error *failed = expect_await_failed(master, bus_replies(master), seq, "application");
    cr_expect_str_eq(bus_error_party(failed), "worker");
    cr_expect_eq(bus_error_code(failed), 3);
    bus_error_unref(&failed);
    must_publish(master, "group", "75\n");
    const struct bus_event *dead = expect_event(tap, "task.dead", "worker");
    cr_expect_not_null(bus_event_error(dead));
    cr_expect_eq(process_wait(&worker, SOON_MS), 0, "%s", process_complained(&worker));
    cr_expect_not_null(strstr(process_complained(&worker), IN_OUTPUT), "it is shown here");
    process_fini(&worker);
    bus_tap_close(&tap);
    must_close(&master);
    relay_fini(&relay);
}

static void expect_letter(const char *secret, bool is_seen)
{
    static const char *const list[] = {"dead", "list", "--json", "group", NULL};
    char number[24] = "0";
    struct process listed = ask(list);
    const char *at = strstr(process_said(&listed), "\"number\":");
    cr_assert_not_null(at, "%s", process_said(&listed));
    cr_expect_eq(strstr(process_said(&listed), secret) != NULL, is_seen, "list: %s", secret);
    snprintf(number, sizeof number, "%lld", strtoll(at + strlen("\"number\":"), NULL, 10));
    process_fini(&listed);
    const char *const show[] = {"dead", "show", "group", number, NULL};
    const char *const json[] = {"dead", "show", "--json", "group", number, NULL};
    cr_expect_eq(is_told(show, secret), is_seen, "show: %s", secret);
    cr_expect_eq(is_told(json, secret), is_seen, "show --json: %s", secret);
}

Test(disclosure, holds_for_workers_and_dead_letters)
{
    for (int level = BUS_DISCLOSURE_FULL; level <= BUS_DISCLOSURE_NONE; level++) {
        begin_level(level);
        work_at(level);
        expect_seen(IN_OUTPUT, level < BUS_DISCLOSURE_TYPE);
        expect_letter(IN_OUTPUT, level < BUS_DISCLOSURE_TYPE);
        expect_seen("run.exit_status", level < BUS_DISCLOSURE_NONE);
        expect_letter("run.exit_status", level < BUS_DISCLOSURE_NONE);
        expect_never_told();
    }
}
