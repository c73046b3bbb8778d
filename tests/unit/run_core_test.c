/* SPDX-License-Identifier: MPL-2.0 */
/* run_core_test.c -- a supervisor's decisions: scenarios as transcripts, and what holds whatever
 * happens. */
#include "clients/run_core.h"
#include "tests/lib/draw.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define GRACE_MS 1000
#define STALL_MS 300
#define LOST 5 /* an exit code that an end of the party stands for */

static struct run_core core;
static struct run_effects effects;
static int64_t now_ms;
static char story[4096];

/* ---- transcripts ------------------------------------------------------------------------------*/

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void tell(const char *format, ...)
{
    size_t at = strlen(story);
    va_list args;
    va_start(args, format);
    vsnprintf(story + at, sizeof story - at, format, args);
    va_end(args);
}

static const char *how_name(enum run_how how)
{
    static const char *const names[] = {[RUN_COMPLETED] = "completed",
                                        [RUN_FAILED] = "failed",
                                        [RUN_NOT_STARTED] = "not started",
                                        [RUN_OUT_OF_TIME] = "out of time",
                                        [RUN_STUCK] = "stuck",
                                        [RUN_LEFT] = "left",
                                        [RUN_TERMINATED] = "terminated"};
    return names[how];
}

static void tell_effect(const struct run_effect *effect)
{
    switch (effect->kind) {
    case RUN_EFFECT_START: tell("[%4" PRId64 "] %u: start\n", now_ms, effect->copy); break;
    case RUN_EFFECT_SIGNAL:
        tell("[%4" PRId64 "] %u: SIG%s\n", now_ms, effect->copy, sigabbrev_np(effect->number));
        break;
    case RUN_EFFECT_REPORT:
        tell("[%4" PRId64 "] %u: %s %d\n", now_ms, effect->copy, how_name(effect->how),
             effect->number);
        break;
    case RUN_EFFECT_MOVES:
        tell("[%4" PRId64 "] %u: %s\n", now_ms, effect->copy,
             effect->number != 0 ? "moves" : "need not move");
        break;
    case RUN_EFFECT_REAP: tell("[%4" PRId64 "] %u: reap\n", now_ms, effect->copy); break;
    case RUN_EFFECT_EXIT: tell("[%4" PRId64 "] exit %d\n", now_ms, effect->number); break;
    }
}

static void step(enum run_event_kind kind, unsigned copy, int number)
{
    run_core_step(
        &core, &(struct run_event){.kind = kind, .now_ms = now_ms, .copy = copy, .number = number},
        &effects);
    for (size_t i = 0; i < effects.count; i++) {
        tell_effect(&effects.items[i]);
    }
}

static void begin(unsigned copies, int64_t stall_ms, int64_t until_ms)
{
    now_ms = 0;
    story[0] = '\0';
    run_core_init(&core, &(struct run_rules){.copies = copies,
                                             .grace_ms = GRACE_MS,
                                             .stall_ms = stall_ms,
                                             .until_ms = until_ms});
}

/* Of one copy it is not known yet whether it can be started. */
static void begin_starting(void)
{
    begin(1, 0, RUN_NEVER);
    step(RUN_EVENT_BEGIN, 0, 0);
}

static void start(unsigned copy)
{
    step(RUN_EVENT_BEGIN, copy, 0);
    step(RUN_EVENT_STARTED, copy, 0);
}

/* The program ended so, and no output of its group is open any more. */
static void finish(unsigned copy, int number)
{
    step(RUN_EVENT_ENDED, copy, number);
    step(RUN_EVENT_QUIET, copy, 0);
}

/* The supervisor itself is sent a signal. */
static void interrupt(int number)
{
    step(RUN_EVENT_SIGNAL, 0, number);
}

static void begin_running(unsigned copies, int64_t stall_ms, int64_t until_ms)
{
    begin(copies, stall_ms, until_ms);
    for (unsigned i = 0; i < copies; i++)
        start(i);
    story[0] = '\0';
}

/* Time goes on to at_ms, with a look whenever one is due. */
static void pass_until(int64_t at_ms)
{
    while (run_core_due_ms(&core) <= at_ms) {
        now_ms = run_core_due_ms(&core);
        step(RUN_EVENT_TIME, 0, 0);
    }
    now_ms = at_ms;
}

static void expect(const char *text)
{
    cr_assert_str_eq(story, text);
    story[0] = '\0';
}

/* ---- one copy ---------------------------------------------------------------------------------*/

Test(run_core, completes_what_exits_with_0)
{
    begin(1, 0, RUN_NEVER);
    start(0);
    cr_assert_eq(run_core_due_ms(&core), RUN_NEVER);
    now_ms = 7;
    step(RUN_EVENT_ENDED, 0, 0);
    now_ms = 8;
    step(RUN_EVENT_QUIET, 0, 0);
    expect("[   0] 0: start\n"
           "[   7] 0: completed 0\n"
           "[   7] 0: SIGTERM\n"
           "[   8] 0: SIGKILL\n"
           "[   8] 0: reap\n"
           "[   8] exit 0\n");
    interrupt(SIGINT);
    cr_assert_eq(effects.count, 0, "after the exit nothing happens");
}

Test(run_core, fails_what_ends_otherwise)
{
    begin_running(1, 0, RUN_NEVER);
    step(RUN_EVENT_QUIET, 0, 0); /* it closed its output before */
    step(RUN_EVENT_ENDED, 0, W_EXITCODE(3, 0));
    expect("[   0] 0: failed 768\n"
           "[   0] 0: SIGTERM\n"
           "[   0] 0: SIGKILL\n"
           "[   0] 0: reap\n"
           "[   0] exit 1\n");
}

Test(run_core, fails_what_cannot_be_started)
{
    begin_starting();
    step(RUN_EVENT_NOT_STARTED, 0, ENOENT);
    expect("[   0] 0: start\n"
           "[   0] 0: not started 2\n"
           "[   0] exit 1\n");
}

Test(run_core, waits_for_the_rest_of_a_group_no_longer_than_the_grace)
{
    begin_running(1, STALL_MS, RUN_NEVER);
    step(RUN_EVENT_ENDED, 0, 0);
    pass_until(GRACE_MS - 1);
    expect("[   0] 0: need not move\n"
           "[   0] 0: completed 0\n"
           "[   0] 0: SIGTERM\n");
    pass_until(GRACE_MS);
    expect("[1000] 0: SIGKILL\n"
           "[1000] 0: reap\n"
           "[1000] exit 0\n");
}

Test(run_core, kills_what_does_not_end_when_its_party_is_over)
{
    begin_running(1, 0, RUN_NEVER);
    now_ms = 10;
    step(RUN_EVENT_OVER, 0, LOST);
    step(RUN_EVENT_OVER, 0, LOST + 1); /* the first stands */
    pass_until(GRACE_MS + 10);
    expect("[  10] 0: SIGTERM\n"
           "[1010] 0: SIGKILL\n");
    finish(0, SIGKILL);
    expect("[1010] 0: terminated 9\n"
           "[1010] 0: SIGTERM\n"
           "[1010] 0: SIGKILL\n"
           "[1010] 0: reap\n"
           "[1010] exit 5\n");
}

Test(run_core, gives_up_on_what_even_sigkill_does_not_end)
{
    begin_running(1, 0, RUN_NEVER);
    step(RUN_EVENT_OVER, 0, LOST);
    pass_until(GRACE_MS + RUN_KILL_WAIT_MS - 1);
    expect("[   0] 0: SIGTERM\n"
           "[1000] 0: SIGKILL\n");
    pass_until(GRACE_MS + RUN_KILL_WAIT_MS);
    expect("[6000] 0: terminated 0\n"
           "[6000] 0: reap\n"
           "[6000] exit 5\n");
}

/* ---- stalls and time --------------------------------------------------------------------------*/

Test(run_core, tells_that_a_copy_moves_ten_times_in_its_time_at_most)
{
    begin(1, STALL_MS, RUN_NEVER);
    start(0);
    cr_assert_eq(run_core_due_ms(&core), RUN_NEVER, "who says nothing is not waited for here");
    expect("[   0] 0: start\n"
           "[   0] 0: moves\n");
    pass_until(STALL_MS / 10 - 1);
    step(RUN_EVENT_MOVED, 0, 0);
    expect("");
    pass_until(STALL_MS / 10);
    expect("[  30] 0: moves\n");
    pass_until(1000);
    step(RUN_EVENT_MOVED, 0, 0);
    step(RUN_EVENT_MOVED, 0, 0);
    pass_until(2000);
    expect("[1000] 0: moves\n"
           "[1030] 0: moves\n");
}

Test(run_core, takes_back_what_it_promised_of_what_is_to_end)
{
    begin_running(3, STALL_MS, RUN_NEVER);
    step(RUN_EVENT_MOVED, 0, 0); /* not told any more */
    step(RUN_EVENT_ENDED, 0, 0);
    expect("[   0] 0: need not move\n"
           "[   0] 0: completed 0\n"
           "[   0] 0: SIGTERM\n");
    interrupt(SIGINT);
    step(RUN_EVENT_MOVED, 1, 0);
    step(RUN_EVENT_OVER, 2, LOST); /* stalled, perhaps */
    pass_until(500);
    expect("[   0] 1: need not move\n"
           "[   0] 1: SIGINT\n"
           "[   0] 2: need not move\n"
           "[   0] 2: SIGINT\n");
}

Test(run_core, ends_all_when_the_time_of_the_run_is_over)
{
    begin(2, 0, 50);
    start(0);
    pass_until(49);
    story[0] = '\0';
    pass_until(50);
    cr_assert_eq(run_core_due_ms(&core), 50 + GRACE_MS, "nothing but the grace is waited for");
    finish(0, SIGTERM);
    expect("[  50] 0: out of time 0\n"
           "[  50] 0: SIGTERM\n"
           "[  50] 1: out of time 0\n"
           "[  50] 0: SIGTERM\n"
           "[  50] 0: SIGKILL\n"
           "[  50] 0: reap\n"
           "[  50] exit 4\n");
}

/* ---- signals ----------------------------------------------------------------------------------*/

Test(run_core, passes_the_first_signal_on_and_leaves)
{
    begin_running(2, 0, RUN_NEVER);
    interrupt(SIGINT);
    finish(0, SIGINT);
    finish(1, 0);
    expect("[   0] 0: SIGINT\n"
           "[   0] 1: SIGINT\n"
           "[   0] 0: left 2\n"
           "[   0] 0: SIGTERM\n"
           "[   0] 0: SIGKILL\n"
           "[   0] 0: reap\n"
           "[   0] 1: left 0\n"
           "[   0] 1: SIGTERM\n"
           "[   0] 1: SIGKILL\n"
           "[   0] 1: reap\n"
           "[   0] exit 130\n");
}

Test(run_core, ends_at_once_at_the_second_signal)
{
    begin_running(3, 0, RUN_NEVER);
    step(RUN_EVENT_ENDED, 2, 0);
    story[0] = '\0';
    interrupt(SIGTERM);
    step(RUN_EVENT_ENDED, 0, SIGTERM);
    story[0] = '\0';
    interrupt(SIGINT);
    expect("[   0] 0: SIGKILL\n"
           "[   0] 0: reap\n"
           "[   0] 1: SIGKILL\n"
           "[   0] 1: left 0\n"
           "[   0] 2: SIGKILL\n"
           "[   0] 2: reap\n"
           "[   0] exit 130\n");
}

Test(run_core, passes_on_what_is_meant_for_the_program)
{
    begin(3, 0, RUN_NEVER);
    start(0);
    start(1);
    step(RUN_EVENT_ENDED, 1, 0);
    story[0] = '\0';
    step(RUN_EVENT_PASS, 0, SIGUSR1);
    expect("[   0] 0: SIGUSR1\n");
}

Test(run_core, never_starts_what_is_not_wanted_any_more)
{
    begin(2, 0, RUN_NEVER);
    step(RUN_EVENT_BEGIN, 0, 0);
    interrupt(SIGHUP);
    step(RUN_EVENT_BEGIN, 1, 0);
    expect("[   0] 0: start\n"
           "[   0] 0: SIGHUP\n"
           "[   0] 1: left 0\n");
    step(RUN_EVENT_STARTED, 0, 0);
    step(RUN_EVENT_ENDED, 0, SIGHUP);
    expect("[   0] 0: left 1\n"
           "[   0] 0: SIGTERM\n");
}

/* It is not known yet whether it can be started. */
Test(run_core, ends_what_is_about_to_start)
{
    begin_starting();
    step(RUN_EVENT_OVER, 0, LOST);
    step(RUN_EVENT_NOT_STARTED, 0, ENOENT);
    expect("[   0] 0: start\n"
           "[   0] 0: SIGTERM\n"
           "[   0] 0: terminated 2\n"
           "[   0] exit 5\n");

    begin_starting();
    step(RUN_EVENT_PASS, 0, SIGUSR1);
    interrupt(SIGINT);
    interrupt(SIGINT);
    expect("[   0] 0: start\n"
           "[   0] 0: SIGUSR1\n"
           "[   0] 0: SIGINT\n"
           "[   0] 0: SIGKILL\n"
           "[   0] 0: left 0\n"
           "[   0] exit 130\n");
}

Test(run_core, kills_what_hangs_before_it_has_started)
{
    begin_starting();
    interrupt(SIGTERM);
    now_ms = GRACE_MS;
    step(RUN_EVENT_TIME, 0, 0);
    step(RUN_EVENT_STARTED, 0, 0);
    step(RUN_EVENT_ENDED, 0, SIGKILL);
    expect("[   0] 0: start\n"
           "[   0] 0: SIGTERM\n"
           "[1000] 0: SIGKILL\n"
           "[1000] 0: left 9\n"
           "[1000] 0: SIGTERM\n");
}

/* ---- several ----------------------------------------------------------------------------------*/

Test(run_core, lets_the_others_go_on_and_ends_with_the_first_code)
{
    begin_running(3, 0, RUN_NEVER);
    finish(1, W_EXITCODE(9, 0));
    finish(0, 0);
    story[0] = '\0';
    step(RUN_EVENT_OVER, 2, LOST);
    finish(2, SIGTERM);
    expect("[   0] 2: SIGTERM\n"
           "[   0] 2: terminated 15\n"
           "[   0] 2: SIGTERM\n"
           "[   0] 2: SIGKILL\n"
           "[   0] 2: reap\n"
           "[   0] exit 1\n");
    cr_expect_eq(core.status, 9);
}

Test(run_core, has_the_status_of_the_first_program_that_failed)
{
    static const struct {
        enum run_event_kind kind;
        int number;
        int status;
    } ends[] = {
        {RUN_EVENT_ENDED, 0, 0},
        {RUN_EVENT_ENDED, W_EXITCODE(1, 0), 1},
        {RUN_EVENT_ENDED, W_EXITCODE(255, 0), 255},
        {RUN_EVENT_ENDED, SIGKILL, 128 + SIGKILL},
        {RUN_EVENT_ENDED, SIGSEGV | 0x80, 128 + SIGSEGV}, /* it left a core */
        {RUN_EVENT_NOT_STARTED, ENOENT, 127},
        {RUN_EVENT_NOT_STARTED, EACCES, 126},
        {RUN_EVENT_OVER, LOST, 0},
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        begin_starting();
        if (ends[i].kind != RUN_EVENT_NOT_STARTED)
            step(RUN_EVENT_STARTED, 0, 0);
        step(ends[i].kind, 0, ends[i].number);
        cr_expect_eq(core.status, ends[i].status, "case %zu: %d", i, core.status);
    }
}

Test(run_core, heeds_no_copy_beyond_the_last)
{
    begin(RUN_COPIES_MAX, 0, RUN_NEVER);
    step(RUN_EVENT_BEGIN, RUN_COPIES_MAX - 1, 0);
    cr_assert_eq(effects.count, 1);
    step(RUN_EVENT_BEGIN, RUN_COPIES_MAX, 0);
    cr_assert_eq(effects.count, 0);
    interrupt(SIGINT);
    interrupt(SIGINT);
    cr_assert_leq(effects.count, RUN_EFFECTS_MAX);
}

/* ---- whatever happens -------------------------------------------------------------------------*/

/* What a world around the core knows. */
struct world {
    bool is_alive[RUN_COPIES_MAX];    /* there is a process group that a signal may be sent to */
    bool is_starting[RUN_COPIES_MAX]; /* the answer is due */
    unsigned started[RUN_COPIES_MAX];
    unsigned reported[RUN_COPIES_MAX];
    unsigned exits;
    uint64_t dice;
};

static unsigned roll(struct world *world, unsigned sides)
{
    return draw_below(&world->dice, sides);
}

static void happen(struct world *world, enum run_event_kind kind, unsigned copy, int number);

/* Carries effects out in order.  Some starts fail at once, and some are answered later. */
static void carry_out(struct world *world)
{
    struct run_effects pending = effects;
    for (size_t i = 0; i < pending.count; i++) {
        const struct run_effect *effect = &pending.items[i];
        switch (effect->kind) {
        case RUN_EFFECT_START:
            cr_assert_eq(++world->started[effect->copy], 1);
            world->is_alive[effect->copy] = roll(world, 6) > 0;
            world->is_starting[effect->copy] = world->is_alive[effect->copy];
            if (!world->is_alive[effect->copy]) {
                happen(world, RUN_EVENT_NOT_STARTED, effect->copy, EAGAIN);
            }
            break;
        case RUN_EFFECT_SIGNAL:
            cr_assert(world->is_alive[effect->copy], "a signal to nobody, or to somebody else");
            break;
        case RUN_EFFECT_MOVES: cr_assert_eq(world->reported[effect->copy], 0); break;
        case RUN_EFFECT_REPORT: world->reported[effect->copy] += 1; break;
        case RUN_EFFECT_REAP: world->is_alive[effect->copy] = false; break;
        case RUN_EFFECT_EXIT: world->exits += 1; break;
        }
    }
}

static void happen(struct world *world, enum run_event_kind kind, unsigned copy, int number)
{
    cr_assert_eq(world->exits, 0);
    run_core_step(
        &core, &(struct run_event){.kind = kind, .now_ms = now_ms, .copy = copy, .number = number},
        &effects);
    carry_out(world);
}

static void answer(struct world *world, unsigned copy)
{
    if (world->is_starting[copy]) {
        world->is_starting[copy] = false;
        world->is_alive[copy] = roll(world, 4) > 0;
        happen(world, world->is_alive[copy] ? RUN_EVENT_STARTED : RUN_EVENT_NOT_STARTED, copy,
               ENOENT);
    }
}

static void live(struct world *world, unsigned copies)
{
    static const enum run_event_kind kinds[] = {RUN_EVENT_BEGIN, RUN_EVENT_MOVED, RUN_EVENT_ENDED,
                                                RUN_EVENT_QUIET, RUN_EVENT_OVER,  RUN_EVENT_PASS,
                                                RUN_EVENT_TIME,  RUN_EVENT_SIGNAL};
    for (unsigned i = 0; i < 60 && world->exits == 0; i++) {
        unsigned kind = roll(world, 30);
        now_ms += roll(world, 100);
        answer(world, roll(world, copies));
        if (world->exits > 0) {
            return;
        }
        enum run_event_kind event = kinds[kind < 8 ? kind : kind % 7];
        unsigned copy = roll(world, copies);
        if (event != RUN_EVENT_ENDED || !world->is_starting[copy]) {
            happen(world, event, copy, roll(world, 2) == 0 ? 0 : SIGTERM);
        }
    }
    if (world->exits == 0) {
        happen(world, RUN_EVENT_SIGNAL, 0, SIGTERM); /* or nobody would tell those that wait */
    }
    for (unsigned i = 0; i < copies && world->exits == 0; i++) {
        answer(world, i);
    }
    while (world->exits == 0) { /* by itself, from here on */
        cr_assert_neq(run_core_due_ms(&core), RUN_NEVER, "it waits for ever");
        now_ms = run_core_due_ms(&core);
        happen(world, RUN_EVENT_TIME, 0, 0);
    }
}

Test(run_core, ends_every_copy_once_whatever_happens)
{
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        struct world world = {.dice = seed};
        unsigned copies = 1 + roll(&world, 4);
        begin(copies, roll(&world, 2) * STALL_MS, roll(&world, 3) == 0 ? 900 : RUN_NEVER);
        live(&world, copies);
        for (unsigned i = 0; i < copies; i++) {
            cr_assert_eq(world.reported[i], 1, "seed %" PRIu64 ": %u reports of copy %u", seed,
                         world.reported[i], i);
        }
        cr_assert_eq(world.exits, 1, "seed %" PRIu64, seed);
    }
}
