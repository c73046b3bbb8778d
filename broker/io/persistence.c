/* SPDX-License-Identifier: MPL-2.0 */
/* persistence.c -- between the gate and the journal; see persistence.h. */
#include "broker/io/persistence.h"

#include "broker/io/failpoint.h"
#include "broker/io/journal_codec.h"
#include "broker/io/log.h"
#include "libbus/base/limits.h"
#include "libbus/base/must.h"
#include "libbus/base/utf8.h"

#include <stdio.h>
#include <string.h>

#define NS_PER_MS INT64_C(1000000)

/* A checkpoint is written in steps of this size. */
#define CHECKPOINT_STEP_BYTES ((size_t)4 * 1024 * 1024)

/* Where a part of each kind waits; HOLD_STAGE_COUNT: nowhere. */
static const uint8_t stages[GATE_SAYING_COUNT] = {
    [GATE_NEWS] = HOLD_STAGE_COUNT, [GATE_OUTCOME] = HOLD_OUTCOMES, [GATE_ANSWER] = HOLD_ANSWERS};

void keeper_init(struct keeper *keeper, struct memory *memory)
{
    *keeper = (struct keeper){.durability = DURABILITY_MEMORY, .moved_from = UINT64_MAX};
    hold_init(&keeper->hold, memory);
}

bool keeper_start(struct keeper *keeper, const char *where, struct journal **journal,
                  enum durability durability, struct gate *gate, char *complaint)
{
    uint64_t id = journal_id(*journal);
    keeper->snapshot_bytes = gate_snapshot_bytes(gate);
    journal_set_aside(*journal, KEEPER_ASIDE_TIMES * keeper->snapshot_bytes);
    if (journal_reader_open(where, id, &keeper->reader, complaint) != JOURNAL_OK)
        return false;
    keeper->scribe = scribe_open(journal, durability == DURABILITY_DISK);
    if (keeper->scribe == NULL) {
        snprintf(complaint, JOURNAL_COMPLAINT_BYTES,
                 "no memory or thread for the writer of the journal");
        return false;
    }
    keeper->durability = durability;
    snprintf(keeper->where, sizeof keeper->where, "%s", where);
    keeper->news = scribe_news(keeper->scribe);
    return true;
}

void keeper_fini(struct keeper *keeper)
{
    scribe_close(&keeper->scribe);
    journal_reader_close(&keeper->reader);
    hold_fini(&keeper->hold);
}

static bool fetch(void *arg, uint64_t at, void *out_body, size_t bytes)
{
    struct keeper *keeper = arg;
    if (journal_reader_fetch(keeper->reader, at, out_body, bytes) == JOURNAL_OK)
        return true;
    log_line(LOG_WARNING, "journal: cannot read back a value that must be sent: %s",
             journal_reader_complaint(keeper->reader));
    return false;
}

/* A path may be no text: what is not is shown as '?'. */
static struct span as_text(char *text)
{
    if (!utf8_is_valid(span_text(text)))
        for (char *at = text; *at != '\0'; at++)
            if ((unsigned char)*at > 0x7f)
                *at = '?';
    return span_text(text);
}

static void describe(void *arg, struct msg_status_end *out)
{
    struct keeper *keeper = arg;
    const struct scribe_news *news = &keeper->news;
    if (keeper->scribe == NULL)
        return;
    if (news->state != SCRIBE_WELL)
        snprintf(keeper->reason, sizeof keeper->reason, "%s", keeper_complaint(keeper));
    else
        keeper->reason[0] = '\0';
    out->journal = span_text("embedded");
    out->journal_directory = as_text(keeper->where);
    out->journal_state = news->state;
    out->journal_reason = as_text(keeper->reason);
    out->journal_bytes = news->bytes;
    out->journal_first = news->first;
    out->journal_next = news->next;
    out->journal_synced = news->on_disk;
}

void keeper_lend(struct keeper *keeper, struct gate *gate, uint64_t memory_bytes)
{
    struct payload_store store = {.fetch = fetch, .arg = keeper, .memory_bytes = memory_bytes};
    struct gate_journal journal = {.describe = describe, .arg = keeper};
    gate_use_store(gate, &store);
    gate_use_journal(gate, &journal);
}

void keeper_give(struct keeper *keeper, struct gate *gate)
{
    if (keeper->scribe == NULL)
        return;
    struct scribe_step *step = gate_step(gate, SIZE_MAX);
    if (step == NULL)
        return;
    keeper->given_bytes += step->bytes;
    keeper->noted_bytes += step->bytes - (step->payload != NULL ? step->payload->bytes : 0);
    failpoint_reach("decided");
    keeper->ticket = scribe_give(keeper->scribe, &step);
    if (keeper->mark_ticket == 0) {
        keeper->mark_ticket = keeper->ticket;
        keeper->mark_steps = gate_steps(gate);
    }
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

bool keeper_is_growing(const struct keeper *keeper)
{
    return keeper->scribe != NULL &&
           keeper->noted_bytes >= keeper->news.aside / KEEPER_ASIDE_TIMES &&
           keeper->noted_bytes >= keeper->snapshot_bytes;
}

/* Whether enough came behind the last checkpoint that the next one is due at its time. */
static bool has_enough(const struct keeper *keeper, unsigned times)
{
    uint64_t enough = failpoint_number("CHECKPOINT_BYTES", KEEPER_CHECKPOINT_BYTES);
    return keeper->given_bytes >= times * enough &&
           keeper->given_bytes >= KEEPER_CHECKPOINT_TIMES * keeper->checkpoint_bytes;
}

static bool is_checkpoint_due(const struct keeper *keeper)
{
    return keeper_is_growing(keeper) || has_enough(keeper, KEEPER_HURRY_TIMES) ||
           (keeper->now_ns >= keeper->due_ns && has_enough(keeper, 1));
}

/* Whether the last checkpoint is in the log.  Until then nobody knows what it took: the disk may
 * have become full with it, and no other is made. */
static bool is_checkpoint_logged(const struct keeper *keeper)
{
    return keeper->news.logged >= keeper->checkpoint_ticket;
}

/* Up to where what is wanted is written anew before a checkpoint; 0: it stays where it is.  On a
 * full disk the oldest file alone counts: all of it, or it is not worth the room. */
static uint64_t movable_below(const struct keeper *keeper, const struct gate *gate)
{
    uint64_t next = keeper->news.next;
    uint64_t recent = failpoint_number("RECENT_BYTES", KEEPER_RECENT_BYTES);
    uint64_t end = next > recent ? next - recent : 0;
    bool is_full = keeper_is_full(keeper);
    if (is_full)
        end = keeper->news.first_end;
    else if (keeper->news.state != SCRIBE_WELL)
        return 0;
    uint64_t below = gate_sparse_below(gate, end, KEEPER_MOVE_BYTES);
    return is_full && below < end ? 0 : below;
}

/* Of a checkpoint, at most. */
static uint64_t bound_bytes(const struct keeper *keeper)
{
    return keeper->snapshot_bytes + keeper->noted_bytes;
}

/* Whether so many checkpoints find room on a full disk, and a part of what was set aside is left
 * then: one that is begun and does not get to its end would be the end of all. */
static bool fits(const struct keeper *keeper, unsigned checkpoints, unsigned shares)
{
    uint64_t needed = checkpoints * bound_bytes(keeper) + keeper->news.aside / shares;
    return scribe_room(keeper->scribe) >= needed;
}

/* Two of them, so that one that lets little go is not the last. */
static bool is_way_open(const struct keeper *keeper)
{
    return fits(keeper, 2, KEEPER_WAY_OUT_SHARES);
}

/* Whether what goes with a checkpoint is more than it takes. */
static bool pays(const struct keeper *keeper, uint64_t needed_from)
{
    const struct scribe_news *news = &keeper->news;
    uint64_t until = needed_from < news->next ? needed_from : news->next;
    uint64_t file_bytes = news->first_end - news->first; /* what is needed may begin within one */
    return until - news->first >= 2 * bound_bytes(keeper) + file_bytes;
}

/* What a checkpoint would take, by making one for nobody. */
static void measure(struct keeper *keeper, struct gate *gate, int64_t now_ns)
{
    keeper->snapshot_bytes = gate_snapshot_bytes(gate);
    keeper->noted_bytes = 0;
    keeper->measured_steps = gate_steps(gate);
    keeper->measure_ns = now_ns + KEEPER_MEASURE_MS * NS_PER_MS;
}

/* What is let go between makes a checkpoint smaller, and is not counted.  So one that would not fit
 * is measured again once something has happened: nothing else can become of a full disk. */
static bool is_to_be_measured(const struct keeper *keeper, const struct gate *gate)
{
    return keeper_is_full(keeper) && keeper->measured_steps != gate_steps(gate) &&
           !is_way_open(keeper);
}

int64_t keeper_deadline_ns(const struct keeper *keeper, const struct gate *gate)
{
    if (is_to_be_measured(keeper, gate))
        return keeper->measure_ns;
    int64_t trim_ns = keeper->has_to_trim ? keeper->trim_ns : INT64_MAX;
    bool waits = keeper->now_ns < keeper->due_ns && has_enough(keeper, 1);
    return waits && keeper->due_ns < trim_ns ? keeper->due_ns : trim_ns;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What a replay from the newest checkpoint on wants of payloads stands from here on: where one is
 * that was moved since then, the next one tells alone. */
static uint64_t wanted_from(const struct keeper *keeper, const struct gate *gate)
{
    return least(gate_needed_from(gate), keeper->moved_from);
}

/* Below this nothing is needed: what the newest checkpoint tells, and payloads that are wanted,
 * stand behind it. */
static uint64_t needed_from(const struct keeper *keeper, const struct gate *gate)
{
    return least(keeper->news.start, wanted_from(keeper, gate));
}

/* Whether a checkpoint would let the oldest file go.  Where one did not, though it should have, the
 * next is made only when that has changed: each takes of the room that is set aside. */
static bool would_make_room(const struct keeper *keeper, const struct gate *gate)
{
    uint64_t end = keeper->news.first_end;
    if (end == UINT64_MAX || needed_from(keeper, gate) >= end)
        return false; /* one file alone, or a trim lets it go */
    uint64_t from = gate_needed_from(gate);
    return (end != keeper->first_end || from > keeper->needed_from) &&
           (from >= end || movable_below(keeper, gate) > 0) &&
           fits(keeper, 1, 4 * KEEPER_WAY_OUT_SHARES) &&
           (is_way_open(keeper) || pays(keeper, from));
}

/* A value that is wanted holds its segment, and all behind it.  Where few are, they are written
 * anew, so that the next trim takes what lies around them. */
static void move_sparse(struct keeper *keeper, struct gate *gate)
{
    uint32_t at = 0;
    uint64_t below = movable_below(keeper, gate);
    uint64_t from = gate_needed_from(gate);
    struct scribe_step *step;
    while ((step = gate_move(gate, &at, below)) != NULL) {
        keeper->given_bytes += step->bytes;
        keeper->ticket = scribe_give(keeper->scribe, &step);
        keeper->moved_from = least(keeper->moved_from, from);
        failpoint_reach("move");
    }
    keeper->is_moved = true;
}

/* On a full disk readers let files go, too, that no checkpoint had to let go. */
static bool is_trim_due(const struct keeper *keeper, const struct gate *gate, int64_t now_ns)
{
    if (!is_checkpoint_logged(keeper))
        return false;
    if (keeper->has_to_trim)
        return keeper->news.state != SCRIBE_WELL || now_ns >= keeper->trim_ns ||
               keeper->given_bytes >= failpoint_number("TRIM_BYTES", KEEPER_TRIM_BYTES);
    if (!keeper_is_full(keeper))
        return false;
    uint64_t from = needed_from(keeper, gate);
    return from >= keeper->news.first_end && from > keeper->trimmed_below;
}

/* Payloads that arrived since the checkpoint was made are not held for it: what it says of them is
 * overruled by facts behind it, which are in the log before this step. */
static void trim(struct keeper *keeper, struct gate *gate, int64_t now_ns)
{
    if (keeper->has_to_trim && keeper->trim_ns == INT64_MAX && is_checkpoint_logged(keeper))
        keeper->trim_ns = now_ns + KEEPER_TRIM_MS * NS_PER_MS;
    if (!is_trim_due(keeper, gate, now_ns))
        return;
    struct scribe_step *step = scribe_step_new(1, 0);
    if (step == NULL)
        return; /* tried again */
    scribe_step_add(step, SCRIBE_KIND_PROBE, SPAN_NONE);
    step->is_trim = true;
    step->needed_from = wanted_from(keeper, gate);
    keeper->trimmed_below = needed_from(keeper, gate);
    keeper->ticket = scribe_give(keeper->scribe, &step);
    keeper->has_to_trim = false;
    journal_reader_forget(keeper->reader, gate_needed_from(gate));
}

/* None is due where nothing can be written: it would only wait, and be in the way of a trim. */
static bool wants_checkpoint(const struct keeper *keeper, const struct gate *gate)
{
    switch (keeper->news.state) {
    case SCRIBE_WELL: return is_checkpoint_due(keeper);
    case SCRIBE_FULL: return would_make_room(keeper, gate);
    default: return false;
    }
}

void keeper_checkpoint(struct keeper *keeper, struct gate *gate)
{
    if (keeper->scribe == NULL || !gate_is_logged(gate) || !is_checkpoint_logged(keeper) ||
        !wants_checkpoint(keeper, gate))
        return;
    if (!keeper->is_moved)
        move_sparse(keeper, gate);
    if (!gate_is_logged(gate))
        return; /* and not before it is known where they are now */
    failpoint_reach("moved");
    keeper->is_moved = false;
    keeper->moved_from = UINT64_MAX;
    keeper->given_bytes = keeper->checkpoint_bytes = 0;
    int64_t rest_ms = (int64_t)failpoint_number("CHECKPOINT_MS", KEEPER_CHECKPOINT_MS);
    keeper->due_ns = keeper->now_ns + rest_ms * NS_PER_MS;
    keeper->needed_from = gate_needed_from(gate);
    keeper->first_end = keeper_is_full(keeper) ? keeper->news.first_end : 0;
    failpoint_reach("checkpoint");
    gate_snapshot(gate);
    struct scribe_step *step = gate_step(gate, CHECKPOINT_STEP_BYTES);
    unsigned how = JOURNAL_CHECKPOINT_BEGIN;
    while (step != NULL) {
        struct scribe_step *next = gate_step(gate, CHECKPOINT_STEP_BYTES);
        step->records[step->count - 1].kind = LEDGER_SNAPSHOT;
        step->how = how | (next == NULL ? JOURNAL_CHECKPOINT_END : 0);
        step->is_trim = next == NULL && keeper_is_full(keeper);
        step->needed_from = keeper->needed_from;
        keeper->checkpoint_bytes += step->bytes;
        step->aside = KEEPER_ASIDE_TIMES * keeper->checkpoint_bytes;
        keeper->ticket = scribe_give(keeper->scribe, &step);
        failpoint_reach("checkpointing");
        step = next;
        how = 0;
    }
    keeper->checkpoint_ticket = keeper->ticket;
    keeper->snapshot_bytes = keeper->checkpoint_bytes;
    keeper->noted_bytes = 0;
    keeper->measured_steps = gate_steps(gate);
    keeper->has_to_trim = !keeper_is_full(keeper);
    keeper->trimmed_below = keeper->has_to_trim ? 0 : keeper->needed_from;
    keeper->trim_ns = INT64_MAX;
    journal_reader_forget(keeper->reader, keeper->needed_from);
    struct gate_out out;
    bool is_more = gate_out(gate, &out);
    must(!is_more); /* there is nothing to say about it */
}

static uint64_t reached(const struct keeper *keeper, enum hold_stage stage)
{
    bool is_on_disk = stage == HOLD_ANSWERS && keeper->durability == DURABILITY_DISK;
    return is_on_disk ? keeper->news.synced : keeper->news.logged;
}

bool keeper_holds(struct keeper *keeper, struct gate_out *out)
{
    uint8_t stage = stages[out->saying];
    if (stage == HOLD_STAGE_COUNT || (out->kind != GATE_CONTROL && out->kind != GATE_DATA))
        return false;
    bool is_kept = out->is_kept || reached(keeper, (enum hold_stage)stage) >= keeper->ticket;
    if (is_kept && hold_is_empty(&keeper->hold, (enum hold_stage)stage))
        return false;
    struct held held = {.ticket = keeper->ticket,
                        .conn = out->conn,
                        .lane = out->kind == GATE_DATA ? MSG_LANE_DATA : MSG_LANE_CONTROL,
                        .part = out->part};
    memcpy(held.head, out->head, sizeof held.head);
    hold_push(&keeper->hold, (enum hold_stage)stage, &held);
    out->part = NULL;
    return true;
}

bool keeper_next(struct keeper *keeper, struct held *out_held)
{
    for (int stage = 0; stage < HOLD_STAGE_COUNT; stage++)
        if (hold_pop(&keeper->hold, (enum hold_stage)stage, reached(keeper, (enum hold_stage)stage),
                     out_held))
            return true;
    return false;
}

/* The core learns up to which step all is kept.  One mark at a time: the next is set when this one
 * is reached, so it learns a little late, and never too much. */
static void tell_kept(struct keeper *keeper, struct gate *gate)
{
    uint64_t kept = reached(keeper, HOLD_ANSWERS);
    bool is_all = kept >= keeper->ticket; /* and steps that decided nothing since */
    if (!is_all && (keeper->mark_ticket == 0 || kept < keeper->mark_ticket))
        return;
    gate_kept(gate, is_all ? gate_steps(gate) : keeper->mark_steps);
    keeper->mark_ticket = is_all ? 0 : keeper->ticket;
    keeper->mark_steps = gate_steps(gate);
}

void keeper_hear(struct keeper *keeper, struct gate *gate, int64_t now_ns)
{
    if (keeper->scribe == NULL)
        return;
    keeper->now_ns = now_ns;
    bool was_full = keeper_is_full(keeper);
    keeper->news = scribe_news(keeper->scribe);
    bool is_time = is_to_be_measured(keeper, gate) && now_ns >= keeper->measure_ns;
    if (keeper_is_full(keeper) && (!was_full || is_time))
        measure(keeper, gate, now_ns);
    trim(keeper, gate, now_ns);
    tell_kept(keeper, gate);
    struct scribe_step *step;
    while ((step = scribe_logged(keeper->scribe)) != NULL) {
        gate_logged(gate, step->key, step->payload_at);
        scribe_step_free(&step);
    }
}

/* What was given and is not in the log, but for a checkpoint. */
static uint64_t waiting_bytes(const struct keeper *keeper)
{
    uint64_t waiting = scribe_waiting_bytes(keeper->scribe);
    uint64_t checkpoint = is_checkpoint_logged(keeper) ? 0 : keeper->checkpoint_bytes;
    return waiting > checkpoint ? waiting - checkpoint : 0;
}

bool keeper_has_room(const struct keeper *keeper)
{
    return keeper->scribe == NULL ||
           (keeper->news.state == SCRIBE_WELL && !is_checkpoint_due(keeper) &&
            scribe_has_room(keeper->scribe) &&
            waiting_bytes(keeper) < keeper->news.aside / KEEPER_VALUE_SHARES);
}

bool keeper_is_full(const struct keeper *keeper)
{
    return keeper->scribe != NULL && keeper->news.state == SCRIBE_FULL;
}

/* What is under way to a disk that was well finds its place in what is set aside if that disk is
 * full by now: a checkpoint, values, and this much of all else. */
static bool is_ahead(const struct keeper *keeper)
{
    uint64_t aside = keeper->news.aside;
    return waiting_bytes(keeper) >= aside / KEEPER_VALUE_SHARES + aside / KEEPER_FACT_SHARES;
}

bool keeper_is_short(const struct keeper *keeper)
{
    if (keeper->scribe == NULL)
        return false;
    return is_ahead(keeper) || (keeper->news.state != SCRIBE_WELL && !is_way_open(keeper));
}

bool keeper_has_changed(struct keeper *keeper)
{
    bool has_changed = keeper->told != keeper->news.state;
    keeper->told = keeper->news.state;
    return has_changed;
}

enum scribe_state keeper_state(const struct keeper *keeper)
{
    return keeper->news.state;
}

const char *keeper_complaint(const struct keeper *keeper)
{
    return scribe_complaint(keeper->scribe);
}

const char *keeper_sentence(struct keeper *keeper)
{
    static const char *const meanings[] = {
        [SCRIBE_WELL] = "it can be written again: values are accepted again",
        [SCRIBE_FULL] = "no values are accepted until the disk has room",
        [SCRIBE_REFUSED] = "nothing is accepted until the journal can be written",
        [SCRIBE_FAILED] = "the journal cannot be written any more",
    };
    enum scribe_state state = keeper->news.state;
    bool is_well = state == SCRIBE_WELL;
    snprintf(keeper->sentence, sizeof keeper->sentence, "%s%s%s", meanings[state],
             is_well ? "" : ": ", is_well ? "" : keeper_complaint(keeper));
    (void)as_text(keeper->sentence); /* in place */
    return keeper->sentence;
}

bool keeper_is_quiet(const struct keeper *keeper)
{
    return hold_is_empty(&keeper->hold, HOLD_OUTCOMES) &&
           hold_is_empty(&keeper->hold, HOLD_ANSWERS);
}

int keeper_fd(const struct keeper *keeper)
{
    return keeper->scribe != NULL ? scribe_fd(keeper->scribe) : -1;
}
