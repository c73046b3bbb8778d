/* SPDX-License-Identifier: MPL-2.0 */
/* stranger_test.c -- a port at which something else listens than a broker: who is told, when, what
 * to do about it, and how the program ends.  A broker that stands still looks the same at first. */
#include "tests/lib/expect.h"
#include "tests/lib/stranger.h"

#include <bus/admin.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <netdb.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Without a bound of their own, programs wait for 15 s.  Who need not wait ends long before: within
 * two seconds on a machine that has time. */
enum { LONG_BEFORE_MS = 12000, ONE_PROBE_MS = 2500, WORDS_MAX = 9 };

TestSuite(stranger, .timeout = 240);

/* The program's own function comes before that of the C library, for libzmq as well. */
static atomic_int look_ups;

__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **found)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&real, &symbol, sizeof real);
    atomic_fetch_add(&look_ups, 1);
    return real(node, service, hints, found);
}

static struct stranger stranger;

static void meet(enum stranger_kind kind)
{
    cr_assert(stranger_start(&stranger, kind));
}

static void leave(void)
{
    stranger_stop(&stranger);
}

static void start(struct process *process, const char *server, const char *const *words)
{
    const char *argv[WORDS_MAX + 4] = {"errbus", words[0], "-s", server};
    for (size_t i = 1; words[i] != NULL && i < WORDS_MAX; i++)
        argv[i + 3] = words[i];
    cr_assert(process_start(process, argv, NULL));
}

static const char *const programs[][WORDS_MAX] = {
    {"pub", "-p", "a", "w", "x"}, {"sub", "a/w"}, {"tap"}, {"status"}, {"ping"}};

/* Each of them ends at once with this status and these words, and tells nothing twice. */
static void expect_all_end(int status, const char *words)
{
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        struct process process;
        int64_t start_ms = test_now_ms();
        start(&process, stranger.endpoint, programs[i]);
        int got = process_wait(&process, SOON_MS);
        int64_t took_ms = test_now_ms() - start_ms;
        const char *said = strstr(process_complained(&process), words);
        cr_log_info("%s ends with %d after %d ms", programs[i][0], got, (int)took_ms);
        cr_expect_eq(got, status, "%s: %d: %s", programs[i][0], got, process_complained(&process));
        cr_expect_not_null(said, "%s: %s", programs[i][0], process_complained(&process));
        cr_expect(said == NULL || strstr(said + 1, words) == NULL, "%s", said);
        cr_expect_lt(took_ms, LONG_BEFORE_MS, "%s", programs[i][0]);
        process_fini(&process);
    }
}

Test(stranger, that_speaks_first_is_no_broker)
{
    meet(STRANGER_GREETS);
    expect_all_end(6, "does not speak ZeroMQ, so it is no broker");
    leave();
}

Test(stranger, that_answers_lines_is_no_broker)
{
    meet(STRANGER_ANSWERS);
    expect_all_end(6, "does not speak ZeroMQ, so it is no broker");
    leave();
}

Test(stranger, that_hangs_up_is_no_broker)
{
    meet(STRANGER_HANGS_UP);
    expect_all_end(6, "hangs up when it hears ZeroMQ");
    leave();
}

/* A client that has a key is told the same. */
Test(stranger, is_told_apart_with_a_key_as_well)
{
    static const struct {
        enum stranger_kind kind;
        const char *words;
    } told[] = {{STRANGER_GREETS, "does not speak ZeroMQ"},
                {STRANGER_ANSWERS, "does not speak ZeroMQ"},
                {STRANGER_HANGS_UP, "hangs up when it hears ZeroMQ"}};
    struct folder folder;
    char path[FOLDER_PATH_BYTES_MAX + 8];
    char key[BUS_KEY_TEXT_BYTES];
    cr_assert(folder_make(&folder));
    snprintf(path, sizeof path, "%s/key", folder.path);
    expect_code(bus_key_new(path, key, NULL), BUS_OK);
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        char endpoint[512];
        struct bus_options options;
        struct bus_error *error = NULL;
        struct bus *bus = NULL;
        meet(told[i].kind);
        (void)snprintf(endpoint, sizeof endpoint, "tcp://%s@%s", key, stranger.endpoint + 6);
        bus_options_init(&options);
        options.key = path;
        expect_code(bus_open(endpoint, &options, SOON_MS, &bus, &error), BUS_EDENIED);
        cr_expect_str_eq(bus_error_type(error), "errbus.unreachable");
        cr_expect_not_null(strstr(bus_error_message(error), told[i].words), "%s",
                           bus_error_message(error));
        bus_error_unref(&error);
        leave();
    }
    folder_fini(&folder);
}

/* ---- at the data channel --------------------------------------------------------------------- */

/* The endpoint of control, and behind it the stranger as that of data. */
static const char *with_stranger_as_data(void)
{
    static char server[1024];
    (void)snprintf(server, sizeof server, "%s,data=%s", stage.control, stranger.endpoint);
    return server;
}

static const char *const data_is_no_broker = "but not its data channel at tcp://127.0.0.1:";

/* A port that is right for control may still be wrong for data. */
Test(stranger, at_the_data_channel_is_told_apart, .init = stage_open, .fini = stage_close)
{
    static const struct {
        enum stranger_kind kind;
        int status;
        const char *words;
    } told[] = {{STRANGER_GREETS, 6, "what listens there does not speak ZeroMQ"},
                {STRANGER_ANSWERS, 6, "what listens there does not speak ZeroMQ"},
                {STRANGER_HANGS_UP, 5, "does not answer as errbusd does"},
                {STRANGER_CLOSES, 5, "does not answer as errbusd does"}};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        struct process process;
        int64_t start_ms = test_now_ms();
        meet(told[i].kind);
        start(&process, with_stranger_as_data(), programs[0]);
        cr_expect_eq(process_wait(&process, SOON_MS), told[i].status, "%zu: %s", i,
                     process_complained(&process));
        cr_log_info("%zu ends after %d ms", i, (int)(test_now_ms() - start_ms));
        cr_expect_lt(test_now_ms() - start_ms, LONG_BEFORE_MS, "%zu", i);
        cr_expect_not_null(strstr(process_complained(&process), data_is_no_broker), "%zu: %s", i,
                           process_complained(&process));
        cr_expect_not_null(strstr(process_complained(&process), told[i].words), "%zu: %s", i,
                           process_complained(&process));
        process_fini(&process);
        leave();
    }
}

/* ---- what may be a broker -------------------------------------------------------------------- */

struct told {
    unsigned count;
    char what[512];
};

static void note_doubt(const char *what, void *arg)
{
    struct told *told = arg;
    told->count += 1;
    (void)snprintf(told->what, sizeof told->what, "%s", what);
}

/* The call goes on for as long as it may, and has said what it found while it waited. */
static void expect_doubt_of(const char *server, const char *endpoint, const char *type,
                            const char *words)
{
    struct bus_options options;
    struct bus_error *error = NULL;
    struct bus *bus = NULL;
    struct told told = {.count = 0};
    int64_t start_ms = test_now_ms();
    bus_options_init(&options);
    options.on_doubt = note_doubt;
    options.on_doubt_arg = &told;
    expect_code(bus_open(server, &options, SOON_MS / 2, &bus, &error), BUS_ETIMEDOUT);
    cr_expect_geq(test_now_ms() - start_ms, SOON_MS / 2);
    cr_expect_str_eq(bus_error_type(error), type);
    cr_expect_not_null(strstr(bus_error_message(error), words), "%s", bus_error_message(error));
    cr_expect_eq(told.count, 1, "%u times: %s", told.count, told.what);
    cr_expect_not_null(strstr(told.what, words), "%s", told.what);
    cr_expect_not_null(strstr(told.what, endpoint), "%s", told.what);
    bus_error_unref(&error);
}

static void expect_doubt(const char *endpoint, const char *type, const char *words)
{
    expect_doubt_of(endpoint, endpoint, type, words);
}

Test(stranger, that_is_silent_may_be_a_broker_that_is_stopped)
{
    meet(STRANGER_SILENT);
    expect_doubt(stranger.endpoint, "errbus.no_greeting", "accepts connections and says nothing");
    leave();
}

Test(stranger, that_is_silent_as_data_may_be_a_broker_that_is_stopped, .init = stage_open,
     .fini = stage_close)
{
    meet(STRANGER_SILENT);
    const char *server = with_stranger_as_data();
    expect_doubt_of(server, stranger.endpoint, "errbus.unreachable",
                    "accepts connections and says nothing");
    leave();
}

/* libzmq looks the name up once for each connection.  A probe does not: a resolver that is broken
 * by now would hold up whoever joins or closes. */
Test(stranger, is_asked_at_the_address_that_it_had)
{
    char endpoint[64];
    struct bus *bus = NULL;
    meet(STRANGER_SILENT);
    (void)snprintf(endpoint, sizeof endpoint, "tcp://localhost:%s",
                   strrchr(stranger.endpoint, ':') + 1);
    atomic_store(&look_ups, 0);
    expect_code(bus_open(endpoint, NULL, ONE_PROBE_MS, &bus, NULL), BUS_ETIMEDOUT);
    cr_expect_eq(atomic_load(&look_ups), 1, "%d times", atomic_load(&look_ups));
    leave();
}

Test(stranger, that_closes_at_once_may_be_a_tunnel)
{
    meet(STRANGER_CLOSES);
    expect_doubt(stranger.endpoint, "errbus.unreachable", "a tunnel without its other end");
    leave();
}

/* The program ends with this status after its time, and has said these words before. */
static void expect_waited(const char *endpoint, const char *const *words, int status,
                          const char *said)
{
    struct process process;
    const char *line = NULL;
    start(&process, endpoint, words);
    do
        cr_assert(process_complaint(&process, SOON_MS, &line), "%s says nothing of it", words[0]);
    while (strstr(line, said) == NULL);
    cr_expect_not_null(strstr(line, "; waiting on ..."), "%s", line);
    cr_expect_eq(process_wait(&process, 2 * SOON_MS), status, "%s: %s", words[0],
                 process_complained(&process));
    process_fini(&process);
}

static const char *const patient[][WORDS_MAX] = {{"pub", "-p", "a", "w", "x", "-W", "8"},
                                                 {"sub", "a/w", "-W", "8"},
                                                 {"tap", "-W", "8"},
                                                 {"status", "-W", "8"},
                                                 {"run", "-W", "8", "-p", "a", "--", "true"}};

/* libzmq gives a handshake up after 30 s. */
static const char *const for_long[] = {"pub", "-p", "a", "w", "x", "-W", "31", NULL};

/* A program says it on standard error while it waits.  If it met nothing else in all its time, no
 * broker has shown itself. */
Test(stranger, that_is_silent_to_the_end_is_no_broker)
{
    meet(STRANGER_SILENT);
    for (size_t i = 0; i < sizeof patient / sizeof patient[0]; i++)
        expect_waited(stranger.endpoint, patient[i], 6,
                      "says nothing: it is a broker that is stopped");
    if (getenv("TEST_LONG") != NULL)
        expect_waited(stranger.endpoint, for_long, 6, "it is a broker that is stopped");
    leave();
}

Test(stranger, that_closes_to_the_end_may_be_a_tunnel)
{
    meet(STRANGER_CLOSES);
    expect_waited(stranger.endpoint, patient[0], 5, "a tunnel without its other end");
    leave();
}

/* A probe asks whether the broker is well that is known to be there. */
Test(stranger, does_not_make_a_probe_doubt_the_broker)
{
    static const char *const ping[] = {"ping", "-W", "8", NULL};
    struct process process;
    meet(STRANGER_SILENT);
    start(&process, stranger.endpoint, ping);
    cr_expect_eq(process_wait(&process, SOON_MS), 5, "%s", process_complained(&process));
    cr_expect_not_null(strstr(process_complained(&process), "what to do:"));
    process_fini(&process);
    leave();
}

static void go_on(const char *what, void *arg)
{
    note_doubt(what, arg);
    process_signal(&stage.process, SIGCONT);
}

/* Whoever waits for a broker that stands still is told so, and comes in when it goes on. */
Test(stranger, is_no_broker_that_stands_still, .init = stage_open, .fini = stage_close)
{
    struct bus_options options;
    struct bus *bus = NULL;
    struct told told = {.count = 0};
    bus_options_init(&options);
    options.party = "alice";
    options.on_doubt = go_on;
    options.on_doubt_arg = &told;
    process_signal(&stage.process, SIGSTOP);
    expect_code(bus_open(stage.control, &options, SOON_MS, &bus, NULL), BUS_OK);
    cr_expect_eq(told.count, 1, "%u times: %s", told.count, told.what);
    cr_expect_not_null(strstr(told.what, "a broker that is stopped"), "%s", told.what);
    must_publish(bus, "w", "value");
    expect_awaited(bus, "alice/w", 0, "value");
    must_close(&bus);
}

/* Where a broker was met, silence is its own, also on a connection that is new to it. */
Test(stranger, is_no_broker_that_was_met, .init = stage_open, .fini = stage_close)
{
    struct bus_admin *admin = NULL;
    struct bus_error *error = NULL;
    struct bus_pong pong;
    expect_code(bus_admin_open(stage.control, NULL, SOON_MS, &admin, NULL), BUS_OK);
    process_signal(&stage.process, SIGSTOP);
    expect_code(bus_admin_ping(admin, BUS_CHANNEL_DATA, SOON_MS / 4, &pong, &error), BUS_ETIMEDOUT);
    cr_expect_not_null(strstr(bus_error_message(error), "says nothing"), "%s",
                       bus_error_message(error));
    cr_expect_str_eq(bus_error_type(error), "errbus.unreachable");
    process_signal(&stage.process, SIGCONT);
    bus_error_unref(&error);
    bus_admin_close(&admin);
}

/* The argument of on_doubt may live no longer than the call that opens. */
Test(stranger, is_told_of_by_no_later_call, .init = stage_open, .fini = stage_close)
{
    struct bus_options options;
    struct bus_error *verdict = NULL;
    struct told told = {.count = 0};
    bus_options_init(&options);
    options.party = "alice";
    options.on_doubt = note_doubt;
    options.on_doubt_arg = &told;
    struct bus *bob = must_open("bob"); /* as long as he is there, there is no verdict */
    struct bus *alice = must_open_with(&options);
    bus_fail(alice, NULL);
    (void)bus_flush(alice, SOON_MS);
    process_signal(&stage.process, SIGSTOP);
    expect_code(bus_verdict(alice, SOON_MS / 2, &verdict), BUS_ETIMEDOUT);
    process_signal(&stage.process, SIGCONT);
    cr_expect_eq(told.count, 0, "%u times: %s", told.count, told.what);
    (void)bus_close(&alice, SOON_MS);
    must_close(&bob);
}
