/* SPDX-License-Identifier: MPL-2.0 */
/* reader.c -- bodies of records, read beside the thread that writes them; see journal.h.
 *
 * What makes it safe without a lock: what was appended is not changed any more, the system lets
 * readers see what was written before, and nobody asks for what was trimmed.  A file that is used
 * again (layout.h) has no record of a position that was trimmed.  Which segments there are is
 * learnt from the directory, and again whenever a record is not where it would be by what is known:
 * the newest segment that is known ends unseen. */
#include "broker/journal/journal.h"

#include "broker/journal/disk.h"
#include "broker/journal/layout.h"
#include "broker/journal/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_MAX 8 /* readers at different places take turns with them */
#define AHEAD_BYTES (UINT64_C(4) * 1024 * 1024)
#define ROOM_FIRST 64

struct opened {
    uint64_t first; /* of the segment */
    int file;       /* -1: a free place */
    uint64_t read;  /* what was fetched last ends here */
    uint64_t ahead; /* what lies below was asked of the disk */
};

struct journal_reader {
    struct disk *disk;
    uint64_t id;
    uint64_t *firsts; /* of the segments, ascending */
    size_t count;
    size_t room;
    bool is_short; /* of memory, while names were listed */
    struct opened opened[OPEN_MAX];
    size_t turn; /* the place that is used next */
    char complaint[JOURNAL_COMPLAINT_BYTES];
};

/* ---- which segments there are ---------------------------------------------------------------- */

static void visit(void *arg, const char *name)
{
    struct journal_reader *reader = arg;
    uint64_t first;
    if (reader->is_short || !segment_name_read(name, &first))
        return;
    if (reader->count == reader->room) {
        size_t room = reader->room > 0 ? reader->room * 2 : ROOM_FIRST;
        uint64_t *firsts = realloc(reader->firsts, room * sizeof *firsts);
        reader->is_short = firsts == NULL;
        if (reader->is_short)
            return;
        reader->firsts = firsts;
        reader->room = room;
    }
    reader->firsts[reader->count++] = first;
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static enum journal_err reader_complain(struct journal_reader *reader, enum journal_err err,
                                        const char *what)
{
    snprintf(reader->complaint, sizeof reader->complaint, "'%.1000s': %s", reader->disk->name,
             what);
    return err;
}

static enum journal_err list(struct journal_reader *reader)
{
    reader->count = 0;
    reader->is_short = false;
    int result = reader->disk->ops->list(reader->disk, visit, reader);
    if (result < 0)
        return reader_complain(reader, JOURNAL_IO, strerror(-result));
    if (reader->is_short)
        return reader_complain(reader, JOURNAL_MEMORY, journal_strerror(JOURNAL_MEMORY));
    if (reader->count > 0)
        qsort(reader->firsts, reader->count, sizeof *reader->firsts, compare);
    return JOURNAL_OK;
}

/* The segment that has this position by what is known; false: it is older than all. */
static bool find_first(const struct journal_reader *reader, uint64_t at, uint64_t *out_first)
{
    size_t low = 0;
    size_t high = reader->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (reader->firsts[middle] <= at)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > 0)
        *out_first = reader->firsts[low - 1];
    return low > 0;
}

/* ---- open files ------------------------------------------------------------------------------ */

static void shut(struct journal_reader *reader, struct opened *opened)
{
    if (opened->file >= 0)
        reader->disk->ops->shut(reader->disk, opened->file);
    opened->file = -1;
}

static struct opened *find_opened(struct journal_reader *reader, uint64_t first)
{
    for (size_t i = 0; i < OPEN_MAX; i++)
        if (reader->opened[i].file >= 0 && reader->opened[i].first == first)
            return &reader->opened[i];
    return NULL;
}

/* 0, or a negative errno. */
static int reader_open_segment(struct journal_reader *reader, uint64_t first,
                               struct opened **out_opened)
{
    char name[FORMAT_NAME_BYTES];
    *out_opened = find_opened(reader, first);
    if (*out_opened != NULL)
        return 0;
    segment_name_write(first, name);
    int file = reader->disk->ops->open(reader->disk, name, DISK_READ);
    if (file < 0)
        return file;
    struct opened *opened = &reader->opened[reader->turn];
    reader->turn = (reader->turn + 1) % OPEN_MAX;
    shut(reader, opened);
    *opened = (struct opened){.first = first, .file = file};
    *out_opened = opened;
    return 0;
}

/* A reader that continues where it stopped will most likely continue, so the disk is asked for what
 * lies ahead. */
static void read_ahead(struct journal_reader *reader, struct opened *opened, uint64_t at,
                       uint64_t next)
{
    bool is_sequence = at >= opened->read && at - opened->read < AHEAD_BYTES;
    opened->read = next;
    if (!is_sequence || opened->ahead >= next + AHEAD_BYTES / 2)
        return;
    uint64_t from = opened->ahead > next ? opened->ahead : next;
    opened->ahead = next + AHEAD_BYTES;
    reader->disk->ops->ahead(reader->disk, opened->file,
                             FORMAT_SEGMENT_BYTES + from - opened->first, opened->ahead - from);
}

/* ---- fetching -------------------------------------------------------------------------------- */

/* Reads from the segment in which the position must be, by the segments that are known. */
static enum journal_err reader_fetch(struct journal_reader *reader, uint64_t at, void *out_body,
                                     size_t bytes)
{
    uint64_t first = 0;
    struct opened *opened = NULL;
    char name[FORMAT_NAME_BYTES];
    if (!find_first(reader, at, &first))
        return reader_complain(reader, JOURNAL_END, journal_strerror(JOURNAL_END));
    segment_name_write(first, name);
    int result = reader_open_segment(reader, first, &opened);
    if (result == 0)
        result =
            record_read_body(reader->disk, opened->file, reader->id, first, at, out_body, bytes);
    if (result == 0) {
        read_ahead(reader, opened, at, at + format_record(bytes));
        return JOURNAL_OK;
    }
    if (result < 0) {
        snprintf(reader->complaint, sizeof reader->complaint, "'%.1000s/%s' cannot be read: %s",
                 reader->disk->name, name, strerror(-result));
        return JOURNAL_IO;
    }
    snprintf(reader->complaint, sizeof reader->complaint,
             "'%.1000s/%s' has no valid record of %zu bytes at position %" PRIu64
             " (offset %" PRIu64 ")",
             reader->disk->name, name, bytes, at, FORMAT_SEGMENT_BYTES + at - first);
    return JOURNAL_DAMAGED;
}

enum journal_err journal_reader_fetch(struct journal_reader *reader, uint64_t at, void *out_body,
                                      size_t bytes)
{
    enum journal_err err = reader_fetch(reader, at, out_body, bytes);
    if (err == JOURNAL_OK)
        return err;
    err = list(reader);
    return err == JOURNAL_OK ? reader_fetch(reader, at, out_body, bytes) : err;
}

void journal_reader_forget(struct journal_reader *reader, uint64_t below)
{
    uint64_t first = 0;
    if (list(reader) != JOURNAL_OK || !find_first(reader, below, &first))
        return; /* next time */
    for (size_t i = 0; i < OPEN_MAX; i++)
        if (reader->opened[i].first < first)
            shut(reader, &reader->opened[i]);
}

const char *journal_reader_complaint(const struct journal_reader *reader)
{
    return reader->complaint;
}

/* ---- opening and closing --------------------------------------------------------------------- */

enum journal_err journal_reader_open(const char *where, uint64_t id,
                                     struct journal_reader **out_reader, char *complaint)
{
    enum journal_err err = JOURNAL_OK;
    struct journal_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        snprintf(complaint, JOURNAL_COMPLAINT_BYTES, "%s", journal_strerror(JOURNAL_MEMORY));
        return JOURNAL_MEMORY;
    }
    reader->id = id;
    for (size_t i = 0; i < OPEN_MAX; i++)
        reader->opened[i].file = -1;
    int result = disk_open(where, false, &reader->disk, complaint);
    if (result < 0) {
        err = journal_err_of(result);
        journal_reader_close(&reader);
        return err;
    }
    err = list(reader);
    if (err != JOURNAL_OK) {
        memcpy(complaint, reader->complaint, JOURNAL_COMPLAINT_BYTES);
        journal_reader_close(&reader);
        return err;
    }
    *out_reader = reader;
    return JOURNAL_OK;
}

void journal_reader_close(struct journal_reader **reader)
{
    struct journal_reader *old = *reader;
    *reader = NULL;
    if (old == NULL)
        return;
    for (size_t i = 0; i < OPEN_MAX; i++)
        shut(old, &old->opened[i]);
    disk_close(&old->disk);
    free(old->firsts);
    free(old);
}
