/* SPDX-License-Identifier: MPL-2.0 */
/* silo.c -- trains the model on its own rows, round by round, and fails on purpose if asked to. */
#include "clients/cli.h"
#include "clients/fedavg/fedavg.h"

#include <bus/bus.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEADLINE_MS INT64_C(10000) /* for one round's training */
#define STEPS 5                    /* of training in a round */

enum fail_how { FAIL_RAISE, FAIL_EXIT, FAIL_KILL, FAIL_STOP, FAIL_HANG, FAIL_NAN, FAIL_HOW_COUNT };
static const char *const fail_names[FAIL_HOW_COUNT] = {"raise", "exit", "kill",
                                                       "stop",  "hang", "nan"};

struct silo {
    struct cli cli;
    const char *data_path;
    const char *shard; /* "K/N" */
    const char *aggregator;
    const char *how_text;
    enum fail_how how;
    int64_t fail_at; /* a round; -1: never */
    int64_t deadline_ms;
    int64_t lost_after_ms; /* -1: the library's own */
    int64_t grace_ms;      /* the same */
    int64_t steps;
    struct data data;
};

/* Waits for AGGREGATOR/name seq.  False: an error came instead, or the message is not valid.  Then
 * this is printed, and *out_exit is the exit status. */
static bool await_numbers(const struct silo *silo, const char *name, int64_t seq, double *numbers,
                          size_t count, int *out_exit)
{
    char topic[2 * BUS_NAME_BYTES_MAX];
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    snprintf(topic, sizeof topic, "%s/%s", silo->aggregator, name);
    enum bus_err err =
        bus_await(silo->cli.bus, topic, (uint64_t)seq, cli_left_ms(&silo->cli), &msg, &error);
    if (err == BUS_OK) {
        error = promise_examine(msg, silo->aggregator, count);
        err = error != NULL ? BUS_EFAILED : BUS_OK;
    }
    if (err != BUS_OK) {
        *out_exit = cli_report(&silo->cli, err, &error);
        bus_msg_free(&msg);
        return false;
    }
    size_t bytes = 0;
    memcpy(numbers, bus_msg_value(msg, &bytes), count * sizeof *numbers);
    bus_msg_free(&msg);
    return true;
}

/* Sends the sums that the aggregator needs for one scale, unless an earlier incarnation did.  Waits
 * for the scale, and applies it to the rows. */
static bool agree_on_scale(struct silo *silo, int64_t *out_rounds, int *out_exit)
{
    double moments[MOMENTS_COUNT];
    double scale[SCALE_COUNT];
    struct bus_slot *slot = NULL;
    data_moments(&silo->data, moments);
    enum bus_err err = promise_make(&silo->cli, "moments", 0, silo->deadline_ms, &slot, out_exit);
    if (err == BUS_OK && !promise_keep(&silo->cli, &slot, moments, MOMENTS_COUNT, out_exit)) {
        return false;
    }
    if ((err != BUS_OK && err != BUS_ESETTLED) ||
        !await_numbers(silo, "scale", 0, scale, SCALE_COUNT, out_exit)) {
        return false;
    }
    data_standardise(&silo->data, scale);
    *out_rounds = (int64_t)scale[0];
    return true;
}

/* Fails as asked, after the broker knows of the promise of *slot.  True: *slot is still open. */
static bool fail_on_purpose(struct silo *silo, int64_t round, struct bus_slot **slot,
                            double update[UPDATE_COUNT], int *out_exit)
{
    struct bus_error *error = NULL;
    enum cli_woken woken;
    (void)bus_flush(silo->cli.bus, CLI_CLOSE_MS); /* without success it fails all the same */
    printf("round %lld: fails on purpose: %s\n", (long long)round, fail_names[silo->how]);
    switch (silo->how) {
    case FAIL_RAISE:
        error = bus_error_new("fedavg.training_failed", NULL,
                              "%s could not train in round %lld: asked to fail by --fail-at",
                              bus_party(silo->cli.bus), (long long)round);
        bus_slot_fail(slot, error);
        bus_error_unref(&error);
        break;
    case FAIL_EXIT: *out_exit = CLI_FAILED; break;
    case FAIL_KILL: kill(getpid(), SIGKILL); break;
    case FAIL_STOP: kill(getpid(), SIGSTOP); break;
    case FAIL_HANG:
        woken = cli_wait(&silo->cli, -1, cli_left_ms(&silo->cli));
        *out_exit =
            woken == CLI_WOKEN_TIME ? cli_report(&silo->cli, BUS_ETIMEDOUT, NULL) : CLI_FAILED;
        break;
    case FAIL_NAN: update[1] = NAN; break;
    case FAIL_HOW_COUNT: break;
    }
    return *slot != NULL;
}

/* One round: receives the global model, trains it, and sends the result. */
static bool run_round(struct silo *silo, int64_t round, struct bus_slot **slot, int *out_exit)
{
    double update[UPDATE_COUNT] = {(double)silo->data.count};
    double *weights = update + 1;
    if (!await_numbers(silo, "global", round, weights, GLOBAL_COUNT, out_exit)) {
        return false;
    }
    enum bus_err err =
        promise_make(&silo->cli, "weights", round, silo->deadline_ms, slot, out_exit);
    if (err != BUS_OK) {
        return err == BUS_ESETTLED; /* an earlier incarnation did this round */
    }
    model_train(weights, &silo->data, (size_t)silo->steps);
    double loss = model_loss(weights, &silo->data);
    if (round == silo->fail_at && !fail_on_purpose(silo, round, slot, update, out_exit)) {
        return true;
    }
    if (*out_exit != CLI_OK) {
        return false; /* the party leaves with the slot open */
    }
    if (!promise_keep(&silo->cli, slot, update, UPDATE_COUNT, out_exit)) {
        return false;
    }
    printf("round %lld: learnt from %zu rows, loss %.4f\n", (long long)round, silo->data.count,
           loss);
    return true;
}

/* Takes part in one run.  *out_is_again: it ended, and the next one has begun. */
static int run(struct silo *silo, bool *out_is_again)
{
    double weights[WEIGHTS];
    struct bus_slot *slot = NULL; /* of the current round */
    int64_t rounds = 0;
    int result = CLI_OK;
    bool is_well = agree_on_scale(silo, &rounds, &result);
    for (int64_t round = 0; is_well && round < rounds; round++) {
        is_well = run_round(silo, round, &slot, &result);
    }
    if (is_well && await_numbers(silo, "global", rounds, weights, GLOBAL_COUNT, &result)) {
        printf("done: accuracy on its own rows %.4f\n", model_accuracy(weights, &silo->data));
        enum bus_err err = bus_complete(silo->cli.bus, CLI_CLOSE_MS);
        result = cli_report(&silo->cli, err, NULL);
    }
    *out_is_again = !is_well && run_is_over(&silo->cli);
    result = cli_close(&silo->cli, result);
    bus_slot_fail(&slot, NULL); /* the leave has settled it; this frees it */
    return result;
}

/* Reads "K/N". */
static bool read_shard(const char *text, size_t *out_index, size_t *out_count)
{
    char first[8];
    int64_t number = 0;
    int64_t count = 0;
    const char *slash = strchr(text, '/');
    if (slash == NULL || (size_t)(slash - text) >= sizeof first) {
        return false;
    }
    snprintf(first, sizeof first, "%.*s", (int)(slash - text), text);
    if (!cli_number_read(first, &number) || !cli_number_read(slash + 1, &count) || number < 1 ||
        number > count || count > SILOS_MAX) {
        return false;
    }
    *out_index = (size_t)number - 1;
    *out_count = (size_t)count;
    return true;
}

static bool read_how(const char *text, enum fail_how *out_how)
{
    for (int i = 0; i < FAIL_HOW_COUNT; i++) {
        if (strcmp(text, fail_names[i]) == 0) {
            *out_how = (enum fail_how)i;
            return true;
        }
    }
    return false;
}

static int check(struct silo *silo, size_t *out_index, size_t *out_count)
{
    const struct cli *cli = &silo->cli;
    if (cli->argc != 0) {
        return cli_usage(cli, "unexpected operand '%.100s'", cli->argv[0]);
    }
    if (silo->shard == NULL || !read_shard(silo->shard, out_index, out_count)) {
        return cli_usage(cli, "--shard takes K/N with 1 <= K <= N <= %d, such as 1/3", SILOS_MAX);
    }
    if (!read_how(silo->how_text, &silo->how)) {
        return cli_usage(cli, "--fail-how takes raise, exit, kill, stop, hang or nan, not '%.100s'",
                         silo->how_text);
    }
    return CLI_OK;
}

/* The rows are read again for each run: training scales them. */
static int open_and_run(struct silo *silo, const struct bus_options *options, size_t index,
                        size_t count, bool *out_is_again)
{
    char problem[CLI_PROBLEM_BYTES_MAX];
    if (!data_load_shard(&silo->data, silo->data_path, index, count, problem, sizeof problem)) {
        fprintf(stderr, "%s: %s\n", silo->cli.program, problem);
        return CLI_FAILED;
    }
    int result = run_open(&silo->cli, options);
    if (result == CLI_OK) {
        result = run(silo, out_is_again);
    }
    data_fini(&silo->data);
    return result;
}

static int take_part(struct silo *silo, size_t index, size_t count)
{
    char party[32];
    struct bus_options options;
    bool is_again;
    int result;
    snprintf(party, sizeof party, "silo-%zu", index + 1);
    cli_default_party(&silo->cli, party);
    cli_bus_options(&silo->cli, &options);
    if (silo->lost_after_ms >= 0) {
        options.lost_after_ms = silo->lost_after_ms;
        options.heartbeat_ms = silo->lost_after_ms / 4;
    }
    if (silo->grace_ms >= 0) {
        options.reconnect_grace_ms = silo->grace_ms;
    }
    do {
        is_again = false;
        result = open_and_run(silo, &options, index, count, &is_again);
    } while (is_again);
    return result;
}

int silo_main(int argc, char **argv)
{
    char data_path[DATA_PATH_BYTES];
    struct silo silo = {
        .cli = {.program = "fedavg silo",
                .operands = "",
                .summary = "Trains on shard K of N of the rows, and sends its model to the "
                           "aggregator."},
        .data_path = data_path,
        .aggregator = "aggregator",
        .how_text = "raise",
        .fail_at = -1,
        .deadline_ms = DEADLINE_MS,
        .lost_after_ms = -1,
        .grace_ms = -1,
        .steps = STEPS,
    };
    const struct cli_flag flags[] = {
        {0, "shard", CLI_TEXT, &silo.shard, "K/N",
         "train on shard K of N, counted from 1 (required)"},
        {0, "data", CLI_TEXT, &silo.data_path, "FILE", "the data set (the installed one)"},
        {0, "aggregator", CLI_TEXT, &silo.aggregator, "PARTY",
         "the party that averages (aggregator)"},
        {0, "steps", CLI_NUMBER, &silo.steps, "N", "steps of gradient descent in each round (5)"},
        {0, "deadline", CLI_SECONDS, &silo.deadline_ms, "SECONDS",
         "deadline of each round's weights (10)"},
        {0, "lost-after", CLI_SECONDS, &silo.lost_after_ms, "SECONDS",
         "silence after which this silo is lost (10)"},
        {0, "reconnect-grace", CLI_SECONDS, &silo.grace_ms, "SECONDS",
         "time to reconnect after the connection closed (1)"},
        {0, "fail-at", CLI_NUMBER, &silo.fail_at, "ROUND", "fail on purpose in this round (never)"},
        {0, "fail-how", CLI_TEXT, &silo.how_text, "HOW",
         "how to fail: raise, exit, kill, stop, hang or nan (raise)"},
    };
    size_t index = 0;
    size_t count = 0;
    int result = CLI_OK;
    data_path_default(data_path);
    if (!cli_start(&silo.cli, argc, argv, flags, sizeof flags / sizeof flags[0], &result)) {
        return result;
    }
    result = check(&silo, &index, &count);
    return result == CLI_OK ? take_part(&silo, index, count) : result;
}
