/* SPDX-License-Identifier: MPL-2.0 */
/* model.c -- logistic regression by gradient descent, and the average of several models
 * (McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data,
 * 2017). */
#include "clients/fedavg/fedavg.h"

#include <math.h>
#include <string.h>

#define STEP_SIZE 0.1 /* on standardised features */
#define DECAY 1e-3    /* of the weights without the bias: keeps them small where silos disagree */
#define CHANCE_MIN 1e-12

static double predict(const double weights[WEIGHTS], const struct row *row)
{
    double sum = weights[FEATURES];
    for (size_t j = 0; j < FEATURES; j++) {
        sum += weights[j] * row->features[j];
    }
    return 1 / (1 + exp(-sum));
}

static void step(double weights[WEIGHTS], const struct data *data)
{
    double gradient[WEIGHTS] = {0};
    for (size_t i = 0; i < data->count; i++) {
        const struct row *row = &data->rows[i];
        double excess = predict(weights, row) - row->label;
        for (size_t j = 0; j < FEATURES; j++) {
            gradient[j] += excess * row->features[j];
        }
        gradient[FEATURES] += excess;
    }
    for (size_t j = 0; j < WEIGHTS; j++) {
        double decay = j < FEATURES ? DECAY * weights[j] : 0;
        weights[j] -= STEP_SIZE * (gradient[j] / (double)data->count + decay);
    }
}

void model_train(double weights[WEIGHTS], const struct data *data, size_t steps)
{
    for (size_t i = 0; i < steps; i++) {
        step(weights, data);
    }
}

double model_accuracy(const double weights[WEIGHTS], const struct data *data)
{
    size_t right = 0;
    for (size_t i = 0; i < data->count; i++) {
        bool is_benign = predict(weights, &data->rows[i]) > 0.5;
        right += is_benign == (data->rows[i].label > 0.5);
    }
    return (double)right / (double)data->count;
}

double model_loss(const double weights[WEIGHTS], const struct data *data)
{
    double loss = 0;
    for (size_t i = 0; i < data->count; i++) {
        double chance = predict(weights, &data->rows[i]);
        loss -= log(fmax(data->rows[i].label > 0.5 ? chance : 1 - chance, CHANCE_MIN));
    }
    return loss / (double)data->count;
}

void model_average(double weights[WEIGHTS], const double *const *updates, size_t count)
{
    double rows = 0;
    memset(weights, 0, WEIGHTS * sizeof *weights);
    for (size_t i = 0; i < count; i++) {
        rows += updates[i][0];
        for (size_t j = 0; j < WEIGHTS; j++) {
            weights[j] += updates[i][0] * updates[i][1 + j];
        }
    }
    for (size_t j = 0; j < WEIGHTS; j++) {
        weights[j] /= rows;
    }
}

size_t first_not_finite(const double *numbers, size_t count)
{
    size_t i = 0;
    while (i < count && isfinite(numbers[i])) {
        i++;
    }
    return i;
}
