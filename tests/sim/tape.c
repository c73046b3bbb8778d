/* SPDX-License-Identifier: MPL-2.0 */
/* tape.c -- see tape.h. */
#include "tests/sim/tape.h"

#include "broker/io/journal_thread.h"
#include "broker/journal/journal.h"
#include "broker/journal/layout.h"
#include "libbus/base/must.h"
#include "tests/lib/sim_disk.h"

#include <stdlib.h>

enum { RECORD_KIND = 1, SEGMENT_BYTES = 256 * 1024 };

struct tape {
    struct sim_disk *disk; /* NULL: the journal is lent */
    struct journal *journal;
    uint64_t id;
    uint64_t at; /* where tape_read() goes on */
};

static void open_journal(struct tape *tape)
{
    struct disk *disk = sim_disk_open(tape->disk);
    struct journal_options options = {
        .may_create = true, .id = tape->id, .segment_bytes = SEGMENT_BYTES};
    struct journal_opened opened;
    char complaint[JOURNAL_COMPLAINT_BYTES];
    must(journal_open_disk(&disk, &options, &tape->journal, &opened, complaint) == JOURNAL_OK);
    tape->at = journal_start(tape->journal);
}

struct tape *tape_new(uint64_t seed)
{
    struct tape *tape = calloc(1, sizeof *tape);
    must(tape != NULL);
    tape->id = seed | 1;
    tape->disk = sim_disk_new(seed);
    open_journal(tape);
    return tape;
}

struct tape *tape_new_lent(struct journal *journal)
{
    struct tape *tape = calloc(1, sizeof *tape);
    must(tape != NULL);
    tape->journal = journal;
    tape->at = journal_start(journal);
    return tape;
}

void tape_free(struct tape **tape)
{
    struct tape *old = *tape;
    *tape = NULL;
    if (old == NULL)
        return;
    if (old->disk != NULL) {
        journal_close(&old->journal);
        sim_disk_free(&old->disk);
    }
    free(old);
}

/* Another broker may have a journal that was lent: then it takes nothing, which its next sync says.
 * And the tape may be gone by then. */
static void append(const struct tape *tape, const struct journal_record *batch, uint32_t count,
                   unsigned how)
{
    struct journal *journal = tape->journal;
    bool is_lent = tape->disk == NULL;
    enum journal_err err = journal_append(journal, journal_lease(journal), journal_next(journal),
                                          batch, count, how, NULL);
    must(err == JOURNAL_OK || is_lent);
}

void tape_write(struct tape *tape, const struct span *records, uint32_t count, bool is_snapshot)
{
    struct journal *journal = tape->journal;
    struct journal_record *batch = calloc(count, sizeof *batch);
    unsigned how = is_snapshot ? JOURNAL_CHECKPOINT_BEGIN | JOURNAL_CHECKPOINT_END : 0;
    must(batch != NULL);
    for (uint32_t i = 0; i < count; i++)
        batch[i] = (struct journal_record){.kind = RECORD_KIND, .body = records[i]};
    append(tape, batch, count, how);
    free(batch);
    if (is_snapshot)
        must(journal_trim(journal, journal_start(journal)) == JOURNAL_OK);
}

void tape_probe(struct tape *tape)
{
    const struct journal_record probe = {.kind = JOURNAL_THREAD_KIND_PROBE};
    append(tape, &probe, 1, 0);
}

void tape_sync(struct tape *tape)
{
    must(journal_sync(tape->journal, journal_next(tape->journal)) == JOURNAL_OK);
}

void tape_kill(struct tape *tape, enum tape_end end)
{
    sim_disk_stop_after(tape->disk, 0); /* it does not even close */
    journal_close(&tape->journal);
    switch (end) {
    case TAPE_PROCESS: sim_disk_kill(tape->disk); break;
    case TAPE_MACHINE: sim_disk_crash(tape->disk); break;
    case TAPE_MOVES: sim_disk_move(tape->disk); break;
    }
    open_journal(tape);
}

const char *tape_contend(struct tape *tape, uint64_t seed)
{
    struct sim_disk *disk = sim_disk_clone(tape->disk, seed); /* so that this one is left alone */
    struct journal *journal = NULL;
    struct journal_options options = {.may_create = true, .id = seed};
    struct journal_opened opened;
    char complaint[JOURNAL_COMPLAINT_BYTES];
    sim_disk_take_lock(disk);
    uint64_t calls = sim_disk_calls(disk);
    struct disk *opening = sim_disk_open(disk);
    enum journal_err err = journal_open_disk(&opening, &options, &journal, &opened, complaint);
    bool has_touched = sim_disk_calls(disk) != calls;
    journal_close(&journal);
    sim_disk_free(&disk);
    if (err != JOURNAL_LOCKED)
        return "a second broker is not told that another one has it";
    return has_touched ? "a second broker touches it before it has the lock" : NULL;
}

bool tape_read(struct tape *tape, struct span *out_record)
{
    struct journal_found found = {.kind = JOURNAL_THREAD_KIND_PROBE};
    while (found.kind == JOURNAL_THREAD_KIND_PROBE) {
        enum journal_err err = journal_read(tape->journal, tape->at, &found);
        must(err == JOURNAL_OK || err == JOURNAL_END);
        if (err != JOURNAL_OK)
            return false;
        tape->at = found.next;
    }
    *out_record = found.body;
    return true;
}
