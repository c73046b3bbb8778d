/* SPDX-License-Identifier: MPL-2.0 */
/* pieces_test.c -- values taken as they come: order, limits, errors in the midst of one. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(pieces, .init = stage_open, .fini = stage_close, .timeout = 120);

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define FRAME_BYTES MIB /* the largest */

static uint8_t *must_make(size_t bytes)
{
    uint8_t *value = malloc(bytes + 1);
    cr_assert_not_null(value);
    for (size_t i = 0; i < bytes; i++) {
        value[i] = (uint8_t)(i * 7 + i / 256 * 13);
    }
    return value;
}

static struct bus_sub *subscribe(struct bus *bus, const char *name)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.name = name;
    options.is_in_pieces = 1;
    return must_subscribe_with(bus, "alice/w", &options);
}

static struct bus_msg *must_take(struct bus_sub *sub)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    expect_code_of(bus_sub_recv(sub, SOON_MS, &msg, &error), BUS_OK, &error);
    return msg;
}

/* Checks a piece that begins at *end, which moves behind it.  Whether it is the last. */
static bool check(struct bus_msg *msg, uint64_t seq, const uint8_t *value, size_t bytes,
                  uint64_t *end)
{
    uint64_t offset = UINT64_MAX;
    uint64_t total = UINT64_MAX;
    size_t count = 0;
    const void *piece = bus_msg_value(msg, &count);
    bool is_last = bus_msg_piece(msg, &offset, &total) == 1;
    cr_assert_eq(bus_msg_seq(msg), seq);
    cr_assert_str_eq(bus_msg_topic(msg), "alice/w");
    cr_assert_eq(offset, *end, "%llu", (unsigned long long)offset);
    cr_assert_eq(total, bytes);
    cr_assert_leq(count, FRAME_BYTES);
    cr_assert_leq(count, bytes - offset);
    cr_assert_eq((uintptr_t)piece % 8, 0);
    cr_assert_eq(memcmp(piece, value + offset, count), 0);
    *end += count;
    cr_assert_eq(is_last, *end == bytes);
    return is_last;
}

/* All pieces of a value; the last is given back with `finish`.  How many there were. */
static unsigned take_all(struct bus_sub *sub, uint64_t seq, const uint8_t *value, size_t bytes,
                         void (*finish)(struct bus_msg **))
{
    uint64_t end = 0;
    unsigned count = 0;
    bool is_last = false;
    while (!is_last) {
        struct bus_msg *msg = must_take(sub);
        is_last = check(msg, seq, value, bytes, &end);
        if (is_last) {
            finish(&msg);
        }
        bus_msg_free(&msg);
        count++;
    }
    return count;
}

Test(pieces, make_values_of_all_sizes)
{
    /* The first large one goes in small frames, those behind it in the largest. */
    const struct {
        size_t bytes;
        unsigned least;
    } cases[] = {{0, 1},
                 {1, 1},
                 {256 * KIB - 1, 1},
                 {256 * KIB, 1},
                 {256 * KIB + 1, 2},
                 {FRAME_BYTES - 1, 1},
                 {FRAME_BYTES, 1},
                 {FRAME_BYTES + 1, 2},
                 {5 * MIB + 3, 6},
                 {32 * MIB, 32}};
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = subscribe(bob, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t *value = must_make(cases[i].bytes);
        expect_code(bus_publish(alice, "w", value, cases[i].bytes), BUS_OK);
        unsigned count = take_all(sub, i, value, cases[i].bytes, bus_msg_free);
        cr_expect_geq(count, cases[i].least, "%zu bytes in %u", cases[i].bytes, count);
        must_flush(alice);
        free(value);
    }
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* A reader that takes nothing is sent a window, long before the value is whole; that is no outcome,
 * so the writer may take the value back. */
Test(pieces, are_followed_by_the_error_that_took_their_place)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = subscribe(bob, NULL);
    const size_t bytes = 8 * MIB;
    uint8_t *value = must_make(bytes);
    expect_code(bus_publish(alice, "w", value, bytes), BUS_OK);
    must_flush(alice);
    uint64_t end = 0;
    struct bus_error *error = bus_error_new("app.wrong", NULL, "not this one");
    expect_code(bus_retract(alice, "w", 0, error, SOON_MS), BUS_OK);
    bus_error_unref(&error);
    must_publish(alice, "w", "behind");
    enum bus_err err = BUS_OK;
    while (err == BUS_OK) {
        struct bus_msg *more = NULL;
        err = bus_sub_recv(sub, SOON_MS, &more, &error);
        if (err == BUS_OK) {
            cr_assert_not(check(more, 0, value, bytes, &end));
        }
        bus_msg_free(&more);
    }
    expect_code(err, BUS_EFAILED);
    cr_expect_gt(end, 0, "nothing was sent before the value was whole");
    cr_expect_str_eq(bus_error_type(error), "app.wrong");
    uint64_t seq = UINT64_MAX;
    cr_expect_str_eq(bus_sub_slot(sub, &seq), "alice/w");
    cr_expect_eq(seq, 0);
    bus_error_unref(&error);
    expect_value(sub, "alice/w", 1, "behind");
    free(value);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

/* Whoever gives the last one back gets all of them again; whoever frees it is done. */
Test(pieces, are_acknowledged_by_the_last)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    const size_t bytes = 3 * MIB + 1;
    uint8_t *value = must_make(bytes);
    struct bus_sub *sub = subscribe(bob, "name");
    expect_code(bus_publish(alice, "w", value, bytes), BUS_OK);
    must_publish(alice, "w", "behind");
    must_flush(alice);
    take_all(sub, 0, value, bytes, bus_msg_return);
    bus_sub_close(&sub);
    sub = subscribe(bob, "name");
    take_all(sub, 0, value, bytes, bus_msg_free);
    bus_sub_close(&sub);
    sub = subscribe(bob, "name");
    expect_value(sub, "alice/w", 1, "behind");
    free(value);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

static void keep_it(void *value, void *arg)
{
    (void)value;
    (void)arg;
}

/* What looks for mistakes keeps what was freed, and more than is looked for here. */
#ifdef __SANITIZE_ADDRESS__
enum { GROWTH_KIB_MAX = 1024 * 1024 };
#else
enum { GROWTH_KIB_MAX = 48 * 1024 };
#endif

/* This process is its reader and its writer; the value lies there as one all the time. */
Test(pieces, of_a_value_take_less_memory_than_it_has)
{
    const size_t bytes = 128 * MIB;
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = subscribe(bob, NULL);
    uint8_t *value = must_make(bytes);
    struct bus_slot *slot = must_reserve(alice, "w");
    int64_t before_kib = test_resident_kib(getpid());
    int64_t most_kib = 0;
    expect_code(bus_slot_commit_owned(&slot, value, bytes, keep_it, NULL), BUS_OK);
    must_flush(alice); /* all of it is with the broker, and a window here */
    uint64_t end = 0;
    bool is_last = false;
    while (!is_last) {
        struct bus_msg *msg = must_take(sub);
        is_last = check(msg, 0, value, bytes, &end);
        bus_msg_free(&msg);
        int64_t kib = test_resident_kib(getpid());
        most_kib = kib > most_kib ? kib : most_kib;
    }
    cr_expect_leq(most_kib - before_kib, GROWTH_KIB_MAX, "%lld KiB",
                  (long long)(most_kib - before_kib));
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
    free(value);
}

static void open_small(void)
{
    stage_open_with((const char *const[]){"--journal", "none", "--job-bytes", "32M", NULL});
}

/* Takes the value, and says how much memory the broker had meanwhile, at most. */
static int64_t take_and_look(struct bus_sub *sub, uint64_t seq, const uint8_t *value, size_t bytes)
{
    uint64_t end = 0;
    int64_t most_kib = 0;
    for (bool is_last = false; !is_last;) {
        struct bus_msg *msg = must_take(sub);
        is_last = check(msg, seq, value, bytes, &end);
        bus_msg_free(&msg);
        int64_t kib = test_resident_kib(stage.process.pid);
        most_kib = kib > most_kib ? kib : most_kib;
    }
    return most_kib;
}

Test(pieces, of_a_value_pass_through_a_job_that_has_no_room_for_it, .init = open_small)
{
    const size_t bytes = 128 * MIB;
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus *carol = must_open("carol");
    struct bus_sub *sub = subscribe(bob, NULL);
    uint8_t *value = must_make(bytes);
    must_flush(bob);
    int64_t before_kib = test_resident_kib(stage.process.pid);
    for (uint64_t seq = 0; seq < 2; seq++) {
        struct bus_slot *slot = must_reserve(alice, "w");
        expect_code(bus_slot_commit_owned(&slot, value, bytes, keep_it, NULL), BUS_OK);
        int64_t most_kib = take_and_look(sub, seq, value, bytes);
        must_flush(alice);
        cr_expect_leq(most_kib - before_kib, GROWTH_KIB_MAX, "%lld KiB",
                      (long long)(most_kib - before_kib));
    }
    struct bus_sub *late = must_subscribe(carol, "alice/w");
    struct bus_msg *msg = NULL;
    expect_code(bus_sub_recv(late, SOON_MS, &msg, NULL), BUS_EOVERRUN);
    must_publish(alice, "w", "behind");
    expect_value(late, "alice/w", 2, "behind");
    bus_sub_close(&late);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
    must_close(&carol);
    free(value);
}

Test(pieces, are_asked_for_in_so_many_words)
{
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = NULL;
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    cr_assert_eq(options.is_in_pieces, 0);
    options.is_in_pieces = 2;
    expect_code(bus_sub_open(bob, "alice/w", &options, &sub), BUS_EINVAL);
    options.is_in_pieces = 1;
    options.group = "workers";
    expect_code(bus_sub_open(bob, "alice/w", &options, &sub), BUS_EINVAL);
    must_close(&bob);
}
