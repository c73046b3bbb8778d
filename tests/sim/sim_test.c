/* SPDX-License-Identifier: MPL-2.0 */
/* sim_test.c -- thousands of seeds; see swarm.h.
 *
 *   ERRBUS_SIM_SEEDS   how many (default 2000)
 *   ERRBUS_SIM_FROM    the first one (default 1)
 *   ERRBUS_SIM_TRACE   1: everything that happens, on standard error
 *   ERRBUS_SIM_STEP    from one seed to the next; 1
 *   ERRBUS_SIM_SHRINK  0: a failing seed is not made short; 1: each seed is tried in a process of
 *                      its own first, so that one that dies is made short, too
 *
 * A seed that breaks a promise is made short and told (trial.h).  Once mended it belongs into
 * named[], with a sentence about what it found. */
#include "tests/sim/coverage.h"
#include "tests/sim/seeds.h"
#include "tests/sim/trial.h"
#include "tests/sim/words.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEEDS_DEFAULT = 2000 };

/* What a process says that dies of a broken invariant or a wild pointer in the middle of a seed. */
static char last_words[128];

static void on_death(int number)
{
    (void)number; /* the default action, which follows, tells it */
    ssize_t written = write(STDERR_FILENO, last_words, strlen(last_words));
    (void)written; /* nothing is left to be done about it */
}

static void watch_over(uint64_t seed)
{
    static const int numbers[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE};
    struct sigaction action = {.sa_handler = on_death, .sa_flags = (int)SA_RESETHAND};
    (void)snprintf(last_words, sizeof last_words,
                   "died in seed %" PRIu64 ": ERRBUS_SIM_SHRINK=1 ERRBUS_SIM_SEEDS=1 "
                   "ERRBUS_SIM_FROM=%" PRIu64 " tells more\n",
                   seed, seed); /* fits */
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        (void)sigaction(numbers[i], &action, NULL); /* the numbers are valid */
}

/* What is left of the seed when it is made short. */
static void show(uint64_t seed)
{
    struct trial trial;
    if (trial_open(&trial, seed, SWARM_PLANT_NONE))
        trial_shorten(&trial, stderr);
    trial_close(&trial);
}

enum age { AGE_NEW, AGE_BEFORE_SEALS, AGE_BEFORE_RATES }; /* what there was when it got its name */

static void check_seed(uint64_t seed, enum age age, bool is_plain, struct swarm_report *sum)
{
    struct swarm_report report;
    struct swarm_options options = {.trace =
                                        seeds_number("ERRBUS_SIM_TRACE", 0) == 1 ? stderr : NULL,
                                    .has_no_rate = age >= AGE_BEFORE_RATES,
                                    .seals_nothing = age >= AGE_BEFORE_SEALS,
                                    .is_plain = is_plain};
    uint64_t shrinks = seeds_number("ERRBUS_SIM_SHRINK", 2);
    if (shrinks == 1)
        show(seed);
    watch_over(seed);
    swarm_run(seed, &options, &report);
    sum->taken_count += report.taken_count;
    sum->refused_count += report.refused_count;
    sum->brought_count += report.brought_count;
    sum->end_count += report.end_count;
    sum->crash_count += report.crash_count;
    sum->request_count += report.request_count;
    sum->run_count += report.run_count;
    sum->held_count += report.held_count;
    if (report.violation[0] != 0 && options.trace == NULL && shrinks == 2)
        show(seed);
    cr_assert(report.violation[0] == 0, "seed %" PRIu64 ": %s", seed, report.violation);
}

Test(sim, keeps_the_promises_under_every_seed)
{
    struct swarm_report sum = {.violation = ""};
    uint64_t from = seeds_first();
    uint64_t count = seeds_count(SEEDS_DEFAULT);
    uint64_t step = seeds_number("ERRBUS_SIM_STEP", 1);
    for (uint64_t i = 0; i < count; i++)
        check_seed(from + i * step, AGE_NEW, false, &sum);
    coverage_print(stderr);
    fprintf(stderr,
            "%" PRIu64 " next runs, %" PRIu64 " refused, %" PRIu64 " sealed traces opened\n",
            sum.run_count, sum.held_count, words_opened());
    /* A swarm in which nothing happens proves nothing. */
    if (count >= SEEDS_DEFAULT && step == 1) {
        cr_assert_gt(sum.taken_count, 50 * count);
        cr_assert_gt(sum.refused_count, count);
        cr_assert_gt(sum.brought_count, count);
        cr_assert_gt(words_opened(), count);
        cr_assert_gt(sum.end_count, 3 * count);
        cr_assert_gt(sum.crash_count, count / 4);
        cr_assert_gt(coverage_replacements(), count / 40);
        cr_assert_gt(sum.request_count, count);
        cr_assert_gt(sum.run_count, count / 10);
        cr_assert_gt(sum.held_count, count / 50);
        cr_expect_null(coverage_absent_fault(), "never happened: %s", coverage_absent_fault());
        cr_expect_gt(coverage_passed(), count / 400);
        cr_expect_gt(coverage_numbered(), count / 4);
        cr_expect_gt(coverage_wide(), count / 20);
        cr_expect_gt(coverage_narrow(), count / 20);
        cr_expect_eq(coverage_met(COVERAGE_TASK), coverage_possible(COVERAGE_TASK));
        cr_expect_geq(coverage_met(COVERAGE_LEASE), 16);
        cr_expect_geq(coverage_met(COVERAGE_REQUEST), 19); /* all but what is rare */
        cr_expect_eq(coverage_met(COVERAGE_SLOT), coverage_possible(COVERAGE_SLOT));
        cr_expect_geq(coverage_met(COVERAGE_PARTY), 12);
        cr_expect_geq(coverage_met(COVERAGE_JOB), 12); /* see also members_test.c */
        cr_expect_geq(coverage_met(COVERAGE_PHASE), 10);
        cr_expect_geq(coverage_met(COVERAGE_SUB), 42); /* all but what is rare */
    }
}

Test(sim, does_the_same_for_the_same_seed)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct swarm_report first, second;
        swarm_run(seed, &(const struct swarm_options){0}, &first);
        swarm_run(seed, &(const struct swarm_options){0}, &second);
        cr_assert_eq(first.digest, second.digest, "seed %" PRIu64, seed);
    }
}

struct named_seed {
    uint64_t seed;
    bool is_plain; /* it has its name from before there were groups in it */
    const char *found;
};

/* From before links had rates. */
static const struct named_seed named[] = {
    {5528, true,
     "chunks came once more when the value was whole and no longer kept, and were refused"},
    {37148, true, "the same, without anybody repeating them: CHUNKED was lost with a connection"},
    {8026, true,
     "ECHO did not say what was sent while nothing was decided: a dead link went unnoticed"},
    {8366, true, "a deadline that passed while its job was failing was forgotten with the broker"},
    {41840, true,
     "a reader of five incarnations of one party waited for ever at an end that was forgotten"},
    {13707, false, "a dead letter lost its value, as no slot could be opened for it"},
    {19331, false, "a subscription that was refused a pattern held writers back for nobody"},
    {20527, false,
     "of a task behind a large value that was taken back nothing was said, and a flush said all"},
    {3135, false,
     "a session that memory was short for was in two lists, and the broker died of it"},
    {6656, false,
     "a refusal that there was no memory to keep was not told, and its writer was stuck"},
    {302, false, "an error of the bus that the broker forgot is a claim, and withheld"},
    {4364, false, "the checks missed the end of an incarnation that is one with the next end"},
    {3525, false, "a data channel that died while it was idle was looked for too early"},
    {263, false, "the checks took the error of a dead letter without a value for its slot's"},
    {16095, false, "the checks did not know of a dead letter whose error there was no memory for"},
};

static const struct named_seed named_since[] = {
    {10449, false, "the checks did not know of a dead letter that stands in for its own error"},
    {13427, false,
     "the checks did not know of a dead letter that there was no memory to keep whole"},
    {6508, false, "the checks did not know that who does a task is told where its reply goes"},
    {17860, false, "a writer got no credit in a job full of what an expired durable name had held"},
    {8513, false, "the checks took 3,000 refusals that are kept for tables that grow"},
    {12084, false,
     "the checks did not know that a letter of an earlier attempt is named by where it is kept"},
    {33002, false,
     "a worker's word about a task that died was taken for one about the letter given again"},
    {1474, false, "the checks did not know that a letter of an earlier attempt has another name"},
    {468522, false, "the checks took a durable name for the one that a new access table had ended"},
};

static const struct named_seed named_now[] = {
    {3101, false, "the checks did not know of an end whose event there was no memory for"},
    {15096, false, "the checks took 1,990 errors that the next step frees for tables that grow"},
    {19552, false,
     "causes were weighed of an error that found no memory, until a restart forgot them"},
    {11574, false, "a broker that was back told of earlier attempts behind what is of this one"},
    {4681, false,
     "the checks came before a reader with little room, far away, had all of the large values"},
};

static void check_named(const struct named_seed *seeds, size_t count, enum age age)
{
    struct swarm_report sum = {.violation = ""};
    for (size_t i = 0; i < count; i++) {
        cr_log_info("seed %" PRIu64 ": %s", seeds[i].seed, seeds[i].found);
        check_seed(seeds[i].seed, age, seeds[i].is_plain, &sum);
    }
}

Test(sim, keeps_what_seeds_have_taught)
{
    check_named(named, sizeof named / sizeof named[0], AGE_BEFORE_RATES);
    check_named(named_since, sizeof named_since / sizeof named_since[0], AGE_BEFORE_SEALS);
    check_named(named_now, sizeof named_now / sizeof named_now[0], AGE_NEW);
}
