/* SPDX-License-Identifier: MPL-2.0 */
/* core_await_test.c -- awaited slots: how their answers wait for the reader. */
#include "tests/unit/core_driver.h"

TestSuite(core_await, .init = init, .fini = fini);

/* One value that fills the window of the awaits by itself. */
static void publish_window(uint32_t topic, uint64_t seq, payload_id payload)
{
    batch_bytes = 2 * (uint32_t)DEFAULT_SUB_WINDOW_BYTES;
    batch(1, payload,
          (struct event_range){.kind = FRAME_VALUE,
                               .topic = topic,
                               .seq = seq,
                               .value_bytes = (uint32_t)DEFAULT_SUB_WINDOW_BYTES});
}

static void take_awaited(uint64_t bytes)
{
    taken(2, 0, bytes);
}

/* Nothing else happens in these steps that could send the second answer: no beat, no value. */
Test(core_await, sends_the_next_answer_once_the_reader_took_the_last)
{
    join(1);
    join(2);
    uint32_t a = open_topic(1, "alice/a");
    publish_window(a, 0, 5);
    publish_window(a, 1, 6);
    forget();
    await_slot(2, 1, "alice/a", 0);
    EXPECT("12 < sub 0 payload 5 x1\n");
    await_slot(2, 2, "alice/a", 1);
    EXPECT("");
    take_awaited(1);
    EXPECT("");
    take_awaited(DEFAULT_SUB_WINDOW_BYTES);
    EXPECT("12 < sub 0 payload 6 x1\n");
}

Test(core_await, refuses_that_less_or_more_is_taken_than_before)
{
    join_all(3);
    uint32_t a = open_topic(1, "alice/a");
    publish_window(a, 0, 5);
    forget();
    await_slot(2, 1, "alice/a", 0);
    await_slot(3, 1, "alice/a", 0);
    forget();
    take_awaited(2);
    EXPECT("");
    take_awaited(1);
    EXPECT("2 dropped\n12 dropped\n");
    taken(3, 0, 2 * DEFAULT_SUB_WINDOW_BYTES);
    EXPECT("3 dropped\n13 dropped\n");
}
