/* SPDX-License-Identifier: MPL-2.0 */
/* journal.h -- where decided facts are kept, so that a broker can end and begin again.
 *
 * A journal is a sequence of records.  It holds what was decided (reserved, settled, lost,
 * acknowledged), never what was asked.  Each record has a position.  Positions grow, but not in
 * steps of one: take them from the calls.  A position finds its record without a search, as long as
 * the record is kept.
 *
 * The records stand in segments, files on a disk (layout.h).  The journal's name chooses the disk
 * (disk.h): "folder:PATH", or a path alone, is a directory of the file system.
 *
 * There is one writer at a time: the one with the lease.  The disk gives the lease, whose number
 * never falls.  An append under another lease is refused.  A broker that has lost the disk to
 * another one learns it when it syncs, at the latest (JOURNAL_FENCED), and writes nothing more.
 *
 * One thread at a time may call a journal.  Calls may wait for the disk, so the broker has a thread
 * for them.  That thread appends what is ready, syncs once, and reports (group commit). */
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
    JOURNAL_FENCED,   /* another owner has the lease */
    JOURNAL_DISK,     /* no disk has this scheme */
    JOURNAL_MEMORY,
    JOURNAL_LIMIT,   /* larger than a named limit */
    JOURNAL_FULL,    /* only what is set aside is left of the disk; nothing was appended */
    JOURNAL_IO,      /* the system refused; nothing was appended, all is as it was */
    JOURNAL_FAILED,  /* a sync failed: close the journal, and open it again */
    JOURNAL_DAMAGED, /* a record is missing or has changed */
    JOURNAL_FORMAT,  /* a newer version wrote it */
    JOURNAL_LOCKED,  /* another process has it */
    JOURNAL_MISSING, /* there is no journal, and may_create is not set */
};
const char *journal_strerror(enum journal_err err);

struct disk;
struct disk_shard;
struct journal;

struct journal_options {
    bool may_create;        /* a journal is made where there is none */
    uint64_t id;            /* of a new journal: a random number */
    uint64_t segment_bytes; /* of one file; 0: the default; LIMIT_JOURNAL_SEGMENT_BYTES_... */
    uint64_t first_bytes;   /* of the first file of a new journal, if it is smaller; then nothing is
                               set aside before the first append.  0: as all others */
    void (*on_record)(void *arg); /* NULL, or called for each record that is read while the journal
                                     is opened, which may take long */
    void *on_record_arg;
    bool is_lazy; /* only a flush or journal_sync() syncs: an append does not wait for the disk */
    const struct disk_shard *shard; /* of a disk with shards; else NULL */
    /* Called again and again while another process has the journal; false: nobody waits any more.
     * why: it cannot be told who has it, as a sentence; NULL: another one does.  NULL: it is not
     * waited for. */
    bool (*on_locked)(void *arg, const char *why);
    void *on_locked_arg;
};
/* What was found. */
struct journal_opened {
    bool is_new;          /* it was made */
    uint64_t cut_bytes;   /* behind the last whole batch: a crash left them half written */
    uint64_t cut_records; /* whole records in these bytes, of a batch that is not whole */
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
/* Syncs what it can.  To know whether it could, call journal_sync() before. */
void journal_close(struct journal **journal);

/* The scheme of its disk, and the disk's name for people. */
const char *journal_scheme(const struct journal *journal);
const char *journal_place(const struct journal *journal);
/* The directory that has its files, or a copy of them. */
const char *journal_folder(const struct journal *journal);
/* A name for journal_reader_open() that has the same files; NULL: the one it was opened by. */
const char *journal_files(const struct journal *journal);
/* Whether only a flush or a sync syncs, as asked for: not where there is no room for a proof. */
bool journal_is_lazy(const struct journal *journal);
/* Whether a journal of this name is on a disk with shards. */
bool journal_is_shared(const char *where);
/* Whether the owner must say that it is there, by journal_keep() or a sync, every DISK_KEEP_MS. */
bool journal_needs_keeping(const struct journal *journal);
/* Says so.  Errors: JOURNAL_FENCED, FAILED. */
enum journal_err journal_keep(struct journal *journal);
/* [any] A call that waits for another machine ends soon, and fails. */
void journal_give_up(struct journal *journal);
/* [any] Why the disk is away at the moment; "": it is not, or cannot tell.  out: of
 * JOURNAL_COMPLAINT_BYTES. */
void journal_away(const struct journal *journal, char *out);
/* The lease that journal_open() took. */
uint64_t journal_lease(const struct journal *journal);
/* Who has it: a text that no other owner had, where a lease may be given again; "". */
const char *journal_holder(const struct journal *journal);
/* The random number by which it was made. */
uint64_t journal_id(const struct journal *journal);
/* Positions of the oldest record that is kept, and of the next one at the earliest.  Positions may
 * be compared.  journal_between(), journal_back() and journal_ahead() compute with them. */
uint64_t journal_first(const struct journal *journal);
uint64_t journal_next(const struct journal *journal);
/* The records between two positions have at most so many bytes; 0 if `until` is not behind `from`.
 */
uint64_t journal_between(uint64_t from, uint64_t until);
/* A position from which the records up to `until` have at most so many bytes.  It lies before all
 * records if all have fewer. */
uint64_t journal_back(uint64_t until, uint64_t bytes);
/* A position behind all records that begin less than so many bytes behind `from`. */
uint64_t journal_ahead(uint64_t from, uint64_t bytes);
/* Bytes of records that are not on the disk yet. */
uint64_t journal_unsynced(const struct journal *journal);
/* Where the oldest file ends: a trim below this position removes nothing.  UINT64_MAX: no file can
 * go. */
uint64_t journal_first_end(const struct journal *journal);
/* The bytes of its files. */
uint64_t journal_bytes(const struct journal *journal);
/* Bytes for which there is room on the fullest disk, what is set aside included. */
uint64_t journal_room(const struct journal *journal);
/* So many of these bytes are set aside for essential records, and not in use yet. */
uint64_t journal_aside(const struct journal *journal);
/* Sets so many bytes aside, before the next append that is not essential.  That append is refused
 * (JOURNAL_FULL) as long as the disk has no room for them.  At least a segment, which is the
 * default, and at most LIMIT_JOURNAL_SEGMENT_BYTES_MAX. */
void journal_set_aside(struct journal *journal, uint64_t bytes);
/* All records below this position are on the disk. */
uint64_t journal_synced(const struct journal *journal);
/* Where a replay begins: at the newest whole checkpoint, or at journal_first() if there is none. */
uint64_t journal_start(const struct journal *journal);
/* Whether its disk lacks what it had confirmed.  Whoever opens it now goes on without that. */
bool journal_has_forgotten(const struct journal *journal);
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

/* Appends a batch of count > 0 records: all or none, also after a crash.  `at` must be what
 * journal_next() returns now, for a call that fails may move it.  The records survive the end of
 * this process at once, and the end of the machine once they are synced.  out_at: NULL, or room for
 * count positions, which are set on success.  Errors: JOURNAL_POSITION, FENCED, MEMORY, LIMIT,
 * FULL, IO, FAILED.  After FENCED and FAILED no append succeeds; after the others it may be tried
 * again. */
enum journal_err journal_append(struct journal *journal, uint64_t lease, uint64_t at,
                                const struct journal_record *records, size_t count, unsigned how,
                                uint64_t *out_at);
/* All below `until` is on the disk when it returns; at once if it is already.  Errors:
 * JOURNAL_POSITION (beyond the end), FENCED, FAILED. */
enum journal_err journal_sync(struct journal *journal, uint64_t until);
/* Records below `below` are not needed any more: segments with such records alone are removed.  The
 * call syncs first, so that what replaces them is on the disk.  A lazy journal removes them at the
 * next flush or sync.  A trim is a record, too, and moves journal_next().  Errors: JOURNAL_POSITION
 * (beyond the end), and those of journal_append(). */
enum journal_err journal_trim(struct journal *journal, uint64_t below);

/* ---- syncing beside the writer --------------------------------------------------------------- */

/* A sync in three steps.  Another thread may run the second step, which waits for the disk, while
 * this thread appends.  For lazy journals; others have nothing to flush.  There is one flush at a
 * time, and it must be ended before another call syncs or closes the journal. */
struct journal_flush;

/* Begins to flush what was appended so far.  *out_flush NULL: it is on the disk already.  Errors:
 * FAILED; and JOURNAL_MEMORY, FULL, IO, after which it may be tried again. */
enum journal_err journal_flush_begin(struct journal *journal, struct journal_flush **out_flush);
/* The same for a sync of what is promised at once: it writes no proof where the records say enough,
 * and so is one sync of the disk instead of two. */
enum journal_err journal_sync_begin(struct journal *journal, struct journal_flush **out_flush);
/* The second step, on any thread. */
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

/* The next record of the caller from `at` on, which is a position between records.  Fast when the
 * calls follow the records.  Errors: JOURNAL_END, MEMORY, IO, DAMAGED. */
enum journal_err journal_read(struct journal *journal, uint64_t at,
                              struct journal_found *out_found);
/* Reads the body of the record at exactly this position, with one read.  The caller knows its size.
 * out_body NULL: only checks that it is there.  Errors: JOURNAL_END, IO; DAMAGED, also if no record
 * of this size is there. */
enum journal_err journal_fetch(struct journal *journal, uint64_t at, void *out_body, size_t bytes);

/* ---- reading beside the writer --------------------------------------------------------------- */

/* Reads bodies on another thread than the journal's.  A reader has its own descriptors and shares
 * only the files with the writer, so it waits for no append and no sync.  It may be asked for
 * records that were appended before and not trimmed. */
struct journal_reader;

/* Of a journal that is open: `where` as for journal_open(), `id` from journal_id().  Errors: those
 * of journal_open(), with a complaint. */
enum journal_err journal_reader_open(const char *where, uint64_t id,
                                     struct journal_reader **out_reader, char *complaint);
void journal_reader_close(struct journal_reader **reader);
/* As journal_fetch(), and reads ahead.  Waits for the disk if the bytes are not in memory. */
enum journal_err journal_reader_fetch(struct journal_reader *reader, uint64_t at, void *out_body,
                                      size_t bytes);
/* Nothing below will be asked for: the reader closes files that were trimmed. */
void journal_reader_forget(struct journal_reader *reader, uint64_t below);
/* About the last call that failed. */
const char *journal_reader_complaint(const struct journal_reader *reader);

#endif
