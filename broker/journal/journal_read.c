/* SPDX-License-Identifier: MPL-2.0 */
/* journal_read.c -- reads the journal: a position tells segment and offset. */
#include "broker/journal/journal_internal.h"

#include "broker/journal/crc32c.h"
#include "broker/journal/layout.h"

#include <inttypes.h>
#include <stdio.h>

#define OPEN_MAX 128 /* segments that are open for reading at a time */

void segment_shut(struct journal *journal, struct segment *segment)
{
    if (segment->file < 0)
        return;
    journal->disk->ops->shut(journal->disk, segment->file);
    segment->file = -1;
    if (journal->open_count > 0 && !segment->is_writing)
        journal->open_count--;
    segment->is_writing = false;
    if (journal->read_from == segment->first)
        journal->read_from = UINT64_MAX;
}

static struct segment *find_segment(struct journal *journal, uint64_t at)
{
    size_t low = 0;
    size_t high = journal->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (journal->segments[middle].first <= at)
            low = middle;
        else
            high = middle;
    }
    return &journal->segments[low];
}

static enum journal_err read_open_segment(struct journal *journal, struct segment *segment)
{
    char name[FORMAT_NAME_BYTES];
    if (segment->file >= 0)
        return JOURNAL_OK;
    for (size_t i = 0; journal->open_count >= OPEN_MAX && i + 1 < journal->count; i++)
        if (!journal->segments[i].is_writing)
            segment_shut(journal, &journal->segments[i]);
    segment_name_write(segment->first, name);
    int file = journal->disk->ops->open(journal->disk, name, DISK_READ);
    if (file < 0)
        return journal_complain(journal, name, "read", file);
    segment->file = file;
    journal->open_count++;
    return JOURNAL_OK;
}

static enum journal_err tell_damage(struct journal *journal, const struct segment *segment,
                                    uint64_t at)
{
    char name[FORMAT_NAME_BYTES];
    segment_name_write(segment->first, name);
    snprintf(journal->complaint, sizeof journal->complaint,
             "'%.1000s/%s' has no valid record at position %" PRIu64 " (offset %" PRIu64 ")",
             journal->disk->name, name, at, FORMAT_SEGMENT_BYTES + at - segment->first);
    return JOURNAL_DAMAGED;
}

static enum journal_err read_record(struct journal *journal, uint64_t at,
                                    struct scan_record *out_record)
{
    struct segment *segment = find_segment(journal, at);
    struct scan *reader = &journal->reader;
    char name[FORMAT_NAME_BYTES];
    enum journal_err err = read_open_segment(journal, segment);
    if (err != JOURNAL_OK)
        return err;
    if (journal->read_from != segment->first)
        scan_start(reader, segment->file, journal->id, segment->first, at, segment->end);
    else
        scan_move(reader, at, segment->end);
    journal->read_from = segment->first;
    switch (scan_next(reader, out_record)) {
    case SCAN_RECORD: return JOURNAL_OK;
    case SCAN_STOP: return tell_damage(journal, segment, at);
    case SCAN_MEMORY:
        snprintf(journal->complaint, sizeof journal->complaint, "%s",
                 journal_strerror(JOURNAL_MEMORY));
        return JOURNAL_MEMORY;
    case SCAN_IO: break;
    }
    segment_name_write(segment->first, name);
    return journal_complain(journal, name, "read", reader->err);
}

enum journal_err journal_read(struct journal *journal, uint64_t at, struct journal_found *out_found)
{
    if (at < journal->first || at >= journal->next)
        return JOURNAL_END;
    struct scan_record record = {.next = at};
    do {
        if (record.next >= journal->next)
            return JOURNAL_END;
        enum journal_err err = read_record(journal, record.next, &record);
        if (err != JOURNAL_OK)
            return err;
    } while (record.head.kind > FORMAT_KIND_LOST);
    bool is_lost = record.head.kind == FORMAT_KIND_LOST;
    *out_found =
        (struct journal_found){.at = record.at,
                               .next = record.next,
                               .kind = record.head.kind,
                               .is_begin = (record.head.marks & FORMAT_MARK_CHECKPOINT_BEGIN) != 0,
                               .is_end = (record.head.marks & FORMAT_MARK_CHECKPOINT_END) != 0,
                               .body = is_lost ? SPAN_NONE : record.body};
    return JOURNAL_OK;
}

int record_read_body(struct disk *disk, int file, uint64_t id, uint64_t first, uint64_t at,
                     void *out_body, size_t bytes)
{
    uint8_t head_bytes[FORMAT_RECORD_BYTES];
    uint8_t filling[FORMAT_ALIGN];
    struct record_head head;
    size_t filled = (size_t)format_filled(bytes) - bytes;
    struct iovec pieces[] = {{head_bytes, sizeof head_bytes}, {out_body, bytes}, {filling, filled}};
    int64_t got = disk->ops->read(disk, file, pieces, out_body != NULL ? 3 : 1,
                                  FORMAT_SEGMENT_BYTES + at - first);
    if (got < 0)
        return (int)got;
    if (got < FORMAT_RECORD_BYTES || !record_head_read(head_bytes, id, at, &head) ||
        head.bytes != bytes || head.kind >= FORMAT_KIND_OWN)
        return 1;
    if (out_body == NULL)
        return 0;
    return (uint64_t)got != format_record(bytes) ||
           crc32c(bytes > 0 ? crc32c(0, out_body, bytes) : 0, filling, filled) != head.body_crc;
}

enum journal_err journal_fetch(struct journal *journal, uint64_t at, void *out_body, size_t bytes)
{
    if (at < journal->first || at >= journal->next)
        return JOURNAL_END;
    struct segment *segment = find_segment(journal, at);
    char name[FORMAT_NAME_BYTES];
    enum journal_err err = read_open_segment(journal, segment);
    if (err != JOURNAL_OK)
        return err;
    int result = record_read_body(journal->disk, segment->file, journal->id, segment->first, at,
                                  out_body, bytes);
    if (result < 0) {
        segment_name_write(segment->first, name);
        return journal_complain(journal, name, "read", result);
    }
    return result == 0 ? JOURNAL_OK : tell_damage(journal, segment, at);
}
