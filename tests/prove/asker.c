/* SPDX-License-Identifier: MPL-2.0 */
/* asker.c -- a party that nobody harms: it gives tasks to workers who are (worker.c), and knows how
 * each must end.
 *
 *   prove_asker ENDPOINT PARTY WORKER...
 *
 * Every third task is a value to be acknowledged, the others are requests; some are to fail, some
 * to be dead letters (task.h).  Now and then it promises a value that needs a reply, and fails a
 * slot with an attachment, which it fetches again.  It reads its replies, the workers' reports, the
 * dead letters and what needed something, and holds each task to the one end that it must have.
 *
 * A first line on its standard input: no more tasks; when all have ended it says how.  A second
 * one: it ends.  Says
 *
 *   ready
 *   W MS     so long the slowest task took that ended since the last such line
 *   T ANSWERED FAILED DONE DEAD AGAIN NEEDS ATTACHMENTS
 *            so many tasks ended so; so many were given again; so many values needed a reply and
 *            ended as it did; so many attachments came back whole
 *   X WORDS  what must not be; exit code 1 */
#include "tests/prove/task.h"

#include <bus/report.h>
#include <bus/bus.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS INT64_C(60000)
#define TURN_MS INT64_C(20)
enum {
    TASKS_MAX = 1 << 20, /* more than a watch has; beyond it nothing is asked */
    UNDER_WAY_MAX = 64,
    WORKERS_MAX = 8,
    NEED_EVERY = 4,    /* tasks, of those that are requests */
    ATTACH_EVERY = 40, /* tasks */
    ATTACHED_BYTES = 70000,
    TEXT_BYTES = 256,
    EXIT_WRONG = 1,
};

struct task {
    uint32_t deliveries; /* of which a worker reported, a bit each */
    uint16_t worker;     /* of the newest of them ... */
    uint32_t process;
    bool is_replied; /* its reply slot has an outcome */
    bool is_dead;    /* it is among the dead letters */
    bool has_ended;
    int64_t asked_ms;
    struct bus_slot *needing; /* what waits for the reply */
};

static struct asker {
    struct bus *bus;
    struct bus_admin *admin;
    struct bus_sub *sub;
    const char *endpoint;
    const char *party;
    char replies[TEXT_BYTES], whole[TEXT_BYTES];
    char **workers;
    uint32_t processes[WORKERS_MAX]; /* the newest of each that was heard of */
    uint64_t asked, ended;
    uint64_t ends[TASK_ENDS], again, needs, attachments;
    uint64_t wholes_open;
    int64_t slowest_ms; /* of what ended since it was told */
    struct task tasks[TASKS_MAX];
    uint64_t requests[TASKS_MAX]; /* the task of each reply slot */
    uint64_t request_count;
    uint64_t whole_of[TASKS_MAX]; /* the task of each slot of "whole" */
    uint64_t whole_count;
    struct {
        uint16_t worker;
        uint32_t process;
        uint64_t number;
    } passed[TASKS_MAX]; /* who reported a task that another worker was given later */
    uint64_t passed_count;
} a;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static _Noreturn void give_up(const char *what, uint64_t number, enum bus_err err,
                              const struct bus_error *error)
{
    char text[2048] = "";
    if (error != NULL) {
        bus_error_describe(error, text, sizeof text);
        text[strcspn(text, "\n")] = '\0';
    }
    printf("X %s: %s, %" PRIu64 ": %s %s\n", a.party, what, number, bus_strerror(err), text);
    fflush(stdout);
    _exit(EXIT_WRONG);
}

static void must_be_fine(const char *what, enum bus_err err)
{
    if (err != BUS_OK) {
        struct bus_error *failure = bus_failure(a.bus);
        give_up(what, a.asked, err, failure);
    }
}

/* What needed a reply that failed is refused, and told so here. */
static void flush(void)
{
    enum bus_err err = bus_flush(a.bus, PATIENCE_MS);
    struct bus_error *refusal = NULL;
    while (bus_refusal(a.bus, &refusal) == BUS_OK) {
        if (strcmp(bus_error_kind(refusal), "dependency") != 0) {
            give_up("something was refused", a.asked, err, refusal);
        }
        bus_error_unref(&refusal);
    }
    if (err != BUS_ESETTLED) {
        must_be_fine("flush", err);
    }
}

/* ---- how tasks end ----------------------------------------------------------------------------*/

static struct task *task_of(uint64_t number, const char *what)
{
    if (number >= a.asked) {
        give_up(what, number, BUS_EPROTO, NULL);
    }
    return &a.tasks[number];
}

/* A request has ended by its reply alone, though its dead letter comes, too. */
static void look(uint64_t number)
{
    struct task *task = &a.tasks[number];
    enum task_end end = task_end_of(number);
    bool is_dead_if_so = (end == TASK_DIES) == task->is_dead;
    bool has_ended = is_dead_if_so && (task_is_request(number) ? task->is_replied
                                       : end == TASK_DIES      ? task->is_dead
                                                               : task->deliveries != 0);
    if (has_ended && !task->has_ended) {
        int64_t took_ms = now_ms() - task->asked_ms;
        a.slowest_ms = took_ms > a.slowest_ms ? took_ms : a.slowest_ms;
        task->has_ended = true;
        a.ended += 1;
        a.ends[end] += 1;
    }
}

static void hear_reply(uint64_t seq, enum bus_err err, const struct bus_msg *msg,
                       const struct bus_error *error)
{
    static const char *const ends[TASK_ENDS] = {"", "", "application", "rejected"};
    if (seq >= a.request_count) {
        give_up("a reply to what was not asked", seq, err, error);
    }
    uint64_t number = a.requests[seq];
    struct task *task = &a.tasks[number];
    enum task_end end = task_end_of(number);
    size_t bytes = 0;
    uint64_t said = UINT64_MAX;
    const void *value = msg != NULL ? bus_msg_value(msg, &bytes) : NULL;
    if (bytes == sizeof said) {
        memcpy(&said, value, sizeof said);
    }
    bool is_right = end == TASK_IS_ANSWERED
                        ? err == BUS_OK && said == number
                        : err == BUS_EFAILED && strcmp(bus_error_kind(error), ends[end]) == 0;
    if (!is_right) {
        give_up("a request had another end than it must", number, err, error);
    }
    if (task->is_replied) {
        give_up("a request ended twice", number, err, error);
    }
    task->is_replied = true;
    if (task->needing != NULL) {
        /* Of one that failed the broker has settled it, and whatever comes now is too late. */
        enum bus_err settled = bus_slot_commit(&task->needing, &number, sizeof number);
        if (settled != BUS_OK && (settled != BUS_ESETTLED || err == BUS_OK)) {
            give_up("what needed a reply cannot be settled", number, settled, NULL);
        }
    }
    look(number);
}

static void hear_whole(uint64_t seq, enum bus_err err, const struct bus_msg *msg,
                       const struct bus_error *error)
{
    if (seq >= a.whole_count) {
        give_up("a value where nothing was promised", seq, err, error);
    }
    uint64_t number = a.whole_of[seq];
    bool is_answered = task_end_of(number) == TASK_IS_ANSWERED;
    bool is_right = is_answered
                        ? err == BUS_OK && msg != NULL
                        : err == BUS_EFAILED && strcmp(bus_error_kind(error), "dependency") == 0 &&
                              strcmp(bus_error_kind(bus_error_root(error)), "dependency");
    if (!is_right) {
        give_up("what needed a reply had another end than it", number, err, error);
    }
    a.needs += 1;
    a.wholes_open -= 1;
}

static void hear_dead(const struct bus_msg *msg)
{
    size_t bytes = 0;
    uint64_t number = UINT64_MAX;
    const void *value = bus_msg_value(msg, &bytes);
    if (bytes == sizeof number) {
        memcpy(&number, value, sizeof number);
    }
    struct task *task = task_of(number, "a dead letter that was no task");
    if (task_end_of(number) != TASK_DIES || task->is_dead) {
        give_up("a dead letter twice, or of a task that is not to die", number, BUS_OK, NULL);
    }
    task->is_dead = true;
    look(number);
}

/* The first delivery that no worker of ours asked for. */
static uint32_t again_from(uint64_t number)
{
    return UINT32_C(1) << (task_is_given_back(number) ? 3 : 2);
}

/* "process NUMBER", or "NUMBER DELIVERY".  A reported task comes again only if its worker ended
 * before it acknowledged the task: see check_passed(). */
static void hear_report(size_t worker, const struct bus_msg *msg)
{
    uint64_t number = 0;
    unsigned delivery = 0;
    unsigned process = a.processes[worker];
    const char *text = bus_msg_value(msg, NULL);
    if (sscanf(text, "process %u", &process) == 1) {
        a.processes[worker] = process;
        return;
    }
    if (sscanf(text, "%" SCNu64 " %u", &number, &delivery) != 2 || delivery >= 32) {
        give_up("a report that is none", number, BUS_EPROTO, NULL);
    }
    struct task *task = task_of(number, "a report of what was not asked");
    uint32_t bit = UINT32_C(1) << delivery;
    if ((task->deliveries & bit) != 0) {
        give_up("two workers had the same lease of a task", number, BUS_OK, NULL);
    }
    bool is_newest = bit > task->deliveries;
    if (task->deliveries != 0 && a.passed_count < TASKS_MAX) {
        a.passed[a.passed_count].worker = is_newest ? task->worker : (uint16_t)worker;
        a.passed[a.passed_count].process = is_newest ? task->process : process;
        a.passed[a.passed_count++].number = number;
    }
    bool was_again = task->deliveries >= again_from(number);
    a.again += !was_again && bit >= again_from(number);
    if (is_newest) {
        task->worker = (uint16_t)worker;
        task->process = process;
    }
    task->deliveries |= bit;
    look(number);
}

static void hear(const char *topic, uint64_t seq, enum bus_err err, const struct bus_msg *msg,
                 const struct bus_error *error)
{
    if (strcmp(topic, a.replies) == 0) {
        hear_reply(seq, err, msg, error);
    } else if (strcmp(topic, a.whole) == 0) {
        hear_whole(seq, err, msg, error);
    } else if (strcmp(topic, "_groups/" TASK_GROUP "/dead") == 0 && msg != NULL) {
        hear_dead(msg);
    }
    for (size_t i = 0; msg != NULL && a.workers[i] != NULL; i++) {
        size_t length = strlen(a.workers[i]);
        if (strncmp(topic, a.workers[i], length) == 0 && topic[length] == '/') {
            hear_report(i, msg);
        }
    }
}

static void read_until(int64_t until_ms)
{
    for (int64_t left_ms = 1; left_ms > 0;) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        uint64_t seq = 0;
        left_ms = until_ms - now_ms();
        enum bus_err err = bus_sub_recv(a.sub, left_ms > 0 ? left_ms : 0, &msg, &error);
        if (err == BUS_OK || err == BUS_EFAILED || err == BUS_EENDED) {
            const char *topic = bus_sub_slot(a.sub, &seq);
            hear(topic, seq, err, msg, error);
        } else if (err != BUS_ETIMEDOUT) {
            give_up("receive", a.ended, err, error);
        } else {
            left_ms = 0;
        }
        bus_msg_free(&msg);
        bus_error_unref(&error);
    }
}

/* ---- what is asked ----------------------------------------------------------------------------*/

static void promise_whole(struct task *task, uint64_t number, uint64_t reply)
{
    struct bus_slot_options options;
    struct bus_slot_ref need = {.topic = a.replies, .seq = reply};
    struct bus_error *error = NULL;
    bus_slot_options_init(&options);
    options.needs = &need;
    options.need_count = 1;
    enum bus_err err = bus_slot_reserve_with(a.bus, "whole", &options, &task->needing, &error);
    if (err != BUS_OK) {
        give_up("reserve what needs a reply", number, err, error);
    }
    if (bus_slot_seq(task->needing) != a.whole_count) {
        give_up("a promise has another number than the next", number, err, NULL);
    }
    a.whole_of[a.whole_count++] = number;
    a.wholes_open += 1;
}

static void ask(void)
{
    uint64_t number = a.asked;
    struct task *task = &a.tasks[number];
    if (number == TASKS_MAX || number - a.ended >= UNDER_WAY_MAX) {
        return;
    }
    a.asked += 1;
    task->asked_ms = now_ms();
    if (!task_is_request(number)) {
        must_be_fine("publish", bus_publish(a.bus, TASK_TOPIC, &number, sizeof number));
        return;
    }
    uint64_t reply = 0;
    must_be_fine("request",
                 bus_request(a.bus, TASK_TOPIC, &number, sizeof number, BUS_FOREVER, &reply));
    if (reply != a.request_count) {
        give_up("a reply slot has another number than the next", number, BUS_OK, NULL);
    }
    a.requests[a.request_count++] = number;
    if (number % NEED_EVERY == 1) {
        promise_whole(task, number, reply);
    }
}

struct attached {
    uint64_t number;
    size_t count;
    bool is_right;
};

static uint8_t byte_at(uint64_t number, size_t at)
{
    return (uint8_t)(number * 31 + at * 7 + at / 251);
}

static int take(const void *bytes, size_t count, void *arg)
{
    struct attached *attached = arg;
    for (size_t i = 0; i < count; i++) {
        attached->is_right =
            attached->is_right &&
            ((const uint8_t *)bytes)[i] == byte_at(attached->number, attached->count + i);
    }
    attached->count += count;
    return 0;
}

/* What is attached to an error is there when the flush behind it has come back. */
static void attach(uint64_t number)
{
    static uint8_t bytes[ATTACHED_BYTES];
    struct attached attached = {.number = number, .is_right = true};
    struct bus_slot *slot = NULL;
    struct bus_error *refused = NULL;
    for (size_t i = 0; i < ATTACHED_BYTES; i++) {
        bytes[i] = byte_at(number, i);
    }
    struct bus_error *error = bus_error_new("asker.noted", NULL, "%" PRIu64, number);
    must_be_fine("attach", bus_error_add_data(error, "log", bytes, sizeof bytes));
    must_be_fine("reserve", bus_slot_reserve(a.bus, "noted", BUS_FOREVER, &slot));
    bus_slot_fail(&slot, error);
    flush();
    enum bus_err err = bus_admin_attachment_fetch(a.admin, NULL, bus_error_id(error), "log",
                                                  PATIENCE_MS, take, &attached, &refused);
    if (err != BUS_OK || attached.count != sizeof bytes || !attached.is_right) {
        give_up("an attachment does not come back as it was", number, err, refused);
    }
    a.attachments += 1;
    bus_error_unref(&error);
}

/* ---- the party --------------------------------------------------------------------------------*/

static void open_asker(void)
{
    struct bus_options options;
    struct bus_error *error = NULL;
    char pattern[TEXT_BYTES];
    bus_options_init(&options);
    options.party = a.party;
    options.heartbeat_ms = 200;
    options.lost_after_ms = PATIENCE_MS;
    options.reconnect_grace_ms = PATIENCE_MS;
    options.broker_lost_ms = PATIENCE_MS;
    options.send_timeout_ms = PATIENCE_MS;
    options.disclosure = BUS_DISCLOSURE_FULL;
    enum bus_err err = bus_open(a.endpoint, &options, PATIENCE_MS, &a.bus, &error);
    if (err != BUS_OK) {
        give_up("open", 0, err, error);
    }
    err = bus_admin_open(a.endpoint, NULL, PATIENCE_MS, &a.admin, &error);
    if (err != BUS_OK) {
        give_up("open a handle", 0, err, error);
    }
    snprintf(a.replies, sizeof a.replies, "%s", bus_replies(a.bus));
    snprintf(a.whole, sizeof a.whole, "%s/whole", a.party);
    must_be_fine("subscribe", bus_sub_open(a.bus, a.replies, NULL, &a.sub));
    must_be_fine("subscribe", bus_sub_add(a.sub, a.whole));
    must_be_fine("subscribe", bus_sub_add(a.sub, "_groups/" TASK_GROUP "/dead"));
    for (char **worker = a.workers; *worker != NULL; worker++) {
        snprintf(pattern, sizeof pattern, "%s/" TASK_REPORT, *worker);
        must_be_fine("subscribe", bus_sub_add(a.sub, pattern));
    }
    flush();
    printf("ready\n");
    fflush(stdout);
}

static bool is_told(void)
{
    char letter;
    struct pollfd item = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&item, 1, 0) > 0 && read(STDIN_FILENO, &letter, 1) >= 0;
}

static void tell_slowest(void)
{
    if (a.slowest_ms > 0) {
        printf("W %" PRId64 "\n", a.slowest_ms);
        fflush(stdout);
    }
    a.slowest_ms = 0;
}

static void ask_until_told(void)
{
    for (int64_t next_ms = now_ms(); !is_told(); next_ms += TURN_MS) {
        next_ms = next_ms < now_ms() - 1000 ? now_ms() : next_ms; /* after a standstill */
        ask();
        if (a.asked % ATTACH_EVERY == 1 && a.attachments <= a.asked / ATTACH_EVERY) {
            attach(a.asked);
        }
        read_until(next_ms + TURN_MS);
        tell_slowest();
    }
}

static void await_ends(void)
{
    int64_t until_ms = now_ms() + PATIENCE_MS;
    while (a.ended < a.asked || a.wholes_open > 0) {
        uint64_t before = a.ended;
        read_until(now_ms() + TURN_MS);
        until_ms = a.ended > before ? now_ms() + PATIENCE_MS : until_ms;
        uint64_t number = 0;
        while (number < a.asked && a.tasks[number].has_ended) {
            number++;
        }
        if (now_ms() > until_ms) {
            give_up("a task has no end", number, BUS_ETIMEDOUT, NULL);
        }
    }
    printf("T %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
           "\n",
           a.ends[TASK_IS_ANSWERED], a.ends[TASK_FAILS], a.ends[TASK_IS_DONE], a.ends[TASK_DIES],
           a.again, a.needs, a.attachments);
    fflush(stdout);
}

/* The last incarnation of each worker came to its end in good order, and so with all of its reports
 * acknowledged: nobody may have been given the same task behind it. */
static void check_passed(void)
{
    for (uint64_t i = 0; i < a.passed_count; i++) {
        if (a.passed[i].process == a.processes[a.passed[i].worker]) {
            give_up("a task was given again that was done", a.passed[i].number, BUS_OK, NULL);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 3 + WORKERS_MAX) {
        fprintf(stderr, "usage: see the head of tests/prove/asker.c\n");
        return 2;
    }
    a.endpoint = argv[1];
    a.party = argv[2];
    a.workers = argv + 3;
    open_asker();
    ask_until_told();
    await_ends();
    while (!is_told()) {
        read_until(now_ms() + TURN_MS);
    }
    check_passed();
    bus_admin_close(&a.admin);
    bus_sub_close(&a.sub);
    enum bus_err err = bus_close(&a.bus, PATIENCE_MS);
    if (err != BUS_OK && err != BUS_ESETTLED) {
        give_up("close", a.asked, err, NULL);
    }
    return 0;
}
