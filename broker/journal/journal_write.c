/* SPDX-License-Identifier: MPL-2.0 */
/* journal_write.c -- appends to the journal, brings it to the disk, and trims it.
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

/* ---- batches --------------------------------------------------------------------------------- */

/* A batch on its way into a file. */
struct writing {
    struct journal *journal;
    struct iovec pieces[PIECES_MAX];
    int count;
    uint8_t *staged; /* end of what is staged */
    uint64_t offset; /* in the file, of the first piece */
    uint64_t bytes;  /* in pieces */
};

static int flush_pieces(struct writing *writing)
{
    struct journal *journal = writing->journal;
    int result = disk_write_all(journal->disk, journal_last(journal)->file, writing->pieces,
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
    record_head_write(head, writing->journal->id, at, bytes);
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
static bool reserve_stage(struct journal *journal, const struct journal_record *records,
                          size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += FORMAT_RECORD_BYTES + FORMAT_ALIGN +
                 (records[i].body.bytes < DIRECT_BYTES ? records[i].body.bytes : 0);
    if (bytes <= journal->stage_room)
        return true;
    uint8_t *grown = realloc(journal->stage, bytes);
    if (grown == NULL)
        return false;
    journal->stage = grown;
    journal->stage_room = bytes;
    return true;
}

/* Removes the beginning of a batch that failed, so that nothing can pass for that batch.  If this
 * fails too, the next batch overwrites it.  If no batch follows, the next opening may find a batch
 * that was reported as not written. */
static void wipe(struct journal *journal)
{
    uint8_t zeros[FORMAT_RECORD_BYTES] = {0};
    struct iovec piece = {zeros, sizeof zeros};
    const struct segment *last = journal_last(journal);
    (void)disk_write_all(journal->disk, last->file, &piece, 1,
                         FORMAT_SEGMENT_BYTES + last->end - last->first);
}

static void write_push(struct journal *journal)
{
    const struct segment *last = journal_last(journal);
    uint64_t from = journal->pushed > journal->synced ? journal->pushed : journal->synced;
    from = from > last->first ? from : last->first;
    if (last->end < from + PUSH_BYTES)
        return;
    journal->disk->ops->push(journal->disk, last->file, FORMAT_SEGMENT_BYTES + from - last->first,
                             last->end - from);
    journal->pushed = last->end;
}

/* In a file that is used again, writes zeros behind the batch: no old record follows it. */
static int end_reused(struct writing *writing, uint64_t end)
{
    static const uint8_t zeros[FORMAT_RECORD_BYTES];
    const struct segment *last = journal_last(writing->journal);
    if (!last->is_reused || FORMAT_SEGMENT_BYTES + end - last->first + sizeof zeros > last->room)
        return 0;
    return add_piece(writing, zeros, sizeof zeros);
}

/* Appends to the last segment, where there is room for it. */
static enum journal_err write_batch(struct journal *journal, const struct journal_record *records,
                                    size_t count, unsigned how, uint64_t *out_at)
{
    struct segment *last = journal_last(journal);
    char name[FORMAT_NAME_BYTES];
    uint64_t at = last->end;
    int result = 0;
    if (!reserve_stage(journal, records, count))
        return journal_refuse(journal, JOURNAL_MEMORY);
    journal->batch++;
    struct writing writing = {.journal = journal,
                              .staged = journal->stage,
                              .offset = FORMAT_SEGMENT_BYTES + at - last->first};
    for (size_t i = 0; result == 0 && i < count; i++) {
        struct span body = records[i].body;
        bool is_first = i == 0 && (how & JOURNAL_CHECKPOINT_BEGIN) != 0;
        bool is_last = i + 1 == count && (how & JOURNAL_CHECKPOINT_END) != 0;
        struct record_head head = {.body_crc = format_body_crc(body.data, body.bytes),
                                   .bytes = (uint32_t)body.bytes,
                                   .kind = records[i].kind,
                                   .batch = journal->batch,
                                   .synced = journal->synced};
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
        wipe(journal);
        segment_name_write(last->first, name);
        return journal_complain(journal, name, "written", result);
    }
    last->end = at;
    last->is_dirty = true;
    journal->next = at;
    if (!journal->is_lazy)
        write_push(journal);
    return JOURNAL_OK;
}

/* A record of the journal's own. */
static enum journal_err write_own(struct journal *journal, uint16_t kind, struct span body)
{
    struct journal_record record = {.kind = kind, .body = body};
    return write_batch(journal, &record, 1, 0, NULL);
}

/* ---- segments -------------------------------------------------------------------------------- */

bool journal_reserve_segment(struct journal *journal)
{
    if (journal->count < journal->segment_room)
        return true;
    size_t room = journal->segment_room == 0 ? 16 : 2 * journal->segment_room;
    struct segment *segments = realloc(journal->segments, room * sizeof *segments);
    if (segments == NULL)
        return false;
    journal->segments = segments;
    journal->segment_room = room;
    return true;
}

/* Gives the disk the room of the files that are kept to be used again.  Whether there were any. */
static bool release_kept(struct journal *journal)
{
    const struct disk_ops *ops = journal->disk->ops;
    bool has_released = false;
    for (unsigned i = 0; i < LAYOUT_KEPT_MAX; i++) {
        char name[FORMAT_NAME_BYTES];
        if (journal->kept[i] < 0)
            continue;
        layout_kept_name(i, name);
        ops->shut(journal->disk, journal->kept[i]);
        (void)ops->unlink(journal->disk, name); /* or the next one that is kept takes its place */
        journal->kept[i] = -1;
        has_released = true;
    }
    return has_released;
}

/* Makes the spare file, or makes it larger.  If that fails, a file that was there keeps what it
 * has, for a full disk would not give it again.  It also keeps what the refused call added: ext4
 * gives all there is before it says that it is not enough. */
static enum journal_err grow_spare(struct journal *journal, uint64_t wanted)
{
    const struct disk_ops *ops = journal->disk->ops;
    int file = ops->open(journal->disk, LAYOUT_SPARE, DISK_WRITE);
    if (file == -ENOENT)
        file = ops->open(journal->disk, LAYOUT_SPARE, DISK_MAKE);
    if (file < 0)
        return journal_complain(journal, LAYOUT_SPARE, "made", file);
    int result = ops->reserve(journal->disk, file, wanted);
    int64_t bytes = ops->size(journal->disk, file);
    ops->shut(journal->disk, file);
    if (result == 0 && bytes < 0)
        result = (int)bytes;
    if (result < 0 && journal->spare_bytes == 0)
        (void)ops->unlink(journal->disk, LAYOUT_SPARE); /* a part of it is of no use */
    else if (bytes > (int64_t)journal->spare_bytes)
        journal->spare_bytes = (uint64_t)bytes;
    return result < 0 ? journal_complain(journal, LAYOUT_SPARE, "given room on the disk", result)
                      : JOURNAL_OK;
}

/* Replaces a spare file of more than twice the wanted size by a smaller one.  The smaller one is
 * made before the larger one is removed.  If it cannot be made, the larger one stays. */
static void shrink_spare(struct journal *journal)
{
    const struct disk_ops *ops = journal->disk->ops;
    if (journal->spare_bytes / 2 <= journal->wanted_bytes)
        return;
    int file = ops->open(journal->disk, LAYOUT_NEXT, DISK_MAKE);
    if (file < 0)
        return;
    int result = ops->reserve(journal->disk, file, journal->wanted_bytes);
    ops->shut(journal->disk, file);
    if (result == 0)
        result = ops->rename(journal->disk, LAYOUT_NEXT, LAYOUT_SPARE);
    if (result == 0)
        journal->spare_bytes = journal->wanted_bytes;
    else
        (void)ops->unlink(journal->disk, LAYOUT_NEXT); /* made anew next time */
}

enum journal_err journal_make_spare(struct journal *journal)
{
    enum journal_err err = JOURNAL_OK;
    uint64_t bytes = journal->wanted_bytes;
    if (journal->spare_bytes < bytes)
        err = grow_spare(journal, bytes);
    if (err == JOURNAL_FULL && release_kept(journal))
        err = grow_spare(journal, bytes);
    /* What there is may do for the checkpoint that makes room for the rest. */
    while (err == JOURNAL_FULL && bytes > journal->segment_bytes) {
        bytes = bytes / 2 > journal->segment_bytes ? bytes / 2 : journal->segment_bytes;
        if (bytes <= journal->spare_bytes)
            break;
        (void)grow_spare(journal, bytes); /* the complaint is about the same */
    }
    if (err == JOURNAL_OK)
        journal->aside = journal->spare_bytes;
    return err;
}

void journal_set_aside(struct journal *journal, uint64_t bytes)
{
    uint64_t most = LIMIT_JOURNAL_SEGMENT_BYTES_MAX;
    bytes = bytes < most ? bytes : most;
    journal->wanted_bytes = bytes > journal->segment_bytes ? bytes : journal->segment_bytes;
}

/* A file that was kept for this, with just so many bytes.  Returns its handle; -1: none. */
static int write_take_kept(struct journal *journal, uint64_t bytes,
                           char out_name[FORMAT_NAME_BYTES])
{
    unsigned number = 0;
    while (number < LAYOUT_KEPT_MAX && journal->kept[number] < 0)
        number++;
    if (number == LAYOUT_KEPT_MAX || bytes != journal->segment_bytes)
        return -1;
    int file = journal->kept[number];
    journal->kept[number] = -1; /* used, or of no use; in either case its name may be had */
    layout_kept_name(number, out_name);
    return file;
}

/* A new file with room.  Returns its handle. */
static int make_room(struct journal *journal, uint64_t bytes)
{
    struct disk *disk = journal->disk;
    int file = disk->ops->open(disk, LAYOUT_NEXT, DISK_MAKE);
    int result = file < 0 ? file : disk->ops->reserve(disk, file, bytes);
    if (result >= 0)
        return file;
    if (file >= 0)
        disk->ops->shut(disk, file);
    (void)disk->ops->unlink(disk, LAYOUT_NEXT); /* made anew next time */
    return result;
}

/* A file with room: one that was used, a new one, or for what is essential the spare one, which may
 * have more than was asked for.  Returns its handle. */
static int take_room(struct journal *journal, uint64_t *bytes, bool is_essential,
                     char out_name[FORMAT_NAME_BYTES])
{
    struct disk *disk = journal->disk;
    int file = write_take_kept(journal, *bytes, out_name);
    if (file >= 0)
        return file;
    memcpy(out_name, LAYOUT_NEXT, sizeof LAYOUT_NEXT);
    file = make_room(journal, *bytes);
    if (journal_err_of(file) == JOURNAL_FULL && release_kept(journal))
        file = make_room(journal, *bytes);
    if (is_essential && *bytes <= journal->spare_bytes && journal_err_of(file) == JOURNAL_FULL) {
        *bytes = journal->spare_bytes;
        memcpy(out_name, LAYOUT_SPARE, sizeof LAYOUT_SPARE);
        file = disk->ops->open(disk, LAYOUT_SPARE, DISK_WRITE);
    }
    return file;
}

/* Removes the segment that a failed attempt may have left; until then nothing may be appended. */
static enum journal_err drop_leftover(struct journal *journal)
{
    struct disk *disk = journal->disk;
    if (journal->leftover[0] == '\0')
        return JOURNAL_OK;
    int result = disk->ops->unlink(disk, journal->leftover);
    if (result == 0 || result == -ENOENT)
        result = disk->ops->sync_names(disk);
    if (result < 0)
        return journal_complain(journal, journal->leftover, "removed", result);
    journal->leftover[0] = '\0';
    return JOURNAL_OK;
}

enum journal_err journal_make_segment(struct journal *journal, uint64_t first, uint64_t bytes,
                                      bool is_essential, struct segment *out_segment)
{
    struct disk *disk = journal->disk;
    uint8_t head_bytes[FORMAT_SEGMENT_BYTES + FORMAT_RECORD_BYTES] = {0}; /* and no record */
    char name[FORMAT_NAME_BYTES];
    char from[FORMAT_NAME_BYTES];
    int file = take_room(journal, &bytes, is_essential, from);
    segment_name_write(first, name);
    if (file < 0)
        return journal_complain(journal, name, "made", file);
    struct segment_head head = {.version = FORMAT_VERSION,
                                .journal = journal->id,
                                .first = first,
                                .trimmed = journal->trimmed,
                                .bytes = bytes,
                                .synced = journal->is_lazy ? journal->synced : first,
                                .is_reused = strncmp(from, LAYOUT_KEPT, strlen(LAYOUT_KEPT)) == 0};
    segment_head_write(&head, head_bytes);
    struct iovec piece = {head_bytes, head.is_reused ? sizeof head_bytes : FORMAT_SEGMENT_BYTES};
    int result = disk_write_all(disk, file, &piece, 1, 0);
    if (result == 0 && !journal->is_lazy)
        result = disk->ops->sync(disk, file);
    if (result == 0)
        result = disk->ops->rename(disk, from, name);
    if (result == 0) {
        if (strcmp(from, LAYOUT_SPARE) == 0)
            journal->spare_bytes = 0;
        journal->has_names = true;
        /* From here on the file may exist.  It is used, or must be removed. */
        memcpy(journal->leftover, name, sizeof name);
        if (!journal->is_lazy)
            result = disk->ops->sync_names(disk);
    }
    if (result < 0) {
        disk->ops->shut(disk, file);
        enum journal_err err = journal_complain(journal, name, "made", result);
        (void)drop_leftover(journal); /* tried again before the next append */
        return err;
    }
    *out_segment = (struct segment){.first = first,
                                    .end = first,
                                    .room = bytes,
                                    .file = file,
                                    .is_writing = true,
                                    .is_dirty = journal->is_lazy,
                                    .is_reused = head.is_reused};
    journal->leftover[0] = '\0';
    return JOURNAL_OK;
}

static enum journal_err sync_last(struct journal *journal)
{
    int result = journal->disk->ops->sync(journal->disk, journal_last(journal)->file);
    if (result < 0)
        return journal_fail(journal, result);
    journal_last(journal)->is_dirty = false;
    journal->synced = journal->next;
    return JOURNAL_OK;
}

/* Seals the last segment and goes on in the one that was made for it. */
static enum journal_err finish_roll(struct journal *journal)
{
    if (!journal->has_made)
        return JOURNAL_OK;
    struct segment *old = journal_last(journal);
    if (old->end < journal->made.first) {
        uint16_t kind = journal->is_lazy ? FORMAT_KIND_LAZY_SEAL : FORMAT_KIND_SEAL;
        enum journal_err err = write_own(journal, kind, SPAN_NONE);
        if (err != JOURNAL_OK)
            return err;
    }
    must(journal->next == journal->made.first);
    if (!journal->is_lazy) {
        enum journal_err err = sync_last(journal);
        if (err != JOURNAL_OK)
            return err;
        segment_shut(journal, old); /* read again by a handle for reading */
    }
    journal->read_from = UINT64_MAX;
    journal->segments[journal->count++] = journal->made;
    journal->has_made = false;
    return JOURNAL_OK;
}

/* Goes on in a new segment with room for a batch of so many bytes. */
static enum journal_err roll(struct journal *journal, uint64_t bytes, bool is_essential)
{
    uint64_t needed = FORMAT_SEGMENT_BYTES + bytes + TRIM_BYTES + SEAL_BYTES;
    uint64_t room = needed > journal->segment_bytes ? needed : journal->segment_bytes;
    enum journal_err err = JOURNAL_OK;
    if (!journal_reserve_segment(journal))
        return journal_refuse(journal, JOURNAL_MEMORY);
    if (!journal->is_lazy && journal->synced < journal->next)
        err = sync_last(journal);
    if (err == JOURNAL_OK)
        err = journal_make_segment(journal, journal->next + SEAL_BYTES, room, is_essential,
                                   &journal->made);
    if (err != JOURNAL_OK)
        return err;
    journal->has_made = true;
    return finish_roll(journal);
}

/* In a lazy journal a checkpoint begins a segment, unless the present one has little in it.  All
 * segments before it can then be given up whole, and the next flush syncs only the beginning of
 * one.  Without room for another segment, the checkpoint begins in the present one. */
static enum journal_err begin_checkpoint(struct journal *journal, uint64_t bytes)
{
    const struct segment *last = journal_last(journal);
    if (!journal->is_lazy || last->end - last->first < last->room / LAYOUT_BEGIN_SHARE)
        return JOURNAL_OK;
    enum journal_err err = roll(journal, bytes, false);
    return err == JOURNAL_FULL && !journal->has_made ? JOURNAL_OK : err;
}

/* What an earlier attempt left undone. */
static enum journal_err catch_up(struct journal *journal)
{
    enum journal_err err = drop_leftover(journal);
    return err == JOURNAL_OK ? finish_roll(journal) : err;
}

/* ---- what the journal is asked for ----------------------------------------------------------- */

/* Refuses the call.  The complaint is the sentence of the code alone. */
static enum journal_err refuse_call(struct journal *journal, enum journal_err err)
{
    snprintf(journal->complaint, sizeof journal->complaint, "%s", journal_strerror(err));
    return err;
}

static bool has_room(struct journal *journal, uint64_t bytes)
{
    const struct segment *last = journal_last(journal);
    return FORMAT_SEGMENT_BYTES + (last->end - last->first) + bytes + SEAL_BYTES <= last->room;
}

static enum journal_err batch_bytes(struct journal *journal, const struct journal_record *records,
                                    size_t count, uint64_t *out_bytes)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (records[i].body.bytes > LIMIT_JOURNAL_BATCH_BYTES)
            return journal_refuse(journal, JOURNAL_LIMIT);
        bytes += format_record(records[i].body.bytes);
        if (bytes > LIMIT_JOURNAL_BATCH_BYTES)
            return journal_refuse(journal, JOURNAL_LIMIT);
    }
    *out_bytes = bytes;
    return JOURNAL_OK;
}

static enum journal_err write_append(struct journal *journal, const struct journal_record *records,
                                     size_t count, unsigned how, uint64_t *out_at)
{
    bool is_essential = (how & JOURNAL_ESSENTIAL) != 0;
    uint64_t bytes = 0;
    if (journal->failure != JOURNAL_OK)
        return journal->failure; /* the complaint stands */
    enum journal_err err = batch_bytes(journal, records, count, &bytes);
    if (err == JOURNAL_OK)
        err = catch_up(journal);
    if (err == JOURNAL_OK && !is_essential) {
        shrink_spare(journal);
        err = journal_make_spare(journal);
    }
    if (err == JOURNAL_OK && !is_essential && (how & JOURNAL_CHECKPOINT_BEGIN) != 0)
        err = begin_checkpoint(journal, bytes);
    /* Room for one trim is kept in each segment: on a full disk it is the way out. */
    if (err == JOURNAL_OK && !has_room(journal, bytes + TRIM_BYTES))
        err = roll(journal, bytes, is_essential);
    if (err == JOURNAL_OK) {
        uint64_t at = journal->next;
        err = write_batch(journal, records, count, how, out_at);
        if (err == JOURNAL_OK && (how & JOURNAL_CHECKPOINT_BEGIN) != 0)
            journal->begun = at;
    }
    if (err == JOURNAL_OK && (how & JOURNAL_CHECKPOINT_END) != 0 && journal->begun != UINT64_MAX) {
        journal->checkpoint = journal->begun;
        journal->begun = UINT64_MAX;
    }
    return err;
}

enum journal_err journal_append(struct journal *journal, uint64_t lease, uint64_t at,
                                const struct journal_record *records, size_t count, unsigned how,
                                uint64_t *out_at)
{
    if (lease != journal->lease)
        return refuse_call(journal, JOURNAL_FENCED);
    if (at != journal->next)
        return refuse_call(journal, JOURNAL_POSITION);
    if (count == 0)
        return refuse_call(journal, JOURNAL_LIMIT);
    for (size_t i = 0; i < count; i++)
        if (records[i].kind == 0 || records[i].kind > JOURNAL_KIND_MAX)
            return refuse_call(journal, JOURNAL_LIMIT);
    return write_append(journal, records, count, how, out_at);
}

enum journal_err journal_sync_all(struct journal *journal)
{
    if (journal->failure != JOURNAL_OK)
        return journal->failure; /* the complaint stands */
    return journal->is_lazy ? journal_flush_all(journal) : sync_last(journal);
}

enum journal_err journal_sync(struct journal *journal, uint64_t until)
{
    if (until > journal->next)
        return refuse_call(journal, JOURNAL_POSITION);
    return until <= journal->synced ? JOURNAL_OK : journal_sync_all(journal);
}

/* One name at a time is on the disk before the next goes: so there is never a gap. */
enum journal_err journal_drop_trimmed(struct journal *journal)
{
    struct disk *disk = journal->disk;
    while (journal->count > 1 && journal->segments[1].first <= journal->trimmed) {
        char name[FORMAT_NAME_BYTES];
        segment_name_write(journal->segments[0].first, name);
        segment_shut(journal, &journal->segments[0]);
        int result = disk->ops->unlink(disk, name);
        if (result == 0 || result == -ENOENT)
            result = disk->ops->sync_names(disk);
        if (result < 0)
            return journal_complain(journal, name, "removed", result);
        journal->count--;
        memmove(journal->segments, journal->segments + 1,
                journal->count * sizeof *journal->segments);
        journal->first = journal->segments[0].first;
    }
    return JOURNAL_OK;
}

enum journal_err journal_trim(struct journal *journal, uint64_t below)
{
    uint8_t body[8];
    enum journal_err err = JOURNAL_OK;
    size_t keep = 0;
    if (below > journal->next)
        return refuse_call(journal, JOURNAL_POSITION);
    if (journal->failure != JOURNAL_OK)
        return journal->failure; /* the complaint stands */
    while (keep + 1 < journal->count && journal->segments[keep + 1].first <= below)
        keep++;
    uint64_t trimmed = journal->segments[keep].first;
    if (trimmed > journal->trimmed && trimmed > journal->given_up) {
        format_put64(body, trimmed);
        err = catch_up(journal);
        if (err == JOURNAL_OK && !has_room(journal, TRIM_BYTES))
            err = roll(journal, TRIM_BYTES, true);
        if (err == JOURNAL_OK)
            err = write_own(journal, FORMAT_KIND_TRIM, span_of(body, sizeof body));
        if (err == JOURNAL_OK)
            journal->given_up = trimmed;
        if (err == JOURNAL_OK && !journal->is_lazy)
            err = journal_sync_all(journal);
        if (err == JOURNAL_OK && !journal->is_lazy)
            journal->trimmed = trimmed;
    }
    return err == JOURNAL_OK && !journal->is_lazy ? journal_drop_trimmed(journal) : err;
}
