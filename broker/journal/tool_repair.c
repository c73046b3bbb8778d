/* SPDX-License-Identifier: MPL-2.0 */
/* tool_repair.c -- mends a damaged journal; see tool.h.
 *
 * It goes from finding to finding of a survey, and surveys again until none is left, since one flaw
 * may hide another.  For each, what is cut is saved and on the disk first, and only then something
 * is changed; so a repair that is interrupted can be begun again.  Where records are lost a record
 * of the kind FORMAT_KIND_LOST takes exactly their room, so that all others keep their places. */
#include "broker/journal/tool.h"

#include "broker/journal/crc32c.h"
#include "broker/journal/layout.h"
#include "broker/journal/survey.h"
#include "libbus/base/must.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES (JOURNAL_COMPLAINT_BYTES + SURVEY_TEXT_BYTES)
#define COPY_BYTES ((size_t)64 * 1024)
#define FILL_BYTES ((uint64_t)16 * 1024 * 1024) /* of one record that stands for what is lost */
#define PASSES_MAX 64
#define SAVES_MAX 100 /* of the same place */
#define SAVE_NAME_BYTES 64

struct repair {
    struct disk *disk;
    struct survey survey;
    uint8_t *copy; /* COPY_BYTES */
    void (*report)(void *arg, const char *line);
    void *arg;
};

static void repair_tell(const struct repair *repair, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void repair_tell(const struct repair *repair, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    repair->report(repair->arg, line);
}

static enum journal_err repair_complain(const struct repair *repair, const char *name,
                                        int64_t result)
{
    if (result >= 0)
        return JOURNAL_OK;
    repair_tell(repair, "'%s/%s': %s. The repair is not finished; run it again", repair->disk->name,
                name, strerror((int)-result));
    return journal_err_of((int)result);
}

static uint64_t offset_of(const struct finding *finding, uint64_t at)
{
    return FORMAT_SEGMENT_BYTES + at - finding->segment;
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* A name that nothing has yet. */
static int free_name(struct repair *repair, const char *stem, char *out_name)
{
    for (int i = 1; i <= SAVES_MAX; i++) {
        snprintf(out_name, SAVE_NAME_BYTES, i == 1 ? "%s" : "%s-%d", stem, i);
        int file = repair->disk->ops->open(repair->disk, out_name, DISK_READ);
        if (file == -ENOENT)
            return 0;
        if (file < 0)
            return file;
        repair->disk->ops->shut(repair->disk, file);
    }
    return -EEXIST;
}

static int copy_bytes(struct repair *repair, int from, int to, uint64_t offset, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes;) {
        size_t wanted = bytes - at < COPY_BYTES ? (size_t)(bytes - at) : COPY_BYTES;
        int64_t got = disk_read_at(repair->disk, from, repair->copy, wanted, offset + at);
        if (got <= 0)
            return (int)got; /* the file ends before */
        struct iovec piece = {repair->copy, (size_t)got};
        int result = disk_write_all(repair->disk, to, &piece, 1, at);
        if (result < 0)
            return result;
        at += (uint64_t)got;
    }
    return 0;
}

/* Saves bytes of a file beside it, on the disk when this returns. */
static int save(struct repair *repair, int file, const char *stem, uint64_t offset, uint64_t bytes,
                char *out_name)
{
    const struct disk_ops *ops = repair->disk->ops;
    int result = free_name(repair, stem, out_name);
    if (result < 0)
        return result;
    int saved = ops->open(repair->disk, out_name, DISK_MAKE);
    if (saved < 0)
        return saved;
    result = copy_bytes(repair, file, saved, offset, bytes);
    if (result == 0)
        result = ops->sync(repair->disk, saved);
    ops->shut(repair->disk, saved);
    return result == 0 ? ops->sync_names(repair->disk) : result;
}

static enum journal_err move_aside(struct repair *repair, const struct finding *finding)
{
    char name[FORMAT_NAME_BYTES];
    char stem[SAVE_NAME_BYTES];
    char aside[SAVE_NAME_BYTES];
    segment_name_write(finding->segment, name);
    snprintf(stem, sizeof stem, "aside-%s", name);
    int result = free_name(repair, stem, aside);
    if (result == 0)
        result = repair->disk->ops->rename(repair->disk, name, aside);
    if (result == 0)
        result = repair->disk->ops->sync_names(repair->disk);
    if (result == 0)
        repair_tell(repair, "'%s' was renamed to '%s'", name, aside);
    return repair_complain(repair, name, result);
}

/* ---- mending --------------------------------------------------------------------------------- */

static int write_zeros(struct repair *repair, int file, uint64_t offset, uint64_t bytes)
{
    int result = 0;
    memset(repair->copy, 0, COPY_BYTES);
    for (uint64_t at = 0; result == 0 && at < bytes; at += COPY_BYTES) {
        struct iovec piece = {repair->copy,
                              bytes - at < COPY_BYTES ? (size_t)(bytes - at) : COPY_BYTES};
        result = disk_write_all(repair->disk, file, &piece, 1, offset + at);
    }
    return result;
}

static uint32_t crc_of_zeros(uint64_t bytes)
{
    static const uint8_t zeros[4096];
    uint32_t crc = 0;
    for (uint64_t at = 0; at < bytes; at += sizeof zeros)
        crc = crc32c(crc, zeros, bytes - at < sizeof zeros ? (size_t)(bytes - at) : sizeof zeros);
    return crc;
}

/* Writes records of the kind LOST from one position to another. */
static int fill(struct repair *repair, int file, const struct finding *finding, uint32_t batch)
{
    int result = 0;
    uint8_t bytes[FORMAT_RECORD_BYTES];
    for (uint64_t at = finding->from; result == 0 && at < finding->until;) {
        uint64_t left = finding->until - at;
        if (left < FORMAT_RECORD_BYTES)
            return -EINVAL; /* no crash and no flaw of a disk makes such a gap */
        /* The rest must have room for the head of another record. */
        uint64_t whole = left <= FILL_BYTES ? left : FILL_BYTES / 2;
        struct record_head head = {.body_crc = crc_of_zeros(whole - FORMAT_RECORD_BYTES),
                                   .bytes = (uint32_t)(whole - FORMAT_RECORD_BYTES),
                                   .kind = FORMAT_KIND_LOST,
                                   .marks = FORMAT_MARK_BATCH_END,
                                   .batch = batch,
                                   .synced = at};
        record_head_write(&head, repair->survey.journal, at, bytes);
        struct iovec piece = {bytes, sizeof bytes};
        result = write_zeros(repair, file, offset_of(finding, at), whole);
        if (result == 0)
            result = disk_write_all(repair->disk, file, &piece, 1, offset_of(finding, at));
        at += whole;
    }
    return result == 0 ? repair->disk->ops->sync(repair->disk, file) : result;
}

/* The number of the batch after a range, or of the batch before it if the next is unreadable. */
static uint32_t batch_at(struct repair *repair, int file, const struct finding *finding)
{
    uint8_t bytes[FORMAT_RECORD_BYTES];
    struct record_head head = {.batch = finding->batch};
    if (disk_read_at(repair->disk, file, bytes, sizeof bytes, offset_of(finding, finding->until)) ==
        sizeof bytes)
        (void)record_head_read(bytes, repair->survey.journal, finding->until, &head);
    return head.batch;
}

/* Cuts a range out of a segment: a damaged one is filled, a torn tail turns to zeros. */
static enum journal_err cut_out(struct repair *repair, const struct finding *finding)
{
    char name[FORMAT_NAME_BYTES];
    char stem[SAVE_NAME_BYTES];
    char saved[SAVE_NAME_BYTES];
    char text[SURVEY_TEXT_BYTES];
    uint64_t bytes = finding->until - finding->from;
    segment_name_write(finding->segment, name);
    snprintf(stem, sizeof stem, "lost-%020" PRIu64 "-%020" PRIu64, finding->from, finding->until);
    survey_describe(&repair->survey, finding, text);
    int file = repair->disk->ops->open(repair->disk, name, DISK_WRITE);
    if (file < 0)
        return repair_complain(repair, name, file);
    int result = save(repair, file, stem, offset_of(finding, finding->from), bytes, saved);
    if (result == 0 && finding->kind == FINDING_DAMAGE) {
        result = fill(repair, file, finding, batch_at(repair, file, finding));
    } else if (result == 0) {
        result = write_zeros(repair, file, offset_of(finding, finding->from), bytes);
        if (result == 0)
            result = repair->disk->ops->sync(repair->disk, file);
    }
    repair->disk->ops->shut(repair->disk, file);
    if (result == 0)
        repair_tell(repair, "%s: cut out, what stood there is in '%s'", text, saved);
    return repair_complain(repair, name, result);
}

/* Creates a segment of lost records where a segment is missing. */
static enum journal_err make_up(struct repair *repair, const struct finding *finding)
{
    const struct disk_ops *ops = repair->disk->ops;
    char name[FORMAT_NAME_BYTES];
    char text[SURVEY_TEXT_BYTES];
    uint8_t bytes[FORMAT_SEGMENT_BYTES];
    struct finding range = *finding;
    range.segment = finding->from;
    uint64_t room = FORMAT_SEGMENT_BYTES + finding->until - finding->from;
    struct segment_head head = {.version = FORMAT_VERSION,
                                .journal = repair->survey.journal,
                                .first = finding->from,
                                .bytes = room,
                                .synced = finding->from};
    struct iovec piece = {bytes, sizeof bytes};
    survey_describe(&repair->survey, finding, text);
    segment_name_write(finding->from, name);
    segment_head_write(&head, bytes);
    int file = ops->open(repair->disk, LAYOUT_NEXT, DISK_MAKE);
    if (file < 0)
        return repair_complain(repair, name, file);
    int result = ops->reserve(repair->disk, file, room);
    if (result == 0)
        result = disk_write_all(repair->disk, file, &piece, 1, 0);
    if (result == 0)
        result = fill(repair, file, &range, finding->batch);
    ops->shut(repair->disk, file);
    if (result == 0)
        result = ops->rename(repair->disk, LAYOUT_NEXT, name);
    /* The records of the missing file are given up, and so is the proof that they were there. */
    if (result == 0 && finding->kind == FINDING_LAST)
        result = ops->unlink(repair->disk, PROOF_NAME);
    if (result == 0 || result == -ENOENT)
        result = ops->sync_names(repair->disk);
    if (result == 0)
        repair_tell(repair, "%s: an empty file replaces it, and its records are lost", text);
    return repair_complain(repair, name, result);
}

static enum journal_err mend_head(struct repair *repair, const struct finding *finding)
{
    char name[FORMAT_NAME_BYTES];
    char stem[SAVE_NAME_BYTES];
    char saved[SAVE_NAME_BYTES];
    uint8_t bytes[FORMAT_SEGMENT_BYTES];
    struct iovec piece = {bytes, sizeof bytes};
    struct segment_head head = {.version = FORMAT_VERSION,
                                .journal = repair->survey.journal,
                                .first = finding->segment,
                                .synced = finding->segment};
    /* No other head says how far the journal was trimmed: up to this oldest segment. */
    if (repair->survey.count > 0 && repair->survey.segments[0].first == finding->segment &&
        repair->survey.trimmed == 0)
        head.trimmed = finding->segment;
    /* Without the id of the journal no record of this file can be recognised. */
    if (!repair->survey.has_journal)
        return move_aside(repair, finding);
    segment_name_write(finding->segment, name);
    snprintf(stem, sizeof stem, "lost-%020" PRIu64 "-head", finding->segment);
    segment_head_write(&head, bytes);
    int file = repair->disk->ops->open(repair->disk, name, DISK_WRITE);
    if (file < 0)
        return repair_complain(repair, name, file);
    int result = save(repair, file, stem, 0, FORMAT_SEGMENT_BYTES, saved);
    if (result == 0)
        result = disk_write_all(repair->disk, file, &piece, 1, 0);
    if (result == 0)
        result = repair->disk->ops->sync(repair->disk, file);
    repair->disk->ops->shut(repair->disk, file);
    if (result == 0)
        repair_tell(repair, "'%s' has a new head; the old one is in '%s'", name, saved);
    return repair_complain(repair, name, result);
}

static enum journal_err give_room(struct repair *repair, const struct finding *finding)
{
    char name[FORMAT_NAME_BYTES];
    char text[SURVEY_TEXT_BYTES];
    segment_name_write(finding->segment, name);
    survey_describe(&repair->survey, finding, text);
    int file = repair->disk->ops->open(repair->disk, name, DISK_WRITE);
    if (file < 0)
        return repair_complain(repair, name, file);
    int result = repair->disk->ops->reserve(repair->disk, file, finding->until);
    if (result == 0)
        result = repair->disk->ops->sync(repair->disk, file);
    repair->disk->ops->shut(repair->disk, file);
    if (result == 0)
        repair_tell(repair, "%s; the file has its full size again", text);
    return repair_complain(repair, name, result);
}

static enum journal_err remove_roll(struct repair *repair, const struct finding *finding)
{
    char name[FORMAT_NAME_BYTES];
    segment_name_write(finding->segment, name);
    int result = repair->disk->ops->unlink(repair->disk, name);
    if (result == 0)
        result = repair->disk->ops->sync_names(repair->disk);
    if (result == 0)
        repair_tell(repair, "'%s' held no records that are needed and was removed", name);
    return repair_complain(repair, name, result);
}

static enum journal_err repair_mend(struct repair *repair, const struct finding *finding)
{
    switch (finding->kind) {
    case FINDING_TORN:
    case FINDING_DAMAGE: return cut_out(repair, finding);
    case FINDING_ROLL:
    case FINDING_GONE: return remove_roll(repair, finding);
    case FINDING_BEHIND: return move_aside(repair, finding);
    case FINDING_MISSING:
    case FINDING_LAST: return make_up(repair, finding);
    case FINDING_SHORT: return give_room(repair, finding);
    case FINDING_HEAD: return mend_head(repair, finding);
    case FINDING_FOREIGN: return move_aside(repair, finding);
    }
    must(!"a finding of no kind");
    return JOURNAL_DAMAGED;
}

/* One pass: files first, since what they hold is judged by them. */
static enum journal_err mend_all(struct repair *repair)
{
    const struct survey *survey = &repair->survey;
    enum journal_err err = JOURNAL_OK;
    size_t mended = 0;
    for (size_t i = 0; err == JOURNAL_OK && i < survey->finding_count; i++) {
        enum finding_kind kind = survey->findings[i].kind;
        if (kind == FINDING_HEAD || kind == FINDING_FOREIGN) {
            err = repair_mend(repair, &survey->findings[i]);
            mended++;
        }
    }
    for (size_t i = 0; mended == 0 && err == JOURNAL_OK && i < survey->finding_count; i++)
        err = repair_mend(repair, &survey->findings[i]);
    return err;
}

static enum journal_err repair_all(struct repair *repair)
{
    for (size_t pass = 0; pass < PASSES_MAX; pass++) {
        enum journal_err err = survey_take(&repair->survey, repair->disk, NULL, NULL);
        if (err != JOURNAL_OK) {
            repair_tell(repair, "%s", repair->survey.complaint);
            return err;
        }
        if (repair->survey.finding_count == 0) {
            repair_tell(repair, "the journal in '%s' is whole%s", repair->disk->name,
                        repair->survey.count == 0 ? ", and empty" : "");
            return JOURNAL_OK;
        }
        err = mend_all(repair);
        if (err != JOURNAL_OK)
            return err;
        survey_fini(&repair->survey);
    }
    repair_tell(repair, "the journal in '%s' cannot be repaired: start with another directory",
                repair->disk->name);
    return JOURNAL_DAMAGED;
}

enum journal_err tool_repair(struct disk **disk, void (*report)(void *arg, const char *line),
                             void *arg)
{
    struct repair repair = {.disk = *disk, .report = report, .arg = arg};
    struct disk_owner owner = {.lease = 0};
    int result = (*disk)->ops->lock(*disk, false, &owner);
    enum journal_err err = journal_err_of(result);
    repair.copy = malloc(COPY_BYTES);
    if (result == -EWOULDBLOCK)
        repair_tell(&repair,
                    "a broker (process %" PRId64 ") has the journal in '%s': stop it first",
                    owner.pid, (*disk)->name);
    else if (result < 0)
        repair_tell(&repair, "'%s/lock' cannot be written: %s", (*disk)->name, strerror(-result));
    else if (repair.copy == NULL)
        err = JOURNAL_MEMORY;
    else
        err = repair_all(&repair);
    survey_fini(&repair.survey);
    free(repair.copy);
    disk_close(disk);
    return err;
}
