/* SPDX-License-Identifier: MPL-2.0 */
/* await_test.c -- waits that their callers gave up: as many as there is room for, the oldest go. */
#include "libbus/api/await_table.h"
#include "libbus/api/clock.h"
#include "libbus/api/fork.h"
#include "libbus/api/lock.h"
#include "tests/unit/session_driver.h"

#include <bus/bus.h>

TestSuite(await, .timeout = 60);

static struct driver d;

/* A bus without a thread: only the test says what comes. */
static struct bus *bus_of(struct session *session)
{
    static struct bus bus;
    bus.session = session;
    bus.answers_fd = -1;
    bus.fork_generation = fork_watch();
    bus.options.inbox_bytes_max = 1 << 20;
    for (int lane = 0; lane < LINK_LANE_COUNT; lane++)
        bus.pollers[lane].call_fd = bus.pollers[lane].fd = -1;
    bus.awaits = await_table_new();
    atomic_init(&bus.refs, 1);
    cr_assert_not_null(bus.awaits);
    cr_assert(api_cond_init(&bus.news));
    cr_assert_eq(pthread_mutex_init(&bus.lock, NULL), 0);
    return &bus;
}

/* Nobody waits for anything any more. */
static void end_all(struct bus *bus)
{
    await_discard_all(bus);
    free(bus->awaits);
    driver_fini(&d);
}

static enum bus_err ask(struct bus *bus, uint64_t seq, struct bus_msg **out_msg)
{
    return bus_await(bus, "bob/x", seq, BUS_POLL, out_msg, NULL);
}

static void answer(uint64_t seq, const char *text)
{
    struct frame frames[] = {driver_topic_frame(4, "bob/x"), driver_value(4, seq, text)};
    driver_deliver(&d, 0, frames, 2);
}

static void expect_answer(struct bus *bus, uint64_t seq, const char *text)
{
    struct bus_msg *msg = NULL;
    size_t bytes = 0;
    cr_assert_eq(ask(bus, seq, &msg), BUS_OK);
    const void *value = bus_msg_value(msg, &bytes);
    cr_assert(span_equal(span_of(value, bytes), span_text(text)));
    bus_msg_free(&msg);
}

/* Two that nobody waits for any more, and one that somebody does, who takes its answer itself. */
Test(await, tells_of_those_that_are_answered_and_of_no_others)
{
    driver_up(&d);
    struct bus *bus = bus_of(d.session);
    struct bus_msg *msg = NULL;
    uint64_t live = 0;
    struct session_item item;
    for (uint64_t seq = 0; seq < 3; seq++)
        cr_assert_eq(ask(bus, seq, &msg), BUS_ETIMEDOUT);
    cr_assert_eq(session_await(d.session, span_text("bob/y"), 0, true, &live), CODE_OK);
    for (int i = 0; i < 4; i++)
        (void)driver_expect(&d, MSG_AWAIT);
    struct frame frames[] = {driver_topic_frame(5, "bob/y"), driver_value(5, 0, "for another")};
    driver_deliver(&d, 0, frames, 2);
    await_collect(bus);
    cr_expect_not(await_has_answer(bus));
    answer(2, "two");
    answer(1, "one");
    await_collect(bus);
    cr_assert(await_has_answer(bus));
    await_collect(bus);
    expect_answer(bus, 1, "one");
    cr_expect(await_has_answer(bus));
    expect_answer(bus, 2, "two");
    cr_expect_not(await_has_answer(bus));
    cr_assert_eq(ask(bus, 0, &msg), BUS_ETIMEDOUT);
    cr_assert_eq(session_want_take(d.session, live, &item), CODE_OK);
    cr_expect(span_equal(item.value, span_text("for another")));
    buffer_unref(&item.buffer);
    end_all(bus);
}

/* Whoever waited has not looked since. */
Test(await, tells_of_one_that_was_answered_before_it_was_put_by)
{
    driver_up(&d);
    struct bus *bus = bus_of(d.session);
    struct bus_msg *msg = NULL;
    cr_assert_eq(ask(bus, 0, &msg), BUS_ETIMEDOUT);
    struct await *await = await_find(bus, "bob/x", 0, true);
    cr_assert_not_null(await);
    answer(0, "zero");
    await_collect(bus);
    cr_assert_not(await_has_answer(bus), "somebody waits for it");
    await_put_by(bus, await);
    cr_assert(await_has_answer(bus));
    expect_answer(bus, 0, "zero");
    end_all(bus);
}

Test(await, makes_room_for_one_more_by_the_oldest_that_nobody_waits_for)
{
    driver_init(&d);
    struct bus *bus = bus_of(d.session);
    struct bus_msg *msg = NULL;
    for (uint64_t seq = 0; seq < LIMIT_AWAITS; seq++)
        cr_assert_eq(bus_await(bus, "bob/w", seq, BUS_POLL, &msg, NULL), BUS_ETIMEDOUT, "%d",
                     (int)seq);
    for (uint64_t seq = LIMIT_AWAITS; seq < LIMIT_AWAITS + 3; seq++)
        cr_expect_eq(bus_await(bus, "bob/w", seq, BUS_POLL, &msg, NULL), BUS_ETIMEDOUT, "%d",
                     (int)seq);
    end_all(bus);
}
