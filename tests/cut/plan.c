/* SPDX-License-Identifier: MPL-2.0 */
/* plan.c -- the table of what is cut. */
#include "tests/cut/plan.h"

#include <stdio.h>

const char *const phase_names[PHASE_COUNT] = {"A", "B", "C", "D"};
const char *const kind_names[KIND_COUNT] = {"link",  "drop", "one-way", "loss",
                                            "delay", "rate", "reset",   "address"};
const char *const end_names[END_COUNT] = {"both", "party", "broker"};
const char *const outcome_names[OUTCOME_COUNT + 1] = {"resumed", "lost", "either", "neither"};

struct row {
    enum kind kind;
    enum end end;
    int times; /* of the cut that is shorter */
};

/* Each is tried in all phases, shorter and longer. */
static const struct row rows[] = {
    {KIND_LINK, END_PARTY, 1},    {KIND_LINK, END_BROKER, 3},    {KIND_DROP, END_BOTH, 1},
    {KIND_ONE_WAY, END_PARTY, 1}, {KIND_ONE_WAY, END_BROKER, 1}, {KIND_LOSS, END_BOTH, 1},
    {KIND_DELAY, END_BOTH, 1},    {KIND_RATE, END_BOTH, 1},      {KIND_RESET, END_BOTH, 3},
    {KIND_RESET, END_PARTY, 1},   {KIND_RESET, END_BROKER, 1},   {KIND_ADDRESS, END_BOTH, 1},
};
#define ROWS (sizeof rows / sizeof rows[0])

/* One of each phase, shorter and longer, and of the kinds those that differ most. */
static const struct plan short_form[] = {
    {.phase = PHASE_COMPUTES, .kind = KIND_LINK, .end = END_PARTY},
    {.phase = PHASE_COMPUTES, .kind = KIND_DROP, .is_longer = true},
    {.phase = PHASE_WAITS, .kind = KIND_RESET, .end = END_PARTY},
    {.phase = PHASE_WAITS, .kind = KIND_ONE_WAY, .end = END_PARTY, .is_longer = true},
    {.phase = PHASE_SENDS, .kind = KIND_DROP},
    {.phase = PHASE_SENDS, .kind = KIND_RESET, .is_longer = true},
    {.phase = PHASE_RECEIVES, .kind = KIND_ADDRESS},
    {.phase = PHASE_RECEIVES, .kind = KIND_LINK, .end = END_BROKER, .is_longer = true},
};

static bool is_in_short(const struct plan *plan)
{
    bool is_in = false;
    for (size_t i = 0; i < sizeof short_form / sizeof short_form[0]; i++) {
        const struct plan *other = &short_form[i];
        is_in |= plan->phase == other->phase && plan->kind == other->kind &&
                 plan->end == other->end && plan->is_longer == other->is_longer;
    }
    return is_in;
}

bool plan_at(size_t index, struct plan *out_plan)
{
    const struct row *row = &rows[index / 2 % ROWS];
    if (index >= ROWS * 2 * PHASE_COUNT) {
        return false;
    }
    *out_plan = (struct plan){
        .phase = (enum phase)(index / 2 / ROWS),
        .kind = row->kind,
        .end = row->end,
        .is_longer = index % 2 == 1,
    };
    out_plan->times = out_plan->is_longer ? 1 : row->times;
    out_plan->is_in_short = is_in_short(out_plan);
    return true;
}

bool plan_is_fedavg(const struct plan *plan)
{
    return plan->phase == PHASE_COMPUTES || plan->phase == PHASE_WAITS;
}

void plan_complete(struct plan *plan)
{
    static const struct plan phases[PHASE_COUNT] = {
        {.pattern = "round 0: learnt", .after_ms = 100},
        {.pattern = "round 0: learnt", .after_ms = 50},
        {.pattern = "sending", .after_bytes = (int64_t)LARGE_BYTES / 2},
        {.pattern = "ready to receive", .after_bytes = (int64_t)LARGE_BYTES / 2},
    };
    const struct plan *phase = &phases[plan->phase];
    bool is_slow_only = /* than it was */
        plan->kind == KIND_LOSS || plan->kind == KIND_DELAY || plan->kind == KIND_RATE;
    plan->parties = plan->parties > 0 ? plan->parties : 3;
    plan->times = plan->times > 0 ? plan->times : 1;
    if (plan->cut_ms == 0) {
        bool is_silent = plan->kind == KIND_DROP || plan->kind == KIND_ONE_WAY;
        plan->cut_ms = !plan->is_longer ? 1500 : is_slow_only ? 6000 : is_silent ? 4000 : 1500;
    }
    if (plan->lost_after_ms == 0) {
        plan->lost_after_ms = !plan->is_longer ? 20000 : is_slow_only ? 4000 : 2000;
    }
    if (plan->grace_ms == 0) {
        plan->grace_ms = plan->is_longer ? 1000 : 20000;
    }
    if (plan->pattern == NULL) {
        plan->pattern = phase->pattern;
        plan->after_ms = phase->after_ms;
        plan->after_bytes = phase->after_bytes;
    }
}

enum outcome plan_expected(const struct plan *plan)
{
    switch (plan->kind) {
    case KIND_LOSS: return plan->is_longer ? OUTCOME_EITHER : OUTCOME_RESUMED;
    case KIND_DELAY:
    case KIND_RATE: return OUTCOME_RESUMED;
    default: return plan->is_longer ? OUTCOME_LOST : OUTCOME_RESUMED;
    }
}

int64_t plan_bound_ms(const struct plan *plan)
{
    bool is_closed = plan->kind == KIND_RESET && plan->end != END_PARTY;
    return is_closed ? plan->grace_ms : plan->lost_after_ms;
}

void plan_name(const struct plan *plan, char *name, size_t bytes)
{
    snprintf(name, bytes, "%s %s%s%s %s", phase_names[plan->phase], kind_names[plan->kind],
             plan->end != END_BOTH ? " " : "", plan->end != END_BOTH ? end_names[plan->end] : "",
             plan->is_longer ? "longer" : "shorter");
}
