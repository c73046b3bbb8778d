/* SPDX-License-Identifier: MPL-2.0 */
/* shard.h -- the brokers of one shard in a PostgreSQL.  Each place is a machine: its broker has a
 * cache and endpoints of its own.  What fails, fails the test that calls. */
#ifndef TESTS_LIB_SHARD_H
#define TESTS_LIB_SHARD_H

#include "tests/lib/expect.h"
#include "tests/lib/postgres.h"

enum { SHARD_PLACES = 2, SHARD_VALUES = 10 };

struct shard {
    const struct postgres *postgres;
    const char *replicas;                 /* of --replicas */
    const char *stores[SHARD_PLACES];     /* how a broker there reaches it; NULL: by conninfo */
    const char *advertised[SHARD_PLACES]; /* where its data is; NULL: where it listens */
    const char *program;                  /* that brokers are; NULL: errbusd */
    const char *const *environment;       /* of brokers that start; NULL: nothing more */
    struct process brokers[SHARD_PLACES];
    char endpoints[SHARD_PLACES][POSTGRES_PATH_BYTES + 16];
    char everywhere[SHARD_PLACES * (POSTGRES_PATH_BYTES + 16)]; /* all of them, for clients */
};

/* A server without standbys, and a shard over it.  Where PostgreSQL is not installed there is no
 * server, and a test is skipped; .ci/run requires one. */
void shard_open(struct shard *shard, struct postgres *postgres);
void shard_close(struct shard *shard, struct postgres *postgres);
void shard_skip_without_server(const struct shard *shard);

void shard_init(struct shard *shard, const struct postgres *postgres, const char *replicas);
void shard_fini(struct shard *shard);

void shard_start(struct shard *shard, int place);
/* Waits until the broker at this place serves. */
void shard_must_serve(struct shard *shard, int place);
/* Starts a broker that waits for the shard, and says so. */
void shard_start_spare(struct shard *shard, int place);
void shard_kill(struct shard *shard, int place);
/* Waits for a line on standard error with this in it. */
void shard_must_say(struct shard *shard, int place, const char *text);
/* Waits until the broker there ends with 1, and says this. */
void shard_must_end(struct shard *shard, int place, const char *text);
/* The same with 3, for the store forgot what it had confirmed. */
void shard_must_end_by_forgetting(struct shard *shard, int place, const char *text);

/* Starts the broker at place 0, and opens alice, who publishes SHARD_VALUES. */
struct bus *shard_begin(struct shard *shard);
/* Publishes the values `from` to from + SHARD_VALUES - 1, and waits until they are accepted. */
void shard_publish(struct bus *alice, int from);
/* A new party reads all values of alice from 0 to until - 1, and then nothing more. */
void shard_must_have(struct shard *shard, int until);

#endif
