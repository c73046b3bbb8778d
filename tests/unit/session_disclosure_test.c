/* SPDX-License-Identifier: MPL-2.0 */
/* session_disclosure_test.c -- where a party runs, and where it is, are said when it is known
 * whether its job lets that be seen, and not before. */
#include "libbus/session/session_disclosure.h"
#include "tests/unit/session_driver.h"

static struct driver d;

/* Whether they are said, on this connection. */
static void expect_located(bool is_resumed, enum disclosure of_job, bool is_located, bool is_traced)
{
    (void)driver_dial(&d);
    struct msg welcome = driver_welcome(&d, is_resumed);
    welcome.as.welcome.disclosure = of_job;
    driver_say(&d, &welcome);
    driver_expect_attach(&d);
    struct msg ready = driver_expect(&d, MSG_READY);
    cr_expect_eq(span_equal(ready.as.ready.host, span_text("here")), is_located);
    cr_expect_eq(ready.as.ready.host.bytes > 0, is_located);
    cr_expect_eq(ready.as.ready.pid, is_located ? 4711 : 0);
    cr_expect_eq(ready.as.ready.trace_id.bytes, is_traced ? LIMIT_TRACE_ID_BYTES : 0);
    driver_attached(&d);
}

static void expect_where(bool is_located)
{
    session_progress(d.session, 1000, span_text("round 3"));
    struct msg progress = driver_expect(&d, MSG_PROGRESS);
    cr_expect_eq(progress.as.progress.where.bytes > 0, is_located);
}

Test(session_disclosure, of_where_it_runs_is_the_stricter_of_both)
{
    for (int own = DISCLOSURE_FULL; own <= DISCLOSURE_NONE; own++) {
        for (int of_job = DISCLOSURE_UNSAID; of_job <= DISCLOSURE_NONE; of_job++) {
            struct session_options options = driver_options("alice");
            options.disclosure = (enum disclosure)own;
            options.trace_id = span_text("0123456789abcdef");
            driver_init_with(&d, &options);
            bool is_located = own < DISCLOSURE_TYPE && of_job < DISCLOSURE_TYPE;
            bool is_traced = own < DISCLOSURE_NONE && of_job < DISCLOSURE_NONE;
            expect_located(false, (enum disclosure)of_job, is_located, is_traced);
            expect_where(is_located);
            cr_expect_eq(session_disclosure(d.session), own > of_job ? own : of_job);
            cr_expect_eq(session_job_disclosure(d.session), of_job);
            driver_break_link(&d);
            expect_located(true, (enum disclosure)of_job, is_located, is_traced);
            (void)driver_expect(&d, MSG_PROGRESS);
            driver_fini(&d);
        }
    }
}
