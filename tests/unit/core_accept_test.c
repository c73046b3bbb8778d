/* SPDX-License-Identifier: MPL-2.0 */
/* core_accept_test.c -- when a writer is told that what it sent is accepted. */
#include "tests/unit/core_driver.h"

enum { LARGE = 128 * 1024, SMALL = LARGE / 2 - 1 };

static uint32_t topic;
static uint64_t seq;

/* Alice has a topic that nobody reads. */
static void begin(void)
{
    init();
    join(1);
    topic = open_topic(1, "alice/grads");
    batch_bytes = LARGE;
    seq = 0;
}

TestSuite(core_accept, .init = begin, .fini = fini);

static void send(uint32_t bytes)
{
    batch_bytes = bytes;
    publish(1, topic, seq, 1, 500 + (payload_id)seq);
    seq += 1;
}

/* Whether the writer of batches that come one at a time, each for itself, waits for its answers. */
static bool is_kept_waiting(void)
{
    send(LARGE);
    bool is_silent = strstr(said, "accepted") == NULL;
    pass_ms(LIMIT_ACCEPT_MS);
    forget();
    return is_silent;
}

Test(core_accept, is_said_at_once_behind_a_small_batch)
{
    send(SMALL);
    EXPECT("1 < accepted 1 0\n");
    send(SMALL);
    EXPECT("1 < accepted 2 0\n");
}

Test(core_accept, stands_for_as_many_large_batches_as_there_is_room_for)
{
    for (int i = 1; i < (int)(LIMIT_ACCEPT_BYTES / LARGE); i++) {
        send(LARGE);
        EXPECT("");
    }
    send(LARGE);
    EXPECT("1 < accepted 4 0\n");
    send(LARGE + 1);
    EXPECT("");
    send(LIMIT_ACCEPT_BYTES - LARGE - 1);
    EXPECT("1 < accepted 6 0\n");
    cr_expect_gt(core_deadline_ns(core), now_ns + LIMIT_ACCEPT_MS * MS);
}

Test(core_accept, is_said_with_the_next_batch_that_is_small)
{
    send(LARGE);
    send(LARGE);
    EXPECT("");
    send(SMALL);
    EXPECT("1 < accepted 3 0\n");
}

Test(core_accept, is_said_with_whatever_else_is_accepted)
{
    send(LARGE);
    EXPECT("");
    fail(1, topic, 0, 0);
    cr_expect_not_null(strstr(said, "1 < accepted 1 1\n"), "%s", said);
    fail(1, topic, 0, 2); /* waits for the next batch */
    forget();
    send(LARGE);
    cr_expect_not_null(strstr(said, "1 < accepted 2 2\n"), "%s", said);
}

Test(core_accept, is_said_when_its_time_has_come)
{
    send(LARGE);
    cr_expect_eq(core_deadline_ns(core), now_ns + LIMIT_ACCEPT_MS * MS);
    now_ns += LIMIT_ACCEPT_MS * MS - 1;
    send(LARGE); /* does not begin it anew */
    EXPECT("");
    now_ns += 1;
    pass_ms(0);
    EXPECT("1 < accepted 2 0\n");
}

/* 4 are answered at once, then 8, 16, up to 1024; when it has paid, 4 again. */
Test(core_accept, keeps_nobody_waiting_in_vain_for_long)
{
    for (uint32_t most = 4; most <= 1024; most *= 2) {
        cr_assert(is_kept_waiting());
        for (uint32_t i = 0; i < most; i++)
            cr_assert_not(is_kept_waiting(), "%u of %u", i, most);
    }
    cr_assert(is_kept_waiting());
    for (uint32_t i = 0; i < 1024; i++)
        cr_assert_not(is_kept_waiting());
    for (int i = 0; i < (int)(LIMIT_ACCEPT_BYTES / LARGE); i++)
        send(LARGE);
    forget();
    cr_assert(is_kept_waiting());
    for (uint32_t i = 0; i < 4; i++)
        cr_assert_not(is_kept_waiting());
    cr_assert(is_kept_waiting());
}

Test(core_accept, owes_nothing_to_a_connection_that_is_gone)
{
    send(LARGE);
    closed(1);
    forget();
    pass_ms(LIMIT_ACCEPT_MS);
    cr_expect_null(strstr(said, "accepted"), "%s", said);
}
