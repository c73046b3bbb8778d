/* SPDX-License-Identifier: MPL-2.0 */
/* coverage.c -- counters in tables; see coverage.h. */
#include "tests/sim/coverage.h"

#include "broker/core/model.h"
#include "broker/core/tables/job.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/slot_table.h"
#include "broker/core/tables/task.h"
#include "libbus/base/flow_window.h"
#include "libbus/session/phase.h"
#include "libbus/wire/frame.h"
#include "libbus/wire/msg.h"

#include <inttypes.h>

enum { ROWS_MAX = 16, COLUMNS_MAX = 16, MESSAGES = 256 };

struct table {
    const char *name;
    uint32_t rows, columns;
    const char *row_names[ROWS_MAX];
    const char *column_names[COLUMNS_MAX];
};

static const struct table tables[COVERAGE_TABLES] = {
    [COVERAGE_SLOT] = {"slot, from and to",
                       SLOT_STATE_COUNT,
                       SLOT_STATE_COUNT,
                       {"open", "value", "chunked", "error"},
                       {"open", "value", "chunked", "error"}},
    [COVERAGE_PARTY] = {"party",
                        PARTY_STATE_COUNT,
                        PARTY_EVENT_COUNT,
                        {"scheduling", "running", "failing", "completed", "failed", "lost", "left",
                         "terminated"},
                        {"starts", "says failed", "completes", "fails", "is lost", "leaves",
                         "terminated"}},
    [COVERAGE_JOB] = {"job",
                      JOB_STATE_COUNT,
                      JOB_CHANGE_COUNT,
                      {"free", "gathering", "running", "short", "failing", "pausing", "completed",
                       "failed", "cancelled"},
                      {"created", "starts", "short", "fills up", "breaks", "retries", "gathers",
                       "fails", "completes", "cancelled"}},
    [COVERAGE_PHASE] = {"session",
                        PHASE_COUNT,
                        PHASE_STEP_COUNT,
                        {"wait", "greet", "attach", "up", "over"},
                        {"dials", "welcomed", "attached", "closes", "ends"}},
    [COVERAGE_TASK] = {"task",
                       TASK_STATE_COUNT,
                       TASK_EVENT_COUNT,
                       {"waiting", "leased", "delayed", "over"},
                       {"leased", "comes back", "put off", "due", "ends"}},
    [COVERAGE_SUB] = {"subscription",
                      COVERAGE_SUBS,
                      COVERAGE_SUB_EVENTS,
                      {"live", "live, gap", "durable", "durable, gap"},
                      {"opened", "value", "error", "missing", "end", "acked", "returned", "pattern",
                       "denied", "closed", "dropped", "orphaned", "past"}},
    [COVERAGE_LEASE] = {"lease",
                        2,
                        COVERAGE_LEASE_EVENTS,
                        {"of a value", "of a request"},
                        {"leased", "again", "replied", "done", "given back", "rejected", "failed",
                         "over", "in vain"}},
    [COVERAGE_REQUEST] = {"request",
                          3,
                          COVERAGE_REQUEST_ENDS,
                          {"given to none", "given once", "given more"},
                          {"answered", "unanswered", "not done", "dead letter", "worker lost",
                           "deadline", "unserved", "taken back", "other"}},
};

static uint64_t counts[COVERAGE_TABLES][ROWS_MAX][COLUMNS_MAX];
static uint64_t parts[MESSAGES];
static uint64_t faults[FAULT_COUNT];
static uint64_t passed;
static uint64_t numbered;
static uint64_t wide, narrow;
static uint64_t crashes, compactions, replacements;

/* ---- in the place of what moves -------------------------------------------------------------- */

bool __real_party_next(enum party_state state, enum party_event event, enum party_state *out_next);
bool __wrap_party_next(enum party_state state, enum party_event event, enum party_state *out_next);
bool __wrap_party_next(enum party_state state, enum party_event event, enum party_state *out_next)
{
    counts[COVERAGE_PARTY][state][event] += 1;
    return __real_party_next(state, event, out_next);
}

bool __real_job_next(enum job_state state, enum job_change event, enum job_state *out_next);
bool __wrap_job_next(enum job_state state, enum job_change event, enum job_state *out_next);
bool __wrap_job_next(enum job_state state, enum job_change event, enum job_state *out_next)
{
    counts[COVERAGE_JOB][state][event] += 1;
    return __real_job_next(state, event, out_next);
}

bool __real_phase_move(enum phase *phase, enum phase_step step);
bool __wrap_phase_move(enum phase *phase, enum phase_step step);
bool __wrap_phase_move(enum phase *phase, enum phase_step step)
{
    counts[COVERAGE_PHASE][*phase][step] += 1;
    return __real_phase_move(phase, step);
}

void __real_passing_end(struct core *core, struct open_slot *open);
void __wrap_passing_end(struct core *core, struct open_slot *open);
void __wrap_passing_end(struct core *core, struct open_slot *open)
{
    passed += open->chunks->gone > 0;
    __real_passing_end(core, open);
}

void __real_number_give(struct topic *topic, uint32_t number);
void __wrap_number_give(struct topic *topic, uint32_t number);
void __wrap_number_give(struct topic *topic, uint32_t number)
{
    numbered += 1;
    __real_number_give(topic, number);
}

void __real_flow_window_arrived(struct flow_window *flow, uint64_t position, int64_t now_ns);
void __wrap_flow_window_arrived(struct flow_window *flow, uint64_t position, int64_t now_ns);
void __wrap_flow_window_arrived(struct flow_window *flow, uint64_t position, int64_t now_ns)
{
    bool was_wide = flow->more_bytes > 0;
    bool was_narrow = flow->least_bytes < flow->floor_bytes;
    __real_flow_window_arrived(flow, position, now_ns);
    if (!flow->is_far || flow_window_rate(flow) == 0)
        return; /* nothing was measured */
    wide += flow->more_bytes > 0 && !was_wide;
    narrow += flow->least_bytes < flow->floor_bytes && !was_narrow;
}

bool __real_task_next(enum task_state state, enum task_event event, enum task_state *out_next);
bool __wrap_task_next(enum task_state state, enum task_event event, enum task_state *out_next);
bool __wrap_task_next(enum task_state state, enum task_event event, enum task_state *out_next)
{
    counts[COVERAGE_TASK][state][event] += 1;
    return __real_task_next(state, event, out_next);
}

void __real_slot_entry_move(struct slot_entry *entry, enum slot_state to, uint32_t ref);
void __wrap_slot_entry_move(struct slot_entry *entry, enum slot_state to, uint32_t ref);
void __wrap_slot_entry_move(struct slot_entry *entry, enum slot_state to, uint32_t ref)
{
    counts[COVERAGE_SLOT][entry->state][to] += 1;
    __real_slot_entry_move(entry, to, ref);
}

/* ---- what others tell ------------------------------------------------------------------------ */

void coverage_sub(bool is_durable, bool is_gap, enum coverage_sub_event event)
{
    enum coverage_sub live = is_gap ? COVERAGE_GAP : COVERAGE_LIVE;
    enum coverage_sub durable = is_gap ? COVERAGE_DURABLE_GAP : COVERAGE_DURABLE;
    counts[COVERAGE_SUB][is_durable ? durable : live][event] += 1;
}

void coverage_lease(bool is_request, enum coverage_lease event)
{
    counts[COVERAGE_LEASE][is_request][event] += 1;
}

void coverage_request(uint32_t deliveries, enum coverage_request end)
{
    counts[COVERAGE_REQUEST][deliveries < 2 ? deliveries : 2][end] += 1;
}

void coverage_part(unsigned number)
{
    if (number < MESSAGES)
        parts[number] += 1;
}

void coverage_fault(enum fault fault)
{
    if (fault < FAULT_COUNT)
        faults[fault] += 1;
}

const char *coverage_absent_fault(void)
{
    for (uint32_t fault = 0; fault < FAULT_COUNT; fault++)
        if (faults[fault] == 0)
            return climate_fault_name((enum fault)fault);
    return NULL;
}

void coverage_replaced(void)
{
    replacements += 1;
}

uint64_t coverage_replacements(void)
{
    return replacements;
}

void coverage_crash(void)
{
    crashes += 1;
}

void coverage_compact(void)
{
    compactions += 1;
}

uint64_t coverage_passed(void)
{
    return passed;
}

uint64_t coverage_numbered(void)
{
    return numbered;
}

uint64_t coverage_wide(void)
{
    return wide;
}

uint64_t coverage_narrow(void)
{
    return narrow;
}

/* ---- what is possible ------------------------------------------------------------------------ */

/* Whether the table decides for a change. */
static bool changes(enum coverage_table table, uint32_t row, uint32_t column)
{
    struct slot_entry entry = {.state = (uint8_t)row};
    enum party_state party;
    enum job_state job;
    enum task_state task;
    enum phase phase = (enum phase)row;
    switch (table) {
    case COVERAGE_SLOT: return slot_entry_may_move(&entry, (enum slot_state)column);
    case COVERAGE_PARTY:
        return __real_party_next((enum party_state)row, (enum party_event)column, &party);
    case COVERAGE_JOB: return __real_job_next((enum job_state)row, (enum job_change)column, &job);
    case COVERAGE_PHASE: return __real_phase_move(&phase, (enum phase_step)column);
    case COVERAGE_TASK:
        return __real_task_next((enum task_state)row, (enum task_event)column, &task);
    case COVERAGE_SUB: return true;
    case COVERAGE_LEASE: return row == 1 || column != COVERAGE_REPLIED;
    case COVERAGE_REQUEST:
        return row > 0 || column == COVERAGE_DEADLINE || column == COVERAGE_UNSERVED ||
               column == COVERAGE_TAKEN_BACK || column == COVERAGE_OTHER;
    case COVERAGE_TABLES: break;
    }
    return false;
}

uint32_t coverage_possible(enum coverage_table table)
{
    uint32_t count = 0;
    for (uint32_t row = 0; row < tables[table].rows; row++)
        for (uint32_t column = 0; column < tables[table].columns; column++)
            count += changes(table, row, column);
    return count;
}

uint32_t coverage_met(enum coverage_table table)
{
    uint32_t count = 0;
    for (uint32_t row = 0; row < tables[table].rows; row++)
        for (uint32_t column = 0; column < tables[table].columns; column++)
            count += changes(table, row, column) && counts[table][row][column] > 0;
    return count;
}

/* ---- for people ------------------------------------------------------------------------------ */

void coverage_print_table(FILE *out, enum coverage_table index)
{
    const struct table *table = &tables[index];
    fprintf(out, "%s: %" PRIu32 " of %" PRIu32 " changes met\n  %-14s", table->name,
            coverage_met(index), coverage_possible(index), "");
    for (uint32_t column = 0; column < table->columns; column++)
        fprintf(out, "%12s", table->column_names[column]);
    for (uint32_t row = 0; row < table->rows; row++) {
        fprintf(out, "\n  %-14s", table->row_names[row]);
        for (uint32_t column = 0; column < table->columns; column++) {
            uint64_t count = counts[index][row][column];
            if (count == 0 && !changes(index, row, column))
                fprintf(out, "%12s", ".");
            else
                fprintf(out, "%12" PRIu64, count);
        }
    }
    fprintf(out, "\n");
}

static void print_messages(FILE *out, bool is_met)
{
    uint32_t count = 0;
    for (unsigned number = 1; number < MESSAGES; number++) {
        const char *name = number == BATCH_NUMBER ? "batch" : msg_name((enum msg_type)number);
        if (name == NULL || (parts[number] > 0) != is_met)
            continue;
        fprintf(out, "%s%s", count++ > 0 ? ", " : is_met ? "messages met: " : "never met: ", name);
        if (is_met)
            fprintf(out, " %" PRIu64, parts[number]);
    }
    fprintf(out, "%s", count > 0 ? "\n" : "");
}

void coverage_print(FILE *out)
{
    for (int table = 0; table < COVERAGE_TABLES; table++)
        coverage_print_table(out, (enum coverage_table)table);
    print_messages(out, true);
    print_messages(out, false);
    fprintf(out, "faults: ");
    for (uint32_t fault = 0; fault < FAULT_COUNT; fault++)
        fprintf(out, "%s %" PRIu64 ", ", climate_fault_name((enum fault)fault), faults[fault]);
    fprintf(out,
            "the broker killed %" PRIu64 ", replaced %" PRIu64 ", its journal compacted %" PRIu64
            "\n",
            crashes, replacements, compactions);
    fprintf(out, "values that passed through: %" PRIu64 "\n", passed);
    fprintf(out,
            "topics that their parties numbered: %" PRIu64 "; windows that grew above their floor: "
            "%" PRIu64 ", that fell below it: %" PRIu64 "\n",
            numbered, wide, narrow);
}
