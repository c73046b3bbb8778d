/* SPDX-License-Identifier: MPL-2.0 */
/* data.c -- reads the rows of the data set, deals them out to the silos, and scales them. */
#include "clients/fedavg/fedavg.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELD_OUT_EVERY 5 /* rows: one for the test, the others to learn from */

void data_path_default(char path[DATA_PATH_BYTES])
{
    static const char installed[] = "/" FEDAVG_DATA_FROM_BIN "/breast_cancer.csv";
    ssize_t bytes = readlink("/proc/self/exe", path, DATA_PATH_BYTES - sizeof installed);
    char *slash = NULL;
    if (bytes > 0) {
        path[bytes] = '\0';
        slash = strrchr(path, '/');
    }
    if (slash != NULL) {
        memcpy(slash, installed, sizeof installed);
    }
    if (slash == NULL || access(path, R_OK) != 0) {
        snprintf(path, DATA_PATH_BYTES, "clients/fedavg/breast_cancer.csv");
    }
}

/* Reads one line of numbers between commas.  False: the line is not a row. */
static bool read_row(char *line, struct row *row)
{
    char *at = line;
    for (size_t i = 0; i <= FEATURES; i++) {
        char *end = NULL;
        double number = strtod(at, &end);
        char separator = i < FEATURES ? ',' : '\n';
        if (end == at || (*end != separator && *end != '\0') || !isfinite(number)) {
            return false;
        }
        if (i < FEATURES) {
            row->features[i] = number;
        } else {
            row->label = number;
        }
        at = *end != '\0' ? end + 1 : end;
    }
    return row->label == 0.0 || row->label == 1.0;
}

/* Reads the line that counts the rows, then all rows. */
static bool load(struct data *data, const char *path, char *problem, size_t problem_bytes)
{
    char *line = NULL;
    size_t line_bytes = 0;
    size_t count = 0;
    size_t features = 0;
    bool is_read = false;
    *data = (struct data){.rows = NULL};
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        snprintf(problem, problem_bytes, "%s: %s", path, strerror(errno));
        return false;
    }
    if (getline(&line, &line_bytes, file) < 0 || sscanf(line, "%zu,%zu,", &count, &features) != 2 ||
        features != FEATURES || count == 0 || count > ROWS_MAX) {
        snprintf(problem, problem_bytes, "%s: line 1 does not describe rows of %d features", path,
                 FEATURES);
        goto done;
    }
    data->rows = calloc(count, sizeof *data->rows);
    if (data->rows == NULL) {
        snprintf(problem, problem_bytes, "no memory for %zu rows", count);
        goto done;
    }
    for (; data->count < count; data->count++) {
        if (getline(&line, &line_bytes, file) < 0 || !read_row(line, &data->rows[data->count])) {
            snprintf(problem, problem_bytes, "%s: line %zu is not a row of %d features and a class",
                     path, data->count + 2, FEATURES);
            goto done;
        }
    }
    is_read = true;
done:
    free(line);
    (void)fclose(file); /* only read */
    if (!is_read) {
        data_fini(data);
    }
    return is_read;
}

bool data_load_held_out(struct data *data, const char *path, char *problem, size_t problem_bytes)
{
    if (!load(data, path, problem, problem_bytes)) {
        return false;
    }
    size_t kept = 0;
    for (size_t i = 0; i < data->count; i += HELD_OUT_EVERY) {
        data->rows[kept++] = data->rows[i];
    }
    data->count = kept;
    return true;
}

bool data_load_shard(struct data *data, const char *path, size_t index, size_t count, char *problem,
                     size_t problem_bytes)
{
    if (!load(data, path, problem, problem_bytes)) {
        return false;
    }
    size_t kept = 0;
    size_t dealt = 0;
    for (size_t i = 0; i < data->count; i++) {
        if (i % HELD_OUT_EVERY != 0 && dealt++ % count == index) {
            data->rows[kept++] = data->rows[i];
        }
    }
    data->count = kept;
    if (kept == 0) {
        snprintf(problem, problem_bytes,
                 "%s: no row is left for shard %zu of %zu: use fewer shards", path, index + 1,
                 count);
        data_fini(data);
    }
    return kept > 0;
}

void data_fini(struct data *data)
{
    free(data->rows);
    *data = (struct data){.rows = NULL};
}

void data_moments(const struct data *data, double moments[MOMENTS_COUNT])
{
    memset(moments, 0, MOMENTS_COUNT * sizeof *moments);
    moments[0] = (double)data->count;
    for (size_t i = 0; i < data->count; i++) {
        for (size_t j = 0; j < FEATURES; j++) {
            double feature = data->rows[i].features[j];
            moments[1 + j] += feature;
            moments[1 + FEATURES + j] += feature * feature;
        }
    }
}

void data_scale(const double moments[MOMENTS_COUNT], double scale[SCALE_COUNT])
{
    double rows = moments[0];
    for (size_t j = 0; j < FEATURES; j++) {
        double mean = moments[1 + j] / rows;
        double variance = moments[1 + FEATURES + j] / rows - mean * mean;
        scale[1 + j] = mean;
        scale[1 + FEATURES + j] = variance > 0 ? sqrt(variance) : 1; /* a constant feature */
    }
}

void data_standardise(struct data *data, const double scale[SCALE_COUNT])
{
    for (size_t i = 0; i < data->count; i++) {
        for (size_t j = 0; j < FEATURES; j++) {
            double *feature = &data->rows[i].features[j];
            *feature = (*feature - scale[1 + j]) / scale[1 + FEATURES + j];
        }
    }
}
