/* SPDX-License-Identifier: MPL-2.0 */
/* systems.h -- Errbus and what it is measured against: which of them are here, and one load over
 * one of them, its processes started and ended.
 *
 * A system that fails ends that run alone: a peer's trouble is told by name, and is not ours. */
#ifndef BENCH_SYSTEMS_H
#define BENCH_SYSTEMS_H

#include "bench/harness.h"
#include "tests/lib/folder.h"

#define SYSTEMS_MAX 24
#define SYSTEM_NAME_BYTES 32
#define READERS_MAX 8

enum system_flag {
    OVER_IPC = 1,
    ONE_TOPIC = 2,  /* is all that a reader can have */
    RATE_ALONE = 4, /* its latency says nothing that another's does not */
    TO_DISK = 8,    /* what it carries is in files when that is acknowledged */
    LARGE_TOO = 16, /* is asked for 64 MiB in a run that is not long */
    ENCRYPTED = 32, /* only measured where --curve, or its name, asks for it */
    BY_NAME = 64    /* only measured where its name asks for it */
};

/* One way to carry values: a system, over tcp or ipc. */
struct system {
    const char *name; /* "relay", "relay ipc": the same in tables, JSON and --systems */
    const char *program;
    const char *mode;
    const char *server;  /* that its program starts; NULL: none */
    const char *package; /* Debian's, of what it needs */
    unsigned flags;
    double values_rate; /* about so many a second, to size the work; a factor is no harm */
    double bytes_rate;
};

/* The first of the table: what the others stand beside. */
enum { SYSTEM_ERRBUS, SYSTEM_ERRBUS_IPC, SYSTEM_ERRBUS_DISK };

struct systems {
    const struct system *at[SYSTEMS_MAX];
    size_t count;
};
enum systems_for { FOR_RATE, FOR_LATENCY };
/* Those that are installed, and named in bench->systems if it is not NULL; says which are not. */
void systems_find(struct systems *systems, const struct bench *bench, enum systems_for purpose);
/* The same, but silent, and all. */
void systems_find_all(struct systems *systems);
/* Where system->server is; false: nowhere. */
bool system_server(const struct system *system, char *path, size_t bytes);
/* Of ours, what a peer is told beside: over the same channel, and to disk where that does. */
const struct system *system_counterpart(const struct system *system);

/* A form of Errbus. */
bool system_is_ours(const struct system *system);

/* ---- one run ----------------------------------------------------------------------------------*/

struct load {
    const char *what;
    size_t bytes;
    size_t readers;
    size_t group; /* values that the writer has ready together */
};
/* Values that take about so many seconds. */
uint64_t load_count(const struct load *load, const struct system *system, double seconds);

/* The processes of a run. */
struct stage {
    const struct system *system;
    struct folder folder;
    struct process service;
    char at[512];
};
/* false: it failed, and said so; the stage is to be closed all the same. */
bool stage_open(struct stage *stage, const struct system *system, size_t bytes);
/* words: "name=value" as peer.h has them, one blank between two; starts it up to its "ready". */
bool stage_role(const struct stage *stage, struct process *role, const char *role_name,
                const char *format, ...) __attribute__((format(printf, 4, 5)));
bool stage_go(const struct stage *stage, struct process *role);
/* What a reader says at its end: when it had all, and its samples, which are added. */
bool stage_result(const struct stage *stage, struct process *reader, int64_t *out_at_ns,
                  struct samples *samples);
/* When a writer that is done had sent a tenth. */
bool stage_tenth(const struct stage *stage, struct process *writer, int64_t *out_at_ns);
bool stage_complain(const struct stage *stage, struct process *role, const char *what);
void stage_close(struct stage *stage);

/* Values a second, from when the writer had sent a tenth to when the slowest reader had all: what
 * lies in a queue meanwhile is not carried. */
bool system_rate(const struct system *system, const struct load *load, uint64_t count,
                 double *out_rate);
/* So many values, one in every_ns: how long each was on its way, without the first
 * tenth.  samples is the caller's to end. */
bool system_latency(const struct system *system, size_t bytes, int64_t every_ns, uint64_t count,
                    struct samples *samples);

/* ---- several runs, in turns -------------------------------------------------------------------*/

/* values[system][run]; a system whose run failed is out. */
struct results {
    double values[SYSTEMS_MAX][BENCH_RUNS_MAX];
    uint64_t n[SYSTEMS_MAX];
    bool is_out[SYSTEMS_MAX];
};
/* The rows of one question about one load, each beside its counterpart. */
void systems_tell(const struct bench *bench, const struct systems *systems,
                  const struct results *results, const char *what, const char *unit);

#endif
