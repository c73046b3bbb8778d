/* SPDX-License-Identifier: MPL-2.0 */
/* top_picture.h -- what a broker, or each of those that are one bus, does at this moment: its
 * status, what changed since the picture before, and who waits for whom. */
#ifndef CLIENTS_TOP_PICTURE_H
#define CLIENTS_TOP_PICTURE_H

#include "clients/shards.h"

#include <bus/why.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of so many jobs of each broker it is asked who waits; in the order of their names. */
#define TOP_JOBS_ASKED 16
#define TOP_TEXT_BYTES_MAX 512 /* of whom somebody waits for */

/* What stands first in each table. */
enum top_order { TOP_BUSY, TOP_NAME, TOP_RATE, TOP_OPEN, TOP_BEHIND, TOP_ORDERS };
extern const char *const top_order_names[TOP_ORDERS];

/* One row of the status, and what is known beyond it. */
struct top_item {
    const struct bus_status_row *row;
    uint64_t rate;      /* job, topic: values a second */
    uint64_t behind;    /* slots that a reader, or tasks that a group, has before it; job: the most
                           of its readers */
    uint64_t oldest_ms; /* job, party: age of the oldest slot that is owed */
    size_t parties;     /* job: that did not end */
    uint64_t waiters;   /* job: parties that wait for the one named below */
    uint64_t waits_ms;  /* for so long; the longest wait */
    char waits_for[TOP_TEXT_BYTES_MAX]; /* party: its longest wait; job: the root; "": none */
    char wait[TOP_TEXT_BYTES_MAX];      /* party: the slot, or what else it waits for */
};

/* What one broker has. */
struct top_part {
    uint32_t shard;
    char *endpoint;            /* NULL: the bus has one broker */
    struct bus_status *status; /* NULL: it did not answer */
    char why[TOP_TEXT_BYTES_MAX];
};

struct top_picture {
    struct top_part *parts;
    size_t part_count;
    enum bus_err lost; /* why the last one that did not answer did not; BUS_OK: all did */
    int64_t at_ms;     /* cli_now_ms() */
    struct top_item *items;
    size_t count;
};

/* Who is asked for pictures, and how. */
struct top_source {
    struct shards *shards;
    const char *job; /* BUS_JOB_ALL: all */
    const struct bus_admin_options *options;
    int64_t timeout_ms;
};

/* Takes a picture of one job, or of all.  before: the last one; NULL: rates are 0.  Where one of
 * several brokers does not answer within two seconds, the picture has the others.  The caller frees
 * it with top_free(). */
enum bus_err top_take(const struct top_source *source, const struct top_picture *before,
                      struct top_picture *out_picture, struct bus_error **reterr);
/* Leaves out all rows in which no name has this text; then brings the rest in order. */
void top_arrange(struct top_picture *picture, const char *filter, enum top_order order);
void top_free(struct top_picture *picture);

#endif
