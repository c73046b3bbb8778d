/* SPDX-License-Identifier: MPL-2.0 */
/* need.c -- slots that need others: when one fails, all slots that need it fail, too.
 *
 * A failed slot that is needed is held in core->falling until no slot needs it any more.  Each step
 * settles a bounded number of the slots that need it.  A slot that is settled so, and is needed
 * itself, is held in turn.  So a chain or a fan of any length falls without recursion, and others
 * get their turn between two steps.
 *
 *   - What is needed was promised before (need_refusal), so there are no cycles.
 *   - While a failed slot is held, nothing of its topic is trimmed.  If the broker ends meanwhile,
 *     need_resume() finds the failed slot and the slots that still need it, and goes on.
 *   - A slot that needs a held slot takes no value any more (need_overtakes), though its turn has
 *     not come.
 *
 * One error stands for all slots of one party that one failure takes.  Its cause is that
 * failure, however many slots lie between.  So an error of a long chain is as short as one of a
 * short chain. */
#include "broker/core/settling/need.h"

#include "broker/core/record/failure.h"
#include "broker/core/record/rights.h"
#include "broker/core/record/note.h"
#include "broker/core/settling/refusal.h"
#include "broker/core/settling/settle.h"
#include "broker/core/streams/number.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/event.h"
#include "broker/core/tables/needs.h"
#include "broker/core/tables/slot_table.h"

/* Dependants settled in one step: less than a millisecond (bench/README.md). */
#define STEP_NEEDS_MAX 256

static struct need_key need_key_of(const struct topic *topic, uint64_t seq)
{
    return (struct need_key){.seq = seq, .topic = topic->id};
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* The cause of an error that stands for all slots of a party; any other error itself.  One
 * reference for the caller. */
static struct failure *root_of(struct core *core, struct failure *failure)
{
    uint32_t count = 0;
    struct error_record *head = &core->scratch[0];
    if (failure->kind != ERROR_DEPENDENCY ||
        error_decode(failure_span(failure), core->scratch, LIMIT_ERROR_RECORDS, &count) !=
            WIRE_OK ||
        !span_equal(head->type, span_text(ERROR_TYPE_DEPENDENCY)) || head->cause_count == 0 ||
        head->causes[0] >= count)
        return failure_ref(failure);
    struct failure *root = failure_extract(core, failure, core->scratch[head->causes[0]].id);
    return root != NULL ? root : failure_ref(failure);
}

static bool is_of_incarnation(struct core *core, const struct failure *failure,
                              const struct party *party)
{
    uint32_t count = 0;
    struct error_record *head = &core->scratch[0];
    return failure->kind == ERROR_DEPENDENCY &&
           error_decode(failure_span(failure), head, 1, &count) == WIRE_OK &&
           span_equal(head->type, span_text(ERROR_TYPE_DEPENDENCY)) &&
           span_equal(head->party, party->name) && head->incarnation == party->incarnation;
}

static struct failure *error_make_for(struct core *core, struct party *party, struct failure *root)
{
    return failure_make(
        core, &(struct failure_spec){.job = party->job,
                                     .party = party,
                                     .kind = ERROR_DEPENDENCY,
                                     .type = ERROR_TYPE_DEPENDENCY,
                                     .message = "a slot that it needs failed, see the cause",
                                     .cause = root});
}

/* The error of the slots of this party that fail with root; one reference for the caller. */
static struct failure *error_for(struct core *core, struct party *party, struct failure *root)
{
    struct fallen *oldest = &core->fallen[core->fallen_at % FALLEN_KEPT];
    for (uint32_t i = 0; i < FALLEN_KEPT; i++) {
        struct fallen *known = &core->fallen[i];
        if (known->root == root && known->party == party->id &&
            known->incarnation == party->incarnation)
            return failure_ref(known->failure);
    }
    core->fallen_at += 1;
    failure_unref(core, oldest->root);
    failure_unref(core, oldest->failure);
    *oldest = (struct fallen){.root = failure_ref(root),
                              .failure = error_make_for(core, party, root),
                              .party = party->id,
                              .incarnation = party->incarnation};
    return failure_ref(oldest->failure);
}

/* ---- settling -------------------------------------------------------------------------------- */

/* Tells the writer of the slots that failed in a row, all in one refusal. */
static void tell_writer(struct core *core)
{
    struct refusal fell = core->fell;
    const struct topic *topic = topic_numbered(core, fell.topic);
    if (fell.failure == NULL)
        return;
    core->fell = (struct refusal){0};
    if (topic->writer->session != NULL)
        refusal_tell(core, topic->writer->session, &fell);
    failure_unref(core, fell.failure);
}

static void tell_writer_later(struct core *core, const struct topic *topic, uint64_t seq,
                              struct failure *failure)
{
    struct refusal *fell = &core->fell;
    bool is_next = fell->failure == failure && fell->topic == topic->number &&
                   fell->seq + fell->count == seq && fell->count < LIMIT_REFUSAL_SLOTS;
    if (is_next) {
        fell->count += 1;
        return;
    }
    tell_writer(core);
    *fell = (struct refusal){
        .topic = topic->number, .seq = seq, .failure = failure_ref(failure), .count = 1};
}

/* The slot fails with the slot that it needs.  Its writer gets a refusal: it may be working on the
 * slot in vain. */
static void settle_fallen(struct core *core, struct open_slot *open, struct failure *failure,
                          struct failure *root)
{
    struct topic *topic = open->topic;
    uint64_t seq = open->seq;
    settle_tell(core, topic, seq, failure);
    core->falling_root = root;
    settle_open_failed(core, open, failure);
    core->falling_root = NULL;
    tell_writer_later(core, topic, seq, failure);
}

static void fall(struct core *core, struct open_slot *open, const struct need_head *head)
{
    struct failure *root = failure_ref(pool_find(&core->failures, head->root));
    struct failure *failure = error_for(core, open->topic->writer, root);
    settle_fallen(core, open, failure, root);
    failure_unref(core, failure);
    failure_unref(core, root);
}

static void head_hold(struct core *core, struct topic *topic, struct need_head *head,
                      struct failure *failure)
{
    struct failure *root =
        core->falling_root != NULL ? failure_ref(core->falling_root) : root_of(core, failure);
    head->is_held = true;
    head->root = root->id;
    list_push(&core->falling, &head->link);
    topic->falling_count += 1;
}

static void head_let_go(struct core *core, struct need_head *head)
{
    struct topic *topic = pool_find(&core->topics, (uint32_t)head->key.topic);
    topic->falling_count -= 1;
    failure_unref(core, pool_find(&core->failures, head->root));
    needs_release(&core->needs, head);
    if (topic->falling_count == 0)
        topic_update(core, topic); /* what could not be trimmed meanwhile */
}

void need_slots_failed(struct core *core, struct topic *topic, uint64_t first_seq, uint64_t count,
                       struct failure *failure)
{
    if (core->needs.heads.used == 0 || core->is_replaying)
        return;
    for (uint64_t seq = first_seq; seq < first_seq + count; seq++) {
        struct need_head *head = needs_find(&core->needs, need_key_of(topic, seq));
        if (head != NULL && !head->is_held)
            head_hold(core, topic, head, failure);
    }
}

void need_fall(struct core *core)
{
    for (int i = 0; i < STEP_NEEDS_MAX && !list_is_empty(&core->falling); i++) {
        struct need_head *head = LIST_OWNER(core->falling.next, struct need_head, link);
        uint32_t dependant = needs_first(head);
        if (dependant != 0)
            fall(core, pool_find(&core->open_slots, dependant), head);
        else
            head_let_go(core, head);
    }
    tell_writer(core);
    if (!list_is_empty(&core->falling))
        core->has_more = true;
    else
        failure_forget_fallen(core);
}

bool need_overtakes(struct core *core, struct open_slot *open)
{
    if (list_is_empty(&core->falling) || open->terms == NULL)
        return false;
    LIST_EACH(link, &open->terms->needs) {
        const struct need_head *head = LIST_OWNER(link, struct need_edge, slot_link)->head;
        if (!head->is_held)
            continue;
        fall(core, open, head);
        tell_writer(core);
        return true;
    }
    return false;
}

/* ---- promising ------------------------------------------------------------------------------- */

/* NULL: nobody has promised anything there. */
static struct topic *topic_of_need(struct core *core, const struct job *job,
                                   const struct frame_need *need)
{
    uint32_t id;
    return name_map_get(&job->topics, need->topic, &id) ? pool_find(&core->topics, id) : NULL;
}

/* The same for a writer who may not read it. */
static struct topic *readable_need(struct core *core, const struct topic *topic,
                                   const struct frame_need *need)
{
    return rights_may_read(core, topic->writer, need->topic) ? topic_of_need(core, topic->job, need)
                                                             : NULL;
}

static const char *refusal_of_one(const struct topic *needed, const struct topic *topic,
                                  uint64_t seq, const struct frame_need *need,
                                  const char **out_message)
{
    if (needed == topic && need->seq == seq) {
        *out_message = "a slot cannot need itself";
        return ERROR_TYPE_CYCLE;
    }
    if (needed == NULL || need->seq >= needed->slots.next_seq || need->seq < needed->begin_seq) {
        *out_message = "it needs a slot that was not promised before it";
        return ERROR_TYPE_NEED_UNKNOWN;
    }
    if (need->seq < slot_table_first_seq(&needed->slots)) {
        *out_message = "it needs a slot that is older than what is kept";
        return ERROR_TYPE_NOT_KEPT;
    }
    return NULL;
}

const char *need_refusal(struct core *core, const struct topic *topic,
                         const struct event_range *range, const char **out_message)
{
    struct span needs = range->needs;
    struct frame_need need;
    const char *type = NULL;
    while (type == NULL && frame_need_next(&needs, &need))
        type = refusal_of_one(readable_need(core, topic, &need), topic, range->seq, &need,
                              out_message);
    return type;
}

bool need_add(struct core *core, struct open_slot *open, const struct topic *needed, uint64_t seq)
{
    struct need_key key = need_key_of(needed, seq);
    struct slot_terms *terms = open_slot_terms(core, open);
    if (terms == NULL || !needs_add(&core->needs, key, open->id, &terms->needs))
        return false;
    note_needed(core, open, key);
    return true;
}

/* The error in this slot's place, or NULL. */
static struct failure *failure_at(struct core *core, const struct topic *topic, uint64_t seq)
{
    uint32_t index;
    if (!slot_table_find(&topic->slots, seq, &index))
        return NULL;
    const struct slot_entry *entry = slot_table_at(&topic->slots, index);
    return entry->state == SLOT_ERROR ? pool_find(&core->failures, entry->ref) : NULL;
}

bool need_take(struct core *core, struct open_slot *open, const struct event_range *range)
{
    struct span needs = range->needs;
    struct frame_need need;
    struct failure *failed = NULL;
    while (frame_need_next(&needs, &need)) {
        struct topic *needed = topic_of_need(core, open->topic->job, &need);
        if (!need_add(core, open, needed, need.seq))
            return false;
        if (failed == NULL)
            failed = failure_at(core, needed, need.seq);
    }
    if (failed == NULL)
        return true;
    struct party *writer = open->topic->writer;
    struct failure *root = root_of(core, failed);
    struct failure *failure = is_of_incarnation(core, failed, writer)
                                  ? failure_ref(failed)
                                  : error_make_for(core, writer, root);
    settle_fallen(core, open, failure, root);
    tell_writer(core);
    failure_unref(core, failure);
    failure_unref(core, root);
    return true;
}

void need_resume(struct core *core)
{
    struct need_head *head = NULL;
    while ((head = needs_next(&core->needs, head)) != NULL) {
        struct topic *topic = pool_find(&core->topics, (uint32_t)head->key.topic);
        struct failure *failure = failure_at(core, topic, head->key.seq);
        if (failure == NULL)
            continue;
        head_hold(core, topic, head, failure);
        core->has_more = true;
    }
}
