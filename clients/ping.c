/* SPDX-License-Identifier: MPL-2.0 */
/* ping.c -- errbus ping: whether a broker answers on both of its channels, and how fast. */
#include "clients/errbus.h"

#include "clients/cli.h"

#include <bus/admin.h>

#define EVERY_MS INT64_C(1000)  /* between two pings, with --count */
#define ANSWER_MS INT64_C(2000) /* a broker that takes longer is not well */
#define NS_PER_MS 1e6

struct asked {
    struct cli cli;
    bool wants_ready; /* fail while the broker takes no values */
};

struct answer {
    struct bus_pong control;
    struct bus_pong data;
};

/* What to do when a broker is lost; the library has said what is wrong. */
static void advise(const struct cli *cli)
{
    fprintf(stderr,
            "%s: what to do: see whether errbusd runs there and what its log says, whether -s or "
            "ERRBUS_SERVER names the right port, and whether a firewall lets both ports through\n",
            cli->program);
}

static int report(const struct cli *cli, enum bus_err err, struct bus_error **error)
{
    int result = cli_report(cli, err == BUS_ETIMEDOUT ? BUS_ELOST : err, error);
    if (result == CLI_LOST) {
        advise(cli);
    }
    return result;
}

static int open_admin(const struct cli *cli, struct bus_admin **out_admin)
{
    struct bus_admin_options options;
    struct bus_error *error = NULL;
    bus_admin_options_init(&options);
    options.job = cli->job;
    options.is_patient = cli->wait_ms >= 0;
    cli_waiting_begin(cli);
    enum bus_err err = bus_admin_open(
        cli->server, &options, cli->wait_ms >= 0 ? cli_left_ms(cli) : ANSWER_MS, out_admin, &error);
    cli_waiting_end();
    return report(cli, err, &error);
}

/* *out_is_over: --wait ended the ping before the channel was late. */
static int ping(const struct cli *cli, struct bus_admin *admin, enum bus_channel channel,
                struct bus_pong *out_pong, bool *out_is_over)
{
    static const char *const names[] = {
        [BUS_CHANNEL_CONTROL] = "control", [BUS_CHANNEL_DATA] = "data"};
    struct bus_error *error = NULL;
    enum bus_err err = bus_admin_ping(
        admin, channel, cli->wait_ms >= 0 ? cli_left_ms(cli) : ANSWER_MS, out_pong, &error);
    if (err == BUS_ETIMEDOUT && cli_is_only_over(cli, EVERY_MS + ANSWER_MS)) {
        *out_is_over = true; /* both channels answered before, and this one is not late yet */
        bus_error_unref(&error);
        return CLI_OK;
    }
    if (err != BUS_OK) {
        fprintf(stderr, "%s: the %s channel does not answer%s\n", cli->program, names[channel],
                channel == BUS_CHANNEL_DATA ? "; the control channel does" : "");
    }
    return report(cli, err, &error);
}

/* What a broker cannot do whose journal is not well; "": nothing. */
static const char *journal_text(int state)
{
    switch (state) {
    case BUS_JOURNAL_FULL: return "values wait until its disk has room";
    case BUS_JOURNAL_REFUSED: return "everything waits until it can be written";
    case BUS_JOURNAL_FAILED: return "the broker ends";
    }
    return "";
}

static void print_text(const struct answer *answer)
{
    int journal = answer->data.journal;
    printf("control %.3f ms, data %.3f ms, up %llu s\n",
           (double)answer->control.trip_ns / NS_PER_MS, (double)answer->data.trip_ns / NS_PER_MS,
           (unsigned long long)(answer->data.uptime_ms / 1000));
    if (journal != BUS_JOURNAL_WELL) {
        printf("journal %s: %s; errbus status says why\n",
               bus_journal_state_name((enum bus_journal_state)journal), journal_text(journal));
    }
}

static void print_json(const struct answer *answer)
{
    struct cli_json *line = cli_json_new();
    cli_json_number(line, "control_ns", answer->control.trip_ns);
    cli_json_number(line, "data_ns", answer->data.trip_ns);
    cli_json_number(line, "uptime_ms", (int64_t)answer->data.uptime_ms);
    cli_json_text(line, "journal",
                  bus_journal_state_name((enum bus_journal_state)answer->data.journal));
    cli_json_print(&line, stdout);
}

/* True: another one may follow. */
static bool ping_both(struct asked *asked, struct bus_admin *admin, int *out_exit)
{
    struct cli *cli = &asked->cli;
    struct answer answer;
    bool is_over = false;
    *out_exit = ping(cli, admin, BUS_CHANNEL_CONTROL, &answer.control, &is_over);
    if (*out_exit == CLI_OK && !is_over) {
        *out_exit = ping(cli, admin, BUS_CHANNEL_DATA, &answer.data, &is_over);
    }
    if (*out_exit != CLI_OK || is_over) {
        return false;
    }
    cli_answered(cli);
    if (cli->is_json) {
        print_json(&answer);
    } else {
        print_text(&answer);
    }
    if (asked->wants_ready && answer.data.journal != BUS_JOURNAL_WELL) {
        *out_exit = CLI_FAILED;
    }
    int result = CLI_OK;
    if (!cli_flush_output(cli, &result)) {
        *out_exit = result;
        return false;
    }
    return *out_exit == CLI_OK;
}

int ping_main(int argc, char **argv)
{
    struct asked asked = {
        .cli = {.program = "errbus ping",
                .prints_lines = true,
                .count_help = "ping N times, a second apart (1)",
                .is_observer = true,
                .is_broker_known = true, /* it is asked whether it is well */
                .exits = ",\n             1 with --ready: the journal takes no values",
                .operands = "",
                .summary = "Asks a broker for a sign of life over each of its channels, and says "
                           "how long the answer took."}};
    struct cli *cli = &asked.cli;
    const struct cli_flag flags[] = {
        {0, "ready", CLI_YES, &asked.wants_ready, NULL,
         "fail also while the journal takes no values"},
    };
    struct bus_admin *admin = NULL;
    int result = CLI_OK;
    if (!cli_start(cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    if (cli->argc != 0) {
        return cli_usage(cli, "unexpected operand '%.100s'", cli->argv[0]);
    }
    result = open_admin(cli, &admin);
    if (result != CLI_OK) {
        return result;
    }
    cli_watch(NULL, NULL);
    int64_t count = cli->count < 0 ? 1 : cli->count;
    while (count-- > 0 && ping_both(&asked, admin, &result) && count > 0) {
        if (!cli_pause(cli, EVERY_MS)) {
            break;
        }
    }
    bus_admin_close(&admin);
    return result;
}
