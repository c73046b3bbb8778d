/* SPDX-License-Identifier: MPL-2.0 */
/* persistence.h -- between the port and the journal: writes what a step decided, and holds output
 * back until it is kept.
 *
 * What a part waits for depends on its kind (core_port.h) and on the durability of the broker:
 * durability.h has the table. */
#ifndef IO_PERSISTENCE_H
#define IO_PERSISTENCE_H

#include "broker/io/clock.h"
#include "broker/io/core_port.h"
#include "broker/io/durability.h"
#include "broker/io/held_output.h"
#include "broker/io/journal_thread.h"

#include <stdbool.h>

enum { PERSISTENCE_SENTENCE_BYTES = JOURNAL_COMPLAINT_BYTES + 64 };

struct persistence {
    enum durability durability;
    struct journal_thread *thread; /* NULL: nothing is kept */
    struct journal_reader *reader;
    struct held_output output;
    uint64_t ticket;   /* of the newest step, */
    bool is_noted;     /* ... which is of the port's last call, or behind it */
    uint64_t at_steps; /* the port's steps at its last call */
    struct journal_news news;
    bool is_answer_first;                 /* see persistence_next() */
    const char *scheme;                   /* of the journal's disk */
    char place[LIMIT_ENDPOINT_BYTES];     /* its directory, for people */
    char reason[JOURNAL_COMPLAINT_BYTES]; /* what a status said was wrong */
    char sentence[PERSISTENCE_SENTENCE_BYTES];
    enum journal_state told;    /* the state that persistence_has_changed() told last */
    uint64_t kept_steps;        /* of the core, as it was told last */
    uint64_t given_bytes;       /* into the journal, since the last checkpoint */
    uint64_t checkpoint_bytes;  /* of the last checkpoint */
    int64_t due_ns;             /* of the next checkpoint, even if few bytes came since */
    int64_t now_ns;             /* of the last persistence_hear() */
    uint64_t checkpoint_ticket; /* when it is logged, the last checkpoint is whole */
    uint64_t needed_from;       /* the oldest payload that was wanted at the last checkpoint */
    uint64_t first_end;         /* where the oldest file ended that it had to free */
    uint64_t snapshot_bytes;    /* of a checkpoint, when it was last made or measured */
    uint64_t noted_bytes;       /* of facts since then */
    uint64_t measured_steps;    /* steps of the port at that time */
    int64_t measure_ns;         /* not measured again before this time */
    bool is_moved;              /* old values that keep files from being freed are written again */
    bool is_chosen;             /* which of them are, for the next checkpoint: */
    uint64_t move_from;         /* the oldest wanted value when they were chosen */
    uint64_t move_below;        /* those that lie below this place */
    uint32_t move_next;         /* the next of them: see core_port_move() */
    uint64_t move_ticket;       /* when it is logged, so are all that were given */
    uint64_t part_at_bytes;     /* given_bytes when the last part was given */
    uint64_t moved_from;        /* the first place where such values were; UINT64_MAX: none */
    bool has_to_trim;           /* what the last checkpoint made needless is still there */
    int64_t trim_ns;            /* it goes by this time; INT64_MAX: the checkpoint is not whole */
    uint64_t trimmed_below;     /* the position of the last trim */
};

/* A checkpoint is due when at least ..._BYTES, and ..._TIMES the size of the last one, came behind
 * that one.  Nothing else is let in while a checkpoint is made.  So where bytes come fast, ..._MS
 * must pass between two, unless ..._HURRY_TIMES as many bytes came.  On a full disk one is made as
 * soon as it frees a segment. */
#define PERSISTENCE_CHECKPOINT_BYTES (UINT64_C(64) * 1024 * 1024)
enum {
    PERSISTENCE_CHECKPOINT_TIMES = 4,
    PERSISTENCE_CHECKPOINT_MS = 250,
    PERSISTENCE_HURRY_TIMES = 4
};
/* What lies before a checkpoint goes when so many bytes came behind the checkpoint, or after so
 * long.  By then most values that were on their way have arrived, and need no older file.  On a
 * full disk it goes at once. */
#define PERSISTENCE_TRIM_BYTES (PERSISTENCE_CHECKPOINT_BYTES / 4)
enum { PERSISTENCE_TRIM_MS = 100 };
/* Before a checkpoint, old values that keep many files of the journal are written again: as many as
 * may wait at once, at most.  The newest bytes are left, because most of their values will be gone
 * by the next checkpoint: ..._TIMES all that is wanted, from ..._MIN to ..._MAX. */
#define PERSISTENCE_MOVE_BYTES JOURNAL_THREAD_WAITING_BYTES
enum { PERSISTENCE_RECENT_TIMES = 8 };
#define PERSISTENCE_RECENT_MIN (2 * PERSISTENCE_CHECKPOINT_BYTES)
#define PERSISTENCE_RECENT_MAX (8 * PERSISTENCE_CHECKPOINT_BYTES)
/* Nothing is let in while a checkpoint is due.  To write 8 MiB to a database then kept all that was
 * published waiting for 40 ms.  So old values come in parts beside what is new, from the moment at
 * which one of ..._SHARES is left of the way to a checkpoint.  A part has ..._PART_BYTES, or one of
 * ..._RATIO bytes that came since the last part if that is more.  What is left when the checkpoint
 * is due comes at once. */
enum { PERSISTENCE_MOVE_SHARES = 4, PERSISTENCE_MOVE_RATIO = 2 };
#define PERSISTENCE_MOVE_PART_BYTES (UINT64_C(256) * 1024)

/* The reserve for a full disk, in sizes of a checkpoint: one for itself, one for what comes until
 * the next, two for errors. */
enum { PERSISTENCE_ASIDE_TIMES = 4 };
/* On a full disk, room is kept for two checkpoints that free old files.  A fourth of what is set
 * aside is for what leads to them: acknowledgements, and what the broker itself must decide. */
enum { PERSISTENCE_WAY_OUT_SHARES = 4 };
/* The size of such a checkpoint is measured no more often: it costs as much as to make it, 0.1 s
 * with a million slots pending. */
enum { PERSISTENCE_MEASURE_MS = 1000 };
/* A disk that has room may be full when what waits is written.  So of what is set aside, half is
 * for a checkpoint, a fourth for values that wait, and an eighth for all else. */
enum { PERSISTENCE_VALUE_SHARES = 4, PERSISTENCE_FACT_SHARES = 8 };

/* So many bytes are moved before a checkpoint where so many are set aside.  They wait as values do,
 * and the disk may be full by then. */
uint64_t persistence_movable_bytes(uint64_t aside);
/* The newest so many bytes of the journal are left as they are where so many are wanted in all. */
uint64_t persistence_recent_bytes(uint64_t wanted_bytes);

/* Less than the time after which another broker takes over a shard (STORE_LEASE_MS), and less than
 * the resume window of parties. */
enum { PERSISTENCE_MUTE_MS = 4000 };

/* Whether a broker whose journal was its own at kept_ns, for the last time that it knows of, must
 * be mute. */
static inline bool persistence_is_too_late(int64_t kept_ns, int64_t now_ns)
{
    return now_ns - PERSISTENCE_MUTE_MS * INT64_C(1000000) > kept_ns;
}

/* Keeps nothing until persistence_start(). */
void persistence_init(struct persistence *persistence, struct memory *memory);
/* Takes over the journal at this place, which was replayed into the port.  false: it is still the
 * caller's, and complaint, of JOURNAL_COMPLAINT_BYTES, says why. */
bool persistence_start(struct persistence *persistence, const char *where, struct journal **journal,
                       enum durability durability, struct core_port *port, char *complaint);
/* Writes what waits and closes the journal; what is held back is dropped. */
void persistence_fini(struct persistence *persistence);

/* To be called before the replay.  The port keeps at most so many bytes of values in memory; the
 * thread that sends the others reads them back, and waits for no sync.  A status tells of the
 * journal from here on. */
void persistence_lend(struct persistence *persistence, struct core_port *port,
                      uint64_t memory_bytes);
/* Gives the journal thread what the port's last call decided.  Before core_port_out(). */
void persistence_give(struct persistence *persistence, struct core_port *port);
/* Whether this part must wait: then it is taken over, and comes by persistence_next(). */
bool persistence_holds(struct persistence *persistence, struct core_port_out *out);
/* A part that has waited long enough, the caller's; false: none. */
bool persistence_next(struct persistence *persistence, struct held *out_held);
/* Hears what the journal thread has to tell.  Between two steps. */
void persistence_hear(struct persistence *persistence, struct core_port *port, int64_t now_ns);
/* persistence_hear() must be called by then, also without news from the journal thread; INT64_MAX:
 * it need not be. */
int64_t persistence_deadline_ns(const struct persistence *persistence,
                                const struct core_port *port);
/* Whether more values may be let in: the journal keeps up, has room, and no checkpoint is due. */
bool persistence_has_room(const struct persistence *persistence);
/* Whether so much was decided since the last checkpoint that the next one must be made first,
 * before even control messages are let in.  It still fits into what is set aside. */
bool persistence_is_growing(const struct persistence *persistence);
/* Whether there is no room because the disk is full.  That may last. */
bool persistence_is_full(const struct persistence *persistence);
/* Whether little is left of what is set aside on a full disk, or much waits to be written. */
bool persistence_is_short(const struct persistence *persistence);
/* Reports each change of the journal once: in the log, and to the taps of all jobs.  true: the port
 * has effects.  A journal that cannot be written any more ends the broker, which says nothing more
 * to anybody. */
bool persistence_report(struct persistence *persistence, struct core_port *port,
                        struct clock *clock);
/* The same while the broker must say nothing: logs that the journal failed, which ends the broker.
 * Any other change is reported by the next persistence_report(). */
void persistence_report_end(struct persistence *persistence);
/* Whether the journal's state is another than when this was asked last. */
bool persistence_has_changed(struct persistence *persistence);
enum journal_state persistence_state(const struct persistence *persistence);
/* Nothing more can be written. */
static inline bool persistence_has_failed(const struct persistence *persistence)
{
    return persistence->news.state == JOURNAL_IS_FAILED;
}
/* ... for the store lacks what it had confirmed. */
static inline bool persistence_has_forgotten(const struct persistence *persistence)
{
    return persistence_has_failed(persistence) && persistence->news.has_forgotten;
}
/* A sentence about a state that is not well; stands until the next call. */
const char *persistence_complaint(const struct persistence *persistence);
/* What its state means for what comes, and why; UTF-8, and stands until the next call. */
const char *persistence_sentence(struct persistence *persistence);
/* If a checkpoint is due: writes old values again that keep files from being freed, then makes it.
 * If one is near, writes some of them again. */
void persistence_checkpoint(struct persistence *persistence, struct core_port *port);
/* Gives what METRICS says of the journal; without one it says nothing. */
void persistence_tell(const struct persistence *persistence, struct metric_figures *out);
/* Whether the journal may be another broker's by now: it was not known to be ours for
 * PERSISTENCE_MUTE_MS.  Then nobody is answered (mute.h). */
bool persistence_is_mute(const struct persistence *persistence, int64_t now_ns);
/* Why the store of the journal is away; "": it is not, or cannot tell.  out: of
 * JOURNAL_COMPLAINT_BYTES, as UTF-8. */
void persistence_away(const struct persistence *persistence, char *out);
/* Whether no output is held back. */
bool persistence_is_quiet(const struct persistence *persistence);
int persistence_fd(
    const struct persistence *persistence); /* readable: persistence_hear(); -1: nothing is kept */

#endif
