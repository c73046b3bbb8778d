/* SPDX-License-Identifier: MPL-2.0 */
/* publish.c -- values that are written in one call.
 *
 * This is the hot path of writers: one uncontended lock, a look into a small cache of topics, and
 * the session appends to its open batch.  While the library's thread sleeps, the writer's thread
 * sends what may be sent at once. */
#include "libbus/api/publish.h"

#include "libbus/api/blocked.h"
#include "libbus/api/clock.h"
#include "libbus/api/error.h"
#include "libbus/api/error_wire.h"
#include "libbus/api/event_fd.h"
#include "libbus/api/fork.h"
#include "libbus/api/link_turn.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/api/news.h"
#include "libbus/base/pattern.h"
#include "libbus/session/session_out.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SPANS_ON_STACK = 128 };

enum bus_err publish_whole_name(const struct bus *bus, const char *name,
                                char out[LIMIT_NAME_BYTES + 1])
{
    size_t party_bytes = strlen(bus->party);
    size_t name_bytes = strnlen(name, LIMIT_NAME_BYTES + 1);
    bool is_whole = strchr(name, '/') != NULL;
    size_t prefix_bytes = is_whole ? 0 : party_bytes + 1;
    if (prefix_bytes + name_bytes > LIMIT_NAME_BYTES)
        return BUS_EINVAL;
    if (!is_whole) {
        memcpy(out, bus->party, party_bytes);
        out[party_bytes] = '/';
    }
    memcpy(out + prefix_bytes, name, name_bytes);
    out[prefix_bytes + name_bytes] = '\0';
    if (!topic_is_valid(span_text(out)))
        return BUS_EINVAL;
    bool is_own = strncmp(out, bus->party, party_bytes) == 0 && out[party_bytes] == '/';
    return is_own ? BUS_OK : BUS_EDENIED;
}

static uint64_t value_limit(const struct bus *bus)
{
    uint64_t limit = bus->session != NULL ? session_value_bytes_max(bus->session) : UINT64_MAX;
    return limit < LIMIT_VALUE_BYTES ? limit : LIMIT_VALUE_BYTES;
}

static enum bus_err say_denied(struct bus *bus, const char *topic, struct bus_error **reterr)
{
    if (bus->options.is_guard)
        return error_say(reterr, BUS_EDENIED, ERROR_TYPE_NOT_AUTHORISED,
                         "the guard of %s cannot write: its program can", bus->party);
    return error_say(reterr, BUS_EDENIED, ERROR_TYPE_NOT_YOURS,
                     "%s cannot write '%.250s': it is a topic of another party; a topic of %s with "
                     "levels is '%s/%.250s'",
                     bus->party, topic, bus->party, bus->party, topic);
}

/* The broker ended the wait for room. */
static enum bus_err say_wait_over(const struct bus *bus, struct bus_error **reterr)
{
    struct buffer *error = NULL;
    bool is_over = session_wait_over(bus->session, SESSION_WAIT_ROOM, &error);
    struct bus_error *given = is_over ? error_from_wire(buffer_span(error)) : NULL;
    buffer_unref(&error);
    return error_give(reterr, BUS_EFAILED, given);
}

/* Lock held. */
static enum bus_err say_never_fits(const struct bus *bus, const char *topic,
                                   struct bus_error **reterr)
{
    return error_say(reterr, BUS_EFULL, ERROR_TYPE_NEVER_FITS,
                     "no room for '%.250s', and waiting makes none: a call writes %zu bytes at "
                     "most (outbox_bytes_max), a party %d topics, a topic %" PRId64 " slots, and a "
                     "stopped bus does not wait",
                     topic, bus->options.outbox_bytes_max, LIMIT_TOPICS, INT64_MAX);
}

enum bus_err publish_say(struct bus *bus, enum bus_err err, const char *topic, size_t value_bytes,
                         struct bus_error **reterr)
{
    char whole[LIMIT_NAME_BYTES + 1];
    switch (err) {
    case BUS_OK: return err;
    case BUS_ENOMEM: return error_give(reterr, err, &error_no_memory);
    case BUS_EINVAL:
        if (publish_whole_name(bus, topic, whole) == BUS_EINVAL)
            return error_say(reterr, err, ERROR_TYPE_NAME,
                             "'%.250s' is not a topic: it needs NAME, or %s/NAME, of at most %d "
                             "bytes with the party, without '+' and '#'",
                             topic, bus->party, LIMIT_NAME_BYTES);
        return error_say(reterr, err, ERROR_TYPE_ARGUMENT, "a value of '%.250s' is NULL", topic);
    case BUS_EDENIED: return say_denied(bus, topic, reterr);
    case BUS_ETIMEDOUT: return error_give(reterr, err, &error_timed_out);
    case BUS_EFULL:
        if (bus->options.send_timeout_ms < 0) /* no wait for room ends so */
            return say_never_fits(bus, topic, reterr);
        return error_say(reterr, err, ERROR_TYPE_FULL,
                         "no room for another slot of '%.250s' within %" PRId64 " ms", topic,
                         bus->options.send_timeout_ms);
    case BUS_ETOOBIG:
        return error_say(reterr, err, ERROR_TYPE_TOO_BIG,
                         "a value of %zu bytes is too large for '%.250s': the limit is %" PRIu64
                         " bytes",
                         value_bytes, topic, value_limit(bus));
    case BUS_EENDED:
        return error_say(reterr, err, ERROR_TYPE_COMPLETED,
                         "%s has completed, and writes nothing more", bus->party);
    case BUS_EFAILED: return say_wait_over(bus, reterr);
    case BUS_EPROTO:
    case BUS_ELOST:
    case BUS_EOVERRUN:
    case BUS_ESETTLED:
    case BUS_EFENCED:
    case BUS_ECLOSED: break;
    }
    return api_say_over(bus, err, reterr);
}

/* FNV-1a; names are short. */
static uint32_t hash_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

/* Compares short names faster than strcmp() does. */
static inline bool is_same(const char *a, const char *b)
{
    for (int i = 0; i < 16; i++, a++, b++) {
        if (*a != *b)
            return false;
        if (*a == '\0')
            return true;
    }
    return strcmp(a, b) == 0;
}

static enum bus_err find_topic(struct bus *bus, const char *name, uint32_t *out_topic)
{
    char whole[LIMIT_NAME_BYTES + 1];
    if (strnlen(name, LIMIT_NAME_BYTES + 1) > LIMIT_NAME_BYTES)
        return BUS_EINVAL;
    struct topic_cache_entry *entry = &bus->topics[hash_of(name) % API_TOPIC_CACHE];
    if (!entry->is_used || strcmp(entry->name, name) != 0) {
        uint32_t topic = 0;
        enum bus_err err = publish_whole_name(bus, name, whole);
        if (err != BUS_OK)
            return err;
        enum wire_code code = session_topic(bus->session, span_text(whole), &topic);
        if (code != CODE_OK)
            return (enum bus_err)code;
        memcpy(entry->name, name, strlen(name) + 1);
        entry->topic = topic;
        entry->is_used = true;
    }
    bus->last_topic = entry;
    *out_topic = entry->topic;
    return BUS_OK;
}

static inline enum bus_err topic_of(struct bus *bus, const char *name, uint32_t *out_topic)
{
    if (bus->last_topic == NULL || !is_same(bus->last_topic->name, name))
        return find_topic(bus, name, out_topic);
    *out_topic = bus->last_topic->topic;
    return BUS_OK;
}

enum bus_err publish_topic(struct bus *bus, const char *name, uint32_t *out_topic)
{
    return topic_of(bus, name, out_topic);
}

static void begin_patience(struct bus *bus, uint32_t topic, struct publish_patience *patience)
{
    patience->deadline_ns = api_deadline_ns(bus->options.send_timeout_ms);
    patience->progress = session_write_progress(bus->session, topic);
}

uint64_t bus_room_progress(struct bus *bus, const char *topic)
{
    uint64_t progress = 0;
    uint32_t number = 0;
    if (bus == NULL || api_is_foreign(bus))
        return 0;
    api_lock(bus);
    if (bus->session != NULL && (topic == NULL || topic_of(bus, topic, &number) == BUS_OK))
        progress = session_write_progress(bus->session, number);
    api_unlock(bus);
    return progress;
}

/* Whether the caller keeps the time, in slices. */
static bool is_in_slices(const struct bus *bus)
{
    return bus->options.send_timeout_ms < 0 && bus->options.send_timeout_ms != BUS_FOREVER;
}

static bool wait_is_over(const struct bus *bus)
{
    struct buffer *error = NULL;
    bool is_over = session_wait_over(bus->session, SESSION_WAIT_ROOM, &error);
    buffer_unref(&error);
    return is_over;
}

enum bus_err publish_wait(struct bus *bus, uint32_t topic, struct publish_patience *patience)
{
    enum bus_err err = api_over(bus);
    if (err != BUS_OK)
        return err;
    thread_say(bus); /* a topic's number may have been asked for */
    if (patience->deadline_ns == 0)
        begin_patience(bus, topic, patience);
    struct blocked_call blocked = blocked_call(SESSION_WAIT_ROOM, bus->options.send_timeout_ms);
    blocked_begin(bus, &blocked, &(struct session_wait_place){.own_topic = topic});
    bool is_awake = api_wait(bus, &bus->news, &bus->waiters, patience->deadline_ns);
    bool is_over = bus->session != NULL && wait_is_over(bus);
    blocked_end_by(bus, &blocked, is_awake || is_over ? BUS_OK : BUS_ETIMEDOUT);
    if (is_over)
        return BUS_EFAILED;
    if (is_awake)
        return api_over(bus);
    if (is_in_slices(bus))
        return BUS_ETIMEDOUT;
    if (session_write_progress(bus->session, topic) != patience->progress) {
        begin_patience(bus, topic, patience);
        return api_over(bus);
    }
    bus->is_room_wanted = true;
    api_clear_fd(bus->room_fd);
    return BUS_EFULL;
}

/* For the text of an error. */
static size_t largest(const struct span *values, size_t count, struct buffer *const *owned)
{
    size_t bytes = owned != NULL && *owned != NULL ? (*owned)->bytes : 0;
    for (size_t i = 0; i < count; i++)
        bytes = values[i].bytes > bytes ? values[i].bytes : bytes;
    return bytes;
}

/* Each value asks, so the clock is read only where something may be due. */
static bool is_data_due(struct bus *bus)
{
    return session_data_may_be_due(bus->session) &&
           session_data_is_due_at(bus->session, api_now_ns());
}

/* One try; BUS_ETIMEDOUT: there is no room yet. */
static inline enum bus_err put(struct bus *bus, uint32_t topic, const struct span *values,
                               size_t count, struct buffer **owned)
{
    int64_t stamp_ns = api_stamp_ns(bus);
    return (enum bus_err)(
        owned != NULL ? session_publish_owned(bus->session, stamp_ns, topic, owned)
                      : session_publish(bus->session, stamp_ns, topic, values, count, NULL));
}

/* Tries again whenever there may be room.  Out of line, as most values need not wait. */
__attribute__((noinline)) static enum bus_err wait_and_put(struct bus *bus, uint32_t topic,
                                                           const struct span *values, size_t count,
                                                           struct buffer **owned)
{
    struct publish_patience patience = {0};
    for (;;) {
        enum bus_err err = publish_wait(bus, topic, &patience);
        if (err != BUS_OK)
            return err;
        err = put(bus, topic, values, count, owned);
        if (err != BUS_ETIMEDOUT)
            return err;
    }
}

/* Publishes owned, which it takes over, or values if owned is NULL. */
static enum bus_err publish(struct bus *bus, const char *name, const struct span *values,
                            size_t count, struct buffer **owned)
{
    uint32_t topic = 0;
    bool has_waited = false;
    api_lock(bus);
    enum bus_err err = api_over(bus);
    if (err == BUS_OK)
        err = topic_of(bus, name, &topic);
    if (err == BUS_OK) {
        err = put(bus, topic, values, count, owned);
        has_waited = err == BUS_ETIMEDOUT;
    }
    if (has_waited)
        err = wait_and_put(bus, topic, values, count, owned);
    /* If nothing is due, the broker's answer will wake the library's thread. */
    if (bus->is_asleep && err == BUS_OK && is_data_due(bus))
        thread_say(bus);
    if (err == BUS_EFULL && !has_waited)
        (void)say_never_fits(bus, name, NULL);
    else if (err != BUS_OK)
        (void)publish_say(bus, err, name, largest(values, count, owned), NULL);
    api_unlock(bus);
    return err;
}

enum bus_err bus_publish(struct bus *bus, const char *topic, const void *value, size_t value_bytes)
{
    const struct span one = span_of(value, value_bytes);
    if (bus == NULL || topic == NULL || (value == NULL && value_bytes > 0))
        return error_say_code(BUS_EINVAL, __func__);
    if (api_is_foreign(bus))
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    if (value_bytes <= API_COPY_BYTES || value_bytes > LIMIT_VALUE_BYTES) /* refused in there */
        return publish(bus, topic, &one, 1, NULL);
    struct buffer *copy = buffer_copy(one);
    if (copy == NULL)
        return error_say_code(BUS_ENOMEM, __func__);
    enum bus_err err = publish(bus, topic, NULL, 0, &copy);
    buffer_unref(&copy);
    return err;
}

enum bus_err bus_publish_many(struct bus *bus, const char *topic, const struct bus_value *values,
                              size_t count)
{
    struct span few[SPANS_ON_STACK];
    struct span *spans = few;
    if (bus == NULL || topic == NULL || (values == NULL && count > 0))
        return error_say_code(BUS_EINVAL, __func__);
    if (api_is_foreign(bus))
        return error_give(NULL, BUS_ECLOSED, &error_forked);
    if (count == 0)
        return BUS_OK;
    if (count > SPANS_ON_STACK)
        spans = count <= SIZE_MAX / sizeof *spans ? malloc(count * sizeof *spans) : NULL;
    if (spans == NULL)
        return error_say_code(BUS_ENOMEM, __func__);
    enum bus_err err = BUS_OK;
    for (size_t i = 0; i < count; i++) {
        if (values[i].data == NULL && values[i].bytes > 0)
            err = error_say_code(BUS_EINVAL, __func__);
        spans[i] = span_of(values[i].data, values[i].bytes);
    }
    if (err == BUS_OK)
        err = publish(bus, topic, spans, count, NULL);
    if (spans != few)
        free(spans);
    return err;
}
