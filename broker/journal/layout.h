/* SPDX-License-Identifier: MPL-2.0 */
/* layout.h -- the journal in one directory: append-only segments, preallocated, checksummed.
 *
 *     00000000000000000000.journal   segments, each named by its first position
 *     00000000000067108800.journal
 *     spare                          a segment's room, set aside for what is essential
 *     proof                          what of a lazy journal is on the disk (proof.h)
 *     next                           a segment that is being made
 *     kept0 ... kept3                files of segments that were given up, to be used again
 *     lock                           held by the process that has the journal; its number in it
 *
 * What holds it together:
 * - All that a later record builds on is on the disk before that record is: a segment is synced
 *   before anything stands in the next one, what replaces trimmed records before they go.
 * - A lazy journal leaves segments unsynced, and says so in what it writes; what a flush brought to
 *   the disk (journal_flush.c) is told by the proof, which is there before anything relies on it.
 * - A name appears when what it names is whole: segments are made as `next` and renamed.
 * - What an append that failed left behind never passes for a record: each attempt has a number.
 * - A lazy journal writes over files that it gave up: their pages are there, and half the cost of a
 *   batch is to find new ones.  What lies behind its end is of an earlier use, and no record there
 *   belongs to its position; zeros behind each batch say that nothing else is missing.
 * - After a sync that failed nothing is written any more.  The system tells such a failure once and
 *   then takes what it could not write for clean, so a second sync would lie.  Opened anew, the
 *   journal writes all again that is not known to be on the disk. */
#ifndef JOURNAL_LAYOUT_H
#define JOURNAL_LAYOUT_H

#include "broker/journal/disk.h"
#include "broker/journal/format.h"
#include "broker/journal/journal.h"

#include <stdio.h>

#define LAYOUT_SPARE "spare"
#define LAYOUT_NEXT "next"
#define LAYOUT_KEPT "kept" /* and a digit */
/* As many as a flush gives up when values come as fast as they go (JOURNAL_THREAD_FLUSH_BYTES). */
#define LAYOUT_KEPT_MAX 4
/* A checkpoint begins a segment if so much of the last one is used: one part in so many. */
enum { LAYOUT_BEGIN_SHARE = 4 };
/* Of the file that is kept under this number. */
static inline void layout_kept_name(unsigned number, char out_name[FORMAT_NAME_BYTES])
{
    snprintf(out_name, FORMAT_NAME_BYTES, LAYOUT_KEPT "%u", number);
}

/* The body of the record at a position in the segment that begins at `first`, with one read;
 * out_body NULL: only its head.  0; 1: there is no such record; or a negative errno. */
int record_read_body(struct disk *disk, int file, uint64_t id, uint64_t first, uint64_t at,
                     void *out_body, size_t bytes);
/* What a failure of the disk means to who called. */
enum journal_err journal_err_of(int result);

#endif
