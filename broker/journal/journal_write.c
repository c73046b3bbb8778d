/* SPDX-License-Identifier: MPL-2.0 */
/* journal_write.c -- appends to the embedded journal, brings it to the disk, and trims it.
 *
 * The order of a change of segments (roll): the old one is synced; the new one is made, its head
 * synced, its name synced; the old one is sealed and synced; the first record goes into the new
 * one.  A crash in between leaves an empty segment behind one without a seal, which the survey
 * knows.  Once a seal may have been written the new segment stays, whatever fails: a seal with
 * nothing behind it is what a lost file looks like.
 *
 * A lazy journal does the same without the syncs, and says so: head and seal promise nothing. */
#include "broker/journal/journal_internal.h"

#include "broker/journal/layout.h"
#include "libbus/base/limits.h"
#include "libbus/base/must.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECES_MAX 64
#define DIRECT_BYTES 8192 /* bodies from this size on are written from where they lie */
/* So much is written before it is pushed to the disk: a change of segments, which syncs, then finds
 * most of it there, and the disk works while batches come. */
#define PUSH_BYTES ((uint64_t)4 * 1024 * 1024)
#define SEAL_BYTES FORMAT_RECORD_BYTES
#define TRIM_BYTES (FORMAT_RECORD_BYTES + 8)

static enum journal_err refuse(struct embedded *embedded, enum journal_err err)
{
    snprintf(embedded->base.complaint, sizeof embedded->base.complaint,
             "the journal in '%.1000s': %s", embedded->disk->name, journal_strerror(err));
    return err;
}

/* ---- batches --------------------------------------------------------------------------------- */

/* A batch on its way into a file. */
struct writing {
    struct embedded *embedded;
    struct iovec pieces[PIECES_MAX];
    int count;
    uint8_t *staged; /* end of what is staged */
    uint64_t offset; /* in the file, of the first piece */
    uint64_t bytes;  /* in pieces */
};

static int flush_pieces(struct writing *writing)
{
    struct embedded *embedded = writing->embedded;
    int result = disk_write_all(embedded->disk, embedded_last(embedded)->file, writing->pieces,
                                writing->count, writing->offset);
    writing->offset += writing->bytes;
    writing->bytes = 0;
    writing->count = 0;
    return result;
}

static int add_piece(struct writing *writing, const void *data, size_t bytes)
{
    struct iovec *last = &writing->pieces[writing->count - (writing->count > 0)];
    int result = 0;
    if (writing->count > 0 && (const uint8_t *)last->iov_base + last->iov_len == data) {
        last->iov_len += bytes;
    } else {
        if (writing->count == PIECES_MAX)
            result = flush_pieces(writing);
        writing->pieces[writing->count++] = (struct iovec){(void *)(uintptr_t)data, bytes};
    }
    writing->bytes += bytes;
    return result;
}

static int stage(struct writing *writing, const void *data, size_t bytes)
{
    uint8_t *staged = writing->staged;
    if (bytes == 0)
        return 0;
    memcpy(staged, data, bytes);
    writing->staged += bytes;
    return add_piece(writing, staged, bytes);
}

static int write_record(struct writing *writing, const struct record_head *head, uint64_t at,
                        struct span body)
{
    static const uint8_t zeros[FORMAT_ALIGN];
    uint8_t bytes[FORMAT_RECORD_BYTES];
    record_head_write(head, writing->embedded->base.id, at, bytes);
    int result = stage(writing, bytes, sizeof bytes);
    if (result == 0 && body.bytes < DIRECT_BYTES)
        result = stage(writing, body.data, body.bytes);
    else if (result == 0)
        result = add_piece(writing, body.data, body.bytes);
    if (result == 0)
        result = stage(writing, zeros, format_filled(body.bytes) - body.bytes);
    return result;
}

/* Memory for all of a batch that is not written from where it lies. */
static bool reserve_stage(struct embedded *embedded, const struct journal_record *records,
                          size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += FORMAT_RECORD_BYTES + FORMAT_ALIGN +
                 (records[i].body.bytes < DIRECT_BYTES ? records[i].body.bytes : 0);
    if (bytes <= embedded->stage_room)
        return true;
    uint8_t *grown = realloc(embedded->stage, bytes);
    if (grown == NULL)
        return false;
    embedded->stage = grown;
    embedded->stage_room = bytes;
    return true;
}

/* After a batch that failed: nothing that could pass for it stays where it would have begun.  If
 * this fails, too, the next attempt goes over it; if that never comes, the journal may be found
 * with a batch of which it was said that it is not there. */
static void wipe(struct embedded *embedded)
{
    uint8_t zeros[FORMAT_RECORD_BYTES] = {0};
    struct iovec piece = {zeros, sizeof zeros};
    const struct segment *last = embedded_last(embedded);
    (void)disk_write_all(embedded->disk, last->file, &piece, 1,
                         FORMAT_SEGMENT_BYTES + last->end - last->first);
}

static void push(struct embedded *embedded)
{
    const struct segment *last = embedded_last(embedded);
    uint64_t from =
        embedded->pushed > embedded->base.synced ? embedded->pushed : embedded->base.synced;
    from = from > last->first ? from : last->first;
    if (last->end < from + PUSH_BYTES)
        return;
    embedded->disk->ops->push(embedded->disk, last->file, FORMAT_SEGMENT_BYTES + from - last->first,
                              last->end - from);
    embedded->pushed = last->end;
}

/* Behind the batch that is being written, in a file that is used again: no record follows. */
static int end_reused(struct writing *writing, uint64_t end)
{
    static const uint8_t zeros[FORMAT_RECORD_BYTES];
    const struct segment *last = embedded_last(writing->embedded);
    if (!last->is_reused || FORMAT_SEGMENT_BYTES + end - last->first + sizeof zeros > last->room)
        return 0;
    return add_piece(writing, zeros, sizeof zeros);
}

/* Appends to the last segment, where there is room for it. */
static enum journal_err write_batch(struct embedded *embedded, const struct journal_record *records,
                                    size_t count, unsigned how, uint64_t *out_at)
{
    struct segment *last = embedded_last(embedded);
    struct journal *base = &embedded->base;
    char name[FORMAT_NAME_BYTES];
    uint64_t at = last->end;
    int result = 0;
    if (!reserve_stage(embedded, records, count))
        return refuse(embedded, JOURNAL_MEMORY);
    embedded->batch++;
    struct writing writing = {.embedded = embedded,
                              .staged = embedded->stage,
                              .offset = FORMAT_SEGMENT_BYTES + at - last->first};
    for (size_t i = 0; result == 0 && i < count; i++) {
        struct span body = records[i].body;
        bool is_first = i == 0 && (how & JOURNAL_CHECKPOINT_BEGIN) != 0;
        bool is_last = i + 1 == count && (how & JOURNAL_CHECKPOINT_END) != 0;
        struct record_head head = {.body_crc = format_body_crc(body.data, body.bytes),
                                   .bytes = (uint32_t)body.bytes,
                                   .kind = records[i].kind,
                                   .batch = embedded->batch,
                                   .synced = base->synced};
        head.marks = (uint16_t)((i + 1 == count ? FORMAT_MARK_BATCH_END : 0) |
                                (is_first ? FORMAT_MARK_CHECKPOINT_BEGIN : 0) |
                                (is_last ? FORMAT_MARK_CHECKPOINT_END : 0));
        result = write_record(&writing, &head, at, body);
        if (out_at != NULL)
            out_at[i] = at;
        at += format_record(body.bytes);
    }
    if (result == 0)
        result = end_reused(&writing, at);
    if (result == 0)
        result = flush_pieces(&writing);
    if (result < 0) {
        wipe(embedded);
        segment_name_write(last->first, name);
        return embedded_complain(embedded, name, "written", result);
    }
    last->end = at;
    last->is_dirty = true;
    base->next = at;
    if (!embedded->is_lazy)
        push(embedded);
    return JOURNAL_OK;
}

/* A record of the journal's own. */
static enum journal_err write_own(struct embedded *embedded, uint16_t kind, struct span body)
{
    struct journal_record record = {.kind = kind, .body = body};
    return write_batch(embedded, &record, 1, 0, NULL);
}

/* ---- segments -------------------------------------------------------------------------------- */

bool embedded_reserve_segment(struct embedded *embedded)
{
    if (embedded->count < embedded->segment_room)
        return true;
    size_t room = embedded->segment_room == 0 ? 16 : 2 * embedded->segment_room;
    struct segment *segments = realloc(embedded->segments, room * sizeof *segments);
    if (segments == NULL)
        return false;
    embedded->segments = segments;
    embedded->segment_room = room;
    return true;
}

/* One that is there keeps its room, whatever fails: on a full disk it could not be had again.  And
 * what it got of room that was refused: ext4 gives all there is before it says that it is not
 * enough. */
static enum journal_err grow_spare(struct embedded *embedded, uint64_t wanted)
{
    const struct disk_ops *ops = embedded->disk->ops;
    int file = ops->open(embedded->disk, EMBEDDED_SPARE, DISK_WRITE);
    if (file == -ENOENT)
        file = ops->open(embedded->disk, EMBEDDED_SPARE, DISK_MAKE);
    if (file < 0)
        return embedded_complain(embedded, EMBEDDED_SPARE, "made", file);
    int result = ops->reserve(embedded->disk, file, wanted);
    int64_t bytes = ops->size(embedded->disk, file);
    ops->shut(embedded->disk, file);
    if (result == 0 && bytes < 0)
        result = (int)bytes;
    if (result < 0 && embedded->spare_bytes == 0)
        (void)ops->unlink(embedded->disk, EMBEDDED_SPARE); /* some of it helps nobody */
    else if (bytes > (int64_t)embedded->spare_bytes)
        embedded->spare_bytes = (uint64_t)bytes;
    return result < 0 ? embedded_complain(embedded, EMBEDDED_SPARE, "given its room", result)
                      : JOURNAL_OK;
}

/* More than twice of what is wanted is given back.  The smaller one is there before the larger one
 * goes; if it cannot be, that one stays. */
static void shrink_spare(struct embedded *embedded)
{
    const struct disk_ops *ops = embedded->disk->ops;
    if (embedded->spare_bytes / 2 <= embedded->wanted_bytes)
        return;
    int file = ops->open(embedded->disk, EMBEDDED_NEXT, DISK_MAKE);
    if (file < 0)
        return;
    int result = ops->reserve(embedded->disk, file, embedded->wanted_bytes);
    ops->shut(embedded->disk, file);
    if (result == 0)
        result = ops->rename(embedded->disk, EMBEDDED_NEXT, EMBEDDED_SPARE);
    if (result == 0)
        embedded->spare_bytes = embedded->wanted_bytes;
    else
        (void)ops->unlink(embedded->disk, EMBEDDED_NEXT); /* made anew next time */
}

enum journal_err embedded_make_spare(struct embedded *embedded)
{
    enum journal_err err = JOURNAL_OK;
    uint64_t bytes = embedded->wanted_bytes;
    if (embedded->spare_bytes < bytes)
        err = grow_spare(embedded, bytes);
    /* What there is may do for the checkpoint that makes room for the rest. */
    while (err == JOURNAL_FULL && bytes > embedded->segment_bytes) {
        bytes = bytes / 2 > embedded->segment_bytes ? bytes / 2 : embedded->segment_bytes;
        if (bytes <= embedded->spare_bytes)
            break;
        (void)grow_spare(embedded, bytes); /* the complaint is about the same */
    }
    if (err == JOURNAL_OK)
        embedded->base.aside = embedded->spare_bytes;
    return err;
}

void embedded_set_aside(struct journal *journal, uint64_t bytes)
{
    struct embedded *embedded = embedded_of(journal);
    uint64_t most = LIMIT_JOURNAL_SEGMENT_BYTES_MAX;
    bytes = bytes < most ? bytes : most;
    embedded->wanted_bytes = bytes > embedded->segment_bytes ? bytes : embedded->segment_bytes;
}

/* A file that was kept for this, with just so many bytes.  Returns its handle; -1: none. */
static int take_kept(struct embedded *embedded, uint64_t bytes, char out_name[FORMAT_NAME_BYTES])
{
    unsigned number = 0;
    while (number < EMBEDDED_KEPT_MAX && embedded->kept[number] < 0)
        number++;
    if (number == EMBEDDED_KEPT_MAX || bytes != embedded->segment_bytes)
        return -1;
    int file = embedded->kept[number];
    embedded->kept[number] = -1; /* used, or of no use; in either case its name may be had */
    embedded_kept_name(number, out_name);
    return file;
}

/* A file with room: one that was used, a new one, or for what is essential the spare one, which may
 * have more than was asked for.  Returns its handle. */
static int take_room(struct embedded *embedded, uint64_t *bytes, bool is_essential,
                     char out_name[FORMAT_NAME_BYTES])
{
    struct disk *disk = embedded->disk;
    int file = take_kept(embedded, *bytes, out_name);
    if (file >= 0)
        return file;
    memcpy(out_name, EMBEDDED_NEXT, sizeof EMBEDDED_NEXT);
    file = disk->ops->open(disk, EMBEDDED_NEXT, DISK_MAKE);
    int result = file < 0 ? file : disk->ops->reserve(disk, file, *bytes);
    if (result < 0) {
        if (file >= 0)
            disk->ops->shut(disk, file);
        (void)disk->ops->unlink(disk, EMBEDDED_NEXT); /* made anew next time */
        file = result;
        if (is_essential && *bytes <= embedded->spare_bytes &&
            embedded_err(result) == JOURNAL_FULL) {
            *bytes = embedded->spare_bytes;
            memcpy(out_name, EMBEDDED_SPARE, sizeof EMBEDDED_SPARE);
            file = disk->ops->open(disk, EMBEDDED_SPARE, DISK_WRITE);
        }
    }
    return file;
}

/* Removes the segment that a failed attempt may have left; until then nothing may be appended. */
static enum journal_err drop_leftover(struct embedded *embedded)
{
    struct disk *disk = embedded->disk;
    if (embedded->leftover[0] == '\0')
        return JOURNAL_OK;
    int result = disk->ops->unlink(disk, embedded->leftover);
    if (result == 0 || result == -ENOENT)
        result = disk->ops->sync_names(disk);
    if (result < 0)
        return embedded_complain(embedded, embedded->leftover, "removed", result);
    embedded->leftover[0] = '\0';
    return JOURNAL_OK;
}

enum journal_err embedded_make_segment(struct embedded *embedded, uint64_t first, uint64_t bytes,
                                       bool is_essential, struct segment *out_segment)
{
    struct disk *disk = embedded->disk;
    uint8_t head_bytes[FORMAT_SEGMENT_BYTES + FORMAT_RECORD_BYTES] = {0}; /* and no record */
    char name[FORMAT_NAME_BYTES];
    char from[FORMAT_NAME_BYTES];
    int file = take_room(embedded, &bytes, is_essential, from);
    segment_name_write(first, name);
    if (file < 0)
        return embedded_complain(embedded, name, "made", file);
    struct segment_head head = {.version = FORMAT_VERSION,
                                .journal = embedded->base.id,
                                .first = first,
                                .trimmed = embedded->trimmed,
                                .bytes = bytes,
                                .synced = embedded->is_lazy ? embedded->base.synced : first,
                                .is_reused =
                                    strncmp(from, EMBEDDED_KEPT, strlen(EMBEDDED_KEPT)) == 0};
    segment_head_write(&head, head_bytes);
    struct iovec piece = {head_bytes, head.is_reused ? sizeof head_bytes : FORMAT_SEGMENT_BYTES};
    int result = disk_write_all(disk, file, &piece, 1, 0);
    if (result == 0 && !embedded->is_lazy)
        result = disk->ops->sync(disk, file);
    if (result == 0)
        result = disk->ops->rename(disk, from, name);
    if (result == 0) {
        if (strcmp(from, EMBEDDED_SPARE) == 0)
            embedded->spare_bytes = 0;
        embedded->has_names = true;
        /* From here on it is there, or is not: it is used, or must go. */
        memcpy(embedded->leftover, name, sizeof name);
        if (!embedded->is_lazy)
            result = disk->ops->sync_names(disk);
    }
    if (result < 0) {
        disk->ops->shut(disk, file);
        enum journal_err err = embedded_complain(embedded, name, "made", result);
        (void)drop_leftover(embedded); /* tried again before the next append */
        return err;
    }
    *out_segment = (struct segment){.first = first,
                                    .end = first,
                                    .room = bytes,
                                    .file = file,
                                    .is_writing = true,
                                    .is_dirty = embedded->is_lazy,
                                    .is_reused = head.is_reused};
    embedded->leftover[0] = '\0';
    return JOURNAL_OK;
}

enum journal_err embedded_fail(struct embedded *embedded, int result)
{
    char name[FORMAT_NAME_BYTES];
    segment_name_write(embedded_last(embedded)->first, name);
    snprintf(embedded->base.complaint, sizeof embedded->base.complaint,
             "'%.1000s/%s' could not be brought to the disk: %s; what was appended from position "
             "%" PRIu64 " on may not be there after a power failure. Nothing more is written to "
             "this journal until it is opened again",
             embedded->disk->name, name, strerror(-result), embedded->base.synced);
    embedded->is_failed = true;
    return JOURNAL_FAILED;
}

static enum journal_err sync_last(struct embedded *embedded)
{
    int result = embedded->disk->ops->sync(embedded->disk, embedded_last(embedded)->file);
    if (result < 0)
        return embedded_fail(embedded, result);
    embedded_last(embedded)->is_dirty = false;
    embedded->base.synced = embedded->base.next;
    return JOURNAL_OK;
}

/* Seals the last segment and goes on in the one that was made for it. */
static enum journal_err finish_roll(struct embedded *embedded)
{
    if (!embedded->has_made)
        return JOURNAL_OK;
    struct segment *old = embedded_last(embedded);
    if (old->end < embedded->made.first) {
        uint16_t kind = embedded->is_lazy ? FORMAT_KIND_LAZY_SEAL : FORMAT_KIND_SEAL;
        enum journal_err err = write_own(embedded, kind, SPAN_NONE);
        if (err != JOURNAL_OK)
            return err;
    }
    must(embedded->base.next == embedded->made.first);
    if (!embedded->is_lazy) {
        enum journal_err err = sync_last(embedded);
        if (err != JOURNAL_OK)
            return err;
        embedded_shut(embedded, old); /* read again by a handle for reading */
    }
    embedded->read_from = UINT64_MAX;
    embedded->segments[embedded->count++] = embedded->made;
    embedded->has_made = false;
    return JOURNAL_OK;
}

/* Goes on in a new segment with room for a batch of so many bytes. */
static enum journal_err roll(struct embedded *embedded, uint64_t bytes, bool is_essential)
{
    uint64_t needed = FORMAT_SEGMENT_BYTES + bytes + TRIM_BYTES + SEAL_BYTES;
    uint64_t room = needed > embedded->segment_bytes ? needed : embedded->segment_bytes;
    enum journal_err err = JOURNAL_OK;
    if (!embedded_reserve_segment(embedded))
        return refuse(embedded, JOURNAL_MEMORY);
    if (!embedded->is_lazy && embedded->base.synced < embedded->base.next)
        err = sync_last(embedded);
    if (err == JOURNAL_OK)
        err = embedded_make_segment(embedded, embedded->base.next + SEAL_BYTES, room, is_essential,
                                    &embedded->made);
    if (err != JOURNAL_OK)
        return err;
    embedded->has_made = true;
    return finish_roll(embedded);
}

/* Where little is synced before it is given up, a checkpoint begins a segment: what stands before
 * it then goes whole, and the flush behind it has but the beginning of one to bring to the disk.
 * Where there is no room for that, or none to spare, it begins where it can. */
static enum journal_err begin_checkpoint(struct embedded *embedded, uint64_t bytes)
{
    const struct segment *last = embedded_last(embedded);
    if (!embedded->is_lazy || last->end - last->first < last->room / EMBEDDED_BEGIN_SHARE)
        return JOURNAL_OK;
    enum journal_err err = roll(embedded, bytes, false);
    return err == JOURNAL_FULL && !embedded->has_made ? JOURNAL_OK : err;
}

/* What an earlier attempt left undone. */
static enum journal_err catch_up(struct embedded *embedded)
{
    enum journal_err err = drop_leftover(embedded);
    return err == JOURNAL_OK ? finish_roll(embedded) : err;
}

/* ---- what the journal is asked for ----------------------------------------------------------- */

static bool has_room(struct embedded *embedded, uint64_t bytes)
{
    const struct segment *last = embedded_last(embedded);
    return FORMAT_SEGMENT_BYTES + (last->end - last->first) + bytes + SEAL_BYTES <= last->room;
}

static enum journal_err batch_bytes(struct embedded *embedded, const struct journal_record *records,
                                    size_t count, uint64_t *out_bytes)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (records[i].body.bytes > LIMIT_JOURNAL_BATCH_BYTES)
            return refuse(embedded, JOURNAL_LIMIT);
        bytes += format_record(records[i].body.bytes);
        if (bytes > LIMIT_JOURNAL_BATCH_BYTES)
            return refuse(embedded, JOURNAL_LIMIT);
    }
    *out_bytes = bytes;
    return JOURNAL_OK;
}

enum journal_err embedded_append(struct journal *journal, const struct journal_record *records,
                                 size_t count, unsigned how, uint64_t *out_at)
{
    struct embedded *embedded = embedded_of(journal);
    bool is_essential = (how & JOURNAL_ESSENTIAL) != 0;
    uint64_t bytes = 0;
    if (embedded->is_failed)
        return JOURNAL_FAILED; /* the complaint stands */
    enum journal_err err = batch_bytes(embedded, records, count, &bytes);
    if (err == JOURNAL_OK)
        err = catch_up(embedded);
    if (err == JOURNAL_OK && !is_essential) {
        shrink_spare(embedded);
        err = embedded_make_spare(embedded);
    }
    if (err == JOURNAL_OK && !is_essential && (how & JOURNAL_CHECKPOINT_BEGIN) != 0)
        err = begin_checkpoint(embedded, bytes);
    /* Room for one trim is kept in each segment: on a full disk it is the way out. */
    if (err == JOURNAL_OK && !has_room(embedded, bytes + TRIM_BYTES))
        err = roll(embedded, bytes, is_essential);
    if (err == JOURNAL_OK) {
        uint64_t at = journal->next;
        err = write_batch(embedded, records, count, how, out_at);
        if (err == JOURNAL_OK && (how & JOURNAL_CHECKPOINT_BEGIN) != 0)
            embedded->begun = at;
    }
    if (err == JOURNAL_OK && (how & JOURNAL_CHECKPOINT_END) != 0 && embedded->begun != UINT64_MAX) {
        journal->checkpoint = embedded->begun;
        embedded->begun = UINT64_MAX;
    }
    return err;
}

enum journal_err embedded_sync(struct journal *journal)
{
    struct embedded *embedded = embedded_of(journal);
    if (embedded->is_failed)
        return JOURNAL_FAILED;
    return embedded->is_lazy ? embedded_flush(embedded) : sync_last(embedded);
}

/* One name at a time is on the disk before the next goes: so there is never a gap. */
enum journal_err embedded_drop_trimmed(struct embedded *embedded)
{
    struct disk *disk = embedded->disk;
    while (embedded->count > 1 && embedded->segments[1].first <= embedded->trimmed) {
        char name[FORMAT_NAME_BYTES];
        segment_name_write(embedded->segments[0].first, name);
        embedded_shut(embedded, &embedded->segments[0]);
        int result = disk->ops->unlink(disk, name);
        if (result == 0 || result == -ENOENT)
            result = disk->ops->sync_names(disk);
        if (result < 0)
            return embedded_complain(embedded, name, "removed", result);
        embedded->count--;
        memmove(embedded->segments, embedded->segments + 1,
                embedded->count * sizeof *embedded->segments);
        embedded->base.first = embedded->segments[0].first;
    }
    return JOURNAL_OK;
}

enum journal_err embedded_trim(struct journal *journal, uint64_t below)
{
    struct embedded *embedded = embedded_of(journal);
    uint8_t body[8];
    enum journal_err err = JOURNAL_OK;
    size_t keep = 0;
    if (embedded->is_failed)
        return JOURNAL_FAILED;
    while (keep + 1 < embedded->count && embedded->segments[keep + 1].first <= below)
        keep++;
    uint64_t trimmed = embedded->segments[keep].first;
    if (trimmed > embedded->trimmed && trimmed > embedded->given_up) {
        format_put64(body, trimmed);
        err = catch_up(embedded);
        if (err == JOURNAL_OK && !has_room(embedded, TRIM_BYTES))
            err = roll(embedded, TRIM_BYTES, true);
        if (err == JOURNAL_OK)
            err = write_own(embedded, FORMAT_KIND_TRIM, span_of(body, sizeof body));
        if (err == JOURNAL_OK)
            embedded->given_up = trimmed;
        if (err == JOURNAL_OK && !embedded->is_lazy)
            err = embedded_sync(journal);
        if (err == JOURNAL_OK && !embedded->is_lazy)
            embedded->trimmed = trimmed;
    }
    return err == JOURNAL_OK && !embedded->is_lazy ? embedded_drop_trimmed(embedded) : err;
}
