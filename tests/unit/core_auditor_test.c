/* SPDX-License-Identifier: MPL-2.0 */
/* core_auditor_test.c -- jobs with an auditor: who may join, what a broker keeps of errors that
 * come in the open all the same, and what it passes on of those that are sealed. */
#include "broker/core/model.h"
#include "broker/core/record/auditor.h"
#include "tests/unit/core_driver.h"

TestSuite(core_auditor, .init = init, .fini = fini);

#define IN_STACK "c0nfidential_stack"
#define IN_NAME "c0nfidential_name"

static const uint8_t key[KEY_BYTES] = {7, 1, 2};
static const uint8_t other_key[KEY_BYTES] = {7, 1, 3};

static struct span key_span(const uint8_t *bytes)
{
    return span_of(bytes, KEY_BYTES);
}

static void meet(struct span auditor)
{
    struct msg_job_create job = a_job(1, 3);
    job.join_window_ms = 0;
    job.auditor = auditor;
    make_job(job);
}

static void greet(conn_id conn, bool can_seal, struct span own)
{
    struct msg msg = hello(conn, 0);
    msg.as.hello.can_seal = can_seal;
    msg.as.hello.auditor = own;
    message(conn, msg);
}

Test(core_auditor, is_told_to_parties)
{
    meet(key_span(key));
    forget();
    greet(1, true, SPAN_NONE);
    cr_expect(span_equal(welcomed.auditor, key_span(key)));
    greet(2, true, key_span(key));
    cr_expect(span_equal(welcomed.auditor, key_span(key)));
}

Test(core_auditor, refuses_who_cannot_seal)
{
    meet(key_span(key));
    forget();
    greet(1, false, SPAN_NONE);
    cr_expect_not_null(strstr(said, "errbus.cannot_seal"), "%s", said);
    forget();
    greet(2, true, key_span(other_key));
    cr_expect_not_null(strstr(said, "errbus.other_auditor"), "%s", said);
    forget();
    greet(3, true, key_span(key));
    cr_expect_null(strstr(said, "errbus."), "%s", said);
}

/* Without one, a party may have its own, and whoever cannot seal is welcome. */
Test(core_auditor, of_a_job_may_be_missing)
{
    meet(SPAN_NONE);
    forget();
    greet(1, false, SPAN_NONE);
    greet(2, true, key_span(other_key));
    cr_expect_null(strstr(said, "errbus."), "%s", said);
    cr_expect_eq(welcomed.auditor.bytes, 0);
}

/* The program of a guard is asked as well. */
Test(core_auditor, holds_for_the_program_of_a_guard)
{
    meet(key_span(key));
    struct msg msg = hello(1, 0);
    msg.as.hello.role = 2;
    msg.as.hello.can_seal = 1;
    message(1, msg);
    uint64_t guard = welcomed.token;
    cr_assert_neq(guard, 0);
    forget();
    msg = hello(2, 0);
    msg.as.hello.party = span_text("alice");
    msg.as.hello.guard = guard;
    message(2, msg);
    cr_expect_not_null(strstr(said, "errbus.cannot_seal"), "%s", said);
}

Test(core_auditor, is_a_key)
{
    static const uint8_t nobody[KEY_BYTES];
    struct msg_job_create job = a_job(1, 2);
    ask_from(5);
    for (size_t bytes = 1; bytes < KEY_BYTES; bytes += 15) {
        forget();
        job.auditor = span_of(key, bytes);
        create_job(5, job);
        cr_expect_not_null(strstr(said, "done 1 "), "%zu: %s", bytes, said);
    }
    job.auditor = key_span(nobody);
    forget();
    create_job(5, job);
    cr_expect_not_null(strstr(said, "done 1 "), "%s", said);
}

/* Another key is another job; the same one is the same, also after a restart. */
Test(core_auditor, is_part_of_what_the_job_is)
{
    struct msg_job_create job = a_job(1, 2);
    tap(3);
    job.auditor = key_span(key);
    create_job(3, job);
    crash(0);
    tap(3);
    forget();
    create_job(3, job);
    cr_expect_not_null(strstr(said, "done 0 "), "%s", said);
    forget();
    job.auditor = key_span(other_key);
    create_job(3, job);
    cr_expect_not_null(strstr(said, "errbus.job_differs"), "%s", said);
    forget();
    job.auditor = SPAN_NONE;
    create_job(3, job);
    cr_expect_not_null(strstr(said, "errbus.job_differs"), "%s", said);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static bool is_noted(const void *bytes, size_t count)
{
    for (uint32_t i = 0; i < journal_count; i++)
        if (memmem(journal[i].bytes, journal[i].count, bytes, count) != NULL)
            return true;
    return false;
}

static struct span a_failure(struct span sealed)
{
    static uint8_t bytes[4096];
    struct error_attached attached = {span_text(sealed.bytes > 0 ? "sealed.1" : IN_NAME), 7};
    uint8_t list[ERROR_ATTACHED_BYTES_MAX];
    struct error_record records[2];
    size_t count = 0;
    for (int i = 0; i < 2; i++) {
        error_record_init(&records[i]);
        records[i].type = span_text("app.x");
        records[i].stacktrace = sealed.bytes > 0 ? SPAN_NONE : span_text(IN_STACK);
        records[i].sealed = sealed;
        records[i].attachments = span_of(list, error_attached_write(&attached, 1, list));
    }
    records[0].cause_count = 1;
    records[0].causes[0] = 1;
    cr_assert_eq(error_encode(records, 2, bytes, sizeof bytes, &count), WIRE_OK);
    return span_of(bytes, count);
}

static void fail_with(struct span error)
{
    greet(1, true, SPAN_NONE);
    attach(1, 11, tokens[1]);
    numbers[1] = frames[1] = 0;
    break_down_with(1, 0, error);
}

/* A client that says it can seal, and does not. */
Test(core_auditor, keeps_no_trace_that_came_in_the_open)
{
    meet(key_span(key));
    fail_with(a_failure(SPAN_NONE));
    cr_expect(is_noted("app.x", 5));
    cr_expect_not(is_noted(IN_STACK, strlen(IN_STACK)));
    cr_expect_not(is_noted(IN_NAME, strlen(IN_NAME)));
}

/* At every level of the job. */
Test(core_auditor, keeps_what_is_sealed)
{
    static const char sealed[] = "a box that nobody here can open, of any size";
    for (uint64_t level = 0; level <= DISCLOSURE_NONE; level++) {
        restart();
        struct msg_job_create job = a_job(1, 2);
        job.join_window_ms = 0;
        job.disclosure = level;
        job.auditor = key_span(key);
        make_job(job);
        fail_with(a_failure(span_of(sealed, sizeof sealed)));
        cr_expect(is_noted(sealed, sizeof sealed), "%u", (unsigned)level);
        cr_expect(is_noted("sealed.1", 8), "%u", (unsigned)level);
    }
}

static void bring(const char *name)
{
    message(5, (struct msg){.type = MSG_BRING,
                            .as.bring = {.request = 7,
                                         .job = span_text("job"),
                                         .error = span_text("job/alice/1/1"),
                                         .name = span_text(name),
                                         .promised = 10}});
}

/* The code that answers it. */
static uint64_t brought(void)
{
    uint64_t code = UINT64_MAX;
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_BROUGHT)
            code = effects.msgs[i].as.brought.code;
    return code;
}

Test(core_auditor, lets_sealed_attachments_in_alone)
{
    meet(key_span(key));
    message(15,
            (struct msg){.type = MSG_ATTACH, .as.attach = {.token = tokens[5], .connection = 5}});
    bring("stderr");
    cr_expect_eq(brought(), CODE_EDENIED);
    bring("sealed.1");
    cr_expect_eq(brought(), CODE_OK);
}
