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
    await_put_by(bus, await, false);
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

/* Each of these is more than the inbox holds. */
Test(await, keeps_each_answer_to_a_wait_that_timed_out)
{
    driver_up(&d);
    struct bus *bus = bus_of(d.session);
    struct bus_msg *msg = NULL;
    bus->options.inbox_bytes_max = 4;
    for (uint64_t seq = 0; seq < 4; seq++)
        cr_assert_eq(ask(bus, seq, &msg), BUS_ETIMEDOUT);
    answer(0, "alone");
    await_collect(bus);
    cr_assert(await_has_answer(bus), "it came, and another one is waited for");
    answer(1, "second");
    answer(2, "third");
    await_collect(bus);
    await_relieve(bus, api_now_ns());
    expect_answer(bus, 0, "alone");
    expect_answer(bus, 1, "second");
    expect_answer(bus, 2, "third");
    cr_expect_not(await_has_answer(bus));
    end_all(bus);
}

/* The slots for which the broker is asked next. */
static void expect_asked(const uint64_t *seqs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(driver_expect(&d, MSG_AWAIT).as.await.seq, seqs[i]);
    cr_assert_eq(driver_hear(&d).type, MSG_NONE);
}

/* The oldest value goes, the last one stays alone, and a call for the one that went asks again. */
Test(await, asks_again_for_what_nobody_took_in_ten_minutes)
{
    driver_up(&d);
    struct bus *bus = bus_of(d.session);
    struct bus_msg *msg = NULL;
    bus->options.inbox_bytes_max = 4;
    for (uint64_t seq = 0; seq < 2; seq++)
        cr_assert_eq(ask(bus, seq, &msg), BUS_ETIMEDOUT);
    expect_asked((uint64_t[]){0, 1}, 2);
    answer(0, "first");
    answer(1, "second");
    await_collect(bus);
    await_relieve(bus, api_now_ns() + LIMIT_AWAITED_MS * INT64_C(1000000));
    expect_answer(bus, 1, "second");
    cr_expect(await_has_answer(bus), "a call shall come for the other one");
    cr_assert_eq(ask(bus, 0, &msg), BUS_ETIMEDOUT);
    cr_expect_not(await_has_answer(bus));
    expect_asked((uint64_t[]){0}, 1);
    answer(0, "again");
    await_collect(bus);
    expect_answer(bus, 0, "again");
    end_all(bus);
}

Test(await, keeps_what_a_decided_gather_left_only_where_it_fits)
{
    driver_up(&d);
    struct bus *bus = bus_of(d.session);
    struct bus_msg *msg = NULL;
    struct bus_want wants[] = {{.topic = "bob/x", .seq = 0}, {.topic = "bob/x", .seq = 1}};
    bus->options.inbox_bytes_max = 4;
    cr_assert_eq(ask(bus, 2, &msg), BUS_ETIMEDOUT);
    cr_assert_eq(bus_gather(bus, wants, 2, 1, 1, BUS_POLL, NULL), BUS_ETIMEDOUT);
    expect_asked((uint64_t[]){2, 0, 1}, 3);
    answer(0, "0");
    cr_assert_eq(bus_gather(bus, wants, 2, 1, 1, BUS_POLL, NULL), BUS_OK);
    answer(2, "another");
    answer(1, "too late");
    await_collect(bus);
    expect_answer(bus, 2, "another");
    cr_expect(await_has_answer(bus));
    cr_assert_eq(bus_gather(bus, wants, 2, 2, 1, BUS_POLL, NULL), BUS_ETIMEDOUT);
    expect_asked((uint64_t[]){1}, 1);
    answer(1, "1");
    cr_assert_eq(bus_gather(bus, wants, 2, 2, 1, BUS_POLL, NULL), BUS_OK);
    bus_wants_free(wants, 2);
    end_all(bus);
}

Test(await, has_no_room_beside_as_many_answers_as_it_may_have)
{
    driver_up(&d);
    struct bus *bus = bus_of(d.session);
    struct bus_msg *msg = NULL;
    for (uint64_t seq = 0; seq < LIMIT_AWAITS; seq++) {
        cr_assert_eq(ask(bus, seq, &msg), BUS_ETIMEDOUT);
        answer(seq, "");
        await_collect(bus);
    }
    cr_assert_eq(ask(bus, LIMIT_AWAITS, &msg), BUS_EFULL);
    bus_unawait(bus, "bob/x", 0);
    cr_assert_eq(ask(bus, LIMIT_AWAITS, &msg), BUS_ETIMEDOUT);
    expect_answer(bus, 1, "");
    end_all(bus);
}
