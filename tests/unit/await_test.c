/* SPDX-License-Identifier: MPL-2.0 */
/* await_test.c -- waits that their callers gave up: as many as there is room for, the oldest go. */
#include "libbus/api/await_table.h"
#include "libbus/api/clock.h"
#include "libbus/api/fork.h"
#include "libbus/api/lock.h"

#include <criterion/criterion.h>

TestSuite(await, .timeout = 60);

/* A bus that has said its greeting, and whose broker never answers. */
static struct bus *bus_without_broker(void)
{
    static struct memory memory;
    static struct bus bus;
    const struct session_options options = {
        .job = span_text("job"),
        .party = span_text("alice"),
        .client = 1,
        .heartbeat_ms = 1000,
        .lost_after_ms = 10000,
        .broker_lost_ms = 30000,
        .outbox_bytes_max = 1 << 20,
        .inbox_bytes_max = 1 << 20,
    };
    memory_heap_init(&memory, UINT64_C(1) << 40);
    bus.fork_generation = fork_watch();
    bus.options.inbox_bytes_max = 1 << 20;
    for (int lane = 0; lane < LINK_LANE_COUNT; lane++)
        bus.pollers[lane].call_fd = bus.pollers[lane].fd = -1;
    bus.awaits = await_table_new();
    atomic_init(&bus.refs, 1);
    cr_assert_not_null(bus.awaits);
    cr_assert(api_cond_init(&bus.news));
    cr_assert_eq(pthread_mutex_init(&bus.lock, NULL), 0);
    cr_assert_eq(session_new(&memory, &options, 1, &bus.session), CODE_OK);
    return &bus;
}

Test(await, makes_room_for_one_more_by_the_oldest_that_nobody_waits_for)
{
    struct bus *bus = bus_without_broker();
    struct bus_msg *msg = NULL;
    for (uint64_t seq = 0; seq < LIMIT_AWAITS; seq++)
        cr_assert_eq(bus_await(bus, "bob/w", seq, BUS_POLL, &msg, NULL), BUS_ETIMEDOUT, "%d",
                     (int)seq);
    for (uint64_t seq = LIMIT_AWAITS; seq < LIMIT_AWAITS + 3; seq++)
        cr_expect_eq(bus_await(bus, "bob/w", seq, BUS_POLL, &msg, NULL), BUS_ETIMEDOUT, "%d",
                     (int)seq);
    await_discard_all(bus);
    session_free(&bus->session);
    free(bus->awaits);
}
