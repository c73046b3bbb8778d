/* SPDX-License-Identifier: MPL-2.0 */
/* directory_thread.h -- a thread that asks the directory of a store, so that the loop need not wait
 * for it.
 *
 * Questions are answered in their order.  What the server does not answer is asked again.  What it
 * refuses is answered so: somebody has to mend that first. */
#ifndef IO_DIRECTORY_THREAD_H
#define IO_DIRECTORY_THREAD_H

#include "broker/journal/directory.h"
#include "libbus/base/span.h"

#include <stdbool.h>

enum { DIRECTORY_PLACES_MAX = 256 }; /* shards that an answer tells of */

enum directory_kind {
    DIRECTORY_ASSIGN, /* where is this job; it is here if it is nowhere */
    DIRECTORY_LOOK,   /* where is this job */
    DIRECTORY_LEAVE,  /* it is here no more: has no answer */
    DIRECTORY_LIST,   /* which shards are there */
    DIRECTORY_TEXT,   /* an answer without a question: `why` is for the log */
    DIRECTORY_BEGUN,  /* another one: these jobs of the journal are on this shard */
};

struct directory_answer {
    enum directory_kind kind;
    char job[LIMIT_NAME_BYTES + 1]; /* of ASSIGN and LOOK */
    struct directory_place *places; /* of ASSIGN and LOOK one; the caller frees them */
    size_t count;
    bool is_refused;                /* there is no answer, and `why` says why */
    char why[DISK_COMPLAINT_BYTES]; /* of TEXT, too */
    char *names;                    /* of BEGUN, with '/' between; the caller frees it */
};

struct directory_thread;

/* Takes the directory over, and says first where this broker is and which jobs it has: as
 * directory_begin(), whose texts are copied.  BEGUN comes before all answers about jobs, unless the
 * server refuses that.  NULL: no memory or descriptors. */
struct directory_thread *directory_thread_open(struct directory **directory, const char *control,
                                               const char *jobs);
void directory_thread_close(struct directory_thread **thread);
/* job: of LIST, empty.  false: no memory. */
bool directory_thread_ask(struct directory_thread *thread, enum directory_kind kind,
                          struct span job);
/* The next answer; false: none. */
bool directory_thread_next(struct directory_thread *thread, struct directory_answer *out);
int directory_thread_fd(const struct directory_thread *thread); /* readable: there are answers */

#endif
