/* SPDX-License-Identifier: MPL-2.0 */
/* journal_open.c -- opens and closes the embedded journal: looks at what is there, mends what a
 * crash left, and refuses what it must not touch. */
#include "broker/journal/layout.h"

#include "broker/journal/journal_internal.h"
#include "broker/journal/survey.h"
#include "libbus/base/limits.h"
#include "libbus/base/must.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE = 1 }; /* the lock lets in one process at a time */
#define COPY_BYTES ((size_t)64 * 1024)

enum journal_err embedded_err(int result)
{
    switch (-result) {
    case 0: return JOURNAL_OK;
    case ENOSPC:
    case EDQUOT: return JOURNAL_FULL;
    case ENOENT: return JOURNAL_MISSING;
    case ENOMEM: return JOURNAL_MEMORY;
    case EWOULDBLOCK: return JOURNAL_LOCKED;
    default: return JOURNAL_IO;
    }
}

enum journal_err embedded_complain(struct embedded *embedded, const char *name, const char *what,
                                   int result)
{
    enum journal_err err = embedded_err(result);
    snprintf(embedded->base.complaint, sizeof embedded->base.complaint,
             "'%.1000s/%s' cannot be %s: %s", embedded->disk->name, name, what, strerror(-result));
    return err == JOURNAL_MISSING || err == JOURNAL_LOCKED ? JOURNAL_IO : err;
}

static enum journal_err refuse(struct embedded *embedded, enum journal_err err, const char *why)
{
    snprintf(embedded->base.complaint, sizeof embedded->base.complaint, "%s", why);
    return err;
}

static enum journal_err lock(struct embedded *embedded)
{
    int64_t pid = 0;
    char who[32] = "";
    int result = embedded->disk->ops->lock(embedded->disk, false, &pid);
    if (result != -EWOULDBLOCK)
        return result == 0 ? JOURNAL_OK : embedded_complain(embedded, "lock", "written", result);
    if (pid > 0)
        snprintf(who, sizeof who, " (process %" PRId64 ")", pid);
    snprintf(embedded->base.complaint, sizeof embedded->base.complaint,
             "another broker%s has the journal in '%.1000s': one directory, one broker", who,
             embedded->disk->name);
    return JOURNAL_LOCKED;
}

/* ---- what a crash left ----------------------------------------------------------------------- */

static enum journal_err write_at(struct embedded *embedded, struct segment *segment, void *bytes,
                                 size_t count, uint64_t offset)
{
    struct iovec piece = {bytes, count};
    char name[FORMAT_NAME_BYTES];
    int result = disk_write_all(embedded->disk, segment->file, &piece, 1, offset);
    segment->is_dirty = true;
    segment_name_write(segment->first, name);
    return result == 0 ? JOURNAL_OK : embedded_complain(embedded, name, "written", result);
}

/* Zeros from one position to another: in place, which works on a full disk, too. */
static enum journal_err cut(struct embedded *embedded, uint64_t from, uint64_t until)
{
    struct segment *last = embedded_last(embedded);
    enum journal_err err = JOURNAL_OK;
    uint8_t *zeros = calloc(1, COPY_BYTES);
    if (zeros == NULL)
        return refuse(embedded, JOURNAL_MEMORY, journal_strerror(JOURNAL_MEMORY));
    for (uint64_t at = from; err == JOURNAL_OK && at < until; at += COPY_BYTES) {
        uint64_t left = until - at;
        err = write_at(embedded, last, zeros, left < COPY_BYTES ? (size_t)left : COPY_BYTES,
                       FORMAT_SEGMENT_BYTES + at - last->first);
    }
    free(zeros);
    return err;
}

/* From one offset to another. */
static enum journal_err write_segment_again(struct embedded *embedded, struct segment *segment,
                                            uint64_t from, uint64_t until)
{
    enum journal_err err = JOURNAL_OK;
    char name[FORMAT_NAME_BYTES];
    uint8_t *bytes = malloc(COPY_BYTES);
    if (bytes == NULL)
        return refuse(embedded, JOURNAL_MEMORY, journal_strerror(JOURNAL_MEMORY));
    segment_name_write(segment->first, name);
    for (uint64_t at = from; err == JOURNAL_OK && at < until;) {
        size_t wanted = until - at < COPY_BYTES ? (size_t)(until - at) : COPY_BYTES;
        int64_t got = disk_read_at(embedded->disk, segment->file, bytes, wanted, at);
        if (got <= 0)
            err = embedded_complain(embedded, name, "read", got < 0 ? (int)got : -EIO);
        else
            err = write_at(embedded, segment, bytes, (size_t)got, at);
        at += (uint64_t)got;
    }
    free(bytes);
    return err;
}

/* Writes what is there once more, heads included, so that the next sync brings it to the disk even
 * if the system has forgotten that an earlier one failed. */
static enum journal_err write_again(struct embedded *embedded, uint64_t from)
{
    enum journal_err err = JOURNAL_OK;
    char name[FORMAT_NAME_BYTES];
    for (size_t i = 0; err == JOURNAL_OK && i < embedded->count; i++) {
        struct segment *segment = &embedded->segments[i];
        if (segment->end <= from)
            continue;
        segment_name_write(segment->first, name);
        if (segment->file < 0)
            segment->file = embedded->disk->ops->open(embedded->disk, name, DISK_WRITE);
        if (segment->file < 0)
            return embedded_complain(embedded, name, "written", segment->file);
        segment->is_writing = true;
        err = write_segment_again(
            embedded, segment,
            segment->first >= from ? 0 : FORMAT_SEGMENT_BYTES + from - segment->first,
            FORMAT_SEGMENT_BYTES + segment->end - segment->first);
    }
    return err;
}

/* All of them, the older ones first. */
static enum journal_err sync_all(struct embedded *embedded)
{
    char name[FORMAT_NAME_BYTES];
    for (size_t i = 0; i + 1 < embedded->count; i++) {
        struct segment *segment = &embedded->segments[i];
        if (!segment->is_dirty)
            continue;
        int result = embedded->disk->ops->sync(embedded->disk, segment->file);
        segment_name_write(segment->first, name);
        if (result < 0)
            return embedded_complain(embedded, name, "synced", result);
        segment->is_dirty = false;
        embedded_shut(embedded, segment);
    }
    return embedded_sync(&embedded->base);
}

/* The same for the seal of the segment before the last: it is on the disk before the first record
 * of the last segment is, but nothing says so as long as there is none. */
static enum journal_err seal_again(struct embedded *embedded)
{
    struct disk *disk = embedded->disk;
    const struct segment *sealed = embedded_last(embedded) - 1;
    uint64_t offset = FORMAT_SEGMENT_BYTES + sealed->end - sealed->first - FORMAT_RECORD_BYTES;
    uint8_t bytes[FORMAT_RECORD_BYTES];
    struct iovec piece = {bytes, sizeof bytes};
    char name[FORMAT_NAME_BYTES];
    segment_name_write(sealed->first, name);
    int file = disk->ops->open(disk, name, DISK_WRITE);
    if (file < 0)
        return embedded_complain(embedded, name, "written", file);
    int64_t result = disk_read_at(disk, file, bytes, sizeof bytes, offset);
    if (result >= 0 && result < (int64_t)sizeof bytes)
        result = -EIO;
    if (result >= 0)
        result = disk_write_all(disk, file, &piece, 1, offset);
    if (result >= 0)
        result = disk->ops->sync(disk, file);
    disk->ops->shut(disk, file);
    return result < 0 ? embedded_complain(embedded, name, "written", (int)result) : JOURNAL_OK;
}

/* Removes what must not be there; a name that is not there is fine. */
static enum journal_err remove_name(struct embedded *embedded, const char *name)
{
    int result = embedded->disk->ops->unlink(embedded->disk, name);
    return result == 0 || result == -ENOENT ? JOURNAL_OK
                                            : embedded_complain(embedded, name, "removed", result);
}

static enum journal_err mend(struct embedded *embedded, const struct survey *survey,
                             struct journal_opened *opened)
{
    enum journal_err err = JOURNAL_OK;
    char text[SURVEY_TEXT_BYTES];
    char name[FORMAT_NAME_BYTES];
    for (size_t i = 0; err == JOURNAL_OK && i < survey->finding_count; i++) {
        const struct finding *finding = &survey->findings[i];
        if (finding->kind == FINDING_TORN) {
            err = cut(embedded, finding->from, finding->until);
            survey_describe(survey, finding, text);
            snprintf(opened->cut, sizeof opened->cut, "%s; they are cut", text);
            opened->cut_bytes = finding->until - finding->from + finding->behind;
            opened->cut_records = finding->records;
        } else if (survey_is_harmless(finding)) {
            segment_name_write(finding->segment, name);
            err = remove_name(embedded, name);
        }
    }
    if (err == JOURNAL_OK && survey->stale_until > embedded->base.next)
        err = cut(embedded, embedded->base.next, survey->stale_until);
    if (err == JOURNAL_OK)
        err = remove_name(embedded, EMBEDDED_NEXT);
    for (unsigned i = 0; err == JOURNAL_OK && i < EMBEDDED_KEPT_MAX; i++) {
        embedded_kept_name(i, name);
        if ((survey->kept & 1u << i) != 0)
            err = remove_name(embedded, name);
    }
    if (err == JOURNAL_OK) {
        int result = embedded->disk->ops->sync_names(embedded->disk);
        if (result < 0)
            err = embedded_complain(embedded, ".", "synced", result);
    }
    return err;
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum journal_err adopt(struct embedded *embedded, const struct survey *survey)
{
    struct journal *base = &embedded->base;
    struct disk *disk = embedded->disk;
    char name[FORMAT_NAME_BYTES];
    for (size_t i = 0; i < survey->count; i++) {
        const struct surveyed *found = &survey->segments[i];
        if (!embedded_reserve_segment(embedded))
            return refuse(embedded, JOURNAL_MEMORY, journal_strerror(JOURNAL_MEMORY));
        embedded->segments[embedded->count++] = (struct segment){
            .first = found->first, .end = found->end, .room = found->bytes, .file = -1};
    }
    struct segment *last = embedded_last(embedded);
    segment_name_write(last->first, name);
    int file = disk->ops->open(disk, name, DISK_WRITE);
    if (file < 0)
        return embedded_complain(embedded, name, "written", file);
    last->file = file;
    last->is_writing = true;
    base->id = survey->journal;
    base->first = embedded->segments[0].first;
    base->next = last->end;
    base->checkpoint = survey->checkpoint;
    embedded->begun = survey->begun;
    embedded->given_up = survey->trimmed;
    embedded->trimmed = embedded->is_lazy ? survey->given_up : survey->trimmed;
    embedded->proof = survey->proof;
    base->synced = survey->synced < base->next ? survey->synced : base->next;
    embedded->batch = survey->batch;
    return JOURNAL_OK;
}

/* Without the file for the proof, as on a full disk, the journal syncs as it goes. */
static void open_proof(struct embedded *embedded)
{
    if (embedded->is_lazy)
        embedded->proof_file = proof_open(embedded->disk);
    embedded->is_lazy = embedded->is_lazy && embedded->proof_file >= 0;
    embedded->has_names = true;
}

/* Nothing is left unsynced before there is a proof that says so, nor a proof where all is synced as
 * it comes. */
static enum journal_err store_proof(struct embedded *embedded)
{
    struct disk *disk = embedded->disk;
    int result = 0;
    if (embedded->is_lazy) {
        embedded->proof = (struct proof){.journal = embedded->base.id,
                                         .number = embedded->proof.number + 1,
                                         .trimmed = embedded->trimmed,
                                         .synced = embedded->base.synced};
        result = proof_store(disk, embedded->proof_file, &embedded->proof);
    } else if (embedded->proof.number > 0) {
        result = disk->ops->unlink(disk, PROOF_NAME);
    } else {
        return JOURNAL_OK;
    }
    if (result == 0)
        result = disk->ops->sync_names(disk);
    return result < 0 ? embedded_complain(embedded, PROOF_NAME, "written", result) : JOURNAL_OK;
}

static enum journal_err recover(struct embedded *embedded, const struct survey *survey,
                                struct journal_opened *opened)
{
    struct journal *base = &embedded->base;
    open_proof(embedded);
    enum journal_err err = adopt(embedded, survey);
    if (err == JOURNAL_OK)
        err = mend(embedded, survey, opened);
    if (err == JOURNAL_OK && survey->synced < base->next)
        err = write_again(embedded, survey->synced);
    if (err == JOURNAL_OK && embedded->count > 1 && embedded_last(embedded)->first == base->next)
        err = seal_again(embedded);
    bool is_cut = survey->finding_count > 0 || survey->stale_until > base->next;
    /* What was cut stays cut before anything takes its place. */
    if (err == JOURNAL_OK && embedded->is_lazy && is_cut)
        err = embedded_flush(embedded);
    if (err == JOURNAL_OK && !embedded->is_lazy)
        err = sync_all(embedded);
    if (err == JOURNAL_OK && !embedded->is_lazy)
        err = embedded_drop_trimmed(embedded);
    return err;
}

static enum journal_err refuse_damage(struct embedded *embedded, const struct survey *survey,
                                      const struct finding *finding)
{
    char text[SURVEY_TEXT_BYTES];
    const char *name = embedded->disk->name;
    survey_describe(survey, finding, text);
    snprintf(embedded->base.complaint, sizeof embedded->base.complaint,
             "%s. Nothing was changed: 'errbusd --check %.300s' tells all that is wrong, "
             "'errbusd --export %.300s' writes out what can be read, and "
             "'errbusd --repair %.300s' cuts out what cannot",
             text, name, name, name);
    return JOURNAL_DAMAGED;
}

static enum journal_err create(struct embedded *embedded, const struct journal_options *options)
{
    if (!options->may_create) {
        snprintf(embedded->base.complaint, sizeof embedded->base.complaint,
                 "there is no journal in '%.1000s'", embedded->disk->name);
        return JOURNAL_MISSING;
    }
    embedded->base.id = options->id;
    embedded->is_lazy = false; /* the first segment is on the disk, whatever follows */
    if (!embedded_reserve_segment(embedded))
        return refuse(embedded, JOURNAL_MEMORY, journal_strerror(JOURNAL_MEMORY));
    enum journal_err err =
        embedded_make_segment(embedded, 0, embedded->segment_bytes, false, &embedded->segments[0]);
    embedded->count = err == JOURNAL_OK;
    embedded->is_lazy = options->is_lazy;
    if (err == JOURNAL_OK)
        open_proof(embedded);
    return err;
}

static enum journal_err open_directory(struct embedded *embedded,
                                       const struct journal_options *options,
                                       struct journal_opened *opened)
{
    struct survey survey = {.count = 0};
    uint64_t bytes = options->segment_bytes;
    bytes = bytes == 0 ? DEFAULT_JOURNAL_SEGMENT_BYTES : bytes;
    embedded->segment_bytes = bytes;
    embedded->base.aside = bytes;
    embedded->wanted_bytes = bytes;
    if (bytes < LIMIT_JOURNAL_SEGMENT_BYTES_MIN || bytes > LIMIT_JOURNAL_SEGMENT_BYTES_MAX)
        return refuse(embedded, JOURNAL_LIMIT, "a segment of the journal has 4 KiB to 1 GiB");
    enum journal_err err = lock(embedded);
    if (err != JOURNAL_OK)
        return err;
    err = survey_take(&survey, embedded->disk, NULL, NULL);
    const struct finding *damage = survey_damage(&survey);
    if (err != JOURNAL_OK)
        err = refuse(embedded, err, survey.complaint);
    else if (damage != NULL)
        err = refuse_damage(embedded, &survey, damage);
    else if (survey.count > 0)
        err = recover(embedded, &survey, opened);
    else
        err = create(embedded, options);
    opened->is_new = survey.count == 0;
    if (err == JOURNAL_OK)
        err = store_proof(embedded);
    if (err == JOURNAL_OK)
        /* The next append tells if there is no room for it.  One that is larger stays as it is:
         * how much is wanted is told later. */
        (void)embedded_make_spare(embedded);
    survey_fini(&survey);
    return err;
}

static void embedded_close(struct journal *journal)
{
    struct embedded *embedded = embedded_of(journal);
    must(!embedded->is_flushing);
    if (embedded->count > 0 && embedded_last(embedded)->file >= 0 &&
        (journal->synced < journal->next || embedded->is_lazy))
        (void)embedded_sync(journal); /* who must know asked before */
    for (size_t i = 0; i < embedded->count; i++)
        embedded_shut(embedded, &embedded->segments[i]);
    if (embedded->has_made)
        embedded_shut(embedded, &embedded->made);
    if (embedded->proof_file >= 0)
        embedded->disk->ops->shut(embedded->disk, embedded->proof_file);
    for (unsigned i = 0; i < EMBEDDED_KEPT_MAX; i++)
        if (embedded->kept[i] >= 0)
            embedded->disk->ops->shut(embedded->disk, embedded->kept[i]);
    scan_fini(&embedded->reader);
    disk_close(&embedded->disk);
    free(embedded->segments);
    free(embedded->stage);
    free(embedded);
}

static uint64_t embedded_first_end(const struct journal *journal)
{
    const struct embedded *embedded = (const struct embedded *)(const void *)journal;
    return embedded->count > 1 ? embedded->segments[1].first : UINT64_MAX;
}

static uint64_t embedded_bytes(const struct journal *journal)
{
    const struct embedded *embedded = (const struct embedded *)(const void *)journal;
    uint64_t bytes = embedded->spare_bytes + (embedded->has_made ? embedded->made.room : 0) +
                     embedded->gone_bytes;
    for (unsigned i = 0; i < EMBEDDED_KEPT_MAX; i++)
        bytes += embedded->kept[i] >= 0 ? embedded->segment_bytes : 0;
    for (size_t i = 0; i < embedded->count; i++)
        bytes += embedded->segments[i].room;
    return bytes;
}

/* Heads are not taken off: it is about segments, not about bytes. */
static uint64_t embedded_room(const struct journal *journal)
{
    const struct embedded *embedded = (const struct embedded *)(const void *)journal;
    const struct segment *last = &embedded->segments[embedded->count - 1];
    uint64_t used = FORMAT_SEGMENT_BYTES + last->end - last->first;
    uint64_t left = last->room > used ? last->room - used : 0;
    return left + embedded->spare_bytes;
}

static const struct journal_ops embedded_ops = {.append = embedded_append,
                                                .sync = embedded_sync,
                                                .trim = embedded_trim,
                                                .set_aside = embedded_set_aside,
                                                .read = embedded_read,
                                                .fetch = embedded_fetch,
                                                .first_end = embedded_first_end,
                                                .bytes = embedded_bytes,
                                                .room = embedded_room,
                                                .close = embedded_close,
                                                .flush_begin = embedded_flush_begin,
                                                .flush_end = embedded_flush_end};

enum journal_err embedded_open(struct disk **disk, const struct journal_options *options,
                               struct journal **out_journal, struct journal_opened *out_opened,
                               char *complaint)
{
    struct journal_opened opened = {.is_new = false};
    struct embedded *embedded = calloc(1, sizeof *embedded);
    if (embedded == NULL) {
        disk_close(disk);
        snprintf(complaint, JOURNAL_COMPLAINT_BYTES, "%s", journal_strerror(JOURNAL_MEMORY));
        return JOURNAL_MEMORY;
    }
    embedded->base.ops = &embedded_ops;
    embedded->base.lease = LEASE;
    embedded->base.checkpoint = UINT64_MAX;
    embedded->begun = UINT64_MAX;
    embedded->read_from = UINT64_MAX;
    embedded->disk = *disk;
    embedded->proof_file = -1;
    for (unsigned i = 0; i < EMBEDDED_KEPT_MAX; i++)
        embedded->kept[i] = -1;
    embedded->is_lazy = options->is_lazy;
    *disk = NULL;
    scan_init(&embedded->reader, embedded->disk);
    enum journal_err err = open_directory(embedded, options, &opened);
    if (err == JOURNAL_OK) {
        *out_journal = &embedded->base;
        *out_opened = opened;
    } else {
        memcpy(complaint, embedded->base.complaint, JOURNAL_COMPLAINT_BYTES);
        embedded->is_failed = true; /* nothing of it is synced any more */
        embedded_close(&embedded->base);
    }
    return err;
}
