/* SPDX-License-Identifier: MPL-2.0 */
/* shard_jobs.h -- which jobs are on this broker's shard, and the greetings that wait to learn it.
 *
 * Pure: the greeting of a job that is not known here waits.  The directory is asked once for all
 * that wait for the same job.  What it says about a job of ours holds as long as this broker has
 * the shard, for nobody else takes such a job away.  What it says about any other job is forgotten
 * at once, for that job may be gone the next time.
 *
 * A job of ours that nobody uses any more leaves.  A journal that has its end comes first:
 * otherwise the next broker of this shard could find the job in its journal, while it is another
 * shard's. */
#ifndef IO_SHARD_JOBS_H
#define IO_SHARD_JOBS_H

#include "broker/core/tables/event.h"
#include "libbus/base/buffer.h"
#include "libbus/base/map.h"
#include "libbus/base/memory.h"

#include <stdbool.h>
#include <stdint.h>

/* Greetings that wait, their bytes, and jobs that are known.  A greeting beyond that is dropped:
 * its client comes again. */
enum { SHARD_WAITING_MAX = 4096, SHARD_WAITING_BYTES = 8 * 1024 * 1024, SHARD_JOBS_MAX = 16384 };

struct shard_job {
    char *name; /* NULL: this place is free */
    uint32_t name_bytes;
    bool is_ours;         /* otherwise the directory is being asked */
    uint64_t unused_step; /* of the core, at which it was found unused; 0: it was not */
};

struct shard_greeting {
    conn_id conn;
    uint32_t job;        /* its place */
    struct buffer *part; /* as it came */
};

struct shard_jobs {
    struct memory *memory;
    struct name_map names; /* to places in jobs */
    struct shard_job *jobs;
    uint32_t used, room;
    struct shard_greeting *waiting; /* in the order in which they came */
    uint32_t waiting_count, waiting_room;
    size_t waiting_bytes;
};

void shard_jobs_init(struct shard_jobs *jobs, struct memory *memory);
void shard_jobs_fini(struct shard_jobs *jobs);

/* A job of ours.  One that the directory is being asked for is so when it says that.  false: no
 * memory, or no room. */
bool shard_jobs_add(struct shard_jobs *jobs, struct span name);

enum shard_word {
    SHARD_IS_OURS, /* the greeting is for the core */
    SHARD_ASK,     /* it waits, and the directory is to be asked for the job */
    SHARD_WAIT,    /* it waits */
    SHARD_DROP,    /* there is no room for it, or one of this connection waits already */
};
/* What to do with a greeting that names a job.  A copy of part is kept. */
enum shard_word shard_jobs_greet(struct shard_jobs *jobs, conn_id conn, struct span name,
                                 struct span part);
/* The directory says whether the job is ours. */
void shard_jobs_told(struct shard_jobs *jobs, struct span name, bool is_ours);
/* The next greeting for which the directory's word came, in order; its part is the caller's.
 * is_ours: it is for the core; otherwise it is to be refused.  false: none.  To be called until
 * then, behind each shard_jobs_told(). */
bool shard_jobs_next(struct shard_jobs *jobs, struct span name, conn_id *out_conn,
                     struct buffer **out_part);
/* The connection is gone. */
void shard_jobs_drop(struct shard_jobs *jobs, conn_id conn);

/* One job of ours behind the other; *at begins at 0; the name stands until the next call that
 * changes something.  false: no more. */
bool shard_jobs_each(const struct shard_jobs *jobs, uint32_t *at, struct span *out_name);
/* What became of that job: is_used: somebody has it; step: the core's last; kept: the last one that
 * the journal has.  true: it leaves, and is forgotten here. */
bool shard_jobs_review(struct shard_jobs *jobs, struct span name, bool is_used, uint64_t step,
                       uint64_t kept);

#endif
