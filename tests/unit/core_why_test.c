/* SPDX-License-Identifier: MPL-2.0 */
/* core_why_test.c -- who waits for whom: an edge for each kind of wait, and cycles. */
#include "tests/unit/core_driver.h"

TestSuite(core_why, .init = init, .fini = fini);

enum { OBSERVER = 9, TAP = 8 };

static void ask_slot(const char *topic, uint64_t seq)
{
    message(OBSERVER, (struct msg){.type = MSG_WHY,
                                   .as.why = {.request = 4,
                                              .job = span_text(job_name),
                                              .topic = span_text(topic),
                                              .seq = seq}});
}

static void ask(void)
{
    ask_slot("", 0);
}

static void say_waiting(conn_id conn, struct msg_waiting waiting)
{
    message(conn, (struct msg){.type = MSG_WAITING, .as.waiting = waiting});
}

/* A call of the client is blocked in this wait, since a second ago. */
static void block(conn_id conn, const char *topic, uint64_t seq)
{
    await_slot(conn, seq + 1, topic, seq);
    say_waiting(conn,
                (struct msg_waiting){.slots_ms = 1000, .topic = span_text(topic), .seq = seq});
}

static void join_with_observer(conn_id last)
{
    for (conn_id conn = 1; conn <= last; conn++)
        join(conn);
    ask_from(OBSERVER);
}

static void say_progress(conn_id conn, uint64_t next_within_ms, const char *where)
{
    message(conn,
            (struct msg){.type = MSG_PROGRESS, .as.progress = {next_within_ms, span_text(where)}});
}

/* ---- edges ----------------------------------------------------------------------------------- */

Test(core_why, names_who_owes_a_slot_and_where_it_is)
{
    join_with_observer(3);
    uint32_t topic = open_topic(1, "alice/x");
    reserve(1, topic, 0);
    reserve(1, topic, 1);
    say_progress(1, 0, "round 3, batch 17");
    await_slot(2, 1, "alice/x", 0);
    pass_ms(700);
    block(2, "alice/x", 1);
    await_slot(3, 1, "alice/x", 0);
    pass_ms(300);
    forget();
    ask();
    EXPECT("9 < bob: running\n"
           "9 < alice: running owes 2 at 'round 3, batch 17'\n"
           "9 < carol: running\n"
           "9 < bob -> alice: slot x2 alice/x#1 since 300 ms, blocked\n"
           "9 < carol -> alice: slot x1 alice/x#0 since 300 ms\n"
           "9 < why 0 \n");
    publish(1, topic, 2, 1, 5);
    commit(1, topic, 0, 6);
    commit(1, topic, 1, 7);
    forget();
    ask();
    EXPECT("9 < why 0 \n");
}

Test(core_why, names_who_never_promised_a_slot_or_never_came)
{
    join_with_observer(2);
    await_slot(1, 1, "bob/x", 4);
    await_slot(2, 1, "carol/x", 0);
    forget();
    ask();
    EXPECT("9 < alice: running\n"
           "9 < bob: running\n"
           "9 < carol: \n"
           "9 < alice -> bob: unpromised x1 bob/x#4 since 0 ms\n"
           "9 < bob -> carol: unpromised x1 carol/x#0 since 0 ms\n"
           "9 < why 0 \n");
}

Test(core_why, names_who_is_missing_at_a_barrier)
{
    ask_from(OBSERVER);
    create_job(OBSERVER, a_job(3, 3));
    for (conn_id conn = 1; conn <= 3; conn++)
        join(conn);
    barrier(1, 1, 1, 1);
    barrier(2, 1, 1, 1);
    pass_ms(400);
    forget();
    ask();
    EXPECT("9 < barrier job:  x1\n"
           "9 < alice: running\n"
           "9 < bob: running\n"
           "9 < carol: running\n"
           "9 < alice -> barrier job: barrier x1 #1 since 400 ms, blocked\n"
           "9 < bob -> barrier job: barrier x1 #1 since 400 ms, blocked\n"
           "9 < barrier job -> carol: missing x1 #1 since 0 ms, blocked\n"
           "9 < why 0 \n");
    barrier(3, 1, 1, 1);
    forget();
    ask();
    EXPECT("9 < why 0 \n");
}

Test(core_why, takes_a_suspect_member_for_one_that_is_missing)
{
    ask_from(OBSERVER);
    create_job(OBSERVER, a_job(2, 2));
    join(1);
    join(2);
    barrier(1, 1, 1, 1);
    closed(2);
    forget();
    ask();
    EXPECT("9 < barrier job:  x1\n"
           "9 < alice: running\n"
           "9 < bob: grace\n"
           "9 < alice -> barrier job: barrier x1 #1 since 0 ms, blocked\n"
           "9 < barrier job -> bob: missing x1 #1 since 0 ms, blocked\n"
           "9 < why 0 \n");
}

/* More than the window of the topic lies there untaken. */
static uint32_t fill_window(conn_id conn, const char *name)
{
    uint32_t topic = open_topic(conn, name);
    batch_bytes = 64 * 1024;
    for (uint64_t seq = 0; seq < 8; seq++)
        batch(conn, 50,
              (struct event_range){
                  .kind = FRAME_VALUE, .topic = topic, .seq = seq, .value_bytes = 32 * 1024});
    batch_bytes = 4096;
    return topic;
}

/* One value whose frame has so many bytes, in a batch of its own. */
static void publish_bytes(conn_id conn, uint32_t topic, uint64_t seq, uint32_t bytes)
{
    batch_bytes = bytes + BATCH_HEADER_BYTES;
    batch(conn, 50,
          (struct event_range){.kind = FRAME_VALUE,
                               .topic = topic,
                               .seq = seq,
                               .value_bytes = bytes - FRAME_HEADER_BYTES});
    batch_bytes = 4096;
}

static void small_windows(void)
{
    options.topic_window_bytes = 256 * 1024;
    restart();
}

Test(core_why, names_who_holds_credit_back)
{
    small_windows();
    join_with_observer(3);
    subscribe(2, 1, "alice/x", "", 0, 0);
    subscribe(3, 1, "alice/x", "", 0, 1);
    fill_window(1, "alice/x");
    pass_ms(200);
    say_waiting(1, (struct msg_waiting){.room_ms = 500});
    forget();
    ask();
    EXPECT("9 < alice: running\n"
           "9 < bob: running\n"
           "9 < alice -> bob: credit x8 alice/x#0 since 500 ms, blocked\n"
           "9 < why 0 \n");
}

Test(core_why, tells_a_slot_that_is_not_promised_from_one_that_is_owed)
{
    join_with_observer(1);
    uint32_t a = open_topic(1, "alice/a");
    reserve(1, a, 0);
    forget();
    ask_slot("alice/a", 1);
    EXPECT("9 < slot alice/a#1: unpromised\n"
           "9 < alice: running owes 1\n"
           "9 < slot alice/a#1 -> alice: unpromised x1 alice/a#1 since 0 ms, blocked\n"
           "9 < why 0 \n");
}

Test(core_why, names_the_memory_of_the_job_if_it_is_full)
{
    options.job_bytes_max = 1 << 20;
    restart();
    join_with_observer(3);
    uint32_t a = open_topic(1, "alice/a");
    subscribe(3, 1, "alice/a", "", 0, 0);
    subscribe(3, 2, "bob/b", "", 0, 0);
    publish_bytes(1, a, 0, 512 * 1024);
    uint32_t b = open_topic(2, "bob/b"); /* with credit for an eighth of what is left */
    publish_bytes(2, b, 0, 64 * 1024);
    publish_bytes(1, a, 1, 448 * 1024); /* now the job is full */
    say_waiting(2, (struct msg_waiting){.room_ms = 500, .room_topic = span_text("bob/b")});
    forget();
    ask();
    EXPECT("9 < alice: running\n"
           "9 < carol: running\n"
           "9 < bob: running\n"
           "9 < room job:  x0\n"
           "9 < alice -> carol: credit x2 alice/a#0 since 0 ms\n"
           "9 < bob -> carol: credit x1 bob/b#0 since 500 ms, blocked\n"
           "9 < bob -> room job: room x1 bob/b#1 since 500 ms, blocked\n"
           "9 < why 0 \n");
}

Test(core_why, names_a_durable_reader_that_nobody_reads)
{
    small_windows();
    join_with_observer(2);
    subscribe(2, 1, "alice/x", "audit", 0, 0);
    leave(2, 0);
    fill_window(1, "alice/x");
    pass_ms(200);
    forget();
    ask();
    EXPECT("9 < alice: running\n"
           "9 < reader audit:  x8\n"
           "9 < alice -> reader audit: credit x8 alice/x#0 since 200 ms\n"
           "9 < why 0 \n");
}

/* alice requests, and waits for the reply. */
static uint32_t request(uint64_t seq)
{
    uint32_t replies = open_topic(1, "alice/_replies");
    uint32_t jobs = open_topic(1, "alice/jobs");
    reserve(1, replies, seq);
    reply_to = seq;
    publish(1, jobs, seq, 1, 20);
    reply_to = FRAME_NO_REPLY;
    await_slot(1, seq + 1, "alice/_replies", seq);
    return jobs;
}

Test(core_why, names_the_worker_that_owes_a_reply)
{
    join_with_observer(2);
    share(2, 1, "alice/jobs", "workers", 1);
    request(0);
    pass_ms(250);
    forget();
    ask();
    EXPECT("9 < alice: running owes 1\n"
           "9 < bob: running\n"
           "9 < alice -> bob: reply x1 alice/_replies#0 since 250 ms\n"
           "9 < why 0 \n");
}

Test(core_why, names_a_group_whose_members_are_busy)
{
    join_with_observer(3);
    share(2, 1, "alice/jobs", "workers", 1);
    request(0);
    request(1);
    pass_ms(250);
    forget();
    ask();
    EXPECT("9 < alice: running owes 2\n"
           "9 < bob: running\n"
           "9 < group workers:  x1\n"
           "9 < alice -> bob: reply x1 alice/_replies#0 since 250 ms\n"
           "9 < group workers -> bob: busy x1 alice/jobs#0 since 250 ms, blocked\n"
           "9 < alice -> group workers: group x1 alice/_replies#1 since 250 ms\n"
           "9 < why 0 \n");
}

Test(core_why, names_requests_that_no_group_serves)
{
    join_with_observer(1);
    request(0);
    forget();
    ask();
    EXPECT("9 < alice: running owes 1\n"
           "9 < requests alice/jobs:  x0\n"
           "9 < alice -> requests alice/jobs: unserved x1 alice/_replies#0 since 0 ms\n"
           "9 < why 0 \n");
}

Test(core_why, names_a_group_without_a_member)
{
    join_with_observer(2);
    share(2, 1, "alice/jobs", "workers", 1);
    drain(2, 1);
    leave(2, 0);
    request(0);
    pass_ms(100);
    forget();
    ask();
    EXPECT("9 < alice: running owes 1\n"
           "9 < group workers:  x0\n"
           "9 < alice -> group workers: group x1 alice/_replies#0 since 100 ms\n"
           "9 < why 0 \n");
    ask_slot("alice/_replies", 0);
    EXPECT("9 < slot alice/_replies#0: open\n"
           "9 < group workers:  x0\n"
           "9 < alice: running owes 1\n"
           "9 < slot alice/_replies#0 -> group workers: group x1 alice/_replies#0 since 100 ms, "
           "blocked\n"
           "9 < alice -> group workers: group x1 alice/_replies#0 since 100 ms\n"
           "9 < why 0 \n");
}

Test(core_why, names_a_job_whose_parties_have_not_come)
{
    ask_from(OBSERVER);
    create_job(OBSERVER, a_job(3, 3));
    join(1);
    pass_ms(100);
    forget();
    ask();
    EXPECT("9 < job job:  x2\n"
           "9 < alice: scheduling\n"
           "9 < alice -> job job: gather x2 #0 since 100 ms, blocked\n"
           "9 < why 0 \n");
}

Test(core_why, names_who_owes_a_reader_its_next_value)
{
    join_with_observer(3);
    uint32_t topic = open_topic(1, "alice/x");
    subscribe(2, 1, "+/x", "", 0, 0);
    say_waiting(2, (struct msg_waiting){.reads_ms = 500, .sub = 1});
    forget();
    ask();
    EXPECT("9 < bob: running\n"
           "9 < why 0 \n");
    reserve(1, topic, 0);
    forget();
    ask();
    EXPECT("9 < bob: running\n"
           "9 < alice: running owes 1\n"
           "9 < bob -> alice: read x1 alice/x#0 since 500 ms, blocked\n"
           "9 < why 0 \n");
}

Test(core_why, names_who_owes_a_worker_its_next_task)
{
    join_with_observer(2);
    uint32_t topic = open_topic(1, "alice/jobs");
    share(2, 1, "alice/jobs", "workers", 1);
    reserve(1, topic, 0);
    say_waiting(2, (struct msg_waiting){.reads_ms = 500, .sub = 1});
    forget();
    ask();
    EXPECT("9 < bob: running\n"
           "9 < alice: running owes 1\n"
           "9 < bob -> alice: read x1 alice/jobs#0 since 500 ms, blocked\n"
           "9 < why 0 \n");
}

Test(core_why, names_the_job_whose_membership_a_member_waits_for)
{
    ask_from(OBSERVER);
    create_job(OBSERVER, a_job(2, 2));
    join(1);
    join(2);
    say_waiting(1, (struct msg_waiting){.members_ms = 500});
    forget();
    ask();
    EXPECT("9 < alice: running\n"
           "9 < job job:  x0\n"
           "9 < alice -> job job: members x1 #0 since 500 ms, blocked\n"
           "9 < why 0 \n");
}

Test(core_why, names_what_a_slot_needs)
{
    join_with_observer(2);
    uint32_t a = open_topic(1, "alice/a");
    uint32_t b = open_topic(2, "bob/b");
    reserve(1, a, 0);
    pass_ms(100);
    reserve_after(2, b, 0, "alice/a", 0);
    pass_ms(50);
    forget();
    ask_slot("bob/b", 0);
    EXPECT("9 < slot bob/b#0: open\n"
           "9 < bob: running owes 1\n"
           "9 < slot alice/a#0: open\n"
           "9 < alice: running owes 1\n"
           "9 < slot bob/b#0 -> bob: owed x1 bob/b#0 since 50 ms, blocked\n"
           "9 < slot bob/b#0 -> slot alice/a#0: needed x1 alice/a#0 since 50 ms, blocked\n"
           "9 < slot alice/a#0 -> alice: owed x1 alice/a#0 since 150 ms, blocked\n"
           "9 < why 0 \n");
    commit(1, a, 0, 5);
    forget();
    ask_slot("alice/a", 0);
    EXPECT("9 < slot alice/a#0: settled\n9 < why 0 \n");
    ask_slot("alice/nothing", 0);
    EXPECT("9 < why 1 errbus.not_open\n");
}

Test(core_why, knows_no_job_that_only_observers_spoke_of)
{
    ask_from(OBSERVER);
    ask();
    EXPECT("9 < why 1 errbus.no_job\n");
}

Test(core_why, tells_nothing_of_another_job)
{
    join_with_observer(2);
    await_slot(1, 1, "bob/x", 0);
    job_name = "other";
    join(3);
    join(4);
    await_slot(3, 1, "dave/x", 0);
    forget();
    ask();
    EXPECT("9 < carol: running\n"
           "9 < dave: running\n"
           "9 < carol -> dave: unpromised x1 dave/x#0 since 0 ms\n"
           "9 < why 0 \n");
    job_name = "job";
}

/* ---- cycles ---------------------------------------------------------------------------------- */

enum { BEAT_MS = 500 };

/* Time passes, while all who are there beat. */
static void wait_ms(int64_t ms)
{
    while (ms > 0) {
        int64_t now = ms < BEAT_MS ? ms : BEAT_MS;
        pass_ms(now);
        ms -= now;
        size_t before = said_bytes;
        for (conn_id conn = 1; conn <= OBSERVER; conn++)
            if (tokens[conn] != 0)
                message(conn, (struct msg){.type = MSG_BEAT});
        said_bytes = before; /* the echoes add nothing here */
        said[before] = '\0';
    }
}

static void two_looks(void)
{
    wait_ms((int64_t)2 * LIMIT_WHY_LOOK_MS + 1);
}

static bool is_told(void)
{
    return strstr(said, "job.deadlock") != NULL;
}

Test(core_why, tells_a_cycle_of_two_once_with_a_waiter_outside)
{
    join_with_observer(3);
    tap(TAP);
    block(1, "bob/x", 0);
    block(2, "alice/x", 0);
    block(3, "alice/x", 0);
    forget();
    wait_ms(LIMIT_WHY_LOOK_MS + 1);
    EXPECT("");
    wait_ms(LIMIT_WHY_LOOK_MS);
    EXPECT("8 < job.deadlock alice/1 bob/x#0 x2\n");
    cr_expect_str_eq(logged, "job.deadlock: alice -> bob -> alice: each waits for the next");
    wait_ms((int64_t)10 * LIMIT_WHY_LOOK_MS);
    cr_expect(!is_told(), "%s", said);
    forget();
}

Test(core_why, tells_a_cycle_of_three)
{
    join_with_observer(3);
    tap(TAP);
    block(1, "bob/x", 0);
    block(2, "carol/x", 0);
    pass_ms(10);
    block(3, "alice/x", 0);
    forget();
    two_looks();
    EXPECT("8 < job.deadlock carol/1 alice/x#0 x3\n");
    cr_expect_str_eq(logged,
                     "job.deadlock: alice -> bob -> carol -> alice: each waits for the next");
}

Test(core_why, tells_the_next_cycle_of_the_same_parties)
{
    join_with_observer(2);
    tap(TAP);
    block(1, "bob/x", 0);
    block(2, "alice/x", 0);
    two_looks();
    cr_expect(is_told());
    uint32_t topic = open_topic(1, "alice/x");
    publish(1, topic, 0, 1, 5);
    say_waiting(2, (struct msg_waiting){0});
    forget();
    block(2, "alice/x", 1);
    forget();
    two_looks();
    cr_expect(is_told());
}

Test(core_why, sees_no_cycle_while_a_call_is_not_blocked)
{
    join_with_observer(2);
    tap(TAP);
    block(1, "bob/x", 0);
    await_slot(2, 1, "alice/x", 0);
    forget();
    two_looks();
    cr_expect(!is_told(), "%s", said);
    say_waiting(2, (struct msg_waiting){.slots_ms = 1000});
    two_looks();
    cr_expect(is_told());
    forget();
}

Test(core_why, sees_no_cycle_in_which_a_member_did_something)
{
    join_with_observer(2);
    tap(TAP);
    uint32_t topic = open_topic(1, "alice/y");
    block(1, "bob/x", 0);
    block(2, "alice/x", 0);
    for (uint64_t seq = 0; seq < 5; seq++) {
        wait_ms(LIMIT_WHY_LOOK_MS);
        publish(1, topic, seq, 1, (payload_id)(30 + seq));
    }
    cr_expect(!is_told(), "%s", said);
    two_looks();
    cr_expect(is_told(), "%s", said);
    forget();
}

Test(core_why, sees_no_cycle_with_a_party_that_promises_progress)
{
    join_with_observer(2);
    tap(TAP);
    block(1, "bob/x", 0);
    block(2, "alice/x", 0);
    say_progress(1, 60000, "epoch 1");
    forget();
    two_looks();
    cr_expect(!is_told(), "%s", said);
    say_progress(1, 0, "");
    two_looks();
    cr_expect(is_told());
    forget();
}

Test(core_why, sees_a_cycle_over_a_barrier_and_credit)
{
    small_windows();
    ask_from(OBSERVER);
    create_job(OBSERVER, a_job(3, 3));
    for (conn_id conn = 1; conn <= 3; conn++)
        join(conn);
    tap(TAP);
    subscribe(2, 1, "alice/x", "", 0, 0);
    barrier(2, 1, 1, 1);
    fill_window(1, "alice/x");
    say_waiting(1, (struct msg_waiting){.room_ms = 1000});
    forget();
    two_looks();
    cr_expect(is_told(), "%s", said);
    cr_expect_str_eq(logged,
                     "job.deadlock: alice -> bob -> the barrier -> alice: each waits for the next");
    forget();
}

Test(core_why, sees_a_cycle_of_a_reader_and_a_worker)
{
    join_with_observer(2);
    tap(TAP);
    share(2, 1, "alice/jobs", "workers", 1);
    request(0);
    say_waiting(1, (struct msg_waiting){.slots_ms = 1000});
    uint32_t topic = open_topic(1, "alice/model");
    reserve(1, topic, 0);
    subscribe(2, 2, "alice/model", "", 0, 0);
    say_waiting(2, (struct msg_waiting){.reads_ms = 1000, .sub = 2});
    forget();
    two_looks();
    cr_expect(is_told(), "%s", said);
    forget();
}

Test(core_why, lets_a_reader_go_on_to_whom_anybody_may_write)
{
    join_with_observer(2);
    tap(TAP);
    uint32_t topic = open_topic(1, "alice/x");
    reserve(1, topic, 0);
    subscribe(2, 1, "+/x", "", 0, 0);
    say_waiting(2, (struct msg_waiting){.reads_ms = 1000, .sub = 1});
    block(1, "bob/y", 0);
    forget();
    two_looks();
    cr_expect(!is_told(), "%s", said);
    forget();
}

/* ---- cycles that are ended ------------------------------------------------------------------- */

/* A job of so many that run, in which the youngest wait of a cycle fails. */
static void strict_job(uint64_t parties)
{
    struct msg_job_create job = a_job(parties, parties);
    job.deadlock = 1;
    ask_from(OBSERVER);
    create_job(OBSERVER, job);
    for (conn_id conn = 1; conn <= parties; conn++)
        join(conn);
    tap(TAP);
}

/* Only the broker ends what is blocked. */
static void say_sure(conn_id conn, struct msg_waiting waiting)
{
    for (int i = 0; i < 2; i++) { /* ECHO counts what waits for no journal */
        kept = steps;
        message(conn, (struct msg){.type = MSG_BEAT});
    }
    waiting.is_sure = 1;
    waiting.data_bytes = data_bytes[conn];
    waiting.number = 7;
    say_waiting(conn, waiting);
}

static void block_surely(conn_id conn, const char *topic, uint64_t seq)
{
    await_slot(conn, seq + 1, topic, seq);
    say_sure(conn, (struct msg_waiting){.slots_ms = 1000, .topic = span_text(topic), .seq = seq});
}

/* What alice, bob and carol hear. */
static bool is_any_ended(void)
{
    return strstr(said, "(dependency of") != NULL;
}

Test(core_why, fails_the_youngest_wait_with_the_others_as_its_causes)
{
    strict_job(3);
    block_surely(1, "bob/x", 0);
    block_surely(2, "carol/x", 0);
    pass_ms(10);
    block_surely(3, "alice/x", 0);
    forget();
    wait_ms(LIMIT_WHY_LOOK_MS + 1);
    EXPECT("");
    wait_ms(LIMIT_WHY_LOOK_MS);
    EXPECT("8 < job.deadlock carol/1 alice/x#0 x3 (dependency of carol)\n"
           "13 < sub 0 error #0 (dependency of carol)\n");
    cr_expect_str_eq(logged, "job.deadlock: alice -> bob -> carol -> alice: none can go on");
    cr_expect_str_eq(error_message, "alice -> bob -> carol -> alice: none can go on");
    cr_expect_eq(error_causes, 2);
    wait_ms((int64_t)10 * LIMIT_WHY_LOOK_MS);
    EXPECT("");
    block_surely(3, "alice/x", 0); /* the slot is open as before: it may be awaited again */
    forget();
    two_looks();
    cr_expect(is_any_ended(), "%s", said);
    forget();
}

/* alice has no credit until bob reads, and he is at the barrier. */
static void barrier_and_credit(uint64_t barrier_ms, uint64_t room_ms)
{
    small_windows();
    strict_job(2);
    subscribe(2, 1, "alice/x", "", 0, 0);
    fill_window(1, "alice/x");
    barrier(2, 1, 1, 1);
    pass_ms((int64_t)barrier_ms);
    say_sure(2, (struct msg_waiting){.barrier_ms = barrier_ms});
    say_sure(1, (struct msg_waiting){.room_ms = room_ms, .room_topic = span_text("alice/x")});
    forget();
    two_looks();
}

Test(core_why, fails_the_wait_at_a_barrier)
{
    barrier_and_credit(1000, 3000);
    EXPECT("2 < barrier 1/1: 9  (dependency of bob)\n"
           "8 < job.deadlock bob/1 #1 x2 (dependency of bob)\n");
    cr_expect_eq(error_causes, 1);
}

Test(core_why, fails_the_wait_of_a_writer_without_credit)
{
    barrier_and_credit(3000, 1000);
    EXPECT("1 < wait over: room of word 7 (dependency of alice)\n"
           "8 < job.deadlock alice/1 alice/x#0 x2 (dependency of alice)\n");
}

Test(core_why, fails_the_wait_of_a_reader)
{
    strict_job(2);
    uint32_t topic = open_topic(1, "alice/x");
    reserve(1, topic, 0);
    subscribe(2, 3, "alice/x", "", 0, 0);
    block_surely(1, "bob/y", 0);
    pass_ms(10);
    say_sure(2, (struct msg_waiting){.reads_ms = 1, .sub = 3});
    forget();
    two_looks();
    EXPECT("2 < wait over: reads of word 7 (dependency of bob)\n"
           "8 < job.deadlock bob/1 alice/x#0 x2 (dependency of bob)\n");
}

/* ---- cycles that are not ended: somebody may still go on ------------------------------------- */

/* A cycle of alice and bob in a job that ends them; but what the change does makes it unsure. */
static void expect_not_ended(void (*change)(void))
{
    strict_job(3);
    block_surely(1, "bob/x", 0);
    block_surely(2, "alice/x", 0);
    change();
    forget();
    two_looks();
    two_looks();
    cr_expect(!is_any_ended(), "%s", said);
    forget();
}

/* A timeout, another thread, or values that were not accepted: the client says that. */
static void bob_is_not_sure(void)
{
    say_waiting(2, (struct msg_waiting){.slots_ms = 1000, .topic = span_text("alice/x")});
}

static void frames_are_on_their_way_to_bob(void)
{
    uint32_t topic = open_topic(3, "carol/x");
    subscribe(2, 1, "carol/x", "", 0, 0);
    publish(3, topic, 0, 1, 5);
}

static void bob_has_no_connection(void)
{
    closed(2);
}

static void bob_promises_progress(void)
{
    say_progress(2, 60000, "epoch 1");
}

static void a_slot_of_bob_has_a_deadline(void)
{
    promise(2, open_topic(2, "bob/x"), 0, 3600000);
    block_surely(2, "alice/x", 0);
}

/* Her other thread is at the barrier, and she is told that all were there. */
static void alice_is_being_answered(void)
{
    block_surely(1, "bob/x", 0);
    say_sure(
        1, (struct msg_waiting){.slots_ms = 1000, .topic = span_text("bob/x"), .barrier_ms = 1000});
}

static void alice_waits_for_another_membership(void)
{
    say_sure(
        1, (struct msg_waiting){.slots_ms = 1000, .topic = span_text("bob/x"), .members_ms = 1000});
}

static void alice_reads_several(void)
{
    say_sure(1,
             (struct msg_waiting){.slots_ms = 1000, .topic = span_text("bob/x"), .reads_ms = 1000});
}

static void alice_works_for_a_group(void)
{
    share(1, 4, "carol/jobs", "workers", 1);
    say_sure(1, (struct msg_waiting){
                    .slots_ms = 1000, .topic = span_text("bob/x"), .reads_ms = 1000, .sub = 4});
}

Test(core_why, ends_no_wait_while_the_client_is_not_sure)
{
    expect_not_ended(bob_is_not_sure);
}

Test(core_why, ends_no_wait_while_frames_are_on_their_way)
{
    expect_not_ended(frames_are_on_their_way_to_bob);
}

Test(core_why, ends_no_wait_while_a_member_has_no_connection)
{
    expect_not_ended(bob_has_no_connection);
}

Test(core_why, ends_no_wait_while_a_member_promises_progress)
{
    expect_not_ended(bob_promises_progress);
}

Test(core_why, ends_no_wait_for_a_slot_with_a_deadline)
{
    expect_not_ended(a_slot_of_bob_has_a_deadline);
}

Test(core_why, ends_no_wait_of_a_member_that_is_being_answered)
{
    expect_not_ended(alice_is_being_answered);
}

Test(core_why, ends_no_wait_of_a_member_that_may_see_another_membership)
{
    expect_not_ended(alice_waits_for_another_membership);
}

Test(core_why, ends_no_wait_of_a_member_that_reads_several_subscriptions)
{
    expect_not_ended(alice_reads_several);
}

Test(core_why, ends_no_wait_of_a_worker_that_may_get_a_task)
{
    expect_not_ended(alice_works_for_a_group);
}

Test(core_why, ends_no_wait_through_a_group_that_another_worker_may_join)
{
    strict_job(2);
    share(2, 1, "alice/jobs", "workers", 1);
    request(0);
    request(1);
    block_surely(1, "alice/_replies", 1); /* bob is busy with the first */
    block_surely(2, "alice/y", 0);
    forget();
    two_looks();
    cr_expect(is_told() && !is_any_ended(), "%s", said);
    forget();
}

Test(core_why, ends_no_wait_in_a_job_that_does_not_ask_for_it)
{
    join_with_observer(2);
    tap(TAP);
    block_surely(1, "bob/x", 0);
    block_surely(2, "alice/x", 0);
    forget();
    two_looks();
    EXPECT("8 < job.deadlock alice/1 bob/x#0 x2\n");
    cr_expect_str_eq(logged, "job.deadlock: alice -> bob -> alice: none can go on");
}

/* ---- bounds ---------------------------------------------------------------------------------- */

enum { MANY = 20000 };

Test(core_why, cuts_a_large_answer_into_steps, .timeout = 120)
{
    is_alone = true;
    join_with_observer(2);
    for (uint64_t seq = 0; seq < MANY; seq++)
        await_slot(1, seq + 1, "bob/x", seq);
    forget();
    ask();
    EXPECT("");
    unsigned count = 0;
    while (core_deadline_ns(core) <= now_ns && count < MANY) {
        step((struct event){.type = EVENT_TICK});
        count += 1;
    }
    cr_expect(count >= MANY / LIMIT_ANSWER_STEP - 1, "%u steps", count);
    EXPECT("9 < alice: running\n"
           "9 < bob: running\n"
           "9 < alice -> bob: unpromised x20000 bob/x#0 since 0 ms\n"
           "9 < why 0 \n");
}

/* Nor does a look for cycles. */
Test(core_why, looks_at_no_topic_where_no_writer_is_stopped, .timeout = 120)
{
    static char name[32];
    is_alone = true;
    join_with_observer(1);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "alice/%u", i);
        (void)open_topic(1, name);
        forget();
    }
    ask();
    unsigned count = 0;
    while (core_deadline_ns(core) <= now_ns && count < MANY) {
        step((struct event){.type = EVENT_TICK});
        count += 1;
    }
    cr_expect_leq(count, 2, "%u steps", count);
    EXPECT("9 < why 0 \n");
}

Test(core_why, forgets_a_question_whose_asker_or_job_is_gone)
{
    is_alone = true;
    join_with_observer(2);
    for (uint64_t seq = 0; seq < MANY; seq++)
        await_slot(1, seq + 1, "bob/x", seq);
    ask();
    closed(OBSERVER);
    forget();
    pass_ms(100);
    EXPECT("");
    ask_from(OBSERVER);
    ask();
    ask(); /* the first is answered no more */
    forget();
    pass_ms(100);
    cr_expect_null(strstr(strstr(said, "why 0") + 1, "why 0"));
    forget();
}

Test(core_why, says_that_memory_is_short)
{
    join_with_observer(2);
    await_slot(1, 1, "bob/x", 0);
    memory.bytes_max = memory.bytes_used;
    forget();
    ask();
    EXPECT("9 < why 2 errbus.full\n");
    memory.bytes_max = UINT64_MAX;
    ask();
    forget();
}
