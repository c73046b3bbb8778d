/* SPDX-License-Identifier: MPL-2.0 */
/* large_test.c -- values of all sizes, whole; and what they do not hold up.
 *
 * Up to 64 MiB; TEST_LARGE=1 goes up to 2 GiB, the largest value there may be. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

TestSuite(large, .init = stage_open, .fini = stage_close, .timeout = 300);

#define MIB ((size_t)1024 * 1024)
#define CHUNK_BYTES ((size_t)256 * 1024)

static uint8_t *must_make(size_t bytes)
{
    uint8_t *value = malloc(bytes > 0 ? bytes : 1);
    cr_assert_not_null(value, "no memory for %zu bytes", bytes);
    uint64_t state = bytes + 1;
    for (size_t i = 0; i < bytes; i++) {
        if (i % 8 == 0) {
            state = state * 6364136223846793005U + 1442695040888963407U;
        }
        value[i] = (uint8_t)(state >> (i % 8 * 8));
    }
    return value;
}

static void expect_same(struct bus_msg *msg, const uint8_t *value, size_t bytes)
{
    size_t got = 0;
    const void *received = bus_msg_value(msg, &got);
    cr_assert_eq(got, bytes, "%zu bytes, not %zu", got, bytes);
    cr_assert_eq((uintptr_t)received % 8, 0, "a value of %zu bytes is not aligned", bytes);
    cr_assert_eq(memcmp(received, value, bytes), 0, "a value of %zu bytes differs", bytes);
}

static struct bus *open_roomy(const char *party)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.send_timeout_ms = 6 * SOON_MS;
    return must_open_with(&options);
}

Test(large, values_of_all_sizes_arrive_whole)
{
    const size_t sizes[] = {0,
                            1,
                            7,
                            8,
                            9,
                            255,
                            256,
                            65535,
                            65536,
                            128 * 1024,
                            CHUNK_BYTES - 1,
                            CHUNK_BYTES,
                            CHUNK_BYTES + 1,
                            2 * CHUNK_BYTES,
                            MIB - 1, /* by now in one frame */
                            MIB,
                            MIB + 1,
                            MIB + 3,
                            16 * MIB - 1,
                            64 * MIB};
    struct bus *alice = open_roomy("alice");
    struct bus *bob = open_roomy("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *value = must_make(sizes[i]);
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        expect_code(bus_publish(alice, "w", value, sizes[i]), BUS_OK);
        enum bus_err err = bus_sub_recv(sub, 3 * SOON_MS, &msg, &error);
        expect_code_of(err, BUS_OK, &error);
        expect_same(msg, value, sizes[i]);
        bus_msg_free(&msg);

        /* The same to one who awaits it, late. */
        err =
            bus_await(bob, "alice/w", i, sizes[i] < 4 * MIB ? 3 * SOON_MS : BUS_POLL, &msg, &error);
        cr_expect(err == BUS_OK || sizes[i] >= 4 * MIB, "%zu bytes: %s", sizes[i], code_name(err));
        if (err == BUS_OK) {
            expect_same(msg, value, sizes[i]);
        }
        bus_msg_free(&msg);
        bus_error_unref(&error);
        free(value);
    }
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

static void count_free(void *value, void *arg)
{
    free(value);
    atomic_fetch_add((atomic_int *)arg, 1);
}

Test(large, values_may_be_given_away)
{
    struct bus *alice = open_roomy("alice");
    struct bus *bob = open_roomy("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    const size_t sizes[] = {16, 100 * 1024, 8 * MIB};
    static atomic_int freed;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *value = must_make(sizes[i]);
        uint8_t *given = must_make(sizes[i]);
        struct bus_slot *slot = must_reserve(alice, "w");
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        expect_code(bus_slot_commit_owned(&slot, given, sizes[i], count_free, &freed), BUS_OK);
        cr_assert_null(slot);
        enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, &error);
        expect_code_of(err, BUS_OK, &error);
        expect_same(msg, value, sizes[i]);
        bus_msg_free(&msg);
        must_flush(alice);
        free(value);
    }
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
    cr_expect_eq(atomic_load(&freed), 3, "%d of 3 were freed", atomic_load(&freed));
}

/* A value in many chunks leaves room for everything else: of one that its reader does not
 * take, no more than a window is on its way. */
Test(large, values_do_not_hold_up_small_ones)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.is_in_pieces = 1;
    struct bus *alice = open_roomy("alice");
    struct bus *bob = open_roomy("bob");
    struct bus_sub *models = must_subscribe_with(bob, "alice/model", &options);
    struct bus_sub *small = must_subscribe(bob, "alice/small");
    struct bus_msg *msg = NULL;
    const size_t bytes = 128 * MIB;
    uint8_t *value = must_make(bytes);
    must_publish(alice, "small", "before");
    expect_value(small, "alice/small", 0, "before");
    struct bus_slot *slot = must_reserve(alice, "model");
    struct bus_slot *failing = must_reserve(alice, "small");
    must_flush(alice);

    expect_code(bus_slot_commit(&slot, value, bytes), BUS_OK);
    expect_code(bus_sub_recv(models, SOON_MS, &msg, NULL), BUS_OK);
    fail_slot(&failing, "app.broken", "in the midst");
    must_publish(alice, "small", "overtakes");
    expect_failed(small, "alice/small", 1, "application");
    expect_value(small, "alice/small", 2, "overtakes");
    for (uint64_t end = 0; end < bytes;) {
        uint64_t offset = 0;
        size_t count = 0;
        const void *piece = bus_msg_value(msg, &count);
        (void)bus_msg_piece(msg, &offset, NULL);
        cr_assert_eq(offset, end);
        cr_assert_eq(memcmp(piece, value + offset, count), 0);
        end += count;
        bus_msg_free(&msg);
        if (end < bytes) {
            expect_code(bus_sub_recv(models, SOON_MS, &msg, NULL), BUS_OK);
        }
    }
    free(value);
    bus_sub_close(&models);
    bus_sub_close(&small);
    must_close(&alice);
    must_close(&bob);
}

/* A writer that dies within one leaves an error, not half a value. */
Test(large, values_that_stop_half_way_fail)
{
    struct bus_options options;
    struct bus *bob = open_roomy("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    bus_options_init(&options);
    options.party = "alice";
    struct bus *alice = must_open_with(&options);
    const size_t bytes = 64 * MIB;
    uint8_t *value = must_make(bytes);
    struct bus_slot *slot = must_reserve(alice, "w");
    must_flush(alice);
    expect_code(bus_slot_commit(&slot, value, bytes), BUS_OK);
    struct bus_error *error = bus_error_new("app.gone", NULL, "half way");
    bus_fail(alice, error);
    bus_error_unref(&error);
    bus_close(&alice, 0);
    struct bus_msg *msg = NULL;
    enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, &error);
    if (err == BUS_OK) {
        expect_same(msg, value, bytes); /* she was quicker than her failure */
    } else {
        expect_code_of(err, BUS_EFAILED, &error);
    }
    bus_msg_free(&msg);
    free(value);
    bus_sub_close(&sub);
    must_close(&bob);
}

static const char *const limited[] = {"--value-bytes", "1000000", NULL};

static void open_limited(void)
{
    stage_open_with(limited);
}

Test(large, values_have_a_limit, .init = open_limited)
{
    struct bus *alice = open_roomy("alice");
    struct bus *bob = open_roomy("bob");
    uint8_t *value = must_make(1000001);
    for (size_t bytes = 999999; bytes <= 1000001; bytes++) {
        enum bus_err err = bus_publish(alice, "w", value, bytes);
        expect_code(err, bytes <= 1000000 ? BUS_OK : BUS_ETOOBIG);
    }
    struct bus_slot *slot = must_reserve(alice, "w");
    expect_code(bus_slot_commit(&slot, value, 1000001), BUS_ETOOBIG);
    cr_assert_not_null(slot, "trying again can help");
    expect_code(bus_slot_commit(&slot, value, 1000000), BUS_OK);
    must_flush(alice);
    struct bus_msg *msg = NULL;
    expect_code(bus_await(bob, "alice/w", 2, SOON_MS, &msg, NULL), BUS_OK);
    expect_same(msg, value, 1000000);
    bus_msg_free(&msg);
    free(value);
    must_close(&alice);
    must_close(&bob);
}

Test(large, values_keep_to_what_was_reserved)
{
    struct bus *alice = open_roomy("alice");
    struct bus_slot_options options;
    struct bus_slot *slot = NULL;
    struct bus_error *error = NULL;
    static const char value[102] = "";
    bus_slot_options_init(&options);
    options.value_bytes_max = 100;
    for (size_t bytes = 99; bytes <= 101; bytes++) {
        expect_code(bus_slot_reserve_with(alice, "w", &options, &slot, &error), BUS_OK);
        enum bus_err err = bus_slot_commit(&slot, value, bytes);
        expect_code(err, bytes <= 100 ? BUS_OK : BUS_ETOOBIG);
        bus_slot_fail(&slot, NULL);
    }
    must_close(&alice);
}

Test(large, values_of_two_gibibytes_where_asked_for)
{
    const size_t bytes = is_asked("TEST_LARGE") ? 2048 * MIB : 128 * MIB;
    struct bus_options options;
    bus_options_init(&options);
    options.party = "alice";
    options.send_timeout_ms = 6 * SOON_MS;
    struct bus *alice = must_open_with(&options);
    options.party = "bob";
    struct bus *bob = must_open_with(&options);
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    static atomic_int freed;
    uint8_t *value = must_make(bytes);
    struct bus_slot *slot = must_reserve(alice, "w");
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    expect_code(bus_slot_commit_owned(&slot, value, bytes, count_free, &freed), BUS_OK);
    enum bus_err err = bus_sub_recv(sub, 10 * SOON_MS, &msg, &error);
    expect_code_of(err, BUS_OK, &error);
    size_t got = 0;
    const uint8_t *received = bus_msg_value(msg, &got);
    cr_assert_eq(got, bytes);
    uint64_t state = bytes + 1;
    for (size_t i = 0; i < bytes; i += 8) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        cr_assert_eq(received[i], (uint8_t)state, "differs at %zu", i);
    }
    bus_msg_free(&msg);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
    cr_expect_eq(atomic_load(&freed), 1);
}
