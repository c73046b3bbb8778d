/* SPDX-License-Identifier: MPL-2.0 */
/* nodes.c -- PostgreSQL as a model; see nodes.h. */
#include "tests/sim/nodes.h"

#include "libbus/base/must.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The settings of the node that takes writes, and those without a quorum. */
#define QUORUM "ANY 1 (a, b)"
#define TERMS "on on " QUORUM
#define ASIDE_TERMS "on on "
enum {
    FILES_MAX = 128, /* a table that could not be dropped stays for longer than a run takes */
    ROWS_MAX = FILES_MAX + STORE_PIECES_AT_ONCE,
    FIELDS_MAX = 8,
    TEXT_BYTES = DISK_HOLDER_BYTES,
    NODES = 3,
    TAKEN_MAX = 16, /* of the last epochs it is known who took them */
    SESSIONS_MAX = 65536,
    NOTICES_MS = 200, /* a node sees that a connection was closed, at most so much later */
};

/* Several tables may have it; it stays as it is. */
struct piece {
    struct piece *older;        /* of all that were ever written, to be freed */
    const struct piece *before; /* in the same table */
    uint64_t seq;
    uint64_t at;
    size_t bytes;
    char body[];
};
struct file_row {
    uint64_t number;
    uint64_t bytes;
    char name[FORMAT_NAME_BYTES];
    bool is_named;
    bool has_table;
    const struct piece *last; /* in its table */
};
/* A row of errbus_taken. */
struct taken {
    uint64_t epoch;
    uint64_t seq;
    char holder[DISK_HOLDER_BYTES];
};
/* The tables behind one commit. */
struct tables {
    struct tables *older; /* of all that were ever made, to be freed */
    uint64_t epoch;
    uint64_t seq;
    char holder[DISK_HOLDER_BYTES];
    uint64_t session;
    int64_t ends_ms;
    bool is_free; /* ends is '-infinity' */
    struct taken taken[TAKEN_MAX];
    size_t file_count;
    struct file_row files[FILES_MAX];
};

struct link {
    struct door door;
    struct nodes *nodes;
    unsigned client;
    uint64_t session; /* 0: not connected */
    uint64_t reign;   /* of the node it is connected to */
    int64_t since_ms;
    bool is_dead;
};

struct nodes {
    struct dice dice;
    nodes_meanwhile_fn *meanwhile;
    void *arg;
    int64_t now_ms;
    struct tables **history; /* of the node that takes writes; its index is a position */
    size_t count;
    size_t room;
    struct tables *newest; /* of all ever made */
    struct piece *piece;   /* the newest one of all */
    size_t has[NODES - 1]; /* positions of the standbys */
    uint64_t reign;        /* counts the nodes that took writes */
    int64_t up_ms;         /* when one takes writes again */
    uint64_t cancels;
    uint64_t asides; /* so often the quorum was set aside */
    bool is_set_aside;
    bool are_standbys_cut;
    enum nodes_cut cuts[NODES_CLIENTS_MAX];
    struct link *links[NODES_CLIENTS_MAX];
    int64_t session_ends_ms[SESSIONS_MAX]; /* INT64_MAX: it goes on */
    uint64_t sessions;
    uint64_t doubts;
    uint64_t undone;
    const char *wrong;
};

/* What a statement answers.  Rows that it has not are never touched: there are over a million
 * bytes for them. */
struct row {
    char texts[FIELDS_MAX][TEXT_BYTES];
    struct span body; /* the third field, where it is one */
    unsigned nulls;   /* fields that are null, a bit each */
};
struct rows {
    size_t count;
    struct row items[ROWS_MAX];
};

/* ---- time ------------------------------------------------------------------------------------ */

int64_t nodes_now_ms(const struct nodes *nodes)
{
    return nodes->now_ms;
}

void nodes_pass(struct nodes *nodes, int64_t ms)
{
    nodes->now_ms += ms;
    for (int i = 0; i < NODES - 1 && !nodes->are_standbys_cut; i++) {
        size_t most = nodes->count - 1;
        if (dice_hits(&nodes->dice, 500))
            nodes->has[i] = most;
        else if (nodes->has[i] < most && dice_hits(&nodes->dice, 500))
            nodes->has[i]++;
    }
}

static void end_session(struct nodes *nodes, struct link *link, int64_t after_ms)
{
    if (link->session > 0 && nodes->session_ends_ms[link->session] == INT64_MAX)
        nodes->session_ends_ms[link->session] = nodes->now_ms + after_ms;
    link->session = 0;
}

/* Whether the client and its node can still hear each other. */
static bool is_linked(const struct link *link)
{
    const struct nodes *nodes = link->nodes;
    return !link->is_dead && link->session > 0 && link->reign == nodes->reign &&
           nodes->session_ends_ms[link->session] > nodes->now_ms &&
           nodes->cuts[link->client] != NODES_CLOSED && !atomic_load(&link->door.is_given_up);
}

/* Time in which something is on its way.  What a silent cable holds back comes when it is mended,
 * unless nobody waits for it any more.  false: it never comes. */
static bool pass_on(struct link *link, int64_t ms)
{
    struct nodes *nodes = link->nodes;
    int64_t until_ms = nodes->now_ms + DOOR_ANSWER_MS;
    nodes->meanwhile(nodes->arg, link->client, ms);
    while (is_linked(link) && nodes->cuts[link->client] == NODES_SILENT && nodes->now_ms < until_ms)
        nodes->meanwhile(nodes->arg, link->client, 200);
    return is_linked(link) && nodes->cuts[link->client] == NODES_WHOLE;
}

/* ---- faults ---------------------------------------------------------------------------------- */

void nodes_cut(struct nodes *nodes, unsigned client, enum nodes_cut cut)
{
    nodes->cuts[client] = cut;
}

void nodes_cut_standbys(struct nodes *nodes, bool is_cut)
{
    nodes->are_standbys_cut = is_cut;
}

void nodes_fail_over(struct nodes *nodes, int64_t after_ms)
{
    size_t most = nodes->has[0] > nodes->has[1] ? nodes->has[0] : nodes->has[1];
    nodes->undone += nodes->count - 1 - most;
    nodes->count = most + 1;
    nodes->has[0] = most; /* the one that was behind, or the one that was killed */
    nodes->has[1] = dice_below(&nodes->dice, most + 1);
    nodes->reign++;
    nodes->up_ms = nodes->now_ms + after_ms;
    for (uint64_t i = 1; i <= nodes->sessions; i++)
        if (nodes->session_ends_ms[i] > nodes->now_ms)
            nodes->session_ends_ms[i] = nodes->now_ms;
}

bool nodes_promote_lagging(struct nodes *nodes)
{
    size_t last = nodes->count - 1;
    uint64_t seq = nodes->history[last]->seq;
    while (last > 0 && nodes->history[last]->seq == seq)
        last--;
    if (nodes->history[last]->seq == seq)
        return false;
    last -= dice_below(&nodes->dice, last < 20 ? last + 1 : 20);
    nodes->has[0] = nodes->has[1] = last;
    nodes_fail_over(nodes, dice_between(&nodes->dice, 100, 8000));
    return true;
}

void nodes_cancel(struct nodes *nodes)
{
    nodes->cancels++;
}

void nodes_set_aside(struct nodes *nodes, bool is_set_aside)
{
    nodes->asides += is_set_aside && !nodes->is_set_aside;
    nodes->is_set_aside = is_set_aside;
}

void nodes_heal(struct nodes *nodes)
{
    nodes_set_aside(nodes, false);
    nodes_cut_standbys(nodes, false);
    for (unsigned client = 0; client < NODES_CLIENTS_MAX; client++)
        nodes_cut(nodes, client, NODES_WHOLE);
}

void nodes_terminate(struct nodes *nodes, unsigned client)
{
    struct link *link = nodes->links[client];
    if (link != NULL && link->session > 0)
        nodes->session_ends_ms[link->session] = nodes->now_ms;
}

void nodes_kill(struct nodes *nodes, unsigned client)
{
    struct link *link = nodes->links[client];
    if (link == NULL)
        return;
    link->is_dead = true;
    atomic_store(&link->door.is_given_up, true);
    end_session(nodes, link, dice_between(&nodes->dice, 0, NOTICES_MS));
}

void nodes_give_up(struct nodes *nodes)
{
    for (unsigned i = 0; i < NODES_CLIENTS_MAX; i++)
        if (nodes->links[i] != NULL)
            atomic_store(&nodes->links[i]->door.is_given_up, true);
}

/* ---- statements ------------------------------------------------------------------------------ */

static bool begins(const struct door_statement *statement, const char *text)
{
    return strncmp(statement->sql, text, strlen(text)) == 0;
}

static bool says(const struct door_statement *statement, const char *text)
{
    return strstr(statement->sql, text) != NULL;
}

static uint64_t number_of(const struct door_statement *statement, unsigned i)
{
    return (uint64_t)statement->params[i].number;
}

static uint64_t table_of(const struct door_statement *statement)
{
    unsigned shard = 0;
    uint64_t number = 0;
    const char *table = strstr(statement->sql, "errbus_piece_");
    must(table != NULL && sscanf(table, "errbus_piece_%u_%" SCNu64, &shard, &number) == 2);
    return number;
}

/* The number that stands behind this text. */
static int64_t ms_behind(const struct door_statement *statement, const char *text)
{
    const char *at = strstr(statement->sql, text);
    must(at != NULL);
    return strtoll(at + strlen(text), NULL, 10);
}

static struct file_row *row_of(struct tables *tables, uint64_t number)
{
    size_t i = 0;
    while (i < tables->file_count && tables->files[i].number != number)
        i++;
    if (i == tables->file_count) {
        for (i = 0; i < tables->file_count; i++) /* one that nothing is known of any more */
            if (!tables->files[i].is_named && !tables->files[i].has_table)
                break;
        must(i < FILES_MAX);
        tables->file_count += i == tables->file_count;
        tables->files[i] = (struct file_row){.number = number};
    }
    return &tables->files[i];
}

/* false: there is no table. */
static bool insert_piece(struct tables *tables, struct nodes *nodes,
                         const struct door_statement *statement)
{
    struct span body = statement->params[2].bytes;
    struct file_row *row = row_of(tables, table_of(statement));
    struct piece *piece = malloc(sizeof *piece + body.bytes);
    must(piece != NULL);
    *piece = (struct piece){.older = nodes->piece,
                            .before = row->last,
                            .seq = number_of(statement, 0),
                            .at = number_of(statement, 1),
                            .bytes = body.bytes};
    memcpy(piece->body, body.data, body.bytes);
    nodes->piece = piece;
    row->last = piece;
    return row->has_table;
}

static void drop_table(struct tables *tables, uint64_t number)
{
    struct file_row *row = row_of(tables, number);
    row->has_table = false;
    row->last = NULL;
}

static void name_file(struct tables *tables, const struct door_statement *statement)
{
    struct file_row *row = row_of(tables, number_of(statement, 1));
    row->is_named = true;
    row->bytes = number_of(statement, 3);
    snprintf(row->name, sizeof row->name, "%s", (const char *)statement->params[2].bytes.data);
}

static void renew(struct tables *tables, const struct link *link,
                  const struct door_statement *statement)
{
    tables->session = link->session;
    tables->ends_ms = link->nodes->now_ms + ms_behind(statement, "ends = clock_timestamp() + ");
    tables->is_free = false;
}

static const char *terms_of(const struct nodes *nodes)
{
    return nodes->is_set_aside ? ASIDE_TERMS : TERMS;
}

static bool is_text(const struct door_statement *statement, unsigned i, const char *text)
{
    return strcmp(text, (const char *)statement->params[i].bytes.data) == 0;
}

/* false: the row is not as it must be, so all is undone. */
static bool fence(struct tables *tables, const struct link *link,
                  const struct door_statement *statement)
{
    if ((says(statement, "epoch = $2") && tables->epoch != number_of(statement, 1)) ||
        (says(statement, "seq = $3::int8 - 1") && tables->seq + 1 != number_of(statement, 2)) ||
        (says(statement, "holder = $4") && !is_text(statement, 3, tables->holder)) ||
        (says(statement, "= $5") && !is_text(statement, 4, terms_of(link->nodes))))
        return false;
    tables->seq = number_of(statement, 2);
    renew(tables, link, statement);
    return true;
}

static bool is_there(const struct nodes *nodes, uint64_t session)
{
    return session > 0 && nodes->session_ends_ms[session] > nodes->now_ms;
}

/* Each condition as far as the statement has it, and with its numbers. */
static bool may_take(const struct tables *tables, const struct link *link,
                     const struct door_statement *statement)
{
    const struct nodes *nodes = link->nodes;
    bool is_settled = !says(statement, "backend_start <") ||
                      nodes->now_ms - link->since_ms >
                          ms_behind(statement, "backend_start < clock_timestamp() - ");
    bool is_over =
        !says(statement, "ends < clock_timestamp() OR") || tables->ends_ms < nodes->now_ms;
    bool is_gone =
        tables->ends_ms < nodes->now_ms + ms_behind(statement, "(ends < clock_timestamp() + ") &&
        (!says(statement, "NOT EXISTS") || !is_there(nodes, tables->session));
    return tables->is_free || is_text(statement, 1, tables->holder) ||
           (is_settled && (is_over || is_gone));
}

static bool is_well(const struct tables *tables, const struct nodes *nodes)
{
    return !tables->is_free && tables->ends_ms >= nodes->now_ms &&
           (is_there(nodes, tables->session) ||
            tables->ends_ms >= nodes->now_ms + STORE_LEASE_MS - STORE_GONE_MS);
}

static bool take(struct tables *tables, const struct link *link,
                 const struct door_statement *statement)
{
    const char *holder = statement->params[1].bytes.data;
    if (!may_take(tables, link, statement))
        return false;
    if (is_well(tables, link->nodes) && strcmp(tables->holder, holder) != 0)
        link->nodes->wrong = "a shard was taken from a holder that is well";
    tables->epoch += says(statement, "epoch = epoch + 1");
    tables->seq += says(statement, "seq = seq + 1");
    snprintf(tables->holder, sizeof tables->holder, "%s", holder);
    renew(tables, link, statement);
    struct taken *taken = &tables->taken[tables->epoch % TAKEN_MAX];
    *taken = (struct taken){.epoch = tables->epoch, .seq = tables->seq};
    snprintf(taken->holder, sizeof taken->holder, "%s", holder);
    return true;
}

/* ---- answers --------------------------------------------------------------------------------- */

static struct row *add_row(struct rows *rows, const char *const *fields, size_t count)
{
    must(rows->count < ROWS_MAX);
    struct row *row = &rows->items[rows->count++];
    *row = (struct row){.nulls = 0};
    for (size_t i = 0; i < count; i++)
        snprintf(row->texts[i], TEXT_BYTES, "%s", fields[i]);
    return row;
}

static struct row *answer_row(struct rows *rows, const struct tables *tables,
                              const struct nodes *nodes)
{
    char epoch[TEXT_BYTES], seq[TEXT_BYTES];
    const char *const fields[] = {epoch, seq, terms_of(nodes), tables->holder};
    snprintf(epoch, sizeof epoch, "%" PRIu64, tables->epoch);
    snprintf(seq, sizeof seq, "%" PRIu64, tables->seq);
    return add_row(rows, fields, 4);
}

/* With what is known of an epoch, and of the next one. */
static void answer_look(struct rows *rows, const struct tables *tables, const struct nodes *nodes,
                        uint64_t epoch)
{
    const struct taken *next = &tables->taken[(epoch + 1) % TAKEN_MAX];
    const struct taken *taken = &tables->taken[epoch % TAKEN_MAX];
    struct row *row = answer_row(rows, tables, nodes);
    row->nulls |= next->epoch != epoch + 1 ? 1U << 4 : 0;
    row->nulls |= taken->epoch != epoch ? 1U << 5 : 0;
    snprintf(row->texts[4], TEXT_BYTES, "%" PRIu64, next->seq);
    snprintf(row->texts[5], TEXT_BYTES, "%s", taken->holder);
}

static void list_files(struct rows *rows, const struct tables *tables, bool are_left)
{
    for (size_t i = 0; i < tables->file_count; i++) {
        const struct file_row *row = &tables->files[i];
        char number[TEXT_BYTES], bytes[TEXT_BYTES];
        snprintf(number, sizeof number, "%" PRIu64, row->number);
        snprintf(bytes, sizeof bytes, "%" PRIu64, row->bytes);
        const char *const fields[] = {number, row->name, bytes, row->has_table ? "1" : "0"};
        if (are_left ? row->has_table && !row->is_named : row->is_named)
            add_row(rows, fields, are_left ? 1 : 4);
    }
}

static bool is_behind(const struct piece *piece, const struct door_statement *statement)
{
    uint64_t seq = number_of(statement, 0), at = number_of(statement, 1);
    return piece->seq > seq || (piece->seq == seq && piece->at > at);
}

/* The oldest ones behind a place, as many as one answer has. */
static void list_pieces(struct rows *rows, const struct tables *tables,
                        const struct door_statement *statement)
{
    const struct piece *last = NULL;
    size_t count = 0;
    for (size_t i = 0; i < tables->file_count; i++)
        if (tables->files[i].number == table_of(statement))
            last = tables->files[i].last;
    for (const struct piece *piece = last; piece != NULL; piece = piece->before)
        count += is_behind(piece, statement);
    rows->count = count < STORE_PIECES_AT_ONCE ? count : STORE_PIECES_AT_ONCE;
    for (const struct piece *piece = last; count > 0; piece = piece->before) {
        if (!is_behind(piece, statement) || --count >= rows->count)
            continue;
        struct row *row = &rows->items[count];
        *row = (struct row){.body = span_of(piece->body, piece->bytes)};
        snprintf(row->texts[0], TEXT_BYTES, "%" PRIu64, piece->seq);
        snprintf(row->texts[1], TEXT_BYTES, "%" PRIu64, piece->at);
    }
}

/* What changes the tables.  The SQLSTATE of what it cannot carry out; NULL: none. */
static const char *change(struct tables *tables, const struct link *link,
                          const struct door_statement *statement, struct door_answer *out,
                          bool *is_changed)
{
    bool is_fence = begins(statement, "UPDATE errbus_shard SET seq = CASE");
    bool is_ours = tables->epoch == number_of(statement, 1) &&
                   (!says(statement, "holder = $3") || is_text(statement, 2, tables->holder));
    *is_changed = true;
    if (begins(statement, "CREATE TABLE errbus_piece_"))
        row_of(tables, table_of(statement))->has_table = true;
    else if (begins(statement, "INSERT INTO errbus_piece_"))
        return insert_piece(tables, link->nodes, statement) ? NULL : "42P01";
    else if (begins(statement, "INSERT INTO errbus_file"))
        name_file(tables, statement);
    else if (begins(statement, "DELETE FROM errbus_file"))
        row_of(tables, number_of(statement, 1))->is_named = false;
    else if (begins(statement, "DROP TABLE"))
        drop_table(tables, table_of(statement));
    else if (begins(statement, "UPDATE errbus_shard SET session") && is_ours)
        renew(tables, link, statement);
    else if (begins(statement, "UPDATE errbus_shard SET ends") && is_ours)
        tables->is_free = true;
    else if (begins(statement, "WITH taken AS (UPDATE errbus_shard") &&
             take(tables, link, statement))
        answer_row(out->rows, tables, link->nodes);
    else if (is_fence && fence(tables, link, statement))
        out->changed = 1;
    else
        *is_changed = begins(statement, STORE_CONFIRM); /* it is committed, and changes no table */
    return is_fence && !*is_changed ? "22012" : NULL;
}

/* What asks.  The rows are those of the last statement with any. */
static void ask(const struct tables *tables, const struct nodes *nodes,
                const struct door_statement *statement, struct rows *rows)
{
    const char *const settings[] = {"150020",
                                    "false",
                                    "on",
                                    "on",
                                    nodes->is_set_aside ? "" : QUORUM,
                                    nodes->is_set_aside ? "0" : "2",
                                    "0",
                                    terms_of(nodes)};
    char version[TEXT_BYTES];
    const char *const versions[] = {version};
    snprintf(version, sizeof version, "%d", STORE_VERSION);
    if (begins(statement, "SELECT current_setting"))
        add_row(rows, settings, FIELDS_MAX);
    else if (begins(statement, "SELECT version"))
        add_row(rows, versions, 1);
    else if (begins(statement, "SELECT epoch"))
        answer_look(rows, tables, nodes, number_of(statement, 1));
    else if (begins(statement, "SELECT file"))
        list_files(rows, tables, false);
    else if (begins(statement, "SELECT piece.seq"))
        list_pieces(rows, tables, statement);
    else if (begins(statement, "SELECT substring"))
        list_files(rows, tables, true);
}

/* ---- the door -------------------------------------------------------------------------------- */

static struct tables *copy_tables(struct nodes *nodes, const struct tables *from)
{
    struct tables *tables = calloc(1, sizeof *tables);
    must(tables != NULL);
    if (from != NULL)
        *tables = *from;
    tables->older = nodes->newest;
    nodes->newest = tables;
    return tables;
}

static void append(struct nodes *nodes, struct tables *tables)
{
    if (nodes->count == nodes->room) {
        nodes->room = nodes->room > 0 ? 2 * nodes->room : 256;
        nodes->history = realloc(nodes->history, nodes->room * sizeof *nodes->history);
        must(nodes->history != NULL);
    }
    nodes->history[nodes->count++] = tables;
}

static void drop_copy(struct nodes *nodes)
{
    struct tables *tables = nodes->newest;
    nodes->newest = tables->older;
    free(tables);
}

/* 0: nothing was changed; otherwise the position of the commit. */
static size_t carry_out(struct link *link, const struct door_statement *statements, size_t count,
                        struct door_answer *out)
{
    struct nodes *nodes = link->nodes;
    bool is_changed_at_all = false;
    const struct tables *before = nodes->history[nodes->count - 1];
    struct tables *tables = copy_tables(nodes, before);
    for (size_t i = 0; i < count && out->verdict == DOOR_DONE; i++) {
        bool is_changed = false;
        const char *state = change(tables, link, &statements[i], out, &is_changed);
        if (state != NULL) {
            out->verdict = DOOR_REFUSED;
            snprintf(out->state, sizeof out->state, "%s", state);
            snprintf(out->why, sizeof out->why, "it cannot be carried out");
        }
        is_changed_at_all = is_changed_at_all || is_changed;
        if (!is_changed) /* bodies are borrowed */
            ask(is_changed_at_all ? tables : before, nodes, &statements[i], out->rows);
    }
    if (out->verdict == DOOR_DONE && is_changed_at_all) {
        append(nodes, tables);
        return nodes->count - 1;
    }
    drop_copy(nodes);
    return 0;
}

/* A wait that ends because the quorum was set aside succeeds without a warning.  The session sees
 * these settings then, though they may be others soon.  false: in doubt. */
static bool await_standby(struct link *link, size_t position, const char **out_terms)
{
    struct nodes *nodes = link->nodes;
    uint64_t cancels = nodes->cancels;
    uint64_t asides = nodes->asides;
    while (!nodes->is_set_aside && asides == nodes->asides && nodes->has[0] < position &&
           nodes->has[1] < position) {
        nodes->meanwhile(nodes->arg, link->client, nodes->are_standbys_cut ? 50 : 1);
        if (nodes->cancels != cancels || link->is_dead || link->session == 0 ||
            link->reign != nodes->reign || atomic_load(&link->door.is_given_up) ||
            nodes->session_ends_ms[link->session] <= nodes->now_ms)
            return false;
    }
    *out_terms = asides == nodes->asides ? terms_of(nodes) : ASIDE_TERMS;
    return true;
}

static void doubt(struct link *link, struct door_answer *out)
{
    out->verdict = DOOR_DOUBT;
    snprintf(out->why, sizeof out->why, "nobody knows");
    ((struct rows *)out->rows)->count = 0;
    link->nodes->doubts++;
}

static void run(struct door *door, const struct door_statement *statements, size_t count,
                struct door_answer *out)
{
    struct link *link = (struct link *)(void *)door;
    struct nodes *nodes = link->nodes;
    struct rows *rows = malloc(sizeof *rows);
    must(rows != NULL);
    rows->count = 0;
    *out = (struct door_answer){.verdict = DOOR_DONE, .rows = rows};
    if (!is_linked(link) || !pass_on(link, dice_between(&nodes->dice, 0, 2))) {
        doubt(link, out);
        return;
    }
    size_t position = carry_out(link, statements, count, out);
    bool is_waited_for = position > 0 && !begins(&statements[count - 1], "DROP TABLE");
    const char *terms = terms_of(nodes);
    bool is_well = !is_waited_for || await_standby(link, position, &terms);
    snprintf(out->check, sizeof out->check, "%s", terms);
    if (!is_well || !pass_on(link, dice_between(&nodes->dice, 0, 2)))
        doubt(link, out);
}

static bool connect_door(struct door *door, const char *conninfo, char *why)
{
    struct link *link = (struct link *)(void *)door;
    struct nodes *nodes = link->nodes;
    (void)conninfo;
    snprintf(why, DOOR_WHY_BYTES, "nobody is there");
    end_session(nodes, link, 0);
    nodes->meanwhile(nodes->arg, link->client, dice_between(&nodes->dice, 0, 3));
    if (nodes->cuts[link->client] == NODES_SILENT)
        nodes->meanwhile(nodes->arg, link->client, DOOR_CONNECT_S * 1000);
    if (link->is_dead || nodes->cuts[link->client] != NODES_WHOLE || nodes->now_ms < nodes->up_ms ||
        atomic_load(&door->is_given_up))
        return false;
    must(nodes->sessions + 1 < SESSIONS_MAX);
    link->session = ++nodes->sessions;
    nodes->session_ends_ms[link->session] = INT64_MAX;
    link->reign = nodes->reign;
    link->since_ms = nodes->now_ms;
    return true;
}

/* A node that is cut off by a silent cable does not see it. */
static void disconnect(struct door *door)
{
    struct link *link = (struct link *)(void *)door;
    struct nodes *nodes = link->nodes;
    bool is_seen = nodes->cuts[link->client] != NODES_SILENT;
    end_session(nodes, link, is_seen ? dice_between(&nodes->dice, 0, NOTICES_MS) : 60000);
}

static size_t row_count(const struct door_answer *answer)
{
    return ((const struct rows *)answer->rows)->count;
}

static struct span field(const struct door_answer *answer, size_t row, unsigned column)
{
    const struct rows *rows = answer->rows;
    must(row < rows->count && column < FIELDS_MAX);
    const struct row *item = &rows->items[row];
    bool is_body = column == 2 && item->body.data != NULL;
    if ((item->nulls & 1U << column) != 0)
        return SPAN_NONE;
    return is_body ? item->body : span_text(item->texts[column]);
}

static void clear(struct door_answer *answer)
{
    free(answer->rows);
    answer->rows = NULL;
}

static void rest(struct door *door)
{
    struct link *link = (struct link *)(void *)door;
    link->nodes->meanwhile(link->nodes->arg, link->client, 100);
}

static void close_door(struct door *door)
{
    struct link *link = (struct link *)(void *)door;
    end_session(link->nodes, link, 0);
    link->nodes->links[link->client] = NULL;
    free(link);
}

struct door *nodes_door(struct nodes *nodes, unsigned client)
{
    static const struct door_ops ops = {.connect = connect_door,
                                        .disconnect = disconnect,
                                        .run = run,
                                        .rows = row_count,
                                        .field = field,
                                        .clear = clear,
                                        .rest = rest,
                                        .close = close_door};
    struct link *link = calloc(1, sizeof *link);
    must(link != NULL && client < NODES_CLIENTS_MAX && nodes->links[client] == NULL);
    link->door.ops = &ops;
    link->nodes = nodes;
    link->client = client;
    nodes->links[client] = link;
    return &link->door;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

struct nodes *nodes_new(uint64_t seed, nodes_meanwhile_fn *meanwhile, void *arg)
{
    struct nodes *nodes = calloc(1, sizeof *nodes);
    must(nodes != NULL);
    dice_init(&nodes->dice, seed);
    nodes->meanwhile = meanwhile;
    nodes->arg = arg;
    nodes->now_ms = 1;
    struct tables *tables = copy_tables(nodes, NULL);
    tables->is_free = true;
    append(nodes, tables);
    return nodes;
}

void nodes_free(struct nodes **nodes)
{
    if (*nodes == NULL)
        return;
    for (struct tables *tables = (*nodes)->newest, *older; tables != NULL; tables = older) {
        older = tables->older;
        free(tables);
    }
    for (struct piece *piece = (*nodes)->piece, *older; piece != NULL; piece = older) {
        older = piece->older;
        free(piece);
    }
    free((*nodes)->history);
    free(*nodes);
    *nodes = NULL;
}

uint64_t nodes_epoch(const struct nodes *nodes)
{
    return nodes->history[nodes->count - 1]->epoch;
}

const char *nodes_wrong(const struct nodes *nodes)
{
    return nodes->wrong;
}

uint64_t nodes_doubts(const struct nodes *nodes)
{
    return nodes->doubts;
}

uint64_t nodes_undone(const struct nodes *nodes)
{
    return nodes->undone;
}
