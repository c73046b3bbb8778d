/* SPDX-License-Identifier: MPL-2.0 */
/* core_replay_test.c -- facts: every kind of them is told and gives the same state, what is wrong
 * is refused in words, and a broker that was away goes on. */
#include "broker/core/model.h"
#include "broker/core/record/failure.h"
#include "tests/unit/core_driver.h"

TestSuite(core_replay, .init = init, .fini = fini);

/* One half of a value of 200 bytes. */
static void half(conn_id conn, uint32_t topic, uint64_t seq, uint64_t at, payload_id payload)
{
    chunk(conn, topic, seq, 200, at, 100, payload);
}

static void numbered(conn_id conn, struct msg msg)
{
    uint64_t number = ++numbers[conn];
    memcpy(&msg.as, &number, sizeof number); /* the first field of all that have one */
    message(conn, msg);
}

/* ---- every kind ------------------------------------------------------------------------------ */

/* Promises, values of all sorts, and what becomes of them. */
static void write_all_sorts(uint32_t a)
{
    publish(1, a, 5, 3, 1);  /* begins above 0 */
    publish(1, a, 10, 1, 2); /* jumps */
    for (uint64_t seq = 11; seq < 17; seq++)
        reserve(1, a, seq);
    commit(1, a, 11, 3);
    fail(1, a, 12, frames[1]);
    half(1, a, 13, 0, 4);
    half(1, a, 13, 100, 5);
    half(1, a, 14, 0, 6);
    commit(1, a, 11, 7);  /* refused: it came before */
    half(1, a, 12, 0, 8); /* refused: it failed */
    retract(1, a, 6);     /* nobody was sent it: granted */
    fail(1, a, 15, frames[1] + 1);
    publish(1, a, 17, 1, 9);       /* ... and what it waited for */
    fail(1, a, 16, frames[1] + 5); /* parked to its end */
    reserve_after(1, a, 18, "alice/a", 16);
}

/* A durable name that was left is taken up again, acknowledged, left, and kept too long. */
static void read_all_sorts(uint32_t a)
{
    pass_ms(2000);
    join(2);
    subscribe(2, 1, "alice/#", "deep", 0, 0);
    subscribe(2, 2, "alice/a", "", 0, 0);
    numbered(2, (struct msg){.type = MSG_SUB_ADD,
                             .as.sub_add = {.sub = 2, .pattern = span_text("carol/+")}});
    ack(2, 1, a, 8);
    numbered(2, (struct msg){.type = MSG_UNSUBSCRIBE, .as.unsubscribe = {.sub = 2}});
    numbered(2, (struct msg){.type = MSG_UNSUBSCRIBE, .as.unsubscribe = {.sub = 1}});
    message(1, (struct msg){.type = MSG_PROGRESS, .as.progress = {.next_within_ms = 60000}});
    pass_ms(6000);
}

/* Which facts cannot be had by talking: there has to be no memory. */
static bool is_of_short_memory(unsigned type)
{
    return type == FACT_TOPIC_FORGOTTEN;
}

static uint64_t bytes_sent(conn_id conn, uint32_t sub)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < effects.count; i++) {
        const struct effect *effect = &effects.items[i];
        if (effect->conn != conn || effect->sub != sub)
            continue;
        if (effect->type == EFFECT_SEND_FRAME)
            bytes += frame_total(effects.frames[effect->index].frame.value.bytes);
        else if (effect->type == EFFECT_SEND_RANGE || effect->type == EFFECT_SEND_PART)
            bytes += effect->bytes;
    }
    return bytes;
}

/* carol comes and goes while nobody needs her; then somebody else needs her place. */
static void forget_a_party(void)
{
    join(3);
    leave(3, 0);
    join(4);
    leave(4, 0);
    pass_ms(1);
    await_slot(2, 77, "frank/a", 0);
}

/* The first attachment is dropped for the second, the third is too long, and then the first is
 * forgotten. */
static void attach_and_forget(void)
{
    static const char output[12] = "output";
    static const char *const names[] = {"a", "b", "c", "d"};
    ask_from(7); /* a courier */
    message(17,
            (struct msg){.type = MSG_ATTACH, .as.attach = {.token = tokens[7], .connection = 7}});
    for (payload_id i = 0; i < 4; i++) {
        message(7, (struct msg){.type = MSG_BRING,
                                .as.bring = {.request = i + 1,
                                             .job = span_text("job"),
                                             .error = span_text("job/alice/1/1"),
                                             .name = span_text(names[i]),
                                             .promised = 12}});
        struct msg piece = {.type = MSG_PIECE,
                            .as.piece = {.request = i + 1,
                                         .is_last = 1,
                                         .bytes = span_of(output, i == 2 ? 12 : 6)}};
        step((struct event){
            .type = EVENT_MESSAGE, .conn = 17, .payload = 901 + i, .as.msg = &piece});
    }
    closed(17);
    closed(7);
}

/* With ERRBUS_WRITE_HISTORY set to a folder: the facts so far and the state they give, for
 * tests/corpus/facts, where what a release writes is kept. */
static void write_history(void)
{
    char path[1024];
    const char *folder = getenv("ERRBUS_WRITE_HISTORY");
    if (folder == NULL)
        return;
    (void)snprintf(path, sizeof path, "%s/new.facts", folder); /* cut: it cannot be opened */
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    for (uint32_t i = 0; i < journal_count; i++) {
        const struct record *record = &journal[i];
        const uint8_t head[] = {(uint8_t)(record->count >> 8), (uint8_t)record->count, 0, 0, 0,
                                (uint8_t)record->payload};
        fwrite(head, 1, sizeof head, file);
        fwrite(record->bytes, 1, record->count, file);
    }
    cr_assert_eq(fclose(file), 0);
    (void)snprintf(path, sizeof path, "%s/new.state", folder);
    file = fopen(path, "wb");
    cr_assert_not_null(file);
    fwrite(should.text, 1, should.bytes, file);
    cr_assert_eq(fclose(file), 0);
}

/* Two have places, and meet; a third waits; one fails, and there is another attempt. */
static void run_a_job(void)
{
    job_name = "group";
    ask_from(4);
    struct msg_job_create job = a_job(2, 2);
    job.max_restarts = 1;
    create_job(4, job);
    join_all(3);
    barrier(1, 1, 1, 1);
    barrier(2, 1, 1, 1);
    subscribe(2, 1, "alice/a", "job", 0, 0);
    publish(1, open_topic(1, "alice/a"), 0, 2, 9);
}

/* Of dave, who completes. */
static void guard_and_program(void)
{
    struct msg msg = hello(4, 0);
    msg.as.hello.role = 2;
    msg.as.hello.client = 44;
    message(4, msg);
    msg = hello(24, 0);
    msg.as.hello.guard = tokens[4];
    msg.as.hello.client = 55;
    message(24, msg);
    compact();
    numbers[4] = 0;
    message(4, (struct msg){.type = MSG_COMPLETE, .as.complete = {.number = ++numbers[4]}});
    leave(4, 0);
}

/* bob works for alice: some is done, some given back, some is dead, one given again, one asked for
 * and taken back, one asked for and answered. */
static void work_all_sorts(void)
{
    job_name = "work";
    join(1);
    join(2);
    uint32_t tasks = open_topic(1, "alice/tasks");
    uint32_t replies = open_topic(1, "alice/_replies");
    share(2, 1, "alice/tasks", "team", 16);
    reserve(1, replies, 0);
    reserve(1, replies, 1);
    publish(1, tasks, 0, 5, 1);
    for (reply_to = 0; reply_to < 2; reply_to++)
        publish(1, tasks, 5 + reply_to, 1, 2);
    reply_to = FRAME_NO_REPLY;
    share(2, 2, "alice/tasks", "late", 0); /* it comes to the request when it is none */
    drain(2, 2);
    retract(1, replies, 0);
    done(2, tasks, 0, 1);
    settle(2, tasks, 1, 1, TASK_REJECTED, -1, "");
    settle(2, tasks, 2, 1, TASK_REJECTED, -1, "");
    settle(2, tasks, 3, 1, TASK_REJECTED, 0, "");
    settle(2, tasks, 4, 1, TASK_REJECTED, 60000, "");
    settle(2, tasks, 3, 2, TASK_REJECTED, 0, "");
    ask_from(6);
    ask_letters(6, "team", 2, 0);
    ask_letters(6, "team", 3, 1);
    numbered(2,
             (struct msg){
                 .type = MSG_TASK, /* it waits for a reply that does not come */
                 .as.task = {
                     .after = frames[2] + 1, .sub = 1, .topic = tasks, .seq = 6, .delivery = 1}});
    compact();
    closed(2);
}

/* All that is written and read, by a durable name whose party is away meanwhile. */
static void flow_of_all_sorts(uint32_t a)
{
    subscribe(2, 1, "alice/#", "deep", 0, 0);
    closed(2);
    write_all_sorts(a);
    read_all_sorts(a);
}

Test(core_replay, gives_the_same_state_for_every_kind_of_fact)
{
    options.attachment_bytes_max = 10;
    options.attachments_max = 3;
    restart();
    options.parties_max = 4;
    options.topic_keep_slots = 2;
    restart();
    join(1);
    join(2);
    tap(5);
    uint32_t a = open_topic(1, "alice/a");
    flow_of_all_sorts(a);
    closed(1);
    pass_ms(2000);
    join(1);
    subscribe(2, 1, "alice/b", "", 0, 0); /* two ends are due, sent, and taken */
    uint64_t bytes = bytes_sent(12, 1);
    cr_assert_gt(bytes, 0);
    leave(1, 0);
    cr_assert_gt(bytes_sent(12, 1), 0);
    taken(2, 1, bytes + bytes_sent(12, 1));
    attach_and_forget();
    locate(2, "node-9", 9);
    forget_a_party();
    write_history();
    compact();
    closed(2);
    pass_ms(1100); /* nobody is left: a verdict, and whoever comes behind it begins a new one */
    struct msg named = hello(2, 0);
    named.as.hello.run = span_text("night");
    named.as.hello.client = 22;
    message(2, named);
    closed(2);
    pass_ms(1100);
    join(2);
    pass_ms(60000); /* all fall silent: a verdict, and whoever comes behind it begins a new one */
    join(1);
    guard_and_program();
    pass_ms(5000);
    leave(1, 0);
    work_all_sorts();
    compact();
    closed(1);
    pass_ms(2000);
    run_a_job();
    compact();
    break_down(1);
    break_down(2);
    break_down(3);
    pass_ms(3000);
    compact();
    for (unsigned type = 1; type < FACT_TYPE_COUNT; type++)
        cr_expect(fact_name((enum fact_type)type) == NULL || was_told[type] ||
                      is_of_short_memory(type),
                  "no %s was told", fact_name((enum fact_type)type));
}

/* ---- jobs that were created ------------------------------------------------------------------ */

static void make_a_job(uint64_t min, uint64_t max, int64_t window_ms, int64_t deadline_ms)
{
    struct msg_job_create job = a_job(min, max);
    job.join_window_ms = window_ms;
    job.max_restarts = 1;
    job.deadline_ms = deadline_ms;
    make_job(job);
}

/* The join timeout is kept, and begins anew. */
Test(core_replay, waits_for_parties_as_long_as_the_job_says)
{
    make_job(a_job_with_timeout(2, 2));
    join(1);
    pass_ms(600);
    crash(1000);
    compact();
    resume(1, tokens[1], 0);
    pass_ms(999);
    forget();
    ask_from(6);
    show_job(6);
    EXPECT("6 < member -1 alice/1 scheduling\n6 < gathering, attempt 1, epoch 0 of 0\n");
    pass_ms(1);
    forget();
    show_job(6);
    EXPECT("6 < failed, attempt 1, epoch 0 of 0 (deadline of )\n");
}

Test(core_replay, keeps_places_and_barriers_that_were_passed)
{
    make_a_job(2, 2, 3000, -1);
    join_all(3);
    barrier(1, 1, 1, 1);
    barrier(2, 1, 1, 1);
    barrier(1, 1, 2, 1);
    crash(1000);
    compact();
    resume(2, tokens[2], 0);
    EXPECT("2 < welcome incarnation 1, resumed\n2 < attached\n"
           "2 < epoch 1: rank 1 of 2, attempt 1\n");
    resume(1, tokens[1], 0);
    resume(3, tokens[3], 0);
    forget();
    barrier(2, 1, 1, 1); /* its answer was lost */
    EXPECT("2 < barrier 1/1: 0 \n");
    barrier(2, 1, 2, 1);
    EXPECT(""); /* alice was there, and has to say so again */
    barrier(1, 1, 2, 1);
    EXPECT("1 < barrier 1/2: 0 \n2 < barrier 1/2: 0 \n");
    leave(1, 0);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n3 < epoch 2: rank 0 of 2, attempt 1\n"
           "2 < epoch 2: rank 1 of 2, attempt 1\n");
}

Test(core_replay, goes_on_waiting_for_who_is_missing)
{
    make_a_job(2, 2, 3000, -1);
    join(1);
    join(2);
    leave(1, 0);
    crash(60000);
    resume(2, tokens[2], 0);
    forget();
    pass_ms(2000);
    beat(2);
    pass_ms(999);
    forget();
    ask_from(5);
    show_job(5);
    EXPECT("5 < member 1 bob/1 running\n5 < short, attempt 1, epoch 1 of 2\n");
    pass_ms(1);
    show_job(5);
    EXPECT("2 < verdict 2 (party_left of ) x0, over\n"
           "12 dropped\n5 < failed, attempt 1, epoch 1 of 0 (party_left of )\n");
    crash(100);
    ask_from(5);
    say_hello(1);
    EXPECT("1 < refused 12 errbus.job_over\n1 dropped\n");
}

Test(core_replay, goes_on_pausing_before_another_attempt)
{
    make_a_job(2, 2, 0, -1);
    join(1);
    join(2);
    break_down(1);
    pass_ms(0);
    join(1);
    crash(10);
    resume(1, tokens[1], 0);
    join(2);
    pass_ms(2 * DEFAULT_PAUSE_MS);
    EXPECT("1 < epoch 2: rank 0 of 2, attempt 2\n2 < epoch 2: rank 1 of 2, attempt 2\n");
}

/* By the newest event, whether it comes as it was told or in a snapshot. */
Test(core_replay, tells_how_far_the_clocks_had_come)
{
    crash(0);
    cr_expect_eq(clocks_seen.now_ns, 0, "of nothing it tells nothing");
    join(1);
    now_ns += 70 * MS;
    join(2);
    int64_t told_ns = now_ns;
    now_ns += 500 * MS;
    beat(1);
    crash(1000);
    cr_expect_eq(clocks_seen.now_ns, told_ns);
    cr_expect_eq(clocks_seen.wall_ns, told_ns + wall_ahead_ns);
    compact();
    crash(0);
    cr_expect_eq(clocks_seen.now_ns, told_ns);
    cr_expect_eq(clocks_seen.wall_ns, told_ns + wall_ahead_ns);
}

Test(core_replay, counts_a_job_s_deadline_by_the_wall_clock)
{
    make_a_job(1, 1, 0, 90000);
    join(1);
    crash(60000);
    resume(1, tokens[1], 0);
    beat_on(29, 1000, (conn_id[]){1, 0});
    forget();
    pass_ms(1000);
    EXPECT("1 < verdict 2 (deadline of ) x0, over\n"
           "11 dropped\n");
}

/* ---- going on -------------------------------------------------------------------------------- */

/* Alice promises what bob follows. */
static uint32_t promise_to_bob(void)
{
    join(1);
    join(2);
    uint32_t a = open_topic(1, "alice/a");
    subscribe(2, 1, "alice/a", "", 0, 0);
    reserve(1, a, 0);
    return a;
}

Test(core_replay, lets_sessions_go_on_where_they_were)
{
    uint32_t a = promise_to_bob();
    publish(1, a, 1, 2, 5);
    closed(1);
    crash(100000);
    EXPECT("");
    pass_ms(900); /* its grace would be over soon, but the broker was away, too */
    pass_ms(8000);
    EXPECT("");
    resume(1, tokens[1], 0);
    EXPECT("1 < welcome incarnation 1, resumed\n1 < attached\n1 < credit\n1 < accepted 3 0\n");
    resume(2, tokens[2], 0);
    EXPECT("2 < welcome incarnation 1, resumed\n2 < attached\n2 < accepted 0 1\n");
    commit(1, a, 0, 6);
    EXPECT("1 < accepted 4 0\n12 < sub 1 payload 6 x1\n12 < sub 1 payload 5 x1\n");
}

Test(core_replay, loses_who_does_not_come_back_in_time)
{
    (void)promise_to_bob();
    crash(50);
    resume(2, tokens[2], 0);
    forget();
    beat_on(9, 1000, (conn_id[]){2, 0});
    forget();
    pass_ms(DEFAULT_RESUME_MS - 9000 - 1);
    EXPECT("");
    pass_ms(1);
    EXPECT("12 < sub 1 error #0 (party_lost of alice)\n12 < sub 1 end #1 (party_lost of alice)\n");
}

/* ---- a welcome that was lost with the broker ------------------------------------------------- */

/* The broker notes that a party joined, and is killed before the party is told.  The client greets
 * again: with the same client id it is the same incarnation, by the facts and by a snapshot. */
static void greet_around_a_crash(struct msg greeting, bool is_by_snapshot)
{
    greeting.as.hello.client = 77;
    greeting.as.hello.dial = 1;
    message(1, greeting);
    uint64_t token = tokens[1];
    if (is_by_snapshot)
        compact();
    crash(100);
    tap(5);
    forget();
    greeting.as.hello.dial = 2;
    message(21, greeting);
    EXPECT("21 < welcome incarnation 1\n");
    cr_expect_eq(tokens[21], token);
}

Test(core_replay, knows_a_client_that_was_not_welcomed_yet)
{
    for (int is_by_snapshot = 0; is_by_snapshot < 2; is_by_snapshot++) {
        greet_around_a_crash(hello(1, 0), is_by_snapshot);
        restart();
    }
}

Test(core_replay, knows_a_guard_that_was_not_welcomed_yet)
{
    for (int is_by_snapshot = 0; is_by_snapshot < 2; is_by_snapshot++) {
        struct msg greeting = hello(1, 0);
        greeting.as.hello.role = 2; /* a guard */
        greet_around_a_crash(greeting, is_by_snapshot);
        restart();
    }
}

Test(core_replay, knows_a_program_that_was_not_welcomed_yet)
{
    for (int is_by_snapshot = 0; is_by_snapshot < 2; is_by_snapshot++) {
        struct msg guard = hello(4, 0);
        guard.as.hello.role = 2; /* a guard */
        guard.as.hello.party = span_text("alice");
        message(4, guard);
        struct msg greeting = hello(1, 0);
        greeting.as.hello.guard = tokens[4];
        greet_around_a_crash(greeting, is_by_snapshot);
        restart();
    }
}

/* Another client of the name is another incarnation: the one before it is replaced. */
Test(core_replay, takes_no_other_client_for_one_that_was_not_welcomed_yet)
{
    struct msg greeting = hello(1, 0);
    greeting.as.hello.client = 77;
    message(1, greeting);
    crash(100);
    greeting.as.hello.client = 78;
    forget();
    message(21, greeting);
    EXPECT("21 < welcome incarnation 2\n");
}

Test(core_replay, skips_what_came_before_and_asks_for_nothing_twice)
{
    uint32_t a = open_by_alice();
    publish(1, a, 0, 3, 5);
    subscribe(1, 1, "alice/a", "", 0, 0);
    crash(0);
    resume(1, tokens[1], 0);
    EXPECT("1 < welcome incarnation 1, resumed\n1 < attached\n1 < credit\n1 < accepted 3 1\n"
           "11 < sub 1 payload 5 x1\n");
    frames[1] = 0; /* sent again from the beginning, and two more */
    publish(1, a, 0, 5, 6);
    EXPECT("1 < accepted 5 1\n11 < sub 1 payload 6 part 3 x2\n");
}

Test(core_replay, settles_what_waited_for_its_data_when_that_comes_after_all)
{
    uint32_t a = open_for_bob();
    break_down_after(1, 1);
    crash(0);
    resume(2, tokens[2], 0);
    resume(1, tokens[1], 0);
    forget();
    reserve(1, a, 0);
    EXPECT("1 < over 13\n1 dropped\n11 dropped\n"
           "12 < sub 1 error #0 (application of alice)\n"
           "12 < sub 1 end #1 (application of alice)\n");
}

/* It said why it fails, and did not come back: that is why it failed. */
Test(core_replay, keeps_the_reason_of_who_failed_and_was_lost)
{
    uint32_t a = open_for_bob();
    reserve(1, a, 0);
    break_down_after(1, 2);
    crash(0);
    resume(2, tokens[2], 0);
    forget();
    pass_ms(9000);
    beat(2);
    forget();
    pass_ms(1000);
    EXPECT("12 < sub 1 error #0 (application of alice)\n"
           "12 < sub 1 end #1 (application of alice)\n");
}

Test(core_replay, says_refusals_and_yes_again)
{
    uint32_t a = open_by_alice();
    reserve(1, a, 0);
    retract(1, a, 0);
    commit(1, a, 0, 7);
    EXPECT(
        "1 < accepted 1 0\n1 < result 0\n1 < accepted 1 1\n1 < refusal #0 (application of alice)\n"
        "1 < accepted 2 1\n");
    crash(0);
    resume(1, tokens[1], 0);
    EXPECT("1 < welcome incarnation 1, resumed\n1 < refusal #0 (application of alice)\n"
           "1 < attached\n1 < credit\n1 < accepted 2 1\n");
    numbers[1] = 0;
    retract(1, a, 0);
    EXPECT("1 < result 0\n");
}

Test(core_replay, seals_every_outcome)
{
    uint32_t a = open_by_alice();
    publish(1, a, 0, 1, 5);
    crash(0);
    resume(1, tokens[1], 0);
    forget();
    retract(1, a, 0);
    EXPECT("1 < result 10\n1 < accepted 1 1\n");
}

Test(core_replay, fences_the_dead_and_knows_other_brokers)
{
    join(1);
    leave(1, 0);
    uint64_t token = tokens[1];
    crash(0);
    message(1, hello(1, token));
    EXPECT("1 < refused 11 errbus.fenced\n1 dropped\n");
    say_hello(1);
    EXPECT("1 < welcome incarnation 2\n");
    options.broker += 1; /* without a journal it is another one */
    restart();
    options.broker -= 1;
    message(2, hello(2, token));
    EXPECT("2 < refused 7 errbus.session\n2 dropped\n");
}

/* No two errors have one id, whether or not a fact spoke of the first. */
Test(core_replay, never_gives_a_number_of_an_error_twice)
{
    join(1);
    subscribe(1, 1, "#/x", "", 0, 0);
    struct span first = effects.msgs[0].as.subscribed.error;
    struct error_record records[LIMIT_ERROR_RECORDS];
    uint32_t count = 0;
    char id[64] = "";
    cr_assert_eq(error_decode(first, records, LIMIT_ERROR_RECORDS, &count), WIRE_OK);
    cr_assert_lt(records[0].id.bytes, sizeof id);
    memcpy(id, records[0].id.data, records[0].id.bytes);
    crash(0);
    resume(1, tokens[1], 0);
    subscribe(1, 2, "#/x", "", 0, 0);
    struct span second = effects.msgs[0].as.subscribed.error;
    cr_assert_eq(error_decode(second, records, LIMIT_ERROR_RECORDS, &count), WIRE_OK);
    cr_assert_not(span_equal(records[0].id, span_text(id)));
}

/* ---- deadlines ------------------------------------------------------------------------------- */

/* alice beats, so that nothing else happens. */
static void beat_for_ms(int64_t ms)
{
    while (ms > 0) {
        int64_t part_ms = ms < 2000 ? ms : 2000;
        beat(1);
        beat(3);
        EXPECT("1 < echo\n3 < echo\n");
        pass_ms(part_ms);
        ms -= part_ms;
    }
}

Test(core_replay, keeps_deadlines_and_gives_those_that_passed_the_resume_window)
{
    uint32_t a = open_by_alice();
    promise(1, a, 0, 1000);  /* passes while the broker is away */
    promise(1, a, 1, 15000); /* passes 14 s after its return */
    crash(1000);
    resume(1, tokens[1], 0);
    tap(3);
    forget();
    beat_for_ms(DEFAULT_RESUME_MS - 1);
    EXPECT("");
    pass_ms(1);
    EXPECT("3 < slot.failed alice/1 alice/a#0 x1 (deadline of alice)\n");
    beat_for_ms(14000 - DEFAULT_RESUME_MS - 1);
    EXPECT("");
    pass_ms(1);
    EXPECT("3 < slot.failed alice/1 alice/a#1 x1 (deadline of alice)\n");
}

/* It passes while a broker is away that has this resume window. */
static void miss_a_deadline(int64_t resume_ms)
{
    options.resume_ms = resume_ms;
    restart();
    promise(1, open_by_alice(), 0, 1000);
    crash(1000);
    resume(1, tokens[1], 0);
}

/* One that passed fires at the end of the window: not a millisecond before it. */
Test(core_replay, keeps_to_the_resume_window_it_is_told)
{
    static const int64_t windows_ms[] = {1, 2, 900, DEFAULT_RESUME_MS + 1, 60000};
    for (size_t i = 0; i < sizeof windows_ms / sizeof windows_ms[0]; i++) {
        miss_a_deadline(windows_ms[i]);
        tap(3);
        forget();
        beat_for_ms(windows_ms[i] - 1);
        EXPECT("");
        pass_ms(1);
        EXPECT("3 < slot.failed alice/1 alice/a#0 x1 (deadline of alice)\n");
    }
}

/* Without one, what passed meanwhile fires at once. */
Test(core_replay, may_have_no_resume_window)
{
    miss_a_deadline(0);
    forget();
    pass_ms(0);
    await_slot(1, 1, "alice/a", 0);
    cr_expect_not_null(strstr(said, "error #0 (deadline of alice)"), "%s", said);
}

/* However the wall clock is set, no slot waits for longer than it was promised for. */
Test(core_replay, takes_no_deadline_for_longer_than_it_was)
{
    uint32_t a = open_by_alice();
    wall_ahead_ns = 86400000 * MS;
    promise(1, a, 0, 20000);
    wall_ahead_ns = 0;
    crash(1000);
    resume(1, tokens[1], 0);
    tap(3);
    forget();
    beat_for_ms(19999);
    EXPECT("");
    pass_ms(1);
    EXPECT("3 < slot.failed alice/1 alice/a#0 x1 (deadline of alice)\n");
}

/* ---- what is refused ------------------------------------------------------------------------- */

#define REFUSED(upper, lower, words, ...)                                                          \
    {                                                                                              \
        words,                                                                                     \
        {                                                                                          \
            .type = FACT_##upper, .as.lower = { __VA_ARGS__ }                                      \
        }                                                                                          \
    }
static const struct {
    const char *words;
    struct fact fact;
} refused[] = {
    REFUSED(FAILURE_MADE, failure_made, "there already", .failure = 1, .error = {"x", 1}),
    REFUSED(FAILURE_MADE, failure_made, "cannot be read", .failure = 900, .error = {"x", 1}),
    REFUSED(FAILURE_FORGOTTEN, failure_forgotten, "an error", .failure = 1),
    REFUSED(FAILURE_FORGOTTEN, failure_forgotten, "an error", .failure = 900),
    REFUSED(JOB_BEGUN, job_begun, "there already", .job = 1, .name = {"other", 5}),
    REFUSED(JOB_BEGUN, job_begun, "there already", .job = 9, .name = {"job", 3}),
    REFUSED(JOB_ENDED, job_ended, "a job", .job = 9),
    REFUSED(JOB_ENDED, job_ended, "does not follow", .job = 1),
    REFUSED(PARTY_KNOWN, party_known, "a job", .party = 9, .job = 9, .name = {"x", 1}),
    REFUSED(PARTY_KNOWN, party_known, "there already", .party = 9, .job = 1, .name = {"alice", 5}),
    REFUSED(PARTY_FORGOTTEN, party_forgotten, "a party", .party = 9),
    REFUSED(PARTY_FORGOTTEN, party_forgotten, "does not follow", .party = 1),
    REFUSED(PARTY_JOINED, party_joined, "a party", .party = 9),
    REFUSED(PARTY_JOINED, party_joined, "does not follow", .party = 1, .incarnation = 2),
    REFUSED(PARTY_ENDED, party_ended, "a party", .party = 9),
    REFUSED(PARTY_ENDED, party_ended, "does not follow", .party = 1, .incarnation = 2, .state = 5),
    REFUSED(PARTY_ENDED, party_ended, "does not follow", .party = 1, .incarnation = 1, .state = 1),
    REFUSED(PARTY_ENDED, party_ended, "an error", .party = 1, .incarnation = 1, .state = 5,
            .failure = 900),
    REFUSED(PAST_END, past_end, "a party", .party = 9, .first = 1, .incarnation = 1),
    REFUSED(PAST_END, past_end, "does not follow", .party = 1, .first = 1, .incarnation = 1),
    REFUSED(SESSION_ENDED, session_ended, "a session", .party = 9),
    REFUSED(SESSION_ENDED, session_ended, "does not follow", .party = 1),
    REFUSED(GUARD_JOINED, guard_joined, "a party", .party = 9),
    REFUSED(GUARD_JOINED, guard_joined, "does not follow", .party = 1, .incarnation = 2),
    REFUSED(PROGRAM_JOINED, program_joined, "a party", .party = 9),
    REFUSED(PROGRAM_JOINED, program_joined, "does not follow", .party = 1, .program = 1),
    REFUSED(LOCATED, located, "a party", .party = 9),
    REFUSED(LOCATED, located, "does not follow", .party = 1, .is_guard = 1),
    REFUSED(GUARD_ENDED, guard_ended, "a party", .party = 9),
    REFUSED(GUARD_ENDED, guard_ended, "does not follow", .party = 1),
    REFUSED(ERROR_NUMBERS, error_numbers, "a party", .party = 9),
    REFUSED(NUMBERS, numbers, "a session", .party = 9),
    REFUSED(PROGRESS_PROMISED, progress_promised, "a session", .party = 9),
    REFUSED(PARKED, parked, "a session", .party = 9),
    REFUSED(PARKED, parked, "an error", .party = 1, .type = MSG_FAIL, .number = 9),
    REFUSED(PARKED, parked, "waits for nothing", .party = 1, .type = MSG_BEAT, .number = 9),
    REFUSED(TOPIC_KNOWN, topic_known, "a party", .topic = 9, .party = 9, .name = {"x/a", 3}),
    REFUSED(TOPIC_KNOWN, topic_known, "there already", .topic = 1, .party = 1, .name = {"x/a", 3}),
    REFUSED(TOPIC_FORGOTTEN, topic_forgotten, "a topic", .topic = 9),
    REFUSED(TOPIC_FORGOTTEN, topic_forgotten, "does not follow", .topic = 1),
    REFUSED(TOPIC_BEGUN, topic_begun, "does not follow", .topic = 1, .seq = 7),
    REFUSED(TRIMMED, trimmed, "does not follow", .topic = 1, .first_seq = 2),
    REFUSED(KEPT, kept, "no bytes", .topic = 1, .seq = 1, .count = 1, .frame_count = 1),
    REFUSED(RESERVED, reserved, "does not follow", .topic = 1, .seq = 7),
    REFUSED(RESERVED, reserved, "does not follow", .topic = 1, .seq = 1, .deadline_ms = INT64_MAX),
    REFUSED(REJECTED, rejected, "an error", .topic = 1, .seq = 1, .count = 1),
    REFUSED(REJECTED, rejected, "does not follow", .topic = 1, .seq = 1, .count = 0, .failure = 1),
    REFUSED(COMMITTED, committed, "no bytes", .topic = 1, .seq = 0),
    REFUSED(COMMITTED, committed, "not open", .topic = 1, .seq = 1),
    REFUSED(FAILED, failed, "not open", .topic = 1, .seq = 1, .failure = 1),
    REFUSED(FAILED, failed, "an error", .topic = 1, .seq = 0, .failure = 900),
    REFUSED(RETRACTED, retracted, "does not follow", .topic = 1, .seq = 0, .failure = 1),
    REFUSED(CHUNK_ADDED, chunk_added, "no bytes", .topic = 1, .seq = 0),
    REFUSED(WHOLE, whole, "does not follow", .topic = 1, .seq = 0),
    REFUSED(WHOLE, whole, "not open", .topic = 1, .seq = 1),
    REFUSED(REFUSED, refused, "a session", .party = 9, .number = 1, .failure = 1),
    REFUSED(REFUSED, refused, "does not follow", .party = 1, .number = 0, .failure = 1),
    REFUSED(UPLOADED, uploaded, "a session", .party = 9),
    REFUSED(UPLOAD_REFUSED, upload_refused, "a session", .party = 9),
    REFUSED(GRANTED, granted, "a session", .party = 9),
    REFUSED(SUB_OPENED, sub_opened, "a party", .sub = 9, .party = 9, .number = 5),
    REFUSED(SUB_OPENED, sub_opened, "there already", .sub = 1, .party = 1, .number = 5),
    REFUSED(SUB_OPENED, sub_opened, "there already", .sub = 9, .party = 1, .number = 1),
    REFUSED(SUB_OPENED, sub_opened, "does not follow", .sub = 9, .party = 1),
    REFUSED(PATTERN_ADDED, pattern_added, "a subscription", .sub = 9, .pattern = {"#", 1}),
    REFUSED(WATCHED, watched, "a party", .sub = 1, .party = 9),
    REFUSED(MEMBER_DRAINED, member_drained, "a subscription", .group = 1, .sub = 1),
    REFUSED(MISSED, missed, "a topic", .sub = 1, .topic = 9, .count = 1),
    REFUSED(MISSED, missed, "does not follow", .sub = 1, .topic = 1),
    REFUSED(WATCHED, watched, "there already", .sub = 1, .party = 1),
    REFUSED(FOLLOWED, followed, "a topic", .sub = 1, .topic = 9),
    REFUSED(FOLLOWED, followed, "there already", .sub = 1, .topic = 1),
    REFUSED(SUB_ATTACHED, sub_attached, "there already", .sub = 1, .number = 5),
    REFUSED(SUB_DETACHED, sub_detached, "does not follow", .sub = 1),
    REFUSED(ACKNOWLEDGED, acknowledged, "a topic", .sub = 1, .topic = 9),
    REFUSED(END_DUE, end_due, "a party", .sub = 1, .party = 9),
    REFUSED(END_DUE, end_due, "does not follow", .sub = 1, .party = 1, .incarnation = 1,
            .first = 2),
    REFUSED(END_TOLD, end_told, "does not follow", .sub = 1),
    REFUSED(RUN_NAMED, run_named, "a job", .job = 9),
    REFUSED(TOOK_PART, took_part, "a party", .party = 9, .attempt = 1),
    REFUSED(TOOK_PART, took_part, "does not follow", .party = 1, .attempt = 1),
    REFUSED(EVENT, event, "a job", .job = 9, .id = 1, .name = {"x", 1}),
    REFUSED(EVENT, event, "does not follow", .job = 1, .id = 1, .name = {"x", 1}),
};

/* alice writes topic 1, whose slot 0 is open, and reads it with subscription 1. */
Test(core_replay, refuses_in_words_what_does_not_follow)
{
    uint8_t record[4096];
    size_t bytes;
    join(1);
    cr_assert_eq(open_topic(1, "alice/a"), 1);
    subscribe(1, 1, "alice/a", "", 0, 0);
    reserve(1, 1, 0);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const char *name = fact_name(refused[i].fact.type);
        cr_assert_eq(fact_encode(&refused[i].fact, record, sizeof record, &bytes), WIRE_OK, "%s",
                     name);
        effects_clear(&shadow_effects);
        const char *words = core_replay(shadow, span_of(record, bytes), 0, &shadow_effects);
        cr_assert_not_null(words, "row %zu: %s was taken", i, name);
        cr_assert_not_null(strstr(words, refused[i].words), "row %zu: %s: %s", i, name, words);
    }
    expect_same(); /* and nothing of it has changed anything */
}

/* The second end took the place of the first, whose error nobody gave back. */
Test(core_replay, refuses_a_second_end_of_a_party)
{
    uint8_t record[200];
    size_t bytes;
    join(1);
    join(2);
    leave(1, 0);
    struct fact again = {.type = FACT_PARTY_ENDED,
                         .as.party_ended = {.party = 1, .incarnation = 2, .state = PARTY_LOST}};
    cr_assert_eq(fact_encode(&again, record, sizeof record, &bytes), WIRE_OK);
    effects_clear(&shadow_effects);
    const char *words = core_replay(shadow, span_of(record, bytes), 0, &shadow_effects);
    cr_assert_not_null(words);
    cr_expect_not_null(strstr(words, "does not follow"), "%s", words);
    expect_same();
}

Test(core_replay, refuses_in_words_what_is_no_fact)
{
    static const uint8_t unknown[] = {0x92, 0x7f, 1};
    static const uint8_t cut[] = {0x93, FACT_TRIMMED, 7};
    effects_clear(&shadow_effects);
    cr_expect_str_eq(core_replay(shadow, span_of(unknown, sizeof unknown), 0, &shadow_effects),
                     "a newer version of the broker wrote it");
    cr_expect_str_eq(core_replay(shadow, span_of(cut, sizeof cut), 0, &shadow_effects),
                     wire_strerror(WIRE_ITEMS));
}

/* A topic for which there was no memory in the end: its number may be used again. */
Test(core_replay, forgets_a_topic)
{
    uint8_t record[200];
    size_t bytes;
    const struct fact facts[] = {
        {.type = FACT_TOPIC_KNOWN,
         .as.topic_known = {.topic = 1, .party = 1, .name = {"alice/x", 7}}},
        {.type = FACT_TOPIC_FORGOTTEN, .as.topic_forgotten = {.topic = 1}},
    };
    join(1);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(fact_encode(&facts[i], record, sizeof record, &bytes), WIRE_OK);
        shadow_tell(span_of(record, bytes), 0);
    }
    expect_same();
    cr_assert_eq(open_topic(1, "alice/y"), 1);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static struct memory heap;
static uint64_t calls_left;

static void *resize_or_fail(struct memory *self, void *block, size_t old_bytes, size_t new_bytes)
{
    if (new_bytes > old_bytes && calls_left-- == 0) {
        calls_left = 0;
        return NULL;
    }
    return heap.resize(self, block, old_bytes, new_bytes);
}

/* Replays all with the n-th allocation failing; whether it was refused. */
static bool replay_short(uint64_t n)
{
    struct memory scarce;
    struct effects unheard;
    const char *wrong = NULL;
    memory_heap_init(&heap, UINT64_MAX);
    scarce = heap;
    effects_init(&unheard, &memory);
    struct core *poor = core_new(&scarce, &options, now_ns);
    cr_assert_not_null(poor);
    scarce.resize = resize_or_fail;
    calls_left = n;
    for (uint32_t i = 0; i < journal_count && wrong == NULL; i++) {
        effects_clear(&unheard);
        wrong = core_replay(poor, span_of(journal[i].bytes, journal[i].count), journal[i].payload,
                            &unheard);
    }
    calls_left = UINT64_MAX;
    if (wrong != NULL)
        cr_assert_not_null(strstr(wrong, "memory"), "%s", wrong);
    core_free(&poor);
    effects_fini(&unheard);
    cr_assert_eq(scarce.bytes_used, 0, "after failing allocation %llu", (unsigned long long)n);
    return wrong != NULL;
}

Test(core_replay, says_so_when_memory_is_short)
{
    join(1);
    join(2);
    uint32_t a = open_topic(1, "alice/a");
    flow_of_all_sorts(a);
    guard_and_program();
    uint64_t n = 0;
    while (replay_short(n))
        n += 1;
    cr_assert_gt(n, 20);
}

/* With this much memory left, alice opens a topic that bob's fresh subscription wants. */
static void open_short(uint32_t number, uint64_t bytes_left)
{
    char name[32];
    (void)snprintf(name, sizeof name, "alice/t%u", number); /* fits */
    subscribe(2, number, name, "", 0, 0);
    memory.bytes_max = memory.bytes_used + bytes_left;
    (void)open_topic(1, name);
    memory.bytes_max = UINT64_MAX;
}

/* bob subscribes to what there is, with this much memory left. */
static void subscribe_short(uint32_t number, uint64_t bytes_left)
{
    memory.bytes_max = memory.bytes_used + bytes_left;
    subscribe(2, number, "alice/#", number % 2 == 0 ? "a name" : "", 0, 0);
    memory.bytes_max = UINT64_MAX;
    numbered(
        2, (struct msg){.type = MSG_UNSUBSCRIBE, .as.unsubscribe = {.sub = number, .is_drop = 1}});
}

/* What was begun and could not be done is a fact, too, and so is that it was undone. */
Test(core_replay, knows_of_what_failed_for_want_of_memory)
{
    uint32_t number = 1;
    join(1);
    join(2);
    open_short(number++, UINT32_MAX); /* tables are made with the first of all */
    for (uint64_t left = 0; left < 400; left += 8)
        open_short(number++, left);
    cr_assert(was_told[FACT_TOPIC_FORGOTTEN]);
    was_told[FACT_SUB_CLOSED] = false;
    for (uint64_t left = 0; left < 4000; left += 8)
        subscribe_short(number++, left);
    cr_assert(was_told[FACT_SUB_CLOSED]);
    forget();
}

/* The stand-in for errors that memory was short for has no time of its own: one core begins an
 * hour before the other. */
Test(core_replay, stands_in_with_the_same_error_in_every_core)
{
    static uint8_t first[1024];
    size_t first_bytes = 0;
    memory_heap_init(&heap, UINT64_MAX);
    for (int i = 0; i < 2; i++) {
        struct core *made = core_new(&heap, &options, 1 + i * 3600 * INT64_C(1000000000));
        cr_assert_not_null(made);
        struct span error = failure_span(pool_find(&made->failures, 1));
        cr_assert_leq(error.bytes, sizeof first);
        if (i == 0)
            memcpy(first, error.data, first_bytes = error.bytes);
        cr_expect(span_equal(error, span_of(first, first_bytes)));
        core_free(&made);
    }
}

Test(core_replay, is_made_with_all_its_memory_or_not_at_all)
{
    uint64_t n = 0;
    for (struct core *made = NULL; made == NULL; n++) {
        struct memory scarce;
        memory_heap_init(&heap, UINT64_MAX);
        scarce = heap;
        scarce.resize = resize_or_fail;
        calls_left = n;
        made = core_new(&scarce, &options, now_ns);
        calls_left = UINT64_MAX;
        if (made != NULL) {
            core_free(&made);
            cr_assert_eq(scarce.bytes_used, 0);
            break;
        }
        cr_assert_eq(scarce.bytes_used, 0, "after failing allocation %llu", (unsigned long long)n);
    }
    cr_assert_gt(n, 5);
}
