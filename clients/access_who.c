/* SPDX-License-Identifier: MPL-2.0 */
/* access_who.c -- see access_who.h. */
#include "clients/access_who.h"

#include "clients/status_text.h"
#include "clients/text_table.h"

#include <bus/access.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

enum {
    KEY_SHOWN_BYTES = 12, /* of a key, in the table: enough to tell keys apart */
    DAY_BYTES = 16,
};
static const char key_begin[] = "ebp_";

/* The last day of a key; "": it has none. */
static void write_day(int64_t until_s, char day[DAY_BYTES])
{
    time_t last_s = (time_t)(until_s - 1);
    struct tm parts;
    day[0] = '\0';
    if (until_s != 0 && gmtime_r(&last_s, &parts) != NULL) {
        strftime(day, DAY_BYTES, "%Y-%m-%d", &parts);
    }
}

/* ---- rows -------------------------------------------------------------------------------------*/

static void print_row_json(const struct bus_who_row *row)
{
    char day[DAY_BYTES];
    struct cli_json *line = cli_json_new();
    write_day(row->until_s, day);
    cli_json_text(line, "name", row->name);
    cli_json_text(line, "job", row->job);
    cli_json_text(line, "party", row->party);
    cli_json_number(line, "incarnation", row->incarnation);
    cli_json_text(line, "role", bus_role_name(row->role));
    cli_json_number(line, "connections", row->connections);
    cli_json_number(line, "connected_ms", (int64_t)row->connected_ms);
    cli_json_text(line, "identity", row->identity);
    cli_json_text(line, "address", row->address);
    cli_json_text(line, "until", day[0] != '\0' ? day : NULL);
    (void)cli_json_print(&line, stdout);
}

static const struct table_column columns[] = {
    {"NAME", false}, {"JOB", false},   {"PARTY", false}, {"CONNECTIONS", true},
    {"FROM", false}, {"SINCE", false}, {"KEY", false},   {"UNTIL", false}};

/* "alice/1", "alice/1, its guard", "observer". */
static void write_party(const struct bus_who_row *row, char *text)
{
    if (row->role == BUS_ROLE_OBSERVER) {
        snprintf(text, TABLE_CELL_BYTES_MAX, "observer");
    } else {
        snprintf(text, TABLE_CELL_BYTES_MAX, "%.500s/%" PRIu32 "%s", row->party, row->incarnation,
                 row->role == BUS_ROLE_GUARD ? ", its guard" : "");
    }
}

static void write_key(const char *identity, char *text)
{
    bool is_key = strncmp(identity, key_begin, sizeof key_begin - 1) == 0;
    snprintf(text, TABLE_CELL_BYTES_MAX, "%.*s%s", is_key ? KEY_SHOWN_BYTES : 100, identity,
             is_key ? "..." : "");
}

static void write_cell(const void *rows, size_t at, size_t column, char *text)
{
    const struct bus_who_row *row = bus_who_at(rows, at);
    char ago[DAY_BYTES] = "-";
    switch (column) {
    case 0: snprintf(text, TABLE_CELL_BYTES_MAX, "%.500s", row->name); break;
    case 1: snprintf(text, TABLE_CELL_BYTES_MAX, "%.500s", row->job); break;
    case 2: write_party(row, text); break;
    case 3: snprintf(text, TABLE_CELL_BYTES_MAX, "%" PRIu32, row->connections); break;
    case 4: snprintf(text, TABLE_CELL_BYTES_MAX, "%.100s", row->address); break;
    case 5:
        if (row->connections > 0) {
            status_write_time(row->connected_ms, ago, sizeof ago);
        }
        snprintf(text, TABLE_CELL_BYTES_MAX, "%s", ago);
        break;
    case 6: write_key(row->identity, text); break;
    default:
        write_day(row->until_s, ago);
        snprintf(text, TABLE_CELL_BYTES_MAX, "%s", ago);
        break;
    }
}

static void print_who(const struct cli *cli, const struct bus_who *who)
{
    const struct table table = {.columns = columns,
                                .column_count = sizeof columns / sizeof columns[0],
                                .rows = who,
                                .row_count = bus_who_count(who),
                                .cell = write_cell};
    for (size_t i = 0; cli->is_json && i < bus_who_count(who); i++) {
        print_row_json(bus_who_at(who, i));
    }
    if (!cli->is_json) {
        table_print(stdout, &table, text_stream_columns(stdout));
    }
}

/* ---- questions --------------------------------------------------------------------------------*/

/* A question: without --wait it fails at once where no broker is in reach. */
static int open_admin(const struct cli *cli, struct bus_admin **out_admin)
{
    struct cli asking = *cli;
    asking.is_observer = true;
    return cli_admin_open(&asking, out_admin);
}

int access_who(const struct cli *cli)
{
    struct bus_admin *admin = NULL;
    struct bus_who *who = NULL;
    struct bus_error *error = NULL;
    if (cli->argc != 1) {
        return cli_usage(cli, "who takes no operand");
    }
    int result = open_admin(cli, &admin);
    if (result != CLI_OK) {
        return result;
    }
    enum bus_err err = bus_who_get(admin, cli_open_ms(cli), &who, &error);
    result = cli_admin_done(cli, &admin, err, &error);
    if (result == CLI_OK) {
        print_who(cli, who);
        (void)cli_flush_output(cli, &result);
    }
    bus_who_free(&who);
    return result;
}

int access_reload(const struct cli *cli)
{
    struct bus_admin *admin = NULL;
    struct bus_error *error = NULL;
    uint32_t revoked = 0;
    if (cli->argc != 1) {
        return cli_usage(cli, "reload takes no operand: the broker knows its file");
    }
    int result = open_admin(cli, &admin);
    if (result != CLI_OK) {
        return result;
    }
    enum bus_err err = bus_access_reload(admin, cli_open_ms(cli), &revoked, &error);
    result = cli_admin_done(cli, &admin, err, &error);
    if (result == CLI_OK && cli->is_json) {
        struct cli_json *line = cli_json_new();
        cli_json_number(line, "revoked", revoked);
        (void)cli_json_print(&line, stdout);
    } else if (result == CLI_OK) {
        printf("the access file is in force; parties that lost their access: %" PRIu32 "\n",
               revoked);
    }
    if (result == CLI_OK) {
        (void)cli_flush_output(cli, &result);
    }
    return result;
}
