/* SPDX-License-Identifier: MPL-2.0 */
/* handler_race.c -- the failure handler closes the bus, while the thread that failed it is still in
 * bus_fail() and others wait in its calls: all come back, and nothing is used after it is freed. */
#include "tests/lib/race.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

enum { WAITS = 4 };

static sem_t closed; /* by a handler, whose thread outlives its round */

struct round {
    struct bus *bus;
    struct bus *used; /* by the waiting threads: what bus was */
    struct bus_sub *sub;
    pthread_barrier_t waiting; /* passed by all that are about to wait */
    atomic_int handled;
};

static void handle(const struct bus_error *verdict, void *arg)
{
    struct round *round = arg;
    check(verdict != NULL);
    atomic_fetch_add(&round->handled, 1);
    enum bus_err err = bus_close(&round->bus, SOON_MS);
    check(err == BUS_OK);
    check(round->bus == NULL);
    check(*bus_error_type(verdict) != '\0'); /* it outlives the bus */
    check(sem_post(&closed) == 0);
}

static void *await_slot(void *arg)
{
    struct round *round = arg;
    struct bus_error *error = NULL;
    pthread_barrier_wait(&round->waiting);
    enum bus_err err = bus_await(round->used, "nobody/w", 1, BUS_FOREVER, NULL, &error);
    check_code_of(err, BUS_ECLOSED, &error);
    return NULL;
}

static void *gather(void *arg)
{
    struct round *round = arg;
    struct bus_error *error = NULL;
    struct bus_want wants[2] = {{.topic = "nobody/a"}, {.topic = "nobody/b"}};
    pthread_barrier_wait(&round->waiting);
    enum bus_err err = bus_gather(round->used, wants, 2, 2, 0, BUS_FOREVER, &error);
    check_code_of(err, BUS_ECLOSED, &error);
    bus_wants_free(wants, 2);
    return NULL;
}

static void *verdict(void *arg)
{
    struct round *round = arg;
    struct bus_error *error = NULL;
    pthread_barrier_wait(&round->waiting);
    check_code(bus_verdict(round->used, BUS_FOREVER, &error), BUS_OK);
    check(*bus_error_type(error) != '\0');
    bus_error_unref(&error);
    return NULL;
}

static void *receive(void *arg)
{
    struct round *round = arg;
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    pthread_barrier_wait(&round->waiting);
    enum bus_err err = bus_sub_recv(round->sub, BUS_FOREVER, &msg, &error);
    check_code_of(err, BUS_ECLOSED, &error);
    return NULL;
}

static void open_round(struct race_broker *broker, struct round *round)
{
    struct bus_options options;
    race_options(&options, "here");
    options.on_failure = handle;
    options.on_failure_arg = round;
    check_code(bus_open(race_broker_endpoint(broker), &options, SOON_MS, &round->bus, NULL),
               BUS_OK);
    round->used = round->bus;
    atomic_init(&round->handled, 0);
    check(pthread_barrier_init(&round->waiting, NULL, WAITS + 1) == 0);
}

static void fail_round(struct round *round)
{
    struct bus_error *error = bus_error_new("app.here", NULL, "it does not go on");
    bus_fail(round->used, error);
    bus_error_unref(&error);
    check(sem_wait(&closed) == 0);
}

static void close_round(struct round *round)
{
    check(atomic_load(&round->handled) == 1);
    pthread_barrier_destroy(&round->waiting);
}

/* Nothing but bus_fail() holds the bus when the handler closes it. */
static void run_alone(struct race_broker *broker)
{
    struct round round = {.bus = NULL};
    open_round(broker, &round);
    fail_round(&round);
    close_round(&round);
}

/* Who passed the barrier may come to its call only after the bus is closed, which nobody may; an
 * open slot keeps that harmless here. */
static void run_waited_for(struct race_broker *broker)
{
    static void *(*const threads[WAITS])(void *) = {await_slot, gather, verdict, receive};
    pthread_t started[WAITS];
    struct round round = {.bus = NULL};
    struct bus_slot *slot = NULL;
    open_round(broker, &round);
    check_code(bus_sub_open(round.bus, "nobody/#", NULL, &round.sub), BUS_OK);
    check_code(bus_slot_reserve(round.bus, "w", BUS_FOREVER, &slot), BUS_OK);
    for (int i = 0; i < WAITS; i++)
        check(pthread_create(&started[i], NULL, threads[i], &round) == 0);
    pthread_barrier_wait(&round.waiting);
    fail_round(&round);
    for (int i = 0; i < WAITS; i++)
        check(pthread_join(started[i], NULL) == 0);
    check_code(bus_slot_commit(&slot, "late", 4), BUS_ECLOSED);
    bus_sub_close(&round.sub);
    close_round(&round);
}

int main(int argc, char **argv)
{
    int rounds = race_rounds(argc, argv, 200);
    struct race_broker *broker = race_broker_start("handler");
    check(sem_init(&closed, 0, 0) == 0);
    for (int number = 0; number < rounds; number++)
        (number % 2 == 0 ? run_alone : run_waited_for)(broker);
    race_broker_kill(&broker);
    printf("%d rounds\n", rounds);
    return 0;
}
