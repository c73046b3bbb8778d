/* SPDX-License-Identifier: MPL-2.0 */
/* top_picture.c -- see top_picture.h. */
#include "clients/top_picture.h"

#include "clients/cli.h"
#include "clients/status_text.h"
#include "clients/why_text.h"

#include <stdlib.h>
#include <string.h>

#define MS_PER_S 1000

const char *const top_order_names[TOP_ORDERS] = {"busy", "name", "rate", "open", "behind"};

/* ---- rates ----------------------------------------------------------------------------------- */

/* The rows of a status stand by job, kind and name, so two of them are walked side by side. */
static int compare_places(const struct bus_status_row *a, const struct bus_status_row *b)
{
    int order = strcmp(a->job, b->job);
    if (order == 0) {
        order = (a->kind > b->kind) - (a->kind < b->kind);
    }
    return order != 0 ? order : strcmp(a->name, b->name);
}

/* Slots of a topic that were promised between two pictures.  A new run counts from 0 again. */
static uint64_t slots_between(const struct bus_status_row *before, const struct bus_status_row *now)
{
    uint64_t from = before != NULL && before->next_seq <= now->next_seq ? before->next_seq : 0;
    return now->next_seq - from;
}

static void add_rates(struct top_picture *picture, const struct top_picture *before)
{
    int64_t passed_ms = picture->at_ms - before->at_ms;
    size_t old_count = bus_status_count(before->status);
    size_t at = 0;
    struct top_item *job = NULL;
    for (size_t i = 0; i < picture->count; i++) {
        struct top_item *item = &picture->items[i];
        const struct bus_status_row *old = NULL;
        int order = -1;
        for (; at < old_count; at++) {
            old = bus_status_at(before->status, at);
            order = compare_places(old, item->row);
            if (order >= 0) {
                break;
            }
        }
        if (item->row->kind == BUS_STATUS_JOB) {
            job = item;
        }
        if (item->row->kind != BUS_STATUS_TOPIC || passed_ms <= 0) {
            continue;
        }
        uint64_t slots = slots_between(order == 0 ? old : NULL, item->row);
        item->rate = slots * MS_PER_S / (uint64_t)passed_ms;
        if (job != NULL) {
            job->rate += item->rate;
        }
    }
}

/* ---- sums of a job --------------------------------------------------------------------------- */

static void add_to_job(struct top_item *job, const struct top_item *item)
{
    const struct bus_status_row *row = item->row;
    job->parties += row->kind == BUS_STATUS_PARTY && !status_has_ended(row);
    if (item->oldest_ms > job->oldest_ms) {
        job->oldest_ms = item->oldest_ms;
    }
    if (item->behind > job->behind) {
        job->behind = item->behind;
    }
}

static bool make_items(struct top_picture *picture)
{
    struct top_item *job = NULL;
    picture->count = bus_status_count(picture->status);
    picture->items = calloc(picture->count + 1, sizeof *picture->items);
    if (picture->items == NULL) {
        return false;
    }
    for (size_t i = 0; i < picture->count; i++) {
        struct top_item *item = &picture->items[i];
        item->row = bus_status_at(picture->status, i);
        item->oldest_ms = item->row->kind == BUS_STATUS_PARTY ? item->row->open_ms : 0;
        item->behind = item->row->kind == BUS_STATUS_SUB     ? item->row->pending
                       : item->row->kind == BUS_STATUS_GROUP ? item->row->waiting
                                                             : 0;
        if (item->row->kind == BUS_STATUS_JOB) {
            job = item;
        } else if (job != NULL) {
            add_to_job(job, item);
        }
    }
    return true;
}

/* ---- who waits for whom ---------------------------------------------------------------------- */

/* Writes what a printer prints, as far as there is room. */
static void write_node(char *text, const struct bus_why_node *node)
{
    FILE *out = fmemopen(text, TOP_TEXT_BYTES_MAX, "w");
    if (out != NULL) {
        why_node_print(out, node);
        fclose(out);
    }
    text[TOP_TEXT_BYTES_MAX - 1] = '\0';
}

static void write_wait(char *text, const struct bus_why_edge *edge)
{
    if (edge->topic[0] != '\0') {
        snprintf(text, TOP_TEXT_BYTES_MAX, "%.300s#%llu", edge->topic,
                 (unsigned long long)edge->seq);
    } else {
        snprintf(text, TOP_TEXT_BYTES_MAX, "%s", bus_wait_name(edge->wait));
    }
}

static struct top_item *find_party(struct top_picture *picture, size_t job, const char *name)
{
    for (size_t i = job + 1; i < picture->count; i++) {
        const struct bus_status_row *row = picture->items[i].row;
        if (row->kind == BUS_STATUS_JOB) {
            break;
        }
        if (row->kind == BUS_STATUS_PARTY && strcmp(row->name, name) == 0 &&
            !status_has_ended(row)) {
            return &picture->items[i];
        }
    }
    return NULL;
}

static void add_waits(struct top_picture *picture, size_t job, const struct bus_why *why)
{
    for (size_t i = 0; i < bus_why_edge_count(why); i++) {
        const struct bus_why_edge *edge = bus_why_edge_at(why, i);
        const struct bus_why_node *from = bus_why_node_at(why, edge->from);
        struct top_item *item =
            from->kind == BUS_WHY_PARTY ? find_party(picture, job, from->name) : NULL;
        if (item == NULL || (item->waits_for[0] != '\0' && edge->since_ms <= item->waits_ms)) {
            continue;
        }
        write_node(item->waits_for, bus_why_node_at(why, edge->to));
        write_wait(item->wait, edge);
        item->waits_ms = edge->since_ms;
    }
}

/* The first node is the root with the most waiters, or else of a cycle. */
static void add_root(struct top_item *job, const struct bus_why *why)
{
    const struct bus_why_node *first = bus_why_node_at(why, 0);
    if (first == NULL || (!first->is_root && first->cycle == 0)) {
        return;
    }
    write_node(job->waits_for, first);
    job->waiters = first->waiters;
    job->waits_ms = first->since_ms;
    for (size_t i = 1; !first->is_root && i < bus_why_node_count(why); i++) {
        job->waiters += bus_why_node_at(why, i)->cycle == first->cycle;
    }
}

static enum bus_err ask_why(struct bus_admin *admin, int64_t timeout_ms,
                            struct top_picture *picture, struct bus_error **reterr)
{
    unsigned asked = 0;
    for (size_t i = 0; i < picture->count && asked < TOP_JOBS_ASKED; i++) {
        struct top_item *job = &picture->items[i];
        struct bus_why *why = NULL;
        struct bus_error *error = NULL;
        if (job->row->kind != BUS_STATUS_JOB || job->parties == 0) {
            continue;
        }
        asked++;
        enum bus_err err = bus_why_get(admin, job->row->name, NULL, 0, timeout_ms, &why, &error);
        if (err != BUS_OK && err != BUS_EINVAL) { /* EINVAL: the job is gone meanwhile */
            *reterr = error;
            return err;
        }
        bus_error_unref(&error);
        if (err == BUS_OK) {
            add_waits(picture, i, why);
            add_root(job, why);
        }
        bus_why_free(&why);
    }
    return BUS_OK;
}

/* ---- a picture ------------------------------------------------------------------------------- */

enum bus_err top_take(struct bus_admin *admin, const char *job, int64_t timeout_ms,
                      const struct top_picture *before, struct top_picture *out_picture,
                      struct bus_error **reterr)
{
    struct top_picture picture = {0};
    enum bus_err err = bus_admin_status_get(admin, job, timeout_ms, &picture.status, reterr);
    if (err != BUS_OK) {
        return err;
    }
    picture.at_ms = cli_now_ms();
    if (!make_items(&picture)) {
        top_free(&picture);
        return BUS_ENOMEM;
    }
    if (before != NULL) {
        add_rates(&picture, before);
    }
    err = ask_why(admin, timeout_ms, &picture, reterr);
    if (err != BUS_OK) {
        top_free(&picture);
        return err;
    }
    *out_picture = picture;
    return BUS_OK;
}

void top_free(struct top_picture *picture)
{
    bus_status_free(&picture->status);
    free(picture->items);
    *picture = (struct top_picture){0};
}

/* ---- order ----------------------------------------------------------------------------------- */

static bool has_text(const struct bus_status_row *row, const char *filter)
{
    return strstr(row->job, filter) != NULL || strstr(row->name, filter) != NULL ||
           strstr(row->party, filter) != NULL;
}

/* What is most in this row comes first. */
static uint64_t weight_of(const struct top_item *item, enum top_order order)
{
    switch (order) {
    case TOP_BUSY:
        return item->row->kind == BUS_STATUS_JOB     ? 0
               : item->row->kind == BUS_STATUS_PARTY ? item->oldest_ms
               : item->row->kind == BUS_STATUS_TOPIC ? item->rate
                                                     : item->behind;
    case TOP_RATE: return item->rate;
    case TOP_OPEN: return item->row->open;
    case TOP_BEHIND: return item->behind;
    case TOP_NAME:
    case TOP_ORDERS: break;
    }
    return 0;
}

static enum top_order sorted_by; /* for qsort(), which passes nothing on */

static int compare_items(const void *left, const void *right)
{
    const struct top_item *a = left;
    const struct top_item *b = right;
    uint64_t a_weight = weight_of(a, sorted_by);
    uint64_t b_weight = weight_of(b, sorted_by);
    if (a->row->kind != b->row->kind) {
        return a->row->kind < b->row->kind ? -1 : 1;
    }
    if (a_weight != b_weight) {
        return a_weight > b_weight ? -1 : 1;
    }
    int order = status_compare_names(a->row->job, b->row->job);
    return order != 0 ? order : status_compare_names(a->row->name, b->row->name);
}

void top_arrange(struct top_picture *picture, const char *filter, enum top_order order)
{
    size_t kept = 0;
    for (size_t i = 0; i < picture->count; i++) {
        if (filter == NULL || has_text(picture->items[i].row, filter)) {
            picture->items[kept++] = picture->items[i];
        }
    }
    picture->count = kept;
    sorted_by = order;
    if (kept > 1) {
        qsort(picture->items, kept, sizeof *picture->items, compare_items);
    }
}
