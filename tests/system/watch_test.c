/* SPDX-License-Identifier: MPL-2.0 */
/* watch_test.c -- a job that the page looks at, while its broker is away for longer than a tap
 * waits: the next tap goes on behind the last event, or begins anew at another broker instance.
 *
 *   TEST_LONG=1   a tap waits as long as that of the page: half a minute */
#include "clients/web/watch.h"
#include "tests/lib/revival.h"

#include <bus/bus.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PARTIES = 5,
    OPEN_MS = 100,
    LOST_MS = 700,
    LONG_MS = 30000, /* of the page */
    LOOK_MS = 20,
    EVENTS_MAX = 64,
    BRIEF_BYTES = 512
};

static struct watch watch;
static unsigned begun_anew; /* how often the watch said so */
/* Events since then, as a page has them. */
static size_t count;
static uint64_t ids[EVENTS_MAX];
static char briefs[EVENTS_MAX][BRIEF_BYTES];

static void set_up(void)
{
    const char *is_long = getenv("TEST_LONG");
    revival_open();
    watch = (struct watch){.job = "default",
                           .lost_ms = is_long != NULL && is_long[0] == '1' ? 0 : LOST_MS};
}

static void tear_down(void)
{
    bus_tap_close(&watch.tap);
    revival_close();
}

TestSuite(watch, .init = set_up, .fini = tear_down, .timeout = 300);

/* A broker at the same endpoints; journal: of the revival, or "none". */
static void start_broker(const char *journal)
{
    stage_open_with((const char *const[]){"--control", revival.control, "--data", revival.data,
                                          "--journal", journal, NULL});
}

/* As the page's program does in each of its rounds. */
static void look(void)
{
    struct watch_event events[WATCH_EVENTS_MAX];
    watch_open(&watch, revival.control, test_now_ms(), OPEN_MS);
    if (watch_begin_anew(&watch, test_now_ms())) {
        begun_anew += 1;
        count = 0;
    }
    size_t got = watch_read(&watch, test_now_ms(), events);
    for (size_t i = 0; i < got; i++) {
        cr_assert_lt(count, EVENTS_MAX);
        cr_assert_not_null(events[i].brief);
        ids[count] = events[i].id;
        snprintf(briefs[count], sizeof briefs[count], "%s", events[i].brief);
        count += 1;
        free(events[i].brief);
        free(events[i].whole);
        bus_error_unref(&events[i].error);
    }
    if (got == 0)
        (void)poll(NULL, 0, LOOK_MS);
}

/* Whether an event tells that this party joined. */
static bool has_joined(const char *party)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"%s\"", party);
    for (size_t i = 0; i < count; i++)
        if (strstr(briefs[i], "party.joined") != NULL && strstr(briefs[i], wanted) != NULL)
            return true;
    return false;
}

static void look_until_joined(const char *party)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (!has_joined(party) || !watch_is_caught_up(&watch)) {
        cr_assert_lt(test_now_ms(), until_ms, "%zu events, and none of %s", count, party);
        look();
    }
}

static void look_until_lost(void)
{
    int64_t until_ms = test_now_ms() + LONG_MS + SOON_MS;
    while (watch.tap != NULL) {
        cr_assert_lt(test_now_ms(), until_ms, "the tap still waits for its broker");
        look();
    }
}

static void expect_ids_from_1(void)
{
    for (size_t i = 0; i < count; i++)
        cr_expect_eq(ids[i], i + 1, "%zu: %s", i, briefs[i]);
}

/* Parties that the page has seen, and a broker that is away until the tap is lost. */
static void begin(const char *journal)
{
    struct bus *buses[PARTIES];
    char name[24];
    start_broker(journal);
    for (int i = 0; i < PARTIES; i++) {
        snprintf(name, sizeof name, "before%d", i);
        buses[i] = revival_open_patient(name);
    }
    look_until_joined(name);
    expect_ids_from_1();
    for (int i = 0; i < PARTIES; i++)
        must_close(&buses[i]);
    revival_kill();
    look_until_lost();
    for (int i = 0; i < 3; i++)
        look(); /* nobody answers */
    cr_expect_eq(begun_anew, 0);
    cr_expect_geq(count, PARTIES, "what was seen stays while the broker is away");
}

/* Fewer events than before: a tap behind the last one would wait for ever. */
Test(watch, begins_anew_at_a_broker_that_knows_nothing)
{
    begin("none");
    uint64_t before = watch.instance;
    start_broker("none");
    struct bus *bob = revival_open_patient("bob");
    look_until_joined("bob");
    cr_expect_eq(begun_anew, 1);
    cr_expect_neq(watch.instance, before);
    cr_expect_lt(count, PARTIES);
    cr_expect_not(has_joined("before0"));
    expect_ids_from_1();
    must_close(&bob);
}

/* More than before: the first events of the new broker would seem to be read. */
Test(watch, reads_all_of_a_broker_that_has_more_events)
{
    struct bus *buses[2 * PARTIES];
    char name[16];
    begin("none");
    start_broker("none");
    for (int i = 0; i < 2 * PARTIES; i++) {
        snprintf(name, sizeof name, "after%d", i);
        buses[i] = revival_open_patient(name);
    }
    look_until_joined(name);
    cr_expect_eq(begun_anew, 1);
    cr_expect(has_joined("after0"));
    expect_ids_from_1();
    for (int i = 0; i < 2 * PARTIES; i++)
        must_close(&buses[i]);
}

Test(watch, goes_on_at_the_broker_that_it_had)
{
    begin(revival.journal);
    uint64_t before = watch.instance;
    start_broker(revival.journal);
    struct bus *bob = revival_open_patient("bob");
    look_until_joined("bob");
    cr_expect_eq(begun_anew, 0);
    cr_expect_eq(watch.instance, before);
    cr_expect(has_joined("before0"));
    expect_ids_from_1();
    must_close(&bob);
}
