/* SPDX-License-Identifier: MPL-2.0 */
/* attention.c -- see attention.h. */
#include "clients/web/attention.h"

#include "clients/status_text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Whether somebody should look at the party. */
static bool is_in_trouble(const struct bus_status_row *party)
{
    switch (party->state) {
    case BUS_STATE_FAILING:
    case BUS_STATE_FAILED:
    case BUS_STATE_SUSPECT:
    case BUS_STATE_GRACE:
    case BUS_STATE_LOST:
    case BUS_STATE_TERMINATED: return true;
    case BUS_STATE_UNKNOWN:
    case BUS_STATE_FREE:
    case BUS_STATE_LINGERING:
    case BUS_STATE_GATHERING:
    case BUS_STATE_RUNNING:
    case BUS_STATE_SHORT:
    case BUS_STATE_PAUSING:
    case BUS_STATE_COMPLETED:
    case BUS_STATE_CANCELLED:
    case BUS_STATE_SCHEDULING:
    case BUS_STATE_LEFT:
    case BUS_STATE_LIVE:
    case BUS_STATE_KEPT: return false;
    }
    return false;
}

/* 0 comes first. */
static int rank_of(const struct bus_status_row *row)
{
    switch (row->kind) {
    case BUS_STATUS_JOB:
        return row->state != BUS_STATE_SHORT && row->state != BUS_STATE_FAILING &&
               row->state != BUS_STATE_FAILED;
    case BUS_STATUS_PARTY: return is_in_trouble(row) ? 0 : status_has_ended(row) ? 2 : 1;
    case BUS_STATUS_GROUP: return row->dead == 0 && (row->members > 0 || row->waiting == 0);
    case BUS_STATUS_TOPIC:
    case BUS_STATUS_SUB: break;
    }
    return 0;
}

/* Within a rank the larger one comes first. */
static uint64_t weight_of(const struct bus_status_row *row)
{
    if (row->kind == BUS_STATUS_SUB) {
        return row->pending;
    }
    if (row->kind != BUS_STATUS_PARTY) {
        return 0;
    }
    return status_has_ended(row) ? UINT64_MAX - row->ended_ms
           : is_in_trouble(row)  ? UINT64_MAX - row->silent_ms
                                 : row->open_ms;
}

/* Rows of one kind and name, the newest first. */
static int compare_names(const struct bus_status_row *a, const struct bus_status_row *b)
{
    int order = status_compare_names(a->job, b->job);
    if (order == 0) {
        order = status_compare_names(a->name, b->name);
    }
    if (order == 0) {
        order = strcmp(a->name, b->name); /* "1" and "01" */
    }
    if (order == 0) {
        order = status_compare_names(a->party, b->party);
    }
    return order != 0 ? order
                      : (a->incarnation < b->incarnation) - (a->incarnation > b->incarnation);
}

static int compare_kinds(const struct bus_status_row *a, const struct bus_status_row *b)
{
    return (a->kind > b->kind) - (a->kind < b->kind);
}

static int by_name(const void *left, const void *right)
{
    const struct bus_status_row *a = *(const struct bus_status_row *const *)left;
    const struct bus_status_row *b = *(const struct bus_status_row *const *)right;
    int order = compare_kinds(a, b);
    return order != 0 ? order : compare_names(a, b);
}

static int by_need(const void *left, const void *right)
{
    const struct bus_status_row *a = *(const struct bus_status_row *const *)left;
    const struct bus_status_row *b = *(const struct bus_status_row *const *)right;
    int order = compare_kinds(a, b);
    if (order == 0) {
        order = rank_of(a) - rank_of(b);
    }
    if (order == 0) {
        order = (weight_of(a) < weight_of(b)) - (weight_of(a) > weight_of(b));
    }
    return order != 0 ? order : compare_names(a, b);
}

static bool is_same_party(const struct bus_status_row *a, const struct bus_status_row *b)
{
    return a->kind == BUS_STATUS_PARTY && b->kind == BUS_STATUS_PARTY &&
           strcmp(a->job, b->job) == 0 && strcmp(a->name, b->name) == 0;
}

/* Moves parties that have come again behind the newest incarnations.  The rows are sorted by name;
 * how many are in front. */
static size_t move_replaced(const struct bus_status_row **rows, size_t count)
{
    const struct bus_status_row **replaced = calloc(count + 1, sizeof *replaced);
    size_t in_front = 0;
    size_t behind = 0;
    if (replaced == NULL) {
        return count; /* they stay where they are */
    }
    for (size_t i = 0; i < count; i++) {
        if (in_front > 0 && is_same_party(rows[in_front - 1], rows[i])) {
            replaced[behind++] = rows[i];
        } else {
            rows[in_front++] = rows[i];
        }
    }
    if (behind > 0) {
        memcpy(rows + in_front, replaced, behind * sizeof *replaced);
    }
    free(replaced);
    return in_front;
}

/* Keeps the first ATTENTION_ROWS_MAX of each kind. */
static size_t keep_first(const struct bus_status_row **rows, size_t count,
                         size_t left_out[ATTENTION_KINDS])
{
    size_t of_kind[ATTENTION_KINDS] = {0};
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        size_t kind = (size_t)rows[i]->kind;
        if (of_kind[kind]++ < ATTENTION_ROWS_MAX) {
            rows[kept++] = rows[i];
        } else {
            left_out[kind] += 1;
        }
    }
    return kept;
}

size_t attention_choose(const struct bus_status_row **rows, size_t count,
                        size_t left_out[ATTENTION_KINDS])
{
    memset(left_out, 0, ATTENTION_KINDS * sizeof *left_out);
    if (count == 0) {
        return 0;
    }
    qsort(rows, count, sizeof *rows, by_name);
    size_t in_front = move_replaced(rows, count);
    qsort(rows, in_front, sizeof *rows, by_need);
    if (in_front < count) {
        qsort(rows + in_front, count - in_front, sizeof *rows, by_need);
    }
    return keep_first(rows, count, left_out);
}
