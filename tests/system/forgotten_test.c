/* SPDX-License-Identifier: MPL-2.0 */
/* forgotten_test.c -- the broker is started over a copy of its journal that is older than what it
 * had acknowledged: whoever it had told more is told, and the verdict blames the broker. */
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(forgotten, .init = revival_open, .fini = revival_close, .timeout = 120);

static void visit_files(const char *from, const char *to)
{
    DIR *folder = opendir(from);
    const struct dirent *entry;
    cr_assert_not_null(folder, "%s", from);
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        if (to != NULL)
            cr_assert(folder_copy(from, to, entry->d_name), "%s", entry->d_name);
        else
            cr_assert_eq(unlinkat(dirfd(folder), entry->d_name, 0), 0, "%s", entry->d_name);
    }
    closedir(folder);
}

static void name_copy(char copy[REVIVAL_PATH_BYTES])
{
    snprintf(copy, REVIVAL_PATH_BYTES, "%s/copy", revival.folder.path);
}

/* As README says: the broker is stopped, and its directory copied.  It goes on then. */
static void back_up(const char *durability)
{
    char copy[REVIVAL_PATH_BYTES];
    name_copy(copy);
    revival_kill();
    cr_assert_eq(mkdir(copy, 0700), 0);
    visit_files(revival.journal, copy);
    revival_start(durability, NULL);
}

static void restore(const char *durability)
{
    char copy[REVIVAL_PATH_BYTES];
    name_copy(copy);
    revival_kill();
    visit_files(revival.journal, NULL);
    visit_files(copy, revival.journal);
    visit_files(copy, NULL);
    cr_assert_eq(rmdir(copy), 0);
    revival_start(durability, NULL);
}

static void expect_forgotten(struct bus *bus, const char *has, const char *said)
{
    struct bus_error *error = bus_failure(bus);
    cr_assert_not_null(error);
    cr_expect_str_eq(bus_error_kind(error), "broker_lost");
    cr_expect_str_eq(bus_error_type(error), "errbus.forgotten");
    cr_expect_not_null(strstr(bus_error_message(error), has), "%s", bus_error_message(error));
    cr_expect_not_null(strstr(bus_error_message(error), said), "%s", bus_error_message(error));
    bus_error_unref(&error);
}

/* Until the session of this party is over. */
static void expect_end_of_session(struct bus *bus)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    expect_code(bus_await(bus, "nobody/x", 0, SOON_MS, &msg, &error), BUS_ELOST);
    bus_error_unref(&error);
}

static void expect_warning(const char *text)
{
    const char *line = "";
    while (strstr(line, text) == NULL)
        cr_assert(process_complaint(&stage.process, SOON_MS, &line), "%s",
                  process_complained(&stage.process));
    cr_expect_not_null(strstr(line, " warning: "), "%s", line);
}

static void forget_values(const char *durability)
{
    revival_start(durability, NULL);
    struct bus *alice = revival_open_patient("alice");
    struct bus *bob = revival_open_patient("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/#");
    must_publish(alice, "w", "0");
    must_flush(alice);
    expect_value(sub, "alice/w", 0, "0");
    back_up(durability);
    for (int i = 1; i < 5; i++)
        must_publish(alice, "w", "%d", i);
    must_flush(alice); /* she has nothing more to say */
    for (int i = 1; i < 5; i++)
        expect_value(sub, "alice/w", (uint64_t)i, "%d", i);
    restore(durability);
    struct bus_tap *tap = must_tap(NULL, 1);
    expect_end_of_session(alice);
    /* The name of her topic is a frame, too. */
    expect_forgotten(alice, "has 2 of 6 frames", "alice");
    const struct bus_event *event = expect_event(tap, "broker.forgot", "alice");
    cr_expect_eq(bus_event_count(event), 4);
    cr_expect_str_eq(bus_error_party(bus_event_error(event)), "");
    struct bus_error *error = expect_error(sub, "alice", 1, "broker_lost");
    cr_expect_str_eq(bus_error_type(error), "errbus.forgotten");
    bus_error_unref(&error);
    bus_sub_close(&sub);
    must_close(&bob);
    expect_code(bus_close(&alice, SOON_MS), BUS_ELOST);
    event = expect_event(tap, "verdict.final", "");
    cr_expect_str_eq(bus_error_kind(bus_event_error(event)), "broker_lost");
    cr_expect_str_eq(bus_error_party(bus_event_error(event)), "");
    bus_tap_close(&tap);
    expect_warning("broker.forgot default/alice/1: the broker has 2 of 6 frames");
}

Test(forgotten, values_are_told_to_their_writer_and_their_reader_at_disk)
{
    forget_values("disk");
}

Test(forgotten, values_are_told_to_their_writer_and_their_reader_at_process)
{
    forget_values("process");
}

Test(forgotten, nothing_goes_on_as_ever)
{
    revival_start("disk", NULL);
    struct bus *alice = revival_open_patient("alice");
    must_publish(alice, "w", "0");
    must_flush(alice);
    back_up("disk");
    restore("disk");
    must_publish(alice, "w", "1");
    must_flush(alice);
    expect_awaited(alice, "alice/w", 1, "1");
    must_close(&alice);
}
