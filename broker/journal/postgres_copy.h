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

/* A broker that waits looks at each attempt to take the shard as long as it is behind, and then at
 * each COPY_FOLLOW_TRIES-th.  It reads no more at a look than a takeover may wait for: so many
 * bytes, and one answer more, and so many answers. */
enum {
    COPY_FOLLOW_TRIES = 10,
    COPY_FOLLOW_BYTES = 8 * 1024 * 1024,
    COPY_FOLLOW_ANSWERS = 64,
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
    /* Of the holder: called for each piece that was read.  0, or a negative errno, which ends the
     * reading.  NULL: not called. */
    int (*on_piece)(void *arg, uint64_t bytes);
    void *on_piece_arg;
};

/* Both are borrowed. */
void copy_init(struct postgres_copy *copy, struct store *store, struct disk *folder);
void copy_fini(struct postgres_copy *copy);

/* For a broker that waits, behind an attempt to take the shard that the server answered.  0, also
 * where the server answers no more, which the next attempt tells; or a negative errno of the cache,
 * with a sentence in `why` of the store. */
int copy_follow(struct postgres_copy *copy);

/* For the holder: reads all that is not here yet.  0; -EIO: the store does not answer; what
 * on_piece returned; or a negative errno of the cache. */
int copy_complete(struct postgres_copy *copy);
/* The files have the names that they have in the store, and the copy is the caller's.  0, or a
 * negative errno. */
int copy_hand_over(struct postgres_copy *copy);

#endif
