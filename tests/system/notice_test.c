/* SPDX-License-Identifier: MPL-2.0 */
/* notice_test.c -- a party that waits for one that never joined is told so: by bus_notice(), its
 * descriptor and the tap. */
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(notice, .init = stage_open, .fini = stage_close, .timeout = 120);

#define TOLD_AFTER_MS INT64_C(1000)

static bool is_readable(int fd, int64_t timeout_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return poll(&poll_fd, 1, (int)timeout_ms) == 1;
}

/* The slot is awaited, and the library goes on waiting for it. */
static void begin_wait(struct bus *bus, const char *topic)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    expect_code_of(bus_await(bus, topic, 0, BUS_POLL, &msg, &error), BUS_ETIMEDOUT, &error);
}

static void expect_notice(struct bus *bus, const char *name)
{
    struct bus_error *notice = NULL;
    expect_code(bus_notice(bus, SOON_MS, &notice), BUS_OK);
    cr_expect_str_eq(bus_error_type(notice), "errbus.never_joined");
    cr_expect_str_eq(bus_error_kind(notice), "notice");
    cr_expect_str_eq(bus_error_blame(notice), name);
    cr_expect_str_eq(bus_error_party(notice), bus_party(bus));
    bus_error_unref(&notice);
}

static void expect_no_notice(struct bus *bus, int64_t timeout_ms, enum bus_err err)
{
    struct bus_error *notice = NULL;
    expect_code(bus_notice(bus, timeout_ms, &notice), err);
    cr_expect_null(notice);
}

Test(notice, tells_of_a_name_that_nobody_has_once)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_error *notice = NULL;
    int fd = bus_notice_fd(bob);
    int64_t start_ms = test_now_ms();
    begin_wait(bob, "alise/w");
    cr_expect_not(is_readable(fd, 0));
    expect_no_notice(bob, BUS_POLL, BUS_ETIMEDOUT);
    cr_assert(is_readable(fd, SOON_MS));
    cr_expect_geq(test_now_ms() - start_ms, TOLD_AFTER_MS - 1);
    cr_expect(is_readable(fd, 0), "it stays so until it is read");
    expect_code(bus_notice(bob, BUS_POLL, &notice), BUS_OK);
    cr_expect_not_null(strstr(bus_error_message(notice), "did you mean 'alice'?"), "%s",
                       bus_error_message(notice));
    cr_expect_eq(bus_failure(bob), NULL, "it is no failure");
    bus_error_unref(&notice);
    cr_expect_not(is_readable(fd, 0));

    begin_wait(bob, "alise/other");
    struct bus_sub *sub = must_subscribe(bob, "alise/#");
    expect_no_notice(bob, 2 * TOLD_AFTER_MS, BUS_ETIMEDOUT);
    expect_no_notice(alice, BUS_POLL, BUS_ETIMEDOUT);
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
}

Test(notice, tells_of_each_kind_of_wait)
{
    struct bus *bob = must_open("bob");
    struct bus_sub_options options;
    struct bus_want wants[] = {{.topic = "eve/w"}, {.topic = "fay/w"}};
    struct bus_error *error = NULL;
    bus_sub_options_init(&options);
    options.group = "workers";
    struct bus_sub *sub = must_subscribe(bob, "ann/w");
    struct bus_sub *member = must_subscribe_with(bob, "cat/tasks", &options);
    begin_wait(bob, "dan/w");
    expect_code_of(bus_gather(bob, wants, 2, 2, 0, 10, &error), BUS_ETIMEDOUT, &error);
    expect_notice(bob, "ann");
    expect_notice(bob, "cat");
    expect_notice(bob, "dan");
    expect_notice(bob, "eve");
    expect_notice(bob, "fay");
    bus_wants_free(wants, 2);
    bus_sub_close(&member);
    bus_sub_close(&sub);
    must_close(&bob);
}

Test(notice, tells_nothing_of_who_joins)
{
    struct bus *bob = must_open("bob");
    begin_wait(bob, "alice/w");
    struct bus *alice = must_open("alice");
    expect_no_notice(bob, 2 * TOLD_AFTER_MS, BUS_ETIMEDOUT);
    must_close(&alice);
    must_close(&bob);
}

Test(notice, is_an_event_of_the_tap)
{
    struct bus_tap *tap = NULL;
    struct bus_error *error = NULL;
    const struct bus_event *event = NULL;
    expect_code_of(bus_tap_open(stage.control, NULL, SOON_MS, &tap, &error), BUS_OK, &error);
    struct bus *bob = must_open("bob");
    begin_wait(bob, "alise/w");
    do {
        expect_code_of(bus_tap_next(tap, SOON_MS, &event, &error), BUS_OK, &error);
    } while (strcmp(bus_event_name(event), "party.never_joined") != 0);
    cr_expect_str_eq(bus_event_party(event), "bob");
    cr_expect_not_null(strstr(bus_event_text(event), "no party named 'alise'"));
    cr_expect_str_eq(bus_error_blame(bus_event_error(event)), "alise");
    bus_tap_close(&tap);
    must_close(&bob);
}

/* Who waits for a notice waits no longer than the bus goes on. */
static void *wait_for_notice(void *arg)
{
    expect_no_notice(arg, BUS_FOREVER, BUS_ECLOSED);
    return NULL;
}

Test(notice, ends_with_the_bus)
{
    pthread_t thread;
    struct bus *bob = must_open("bob");
    struct bus_error *notice = NULL;
    cr_assert_eq(pthread_create(&thread, NULL, wait_for_notice, bob), 0);
    bus_stop(bob);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_expect(is_readable(bus_notice_fd(bob), SOON_MS));
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        _exit(bus_notice(bob, BUS_FOREVER, &notice) == BUS_ECLOSED && bus_notice_fd(bob) == -1 ? 0
                                                                                               : 1);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    must_close(&bob);
}

/* What came before the end of the party is still there. */
Test(notice, is_kept_until_the_bus_is_closed)
{
    struct bus *bob = must_open("bob");
    begin_wait(bob, "alise/w");
    cr_assert(is_readable(bus_notice_fd(bob), SOON_MS));
    bus_stop(bob);
    expect_notice(bob, "alise");
    expect_no_notice(bob, BUS_FOREVER, BUS_ECLOSED);
    cr_expect(is_readable(bus_notice_fd(bob), 0));
    must_close(&bob);
}

/* The guard's own bus is told what its process waits for. */
Test(notice, comes_to_the_guard_as_well)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = "bob";
    options.is_guard = 1;
    struct bus *guard = must_open_with(&options);
    options.is_guard = 0;
    options.token = bus_token(guard);
    struct bus *program = must_open_with(&options);
    begin_wait(program, "alise/w");
    expect_notice(program, "alise");
    expect_notice(guard, "alise");
    must_close(&program);
    must_close(&guard);
}

/* The broker that starts again tells it again; the library does not. */
Test(notice, is_told_once_over_a_restart, .init = revival_open, .fini = revival_close)
{
    revival_start("process", NULL);
    struct bus *bob = revival_open_patient("bob");
    struct bus_sub *told = must_subscribe(bob, "alise/#");
    expect_notice(bob, "alise");
    struct bus_sub *late = must_subscribe(bob, "zoe/#");
    begin_wait(bob, "yan/w");
    must_flush(bob);
    revival_kill();
    revival_start("process", NULL);
    struct bus_error *first = NULL;
    struct bus_error *second = NULL;
    expect_code(bus_notice(bob, SOON_MS, &first), BUS_OK);
    expect_code(bus_notice(bob, SOON_MS, &second), BUS_OK);
    bool is_zoe_first = strcmp(bus_error_blame(first), "zoe") == 0;
    cr_expect_str_eq(bus_error_blame(first), is_zoe_first ? "zoe" : "yan");
    cr_expect_str_eq(bus_error_blame(second), is_zoe_first ? "yan" : "zoe");
    expect_no_notice(bob, 2 * TOLD_AFTER_MS, BUS_ETIMEDOUT);
    bus_error_unref(&first);
    bus_error_unref(&second);
    bus_sub_close(&late);
    bus_sub_close(&told);
    must_close(&bob);
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Runs a program that waits in vain, and expects this line on its standard error, once. */
static void expect_printed(const char *const *argv, int code, const char *line)
{
    struct process process;
    const char *environment[] = {NULL, NULL};
    char server[BROKER_ENDPOINT_BYTES_MAX + 16];
    (void)snprintf(server, sizeof server, "ERRBUS_SERVER=%s", stage.control);
    environment[0] = server;
    cr_assert(process_start(&process, argv, environment));
    int got = process_wait(&process, SOON_MS);
    cr_expect_eq(got, code, "%s ended with %d", argv[1], got);
    const char *complained = process_complained(&process);
    const char *first = strstr(complained, line);
    cr_expect_not_null(first, "%s says '%s'", argv[1], complained);
    cr_expect(first != NULL && strstr(first + 1, line) == NULL, "more than once: %s", complained);
    const char *other = strstr(complained, "errbus sub: no party");
    cr_expect(other == NULL || strcmp(argv[1], "sub") == 0, "twice: %s", complained);
    process_fini(&process);
}

Test(notice, is_printed_by_sub)
{
    struct bus *alice = must_open("alice");
    expect_printed((const char *const[]){"errbus", "sub", "-p", "bob", "-W", "2", "alise/w", NULL},
                   4,
                   "errbus sub: no party named 'alise' has ever joined the job; did you mean "
                   "'alice'? bob has waited for it for 10");
    must_close(&alice);
}

Test(notice, is_printed_by_worker)
{
    expect_printed((const char *const[]){"errbus", "worker", "-p", "bob", "-W", "2", "--topic",
                                         "alise/tasks", "team", "--", "true", NULL},
                   4,
                   "errbus worker: no party named 'alise' has ever joined the job; start it, or "
                   "correct the name; bob has waited for it for 10");
}

/* What then fails it says the same. */
Test(notice, is_printed_by_request)
{
    expect_printed(
        (const char *const[]){"errbus", "request", "-p", "bob", "-W", "2", "aks", "x", NULL}, 4,
        "errbus request: no group with a member takes requests of 'bob/aks'; start a "
        "worker, or correct the topic; they fail after 30000 ms without one");
}

/* The program is one of ours, and leaves it to its guard. */
Test(notice, is_printed_by_run_for_its_program)
{
    char errbus[4096];
    struct folder folder;
    cr_assert(folder_make(&folder));
    cr_assert_not_null(process_path("errbus", errbus, sizeof errbus));
    expect_printed((const char *const[]){"errbus", "run", "-p", "bob", "--log-dir", folder.path,
                                         "--", errbus, "sub", "-W", "2", "alise/w", NULL},
                   4,
                   "errbus run: no party named 'alise' has ever joined the job; start it, or "
                   "correct the name; bob has waited for it for 10");
    folder_fini(&folder);
}
