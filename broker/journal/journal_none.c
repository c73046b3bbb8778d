/* SPDX-License-Identifier: MPL-2.0 */
/* journal_none.c -- the journal that keeps nothing: everything ends with the process. */
#include "broker/journal/making.h"

#include <stdlib.h>

enum { LEASE = 1 }; /* nobody else can have it */

static enum journal_err none_append(struct journal *journal, const struct journal_record *records,
                                    size_t count, unsigned how, uint64_t *out_at)
{
    (void)records; /* none is kept */
    (void)how;
    for (size_t i = 0; out_at != NULL && i < count; i++)
        out_at[i] = journal->next + i;
    journal->next += count;
    journal->first = journal->next;
    journal->synced = journal->next; /* as far as can be: there is nothing to lose */
    return JOURNAL_OK;
}

static enum journal_err none_sync(struct journal *journal)
{
    (void)journal;
    return JOURNAL_OK;
}

static enum journal_err none_trim(struct journal *journal, uint64_t below)
{
    (void)journal;
    (void)below; /* nothing is kept as it is */
    return JOURNAL_OK;
}

static enum journal_err none_read(struct journal *journal, uint64_t at,
                                  struct journal_found *out_found)
{
    (void)journal;
    (void)at;
    (void)out_found; /* there is none to give */
    return JOURNAL_END;
}

static enum journal_err none_fetch(struct journal *journal, uint64_t at, void *out_body,
                                   size_t bytes)
{
    (void)journal;
    (void)at;
    (void)out_body;
    (void)bytes;
    return JOURNAL_END;
}

static uint64_t none_first_end(const struct journal *journal)
{
    (void)journal;
    return UINT64_MAX;
}

static uint64_t none_bytes(const struct journal *journal)
{
    (void)journal;
    return 0;
}

static uint64_t none_room(const struct journal *journal)
{
    (void)journal;
    return UINT64_MAX;
}

static void none_close(struct journal *journal)
{
    free(journal);
}

enum journal_err none_open(struct journal **out_journal)
{
    static const struct journal_ops ops = {.append = none_append,
                                           .sync = none_sync,
                                           .trim = none_trim,
                                           .read = none_read,
                                           .fetch = none_fetch,
                                           .first_end = none_first_end,
                                           .bytes = none_bytes,
                                           .room = none_room,
                                           .close = none_close};
    struct journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL)
        return JOURNAL_MEMORY;
    journal->ops = &ops;
    journal->lease = LEASE;
    journal->checkpoint = UINT64_MAX;
    *out_journal = journal;
    return JOURNAL_OK;
}
