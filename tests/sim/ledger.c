/* SPDX-License-Identifier: MPL-2.0 */
/* ledger.c -- records one behind the other, payloads each once; see ledger.h. */
#include "tests/sim/ledger.h"

#include "libbus/base/must.h"
#include "tests/lib/core_census.h"
#include "tests/lib/core_dump.h"
#include "tests/sim/tape.h"

#include <stdlib.h>
#include <string.h>

#define NO_BYTES UINT32_MAX
enum { SHADOW_BYTES_MAX = 1 << 28 };

struct record {
    struct buffer *bytes;
    uint32_t payload; /* index, or NO_BYTES */
    bool is_end;      /* of its step */
};

struct ledger {
    struct core_options options;
    struct record *records;
    uint32_t record_count, record_room;
    struct buffer **payloads; /* a reference each */
    uint32_t payload_count, payload_room;
    uint32_t *places; /* by the broker's number: index in payloads, the last one it stood for */
    uint32_t place_room;
    struct memory memory;
    struct core *shadow;
    struct effects effects;
    struct core_dump is, should;
    struct tape *tape;   /* NULL: what is added is kept */
    uint32_t written;    /* so many records are on it, */
    uint32_t synced;     /* ... and so many stay there */
    bool has_begun_anew; /* what is written next is a snapshot */
};

static void shadow_end(struct ledger *ledger)
{
    core_free(&ledger->shadow);
    effects_fini(&ledger->effects);
    must(ledger->memory.bytes_used == 0); /* a core that only replays gives everything back, too */
}

static void shadow_begin(struct ledger *ledger)
{
    memory_heap_init(&ledger->memory, SHADOW_BYTES_MAX);
    effects_init(&ledger->effects, &ledger->memory);
    ledger->shadow = core_new(&ledger->memory, &ledger->options, 0);
    must(ledger->shadow != NULL);
}

static const char *shadow_tell(struct ledger *ledger, struct span record, payload_id payload)
{
    effects_clear(&ledger->effects);
    return core_replay(ledger->shadow, record, payload, &ledger->effects);
}

static void forget(struct ledger *ledger)
{
    for (uint32_t i = 0; i < ledger->record_count; i++)
        buffer_unref(&ledger->records[i].bytes);
    for (uint32_t i = 0; i < ledger->payload_count; i++)
        buffer_unref(&ledger->payloads[i]);
    ledger->record_count = 0;
    ledger->payload_count = 0;
}

struct ledger *ledger_new(const struct core_options *options)
{
    struct ledger *ledger = calloc(1, sizeof *ledger);
    must(ledger != NULL);
    ledger->options = *options;
    shadow_begin(ledger);
    return ledger;
}

void ledger_free(struct ledger **ledger)
{
    struct ledger *old = *ledger;
    *ledger = NULL;
    if (old == NULL)
        return;
    shadow_end(old);
    forget(old);
    core_dump_fini(&old->is);
    core_dump_fini(&old->should);
    tape_free(&old->tape);
    free(old->records);
    free(old->payloads);
    free(old->places);
    free(old);
}

void ledger_clear(struct ledger *ledger)
{
    shadow_end(ledger);
    forget(ledger);
    shadow_begin(ledger);
    ledger->written = ledger->synced = 0;
    ledger->has_begun_anew = true;
}

/* Doubles until index fits. */
static void *grow(void *items, uint32_t *room, uint32_t index, size_t item_bytes)
{
    uint32_t before = *room;
    while (index >= *room)
        *room = *room > 0 ? *room * 2 : 64;
    char *grown = *room > before ? realloc(items, *room * item_bytes) : items;
    must(grown != NULL);
    memset(grown + before * item_bytes, 0, (*room - before) * item_bytes);
    return grown;
}

/* Whether it is known already is told by where it lies: what is known stays there. */
static uint32_t keep_payload(struct ledger *ledger, payload_id payload, struct buffer *bytes)
{
    if (payload == 0)
        return NO_BYTES;
    ledger->places = grow(ledger->places, &ledger->place_room, payload, sizeof *ledger->places);
    uint32_t index = ledger->places[payload];
    if (index < ledger->payload_count && ledger->payloads[index] == bytes)
        return index;
    ledger->payloads = grow(ledger->payloads, &ledger->payload_room, ledger->payload_count,
                            sizeof *ledger->payloads);
    ledger->payloads[ledger->payload_count] = buffer_ref(bytes);
    ledger->places[payload] = ledger->payload_count;
    return ledger->payload_count++;
}

const char *ledger_add(struct ledger *ledger, struct buffer **record, payload_id payload,
                       struct buffer *bytes)
{
    ledger->records =
        grow(ledger->records, &ledger->record_room, ledger->record_count, sizeof *ledger->records);
    struct record *added = &ledger->records[ledger->record_count++];
    *added = (struct record){.bytes = *record, .payload = keep_payload(ledger, payload, bytes)};
    *record = NULL;
    return shadow_tell(ledger, buffer_span(added->bytes), payload);
}

uint32_t ledger_count(const struct ledger *ledger)
{
    return ledger->record_count;
}

/* ---- the disk -------------------------------------------------------------------------------- */

void ledger_use_disk(struct ledger *ledger, uint64_t seed)
{
    ledger->tape = tape_new(seed);
}

void ledger_end_step(struct ledger *ledger)
{
    if (ledger->record_count > 0)
        ledger->records[ledger->record_count - 1].is_end = true;
}

void ledger_write(struct ledger *ledger)
{
    uint32_t left = ledger->record_count - ledger->written;
    struct span *step = calloc(left + 1, sizeof *step);
    uint32_t count = 0;
    must(step != NULL);
    for (uint32_t i = ledger->written; ledger->tape != NULL && i < ledger->record_count; i++) {
        step[count++] = buffer_span(ledger->records[i].bytes);
        if (!ledger->records[i].is_end)
            continue;
        tape_write(ledger->tape, step, count, ledger->has_begun_anew);
        ledger->has_begun_anew = false;
        ledger->written = i + 1;
        count = 0;
    }
    free(step);
}

void ledger_sync(struct ledger *ledger, uint32_t count)
{
    if (ledger->tape == NULL || count <= ledger->synced)
        return;
    ledger_write(ledger);
    tape_sync(ledger->tape);
    ledger->synced = ledger->written;
}

const char *ledger_contend(struct ledger *ledger, uint64_t seed)
{
    return ledger->tape != NULL ? tape_contend(ledger->tape, seed) : NULL;
}

static void lose(struct ledger *ledger, uint32_t count)
{
    while (ledger->record_count > count)
        buffer_unref(&ledger->records[--ledger->record_count].bytes);
    ledger->written = ledger->synced = count;
}

const char *ledger_kill(struct ledger *ledger, enum tape_end end)
{
    uint32_t count = 0;
    struct span record;
    if (ledger->tape == NULL)
        return NULL;
    tape_kill(ledger->tape, end);
    while (tape_read(ledger->tape, &record)) {
        if (count == ledger->written)
            return "more is on the disk than was written";
        if (!span_equal(record, buffer_span(ledger->records[count].bytes)))
            return "something else is on the disk than was written";
        count += 1;
    }
    if (count < (end == TAPE_PROCESS ? ledger->written : ledger->synced))
        return "what must be on the disk is not";
    if (count > 0 && !ledger->records[count - 1].is_end)
        return "half a step is on the disk";
    lose(ledger, count);
    return NULL;
}

void ledger_restore(struct ledger *ledger, uint32_t count)
{
    must(ledger->tape == NULL && count <= ledger->record_count);
    lose(ledger, count);
}

const char *ledger_check(struct ledger *ledger, const struct core *core)
{
    core_dump_take(&ledger->is, core);
    core_dump_take(&ledger->should, ledger->shadow);
    const char *differ = core_dump_differ(&ledger->is, &ledger->should);
    return differ != NULL ? differ : core_census_miscounted(core);
}

/* Each once, under a number of the port; out_ids is the caller's to free. */
static payload_id *add_payloads(struct ledger *ledger, struct core_port *port)
{
    payload_id *ids = calloc(ledger->payload_count + 1, sizeof *ids);
    must(ids != NULL);
    for (uint32_t i = 0; i < ledger->payload_count; i++) {
        struct buffer *bytes = buffer_ref(ledger->payloads[i]);
        bool is_added = core_port_payload_add(port, &bytes, UINT64_MAX, &ids[i]);
        must(is_added);
        ledger->places = grow(ledger->places, &ledger->place_room, ids[i], sizeof *ledger->places);
        ledger->places[ids[i]] = i;
    }
    return ids;
}

const char *ledger_rebuild(struct ledger *ledger, struct core_port *port)
{
    const char *wrong = NULL;
    shadow_end(ledger);
    shadow_begin(ledger);
    payload_id *ids = add_payloads(ledger, port);
    for (uint32_t i = 0; i < ledger->record_count && wrong == NULL; i++) {
        const struct record *record = &ledger->records[i];
        payload_id payload = record->payload != NO_BYTES ? ids[record->payload] : 0;
        wrong = core_port_replay(port, buffer_span(record->bytes), payload);
        if (wrong == NULL)
            wrong = shadow_tell(ledger, buffer_span(record->bytes), payload);
    }
    for (uint32_t i = 0; i < ledger->payload_count; i++)
        core_port_payload_drop(port, ids[i]);
    free(ids);
    return wrong;
}
