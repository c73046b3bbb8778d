/* SPDX-License-Identifier: MPL-2.0 */
/* slow_link_test.c -- a link that is slow is not lost: a call that writes waits as long as the
 * broker makes progress, and no longer. */
#include "bench/long_link.h"
#include "tests/lib/broker.h"
#include "tests/lib/process.h"

#include <bus/bus.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define DELAY_US 100000
#define RATE UINT64_C(10000000)                 /* bits a second */
#define VALUE_BYTES (9 * ((size_t)1 << 20) / 4) /* over this link in 1.9 s */
/* A value of 64 MiB takes 54 s.  By default the outbox has room for one, and a call waits 30 s for
 * room.  Here everything is smaller in the same ratio. */
#define PATIENCE_MS ((int64_t)(30000 * VALUE_BYTES / ((size_t)64 << 20)))
#define SOON_MS 60000
#define VALUES 4

static struct broker broker;
static struct long_link far_link;
static struct bus *alice;
static char *value;

static void start(void)
{
    char at[2 * BROKER_ENDPOINT_BYTES_MAX + 8];
    struct bus_options options;
    cr_assert(broker_start(&broker, NULL));
    snprintf(at, sizeof at, "%s,data=%s", broker.control, broker.data);
    cr_assert(long_link_start(&far_link, at, RATE, DELAY_US));
    bus_options_init(&options);
    options.party = "alice";
    options.send_timeout_ms = PATIENCE_MS;
    options.outbox_bytes_max = VALUE_BYTES;
    cr_assert_eq(bus_open(far_link.at, &options, SOON_MS, &alice, NULL), BUS_OK);
    value = calloc(1, VALUE_BYTES);
    cr_assert_not_null(value);
}

static void end(void)
{
    free(value);
    bus_close(&alice, 0);
    long_link_fini(&far_link);
    broker_fini(&broker);
}

TestSuite(slow_link, .init = start, .fini = end, .timeout = 120);

static enum bus_err publish(void)
{
    return bus_publish(alice, "model", value, VALUE_BYTES);
}

static enum bus_err commit(void)
{
    struct bus_slot *slot = NULL;
    cr_assert_eq(bus_slot_reserve(alice, "model", BUS_FOREVER, &slot), BUS_OK);
    return bus_slot_commit(&slot, value, VALUE_BYTES);
}

/* A call that is not the first one waits until most of the value before it is sent. */
Test(slow_link, is_waited_for_while_values_come_through)
{
    int64_t most_ms = 0;
    for (int i = 0; i < VALUES; i++) {
        int64_t began_ms = test_now_ms();
        cr_assert_eq(i + 1 < VALUES ? publish() : commit(), BUS_OK, "value %d", i);
        int64_t took_ms = test_now_ms() - began_ms;
        most_ms = took_ms > most_ms ? took_ms : most_ms;
    }
    cr_expect_gt(most_ms, PATIENCE_MS, "each value was there at once: %ld ms", (long)most_ms);
}

Test(slow_link, is_given_up_when_nothing_comes_through)
{
    cr_assert_eq(publish(), BUS_OK);
    process_signal(&far_link.relay, SIGSTOP);
    int64_t began_ms = test_now_ms();
    enum bus_err err = publish();
    if (err == BUS_OK) /* almost all of the first value was sent */
        err = publish();
    cr_expect_eq(err, BUS_EFULL);
    cr_expect_lt(test_now_ms() - began_ms, 20 * PATIENCE_MS);
    process_signal(&far_link.relay, SIGCONT);
}
