/* SPDX-License-Identifier: MPL-2.0 */
/* journal_driver.h -- for tests: a journal on a simulated disk, and records that tell which they
 * are. */
#ifndef TESTS_UNIT_JOURNAL_DRIVER_H
#define TESTS_UNIT_JOURNAL_DRIVER_H

#include "broker/journal/layout.h"
#include "broker/journal/format.h"
#include "broker/journal/journal.h"
#include "tests/lib/sim_disk.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_ID UINT64_C(0x1122334455667788)
#define DRIVER_SEGMENT 4096
#define DRIVER_BODY_MAX 512
#define DRIVER_KIND 7
#define DRIVER_FIRST "00000000000000000000" FORMAT_SEGMENT_SUFFIX

/* What the last call of driver_try() found or complained of. */
static struct journal_opened driver_opened;
static char driver_complaint[JOURNAL_COMPLAINT_BYTES];

/* is_lazy: not synced as it goes. */
__attribute__((unused)) static enum journal_err driver_try_as(struct sim_disk *sim, bool may_create,
                                                              bool is_lazy,
                                                              struct journal **out_journal)
{
    struct disk *disk = sim_disk_open(sim);
    struct journal_options options = {.may_create = may_create,
                                      .id = DRIVER_ID,
                                      .segment_bytes = DRIVER_SEGMENT,
                                      .is_lazy = is_lazy};
    driver_complaint[0] = '\0';
    return journal_open_disk(&disk, &options, out_journal, &driver_opened, driver_complaint);
}

__attribute__((unused)) static enum journal_err driver_try(struct sim_disk *sim, bool may_create,
                                                           struct journal **out_journal)
{
    return driver_try_as(sim, may_create, false, out_journal);
}

__attribute__((unused)) static struct journal *driver_open_as(struct sim_disk *sim, bool is_lazy)
{
    struct journal *journal = NULL;
    enum journal_err err = driver_try_as(sim, true, is_lazy, &journal);
    cr_assert(err == JOURNAL_OK, "%s: %s", journal_strerror(err), driver_complaint);
    return journal;
}

__attribute__((unused)) static struct journal *driver_open(struct sim_disk *sim)
{
    return driver_open_as(sim, false);
}

__attribute__((unused)) static size_t driver_count_segments(const struct sim_disk *sim)
{
    uint64_t first = 0;
    size_t count = 0;
    for (size_t i = 0; sim_disk_name(sim, i) != NULL; i++)
        count += segment_name_read(sim_disk_name(sim, i), &first);
    return count;
}

/* Body of the record with a number: of a size and with bytes that follow from it. */
__attribute__((unused)) static size_t driver_body(uint64_t number, uint8_t *body)
{
    size_t bytes = 8 + (size_t)(number * 37 % 200);
    format_put64(body, number);
    for (size_t i = 8; i < bytes; i++)
        body[i] = (uint8_t)(number * 7 + i);
    return bytes;
}

/* Appends count records from a number on as one batch. */
__attribute__((unused)) static enum journal_err driver_append(struct journal *journal,
                                                              uint64_t number, size_t count,
                                                              unsigned how, uint64_t *out_at)
{
    static uint8_t bodies[64][DRIVER_BODY_MAX];
    struct journal_record records[64];
    cr_assert(count <= 64);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = driver_body(number + i, bodies[i]);
        records[i] = (struct journal_record){DRIVER_KIND, span_of(bodies[i], bytes)};
    }
    return journal_append(journal, journal_lease(journal), journal_next(journal), records, count,
                          how, out_at);
}

__attribute__((unused)) static void driver_must_append(struct journal *journal, uint64_t number,
                                                       size_t count)
{
    enum journal_err err = driver_append(journal, number, count, 0, NULL);
    cr_assert(err == JOURNAL_OK, "%s: %s", journal_strerror(err), journal_complaint(journal));
}

__attribute__((unused)) static void driver_must_sync(struct journal *journal)
{
    cr_assert_eq(journal_sync(journal, journal_next(journal)), JOURNAL_OK);
}

/* Reads all from a position on; each must have the number that follows.  Returns the number behind
 * the last one. */
__attribute__((unused)) static uint64_t driver_read_all(struct journal *journal, uint64_t at,
                                                        uint64_t number)
{
    uint8_t body[DRIVER_BODY_MAX];
    struct journal_found found;
    enum journal_err err = JOURNAL_OK;
    while ((err = journal_read(journal, at, &found)) == JOURNAL_OK) {
        size_t bytes = driver_body(number, body);
        cr_assert_eq(found.kind, DRIVER_KIND);
        cr_assert(span_equal(found.body, span_of(body, bytes)), "record %llu is not itself",
                  (unsigned long long)number);
        number++;
        at = found.next;
    }
    cr_assert(err == JOURNAL_END, "%s: %s", journal_strerror(err), journal_complaint(journal));
    return number;
}

/* The number of the oldest record that is kept. */
__attribute__((unused)) static uint64_t driver_first_number(struct journal *journal)
{
    struct journal_found found;
    enum journal_err err = journal_read(journal, journal_first(journal), &found);
    cr_assert(err == JOURNAL_OK && found.body.bytes >= 8);
    return format_get64(found.body.data);
}

/* What became of a spoiled journal. */
struct driver_outcome {
    enum journal_err err;
    uint64_t number; /* of records there */
    bool is_told;    /* something was cut, and it said so */
};

/* Opens it as it was left, and reads all that is there.  Refused, in words: it stays NULL. */
__attribute__((unused)) static struct driver_outcome driver_recover(struct sim_disk *sim,
                                                                    bool may_create, bool is_lazy,
                                                                    struct journal **out_journal)
{
    struct driver_outcome outcome = {.err = driver_try_as(sim, may_create, is_lazy, out_journal)};
    if (outcome.err != JOURNAL_OK) {
        cr_assert_neq(driver_complaint[0], '\0');
        return outcome;
    }
    outcome.is_told = driver_opened.cut[0] != '\0';
    cr_assert_eq(outcome.is_told, driver_opened.cut_bytes > 0);
    outcome.number = driver_read_all(*out_journal, journal_first(*out_journal), 0);
    return outcome;
}

#endif
