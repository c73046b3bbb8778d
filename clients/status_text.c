/* SPDX-License-Identifier: MPL-2.0 */
/* status_text.c -- see status_text.h. */
#include "clients/status_text.h"

#include "clients/cli.h"
#include "clients/text_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES_MAX 512 /* of one piece of a line */
#define STATE_COUNT (BUS_STATE_KEPT + 1)
#define NEAR_WINDOW_BYTES ((uint64_t)512 * 1024) /* of a subscription on one machine */

/* The rows of one job, in order, and the layout of its lines. */
struct job_rows {
    const struct bus_status_row **rows;
    size_t count;
    const struct status_picture *picture;
    const struct status_style *style;
};

/* ---- order ------------------------------------------------------------------------------------*/

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Compares two rows of digits as numbers: without leading zeros, the longer one is larger. */
static int compare_numbers(const char **left, const char **right)
{
    for (; **left == '0' && is_digit((*left)[1]); ++*left) {
    }
    for (; **right == '0' && is_digit((*right)[1]); ++*right) {
    }
    int order = 0;
    for (; is_digit(**left) && is_digit(**right); ++*left, ++*right) {
        order = order != 0 ? order : (**left > **right) - (**left < **right);
    }
    return is_digit(**left) ? 1 : is_digit(**right) ? -1 : order;
}

int status_compare_names(const char *left, const char *right)
{
    const char *a = left;
    const char *b = right;
    int order = 0;
    while (order == 0 && *a != '\0' && *b != '\0') {
        if (is_digit(*a) && is_digit(*b)) {
            order = compare_numbers(&a, &b);
        } else {
            order =
                ((unsigned char)*a > (unsigned char)*b) - ((unsigned char)*a < (unsigned char)*b);
            a++;
            b++;
        }
    }
    if (order == 0) {
        order = (*a != '\0') - (*b != '\0');
    }
    return order != 0 ? order : strcmp(left, right); /* "01" and "1" */
}

static int compare_rows(const void *left, const void *right)
{
    const struct bus_status_row *a = *(const struct bus_status_row *const *)left;
    const struct bus_status_row *b = *(const struct bus_status_row *const *)right;
    int order = status_compare_names(a->job, b->job);
    if (order == 0) {
        order = (a->kind > b->kind) - (a->kind < b->kind);
    }
    if (order == 0) {
        order = status_compare_names(a->name, b->name);
    }
    if (order == 0) {
        order = status_compare_names(a->party, b->party);
    }
    return order != 0 ? order
                      : (a->incarnation > b->incarnation) - (a->incarnation < b->incarnation);
}

void status_sort(const struct bus_status_row **rows, size_t count)
{
    if (count > 0) {
        qsort(rows, count, sizeof *rows, compare_rows);
    }
}

/* ---- words ------------------------------------------------------------------------------------*/

void status_write_time(uint64_t ms, char *text, size_t bytes)
{
    if (ms < 10000) {
        snprintf(text, bytes, "%" PRIu64 ".%" PRIu64 " s", ms / 1000, ms % 1000 / 100);
    } else if (ms < 60000) {
        snprintf(text, bytes, "%" PRIu64 " s", ms / 1000);
    } else if (ms < 3600000) {
        snprintf(text, bytes, "%" PRIu64 " min", ms / 60000);
    } else if (ms < 86400000) {
        snprintf(text, bytes, "%" PRIu64 " h", ms / 3600000);
    } else {
        snprintf(text, bytes, "%" PRIu64 " d", ms / 86400000);
    }
}

/* "184 B", "1.2 MiB". */
static void write_bytes(uint64_t count, char *text, size_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    double number = (double)count;
    for (; number >= 1023.95 && unit + 1 < sizeof units / sizeof units[0]; unit++) {
        number /= 1024;
    }
    snprintf(text, bytes, unit == 0 ? "%.0f %s" : "%.1f %s", number, units[unit]);
}

bool status_has_ended(const struct bus_status_row *party)
{
    switch (party->state) {
    case BUS_STATE_COMPLETED:
    case BUS_STATE_FAILED:
    case BUS_STATE_LOST:
    case BUS_STATE_LEFT:
    case BUS_STATE_TERMINATED: return true;
    default: return false;
    }
}

static bool has_ended_long_ago(const struct bus_status_row *party)
{
    bool is_long_ago = party->ended_ms == 0 || party->ended_ms > STATUS_ENDED_SHOWN_MS;
    return status_has_ended(party) && is_long_ago;
}

/* ---- lines that are broken between their pieces -----------------------------------------------*/

struct line {
    FILE *out;
    size_t columns; /* so far */
    size_t limit;   /* 0: none */
};

/* Adds a piece, on a new line if it does not fit on this one. */
static void add_piece(struct line *line, const char *piece)
{
    size_t columns = text_columns(piece);
    if (line->limit > 0 && line->columns > 0 && line->columns + 1 + columns > line->limit) {
        fputs("\n ", line->out);
        line->columns = 1;
    }
    if (line->columns > 0) {
        putc(' ', line->out);
        line->columns++;
    }
    cli_print_text(line->out, piece, "");
    line->columns += columns;
}

/* Counts the parties of a job by state; of_long_ago: only those that ended long ago. */
static size_t count_states(const struct job_rows *job, bool of_long_ago, size_t *counts)
{
    size_t sum = 0;
    memset(counts, 0, STATE_COUNT * sizeof *counts);
    for (size_t i = 0; i < job->count; i++) {
        const struct bus_status_row *row = job->rows[i];
        if (row->kind == BUS_STATUS_PARTY && (!of_long_ago || has_ended_long_ago(row))) {
            counts[row->state < STATE_COUNT ? row->state : BUS_STATE_UNKNOWN]++;
            sum++;
        }
    }
    return sum;
}

/* Adds "18 running, 1 lost", in the order of the states' numbers, and end behind the last one. */
static void add_states(struct line *line, const size_t *counts, const char *end)
{
    size_t last = 0;
    for (size_t state = 0; state < STATE_COUNT; state++) {
        last = counts[state] > 0 ? state : last;
    }
    for (size_t state = 0; state < STATE_COUNT; state++) {
        char piece[PIECE_BYTES_MAX];
        snprintf(piece, sizeof piece, "%zu %s%s", counts[state],
                 bus_state_name((enum bus_state)state), state == last ? end : ",");
        if (counts[state] > 0) {
            add_piece(line, piece);
        }
    }
}

static const char *journal_words(const struct bus_status_journal *journal)
{
    switch (journal->state) {
    case BUS_JOURNAL_WELL:
        return strcmp(journal->backend, "none") == 0 ? "no journal" : "journal well";
    case BUS_JOURNAL_FULL: return "journal full: values are held back";
    case BUS_JOURNAL_REFUSED: return "journal refused: everything is held back";
    case BUS_JOURNAL_FAILED: return "journal failed";
    case BUS_JOURNAL_UNKNOWN: break;
    }
    return "journal in a state that is not known";
}

/* "20 parties: 18 running, 1 lost, 1 left; 3 open slots; journal well". */
static void print_summary(FILE *out, const struct job_rows *all)
{
    struct line line = {.out = out, .limit = all->style->columns};
    size_t counts[STATE_COUNT];
    char piece[PIECE_BYTES_MAX];
    size_t jobs = 0;
    uint64_t open = 0;
    size_t parties = count_states(all, false, counts);
    for (size_t i = 0; i < all->count; i++) {
        bool is_job = all->rows[i]->kind == BUS_STATUS_JOB;
        jobs += is_job;
        open += is_job ? all->rows[i]->open : 0;
    }
    snprintf(piece, sizeof piece, "%zu job%s,", jobs, cli_plural(jobs));
    if (jobs != 1) {
        add_piece(&line, piece);
    }
    snprintf(piece, sizeof piece, "%zu part%s%s", parties, parties == 1 ? "y" : "ies",
             parties > 0 ? ":" : ";");
    add_piece(&line, piece);
    add_states(&line, counts, ";");
    snprintf(piece, sizeof piece, "%" PRIu64 " open slot%s;", open, cli_plural(open));
    add_piece(&line, piece);
    add_piece(&line, journal_words(all->picture->journal));
    putc('\n', out);
}

/* ---- the broker -------------------------------------------------------------------------------*/

static void print_broker(FILE *out, const struct status_picture *picture)
{
    char up[PIECE_BYTES_MAX];
    status_write_time(picture->uptime_ms, up, sizeof up);
    fprintf(out, "broker %s: up %s, durability %s, %" PRIu64 " message%s refused\n",
            picture->version, up, picture->durability, picture->refused,
            cli_plural(picture->refused));
}

static void print_journal(FILE *out, const struct job_rows *all)
{
    const struct bus_status_journal *journal = all->picture->journal;
    struct line line = {.out = out, .limit = all->style->columns};
    char bytes[PIECE_BYTES_MAX / 2];
    char piece[PIECE_BYTES_MAX];
    if (strcmp(journal->backend, "none") == 0) {
        return;
    }
    add_piece(&line, "journal");
    add_piece(&line, journal->directory);
    snprintf(piece, sizeof piece, "(%.100s):", journal->backend);
    add_piece(&line, piece);
    write_bytes(journal->bytes, bytes, sizeof bytes);
    add_piece(&line, bytes);
    if (journal->next > journal->synced) {
        write_bytes(journal->next - journal->synced, bytes, sizeof bytes);
        snprintf(piece, sizeof piece, "(%s not synced yet)", bytes);
        add_piece(&line, piece);
    }
    if (journal->spilled > 0) {
        write_bytes(journal->spilled_bytes, bytes, sizeof bytes);
        snprintf(piece, sizeof piece, "(%s of values on the disk only)", bytes);
        add_piece(&line, piece);
    }
    putc('\n', out);
    if (journal->state != BUS_JOURNAL_WELL) {
        fputs("  ", out);
        cli_print_text(out, journal->reason, "");
        putc('\n', out);
    }
}

/* ---- tables -----------------------------------------------------------------------------------*/

static const struct bus_status_row *row_at(const void *rows, size_t row)
{
    return ((const struct bus_status_row *const *)rows)[row];
}

/* "heard 0.3 s ago", "12 s ago: errbus.connection_closed". */
static void write_note(const struct bus_status_row *party, char *text, size_t bytes)
{
    char ago[PIECE_BYTES_MAX];
    bool is_well = party->reason == NULL || party->reason[0] == '\0';
    if (!status_has_ended(party)) {
        status_write_time(party->silent_ms, ago, sizeof ago);
        snprintf(text, bytes, "heard %s ago", ago);
    } else if (party->ended_ms == 0) {
        snprintf(text, bytes, "time not known%s%.200s", is_well ? "" : ": ",
                 is_well ? "" : party->reason);
    } else {
        status_write_time(party->ended_ms, ago, sizeof ago);
        snprintf(text, bytes, "%s ago%s%.200s", ago, is_well ? "" : ": ",
                 is_well ? "" : party->reason);
    }
}

static const struct table_column party_columns[] = {
    {"PARTY", false}, {"STATE", false}, {"OPEN", true}, {"HEARD, OR ENDED", false}};

static void write_party(const void *rows, size_t row, size_t column, char *text)
{
    const struct bus_status_row *party = row_at(rows, row);
    switch (column) {
    case 0:
        snprintf(text, TABLE_CELL_BYTES_MAX, "%.500s/%" PRIu32, party->name, party->incarnation);
        break;
    case 1: snprintf(text, TABLE_CELL_BYTES_MAX, "%s", bus_state_name(party->state)); break;
    case 2: snprintf(text, TABLE_CELL_BYTES_MAX, "%" PRIu64, party->open); break;
    default: write_note(party, text, TABLE_CELL_BYTES_MAX); break;
    }
}

static const struct table_column topic_columns[] = {
    {"TOPIC", false}, {"NEXT", true}, {"OPEN", true}, {"KEPT", true}, {"BYTES", true}};

static void write_topic(const void *rows, size_t row, size_t column, char *text)
{
    const struct bus_status_row *topic = row_at(rows, row);
    const uint64_t numbers[] = {0, topic->next_seq, topic->open, topic->pending};
    if (column == 0) {
        snprintf(text, TABLE_CELL_BYTES_MAX, "%.500s", topic->name);
    } else if (column == 4) {
        write_bytes(topic->pending_bytes, text, TABLE_CELL_BYTES_MAX);
    } else {
        snprintf(text, TABLE_CELL_BYTES_MAX, "%" PRIu64, numbers[column]);
    }
}

static const struct table_column sub_columns[] = {
    {"SUBSCRIPTION", false}, {"STATE", false}, {"BEHIND", true}, {"PARTY", false}};

static void write_sub(const void *rows, size_t row, size_t column, char *text)
{
    const struct bus_status_row *sub = row_at(rows, row);
    const char *const texts[] = {sub->name, bus_state_name(sub->state), "", sub->party};
    if (column == 2) {
        snprintf(text, TABLE_CELL_BYTES_MAX, "%" PRIu64, sub->pending);
    } else {
        snprintf(text, TABLE_CELL_BYTES_MAX, "%.500s", texts[column]);
    }
}

static const struct table_column group_columns[] = {{"GROUP", false}, {"MEMBERS", true},
                                                    {"LEASED", true}, {"WAITING", true},
                                                    {"DEAD", true},   {"TOPICS", false}};

static void write_group(const void *rows, size_t row, size_t column, char *text)
{
    const struct bus_status_row *group = row_at(rows, row);
    const uint64_t numbers[] = {0, group->members, group->leased, group->waiting, group->dead};
    if (column == 0 || column == 5) {
        snprintf(text, TABLE_CELL_BYTES_MAX, "%.500s", column == 0 ? group->name : group->pattern);
    } else if (column == 2) {
        snprintf(text, TABLE_CELL_BYTES_MAX, "%" PRIu64 " of %" PRIu64, group->leased,
                 group->credit);
    } else {
        snprintf(text, TABLE_CELL_BYTES_MAX, "%" PRIu64, numbers[column]);
    }
}

static const struct {
    const struct table_column *columns;
    size_t column_count;
    table_cell_fn *cell;
    const char *plural;
} tables[] = {
    [BUS_STATUS_PARTY] = {party_columns, 4, write_party, "parties"},
    [BUS_STATUS_TOPIC] = {topic_columns, 5, write_topic, "topics"},
    [BUS_STATUS_SUB] = {sub_columns, 4, write_sub, "subscriptions"},
    [BUS_STATUS_GROUP] = {group_columns, 6, write_group, "groups"},
};

/* ---- jobs -------------------------------------------------------------------------------------*/

/* Moves the rows of one kind that are shown to the front of shown.  Returns how many. */
static size_t pick(const struct job_rows *job, enum bus_status_kind kind,
                   const struct bus_status_row **shown)
{
    size_t count = 0;
    for (size_t i = 0; i < job->count; i++) {
        const struct bus_status_row *row = job->rows[i];
        bool is_hidden = kind == BUS_STATUS_PARTY && has_ended_long_ago(row);
        if (row->kind == kind && (!is_hidden || job->style->is_all)) {
            shown[count++] = row;
        }
    }
    return count;
}

/* "24 topics (--all lists them)", and who is the furthest behind. */
static void print_count(FILE *out, const struct job_rows *job, enum bus_status_kind kind,
                        const struct bus_status_row *const *rows, size_t count)
{
    struct line line = {.out = out, .columns = 1, .limit = job->style->columns};
    char piece[PIECE_BYTES_MAX];
    const struct bus_status_row *most = rows[0];
    for (size_t i = 1; i < count; i++) {
        most = rows[i]->pending > most->pending ? rows[i] : most;
    }
    putc(' ', out);
    snprintf(piece, sizeof piece, "%zu %s%s", count, tables[kind].plural,
             kind == BUS_STATUS_SUB && most->pending > 0 ? "," : "");
    add_piece(&line, piece);
    if (kind == BUS_STATUS_SUB && most->pending > 0) {
        snprintf(piece, sizeof piece, "the furthest is %" PRIu64 " behind: %.100s of %.100s",
                 most->pending, most->name, most->party);
        add_piece(&line, piece);
    }
    add_piece(&line, "(--all lists them)");
    putc('\n', out);
}

static void print_kind(FILE *out, const struct job_rows *job, enum bus_status_kind kind,
                       const struct bus_status_row **shown)
{
    size_t count = pick(job, kind, shown);
    bool is_counted = (kind == BUS_STATUS_TOPIC || kind == BUS_STATUS_SUB) &&
                      count > STATUS_ROWS_SHOWN && !job->style->is_all;
    const struct table table = {.columns = tables[kind].columns,
                                .column_count = tables[kind].column_count,
                                .rows = shown,
                                .row_count = count,
                                .cell = tables[kind].cell};
    if (is_counted) {
        print_count(out, job, kind, shown, count);
    } else if (count > 0) {
        table_print(out, &table, job->style->columns);
    }
}

/* "12 parties that ended over 10 min ago are not shown: 10 left, 2 lost (--all)". */
static void print_hidden(FILE *out, const struct job_rows *job)
{
    struct line line = {.out = out, .columns = 1, .limit = job->style->columns};
    size_t counts[STATE_COUNT];
    char piece[PIECE_BYTES_MAX];
    size_t count = count_states(job, true, counts);
    if (count == 0 || job->style->is_all) {
        return;
    }
    putc(' ', out);
    snprintf(piece, sizeof piece, "%zu part%s that ended over %" PRIu64 " min ago:", count,
             count == 1 ? "y" : "ies", STATUS_ENDED_SHOWN_MS / 60000);
    add_piece(&line, piece);
    add_states(&line, counts, "");
    add_piece(&line, "(--all lists them)");
    putc('\n', out);
}

/* "windows of readers: 3.5 MiB, the largest 3.0 MiB: alice/bulk of bob", if one of them follows a
 * link: on one machine all are alike. */
static void print_windows(FILE *out, const struct job_rows *job)
{
    struct line line = {.out = out, .columns = 1, .limit = job->style->columns};
    char sum[PIECE_BYTES_MAX / 2];
    char most[PIECE_BYTES_MAX / 2];
    char piece[PIECE_BYTES_MAX];
    const struct bus_status_row *largest = NULL;
    for (size_t i = 0; i < job->count; i++) {
        const struct bus_status_row *row = job->rows[i];
        bool is_reader = row->kind == BUS_STATUS_SUB && row->window_bytes > 0;
        if (is_reader && (largest == NULL || row->window_bytes > largest->window_bytes)) {
            largest = row;
        }
    }
    if (largest == NULL || largest->window_bytes == NEAR_WINDOW_BYTES) {
        return;
    }
    write_bytes(job->rows[0]->window_bytes, sum, sizeof sum);
    write_bytes(largest->window_bytes, most, sizeof most);
    putc(' ', out);
    snprintf(piece, sizeof piece, "windows of readers: %s,", sum);
    add_piece(&line, piece);
    snprintf(piece, sizeof piece, "the largest %s: %.100s of %.100s", most, largest->name,
             largest->party);
    add_piece(&line, piece);
    putc('\n', out);
}

static void print_job(FILE *out, const struct job_rows *job, const struct bus_status_row **shown)
{
    struct line line = {.out = out, .limit = job->style->columns};
    const struct bus_status_row *row = job->rows[0];
    char kept[PIECE_BYTES_MAX / 2];
    char piece[PIECE_BYTES_MAX];
    size_t counts[STATE_COUNT];
    size_t parties = count_states(job, false, counts);
    write_bytes(row->pending_bytes, kept, sizeof kept);
    add_piece(&line, "job");
    add_piece(&line, row->name);
    snprintf(piece, sizeof piece, "(%s):", bus_state_name(row->state));
    add_piece(&line, piece);
    snprintf(piece, sizeof piece, "%zu part%s,", parties, parties == 1 ? "y" : "ies");
    add_piece(&line, piece);
    snprintf(piece, sizeof piece, "%" PRIu64 " open slot%s,", row->open, cli_plural(row->open));
    add_piece(&line, piece);
    snprintf(piece, sizeof piece, "%s of values kept", kept);
    add_piece(&line, piece);
    putc('\n', out);
    print_kind(out, job, BUS_STATUS_PARTY, shown);
    print_hidden(out, job);
    print_kind(out, job, BUS_STATUS_TOPIC, shown);
    print_kind(out, job, BUS_STATUS_SUB, shown);
    print_windows(out, job);
    print_kind(out, job, BUS_STATUS_GROUP, shown);
}

bool status_text_print(FILE *out, const struct status_picture *picture,
                       const struct status_style *style)
{
    struct job_rows all = {picture->rows, picture->count, picture, style};
    const struct bus_status_row **shown = calloc(picture->count + 1, sizeof *shown);
    if (shown == NULL) {
        return false;
    }
    status_sort(picture->rows, picture->count);
    print_summary(out, &all);
    print_broker(out, picture);
    print_journal(out, &all);
    for (size_t from = 0, to; from < picture->count; from = to) {
        for (to = from + 1; to < picture->count && picture->rows[to]->kind != BUS_STATUS_JOB;
             to++) {
        }
        struct job_rows job = {picture->rows + from, to - from, picture, style};
        print_job(out, &job, shown);
    }
    free(shown);
    return true;
}
