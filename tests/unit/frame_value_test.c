/* SPDX-License-Identifier: MPL-2.0 */
/* frame_value_test.c -- the values of RESERVE and GAP frames. */
#include "libbus/wire/frame.h"

#include <criterion/criterion.h>

Test(frame_value, of_a_promise_comes_back)
{
    static const struct frame_reserve cases[] = {
        {.deadline_ms = -1, .value_bytes_max = 0},
        {.deadline_ms = 0, .value_bytes_max = 1},
        {.deadline_ms = 1, .value_bytes_max = 100},
        {.deadline_ms = INT64_MAX, .value_bytes_max = LIMIT_VALUE_BYTES},
        {.deadline_ms = 86400000, .value_bytes_max = LIMIT_VALUE_BYTES - 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t bytes[FRAME_RESERVE_BYTES_MAX];
        struct frame_reserve got;
        size_t count = frame_reserve_encode(bytes, &cases[i]);
        cr_assert_eq(frame_reserve_decode(span_of(bytes, count), &got), WIRE_OK);
        cr_assert_eq(got.deadline_ms, cases[i].deadline_ms);
        cr_assert_eq(got.value_bytes_max, cases[i].value_bytes_max);
        for (size_t less = 1; less < count; less++)
            cr_assert_neq(frame_reserve_decode(span_of(bytes, less), &got), WIRE_OK);
    }
}

static void expect_needs_back(uint32_t count)
{
    static struct frame_need needs[LIMIT_SLOT_NEEDS + 1];
    static uint8_t bytes[FRAME_PROMISE_BYTES_MAX];
    char name[LIMIT_NAME_BYTES];
    struct frame_reserve got, promise = {.deadline_ms = 7, .need_count = count};
    struct frame_need need;
    memset(name, 'n', sizeof name);
    for (uint32_t i = 0; i < count; i++)
        needs[i] = (struct frame_need){span_of(name, i % LIMIT_NAME_BYTES + 1), UINT64_MAX - i};
    size_t size = frame_promise_encode(bytes, sizeof bytes, &promise, needs);
    cr_assert_eq(frame_reserve_decode(span_of(bytes, size), &got), WIRE_OK);
    cr_assert_eq(got.need_count, count);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert(frame_need_next(&got.needs, &need));
        cr_assert(span_equal(need.topic, needs[i].topic) && need.seq == needs[i].seq);
    }
    cr_assert_not(frame_need_next(&got.needs, &need));
}

Test(frame_value, has_so_many_needs_and_no_more)
{
    static uint8_t beyond[3 + 3 + 3 * (LIMIT_SLOT_NEEDS + 1)] = {
        0x93, 0x01, 0x01, 0xdc, 2 * (LIMIT_SLOT_NEEDS + 1) >> 8, 2 * (LIMIT_SLOT_NEEDS + 1) & 0xff};
    struct frame_reserve got;
    expect_needs_back(1);
    expect_needs_back(LIMIT_SLOT_NEEDS - 1);
    expect_needs_back(LIMIT_SLOT_NEEDS);
    for (size_t at = 6; at < sizeof beyond; at += 3)
        memcpy(beyond + at, "\xa1n\x05", 3);
    cr_assert_eq(frame_reserve_decode(span_of(beyond, sizeof beyond), &got), WIRE_RANGE);
}

Test(frame_value, of_a_gap_comes_back)
{
    for (unsigned reason = 0; reason < GAP_REASON_COUNT; reason++) {
        uint8_t bytes[FRAME_GAP_BYTES_MAX];
        struct frame_gap gap = {UINT64_MAX - reason, (enum gap_reason)reason};
        struct frame_gap got;
        size_t count = frame_gap_encode(bytes, &gap);
        cr_assert_eq(frame_gap_decode(span_of(bytes, count), &got), WIRE_OK);
        cr_assert_eq(got.count, gap.count);
        cr_assert_eq(got.reason, gap.reason);
    }
}

/* Refused as a promise, refused as a gap; WIRE_OK: taken. */
static const struct {
    struct span bytes;
    enum wire_err reserve;
    enum wire_err gap;
} cases[] = {
#define BYTES(text)                                                                                \
    {                                                                                              \
        .data = text, .bytes = sizeof(text) - 1                                                    \
    }
    {BYTES(""), WIRE_EMPTY, WIRE_EMPTY},
    {BYTES("\x92\x01\x01"), WIRE_OK, WIRE_OK},
    {BYTES("\x90"), WIRE_OK, WIRE_OK},                         /* all missing */
    {BYTES("\x94\x01\x01\x90\x81\x01\x02"), WIRE_OK, WIRE_OK}, /* a field of a newer version */
    {BYTES("\x93\x01\x01\x81\x01\x02"), WIRE_FORMAT, WIRE_OK}, /* needs are an array */
    {BYTES("\x93\x01\x01\x91\xa1\x61"), WIRE_RANGE, WIRE_OK},  /* a topic without a number */
    {BYTES("\x93\x01\x01\x92\xa0\x05"), WIRE_RANGE, WIRE_OK},  /* a number without a topic */
    {BYTES("\x93\x01\x01\x92\x05\xa1\x61"), WIRE_FORMAT, WIRE_OK},
    {BYTES("\x93\x01\x01\x92\xa1\xff\x05"), WIRE_UTF8, WIRE_OK},
    {BYTES("\x93\x01\x01\x92\xa1\x61\xff"), WIRE_RANGE, WIRE_OK},
    {BYTES("\x93\x01\x01\x92\xa1\x61\x05"), WIRE_OK, WIRE_OK},
    {BYTES("\x92\xff\x00"), WIRE_OK, WIRE_RANGE},
    {BYTES("\x92\xfe\x00"), WIRE_RANGE, WIRE_RANGE},
    {BYTES("\x92\x00\x02"), WIRE_OK, WIRE_OK},
    {BYTES("\x92\x00\x03"), WIRE_OK, WIRE_RANGE},
    {BYTES("\x92\x00\xff"), WIRE_RANGE, WIRE_RANGE},
    {BYTES("\x92\x00\xce\x80\x00\x00\x00"), WIRE_OK, WIRE_RANGE},
    {BYTES("\x92\x00\xce\x80\x00\x00\x01"), WIRE_RANGE, WIRE_RANGE},
    {BYTES("\x92\xcf\xff\xff\xff\xff\xff\xff\xff\xff\x00"), WIRE_RANGE, WIRE_OK},
    {BYTES("\x92\x00\xc0"), WIRE_FORMAT, WIRE_FORMAT},
    {BYTES("\x92\x90\x00"), WIRE_FORMAT, WIRE_FORMAT},
    {BYTES("\x92\xa1\x61\x00"), WIRE_FORMAT, WIRE_FORMAT},
    {BYTES("\x92\x00"), WIRE_ITEMS, WIRE_ITEMS},
    {BYTES("\x92\x00\xcd"), WIRE_TRUNCATED, WIRE_TRUNCATED},
    {BYTES("\x92\x00\x00\x00"), WIRE_TRAILING, WIRE_TRAILING},
    {BYTES("\x82\x00\x00\x00\x00"), WIRE_FORMAT, WIRE_FORMAT},
    {BYTES("\x05"), WIRE_FORMAT, WIRE_FORMAT},
};

Test(frame_value, is_refused_with_its_code)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct frame_reserve reserve;
        struct frame_gap gap;
        cr_assert_eq(frame_reserve_decode(cases[i].bytes, &reserve), cases[i].reserve, "%zu", i);
        cr_assert_eq(frame_gap_decode(cases[i].bytes, &gap), cases[i].gap, "%zu", i);
    }
    struct frame_reserve reserve;
    cr_assert_eq(frame_reserve_decode(cases[2].bytes, &reserve), WIRE_OK);
    cr_assert_eq(reserve.deadline_ms, -1, "no deadline, where none is said");
    cr_assert_eq(reserve.value_bytes_max, 0);
}
