/* SPDX-License-Identifier: MPL-2.0 */
/* stranger.h -- a service that is no broker, at a port of its own: what a wrong port leads to. */
#ifndef TESTS_LIB_STRANGER_H
#define TESTS_LIB_STRANGER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum stranger_kind {
    STRANGER_SILENT,   /* it keeps connections, and says nothing on them */
    STRANGER_CLOSES,   /* it closes each connection at once, as a tunnel without its other end */
    STRANGER_GREETS,   /* it speaks first, as a server of SSH */
    STRANGER_ANSWERS,  /* it answers a line, as a server of HTTP */
    STRANGER_HANGS_UP, /* it closes when it hears anything, as a server of PostgreSQL */
    STRANGER_COUNT,
};

enum { STRANGER_GUESTS_MAX = 64, STRANGER_ENDPOINT_BYTES = 32 };

struct stranger {
    enum stranger_kind kind;
    char endpoint[STRANGER_ENDPOINT_BYTES]; /* "tcp://127.0.0.1:PORT" */
    int listener;
    int guests[STRANGER_GUESTS_MAX];
    size_t guest_count;
    size_t came_count; /* guests so far; to be read behind stranger_stop() */
    pthread_t thread;
};

/* false: the system refuses something. */
bool stranger_start(struct stranger *stranger, enum stranger_kind kind);
void stranger_stop(struct stranger *stranger);

#endif
