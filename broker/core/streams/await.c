/* SPDX-License-Identifier: MPL-2.0 */
/* await.c -- waits for single slots, promised or not.
 *
 * A wait is in a queue of its topic until the number is reserved.  Then it is in a list of the open
 * slot until that is settled, and then in a list of its session until it is sent.  When it is
 * answered it takes a reference to the outcome, and the slot is sealed.  So neither trimming nor
 * retracting changes the answer.
 *
 * Pieces of a large value are sent while its slot is open.  They are no outcome and seal nothing:
 * the client shows no value before it is whole, and drops the pieces if another outcome comes.
 *
 * Access is asked before anything is made.  A wait that is denied has no topic, and neither a topic
 * nor a party is made for it: else whoever may read nothing could fill the tables, and the number
 * of the topic would tell whether it was there before.  A wait for which there is no room has no
 * topic either.  It fails as a denied one does, and the reader goes on. */
#include "broker/core/streams/await.h"

#include "broker/core/record/failure.h"
#include "broker/core/record/owned_span.h"
#include "broker/core/record/rights.h"
#include "broker/core/record/text.h"
#include "broker/core/streams/notice.h"
#include "broker/core/streams/open_slot.h"
#include "broker/core/streams/passing.h"
#include "broker/core/streams/topic.h"
#include "broker/core/tables/party.h"
#include "broker/core/tables/slot_table.h"
#include "libbus/base/pattern.h"

/* From where it waits. */
static void leave(struct await *await)
{
    if (await->state == AWAIT_UNPROMISED && await->topic != NULL)
        seq_queue_remove(&await->topic->unpromised, &await->unpromised);
    list_remove(&await->link);
    list_remove(&await->coming_link);
}

void await_free(struct core *core, struct await *await)
{
    if (await->state == AWAIT_READY)
        entry_unref(core, &await->outcome);
    id_map_remove(&await->session->await_ids, await->want);
    leave(await);
    list_remove(&await->session_link);
    if (await->denied.bytes > 0)
        list_push(&core->unused_awaits, &await->link); /* a frame may have its name */
    else
        pool_give(&core->awaits, await);
}

void await_free_unused(struct core *core)
{
    LIST_EACH(link, &core->unused_awaits) {
        struct await *await = LIST_OWNER(link, struct await, link);
        list_remove(link);
        span_drop(core, &await->denied);
        pool_give(&core->awaits, await);
    }
}

/* outcome has a reference for the await. */
static void await_answer(struct core *core, struct await *await, struct slot_entry outcome)
{
    leave(await);
    list_remove(&await->session_link);
    await->state = AWAIT_READY;
    await->outcome = outcome;
    list_push(&await->session->awaits_ready, &await->link);
    core_mark_pump(core, await->session);
}

/* The slot is settled: its part of the entry is the outcome. */
static void answer_entry(struct core *core, struct await *await, struct slot_entry *entry)
{
    struct slot_entry outcome = *entry;
    outcome.place.skip += (uint16_t)(await->seq - entry->first_seq);
    outcome.first_seq = await->seq;
    outcome.count = 1;
    entry->is_sealed = true;
    entry_ref(core, &outcome);
    await_answer(core, await, outcome);
}

static void answer_failed(struct core *core, struct await *await, struct failure *failure)
{
    await_answer(core, await,
                 (struct slot_entry){.first_seq = await->seq,
                                     .count = 1,
                                     .state = SLOT_ERROR,
                                     .ref = failure_ref(failure)->id});
}

/* A slot that is not there though its number was passed. */
static void answer_gone(struct core *core, struct await *await)
{
    struct topic *topic = await->topic;
    bool is_jumped = await->seq < topic->begin_seq;
    struct failure *failure = failure_make(
        core, &(struct failure_spec){.job = topic->job,
                                     .party = topic->writer,
                                     .kind = is_jumped ? ERROR_CANCELLED : ERROR_REJECTED,
                                     .type = is_jumped ? ERROR_TYPE_JUMPED : ERROR_TYPE_NOT_KEPT,
                                     .message = is_jumped ? "its writer began above this number"
                                                          : "the slot is older than what is kept",
                                     .topic = topic,
                                     .seq = await->seq});
    answer_failed(core, await, failure);
    failure_unref(core, failure);
}

/* Of a value that passed through, who came late gets nothing. */
static void answer_settled(struct core *core, struct await *await, struct slot_entry *entry)
{
    if (await->is_value_wanted && passing_is_cut(core, entry))
        answer_gone(core, await);
    else
        answer_entry(core, await, entry);
}

/* The wait has no topic.  A denied one is told the same whether there is such a slot or not. */
static void answer_without_topic(struct core *core, struct await *await, bool is_denied)
{
    const char *type = is_denied ? ERROR_TYPE_NOT_AUTHORISED : ERROR_TYPE_FULL;
    const char *text = is_denied ? RIGHTS_DENIED_TEXT : "there is no room for the awaited topic";
    struct failure *failure = failure_of_rejection(core, await->session, type, text, NULL, 0);
    answer_failed(core, await, failure);
    failure_unref(core, failure);
}

void await_settled(struct core *core, struct list *awaits, struct slot_entry *entry)
{
    LIST_EACH(link, awaits)
        answer_settled(core, LIST_OWNER(link, struct await, link), entry);
}

const struct chunks *await_pieces(struct core *core, struct await *await)
{
    const struct open_slot *open =
        await->state == AWAIT_OPEN ? open_slot_find(core, await->topic, await->seq) : NULL;
    const struct chunks *chunks = open != NULL ? open->chunks : NULL;
    if (chunks == NULL || chunks->is_passing)
        return NULL;
    if (await->chunk_offset > chunks->bytes)
        await->chunk_offset = 0; /* the reader has more than there is: it begins anew */
    return await->chunk_offset < chunks->bytes ? chunks : NULL;
}

/* A reply is sent only when it is whole, as to routes.  A dead letter has a header of its own. */
static void see_pieces(struct core *core, struct await *await)
{
    const struct topic *topic = await->topic; /* NULL: denied, and answered */
    if (await->state != AWAIT_OPEN || !await->is_value_wanted || topic->is_replies ||
        topic->letters != NULL || list_is_linked(&await->coming_link) ||
        await_pieces(core, await) == NULL)
        return;
    list_push(&await->session->awaits_coming, &await->coming_link);
    core_mark_pump(core, await->session);
}

void await_coming(struct core *core, const struct open_slot *open)
{
    LIST_EACH(link, &open->awaits)
        see_pieces(core, LIST_OWNER(link, struct await, link));
}

/* The number is reserved, or was: to where it belongs. */
static void place_promised(struct core *core, struct await *await)
{
    struct topic *topic = await->topic;
    uint32_t index;
    if (!slot_table_find(&topic->slots, await->seq, &index)) {
        answer_gone(core, await);
        return;
    }
    struct slot_entry *entry = slot_table_at(&topic->slots, index);
    if (entry->state != SLOT_OPEN) {
        answer_settled(core, await, entry);
        return;
    }
    struct open_slot *open = pool_find(&core->open_slots, entry->ref);
    leave(await);
    list_push(&open->awaits, &await->link);
    await->state = AWAIT_OPEN;
    see_pieces(core, await);
}

void await_promised(struct core *core, struct topic *topic)
{
    const struct seq_node *first = NULL;
    while ((first = seq_queue_first(&topic->unpromised)) != NULL &&
           first->seq < topic->slots.next_seq)
        place_promised(core, await_unpromised(topic));
}

/* Why a number that was never promised by a party that ended will not come. */
static struct failure *never(struct core *core, struct party *party, struct failure *failure)
{
    if (failure != NULL)
        return failure_ref(failure);
    struct text text;
    text_init(&text);
    text_add_span(&text, party->name);
    text_add(&text, party->state == PARTY_COMPLETED ? " completed" : " left");
    text_add(&text, " and had not promised this slot");
    return failure_make(core, &(struct failure_spec){.job = party->job,
                                                     .party = party,
                                                     .kind = ERROR_PARTY_LEFT,
                                                     .type = ERROR_TYPE_NEVER_PROMISED,
                                                     .message = text.data});
}

void await_never(struct core *core, struct party *party, struct failure *failure)
{
    struct failure *why = NULL;
    LIST_EACH(topic_link, &party->topics) {
        struct topic *topic = LIST_OWNER(topic_link, struct topic, party_link);
        struct await *await = NULL;
        while ((await = await_unpromised(topic)) != NULL) {
            if (why == NULL)
                why = never(core, party, failure);
            answer_failed(core, await, why);
        }
    }
    failure_unref(core, why);
}

void await_fail(struct core *core, struct session *session, uint32_t topic, uint64_t seq,
                struct failure *failure)
{
    LIST_EACH(link, &session->awaits) {
        struct await *await = LIST_OWNER(link, struct await, session_link);
        if (await->topic->id == topic && await->seq == seq)
            answer_failed(core, await, failure);
    }
}

/* NULL: no memory, or too many. */
static struct await *await_new(struct core *core, struct session *session,
                               const struct msg_await *msg)
{
    struct await *await = session->await_ids.count < LIMIT_AWAITS ? pool_take(&core->awaits) : NULL;
    if (await == NULL)
        return NULL;
    if (!id_map_put(&session->await_ids, msg->want, await->id)) {
        pool_give(&core->awaits, await);
        return NULL;
    }
    await->want = msg->want;
    await->session = session;
    await->seq = msg->seq;
    await->since_ns = core_clock(core);
    await->is_value_wanted = msg->is_value_wanted != 0;
    await->chunk_offset = msg->chunk_offset;
    list_init(&await->link);
    list_init(&await->coming_link);
    list_push(&session->awaits, &await->session_link);
    return await;
}

/* To where it belongs by what is known of its slot. */
static void await_place(struct core *core, struct await *await)
{
    struct session *session = await->session;
    struct party *writer = await->topic->writer;
    if (await->seq < await->topic->slots.next_seq) {
        place_promised(core, await);
    } else if (party_is_over(writer, session->job->attempt)) {
        struct failure *why = never(core, writer, writer->ended_by);
        answer_failed(core, await, why);
        failure_unref(core, why);
    } else {
        seq_queue_put(&await->topic->unpromised, &await->unpromised, await->seq);
        if (writer->incarnation == 0)
            notice_wait(core, session, writer->name);
    }
}

const char *await_open(struct core *core, struct session *session, const struct msg_await *msg)
{
    enum wire_code code;
    uint32_t id;
    if (id_map_get(&session->await_ids, msg->want, &id)) { /* said again after a reconnect */
        struct await *known = pool_find(&core->awaits, id);
        known->chunk_offset = msg->chunk_offset;
        see_pieces(core, known);
        return NULL;
    }
    struct await *await = topic_is_valid(msg->topic) ? await_new(core, session, msg) : NULL;
    if (await == NULL)
        return "a slot that cannot be awaited";
    bool is_denied = !rights_may_read(core, session->party, msg->topic);
    await->topic = is_denied ? NULL : topic_get(core, session->job, msg->topic, &code);
    if (await->topic != NULL) {
        await_place(core, await);
        return NULL;
    }
    if (!span_keep(core, msg->topic, &await->denied)) {
        await_free(core, await);
        return "a slot that cannot be awaited";
    }
    answer_without_topic(core, await, is_denied);
    return NULL;
}

void await_close(struct core *core, struct session *session, uint64_t want)
{
    uint32_t id;
    if (id_map_get(&session->await_ids, want, &id))
        await_free(core, pool_find(&core->awaits, id));
}
