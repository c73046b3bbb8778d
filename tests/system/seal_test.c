/* SPDX-License-Identifier: MPL-2.0 */
/* seal_test.c -- traces that are sealed to an auditor: the plain text is on no wire, in no journal,
 * log, tap, status, memory of the broker or error of another party; and the auditor reads all. */
#include "tests/lib/expect.h"
#include "tests/lib/process.h"
#include "tests/lib/relay.h"
#include "tests/lib/search.h"

#include <bus/access.h>
#include <bus/seal.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IN_STACK "c0nfidential_frame at c0nfidential.c:7"
#define IN_CAUSE_STACK "c0nfidential_cause_frame"
#define IN_FILE "c0nfidential_attachment"
#define IN_FILE_NAME "c0nfidential_name"
#define IN_MESSAGE "c0nfidential_message"
#define IN_TYPE "app.c0nfidential_type"
#define IN_SOURCE "c0nfidential_source"

enum { KEY_PATH_BYTES = FOLDER_PATH_BYTES_MAX + 16, PIECE_BYTES = 65536 - 48 - 32 };

static struct relay relay;
static struct folder folder;
static char wire[FOLDER_PATH_BYTES_MAX + 8];
static char journal[FOLDER_PATH_BYTES_MAX + 8];
static char auditor_path[KEY_PATH_BYTES];
static char stranger_path[KEY_PATH_BYTES];
static char auditor[BUS_KEY_TEXT_BYTES];
static char stranger[BUS_KEY_TEXT_BYTES];

static void open_broker(void)
{
    const char *const more[] = {"--advertise", relay.data_endpoint, "--journal",
                                journal,       "--verbose",         NULL};
    stage_open_with(more);
}

static void open_stage(void)
{
    if (!bus_can_seal())
        cr_skip("this build cannot seal: libsodium was missing");
    cr_assert(folder_make(&folder));
    snprintf(wire, sizeof wire, "%s/wire", folder.path);
    snprintf(journal, sizeof journal, "%s/journal", folder.path);
    snprintf(auditor_path, sizeof auditor_path, "%s/keys/auditor", folder.path);
    snprintf(stranger_path, sizeof stranger_path, "%s/keys/stranger", folder.path);
    expect_code(bus_key_new(auditor_path, auditor, NULL), BUS_OK);
    expect_code(bus_key_new(stranger_path, stranger, NULL), BUS_OK);
    cr_assert(relay_open(&relay));
    relay.record_folder = folder.path;
    open_broker();
    cr_assert(relay_start(&relay, stage.control, stage.data));
}

static void close_stage(void)
{
    if (folder.path[0] == '\0')
        return;
    relay_fini(&relay);
    stage_close();
    folder_fini(&folder);
}

TestSuite(seal, .init = open_stage, .fini = close_stage, .timeout = 120);

/* ---- looking everywhere ---------------------------------------------------------------------- */

enum { ANY_STATUS = -1 }; /* as of a verdict, which is not about our question */

/* What a program of ours says; it has to be freed. */
static struct process ask(const char *const *words, int expected)
{
    const char *argv[16] = {"errbus"};
    struct process process;
    size_t count = 1;
    for (; words[count - 1] != NULL; count++)
        argv[count] = words[count - 1];
    argv[count++] = "--server";
    argv[count++] = stage.control;
    argv[count] = NULL;
    cr_assert(process_start(&process, argv, NULL));
    int status = process_wait(&process, SOON_MS);
    cr_expect(status >= 0 && (expected == ANY_STATUS || status == expected), "%s: %d, %s", words[0],
              status, process_complained(&process));
    return process;
}

static void expect_none_in(const char *text, const char *where, const char *const *secrets)
{
    for (; *secrets != NULL; secrets++)
        cr_expect_null(strstr(text, *secrets), "%s: %s", where, *secrets);
}

static void expect_untold(const char *const *secrets)
{
    static const char *const asked[][3] = {{"errors", "--json", NULL},
                                           {"errors", NULL},
                                           {"status", "--json", NULL},
                                           {"verdict", "--json", NULL}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        struct process process = ask(asked[i], ANY_STATUS);
        cr_expect_gt(strlen(process_said(&process)), 0, "%s told nothing", asked[i][0]);
        expect_none_in(process_said(&process), asked[i][0], secrets);
        process_fini(&process);
    }
}

static void expect_untold_by_tap(const char *const *secrets)
{
    struct bus_tap *tap = must_tap("default", 1);
    uint64_t next_id = bus_tap_next_id(tap);
    cr_expect_gt(next_id, 1, "nothing was told");
    for (uint64_t id = 0; id + 1 < next_id;) {
        const struct bus_event *event = NULL;
        struct bus_error *error = NULL;
        expect_code_of(bus_tap_next(tap, SOON_MS, &event, &error), BUS_OK, &error);
        id = bus_event_id(event);
        const struct bus_error *told = bus_event_error(event);
        for (; told != NULL; told = bus_error_cause(told)) {
            expect_none_in(bus_error_stacktrace(told), "stacktrace", secrets);
            expect_none_in(bus_error_message(told), "message", secrets);
        }
        expect_none_in(bus_event_text(event), "text", secrets);
    }
    bus_tap_close(&tap);
}

/* Nobody has it but who made it.  The broker ends here. */
static void expect_nowhere(const char *const *secrets)
{
    relay_fini(&relay); /* all that it recorded is in its files */
    expect_untold(secrets);
    expect_untold_by_tap(secrets);
    cr_expect_gt(folder_holds(folder.path, "alice"), 0, "nothing was recorded");
    cr_expect_neq(memory_holds(stage.process.pid, journal), 0, "the memory was not looked through");
    for (const char *const *secret = secrets; *secret != NULL; secret++) {
        cr_expect_eq(folder_holds(folder.path, *secret), 0, "wire: %s", *secret);
        cr_expect_eq(folder_holds(journal, *secret), 0, "journal: %s", *secret);
        cr_expect_leq(memory_holds(stage.process.pid, *secret), 0, "memory: %s", *secret);
    }
    process_signal(&stage.process, SIGTERM);
    cr_assert_eq(process_wait(&stage.process, SOON_MS), 0);
    cr_expect_gt(folder_holds(journal, "default"), 0, "there is no journal");
    expect_none_in(process_complained(&stage.process), "log", secrets);
    for (const char *const *secret = secrets; *secret != NULL; secret++)
        cr_expect_eq(folder_holds(journal, *secret), 0, "journal at the end: %s", *secret);
}

/* ---- parties --------------------------------------------------------------------------------- */

static struct bus *open_sealing(const char *party, int disclosure, const char *key)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.disclosure = disclosure;
    options.auditor = key;
    return must_open_at(relay.control_endpoint, &options);
}

static void create_job(const char *key)
{
    struct bus_job_options options;
    struct bus_error *error = NULL;
    struct bus_job *job = NULL;
    bus_job_options_init(&options);
    options.auditor = key;
    options.join_window_ms = 0;
    expect_code_of(bus_admin_job_create(stage_admin(), "default", &options, SOON_MS, &error),
                   BUS_OK, &error);
    expect_code_of(bus_admin_job_get(stage_admin(), "default", SOON_MS, &job, &error), BUS_OK,
                   &error);
    cr_expect_str_eq(bus_job_info(job)->auditor, key);
    bus_job_free(&job);
}

static struct bus_error *secret_error(void)
{
    struct bus_error *cause = bus_error_new("app.cause", NULL, "the disk is full");
    expect_code(bus_error_set_stacktrace(cause, IN_CAUSE_STACK), BUS_OK);
    struct bus_error *error = bus_error_new(IN_TYPE, cause, "%s", IN_MESSAGE);
    expect_code(bus_error_set_stacktrace(error, IN_STACK), BUS_OK);
    expect_code(bus_error_add_data(error, IN_FILE_NAME, IN_FILE, strlen(IN_FILE)), BUS_OK);
    bus_error_unref(&cause);
    return error;
}

/* alice fails a slot, bob passes that on, and carol has it from him: she gets it. */
static struct bus_error *fail_over_a_chain(int disclosure, const char *key)
{
    struct bus *alice = open_sealing("alice", disclosure, key);
    struct bus *bob = must_open_over(&relay, "bob", 0);
    struct bus *carol = must_open_over(&relay, "carol", 0);
    struct bus_sub *bobs = must_subscribe(bob, "alice/w");
    struct bus_sub *carols = must_subscribe(carol, "bob/w");
    struct bus_slot *slot = must_reserve(alice, "w");
    struct bus_slot *next = must_reserve(bob, "w");
    struct bus_error *error = secret_error();
    bus_slot_fail(&slot, error);
    struct bus_error *raised = expect_error(bobs, "alice/w", 0, "application");
    struct bus_error *own = bus_error_new("app.no_input", raised, "nothing to work on");
    bus_slot_fail(&next, own);
    struct bus_error *last = expect_error(carols, "bob/w", 0, "application");
    expect_code(bus_flush(alice, SOON_MS), BUS_OK);
    bus_error_unref(&own);
    bus_error_unref(&raised);
    bus_error_unref(&error);
    bus_sub_close(&bobs);
    bus_sub_close(&carols);
    must_close(&alice);
    must_close(&bob);
    must_close(&carol);
    return last;
}

/* ---- what is opened -------------------------------------------------------------------------- */

struct opened {
    char *bytes;
    size_t count;
};

static int append(const void *bytes, size_t count, void *arg)
{
    struct opened *opened = arg;
    opened->bytes = realloc(opened->bytes, opened->count + count);
    cr_assert_not_null(opened->bytes);
    memcpy(opened->bytes + opened->count, bytes, count);
    opened->count += count;
    return 0;
}

static void expect_attachment(const struct bus_error *error, const char *name, const char *bytes,
                              size_t count)
{
    struct opened opened = {NULL, 0};
    struct bus_error *why = NULL;
    expect_code_of(bus_admin_attachment_open(stage_admin(), NULL, error, name, auditor_path,
                                             SOON_MS, append, &opened, &why),
                   BUS_OK, &why);
    cr_assert_eq(opened.count, count, "%s: %zu bytes", name, opened.count);
    cr_expect(count == 0 || memcmp(opened.bytes, bytes, count) == 0, "%s", name);
    free(opened.bytes);
}

/* carol's error has alice's as its cause, sealed. */
static void expect_opened(const struct bus_error *last, int disclosure)
{
    const struct bus_error *sealed = bus_error_cause(last);
    struct bus_error *opened = NULL;
    struct bus_error *why = NULL;
    cr_assert_not_null(sealed);
    cr_expect_gt(bus_error_sealed_bytes(sealed), 0);
    cr_expect_str_eq(bus_error_auditor(sealed), auditor);
    cr_expect_str_empty(bus_error_stacktrace(sealed));
    cr_expect_str_eq(bus_error_attachment_at(sealed, 0, NULL), "sealed.1");
    cr_expect_str_eq(bus_error_kind(sealed), "application");
    cr_expect_eq(strcmp(bus_error_type(sealed), IN_TYPE) == 0, disclosure < BUS_DISCLOSURE_NONE);
    expect_code_of(bus_error_open(sealed, auditor_path, &opened, &why), BUS_OK, &why);
    cr_assert_not_null(opened);
    cr_expect_str_eq(bus_error_id(opened), bus_error_id(sealed));
    cr_expect_str_eq(bus_error_stacktrace(opened), IN_STACK);
    cr_expect_str_eq(bus_error_message(opened), IN_MESSAGE);
    cr_expect_str_eq(bus_error_type(opened), IN_TYPE);
    cr_expect_str_eq(bus_error_attachment_at(opened, 0, NULL), IN_FILE_NAME);
    cr_expect_str_eq(bus_error_stacktrace(bus_error_cause(opened)), IN_CAUSE_STACK);
    cr_expect_str_eq(bus_error_id(bus_error_root(opened)), bus_error_id(bus_error_root(sealed)));
    cr_expect_str_empty(bus_error_stacktrace(sealed), "the other one stays sealed");
    expect_attachment(sealed, IN_FILE_NAME, IN_FILE, strlen(IN_FILE));
    expect_attachment(opened, IN_FILE_NAME, IN_FILE, strlen(IN_FILE));
    bus_error_unref(&opened);
}

static const char *const secrets[] = {IN_STACK,   IN_CAUSE_STACK, IN_FILE, IN_FILE_NAME,
                                      IN_MESSAGE, IN_TYPE,        NULL};

static const char *const traces[] = {IN_STACK, IN_CAUSE_STACK, IN_FILE, IN_FILE_NAME, NULL};

/* At each level, what it hides is in the seal. */
static void expect_sealed_at(int disclosure)
{
    struct bus_error *last = fail_over_a_chain(disclosure, auditor);
    expect_opened(last, disclosure);
    bus_error_unref(&last);
    expect_nowhere(disclosure == BUS_DISCLOSURE_NONE ? secrets : traces);
}

Test(seal, hides_traces_of_those_who_show_all)
{
    expect_sealed_at(BUS_DISCLOSURE_FULL);
}

Test(seal, lets_out_traces_of_those_who_show_messages)
{
    expect_sealed_at(BUS_DISCLOSURE_MESSAGE);
}

Test(seal, lets_out_what_those_who_show_nothing_hide)
{
    create_job(auditor);
    expect_sealed_at(BUS_DISCLOSURE_NONE);
}

Test(seal, is_of_the_job_for_those_who_show_all)
{
    create_job(auditor);
    struct bus_error *last = fail_over_a_chain(BUS_DISCLOSURE_FULL, NULL);
    expect_opened(last, BUS_DISCLOSURE_FULL);
    bus_error_unref(&last);
    expect_nowhere(traces);
}

/* The broker alone vouches for the auditor of the job: a party that shows traces to nobody does not
 * show them to whom the broker names. */
Test(seal, is_not_made_for_whoever_the_broker_names)
{
    create_job(auditor);
    struct bus_error *last = fail_over_a_chain(BUS_DISCLOSURE_MESSAGE, NULL);
    cr_expect_eq(bus_error_sealed_bytes(bus_error_cause(last)), 0);
    cr_expect_null(bus_error_attachment_at(bus_error_cause(last), 0, NULL));
    bus_error_unref(&last);
    expect_nowhere(traces);
}

/* An auditor that takes part, and fails of what it read. */
Test(seal, stays_when_an_opened_error_is_told_again)
{
    struct bus_error *last = fail_over_a_chain(BUS_DISCLOSURE_NONE, auditor);
    struct bus_error *opened = NULL;
    struct bus *dora = must_open_over(&relay, "dora", BUS_DISCLOSURE_FULL);
    struct bus *erin = must_open_over(&relay, "erin", BUS_DISCLOSURE_FULL);
    struct bus_sub *sub = must_subscribe(erin, "dora/+");
    expect_code(bus_error_open(bus_error_cause(last), auditor_path, &opened, NULL), BUS_OK);
    struct bus_slot *again = must_reserve(dora, "again");
    struct bus_slot *cause = must_reserve(dora, "cause");
    bus_slot_fail(&again, opened);
    struct bus_error *got = expect_error(sub, "dora/again", 0, "application");
    cr_expect_str_eq(bus_error_auditor(bus_error_cause(got)), auditor);
    bus_error_unref(&got);
    struct bus_error *own = bus_error_new("app.y", opened, "it failed of that");
    bus_slot_fail(&cause, own);
    got = expect_error(sub, "dora/cause", 0, "application");
    expect_opened(got, BUS_DISCLOSURE_NONE);
    bus_error_unref(&got);
    bus_error_unref(&own);
    bus_error_unref(&opened);
    bus_error_unref(&last);
    bus_sub_close(&sub);
    must_close(&dora);
    must_close(&erin);
    expect_nowhere(secrets);
}

/* ---- who may join ---------------------------------------------------------------------------- */

static void expect_refused(const char *key, enum bus_err code, const char *type, const char *words)
{
    struct bus_options options;
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    bus_options_init(&options);
    options.party = "alice";
    options.auditor = key;
    expect_code(bus_open(stage.control, &options, SOON_MS, &bus, &error), code);
    cr_expect_str_eq(bus_error_type(error), type);
    cr_expect_not_null(strstr(bus_error_message(error), words), "%s", bus_error_message(error));
    cr_expect_null(strstr(bus_error_message(error), "ebs_"), "%s", bus_error_message(error));
    bus_error_unref(&error);
}

Test(seal, to_another_auditor_is_refused)
{
    create_job(auditor);
    expect_refused(stranger, BUS_EDENIED, "errbus.other_auditor", auditor);
    setenv("ERRBUS_AUDITOR", stranger, 1);
    expect_refused(NULL, BUS_EDENIED, "errbus.other_auditor", stranger);
    expect_refused(auditor, BUS_EINVAL, "errbus.argument", "ERRBUS_AUDITOR names");
    setenv("ERRBUS_AUDITOR", auditor, 1);
    struct bus *alice = open_sealing("alice", 0, NULL);
    must_close(&alice);
    unsetenv("ERRBUS_AUDITOR");
}

Test(seal, needs_a_public_key)
{
    char mistyped[BUS_KEY_TEXT_BYTES];
    char secret[BUS_KEY_TEXT_BYTES];
    struct bus_job_options options;
    struct bus_error *error = NULL;
    snprintf(mistyped, sizeof mistyped, "%s", auditor);
    mistyped[20] = mistyped[20] == 'a' ? 'b' : 'a';
    snprintf(secret, sizeof secret, "ebs_%s", auditor + 4);
    expect_refused(mistyped, BUS_EINVAL, "errbus.argument", "has a wrong character");
    expect_refused(secret, BUS_EINVAL, "errbus.argument", "a secret key");
    expect_refused("carol", BUS_EINVAL, "errbus.argument", "'carol' is not the key of an auditor");
    bus_job_options_init(&options);
    options.auditor = mistyped;
    expect_code(bus_admin_job_create(stage_admin(), "default", &options, SOON_MS, &error),
                BUS_EINVAL);
    bus_error_unref(&error);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Around the bytes of one piece and of two, and without any. */
Test(seal, opens_attachments_of_any_size)
{
    static const size_t sizes[] = {0,
                                   1,
                                   PIECE_BYTES - 1,
                                   PIECE_BYTES,
                                   PIECE_BYTES + 1,
                                   2 * PIECE_BYTES,
                                   2 * PIECE_BYTES + 1,
                                   20 * PIECE_BYTES + 7};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    char *bytes = malloc(sizes[SIZES - 1]);
    char name[32];
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < sizes[SIZES - 1]; i++)
        bytes[i] = (char)(i * 31 + i / 65536);
    struct bus *alice = open_sealing("alice", BUS_DISCLOSURE_FULL, auditor);
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_slot *slot = must_reserve(alice, "w");
    struct bus_error *error = bus_error_new("app.x", NULL, "m");
    char path[FOLDER_PATH_BYTES_MAX];
    cr_assert(folder_write(&folder, "file", "from a file", path));
    for (size_t i = 0; i < SIZES; i++) {
        snprintf(name, sizeof name, "of %zu", sizes[i]);
        expect_code(bus_error_add_data(error, name, bytes, sizes[i]), BUS_OK);
    }
    expect_code(bus_error_add_file(error, "file", path), BUS_OK);
    bus_slot_fail(&slot, error);
    struct bus_error *raised = expect_error(sub, "alice/w", 0, "application");
    expect_code(bus_flush(alice, SOON_MS), BUS_OK);
    for (size_t i = 0; i < SIZES; i++) {
        snprintf(name, sizeof name, "of %zu", sizes[i]);
        expect_attachment(raised, name, bytes, sizes[i]);
    }
    expect_attachment(raised, "file", "from a file", strlen("from a file"));
    int64_t sealed = 0;
    (void)bus_error_attachment_at(raised, 3, &sealed);
    cr_expect_eq(sealed, 65536);
    bus_error_unref(&raised);
    bus_error_unref(&error);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
    free(bytes);
}

/* The longest stacktrace is whole; one byte more, and its middle is cut, as without a seal. */
Test(seal, keeps_the_longest_trace_whole)
{
    enum { MOST = 16384 };
    static char stack[MOST + 2];
    struct bus *alice = open_sealing("alice", 0, auditor);
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    for (int over = -1; over <= 1; over++) {
        struct bus_slot *slot = must_reserve(alice, "w");
        struct bus_error *error = bus_error_new("app.x", NULL, "m");
        struct bus_error *opened = NULL;
        memset(stack, 'x', MOST + 1);
        stack[MOST + over] = '\0';
        expect_code(bus_error_set_stacktrace(error, stack), BUS_OK);
        bus_slot_fail(&slot, error);
        struct bus_error *raised =
            expect_error(sub, "alice/w", (uint64_t)(over + 1), "application");
        expect_code(bus_error_open(raised, auditor_path, &opened, NULL), BUS_OK);
        cr_expect_eq(bus_error_is_cut(opened), over > 0);
        cr_expect_eq(strcmp(bus_error_stacktrace(opened), stack) == 0, over <= 0);
        bus_error_unref(&opened);
        bus_error_unref(&raised);
        bus_error_unref(&error);
    }
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* ---- who cannot open ------------------------------------------------------------------------- */

static void expect_not_opened(const struct bus_error *error, const char *path, enum bus_err code,
                              const char *words)
{
    struct bus_error *opened = NULL;
    struct bus_error *why = NULL;
    expect_code(bus_error_open(error, path, &opened, &why), code);
    cr_expect_null(opened);
    cr_expect_not_null(strstr(bus_error_message(why), words), "%s", bus_error_message(why));
    bus_error_unref(&why);
    expect_code(bus_admin_attachment_open(stage_admin(), NULL, error, IN_FILE_NAME, path, SOON_MS,
                                          append, NULL, &why),
                code);
    cr_expect_not_null(strstr(bus_error_message(why), words), "%s", bus_error_message(why));
    bus_error_unref(&why);
}

Test(seal, opens_with_the_right_key_alone)
{
    char nowhere[KEY_PATH_BYTES];
    char words[BUS_KEY_TEXT_BYTES + 40];
    struct bus_error *last = fail_over_a_chain(BUS_DISCLOSURE_FULL, auditor);
    struct bus_error *why = NULL;
    snprintf(nowhere, sizeof nowhere, "%s/nowhere", folder.path);
    snprintf(words, sizeof words, "is sealed to %s", auditor);
    expect_not_opened(bus_error_cause(last), stranger_path, BUS_EDENIED, words);
    expect_not_opened(bus_error_cause(last), nowhere, BUS_EDENIED, "cannot read the key");
    expect_not_opened(last, auditor_path, BUS_EINVAL, "has nothing sealed");
    expect_code(bus_admin_attachment_open(stage_admin(), NULL, bus_error_cause(last), "other",
                                          auditor_path, SOON_MS, append, NULL, &why),
                BUS_EINVAL);
    cr_expect_not_null(strstr(bus_error_message(why), "has no sealed attachment 'other'"));
    bus_error_unref(&why);
    bus_error_unref(&last);
}

/* ---- programs -------------------------------------------------------------------------------- */

static const char with_traceback[] =
    "cat >&2 <<END\n"
    "Traceback (most recent call last):\n  File \"/c0nfidential_frame/train.py\", line 7, in f\n"
    "    " IN_SOURCE "()\nValueError: no such row\nEND\nexit 3";

static void run_program(void)
{
    const char *const argv[] = {"errbus", "run",       "--server",     relay.control_endpoint,
                                "-p",     "alice",     "--plain",      "--auditor",
                                auditor,  "--log-dir", folder.path,    "--",
                                "sh",     "-c",        with_traceback, NULL};
    struct process run;
    cr_assert(process_start(&run, argv, NULL));
    cr_expect_eq(process_wait(&run, SOON_MS), 3, "%s", process_complained(&run));
    cr_expect_not_null(strstr(process_complained(&run), IN_SOURCE), "it is shown here");
    process_fini(&run);
}

static void expect_shown(const char *const *words, const char *text, bool is_shown)
{
    struct process process = ask(words, 0);
    cr_expect_eq(strstr(process_said(&process), text) != NULL, is_shown, "%s: %s", text,
                 process_said(&process));
    process_fini(&process);
}

static void expect_complaint(const char *const *words, int status, const char *text)
{
    struct process process = ask(words, status);
    cr_expect_not_null(strstr(process_complained(&process), text), "%s",
                       process_complained(&process));
    cr_expect_null(strstr(process_said(&process), IN_SOURCE));
    process_fini(&process);
}

/* A program that knows nothing of the bus: its traceback, and all that it said. */
Test(seal, holds_for_programs)
{
    static const char id[] = "default/alice/1/1";
    static const char *const programs_secrets[] = {IN_SOURCE, "c0nfidential_frame", NULL};
    const char *const show[] = {"errors", "show", id, NULL};
    const char *const open[] = {"errors", "--open", auditor_path, id, NULL};
    const char *const open_json[] = {"errors", "--json", "--open", auditor_path, "show", id, NULL};
    const char *const stderr_open[] = {"errors", "--open", auditor_path, "--attachment",
                                       "stderr", "show",   id,           NULL};
    const char *const stderr_sealed[] = {"errors", "--attachment", "sealed.1", "show", id, NULL};
    const char *const wrong[] = {"errors", "--open", stranger_path, id, NULL};
    const char *const no_id[] = {"errors", "--open", auditor_path, NULL};
    run_program();
    expect_shown(show, "stacktrace", false);
    expect_shown(show, "ValueError: no such row", true);
    expect_shown(show, auditor, true);
    expect_shown(open, IN_SOURCE, true);
    expect_shown(open, "stderr", true);
    expect_shown(open_json, IN_SOURCE, true);
    expect_shown(stderr_open, IN_SOURCE, true);
    expect_shown(stderr_sealed, IN_SOURCE, false);
    expect_complaint(wrong, 6, "is sealed to");
    expect_complaint(no_id, 2, "--open needs the id of an error");
    expect_nowhere(programs_secrets);
    stage_close(); /* the journal alone has it now */
    stage_open_with((const char *const[]){"--journal", journal, NULL});
    expect_shown(open, IN_SOURCE, true);
    expect_shown(stderr_open, IN_SOURCE, true);
}
