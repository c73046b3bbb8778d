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
    bool is_lent;        /* the tape's journal */
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

/* Where the last whole step ends. */
static uint32_t whole_count(const struct ledger *ledger)
{
    uint32_t count = ledger->record_count;
    while (count > ledger->written && !ledger->records[count - 1].is_end)
        count--;
    return count;
}

static void write_steps(struct ledger *ledger, const struct span *records, uint32_t until)
{
    uint32_t from = ledger->written;
    for (uint32_t i = ledger->written; i < until; i++) {
        if (!ledger->records[i].is_end)
            continue;
        tape_write(ledger->tape, records + (from - ledger->written), i + 1 - from,
                   ledger->has_begun_anew);
        ledger->has_begun_anew = false;
        from = i + 1;
    }
    ledger->written = until;
}

/* As one batch, as the journal thread of a broker does it.  That may wait for the store.  Meanwhile
 * there may be more, or another broker may have the shard: then the ledger is about that one. */
static void write_lent(struct ledger *ledger, const struct span *records, uint32_t until)
{
    uint32_t count = until - ledger->written;
    struct buffer **kept = calloc(count, sizeof *kept);
    must(kept != NULL);
    for (uint32_t i = 0; i < count; i++)
        kept[i] = buffer_ref(ledger->records[ledger->written + i].bytes);
    ledger->written = until;
    tape_write(ledger->tape, records, count, false);
    for (uint32_t i = 0; i < count; i++)
        buffer_unref(&kept[i]);
    free(kept);
}

void ledger_write(struct ledger *ledger)
{
    uint32_t until = whole_count(ledger);
    if (ledger->tape == NULL || until == ledger->written)
        return;
    struct span *records = calloc(until - ledger->written, sizeof *records);
    must(records != NULL);
    for (uint32_t i = ledger->written; i < until; i++)
        records[i - ledger->written] = buffer_span(ledger->records[i].bytes);
    if (ledger->is_lent)
        write_lent(ledger, records, until);
    else
        write_steps(ledger, records, until);
    free(records);
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

/* Compares what the tape gives; it must have so many records, and loses what follows on it. */
static const char *reread(struct ledger *ledger, uint32_t least)
{
    uint32_t count = 0;
    struct span record;
    while (tape_read(ledger->tape, &record)) {
        if (count == ledger->written)
            return "more is on the disk than was written";
        if (!span_equal(record, buffer_span(ledger->records[count].bytes)))
            return "something else is on the disk than was written";
        count += 1;
    }
    if (count < least)
        return "what must be on the disk is not";
    if (count > 0 && !ledger->records[count - 1].is_end)
        return "half a step is on the disk";
    lose(ledger, count);
    return NULL;
}

const char *ledger_kill(struct ledger *ledger, enum tape_end end)
{
    if (ledger->tape == NULL)
        return NULL;
    tape_kill(ledger->tape, end);
    return reread(ledger, end == TAPE_PROCESS ? ledger->written : ledger->synced);
}

const char *ledger_use_journal(struct ledger *ledger, struct journal *journal)
{
    tape_free(&ledger->tape);
    ledger->tape = tape_new_lent(journal);
    ledger->is_lent = true;
    return reread(ledger, ledger->synced);
}

uint32_t ledger_written(const struct ledger *ledger)
{
    return ledger->written;
}

uint32_t ledger_writable(const struct ledger *ledger)
{
    return whole_count(ledger);
}

void ledger_note_synced(struct ledger *ledger, uint32_t count)
{
    ledger->synced = count;
}

void ledger_probe(struct ledger *ledger)
{
    tape_probe(ledger->tape);
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
