/* SPDX-License-Identifier: MPL-2.0 */
/* sub.c -- subscriptions: frames out of the session, messages to the application and back.
 *
 * This is the hot path of readers.  A receiver takes many frames from the session with one lock and
 * hands them out without any.  Each lies in a struct bus_msg of the subscription's own, so nothing
 * is allocated once there are as many as the application holds.
 *
 * Messages come back over a stack without locks (come_back), from any thread; whoever next has the
 * lock (the receiver when it fetches more, the library's thread in each turn) takes all of it and
 * acknowledges.  When subscription or bus is closed, the stack is exchanged for the mark DETACHED:
 * what comes back then is freed at once.
 *
 * A subscription is counted by its handle and by each message that is out of its hands, whether
 * given to the application or ready to be given; messages are counted many at a time. */
#include "libbus/api/api_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libbus/base/must.h"
#include "libbus/base/pattern.h"

enum {
    FETCH_FRAMES = 512,      /* taken with one lock */
    FETCH_BYTES = 64 * 1024, /* ... and no more once they have so many bytes */
    CHUNK_FIRST = 16,        /* messages allocated together at first; then as many again */
};

/* A topic's name, for as long as the subscription and its messages live. */
struct name {
    struct name *next;
    char text[LIMIT_NAME_BYTES + 1];
};

struct chunk {
    struct chunk *next;
    struct bus_msg msgs[];
};

struct bus_sub {
    struct bus *bus;
    uint32_t number; /* the session's */
    uint32_t index;  /* in bus->sub_slots */
    atomic_ulong refs;
    atomic_int fd; /* -1: not asked for */
    atomic_bool is_waiting;
    _Atomic(struct bus_msg *) come_back;

    /* with the bus's lock */
    struct list link; /* in bus->subs */
    pthread_cond_t news;
    unsigned waiters;
    struct bus_msg *spare; /* came back, may be used again */
    uint32_t spare_count;

    /* the receiver's */
    _Atomic(struct bus_msg *) ready; /* fetched, to be given out; atomic for bus_sub_fd() alone */
    struct bus_msg *pool;            /* unused */
    uint32_t pool_count;
    uint32_t msg_count; /* ever allocated */
    bool is_pool_short; /* the last fetch could have taken more */
    struct chunk *chunks;
    struct bus_msg *given; /* error, gap or end given last: acknowledged by the next call */
    const char *slot_topic;
    uint64_t slot_seq;
    uint64_t gap_first;
    uint64_t gap_count;
    struct memory memory; /* of topics */
    struct id_map topics; /* broker's number -> index into topic_names */
    struct name **topic_names;
    uint32_t topic_count;
    uint32_t topic_room;
    struct name *spare_name; /* reserved before a frame is taken */
    uint32_t last_topic;
    const char *last_name; /* of last_topic; NULL: none yet */
};

static struct bus_msg detached_mark;
#define DETACHED (&detached_mark)

struct bus *sub_bus(const struct bus_sub *sub)
{
    return sub->bus;
}

/* ---- counting -------------------------------------------------------------------------------- */

static void sub_unref(struct bus_sub *sub, unsigned long count)
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
    if (head == NULL) { /* the receiver waits and will not collect: the library's thread shall */
        api_lock(waited_for);
        api_unlock_wake(waited_for);
    }
    api_unref(waited_for);
}

/* Slots of one topic whose numbers follow each other: acknowledged together. */
struct run {
    uint32_t topic;
    uint64_t first_seq;
    uint64_t count;
};

/* Lock. */
static void acknowledge(struct bus_sub *sub, struct run *run)
{
    if (run->count > 0)
        session_ack_run(sub->bus->session, sub->number, run->topic, run->first_seq, run->count);
    run->count = 0;
}

/* One slot, or the missing ones of a gap, is done with, or goes back; an end is nobody's slot, and
 * a piece is none as long as there are more.  Lock. */
static void finish(struct bus_sub *sub, struct run *run, const struct bus_msg *msg)
{
    bool is_slot = msg->kind == SESSION_ITEM_VALUE || msg->kind == SESSION_ITEM_ERROR;
    if (is_slot && msg->done == MSG_ACKNOWLEDGED && msg->lease == 0 && run->topic == msg->number &&
        run->first_seq + run->count == msg->seq && run->count > 0) {
        run->count += msg->count;
        return;
    }
    acknowledge(sub, run);
    if (msg->lease != 0) {
        if (msg->done != MSG_SETTLED)
            session_task_end(sub->bus->session, msg->lease,
                             msg->done == MSG_ACKNOWLEDGED ? SESSION_TASK_DONE
                                                           : SESSION_TASK_RETURNED,
                             0, SPAN_NONE);
        return;
    }
    if (msg->kind == SESSION_ITEM_GAP)
        session_ack(sub->bus->session, sub->number, msg->number, msg->seq + msg->count - 1);
    else if (msg->kind == SESSION_ITEM_PAST)
        session_ack_past(sub->bus->session, sub->number, msg->number);
    else if (is_slot && msg->done == MSG_ACKNOWLEDGED)
        *run = (struct run){.topic = msg->number, .first_seq = msg->seq, .count = msg->count};
    else if (is_slot) /* of many the first, and so all behind it */
        session_return(sub->bus->session, sub->number, msg->number, msg->seq);
}

/* Drops count references at once: messages that came together lie in one batch. */
static void drop(struct buffer *buffer, unsigned count)
{
    if (count > 0 && atomic_fetch_sub_explicit(&buffer->refs, count, memory_order_acq_rel) == count)
        buffer->release(buffer);
}

/* Acknowledges a stack of messages, oldest first, and keeps them for use; returns their number.
 * Lock. */
static uint32_t take_back(struct bus_sub *sub, struct bus_msg *stack)
{
    bool is_open = sub->bus->session != NULL;
    struct run run = {.count = 0};
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
            finish(sub, &run, msg);
        if (msg->buffer != NULL && msg->buffer != held) {
            drop(held, held_count);
            held = msg->buffer;
            held_count = 0;
        }
        held_count += msg->buffer != NULL;
        msg->buffer = NULL;
        msg->next = sub->spare;
        sub->spare = msg;
        count++;
    }
    drop(held, held_count);
    if (is_open)
        acknowledge(sub, &run);
    sub->spare_count += count;
    return count;
}

/* Lock. */
static void collect(struct bus_sub *sub)
{
    struct bus_msg *head = atomic_load_explicit(&sub->come_back, memory_order_relaxed);
    if (head == NULL || head == DETACHED)
        return;
    /* Only who has the lock takes or detaches, so it is no mark now either. */
    head = atomic_exchange_explicit(&sub->come_back, NULL, memory_order_acq_rel);
    atomic_fetch_sub_explicit(&sub->refs, take_back(sub, head), memory_order_relaxed);
}

/* Lock. */
static void detach(struct bus_sub *sub)
{
    struct bus_msg *head =
        atomic_exchange_explicit(&sub->come_back, DETACHED, memory_order_acq_rel);
    if (head != DETACHED)
        atomic_fetch_sub_explicit(&sub->refs, take_back(sub, head), memory_order_relaxed);
}

void sub_collect_all(struct bus *bus)
{
    LIST_EACH(link, &bus->subs)
        collect(LIST_OWNER(link, struct bus_sub, link));
}

void sub_detach_all(struct bus *bus)
{
    LIST_EACH(link, &bus->subs)
        detach(LIST_OWNER(link, struct bus_sub, link));
}

/* ---- news ------------------------------------------------------------------------------------ */

static void tell(struct bus_sub *sub)
{
    if (sub->waiters > 0)
        lookout_broadcast(sub->bus, &sub->news);
    api_signal_fd(atomic_load_explicit(&sub->fd, memory_order_relaxed));
}

void sub_tell(struct bus *bus)
{
    uint32_t index = 0;
    for (uint32_t number = session_sub_news(bus->session); number != 0;
         number = session_sub_news(bus->session)) {
        if (id_map_get(&bus->subs_by_number, number, &index))
            tell(bus->sub_slots[index]);
    }
}

void sub_tell_all(struct bus *bus)
{
    LIST_EACH(link, &bus->subs)
        tell(LIST_OWNER(link, struct bus_sub, link));
}

/* Lock. */
static bool is_readable(const struct bus_sub *sub)
{
    const struct bus *bus = sub->bus;
    return atomic_load_explicit(&sub->ready, memory_order_relaxed) != NULL ||
           api_over(bus) != BUS_OK || session_sub_is_readable(bus->session, sub->number);
}

/* Lock. */
static void settle_fd(struct bus_sub *sub)
{
    int fd = atomic_load_explicit(&sub->fd, memory_order_relaxed);
    if (fd >= 0 && !is_readable(sub))
        api_clear_fd(fd);
}

int bus_sub_fd(const struct bus_sub *sub)
{
    struct bus_sub *own = (struct bus_sub *)(uintptr_t)sub; /* made on demand, once */
    if (sub == NULL || api_is_foreign(sub->bus))
        return -1;
    api_lock(own->bus);
    int fd = atomic_load(&own->fd);
    if (fd < 0) {
        fd = api_event_fd();
        own->bus->has_sub_fd = true;
        if (fd >= 0 && is_readable(own))
            api_signal_fd(fd);
        atomic_store(&own->fd, fd);
    }
    api_unlock(own->bus);
    return fd;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* A place in bus->sub_slots; false: no memory.  Lock. */
static bool place_reserve(struct bus *bus, uint32_t *out_index)
{
    uint32_t index = 0;
    while (index < bus->sub_room && bus->sub_slots[index] != NULL)
        index++;
    if (index == bus->sub_room) {
        uint32_t room = bus->sub_room > 0 ? bus->sub_room * 2 : 8;
        struct bus_sub **grown = realloc(bus->sub_slots, room * sizeof *grown);
        if (grown == NULL)
            return false;
        memset(grown + bus->sub_room, 0, (room - bus->sub_room) * sizeof(struct bus_sub *));
        bus->sub_slots = grown;
        bus->sub_room = room;
    }
    *out_index = index;
    return id_map_reserve(&bus->subs_by_number);
}

static struct bus_sub *sub_new(struct bus *bus)
{
    struct bus_sub *sub = calloc(1, sizeof *sub);
    if (sub == NULL)
        return NULL;
    if (!api_cond_init(&sub->news)) {
        free(sub);
        return NULL;
    }
    atomic_init(&sub->refs, 1);
    atomic_init(&sub->fd, -1);
    atomic_init(&sub->is_waiting, false);
    atomic_init(&sub->come_back, NULL);
    atomic_init(&sub->ready, NULL);
    memory_heap_init(&sub->memory, UINT64_MAX);
    id_map_init(&sub->topics, &sub->memory);
    list_init(&sub->link);
    sub->bus = bus;
    api_ref(bus);
    return sub;
}

static enum bus_err check_options(const struct bus_sub_options *given,
                                  struct bus_sub_options *options)
{
    if (given != NULL && !options_take(options, sizeof *options, given, given->struct_bytes))
        return BUS_EINVAL;
    if (options->name != NULL && !name_is_valid(span_text(options->name)))
        return BUS_EINVAL;
    if (options->from_seq < BUS_FROM_NOW || options->keep_ms < 0 ||
        options->keep_ms > LIMIT_PERIOD_MS_MAX ||
        (options->overflow != BUS_OVERFLOW_BLOCK && options->overflow != BUS_OVERFLOW_GAP) ||
        (options->is_in_pieces != 0 && options->is_in_pieces != 1))
        return BUS_EINVAL;
    if (options->group == NULL)
        return BUS_OK;
    bool is_group = party_is_valid(span_text(options->group)) &&
                    strlen(options->group) <= LIMIT_GROUP_NAME_BYTES && options->name == NULL &&
                    options->overflow == BUS_OVERFLOW_BLOCK && options->is_in_pieces == 0;
    bool is_bounded = options->credit >= 0 && options->credit <= LIMIT_GROUP_CREDIT &&
                      options->deliver_max >= 0 && options->deliver_max <= LIMIT_DELIVER &&
                      options->lease_ms >= 0 && options->lease_ms <= LIMIT_PERIOD_MS_MAX;
    return is_group && is_bounded ? BUS_OK : BUS_EINVAL;
}

/* Lock. */
static enum bus_err subscribe(struct bus *bus, const char *pattern,
                              const struct bus_sub_options *options, struct bus_sub *sub)
{
    const struct session_sub_options wanted = {
        .name = span_text(options->name),
        .group = span_text(options->group),
        .credit = (uint32_t)options->credit,
        .lease_ms = (uint64_t)options->lease_ms,
        .deliver_max = (uint32_t)options->deliver_max,
        .from_seq = options->from_seq,
        .overflow = (uint64_t)options->overflow,
        .keep_ms = options->keep_ms > 0 ? (uint64_t)options->keep_ms : DEFAULT_SUB_KEEP_MS,
        .is_in_pieces = options->is_in_pieces != 0,
    };
    enum bus_err err = api_over(bus);
    if (err == BUS_OK && !place_reserve(bus, &sub->index))
        err = BUS_ENOMEM;
    if (err == BUS_OK)
        err = (enum bus_err)session_subscribe(bus->session, span_text(pattern), &wanted,
                                              &sub->number);
    if (err != BUS_OK)
        return err;
    must(id_map_put(&bus->subs_by_number, sub->number, sub->index)); /* reserved */
    bus->sub_slots[sub->index] = sub;
    list_push(&bus->subs, &sub->link);
    return BUS_OK;
}

enum bus_err bus_sub_open(struct bus *bus, const char *pattern,
                          const struct bus_sub_options *options, struct bus_sub **out_sub)
{
    struct bus_sub_options known;
    bus_sub_options_init(&known);
    if (bus == NULL || pattern == NULL || out_sub == NULL || !pattern_is_valid(span_text(pattern)))
        return BUS_EINVAL;
    if (api_is_foreign(bus))
        return BUS_ECLOSED;
    enum bus_err err = check_options(options, &known);
    if (err != BUS_OK)
        return err;
    struct bus_sub *sub = sub_new(bus);
    if (sub == NULL)
        return BUS_ENOMEM;
    api_lock(bus);
    err = subscribe(bus, pattern, &known, sub);
    api_unlock_wake(bus);
    if (err == BUS_OK)
        *out_sub = sub;
    else
        sub_unref(sub, 1);
    return err;
}

enum bus_err bus_sub_add(struct bus_sub *sub, const char *pattern)
{
    if (sub == NULL || pattern == NULL || !pattern_is_valid(span_text(pattern)))
        return BUS_EINVAL;
    struct bus *bus = sub->bus;
    if (api_is_foreign(bus))
        return BUS_ECLOSED;
    api_lock(bus);
    enum bus_err err = api_over(bus);
    if (err == BUS_OK)
        err = (enum bus_err)session_sub_add(bus->session, sub->number, span_text(pattern));
    api_unlock_wake(bus);
    return err;
}

enum bus_err bus_sub_drain(struct bus_sub *sub)
{
    if (sub == NULL)
        return BUS_EINVAL;
    struct bus *bus = sub->bus;
    if (api_is_foreign(bus))
        return BUS_ECLOSED;
    api_lock(bus);
    enum bus_err err = api_ended(bus);
    if (err == BUS_OK)
        err = (enum bus_err)session_sub_drain(bus->session, sub->number);
    api_unlock_wake(bus);
    return err;
}

/* The error, gap or end given last is done with. */
static void finish_given(struct bus_sub *sub)
{
    struct bus_msg *given = sub->given;
    if (given == NULL)
        return;
    sub->given = NULL;
    given->done = MSG_ACKNOWLEDGED;
    sub_give_back(given);
}

static void sub_end(struct bus_sub **sub, bool is_drop)
{
    if (sub == NULL || *sub == NULL)
        return;
    struct bus_sub *closing = *sub;
    struct bus *bus = closing->bus;
    unsigned long dropped = 1;
    *sub = NULL;
    if (api_is_foreign(bus))
        return;
    finish_given(closing);
    api_lock(bus);
    detach(closing);
    list_remove(&closing->link);
    id_map_remove(&bus->subs_by_number, closing->number);
    bus->sub_slots[closing->index] = NULL;
    if (bus->session != NULL)
        session_unsubscribe(bus->session, closing->number, is_drop);
    api_unlock_wake(bus);
    for (struct bus_msg *msg = atomic_load(&closing->ready); msg != NULL; msg = msg->next) {
        buffer_unref(&msg->buffer);
        dropped++;
    }
    sub_unref(closing, dropped);
}

void bus_sub_close(struct bus_sub **sub)
{
    sub_end(sub, false);
}

void bus_sub_drop(struct bus_sub **sub)
{
    sub_end(sub, true);
}

/* ---- fetching -------------------------------------------------------------------------------- */

/* More unused messages, as many again as there are, if they are short.  Lock. */
static void pool_grow(struct bus_sub *sub)
{
    bool is_short =
        sub->pool_count < CHUNK_FIRST || (sub->is_pool_short && sub->pool_count < FETCH_FRAMES);
    if (!is_short)
        return;
    uint32_t count = sub->msg_count < CHUNK_FIRST ? CHUNK_FIRST : sub->msg_count;
    if (count > FETCH_FRAMES)
        count = FETCH_FRAMES;
    struct chunk *chunk = malloc(sizeof *chunk + count * sizeof(struct bus_msg));
    if (chunk == NULL)
        return; /* those that there are will have to do */
    chunk->next = sub->chunks;
    sub->chunks = chunk;
    for (uint32_t i = 0; i < count; i++) {
        chunk->msgs[i].sub = sub;
        chunk->msgs[i].buffer = NULL;
        chunk->msgs[i].next = sub->pool;
        sub->pool = &chunk->msgs[i];
    }
    sub->pool_count += count;
    sub->msg_count += count;
}

/* What came back becomes usable.  Lock. */
static void pool_refill(struct bus_sub *sub)
{
    if (sub->spare == NULL)
        return;
    if (sub->pool == NULL) {
        sub->pool = sub->spare;
        sub->pool_count = sub->spare_count;
        sub->spare = NULL;
        sub->spare_count = 0;
        return;
    }
    while (sub->spare != NULL && sub->pool_count < FETCH_FRAMES) {
        struct bus_msg *msg = sub->spare;
        sub->spare = msg->next;
        msg->next = sub->pool;
        sub->pool = msg;
        sub->spare_count--;
        sub->pool_count++;
    }
}

/* Room for the name of one more topic. */
static bool name_reserve(struct bus_sub *sub)
{
    if (sub->spare_name == NULL)
        sub->spare_name = malloc(sizeof *sub->spare_name);
    if (sub->topic_count == sub->topic_room) {
        uint32_t room = sub->topic_room > 0 ? sub->topic_room * 2 : 8;
        struct name **grown = realloc(sub->topic_names, room * sizeof *grown);
        if (grown == NULL)
            return false;
        sub->topic_names = grown;
        sub->topic_room = room;
    }
    return sub->spare_name != NULL && id_map_reserve(&sub->topics);
}

/* The name of a topic, reserved for before; lock. */
static const char *name_of(struct bus_sub *sub, uint32_t topic)
{
    uint32_t index = 0;
    if (sub->last_name != NULL && sub->last_topic == topic)
        return sub->last_name;
    if (!id_map_get(&sub->topics, topic, &index)) {
        struct span name = session_topic_name(sub->bus->session, topic);
        struct name *own = sub->spare_name;
        sub->spare_name = NULL;
        must(name.bytes <= LIMIT_NAME_BYTES);
        if (name.bytes > 0)
            memcpy(own->text, name.data, name.bytes);
        own->text[name.bytes] = '\0';
        index = sub->topic_count++;
        sub->topic_names[index] = own;
        must(id_map_put(&sub->topics, topic, index));
    }
    sub->last_topic = topic;
    sub->last_name = sub->topic_names[index]->text;
    return sub->last_name;
}

static void fill(struct bus_msg *msg, const struct session_item *item, const char *topic)
{
    msg->next = NULL;
    msg->buffer = item->buffer;
    msg->value = item->value;
    msg->topic = topic;
    msg->seq = item->seq;
    msg->count = item->count;
    msg->offset = item->offset;
    msg->total_bytes = item->total_bytes;
    msg->stamp_ns = item->stamp_ns;
    msg->number = item->topic;
    msg->kind = (uint8_t)item->kind;
    msg->delivery = item->delivery;
    msg->is_request = item->reply_to != FRAME_NO_REPLY;
    msg->lease = item->lease;
}

/* How many values an item has; 1 if it is something else. */
static uint32_t values_of(const struct session_item *item)
{
    return item->kind == SESSION_ITEM_VALUE ? (uint32_t)item->count : 1;
}

static struct bus_msg *pool_take(struct bus_sub *sub)
{
    struct bus_msg *msg = sub->pool;
    sub->pool = msg->next;
    sub->pool_count -= 1;
    return msg;
}

/* Turns an item into messages at *end, one for each value; where the next one goes. */
static struct bus_msg **fill_all(struct bus_sub *sub, struct bus_msg **end,
                                 struct session_item *item)
{
    const char *topic = name_of(sub, item->topic);
    size_t stride = frame_padded(item->value.bytes);
    uint32_t count = values_of(item);
    for (uint32_t i = 0; i < count; i++) {
        struct bus_msg *msg = pool_take(sub);
        fill(msg, item, topic);
        if (item->kind == SESSION_ITEM_VALUE)
            msg->count = 1;
        item->seq += 1;
        item->value.data = (const char *)item->value.data + stride;
        *end = msg;
        end = &msg->next;
    }
    return end;
}

/* Takes what the session has, up to the bounds of one fetch; the code that ended it.  Lock. */
static enum wire_code fetch(struct bus_sub *sub, uint32_t *out_count, struct buffer **out_error)
{
    struct session *session = sub->bus->session;
    struct session_item item;
    enum wire_code code = CODE_OK;
    struct bus_msg *first = NULL;
    struct bus_msg **end = &first;
    uint32_t count = 0;
    size_t bytes = 0;
    while (count < FETCH_FRAMES && bytes < FETCH_BYTES && sub->pool != NULL && name_reserve(sub)) {
        uint32_t room = FETCH_FRAMES - count;
        code =
            session_sub_take_run(session, sub->number,
                                 sub->pool_count < room ? sub->pool_count : room, &item, out_error);
        if (code != CODE_OK)
            break;
        count += values_of(&item);
        bytes += values_of(&item) * item.value.bytes + FRAME_HEADER_BYTES;
        end = fill_all(sub, end, &item);
    }
    atomic_fetch_add_explicit(&sub->refs, count, memory_order_relaxed);
    atomic_store_explicit(&sub->ready, first, memory_order_relaxed);
    sub->is_pool_short = sub->pool == NULL;
    *out_count = count;
    if (count == 0 && code == CODE_OK)
        return CODE_ENOMEM;
    return code;
}

/* The same of one item: all of its values are one message, so that nothing is done for each. */
static enum wire_code fetch_many(struct bus_sub *sub, uint32_t *out_count,
                                 struct buffer **out_error)
{
    struct session_item item;
    if (sub->pool == NULL || !name_reserve(sub))
        return CODE_ENOMEM;
    enum wire_code code =
        session_sub_take_run(sub->bus->session, sub->number, UINT32_MAX, &item, out_error);
    if (code != CODE_OK)
        return code;
    const char *topic = name_of(sub, item.topic);
    struct bus_msg *msg = pool_take(sub);
    fill(msg, &item, topic);
    if (msg->buffer != NULL)
        drop(msg->buffer, values_of(&item) - 1); /* it came with one for each */
    atomic_fetch_add_explicit(&sub->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&sub->ready, msg, memory_order_relaxed);
    *out_count = 1;
    return CODE_OK;
}

static enum bus_err say_refused(struct bus_sub *sub, enum wire_code code, struct buffer *encoded,
                                struct bus_error **reterr)
{
    if (reterr == NULL)
        return (enum bus_err)code;
    if (encoded != NULL && encoded->bytes > 0)
        *reterr = error_from_wire(buffer_span(encoded));
    else if (code == CODE_ENOMEM)
        *reterr = &error_no_memory;
    else
        (void)api_say_over(sub->bus, (enum bus_err)code, reterr);
    return (enum bus_err)code;
}

/* Nothing is here: waits for news.  BUS_OK: look again.  Lock. */
static enum bus_err wait_for_news(struct bus_sub *sub, int64_t deadline_ns,
                                  struct bus_error **reterr)
{
    struct bus *bus = sub->bus;
    enum bus_err err = api_over(bus);
    if (err != BUS_OK)
        return api_say_over(bus, err, reterr);
    settle_fd(sub);
    atomic_store(&sub->is_waiting, true);
    bool is_awake = lookout_wait(bus, &sub->news, &sub->waiters, deadline_ns);
    atomic_store(&sub->is_waiting, false);
    return is_awake ? BUS_OK : error_say_static(reterr, BUS_ETIMEDOUT, &error_timed_out);
}

/* Until something is ready. */
static enum bus_err refill(struct bus_sub *sub, bool is_many, int64_t timeout_ms,
                           struct bus_error **reterr)
{
    struct bus *bus = sub->bus;
    enum bus_err err = BUS_OK;
    bool has_waited = false;
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    api_lock(bus);
    while (err == BUS_OK && atomic_load_explicit(&sub->ready, memory_order_relaxed) == NULL) {
        uint32_t count = 0;
        struct buffer *encoded = NULL;
        if (bus->session == NULL) {
            err = api_say_over(bus, BUS_ECLOSED, reterr);
            break;
        }
        collect(sub);
        pool_refill(sub);
        pool_grow(sub);
        enum wire_code code =
            is_many ? fetch_many(sub, &count, &encoded) : fetch(sub, &count, &encoded);
        if (session_control_is_due(bus->session)) /* credit, acknowledgements */
            thread_say(bus);
        if (count == 0 && code != CODE_ETIMEDOUT) {
            err = say_refused(sub, code, encoded, reterr);
        } else if (count == 0 && !thread_look_for_data(bus)) {
            has_waited = true;
            err = wait_for_news(sub, deadline_ns, reterr);
        }
        buffer_unref(&encoded);
    }
    if (err == BUS_OK && !has_waited)
        lookout_found(bus);
    api_unlock(bus);
    return err;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static enum bus_err raise(const struct bus_msg *msg, struct bus_error **reterr)
{
    if (reterr != NULL)
        *reterr = error_from_wire(msg->value);
    return BUS_EFAILED;
}

/* Hands out the first that is ready. */
static enum bus_err give(struct bus_sub *sub, struct bus_msg **out_msg, struct bus_error **reterr)
{
    struct bus_msg *msg = atomic_load_explicit(&sub->ready, memory_order_relaxed);
    atomic_store_explicit(&sub->ready, msg->next, memory_order_relaxed);
    sub->slot_topic = msg->topic;
    sub->slot_seq = msg->seq;
    if (msg->kind == SESSION_ITEM_VALUE || msg->kind == SESSION_ITEM_PIECE) {
        *out_msg = msg;
        return BUS_OK;
    }
    sub->given = msg;
    switch ((enum session_item_kind)msg->kind) {
    case SESSION_ITEM_VALUE:
    case SESSION_ITEM_PIECE: break;
    case SESSION_ITEM_ERROR: return raise(msg, reterr);
    case SESSION_ITEM_END:
        if (msg->value.bytes > 0)
            return raise(msg, reterr);
        return error_say(reterr, BUS_EENDED, ERROR_TYPE_LEFT,
                         "the writer of %s ended and owes nothing", msg->topic);
    case SESSION_ITEM_GAP:
    case SESSION_ITEM_PAST: break;
    }
    bool is_past = msg->kind == SESSION_ITEM_PAST;
    sub->gap_first = msg->seq;
    sub->gap_count = msg->count;
    return error_say(reterr, BUS_EOVERRUN, is_past ? ERROR_TYPE_ATTEMPT_OVER : ERROR_TYPE_NOT_KEPT,
                     "%llu frames of %s are missing, from number %llu on%s",
                     (unsigned long long)msg->count, msg->topic, (unsigned long long)msg->seq,
                     is_past ? ": their attempt of the job is over" : "");
}

static enum bus_err receive(struct bus_sub *sub, bool is_many, int64_t timeout_ms,
                            struct bus_msg **out_msg, struct bus_error **reterr)
{
    if (sub == NULL || out_msg == NULL || !options_time_is_valid(timeout_ms))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "%s needs sub, out_msg and a timeout_ms of at least 0, or BUS_FOREVER",
                         is_many ? "bus_sub_recv_many()" : "bus_sub_recv()");
    if (api_is_foreign(sub->bus))
        return error_say_static(reterr, BUS_ECLOSED, &error_forked);
    if (sub->given != NULL)
        finish_given(sub);
    if (atomic_load_explicit(&sub->ready, memory_order_relaxed) == NULL) {
        enum bus_err err = refill(sub, is_many, timeout_ms, reterr);
        if (err != BUS_OK)
            return err;
    }
    enum bus_err err = give(sub, out_msg, reterr);
    if (atomic_load_explicit(&sub->fd, memory_order_relaxed) >= 0 &&
        atomic_load_explicit(&sub->ready, memory_order_relaxed) == NULL) {
        api_lock(sub->bus);
        settle_fd(sub);
        api_unlock(sub->bus);
    }
    return err;
}

enum bus_err bus_sub_recv(struct bus_sub *sub, int64_t timeout_ms, struct bus_msg **out_msg,
                          struct bus_error **reterr)
{
    return receive(sub, false, timeout_ms, out_msg, reterr);
}

enum bus_err bus_sub_recv_many(struct bus_sub *sub, int64_t timeout_ms, struct bus_msg **out_msg,
                               struct bus_error **reterr)
{
    return receive(sub, true, timeout_ms, out_msg, reterr);
}

const char *bus_sub_slot(const struct bus_sub *sub, uint64_t *out_seq)
{
    if (out_seq != NULL && sub->slot_topic != NULL)
        *out_seq = sub->slot_seq;
    return sub->slot_topic;
}

uint64_t bus_sub_gap(const struct bus_sub *sub, uint64_t *out_first_seq)
{
    if (out_first_seq != NULL)
        *out_first_seq = sub->gap_first;
    return sub->gap_count;
}
