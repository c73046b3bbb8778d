/* SPDX-License-Identifier: MPL-2.0 */
/* journal_flush.c -- brings a lazy journal to the disk, beside the thread that appends.
 *
 * Two things begin so.  A flush brings all of it there, and leaves a proof of that.  A sync does
 * the same for who waits for it: where no name has changed it writes no proof, for the records
 * themselves say how far they were synced.
 *
 * The order: all that is kept and was written to, the names, then the proof; and only behind that
 * the segments that were given up go.  So whatever the machine left of the journal when it stopped,
 * the newest proof that is whole names a beginning from which nothing is missing up to its end.
 * What is given up is never synced: values that were taken meanwhile mostly never reach the disk.
 * Some of these files are kept, for their pages (layout.h).
 *
 * What the other thread uses is its own: handles, which stay open until the flush has ended, and
 * segments that the journal does not know any more. */
#include "broker/journal/journal_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A segment that was written to. */
struct written {
    int file; /* the journal's */
    uint64_t until;
};

struct journal_flush {
    struct disk *disk;
    struct proof proof;
    bool is_proved;       /* it is written */
    struct segment *gone; /* given up; the flush's own */
    size_t gone_count;
    bool may_keep[LAYOUT_KEPT_MAX]; /* numbers under which no file is kept */
    int kept[LAYOUT_KEPT_MAX];      /* by this flush: its files, or -1 */
    uint64_t keep_bytes;            /* files of this size alone */
    struct written *written;
    size_t written_count;
    int proof_file;
    bool has_names;
    int result; /* of run: 0, or a negative errno */
};

static void free_flush(struct journal_flush *flush)
{
    if (flush != NULL) {
        free(flush->gone);
        free(flush->written);
    }
    free(flush);
}

/* [any] Keeps a segment's file for another, open as it is; false: it is not to be kept. */
static bool keep_file(struct journal_flush *flush, const struct segment *segment, const char *name)
{
    struct disk *disk = flush->disk;
    char kept[FORMAT_NAME_BYTES];
    int file = segment->file;
    unsigned number = 0;
    while (number < LAYOUT_KEPT_MAX && (!flush->may_keep[number] || flush->kept[number] >= 0))
        number++;
    if (number == LAYOUT_KEPT_MAX || segment->room != flush->keep_bytes)
        return false;
    layout_kept_name(number, kept);
    if (disk->ops->rename(disk, name, kept) != 0)
        return false;
    if (file < 0)
        file = disk->ops->open(disk, kept, DISK_WRITE);
    if (file < 0)
        (void)disk->ops->unlink(disk, kept); /* or the next one that is kept takes its place */
    else
        flush->kept[number] = file;
    return true;
}

/* [any] Lets go of a segment.  If its name stays, the next opening removes it. */
static void remove_segment(struct journal_flush *flush, const struct segment *segment)
{
    char name[FORMAT_NAME_BYTES];
    segment_name_write(segment->first, name);
    if (keep_file(flush, segment, name))
        return;
    if (segment->file >= 0)
        flush->disk->ops->shut(flush->disk, segment->file);
    (void)flush->disk->ops->unlink(flush->disk, name); /* see above */
}

void journal_flush_run(struct journal_flush *flush)
{
    struct disk *disk = flush->disk;
    int result = 0;
    for (size_t i = 0; result == 0 && i < flush->written_count; i++)
        result = disk->ops->sync_until(disk, flush->written[i].file, flush->written[i].until);
    if (result == 0 && flush->has_names)
        result = disk->ops->sync_names(disk);
    if (result == 0 && flush->is_proved)
        result = proof_store(disk, flush->proof_file, &flush->proof);
    for (size_t i = 0; i < flush->gone_count; i++) {
        if (result == 0)
            remove_segment(flush, &flush->gone[i]);
        else if (flush->gone[i].file >= 0)
            disk->ops->shut(disk, flush->gone[i].file);
    }
    flush->result = result;
}

/* Room for all there may be, and the file for the proof. */
static enum journal_err prepare(struct journal *journal, struct journal_flush **out_flush)
{
    struct journal_flush *flush = calloc(1, sizeof *flush);
    if (flush != NULL) {
        flush->gone = calloc(journal->count, sizeof *flush->gone);
        flush->written = calloc(journal->count, sizeof *flush->written);
    }
    if (flush == NULL || flush->gone == NULL || flush->written == NULL) {
        free_flush(flush);
        return JOURNAL_MEMORY;
    }
    *out_flush = flush;
    return JOURNAL_OK;
}

/* The segments that are given up are the flush's from now on. */
static void take_gone(struct journal *journal, struct journal_flush *flush)
{
    while (journal->segments[flush->gone_count].first < journal->given_up) {
        struct segment *segment = &journal->segments[flush->gone_count];
        if (!segment->is_writing)
            segment_shut(journal, segment);
        if (journal->read_from == segment->first)
            journal->read_from = UINT64_MAX;
        journal->gone_bytes += segment->room;
        flush->gone[flush->gone_count++] = *segment;
    }
    journal->count -= flush->gone_count;
    memmove(journal->segments, journal->segments + flush->gone_count,
            journal->count * sizeof *journal->segments);
    journal->first = journal->segments[0].first;
}

/* What holds once the flush has run.  What was synced is whole without a proof, and the records
 * say how far that is.  But a name that goes, or a new one that may be lost, is told by a proof
 * alone. */
static void state_proof(struct journal *journal, struct journal_flush *flush, bool is_proved)
{
    bool is_less = journal->given_up > journal->trimmed;
    flush->is_proved = is_proved || is_less || journal->has_names;
    flush->proof = (struct proof){.journal = journal->id,
                                  .number = journal->proof.number + flush->is_proved,
                                  .trimmed = is_less ? journal->given_up : journal->trimmed,
                                  .synced = journal->next};
    flush->proof_file = journal->proof_file;
    if (flush->is_proved)
        journal->proof = flush->proof;
}

static enum journal_err flush_begin(struct journal *journal, bool is_proved,
                                    struct journal_flush **out_flush)
{
    struct journal_flush *flush = NULL;
    *out_flush = NULL;
    bool is_done = journal->synced == journal->next && journal->given_up <= journal->trimmed &&
                   (!is_proved || journal->proof.synced == journal->synced);
    if (journal->failure != JOURNAL_OK)
        return journal->failure; /* the complaint stands */
    if (!journal->is_lazy || journal->is_flushing || is_done)
        return JOURNAL_OK;
    enum journal_err err = prepare(journal, &flush);
    if (err != JOURNAL_OK)
        return err;
    take_gone(journal, flush);
    for (size_t i = 0; i < journal->count; i++) {
        struct segment *segment = &journal->segments[i];
        if (segment->is_dirty)
            flush->written[flush->written_count++] =
                (struct written){segment->file, segment_written_until(segment)};
        segment->is_dirty = false;
    }
    state_proof(journal, flush, is_proved);
    flush->disk = journal->disk;
    flush->has_names = journal->has_names;
    flush->keep_bytes = journal->segment_bytes;
    for (unsigned i = 0; i < LAYOUT_KEPT_MAX; i++) {
        flush->may_keep[i] = journal->kept[i] < 0;
        flush->kept[i] = -1;
    }
    journal->has_names = flush->gone_count > 0; /* changed by this flush, synced by the next */
    journal->is_flushing = true;
    *out_flush = flush;
    return JOURNAL_OK;
}

enum journal_err journal_flush_begin(struct journal *journal, struct journal_flush **out_flush)
{
    return flush_begin(journal, true, out_flush);
}

enum journal_err journal_sync_begin(struct journal *journal, struct journal_flush **out_flush)
{
    return flush_begin(journal, false, out_flush);
}

/* What the other thread kept.  Meanwhile this one may have used a file, and freed its number. */
static void flush_take_kept(struct journal *journal, const struct journal_flush *flush)
{
    for (unsigned i = 0; i < LAYOUT_KEPT_MAX; i++)
        if (flush->kept[i] >= 0)
            journal->kept[i] = flush->kept[i];
}

enum journal_err journal_flush_end(struct journal *journal, struct journal_flush **ended)
{
    struct journal_flush *flush = *ended;
    enum journal_err err = JOURNAL_OK;
    *ended = NULL;
    journal->is_flushing = false;
    journal->gone_bytes = 0;
    if (flush->result < 0) {
        err = journal_fail(journal, flush->result);
    } else {
        journal->synced = flush->proof.synced;
        journal->trimmed = flush->proof.trimmed;
        flush_take_kept(journal, flush);
        for (size_t i = 0; i + 1 < journal->count; i++)
            if (journal->segments[i].is_writing && !journal->segments[i].is_dirty)
                segment_shut(journal, &journal->segments[i]);
    }
    free_flush(flush);
    return err;
}

enum journal_err journal_flush_all(struct journal *journal)
{
    struct journal_flush *flush = NULL;
    enum journal_err err = journal_flush_begin(journal, &flush);
    if (err != JOURNAL_OK || flush == NULL)
        return err;
    journal_flush_run(flush);
    return journal_flush_end(journal, &flush);
}
