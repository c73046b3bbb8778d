/* SPDX-License-Identifier: MPL-2.0 */
/* shard_jobs_test.c -- greetings wait until the directory says where their job is; jobs of ours
 * leave when nobody uses them any more. */
#include "broker/io/shard_jobs.h"

#include "libbus/base/must.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct memory memory;
static struct shard_jobs jobs;

static void init(void)
{
    memory_heap_init(&memory, UINT64_MAX);
    shard_jobs_init(&jobs, &memory);
}

static void fini(void)
{
    shard_jobs_fini(&jobs);
    must(memory.bytes_used == 0);
}

TestSuite(shard_jobs, .init = init, .fini = fini);

static enum shard_word greet(conn_id conn, const char *job, const char *part)
{
    return shard_jobs_greet(&jobs, conn, span_text(job), span_text(part));
}

static void expect_next(const char *job, conn_id expected, const char *text)
{
    conn_id conn = 0;
    struct buffer *part = NULL;
    cr_assert(shard_jobs_next(&jobs, span_text(job), &conn, &part));
    cr_expect_eq(conn, expected);
    cr_expect(span_equal(buffer_span(part), span_text(text)), "%s", text);
    buffer_unref(&part);
}

static void expect_none(const char *job)
{
    conn_id conn;
    struct buffer *part;
    cr_expect_not(shard_jobs_next(&jobs, span_text(job), &conn, &part));
}

Test(shard_jobs, asks_once_for_all_that_wait)
{
    cr_expect_eq(greet(1, "train", "one"), SHARD_ASK);
    cr_expect_eq(greet(2, "train", "two"), SHARD_WAIT);
    cr_expect_eq(greet(3, "other", "three"), SHARD_ASK);
    cr_expect_eq(greet(4, "train", "four"), SHARD_WAIT);
    shard_jobs_told(&jobs, span_text("train"), true);
    expect_next("train", 1, "one");
    expect_next("train", 2, "two");
    expect_next("train", 4, "four");
    expect_none("train");
    cr_expect_eq(greet(5, "train", "five"), SHARD_IS_OURS);
    cr_expect_eq(greet(6, "other", "six"), SHARD_WAIT);
}

/* The job may be gone there the next time. */
Test(shard_jobs, forgets_what_is_elsewhere)
{
    cr_expect_eq(greet(1, "train", "one"), SHARD_ASK);
    shard_jobs_told(&jobs, span_text("train"), false);
    expect_next("train", 1, "one");
    expect_none("train");
    cr_expect_eq(greet(2, "train", "two"), SHARD_ASK);
}

Test(shard_jobs, knows_what_the_journal_has)
{
    cr_assert(shard_jobs_add(&jobs, span_text("train")));
    cr_assert(shard_jobs_add(&jobs, span_text("train")));
    cr_expect_eq(greet(1, "train", "one"), SHARD_IS_OURS);
}

/* Its answer is on its way, and decides. */
Test(shard_jobs, leave_a_job_that_is_asked_for)
{
    cr_expect_eq(greet(1, "train", "one"), SHARD_ASK);
    cr_assert(shard_jobs_add(&jobs, span_text("train")));
    cr_expect_eq(greet(2, "train", "two"), SHARD_WAIT);
    shard_jobs_told(&jobs, span_text("train"), true);
    expect_next("train", 1, "one");
    expect_next("train", 2, "two");
    expect_none("train");
}

Test(shard_jobs, drops_what_a_connection_says_that_is_gone)
{
    cr_expect_eq(greet(1, "train", "one"), SHARD_ASK);
    cr_expect_eq(greet(2, "train", "two"), SHARD_WAIT);
    shard_jobs_drop(&jobs, 1);
    shard_jobs_drop(&jobs, 9); /* waits for nothing */
    shard_jobs_told(&jobs, span_text("train"), true);
    expect_next("train", 2, "two");
    expect_none("train");
    cr_expect_eq(jobs.waiting_bytes, 0);
}

Test(shard_jobs, lets_a_connection_wait_once)
{
    cr_expect_eq(greet(1, "train", "one"), SHARD_ASK);
    cr_expect_eq(greet(1, "train", "again"), SHARD_DROP);
    cr_expect_eq(greet(1, "other", "again"), SHARD_DROP);
    cr_expect_eq(greet(2, "other", "two"), SHARD_ASK, "nobody asked for it");
}

Test(shard_jobs, has_room_for_so_many)
{
    char job[32];
    for (uint32_t i = 1; i <= SHARD_WAITING_MAX; i++) {
        snprintf(job, sizeof job, "job%u", i);
        cr_assert_eq(greet(i, job, "x"), SHARD_ASK, "%u", i);
    }
    cr_expect_eq(greet(SHARD_WAITING_MAX + 1, "job1", "x"), SHARD_DROP);
    cr_expect_eq(greet(SHARD_WAITING_MAX + 1, "more", "x"), SHARD_DROP);
    shard_jobs_drop(&jobs, 7);
    cr_expect_eq(greet(SHARD_WAITING_MAX + 1, "more", "x"), SHARD_ASK);
}

Test(shard_jobs, has_room_for_so_many_jobs)
{
    char job[32];
    for (uint32_t i = 0; i < SHARD_JOBS_MAX; i++) {
        snprintf(job, sizeof job, "job%u", i);
        cr_assert(shard_jobs_add(&jobs, span_text(job)));
    }
    cr_expect_not(shard_jobs_add(&jobs, span_text("more")));
    cr_expect_eq(greet(1, "more", "x"), SHARD_DROP);
    cr_expect_not(shard_jobs_review(&jobs, span_text("job5"), false, 10, 10));
    cr_expect(shard_jobs_review(&jobs, span_text("job5"), false, 11, 10));
    cr_expect(shard_jobs_add(&jobs, span_text("more")));
}

/* Its end is in the journal when the core's steps up to then are. */
Test(shard_jobs, leave_when_their_end_is_kept)
{
    struct span train = span_text("train");
    cr_assert(shard_jobs_add(&jobs, train));
    cr_expect_not(shard_jobs_review(&jobs, train, true, 5, 5));
    cr_expect_not(shard_jobs_review(&jobs, train, false, 10, 20));
    cr_expect_not(shard_jobs_review(&jobs, train, false, 11, 9));
    cr_expect(shard_jobs_review(&jobs, train, false, 12, 10));
    cr_expect_eq(greet(1, "train", "one"), SHARD_ASK);
}

Test(shard_jobs, stay_when_somebody_comes_back)
{
    struct span train = span_text("train");
    cr_assert(shard_jobs_add(&jobs, train));
    cr_expect_not(shard_jobs_review(&jobs, train, false, 10, 9));
    cr_expect_eq(greet(1, "train", "one"), SHARD_IS_OURS);
    cr_expect_not(shard_jobs_review(&jobs, train, false, 20, 15));
    cr_expect_not(shard_jobs_review(&jobs, train, true, 30, 30));
    cr_expect_not(shard_jobs_review(&jobs, train, false, 31, 31));
}

Test(shard_jobs, are_given_one_behind_the_other)
{
    uint32_t at = 0;
    struct span name;
    unsigned count = 0;
    cr_assert(shard_jobs_add(&jobs, span_text("a")));
    cr_expect_eq(greet(1, "asked", "x"), SHARD_ASK);
    cr_assert(shard_jobs_add(&jobs, span_text("b")));
    while (shard_jobs_each(&jobs, &at, &name)) {
        cr_expect_not(span_equal(name, span_text("asked")));
        count++;
    }
    cr_expect_eq(count, 2);
}

/* Whatever allocation fails: a greeting waits, or nothing is left of it. */
Test(shard_jobs, drops_a_greeting_without_memory)
{
    for (uint64_t room = 0; room < 8192; room += 64) {
        memory.bytes_max = memory.bytes_used + room;
        enum shard_word word = greet(1, "train", "one");
        memory.bytes_max = UINT64_MAX;
        if (word == SHARD_ASK)
            return;
        cr_assert_eq(word, SHARD_DROP);
        cr_assert_eq(jobs.waiting_count, 0);
        cr_assert_eq(jobs.names.count, 0);
    }
    cr_assert_fail("it never had enough");
}
