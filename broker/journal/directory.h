/* SPDX-License-Identifier: MPL-2.0 */
/* directory.h -- the directory of a store with several shards: which job is on which shard, and
 * where clients find the broker of each shard.
 *
 *     errbus_job        job shard              one row for each job that is somewhere
 *     errbus_endpoint   shard epoch control    where the last holder of the shard said that it is
 *
 * A job belongs to the shard whose broker is asked to open it first.  No broker knows the load of
 * the others, and a job never moves, so the order in which clients name the brokers spreads them.
 *
 * The directory has a connection of its own.  So a question waits for no value that is being
 * committed.  All calls wait for the server: they are for a thread of their own. */
#ifndef JOURNAL_DIRECTORY_H
#define JOURNAL_DIRECTORY_H

#include "broker/journal/disk.h"
#include "libbus/base/limits.h"

struct directory;

enum { DIRECTORY_NAMES_CHARACTERS = 100, DIRECTORY_NAMES_BYTES = 401 };

/* A shard, and the control endpoint of its broker; "": none has said where it is. */
struct directory_place {
    unsigned shard;
    char endpoint[LIMIT_ENDPOINT_BYTES + 1];
};

/* Who asks: the owner of the journal. */
struct directory_asker {
    uint64_t epoch;     /* its lease */
    const char *holder; /* borrowed until directory_open() returns */
};
/* where: the name of the journal.  Connects when it is asked.  NULL: no memory. */
struct directory *directory_open(const char *where, const struct disk_shard *shard,
                                 const struct directory_asker *asker);
void directory_close(struct directory **directory);

/* All of these return 0; -EAGAIN: not now, and directory_why() says why; -EACCES: the server
 * refuses it, and will until somebody mends what directory_why() says; -DISK_FENCED: another broker
 * has the shard; or -ECANCELED. */

/* What became of the jobs of a journal. */
struct directory_begun {
    char *ours;      /* assigned to this shard: their names with '/' between; the caller's */
    unsigned others; /* so many are assigned to other shards, and stay so */
    char names[DIRECTORY_NAMES_BYTES]; /* of these, for people, as far as there is room */
};
/* Says where this broker is, and which jobs its journal has: their names with '/' between.  What
 * else was assigned to the shard is not any more. */
int directory_begin(struct directory *directory, const char *control, const char *jobs,
                    struct directory_begun *out);
/* Where a job is.  If it is nowhere, it is assigned to this shard, and that is as durable as a
 * commit of the journal. */
int directory_assign(struct directory *directory, const char *job, struct directory_place *out);
/* The same, but nothing is assigned: a job that is nowhere would be on this shard. */
int directory_look(struct directory *directory, const char *job, struct directory_place *out);
/* The job is on this shard no more. */
int directory_leave(struct directory *directory, const char *job);
/* The shards whose brokers said where they are, by their numbers; `room` of them at most. */
int directory_list(struct directory *directory, struct directory_place *places, size_t room,
                   size_t *out_count);

const char *directory_why(const struct directory *directory);
/* Lets some time pass before the next attempt. */
void directory_rest(struct directory *directory);
/* [any] A call that waits for the server ends soon, with -ECANCELED. */
void directory_give_up(struct directory *directory);

/* The same through this door, which it takes over. */
struct door;
struct directory *directory_open_door(struct door **door, const char *conninfo,
                                      const struct disk_shard *shard,
                                      const struct directory_asker *asker);

#endif
