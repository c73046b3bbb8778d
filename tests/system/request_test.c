/* SPDX-License-Identifier: MPL-2.0 */
/* request_test.c -- errbus request: asking from the shell. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

TestSuite(request, .init = stage_open, .fini = stage_close, .timeout = 240);

static void start(struct process *process, const char *const *words)
{
    const char *argv[16] = {"errbus", "request", "-s", stage.control, "-p", "shell"};
    size_t count = 6;
    for (size_t i = 0; words[i] != NULL; i++)
        argv[count++] = words[i];
    cr_assert(process_start(process, argv, NULL));
}
#define START(process, ...) start(process, (const char *const[]){__VA_ARGS__, NULL})

static void expect_exit(struct process *process, int expected)
{
    int result = process_wait(process, SOON_MS);
    cr_expect_eq(result, expected, "%d: %s", result, process_complained(process));
}

static void worker_start(struct process *worker, const char *script)
{
    const char *const argv[] = {"errbus", "worker", "-s", stage.control, "-t",   "+/tasks",
                                "team",   "--",     "sh", "-c",          script, NULL};
    cr_assert(process_start(worker, argv, NULL));
}

static void worker_stop(struct process *worker)
{
    process_signal(worker, SIGTERM);
    expect_exit(worker, 128 + SIGTERM);
    process_fini(worker);
}

static struct bus_sub *share(struct bus *bus)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.group = "team";
    return must_subscribe_with(bus, "+/tasks", &options);
}

/* errbus request on a terminal, which script(1) gives; a newline there is \r\n. */
static void expect_on_terminal(const char *value, const char *expected)
{
    char program[512];
    char command[800];
    struct process asks;
    snprintf(command, sizeof command, "'%s' request -s %s -p shell tasks %s",
             process_path("errbus", program, sizeof program), stage.control, value);
    const char *const argv[] = {"/usr/bin/script", "-qec", command, "/dev/null", NULL};
    cr_assert(process_start(&asks, argv, NULL));
    expect_exit(&asks, 0);
    cr_expect_str_eq(process_said(&asks), expected);
    process_fini(&asks);
}

/* For the prompt that comes next; one newline is enough. */
Test(request, ends_the_line_of_a_reply_on_a_terminal)
{
    struct process worker = {0};
    worker_start(&worker, "cat");
    expect_on_terminal("hello", "hello\r\n");
    expect_on_terminal("\"$(printf 'two\\nlines\\n.')\"", "two\r\nlines\r\n.\r\n");
    worker_stop(&worker);
    worker_start(&worker, "cat; echo");
    expect_on_terminal("hello", "hello\r\n");
    worker_stop(&worker);
}

Test(request, prints_the_reply_as_it_is)
{
    static const char bytes[] = "a\xff\x01\nb\n\n";
    struct process worker = {0};
    struct process asks = {0};
    worker_start(&worker, "cat; [ -t 0 ] || printf .");
    START(&asks, "tasks", "hello");
    expect_exit(&asks, 0);
    cr_expect_str_eq(process_said(&asks), "hello.");
    process_fini(&asks);
    START(&asks, "shell/tasks");
    cr_assert(process_say(&asks, bytes, sizeof bytes - 1));
    process_say_end(&asks);
    expect_exit(&asks, 0);
    cr_expect_str_eq(process_said(&asks), "a\xff\x01\nb\n\n.");
    process_fini(&asks);
    START(&asks, "-C", "3", "--json", "tasks", "x");
    expect_exit(&asks, 0);
    cr_expect_str_eq(
        process_said(&asks),
        "{\"kind\":\"reply\",\"topic\":\"shell/_replies\",\"seq\":2,\"value\":\"x.\"}\n"
        "{\"kind\":\"reply\",\"topic\":\"shell/_replies\",\"seq\":3,\"value\":\"x.\"}\n"
        "{\"kind\":\"reply\",\"topic\":\"shell/_replies\",\"seq\":4,\"value\":\"x.\"}\n");
    process_fini(&asks);
    worker_stop(&worker);
}

Test(request, prints_the_error_that_took_the_place_of_the_reply)
{
    struct process worker = {0};
    struct process asks = {0};
    worker_start(&worker, "echo trouble >&2; exit 3");
    START(&asks, "-C", "2", "tasks", "x");
    expect_exit(&asks, 3);
    cr_expect_str_eq(process_said(&asks), "");
    const char *told = strstr(process_complained(&asks), "run.exit_status");
    cr_assert_not_null(told, "%s", process_complained(&asks));
    cr_expect_not_null(strstr(told, "trouble"));
    cr_expect_null(strstr(told + 1, "run.exit_status"), "an error ends it");
    process_fini(&asks);
    START(&asks, "--json", "tasks", "x");
    expect_exit(&asks, 3);
    cr_expect_not_null(strstr(process_said(&asks),
                              "{\"kind\":\"error\",\"topic\":\"shell/_replies\","
                              "\"seq\":1,\"error\":{"));
    cr_expect_not_null(strstr(process_said(&asks), "\"type\":\"run.exit_status\""));
    process_fini(&asks);
    worker_stop(&worker);
}

Test(request, fails_at_its_deadline)
{
    struct process asks = {0};
    START(&asks, "--deadline", "0.2", "tasks", "x");
    expect_exit(&asks, 3);
    cr_expect_not_null(strstr(process_complained(&asks), "errbus.deadline"));
    process_fini(&asks);
}

Test(request, fails_when_nobody_serves_it_within_the_brokers_bound)
{
    struct process asks = {0};
    stage_close();
    stage_open_with((const char *const[]){"--unserved", "200ms", NULL});
    START(&asks, "tasks", "x");
    expect_exit(&asks, 3);
    cr_expect_not_null(strstr(process_complained(&asks), "errbus.unserved"));
    cr_expect_not_null(strstr(process_complained(&asks), "within 200 ms"));
    process_fini(&asks);
}

/* However it ends before the reply, its worker learns that nobody waits any more. */
static void expect_cancelled(struct process *asks, int signal, int expected)
{
    struct bus *worker = must_open("worker");
    struct bus_sub *sub = share(worker);
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    expect_code_of(bus_sub_recv(sub, SOON_MS, &msg, &error), BUS_OK, &error);
    cr_expect_eq(bus_msg_is_request(msg), 1);
    if (signal != 0)
        process_signal(asks, signal);
    expect_exit(asks, expected);
    must_publish(worker, "notes", "x"); /* the answer comes behind what the broker said of it */
    must_flush(worker);
    cr_expect_eq(bus_msg_is_over(msg, NULL), 1);
    bus_msg_free(&msg);
    bus_sub_close(&sub);
    must_close(&worker);
}

Test(request, is_cancelled_when_its_wait_is_over)
{
    struct process asks = {0};
    START(&asks, "-W", "1.5", "tasks", "x");
    expect_cancelled(&asks, 0, 4);
    cr_expect_str_eq(process_complained(&asks), "errbus request: timed out: --wait 1.5 passed\n");
    process_fini(&asks);
}

Test(request, is_cancelled_by_a_signal)
{
    struct process asks = {0};
    START(&asks, "tasks", "x");
    expect_cancelled(&asks, SIGTERM, 128 + SIGTERM);
    process_fini(&asks);
}

Test(request, refuses_what_breaks_the_rules)
{
    static const struct {
        const char *words[5];
        int expected;
    } rows[] = {
        {{NULL}, 2},
        {{"tasks", "x", "y", NULL}, 2},
        {{"a+b", "x", NULL}, 2},
        {{"--deadline", "0", "tasks", "x", NULL}, 2},
        {{"--deadline", "86400.001", "tasks", "x", NULL}, 2},
        {{"--deadline", "x", "tasks", "x", NULL}, 2},
        {{"other/tasks", "x", NULL}, 6},
        {{"-C", "0", "tasks", "x", NULL}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct process asks = {0};
        start(&asks, rows[i].words);
        expect_exit(&asks, rows[i].expected);
        process_fini(&asks);
    }
}
