/* SPDX-License-Identifier: MPL-2.0 */
/* null_test.c -- NULL in each place of every function of the library, by the rule of bus.h.
 *
 * null_calls.awk makes the calls from the public headers, so a new function has its lines without a
 * change here.  What differs from the rule stands below, and has to stand in the headers, too. */
#include "tests/lib/expect.h"
#include "tests/lib/folder.h"

#include <bus/seal.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(null, .init = stage_open, .fini = stage_close, .timeout = 120);

/* ---- what is in the other places --------------------------------------------------------------*/

static struct {
    const char *endpoint;
    char bytes[64];
    struct bus *bus;
    struct bus_sub *sub;
    struct bus_msg *msg;
    struct bus_error *error;
    struct bus_tap *tap;
    struct bus_admin *admin;
    struct bus_dead *dead;
    char path[32]; /* of no file, in a folder that nobody can make */
    struct bus_access *access;
} given;

static void give_access(void)
{
    struct folder folder;
    char path[FOLDER_PATH_BYTES_MAX];
    cr_assert(folder_make(&folder) && folder_write(&folder, "access", "uid n 1\n", path));
    expect_code(bus_access_read(path, &given.access, NULL), BUS_OK);
    folder_fini(&folder);
    memcpy(given.path, "/proc/errbus/none", sizeof "/proc/errbus/none");
}

static void give(void)
{
    give_access();
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.group = "n";
    given.endpoint = stage.control;
    struct bus_job_options job;
    bus_job_options_init(&job);
    job.join_window_ms = 0; /* alice is a member at once */
    expect_code(bus_admin_job_create(stage_admin(), NULL, &job, SOON_MS, NULL), BUS_OK);
    given.bus = must_open("alice");
    given.sub = must_subscribe_with(given.bus, "alice/work", &options);
    given.error = bus_error_new("app.null", NULL, "made for a test");
    given.tap = must_tap("default", BUS_TAP_NOW);
    given.admin = stage_admin();
    must_publish(given.bus, "n", "value");
    expect_code(bus_await(given.bus, "alice/n", 0, SOON_MS, &given.msg, NULL), BUS_OK);
    expect_code(bus_admin_dead_list(given.admin, NULL, "n", SOON_MS, &given.dead, NULL), BUS_OK);
}

static void take_back(void)
{
    bus_access_free(&given.access);
    bus_dead_free(&given.dead);
    bus_msg_free(&given.msg);
    bus_error_unref(&given.error);
    bus_tap_close(&given.tap);
    bus_sub_close(&given.sub);
    (void)bus_close(&given.bus, SOON_MS); /* it failed in a call below */
}

/* For calls that take them over. */
static struct bus_slot *own_slot(void)
{
    return must_reserve(given.bus, "own");
}

static struct bus_msg *own_msg(void)
{
    struct bus_msg *msg = NULL;
    expect_code(bus_await(given.bus, "alice/n", 0, SOON_MS, &msg, NULL), BUS_OK);
    return msg;
}

static void free_nothing(void *value, void *arg)
{
    (void)value;
    (void)arg;
}

static int take_nothing(const void *bytes, size_t count, void *arg)
{
    (void)bytes;
    (void)arg;
    return count > 0;
}

/* ---- the calls --------------------------------------------------------------------------------*/

enum kind { CODE, TEXT, POINTER, NUMBER, NOTHING };
struct result {
    int64_t number; /* a code, too */
    const void *pointer;
};

#define OF_CODE(call) ((struct result){.number = (int64_t)(call)})
#define OF_NUMBER(call) ((struct result){.number = (int64_t)(call)})
#define OF_TEXT(call) ((struct result){.pointer = (call)})
#define OF_POINTER(call) ((struct result){.pointer = (call)})
#define OF_NOTHING(call) ((call), (struct result){0})

#define CALL(at, kind, name, ...)                                                                  \
    static struct result call_##at(void)                                                           \
    {                                                                                              \
        return OF_##kind((__VA_ARGS__));                                                           \
    }
#include "tests/system/null_calls.inc"
#undef CALL

static const struct {
    enum kind kind;
    const char *name; /* "bus_publish.topic"; ".*p": p points to NULL */
    struct result (*run)(void);
} calls[] = {
#define CALL(at, kind, name, ...) {kind, name, call_##at},
#include "tests/system/null_calls.inc"
#undef CALL
};
enum { CALL_COUNT = sizeof calls / sizeof calls[0] };

/* ---- what the headers say ---------------------------------------------------------------------*/

/* Where NULL is allowed.  They are called last, for some do what they are for. */
static const char *const allowed[] = {
    "bus_close.*bus",
    "bus_open.endpoint",
    "bus_retract.error",
    "bus_await.out_msg",
    "bus_room_progress.topic",
    "bus_slot_commit_owned.arg",
    "bus_tap_open.endpoint",
    "bus_error_set_stacktrace.text",
    "bus_admin_open.endpoint",
    "bus_admin_job_create.job",
    "bus_admin_job_cancel.job",
    "bus_admin_job_cancel.why",
    "bus_admin_job_forget.job",
    "bus_admin_job_forget.out_forgotten",
    "bus_admin_job_get.job",
    "bus_admin_status_get.job",
    "bus_admin_status_get_some.job",
    "bus_admin_dead_list.job",
    "bus_admin_dead_show.job",
    "bus_admin_dead_replay.job",
    "bus_admin_dead_replay.out_count",
    "bus_admin_dead_drop.job",
    "bus_admin_dead_drop.out_count",
    "bus_admin_report_get.job",
    "bus_why_get.job",
    "bus_why_get.topic",
    "bus_without_get.job",
    "bus_admin_attachment_fetch.job",
    "bus_admin_attachment_fetch.arg",
    "bus_admin_attachment_list.job",
    "bus_admin_attachment_open.job",
    "bus_admin_attachment_open.arg",
    "bus_access_reload.out_revoked",
};

/* Everywhere. */
static bool is_allowed(const char *name)
{
    const char *parameter = strrchr(name, '.') + 1;
    if (strcmp(parameter, "reterr") == 0 || strcmp(parameter, "options") == 0)
        return true;
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
        if (strcmp(allowed[i], name) == 0)
            return true;
    return false;
}

/* Calls that read and have a number for nothing that is not 0. */
static int64_t number_of_nothing(const char *name)
{
    static const char *const lacking[] = {
        "bus_failure_fd.bus",
        "bus_room_fd.bus",
        "bus_notice_fd.bus",
        "bus_answers_fd.bus",
        "bus_sub_fd.sub",
        "bus_tap_fd.tap",
        "bus_error_exit_code.error",
        "bus_error_recoverable.error",
        "bus_error_retry_after_ms.error",
    };
    for (size_t i = 0; i < sizeof lacking / sizeof lacking[0]; i++)
        if (strcmp(lacking[i], name) == 0)
            return -1;
    return 0;
}

/* Whether a text or pointer for nothing is NULL; else it is "" or something that can be read. */
static bool is_null_for_nothing(const char *name, enum kind kind)
{
    static const char *const texts[] = {"bus_sub_slot.sub", "bus_error_topic.error",
                                        "bus_error_blame_at.error",
                                        "bus_error_attachment_at.error"};
    static const char *const pointers[] = {"bus_error_new.type",        "bus_msg_value.msg",
                                           "bus_dead_value.dead",       "bus_access_summary.access",
                                           "bus_job_info.job",          "bus_status_journal.status",
                                           "bus_report_summary.report", "bus_without_job.without"};
    for (size_t i = 0; kind == TEXT && i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(texts[i], name) == 0)
            return true;
    for (size_t i = 0; kind == POINTER && i < sizeof pointers / sizeof pointers[0]; i++)
        if (strcmp(pointers[i], name) == 0)
            return false;
    return kind == POINTER;
}

/* ---- the tests --------------------------------------------------------------------------------*/

/* The first parameter of a call that reads is the object. */
static bool is_about_object(size_t at)
{
    const char *name = calls[at].name;
    size_t function_bytes = (size_t)(strrchr(name, '.') - name) + 1;
    return at == 0 || strncmp(calls[at - 1].name, name, function_bytes) != 0;
}

static void expect_by_rule(size_t at)
{
    const char *name = calls[at].name;
    enum kind kind = calls[at].kind;
    struct bus_error *before = bus_last_error();
    struct result result = calls[at].run();
    struct bus_error *after = bus_last_error();
    if (kind == CODE) {
        cr_expect_eq(result.number, BUS_EINVAL, "%s: code %d", name, (int)result.number);
        cr_expect(after != before && *bus_error_message(after) != '\0', "%s: no reason", name);
    }
    bus_error_unref(&before);
    bus_error_unref(&after);
    if (strncmp(name, "bus_error_new.", strlen("bus_error_new.")) == 0) {
        struct bus_error *made = (struct bus_error *)(uintptr_t)result.pointer;
        cr_expect_not_null(made, "%s", name);
        bus_error_unref(&made);
        return;
    }
    if (!is_about_object(at))
        return;
    if (kind == NUMBER)
        cr_expect_eq(result.number, number_of_nothing(name), "%s: %d", name, (int)result.number);
    if (kind != TEXT && kind != POINTER)
        return;
    bool is_null = result.pointer == NULL;
    cr_expect_eq(is_null, is_null_for_nothing(name, kind), "%s: NULL or not", name);
    if (kind == TEXT && !is_null)
        cr_expect_str_empty(result.pointer, "%s", name);
}

Test(null, is_refused_or_reads_as_nothing)
{
    give();
    for (size_t i = 0; i < CALL_COUNT; i++)
        if (!is_allowed(calls[i].name) && calls[i].kind != NOTHING)
            expect_by_rule(i);
    for (size_t i = 0; i < CALL_COUNT; i++)
        if (calls[i].kind == NOTHING && is_about_object(i))
            (void)calls[i].run(); /* does nothing, and ends nothing */
    expect_code(bus_flush(given.bus, SOON_MS), BUS_OK);
    take_back();
}

Test(null, is_taken_where_the_headers_allow_it)
{
    setenv("ERRBUS_SERVER", stage.control, 1);
    give();
    for (size_t i = 0; i < CALL_COUNT; i++) {
        const char *name = calls[i].name;
        if (calls[i].kind != CODE || !is_allowed(name))
            continue;
        struct result result = calls[i].run();
        cr_expect_neq(result.number, BUS_EINVAL, "%s", name);
    }
    take_back();
}

/* Each name here is one of a parameter that there is. */
Test(null, knows_what_it_allows)
{
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        size_t at = 0;
        while (at < CALL_COUNT && strcmp(calls[at].name, allowed[i]) != 0)
            at++;
        cr_expect_lt(at, CALL_COUNT, "%s", allowed[i]);
    }
}
