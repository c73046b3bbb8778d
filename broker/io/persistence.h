/* SPDX-License-Identifier: MPL-2.0 */
/* persistence.h -- between the port and the journal: writes what a step decided, and holds output
 * back until it is kept.
 *
 * How long a part waits depends on what it is (core_port.h) and on the durability that was asked
 * for:
 *
 *                      memory     process              disk
 *   outcomes         at once    in the log           in the log
 *   answers          at once    in the log           on the disk
 *   all else         at once    at once              at once
 *
 * "In the log" survives the end of the broker's process, "on the disk" the end of its machine. */
#ifndef IO_PERSISTENCE_H
#define IO_PERSISTENCE_H

#include "broker/io/core_port.h"
#include "broker/io/held_output.h"
#include "broker/io/journal_thread.h"

#include <stdbool.h>

enum { PERSISTENCE_SENTENCE_BYTES = JOURNAL_COMPLAINT_BYTES + 64 };

enum durability { DURABILITY_MEMORY, DURABILITY_PROCESS, DURABILITY_DISK, DURABILITY_COUNT };

struct persistence {
    enum durability durability;
    struct journal_thread *thread; /* NULL: nothing is kept */
    struct journal_reader *reader;
    struct held_output output;
    uint64_t ticket; /* of the newest step */
    struct journal_news news;
    const char *scheme;                   /* of the journal's disk */
    char place[LIMIT_ENDPOINT_BYTES];     /* its directory, for people */
    char reason[JOURNAL_COMPLAINT_BYTES]; /* what a status said was wrong */
    char sentence[PERSISTENCE_SENTENCE_BYTES];
    enum journal_state told; /* the state that persistence_has_changed() told last */
    uint64_t mark_ticket;    /* once it is kept, so are the first mark_steps of the core; 0: none */
    uint64_t mark_steps;
    uint64_t given_bytes;       /* into the journal, since the last checkpoint */
    uint64_t checkpoint_bytes;  /* of the last checkpoint */
    int64_t due_ns;             /* the next one, though few bytes came behind it */
    int64_t now_ns;             /* of the last persistence_hear() */
    uint64_t checkpoint_ticket; /* once that is logged, it is whole and what it frees is gone */
    uint64_t needed_from;       /* when it was made: the oldest payload that was wanted, */
    uint64_t first_end;         /* ... and where the oldest file ended that it had to let go */
    uint64_t snapshot_bytes;    /* of a checkpoint, when it was made or measured, */
    uint64_t noted_bytes;       /* ... and of facts since then */
    uint64_t measured_steps;    /* the port's, then */
    int64_t measure_ns;         /* and not again before this */
    bool is_moved;              /* what was in the way of the next one is written anew */
    uint64_t moved_from;        /* ... and stood here and behind; UINT64_MAX: nothing is moved */
    bool has_to_trim;           /* what the last one does not need is still to go, */
    int64_t trim_ns;            /* ... no later than this; INT64_MAX: it is not whole yet */
    uint64_t trimmed_below;     /* up to where the last trim that was given goes */
};

/* A checkpoint is made when so many bytes, and so many times its size, came behind the last one.
 * Where they come fast it has its time from that one, but for so many times as many bytes: nothing
 * else is let in while one is made.  On a full disk, as soon as it lets a segment go: that is where
 * room comes from. */
#define PERSISTENCE_CHECKPOINT_BYTES (UINT64_C(64) * 1024 * 1024)
enum {
    PERSISTENCE_CHECKPOINT_TIMES = 4,
    PERSISTENCE_CHECKPOINT_MS = 250,
    PERSISTENCE_HURRY_TIMES = 4
};
/* What lies before it goes not at once, but when so many bytes came behind it, or after so long: by
 * then most values that were on their way have arrived, and need no file of before any more.  On a
 * full disk, at once. */
#define PERSISTENCE_TRIM_BYTES (PERSISTENCE_CHECKPOINT_BYTES / 4)
enum { PERSISTENCE_TRIM_MS = 100 };
/* Before it, old values that hold much of the journal are written anew: as many as may wait at
 * once, and none of what came last, most of which will be gone with the next one. */
#define PERSISTENCE_MOVE_BYTES JOURNAL_THREAD_WAITING_BYTES
#define PERSISTENCE_RECENT_BYTES (2 * PERSISTENCE_CHECKPOINT_BYTES)

/* The reserve for a full disk, in sizes of a checkpoint: one for itself, one for what comes until
 * the next, two for errors. */
enum { PERSISTENCE_ASIDE_TIMES = 4 };
/* On a full disk room is kept for two of the checkpoints that let old files go, and a fourth of
 * what is set aside for what leads there: acknowledgements, and what the broker itself must
 * decide. */
enum { PERSISTENCE_WAY_OUT_SHARES = 4 };
/* What that checkpoint takes is measured no more often: it costs as much as to make it, 0.1 s with
 * a million slots pending. */
enum { PERSISTENCE_MEASURE_MS = 1000 };
/* A disk that is well may be full by the time at which what waits is written.  So a checkpoint has
 * half of what is set aside, values that wait have a fourth, all else an eighth: it finds room. */
enum { PERSISTENCE_VALUE_SHARES = 4, PERSISTENCE_FACT_SHARES = 8 };

/* Keeps nothing until persistence_start(). */
void persistence_init(struct persistence *persistence, struct memory *memory);
/* Takes the journal over, which is at this place and was replayed into the port; false: it is the
 * caller's still, and complaint, of JOURNAL_COMPLAINT_BYTES, says why. */
bool persistence_start(struct persistence *persistence, const char *where, struct journal **journal,
                       enum durability durability, struct core_port *port, char *complaint);
/* Writes what waits and closes the journal; what is held back is dropped. */
void persistence_fini(struct persistence *persistence);

/* Lets the port keep no more than so many bytes of values in memory: what is beyond is read back by
 * the thread that sends it, which waits for no sync.  And lets a status tell of the journal.
 * Before that is replayed. */
void persistence_lend(struct persistence *persistence, struct core_port *port,
                      uint64_t memory_bytes);
/* What the port's last call decided is on its way.  Before core_port_out(). */
void persistence_give(struct persistence *persistence, struct core_port *port);
/* Whether this part must wait: then it is taken over, and comes by persistence_next(). */
bool persistence_holds(struct persistence *persistence, struct core_port_out *out);
/* A part that has waited long enough, the caller's; false: none. */
bool persistence_next(struct persistence *persistence, struct held *out_held);
/* Hears what the journal thread has to tell.  Between two steps. */
void persistence_hear(struct persistence *persistence, struct core_port *port, int64_t now_ns);
/* By when persistence_hear() is to be called though the journal thread may have nothing to tell;
 * INT64_MAX: it need not be. */
int64_t persistence_deadline_ns(const struct persistence *persistence,
                                const struct core_port *port);
/* Whether more values may be let in: the journal keeps up, has room, and no checkpoint is due. */
bool persistence_has_room(const struct persistence *persistence);
/* Whether so much was decided since the last checkpoint that the next one is made before anything
 * else is let in, control too: while it finds its place in what is set aside. */
bool persistence_is_growing(const struct persistence *persistence);
/* Whether there is no room because the disk is full: it may last. */
bool persistence_is_full(const struct persistence *persistence);
/* Whether little is left of what is set aside on a full disk, or much waits to be written. */
bool persistence_is_short(const struct persistence *persistence);
/* Whether the journal's state is another than when this was asked last. */
bool persistence_has_changed(struct persistence *persistence);
enum journal_state persistence_state(const struct persistence *persistence);
/* A sentence about a state that is not well; stands until the next call. */
const char *persistence_complaint(const struct persistence *persistence);
/* What its state means for what comes, and why; UTF-8, and stands until the next call. */
const char *persistence_sentence(struct persistence *persistence);
/* Goes on towards a checkpoint if one is due: what is in its way is written anew, then it is made.
 */
void persistence_checkpoint(struct persistence *persistence, struct core_port *port);
/* Whether nothing waits to be said. */
bool persistence_is_quiet(const struct persistence *persistence);
int persistence_fd(
    const struct persistence *persistence); /* readable: persistence_hear(); -1: nothing is kept */

#endif
