/* SPDX-License-Identifier: MPL-2.0 */
/* letter.c -- dead letters: tasks that no member could do, kept until somebody looks at them.
 *
 * A group has two topics of dead letters: "_groups/GROUP/dead" with the values, "_groups/GROUP/why"
 * with the errors.  A letter has the same number in both.  So letters are kept, counted, journaled
 * and read as slots are.  A letter is not trimmed until it is dropped (letter_floor).  A letter
 * that is given again stays until it is done.  Another attempt of the job leaves the letters where
 * they are: they are the record of what was lost. */
#include "broker/core/groups/letter.h"

#include "broker/core/groups/group.h"
#include "broker/core/record/failure.h"
#include "broker/core/record/note.h"
#include "broker/core/record/text.h"
#include "broker/core/settling/settle.h"
#include "broker/core/streams/lease.h"
#include "broker/core/streams/names.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/effect.h"
#include "broker/core/tables/slot_table.h"

static struct topic *topic_of(struct core *core, const struct group *group, const char *level)
{
    enum wire_code code;
    struct text name;
    text_init(&name);
    text_add(&name, GROUPS_PARTY "/");
    text_add_span(&name, group->place->name);
    text_add(&name, level);
    return topic_get(core, group->place->job, span_of(name.data, name.bytes), &code);
}

bool letter_topics(struct core *core, struct group *group)
{
    group->dead = topic_of(core, group, "/dead");
    group->why = group->dead != NULL ? topic_of(core, group, "/why") : NULL;
    if (group->why == NULL)
        return false;
    group->dead->letters = group;
    group->why->letters = group;
    return true;
}

struct letter *letter_find(const struct group *group, uint64_t number)
{
    LIST_EACH(link, &group->letters)
        if (LIST_OWNER(link, struct letter, link)->number == number)
            return LIST_OWNER(link, struct letter, link);
    return NULL;
}

bool letter_keep(struct core *core, struct group *group, const struct letter *terms)
{
    struct letter *letter = memory_take(core->memory, sizeof *letter);
    if (letter == NULL)
        return false;
    *letter = *terms;
    list_push(&group->letters, &letter->link);
    group->letter_count += 1;
    note_letter_kept(core, group, letter);
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A value in pieces, piece by piece; false: not all of it. */
static bool copy_pieces(struct core *core, struct topic *dead, uint64_t number,
                        const struct chunks *chunks)
{
    if (!open_slot_promise(core, dead, number, 0, -1, 0))
        return false;
    struct open_slot *open = open_slot_find(core, dead, number);
    for (uint32_t i = 0; i < chunks->count; i++)
        if (!open_slot_add_chunk(core, open, chunks->total, &chunks->items[i]))
            return false;
    settle_whole(core, open);
    return true;
}

/* The slot is open for this moment alone.  If the table of open slots is full, the letter is still
 * kept. */
static bool copy_chunks(struct core *core, struct topic *dead, uint64_t number,
                        const struct chunks *chunks)
{
    core->open_slots.used_max += 1;
    bool is_done = copy_pieces(core, dead, number, chunks);
    core->open_slots.used_max -= 1;
    return is_done;
}

/* The slot of this number gets the outcome of another one; false: no memory, or it has none. */
static bool copy_value(struct core *core, struct topic *dead, uint64_t number,
                       const struct slot_entry *entry, uint64_t seq)
{
    struct slot_entry copy = {
        .first_seq = number, .count = 1, .state = SLOT_VALUE, .ref = entry->ref};
    switch ((enum slot_state)entry->state) {
    case SLOT_VALUE:
        copy.place = entry->place;
        copy.place.skip += (uint16_t)(seq - entry->first_seq);
        topic_keep(core, dead, &copy);
        return true;
    case SLOT_CHUNKED:
        return copy_chunks(core, dead, number, pool_find(&core->chunk_sets, entry->ref));
    case SLOT_ERROR:
        return topic_append_failed(core, dead, number, 1, pool_find(&core->failures, entry->ref));
    case SLOT_OPEN:
    case SLOT_STATE_COUNT: break;
    }
    return false;
}

/* Makes room for a letter: the oldest one that no member works on goes. */
static void letter_drop_oldest(struct core *core, struct group *group)
{
    LIST_EACH(link, &group->letters) {
        struct letter *letter = LIST_OWNER(link, struct letter, link);
        if (letter->task != NULL)
            continue;
        note_letter_gone(core, group, letter);
        letter_free(core, group, letter);
        return;
    }
}

/* What stands for a value that there is no memory for, or that went. */
static void close_slot(struct core *core, struct topic *dead, uint64_t number,
                       struct failure *failure)
{
    struct open_slot *open = open_slot_find(core, dead, number);
    if (open != NULL)
        settle_open_failed(core, open, failure);
    else if (dead->slots.next_seq == number)
        (void)topic_append_failed(core, dead, number, 1, failure); /* room is reserved */
}

void letter_write(struct core *core, struct task *task, struct failure *failure)
{
    struct group *group = task->group;
    const struct letter *was = task->letter;
    const struct job *job = group->place->job;
    uint64_t number = group->dead->slots.next_seq;
    uint64_t seq;
    uint32_t index;
    struct topic *topic = task_topic(task, &seq);
    if (group->letter_count >= LIMIT_DEAD_LETTERS)
        letter_drop_oldest(core, group);
    if (!slot_table_reserve(&group->dead->slots, 2) || !slot_table_reserve(&group->why->slots, 1))
        return; /* its error is told as an event, and to whoever waits for a reply */
    struct slot_entry entry = {.state = SLOT_STATE_COUNT}; /* the slot is not kept any more */
    if (slot_table_find(&topic->slots, seq, &index))
        entry = *slot_table_at(&topic->slots, index);
    if (!letter_keep(core, group,
                     &(struct letter){.number = number,
                                      .topic = task->route->topic,
                                      .seq = was != NULL ? was->seq : task->seq,
                                      .deliveries = task->delivery,
                                      .at_ns = core->wall_ns,
                                      .attempt = was != NULL ? was->attempt : job->attempt}))
        return;
    if (!copy_value(core, group->dead, number, &entry, seq))
        close_slot(core, group->dead, number, failure);
    (void)topic_append_failed(core, group->why, number, 1, failure); /* room is reserved */
}

/* ---- what operators ask ---------------------------------------------------------------------- */

static void end(struct core *core, struct session *session, const struct msg_dead *asked,
                enum wire_code code, const char *message, uint64_t count)
{
    struct msg_dead_end *msg =
        &effects_msg(core->effects, session->control, MSG_DEAD_END)->as.dead_end;
    msg->request = asked->request;
    msg->code = code;
    msg->type = span_text(code != CODE_OK ? ERROR_TYPE_NO_GROUP : "");
    msg->message = span_text(message);
    msg->count = count;
}

static struct slot_entry *entry_of(struct topic *topic, uint64_t number)
{
    uint32_t index;
    return slot_table_find(&topic->slots, number, &index) ? slot_table_at(&topic->slots, index)
                                                          : NULL;
}

static uint64_t value_bytes(const struct core *core, const struct slot_entry *entry)
{
    if (entry != NULL && entry->state == SLOT_VALUE)
        return entry->place.value_bytes;
    if (entry != NULL && entry->state == SLOT_CHUNKED)
        return ((struct chunks *)pool_find(&core->chunk_sets, entry->ref))->total;
    return 0;
}

/* What its last delivery failed of: the first cause of why it died; or that its value went. */
static void describe(struct core *core, struct failure *why, struct msg_dead_row *row)
{
    uint32_t count = 0;
    const struct error_record *records = core->scratch;
    if (error_decode(failure_span(why), core->scratch, LIMIT_ERROR_RECORDS, &count) != WIRE_OK)
        return;
    const struct error_record *told = &records[0];
    bool is_gone = span_equal(records[0].type, span_text(ERROR_TYPE_NOT_KEPT));
    if (records[0].cause_count > 0 && !is_gone)
        told = &records[records[0].causes[0]];
    row->type = told->type;
    row->message = told->message;
}

static void tell_row(struct core *core, struct session *session, const struct msg_dead *asked,
                     const struct group *group, const struct letter *letter, bool is_whole)
{
    const struct slot_entry *why = entry_of(group->why, letter->number);
    struct failure *failure =
        why != NULL && why->state == SLOT_ERROR ? pool_find(&core->failures, why->ref) : NULL;
    struct msg_dead_row *row =
        &effects_msg(core->effects, session->control, MSG_DEAD_ROW)->as.dead_row;
    row->request = asked->request;
    row->number = letter->number;
    row->topic = letter->topic->name;
    row->seq = letter->seq;
    row->attempt = letter->attempt;
    row->deliveries = letter->deliveries;
    row->at_ns = letter->at_ns;
    row->value_bytes = value_bytes(core, entry_of(group->dead, letter->number));
    row->is_replayed = letter->task != NULL;
    if (failure != NULL)
        describe(core, failure, row);
    if (is_whole)
        row->error = failure_span(failure);
}

static uint64_t piece_bytes(uint64_t left)
{
    return left < LIMIT_DEAD_PIECE_BYTES ? left : LIMIT_DEAD_PIECE_BYTES;
}

/* One piece, and how many bytes it has.  io puts them in: where they are is all that is
 * known here. */
static uint64_t tell_piece(struct core *core, struct session *session, const struct msg_dead *asked,
                           const struct slot_entry *entry, uint64_t offset)
{
    struct msg_dead_value *msg =
        &effects_msg(core->effects, session->control, MSG_DEAD_VALUE)->as.dead_value;
    struct effect *effect = &core->effects->items[core->effects->count - 1];
    msg->request = asked->request;
    msg->total = value_bytes(core, entry);
    msg->offset = offset;
    if (offset == msg->total)
        return 0;
    if (entry->state == SLOT_VALUE) {
        effect->payload = entry->ref;
        effect->offset = entry->place.offset;
        effect->skip = entry->place.skip;
        effect->count = (uint32_t)offset;
        return piece_bytes(msg->total - offset);
    }
    const struct chunks *chunks = pool_find(&core->chunk_sets, entry->ref);
    const struct chunk *chunk = chunks_at(chunks, offset);
    must(chunk != NULL); /* a group has whole values */
    effect->payload = chunk->payload;
    effect->offset = chunk->offset;
    effect->count = (uint32_t)(offset - chunk->begin);
    return piece_bytes(chunk->begin + chunk->bytes - offset);
}

static void tell_value(struct core *core, struct session *session, const struct msg_dead *asked,
                       const struct slot_entry *entry)
{
    uint64_t total = value_bytes(core, entry);
    uint64_t first = asked->offset < total ? asked->offset : total;
    uint64_t offset = first;
    do
        offset += tell_piece(core, session, asked, entry, offset);
    while (offset < total && offset - first < asked->window_bytes);
}

static void list_letters(struct core *core, struct session *session, const struct msg_dead *asked,
                         const struct group *group)
{
    LIST_EACH(link, &group->letters) {
        const struct letter *letter = LIST_OWNER(link, struct letter, link);
        if (letter->number >= asked->number)
            tell_row(core, session, asked, group, letter, false);
    }
    end(core, session, asked, CODE_OK, "", group->letter_count);
}

static void show_letter(struct core *core, struct session *session, const struct msg_dead *asked,
                        const struct group *group)
{
    const struct letter *letter = letter_find(group, asked->number);
    if (letter == NULL) {
        end(core, session, asked, CODE_EINVAL, "the group has no dead letter of this number", 0);
        return;
    }
    tell_row(core, session, asked, group, letter, true);
    tell_value(core, session, asked, entry_of(group->dead, letter->number));
    end(core, session, asked, CODE_OK, "", 1);
}

/* Gives dead letters to members again, or drops them; those in work are left alone. */
static void do_letters(struct core *core, struct session *session, const struct msg_dead *asked,
                       struct group *group, bool is_drop)
{
    uint64_t count = 0;
    LIST_EACH(link, &group->letters) {
        struct letter *letter = LIST_OWNER(link, struct letter, link);
        if ((asked->number != UINT64_MAX && letter->number != asked->number) ||
            letter->task != NULL)
            continue;
        if (is_drop) {
            note_letter_gone(core, group, letter);
            letter_free(core, group, letter);
        } else if (task_of_letter(core, group, letter) == NULL)
            break;
        count += 1;
    }
    if (count == 0 && asked->number != UINT64_MAX)
        end(core, session, asked, CODE_EINVAL,
            "the group has no dead letter of this number, or has it given again", 0);
    else
        end(core, session, asked, CODE_OK, "", count);
}

enum how { HOW_LIST = 0, HOW_SHOW = 1, HOW_REPLAY = 2, HOW_DROP = 3 }; /* DEAD.how, at most 3 */

void letter_message(struct core *core, struct session *session, const struct msg_dead *msg)
{
    uint32_t id;
    const struct job *job =
        name_map_get(&core->job_names, msg->job, &id) ? pool_find(&core->jobs, id) : NULL;
    struct group *group = job != NULL ? group_find(core, job, msg->group) : NULL;
    if (group == NULL) {
        text_say(&core->why_held, job != NULL ? "there is no group " : "there is no job ",
                 job != NULL ? msg->group : msg->job);
        if (job != NULL) {
            text_add(&core->why_held, " in job ");
            text_add_span(&core->why_held, job->name);
        }
        end(core, session, msg, CODE_EINVAL, core->why_held.data, 0);
        return;
    }
    switch ((enum how)msg->how) {
    case HOW_LIST: list_letters(core, session, msg, group); break;
    case HOW_SHOW: show_letter(core, session, msg, group); break;
    case HOW_REPLAY: do_letters(core, session, msg, group, false); break;
    case HOW_DROP: do_letters(core, session, msg, group, true); break;
    }
}
