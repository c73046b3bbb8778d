/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_copy.h -- the copy of a shard's files in the directory that is its cache.
 *
 * A broker that waits for the shard follows the one that has it: it reads what is committed, a part
 * at a time.  So who takes the shard reads only what came since, and takes over as soon with a
 * large journal as with a small one.
 *
 * Why what was read before the shard was taken may be trusted: it was read in the session that took
 * it.  A server shows commits in their order, and undoes none that it showed while it runs.  What
 * takes the shard is confirmed by a quorum, and so is all that the server had before that.  Another
 * session may be with another server, which lacks what was read.  So then the copy is made anew.
 *
 * Names change while others write.  So each file has a name by its number here, until the shard is
 * taken and the copy is whole. */
#ifndef JOURNAL_POSTGRES_COPY_H
#define JOURNAL_POSTGRES_COPY_H

#include "broker/journal/postgres_store.h"

/* A broker that waits tries to take the shard every 50 ms (SPARE_POLL_MS).  As long as it is behind
 * it looks at each try.  A takeover waits for the end of a look, so that asks nothing more once it
 * has so many bytes, or so many answers. */
enum {
    COPY_FOLLOW_TRIES = 10, /* from look to look of who is not behind */
    COPY_FOLLOW_BYTES = 8 * 1024 * 1024,
    COPY_FOLLOW_ANSWERS = 64, /* of STORE_PIECES_AT_ONCE pieces each, if they are small */
};

struct copied {
    struct store_file file;  /* as it was listed last */
    struct store_place read; /* the last piece that was read */
    uint64_t room;           /* that was reserved */
    bool is_listed;          /* by the last list */
};

struct postgres_copy {
    struct store *store;
    struct disk *folder;
    uint64_t session; /* of the store that it was read in; 0: it has not begun */
    struct copied *files;
    size_t count;
    size_t capacity;
    unsigned tries;  /* since the last look of a follower that was not behind */
    bool is_behind;  /* the last look did not read all */
    bool has_failed; /* the cache did, not the store */
    int (*on_piece)(void *arg, uint64_t bytes); /* of copy_complete(); NULL: of a follower */
    void *on_piece_arg;
};

/* Both are borrowed. */
void copy_init(struct postgres_copy *copy, struct store *store, struct disk *folder);
void copy_fini(struct postgres_copy *copy);

/* For a broker that waits, behind an attempt to take the shard that the server answered.  0, also
 * where the server answers no more, which the next attempt tells; or a negative errno of the cache,
 * with a sentence in `why` of the store. */
int copy_follow(struct postgres_copy *copy);

/* For the holder: reads all that is not here yet, and calls on_piece for each piece.  0; -EIO: the
 * store does not answer; what on_piece returned, if that is not 0; or a negative errno of the
 * cache. */
int copy_complete(struct postgres_copy *copy, int (*on_piece)(void *arg, uint64_t bytes),
                  void *arg);
/* The files have the names that they have in the store, and the copy is the caller's.  0, or a
 * negative errno. */
int copy_hand_over(struct postgres_copy *copy);

#endif
