/* SPDX-License-Identifier: MPL-2.0 */
/* scan.c -- reads the records of one segment; see scan.h. */
#include "broker/journal/scan.h"

#include "broker/journal/crc32c.h"
#include "libbus/base/must.h"

#include <stdlib.h>
#include <string.h>

/* Read at once: enough that the calls cost nothing beside the checksums, little enough to stay in
 * the processor's cache. */
#define WINDOW_BYTES ((size_t)256 * 1024)

void scan_init(struct scan *scan, struct disk *disk)
{
    *scan = (struct scan){.disk = disk, .file = -1};
}

void scan_fini(struct scan *scan)
{
    free(scan->window);
    scan->window = NULL;
}

void scan_start(struct scan *scan, int file, uint64_t journal, uint64_t first, uint64_t at,
                uint64_t limit)
{
    scan->file = file;
    scan->journal = journal;
    scan->first = first;
    scan->window_bytes = 0;
    scan_move(scan, at, limit);
}

void scan_move(struct scan *scan, uint64_t at, uint64_t limit)
{
    must(at >= scan->first);
    scan->at = at;
    scan->limit = limit;
    scan->has_batch = false;
}

static bool is_in_window(const struct scan *scan, uint64_t at, uint64_t bytes)
{
    return at >= scan->window_at && at + bytes <= scan->window_at + scan->window_bytes;
}

/* Makes bytes at a position readable; SCAN_STOP: the segment has not so many. */
static enum scan_verdict scan_look(struct scan *scan, uint64_t at, uint64_t bytes,
                                   const uint8_t **out)
{
    if (at > scan->limit || bytes > scan->limit - at)
        return SCAN_STOP;
    if (!is_in_window(scan, at, bytes)) {
        uint64_t wanted = scan->limit - at < WINDOW_BYTES ? scan->limit - at : WINDOW_BYTES;
        wanted = wanted < bytes ? bytes : wanted;
        if (wanted > scan->window_room) {
            uint8_t *window = realloc(scan->window, wanted);
            if (window == NULL)
                return SCAN_MEMORY;
            scan->window = window;
            scan->window_room = wanted;
        }
        scan->window_bytes = 0;
        int64_t got = disk_read_at(scan->disk, scan->file, scan->window, wanted,
                                   FORMAT_SEGMENT_BYTES + at - scan->first);
        if (got < 0) {
            scan->err = (int)got;
            return SCAN_IO;
        }
        scan->window_at = at;
        scan->window_bytes = (size_t)got;
        if (!is_in_window(scan, at, bytes))
            return SCAN_STOP;
    }
    *out = scan->window + (at - scan->window_at);
    return SCAN_RECORD;
}

enum scan_verdict scan_next(struct scan *scan, struct scan_record *out_record)
{
    const uint8_t *bytes = NULL;
    struct record_head head;
    enum scan_verdict verdict = scan_look(scan, scan->at, FORMAT_RECORD_BYTES, &bytes);
    if (verdict != SCAN_RECORD)
        return verdict;
    if (!record_head_read(bytes, scan->journal, scan->at, &head) ||
        (scan->has_batch && !format_batch_follows(scan->batch, head.batch)))
        return SCAN_STOP;
    uint64_t filled = format_filled(head.bytes);
    verdict = scan_look(scan, scan->at, FORMAT_RECORD_BYTES + filled, &bytes);
    if (verdict != SCAN_RECORD)
        return verdict;
    if (crc32c(0, bytes + FORMAT_RECORD_BYTES, filled) != head.body_crc)
        return SCAN_STOP;
    *out_record = (struct scan_record){.head = head,
                                       .at = scan->at,
                                       .next = scan->at + FORMAT_RECORD_BYTES + filled,
                                       .body = span_of(bytes + FORMAT_RECORD_BYTES, head.bytes)};
    scan->at = out_record->next;
    scan->batch = head.batch;
    scan->has_batch = true;
    return SCAN_RECORD;
}

bool scan_head_here(struct scan *scan, struct record_head *out_head)
{
    const uint8_t *bytes = NULL;
    return scan_look(scan, scan->at, FORMAT_RECORD_BYTES, &bytes) == SCAN_RECORD &&
           record_head_read(bytes, scan->journal, scan->at, out_head) &&
           format_record(out_head->bytes) <= scan->limit - scan->at;
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* One place of a scan behind; room bytes can be read there. */
static void scan_look_behind(const struct scan *scan, const uint8_t *bytes, uint64_t at,
                             uint64_t room, struct scan_behind *behind)
{
    struct record_head head;
    size_t here = room < FORMAT_ALIGN ? (size_t)room : FORMAT_ALIGN;
    if (!is_zero(bytes, here))
        behind->filled = at + here;
    if (at == scan->at && (room < FORMAT_RECORD_BYTES || is_zero(bytes, FORMAT_RECORD_BYTES)))
        behind->is_blank = true;
    /* A head has a kind, and so these 8 bytes are not all zero. */
    if (room < FORMAT_RECORD_BYTES || is_zero(bytes + 8, 8) ||
        !record_head_read(bytes, scan->journal, at, &head) ||
        format_record(head.bytes) > scan->limit - at)
        return;
    if (behind->next == UINT64_MAX && at >= scan->at + FORMAT_RECORD_BYTES)
        behind->next = at;
    behind->heads++;
    behind->synced = head.synced > behind->synced ? head.synced : behind->synced;
}

enum scan_verdict scan_behind(struct scan *scan, struct scan_behind *out_behind)
{
    struct scan_behind behind = {.filled = scan->at, .next = UINT64_MAX};
    for (uint64_t at = scan->at; at < scan->limit;) {
        /* A window that ends in the middle of a head is looked at again from that head on. */
        const uint8_t *bytes = NULL;
        uint64_t left = scan->limit - at;
        uint64_t wanted = left < FORMAT_RECORD_BYTES ? left : FORMAT_RECORD_BYTES;
        enum scan_verdict verdict = scan_look(scan, at, wanted, &bytes);
        if (verdict == SCAN_STOP)
            break; /* the file is shorter */
        if (verdict != SCAN_RECORD)
            return verdict;
        uint64_t room = scan->window_at + scan->window_bytes - at;
        room = room < left ? room : left;
        for (uint64_t i = 0; i < room && (room - i >= FORMAT_RECORD_BYTES || room == left);
             i += FORMAT_ALIGN) {
            scan_look_behind(scan, bytes + i, at + i, room - i, &behind);
            wanted = i + FORMAT_ALIGN;
        }
        at += wanted;
    }
    *out_behind = behind;
    return SCAN_STOP;
}
