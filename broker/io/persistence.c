/* SPDX-License-Identifier: MPL-2.0 */
/* persistence.c -- between the port and the journal; see persistence.h. */
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

/* What the parts of each stage wait for. */
static const enum core_port_saying sayings[HELD_STAGE_COUNT] = {
    [HELD_OUTCOMES] = CORE_PORT_OUTCOME, [HELD_ANSWERS] = CORE_PORT_ANSWER};

void persistence_init(struct persistence *persistence, struct memory *memory)
{
    *persistence = (struct persistence){.durability = DURABILITY_MEMORY, .moved_from = UINT64_MAX};
    held_output_init(&persistence->output, memory);
}

static enum journal_pace pace_of(enum durability durability)
{
    if (durability == DURABILITY_SHARED)
        return JOURNAL_PACE_SHARED;
    return durability_syncs(durability) ? JOURNAL_PACE_SYNCED : JOURNAL_PACE_LAZY;
}

/* What came before this start counts, and what the last checkpoint made needless goes at once.
 * Else the journal of a broker that ends again and again grows, and each start takes longer. */
static void count_before(struct persistence *persistence)
{
    const struct journal_news *news = &persistence->news;
    persistence->given_bytes = journal_between(news->start, news->next);
    persistence->checkpoint_bytes = persistence->snapshot_bytes;
    persistence->has_to_trim = news->start > news->first;
    persistence->trim_ns = 0;
}

bool persistence_start(struct persistence *persistence, const char *where, struct journal **journal,
                       enum durability durability, struct core_port *port, char *complaint)
{
    uint64_t id = journal_id(*journal);
    persistence->scheme = journal_scheme(*journal);
    snprintf(persistence->place, sizeof persistence->place, "%s", journal_place(*journal));
    persistence->snapshot_bytes = core_port_snapshot_bytes(port);
    journal_set_aside(*journal, PERSISTENCE_ASIDE_TIMES * persistence->snapshot_bytes);
    persistence->is_answer_first =
        durability == DURABILITY_SHARED && journal_needs_keeping(*journal);
    const char *files = journal_files(*journal);
    if (journal_reader_open(files != NULL ? files : where, id, &persistence->reader, complaint) !=
        JOURNAL_OK)
        return false;
    /* What was found is told as kept from now on. */
    if (durability_syncs(durability) &&
        journal_sync(*journal, journal_next(*journal)) != JOURNAL_OK) {
        snprintf(complaint, JOURNAL_COMPLAINT_BYTES, "%s", journal_complaint(*journal));
        return false;
    }
    persistence->thread = journal_thread_open(journal, pace_of(durability));
    if (persistence->thread == NULL) {
        snprintf(complaint, JOURNAL_COMPLAINT_BYTES,
                 "out of memory or threads for the writer of the journal");
        return false;
    }
    persistence->durability = durability;
    persistence->news = journal_thread_news(persistence->thread);
    count_before(persistence);
    return true;
}

void persistence_fini(struct persistence *persistence)
{
    journal_thread_close(&persistence->thread);
    journal_reader_close(&persistence->reader);
    held_output_fini(&persistence->output);
}

static bool persistence_fetch(void *arg, uint64_t at, void *out_body, size_t bytes)
{
    struct persistence *persistence = arg;
    if (journal_reader_fetch(persistence->reader, at, out_body, bytes) == JOURNAL_OK)
        return true;
    log_line(LOG_WARNING, "journal: cannot read back a value that must be sent: %s",
             journal_reader_complaint(persistence->reader));
    return false;
}

/* A path may have bytes that are no text: each is shown as '?'. */
static struct span as_text(char *text)
{
    utf8_mend(text);
    return span_text(text);
}

static void describe(void *arg, struct msg_status_end *out)
{
    struct persistence *persistence = arg;
    const struct journal_news *news = &persistence->news;
    if (persistence->thread == NULL)
        return;
    if (news->state != JOURNAL_IS_WELL)
        snprintf(persistence->reason, sizeof persistence->reason, "%s",
                 persistence_complaint(persistence));
    else
        persistence->reason[0] = '\0';
    out->journal = span_text(persistence->scheme);
    out->journal_directory = as_text(persistence->place);
    out->journal_state = news->state;
    out->journal_reason = as_text(persistence->reason);
    out->journal_bytes = news->bytes;
    out->journal_first = news->first;
    out->journal_next = news->next;
    out->journal_synced = news->on_disk;
}

void persistence_tell(const struct persistence *persistence, struct metric_figures *out)
{
    static const enum metric_sample states[] = {
        [JOURNAL_IS_WELL] = SAMPLE_JOURNAL_WELL,
        [JOURNAL_IS_FULL] = SAMPLE_JOURNAL_FULL,
        [JOURNAL_IS_REFUSED] = SAMPLE_JOURNAL_REFUSED,
        [JOURNAL_IS_FAILED] = SAMPLE_JOURNAL_FAILED,
    };
    const struct journal_news *news = &persistence->news;
    if (persistence->thread == NULL)
        return;
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        out->samples[states[i]] = i == news->state;
    out->samples[SAMPLE_JOURNAL_BYTES] = news->bytes;
    out->samples[SAMPLE_JOURNAL_LAG] = news->next - news->on_disk;
    journal_thread_writes(persistence->thread, &out->journal_write);
}

void persistence_lend(struct persistence *persistence, struct core_port *port,
                      uint64_t memory_bytes)
{
    struct payload_store store = {
        .fetch = persistence_fetch, .arg = persistence, .memory_bytes = memory_bytes};
    struct core_port_journal journal = {.describe = describe, .arg = persistence};
    core_port_use_store(port, &store);
    core_port_use_journal(port, &journal);
}

/* Between two steps of the core: whatever they decided is in the journal with this. */
static void give(struct persistence *persistence, const struct core_port *port,
                 struct journal_step **step)
{
    (*step)->steps = core_port_steps(port);
    persistence->ticket = journal_thread_give(persistence->thread, step);
}

void persistence_give(struct persistence *persistence, struct core_port *port)
{
    if (persistence->thread == NULL)
        return;
    struct journal_step *step = core_port_step(port, SIZE_MAX);
    persistence->is_noted = step != NULL;
    persistence->at_steps = core_port_steps(port);
    if (step == NULL)
        return;
    persistence->given_bytes += step->bytes;
    persistence->noted_bytes += step->bytes - (step->payload != NULL ? step->payload->bytes : 0);
    failpoint_reach("decided");
    give(persistence, port, &step);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

bool persistence_is_growing(const struct persistence *persistence)
{
    return persistence->thread != NULL &&
           persistence->noted_bytes >= persistence->news.aside / PERSISTENCE_ASIDE_TIMES &&
           persistence->noted_bytes >= persistence->snapshot_bytes;
}

/* Whether so many bytes came behind the last checkpoint that another one may be due. */
static bool has_enough(const struct persistence *persistence, unsigned times)
{
    uint64_t enough = failpoint_number("CHECKPOINT_BYTES", PERSISTENCE_CHECKPOINT_BYTES);
    return persistence->given_bytes >= times * enough &&
           persistence->given_bytes >= PERSISTENCE_CHECKPOINT_TIMES * persistence->checkpoint_bytes;
}

static bool is_checkpoint_due(const struct persistence *persistence)
{
    return persistence_is_growing(persistence) ||
           has_enough(persistence, PERSISTENCE_HURRY_TIMES) ||
           (persistence->now_ns >= persistence->due_ns && has_enough(persistence, 1));
}

/* Whether the last checkpoint is in the log.  Until then no other one is made, because the disk may
 * be full with this one. */
static bool is_checkpoint_logged(const struct persistence *persistence)
{
    return persistence->news.logged >= persistence->checkpoint_ticket;
}

/* The bytes of a checkpoint, at most. */
static uint64_t bound_bytes(const struct persistence *persistence)
{
    return persistence->snapshot_bytes + persistence->noted_bytes;
}

/* On a full disk the oldest file is freed as a whole, with all files up to the next wanted payload.
 * To move the payloads of that file pays if they are few beside the bytes that are freed.  The size
 * of the file itself says nothing, for the first one may be small. */
static uint64_t movable_when_full(const struct persistence *persistence,
                                  const struct core_port *port)
{
    const struct journal_news *news = &persistence->news;
    uint64_t next;
    uint64_t bytes = core_port_bytes_below(port, news->first_end, &next);
    uint64_t until = next < news->next ? next : news->next;
    bool has_room = journal_thread_room(persistence->thread) >= bytes + bound_bytes(persistence);
    bool is_worth_it = bytes <= journal_between(news->first, until) / PAYLOAD_SPARSE;
    return bytes <= PERSISTENCE_MOVE_BYTES && has_room && is_worth_it ? news->first_end : 0;
}

uint64_t persistence_recent_bytes(uint64_t wanted_bytes)
{
    if (wanted_bytes >= PERSISTENCE_RECENT_MAX / PERSISTENCE_RECENT_TIMES)
        return PERSISTENCE_RECENT_MAX;
    uint64_t bytes = PERSISTENCE_RECENT_TIMES * wanted_bytes;
    return bytes > PERSISTENCE_RECENT_MIN ? bytes : PERSISTENCE_RECENT_MIN;
}

uint64_t persistence_movable_bytes(uint64_t aside)
{
    uint64_t part = aside / PERSISTENCE_VALUE_SHARES;
    return part < PERSISTENCE_MOVE_BYTES ? part : PERSISTENCE_MOVE_BYTES;
}

/* Wanted payloads below this position are written again before a checkpoint; 0: none. */
static uint64_t movable_below(const struct persistence *persistence, const struct core_port *port)
{
    uint64_t recent =
        failpoint_number("RECENT_BYTES", persistence_recent_bytes(core_port_payload_bytes(port)));
    if (persistence_is_full(persistence))
        return movable_when_full(persistence, port);
    if (persistence->news.state != JOURNAL_IS_WELL)
        return 0;
    return core_port_sparse_below(port, journal_back(persistence->news.next, recent),
                                  persistence_movable_bytes(persistence->news.aside));
}

/* Whether a full disk has room for so many checkpoints, and for a part of what is set aside beside
 * them.  A checkpoint without room to its end would leave no way out. */
static bool fits(const struct persistence *persistence, unsigned checkpoints, unsigned shares)
{
    uint64_t needed = checkpoints * bound_bytes(persistence) + persistence->news.aside / shares;
    return journal_thread_room(persistence->thread) >= needed;
}

/* Two checkpoints, because the first one may free little. */
static bool is_way_open(const struct persistence *persistence)
{
    return fits(persistence, 2, PERSISTENCE_WAY_OUT_SHARES);
}

/* Whether a checkpoint frees more than it takes. */
static bool pays(const struct persistence *persistence, uint64_t needed_from)
{
    const struct journal_news *news = &persistence->news;
    uint64_t until = needed_from < news->next ? needed_from : news->next;
    /* What is needed may begin within a file. */
    uint64_t file_bytes = journal_between(news->first, news->first_end);
    return journal_between(news->first, until) >= 2 * bound_bytes(persistence) + file_bytes;
}

/* Measures how many bytes a checkpoint would take. */
static void measure(struct persistence *persistence, struct core_port *port, int64_t now_ns)
{
    persistence->snapshot_bytes = core_port_snapshot_bytes(port);
    persistence->noted_bytes = 0;
    persistence->measured_steps = core_port_steps(port);
    persistence->measure_ns = now_ns + PERSISTENCE_MEASURE_MS * NS_PER_MS;
}

/* Released values make the next checkpoint smaller, and are not counted.  So a checkpoint that
 * would not fit is measured again after further steps.  Without one a full disk gets no room. */
static bool is_to_be_measured(const struct persistence *persistence, const struct core_port *port)
{
    return persistence_is_full(persistence) &&
           persistence->measured_steps != core_port_steps(port) && !is_way_open(persistence);
}

int64_t persistence_deadline_ns(const struct persistence *persistence, const struct core_port *port)
{
    if (is_to_be_measured(persistence, port))
        return persistence->measure_ns;
    int64_t trim_ns = persistence->has_to_trim ? persistence->trim_ns : INT64_MAX;
    bool waits = persistence->now_ns < persistence->due_ns && has_enough(persistence, 1);
    return waits && persistence->due_ns < trim_ns ? persistence->due_ns : trim_ns;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A replay from the newest checkpoint on needs no payload below this position.  The newest
 * checkpoint still names the old places of payloads that were moved behind it. */
static uint64_t wanted_from(const struct persistence *persistence, const struct core_port *port)
{
    return least(core_port_needed_from(port), persistence->moved_from);
}

/* Nothing below this position is needed: neither the newest checkpoint nor a wanted payload. */
static uint64_t needed_from(const struct persistence *persistence, const struct core_port *port)
{
    return least(persistence->news.start, wanted_from(persistence, port));
}

/* Whether a checkpoint would free the oldest file.  If the last one did not, another one is made
 * only when something has changed since, because each takes room that is set aside. */
static bool would_make_room(const struct persistence *persistence, const struct core_port *port)
{
    uint64_t end = persistence->news.first_end;
    if (end == UINT64_MAX || needed_from(persistence, port) >= end)
        return false; /* there is one file alone, or a trim frees it */
    uint64_t from = core_port_needed_from(port);
    return (end != persistence->first_end || from > persistence->needed_from) &&
           (from >= end || movable_below(persistence, port) > 0) &&
           fits(persistence, 1, 4 * PERSISTENCE_WAY_OUT_SHARES) &&
           (is_way_open(persistence) || pays(persistence, from));
}

/* A wanted value keeps its segment, and all segments behind it.  Where few values are wanted, they
 * are written again, so that the next trim frees those segments.  Here all payloads are looked at,
 * which takes long where there are many, and so it is done once for a checkpoint. */
static void choose_what_moves(struct persistence *persistence, const struct core_port *port)
{
    persistence->move_below = movable_below(persistence, port);
    persistence->move_from = core_port_needed_from(port);
    persistence->move_next = 0;
    persistence->part_at_bytes = persistence->given_bytes;
    persistence->is_chosen = true;
}

/* Writes those again until there are so many bytes. */
static void move_some(struct persistence *persistence, struct core_port *port, uint64_t bytes_max)
{
    uint64_t bytes = 0;
    while (bytes < bytes_max) {
        struct journal_step *step =
            core_port_move(port, &persistence->move_next, persistence->move_below);
        if (step == NULL)
            return;
        bytes += step->bytes;
        persistence->given_bytes += step->bytes;
        give(persistence, port, &step);
        persistence->move_ticket = persistence->ticket;
        persistence->moved_from = least(persistence->moved_from, persistence->move_from);
        failpoint_reach("move");
    }
}

/* Whether most of the way to the next checkpoint is gone. */
static bool is_checkpoint_near(const struct persistence *persistence)
{
    uint64_t enough = failpoint_number("CHECKPOINT_BYTES", PERSISTENCE_CHECKPOINT_BYTES);
    uint64_t of_last = PERSISTENCE_CHECKPOINT_TIMES * persistence->checkpoint_bytes;
    uint64_t due = enough > of_last ? enough : of_last;
    return persistence->given_bytes >= due - due / PERSISTENCE_MOVE_SHARES;
}

static void move_beside(struct persistence *persistence, struct core_port *port)
{
    if (persistence->news.state != JOURNAL_IS_WELL ||
        persistence->news.logged < persistence->move_ticket || !is_checkpoint_near(persistence) ||
        !is_checkpoint_logged(persistence))
        return;
    if (!persistence->is_chosen)
        choose_what_moves(persistence, port);
    uint64_t part =
        (persistence->given_bytes - persistence->part_at_bytes) / PERSISTENCE_MOVE_RATIO;
    move_some(persistence, port,
              part > PERSISTENCE_MOVE_PART_BYTES ? part : PERSISTENCE_MOVE_PART_BYTES);
    persistence->part_at_bytes = persistence->given_bytes;
}

/* All that is left.  On a full disk it is another choice. */
static void move_rest(struct persistence *persistence, struct core_port *port)
{
    if (!persistence->is_chosen || persistence_is_full(persistence))
        choose_what_moves(persistence, port);
    move_some(persistence, port, UINT64_MAX);
    persistence->is_moved = true;
}

/* On a full disk readers release files, too; no checkpoint is needed for that. */
static bool is_trim_due(const struct persistence *persistence, const struct core_port *port,
                        int64_t now_ns)
{
    if (!is_checkpoint_logged(persistence))
        return false;
    if (persistence->has_to_trim)
        return persistence->news.state != JOURNAL_IS_WELL || now_ns >= persistence->trim_ns ||
               persistence->given_bytes >= failpoint_number("TRIM_BYTES", PERSISTENCE_TRIM_BYTES);
    if (!persistence_is_full(persistence))
        return false;
    uint64_t from = needed_from(persistence, port);
    return from >= persistence->news.first_end && from > persistence->trimmed_below;
}

/* A payload that arrived at its readers since the checkpoint is not kept for the checkpoint's sake.
 * Facts behind the checkpoint say that it is not wanted, and they are in the log before this step.
 */
static void persistence_trim(struct persistence *persistence, struct core_port *port,
                             int64_t now_ns)
{
    if (persistence->has_to_trim && persistence->trim_ns == INT64_MAX &&
        is_checkpoint_logged(persistence))
        persistence->trim_ns = now_ns + PERSISTENCE_TRIM_MS * NS_PER_MS;
    if (!is_trim_due(persistence, port, now_ns))
        return;
    struct journal_step *step = journal_step_new(1, 0);
    if (step == NULL)
        return; /* tried again */
    journal_step_add(step, JOURNAL_THREAD_KIND_PROBE, SPAN_NONE);
    step->is_trim = true;
    step->needed_from = wanted_from(persistence, port);
    persistence->trimmed_below = needed_from(persistence, port);
    give(persistence, port, &step);
    persistence->has_to_trim = false;
    journal_reader_forget(persistence->reader, core_port_needed_from(port));
}

/* None is due while nothing can be written: it would only wait, and stop a trim from being given.
 */
static bool wants_checkpoint(const struct persistence *persistence, const struct core_port *port)
{
    switch (persistence->news.state) {
    case JOURNAL_IS_WELL: return is_checkpoint_due(persistence);
    case JOURNAL_IS_FULL: return would_make_room(persistence, port);
    case JOURNAL_IS_REFUSED:
    case JOURNAL_IS_FAILED: break;
    }
    return false;
}

void persistence_checkpoint(struct persistence *persistence, struct core_port *port)
{
    if (persistence->thread == NULL)
        return;
    if (!is_checkpoint_logged(persistence) || !wants_checkpoint(persistence, port)) {
        move_beside(persistence, port);
        return;
    }
    if (!core_port_is_logged(port))
        return;
    if (!persistence->is_moved)
        move_rest(persistence, port);
    if (!core_port_is_logged(port))
        return; /* and not before it is known where they are now */
    failpoint_reach("moved");
    persistence->is_moved = false;
    persistence->is_chosen = false;
    persistence->moved_from = UINT64_MAX;
    persistence->given_bytes = persistence->checkpoint_bytes = 0;
    int64_t rest_ms = (int64_t)failpoint_number("CHECKPOINT_MS", PERSISTENCE_CHECKPOINT_MS);
    persistence->due_ns = persistence->now_ns + rest_ms * NS_PER_MS;
    persistence->needed_from = core_port_needed_from(port);
    persistence->first_end = persistence_is_full(persistence) ? persistence->news.first_end : 0;
    failpoint_reach("checkpoint");
    core_port_snapshot(port);
    struct journal_step *step = core_port_step(port, CHECKPOINT_STEP_BYTES);
    unsigned how = JOURNAL_CHECKPOINT_BEGIN;
    while (step != NULL) {
        struct journal_step *next = core_port_step(port, CHECKPOINT_STEP_BYTES);
        step->records[step->count - 1].kind = JOURNAL_CODEC_SNAPSHOT;
        step->how = how | (next == NULL ? JOURNAL_CHECKPOINT_END : 0);
        step->is_trim = next == NULL && persistence_is_full(persistence);
        step->needed_from = persistence->needed_from;
        persistence->checkpoint_bytes += step->bytes;
        step->aside = PERSISTENCE_ASIDE_TIMES * persistence->checkpoint_bytes;
        give(persistence, port, &step);
        failpoint_reach("checkpointing");
        step = next;
        how = 0;
    }
    persistence->checkpoint_ticket = persistence->ticket;
    persistence->snapshot_bytes = persistence->checkpoint_bytes;
    persistence->noted_bytes = 0;
    persistence->measured_steps = core_port_steps(port);
    persistence->has_to_trim = !persistence_is_full(persistence);
    persistence->trimmed_below = persistence->has_to_trim ? 0 : persistence->needed_from;
    persistence->trim_ns = INT64_MAX;
    journal_reader_forget(persistence->reader, persistence->needed_from);
    struct core_port_out out;
    bool is_more = core_port_out(port, &out);
    must(!is_more); /* there is nothing to say about it */
}

static bool waits_for_disk(const struct persistence *persistence, enum held_output_stage stage)
{
    return durability_wait(persistence->durability, sayings[stage]) == WAIT_FOR_DISK;
}

static uint64_t reached(const struct persistence *persistence, enum held_output_stage stage)
{
    return waits_for_disk(persistence, stage) ? persistence->news.synced : persistence->news.logged;
}

/* The journal gets a record without content, so that it is synced once more.  On a full disk it is
 * not: what is set aside there is for more important things. */
static void ask_for_sync(struct persistence *persistence)
{
    struct journal_step *step =
        persistence->news.state == JOURNAL_IS_WELL ? journal_step_new(1, 0) : NULL;
    if (step == NULL)
        return;
    journal_step_add(step, JOURNAL_THREAD_KIND_PROBE, SPAN_NONE);
    step->steps = persistence->at_steps;
    persistence->ticket = journal_thread_give(persistence->thread, &step);
    persistence->is_noted = true;
    persistence->given_bytes +=
        JOURNAL_THREAD_PROBE_BYTES; /* many of them are worth a checkpoint, too */
}

bool persistence_holds(struct persistence *persistence, struct core_port_out *out)
{
    enum held_output_stage stage = out->saying == CORE_PORT_OUTCOME ? HELD_OUTCOMES : HELD_ANSWERS;
    enum durability_wait wait = durability_wait(persistence->durability, out->saying);
    if (wait == WAIT_FOR_NOTHING || (out->kind != CORE_PORT_CONTROL && out->kind != CORE_PORT_DATA))
        return false;
    if (wait == WAIT_FOR_NEXT_SYNC && !persistence->is_noted)
        ask_for_sync(persistence);
    bool is_kept = out->is_kept || reached(persistence, stage) >= persistence->ticket;
    if (is_kept && held_output_is_empty(&persistence->output, stage))
        return false;
    struct held held = {.ticket = persistence->ticket,
                        .conn = out->conn,
                        .lane = out->kind == CORE_PORT_DATA ? MSG_LANE_DATA : MSG_LANE_CONTROL,
                        .error_ns = out->error_ns,
                        .part = out->part};
    memcpy(held.head, out->head, sizeof held.head);
    held_output_push(&persistence->output, stage, &held);
    out->part = NULL;
    return true;
}

/* What may go together goes one after the other, and each part wakes a thread that may take the
 * processor from this one for some 30 us.  A value is to be quick, so it goes first.  Where both
 * waited for a commit on other machines, that is little beside it.  There the answer goes first: a
 * writer that flushes waits for it alone, and writes on when it has it. */
bool persistence_next(struct persistence *persistence, struct held *out_held)
{
    for (int i = 0; i < HELD_STAGE_COUNT; i++) {
        int stage = persistence->is_answer_first ? HELD_STAGE_COUNT - 1 - i : i;
        if (held_output_pop(&persistence->output, (enum held_output_stage)stage,
                            reached(persistence, (enum held_output_stage)stage), out_held))
            return true;
    }
    return false;
}

/* Tells the core of how many steps all is kept. */
static void tell_kept(struct persistence *persistence, struct core_port *port)
{
    const struct journal_news *news = &persistence->news;
    bool is_on_disk = waits_for_disk(persistence, HELD_ANSWERS);
    uint64_t steps = is_on_disk ? news->synced_steps : news->logged_steps;
    if (reached(persistence, HELD_ANSWERS) >= persistence->ticket)
        steps = core_port_steps(port); /* those that decided nothing since, too */
    if (steps > persistence->kept_steps)
        persistence->kept_steps = steps;
    core_port_kept(port, persistence->kept_steps);
}

void persistence_hear(struct persistence *persistence, struct core_port *port, int64_t now_ns)
{
    if (persistence->thread == NULL)
        return;
    persistence->now_ns = now_ns;
    bool was_full = persistence_is_full(persistence);
    persistence->news = journal_thread_news(persistence->thread);
    bool is_time = is_to_be_measured(persistence, port) && now_ns >= persistence->measure_ns;
    if (persistence_is_full(persistence) && (!was_full || is_time))
        measure(persistence, port, now_ns);
    persistence_trim(persistence, port, now_ns);
    tell_kept(persistence, port);
    struct journal_step *step;
    uint64_t kept = reached(persistence, HELD_OUTCOMES);
    while ((step = journal_thread_logged(persistence->thread, kept)) != NULL) {
        core_port_logged(port, step->key, step->payload_at);
        journal_step_free(&step);
    }
}

/* Bytes that were given and are not in the log yet, without those of a checkpoint. */
static uint64_t waiting_bytes(const struct persistence *persistence)
{
    uint64_t waiting = journal_thread_waiting_bytes(persistence->thread);
    uint64_t checkpoint = is_checkpoint_logged(persistence) ? 0 : persistence->checkpoint_bytes;
    return waiting > checkpoint ? waiting - checkpoint : 0;
}

bool persistence_has_room(const struct persistence *persistence)
{
    return persistence->thread == NULL ||
           (persistence->news.state == JOURNAL_IS_WELL && !is_checkpoint_due(persistence) &&
            journal_thread_has_room(persistence->thread) &&
            waiting_bytes(persistence) < persistence->news.aside / PERSISTENCE_VALUE_SHARES);
}

bool persistence_is_full(const struct persistence *persistence)
{
    return persistence->thread != NULL && persistence->news.state == JOURNAL_IS_FULL;
}

/* Whether more is under way than would find room in what is set aside if the disk were full by now.
 */
static bool is_ahead(const struct persistence *persistence)
{
    uint64_t aside = persistence->news.aside;
    return waiting_bytes(persistence) >=
           aside / PERSISTENCE_VALUE_SHARES + aside / PERSISTENCE_FACT_SHARES;
}

bool persistence_is_short(const struct persistence *persistence)
{
    if (persistence->thread == NULL)
        return false;
    return is_ahead(persistence) ||
           (persistence->news.state != JOURNAL_IS_WELL && !is_way_open(persistence));
}

bool persistence_has_changed(struct persistence *persistence)
{
    bool has_changed = persistence->told != persistence->news.state;
    persistence->told = persistence->news.state;
    return has_changed;
}

enum journal_state persistence_state(const struct persistence *persistence)
{
    return persistence->news.state;
}

const char *persistence_complaint(const struct persistence *persistence)
{
    return journal_thread_complaint(persistence->thread);
}

const char *persistence_sentence(struct persistence *persistence)
{
    static const char *const meanings[] = {
        [JOURNAL_IS_WELL] = "it can be written again: values are accepted again",
        [JOURNAL_IS_FULL] = "no values are accepted until the disk has room",
        [JOURNAL_IS_REFUSED] = "nothing is accepted until the journal can be written",
        [JOURNAL_IS_FAILED] = "the journal cannot be written any more",
    };
    enum journal_state state = persistence->news.state;
    bool is_well = state == JOURNAL_IS_WELL;
    snprintf(persistence->sentence, sizeof persistence->sentence, "%s%s%s", meanings[state],
             is_well ? "" : ": ", is_well ? "" : persistence_complaint(persistence));
    (void)as_text(persistence->sentence); /* in place */
    return persistence->sentence;
}

bool persistence_is_quiet(const struct persistence *persistence)
{
    return held_output_is_empty(&persistence->output, HELD_OUTCOMES) &&
           held_output_is_empty(&persistence->output, HELD_ANSWERS);
}

bool persistence_is_mute(const struct persistence *persistence, int64_t now_ns)
{
    return persistence->thread != NULL &&
           persistence_is_too_late(journal_thread_kept_ns(persistence->thread), now_ns);
}

void persistence_away(const struct persistence *persistence, char *out)
{
    journal_thread_away(persistence->thread, out);
    (void)as_text(out); /* in place */
}

int persistence_fd(const struct persistence *persistence)
{
    return persistence->thread != NULL ? journal_thread_fd(persistence->thread) : -1;
}

bool persistence_report(struct persistence *persistence, struct core_port *port,
                        struct clock *clock)
{
    static const enum journal_health healths[] = {
        [JOURNAL_IS_WELL] = HEALTH_WELL,
        [JOURNAL_IS_FULL] = HEALTH_FULL,
        [JOURNAL_IS_REFUSED] = HEALTH_REFUSED,
    };
    if (!persistence_has_changed(persistence))
        return false;
    enum journal_state state = persistence_state(persistence);
    const char *sentence = persistence_sentence(persistence);
    log_line(LOG_WARNING, "journal: %s", sentence);
    if (state == JOURNAL_IS_FAILED)
        return false;
    core_port_journal(port, clock_now(clock), healths[state], sentence);
    return true;
}

void persistence_report_end(struct persistence *persistence)
{
    if (persistence_state(persistence) == JOURNAL_IS_FAILED && persistence_has_changed(persistence))
        log_line(LOG_WARNING, "journal: %s", persistence_sentence(persistence));
}
