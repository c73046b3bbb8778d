/* SPDX-License-Identifier: MPL-2.0 */
/* run.c -- waits for the moment, cuts, mends, waits for the end, and judges. */
#include "tests/cut/run.h"

#include "tests/cut/cast.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Bounds against hanging, several times what a machine with ten times as much to do needs. */
#define MOMENT_MS INT64_C(120000)
#define END_MS INT64_C(180000)
/* What may be added to a bound of the bus, for a machine that has other things to do.  No case
 * comes near the next larger bound by it. */
#define SLACK_MS INT64_C(15000)
#define STEP_MS INT64_C(20)                /* looks at counts so often */
#define BETWEEN_MS INT64_C(700)            /* of several cuts */
#define LARGE_RATE_BYTES INT64_C(10000000) /* a second: so that its middle takes time to pass */
/* Of a large value that is cut in its middle, what is sent again: pieces that were on their way, 8
 * of 256 KiB from its writer, less to its reader; and what frames cost. */
#define AGAIN_BYTES ((uint64_t)4 * 1024 * 1024)
#define EXIT_REMOTE 3
#define EXIT_BROKER_LOST 5
#define EXIT_FENCED 6

struct run {
    const struct hosts *hosts;
    const struct plan *plan;
    struct cast cast;
    size_t port;    /* of the last party */
    int64_t cut_ms; /* when it was cut first; mended last */
    int64_t mended_ms;
    struct result *result;
};

/* The first reason counts. */
static void __attribute__((format(printf, 2, 3))) blame(struct run *run, const char *format, ...)
{
    va_list args;
    if (run->result->why[0] == '\0') {
        va_start(args, format);
        vsnprintf(run->result->why, sizeof run->result->why, format, args);
        va_end(args);
    }
}

/* ---- the cable --------------------------------------------------------------------------------*/

static void set_both(struct run *run, const struct wire_fault *from, const struct wire_fault *to)
{
    wire_set(run->hosts->wire, run->port, WIRE_FROM_HOST, from);
    wire_set(run->hosts->wire, run->port, WIRE_TO_HOST, to);
}

/* A large value passes at a rate that leaves time to cut it. */
static struct wire_fault whole_cable(const struct run *run)
{
    return (struct wire_fault){.rate_bytes = plan_is_fedavg(run->plan) ? 0 : LARGE_RATE_BYTES};
}

static void set_link(const struct run *run, const char *state)
{
    char lines[64];
    bool is_far = run->plan->end == END_BROKER;
    snprintf(lines, sizeof lines, is_far ? "link set dev port%zu %s\n" : "link set dev eth%zu %s\n",
             is_far ? run->port : 0, state);
    (void)hosts_ip(run->hosts, is_far ? run->hosts->count : run->port, lines); /* it prints */
}

static void change_address(const struct run *run, const char *what, bool is_moved)
{
    char address[HOST_ADDRESS_BYTES_MAX];
    char lines[96];
    host_address(run->port, is_moved, address);
    snprintf(lines, sizeof lines, "address %s %s/16 dev eth0\n", what, address);
    (void)hosts_ip(run->hosts, run->port, lines); /* it prints */
}

static void cut(struct run *run, int time)
{
    const struct plan *plan = run->plan;
    struct wire_fault whole = whole_cable(run);
    struct wire_fault none = {.drop_share = WIRE_SHARE_ALL};
    struct wire_fault reset = {.is_resetting = true};
    struct wire_fault slow = whole;
    switch (plan->kind) {
    case KIND_LINK: set_link(run, "down"); break;
    case KIND_DROP: set_both(run, &none, &none); break;
    case KIND_ONE_WAY:
        set_both(run, plan->end != END_BROKER ? &none : &whole,
                 plan->end == END_BROKER ? &none : &whole);
        break;
    case KIND_LOSS:
        slow.drop_share = 300;
        set_both(run, &slow, &slow);
        break;
    case KIND_DELAY:
        slow.delay_ms = 200;
        slow.jitter_ms = 100;
        set_both(run, &slow, &slow);
        break;
    case KIND_RATE:
        slow.rate_bytes = (int64_t)256 * 1024;
        set_both(run, &slow, &slow);
        break;
    case KIND_RESET:
        set_both(run, plan->end != END_BROKER ? &reset : &none,
                 plan->end != END_PARTY ? &reset : &none);
        break;
    case KIND_ADDRESS: change_address(run, "del", time % 2 == 1); break;
    case KIND_COUNT: break;
    }
}

static void mend(struct run *run, int time)
{
    struct wire_fault whole = whole_cable(run);
    set_both(run, &whole, &whole);
    if (run->plan->kind == KIND_LINK) {
        set_link(run, "up");
    } else if (run->plan->kind == KIND_ADDRESS) {
        change_address(run, "add", time % 2 == 0);
    }
}

/* ---- the course of a case ---------------------------------------------------------------------*/

static enum wire_way large_way(const struct run *run)
{
    return run->plan->phase == PHASE_RECEIVES ? WIRE_TO_HOST : WIRE_FROM_HOST;
}

static uint64_t carried(const struct run *run)
{
    return wire_counted(run->hosts->wire, run->port, large_way(run)).bytes;
}

static uint64_t greeted(const struct run *run)
{
    return wire_counted(run->hosts->wire, run->port, WIRE_FROM_HOST).greetings;
}

static void listen_for(struct run *run, int64_t ms)
{
    int64_t until_ms = test_now_ms() + ms;
    while (test_now_ms() < until_ms) {
        cast_listen(&run->cast, until_ms - test_now_ms());
    }
}

static bool wait_for_moment(struct run *run)
{
    int64_t until_ms = test_now_ms() + MOMENT_MS;
    while (!run->cast.has_matched && test_now_ms() < until_ms) {
        cast_listen(&run->cast, STEP_MS);
    }
    uint64_t before = carried(run);
    listen_for(run, run->plan->after_ms);
    while (carried(run) < before + (uint64_t)run->plan->after_bytes && test_now_ms() < until_ms &&
           !run->cast.last->is_over) {
        cast_listen(&run->cast, 1);
    }
    bool is_there = run->cast.has_matched && test_now_ms() < until_ms;
    if (!is_there) {
        blame(run, "its moment did not come: '%s'", run->plan->pattern);
    } else if (run->cast.last->is_over) {
        blame(run, "it was over before it could be cut");
        is_there = false;
    }
    return is_there;
}

/* Cut for its time, and until the loss is known if there has to be one. */
static void stay_cut(struct run *run)
{
    const struct plan *plan = run->plan;
    int64_t start_ms = test_now_ms();
    uint64_t greetings = greeted(run);
    bool is_awaited = plan_expected(plan) == OUTCOME_LOST;
    int64_t most_ms = plan->cut_ms + (is_awaited ? plan_bound_ms(plan) + SLACK_MS : 0);
    bool is_cut = true;
    while (is_cut) {
        cast_listen(&run->cast, STEP_MS);
        int64_t since_ms = test_now_ms() - start_ms;
        if (run->result->noticed_ms < 0 && greeted(run) > greetings) {
            run->result->noticed_ms = since_ms;
        }
        bool is_due = plan->cut_ms >= 0 ? since_ms >= plan->cut_ms : cast_is_over(&run->cast);
        is_cut = !is_due || (is_awaited && run->cast.lost_ms == 0 && since_ms < most_ms);
        is_cut = is_cut && since_ms < END_MS;
    }
    run->result->cut_ms += test_now_ms() - start_ms;
}

static void wait_for_end(struct run *run)
{
    int64_t until_ms = test_now_ms() + END_MS;
    while (!cast_is_over(&run->cast) && test_now_ms() < until_ms) {
        cast_listen(&run->cast, STEP_MS);
    }
    if (!cast_is_over(&run->cast)) {
        blame(run, "not over %lld s after the link was mended", (long long)END_MS / 1000);
    }
    run->result->resumed_ms = test_now_ms() - run->mended_ms;
    listen_for(run, 100); /* the tap hears of the end, too */
}

static void go(struct run *run)
{
    const struct plan *plan = run->plan;
    struct wire_fault whole = whole_cable(run);
    set_both(run, &whole, &whole);
    if (!cast_start(&run->cast, run->hosts, plan)) {
        blame(run, "the processes did not start");
        return;
    }
    if (!wait_for_moment(run)) {
        return;
    }
    for (int time = 0; time < plan->times; time++) {
        if (time > 0) {
            listen_for(run, BETWEEN_MS);
        }
        cut(run, time);
        run->cut_ms = run->cut_ms != 0 ? run->cut_ms : test_now_ms();
        stay_cut(run);
        mend(run, time);
        run->mended_ms = test_now_ms();
    }
    wait_for_end(run);
    run->result->carried_bytes = carried(run);
}

/* ---- judgement --------------------------------------------------------------------------------*/

static int64_t since_cut(const struct run *run, int64_t at_ms)
{
    return at_ms > 0 ? at_ms - run->cut_ms : -1;
}

static void expect_exit(struct run *run, const struct actor *actor, int code)
{
    if (!actor->is_over || actor->process.result != code) {
        blame(run, "%s ended with %d, not %d", actor->name,
              actor->is_over ? actor->process.result : -1, code);
    }
}

static const char *aggregator_said(const struct run *run)
{
    return process_said(&run->cast.parties[0].process);
}

static void judge_all_rounds(struct run *run)
{
    char line[64];
    for (int round = 0; round < cast_rounds(run->plan); round++) {
        snprintf(line, sizeof line, "round %d: %d of %d silos", round, run->plan->parties,
                 run->plan->parties);
        if (strstr(aggregator_said(run), line) == NULL) {
            blame(run, "the aggregator did not say '%s'", line);
        }
    }
}

/* A large value does not begin anew. */
static void judge_large(struct run *run)
{
    enum kind kind = run->plan->kind;
    bool is_faithful = kind != KIND_LOSS && kind != KIND_DELAY && kind != KIND_RATE;
    uint64_t most = LARGE_BYTES + LARGE_BYTES / 10 + AGAIN_BYTES * (uint64_t)run->plan->times;
    if (is_faithful && run->result->carried_bytes > most) {
        blame(run, "%llu bytes were carried for a value of %zu",
              (unsigned long long)run->result->carried_bytes, LARGE_BYTES);
    }
}

static void judge_resumed(struct run *run)
{
    const struct cast *cast = &run->cast;
    if (cast->lost_ms != 0) {
        blame(run, "%s was lost %lld ms after the cut", cast->last->name,
              (long long)since_cut(run, cast->lost_ms));
    }
    for (size_t i = 0; i < cast->party_count; i++) {
        expect_exit(run, &cast->parties[i], 0);
    }
    if (cast->incarnations != 1 || cast->is_end_error) {
        blame(run, "%u incarnations, and an end that is %s", cast->incarnations,
              cast->is_end_error ? "a loss" : "none");
    }
    if (plan_is_fedavg(run->plan)) {
        judge_all_rounds(run);
    } else {
        judge_large(run);
    }
}

/* Whoever waits for the last party, whose wait does not end with another's as well. */
static bool is_waiter(const struct run *run, const struct actor *actor)
{
    return actor != run->cast.last &&
           (!plan_is_fedavg(run->plan) ||
            (run->plan->phase == PHASE_COMPUTES && actor == &run->cast.parties[0]));
}

static void judge_waiters(struct run *run, int64_t most_ms)
{
    const struct cast *cast = &run->cast;
    run->result->waited_ms = since_cut(run, cast->end_ms);
    if (!cast->is_end_error) {
        blame(run, "who read from %s was not told that it is lost", cast->last->name);
    }
    for (size_t i = 0; i < cast->party_count; i++) {
        const struct actor *actor = &cast->parties[i];
        int64_t waited_ms = since_cut(run, actor->error_ms);
        if (is_waiter(run, actor)) {
            run->result->waited_ms =
                waited_ms > run->result->waited_ms ? waited_ms : run->result->waited_ms;
        }
        if (is_waiter(run, actor) && waited_ms < 0) {
            blame(run, "%s was not told", actor->name);
        }
    }
    if (run->result->waited_ms > most_ms) {
        blame(run, "somebody waited for %lld ms", (long long)run->result->waited_ms);
    }
}

static void judge_lost(struct run *run)
{
    const struct cast *cast = &run->cast;
    int64_t bound_ms = plan_bound_ms(run->plan);
    int64_t detected_ms = run->result->detected_ms;
    bool is_fedavg = plan_is_fedavg(run->plan);
    /* The last sign of life may be a beat old when the link is cut: a fourth of lost_after_ms. */
    if (detected_ms < bound_ms / 2 || detected_ms > bound_ms + SLACK_MS) {
        blame(run, "lost %lld ms after the cut, and %lld were due", (long long)detected_ms,
              (long long)bound_ms);
    }
    judge_waiters(run, bound_ms + SLACK_MS);
    for (size_t i = 0; i < cast->party_count; i++) {
        const struct actor *actor = &cast->parties[i];
        /* Whoever never comes back finds by itself that it is alone. */
        int alone = run->plan->cut_ms < 0 ? EXIT_BROKER_LOST : EXIT_FENCED;
        expect_exit(run, actor, actor == cast->last ? alone : is_fedavg ? 0 : EXIT_REMOTE);
    }
    if (cast->after_end > 0) {
        blame(run, "%u frames came behind the end of %s", cast->after_end, cast->last->name);
    }
    if (is_fedavg && strstr(aggregator_said(run), "lacks silo-") == NULL) {
        blame(run, "the aggregator lacked nobody");
    }
}

/* From the other end of a silent link, two beats tell. */
static void judge_noticed(struct run *run)
{
    const struct plan *plan = run->plan;
    bool is_silent = plan->kind == KIND_DROP || plan->kind == KIND_ONE_WAY;
    bool is_long_enough = plan->is_longer || !plan_is_fedavg(plan);
    if (is_silent && is_long_enough && run->result->noticed_ms < 0) {
        blame(run, "%s did not try another connection while it was cut off", run->cast.last->name);
    }
}

static void judge(struct run *run)
{
    const struct cast *cast = &run->cast;
    struct result *result = run->result;
    enum outcome expected = plan_expected(run->plan);
    result->detected_ms = since_cut(run, cast->lost_ms);
    result->lost = cast->lost;
    result->twice = cast->twice;
    if (expected == OUTCOME_RESUMED || (expected == OUTCOME_EITHER && cast->lost_ms == 0)) {
        judge_resumed(run);
        result->outcome = OUTCOME_RESUMED;
    } else {
        judge_lost(run);
        result->outcome = OUTCOME_LOST;
    }
    judge_noticed(run);
    if (cast->lost + cast->twice > 0) {
        blame(run, "%llu values lost, %llu twice", (unsigned long long)cast->lost,
              (unsigned long long)cast->twice);
    }
    if (cast->strays > 0) {
        blame(run, "%u others lost, failed or refused", cast->strays);
    }
}

void run_plan(const struct hosts *hosts, const struct plan *plan, bool is_talkative,
              struct result *out_result)
{
    static struct run run; /* too large for a stack */
    memset(&run, 0, sizeof run);
    *out_result = (struct result){.detected_ms = -1, .noticed_ms = -1, .waited_ms = -1};
    run.hosts = hosts;
    run.plan = plan;
    run.port = cast_hosts(plan) - 1;
    run.result = out_result;
    wire_clear(hosts->wire);
    go(&run);
    if (out_result->why[0] == '\0') {
        judge(&run);
    }
    out_result->is_good = out_result->why[0] == '\0';
    out_result->outcome = out_result->is_good ? out_result->outcome : OUTCOME_COUNT;
    if (is_talkative || !out_result->is_good) {
        cast_print(&run.cast);
    }
    if (plan->kind == KIND_ADDRESS) { /* as it was, for the next */
        char lines[160];
        char address[HOST_ADDRESS_BYTES_MAX];
        host_address(run.port, false, address);
        snprintf(lines, sizeof lines, "address flush dev eth0\naddress add %s/16 dev eth0\n",
                 address);
        (void)hosts_ip(hosts, run.port, lines); /* it prints */
    }
    cast_fini(&run.cast);
}
