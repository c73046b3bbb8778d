/* SPDX-License-Identifier: MPL-2.0 */
/* top_text.c -- see top_text.h. */
#include "clients/top_text.h"

#include "clients/cli.h"
#include "clients/status_text.h"
#include "clients/text_table.h"

#include <inttypes.h>
#include <string.h>

/* The items of one table. */
struct rows {
    const struct top_item *items;
    size_t count;
    bool has_jobs; /* names stand behind the name of their job */
};

static const struct top_item *item_at(const void *rows, size_t row)
{
    return &((const struct rows *)rows)->items[row];
}

/* ---- cells ----------------------------------------------------------------------------------- */

static void write_name(const void *rows, size_t row, char *text)
{
    const struct bus_status_row *of = item_at(rows, row)->row;
    bool has_job = ((const struct rows *)rows)->has_jobs && of->kind != BUS_STATUS_JOB;
    snprintf(text, TABLE_CELL_BYTES_MAX, "%.250s%s%.500s", has_job ? of->job : "",
             has_job ? ": " : "", of->name);
}

static void write_number(uint64_t number, char *text)
{
    snprintf(text, TABLE_CELL_BYTES_MAX, "%" PRIu64, number);
}

/* "4.4 s", or nothing. */
static void write_age(uint64_t ms, bool is_any, char *text)
{
    text[0] = '\0';
    if (is_any) {
        status_write_time(ms, text, TABLE_CELL_BYTES_MAX);
    }
}

static const struct table_column job_columns[] = {
    {"JOB", false},     {"STATE", false}, {"PARTIES", true}, {"OPEN", true},
    {"VALUES/S", true}, {"BEHIND", true}, {"WAITS", true},   {"FOR", false}};

static void write_job(const void *rows, size_t row, size_t column, char *text)
{
    const struct top_item *job = item_at(rows, row);
    char ago[64];
    switch (column) {
    case 0: write_name(rows, row, text); break;
    case 1: snprintf(text, TABLE_CELL_BYTES_MAX, "%s", bus_state_name(job->row->state)); break;
    case 2: write_number(job->parties, text); break;
    case 3: write_number(job->row->open, text); break;
    case 4: write_number(job->rate, text); break;
    case 5: write_number(job->behind, text); break;
    case 6: write_number(job->waiters, text); break;
    default:
        status_write_time(job->waits_ms, ago, sizeof ago);
        snprintf(text, TABLE_CELL_BYTES_MAX, "%s%s%s", job->waits_for,
                 job->waits_for[0] != '\0' ? ", " : "", job->waits_for[0] != '\0' ? ago : "");
        break;
    }
}

static const struct table_column party_columns[] = {{"PARTY", false}, {"STATE", false},
                                                    {"OPEN", true},   {"OLDEST", true},
                                                    {"HEARD", true},  {"WAITS FOR", false}};

static void write_party(const void *rows, size_t row, size_t column, char *text)
{
    const struct top_item *party = item_at(rows, row);
    char since[64];
    switch (column) {
    case 0: write_name(rows, row, text); break;
    case 1: snprintf(text, TABLE_CELL_BYTES_MAX, "%s", bus_state_name(party->row->state)); break;
    case 2: write_number(party->row->open, text); break;
    case 3: write_age(party->oldest_ms, party->row->open > 0, text); break;
    case 4: write_age(party->row->silent_ms, !status_has_ended(party->row), text); break;
    default:
        text[0] = '\0';
        status_write_time(party->waits_ms, since, sizeof since);
        if (party->waits_for[0] != '\0') {
            snprintf(text, TABLE_CELL_BYTES_MAX, "%.400s, %s: %.400s", party->waits_for, since,
                     party->wait);
        }
        break;
    }
}

static const struct table_column topic_columns[] = {{"TOPIC", false}, {"VALUES/S", true},
                                                    {"NEXT", true},   {"OPEN", true},
                                                    {"KEPT", true},   {"KEPT KIB", true}};

static void write_topic(const void *rows, size_t row, size_t column, char *text)
{
    const struct top_item *topic = item_at(rows, row);
    const uint64_t numbers[] = {0,
                                topic->rate,
                                topic->row->next_seq,
                                topic->row->open,
                                topic->row->pending,
                                (topic->row->pending_bytes + 1023) / 1024};
    if (column == 0) {
        write_name(rows, row, text);
    } else {
        write_number(numbers[column], text);
    }
}

static const struct table_column sub_columns[] = {
    {"SUBSCRIPTION", false}, {"STATE", false}, {"BEHIND", true}, {"PARTY", false}};

static void write_sub(const void *rows, size_t row, size_t column, char *text)
{
    const struct top_item *sub = item_at(rows, row);
    switch (column) {
    case 0: write_name(rows, row, text); break;
    case 1: snprintf(text, TABLE_CELL_BYTES_MAX, "%s", bus_state_name(sub->row->state)); break;
    case 2: write_number(sub->behind, text); break;
    default: snprintf(text, TABLE_CELL_BYTES_MAX, "%.500s", sub->row->party); break;
    }
}

static const struct table_column group_columns[] = {{"GROUP", false}, {"MEMBERS", true},
                                                    {"LEASED", true}, {"WAITING", true},
                                                    {"DEAD", true},   {"TOPICS", false}};

static void write_group(const void *rows, size_t row, size_t column, char *text)
{
    const struct bus_status_row *group = item_at(rows, row)->row;
    const uint64_t numbers[] = {0, group->members, group->leased, group->waiting, group->dead};
    if (column == 0) {
        write_name(rows, row, text);
    } else if (column < sizeof numbers / sizeof numbers[0]) {
        write_number(numbers[column], text);
    } else {
        snprintf(text, TABLE_CELL_BYTES_MAX, "%.500s", group->pattern);
    }
}

static const struct {
    const struct table_column *columns;
    size_t column_count;
    table_cell_fn *cell;
    const char *kind; /* in JSON */
} tables[] = {
    [BUS_STATUS_JOB] = {job_columns, 8, write_job, "job"},
    [BUS_STATUS_PARTY] = {party_columns, 6, write_party, "party"},
    [BUS_STATUS_TOPIC] = {topic_columns, 6, write_topic, "topic"},
    [BUS_STATUS_SUB] = {sub_columns, 4, write_sub, "subscription"},
    [BUS_STATUS_GROUP] = {group_columns, 6, write_group, "group"},
};

/* ---- text ------------------------------------------------------------------------------------ */

static void print_head(FILE *out, const struct top_part *part)
{
    const struct bus_status *status = part->status;
    char up[64];
    if (part->endpoint != NULL) {
        fprintf(out, "shard %" PRIu32 " at %s: ", part->shard, part->endpoint);
    }
    if (status == NULL) {
        cli_print_text(out, part->why, "");
        fprintf(out, "\n");
        return;
    }
    status_write_time(bus_status_uptime_ms(status), up, sizeof up);
    fprintf(out, "broker %s: up %s, durability %s, journal %s\n", bus_status_version(status), up,
            bus_durability_name(bus_status_durability(status)),
            strcmp(bus_status_journal(status)->backend, "none") == 0
                ? "none"
                : bus_journal_state_name(bus_status_journal(status)->state));
}

static bool has_several_jobs(const struct top_picture *picture)
{
    for (size_t i = 1; i < picture->count; i++) {
        if (strcmp(picture->items[i].row->job, picture->items[0].row->job) != 0) {
            return true;
        }
    }
    return false;
}

void top_text_print(FILE *out, const struct top_picture *picture, const struct top_style *style)
{
    bool has_jobs = has_several_jobs(picture);
    for (size_t i = 0; i < picture->part_count; i++) {
        print_head(out, &picture->parts[i]);
    }
    for (size_t from = 0, to; from < picture->count; from = to) {
        enum bus_status_kind kind = picture->items[from].row->kind;
        for (to = from; to < picture->count && picture->items[to].row->kind == kind; to++) {
        }
        size_t shown = to - from < style->rows ? to - from : style->rows;
        const struct rows rows = {&picture->items[from], shown, has_jobs};
        const struct table table = {.columns = tables[kind].columns,
                                    .column_count = tables[kind].column_count,
                                    .rows = &rows,
                                    .row_count = shown,
                                    .cell = tables[kind].cell};
        table_print(out, &table, style->columns);
        if (to - from > shown) {
            fprintf(out, "  and %zu more\n", to - from - shown);
        }
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void add_wait(struct cli_json *line, const struct top_item *item)
{
    if (item->waits_for[0] == '\0') {
        cli_json_null(line, "waits_for");
        return;
    }
    cli_json_text(line, "waits_for", item->waits_for);
    cli_json_number(line, "waits_ms", (int64_t)item->waits_ms);
}

static void add_job(struct cli_json *line, const struct top_item *item)
{
    cli_json_text(line, "state", bus_state_name(item->row->state));
    cli_json_number(line, "parties", (int64_t)item->parties);
    cli_json_number(line, "open", (int64_t)item->row->open);
    cli_json_number(line, "open_ms", (int64_t)item->oldest_ms);
    cli_json_number(line, "values_per_s", (int64_t)item->rate);
    cli_json_number(line, "behind", (int64_t)item->behind);
    cli_json_number(line, "waiters", (int64_t)item->waiters);
    add_wait(line, item);
}

static void add_party(struct cli_json *line, const struct top_item *item)
{
    const struct bus_status_row *row = item->row;
    cli_json_text(line, "state", bus_state_name(row->state));
    cli_json_number(line, "incarnation", row->incarnation);
    cli_json_number(line, "open", (int64_t)row->open);
    if (row->open > 0) {
        cli_json_number(line, "open_ms", (int64_t)row->open_ms);
        cli_json_text(line, "open_topic", row->open_topic);
        cli_json_number(line, "open_seq", (int64_t)row->open_seq);
    }
    if (!status_has_ended(row)) {
        cli_json_number(line, "silent_ms", (int64_t)row->silent_ms);
    }
    add_wait(line, item);
    if (item->wait[0] != '\0') {
        cli_json_text(line, "wait", item->wait);
    }
}

static void add_columns(struct cli_json *line, const struct top_item *item)
{
    const struct bus_status_row *row = item->row;
    switch (row->kind) {
    case BUS_STATUS_JOB: add_job(line, item); break;
    case BUS_STATUS_PARTY: add_party(line, item); break;
    case BUS_STATUS_TOPIC:
        cli_json_text(line, "party", row->party);
        cli_json_number(line, "values_per_s", (int64_t)item->rate);
        cli_json_number(line, "next_seq", (int64_t)row->next_seq);
        cli_json_number(line, "open", (int64_t)row->open);
        cli_json_number(line, "kept", (int64_t)row->pending);
        cli_json_number(line, "kept_bytes", (int64_t)row->pending_bytes);
        break;
    case BUS_STATUS_SUB:
        cli_json_text(line, "party", row->party);
        cli_json_text(line, "state", bus_state_name(row->state));
        cli_json_number(line, "behind", (int64_t)item->behind);
        break;
    case BUS_STATUS_GROUP:
        cli_json_text(line, "topics", row->pattern);
        cli_json_number(line, "members", row->members);
        cli_json_number(line, "leased", (int64_t)row->leased);
        cli_json_number(line, "waiting", (int64_t)row->waiting);
        cli_json_number(line, "dead", row->dead);
        break;
    }
}

static void print_part(FILE *out, const struct top_part *part)
{
    const struct bus_status *status = part->status;
    struct cli_json *line = cli_json_new();
    cli_json_text(line, "row", "broker");
    if (part->endpoint != NULL) {
        cli_json_number(line, "shard", part->shard);
        cli_json_text(line, "endpoint", part->endpoint);
    }
    if (status != NULL) {
        cli_json_text(line, "version", bus_status_version(status));
        cli_json_number(line, "uptime_ms", (int64_t)bus_status_uptime_ms(status));
        cli_json_text(line, "durability", bus_durability_name(bus_status_durability(status)));
        cli_json_text(line, "journal", bus_journal_state_name(bus_status_journal(status)->state));
    } else {
        cli_json_text(line, "silent", part->why);
    }
    cli_json_print(&line, out);
}

void top_json_print(FILE *out, const struct top_picture *picture)
{
    for (size_t i = 0; i < picture->part_count; i++) {
        print_part(out, &picture->parts[i]);
    }
    for (size_t i = 0; i < picture->count; i++) {
        const struct top_item *item = &picture->items[i];
        struct cli_json *line = cli_json_new();
        cli_json_text(line, "row", tables[item->row->kind].kind);
        cli_json_text(line, "job", item->row->job);
        cli_json_text(line, "name", item->row->name);
        add_columns(line, item);
        cli_json_print(&line, out);
    }
}
