/* SPDX-License-Identifier: MPL-2.0 */
/* restart_history_test.c -- what a job was told stays told: its events and errors are there after
 * the broker was killed and started again over its journal, within their budget, and their ids go
 * on. */
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is kept of a job's history, as errbus-errors(1) says. */
#define EVENTS_MAX 16384
#define EVENT_BYTES_MAX (16 * 1024 * 1024)
#define MESSAGE_BYTES_MAX 4096 /* of an error, uncut */

/* It tells of each error, however many are alike. */
static void start_broker(const char *durability)
{
    const char *const more[] = {"--test-like-errors", "1000000", NULL};
    revival_start(durability, more);
}

TestSuite(restart_history, .init = revival_open, .fini = revival_close, .timeout = 180);

static void restart_broker(const char *durability)
{
    revival_kill();
    start_broker(durability);
}

/* ---- what a job was told --------------------------------------------------------------------- */

/* All events that are kept, a line each. */
struct story {
    char *text;
    size_t bytes;
    uint64_t first_id; /* 0: there are none */
    uint64_t next_id;
};

static void write_event(FILE *file, const struct bus_event *event)
{
    const struct bus_error *error = bus_event_error(event);
    fprintf(file, "%" PRIu64 " %" PRId64 " %s %s/%u %s %" PRIu64 " (%" PRIu64 ") %s",
            bus_event_id(event), bus_event_at_ns(event), bus_event_name(event),
            bus_event_party(event), (unsigned)bus_event_incarnation(event), bus_event_topic(event),
            bus_event_seq(event), bus_event_count(event), bus_event_text(event));
    if (error != NULL) {
        char described[1024];
        bus_error_describe(error, described, sizeof described);
        fprintf(file, ": %" PRId64 " %s", bus_error_occurred_ns(error), described);
    }
    fputc('\n', file);
}

static struct story read_story(void)
{
    struct story story = {0};
    FILE *file = open_memstream(&story.text, &story.bytes);
    struct bus_tap *tap = must_tap(NULL, 1);
    cr_assert_not_null(file);
    story.next_id = bus_tap_next_id(tap);
    for (uint64_t id = 0; id + 1 < story.next_id;) {
        const struct bus_event *event = NULL;
        struct bus_error *error = NULL;
        expect_code_of(bus_tap_next(tap, SOON_MS, &event, &error), BUS_OK, &error);
        cr_assert(id == 0 || bus_event_id(event) == id + 1, "%" PRIu64 " behind %" PRIu64,
                  bus_event_id(event), id);
        id = bus_event_id(event);
        story.first_id = story.first_id == 0 ? id : story.first_id;
        write_event(file, event);
    }
    bus_tap_close(&tap);
    fclose(file);
    return story;
}

static void story_fini(struct story *story)
{
    free(story->text);
    story->text = NULL;
}

/* What was told before is told again, and nothing was forgotten. */
static void expect_story_goes_on(const struct story *before, const struct story *now)
{
    cr_assert_geq(now->next_id, before->next_id);
    cr_assert_eq(now->first_id, before->first_id);
    cr_assert_geq(now->bytes, before->bytes);
    cr_assert_eq(memcmp(now->text, before->text, before->bytes), 0, "before:\n%s\nnow:\n%s",
                 before->text, now->text);
}

static void fail_one(struct bus *bus, const char *text)
{
    struct bus_slot *slot = must_reserve(bus, "w");
    fail_slot(&slot, "app.broken", text);
}

static void expect_history_after_kill(const char *durability)
{
    start_broker(durability);
    struct party carol = {0};
    struct bus_tap *tap = must_tap(NULL, 1);
    party_start(&carol, "carol", NULL);
    party_do(&carol, "OK", "reserve w 1");
    process_signal(&carol.process, SIGKILL);
    (void)expect_event(tap, "party.lost", "carol");
    bus_tap_close(&tap);
    struct bus *alice = revival_open_patient("alice");
    fail_one(alice, "of the first incarnation");
    must_flush(alice);
    struct story first = read_story();
    cr_assert_gt(first.next_id, 4);
    restart_broker(durability);
    struct story second = read_story();
    expect_story_goes_on(&first, &second);
    fail_one(alice, "of the second incarnation");
    must_flush(alice);
    restart_broker(durability);
    must_close(&alice);
    struct story third = read_story();
    expect_story_goes_on(&second, &third);
    cr_expect_not_null(strstr(third.text, "of the second incarnation"));
    cr_expect_not_null(strstr(third.text, "party.left alice/1"), "%s", third.text);
    cr_expect_null(strstr(third.text, "party.lost alice"), "%s", third.text);
    story_fini(&third);
    story_fini(&second);
    story_fini(&first);
    party_fini(&carol);
}

Test(restart_history, is_whole_on_the_disk)
{
    expect_history_after_kill("disk");
}

Test(restart_history, is_whole_in_the_log)
{
    expect_history_after_kill("process");
}

/* ---- what is durable ------------------------------------------------------------------------- */

static void expect_durability(const char *durability)
{
    struct bus_status *status = NULL;
    struct bus_error *error = NULL;
    expect_code_of(bus_admin_status_get(stage_admin(), BUS_JOB_ALL, SOON_MS, &status, &error),
                   BUS_OK, &error);
    cr_expect_str_eq(bus_durability_name(bus_status_durability(status)), durability);
    bus_status_free(&status);
}

/* As the acknowledgements of this party's messages had it. */
static void expect_level(const struct bus *bus, const char *durability)
{
    cr_expect_str_eq(bus_durability_name(bus_durability(bus)), durability);
}

/* Of the first event, as a new tap is told it. */
static bool is_first_durable(void)
{
    struct bus_tap *tap = must_tap(NULL, 1);
    bool is_durable = bus_event_is_durable(expect_event(tap, "party.joined", "alice")) != 0;
    bus_tap_close(&tap);
    return is_durable;
}

static void expect_events_become_durable(const char *durability)
{
    start_broker(durability);
    expect_durability(durability);
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    struct bus *alice = revival_open_patient("alice");
    const struct bus_event *event = expect_event(tap, "party.joined", "alice");
    cr_expect_not(bus_event_is_durable(event), "it is told before it can be");
    bus_tap_close(&tap);
    must_publish(alice, "w", "x");
    must_flush(alice);
    expect_level(alice, durability);
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (!is_first_durable()) {
        cr_assert_lt(test_now_ms(), until_ms, "it is never said to be kept");
    }
    restart_broker(durability);
    cr_expect(is_first_durable(), "it was kept");
    expect_level(alice, durability);
    must_close(&alice);
}

Test(restart_history, says_when_it_is_on_the_disk)
{
    expect_events_become_durable("disk");
}

Test(restart_history, says_when_it_is_in_the_log)
{
    expect_events_become_durable("process");
}

Test(restart_history, is_never_durable_without_a_journal)
{
    const char *const more[] = {"--control", revival.control, "--data", revival.data,
                                "--journal", "none",          NULL};
    stage_open_with(more);
    expect_durability("memory");
    struct bus *alice = revival_open_patient("alice");
    must_publish(alice, "w", "x");
    must_flush(alice);
    expect_level(alice, "memory");
    cr_expect_not(is_first_durable());
    must_close(&alice);
}

/* ---- budgets --------------------------------------------------------------------------------- */

/* So many errors with a text of so many bytes; then nobody is there any more. */
static void fail_many(int count, size_t text_bytes)
{
    char *text = calloc(1, text_bytes + 1);
    struct bus *alice = revival_open_patient("alice");
    cr_assert_not_null(text);
    for (int i = 0; i < count; i++) {
        memset(text, 'a' + i % 26, text_bytes);
        fail_one(alice, text);
        if (i % 500 == 0) {
            must_flush(alice);
        }
    }
    must_close(&alice);
    free(text);
}

static void expect_budget(int failures, size_t text_bytes)
{
    start_broker("process");
    fail_many(failures, text_bytes);
    struct story before = read_story();
    cr_assert_gt(before.first_id, 1, "more was told than is kept");
    restart_broker("process");
    struct story after = read_story();
    expect_story_goes_on(&before, &after);
    cr_expect_eq(after.next_id, before.next_id, "%s", after.text);
    story_fini(&after);
    fail_many(10, text_bytes); /* the oldest go, ids go on; alice came, in a new run, and left */
    after = read_story();
    cr_expect_gt(after.first_id, before.first_id);
    cr_expect_eq(after.next_id, before.next_id + 13);
    cr_expect_leq(after.next_id - after.first_id, EVENTS_MAX);
    story_fini(&after);
    story_fini(&before);
}

Test(restart_history, keeps_as_many_events_as_before)
{
    expect_budget(EVENTS_MAX + 100, 10);
}

Test(restart_history, keeps_as_many_bytes_as_before)
{
    expect_budget(EVENT_BYTES_MAX / MESSAGE_BYTES_MAX + 100, MESSAGE_BYTES_MAX);
}

/* Where the journal's oldest segment begins: that is the segment's name. */
static uint64_t oldest_segment(void)
{
    DIR *entries = opendir(revival.journal);
    const struct dirent *entry;
    uint64_t oldest = UINT64_MAX;
    cr_assert_not_null(entries);
    while ((entry = readdir(entries)) != NULL) {
        uint64_t first = strtoull(entry->d_name, NULL, 10);
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && first < oldest) {
            oldest = first;
        }
    }
    closedir(entries);
    return oldest;
}

static bool is_beyond(void *first)
{
    return oldest_segment() > *(const uint64_t *)first;
}

/* Segments go when what takes their place is on the disk. */
static bool await_oldest_beyond(uint64_t first)
{
    return folder_await(revival.journal, is_beyond, &first, SOON_MS);
}

/* The segments in which it was told first are gone by then. */
Test(restart_history, outlives_checkpoints)
{
    enum { VALUES = 400, VALUE_BYTES = 256 * 1024 }; /* 100 MiB: a checkpoint each 64 MiB */
    static char value[VALUE_BYTES];
    start_broker("process");
    fail_many(3, 10);
    uint64_t told_in = oldest_segment();
    struct story before = read_story();
    for (int round = 0; round < 2; round++) {
        struct bus *bob = revival_open_patient("bob");
        for (int i = 0; i < VALUES; i++) {
            expect_code(bus_publish(bob, "bulk", value, sizeof value), BUS_OK);
        }
        must_close(&bob);
        restart_broker("process");
        struct story after = read_story();
        expect_story_goes_on(&before, &after);
        story_fini(&before);
        before = after;
    }
    cr_expect(await_oldest_beyond(told_in));
    story_fini(&before);
}

/* ---- those who are there meanwhile ----------------------------------------------------------- */

/* A tap that stays open through restarts is told each failure once, under ids without a gap. */
Test(restart_history, goes_on_for_a_tap_that_is_there)
{
    enum { ROUNDS = 5, EACH = 20 };
    start_broker("process");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    struct bus *alice = revival_open_patient("alice");
    uint64_t id = 0;
    uint64_t seq = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < EACH; i++) {
            fail_one(alice, "again");
        }
        must_flush(alice); /* what is acknowledged is in the log, and so is that it was told */
        restart_broker("process");
        while (seq < (uint64_t)((round + 1) * EACH)) {
            const struct bus_event *event = NULL;
            struct bus_error *error = NULL;
            expect_code_of(bus_tap_next(tap, SOON_MS, &event, &error), BUS_OK, &error);
            cr_assert_eq(bus_event_id(event), ++id, "%s %s", bus_event_name(event),
                         bus_event_party(event));
            if (strcmp(bus_event_name(event), "slot.failed") == 0) {
                cr_assert_eq(bus_event_seq(event), seq++);
            }
        }
    }
    must_close(&alice);
    bus_tap_close(&tap);
}

/* ---- the command line ------------------------------------------------------------------------ */

static void run_errbus(struct process *process, const char *subcommand, const char *more)
{
    const char *const argv[] = {"errbus", subcommand, "-s", revival.control, "--json", more, NULL};
    cr_assert(process_start(process, argv, NULL));
    cr_assert_eq(process_wait(process, SOON_MS), 0, "%s", process_complained(process));
}

Test(restart_history, is_listed_by_the_command_line_as_before)
{
    struct process before;
    struct process after;
    start_broker("disk");
    fail_many(5, 100);
    run_errbus(&before, "errors", NULL);
    cr_assert_not_null(strstr(process_said(&before), "app.broken"));
    restart_broker("disk");
    run_errbus(&after, "errors", NULL);
    cr_expect_str_eq(process_said(&after), process_said(&before));
    process_fini(&after);
    process_fini(&before);
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    cr_expect_eq(bus_tap_next_id(tap), 8, "joined, five failures, left");
    bus_tap_close(&tap);
    const char *const argv[] = {"errbus", "tap", "-s", revival.control, "--since", "6",
                                "-C",     "2",   NULL};
    cr_assert(process_start(&after, argv, NULL));
    cr_assert_eq(process_wait(&after, SOON_MS), 0, "%s", process_complained(&after));
    cr_expect_eq(strncmp(process_said(&after), "{\"id\":6,", 8), 0, "%s", process_said(&after));
    cr_expect_not_null(strstr(process_said(&after), "\"event\":\"party.left\""));
    process_fini(&after);
}
