/* SPDX-License-Identifier: MPL-2.0 */
/* wants.c -- see wants.h. */
#include "libbus/session/wants.h"

#include "libbus/base/limits.h"

static struct want *want_of(struct list *link)
{
    return LIST_OWNER(link, struct want, link);
}

static struct want_slot *slot_of_due(struct list *link)
{
    return LIST_OWNER(link, struct want_slot, due);
}

static struct want_slot *slot_of_stale(struct list *link)
{
    return LIST_OWNER(link, struct want_slot, stale);
}

void wants_init(struct wants *wants, struct memory *memory)
{
    *wants = (struct wants){.memory = memory};
    pool_init(&wants->wants, memory, sizeof(struct want), LIMIT_AWAITS);
    pool_init(&wants->slots, memory, sizeof(struct want_slot), LIMIT_AWAITS + LIMIT_STALE_WANTS);
    id_map_init(&wants->by_number, memory);
    list_init(&wants->due);
    list_init(&wants->drops);
    list_init(&wants->stale);
    list_init(&wants->answered);
}

void wants_fini(struct wants *wants)
{
    struct want *want = NULL;
    while ((want = pool_next(&wants->wants, want != NULL ? want->id : 0)) != NULL)
        buffer_unref(&want->item.buffer);
    struct want_slot *slot = NULL;
    while ((slot = pool_next(&wants->slots, slot != NULL ? slot->id : 0)) != NULL)
        assembly_drop(&slot->assembly);
    pool_fini(&wants->wants);
    pool_fini(&wants->slots);
    id_map_fini(&wants->by_number);
}

/* ---- slots ----------------------------------------------------------------------------------- */

static void slot_free(struct wants *wants, struct want_slot *slot)
{
    assembly_drop(&slot->assembly);
    if (list_is_linked(&slot->stale))
        wants->stale_count -= 1;
    list_remove(&slot->stale);
    list_remove(&slot->due);
    list_remove(&slot->drop);
    id_map_remove(&slot->topic->wanted, slot->seq);
    pool_give(&wants->slots, slot);
}

static struct want_slot *slot_find(const struct wants *wants, const struct known_topic *topic,
                                   uint64_t seq)
{
    uint32_t id;
    return id_map_get(&topic->wanted, seq, &id) ? pool_find(&wants->slots, id) : NULL;
}

static struct want_slot *slot_new(struct wants *wants, struct known_topic *topic, uint64_t seq)
{
    if (!id_map_reserve(&topic->wanted))
        return NULL;
    struct want_slot *slot = pool_take(&wants->slots);
    if (slot == NULL)
        return NULL;
    slot->topic = topic;
    slot->seq = seq;
    list_init(&slot->wants);
    list_init(&slot->due);
    list_init(&slot->drop);
    list_init(&slot->stale);
    (void)id_map_put(&topic->wanted, seq, slot->id); /* reserved above */
    return slot;
}

static void slot_make_stale(struct wants *wants, struct want_slot *slot)
{
    if (list_is_linked(&slot->stale))
        return;
    if (wants->stale_count == LIMIT_STALE_WANTS)
        slot_free(wants, slot_of_stale(wants->stale.next));
    list_push(&wants->stale, &slot->stale);
    wants->stale_count += 1;
}

static bool has_want(const struct want_slot *slot, enum want_mode mode)
{
    for (struct list *link = slot->wants.next; link != &slot->wants; link = link->next)
        if (want_of(link)->mode == mode)
            return true;
    return false;
}

static void ask_update(struct wants *wants, struct want_ask *ask, bool is_needed)
{
    if (is_needed && ask->state == WANT_ASK_NONE)
        *ask = (struct want_ask){.state = WANT_ASK_DUE, .number = ++wants->last_number};
    else if (is_needed && ask->state == WANT_ASK_DROP)
        ask->state = WANT_ASK_DUE; /* said again: a no-op, unless the answer was lost */
    else if (!is_needed && ask->state != WANT_ASK_NONE)
        ask->state = ask->is_told ? WANT_ASK_DROP : WANT_ASK_NONE;
}

static bool has_ask(const struct want_slot *slot, enum want_ask_state state)
{
    return slot->asks[WANT_OUTCOME].state == state || slot->asks[WANT_VALUE].state == state;
}

static void enlist(struct list *list, struct list *link, bool is_member)
{
    if (!is_member)
        list_remove(link);
    else if (!list_is_linked(link))
        list_push(list, link);
}

/* After wants, asks or answers changed: what is to be asked, and whether the slot is needed. */
static void slot_update(struct wants *wants, struct want_slot *slot)
{
    bool is_value_needed = has_want(slot, WANT_VALUE);
    bool is_asked =
        slot->asks[WANT_OUTCOME].is_told && slot->asks[WANT_OUTCOME].state != WANT_ASK_NONE;
    ask_update(wants, &slot->asks[WANT_VALUE], is_value_needed);
    ask_update(wants, &slot->asks[WANT_OUTCOME],
               has_want(slot, WANT_OUTCOME) && (is_asked || !is_value_needed));
    enlist(&wants->due, &slot->due, has_ask(slot, WANT_ASK_DUE));
    enlist(&wants->drops, &slot->drop, has_ask(slot, WANT_ASK_DROP));
    bool has_work = list_is_linked(&slot->due) || list_is_linked(&slot->drop);
    if (!list_is_empty(&slot->wants) || has_work) {
        if (list_is_linked(&slot->stale))
            wants->stale_count -= 1;
        list_remove(&slot->stale);
    } else if (slot->outcomes > 0) {
        slot_make_stale(wants, slot);
    } else {
        slot_free(wants, slot);
    }
}

/* ---- wants ----------------------------------------------------------------------------------- */

static void want_free(struct wants *wants, struct want *want)
{
    list_remove(&want->link);
    buffer_unref(&want->item.buffer);
    id_map_remove(&wants->by_number, want->number);
    pool_give(&wants->wants, want);
}

enum wire_code wants_add(struct wants *wants, struct known_topic *topic, uint64_t seq,
                         enum want_mode mode, uint64_t *out_number)
{
    if (wants->wants.used == LIMIT_AWAITS)
        return CODE_EFULL;
    if (!id_map_reserve(&wants->by_number))
        return CODE_ENOMEM;
    struct want *want = pool_take(&wants->wants);
    if (want == NULL)
        return CODE_ENOMEM;
    struct want_slot *slot = slot_find(wants, topic, seq);
    if (slot == NULL)
        slot = slot_new(wants, topic, seq);
    if (slot == NULL) {
        pool_give(&wants->wants, want);
        return CODE_ENOMEM;
    }
    want->mode = mode;
    want->number = ++wants->last_number;
    want->slot = slot;
    list_push(&slot->wants, &want->link);
    (void)id_map_put(&wants->by_number, want->number, want->id); /* reserved above */
    slot_update(wants, slot);
    *out_number = want->number;
    return CODE_OK;
}

static struct want *find_want(const struct wants *wants, uint64_t number)
{
    uint32_t id;
    return id_map_get(&wants->by_number, number, &id) ? pool_find(&wants->wants, id) : NULL;
}

enum wire_code wants_take(struct wants *wants, uint64_t number, struct session_item *out)
{
    struct want *want = find_want(wants, number);
    if (want == NULL)
        return CODE_EINVAL;
    if (want->slot != NULL)
        return CODE_ETIMEDOUT;
    enum wire_code code = want->code;
    if (code == CODE_OK) {
        *out = want->item;
        want->item.buffer = NULL;
    }
    want_free(wants, want);
    return code;
}

uint64_t wants_answered(const struct wants *wants, uint64_t after)
{
    const struct want *want = find_want(wants, after);
    const struct list *link = want != NULL ? want->link.next : wants->answered.next;
    return link != &wants->answered ? LIST_OWNER(link, struct want, link)->number : 0;
}

void wants_cancel(struct wants *wants, uint64_t number)
{
    struct want *want = find_want(wants, number);
    if (want == NULL)
        return;
    struct want_slot *slot = want->slot;
    want_free(wants, want);
    if (slot != NULL)
        slot_update(wants, slot);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void await_message(struct want_slot *slot, enum want_mode mode, struct msg *out)
{
    bool is_value_wanted = mode == WANT_VALUE;
    out->type = MSG_AWAIT;
    out->as.await = (struct msg_await){
        .want = slot->asks[mode].number,
        .topic = slot->topic->name,
        .seq = slot->seq,
        .is_value_wanted = is_value_wanted,
        .chunk_offset = is_value_wanted ? assembly_offset(&slot->assembly, slot->seq) : 0,
    };
    slot->asks[mode].state = WANT_ASK_OUT;
    slot->outcomes += !is_value_wanted && !slot->asks[mode].is_told;
    slot->asks[mode].is_told = true;
}

bool wants_await(struct wants *wants, struct msg *out)
{
    if (list_is_empty(&wants->due))
        return false;
    struct want_slot *slot = slot_of_due(wants->due.next);
    bool is_value = slot->asks[WANT_VALUE].state == WANT_ASK_DUE;
    await_message(slot, is_value ? WANT_VALUE : WANT_OUTCOME, out);
    slot_update(wants, slot);
    return true;
}

bool wants_unawait(struct wants *wants, struct msg *out)
{
    if (list_is_empty(&wants->drops))
        return false;
    struct want_slot *slot = LIST_OWNER(wants->drops.next, struct want_slot, drop);
    bool is_value = slot->asks[WANT_VALUE].state == WANT_ASK_DROP;
    struct want_ask *ask = &slot->asks[is_value ? WANT_VALUE : WANT_OUTCOME];
    out->type = MSG_UNAWAIT;
    out->as.unawait = (struct msg_unawait){.want = ask->number};
    ask->state = WANT_ASK_NONE;
    slot_update(wants, slot);
    return true;
}

void wants_rewind(struct wants *wants)
{
    struct want_slot *slot;
    for (uint32_t id = 0; (slot = pool_next(&wants->slots, id)) != NULL;) {
        id = slot->id; /* the slot may be gone at the end of the body */
        for (unsigned mode = 0; mode < WANT_MODE_COUNT; mode++)
            if (slot->asks[mode].state == WANT_ASK_OUT)
                slot->asks[mode].state = WANT_ASK_DUE;
        slot_update(wants, slot);
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static void want_answer(struct wants *wants, struct want *want, enum wire_code code,
                        const struct session_item *item)
{
    list_remove(&want->link);
    list_push(&wants->answered, &want->link);
    want->slot = NULL;
    want->code = code;
    want->item = *item;
    bool is_left_out = want->mode == WANT_OUTCOME && item->kind == SESSION_ITEM_VALUE;
    if (is_left_out) {
        want->item.buffer = NULL;
        want->item.value = SPAN_NONE;
    } else if (item->buffer != NULL) {
        want->item.buffer = buffer_ref(item->buffer);
    }
}

static bool answer_mode(struct wants *wants, struct want_slot *slot, enum want_mode mode,
                        enum wire_code code, const struct session_item *item)
{
    bool is_any = false;
    LIST_EACH(link, &slot->wants) {
        if (want_of(link)->mode == mode) {
            want_answer(wants, want_of(link), code, item);
            is_any = true;
        }
    }
    return is_any;
}

static enum wants_verdict answer_all(struct wants *wants, struct want_slot *slot,
                                     enum wire_code code, const struct session_item *item)
{
    bool is_any = answer_mode(wants, slot, WANT_OUTCOME, code, item);
    is_any = answer_mode(wants, slot, WANT_VALUE, code, item) || is_any;
    for (unsigned mode = 0; mode < WANT_MODE_COUNT; mode++)
        slot->asks[mode].state = WANT_ASK_NONE;
    assembly_drop(&slot->assembly);
    slot_update(wants, slot);
    return is_any ? WANTS_ANSWERED : WANTS_NOTHING;
}

/* An empty VALUE while an outcome alone may be under way. */
static enum wants_verdict answer_outcome(struct wants *wants, struct want_slot *slot,
                                         const struct session_item *item)
{
    struct want_ask *value = &slot->asks[WANT_VALUE];
    slot->outcomes -= 1;
    slot->asks[WANT_OUTCOME].state = WANT_ASK_NONE;
    bool is_any = answer_mode(wants, slot, WANT_OUTCOME, CODE_OK, item);
    if (value->state == WANT_ASK_OUT)
        *value = (struct want_ask){.state = WANT_ASK_DUE, .number = ++wants->last_number};
    slot_update(wants, slot);
    return is_any ? WANTS_ANSWERED : WANTS_NOTHING;
}

static enum wants_verdict answer_chunk(struct wants *wants, struct want_slot *slot,
                                       const struct frame *frame, struct session_item *item,
                                       uint64_t value_bytes_max)
{
    switch (assembly_add(&slot->assembly, frame, value_bytes_max)) {
    case ASSEMBLY_GOES_ON: return WANTS_NOTHING;
    case ASSEMBLY_BROKEN: return WANTS_BROKEN;
    case ASSEMBLY_NO_MEMORY: return answer_all(wants, slot, CODE_ENOMEM, item);
    case ASSEMBLY_WHOLE: break;
    }
    struct buffer *value = buffer_ref(slot->assembly.value);
    item->buffer = value;
    item->value = buffer_span(value);
    enum wants_verdict verdict = answer_all(wants, slot, CODE_OK, item);
    buffer_unref(&value);
    return verdict;
}

enum wants_verdict wants_frame(struct wants *wants, struct known_topic *topic,
                               const struct frame *frame, struct buffer *part,
                               uint64_t value_bytes_max)
{
    enum frame_kind kind = (enum frame_kind)(frame->flags & FRAME_KIND_MASK);
    if (kind != FRAME_VALUE && kind != FRAME_COMMIT && kind != FRAME_CHUNK && kind != FRAME_ERROR)
        return WANTS_BROKEN;
    if (frame->more > 0)
        return WANTS_BROKEN; /* one slot was asked for */
    struct want_slot *slot = slot_find(wants, topic, frame->seq);
    if (slot == NULL)
        return WANTS_NOTHING;
    struct session_item item = {
        .kind = kind == FRAME_ERROR ? SESSION_ITEM_ERROR : SESSION_ITEM_VALUE,
        .buffer = frame->value.bytes > 0 ? part : NULL,
        .value = frame->value,
        .topic = frame->topic,
        .seq = frame->seq,
        .origin = topic->origin,
        .delivery = frame->delivery,
        .stamp_ns = frame->stamp_ns,
    };
    if (kind == FRAME_CHUNK) {
        item.buffer = NULL;
        item.value = SPAN_NONE;
        return answer_chunk(wants, slot, frame, &item, value_bytes_max);
    }
    if (kind == FRAME_VALUE && frame->value.bytes == 0 && slot->outcomes > 0)
        return answer_outcome(wants, slot, &item);
    if (kind == FRAME_ERROR)
        slot->outcomes = 0; /* whatever else is under way says the same */
    return answer_all(wants, slot, CODE_OK, &item);
}
