/* SPDX-License-Identifier: MPL-2.0 */
/* names.c -- the word that stands for each value of a public enum: in JSON, on the command line
 * and, for some, on the wire. */
#include "libbus/api/names.h"

#include <stdbool.h>

#define UNKNOWN_NAME "unknown"

struct names {
    const char *const *words; /* NULL where a value has no word */
    unsigned count;
};
#define NAMES(list) ((struct names){.words = (list), .count = sizeof(list) / sizeof *(list)})

static const char *const states[] = {
    [BUS_STATE_UNKNOWN] = UNKNOWN_NAME,
    [BUS_STATE_FREE] = "free",
    [BUS_STATE_LINGERING] = "lingering",
    [BUS_STATE_GATHERING] = "gathering",
    [BUS_STATE_RUNNING] = "running",
    [BUS_STATE_SHORT] = "short",
    [BUS_STATE_FAILING] = "failing",
    [BUS_STATE_PAUSING] = "pausing",
    [BUS_STATE_COMPLETED] = "completed",
    [BUS_STATE_FAILED] = "failed",
    [BUS_STATE_CANCELLED] = "cancelled",
    [BUS_STATE_SCHEDULING] = "scheduling",
    [BUS_STATE_SUSPECT] = "suspect",
    [BUS_STATE_GRACE] = "grace",
    [BUS_STATE_LOST] = "lost",
    [BUS_STATE_LEFT] = "left",
    [BUS_STATE_TERMINATED] = "terminated",
    [BUS_STATE_LIVE] = "live",
    [BUS_STATE_KEPT] = "kept",
};
static const char *const durabilities[] = {
    [BUS_DURABILITY_MEMORY] = "memory",
    [BUS_DURABILITY_PROCESS] = "process",
    [BUS_DURABILITY_DISK] = "disk",
    [BUS_DURABILITY_SHARED] = "shared",
};
static const char *const disclosures[] = {
    [BUS_DISCLOSURE_FULL] = "full",
    [BUS_DISCLOSURE_MESSAGE] = "message",
    [BUS_DISCLOSURE_TYPE] = "type",
    [BUS_DISCLOSURE_NONE] = "none",
};
static const char *const pendings[] = {
    [BUS_PENDING_DELIVER] = "deliver",
    [BUS_PENDING_REPLACE] = "replace",
};
static const char *const deadlocks[] = {
    [BUS_DEADLOCK_TELL] = "tell",
    [BUS_DEADLOCK_FAIL] = "fail",
};
static const char *const strategies[] = {
    [BUS_STRATEGY_CAUSAL] = "causal",
    [BUS_STRATEGY_EARLIEST] = "earliest",
    [BUS_STRATEGY_FIRST] = "first",
    [BUS_STRATEGY_UNKNOWN] = UNKNOWN_NAME,
};
static const char *const journal_states[] = {
    [BUS_JOURNAL_WELL] = "well",          [BUS_JOURNAL_FULL] = "full",
    [BUS_JOURNAL_REFUSED] = "refused",    [BUS_JOURNAL_FAILED] = "failed",
    [BUS_JOURNAL_UNKNOWN] = UNKNOWN_NAME,
};
static const char *const report_states[] = {
    [BUS_REPORT_NONE] = "none",
    [BUS_REPORT_PROVISIONAL] = "provisional",
    [BUS_REPORT_FINAL] = "final",
};
static const char *const outlooks[] = {
    [BUS_OUTLOOK_UNKNOWN] = UNKNOWN_NAME,
    [BUS_OUTLOOK_GOES_ON] = "goes_on",
    [BUS_OUTLOOK_ENDED_WELL] = "ended_well",
    [BUS_OUTLOOK_FAILED] = "failed",
};
static const char *const report_roles[] = {
    [BUS_REPORT_ROOT] = "root",
    [BUS_REPORT_VICTIM] = "victim",
    [BUS_REPORT_APART] = "apart",
};
static const char *const report_reasons[] = {
    [BUS_REASON_NO_ROOT] = "no_root",    [BUS_REASON_ALONE] = "alone",
    [BUS_REASON_STAMP] = "stamp",        [BUS_REASON_STAMP_CLOSE] = "stamp_close",
    [BUS_REASON_STAMPED] = "stamped",    [BUS_REASON_SURER] = "surer",
    [BUS_REASON_NAMED] = "named",        [BUS_REASON_ARRIVED] = "arrived",
    [BUS_REASON_UNKNOWN] = UNKNOWN_NAME,
};
static const char *const attachment_states[] = {
    [BUS_ATTACHMENT_UNKNOWN] = UNKNOWN_NAME,
    [BUS_ATTACHMENT_COMING] = "coming",
    [BUS_ATTACHMENT_AWAY] = "away",
    [BUS_ATTACHMENT_WHOLE] = "whole",
    [BUS_ATTACHMENT_CUT] = "cut",
    [BUS_ATTACHMENT_FULL] = "full",
    [BUS_ATTACHMENT_DROPPED] = "dropped",
};

static const char *name_of(struct names names, int value)
{
    bool is_known = value >= 0 && (unsigned)value < names.count;
    return is_known && names.words[value] != NULL ? names.words[value] : UNKNOWN_NAME;
}

static int value_of(struct names names, struct span word, int unknown)
{
    for (unsigned value = 0; value < names.count; value++)
        if (names.words[value] != NULL && span_equal(span_text(names.words[value]), word))
            return (int)value;
    return unknown;
}

enum bus_state names_state(struct span word)
{
    return (enum bus_state)value_of(NAMES(states), word, BUS_STATE_UNKNOWN);
}

enum bus_report_reason names_reason(struct span word)
{
    return (enum bus_report_reason)value_of(NAMES(report_reasons), word, BUS_REASON_UNKNOWN);
}

enum bus_strategy names_strategy(struct span word)
{
    return (enum bus_strategy)value_of(NAMES(strategies), word, BUS_STRATEGY_UNKNOWN);
}

const char *bus_durability_name(enum bus_durability durability)
{
    return name_of(NAMES(durabilities), (int)durability);
}

const char *bus_disclosure_name(enum bus_disclosure disclosure)
{
    return name_of(NAMES(disclosures), (int)disclosure);
}

const char *bus_state_name(enum bus_state state)
{
    return name_of(NAMES(states), (int)state);
}

const char *bus_pending_name(enum bus_pending pending)
{
    return name_of(NAMES(pendings), (int)pending);
}

const char *bus_deadlock_name(enum bus_deadlock deadlock)
{
    return name_of(NAMES(deadlocks), (int)deadlock);
}

const char *bus_strategy_name(enum bus_strategy strategy)
{
    return name_of(NAMES(strategies), (int)strategy);
}

const char *bus_journal_state_name(enum bus_journal_state state)
{
    return name_of(NAMES(journal_states), (int)state);
}

const char *bus_report_state_name(enum bus_report_state state)
{
    return name_of(NAMES(report_states), (int)state);
}

const char *bus_outlook_name(enum bus_outlook outlook)
{
    return name_of(NAMES(outlooks), (int)outlook);
}

const char *bus_report_role_name(enum bus_report_role role)
{
    return name_of(NAMES(report_roles), (int)role);
}

const char *bus_report_reason_name(enum bus_report_reason reason)
{
    return name_of(NAMES(report_reasons), (int)reason);
}

const char *bus_attachment_state_name(enum bus_attachment_state state)
{
    return name_of(NAMES(attachment_states), (int)state);
}
