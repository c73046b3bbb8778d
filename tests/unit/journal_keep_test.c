/* SPDX-License-Identifier: MPL-2.0 */
/* journal_keep_test.c -- a disk whose owner must say that it is there: the journal's thread does so
 * when nothing else is written, and another owner ends it. */
#include "broker/io/journal_thread.h"

#include "broker/io/clock.h"
#include "tests/unit/journal_driver.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>

enum { SOON_MS = 20000, KEEPS = 3 };

static struct sim_disk *sim, *plain; /* plain: as it is */
static struct disk_ops ops;          /* of the simulated disk, and keep() */
static atomic_uint keeps;
static atomic_int answer; /* of keep() */
static const struct disk_ops *inner;
static _Atomic int64_t asked_ns; /* when the disk was asked last for what its store answers */
static const char *why = "";
static const char *reason; /* of what keep() answers */

static int sync_file(struct disk *disk, int file)
{
    atomic_store(&asked_ns, clock_monotonic_ns());
    return inner->sync(disk, file);
}

static int sync_file_until(struct disk *disk, int file, uint64_t offset)
{
    atomic_store(&asked_ns, clock_monotonic_ns());
    return inner->sync_until(disk, file, offset);
}

static int sync_all_names(struct disk *disk)
{
    atomic_store(&asked_ns, clock_monotonic_ns());
    return inner->sync_names(disk);
}

static int keep(struct disk *disk)
{
    disk->why = reason;
    atomic_store(&asked_ns, clock_monotonic_ns());
    atomic_fetch_add(&keeps, 1);
    return atomic_load(&answer);
}

static void away(struct disk *disk, char *out)
{
    (void)disk;
    snprintf(out, DISK_COMPLAINT_BYTES, "%s", why);
}

static struct journal *open_kept(void)
{
    struct journal *journal = NULL;
    struct disk *disk = sim_disk_open(sim);
    struct journal_options options = {
        .may_create = true, .id = DRIVER_ID, .segment_bytes = DRIVER_SEGMENT};
    inner = disk->ops != &ops ? disk->ops : inner; /* it was opened before */
    ops = *inner;
    ops.sync = sync_file;
    ops.sync_until = sync_file_until;
    ops.sync_names = sync_all_names;
    ops.keep = keep;
    ops.away = away;
    disk->ops = &ops;
    cr_assert_eq(journal_open_disk(&disk, &options, &journal, &driver_opened, driver_complaint),
                 JOURNAL_OK, "%s", driver_complaint);
    return journal;
}

static void init(void)
{
    sim = sim_disk_new(7);
    plain = sim_disk_new(7);
}

static void fini(void)
{
    sim_disk_free(&sim);
    sim_disk_free(&plain);
}

TestSuite(journal_keep, .init = init, .fini = fini, .timeout = 60);

Test(journal_keep, is_needed_by_some_disks_alone)
{
    struct journal *journal = open_kept();
    cr_expect(journal_needs_keeping(journal));
    cr_expect_eq(atomic_load(&keeps), 0);
    cr_expect_eq(journal_keep(journal), JOURNAL_OK);
    cr_expect_eq(atomic_load(&keeps), 1);
    journal_close(&journal);
    journal = driver_open(plain);
    cr_expect_not(journal_needs_keeping(journal));
    journal_close(&journal);
}

/* What failed once is asked for no more. */
Test(journal_keep, ends_a_journal_that_is_anothers)
{
    struct journal *journal = open_kept();
    atomic_store(&answer, -DISK_FENCED);
    cr_expect_eq(journal_keep(journal), JOURNAL_FENCED);
    cr_expect_not_null(strstr(journal_complaint(journal), "another broker has taken over"), "%s",
                       journal_complaint(journal));
    atomic_store(&answer, 0);
    cr_expect_eq(journal_keep(journal), JOURNAL_FENCED);
    cr_expect_eq(atomic_load(&keeps), 1);
    journal_close(&journal);
}

/* A store that forgot must not be started again, and its sentence says so. */
Test(journal_keep, says_what_to_do_unless_its_disk_does)
{
    static const char *const reasons[] = {NULL, "do not start another broker"};
    for (size_t i = 0; i < 2; i++) {
        struct journal *journal = open_kept();
        reason = reasons[i];
        atomic_store(&answer, -EIO);
        cr_expect_eq(journal_keep(journal), JOURNAL_FAILED);
        const char *complaint = journal_complaint(journal);
        cr_expect_eq(strstr(complaint, "then start errbusd again") == NULL, i == 1, "%s",
                     complaint);
        cr_expect_eq(strstr(complaint, "do not start another broker") == NULL, i == 0, "%s",
                     complaint);
        journal_close(&journal);
    }
}

Test(journal_keep, tells_why_the_store_is_away)
{
    char text[JOURNAL_COMPLAINT_BYTES] = "";
    struct journal *journal = open_kept();
    why = "nobody answers";
    journal_away(journal, text);
    cr_expect_str_eq(text, "nobody answers");
    journal_close(&journal);
    journal = driver_open(plain);
    journal_away(journal, text);
    cr_expect_str_eq(text, "");
    journal_close(&journal);
}

static void wait_for_news(struct journal_thread *thread)
{
    struct pollfd item = {.fd = journal_thread_fd(thread), .events = POLLIN};
    cr_assert_eq(poll(&item, 1, SOON_MS), 1);
}

/* Nobody writes anything. */
Test(journal_keep, is_done_while_nothing_is_written)
{
    struct journal *journal = open_kept();
    struct journal_thread *thread = journal_thread_open(&journal, JOURNAL_PACE_SHARED);
    cr_assert_not_null(thread);
    int64_t kept_ns = journal_thread_kept_ns(thread);
    while (atomic_load(&keeps) < KEEPS) {
        wait_for_news(thread);
        cr_assert_eq(journal_thread_news(thread).state, JOURNAL_IS_WELL);
    }
    cr_expect_gt(journal_thread_kept_ns(thread), kept_ns);
    cr_expect_leq(journal_thread_kept_ns(thread), clock_monotonic_ns());
    journal_thread_close(&thread);
}

/* The last sign counts from before it was given, and a store that answers no more is not kept. */
Test(journal_keep, ends_the_thread_when_another_has_the_disk)
{
    struct journal *journal = open_kept();
    struct journal_thread *thread = journal_thread_open(&journal, JOURNAL_PACE_SHARED);
    cr_assert_not_null(thread);
    int64_t kept_ns = journal_thread_kept_ns(thread);
    atomic_store(&answer, -DISK_FENCED);
    while (journal_thread_news(thread).state != JOURNAL_IS_FAILED)
        wait_for_news(thread);
    cr_expect_eq(atomic_load(&keeps), 1);
    cr_expect_eq(journal_thread_kept_ns(thread), kept_ns);
    cr_expect_not_null(strstr(journal_thread_complaint(thread), "another broker has taken over"));
    journal_thread_close(&thread);
}

static void give(struct journal_thread *thread, uint64_t number, unsigned how)
{
    uint8_t body[DRIVER_BODY_MAX];
    struct journal_step *step = journal_step_new(1, DRIVER_BODY_MAX);
    journal_step_add(step, DRIVER_KIND, span_of(body, driver_body(number, body)));
    step->how = how;
    step->is_trim = how != 0;
    step->needed_from = UINT64_MAX;
    uint64_t ticket = journal_thread_give(thread, &step);
    while (journal_thread_news(thread).synced < ticket)
        wait_for_news(thread);
}

/* A trim syncs what it is written with, and the next sync has nothing to do.  So the store may have
 * been silent since the trim began. */
Test(journal_keep, takes_no_sync_without_a_commit_for_a_sign)
{
    uint64_t number = 0;
    struct journal *journal = open_kept();
    struct journal_thread *thread = journal_thread_open(&journal, JOURNAL_PACE_SHARED);
    cr_assert_not_null(thread);
    while (journal_thread_news(thread).first_end == UINT64_MAX)
        give(thread, number++, 0);
    uint64_t first = journal_thread_news(thread).first;
    give(thread, number++, JOURNAL_CHECKPOINT_BEGIN | JOURNAL_CHECKPOINT_END);
    int64_t kept_ns = journal_thread_kept_ns(thread);
    cr_expect_leq(kept_ns, atomic_load(&asked_ns), "nobody was asked then");
    cr_expect_gt(journal_thread_news(thread).first, first, "nothing was trimmed");
    journal_thread_close(&thread);
}

/* A journal on a disk of its own never is too old. */
Test(journal_keep, is_for_ever_where_it_is_not_needed)
{
    struct journal *journal = driver_open(plain);
    struct journal_thread *thread = journal_thread_open(&journal, JOURNAL_PACE_SHARED);
    cr_assert_not_null(thread);
    cr_expect_eq(journal_thread_kept_ns(thread), INT64_MAX);
    journal_thread_close(&thread);
}
