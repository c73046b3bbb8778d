/* SPDX-License-Identifier: MPL-2.0 */
/* sub_list.c -- the subscriptions of a bus: their count, messages that come back, who is woken.
 *
 * Any thread gives messages back, over a stack without locks (bus_sub.come_back).  The next thread
 * that has the lock takes the whole stack and acknowledges.  That is the receiver when it fetches
 * more, or the library's thread in each turn.  When the subscription or the bus is closed, the mark
 * DETACHED replaces the stack: messages that come back later are freed at once. */
#include "libbus/api/sub_list.h"

#include "libbus/api/event_fd.h"
#include "libbus/api/fork.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/api/waiters.h"

#include <stdlib.h>
#include <unistd.h>

static struct bus_msg detached_mark;
#define DETACHED (&detached_mark)

/* ---- counting -------------------------------------------------------------------------------- */

struct bus *sub_bus(const struct bus_sub *sub)
{
    return sub->bus;
}

void sub_unref(struct bus_sub *sub, unsigned long count)
{
    if (atomic_fetch_sub_explicit(&sub->refs, count, memory_order_acq_rel) != count)
        return;
    while (sub->chunks != NULL) {
        struct chunk *chunk = sub->chunks;
        sub->chunks = chunk->next;
        free(chunk);
    }
    for (uint32_t i = 0; i < sub->topic_count; i++)
        free(sub->topic_names[i]);
    free(sub->topic_names);
    free(sub->spare_name);
    id_map_fini(&sub->topics);
    pthread_cond_destroy(&sub->news);
    int fd = atomic_load(&sub->fd);
    if (fd >= 0)
        close(fd);
    api_unref(sub->bus);
    free(sub);
}

/* ---- messages that come back ----------------------------------------------------------------- */

void sub_give_back(struct bus_msg *msg)
{
    struct bus_sub *sub = msg->sub; /* good until the message is on the stack */
    struct bus *waited_for = NULL;
    struct bus_msg *head = atomic_load_explicit(&sub->come_back, memory_order_relaxed);
    if (atomic_load_explicit(&sub->is_waiting, memory_order_relaxed)) {
        waited_for = sub->bus;
        api_ref(waited_for);
    }
    do {
        if (head == DETACHED) {
            buffer_unref(&msg->buffer);
            sub_unref(sub, 1);
            break;
        }
        msg->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&sub->come_back, &head, msg,
                                                    memory_order_release, memory_order_relaxed));
    if (waited_for == NULL)
        return;
    /* The receiver waits: the library's thread must collect.  A forked child has neither. */
    if (head == NULL && !api_is_foreign(waited_for)) {
        api_lock(waited_for);
        api_unlock_wake(waited_for);
    }
    api_unref(waited_for);
}

/* Consecutive slots of one topic, which are acknowledged together. */
struct range {
    uint32_t topic;
    uint64_t first_seq;
    uint64_t count;
};

/* Lock held. */
static void acknowledge(struct bus_sub *sub, struct range *range)
{
    if (range->count > 0)
        session_ack_range(sub->bus->session, sub->number, range->topic, range->first_seq,
                          range->count);
    range->count = 0;
}

/* Acknowledges or gives back the slots of a message: one slot, or the missing slots of a gap.  An
 * end, and a piece before the last, have no slot.  Lock held. */
static void finish_msg(struct bus_sub *sub, struct range *range, const struct bus_msg *msg)
{
    bool is_slot = msg->kind == SESSION_ITEM_VALUE || msg->kind == SESSION_ITEM_ERROR;
    if (is_slot && msg->done == MSG_ACKNOWLEDGED && msg->lease == 0 &&
        range->topic == msg->number && range->first_seq + range->count == msg->seq &&
        range->count > 0) {
        range->count += msg->count;
        return;
    }
    acknowledge(sub, range);
    if (msg->done == MSG_SETTLED)
        return;
    if (msg->lease != 0) {
        session_task_end(sub->bus->session, msg->lease,
                         msg->done == MSG_ACKNOWLEDGED ? SESSION_TASK_DONE : SESSION_TASK_RETURNED,
                         0, SPAN_NONE);
        return;
    }
    if (msg->kind == SESSION_ITEM_GAP || msg->kind == SESSION_ITEM_DROPPED)
        session_ack(sub->bus->session, sub->number, msg->number, msg->seq + msg->count - 1);
    else if (msg->kind == SESSION_ITEM_PAST)
        session_ack_past(sub->bus->session, sub->number, msg->number);
    else if (is_slot && msg->done == MSG_ACKNOWLEDGED)
        *range = (struct range){.topic = msg->number, .first_seq = msg->seq, .count = msg->count};
    else if (is_slot) /* gives back this slot and all behind it */
        session_return(sub->bus->session, sub->number, msg->number, msg->seq);
}

/* Drops count references at once: messages that came together lie in one batch. */
void buffer_drop_many(struct buffer *buffer, unsigned count)
{
    if (count > 0 && atomic_fetch_sub_explicit(&buffer->refs, count, memory_order_acq_rel) == count)
        buffer->release(buffer);
}

/* Acknowledges a stack of messages, oldest first, and keeps them for use; returns their number.
 * Lock held. */
static uint32_t take_back(struct bus_sub *sub, struct bus_msg *stack)
{
    bool is_open = sub->bus->session != NULL;
    struct range range = {.count = 0};
    struct bus_msg *oldest = NULL;
    struct buffer *held = NULL;
    unsigned held_count = 0;
    uint32_t count = 0;
    while (stack != NULL) {
        struct bus_msg *next = stack->next;
        stack->next = oldest;
        oldest = stack;
        stack = next;
    }
    while (oldest != NULL) {
        struct bus_msg *msg = oldest;
        oldest = msg->next;
        if (is_open)
            finish_msg(sub, &range, msg);
        if (msg->buffer != NULL && msg->buffer != held) {
            buffer_drop_many(held, held_count);
            held = msg->buffer;
            held_count = 0;
        }
        held_count += msg->buffer != NULL;
        msg->buffer = NULL;
        msg->next = sub->spare;
        sub->spare = msg;
        count++;
    }
    buffer_drop_many(held, held_count);
    if (is_open)
        acknowledge(sub, &range);
    sub->spare_count += count;
    return count;
}

/* Lock held. */
void sub_collect_one(struct bus_sub *sub)
{
    struct bus_msg *head = atomic_load_explicit(&sub->come_back, memory_order_relaxed);
    if (head == NULL || head == DETACHED)
        return;
    /* Only a holder of the lock takes or detaches, so it is not DETACHED here. */
    head = atomic_exchange_explicit(&sub->come_back, NULL, memory_order_acq_rel);
    atomic_fetch_sub_explicit(&sub->refs, take_back(sub, head), memory_order_relaxed);
}

/* Lock held. */
void sub_detach_one(struct bus_sub *sub)
{
    struct bus_msg *head =
        atomic_exchange_explicit(&sub->come_back, DETACHED, memory_order_acq_rel);
    if (head != DETACHED)
        atomic_fetch_sub_explicit(&sub->refs, take_back(sub, head), memory_order_relaxed);
}

void sub_collect_all(struct bus *bus)
{
    LIST_EACH(link, &bus->subs)
        sub_collect_one(LIST_OWNER(link, struct bus_sub, link));
}

void sub_detach_all(struct bus *bus)
{
    LIST_EACH(link, &bus->subs)
        sub_detach_one(LIST_OWNER(link, struct bus_sub, link));
}

void sub_ack_kept(struct bus_msg *msg)
{
    struct bus_sub *sub = msg->sub;
    struct range range = {.count = 0};
    msg->is_acknowledged = true;
    if (atomic_load_explicit(&sub->come_back, memory_order_acquire) == DETACHED)
        return; /* it comes again */
    sub_collect_one(sub);
    msg->done = MSG_ACKNOWLEDGED;
    finish_msg(sub, &range, msg);
    acknowledge(sub, &range);
}

/* ---- news ------------------------------------------------------------------------------------ */

static void tell_sub(struct bus_sub *sub)
{
    if (sub->waiters > 0)
        waiters_broadcast(sub->bus, &sub->news);
    api_signal_fd(atomic_load_explicit(&sub->fd, memory_order_relaxed));
}

void sub_tell(struct bus *bus)
{
    uint32_t index = 0;
    for (uint32_t number = session_sub_news(bus->session); number != 0;
         number = session_sub_news(bus->session)) {
        if (id_map_get(&bus->subs_by_number, number, &index))
            tell_sub(bus->sub_slots[index]);
    }
}

void sub_tell_all(struct bus *bus)
{
    LIST_EACH(link, &bus->subs)
        tell_sub(LIST_OWNER(link, struct bus_sub, link));
}
