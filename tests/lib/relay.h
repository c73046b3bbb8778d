/* SPDX-License-Identifier: MPL-2.0 */
/* relay.h -- a cable that can be cut: TCP connections to one side are carried on to the other.
 *
 * Between a party and the broker it stands twice, for control and data; the broker then advertises
 * the data port of the relay. */
#ifndef TESTS_LIB_RELAY_H
#define TESTS_LIB_RELAY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define RELAY_ENDPOINT_BYTES_MAX 64
#define RELAY_PAIRS_MAX 64

enum relay_state {
    RELAY_WHOLE,  /* carries bytes */
    RELAY_CUT,    /* connections are closed, new ones too */
    RELAY_SILENT, /* connections stay, nothing passes: a cable drawn, a host frozen */
    RELAY_DEAF,   /* the data connections that are there carry nothing back; new ones do */
    RELAY_LATE,   /* control connections are made, and what the broker says on them waits */
};

/* Of data connections: to the broker, and from it. */
enum relay_way { RELAY_OUT, RELAY_BACK, RELAY_WAY_COUNT };

struct relay_flow {
    char *bytes;
    size_t count;
    size_t sent;
    FILE *record; /* all that was read, or NULL */
};

struct relay_pair {
    int near; /* -1: free */
    int far;
    bool is_data;
    bool is_deaf;
    size_t said;           /* bytes that came back */
    struct relay_flow out; /* near to far */
    struct relay_flow back;
};

struct relay {
    char control_endpoint[RELAY_ENDPOINT_BYTES_MAX];
    char data_endpoint[RELAY_ENDPOINT_BYTES_MAX];
    int listeners[2]; /* control, data */
    atomic_ushort targets[2];
    const char
        *record_folder; /* each connection's bytes, each way, go into a file there; or NULL */
    unsigned recorded;
    int wake[2]; /* a pipe: the state has changed, or the end has come */
    int full;    /* an eventfd: a limit was reached, or something is held */
    atomic_int state;
    atomic_int seen;                        /* the state that the thread has made true */
    atomic_ullong carried[RELAY_WAY_COUNT]; /* bytes of data, so far */
    atomic_ullong limits[RELAY_WAY_COUNT];  /* so many, and no more */
    atomic_uint dials[2];                   /* connections so far: control, data */
    atomic_bool is_held;                    /* what the broker said waits: RELAY_LATE */
    atomic_bool is_over;
    bool has_thread;
    pthread_t thread;
    struct relay_pair pairs[RELAY_PAIRS_MAX];
};

/* Listens on two free ports; the endpoints are known from then on. */
bool relay_open(struct relay *relay);
/* Carries on to where the broker listens ("tcp://host:port", on the loopback). */
bool relay_start(struct relay *relay, const char *control_endpoint, const char *data_endpoint);
/* From the next connection on it carries to another broker; only while it is RELAY_CUT. */
void relay_retarget(struct relay *relay, const char *control_endpoint, const char *data_endpoint);
/* Of data so many bytes more are carried this way, and no more.  relay_await_limit() returns when
 * they are; false: they were not in that time. */
void relay_limit(struct relay *relay, enum relay_way way, uint64_t bytes);
bool relay_await_limit(struct relay *relay, enum relay_way way, int64_t wait_ms);
uint64_t relay_carried(struct relay *relay, enum relay_way way);
/* Returns when something that the broker said on a control connection is held by RELAY_LATE.
 * false: nothing did in that time. */
bool relay_await_held(struct relay *relay, int64_t wait_ms);
/* How many connections were made over it, of control and of data. */
unsigned relay_dials(struct relay *relay);
unsigned relay_data_dials(struct relay *relay);
/* Returns when it is so. */
void relay_set(struct relay *relay, enum relay_state state);
void relay_fini(struct relay *relay);

#endif
