/* SPDX-License-Identifier: MPL-2.0 */
/* status_text.h -- what a broker holds, as text for people: a summary first, then the broker, its
 * journal, and each job with tables of what it has. */
#ifndef CLIENTS_STATUS_TEXT_H
#define CLIENTS_STATUS_TEXT_H

#include <bus/admin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A party that ended longer ago is only counted. */
#define STATUS_ENDED_SHOWN_MS UINT64_C(600000)
/* A table of topics or of subscriptions with more rows is one line. */
#define STATUS_ROWS_SHOWN 10

struct status_picture {
    const char *version;
    const char *durability;
    uint64_t uptime_ms;
    uint64_t refused;
    const struct bus_status_journal *journal;
    const struct bus_status_row **rows; /* sorted here by name; 2 comes before 10 */
    size_t count;
};

struct status_style {
    size_t columns; /* of a line; 0: no limit */
    bool is_all;    /* show rows that are otherwise only counted */
};

/* Whether the state of a party is final. */
bool status_has_ended(const struct bus_status_row *party);
/* Compares names as people do: digits count as numbers. */
int status_compare_names(const char *left, const char *right);
void status_sort(const struct bus_status_row **rows, size_t count);
/* False: memory is short. */
bool status_text_print(FILE *out, const struct status_picture *picture,
                       const struct status_style *style);

/* "0.3 s", "12 s", "3 min", "2 h", "4 d". */
void status_write_time(uint64_t ms, char *text, size_t bytes);

#endif
