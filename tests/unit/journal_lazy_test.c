/* SPDX-License-Identifier: MPL-2.0 */
/* journal_lazy_test.c -- a journal that is not synced as it goes: what a power failure, or a flaw
 * of the disk, leaves of several segments.  What was flushed is there or missed in words; what was
 * not is cut where the first of it is missing, with all that lies behind. */
#include "tests/unit/journal_driver.h"

#include "broker/journal/proof.h"

#include <errno.h>

enum { FLUSHED = 40, RECORDS = 130, SEGMENTS_MAX = 16 };

/* The process is gone, what it wrote is there. */
static void kill_it(struct sim_disk *sim, struct journal **journal)
{
    sim_disk_stop_after(sim, 0);
    journal_close(journal);
    sim_disk_kill(sim);
    sim_disk_stop_after(sim, SIM_NO_LIMIT);
}

/* Five segments or so: records up to FLUSHED are on the disk, the others are not. */
static struct sim_disk *make_journal(uint64_t *at_of)
{
    struct sim_disk *sim = sim_disk_new(5);
    struct journal *journal = driver_open_as(sim, true);
    for (uint64_t i = 0; i < RECORDS; i++) {
        cr_assert_eq(driver_append(journal, i, 1, 0, &at_of[i]), JOURNAL_OK);
        if (i + 1 == FLUSHED)
            driver_must_sync(journal);
    }
    at_of[RECORDS] = journal_next(journal);
    kill_it(sim, &journal);
    return sim;
}

/* Opens it, goes on with other records at the places of those that were cut, and opens it again:
 * what was recovered once is whole, and nothing of what was cut comes back. */
static struct driver_outcome try_it(struct sim_disk *sim, bool is_lazy)
{
    struct journal *journal = NULL;
    struct driver_outcome outcome = driver_recover(sim, true, is_lazy, &journal);
    if (journal == NULL)
        return outcome;
    uint64_t number = outcome.number;
    for (; number < outcome.number + 30; number++)
        driver_must_append(journal, number, 1);
    kill_it(sim, &journal);
    journal = driver_open_as(sim, !is_lazy);
    cr_assert_str_eq(driver_opened.cut, "");
    cr_assert_eq(driver_read_all(journal, journal_first(journal), 0), number);
    journal_close(&journal);
    return outcome;
}

/* Files by position; how many. */
static size_t list_segments(const struct sim_disk *sim, uint64_t *firsts)
{
    size_t count = 0;
    for (size_t i = 0; sim_disk_name(sim, i) != NULL; i++)
        if (segment_name_read(sim_disk_name(sim, i), &firsts[count]))
            count++;
    cr_assert(count < SEGMENTS_MAX);
    return count;
}

static uint8_t *file_at(struct sim_disk *sim, uint64_t first, char *name, size_t *out_bytes)
{
    segment_name_write(first, name);
    uint8_t *bytes = sim_disk_file(sim, name, out_bytes);
    cr_assert_not_null(bytes);
    return bytes;
}

/* What a position would be without it: the first record that is not whole. */
static uint64_t number_at(const uint64_t *at_of, uint64_t at)
{
    uint64_t number = 0;
    while (number < RECORDS && at_of[number + 1] <= at)
        number++;
    return number;
}

static uint64_t segment_of(const uint64_t *firsts, size_t count, uint64_t at)
{
    size_t i = count - 1;
    while (firsts[i] > at)
        i--;
    return firsts[i];
}

struct made {
    struct sim_disk *sim;
    uint64_t at_of[RECORDS + 1]; /* position of each record, and of the end */
    uint64_t firsts[SEGMENTS_MAX];
    size_t count; /* of segments */
};

static struct made make_segments(void)
{
    struct made made = {0};
    made.sim = make_journal(made.at_of);
    made.count = list_segments(made.sim, made.firsts);
    return made;
}

TestSuite(journal_lazy);

Test(journal_lazy, has_all_after_a_kill_and_says_nothing)
{
    uint64_t at_of[RECORDS + 1];
    for (int is_lazy = 0; is_lazy < 2; is_lazy++) {
        struct sim_disk *sim = make_journal(at_of);
        uint64_t firsts[SEGMENTS_MAX];
        cr_assert_gt(list_segments(sim, firsts), 4);
        struct driver_outcome outcome = try_it(sim, is_lazy == 1);
        cr_assert_eq(outcome.err, JOURNAL_OK, "%s", driver_complaint);
        cr_assert_eq(outcome.number, RECORDS);
        cr_assert_not(outcome.is_told);
        sim_disk_free(&sim);
    }
}

/* Nothing from a byte on, over all segments: the last one that is left ends in the middle. */
Test(journal_lazy, is_cut_where_it_ends_in_whichever_segment)
{
    struct made made = make_segments();
    char name[FORMAT_NAME_BYTES];
    for (uint64_t at = made.at_of[FLUSHED]; at < made.at_of[RECORDS]; at++) {
        struct sim_disk *spoiled = sim_disk_clone(made.sim, 1);
        uint64_t first = segment_of(made.firsts, made.count, at);
        size_t bytes = 0;
        for (size_t i = 0; i < made.count; i++)
            if (made.firsts[i] > first) {
                segment_name_write(made.firsts[i], name);
                sim_disk_remove(spoiled, name);
            }
        uint8_t *file = file_at(spoiled, first, name, &bytes);
        size_t offset = (size_t)(FORMAT_SEGMENT_BYTES + at - first);
        memset(file + offset, 0, bytes - offset);
        struct driver_outcome outcome = try_it(spoiled, at % 2 == 0);
        cr_assert_eq(outcome.err, JOURNAL_OK, "%llu: %s", (unsigned long long)at, driver_complaint);
        /* A record may end in zeros. */
        uint64_t number = number_at(made.at_of, at);
        cr_assert(outcome.number == number || outcome.number == number + 1, "%llu: %llu",
                  (unsigned long long)at, (unsigned long long)outcome.number);
        sim_disk_free(&spoiled);
    }
    sim_disk_free(&made.sim);
}

/* Later segments are on the disk, an earlier one lost some: all behind the hole goes, and says so.
 * Where the hole lies in what was flushed, it is damage. */
Test(journal_lazy, is_cut_at_a_hole_with_all_that_lies_behind)
{
    uint64_t at_of[RECORDS + 1];
    uint64_t firsts[SEGMENTS_MAX];
    char name[FORMAT_NAME_BYTES];
    size_t wide = 0;
    size_t refusals = 0;
    struct sim_disk *sim = make_journal(at_of);
    size_t count = list_segments(sim, firsts);
    for (uint64_t number = 0; number < RECORDS; number++) {
        struct sim_disk *spoiled = sim_disk_clone(sim, 1);
        size_t bytes = 0;
        uint64_t first = segment_of(firsts, count, at_of[number]);
        size_t offset = (size_t)(FORMAT_SEGMENT_BYTES + at_of[number] - first);
        uint8_t *file = file_at(spoiled, first, name, &bytes);
        memset(file + offset, number % 2 == 0 ? 0 : 0xa5, 16);
        struct driver_outcome outcome = try_it(spoiled, number % 4 < 2);
        if (number < FLUSHED) {
            cr_assert_eq(outcome.err, JOURNAL_DAMAGED);
            cr_assert(strstr(driver_complaint, name) != NULL, "%s", driver_complaint);
            cr_assert(strstr(driver_complaint, "is damaged at position") != NULL, "%s",
                      driver_complaint);
            refusals++;
        } else {
            cr_assert_eq(outcome.err, JOURNAL_OK, "%s", driver_complaint);
            cr_assert_eq(outcome.number, number);
            cr_assert(outcome.is_told);
            wide += first != firsts[count - 1];
        }
        sim_disk_free(&spoiled);
    }
    cr_expect(wide > 30 && refusals == FLUSHED);
    sim_disk_free(&sim);
}

/* Blocks of zeros anywhere: never less than was flushed without a refusal, never a gap. */
Test(journal_lazy, loses_no_more_than_what_was_not_flushed_to_zeroed_blocks)
{
    struct made made = make_segments();
    char name[FORMAT_NAME_BYTES];
    for (size_t block = 64; block <= 4096; block *= 4) {
        for (size_t i = 0; i < made.count; i++) {
            for (size_t at = 0; at < DRIVER_SEGMENT; at += block) {
                struct sim_disk *spoiled = sim_disk_clone(made.sim, 1);
                size_t bytes = 0;
                memset(file_at(spoiled, made.firsts[i], name, &bytes) + at, 0, block);
                struct driver_outcome outcome = try_it(spoiled, i % 2 == 0);
                bool is_flushed = made.firsts[i] + at + block <= made.at_of[FLUSHED];
                cr_assert(outcome.err == JOURNAL_OK || outcome.err == JOURNAL_DAMAGED);
                cr_assert(outcome.err != JOURNAL_OK || outcome.number >= FLUSHED,
                          "%zu at %zu of %s", block, at, name);
                cr_assert(outcome.err != JOURNAL_OK || outcome.number == RECORDS ||
                          (outcome.is_told && !is_flushed));
                cr_assert(outcome.err == JOURNAL_OK || made.firsts[i] < made.at_of[FLUSHED],
                          "%zu at %zu: %s", block, at, driver_complaint);
                sim_disk_free(&spoiled);
            }
        }
    }
    sim_disk_free(&made.sim);
}

/* One file, whichever, is gone, empty, short, or has no head. */
Test(journal_lazy, misses_a_file_that_was_flushed_and_cuts_at_one_that_was_not)
{
    enum { GONE, EMPTY, SHORT, HEADLESS, HOWS };
    struct made made = make_segments();
    char name[FORMAT_NAME_BYTES];
    for (size_t i = 0; i < made.count; i++) {
        for (int how = GONE; how < HOWS; how++) {
            struct sim_disk *spoiled = sim_disk_clone(made.sim, 1);
            size_t bytes = 0;
            uint8_t *file = file_at(spoiled, made.firsts[i], name, &bytes);
            switch (how) {
            case GONE: sim_disk_remove(spoiled, name); break;
            case EMPTY: sim_disk_cut(spoiled, name, 0); break;
            case SHORT: sim_disk_cut(spoiled, name, 1000); break;
            default: memset(file, 0, FORMAT_SEGMENT_BYTES); break;
            }
            struct driver_outcome outcome = try_it(spoiled, i % 2 == 0);
            if (made.firsts[i] < made.at_of[FLUSHED] &&
                (how != SHORT ||
                 made.firsts[i] + 1000 - FORMAT_SEGMENT_BYTES < made.at_of[FLUSHED])) {
                cr_assert_eq(outcome.err, JOURNAL_DAMAGED, "%s, %d", name, how);
            } else {
                cr_assert_eq(outcome.err, JOURNAL_OK, "%s, %d: %s", name, how, driver_complaint);
                cr_assert(outcome.is_told);
                uint64_t least = number_at(made.at_of, made.firsts[i]);
                cr_assert(how == SHORT ? outcome.number >= least : outcome.number == least,
                          "%s, %d: %llu", name, how, (unsigned long long)outcome.number);
            }
            sim_disk_free(&spoiled);
        }
    }
    sim_disk_free(&made.sim);
}

/* Without the proof nothing is guessed: it is whole, or refused. */
Test(journal_lazy, refuses_what_it_cannot_judge_without_its_proof)
{
    struct made made = make_segments();
    char name[FORMAT_NAME_BYTES];
    size_t bytes = 0;
    sim_disk_remove(made.sim, PROOF_NAME);
    struct sim_disk *whole = sim_disk_clone(made.sim, 1);
    struct driver_outcome outcome = try_it(whole, true);
    cr_assert(outcome.err == JOURNAL_OK && outcome.number == RECORDS && !outcome.is_told);
    sim_disk_free(&whole);
    memset(file_at(made.sim, made.firsts[made.count - 2], name, &bytes) + 2000, 0, 600);
    cr_assert_eq(try_it(made.sim, true).err, JOURNAL_DAMAGED);
    cr_assert(strstr(driver_complaint, name) != NULL, "%s", driver_complaint);
    sim_disk_free(&made.sim);
}

/* The proof has two places, so one may be spoiled; then the one before it holds. */
Test(journal_lazy, believes_no_proof_with_any_bit_changed)
{
    struct made made = make_segments();
    char name[FORMAT_NAME_BYTES];
    size_t bytes = 0;
    memset(file_at(made.sim, made.firsts[made.count - 1], name, &bytes) + 500, 0, 1000);
    (void)sim_disk_file(made.sim, PROOF_NAME, &bytes);
    for (size_t at = 0; at < bytes; at++) {
        struct sim_disk *spoiled = sim_disk_clone(made.sim, 1);
        sim_disk_file(spoiled, PROOF_NAME, &bytes)[at] ^= (uint8_t)(1u << at % 8);
        struct driver_outcome outcome = try_it(spoiled, true);
        cr_assert_eq(outcome.err, JOURNAL_OK, "%zu: %s", at, driver_complaint);
        cr_assert(outcome.is_told && outcome.number > FLUSHED, "%zu", at);
        sim_disk_free(&spoiled);
    }
    sim_disk_free(&made.sim);
}

/* The newest proof is what tells that the newest files are gone. */
Test(journal_lazy, misses_all_its_files)
{
    struct made made = make_segments();
    char name[FORMAT_NAME_BYTES];
    for (size_t i = 0; i < made.count; i++) {
        segment_name_write(made.firsts[i], name);
        sim_disk_remove(made.sim, name);
    }
    cr_assert_eq(try_it(made.sim, true).err, JOURNAL_DAMAGED);
    sim_disk_free(&made.sim);
}

/* ---- flushing -------------------------------------------------------------------------------- */

Test(journal_lazy, syncs_nothing_but_by_a_flush)
{
    struct sim_disk *sim = sim_disk_new(5);
    struct journal *journal = driver_open_as(sim, true);
    (void)sim_disk_told(sim);
    for (uint64_t i = 0; i < RECORDS; i++)
        driver_must_append(journal, i, 1);
    const char *told = sim_disk_told(sim);
    cr_expect(strpbrk(told, "snp") == NULL, "%s", told);
    cr_expect_eq(journal_synced(journal), 0);
    struct journal_flush *flush = NULL;
    uint64_t until = journal_next(journal);
    cr_assert_eq(journal_flush_begin(journal, &flush), JOURNAL_OK);
    cr_assert_not_null(flush);
    driver_must_append(journal, RECORDS, 1);
    (void)sim_disk_told(sim);
    journal_flush_run(flush);
    told = sim_disk_told(sim);
    cr_expect_eq(journal_synced(journal), 0);
    cr_assert_eq(journal_flush_end(journal, &flush), JOURNAL_OK);
    cr_expect_null(flush);
    cr_expect_eq(journal_synced(journal), until);
    /* Segments, then names, then the proof and its sync. */
    size_t syncs = strspn(told, "s");
    cr_expect(syncs > 4 && strcmp(told + syncs, "nws") == 0, "%s", told);
    cr_assert_eq(journal_flush_begin(journal, &flush), JOURNAL_OK);
    cr_assert_not_null(flush); /* what came meanwhile */
    journal_flush_run(flush);
    cr_assert_eq(journal_flush_end(journal, &flush), JOURNAL_OK);
    cr_assert_eq(journal_flush_begin(journal, &flush), JOURNAL_OK);
    cr_expect_null(flush);
    journal_close(&journal);
    sim_disk_free(&sim);
}

static const char *sync_told(struct sim_disk *sim, struct journal *journal)
{
    struct journal_flush *flush = NULL;
    (void)sim_disk_told(sim);
    cr_assert_eq(journal_sync_begin(journal, &flush), JOURNAL_OK);
    cr_assert_not_null(flush);
    journal_flush_run(flush);
    cr_assert_eq(journal_flush_end(journal, &flush), JOURNAL_OK);
    cr_assert_eq(journal_synced(journal), journal_next(journal));
    return sim_disk_told(sim);
}

/* The proof tells that there is a newer file, which nothing else would tell if it were gone. */
Test(journal_lazy, syncs_with_a_proof_where_names_have_changed_alone)
{
    struct sim_disk *sim = sim_disk_new(5);
    struct journal *journal = driver_open_as(sim, true);
    uint64_t firsts[SEGMENTS_MAX];
    char name[FORMAT_NAME_BYTES];
    uint64_t number = 0;
    driver_must_append(journal, number++, 1);
    (void)sync_told(sim, journal); /* its first names */
    driver_must_append(journal, number++, 1);
    cr_expect_str_eq(sync_told(sim, journal), "s");
    while (list_segments(sim, firsts) < 2)
        driver_must_append(journal, number++, 1);
    cr_expect_str_eq(sync_told(sim, journal), "ssnws");
    sim_disk_stop_after(sim, 0);
    journal_close(&journal);
    sim_disk_crash(sim);
    segment_name_write(firsts[1], name);
    sim_disk_remove(sim, name);
    cr_expect_eq(driver_try_as(sim, true, true, &journal), JOURNAL_DAMAGED);
    sim_disk_free(&sim);
}

/* What was given up does not reach the disk on its way out. */
Test(journal_lazy, lets_go_of_what_was_given_up_without_a_sync)
{
    struct sim_disk *sim = sim_disk_new(5);
    struct journal *journal = driver_open_as(sim, true);
    uint64_t firsts[SEGMENTS_MAX];
    uint64_t at = 0;
    for (uint64_t i = 0; i < RECORDS; i++)
        cr_assert_eq(driver_append(journal, i, 1, 0, &at), JOURNAL_OK);
    size_t before = list_segments(sim, firsts);
    cr_assert_eq(journal_trim(journal, at), JOURNAL_OK);
    cr_expect_eq(list_segments(sim, firsts), before); /* not before the trim is on the disk */
    struct journal_flush *flush = NULL;
    cr_assert_eq(journal_flush_begin(journal, &flush), JOURNAL_OK);
    (void)sim_disk_told(sim);
    journal_flush_run(flush);
    const char *told = sim_disk_told(sim);
    cr_expect(strncmp(told, "snwsrrrr", 8) == 0, "%s", told); /* their files are kept */
    cr_assert_eq(journal_flush_end(journal, &flush), JOURNAL_OK);
    cr_expect_eq(list_segments(sim, firsts), 1);
    cr_expect_eq(journal_first(journal), firsts[0]);
    cr_expect_leq(journal_first(journal), at);
    journal_close(&journal);
    cr_expect_eq(sim_disk_handles(sim), 0);
    sim_disk_free(&sim);
}

static bool is_reused(struct sim_disk *sim, uint64_t first)
{
    char name[FORMAT_NAME_BYTES];
    size_t bytes = 0;
    struct segment_head head;
    const uint8_t *file = file_at(sim, first, name, &bytes);
    cr_assert_eq(segment_head_read(file, &head), SEGMENT_GOOD);
    cr_assert_eq(head.first, first);
    return head.is_reused;
}

/* Records and trims until the last segment is a file that was another one before, and only so far
 * that most of that is there still.  Returns how many records there are. */
static uint64_t go_round(struct sim_disk *sim, struct journal *journal)
{
    uint64_t firsts[SEGMENTS_MAX];
    uint64_t number = 0;
    uint64_t at = 0;
    for (; number < RECORDS; number++)
        cr_assert_eq(driver_append(journal, number, 1, 0, &at), JOURNAL_OK);
    cr_assert_eq(journal_trim(journal, at), JOURNAL_OK);
    driver_must_sync(journal);
    size_t count = list_segments(sim, firsts);
    cr_assert_not(is_reused(sim, firsts[count - 1]));
    do {
        driver_must_append(journal, number++, 1);
        count = list_segments(sim, firsts);
        cr_assert_lt(number, 2 * RECORDS);
    } while (!is_reused(sim, firsts[count - 1]));
    return number;
}

/* What a file was before passes for nothing, and is no torn tail; a batch that was cut off is. */
Test(journal_lazy, writes_over_what_it_gave_up)
{
    for (int how = 0; how < 4; how++) {
        struct sim_disk *sim = sim_disk_new(5);
        struct journal *journal = driver_open_as(sim, true);
        uint64_t firsts[SEGMENTS_MAX];
        char name[FORMAT_NAME_BYTES];
        size_t bytes = 0;
        uint64_t number = go_round(sim, journal);
        uint64_t end = journal_next(journal);
        driver_must_append(journal, number, 1);
        kill_it(sim, &journal);
        size_t count = list_segments(sim, firsts);
        uint8_t *last = file_at(sim, firsts[count - 1], name, &bytes);
        bool is_stale = false;
        for (size_t i = FORMAT_SEGMENT_BYTES + (size_t)(end - firsts[count - 1]) + 500; i < bytes;
             i++)
            is_stale = is_stale || last[i] != 0;
        cr_assert(is_stale);
        if (how >= 2) /* the last batch, but for its first bytes, or for its last one */
            last[FORMAT_SEGMENT_BYTES + end - firsts[count - 1] + (how == 2 ? 3 : 25)] ^= 1;
        journal = driver_open_as(sim, how % 2 == 0);
        cr_expect_eq(driver_opened.cut[0] != '\0', how >= 2, "%d: %s", how, driver_opened.cut);
        number += how < 2;
        uint64_t first = journal_first(journal);
        cr_expect_eq(driver_read_all(journal, first, driver_first_number(journal)), number);
        for (uint64_t i = 0; i < 30; i++)
            driver_must_append(journal, number++, 1);
        kill_it(sim, &journal);
        journal = driver_open_as(sim, true);
        cr_expect_str_eq(driver_opened.cut, "");
        cr_expect_eq(driver_read_all(journal, first, driver_first_number(journal)), number);
        for (size_t i = 0; sim_disk_name(sim, i) != NULL; i++)
            cr_expect(strncmp(sim_disk_name(sim, i), LAYOUT_KEPT, strlen(LAYOUT_KEPT)) != 0);
        journal_close(&journal);
        sim_disk_free(&sim);
    }
}

/* What a file was before need not get to the disk: nobody looks at it. */
Test(journal_lazy, flushes_what_was_written_and_not_what_was_there_before)
{
    struct sim_disk *sim = sim_disk_new(5);
    struct journal *journal = driver_open_as(sim, true);
    uint64_t firsts[SEGMENTS_MAX];
    char name[FORMAT_NAME_BYTES];
    (void)go_round(sim, journal);
    uint64_t last = firsts[list_segments(sim, firsts) - 1];
    uint64_t until = FORMAT_SEGMENT_BYTES + journal_next(journal) - last + FORMAT_RECORD_BYTES;
    segment_name_write(last, name);
    cr_assert_gt(sim_disk_unsynced(sim, name, until), 0);
    uint64_t all = sim_disk_unsynced(sim, name, UINT64_MAX);
    driver_must_sync(journal);
    cr_expect_eq(sim_disk_unsynced(sim, name, until), 0);
    uint64_t rest = sim_disk_unsynced(sim, name, UINT64_MAX);
    cr_expect_gt(rest, 0);
    cr_expect_lt(rest, all);
    journal_close(&journal);
    sim_disk_free(&sim);
}

/* So that all that stands before it goes with it; where little does, it is not worth a file. */
Test(journal_lazy, begins_a_segment_with_a_checkpoint)
{
    uint64_t firsts[SEGMENTS_MAX];
    uint64_t share = DRIVER_SEGMENT / LAYOUT_BEGIN_SHARE;
    for (int how = 0; how < 4; how++) {
        bool is_lazy = how % 2 == 0;
        struct sim_disk *sim = sim_disk_new(5);
        struct journal *journal = driver_open_as(sim, is_lazy);
        uint64_t at = 0;
        uint8_t body[DRIVER_SEGMENT] = {0};
        /* just so many bytes, heads included, or one step less */
        size_t bytes = share - FORMAT_RECORD_BYTES - (how < 2 ? 0 : FORMAT_ALIGN);
        struct journal_record record = {DRIVER_KIND, span_of(body, bytes)};
        cr_assert_eq(journal_append(journal, journal_lease(journal), 0, &record, 1, 0, NULL),
                     JOURNAL_OK);
        unsigned marks = JOURNAL_CHECKPOINT_BEGIN | JOURNAL_CHECKPOINT_END;
        cr_assert_eq(driver_append(journal, 0, 1, marks, &at), JOURNAL_OK);
        size_t count = list_segments(sim, firsts);
        cr_expect_eq(count, how == 0 ? 2 : 1, "%d", how);
        cr_expect_eq(journal_start(journal), at);
        cr_expect(how != 0 || at == firsts[1]);
        journal_close(&journal);
        sim_disk_free(&sim);
    }
}

/* On a full disk it begins where there is room: a file may be the last that can be had. */
Test(journal_lazy, begins_no_segment_that_the_disk_has_not_to_spare)
{
    uint64_t firsts[SEGMENTS_MAX];
    for (int how = 0; how < 2; how++) {
        struct sim_disk *sim = sim_disk_new(5);
        struct journal *journal = driver_open_as(sim, true);
        uint64_t number = 0;
        while (journal_next(journal) < DRIVER_SEGMENT / 2)
            driver_must_append(journal, number++, 1);
        sim_disk_limit(sim, how == 0 ? 2 * DRIVER_SEGMENT : SIM_NO_LIMIT);
        unsigned marks = JOURNAL_CHECKPOINT_BEGIN | (how == 0 ? 0 : JOURNAL_ESSENTIAL);
        cr_assert_eq(driver_append(journal, number, 1, marks, NULL), JOURNAL_OK);
        driver_must_append(journal, number + 1, 1);
        cr_expect_eq(list_segments(sim, firsts), 1);
        cr_expect_eq(driver_read_all(journal, 0, 0), number + 2);
        journal_close(&journal);
        sim_disk_free(&sim);
    }
}

/* Segments that were given up may be in any state when the machine stops: none counts. */
Test(journal_lazy, does_not_look_at_what_was_given_up)
{
    for (int how = 0; how < 3; how++) {
        struct sim_disk *sim = sim_disk_new(5);
        struct journal *journal = driver_open_as(sim, true);
        uint64_t firsts[SEGMENTS_MAX];
        char name[FORMAT_NAME_BYTES];
        size_t bytes = 0;
        uint64_t at = 0;
        for (uint64_t i = 0; i < RECORDS; i++)
            cr_assert_eq(driver_append(journal, i, 1, 0, &at), JOURNAL_OK);
        cr_assert_eq(journal_trim(journal, at), JOURNAL_OK);
        sim_disk_fault(sim, SIM_RENAME, 0, 100, EIO); /* the names stay */
        sim_disk_fault(sim, SIM_UNLINK, 0, 100, EIO);
        driver_must_sync(journal);
        uint64_t first = journal_first(journal);
        kill_it(sim, &journal);
        size_t count = list_segments(sim, firsts);
        cr_assert_gt(count, 3);
        sim_disk_fault(sim, SIM_RENAME, 0, 0, EIO);
        sim_disk_fault(sim, SIM_UNLINK, 0, 0, EIO);
        for (size_t i = 0; i + 1 < count; i++) {
            uint8_t *file = file_at(sim, firsts[i], name, &bytes);
            if (how == 0)
                memset(file, (int)i, bytes);
            else if (how == 1 && i % 2 == 0)
                sim_disk_remove(sim, name);
            else
                memset(file + 300, 0, 500);
        }
        struct sim_disk *spoiled = sim_disk_clone(sim, 1);
        journal = driver_open_as(spoiled, how % 2 == 0);
        cr_expect_str_eq(driver_opened.cut, "");
        cr_expect_eq(journal_first(journal), first);
        cr_expect_eq(driver_read_all(journal, first, driver_first_number(journal)), RECORDS);
        cr_expect_eq(list_segments(spoiled, firsts), 1);
        journal_close(&journal);
        sim_disk_free(&spoiled);
        sim_disk_free(&sim);
    }
}

Test(journal_lazy, never_says_synced_after_a_flush_that_failed)
{
    for (uint64_t skip = 0; skip < 6; skip++) {
        struct sim_disk *sim = sim_disk_new(5);
        struct journal *journal = driver_open_as(sim, true);
        struct journal_flush *flush = NULL;
        for (uint64_t i = 0; i < 100; i++)
            driver_must_append(journal, i, 1);
        cr_assert_eq(journal_flush_begin(journal, &flush), JOURNAL_OK);
        sim_disk_fault(sim, SIM_SYNC | SIM_SYNC_NAMES, skip, 1, EIO);
        journal_flush_run(flush);
        driver_must_append(journal, 100, 1);
        enum journal_err err = journal_flush_end(journal, &flush);
        if (err == JOURNAL_OK) {
            cr_assert_gt(skip, 3);
        } else {
            cr_assert_eq(err, JOURNAL_FAILED);
            cr_assert_eq(journal_synced(journal), 0);
            cr_assert_eq(driver_append(journal, 101, 1, 0, NULL), JOURNAL_FAILED);
            cr_assert(strstr(journal_complaint(journal), "could not be written to the disk") !=
                      NULL);
        }
        /* All is in the cache; opened anew it is written again, and then a flush is true. */
        kill_it(sim, &journal);
        journal = driver_open_as(sim, true);
        cr_assert_eq(driver_read_all(journal, 0, 0), 101);
        driver_must_sync(journal);
        sim_disk_stop_after(sim, 0);
        journal_close(&journal);
        sim_disk_crash(sim);
        journal = driver_open_as(sim, true);
        cr_assert_eq(driver_read_all(journal, 0, 0), 101);
        journal_close(&journal);
        sim_disk_free(&sim);
    }
}

/* Bytes of all files that the journal counts: segments, what is set aside, what is kept. */
static uint64_t bytes_on_disk(struct sim_disk *sim)
{
    uint64_t sum = 0;
    for (size_t i = 0; sim_disk_name(sim, i) != NULL; i++) {
        size_t bytes = 0;
        if (strcmp(sim_disk_name(sim, i), PROOF_NAME) == 0)
            continue;
        (void)sim_disk_file(sim, sim_disk_name(sim, i), &bytes);
        sum += bytes;
    }
    return sum;
}

/* What a flush takes along is counted until it is gone, and not for ever. */
Test(journal_lazy, says_how_much_of_the_disk_it_has_whatever_went)
{
    struct sim_disk *sim = sim_disk_new(5);
    struct journal *journal = driver_open_as(sim, true);
    uint64_t number = 0;
    for (int round = 0; round < 8; round++) {
        struct journal_flush *flush = NULL;
        for (int i = 0; i < 60; i++)
            driver_must_append(journal, number++, 1);
        cr_assert_eq(journal_trim(journal, journal_next(journal)), JOURNAL_OK);
        cr_assert_eq(journal_flush_begin(journal, &flush), JOURNAL_OK);
        cr_assert_not_null(flush);
        cr_expect_eq(journal_bytes(journal), bytes_on_disk(sim), "before flush %d", round);
        journal_flush_run(flush);
        cr_assert_eq(journal_flush_end(journal, &flush), JOURNAL_OK);
        cr_expect_eq(journal_bytes(journal), bytes_on_disk(sim), "behind flush %d", round);
    }
    journal_close(&journal);
    sim_disk_free(&sim);
}
