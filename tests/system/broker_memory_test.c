/* SPDX-License-Identifier: MPL-2.0 */
/* broker_memory_test.c -- a real broker of which one allocation fails, from its very first on: it
 * says why it does not start, or goes on, or ends, as it does when it cannot say what it decided
 * (tables/effect.h).  However that goes, whatever it acknowledged is there when another broker
 * begins with its journal. */
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    VALUES = 6,
    EACH_UNTIL = 40, /* the first so many are tried each */
    STRIDE = 13,     /* then each of so many; with TEST_LONG=1: every one */
    ALLOCATIONS_MAX = 600,
    BROKER_LOST_MS = 300, /* a broker that ended is not waited for */
};

struct written {
    int count; /* acknowledged, or refused in words */
    bool is_refused[VALUES];
};

static void open_options(struct bus_options *options, const char *party)
{
    bus_options_init(options);
    options->party = party;
    options->heartbeat_ms = 20;
    options->broker_lost_ms = BROKER_LOST_MS;
    options->send_timeout_ms = SOON_MS;
}

/* Until the broker is gone. */
static void write_all(struct written *written)
{
    struct bus_options options;
    struct bus *alice = NULL;
    struct bus_sub *sub = NULL;
    char text[16];
    open_options(&options, "alice");
    if (bus_open(stage.control, &options, 2 * BROKER_LOST_MS, &alice, NULL) != BUS_OK)
        return;
    if (bus_sub_open(alice, "alice/#", NULL, &sub) != BUS_OK) /* so that it has something to send */
        sub = NULL;
    for (int i = 0; i < VALUES; i++) {
        struct bus_error *refusal = NULL;
        snprintf(text, sizeof text, "%d", i);
        if (bus_publish(alice, "w", text, strlen(text)) != BUS_OK ||
            bus_flush(alice, SOON_MS) != BUS_OK)
            break;
        written->count = i + 1;
        while (bus_refusal(alice, &refusal) == BUS_OK) {
            uint64_t seq = UINT64_MAX;
            (void)bus_error_topic(refusal, &seq);
            cr_assert_leq(seq, (uint64_t)i);
            written->is_refused[seq] = true;
            bus_error_unref(&refusal);
        }
    }
    bus_sub_close(&sub);
    (void)bus_close(&alice, SOON_MS); /* the broker may be gone */
}

/* Whatever it does, it is what an end in good order is, or that of a broken invariant. */
static void end_broker(uint64_t which)
{
    process_signal(&stage.process, SIGTERM);
    int code = process_wait(&stage.process, SOON_MS);
    const char *said = process_complained(&stage.process);
    cr_assert(code == 0 || (code == 1 && strstr(said, "errbusd") != NULL) ||
                  (code == 128 + SIGABRT && strstr(said, "broken invariant") != NULL),
              "allocation %llu: errbusd ended with %d: %s", (unsigned long long)which, code, said);
    broker_fini(&stage);
}

static void read_all(uint64_t which, const struct written *written)
{
    char text[16];
    struct bus *bob = must_open("bob");
    for (int i = 0; i < written->count; i++) {
        struct bus_msg *msg = NULL;
        if (written->is_refused[i])
            continue;
        size_t bytes = 0;
        snprintf(text, sizeof text, "%d", i);
        enum bus_err err = bus_await(bob, "alice/w", (uint64_t)i, SOON_MS, &msg, NULL);
        cr_assert(err == BUS_OK, "allocation %llu: value %d of %d gave %s",
                  (unsigned long long)which, i, written->count, code_name(err));
        const char *value = bus_msg_value(msg, &bytes);
        cr_assert(bytes == strlen(text) && memcmp(value, text, bytes) == 0);
        bus_msg_free(&msg);
    }
    must_close(&bob);
}

/* False: the allocation that should fail was never asked for. */
static bool try_it(uint64_t which)
{
    char number[64];
    const char *const environment[] = {number, NULL};
    struct written written = {.count = 0};
    snprintf(number, sizeof number, "ERRBUS_NUMBER_FAIL_ALLOCATION=%llu",
             (unsigned long long)which);
    revival_open();
    if (revival_start_failing("process", environment, NULL)) {
        write_all(&written);
        end_broker(which);
    } else {
        cr_assert_eq(process_wait(&stage.process, SOON_MS), 1, "allocation %llu: %s",
                     (unsigned long long)which, process_complained(&stage.process));
        cr_assert(strncmp(process_complained(&stage.process), "errbusd: ", 9) == 0, "%s",
                  process_complained(&stage.process));
        broker_fini(&stage);
    }
    revival_start("process", NULL);
    read_all(which, &written);
    revival_close();
    return written.count < VALUES;
}

Test(broker_memory, is_missing_at_one_place_and_nothing_acknowledged_is_lost, .timeout = 3600)
{
    uint64_t stride = is_asked("TEST_LONG") ? 1 : STRIDE;
    uint64_t most = is_asked("TEST_LONG") ? ALLOCATIONS_MAX : ALLOCATIONS_MAX / 2;
    int broken = 0;
    for (uint64_t which = 1; which <= most; which += which < EACH_UNTIL ? 1 : stride)
        broken += try_it(which);
    cr_expect_gt(broken, 20, "%d of them could be told", broken);
}
