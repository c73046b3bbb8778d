/* SPDX-License-Identifier: MPL-2.0 */
/* journal_none.c -- the journal that keeps nothing: everything ends with the process. */
#include "broker/journal/journal.h"

#include <stdlib.h>
#include <string.h>

enum { LEASE = 1 }; /* nobody else can have it */

struct journal {
    uint64_t next;
};

const char *journal_strerror(enum journal_err err)
{
    switch (err) {
    case JOURNAL_OK: return "fine";
    case JOURNAL_END: return "no record there";
    case JOURNAL_POSITION: return "the journal does not end there";
    case JOURNAL_FENCED: return "another broker has the journal";
    case JOURNAL_MAKING: return "this version keeps no journal: only 'none' is known";
    case JOURNAL_MEMORY: return "memory is short";
    }
    return "no such code";
}

enum journal_err journal_open(const char *where, struct journal **out_journal)
{
    if (strcmp(where, "none") != 0)
        return JOURNAL_MAKING;
    struct journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL)
        return JOURNAL_MEMORY;
    *out_journal = journal;
    return JOURNAL_OK;
}

void journal_close(struct journal **journal)
{
    free(*journal);
    *journal = NULL;
}

uint64_t journal_lease(const struct journal *journal)
{
    (void)journal; /* one lease for all */
    return LEASE;
}

uint64_t journal_first(const struct journal *journal)
{
    return journal->next;
}

uint64_t journal_next(const struct journal *journal)
{
    return journal->next;
}

enum journal_err journal_append(struct journal *journal, uint64_t lease, uint64_t at,
                                const struct span *records, size_t count)
{
    (void)records; /* none is kept */
    if (lease != LEASE)
        return JOURNAL_FENCED;
    if (at != journal->next)
        return JOURNAL_POSITION;
    journal->next += count;
    return JOURNAL_OK;
}

enum journal_err journal_read(struct journal *journal, uint64_t at, struct span *out_record)
{
    (void)journal;
    (void)at;
    (void)out_record; /* there is none to give */
    return JOURNAL_END;
}

void journal_trim(struct journal *journal, uint64_t first)
{
    (void)journal;
    (void)first; /* nothing is kept as it is */
}
