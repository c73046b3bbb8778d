/* SPDX-License-Identifier: MPL-2.0 */
/* group_test.c -- a master and its workers, as real processes that are killed. */
#include "tests/lib/expect.h"
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_revival;

static void tear_down(void)
{
    if (has_revival)
        revival_close();
    else
        stage_close();
}

TestSuite(group, .init = stage_open, .fini = tear_down, .timeout = 240);

static struct bus_sub *share(struct bus *bus, const char *group, int credit)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.group = group;
    options.credit = credit;
    return must_subscribe_with(bus, "master/tasks", &options);
}

static void worker_start(struct process *process, const char *party, const char *credit)
{
    const char *const argv[] = {"test_worker",  stage.control, party, "team",
                                "master/tasks", credit,        NULL};
    const char *line = NULL;
    cr_assert(process_start(process, argv, NULL), "test_worker cannot be started");
    cr_assert(process_line(process, SOON_MS, &line), "%s", process_complained(process));
    cr_assert_str_eq(line, "ready");
}

static void worker_kill(struct process *process)
{
    process_signal(process, SIGKILL);
    cr_assert_eq(process_wait(process, SOON_MS), 128 + SIGKILL);
    process_fini(process);
}

static struct bus_msg *must_receive(struct bus_sub *sub)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    expect_code_of(bus_sub_recv(sub, SOON_MS, &msg, &error), BUS_OK, &error);
    return msg;
}

static uint64_t must_request(struct bus *bus, const char *text, int64_t deadline_ms)
{
    uint64_t seq = 0;
    expect_code(bus_request(bus, "tasks", text, strlen(text), deadline_ms, &seq), BUS_OK);
    return seq;
}

/* The next of either. */
static struct bus_msg *must_receive_of(struct bus_sub *const subs[2])
{
    struct pollfd polled[2] = {{.fd = bus_sub_fd(subs[0]), .events = POLLIN},
                               {.fd = bus_sub_fd(subs[1]), .events = POLLIN}};
    cr_assert_gt(poll(polled, 2, SOON_MS), 0);
    return must_receive(subs[polled[0].revents == 0]);
}

/* ---- values ---------------------------------------------------------------------------------- */

Test(group, gives_each_value_to_one_of_its_members)
{
    enum { VALUES = 1000 };
    static unsigned seen[VALUES];
    struct bus *master = must_open("master");
    struct bus *workers[2] = {must_open("w0"), must_open("w1")};
    struct bus_sub *subs[2] = {share(workers[0], "team", 4), share(workers[1], "team", 4)};
    for (int i = 0; i < VALUES; i++)
        must_publish(master, "tasks", "x");
    for (int i = 0; i < VALUES; i++) {
        struct bus_msg *msg = must_receive_of(subs);
        cr_expect_eq(bus_msg_delivery(msg), 1);
        cr_expect_eq(bus_msg_is_request(msg), 0);
        seen[bus_msg_seq(msg)] += 1;
        bus_msg_free(&msg);
    }
    for (int i = 0; i < VALUES; i++)
        cr_assert_eq(seen[i], 1, "value %d", i);
    for (int i = 0; i < 2; i++) {
        must_flush(workers[i]);
        expect_nothing(workers[i], subs[i]);
        bus_sub_close(&subs[i]);
        must_close(&workers[i]);
    }
    must_close(&master);
}

Test(group, gives_what_is_given_back_to_another)
{
    struct bus *master = must_open("master");
    struct bus *worker = must_open("w0");
    struct bus_sub *sub = share(worker, "team", 1);
    must_publish(master, "tasks", "x");
    struct bus_msg *msg = must_receive(sub);
    bus_msg_return(&msg);
    msg = must_receive(sub);
    cr_expect_eq(bus_msg_delivery(msg), 2);
    bus_msg_reject(&msg, NULL, 100);
    msg = must_receive(sub);
    cr_expect_eq(bus_msg_delivery(msg), 3);
    cr_expect_eq(bus_msg_is_over(msg, NULL), 0);
    expect_code(bus_msg_reply(&msg, "no", 2), BUS_EINVAL);
    cr_assert_not_null(msg);
    bus_sub_close(&sub);
    cr_expect_eq(bus_msg_is_over(msg, NULL), 1, "its subscription is closed");
    bus_msg_free(&msg);
    must_close(&worker);
    must_close(&master);
}

Test(group, gives_all_tasks_of_a_killed_worker_to_others)
{
    enum { HELD = 5 };
    struct process victim = {0};
    struct bus *master = must_open("master");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    const char *line = NULL;
    worker_start(&victim, "victim", "8");
    for (int i = 0; i < HELD; i++)
        must_publish(master, "tasks", "hold");
    for (int i = 0; i < HELD; i++)
        cr_assert(process_line(&victim, SOON_MS, &line));
    struct bus *other = must_open("other");
    struct bus_sub *sub = share(other, "team", 8);
    worker_kill(&victim);
    const struct bus_event *event = expect_event(tap, "leases.lost", "victim");
    cr_expect_eq(bus_event_count(event), HELD);
    cr_expect_str_eq(bus_event_topic(event), "master/tasks");
    cr_expect_not_null(strstr(bus_event_text(event), "#0 #1 #2 #3 #4"));
    cr_expect_str_eq(bus_error_kind(bus_event_error(event)), "party_lost");
    for (uint64_t seq = 0; seq < HELD; seq++) {
        struct bus_msg *msg = must_receive(sub);
        cr_expect_eq(bus_msg_seq(msg), seq);
        cr_expect_eq(bus_msg_delivery(msg), 2);
        bus_msg_free(&msg);
    }
    expect_nothing(other, sub);
    bus_tap_close(&tap);
    bus_sub_close(&sub);
    must_close(&other);
    must_close(&master);
}

/* What it has it keeps, and all else is for others. */
Test(group, gives_nothing_more_to_who_is_drained)
{
    struct bus *master = must_open("master");
    struct bus *workers[2] = {must_open("w0"), must_open("w1")};
    struct bus_sub *subs[2] = {share(workers[0], "team", 4), share(workers[1], "team", 4)};
    struct bus_sub *plain = must_subscribe(workers[0], "master/tasks");
    expect_code(bus_sub_drain(plain), BUS_EINVAL);
    expect_code(bus_sub_drain(NULL), BUS_EINVAL);
    must_publish(master, "tasks", "x");
    struct bus_msg *held = must_receive(subs[0]);
    bus_stop(workers[0]);
    expect_code(bus_sub_drain(subs[0]), BUS_OK);
    must_flush(workers[0]);
    for (uint64_t seq = 1; seq < 20; seq++) {
        must_publish(master, "tasks", "x");
        struct bus_msg *msg = must_receive(subs[1]);
        cr_expect_eq(bus_msg_seq(msg), seq);
        cr_expect_eq(bus_msg_delivery(msg), 1);
        bus_msg_free(&msg);
    }
    cr_expect_eq(bus_msg_is_over(held, NULL), 0);
    bus_msg_free(&held);
    must_flush(workers[0]);
    bus_sub_close(&subs[0]);
    expect_nothing(workers[1], subs[1]);
    bus_sub_close(&plain);
    bus_sub_close(&subs[1]);
    must_close(&workers[0]);
    must_close(&workers[1]);
    must_close(&master);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void expect_request_failed(struct bus *master, uint64_t seq, const char *kind,
                                  const char *type)
{
    struct bus_error *error = expect_await_failed(master, bus_replies(master), seq, kind);
    cr_expect_str_eq(bus_error_type(error), type);
    bus_error_unref(&error);
}

Test(group, answers_requests_each_in_its_way)
{
    struct process worker = {0};
    struct bus *master = must_open("master");
    worker_start(&worker, "w0", "2");
    uint64_t good = must_request(master, "good", BUS_FOREVER);
    uint64_t fails = must_request(master, "fail", BUS_FOREVER);
    uint64_t silent = must_request(master, "silent", BUS_FOREVER);
    uint64_t never = must_request(master, "never", BUS_FOREVER);
    uint64_t rejects = must_request(master, "reject", BUS_FOREVER);
    uint64_t late = must_request(master, "hold", 100);
    expect_awaited(master, bus_replies(master), good, "did good");
    expect_request_failed(master, fails, "application", "app.cannot");
    expect_request_failed(master, silent, "application", "errbus.unanswered");
    expect_request_failed(master, never, "rejected", "errbus.dead_letter");
    expect_request_failed(master, rejects, "rejected", "errbus.dead_letter");
    expect_request_failed(master, late, "deadline", "errbus.deadline");
    worker_kill(&worker);
    must_close(&master);
}

Test(group, carries_requests_and_replies_of_any_size)
{
    enum { LARGE = 3 * 1024 * 1024 + 17 };
    struct bus *master = must_open("master");
    struct bus *worker = must_open("w0");
    struct bus_sub *sub = share(worker, "team", 1);
    unsigned char *bytes = malloc(LARGE);
    uint64_t seq = 0;
    size_t count = 0;
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (unsigned char)(i * 7);
    expect_code(bus_request(master, "tasks", bytes, LARGE, BUS_FOREVER, &seq), BUS_OK);
    struct bus_msg *msg = must_receive(sub);
    const void *value = bus_msg_value(msg, &count);
    cr_assert_eq(count, LARGE);
    cr_assert_eq(memcmp(value, bytes, LARGE), 0);
    bytes[0] ^= 1;
    struct bus_msg *kept = bus_msg_dup(msg);
    cr_expect_eq(bus_msg_value(kept, NULL), value, "the bytes are not copied");
    expect_code(bus_msg_reply(&msg, bytes, LARGE), BUS_OK);
    cr_assert_null(msg);
    bytes[0] ^= 1;
    cr_expect_eq(memcmp(bus_msg_value(kept, &count), bytes, LARGE), 0, "they outlive the reply");
    cr_expect_str_eq(bus_msg_topic(kept), "master/tasks");
    expect_code(bus_msg_reply(&kept, bytes, 1), BUS_EINVAL);
    bus_msg_free(&kept);
    bytes[0] ^= 1;
    struct bus_msg *reply = NULL;
    expect_code(bus_await(master, bus_replies(master), seq, SOON_MS, &reply, NULL), BUS_OK);
    value = bus_msg_value(reply, &count);
    cr_assert_eq(count, LARGE);
    cr_assert_eq(memcmp(value, bytes, LARGE), 0);
    bus_msg_free(&reply);
    free(bytes);
    must_flush(worker);
    expect_nothing(worker, sub);
    bus_sub_close(&sub);
    must_close(&worker);
    must_close(&master);
}

Test(group, takes_a_task_that_is_acknowledged_and_kept_as_done)
{
    struct bus *master = must_open("master");
    struct bus *worker = must_open("w0");
    struct bus_sub *sub = share(worker, "team", 1);
    must_publish(master, "tasks", "one");
    struct bus_msg *task = must_receive(sub);
    bus_msg_ack(task);
    cr_expect_eq(bus_msg_is_over(task, NULL), 0, "its member ended it");
    uint64_t seq = must_request(master, "two", BUS_FOREVER);
    struct bus_msg *request = must_receive(sub); /* there is credit for it again */
    bus_msg_ack(request);
    expect_code(bus_msg_reply(&request, "late", 4), BUS_ESETTLED);
    expect_request_failed(master, seq, "application", "errbus.unanswered");
    bus_msg_reject(&task, NULL, 0);
    must_flush(worker);
    expect_nothing(worker, sub);
    bus_sub_close(&sub);
    must_close(&worker);
    must_close(&master);
}

Test(group, tells_a_worker_that_its_request_is_cancelled)
{
    struct bus *master = must_open("master");
    struct bus *worker = must_open("w0");
    struct bus_sub *sub = share(worker, "team", 1);
    struct bus_error *why = NULL;
    uint64_t seq = must_request(master, "x", BUS_FOREVER);
    struct bus_msg *msg = must_receive(sub);
    cr_expect_eq(bus_msg_is_over(msg, NULL), 0);
    struct bus_error *error = bus_error_new("app.enough", NULL, "no longer wanted");
    expect_code(bus_retract(master, bus_replies(master), seq, error, SOON_MS), BUS_OK);
    bus_error_unref(&error);
    must_publish(worker, "notes", "x"); /* the answer comes behind what the broker said of it */
    must_flush(worker);
    cr_assert_eq(bus_msg_is_over(msg, &why), 1);
    cr_expect_str_eq(bus_error_type(why), "app.enough");
    bus_error_unref(&why);
    expect_code(bus_msg_reply(&msg, "late", 4), BUS_ESETTLED);
    cr_expect_null(msg);
    expect_request_failed(master, seq, "application", "app.enough");
    bus_sub_close(&sub);
    must_close(&worker);
    must_close(&master);
}

Test(group, fails_requests_of_a_job_that_was_cancelled_at_once)
{
    struct bus *master = must_open("master");
    uint64_t seq = must_request(master, "x", BUS_FOREVER);
    must_flush(master);
    expect_code(bus_admin_job_cancel(stage_admin(), "default", "enough", SOON_MS, NULL), BUS_OK);
    struct bus_error *error = NULL;
    enum bus_err err = bus_await(master, bus_replies(master), seq, SOON_MS, NULL, &error);
    cr_expect(err == BUS_EFENCED || err == BUS_EFAILED, "%s", code_name(err));
    bus_error_unref(&error);
    expect_code(bus_request(master, "tasks", "y", 1, BUS_FOREVER, &seq), BUS_EFENCED);
    (void)bus_close(&master, SOON_MS);
}

/* ---- many ------------------------------------------------------------------------------------ */

enum { WORKERS = 8 };

struct ends {
    unsigned replied;
    unsigned failed;
};

/* Every request has ended once, and with its own answer or an error. */
static struct ends count_ends(struct bus *master, struct bus_want *wants, const uint64_t *numbers,
                              size_t count)
{
    struct ends ends = {0, 0};
    for (size_t i = 0; i < count; i++) {
        size_t bytes = 0;
        char should[40];
        cr_assert((wants[i].msg != NULL) != (wants[i].error != NULL), "request %zu", i);
        if (wants[i].error != NULL) {
            const char *kind = bus_error_kind(wants[i].error);
            char text[1024];
            (void)bus_error_describe(wants[i].error, text, sizeof text);
            cr_assert(strcmp(kind, "worker_lost") == 0 || strcmp(kind, "rejected") == 0, "%s",
                      text);
            ends.failed += 1;
            continue;
        }
        const char *text = bus_msg_value(wants[i].msg, &bytes);
        snprintf(should, sizeof should, "did task %zu", i);
        cr_assert(bytes == strlen(should) && memcmp(text, should, bytes) == 0, "%.*s, not %s",
                  (int)bytes, text, should);
        ends.replied += 1;
    }
    (void)numbers;
    bus_wants_free(wants, count);
    (void)master;
    return ends;
}

static struct bus_want *request_many(struct bus *master, uint64_t *numbers, size_t count)
{
    struct bus_want *wants = calloc(count, sizeof *wants);
    cr_assert_not_null(wants);
    for (size_t i = 0; i < count; i++) {
        char text[32];
        snprintf(text, sizeof text, "task %zu", i);
        numbers[i] = must_request(master, text, BUS_FOREVER);
        wants[i] = (struct bus_want){.topic = bus_replies(master), .seq = numbers[i]};
    }
    return wants;
}

static size_t ended_count(const struct bus_want *wants, size_t count)
{
    size_t ended = 0;
    for (size_t i = 0; i < count; i++)
        ended += wants[i].msg != NULL || wants[i].error != NULL;
    return ended;
}

/* Kills one worker after the other, any of them, each time some more requests have ended. */
Test(group, ends_each_of_10000_requests_once_while_workers_are_killed)
{
    enum { TASKS = 10000, KILLS = 25 };
    static uint64_t numbers[TASKS];
    struct process workers[WORKERS] = {{0}};
    struct bus *master = must_open("master");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    unsigned dice = 2026;
    for (int i = 0; i < WORKERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        worker_start(&workers[i], name, "8");
    }
    struct bus_want *wants = request_many(master, numbers, TASKS);
    for (size_t kill = 1; kill <= KILLS; kill++) {
        char name[32];
        size_t enough = kill * TASKS / (KILLS + 1);
        expect_code(bus_gather(master, wants, TASKS, enough, TASKS, 3 * SOON_MS, NULL), BUS_OK);
        dice = dice * 1103515245u + 12345u;
        unsigned victim = dice / 65536 % WORKERS;
        worker_kill(&workers[victim]);
        snprintf(name, sizeof name, "w%u-%zu", victim, kill);
        worker_start(&workers[victim], name, "8");
    }
    expect_code(bus_gather(master, wants, TASKS, TASKS, TASKS, 6 * SOON_MS, NULL), BUS_OK);
    cr_assert_eq(ended_count(wants, TASKS), TASKS);
    struct ends ends = count_ends(master, wants, numbers, TASKS);
    cr_expect_eq(ends.replied + ends.failed, TASKS);
    cr_expect_gt(ends.replied, TASKS - KILLS * 8, "five losses are needed for one that fails");
    free(wants);
    must_close(&master);
    size_t dead = count_events_until(tap, "task.dead", "party.left");
    cr_expect_eq(dead, ends.failed, "each that failed is a dead letter");
    bus_tap_close(&tap);
    for (int i = 0; i < WORKERS; i++)
        worker_kill(&workers[i]);
}

Test(group, ends_each_request_once_though_the_broker_is_killed_too, .init = NULL)
{
    enum { TASKS = 2000, KILLS = 3 };
    static uint64_t numbers[TASKS];
    struct process workers[WORKERS] = {{0}};
    stage_close();
    has_revival = true;
    revival_open();
    revival_start("process", NULL);
    struct bus *master = must_open("master");
    for (int i = 0; i < WORKERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        worker_start(&workers[i], name, "4");
    }
    struct bus_want *wants = request_many(master, numbers, TASKS);
    for (size_t kill = 1; kill <= KILLS; kill++) {
        expect_code(
            bus_gather(master, wants, TASKS, kill * TASKS / (KILLS + 1), TASKS, 3 * SOON_MS, NULL),
            BUS_OK);
        revival_kill();
        worker_kill(&workers[kill]); /* it is lost when the broker is back */
        revival_start("process", NULL);
    }
    expect_code(bus_gather(master, wants, TASKS, TASKS, TASKS, 6 * SOON_MS, NULL), BUS_OK);
    struct ends ends = count_ends(master, wants, numbers, TASKS);
    cr_expect_eq(ends.replied, TASKS);
    free(wants);
    must_close(&master);
    for (int i = 0; i < WORKERS; i++)
        if (i == 0 || i > KILLS)
            worker_kill(&workers[i]);
}

/* ---- from the shell -------------------------------------------------------------------------- */

/* What errbus prints, and how it ends. */
static const char *errbus(struct process *process, int expected, const char *const *words)
{
    const char *argv[16] = {"errbus", words[0], "-s", stage.control};
    size_t count = 4;
    for (size_t i = 1; words[i] != NULL; i++)
        argv[count++] = words[i];
    cr_assert(process_start(process, argv, NULL));
    int result = process_wait(process, SOON_MS);
    cr_assert_eq(result, expected, "%d: %s", result, process_complained(process));
    return process_said(process);
}

#define ERRBUS(expected, said, ...)                                                                \
    do {                                                                                           \
        struct process process_ = {0};                                                             \
        const char *const words_[] = {__VA_ARGS__, NULL};                                          \
        cr_expect_str_eq(errbus(&process_, expected, words_), said);                               \
        process_fini(&process_);                                                                   \
    } while (0)

Test(group, lists_shows_replays_and_drops_dead_letters)
{
    struct process worker = {0};
    struct process shown = {0};
    struct bus *master = must_open("master");
    worker_start(&worker, "w0", "1");
    uint64_t never = must_request(master, "never mind", BUS_FOREVER);
    expect_request_failed(master, never, "rejected", "errbus.dead_letter");
    must_publish(master, "tasks", "never");
    uint64_t good = must_request(master, "good", BUS_FOREVER); /* behind it */
    expect_awaited(master, bus_replies(master), good, "did good");
    const char *const list[] = {"dead", "list", "team", NULL};
    const char *said = errbus(&shown, 0, list);
    cr_expect_not_null(
        strstr(said, " master/tasks#0, given 1 time, 10 bytes: app.cannot: cannot do"));
    cr_expect_not_null(
        strstr(said, " master/tasks#1, given 1 time, 5 bytes: app.cannot: cannot do"));
    process_fini(&shown);
    const char *const show[] = {"dead", "show", "team", "0", NULL};
    cr_expect_str_eq(errbus(&shown, 0, show), "never mind\n");
    cr_expect_not_null(strstr(process_complained(&shown), "errbus.dead_letter"));
    cr_expect_not_null(strstr(process_complained(&shown), "app.cannot: cannot do 'never mind'"));
    process_fini(&shown);
    const char *const status[] = {"status", NULL};
    said = errbus(&shown, 0, status);
    cr_expect_not_null(strstr(said, "  GROUP  MEMBERS  LEASED  WAITING  DEAD  TOPICS\n"
                                    "  team         1  0 of 1        0     2  master/tasks\n"));
    cr_expect_null(strstr(said, "  _groups/0 "), "%s", said);
    process_fini(&shown);
    const char *const in_json[] = {"status", "--json", NULL};
    cr_expect_not_null(strstr(
        errbus(&shown, 0, in_json),
        "{\"kind\":\"group\",\"job\":\"default\",\"name\":\"team\",\"topic\":\"master/tasks\","
        "\"state\":\"live\",\"members\":1,\"credit\":1,\"leased\":0,\"waiting\":0,\"dead\":2}\n"));
    process_fini(&shown);
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    ERRBUS(0, "1 given again\n", "dead", "replay", "team", "1");
    (void)expect_event(tap, "task.dead", "w0"); /* it is none the better for that */
    bus_tap_close(&tap);
    ERRBUS(2, "", "dead", "drop", "team", "1");
    ERRBUS(0, "2 dropped\n", "dead", "drop", "team", "all");
    ERRBUS(0, "", "dead", "list", "team");
    ERRBUS(2, "", "dead", "list", "nothing");
    ERRBUS(2, "", "dead", "show", "team");
    worker_kill(&worker);
    must_close(&master);
}

Test(group, shows_a_dead_letter_of_any_size)
{
    enum { LARGE = 300 * 1024 + 5 };
    struct process shown = {0};
    struct bus *master = must_open("master");
    struct bus *worker = must_open("w0");
    struct bus_sub *sub = share(worker, "team", 1);
    char *text = malloc(LARGE + 2);
    cr_assert_not_null(text);
    for (int i = 0; i < LARGE; i++)
        text[i] = (char)('a' + i % 23);
    text[LARGE] = '\n';
    text[LARGE + 1] = '\0';
    expect_code(bus_publish(master, "tasks", text, LARGE), BUS_OK);
    struct bus_msg *msg = must_receive(sub);
    bus_msg_reject(&msg, NULL, BUS_FOREVER);
    must_flush(worker);
    const char *const show[] = {"dead", "show", "team", "0", NULL};
    cr_expect_str_eq(errbus(&shown, 0, show), text);
    process_fini(&shown);
    free(text);
    bus_sub_close(&sub);
    must_close(&worker);
    must_close(&master);
}
