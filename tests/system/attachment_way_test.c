/* SPDX-License-Identifier: MPL-2.0 */
/* attachment_way_test.c -- the way that attachments go: by the data channel alone, and whatever
 * happens on it, control waits for none of it; what is cut on its way is told as cut, and what is
 * broken goes on. */
#include "tests/lib/expect.h"
#include "tests/lib/folder.h"
#include "tests/lib/process.h"
#include "tests/lib/relay.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (UINT64_C(1024) * 1024)
#define MARK "a line of what was attached"

static struct folder folder;
static struct relay relay;
static char journal[FOLDER_PATH_BYTES_MAX + 16];
static char wire[FOLDER_PATH_BYTES_MAX + 16];

static void start_broker(const char *resume_window)
{
    const char *const more[] = {"--advertise",     relay.data_endpoint, "--journal",
                                journal,           "--durability",      "process",
                                "--resume-window", resume_window,       NULL};
    stage_open_with(more);
}

static void open_stage(void)
{
    cr_assert(folder_make(&folder));
    snprintf(wire, sizeof wire, "%s/wire", folder.path);
    snprintf(journal, sizeof journal, "%s/journal", folder.path);
    cr_assert(relay_open(&relay));
    start_broker("2s");
    cr_assert(relay_start(&relay, stage.control, stage.data));
}

static void close_stage(void)
{
    relay_fini(&relay);
    stage_close();
    folder_fini(&folder);
}

TestSuite(attachment_way, .init = open_stage, .fini = close_stage, .timeout = 240);

/* ---- what is attached ------------------------------------------------------------------------ */

static char *make_output(size_t bytes)
{
    static const char line[] = MARK "\n";
    char *output = malloc(bytes);
    cr_assert_not_null(output);
    for (size_t at = 0; at < bytes; at++)
        output[at] = line[at % (sizeof line - 1)];
    return output;
}

struct taken {
    const char *expected;
    size_t count;
    bool is_wrong;
};

static int take(const void *bytes, size_t count, void *arg)
{
    struct taken *taken = arg;
    taken->is_wrong |= memcmp(taken->expected + taken->count, bytes, count) != 0;
    taken->count += count;
    return 0;
}

static void expect_fetched(const char *endpoint, const char *id, const char *output, size_t bytes)
{
    struct taken taken = {.expected = output};
    struct bus_error *error = NULL;
    struct bus_admin *admin = NULL;
    expect_code_of(bus_admin_open(endpoint, NULL, SOON_MS, &admin, &error), BUS_OK, &error);
    enum bus_err err =
        bus_admin_attachment_fetch(admin, NULL, id, "output", SOON_MS, take, &taken, &error);
    expect_code_of(err, BUS_OK, &error);
    bus_admin_close(&admin);
    cr_expect_eq(taken.count, bytes);
    cr_expect_not(taken.is_wrong);
}

struct row {
    enum bus_attachment_state state;
    int64_t arrived;
    int64_t bytes;
};

static struct row ask(const char *id)
{
    struct row row = {.state = BUS_ATTACHMENT_UNKNOWN};
    struct bus_attachments *list = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_admin_attachment_list(stage_admin(), NULL, id, SOON_MS, &list, &error);
    expect_code_of(err, BUS_OK, &error);
    for (size_t i = 0; i < bus_attachments_count(list); i++) {
        const struct bus_attachment *last = bus_attachments_at(list, i);
        row.state = last->state;
        row.arrived = last->arrived;
        row.bytes = last->bytes;
    }
    cr_expect_null(bus_attachments_at(list, bus_attachments_count(list)));
    bus_attachments_free(&list);
    return row;
}

/* No event tells of an attachment: it is asked for again, until it is so or it takes too long. */
static struct row ask_until(const char *id, bool (*is_so)(const struct row *row))
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    struct row row = ask(id);
    while (!is_so(&row) && test_now_ms() < until_ms)
        row = ask(id);
    return row;
}

static bool has_begun(const struct row *row)
{
    return row->arrived > 0;
}

static enum bus_attachment_state expected;

static bool is_as_expected(const struct row *row)
{
    return row->state == expected;
}

static struct row expect_state(const char *id, enum bus_attachment_state state)
{
    expected = state;
    struct row row = ask_until(id, is_as_expected);
    cr_assert_eq(row.state, state);
    return row;
}

/* ---- a party behind the relay ---------------------------------------------------------------- */

static struct bus *must_open_behind(const char *party)
{
    return must_open_over(&relay, party, BUS_DISCLOSURE_FULL);
}

static void fail_with(struct bus_slot **slot, const char *output, size_t bytes, char *id,
                      size_t room)
{
    struct bus_error *error = bus_error_new("app.broken", NULL, "see what is attached");
    expect_code(bus_error_add_data(error, "output", output, bytes), BUS_OK);
    bus_slot_fail(slot, error);
    snprintf(id, room, "%s", bus_error_id(error));
    bus_error_unref(&error);
}

/* In files of the relay whose names begin so. */
static bool was_carried(const char *lane, const char *text)
{
    bool is_there = false;
    DIR *listing = opendir(wire);
    cr_assert_not_null(listing);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char path[sizeof wire + 300];
        if (strncmp(entry->d_name, lane, strlen(lane)) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", wire, entry->d_name);
        FILE *file = fopen(path, "r");
        cr_assert_not_null(file);
        static char bytes[1 << 20];
        size_t kept = 0; /* of what was read before */
        for (size_t count; (count = fread(bytes + kept, 1, sizeof bytes - kept, file)) > 0;) {
            count += kept;
            is_there |= memmem(bytes, count, text, strlen(text)) != NULL;
            kept = count < strlen(text) ? count : strlen(text);
            memmove(bytes, bytes + count - kept, kept);
        }
        fclose(file);
    }
    closedir(listing);
    return is_there;
}

/* ---- the way --------------------------------------------------------------------------------- */

/* The data connections carry no more in its middle, of anybody: whatever waited behind a byte of it
 * would wait for ever. */
Test(attachment_way, is_data_alone_and_control_waits_for_none_of_it)
{
    const size_t bytes = (is_asked("TEST_LARGE") ? 256 : 16) * MIB;
    char *output = make_output(bytes);
    char id[600];
    cr_assert_eq(mkdir(wire, 0700), 0);
    relay.record_folder = wire;
    struct bus *alice = must_open_behind("alice");
    struct bus *bob = must_open("bob");
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    struct bus_sub *sub = must_subscribe(bob, "alice/#");
    struct bus_slot *first = must_reserve(alice, "w");
    struct bus_slot *second = must_reserve(alice, "w");
    struct bus_slot *third = must_reserve(alice, "w");
    struct bus *carol = must_open("carol");
    struct bus_slot *slot = must_reserve(carol, "w");
    must_flush(alice);
    must_flush(carol);
    relay_limit(&relay, RELAY_OUT, 4 * MIB);
    fail_with(&first, output, bytes, id, sizeof id);
    expect_failed(sub, "alice/w", 0, "application");
    cr_expect_not_null(expect_event(tap, "slot.failed", "alice"));
    cr_assert(relay_await_limit(&relay, RELAY_OUT, SOON_MS));
    fail_slot(&second, "app.second", "told beside it");
    cr_expect_not_null(expect_event(tap, "slot.failed", "alice"));
    expect_failed(sub, "alice/w", 1, "application");
    fail_slot(&slot, "app.other", "told beside it"); /* others neither */
    cr_expect_not_null(expect_event(tap, "slot.failed", "carol"));
    struct row row = ask(id);
    cr_expect_lt(row.arrived, (int64_t)bytes);
    cr_expect_eq(row.bytes, (int64_t)bytes);
    relay_limit(&relay, RELAY_OUT, UINT64_MAX / 2);
    fail_slot(&third, "app.third", "and it goes on");
    must_flush(alice);
    row = expect_state(id, BUS_ATTACHMENT_WHOLE);
    cr_expect_eq(row.arrived, (int64_t)bytes);
    expect_fetched(relay.control_endpoint, id, output, bytes);
    bus_sub_close(&sub);
    bus_tap_close(&tap);
    must_close(&alice);
    must_close(&bob);
    must_close(&carol);
    relay_fini(&relay); /* all that it recorded is in its files */
    cr_expect(was_carried("data", MARK));
    cr_expect_not(was_carried("control", MARK));
    cr_expect(was_carried("control", "see what is attached"), "it is looked at, and has errors");
    free(output);
    cr_assert(relay_open(&relay));
    cr_assert(relay_start(&relay, stage.control, stage.data));
}

/* Nor does it wait for who fetches, and takes nothing in the middle of it. */
struct reader {
    struct bus *bus;
    struct bus_tap *tap;
    unsigned calls;
};

static int look_meanwhile(const void *bytes, size_t count, void *arg)
{
    struct reader *reader = arg;
    (void)bytes;
    (void)count;
    if (reader->calls++ == 0) {
        struct bus_slot *slot = must_reserve(reader->bus, "w");
        fail_slot(&slot, "app.meanwhile", "while it is fetched");
        cr_expect_not_null(expect_event(reader->tap, "slot.failed", "bob"));
    }
    return 0;
}

Test(attachment_way, holds_up_nobody_while_it_is_fetched)
{
    const size_t bytes = 16 * MIB;
    char *output = make_output(bytes);
    char id[600];
    struct bus *alice = must_open_frank("alice");
    struct reader reader = {.bus = must_open("bob")};
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_with(&slot, output, bytes, id, sizeof id);
    must_flush(alice);
    reader.tap = must_tap(NULL, BUS_TAP_NOW);
    expect_code(bus_admin_attachment_fetch(stage_admin(), NULL, id, "output", SOON_MS,
                                           look_meanwhile, &reader, NULL),
                BUS_OK);
    cr_expect_gt(reader.calls, 1);
    bus_tap_close(&reader.tap);
    must_close(&alice);
    must_close(&reader.bus);
    free(output);
}

/* Nobody waits for it, and it is there all the same. */
Test(attachment_way, is_brought_while_its_party_lives_on)
{
    const size_t bytes = 300000;
    char *output = make_output(bytes);
    char id[600];
    struct bus *alice = must_open_frank("alice");
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_with(&slot, output, bytes, id, sizeof id);
    (void)expect_state(id, BUS_ATTACHMENT_WHOLE);
    expect_fetched(stage.control, id, output, bytes);
    must_close(&alice);
    free(output);
}

/* ---- what is cut ----------------------------------------------------------------------------- */

static void expect_shown(const char *id, const char *option, const char *value, int code,
                         const char *words)
{
    struct process shown;
    const char *const argv[] = {"errbus",      "errors", "show", id,  "--server",
                                stage.control, option,   value,  NULL};
    cr_assert(process_start(&shown, argv, NULL));
    cr_expect_eq(process_wait(&shown, SOON_MS), code);
    const char *where = value != NULL ? process_complained(&shown) : process_said(&shown);
    cr_expect_not_null(strstr(where, words), "%s", where);
    process_fini(&shown);
}

/* errbus run is killed when a part of what its program said is brought. */
Test(attachment_way, is_cut_where_its_party_was_killed_and_says_so)
{
    struct process run;
    char words[100];
    char id[600];
    char path[1024];                            /* what it shows is not read here */
    char temporary[FOLDER_PATH_BYTES_MAX + 16]; /* where its own folder stays when it is killed */
    snprintf(temporary, sizeof temporary, "TMPDIR=%s", folder.path);
    const char *const environment[] = {temporary, NULL};
    const char *const argv[] = {"sh",
                                "-c",
                                "exec \"$0\" \"$@\" >/dev/null 2>&1",
                                process_path("errbus", path, sizeof path),
                                "run",
                                "--server",
                                relay.control_endpoint,
                                "-p",
                                "alice",
                                "--plain",
                                "--disclosure",
                                "full",
                                "--",
                                "sh",
                                "-c",
                                "seq 1 300000 >&2; exit 3",
                                NULL};
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    relay_limit(&relay, RELAY_OUT, 500000);
    cr_assert(process_start(&run, argv, environment));
    const struct bus_event *event = expect_event(tap, "party.failed", "alice");
    snprintf(id, sizeof id, "%s", bus_error_id(bus_event_error(event)));
    int64_t bytes = 0;
    cr_expect_str_eq(bus_error_attachment_at(bus_event_error(event), 0, &bytes), "stderr");
    cr_expect_eq(bytes, 1988895); /* of seq 1 300000 */
    cr_assert(relay_await_limit(&relay, RELAY_OUT, SOON_MS));
    cr_assert_gt(ask_until(id, has_begun).arrived, 0);
    process_signal(&run, SIGKILL);
    cr_expect_eq(process_wait(&run, SOON_MS), 128 + SIGKILL);
    process_fini(&run);
    struct row row = expect_state(id, BUS_ATTACHMENT_CUT);
    relay_limit(&relay, RELAY_OUT, UINT64_MAX / 2);
    cr_expect_gt(row.arrived, 0);
    cr_expect_lt(row.arrived, 500000);
    snprintf(words, sizeof words, "%lld of 1988895 bytes", (long long)row.arrived);
    expect_shown(id, NULL, NULL, 0, words);
    expect_shown(id, NULL, NULL, 0, "cut: its sender is gone, and the rest is lost");
    expect_shown(id, "--json", NULL, 0, "\"state\":\"cut\"");
    expect_shown(id, "--attachment", "stderr", 1, words);
    bus_tap_close(&tap);
}

/* ---- the broker's death ---------------------------------------------------------------------- */

Test(attachment_way, goes_on_at_the_piece_when_its_broker_was_killed)
{
    const size_t bytes = 6 * MIB;
    char *output = make_output(bytes);
    char id[600];
    struct bus *alice = must_open_behind("alice");
    struct bus_slot *slot = must_reserve(alice, "w");
    must_flush(alice);
    relay_limit(&relay, RELAY_OUT, 4 * MIB);
    fail_with(&slot, output, bytes, id, sizeof id);
    cr_assert(relay_await_limit(&relay, RELAY_OUT, SOON_MS));
    struct row before = ask(id);
    relay_set(&relay, RELAY_CUT);
    process_signal(&stage.process, SIGKILL);
    cr_assert_eq(process_wait(&stage.process, SOON_MS), 128 + SIGKILL);
    stage_close();
    start_broker("60s");
    relay_retarget(&relay, stage.control, stage.data);
    struct row row = ask(id);
    cr_expect_geq(row.arrived, before.arrived, "what it had said is there is there");
    cr_expect_neq(row.state, BUS_ATTACHMENT_WHOLE);
    uint64_t carried = relay_carried(&relay, RELAY_OUT);
    relay_limit(&relay, RELAY_OUT, UINT64_MAX / 2);
    relay_set(&relay, RELAY_WHOLE);
    must_flush(alice);
    row = expect_state(id, BUS_ATTACHMENT_WHOLE);
    cr_expect_lt(relay_carried(&relay, RELAY_OUT) - carried, bytes - (uint64_t)before.arrived + MIB,
                 "the rest, and not all of it again");
    expect_fetched(stage.control, id, output, bytes);
    must_close(&alice);
    free(output);
}
