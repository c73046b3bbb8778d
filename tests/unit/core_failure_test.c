/* SPDX-License-Identifier: MPL-2.0 */
/* core_failure_test.c -- errors as clients send them: what cannot be read is refused, and counted,
 * once. */
#include "tests/unit/core_driver.h"

TestSuite(core_failure, .init = init, .fini = fini);

static const uint8_t no_error[] = {0x91, 0x91, 0xa1, 0xff}; /* an id that is no text */

static struct span unreadable(void)
{
    return span_of(no_error, sizeof no_error);
}

static struct msg a_fail(uint64_t number, uint64_t after, uint32_t topic, uint64_t seq)
{
    return (struct msg){
        .type = MSG_FAIL,
        .as.fail = {
            .number = number, .after = after, .topic = topic, .seq = seq, .error = unreadable()}};
}

static struct msg a_retract(uint64_t number, uint32_t topic, uint64_t seq)
{
    return (struct msg){
        .type = MSG_RETRACT,
        .as.retract = {.number = number, .topic = topic, .seq = seq, .error = unreadable()}};
}

static void come_back(conn_id conn)
{
    closed(conn);
    forget();
    resume(conn, tokens[conn], 0);
    forget();
}

/* Its client had not heard of the acknowledgement.  The slot stays what it was, and nobody is told
 * of anything twice. */
Test(core_failure, that_cannot_be_read_is_counted_once_though_it_is_sent_again)
{
    join(1);
    tap(3);
    ask_from(4);
    uint32_t a = open_topic(1, "alice/a");
    reserve(1, a, 0);
    uint64_t refused = count_refused(4);
    message(1, a_fail(1, 0, a, 0));
    EXPECT("1 < accepted 1 1\n"
           "3 < refused alice/1 #0 x0 (application of alice)\n"
           "3 < slot.failed alice/1 alice/a#0 x1 (application of alice)\n");
    cr_expect_eq(count_refused(4), refused + 1);
    for (int i = 0; i < 3; i++) {
        come_back(1);
        message(1, a_fail(1, 0, a, 0));
        EXPECT("");
    }
    cr_expect_eq(count_refused(4), refused + 1);
}

/* It is told of at once, waits for its data, and comes again meanwhile. */
Test(core_failure, that_cannot_be_read_is_counted_once_though_it_waits)
{
    join(1);
    tap(3);
    ask_from(4);
    uint32_t a = open_topic(1, "alice/a");
    forget();
    uint64_t refused = count_refused(4);
    message(1, a_fail(1, 1, a, 0));
    EXPECT("3 < refused alice/1 #0 x0 (application of alice)\n"
           "3 < slot.failed alice/1 alice/a#0 x1 (application of alice)\n");
    come_back(1);
    message(1, a_fail(1, 1, a, 0));
    EXPECT("");
    reserve(1, a, 0);
    EXPECT("1 < accepted 1 1\n");
    cr_expect_eq(count_refused(4), refused + 1);
}

/* What is not taken for want of room comes again, and counts as what breaks the protocol: the error
 * itself does when it is taken. */
Test(core_failure, that_cannot_be_read_is_counted_when_it_is_taken)
{
    options.parked_bytes_max = 1;
    restart();
    join(1);
    tap(3);
    ask_from(4);
    uint32_t a = open_topic(1, "alice/a");
    forget();
    uint64_t refused = count_refused(4);
    message(1, a_fail(1, 1, a, 0));
    EXPECT("1 dropped\n11 dropped\n3 < refused alice/1 #0 x1\n3 < party.suspect alice/1 #0 x0\n");
    cr_expect_eq(count_refused(4), refused + 1, "a violation, and that is all");
    come_back(1);
    reserve(1, a, 0);
    forget();
    message(1, a_fail(1, 1, a, 0));
    cr_expect_eq(count_refused(4), refused + 2);
}

/* A question is answered again, whatever it was answered: with no, it is looked at again. */
Test(core_failure, that_cannot_be_read_is_counted_once_in_a_question_that_is_asked_again)
{
    join(1);
    tap(3);
    ask_from(4);
    uint32_t a = open_topic(1, "alice/a");
    reserve(1, a, 0);
    uint64_t refused = count_refused(4);
    message(1, a_retract(1, a, 7)); /* never promised */
    message(1, a_retract(2, a, 0));
    EXPECT("1 < result 10\n1 < accepted 1 1\n"
           "3 < refused alice/1 #0 x0 (application of alice)\n"
           "1 < result 0\n1 < accepted 1 2\n"
           "3 < refused alice/1 #0 x0 (application of alice)\n"
           "3 < slot.failed alice/1 alice/a#0 x1 (application of alice)\n");
    cr_expect_eq(count_refused(4), refused + 2);
    come_back(1);
    message(1, a_retract(1, a, 7));
    message(1, a_retract(2, a, 0));
    EXPECT("1 < result 10\n1 < result 0\n");
    cr_expect_eq(count_refused(4), refused + 2);
}

/* The others' errors, and the party's own that can be read, are what they were. */
Test(core_failure, that_cannot_be_read_spoils_no_other)
{
    join(1);
    join(2);
    uint32_t a = open_topic(1, "alice/a");
    uint32_t b = open_topic(2, "bob/b");
    reserve(1, a, 0);
    reserve(1, a, 1);
    reserve(2, b, 0);
    subscribe(2, 1, "alice/#", "", 0, 0);
    subscribe(1, 1, "bob/#", "", 0, 0);
    forget();
    message(1, a_fail(2, 0, a, 0));
    numbers[1] = 2;
    fail(1, a, 1, 0);
    fail(2, b, 0, 0);
    cr_expect_not_null(strstr(said, "12 < sub 1 error #0 (application of alice)\n"), "%s", said);
    cr_expect_not_null(strstr(said, "12 < sub 1 error #1 (application of alice)\n"), "%s", said);
    cr_expect_not_null(strstr(said, "11 < sub 1 error #0 (application of bob)\n"), "%s", said);
}
