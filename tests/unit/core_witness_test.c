/* SPDX-License-Identifier: MPL-2.0 */
/* core_witness_test.c -- a broker over an older journal meets clients that know more than it does;
 * in conversations as those of core_test.c. */
#include "tests/unit/core_driver.h"

TestSuite(core_witness, .init = init, .fini = fini);

/* The broker begins again over a copy of its journal that was made when it had so many records. */
static void restore(uint32_t count)
{
    shadow_end();
    shadow_begin();
    while (journal_count > count)
        free(journal[--journal_count].bytes);
    for (uint32_t i = 0; i < count; i++)
        shadow_tell(span_of(journal[i].bytes, journal[i].count), journal[i].payload);
    crash(0);
}

/* ... as who was told of so much by the broker before. */
static void resume_told(conn_id conn, uint64_t data_number, uint64_t control_number)
{
    struct msg msg = hello(conn, tokens[conn]);
    msg.as.hello.data_number = data_number;
    msg.as.hello.control_number = control_number;
    message(conn, msg);
}

static void greet_guard(uint64_t token, uint64_t control_number)
{
    struct msg msg = hello(1, token);
    msg.as.hello.role = 2;
    msg.as.hello.control_number = control_number;
    message(1, msg);
    message(1, (struct msg){.type = MSG_READY});
}

static void position(conn_id conn, uint32_t sub, uint32_t topic, uint64_t next_seq)
{
    message(conn, (struct msg){.type = MSG_POSITION,
                               .as.position = {.sub = sub, .topic = topic, .next_seq = next_seq}});
}

/* She has written five values, all are acknowledged, and a copy of the journal has the first. */
static uint32_t forget_values_of_alice(void)
{
    uint32_t a = open_for_bob();
    publish(1, a, 0, 1, 1);
    uint32_t copy = journal_count;
    for (uint64_t seq = 1; seq < 5; seq++)
        publish(1, a, seq, 1, (payload_id)seq + 1);
    restore(copy);
    tap(5);
    forget();
    return a;
}

Test(core_witness, of_values_blames_the_broker_and_not_their_writer)
{
    (void)forget_values_of_alice();
    resume_told(1, 5, 0);
    cr_expect_not_null(strstr(said, "1 < refused 7 errbus.forgotten\n1 dropped\n"), "%s", said);
    cr_expect_not_null(strstr(said, "5 < broker.forgot alice/1 #0 x4 (broker_lost of )\n"), "%s",
                       said);
    cr_expect_not_null(strstr(said, "5 < party.lost alice/1 #0 x0 (broker_lost of )\n"), "%s",
                       said);
    cr_expect_null(strstr(said, "welcome"), "%s", said);
    resume(2, tokens[2], 0);
    forget();
    leave(2, 0);
    cr_expect_not_null(strstr(said, "5 < verdict.final /0 #0 x0 (broker_lost of )\n"), "%s", said);
}

/* As who was told of so much, and is known by its client id. */
static void come_back(conn_id conn, uint64_t client, uint64_t token, uint64_t data_number)
{
    struct msg msg = hello(conn, token);
    msg.as.hello.client = client;
    msg.as.hello.data_number = data_number;
    message(conn, msg);
}

/* The answer was lost with its connection: its client hears it again, and nobody else does. */
Test(core_witness, of_values_is_told_until_its_client_hears_it)
{
    enum { ALICE = 77, ANOTHER = 78 };
    static const char forgotten[] = "1 < refused 7 errbus.forgotten\n1 dropped\n";
    static const char fenced[] = "1 < refused 11 errbus.fenced\n1 dropped\n";
    come_back(1, ALICE, 0, 0);
    uint64_t token = tokens[1];
    restore(journal_count);
    forget();
    come_back(1, ALICE, token, 5);
    cr_expect_not_null(strstr(said, forgotten), "%s", said);
    forget();
    come_back(1, ALICE, token, 5);
    EXPECT(forgotten);
    come_back(1, ANOTHER, token, 5);
    EXPECT(fenced);
    restore(journal_count);
    forget();
    come_back(1, ALICE, token, 5);
    EXPECT(forgotten);
    come_back(1, ANOTHER, 0, 0); /* the next incarnation is not of that client */
    closed(1);
    forget();
    come_back(1, ALICE, token, 5);
    EXPECT(fenced);
}

/* What one of the two processes of a party was told of is missing for both. */
Test(core_witness, of_a_program_is_told_to_its_guard)
{
    enum { PROGRAM = 21 };
    greet_guard(0, 0);
    struct msg msg = hello(PROGRAM, 0);
    msg.as.hello.guard = tokens[1];
    message(PROGRAM, msg);
    restore(journal_count);
    greet_guard(tokens[1], 0);
    forget();
    resume_told(PROGRAM, 5, 0);
    cr_expect_not_null(strstr(said, "21 < refused 7 errbus.forgotten\n"), "%s", said);
    cr_expect_not_null(strstr(said, "1 < over 7"), "%s", said);
}

/* She has nothing more to say, and still notices. */
Test(core_witness, of_as_much_as_the_broker_has_is_none)
{
    (void)forget_values_of_alice();
    resume_told(1, 1, 0);
    cr_expect_not_null(strstr(said, "1 < welcome incarnation 1, resumed\n"), "%s", said);
    cr_expect_null(strstr(said, "forg"), "%s", said);
}

Test(core_witness, of_messages_is_one_too)
{
    open_for_bob();
    uint32_t copy = journal_count;
    subscribe(2, 2, "carol/+", "", 0, 0);
    restore(copy);
    tap(5);
    forget();
    resume_told(2, 0, 2);
    cr_expect_not_null(strstr(said, "2 < refused 7 errbus.forgotten\n2 dropped\n"), "%s", said);
    cr_expect_not_null(strstr(said, "5 < broker.forgot bob/1 #0 x1 (broker_lost of )\n"), "%s",
                       said);
}

/* What was not acknowledged may still come again.  Else the end of its writer tells the reader. */
Test(core_witness, of_slots_tells_nothing_while_their_writer_may_come_back)
{
    uint32_t a = forget_values_of_alice();
    message(2, hello(2, tokens[2]));
    position(2, 1, a, 5);
    attach(2, 12, tokens[2]);
    cr_expect_null(strstr(said, "forg"), "%s", said);
    cr_expect_not_null(strstr(said, "2 < attached\n"), "%s", said);
    forget();
    resume_told(1, 5, 0);
    cr_expect_not_null(strstr(said, "12 < sub 1 end #1 (broker_lost of )\n"), "%s", said);
}

Test(core_witness, of_slots_goes_on_where_the_end_of_their_writer_tells_it)
{
    uint32_t a = forget_values_of_alice();
    resume_told(1, 5, 0);
    message(2, hello(2, tokens[2]));
    forget();
    position(2, 1, a, 5);
    EXPECT("");
    attach(2, 12, tokens[2]);
    cr_expect_not_null(strstr(said, "12 < sub 1 end #1 (broker_lost of )\n"), "%s", said);
}

Test(core_witness, of_slots_that_nobody_can_send_again_is_their_reader)
{
    uint32_t a = forget_values_of_alice();
    message(2, hello(2, tokens[2]));
    message(1, hello(1, tokens[1]));
    attach(1, 11, tokens[1]);
    leave(1, 1);
    forget();
    position(2, 1, a, 1);
    EXPECT("");
    position(2, 1, a, 5);
    cr_expect_not_null(strstr(said, "5 < broker.forgot bob/1 #0 x4 (broker_lost of )\n"), "%s",
                       said);
    cr_expect_not_null(strstr(said, "2 < over 7"), "%s", said);
}

/* What many parties miss has one root. */
Test(core_witness, of_many_parties_gives_one_root)
{
    (void)forget_values_of_alice();
    resume_told(1, 5, 0);
    forget();
    pass_ms(1);
    resume_told(2, 1, 0);
    cr_expect_not_null(strstr(said, "verdict.final /0 #0 x1 (broker_lost of )\n"), "%s", said);
}

static void complete_by_guard(void)
{
    tap(5);
    greet_guard(0, 0);
    complete(1);
    cr_assert_not_null(strstr(said, "1 < accepted 0 1\n"), "%s", said);
    cr_assert_not_null(strstr(said, "5 < party.completed alice/1 #0 x0\n"), "%s", said);
    forget();
}

/* No fact has its numbers, and the end that it told is one. */
Test(core_witness, of_an_end_that_the_broker_knows_is_no_guard)
{
    complete_by_guard();
    restore(journal_count);
    forget();
    greet_guard(tokens[1], 1);
    cr_expect_not_null(strstr(said, "1 < welcome incarnation 1, resumed\n"), "%s", said);
    cr_expect_null(strstr(said, "forg"), "%s", said);
}

/* Else it would wait for the verdict, and its party would live for as long. */
Test(core_witness, of_an_end_that_the_broker_forgot_is_its_guard)
{
    uint32_t copy;
    greet_guard(0, 0);
    copy = journal_count;
    complete(1);
    restore(copy);
    tap(5);
    forget();
    greet_guard(tokens[1], 1);
    cr_expect_not_null(strstr(said, "1 < refused 7 errbus.forgotten\n1 dropped\n"), "%s", said);
    cr_expect_not_null(strstr(said, "5 < broker.forgot alice/1 #0 x1 (broker_lost of )\n"), "%s",
                       said);
    cr_expect_not_null(strstr(said, "5 < party.lost alice/1 #0 x0 (broker_lost of )\n"), "%s",
                       said);
}

Test(core_witness, of_nothing_is_no_guard)
{
    greet_guard(0, 0);
    restore(journal_count);
    forget();
    greet_guard(tokens[1], 0);
    cr_expect_not_null(strstr(said, "1 < welcome incarnation 1, resumed\n"), "%s", said);
}
