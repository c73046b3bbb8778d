/* SPDX-License-Identifier: MPL-2.0 */
/* late_look.c -- see late_look.h.
 *
 * A timer that fires late by more than LATE_LOOK_NS gets a second look.  One that is due later than
 * that may be judged at once: the core cannot know how long it did not read.  A second look that is
 * late itself is not put off again.  Both are left out here. */
#include "tests/sim/late_look.h"

#include "broker/core/model.h"
#include "broker/core/record/failure.h"
#include "broker/core/streams/number.h"
#include "broker/core/tables/slot_table.h"
#include "libbus/wire/frame.h"

#include <inttypes.h>
#include <stdio.h>

static struct late_look *under_way; /* the look; NULL: what came is read */

void late_look_begin(struct late_look *look, const struct core *core, int64_t now_ns)
{
    *look = (struct late_look){.now_ns = now_ns - core->away_ns};
    under_way = look;
}

void late_look_end(void)
{
    under_way = NULL;
}

/* Whether the timer, which fires now, is looked at a second time, or fires later. */
static bool is_put_off(const struct late_look *look, const struct timer *timer,
                       bool is_looked_again)
{
    int64_t late_ns = look->now_ns - timer->due_ns;
    return timer->place == 0 || late_ns < 0 || (late_ns > LATE_LOOK_NS && !is_looked_again);
}

static bool was_heard(const struct late_look *look, const struct party *party)
{
    for (uint32_t i = 0; i < look->session_count; i++)
        if (look->sessions[i].party == party->id &&
            look->sessions[i].incarnation == party->incarnation)
            return true;
    return false;
}

/* In the place of what ends leases (tests/CMakeLists.txt). */
void __real_group_lease_timer(struct core *core, struct sub *member);
void __wrap_group_lease_timer(struct core *core, struct sub *member);
void __wrap_group_lease_timer(struct core *core, struct sub *member)
{
    uint32_t held = member->held_count;
    int64_t late_ns = core_clock(core) - member->lease_timer.due_ns;
    bool may_judge = late_ns <= LATE_LOOK_NS || member->is_looked_again;
    __real_group_lease_timer(core, member);
    if (under_way != NULL && !may_judge && member->held_count < held &&
        was_heard(under_way, member->party))
        under_way->lapsed = member->party->id;
}

static void note_slot(struct late_look *look, const struct core *core, const struct frame *frame)
{
    uint32_t index;
    const struct topic *topic = topic_numbered(core, frame->topic);
    if (topic == NULL || look->slot_count == LATE_SLOTS || frame->attempt != topic->job->attempt ||
        !slot_table_find(&topic->slots, frame->seq, &index))
        return;
    const struct slot_entry *entry = slot_table_at(&topic->slots, index);
    const struct open_slot *open =
        entry->state == SLOT_OPEN ? pool_find(&core->open_slots, entry->ref) : NULL;
    if (open != NULL && open->terms != NULL &&
        is_put_off(look, &open->terms->timer, open->terms->is_looked_again))
        look->slots[look->slot_count++] = (struct late_slot){.topic = topic->id, .seq = frame->seq};
}

static void note_commits(struct late_look *look, const struct core *core, struct span part)
{
    struct batch_reader reader;
    struct frame frame;
    if (batch_reader_init(&reader, part) != WIRE_OK)
        return;
    while (batch_reader_next(&reader, &frame) == WIRE_OK)
        if ((frame.flags & FRAME_KIND_MASK) == FRAME_COMMIT)
            note_slot(look, core, &frame);
}

void late_look_unread(struct late_look *look, const struct core *core, conn_id conn, bool is_data,
                      struct span part)
{
    uint32_t id;
    const struct session *session =
        id_map_get(&core->conns, conn, &id) ? pool_find(&core->sessions, id) : NULL;
    if (session == NULL || session->party == NULL || session->late != NULL)
        return;
    if (is_data && session->data == conn)
        note_commits(look, core, part);
    if (is_data || session->control != conn || look->session_count == LATE_SESSIONS)
        return;
    look->sessions[look->session_count++] = (struct late_session){
        .party = session->party->id,
        .incarnation = session->incarnation,
        .is_put_off = is_put_off(look, &session->timer, session->is_looked_again)};
}

static bool was_lost(const struct core *core, const struct late_session *late)
{
    const struct party *party = pool_find(&core->parties, late->party);
    return party != NULL && party->incarnation == late->incarnation && party->ended_by != NULL &&
           span_equal(failure_type(party->ended_by), span_text(ERROR_TYPE_SILENT));
}

static bool missed_its_deadline(const struct core *core, const struct late_slot *late)
{
    uint32_t index;
    const struct topic *topic = pool_find(&core->topics, late->topic);
    if (topic == NULL || !slot_table_find(&topic->slots, late->seq, &index))
        return false;
    const struct slot_entry *entry = slot_table_at(&topic->slots, index);
    const struct failure *failure =
        entry->state == SLOT_ERROR ? pool_find(&core->failures, entry->ref) : NULL;
    return failure != NULL && failure->kind == ERROR_DEADLINE;
}

const char *late_look_wrong(struct late_look *look, const struct core *core)
{
    for (uint32_t i = 0; i < look->session_count; i++) {
        if (!look->sessions[i].is_put_off || !was_lost(core, &look->sessions[i]))
            continue;
        (void)snprintf(look->text, sizeof look->text,
                       "party %" PRIu32 " is taken for lost, and what it had said was not read",
                       look->sessions[i].party); /* fits */
        return look->text;
    }
    for (uint32_t i = 0; i < look->slot_count; i++) {
        if (!missed_its_deadline(core, &look->slots[i]))
            continue;
        (void)snprintf(look->text, sizeof look->text,
                       "slot %" PRIu64 " of topic %" PRIu32
                       " missed its deadline, and its value had come",
                       look->slots[i].seq, look->slots[i].topic); /* fits */
        return look->text;
    }
    if (look->lapsed == 0)
        return NULL;
    (void)snprintf(look->text, sizeof look->text,
                   "the leases of party %" PRIu32 " are over, and what it had said was not read",
                   look->lapsed); /* fits */
    return look->text;
}
