/* SPDX-License-Identifier: MPL-2.0 */
/* who_test.c -- operators ask a broker who is connected, and have it read its access file again;
 * each command takes a key. */
#include "tests/lib/expect.h"
#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <bus/access.h>

#define PATH_BYTES 192
#define TEXT_BYTES 4096
#define WORDS_MAX 12

enum { ALICE, BOB, OPS, EVE, PEOPLE };
static const char *const names[PEOPLE] = {"alice", "bob", "ops", "eve"};

static struct folder folder;
static char key_paths[PEOPLE][PATH_BYTES];
static char keys[PEOPLE][BUS_KEY_TEXT_BYTES];
static char access_path[FOLDER_PATH_BYTES_MAX];
static char broker_key[PATH_BYTES];

/* The day so many days from now, in UTC. */
static void write_day(int days, char day[16])
{
    time_t at = time(NULL) + (time_t)days * 86400;
    struct tm parts;
    cr_assert_not_null(gmtime_r(&at, &parts));
    strftime(day, 16, "%Y-%m-%d", &parts);
}

/* more: behind the lines of alice, whose key ends in three days, and of ops. */
static void write_access(const char *more)
{
    char text[TEXT_BYTES];
    char day[16];
    write_day(3, day);
    snprintf(text, sizeof text,
             "key alice %s until %s\nkey ops %s\nallow alice party in default\nallow ops admin\n%s",
             keys[ALICE], day, keys[OPS], more);
    cr_assert(folder_write(&folder, "access", text, access_path));
}

static void open_all(void)
{
    unsetenv("ERRBUS_KEY");
    cr_assert(folder_make(&folder));
    for (int i = 0; i < PEOPLE; i++) {
        snprintf(key_paths[i], sizeof key_paths[i], "%s/%s.key", folder.path, names[i]);
        expect_code(bus_key_new(key_paths[i], keys[i], NULL), BUS_OK);
    }
    snprintf(broker_key, sizeof broker_key, "%s/broker.key", folder.path);
    write_access("");
    stage_open_with((const char *const[]){"--access", access_path, "--key", broker_key, NULL});
}

static void close_all(void)
{
    stage_close();
    folder_fini(&folder);
}

TestSuite(who, .init = open_all, .fini = close_all, .timeout = 120);

static struct bus *must_open_as(int who)
{
    struct bus_options options;
    struct bus *bus = NULL;
    bus_options_init(&options);
    options.party = names[who];
    options.key = key_paths[who];
    expect_code(bus_open(stage.control, &options, SOON_MS, &bus, NULL), BUS_OK);
    return bus;
}

static struct bus_admin *must_administer_as(int who)
{
    struct bus_admin_options options;
    struct bus_admin *admin = NULL;
    bus_admin_options_init(&options);
    options.key = key_paths[who];
    expect_code(bus_admin_open(stage.control, &options, SOON_MS, &admin, NULL), BUS_OK);
    return admin;
}

/* Runs `errbus access WORD` with this key.  Returns the exit status. */
static int run_access(struct process *process, int who, const char *word, const char *flag)
{
    const char *const argv[] = {"errbus", "access",       word, "-s", stage.control,
                                "-k",     key_paths[who], flag, NULL};
    cr_assert(process_start(process, argv, NULL));
    return process_wait(process, 3 * SOON_MS);
}

static void expect_words(const char *text, const char *words)
{
    cr_expect(strstr(text, words) != NULL, "'%s' is not in: %s", words, text);
}

/* ---- who ------------------------------------------------------------------------------------- */

Test(who, lists_who_is_connected_with_keys_and_days)
{
    struct process process;
    char day[16], shown[TEXT_BYTES];
    struct bus *alice = must_open_as(ALICE);
    cr_assert_eq(run_access(&process, OPS, "who", NULL), 0, "%s", process_complained(&process));
    write_day(3, day);
    expect_words(process_said(&process), "alice/1");
    expect_words(process_said(&process), "127.0.0.1");
    expect_words(process_said(&process), day);
    snprintf(shown, sizeof shown, "%.12s...", keys[ALICE]);
    expect_words(process_said(&process), shown);
    expect_words(process_said(&process), "observer");
    process_fini(&process);
    cr_assert_eq(run_access(&process, OPS, "who", "--json"), 0);
    snprintf(shown, sizeof shown, "\"identity\":\"%s\"", keys[ALICE]);
    expect_words(process_said(&process), shown);
    expect_words(process_said(&process), "\"role\":\"party\"");
    process_fini(&process);
    must_close(&alice);
}

Test(who, is_not_told_to_who_is_no_administrator)
{
    struct process process;
    cr_expect_eq(run_access(&process, ALICE, "who", NULL), 6);
    expect_words(process_complained(&process), "this key may not do that here");
    cr_expect_str_empty(process_said(&process));
    process_fini(&process);
    cr_expect_eq(run_access(&process, ALICE, "reload", NULL), 6);
    expect_words(process_complained(&process), "this key may not do that here");
    process_fini(&process);
}

/* ---- another file ---------------------------------------------------------------------------- */

Test(who, says_what_came_of_another_file)
{
    struct process process;
    char fault[TEXT_BYTES];
    cr_expect_eq(run_access(&process, OPS, "reload", NULL), 0, "%s", process_complained(&process));
    cr_expect_str_eq(process_said(&process),
                     "the access file is in force; parties that lost their access: 0\n");
    process_fini(&process);
    write_access("allow ops everything\n");
    cr_expect_eq(run_access(&process, OPS, "reload", NULL), 1);
    snprintf(fault, sizeof fault, "%s:5: 'everything' is no right", access_path);
    expect_words(process_complained(&process), fault);
    process_fini(&process);
    write_access("uid carol ebs_whatever\n"); /* a secret in the wrong place is not repeated */
    cr_expect_eq(run_access(&process, OPS, "reload", NULL), 1);
    expect_words(process_complained(&process), "'ebs_...' is not a user id");
    process_fini(&process);
}

Test(who, answers_an_administrator_who_removes_himself)
{
    char text[TEXT_BYTES];
    uint32_t revoked = 7;
    struct bus *alice = must_open_as(ALICE);
    struct bus_admin *admin = must_administer_as(OPS);
    struct bus_error *error = NULL;
    snprintf(text, sizeof text, "key bob %s\nallow bob party in default\n", keys[BOB]);
    cr_assert(folder_write(&folder, "access", text, access_path));
    expect_code_of(bus_access_reload(admin, SOON_MS, &revoked, &error), BUS_OK, &error);
    cr_expect_eq(revoked, 1);
    expect_code_of(bus_access_reload(admin, SOON_MS, NULL, &error), BUS_EDENIED, &error);
    bus_admin_close(&admin);
    (void)bus_close(&alice, BUS_POLL); /* it was revoked */
}

Test(who, says_that_a_broker_has_no_access_file)
{
    struct bus_admin *admin = NULL;
    struct bus_error *error = NULL;
    stage_close();
    stage_open();
    expect_code(bus_admin_open(stage.control, NULL, SOON_MS, &admin, NULL), BUS_OK);
    expect_code_of(bus_access_reload(admin, SOON_MS, NULL, &error), BUS_EINVAL, &error);
    struct bus_who *who = NULL;
    expect_code(bus_who_get(admin, SOON_MS, &who, NULL), BUS_OK);
    cr_expect_eq(bus_who_count(who), 1);
    cr_expect_str_eq(bus_who_at(who, 0)->address, "127.0.0.1");
    cr_expect_str_empty(bus_who_at(who, 0)->name);
    bus_who_free(&who);
    bus_admin_close(&admin);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void expect_told(struct bus_tap *tap, const char *name, const char *words)
{
    const struct bus_event *event = expect_event(tap, name, "");
    expect_words(bus_event_text(event), words);
}

/* The key of alice is near its end from the start on, that of bob from the second file on.  Each is
 * told once, however often the file is read. */
Test(who, is_told_once_of_each_change_and_of_each_key_that_ends_soon)
{
    char more[TEXT_BYTES], day[16], words[TEXT_BYTES];
    const char *line = NULL;
    struct bus_tap_options options;
    struct bus_tap *tap = NULL;
    snprintf(words, sizeof words, "the key %s of alice ends with the day", keys[ALICE]);
    do
        cr_assert(process_complaint(&stage.process, SOON_MS, &line));
    while (strstr(line, words) == NULL);
    struct bus *alice = must_open_as(ALICE);
    struct bus_admin *admin = must_administer_as(OPS);
    bus_tap_options_init(&options);
    options.key = key_paths[OPS];
    expect_code(bus_tap_open(stage.control, &options, SOON_MS, &tap, NULL), BUS_OK);
    write_day(6, day);
    snprintf(more, sizeof more, "key bob %s until %s\nallow bob party in default\n", keys[BOB],
             day);
    write_access(more);
    expect_code(bus_access_reload(admin, SOON_MS, NULL, NULL), BUS_OK);
    expect_told(tap, "access.reloaded", "names 3, before 2; keys 3, before 2; rules 3, before 2");
    snprintf(words, sizeof words, "the key %s of bob ends with the day %s", keys[BOB], day);
    expect_told(tap, "access.expiring", words);
    expect_code(bus_access_reload(admin, SOON_MS, NULL, NULL), BUS_OK);
    expect_told(tap, "access.reloaded", "as many names");
    write_access("nothing\n");
    expect_code(bus_access_reload(admin, SOON_MS, NULL, NULL), BUS_EPROTO);
    expect_told(tap, "access.refused", ":5: 'nothing' begins no line"); /* nothing came between */
    bus_tap_close(&tap);
    bus_admin_close(&admin);
    must_close(&alice);
}

/* ---- each command takes a key ---------------------------------------------------------------- */

/* Words behind the name of a command, with which it speaks with a broker.  NULL: it speaks with
 * none. */
static const struct {
    const char *name;
    const char *words[WORDS_MAX];
} commands[] = {
    {"pub", {"w", "value"}},
    {"sub", {"alice/w"}},
    {"tap", {NULL}},
    {"errors", {NULL}},
    {"verdict", {NULL}},
    {"why", {NULL}},
    {"job", {"show", "default"}},
    {"request", {"tasks", "value"}},
    {"dead", {"list", "group"}},
    {"status", {NULL}},
    {"top", {"--once"}},
    {"ping", {NULL}},
    {"run", {"-p", "eve", "--", "true"}},
    {"worker", {"group", "--topic", "alice/tasks", "--", "true"}},
    {"key", {"show"}},
    {"access", {"who"}},
};

static const char *const *words_of(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].words;
    return NULL;
}

static void expect_key_used(const char *name)
{
    struct process process;
    const char *argv[WORDS_MAX + 6] = {"errbus",      name,    "-s",
                                       stage.control, "--key", key_paths[EVE]};
    const char *const *words = words_of(name);
    if (strcmp(name, "web") == 0)
        return; /* it serves on, and tells its readers: web_test.c */
    if (strcmp(name, "completion") == 0)
        return; /* it speaks with nobody */
    cr_assert_not_null(words, "errbus %s has no row here", name);
    memcpy(argv + 6, words, WORDS_MAX * sizeof *words);
    cr_assert(process_start(&process, argv, NULL));
    bool is_local = strcmp(name, "key") == 0; /* it prints the public half */
    cr_expect_eq(process_wait(&process, 3 * SOON_MS), is_local ? 0 : 6, "%s: %s%s", name,
                 process_said(&process), process_complained(&process));
    expect_words(is_local ? process_said(&process) : process_complained(&process), keys[EVE]);
    process_fini(&process);
}

Test(who, each_command_uses_the_key_that_a_flag_names)
{
    setenv("ERRBUS_KEY", "/nowhere/key", 1);
#define SUBCOMMAND(name, summary) expect_key_used(#name);
#include "clients/subcommands.def"
#undef SUBCOMMAND
}

Test(who, a_program_that_is_run_gets_the_key_of_its_guard)
{
    struct process process;
    const char *const argv[] = {"errbus",    "run",
                                "-s",        stage.control,
                                "-p",        "alice",
                                "-k",        key_paths[ALICE],
                                "--log-dir", folder.path,
                                "--",        "sh",
                                "-c",        "printf %s \"$ERRBUS_KEY\"",
                                NULL};
    cr_assert(process_start(&process, argv, NULL));
    cr_expect_eq(process_wait(&process, 3 * SOON_MS), 0, "%s", process_complained(&process));
    expect_words(process_said(&process), key_paths[ALICE]);
    process_fini(&process);
    const char *const empty[] = {"errbus", "status", "-k", "", NULL};
    cr_assert(process_start(&process, empty, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 2);
    expect_words(process_complained(&process), "--key needs the path of a file");
    process_fini(&process);
}

/* Nobody is called as a party that has no name of its own. */
Test(who, a_program_without_a_name_is_told_to_have_one)
{
    static const char advice[] =
        "no party was named: name one that the access file allows, with -p";
    struct process process;
    const char *const nameless[] = {"errbus",         "sub",     "-s", stage.control, "-k",
                                    key_paths[ALICE], "alice/w", NULL};
    const char *const named[] = {"errbus",         "sub", "-s",  stage.control, "-k",
                                 key_paths[ALICE], "-p",  "bob", "alice/w",     NULL};
    unsetenv("ERRBUS_PARTY");
    cr_assert(process_start(&process, nameless, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 6, "%s", process_complained(&process));
    expect_words(process_complained(&process), "this key may not do that here");
    expect_words(process_complained(&process), advice);
    process_fini(&process);
    cr_assert(process_start(&process, named, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 6, "%s", process_complained(&process));
    cr_expect_null(strstr(process_complained(&process), advice));
    process_fini(&process);
}
