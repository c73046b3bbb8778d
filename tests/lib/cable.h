/* SPDX-License-Identifier: MPL-2.0 */
/* cable.h -- a cable between sockets of this machine: connections to one path are carried on to
 * another, until the cable is cut.
 *
 * Nothing here knows Criterion, and nothing knows what is carried. */
#ifndef TESTS_LIB_CABLE_H
#define TESTS_LIB_CABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { CABLE_ENDS_MAX = 6, CABLE_PAIRS_MAX = 64, CABLE_PATH_BYTES = 108 };

enum cable_state {
    CABLE_WHOLE,      /* carries bytes */
    CABLE_CUT,        /* connections are closed, and new ones too */
    CABLE_SILENT,     /* connections stay and are made, and nothing passes */
    CABLE_UNHEARD,    /* ... and what whoever connected says does not pass; the answers do */
    CABLE_UNANSWERED, /* ... the other way round */
};

struct cable_end {
    int listener;
    char target[CABLE_PATH_BYTES];
};

struct cable_flow {
    char *bytes;
    size_t count;
    size_t sent;
};

struct cable_pair {
    int near; /* -1: free */
    int far;
    struct cable_flow out; /* near to far */
    struct cable_flow back;
};

struct cable {
    struct cable_end ends[CABLE_ENDS_MAX];
    size_t count;
    atomic_int state; /* as it shall be */
    atomic_int seen;  /* as the thread has made it */
    atomic_bool is_over;
    int wake; /* an eventfd: one of the above has changed */
    bool has_thread;
    pthread_t thread;
    struct cable_pair pairs[CABLE_PAIRS_MAX];
};

void cable_init(struct cable *cable);
/* Before it is started.  Anybody may connect to the new path. */
bool cable_lead(struct cable *cable, const char *path, const char *target);
bool cable_start(struct cable *cable);
/* Returns when it is so. */
void cable_set(struct cable *cable, enum cable_state state);
void cable_fini(struct cable *cable);

#endif
