/* SPDX-License-Identifier: MPL-2.0 */
/* traffic_race.c -- many threads on one bus: several write one topic, several topics are read, and
 * messages are freed by another thread than the one that received them.  Every value of every topic
 * arrives once and in order. */
#include "tests/lib/race.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { WRITERS = 3, READERS = 2, HANDED = 64 };

/* Messages on their way from the thread that received them to the one that frees them. */
struct handover {
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct bus_msg *msgs[HANDED];
    int count;
    int is_over;
};

struct traffic {
    struct bus *writer;
    struct bus *reader;
    int values; /* of each writing thread */
    struct handover handover;
};

struct reading {
    struct traffic *traffic;
    const char *pattern;
    struct bus_sub *sub;
};

struct value {
    int writer;
    int number;
};

static void hand(struct handover *handover, struct bus_msg *msg)
{
    pthread_mutex_lock(&handover->lock);
    while (handover->count == HANDED)
        pthread_cond_wait(&handover->news, &handover->lock);
    handover->msgs[handover->count++] = msg;
    pthread_cond_broadcast(&handover->news);
    pthread_mutex_unlock(&handover->lock);
}

static void *free_all(void *arg)
{
    struct handover *handover = arg;
    pthread_mutex_lock(&handover->lock);
    while (handover->count > 0 || !handover->is_over) {
        if (handover->count == 0) {
            pthread_cond_wait(&handover->news, &handover->lock);
            continue;
        }
        struct bus_msg *msg = handover->msgs[--handover->count];
        pthread_cond_broadcast(&handover->news);
        pthread_mutex_unlock(&handover->lock);
        size_t bytes = 0;
        (void)bus_msg_value(msg, &bytes);
        check(bytes == sizeof(struct value));
        bus_msg_free(&msg);
        pthread_mutex_lock(&handover->lock);
    }
    pthread_mutex_unlock(&handover->lock);
    return NULL;
}

struct writing {
    struct traffic *traffic;
    int number;
};

static void *write_values(void *arg)
{
    struct writing *writing = arg;
    struct traffic *traffic = writing->traffic;
    for (int i = 0; i < traffic->values; i++) {
        struct value value = {.writer = writing->number, .number = i};
        if (i % 3 == 0) {
            struct bus_slot *slot = NULL;
            check_code(bus_slot_reserve(traffic->writer, "w", BUS_FOREVER, &slot), BUS_OK);
            check_code(bus_slot_commit(&slot, &value, sizeof value), BUS_OK);
        } else {
            check_code(bus_publish(traffic->writer, "w", &value, sizeof value), BUS_OK);
        }
        if (i % 500 == 0)
            check_code(bus_flush(traffic->writer, SOON_MS), BUS_OK);
    }
    return NULL;
}

static void *read_values(void *arg)
{
    struct reading *reading = arg;
    struct traffic *traffic = reading->traffic;
    int next[WRITERS] = {0};
    for (int i = 0; i < WRITERS * traffic->values; i++) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        struct value value;
        enum bus_err err = bus_sub_recv(reading->sub, SOON_MS, &msg, &error);
        check_code_of(err, BUS_OK, &error);
        check(bus_msg_seq(msg) == (uint64_t)i);
        memcpy(&value, bus_msg_value(msg, NULL), sizeof value);
        check(value.number == next[value.writer]);
        next[value.writer]++;
        if (i % 2 == 0)
            hand(&traffic->handover, msg);
        else
            bus_msg_free(&msg);
    }
    return NULL;
}

static void run(struct race_broker *broker, int values)
{
    pthread_t writers[WRITERS];
    pthread_t readers[READERS];
    pthread_t freeing;
    struct traffic traffic = {.writer = race_open(broker, "writer"),
                              .reader = race_open(broker, "reader"),
                              .values = values};
    struct reading readings[READERS] = {{.traffic = &traffic, .pattern = "writer/w"},
                                        {.traffic = &traffic, .pattern = "+/#"}};
    struct writing writings[WRITERS];
    check(pthread_mutex_init(&traffic.handover.lock, NULL) == 0);
    check(pthread_cond_init(&traffic.handover.news, NULL) == 0);
    for (int i = 0; i < READERS; i++)
        check_code(bus_sub_open(traffic.reader, readings[i].pattern, NULL, &readings[i].sub),
                   BUS_OK);
    check_code(bus_flush(traffic.reader, SOON_MS), BUS_OK);
    check(pthread_create(&freeing, NULL, free_all, &traffic.handover) == 0);
    for (int i = 0; i < READERS; i++)
        check(pthread_create(&readers[i], NULL, read_values, &readings[i]) == 0);
    for (int i = 0; i < WRITERS; i++) {
        writings[i] = (struct writing){.traffic = &traffic, .number = i};
        check(pthread_create(&writers[i], NULL, write_values, &writings[i]) == 0);
    }
    for (int i = 0; i < WRITERS; i++)
        check(pthread_join(writers[i], NULL) == 0);
    for (int i = 0; i < READERS; i++)
        check(pthread_join(readers[i], NULL) == 0);
    pthread_mutex_lock(&traffic.handover.lock);
    traffic.handover.is_over = 1;
    pthread_cond_broadcast(&traffic.handover.news);
    pthread_mutex_unlock(&traffic.handover.lock);
    check_code(bus_close(&traffic.writer, SOON_MS), BUS_OK);
    check_code(bus_close(&traffic.reader, SOON_MS), BUS_OK); /* while messages are still freed */
    check(pthread_join(freeing, NULL) == 0);
    for (int i = 0; i < READERS; i++)
        bus_sub_close(&readings[i].sub);
    pthread_cond_destroy(&traffic.handover.news);
    pthread_mutex_destroy(&traffic.handover.lock);
}

int main(int argc, char **argv)
{
    int values = race_rounds(argc, argv, 3000);
    struct race_broker *broker = race_broker_start("traffic");
    run(broker, values);
    race_broker_kill(&broker);
    printf("%d values\n", WRITERS * values);
    return 0;
}
