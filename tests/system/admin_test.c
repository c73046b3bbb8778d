/* SPDX-License-Identifier: MPL-2.0 */
/* admin_test.c -- the administrative handle: it keeps its connection, and outlives its broker. */
#include "tests/lib/expect.h"
#include "tests/lib/relay.h"
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLERS = 4, CALLS_EACH = 10 };

static struct relay relay; /* counts the connections of whoever connects over it */

static void open_with_relay(void)
{
    stage_open_with_relay(&relay);
}

static void close_with_relay(void)
{
    relay_fini(&relay);
    stage_close();
}

TestSuite(admin, .init = open_with_relay, .fini = close_with_relay, .timeout = 120);
TestSuite(admin_restart, .timeout = 120);

static struct bus_admin *must_open_admin(const char *endpoint, const char *job)
{
    struct bus_admin_options options;
    struct bus_admin *admin = NULL;
    struct bus_error *error = NULL;
    bus_admin_options_init(&options);
    options.job = job;
    expect_code_of(bus_admin_open(endpoint, &options, SOON_MS, &admin, &error), BUS_OK, &error);
    return admin;
}

static enum bus_err ask(struct bus_admin *admin, int64_t timeout_ms)
{
    struct bus_status *status = NULL;
    enum bus_err err = bus_admin_status_get(admin, BUS_JOB_ALL, timeout_ms, &status, NULL);
    bus_status_free(&status);
    return err;
}

static int count_bytes(const void *bytes, size_t count, void *arg)
{
    (void)bytes; /* what they are is tested elsewhere */
    *(size_t *)arg += count;
    return 0;
}

/* An error with an attachment, told to the broker; its id is written. */
static void tell_error(char *id, size_t room)
{
    struct bus *alice = must_open_frank("alice");
    struct bus_slot *slot = must_reserve(alice, "w");
    struct bus_error *error = bus_error_new("app.broken", NULL, "it is broken");
    expect_code(bus_error_add_data(error, "stderr", "said", 4), BUS_OK);
    bus_slot_fail(&slot, error);
    snprintf(id, room, "%s", bus_error_id(error));
    bus_error_unref(&error);
    must_flush(alice);
    must_close(&alice);
}

Test(admin, keeps_one_connection_for_all_its_questions)
{
    char id[600];
    size_t bytes = 0;
    uint64_t count = 0;
    struct bus_job_options options;
    struct bus_job *job = NULL;
    struct bus_report *report = NULL;
    struct bus_dead *dead = NULL;
    struct bus_attachments *list = NULL;
    tell_error(id, sizeof id);
    struct bus_admin *admin = must_open_admin(relay.control_endpoint, NULL);
    cr_assert_eq(relay_dials(&relay), 1);
    expect_code(ask(admin, SOON_MS), BUS_OK);
    expect_code(ask(admin, SOON_MS), BUS_OK);
    bus_job_options_init(&options);
    expect_code(bus_admin_job_create(admin, "made", &options, SOON_MS, NULL), BUS_OK);
    expect_code(bus_admin_job_get(admin, "made", SOON_MS, &job, NULL), BUS_OK);
    expect_code(bus_admin_job_cancel(admin, "made", "enough", SOON_MS, NULL), BUS_OK);
    expect_code(bus_admin_report_get(admin, "made", 1, SOON_MS, &report, NULL), BUS_OK);
    bus_report_free(&report);
    expect_code(bus_admin_report_get(admin, NULL, 0, SOON_MS, &report, NULL), BUS_OK);
    expect_code(bus_admin_dead_list(admin, NULL, "nobody", SOON_MS, &dead, NULL), BUS_EINVAL);
    expect_code(bus_admin_dead_show(admin, NULL, "nobody", 0, SOON_MS, &dead, NULL), BUS_EINVAL);
    expect_code(bus_admin_dead_replay(admin, NULL, "nobody", 0, SOON_MS, &count, NULL), BUS_EINVAL);
    expect_code(bus_admin_dead_drop(admin, NULL, "nobody", 0, SOON_MS, &count, NULL), BUS_EINVAL);
    expect_code(bus_admin_attachment_list(admin, NULL, id, SOON_MS, &list, NULL), BUS_OK);
    cr_expect_eq(bus_attachments_count(list), 1);
    cr_expect_eq(relay_dials(&relay), 1);
    for (size_t i = 1; i <= 3; i++) { /* attachments have a connection of their own, kept as well */
        expect_code(bus_admin_attachment_fetch(admin, NULL, id, "stderr", SOON_MS, count_bytes,
                                               &bytes, NULL),
                    BUS_OK);
        cr_expect_eq(bytes, 4 * i);
    }
    cr_expect_eq(relay_dials(&relay), 2);
    expect_code(
        bus_admin_attachment_fetch(admin, NULL, id, "none", SOON_MS, count_bytes, &bytes, NULL),
        BUS_EINVAL);
    expect_code(ask(admin, SOON_MS), BUS_OK);
    cr_expect_eq(relay_dials(&relay), 2);
    bus_attachments_free(&list);
    bus_report_free(&report);
    bus_job_free(&job);
    bus_admin_close(&admin);
    cr_expect_null(admin);
}

Test(admin, asks_about_its_own_job_where_a_call_names_none)
{
    struct bus_job *job = NULL;
    struct bus_job_options options;
    bus_job_options_init(&options);
    struct bus_admin *admin = must_open_admin(relay.control_endpoint, "mine");
    expect_code(bus_admin_job_create(admin, NULL, &options, SOON_MS, NULL), BUS_OK);
    expect_code(bus_admin_job_create(admin, "other", &options, SOON_MS, NULL), BUS_OK);
    expect_code(bus_admin_job_get(admin, NULL, SOON_MS, &job, NULL), BUS_OK);
    cr_expect_str_eq(bus_job_info(job)->name, "mine");
    bus_job_free(&job);
    expect_code(bus_admin_job_get(admin, "other", SOON_MS, &job, NULL), BUS_OK);
    cr_expect_str_eq(bus_job_info(job)->name, "other");
    bus_job_free(&job);
    struct bus_status *status = NULL;
    expect_code(bus_admin_status_get(admin, NULL, SOON_MS, &status, NULL), BUS_OK);
    cr_assert_eq(bus_status_count(status), 1);
    cr_expect_str_eq(bus_status_at(status, 0)->name, "mine");
    bus_status_free(&status);
    expect_code(bus_admin_status_get(admin, BUS_JOB_ALL, SOON_MS, &status, NULL), BUS_OK);
    cr_expect_eq(bus_status_count(status), 2);
    bus_status_free(&status);
    bus_admin_close(&admin);
}

/* ---- what stays without an answer -------------------------------------------------------------*/

/* A question that was given up is not asked again behind the back of its caller, when the broker is
 * in reach again: the connection that would do so is gone. */
Test(admin, gives_up_a_question_with_its_connection)
{
    struct bus_error *error = NULL;
    struct bus_job *job = NULL;
    struct bus_job_options options;
    bus_job_options_init(&options);
    unsigned threads = test_thread_count();
    struct bus_admin *admin = must_open_admin(relay.control_endpoint, NULL);
    cr_assert_gt(test_thread_count(), threads);
    relay_set(&relay, RELAY_CUT);
    int64_t began_ms = test_now_ms();
    expect_code_of(bus_admin_job_create(admin, "late", &options, 300, &error), BUS_ETIMEDOUT,
                   &error);
    cr_expect_lt(test_now_ms() - began_ms, 300 + AT_ONCE_MS);
    cr_expect_eq(test_thread_count(), threads);
    relay_set(&relay, RELAY_WHOLE);
    expect_code(ask(admin, SOON_MS), BUS_OK);
    expect_code_of(bus_admin_job_get(admin, "late", SOON_MS, &job, &error), BUS_EINVAL, &error);
    bus_admin_close(&admin);
}

Test(admin, is_not_opened_where_no_broker_is_in_reach)
{
    struct bus_error *error = NULL;
    struct bus_admin *admin = NULL;
    relay_set(&relay, RELAY_CUT);
    expect_code(bus_admin_open(relay.control_endpoint, NULL, 300, &admin, &error), BUS_ELOST);
    cr_expect_str_eq(bus_error_type(error), "errbus.unreachable");
    cr_expect_null(admin);
    bus_error_unref(&error);
}

Test(admin, names_the_endpoints_when_no_broker_is_in_reach)
{
    struct bus_error *error = NULL;
    struct bus_status *status = NULL;
    struct bus_admin *admin = must_open_admin(relay.control_endpoint, NULL);
    relay_set(&relay, RELAY_CUT);
    expect_code(bus_admin_status_get(admin, NULL, 500, &status, &error), BUS_ETIMEDOUT);
    cr_expect_str_eq(bus_error_type(error), "errbus.unreachable");
    cr_expect_not_null(strstr(bus_error_message(error), relay.control_endpoint), "%s",
                       bus_error_message(error));
    bus_error_unref(&error);
    bus_admin_close(&admin);
}

static enum bus_outlook outlook_of(struct bus_admin *admin, const char *job)
{
    struct bus_report *report = NULL;
    expect_code(bus_admin_report_get(admin, job, 0, SOON_MS, &report, NULL), BUS_OK);
    enum bus_outlook outlook = bus_report_summary(report)->outlook;
    cr_expect_eq(bus_report_summary(report)->state != BUS_REPORT_NONE,
                 outlook == BUS_OUTLOOK_FAILED);
    bus_report_free(&report);
    return outlook;
}

/* Also where it waits for the final verdict: a job that is not there has none. */
Test(admin, is_told_how_a_job_without_a_verdict_fares)
{
    struct bus_report *report = NULL;
    struct bus_admin *admin = must_open_admin(stage.control, NULL);
    struct bus *alice = must_open("alice");
    cr_expect_eq(outlook_of(admin, NULL), BUS_OUTLOOK_GOES_ON);
    cr_expect_eq(outlook_of(admin, "typo"), BUS_OUTLOOK_UNKNOWN);
    expect_code(bus_admin_report_get(admin, "typo", 1, SOON_MS, &report, NULL), BUS_OK);
    cr_expect_eq(bus_report_summary(report)->outlook, BUS_OUTLOOK_UNKNOWN);
    bus_report_free(&report);
    must_close(&alice);
    cr_expect_eq(outlook_of(admin, NULL), BUS_OUTLOOK_ENDED_WELL);
    alice = must_open("alice");
    struct bus_error *error = bus_error_new("test.failed", NULL, "no luck");
    bus_fail(alice, error);
    expect_code(bus_flush(alice, SOON_MS), BUS_OK);
    cr_expect_eq(outlook_of(admin, NULL), BUS_OUTLOOK_FAILED);
    bus_error_unref(&error);
    (void)bus_close(&alice, SOON_MS);
    bus_admin_close(&admin);
}

Test(admin, goes_on_after_a_verdict_that_did_not_come_in_time)
{
    struct bus_report *report = NULL;
    struct bus *alice = must_open("alice");
    struct bus_admin *admin = must_open_admin(stage.control, NULL);
    expect_code(bus_admin_report_get(admin, NULL, 1, 100, &report, NULL), BUS_ETIMEDOUT);
    expect_code(bus_admin_report_get(admin, NULL, 0, SOON_MS, &report, NULL), BUS_OK);
    bus_report_free(&report);
    bus_admin_close(&admin);
    must_close(&alice);
}

/* ---- several threads --------------------------------------------------------------------------*/

struct caller {
    struct bus_admin *admin;
    pthread_t thread;
    enum bus_err err;
};

static void *ask_often(void *arg)
{
    struct caller *caller = arg;
    for (int i = 0; i < CALLS_EACH && caller->err == BUS_OK; i++)
        caller->err = ask(caller->admin, SOON_MS);
    return NULL;
}

Test(admin, serves_several_threads)
{
    struct caller callers[CALLERS];
    struct bus_admin *admin = must_open_admin(relay.control_endpoint, NULL);
    for (size_t i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){.admin = admin};
        cr_assert_eq(pthread_create(&callers[i].thread, NULL, ask_often, &callers[i]), 0);
    }
    for (size_t i = 0; i < CALLERS; i++) {
        cr_assert_eq(pthread_join(callers[i].thread, NULL), 0);
        expect_code(callers[i].err, BUS_OK);
    }
    cr_expect_eq(relay_dials(&relay), 1);
    bus_admin_close(&admin);
}

static void *wait_for_verdict(void *arg)
{
    struct caller *caller = arg;
    struct bus_report *report = NULL;
    caller->err = bus_admin_report_get(caller->admin, NULL, 1, SOON_MS, &report, NULL);
    bus_report_free(&report);
    return NULL;
}

/* Calls take turns; each waits for its turn as long as its own timeout. */
Test(admin, waits_for_its_turn_within_the_bound)
{
    struct bus *alice = must_open("alice");
    struct caller waiter = {.admin = must_open_admin(stage.control, NULL)};
    struct bus_admin *other = must_open_admin(stage.control, NULL);
    cr_assert_eq(pthread_create(&waiter.thread, NULL, wait_for_verdict, &waiter), 0);
    int64_t until_ms = test_now_ms() + SOON_MS;
    enum bus_err err = BUS_OK; /* the other thread may not have its turn yet */
    while (err == BUS_OK && test_now_ms() < until_ms)
        err = ask(waiter.admin, 100);
    expect_code(err, BUS_ETIMEDOUT);
    expect_code(bus_admin_job_cancel(other, NULL, "enough", SOON_MS, NULL), BUS_OK);
    expect_code(ask(waiter.admin, SOON_MS), BUS_OK);
    cr_assert_eq(pthread_join(waiter.thread, NULL), 0);
    expect_code(waiter.err, BUS_OK);
    bus_admin_close(&other);
    bus_admin_close(&waiter.admin);
    (void)bus_close(&alice, SOON_MS); /* its job was cancelled */
}

static int ask_within(const void *bytes, size_t count, void *arg)
{
    struct caller *caller = arg;
    (void)bytes; /* that it is called is enough */
    caller->err = count > 0 ? ask(caller->admin, BUS_FOREVER) : BUS_OK;
    return 0;
}

Test(admin, refuses_a_call_from_within_its_own)
{
    char id[600];
    tell_error(id, sizeof id);
    struct caller caller = {.admin = must_open_admin(stage.control, NULL)};
    expect_code(bus_admin_attachment_fetch(caller.admin, NULL, id, "stderr", SOON_MS, ask_within,
                                           &caller, NULL),
                BUS_OK);
    expect_code(caller.err, BUS_EINVAL);
    bus_admin_close(&caller.admin);
}

/* ---- processes and brokers that end -----------------------------------------------------------*/

Test(admin, of_a_forked_child_is_closed)
{
    struct bus_admin *admin = must_open_admin(stage.control, NULL);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        enum bus_err err = ask(admin, BUS_FOREVER);
        bus_admin_close(&admin);
        _exit(err != BUS_ECLOSED ? 1 : admin != NULL ? 2 : 0);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    expect_code(ask(admin, SOON_MS), BUS_OK);
    bus_admin_close(&admin);
}

static uint64_t instance_of(struct bus_admin *admin)
{
    struct bus_error *error = NULL;
    struct bus_status *status = NULL;
    expect_code_of(bus_admin_status_get(admin, NULL, SOON_MS, &status, &error), BUS_OK, &error);
    uint64_t instance = bus_status_instance(status);
    bus_status_free(&status);
    return instance;
}

static uint64_t cpu_of(struct bus_admin *admin)
{
    struct bus_error *error = NULL;
    struct bus_status *status = NULL;
    expect_code_of(bus_admin_status_get(admin, NULL, SOON_MS, &status, &error), BUS_OK, &error);
    uint64_t cpu_ms = bus_status_cpu_ms(status);
    bus_status_free(&status);
    return cpu_ms;
}

/* Answers cost the broker time, so there is more of it at some point. */
Test(admin, tells_the_processor_time_of_the_broker)
{
    struct bus_admin *admin = must_open_admin(stage.control, NULL);
    int64_t until_ms = test_now_ms() + SOON_MS;
    uint64_t first_ms = cpu_of(admin);
    uint64_t now_ms = first_ms;
    while (now_ms == first_ms) {
        cr_assert_lt(test_now_ms(), until_ms, "%llu ms", (unsigned long long)first_ms);
        now_ms = cpu_of(admin);
    }
    cr_expect_gt(now_ms, first_ms);
    bus_admin_close(&admin);
}

/* A tap that has read nothing yet knows it, too. */
Test(admin_restart, tells_a_broker_with_its_journal_from_another_one)
{
    revival_open();
    revival_start("process", NULL);
    struct bus_admin *admin = must_open_admin(revival.control, NULL);
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    uint64_t instance = instance_of(admin);
    cr_expect_neq(instance, 0);
    cr_expect_eq(bus_tap_instance(tap), instance);
    revival_kill();
    revival_start("process", NULL);
    cr_expect_eq(instance_of(admin), instance);
    revival_kill();
    snprintf(revival.journal, sizeof revival.journal, "%s/other", revival.folder.path);
    revival_start("process", NULL);
    uint64_t other = instance_of(admin);
    cr_expect_neq(other, instance);
    struct bus *bob = must_open("bob");
    (void)expect_event(tap, "party.joined", "bob");
    cr_expect_eq(bus_tap_instance(tap), other);
    must_close(&bob);
    bus_tap_close(&tap);
    bus_admin_close(&admin);
    revival_close();
}

Test(admin_restart, goes_on_with_a_broker_that_was_started_again)
{
    struct bus_error *error = NULL;
    struct bus_status *status = NULL;
    revival_open();
    revival_start("process", NULL);
    struct bus_admin *admin = must_open_admin(revival.control, NULL);
    expect_code(ask(admin, SOON_MS), BUS_OK);
    revival_kill();
    revival_start("process", NULL);
    expect_code(ask(admin, SOON_MS), BUS_OK);
    revival_kill();
    int64_t began_ms = test_now_ms();
    expect_code_of(bus_admin_status_get(admin, NULL, 300, &status, &error), BUS_ETIMEDOUT, &error);
    expect_code_of(bus_admin_status_get(admin, NULL, 300, &status, &error), BUS_ETIMEDOUT, &error);
    cr_expect_lt(test_now_ms() - began_ms, 600 + AT_ONCE_MS);
    revival_start("process", NULL);
    expect_code(ask(admin, SOON_MS), BUS_OK);
    bus_admin_close(&admin);
    revival_close();
}
