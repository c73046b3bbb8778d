/* SPDX-License-Identifier: MPL-2.0 */
/* rounds_test.c -- how many round trips each beginning takes over a long link: the table in
 * broker/design/rounds.md.
 *
 * On a link this long the time is round trips alone.  A bound lies between the rounds that a step
 * may take and one or two more, so that a busy machine does not pass it. */
#include "bench/long_link.h"
#include "tests/lib/broker.h"
#include "tests/lib/folder.h"

#include <bus/bus.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define DELAY_MS 200
#define ROUND_MS (2 * DELAY_MS)
#define RATE UINT64_C(1000000000)
#define SOON_MS 20000
#define BEAT_MS 4000 /* longer than all rounds: no timer plays a part */
#define DEFAULT_BEAT_MS 1000

static struct folder folder;
static struct broker broker;
static struct long_link far_link;
static struct bus *far; /* behind the link */
static struct bus *near;
static int64_t began_ms;

static void begin(void)
{
    began_ms = test_now_ms();
}

/* What began took more than one of these counts of round trips, and less than the other. */
static void expect_rounds(double more_than, double less_than, const char *what)
{
    double rounds = (double)(test_now_ms() - began_ms) / ROUND_MS;
    cr_expect_lt(rounds, less_than, "%s took %.2f round trips", what, rounds);
    cr_expect_gt(rounds, more_than, "%s took %.2f round trips: not over the link?", what, rounds);
}

static struct bus *open_beating(const char *endpoint, const char *party, int64_t beat_ms)
{
    struct bus_options options;
    struct bus *bus = NULL;
    bus_options_init(&options);
    options.party = party;
    options.heartbeat_ms = beat_ms;
    options.lost_after_ms = 4 * beat_ms;
    cr_assert_eq(bus_open(endpoint, &options, SOON_MS, &bus, NULL), BUS_OK);
    return bus;
}

static struct bus *open_at(const char *endpoint, const char *party)
{
    return open_beating(endpoint, party, BEAT_MS);
}

static void start(void)
{
    char at[2 * BROKER_ENDPOINT_BYTES_MAX + 8];
    cr_assert(broker_start(&broker, NULL));
    snprintf(at, sizeof at, "%s,data=%s", broker.control, broker.data);
    cr_assert(long_link_start(&far_link, at, RATE, DELAY_MS * 1000));
    near = open_at(broker.control, "near");
    begin();
    far = open_at(far_link.at, "far");
}

static void end(void)
{
    bus_close(&far, SOON_MS);
    bus_close(&near, SOON_MS);
    long_link_fini(&far_link);
    broker_fini(&broker);
    folder_fini(&folder);
}

TestSuite(rounds, .fini = end, .timeout = 60);

/* libzmq connects in three, HELLO and ATTACH take one each. */
Test(rounds, to_open_are_two_more_than_to_connect)
{
    start();
    expect_rounds(4.5, 6.5, "bus_open()");
}

/* Five rounds are two beats: a greeting that is given up after each beat takes 15. */
Test(rounds, to_open_are_no_more_with_beats_as_short_as_the_link_is_long)
{
    start();
    begin();
    struct bus *other = open_beating(far_link.at, "other", DEFAULT_BEAT_MS);
    expect_rounds(4.5, 8, "bus_open()");
    bus_close(&other, SOON_MS);
}

static void publish(struct bus *bus, const char *topic)
{
    cr_assert_eq(bus_publish(bus, topic, "value", 5), BUS_OK);
    cr_assert_eq(bus_flush(bus, SOON_MS), BUS_OK);
}

static void expect_value(struct bus_sub *sub)
{
    struct bus_msg *msg = NULL;
    cr_assert_eq(bus_sub_recv(sub, SOON_MS, &msg, NULL), BUS_OK);
    bus_msg_free(&msg);
}

Test(rounds, to_subscribe_and_to_have_the_first_value_are_one)
{
    struct bus_sub *sub = NULL;
    start();
    publish(near, "t");
    begin();
    cr_assert_eq(bus_sub_open(far, "near/t", NULL, &sub), BUS_OK);
    expect_value(sub);
    expect_rounds(0.9, 1.8, "a subscription and its first value");
    begin();
    publish(near, "t");
    expect_value(sub);
    expect_rounds(0.4, 0.9, "the next value");
    bus_sub_close(&sub);
}

Test(rounds, to_await_what_is_there_are_one)
{
    struct bus_msg *msg = NULL;
    start();
    publish(near, "t");
    begin();
    cr_assert_eq(bus_await(far, "near/t", 0, SOON_MS, &msg, NULL), BUS_OK);
    expect_rounds(0.9, 1.8, "an await");
    bus_msg_free(&msg);
}

Test(rounds, to_publish_are_none_and_one_to_be_accepted)
{
    start();
    begin();
    cr_assert_eq(bus_publish(far, "t", "value", 5), BUS_OK);
    expect_rounds(-1, 0.4, "the call");
    cr_assert_eq(bus_flush(far, SOON_MS), BUS_OK);
    expect_rounds(0.9, 1.8, "the first value of a topic, accepted");
    begin();
    publish(far, "t");
    expect_rounds(0.9, 1.8, "the next one");
}

Test(rounds, to_publish_are_one_more_for_a_party_that_came_back)
{
    start();
    publish(far, "t");
    bus_close(&far, SOON_MS);
    far = open_at(far_link.at, "far");
    begin();
    publish(far, "t");
    expect_rounds(1.9, 2.8, "the first value, accepted");
}

/* Its reader is near the broker: half a round trip for the value. */
Test(rounds, to_be_received_are_none_more_for_a_first_value)
{
    struct bus_sub *sub = NULL;
    start();
    cr_assert_eq(bus_sub_open(near, "far/t", NULL, &sub), BUS_OK);
    cr_assert_eq(bus_flush(near, SOON_MS), BUS_OK);
    begin();
    cr_assert_eq(bus_publish(far, "t", "value", 5), BUS_OK);
    expect_value(sub);
    expect_rounds(0.4, 0.9, "the first value");
    bus_sub_close(&sub);
}

/* Over its journal, where control was, or on a free port; data is on a free one each time. */
static void start_with_journal(const char *control)
{
    char journal[FOLDER_PATH_BYTES_MAX + 16];
    snprintf(journal, sizeof journal, "%s/journal", folder.path);
    const char *const words[] = {"--journal", journal,  "--durability",
                                 "process",   "--data", "tcp://127.0.0.1:*",
                                 "--control", control,  NULL};
    cr_assert(broker_start(&broker, words));
}

/* The party dials data where it was, long before the broker says where it is. */
Test(rounds, are_not_spent_for_ever_on_a_data_channel_that_moved)
{
    char control[BROKER_ENDPOINT_BYTES_MAX];
    char data[BROKER_ENDPOINT_BYTES_MAX];
    cr_assert(folder_make(&folder));
    start_with_journal("tcp://127.0.0.1:*");
    snprintf(control, sizeof control, "%s", broker.control);
    snprintf(data, sizeof data, "%s", broker.data);
    cr_assert(long_link_start(&far_link, control, RATE, DELAY_MS * 1000 / 10));
    far = open_at(far_link.at, "far");
    publish(far, "t");
    process_signal(&broker.process, SIGKILL);
    cr_assert_eq(process_wait(&broker.process, SOON_MS), 128 + SIGKILL);
    broker_fini(&broker);
    start_with_journal(control);
    cr_assert_str_neq(broker.data, data);
    publish(far, "t");
}

static void *work(void *arg)
{
    struct bus_sub *group = arg;
    struct bus_msg *msg = NULL;
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(bus_sub_recv(group, SOON_MS, &msg, NULL), BUS_OK);
        cr_assert_eq(bus_msg_reply(&msg, "reply", 5), BUS_OK);
    }
    return NULL;
}

static void request(void)
{
    uint64_t seq = 0;
    struct bus_msg *msg = NULL;
    cr_assert_eq(bus_request(far, "q", "request", 7, SOON_MS, &seq), BUS_OK);
    cr_assert_eq(bus_await(far, bus_replies(far), seq, SOON_MS, &msg, NULL), BUS_OK);
    bus_msg_free(&msg);
}

Test(rounds, to_request_are_one)
{
    pthread_t worker;
    struct bus_sub *group = NULL;
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.group = "workers";
    start();
    cr_assert_eq(bus_sub_open(near, "far/q", &options, &group), BUS_OK);
    cr_assert_eq(bus_flush(near, SOON_MS), BUS_OK);
    cr_assert_eq(pthread_create(&worker, NULL, work, group), 0);
    begin();
    request();
    expect_rounds(0.9, 1.8, "the first request of a topic");
    begin();
    request();
    expect_rounds(0.9, 1.8, "the next request");
    pthread_join(worker, NULL);
    bus_sub_close(&group);
}
