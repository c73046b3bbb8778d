/* SPDX-License-Identifier: MPL-2.0 */
/* fedavg.h -- federated averaging over Errbus: the messages between aggregator and silos.
 *
 * Messages are arrays of double in the byte order of the machine, in fixed places:
 *
 *   SILO/moments 0        rows, then sum and sum of squares of each feature
 *   AGGREGATOR/scale 0    number of rounds, then mean and deviation of each feature
 *   AGGREGATOR/global R   the model that round R begins with; the last one is the result
 *   SILO/weights R        rows, then the model that the silo trained in round R
 *
 * The number of the slot is the round.  Each sender promises its message before it begins the work.
 * So if it fails, the readers receive its error in place of the message. */
#ifndef CLIENTS_FEDAVG_FEDAVG_H
#define CLIENTS_FEDAVG_FEDAVG_H

#include "clients/cli.h"

#include <bus/bus.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FEATURES 30
#define WEIGHTS (FEATURES + 1)           /* the bias is the last */
#define SILOS_MAX 64                     /* of one aggregator */
#define ROWS_MAX 100000                  /* of a data file */
#define MOMENTS_COUNT (1 + 2 * FEATURES) /* doubles in SILO/moments */
#define SCALE_COUNT (1 + 2 * FEATURES)   /* in AGGREGATOR/scale */
#define GLOBAL_COUNT WEIGHTS             /* in AGGREGATOR/global */
#define UPDATE_COUNT (1 + WEIGHTS)       /* in SILO/weights */

/* ---- data.c -----------------------------------------------------------------------------------*/

struct row {
    double features[FEATURES];
    double label; /* 0 or 1 */
};
struct data {
    struct row *rows;
    size_t count;
};

/* Where the data set is without --data: where it was installed with this program, or else in the
 * source tree that is the current directory. */
#define DATA_PATH_BYTES 4096
void data_path_default(char path[DATA_PATH_BYTES]);

/* The held-out rows of the file, or the rows of one shard (index from 0) of count.  False: problem
 * says why, in one sentence. */
bool data_load_held_out(struct data *data, const char *path, char *problem, size_t problem_bytes);
bool data_load_shard(struct data *data, const char *path, size_t index, size_t count, char *problem,
                     size_t problem_bytes);
void data_fini(struct data *data);

void data_moments(const struct data *data, double moments[MOMENTS_COUNT]);
/* Mean and deviation from the summed moments of the silos; scale[0] is not changed. */
void data_scale(const double moments[MOMENTS_COUNT], double scale[SCALE_COUNT]);
void data_standardise(struct data *data, const double scale[SCALE_COUNT]);

/* ---- model.c ----------------------------------------------------------------------------------*/

/* Logistic regression: steps times down the gradient of the loss over all rows. */
void model_train(double weights[WEIGHTS], const struct data *data, size_t steps);
double model_accuracy(const double weights[WEIGHTS], const struct data *data);
double model_loss(const double weights[WEIGHTS], const struct data *data);

/* The mean of updates (SILO/weights), weighted by their rows. */
void model_average(double weights[WEIGHTS], const double *const *updates, size_t count);

/* The index of the first number that is not finite, or count. */
size_t first_not_finite(const double *numbers, size_t count);

/* ---- promise.c --------------------------------------------------------------------------------*/

/* Reserves slot seq of PARTY/name, of this party.  BUS_ESETTLED: an earlier incarnation settled it.
 * Any other failure is printed, and *out_exit is the exit status. */
enum bus_err promise_make(const struct cli *cli, const char *name, int64_t seq, int64_t deadline_ms,
                          struct bus_slot **out_slot, int *out_exit);

/* Commits the numbers to the slot.  False: that failed and is printed, and *out_exit is the exit
 * status. */
bool promise_keep(const struct cli *cli, struct bus_slot **slot, const double *numbers,
                  size_t count, int *out_exit);

/* NULL: the message has count finite numbers.  Otherwise an error that says what is wrong with it,
 * and blames the party that sent it. */
struct bus_error *promise_examine(const struct bus_msg *msg, const char *party, size_t count);

/* ---- run.c ------------------------------------------------------------------------------------*/

/* Opens cli->bus, in a run in which there is still something to do.  Returns the exit status. */
int run_open(struct cli *cli, const struct bus_options *options);

/* Whether this party was fenced because the next run has begun: open the bus again. */
bool run_is_over(const struct cli *cli);

/* ---- the roles: argv[0] is the role; they return the exit status of the process ---------------*/

int aggregator_main(int argc, char **argv);
int silo_main(int argc, char **argv);

#endif
