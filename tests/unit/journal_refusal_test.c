/* SPDX-License-Identifier: MPL-2.0 */
/* journal_refusal_test.c -- a disk that says no: full, broken, or failing to sync.  What fails
 * leaves nothing behind, what was there stays, and it goes on when the disk does. */
#include "tests/unit/journal_driver.h"

#include <errno.h>

#define SEEDS 60

/* Ends the process and counts what the next one finds. */
static uint64_t count_after_kill(struct sim_disk *sim, struct journal **journal)
{
    sim_disk_stop_after(sim, 0);
    journal_close(journal);
    *journal = driver_open(sim);
    return driver_read_all(*journal, 0, 0);
}

static bool has_name(const struct sim_disk *sim, const char *name)
{
    for (size_t i = 0; sim_disk_name(sim, i) != NULL; i++)
        if (strcmp(sim_disk_name(sim, i), name) == 0)
            return true;
    return false;
}

Test(journal_refusal, leaves_nothing_of_a_batch_that_failed)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_disk *sim = sim_disk_new(seed);
        struct journal *journal = driver_open(sim);
        driver_must_append(journal, 0, 2);
        uint64_t next = journal_next(journal);
        sim_disk_fault(sim, SIM_WRITE, 0, 1, EIO);
        cr_assert_eq(driver_append(journal, 2, 3, 0, NULL), JOURNAL_IO);
        cr_assert_eq(journal_next(journal), next);
        cr_assert_eq(driver_read_all(journal, 0, 0), 2);
        cr_assert_eq(count_after_kill(sim, &journal), 2, "seed %llu", (unsigned long long)seed);
        journal_close(&journal);
        sim_disk_free(&sim);
    }
}

/* The records of the failed attempt stand right behind those of the next one, and are valid. */
Test(journal_refusal, takes_nothing_of_an_attempt_that_failed_for_what_follows_the_next)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_disk *sim = sim_disk_new(seed);
        struct journal *journal = driver_open(sim);
        sim_disk_fault(sim, SIM_WRITE, 0, 1, EIO);
        cr_assert_eq(driver_append(journal, 0, 5, 0, NULL), JOURNAL_IO);
        driver_must_append(journal, 0, 1);
        cr_assert_eq(driver_read_all(journal, 0, 0), 1);
        cr_assert_eq(count_after_kill(sim, &journal), 1, "seed %llu", (unsigned long long)seed);
        driver_must_append(journal, 1, 1);
        cr_assert_eq(driver_read_all(journal, 0, 0), 2);
        journal_close(&journal);
        sim_disk_free(&sim);
    }
}

/* Fails each call of a change of segments in turn, for good and for once. */
Test(journal_refusal, can_fail_anywhere_in_a_change_of_segments)
{
    const unsigned all =
        SIM_OPEN | SIM_WRITE | SIM_RESERVE | SIM_RENAME | SIM_UNLINK | SIM_SYNC_NAMES;
    for (uint64_t skip = 0; skip < 12; skip++) {
        for (uint64_t times = 1; times < 6; times++) {
            struct sim_disk *sim = sim_disk_new(skip);
            struct journal *journal = driver_open(sim);
            uint64_t number = 0;
            while (journal_next(journal) < DRIVER_SEGMENT - 400)
                driver_must_append(journal, number++, 1);
            driver_must_sync(journal);
            sim_disk_fault(sim, all, skip, times, EIO);
            for (size_t tries = 0; tries < 20; tries++)
                number += driver_append(journal, number, 1, 0, NULL) == JOURNAL_OK;
            cr_assert_gt(journal_next(journal), DRIVER_SEGMENT, "skip %llu",
                         (unsigned long long)skip);
            driver_must_sync(journal);
            journal_close(&journal);
            sim_disk_crash(sim);
            journal = driver_open(sim);
            cr_assert_eq(driver_read_all(journal, 0, 0), number);
            journal_close(&journal);
            sim_disk_free(&sim);
        }
    }
}

Test(journal_refusal, opens_later_what_it_could_not_open_now)
{
    const unsigned all = SIM_OPEN | SIM_WRITE | SIM_SYNC | SIM_RESERVE | SIM_RENAME | SIM_UNLINK |
                         SIM_SYNC_NAMES | SIM_READ;
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = NULL;
    size_t failures = 0;
    for (uint64_t skip = 0; skip < 40; skip++) {
        sim_disk_fault(sim, all, skip, 1, EIO);
        enum journal_err err = driver_try(sim, true, &journal);
        cr_assert(err == JOURNAL_OK || err == JOURNAL_IO || err == JOURNAL_FAILED);
        cr_assert_eq(driver_complaint[0] != '\0', err != JOURNAL_OK);
        failures += err != JOURNAL_OK;
        journal_close(&journal);
        sim_disk_kill(sim);
        journal = driver_open(sim);
        cr_assert_eq(driver_read_all(journal, 0, 0), skip * 3);
        driver_must_append(journal, skip * 3, 3);
        journal_close(&journal);
    }
    cr_expect_gt(failures, 10);
    sim_disk_free(&sim);
}

Test(journal_refusal, keeps_room_for_what_is_essential)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = driver_open(sim);
    uint64_t number = 0;
    uint64_t at[4096 / 24];
    cr_assert(has_name(sim, LAYOUT_SPARE));
    sim_disk_limit(sim, 4 * DRIVER_SEGMENT); /* three segments and the spare */
    enum journal_err err = JOURNAL_OK;
    while ((err = driver_append(journal, number, 1, 0, &at[number])) == JOURNAL_OK)
        number++;
    cr_expect_eq(err, JOURNAL_FULL);
    cr_expect(strstr(journal_complaint(journal), "No space left") != NULL);
    cr_expect_gt(journal_next(journal), 2 * DRIVER_SEGMENT);
    cr_expect(has_name(sim, LAYOUT_SPARE));
    uint64_t values = number;

    /* Losses and failures still settle, beside values that are refused. */
    while ((err = driver_append(journal, number, 1, JOURNAL_ESSENTIAL, &at[number])) ==
           JOURNAL_OK) {
        number++;
        cr_assert(has_name(sim, LAYOUT_SPARE) ||
                  driver_append(journal, number, 1, 0, NULL) == JOURNAL_FULL);
    }
    cr_expect_eq(err, JOURNAL_FULL);
    cr_expect_gt(number - values, 15);
    cr_expect_not(has_name(sim, LAYOUT_SPARE));
    cr_assert_eq(driver_read_all(journal, 0, 0), number);

    /* It can be opened as it is, and still refuses values. */
    driver_must_sync(journal);
    journal_close(&journal);
    sim_disk_crash(sim);
    journal = driver_open(sim);
    cr_expect_eq(driver_append(journal, number, 1, 0, NULL), JOURNAL_FULL);

    /* Even then a trim finds its room; and with that all goes on by itself. */
    cr_expect_eq(journal_trim(journal, at[number - 1]), JOURNAL_OK);
    cr_expect_eq(driver_append(journal, number, 1, 0, NULL), JOURNAL_OK);
    cr_expect(has_name(sim, LAYOUT_SPARE));
    cr_expect_eq(driver_read_all(journal, journal_first(journal), driver_first_number(journal)),
                 number + 1);
    journal_close(&journal);
    sim_disk_free(&sim);
}

Test(journal_refusal, sets_room_aside_again_when_there_is_some)
{
    struct sim_disk *sim = sim_disk_new(1);
    sim_disk_limit(sim, DRIVER_SEGMENT + 100);
    struct journal *journal = driver_open(sim);
    cr_expect_not(has_name(sim, LAYOUT_SPARE));
    cr_expect_eq(driver_append(journal, 0, 1, 0, NULL), JOURNAL_FULL);
    cr_expect_eq(driver_append(journal, 0, 1, JOURNAL_ESSENTIAL, NULL), JOURNAL_OK);
    sim_disk_limit(sim, SIM_NO_LIMIT);
    cr_expect_eq(driver_append(journal, 1, 1, 0, NULL), JOURNAL_OK);
    cr_expect(has_name(sim, LAYOUT_SPARE));
    journal_close(&journal);
    sim_disk_free(&sim);
}

/* More can be set aside: before the next value, or that is refused; and it is one segment then. */
Test(journal_refusal, sets_aside_as_much_as_is_wanted)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = driver_open(sim);
    uint64_t number = 0;
    sim_disk_limit(sim, 4 * DRIVER_SEGMENT);
    journal_set_aside(journal, 3 * DRIVER_SEGMENT + 1); /* beside the first segment */
    cr_expect_eq(driver_append(journal, number, 1, 0, NULL), JOURNAL_FULL);
    cr_expect_eq(journal_aside(journal), DRIVER_SEGMENT, "what was there is there still");
    journal_set_aside(journal, 3 * DRIVER_SEGMENT);
    cr_expect_eq(driver_append(journal, number++, 1, 0, NULL), JOURNAL_OK);
    cr_expect_eq(journal_aside(journal), 3 * DRIVER_SEGMENT);
    while (driver_append(journal, number, 1, 0, NULL) == JOURNAL_OK)
        number++;
    cr_expect_gt(journal_room(journal), 3 * DRIVER_SEGMENT - 1);
    while (driver_append(journal, number, 1, JOURNAL_ESSENTIAL, NULL) == JOURNAL_OK)
        number++;
    cr_expect_gt(journal_next(journal), 4 * DRIVER_SEGMENT - 512);
    driver_must_sync(journal);
    journal_close(&journal);
    sim_disk_crash(sim);
    journal = driver_open(sim);
    cr_expect_eq(driver_read_all(journal, 0, 0), number, "a larger segment is read, too");
    journal_close(&journal);
    sim_disk_free(&sim);
}

/* Where not all that is wanted can be had, some of it is: but no value is let in. */
Test(journal_refusal, sets_aside_what_it_can)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = driver_open(sim);
    uint64_t number = 0;
    sim_disk_limit(sim, 4 * DRIVER_SEGMENT);
    while (driver_append(journal, number, 1, 0, NULL) == JOURNAL_OK)
        number++;
    while (has_name(sim, LAYOUT_SPARE))
        cr_assert_eq(driver_append(journal, number++, 1, JOURNAL_ESSENTIAL, NULL), JOURNAL_OK);
    uint64_t room = journal_room(journal);
    journal_set_aside(journal, 5 * DRIVER_SEGMENT);
    sim_disk_limit(sim, 6 * DRIVER_SEGMENT + DRIVER_SEGMENT / 2);
    cr_expect_eq(driver_append(journal, number, 1, 0, NULL), JOURNAL_FULL);
    cr_expect_eq(journal_room(journal), room + 5 * DRIVER_SEGMENT / 2, "half of what is wanted");
    cr_expect_eq(driver_append(journal, number, 1, 0, NULL), JOURNAL_FULL);
    sim_disk_limit(sim, 9 * DRIVER_SEGMENT);
    cr_expect_eq(driver_append(journal, number, 1, 0, NULL), JOURNAL_OK);
    journal_close(&journal);
    sim_disk_free(&sim);
}

/* Beside one that is there, too: where a part of it has to do, it is as large as it can be. */
Test(journal_refusal, adds_what_it_can_to_what_is_set_aside)
{
    for (int is_hoarding = 0; is_hoarding < 2; is_hoarding++) {
        struct sim_disk *sim = sim_disk_new(1);
        struct journal *journal = driver_open(sim);
        if (is_hoarding)
            sim_disk_hoard(sim);
        sim_disk_limit(sim, 5 * DRIVER_SEGMENT); /* of which the first segment has one */
        uint64_t room = journal_room(journal) - DRIVER_SEGMENT;
        uint64_t most = (is_hoarding ? 4 : 3) * DRIVER_SEGMENT;
        journal_set_aside(journal, 6 * DRIVER_SEGMENT);
        for (int i = 0; i < 2; i++) {
            cr_expect_eq(driver_append(journal, 0, 1, 0, NULL), JOURNAL_FULL);
            cr_expect_eq(journal_room(journal), room + most, "half, or all there is");
            cr_expect_eq(journal_bytes(journal), most + DRIVER_SEGMENT);
        }
        /* All of it is used, and counted. */
        uint64_t number = 0;
        while (driver_append(journal, number, 1, JOURNAL_ESSENTIAL, NULL) == JOURNAL_OK)
            number++;
        cr_expect_gt(journal_next(journal), 5 * DRIVER_SEGMENT - 512);
        cr_expect_eq(journal_bytes(journal), 5 * DRIVER_SEGMENT);
        sim_disk_limit(sim, SIM_NO_LIMIT);
        cr_expect_eq(driver_append(journal, number, 1, 0, NULL), JOURNAL_OK);
        cr_expect_eq(journal_aside(journal), 6 * DRIVER_SEGMENT);
        journal_close(&journal);
        sim_disk_free(&sim);
    }
}

/* It is there still when the journal is opened again, until it is known how much is wanted now. */
Test(journal_refusal, has_what_was_set_aside_when_it_is_opened_again)
{
    for (int is_wanted = 0; is_wanted < 2; is_wanted++) {
        struct sim_disk *sim = sim_disk_new(1);
        struct journal *journal = driver_open(sim);
        journal_set_aside(journal, 6 * DRIVER_SEGMENT);
        driver_must_append(journal, 0, 1);
        uint64_t room = journal_room(journal);
        driver_must_sync(journal);
        journal_close(&journal);
        journal = driver_open(sim);
        cr_expect_eq(journal_room(journal), room);
        cr_expect_eq(journal_aside(journal), 6 * DRIVER_SEGMENT);
        if (is_wanted)
            journal_set_aside(journal, 6 * DRIVER_SEGMENT);
        driver_must_append(journal, 1, 1);
        cr_expect_eq(journal_aside(journal), (is_wanted ? 6 : 1) * DRIVER_SEGMENT);
        cr_expect_eq(journal_bytes(journal), (is_wanted ? 7 : 2) * DRIVER_SEGMENT);
        journal_close(&journal);
        sim_disk_free(&sim);
    }
}

/* What is not wanted any more is given back, unless it is little. */
Test(journal_refusal, gives_back_what_was_set_aside)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = driver_open(sim);
    journal_set_aside(journal, 6 * DRIVER_SEGMENT);
    cr_expect_eq(driver_append(journal, 0, 1, 0, NULL), JOURNAL_OK);
    uint64_t bytes = journal_bytes(journal);
    journal_set_aside(journal, 3 * DRIVER_SEGMENT);
    cr_expect_eq(driver_append(journal, 1, 1, 0, NULL), JOURNAL_OK);
    cr_expect_eq(journal_bytes(journal), bytes, "half is little");
    journal_set_aside(journal, 3 * DRIVER_SEGMENT - 1);
    sim_disk_limit(sim, 8 * DRIVER_SEGMENT); /* not both at once */
    cr_expect_eq(driver_append(journal, 2, 1, 0, NULL), JOURNAL_OK);
    cr_expect_eq(journal_bytes(journal), bytes, "it is there before the other goes");
    sim_disk_limit(sim, SIM_NO_LIMIT);
    cr_expect_eq(driver_append(journal, 3, 1, 0, NULL), JOURNAL_OK);
    cr_expect_eq(journal_bytes(journal), bytes - 3 * DRIVER_SEGMENT - 1);
    journal_close(&journal);
    sim_disk_free(&sim);
}

Test(journal_refusal, is_not_made_on_a_full_disk)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = NULL;
    sim_disk_limit(sim, DRIVER_SEGMENT - 1);
    cr_expect_eq(driver_try(sim, true, &journal), JOURNAL_FULL);
    cr_expect(strstr(driver_complaint, "No space left") != NULL);
    cr_expect_null(sim_disk_name(sim, 0));
    sim_disk_free(&sim);
}

Test(journal_refusal, never_says_synced_after_a_sync_that_failed)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_disk *sim = sim_disk_new(seed);
        struct journal *journal = driver_open(sim);
        driver_must_append(journal, 0, 3);
        driver_must_sync(journal);
        uint64_t synced = journal_synced(journal);
        driver_must_append(journal, 3, 3);
        sim_disk_fault(sim, SIM_SYNC, 0, 1, EIO);
        /* The second sync would succeed, and mean nothing. */
        for (size_t i = 0; i < 3; i++) {
            cr_assert_eq(journal_sync(journal, journal_next(journal)), JOURNAL_FAILED);
            cr_assert_eq(journal_synced(journal), synced);
            cr_assert_eq(driver_append(journal, 6, 1, JOURNAL_ESSENTIAL, NULL), JOURNAL_FAILED);
            cr_assert_eq(journal_trim(journal, 0), JOURNAL_FAILED);
        }
        cr_assert(strstr(journal_complaint(journal), "A power failure now may lose"));
        cr_assert_eq(journal_sync(journal, synced), JOURNAL_OK);
        cr_assert_eq(driver_read_all(journal, 0, 0), 6);
        journal_close(&journal);

        /* Opened anew it has all that was appended, and brings it to the disk. */
        journal = driver_open(sim);
        cr_assert_eq(driver_read_all(journal, 0, 0), 6);
        journal_close(&journal);
        sim_disk_crash(sim);
        journal = driver_open(sim);
        cr_assert_eq(driver_read_all(journal, 0, 0), 6, "seed %llu", (unsigned long long)seed);
        journal_close(&journal);
        sim_disk_free(&sim);
    }
}

Test(journal_refusal, tells_when_it_cannot_read)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = driver_open(sim);
    struct journal_found found;
    uint8_t body[DRIVER_BODY_MAX];
    driver_must_append(journal, 0, 1);
    sim_disk_fault(sim, SIM_READ, 0, 1, EIO);
    cr_expect_eq(journal_read(journal, 0, &found), JOURNAL_IO);
    cr_expect_str_eq(journal_complaint(journal),
                     "'sim/" DRIVER_FIRST "' cannot be read: Input/output error");
    cr_expect_eq(journal_read(journal, 0, &found), JOURNAL_OK);
    sim_disk_fault(sim, SIM_READ, 0, 1, EIO);
    cr_expect_eq(journal_fetch(journal, 0, body, driver_body(0, body)), JOURNAL_IO);
    cr_expect_eq(journal_fetch(journal, 0, body, driver_body(0, body)), JOURNAL_OK);
    journal_close(&journal);
    sim_disk_free(&sim);
}
