/* SPDX-License-Identifier: MPL-2.0 */
/* fedavg_data_test.c -- rows of a data file: what is read, who is dealt which, and their scale. */
#include "clients/fedavg/fedavg.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/folder.h"

#define TEXT_BYTES 8192
#define PROBLEM_BYTES 256
#define NEAR 1e-12

static struct folder folder;
static char path[FOLDER_PATH_BYTES_MAX];
static char problem[PROBLEM_BYTES];

static void open_folder(void)
{
    cr_assert(folder_make(&folder));
}

static void close_folder(void)
{
    folder_fini(&folder);
}

TestSuite(fedavg_data, .init = open_folder, .fini = close_folder);

/* The file that is being written. */
static char text[TEXT_BYTES];
static size_t text_bytes;

static void put(const char *more)
{
    text_bytes += (size_t)snprintf(text + text_bytes, sizeof text - text_bytes, "%s", more);
    cr_assert_lt(text_bytes, sizeof text);
}

/* A line whose features all are `feature`, so many of them, and what follows. */
static void put_row(size_t features, const char *feature, const char *rest)
{
    for (size_t i = 0; i < features; i++) {
        put(feature);
        put(",");
    }
    put(rest);
}

static void write_file(void)
{
    cr_assert(folder_write(&folder, "rows.csv", text, path));
    text_bytes = 0;
    *text = '\0';
}

/* Rows 0 .. count - 1, whose features are their number. */
static void write_numbered(size_t count)
{
    char number[32];
    snprintf(number, sizeof number, "%zu", count);
    put(number);
    put(",30,no,yes\n");
    for (size_t i = 0; i < count; i++) {
        snprintf(number, sizeof number, "%zu", i);
        put_row(FEATURES, number, i % 2 == 0 ? "0\n" : "1\n");
    }
    write_file();
}

/* The rows are these, by their numbers. */
static void expect_rows(const struct data *data, const int *numbers, size_t count)
{
    cr_assert_eq(data->count, count, "%zu rows", data->count);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < FEATURES; j++)
            cr_expect_eq(data->rows[i].features[j], numbers[i]);
        cr_expect_eq(data->rows[i].label, numbers[i] % 2);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

Test(fedavg_data, is_refused_with_what_is_wrong)
{
    static const struct {
        const char *header;
        size_t features;
        const char *feature;
        const char *rest;
        const char *problem; /* NULL: fine */
    } rows[] = {
        {"1,30,no,yes\n", FEATURES, "1.5", "1\n", NULL},
        {"1,30,no,yes\n", FEATURES, "-2e-3", "0", NULL}, /* no end of line */
        {"", 0, "", "", "line 1 does not describe rows of 30 features"},
        {"rows\n", FEATURES, "1", "1\n", "line 1 does not describe rows"},
        {"1\n", FEATURES, "1", "1\n", "line 1 does not describe rows"},
        {"0,30,no,yes\n", FEATURES, "1", "1\n", "line 1 does not describe rows"},
        {"1,29,no,yes\n", FEATURES - 1, "1", "1\n", "line 1 does not describe rows"},
        {"1,31,no,yes\n", FEATURES + 1, "1", "1\n", "line 1 does not describe rows"},
        {"1,30,no,yes\n", FEATURES - 1, "1", "1\n",
         "line 2 is not a row of 30 features and a class"},
        {"1,30,no,yes\n", FEATURES + 1, "1", "1\n", "line 2 is not a row"},
        {"1,30,no,yes\n", FEATURES, "1", "\n", "line 2 is not a row"},
        {"1,30,no,yes\n", FEATURES, "1", "2\n", "line 2 is not a row"},
        {"1,30,no,yes\n", FEATURES, "1", "0.5\n", "line 2 is not a row"},
        {"1,30,no,yes\n", FEATURES, "1", "1,\n", "line 2 is not a row"},
        {"1,30,no,yes\n", FEATURES, "one", "1\n", "line 2 is not a row"},
        {"1,30,no,yes\n", FEATURES, "", "1\n", "line 2 is not a row"},
        {"1,30,no,yes\n", FEATURES, "nan", "1\n", "line 2 is not a row"},
        {"1,30,no,yes\n", FEATURES, "inf", "1\n", "line 2 is not a row"},
        {"1,30,no,yes\n", FEATURES, "1e999", "1\n", "line 2 is not a row"},
        {"2,30,no,yes\n", FEATURES, "1", "1\n", "line 3 is not a row"}, /* it is not there */
        {"99999,30,no,yes\n", FEATURES, "1", "1\n", "line 3 is not a row"},
        {"100000,30,no,yes\n", FEATURES, "1", "1\n", "line 3 is not a row"},
        {"100001,30,no,yes\n", FEATURES, "1", "1\n",
         "line 1 does not describe rows"}, /* ROWS_MAX */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct data data;
        put(rows[i].header);
        put_row(rows[i].features, rows[i].feature, rows[i].rest);
        write_file();
        bool is_read = data_load_held_out(&data, path, problem, sizeof problem);
        cr_expect_eq(is_read, rows[i].problem == NULL, "row %zu", i);
        if (is_read) {
            cr_expect_eq(data.count, 1);
            cr_expect_eq(data.rows[0].features[FEATURES - 1], strtod(rows[i].feature, NULL));
            cr_expect_eq(data.rows[0].label, strtod(rows[i].rest, NULL));
        } else {
            cr_expect(strncmp(problem, path, strlen(path)) == 0, "%s", problem);
            cr_expect_not_null(strstr(problem, rows[i].problem), "row %zu: %s", i, problem);
            cr_expect_null(data.rows);
        }
        data_fini(&data);
    }
}

Test(fedavg_data, that_is_not_there_is_named)
{
    struct data data;
    cr_expect_not(data_load_held_out(&data, "/nonexistent/rows", problem, sizeof problem));
    cr_expect_str_eq(problem, "/nonexistent/rows: No such file or directory");
    data_fini(&data); /* a no-op */
}

/* ---- dealing --------------------------------------------------------------------------------- */

Test(fedavg_data, holds_out_one_row_of_five)
{
    static const int held_out[] = {0, 5, 10};
    struct data data;
    write_numbered(12);
    cr_assert(data_load_held_out(&data, path, problem, sizeof problem), "%s", problem);
    expect_rows(&data, held_out, 3);
    data_fini(&data);
    cr_expect_null(data.rows);
}

Test(fedavg_data, deals_the_other_rows_in_turn)
{
    static const int all[] = {1, 2, 3, 4, 6, 7, 8, 9, 11};
    static const int first[] = {1, 3, 6, 8, 11};
    static const int second[] = {2, 4, 7, 9};
    static const struct {
        size_t index;
        size_t count;
        const int *numbers;
        size_t rows;
    } shards[] = {{0, 1, all, 9}, {0, 2, first, 5}, {1, 2, second, 4}, {8, 9, all + 8, 1}};
    write_numbered(12);
    for (size_t i = 0; i < sizeof shards / sizeof *shards; i++) {
        struct data data;
        cr_assert(
            data_load_shard(&data, path, shards[i].index, shards[i].count, problem, sizeof problem),
            "%s", problem);
        expect_rows(&data, shards[i].numbers, shards[i].rows);
        data_fini(&data);
    }
}

Test(fedavg_data, is_refused_to_a_shard_that_gets_no_row)
{
    struct data data;
    write_numbered(12);
    cr_expect_not(data_load_shard(&data, path, 9, 10, problem, sizeof problem));
    cr_expect_not_null(strstr(problem, "no row is left for shard 10 of 10"), "%s", problem);
    cr_expect_null(data.rows);
}

/* ---- scale ----------------------------------------------------------------------------------- */

/* The moments of all are the sum of those of the shards, so nobody shows its rows. */
Test(fedavg_data, has_the_moments_of_its_shards_together)
{
    struct data data;
    double whole[MOMENTS_COUNT];
    double sum[MOMENTS_COUNT] = {0};
    write_numbered(12);
    cr_assert(data_load_shard(&data, path, 0, 1, problem, sizeof problem));
    data_moments(&data, whole);
    data_fini(&data);
    cr_expect_eq(whole[0], 9);
    cr_expect_eq(whole[1], 1 + 2 + 3 + 4 + 6 + 7 + 8 + 9 + 11);
    cr_expect_eq(whole[1 + FEATURES], 1 + 4 + 9 + 16 + 36 + 49 + 64 + 81 + 121);
    for (size_t shard = 0; shard < 3; shard++) {
        double moments[MOMENTS_COUNT];
        cr_assert(data_load_shard(&data, path, shard, 3, problem, sizeof problem));
        data_moments(&data, moments);
        data_fini(&data);
        for (size_t i = 0; i < MOMENTS_COUNT; i++)
            sum[i] += moments[i];
    }
    for (size_t i = 0; i < MOMENTS_COUNT; i++)
        cr_expect_eq(sum[i], whole[i]);
}

Test(fedavg_data, is_put_on_mean_0_and_deviation_1)
{
    struct row rows[2] = {{.features = {1, 7}}, {.features = {5, 7}}};
    struct data data = {.rows = rows, .count = 2};
    double moments[MOMENTS_COUNT];
    double scale[SCALE_COUNT];
    scale[0] = 12; /* rounds: left alone */
    data_moments(&data, moments);
    data_scale(moments, scale);
    cr_expect_eq(scale[0], 12);
    cr_expect_float_eq(scale[1], 3, NEAR);
    cr_expect_float_eq(scale[1 + FEATURES], 2, NEAR);
    cr_expect_float_eq(scale[2], 7, NEAR);
    cr_expect_float_eq(scale[2 + FEATURES], 1, NEAR, "a constant stays on its scale");
    data_standardise(&data, scale);
    cr_expect_float_eq(rows[0].features[0], -1, NEAR);
    cr_expect_float_eq(rows[1].features[0], 1, NEAR);
    cr_expect_float_eq(rows[0].features[1], 0, NEAR);
}
