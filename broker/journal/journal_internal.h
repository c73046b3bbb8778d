/* SPDX-License-Identifier: MPL-2.0 */
/* journal_internal.h -- what the files of the journal share; the invariants are in
 * layout.h. */
#ifndef JOURNAL_JOURNAL_INTERNAL_H
#define JOURNAL_JOURNAL_INTERNAL_H

#include "broker/journal/disk.h"
#include "broker/journal/layout.h"
#include "broker/journal/format.h"
#include "broker/journal/journal.h"
#include "broker/journal/proof.h"
#include "broker/journal/scan.h"

struct segment {
    uint64_t first;
    uint64_t end;    /* behind its last record; of all but the last: the first of the next */
    uint64_t room;   /* bytes of the file */
    int file;        /* of the last always open, for writing; else for reading, or -1 */
    bool is_writing; /* the file is open for writing; of a lazy journal until it is synced */
    bool is_dirty;   /* ... and was written to since it was synced, or a sync began */
    bool is_reused;  /* behind its end stands what is of no use any more */
};

struct journal {
    uint64_t id;
    uint64_t lease;
    char holder[DISK_HOLDER_BYTES]; /* of the lease; "" */
    uint64_t first;
    uint64_t next;
    uint64_t synced;
    uint64_t checkpoint; /* UINT64_MAX: none */
    uint64_t aside;
    char complaint[JOURNAL_COMPLAINT_BYTES];
    bool has_forgotten;
    struct disk *disk;
    struct segment *segments; /* by position, at least one */
    size_t count;
    size_t segment_room; /* of the array */
    size_t open_count;   /* files open for reading */
    uint64_t segment_bytes;
    uint64_t trimmed;    /* what lies below is given up, and that is on the disk */
    uint64_t given_up;   /* what lies below is given up; on the disk with the next flush */
    uint64_t gone_bytes; /* of files that go with the flush under way */
    uint64_t begun;      /* a checkpoint that is not whole yet; UINT64_MAX: none */
    uint64_t pushed;     /* what lies below is on its way to the disk */
    uint64_t read_from;  /* the segment that `reader` reads; UINT64_MAX: none */
    struct scan reader;
    uint8_t *stage; /* heads, fillings and small bodies of the batch being written */
    size_t stage_room;
    uint32_t batch;                   /* of the last attempt to append */
    struct segment made;              /* goes behind the last as soon as that one is sealed */
    bool has_made;                    /* it is there, and on the disk */
    uint64_t spare_bytes;             /* of what is set aside; 0: it is in use */
    uint64_t wanted_bytes;            /* to be set aside, at least segment_bytes */
    int kept[LAYOUT_KEPT_MAX];        /* files of segment_bytes, to be used again; -1: none; lazy */
    enum journal_err failure;         /* nothing is written any more: FAILED or FENCED; else OK */
    bool is_lazy;                     /* nothing is synced but by a flush */
    bool is_flushing;                 /* a flush has begun and has not ended */
    bool has_names;                   /* names have changed since the last flush began */
    struct proof proof;               /* the newest one; lazy */
    int proof_file;                   /* for writing it; -1: not open */
    char leftover[FORMAT_NAME_BYTES]; /* a segment that must go before anything is appended; "" */
};

static inline struct segment *journal_last(struct journal *journal)
{
    return &journal->segments[journal->count - 1];
}

/* Of its file, all that was written to: the head, the records and, in a file that is used again,
 * the zeros behind them. */
static inline uint64_t segment_written_until(const struct segment *segment)
{
    uint64_t until = FORMAT_SEGMENT_BYTES + segment->end - segment->first + FORMAT_RECORD_BYTES;
    return until < segment->room ? until : segment->room;
}

/* journal_error.c: each leaves a sentence about it in the journal. */

/* The code alone, about the whole journal. */
enum journal_err journal_refuse(struct journal *journal, enum journal_err err);
/* What could not be done with which file; returns what it means. */
enum journal_err journal_complain(struct journal *journal, const char *name, const char *what,
                                  int result);
/* A sync failed, or the disk is another's: the journal is over. */
enum journal_err journal_fail(struct journal *journal, int result);

/* journal_read.c */
void segment_shut(struct journal *journal, struct segment *segment);

/* journal_flush.c: all three steps of a flush. */
enum journal_err journal_flush_all(struct journal *journal);

/* journal_write.c */

/* All that was appended is on the disk when it returns. */
enum journal_err journal_sync_all(struct journal *journal);
/* Unlinks segments that lie wholly below what was trimmed. */
enum journal_err journal_drop_trimmed(struct journal *journal);
/* Room for one more in the array. */
bool journal_reserve_segment(struct journal *journal);
/* A new segment, on the disk; not in the array yet. */
enum journal_err journal_make_segment(struct journal *journal, uint64_t first, uint64_t bytes,
                                      bool is_essential, struct segment *out_segment);
/* Sets aside what is wanted; where there is no room for all of it, as much as there is. */
enum journal_err journal_make_spare(struct journal *journal);

#endif
