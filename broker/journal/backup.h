/* SPDX-License-Identifier: MPL-2.0 */
/* backup.h -- copies a journal while a broker writes it. */
#ifndef JOURNAL_BACKUP_H
#define JOURNAL_BACKUP_H

#include "broker/journal/disk.h"
#include "broker/journal/journal.h"

#include <time.h>

struct backup_done {
    struct timespec as_of; /* what was acknowledged before this time is in the copy */
    uint64_t segments;
    uint64_t records;
    uint64_t until; /* the position behind its last record */
};

/* Copies what is on one disk to another, which must be empty; takes both over.  The journal is
 * neither locked nor changed.  When it returns JOURNAL_OK the copy is on its disk, and was read
 * again: a broker would start with it.  Otherwise complaint, of JOURNAL_COMPLAINT_BYTES, is a
 * sentence, and nothing that is left there passes for a journal. */
enum journal_err backup_take(struct disk **from, struct disk **to, struct backup_done *out_done,
                             char *complaint);

#endif
