/* SPDX-License-Identifier: MPL-2.0 */
/* journal_thread.h -- the journal's own thread: the loop gives it what was decided, and hears how
 * far that is kept.  So the loop waits for no disk.
 *
 * What one step decided goes in together, under a ticket: 1, 2, 3 and so on.  The thread takes all
 * that waits, appends it at once, tells that it is logged (it survives the end of this process),
 * and, if that is wanted, syncs once for all of it and tells that it is synced (it survives the end
 * of the machine): group commit.
 *
 * A lazy journal (journal.h) is synced by a second thread, while the first goes on appending.  So
 * what is given is in the log soon, however long a sync takes, and whoever waits for the log alone
 * (at `disk` an error for its reader) waits for no sync.  A few bytes are synced by the first
 * thread where nothing waits and no bulk is about: to hand them over would take about as long.
 *
 * Where only the end of the process is to be survived, nothing is synced as it comes.  The second
 * thread flushes now and then: after a trim, for then the least is to be written, and no later than
 * JOURNAL_THREAD_FLUSH_MS after something came.
 * So the machine's end costs about a second, and values that were taken meanwhile mostly never
 * reach the disk.  Appending waits for the disk only if JOURNAL_THREAD_UNSYNCED_BYTES are on their
 * way to it.
 *
 * What was decided cannot be taken back.  When the disk is full, steps are written into the room
 * set aside for essential records, and the news say so: the core lets nothing new in meanwhile.
 * Room is set aside for more than may wait here (JOURNAL_THREAD_WAITING_BYTES), so what was decided
 * before that finds place.  When the system refuses to write, what waits is tried again and again;
 * until then nothing more is said to be kept.  When a sync failed it is over (journal.h).
 *
 * On a disk that several machines share (JOURNAL_PACE_SHARED) readers wait for the sync, too.  So
 * it is never put off for what came meanwhile: whatever is given waits for two syncs at most.  A
 * lazy journal is synced beside the appends there as well.  One that is not, as in PostgreSQL, is
 * written and synced in turns.  Where a sync follows at once, the loop is told of that alone.  A
 * write that is refused there is the end.  The disk was taken away from this machine, and a broker
 * on another one can go on. */
#ifndef IO_JOURNAL_THREAD_H
#define IO_JOURNAL_THREAD_H

#include "broker/journal/journal.h"
#include "libbus/base/buffer.h"
#include "libbus/base/histogram.h"

#include <stdbool.h>
#include <stdint.h>

/* From so many waiting bytes on the loop reads no more data. */
#define JOURNAL_THREAD_WAITING_BYTES (UINT64_C(8) * 1024 * 1024)
/* Records of one step, and of all steps that are written at once. */
enum { JOURNAL_THREAD_RECORDS = 4096 };
/* A record without content, written to see whether there is room again, or whether the journal is
 * still ours; a replay skips it.  It takes the bytes of a record's head (FORMAT_RECORD_BYTES). */
enum { JOURNAL_THREAD_KIND_PROBE = JOURNAL_KIND_MAX, JOURNAL_THREAD_PROBE_BYTES = 24 };
/* Of a lazy journal that is synced as it comes: from so many bytes on the second thread syncs, and
 * so does it for this time behind them, when more of them is likely. */
#define JOURNAL_THREAD_SYNC_BYTES (UINT64_C(64) * 1024)
enum { JOURNAL_THREAD_BULK_MS = 100 };
/* Of a journal that is not synced as it comes. */
enum { JOURNAL_THREAD_FLUSH_MS = 1000 };
#define JOURNAL_THREAD_FLUSH_BYTES (UINT64_C(128) * 1024 * 1024) /* when there is a trim */
#define JOURNAL_THREAD_UNSYNCED_BYTES (UINT64_C(1024) * 1024 * 1024)
/* A batch of this size is part of a stream.  To wake up for each value costs more than to write it.
 * So such a journal waits until as much again is there, or for this time. */
#define JOURNAL_THREAD_STREAM_BYTES (UINT64_C(256) * 1024)
enum { JOURNAL_THREAD_STREAM_US = 200 };
/* On a disk of which several machines are owners in turn, an idle owner says so often that it is
 * there (DISK_KEEP_MS). */
enum { JOURNAL_THREAD_KEEP_MS = 500 };
/* A thread that is closed does not wait longer than this for another machine. */
enum { JOURNAL_THREAD_LEAVE_MS = 500 };
/* How often a full disk is checked again, and a refused write is tried again. */
enum { JOURNAL_THREAD_AGAIN_MS = 200 };

/* What one step decided; one block from journal_step_new(), which the journal thread frees. */
struct journal_step {
    struct journal_step *next;
    uint64_t ticket;
    uint64_t steps;         /* the caller's: with it all is given that so many steps decided */
    uint64_t key;           /* the caller's name for the payload */
    struct buffer *payload; /* a reference, or NULL: the body of the first record */
    uint64_t payload_at;    /* where in the journal it is, once it is logged */
    unsigned how;           /* JOURNAL_CHECKPOINT_..., or 0 */
    uint64_t aside;         /* with CHECKPOINT_END: bytes to be set aside from then on */
    bool is_trim;           /* once it is written, what lies before the checkpoint goes, */
    uint64_t needed_from;   /* ... but for payloads from here on, which are needed still */
    uint64_t bytes;
    uint8_t *body; /* where the next body goes */
    size_t count;
    struct journal_record records[];
};

enum journal_state {
    JOURNAL_IS_WELL,
    JOURNAL_IS_FULL,    /* only what is essential may be decided */
    JOURNAL_IS_REFUSED, /* the system refuses to write; it is tried again */
    JOURNAL_IS_FAILED,  /* it is over: this process must end */
};
struct journal_news {
    uint64_t logged;       /* the newest ticket that is in the log */
    uint64_t synced;       /* ... on the disk */
    uint64_t logged_steps; /* the same as journal_step.steps */
    uint64_t synced_steps;
    uint64_t first;     /* positions: of the oldest record that is kept, */
    uint64_t start;     /* where its newest whole checkpoint begins, or as first, */
    uint64_t next;      /* where the journal ends, */
    uint64_t on_disk;   /* and what lies below is on the disk */
    uint64_t bytes;     /* of its files */
    uint64_t first_end; /* what lies below holds its oldest file; UINT64_MAX: it has but one */
    uint64_t room;      /* bytes it can take on the fullest disk, */
    uint64_t aside;     /* ... and what of it was set aside when there was room */
    enum journal_state state;
    bool has_forgotten; /* and failed by that: see journal_has_forgotten() */
};

struct journal_thread;

enum journal_pace {
    JOURNAL_PACE_LAZY,   /* it is flushed now and then, and synced when it closes */
    JOURNAL_PACE_SYNCED, /* all is synced as it comes, but nothing waits for that to be written */
    JOURNAL_PACE_SHARED, /* all waits for its sync.  Not lazy: that comes before more is written */
};

/* Takes the journal over.  NULL: no memory, threads or descriptors, and the journal is the caller's
 * still. */
struct journal_thread *journal_thread_open(struct journal **journal, enum journal_pace pace);
/* Writes what waits, syncs, closes the journal; what is refused is given up. */
void journal_thread_close(struct journal_thread **thread);

/* All below: the loop's thread. */

/* A step with room for count records; their bodies are copied by journal_step_add().  NULL: no
 * memory. */
struct journal_step *journal_step_new(size_t count, size_t body_bytes);
void journal_step_add(struct journal_step *step, uint16_t kind, struct span body);
/* The same, for the caller to write the body. */
uint8_t *journal_step_body(struct journal_step *step, uint16_t kind, size_t bytes);
/* A payload, whose bytes are not copied; before any other record. */
void journal_step_payload(struct journal_step *step, uint16_t kind, uint64_t key,
                          struct buffer *payload);
/* Takes the step over; its ticket. */
uint64_t journal_thread_give(struct journal_thread *thread, struct journal_step **step);
/* Whether less than JOURNAL_THREAD_WAITING_BYTES wait. */
bool journal_thread_has_room(struct journal_thread *thread);
uint64_t journal_thread_waiting_bytes(struct journal_thread *thread);
/* Bytes for which there is room on the fullest disk, when all that waits is written. */
uint64_t journal_thread_room(struct journal_thread *thread);
/* Readable when the news have changed; journal_thread_news() makes it unreadable. */
int journal_thread_fd(const struct journal_thread *thread);
struct journal_news journal_thread_news(struct journal_thread *thread);
/* When the last call began after which the journal was known to be ours still; INT64_MAX: nobody
 * else can have it. */
int64_t journal_thread_kept_ns(struct journal_thread *thread);
/* As journal_away(). */
void journal_thread_away(const struct journal_thread *thread, char *out);
/* How long the appends took. */
void journal_thread_writes(struct journal_thread *thread, struct histogram *out_writes);
/* A step with a payload that is logged now, and whose ticket is at most `until`; the caller's to
 * free.  NULL: no more. */
struct journal_step *journal_thread_logged(struct journal_thread *thread, uint64_t until);
void journal_step_free(struct journal_step **step);
/* A sentence about what is refused or failed; stands until the next call. */
const char *journal_thread_complaint(struct journal_thread *thread);

#endif
