/* SPDX-License-Identifier: MPL-2.0 */
/* sharding.h -- what a broker does whose journal is one shard of several: it tells the directory
 * where it is, serves the jobs that are on its shard, and sends the clients of other jobs to the
 * broker that has them.
 *
 * A greeting that names a job waits until it is known where the job is (shard_jobs.h), and so does
 * an operator's question about a job that this broker does not have.  A thread asks the directory
 * (directory_thread.h).  Without shards there is no thread, and nothing waits.
 *
 * A journal may have a job that is assigned to another shard: both had one of that name before
 * there was a directory.  Sessions that are here resume, and whoever comes new is sent there. */
#ifndef IO_SHARDING_H
#define IO_SHARDING_H

#include "broker/io/authentication.h"
#include "broker/io/config.h"
#include "broker/io/core_port.h"
#include "broker/io/directory_thread.h"
#include "broker/io/peers.h"
#include "broker/io/persistence.h"
#include "broker/io/shard_jobs.h"

#include <stdbool.h>

/* How often the broker looks for jobs that nobody uses any more. */
enum { SHARDING_REVIEW_MS = 5000 };

struct sharding {
    struct shard_jobs jobs;
    struct directory_thread *thread; /* NULL: there are no shards */
    unsigned shard;
    uint64_t epoch; /* of the owner of the journal, and its name */
    char holder[DISK_HOLDER_BYTES];
    const struct authentication *authentication;
    const struct core_port *port;
    bool is_begun;     /* the directory knows of this broker and its jobs */
    int64_t review_ns; /* when jobs are looked at next */
    /* of the answer that is being carried out */
    struct directory_answer answer;
    bool has_answer;
    /* of the last list: what SHARDS is told */
    struct directory_place *places;
    struct event_shard *rows;
    struct event_shards list;
};

void sharding_init(struct sharding *sharding, struct memory *memory);
void sharding_fini(struct sharding *sharding);

/* Learns who owns the journal, before the loop takes it over.  NULL: there is none. */
void sharding_see(struct sharding *sharding, const struct journal *journal);

/* What may be missing. */
#define SHARDING_LACKS                                                                             \
    "too little memory, or no address for clients: name one with --advertise-control"
/* Begins, if the journal has shards; after the replay.  control: where the control
 * channel listens.  false: something is missing. */
bool sharding_begin(struct sharding *sharding, const struct config *config,
                    const struct authentication *authentication, const char *control,
                    struct core_port *port);

/* Whether this message from the control channel waits; then a copy of it is kept.  false: it is for
 * the core.  If there is no room for it, it is dropped, and its peer is not heard any more. */
bool sharding_holds(struct sharding *sharding, const struct core_port *port, struct peer *peer,
                    struct span said);

/* A message that waited. */
struct sharding_out {
    const struct peer *peer;
    struct buffer *part; /* the caller's */
    bool is_answer;      /* the part goes to the peer; otherwise it is for the core */
    bool is_over;        /* ... and the connection is over */
};
/* The next one whose peer is still there; false: none. */
bool sharding_next(struct sharding *sharding, struct peers *peers, struct sharding_out *out);
void sharding_drop(struct sharding *sharding, conn_id conn);

/* Now and then: tells the directory of jobs that are gone. */
void sharding_review(struct sharding *sharding, const struct core_port *port,
                     const struct persistence *persistence);
int64_t sharding_due_ns(const struct sharding *sharding);
int sharding_fd(const struct sharding *sharding); /* readable: sharding_next(); -1: never */

#endif
