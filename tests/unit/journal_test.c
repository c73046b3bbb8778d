/* SPDX-License-Identifier: MPL-2.0 */
/* journal_test.c -- the journal when nothing goes wrong: what is appended is read, in the
 * same process and the next one; segments follow each other, and go. */
#include "tests/unit/journal_driver.h"

#include "libbus/base/limits.h"

#define SEAL FORMAT_RECORD_BYTES
#define TRIM (FORMAT_RECORD_BYTES + 8)

Test(journal, keeps_what_is_appended_over_many_openings)
{
    struct sim_disk *sim = sim_disk_new(1);
    sim_disk_stint(sim);
    uint64_t number = 0;
    for (size_t i = 0; i < 20; i++) {
        struct journal *journal = driver_open(sim);
        cr_assert_eq(driver_opened.is_new, i == 0);
        cr_assert_str_eq(driver_opened.cut, "");
        cr_assert_eq(journal_id(journal), DRIVER_ID);
        cr_assert_eq(journal_synced(journal), journal_next(journal));
        cr_assert_eq(driver_read_all(journal, 0, 0), number);
        for (size_t count = 1; count < 10; count++) {
            driver_must_append(journal, number, count);
            number += count;
        }
        cr_assert_eq(driver_read_all(journal, 0, 0), number);
        journal_close(&journal);
    }
    cr_expect_gt(driver_count_segments(sim), 4);
    sim_disk_free(&sim);
}

Test(journal, finds_each_record_at_its_position_with_one_read)
{
    struct sim_disk *sim = sim_disk_new(1);
    uint64_t at[64];
    uint8_t body[DRIVER_BODY_MAX];
    uint8_t got[DRIVER_BODY_MAX];
    struct journal *journal = driver_open(sim);
    for (uint64_t i = 0; i < 64; i++)
        cr_assert_eq(driver_append(journal, i, 1, 0, &at[i]), JOURNAL_OK);
    cr_assert_gt(driver_count_segments(sim), 1);
    for (uint64_t i = 0; i < 64; i++) {
        size_t k = (i * 29) % 64;
        size_t bytes = driver_body(k, body);
        cr_assert_eq(journal_fetch(journal, at[k], got, bytes), JOURNAL_OK);
        cr_assert_eq(memcmp(got, body, bytes), 0);
    }
    /* Not there: between records, of another size, the journal's own (a seal), beyond the end. */
    cr_expect_eq(journal_fetch(journal, at[3] + 8, got, 16), JOURNAL_DAMAGED);
    cr_expect(strstr(journal_complaint(journal), DRIVER_FIRST) != NULL);
    cr_expect_eq(journal_fetch(journal, at[3], got, driver_body(3, body) + 1), JOURNAL_DAMAGED);
    for (size_t i = 1; i < 64; i++)
        if (at[i] != at[i - 1] + format_record(driver_body(i - 1, body)))
            cr_expect_eq(journal_fetch(journal, at[i] - SEAL, got, 0), JOURNAL_DAMAGED);
    cr_expect_eq(journal_fetch(journal, journal_next(journal), got, 1), JOURNAL_END);
    journal_close(&journal);
    sim_disk_free(&sim);
}

Test(journal, takes_bodies_of_any_size_up_to_the_limit)
{
    const size_t sizes[] = {
        0,    1,     7,      8,      9,      DRIVER_SEGMENT - 1, DRIVER_SEGMENT, 8191,
        8192, 65537, 262143, 262145, 1000000};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    struct sim_disk *sim = sim_disk_new(1);
    struct journal_record records[COUNT];
    struct journal_found found;
    uint8_t *bytes = malloc(1000000 + COUNT);
    uint64_t at = 0;
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < 1000000 + COUNT; i++)
        bytes[i] = (uint8_t)(i * i >> 3);
    for (size_t i = 0; i < COUNT; i++)
        records[i] = (struct journal_record){(uint16_t)(1 + i), span_of(bytes + i, sizes[i])};
    struct journal *journal = driver_open(sim);
    uint64_t lease = journal_lease(journal);
    cr_assert_eq(journal_append(journal, lease, 0, records, COUNT, 0, NULL), JOURNAL_OK);
    for (size_t i = 0; i < COUNT; i++)
        cr_assert_eq(journal_append(journal, lease, journal_next(journal), &records[i], 1, 0, NULL),
                     JOURNAL_OK);
    journal_close(&journal);
    journal = driver_open(sim);
    for (size_t i = 0; i < 2 * (size_t)COUNT; i++) {
        cr_assert_eq(journal_read(journal, at, &found), JOURNAL_OK);
        cr_assert_eq(found.kind, records[i % COUNT].kind);
        cr_assert(span_equal(found.body, records[i % COUNT].body), "%zu", i);
        at = found.next;
    }
    cr_expect_eq(journal_read(journal, at, &found), JOURNAL_END);
    journal_close(&journal);
    free(bytes);
    sim_disk_free(&sim);
}

/* More pieces than one write takes; and a disk that takes less than it is given. */
Test(journal, writes_a_batch_of_many_large_bodies)
{
    enum { BYTES = 8200, MOST = 130 };
    static uint8_t bytes[MOST + BYTES];
    struct journal_record records[MOST];
    struct sim_disk *sim = sim_disk_new(1);
    struct journal_found found = {.next = 0};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 31);
    for (size_t i = 0; i < MOST; i++)
        records[i] = (struct journal_record){1, span_of(bytes + i, BYTES - i % 9)};
    sim_disk_stint(sim);
    struct journal *journal = driver_open(sim);
    for (size_t count = 30; count <= MOST; count += count < 34 ? 1 : 32)
        cr_assert_eq(journal_append(journal, journal_lease(journal), journal_next(journal), records,
                                    count, 0, NULL),
                     JOURNAL_OK);
    journal_close(&journal);
    journal = driver_open(sim);
    for (size_t count = 30; count <= MOST; count += count < 34 ? 1 : 32)
        for (size_t i = 0; i < count; i++) {
            cr_assert_eq(journal_read(journal, found.next, &found), JOURNAL_OK);
            cr_assert(span_equal(found.body, records[i].body));
        }
    cr_expect_eq(journal_read(journal, found.next, &found), JOURNAL_END);
    journal_close(&journal);
    sim_disk_free(&sim);
}

Test(journal, has_few_files_open_and_in_the_end_none)
{
    enum { COUNT = 5000 };
    static uint64_t at[COUNT];
    uint8_t body[DRIVER_BODY_MAX];
    uint8_t got[DRIVER_BODY_MAX];
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = driver_open(sim);
    for (uint64_t i = 0; i < COUNT; i++)
        cr_assert_eq(driver_append(journal, i, 1, 0, &at[i]), JOURNAL_OK);
    cr_assert_gt(driver_count_segments(sim), 150);
    cr_expect_eq(driver_read_all(journal, 0, 0), COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        size_t k = (i * 2971) % COUNT;
        size_t bytes = driver_body(k, body);
        cr_assert_eq(journal_fetch(journal, at[k], got, bytes), JOURNAL_OK);
        cr_assert_eq(memcmp(got, body, bytes), 0);
        cr_assert_leq(sim_disk_handles(sim), 130);
    }
    cr_expect_gt(sim_disk_handles(sim), 100);
    cr_assert_eq(journal_trim(journal, journal_next(journal)), JOURNAL_OK);
    cr_expect_leq(sim_disk_handles(sim), 2);
    journal_close(&journal);
    cr_expect_eq(sim_disk_handles(sim), 0);
    sim_disk_free(&sim);
}

Test(journal, refuses_a_batch_that_is_larger_than_the_limit)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = driver_open(sim);
    uint64_t lease = journal_lease(journal);
    size_t most = LIMIT_JOURNAL_BATCH_BYTES - FORMAT_RECORD_BYTES;
    uint8_t *bytes = calloc(1, most + 1);
    cr_assert_not_null(bytes);
    struct journal_record record = {1, span_of(bytes, most + 1)};
    cr_expect_eq(journal_append(journal, lease, 0, &record, 1, 0, NULL), JOURNAL_LIMIT);
    struct journal_record two[] = {{1, span_of(bytes, most)}, {1, SPAN_NONE}};
    cr_expect_eq(journal_append(journal, lease, 0, two, 2, 0, NULL), JOURNAL_LIMIT);
    cr_expect_eq(journal_next(journal), 0);
    cr_expect_eq(journal_append(journal, lease, 0, two, 1, 0, NULL), JOURNAL_OK);
    journal_close(&journal);
    free(bytes);
    sim_disk_free(&sim);
}

Test(journal, refuses_segments_beyond_their_limits)
{
    const struct {
        uint64_t bytes;
        enum journal_err err;
    } cases[] = {{LIMIT_JOURNAL_SEGMENT_BYTES_MIN - 1, JOURNAL_LIMIT},
                 {LIMIT_JOURNAL_SEGMENT_BYTES_MIN, JOURNAL_OK},
                 {LIMIT_JOURNAL_SEGMENT_BYTES_MIN + 1, JOURNAL_OK},
                 {LIMIT_JOURNAL_SEGMENT_BYTES_MAX + 1, JOURNAL_LIMIT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sim_disk *sim = sim_disk_new(1);
        struct disk *disk = sim_disk_open(sim);
        struct journal *journal = NULL;
        struct journal_options options = {.may_create = true, .segment_bytes = cases[i].bytes};
        cr_expect_eq(journal_open_disk(&disk, &options, &journal, &driver_opened, driver_complaint),
                     cases[i].err);
        cr_expect_eq(journal != NULL, cases[i].err == JOURNAL_OK);
        journal_close(&journal);
        sim_disk_free(&sim);
    }
}

/* A batch that just fits stays; one step more goes into the next segment. */
Test(journal, changes_segments_where_a_batch_does_not_fit)
{
    const size_t room = DRIVER_SEGMENT - FORMAT_SEGMENT_BYTES - TRIM - SEAL - FORMAT_RECORD_BYTES;
    static const uint8_t bytes[DRIVER_SEGMENT];
    for (size_t body = room - 8; body <= room + 8; body += 8) {
        for (size_t before = 0; before < 2; before++) {
            struct sim_disk *sim = sim_disk_new(1);
            struct journal *journal = driver_open(sim);
            struct journal_record small = {1, SPAN_NONE};
            struct journal_record large = {2, span_of(bytes, body - before * FORMAT_RECORD_BYTES)};
            struct journal_found found;
            uint64_t at = 0;
            if (before > 0)
                cr_assert_eq(journal_append(journal, journal_lease(journal), 0, &small, 1, 0, NULL),
                             JOURNAL_OK);
            cr_assert_eq(journal_append(journal, journal_lease(journal), journal_next(journal),
                                        &large, 1, 0, &at),
                         JOURNAL_OK);
            bool is_rolled = body > room;
            cr_expect_eq(driver_count_segments(sim), is_rolled ? 2 : 1, "%zu of %zu", body, room);
            cr_expect_eq(at, before * FORMAT_RECORD_BYTES + (is_rolled ? SEAL : 0));
            journal_close(&journal);
            journal = driver_open(sim);
            cr_expect_str_eq(driver_opened.cut, "");
            cr_expect_eq(journal_read(journal, at, &found), JOURNAL_OK);
            cr_expect_eq(found.body.bytes, large.body.bytes);
            journal_close(&journal);
            sim_disk_free(&sim);
        }
    }
}

Test(journal, trims_whole_segments_and_nothing_else)
{
    struct sim_disk *sim = sim_disk_new(1);
    uint64_t at[200];
    struct journal *journal = driver_open(sim);
    for (uint64_t i = 0; i < 200; i++)
        cr_assert_eq(driver_append(journal, i, 1, 0, &at[i]), JOURNAL_OK);
    size_t count = driver_count_segments(sim);
    cr_assert_gt(count, 5);
    cr_assert_eq(journal_trim(journal, 0), JOURNAL_OK);
    cr_assert_eq(driver_count_segments(sim), count);
    for (uint64_t i = 0; i < 200; i++) {
        struct journal_found found;
        cr_assert_eq(journal_trim(journal, at[i]), JOURNAL_OK);
        cr_assert_leq(journal_first(journal), at[i]);
        cr_assert_eq(driver_read_all(journal, at[i], i), 200);
        if (journal_first(journal) > 0)
            cr_assert_eq(journal_read(journal, journal_first(journal) - 8, &found), JOURNAL_END);
        /* One segment more would have gone too far. */
        uint64_t first_number = driver_first_number(journal);
        cr_assert_leq(first_number, i);
        cr_assert_lt(at[i] - at[first_number], 2 * DRIVER_SEGMENT);
    }
    cr_expect_leq(driver_count_segments(sim), 3);
    journal_close(&journal);
    journal = driver_open(sim);
    cr_expect_str_eq(driver_opened.cut, "");
    uint64_t number = driver_first_number(journal);
    cr_expect_gt(number, 100);
    cr_expect_eq(driver_read_all(journal, journal_first(journal), number), 200);
    cr_expect_eq(journal_trim(journal, journal_next(journal) + 8), JOURNAL_POSITION);
    journal_close(&journal);
    sim_disk_free(&sim);
}

Test(journal, begins_a_replay_at_the_newest_whole_checkpoint)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct journal_found found;
    uint64_t begins[2] = {0};
    uint64_t at = 0;
    struct journal *journal = driver_open(sim);
    driver_must_append(journal, 0, 3);
    cr_expect_eq(journal_start(journal), 0);
    cr_assert_eq(driver_append(journal, 3, 2, JOURNAL_CHECKPOINT_BEGIN, begins), JOURNAL_OK);
    uint64_t begin = begins[0];
    driver_must_append(journal, 5, 1);
    cr_expect_eq(journal_start(journal), 0);
    cr_assert_eq(driver_append(journal, 6, 2, JOURNAL_CHECKPOINT_END, NULL), JOURNAL_OK);
    cr_expect_eq(journal_start(journal), begin);
    cr_assert_eq(driver_append(journal, 8, 1, JOURNAL_CHECKPOINT_BEGIN, NULL), JOURNAL_OK);
    cr_expect_eq(journal_start(journal), begin);
    journal_close(&journal);

    journal = driver_open(sim);
    cr_expect_eq(journal_start(journal), begin);
    at = begin;
    for (uint64_t number = 3; number < 9; number++) {
        cr_assert_eq(journal_read(journal, at, &found), JOURNAL_OK);
        cr_expect_eq(found.is_begin, number == 3 || number == 8);
        cr_expect_eq(found.is_end, number == 7);
        at = found.next;
    }
    /* An end finishes what began before this process. */
    cr_assert_eq(driver_append(journal, 9, 1, JOURNAL_CHECKPOINT_END, NULL), JOURNAL_OK);
    cr_expect_gt(journal_start(journal), begin);
    cr_assert_eq(
        driver_append(journal, 10, 1, JOURNAL_CHECKPOINT_BEGIN | JOURNAL_CHECKPOINT_END, &at),
        JOURNAL_OK);
    cr_expect_eq(journal_start(journal), at);
    journal_close(&journal);
    sim_disk_free(&sim);
}

Test(journal, lets_go_of_what_is_older_than_a_checkpoint)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = driver_open(sim);
    uint64_t begin = 0;
    for (uint64_t number = 0; number < 1000; number += 50) {
        for (uint64_t i = 0; i < 49; i++)
            driver_must_append(journal, number + i, 1);
        cr_assert_eq(driver_append(journal, number + 49, 1,
                                   JOURNAL_CHECKPOINT_BEGIN | JOURNAL_CHECKPOINT_END, &begin),
                     JOURNAL_OK);
        cr_assert_eq(journal_trim(journal, journal_start(journal)), JOURNAL_OK);
        cr_assert_leq(driver_count_segments(sim), 2);
        cr_assert_eq(journal_start(journal), begin);
    }
    journal_close(&journal);
    sim_disk_free(&sim);
}

/* What stands before an acknowledgement: the write, then the sync of the same file. */
Test(journal, syncs_before_it_says_so)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = driver_open(sim);
    (void)sim_disk_told(sim);
    driver_must_append(journal, 0, 1);
    cr_expect_str_eq(sim_disk_told(sim), "w");
    cr_expect_eq(journal_synced(journal), 0);
    driver_must_append(journal, 1, 1);
    driver_must_sync(journal);
    cr_expect_str_eq(sim_disk_told(sim), "ws");
    cr_expect_eq(journal_synced(journal), journal_next(journal));
    driver_must_sync(journal);
    cr_expect_str_eq(sim_disk_told(sim), ""); /* it is there already */
    journal_close(&journal);
    sim_disk_free(&sim);
}

/* The old segment, the new one, its name, the seal; only then the record. */
Test(journal, syncs_a_segment_before_anything_stands_in_the_next)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = driver_open(sim);
    const char *told = "";
    uint64_t number = 0;
    (void)sim_disk_told(sim);
    while (driver_count_segments(sim) == 1) {
        driver_must_append(journal, number++, 1);
        told = sim_disk_told(sim);
    }
    cr_expect_str_eq(told, "s" /* the old one */
                           "of"
                           "wsrn" /* the new one */
                           "ws"   /* the seal */
                           "w");
    cr_assert_eq(journal_trim(journal, journal_next(journal)), JOURNAL_OK);
    cr_expect_str_eq(sim_disk_told(sim), "wsun");
    journal_close(&journal);
    sim_disk_free(&sim);
}

/* Every 4 MiB, and of what a sync brought there already nothing. */
Test(journal, pushes_what_is_not_synced_in_the_meantime)
{
    static const uint8_t bytes[1 << 20];
    struct sim_disk *sim = sim_disk_new(1);
    struct disk *disk = sim_disk_open(sim);
    struct journal *journal = NULL;
    struct journal_options options = {.may_create = true};
    struct journal_record record = {1, span_of(bytes, sizeof bytes)};
    const char *expected[] = {"w", "w", "w", "wp", "w", "w", "w", "wp", "ws", "w", "w", "w", "wp"};
    cr_assert_eq(journal_open_disk(&disk, &options, &journal, &driver_opened, driver_complaint),
                 JOURNAL_OK);
    (void)sim_disk_told(sim);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        cr_assert_eq(journal_append(journal, journal_lease(journal), journal_next(journal), &record,
                                    1, 0, NULL),
                     JOURNAL_OK);
        if (i == 8)
            driver_must_sync(journal);
        cr_expect_str_eq(sim_disk_told(sim), expected[i], "%zu", i);
    }
    journal_close(&journal);
    sim_disk_free(&sim);
}

Test(journal, lets_in_one_process_at_a_time)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = NULL;
    struct disk_owner owner = {.lease = 0};
    struct disk *disk = sim_disk_open(sim);
    struct journal_options options = {.may_create = true};
    cr_assert_eq(disk->ops->lock(disk, false, &owner), 0);
    cr_expect_eq(journal_open_disk(&disk, &options, &journal, &driver_opened, driver_complaint),
                 JOURNAL_LOCKED);
    cr_expect_str_eq(driver_complaint, "another broker (process 4711) has the journal in 'sim': "
                                       "one directory, one broker");
    cr_expect_null(sim_disk_name(sim, 0));
    sim_disk_free(&sim);
}

Test(journal, is_made_only_where_it_may_be)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = NULL;
    cr_expect_eq(driver_try(sim, false, &journal), JOURNAL_MISSING);
    cr_expect_str_eq(driver_complaint, "there is no journal in 'sim'");
    cr_expect_null(sim_disk_name(sim, 0));
    journal = driver_open(sim);
    journal_close(&journal);
    cr_expect_eq(driver_try(sim, false, &journal), JOURNAL_OK);
    journal_close(&journal);
    sim_disk_free(&sim);
}
