/* SPDX-License-Identifier: MPL-2.0 */
/* store_away_test.c -- the store of a journal is away for longer than clients would look for a
 * broker: all go on behind that, and nobody is lost.
 *
 *   TEST_LONG=1   for a minute, with clients as they come */
#include "tests/lib/shard.h"

#include <bus/tap.h>

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

enum {
    LOST_MS = 500,     /* for which clients would look by themselves */
    AWAY_MS = 7000,    /* more than a broker waits before it is mute, and that */
    REFUSED_MS = 2000, /* it is not mute by then */
    LONG_MS = 60000,   /* more than clients look for by themselves when they are not told */
    LONG_SUITE_S = 600,
};

static struct postgres postgres;
static struct shard shard;

static void init(void)
{
    if (postgres_is_installed())
        cr_assert(postgres_start(&postgres, 0), "%s", postgres.why);
    shard_init(&shard, &postgres, "0");
}

static void fini(void)
{
    shard_fini(&shard);
    postgres_fini(&postgres);
}

TestSuite(store_away, .init = init, .fini = fini, .timeout = LONG_SUITE_S);

static bool is_long(void)
{
    return is_asked("TEST_LONG");
}

static struct bus *join_impatient(const char *party)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.broker_lost_ms = is_long() ? options.broker_lost_ms : LOST_MS;
    return must_open_at(shard.everywhere, &options);
}

static struct bus_tap *tap_impatiently(void)
{
    struct bus_tap_options options;
    struct bus_error *error = NULL;
    struct bus_tap *tap = NULL;
    bus_tap_options_init(&options);
    options.from_id = 1;
    options.broker_lost_ms = is_long() ? options.broker_lost_ms : LOST_MS;
    expect_code_of(bus_tap_open(shard.everywhere, &options, SOON_MS, &tap, &error), BUS_OK, &error);
    return tap;
}

/* Nobody was lost, nothing failed, and the last event is that alice completed. */
static void expect_peace(struct bus_tap *tap)
{
    const struct bus_event *event = NULL;
    const char *name = "";
    while (strcmp(name, "party.completed") != 0) {
        expect_code(bus_tap_next(tap, SOON_MS, &event, NULL), BUS_OK);
        name = bus_event_name(event);
        cr_assert_null(strstr(name, "lost"), "%s", name);
        cr_assert_null(strstr(name, "failed"), "%s", name);
        cr_assert_null(strstr(name, "verdict"), "%s", name);
    }
}

static void away(void (*leave)(void), void (*come_back)(void))
{
    shard_start(&shard, 0);
    shard_must_serve(&shard, 0);
    struct bus *alice = join_impatient("alice");
    struct bus *bob = join_impatient("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_tap *tap = tap_impatiently();
    must_publish(alice, "w", "before");
    must_flush(alice);
    expect_value(sub, "alice/w", 0, "before");
    leave();
    must_publish(alice, "w", "meanwhile");
    shard_must_say(&shard, 0, "this broker says nothing");
    usleep((is_long() ? LONG_MS : AWAY_MS) * 1000U);
    expect_code(bus_flush(alice, 0), BUS_ETIMEDOUT);
    come_back();
    shard_must_say(&shard, 0, "this broker goes on");
    must_flush(alice);
    must_publish(alice, "w", "after");
    must_flush(alice);
    expect_value(sub, "alice/w", 1, "meanwhile");
    expect_value(sub, "alice/w", 2, "after");
    expect_code(bus_complete(alice, SOON_MS), BUS_OK);
    expect_peace(tap);
    bus_tap_close(&tap);
    bus_sub_close(&sub);
    must_close(&bob);
    must_close(&alice);
}

static void freeze_store(void)
{
    postgres_freeze(&postgres, 0);
}

static void thaw_store(void)
{
    postgres_thaw(&postgres, 0);
}

static void kill_store(void)
{
    postgres_kill(&postgres, 0);
}

static void revive_store(void)
{
    cr_assert(postgres_revive(&postgres, 0), "%s", postgres.why);
}

Test(store_away, loses_nobody_when_it_stands_still)
{
    shard_skip_without_server(&shard);
    away(freeze_store, thaw_store);
}

Test(store_away, loses_nobody_when_it_is_down)
{
    shard_skip_without_server(&shard);
    away(kill_store, revive_store);
}

/* Whether another process may be alice is for the broker to say that has the shard.  This one may
 * have lost it. */
Test(store_away, is_told_to_nobody_as_a_refusal)
{
    shard_skip_without_server(&shard);
    struct bus *alice = shard_begin(&shard);
    struct bus_options options = patient_options("alice");
    struct bus *other = NULL;
    freeze_store();
    expect_code(bus_open(shard.everywhere, &options, REFUSED_MS, &other, NULL), BUS_ETIMEDOUT);
    thaw_store();
    expect_code(bus_open(shard.everywhere, &options, SOON_MS, &other, NULL), BUS_EDENIED);
    must_close(&alice);
}
