/* SPDX-License-Identifier: MPL-2.0 */
/* verdict_reference.h -- the verdict once more, in the plainest way, to compare with.
 *
 * It follows the prose of tables/verdict.h and nothing else: versions and the total order are
 * texts that strcmp() compares, what leads where is a square of distances filled by going over it
 * again and again, and no two errors are ever folded: "leads to each other" is looked up. */
#ifndef TESTS_UNIT_VERDICT_REFERENCE_H
#define TESTS_UNIT_VERDICT_REFERENCE_H

#include "broker/core/tables/verdict.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { REFERENCE_MAX = 48, REFERENCE_FAR = 1000000, REFERENCE_KEY_BYTES = 8192 };

/* An error and what happened to it. */
struct reference_error {
    struct verdict_error error;
    bool is_survived;
    int arrival;
    char key[REFERENCE_KEY_BYTES]; /* in the total order */
};

struct reference {
    struct reference_error errors[REFERENCE_MAX]; /* in the total order, once they were weighed */
    int count;
    int arrivals;
    int distance[REFERENCE_MAX][REFERENCE_MAX];
    enum verdict_link link[REFERENCE_MAX][REFERENCE_MAX];
    bool is_in_scope[REFERENCE_MAX];
    bool is_candidate[REFERENCE_MAX];
    int root;
    int rival;
};

static uint64_t reference_sortable(int64_t number)
{
    return (uint64_t)number ^ (UINT64_C(1) << 63);
}

/* Less in strcmp() is the better version of an id. */
static void reference_version(const struct verdict_error *error, char *key)
{
    int at = snprintf(
        key, REFERENCE_KEY_BYTES,
        "%d %02u %02u %020" PRIu64 " %020" PRIu64 " %020" PRIu64 " %020" PRIu64 " %020" PRIu64
        " %020" PRIu64 " %020" PRIu64 " %020" PRIu64 " %.*s\001%020" PRIu64,
        error->is_hearsay, 99 - error->cause_count, 99 - error->blame_count,
        reference_sortable(error->occurred_ns), error->uncertainty_ns,
        reference_sortable(error->last_sign_ns), reference_sortable(error->believed_from_ns),
        error->kind, error->recoverable, error->origin, reference_sortable(error->code),
        (int)error->party.bytes, (const char *)error->party.data, error->incarnation);
    for (uint32_t i = 0; i < error->cause_count; i++)
        at += snprintf(key + at, (size_t)(REFERENCE_KEY_BYTES - at), " %04zu%.*s",
                       error->causes[i].bytes, (int)error->causes[i].bytes,
                       (const char *)error->causes[i].data);
    for (uint32_t i = 0; i < error->blame_count; i++)
        at += snprintf(key + at, (size_t)(REFERENCE_KEY_BYTES - at), " %.*s\001%020" PRIu64,
                       (int)error->blames[i].party.bytes, (const char *)error->blames[i].party.data,
                       error->blames[i].incarnation);
}

static void reference_add(struct reference *reference, const struct verdict_error *error)
{
    static char old_key[REFERENCE_KEY_BYTES], new_key[REFERENCE_KEY_BYTES];
    for (int i = 0; i < reference->count; i++) {
        struct reference_error *known = &reference->errors[i];
        if (!span_equal(known->error.id, error->id))
            continue;
        bool was_fatal = known->error.is_fatal;
        reference_version(&known->error, old_key);
        reference_version(error, new_key);
        if (strcmp(new_key, old_key) < 0)
            known->error = *error;
        known->error.is_fatal = was_fatal || error->is_fatal;
        if (known->error.is_fatal && !was_fatal)
            known->is_survived = false;
        return;
    }
    reference->errors[reference->count++] =
        (struct reference_error){.error = *error, .arrival = ++reference->arrivals};
}

static int64_t reference_stamp(const struct verdict_error *error, int64_t now_ns)
{
    double day_ns = 86400e9;
    int64_t stamp = error->occurred_ns;
    if (error->last_sign_ns > 0 && (stamp <= 0 || error->last_sign_ns < stamp))
        stamp = error->last_sign_ns;
    if (stamp <= 0 || (double)error->uncertainty_ns > day_ns)
        return 0;
    double middle = (double)stamp;
    double slack = (double)error->uncertainty_ns;
    if (error->believed_from_ns > 0 && middle + slack < (double)error->believed_from_ns)
        return 0;
    return middle - slack > (double)now_ns ? 0 : stamp;
}

static int reference_compare(const void *a, const void *b)
{
    const struct reference_error *left = a;
    const struct reference_error *right = b;
    return strcmp(left->key, right->key);
}

static void reference_sort(struct reference *reference, int64_t now_ns)
{
    for (int i = 0; i < reference->count; i++) {
        const struct verdict_error *error = &reference->errors[i].error;
        int64_t stamp = reference_stamp(error, now_ns);
        (void)snprintf(reference->errors[i].key, REFERENCE_KEY_BYTES,
                       "%d %020" PRId64 " %020" PRIu64 " %.*s\001%020" PRIu64 " %04zu %.*s",
                       stamp == 0, stamp, stamp > 0 ? error->uncertainty_ns : 0,
                       (int)error->party.bytes, (const char *)error->party.data, error->incarnation,
                       error->id.bytes, (int)error->id.bytes, (const char *)error->id.data);
    }
    qsort(reference->errors, (size_t)reference->count, sizeof *reference->errors,
          reference_compare);
}

static void reference_edge(struct reference *reference, int from, int to, int distance,
                           enum verdict_link link)
{
    if (from == to || reference->distance[from][to] <= distance)
        return;
    reference->distance[from][to] = distance;
    reference->link[from][to] = link;
}

/* The incarnation that a blame is about: the one it names, or the newest that failed; 0: none. */
static uint64_t reference_blamed(const struct reference *reference,
                                 const struct verdict_blame *blame)
{
    uint64_t newest = 0;
    for (int i = 0; i < reference->count; i++) {
        const struct verdict_error *error = &reference->errors[i].error;
        if (error->is_fatal && span_equal(error->party, blame->party) &&
            error->incarnation > newest)
            newest = error->incarnation;
    }
    return blame->incarnation > 0 ? blame->incarnation : newest;
}

static void reference_link(struct reference *reference, int from)
{
    const struct verdict_error *error = &reference->errors[from].error;
    for (int to = 0; to < reference->count; to++) {
        const struct verdict_error *other = &reference->errors[to].error;
        for (uint32_t i = 0; i < error->cause_count; i++)
            if (span_equal(error->causes[i], other->id))
                reference_edge(reference, from, to, 1, VERDICT_LINK_CAUSE);
        for (uint32_t i = 0; i < error->blame_count; i++) {
            const struct verdict_blame *blame = &error->blames[i];
            bool is_self = span_equal(blame->party, error->party) &&
                           (blame->incarnation == 0 || blame->incarnation == error->incarnation);
            if (!is_self && other->is_fatal && span_equal(other->party, blame->party) &&
                other->incarnation == reference_blamed(reference, blame))
                reference_edge(reference, from, to, 2, VERDICT_LINK_BLAME);
        }
    }
}

static int reference_unknown(const struct reference *reference, int row)
{
    const struct verdict_error *error = &reference->errors[row].error;
    int unknown = 0;
    for (uint32_t i = 0; i < error->cause_count; i++) {
        bool is_known = false;
        for (int k = 0; k < reference->count; k++)
            is_known = is_known || span_equal(reference->errors[k].error.id, error->causes[i]);
        unknown += !is_known;
    }
    return unknown;
}

static bool reference_leads(const struct reference *reference, int from, int to)
{
    return from == to || reference->distance[from][to] < REFERENCE_FAR;
}

/* edges: the distances of single edges alone, before ways were put together. */
static void reference_measure(struct reference *reference, int edges[REFERENCE_MAX][REFERENCE_MAX])
{
    int count = reference->count;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++)
            reference->distance[i][k] = REFERENCE_FAR;
    for (int i = 0; i < count; i++)
        reference_link(reference, i);
    memcpy(edges, reference->distance, sizeof reference->distance);
    bool is_changed = true;
    while (is_changed) {
        is_changed = false;
        for (int i = 0; i < count; i++)
            for (int via = 0; via < count; via++)
                for (int k = 0; k < count; k++) {
                    int distance = reference->distance[i][via] + reference->distance[via][k];
                    if (i == k || distance >= reference->distance[i][k])
                        continue;
                    reference->distance[i][k] = distance;
                    is_changed = true;
                }
    }
}

static bool reference_is_consequence(const struct reference *reference, uint64_t kinds, int row)
{
    return (kinds >> reference->errors[row].error.kind & 1) != 0;
}

static void reference_choose(struct reference *reference, const struct verdict_options *options)
{
    int count = reference->count;
    bool is_any = false;
    for (int i = 0; i < count; i++) {
        reference->is_in_scope[i] = false;
        for (int k = 0; k < count; k++)
            if (reference->errors[k].error.is_fatal && !reference->errors[k].is_survived &&
                reference_leads(reference, k, i))
                reference->is_in_scope[i] = true;
        if (reference->is_in_scope[i] &&
            !reference_is_consequence(reference, options->consequence_kinds, i))
            is_any = true;
    }
    uint64_t barred = is_any ? options->consequence_kinds : 0;
    reference->root = reference->rival = -1;
    for (int i = 0; i < count; i++) {
        bool is_end = reference->is_in_scope[i] && !reference_is_consequence(reference, barred, i);
        for (int k = 0; k < count && options->strategy == VERDICT_CAUSAL; k++)
            if (!reference_is_consequence(reference, barred, k) &&
                reference_leads(reference, i, k) && !reference_leads(reference, k, i))
                is_end = false;
        reference->is_candidate[i] = is_end;
    }
    for (int round = 0; round < 2; round++) {
        int best = -1;
        for (int i = count - 1; i >= 0; i--)
            if (reference->is_candidate[i] && (round == 0 || i != reference->root) &&
                (best < 0 || options->strategy != VERDICT_FIRST ||
                 reference->errors[i].arrival < reference->errors[best].arrival))
                best = i;
        *(round == 0 ? &reference->root : &reference->rival) = best;
    }
}

#endif
