/* SPDX-License-Identifier: MPL-2.0 */
/* delay_line_test.c -- the model of a link: order, delay, rate, queue, jitter, stalls, end. */
#include "bench/delay_line.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define MS INT64_C(1000000)
#define STEP_NS INT64_C(10000)

static const struct link_shape plain = {.rate = 8000000, .delay_ns = 20 * MS, .queue_ns = 4 * MS};

static struct delay_line line;
static unsigned char next_in;
static unsigned char next_out;

static void start(const struct link_shape *shape)
{
    cr_assert(delay_line_init(&line, shape, 7, 0));
}

static void end(void)
{
    delay_line_fini(&line);
}

/* Puts as much as there is room for, at most so much; the bytes count up. */
static size_t put(int64_t now_ns, size_t most)
{
    struct iovec pieces[2];
    int count = 0;
    size_t bytes = delay_line_room(&line, now_ns, pieces, &count);
    size_t left = bytes < most ? bytes : most;
    bytes = left;
    for (int i = 0; i < count; i++) {
        unsigned char *at = pieces[i].iov_base;
        for (size_t k = 0; k < pieces[i].iov_len && left > 0; k++, left--) {
            at[k] = next_in++;
        }
    }
    delay_line_put(&line, now_ns, bytes);
    return bytes;
}

/* Takes what is due, and looks that the bytes count up. */
static size_t take(int64_t now_ns)
{
    struct iovec pieces[2];
    int count = 0;
    size_t bytes = delay_line_due(&line, now_ns, pieces, &count);
    for (int i = 0; i < count; i++) {
        const unsigned char *at = pieces[i].iov_base;
        for (size_t k = 0; k < pieces[i].iov_len; k++) {
            cr_assert_eq(at[k], next_out, "out of order");
            next_out++;
        }
    }
    delay_line_take(&line, bytes);
    return bytes;
}

/* A sender that has always more, and a reader that takes all at once: bytes that came out. */
static size_t saturate(int64_t from_ns, int64_t until_ns)
{
    size_t taken = 0;
    for (int64_t now_ns = from_ns; now_ns < until_ns; now_ns += STEP_NS) {
        put(now_ns, SIZE_MAX);
        size_t bytes = 0;
        while ((bytes = take(now_ns)) > 0) {
            taken += bytes;
        }
    }
    return taken;
}

TestSuite(delay_line, .fini = end);

Test(delay_line, a_byte_takes_the_delay_and_its_time_on_the_link)
{
    start(&plain);
    cr_assert_eq(put(0, 1000), 1000);
    cr_assert_eq(delay_line_next_due(&line), 21 * MS, "1000 B at 1 byte a microsecond: 1 ms");
    cr_assert_eq(take(21 * MS - 1), 0);
    cr_assert_eq(take(21 * MS), 1000);
    cr_assert_eq(delay_line_next_due(&line), DELAY_LINE_NEVER);
}

Test(delay_line, nothing_leaves_before_it_is_open)
{
    cr_assert(delay_line_init(&line, &plain, 7, 40 * MS));
    put(39 * MS, 1000);
    cr_assert_eq(delay_line_next_due(&line), 61 * MS);
}

Test(delay_line, carries_its_rate_whatever_the_delay)
{
    const int64_t delays_ms[] = {0, 5, 100};
    const uint64_t rates[] = {10000000, 100000000, 1000000000};
    for (size_t d = 0; d < 3; d++) {
        for (size_t r = 0; r < 3; r++) {
            struct link_shape shape = {
                .rate = rates[r], .delay_ns = delays_ms[d] * MS, .queue_ns = 4 * MS};
            start(&shape);
            saturate(0, 200 * MS);
            double share = (double)saturate(200 * MS, 500 * MS) * 8 / 0.3 / (double)rates[r];
            cr_expect(share > 0.99 && share < 1.01, "%lld ms, %llu bit/s: %.3f of it",
                      (long long)delays_ms[d], (unsigned long long)rates[r], share);
            end();
            next_in = next_out = 0;
        }
    }
}

Test(delay_line, takes_no_more_than_its_queue_before_the_bottleneck)
{
    start(&plain);
    size_t bytes = put(0, SIZE_MAX);
    cr_assert_eq(bytes, 4000, "4 ms at 1 byte a microsecond");
    cr_assert_eq(put(0, SIZE_MAX), 0);
    cr_assert_eq(delay_line_next_room(&line), 2 * MS, "when half of it has left");
    cr_assert_eq(put(2 * MS - 1, SIZE_MAX), 0);
    cr_assert_geq(put(2 * MS, SIZE_MAX), 1999);
}

Test(delay_line, holds_what_nobody_takes_and_no_more)
{
    start(&plain);
    size_t held = 0;
    for (int64_t now_ns = 0; now_ns < 2000 * MS; now_ns += MS) {
        held += put(now_ns, SIZE_MAX);
    }
    cr_assert_eq(held, line.room, "full");
    cr_assert_eq(delay_line_next_room(&line), DELAY_LINE_NEVER);
    cr_assert_gt(take(2000 * MS), 0);
    cr_assert_neq(delay_line_next_room(&line), DELAY_LINE_NEVER);
}

Test(delay_line, keeps_the_order_under_jitter)
{
    struct link_shape shape = plain;
    shape.jitter_ns = 10 * MS;
    start(&shape);
    int64_t least_ns = INT64_MAX;
    int64_t most_ns = 0;
    for (int64_t now_ns = 0; now_ns < 40000 * MS; now_ns += 40 * MS) {
        put(now_ns, 1000);
        int64_t took_ns = delay_line_next_due(&line) - now_ns;
        least_ns = took_ns < least_ns ? took_ns : least_ns;
        most_ns = took_ns > most_ns ? took_ns : most_ns;
        cr_assert_eq(take(now_ns + 31 * MS), 1000, "21 ms, and at most 10 more");
    }
    cr_assert(least_ns >= 21 * MS && least_ns < 22 * MS);
    cr_assert(most_ns <= 31 * MS && most_ns > 30 * MS);
    saturate(40000 * MS, 41000 * MS);
}

Test(delay_line, some_packets_are_late_and_hold_back_those_behind_them)
{
    struct link_shape shape = plain;
    shape.late_percent = 1;
    shape.late_ns = 200 * MS;
    start(&shape);
    size_t late = 0;
    for (int64_t now_ns = 0; now_ns < 1000000 * MS; now_ns += 250 * MS) {
        put(now_ns, 1000);
        late += delay_line_next_due(&line) - now_ns == 221 * MS;
        cr_assert_eq(take(now_ns + 221 * MS), 1000);
    }
    cr_assert(late > 20 && late < 80, "%zu of 4000 packets", late);
}

Test(delay_line, stalls_at_the_end_of_each_period)
{
    struct link_shape shape = plain;
    shape.stall_every_ns = 1000 * MS;
    shape.stall_ns = 300 * MS;
    start(&shape);
    put(600 * MS, 1000);
    cr_assert_eq(delay_line_next_due(&line), 621 * MS);
    take(621 * MS);
    put(700 * MS, 1000);
    cr_assert_eq(delay_line_next_due(&line), 1000 * MS);
    put(710 * MS, 1000);
    cr_assert_eq(take(1000 * MS), 2000, "what was held comes at once");
}

Test(delay_line, small_writes_are_packets_of_their_own_time)
{
    start(&plain);
    for (int64_t i = 0; i < 5; i++) {
        put(i * MS, 10);
    }
    for (int64_t i = 0; i < 5; i++) {
        int64_t due_ns = 20 * MS + i * MS + 10000;
        cr_assert_eq(delay_line_next_due(&line), due_ns);
        cr_assert_eq(take(due_ns), 10);
    }
}

Test(delay_line, the_end_travels_behind_the_bytes)
{
    start(&plain);
    put(0, 1000);
    delay_line_end(&line, 0);
    cr_assert_not(delay_line_is_over(&line, 100 * MS), "there are bytes left");
    cr_assert_eq(take(21 * MS), 1000);
    cr_assert_eq(delay_line_next_due(&line), 21 * MS);
    cr_assert_not(delay_line_is_over(&line, 21 * MS - 1));
    cr_assert(delay_line_is_over(&line, 21 * MS));
    cr_assert_eq(put(22 * MS, 10), 0, "nothing comes behind the end");
    cr_assert_eq(delay_line_next_room(&line), DELAY_LINE_NEVER);
}
