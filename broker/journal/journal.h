/* SPDX-License-Identifier: MPL-2.0 */
/* journal.h -- where decided facts are kept, so that a broker can end and begin again.
 *
 * A journal is a sequence of records, numbered from 0 by their position.  It holds what was decided
 * (reserved, settled, lost, acknowledged), never what was asked.  Makings differ in what they
 * survive; `none` (journal_none.c) survives nothing: it counts positions and keeps no record.
 *
 * One writer at a time: the lease.  Its number is greater than that of every lease before it, and
 * an append under an older one is refused, so that a broker which lost its lease cannot write. */
#ifndef JOURNAL_JOURNAL_H
#define JOURNAL_JOURNAL_H

#include "libbus/base/span.h"

#include <stddef.h>
#include <stdint.h>

enum journal_err {
    JOURNAL_OK = 0,
    JOURNAL_END,      /* no record at this position: the end, or trimmed */
    JOURNAL_POSITION, /* an append where the journal does not end */
    JOURNAL_FENCED,   /* the lease is another's by now */
    JOURNAL_MAKING,   /* no making of this name */
    JOURNAL_MEMORY,
};
const char *journal_strerror(enum journal_err err);

struct journal;

/* where: "none".  Takes the lease.  Errors: JOURNAL_MAKING, JOURNAL_MEMORY. */
enum journal_err journal_open(const char *where, struct journal **out_journal);
void journal_close(struct journal **journal);

/* The lease that journal_open() took. */
uint64_t journal_lease(const struct journal *journal);
/* Positions: of the oldest record kept, and behind the newest. */
uint64_t journal_first(const struct journal *journal);
uint64_t journal_next(const struct journal *journal);

/* Appends count records at position `at`, which must be journal_next(): all or none.
 * Errors: JOURNAL_POSITION, JOURNAL_FENCED. */
enum journal_err journal_append(struct journal *journal, uint64_t lease, uint64_t at,
                                const struct span *records, size_t count);
/* The record at a position, borrowed until the next call.  Errors: JOURNAL_END. */
enum journal_err journal_read(struct journal *journal, uint64_t at, struct span *out_record);
/* Records below `first` are not needed any more. */
void journal_trim(struct journal *journal, uint64_t first);

#endif
