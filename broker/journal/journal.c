/* SPDX-License-Identifier: MPL-2.0 */
/* journal.c -- the journal as its users see it: what all makings refuse, and whom they ask. */
#include "broker/journal/journal.h"

#include "broker/journal/layout.h"
#include "broker/journal/making.h"

#include <stdio.h>
#include <string.h>

const char *journal_strerror(enum journal_err err)
{
    switch (err) {
    case JOURNAL_OK: return "fine";
    case JOURNAL_END: return "no record there";
    case JOURNAL_POSITION: return "not a position of the journal for this";
    case JOURNAL_FENCED: return "another broker has the journal";
    case JOURNAL_MAKING: return "this version keeps no journal: only 'none' is known";
    case JOURNAL_MEMORY: return "memory is short";
    case JOURNAL_LIMIT: return "too large for the journal";
    case JOURNAL_FULL: return "the disk of the journal is full";
    case JOURNAL_IO: return "the system refused what the journal asked for";
    case JOURNAL_FAILED: return "the journal could not be brought to the disk";
    case JOURNAL_DAMAGED: return "the journal is damaged";
    case JOURNAL_FORMAT: return "a newer version wrote the journal";
    case JOURNAL_LOCKED: return "another process has the journal";
    case JOURNAL_MISSING: return "there is no journal";
    }
    return "no such code";
}

enum journal_err journal_open(const char *where, const struct journal_options *options,
                              struct journal **out_journal, struct journal_opened *out_opened,
                              char *complaint)
{
    struct disk *disk = NULL;
    if (strcmp(where, "none") == 0) {
        enum journal_err err = none_open(out_journal);
        if (err == JOURNAL_OK)
            *out_opened = (struct journal_opened){.is_new = true};
        else
            snprintf(complaint, JOURNAL_COMPLAINT_BYTES, "%s", journal_strerror(err));
        return err;
    }
    if (where[0] == '\0') {
        snprintf(complaint, JOURNAL_COMPLAINT_BYTES, "a journal is 'none' or a directory");
        return JOURNAL_MAKING;
    }
    int result = disk_folder_open(where, options->may_create, &disk, complaint);
    if (result < 0)
        return embedded_err(result);
    return embedded_open(&disk, options, out_journal, out_opened, complaint);
}

void journal_close(struct journal **journal)
{
    if (*journal != NULL)
        (*journal)->ops->close(*journal);
    *journal = NULL;
}

uint64_t journal_lease(const struct journal *journal)
{
    return journal->lease;
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

uint64_t journal_first_end(const struct journal *journal)
{
    return journal->ops->first_end(journal);
}

uint64_t journal_bytes(const struct journal *journal)
{
    return journal->ops->bytes(journal);
}

uint64_t journal_room(const struct journal *journal)
{
    return journal->ops->room(journal);
}

uint64_t journal_aside(const struct journal *journal)
{
    return journal->aside;
}

void journal_set_aside(struct journal *journal, uint64_t bytes)
{
    if (journal->ops->set_aside != NULL)
        journal->ops->set_aside(journal, bytes);
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

const char *journal_complaint(const struct journal *journal)
{
    return journal->complaint;
}

static enum journal_err refuse(struct journal *journal, enum journal_err err)
{
    snprintf(journal->complaint, sizeof journal->complaint, "%s", journal_strerror(err));
    return err;
}

enum journal_err journal_append(struct journal *journal, uint64_t lease, uint64_t at,
                                const struct journal_record *records, size_t count, unsigned how,
                                uint64_t *out_at)
{
    if (lease != journal->lease)
        return refuse(journal, JOURNAL_FENCED);
    if (at != journal->next)
        return refuse(journal, JOURNAL_POSITION);
    if (count == 0)
        return refuse(journal, JOURNAL_LIMIT);
    for (size_t i = 0; i < count; i++)
        if (records[i].kind == 0 || records[i].kind > JOURNAL_KIND_MAX)
            return refuse(journal, JOURNAL_LIMIT);
    return journal->ops->append(journal, records, count, how, out_at);
}

enum journal_err journal_sync(struct journal *journal, uint64_t until)
{
    if (until > journal->next)
        return refuse(journal, JOURNAL_POSITION);
    return until <= journal->synced ? JOURNAL_OK : journal->ops->sync(journal);
}

enum journal_err journal_trim(struct journal *journal, uint64_t below)
{
    if (below > journal->next)
        return refuse(journal, JOURNAL_POSITION);
    return journal->ops->trim(journal, below);
}

enum journal_err journal_flush_begin(struct journal *journal, struct journal_flush **out_flush)
{
    *out_flush = NULL;
    return journal->ops->flush_begin != NULL ? journal->ops->flush_begin(journal, out_flush)
                                             : JOURNAL_OK;
}

void journal_flush_run(struct journal_flush *flush)
{
    flush->run(flush);
}

enum journal_err journal_flush_end(struct journal *journal, struct journal_flush **flush)
{
    return journal->ops->flush_end(journal, flush);
}

enum journal_err journal_read(struct journal *journal, uint64_t at, struct journal_found *out_found)
{
    if (at < journal->first || at >= journal->next)
        return JOURNAL_END;
    return journal->ops->read(journal, at, out_found);
}

enum journal_err journal_fetch(struct journal *journal, uint64_t at, void *out_body, size_t bytes)
{
    if (at < journal->first || at >= journal->next)
        return JOURNAL_END;
    return journal->ops->fetch(journal, at, out_body, bytes);
}
