/* SPDX-License-Identifier: MPL-2.0 */
/* journal.h -- where decided facts are kept, so that a broker can end and begin again.
 *
 * A journal is a sequence of records.  It holds what was decided (reserved, settled, lost,
 * acknowledged), never what was asked.  Each record has a position, greater than that of every
 * record before it; a position finds its record at once, and stays good as long as the record is
 * kept.  Positions are not consecutive: take them from the calls.
 *
 * The records stand in segments, files on a disk (layout.h).  The journal's name chooses the disk
 * (disk.h): "folder:PATH", or a path alone, is a directory of the file system.
 *
 * One writer at a time: the lease.  The disk gives it, and its number is not less than that of any
 * lease before.  An append under another lease is refused.  A broker that has lost the disk to
 * another one learns it at the latest when it syncs (JOURNAL_FENCED), and writes nothing more.
 *
 * Calls on one journal come from one thread at a time, and may wait for the disk: they belong to a
 * thread of their own.  Group commit is that thread's work: it appends whatever is ready, syncs
 * once, and then tells all whom it may concern. */
#ifndef JOURNAL_JOURNAL_H
#define JOURNAL_JOURNAL_H

#include "libbus/base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOURNAL_COMPLAINT_BYTES 2048 /* room for a sentence about what went wrong, with its NUL */

enum journal_err {
    JOURNAL_OK = 0,
    JOURNAL_END,      /* no record from this position on: the end, or trimmed */
    JOURNAL_POSITION, /* not a position that this call takes */
    JOURNAL_FENCED,   /* the lease is another's by now */
    JOURNAL_DISK,     /* no disk has this scheme */
    JOURNAL_MEMORY,
    JOURNAL_LIMIT,   /* larger than a named limit */
    JOURNAL_FULL,    /* the disk is full, but for what is set aside; nothing was appended */
    JOURNAL_IO,      /* the system refused; nothing was appended, all is as it was */
    JOURNAL_FAILED,  /* a sync failed: close it; opened anew it goes on with what is there */
    JOURNAL_DAMAGED, /* what must be there is not, or has changed */
    JOURNAL_FORMAT,  /* a newer version wrote it */
    JOURNAL_LOCKED,  /* another process has it */
    JOURNAL_MISSING, /* there is none, and none was to be made */
};
const char *journal_strerror(enum journal_err err);

struct disk;
struct journal;

struct journal_options {
    bool may_create;        /* a journal is made where there is none */
    uint64_t id;            /* the name of one that is made: a random number */
    uint64_t segment_bytes; /* of one file; 0: the default; LIMIT_JOURNAL_SEGMENT_BYTES_... */
    uint64_t first_bytes;   /* of the first file of a new journal, if that is less; then nothing is
                               set aside before the first append.  0: as all others */
    bool is_lazy; /* nothing is synced but by a flush or journal_sync(): appends wait for no disk */
};
/* What was found. */
struct journal_opened {
    bool is_new;          /* it was made */
    uint64_t cut_bytes;   /* behind the last whole batch: what a crash left half written */
    uint64_t cut_records; /* whole ones among it, of a batch that is not */
    char cut[JOURNAL_COMPLAINT_BYTES]; /* a sentence about it; "": nothing was cut */
};

/* where: a name that disk_open() takes.  Takes the lease.  complaint: a sentence that names file,
 * place and remedy, if it fails.  Errors: JOURNAL_DISK, MEMORY, LIMIT, FULL, IO, FAILED, DAMAGED,
 * FORMAT, LOCKED, MISSING. */
enum journal_err journal_open(const char *where, const struct journal_options *options,
                              struct journal **out_journal, struct journal_opened *out_opened,
                              char *complaint);
/* The same on a disk, which it takes over, also when it fails. */
enum journal_err journal_open_disk(struct disk **disk, const struct journal_options *options,
                                   struct journal **out_journal, struct journal_opened *out_opened,
                                   char *complaint);
/* Syncs what it can; whoever must know calls journal_sync() before. */
void journal_close(struct journal **journal);

/* The scheme of its disk, and the disk's name for people. */
const char *journal_scheme(const struct journal *journal);
const char *journal_place(const struct journal *journal);
/* The lease that journal_open() took. */
uint64_t journal_lease(const struct journal *journal);
/* The random number by which it was made. */
uint64_t journal_id(const struct journal *journal);
/* Positions: of the oldest record kept, and where the next one will stand at the earliest.  They
 * are compared; what lies between them is asked of journal_between() and its like. */
uint64_t journal_first(const struct journal *journal);
uint64_t journal_next(const struct journal *journal);
/* Bytes of the records between two positions, at most; 0 if they stand the other way round. */
uint64_t journal_between(uint64_t from, uint64_t until);
/* A position behind which, up to another one, stand records of at most so many bytes; a position
 * that lies before every record if there are fewer. */
uint64_t journal_back(uint64_t until, uint64_t bytes);
/* A position behind all records that begin less than so many bytes behind another one. */
uint64_t journal_ahead(uint64_t from, uint64_t bytes);
/* Bytes of records that are not on the disk yet. */
uint64_t journal_unsynced(const struct journal *journal);
/* A trim below this lets nothing go, for the oldest file ends here; UINT64_MAX: none can go. */
uint64_t journal_first_end(const struct journal *journal);
/* Of its files. */
uint64_t journal_bytes(const struct journal *journal);
/* Bytes for which there is room on the fullest disk, what is set aside included. */
uint64_t journal_room(const struct journal *journal);
/* Of these, so many are set aside for what is essential, unless they are in use. */
uint64_t journal_aside(const struct journal *journal);
/* So many shall be, from the next append on that is not essential, which is refused (JOURNAL_FULL)
 * as long as the disk has no room for them.  At least a segment, at most
 * LIMIT_JOURNAL_SEGMENT_BYTES_MAX, and a segment unless this is called. */
void journal_set_aside(struct journal *journal, uint64_t bytes);
/* All below is on the disk. */
uint64_t journal_synced(const struct journal *journal);
/* Where the newest whole checkpoint begins, and so a replay; journal_first() if there is none. */
uint64_t journal_start(const struct journal *journal);
/* About the last call that failed. */
const char *journal_complaint(const struct journal *journal);

/* ---- writing --------------------------------------------------------------------------------- */

/* Kinds are the caller's, 1 .. JOURNAL_KIND_MAX; JOURNAL_KIND_LOST is met in reading alone. */
#define JOURNAL_KIND_MAX 0xfeff
#define JOURNAL_KIND_LOST 0xff00 /* stands where a repair cut something out; no body */

struct journal_record {
    uint16_t kind;
    struct span body;
};

/* What is appended, or'ed. */
#define JOURNAL_ESSENTIAL 1 /* may use what is set aside: errors, settlements, acknowledgements */
#define JOURNAL_CHECKPOINT_BEGIN 2 /* with this batch a snapshot begins */
#define JOURNAL_CHECKPOINT_END 4   /* with this batch it is whole; one batch may be both */

/* Appends a batch of count > 0 records at position `at`, which must be journal_next(), asked anew
 * each time (a call that fails may move it): all or none, also after a crash.  They survive the
 * end of this process at once, that of the machine once they are synced.  out_at: NULL, or room
 * for count positions; they are told on success. Errors: JOURNAL_POSITION, FENCED, MEMORY, LIMIT,
 * FULL, IO, FAILED; after all but FENCED and FAILED it may be tried again. */
enum journal_err journal_append(struct journal *journal, uint64_t lease, uint64_t at,
                                const struct journal_record *records, size_t count, unsigned how,
                                uint64_t *out_at);
/* All below `until` is on the disk when it returns; at once if it is already.  Errors:
 * JOURNAL_POSITION (beyond the end), FENCED, FAILED. */
enum journal_err journal_sync(struct journal *journal, uint64_t until);
/* Records below `below` are not needed any more: whole segments of them go.  Syncs, so that nothing
 * goes before what takes its place is on the disk; a lazy journal lets them go with the next flush
 * or sync, and never brings them to the disk.  Moves journal_next(): a trim is a record, too.
 * Errors: JOURNAL_POSITION (beyond the end), and those of journal_append(). */
enum journal_err journal_trim(struct journal *journal, uint64_t below);

/* ---- syncing beside the writer --------------------------------------------------------------- */

/* A sync in three steps, of which the one that waits for the disk may be another thread's, while
 * this one goes on appending.  For lazy journals; there is nothing to flush in others.  One at a
 * time, and ended before anything else syncs or closes the journal. */
struct journal_flush;

/* All that was appended so far.  *out_flush NULL: it is on the disk.  Errors: JOURNAL_MEMORY, FULL,
 * IO: may be tried again; FAILED. */
enum journal_err journal_flush_begin(struct journal *journal, struct journal_flush **out_flush);
/* [any] */
void journal_flush_run(struct journal_flush *flush);
/* Moves journal_synced(); what was trimmed before it began is gone.  Errors: JOURNAL_FENCED,
 * FAILED. */
enum journal_err journal_flush_end(struct journal *journal, struct journal_flush **flush);

/* ---- reading --------------------------------------------------------------------------------- */

struct journal_found {
    uint64_t at;
    uint64_t next; /* to read on from */
    uint16_t kind;
    bool is_begin;    /* the first record of a checkpoint */
    bool is_end;      /* the last one */
    struct span body; /* borrowed until the next call */
};

/* The first record of the caller's at or behind a position that stood between records.  Fast when
 * positions follow each other.  Errors: JOURNAL_END, MEMORY, IO, DAMAGED. */
enum journal_err journal_read(struct journal *journal, uint64_t at,
                              struct journal_found *out_found);
/* The body of the record at this very position, whose size is known, with one read; out_body NULL:
 * looks only whether it is there.  Errors: JOURNAL_END, IO, DAMAGED (which is also: no such record,
 * or of another size). */
enum journal_err journal_fetch(struct journal *journal, uint64_t at, void *out_body, size_t bytes);

/* ---- reading beside the writer --------------------------------------------------------------- */

/* Bodies of records, for a thread that is not the journal's: a reader has descriptors of its own
 * and shares nothing with the writer but the files, so it waits for no append and no sync.  What it
 * is asked for must have been appended before, and must not be trimmed. */
struct journal_reader;

/* where: as for journal_open(), which has it open; id: journal_id().  Errors: those of
 * journal_open(), with a complaint. */
enum journal_err journal_reader_open(const char *where, uint64_t id,
                                     struct journal_reader **out_reader, char *complaint);
void journal_reader_close(struct journal_reader **reader);
/* As journal_fetch(); what lies behind it is asked of the disk ahead.  Waits for the disk if the
 * system does not have the bytes in memory. */
enum journal_err journal_reader_fetch(struct journal_reader *reader, uint64_t at, void *out_body,
                                      size_t bytes);
/* Nothing below will be asked for: files that were trimmed are held open no longer. */
void journal_reader_forget(struct journal_reader *reader, uint64_t below);
/* About the last call that failed. */
const char *journal_reader_complaint(const struct journal_reader *reader);

#endif
