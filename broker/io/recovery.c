/* SPDX-License-Identifier: MPL-2.0 */
/* recovery.c -- see recovery.h.
 *
 * A fact may need a payload: the newest one before it; or one at an older position; or one that
 * was on its way when the fact was written, by how many payloads came since.  The older ones are
 * kept for the whole replay, because later facts may need them too.
 * In the end the port drops those that no fact used.  Their bytes stay in the journal until they
 * are sent.
 *
 * A checkpoint may need a payload that was trimmed since.  Then facts after the checkpoint released
 * it.  If there are no such facts, the journal is incomplete. */
#include "broker/io/recovery.h"

#include "broker/io/clock.h"
#include "broker/io/failpoint.h"
#include "broker/io/journal_codec.h"
#include "broker/io/log.h"
#include "libbus/base/map.h"
#include "libbus/base/must.h"

#include <stdio.h>

struct place {
    uint64_t at;
    uint32_t bytes;
};

struct replay {
    bool is_in_checkpoint; /* that it begins with */
    struct journal *journal;
    struct core_port *port;
    struct memory memory;
    struct id_map older; /* position of a payload to its id */
    payload_id newest;   /* 0: none yet */
    struct place *met;   /* all payloads since the beginning or a gap, in order */
    uint32_t met_count, met_room;
    struct service_manager *manager;
    struct recovery *out;
};

static const char *short_of_memory = "out of memory";
static const char *payload_missing = "a fact needs a payload that is missing";

enum { PLACES_FIRST = 1024 };

/* ---- payloads -------------------------------------------------------------------------------- */

static const char *add_payload(struct replay *replay, uint64_t at, size_t bytes, payload_id *out_id)
{
    if (bytes == 0 || bytes > LIMIT_PART_BYTES)
        return "it holds a payload of an impossible size";
    replay->out->payloads += 1;
    bool is_added = core_port_payload_add_stored(replay->port, at, (uint32_t)bytes, out_id);
    return is_added ? NULL : short_of_memory;
}

static bool met_payload_at(struct replay *replay, uint64_t at, size_t bytes)
{
    if (replay->met_count == replay->met_room) {
        size_t size = sizeof *replay->met;
        uint32_t room = replay->met_room > 0 ? replay->met_room * 2 : PLACES_FIRST;
        struct place *met =
            replay->met_room <= UINT32_MAX / 2
                ? memory_resize(&replay->memory, replay->met, replay->met_room * size, room * size)
                : NULL;
        if (met == NULL)
            return false;
        replay->met = met;
        replay->met_room = room;
    }
    replay->met[replay->met_count++] = (struct place){.at = at, .bytes = (uint32_t)bytes};
    return true;
}

static const char *meet_payload(struct replay *replay, const struct journal_found *found)
{
    if (!met_payload_at(replay, found->at, found->body.bytes))
        return short_of_memory;
    if (replay->newest != 0)
        core_port_payload_drop(replay->port, replay->newest);
    replay->newest = 0;
    return add_payload(replay, found->at, found->body.bytes, &replay->newest);
}

/* A repair cut records out here.  One of them may have been the payload of the next facts.  So
 * these facts must not take the payload before the gap for it. */
static void meet_gap(struct replay *replay)
{
    if (replay->newest != 0)
        core_port_payload_drop(replay->port, replay->newest);
    replay->newest = 0;
    replay->met_count = 0;
    replay->out->gaps += 1;
}

static const char *find_older(struct replay *replay, const struct journal_codec_entry *entry,
                              payload_id *out_id)
{
    if (id_map_get(&replay->older, entry->payload_at, out_id))
        return NULL;
    if (!id_map_reserve(&replay->older))
        return short_of_memory;
    /* Its bytes were found good when the journal was opened. */
    if (entry->payload_at >= journal_first(replay->journal) &&
        journal_fetch(replay->journal, entry->payload_at, NULL, entry->payload_bytes) != JOURNAL_OK)
        return "a payload that a fact needs is missing";
    const char *wrong = add_payload(replay, entry->payload_at, entry->payload_bytes, out_id);
    if (wrong == NULL)
        (void)id_map_put(&replay->older, entry->payload_at, *out_id); /* reserved */
    return wrong;
}

/* The same of a payload that was on its way. */
static const char *find_behind(struct replay *replay, struct journal_codec_entry entry,
                               payload_id *out_id)
{
    if (entry.behind >= replay->met_count)
        return payload_missing;
    const struct place *place = &replay->met[replay->met_count - 1 - entry.behind];
    entry.payload_at = place->at;
    entry.payload_bytes = place->bytes;
    return find_older(replay, &entry, out_id);
}

static void drop_payloads(struct replay *replay)
{
    memory_give(&replay->memory, replay->met, replay->met_room * sizeof *replay->met);
    if (replay->newest != 0)
        core_port_payload_drop(replay->port, replay->newest);
    for (uint32_t i = 0; i < replay->older.room; i++)
        if (replay->older.entries[i].is_used)
            core_port_payload_drop(replay->port, replay->older.entries[i].value);
    id_map_fini(&replay->older);
}

/* ---- facts ----------------------------------------------------------------------------------- */

static const char *replay_entry(struct replay *replay, const struct journal_codec_entry *entry)
{
    payload_id payload = 0;
    const char *wrong = NULL;
    if (entry->tag == JOURNAL_CODEC_NEWEST_PAYLOAD) {
        payload = replay->newest;
        wrong = payload != 0 ? NULL : payload_missing;
    } else if (entry->tag == JOURNAL_CODEC_PAYLOAD_AT) {
        wrong = find_older(replay, entry, &payload);
    } else if (entry->tag == JOURNAL_CODEC_PAYLOAD_BEHIND) {
        wrong = find_behind(replay, *entry, &payload);
    }
    return wrong != NULL ? wrong : core_port_replay(replay->port, entry->fact, payload);
}

static const char *replay_facts(struct replay *replay, struct span body)
{
    /* A copy, because fetching a payload from the journal overwrites the record that was read. */
    struct buffer *record = buffer_copy(body);
    if (record == NULL)
        return short_of_memory;
    struct journal_codec_reader reader = {.left = buffer_span(record)};
    struct journal_codec_entry entry;
    const char *wrong = NULL;
    enum wire_err err = WIRE_OK;
    while (wrong == NULL && (err = journal_codec_next(&reader, &entry)) == WIRE_OK)
        wrong = replay_entry(replay, &entry);
    if (wrong == NULL && err != WIRE_EMPTY)
        wrong = wire_strerror(err);
    replay->out->steps += 1;
    buffer_unref(&record);
    return wrong;
}

static const char *replay_record(struct replay *replay, const struct journal_found *found)
{
    switch (found->kind) {
    case JOURNAL_CODEC_PAYLOAD: return meet_payload(replay, found);
    case JOURNAL_CODEC_FACTS: return replay_facts(replay, found->body);
    case JOURNAL_CODEC_SNAPSHOT: /* outside: of a checkpoint that was not finished */
        return replay->is_in_checkpoint ? replay_facts(replay, found->body) : NULL;
    case JOURNAL_THREAD_KIND_PROBE: return NULL;
    case JOURNAL_KIND_LOST: meet_gap(replay); return NULL;
    default: return "this version does not know records of its kind";
    }
}

/* Of the journal, how much is replayed when the record at a position is. */
static int percent_at(const struct journal *journal, uint64_t at)
{
    uint64_t start = journal_start(journal);
    uint64_t all = journal_next(journal) - start;
    return all == 0 ? 100 : (int)((at - start) * 100 / all);
}

static bool read_all(struct replay *replay, char *complaint)
{
    struct journal_found found;
    enum journal_err err;
    uint64_t at = journal_start(replay->journal);
    while ((err = journal_read(replay->journal, at, &found)) == JOURNAL_OK) {
        uint64_t here = found.at;
        uint64_t next = found.next;
        bool is_end = found.is_end;
        failpoint_reach("record");
        service_manager_extend(replay->manager, clock_monotonic_ns(), "replaying the journal",
                               percent_at(replay->journal, next));
        replay->is_in_checkpoint |= here == journal_start(replay->journal) && found.is_begin;
        const char *wrong = replay_record(replay, &found);
        replay->is_in_checkpoint = replay->is_in_checkpoint && !is_end;
        if (wrong != NULL) {
            snprintf(complaint, JOURNAL_COMPLAINT_BYTES,
                     "the record at position %llu cannot be replayed%s: %.400s",
                     (unsigned long long)here,
                     replay->out->gaps > 0 ? ", because a repair cut out records before it" : "",
                     wrong);
            return false;
        }
        at = next;
    }
    if (err != JOURNAL_END)
        snprintf(complaint, JOURNAL_COMPLAINT_BYTES, "%s", journal_complaint(replay->journal));
    return err == JOURNAL_END;
}

/* Whether every payload that a fact needs is in the journal.  A repair may have cut out the fact
 * that released a trimmed payload: then its reader is told that the value cannot be read. */
static bool has_all(const struct replay *replay, char *complaint)
{
    uint64_t first = journal_first(replay->journal);
    uint64_t needed = core_port_needed_from(replay->port);
    if (needed >= first || replay->out->gaps > 0)
        return true;
    snprintf(complaint, JOURNAL_COMPLAINT_BYTES,
             "the payload at position %llu is missing: the journal begins at position %llu",
             (unsigned long long)needed, (unsigned long long)first);
    return false;
}

bool recovery_run(struct journal *journal, struct core_port *port, struct core_port_now now,
                  struct service_manager *manager, struct recovery *out, char *complaint)
{
    struct replay replay = {.journal = journal, .port = port, .manager = manager, .out = out};
    *out = (struct recovery){.steps = 0};
    memory_heap_init(&replay.memory, UINT64_MAX);
    id_map_init(&replay.older, &replay.memory);
    bool is_done = read_all(&replay, complaint);
    drop_payloads(&replay);
    is_done = is_done && has_all(&replay, complaint);
    if (is_done)
        core_port_resume(port, now);
    if (is_done && out->gaps > 0)
        log_line(LOG_WARNING,
                 "journal: a repair removed records in %llu places: the decisions in them are lost",
                 (unsigned long long)out->gaps);
    return is_done;
}
