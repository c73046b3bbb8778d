/* SPDX-License-Identifier: MPL-2.0 */
/* harness.h -- what the benchmark programs share: roles as processes, samples, a table for people,
 * a line of JSON for later.
 *
 * A program starts itself again in its roles ("publish", "subscribe", ...), each as a process.  A
 * role prints "ready", waits for a line that tells it to go, and prints "done NUMBER...". */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include "tests/lib/broker.h"
#include "tests/lib/process.h"

#include <bus/bus.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_RUNS_MAX 31

struct bench {
    const char *question;  /* "throughput" */
    const char *json_path; /* appended to; NULL: nothing is */
    bool is_quick;         /* a tenth of the work, one run: whether it runs at all */
    bool is_long;          /* also what takes long */
    bool is_curve;         /* also over connections that are encrypted */
    const char *systems;   /* names with commas between, of systems.h; NULL: all that are there */
    const char *only;      /* beginnings of names of points, with commas between; NULL: all */
    size_t runs;           /* of which the median is told */
};

/* --quick, --long, --curve, --runs N, --json FILE, --systems NAME,..., --only BEGINNING,...
 * False: said why. */
bool bench_init(struct bench *bench, const char *question, int argc, char **argv);
/* Whether --only leaves the point of this name in. */
bool bench_wants(const struct bench *bench, const char *name);
/* So much work, or a tenth of it. */
uint64_t bench_count(const struct bench *bench, uint64_t count);

/* One row of the table, and one line of JSON.  values: one a run, of which the median is told;
 * ratio: to what it is compared with, 0: nothing; n: samples or values in each run. */
struct bench_row {
    const char *what;   /* "256 B" */
    const char *system; /* "errbus" */
    const char *unit;   /* "1/s" "us" */
    const double *values;
    size_t runs;
    uint64_t n;
    double ratio;
};
/* Its median. */
double bench_tell(const struct bench *bench, const struct bench_row *row);
double bench_median(const double *values, size_t count);
/* share: 0.25 is the first quartile; between two values, in proportion. */
double bench_quantile(const double *values, size_t count, double share);

/* Lines of JSON for a plot of percentiles, as far out as there are samples for: one curve of those
 * that have its title. */
struct samples;
void bench_draw_percentiles(const struct bench *bench, const char *title, const char *curve,
                            struct samples *samples);

/* ---- samples --------------------------------------------------------------------------------- */

struct samples {
    int64_t *at; /* in ns */
    size_t count;
    size_t room;
};
void samples_add(struct samples *samples, int64_t ns);
void samples_add_all(struct samples *samples, const struct samples *others);
/* percent of them are not above it; 0 where there are none.  In us. */
double samples_percentile(struct samples *samples, double percent);
/* Read from the lines "sample NS" that a role says. */
void samples_read(struct samples *samples, struct process *role, size_t count);
void samples_say(const struct samples *samples);
void samples_drop(struct samples *samples, size_t count); /* the first ones */
void samples_fini(struct samples *samples);

/* ---- roles ----------------------------------------------------------------------------------- */

/* Everything below ends the program with a sentence where it fails. */
void bench_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* words: the role and what it is told, NULL at the end.  Returns when it is ready. */
void role_start(struct process *role, const char *const *words);
void role_go(struct process *role);
/* The number that follows "done"; a role that says nothing more is waited for. */
int64_t role_done(struct process *role);
void role_fini(struct process *role);

/* In a role. */
void role_ready(void);
void role_wait_go(void);
void role_say_done(int64_t number);

void bench_broker(struct broker *broker);
struct bus *bench_open(const char *endpoint, const char *party);
void bench_check(enum bus_err err, const char *what);
/* In force when it returns. */
struct bus_sub *bench_subscribe(struct bus *bus, const char *topic);
/* The next that comes, which has to be an error; to be released. */
struct bus_error *bench_take_error(struct bus_sub *sub);
/* Until a given monotonic time. */
void bench_sleep_until(int64_t at_ns);

/* Processor time of all processes of runs so far: clients and brokers. */
double bench_children_us(void);

#endif
