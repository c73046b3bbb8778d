/* SPDX-License-Identifier: MPL-2.0 */
/* await_table.c -- waits for slots whose callers stopped waiting.
 *
 * The next call for the same slot goes on with such a wait.  So a loop of short waits, or of
 * BUS_POLL, comes to its end.  There may be many, so they are found by hash, and only those are
 * looked at that the session has an answer for.  The oldest are given up when there is no room, and
 * answered ones hold at most inbox_bytes_max. */
#include "libbus/api/await_table.h"

#include "libbus/api/event_fd.h"
#include "libbus/api/model.h"

#include <stdlib.h>
#include <string.h>

enum { AWAIT_BUCKETS = 1024 };

struct await_table {
    struct list all;
    struct await *buckets[AWAIT_BUCKETS]; /* by slot */
    struct await *by_want[AWAIT_BUCKETS]; /* by the session's number */
    uint32_t count;
    uint32_t answered_count;
    uint64_t answered_bytes;
};

struct await_table *await_table_new(void)
{
    struct await_table *table = calloc(1, sizeof *table);
    if (table != NULL)
        list_init(&table->all);
    return table;
}

static struct await **bucket_of(struct await_table *table, const char *topic, uint64_t seq)
{
    uint64_t hash = seq * UINT64_C(0x9e3779b97f4a7c15);
    for (; *topic != '\0'; topic++)
        hash = (hash ^ (unsigned char)*topic) * UINT64_C(0x100000001b3);
    return &table->buckets[(hash >> 32) % AWAIT_BUCKETS];
}

static struct await **bucket_of_want(struct await_table *table, uint64_t want)
{
    return &table->by_want[want % AWAIT_BUCKETS]; /* they are counted */
}

bool await_has_answer(const struct bus *bus)
{
    return (bus->awaits != NULL && bus->awaits->answered_count > 0) || api_over(bus) != BUS_OK;
}

/* One that was put by is answered. */
static void note_answer(struct bus *bus, const struct await *await)
{
    bus->awaits->answered_count++;
    bus->awaits->answered_bytes += await->item.value.bytes;
    api_signal_fd(bus->answers_fd);
}

void await_take_out(struct bus *bus, struct await *await)
{
    struct await **at = bucket_of(bus->awaits, await->topic, await->seq);
    while (*at != await)
        at = &(*at)->next;
    *at = await->next;
    at = bucket_of_want(bus->awaits, await->want);
    while (*at != await)
        at = &(*at)->next_by_want;
    *at = await->next_by_want;
    list_remove(&await->link);
    bus->awaits->count--;
    if (!await->is_answered)
        return;
    bus->awaits->answered_count--;
    bus->awaits->answered_bytes -= await->item.value.bytes;
    if (!await_has_answer(bus))
        api_clear_fd(bus->answers_fd);
}

/* Ends the wait, and frees it. */
void await_drop(struct bus *bus, struct await *await)
{
    if (!await->is_answered && bus->session != NULL)
        session_unawait(bus->session, await->want);
    buffer_unref(&await->item.buffer);
    free(await);
}

bool await_drop_oldest(struct bus *bus)
{
    if (list_is_empty(&bus->awaits->all))
        return false;
    struct await *oldest = LIST_OWNER(bus->awaits->all.next, struct await, link);
    await_take_out(bus, oldest);
    await_drop(bus, oldest);
    return true;
}

void await_put_by(struct bus *bus, struct await *await)
{
    if (bus->session == NULL) {
        await_drop(bus, await);
        return;
    }
    await_look(bus, await); /* it may have come since, as for a gather that was decided */
    struct await_table *table = bus->awaits;
    struct await **bucket = bucket_of(table, await->topic, await->seq);
    await->next = *bucket;
    *bucket = await;
    bucket = bucket_of_want(table, await->want);
    await->next_by_want = *bucket;
    *bucket = await;
    list_push(&table->all, &await->link);
    table->count++;
    if (await->is_answered)
        note_answer(bus, await);
}

void await_look(struct bus *bus, struct await *await)
{
    if (await->is_answered)
        return;
    await->code = session_want_take(bus->session, await->want, &await->item);
    await->is_answered = await->code != CODE_ETIMEDOUT;
}

/* NULL: whoever asked for it waits for it. */
static struct await *find_by_want(struct await_table *table, uint64_t want)
{
    struct await *await = *bucket_of_want(table, want);
    while (await != NULL && await->want != want)
        await = await->next_by_want;
    return await;
}

void await_collect(struct bus *bus)
{
    struct await_table *table = bus->awaits;
    if (table == NULL || table->count == 0)
        return;
    for (uint64_t want = session_want_answered(bus->session, 0); want != 0;) {
        struct await *await = find_by_want(table, want);
        want = session_want_answered(bus->session, want);
        if (await == NULL)
            continue;
        await_look(bus, await);
        note_answer(bus, await);
    }
    while (table->answered_bytes > bus->options.inbox_bytes_max && table->count > 1)
        (void)await_drop_oldest(bus); /* there are some */
}

void await_discard_all(struct bus *bus)
{
    if (bus->awaits == NULL)
        return;
    while (await_drop_oldest(bus))
        continue;
}

struct await *await_find(struct bus *bus, const char *topic, uint64_t seq, bool is_value_wanted)
{
    struct await *await = *bucket_of(bus->awaits, topic, seq);
    while (await != NULL && (await->seq != seq || await->is_value_wanted != is_value_wanted ||
                             strcmp(await->topic, topic) != 0))
        await = await->next;
    if (await != NULL)
        await_take_out(bus, await);
    return await;
}
