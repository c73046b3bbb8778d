/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_store.h -- one shard in PostgreSQL: its row, its files, and who may write to them.
 *
 * The tables, in the schema that the connection's search_path begins with:
 *
 *     errbus_meta    version                       of these tables
 *     errbus_shard   shard epoch seq holder session ends      one row a shard
 *     errbus_taken   shard epoch seq holder        who took it, and the number of the commit then
 *     errbus_file    shard file name bytes         the names of a shard, and their sizes
 *     errbus_piece_SHARD_FILE   seq at body        what was written to one file, in order
 *     errbus_job, errbus_endpoint                  the directory (directory.h)
 *
 * What holds it together:
 * - `epoch` is the fence.  Who takes the shard adds 1 to it, and waits until a quorum has that
 *   before it reads anything.  So all that it reads is on a quorum, too.
 * - Each commit is one transaction.  It ends with an update of the row, which finds the epoch, its
 *   holder, and the number of the commit before, or undoes the whole.
 * - A server that lacks the last epoch, and is promoted, gives that number to another holder.  So
 *   the holder is compared, too.
 * - Who was replaced looks at how many commits there were when the next epoch was taken.  If they
 *   are fewer than were confirmed to it, a server was promoted that lacks them.
 * - A commit of which the answer is missing, or came with a warning, is in doubt.  The row is then
 *   updated once more under the same epoch, and that update says by `seq` what became of it.
 * - A commit that was made under other settings than those that were looked at is in doubt, too.
 *   The server is then looked at again, and is away for as long as it keeps less than was promised.
 * - `ends` and `session` say only how soon another broker may take the shard.  Clocks keep nothing
 *   safe here.
 *
 * A file has its own table, which is dropped once it is gone.  So the database holds what the files
 * of the journal hold, and no row is ever deleted from a large table. */
#ifndef JOURNAL_POSTGRES_STORE_H
#define JOURNAL_POSTGRES_STORE_H

#include "broker/journal/disk.h"
#include "broker/journal/format.h"
#include "broker/journal/postgres_door.h"

#include <pthread.h>

enum {
    STORE_TERMS_CHARACTERS = 255, /* of STORE_TERMS */
    STORE_VERSION = 2,
    STORE_PIECE_BYTES = 256 * 1024,       /* of one row */
    STORE_PIECES_AT_ONCE = 1024,          /* rows of one answer, ... */
    STORE_ANSWER_BYTES = 8 * 1024 * 1024, /* ... until so many bytes are reached */
    STORE_EPOCHS_KEPT = 1000,             /* of which is known who took them */
};
/* A holder whose last sign is older than this may be replaced; one whose session with the server is
 * gone, after the shorter time.  Both only by a connection that is STORE_SETTLED_MS old: sessions
 * vanish when a standby is promoted, and the holder then needs time to connect again. */
enum { STORE_LEASE_MS = 6000, STORE_GONE_MS = 150, STORE_SETTLED_MS = 3000 };

/* What the server said of itself when it was connected to. */
struct store_found {
    int64_t version; /* 150005 is 15.5 */
    bool is_standby; /* it takes no writes */
    bool has_fsync;
    bool has_full_pages;  /* full_page_writes */
    char quorum[256];     /* synchronous_standby_names */
    unsigned confirming;  /* standbys that a commit waits for, by that setting */
    unsigned synchronous; /* standbys connected that may confirm one */
    unsigned hidden;      /* standbys of which this user may not see more */
    char terms[4 * STORE_TERMS_CHARACTERS + 1]; /* the settings that a commit depends on */
};
/* Each commit is made under the settings that were looked at, or not at all; each look brings them
 * along.  The door's check brings them along, too, as they are when no standby is waited for any
 * more.  A server that sets the quorum aside signals its sessions first, and then ends all waits.
 * So a commit whose wait was ended by that is noticed.  Neither costs a round trip. */
#define STORE_TERMS                                                                                \
    "left(current_setting('fsync') || ' ' || current_setting('full_page_writes') || ' ' ||"        \
    " current_setting('synchronous_standby_names'), 255)"

/* The first statement of what may find nothing to change.  A commit that changes nothing waits for
 * no standby.  A primary that was replaced, and is cut off, would answer with what it has. */
#define STORE_CONFIRM "SELECT pg_logical_emit_message(true, 'errbus', '')"

/* Why the store is away, for another thread. */
struct store_away {
    pthread_mutex_t lock;
    char why[DISK_COMPLAINT_BYTES]; /* "": it is not */
};

struct store {
    struct door *door;
    char *conninfo;
    unsigned shard;
    unsigned replicas; /* standbys that must confirm each commit */
    char holder[DISK_HOLDER_BYTES];
    struct store_found found;
    uint64_t epoch;   /* 0: not the holder */
    uint64_t seq;     /* of the last commit */
    uint64_t session; /* its number, among all that were begun; from 1 on */
    bool is_connected;
    bool is_fenced;
    char why[DISK_COMPLAINT_BYTES]; /* about the last failure */
    struct store_away away;
};

/* What a commit changes.  Statements stand in the order in which they were added. */
struct store_change {
    struct door_statement *statements;
    size_t count;
    size_t room;
    bool is_short; /* of memory: the commit fails */
    struct door_statement unsent;
};

/* The files as they are in the store. */
struct store_file {
    uint64_t number;
    char name[FORMAT_NAME_BYTES];
    uint64_t bytes;
    bool has_pieces;   /* it has a table */
    uint64_t filenode; /* of its table, of store_list(): another one if it was restored; 0: none */
};

/* A piece of a file; all 0: before the first one. */
struct store_place {
    uint64_t seq;
    uint64_t at;
};

/* The caller's memory.  door: taken over.  0, or -ENOMEM. */
int store_init(struct store *store, struct door **door, const char *conninfo, unsigned shard,
               unsigned replicas);
void store_fini(struct store *store);

/* Connects and looks whether the server keeps what was promised.  false: `why` says what it lacks,
 * and what to set. */
bool store_connect(struct store *store);
/* Makes the tables and the row where they are not there.  0, or a negative errno with `why`. */
int store_prepare(struct store *store);
/* Makes this process the holder.  0; -EWOULDBLOCK: another one holds it, or it cannot be told;
 * or a negative errno with `why`. */
int store_take(struct store *store);
/* Gives it up, so that another one need not wait. */
void store_release(struct store *store);

/* Visits the files of the shard.  0, or a negative errno. */
int store_list(struct store *store, int (*visit)(void *arg, const struct store_file *file),
               void *arg);
/* Visits the next pieces of a file behind a place, as many as one answer has, and moves it behind
 * each of them.  They come in the order in which they were written.  How many there were, of which
 * 0 means that there are no more; or a negative errno. */
int store_fetch(struct store *store, uint64_t file, struct store_place *place,
                int (*visit)(void *arg, uint64_t at, struct span body), void *arg);
/* Drops tables of this shard that belong to no file: a holder that ended left them. */
void store_sweep(struct store *store);
/* Drops the table of a file that is gone.  false: not now. */
bool store_drop(struct store *store, uint64_t file);

void store_change_init(struct store_change *change);
void store_change_fini(struct store_change *change);
void store_change_make(struct store_change *change, const struct store *store, uint64_t file);
void store_change_name(struct store_change *change, const struct store *store,
                       const struct store_file *file);
void store_change_remove(struct store_change *change, const struct store *store, uint64_t file);
/* body: borrowed until the commit; STORE_PIECE_BYTES at most. */
void store_change_write(struct store_change *change, const struct store *store, uint64_t file,
                        uint64_t at, struct span body);
/* All of it, or nothing; waits as long as the store is away.  0, -DISK_FENCED, -DISK_FORGOT,
 * -ECANCELED: it was given up; or another negative errno with `why`, behind which all fails. */
int store_commit(struct store *store, struct store_change *change);
/* Says that the holder is still there, and learns whether it still is.  As store_commit(). */
int store_keep(struct store *store);

/* [any] Why the store is away at the moment; "": it is not, or has not answered yet.  out: of
 * DISK_COMPLAINT_BYTES. */
void store_away(struct store *store, char *out);

/* Whether settings (STORE_TERMS) that came along with an answer are those that were looked at when
 * the server was connected to.  false: `why` says so. */
bool store_is_as_found(struct store *store, struct span terms);

/* How many standbys a setting of synchronous_standby_names lets a commit wait for. */
unsigned store_quorum(const char *setting);

#endif
