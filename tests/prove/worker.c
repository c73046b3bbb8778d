/* SPDX-License-Identifier: MPL-2.0 */
/* worker.c -- a member of the group that works on what asker.c asks, as a process that is harmed.
 *
 *   prove_worker ENDPOINT PARTY PROCESS ASKER
 *
 * What the worker does with a task hangs on the task's number alone (task.h), so any other worker
 * comes to the same end.  To its own topic "done" it says "process NUMBER" once.  Before it lets a
 * task go, it says "NUMBER DELIVERY" there.  On standard output it says "ready" when it is in the
 * group.  It ends when it reads a line.  Exit codes: 0, all its tasks are done; 3, the bus said
 * that its incarnation is over; 1, something is wrong. */
#include "tests/lib/party/rejoin.h"
#include "tests/prove/task.h"

#include <bus/bus.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_MS INT64_C(30000)
#define LOOK_MS 100 /* so often at least it sees whether it shall end */
enum { CREDIT = 4, WORK_MS = 8, TEXT_BYTES = 128, EXIT_WRONG = 1, EXIT_OVER = 3 };

static struct bus *bus;
static const char *party;
static const char *process;

/* Ends the process: this incarnation is over, or something is wrong. */
static _Noreturn void give_up(const char *what, enum bus_err err, const struct bus_error *error)
{
    char text[2048] = "";
    if (error != NULL) {
        bus_error_describe(error, text, sizeof text);
    }
    fprintf(stderr, "%s/%s: %s: %s %s\n", party, process, what, bus_strerror(err), text);
    _exit(err == BUS_EFENCED ? EXIT_OVER : EXIT_WRONG);
}

static void must_be_fine(const char *what, enum bus_err err)
{
    if (err != BUS_OK) {
        struct bus_error *failure = bus_failure(bus);
        give_up(what, err, failure);
    }
}

static void open_bus(const char *endpoint)
{
    struct bus_error *error = NULL;
    enum bus_err err = rejoin(endpoint, party, PATIENCE_MS, &bus, &error);
    if (err != BUS_OK)
        give_up("open", err, error);
}

static void report(const char *text)
{
    must_be_fine("publish", bus_publish(bus, TASK_REPORT, text, strlen(text) + 1));
}

static struct bus_sub *join(const char *asker)
{
    struct bus_sub *sub = NULL;
    struct bus_sub_options options;
    char pattern[TEXT_BYTES];
    char text[TEXT_BYTES];
    snprintf(pattern, sizeof pattern, "%s/" TASK_TOPIC, asker);
    bus_sub_options_init(&options);
    options.group = TASK_GROUP;
    options.credit = CREDIT;
    options.deliver_max = TASK_DELIVER_MAX;
    snprintf(text, sizeof text, "process %s", process);
    report(text);
    must_be_fine("subscribe", bus_sub_open(bus, pattern, &options, &sub));
    must_be_fine("flush", bus_flush(bus, PATIENCE_MS));
    return sub;
}

static void answer(struct bus_msg **msg, uint64_t number)
{
    enum bus_err err = bus_msg_reply(msg, &number, sizeof number);
    /* ESETTLED: the incarnation is over, which the next call tells. */
    if (err != BUS_OK && err != BUS_ESETTLED) {
        must_be_fine("reply", err);
    }
}

static void settle(struct bus_msg **msg, uint64_t number)
{
    struct bus_error *error = bus_error_new(TASK_FAILED, NULL, "%" PRIu64, number);
    enum task_end end = task_end_of(number);
    if (end == TASK_DIES) {
        bus_msg_reject(msg, error, BUS_FOREVER);
    } else if (end == TASK_FAILS) {
        bus_msg_fail(msg, error);
    } else if (end == TASK_IS_ANSWERED) {
        answer(msg, number);
    } else {
        bus_msg_free(msg);
    }
    bus_error_unref(&error);
}

static void work(struct bus_msg **msg)
{
    size_t bytes = 0;
    uint64_t number = 0;
    char text[TEXT_BYTES];
    const void *value = bus_msg_value(*msg, &bytes);
    if (bytes != sizeof number) {
        give_up("a task of another length than it was given", BUS_EPROTO, NULL);
    }
    memcpy(&number, value, sizeof number);
    unsigned delivery = bus_msg_delivery(*msg);
    (void)poll(NULL, 0, (int)(number % WORK_MS)); /* so that it is harmed in the middle of one */
    if (task_is_given_back(number) && delivery == 1) {
        bus_msg_reject(msg, NULL, 0);
        return;
    }
    snprintf(text, sizeof text, "%" PRIu64 " %u", number, delivery);
    report(text);
    settle(msg, number);
}

static bool is_told_to_end(void)
{
    struct pollfd item = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&item, 1, 0) > 0;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        return 2;
    }
    party = argv[2];
    process = argv[3];
    open_bus(argv[1]);
    struct bus_sub *sub = join(argv[4]);
    printf("ready\n");
    fflush(stdout);
    while (!is_told_to_end()) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        enum bus_err err = bus_sub_recv(sub, LOOK_MS, &msg, &error);
        if (err == BUS_OK) {
            work(&msg);
        } else if (err != BUS_ETIMEDOUT) {
            give_up("receive", err, error);
        }
        bus_error_unref(&error);
    }
    bus_sub_close(&sub);
    enum bus_err err = bus_close(&bus, PATIENCE_MS);
    if (err != BUS_OK) {
        give_up("close", err, NULL);
    }
    return 0;
}
