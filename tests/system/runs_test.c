/* SPDX-License-Identifier: MPL-2.0 */
/* runs_test.c -- programs that are started again: whose values a reader gets, and what it is told.
 */
#include "tests/lib/relay.h"
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

TestSuite(runs, .init = stage_open, .fini = stage_close, .timeout = 240);

static void expect_run(const struct bus *bus, uint32_t number)
{
    struct bus_run run;
    expect_code(bus_run_get(bus, &run), BUS_OK);
    cr_assert_eq(run.number, number, "in run %u, not %u", run.number, number);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static struct relay relay;

static void open_with_relay(void)
{
    stage_open_with_relay(&relay);
}

static void *open_late(void *arg)
{
    struct bus **out_bus = arg;
    *out_bus = must_open_over(&relay, "late", 0);
    return NULL;
}

/* The broker has welcomed late to the first run, which ends before late hears of it. */
Test(runs, are_joined_by_who_was_still_joining_the_last_one, .init = open_with_relay)
{
    struct bus *early = must_open("early");
    struct bus *late = NULL;
    pthread_t thread;
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    must_close(&early);
    relay_set(&relay, RELAY_LATE);
    cr_assert_eq(pthread_create(&thread, NULL, open_late, &late), 0);
    expect_event(tap, "party.joined", "late");
    early = must_open("early");
    expect_run(early, 2);
    relay_set(&relay, RELAY_WHOLE);
    pthread_join(thread, NULL);
    cr_assert_not_null(late);
    expect_run(late, 2);
    must_publish(late, "x", "here");
    expect_awaited(early, "late/x", 0, "here");
    must_close(&late);
    must_close(&early);
    bus_tap_close(&tap);
}

/* ---- what is told ---------------------------------------------------------------------------- */

/* Reserves number seq of "w", and expects this in the error, or a slot (NULL), which is kept. */
static void expect_reserved(struct bus *bus, int64_t seq, const char *const *said)
{
    struct bus_slot_options options;
    struct bus_slot *slot = NULL;
    struct bus_error *error = NULL;
    bus_slot_options_init(&options);
    options.seq = seq;
    enum bus_err err = bus_slot_reserve_with(bus, "w", &options, &slot, &error);
    if (said == NULL) {
        expect_code_of(err, BUS_OK, &error);
        must_commit(&slot, "v");
        return;
    }
    expect_code(err, BUS_ESETTLED);
    for (; *said != NULL; said++)
        cr_expect_not_null(strstr(bus_error_message(error), *said), "no '%s' in: %s", *said,
                           bus_error_message(error));
    bus_error_unref(&error);
}

static void fail(struct bus **bus)
{
    bus_fail(*bus, NULL);
    (void)bus_close(bus, SOON_MS);
}

/* A party that failed continues its run, and cannot write again what it has written. */
Test(runs, tell_who_reserved_a_number_before_and_what_to_do)
{
    struct bus *other = must_open("other");
    struct bus *writer = must_open("writer");
    expect_reserved(writer, 2, NULL);
    expect_reserved(writer, 4, NULL);
    expect_reserved(writer, 4,
                    (const char *const[]){"by this incarnation, writer/1", "number is 5", NULL});
    fail(&writer);
    writer = must_open("writer");
    expect_reserved(writer, 1,
                    (const char *const[]){"in run 1 of job 'default' by writer/1, which "
                                          "ended at 20",
                                          "number is 5", "'errbus job forget default'",
                                          "ERRBUS_RUN", NULL});
    expect_reserved(writer, 5, NULL);
    expect_reserved(writer, 5, (const char *const[]){"by this incarnation, writer/2", NULL});
    fail(&writer);
    writer = must_open("writer"); /* which writes nothing */
    fail(&writer);
    writer = must_open("writer");
    expect_reserved(writer, 5, (const char *const[]){"by writer/2, which ended", NULL});
    expect_reserved(writer, 4, (const char *const[]){"by an earlier incarnation of writer;", NULL});
    must_close(&writer);
    must_close(&other);
}

/* The journal keeps it. */
Test(runs, tell_it_over_a_restart_of_the_broker, .init = revival_begin, .fini = revival_close)
{
    struct bus *writer = revival_open_patient("writer");
    expect_reserved(writer, 0, NULL);
    must_flush(writer);
    fail(&writer);
    revival_kill();
    revival_start("process", NULL);
    writer = revival_open_patient("writer");
    expect_reserved(writer, 0, (const char *const[]){"by writer/1, which ended at 20", NULL});
    must_close(&writer);
}
