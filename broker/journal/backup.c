/* SPDX-License-Identifier: MPL-2.0 */
/* backup.c -- copies a journal that a broker writes meanwhile; see backup.h.
 *
 * Nothing is asked of the broker, and it waits for nothing.  What makes the copy consistent:
 *
 * - A segment only grows, and what is valid in it stays as it is.  So each is read up to the end of
 *   its last whole batch, and only that is copied.  Behind it the copy has zeros.
 * - The name of a segment goes when nothing in it is needed any more, and never comes again.  A
 *   file that was read while its name went may have been written over; its copy is removed.
 * - A round lists the segments, copies what is new, and lists them again.  When both lists are the
 *   same, and no segment lacks its seal, the copy is the journal at a moment within that round.
 *   Otherwise a further round copies what came meanwhile, which is less.
 * - What was acknowledged before the round began was in the segments by then, and so is copied.
 *
 * The proof of a lazy journal is not copied: the copy is synced as a whole, and what the records
 * say of each other holds without it. */
#include "broker/journal/backup.h"

#include "broker/journal/layout.h"
#include "broker/journal/survey.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_MAX = 1000, SEGMENTS_FIRST = 16 };
#define RANGE_BYTES ((size_t)256 * 1024)

struct copied {
    uint64_t first; /* position: the name */
    uint64_t end;   /* up to here it is copied */
    bool is_made;   /* the copy has a file */
    bool is_sealed; /* nothing more comes */
};
struct backup {
    struct disk *from;
    struct disk *to;
    struct copied *copies; /* by position */
    size_t count;
    uint64_t *names; /* the segments of the last list, by position */
    size_t name_count;
    size_t name_room;
    struct scan scan;
    uint8_t *bytes;
    bool has_grown;  /* this round copied something */
    char *complaint; /* of JOURNAL_COMPLAINT_BYTES */
};

static enum journal_err refuse(struct backup *backup, const struct disk *disk, const char *name,
                               const char *what, int result)
{
    snprintf(backup->complaint, JOURNAL_COMPLAINT_BYTES, "'%.900s/%s' cannot be %s: %s", disk->name,
             name, what, strerror(-result));
    return journal_err_of(result);
}

static enum journal_err refuse_memory(struct backup *backup)
{
    snprintf(backup->complaint, JOURNAL_COMPLAINT_BYTES, "%s", journal_strerror(JOURNAL_MEMORY));
    return JOURNAL_MEMORY;
}

/* ---- lists ----------------------------------------------------------------------------------- */

struct listing {
    uint64_t *names;
    size_t count, room;
    bool is_short; /* of memory */
};

static void list_segment(void *arg, const char *name)
{
    struct listing *listing = arg;
    uint64_t first = 0;
    if (!segment_name_read(name, &first) || listing->is_short)
        return;
    if (listing->count == listing->room) {
        size_t room = listing->room == 0 ? SEGMENTS_FIRST : listing->room * 2;
        uint64_t *names = realloc(listing->names, room * sizeof *names);
        listing->is_short = names == NULL;
        if (listing->is_short)
            return;
        listing->names = names;
        listing->room = room;
    }
    listing->names[listing->count++] = first;
}

static int compare_positions(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Lists the segments of the journal anew; out_is_same: they are those of the last list. */
static enum journal_err list_segments(struct backup *backup, bool *out_is_same)
{
    struct listing listing = {.count = 0};
    int result = backup->from->ops->list(backup->from, list_segment, &listing);
    if (result < 0 || listing.is_short) {
        free(listing.names);
        return listing.is_short ? refuse_memory(backup)
                                : refuse(backup, backup->from, ".", "listed", result);
    }
    if (listing.count > 0)
        qsort(listing.names, listing.count, sizeof *listing.names, compare_positions);
    *out_is_same = listing.count == backup->name_count &&
                   (listing.count == 0 || memcmp(listing.names, backup->names,
                                                 listing.count * sizeof *listing.names) == 0);
    free(backup->names);
    backup->names = listing.names;
    backup->name_count = listing.count;
    return JOURNAL_OK;
}

static struct copied *find_copy(struct backup *backup, uint64_t first)
{
    for (size_t i = 0; i < backup->count; i++)
        if (backup->copies[i].first == first)
            return &backup->copies[i];
    return NULL;
}

/* ---- files of the copy ----------------------------------------------------------------------- */

/* A segment of the copy has this name until all are whole, and so does not pass for a journal. */
static void partial_name_write(uint64_t first, char out_name[FORMAT_NAME_BYTES])
{
    snprintf(out_name, FORMAT_NAME_BYTES, "%020" PRIu64 ".partial", first);
}

static bool is_listed(const struct backup *backup, uint64_t first)
{
    for (size_t i = 0; i < backup->name_count; i++)
        if (backup->names[i] == first)
            return true;
    return false;
}

/* Removes the copies of segments that the journal has no more. */
static enum journal_err drop_gone(struct backup *backup)
{
    size_t kept = 0;
    for (size_t i = 0; i < backup->count; i++) {
        char name[FORMAT_NAME_BYTES];
        if (is_listed(backup, backup->copies[i].first)) {
            backup->copies[kept++] = backup->copies[i];
            continue;
        }
        partial_name_write(backup->copies[i].first, name);
        int result = backup->to->ops->unlink(backup->to, name);
        if (result < 0 && backup->copies[i].is_made)
            return refuse(backup, backup->to, name, "removed", result);
    }
    backup->count = kept;
    return JOURNAL_OK;
}

/* Room for one more copy. */
static bool reserve_copy(struct backup *backup)
{
    struct copied *copies = realloc(backup->copies, (backup->count + 1) * sizeof *copies);
    if (copies == NULL)
        return false;
    backup->copies = copies;
    return true;
}

static enum journal_err copy_range(struct backup *backup, int from, int to, const char *name,
                                   uint64_t offset, uint64_t until)
{
    while (offset < until) {
        size_t wanted = until - offset < RANGE_BYTES ? (size_t)(until - offset) : RANGE_BYTES;
        int64_t got = disk_read_at(backup->from, from, backup->bytes, wanted, offset);
        if (got <= 0)
            return refuse(backup, backup->from, name, "read", got < 0 ? (int)got : -EIO);
        struct iovec piece = {backup->bytes, (size_t)got};
        int result = disk_write_all(backup->to, to, &piece, 1, offset);
        if (result < 0)
            return refuse(backup, backup->to, name, "written", result);
        offset += (uint64_t)got;
    }
    return JOURNAL_OK;
}

/* ---- one segment ----------------------------------------------------------------------------- */

/* Reads the head of a segment.  A head that is not valid is that of a file which is being written
 * over, and one of another segment is that of a file which was.  Then its name is gone. */
static enum journal_err read_head_of(struct backup *backup, int file, const char *name,
                                     uint64_t first, struct segment_head *out_head)
{
    uint8_t bytes[FORMAT_SEGMENT_BYTES];
    int64_t got = disk_read_at(backup->from, file, bytes, sizeof bytes, 0);
    if (got < 0)
        return refuse(backup, backup->from, name, "read", (int)got);
    enum segment_verdict verdict =
        got == (int64_t)sizeof bytes ? segment_head_read(bytes, out_head) : SEGMENT_BAD;
    if (verdict == SEGMENT_GOOD && out_head->first != first)
        verdict = SEGMENT_BAD;
    if (verdict == SEGMENT_GOOD)
        return JOURNAL_OK;
    snprintf(backup->complaint, JOURNAL_COMPLAINT_BYTES, "'%.900s/%s' %s", backup->from->name, name,
             verdict == SEGMENT_BAD ? "is damaged in its head" : "was written by a newer version");
    return verdict == SEGMENT_BAD ? JOURNAL_DAMAGED : JOURNAL_FORMAT;
}

/* Finds the end of the last whole batch. */
static enum journal_err find_whole_end(struct backup *backup, int file,
                                       const struct segment_head *head, uint64_t size,
                                       struct copied *copied)
{
    struct scan_record record;
    enum scan_verdict verdict = SCAN_RECORD;
    uint64_t limit = head->first + (size > FORMAT_SEGMENT_BYTES ? size - FORMAT_SEGMENT_BYTES : 0);
    scan_start(&backup->scan, file, head->journal, head->first, copied->end, limit);
    while ((verdict = scan_next(&backup->scan, &record)) == SCAN_RECORD) {
        if ((record.head.marks & FORMAT_MARK_BATCH_END) == 0)
            continue;
        copied->end = record.next;
        copied->is_sealed =
            record.head.kind == FORMAT_KIND_SEAL || record.head.kind == FORMAT_KIND_LAZY_SEAL;
    }
    if (verdict == SCAN_MEMORY)
        return refuse_memory(backup);
    return verdict == SCAN_IO ? refuse(backup, backup->from, "a segment", "read", backup->scan.err)
                              : JOURNAL_OK;
}

/* Copies what came since the last round; from: the file of the segment. */
static enum journal_err copy_more(struct backup *backup, int from, const char *name,
                                  struct copied *copied)
{
    const struct disk_ops *ops = backup->to->ops;
    char partial[FORMAT_NAME_BYTES];
    struct segment_head head;
    struct copied now = *copied;
    int64_t size = backup->from->ops->size(backup->from, from);
    if (size < 0)
        return refuse(backup, backup->from, name, "read", (int)size);
    enum journal_err err = read_head_of(backup, from, name, copied->first, &head);
    if (err == JOURNAL_OK)
        err = find_whole_end(backup, from, &head, (uint64_t)size, &now);
    if (err != JOURNAL_OK || (now.end == copied->end && copied->is_made))
        return err;
    partial_name_write(copied->first, partial);
    int to = ops->open(backup->to, partial, copied->is_made ? DISK_WRITE : DISK_MAKE);
    int result = to;
    if (to >= 0 && !copied->is_made)
        result = ops->reserve(backup->to, to, (uint64_t)size);
    if (result < 0)
        err = refuse(backup, backup->to, partial, "made", result);
    else
        err = copy_range(backup, from, to, name,
                         copied->is_made ? FORMAT_SEGMENT_BYTES + copied->end - copied->first : 0,
                         FORMAT_SEGMENT_BYTES + now.end - now.first);
    if (to >= 0)
        ops->shut(backup->to, to);
    if (err == JOURNAL_OK)
        *copied = now;
    copied->is_made |= to >= 0;
    backup->has_grown = true;
    return err;
}

static enum journal_err copy_segment(struct backup *backup, uint64_t first)
{
    char name[FORMAT_NAME_BYTES];
    struct copied *copied = find_copy(backup, first);
    if (copied == NULL && !reserve_copy(backup))
        return refuse_memory(backup);
    if (copied == NULL) {
        copied = &backup->copies[backup->count++];
        *copied = (struct copied){.first = first, .end = first};
    }
    if (copied->is_sealed)
        return JOURNAL_OK;
    segment_name_write(first, name);
    int file = backup->from->ops->open(backup->from, name, DISK_READ);
    if (file == -ENOENT)
        return JOURNAL_OK; /* the next list will not have it */
    if (file < 0)
        return refuse(backup, backup->from, name, "opened", file);
    enum journal_err err = copy_more(backup, file, name, copied);
    backup->from->ops->shut(backup->from, file);
    return err;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Whether each segment ends with its seal where the next one has records.  The seal may have been
 * written behind the place up to which it was copied. */
static bool is_chain(const struct backup *backup)
{
    for (size_t i = 0; i + 1 < backup->count; i++)
        if (!backup->copies[i].is_sealed && backup->copies[i + 1].end > backup->copies[i + 1].first)
            return false;
    return true;
}

/* One round.  Damage in a journal that has changed meanwhile may come from the change: then the
 * next round tells. */
static enum journal_err copy_round(struct backup *backup, bool *out_is_done)
{
    bool is_same = false;
    backup->has_grown = false;
    enum journal_err err = list_segments(backup, &is_same);
    if (err == JOURNAL_OK)
        err = drop_gone(backup);
    if (err != JOURNAL_OK)
        return err;
    for (size_t i = 0; err == JOURNAL_OK && i < backup->name_count; i++)
        err = copy_segment(backup, backup->names[i]);
    enum journal_err listed = list_segments(backup, &is_same);
    if (listed != JOURNAL_OK)
        return listed;
    if (err == JOURNAL_DAMAGED && !is_same)
        return JOURNAL_OK;
    if (err == JOURNAL_OK && is_same && !is_chain(backup) && !backup->has_grown) {
        snprintf(backup->complaint, JOURNAL_COMPLAINT_BYTES,
                 "the journal in '%.900s' is damaged: records are missing between two of its files",
                 backup->from->name);
        return JOURNAL_DAMAGED;
    }
    *out_is_done = err == JOURNAL_OK && is_same && is_chain(backup);
    return err;
}

/* Syncs the copy, and gives its segments their names.  The newest is named first: a copy without
 * its oldest segments is found to be damaged, one without its newest would pass. */
static enum journal_err name_copies(struct backup *backup)
{
    const struct disk_ops *ops = backup->to->ops;
    char partial[FORMAT_NAME_BYTES];
    char name[FORMAT_NAME_BYTES];
    int result = 0;
    for (size_t i = 0; i < backup->count; i++) {
        partial_name_write(backup->copies[i].first, partial);
        int file = ops->open(backup->to, partial, DISK_WRITE);
        result = file < 0 ? file : ops->sync(backup->to, file);
        if (file >= 0)
            ops->shut(backup->to, file);
        if (result < 0)
            return refuse(backup, backup->to, partial, "synced", result);
    }
    for (size_t i = backup->count; i > 0; i--) {
        partial_name_write(backup->copies[i - 1].first, partial);
        segment_name_write(backup->copies[i - 1].first, name);
        result = ops->rename(backup->to, partial, name);
        if (result == 0)
            result = ops->sync_names(backup->to);
        if (result < 0)
            return refuse(backup, backup->to, name, "named", result);
    }
    return JOURNAL_OK;
}

/* As far as it can: what has its name already is found to be damaged. */
static void discard(struct backup *backup)
{
    char name[FORMAT_NAME_BYTES];
    for (size_t i = 0; i < backup->count; i++) {
        partial_name_write(backup->copies[i].first, name);
        (void)backup->to->ops->unlink(backup->to, name);
        segment_name_write(backup->copies[i].first, name);
        (void)backup->to->ops->unlink(backup->to, name);
    }
}

/* As a broker that starts would. */
static enum journal_err check_copy(struct backup *backup, struct backup_done *done)
{
    struct survey survey = {.count = 0};
    char text[SURVEY_TEXT_BYTES];
    enum journal_err err = survey_take(&survey, backup->to, NULL, NULL);
    const struct finding *damage = err == JOURNAL_OK ? survey_damage(&survey) : NULL;
    if (err != JOURNAL_OK)
        snprintf(backup->complaint, JOURNAL_COMPLAINT_BYTES, "%s", survey.complaint);
    if (damage != NULL) {
        survey_describe(&survey, damage, text);
        snprintf(backup->complaint, JOURNAL_COMPLAINT_BYTES,
                 "%s: the journal in '%.900s' is damaged there, too", text, backup->from->name);
        err = JOURNAL_DAMAGED;
    }
    done->segments = survey.count;
    for (size_t i = 0; i < survey.count; i++) {
        done->records += survey.segments[i].records;
        done->until = survey.segments[i].end;
    }
    survey_fini(&survey);
    return err;
}

static enum journal_err copy_all(struct backup *backup, struct backup_done *done)
{
    bool is_done = false;
    enum journal_err err = JOURNAL_OK;
    for (int round = 0; err == JOURNAL_OK && !is_done; round++) {
        if (round == ROUNDS_MAX) {
            snprintf(backup->complaint, JOURNAL_COMPLAINT_BYTES,
                     "the journal in '%.900s' changes faster than it can be copied: try again when "
                     "there is less to do",
                     backup->from->name);
            return JOURNAL_LIMIT;
        }
        clock_gettime(CLOCK_REALTIME, &done->as_of);
        err = copy_round(backup, &is_done);
    }
    if (err == JOURNAL_OK && backup->count == 0) {
        snprintf(backup->complaint, JOURNAL_COMPLAINT_BYTES, "there is no journal in '%.900s'",
                 backup->from->name);
        err = JOURNAL_MISSING;
    }
    return err;
}

static void look_for_names(void *arg, const char *name)
{
    bool *is_empty = arg;
    if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, "lock") != 0)
        *is_empty = false;
}

/* The copy must be alone in its directory. */
static enum journal_err take_place(struct backup *backup)
{
    bool is_empty = true;
    struct disk_owner owner = {.lease = 0};
    int result = backup->to->ops->list(backup->to, look_for_names, &is_empty);
    if (result < 0)
        return refuse(backup, backup->to, ".", "listed", result);
    if (!is_empty) {
        snprintf(backup->complaint, JOURNAL_COMPLAINT_BYTES,
                 "'%.900s' is not empty: name a directory that is empty or does not exist",
                 backup->to->name);
        return JOURNAL_LOCKED;
    }
    result = backup->to->ops->lock(backup->to, false, &owner);
    return result < 0 ? refuse(backup, backup->to, "lock", "locked", result) : JOURNAL_OK;
}

enum journal_err backup_take(struct disk **from, struct disk **to, struct backup_done *out_done,
                             char *complaint)
{
    struct backup backup = {.from = *from, .to = *to, .complaint = complaint};
    *from = NULL;
    *to = NULL;
    *out_done = (struct backup_done){.segments = 0};
    scan_init(&backup.scan, backup.from);
    backup.bytes = malloc(RANGE_BYTES);
    enum journal_err err = backup.bytes != NULL ? take_place(&backup) : refuse_memory(&backup);
    if (err == JOURNAL_OK)
        err = copy_all(&backup, out_done);
    if (err == JOURNAL_OK)
        err = name_copies(&backup);
    if (err == JOURNAL_OK)
        err = check_copy(&backup, out_done);
    if (err != JOURNAL_OK)
        discard(&backup);
    scan_fini(&backup.scan);
    free(backup.bytes);
    free(backup.copies);
    free(backup.names);
    disk_close(&backup.from);
    disk_close(&backup.to);
    return err;
}
