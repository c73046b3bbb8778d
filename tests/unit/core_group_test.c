/* SPDX-License-Identifier: MPL-2.0 */
/* core_group_test.c -- groups in conversations: who is given what, and what becomes of it.
 *
 * alice writes tasks, bob and carol work, dave looks on. */
#include "broker/core/model.h"
#include "tests/unit/core_driver.h"

static uint32_t tasks; /* number of alice/tasks */

static void init_parties(void)
{
    join_all(3);
    tasks = open_topic(1, "alice/tasks");
}

static void init_groups(void)
{
    init();
    init_parties();
}

static void fini_groups(void)
{
    fini();
    reply_to = FRAME_NO_REPLY;
    memset(numbers, 0, sizeof numbers);
}

TestSuite(core_group, .init = init_groups, .fini = fini_groups);

/* A member of a group of alice/tasks that asks for more than others do. */
static void share_tasks(conn_id conn, const char *group, struct msg_subscribe more)
{
    more.sub = 1;
    more.pattern = span_text("alice/tasks");
    more.group = span_text(group);
    more.window_bytes = 4096;
    subscribe_as(conn, more);
}

static void workers(uint64_t credit)
{
    share(2, 1, "alice/tasks", "work", credit);
    share(3, 1, "alice/tasks", "work", credit);
    forget();
}

/* ---- giving ---------------------------------------------------------------------------------- */

Test(core_group, give_each_value_to_one_member_in_turn)
{
    workers(2);
    publish(1, tasks, 0, 6, 5);
    EXPECT("1 < accepted 6 0\n"
           "12 < sub 1 task 1#0, delivery 1, payload 5\n"
           "12 < sub 1 task 1#2, delivery 1, payload 5 skip 2\n"
           "13 < sub 1 task 1#1, delivery 1, payload 5 skip 1\n"
           "13 < sub 1 task 1#3, delivery 1, payload 5 skip 3\n");
    done(3, tasks, 3, 1);
    EXPECT("3 < accepted 0 2\n13 < sub 1 task 1#4, delivery 1, payload 5 skip 4\n");
}

Test(core_group, leave_one_that_is_slow_with_what_it_has)
{
    workers(1);
    publish(1, tasks, 0, 2000, 5);
    for (uint64_t seq = 1; seq < 2000; seq++)
        done(3, tasks, seq, 1);
    forget();
    done(2, tasks, 0, 1);
    EXPECT("2 < accepted 0 2\n");
    publish(1, tasks, 2000, 1, 6);
    EXPECT("1 < accepted 2001 0\n13 < sub 1 task 1#2000, delivery 1, payload 6\n");
}

Test(core_group, begin_where_their_first_member_asks_for)
{
    publish(1, tasks, 0, 3, 5);
    forget();
    subscribe_as(2, (struct msg_subscribe){.sub = 1,
                                           .pattern = span_text("alice/+"),
                                           .group = span_text("new"),
                                           .from_seq = -1,
                                           .window_bytes = 4096,
                                           .credit = 8});
    EXPECT("2 < subscribed 0\n2 < accepted 0 1\n");
    share(3, 1, "alice/+", "all", 8);
    EXPECT("3 < subscribed 0\n3 < accepted 0 1\n"
           "13 < sub 1 task 1#0, delivery 1, payload 5\n"
           "13 < sub 1 task 1#1, delivery 1, payload 5 skip 1\n"
           "13 < sub 1 task 1#2, delivery 1, payload 5 skip 2\n");
    publish(1, tasks, 3, 1, 6);
    EXPECT("1 < accepted 4 0\n12 < sub 1 task 1#3, delivery 1, payload 6\n"
           "13 < sub 1 task 1#3, delivery 1, payload 6\n");
}

Test(core_group, have_one_pattern_and_one_bound)
{
    workers(1);
    join(4);
    share(4, 1, "alice/other", "work", 1);
    EXPECT("4 < subscribed 12\n4 < accepted 0 1\n");
    subscribe_as(4, (struct msg_subscribe){.sub = 2,
                                           .pattern = span_text("alice/tasks"),
                                           .group = span_text("work"),
                                           .deliver_max = DEFAULT_DELIVER + 1});
    EXPECT("4 < subscribed 12\n4 < accepted 0 2\n");
    message(2, (struct msg){.type = MSG_SUB_ADD,
                            .as.sub_add = {.number = ++numbers[2],
                                           .sub = 1,
                                           .pattern = span_text("alice/other")}});
    EXPECT("2 < subscribed 12\n2 < accepted 0 2\n");
}

/* It reads nothing of alice's by itself, so her end is none that it would have to be told. */
Test(core_group, are_members_and_no_more_when_they_add_the_pattern_of_their_group)
{
    const struct sub *sub = NULL;
    workers(2);
    message(2, (struct msg){.type = MSG_SUB_ADD,
                            .as.sub_add = {.number = ++numbers[2],
                                           .sub = 1,
                                           .pattern = span_text("alice/tasks")}});
    EXPECT("2 < subscribed 0\n2 < accepted 0 2\n");
    leave(1, 0);
    while ((sub = pool_next(&core->subs, sub != NULL ? sub->id : 0)) != NULL)
        cr_expect(list_is_empty(&sub->endings));
}

Test(core_group, let_nobody_have_their_name)
{
    struct msg msg = hello(5, 0);
    msg.as.hello.party = span_text("_groups");
    message(5, msg);
    EXPECT("5 < refused 1 errbus.name\n5 dropped\n");
}

Test(core_group, take_no_name_that_their_letters_cannot_have)
{
    static char name[LIMIT_GROUP_NAME_BYTES + 2];
    memset(name, 'g', LIMIT_GROUP_NAME_BYTES + 1);
    share(2, 1, "alice/tasks", name, 1);
    EXPECT("2 < subscribed 12\n2 < accepted 0 1\n");
    share(2, 2, "alice/tasks", "a/b", 1);
    EXPECT("2 < subscribed 12\n2 < accepted 0 2\n");
    name[LIMIT_GROUP_NAME_BYTES] = '\0';
    share(2, 3, "alice/tasks", name, 1);
    EXPECT("2 < subscribed 0\n2 < accepted 0 3\n");
}

/* How many values the group keeps, as the status says. */
static uint64_t pending_of_work(conn_id conn)
{
    const struct msg_status_row *place = NULL;
    message(conn, (struct msg){.type = MSG_STATUS, .as.status = {.request = 1}});
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_STATUS_ROW &&
            span_equal(effects.msgs[i].as.status_row.name, span_text("work")))
            place = &effects.msgs[i].as.status_row;
    cr_assert_not_null(place);
    return place->pending;
}

Test(core_group, hold_what_is_not_done_and_nothing_else)
{
    workers(4);
    publish(1, tasks, 0, 1, 5);
    publish(1, tasks, 1, 1, 6);
    publish(1, tasks, 2, 1, 7);
    done(2, tasks, 2, 1);
    done(3, tasks, 1, 1);
    forget();
    tap(4);
    cr_expect_eq(pending_of_work(4), 3, "from the first that is not done on");
    done(2, tasks, 0, 1);
    cr_expect_eq(pending_of_work(4), 0);
}

Test(core_group, give_nothing_more_to_who_is_drained)
{
    share(2, 1, "alice/tasks", "work", 4);
    publish(1, tasks, 0, 2, 5);
    drain(2, 1);
    forget();
    publish(1, tasks, 2, 1, 6);
    EXPECT("1 < accepted 3 0\n");
    settle(2, tasks, 1, 1, TASK_RETURNED, 0, NULL); /* not to itself again */
    EXPECT("2 < accepted 0 3\n");
    crash(100);
    compact();
    resume(1, tokens[1], 0);
    resume(2, tokens[2], 0);
    drain(2, 1); /* said again */
    cr_expect_not_null(strstr(said, "task 1#0, delivery 1"), "what it has it keeps");
    cr_expect_null(strstr(said, "task 1#1"));
    forget();
    done(2, tasks, 0, 1);
    EXPECT("2 < accepted 0 5\n");
    resume(3, tokens[3], 0);
    forget();
    share(3, 1, "alice/tasks", "work", 4);
    EXPECT("3 < subscribed 0\n3 < accepted 0 1\n13 < sub 1 task 1#1, delivery 2, payload 5 skip 1\n"
           "13 < sub 1 task 1#2, delivery 1, payload 6\n");
}

Test(core_group, drain_nobody_but_members)
{
    subscribe(2, 1, "alice/tasks", "", 0, 0);
    drain(2, 1);
    drain(2, 9);
    forget();
    publish(1, tasks, 0, 1, 5);
    EXPECT("1 < accepted 1 0\n12 < sub 1 payload 5 x1\n");
}

/* ---- not done -------------------------------------------------------------------------------- */

Test(core_group, give_again_what_is_given_back)
{
    workers(1);
    publish(1, tasks, 0, 1, 5);
    forget();
    settle(2, tasks, 0, 1, TASK_RETURNED, 0, NULL);
    EXPECT("2 < accepted 0 2\n13 < sub 1 task 1#0, delivery 2, payload 5\n");
    done(2, tasks, 0, 1); /* its lease is over */
    EXPECT("2 < accepted 0 3\n");
    done(3, tasks, 0, 2);
    EXPECT("3 < accepted 0 2\n");
    leave(2, 0);
    leave(3, 0);
    EXPECT("2 < over 13\n2 dropped\n12 dropped\n3 < over 13\n3 dropped\n13 dropped\n");
}

/* A lease is named by its delivery, and the same member may have the next one. */
Test(core_group, take_no_word_about_a_delivery_that_is_over)
{
    share(2, 1, "alice/tasks", "work", 1);
    publish(1, tasks, 0, 1, 5);
    forget();
    settle(2, tasks, 0, 1, TASK_RETURNED, 0, NULL);
    EXPECT("2 < accepted 0 2\n12 < sub 1 task 1#0, delivery 2, payload 5\n");
    done(2, tasks, 0, 1);
    EXPECT("2 < accepted 0 3\n");
    settle(2, tasks, 0, 2, TASK_RETURNED, 0, NULL);
    EXPECT("2 < accepted 0 4\n12 < sub 1 task 1#0, delivery 3, payload 5\n");
}

Test(core_group, put_off_what_is_to_be_tried_later)
{
    workers(1);
    publish(1, tasks, 0, 1, 5);
    forget();
    settle(2, tasks, 0, 1, TASK_REJECTED, 300, "");
    EXPECT("2 < accepted 0 2\n");
    pass_ms(299);
    EXPECT("");
    pass_ms(1);
    EXPECT("13 < sub 1 task 1#0, delivery 2, payload 5\n");
}

Test(core_group, give_all_that_a_lost_worker_has_to_others_in_one_step)
{
    workers(3);
    tap(5);
    publish(1, tasks, 0, 6, 5);
    done(2, tasks, 2, 1);
    forget();
    closed(2);
    EXPECT("2 dropped\n12 dropped\n5 < party.suspect bob/1 #0 x0\n");
    uint64_t before = steps;
    pass_ms(1000);
    cr_expect_eq(steps, before + 1, "one step, one record of the journal");
    EXPECT("5 < party.lost bob/1 #0 x0 (party_lost of bob)\n"
           "5 < leases.lost bob/1 alice/tasks#0 x2 (party_lost of bob)\n");
    done(3, tasks, 1, 1);
    done(3, tasks, 3, 1);
    EXPECT("3 < accepted 0 2\n13 < sub 1 task 1#0, delivery 2, payload 5\n"
           "3 < accepted 0 3\n13 < sub 1 task 1#4, delivery 2, payload 5 skip 4\n");
}

Test(core_group, give_again_what_one_who_leaves_has_not_done)
{
    workers(1);
    tap(5);
    publish(1, tasks, 0, 1, 5);
    forget();
    leave(2, 0);
    EXPECT("2 < over 13\n2 dropped\n12 dropped\n5 < party.left bob/1 #0 x0\n"
           "5 < leases.lost bob/1 alice/tasks#0 x1 (party_left of bob)\n"
           "13 < sub 1 task 1#0, delivery 2, payload 5\n");
}

Test(core_group, give_again_what_a_closed_subscription_has)
{
    workers(1);
    publish(1, tasks, 0, 1, 5);
    forget();
    message(2, (struct msg){.type = MSG_UNSUBSCRIBE,
                            .as.unsubscribe = {.number = ++numbers[2], .sub = 1}});
    EXPECT("2 < accepted 0 2\n13 < sub 1 task 1#0, delivery 2, payload 5\n");
}

/* He has the only task for as long as he beats, and for 4 s more. */
static void lease_to_dave(void)
{
    join(4);
    share_tasks(4, "work", (struct msg_subscribe){.lease_ms = 4000});
    publish(1, tasks, 0, 1, 5);
}

/* Its party is not lost yet. */
Test(core_group, end_the_leases_of_who_is_silent)
{
    lease_to_dave();
    forget();
    beat_on(8, 1000, (conn_id[]){1, 2, 3, 4, 0}); /* it beats, and so goes on */
    share(3, 1, "alice/tasks", "work", 1);
    forget();
    beat_on(4, 999, (conn_id[]){1, 2, 3, 0});
    forget();
    pass_ms(10);
    EXPECT("4 < over: sub 1 task 1#0, delivery 1 (worker_lost of dave)\n"
           "13 < sub 1 task 1#0, delivery 2, payload 5\n");
    beat(4);
    publish(1, tasks, 1, 1, 6); /* it is back */
    EXPECT("4 < echo\n1 < accepted 2 0\n14 < sub 1 task 1#1, delivery 1, payload 6\n");
}

/* It could say nothing while the broker stood still, and comes back by another connection. */
Test(core_group, end_no_leases_for_a_standstill_of_the_broker)
{
    lease_to_dave();
    now_ns += 60000 * MS;
    step((struct event){.type = EVENT_TICK});
    forget();
    pass_ms(9000);
    EXPECT("");
    beat(4);
    EXPECT("4 < echo\n");
}

Test(core_group, give_nothing_to_who_cannot_be_reached)
{
    workers(1);
    closed(2);
    publish(1, tasks, 0, 2, 5);
    EXPECT("2 dropped\n12 dropped\n1 < accepted 2 0\n13 < sub 1 task 1#0, delivery 1, payload 5\n");
    resume(2, tokens[2], 0);
    EXPECT("2 < welcome incarnation 1, resumed\n2 < attached\n2 < accepted 0 1\n"
           "12 < sub 1 task 1#1, delivery 1, payload 5 skip 1\n");
}

Test(core_group, send_again_what_a_broken_connection_may_have_lost)
{
    workers(3);
    publish(1, tasks, 0, 6, 5);
    closed(2);
    say_hello_again(2);
    forget();
    message(2, (struct msg){
                   .type = MSG_POSITION,
                   .as.position = {.sub = 1, .topic = tasks, .next_seq = 2, .chunk_offset = 1}});
    message(2, (struct msg){
                   .type = MSG_POSITION,
                   .as.position = {.sub = 1, .topic = tasks, .next_seq = 3, .chunk_offset = 1}});
    EXPECT("2 < over: sub 1 task 1#3, delivery 1\n"); /* that is carol's */
    attach(2, 12, tokens[2]);
    EXPECT("2 < attached\n2 < accepted 0 1\n12 < sub 1 task 1#0, delivery 1, payload 5\n"
           "12 < sub 1 task 1#4, delivery 1, payload 5 skip 4\n");
}

/* ---- dead letters ---------------------------------------------------------------------------- */

Test(core_group, keep_what_nobody_can_do)
{
    share(2, 1, "alice/tasks", "work", 1);
    tap(5);
    publish(1, tasks, 0, 2, 5);
    forget();
    for (unsigned delivery = 1; delivery < DEFAULT_DELIVER; delivery++)
        settle(2, tasks, 0, delivery, TASK_REJECTED, 0, "");
    forget();
    settle(2, tasks, 0, DEFAULT_DELIVER, TASK_REJECTED, 0, "");
    EXPECT("2 < accepted 0 6\n5 < task.dead bob/1 alice/tasks#0 x0 (rejected of bob)\n"
           "12 < sub 1 task 1#1, delivery 1, payload 5 skip 1\n");
    settle(2, tasks, 1, 1, TASK_REJECTED, -1, ""); /* never again */
    EXPECT("2 < accepted 0 7\n5 < task.dead bob/1 alice/tasks#1 x1 (rejected of bob)\n");
    ask_letters(5, "work", 0, 0);
    EXPECT("5 < letter 0: alice/tasks#0 x5, 16 bytes: app.broken\n"
           "5 < letter 1: alice/tasks#1 x1, 16 bytes: app.broken\n5 < letters 0  x2\n");
    ask_letters(5, "work", 1, 1);
    EXPECT("5 < letter 1: alice/tasks#1 x1, 16 bytes: app.broken (rejected of bob)\n"
           "5 < dead_value\n5 < letters 0  x1\n");
    ask_letters(5, "work", 3, 0);
    EXPECT("5 < letters 0  x1\n");
    ask_letters(5, "work", 1, 0);
    EXPECT("5 < letters 1 errbus.no_group x0\n");
    ask_letters(5, "nothing", 0, 0);
    EXPECT("5 < letters 1 errbus.no_group x0\n");
}

/* A letter is shown from somewhere, with pieces until so many bytes came: returns how many. */
static uint32_t pieces_shown(uint64_t offset, uint64_t window_bytes)
{
    uint32_t count = 0;
    uint64_t next = offset;
    message(5, (struct msg){.type = MSG_DEAD,
                            .as.dead = {.request = 9,
                                        .job = span_text(job_name),
                                        .group = span_text("work"),
                                        .how = 1,
                                        .offset = offset,
                                        .window_bytes = window_bytes}});
    for (uint32_t i = 0; i < effects.count; i++) {
        const struct msg *msg = &effects.msgs[effects.items[i].index];
        if (effects.items[i].type != EFFECT_SEND_MSG || msg->type != MSG_DEAD_VALUE)
            continue;
        cr_expect_eq(msg->as.dead_value.offset, next);
        next += LIMIT_DEAD_PIECE_BYTES;
        count += 1;
    }
    forget();
    return count;
}

Test(core_group, show_as_many_pieces_of_a_letter_as_are_asked_for)
{
    enum { PIECE = LIMIT_DEAD_PIECE_BYTES };
    share(2, 1, "alice/tasks", "work", 1);
    tap(5);
    batch(1, 5,
          (struct event_range){
              .kind = FRAME_VALUE, .topic = tasks, .count = 1, .value_bytes = 3 * PIECE + 1});
    settle(2, tasks, 0, 1, TASK_REJECTED, -1, "");
    forget();
    cr_expect_eq(pieces_shown(0, 0), 1);
    cr_expect_eq(pieces_shown(0, PIECE), 1);
    cr_expect_eq(pieces_shown(0, PIECE + 1), 2);
    cr_expect_eq(pieces_shown(0, LIMIT_DEAD_WINDOW_BYTES), 4);
    cr_expect_eq(pieces_shown(2 * PIECE, 2 * PIECE), 2);
    cr_expect_eq(pieces_shown(3 * PIECE + 1, PIECE), 1, "it has no bytes: nothing is left");
}

Test(core_group, keep_the_errors_of_all_deliveries)
{
    struct error_record records[LIMIT_ERROR_RECORDS];
    uint32_t count;
    share(2, 1, "alice/tasks", "work", 1);
    tap(5);
    publish(1, tasks, 0, 1, 5);
    for (unsigned delivery = 1; delivery <= DEFAULT_DELIVER; delivery++) {
        char id[40];
        (void)snprintf(id, sizeof id, "job/bob/1/%u", 100 + 2 * delivery + 1); /* short */
        settle(2, tasks, 0, delivery, TASK_REJECTED, 0, id);
    }
    ask_letters(5, "work", 1, 0);
    struct span error = SPAN_NONE;
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_DEAD_ROW)
            error = effects.msgs[i].as.dead_row.error;
    cr_assert_eq(error_decode(error, records, LIMIT_ERROR_RECORDS, &count), WIRE_OK);
    cr_expect_eq(count, 1 + DEFAULT_DELIVER);
    cr_expect_eq(records[0].cause_count, DEFAULT_DELIVER);
    cr_expect(span_equal(records[0].topic, span_text("alice/tasks")));
    cr_expect(span_equal(records[records[0].causes[0]].id, span_text("job/bob/1/111")),
              "the last first");
    cr_expect(span_equal(records[records[0].causes[4]].id, span_text("job/bob/1/103")));
}

Test(core_group, are_read_as_topics)
{
    share(2, 1, "alice/tasks", "work", 1);
    subscribe(3, 1, "#", "", 0, 0);
    subscribe(3, 2, "_groups/work/#", "", 0, 0);
    publish(1, tasks, 0, 2, 5);
    forget();
    settle(2, tasks, 0, 1, TASK_REJECTED, -1, "");
    const char *told = strstr(said, "13 < ");
    cr_assert_not_null(told);
    cr_expect_str_eq(told, "13 < sub 2 task 2#0, delivery 1, payload 5\n"
                           "13 < sub 2 error #0 (rejected of bob)\n"
                           "12 < sub 1 task 1#1, delivery 1, payload 5 skip 1\n");
    forget();
    await_slot(3, 7, "_groups/work/dead", 0);
    EXPECT("13 < sub 0 task 2#0, delivery 1, payload 5\n");
}

Test(core_group, give_a_letter_again_when_asked)
{
    share(2, 1, "alice/tasks", "work", 1);
    tap(5);
    publish(1, tasks, 0, 2, 5);
    settle(2, tasks, 0, 1, TASK_REJECTED, -1, "");
    settle(2, tasks, 1, 1, TASK_REJECTED, -1, "");
    forget();
    ask_letters(5, "work", 2, 1);
    EXPECT("5 < letters 0  x1\n12 < sub 1 task 1#1, delivery 2, payload 5 skip 1\n");
    ask_letters(5, "work", 2, 1);
    EXPECT("5 < letters 1 errbus.no_group x0\n");
    ask_letters(5, "work", 3, 1);
    EXPECT("5 < letters 1 errbus.no_group x0\n"); /* somebody works on it */
    compact();
    done(2, tasks, 1, 2);
    forget();
    ask_letters(5, "work", 0, 0);
    EXPECT("5 < letter 0: alice/tasks#0 x1, 16 bytes: app.broken\n5 < letters 0  x1\n");
    ask_letters(5, "work", 2, UINT64_MAX);
    EXPECT("5 < letters 0  x1\n12 < sub 1 task 1#0, delivery 2, payload 5\n");
    settle(2, tasks, 0, 2, TASK_REJECTED, -1, "");
    forget();
    ask_letters(5, "work", 0, 0);
    EXPECT("5 < letter 2: alice/tasks#0 x2, 16 bytes: app.broken\n5 < letters 0  x1\n");
    ask_letters(5, "work", 3, UINT64_MAX);
    EXPECT("5 < letters 0  x1\n");
}

/* Bob has task 0 again, which he had refused: he may not know yet that the broker heard so. */
static void give_the_letter_again(void)
{
    share(2, 1, "alice/tasks", "work", 1);
    tap(5);
    publish(1, tasks, 0, 1, 5);
    settle(2, tasks, 0, 1, TASK_REJECTED, -1, "");
    ask_letters(5, "work", 2, 0);
    forget();
}

Test(core_group, take_no_word_about_what_a_letter_was_before)
{
    give_the_letter_again();
    compact();
    done(2, tasks, 0, 1);
    EXPECT("2 < accepted 0 3\n");
    closed(2);
    say_hello_again(2);
    forget();
    message(2, (struct msg){
                   .type = MSG_POSITION,
                   .as.position = {.sub = 1, .topic = tasks, .next_seq = 0, .chunk_offset = 1}});
    EXPECT("2 < over: sub 1 task 1#0, delivery 1\n");
    attach(2, 12, tokens[2]);
    EXPECT("2 < attached\n2 < accepted 0 3\n12 < sub 1 task 1#0, delivery 2, payload 5\n");
}

/* A letter is given as often as a new task, however often it was given before. */
Test(core_group, give_a_letter_as_often_as_a_new_task)
{
    give_the_letter_again();
    for (uint32_t delivery = 2; delivery < 2 + DEFAULT_DELIVER - 1; delivery++)
        settle(2, tasks, 0, delivery, TASK_RETURNED, 0, NULL);
    ask_letters(5, "work", 0, 0);
    forget();
    settle(2, tasks, 0, 1 + DEFAULT_DELIVER, TASK_RETURNED, 0, NULL);
    ask_letters(5, "work", 0, 0);
    EXPECT("2 < accepted 0 7\n5 < task.dead bob/1 alice/tasks#0 x1 (rejected of bob)\n"
           "5 < letter 1: alice/tasks#0 x6, 16 bytes: errbus.dead_letter\n5 < letters 0  x1\n");
}

/* A frame has one byte for it: before that is full, the deliveries of a letter count from 1. */
Test(core_group, count_deliveries_of_a_letter_in_a_byte)
{
    give_the_letter_again();
    uint32_t last = UINT8_MAX - DEFAULT_DELIVER + 1;
    for (uint32_t delivery = 2; delivery < last; delivery++) {
        settle(2, tasks, 0, delivery, TASK_REJECTED, -1, "");
        forget();
        ask_letters(5, "work", 2, delivery - 1);
    }
    EXPECT("5 < letters 0  x1\n12 < sub 1 task 1#0, delivery 251, payload 5\n");
    settle(2, tasks, 0, last, TASK_REJECTED, -1, "");
    forget();
    ask_letters(5, "work", 2, last - 1);
    EXPECT("5 < letters 0  x1\n12 < sub 1 task 1#0, delivery 1, payload 5\n");
}

/* Bob had the task and gave it back.  The group had no member for so long that the value went. */
static void lose_what_was_given_back(void)
{
    options.topic_window_bytes = 4 * 64; /* four values */
    restart();
    init_parties();
    tap(6);
    share_tasks(2, "work", (struct msg_subscribe){.keep_ms = 500, .credit = 1});
    publish(1, tasks, 0, 1, 20);
    settle(2, tasks, 0, 1, TASK_REJECTED, 0, "");
    leave(2, 0);
    pass_ms(600);
    for (uint32_t i = 1; i < 6; i++)
        publish(1, tasks, i, 1, 20 + i);
    forget();
}

Test(core_group, keep_a_letter_of_a_task_whose_value_went)
{
    lose_what_was_given_back();
    share(3, 1, "alice/tasks", "work", 1);
    EXPECT("3 < subscribed 0\n"
           "3 < notice about alice/tasks#1 of work (notice of carol)\n"
           "3 < accepted 0 1\n"
           "6 < task.dead /0 alice/tasks#0 x0 (rejected of )\n"
           "6 < tasks.gone /0 alice/tasks#1 x1\n"
           "13 < sub 1 task 1#2, delivery 1, payload 22\n");
    ask_letters(6, "work", 0, 0);
    EXPECT("6 < letter 0: alice/tasks#0 x2, 0 bytes: errbus.not_kept\n6 < letters 0  x1\n");
    compact();
    ask_letters(6, "work", 1, 0);
    EXPECT("6 < letter 0: alice/tasks#0 x2, 0 bytes: errbus.not_kept (rejected of )\n"
           "6 < dead_value\n6 < letters 0  x1\n");
    cr_expect_str_eq(error_message,
                     "the task alice/tasks#0 was given to workers of work 2 times, and was given "
                     "back; the broker no longer keeps its value, for the group had no members for "
                     "too long");
}

/* Of its value there is an error. */
Test(core_group, give_a_letter_without_a_value_again_as_its_error)
{
    lose_what_was_given_back();
    share(3, 1, "alice/tasks", "work", 1);
    for (uint32_t i = 2; i < 6; i++)
        done(3, tasks, i, 1);
    forget();
    ask_letters(6, "work", 2, 0);
    EXPECT("6 < letters 0  x1\n13 < sub 1 error #0 (rejected of )\n");
    settle(3, tasks, 0, 3, TASK_REJECTED, -1, "");
    forget();
    ask_letters(6, "work", 0, 0);
    EXPECT("6 < letter 1: alice/tasks#0 x3, 0 bytes: app.broken\n6 < letters 0  x1\n");
}

/* ---- over a restart -------------------------------------------------------------------------- */

Test(core_group, go_on_after_a_crash_with_who_had_what)
{
    workers(2);
    publish(1, tasks, 0, 5, 5);
    done(3, tasks, 1, 1);
    settle(2, tasks, 0, 1, TASK_REJECTED, 60000, "");
    settle(3, tasks, 3, 1, TASK_REJECTED, -1, "");
    crash(100);
    compact();
    say_hello_again(2);
    message(2, (struct msg){
                   .type = MSG_POSITION,
                   .as.position = {.sub = 1, .topic = tasks, .next_seq = 2, .chunk_offset = 1}});
    forget();
    attach(2, 12, tokens[2]);
    EXPECT("2 < attached\n2 < accepted 0 2\n");
    done(2, tasks, 2, 1);
    EXPECT("2 < accepted 0 3\n");
}

Test(core_group, end_a_lost_workers_leases_after_a_crash_too)
{
    workers(2);
    tap(5);
    publish(1, tasks, 0, 2, 5);
    forget();
    crash(100);
    resume(3, tokens[3], 0);
    tap(5);
    forget();
    beat_on(10, 1001, (conn_id[]){3, 5, 0});
    cr_expect_not_null(
        strstr(said, "5 < leases.lost bob/1 alice/tasks#0 x1 (party_lost of bob)\n"));
    cr_expect_not_null(strstr(said, "13 < sub 1 task 1#0, delivery 2, payload 5\n"));
}

/* ---- requests -------------------------------------------------------------------------------- */

static uint32_t replies; /* number of alice/_replies */

static void request(uint64_t reply, uint64_t seq, payload_id payload, int64_t deadline_ms)
{
    promise(1, replies, reply, deadline_ms);
    reply_to = reply;
    publish(1, tasks, seq, 1, payload);
    reply_to = FRAME_NO_REPLY;
}

static void requests(uint64_t count)
{
    replies = open_topic(1, "alice/_replies");
    for (uint64_t i = 0; i < count; i++)
        request(i, i, (payload_id)(20 + i), 0);
    forget();
}

/* So many, to two workers with room for one each. */
static void give_requests(uint64_t count)
{
    workers(1);
    requests(count);
}

static void answer(conn_id conn, uint64_t reply, payload_id payload)
{
    commit(conn, replies, reply, payload);
}

Test(core_group, answer_a_request_once)
{
    give_requests(0);
    request(0, 0, 20, 0);
    EXPECT("1 < accepted 1 0\n1 < accepted 2 0\n"
           "12 < sub 1 task 1#0, delivery 1, payload 20, reply to #0\n");
    await_slot(1, 7, "alice/_replies", 0);
    answer(2, 0, 30);
    EXPECT("2 < accepted 1 1\n11 < sub 0 payload 30 x1\n");
    done(2, tasks, 0, 1); /* it is, already */
    EXPECT("2 < accepted 1 2\n");
    answer(2, 0, 31);
    EXPECT("2 < refusal #0 (rejected of bob)\n2 < accepted 2 2\n");
}

Test(core_group, take_no_answer_but_from_who_has_the_request)
{
    give_requests(1);
    answer(3, 0, 30);
    EXPECT("3 < refusal #0 (rejected of carol)\n3 < accepted 1 1\n");
    answer(1, 0, 31);
    EXPECT("1 < refusal #0 (rejected of alice)\n1 < accepted 3 0\n");
    fail(1, replies, 0, frames[1]);
    EXPECT("1 < refusal #0 (rejected of alice)\n1 < accepted 3 1\n");
    answer(2, 0, 32);
    await_slot(1, 7, "alice/_replies", 0);
    EXPECT("2 < accepted 1 1\n11 < sub 0 payload 32 x1\n");
}

Test(core_group, fail_a_request_with_its_workers_error)
{
    give_requests(2);
    await_slot(1, 7, "alice/_replies", 0);
    await_slot(1, 8, "alice/_replies", 1);
    settle(2, tasks, 0, 1, TASK_FAILED, 0, "");
    EXPECT("2 < accepted 0 2\n11 < sub 0 error #0 (application of bob)\n");
    done(3, tasks, 1, 1); /* with no answer */
    EXPECT("3 < accepted 0 2\n11 < sub 0 error #1 (application of carol)\n");
}

Test(core_group, tell_a_worker_that_its_request_was_taken_back)
{
    give_requests(4);
    tap(5);
    retract(1, replies, 0);
    EXPECT("2 < over: sub 1 task 1#0, delivery 1 (application of alice)\n"
           "1 < result 0\n"
           "1 < accepted 8 1\n"
           "5 < slot.failed alice/1 alice/_replies#0 x1 (application of alice)\n"
           "12 < sub 1 task 1#2, delivery 1, payload 22, reply to #2\n");
    retract(1, replies, 3); /* nobody has it */
    answer(2, 2, 30);
    done(2, tasks, 2, 1);
    answer(3, 1, 31);
    cr_expect_null(strstr(said, "task 1#3"));
}

Test(core_group, fail_requests_whose_time_is_up)
{
    give_requests(0);
    request(0, 0, 20, 300);
    await_slot(1, 7, "alice/_replies", 0);
    forget();
    pass_ms(300);
    EXPECT("2 < over: sub 1 task 1#0, delivery 1 (deadline of alice)\n"
           "11 < sub 0 error #0 (deadline of alice)\n");
}

static void keep_alive(int64_t ms)
{
    for (int64_t at = 0; at < ms; at += 1000) {
        pass_ms(1000);
        for (conn_id conn = 1; conn <= 3; conn++)
            if (tokens[conn] != 0)
                beat(conn);
    }
}

Test(core_group, fail_requests_that_nobody_serves)
{
    requests(1);
    await_slot(1, 7, "alice/_replies", 0);
    keep_alive(DEFAULT_UNSERVED_MS - 1000);
    cr_expect_null(strstr(said, "error"));
    keep_alive(1000);
    cr_expect_not_null(strstr(said, "11 < sub 0 error #0 (rejected of alice)\n"));
    workers(1); /* what was not served is not served any more */
    EXPECT("");
}

/* Of what was published before the group was made, the newest two are kept. */
Test(core_group, tell_of_slots_that_are_gone)
{
    options.topic_keep_slots = 2;
    restart();
    init_parties();
    tap(6);
    publish(1, tasks, 0, 1, 20);
    publish(1, tasks, 1, 1, 21);
    publish(1, tasks, 2, 1, 22);
    publish(1, tasks, 3, 1, 23);
    publish(1, tasks, 4, 1, 24);
    forget();
    share(2, 1, "alice/tasks", "work", 1);
    EXPECT("2 < subscribed 0\n"
           "2 < notice about alice/tasks#0 of work (notice of bob)\n"
           "2 < accepted 0 1\n"
           "6 < tasks.gone /0 alice/tasks#0 x3\n"
           "12 < sub 1 task 1#3, delivery 1, payload 23\n");
    cr_expect_str_eq(error_message, "the group 'work' goes on with alice/tasks#3: the broker no "
                                    "longer keeps 3 slots before it");
    share(3, 1, "alice/tasks", "work", 1);
    cr_expect_null(strstr(said, "notice"), "%s", said);
}

Test(core_group, tell_of_no_slots_that_nobody_asked_for)
{
    options.topic_keep_slots = 2;
    restart();
    init_parties();
    tap(6);
    for (uint32_t i = 0; i < 5; i++)
        publish(1, tasks, i, 1, 20 + i);
    forget();
    subscribe_as(2, (struct msg_subscribe){.sub = 1,
                                           .pattern = span_text("alice/tasks"),
                                           .group = span_text("work"),
                                           .from_seq = FROM_OLDEST,
                                           .window_bytes = 4096,
                                           .credit = 1});
    cr_expect_null(strstr(said, "notice"), "%s", said);
    cr_expect_null(strstr(said, "tasks.gone"), "%s", said);
}

/* Alice published five values, of which the newest two are kept. */
static void lose_three(void)
{
    options.topic_keep_slots = 2;
    restart();
    init_parties();
    for (uint32_t i = 0; i < 5; i++)
        publish(1, tasks, i, 1, 20 + i);
}

/* The connection that was told is gone, and perhaps what was told with it. */
Test(core_group, tell_again_of_slots_that_are_gone_on_another_connection)
{
    lose_three();
    share(2, 1, "alice/tasks", "work", 1);
    forget();
    reconnect(2);
    keep_lines("notice", "notice");
    EXPECT("2 < notice about alice/tasks#0 of work (notice of bob)\n");
    reconnect(2); /* the client knows it, the broker does not know that */
    keep_lines("notice", "notice");
    EXPECT("2 < notice about alice/tasks#0 of work (notice of bob)\n");
}

Test(core_group, tell_of_the_gap_of_each_group)
{
    lose_three();
    share(2, 1, "alice/tasks", "work", 1);
    forget();
    share(2, 2, "alice/tasks", "more", 1);
    keep_lines("notice", "notice");
    EXPECT("2 < notice about alice/tasks#0 of more (notice of bob)\n");
}

/* How many there were since the last look. */
static unsigned count_notices(void)
{
    unsigned count = 0;
    for (const char *at = said; (at = strstr(at, "notice about alice/tasks")) != NULL; at++)
        count += 1;
    return count;
}

Test(core_group, tell_once_that_nobody_serves_requests)
{
    requests(2);
    pass_ms(LIMIT_NOTICE_MS - 1);
    EXPECT("");
    pass_ms(1);
    EXPECT("1 < notice about alice/tasks (notice of alice)\n");
    cr_expect_str_eq(error_message, "no group with a member takes requests of 'alice/tasks'; start "
                                    "a worker, or correct the topic; they fail after 30000 ms "
                                    "without one");
    request(2, 2, 22, 0);
    forget();
    keep_alive(DEFAULT_UNSERVED_MS + LIMIT_NOTICE_MS);
    cr_expect_eq(count_notices(), 0, "%s", said);
}

Test(core_group, tell_again_that_nobody_serves_requests_while_it_is_so)
{
    requests(1);
    pass_ms(LIMIT_NOTICE_MS);
    forget();
    reconnect(1);
    cr_expect_eq(count_notices(), 1, "%s", said);
    forget();
    workers(1);
    reconnect(1);
    cr_expect_eq(count_notices(), 0, "it is served now: %s", said);
}

Test(core_group, tell_no_more_that_nobody_served_a_request_that_is_over)
{
    requests(1);
    keep_alive(DEFAULT_UNSERVED_MS);
    forget();
    reconnect(1);
    cr_expect_eq(count_notices(), 0, "%s", said);
}

Test(core_group, tell_of_no_request_that_is_served_or_over_in_time)
{
    workers(1);
    requests(3); /* one waits for room, and is served all the same */
    pass_ms(LIMIT_NOTICE_MS);
    cr_expect_eq(count_notices(), 0, "%s", said);
    drain(2, 1);
    drain(3, 1); /* from now on it is not */
    pass_ms(LIMIT_NOTICE_MS - 1);
    cr_expect_eq(count_notices(), 0, "%s", said);
    pass_ms(1);
    cr_expect_eq(count_notices(), 1, "%s", said);
}

/* The group begins behind the request, and so never comes to it. */
Test(core_group, fail_a_request_that_its_group_will_not_come_to)
{
    requests(1);
    share_tasks(2, "late", (struct msg_subscribe){.from_seq = -1});
    await_slot(1, 7, "alice/_replies", 0);
    keep_alive(DEFAULT_UNSERVED_MS);
    cr_expect_not_null(strstr(said, "11 < sub 0 error #0 (rejected of alice)\n"));
}

Test(core_group, wait_for_no_worker_that_comes_in_time)
{
    requests(1);
    keep_alive(DEFAULT_UNSERVED_MS - 1000);
    share(2, 1, "alice/tasks", "work", 1);
    cr_expect_not_null(strstr(said, "12 < sub 1 task 1#0, delivery 1, payload 20, reply to #0\n"));
    keep_alive(10 * DEFAULT_UNSERVED_MS);
    forget();
    await_slot(1, 7, "alice/_replies", 0);
    EXPECT("");
    leave(2, 0);
    keep_alive(2 * DEFAULT_UNSERVED_MS);
    cr_expect_not_null(strstr(said, "11 < sub 0 error #0 (rejected of alice)\n"));
}

/* The core begins anew, and has requests wait for so long. */
static void wait_at_most(int64_t unserved_ms)
{
    options.unserved_ms = unserved_ms;
    restart();
    init_parties();
}

/* To the millisecond, from the request on and from the end of the last member on. */
Test(core_group, fail_what_nobody_serves_when_the_brokers_bound_is_over)
{
    wait_at_most(7);
    requests(1);
    await_slot(1, 7, "alice/_replies", 0);
    pass_ms(6);
    EXPECT("");
    pass_ms(1);
    EXPECT("11 < sub 0 error #0 (rejected of alice)\n");
    cr_expect_not_null(strstr(error_message, "within 7 ms"));
    share(2, 1, "alice/tasks", "work", 1);
    share(3, 1, "alice/tasks", "other", 1);
    request(1, 1, 21, 0);
    request(2, 2, 22, 0);
    await_slot(1, 8, "alice/_replies", 2);
    forget();
    pass_ms(500);
    EXPECT(""); /* it is served, though nobody has room for it */
    leave(2, 0);
    pass_ms(500);
    leave(3, 0);
    cr_expect_null(strstr(said, "error"));
    forget();
    pass_ms(6);
    EXPECT("");
    pass_ms(1);
    EXPECT("11 < sub 0 error #2 (rejected of alice)\n");
}

Test(core_group, serve_no_request_by_who_is_drained)
{
    wait_at_most(7);
    share(2, 1, "alice/tasks", "work", 1);
    requests(2);
    await_slot(1, 7, "alice/_replies", 0);
    await_slot(1, 8, "alice/_replies", 1);
    drain(2, 1);
    forget();
    pass_ms(6);
    EXPECT("");
    pass_ms(1);
    EXPECT("11 < sub 0 error #1 (rejected of alice)\n"); /* the other one is worked on */
    pass_ms(100);
    forget();
    leave(2, 0);
    EXPECT("2 < over 13\n2 dropped\n12 dropped\n");
    pass_ms(6);
    EXPECT("");
    pass_ms(1);
    EXPECT("11 < sub 0 error #0 (rejected of alice)\n");
}

Test(core_group, fail_what_nobody_serves_at_once_where_the_bound_is_none)
{
    wait_at_most(0);
    requests(1);
    await_slot(1, 7, "alice/_replies", 0);
    pass_ms(0);
    cr_expect_not_null(strstr(said, "11 < sub 0 error #0 (rejected of alice)\n"));
    share(2, 1, "alice/tasks", "work", 1);
    request(1, 1, 21, 0);
    cr_expect_not_null(strstr(said, "12 < sub 1 task 1#1, delivery 1, payload 21, reply to #1\n"));
}

/* Ten thousand that wait behind each other are no work for the broker meanwhile. */
Test(core_group, look_at_no_request_while_it_is_served)
{
    wait_at_most(7);
    share(2, 1, "alice/tasks", "work", 1);
    requests(3);
    int64_t beat_ns = core_deadline_ns(core);
    cr_expect_gt(beat_ns, now_ns + 7 * MS);
    leave(2, 0);
    cr_expect_eq(core_deadline_ns(core), now_ns + 7 * MS);
}

Test(core_group, wait_for_workers_after_a_crash_too)
{
    wait_at_most(7);
    requests(1);
    crash(100);
    resume(1, tokens[1], 0);
    await_slot(1, 7, "alice/_replies", 0);
    forget();
    pass_ms(6);
    EXPECT("");
    pass_ms(1);
    EXPECT("11 < sub 0 error #0 (rejected of alice)\n");
}

Test(core_group, fail_a_request_whose_workers_are_all_lost)
{
    share_tasks(2, "work", (struct msg_subscribe){.deliver_max = 2});
    share(3, 1, "alice/tasks", "work", 1);
    requests(1);
    await_slot(1, 7, "alice/_replies", 0);
    tap(5);
    leave(2, 0);
    cr_expect_not_null(strstr(said, "13 < sub 1 task 1#0, delivery 2, payload 20, reply to #0\n"));
    closed(3);
    forget();
    pass_ms(1000);
    EXPECT("5 < party.lost carol/1 #0 x0 (party_lost of carol)\n"
           "5 < leases.lost carol/1 alice/tasks#0 x1 (party_lost of carol)\n"
           "5 < task.dead carol/1 alice/tasks#0 x0 (worker_lost of carol)\n"
           "11 < sub 0 error #0 (worker_lost of carol)\n");
}

Test(core_group, cancel_the_requests_of_who_is_lost)
{
    give_requests(3);
    closed(1);
    forget();
    pass_ms(1000);
    EXPECT("2 < over: sub 1 task 1#0, delivery 1 (party_lost of alice)\n"
           "3 < over: sub 1 task 1#1, delivery 1 (party_lost of alice)\n");
    answer(2, 0, 30);
    EXPECT("2 < refusal #0 (party_lost of bob)\n2 < accepted 1 1\n");
}

Test(core_group, know_requests_and_answers_after_a_crash)
{
    give_requests(4);
    answer(3, 1, 30);
    done(3, tasks, 1, 1);
    crash(100);
    compact();
    resume(1, tokens[1], 0);
    resume(2, tokens[2], 0);
    forget();
    await_slot(1, 7, "alice/_replies", 0);
    await_slot(1, 8, "alice/_replies", 1);
    EXPECT("11 < sub 0 payload 30 x1\n");
    answer(2, 0, 31);
    EXPECT("2 < accepted 1 1\n11 < sub 0 payload 31 x1\n"
           "12 < sub 1 task 1#3, delivery 1, payload 23, reply to #3\n");
}

Test(core_group, take_no_reply_for_a_request)
{
    give_requests(0);
    reply_to = 0;
    reserve(1, replies, 0);
    reply_to = FRAME_NO_REPLY;
    await_slot(1, 7, "alice/_replies", 0);
    EXPECT("1 < accepted 1 0\n");
    retract(1, replies, 0);
    EXPECT("1 < result 0\n1 < accepted 1 1\n11 < sub 0 error #0 (application of alice)\n");
}

Test(core_group, serve_no_request_without_a_slot_for_its_reply)
{
    give_requests(1);
    reply_to = 5; /* never reserved */
    publish(1, tasks, 1, 1, 21);
    reply_to = 0; /* another's */
    publish(1, tasks, 2, 1, 22);
    reply_to = FRAME_NO_REPLY;
    publish(1, tasks, 3, 1, 23);
    EXPECT("1 < accepted 3 0\n1 < accepted 4 0\n"
           "1 < accepted 5 0\n13 < sub 1 task 1#3, delivery 1, payload 23\n");
}

/* Its reply was on its way, on the other channel, when it was killed. */
Test(core_group, take_no_workers_word_for_a_reply_that_did_not_come)
{
    give_requests(1);
    frames[2] += 1;
    done(2, tasks, 0, 1);
    EXPECT("");
    closed(2);
    forget();
    pass_ms(1000);
    EXPECT("13 < sub 1 task 1#0, delivery 2, payload 20, reply to #0\n");
}

/* One in pieces of 100, of which there are two. */
static void piece(conn_id conn, uint64_t reply, uint64_t at, payload_id payload)
{
    chunk(conn, replies, reply, 200, at, 100, payload);
}

Test(core_group, mix_no_pieces_of_two_answers)
{
    give_requests(1);
    piece(2, 0, 0, 30);
    EXPECT("2 < chunked 100\n");
    leave(2, 0);
    forget();
    piece(3, 0, 0, 31);
    EXPECT("3 < chunked 100\n");
    piece(3, 0, 100, 32);
    await_slot(1, 7, "alice/_replies", 0);
    EXPECT("3 < chunked 200\n11 < sub 0 payload 31 x1\n11 < sub 0 payload 32 x1\n");
}

static void task_in_pieces(void)
{
    share(2, 1, "alice/tasks", "work", 1);
    reserve(1, tasks, 0);
    chunk(1, tasks, 0, 200, 0, 100, 40);
    chunk(1, tasks, 0, 200, 100, 100, 41);
}

/* Whole, so that a group of its own can be given it in pieces. */
Test(core_group, keep_a_dead_letter_in_pieces)
{
    tap(5);
    task_in_pieces();
    cr_expect_not_null(strstr(said, "12 < sub 1 task 1#0, delivery 1, payload 40\n"
                                    "12 < sub 1 task 1#0, delivery 1, payload 41\n"));
    settle(2, tasks, 0, 1, TASK_REJECTED, -1, "");
    compact();
    forget();
    ask_letters(5, "work", 0, 0);
    EXPECT("5 < letter 0: alice/tasks#0 x1, 200 bytes: app.broken\n5 < letters 0  x1\n");
    ask_letters(5, "work", 2, 0);
    EXPECT("5 < letters 0  x1\n12 < sub 1 task 1#0, delivery 2, payload 40\n"
           "12 < sub 1 task 1#0, delivery 2, payload 41\n");
}

Test(core_group, keep_a_dead_letter_in_pieces_when_no_slot_can_be_opened)
{
    options.open_slots_max = 1;
    restart();
    init_parties();
    tap(5);
    task_in_pieces();
    reserve(1, tasks, 1);
    settle(2, tasks, 0, 1, TASK_REJECTED, -1, "");
    forget();
    ask_letters(5, "work", 0, 0);
    EXPECT("5 < letter 0: alice/tasks#0 x1, 200 bytes: app.broken\n5 < letters 0  x1\n");
    reserve(1, tasks, 2); /* one is as many as there may be still */
    EXPECT("1 < refusal #2 (rejected of alice)\n1 < accepted 3 0\n"
           "5 < refused alice/1 alice/tasks#2 x1\n");
}

/* Party 2 says that task 0 is done, which waits for a frame that has not come, and leaves the
 * group. */
static void finish_ahead_and_leave(void)
{
    message(2, (struct msg){.type = MSG_TASK,
                            .as.task = {.number = ++numbers[2],
                                        .after = frames[2] + 1,
                                        .sub = 1,
                                        .topic = tasks,
                                        .seq = 0,
                                        .delivery = 1}});
    message(2, (struct msg){.type = MSG_UNSUBSCRIBE,
                            .as.unsubscribe = {.number = ++numbers[2], .sub = 1}});
}

/* Control overtakes data: what was done before it left is done all the same. */
Test(core_group, let_nobody_leave_before_what_it_did)
{
    give_requests(2);
    finish_ahead_and_leave();
    subscribe(2, 2, "alice/x", "", 0, 0);
    message(2, (struct msg){.type = MSG_UNSUBSCRIBE, /* that one waits for nothing */
                            .as.unsubscribe = {.number = ++numbers[2], .sub = 2}});
    EXPECT("2 < subscribed 0\n");
    compact();
    await_slot(1, 7, "alice/_replies", 0);
    answer(2, 0, 30);
    EXPECT("2 < accepted 1 5\n11 < sub 0 payload 30 x1\n");
    publish(1, tasks, 2, 2, 6);
    done(3, tasks, 1, 1);
    EXPECT("1 < accepted 6 0\n3 < accepted 0 2\n13 < sub 1 task 1#2, delivery 1, payload 6\n");
}

/* Its word about it is lost with what it waits for: another does it. */
Test(core_group, give_again_what_one_who_left_did_not_bring)
{
    give_requests(1);
    finish_ahead_and_leave();
    closed(2);
    crash(100);
    resume(1, tokens[1], 0);
    resume(3, tokens[3], 0);
    tap(5);
    beat_on(12, 1001, (conn_id[]){1, 3, 5, 0});
    cr_expect_not_null(
        strstr(said, "5 < leases.lost bob/1 alice/tasks#0 x1 (party_lost of bob)\n"));
    cr_expect_not_null(strstr(said, "13 < sub 1 task 1#0, delivery 2, payload 20, reply to #0"));
}

/* ---- short of memory ------------------------------------------------------------------------- */

static uint64_t asked, fail_at;
static void *(*heap_resize)(struct memory *memory, void *block, size_t old_bytes, size_t new_bytes);

static void *resize_but_once(struct memory *from, void *block, size_t old_bytes, size_t new_bytes)
{
    if (new_bytes > old_bytes && ++asked == fail_at)
        return NULL;
    return heap_resize(from, block, old_bytes, new_bytes);
}

/* Whichever allocation fails: once the subscription stands, what is for it comes with the next
 * event at the latest, whatever that is. */
static bool comes_all_the_same(uint64_t n, const char *group)
{
    fini_groups();
    init_groups();
    publish(1, tasks, 0, 1, 5);
    forget();
    heap_resize = memory.resize;
    asked = 0;
    fail_at = n;
    memory.resize = resize_but_once;
    if (group != NULL)
        share(2, 1, "alice/tasks", group, 1);
    else
        subscribe(2, 1, "alice/tasks", "", 0, 0);
    memory.resize = heap_resize;
    bool is_open = strstr(said, "2 < subscribed 0\n") != NULL;
    beat(3);
    bool has_come = strstr(said, "12 < sub 1 ") != NULL;
    cr_expect(!is_open || has_come, "allocation %llu: %s", (unsigned long long)n, said);
    forget();
    return asked >= n;
}

Test(core_group, are_given_with_the_next_event_what_memory_was_short_for)
{
    for (uint64_t n = 1; comes_all_the_same(n, "work"); n++)
        cr_assert_lt(n, 1000);
}

Test(core_group, and_other_readers_too)
{
    for (uint64_t n = 1; comes_all_the_same(n, NULL); n++)
        cr_assert_lt(n, 1000);
}

/* Both have so much under way that the end of its writer is the last that there is room for.  It
 * may let go on what it held back, so who was sent it is looked at again, and that finds none.
 * What its next incarnation writes comes to both. */
static bool both_go_on_behind_an_end(uint64_t n)
{
    enum { ROOM = 16 }; /* for what was sent and not taken, at first */
    fini_groups();
    init_groups();
    subscribe(2, 1, "alice/tasks", "", 0, 0);
    subscribe(3, 1, "alice/tasks", "", 0, 0);
    for (uint32_t seq = 0; seq + 1 < ROOM; seq++)
        publish(1, tasks, seq, 1, 5 + seq);
    heap_resize = memory.resize;
    asked = 0;
    fail_at = n;
    memory.resize = resize_but_once;
    leave(1, frames[1]);
    memory.resize = heap_resize;
    join(1);
    tasks = open_topic(1, "alice/tasks");
    publish(1, tasks, ROOM - 1, 1, 5);
    cr_expect_not_null(strstr(said, "12 < sub 1 payload 5 x1\n"), "allocation %llu: %s",
                       (unsigned long long)n, said);
    cr_expect_not_null(strstr(said, "13 < sub 1 payload 5 x1\n"), "allocation %llu: %s",
                       (unsigned long long)n, said);
    forget();
    return asked >= n;
}

/* A session that is marked while it is sent something was in two lists then. */
Test(core_group, and_who_is_told_of_an_end_meanwhile)
{
    uint64_t n = 1;
    while (both_go_on_behind_an_end(n))
        cr_assert_lt(n++, 1000);
    cr_expect_gt(n, 2); /* there was one to fail for each */
}

static unsigned closed_with_an_error;

/* A task in pieces becomes a dead letter while memory is short, for its open slot, too: an error
 * stands for its value then, or there is no letter. */
static bool letter_has_its_slot(uint64_t n)
{
    fini_groups();
    init_groups();
    tap(5);
    task_in_pieces();
    for (uint64_t seq = 1; core->open_slots.used < POOL_CHUNK_ITEMS; seq++)
        reserve(1, tasks, seq);
    heap_resize = memory.resize;
    asked = 0;
    fail_at = n;
    memory.resize = resize_but_once;
    settle(2, tasks, 0, 1, TASK_REJECTED, -1, "");
    memory.resize = heap_resize;
    forget();
    ask_letters(5, "work", 0, 0);
    bool is_kept = strstr(said, "5 < letter 0: alice/tasks#0") != NULL;
    forget();
    await_slot(3, 7, "_groups/work/dead", 0);
    bool is_there = strstr(said, "13 < sub 0 ") != NULL;
    cr_expect_eq(is_there, is_kept, "allocation %llu: %s", (unsigned long long)n, said);
    closed_with_an_error += strstr(said, "13 < sub 0 error #0") != NULL;
    forget();
    return asked >= n;
}

Test(core_group, have_an_error_for_a_letter_that_no_memory_is_left_for)
{
    for (uint64_t n = 1; letter_has_its_slot(n); n++)
        cr_assert_lt(n, 1000);
    cr_expect_gt(closed_with_an_error, 0);
}

/* Its first member finds no room: then it holds its topics for as long as any that nobody attends,
 * and no longer. */
static bool goes_in_the_end(uint64_t n)
{
    fini_groups();
    init();
    options.topic_window_bytes = 256;
    restart();
    for (conn_id conn = 1; conn <= 3; conn++)
        join(conn);
    tasks = open_topic(1, "alice/tasks");
    heap_resize = memory.resize;
    asked = 0;
    fail_at = n;
    memory.resize = resize_but_once;
    share_tasks(2, "work", (struct msg_subscribe){.keep_ms = 500});
    memory.resize = heap_resize;
    bool is_open = strstr(said, "2 < subscribed 0\n") != NULL;
    uint32_t seq = 0;
    for (; seq < 10; seq++)
        publish(1, tasks, seq, 1, 5 + seq); /* more than it may */
    keep_alive(2000);
    forget();
    publish(1, tasks, seq, 1, 5 + seq);
    cr_expect(is_open || strstr(said, "refusal") == NULL, "allocation %llu: %s",
              (unsigned long long)n, said);
    forget();
    return asked >= n;
}

Test(core_group, that_nobody_could_join_go_in_the_end)
{
    for (uint64_t n = 1; goes_in_the_end(n); n++)
        cr_assert_lt(n, 1000);
}

/* It wants no reply any more: that nobody waits for it is no reason to lose it. */
Test(core_group, keep_a_request_that_dies_again)
{
    share(2, 1, "alice/tasks", "work", 1);
    requests(1);
    tap(5);
    settle(2, tasks, 0, 1, TASK_REJECTED, -1, "");
    ask_letters(5, "work", 2, 0);
    cr_expect_not_null(strstr(said, "12 < sub 1 task 1#0, delivery 2, payload 20\n"));
    settle(2, tasks, 0, 2, TASK_FAILED, 0, "");
    forget();
    ask_letters(5, "work", 0, 0);
    EXPECT("5 < letter 1: alice/tasks#0 x2, 16 bytes: app.broken\n5 < letters 0  x1\n");
}

static const struct msg_status_row *group_row(void)
{
    const struct msg_status_row *found = NULL;
    message(5, (struct msg){.type = MSG_STATUS, .as.status = {.request = 1}});
    for (uint32_t i = 0; i < effects.msg_count; i++) {
        const struct msg_status_row *row = &effects.msgs[i].as.status_row;
        if (effects.msgs[i].type != MSG_STATUS_ROW)
            continue;
        cr_expect_not(row->kind == 1 && span_equal(row->name, span_text("_groups")));
        if (row->is_group)
            found = row;
    }
    cr_assert_not_null(found);
    return found;
}

static void expect_row(uint64_t members, uint64_t credit, uint64_t leased, uint64_t waiting,
                       uint64_t dead)
{
    const struct msg_status_row *row = group_row();
    cr_expect(span_equal(row->name, span_text("work")));
    cr_expect(span_equal(row->pattern, span_text("alice/tasks")));
    cr_expect_eq(row->party.bytes, 0);
    cr_expect(span_equal(row->state, span_text(members > 0 ? "live" : "kept")));
    cr_expect_eq(row->members, members);
    cr_expect_eq(row->credit, credit);
    cr_expect_eq(row->leased, leased, "%u leased", (unsigned)row->leased);
    cr_expect_eq(row->waiting, waiting, "%u waiting", (unsigned)row->waiting);
    cr_expect_eq(row->dead, dead);
}

Test(core_group, are_shown_with_what_is_leased_waits_and_is_dead)
{
    tap(5);
    share(2, 1, "alice/tasks", "work", 2);
    share(3, 1, "alice/tasks", "work", 1);
    expect_row(2, 3, 0, 0, 0);
    publish(1, tasks, 0, 6, 5);
    reserve(1, tasks, 6);
    expect_row(2, 3, 3, 3, 0);
    done(2, tasks, 0, 1);
    settle(2, tasks, 2, 1, TASK_REJECTED, -1, "");
    expect_row(2, 3, 3, 1, 1);
    settle(3, tasks, 1, 1, TASK_REJECTED, 60000, ""); /* put off, and another given */
    expect_row(2, 3, 3, 1, 1);
    drain(2, 1);
    expect_row(2, 1, 3, 1, 1);
    ask_letters(5, "work", 2, 0);
    expect_row(2, 1, 3, 2, 1);
    leave(2, frames[2]);
    leave(3, frames[3]);
    expect_row(0, 0, 0, 5, 1);
}
