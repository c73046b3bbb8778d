/* SPDX-License-Identifier: MPL-2.0 */
/* journal_tool_test.c -- a journal is looked at, written out and mended offline: what is cut is
 * saved and named, what is left is all that was valid, where it was. */
#include "tests/unit/journal_driver.h"

#include "broker/journal/tool.h"

#include <stdio.h>

#define RECORDS 70
#define SAID_BYTES 65536

static uint64_t at_of[RECORDS];
static char said[SAID_BYTES];

static void hear(void *arg, const char *line)
{
    size_t length = strlen(said);
    (void)arg;
    snprintf(said + length, sizeof said - length, "%s\n", line);
}

static struct sim_disk *make_journal(void)
{
    struct sim_disk *sim = sim_disk_new(5);
    struct journal *journal = driver_open(sim);
    for (uint64_t i = 0; i < RECORDS; i++) {
        cr_assert_eq(driver_append(journal, i, 1, 0, &at_of[i]), JOURNAL_OK);
        driver_must_sync(journal);
    }
    journal_close(&journal);
    return sim;
}

static enum journal_err check(struct sim_disk *sim)
{
    struct disk *disk = sim_disk_open(sim);
    said[0] = '\0';
    return tool_check(&disk, hear, NULL);
}

static enum journal_err repair(struct sim_disk *sim)
{
    struct disk *disk = sim_disk_open(sim);
    said[0] = '\0';
    return tool_repair(&disk, hear, NULL);
}

/* Reads what is left: true bodies at the positions they always had.  Returns how many of them, and
 * how many places say "lost". */
static size_t count_left(struct sim_disk *sim, size_t *out_lost)
{
    uint8_t body[DRIVER_BODY_MAX];
    struct journal_found found;
    struct journal *journal = driver_open(sim);
    enum journal_err err = JOURNAL_OK;
    size_t left = 0;
    size_t lost = 0;
    cr_assert_str_eq(driver_opened.cut, "");
    for (uint64_t at = journal_first(journal);
         (err = journal_read(journal, at, &found)) == JOURNAL_OK; at = found.next) {
        if (found.kind == JOURNAL_KIND_LOST) {
            cr_assert_eq(found.body.bytes, 0);
            lost++;
            continue;
        }
        uint64_t number = format_get64(found.body.data);
        cr_assert_lt(number, RECORDS);
        cr_assert_eq(found.at, at_of[number]);
        cr_assert(span_equal(found.body, span_of(body, driver_body(number, body))));
        left++;
    }
    cr_assert_eq(err, JOURNAL_END, "%s", journal_complaint(journal));
    driver_must_append(journal, 0, 1);
    journal_close(&journal);
    *out_lost = lost;
    return left;
}

static const char *find_saved(const struct sim_disk *sim, const char *beginning)
{
    for (size_t i = 0; sim_disk_name(sim, i) != NULL; i++)
        if (strncmp(sim_disk_name(sim, i), beginning, strlen(beginning)) == 0)
            return sim_disk_name(sim, i);
    return NULL;
}

Test(journal_tool, finds_nothing_wrong_with_a_whole_journal)
{
    struct sim_disk *sim = make_journal();
    size_t lost = 0;
    cr_expect_eq(check(sim), JOURNAL_OK);
    cr_expect(strstr(said, "00000000000000000000.journal: ") == said, "%s", said);
    cr_expect(strstr(said, ", sealed\n") != NULL);
    cr_expect(strstr(said, "the journal in 'sim' is whole: 72 records") != NULL, "%s", said);
    cr_expect_eq(repair(sim), JOURNAL_OK);
    cr_expect_str_eq(said, "the journal in 'sim' is whole\n");
    cr_expect_eq(count_left(sim, &lost), RECORDS);
    cr_expect_eq(lost, 0);
    sim_disk_free(&sim);
}

Test(journal_tool, says_where_there_is_none_and_where_a_broker_has_it)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct disk_owner owner = {.lease = 0};
    cr_expect_eq(check(sim), JOURNAL_MISSING);
    cr_expect_str_eq(said, "there is no journal in 'sim'\n");
    struct disk *disk = sim_disk_open(sim);
    cr_assert_eq(disk->ops->lock(disk, false, &owner), 0);
    said[0] = '\0';
    cr_expect_eq(tool_check(&disk, hear, NULL), JOURNAL_LOCKED);
    cr_expect_str_eq(said, "a broker (process 4711) has the journal in 'sim': stop it first\n");
    disk = sim_disk_open(sim);
    cr_assert_eq(disk->ops->lock(disk, false, &owner), 0);
    cr_expect_eq(tool_repair(&disk, hear, NULL), JOURNAL_LOCKED);
    sim_disk_free(&sim);
}

/* One bit of every seventh byte, so that each field of heads and bodies is met. */
Test(journal_tool, costs_one_flaw_one_record)
{
    struct sim_disk *sim = make_journal();
    size_t repaired = 0;
    for (size_t i = 0; i < 3; i++) {
        size_t bytes = 0;
        (void)sim_disk_file(sim, sim_disk_name(sim, i), &bytes);
        for (size_t at = 0; at < bytes; at += 7) {
            struct sim_disk *spoiled = sim_disk_clone(sim, 1);
            size_t lost = 0;
            sim_disk_file(spoiled, sim_disk_name(sim, i), &bytes)[at] ^= 4;
            enum journal_err before = check(spoiled);
            cr_assert_eq(repair(spoiled), JOURNAL_OK, "%s", said);
            cr_assert_eq(check(spoiled), JOURNAL_OK, "%s", said);
            size_t left = count_left(spoiled, &lost);
            cr_assert_geq(left + 1, RECORDS);
            cr_assert_leq(lost, before == JOURNAL_DAMAGED);
            repaired += lost;
            sim_disk_free(&spoiled);
        }
    }
    cr_expect_gt(repaired, RECORDS * 10);
    sim_disk_free(&sim);
}

Test(journal_tool, says_what_is_lost_and_saves_it)
{
    struct sim_disk *sim = make_journal();
    size_t bytes = 0;
    size_t lost = 0;
    uint8_t body[DRIVER_BODY_MAX];
    size_t size = driver_body(3, body);
    char expected[512];
    sim_disk_file(sim, DRIVER_FIRST, &bytes)[FORMAT_SEGMENT_BYTES + at_of[3] + 30] ^= 0x10;
    snprintf(expected, sizeof expected,
             "'sim/" DRIVER_FIRST "' is damaged at position %llu (offset %llu), %llu B, the body "
             "of one record of kind 7 with %zu B",
             (unsigned long long)at_of[3], (unsigned long long)at_of[3] + FORMAT_SEGMENT_BYTES,
             (unsigned long long)(at_of[4] - at_of[3]), size);
    cr_expect_eq(check(sim), JOURNAL_DAMAGED);
    cr_expect(strstr(said, expected) != NULL, "%s is not in %s", expected, said);
    cr_expect(strstr(said, "the journal in 'sim' is damaged: 71 records") != NULL, "%s", said);
    cr_expect_eq(repair(sim), JOURNAL_OK);
    cr_expect(strstr(said, expected) != NULL, "%s is not in %s", expected, said);
    const char *name = find_saved(sim, "lost-");
    cr_assert_not_null(name);
    cr_expect(strstr(said, name) != NULL);
    const uint8_t *saved = sim_disk_file(sim, name, &bytes);
    cr_expect_eq(bytes, at_of[4] - at_of[3]);
    body[30 - FORMAT_RECORD_BYTES] ^= 0x10;
    cr_expect_eq(memcmp(saved + FORMAT_RECORD_BYTES, body, size), 0);
    cr_expect_eq(count_left(sim, &lost), RECORDS - 1);
    cr_expect_eq(lost, 1);
    sim_disk_free(&sim);
}

Test(journal_tool, says_where_a_tail_is_torn)
{
    struct sim_disk *sim = make_journal();
    size_t bytes = 0;
    unsigned long long at = 0;
    unsigned long long offset = 0;
    const char *last = sim_disk_name(sim, 2);
    uint8_t *content = sim_disk_file(sim, last, &bytes);
    while (content[bytes - 1] == 0)
        bytes--;
    content[bytes - 1] ^= 1;
    cr_expect_eq(check(sim), JOURNAL_OK);
    const char *told = strstr(said, "from position");
    cr_assert(strstr(said, " has a torn tail: ") != NULL && told != NULL, "%s", said);
    cr_assert_eq(sscanf(told, "from position %llu (offset %llu)", &at, &offset), 2, "%s", said);
    cr_expect_eq(at, at_of[RECORDS - 1]);
    cr_expect_eq(offset, at - strtoull(last, NULL, 10) + FORMAT_SEGMENT_BYTES, "%s", said);
    sim_disk_free(&sim);
}

/* A repair that was begun before may have saved the same place: that is the better copy. */
Test(journal_tool, writes_over_nothing_that_was_saved)
{
    struct sim_disk *sim = make_journal();
    size_t bytes = 0;
    char name[64];
    snprintf(name, sizeof name, "lost-%020llu-%020llu", (unsigned long long)at_of[3],
             (unsigned long long)at_of[4]);
    sim_disk_put(sim, name, "before", 6);
    sim_disk_file(sim, DRIVER_FIRST, &bytes)[FORMAT_SEGMENT_BYTES + at_of[3]] ^= 1;
    cr_expect_eq(repair(sim), JOURNAL_OK);
    const uint8_t *saved = sim_disk_file(sim, name, &bytes);
    cr_expect(bytes == 6 && memcmp(saved, "before", 6) == 0);
    snprintf(name, sizeof name, "lost-%020llu-%020llu-2", (unsigned long long)at_of[3],
             (unsigned long long)at_of[4]);
    cr_expect(sim_disk_file(sim, name, &bytes) != NULL && bytes == at_of[4] - at_of[3]);
    sim_disk_free(&sim);
}

/* Whatever is broken, in all pairs of two. */
static void break_it(struct sim_disk *sim, size_t how)
{
    static uint8_t foreign[DRIVER_SEGMENT];
    struct segment_head head = {.version = FORMAT_VERSION, .journal = 3, .first = 1 << 20};
    char second[FORMAT_NAME_BYTES];
    char last[FORMAT_NAME_BYTES];
    char name[FORMAT_NAME_BYTES];
    size_t bytes = 0;
    snprintf(second, sizeof second, "%s", sim_disk_name(sim, 1));
    snprintf(last, sizeof last, "%s", sim_disk_name(sim, 2));
    switch (how) {
    case 0: memset(sim_disk_file(sim, DRIVER_FIRST, &bytes) + 1000, 0xee, 512); break;
    case 1: memset(sim_disk_file(sim, DRIVER_FIRST, &bytes), 0, 40); break;
    case 2: memset(sim_disk_file(sim, last, &bytes), 0xff, 512); break;
    case 3: memset(sim_disk_file(sim, second, &bytes) + 3000, 0, 1096); break;
    case 4: sim_disk_cut(sim, second, 2000); break;
    case 5: sim_disk_cut(sim, last, 700); break;
    case 6: sim_disk_cut(sim, last, 0); break;
    case 7: memset(sim_disk_file(sim, second, &bytes), 0, DRIVER_SEGMENT); break;
    default:
        segment_head_write(&head, foreign);
        segment_name_write(head.first, name);
        sim_disk_put(sim, name, foreign, sizeof foreign);
        break;
    }
}

Test(journal_tool, mends_whatever_is_broken)
{
    struct sim_disk *sim = make_journal();
    for (size_t i = 0; i < 9; i++) {
        for (size_t k = 0; k < 9; k++) {
            struct sim_disk *spoiled = sim_disk_clone(sim, 1);
            size_t lost = 0;
            break_it(spoiled, i);
            /* A file that was cut to nothing has no more to break. */
            if ((i != 6 || (k != 2 && k != 5)) && (i != 4 || k != 3) && (i != 5 || k != 2) &&
                i != k)
                break_it(spoiled, k);
            cr_assert_eq(check(spoiled), JOURNAL_DAMAGED, "%zu, %zu: %s", i, k, said);
            cr_assert_eq(repair(spoiled), JOURNAL_OK, "%zu, %zu: %s", i, k, said);
            cr_assert_eq(check(spoiled), JOURNAL_OK, "%zu, %zu: %s", i, k, said);
            cr_assert_gt(count_left(spoiled, &lost), 10, "%zu, %zu: %s", i, k, said);
            sim_disk_free(&spoiled);
        }
    }
    sim_disk_free(&sim);
}

Test(journal_tool, makes_up_for_a_missing_file)
{
    struct sim_disk *sim = make_journal();
    for (size_t i = 0; i < 3; i++) {
        struct sim_disk *spoiled = sim_disk_clone(sim, 1);
        size_t lost = 0;
        sim_disk_remove(spoiled, sim_disk_name(sim, i));
        cr_assert_eq(repair(spoiled), JOURNAL_OK, "%s", said);
        cr_assert(strstr(said, "a file is missing: none") != NULL, "%s", said);
        cr_assert(strstr(said, "its records are lost") != NULL, "%s", said);
        cr_assert_gt(count_left(spoiled, &lost), RECORDS / 3);
        cr_assert_eq(lost, i < 2);
        sim_disk_free(&spoiled);
    }
    sim_disk_free(&sim);
}

/* A repair that is interrupted anywhere is begun again, and ends as well. */
Test(journal_tool, can_be_interrupted)
{
    struct sim_disk *sim = make_journal();
    break_it(sim, 0);
    break_it(sim, 3);
    break_it(sim, 5);
    for (uint64_t call = 1; call < 60; call++) {
        struct sim_disk *spoiled = sim_disk_clone(sim, call);
        size_t lost = 0;
        sim_disk_stop_after(spoiled, call);
        (void)repair(spoiled);
        sim_disk_crash(spoiled);
        cr_assert_eq(repair(spoiled), JOURNAL_OK, "%llu: %s", (unsigned long long)call, said);
        cr_assert_gt(count_left(spoiled, &lost), RECORDS / 3);
        cr_assert_not_null(find_saved(spoiled, "lost-"));
        sim_disk_free(&spoiled);
    }
    sim_disk_free(&sim);
}

Test(journal_tool, leaves_alone_what_a_newer_version_wrote)
{
    struct sim_disk *sim = make_journal();
    size_t bytes = 0;
    struct segment_head head;
    uint8_t *file = sim_disk_file(sim, DRIVER_FIRST, &bytes);
    cr_assert_eq(segment_head_read(file, &head), SEGMENT_GOOD);
    head.version = 2;
    segment_head_write(&head, file);
    cr_expect_eq(check(sim), JOURNAL_FORMAT);
    (void)sim_disk_told(sim);
    cr_expect_eq(repair(sim), JOURNAL_FORMAT);
    cr_expect_str_eq(sim_disk_told(sim), "");
    cr_expect(strstr(said, "a newer errbusd wrote it") != NULL);
    sim_disk_free(&sim);
}

Test(journal_tool, writes_out_a_line_for_each_record_and_each_flaw)
{
    struct sim_disk *sim = sim_disk_new(1);
    struct journal *journal = driver_open(sim);
    struct journal_record records[] = {
        {7, span_text("ab\xff")}, {8, SPAN_NONE}, {9, span_text("x")}};
    char *text = NULL;
    size_t bytes = 0;
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(
            journal_append(journal, journal_lease(journal), journal_next(journal), &records[i], 1,
                           i == 0 ? JOURNAL_CHECKPOINT_BEGIN | JOURNAL_CHECKPOINT_END : 0, NULL),
            JOURNAL_OK);
        driver_must_sync(journal);
    }
    journal_close(&journal);
    sim_disk_file(sim, DRIVER_FIRST, &bytes)[FORMAT_SEGMENT_BYTES + 32] ^= 1;
    FILE *out = open_memstream(&text, &bytes);
    struct disk *disk = sim_disk_open(sim);
    cr_expect_eq(tool_export(&disk, out, hear, NULL), JOURNAL_DAMAGED);
    fclose(out);
    cr_expect_str_eq(
        text, "{\"position\":0,\"kind\":7,\"bytes\":3,\"crc\":true,\"batch\":1,\"synced\":0,"
              "\"checkpoint_begin\":true,\"checkpoint_end\":true,\"body\":\"6162ff\"}\n"
              "{\"position\":56,\"kind\":9,\"bytes\":1,\"crc\":true,\"batch\":3,\"synced\":56,"
              "\"body\":\"78\"}\n"
              "{\"position\":32,\"bytes\":24,\"crc\":false,\"why\":\"'sim/" DRIVER_FIRST
              "' is damaged at position 32 (offset 96), 24 B\"}\n");
    free(text);
    sim_disk_free(&sim);
}
