/* SPDX-License-Identifier: MPL-2.0 */
/* once_race.c -- promise 6: a local failure, a remote error, SIGTERM and the loss of the broker
 * come at the same instant, again and again; the handler runs exactly once, nothing hangs, and
 * after bus_close() it does not run. */
#include "tests/lib/race.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

enum { CAUSES = 4 };

struct round {
    struct race_broker *broker;
    struct bus *bus;
    struct bus *peer;
    struct bus_slot *slot; /* the peer's */
    pthread_barrier_t start;
    atomic_int handled;
    atomic_bool is_closed;
    unsigned order; /* which causes there are, as bits */
};

static void handle(const struct bus_error *verdict, void *arg)
{
    struct round *round = arg;
    check(!atomic_load(&round->is_closed));
    check(verdict != NULL);
    check(*bus_error_type(verdict) != '\0');
    struct bus_error *failure = bus_failure(round->bus); /* *out_bus is written */
    check(failure != NULL);
    bus_error_unref(&failure);
    atomic_fetch_add(&round->handled, 1);
}

static void *fail_here(void *arg)
{
    struct round *round = arg;
    struct bus_error *error = bus_error_new("app.here", NULL, "it does not go on");
    pthread_barrier_wait(&round->start);
    bus_fail(round->bus, error);
    bus_error_unref(&error);
    return NULL;
}

/* A failed slot is raised where it is waited for, and ends nobody else. */
static void *fail_there(void *arg)
{
    struct round *round = arg;
    struct bus_error *error = bus_error_new("app.there", NULL, "a slot of another");
    pthread_barrier_wait(&round->start);
    bus_slot_fail(&round->slot, error);
    bus_error_unref(&error);
    return NULL;
}

static _Atomic(struct bus *) signalled; /* of the round that is under way */

static void on_sigterm(int number)
{
    (void)number;
    bus_stop(atomic_load(&signalled));
}

/* As programs do it. */
static void *stop(void *arg)
{
    struct round *round = arg;
    pthread_barrier_wait(&round->start);
    atomic_store(&signalled, round->bus);
    check(raise(SIGTERM) == 0); /* it has been handled when this returns */
    return NULL;
}

static void *lose_broker(void *arg)
{
    struct round *round = arg;
    pthread_barrier_wait(&round->start);
    race_broker_kill(&round->broker);
    return NULL;
}

/* Every wait ends: with the error, or because this party is over or stopped. */
static void *wait_for_slot(void *arg)
{
    struct round *round = arg;
    struct bus_error *error = NULL;
    pthread_barrier_wait(&round->start);
    enum bus_err err = bus_await(round->bus, "peer/w", 0, BUS_FOREVER, NULL, &error);
    check(err == BUS_EFAILED || err == BUS_ECLOSED || err == BUS_ELOST);
    check(error != NULL);
    bus_error_unref(&error);
    return NULL;
}

static void run(int number)
{
    static void *(*const threads[CAUSES + 1])(void *) = {fail_here, fail_there, stop, lose_broker,
                                                         wait_for_slot};
    pthread_t started[CAUSES + 1];
    struct round round = {.slot = NULL};
    struct bus_options options;
    atomic_init(&round.handled, 0);
    atomic_init(&round.is_closed, false);
    round.broker = race_broker_start("once");
    race_options(&options, "here");
    /* What races is the broker's going; it must not be lost before the round begins. */
    options.broker_lost_ms = SOON_MS;
    options.on_failure = handle;
    options.on_failure_arg = &round;
    check_code(bus_open(race_broker_endpoint(round.broker), &options, SOON_MS, &round.bus, NULL),
               BUS_OK);
    round.peer = race_open(round.broker, "peer");
    check_code(bus_slot_reserve(round.peer, "w", BUS_FOREVER, &round.slot), BUS_OK);
    check_code(bus_flush(round.peer, SOON_MS), BUS_OK);
    check(pthread_barrier_init(&round.start, NULL, CAUSES + 1) == 0);
    for (int i = 0; i <= CAUSES; i++) /* each round another order of starting */
        check(pthread_create(&started[i], NULL, threads[(i + number) % (CAUSES + 1)], &round) == 0);
    for (int i = 0; i <= CAUSES; i++)
        check(pthread_join(started[i], NULL) == 0);
    (void)bus_close(&round.bus, BUS_POLL); /* there is no broker to answer */
    atomic_store(&round.is_closed, true);
    check(atomic_load(&round.handled) == 1);
    (void)bus_close(&round.peer, BUS_POLL);
    pthread_barrier_destroy(&round.start);
}

int main(int argc, char **argv)
{
    int rounds = race_rounds(argc, argv, 1000);
    struct sigaction action = {.sa_handler = on_sigterm};
    check(sigaction(SIGTERM, &action, NULL) == 0);
    for (int number = 0; number < rounds; number++)
        run(number);
    printf("%d rounds\n", rounds);
    return 0;
}
