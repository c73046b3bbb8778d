/* SPDX-License-Identifier: MPL-2.0 */
/* session_auditor_test.c -- to whom a session seals, and what it does not believe a broker. */
#include "libbus/session/session_disclosure.h"
#include "tests/unit/session_driver.h"

static struct driver d;

static const char own[LIMIT_KEY_BYTES] = "the key that the auditor told us";
static const char other[LIMIT_KEY_BYTES] = "the key that the broker tells us";

static struct span key(const char *bytes)
{
    return span_of(bytes, bytes != NULL ? LIMIT_KEY_BYTES : 0);
}

static void begin(const char *pinned, bool can_seal, enum disclosure level)
{
    struct session_options options = driver_options("alice");
    options.auditor = key(pinned);
    options.can_seal = can_seal;
    options.disclosure = level;
    driver_init_with(&d, &options);
}

static void welcome(const char *told, bool is_resumed)
{
    struct msg hello = driver_dial(&d);
    cr_expect_eq(hello.as.hello.can_seal, 1);
    struct msg msg = driver_welcome(&d, is_resumed);
    msg.as.welcome.auditor = key(told);
    driver_say(&d, &msg);
}

static void expect_ended(enum wire_code code, const char *type)
{
    struct buffer *error = NULL;
    struct error_record record;
    uint32_t count = 0;
    cr_assert_eq(session_end(d.session, &error), code);
    cr_assert_not_null(error);
    cr_assert_eq(error_decode(buffer_span(error), &record, 1, &count), WIRE_OK);
    cr_expect(span_equal(record.type, span_text(type)), "%.*s", (int)record.type.bytes,
              (const char *)record.type.data);
    buffer_unref(&error);
}

Test(session_auditor, is_the_partys_own_at_each_level)
{
    for (int level = DISCLOSURE_FULL; level <= DISCLOSURE_NONE; level++) {
        begin(own, true, (enum disclosure)level);
        welcome(NULL, false);
        cr_expect(span_equal(session_auditor(d.session), key(own)));
        driver_fini(&d);
        begin(own, true, (enum disclosure)level);
        welcome(own, false);
        cr_expect(span_equal(session_auditor(d.session), key(own)));
        cr_expect_eq(session_end(d.session, NULL), CODE_OK);
        driver_fini(&d);
    }
}

/* Whoever shows traces to nobody does not show them to whom the broker names. */
Test(session_auditor, is_that_of_the_job_for_those_who_show_all)
{
    for (int level = DISCLOSURE_FULL; level <= DISCLOSURE_NONE; level++) {
        begin(NULL, true, (enum disclosure)level);
        welcome(other, false);
        cr_expect_eq(session_end(d.session, NULL), CODE_OK);
        cr_expect(span_equal(session_auditor(d.session),
                             level == DISCLOSURE_FULL ? key(other) : SPAN_NONE));
        driver_fini(&d);
    }
}

Test(session_auditor, of_a_broker_is_not_believed)
{
    begin(own, true, DISCLOSURE_FULL);
    welcome(other, false);
    expect_ended(CODE_EDENIED, ERROR_TYPE_OTHER_AUDITOR);
    driver_fini(&d);
}

/* A broker that lets in whoever cannot seal. */
Test(session_auditor, is_needed_where_a_job_has_one)
{
    begin(NULL, false, DISCLOSURE_NONE);
    (void)driver_dial(&d);
    struct msg msg = driver_welcome(&d, false);
    msg.as.welcome.auditor = key(other);
    driver_say(&d, &msg);
    expect_ended(CODE_EDENIED, ERROR_TYPE_CANNOT_SEAL);
    driver_fini(&d);
}

Test(session_auditor, is_a_key_that_stays)
{
    begin(NULL, true, DISCLOSURE_FULL);
    (void)driver_dial(&d);
    struct msg msg = driver_welcome(&d, false);
    msg.as.welcome.auditor = span_of(own, LIMIT_KEY_BYTES - 1);
    driver_say(&d, &msg);
    expect_ended(CODE_EPROTO, ERROR_TYPE_PROTOCOL);
    driver_fini(&d);
    begin(NULL, true, DISCLOSURE_FULL);
    welcome(own, false);
    driver_expect_attach(&d);
    (void)driver_expect(&d, MSG_READY);
    driver_attached(&d);
    driver_break_link(&d);
    welcome(other, true);
    expect_ended(CODE_EPROTO, ERROR_TYPE_PROTOCOL);
    driver_fini(&d);
}
