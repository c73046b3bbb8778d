/* SPDX-License-Identifier: MPL-2.0 */
/* journal_open.c -- opens and closes the journal: looks at what is there, mends what a
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

#define COPY_BYTES ((size_t)64 * 1024)

static enum journal_err opening_refuse(struct journal *journal, enum journal_err err,
                                       const char *why)
{
    snprintf(journal->complaint, sizeof journal->complaint, "%s", why);
    return err;
}

static enum journal_err opening_lock(struct journal *journal, const struct journal_options *options)
{
    struct disk_owner owner = {.lease = 0};
    char who[32] = "";
    int result = journal->disk->ops->lock(journal->disk, false, &owner);
    while (result == -EWOULDBLOCK && options->on_locked != NULL &&
           options->on_locked(options->on_locked_arg, journal->disk->why))
        result = journal->disk->ops->lock(journal->disk, false, &owner);
    journal->lease = owner.lease;
    memcpy(journal->holder, owner.holder, sizeof journal->holder);
    if (result != -EWOULDBLOCK)
        return result == 0 ? JOURNAL_OK : journal_complain(journal, "lock", "written", result);
    if (owner.pid > 0)
        snprintf(who, sizeof who, " (process %" PRId64 ")", owner.pid);
    snprintf(journal->complaint, sizeof journal->complaint,
             "another broker%s has the journal in '%.1000s': one directory, one broker", who,
             journal->disk->name);
    return JOURNAL_LOCKED;
}

/* ---- what a crash left ----------------------------------------------------------------------- */

static enum journal_err write_at(struct journal *journal, struct segment *segment, void *bytes,
                                 size_t count, uint64_t offset)
{
    struct iovec piece = {bytes, count};
    char name[FORMAT_NAME_BYTES];
    int result = disk_write_all(journal->disk, segment->file, &piece, 1, offset);
    segment->is_dirty = true;
    segment_name_write(segment->first, name);
    return result == 0 ? JOURNAL_OK : journal_complain(journal, name, "written", result);
}

/* Zeros from one position to another: in place, which works on a full disk, too. */
static enum journal_err cut(struct journal *journal, uint64_t from, uint64_t until)
{
    struct segment *last = journal_last(journal);
    enum journal_err err = JOURNAL_OK;
    uint8_t *zeros = calloc(1, COPY_BYTES);
    if (zeros == NULL)
        return opening_refuse(journal, JOURNAL_MEMORY, journal_strerror(JOURNAL_MEMORY));
    for (uint64_t at = from; err == JOURNAL_OK && at < until; at += COPY_BYTES) {
        uint64_t left = until - at;
        err = write_at(journal, last, zeros, left < COPY_BYTES ? (size_t)left : COPY_BYTES,
                       FORMAT_SEGMENT_BYTES + at - last->first);
    }
    free(zeros);
    return err;
}

/* Writes a segment once more, from one offset to another. */
static enum journal_err write_segment_again(struct journal *journal, struct segment *segment,
                                            uint64_t from, uint64_t until)
{
    enum journal_err err = JOURNAL_OK;
    char name[FORMAT_NAME_BYTES];
    uint8_t *bytes = malloc(COPY_BYTES);
    if (bytes == NULL)
        return opening_refuse(journal, JOURNAL_MEMORY, journal_strerror(JOURNAL_MEMORY));
    segment_name_write(segment->first, name);
    for (uint64_t at = from; err == JOURNAL_OK && at < until;) {
        size_t wanted = until - at < COPY_BYTES ? (size_t)(until - at) : COPY_BYTES;
        int64_t got = disk_read_at(journal->disk, segment->file, bytes, wanted, at);
        if (got <= 0)
            err = journal_complain(journal, name, "read", got < 0 ? (int)got : -EIO);
        else
            err = write_at(journal, segment, bytes, (size_t)got, at);
        at += (uint64_t)got;
    }
    free(bytes);
    return err;
}

/* Writes what is there once more, heads included, so that the next sync brings it to the disk even
 * if the system has forgotten that an earlier one failed. */
static enum journal_err write_again(struct journal *journal, uint64_t from)
{
    enum journal_err err = JOURNAL_OK;
    char name[FORMAT_NAME_BYTES];
    for (size_t i = 0; err == JOURNAL_OK && i < journal->count; i++) {
        struct segment *segment = &journal->segments[i];
        if (segment->end <= from)
            continue;
        segment_name_write(segment->first, name);
        if (segment->file < 0)
            segment->file = journal->disk->ops->open(journal->disk, name, DISK_WRITE);
        if (segment->file < 0)
            return journal_complain(journal, name, "written", segment->file);
        segment->is_writing = true;
        err = write_segment_again(
            journal, segment,
            segment->first >= from ? 0 : FORMAT_SEGMENT_BYTES + from - segment->first,
            FORMAT_SEGMENT_BYTES + segment->end - segment->first);
    }
    return err;
}

/* Syncs all segments, the older ones first. */
static enum journal_err sync_all(struct journal *journal)
{
    char name[FORMAT_NAME_BYTES];
    for (size_t i = 0; i + 1 < journal->count; i++) {
        struct segment *segment = &journal->segments[i];
        if (!segment->is_dirty)
            continue;
        int result = journal->disk->ops->sync(journal->disk, segment->file);
        segment_name_write(segment->first, name);
        if (result < 0)
            return journal_complain(journal, name, "synced", result);
        segment->is_dirty = false;
        segment_shut(journal, segment);
    }
    return journal_sync_all(journal);
}

/* Does the same for the seal of the segment before the last, if the last segment has no record yet.
 * The first record there would show that the seal is on the disk. */
static enum journal_err seal_again(struct journal *journal)
{
    struct disk *disk = journal->disk;
    const struct segment *sealed = journal_last(journal) - 1;
    uint64_t offset = FORMAT_SEGMENT_BYTES + sealed->end - sealed->first - FORMAT_RECORD_BYTES;
    uint8_t bytes[FORMAT_RECORD_BYTES];
    struct iovec piece = {bytes, sizeof bytes};
    char name[FORMAT_NAME_BYTES];
    segment_name_write(sealed->first, name);
    int file = disk->ops->open(disk, name, DISK_WRITE);
    if (file < 0)
        return journal_complain(journal, name, "written", file);
    int64_t result = disk_read_at(disk, file, bytes, sizeof bytes, offset);
    if (result >= 0 && result < (int64_t)sizeof bytes)
        result = -EIO;
    if (result >= 0)
        result = disk_write_all(disk, file, &piece, 1, offset);
    if (result >= 0)
        result = disk->ops->sync(disk, file);
    disk->ops->shut(disk, file);
    return result < 0 ? journal_complain(journal, name, "written", (int)result) : JOURNAL_OK;
}

/* Removes what must not be there; a name that is not there is fine. */
static enum journal_err remove_name(struct journal *journal, const char *name)
{
    int result = journal->disk->ops->unlink(journal->disk, name);
    return result == 0 || result == -ENOENT ? JOURNAL_OK
                                            : journal_complain(journal, name, "removed", result);
}

static enum journal_err opening_mend(struct journal *journal, const struct survey *survey,
                                     struct journal_opened *opened)
{
    enum journal_err err = JOURNAL_OK;
    char text[SURVEY_TEXT_BYTES];
    char name[FORMAT_NAME_BYTES];
    for (size_t i = 0; err == JOURNAL_OK && i < survey->finding_count; i++) {
        const struct finding *finding = &survey->findings[i];
        if (finding->kind == FINDING_TORN) {
            err = cut(journal, finding->from, finding->until);
            survey_describe(survey, finding, text);
            snprintf(opened->cut, sizeof opened->cut, "%s; they were cut off", text);
            opened->cut_bytes = finding->until - finding->from + finding->behind;
            opened->cut_records = finding->records;
        } else if (survey_is_harmless(finding)) {
            segment_name_write(finding->segment, name);
            err = remove_name(journal, name);
        }
    }
    if (err == JOURNAL_OK && survey->stale_until > journal->next)
        err = cut(journal, journal->next, survey->stale_until);
    if (err == JOURNAL_OK)
        err = remove_name(journal, LAYOUT_NEXT);
    for (unsigned i = 0; err == JOURNAL_OK && i < LAYOUT_KEPT_MAX; i++) {
        layout_kept_name(i, name);
        if ((survey->kept & 1u << i) != 0)
            err = remove_name(journal, name);
    }
    if (err == JOURNAL_OK) {
        int result = journal->disk->ops->sync_names(journal->disk);
        if (result < 0)
            err = journal_complain(journal, ".", "synced", result);
    }
    return err;
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum journal_err adopt(struct journal *journal, const struct survey *survey)
{
    struct disk *disk = journal->disk;
    char name[FORMAT_NAME_BYTES];
    for (size_t i = 0; i < survey->count; i++) {
        const struct surveyed *found = &survey->segments[i];
        if (!journal_reserve_segment(journal))
            return opening_refuse(journal, JOURNAL_MEMORY, journal_strerror(JOURNAL_MEMORY));
        journal->segments[journal->count++] = (struct segment){
            .first = found->first, .end = found->end, .room = found->bytes, .file = -1};
    }
    struct segment *last = journal_last(journal);
    segment_name_write(last->first, name);
    int file = disk->ops->open(disk, name, DISK_WRITE);
    if (file < 0)
        return journal_complain(journal, name, "written", file);
    last->file = file;
    last->is_writing = true;
    journal->id = survey->journal;
    journal->first = journal->segments[0].first;
    journal->next = last->end;
    journal->checkpoint = survey->checkpoint;
    journal->begun = survey->begun;
    journal->given_up = survey->trimmed;
    journal->trimmed = journal->is_lazy ? survey->given_up : survey->trimmed;
    journal->proof = survey->proof;
    journal->synced = survey->synced < journal->next ? survey->synced : journal->next;
    journal->batch = survey->batch;
    return JOURNAL_OK;
}

/* Without the file for the proof, as on a full disk, the journal syncs as it goes. */
static void open_proof(struct journal *journal)
{
    if (journal->is_lazy)
        journal->proof_file = proof_open(journal->disk);
    journal->is_lazy = journal->is_lazy && journal->proof_file >= 0;
    journal->has_names = true;
}

/* A lazy journal has a proof before it leaves anything unsynced.  A journal that syncs as it goes
 * has none. */
static enum journal_err store_proof(struct journal *journal)
{
    struct disk *disk = journal->disk;
    int result = 0;
    if (journal->is_lazy) {
        journal->proof = (struct proof){.journal = journal->id,
                                        .number = journal->proof.number + 1,
                                        .trimmed = journal->trimmed,
                                        .synced = journal->synced};
        result = proof_store(disk, journal->proof_file, &journal->proof);
    } else if (journal->proof.number > 0) {
        result = disk->ops->unlink(disk, PROOF_NAME);
    } else {
        return JOURNAL_OK;
    }
    if (result == 0)
        result = disk->ops->sync_names(disk);
    return result < 0 ? journal_complain(journal, PROOF_NAME, "written", result) : JOURNAL_OK;
}

static enum journal_err opening_recover(struct journal *journal, const struct survey *survey,
                                        struct journal_opened *opened)
{
    open_proof(journal);
    enum journal_err err = adopt(journal, survey);
    if (err == JOURNAL_OK)
        err = opening_mend(journal, survey, opened);
    if (err == JOURNAL_OK && survey->synced < journal->next)
        err = write_again(journal, survey->synced);
    if (err == JOURNAL_OK && journal->count > 1 && journal_last(journal)->first == journal->next)
        err = seal_again(journal);
    bool is_cut = survey->finding_count > 0 || survey->stale_until > journal->next;
    /* What was cut stays cut before anything takes its place. */
    if (err == JOURNAL_OK && journal->is_lazy && is_cut)
        err = journal_flush_all(journal);
    if (err == JOURNAL_OK && !journal->is_lazy)
        err = sync_all(journal);
    if (err == JOURNAL_OK && !journal->is_lazy)
        err = journal_drop_trimmed(journal);
    return err;
}

static enum journal_err refuse_damage(struct journal *journal, const struct survey *survey,
                                      const struct finding *finding)
{
    char text[SURVEY_TEXT_BYTES];
    const char *name = journal->disk->name;
    const char *files = journal->disk->files;
    survey_describe(survey, finding, text);
    if (files != NULL)
        snprintf(journal->complaint, sizeof journal->complaint,
                 "%s of %.100s. Nothing was changed. '%.300s' is a copy of it: 'errbusd --check "
                 "%.300s' lists the damage, and 'errbusd --export %.300s' prints what can be read. "
                 "Restore the database, or begin anew with another --shard",
                 text, name, files, files, files);
    else
        snprintf(journal->complaint, sizeof journal->complaint,
                 "%s. Nothing was changed: 'errbusd --check %.300s' lists the damage, "
                 "'errbusd --export %.300s' prints what can be read, and "
                 "'errbusd --repair %.300s' cuts the damage out",
                 text, name, name, name);
    return JOURNAL_DAMAGED;
}

static enum journal_err create(struct journal *journal, const struct journal_options *options)
{
    if (!options->may_create) {
        snprintf(journal->complaint, sizeof journal->complaint, "there is no journal in '%.1000s'",
                 journal->disk->name);
        return JOURNAL_MISSING;
    }
    bool is_small = options->first_bytes > 0 && options->first_bytes < journal->segment_bytes;
    uint64_t first_bytes = is_small ? options->first_bytes : journal->segment_bytes;
    journal->id = options->id;
    journal->is_lazy = false; /* the first segment is on the disk, whatever follows */
    if (!journal_reserve_segment(journal))
        return opening_refuse(journal, JOURNAL_MEMORY, journal_strerror(JOURNAL_MEMORY));
    enum journal_err err =
        journal_make_segment(journal, 0, first_bytes, false, &journal->segments[0]);
    journal->count = err == JOURNAL_OK;
    journal->is_lazy = options->is_lazy;
    if (err == JOURNAL_OK)
        open_proof(journal);
    return err;
}

static void tell_of_record(void *arg, const struct scan_record *record)
{
    const struct journal_options *options = arg;
    (void)record;
    options->on_record(options->on_record_arg);
}

static enum journal_err open_directory(struct journal *journal,
                                       const struct journal_options *options,
                                       struct journal_opened *opened)
{
    struct survey survey = {.count = 0};
    struct journal_options told = *options;
    uint64_t bytes = options->segment_bytes;
    bytes = bytes == 0 ? DEFAULT_JOURNAL_SEGMENT_BYTES : bytes;
    journal->segment_bytes = bytes;
    journal->aside = bytes;
    journal->wanted_bytes = bytes;
    if (bytes < LIMIT_JOURNAL_SEGMENT_BYTES_MIN || bytes > LIMIT_JOURNAL_SEGMENT_BYTES_MAX)
        return opening_refuse(journal, JOURNAL_LIMIT,
                              "a segment of the journal must have 4 KiB to 1 GiB");
    enum journal_err err = opening_lock(journal, options);
    if (err != JOURNAL_OK)
        return err;
    err =
        survey_take(&survey, journal->disk, told.on_record != NULL ? tell_of_record : NULL, &told);
    const struct finding *damage = survey_damage(&survey);
    if (err != JOURNAL_OK)
        err = opening_refuse(journal, err, survey.complaint);
    else if (damage != NULL)
        err = refuse_damage(journal, &survey, damage);
    else if (survey.count > 0)
        err = opening_recover(journal, &survey, opened);
    else
        err = create(journal, options);
    opened->is_new = survey.count == 0;
    if (err == JOURNAL_OK)
        err = store_proof(journal);
    if (err == JOURNAL_OK && (journal->next > 0 || options->first_bytes == 0))
        /* The next append tells if there is no room for it.  One that is larger stays as it is:
         * how much is wanted is told later.  In an empty journal the first append can make it:
         * before that nothing was promised, so there is no bad news. */
        (void)journal_make_spare(journal);
    survey_fini(&survey);
    return err;
}

void journal_close(struct journal **closed)
{
    struct journal *journal = *closed;
    *closed = NULL;
    if (journal == NULL)
        return;
    must(!journal->is_flushing);
    if (journal->count > 0 && journal_last(journal)->file >= 0 &&
        (journal->synced < journal->next || journal->is_lazy))
        (void)journal_sync_all(journal); /* who must know asked before */
    for (size_t i = 0; i < journal->count; i++)
        segment_shut(journal, &journal->segments[i]);
    if (journal->has_made)
        segment_shut(journal, &journal->made);
    if (journal->proof_file >= 0)
        journal->disk->ops->shut(journal->disk, journal->proof_file);
    for (unsigned i = 0; i < LAYOUT_KEPT_MAX; i++)
        if (journal->kept[i] >= 0)
            journal->disk->ops->shut(journal->disk, journal->kept[i]);
    scan_fini(&journal->reader);
    disk_close(&journal->disk);
    free(journal->segments);
    free(journal->stage);
    free(journal);
}

enum journal_err journal_open_disk(struct disk **disk, const struct journal_options *options,
                                   struct journal **out_journal, struct journal_opened *out_opened,
                                   char *complaint)
{
    struct journal_opened opened = {.is_new = false};
    struct journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL) {
        disk_close(disk);
        snprintf(complaint, JOURNAL_COMPLAINT_BYTES, "%s", journal_strerror(JOURNAL_MEMORY));
        return JOURNAL_MEMORY;
    }
    journal->checkpoint = UINT64_MAX;
    journal->begun = UINT64_MAX;
    journal->read_from = UINT64_MAX;
    journal->disk = *disk;
    journal->proof_file = -1;
    for (unsigned i = 0; i < LAYOUT_KEPT_MAX; i++)
        journal->kept[i] = -1;
    journal->is_lazy = options->is_lazy;
    *disk = NULL;
    scan_init(&journal->reader, journal->disk);
    enum journal_err err = open_directory(journal, options, &opened);
    if (err == JOURNAL_OK) {
        *out_journal = journal;
        *out_opened = opened;
    } else {
        memcpy(complaint, journal->complaint, JOURNAL_COMPLAINT_BYTES);
        journal->failure = JOURNAL_FAILED; /* nothing of it is synced any more */
        journal_close(&journal);
    }
    return err;
}

enum journal_err journal_open(const char *where, const struct journal_options *options,
                              struct journal **out_journal, struct journal_opened *out_opened,
                              char *complaint)
{
    struct disk *disk = NULL;
    int result = disk_open_shard(where, options->may_create, options->shard, &disk, complaint);
    if (result < 0)
        return journal_err_of(result);
    return journal_open_disk(&disk, options, out_journal, out_opened, complaint);
}
