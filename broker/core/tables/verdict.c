/* SPDX-License-Identifier: MPL-2.0 */
/* verdict.c -- keeps errors by id, orders, links and folds them, and finds the root; verdict.h has
 * the rules. */
#include "broker/core/tables/verdict.h"

#include "libbus/base/must.h"

#include <string.h>

#define MS_NS INT64_C(1000000)
/* No period of the bus is longer: a clock that is less sure than this knows nothing. */
#define UNCERTAINTY_NS_MAX ((uint64_t)(LIMIT_PERIOD_MS_MAX * MS_NS))

enum {
    ITEMS_MAX = 2 * LIMIT_VERDICT_ERRORS, /* then the last in order go, so a cut is rare */
    ITEM_ROOM_MIN = 16,
    LOOK_ITEMS = 1024, /* so many more errors, and corrections are looked for once less often */
    BLOCK_ARRAYS = 8,
};

/* Its links and texts lie behind it, in the same block. */
struct verdict_item {
    struct verdict_error error;
    uint64_t arrival;
    int64_t stamp_ns; /* as weighed last */
    size_t bytes;     /* of the block */
    bool is_survived;
};

#define STAY VERDICT_STATE_COUNT

static const enum verdict_state table[VERDICT_STATE_COUNT][VERDICT_EVENT_COUNT] = {
    /* breaks, survives, closes */
    [VERDICT_CALM] = {VERDICT_SETTLING, VERDICT_CALM, STAY},
    [VERDICT_SETTLING] = {STAY, STAY, VERDICT_CLOSED},
    [VERDICT_CLOSED] = {STAY, STAY, STAY},
};

static void verdict_move(struct verdict *verdict, enum verdict_event event)
{
    must(table[verdict->state][event] != STAY);
    verdict->state = table[verdict->state][event];
}

/* ---- order ------------------------------------------------------------------------------------*/

static int compare_bytes(struct span a, struct span b)
{
    size_t bytes = a.bytes < b.bytes ? a.bytes : b.bytes;
    int difference = bytes > 0 ? memcmp(a.data, b.data, bytes) : 0;
    return difference != 0 ? difference : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

/* By length first, so that of two ids that differ in a number the smaller number comes first. */
static int compare_ids(struct span a, struct span b)
{
    if (a.bytes != b.bytes)
        return a.bytes < b.bytes ? -1 : 1;
    return compare_bytes(a, b);
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_times(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* Broker time of the error if it can be believed at now_ns, else 0. */
static int64_t usable_stamp(const struct verdict_error *error, int64_t now_ns)
{
    int64_t stamp_ns = error->occurred_ns;
    if (error->last_sign_ns > 0 && (stamp_ns <= 0 || error->last_sign_ns < stamp_ns))
        stamp_ns = error->last_sign_ns;
    if (stamp_ns <= 0 || error->uncertainty_ns > UNCERTAINTY_NS_MAX)
        return 0;
    int64_t slack_ns = (int64_t)error->uncertainty_ns;
    if (error->believed_from_ns > 0 && stamp_ns < error->believed_from_ns - slack_ns)
        return 0;
    return stamp_ns - slack_ns > now_ns ? 0 : stamp_ns;
}

/* The total order; see verdict.h. */
static int compare_items(const struct verdict_item *a, const struct verdict_item *b)
{
    if ((a->stamp_ns > 0) != (b->stamp_ns > 0))
        return a->stamp_ns > 0 ? -1 : 1;
    int difference = compare_times(a->stamp_ns, b->stamp_ns);
    if (difference == 0 && a->stamp_ns > 0)
        difference = compare_numbers(a->error.uncertainty_ns, b->error.uncertainty_ns);
    if (difference == 0)
        difference = compare_bytes(a->error.party, b->error.party);
    if (difference == 0)
        difference = compare_numbers(a->error.incarnation, b->error.incarnation);
    return difference != 0 ? difference : compare_ids(a->error.id, b->error.id);
}

typedef bool is_before_fn(const struct verdict *verdict, uint32_t a, uint32_t b);

static bool is_item_before(const struct verdict *verdict, uint32_t a, uint32_t b)
{
    return compare_items(verdict->items[a], verdict->items[b]) < 0;
}

/* Which errors stay when not all can: of what was survived, the newest. */
static bool is_kept_before(const struct verdict *verdict, uint32_t a, uint32_t b)
{
    const struct verdict_item *left = verdict->items[a];
    const struct verdict_item *right = verdict->items[b];
    if (left->is_survived != right->is_survived)
        return right->is_survived;
    if (left->error.is_fatal != right->error.is_fatal)
        return left->error.is_fatal;
    return left->is_survived ? is_item_before(verdict, b, a) : is_item_before(verdict, a, b);
}

static int compare_incarnations(const struct verdict_error *a, struct span party,
                                uint64_t incarnation)
{
    int difference = compare_bytes(a->party, party);
    return difference != 0 ? difference : compare_numbers(a->incarnation, incarnation);
}

/* Rows of fatal errors by party and incarnation; within an incarnation, as rows are. */
static bool is_fatal_before(const struct verdict *verdict, uint32_t a, uint32_t b)
{
    const struct verdict_error *right = verdict->rows[b].error;
    int difference = compare_incarnations(verdict->rows[a].error, right->party, right->incarnation);
    return difference != 0 ? difference < 0 : a < b;
}

/* Merges sorted pieces of `width` numbers, two and two, from one list to the other. */
static void merge(const struct verdict *verdict, const uint32_t *from, uint32_t *to, uint32_t count,
                  uint32_t width, is_before_fn *is_before)
{
    for (uint32_t start = 0; start < count; start += 2 * width) {
        uint32_t middle = count - start > width ? start + width : count;
        uint32_t end = count - start > 2 * width ? start + 2 * width : count;
        uint32_t left = start;
        uint32_t right = middle;
        for (uint32_t at = start; at < end; at++) {
            bool takes_right =
                left == middle || (right < end && is_before(verdict, from[right], from[left]));
            to[at] = takes_right ? from[right++] : from[left++];
        }
    }
}

/* Merge sort, bottom up, in n log n whatever the input. */
static void sort(const struct verdict *verdict, uint32_t *list, uint32_t count,
                 is_before_fn *is_before)
{
    uint32_t *from = list;
    uint32_t *to = verdict->spare;
    for (uint32_t width = 1; width < count; width *= 2) {
        merge(verdict, from, to, count, width, is_before);
        uint32_t *other = from;
        from = to;
        to = other;
    }
    if (from != list)
        memcpy(list, from, count * sizeof *list);
}

/* ---- keeping ----------------------------------------------------------------------------------*/

static int compare_causes(const struct verdict_error *a, const struct verdict_error *b)
{
    int difference = 0;
    for (uint32_t i = 0; difference == 0 && i < a->cause_count; i++)
        difference = compare_ids(a->causes[i], b->causes[i]);
    return difference;
}

static int compare_blames(const struct verdict_error *a, const struct verdict_error *b)
{
    int difference = 0;
    for (uint32_t i = 0; difference == 0 && i < a->blame_count; i++) {
        difference = compare_bytes(a->blames[i].party, b->blames[i].party);
        if (difference == 0)
            difference = compare_numbers(a->blames[i].incarnation, b->blames[i].incarnation);
    }
    return difference;
}

/* Compares two versions of one id; below 0: a is better.  It compares all fields but is_fatal,
 * which is joined.  So the order of arrival does not matter. */
static int compare_versions(const struct verdict_error *a, const struct verdict_error *b)
{
    if (a->is_hearsay != b->is_hearsay)
        return a->is_hearsay ? 1 : -1;
    const int differences[] = {
        compare_numbers(b->cause_count, a->cause_count),
        compare_numbers(b->blame_count, a->blame_count),
        compare_times(a->occurred_ns, b->occurred_ns),
        compare_numbers(a->uncertainty_ns, b->uncertainty_ns),
        compare_times(a->last_sign_ns, b->last_sign_ns),
        compare_times(a->believed_from_ns, b->believed_from_ns),
        compare_numbers(a->kind, b->kind),
        compare_numbers(a->recoverable, b->recoverable),
        compare_numbers(a->origin, b->origin),
        compare_times(a->code, b->code),
        compare_incarnations(a, b->party, b->incarnation),
    };
    for (uint32_t i = 0; i < sizeof differences / sizeof *differences; i++)
        if (differences[i] != 0)
            return differences[i];
    int difference = compare_causes(a, b);
    return difference != 0 ? difference : compare_blames(a, b);
}

static bool is_length(struct span text, size_t least, size_t most)
{
    return text.bytes >= least && text.bytes <= most;
}

static bool is_acceptable(const struct verdict *verdict, const struct verdict_error *error)
{
    if (error->attempt != verdict->options.attempt ||
        !is_length(error->id, 1, LIMIT_ERROR_ID_BYTES) ||
        !is_length(error->party, 0, LIMIT_NAME_BYTES) || error->cause_count > LIMIT_ERROR_CAUSES ||
        error->blame_count > LIMIT_ERROR_BLAMES)
        return false;
    for (uint32_t i = 0; i < error->cause_count; i++)
        if (!is_length(error->causes[i], 1, LIMIT_ERROR_ID_BYTES))
            return false;
    for (uint32_t i = 0; i < error->blame_count; i++)
        if (!is_length(error->blames[i].party, 1, LIMIT_NAME_BYTES))
            return false;
    return true;
}

static size_t item_bytes(const struct verdict_error *error)
{
    size_t bytes = sizeof(struct verdict_item) + error->cause_count * sizeof *error->causes +
                   error->blame_count * sizeof *error->blames + error->id.bytes +
                   error->party.bytes;
    for (uint32_t i = 0; i < error->cause_count; i++)
        bytes += error->causes[i].bytes;
    for (uint32_t i = 0; i < error->blame_count; i++)
        bytes += error->blames[i].party.bytes;
    return bytes;
}

/* Copies text to *at, which moves behind it. */
static struct span copy_text(char **at, struct span text)
{
    char *copy = *at;
    if (text.bytes > 0)
        memcpy(copy, text.data, text.bytes);
    *at += text.bytes;
    return span_of(copy, text.bytes);
}

/* NULL: no memory. */
static struct verdict_item *item_new(struct memory *memory, const struct verdict_error *error)
{
    size_t bytes = item_bytes(error);
    struct verdict_item *item = memory_take(memory, bytes);
    if (item == NULL)
        return NULL;
    struct span *causes = (struct span *)(item + 1);
    struct verdict_blame *blames = (struct verdict_blame *)(causes + error->cause_count);
    char *text = (char *)(blames + error->blame_count);
    item->error = *error;
    item->bytes = bytes;
    item->error.id = copy_text(&text, error->id);
    item->error.party = copy_text(&text, error->party);
    item->error.causes = causes;
    item->error.blames = blames;
    for (uint32_t i = 0; i < error->cause_count; i++)
        causes[i] = copy_text(&text, error->causes[i]);
    for (uint32_t i = 0; i < error->blame_count; i++)
        blames[i] = (struct verdict_blame){.party = copy_text(&text, error->blames[i].party),
                                           .incarnation = error->blames[i].incarnation};
    return item;
}

static void item_free(struct verdict *verdict, struct verdict_item *item)
{
    memory_give(verdict->memory, item, item->bytes);
}

static void share_block(struct verdict *verdict)
{
    uint32_t **const arrays[BLOCK_ARRAYS] = {
        &verdict->order,        &verdict->spare,   &verdict->row_of,    &verdict->fatal,
        &verdict->incarnations, &verdict->nearest, &verdict->is_proper, &verdict->leads_on,
    };
    for (uint32_t i = 0; i < BLOCK_ARRAYS; i++)
        *arrays[i] = verdict->block + i * (size_t)verdict->block_room;
}

/* Nothing in the block is kept from one weighing to the next.  A component is a row or an
 * incarnation, and there are no more incarnations than rows, so twice the items and one more is
 * enough for any array. */
static bool reserve_block(struct verdict *verdict, uint32_t items)
{
    uint32_t room = 2 * items + 1;
    if (room <= verdict->block_room)
        return true;
    uint32_t *block = memory_take(verdict->memory, (size_t)room * BLOCK_ARRAYS * sizeof *block);
    if (block == NULL)
        return false;
    memory_give(verdict->memory, verdict->block,
                (size_t)verdict->block_room * BLOCK_ARRAYS * sizeof *block);
    verdict->block = block;
    verdict->block_room = room;
    share_block(verdict);
    return true;
}

static bool reserve_rows(struct verdict *verdict, uint32_t count)
{
    if (count <= verdict->row_room)
        return true;
    struct verdict_row *rows = memory_resize(
        verdict->memory, verdict->rows, verdict->row_room * sizeof *rows, count * sizeof *rows);
    if (rows == NULL)
        return false;
    verdict->rows = rows;
    verdict->row_room = count;
    verdict->result.rows = rows;
    return true;
}

static bool reserve_items(struct verdict *verdict, uint32_t count)
{
    if (count <= verdict->item_room)
        return true;
    struct verdict_item **items = memory_resize(
        verdict->memory, verdict->items, verdict->item_room * sizeof *items, count * sizeof *items);
    if (items == NULL)
        return false;
    verdict->items = items;
    verdict->item_room = count;
    return true;
}

/* Everything that weighing will need when so many links and an item have been added. */
static bool verdict_reserve(struct verdict *verdict, uint32_t more_links)
{
    uint32_t links = verdict->link_count + more_links;
    uint32_t room = verdict->item_room;
    if (verdict->item_count == room)
        room = room > 0 ? 2 * room : ITEM_ROOM_MIN;
    return name_map_reserve(&verdict->by_id) && reserve_block(verdict, room) &&
           reserve_rows(verdict, room) && graph_reserve(&verdict->graph, 2 * room, links + room) &&
           reserve_items(verdict, room);
}

static uint32_t link_count(const struct verdict_error *error)
{
    return error->cause_count + error->blame_count;
}

static bool is_fresh(const struct verdict_item *item)
{
    return item->error.is_fatal && !item->is_survived;
}

/* Sets the stamps as of now_ns and puts the numbers of all items into verdict->order. */
static void put_in_order(struct verdict *verdict, int64_t now_ns, is_before_fn *is_before)
{
    for (uint32_t i = 0; i < verdict->item_count; i++) {
        verdict->items[i]->stamp_ns = usable_stamp(&verdict->items[i]->error, now_ns);
        verdict->order[i] = i;
    }
    sort(verdict, verdict->order, verdict->item_count, is_before);
}

/* The names of all items, after some have gone.  Fewer than before: the map has room. */
static void name_items(struct verdict *verdict)
{
    for (uint32_t i = 0; i < verdict->item_count; i++) {
        bool is_put = name_map_put(&verdict->by_id, verdict->items[i]->error.id, i);
        must(is_put);
    }
}

/* Drops the errors beyond the limit.  It uses the stamps as given, so the moment of the cut does
 * not matter. */
static void verdict_cut(struct verdict *verdict)
{
    if (verdict->item_count <= LIMIT_VERDICT_ERRORS)
        return;
    put_in_order(verdict, INT64_MAX, is_kept_before);
    for (uint32_t i = 0; i < verdict->item_count; i++)
        name_map_remove(&verdict->by_id, verdict->items[i]->error.id);
    for (uint32_t i = LIMIT_VERDICT_ERRORS; i < verdict->item_count; i++) {
        struct verdict_item **item = &verdict->items[verdict->order[i]];
        verdict->has_left_out = verdict->has_left_out || !(*item)->is_survived;
        verdict->fresh_count -= is_fresh(*item);
        verdict->link_count -= link_count(&(*item)->error);
        item_free(verdict, *item);
        *item = NULL;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < verdict->item_count; i++)
        if (verdict->items[i] != NULL)
            verdict->items[count++] = verdict->items[i];
    verdict->item_count = count;
    name_items(verdict);
}

/* An error whose id was not there; room is reserved. */
static void item_keep(struct verdict *verdict, struct verdict_item *item)
{
    item->arrival = ++verdict->arrivals;
    verdict->items[verdict->item_count++] = item;
    verdict->link_count += link_count(&item->error);
    verdict->fresh_count += is_fresh(item);
    bool is_put = name_map_put(&verdict->by_id, item->error.id, verdict->item_count - 1);
    must(is_put);
}

/* Puts the better version in the place of the one that is there. */
static void replace(struct verdict *verdict, uint32_t index, struct verdict_item *better)
{
    struct verdict_item *item = verdict->items[index];
    better->arrival = item->arrival;
    better->is_survived = item->is_survived;
    better->error.is_fatal = item->error.is_fatal;
    name_map_remove(&verdict->by_id, item->error.id);
    bool is_put = name_map_put(&verdict->by_id, better->error.id, index);
    must(is_put);
    verdict->link_count += link_count(&better->error);
    verdict->link_count -= link_count(&item->error);
    verdict->items[index] = better;
    item_free(verdict, item);
}

static enum verdict_err add_version(struct verdict *verdict, uint32_t index,
                                    const struct verdict_error *error)
{
    if (compare_versions(error, &verdict->items[index]->error) < 0) {
        struct verdict_item *better =
            verdict_reserve(verdict, link_count(error)) ? item_new(verdict->memory, error) : NULL;
        if (better == NULL)
            return VERDICT_NO_MEMORY;
        replace(verdict, index, better);
    }
    struct verdict_item *item = verdict->items[index];
    if (error->is_fatal && !item->error.is_fatal) {
        item->error.is_fatal = true;
        item->is_survived = false;
        verdict->fresh_count += 1;
    }
    return VERDICT_KNOWN;
}

static enum verdict_err add_new(struct verdict *verdict, const struct verdict_error *error)
{
    if (verdict->item_count == ITEMS_MAX)
        verdict_cut(verdict);
    struct verdict_item *item =
        verdict_reserve(verdict, link_count(error)) ? item_new(verdict->memory, error) : NULL;
    if (item == NULL)
        return VERDICT_NO_MEMORY;
    item_keep(verdict, item);
    return VERDICT_OK;
}

/* ---- weighing ---------------------------------------------------------------------------------*/

static void list_rows(struct verdict *verdict, int64_t now_ns)
{
    put_in_order(verdict, now_ns, is_item_before);
    for (uint32_t row = 0; row < verdict->item_count; row++) {
        const struct verdict_item *item = verdict->items[verdict->order[row]];
        verdict->row_of[verdict->order[row]] = row;
        verdict->rows[row] = (struct verdict_row){.error = &item->error,
                                                  .stamp_ns = item->stamp_ns,
                                                  .role = VERDICT_ASIDE,
                                                  .next = VERDICT_NONE};
    }
}

static const struct verdict_item *item_at(const struct verdict *verdict, uint32_t row)
{
    return verdict->items[verdict->order[row]];
}

/* The incarnations that can be blamed, each with its fatal errors. */
static void list_incarnations(struct verdict *verdict)
{
    uint32_t count = 0;
    for (uint32_t row = 0; row < verdict->item_count; row++)
        if (verdict->rows[row].error->is_fatal)
            verdict->fatal[count++] = row;
    sort(verdict, verdict->fatal, count, is_fatal_before);
    verdict->incarnation_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct verdict_error *error = verdict->rows[verdict->fatal[i]].error;
        const struct verdict_error *before =
            i > 0 ? verdict->rows[verdict->fatal[i - 1]].error : NULL;
        if (before == NULL || compare_incarnations(before, error->party, error->incarnation) != 0)
            verdict->incarnations[verdict->incarnation_count++] = i;
    }
    verdict->incarnations[verdict->incarnation_count] = count;
}

/* The incarnation that a blame is about, or VERDICT_NONE.  It is the last one that is not behind
 * (party, incarnation), if the party is the same and, where the blame names one, the incarnation
 * too. */
static uint32_t find_incarnation(const struct verdict *verdict, const struct verdict_blame *blame)
{
    uint64_t newest = blame->incarnation > 0 ? blame->incarnation : UINT64_MAX;
    uint32_t low = 0;
    uint32_t high = verdict->incarnation_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct verdict_error *error =
            verdict->rows[verdict->fatal[verdict->incarnations[middle]]].error;
        if (compare_incarnations(error, blame->party, newest) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return VERDICT_NONE;
    const struct verdict_error *found =
        verdict->rows[verdict->fatal[verdict->incarnations[low - 1]]].error;
    bool is_it = span_equal(found->party, blame->party) &&
                 (blame->incarnation == 0 || blame->incarnation == found->incarnation);
    return is_it ? low - 1 : VERDICT_NONE;
}

static bool is_own_incarnation(const struct verdict_error *error, const struct verdict_blame *blame)
{
    return span_equal(error->party, blame->party) &&
           (blame->incarnation == 0 || blame->incarnation == error->incarnation);
}

static void link_row(struct verdict *verdict, uint32_t row)
{
    const struct verdict_error *error = verdict->rows[row].error;
    graph_add_node(&verdict->graph);
    for (uint32_t i = 0; i < error->cause_count; i++) {
        uint32_t item;
        if (!name_map_get(&verdict->by_id, error->causes[i], &item))
            verdict->rows[row].unknown_count += 1;
        else
            graph_add_edge(&verdict->graph, verdict->row_of[item]);
    }
    for (uint32_t i = 0; i < error->blame_count; i++) {
        uint32_t incarnation = VERDICT_NONE;
        if (!is_own_incarnation(error, &error->blames[i]))
            incarnation = find_incarnation(verdict, &error->blames[i]);
        if (incarnation != VERDICT_NONE)
            graph_add_edge(&verdict->graph, verdict->item_count + incarnation);
    }
}

/* An incarnation is a node of its own between those who blame it and its errors: k who blame one
 * with k errors make 2 k edges, not k times k. */
static void link_all(struct verdict *verdict)
{
    graph_clear(&verdict->graph);
    for (uint32_t row = 0; row < verdict->item_count; row++)
        link_row(verdict, row);
    for (uint32_t incarnation = 0; incarnation < verdict->incarnation_count; incarnation++) {
        graph_add_node(&verdict->graph);
        for (uint32_t i = verdict->incarnations[incarnation];
             i < verdict->incarnations[incarnation + 1]; i++)
            graph_add_edge(&verdict->graph, verdict->fatal[i]);
    }
    graph_seal(&verdict->graph);
    for (uint32_t row = 0; row < verdict->item_count; row++)
        if (is_fresh(item_at(verdict, row)))
            graph_reach(&verdict->graph, row);
    graph_fold(&verdict->graph);
}

static bool is_in_scope(const struct verdict *verdict, uint32_t row)
{
    return verdict->graph.is_reached[row] != 0;
}

static bool is_consequence(const struct verdict *verdict, uint32_t row)
{
    uint64_t kind = verdict->rows[row].error->kind;
    return kind < 64 && (verdict->options.consequence_kinds >> kind & 1) != 0;
}

/* Whether an error may be the root for its kind: mere consequences where there is nothing else. */
static bool is_proper_row(const struct verdict *verdict, uint32_t row)
{
    return !verdict->has_cause || !is_consequence(verdict, row);
}

static void find_proper(struct verdict *verdict)
{
    const struct graph *graph = &verdict->graph;
    verdict->has_cause = false;
    for (uint32_t row = 0; row < verdict->item_count; row++)
        if (is_in_scope(verdict, row) && !is_consequence(verdict, row))
            verdict->has_cause = true;
    for (uint32_t i = 0; i < graph->component_count; i++)
        verdict->is_proper[i] = verdict->leads_on[i] = 0;
    for (uint32_t row = 0; row < verdict->item_count; row++)
        if (is_proper_row(verdict, row))
            verdict->is_proper[graph->component[row]] = 1;
}

/* Components come with those to which they lead before them, so one walk is enough. */
static void find_ends(struct verdict *verdict)
{
    const struct graph *graph = &verdict->graph;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        uint32_t node = graph->folded[i];
        uint32_t here = graph->component[node];
        for (uint32_t edge = graph->first[node]; edge < graph->first[node + 1]; edge++) {
            uint32_t there = graph->component[graph->to[edge]];
            if (there != here && (verdict->is_proper[there] || verdict->leads_on[there]))
                verdict->leads_on[here] = 1;
        }
    }
}

static bool is_candidate(const struct verdict *verdict, uint32_t row)
{
    if (!is_in_scope(verdict, row) || !is_proper_row(verdict, row))
        return false;
    return verdict->options.strategy != VERDICT_CAUSAL ||
           !verdict->leads_on[verdict->graph.component[row]];
}

static bool is_preferred(const struct verdict *verdict, uint32_t row, uint32_t to)
{
    if (to == VERDICT_NONE || verdict->options.strategy != VERDICT_FIRST)
        return row < to;
    return item_at(verdict, row)->arrival < item_at(verdict, to)->arrival;
}

static bool is_overlapping(const struct verdict_row *a, const struct verdict_row *b)
{
    if (a->stamp_ns == 0 || b->stamp_ns == 0)
        return false;
    int64_t apart_ns =
        a->stamp_ns > b->stamp_ns ? a->stamp_ns - b->stamp_ns : b->stamp_ns - a->stamp_ns;
    return (uint64_t)apart_ns <= a->error->uncertainty_ns + b->error->uncertainty_ns;
}

static void choose(struct verdict *verdict, struct verdict_result *result)
{
    for (uint32_t row = 0; row < verdict->item_count; row++) {
        if (!is_candidate(verdict, row))
            continue;
        result->candidate_count += 1;
        if (is_preferred(verdict, row, result->root)) {
            result->rival = result->root;
            result->root = row;
        } else if (is_preferred(verdict, row, result->rival)) {
            result->rival = row;
        }
    }
    for (uint32_t row = 0; row < verdict->item_count; row++)
        if (row != result->root && is_candidate(verdict, row) &&
            is_overlapping(&verdict->rows[result->root], &verdict->rows[row]))
            result->close_count += 1;
}

static void explain(struct verdict *verdict, struct verdict_result *result)
{
    if (result->rival == VERDICT_NONE) {
        result->reason = result->root == VERDICT_NONE ? VERDICT_NO_ROOT : VERDICT_ALONE;
        return;
    }
    const struct verdict_row *root = &verdict->rows[result->root];
    const struct verdict_row *rival = &verdict->rows[result->rival];
    result->is_rival_folded =
        verdict->graph.component[result->root] == verdict->graph.component[result->rival];
    if (verdict->options.strategy == VERDICT_FIRST) {
        result->reason = VERDICT_ARRIVED;
    } else if (root->stamp_ns == 0) {
        result->reason = VERDICT_NAMED;
    } else if (rival->stamp_ns == 0) {
        result->reason = VERDICT_STAMPED;
    } else if (root->stamp_ns != rival->stamp_ns) {
        result->apart_ns = (uint64_t)(rival->stamp_ns - root->stamp_ns);
        result->reason = is_overlapping(root, rival) ? VERDICT_STAMP_CLOSE : VERDICT_STAMP;
    } else {
        bool is_surer = root->error->uncertainty_ns != rival->error->uncertainty_ns;
        result->reason = is_surer ? VERDICT_SURER : VERDICT_NAMED;
    }
}

/* The nearest error of each incarnation is the first in order of those that are one step behind
 * it. */
static void find_nearest(struct verdict *verdict)
{
    const uint32_t *steps = verdict->graph.steps;
    for (uint32_t incarnation = 0; incarnation < verdict->incarnation_count; incarnation++) {
        uint32_t behind = steps[verdict->item_count + incarnation];
        uint32_t at = verdict->incarnations[incarnation];
        while (behind != GRAPH_NONE && steps[verdict->fatal[at]] + 1 != behind)
            at += 1;
        verdict->nearest[incarnation] = verdict->fatal[at];
    }
}

/* The next row on the way to the root: of all edges that are the shortest way, the first row. */
static void find_next(struct verdict *verdict, uint32_t row)
{
    const struct graph *graph = &verdict->graph;
    struct verdict_row *victim = &verdict->rows[row];
    for (uint32_t edge = graph->first[row]; edge < graph->first[row + 1]; edge++) {
        uint32_t target = graph->to[edge];
        if (graph->steps[target] + 1 != victim->steps)
            continue;
        bool is_cause = target < verdict->item_count;
        uint32_t next = is_cause ? target : verdict->nearest[target - verdict->item_count];
        if (next < victim->next) {
            victim->next = next;
            victim->link = is_cause ? VERDICT_LINK_CAUSE : VERDICT_LINK_BLAME;
        }
    }
}

static void group(struct verdict *verdict, struct verdict_result *result)
{
    graph_measure(&verdict->graph, result->root);
    find_nearest(verdict);
    result->farthest = result->root;
    for (uint32_t row = 0; row < verdict->item_count; row++) {
        uint32_t steps = verdict->graph.steps[row];
        if (row == result->root) {
            verdict->rows[row].role = VERDICT_ROOT;
        } else if (steps != GRAPH_NONE) {
            verdict->rows[row].role = VERDICT_VICTIM;
            verdict->rows[row].steps = steps;
            find_next(verdict, row);
            result->victim_count += 1;
            if (steps > verdict->rows[result->farthest].steps)
                result->farthest = row;
        } else if (is_in_scope(verdict, row)) {
            verdict->rows[row].role = VERDICT_APART;
            result->apart_count += 1;
        }
    }
}

static void weigh_items(struct verdict *verdict, int64_t now_ns, struct verdict_result *result)
{
    list_rows(verdict, now_ns);
    list_incarnations(verdict);
    link_all(verdict);
    find_proper(verdict);
    find_ends(verdict);
    choose(verdict, result);
    explain(verdict, result);
    if (result->root != VERDICT_NONE)
        group(verdict, result);
    for (uint32_t row = 0; row < verdict->item_count; row++)
        if (is_in_scope(verdict, row))
            result->unknown_count += verdict->rows[row].unknown_count;
}

const struct verdict_result *verdict_weigh(struct verdict *verdict, int64_t now_ns)
{
    if (verdict->state == VERDICT_CLOSED)
        return &verdict->result;
    verdict_cut(verdict);
    struct verdict_result result = {.rows = verdict->rows,
                                    .row_count = verdict->item_count,
                                    .root = VERDICT_NONE,
                                    .rival = VERDICT_NONE,
                                    .farthest = VERDICT_NONE};
    if (verdict->item_count > 0) /* else there are no arrays yet */
        weigh_items(verdict, now_ns, &result);
    result.is_complete = result.unknown_count == 0 && !verdict->has_left_out;
    verdict->result = result;
    return &verdict->result;
}

const struct verdict_result *verdict_result(const struct verdict *verdict)
{
    return &verdict->result;
}

/* ---- when -------------------------------------------------------------------------------------*/

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

void verdict_set_windows(struct verdict *verdict, int64_t settle_ns, int64_t settle_ns_max)
{
    struct verdict_options *own = &verdict->options;
    own->settle_ns = clamp(settle_ns, 0, LIMIT_PERIOD_MS_MAX * MS_NS);
    own->settle_ns_max = clamp(settle_ns_max, own->settle_ns, LIMIT_PERIOD_MS_MAX * MS_NS);
}

void verdict_init(struct verdict *verdict, struct memory *memory,
                  const struct verdict_options *options)
{
    *verdict = (struct verdict){.memory = memory, .options = *options};
    verdict_set_windows(verdict, options->settle_ns, options->settle_ns_max);
    name_map_init(&verdict->by_id, memory);
    graph_init(&verdict->graph, memory);
    verdict->result = (struct verdict_result){
        .root = VERDICT_NONE, .rival = VERDICT_NONE, .farthest = VERDICT_NONE, .is_complete = true};
}

void verdict_fini(struct verdict *verdict)
{
    struct memory *memory = verdict->memory;
    struct verdict_options options = verdict->options;
    for (uint32_t i = 0; i < verdict->item_count; i++)
        item_free(verdict, verdict->items[i]);
    memory_give(memory, verdict->items, verdict->item_room * sizeof *verdict->items);
    memory_give(memory, verdict->rows, verdict->row_room * sizeof *verdict->rows);
    memory_give(memory, verdict->block,
                (size_t)verdict->block_room * BLOCK_ARRAYS * sizeof *verdict->block);
    name_map_fini(&verdict->by_id);
    graph_fini(&verdict->graph);
    verdict_init(verdict, memory, &options);
}

static bool is_enough(const struct verdict_job *job)
{
    return !job->is_called_off && job->remaining >= job->remaining_min;
}

static bool may_go_on(const struct verdict_job *job)
{
    return !job->is_called_off && (job->remaining >= job->remaining_min || job->awaits_spares);
}

/* How long a window stays open as things are. */
static int64_t verdict_window_ns(const struct verdict *verdict)
{
    return verdict->job.doubtful > 0 ? verdict->options.settle_ns_max : verdict->options.settle_ns;
}

static bool is_window_over(const struct verdict *verdict, int64_t since_ns, int64_t now_ns)
{
    return now_ns - since_ns >= verdict_window_ns(verdict);
}

void verdict_set_survived(struct verdict *verdict)
{
    if (verdict->state != VERDICT_CALM)
        return;
    verdict_move(verdict, VERDICT_SURVIVES);
    for (uint32_t i = 0; i < verdict->item_count; i++)
        verdict->items[i]->is_survived = true;
    verdict->fresh_count = 0;
}

bool verdict_survive(struct verdict *verdict, int64_t now_ns)
{
    if (verdict->state != VERDICT_CALM || verdict->fresh_count == 0 || !is_enough(&verdict->job) ||
        !is_window_over(verdict, verdict->loss_ns, now_ns))
        return false;
    verdict_set_survived(verdict);
    return true;
}

void verdict_stood_still(struct verdict *verdict, int64_t gap_ns)
{
    verdict->loss_ns += gap_ns;
    verdict->opened_ns += gap_ns;
    verdict->looked_ns += gap_ns;
}

/* The window closes by the clock, whether or not a step has said so yet. */
static bool is_late(const struct verdict *verdict, int64_t now_ns)
{
    return verdict->state == VERDICT_CLOSED ||
           (verdict->state == VERDICT_SETTLING &&
            is_window_over(verdict, verdict->opened_ns, now_ns));
}

enum verdict_err verdict_add(struct verdict *verdict, int64_t now_ns,
                             const struct verdict_error *error)
{
    enum verdict_err err = VERDICT_REFUSED;
    uint32_t index;
    (void)verdict_survive(verdict, now_ns);
    if (!is_acceptable(verdict, error)) {
        verdict->refused_count += 1;
        goto done;
    }
    if (is_late(verdict, now_ns)) {
        verdict->late_count += 1;
        err = VERDICT_LATE;
        goto done;
    }
    uint32_t fresh_before = verdict->fresh_count;
    err = name_map_get(&verdict->by_id, error->id, &index) ? add_version(verdict, index, error)
                                                           : add_new(verdict, error);
    if (err == VERDICT_NO_MEMORY)
        verdict->has_left_out = true;
    if (verdict->fresh_count > fresh_before)
        verdict->loss_ns = now_ns;
    verdict->has_news = true;
done:
    return err;
}

enum verdict_err verdict_leave_out(struct verdict *verdict, int64_t now_ns)
{
    if (is_late(verdict, now_ns)) {
        verdict->late_count += 1;
        return VERDICT_LATE;
    }
    verdict->has_left_out = true;
    verdict->has_news = true;
    return VERDICT_NO_MEMORY;
}

/* Weighs, and keeps the root that is told.  true: it is another root than the last one told. */
static bool verdict_look_at(struct verdict *verdict, int64_t now_ns)
{
    const struct verdict_result *result = verdict_weigh(verdict, now_ns);
    struct span said = span_of(verdict->said_root, verdict->said_root_bytes);
    struct span root = SPAN_NONE;
    if (result->root != VERDICT_NONE)
        root = result->rows[result->root].error->id;
    bool is_another = !span_equal(said, root);
    verdict->looked_ns = now_ns;
    verdict->has_news = false;
    verdict->said_root_bytes = (uint32_t)root.bytes;
    if (root.bytes > 0)
        memcpy(verdict->said_root, root.data, root.bytes);
    return is_another;
}

static enum verdict_says step_calm(struct verdict *verdict, int64_t now_ns)
{
    if (may_go_on(&verdict->job)) {
        (void)verdict_survive(verdict, now_ns);
        return VERDICT_SAYS_NOTHING;
    }
    if (verdict->fresh_count == 0)
        return VERDICT_SAYS_NOTHING;
    (void)verdict_look_at(verdict, now_ns); /* nothing was said before */
    verdict->opened_ns = now_ns;
    verdict_move(verdict, VERDICT_BREAKS);
    return VERDICT_SAYS_PROVISIONAL;
}

/* The least time between two weighings.  One takes time linear in all errors (3.5 us each with ten
 * links, measured 2026-11), and the broker has other work. */
static int64_t look_ns(const struct verdict *verdict)
{
    return LIMIT_VERDICT_LOOK_MS * MS_NS * (1 + verdict->item_count / LOOK_ITEMS);
}

static enum verdict_says step_settling(struct verdict *verdict, int64_t now_ns)
{
    if (verdict->job.unended == 0 || is_window_over(verdict, verdict->opened_ns, now_ns)) {
        (void)verdict_look_at(verdict,
                              now_ns); /* the final word is said whether or not the root is new */
        verdict->result.is_final = true;
        verdict_move(verdict, VERDICT_CLOSES);
        return VERDICT_SAYS_FINAL;
    }
    bool is_time = now_ns - verdict->looked_ns >= look_ns(verdict);
    bool is_another = verdict->has_news && is_time && verdict_look_at(verdict, now_ns);
    return is_another ? VERDICT_SAYS_CORRECTED : VERDICT_SAYS_NOTHING;
}

enum verdict_says verdict_step(struct verdict *verdict, int64_t now_ns,
                               const struct verdict_job *job)
{
    verdict->job = *job;
    switch (verdict->state) {
    case VERDICT_CALM: return step_calm(verdict, now_ns);
    case VERDICT_SETTLING: return step_settling(verdict, now_ns);
    case VERDICT_CLOSED:
    case VERDICT_STATE_COUNT: break;
    }
    return VERDICT_SAYS_NOTHING;
}

void verdict_restore_final(struct verdict *verdict, int64_t now_ns)
{
    if (verdict->state == VERDICT_CALM)
        verdict_move(verdict, VERDICT_BREAKS);
    if (verdict->state == VERDICT_CLOSED)
        return;
    (void)verdict_look_at(verdict, now_ns); /* for the rows: what was said is in the journal */
    verdict->result.is_final = true;
    verdict_move(verdict, VERDICT_CLOSES);
}

static int64_t later_within(int64_t since_ns, int64_t ns)
{
    return since_ns > INT64_MAX - ns ? INT64_MAX : since_ns + ns;
}

int64_t verdict_due_ns(const struct verdict *verdict)
{
    if (verdict->state == VERDICT_CALM && verdict->fresh_count > 0 && is_enough(&verdict->job))
        return later_within(verdict->loss_ns, verdict_window_ns(verdict));
    if (verdict->state != VERDICT_SETTLING)
        return INT64_MAX;
    int64_t close_ns = later_within(verdict->opened_ns, verdict_window_ns(verdict));
    int64_t next_ns = later_within(verdict->looked_ns, look_ns(verdict));
    return verdict->has_news && next_ns < close_ns ? next_ns : close_ns;
}

/* ---- words ------------------------------------------------------------------------------------*/

const char *verdict_reason_name(enum verdict_reason reason)
{
    static const char *const names[VERDICT_REASON_COUNT] = {
        [VERDICT_NO_ROOT] = "no_root", [VERDICT_ALONE] = "alone",
        [VERDICT_STAMP] = "stamp",     [VERDICT_STAMP_CLOSE] = "stamp_close",
        [VERDICT_STAMPED] = "stamped", [VERDICT_SURER] = "surer",
        [VERDICT_NAMED] = "named",     [VERDICT_ARRIVED] = "arrived",
    };
    return names[reason];
}

const char *verdict_reason_text(enum verdict_reason reason)
{
    static const char *const texts[VERDICT_REASON_COUNT] = {
        [VERDICT_NO_ROOT] = "there is nothing that the job failed of",
        [VERDICT_ALONE] = "no other error could be the root",
        [VERDICT_STAMP] = "it occurred {apart} before {rival}",
        [VERDICT_STAMP_CLOSE] = "it seems {apart} before {rival}, closer than clocks can tell",
        [VERDICT_STAMPED] = "{rival} has no usable stamp",
        [VERDICT_SURER] = "stamped the same as {rival}, it is the surer",
        [VERDICT_NAMED] = "nothing tells it from {rival} but the order of their names",
        [VERDICT_ARRIVED] = "it arrived before {rival}",
    };
    return texts[reason];
}

const char *verdict_role_name(enum verdict_role role)
{
    static const char *const names[VERDICT_ROLE_COUNT] = {
        [VERDICT_ROOT] = "root",
        [VERDICT_VICTIM] = "victim",
        [VERDICT_APART] = "apart",
        [VERDICT_ASIDE] = "aside",
    };
    return names[role];
}

static const char *const strategies[VERDICT_STRATEGY_COUNT] = {
    [VERDICT_CAUSAL] = "causal",
    [VERDICT_EARLIEST] = "earliest",
    [VERDICT_FIRST] = "first",
};

const char *verdict_strategy_name(enum verdict_strategy strategy)
{
    return strategies[strategy];
}

bool verdict_strategy_find(struct span name, enum verdict_strategy *out_strategy)
{
    for (uint32_t i = 0; i < VERDICT_STRATEGY_COUNT; i++)
        if (span_equal(span_text(strategies[i]), name)) {
            *out_strategy = (enum verdict_strategy)i;
            return true;
        }
    return false;
}
