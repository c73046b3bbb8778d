/* SPDX-License-Identifier: MPL-2.0 */
/* runs_test.c -- programs that are started again: whose values a reader gets, and what it is told.
 */
#include "tests/lib/folder.h"
#include "tests/lib/relay.h"
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(runs, .init = stage_open, .fini = stage_close, .timeout = 240);

static void expect_run(const struct bus *bus, uint32_t number)
{
    struct bus_run run;
    expect_code(bus_run_get(bus, &run), BUS_OK);
    cr_assert_eq(run.number, number, "in run %u, not %u", run.number, number);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static struct relay relay;

static void open_with_relay(void)
{
    stage_open_with_relay(&relay);
}

static void *open_late(void *arg)
{
    struct bus **out_bus = arg;
    *out_bus = must_open_over(&relay, "late", 0);
    return NULL;
}

/* The broker has welcomed late to the first run, which ends before late hears of it. */
Test(runs, are_joined_by_who_was_still_joining_the_last_one, .init = open_with_relay)
{
    struct bus *early = must_open("early");
    struct bus *late = NULL;
    pthread_t thread;
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    must_close(&early);
    relay_set(&relay, RELAY_LATE);
    cr_assert_eq(pthread_create(&thread, NULL, open_late, &late), 0);
    expect_event(tap, "party.joined", "late");
    early = must_open("early");
    expect_run(early, 2);
    relay_set(&relay, RELAY_WHOLE);
    pthread_join(thread, NULL);
    cr_assert_not_null(late);
    expect_run(late, 2);
    must_publish(late, "x", "here");
    expect_awaited(early, "late/x", 0, "here");
    must_close(&late);
    must_close(&early);
    bus_tap_close(&tap);
}

/* ---- what is told ---------------------------------------------------------------------------- */

/* Reserves number seq of "w", and expects this in the error, or a slot (NULL), which is kept. */
static void expect_reserved(struct bus *bus, int64_t seq, const char *const *said)
{
    struct bus_slot_options options;
    struct bus_slot *slot = NULL;
    struct bus_error *error = NULL;
    bus_slot_options_init(&options);
    options.seq = seq;
    enum bus_err err = bus_slot_reserve_with(bus, "w", &options, &slot, &error);
    if (said == NULL) {
        expect_code_of(err, BUS_OK, &error);
        must_commit(&slot, "v");
        return;
    }
    expect_code(err, BUS_ESETTLED);
    for (; *said != NULL; said++)
        cr_expect_not_null(strstr(bus_error_message(error), *said), "no '%s' in: %s", *said,
                           bus_error_message(error));
    bus_error_unref(&error);
}

static void fail(struct bus **bus)
{
    bus_fail(*bus, NULL);
    (void)bus_close(bus, SOON_MS);
}

/* A party that failed continues its run, and cannot write again what it has written. */
Test(runs, tell_who_reserved_a_number_before_and_what_to_do)
{
    struct bus *other = must_open("other");
    struct bus *writer = must_open("writer");
    expect_reserved(writer, 2, NULL);
    expect_reserved(writer, 4, NULL);
    expect_reserved(writer, 4,
                    (const char *const[]){"by this incarnation, writer/1", "number is 5", NULL});
    fail(&writer);
    writer = must_open("writer");
    expect_reserved(writer, 1,
                    (const char *const[]){"in run 1 of job 'default' by writer/1, which "
                                          "ended at 20",
                                          "number is 5", "'errbus job forget default'",
                                          "ERRBUS_RUN", NULL});
    expect_reserved(writer, 5, NULL);
    expect_reserved(writer, 5, (const char *const[]){"by this incarnation, writer/2", NULL});
    fail(&writer);
    writer = must_open("writer"); /* which writes nothing */
    fail(&writer);
    writer = must_open("writer");
    expect_reserved(writer, 5, (const char *const[]){"by writer/2, which ended", NULL});
    expect_reserved(writer, 4, (const char *const[]){"by an earlier incarnation of writer;", NULL});
    must_close(&writer);
    must_close(&other);
}

/* The journal keeps it. */
Test(runs, tell_it_over_a_restart_of_the_broker, .init = revival_begin, .fini = revival_close)
{
    struct bus *writer = revival_open_patient("writer");
    expect_reserved(writer, 0, NULL);
    must_flush(writer);
    fail(&writer);
    revival_kill();
    revival_start("process", NULL);
    writer = revival_open_patient("writer");
    expect_reserved(writer, 0, (const char *const[]){"by writer/1, which ended at 20", NULL});
    must_close(&writer);
}

/* ---- whose values -----------------------------------------------------------------------------*/

/* Two values of alice/1, then one of alice/2, and her error as number 3. */
static struct bus *write_twice(struct bus *(*open)(const char *party))
{
    struct bus *alice = open("alice");
    must_publish(alice, "w", "zero");
    must_publish(alice, "w", "one");
    must_flush(alice);
    fail(&alice);
    alice = open("alice");
    must_publish(alice, "w", "two");
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.no", "no");
    must_flush(alice);
    return alice;
}

static void expect_origin(const struct bus_msg *msg, uint32_t incarnation, uint64_t later)
{
    uint64_t got = 9;
    cr_expect_eq(bus_msg_incarnation(msg, NULL), incarnation);
    (void)bus_msg_incarnation(msg, &got);
    cr_expect_eq(got, later, "later at %lu", (unsigned long)got);
}

static void expect_streamed(struct bus *bus, const struct bus_sub_options *options)
{
    static const struct {
        uint32_t incarnation;
        uint64_t later;
    } origins[] = {{1, 2}, {1, 2}, {2, 0}, {2, 0}};
    struct bus_sub *sub = must_subscribe_with(bus, "+/w", options);
    for (uint64_t seq = 0; seq < sizeof origins / sizeof origins[0]; seq++) {
        struct bus_msg *msg = NULL;
        uint64_t later = 9;
        expect_code(bus_sub_recv(sub, SOON_MS, &msg, NULL), seq < 3 ? BUS_OK : BUS_EFAILED);
        cr_expect_eq(bus_sub_incarnation(sub, &later), origins[seq].incarnation);
        cr_expect_eq(later, origins[seq].later);
        if (msg != NULL)
            expect_origin(msg, origins[seq].incarnation, origins[seq].later);
        bus_msg_free(&msg);
    }
    bus_sub_close(&sub);
}

static void expect_gathered(struct bus *bus)
{
    struct bus_want wants[] = {{.topic = "alice/w", .seq = 2},
                               {.topic = "alice/w", .seq = 1},
                               {.topic = "alice/w", .seq = 3}};
    expect_code(bus_gather(bus, wants, 3, 3, 1, SOON_MS, NULL), BUS_OK);
    expect_origin(wants[0].msg, 2, 0);
    expect_origin(wants[1].msg, 1, 2);
    cr_expect_eq(bus_error_incarnation(wants[2].error), 2);
    bus_wants_free(wants, 3);
}

Test(runs, name_the_incarnation_of_each_value)
{
    struct bus_sub_options group;
    struct bus_msg *task = NULL;
    bus_sub_options_init(&group);
    group.group = "g";
    struct bus *alice = write_twice(must_open);
    struct bus *bob = must_open("bob");
    expect_streamed(bob, NULL);
    expect_gathered(bob);
    struct bus_sub *member = must_subscribe_with(bob, "+/w", &group);
    for (uint64_t seq = 0; seq < 3; seq++) {
        expect_code(bus_sub_recv(member, SOON_MS, &task, NULL), BUS_OK);
        expect_origin(task, seq < 2 ? 1 : 2, seq < 2 ? 2 : 0);
        bus_msg_free(&task);
    }
    bus_sub_close(&member);
    cr_expect_eq(bus_msg_incarnation(NULL, NULL), 0);
    cr_expect_eq(bus_sub_incarnation(NULL, NULL), 0);
    must_close(&bob);
    must_close(&alice);
}

Test(runs, name_incarnations_over_a_restart_of_the_broker, .init = revival_begin,
     .fini = revival_close)
{
    struct bus *alice = write_twice(revival_open_patient);
    revival_kill();
    revival_start("process", NULL);
    struct bus *bob = revival_open_patient("bob");
    expect_streamed(bob, NULL);
    expect_gathered(bob);
    must_close(&bob);
    must_close(&alice);
}

/* More incarnations than the broker remembers: those of the oldest slots are not known. */
Test(runs, name_the_newest_ten_incarnations)
{
    enum { STARTS = 14, KEPT = 10 };
    struct bus *bob = must_open("bob");
    for (int i = 0; i < STARTS; i++) {
        struct bus *alice = must_open("alice");
        must_publish(alice, "w", "v");
        must_flush(alice);
        fail(&alice);
    }
    struct bus_sub *sub = must_subscribe(bob, "+/w");
    for (uint32_t seq = 0; seq < STARTS; seq++) {
        struct bus_msg *msg = NULL;
        expect_code(bus_sub_recv(sub, SOON_MS, &msg, NULL), BUS_OK);
        uint32_t incarnation = bus_msg_incarnation(msg, NULL);
        cr_expect(seq < STARTS - KEPT + 1 ? incarnation == 0 : incarnation == seq + 1,
                  "number %u is of %u", seq, incarnation);
        bus_msg_free(&msg);
    }
    bus_sub_close(&sub);
    must_close(&bob);
}

/* A viewer is told where another incarnation begins, and of which one the first values are. */
static void expect_viewed(const char *from, const char *count, const char *told)
{
    struct process viewer;
    const char *const words[] = {"errbus", "sub", "-s",  stage.control, "--from",
                                 from,     "-C",  count, "+/w",         NULL};
    cr_assert(process_start(&viewer, words, NULL));
    cr_assert_eq(process_wait(&viewer, SOON_MS), 0, "%s", process_complained(&viewer));
    cr_expect_str_eq(process_complained(&viewer), told);
    process_fini(&viewer);
}

Test(runs, are_told_apart_by_a_viewer)
{
    struct bus *alice = write_twice(must_open);
    expect_viewed("0", "3",
                  "errbus sub: alice/w: numbers 0 to 1 are of alice/1, which ended; alice began "
                  "again with 2\n");
    expect_viewed("2", "1", "");
    fail(&alice);
    alice = must_open("alice");
    must_publish(alice, "w", "four");
    must_flush(alice);
    fail(&alice);
    alice = must_open("alice");
    must_publish(alice, "w", "five");
    must_flush(alice);
    expect_viewed("4", "2",
                  "errbus sub: alice/w: number 4 is of alice/3, which ended; alice began "
                  "again with 5\n");
    must_close(&alice);
}

/* ---- the command line ------------------------------------------------------------------------ */

/* Runs a program of the project on this broker, and returns what it said on standard output, or on
 * standard error if it fails.  Good until the next call. */
static const char *run_words(int code, const char *const *words)
{
    static struct process process;
    char server[sizeof stage.control + sizeof "ERRBUS_SERVER="];
    const char *const with_server[] = {server, NULL};
    (void)snprintf(server, sizeof server, "ERRBUS_SERVER=%s", stage.control);
    process_fini(&process);
    cr_assert(process_start(&process, words, with_server));
    int got = process_wait(&process, SOON_MS);
    cr_assert_eq(got, code, "ended with %d, not %d: %s", got, code, process_complained(&process));
    return code == 0 ? process_said(&process) : process_complained(&process);
}

static struct folder folder; /* of the running test */

static void open_with_folder(void)
{
    stage_open();
    cr_assert(folder_make(&folder));
}

static void close_with_folder(void)
{
    folder_fini(&folder);
    stage_close();
}

static const char *publish_in(int code, const char *run, const char *value)
{
    char errbus[512];
    process_path("errbus", errbus, sizeof errbus);
    return run_words(code,
                     (const char *const[]){"errbus", "run", "--log-dir", folder.path, "--run", run,
                                           "-p", "alice", "--", errbus, "pub", "w", value, NULL});
}

static const char *view(const char *count)
{
    return run_words(0, (const char *const[]){"errbus", "sub", "-C", count, "+/w", NULL});
}

Test(runs, are_named_by_a_launcher, .init = open_with_folder, .fini = close_with_folder)
{
    publish_in(0, "monday", "a");
    publish_in(0, "monday", "b");
    cr_expect_str_eq(view("2"), "a\nb\n");
    publish_in(0, "tuesday", "c");
    cr_expect_str_eq(view("1"), "c\n");
    struct bus *bob = must_open("bob");
    expect_run(bob, 2);
    const char *why = publish_in(6, "friday", "d");
    cr_expect_not_null(strstr(why, "bob did not end yet"), "%s", why);
    must_close(&bob);
}

/* Slots that subscriptions of this party have not taken; UINT64_MAX: it has none. */
static uint64_t count_untaken(const char *party)
{
    struct bus_status *status = NULL;
    uint64_t count = UINT64_MAX;
    expect_code(bus_admin_status_get(stage_admin(), NULL, SOON_MS, &status, NULL), BUS_OK);
    for (size_t i = 0; i < bus_status_count(status); i++) {
        const struct bus_status_row *row = bus_status_at(status, i);
        if (row->kind == BUS_STATUS_SUB && strcmp(row->party, party) == 0)
            count = row->pending;
    }
    bus_status_free(&status);
    return count;
}

/* A plain viewer that began with number 0 sees each run from its number 0 on, and the seam. */
Test(runs, are_all_seen_by_a_viewer_that_stays, .init = open_with_folder, .fini = close_with_folder)
{
    struct process viewer;
    const char *line = NULL;
    const char *const words[] = {"errbus", "sub", "-s",     stage.control, "-p",      "log", "-v",
                                 "-C",     "3",   "--from", "0",           "alice/w", NULL};
    cr_assert(process_start(&viewer, words, NULL));
    static const char *const values[] = {"a", "b", "c"};
    int64_t until_ms = test_now_ms() + SOON_MS;
    for (int i = 0; i < 3; i++) {
        char expected[32];
        publish_in(0, values[i], values[i]);
        cr_assert(process_line(&viewer, SOON_MS, &line), "%s", process_complained(&viewer));
        (void)snprintf(expected, sizeof expected, "alice/w 0 %s", values[i]);
        cr_expect_str_eq(line, expected);
        while (i < 2 && count_untaken("log") != 0) /* it holds the run until then */
            cr_assert_lt(test_now_ms(), until_ms);
    }
    cr_expect_eq(process_wait(&viewer, SOON_MS), 0, "%s", process_complained(&viewer));
    cr_expect_not_null(
        strstr(process_complained(&viewer), "errbus sub: the next run of the job began\n"), "%s",
        process_complained(&viewer));
    process_fini(&viewer);
    cr_expect_str_eq(view("1"), "c\n");
}

/* A pipe that is full: who writes into it waits until somebody reads.  -1: it failed. */
static int open_full_pipe(const char *path)
{
    static const char space[] = " ";
    int pipe = mkfifo(path, 0600) == 0 ? open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1;
    while (pipe >= 0 && write(pipe, space, 1) == 1) {
    }
    return pipe;
}

static void read_pipe_empty(int pipe)
{
    char bytes[4096];
    while (read(pipe, bytes, sizeof bytes) > 0) {
    }
}

/* The viewer has joined, and waits to say its first words: it has not subscribed yet. */
Test(runs, are_followed_by_a_viewer_that_is_not_subscribed_yet, .init = open_with_folder,
     .fini = close_with_folder)
{
    struct process viewer;
    const char *line = NULL;
    char errbus[512];
    char path[sizeof folder.path + 16];
    process_path("errbus", errbus, sizeof errbus);
    (void)snprintf(path, sizeof path, "%s/pipe", folder.path);
    int pipe = open_full_pipe(path);
    cr_assert_geq(pipe, 0);
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    const char *const words[] = {"/bin/sh", "-c",          "exec \"$@\" 2> \"$0\"",
                                 path,      errbus,        "sub",
                                 "-s",      stage.control, "--durable",
                                 "log",     "-C",          "1",
                                 "alice/w", NULL};
    cr_assert(process_start(&viewer, words, NULL));
    expect_event(tap, "party.joined", NULL);
    publish_in(0, "monday", "a");
    publish_in(0, "tuesday", "b");
    read_pipe_empty(pipe);
    cr_assert(process_line(&viewer, SOON_MS, &line));
    cr_expect_str_eq(line, "b");
    cr_expect_eq(process_wait(&viewer, SOON_MS), 0);
    process_fini(&viewer);
    bus_tap_close(&tap);
    (void)close(pipe);
}

/* The boss begins a run each time, unless the worker came first: then the last run goes on. */
static void expect_reply(const char *value, const char *reply)
{
    char errbus[512];
    char server[sizeof stage.control + sizeof "ERRBUS_SERVER="];
    struct process boss;
    process_path("errbus", errbus, sizeof errbus);
    (void)snprintf(server, sizeof server, "ERRBUS_SERVER=%s", stage.control);
    const char *const words[] = {"errbus",  "run",  "--plain", "--log-dir", folder.path,
                                 "-p",      "boss", "--",      errbus,      "request",
                                 "squares", value,  NULL};
    cr_assert(process_start(&boss, words, (const char *const[]){server, NULL}));
    (void)run_words(0,
                    (const char *const[]){"errbus", "worker", "-p", "worker", "-C", "1", "squares",
                                          "--", "sh", "-c", "read n; echo $((n * n))", NULL});
    cr_expect_eq(process_wait(&boss, SOON_MS), 0, "%s", process_complained(&boss));
    cr_expect_str_eq(process_said(&boss), reply);
    process_fini(&boss);
}

Test(runs, get_replies_to_their_own_requests, .init = open_with_folder, .fini = close_with_folder)
{
    expect_reply("7", "49\n");
    expect_reply("8", "64\n");
    expect_reply("9", "81\n");
}

static void fail_in(const char *run, const char *script)
{
    (void)run_words(3, (const char *const[]){"errbus", "run", "--disclosure", "full", "--log-dir",
                                             folder.path, "--run", run, "-p", "alice", "--", "sh",
                                             "-c", script, NULL});
}

/* Errors count on over runs, and keep what was attached to them. */
Test(runs, leave_attachments_behind, .init = open_with_folder, .fini = close_with_folder)
{
    fail_in("monday", "echo of monday >&2; exit 3");
    fail_in("tuesday", "echo of tuesday >&2; exit 3");
    struct bus *bob = must_open("bob");
    expect_run(bob, 2);
    must_close(&bob);
    cr_expect_str_eq(
        run_words(0, (const char *const[]){"errbus", "errors", "show", "default/alice/1/1",
                                           "--attachment", "stderr", NULL}),
        "of monday\n");
    cr_expect_str_eq(
        run_words(0, (const char *const[]){"errbus", "errors", "show", "default/alice/2/1",
                                           "--attachment", "stderr", NULL}),
        "of tuesday\n");
}

/* Seven of eight copies fail in the first run, and join the second one before the eighth begins it.
 * What they have joined then is over; all eight take part in the second run all the same. */
Test(runs, have_all_copies_of_a_program_of_which_some_failed_before, .init = open_with_folder,
     .fini = close_with_folder)
{
    char path[FOLDER_PATH_BYTES_MAX];
    char script[2 * FOLDER_PATH_BYTES_MAX];
    (void)snprintf(script, sizeof script, "test $LOCAL_RANK = 7 -o -e %s/again || exit 3; echo ok",
                   folder.path);
    const char *const words[] = {"errbus", "run", "--log-dir", folder.path, "-p",   "w", "-n",
                                 "8",      "--",  "sh",        "-c",        script, NULL};
    run_words(3, words);
    cr_assert(folder_write(&folder, "again", "", path));
    const char *said = run_words(0, words);
    for (int copy = 0; copy < 8; copy++) {
        char line[32];
        (void)snprintf(line, sizeof line, "w-%d: ok\n", copy);
        cr_expect_not_null(strstr(said, line), "no '%s' in: %s", line, said);
    }
}

/* The silo was killed in the first run.  It comes first to the second one, and has begun its work
 * when the aggregator begins that run. */
Test(runs, start_a_program_again_that_came_too_early, .init = open_with_folder,
     .fini = close_with_folder)
{
    struct process silo;
    const char *line = NULL;
    const char *const killed[] = {"errbus", "run", "--log-dir", folder.path,  "-p", "silo",
                                  "--",     "sh",  "-c",        "kill -9 $$", NULL};
    const char *const aggregate[] = {"errbus", "run", "--log-dir", folder.path, "-p",
                                     "agg",    "--",  "true",      NULL};
    const char *const work[] = {
        "errbus", "run", "-s", stage.control,          "--log-dir", folder.path, "-p", "silo",
        "--",     "sh",  "-c", "echo works; exec cat", NULL};
    run_words(128 + SIGKILL, killed);
    run_words(0, aggregate);
    cr_assert(process_start(&silo, work, NULL));
    cr_assert(process_line(&silo, SOON_MS, &line), "%s", process_complained(&silo));
    run_words(0, aggregate);
    cr_assert(process_line(&silo, SOON_MS, &line), "%s", process_complained(&silo));
    cr_expect_str_eq(line, "silo: works");
    process_say_end(&silo);
    cr_expect_eq(process_wait(&silo, SOON_MS), 0, "%s", process_complained(&silo));
    cr_expect_not_null(strstr(process_complained(&silo), "errbus run: starts sh again, in the next "
                                                         "run of the job\n"),
                       "%s", process_complained(&silo));
    process_fini(&silo);
}

static uint64_t count_running(void)
{
    struct bus_status *status = NULL;
    uint64_t count = 0;
    expect_code(bus_admin_status_get(stage_admin(), NULL, SOON_MS, &status, NULL), BUS_OK);
    for (size_t i = 0; i < bus_status_count(status); i++) {
        const struct bus_status_row *row = bus_status_at(status, i);
        count += row->kind == BUS_STATUS_PARTY && row->state == BUS_STATE_RUNNING;
    }
    bus_status_free(&status);
    return count;
}

static void expect_running(uint64_t least)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (count_running() < least)
        cr_assert_lt(test_now_ms(), until_ms, "%lu copies", (unsigned long)count_running());
}

/* From the first copy on, what the broker says waits.  Copies that joined one after the other would
 * come to one more. */
Test(runs, are_joined_by_sixteen_copies_at_once, .init = open_with_relay)
{
    struct process copies;
    char temporary[FOLDER_PATH_BYTES_MAX + sizeof "TMPDIR="];
    const char *const environment[] = {temporary, NULL};
    const char *const words[] = {
        "errbus", "run", "-s", relay.control_endpoint, "-n", "40", "-p", "w", "--", "true", NULL};
    cr_assert(folder_make(&folder));
    (void)snprintf(temporary, sizeof temporary, "TMPDIR=%s", folder.path);
    cr_assert(process_start(&copies, words, environment));
    expect_running(1);
    relay_set(&relay, RELAY_LATE);
    expect_running(16);
    relay_set(&relay, RELAY_WHOLE);
    cr_expect_eq(process_wait(&copies, 3 * SOON_MS), 0, "%s", process_complained(&copies));
    process_fini(&copies);
    folder_fini(&folder);
}

/* Slots that this durable name has not acknowledged; UINT64_MAX: it is not there. */
static uint64_t count_unread(const char *name)
{
    struct bus_status *status = NULL;
    uint64_t count = UINT64_MAX;
    expect_code(bus_admin_status_get(stage_admin(), NULL, SOON_MS, &status, NULL), BUS_OK);
    for (size_t i = 0; i < bus_status_count(status); i++) {
        const struct bus_status_row *row = bus_status_at(status, i);
        if (row->kind == BUS_STATUS_SUB && strcmp(row->name, name) == 0)
            count = row->pending;
    }
    bus_status_free(&status);
    return count;
}

static void expect_all_read(const char *name)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (count_unread(name) != 0)
        cr_assert_lt(test_now_ms(), until_ms, "%s has not read all", name);
}

/* A reader that is always there under a durable name holds a run only until it has read all. */
Test(runs, begin_beside_a_durable_viewer_that_has_read_all)
{
    struct process viewer;
    const char *line = NULL;
    const char *const words[] = {"errbus", "sub",       "-s",  stage.control, "-p", "log",
                                 "-v",     "--durable", "all", "+/w",         NULL};
    cr_assert(process_start(&viewer, words, NULL));
    for (uint32_t number = 1; number <= 3; number++) {
        struct bus *alice = must_open("alice");
        expect_run(alice, number);
        must_publish(alice, "w", "v");
        cr_assert(process_line(&viewer, SOON_MS, &line), "%s", process_complained(&viewer));
        cr_expect_str_eq(line, "alice/w 0 v");
        expect_all_read("all");
        must_close(&alice);
    }
    process_signal(&viewer, SIGINT);
    cr_expect_eq(process_wait(&viewer, SOON_MS), 130, "%s", process_complained(&viewer));
    process_fini(&viewer);
}

Test(runs, are_forgotten_with_a_word_of_what_went)
{
    const char *const forget[] = {"errbus", "job", "forget", "default", NULL};
    struct bus_sub_options durable;
    bus_sub_options_init(&durable);
    durable.name = "name";
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    must_publish(alice, "w", "12345678");
    must_publish(alice, "w", "12345678");
    must_publish(alice, "x", "12345678");
    must_flush(alice);
    struct bus_sub *sub = must_subscribe_with(bob, "+/w", &durable);
    must_close(&alice);
    const char *why = run_words(6, forget);
    cr_expect_not_null(strstr(why, "bob did not end yet"), "%s", why);
    bus_sub_close(&sub);
    must_close(&bob);
    const char *gone = run_words(0, forget);
    cr_expect_not_null(strstr(gone, "forgotten: 2 parties, 2 topics with 3 slots ("), "%s", gone);
    cr_expect_not_null(strstr(gone, " bytes), 1 durable name and group, 0 dead letters\n"), "%s",
                       gone);
    why = run_words(2, forget);
    cr_expect_not_null(strstr(why, "errbus.no_job"), "%s", why);
}

/* ---- a durable reader behind a nightly producer ---------------------------------------------- */

/* Two values, "NIGHT.0" and "NIGHT.1". */
static void produce(int night, uint32_t run)
{
    struct bus *producer = revival_open_patient("producer");
    expect_run(producer, run);
    for (int i = 0; i < 2; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d.%d", night, i);
        must_publish(producer, "w", text);
    }
    expect_code(bus_complete(producer, SOON_MS), BUS_OK);
    must_close(&producer);
}

struct produced {
    const char *text; /* NULL: the last one */
    uint32_t incarnation;
};

/* Reads these values, in this run, and nothing else but ends of the producer in between. */
static void consume(uint32_t run, const struct produced *produced)
{
    struct bus_sub_options durable;
    struct bus_options options = patient_options("reader");
    options.run_rule = BUS_RUN_CONTINUE;
    struct bus *reader = must_open_with(&options);
    bus_sub_options_init(&durable);
    durable.name = "nightly";
    struct bus_sub *sub = must_subscribe_with(reader, "producer/w", &durable);
    expect_run(reader, run);
    while (produced->text != NULL) {
        struct bus_msg *msg = NULL;
        enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, NULL);
        if (err == BUS_EENDED)
            continue;
        expect_code(err, BUS_OK);
        cr_expect_eq(bus_msg_incarnation(msg, NULL), produced->incarnation);
        expect_message(msg, produced->text);
        bus_msg_free(&msg);
        produced++;
    }
    must_flush(reader);
    bus_sub_close(&sub);
    must_close(&reader);
}

/* The run stays while the reader is behind.  The broker dies in between. */
Test(runs, lose_and_repeat_nothing_for_a_durable_reader_of_three_nights, .init = revival_begin,
     .fini = revival_close)
{
    consume(1, (const struct produced[]){{NULL, 0}}); /* the name exists from now on */
    produce(1, 1);
    consume(1, (const struct produced[]){{"1.0", 1}, {NULL, 0}});
    produce(2, 1);
    revival_kill();
    revival_start("process", NULL);
    consume(1, (const struct produced[]){{"1.1", 1}, {"2.0", 2}, {"2.1", 2}, {NULL, 0}});
    produce(3, 2);
    consume(2, (const struct produced[]){{"3.0", 3}, {NULL, 0}});
    revival_kill();
    revival_start("process", NULL);
    consume(2, (const struct produced[]){{"3.1", 3}, {NULL, 0}});
    produce(4, 3);
    consume(3, (const struct produced[]){{"4.0", 4}, {"4.1", 4}, {NULL, 0}});
}
