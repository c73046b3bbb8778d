/* SPDX-License-Identifier: MPL-2.0 */
/* fedavg_model_test.c -- what a step of training changes, how models are averaged, and which
 * numbers are taken for a model at all. */
#include "clients/fedavg/fedavg.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "libbus/api/model.h"
#include "libbus/api/msg.h"

#define NEAR 1e-12

/* Told apart by their first feature, and by nothing else. */
static struct row rows[] = {{.features = {1, 3}, .label = 1}, {.features = {-1, 3}, .label = 0}};
static const struct data data = {.rows = rows, .count = 2};

/* ---- training -------------------------------------------------------------------------------- */

Test(fedavg_model, goes_down_the_gradient_by_a_tenth_of_it)
{
    double weights[WEIGHTS] = {0};
    model_train(weights, &data, 0);
    for (size_t i = 0; i < WEIGHTS; i++)
        cr_expect_eq(weights[i], 0);
    /* Of both rows the chance is one half: the gradient is -(1 * 1/2 + -1 * -1/2) / 2. */
    model_train(weights, &data, 1);
    cr_expect_float_eq(weights[0], 0.05, NEAR);
    for (size_t i = 1; i < WEIGHTS; i++)
        cr_expect_float_eq(weights[i], 0, NEAR, "weight %zu", i);
    /* Then 1 / (1 + e^-0.05) of each, and the weight decays by a thousandth. */
    double gradient = -(1 - 1 / (1 + exp(-0.05))) + 1e-3 * 0.05;
    model_train(weights, &data, 1);
    cr_expect_float_eq(weights[0], 0.05 - 0.1 * gradient, NEAR);
}

Test(fedavg_model, lets_weights_decay_but_not_the_bias)
{
    struct row even[] = {{.label = 1}, {.label = 0}};
    const struct data nothing = {.rows = even, .count = 2};
    double weights[WEIGHTS] = {[7] = 1};
    model_train(weights, &nothing, 1);
    cr_expect_float_eq(weights[7], 1 - 0.1 * 1e-3, NEAR);
    cr_expect_float_eq(weights[FEATURES], 0, NEAR);
    /* A bias of 1 goes down by what it foretells too much, and by nothing else. */
    double biased[WEIGHTS] = {[FEATURES] = 1};
    model_train(biased, &nothing, 1);
    cr_expect_float_eq(biased[FEATURES], 1 - 0.1 * (1 / (1 + exp(-1)) - 0.5), NEAR);
}

Test(fedavg_model, learns_step_by_step)
{
    double weights[WEIGHTS] = {0};
    double loss = model_loss(weights, &data);
    cr_expect_float_eq(loss, log(2), NEAR);
    cr_expect_eq(model_accuracy(weights, &data), 0.5);
    for (int i = 0; i < 100; i++) {
        model_train(weights, &data, 1);
        cr_expect_lt(model_loss(weights, &data), loss);
        loss = model_loss(weights, &data);
    }
    cr_expect_eq(model_accuracy(weights, &data), 1);
    double at_once[WEIGHTS] = {0};
    model_train(at_once, &data, 100);
    cr_expect_arr_eq(at_once, weights, sizeof weights);
}

Test(fedavg_model, has_a_finite_loss_however_wrong_it_is)
{
    double weights[WEIGHTS] = {-1e6};
    cr_expect_float_eq(model_loss(weights, &data), -log(1e-12), 1e-9);
    cr_expect_eq(model_accuracy(weights, &data), 0);
}

/* ---- averaging ------------------------------------------------------------------------------- */

Test(fedavg_model, is_averaged_by_the_rows_behind_each)
{
    double one[UPDATE_COUNT] = {1, 4, -2};
    double three[UPDATE_COUNT] = {3, 8, 2};
    one[UPDATE_COUNT - 1] = 1;
    const double *const updates[] = {one, three};
    double weights[WEIGHTS] = {99};
    model_average(weights, updates, 2);
    cr_expect_float_eq(weights[0], 7, NEAR);
    cr_expect_float_eq(weights[1], 1, NEAR);
    cr_expect_float_eq(weights[WEIGHTS - 1], 0.25, NEAR);
    model_average(weights, updates + 1, 1);
    cr_expect_float_eq(weights[0], 8, NEAR);
    cr_expect_float_eq(weights[WEIGHTS - 1], 0, NEAR);
}

/* ---- what is no model ------------------------------------------------------------------------ */

Test(fedavg_model, is_searched_for_the_first_number_that_is_none)
{
    static const double bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    double numbers[UPDATE_COUNT] = {0};
    cr_expect_eq(first_not_finite(numbers, 0), 0);
    cr_expect_eq(first_not_finite(numbers, UPDATE_COUNT), UPDATE_COUNT);
    for (size_t i = 0; i < UPDATE_COUNT; i++) {
        numbers[i] = bad[i % (sizeof bad / sizeof *bad)];
        cr_expect_eq(first_not_finite(numbers, UPDATE_COUNT), i);
        cr_expect_eq(first_not_finite(numbers, i), i, "what lies behind is not looked at");
        numbers[i] = 0;
    }
    numbers[3] = numbers[9] = NAN;
    cr_expect_eq(first_not_finite(numbers, UPDATE_COUNT), 3);
}

static struct bus_error *examine(const double *numbers, size_t bytes)
{
    struct session_item item = {.kind = SESSION_ITEM_VALUE};
    item.buffer = buffer_copy(span_of(numbers, bytes));
    cr_assert_not_null(item.buffer);
    item.value = buffer_span(item.buffer);
    struct bus_msg *msg = msg_new("silo-2/weights", &item);
    cr_assert_not_null(msg);
    struct bus_error *error = promise_examine(msg, "silo-2", UPDATE_COUNT);
    bus_msg_free(&msg);
    return error;
}

static void expect_blamed(struct bus_error *error, const char *type, const char *message)
{
    cr_assert_not_null(error);
    cr_expect_str_eq(bus_error_type(error), type);
    cr_expect_str_eq(bus_error_message(error), message);
    cr_expect_str_eq(bus_error_blame(error), "silo-2");
    bus_error_unref(&error);
}

Test(fedavg_model, that_is_none_is_blamed_on_its_sender)
{
    double numbers[UPDATE_COUNT + 1] = {0};
    size_t bytes = UPDATE_COUNT * sizeof *numbers;
    cr_expect_null(examine(numbers, bytes));
    expect_blamed(examine(numbers, bytes - 1), "fedavg.wrong_size",
                  "silo-2 sent 255 bytes instead of 256");
    expect_blamed(examine(numbers, bytes + 1), "fedavg.wrong_size",
                  "silo-2 sent 257 bytes instead of 256");
    expect_blamed(examine(numbers, 0), "fedavg.wrong_size", "silo-2 sent 0 bytes instead of 256");
    numbers[31] = NAN;
    expect_blamed(examine(numbers, bytes), "fedavg.not_finite",
                  "silo-2 sent nan as number 31 of 32");
}
