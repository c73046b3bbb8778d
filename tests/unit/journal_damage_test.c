/* SPDX-License-Identifier: MPL-2.0 */
/* journal_damage_test.c -- what a disk may do to a journal that is not open: bits change, blocks
 * turn to zeros, files are cut or gone.  It is recovered or refused, in words, and never less than
 * it was without a word. */
#include "tests/unit/journal_driver.h"

#define RECORDS 70

/* Three segments, each record on the disk before the next was written. */
static struct sim_disk *make_journal(void)
{
    struct sim_disk *sim = sim_disk_new(5);
    struct journal *journal = driver_open(sim);
    for (uint64_t i = 0; i < RECORDS; i++) {
        driver_must_append(journal, i, 1);
        driver_must_sync(journal);
    }
    journal_close(&journal);
    return sim;
}

/* Opens it twice: what was recovered once is whole. */
static struct driver_outcome try_it(struct sim_disk *sim)
{
    struct journal *journal = NULL;
    struct driver_outcome outcome = driver_recover(sim, false, false, &journal);
    if (journal == NULL)
        return outcome;
    driver_must_append(journal, outcome.number, 1);
    journal_close(&journal);
    journal = driver_open(sim);
    cr_assert_str_eq(driver_opened.cut, "");
    cr_assert_eq(driver_read_all(journal, journal_first(journal), 0), outcome.number + 1);
    journal_close(&journal);
    return outcome;
}

/* Offset of the first byte of the last record, in the last segment, and behind it. */
static void find_last_record(struct sim_disk *sim, size_t *out_from, size_t *out_until)
{
    struct journal *journal = driver_open(sim);
    struct journal_found found = {.next = journal_first(journal)};
    uint64_t first = 0;
    while (journal_read(journal, found.next, &found) == JOURNAL_OK) {
    }
    cr_assert(segment_name_read(sim_disk_name(sim, driver_count_segments(sim) - 1), &first));
    *out_from = (size_t)(FORMAT_SEGMENT_BYTES + found.at - first);
    *out_until = (size_t)(FORMAT_SEGMENT_BYTES + found.next - first);
    journal_close(&journal);
}

static void expect_refusal(const struct driver_outcome *outcome, const char *name)
{
    cr_assert_eq(outcome->err, JOURNAL_DAMAGED, "%s: %s", name, journal_strerror(outcome->err));
    cr_assert(strstr(driver_complaint, name) != NULL, "%s does not name %s", driver_complaint,
              name);
    cr_assert(strstr(driver_complaint, "offset") != NULL, "%s", driver_complaint);
    cr_assert(strstr(driver_complaint, "'errbusd --repair sim'") != NULL, "%s", driver_complaint);
}

/* One bit of every byte. */
Test(journal_damage, of_one_bit_costs_the_last_record_at_most)
{
    struct sim_disk *sim = make_journal();
    size_t last_from = 0;
    size_t last_until = 0;
    size_t count = driver_count_segments(sim);
    size_t refusals = 0;
    find_last_record(sim, &last_from, &last_until);
    cr_assert_gt(count, 2);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = 0;
        (void)sim_disk_file(sim, sim_disk_name(sim, i), &bytes);
        for (size_t at = 0; at < bytes; at++) {
            struct sim_disk *spoiled = sim_disk_clone(sim, 1);
            const char *name = sim_disk_name(spoiled, i);
            bool is_last = i + 1 == count;
            sim_disk_file(spoiled, name, &bytes)[at] ^= (uint8_t)(1u << at % 8);
            struct driver_outcome outcome = try_it(spoiled);
            if (is_last && at >= last_from) {
                cr_assert_eq(outcome.err, JOURNAL_OK);
                cr_assert(outcome.is_told);
                cr_assert_eq(outcome.number, at < last_until ? RECORDS - 1 : RECORDS);
            } else if (outcome.err == JOURNAL_OK) {
                /* Behind a seal, where nothing is read. */
                cr_assert(!is_last && !outcome.is_told && outcome.number == RECORDS);
                cr_assert_gt(at, FORMAT_SEGMENT_BYTES);
            } else {
                expect_refusal(&outcome, name);
                refusals++;
            }
            sim_disk_free(&spoiled);
        }
    }
    cr_expect_gt(refusals, RECORDS * 100);
    sim_disk_free(&sim);
}

Test(journal_damage, of_a_file_that_ends_anywhere_is_refused)
{
    struct sim_disk *sim = make_journal();
    size_t bytes = 0;
    size_t count = driver_count_segments(sim);
    for (size_t i = 0; i < count; i++) {
        (void)sim_disk_file(sim, sim_disk_name(sim, i), &bytes);
        for (size_t cut = 0; cut < bytes; cut++) {
            struct sim_disk *spoiled = sim_disk_clone(sim, 1);
            const char *name = sim_disk_name(spoiled, i);
            sim_disk_cut(spoiled, name, cut);
            struct driver_outcome outcome = try_it(spoiled);
            if (outcome.err == JOURNAL_OK) /* behind a seal */
                cr_assert(i + 1 < count && outcome.number == RECORDS);
            else
                expect_refusal(&outcome, name);
            sim_disk_free(&spoiled);
        }
    }
    sim_disk_free(&sim);
}

static bool is_blank(const uint8_t *bytes, size_t from, size_t until)
{
    while (from < until && bytes[from] == 0)
        from++;
    return from == until;
}

/* A tail that was never synced may end anywhere; what is cut is said, what was synced stays. */
Test(journal_damage, of_a_tail_that_was_not_synced_is_cut)
{
    struct sim_disk *sim = sim_disk_new(5);
    struct journal *journal = driver_open(sim);
    size_t ends[3]; /* offsets */
    const size_t counts[] = {3, 1, 3};
    const uint64_t numbers[] = {3, 4, 7};
    size_t bytes = 0;
    for (size_t i = 0; i < 3; i++) {
        driver_must_append(journal, numbers[i] - counts[i], counts[i]);
        if (i == 0)
            driver_must_sync(journal);
        ends[i] = (size_t)(FORMAT_SEGMENT_BYTES + journal_next(journal));
    }
    sim_disk_stop_after(sim, 0);
    journal_close(&journal);
    const uint8_t *whole = sim_disk_file(sim, DRIVER_FIRST, &bytes);
    for (size_t from = ends[0]; from <= ends[2]; from++) {
        struct sim_disk *spoiled = sim_disk_clone(sim, 1);
        uint8_t *torn = sim_disk_file(spoiled, DRIVER_FIRST, &bytes);
        memset(torn + from, 0, ends[2] - from);
        size_t kept = memcmp(whole, torn, ends[2]) == 0 ? 2 : memcmp(whole, torn, ends[1]) == 0;
        bool is_said = !is_blank(torn, ends[kept], ends[2]);
        struct driver_outcome outcome = try_it(spoiled);
        cr_assert_eq(outcome.err, JOURNAL_OK, "%s", driver_complaint);
        cr_assert_eq(outcome.number, numbers[kept], "from %zu", from);
        cr_assert_eq(outcome.is_told, is_said, "from %zu", from);
        sim_disk_free(&spoiled);
    }
    sim_disk_free(&sim);
}

/* Sectors of a tail reach the disk in any order: there a hole before something valid is none. */
Test(journal_damage, is_told_from_a_hole_in_what_was_not_synced)
{
    for (size_t synced = 0; synced < 2; synced++) {
        struct sim_disk *sim = sim_disk_new(5);
        struct journal *journal = driver_open(sim);
        size_t bytes = 0;
        uint64_t at = 0;
        driver_must_append(journal, 0, 1);
        cr_assert_eq(driver_append(journal, 1, 1, 0, &at), JOURNAL_OK);
        if (synced == 1)
            driver_must_sync(journal);
        driver_must_append(journal, 2, 1);
        driver_must_append(journal, 3, 1);
        sim_disk_stop_after(sim, 0);
        journal_close(&journal);
        memset(sim_disk_file(sim, DRIVER_FIRST, &bytes) + FORMAT_SEGMENT_BYTES + at, 0, 8);
        struct driver_outcome outcome = try_it(sim);
        if (synced == 1) {
            expect_refusal(&outcome, DRIVER_FIRST);
        } else {
            cr_assert_eq(outcome.err, JOURNAL_OK);
            cr_assert(outcome.is_told && outcome.number == 1);
        }
        sim_disk_free(&sim);
    }
}

Test(journal_damage, of_zeroed_blocks_is_recovered_or_refused_in_words)
{
    struct sim_disk *sim = make_journal();
    size_t count = driver_count_segments(sim);
    size_t last_from = 0;
    size_t last_until = 0;
    find_last_record(sim, &last_from, &last_until);
    for (size_t block = 64; block <= 4096; block *= 2) {
        for (size_t i = 0; i < count; i++) {
            for (size_t at = 0; at < DRIVER_SEGMENT; at += block) {
                struct sim_disk *spoiled = sim_disk_clone(sim, 1);
                const char *name = sim_disk_name(spoiled, i);
                size_t bytes = 0;
                memset(sim_disk_file(spoiled, name, &bytes) + at, 0, block);
                struct driver_outcome outcome = try_it(spoiled);
                if (outcome.err != JOURNAL_OK)
                    expect_refusal(&outcome, name);
                else if (outcome.number < RECORDS)
                    cr_assert(outcome.is_told && i + 1 == count, "%zu bytes of %s at %zu", block,
                              name, at);
                cr_assert(outcome.err != JOURNAL_OK || outcome.number >= RECORDS - 1 ||
                          at < last_from);
                sim_disk_free(&spoiled);
            }
        }
    }
    sim_disk_free(&sim);
}

Test(journal_damage, of_a_missing_file_is_refused)
{
    struct sim_disk *sim = make_journal();
    size_t count = driver_count_segments(sim);
    for (size_t i = 0; i < count; i++) {
        struct sim_disk *spoiled = sim_disk_clone(sim, 1);
        sim_disk_remove(spoiled, sim_disk_name(sim, i));
        struct driver_outcome outcome = try_it(spoiled);
        cr_expect_eq(outcome.err, JOURNAL_DAMAGED, "file %zu of %zu", i, count);
        cr_expect(strstr(driver_complaint, "a file is missing: none") != NULL, "%s",
                  driver_complaint);
        sim_disk_free(&spoiled);
    }
    sim_disk_free(&sim);
}

/* What was trimmed is not missed; what was not is, also then. */
Test(journal_damage, of_a_missing_file_is_told_from_a_trim)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = driver_open(sim);
    for (uint64_t i = 0; i < 200; i++)
        driver_must_append(journal, i, 1);
    cr_assert_eq(journal_trim(journal, journal_next(journal) / 2), JOURNAL_OK);
    cr_assert_gt(journal_first(journal), 0);
    journal_close(&journal);
    journal = driver_open(sim);
    journal_close(&journal);
    sim_disk_remove(sim, sim_disk_name(sim, 0));
    struct journal *refused = NULL;
    cr_expect_eq(driver_try(sim, false, &refused), JOURNAL_DAMAGED);
    cr_expect(strstr(driver_complaint, "a file is missing: none has positions") != NULL);
    sim_disk_free(&sim);
}

Test(journal_damage, of_files_that_are_not_its_own_is_refused)
{
    struct sim_disk *sim = make_journal();
    struct sim_disk *other = make_journal();
    size_t bytes = 0;
    struct segment_head head;
    const char *second = sim_disk_name(other, 1);
    /* A segment under the name of another. */
    const uint8_t *file = sim_disk_file(other, DRIVER_FIRST, &bytes);
    sim_disk_put(sim, second, file, bytes);
    struct driver_outcome outcome = try_it(sim);
    expect_refusal(&outcome, second);
    cr_expect(strstr(driver_complaint, "is damaged in its head") != NULL, "%s", driver_complaint);
    /* One of another journal. */
    uint8_t *changed = sim_disk_file(other, second, &bytes);
    cr_assert_eq(segment_head_read(changed, &head), SEGMENT_GOOD);
    head.journal++;
    segment_head_write(&head, changed);
    sim_disk_put(sim, second, changed, bytes);
    cr_expect_eq(try_it(sim).err, JOURNAL_DAMAGED);
    cr_expect(strstr(driver_complaint, "belongs to another journal") != NULL, "%s",
              driver_complaint);
    sim_disk_free(&sim);
    sim_disk_free(&other);
}

Test(journal_damage, is_not_what_a_newer_version_wrote)
{
    struct sim_disk *sim = make_journal();
    size_t bytes = 0;
    struct segment_head head;
    uint8_t *file = sim_disk_file(sim, sim_disk_name(sim, 1), &bytes);
    cr_assert_eq(segment_head_read(file, &head), SEGMENT_GOOD);
    head.version = FORMAT_VERSION + 1;
    segment_head_write(&head, file);
    struct driver_outcome outcome = try_it(sim);
    cr_expect_eq(outcome.err, JOURNAL_FORMAT);
    cr_expect_str_eq(driver_complaint,
                     "the journal in 'sim': a newer errbusd wrote it, in format 2, and this "
                     "version reads formats up to 1: start the newer version");
    sim_disk_free(&sim);
}

Test(journal_damage, is_not_in_files_of_other_names)
{
    struct sim_disk *sim = make_journal();
    sim_disk_put(sim, "README", "not a segment", 13);
    sim_disk_put(sim, "00000000000000000000.journal.old", "x", 1);
    sim_disk_put(sim, LAYOUT_NEXT, "left by a crash", 15);
    struct driver_outcome outcome = try_it(sim);
    cr_expect_eq(outcome.err, JOURNAL_OK);
    cr_expect_eq(outcome.number, RECORDS);
    cr_expect_not(outcome.is_told);
    sim_disk_free(&sim);
}

/* Bytes change under an open journal: reading tells, and goes on behind if it is asked to. */
Test(journal_damage, is_told_by_reading_too)
{
    struct sim_disk *sim = make_journal();
    struct journal *journal = driver_open(sim);
    struct journal_found found;
    uint8_t body[DRIVER_BODY_MAX];
    size_t bytes = 0;
    sim_disk_file(sim, DRIVER_FIRST, &bytes)[FORMAT_SEGMENT_BYTES + FORMAT_RECORD_BYTES] ^= 1;
    cr_expect_eq(journal_read(journal, 0, &found), JOURNAL_DAMAGED);
    cr_expect_str_eq(journal_complaint(journal),
                     "'sim/" DRIVER_FIRST "' has no valid record at position 0 (offset 64)");
    cr_expect_eq(journal_fetch(journal, 0, body, driver_body(0, body)), JOURNAL_DAMAGED);
    journal_close(&journal);
    sim_disk_free(&sim);
}

#define WHOLE(kind_)                                                                               \
    {                                                                                              \
        .kind = (kind_), .marks = FORMAT_MARK_BATCH_END, .batch = 1                                \
    }
#define PART(kind_)                                                                                \
    {                                                                                              \
        .kind = (kind_), .batch = 1                                                                \
    }

/* A segment of these records, without bodies; a kind of 0 ends them. */
static void put_segment(struct sim_disk *sim, uint64_t first, const struct record_head *heads)
{
    enum { RECORDS_MAX = 4 };
    uint8_t file[FORMAT_SEGMENT_BYTES + RECORDS_MAX * FORMAT_RECORD_BYTES] = {0};
    char name[FORMAT_NAME_BYTES];
    uint64_t at = first;
    segment_head_write(&(struct segment_head){.version = FORMAT_VERSION,
                                              .journal = 77,
                                              .first = first,
                                              .synced = first,
                                              .bytes = sizeof file},
                       file);
    for (; heads->kind != 0; heads++, at += FORMAT_RECORD_BYTES)
        record_head_write(heads, 77, at, file + FORMAT_SEGMENT_BYTES + at - first);
    segment_name_write(first, name);
    sim_disk_put(sim, name, file, sizeof file);
}

/* No batch goes on in another segment: the first file has lost its end, and who took it for whole
 * would replay half a step. */
Test(journal_damage, of_a_batch_that_ends_in_no_segment_is_refused)
{
    static const struct record_head part[] = {PART(1), {.kind = 0}};
    static const struct record_head whole[] = {WHOLE(1), {.kind = 0}};
    struct journal *journal = NULL;
    struct sim_disk *sim = sim_disk_new(5);
    put_segment(sim, 0, part);
    put_segment(sim, FORMAT_RECORD_BYTES, whole);
    cr_assert_eq(driver_try(sim, false, &journal), JOURNAL_DAMAGED, "%s", driver_complaint);
    cr_expect(strstr(driver_complaint, "position 0 ") != NULL, "%s", driver_complaint);
    put_segment(sim, 0, whole);
    cr_assert_eq(driver_try(sim, false, &journal), JOURNAL_OK, "%s", driver_complaint);
    journal_close(&journal);
    sim_disk_free(&sim);
}

/* A seal that nothing stood behind is cut.  What lies behind it in its own file goes with it, or it
 * would be part of the journal when the place of the seal is written over; and so does a batch that
 * nothing but the seal ended. */
Test(journal_damage, of_a_seal_leaves_whole_batches_before_it_and_nothing_behind)
{
    static const struct record_head cases[][5] = {
        {WHOLE(1), WHOLE(FORMAT_KIND_LAZY_SEAL), WHOLE(2), {.kind = 0}},
        {WHOLE(1), PART(2), WHOLE(FORMAT_KIND_LAZY_SEAL), {.kind = 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct journal *journal = NULL;
        struct sim_disk *sim = sim_disk_new(5);
        put_segment(sim, 0, cases[i]);
        for (int opening = 0; opening < 2; opening++) {
            cr_assert_eq(driver_try(sim, false, &journal), JOURNAL_OK, "%s", driver_complaint);
            cr_expect_eq(driver_opened.cut_bytes, opening == 0 ? 2 * FORMAT_RECORD_BYTES : 0);
            cr_expect_eq(journal_next(journal), FORMAT_RECORD_BYTES);
            journal_close(&journal);
        }
        sim_disk_free(&sim);
    }
}

/* ---- around a change of segments ------------------------------------------------------------- */

/* The last two segments: their names, and where the records of the first of them end. */
struct change {
    const char *old;
    const char *new;
    size_t end; /* offset in the old one, behind its seal */
};

static struct change find_change(const struct sim_disk *sim)
{
    size_t count = driver_count_segments(sim);
    struct change change = {.old = sim_disk_name(sim, count - 2),
                            .new = sim_disk_name(sim, count - 1)};
    uint64_t firsts[2];
    cr_assert(segment_name_read(change.old, &firsts[0]));
    cr_assert(segment_name_read(change.new, &firsts[1]));
    change.end = (size_t)(FORMAT_SEGMENT_BYTES + firsts[1] - firsts[0]);
    return change;
}

static void wipe(struct sim_disk *sim, const char *name, size_t from, size_t count)
{
    size_t bytes = 0;
    uint8_t *file = sim_disk_file(sim, name, &bytes);
    cr_assert_lt(from, bytes);
    memset(file + from, 0, from + count < bytes ? count : bytes - from);
}

/* A crash before the old segment was sealed leaves this: a new one without records.  It goes, and
 * the old one goes on. */
Test(journal_damage, of_a_change_of_segments_that_a_crash_interrupted_is_none)
{
    struct sim_disk *sim = make_journal();
    struct change change = find_change(sim);
    char name[FORMAT_NAME_BYTES];
    snprintf(name, sizeof name, "%s", change.new);
    wipe(sim, change.old, change.end - FORMAT_RECORD_BYTES, FORMAT_RECORD_BYTES);
    wipe(sim, change.new, FORMAT_SEGMENT_BYTES, DRIVER_SEGMENT);
    struct journal *journal = driver_open(sim);
    size_t bytes = 0;
    cr_expect_str_eq(driver_opened.cut, "", "nothing of it was ever said");
    cr_expect_null(sim_disk_file(sim, name, &bytes), "it is gone");
    uint64_t number = driver_read_all(journal, journal_first(journal), 0);
    cr_expect_gt(number, 0);
    cr_expect_lt(number, RECORDS);
    driver_must_append(journal, number, 1);
    journal_close(&journal);
    cr_expect_eq(try_it(sim).number, number + 1);
    sim_disk_free(&sim);
}

/* The same without the seal, but what stands behind the first record tells that the new segment was
 * in use: its records must not go without a word. */
Test(journal_damage, of_a_seal_and_of_the_first_record_behind_it_is_refused)
{
    struct sim_disk *sim = make_journal();
    struct change change = find_change(sim);
    size_t count = driver_count_segments(sim);
    wipe(sim, change.old, change.end - FORMAT_RECORD_BYTES, FORMAT_RECORD_BYTES);
    wipe(sim, change.new, FORMAT_SEGMENT_BYTES, FORMAT_RECORD_BYTES);
    cr_expect_eq(try_it(sim).err, JOURNAL_DAMAGED);
    cr_expect_eq(driver_count_segments(sim), count, "nothing was changed");
    sim_disk_free(&sim);
}

/* Two places at once, one on each side.  All was on the disk: it is there, or the journal is
 * refused. */
Test(journal_damage, of_two_places_around_a_change_of_segments_is_never_passed_over)
{
    enum { NEAR = 256, STEP = 16 };
    struct sim_disk *sim = make_journal();
    struct change change = find_change(sim);
    size_t refused = 0;
    for (size_t before = change.end - NEAR; before < change.end; before += STEP) {
        for (size_t behind = 0; behind < FORMAT_SEGMENT_BYTES + NEAR; behind += STEP) {
            struct sim_disk *spoiled = sim_disk_clone(sim, 1);
            struct change place = find_change(spoiled);
            wipe(spoiled, place.old, before, STEP);
            wipe(spoiled, place.new, behind, STEP);
            struct driver_outcome outcome = try_it(spoiled);
            cr_assert(outcome.err == JOURNAL_DAMAGED || outcome.number == RECORDS,
                      "%zu before and %zu behind: %s, %zu records", change.end - before, behind,
                      journal_strerror(outcome.err), (size_t)outcome.number);
            refused += outcome.err == JOURNAL_DAMAGED;
            sim_disk_free(&spoiled);
        }
    }
    cr_expect_gt(refused, NEAR / STEP);
    sim_disk_free(&sim);
}
