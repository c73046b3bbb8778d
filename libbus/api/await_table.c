/* SPDX-License-Identifier: MPL-2.0 */
/* await_table.c -- waits for slots whose callers stopped waiting.
 *
 * The next call for the same slot goes on with such a wait.  So a loop of short waits, or of
 * BUS_POLL, comes to its end.  There may be many, so they are found by hash, and only those are
 * looked at that the session has an answer for.
 *
 * The broker may keep no value that it has sent.  So an answer to a wait that timed out stays for
 * LIMIT_AWAITED_MS, however many bytes it has.  Older ones, and those that a decided gather left
 * behind, hold at most inbox_bytes_max together.  Beyond that the oldest values are given up.  Such
 * a wait stays answered, so that a call comes for it, and that call asks the broker again. */
#include "libbus/api/await_table.h"

#include "libbus/api/clock.h"
#include "libbus/api/event_fd.h"
#include "libbus/api/model.h"

#include <stdlib.h>
#include <string.h>

enum { AWAIT_BUCKETS = 1024 };

#define ANSWER_KEPT_NS (LIMIT_AWAITED_MS * INT64_C(1000000))

/* The waits that were put by, each list in the order in which they came to it. */
enum await_list {
    AWAITS_OPEN,     /* not answered */
    AWAITS_PROMISED, /* answered after their callers' time was up */
    AWAITS_SPARE,    /* answered for a gather that was decided without them */
    AWAITS_GIVEN_UP, /* answered, and their values are not here any more */
    AWAITS_LIST_COUNT,
};

struct await_table {
    struct list lists[AWAITS_LIST_COUNT];
    struct await *buckets[AWAIT_BUCKETS]; /* by slot */
    struct await *by_want[AWAIT_BUCKETS]; /* by the session's number */
    uint32_t count;
    uint32_t answered_count;
    uint64_t answered_bytes;
};

struct await_table *await_table_new(void)
{
    struct await_table *table = calloc(1, sizeof *table);
    for (int i = 0; table != NULL && i < AWAITS_LIST_COUNT; i++)
        list_init(&table->lists[i]);
    return table;
}

/* NULL: the list is empty. */
static struct await *first_of(struct await_table *table, enum await_list list)
{
    struct list *head = &table->lists[list];
    return list_is_empty(head) ? NULL : LIST_OWNER(head->next, struct await, link);
}

static void move_to(struct await_table *table, struct await *await, enum await_list list)
{
    list_remove(&await->link);
    list_push(&table->lists[list], &await->link);
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
static void note_answer(struct bus *bus, struct await *await)
{
    move_to(bus->awaits, await, await->is_spare ? AWAITS_SPARE : AWAITS_PROMISED);
    await->answered_ns = api_now_ns();
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

static bool drop_first(struct bus *bus, enum await_list list)
{
    struct await *first = first_of(bus->awaits, list);
    if (first == NULL)
        return false;
    await_take_out(bus, first);
    await_drop(bus, first);
    return true;
}

bool await_drop_oldest(struct bus *bus)
{
    return drop_first(bus, AWAITS_OPEN);
}

/* Which of the lists has the answer that may go first; AWAITS_OPEN: all of them are promised. */
static enum await_list first_to_go(struct await_table *table, int64_t now_ns)
{
    if (first_of(table, AWAITS_SPARE) != NULL)
        return AWAITS_SPARE;
    const struct await *oldest = first_of(table, AWAITS_PROMISED);
    bool is_old = oldest != NULL && now_ns - oldest->answered_ns >= ANSWER_KEPT_NS;
    return is_old ? AWAITS_PROMISED : AWAITS_OPEN;
}

bool await_has_room(struct bus *bus)
{
    struct await_table *table = bus->awaits;
    if (table->answered_count < LIMIT_AWAITS || drop_first(bus, AWAITS_GIVEN_UP))
        return true;
    enum await_list list = first_to_go(table, api_now_ns());
    return list != AWAITS_OPEN && drop_first(bus, list);
}

void await_relieve(struct bus *bus, int64_t now_ns)
{
    struct await_table *table = bus->awaits;
    while (table->answered_bytes > bus->options.inbox_bytes_max) {
        enum await_list list = first_to_go(table, now_ns);
        struct await *await = list != AWAITS_OPEN ? first_of(table, list) : NULL;
        if (await == NULL || await->item.value.bytes == table->answered_bytes)
            return; /* one larger value is kept alone */
        table->answered_bytes -= await->item.value.bytes;
        buffer_unref(&await->item.buffer);
        await->item = (struct session_item){0};
        await->is_given_up = true;
        move_to(table, await, AWAITS_GIVEN_UP);
    }
}

static void relieve(struct bus *bus)
{
    if (bus->awaits->answered_bytes > bus->options.inbox_bytes_max)
        await_relieve(bus, api_now_ns());
}

void await_put_by(struct bus *bus, struct await *await, bool is_spare)
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
    list_push(&table->lists[AWAITS_OPEN], &await->link);
    table->count++;
    await->is_spare = is_spare;
    if (!await->is_answered)
        return;
    note_answer(bus, await);
    relieve(bus);
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
    relieve(bus);
}

void await_discard_all(struct bus *bus)
{
    for (enum await_list list = 0; bus->awaits != NULL && list < AWAITS_LIST_COUNT; list++)
        while (drop_first(bus, list))
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
