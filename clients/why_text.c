/* SPDX-License-Identifier: MPL-2.0 */
/* why_text.c -- who waits for whom, as text for people, as JSON, and for dot(1). */
#include "clients/why_text.h"

#include "clients/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAMES_SHOWN = 2, /* waiters that a line names; the others are counted */
    WAITS_SHOWN = 5, /* waits below a line */
    MS_PER_S = 1000,
    TENTHS_BELOW_S = 10, /* seconds with a digit behind the point */
};

static void print_name(FILE *out, const char *name)
{
    cli_print_text(out, name, "");
}

/* "41 s", "0.3 s" */
static void print_seconds(FILE *out, uint64_t ms)
{
    if (ms < (uint64_t)TENTHS_BELOW_S * MS_PER_S) {
        fprintf(out, "%" PRIu64 ".%" PRIu64 " s", ms / MS_PER_S, ms % MS_PER_S / 100);
    } else {
        fprintf(out, "%" PRIu64 " s", ms / MS_PER_S);
    }
}

void why_node_print(FILE *out, const struct bus_why_node *node)
{
    switch (node->kind) {
    case BUS_WHY_PARTY: break;
    case BUS_WHY_BARRIER: fprintf(out, "the barrier"); return;
    case BUS_WHY_GROUP: fprintf(out, "the group "); break;
    case BUS_WHY_JOB:
        if (node->count == 0) {
            fprintf(out, "another membership of job ");
            break;
        }
        fprintf(out, "%" PRIu64 " more part%s of job ", node->count,
                node->count == 1 ? "y" : "ies");
        break;
    case BUS_WHY_READER: fprintf(out, "a reader of the durable name "); break;
    case BUS_WHY_REQUESTS: fprintf(out, "a group that serves "); break;
    case BUS_WHY_ROOM: fprintf(out, "room in the memory of job "); break;
    case BUS_WHY_SLOT:
        print_name(out, node->name);
        fprintf(out, "#%" PRIu64, node->seq);
        return;
    case BUS_WHY_RATE:
        fprintf(out, "the rate limit of ");
        print_name(out, node->name[0] != '\0' ? node->name : "all who have no name");
        return;
    case BUS_WHY_UNKNOWN: fprintf(out, "something that this version does not know"); return;
    }
    print_name(out, node->name);
}

/* What is known of it: "since 41 s; last heard 0.3 s ago, at 'round 3'; owes 2 slots". */
static void print_state(FILE *out, const struct bus_why_node *node)
{
    switch (node->kind) {
    case BUS_WHY_PARTY:
        if (node->incarnation == 0) {
            fprintf(out, "; it never joined");
            return;
        }
        if (node->state != BUS_STATE_RUNNING) {
            fprintf(out, "; %s", bus_state_name(node->state));
        }
        fprintf(out, "; last heard ");
        print_seconds(out, node->silent_ms);
        fprintf(out, " ago");
        if (node->where[0] != '\0') {
            fprintf(out, ", at '");
            print_name(out, node->where);
            fprintf(out, "'");
        }
        if (node->open > 0) {
            fprintf(out, "; owes %" PRIu64 " slot%s", node->open, cli_plural(node->open));
        }
        break;
    case BUS_WHY_GROUP:
        fprintf(out, node->count == 0 ? "; it has no member" : "; it has %" PRIu64 " member%s",
                node->count, cli_plural(node->count));
        break;
    case BUS_WHY_READER:
        fprintf(out, "; nobody reads it, and %" PRIu64 " slot%s wait%s", node->count,
                cli_plural(node->count), node->count == 1 ? "s" : "");
        break;
    case BUS_WHY_REQUESTS: fprintf(out, "; there is none"); break;
    case BUS_WHY_ROOM: fprintf(out, "; it is full"); break;
    case BUS_WHY_RATE: fprintf(out, "; %" PRIu64 " bytes a second", node->count); break;
    case BUS_WHY_BARRIER:
    case BUS_WHY_JOB:
    case BUS_WHY_SLOT:
    case BUS_WHY_UNKNOWN: break;
    }
}

/* ": carol/x#3 and 2 more" */
static void print_wait(FILE *out, const struct bus_why_edge *edge)
{
    if (edge->wait == BUS_WAIT_OWED || edge->wait == BUS_WAIT_NEEDED) {
        return; /* the node has the name of the slot */
    }
    fprintf(out, ": ");
    switch (edge->wait) {
    case BUS_WAIT_CREDIT: fprintf(out, "room to write "); break;
    case BUS_WAIT_UNPROMISED: fprintf(out, "not promised yet, "); break;
    case BUS_WAIT_BUSY: fprintf(out, "it has "); break;
    case BUS_WAIT_GATHER: fprintf(out, "the job has not begun"); break;
    case BUS_WAIT_ROOM:
    case BUS_WAIT_RATE: fprintf(out, "room to write "); break;
    case BUS_WAIT_MISSING: fprintf(out, "not there"); break;
    default: break;
    }
    if (edge->topic[0] != '\0') {
        print_name(out, edge->topic);
        if (edge->wait != BUS_WAIT_CREDIT && edge->wait != BUS_WAIT_ROOM &&
            edge->wait != BUS_WAIT_RATE) {
            fprintf(out, "#%" PRIu64, edge->seq);
        }
    } else if (edge->wait == BUS_WAIT_BARRIER) {
        fprintf(out, "round %" PRIu64, edge->seq);
    }
    if (edge->wait == BUS_WAIT_CREDIT) {
        fprintf(out, ", %" PRIu64 " slot%s not taken", edge->count, cli_plural(edge->count));
    } else if (edge->topic[0] != '\0' && edge->count > 1) {
        fprintf(out, " and %" PRIu64 " more", edge->count - 1);
    }
}

static bool is_unpromised_slot(const struct bus_why *why, const struct bus_why_edge *edge)
{
    return edge->wait == BUS_WAIT_UNPROMISED &&
           bus_why_node_at(why, edge->from)->kind == BUS_WHY_SLOT;
}

/* "  alice waits for carol: carol/x#3, since 41 s" */
static void print_edge(FILE *out, const struct bus_why *why, const struct bus_why_edge *edge)
{
    if (is_unpromised_slot(why, edge)) {
        fprintf(out, "  only ");
        why_node_print(out, bus_why_node_at(why, edge->to));
        fprintf(out, " can promise it\n");
        return;
    }
    fprintf(out, "  ");
    why_node_print(out, bus_why_node_at(why, edge->from));
    fprintf(out, edge->wait == BUS_WAIT_OWED     ? " is owed by "
                 : edge->wait == BUS_WAIT_NEEDED ? " needs "
                                                 : " waits for ");
    why_node_print(out, bus_why_node_at(why, edge->to));
    print_wait(out, edge);
    fprintf(out, ", since ");
    print_seconds(out, edge->since_ms);
    fprintf(out, "\n");
}

/* ---- the whole job --------------------------------------------------------------------------- */

static size_t count_waiters(struct bus_why *why, size_t node)
{
    size_t count = 0;
    while (bus_why_waiter_at(why, node, count) != NULL) {
        count++;
    }
    return count;
}

/* "alice, bob and 5 others wait, directly or not" */
static void print_waiters(FILE *out, struct bus_why *why, size_t node, size_t count)
{
    size_t shown = count <= NAMES_SHOWN + 1 ? count : NAMES_SHOWN;
    for (size_t i = 0; i < shown; i++) {
        fprintf(out, "%s", i == 0 ? "" : i + 1 == count ? " and " : ", ");
        print_name(out, bus_why_waiter_at(why, node, i)->name);
    }
    if (count > shown) {
        fprintf(out, " and %zu others", count - shown);
    }
    fprintf(out, count == 1 ? " waits" : " wait, directly or not,");
}

static void print_direct_waits(FILE *out, const struct bus_why *why, size_t node)
{
    size_t count = 0;
    for (size_t i = 0; i < bus_why_edge_count(why); i++) {
        const struct bus_why_edge *edge = bus_why_edge_at(why, i);
        if (edge->to == node && edge->from != node && count++ < WAITS_SHOWN) {
            print_edge(out, why, edge);
        }
    }
    if (count > WAITS_SHOWN) {
        fprintf(out, "  and %zu more\n", count - WAITS_SHOWN);
    }
}

static void print_root(FILE *out, struct bus_why *why, size_t at)
{
    const struct bus_why_node *node = bus_why_node_at(why, at);
    size_t count = count_waiters(why, at);
    if (count == 0) {
        return; /* no party waits for it: it is a slot's */
    }
    print_waiters(out, why, at, count);
    fprintf(out, " for ");
    why_node_print(out, node);
    fprintf(out, ": since ");
    print_seconds(out, node->since_ms);
    print_state(out, node);
    fprintf(out, "\n");
    print_direct_waits(out, why, at);
}

/* One way round a cycle: the next node of it that was not met, else one that was. */
static size_t next_in_cycle(const struct bus_why *why, size_t at, const bool *is_met)
{
    size_t next = SIZE_MAX;
    for (size_t i = 0; i < bus_why_edge_count(why); i++) {
        const struct bus_why_edge *edge = bus_why_edge_at(why, i);
        bool is_within = edge->from == at && edge->to != at &&
                         bus_why_node_at(why, edge->to)->cycle == bus_why_node_at(why, at)->cycle;
        if (is_within && !is_met[edge->to]) {
            return edge->to;
        }
        if (is_within) {
            next = edge->to;
        }
    }
    return next;
}

/* Whether calls have been blocked for a second in all waits of the cycle. */
static bool is_blocked_all_round(const struct bus_why *why, uint32_t cycle)
{
    for (size_t i = 0; i < bus_why_edge_count(why); i++) {
        const struct bus_why_edge *edge = bus_why_edge_at(why, i);
        if (bus_why_node_at(why, edge->from)->cycle == cycle &&
            bus_why_node_at(why, edge->to)->cycle == cycle && !edge->is_blocked) {
            return false;
        }
    }
    return true;
}

/* "alice -> bob -> alice: none can go on" */
static void print_cycle(FILE *out, struct bus_why *why, size_t first, bool *is_met)
{
    const struct bus_why_node *node = bus_why_node_at(why, first);
    size_t at = first;
    do {
        why_node_print(out, bus_why_node_at(why, at));
        fprintf(out, " -> ");
        is_met[at] = true;
        at = next_in_cycle(why, at, is_met);
    } while (at != SIZE_MAX && !is_met[at]);
    why_node_print(out, bus_why_node_at(why, at != SIZE_MAX ? at : first));
    const char *before = ", with ";
    for (size_t i = 0; i < bus_why_node_count(why); i++) {
        const struct bus_why_node *other = bus_why_node_at(why, i);
        if (other->cycle == node->cycle && !is_met[i]) {
            is_met[i] = true;
            fprintf(out, "%s", before);
            why_node_print(out, other);
            before = ", ";
        }
    }
    fprintf(out, is_blocked_all_round(why, node->cycle) ? ": none can go on\n"
                                                        : ": each waits for the next\n");
    size_t count = count_waiters(why, first);
    if (count > 0) {
        fprintf(out, "  ");
        print_waiters(out, why, first, count);
        fprintf(out, " for them\n");
    }
    for (size_t i = 0; i < bus_why_edge_count(why); i++) {
        const struct bus_why_edge *edge = bus_why_edge_at(why, i);
        if (bus_why_node_at(why, edge->from)->cycle == node->cycle &&
            bus_why_node_at(why, edge->to)->cycle == node->cycle) {
            print_edge(out, why, edge);
        }
    }
}

void why_text_print(FILE *out, struct bus_why *why)
{
    size_t count = bus_why_node_count(why);
    bool *is_met = calloc(count + 1, sizeof *is_met);
    bool is_any = false;
    for (size_t i = 0; i < count && is_met != NULL; i++) {
        if (bus_why_node_at(why, i)->cycle != 0 && !is_met[i]) {
            print_cycle(out, why, i, is_met);
            is_any = true;
        }
    }
    free(is_met);
    for (size_t i = 0; i < count; i++) {
        if (bus_why_node_at(why, i)->is_root) {
            print_root(out, why, i);
            is_any = true;
        }
    }
    for (size_t i = 0; i < bus_why_edge_count(why); i++) {
        const struct bus_why_edge *edge = bus_why_edge_at(why, i);
        if (edge->from == edge->to) {
            print_edge(out, why, edge);
            is_any = true;
        }
    }
    if (!is_any) {
        fprintf(out, "nobody waits\n");
    }
    if (bus_why_left_out(why) > 0) {
        fprintf(out, "%" PRIu64 " waits are not shown: there are too many\n",
                bus_why_left_out(why));
    }
}

/* ---- one party ------------------------------------------------------------------------------- */

static size_t find_party(const struct bus_why *why, const char *party)
{
    for (size_t i = 0; i < bus_why_node_count(why); i++) {
        const struct bus_why_node *node = bus_why_node_at(why, i);
        if (node->kind == BUS_WHY_PARTY && strcmp(node->name, party) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* Its edges, and those of whom it waits for, and so on. */
static void print_from(FILE *out, const struct bus_why *why, size_t node, bool *is_met)
{
    size_t count = bus_why_node_count(why);
    size_t *queue = calloc(count + 1, sizeof *queue);
    size_t tail = 0;
    if (queue == NULL) {
        return;
    }
    queue[tail++] = node;
    is_met[node] = true;
    for (size_t head = 0; head < tail; head++) {
        for (size_t i = 0; i < bus_why_edge_count(why); i++) {
            const struct bus_why_edge *edge = bus_why_edge_at(why, i);
            if (edge->from != queue[head]) {
                continue;
            }
            print_edge(out, why, edge);
            if (!is_met[edge->to]) {
                is_met[edge->to] = true;
                queue[tail++] = edge->to;
            }
        }
    }
    free(queue);
}

/* Where each of those is that were met and wait for nobody. */
static void print_ends(FILE *out, const struct bus_why *why, const bool *is_met, size_t except)
{
    for (size_t i = 0; i < bus_why_node_count(why); i++) {
        const struct bus_why_node *node = bus_why_node_at(why, i);
        if (!is_met[i] || i == except || !node->is_root) {
            continue;
        }
        if (node->kind == BUS_WHY_JOB) {
            continue; /* all is said of it */
        }
        fprintf(out, "  ");
        why_node_print(out, node);
        fprintf(out, node->kind == BUS_WHY_PARTY ? " waits for nobody" : " is what is missing");
        print_state(out, node);
        fprintf(out, "\n");
    }
}

static void print_way(FILE *out, const struct bus_why *why, size_t node)
{
    bool *is_met = calloc(bus_why_node_count(why) + 1, sizeof *is_met);
    if (is_met != NULL) {
        print_from(out, why, node, is_met);
        print_ends(out, why, is_met, node);
    }
    free(is_met);
}

static bool waits_for_any(const struct bus_why *why, size_t node)
{
    for (size_t i = 0; i < bus_why_edge_count(why); i++) {
        if (bus_why_edge_at(why, i)->from == node) {
            return true;
        }
    }
    return false;
}

void why_party_print(FILE *out, struct bus_why *why, const char *party)
{
    size_t at = find_party(why, party);
    if (at == SIZE_MAX) {
        print_name(out, party);
        fprintf(out, " waits for nobody, and nobody waits for it\n");
        return;
    }
    const struct bus_why_node *node = bus_why_node_at(why, at);
    bool is_waiting = waits_for_any(why, at);
    print_name(out, party);
    fprintf(out, is_waiting ? " waits" : " waits for nobody");
    print_state(out, node);
    fprintf(out, "\n");
    print_way(out, why, at);
    size_t count = count_waiters(why, at);
    if (count > 0) {
        print_waiters(out, why, at, count);
        fprintf(out, " for ");
        print_name(out, party);
        fprintf(out, "\n");
        print_direct_waits(out, why, at);
    }
}

/* ---- one slot -------------------------------------------------------------------------------- */

/* The slot that was asked for is the one that no other needs. */
static size_t find_slot(const struct bus_why *why)
{
    for (size_t i = 0; i < bus_why_node_count(why); i++) {
        bool is_needed = false;
        if (bus_why_node_at(why, i)->kind != BUS_WHY_SLOT) {
            continue;
        }
        for (size_t k = 0; k < bus_why_edge_count(why); k++) {
            is_needed |= bus_why_edge_at(why, k)->to == i;
        }
        if (!is_needed) {
            return i;
        }
    }
    return SIZE_MAX;
}

static bool is_unpromised(const struct bus_why *why, size_t slot)
{
    for (size_t i = 0; i < bus_why_edge_count(why); i++) {
        const struct bus_why_edge *edge = bus_why_edge_at(why, i);
        if (edge->from == slot && is_unpromised_slot(why, edge)) {
            return true;
        }
    }
    return false;
}

void why_slot_print(FILE *out, struct bus_why *why)
{
    size_t at = find_slot(why);
    if (at == SIZE_MAX) {
        return;
    }
    why_node_print(out, bus_why_node_at(why, at));
    fprintf(out, is_unpromised(why, at)               ? " is not promised yet\n"
                 : bus_why_node_at(why, at)->open > 0 ? " is not settled\n"
                                                      : " is settled\n");
    print_way(out, why, at);
}

/* ---- for programs ---------------------------------------------------------------------------- */

/* A name that no other node has. */
static void label_of(const struct bus_why_node *node, char *label, size_t bytes)
{
    if (node->kind == BUS_WHY_PARTY) {
        snprintf(label, bytes, "%s", node->name);
    } else if (node->kind == BUS_WHY_SLOT) {
        snprintf(label, bytes, "slot %s#%" PRIu64, node->name, node->seq);
    } else {
        snprintf(label, bytes, "%s %s", bus_why_kind_name(node->kind), node->name);
    }
}

enum { LABEL_BYTES_MAX = 256 };

static void print_node_json(FILE *out, const struct bus_why_node *node)
{
    char label[LABEL_BYTES_MAX];
    struct cli_json *line = cli_json_new();
    label_of(node, label, sizeof label);
    cli_json_text(line, "row", "node");
    cli_json_text(line, "node", label);
    cli_json_text(line, "kind", bus_why_kind_name(node->kind));
    cli_json_text(line, "name", node->name);
    cli_json_bool(line, "root", node->is_root != 0);
    if (node->cycle != 0) {
        cli_json_number(line, "cycle", node->cycle);
    } else {
        cli_json_null(line, "cycle");
    }
    cli_json_number(line, "waiters", (int64_t)node->waiters);
    cli_json_number(line, "since_ms", (int64_t)node->since_ms);
    if (node->kind == BUS_WHY_PARTY) {
        cli_json_number(line, "incarnation", node->incarnation);
        cli_json_text(line, "state", bus_state_name(node->state));
        cli_json_number(line, "silent_ms", (int64_t)node->silent_ms);
        cli_json_text(line, "where", node->where);
        cli_json_number(line, "open", (int64_t)node->open);
    } else if (node->kind == BUS_WHY_SLOT) {
        cli_json_bool(line, "settled", node->open == 0);
    } else {
        cli_json_number(line, "count", (int64_t)node->count);
    }
    cli_json_print(&line, out);
}

static void print_edge_json(FILE *out, const struct bus_why *why, const struct bus_why_edge *edge)
{
    char label[LABEL_BYTES_MAX];
    struct cli_json *line = cli_json_new();
    cli_json_text(line, "row", "edge");
    label_of(bus_why_node_at(why, edge->from), label, sizeof label);
    cli_json_text(line, "from", label);
    label_of(bus_why_node_at(why, edge->to), label, sizeof label);
    cli_json_text(line, "to", label);
    cli_json_text(line, "wait", bus_wait_name(edge->wait));
    cli_json_number(line, "count", (int64_t)edge->count);
    cli_json_number(line, "since_ms", (int64_t)edge->since_ms);
    cli_json_bool(line, "blocked", edge->is_blocked != 0);
    cli_json_text(line, "topic", edge->topic);
    cli_json_number(line, "seq", (int64_t)edge->seq);
    cli_json_print(&line, out);
}

void why_json_print(FILE *out, const struct bus_why *why)
{
    struct cli_json *line = cli_json_new();
    cli_json_text(line, "row", "why");
    cli_json_number(line, "nodes", (int64_t)bus_why_node_count(why));
    cli_json_number(line, "edges", (int64_t)bus_why_edge_count(why));
    cli_json_number(line, "left_out", (int64_t)bus_why_left_out(why));
    cli_json_print(&line, out);
    for (size_t i = 0; i < bus_why_node_count(why); i++) {
        print_node_json(out, bus_why_node_at(why, i));
    }
    for (size_t i = 0; i < bus_why_edge_count(why); i++) {
        print_edge_json(out, why, bus_why_edge_at(why, i));
    }
}

static void print_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', out);
        }
        fputc(*text, out);
    }
    fputc('"', out);
}

void why_dot_print(FILE *out, const struct bus_why *why)
{
    char label[LABEL_BYTES_MAX];
    fprintf(out, "digraph why {\n");
    for (size_t i = 0; i < bus_why_node_count(why); i++) {
        const struct bus_why_node *node = bus_why_node_at(why, i);
        label_of(node, label, sizeof label);
        fprintf(out, "  n%zu [label=", i);
        print_quoted(out, label);
        fprintf(out, "%s%s];\n", node->is_root ? ", style=bold" : "",
                node->cycle != 0 ? ", color=red" : "");
    }
    for (size_t i = 0; i < bus_why_edge_count(why); i++) {
        const struct bus_why_edge *edge = bus_why_edge_at(why, i);
        snprintf(label, sizeof label, "%s x%" PRIu64 ", %" PRIu64 ".%" PRIu64 " s",
                 bus_wait_name(edge->wait), edge->count, edge->since_ms / MS_PER_S,
                 edge->since_ms % MS_PER_S / 100);
        fprintf(out, "  n%zu -> n%zu [label=", edge->from, edge->to);
        print_quoted(out, label);
        fprintf(out, "];\n");
    }
    fprintf(out, "}\n");
}
