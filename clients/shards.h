/* SPDX-License-Identifier: MPL-2.0 */
/* shards.h -- the brokers that are one bus, for a question about all jobs: each of them is asked
 * for its own.
 *
 * Where there are no shards, that is the one broker that was asked first. */
#ifndef CLIENTS_SHARDS_H
#define CLIENTS_SHARDS_H

#include <bus/admin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shards; /* the brokers, and handles to them */

/* One of the brokers. */
struct shards_row {
    uint32_t number;
    const char *endpoint; /* "": there are no shards */
};

/* admin: borrowed, and asked first.  NULL: no memory. */
struct shards *shards_new(struct bus_admin *admin);
void shards_free(struct shards **shards);

/* Asks which brokers there are.  Handles to those that are still there stay open. */
enum bus_err shards_look(struct shards *shards, int64_t timeout_ms, struct bus_error **reterr);
size_t shards_count(const struct shards *shards); /* at least 1 */
bool shards_are_several(const struct shards *shards);
struct shards_row shards_at(const struct shards *shards, size_t index);

/* The handle to one of them, which stays with the shards.  It is opened when it is wanted first.
 * options: for that. */
enum bus_err shards_open(struct shards *shards, size_t index,
                         const struct bus_admin_options *options, int64_t timeout_ms,
                         struct bus_admin **out_admin, struct bus_error **reterr);
/* It did not answer: the next shards_open() opens another handle. */
void shards_drop(struct shards *shards, size_t index);

#endif
