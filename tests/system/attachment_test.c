/* SPDX-License-Identifier: MPL-2.0 */
/* attachment_test.c -- what belongs to an error and is too long for it: brought beside it, fetched
 * by whoever asks, there after its party and over the broker's death. */
#include "tests/lib/expect.h"
#include "tests/lib/process.h"
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(attachment, .init = revival_begin, .fini = revival_close, .timeout = 120);

struct text {
    char *bytes;
    size_t count;
    size_t most; /* then it wants no more */
};

static int append(const void *bytes, size_t count, void *arg)
{
    struct text *text = arg;
    if (text->count + count > text->most)
        return 1;
    char *grown = realloc(text->bytes, text->count + count + 1);
    if (grown == NULL)
        return 1;
    memcpy(grown + text->count, bytes, count);
    text->bytes = grown;
    text->count += count;
    return 0;
}

static char said[600]; /* by what was fetched last, of why it is not whole */

static enum bus_err fetch(const char *id, const char *name, struct text *text)
{
    struct bus_error *error = NULL;
    *text = (struct text){.most = SIZE_MAX};
    enum bus_err err =
        bus_admin_attachment_fetch(stage_admin(), NULL, id, name, SOON_MS, append, text, &error);
    snprintf(said, sizeof said, "%s", err != BUS_OK ? bus_error_message(error) : "");
    bus_error_unref(&error);
    return err;
}

static void expect_fetched(const char *id, const char *name, const char *bytes, size_t count)
{
    struct text text;
    enum bus_err err = fetch(id, name, &text);
    cr_expect_eq(err, BUS_OK, "%s: %s, %s", name, code_name(err), said);
    cr_assert_eq(text.count, count, "%s: %zu bytes", name, text.count);
    cr_expect(count == 0 || memcmp(text.bytes, bytes, count) == 0, "%s", name);
    free(text.bytes);
}

static void expect_none(const char *id, const char *name)
{
    struct text text;
    enum bus_err err = fetch(id, name, &text);
    cr_expect_eq(err, BUS_EINVAL, "%s: %s", name, code_name(err));
    free(text.bytes);
}

/* Lines that tell where they are. */
static char *make_output(size_t count)
{
    char *bytes = malloc(count + 32);
    cr_assert_not_null(bytes);
    for (size_t at = 0, line = 0; at < count; line++)
        at += (size_t)snprintf(bytes + at, 32, "line %zu\n", line);
    return bytes;
}

enum { LONG_BYTES = 5000000 };

Test(attachment, is_brought_beside_its_error_and_stays)
{
    static const size_t sizes[] = {0, 1, 65535, 65536, 65537, LONG_BYTES};
    char *output = make_output(LONG_BYTES);
    char path[FOLDER_PATH_BYTES_MAX];
    cr_assert(folder_write(&revival.folder, "log", "what the file has", path));
    struct bus *alice = must_open_frank("alice");
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/w");
    struct bus_slot *slot = must_reserve(alice, "w");
    struct bus_error *error = bus_error_new("app.broken", NULL, "see what is attached");
    char id[600], name[32];
    int64_t bytes = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        snprintf(name, sizeof name, "of %zu", sizes[i]);
        expect_code(bus_error_add_data(error, name, output, sizes[i]), BUS_OK);
    }
    expect_code(bus_error_add_file(error, "log", path), BUS_OK);
    bus_slot_fail(&slot, error);
    struct bus_error *raised = expect_error(sub, "alice/w", 0, "application");
    snprintf(id, sizeof id, "%s", bus_error_id(raised));
    cr_expect_str_eq(bus_error_attachment_at(raised, 6, &bytes), "log");
    cr_expect_eq(bytes, 17);
    cr_expect_str_eq(bus_error_attachment_at(raised, 5, &bytes), "of 5000000");
    cr_expect_eq(bytes, LONG_BYTES);
    cr_expect_null(bus_error_attachment_at(raised, 7, &bytes));
    must_flush(alice);
    for (int start = 0; start < 2; start++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            snprintf(name, sizeof name, "of %zu", sizes[i]);
            expect_fetched(id, name, output, sizes[i]);
        }
        expect_fetched(id, "log", "what the file has", 17);
        expect_none(id, "nothing");
        expect_none("default/alice/1/99", "log");
        if (start == 0) {
            revival_kill();
            revival_start("process", NULL);
        }
    }
    struct text text = {.most = 100000};
    expect_code(bus_admin_attachment_fetch(stage_admin(), NULL, id, "of 5000000", SOON_MS, append,
                                           &text, NULL),
                BUS_ECLOSED);
    cr_expect_eq(text.count, 65536, "what it took before it wanted no more");
    free(text.bytes);
    bus_error_unref(&raised);
    bus_error_unref(&error);
    bus_sub_close(&sub);
    must_close(&alice);
    must_close(&bob);
    free(output);
}

Test(attachment, comes_with_the_failure_of_a_party_and_its_causes)
{
    struct bus *alice = must_open_frank("alice");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    struct bus_error *cause = bus_error_new("app.cause", NULL, "why");
    expect_code(bus_error_add_data(cause, "core", "dumped", 6), BUS_OK);
    struct bus_error *error = bus_error_new("app.broken", cause, "what");
    expect_code(bus_error_add_data(error, "stderr", "said", 4), BUS_OK);
    bus_fail(alice, error);
    (void)bus_close(&alice, SOON_MS); /* it failed */
    const struct bus_event *event = expect_event(tap, "party.failed", "alice");
    expect_fetched(bus_error_id(bus_event_error(event)), "stderr", "said", 4);
    expect_fetched(bus_error_id(bus_error_cause(bus_event_error(event))), "core", "dumped", 6);
    bus_error_unref(&cause);
    bus_error_unref(&error);
    bus_tap_close(&tap);
}

static void fail_with_attachment(struct bus *bus)
{
    struct bus_slot *slot = must_reserve(bus, "w");
    struct bus_error *error = bus_error_new("app.broken", NULL, "what");
    expect_code(bus_error_add_data(error, "stderr", "said", 4), BUS_OK);
    bus_slot_fail(&slot, error);
    must_flush(bus);
    bus_error_unref(&error);
}

Test(attachment, is_brought_by_the_courier_that_is_there)
{
    struct bus *alice = must_open_frank("alice");
    unsigned threads = test_thread_count();
    fail_with_attachment(alice);
    unsigned with_courier = test_thread_count();
    cr_assert_gt(with_courier, threads);
    fail_with_attachment(alice);
    cr_expect_eq(test_thread_count(), with_courier);
    must_close(&alice);
}

Test(attachment, does_not_leave_a_party_that_is_discreet)
{
    struct bus *alice = must_open("alice");
    struct bus_slot *slot = must_reserve(alice, "w");
    struct bus_error *error = bus_error_new("app.broken", NULL, "what");
    expect_code(bus_error_add_data(error, "stderr", "said", 4), BUS_OK);
    bus_slot_fail(&slot, error);
    must_flush(alice);
    expect_none(bus_error_id(error), "stderr");
    bus_error_unref(&error);
    must_close(&alice);
}

Test(attachment, is_refused_where_it_makes_no_sense)
{
    char name[300];
    struct bus_error *error = bus_error_new("app.broken", NULL, "what");
    memset(name, 'n', sizeof name);
    name[201] = '\0';
    expect_code(bus_error_add_data(error, name, "x", 1), BUS_EINVAL);
    name[200] = '\0';
    expect_code(bus_error_add_data(error, name, "x", 1), BUS_OK);
    expect_code(bus_error_add_data(error, name, "x", 1), BUS_EINVAL);
    expect_code(bus_error_add_data(error, "", "x", 1), BUS_EINVAL);
    expect_code(bus_error_add_data(error, NULL, "x", 1), BUS_EINVAL);
    expect_code(bus_error_add_data(NULL, "a", "x", 1), BUS_EINVAL);
    expect_code(bus_error_add_data(error, "a", NULL, 1), BUS_EINVAL);
    expect_code(bus_error_add_file(error, "a", "/nonexistent/file"), BUS_EINVAL);
    for (int i = 1; i < 16; i++) {
        snprintf(name, sizeof name, "%d", i);
        expect_code(bus_error_add_data(error, name, NULL, 0), BUS_OK);
    }
    expect_code(bus_error_add_data(error, "one too many", NULL, 0), BUS_EFULL);
    struct bus_error *other = bus_error_new("app.other", error, "it is used now");
    expect_code(bus_error_add_data(error, "late", NULL, 0), BUS_EINVAL);
    bus_error_unref(&other);
    bus_error_unref(&error);
}

/* The whole of what a program said, where its message has but the end. */
Test(attachment, of_errbus_run_is_all_of_standard_error)
{
    struct process run, shown;
    char logs[FOLDER_PATH_BYTES_MAX + 8];
    snprintf(logs, sizeof logs, "%s/logs", revival.folder.path);
    const char *const argv[] = {
        "errbus", "run",       "--server", stage.control, "-p",
        "alice",  "--log-dir", logs,       "--plain",     "--disclosure",
        "full",   "--",        "sh",       "-c",          "seq 1 30000 >&2; exit 3",
        NULL};
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    cr_assert(process_start(&run, argv, NULL));
    cr_expect_eq(process_wait(&run, SOON_MS), 3);
    process_fini(&run);
    const struct bus_event *event = expect_event(tap, "party.failed", "alice");
    const char *const ask[] = {"errbus",
                               "errors",
                               "show",
                               bus_error_id(bus_event_error(event)),
                               "--attachment",
                               "stderr",
                               "--server",
                               stage.control,
                               NULL};
    cr_assert(process_start(&shown, ask, NULL));
    cr_expect_eq(process_wait(&shown, SOON_MS), 0, "%s", process_complained(&shown));
    const char *at = process_said(&shown);
    for (int i = 1; i <= 30000; i++) {
        char *end = NULL;
        cr_assert_eq(strtol(at, &end, 10), i);
        at = end + 1;
    }
    cr_expect_eq(*at, '\0');
    process_fini(&shown);
    bus_tap_close(&tap);
}
