/* SPDX-License-Identifier: MPL-2.0 */
/* error_list.h -- errors of a history: which were met before, and what stands behind one. */
#ifndef CLIENTS_ERROR_LIST_H
#define CLIENTS_ERROR_LIST_H

#include <bus/bus.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A set of ids, grown as needed; zeroed it is empty. */
struct error_ids {
    char **texts; /* a table by hash; NULL: free */
    size_t room;  /* 0 or a power of two */
    size_t count;
};

/* True: it was not there before.  An id that is empty names nothing and is always new.  False with
 * *out_is_short: memory is short. */
bool error_ids_add(struct error_ids *ids, const char *id, bool *out_is_short);
void error_ids_fini(struct error_ids *ids);

/* An error on the wire has 64 records at most. */
#define ERROR_LIST_MAX 64

/* The error and what led to it, the nearest first, each once; how many.  Borrowed from error. */
size_t error_list_of(const struct bus_error *error, const struct bus_error *out[ERROR_LIST_MAX]);

/* The error of this id among them, or NULL. */
const struct bus_error *error_list_find(const struct bus_error *error, const char *id);

/* Whether the number of this id is not below the first one's and not above the last one's, all
 * three of one incarnation of a party. */
bool error_id_is_within(const char *id, const char *first, const char *last);

/* " (2)", what an event counts; " (500 alike, FIRST to LAST)" where it stands for several. */
void error_count_print(FILE *out, uint64_t count, const char *first, const char *last);

#endif
