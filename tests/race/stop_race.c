/* SPDX-License-Identifier: MPL-2.0 */
/* stop_race.c -- bus_stop() ends every kind of wait, whichever comes first: the stop, the wait, or
 * what is waited for. */
#include "tests/lib/race.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>

enum { WAITS = 5 };

struct round {
    struct bus *bus;
    struct bus *peer;
    struct bus_sub *sub;
    struct bus_sub *polled;
    pthread_barrier_t start;
};

static void *receive(void *arg)
{
    struct round *round = arg;
    pthread_barrier_wait(&round->start);
    for (;;) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        enum bus_err err = bus_sub_recv(round->sub, BUS_FOREVER, &msg, &error);
        if (err != BUS_OK) {
            check_code_of(err, BUS_ECLOSED, &error);
            return NULL;
        }
        bus_msg_free(&msg);
    }
}

static void *poll_fd(void *arg)
{
    struct round *round = arg;
    struct pollfd item = {.fd = bus_sub_fd(round->polled), .events = POLLIN};
    check(item.fd >= 0);
    pthread_barrier_wait(&round->start);
    for (;;) {
        struct bus_msg *msg = NULL;
        check(poll(&item, 1, (int)SOON_MS) == 1);
        enum bus_err err = bus_sub_recv(round->polled, BUS_POLL, &msg, NULL);
        if (err == BUS_ECLOSED)
            return NULL;
        check(err == BUS_OK || err == BUS_ETIMEDOUT);
        bus_msg_free(&msg);
    }
}

static void *await_slot(void *arg)
{
    struct round *round = arg;
    struct bus_error *error = NULL;
    pthread_barrier_wait(&round->start);
    enum bus_err err = bus_await(round->bus, "nobody/w", 7, BUS_FOREVER, NULL, &error);
    check_code_of(err, BUS_ECLOSED, &error);
    return NULL;
}

static void *gather(void *arg)
{
    struct round *round = arg;
    struct bus_error *error = NULL;
    struct bus_want wants[3] = {{.topic = "nobody/a"}, {.topic = "nobody/b"}, {.topic = "peer/w"}};
    pthread_barrier_wait(&round->start);
    enum bus_err err = bus_gather(round->bus, wants, 3, 3, 0, BUS_FOREVER, &error);
    check_code_of(err, BUS_ECLOSED, &error);
    bus_wants_free(wants, 3);
    return NULL;
}

static void *stop(void *arg)
{
    struct round *round = arg;
    pthread_barrier_wait(&round->start);
    enum bus_err err = BUS_OK;
    for (int i = 0; i < 20 && err == BUS_OK; i++)
        err = bus_publish(round->peer, "w", "value", 5); /* as much as gets through */
    bus_stop(round->bus);
    return NULL;
}

static void run(struct race_broker *broker)
{
    static void *(*const threads[WAITS])(void *) = {receive, poll_fd, await_slot, gather, stop};
    pthread_t started[WAITS];
    struct round round = {.bus = race_open(broker, "here"), .peer = race_open(broker, "peer")};
    check_code(bus_sub_open(round.bus, "peer/#", NULL, &round.sub), BUS_OK);
    check_code(bus_sub_open(round.bus, "peer/w", NULL, &round.polled), BUS_OK);
    check_code(bus_flush(round.bus, SOON_MS), BUS_OK);
    check(pthread_barrier_init(&round.start, NULL, WAITS) == 0);
    for (int i = 0; i < WAITS; i++)
        check(pthread_create(&started[i], NULL, threads[i], &round) == 0);
    for (int i = 0; i < WAITS; i++)
        check(pthread_join(started[i], NULL) == 0);
    check_code(bus_publish(round.bus, "w", "late", 4), BUS_ECLOSED);
    check_code(bus_flush(round.bus, SOON_MS), BUS_OK);
    bus_sub_close(&round.sub);
    check_code(bus_close(&round.bus, SOON_MS), BUS_OK);
    bus_sub_close(&round.polled); /* it outlives its bus */
    check_code(bus_close(&round.peer, SOON_MS), BUS_OK);
    pthread_barrier_destroy(&round.start);
}

int main(int argc, char **argv)
{
    int rounds = race_rounds(argc, argv, 200);
    struct race_broker *broker = race_broker_start("stop");
    for (int number = 0; number < rounds; number++)
        run(broker);
    race_broker_kill(&broker);
    printf("%d rounds\n", rounds);
    return 0;
}
