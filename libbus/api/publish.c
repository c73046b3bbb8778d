/* SPDX-License-Identifier: MPL-2.0 */
/* publish.c -- values that are promised and kept in one call.
 *
 * This is the hot path of writers: one uncontended lock, a look into a small cache of topics, and
 * the session appends to its open batch.  While the library's thread sleeps, what may be sent at
 * once is sent here. */
#include "libbus/api/publish.h"

#include "libbus/api/clock.h"
#include "libbus/api/event_fd.h"
#include "libbus/api/fork.h"
#include "libbus/api/link_turn.h"
#include "libbus/api/lock.h"
#include "libbus/api/model.h"
#include "libbus/base/pattern.h"

#include <stdlib.h>
#include <string.h>

enum { SPANS_ON_STACK = 128 };

bool publish_whole_name(const struct bus *bus, const char *name, char out[LIMIT_NAME_BYTES + 1])
{
    size_t party_bytes = strlen(bus->party);
    size_t name_bytes = strnlen(name, LIMIT_NAME_BYTES + 1);
    bool is_whole = strncmp(name, bus->party, party_bytes) == 0 && name[party_bytes] == '/';
    size_t prefix_bytes = is_whole ? 0 : party_bytes + 1;
    if (prefix_bytes + name_bytes > LIMIT_NAME_BYTES)
        return false;
    if (!is_whole) {
        memcpy(out, bus->party, party_bytes);
        out[party_bytes] = '/';
    }
    memcpy(out + prefix_bytes, name, name_bytes);
    out[prefix_bytes + name_bytes] = '\0';
    return topic_is_valid(span_text(out));
}

/* FNV-1a; names are short. */
static uint32_t hash_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

/* Short names are compared sooner than strcmp() is called. */
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
        if (!publish_whole_name(bus, name, whole))
            return BUS_EINVAL;
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

enum bus_err publish_wait(struct bus *bus, int64_t *deadline_ns)
{
    enum bus_err err = api_over(bus);
    if (err != BUS_OK)
        return err;
    thread_say(bus); /* a topic's number may have been asked for */
    if (*deadline_ns == 0)
        *deadline_ns = api_deadline_ns(bus->options.send_timeout_ms);
    if (api_wait(bus, &bus->news, &bus->waiters, *deadline_ns))
        return api_over(bus);
    bus->is_room_wanted = true;
    api_clear_fd(bus->room_fd);
    return BUS_EFULL;
}

/* owned: one value that is copied already, taken over; or NULL, and values. */
static enum bus_err publish(struct bus *bus, const char *name, const struct span *values,
                            size_t count, struct buffer **owned)
{
    uint32_t topic = 0;
    int64_t deadline_ns = 0;
    api_lock(bus);
    enum bus_err err = api_over(bus);
    if (err == BUS_OK)
        err = topic_of(bus, name, &topic);
    while (err == BUS_OK) {
        int64_t stamp_ns = api_stamp_ns(bus);
        enum wire_code code =
            owned != NULL ? session_publish_owned(bus->session, stamp_ns, topic, owned)
                          : session_publish(bus->session, stamp_ns, topic, values, count, NULL);
        if (code != CODE_ETIMEDOUT) {
            err = (enum bus_err)code;
            break;
        }
        err = publish_wait(bus, &deadline_ns);
    }
    /* Otherwise the broker's answer wakes the library's thread. */
    if (bus->is_asleep && err == BUS_OK && session_data_is_due(bus->session))
        thread_say(bus);
    api_unlock(bus);
    return err;
}

enum bus_err bus_publish(struct bus *bus, const char *topic, const void *value, size_t value_bytes)
{
    const struct span one = span_of(value, value_bytes);
    if (bus == NULL || topic == NULL || (value == NULL && value_bytes > 0))
        return BUS_EINVAL;
    if (api_is_foreign(bus))
        return BUS_ECLOSED;
    if (value_bytes <= API_COPY_BYTES)
        return publish(bus, topic, &one, 1, NULL);
    struct buffer *copy = value_bytes <= LIMIT_VALUE_BYTES ? buffer_copy(one) : NULL;
    if (copy == NULL)
        return value_bytes <= LIMIT_VALUE_BYTES ? BUS_ENOMEM : BUS_ETOOBIG;
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
        return BUS_EINVAL;
    if (api_is_foreign(bus))
        return BUS_ECLOSED;
    if (count == 0)
        return BUS_OK;
    if (count > SPANS_ON_STACK)
        spans = count <= SIZE_MAX / sizeof *spans ? malloc(count * sizeof *spans) : NULL;
    if (spans == NULL)
        return BUS_ENOMEM;
    enum bus_err err = BUS_OK;
    for (size_t i = 0; i < count; i++) {
        if (values[i].data == NULL && values[i].bytes > 0)
            err = BUS_EINVAL;
        spans[i] = span_of(values[i].data, values[i].bytes);
    }
    if (err == BUS_OK)
        err = publish(bus, topic, spans, count, NULL);
    if (spans != few)
        free(spans);
    return err;
}
