/* SPDX-License-Identifier: MPL-2.0 */
/* run_core.c -- the supervisor: one table of states and steps for each copy. */
#include "clients/run_core.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

enum {
    CODE_FAILED = 1,          /* CLI_FAILED */
    CODE_TIMEDOUT = 4,        /* CLI_TIMEDOUT */
    CODE_SIGNAL_BASE = 128,   /* as a shell says that a signal ended it */
    STATUS_NOT_STARTED = 126, /* as a shell: it cannot be executed */
    STATUS_NOT_FOUND = 127,   /* there is no such program */
    TOLD_TIMES = 10,          /* a copy is reported to move, in the time that it may stand still */
};

/* The steps of the table: what happens to one copy. */
enum step {
    STEP_BEGIN,
    STEP_STARTED,
    STEP_NOT_STARTED,
    STEP_ENDED,
    STEP_QUIET,
    STEP_STOP,
    STEP_KILL,
    STEP_DUE,
    STEP_COUNT,
};

/* The acts of the table: what is done about it. */
enum act {
    ACT_NOTHING,
    ACT_START,
    ACT_RUN,    /* it is to move from here on */
    ACT_ASK,    /* it and its group to end */
    ACT_FORCE,  /* the same, by SIGKILL */
    ACT_END,    /* reports its end, and sweeps */
    ACT_FAIL,   /* reports that it could not be started */
    ACT_SKIP,   /* reports that it was never started */
    ACT_STUCK,  /* reports that it does not end */
    ACT_FINISH, /* kills the rest of the group, and reaps the copy */
};

struct move {
    enum run_state next;
    enum act act;
};

static const struct move moves[RUN_STATE_COUNT][STEP_COUNT] = {
    [RUN_WAITING] = {[STEP_BEGIN] = {RUN_STARTING, ACT_START},
                     [STEP_STARTED] = {RUN_WAITING, ACT_NOTHING},
                     [STEP_NOT_STARTED] = {RUN_WAITING, ACT_NOTHING},
                     [STEP_ENDED] = {RUN_WAITING, ACT_NOTHING},
                     [STEP_QUIET] = {RUN_WAITING, ACT_NOTHING},
                     [STEP_STOP] = {RUN_DONE, ACT_SKIP},
                     [STEP_KILL] = {RUN_DONE, ACT_SKIP},
                     [STEP_DUE] = {RUN_WAITING, ACT_NOTHING}},
    [RUN_STARTING] = {[STEP_BEGIN] = {RUN_STARTING, ACT_NOTHING},
                      [STEP_STARTED] = {RUN_RUNNING, ACT_RUN},
                      [STEP_NOT_STARTED] = {RUN_DONE, ACT_FAIL},
                      [STEP_ENDED] = {RUN_STARTING, ACT_NOTHING},
                      [STEP_QUIET] = {RUN_STARTING, ACT_NOTHING},
                      [STEP_STOP] = {RUN_STOPPING, ACT_ASK},
                      [STEP_KILL] = {RUN_KILLED, ACT_FORCE},
                      [STEP_DUE] = {RUN_STARTING, ACT_NOTHING}},
    [RUN_RUNNING] = {[STEP_BEGIN] = {RUN_RUNNING, ACT_NOTHING},
                     [STEP_STARTED] = {RUN_RUNNING, ACT_NOTHING},
                     [STEP_NOT_STARTED] = {RUN_RUNNING, ACT_NOTHING},
                     [STEP_ENDED] = {RUN_SWEEPING, ACT_END},
                     [STEP_QUIET] = {RUN_RUNNING, ACT_NOTHING},
                     [STEP_STOP] = {RUN_STOPPING, ACT_ASK},
                     [STEP_KILL] = {RUN_KILLED, ACT_FORCE},
                     [STEP_DUE] = {RUN_RUNNING, ACT_NOTHING}},
    [RUN_STOPPING] = {[STEP_BEGIN] = {RUN_STOPPING, ACT_NOTHING},
                      [STEP_STARTED] = {RUN_STOPPING, ACT_NOTHING},
                      [STEP_NOT_STARTED] = {RUN_DONE, ACT_FAIL},
                      [STEP_ENDED] = {RUN_SWEEPING, ACT_END},
                      [STEP_QUIET] = {RUN_STOPPING, ACT_NOTHING},
                      [STEP_STOP] = {RUN_STOPPING, ACT_NOTHING},
                      [STEP_KILL] = {RUN_KILLED, ACT_FORCE},
                      [STEP_DUE] = {RUN_KILLED, ACT_FORCE}},
    [RUN_KILLED] = {[STEP_BEGIN] = {RUN_KILLED, ACT_NOTHING},
                    [STEP_STARTED] = {RUN_KILLED, ACT_NOTHING},
                    [STEP_NOT_STARTED] = {RUN_DONE, ACT_FAIL},
                    [STEP_ENDED] = {RUN_SWEEPING, ACT_END},
                    [STEP_QUIET] = {RUN_KILLED, ACT_NOTHING},
                    [STEP_STOP] = {RUN_KILLED, ACT_NOTHING},
                    [STEP_KILL] = {RUN_KILLED, ACT_NOTHING},
                    [STEP_DUE] = {RUN_DONE, ACT_STUCK}},
    [RUN_SWEEPING] = {[STEP_BEGIN] = {RUN_SWEEPING, ACT_NOTHING},
                      [STEP_STARTED] = {RUN_SWEEPING, ACT_NOTHING},
                      [STEP_NOT_STARTED] = {RUN_SWEEPING, ACT_NOTHING},
                      [STEP_ENDED] = {RUN_SWEEPING, ACT_NOTHING},
                      [STEP_QUIET] = {RUN_DONE, ACT_FINISH},
                      [STEP_STOP] = {RUN_SWEEPING, ACT_NOTHING},
                      [STEP_KILL] = {RUN_DONE, ACT_FINISH},
                      [STEP_DUE] = {RUN_DONE, ACT_FINISH}},
    [RUN_DONE] = {[STEP_BEGIN] = {RUN_DONE, ACT_NOTHING},
                  [STEP_STARTED] = {RUN_DONE, ACT_NOTHING},
                  [STEP_NOT_STARTED] = {RUN_DONE, ACT_NOTHING},
                  [STEP_ENDED] = {RUN_DONE, ACT_NOTHING},
                  [STEP_QUIET] = {RUN_DONE, ACT_NOTHING},
                  [STEP_STOP] = {RUN_DONE, ACT_NOTHING},
                  [STEP_KILL] = {RUN_DONE, ACT_NOTHING},
                  [STEP_DUE] = {RUN_DONE, ACT_NOTHING}},
};

/* One step's work. */
struct work {
    struct run_core *core;
    struct run_effects *effects;
    int64_t now_ms;
};

static void put(struct work *work, enum run_effect_kind kind, unsigned copy, int number)
{
    work->effects->items[work->effects->count++] =
        (struct run_effect){.kind = kind, .copy = copy, .number = number};
}

/* ---- speaking of an end -----------------------------------------------------------------------*/

static int code_of(const struct run_core *core, const struct run_copy *copy, enum run_how how)
{
    switch (how) {
    case RUN_COMPLETED: return 0;
    case RUN_FAILED:
    case RUN_NOT_STARTED:
    case RUN_STUCK: return CODE_FAILED;
    case RUN_OUT_OF_TIME: return CODE_TIMEDOUT;
    case RUN_LEFT: return CODE_SIGNAL_BASE + core->asked;
    case RUN_TERMINATED: return copy->code;
    }
    return CODE_FAILED;
}

/* What a shell would call the end of the program; 0: it is not the program's own end. */
static int status_of(enum run_how how, int number)
{
    if (how == RUN_NOT_STARTED) {
        return number == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_STARTED;
    }
    if (how != RUN_FAILED) {
        return 0;
    }
    return WIFSIGNALED(number) ? CODE_SIGNAL_BASE + WTERMSIG(number) : WEXITSTATUS(number);
}

/* Reports a copy, once. */
static void report(struct work *work, unsigned index, enum run_how how, int number)
{
    struct run_core *core = work->core;
    struct run_copy *copy = &core->copies[index];
    if (copy->is_reported) {
        return;
    }
    copy->is_reported = true;
    if (core->code == 0) {
        core->code = code_of(core, copy, how);
        core->status = status_of(how, number);
    }
    put(work, RUN_EFFECT_REPORT, index, number);
    work->effects->items[work->effects->count - 1].how = how;
}

/* Reports a copy by the cause for which it was stopped, or by how if it ended by itself. */
static void report_by_cause(struct work *work, unsigned index, enum run_how how, int number)
{
    static const enum run_how of_cause[] = {
        [RUN_CAUSE_SIGNAL] = RUN_LEFT,
        [RUN_CAUSE_OVER] = RUN_TERMINATED,
        [RUN_CAUSE_TIME] = RUN_OUT_OF_TIME,
    };
    enum run_cause cause = work->core->copies[index].cause;
    report(work, index, cause != RUN_CAUSE_NONE ? of_cause[cause] : how, number);
}

/* ---- moving -----------------------------------------------------------------------------------*/

static void tell_moves(struct work *work, unsigned index)
{
    struct run_copy *copy = &work->core->copies[index];
    if (work->core->rules.stall_ms > 0) {
        put(work, RUN_EFFECT_MOVES, index, 1);
    }
    copy->told_ms = work->now_ms;
    copy->has_moved = false;
}

static int64_t move_due_ms(const struct run_core *core, const struct run_copy *copy)
{
    bool is_due = copy->has_moved && core->rules.stall_ms > 0;
    return is_due ? copy->told_ms + core->rules.stall_ms / TOLD_TIMES : RUN_NEVER;
}

static void on_moved(struct work *work, unsigned index)
{
    struct run_copy *copy = &work->core->copies[index];
    copy->has_moved = true;
    if (copy->state == RUN_RUNNING && move_due_ms(work->core, copy) <= work->now_ms) {
        tell_moves(work, index);
    }
}

/* ---- one copy ---------------------------------------------------------------------------------*/

static int request_of(const struct run_core *core, const struct run_copy *copy)
{
    return copy->cause == RUN_CAUSE_SIGNAL ? core->asked : SIGTERM;
}

static void step(struct work *work, unsigned index, enum step what, int number)
{
    struct run_core *core = work->core;
    struct run_copy *copy = &core->copies[index];
    struct move move = moves[copy->state][what];
    if (copy->state == RUN_RUNNING && move.next != RUN_RUNNING && core->rules.stall_ms > 0 &&
        !copy->is_reported) {
        put(work, RUN_EFFECT_MOVES, index, 0);
    }
    copy->state = move.next;
    switch (move.act) {
    case ACT_NOTHING: break;
    case ACT_START: put(work, RUN_EFFECT_START, index, 0); break;
    case ACT_RUN: tell_moves(work, index); break;
    case ACT_ASK:
        put(work, RUN_EFFECT_SIGNAL, index, request_of(core, copy));
        copy->due_ms = work->now_ms + core->rules.grace_ms;
        break;
    case ACT_FORCE:
        put(work, RUN_EFFECT_SIGNAL, index, SIGKILL);
        copy->due_ms = work->now_ms + RUN_KILL_WAIT_MS;
        break;
    case ACT_END:
        report_by_cause(work, index, number == 0 ? RUN_COMPLETED : RUN_FAILED, number);
        put(work, RUN_EFFECT_SIGNAL, index, SIGTERM);
        copy->due_ms = work->now_ms + core->rules.grace_ms;
        if (copy->is_quiet) {
            step(work, index, STEP_QUIET, 0);
        }
        break;
    case ACT_FAIL: report_by_cause(work, index, RUN_NOT_STARTED, number); break;
    case ACT_SKIP: report_by_cause(work, index, RUN_LEFT, 0); break;
    case ACT_STUCK:
        report_by_cause(work, index, RUN_STUCK, 0);
        put(work, RUN_EFFECT_REAP, index, 0);
        break;
    case ACT_FINISH:
        put(work, RUN_EFFECT_SIGNAL, index, SIGKILL);
        put(work, RUN_EFFECT_REAP, index, 0);
        break;
    }
}

static void stop(struct work *work, unsigned index, enum run_cause cause)
{
    struct run_copy *copy = &work->core->copies[index];
    if (copy->cause == RUN_CAUSE_NONE) {
        copy->cause = cause;
    }
    if (cause == RUN_CAUSE_TIME && copy->cause == cause && copy->state < RUN_SWEEPING) {
        report_by_cause(work, index, RUN_OUT_OF_TIME, 0);
    }
    step(work, index, STEP_STOP, 0);
}

/* ---- all of them ------------------------------------------------------------------------------*/

/* A second request to end: kills all that runs. */
static void end_at_once(struct work *work)
{
    for (unsigned i = 0; i < work->core->rules.copies; i++) {
        step(work, i, STEP_KILL, 0);
        report_by_cause(work, i, RUN_LEFT, 0);
    }
    work->core->is_over = true;
    put(work, RUN_EFFECT_EXIT, 0, CODE_SIGNAL_BASE + work->core->asked);
}

static void on_signal(struct work *work, int number)
{
    struct run_core *core = work->core;
    bool is_second = core->asked != 0;
    core->asked = number;
    if (is_second) {
        end_at_once(work);
        return;
    }
    for (unsigned i = 0; i < core->rules.copies; i++) {
        stop(work, i, RUN_CAUSE_SIGNAL);
    }
}

static void on_pass(struct work *work, int number)
{
    for (unsigned i = 0; i < work->core->rules.copies; i++) {
        enum run_state state = work->core->copies[i].state;
        if (state == RUN_STARTING || state == RUN_RUNNING || state == RUN_STOPPING) {
            put(work, RUN_EFFECT_SIGNAL, i, number);
        }
    }
}

static int64_t copy_due_ms(const struct run_core *core, const struct run_copy *copy)
{
    switch (copy->state) {
    case RUN_RUNNING: return move_due_ms(core, copy);
    case RUN_STOPPING:
    case RUN_KILLED:
    case RUN_SWEEPING: return copy->due_ms;
    default: return RUN_NEVER;
    }
}

static void see_time(struct work *work)
{
    struct run_core *core = work->core;
    for (unsigned i = 0; i < core->rules.copies; i++) {
        struct run_copy *copy = &core->copies[i];
        if (work->now_ms < copy_due_ms(core, copy)) {
            continue;
        }
        if (copy->state == RUN_RUNNING) {
            tell_moves(work, i);
        } else {
            step(work, i, STEP_DUE, 0);
        }
    }
    for (unsigned i = 0; i < core->rules.copies && work->now_ms >= core->rules.until_ms; i++) {
        stop(work, i, RUN_CAUSE_TIME);
    }
}

static void on_copy(struct work *work, const struct run_event *event)
{
    struct run_copy *copy = &work->core->copies[event->copy];
    switch (event->kind) {
    case RUN_EVENT_BEGIN: step(work, event->copy, STEP_BEGIN, 0); break;
    case RUN_EVENT_STARTED: step(work, event->copy, STEP_STARTED, 0); break;
    case RUN_EVENT_NOT_STARTED: step(work, event->copy, STEP_NOT_STARTED, event->number); break;
    case RUN_EVENT_ENDED: step(work, event->copy, STEP_ENDED, event->number); break;
    case RUN_EVENT_MOVED: on_moved(work, event->copy); break;
    case RUN_EVENT_QUIET:
        copy->is_quiet = true;
        step(work, event->copy, STEP_QUIET, 0);
        break;
    case RUN_EVENT_OVER:
        if (copy->cause == RUN_CAUSE_NONE) {
            copy->code = event->number;
        }
        stop(work, event->copy, RUN_CAUSE_OVER);
        break;
    default: break;
    }
}

static bool are_all_done(const struct run_core *core)
{
    for (unsigned i = 0; i < core->rules.copies; i++) {
        if (core->copies[i].state != RUN_DONE) {
            return false;
        }
    }
    return true;
}

/* ---- public -----------------------------------------------------------------------------------*/

void run_core_init(struct run_core *core, const struct run_rules *rules)
{
    *core = (struct run_core){.rules = *rules};
}

void run_core_step(struct run_core *core, const struct run_event *event,
                   struct run_effects *effects)
{
    struct work work = {.core = core, .effects = effects, .now_ms = event->now_ms};
    effects->count = 0;
    if (core->is_over || event->copy >= core->rules.copies) {
        return;
    }
    switch (event->kind) {
    case RUN_EVENT_SIGNAL: on_signal(&work, event->number); break;
    case RUN_EVENT_PASS: on_pass(&work, event->number); break;
    case RUN_EVENT_TIME: see_time(&work); break;
    default: on_copy(&work, event); break;
    }
    if (!core->is_over && are_all_done(core)) {
        core->is_over = true;
        put(&work, RUN_EFFECT_EXIT, 0, core->code);
    }
}

int64_t run_core_due_ms(const struct run_core *core)
{
    int64_t due_ms = RUN_NEVER;
    for (unsigned i = 0; i < core->rules.copies && !core->is_over; i++) {
        int64_t copy_ms = copy_due_ms(core, &core->copies[i]);
        /* A copy that was stopped because of the time has a deadline of its own. */
        bool is_live =
            core->copies[i].state <= RUN_RUNNING && core->copies[i].cause == RUN_CAUSE_NONE;
        if (is_live && core->rules.until_ms < copy_ms) {
            copy_ms = core->rules.until_ms;
        }
        due_ms = copy_ms < due_ms ? copy_ms : due_ms;
    }
    return due_ms;
}
