/* SPDX-License-Identifier: MPL-2.0 */
/* old_journal_test.c -- a broker goes on with the journal that a broker of an older release left:
 * tests/corpus/broker/VERSION, with all that it had to tell.
 *
 * ERRBUS_WRITE_BROKER_CORPUS=FOLDER writes one, once a release: what is there is never touched. */
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CORPUS TEST_SOURCE_DIR "/tests/corpus/broker"

enum { FILE_BYTES_MAX = 65536, PATH_BYTES = 1024 };

TestSuite(old_journal, .init = revival_open, .fini = revival_close, .timeout = 120);

/* The segments of a journal; what else is in its directory is made anew. */
static void copy_segments(const char *from, const char *to)
{
    int count = 0;
    const struct dirent *entry = NULL;
    DIR *names = opendir(from);
    cr_assert_not_null(names, "%s", from);
    while ((entry = readdir(names)) != NULL) {
        if (strstr(entry->d_name, ".journal") == NULL)
            continue;
        cr_assert(folder_copy(from, to, entry->d_name), "%s", entry->d_name);
        count += 1;
    }
    closedir(names);
    cr_assert_gt(count, 1, "a journal of several segments");
}

/* It has no place in the first segment any more. */
static const char *large_text(void)
{
    static char text[3000];
    memset(text, 'x', sizeof text - 1);
    return text;
}

/* bob's, under a name that outlives him. */
static struct bus_sub *read_durably(struct bus *bob)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.name = "reader";
    return must_subscribe_with(bob, "alice/#", &options);
}

/* ---- what is kept -----------------------------------------------------------------------------*/

/* alice has a value that was read, one that was not, an error and a promise. */
Test(old_journal, is_written_when_it_is_asked_for)
{
    const char *keep = getenv("ERRBUS_WRITE_BROKER_CORPUS");
    const char *const small_segments[] = {"ERRBUS_NUMBER_SEGMENT_BYTES=4096", NULL};
    cr_assert(revival_start_failing("disk", small_segments, NULL));
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = read_durably(bob);
    must_publish(alice, "w", "read before");
    struct bus_slot *failed = must_reserve(alice, "w");
    struct bus_slot *kept = must_reserve(alice, "w");
    struct bus_slot *open = must_reserve(alice, "w");
    fail_slot(&failed, "app.disk_full", "no room left");
    must_commit(&kept, large_text());
    must_flush(alice);
    expect_value(sub, "alice/w", 0, "read before");
    must_flush(bob);
    bus_sub_close(&sub);
    must_close(&bob);
    revival_kill();
    if (keep != NULL)
        copy_segments(revival.journal, keep);
    bus_slot_fail(&open, NULL);
    (void)bus_close(&alice, BUS_POLL); /* there is no broker */
}

/* ---- what is made of it -----------------------------------------------------------------------*/

static void expect_history(void)
{
    struct bus_tap *tap = must_tap(NULL, 1);
    const struct bus_event *event = expect_event(tap, "slot.failed", "alice");
    cr_expect_eq(bus_event_seq(event), 1);
    const struct bus_error *error = bus_event_error(event);
    cr_expect_str_eq(bus_error_type(error), "app.disk_full");
    cr_expect_str_eq(bus_error_message(error), "no room left");
    cr_expect_eq(bus_event_is_durable(event), 1);
    bus_tap_close(&tap);
}

static void take_journal(const char *version)
{
    char from[PATH_BYTES];
    snprintf(from, sizeof from, "%s/%s", CORPUS, version);
    cr_assert_eq(mkdir(revival.journal, 0700), 0);
    copy_segments(from, revival.journal);
}

static void go_on_with(const char *version)
{
    static const char *const at_once[] = {"--resume-window", "0", NULL};
    take_journal(version);
    revival_start("disk", at_once);
    cr_expect_null(strstr(process_complained(&stage.process), "warning"), "%s",
                   process_complained(&stage.process));
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = read_durably(bob);
    struct bus_error *error = expect_error(sub, "alice/w", 1, "application");
    cr_expect_str_eq(bus_error_message(error), "no room left");
    bus_error_unref(&error);
    expect_value(sub, "alice/w", 2, "%s", large_text());
    expect_failed(sub, "alice/w", 3, "party_lost");
    expect_history();
    struct bus *alice = must_open("alice"); /* her next incarnation */
    must_publish(alice, "w", "goes on");
    expect_end(sub, "party_lost");
    expect_value(sub, "alice/w", 4, "goes on");
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
}

Test(old_journal, of_version_0_1_is_gone_on_with)
{
    go_on_with("v0.1");
}

/* ---- spoiled ----------------------------------------------------------------------------------*/

/* Turns a byte of a segment: at this offset, or, -1, the last one that is not zero. */
static void turn_byte(const char *segment, long offset)
{
    static uint8_t bytes[FILE_BYTES_MAX];
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s.journal", revival.journal, segment);
    FILE *file = fopen(path, "r+e");
    cr_assert_not_null(file, "%s", path);
    size_t count = fread(bytes, 1, sizeof bytes, file);
    while (offset < 0 && count > 0 && bytes[count - 1] == 0)
        count -= 1;
    cr_assert_gt(count, 0);
    long at = offset < 0 ? (long)count - 1 : offset;
    cr_assert_eq(fseek(file, at, SEEK_SET), 0);
    cr_assert_neq(fputc(bytes[at] ^ 0x10, file), EOF);
    cr_assert_eq(fclose(file), 0);
}

Test(old_journal, that_is_damaged_is_refused_in_words_and_left_alone)
{
    struct process process = {.pid = 0};
    const char *const argv[] = {"errbusd",    "--control", revival.control, "--data",
                                revival.data, "--journal", revival.journal, NULL};
    take_journal("v0.1");
    turn_byte("00000000000000000000", 200);
    for (int i = 0; i < 2; i++) { /* the second time as the first */
        cr_assert(process_start(&process, argv, NULL));
        cr_expect_eq(process_wait(&process, SOON_MS), 1);
        const char *said = process_complained(&process);
        static const char *const words[] = {"00000000000000000000.journal",
                                            "position",
                                            "Nothing was changed",
                                            "errbusd --check",
                                            "errbusd --export",
                                            "errbusd --repair"};
        for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
            cr_expect_not_null(strstr(said, words[k]), "'%s' is not in: %s", words[k], said);
        cr_expect_null(strstr(said, "--journal none"), "what it has is to be saved: %s", said);
        process_fini(&process);
    }
}

/* What is left of one that was repaired is not guessed at. */
Test(old_journal, that_was_repaired_is_refused_in_words_if_too_much_is_lost)
{
    struct process process = {.pid = 0};
    const char *const repair[] = {"errbusd", "--repair", revival.journal, NULL};
    const char *const argv[] = {"errbusd",    "--control", revival.control, "--data",
                                revival.data, "--journal", revival.journal, NULL};
    take_journal("v0.1");
    turn_byte("00000000000000000000", 200);
    cr_assert(process_start(&process, repair, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 0);
    process_fini(&process);
    cr_assert(process_start(&process, argv, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 1);
    const char *said = process_complained(&process);
    static const char *const words[] = {"position", "because a repair cut out records before it",
                                        "errbusd --export", "another journal with --journal"};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
        cr_expect_not_null(strstr(said, words[k]), "'%s' is not in: %s", words[k], said);
    process_fini(&process);
}

Test(old_journal, with_a_torn_end_is_cut_there_and_says_so)
{
    take_journal("v0.1");
    turn_byte("00000000000000001024", -1);
    revival_start("disk", NULL);
    const char *line = NULL;
    cr_assert(process_complaint(&stage.process, SOON_MS, &line));
    cr_expect_not_null(strstr(line, "warning: journal: "), "%s", line);
    cr_expect_not_null(strstr(line, "cut"), "%s", line);
    struct bus *bob = must_open("bob");
    expect_awaited(bob, "alice/w", 0, "read before");
    must_close(&bob);
}
