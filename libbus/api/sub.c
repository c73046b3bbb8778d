/* SPDX-License-Identifier: MPL-2.0 */
/* sub.c -- subscriptions: opened, read, closed.
 *
 * This is the hot path of readers.  A receiver takes many frames from the session under one lock,
 * and hands them out without a lock.  Each frame lies in a struct bus_msg of the subscription, so
 * nothing is allocated once there are as many as the application holds.
 *
 * The handle of a subscription counts, and each message that is ready or with the application
 * counts.  Messages are counted many at a time. */
#include "libbus/api/blocked.h"
#include "libbus/api/clock.h"
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/event_fd.h"
#include "libbus/api/fork.h"
#include "libbus/api/lane_wait.h"
#include "libbus/api/link_turn.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/api/news.h"
#include "libbus/api/options.h"
#include "libbus/api/sub_list.h"
#include "libbus/api/waiters.h"
#include "libbus/base/must.h"
#include "libbus/base/pattern.h"

#include <stdlib.h>
#include <string.h>

enum {
    FETCH_FRAMES = 512,      /* taken with one lock */
    FETCH_BYTES = 64 * 1024, /* ... and no more once they have so many bytes */
    CHUNK_FIRST = 16,        /* messages allocated together at first; then as many again */
};

/* ---- news ------------------------------------------------------------------------------------ */

/* Lock held. */
static bool is_readable(const struct bus_sub *sub)
{
    const struct bus *bus = sub->bus;
    return atomic_load_explicit(&sub->ready, memory_order_relaxed) != NULL ||
           api_over(bus) != BUS_OK || session_sub_is_readable(bus->session, sub->number);
}

/* Lock held. */
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
        own->bus->has_reader_fd = true;
        if (fd >= 0 && is_readable(own))
            api_signal_fd(fd);
        atomic_store(&own->fd, fd);
    }
    api_unlock(own->bus);
    return fd;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* A place in bus->sub_slots; false: no memory.  Lock held. */
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

static enum bus_err say_option(const char *text)
{
    return error_say(NULL, BUS_EINVAL, ERROR_TYPE_ARGUMENT, "bus_sub_options: %s", text);
}

/* Checks the options of a member of a group. */
static enum bus_err check_member(const struct bus_sub_options *options)
{
    if (!party_is_valid(span_text(options->group)) ||
        strlen(options->group) > LIMIT_GROUP_NAME_BYTES)
        return say_option("group needs 1 to 180 bytes of UTF-8, without '/', '+' and '#'");
    if (options->name != NULL || options->overflow != BUS_OVERFLOW_BLOCK ||
        options->is_in_pieces != 0)
        return say_option("group cannot be used with name, overflow or is_in_pieces");
    if (options->credit < 0 || options->credit > LIMIT_GROUP_CREDIT)
        return say_option("credit must be from 0 to 1024");
    if (options->deliver_max < 0 || options->deliver_max > LIMIT_DELIVER)
        return say_option("deliver_max must be from 0 to 16");
    if (options->lease_ms < 0 || options->lease_ms > LIMIT_PERIOD_MS_MAX)
        return say_option("lease_ms must be from 0 to a day");
    return BUS_OK;
}

static enum bus_err check_options(const struct bus_sub_options *given,
                                  struct bus_sub_options *options)
{
    if (given != NULL && !options_take(options, sizeof *options, given, given->struct_bytes))
        return say_option("they are not initialised, or were made for a newer library");
    if (options->name != NULL && !name_is_valid(span_text(options->name)))
        return say_option("name needs 1 to 200 bytes of UTF-8 without control characters");
    if (options->from_seq < BUS_FROM_OLDEST)
        return say_option("from_seq must be BUS_FROM_OLDEST, BUS_FROM_NOW or a number");
    if (options->keep_ms < 0 || options->keep_ms > LIMIT_PERIOD_MS_MAX)
        return say_option("keep_ms must be from 0 to a day");
    if (options->overflow != BUS_OVERFLOW_BLOCK && options->overflow != BUS_OVERFLOW_GAP)
        return say_option("overflow is no enum bus_overflow");
    if (options->is_in_pieces != 0 && options->is_in_pieces != 1)
        return say_option("is_in_pieces must be 0 or 1");
    return options->group != NULL ? check_member(options) : BUS_OK;
}

/* Says why a pattern is refused.  One level alone mostly means the topics of that name. */
static enum bus_err say_pattern(const char *pattern)
{
    bool is_one_level = name_is_valid(span_text(pattern)) && strchr(pattern, '/') == NULL;
    if (is_one_level && strchr(pattern, '#') == NULL)
        return error_say(NULL, BUS_EINVAL, ERROR_TYPE_NAME,
                         "'%s' matches no topic: topics are PARTY/NAME; did you mean '+/%s'?",
                         pattern, pattern);
    return error_say(NULL, BUS_EINVAL, ERROR_TYPE_NAME,
                     "'%.250s' is not a pattern: it needs PARTY/NAME of at most %d bytes, with + "
                     "for one level or # for all that follow",
                     pattern, LIMIT_NAME_BYTES);
}

/* Lock held. */
static enum bus_err say_not_subscribed(struct bus *bus, enum bus_err err)
{
    switch (err) {
    case BUS_OK: return err;
    case BUS_ENOMEM: return error_give(NULL, err, &error_no_memory);
    case BUS_EDENIED:
        return error_say(NULL, err, ERROR_TYPE_NOT_AUTHORISED,
                         "the guard of %s cannot subscribe: its program can", bus->party);
    case BUS_EFULL:
        return error_say(NULL, err, ERROR_TYPE_FULL,
                         "no room for another subscription or pattern: see the limits of the bus");
    case BUS_EINVAL:
        return error_say(NULL, err, ERROR_TYPE_ARGUMENT,
                         "only a member of a group can drain, and a member has one pattern");
    case BUS_ETIMEDOUT:
    case BUS_ETOOBIG:
    case BUS_EPROTO:
    case BUS_ELOST:
    case BUS_EOVERRUN:
    case BUS_EFAILED:
    case BUS_ESETTLED:
    case BUS_EFENCED:
    case BUS_ECLOSED:
    case BUS_EENDED: break;
    }
    return api_say_over(bus, err, NULL);
}

/* Lock held. */
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
    if (bus == NULL || pattern == NULL || out_sub == NULL)
        return error_say_code(BUS_EINVAL, __func__);
    if (api_is_foreign(bus))
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    if (!pattern_is_valid(span_text(pattern)))
        return say_pattern(pattern);
    enum bus_err err = check_options(options, &known);
    if (err != BUS_OK)
        return err;
    struct bus_sub *sub = sub_new(bus);
    if (sub == NULL)
        return error_say_code(BUS_ENOMEM, __func__);
    api_lock(bus);
    err = subscribe(bus, pattern, &known, sub);
    (void)say_not_subscribed(bus, err);
    api_unlock_wake(bus);
    if (err == BUS_OK)
        *out_sub = sub;
    else
        sub_unref(sub, 1);
    return err;
}

enum bus_err bus_sub_add(struct bus_sub *sub, const char *pattern)
{
    if (sub == NULL || pattern == NULL)
        return error_say_code(BUS_EINVAL, __func__);
    struct bus *bus = sub->bus;
    if (api_is_foreign(bus))
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    if (!pattern_is_valid(span_text(pattern)))
        return say_pattern(pattern);
    api_lock(bus);
    enum bus_err err = api_over(bus);
    if (err == BUS_OK)
        err = (enum bus_err)session_sub_add(bus->session, sub->number, span_text(pattern));
    (void)say_not_subscribed(bus, err);
    api_unlock_wake(bus);
    return err;
}

enum bus_err bus_sub_drain(struct bus_sub *sub)
{
    if (sub == NULL)
        return error_say_code(BUS_EINVAL, __func__);
    struct bus *bus = sub->bus;
    if (api_is_foreign(bus))
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    api_lock(bus);
    enum bus_err err = api_ended(bus);
    if (err == BUS_OK)
        err = (enum bus_err)session_sub_drain(bus->session, sub->number);
    (void)say_not_subscribed(bus, err);
    api_unlock_wake(bus);
    return err;
}

/* Acknowledges the error, gap or end that was given last. */
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
    sub_detach_one(closing);
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

/* Allocates messages if few are unused: as many again as there are.  Lock held. */
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
        return; /* the existing messages must do */
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

/* Makes the messages that came back usable.  Lock held. */
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

/* Makes room for the name of one more topic. */
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

/* The name of a topic; name_reserve() made room for it.  Lock held. */
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
    msg->offset = item->kind == SESSION_ITEM_END ? item->first : item->offset;
    msg->total_bytes = item->total_bytes;
    msg->stamp_ns = item->stamp_ns;
    msg->origin = item->origin;
    msg->number = item->topic;
    msg->kind = (uint8_t)item->kind;
    msg->delivery = item->delivery;
    msg->is_acknowledged = false;
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

/* Turns an item into messages at *end, one for each value.  Returns where the next message goes. */
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

/* Takes what the session has, up to the bounds of one fetch.  Returns the code that ended the
 * fetch. Lock held. */
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
        code = session_sub_take_range(session, sub->number,
                                      sub->pool_count < room ? sub->pool_count : room, &item,
                                      out_error);
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

/* Takes one item as one message with all its values, so that no value costs work of its own. */
static enum wire_code fetch_many(struct bus_sub *sub, uint32_t *out_count,
                                 struct buffer **out_error)
{
    struct session_item item;
    if (sub->pool == NULL || !name_reserve(sub))
        return CODE_ENOMEM;
    enum wire_code code =
        session_sub_take_range(sub->bus->session, sub->number, UINT32_MAX, &item, out_error);
    if (code != CODE_OK)
        return code;
    const char *topic = name_of(sub, item.topic);
    struct bus_msg *msg = pool_take(sub);
    fill(msg, &item, topic);
    if (msg->buffer != NULL)
        buffer_drop_many(msg->buffer, values_of(&item) - 1); /* it came with one for each value */
    atomic_fetch_add_explicit(&sub->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&sub->ready, msg, memory_order_relaxed);
    *out_count = 1;
    return CODE_OK;
}

static enum bus_err say_refused(struct bus_sub *sub, enum wire_code code, struct buffer *encoded,
                                struct bus_error **reterr)
{
    if (encoded != NULL && encoded->bytes > 0)
        return error_give(reterr, (enum bus_err)code, error_from_wire(buffer_span(encoded)));
    if (code == CODE_ENOMEM)
        return error_give(reterr, BUS_ENOMEM, &error_no_memory);
    return api_say_over(sub->bus, (enum bus_err)code, reterr);
}

/* Waits for news.  BUS_OK: look again.  Lock held. */
static enum bus_err wait_for_news(struct bus_sub *sub, int64_t deadline_ns,
                                  struct bus_error **reterr)
{
    struct bus *bus = sub->bus;
    enum bus_err err = api_over(bus);
    if (err != BUS_OK)
        return api_say_over(bus, err, reterr);
    settle_fd(sub);
    atomic_store(&sub->is_waiting, true);
    bool is_awake = lane_wait(bus, LINK_DATA, &sub->news, &sub->waiters, deadline_ns);
    atomic_store(&sub->is_waiting, false);
    return is_awake ? BUS_OK : error_give(reterr, BUS_ETIMEDOUT, &error_timed_out);
}

/* Waits until something is ready. */
static enum bus_err refill(struct bus_sub *sub, bool is_many, int64_t timeout_ms,
                           struct bus_error **reterr)
{
    struct bus *bus = sub->bus;
    enum bus_err err = BUS_OK;
    bool has_waited = false;
    struct blocked_call blocked = blocked_call(SESSION_WAIT_READS, timeout_ms);
    int64_t deadline_ns = api_deadline_ns(timeout_ms);
    api_lock(bus);
    while (err == BUS_OK && atomic_load_explicit(&sub->ready, memory_order_relaxed) == NULL) {
        uint32_t count = 0;
        struct buffer *encoded = NULL;
        if (bus->session == NULL) {
            err = api_say_over(bus, BUS_ECLOSED, reterr);
            break;
        }
        sub_collect_one(sub);
        pool_refill(sub);
        pool_grow(sub);
        enum wire_code code =
            is_many ? fetch_many(sub, &count, &encoded) : fetch(sub, &count, &encoded);
        if (session_control_is_due(bus->session)) /* credit, acknowledgements */
            thread_say(bus);
        if (count == 0 && code != CODE_ETIMEDOUT) {
            err = say_refused(sub, code, encoded, reterr);
        } else if (count == 0 && blocked.is_on &&
                   session_wait_over(bus->session, SESSION_WAIT_READS, &encoded)) {
            err = error_give(reterr, BUS_EFAILED, error_from_wire(buffer_span(encoded)));
        } else if (count == 0 && !thread_look_for_data(bus)) {
            has_waited = true;
            blocked_begin(bus, &blocked, &(struct session_wait_place){.sub = sub->number});
            err = wait_for_news(sub, deadline_ns, reterr);
        }
        buffer_unref(&encoded);
    }
    blocked_end_by(bus, &blocked, err);
    if (err == BUS_OK && !has_waited)
        waiters_found_data(bus);
    api_unlock(bus);
    return err;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static enum bus_err raise(const struct bus_msg *msg, struct bus_error **reterr)
{
    return error_give(reterr, BUS_EFAILED, error_from_wire(msg->value));
}

static enum bus_err tell_end(struct bus_sub *sub, const struct bus_msg *msg,
                             struct bus_error **reterr)
{
    unsigned long long first = msg->offset;
    unsigned long long last = msg->seq;
    sub->gap_first = msg->offset;
    sub->gap_count = msg->seq - msg->offset + 1;
    if (msg->value.bytes > 0)
        return raise(msg, reterr);
    if (first == last)
        return error_say(reterr, BUS_EENDED, ERROR_TYPE_LEFT,
                         "%s (incarnation %llu) ended and owed nothing", msg->topic, last);
    return error_say(reterr, BUS_EENDED, ERROR_TYPE_LEFT,
                     "%s (incarnations %llu to %llu) ended and owed nothing; their ends are told "
                     "as one",
                     msg->topic, first, last);
}

static enum bus_err tell_gap(struct bus_sub *sub, const struct bus_msg *msg,
                             struct bus_error **reterr)
{
    unsigned long long first = msg->seq;
    unsigned long long last = msg->seq + msg->count - 1;
    sub->gap_first = msg->seq;
    sub->gap_count = msg->count;
    if (msg->kind == SESSION_ITEM_PAST)
        return error_say(reterr, BUS_EOVERRUN, ERROR_TYPE_ATTEMPT_OVER,
                         "%llu slots of %s, from number %llu on, were not read, and their attempt "
                         "of the job is over",
                         (unsigned long long)msg->count, msg->topic, first);
    if (msg->kind == SESSION_ITEM_DROPPED)
        return error_say(reterr, BUS_EOVERRUN, ERROR_TYPE_OVERRUN,
                         "slots %llu to %llu of %s are lost: this reader was too slow, and asked "
                         "to lose slots rather than hold the writer back",
                         first, last, msg->topic);
    return error_say(reterr, BUS_EOVERRUN, ERROR_TYPE_NOT_KEPT,
                     "slots %llu to %llu of %s are gone: what the broker keeps of a topic for late "
                     "readers is bounded (errbusd --topic-keep)",
                     first, last, msg->topic);
}

/* Hands out the first ready message. */
static enum bus_err give(struct bus_sub *sub, struct bus_msg **out_msg, struct bus_error **reterr)
{
    struct bus_msg *msg = atomic_load_explicit(&sub->ready, memory_order_relaxed);
    atomic_store_explicit(&sub->ready, msg->next, memory_order_relaxed);
    sub->slot_topic = msg->topic;
    sub->slot_seq = msg->seq;
    sub->slot_origin = msg->origin;
    if (msg->kind == SESSION_ITEM_VALUE || msg->kind == SESSION_ITEM_PIECE) {
        *out_msg = msg;
        return BUS_OK;
    }
    sub->given = msg;
    switch ((enum session_item_kind)msg->kind) {
    case SESSION_ITEM_VALUE:
    case SESSION_ITEM_PIECE: break;
    case SESSION_ITEM_ERROR: return raise(msg, reterr);
    case SESSION_ITEM_END: return tell_end(sub, msg, reterr);
    case SESSION_ITEM_GAP:
    case SESSION_ITEM_DROPPED:
    case SESSION_ITEM_PAST: break;
    }
    return tell_gap(sub, msg, reterr);
}

static enum bus_err receive(struct bus_sub *sub, bool is_many, int64_t timeout_ms,
                            struct bus_msg **out_msg, struct bus_error **reterr)
{
    if (sub == NULL || out_msg == NULL || !options_wait_is_valid(timeout_ms))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "%s needs sub, out_msg and a timeout_ms of at least 0, or BUS_FOREVER",
                         is_many ? "bus_sub_recv_many()" : "bus_sub_recv()");
    if (api_is_foreign(sub->bus))
        return error_give(reterr, BUS_ECLOSED, &error_forked);
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
    if (sub == NULL)
        return NULL;
    if (out_seq != NULL && sub->slot_topic != NULL)
        *out_seq = sub->slot_seq;
    return sub->slot_topic;
}

uint32_t bus_sub_incarnation(const struct bus_sub *sub, uint64_t *out_later_seq)
{
    if (out_later_seq != NULL)
        *out_later_seq = sub != NULL ? sub->slot_origin.later_seq : 0;
    return sub != NULL ? sub->slot_origin.incarnation : 0;
}

uint64_t bus_sub_gap(const struct bus_sub *sub, uint64_t *out_first_seq)
{
    if (sub == NULL)
        return 0;
    if (out_first_seq != NULL)
        *out_first_seq = sub->gap_first;
    return sub->gap_count;
}
