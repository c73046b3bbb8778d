/* SPDX-License-Identifier: MPL-2.0 */
/* journal_thread_test.c -- the journal's thread: what it tells is true, whatever the disk does. */
#include "broker/io/journal_thread.h"

#include "tests/unit/journal_driver.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>

enum { SOON_MS = 20000, PROOF_FILE_BYTES = 1024 };

static struct sim_disk *sim;
static struct journal_thread *thread;

static void start(enum journal_pace pace)
{
    struct journal *journal = driver_open_as(sim, pace != JOURNAL_PACE_SHARED);
    thread = journal_thread_open(&journal, pace);
    cr_assert_not_null(thread);
    cr_assert_null(journal);
}

static void init(void)
{
    sim = sim_disk_new(7);
}

static void fini(void)
{
    journal_thread_close(&thread);
    sim_disk_free(&sim);
}

TestSuite(journal_thread, .init = init, .fini = fini);

static uint64_t give(uint64_t number)
{
    uint8_t body[DRIVER_BODY_MAX];
    size_t bytes = driver_body(number, body);
    struct journal_step *step = journal_step_new(1, bytes);
    journal_step_add(step, DRIVER_KIND, span_of(body, bytes));
    uint64_t ticket = journal_thread_give(thread, &step);
    cr_assert_null(step);
    return ticket;
}

/* The news once they say this; the test fails if they never do. */
static struct journal_news wait_for(uint64_t logged, uint64_t synced, enum journal_state state)
{
    struct journal_news news = journal_thread_news(thread);
    while (news.logged < logged || news.synced < synced || news.state != state) {
        struct pollfd item = {.fd = journal_thread_fd(thread), .events = POLLIN};
        cr_assert_eq(poll(&item, 1, SOON_MS), 1, "logged %llu, synced %llu, state %d",
                     (unsigned long long)news.logged, (unsigned long long)news.synced,
                     (int)news.state);
        news = journal_thread_news(thread);
    }
    cr_assert_leq(news.synced, news.logged);
    return news;
}

/* How many records from number 0 on the journal has after the machine went away. */
static uint64_t count_after_crash(void)
{
    sim_disk_crash(sim);
    struct journal *journal = driver_open(sim);
    struct journal_found found;
    uint64_t count = 0;
    enum journal_err err;
    for (uint64_t at = journal_first(journal);
         (err = journal_read(journal, at, &found)) == JOURNAL_OK; at = found.next) {
        uint8_t body[DRIVER_BODY_MAX];
        if (found.kind != DRIVER_KIND)
            continue;
        cr_assert(span_equal(found.body, span_of(body, driver_body(count, body))));
        count += 1;
    }
    cr_assert_eq(err, JOURNAL_END);
    journal_close(&journal);
    return count;
}

Test(journal_thread, logs_and_syncs_in_order)
{
    start(JOURNAL_PACE_SYNCED);
    for (uint64_t i = 0; i < 500; i++)
        cr_assert_eq(give(i), i + 1);
    wait_for(500, 500, JOURNAL_IS_WELL);
    cr_assert(journal_thread_has_room(thread));
    journal_thread_close(&thread);
    cr_assert_eq(count_after_crash(), 500);
}

/* One step of so many records, from a number on. */
static uint64_t give_many(uint64_t number, size_t count)
{
    struct journal_step *step = journal_step_new(count, count * DRIVER_BODY_MAX);
    for (size_t i = 0; i < count; i++) {
        uint8_t body[DRIVER_BODY_MAX];
        journal_step_add(step, DRIVER_KIND, span_of(body, driver_body(number + i, body)));
    }
    return journal_thread_give(thread, &step);
}

/* While the first is written the others come, and may not be written together. */
Test(journal_thread, takes_as_many_records_in_a_step_as_are_written_at_once)
{
    static const size_t counts[] = {JOURNAL_THREAD_RECORDS - 1, JOURNAL_THREAD_RECORDS, 1,
                                    JOURNAL_THREAD_RECORDS, JOURNAL_THREAD_RECORDS};
    uint64_t number = 0;
    uint64_t ticket = 0;
    start(JOURNAL_PACE_SYNCED);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        ticket = give_many(number, counts[i]);
        number += counts[i];
    }
    wait_for(ticket, ticket, JOURNAL_IS_WELL);
    journal_thread_close(&thread);
    cr_assert_eq(count_after_crash(), number);
}

Test(journal_thread, takes_no_more_records_in_a_step_than_that, .signal = SIGABRT)
{
    start(JOURNAL_PACE_SYNCED);
    (void)give_many(0, JOURNAL_THREAD_RECORDS + 1);
}

Test(journal_thread, takes_no_step_without_a_record, .signal = SIGABRT)
{
    start(JOURNAL_PACE_SYNCED);
    (void)give_many(0, 0);
}

Test(journal_thread, logs_without_sync_and_syncs_when_it_closes)
{
    start(JOURNAL_PACE_LAZY);
    for (uint64_t i = 0; i < 100; i++)
        give(i);
    struct journal_news news = wait_for(100, 0, JOURNAL_IS_WELL);
    cr_assert_eq(news.synced, 0);
    give(100); /* not waited for */
    journal_thread_close(&thread);
    cr_assert_eq(count_after_crash(), 101);
}

/* In the middle of a stream the thread waits for more; what comes last waits for nothing that may
 * never come. */
Test(journal_thread, waits_no_more_than_a_moment_for_the_rest_of_a_stream)
{
    start(JOURNAL_PACE_LAZY);
    /* Few steps: however they are gathered, they make no more segments than the disk may have. */
    static uint8_t zeros[JOURNAL_THREAD_STREAM_BYTES / 2];
    uint64_t ticket = 0;
    for (int round = 0; round < 20; round++) {
        for (uint64_t bytes = 0; bytes < 2 * JOURNAL_THREAD_STREAM_BYTES; bytes += sizeof zeros) {
            struct journal_step *step = journal_step_new(1, sizeof zeros);
            journal_step_add(step, DRIVER_KIND, span_of(zeros, sizeof zeros));
            ticket = journal_thread_give(thread, &step);
        }
        wait_for(ticket, 0, JOURNAL_IS_WELL);
        ticket = give(0);
        wait_for(ticket, 0, JOURNAL_IS_WELL);
    }
}

Test(journal_thread, says_where_payloads_are)
{
    start(JOURNAL_PACE_LAZY);
    uint64_t at[10];
    for (uint64_t i = 0; i < 10; i++) {
        uint8_t body[DRIVER_BODY_MAX];
        struct buffer *payload = buffer_copy(span_of(body, driver_body(i, body)));
        struct journal_step *step = journal_step_new(2, 1);
        journal_step_payload(step, DRIVER_KIND, 100 + i, payload);
        journal_step_add(step, DRIVER_KIND + 1, span_text("x"));
        journal_thread_give(thread, &step);
        buffer_unref(&payload);
    }
    wait_for(10, 0, JOURNAL_IS_WELL);
    for (uint64_t i = 0; i < 10; i++) {
        cr_assert_null(journal_thread_logged(thread, i), "its ticket is %d", (int)i + 1);
        struct journal_step *step = journal_thread_logged(thread, i + 1);
        cr_assert_not_null(step);
        cr_assert_eq(step->key, 100 + i);
        at[i] = step->payload_at;
        journal_step_free(&step);
    }
    cr_assert_null(journal_thread_logged(thread, UINT64_MAX));
    journal_thread_close(&thread);
    struct journal *journal = driver_open(sim);
    for (uint64_t i = 0; i < 10; i++) {
        uint8_t body[DRIVER_BODY_MAX];
        uint8_t got[DRIVER_BODY_MAX];
        size_t bytes = driver_body(i, body);
        cr_assert_eq(journal_fetch(journal, at[i], got, bytes), JOURNAL_OK);
        cr_assert_arr_eq(got, body, bytes);
    }
    journal_close(&journal);
}

Test(journal_thread, stops_reading_when_too_much_waits)
{
    start(JOURNAL_PACE_SYNCED);
    sim_disk_fault(sim, SIM_WRITE, 0, UINT64_MAX, EIO);
    static uint8_t large[1 << 20];
    uint64_t given = 0;
    while (journal_thread_has_room(thread)) {
        struct journal_step *step = journal_step_new(1, sizeof large);
        journal_step_add(step, DRIVER_KIND, span_of(large, sizeof large));
        journal_thread_give(thread, &step);
        given += sizeof large;
    }
    cr_assert_eq(given, JOURNAL_THREAD_WAITING_BYTES);
}

Test(journal_thread, tries_again_what_the_system_refuses)
{
    start(JOURNAL_PACE_SYNCED);
    sim_disk_fault(sim, SIM_WRITE, 0, 3, EIO);
    give(0);
    struct journal_news news = wait_for(0, 0, JOURNAL_IS_REFUSED);
    cr_assert_eq(news.logged, 0);
    cr_assert_not_null(strstr(journal_thread_complaint(thread), strerror(EIO)), "%s",
                       journal_thread_complaint(thread));
    give(1);
    wait_for(2, 2, JOURNAL_IS_WELL);
    journal_thread_close(&thread);
    cr_assert_eq(count_after_crash(), 2);
}

/* The disk was taken away from this machine. */
Test(journal_thread, ends_where_a_shared_disk_refuses_to_write)
{
    start(JOURNAL_PACE_SHARED);
    give(0);
    wait_for(1, 1, JOURNAL_IS_WELL);
    sim_disk_fault(sim, SIM_WRITE, 0, 1, EIO);
    give(1);
    struct journal_news news = wait_for(1, 1, JOURNAL_IS_FAILED);
    cr_expect_eq(news.logged, 1);
    cr_expect_neq(journal_thread_complaint(thread)[0], '\0');
    journal_thread_close(&thread);
    cr_expect_eq(count_after_crash(), 1);
}

/* What one write left is synced before the next: else readers wait as long as more comes.  A step
 * that ends in a trim is written alone, and all wait by the time the first one is written. */
Test(journal_thread, syncs_a_shared_disk_before_it_writes_more)
{
    enum { ROUNDS = 50 };
    struct journal_step *steps[ROUNDS];
    start(JOURNAL_PACE_SHARED);
    (void)sim_disk_told(sim);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint8_t body[DRIVER_BODY_MAX];
        steps[i] = journal_step_new(1, DRIVER_BODY_MAX);
        journal_step_add(steps[i], DRIVER_KIND, span_of(body, driver_body(i, body)));
        steps[i]->is_trim = true;
    }
    for (uint64_t i = 0; i < ROUNDS; i++)
        (void)journal_thread_give(thread, &steps[i]);
    wait_for(ROUNDS, ROUNDS, JOURNAL_IS_WELL);
    journal_thread_close(&thread);
    const char *told = sim_disk_told(sim);
    cr_expect_not_null(strstr(told, "ws"), "%s", told);
    cr_expect_null(strstr(told, "ww"), "two writes without a sync between them: %s", told);
    cr_expect_eq(count_after_crash(), ROUNDS);
}

Test(journal_thread, writes_what_was_decided_into_the_room_set_aside)
{
    start(JOURNAL_PACE_SYNCED);
    sim_disk_limit(sim, 4 * DRIVER_SEGMENT);
    uint64_t number = 0;
    struct journal_news news = {.state = JOURNAL_IS_WELL};
    while (news.state == JOURNAL_IS_WELL) {
        uint64_t ticket = give(number++);
        do {
            struct pollfd item = {.fd = journal_thread_fd(thread), .events = POLLIN};
            cr_assert_eq(poll(&item, 1, SOON_MS), 1);
            news = journal_thread_news(thread);
        } while (news.logged < ticket);
    }
    cr_assert_eq(news.state, JOURNAL_IS_FULL);
    cr_assert_gt(number, 4);
    for (int i = 0; i < 5; i++)
        give(number++);
    wait_for(number, number, JOURNAL_IS_FULL);
    sim_disk_limit(sim, SIM_NO_LIMIT);
    wait_for(number, number, JOURNAL_IS_WELL); /* by itself */
    give(number++);
    wait_for(number, number, JOURNAL_IS_WELL);
    journal_thread_close(&thread);
    cr_assert_eq(count_after_crash(), number);
}

/* A checkpoint's trim may wait for a better moment; on a full disk that is now. */
Test(journal_thread, lets_go_what_a_checkpoint_freed_before_it_says_that_the_disk_is_full)
{
    static uint8_t zeros[DRIVER_SEGMENT / 2];
    start(JOURNAL_PACE_SYNCED);
    sim_disk_limit(sim, 6 * DRIVER_SEGMENT + PROOF_FILE_BYTES);
    for (int i = 0; i < 40; i++) {
        bool is_checkpoint = i % 4 == 3;
        struct journal_step *step = journal_step_new(1, sizeof zeros);
        journal_step_add(step, DRIVER_KIND, span_of(zeros, sizeof zeros));
        step->how = is_checkpoint ? JOURNAL_CHECKPOINT_BEGIN | JOURNAL_CHECKPOINT_END : 0;
        step->aside = DRIVER_SEGMENT;
        step->needed_from = UINT64_MAX;
        uint64_t ticket = journal_thread_give(thread, &step);
        struct journal_news news = wait_for(ticket, 0, JOURNAL_IS_WELL);
        cr_assert_eq(news.logged, ticket);
    }
    cr_assert_gt(journal_thread_news(thread).first, 10 * DRIVER_SEGMENT);
    cr_assert_eq(journal_thread_complaint(thread)[0], '\0', "%s", journal_thread_complaint(thread));
}

Test(journal_thread, never_claims_what_a_failed_sync_may_have_lost)
{
    start(JOURNAL_PACE_SYNCED);
    give(0);
    wait_for(1, 1, JOURNAL_IS_WELL);
    sim_disk_fault(sim, SIM_SYNC, 0, 1, EIO);
    give(1);
    struct journal_news news = wait_for(2, 1, JOURNAL_IS_FAILED);
    give(2);
    news = journal_thread_news(thread);
    cr_assert_eq(news.synced, 1);
    cr_assert_eq(news.logged, 2);
    cr_assert_neq(journal_thread_complaint(thread)[0], '\0');
    journal_thread_close(&thread);
    uint64_t count = count_after_crash();
    cr_assert(count == 1 || count == 2, "%llu", (unsigned long long)count);
}

/* ---- a disk that takes its time -------------------------------------------------------------- */

static sem_t held;

static void start_held(void)
{
    cr_assert_eq(sem_init(&held, 0, 0), 0);
    start(JOURNAL_PACE_SYNCED);
    sim_disk_hold(sim, &held);
}

static void let_sync(int times)
{
    for (int i = 0; i < times; i++)
        cr_assert_eq(sem_post(&held), 0);
}

/* As many bytes as the second thread syncs. */
static uint64_t give_bulk(void)
{
    static uint8_t zeros[JOURNAL_THREAD_SYNC_BYTES];
    struct journal_step *step = journal_step_new(1, sizeof zeros);
    journal_step_add(step, DRIVER_KIND + 1, span_of(zeros, sizeof zeros));
    return journal_thread_give(thread, &step);
}

/* What is logged is of no use to anybody yet, and a loop that wakes takes the processor from the
 * thread that is to sync. */
Test(journal_thread, tells_of_a_shared_disk_once_it_is_synced)
{
    cr_assert_eq(sem_init(&held, 0, 0), 0);
    start(JOURNAL_PACE_SHARED);
    sim_disk_hold_all(sim, &held);
    give(0);
    while (!sim_disk_is_held(sim))
        sched_yield();
    struct pollfd item = {.fd = journal_thread_fd(thread), .events = POLLIN};
    cr_expect_eq(poll(&item, 1, 0), 0, "told of a sync that is under way");
    let_sync(1000);
    wait_for(1, 1, JOURNAL_IS_WELL);
}

/* It is in the log while what came before is synced, and is not taken for synced with that. */
Test(journal_thread, logs_beside_a_sync)
{
    start_held();
    give_bulk();
    wait_for(1, 0, JOURNAL_IS_WELL);
    give(0);
    struct journal_news news = wait_for(2, 0, JOURNAL_IS_WELL);
    cr_expect_eq(news.synced, 0);
    cr_expect_eq(news.on_disk, 0);
    give_bulk();
    wait_for(3, 0, JOURNAL_IS_WELL);
    let_sync(2); /* a segment each: the first one, and that of the bulk */
    news = wait_for(3, 1, JOURNAL_IS_WELL);
    cr_expect_eq(news.synced, 1, "%llu", (unsigned long long)news.synced);
    cr_expect_lt(news.on_disk, news.next);
    let_sync(1000);
    wait_for(3, 3, JOURNAL_IS_WELL);
}

/* The same where readers wait for the sync, too. */
Test(journal_thread, logs_beside_a_sync_of_a_shared_disk)
{
    cr_assert_eq(sem_init(&held, 0, 0), 0);
    struct journal *journal = driver_open_as(sim, true);
    thread = journal_thread_open(&journal, JOURNAL_PACE_SHARED);
    cr_assert_not_null(thread);
    sim_disk_hold(sim, &held);
    give_bulk();
    wait_for(1, 0, JOURNAL_IS_WELL);
    give(0);
    struct journal_news news = wait_for(2, 0, JOURNAL_IS_WELL);
    cr_expect_eq(news.synced, 0);
    let_sync(1000);
    wait_for(2, 2, JOURNAL_IS_WELL);
}

/* A sync that fails is the end, and what it was to bring to the disk is never claimed. */
Test(journal_thread, claims_nothing_of_a_sync_that_fails_beside_it)
{
    start_held();
    give_bulk();
    wait_for(1, 0, JOURNAL_IS_WELL);
    give(0);
    wait_for(2, 0, JOURNAL_IS_WELL);
    sim_disk_fault(sim, SIM_SYNC, 0, 1, EIO);
    let_sync(1000);
    struct journal_news news = wait_for(2, 0, JOURNAL_IS_FAILED);
    cr_expect_eq(news.synced, 0);
    cr_expect_neq(journal_thread_complaint(thread)[0], '\0');
}

/* What waits for a sync when it closes is synced before that, and so is what comes behind it. */
Test(journal_thread, closes_behind_a_sync)
{
    start_held();
    give_bulk();
    wait_for(1, 0, JOURNAL_IS_WELL);
    for (uint64_t i = 0; i < 20; i++)
        give(i);
    let_sync(1000);
    journal_thread_close(&thread);
    sim_disk_hold(sim, NULL);
    cr_expect_eq(count_after_crash(), 20);
}
