/* SPDX-License-Identifier: MPL-2.0 */
/* like_errors_test.c -- a party that fails slot after slot: who reads them has each of their
 * errors, who watches is told of them all and is not flooded.  TEST_LARGE=1: 1,000,000 of them. */
#include "tests/lib/expect.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

TestSuite(like_errors, .init = stage_open, .fini = stage_close, .timeout = 590);

enum { AT_A_TIME = 1000 };

static struct bus_sub *sub;
static uint64_t all;
static uint64_t in_place; /* errors that stood where they were due */

static void *read_all(void *arg)
{
    (void)arg; /* there is one */
    for (; in_place < all; in_place++) {
        struct bus_msg *msg = NULL;
        struct bus_error *error = NULL;
        uint64_t seq = UINT64_MAX;
        enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, &error);
        (void)bus_sub_slot(sub, &seq);
        bus_error_unref(&error);
        bus_msg_free(&msg);
        if (err != BUS_EFAILED || seq != in_place)
            break; /* the count says so */
    }
    return NULL;
}

/* How many slots the next events tell of, up to the party's leave. */
static uint64_t count_told(struct bus_tap *tap, uint32_t *out_events, uint32_t *out_storms)
{
    uint64_t told = 0;
    for (;;) {
        const struct bus_event *event = NULL;
        struct bus_error *error = NULL;
        expect_code_of(bus_tap_next(tap, SOON_MS, &event, &error), BUS_OK, &error);
        if (strcmp(bus_event_name(event), "party.left") == 0)
            return told;
        if (strcmp(bus_event_name(event), "slot.failed") != 0)
            continue;
        *out_events += 1;
        *out_storms += *bus_event_first_error(event) != '\0';
        told += bus_event_count(event);
        cr_expect_str_eq(bus_error_type(bus_event_error(event)), "app.disk_full");
        if (*bus_event_first_error(event) != '\0')
            cr_expect_str_eq(bus_event_last_error(event), bus_error_id(bus_event_error(event)));
    }
}

Test(like_errors, flood_no_tap_and_lose_no_settlement)
{
    pthread_t reader;
    uint32_t events = 0;
    uint32_t storms = 0;
    all = is_asked("TEST_LARGE") ? 1000000 : 50000;
    struct bus *alice = must_open("alice");
    struct bus *bob = must_open("bob");
    struct bus_tap *tap = must_tap("default", BUS_TAP_NOW);
    sub = must_subscribe(bob, "alice/grads");
    cr_assert_eq(pthread_create(&reader, NULL, read_all, NULL), 0);
    for (uint64_t done = 0; done < all; done += AT_A_TIME) {
        struct bus_slot *slots[AT_A_TIME];
        for (int i = 0; i < AT_A_TIME; i++)
            slots[i] = must_reserve(alice, "grads");
        for (int i = 0; i < AT_A_TIME; i++)
            fail_slot(&slots[i], "app.disk_full", "no space");
        must_flush(alice);
    }
    cr_assert_eq(pthread_join(reader, NULL), 0);
    cr_expect_eq(in_place, all);
    must_close(&alice);
    cr_expect_eq(count_told(tap, &events, &storms), all);
    cr_expect_gt(storms, 0);
    cr_expect_lt(events, all / 10);
    bus_tap_close(&tap);
    bus_sub_close(&sub);
    must_close(&bob);
}
