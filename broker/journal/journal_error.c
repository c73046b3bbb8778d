/* SPDX-License-Identifier: MPL-2.0 */
/* journal_error.c -- what a failure of the disk means, in a code and in a sentence. */
#include "broker/journal/journal_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *journal_strerror(enum journal_err err)
{
    switch (err) {
    case JOURNAL_OK: return "success";
    case JOURNAL_END: return "no record is at this position";
    case JOURNAL_POSITION: return "this position is not in the journal";
    case JOURNAL_FENCED: return "another broker has the journal";
    case JOURNAL_DISK: return "no disk has this scheme";
    case JOURNAL_MEMORY: return "out of memory";
    case JOURNAL_LIMIT: return "too large for the journal";
    case JOURNAL_FULL: return "the disk of the journal is full";
    case JOURNAL_IO: return "a system call on the files of the journal failed";
    case JOURNAL_FAILED: return "the journal could not be written to the disk";
    case JOURNAL_DAMAGED: return "the journal is damaged";
    case JOURNAL_FORMAT: return "a newer version of errbusd wrote the journal";
    case JOURNAL_LOCKED: return "another process has the journal";
    case JOURNAL_MISSING: return "there is no journal";
    }
    return "no such code";
}

enum journal_err journal_err_of(int result)
{
    switch (-result) {
    case 0: return JOURNAL_OK;
    case ENOSPC:
    case EDQUOT: return JOURNAL_FULL;
    case ENOENT: return JOURNAL_MISSING;
    case ENOMEM: return JOURNAL_MEMORY;
    case EWOULDBLOCK: return JOURNAL_LOCKED;
    case DISK_FENCED: return JOURNAL_FENCED;
    case DISK_UNKNOWN: return JOURNAL_DISK;
    default: return JOURNAL_IO;
    }
}

enum journal_err journal_refuse(struct journal *journal, enum journal_err err)
{
    snprintf(journal->complaint, sizeof journal->complaint, "the journal in '%.1000s': %s",
             journal->disk->name, journal_strerror(err));
    return err;
}

static const char *why_of(const struct journal *journal, int result)
{
    return journal->disk->why != NULL ? journal->disk->why : strerror(-result);
}

/* Another process has the journal now: this process may not write to it any more. */
static enum journal_err fence(struct journal *journal)
{
    snprintf(
        journal->complaint, sizeof journal->complaint,
        "another broker has taken over the journal in '%.1000s': this broker writes nothing more "
        "to it, and the records from position %" PRIu64 " on may be lost",
        journal->disk->name, journal->synced);
    journal->failure = JOURNAL_FENCED;
    return JOURNAL_FENCED;
}
enum journal_err journal_complain(struct journal *journal, const char *name, const char *what,
                                  int result)
{
    enum journal_err err = journal_err_of(result);
    if (err == JOURNAL_FENCED)
        return fence(journal);
    journal->has_forgotten = journal->has_forgotten || result == -DISK_FORGOT;
    snprintf(journal->complaint, sizeof journal->complaint, "'%.1000s/%s' cannot be %s: %s",
             journal->disk->name, name, what, why_of(journal, result));
    return err == JOURNAL_MISSING || err == JOURNAL_LOCKED ? JOURNAL_IO : err;
}

enum journal_err journal_fail(struct journal *journal, int result)
{
    char name[FORMAT_NAME_BYTES];
    char more[200] = "";
    if (result == -DISK_FENCED)
        return fence(journal);
    journal->has_forgotten = journal->has_forgotten || result == -DISK_FORGOT;
    segment_name_write(journal_last(journal)->first, name);
    if (journal->disk->why == NULL) /* a disk that says why says what to do, too */
        snprintf(more, sizeof more,
                 ". A power failure now may lose the records from position %" PRIu64
                 " on. Nothing more is written to this journal until it is opened again: check "
                 "the disk, then start errbusd again",
                 journal->synced);
    snprintf(journal->complaint, sizeof journal->complaint,
             "'%.1000s/%s' could not be written to the disk: %s%s", journal->disk->name, name,
             why_of(journal, result), more);
    journal->failure = JOURNAL_FAILED;
    return JOURNAL_FAILED;
}
