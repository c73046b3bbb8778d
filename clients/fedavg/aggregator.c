/* SPDX-License-Identifier: MPL-2.0 */
/* aggregator.c -- collects the models of the silos in each round, and sends back their average.
 *
 * The aggregator promises its next message before it collects the models for it.  If too few silos
 * are left, it settles that slot with their errors.  Every silo that waits for the global model
 * receives them. */
#include "clients/cli.h"
#include "clients/fedavg/fedavg.h"

#include <bus/bus.h>
#include <stdio.h>
#include <string.h>

#define ROUND_MS INT64_C(60000) /* how long a round may take */
#define ROUNDS 10

struct aggregator {
    struct cli cli;
    const char *data_path;
    int64_t rounds;
    int64_t round_ms;
    int64_t min; /* silos that are enough; 0: all */
    const char *const *silos;
    size_t silo_count;
    struct data test;
};

/* The answers to one message that every silo owes. */
struct harvest {
    int64_t within_ms; /* the longest wait for all of them */
    bool is_cut_short; /* the wait ended before: too few silos are left */
    struct bus_want wants[SILOS_MAX];
    char topics[SILOS_MAX][BUS_NAME_BYTES_MAX + 1];
    const double *numbers[SILOS_MAX]; /* of the silos whose message is valid; in wants */
    size_t good;
};

/* Prints one line: which silo is missing in which round, and its error. */
static void print_lack(const char *what, const char *silo, const struct bus_error *error)
{
    const struct bus_error *root = bus_error_root(error);
    printf("%s lacks %s: %s: %s: %s\n", what, silo, bus_error_kind(error), bus_error_type(root),
           bus_error_message(root));
}

/* Keeps the valid messages, turns the others into errors, and prints which silos are missing. */
static void sort_out(const struct aggregator *aggregator, struct harvest *harvest, const char *what,
                     size_t count)
{
    harvest->good = 0;
    for (size_t i = 0; i < aggregator->silo_count; i++) {
        struct bus_want *want = &harvest->wants[i];
        const char *silo = aggregator->silos[i];
        if (want->msg == NULL && want->error == NULL) {
            bus_unawait(aggregator->cli.bus, want->topic, want->seq); /* it may come too late */
        }
        if (want->msg != NULL) {
            want->error = promise_examine(want->msg, silo, count);
        } else if (want->error == NULL && harvest->is_cut_short) {
            want->error =
                bus_error_new("fedavg.not_awaited", NULL,
                              "%s had sent nothing yet when too few silos were left", silo);
        } else if (want->error == NULL) {
            want->error = bus_error_new("fedavg.too_slow", NULL, "%s sent nothing in %.1f s", silo,
                                        (double)harvest->within_ms / 1000);
        }
        if (want->error != NULL) {
            print_lack(what, silo, want->error);
        } else {
            size_t bytes = 0;
            harvest->numbers[harvest->good++] = bus_msg_value(want->msg, &bytes);
        }
    }
}

/* Waits for SILO/name seq of every silo.  True: at least min messages are valid.  False: promise,
 * which depends on them, is settled with all their errors, and *out_exit is the exit status. */
static bool collect(const struct aggregator *aggregator, struct harvest *harvest, const char *name,
                    uint64_t seq, size_t count, struct bus_slot **promise, int *out_exit)
{
    char what[64];
    struct bus_error *error = NULL;
    size_t silos = aggregator->silo_count;
    size_t min = (size_t)aggregator->min;
    memset(harvest->wants, 0, sizeof harvest->wants);
    for (size_t i = 0; i < silos; i++) {
        snprintf(harvest->topics[i], sizeof harvest->topics[i], "%s/%s", aggregator->silos[i],
                 name);
        harvest->wants[i].topic = harvest->topics[i];
        harvest->wants[i].seq = seq;
    }

    harvest->within_ms = cli_left_within(&aggregator->cli, aggregator->round_ms);
    enum bus_err err = bus_gather(aggregator->cli.bus, harvest->wants, silos, silos, silos - min,
                                  harvest->within_ms, &error);
    bool is_told = err == BUS_OK || err == BUS_ETIMEDOUT || err == BUS_EFAILED;
    if (!is_told) {
        struct bus_error *mine = bus_error_new(
            "fedavg.gave_up", error, "the aggregator ended before it had the models of the silos");
        bus_slot_fail(promise, mine);
        bus_error_unref(&mine);
        *out_exit = cli_report(&aggregator->cli, err, &error);
        return false;
    }
    bus_error_unref(&error);
    harvest->is_cut_short = err == BUS_EFAILED;

    if (strcmp(name, "weights") == 0) {
        snprintf(what, sizeof what, "round %llu", (unsigned long long)seq);
    } else {
        snprintf(what, sizeof what, "%s", name);
    }
    sort_out(aggregator, harvest, what, count);
    if (harvest->good >= min) {
        return true;
    }
    error = bus_error_new("fedavg.too_few", NULL,
                          "%s: %zu of %zu silos are left, at least %zu are needed", what,
                          harvest->good, silos, min);
    for (size_t i = 0; i < silos; i++) {
        if (harvest->wants[i].error != NULL) {
            (void)bus_error_add_cause(error, harvest->wants[i].error); /* as many as fit */
        }
    }
    bus_slot_fail(promise, error);
    *out_exit = cli_report(&aggregator->cli, BUS_EFAILED, &error);
    if (err == BUS_ETIMEDOUT && cli_left_ms(&aggregator->cli) == 0) {
        *out_exit = cli_report(&aggregator->cli, BUS_ETIMEDOUT, NULL);
    }
    return false;
}

/* As promise_make(), but a slot that was promised before is an error: it is averaged only once. */
static bool promise(const struct aggregator *aggregator, const char *name, int64_t seq,
                    struct bus_slot **out_slot, int *out_exit)
{
    enum bus_err err = promise_make(&aggregator->cli, name, seq, BUS_FOREVER, out_slot, out_exit);
    if (err == BUS_ESETTLED) {
        *out_exit = cli_report(&aggregator->cli, err, NULL);
    }
    return err == BUS_OK;
}

/* Adds up the sums of the silos, and sends all of them one scale. */
static bool agree_on_scale(struct aggregator *aggregator, struct harvest *harvest, int *out_exit)
{
    double moments[MOMENTS_COUNT] = {0};
    double scale[SCALE_COUNT] = {(double)aggregator->rounds};
    struct bus_slot *slot = NULL;
    if (!promise(aggregator, "scale", 0, &slot, out_exit)) {
        return false;
    }
    bool is_enough = collect(aggregator, harvest, "moments", 0, MOMENTS_COUNT, &slot, out_exit);
    for (size_t i = 0; is_enough && i < harvest->good; i++) {
        for (size_t j = 0; j < MOMENTS_COUNT; j++) {
            moments[j] += harvest->numbers[i][j];
        }
    }
    bus_wants_free(harvest->wants, aggregator->silo_count);
    if (!is_enough) {
        return false;
    }
    data_scale(moments, scale);
    data_standardise(&aggregator->test, scale);
    printf("scale: %zu of %zu silos, %.0f rows to learn from, %zu held out\n", harvest->good,
           aggregator->silo_count, moments[0], aggregator->test.count);
    return promise_keep(&aggregator->cli, &slot, scale, SCALE_COUNT, out_exit);
}

/* Promises the next global model, and collects the models that the silos trained in this round. */
static bool run_round(const struct aggregator *aggregator, struct harvest *harvest, int64_t round,
                      double weights[WEIGHTS], int *out_exit)
{
    struct bus_slot *slot = NULL;
    if (!promise(aggregator, "global", round + 1, &slot, out_exit)) {
        return false;
    }
    bool is_enough =
        collect(aggregator, harvest, "weights", (uint64_t)round, UPDATE_COUNT, &slot, out_exit);
    if (is_enough) {
        model_average(weights, harvest->numbers, harvest->good);
        printf("round %lld: %zu of %zu silos, held-out accuracy %.4f, loss %.4f\n",
               (long long)round, harvest->good, aggregator->silo_count,
               model_accuracy(weights, &aggregator->test), model_loss(weights, &aggregator->test));
    }
    bus_wants_free(harvest->wants, aggregator->silo_count);
    return is_enough && promise_keep(&aggregator->cli, &slot, weights, GLOBAL_COUNT, out_exit);
}

static int run(struct aggregator *aggregator)
{
    static struct harvest harvest; /* too large for a stack */
    double weights[WEIGHTS] = {0};
    struct bus_slot *slot = NULL;
    int result = CLI_OK;
    const struct cli *cli = &aggregator->cli;
    bool is_well = agree_on_scale(aggregator, &harvest, &result) &&
                   promise(aggregator, "global", 0, &slot, &result) &&
                   promise_keep(cli, &slot, weights, GLOBAL_COUNT, &result);
    for (int64_t round = 0; is_well && round < aggregator->rounds; round++) {
        is_well = run_round(aggregator, &harvest, round, weights, &result);
    }
    if (!is_well) {
        return result;
    }
    enum bus_err err = bus_complete(cli->bus, CLI_CLOSE_MS);
    printf("done: held-out accuracy %.4f\n", model_accuracy(weights, &aggregator->test));
    return cli_report(cli, err, NULL);
}

static int check(struct aggregator *aggregator)
{
    const struct cli *cli = &aggregator->cli;
    if (cli->argc < 1 || cli->argc > SILOS_MAX) {
        return cli_usage(cli, "expected 1 to %d silos, not %d", SILOS_MAX, cli->argc);
    }
    aggregator->silos = (const char *const *)cli->argv;
    aggregator->silo_count = (size_t)cli->argc;
    if (aggregator->min == 0) {
        aggregator->min = cli->argc;
    }
    if (aggregator->min > cli->argc) {
        return cli_usage(cli, "--min %lld is more than the %d silos", (long long)aggregator->min,
                         cli->argc);
    }
    return CLI_OK;
}

int aggregator_main(int argc, char **argv)
{
    char data_path[DATA_PATH_BYTES];
    struct aggregator aggregator = {
        .cli = {.program = "fedavg aggregator",
                .operands = "SILO...",
                .summary = "Averages the models of the parties SILO, round by round."},
        .data_path = data_path,
        .rounds = ROUNDS,
        .round_ms = ROUND_MS,
    };
    const struct cli_flag flags[] = {
        {0, "data", CLI_TEXT, &aggregator.data_path, "FILE", "the data set (the installed one)"},
        {0, "rounds", CLI_NUMBER, &aggregator.rounds, "N", "number of rounds (10)"},
        {0, "min", CLI_NUMBER, &aggregator.min, "N", "continue with at least N silos; 0: all (0)"},
        {0, "round-timeout", CLI_SECONDS, &aggregator.round_ms, "SECONDS",
         "longest wait for the silos in each round (60)"},
    };
    char problem[CLI_PROBLEM_BYTES_MAX];
    int result = CLI_OK;
    data_path_default(data_path);
    if (!cli_start(&aggregator.cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    result = check(&aggregator);
    if (result != CLI_OK) {
        return result;
    }
    cli_default_party(&aggregator.cli, "aggregator");
    if (!data_load_held_out(&aggregator.test, aggregator.data_path, problem, sizeof problem)) {
        fprintf(stderr, "%s: %s\n", aggregator.cli.program, problem);
        return CLI_FAILED;
    }
    result = run_open(&aggregator.cli, NULL);
    if (result == CLI_OK) {
        result = cli_close(&aggregator.cli, run(&aggregator));
    }
    data_fini(&aggregator.test);
    return result;
}
