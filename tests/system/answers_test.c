/* SPDX-License-Identifier: MPL-2.0 */
/* answers_test.c -- awaited slots and no thread that waits: bus_answers_fd(), bus_unawait(). */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

TestSuite(answers, .init = stage_open, .fini = stage_close, .timeout = 120);

static bool is_readable(int fd, int64_t timeout_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return poll(&poll_fd, 1, (int)timeout_ms) == 1;
}

static void begin_wait(struct bus *bus, const char *topic, uint64_t seq)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    expect_code_of(bus_await(bus, topic, seq, BUS_POLL, &msg, &error), BUS_ETIMEDOUT, &error);
}

static void take(struct bus *bus, const char *topic, uint64_t seq, const char *text)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    expect_code_of(bus_await(bus, topic, seq, BUS_POLL, &msg, &error), BUS_OK, &error);
    expect_message(msg, text);
    bus_msg_free(&msg);
}

Test(answers, are_readable_until_a_call_has_taken_the_last_one)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    int fd = bus_answers_fd(bob);
    cr_assert_eq(bus_answers_fd(bob), fd, "one for each bus");
    begin_wait(bob, "alice/w", 0);
    begin_wait(bob, "alice/w", 1);
    cr_expect_not(is_readable(fd, 0));
    must_publish(alice, "w", "first");
    cr_assert(is_readable(fd, SOON_MS));
    cr_expect(is_readable(fd, 0), "it stays so until it is taken");
    must_publish(alice, "w", "second");
    must_flush(bob);
    expect_awaited(bob, "alice/w", 1, "second");
    cr_expect(is_readable(fd, 0), "the other one is there");
    take(bob, "alice/w", 0, "first");
    cr_expect_not(is_readable(fd, 0));
    must_close(&bob);
    must_close(&alice);
}

Test(answers, are_there_before_the_descriptor_is_asked_for)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    begin_wait(bob, "alice/w", 0);
    must_publish(alice, "w", "x");
    must_flush(alice);
    expect_awaited(bob, "alice/w", 0, "x");
    begin_wait(bob, "alice/w", 0);
    must_flush(bob);
    cr_expect(is_readable(bus_answers_fd(bob), SOON_MS));
    must_close(&bob);
    must_close(&alice);
}

Test(answers, of_a_gathering_that_goes_on_are_taken_with_it)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    int fd = bus_answers_fd(bob);
    struct bus_want wants[] = {{.topic = "alice/w", .seq = 0}, {.topic = "alice/w", .seq = 1}};
    struct bus_error *error = NULL;
    expect_code_of(bus_gather(bob, wants, 2, 2, 0, BUS_POLL, &error), BUS_ETIMEDOUT, &error);
    must_publish(alice, "w", "0");
    cr_assert(is_readable(fd, SOON_MS));
    expect_code_of(bus_gather(bob, wants, 2, 2, 0, BUS_POLL, &error), BUS_ETIMEDOUT, &error);
    cr_expect_not_null(wants[0].msg);
    cr_expect_not(is_readable(fd, 0));
    must_publish(alice, "w", "1");
    cr_assert(is_readable(fd, SOON_MS));
    expect_code_of(bus_gather(bob, wants, 2, 2, 0, BUS_POLL, &error), BUS_OK, &error);
    cr_expect_not(is_readable(fd, 0));
    bus_wants_free(wants, 2);
    must_close(&bob);
    must_close(&alice);
}

Test(answers, are_errors_too_and_the_end_of_the_party)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    int fd = bus_answers_fd(bob);
    begin_wait(bob, "alice/w", 0);
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.bad", "no");
    cr_assert(is_readable(fd, SOON_MS));
    bus_error_unref(&(struct bus_error *){expect_await_failed(bob, "alice/w", 0, "application")});
    cr_expect_not(is_readable(fd, 0));
    bus_stop(bob);
    cr_expect(is_readable(fd, SOON_MS), "no wait goes on after that");
    must_close(&bob);
    must_close(&alice);
}

Test(answers, that_nobody_wants_do_not_come)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    int fd = bus_answers_fd(bob);
    begin_wait(bob, "alice/w", 0);
    bus_unawait(bob, "alice/w", 0);
    bus_unawait(bob, "alice/w", 0); /* there is none any more */
    must_publish(alice, "w", "x");
    must_flush(alice);
    must_flush(bob);
    cr_expect_not(is_readable(fd, 50));
    begin_wait(bob, "alice/w", 0);
    cr_assert(is_readable(fd, SOON_MS));
    bus_unawait(bob, "alice/w", 0);
    cr_expect_not(is_readable(fd, 0), "an answer that came is given up, too");
    must_close(&bob);
    must_close(&alice);
}

/* A bus whose inbox has room for one block, and for little beside it. */
enum { BLOCK_BYTES = 1 << 20 };
static struct bus *open_small(const char *party)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.inbox_bytes_max = BLOCK_BYTES + BLOCK_BYTES / 2;
    return must_open_with(&options);
}

/* A value of so many bytes, all of them like this. */
static void publish_bytes(struct bus *bus, char byte, size_t bytes)
{
    char *value = malloc(bytes);
    cr_assert_not_null(value);
    memset(value, byte, bytes);
    expect_code(bus_publish(bus, "w", value, bytes), BUS_OK);
    free(value);
}

static void take_bytes(struct bus *bus, const char *topic, uint64_t seq, char byte, size_t bytes)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    size_t got = 0;
    expect_code_of(bus_await(bus, topic, seq, SOON_MS, &msg, &error), BUS_OK, &error);
    const char *value = bus_msg_value(msg, &got);
    cr_assert_eq(got, bytes);
    cr_expect(value[0] == byte && value[bytes - 1] == byte);
    bus_msg_free(&msg);
}

/* The broker does not keep the first of them any more when the last one has come.  It knows of all
 * waits before alice writes: it answers one that was begun after them. */
Test(answers, come_all_however_many_bytes_they_have)
{
    enum { COUNT = 10 };
    struct bus *alice = must_open("alice");
    struct bus *bob = open_small("bob");
    for (uint64_t seq = 0; seq < COUNT; seq++)
        begin_wait(bob, "alice/w", seq);
    must_publish(bob, "own", "known");
    expect_awaited(bob, "bob/own", 0, "known");
    for (int i = 0; i < COUNT; i++)
        publish_bytes(alice, (char)i, BLOCK_BYTES);
    for (int i = COUNT - 1; i >= 0; i--)
        take_bytes(bob, "alice/w", (uint64_t)i, (char)i, BLOCK_BYTES);
    cr_expect_not(is_readable(bus_answers_fd(bob), 0));
    must_close(&bob);
    must_close(&alice);
}

Test(answers, that_are_larger_than_the_inbox_are_told_while_others_are_waited_for)
{
    struct bus *alice = must_open("alice");
    struct bus *bob = open_small("bob");
    int fd = bus_answers_fd(bob);
    begin_wait(bob, "alice/w", 0);
    begin_wait(bob, "carol/w", 0);
    publish_bytes(alice, 'a', 2 * BLOCK_BYTES);
    cr_assert(is_readable(fd, SOON_MS));
    take_bytes(bob, "alice/w", 0, 'a', 2 * BLOCK_BYTES);
    cr_expect_not(is_readable(fd, 0));
    must_close(&bob);
    must_close(&alice);
}
