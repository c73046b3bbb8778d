/* SPDX-License-Identifier: MPL-2.0 */
/* prove.c -- harms a bus that is at work, for as long as one wishes, and sees whether it keeps what
 * it promises.
 *
 *   prove [SECONDS] [--soak] [--no-links] [--watch SECONDS] [--seed N] [--only WORDS]
 *         [--results FILE] [--tamper]
 *
 * Writers and readers work through a real errbusd while they and it are killed and frozen, and
 * their cables cut, slowed and lied about; --soak leaves the broker in peace and judges whether its
 * memory and descriptors, those of a client, and the latency of values stay as they are.  SECONDS:
 * 60 where none are said; the watch that is going on then is finished.  FILE gets a line of JSON
 * for each thing.
 * --only WORDS does what has these words in its name, as "is killed" or "frozen", and nothing else.
 * --tamper loses a value on purpose, to see whether that is noticed.
 * SIGINT, SIGTERM and SIGHUP stop it: all that it started ends, and it tells what was seen so far.
 * Exit codes: 0 every promise was kept, 1 one was not: the last line says which, 2 usage, 128 + the
 * number of the signal that stopped it. */
#include "tests/lib/process.h"
#include "tests/prove/harm.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECONDS_DEFAULT 60
#define WATCH_DEFAULT 30
#define EXIT_USAGE 2
#define HOLD_LEAST_MS 200
#define HOLD_MOST_MS 1200 /* well below what a party or its grace have */
#define SLOW_MS 2000      /* of what nobody is lost by */

struct command {
    int64_t seconds;
    int64_t watch_seconds;
    uint64_t seed;
    bool is_soak;
    bool has_links;
    bool is_tampered;
    const char *results;
    const char *only;
};

struct run {
    struct command command;
    struct crew crew;
    struct meter meter;
    uint64_t dice;
    unsigned done[HARM_KINDS][2]; /* how often, and as the longer form */
    unsigned count;
};

/* ---- what is asked for ------------------------------------------------------------------------*/

static bool read_number(const char *text, int64_t least, int64_t *out_number)
{
    char *end = NULL;
    *out_number = text != NULL ? strtoll(text, &end, 10) : 0;
    return text != NULL && end != text && *end == '\0' && *out_number >= least;
}

static bool is_name_of_any(const char *words)
{
    bool is_one = false;
    for (unsigned kind = 0; kind < HARM_KINDS; kind++) {
        is_one = is_one || strstr(harm_name((enum harm_kind)kind), words) != NULL;
    }
    return is_one;
}

static bool read_command(struct command *command, char **words)
{
    int64_t number = 0;
    bool is_good = true;
    for (; is_good && *words != NULL; words++) {
        if (strcmp(*words, "--soak") == 0) {
            command->is_soak = true;
        } else if (strcmp(*words, "--no-links") == 0) {
            command->has_links = false;
        } else if (strcmp(*words, "--tamper") == 0) {
            command->is_tampered = true;
        } else if (strcmp(*words, "--watch") == 0) {
            is_good = read_number(*++words, 5, &command->watch_seconds);
        } else if (strcmp(*words, "--seed") == 0) {
            is_good = read_number(*++words, 0, &number);
            command->seed = (uint64_t)number;
        } else if (strcmp(*words, "--only") == 0) {
            command->only = *++words;
            is_good = command->only != NULL && is_name_of_any(command->only);
        } else if (strcmp(*words, "--results") == 0) {
            command->results = *++words;
            is_good = command->results != NULL;
        } else {
            is_good = read_number(*words, 1, &command->seconds);
        }
        is_good = is_good && *words != NULL;
    }
    return is_good;
}

/* ---- chance -----------------------------------------------------------------------------------*/

static uint64_t below(struct run *run, uint64_t count)
{
    run->dice = run->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (run->dice >> 33) % count;
}

static bool is_possible(const struct run *run, enum harm_kind kind)
{
    return strstr(harm_name(kind), run->command.only) != NULL &&
           (run->crew.has_links || !harm_needs_links(kind)) &&
           (run->crew.volume.path[0] != '\0' || kind != HARM_DISK) &&
           !(run->command.is_soak && harm_is_of_broker(kind));
}

static bool is_any_possible(const struct run *run)
{
    bool is_one = false;
    for (unsigned kind = 0; kind < HARM_KINDS; kind++) {
        is_one = is_one || is_possible(run, (enum harm_kind)kind);
    }
    return is_one;
}

/* One of those that were done least: so a run of any length has of each about as many. */
static struct harm choose(struct run *run)
{
    struct harm harm = {.hold_ms = -1};
    unsigned least = UINT32_MAX;
    uint64_t alike = 0;
    for (unsigned at = 0; at < 2 * HARM_KINDS; at++) {
        enum harm_kind kind = (enum harm_kind)(at / 2);
        bool is_longer = at % 2 == 1;
        bool is_one = is_possible(run, kind) && (!is_longer || harm_may_be_longer(kind)) &&
                      (is_longer || kind != HARM_KILL); /* which is always the longer form */
        unsigned done = run->done[kind][is_longer];
        if (!is_one || done > least) {
            continue;
        }
        alike = done < least ? 1 : alike + 1;
        least = done;
        if (below(run, alike) == 0) {
            harm.kind = kind;
            harm.is_longer = is_longer;
        }
    }
    return harm;
}

static struct harm draw(struct run *run)
{
    struct harm harm = choose(run);
    bool is_slow_only = harm.kind >= HARM_LOSS;
    bool has_victim = !harm_is_of_broker(harm.kind) && harm.kind != HARM_RUBBISH;
    harm.hold_ms = HOLD_LEAST_MS + (int64_t)below(run, HOLD_MOST_MS - HOLD_LEAST_MS);
    harm.hold_ms = is_slow_only ? SLOW_MS : harm.kind == HARM_REPLACE ? 0 : harm.hold_ms;
    harm.victim = has_victim ? &run->crew.victims[below(run, CREW_VICTIMS)] : NULL;
    run->done[harm.kind][harm.is_longer]++;
    return harm;
}

/* ---- what is told -----------------------------------------------------------------------------*/

/* In JSON, a text of ours. */
static const char *quoted(const char *text, char *room, size_t bytes)
{
    snprintf(room, bytes, "%s", text);
    for (char *at = room; *at != '\0'; at++) {
        *at = *at == '"' || *at == '\\' ? '\'' : (unsigned char)*at < ' ' ? ' ' : *at;
    }
    return room;
}

/* By name; -1: it did not come to that. */
static void tell_times(const struct crew *crew, const char *what, const int64_t *times_ms,
                       const char *const *names, size_t count)
{
    const char *comma = "";
    fprintf(crew->results, ",\"%s\":{", what);
    for (size_t i = 0; i < count; i++) {
        if (times_ms[i] >= 0) {
            fprintf(crew->results, "%s\"%s\":%" PRId64, comma, names[i], times_ms[i]);
            comma = ",";
        }
    }
    fprintf(crew->results, "}");
}

static void tell_survivors(const struct crew *crew, const struct harm *harm)
{
    const char *names[CREW_TOLD];
    const char *waiters[CREW_WAITERS];
    for (size_t i = 0; i < CREW_PULSES; i++) {
        names[i] = waiters[i] = crew->pulses[i].name;
    }
    for (size_t i = 0; i < CREW_READERS; i++) {
        names[CREW_PULSES + i] = crew->victims[CREW_WRITERS + i].name;
    }
    waiters[CREW_PULSES] = crew->asker.name;
    tell_times(crew, "waited_ms", harm->waited_ms, names, CREW_TOLD);
    tell_times(crew, "slowest_ms", harm->slowest_ms, waiters, CREW_WAITERS);
}

static void tell_harm(struct run *run, const struct harm *harm, double at_s)
{
    const struct crew *crew = &run->crew;
    const char *victim = harm->victim != NULL ? harm->victim->name : "errbusd";
    double share = harm->before > 0 ? 100 * harm->least / harm->before : 100;
    printf("%7.1f s  %-8s %-34s %6lld ms", at_s, victim, harm_name(harm->kind),
           (long long)harm->held_ms);
    if (harm->victim == NULL && harm->detected_ms >= 0) {
        printf(", told after %5lld ms", (long long)harm->detected_ms);
    } else if (harm->detected_ms >= 0) {
        printf(", lost after %5lld ms, survivors told after %lld and %lld ms",
               (long long)harm->detected_ms, (long long)harm->waited_ms[0],
               (long long)harm->waited_ms[1]);
    }
    printf(", others at %.0f %%, back in %lld ms\n", share, (long long)harm->recovered_ms);
    fflush(stdout);
    fprintf(crew->results,
            "{\"what\":\"fault\",\"at_s\":%.3f,\"kind\":\"%s\",\"victim\":\"%s\",\"longer\":%s,"
            "\"held_ms\":%" PRId64 ",\"detected_ms\":%" PRId64,
            at_s, harm_name(harm->kind), victim, harm->is_longer ? "true" : "false", harm->held_ms,
            harm->detected_ms);
    tell_survivors(crew, harm);
    fprintf(crew->results,
            ",\"before\":%.0f,\"least_percent\":%.1f,\"recovered_ms\":%" PRId64 "}\n", harm->before,
            share, harm->recovered_ms);
}

static void tell_watch(const struct run *run)
{
    const struct diaries_sums *sums = &run->crew.sums;
    fprintf(run->crew.results,
            "{\"what\":\"watch\",\"number\":%u,\"acknowledged\":%" PRIu64 ",\"promises\":%" PRIu64
            ",\"outcomes\":%" PRIu64 ",\"failures\":%" PRIu64 ",\"again\":%" PRIu64
            ",\"tasks\":%" PRIu64 "}\n",
            run->crew.watch, sums->written, sums->promises, sums->outcomes, sums->failures,
            sums->again, crew_task_count(&run->crew));
    fflush(run->crew.results);
}

static void tell_slopes(struct run *run)
{
    struct meter_slope slopes[METER_SLOPES];
    /* A broker that is killed begins anew. */
    size_t count = run->command.is_soak ? meter_slopes(&run->meter, slopes) : 0;
    for (size_t i = 0; i < count; i++) {
        const struct meter_slope *slope = &slopes[i];
        printf("slope: %-26s mean %10.0f %-3s %+12.1f an hour, %+.1f while it was measured%s\n",
               slope->name, slope->mean, slope->unit, slope->an_hour, slope->expected,
               !slope->is_judged ? ": not judged"
               : slope->is_flat  ? ": flat"
                                 : ": NOT FLAT");
        fprintf(
            run->crew.results,
            "{\"what\":\"slope\",\"name\":\"%s\",\"unit\":\"%s\",\"mean\":%.1f,\"an_hour\":%.1f,"
            "\"growth\":%.1f,\"bound\":%.1f,\"flat\":%s,\"judged\":%s}\n",
            slope->name, slope->unit, slope->mean, slope->an_hour, slope->expected, slope->bound,
            slope->is_flat ? "true" : "false", slope->is_judged ? "true" : "false");
        if (slope->is_judged && !slope->is_flat) {
            crew_blame(&run->crew, "the %s grows by %.0f %s, and may by %.0f", slope->name,
                       slope->expected, slope->unit, slope->bound);
        }
    }
}

static void tell_end(struct run *run)
{
    char words[CREW_WORDS];
    const struct crew *crew = &run->crew;
    const struct diaries_sums *sums = &crew->sums;
    const struct crew_tasks *tasks = &crew->tasks;
    double seconds = (double)(test_now_ms() - run->meter.begin_ms) / 1000;
    int stopped_by = process_stopped_by();
    bool is_well = crew->words[0] == '\0';
    printf("\n%u faults in %.0f s and %u watches, seed %" PRIu64 ": %" PRIu64
           " values acknowledged, %" PRIu64 " promises settled, %u incarnations declared over\n",
           run->count, seconds, crew->watch, run->command.seed, sums->written, sums->promises,
           crew->incarnations_over);
    printf("%" PRIu64 " tasks: %" PRIu64 " answered, %" PRIu64 " failed, %" PRIu64 " done, %" PRIu64
           " dead letters; %" PRIu64 " given again; %" PRIu64 " values needed a reply; %" PRIu64
           " attachments\n",
           crew_task_count(crew), tasks->answered, tasks->failed, tasks->done, tasks->dead,
           tasks->again, tasks->needs, tasks->attachments);
    if (stopped_by != 0) {
        printf("stopped by a signal, %s: the diaries of the last watch were not compared\n",
               strsignal(stopped_by));
    }
    printf("%s%s%s\n", is_well && stopped_by != 0 ? "until then " : "",
           is_well
               ? "every promise was kept: nothing that was acknowledged is lost, nothing came twice"
               : "BROKEN: ",
           crew->words);
    fprintf(
        crew->results,
        "{\"what\":\"end\",\"ok\":%s,\"words\":\"%s\",\"seed\":%" PRIu64
        ",\"seconds\":%.1f,\"stopped\":%s,\"links\":%s,\"soak\":%s,\"faults\":%u,\"watches\":%u,"
        "\"acknowledged\":%" PRIu64 ",\"promises\":%" PRIu64
        ",\"lost\":%s,\"incarnations_over\":%u,\"tasks_answered\":%" PRIu64
        ",\"tasks_failed\":%" PRIu64 ",\"tasks_done\":%" PRIu64 ",\"tasks_dead\":%" PRIu64
        ",\"tasks_again\":%" PRIu64 ",\"needs\":%" PRIu64 ",\"attachments\":%" PRIu64 "}\n",
        is_well ? "true" : "false", quoted(crew->words, words, sizeof words), run->command.seed,
        seconds, stopped_by != 0 ? "true" : "false", crew->has_links ? "true" : "false",
        run->command.is_soak ? "true" : "false", run->count, crew->watch, sums->written,
        sums->promises, is_well ? "0" : "null", crew->incarnations_over, tasks->answered,
        tasks->failed, tasks->done, tasks->dead, tasks->again, tasks->needs, tasks->attachments);
}

/* ---- the run ----------------------------------------------------------------------------------*/

static bool do_watch(struct run *run)
{
    struct crew *crew = &run->crew;
    int64_t until_ms = test_now_ms() + run->command.watch_seconds * 1000;
    int64_t end_ms = run->meter.begin_ms + run->command.seconds * 1000;
    if (!crew_begin_watch(crew)) {
        return false;
    }
    do {
        struct harm harm = draw(run);
        double at_s = (double)(test_now_ms() - run->meter.begin_ms) / 1000;
        harm_do(crew, &harm);
        if (process_stopped_by() == 0) { /* else it was not seen to its end */
            run->count++;
            tell_harm(run, &harm, at_s);
        }
    } while (crew_is_well(crew) && test_now_ms() < until_ms && test_now_ms() < end_ms);
    bool is_well = crew_is_well(crew) && crew_end_watch(crew);
    if (process_stopped_by() == 0) {
        tell_watch(run);
    }
    return is_well;
}

static void do_all(struct run *run)
{
    int64_t end_ms = run->meter.begin_ms + run->command.seconds * 1000;
    if (!is_any_possible(run)) {
        crew_blame(&run->crew, "nothing that is called '%s' can be done here", run->command.only);
    }
    bool is_well = crew_is_well(&run->crew) && crew_start_broker(&run->crew);
    if (is_well && run->command.is_soak) {
        is_well = crew_start_residents(&run->crew);
    }
    while (is_well && test_now_ms() < end_ms) {
        is_well = do_watch(run);
    }
    if (is_well) {
        tell_slopes(run);
    }
    crew_end_residents(&run->crew);
}

static void watch_for_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = process_stop};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        (void)sigaction(numbers[i], &action, NULL); /* the numbers are valid */
    }
}

int main(int argc, char **argv)
{
    static struct run run;
    char why_not[HOSTS_PROBLEM_BYTES_MAX];
    char why_no_volume[VOLUME_PROBLEM_BYTES];
    (void)argc;
    run.command = (struct command){.seconds = SECONDS_DEFAULT,
                                   .watch_seconds = WATCH_DEFAULT,
                                   .seed = (uint64_t)test_now_ns() % 1000000,
                                   .has_links = true,
                                   .results = "/dev/null",
                                   .only = ""};
    if (!read_command(&run.command, argv + 1)) {
        fprintf(stderr, "usage: see the head of tests/prove/prove.c\n");
        return EXIT_USAGE;
    }
    run.dice = run.command.seed;
    process_remember_own_path();
    watch_for_signals();
    bool is_open = crew_open(&run.crew, run.command.has_links, why_not);
    if (run.command.has_links && !run.crew.has_links) {
        printf("cables are left out: %s\n", why_not);
    }
    if (is_open && !run.command.is_soak && !crew_mount(&run.crew, why_no_volume)) {
        printf("a full disk is left out: %s\n", why_no_volume);
    }
    run.crew.meter = &run.meter;
    run.crew.is_tampered = run.command.is_tampered;
    run.crew.results = fopen(run.command.results, "we");
    if (run.crew.results == NULL) {
        perror(run.command.results);
        return EXIT_USAGE;
    }
    meter_begin(&run.meter);
    if (is_open) {
        do_all(&run);
    }
    tell_end(&run);
    int stopped_by = process_stopped_by();
    bool is_well = run.crew.words[0] == '\0';
    fclose(run.crew.results);
    crew_close(&run.crew);
    meter_fini(&run.meter);
    return !is_well ? EXIT_FAILURE : stopped_by != 0 ? 128 + stopped_by : EXIT_SUCCESS;
}
