/* SPDX-License-Identifier: MPL-2.0 */
/* data_wait_race.c -- who waits for data polls for it, and who says something sends it, while the
 * library's thread sleeps, wakes and is told to look as well.  A ball goes to and fro between two
 * buses, so that everybody sleeps in between; beside it, on the same buses, others wait for values
 * and for given slots and give up, and others write.  Each ball comes back, and nobody waits for
 * ever: not behind one who polled and left, nor when the bus is stopped.  And what comes for
 * one who is busy is left to it, for as long as it looks for itself.  Who waits in bus_flush()
 * takes its answer by itself, too. */
#include "tests/lib/process.h"
#include "tests/lib/race.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct player {
    struct bus *bus;
    struct bus_sub *balls; /* of the other */
    struct bus_sub *noise; /* of the other, too */
    const char *other;
    int rounds;
    int is_serving;
    atomic_int *is_over;
};

static void hit(struct player *player, int round)
{
    check_code(bus_publish(player->bus, "ball", &round, sizeof round), BUS_OK);
}

static void catch (struct player *player, int round)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    int got = -1;
    enum bus_err err = bus_sub_recv(player->balls, SOON_MS, &msg, &error);
    check_code_of(err, BUS_OK, &error);
    memcpy(&got, bus_msg_value(msg, NULL), sizeof got);
    check(got == round);
    bus_msg_free(&msg);
}

static void *play(void *arg)
{
    struct player *player = arg;
    for (int round = 0; round < player->rounds; round++) {
        if (player->is_serving)
            hit(player, round);
        catch (player, round);
        if (!player->is_serving)
            hit(player, round);
    }
    return NULL;
}

/* Waits, mostly in vain, for some ms or not at all. */
static void *wait_beside(void *arg)
{
    struct player *player = arg;
    char topic[32];
    (void)snprintf(topic, sizeof topic, "%s/noise", player->other);
    for (int i = 0; !atomic_load(player->is_over); i++) {
        struct bus_msg *msg = NULL;
        enum bus_err err = i % 3 == 0 ? bus_await(player->bus, topic, (uint64_t)i, 1, &msg, NULL)
                                      : bus_sub_recv(player->noise, i % 3, &msg, NULL);
        check(err == BUS_OK || err == BUS_ETIMEDOUT);
        bus_msg_free(&msg);
    }
    return NULL;
}

static void *write_beside(void *arg)
{
    struct player *player = arg;
    for (int i = 0; !atomic_load(player->is_over); i++) {
        check_code(bus_publish(player->bus, "noise", &i, sizeof i), BUS_OK);
        if (i % 4 == 0)
            check_code(bus_flush(player->bus, SOON_MS), BUS_OK);
    }
    return NULL;
}

static void *wait_for_the_end(void *arg)
{
    struct player *player = arg;
    struct bus_msg *msg = NULL;
    enum bus_err err = BUS_OK;
    do {
        bus_msg_free(&msg);
        err = bus_sub_recv(player->noise, SOON_MS, &msg, NULL);
    } while (err == BUS_OK);
    check_code(err, BUS_ECLOSED);
    return NULL;
}

static void join(struct player *player, struct race_broker *broker, const char *name,
                 const char *other)
{
    char topic[32];
    player->bus = race_open(broker, name);
    player->other = other;
    (void)snprintf(topic, sizeof topic, "%s/ball", other);
    check_code(bus_sub_open(player->bus, topic, NULL, &player->balls), BUS_OK);
    (void)snprintf(topic, sizeof topic, "%s/noise", other);
    check_code(bus_sub_open(player->bus, topic, NULL, &player->noise), BUS_OK);
    check_code(bus_flush(player->bus, SOON_MS), BUS_OK);
}

/* ---- who polls leaves ------------------------------------------------------------------------ */

/* A party whose thread nothing else wakes for long. */
static struct bus *open_quiet(struct race_broker *broker, const char *party)
{
    struct bus_options options;
    race_options(&options, party);
    options.heartbeat_ms = 10 * SOON_MS;
    options.lost_after_ms = 30 * SOON_MS;
    return race_open_with(broker, &options);
}

struct waiting {
    struct bus_sub *sub;
    int64_t timeout_ms;
    enum bus_err expected;
};

static void *wait_once(void *arg)
{
    struct waiting *waiting = arg;
    struct bus_msg *msg = NULL;
    check_code(bus_sub_recv(waiting->sub, waiting->timeout_ms, &msg, NULL), waiting->expected);
    bus_msg_free(&msg);
    return NULL;
}

/* The second waits behind the first, who has left when the value comes.  The library's thread
 * sleeps for longer than that may take. */
static void leave_the_other(struct race_broker *broker, int rounds)
{
    struct bus_sub *subs[2] = {NULL, NULL};
    struct bus *writer = race_open(broker, "writer");
    struct bus *bus = open_quiet(broker, "patient");
    check_code(bus_sub_open(bus, "writer/never", NULL, &subs[0]), BUS_OK);
    check_code(bus_sub_open(bus, "writer/soon", NULL, &subs[1]), BUS_OK);
    check_code(bus_flush(bus, SOON_MS), BUS_OK);
    for (int i = 0; i < rounds; i++) {
        struct waiting first = {subs[0], 10, BUS_ETIMEDOUT};
        struct waiting second = {subs[1], SOON_MS, BUS_OK};
        pthread_t threads[2];
        check(pthread_create(&threads[0], NULL, wait_once, &first) == 0);
        for (int j = 0; j < 30; j++) /* for the first to be the first, as a rule */
            check_code(bus_flush(writer, SOON_MS), BUS_OK);
        check(pthread_create(&threads[1], NULL, wait_once, &second) == 0);
        check(pthread_join(threads[0], NULL) == 0);
        check_code(bus_publish(writer, "soon", NULL, 0), BUS_OK);
        check(pthread_join(threads[1], NULL) == 0);
    }
    for (int i = 0; i < 2; i++)
        bus_sub_close(&subs[i]);
    check_code(bus_close(&bus, SOON_MS), BUS_OK);
    check_code(bus_close(&writer, SOON_MS), BUS_OK);
}

/* ---- what is left to who is busy ------------------------------------------------------------- */

enum {
    VALUES = 500,
    LEAVE_MS = 5, /* libbus/api/lane_wait.c */
    NOT_LONG_MS = 600 * LEAVE_MS,
    THREADS_MAX = 64,
};

/* The library's threads of this process, by number. */
static size_t find_threads(long at[THREADS_MAX])
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/task");
    const struct dirent *entry;
    check(folder != NULL);
    while ((entry = readdir(folder)) != NULL && count < THREADS_MAX) {
        char path[300];
        char name[32] = "";
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue;
        if (fgets(name, sizeof name, file) != NULL && strcmp(name, "errbus\n") == 0)
            at[count++] = strtol(entry->d_name, NULL, 10);
        (void)fclose(file);
    }
    (void)closedir(folder);
    return count;
}

/* The one that was not there before. */
static long new_thread(const long *before, size_t before_count)
{
    long at[THREADS_MAX];
    size_t count = find_threads(at);
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < before_count && before[k] != at[i])
            k++;
        if (k == before_count)
            return at[i];
    }
    check(!"the library has a thread of its own");
    return 0;
}

/* Asks until it is there, and waits for nothing. */
static void take_busily(struct bus_sub *sub)
{
    struct bus_msg *msg = NULL;
    enum bus_err err = BUS_ETIMEDOUT;
    for (int64_t until_ms = test_now_ms() + SOON_MS;
         err == BUS_ETIMEDOUT && test_now_ms() < until_ms;)
        err = bus_sub_recv(sub, BUS_POLL, &msg, NULL);
    check_code(err, BUS_OK);
    bus_msg_free(&msg);
}

static struct bus *open_reader(struct race_broker *broker, struct bus_sub **out_sub)
{
    struct bus_sub_options sub_options;
    struct bus *bus = open_quiet(broker, "busy");
    bus_sub_options_init(&sub_options);
    sub_options.from_seq = BUS_FROM_NOW;
    check_code(bus_sub_open(bus, "writer/often", &sub_options, out_sub), BUS_OK);
    check_code(bus_flush(bus, SOON_MS), BUS_OK);
    return bus;
}

static void exchange(struct bus *writer, struct bus_sub *sub, int values)
{
    for (int i = 0; i < values; i++) {
        check_code(bus_publish(writer, "often", &i, sizeof i), BUS_OK);
        take_busily(sub);
    }
}

/* Its thread would otherwise be up for each value. */
static void leave_it_to_the_busy(struct race_broker *broker, struct bus *writer)
{
    long threads[THREADS_MAX];
    size_t count = find_threads(threads);
    struct bus_sub *sub = NULL;
    struct bus *bus = open_reader(broker, &sub);
    long thread = new_thread(threads, count);
    exchange(writer, sub, VALUES);
    uint64_t waits = race_waits_of(thread);
    int64_t start_ms = test_now_ms();
    exchange(writer, sub, VALUES);
    int64_t took_ms = test_now_ms() - start_ms;
    waits = race_waits_of(thread) - waits;
    check(waits > 0 && waits < VALUES / 4 + (uint64_t)took_ms / LEAVE_MS * 2);
    bus_sub_close(&sub);
    check_code(bus_close(&bus, SOON_MS), BUS_OK);
}

/* Who was busy and now waits by a descriptor, while its thread sleeps, is told. */
static void leave_nothing_for_long(struct race_broker *broker, struct bus *writer)
{
    struct bus_sub *sub = NULL;
    struct bus *bus = open_reader(broker, &sub);
    exchange(writer, sub, VALUES);
    struct pollfd item = {.fd = bus_sub_fd(sub), .events = POLLIN};
    check_code(bus_publish(writer, "often", NULL, 0), BUS_OK);
    check(poll(&item, 1, NOT_LONG_MS) == 1);
    take_busily(sub);
    bus_sub_close(&sub);
    check_code(bus_close(&bus, SOON_MS), BUS_OK);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void *flush_often(void *arg)
{
    struct bus *bus = arg;
    for (int i = 0; i < VALUES; i++) {
        check_code(bus_publish(bus, "flushed", &i, sizeof i), BUS_OK);
        check_code(bus_flush(bus, SOON_MS), BUS_OK);
    }
    return NULL;
}

/* The library's thread would otherwise be up for each answer, and for each flush.  It is up as well
 * where this thread gets no processor before the answer is there: not in all of the turns. */
static void answer_who_flushes(struct race_broker *broker)
{
    enum { TURNS = 20, FLUSHES = 25 };
    long threads[THREADS_MAX];
    size_t count = find_threads(threads);
    struct bus *bus = open_quiet(broker, "flusher");
    long thread = new_thread(threads, count);
    uint64_t least = UINT64_MAX;
    (void)flush_often(bus);
    for (int turn = 0; turn < TURNS; turn++) {
        uint64_t waits = race_waits_of(thread);
        for (int i = 0; i < FLUSHES; i++) {
            check_code(bus_publish(bus, "flushed", &i, sizeof i), BUS_OK);
            check_code(bus_flush(bus, SOON_MS), BUS_OK);
        }
        waits = race_waits_of(thread) - waits;
        least = waits < least ? waits : least;
    }
    check(least < FLUSHES / 2);
    check_code(bus_close(&bus, SOON_MS), BUS_OK);
}

/* One of them polls, leaves, and takes the answers of the others along. */
static void answer_all_who_flush(struct race_broker *broker)
{
    enum { FLUSHERS = 3 };
    pthread_t threads[FLUSHERS];
    struct bus *bus = open_quiet(broker, "flushers");
    for (int i = 0; i < FLUSHERS; i++)
        check(pthread_create(&threads[i], NULL, flush_often, bus) == 0);
    for (int i = 0; i < FLUSHERS; i++)
        check(pthread_join(threads[i], NULL) == 0);
    check_code(bus_close(&bus, SOON_MS), BUS_OK);
}

struct flushing {
    struct bus *bus;
    int64_t timeout_ms;
    enum bus_err expected;
};

static void *flush_once(void *arg)
{
    struct flushing *flushing = arg;
    check_code(bus_flush(flushing->bus, flushing->timeout_ms), flushing->expected);
    return NULL;
}

/* The second waits behind the first, as a rule, who has left when the answer comes. */
static void answer_who_is_left(struct race_broker *broker, int rounds)
{
    struct bus *bus = open_quiet(broker, "left");
    for (int i = 0; i < rounds; i++) {
        struct flushing first = {bus, 50, BUS_ETIMEDOUT};
        struct flushing second = {bus, SOON_MS / 10, BUS_OK}; /* its thread wakes later */
        pthread_t threads[2];
        race_broker_hold(broker, true);
        check_code(bus_publish(bus, "flushed", &i, sizeof i), BUS_OK);
        check(pthread_create(&threads[0], NULL, flush_once, &first) == 0);
        check(pthread_create(&threads[1], NULL, flush_once, &second) == 0);
        check(pthread_join(threads[0], NULL) == 0);
        race_broker_hold(broker, false);
        check(pthread_join(threads[1], NULL) == 0);
    }
    check_code(bus_close(&bus, SOON_MS), BUS_OK);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static int compare_times(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* How long three of four values took at most, for who waits by a descriptor, or in the call. */
static int64_t usual_time_ns(struct bus *writer, struct bus_sub *sub, bool is_polled)
{
    static int64_t took_ns[VALUES];
    for (int i = 0; i < VALUES; i++) {
        struct bus_msg *msg = NULL;
        int64_t start_ns = test_now_ns();
        check_code(bus_publish(writer, "often", &i, sizeof i), BUS_OK);
        if (is_polled) {
            struct pollfd item = {.fd = bus_sub_fd(sub), .events = POLLIN};
            check(poll(&item, 1, SOON_MS) == 1);
        }
        check_code(bus_sub_recv(sub, SOON_MS, &msg, NULL), BUS_OK);
        took_ns[i] = test_now_ns() - start_ns;
        bus_msg_free(&msg);
    }
    qsort(took_ns, VALUES, sizeof took_ns[0], compare_times);
    return took_ns[VALUES * 3 / 4];
}

/* Nothing is left to who waits by a descriptor, though it finds all without waiting for it. */
static void leave_nothing_to_pollers(struct race_broker *broker, struct bus *writer)
{
    struct bus_sub *sub = NULL;
    struct bus *bus = open_reader(broker, &sub);
    int64_t waited_ns = usual_time_ns(writer, sub, false);
    int64_t polled_ns = usual_time_ns(writer, sub, true);
    check(polled_ns < 8 * waited_ns + 1000000);
    bus_sub_close(&sub);
    check_code(bus_close(&bus, SOON_MS), BUS_OK);
}

int main(int argc, char **argv)
{
    static void *(*const beside[])(void *) = {wait_beside, write_beside};
    atomic_int is_over = 0;
    struct player players[2] = {{.is_serving = 1, .is_over = &is_over}, {.is_over = &is_over}};
    pthread_t playing[2];
    pthread_t others[2][2];
    struct race_broker *broker = race_broker_start("data_wait");
    players[0].rounds = players[1].rounds = race_rounds(argc, argv, 1000);
    join(&players[0], broker, "alice", "bob");
    join(&players[1], broker, "bob", "alice");
    for (int i = 0; i < 2; i++) {
        check(pthread_create(&playing[i], NULL, play, &players[i]) == 0);
        for (int j = 0; j < 2; j++)
            check(pthread_create(&others[i][j], NULL, beside[j], &players[i]) == 0);
    }
    for (int i = 0; i < 2; i++)
        check(pthread_join(playing[i], NULL) == 0);
    atomic_store(&is_over, 1);
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++)
            check(pthread_join(others[i][j], NULL) == 0);
        check(pthread_create(&playing[i], NULL, wait_for_the_end, &players[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        bus_stop(players[i].bus);
        check(pthread_join(playing[i], NULL) == 0);
    }
    for (int i = 0; i < 2; i++) {
        bus_sub_close(&players[i].balls);
        bus_sub_close(&players[i].noise);
        check_code(bus_close(&players[i].bus, SOON_MS), BUS_OK);
    }
    leave_the_other(broker, 5);
    struct bus *writer = race_open(broker, "writer");
    leave_it_to_the_busy(broker, writer);
    for (int i = 0; i < 5; i++) /* for its thread to sleep just then, as a rule */
        leave_nothing_for_long(broker, writer);
    leave_nothing_to_pollers(broker, writer);
    answer_who_flushes(broker);
    answer_all_who_flush(broker);
    answer_who_is_left(broker, 5);
    check_code(bus_close(&writer, SOON_MS), BUS_OK);
    race_broker_kill(&broker);
    printf("%d rounds\n", players[0].rounds);
    return 0;
}
