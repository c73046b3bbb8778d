/* SPDX-License-Identifier: MPL-2.0 */
/* journal.c -- what a journal tells of itself: its positions, its size, its room. */
#include "broker/journal/journal.h"

#include "broker/journal/journal_internal.h"

const char *journal_scheme(const struct journal *journal)
{
    return journal->disk->scheme;
}

const char *journal_place(const struct journal *journal)
{
    return journal->disk->name;
}

const char *journal_folder(const struct journal *journal)
{
    return journal->disk->files != NULL ? journal->disk->files : journal->disk->name;
}

const char *journal_files(const struct journal *journal)
{
    return journal->disk->files;
}

bool journal_is_lazy(const struct journal *journal)
{
    return journal->is_lazy;
}

bool journal_is_shared(const char *where)
{
    return disk_is_shared(where);
}

bool journal_needs_keeping(const struct journal *journal)
{
    return journal->disk->ops->keep != NULL;
}

enum journal_err journal_keep(struct journal *journal)
{
    if (journal->failure != JOURNAL_OK)
        return journal->failure; /* the complaint stands */
    int result = journal->disk->ops->keep(journal->disk);
    return result == 0 ? JOURNAL_OK : journal_fail(journal, result);
}

void journal_give_up(struct journal *journal)
{
    if (journal->disk->ops->give_up != NULL)
        journal->disk->ops->give_up(journal->disk);
}

void journal_away(const struct journal *journal, char *out)
{
    out[0] = '\0';
    if (journal->disk->ops->away != NULL)
        journal->disk->ops->away(journal->disk, out);
}

uint64_t journal_lease(const struct journal *journal)
{
    return journal->lease;
}

const char *journal_holder(const struct journal *journal)
{
    return journal->holder;
}

uint64_t journal_id(const struct journal *journal)
{
    return journal->id;
}

uint64_t journal_first(const struct journal *journal)
{
    return journal->first;
}

uint64_t journal_next(const struct journal *journal)
{
    return journal->next;
}

/* A position is where a record stands if all segments are laid end to end. */
uint64_t journal_between(uint64_t from, uint64_t until)
{
    return until > from ? until - from : 0;
}

uint64_t journal_back(uint64_t until, uint64_t bytes)
{
    return until > bytes ? until - bytes : 0;
}

uint64_t journal_ahead(uint64_t from, uint64_t bytes)
{
    return from + bytes;
}

uint64_t journal_unsynced(const struct journal *journal)
{
    return journal_between(journal->synced, journal->next);
}

uint64_t journal_first_end(const struct journal *journal)
{
    return journal->count > 1 ? journal->segments[1].first : UINT64_MAX;
}

uint64_t journal_bytes(const struct journal *journal)
{
    uint64_t bytes =
        journal->spare_bytes + (journal->has_made ? journal->made.room : 0) + journal->gone_bytes;
    for (unsigned i = 0; i < LAYOUT_KEPT_MAX; i++)
        bytes += journal->kept[i] >= 0 ? journal->segment_bytes : 0;
    for (size_t i = 0; i < journal->count; i++)
        bytes += journal->segments[i].room;
    return bytes;
}

/* The heads of segments to come are not taken off: such a few bytes do not matter here. */
uint64_t journal_room(const struct journal *journal)
{
    const struct segment *last = &journal->segments[journal->count - 1];
    uint64_t used = FORMAT_SEGMENT_BYTES + last->end - last->first;
    uint64_t left = last->room > used ? last->room - used : 0;
    return left + journal->spare_bytes;
}

uint64_t journal_aside(const struct journal *journal)
{
    return journal->aside;
}

uint64_t journal_synced(const struct journal *journal)
{
    return journal->synced;
}

uint64_t journal_start(const struct journal *journal)
{
    bool is_kept = journal->checkpoint != UINT64_MAX && journal->checkpoint >= journal->first;
    return is_kept ? journal->checkpoint : journal->first;
}

bool journal_has_forgotten(const struct journal *journal)
{
    return journal->has_forgotten;
}

const char *journal_complaint(const struct journal *journal)
{
    return journal->complaint;
}
