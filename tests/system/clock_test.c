/* SPDX-License-Identifier: MPL-2.0 */
/* clock_test.c -- clocks that jump by hours while all is going on, in both directions: those for
 * people, which somebody set; and that of a machine, which was stopped and goes on (it never goes
 * back). */
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define HOUR_S INT64_C(3600)
enum { OF_MACHINE, ON_WALL, CLOCKS }; /* as in tests/lib/skew/skew.c */

struct clocks {
    char variable[REVIVAL_PATH_BYTES + 32]; /* for the environment of whose clocks they are */
    _Atomic int64_t *ahead_s;
};

static struct clocks of_broker, of_alice;
static struct party alice;
static struct bus *bob;
static struct bus_sub *sub;
static uint64_t next_seq;

static void clocks_open(struct clocks *clocks, const char *name)
{
    char path[REVIVAL_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", revival.folder.path, name);
    snprintf(clocks->variable, sizeof clocks->variable, "ERRBUS_SKEW_FILE=%s", path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(ftruncate(fd, CLOCKS * sizeof *clocks->ahead_s), 0);
    void *found =
        mmap(NULL, CLOCKS * sizeof *clocks->ahead_s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq(found, MAP_FAILED);
    clocks->ahead_s = found;
    close(fd);
}

static void jump(struct clocks *clocks, int which, int64_t hours)
{
    atomic_fetch_add(&clocks->ahead_s[which], hours * HOUR_S);
}

static void start_broker(void)
{
    const char *const environment[] = {of_broker.variable, NULL};
    cr_assert(revival_start_failing("process", environment, NULL));
}

static void set_up(void)
{
    static const char *const words[] = {"heartbeat_ms=100", "lost_after_ms=2000",
                                        "reconnect_grace_ms=500", NULL};
    revival_open();
    clocks_open(&of_broker, "clocks-of-broker");
    clocks_open(&of_alice, "clocks-of-alice");
    start_broker();
    const char *const environment[] = {of_alice.variable, NULL};
    party_start_in(&alice, "alice", words, environment);
    bob = must_open("bob");
    sub = must_subscribe(bob, "alice/w");
    next_seq = 0;
}

static void tear_down(void)
{
    bus_sub_close(&sub);
    must_close(&bob);
    party_fini(&alice);
    revival_close();
    munmap(of_broker.ahead_s, CLOCKS * sizeof *of_broker.ahead_s);
    munmap(of_alice.ahead_s, CLOCKS * sizeof *of_alice.ahead_s);
}

TestSuite(clock, .init = set_up, .fini = tear_down, .timeout = 240);

/* Alice writes, with what was acknowledged in between. */
static void expect_flow(void)
{
    enum { SOME = 20 };
    party_do(&alice, "OK", "publish w %d x", SOME);
    party_do(&alice, "OK", "flush %d", (int)SOON_MS);
    for (int i = 0; i < SOME; i++) {
        expect_value(sub, "alice/w", next_seq++, "x-%d", i);
    }
}

/* What bob promised for soon, and when the clocks had not jumped, ends soon. */
static struct bus_slot *promise_for_soon(void)
{
    struct bus_slot *slot = NULL;
    expect_code(bus_slot_reserve(bob, "soon", 300, &slot), BUS_OK);
    must_flush(bob);
    return slot;
}

static void expect_over(struct bus_slot **slot)
{
    struct bus_error *refusal = NULL;
    struct bus_error *error = expect_await_failed(bob, "bob/soon", bus_slot_seq(*slot), "deadline");
    bus_error_unref(&error);
    bus_slot_fail(slot, NULL);
    (void)bus_flush(bob, SOON_MS); /* which tells that it was refused */
    while (bus_refusal(bob, &refusal) == BUS_OK)
        bus_error_unref(&refusal);
}

static void expect_nobody_lost(void)
{
    struct bus_tap *tap = must_tap(NULL, 1);
    struct bus *last = must_open("last");
    must_close(&last);
    cr_expect_eq(count_events_until(tap, "party.lost", "party.left"), 0, "%s", tell_story());
    bus_tap_close(&tap);
}

/* Of the broker and of a party, forwards and back, together and apart. */
Test(clock, on_the_wall_that_jumps_by_hours_costs_nobody_anything)
{
    static const struct {
        int64_t broker, alice; /* hours */
    } jumps[] = {{5, 0}, {-10, 0}, {0, 7}, {0, -14}, {24, -24}, {-48, 48}};
    expect_flow();
    for (size_t i = 0; i < sizeof jumps / sizeof jumps[0]; i++) {
        struct bus_slot *slot = promise_for_soon();
        jump(&of_broker, ON_WALL, jumps[i].broker);
        jump(&of_alice, ON_WALL, jumps[i].alice);
        expect_flow();
        expect_over(&slot);
    }
    expect_nobody_lost();
}

/* A machine that was stopped for hours knows of no time in between: whoever could not be heard is
 * not lost, be it the broker's that stood still, or a party's. */
Test(clock, of_a_machine_that_jumps_by_hours_costs_nobody_anything)
{
    expect_flow();
    struct bus_slot *slot = promise_for_soon();
    jump(&of_broker, OF_MACHINE, 3);
    expect_flow();
    expect_over(&slot);
    jump(&of_alice, OF_MACHINE, 5);
    expect_flow();
    jump(&of_broker, OF_MACHINE, 30);
    jump(&of_alice, OF_MACHINE, 20);
    expect_flow();
    expect_nobody_lost();
}

/* A task that was put off for a moment. */
Test(clock, on_the_wall_that_is_set_back_over_a_restart_keeps_nobody_waiting)
{
    struct bus_sub_options options;
    struct bus *worker = must_open("worker");
    struct bus_msg *msg = NULL;
    bus_sub_options_init(&options);
    options.group = "team";
    struct bus_sub *tasks = must_subscribe_with(worker, "bob/tasks", &options);
    must_publish(bob, "tasks", "do it");
    must_flush(bob);
    expect_code(bus_sub_recv(tasks, SOON_MS, &msg, NULL), BUS_OK);
    bus_msg_reject(&msg, NULL, 300);
    must_flush(worker);
    revival_kill();
    jump(&of_broker, ON_WALL, -10);
    start_broker();
    expect_value(tasks, "bob/tasks", 0, "do it");
    expect_flow();
    bus_sub_close(&tasks);
    must_close(&worker);
    expect_nobody_lost();
}
