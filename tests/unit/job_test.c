/* SPDX-License-Identifier: MPL-2.0 */
/* job_test.c -- what may be asked for, and every pair of state and event of a job. */
#include "broker/core/tables/job.h"

#include "libbus/base/limits.h"

#include <criterion/criterion.h>
#include <string.h>

static struct job_spec spec_of(uint32_t min, uint32_t max)
{
    struct job_spec spec;
    job_spec_init(&spec);
    spec.min = min;
    spec.max = max;
    return spec;
}

static bool is_taken(struct job_spec spec)
{
    return job_spec_complaint(&spec) == NULL;
}

Test(job, takes_what_can_be_had)
{
    cr_expect(is_taken(spec_of(1, 0)));
    cr_expect(is_taken(spec_of(1, 1)));
    cr_expect(is_taken(spec_of(LIMIT_PARTIES, LIMIT_PARTIES)));
    cr_expect_not(is_taken(spec_of(0, 0)), "one that is never short has no end");
    cr_expect_not(is_taken(spec_of(LIMIT_PARTIES + 1, 0)));
    cr_expect_not(is_taken(spec_of(2, 1)));
    cr_expect_not(is_taken(spec_of(2, LIMIT_PARTIES + 1)));
}

Test(job, takes_periods_up_to_their_limits)
{
    static const struct {
        int64_t window_ms, settle_ms, deadline_ms;
        bool is_taken;
    } cases[] = {
        {0, 0, -1, true},   {LIMIT_PERIOD_MS_MAX, LIMIT_PERIOD_MS_MAX, LIMIT_JOB_MS_MAX, true},
        {-1, 0, -1, false}, {LIMIT_PERIOD_MS_MAX + 1, 0, -1, false},
        {0, -1, -1, false}, {0, LIMIT_PERIOD_MS_MAX + 1, -1, false},
        {0, 0, 0, false},   {0, 0, 1, true},
        {0, 0, -2, false},  {0, 0, LIMIT_JOB_MS_MAX + 1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job_spec spec = spec_of(1, 0);
        spec.join_window_ms = cases[i].window_ms;
        spec.settle_ms = cases[i].settle_ms;
        spec.deadline_ms = cases[i].deadline_ms;
        cr_expect_eq(is_taken(spec), cases[i].is_taken, "case %zu", i);
    }
    static const struct {
        int64_t timeout_ms;
        bool is_taken;
    } timeouts[] = {{-2, false},
                    {-1, true},
                    {0, false},
                    {1, true},
                    {2, true},
                    {LIMIT_PERIOD_MS_MAX - 1, true},
                    {LIMIT_PERIOD_MS_MAX, true},
                    {LIMIT_PERIOD_MS_MAX + 1, false}};
    for (size_t i = 0; i < sizeof timeouts / sizeof *timeouts; i++) {
        struct job_spec spec = spec_of(1, 0);
        spec.join_timeout_ms = timeouts[i].timeout_ms;
        cr_expect_eq(is_taken(spec), timeouts[i].is_taken, "timeout %zu", i);
    }
    struct job_spec spec = spec_of(1, 0);
    spec.max_restarts = LIMIT_RESTARTS;
    cr_expect(is_taken(spec));
    spec.max_restarts += 1;
    cr_expect_not(is_taken(spec));
    spec = spec_of(1, 0);
    spec.pending = JOB_PENDING_COUNT;
    cr_expect_not(is_taken(spec));
}

Test(job, two_specs_are_the_same_if_nothing_differs)
{
    struct job_spec a = spec_of(2, 4);
    struct job_spec b = a;
    cr_expect(job_spec_equal(&a, &b));
    b.strategy = 1;
    cr_expect_not(job_spec_equal(&a, &b));
    b = a;
    b.deadline_ms = 5;
    cr_expect_not(job_spec_equal(&a, &b));
    b = a;
    b.join_timeout_ms = 5;
    cr_expect_not(job_spec_equal(&a, &b));
    b = a;
    b.max = 5;
    cr_expect_not(job_spec_equal(&a, &b));
}

/* The moves there are, read off a drawing of the states; every other pair changes nothing. */
Test(job, every_pair_of_state_and_event_is_as_drawn)
{
    static const struct {
        enum job_state from;
        enum job_change event;
        enum job_state to;
    } moves[] = {
        {JOB_FREE, JOB_IS_CREATED, JOB_GATHERING},      {JOB_GATHERING, JOB_STARTS, JOB_RUNNING},
        {JOB_RUNNING, JOB_FALLS_SHORT, JOB_SHORT},      {JOB_SHORT, JOB_FILLS_UP, JOB_RUNNING},
        {JOB_GATHERING, JOB_BREAKS, JOB_FAILING},       {JOB_RUNNING, JOB_BREAKS, JOB_FAILING},
        {JOB_SHORT, JOB_BREAKS, JOB_FAILING},           {JOB_PAUSING, JOB_BREAKS, JOB_FAILING},
        {JOB_FAILING, JOB_RETRIES, JOB_PAUSING},        {JOB_FAILING, JOB_FAILS, JOB_FAILED},
        {JOB_PAUSING, JOB_GATHERS, JOB_GATHERING},      {JOB_RUNNING, JOB_COMPLETES, JOB_COMPLETED},
        {JOB_COMPLETED, JOB_IS_CREATED, JOB_GATHERING}, {JOB_FAILED, JOB_IS_CREATED, JOB_GATHERING},
        {JOB_CANCELLED, JOB_IS_CREATED, JOB_GATHERING}, {JOB_CANCELLED, JOB_IS_FREED, JOB_FREE},
    };
    for (int state = 0; state < JOB_STATE_COUNT; state++)
        for (int event = 0; event < JOB_CHANGE_COUNT; event++) {
            enum job_state expected = JOB_STATE_COUNT;
            if (event == JOB_IS_CANCELLED && !job_is_final((enum job_state)state))
                expected = JOB_CANCELLED;
            for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
                if (moves[i].from == (enum job_state)state &&
                    moves[i].event == (enum job_change)event)
                    expected = moves[i].to;
            enum job_state next = JOB_STATE_COUNT;
            bool has_moved = job_next((enum job_state)state, (enum job_change)event, &next);
            cr_expect_eq(next, expected, "%s %d", job_state_name((enum job_state)state), event);
            cr_expect_eq(has_moved, expected != JOB_STATE_COUNT);
        }
}

Test(job, only_another_run_leads_out_of_a_final_state)
{
    static const enum job_state finals[] = {JOB_COMPLETED, JOB_FAILED, JOB_CANCELLED};
    uint32_t count = 0;
    for (int state = 0; state < JOB_STATE_COUNT; state++)
        count += job_is_final((enum job_state)state);
    cr_expect_eq(count, sizeof finals / sizeof *finals);
    for (size_t i = 0; i < sizeof finals / sizeof *finals; i++)
        for (int event = 0; event < JOB_CHANGE_COUNT; event++) {
            enum job_state next;
            if (event != JOB_IS_CREATED && event != JOB_IS_FREED)
                cr_expect_not(job_next(finals[i], (enum job_change)event, &next));
        }
}

Test(job, each_state_has_a_name_of_its_own)
{
    for (int a = 0; a < JOB_STATE_COUNT; a++)
        for (int b = 0; b < a; b++)
            cr_expect_str_neq(job_state_name((enum job_state)a), job_state_name((enum job_state)b));
}

Test(job, pauses_longer_each_time_and_never_the_same)
{
    int64_t whole_ms = DEFAULT_PAUSE_MS;
    for (uint32_t restart = 0; restart < 40; restart++) {
        cr_expect_eq(job_pause_ms(restart, -1, 0), whole_ms / 2);
        for (uint64_t random = 0; random < 5000; random += 7) {
            int64_t pause_ms = job_pause_ms(restart, -1, random * UINT64_C(0x9e3779b97f4a7c15));
            cr_expect(pause_ms >= whole_ms / 2 && pause_ms <= whole_ms);
        }
        whole_ms = whole_ms * 2 < LIMIT_PAUSE_MS ? whole_ms * 2 : LIMIT_PAUSE_MS;
    }
    cr_expect_neq(job_pause_ms(3, -1, 17), job_pause_ms(3, -1, 1234567));
}

Test(job, pauses_for_as_long_as_the_error_asks)
{
    cr_expect_eq(job_pause_ms(0, 5000, 3), 5000);
    cr_expect_eq(job_pause_ms(0, 0, 0), DEFAULT_PAUSE_MS / 2);
    cr_expect_eq(job_pause_ms(0, INT64_MAX, 0), LIMIT_PERIOD_MS_MAX, "but not for ever");
}
