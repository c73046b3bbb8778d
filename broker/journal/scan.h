/* SPDX-License-Identifier: MPL-2.0 */
/* scan.h -- reads the records of one segment, one behind the other, and looks for what is valid
 * behind a place where none is. */
#ifndef JOURNAL_SCAN_H
#define JOURNAL_SCAN_H

#include "broker/journal/disk.h"
#include "broker/journal/format.h"
#include "libbus/base/span.h"

struct scan {
    struct disk *disk;
    uint8_t *window;     /* what was read last */
    size_t window_room;  /* its memory */
    size_t window_bytes; /* of it, read */
    uint64_t window_at;  /* position of its first byte */
    uint64_t journal;    /* whose records are looked for */
    uint64_t first;      /* position of the segment */
    uint64_t limit;      /* nothing is read from here on */
    uint64_t at;         /* position of the next record */
    int file;
    int err;        /* of the system, if the verdict is SCAN_IO */
    uint32_t batch; /* of the last record */
    bool has_batch; /* there was one */
};

struct scan_record {
    struct record_head head;
    uint64_t at;
    uint64_t next;    /* position behind it */
    struct span body; /* borrowed until the next call */
};

enum scan_verdict {
    SCAN_RECORD, /* and the scan stands behind it */
    SCAN_STOP,   /* no valid record is at this place; the scan stays there */
    SCAN_IO,
    SCAN_MEMORY,
};

/* What lies behind the place where a scan stopped. */
struct scan_behind {
    uint64_t filled; /* behind the last byte that is not 0; the place itself if all are */
    uint64_t heads;  /* how many heads of records are valid there */
    uint64_t next;   /* position of the first of them that is not at the place itself */
    uint64_t synced; /* the furthest position of which one of them says: this was on the disk */
    bool is_blank;   /* at the place itself are zeros, or too little room for a record */
};

void scan_init(struct scan *scan, struct disk *disk);
void scan_fini(struct scan *scan);
/* Begins at a position in an open file; what was read of another is forgotten. */
void scan_start(struct scan *scan, int file, uint64_t journal, uint64_t first, uint64_t at,
                uint64_t limit);
/* The same file: what is read of it is kept, and less or more of it may be valid by now. */
void scan_move(struct scan *scan, uint64_t at, uint64_t limit);
enum scan_verdict scan_next(struct scan *scan, struct scan_record *out_record);
/* The head at the place where the scan stopped, if that much is valid. */
bool scan_head_here(struct scan *scan, struct record_head *out_head);
/* SCAN_STOP: told. */
enum scan_verdict scan_behind(struct scan *scan, struct scan_behind *out_behind);

#endif
