/* SPDX-License-Identifier: MPL-2.0 */
/* peer.h -- the roles in which every system under measure does the same work: a process that
 * serves, processes that write, processes that read.  A system says how it carries values; what is
 * sent, checked, paced and timed is here, once for all.
 *
 * A value begins with its number, and with the time of its sending if it is timed.  A reader that
 * gets a wrong or damaged value prints a sentence and ends. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include "bench/harness.h"

#define PEER_BYTES_MIN 16 /* a stamp */
#define PEER_ALL_TOPICS "*"

struct peer_stamp {
    uint64_t number;
    int64_t sent_ns; /* 0: nobody measures how long it takes */
};

/* What the words "name=value" behind the role say; what is absent is "" or 0. */
struct peer_work {
    const char *at;     /* the endpoint, as the serving process told it */
    const char *mode;   /* a way of the system's own to do it */
    const char *folder; /* the serving process's own */
    const char *server; /* path of a foreign server */
    const char *topic;  /* of one letter; a reader's may be PEER_ALL_TOPICS */
    uint64_t is_ipc;
    uint64_t bytes;    /* each value */
    uint64_t count;    /* of values; 0: no end */
    uint64_t group;    /* values that are ready together */
    uint64_t readers;  /* who are there before the first value */
    uint64_t every_ns; /* one by one in this time, each timed; 0: as fast as it goes */
    uint64_t stamp_ns; /* as fast as it goes, and one in this time is timed */
    uint64_t samples;  /* a reader is content with these */
    uint64_t beside;   /* bytes of the values of another writer that come in between; 0: none */
    uint64_t is_told;  /* a reader says now and then how far it is */
    uint64_t told_ns;  /* and how far it is once in this time, and each sample at once */
};

/* ---- what a reader counts -------------------------------------------------------------------- */

struct tally {
    uint64_t bytes;
    uint64_t count;
    uint64_t end; /* of count; UINT64_MAX: none */
    uint64_t next_tell;
    int64_t told_every_ns; /* 0: by count alone */
    int64_t told_at_ns;
    uint64_t samples_end;
    uint64_t beside_bytes;
    uint64_t beside_count;
    struct samples samples;
};

void tally_init(struct tally *tally, const struct peer_work *work);
/* Ends the program with a sentence if this is not the next value, whole. */
void tally_value(struct tally *tally, const void *value, size_t bytes);
bool tally_is_full(const struct tally *tally);
void tally_fini(struct tally *tally);

/* ---- what a system does ---------------------------------------------------------------------- */

struct peer {
    /* Says where it is by peer_tell_endpoint(), and serves until it is killed. */
    void (*serve)(const struct peer_work *work);
    void *(*open_writer)(const struct peer_work *work);
    void (*await_readers)(void *writer, uint64_t count); /* NULL: they are there when they say so */
    /* count values of work->bytes, one behind the other; may hold them back. */
    void (*send)(void *writer, const char *values, size_t count);
    void (*flush)(void *writer); /* holds nothing back */
    /* In force when it returns. */
    void *(*open_reader)(const struct peer_work *work);
    void (*read)(void *reader, struct tally *tally); /* until it is full */
};

/* main() of a system.  What was opened goes with the process. */
int peer_main(const struct peer *peer, int argc, char **argv);

void *peer_allocate(size_t bytes); /* zeroed */

/* Says "ready" and the endpoint. */
void peer_tell_endpoint(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Becomes work->server; what it says goes to a file in its folder. */
void peer_become_server(const struct peer_work *work, const char *const *argv)
    __attribute__((noreturn));
/* A file in the folder of the serving process. */
void peer_write_file(const struct peer_work *work, const char *name, const char *text, char *path);

#endif
