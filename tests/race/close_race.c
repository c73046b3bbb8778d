/* SPDX-License-Identifier: MPL-2.0 */
/* close_race.c -- a bus closes while others settle its slots, receive from its subscriptions, free
 * its messages and close its subscriptions: that is safe, and afterwards all say BUS_ECLOSED. */
#include "tests/lib/race.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 40, MESSAGES = 40, THREADS = 4 };

struct round {
    struct bus *bus;
    struct bus_sub *sub;
    struct bus_sub *other_sub;
    struct bus_slot *slots[SLOTS];
    struct bus_msg *msgs[MESSAGES];
    pthread_barrier_t start;
    atomic_int freed; /* values that commit_owned gave back */
    int owned;
};

static void give_back(void *value, void *arg)
{
    free(value);
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void *settle(void *arg)
{
    struct round *round = arg;
    pthread_barrier_wait(&round->start);
    for (int i = 0; i < SLOTS; i++) {
        enum bus_err err = BUS_OK;
        if (i % 3 == 0) {
            bus_slot_fail(&round->slots[i], NULL);
        } else if (i % 3 == 1) {
            err = bus_slot_commit(&round->slots[i], "value", 5);
        } else {
            void *value = calloc(1, 100);
            err = bus_slot_commit_owned(&round->slots[i], value, 100, give_back, &round->freed);
            round->owned++;
        }
        check(err == BUS_OK || err == BUS_ECLOSED);
        check(round->slots[i] == NULL);
    }
    return NULL;
}

static void *receive(void *arg)
{
    struct round *round = arg;
    pthread_barrier_wait(&round->start);
    for (;;) {
        struct bus_msg *msg = NULL;
        enum bus_err err = bus_sub_recv(round->sub, BUS_FOREVER, &msg, NULL);
        if (err == BUS_ECLOSED)
            return NULL;
        check(err == BUS_OK || err == BUS_EFAILED || err == BUS_EENDED);
        bus_msg_free(&msg);
    }
}

static void *free_messages(void *arg)
{
    struct round *round = arg;
    pthread_barrier_wait(&round->start);
    for (int i = 0; i < MESSAGES; i++) {
        if (i % 2 == 0)
            bus_msg_free(&round->msgs[i]);
        else
            bus_msg_return(&round->msgs[i]);
    }
    bus_sub_close(&round->other_sub);
    return NULL;
}

static void *close_bus(void *arg)
{
    struct round *round = arg;
    pthread_barrier_wait(&round->start);
    enum bus_err err = bus_close(&round->bus, SOON_MS);
    check(err == BUS_OK || err == BUS_ESETTLED);
    check(round->bus == NULL);
    return NULL;
}

static void fill(struct round *round)
{
    check_code(bus_sub_open(round->bus, "here/kept", NULL, &round->other_sub), BUS_OK);
    check_code(bus_sub_open(round->bus, "here/#", NULL, &round->sub), BUS_OK);
    for (int i = 0; i < MESSAGES; i++)
        check_code(bus_publish(round->bus, "kept", "message", 7), BUS_OK);
    for (int i = 0; i < MESSAGES; i++)
        check_code(bus_sub_recv(round->other_sub, SOON_MS, &round->msgs[i], NULL), BUS_OK);
    for (int i = 0; i < SLOTS; i++)
        check_code(bus_slot_reserve(round->bus, "open", BUS_FOREVER, &round->slots[i]), BUS_OK);
}

static void run(struct race_broker *broker)
{
    static void *(*const threads[THREADS])(void *) = {settle, receive, free_messages, close_bus};
    pthread_t started[THREADS];
    struct round round = {.bus = race_open(broker, "here")};
    struct bus_msg *msg = NULL;
    atomic_init(&round.freed, 0);
    fill(&round);
    check(pthread_barrier_init(&round.start, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        check(pthread_create(&started[i], NULL, threads[i], &round) == 0);
    for (int i = 0; i < THREADS; i++)
        check(pthread_join(started[i], NULL) == 0);
    check_code(bus_sub_recv(round.sub, BUS_FOREVER, &msg, NULL), BUS_ECLOSED);
    check_code(bus_sub_add(round.sub, "there/#"), BUS_ECLOSED);
    bus_sub_close(&round.sub);
    pthread_barrier_destroy(&round.start);
    /* The broker may hold what was sent by reference a little longer, never what was refused. */
    check(atomic_load(&round.freed) <= round.owned);
}

int main(int argc, char **argv)
{
    int rounds = race_rounds(argc, argv, 200);
    struct race_broker *broker = race_broker_start("close");
    for (int number = 0; number < rounds; number++)
        run(broker);
    race_broker_kill(&broker);
    printf("%d rounds\n", rounds);
    return 0;
}
