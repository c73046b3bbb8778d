/* SPDX-License-Identifier: MPL-2.0 */
/* top.c -- errbus top: what a broker, or each of those that are one bus, does, again and again.
 *
 * On a terminal each picture is written over the last one, by moving the cursor up.  No mode of the
 * terminal is changed and no cursor is hidden, so whatever ends or stops this program leaves the
 * terminal as it was.  After a stop or a resize nobody knows where the last picture stands: the
 * next one begins on a line of its own. */
#include "clients/errbus.h"

#include "clients/cli.h"
#include "clients/text_table.h"
#include "clients/top_text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVERY_MS INT64_C(1000)
#define EVERY_MS_LEAST INT64_C(100)
#define ROWS 10 /* of each table */
#define ROWS_MAX 1000000

struct asked {
    struct cli cli;
    bool is_once;
    int64_t every_ms;
    int64_t rows;
    const char *filter;
    const char *sort;
    enum top_order order;
    size_t lines; /* of the last picture on the terminal; 0: it is not known where it stands */
};

/* ---- the terminal ---------------------------------------------------------------------------- */

static atomic_bool is_moved; /* by a stop or a resize */
static int moved_pipe[2] = {-1, -1};

static void on_moved(int number)
{
    int errno_before = errno;
    (void)number;
    atomic_store(&is_moved, true);
    ssize_t written = write(moved_pipe[1], "", 1); /* if it is full, somebody was woken */
    (void)written;
    errno = errno_before;
}

static bool watch_terminal(void)
{
    struct sigaction action = {.sa_handler = on_moved, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    return pipe2(moved_pipe, O_CLOEXEC | O_NONBLOCK) == 0 &&
           sigaction(SIGCONT, &action, NULL) == 0 && sigaction(SIGWINCH, &action, NULL) == 0;
}

static void see_moves(struct asked *asked)
{
    char bytes[64];
    while (moved_pipe[0] >= 0 && read(moved_pipe[0], bytes, sizeof bytes) > 0) {
    }
    if (atomic_exchange(&is_moved, false)) {
        asked->lines = 0;
    }
}

/* Writes the lines of text over the last picture, as many as the terminal has. */
static void draw(struct asked *asked, const char *text, size_t columns)
{
    size_t most = text_stream_lines(stdout);
    size_t lines = 0;
    see_moves(asked);
    if (asked->lines > 0) {
        printf("\033[%zuA", asked->lines);
    }
    for (const char *at = text; *at != '\0' && lines + 1 < most; lines++) {
        size_t bytes = strcspn(at, "\n");
        printf("%.*s\033[K\n", (int)text_bytes_within(at, bytes, columns), at);
        at += bytes + (at[bytes] == '\n');
    }
    printf("\033[J");
    asked->lines = lines;
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* False: memory is short. */
static bool print_text(struct asked *asked, const struct top_picture *picture)
{
    char *text = NULL;
    size_t bytes = 0;
    size_t columns = text_stream_columns(stdout);
    const struct top_style style = {.columns = columns, .rows = (size_t)asked->rows};
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) {
        return false;
    }
    top_text_print(out, picture, &style);
    bool is_well = fclose(out) == 0;
    if (is_well && columns > 0 && !asked->is_once) {
        draw(asked, text, columns);
    } else if (is_well) {
        printf("%s%s", text, asked->is_once ? "" : "\n");
    }
    free(text);
    return is_well;
}

/* True: another picture may follow. */
static bool show(struct asked *asked, struct top_picture *picture, int *out_exit)
{
    bool is_printed = true;
    top_arrange(picture, asked->filter, asked->order);
    if (asked->cli.is_json) {
        top_json_print(stdout, picture);
    } else {
        is_printed = print_text(asked, picture);
    }
    if (!is_printed) {
        *out_exit = cli_report(&asked->cli, BUS_ENOMEM, NULL);
        return false;
    }
    return cli_flush_output(&asked->cli, out_exit);
}

static bool take(const struct asked *asked, struct shards *shards, const struct top_picture *before,
                 struct top_picture *out_picture, int *out_exit)
{
    const struct cli *cli = &asked->cli;
    struct bus_error *error = NULL;
    struct bus_admin_options options;
    cli_admin_options(cli, &options);
    options.is_patient = 0; /* a broker that is gone must not keep the others waiting */
    const struct top_source source = {.shards = shards,
                                      .job = cli->argc > 0      ? cli->argv[0]
                                             : cli->job != NULL ? cli->job
                                                                : BUS_JOB_ALL,
                                      .options = &options,
                                      .timeout_ms = cli_open_ms(cli)};
    enum bus_err err = top_take(&source, before, out_picture, &error);
    if (err != BUS_OK) {
        *out_exit = cli_report(cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, &error);
    } else {
        *out_exit = cli_exit_of(out_picture->lost);
    }
    return err == BUS_OK;
}

/* Waits for the next picture.  False: a signal asks for the end, or --wait is over. */
static bool wait_for_next(const struct asked *asked, int64_t since_ms)
{
    for (;;) {
        int64_t left_ms = since_ms + asked->every_ms - cli_now_ms();
        int64_t within_ms = cli_left_within(&asked->cli, left_ms > 0 ? left_ms : 0);
        enum cli_woken woken = cli_wait(&asked->cli, moved_pipe[0], within_ms);
        if (woken == CLI_WOKEN_READABLE) {
            return true; /* a resize, or a continuation: at once */
        }
        if (woken != CLI_WOKEN_TIME || cli_left_ms(&asked->cli) == 0) {
            return false;
        }
        if (within_ms >= left_ms) {
            return true;
        }
    }
}

/* The rates of a picture need the one before.  So the first is shown without, but for --once. */
static int show_all(struct asked *asked, struct shards *shards)
{
    struct top_picture before = {0};
    struct top_picture picture = {0};
    int result = CLI_OK;
    int64_t count = asked->is_once ? 1 : asked->cli.count < 0 ? INT64_MAX : asked->cli.count;
    bool is_silent = asked->is_once; /* the first picture is for the rates alone */
    while (count > 0 &&
           take(asked, shards, before.parts != NULL ? &before : NULL, &picture, &result)) {
        int64_t at_ms = picture.at_ms;
        if (!is_silent && (!show(asked, &picture, &result) || --count == 0)) {
            break;
        }
        is_silent = false;
        top_free(&before);
        before = picture;
        picture = (struct top_picture){0};
        if (!wait_for_next(asked, at_ms)) {
            break;
        }
    }
    top_free(&before);
    top_free(&picture);
    return result;
}

static int check(struct asked *asked)
{
    const struct cli *cli = &asked->cli;
    const struct cli_range ranges[] = {
        {"every", asked->every_ms, EVERY_MS_LEAST, CLI_DAY_MS, true},
        {"rows", asked->rows, 1, ROWS_MAX, false},
    };
    if (cli->argc > 1) {
        return cli_usage(cli, "unexpected operand '%.100s'", cli->argv[1]);
    }
    while (asked->order < TOP_ORDERS && strcmp(asked->sort, top_order_names[asked->order]) != 0) {
        asked->order++;
    }
    if (asked->order == TOP_ORDERS) {
        return cli_usage(cli, "--sort takes busy, name, rate, open or behind, not '%.100s'",
                         asked->sort);
    }
    return cli_check_ranges(cli, ranges, sizeof ranges / sizeof ranges[0]);
}

int top_main(int argc, char **argv)
{
    struct asked asked = {
        .cli = {.program = "errbus top",
                .prints_lines = true,
                .count_help = "show N pictures (no limit)",
                .is_observer = true,
                .operands = "[JOB]",
                .summary = "Shows each second what the jobs, parties, topics and readers of a "
                           "bus do, and who waits for whom."},
        .every_ms = EVERY_MS,
        .rows = ROWS,
        .sort = "busy",
    };
    struct cli *cli = &asked.cli;
    const struct cli_flag flags[] = {
        {0, "once", CLI_YES, &asked.is_once, NULL, "show one picture and end"},
        {0, "every", CLI_SECONDS, &asked.every_ms, "SECONDS", "the time between two pictures (1)"},
        {0, "sort", CLI_TEXT, &asked.sort, "KEY",
         "what stands first: busy, name, rate, open or behind (busy)"},
        {0, "filter", CLI_TEXT, &asked.filter, "TEXT", "show rows with TEXT in a name alone"},
        {0, "rows", CLI_NUMBER, &asked.rows, "N", "rows of each table (10)"},
    };
    struct bus_admin *admin = NULL;
    int result = CLI_OK;
    if (!cli_start(cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    result = check(&asked);
    if (result != CLI_OK) {
        return result;
    }
    if (cli->argc == 1) {
        cli->job = cli->argv[0];
    }
    result = cli_admin_open(cli, &admin);
    if (result == CLI_OK && cli->job != NULL) {
        result = cli_find_job(cli, admin);
    }
    if (result == CLI_OK && text_stream_columns(stdout) > 0 && !watch_terminal()) {
        result = cli_report(cli, BUS_ENOMEM, NULL);
    }
    struct shards *shards = result == CLI_OK ? shards_new(admin) : NULL;
    if (result == CLI_OK) {
        result = shards != NULL ? show_all(&asked, shards) : cli_report(cli, BUS_ENOMEM, NULL);
    }
    shards_free(&shards);
    bus_admin_close(&admin);
    return result;
}
