/* SPDX-License-Identifier: MPL-2.0 */
/* trial.c -- a child for each run; what it learnt comes back by memory that both have. */
#include "tests/sim/trial.h"

#include "libbus/base/must.h"

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MOMENTS_MAX = 65536, /* several times what the busiest seed has */
    CPU_SECONDS = 60,    /* a run takes milliseconds */
    GIST_BYTES = 512,
};

struct shared {
    struct swarm_report report;
    struct script script;
    struct script_moment moments[MOMENTS_MAX];
};

static struct shared *shared_new(void)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(shared != MAP_FAILED);
    shared->script =
        (struct script){.moments = shared->moments, .room = MOMENTS_MAX, .is_fixed = true};
    return shared;
}

/* Its own death is no news, and a loop without end shall have one. */
static void be_a_child(void)
{
    struct rlimit limit = {.rlim_cur = CPU_SECONDS, .rlim_max = CPU_SECONDS + 1};
    static const int numbers[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE};
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        (void)sigaction(numbers[i], &action, NULL); /* the numbers are valid */
    (void)setrlimit(RLIMIT_CPU, &limit);            /* else it has more time */
    must(freopen("/dev/null", "w", stderr) != NULL);
}

static void run_in_child(uint64_t seed, const struct swarm_options *options, struct shared *shared)
{
    int status = 0;
    (void)fflush(NULL); /* what is lost was not ours */
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        be_a_child();
        if (options->lines != NULL)
            (void)setvbuf(options->lines, NULL, _IONBF, 0); /* else its end is lost with it */
        swarm_run(seed, options, &shared->report);
        _exit(0);
    }
    must(waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status))
        (void)snprintf(shared->report.violation, sizeof shared->report.violation,
                       "the process died of signal %d", WTERMSIG(status)); /* fits */
}

/* What a violation says without what differs from run to run: numbers, and names of topics. */
static void gist_of(const char *violation, char gist[GIST_BYTES])
{
    size_t at = 0;
    char text[GIST_BYTES];
    char *rest = NULL;
    (void)snprintf(text, sizeof text, "%s", violation); /* may be cut */
    gist[0] = 0;
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        bool is_telling = strlen(word) > 1 && strpbrk(word, "0123456789/#+") == NULL;
        if (is_telling && at + strlen(word) + 2 < GIST_BYTES)
            at += (size_t)snprintf(gist + at, GIST_BYTES - at, "%s ", word);
    }
}

static bool is_alike(const char *violation, const char *other)
{
    char one[GIST_BYTES], two[GIST_BYTES];
    gist_of(violation, one);
    gist_of(other, two);
    return other[0] != 0 && strcmp(one, two) == 0;
}

static void replay(const struct trial *trial, const struct script *script, unsigned eases,
                   FILE *lines, struct swarm_report *out_report)
{
    struct shared *shared = shared_new();
    struct swarm_options options = {
        .replayed = script, .eases = eases, .lines = lines, .plant = trial->plant};
    run_in_child(trial->seed, &options, shared);
    *out_report = shared->report;
    (void)munmap(shared, sizeof *shared); /* it is mapped */
}

static bool fails(void *arg, const struct script *script, unsigned eases)
{
    const struct trial *trial = arg;
    struct swarm_report report;
    replay(trial, script, eases, NULL, &report);
    return is_alike(trial->first.violation, report.violation);
}

bool trial_open(struct trial *trial, uint64_t seed, enum swarm_plant plant)
{
    struct shared *shared = shared_new();
    struct swarm_options options = {.recorded = &shared->script, .plant = plant};
    *trial = (struct trial){.seed = seed, .plant = plant};
    run_in_child(seed, &options, shared);
    trial->first = shared->report;
    for (uint32_t i = 0; i < shared->script.count; i++)
        script_add(&trial->script, shared->moments[i]);
    memcpy(trial->script.phases, shared->script.phases, sizeof trial->script.phases);
    (void)munmap(shared, sizeof *shared); /* it is mapped */
    trial->shrink = (struct shrink){.script = &trial->script, .fails = fails, .arg = trial};
    return trial->first.violation[0] != 0;
}

void trial_shorten(struct trial *trial, FILE *out)
{
    struct swarm_report report;
    uint32_t before = trial->script.count;
    if (fails(trial, &trial->script, 0))
        shrink_run(&trial->shrink, SWARM_EASES);
    else
        fprintf(out, "seed %" PRIu64 ": its script alone does not do the same\n", trial->seed);
    fprintf(out, "seed %" PRIu64 ": %s\n", trial->seed, trial->first.violation);
    fprintf(out, "made short: %" PRIu32 " of %" PRIu32 " moments, in %" PRIu32 " runs\n",
            trial->script.count, before, trial->shrink.runs);
    (void)fflush(out);
    FILE *lines = fdopen(dup(fileno(out)), "a"); /* the child's own standard error is silent */
    must(lines != NULL);
    replay(trial, &trial->script, trial->shrink.eases, lines, &report);
    (void)fclose(lines); /* a copy */
    fprintf(out, "in the end: %s\n", report.violation);
}

void trial_close(struct trial *trial)
{
    script_fini(&trial->script);
}
