/* SPDX-License-Identifier: MPL-2.0 */
/* reach_test.c -- a broker that is not there, or not where it was looked for: who is told, when,
 * and what to do about it. */
#include "tests/lib/expect.h"
#include "tests/lib/folder.h"

#include <bus/admin.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Two tries, and what a busy machine adds. */
enum { TWO_TRIES_MS = 5000, WORDS_MAX = 16, JOINED_MS = 300 };

TestSuite(reach, .timeout = 240);

/* A port at which nobody listens: bound for as long as the test runs, so nobody else takes it. */
static int dead_fd;
static char dead[32];

static void set_up(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    dead_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(dead_fd, (const struct sockaddr *)&address, bytes), 0);
    cr_assert_eq(getsockname(dead_fd, (struct sockaddr *)&address, &bytes), 0);
    snprintf(dead, sizeof dead, "127.0.0.1:%u", ntohs(address.sin_port));
}

static void tear_down(void)
{
    close(dead_fd);
}

static void start(struct process *process, const char *server, const char *const *words)
{
    const char *argv[WORDS_MAX] = {"errbus", words[0], "-s", server};
    for (size_t i = 1; words[i] != NULL && i + 4 < WORDS_MAX; i++)
        argv[i + 3] = words[i];
    cr_assert(process_start(process, argv, NULL));
}

static void expect_complaint(const struct process *process, const char *text)
{
    cr_expect_not_null(strstr(process_complained(process), text), "not '%s' in: %s", text,
                       process_complained(process));
}

/* ---- nobody listens -------------------------------------------------------------------------- */

static const char *const questions[][5] = {
    {"status"},
    {"errors"},
    {"errors", "show", "a/b/1/1"},
    {"verdict"},
    {"job", "show"},
    {"job", "cancel", "j"},
    {"job", "create", "--min", "2"},
    {"dead", "list", "g"},
};

Test(reach, a_question_fails_at_once_where_no_broker_is, .init = set_up, .fini = tear_down)
{
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        struct process process;
        int64_t start_ms = test_now_ms();
        start(&process, dead, questions[i]);
        cr_expect_eq(process_wait(&process, SOON_MS), 5, "%s %s: %s", questions[i][0],
                     questions[i][1], process_complained(&process));
        cr_expect_lt(test_now_ms() - start_ms, TWO_TRIES_MS, "%s", questions[i][0]);
        expect_complaint(&process, dead);
        expect_complaint(&process, "nothing listens there");
        cr_expect_null(strstr(process_complained(&process), "waiting"));
        process_fini(&process);
    }
}

static const char *const patient[][7] = {
    {"pub", "-p", "a", "w", "x", "-W", "2"},
    {"sub", "a/w", "-W", "2"},
    {"request", "g", "x", "-W", "2"},
    {"worker", "g", "-W", "2", "--", "true"},
    {"run", "-W", "2", "--", "true"},
    {"tap", "-W", "2"},
    {"status", "-W", "2"},
};

Test(reach, a_party_says_once_that_it_waits, .init = set_up, .fini = tear_down)
{
    enum { COUNT = sizeof patient / sizeof patient[0] };
    struct process processes[COUNT];
    int64_t start_ms = test_now_ms();
    for (size_t i = 0; i < COUNT; i++) {
        const char *words[8] = {NULL};
        memcpy(words, patient[i], sizeof patient[i]);
        start(&processes[i], dead, words);
    }
    for (size_t i = 0; i < COUNT; i++) {
        char text[128];
        cr_expect_eq(process_wait(&processes[i], SOON_MS), 5, "%s: %s", patient[i][0],
                     process_complained(&processes[i]));
        cr_expect_geq(test_now_ms() - start_ms, 2000, "%s", patient[i][0]);
        snprintf(text, sizeof text, "errbus %s: waiting for a broker at %s ...\n", patient[i][0],
                 dead);
        const char *said = strstr(process_complained(&processes[i]), text);
        cr_assert_not_null(said, "%s: %s", patient[i][0], process_complained(&processes[i]));
        cr_expect_null(strstr(said + strlen(text), "waiting"), "%s", said);
        cr_expect_null(strstr(said, "is kept in"), "%s", said); /* nothing was started */
        expect_complaint(&processes[i], "nothing listens there");
        process_fini(&processes[i]);
    }
}

Test(reach, a_name_that_does_not_resolve_is_named)
{
    struct process process;
    const char *const words[] = {"status", NULL};
    start(&process, "nowhere.invalid:7370", words);
    cr_expect_eq(process_wait(&process, SOON_MS), 5);
    expect_complaint(&process, "nowhere.invalid does not resolve");
    process_fini(&process);
}

/* ---- a tunnel that has control alone --------------------------------------------------------- */

static const char *port_of(const char *endpoint)
{
    return strrchr(endpoint, ':') + 1;
}

/* The broker announces a port at which nobody listens, as a tunnel would have it. */
static void open_without_data(void)
{
    set_up();
    const char *const more[] = {"--advertise", dead, "--data", "tcp://127.0.0.1:*", NULL};
    stage_open_with(more);
}

static void close_without_data(void)
{
    stage_close();
    tear_down();
}

Test(reach, the_data_channel_that_is_missing_is_named_at_once, .init = open_without_data,
     .fini = close_without_data)
{
    struct process process;
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    const char *const words[] = {"pub", "-p", "alice", "w", "x", NULL};
    int64_t start_ms = test_now_ms();
    start(&process, stage.control, words);
    cr_expect_eq(process_wait(&process, SOON_MS), 5);
    cr_expect_lt(test_now_ms() - start_ms, TWO_TRIES_MS);
    expect_complaint(&process, "the broker answered, but not its data channel at tcp://127.0.0.1:");
    expect_complaint(&process, port_of(dead));
    expect_complaint(&process, ",data=HOST:PORT");
    process_fini(&process);
    expect_code(bus_open(stage.control, NULL, BUS_FOREVER, &bus, &error), BUS_ELOST);
    cr_expect_str_eq(bus_error_type(error), "errbus.unreachable");
    bus_error_unref(&error);
}

Test(reach, the_data_channel_is_where_the_user_says, .init = open_without_data,
     .fini = close_without_data)
{
    char server[1024];
    const char *const forms[] = {stage.data, stage.data + strlen("tcp://"), port_of(stage.data)};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        snprintf(server, sizeof server, "%s,data=%s", stage.control, forms[i]);
        struct bus *bus = must_open_at(server, NULL);
        must_publish(bus, "w", "x");
        must_flush(bus);
        must_close(&bus);
    }
}

/* ---- the endpoint of the data channel in place of the other ---------------------------------- */

Test(reach, the_data_channel_that_is_taken_for_control_says_so_at_once, .init = stage_open,
     .fini = stage_close)
{
    static const char *const commands[][6] = {
        {"pub", "-p", "alice", "w", "x"}, {"status"}, {"sub", "+/w"}, {"tap"}};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        struct process process;
        int64_t start_ms = test_now_ms();
        start(&process, stage.data, commands[i]);
        cr_expect_eq(process_wait(&process, SOON_MS), 2, "%s", commands[i][0]);
        cr_expect_lt(test_now_ms() - start_ms, TWO_TRIES_MS);
        expect_complaint(&process, "this is the data channel of a broker");
        expect_complaint(&process, stage.control);
        process_fini(&process);
    }
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    expect_code(bus_open(stage.data, NULL, BUS_FOREVER, &bus, &error), BUS_EINVAL);
    cr_expect_str_eq(bus_error_type(error), "errbus.wrong_channel");
    bus_error_unref(&error);
    bus = must_open("alice"); /* nobody else notices */
    must_close(&bus);
}

/* ---- and the other way round ----------------------------------------------------------------- */

Test(reach, the_control_channel_that_is_taken_for_data_says_so_at_once, .init = stage_open,
     .fini = stage_close)
{
    char server[1024];
    struct process process;
    const char *const words[] = {"pub", "-p", "alice", "w", "x", NULL};
    int64_t start_ms = test_now_ms();
    snprintf(server, sizeof server, "%s,data=%s", stage.control, port_of(stage.control));
    start(&process, server, words);
    cr_expect_eq(process_wait(&process, SOON_MS), 2);
    cr_expect_lt(test_now_ms() - start_ms, TWO_TRIES_MS);
    expect_complaint(&process, "the data connection reached the control channel of a broker");
    expect_complaint(&process, stage.data);
    process_fini(&process);
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    expect_code(bus_open(server, NULL, BUS_FOREVER, &bus, &error), BUS_EINVAL);
    cr_expect_str_eq(bus_error_type(error), "errbus.wrong_channel");
    bus_error_unref(&error);
}

/* ---- a signal ends every subcommand in one way ----------------------------------------------- */

static const char *const subcommands[] = {
#define SUBCOMMAND(name, summary) #name,
#include "clients/subcommands.def"
#undef SUBCOMMAND
};
enum { SUBCOMMAND_COUNT = sizeof subcommands / sizeof subcommands[0] };

enum waits { FOR_OTHERS, FOR_BROKER, FOR_NOBODY };

/* Each of them while it waits for a broker that does not answer, or for what does not come. */
static const struct {
    const char *words[7];
    enum waits waits;
} waiting[] = {
    {{"pub", "-p", "alice", "w", "--reserve-only"}, FOR_OTHERS},
    {{"sub", "bob/w"}, FOR_OTHERS},
    {{"tap"}, FOR_OTHERS},
    {{"errors"}, FOR_BROKER},
    {{"verdict", "--final"}, FOR_BROKER},
    {{"why"}, FOR_BROKER},
    {{"job", "show"}, FOR_BROKER},
    {{"request", "unserved", "x"}, FOR_OTHERS},
    {{"dead", "list", "g"}, FOR_BROKER},
    {{"status"}, FOR_BROKER},
    {{"top"}, FOR_BROKER},
    {{"ping", "--wait", "600"}, FOR_BROKER},
    {{"web"}, FOR_NOBODY},
    {{"run", "-p", "carol", "--", "sleep", "600"}, FOR_OTHERS},
    {{"worker", "g", "--", "true"}, FOR_OTHERS},
    {{"key"}, FOR_NOBODY},
    {{"access"}, FOR_NOBODY},
    {{"completion"}, FOR_NOBODY},
};

static const int numbers[] = {SIGINT, SIGTERM};

static void expect_ended_by(struct process *process, const char *name, int number)
{
    process_signal(process, number);
    cr_expect_eq(process_wait(process, SOON_MS), 128 + number, "%s: %d: %s", name, process->result,
                 process_complained(process));
    process_fini(process);
}

static const char *const *words_of(size_t at)
{
    cr_assert_str_eq(waiting[at].words[0], subcommands[at], "a row for each, in their order");
    return waiting[at].words;
}

Test(reach, a_signal_ends_each_subcommand_that_waits_for_a_broker, .init = stage_open,
     .fini = stage_close)
{
    struct process processes[SUBCOMMAND_COUNT];
    const char *line = NULL;
    struct folder folder;
    cr_assert(folder_make(&folder));
    cr_assert_eq(setenv("TMPDIR", folder.path, 1), 0);
    process_signal(&stage.process, SIGSTOP);
    for (size_t i = 0; i < SUBCOMMAND_COUNT; i++) {
        const char *const *words = words_of(i);
        if (waiting[i].waits != FOR_NOBODY)
            start(&processes[i], stage.control, words);
    }
    for (size_t i = 0; i < SUBCOMMAND_COUNT; i++) {
        if (waiting[i].waits == FOR_NOBODY)
            continue;
        cr_assert(process_complaint(&processes[i], SOON_MS, &line), "%s", subcommands[i]);
        cr_expect_not_null(strstr(line, "waiting for a broker"), "%s", line);
        expect_ended_by(&processes[i], subcommands[i], numbers[i % 2]);
    }
    process_signal(&stage.process, SIGCONT);
    cr_expect_eq(rmdir(folder.path), 0, "%s: something was left behind", folder.path);
    folder_fini(&folder);
}

Test(reach, a_signal_ends_each_subcommand_that_waits_for_others, .init = stage_open,
     .fini = stage_close)
{
    struct process processes[SUBCOMMAND_COUNT];
    struct folder folder; /* where `errbus run` keeps what its program says */
    cr_assert(folder_make(&folder));
    cr_assert_eq(setenv("TMPDIR", folder.path, 1), 0);
    for (size_t i = 0; i < SUBCOMMAND_COUNT; i++)
        if (waiting[i].waits == FOR_OTHERS)
            start(&processes[i], stage.control, words_of(i));
    for (size_t i = 0; i < SUBCOMMAND_COUNT; i++) {
        if (waiting[i].waits != FOR_OTHERS)
            continue;
        cr_assert_eq(process_wait(&processes[i], JOINED_MS), -1, "%s: %s", subcommands[i],
                     process_complained(&processes[i]));
        expect_ended_by(&processes[i], subcommands[i], numbers[(i + 1) % 2]);
    }
    folder_fini(&folder);
}

/* ---- the calls behind ------------------------------------------------------------------------ */

Test(reach, an_admin_handle_waits_only_if_it_is_patient, .init = set_up, .fini = tear_down)
{
    struct bus_admin_options options;
    struct bus_admin *admin = NULL;
    struct bus_error *error = NULL;
    int64_t start_ms = test_now_ms();
    expect_code(bus_admin_open(dead, NULL, BUS_FOREVER, &admin, &error), BUS_ELOST);
    cr_expect_lt(test_now_ms() - start_ms, TWO_TRIES_MS);
    cr_assert_not_null(error);
    cr_expect_str_eq(bus_error_type(error), "errbus.unreachable");
    cr_expect_not_null(strstr(bus_error_message(error), dead), "%s", bus_error_message(error));
    bus_error_unref(&error);
    bus_admin_options_init(&options);
    options.is_patient = 1;
    start_ms = test_now_ms();
    enum bus_err err = bus_admin_open(dead, &options, 500, &admin, &error);
    expect_code_of(err, BUS_ETIMEDOUT, &error);
    cr_expect_geq(test_now_ms() - start_ms, 500);
}

Test(reach, a_host_and_a_port_are_enough, .init = stage_open, .fini = stage_close)
{
    const char *const words[] = {"status", NULL};
    struct process process;
    const char *server = stage.control + strlen("tcp://");
    cr_assert_eq(strncmp(stage.control, "tcp://", 6), 0, "%s", stage.control);
    struct bus *bus = must_open_at(server, NULL);
    must_close(&bus);
    start(&process, server, words);
    cr_expect_eq(process_wait(&process, SOON_MS), 0, "%s", process_complained(&process));
    process_fini(&process);
}
