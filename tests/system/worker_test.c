/* SPDX-License-Identifier: MPL-2.0 */
/* worker_test.c -- errbus worker: a work queue from the shell. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

static struct folder folder;

static void set_up(void)
{
    stage_open();
    cr_assert(folder_make(&folder));
}

static void tear_down(void)
{
    folder_fini(&folder);
    stage_close();
}

TestSuite(worker, .init = set_up, .fini = tear_down, .timeout = 240);

static struct bus_msg *must_receive(struct bus_sub *sub)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    expect_code_of(bus_sub_recv(sub, SOON_MS, &msg, &error), BUS_OK, &error);
    return msg;
}

static void expect_task(struct bus_sub *sub, uint64_t seq, unsigned delivery)
{
    struct bus_msg *msg = must_receive(sub);
    cr_expect_eq(bus_msg_seq(msg), seq);
    cr_expect_eq(bus_msg_delivery(msg), delivery);
    bus_msg_free(&msg);
}

static uint64_t must_request(struct bus *bus, const char *text, int64_t deadline_ms)
{
    uint64_t seq = 0;
    expect_code(bus_request(bus, "tasks", text, strlen(text), deadline_ms, &seq), BUS_OK);
    return seq;
}

static struct bus_sub *share(struct bus *bus, int credit)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.group = "team";
    options.credit = credit;
    return must_subscribe_with(bus, "master/tasks", &options);
}

static void start(struct process *process, const char *option, const char *number,
                  const char *script)
{
    const char *const argv[] = {
        "errbus", "worker", "-s",   stage.control, "-p", "shell", "-t", "master/tasks", "--deliver",
        "2",      option,   number, "team",        "--", "sh",    "-c", script,         NULL};
    cr_assert(process_start(process, argv, NULL));
}

static void errbus_worker(struct process *process, const char *script)
{
    start(process, "--jobs", "1", script);
}

static void expect_said(struct process *process, const char *should)
{
    const char *line = NULL;
    cr_assert(process_complaint(process, SOON_MS, &line), "%s", process_complained(process));
    cr_assert_str_eq(line, should);
}

static void expect_exit(struct process *process, int expected)
{
    cr_expect_eq(process_wait(process, SOON_MS), expected, "%s", process_complained(process));
    process_fini(process);
}

/* A command that says that it has begun, and is done when there is a file of this name. */
#define UNTIL(name)                                                                                \
    "echo begun >&2; while ! [ -e $FOLDER/" name                                                   \
    " ]; do sleep 0.02; done; echo done $ERRBUS_TASK_SEQ"

static void let(const char *name)
{
    char path[FOLDER_PATH_BYTES_MAX];
    cr_assert(folder_write(&folder, name, "", path));
}

static void use_folder(void)
{
    cr_assert_eq(setenv("FOLDER", folder.path, 1), 0);
}

Test(worker, runs_a_command_for_each_task)
{
    struct process worker = {0};
    struct bus *master = must_open("master");
    errbus_worker(&worker, "read word; case $word in bad) echo trouble >&2; exit 3;; later) "
                           "[ $ERRBUS_TASK_DELIVERY = 2 ] || exit 75;; esac; "
                           "printf '%s %s' $word $ERRBUS_TASK_DELIVERY");
    uint64_t good = must_request(master, "good\n", BUS_FOREVER);
    uint64_t bad = must_request(master, "bad\n", BUS_FOREVER);
    uint64_t later = must_request(master, "later\n", BUS_FOREVER);
    expect_awaited(master, bus_replies(master), good, "good 1");
    struct bus_error *error = expect_await_failed(master, bus_replies(master), bad, "application");
    cr_expect_str_eq(bus_error_type(error), "run.exit_status");
    cr_expect_eq(bus_error_code(error), 3);
    cr_expect_not_null(strstr(bus_error_message(error), "trouble"));
    bus_error_unref(&error);
    expect_awaited(master, bus_replies(master), later, "later 2");
    process_signal(&worker, SIGTERM);
    cr_expect_eq(process_wait(&worker, SOON_MS), 128 + SIGTERM, "%s", process_complained(&worker));
    process_fini(&worker);
    must_close(&master);
}

Test(worker, ends_a_command_that_nobody_waits_for)
{
    struct process worker = {0};
    struct bus *master = must_open("master");
    errbus_worker(&worker, "read word; if [ $word = long ]; then echo begun >&2; exec sleep 1000; "
                           "fi; echo done");
    uint64_t endless = must_request(master, "long\n", BUS_FOREVER);
    const char *line = NULL;
    cr_assert(process_complaint(&worker, SOON_MS, &line));
    cr_assert_str_eq(line, "begun");
    expect_code(bus_retract(master, bus_replies(master), endless, NULL, SOON_MS), BUS_OK);
    uint64_t next = must_request(master, "short\n", BUS_FOREVER);
    expect_awaited(master, bus_replies(master), next, "done\n");
    process_signal(&worker, SIGTERM);
    cr_expect_eq(process_wait(&worker, SOON_MS), 128 + SIGTERM, "%s", process_complained(&worker));
    process_fini(&worker);
    must_close(&master);
}

/* What it is leased is what it runs: the rest is for others, though it came before them. */
Test(worker, runs_so_many_commands_at_a_time_as_it_is_told)
{
    struct process worker = {0};
    uint64_t seqs[3];
    struct bus *master = must_open("master");
    use_folder();
    start(&worker, "--jobs", "3", UNTIL("go"));
    for (int i = 0; i < 3; i++)
        seqs[i] = must_request(master, "x", BUS_FOREVER);
    for (int i = 0; i < 3; i++)
        expect_said(&worker, "begun");
    must_publish(master, "tasks", "x");
    must_publish(master, "tasks", "x");
    struct bus *other = must_open("other");
    struct bus_sub *sub = share(other, 8);
    expect_task(sub, 3, 1);
    expect_task(sub, 4, 1);
    let("go");
    expect_awaited(master, bus_replies(master), seqs[0], "done 0\n");
    expect_awaited(master, bus_replies(master), seqs[1], "done 1\n");
    expect_awaited(master, bus_replies(master), seqs[2], "done 2\n");
    process_signal(&worker, SIGTERM);
    expect_exit(&worker, 128 + SIGTERM);
    bus_sub_close(&sub);
    must_close(&other);
    must_close(&master);
}

Test(worker, finishes_what_runs_when_it_is_told_to_end_and_takes_no_more)
{
    struct process worker = {0};
    struct bus *master = must_open("master");
    struct bus *other = must_open("other");
    use_folder();
    start(&worker, "--jobs", "2", UNTIL("go"));
    uint64_t seq = must_request(master, "x", BUS_FOREVER);
    expect_said(&worker, "begun");
    process_signal(&worker, SIGTERM);
    must_publish(master, "tasks", "x");
    must_flush(master); /* perhaps to its free place, which leaves */
    struct bus_sub *sub = share(other, 1);
    struct bus_msg *msg = must_receive(sub);
    cr_expect_eq(bus_msg_seq(msg), 1);
    bus_msg_free(&msg);
    let("go");
    expect_awaited(master, bus_replies(master), seq, "done 0\n");
    expect_exit(&worker, 128 + SIGTERM);
    bus_sub_close(&sub);
    must_close(&other);
    must_close(&master);
}

Test(worker, gives_back_what_runs_when_it_is_told_to_end_twice)
{
    struct process worker = {0};
    struct bus *master = must_open("master");
    start(&worker, "--jobs", "2",
          "trap 'echo asked >&2; exit 0' TERM; echo begun >&2; "
          "while :; do sleep 0.02 & wait; done");
    must_publish(master, "tasks", "x");
    must_publish(master, "tasks", "y");
    expect_said(&worker, "begun");
    expect_said(&worker, "begun");
    struct bus *other = must_open("other");
    struct bus_sub *sub = share(other, 2);
    process_signal(&worker, SIGTERM);
    expect_said(&worker,
                "errbus worker: 2 tasks are finished first; another signal gives back what runs");
    expect_nothing(other, sub);
    process_signal(&worker, SIGTERM);
    expect_said(&worker, "asked");
    expect_said(&worker, "asked");
    expect_exit(&worker, 128 + SIGTERM);
    uint64_t sum = 0; /* in the order in which they ended */
    for (int i = 0; i < 2; i++) {
        struct bus_msg *msg = must_receive(sub);
        cr_expect_eq(bus_msg_delivery(msg), 2);
        sum += bus_msg_seq(msg);
        bus_msg_free(&msg);
    }
    cr_expect_eq(sum, 0 + 1);
    bus_sub_close(&sub);
    must_close(&other);
    must_close(&master);
}

Test(worker, ends_a_command_that_runs_for_too_long)
{
    struct process worker = {0};
    struct bus *master = must_open("master");
    start(&worker, "--limit", "0.3",
          "read word; if [ $word = long ]; then echo in vain >&2; exec sleep 1000; fi; echo done");
    uint64_t endless = must_request(master, "long\n", BUS_FOREVER);
    uint64_t next = must_request(master, "short\n", BUS_FOREVER);
    struct bus_error *error =
        expect_await_failed(master, bus_replies(master), endless, "application");
    cr_expect_str_eq(bus_error_type(error), "run.time_limit");
    cr_expect_str_eq(bus_error_message(error), "sh was ended: it ran for longer than 0.3 s");
    cr_expect_not_null(bus_error_cause(error));
    cr_expect_not_null(strstr(bus_error_message(bus_error_cause(error)), "in vain"));
    bus_error_unref(&error);
    expect_awaited(master, bus_replies(master), next, "done\n");
    process_signal(&worker, SIGTERM);
    expect_exit(&worker, 128 + SIGTERM);
    must_close(&master);
}

Test(worker, tells_a_command_which_task_it_has)
{
    struct process worker = {0};
    char should[FOLDER_PATH_BYTES_MAX * 4];
    struct bus *master = must_open("master");
    errbus_worker(&worker,
                  "[ $ERRBUS_TASK_DELIVERY = 2 ] || kill $$; "
                  "echo $ERRBUS_TASK_GROUP $ERRBUS_TASK_TOPIC $ERRBUS_TASK_SEQ "
                  "$ERRBUS_TASK_DELIVERY $ERRBUS_TASK_REQUEST \"($ERRBUS_PARTY)\" $ERRBUS_SERVER");
    must_flush(master);
    uint64_t seq = must_request(master, "x", BUS_FOREVER);
    (void)snprintf(should, sizeof should, "team master/tasks 0 2 1 () %s\n", stage.control);
    expect_awaited(master, bus_replies(master), seq, should);
    process_signal(&worker, SIGTERM);
    expect_exit(&worker, 128 + SIGTERM);
    must_close(&master);
}

Test(worker, leaves_nothing_of_a_command_behind)
{
    struct process worker = {0};
    const char *line = NULL;
    struct bus *master = must_open("master");
    errbus_worker(&worker, "sleep 1000 & echo $! >&2; echo done");
    uint64_t seq = must_request(master, "x", BUS_FOREVER);
    expect_awaited(master, bus_replies(master), seq, "done\n");
    cr_assert(process_complaint(&worker, SOON_MS, &line));
    int left_fd = pidfd_open((pid_t)strtol(line, NULL, 10), 0); /* or it is gone */
    process_signal(&worker, SIGTERM);
    expect_exit(&worker, 128 + SIGTERM);
    if (left_fd >= 0) {
        struct pollfd polled = {.fd = left_fd, .events = POLLIN};
        cr_expect_eq(poll(&polled, 1, SOON_MS), 1, "it goes on");
        (void)close(left_fd);
    }
    must_close(&master);
}

Test(worker, ends_after_so_many_tasks)
{
    struct process worker = {0};
    struct bus *master = must_open("master");
    const char *const argv[] = {"errbus",       "worker", "-s",  stage.control, "-C", "3",   "-t",
                                "master/tasks", "--jobs", "256", "team",        "--", "cat", NULL};
    cr_assert(process_start(&worker, argv, NULL));
    for (int i = 0; i < 5; i++)
        must_publish(master, "tasks", "x");
    expect_exit(&worker, 0);
    struct bus *other = must_open("other");
    struct bus_sub *sub = share(other, 8);
    expect_task(sub, 3, 1);
    expect_task(sub, 4, 1);
    bus_sub_close(&sub);
    must_close(&other);
    must_close(&master);
}

Test(worker, takes_1_to_256_jobs)
{
    static const char *const wrong[] = {"0", "257", "x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct process worker = {0};
        start(&worker, "--jobs", wrong[i], "true");
        expect_exit(&worker, 2);
    }
}

Test(worker, ends_with_a_command_that_is_not_there)
{
    struct process worker = {0};
    struct bus *master = must_open("master");
    const char *const argv[] = {"errbus",       "worker", "-s", stage.control,      "-t",
                                "master/tasks", "team",   "--", "/nowhere/nothing", NULL};
    must_publish(master, "tasks", "x");
    cr_assert(process_start(&worker, argv, NULL));
    cr_expect_eq(process_wait(&worker, SOON_MS), 1);
    cr_expect_not_null(strstr(process_complained(&worker), "cannot start /nowhere/nothing"));
    process_fini(&worker);
    must_close(&master);
}
