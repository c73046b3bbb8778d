/* SPDX-License-Identifier: MPL-2.0 */
/* dead.c -- errbus dead: shows dead letters, gives them to their group again, drops them. */
#include "clients/errbus.h"

#include "clients/cli.h"

#include <bus/dead.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct cli_json *json_of(const struct bus_letter *letter)
{
    struct cli_json *line = cli_json_new();
    cli_json_number(line, "number", (int64_t)letter->number);
    cli_json_text(line, "topic", letter->topic);
    cli_json_number(line, "seq", (int64_t)letter->seq);
    cli_json_number(line, "attempt", letter->attempt);
    cli_json_number(line, "deliveries", letter->deliveries);
    cli_json_time(line, "died", letter->at_ns);
    cli_json_number(line, "bytes", (int64_t)letter->value_bytes);
    cli_json_bool(line, "again", letter->is_replayed != 0);
    cli_json_text(line, "type", letter->type);
    cli_json_text(line, "message", letter->message);
    return line;
}

static void print_letter(const struct bus_letter *letter)
{
    char at[CLI_TIME_BYTES_MAX];
    cli_time_text(letter->at_ns, at);
    printf("%" PRIu64 " %.19sZ ", letter->number, at);
    cli_print_text(stdout, letter->topic, "");
    printf("#%" PRIu64, letter->seq);
    if (letter->attempt > 1) {
        printf(" of attempt %" PRIu32, letter->attempt);
    }
    printf(", given %u %s, %" PRIu64 " bytes%s", letter->deliveries,
           letter->deliveries == 1 ? "time" : "times", letter->value_bytes,
           letter->is_replayed ? ", given again" : "");
    if (letter->type[0] != '\0') {
        printf(": ");
        cli_print_text(stdout, letter->type, "");
        printf(": ");
        cli_print_last_line(stdout, letter->message);
    }
    printf("\n");
}

static int list(const struct cli *cli, struct bus_admin **admin, const char *group)
{
    struct bus_dead *dead = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_admin_dead_list(*admin, NULL, group, cli_open_ms(cli), &dead, &error);
    int result = cli_admin_done(cli, admin, err, &error);
    if (result != CLI_OK) {
        return result;
    }
    for (size_t i = 0; i < bus_dead_count(dead); i++) {
        if (cli->count >= 0 && (int64_t)i >= cli->count) {
            break;
        }
        if (cli->is_json) {
            struct cli_json *line = json_of(bus_dead_at(dead, i));
            cli_json_print(&line, stdout);
        } else {
            print_letter(bus_dead_at(dead, i));
        }
    }
    bus_dead_free(&dead);
    (void)cli_flush_output(cli, &result); /* result says it */
    return result;
}

/* Prints the value alone to standard output, so that it can be piped.  The rest goes to standard
 * error. */
static void print_shown(const struct cli *cli, const struct bus_dead *dead)
{
    size_t bytes;
    const void *value = bus_dead_value(dead, &bytes);
    const struct bus_letter *letter = bus_dead_at(dead, 0);
    if (cli->is_json) {
        struct cli_json *line = json_of(letter);
        cli_json_value(line, "value", value, bytes);
        if (bus_dead_error(dead) != NULL) {
            cli_json_error(line, "error", bus_dead_error(dead));
        }
        cli_json_print(&line, stdout);
        return;
    }
    if (bus_dead_error(dead) != NULL) {
        cli_print_error(stderr, cli->program, bus_dead_error(dead));
    }
    fwrite(value, 1, bytes, stdout); /* cli_flush_output() reports a failure */
    if (bytes > 0 && ((const char *)value)[bytes - 1] != '\n') {
        printf("\n");
    }
}

static int show(const struct cli *cli, struct bus_admin **admin, const char *group, uint64_t number)
{
    struct bus_dead *dead = NULL;
    struct bus_error *error = NULL;
    enum bus_err err =
        bus_admin_dead_show(*admin, NULL, group, number, cli_open_ms(cli), &dead, &error);
    int result = cli_admin_done(cli, admin, err, &error);
    if (result != CLI_OK) {
        return result;
    }
    if (bus_dead_count(dead) > 0) {
        print_shown(cli, dead);
    }
    bus_dead_free(&dead);
    (void)cli_flush_output(cli, &result); /* result says it */
    return result;
}

static int act(const struct cli *cli, struct bus_admin **admin, const char *group, uint64_t number,
               bool is_drop)
{
    uint64_t count = 0;
    struct bus_error *error = NULL;
    enum bus_err err =
        is_drop
            ? bus_admin_dead_drop(*admin, NULL, group, number, cli_open_ms(cli), &count, &error)
            : bus_admin_dead_replay(*admin, NULL, group, number, cli_open_ms(cli), &count, &error);
    int result = cli_admin_done(cli, admin, err, &error);
    if (result != CLI_OK) {
        return result;
    }
    if (cli->is_json) {
        struct cli_json *line = cli_json_new();
        cli_json_number(line, is_drop ? "dropped" : "replayed", (int64_t)count);
        cli_json_print(&line, stdout);
    } else {
        printf("%" PRIu64 " %s\n", count, is_drop ? "dropped" : "given again");
    }
    (void)cli_flush_output(cli, &result); /* result says it */
    return result;
}

/* The number of a letter, or "all" where all is allowed. */
static bool read_number(const char *text, bool is_all_allowed, uint64_t *out_number)
{
    int64_t number = 0;
    *out_number = BUS_DEAD_ALL;
    if (is_all_allowed && strcmp(text, "all") == 0) {
        return true;
    }
    if (!cli_number_read(text, &number)) {
        return false;
    }
    *out_number = (uint64_t)number;
    return true;
}

int dead_main(int argc, char **argv)
{
    struct cli cli = {.program = "errbus dead",
                      .prints_lines = true,
                      .count_help = "with list: print at most N (no limit)",
                      .is_observer = true,
                      .operands = "list GROUP | show GROUP NUMBER | replay|drop GROUP NUMBER|all",
                      .summary =
                          "Lists the dead letters of a group: tasks that no worker could do. Shows "
                          "one with all its\nerrors, gives it to the group again, or drops it."};
    struct bus_admin *admin = NULL;
    int result = CLI_OK;
    uint64_t number = 0;
    if (!cli_start(&cli, argc, argv, NULL, 0, &result)) {
        return result;
    }
    const char *verb = cli.argc > 0 ? cli.argv[0] : "";
    bool is_list = strcmp(verb, "list") == 0;
    bool is_show = strcmp(verb, "show") == 0;
    bool is_replay = strcmp(verb, "replay") == 0;
    bool is_drop = strcmp(verb, "drop") == 0;
    if (!is_list && !is_show && !is_replay && !is_drop) {
        return cli_usage(&cli, "expected list, show, replay or drop, not '%.100s'", verb);
    }
    if (cli.argc < 2) {
        return cli_usage(&cli, "expected the name of a group after '%s'", verb);
    }
    if (cli.argc > (is_list ? 2 : 3)) {
        return cli_usage(&cli, "unexpected operand '%.100s'", cli.argv[is_list ? 2 : 3]);
    }
    if (!is_list && (cli.argc < 3 || !read_number(cli.argv[2], !is_show, &number))) {
        return cli_usage(&cli, "expected the number of a dead letter%s after '%s', not '%.100s'",
                         is_show ? "" : ", or 'all',", cli.argv[1],
                         cli.argc < 3 ? "" : cli.argv[2]);
    }
    result = cli_admin_open(&cli, &admin);
    if (result != CLI_OK) {
        return result;
    }
    if (is_list) {
        return list(&cli, &admin, cli.argv[1]);
    }
    return is_show ? show(&cli, &admin, cli.argv[1], number)
                   : act(&cli, &admin, cli.argv[1], number, is_drop);
}
