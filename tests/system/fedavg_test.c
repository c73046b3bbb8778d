/* SPDX-License-Identifier: MPL-2.0 */
/* fedavg_test.c -- the worked example on real data, with each way to fail, and the
 * demonstration. */
#include "tests/lib/expect.h"
#include "tests/lib/revival.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(fedavg, .init = stage_open, .fini = stage_close, .timeout = 300);

#define SILOS 3
#define DATA TEST_SOURCE_DIR "/clients/fedavg/breast_cancer.csv"
#define ROUNDS "6"
#define LOST_AFTER "5" /* a busy machine may keep a process from its heartbeat for a second */

struct run {
    struct process aggregator;
    struct process silos[SILOS];
};

/* Silo 2 (1 in run->silos) fails in round 2 in this way, or does not (NULL). */
static void start_silo(struct run *run, size_t index, const char *how)
{
    static const char *const shards[SILOS] = {"1/3", "2/3", "3/3"};
    const char *silo[] = {"fedavg",      "silo",   "-s", stage.control, "--shard",
                          shards[index], "--data", DATA, NULL,          NULL,
                          NULL,          NULL,     NULL, NULL,          NULL};
    if (index == 1 && how != NULL) {
        const char *const more[] = {"--fail-at",    "2",       "--fail-how", how,
                                    "--lost-after", LOST_AFTER};
        memcpy(silo + 8, more, sizeof more);
    }
    cr_assert(process_start(&run->silos[index], silo, NULL));
}

static void start_aggregator(struct run *run, const char *min)
{
    const char *const aggregator[] = {"fedavg", "aggregator", "-s",     stage.control, "--data",
                                      DATA,     "--min",      min,      "--rounds",    ROUNDS,
                                      "silo-1", "silo-2",     "silo-3", NULL};
    cr_assert(process_start(&run->aggregator, aggregator, NULL));
}

/* Silo 2 fails in round 2 in this way, or nobody does (NULL). */
static void start_run(struct run *run, const char *how, const char *min)
{
    for (size_t i = 0; i < SILOS; i++) {
        start_silo(run, i, how);
    }
    start_aggregator(run, min);
}

static void fini_run(struct run *run)
{
    process_fini(&run->aggregator);
    for (size_t i = 0; i < SILOS; i++) {
        process_fini(&run->silos[i]);
    }
}

static void expect_exit(struct process *process, int code)
{
    int got = process_wait(process, 3 * SOON_MS);
    cr_assert_eq(got, code, "ended with %d, not %d: %s%s", got, code, process_said(process),
                 process_complained(process));
}

/* Waits until the process says a line that begins so. */
static void expect_line(struct process *process, const char *start)
{
    const char *line = NULL;
    do {
        cr_assert(process_line(process, SOON_MS, &line), "no line '%s...': %s%s", start,
                  process_said(process), process_complained(process));
    } while (strncmp(line, start, strlen(start)) != 0);
}

static double accuracy_of(const struct process *process)
{
    const char *at = strstr(process_said(process), "done: held-out accuracy ");
    cr_assert_not_null(at, "%s", process_said(process));
    return strtod(at + strlen("done: held-out accuracy "), NULL);
}

static void expect_said(const struct process *process, const char *text)
{
    cr_assert_not_null(strstr(process_said(process), text), "not '%s' in: %s", text,
                       process_said(process));
}

Test(fedavg, learns_when_nobody_fails)
{
    struct run run;
    start_run(&run, NULL, "3");
    expect_exit(&run.aggregator, 0);
    for (size_t i = 0; i < SILOS; i++) {
        expect_exit(&run.silos[i], 0);
        expect_said(&run.silos[i], "done: accuracy");
    }
    expect_said(&run.aggregator, "round 5: 3 of 3 silos");
    cr_expect_null(strstr(process_said(&run.aggregator), "lacks"));
    cr_expect_gt(accuracy_of(&run.aggregator), 0.9);
    fini_run(&run);
}

/* The aggregator and the other two go on well; the second silo ends with code. */
static void expect_going_on(const char *how, int code, const char *line, const char *later)
{
    struct run run;
    start_run(&run, how, "2");
    expect_exit(&run.aggregator, 0);
    expect_exit(&run.silos[0], 0);
    expect_exit(&run.silos[2], 0);
    if (strcmp(how, "stop") == 0) {
        process_signal(&run.silos[1], SIGCONT);
    }
    expect_exit(&run.silos[1], code);
    expect_said(&run.aggregator, line);
    expect_said(&run.aggregator, later);
    cr_expect_gt(accuracy_of(&run.aggregator), 0.9);
    fini_run(&run);
}

Test(fedavg, goes_on_without_a_silo_that_raises)
{
    expect_going_on("raise", 0, "round 2 lacks silo-2: application: fedavg.training_failed",
                    "round 3: 3 of 3 silos");
}

Test(fedavg, goes_on_without_a_silo_that_leaves)
{
    expect_going_on("exit", 1, "round 2 lacks silo-2: party_left", "round 3: 2 of 3 silos");
}

Test(fedavg, goes_on_without_a_silo_that_is_killed)
{
    expect_going_on("kill", 128 + SIGKILL, "round 2 lacks silo-2: party_lost",
                    "round 5: 2 of 3 silos");
}

Test(fedavg, goes_on_without_a_silo_that_is_stopped)
{
    expect_going_on("stop", 6, "round 2 lacks silo-2: party_lost", "round 5: 2 of 3 silos");
}

Test(fedavg, goes_on_without_weights_that_are_no_numbers)
{
    expect_going_on("nan", 0, "round 2 lacks silo-2: ", "round 3: 3 of 3 silos");
}

/* With too few left the error travels: to the aggregator, and from it to who waits for the
 * model. */
Test(fedavg, fails_for_all_when_too_few_are_left)
{
    struct run run;
    start_run(&run, "kill", "3");
    expect_exit(&run.aggregator, 3);
    expect_said(&run.aggregator, "round 2 lacks silo-2: party_lost");
    expect_exit(&run.silos[0], 3);
    expect_exit(&run.silos[2], 3);
    cr_expect_not_null(strstr(process_complained(&run.silos[0]), "silo-2"), "%s",
                       process_complained(&run.silos[0]));
    fini_run(&run);
}

/* The silo that nobody waits for any longer was not too slow: it had its time still. */
Test(fedavg, says_which_silos_it_did_not_wait_for)
{
    struct run run;
    const struct bus_error *none = NULL;
    start_aggregator(&run, "3");
    struct bus *silo = must_open("silo-2");
    struct bus_slot *moments = must_reserve(silo, "moments");
    bus_slot_fail(&moments, none);
    expect_exit(&run.aggregator, 3);
    expect_said(&run.aggregator, "moments lacks silo-2: application: errbus.abandoned");
    expect_said(&run.aggregator,
                "moments lacks silo-1: application: fedavg.not_awaited: silo-1 had sent "
                "nothing yet when too few silos were left");
    cr_expect_null(strstr(process_said(&run.aggregator), "too_slow"));
    must_close(&silo);
    process_fini(&run.aggregator);
}

/* A run in which nobody fails ends, and its aggregator said what is in said; or that is said now,
 * if said is empty. */
static void expect_learnt(struct run *run, char *said, size_t said_bytes)
{
    expect_exit(&run->aggregator, 0);
    for (size_t i = 0; i < SILOS; i++) {
        expect_exit(&run->silos[i], 0);
    }
    const char *scale = strstr(process_said(&run->aggregator), "scale:");
    cr_assert_not_null(scale, "%s", process_said(&run->aggregator));
    if (said[0] == '\0') {
        (void)snprintf(said, said_bytes, "%s", scale);
    }
    cr_expect_str_eq(scale, said);
    fini_run(run);
}

static void learn(char *said, size_t said_bytes)
{
    struct run run;
    start_run(&run, NULL, "3");
    expect_learnt(&run, said, said_bytes);
}

/* As README says: no flag is needed, and nothing of the last run is in the next. */
Test(fedavg, learns_the_same_in_a_second_run)
{
    char said[4096] = "";
    for (int i = 0; i < 3; i++) {
        learn(said, sizeof said);
    }
}

/* Silo 2 is killed in a round that goes on without it. */
static void lose_a_silo(void)
{
    struct run run;
    start_run(&run, "kill", "2");
    expect_exit(&run.aggregator, 0);
    expect_exit(&run.silos[0], 0);
    expect_exit(&run.silos[1], 128 + SIGKILL);
    expect_exit(&run.silos[2], 0);
    fini_run(&run);
}

/* All are in the middle of a run, and are killed as by a power cut.  Then the broker waits whether
 * they connect again: who comes before it has given all of them up goes on with that run. */
static void lose_all(void)
{
    struct run run;
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    start_silo(&run, 0, NULL);
    start_silo(&run, 1, "stop");
    start_silo(&run, 2, NULL);
    start_aggregator(&run, "3");
    expect_line(&run.aggregator, "round 1:");
    struct process *const all[] = {&run.aggregator, &run.silos[0], &run.silos[1], &run.silos[2]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        process_signal(all[i], SIGKILL);
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        expect_exit(all[i], 128 + SIGKILL);
        (void)expect_event(tap, "party.lost", NULL);
    }
    bus_tap_close(&tap);
    fini_run(&run);
}

/* The first one is alone until it is in the next run.  SILOS: the aggregator; above: all come at
 * once. */
static void learn_after(size_t first, char *said, size_t said_bytes)
{
    struct run run;
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    if (first == SILOS)
        start_aggregator(&run, "3");
    else if (first < SILOS)
        start_silo(&run, first, NULL);
    if (first <= SILOS)
        (void)expect_event(tap, "job.run", NULL);
    bus_tap_close(&tap);
    for (size_t i = 0; i < SILOS; i++) {
        if (i != first)
            start_silo(&run, i, NULL);
    }
    if (first != SILOS)
        start_aggregator(&run, "3");
    expect_learnt(&run, said, said_bytes);
}

/* Whoever comes first, the next run has nothing of the last one, and everybody takes part. */
static void expect_learns_after(void (*lose)(void))
{
    char said[4096] = "";
    learn(said, sizeof said);
    for (size_t first = 0; first <= SILOS + 1; first++) {
        lose();
        learn_after(first, said, sizeof said);
    }
}

Test(fedavg, learns_the_same_after_a_run_in_which_a_silo_was_killed)
{
    expect_learns_after(lose_a_silo);
}

Test(fedavg, learns_the_same_after_a_run_in_which_all_were_killed)
{
    expect_learns_after(lose_all);
}

/* Silo 2 is stopped in the middle of a round.  The broker is killed meanwhile, so silo 2 is told
 * nothing of its loss.  The others end, and begin the next run.  When silo 2 goes on, it owes
 * weights of a run that is over: it opens the bus again, joins, and is as good as the others. */
Test(fedavg, goes_on_with_a_silo_that_was_fenced_in_the_middle_of_its_work, .init = revival_begin,
     .fini = revival_close)
{
    struct run last;
    struct run run;
    start_run(&last, "stop", "2");
    expect_line(&last.silos[1], "round 2: fails on purpose");
    revival_kill();
    revival_start("process", NULL);
    expect_exit(&last.aggregator, 0);
    expect_exit(&last.silos[0], 0);
    expect_exit(&last.silos[2], 0);
    struct bus_tap *tap = must_tap(NULL, BUS_TAP_NOW);
    start_silo(&run, 0, NULL);
    start_silo(&run, 2, NULL);
    start_aggregator(&run, "2");
    (void)expect_event(tap, "job.run", NULL);
    bus_tap_close(&tap);
    process_signal(&last.silos[1], SIGCONT);
    expect_exit(&run.aggregator, 0); /* in round 2 silo 2 is stopped again, for it was told so */
    expect_said(&run.aggregator, "round 1: 3 of 3 silos");
    expect_exit(&run.silos[0], 0);
    expect_exit(&run.silos[2], 0);
    process_fini(&run.aggregator);
    process_fini(&run.silos[0]);
    process_fini(&run.silos[2]);
    process_signal(&last.silos[1], SIGKILL);
    expect_exit(&last.silos[1], 128 + SIGKILL);
    cr_expect_not_null(strstr(process_complained(&last.silos[1]), "errbus.attempt_over"), "%s",
                       process_complained(&last.silos[1]));
    fini_run(&last);
}

static void run_aggregator(const char *wait, int code, const char *complaint)
{
    struct process aggregator;
    const char *const words[] = {"fedavg", "aggregator", "-s", stage.control, "--data",
                                 DATA,     "-W",         wait, "nobody",      NULL};
    const char *const run[] = {"ERRBUS_RUN=monday", NULL};
    cr_assert(process_start(&aggregator, words, run));
    expect_exit(&aggregator, code);
    cr_expect_not_null(strstr(process_complained(&aggregator), complaint), "not '%s' in: %s",
                       complaint, process_complained(&aggregator));
    process_fini(&aggregator);
}

/* Nobody comes in time; and what this party has promised once in a run, it cannot again. */
Test(fedavg, ends_with_a_word_where_it_cannot_go_on)
{
    run_aggregator("3", 4, "--wait 3 passed");
    run_aggregator("3", 1,
                   "number 0 of 'scale' was reserved before, in run 1 of job 'default' by "
                   "aggregator/1, which ended at 20");
}

Test(fedavg, is_shown_by_the_demonstration)
{
    char program[512];
    char *slash = NULL;
    struct process demo;
    process_path("errbusd", program, sizeof program);
    for (int level = 0; level < 2; level++) {
        slash = strrchr(program, '/');
        cr_assert_not_null(slash);
        *slash = '\0';
    }
    const char *const argv[] = {"bash", TEST_SOURCE_DIR "/clients/fedavg/demo.sh", program, NULL};
    cr_assert(process_start(&demo, argv, NULL));
    expect_exit(&demo, 0);
    expect_said(&demo, "party.lost");
    expect_said(&demo, "the job ended well without it");
    process_fini(&demo);
}
