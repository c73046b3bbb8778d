/* SPDX-License-Identifier: MPL-2.0 */
/* top_picture.c -- see top_picture.h. */
#include "clients/top_picture.h"

#include "clients/cli.h"
#include "clients/status_text.h"
#include "clients/why_text.h"

#include <stdlib.h>
#include <string.h>

#define MS_PER_S 1000
#define SHARD_MS INT64_C(2000) /* one of several brokers is not waited for any longer */

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

/* The same broker in the picture before; NULL: it is new. */
static const struct top_part *part_before(const struct top_picture *before, uint32_t shard)
{
    for (size_t i = 0; before != NULL && i < before->part_count; i++) {
        if (before->parts[i].shard == shard) {
            return &before->parts[i];
        }
    }
    return NULL;
}

/* Of the items from `from` on, which are of one broker.  Its clock counts, for an answer may be on
 * its way for long.  One that has been up for less than before was started again: it has no rates
 * yet. */
static void add_rates(struct top_picture *picture, size_t from, const struct bus_status *before,
                      const struct bus_status *now)
{
    uint64_t before_ms = bus_status_uptime_ms(before);
    uint64_t now_ms = bus_status_uptime_ms(now);
    size_t old_count = bus_status_count(before);
    size_t at = 0;
    struct top_item *job = NULL;
    for (size_t i = from; i < picture->count; i++) {
        struct top_item *item = &picture->items[i];
        const struct bus_status_row *old = NULL;
        int order = -1;
        for (; at < old_count; at++) {
            old = bus_status_at(before, at);
            order = compare_places(old, item->row);
            if (order >= 0) {
                break;
            }
        }
        if (item->row->kind == BUS_STATUS_JOB) {
            job = item;
        }
        if (item->row->kind != BUS_STATUS_TOPIC || now_ms <= before_ms) {
            continue;
        }
        uint64_t slots = slots_between(order == 0 ? old : NULL, item->row);
        item->rate = slots * MS_PER_S / (now_ms - before_ms);
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

/* Adds the rows of a broker.  false: no memory. */
static bool add_items(struct top_picture *picture, const struct bus_status *status)
{
    struct top_item *job = NULL;
    size_t count = bus_status_count(status);
    struct top_item *items = realloc(picture->items, (picture->count + count + 1) * sizeof *items);
    if (items == NULL) {
        return false;
    }
    picture->items = items;
    for (size_t i = 0; i < count; i++) {
        struct top_item *item = &items[picture->count++];
        *item = (struct top_item){.row = bus_status_at(status, i)};
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

/* About the jobs from item `from` on. */
static enum bus_err ask_why(struct bus_admin *admin, int64_t timeout_ms,
                            struct top_picture *picture, size_t from, struct bus_error **reterr)
{
    unsigned asked = 0;
    for (size_t i = from; i < picture->count && asked < TOP_JOBS_ASKED; i++) {
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

static enum bus_err take_status(const struct top_source *source, size_t index, int64_t timeout_ms,
                                struct bus_admin **out_admin, struct bus_status **out_status,
                                struct bus_error **reterr)
{
    enum bus_err err =
        shards_open(source->shards, index, source->options, timeout_ms, out_admin, reterr);
    return err == BUS_OK
               ? bus_admin_status_get(*out_admin, source->job, timeout_ms, out_status, reterr)
               : err;
}

/* One of several brokers does not answer: the picture says so. */
static void lose_part(const struct top_source *source, size_t index, struct top_picture *picture,
                      enum bus_err err, struct bus_error **error)
{
    struct top_part *part = &picture->parts[index];
    bool is_silent = err == BUS_ELOST || err == BUS_ETIMEDOUT || *error == NULL;
    picture->lost = is_silent ? BUS_ELOST : err;
    snprintf(part->why, sizeof part->why, "%.500s",
             is_silent ? "out of reach" : bus_error_message(*error));
    shards_drop(source->shards, index);
    bus_error_unref(error);
}

/* Adds what one broker has. */
static enum bus_err take_part(const struct top_source *source, size_t index,
                              const struct top_picture *before, struct top_picture *picture,
                              struct bus_error **reterr)
{
    bool is_one = !shards_are_several(source->shards);
    int64_t timeout_ms = is_one || source->timeout_ms < SHARD_MS ? source->timeout_ms : SHARD_MS;
    struct shards_row row = shards_at(source->shards, index);
    struct top_part *part = &picture->parts[index];
    struct bus_admin *admin = NULL;
    struct bus_error *error = NULL;
    size_t from = picture->count;
    part->shard = row.number;
    part->endpoint = is_one ? NULL : strdup(row.endpoint);
    if (!is_one && part->endpoint == NULL) {
        return BUS_ENOMEM;
    }
    enum bus_err err = take_status(source, index, timeout_ms, &admin, &part->status, &error);
    if (err == BUS_OK && !add_items(picture, part->status)) {
        return BUS_ENOMEM;
    }
    const struct top_part *old = part_before(before, row.number);
    if (err == BUS_OK && old != NULL && old->status != NULL) {
        add_rates(picture, from, old->status, part->status);
    }
    if (err == BUS_OK) {
        err = ask_why(admin, timeout_ms, picture, from, &error);
    }
    if (err != BUS_OK && err != BUS_ENOMEM && !is_one) {
        lose_part(source, index, picture, err, &error);
        return BUS_OK;
    }
    if (reterr != NULL) {
        *reterr = error;
    }
    return err;
}

enum bus_err top_take(const struct top_source *source, const struct top_picture *before,
                      struct top_picture *out_picture, struct bus_error **reterr)
{
    struct top_picture picture = {.lost = BUS_OK};
    enum bus_err err = BUS_OK;
    if (strcmp(source->job, BUS_JOB_ALL) == 0) {
        err = shards_look(source->shards, source->timeout_ms, reterr);
    }
    if (err != BUS_OK) {
        return err;
    }
    picture.at_ms = cli_now_ms();
    picture.part_count = shards_count(source->shards);
    picture.parts = calloc(picture.part_count, sizeof *picture.parts);
    if (picture.parts == NULL) {
        return BUS_ENOMEM;
    }
    for (size_t i = 0; err == BUS_OK && i < picture.part_count; i++) {
        err = take_part(source, i, before, &picture, reterr);
    }
    if (err != BUS_OK) {
        top_free(&picture);
        return err;
    }
    *out_picture = picture;
    return BUS_OK;
}

void top_free(struct top_picture *picture)
{
    for (size_t i = 0; i < picture->part_count; i++) {
        bus_status_free(&picture->parts[i].status);
        free(picture->parts[i].endpoint);
    }
    free(picture->parts);
    free(picture->items);
    *picture = (struct top_picture){.lost = BUS_OK};
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
