/* SPDX-License-Identifier: MPL-2.0 */
/* chain.c -- leaves records out of a chain but keeps its head, its roots and its count.
 *
 * Causes are later records.  So there is no cycle, and one pass in ascending order meets each
 * record before its causes.  The first cause of a record stays the first, so the foremost root
 * stays the same.  The kept records plus all their left_out always equal the given records plus
 * their left_out. */
#include "libbus/wire/chain.h"

#include "libbus/base/must.h"

#include <stdbool.h>

struct selection {
    const struct error_record *records;
    uint32_t count;
    const size_t *sizes;
    size_t left; /* of the budget */
    uint32_t kept_count;
    bool is_kept[LIMIT_ERROR_GIVEN];
    bool is_counted[LIMIT_ERROR_GIVEN]; /* left out, and in somebody's left_out */
};

enum wire_err chain_check(const struct error_record *records, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct error_record *record = &records[i];
        if (record->cause_count > LIMIT_ERROR_CAUSES)
            return WIRE_RANGE;
        for (uint32_t at = 0; at < record->cause_count; at++) {
            if (record->causes[at] <= i || record->causes[at] >= count)
                return WIRE_RANGE;
            for (uint32_t before = 0; before < at; before++)
                if (record->causes[before] == record->causes[at])
                    return WIRE_RANGE;
        }
    }
    return WIRE_OK;
}

static void keep_record(struct selection *selection, uint32_t index)
{
    if (selection->is_kept[index] || selection->kept_count == LIMIT_ERROR_RECORDS)
        return;
    if (index > 0 && selection->sizes[index] > selection->left)
        return;
    size_t bytes = selection->sizes[index];
    selection->left -= bytes < selection->left ? bytes : selection->left;
    selection->is_kept[index] = true;
    selection->kept_count += 1;
}

static uint32_t foremost_root(const struct error_record *records)
{
    uint32_t index = 0;
    while (records[index].cause_count > 0)
        index = records[index].causes[0];
    return index;
}

/* Keeps at most as many roots as the head may have causes, so that the head reaches them all. */
static void keep_roots(struct selection *selection)
{
    for (uint32_t i = 0; i < selection->count; i++) {
        if (selection->kept_count > LIMIT_ERROR_CAUSES)
            break;
        if (selection->records[i].cause_count == 0)
            keep_record(selection, i);
    }
}

static void keep_rest(struct selection *selection)
{
    for (uint32_t i = 0; i < selection->count; i++)
        keep_record(selection, i);
}

static uint64_t left_out_sum(uint64_t a, uint64_t b)
{
    return a > UINT32_MAX || b > UINT32_MAX - a ? UINT32_MAX : a + b;
}

/* Makes the link of a kept record.  It leads past the records that are left out to the next kept
 * ones, foremost first. */
static void link_make(struct selection *selection, uint32_t index, struct chain_link *link)
{
    bool is_seen[LIMIT_ERROR_GIVEN] = {false};
    uint32_t path[LIMIT_ERROR_GIVEN]; /* from index down, all but it left out */
    uint32_t next[LIMIT_ERROR_GIVEN]; /* which cause of each comes next */
    uint32_t depth = 1;
    *link = (struct chain_link){.index = index, .left_out = selection->records[index].left_out};
    path[0] = index;
    next[0] = 0;
    while (depth > 0) {
        const struct error_record *record = &selection->records[path[depth - 1]];
        if (next[depth - 1] == record->cause_count) {
            depth -= 1;
            continue;
        }
        uint32_t cause = record->causes[next[depth - 1]++];
        if (is_seen[cause])
            continue;
        is_seen[cause] = true;
        if (selection->is_kept[cause]) {
            if (link->cause_count < LIMIT_ERROR_CAUSES)
                link->causes[link->cause_count++] = cause;
            continue;
        }
        if (!selection->is_counted[cause])
            link->left_out = left_out_sum(link->left_out, 1 + selection->records[cause].left_out);
        selection->is_counted[cause] = true;
        path[depth] = cause;
        next[depth] = 0;
        depth += 1;
    }
}

static void links_make(struct selection *selection, struct chain *chain)
{
    chain->count = 0;
    for (uint32_t i = 0; i < selection->count; i++)
        if (selection->is_kept[i])
            link_make(selection, i, &chain->links[chain->count++]);
}

/* Removes the records that the head does not reach any more, because a record had too many causes
 * (LIMIT_ERROR_CAUSES) and gave some up.  The head counts them. */
static void links_prune(struct chain *chain)
{
    bool is_reached[LIMIT_ERROR_GIVEN] = {[0] = true};
    struct chain_link *head = &chain->links[0];
    uint32_t count = 0;
    for (uint32_t i = 0; i < chain->count; i++) {
        struct chain_link *link = &chain->links[i];
        if (!is_reached[link->index]) {
            head->left_out = left_out_sum(head->left_out, 1 + link->left_out);
            continue;
        }
        for (uint32_t at = 0; at < link->cause_count; at++)
            is_reached[link->causes[at]] = true;
        chain->links[count++] = *link;
    }
    chain->count = count;
}

/* The head counts the records that no record of the given chain leads to. */
static void count_strays(struct selection *selection, struct chain *chain)
{
    struct chain_link *head = &chain->links[0];
    for (uint32_t i = 0; i < selection->count; i++)
        if (!selection->is_kept[i] && !selection->is_counted[i])
            head->left_out = left_out_sum(head->left_out, 1 + selection->records[i].left_out);
}

void chain_select(const struct error_record *records, uint32_t count, const size_t *sizes,
                  size_t budget, struct chain *out_chain)
{
    must(count >= 1 && count <= LIMIT_ERROR_GIVEN);
    struct selection selection = {
        .records = records, .count = count, .sizes = sizes, .left = budget};
    keep_record(&selection, 0);
    keep_record(&selection, foremost_root(records));
    keep_roots(&selection);
    keep_rest(&selection);
    links_make(&selection, out_chain);
    links_prune(out_chain);
    count_strays(&selection, out_chain);
}

uint32_t chain_trim(struct error_record *records, uint32_t count)
{
    uint32_t places[LIMIT_ERROR_GIVEN] = {1}; /* 0: nothing leads there; then where it goes */
    uint32_t kept = 0;
    must(count >= 1 && count <= LIMIT_ERROR_GIVEN);
    for (uint32_t i = 0; i < count; i++) {
        if (places[i] == 0)
            continue;
        places[i] = kept;
        for (uint32_t k = 0; k < records[i].cause_count; k++)
            places[records[i].causes[k]] = 1; /* a later record */
        if (kept != i)
            records[kept] = records[i];
        kept += 1;
    }
    for (uint32_t i = 0; i < kept; i++)
        for (uint32_t k = 0; k < records[i].cause_count; k++)
            records[i].causes[k] = places[records[i].causes[k]];
    return kept;
}
