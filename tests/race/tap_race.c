/* SPDX-License-Identifier: MPL-2.0 */
/* tap_race.c -- a tap is read by its descriptor while parties come, fail, stall and go, and is
 * stopped by another thread: every event once and in order, and the end of every party among
 * them. */
#include "tests/lib/race.h"

#include <bus/tap.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { PARTIES = 30 };

struct watch {
    struct race_broker *broker;
    struct bus_tap *tap;
    pthread_mutex_t lock;
    pthread_cond_t news;
    int joined;
    int left;
    int failed;
    int stalled;
};

static void count(struct watch *watch, const struct bus_event *event)
{
    const char *name = bus_event_name(event);
    const struct bus_error *error = bus_event_error(event);
    pthread_mutex_lock(&watch->lock);
    watch->joined += strcmp(name, "party.joined") == 0;
    watch->left += strcmp(name, "party.left") == 0;
    if (strcmp(name, "party.failed") == 0) {
        check(error != NULL);
        watch->failed++;
        watch->stalled += strcmp(bus_error_kind(error), "stalled") == 0;
    }
    pthread_cond_broadcast(&watch->news);
    pthread_mutex_unlock(&watch->lock);
}

/* Reads only when the descriptor says so, and then until nothing is there. */
static void *read_events(void *arg)
{
    struct watch *watch = arg;
    struct pollfd item = {.fd = bus_tap_fd(watch->tap), .events = POLLIN};
    uint64_t last_id = 0;
    check(item.fd >= 0);
    for (;;) {
        const struct bus_event *event = NULL;
        check(poll(&item, 1, (int)SOON_MS) == 1);
        enum bus_err err = bus_tap_next(watch->tap, BUS_POLL, &event, NULL);
        if (err == BUS_ECLOSED)
            return NULL;
        if (err == BUS_ETIMEDOUT)
            continue;
        check_code(err, BUS_OK);
        check(bus_event_id(event) == last_id + 1 || last_id == 0);
        last_id = bus_event_id(event);
        count(watch, event);
    }
}

/* One party: it leaves, fails, or promises to move and does not. */
static void live(struct watch *watch, int number)
{
    char name[32];
    struct bus_error *error = NULL;
    (void)snprintf(name, sizeof name, "party-%d", number);
    struct bus *bus = race_open(watch->broker, name);
    if (number % 3 == 1) {
        error = bus_error_new("app.over", NULL, "party %d", number);
        bus_fail(bus, error);
        bus_error_unref(&error);
    } else if (number % 3 == 2) {
        bus_progress(bus, 20);
        bus_progress(bus, 20);
        check_code(bus_verdict(bus, SOON_MS, &error), BUS_OK);
        check(strcmp(bus_error_kind(error), "stalled") == 0);
        bus_error_unref(&error);
    }
    (void)bus_close(&bus, SOON_MS); /* some are over already */
}

static void *live_all(void *arg)
{
    for (int number = 0; number < PARTIES; number++)
        live(arg, number);
    return NULL;
}

int main(int argc, char **argv)
{
    struct watch watch = {.joined = 0};
    struct bus_tap_options options;
    pthread_t reader;
    pthread_t parties;
    (void)race_rounds(argc, argv, 1);
    watch.broker = race_broker_start("tap");
    check(pthread_mutex_init(&watch.lock, NULL) == 0 && pthread_cond_init(&watch.news, NULL) == 0);
    bus_tap_options_init(&options);
    check_code(
        bus_tap_open(race_broker_endpoint(watch.broker), &options, SOON_MS, &watch.tap, NULL),
        BUS_OK);
    check(pthread_create(&reader, NULL, read_events, &watch) == 0);
    check(pthread_create(&parties, NULL, live_all, &watch) == 0);
    check(pthread_join(parties, NULL) == 0);
    pthread_mutex_lock(&watch.lock);
    while (watch.left + watch.failed < PARTIES)
        pthread_cond_wait(&watch.news, &watch.lock);
    check(watch.joined == PARTIES);
    check(watch.failed == 2 * PARTIES / 3);
    check(watch.stalled == PARTIES / 3);
    pthread_mutex_unlock(&watch.lock);
    bus_tap_stop(watch.tap);
    check(pthread_join(reader, NULL) == 0);
    bus_tap_close(&watch.tap);
    race_broker_kill(&watch.broker);
    pthread_cond_destroy(&watch.news);
    pthread_mutex_destroy(&watch.lock);
    printf("%d parties\n", PARTIES);
    return 0;
}
