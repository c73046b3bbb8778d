/* SPDX-License-Identifier: MPL-2.0 */
/* core_disclosure_test.c -- a client that knows nothing of its job's discretion, as an older one:
 * what the job lets nobody see is in nothing that the broker says or notes. */
#include "broker/core/model.h"
#include "libbus/wire/disclosure.h"
#include "tests/unit/core_driver.h"

TestSuite(core_disclosure, .init = init, .fini = fini);

#define IN_TYPE "app.c0nfidential_type"
#define IN_MESSAGE "c0nfidential_message"
#define IN_STACK "c0nfidential_stack"
#define IN_WHERE "c0nfidential_where"

static void meet_in(enum disclosure disclosure)
{
    struct msg_job_create job = a_job(1, 2);
    job.join_window_ms = 0;
    job.disclosure = disclosure;
    make_job(job);
    tap(3);
}

/* All of them. */
static struct span secrets(void)
{
    static uint8_t bytes[4096];
    struct error_record records[3];
    size_t count = 0;
    for (int i = 0; i < 3; i++) {
        error_record_init(&records[i]);
        records[i].type = span_text(IN_TYPE);
        records[i].message = span_text(IN_MESSAGE);
        records[i].stacktrace = span_text(IN_STACK);
        records[i].code = 28;
    }
    records[0].cause_count = 2;
    records[0].causes[0] = 1;
    records[0].causes[1] = 2;
    records[1].id = span_text("job/bob/1/1");
    records[1].party = span_text("bob");
    records[2].id = span_text("another/bob/1/1");
    records[2].party = span_text("bob");
    cr_assert_eq(error_encode(records, 3, bytes, sizeof bytes, &count), WIRE_OK);
    return span_of(bytes, count);
}

static bool is_in(struct span bytes, const char *secret)
{
    const char *at = bytes.data;
    size_t length = strlen(secret);
    for (size_t i = 0; i + length <= bytes.bytes; i++)
        if (memcmp(at + i, secret, length) == 0)
            return true;
    return false;
}

/* Of all that is known durably, and so of the history and whatever is told later. */
static bool is_noted(const char *secret)
{
    for (uint32_t i = 0; i < journal_count; i++)
        if (is_in(span_of(journal[i].bytes, journal[i].count), secret))
            return true;
    return false;
}

static void expect_noted(enum disclosure level)
{
    cr_expect_eq(is_noted(IN_STACK), level < DISCLOSURE_MESSAGE, "%d", level);
    cr_expect_eq(is_noted(IN_MESSAGE), level < DISCLOSURE_TYPE, "%d", level);
    cr_expect_eq(is_noted(IN_TYPE), level < DISCLOSURE_NONE, "%d", level);
    cr_expect(is_noted("another/bob/1/1") && is_noted("job/bob/1/1"), "whose it was remains");
}

static void fail_one_slot(void)
{
    uint32_t a = open_by_alice();
    reserve(1, a, 0);
    message(1, (struct msg){.type = MSG_FAIL,
                            .as.fail = {.number = ++numbers[1],
                                        .after = frames[1],
                                        .topic = a,
                                        .error = secrets()}});
}

static void fail_as_a_whole(void)
{
    join(1);
    break_down_with(1, 0, secrets());
}

Test(core_disclosure, of_a_slot_is_that_of_the_job)
{
    for (int level = DISCLOSURE_UNSAID; level <= DISCLOSURE_NONE; level++) {
        restart();
        meet_in((enum disclosure)level);
        fail_one_slot();
        expect_noted((enum disclosure)level);
    }
}

Test(core_disclosure, of_a_party_is_that_of_the_job)
{
    for (int level = DISCLOSURE_UNSAID; level <= DISCLOSURE_NONE; level++) {
        restart();
        meet_in((enum disclosure)level);
        fail_as_a_whole();
        expect_noted((enum disclosure)level);
    }
}

/* Where it runs is not even noted: the broker's own errors about it would name it. */
Test(core_disclosure, of_where_a_party_runs_is_that_of_the_job)
{
    for (int level = DISCLOSURE_UNSAID; level <= DISCLOSURE_NONE; level++) {
        restart();
        meet_in((enum disclosure)level);
        join(1);
        locate(1, "c0nfidential_host", 7);
        message(1,
                (struct msg){.type = MSG_PROGRESS,
                             .as.progress = {.next_within_ms = 10, .where = span_text(IN_WHERE)}});
        pass_ms(20);
        cr_expect_eq(is_noted("node-1"), level < DISCLOSURE_TYPE, "%d", level);
        cr_expect_eq(is_noted("c0nfidential_host"), level < DISCLOSURE_TYPE, "%d", level);
        cr_expect_eq(is_noted(IN_WHERE), level < DISCLOSURE_TYPE, "%d", level);
        cr_expect(is_noted("errbus.stalled"));
    }
}

/* Nor is its trace. */
Test(core_disclosure, of_the_trace_of_a_party_is_that_of_the_job)
{
    for (int level = DISCLOSURE_UNSAID; level <= DISCLOSURE_NONE; level++) {
        restart();
        meet_in((enum disclosure)level);
        join(1);
        trace(1, span_text("c0nfidential_tra"));
        cr_expect_eq(is_noted("c0nfidential_tra"), level < DISCLOSURE_NONE, "%d", level);
    }
}

/* Returns the code that answers it. */
static uint64_t bring_attachment(void)
{
    uint64_t code = UINT64_MAX;
    message(15,
            (struct msg){.type = MSG_ATTACH, .as.attach = {.token = tokens[5], .connection = 5}});
    message(5, (struct msg){.type = MSG_BRING,
                            .as.bring = {.request = 7,
                                         .job = span_text("job"),
                                         .error = span_text("job/alice/1/1"),
                                         .name = span_text("c0nfidential_name")}});
    for (uint32_t i = 0; i < effects.msg_count; i++)
        if (effects.msgs[i].type == MSG_BROUGHT)
            code = effects.msgs[i].as.brought.code;
    struct msg piece = {
        .type = MSG_PIECE,
        .as.piece = {.request = 7, .is_last = 1, .bytes = span_text("c0nfidential_output")}};
    step((struct event){.type = EVENT_MESSAGE, .conn = 15, .payload = 1, .as.msg = &piece});
    return code;
}

Test(core_disclosure, of_attachments_is_at_full_alone)
{
    for (int level = DISCLOSURE_UNSAID; level <= DISCLOSURE_NONE; level++) {
        restart();
        meet_in((enum disclosure)level);
        uint64_t code = bring_attachment();
        forget();
        cr_expect_eq(code, level < DISCLOSURE_MESSAGE ? CODE_OK : CODE_EDENIED, "%d", level);
        cr_expect_eq(is_noted("c0nfidential_name"), level < DISCLOSURE_MESSAGE, "%d", level);
    }
}

/* So nobody's level changes while he is there. */
Test(core_disclosure, is_known_before_the_first_party_comes)
{
    struct msg_job_create job = a_job(1, 2);
    ask_from(5);
    join(1);
    forget();
    job.disclosure = DISCLOSURE_NONE;
    create_job(5, job);
    EXPECT("5 < done 10 errbus.job_differs\n");
    restart();
    meet_in(DISCLOSURE_TYPE);
    forget();
    job.join_window_ms = 0;
    create_job(5, job);
    EXPECT("5 < done 10 errbus.job_differs\n");
}
