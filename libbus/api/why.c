/* SPDX-License-Identifier: MPL-2.0 */
/* why.c -- who waits for whom in a job: the rows of the broker as a graph, with its roots. */
#include "libbus/api/admin.h"
#include "libbus/api/error.h"
#include "libbus/api/grow.h"
#include "libbus/api/model.h"
#include "libbus/api/names.h"
#include "libbus/base/pattern.h"
#include "libbus/base/wait_graph.h"

#include <bus/why.h>

#include <stdlib.h>
#include <string.h>

/* A node with its texts, in one block. */
struct node {
    struct bus_why_node public;
    uint32_t number; /* in the answer */
    char texts[];
};

struct edge {
    struct bus_why_edge public;
    char topic[LIMIT_NAME_BYTES + 1];
};

struct bus_why {
    struct node **nodes;
    size_t node_count, node_room;
    struct edge **edges;
    size_t edge_count, edge_room;
    uint64_t left_out;
    struct memory memory;
    struct wait_graph graph; /* its nodes are indexes of nodes */
    size_t asked;            /* the node whose waiters stand in graph.queue; SIZE_MAX: none */
    uint32_t asked_count;
};

/* ---- words ----------------------------------------------------------------------------------- */

const char *bus_why_kind_name(enum bus_why_kind kind)
{
    static const char *const names[] = {"party",    "barrier", "group", "job", "reader",
                                        "requests", "room",    "slot",  "rate"};
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

const char *bus_wait_name(enum bus_wait wait)
{
    static const char *const names[] = {
        "slot",   "unpromised", "reply",  "group", "busy", "unserved", "barrier", "missing",
        "credit", "room",       "gather", "read",  "owed", "needed",   "members", "rate"};
    return (unsigned)wait < sizeof names / sizeof names[0] ? names[wait] : "unknown";
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool why_add_node(struct bus_why *why, const struct msg_why_node *from)
{
    struct node **nodes =
        api_grow(why->nodes, why->node_count, &why->node_room, sizeof(struct node *));
    if (nodes == NULL)
        return false;
    why->nodes = nodes;
    struct node *node = malloc(sizeof *node + from->name.bytes + from->where.bytes + 2);
    if (node == NULL)
        return false;
    char *at = node->texts;
    node->number = (uint32_t)from->node;
    node->public = (struct bus_why_node){
        .kind = from->kind < BUS_WHY_UNKNOWN ? (enum bus_why_kind)from->kind : BUS_WHY_UNKNOWN,
        .incarnation = (uint32_t)from->incarnation,
        .state = names_state(from->state),
        .silent_ms = from->silent_ms,
        .open = from->open,
        .count = from->count,
        .seq = from->seq,
    };
    if (from->kind == BUS_WHY_SLOT)
        node->public.open = !span_equal(from->state, span_text("settled"));
    node->public.name = api_place(&at, from->name);
    node->public.where = api_place(&at, from->where);
    why->nodes[why->node_count++] = node;
    return true;
}

/* Its ends are numbers of the answer still. */
static bool why_add_edge(struct bus_why *why, const struct msg_why_edge *from)
{
    struct edge **edges =
        api_grow(why->edges, why->edge_count, &why->edge_room, sizeof(struct edge *));
    if (edges == NULL)
        return false;
    why->edges = edges;
    struct edge *edge = malloc(sizeof *edge);
    if (edge == NULL)
        return false;
    char *at = edge->topic;
    edge->public = (struct bus_why_edge){
        .from = (size_t)from->from,
        .to = (size_t)from->to,
        .wait = from->kind < BUS_WAIT_UNKNOWN ? (enum bus_wait)from->kind : BUS_WAIT_UNKNOWN,
        .count = from->count,
        .since_ms = from->since_ms,
        .is_blocked = (int)from->is_said,
        .topic = api_place(&at, from->topic),
        .seq = from->seq,
    };
    why->edges[why->edge_count++] = edge;
    return true;
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* The index of each number of the answer.  NULL: no memory. */
static size_t *indexes_of(const struct bus_why *why, size_t *out_count)
{
    size_t count = 1;
    for (size_t i = 0; i < why->node_count; i++)
        if (why->nodes[i]->number >= count)
            count = (size_t)why->nodes[i]->number + 1;
    size_t *indexes = malloc(count * sizeof *indexes);
    for (size_t i = 0; indexes != NULL && i < count; i++)
        indexes[i] = SIZE_MAX;
    for (size_t i = 0; indexes != NULL && i < why->node_count; i++)
        indexes[why->nodes[i]->number] = i;
    *out_count = count;
    return indexes;
}

/* Ends of edges become indexes.  An edge whose end is not among the nodes is none. */
static void aim_edges(struct bus_why *why, const size_t *indexes, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < why->edge_count; i++) {
        struct edge *edge = why->edges[i];
        bool is_known = edge->public.from < count && edge->public.to < count &&
                        indexes[edge->public.from] != SIZE_MAX &&
                        indexes[edge->public.to] != SIZE_MAX;
        if (!is_known) {
            free(edge);
            continue;
        }
        edge->public.from = indexes[edge->public.from];
        edge->public.to = indexes[edge->public.to];
        why->edges[kept++] = edge;
    }
    why->edge_count = kept;
}

static bool solve(struct bus_why *why)
{
    struct wait_graph *graph = &why->graph;
    if (!wait_graph_reserve(graph, (uint32_t)why->node_count, (uint32_t)why->edge_count))
        return false;
    for (size_t i = 0; i < why->node_count; i++)
        (void)wait_graph_add_node(graph, why->nodes[i]->public.kind == BUS_WHY_BARRIER
                                             ? WAIT_FOR_ALL
                                             : WAIT_FOR_ANY); /* the same number */
    for (size_t i = 0; i < why->edge_count; i++)
        wait_graph_add_edge(graph, (uint32_t)why->edges[i]->public.from,
                            (uint32_t)why->edges[i]->public.to);
    wait_graph_solve(graph);
    return true;
}

static size_t count_parties(const struct bus_why *why, uint32_t count)
{
    size_t parties = 0;
    for (uint32_t i = 0; i < count; i++)
        parties += why->nodes[why->graph.queue[i]]->public.kind == BUS_WHY_PARTY;
    return parties;
}

static void lengthen(const struct bus_why *why, const struct bus_why_edge *edge)
{
    struct bus_why_node *to = &why->nodes[edge->to]->public;
    if (edge->from != edge->to && edge->since_ms > to->since_ms)
        to->since_ms = edge->since_ms;
}

/* A barrier waits for as long as the first who came to it. */
static void describe_nodes(struct bus_why *why)
{
    struct wait_graph *graph = &why->graph;
    for (size_t i = 0; i < why->node_count; i++) {
        struct bus_why_node *node = &why->nodes[i]->public;
        uint32_t cycle = graph->cycle[i];
        node->cycle = cycle != WAIT_GRAPH_NONE ? cycle + 1 : 0;
        node->is_root = wait_graph_is_root(graph, (uint32_t)i);
        if (node->is_root || node->cycle != 0)
            node->waiters = count_parties(why, wait_graph_waiters(graph, (uint32_t)i));
    }
    for (size_t i = 0; i < why->edge_count; i++)
        lengthen(why, &why->edges[i]->public);
    for (size_t i = 0; i < why->edge_count; i++) {
        struct bus_why_edge *edge = &why->edges[i]->public;
        if (edge->wait != BUS_WAIT_MISSING)
            continue;
        edge->since_ms = why->nodes[edge->from]->public.since_ms;
        lengthen(why, edge);
    }
}

static int place_of(const struct bus_why_node *node)
{
    if (node->is_root)
        return 0;
    return node->cycle != 0 ? 1 : 2;
}

static int node_compare(const void *left, const void *right)
{
    const struct bus_why_node *a = &(*(struct node *const *)left)->public;
    const struct bus_why_node *b = &(*(struct node *const *)right)->public;
    if (place_of(a) != place_of(b))
        return place_of(a) < place_of(b) ? -1 : 1;
    if (a->cycle != b->cycle)
        return a->cycle < b->cycle ? -1 : 1;
    if (a->is_root && a->waiters != b->waiters)
        return a->waiters > b->waiters ? -1 : 1;
    if (a->is_root && a->since_ms != b->since_ms)
        return a->since_ms > b->since_ms ? -1 : 1;
    int order = strcmp(a->name, b->name);
    if (order != 0)
        return order;
    return a->kind != b->kind ? (a->kind < b->kind ? -1 : 1) : (a->seq < b->seq ? -1 : 1);
}

static int edge_compare(const void *left, const void *right)
{
    const struct bus_why_edge *a = &(*(struct edge *const *)left)->public;
    const struct bus_why_edge *b = &(*(struct edge *const *)right)->public;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return a->wait < b->wait ? -1 : a->wait > b->wait;
}

/* Gives the nodes numbers by their order, and edges the same numbers. */
static bool put_in_order(struct bus_why *why)
{
    size_t count;
    for (size_t i = 0; i < why->node_count; i++)
        why->nodes[i]->number = (uint32_t)i;
    if (why->node_count > 1)
        qsort(why->nodes, why->node_count, sizeof(struct node *), node_compare);
    size_t *indexes = indexes_of(why, &count);
    if (indexes == NULL)
        return false;
    aim_edges(why, indexes, count);
    free(indexes);
    if (why->edge_count > 1)
        qsort(why->edges, why->edge_count, sizeof(struct edge *), edge_compare);
    return solve(why);
}

static bool why_finish(struct bus_why *why)
{
    size_t count;
    size_t *indexes = indexes_of(why, &count);
    if (indexes == NULL)
        return false;
    aim_edges(why, indexes, count);
    free(indexes);
    if (!solve(why))
        return false;
    describe_nodes(why);
    return put_in_order(why);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static enum bus_err why_end_say(struct bus_why *why, const struct msg_why_end *end,
                                struct bus_error **reterr)
{
    why->left_out = end->left_out;
    if (end->code != CODE_OK) {
        (void)error_give(reterr, BUS_EINVAL, error_make(ERROR_REJECTED, end->type, end->message));
        return (enum bus_err)end->code;
    }
    return why_finish(why) ? BUS_OK : error_give(reterr, BUS_ENOMEM, &error_no_memory);
}

static enum bus_err why_take_row(struct bus *bus, const struct msg *row, void *arg,
                                 struct bus_error **reterr)
{
    struct bus_why *why = arg;
    (void)bus; /* the row says it all */
    if (row->type == MSG_WHY_END)
        return why_end_say(why, &row->as.why_end, reterr);
    bool is_kept = row->type == MSG_WHY_NODE ? why_add_node(why, &row->as.why_node)
                                             : why_add_edge(why, &row->as.why_edge);
    return is_kept ? BUS_OK : error_give(reterr, BUS_ENOMEM, &error_no_memory);
}

static struct bus_why *why_new(void)
{
    struct bus_why *why = calloc(1, sizeof *why);
    if (why == NULL)
        return NULL;
    memory_heap_init(&why->memory, UINT64_MAX);
    wait_graph_init(&why->graph, &why->memory);
    why->asked = SIZE_MAX;
    return why;
}

void bus_why_free(struct bus_why **why)
{
    if (why == NULL || *why == NULL)
        return;
    for (size_t i = 0; i < (*why)->node_count; i++)
        free((*why)->nodes[i]);
    for (size_t i = 0; i < (*why)->edge_count; i++)
        free((*why)->edges[i]);
    free((*why)->nodes);
    free((*why)->edges);
    wait_graph_fini(&(*why)->graph);
    free(*why);
    *why = NULL;
}

enum bus_err bus_why_get(struct bus_admin *admin, const char *job, const char *topic, uint64_t seq,
                         int64_t timeout_ms, struct bus_why **out_why, struct bus_error **reterr)
{
    struct admin_call call;
    if (out_why == NULL || (topic != NULL && !topic_is_valid(span_text(topic))))
        return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT,
                         "bus_why_get() needs out_why, and a topic as \"party/name\" or NULL");
    enum bus_err err = admin_begin(admin, job, timeout_ms, &call, reterr);
    if (err != BUS_OK)
        return err;
    struct bus_why *why = why_new();
    const struct msg question = {.type = MSG_WHY,
                                 .as.why = {.job = span_text(call.job),
                                            .topic = span_text(topic != NULL ? topic : ""),
                                            .seq = topic != NULL ? seq : 0}};
    if (why == NULL) {
        err = error_give(reterr, BUS_ENOMEM, &error_no_memory);
        goto done;
    }
    err = admin_ask(&call, &question, why_take_row, why, reterr);
    if (err == BUS_OK)
        *out_why = why;
    else
        bus_why_free(&why);
done:
    admin_end(&call);
    return err;
}

/* ---- reading --------------------------------------------------------------------------------- */

size_t bus_why_node_count(const struct bus_why *why)
{
    return why != NULL ? why->node_count : 0;
}

const struct bus_why_node *bus_why_node_at(const struct bus_why *why, size_t index)
{
    return why != NULL && index < why->node_count ? &why->nodes[index]->public : NULL;
}

size_t bus_why_edge_count(const struct bus_why *why)
{
    return why != NULL ? why->edge_count : 0;
}

const struct bus_why_edge *bus_why_edge_at(const struct bus_why *why, size_t index)
{
    return why != NULL && index < why->edge_count ? &why->edges[index]->public : NULL;
}

const struct bus_why_node *bus_why_waiter_at(struct bus_why *why, size_t node, size_t index)
{
    if (why == NULL || node >= why->node_count)
        return NULL;
    if (why->asked != node)
        why->asked_count = wait_graph_waiters(&why->graph, (uint32_t)node);
    why->asked = node;
    for (uint32_t i = 0; i < why->asked_count; i++) {
        const struct bus_why_node *waiter = &why->nodes[why->graph.queue[i]]->public;
        if (waiter->kind == BUS_WHY_PARTY && index-- == 0)
            return waiter;
    }
    return NULL;
}

uint64_t bus_why_left_out(const struct bus_why *why)
{
    return why != NULL ? why->left_out : 0;
}
