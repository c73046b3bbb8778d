/* SPDX-License-Identifier: MPL-2.0 */
/* cli_test.c -- errbus pub, sub, tap, errors, status: flags, environment, output, exit codes. */
#include "tests/lib/expect.h"
#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(cli, .init = stage_open, .fini = stage_close, .timeout = 240);

#define ARGUMENTS_MAX 24

/* `errbus SUBCOMMAND -s CONTROL ...`; words end with NULL. */
static void start(struct process *process, const char *subcommand, ...)
{
    const char *argv[ARGUMENTS_MAX] = {"errbus", subcommand, "-s", stage.control};
    size_t count = 4;
    va_list args;
    va_start(args, subcommand);
    for (const char *word = va_arg(args, const char *); word != NULL && count + 1 < ARGUMENTS_MAX;
         word = va_arg(args, const char *)) {
        argv[count++] = word;
    }
    va_end(args);
    cr_assert(process_start(process, argv, NULL));
}

static void expect_exit(struct process *process, int code)
{
    int got = process_wait(process, 3 * SOON_MS);
    cr_assert_eq(got, code, "ended with %d, not %d: %s%s", got, code, process_said(process),
                 process_complained(process));
}

static void expect_output(struct process *process, const char *text)
{
    cr_assert_str_eq(process_said(process), text);
}

static void expect_line(struct process *process, const char *text)
{
    const char *line = NULL;
    cr_assert(process_line(process, SOON_MS, &line), "no line, where '%s' was due: %s", text,
              process_complained(process));
    cr_assert_str_eq(line, text);
}

/* What it printed, zeros and all. */
static void expect_bytes(struct process *process, const void *bytes, size_t count)
{
    cr_assert_eq(process->said.count, count, "%zu bytes", process->said.count);
    cr_assert_arr_eq(process_said(process), bytes, count);
}

static void expect_complaint(const struct process *process, const char *text)
{
    cr_assert_not_null(strstr(process_complained(process), text), "not '%s' in: %s", text,
                       process_complained(process));
}

/* The next line as an object; the caller's to json_decref. */
static json_t *expect_json(struct process *process)
{
    const char *line = NULL;
    json_error_t problem;
    cr_assert(process_line(process, SOON_MS, &line), "no line: %s", process_complained(process));
    json_t *object = json_loads(line, JSON_ALLOW_NUL, &problem);
    cr_assert(json_is_object(object), "no object: %s", line);
    return object;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "(none)";
}

static int64_t number_of(const json_t *object, const char *key)
{
    const json_t *number = json_object_get(object, key);
    cr_assert(json_is_integer(number), "no number '%s'", key);
    return json_integer_value(number);
}

/* The next event of this name. */
static json_t *expect_tapped(struct process *tap, const char *event)
{
    for (;;) {
        json_t *object = expect_json(tap);
        if (strcmp(text_of(object, "event"), event) == 0) {
            return object;
        }
        json_decref(object);
    }
}

static void run_pub(const char *party, const char *topic, const char *value)
{
    struct process pub;
    start(&pub, "pub", "-p", party, topic, value, NULL);
    expect_exit(&pub, 0);
    expect_output(&pub, "");
    process_fini(&pub);
}

/* ---- pub and sub ----------------------------------------------------------------------------- */

Test(cli, publishes_and_prints_values)
{
    struct process sub;
    run_pub("alice", "w", "hello");
    run_pub("alice", "alice/w", "world");
    start(&sub, "sub", "-C", "2", "alice/w", NULL);
    expect_exit(&sub, 0);
    expect_output(&sub, "hello\nworld\n");
    process_fini(&sub);
    start(&sub, "sub", "--count", "1", "-v", "--from", "1", "alice/#", NULL);
    expect_exit(&sub, 0);
    expect_output(&sub, "alice/w 1 world\n");
    process_fini(&sub);
}

Test(cli, publishes_a_line_of_input_each)
{
    static const char text[] = "one\ntwo\n\nlast without newline";
    struct process pub;
    struct process sub;
    start(&sub, "sub", "-C", "4", "+/w", NULL);
    start(&pub, "pub", "-p", "alice", "w", NULL);
    cr_assert(process_say(&pub, text, sizeof text - 1));
    process_say_end(&pub);
    expect_exit(&pub, 0);
    expect_exit(&sub, 0);
    expect_output(&sub, "one\ntwo\n\nlast without newline\n");
    process_fini(&pub);
    process_fini(&sub);
    start(&pub, "pub", "-p", "alice", "-C", "2", "w", NULL);
    cr_assert(process_say(&pub, "a\nb\nc\n", 6));
    expect_exit(&pub, 0);
    process_fini(&pub);
    start(&sub, "sub", "-C", "2", "--from", "4", "alice/w", NULL);
    expect_exit(&sub, 0);
    expect_output(&sub, "a\nb\n");
    process_fini(&sub);
    struct bus_status_row row;
    cr_assert(find_row(NULL, BUS_STATUS_TOPIC, "alice/w", &row));
    cr_expect_eq(row.next_seq, 6);
}

/* A file, or all of standard input: lines and zeros in it are no matter. */
Test(cli, publishes_one_whole_value)
{
    static const char text[] = "one\ntwo\0three\n";
    struct process pub;
    struct process sub;
    char path[FOLDER_PATH_BYTES_MAX];
    struct folder folder;
    cr_assert(folder_make(&folder));
    cr_assert(folder_write(&folder, "value", "from\na file", path));
    start(&pub, "pub", "-p", "alice", "w", "-", NULL);
    cr_assert(process_say(&pub, text, sizeof text - 1));
    process_say_end(&pub);
    expect_exit(&pub, 0);
    process_fini(&pub);
    start(&pub, "pub", "-p", "alice", "w", "--file", path, NULL);
    expect_exit(&pub, 0);
    process_fini(&pub);
    start(&pub, "pub", "-p", "alice", "w", "--file", "/dev/null", NULL);
    expect_exit(&pub, 0);
    process_fini(&pub);
    start(&sub, "sub", "--raw", "-C", "3", "alice/w", NULL);
    expect_exit(&sub, 0);
    expect_bytes(&sub, "one\ntwo\0three\nfrom\na file", sizeof text - 1 + 11);
    process_fini(&sub);
    start(&pub, "pub", "-p", "alice", "w", "--file", "/nonexistent/value", NULL);
    expect_exit(&pub, 1);
    expect_complaint(&pub, "errbus pub: /nonexistent/value: No such file or directory\n");
    process_fini(&pub);
    start(&pub, "pub", "-p", "alice", "w", "--file", folder.path, NULL);
    expect_exit(&pub, 1);
    expect_complaint(&pub, "Is a directory\n");
    process_fini(&pub);
    folder_fini(&folder);
    struct bus_status_row row;
    cr_assert(find_row(NULL, BUS_STATUS_TOPIC, "alice/w", &row));
    cr_expect_eq(row.next_seq, 3, "three values, no more");
}

/* A round or a step, whatever was published before. */
Test(cli, publishes_under_numbers_of_its_own)
{
    struct process pub;
    struct process sub;
    start(&pub, "pub", "-p", "alice", "--seq", "7", "w", "seven", NULL);
    expect_exit(&pub, 0);
    process_fini(&pub);
    start(&pub, "pub", "-p", "alice", "--seq", "9", "w", NULL);
    cr_assert(process_say(&pub, "nine\nten\n", 9));
    process_say_end(&pub);
    expect_exit(&pub, 0);
    process_fini(&pub);
    start(&sub, "sub", "-v", "-C", "1", "--from", "7", "alice/w", NULL);
    expect_exit(&sub, 0);
    expect_output(&sub, "alice/w 7 seven\n");
    process_fini(&sub);
    start(&sub, "sub", "-v", "-C", "2", "--from", "9", "alice/w", NULL);
    expect_exit(&sub, 0);
    expect_output(&sub, "alice/w 9 nine\nalice/w 10 ten\n");
    process_fini(&sub);
    start(&pub, "pub", "-p", "alice", "--seq", "12", "--reserve-only", "--hold", "0", "w", NULL);
    expect_exit(&pub, 0);
    expect_output(&pub, "reserved alice/w 12\n");
    process_fini(&pub);
    start(&pub, "pub", "-p", "alice", "--seq", "14", "--fail", "app.x:no", "w", NULL);
    expect_exit(&pub, 0);
    process_fini(&pub);
    start(&sub, "sub", "-C", "1", "--from", "14", "alice/w", NULL);
    expect_exit(&sub, 3);
    expect_complaint(&sub, "alice/w 14 failed");
    process_fini(&sub);
    start(&pub, "pub", "-p", "alice", "--seq", "7", "w", "again", NULL);
    expect_exit(&pub, 1);
    process_fini(&pub);
}

Test(cli, takes_the_environment_where_no_flag_says_otherwise)
{
    char server[300];
    snprintf(server, sizeof server, "ERRBUS_SERVER=%s", stage.control);
    const char *const environment[] = {server, "ERRBUS_JOB=env-job", "ERRBUS_PARTY=env-party",
                                       NULL};
    const char *const by_environment[] = {"errbus", "pub", "w", "x", NULL};
    const char *const by_flags[] = {"errbus", "pub", "--job=flag-job", "-p", "flag-party", "w",
                                    "y",      NULL};
    const char *const *const calls[] = {by_environment, by_flags};
    for (size_t i = 0; i < 2; i++) {
        struct process pub;
        cr_assert(process_start(&pub, calls[i], environment));
        expect_exit(&pub, 0);
        process_fini(&pub);
    }
    struct bus_status_row row;
    cr_expect(find_row("env-job", BUS_STATUS_TOPIC, "env-party/w", &row));
    cr_expect(find_row("flag-job", BUS_STATUS_TOPIC, "flag-party/w", &row));
}

Test(cli, settles_with_an_error_and_prints_it_in_full)
{
    struct process pub;
    struct process sub;
    start(&pub, "pub", "-p", "alice", "w", "--fail", "app.disk_full:no space: /scratch", NULL);
    expect_exit(&pub, 0);
    process_fini(&pub);
    run_pub("alice", "w", "next");
    start(&sub, "sub", "-C", "2", "alice/w", NULL);
    expect_exit(&sub, 3);
    expect_output(&sub, "next\n");
    expect_complaint(&sub, "alice/w 0");
    expect_complaint(&sub, "app.disk_full");
    expect_complaint(&sub, "no space: /scratch");
    process_fini(&sub);

    start(&sub, "sub", "--json", "-C", "2", "alice/w", NULL);
    json_t *line = expect_json(&sub);
    cr_expect_str_eq(text_of(line, "kind"), "error");
    cr_expect_str_eq(text_of(line, "topic"), "alice/w");
    cr_expect_eq(number_of(line, "seq"), 0);
    const json_t *error = json_object_get(line, "error");
    cr_expect_str_eq(text_of(error, "kind"), "application");
    cr_expect_str_eq(text_of(error, "type"), "app.disk_full");
    cr_expect_str_eq(text_of(error, "message"), "no space: /scratch");
    cr_expect_str_eq(text_of(error, "party"), "alice");
    cr_expect_str_eq(text_of(error, "topic"), "alice/w");
    cr_expect_eq(number_of(error, "seq"), 0);
    cr_expect_neq(strcmp(text_of(error, "id"), "(none)"), 0);
    cr_expect_neq(strcmp(text_of(error, "occurred_at"), "(none)"), 0);
    cr_expect(json_is_null(json_object_get(error, "recoverable")));
    cr_expect(json_is_null(json_object_get(error, "cause")));
    cr_expect_str_eq(text_of(json_object_get(error, "root"), "type"), "app.disk_full");
    json_decref(line);
    line = expect_json(&sub);
    cr_expect_str_eq(text_of(line, "kind"), "end"); /* each pub is an incarnation of alice */
    json_decref(line);
    line = expect_json(&sub);
    cr_expect_str_eq(text_of(line, "kind"), "value");
    cr_expect_eq(number_of(line, "seq"), 1);
    cr_expect_str_eq(text_of(line, "value"), "next");
    cr_expect_null(json_object_get(line, "encoding"));
    json_decref(line);
    expect_exit(&sub, 3);
    process_fini(&sub);
}

/* Bytes that are no text are printed in base64 in JSON, and as they are otherwise. */
Test(cli, prints_values_that_are_no_text)
{
    struct process sub;
    struct bus *alice = must_open("alice");
    expect_code(bus_publish(alice, "w", "\xff\x00\x01z", 4), BUS_OK);
    must_publish(alice, "w", "gr\xc3\xbc\xc3\x9f");
    expect_code(bus_publish(alice, "w", "a\0b", 3), BUS_OK);
    must_close(&alice);
    start(&sub, "sub", "--json", "-C", "3", "alice/w", NULL);
    json_t *line = expect_json(&sub);
    cr_expect_str_eq(text_of(line, "value"), "/wABeg==");
    cr_expect_str_eq(text_of(line, "encoding"), "base64");
    json_decref(line);
    line = expect_json(&sub);
    cr_expect_str_eq(text_of(line, "value"), "gr\xc3\xbc\xc3\x9f");
    json_decref(line);
    line = expect_json(&sub);
    cr_expect_eq(json_string_length(json_object_get(line, "value")), 3);
    json_decref(line);
    expect_exit(&sub, 0);
    process_fini(&sub);
}

Test(cli, promises_holds_and_leaves)
{
    struct process pub;
    struct process sub;
    start(&sub, "sub", "-C", "1", "alice/w", NULL);
    start(&pub, "pub", "-p", "alice", "w", "--reserve-only", "--hold", "0.3", NULL);
    expect_line(&pub, "reserved alice/w 0");
    expect_exit(&pub, 0);
    expect_exit(&sub, 3);
    expect_complaint(&sub, "party_left");
    process_fini(&pub);
    process_fini(&sub);
}

Test(cli, tells_of_a_killed_holder)
{
    struct process pub;
    struct process sub;
    start(&sub, "sub", "--json", "-C", "1", "alice/w", NULL);
    start(&pub, "pub", "-p", "alice", "--json", "--reserve-only", "w", NULL);
    json_t *line = expect_json(&pub);
    cr_expect_str_eq(text_of(line, "topic"), "alice/w");
    json_decref(line);
    process_signal(&pub, SIGKILL);
    line = expect_json(&sub);
    cr_expect_str_eq(text_of(line, "kind"), "error");
    cr_expect_str_eq(text_of(json_object_get(line, "error"), "kind"), "party_lost");
    json_decref(line);
    expect_exit(&sub, 3);
    process_fini(&pub);
    process_fini(&sub);
}

Test(cli, says_when_a_party_ends_owing_nothing)
{
    struct process sub;
    start(&sub, "sub", "--json", "alice/w", NULL);
    run_pub("alice", "w", "x");
    json_t *line = expect_json(&sub);
    cr_expect_str_eq(text_of(line, "kind"), "value");
    json_decref(line);
    line = expect_json(&sub);
    cr_expect_str_eq(text_of(line, "kind"), "end");
    json_decref(line);
    process_signal(&sub, SIGTERM);
    expect_exit(&sub, 128 + SIGTERM);
    process_fini(&sub);
}

/* Each pub is an incarnation of alice.  The ends of the oldest are told as one. */
Test(cli, says_of_each_incarnation_that_it_ended)
{
    struct process sub;
    for (int i = 0; i < 11; i++)
        run_pub("alice", "w", "x");
    for (int i = 0; i < 2; i++) {
        bool is_json = i == 1;
        const char *wait[] = {"-W", "1", is_json ? "--json" : NULL};
        start(&sub, "sub", "alice/w", wait[0], wait[1], wait[2], NULL);
        expect_exit(&sub, 4);
        if (is_json)
            cr_expect_not_null(strstr(process_said(&sub), "\"incarnation\":3,\"since\":1}"), "%s",
                               process_said(&sub));
        else
            cr_expect_not_null(strstr(process_complained(&sub),
                                      "errbus sub: alice/1 to alice/3 ended and owed nothing\n"
                                      "errbus sub: alice/4 ended and owed nothing\n"),
                               "%s", process_complained(&sub));
        process_fini(&sub);
    }
}

Test(cli, goes_on_where_a_durable_name_was)
{
    struct process sub;
    for (int i = 0; i < 3; i++) {
        char value[16];
        snprintf(value, sizeof value, "%d", i);
        run_pub("alice", "w", value);
    }
    for (int i = 0; i < 3; i++) {
        char value[16];
        snprintf(value, sizeof value, "%d\n", i);
        start(&sub, "sub", "-p", "bob", "--durable", "steps", "-C", "1", "alice/w", NULL);
        expect_exit(&sub, 0);
        expect_output(&sub, value);
        process_fini(&sub);
    }
}

/* A subscription is in force once the broker shows it. */
static void await_subscription(const char *job, const char *name)
{
    struct bus_status_row row;
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (!find_row(job, BUS_STATUS_SUB, name, &row)) {
        cr_assert_lt(test_now_ms(), until_ms, "nobody subscribed to %s", name);
    }
}

/* A name that nobody can come back to holds writers back for as long as it is kept. */
Test(cli, warns_of_a_durable_name_of_nobody_in_particular)
{
    static const char *const words[][2] = {{NULL, NULL}, {"-p", "bob"}};
    run_pub("alice", "w", "x");
    for (size_t i = 0; i < 2; i++) {
        struct process sub;
        start(&sub, "sub", "--durable", "all", "-C", "1", "alice/w", words[i][0], words[i][1],
              NULL);
        expect_exit(&sub, 0);
        cr_expect_eq(strstr(process_complained(&sub), "--durable without --party") != NULL, i == 0,
                     "%s", process_complained(&sub));
        process_fini(&sub);
    }
}

Test(cli, ends_pub_when_all_is_acknowledged_and_not_before)
{
    struct process sub;
    struct process pub;
    start(&sub, "sub", "-C", "2", "alice/w", NULL);
    start(&pub, "pub", "-p", "alice", "w", NULL);
    cr_assert(process_say(&pub, "one\n", 4));
    expect_line(&sub, "one");
    process_signal(&stage.process, SIGSTOP);
    cr_assert(process_say(&pub, "two\n", 4));
    process_say_end(&pub);
    cr_expect_eq(process_wait(&pub, 300), -1, "nobody can have acknowledged that");
    process_signal(&stage.process, SIGCONT);
    expect_exit(&pub, 0);
    expect_line(&sub, "two");
    expect_exit(&sub, 0);
    process_fini(&pub);
    process_fini(&sub);
}

/* ---- readers that fall behind ---------------------------------------------------------------- */

#define BLOCK_BYTES ((size_t)64 * 1024)
#define BLOCKS (2 * SMALL_STAGE_BYTES_MAX / BLOCK_BYTES)

/* Publishes blocks while the reader, whose subscription has this name, is frozen, and then "last";
 * how many blocks there was room for. */
static uint64_t publish_to_frozen(struct process *reader, const char *name)
{
    static char block[BLOCK_BYTES];
    struct bus_options options;
    uint64_t count = 0;
    enum bus_err err = BUS_OK;
    memset(block, 'x', sizeof block);
    bus_options_init(&options);
    options.party = "alice";
    options.send_timeout_ms = 200;
    struct bus *alice = must_open_with(&options);
    await_subscription("default", name);
    process_signal(reader, SIGSTOP);
    for (; count < BLOCKS && err == BUS_OK; count += err == BUS_OK) {
        err = bus_publish(alice, "w", block, sizeof block);
        if (err == BUS_OK) {
            must_flush(alice);
        }
    }
    cr_assert(err == BUS_OK || err == BUS_EFULL, "%s", code_name(err));
    process_signal(reader, SIGCONT);
    int64_t until_ms = test_now_ms() + SOON_MS;
    do {
        err = bus_publish(alice, "w", "last", 4);
    } while (err == BUS_EFULL && test_now_ms() < until_ms);
    expect_code(err, BUS_OK);
    must_close(&alice);
    return count;
}

/* Every slot up to count is there or said to be missing; how many gaps. */
static uint64_t expect_all_told(struct process *reader, uint64_t count)
{
    uint64_t next = 0;
    uint64_t gaps = 0;
    while (next <= count) {
        json_t *line = expect_json(reader);
        bool is_gap = strcmp(text_of(line, "kind"), "gap") == 0;
        cr_assert_eq(number_of(line, "seq"), (int64_t)next);
        cr_assert(is_gap || strcmp(text_of(line, "kind"), "value") == 0);
        next += is_gap ? (uint64_t)number_of(line, "missing") : 1;
        gaps += is_gap;
        cr_expect(!is_gap || strcmp(text_of(line, "type"), "errbus.overrun") == 0);
        if (next == count + 1) {
            cr_expect_str_eq(text_of(line, "value"), "last");
        }
        json_decref(line);
    }
    return gaps;
}

Test(cli, reports_gaps_rather_than_hold_the_job_back)
{
    struct process sub;
    stage_close();
    stage_open_small();
    start(&sub, "sub", "--json", "alice/w", NULL);
    cr_expect_eq(publish_to_frozen(&sub, "alice/w"), BLOCKS);
    cr_expect_gt(expect_all_told(&sub, BLOCKS), 0);
    process_fini(&sub);
}

/* Two of four values are no longer kept when the reader comes. */
static void publish_beyond_what_is_kept(void)
{
    static const char *const two_kept[] = {"--test-topic-keep-slots", "2", NULL};
    static const char *const words[] = {"w0", "w1", "w2", "w3"};
    stage_close();
    stage_open_with(two_kept);
    for (size_t i = 0; i < 4; i++)
        run_pub("alice", "w", words[i]);
}

Test(cli, says_what_is_gone_to_who_comes_late)
{
    static const char gone[] = "errbus sub: slots 0 to 1 of alice/w are gone: what the broker "
                               "keeps of a topic for late readers is bounded (errbusd "
                               "--topic-keep)\n"
                               "errbus sub: alice/w: number 2 is of alice/3, which ended; "
                               "alice began again with 3\n";
    static const char *const from[] = {"0", "oldest", "1"};
    struct process sub;
    publish_beyond_what_is_kept();
    start(&sub, "sub", "-C2", "+/w", NULL);
    expect_exit(&sub, 0);
    expect_output(&sub, "w2\nw3\n");
    cr_expect_str_eq(process_complained(&sub), gone);
    process_fini(&sub);
    for (size_t i = 0; i < 3; i++) {
        start(&sub, "sub", "-C2", "--from", from[i], "+/w", NULL);
        expect_exit(&sub, 0);
        expect_output(&sub, "w2\nw3\n");
        bool is_told = i != 1;
        cr_expect_eq(strstr(process_complained(&sub), "are gone") != NULL, is_told, "%s: %s",
                     from[i], process_complained(&sub));
        process_fini(&sub);
    }
    start(&sub, "sub", "-C2", "--json", "+/w", NULL);
    json_t *line = expect_json(&sub);
    cr_expect_str_eq(text_of(line, "kind"), "gap");
    cr_expect_str_eq(text_of(line, "topic"), "alice/w");
    cr_expect_str_eq(text_of(line, "type"), "errbus.not_kept");
    cr_expect_eq(number_of(line, "seq"), 0);
    cr_expect_eq(number_of(line, "missing"), 2);
    json_decref(line);
    expect_exit(&sub, 0);
    process_fini(&sub);
}

Test(cli, holds_the_job_back_where_it_is_told_to)
{
    static const char *const flags[][4] = {{"--block", "--json"},
                                           {"--json", "--durable", "all", "-pbob"}};
    for (size_t i = 0; i < 2; i++) {
        struct process sub;
        stage_close();
        stage_open_small();
        start(&sub, "sub", "alice/w", flags[i][0], flags[i][1], flags[i][2], flags[i][3], NULL);
        uint64_t count = publish_to_frozen(&sub, i == 0 ? "alice/w" : "all");
        cr_expect_lt(count, BLOCKS);
        cr_expect_eq(expect_all_told(&sub, count), 0);
        process_fini(&sub);
    }
}

/* ---- signals --------------------------------------------------------------------------------- */

/* Twice the SIGTERM of anything that waits: in good order the first time, at once the second. */
Test(cli, leaves_when_told_to)
{
    struct process sub;
    struct process pub;
    struct process tap;
    run_pub("alice", "w", "x");
    start(&sub, "sub", "+/w", NULL);
    expect_line(&sub, "x");
    process_signal(&sub, SIGTERM);
    expect_exit(&sub, 128 + SIGTERM);
    process_fini(&sub);

    start(&tap, "tap", "--json", "--from", "oldest", NULL);
    json_decref(expect_json(&tap));
    process_signal(&tap, SIGINT);
    expect_exit(&tap, 128 + SIGINT);
    process_fini(&tap);

    start(&pub, "pub", "-p", "bob", "w", "--reserve-only", NULL);
    expect_line(&pub, "reserved bob/w 0");
    process_signal(&stage.process, SIGSTOP);
    process_signal(&pub, SIGTERM);
    cr_expect_eq(process_wait(&pub, 200), -1, "it cannot have said goodbye");
    int64_t start_ms = test_now_ms();
    process_signal(&pub, SIGTERM);
    expect_exit(&pub, 128 + SIGTERM);
    cr_expect_lt(test_now_ms() - start_ms, AT_ONCE_MS);
    process_signal(&stage.process, SIGCONT);
    process_fini(&pub);
}

/* ---- tap ------------------------------------------------------------------------------------- */

Test(cli, taps_the_whole_story)
{
    struct process pub;
    struct process tap;
    start(&tap, "tap", "--json", "--from", "1", "-W", "20", NULL);
    start(&pub, "pub", "-p", "alice", "w", "--fail", "app.x:why", NULL);
    expect_exit(&pub, 0);
    process_fini(&pub);
    json_t *event = expect_tapped(&tap, "party.joined");
    cr_expect_eq(number_of(event, "id"), 1);
    cr_expect_str_eq(text_of(event, "party"), "alice");
    cr_expect_eq(number_of(event, "incarnation"), 1);
    cr_expect_str_eq(text_of(event, "job"), "default");
    cr_expect(json_is_false(json_object_get(event, "durable")), "there is no journal");
    cr_expect_neq(strcmp(text_of(event, "at"), "(none)"), 0);
    json_decref(event);
    event = expect_tapped(&tap, "slot.failed");
    cr_expect_str_eq(text_of(event, "topic"), "alice/w");
    cr_expect_eq(number_of(event, "seq"), 0);
    const json_t *error = json_object_get(event, "error");
    static const char *const keys[] = {"id",          "kind",  "type", "message",
                                       "party",       "topic", "seq",  "recoverable",
                                       "occurred_at", "cause", "root"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        cr_expect_not_null(json_object_get(error, keys[i]), "the error has no '%s'", keys[i]);
    }
    cr_expect_str_eq(text_of(error, "message"), "why");
    json_decref(event);
    event = expect_tapped(&tap, "party.left");
    json_decref(event);

    start(&pub, "pub", "-p", "alice", "w", "--reserve-only", NULL);
    expect_line(&pub, "reserved alice/w 1");
    process_signal(&pub, SIGKILL);
    json_decref(expect_tapped(&tap, "party.suspect"));
    event = expect_tapped(&tap, "party.lost");
    cr_expect_eq(number_of(event, "incarnation"), 2);
    cr_expect_eq(number_of(event, "count"), 1);
    cr_expect_str_eq(text_of(json_object_get(event, "error"), "kind"), "party_lost");
    json_decref(event);
    process_fini(&pub);
    process_signal(&tap, SIGTERM);
    expect_exit(&tap, 128 + SIGTERM);
    process_fini(&tap);
}

static void expect_said(struct process *process, const char *text)
{
    cr_expect_not_null(strstr(process_said(process), text), "not '%s' in: %s", text,
                       process_said(process));
}

Test(cli, taps_as_json_where_there_is_no_terminal)
{
    struct process tap;
    run_pub("alice", "w", "x");
    start(&tap, "tap", "--from", "oldest", "-C", "1", NULL);
    json_t *event = expect_json(&tap);
    cr_expect_str_eq(text_of(event, "event"), "party.joined");
    json_decref(event);
    expect_exit(&tap, 0);
    process_fini(&tap);
    start(&tap, "tap", "--since", "oldest", "-C", "2", "--text", NULL);
    expect_exit(&tap, 0);
    expect_said(&tap, " party.joined    alice/1\n");
    expect_said(&tap, " party.left      alice/1\n");
    cr_expect_null(strchr(process_said(&tap), '\033'));
    process_fini(&tap);
}

Test(cli, taps_from_one_event_to_another)
{
    struct process tap;
    static const char *const wrong[][2] = {{"2", "1"}, {"oldest", "0"}, {"now", "x"}};
    run_pub("alice", "w", "x");
    run_pub("bob", "w", "x");
    start(&tap, "tap", "--since", "2", "--until", "3", "--text", NULL);
    expect_exit(&tap, 0);
    expect_said(&tap, " party.left      alice/1\n");
    expect_said(&tap, " party.joined    bob/1\n");
    cr_expect_null(strstr(process_said(&tap), "joined    alice"));
    cr_expect_null(strstr(process_said(&tap), "left      bob"));
    process_fini(&tap);
    start(&tap, "tap", "--until", "1", "--text", NULL);
    expect_exit(&tap, 0);
    expect_said(&tap, " party.joined    alice/1\n");
    process_fini(&tap);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        start(&tap, "tap", "--since", wrong[i][0], "--until", wrong[i][1], NULL);
        expect_exit(&tap, 2);
        process_fini(&tap);
    }
}

/* script(1) gives it a terminal. */
Test(cli, taps_in_colour_on_a_terminal_that_has_them)
{
    static const struct {
        const char *environment;
        bool has_colours;
    } cases[] = {
        {"env -u NO_COLOR TERM=xterm", true}, {"env NO_COLOR= TERM=xterm", true},
        {"env NO_COLOR=1 TERM=xterm", false}, {"env -u NO_COLOR TERM=dumb", false},
        {"env -u NO_COLOR -u TERM", false},
    };
    char program[512];
    run_pub("alice", "w", "x");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct process tap;
        char command[800];
        snprintf(command, sizeof command, "%s '%s' tap -s %s --from oldest -C 2",
                 cases[i].environment, process_path("errbus", program, sizeof program),
                 stage.control);
        const char *const argv[] = {"/usr/bin/script", "-qec", command, "/dev/null", NULL};
        cr_assert(process_start(&tap, argv, NULL));
        expect_exit(&tap, 0);
        expect_said(&tap, " party.left      alice/1");
        cr_expect_eq(strstr(process_said(&tap), " \033[32mparty.joined   \033[0m alice/1") != NULL,
                     cases[i].has_colours, "%s: %s", cases[i].environment, process_said(&tap));
        cr_expect_eq(strchr(process_said(&tap), '\033') != NULL, cases[i].has_colours);
        process_fini(&tap);
    }
}

/* A socket that keeps the bounds of messages shows each write by itself. */
Test(cli, writes_each_line_of_an_error_at_once)
{
    int ends[2];
    char program[512];
    char line[4096];
    process_path("errbus", program, sizeof program);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        if (dup2(ends[1], STDERR_FILENO) >= 0)
            execl(program, program, "status", "-s", "ipc:///nonexistent/bus", "-W", "0.1", NULL);
        _exit(127);
    }
    close(ends[1]);
    ssize_t bytes;
    int lines = 0;
    while ((bytes = read(ends[0], line, sizeof line)) > 0) {
        cr_expect_eq(line[bytes - 1], '\n', "a write without the end of a line: %.*s", (int)bytes,
                     line);
        lines++;
    }
    cr_expect_geq(lines, 1);
    close(ends[0]);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

/* What a party says of its failure is no command to the terminal of who reads it, and one line. */
Test(cli, shows_control_characters_as_what_they_are)
{
    struct process process;
    start(&process, "pub", "-p", "alice", "w", "--fail", "app.x:one\n\033[2Jtwo\302\233", NULL);
    expect_exit(&process, 0);
    process_fini(&process);
    start(&process, "tap", "--text", "--from", "2", "-C", "1", NULL);
    expect_exit(&process, 0);
    expect_said(&process, "app.x: \\x1b[2Jtwo\\u009b\n"); /* what happened, on one line */
    process_fini(&process);
    start(&process, "sub", "-C", "1", "alice/w", NULL);
    expect_exit(&process, 3);
    expect_complaint(&process, "app.x:  [2Jtwo\\u009b [alice/w#0]");
    expect_complaint(&process, "\n    one\n");
    process_fini(&process);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* Bob fails because of alice, with all that an error can say. */
static void fail_because_of_alice(void)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open_frank("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.disk_full", "no space left");
    struct bus_error *why = expect_error(sub, "alice/w", 0, "application");
    struct bus_error *error = bus_error_new("app.no_input", why, "nothing to work on");
    cr_assert_eq(bus_error_set_code(error, 28), BUS_OK);
    cr_assert_eq(bus_error_set_blame(error, "alice"), BUS_OK);
    cr_assert_eq(bus_error_add_blame(error, "dave"), BUS_OK);
    cr_assert_eq(bus_error_set_recoverable(error, 1), BUS_OK);
    cr_assert_eq(bus_error_set_retry_after(error, 500), BUS_OK);
    cr_assert_eq(bus_error_set_stacktrace(error, "at first\n\tat last"), BUS_OK);
    for (int i = 0; i < 3; i++) { /* one error for three slots */
        slot = must_reserve(bob, "mean");
        bus_slot_fail(&slot, error);
    }
    must_flush(bob);
    bus_error_unref(&error);
    bus_error_unref(&why);
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
}

/* A party that is killed owing something. */
static void lose_carol(void)
{
    struct process pub;
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    start(&pub, "pub", "-p", "carol", "w", "--reserve-only", NULL);
    expect_line(&pub, "reserved carol/w 0");
    process_signal(&pub, SIGKILL);
    (void)expect_event(tap, "party.lost", "carol");
    bus_tap_close(&tap);
    process_fini(&pub);
}

Test(cli, has_no_errors_where_nothing_failed)
{
    struct process errors;
    run_pub("alice", "w", "x");
    static const char *const flags[] = {"--json", "-jdefault", "--since=1", "--since=oldest",
                                        "--since=99"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        start(&errors, "errors", flags[i], NULL);
        expect_exit(&errors, 0);
        expect_output(&errors, "");
        cr_expect_str_eq(process_complained_of(&errors), "");
        process_fini(&errors);
    }
}

Test(cli, says_that_the_job_it_was_asked_for_is_not_there)
{
    struct process asked;
    static const char *const questions[] = {"errors", "status"};
    run_pub("alice", "w", "x");
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        start(&asked, questions[i], "-jtypo", NULL);
        expect_exit(&asked, 2);
        expect_output(&asked, "");
        cr_expect_not_null(
            strstr(process_complained(&asked), "there is no job typo; the jobs are "), "%s",
            process_complained(&asked));
        process_fini(&asked);
    }
}

Test(cli, lists_each_error_once_and_oldest_first)
{
    static const char *const types[] = {"app.disk_full", "app.no_input",
                                        "errbus.connection_closed"};
    struct process errors;
    fail_because_of_alice();
    lose_carol();
    start(&errors, "errors", "--json", NULL);
    int64_t last_id = 0;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        json_t *error = expect_json(&errors);
        const json_t *event = json_object_get(error, "event");
        cr_expect_str_eq(text_of(error, "type"), types[i]);
        cr_expect_gt(number_of(event, "id"), last_id);
        cr_expect_str_eq(text_of(event, "job"), "default");
        last_id = number_of(event, "id");
        json_decref(error);
    }
    expect_exit(&errors, 0);
    const char *line = NULL;
    cr_expect_not(process_line(&errors, 0, &line), "one more: %s", line);
    process_fini(&errors);

    char since[32];
    snprintf(since, sizeof since, "%lld", (long long)last_id);
    start(&errors, "errors", "--json", "--since", since, NULL);
    json_t *error = expect_json(&errors);
    cr_expect_str_eq(text_of(error, "type"), "errbus.connection_closed");
    cr_expect_str_eq(text_of(error, "kind"), "party_lost");
    cr_expect_str_eq(text_of(json_object_get(error, "event"), "event"), "party.lost");
    json_decref(error);
    expect_exit(&errors, 0);
    process_fini(&errors);

    start(&errors, "errors", "--count", "2", NULL);
    expect_exit(&errors, 0);
    expect_said(&errors, "alice: application app.disk_full: no space left [alice/w#0]");
    expect_said(&errors, "bob: application app.no_input: nothing to work on [bob/mean#0]");
    expect_said(&errors, "       because alice: application app.disk_full");
    cr_expect_null(strstr(process_said(&errors), "carol"));
    process_fini(&errors);
}

static void expect_bobs_error(const json_t *error)
{
    static const char *const keys[] = {"id",  "host",      "occurred_at",   "incarnation",
                                       "pid", "broker_ns", "uncertainty_ns"};
    const json_t *cause = json_object_get(error, "cause");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        cr_expect_not_null(json_object_get(error, keys[i]), "the error has no '%s'", keys[i]);
    }
    cr_expect_str_eq(text_of(error, "message"), "nothing to work on");
    cr_expect_str_eq(text_of(error, "party"), "bob");
    cr_expect_str_eq(text_of(error, "topic"), "bob/mean");
    cr_expect_str_eq(text_of(error, "stacktrace"), "at first\n\tat last");
    cr_expect_str_eq(text_of(error, "blame"), "alice");
    const json_t *blames = json_object_get(error, "blames");
    cr_expect_eq(json_array_size(blames), 2);
    cr_expect_str_eq(json_string_value(json_array_get(blames, 1)), "dave");
    cr_expect_str_eq(text_of(error, "origin"), "user");
    cr_expect_eq(number_of(error, "attempt"), 1);
    cr_expect_eq(number_of(error, "code"), 28);
    cr_expect_eq(number_of(error, "seq"), 0);
    cr_expect_eq(number_of(error, "retry_after_ms"), 500);
    cr_expect(json_is_true(json_object_get(error, "recoverable")));
    cr_expect_str_eq(text_of(cause, "type"), "app.disk_full");
    cr_expect_str_eq(text_of(cause, "party"), "alice");
    cr_expect_str_eq(text_of(json_object_get(error, "root"), "type"), "app.disk_full");
}

Test(cli, shows_the_whole_of_one_error)
{
    struct process errors;
    char bob[256];
    char alice[256];
    fail_because_of_alice();
    start(&errors, "errors", "--json", NULL);
    json_t *error = expect_json(&errors);
    snprintf(alice, sizeof alice, "%s", text_of(error, "id"));
    json_decref(error);
    error = expect_json(&errors);
    snprintf(bob, sizeof bob, "%s", text_of(error, "id"));
    expect_bobs_error(error);
    json_decref(error);
    expect_exit(&errors, 0);
    process_fini(&errors);

    start(&errors, "errors", "--json", "show", bob, NULL);
    error = expect_json(&errors);
    expect_bobs_error(error);
    cr_expect_str_eq(text_of(json_object_get(error, "event"), "event"), "slot.failed");
    json_decref(error);
    expect_exit(&errors, 0);
    process_fini(&errors);

    start(&errors, "errors", "show", bob, NULL);
    expect_exit(&errors, 0);
    expect_said(&errors, "message       nothing to work on\n");
    expect_said(&errors, "stacktrace   \nat first\n\tat last\n");
    expect_said(&errors, "retry after   500 ms\n");
    expect_said(&errors, "blames        alice\nblames        dave\n");
    expect_said(&errors, "origin        user\nparty         bob/1, attempt 1\n");
    expect_said(&errors, "\nbroker clock  ");
    expect_said(&errors, "\nbecause (root)\nid            default/alice/1/1\n");
    process_fini(&errors);

    /* Behind alice's own event it is there as what led to bob's. */
    start(&errors, "errors", "--since", "5", "show", alice, NULL);
    expect_exit(&errors, 0);
    expect_said(&errors, "type          app.disk_full\n");
    process_fini(&errors);

    start(&errors, "errors", "show", "default/alice/1/99", NULL);
    expect_exit(&errors, 1);
    expect_output(&errors, "");
    expect_complaint(&errors, "no error 'default/alice/1/99'");
    process_fini(&errors);
}

/* The ring of events goes round; who asks for what is gone is told so. */
Test(cli, says_which_errors_are_no_longer_kept)
{
    enum { FAILED = 17000 }; /* more than 16384, LIMIT_EVENTS */
    const char *const each[] = {"--test-like-errors", "1000000", NULL};
    stage_close();
    stage_open_with(each);
    struct bus *alice = must_open("alice");
    for (int i = 0; i < FAILED; i++) {
        struct bus_slot *slot = must_reserve(alice, "w");
        fail_slot(&slot, "app.x", "one of many");
        if (i % 1000 == 0) {
            must_flush(alice);
        }
    }
    must_close(&alice);
    struct process errors;
    start(&errors, "errors", "--since", "2", "--json", NULL);
    expect_exit(&errors, 0);
    expect_complaint(&errors, "events 2 to ");
    size_t lines = 0;
    for (const char *at = process_said(&errors); (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    cr_expect_eq(lines, 16383, "%zu: all that are kept, but for party.left", lines);
    process_fini(&errors);
}

/* ---- status ---------------------------------------------------------------------------------- */

Test(cli, shows_the_status)
{
    struct process pub;
    struct process sub;
    struct process status;
    start(&pub, "pub", "-j", "shown", "-p", "alice", "w", "--reserve-only", NULL);
    expect_line(&pub, "reserved alice/w 0");
    start(&status, "status", NULL);
    expect_exit(&status, 0);
    expect_said(&status, "1 party: 1 running; 1 open slot; no journal\n");
    expect_said(&status, " s, durability memory, ");
    expect_said(&status, "job shown (running): 1 party, 1 open slot");
    expect_said(&status, "  alice/1  running     1  heard ");
    expect_said(&status, "  alice/w     1     1     0 ");
    process_fini(&status);

    start(&sub, "sub", "-j", "shown", "-p", "bob", "--durable", "all", "+/w", NULL);
    await_subscription("shown", "all");
    process_signal(&sub, SIGSTOP);
    start(&status, "pub", "-j", "shown", "-p", "carol", "w", "x", NULL);
    expect_exit(&status, 0);
    process_fini(&status);
    start(&status, "status", "-j", "shown", NULL);
    expect_exit(&status, 0);
    /* The value, and the open slot that it waits for. */
    expect_said(&status, "  all           live        2  bob\n");
    expect_said(&status, "  carol/1  left        0  "); /* and no last sign of life */
    cr_expect_null(strstr(process_said(&status), "ended 0"));
    process_fini(&status);

    start(&status, "status", "--json", "-j", "shown", NULL);
    expect_exit(&status, 0);
    bool is_shown[4] = {false, false, false, false};
    json_t *line = expect_json(&status);
    cr_expect_str_eq(text_of(line, "kind"), "broker");
    cr_expect_str_eq(text_of(line, "version"), bus_version());
    cr_expect_str_eq(text_of(line, "durability"), "memory");
    json_decref(line);
    line = expect_json(&status);
    cr_expect_str_eq(text_of(line, "kind"), "journal");
    cr_expect_str_eq(text_of(line, "backend"), "none");
    cr_expect_str_eq(text_of(line, "directory"), "");
    cr_expect_eq(number_of(line, "bytes"), 0);
    json_decref(line);
    const char *text = NULL;
    while (process_line(&status, 0, &text)) {
        line = json_loads(text, 0, NULL);
        is_shown[0] |= strcmp(text_of(line, "kind"), "job") == 0;
        is_shown[1] |= strcmp(text_of(line, "kind"), "party") == 0 &&
                       strcmp(text_of(line, "state"), "running") == 0 &&
                       number_of(line, "silent_ms") >= 0;
        is_shown[2] |= strcmp(text_of(line, "kind"), "topic") == 0 && number_of(line, "open") == 1;
        is_shown[3] |= strcmp(text_of(line, "kind"), "subscription") == 0 &&
                       strcmp(text_of(line, "name"), "all") == 0 && number_of(line, "lag") == 2;
        json_decref(line);
    }
    cr_expect(is_shown[0] && is_shown[1] && is_shown[2] && is_shown[3], "%s",
              process_said(&status));
    process_fini(&status);
    process_fini(&sub);
    process_fini(&pub);
}

/* ---- exit codes ------------------------------------------------------------------------------ */

static void expect_usage(const char *const *words)
{
    struct process process;
    const char *argv[ARGUMENTS_MAX] = {"errbus"};
    size_t count = 1;
    for (; words[count - 1] != NULL; count++) {
        argv[count] = words[count - 1];
    }
    cr_assert(process_start(&process, argv, NULL));
    int got = process_wait(&process, SOON_MS);
    cr_expect_eq(got, 2, "errbus %s %s ...: %d", words[0] != NULL ? words[0] : "",
                 words[0] != NULL && words[1] != NULL ? words[1] : "", got);
    cr_expect_str_neq(process_complained(&process), "");
    process_fini(&process);
}

/* Nothing matches a pattern of one level.  Nothing is sent, and so no broker is needed. */
static void expect_one_level_refused(const char *const *argv)
{
    struct process process;
    cr_assert(process_start(&process, argv, NULL));
    expect_exit(&process, 2);
    expect_complaint(&process, "topics are PARTY/NAME; did you mean '+/hello'?");
    process_fini(&process);
}

Test(cli, says_what_a_topic_is_to_who_names_one_level)
{
    const char *const sub[] = {"errbus", "sub", "-s", "ipc:///nonexistent", "hello", NULL};
    const char *const worker[] = {"errbus",  "worker", "-s", "ipc:///nonexistent",
                                  "--topic", "hello",  "g",  "--",
                                  "true",    NULL};
    expect_one_level_refused(sub);
    expect_one_level_refused(worker);
}

/* A party that somebody waits for, and that never joined, is none that the job has. */
Test(cli, shows_no_party_that_never_joined)
{
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alise/w");
    struct process status;
    start(&status, "status", NULL);
    expect_exit(&status, 0);
    cr_expect_null(strstr(process_said(&status), "scheduling"), "%s", process_said(&status));
    cr_expect_null(strstr(process_said(&status), "alise/0"), "%s", process_said(&status));
    cr_expect_not_null(strstr(process_said(&status), "alise/w"), "%s", process_said(&status));
    process_fini(&status);
    bus_sub_close(&sub);
    must_close(&bob);
}

Test(cli, says_2_of_a_wrong_call)
{
    static const char *const calls[][8] = {
        {NULL},
        {"nonsense", NULL},
        {"pub", NULL},
        {"pub", "w", "x", "y", NULL},
        {"pub", "w", "--fail", "no-colon", NULL},
        {"pub", "w", "--fail", "a:b", "--reserve-only", NULL},
        {"pub", "w", "x", "--reserve-only", NULL},
        {"pub", "w", "--hold", "1", NULL},
        {"pub", "w", "x", "--file", "/dev/null", NULL},
        {"pub", "w", "--file", "/dev/null", "--reserve-only", NULL},
        {"pub", "w", "x", "--seq", "-1", NULL},
        {"sub", "a/#", "--raw", "-v", NULL},
        {"sub", "a/#", "--raw", "--json", NULL},
        {"pub", "w", "--nonsense", NULL},
        {"pub", "w", "x", "-W", "soon", NULL},
        {"sub", NULL},
        {"sub", "a", "b", NULL},
        {"sub", "a/#", "--count", "-1", NULL},
        {"sub", "a/#", "--count", NULL},
        {"sub", "a/#", "--from", "nowhere", NULL},
        {"tap", "x", NULL},
        {"tap", "--from", "nowhere", NULL},
        {"tap", "--text", "--json", NULL},
        {"tap", "--since", "nowhere", NULL},
        {"errors", "x", NULL},
        {"errors", "show", NULL},
        {"errors", "show", "a", "b", NULL},
        {"errors", "--since", "now", NULL},
        {"status", "x", NULL},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        expect_usage(calls[i]);
    }
    static const char *const names[][2] = {{"sub", "a//b"}, {"sub", "a/#/b"}, {"pub", "a/+"},
                                           {"pub", "/w"},   {"pub", "a/w/"},  {"pub", ""},
                                           {"pub", "a//w"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct process process;
        const char *value = strcmp(names[i][0], "pub") == 0 ? "x" : NULL;
        start(&process, names[i][0], "-p", "a", names[i][1], value, NULL);
        int got = process_wait(&process, SOON_MS);
        cr_expect_eq(got, 2, "errbus %s '%s': %d", names[i][0], names[i][1], got);
        process_fini(&process);
    }
}

/* errbus help NAME is what NAME says itself; who mistypes is told what may have been meant. */
Test(cli, helps_who_does_not_know_a_word)
{
    struct process own;
    struct process help;
    cr_assert(process_start(&own, (const char *const[]){"errbus", "sub", "-h", NULL}, NULL));
    cr_assert(process_start(&help, (const char *const[]){"errbus", "help", "sub", NULL}, NULL));
    expect_exit(&own, 0);
    expect_exit(&help, 0);
    cr_expect_str_eq(process_said(&help), process_said(&own));
    process_fini(&own);
    process_fini(&help);
    static const struct {
        const char *words[4];
        const char *complaint;
    } cases[] = {
        {{"errbus", "stauts", NULL}, "unknown subcommand 'stauts'; did you mean 'status'?"},
        {{"errbus", "help", "pubb", NULL}, "unknown subcommand 'pubb'; did you mean 'pub'?"},
        {{"errbus", "publish", NULL}, "unknown subcommand 'publish' (errbus -h lists them)"},
        {{"errbus", "pub", "--resrve-only", NULL},
         "unknown flag '--resrve-only'; did you mean --reserve-only?"},
        {{"errbus", "pub", "--reserve-only=1", NULL},
         "--reserve-only takes no value, as '--reserve-only=1' has"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert(process_start(&help, cases[i].words, NULL));
        expect_exit(&help, 2);
        expect_complaint(&help, cases[i].complaint);
        process_fini(&help);
    }
}

/* The error is the one that cancelled the job: the event says which party it ended. */
Test(cli, says_which_party_was_terminated)
{
    struct process errors;
    struct bus *alice = must_open("alice");
    expect_code(bus_admin_job_cancel(stage_admin(), "default", "enough", SOON_MS, NULL), BUS_OK);
    struct bus_tap *tap = must_tap(NULL, 1);
    (void)expect_event(tap, "party.terminated", "alice");
    bus_tap_close(&tap);
    (void)bus_close(&alice, SOON_MS);
    start(&errors, "errors", NULL);
    expect_exit(&errors, 0);
    expect_said(&errors, "party.terminated alice/1");
    process_fini(&errors);
}

Test(cli, says_0_of_help)
{
    static const char *const calls[][4] = {
        {"errbus", "-h", NULL},          {"errbus", "--version", NULL},
        {"errbus", "pub", "-h", NULL},   {"errbus", "sub", "--help", NULL},
        {"errbus", "help", "pub", NULL}, {"errbus", "-V", NULL},
        {"errbus", "tap", "-h", NULL},   {"errbus", "status", "-h", NULL},
        {"errbus", "errors", "-h", NULL}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct process process;
        cr_assert(process_start(&process, calls[i], NULL));
        expect_exit(&process, 0);
        cr_expect_str_neq(process_said(&process), "");
        cr_expect_str_eq(process_complained(&process), "");
        process_fini(&process);
    }
}

Test(cli, says_1_where_its_output_cannot_be_written)
{
    struct process sub;
    char command[600];
    char program[512];
    run_pub("alice", "w", "x");
    snprintf(command, sizeof command, "'%s' sub -s %s -C 1 alice/w >/dev/full",
             process_path("errbus", program, sizeof program), stage.control);
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    cr_assert(process_start(&sub, argv, NULL));
    expect_exit(&sub, 1);
    process_fini(&sub);
}

/* A stream that is closed is not taken over by a socket. */
Test(cli, says_1_where_a_stream_is_closed)
{
    static const struct {
        const char *words;
        const char *complaint;
    } rows[] = {
        {"pub -p bob w <&-", "standard input: Bad file descriptor"},
        {"sub -C 1 alice/w >&-", "standard output: Bad file descriptor"},
        {"status <&- >&-", "standard output: Bad file descriptor"},
    };
    run_pub("alice", "w", "x");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct process process;
        char command[700];
        char program[512];
        snprintf(command, sizeof command, "export ERRBUS_SERVER=%s; exec '%s' %s", stage.control,
                 process_path("errbus", program, sizeof program), rows[i].words);
        const char *const argv[] = {"/bin/sh", "-c", command, NULL};
        cr_assert(process_start(&process, argv, NULL));
        expect_exit(&process, 1);
        expect_complaint(&process, rows[i].complaint);
        process_fini(&process);
    }
}

Test(cli, says_4_when_the_time_is_up)
{
    struct process sub;
    int64_t start_ms = test_now_ms();
    start(&sub, "sub", "-W", "3", "alice/w", NULL); /* the time to reach the broker, too */
    expect_exit(&sub, 4);
    cr_expect_geq(test_now_ms() - start_ms, 2999);
    process_fini(&sub);
}

Test(cli, says_5_when_the_broker_is_lost)
{
    struct process sub;
    struct process tap;
    struct process pub;
    run_pub("alice", "w", "x");
    start(&sub, "sub", "+/w", NULL);
    expect_line(&sub, "x");
    start(&tap, "tap", "--from", "oldest", NULL);
    const char *line = NULL;
    cr_assert(process_line(&tap, SOON_MS, &line));
    start(&pub, "pub", "-p", "bob", "w", "--reserve-only", NULL);
    expect_line(&pub, "reserved bob/w 0");
    cr_expect_eq(broker_stop(&stage, SOON_MS), 0);
    expect_exit(&sub, 5); /* each after broker_lost_ms, 30 s: it might have come back */
    expect_exit(&tap, 5);
    expect_exit(&pub, 5);
    process_fini(&sub);
    process_fini(&tap);
    process_fini(&pub);

    /* Nobody there. */
    start(&sub, "sub", "-W", "0.3", "alice/w", NULL);
    expect_exit(&sub, 5);
    process_fini(&sub);
    start(&sub, "status", "-W", "0.3", NULL);
    expect_exit(&sub, 5);
    process_fini(&sub);
    start(&sub, "errors", "-W", "0.3", NULL);
    expect_exit(&sub, 5);
    process_fini(&sub);
}

/* Questions that are repeated until --wait is over; complaint: of the end, NULL: none. */
static const struct repeated {
    const char *words[4];
    int code;
    const char *complaint;
} repeated[] = {
    {{"status", "-C", "1000000"}, 4, "errbus status: timed out: --wait "},
    {{"status", "-jdefault", "-C", "1000000"}, 4, "errbus status: timed out: --wait "},
    {{"why", "--watch"}, 4, "errbus why: timed out: --wait "},
    {{"why", "--without=alice", "--watch"}, 4, "errbus why: timed out: --wait "},
    {{"ping", "-C", "1000000"}, 0, NULL},
};

/* Starts it with so much time that the broker answers once: a busy machine needs more. */
static void start_answered(const struct repeated *asked, struct process *process, double wait_s)
{
    char wait[32];
    const char *line = NULL;
    for (;; wait_s *= 2) {
        snprintf(wait, sizeof wait, "-W%g", wait_s);
        start(process, asked->words[0], wait, asked->words[1], asked->words[2], asked->words[3],
              NULL);
        if (process_line(process, 3 * SOON_MS, &line)) {
            return;
        }
        cr_assert_lt(wait_s, SOON_MS / 1000, "%s: %s", asked->words[0],
                     process_complained(process));
        process_fini(process);
    }
}

static void expect_end_of_wait(const struct repeated *asked, struct process *process)
{
    expect_exit(process, asked->code);
    if (asked->complaint != NULL) {
        expect_complaint(process, asked->complaint);
    } else {
        cr_expect_str_eq(process_complained_of(process), "");
    }
    process_fini(process);
}

Test(cli, repeats_a_question_until_the_wait_is_over)
{
    struct process process;
    struct bus *alice = must_open("alice");
    for (size_t i = 0; i < sizeof repeated / sizeof repeated[0]; i++) {
        start_answered(&repeated[i], &process, 0.5);
        expect_end_of_wait(&repeated[i], &process);
    }
    must_close(&alice);
}

/* The broker answered, and is late by less than what makes it lost. */
Test(cli, ends_with_the_wait_while_a_repeated_question_is_under_way)
{
    struct process process;
    struct bus *alice = must_open("alice");
    for (size_t i = 0; i < sizeof repeated / sizeof repeated[0]; i++) {
        start_answered(&repeated[i], &process, 1.5);
        process_signal(&stage.process, SIGSTOP);
        expect_end_of_wait(&repeated[i], &process);
        process_signal(&stage.process, SIGCONT);
    }
    must_close(&alice);
}

Test(cli, says_6_when_denied_or_fenced)
{
    struct process first;
    struct process second;
    start(&first, "pub", "-p", "alice", "w", "--reserve-only", NULL);
    expect_line(&first, "reserved alice/w 0");
    start(&second, "pub", "-p", "alice", "w", "x", NULL);
    expect_exit(&second, 6);
    expect_complaint(&second, "errbus.name_taken");
    process_fini(&second);

    /* Nobody writes to the topic of another, not even one who is not there. */
    start(&second, "pub", "-p", "bob", "carol/w", "x", NULL);
    expect_exit(&second, 6);
    expect_complaint(&second, "topic 'carol/w' belongs to another party");
    process_fini(&second);
    run_pub("bob", "bob/w/deep", "x");

    /* Ten seconds of silence fence it. */
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    process_signal(&first, SIGSTOP);
    expect_event(tap, "party.lost", "alice");
    process_signal(&first, SIGCONT);
    expect_exit(&first, 6);
    process_fini(&first);
    bus_tap_close(&tap);
}
