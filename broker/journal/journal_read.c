/* SPDX-License-Identifier: MPL-2.0 */
/* journal_read.c -- reads the embedded journal: a position tells segment and offset. */
#include "broker/journal/journal_internal.h"

#include "broker/journal/crc32c.h"
#include "broker/journal/layout.h"

#include <inttypes.h>
#include <stdio.h>

#define OPEN_MAX 128 /* segments that are open for reading at a time */

void embedded_shut(struct embedded *embedded, struct segment *segment)
{
    if (segment->file < 0)
        return;
    embedded->disk->ops->shut(embedded->disk, segment->file);
    segment->file = -1;
    if (embedded->open_count > 0 && !segment->is_writing)
        embedded->open_count--;
    segment->is_writing = false;
    if (embedded->read_from == segment->first)
        embedded->read_from = UINT64_MAX;
}

static struct segment *find_segment(struct embedded *embedded, uint64_t at)
{
    size_t low = 0;
    size_t high = embedded->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (embedded->segments[middle].first <= at)
            low = middle;
        else
            high = middle;
    }
    return &embedded->segments[low];
}

static enum journal_err open_segment(struct embedded *embedded, struct segment *segment)
{
    char name[FORMAT_NAME_BYTES];
    if (segment->file >= 0)
        return JOURNAL_OK;
    for (size_t i = 0; embedded->open_count >= OPEN_MAX && i + 1 < embedded->count; i++)
        if (!embedded->segments[i].is_writing)
            embedded_shut(embedded, &embedded->segments[i]);
    segment_name_write(segment->first, name);
    int file = embedded->disk->ops->open(embedded->disk, name, DISK_READ);
    if (file < 0)
        return embedded_complain(embedded, name, "read", file);
    segment->file = file;
    embedded->open_count++;
    return JOURNAL_OK;
}

static enum journal_err tell_damage(struct embedded *embedded, const struct segment *segment,
                                    uint64_t at)
{
    char name[FORMAT_NAME_BYTES];
    segment_name_write(segment->first, name);
    snprintf(embedded->base.complaint, sizeof embedded->base.complaint,
             "'%.1000s/%s' has no valid record at position %" PRIu64 " (offset %" PRIu64 ")",
             embedded->disk->name, name, at, FORMAT_SEGMENT_BYTES + at - segment->first);
    return JOURNAL_DAMAGED;
}

static enum journal_err read_record(struct embedded *embedded, uint64_t at,
                                    struct scan_record *out_record)
{
    struct segment *segment = find_segment(embedded, at);
    struct scan *reader = &embedded->reader;
    char name[FORMAT_NAME_BYTES];
    enum journal_err err = open_segment(embedded, segment);
    if (err != JOURNAL_OK)
        return err;
    if (embedded->read_from != segment->first)
        scan_start(reader, segment->file, embedded->base.id, segment->first, at, segment->end);
    else
        scan_move(reader, at, segment->end);
    embedded->read_from = segment->first;
    switch (scan_next(reader, out_record)) {
    case SCAN_RECORD: return JOURNAL_OK;
    case SCAN_STOP: return tell_damage(embedded, segment, at);
    case SCAN_MEMORY:
        snprintf(embedded->base.complaint, sizeof embedded->base.complaint, "%s",
                 journal_strerror(JOURNAL_MEMORY));
        return JOURNAL_MEMORY;
    case SCAN_IO: break;
    }
    segment_name_write(segment->first, name);
    return embedded_complain(embedded, name, "read", reader->err);
}

enum journal_err embedded_read(struct journal *journal, uint64_t at,
                               struct journal_found *out_found)
{
    struct embedded *embedded = embedded_of(journal);
    struct scan_record record = {.next = at};
    do {
        if (record.next >= journal->next)
            return JOURNAL_END;
        enum journal_err err = read_record(embedded, record.next, &record);
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

int embedded_read_body(struct disk *disk, int file, uint64_t id, uint64_t first, uint64_t at,
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

enum journal_err embedded_fetch(struct journal *journal, uint64_t at, void *out_body, size_t bytes)
{
    struct embedded *embedded = embedded_of(journal);
    struct segment *segment = find_segment(embedded, at);
    char name[FORMAT_NAME_BYTES];
    enum journal_err err = open_segment(embedded, segment);
    if (err != JOURNAL_OK)
        return err;
    int result = embedded_read_body(embedded->disk, segment->file, journal->id, segment->first, at,
                                    out_body, bytes);
    if (result < 0) {
        segment_name_write(segment->first, name);
        return embedded_complain(embedded, name, "read", result);
    }
    return result == 0 ? JOURNAL_OK : tell_damage(embedded, segment, at);
}
