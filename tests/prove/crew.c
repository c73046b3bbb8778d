/* SPDX-License-Identifier: MPL-2.0 */
/* crew.c -- starts, listens to and ends the processes of a run; see crew.h. */
#include "tests/prove/crew.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_MS INT64_C(60000)
#define END_MS INT64_C(180000)
#define LISTEN_MS 5
#define LEARNERS_DATA TEST_SOURCE_DIR "/clients/fedavg/breast_cancer.csv"
#define TORTURE_WAIT "TORTURE_WAIT_MS=40" /* so that an hour of it fits on a laptop */
#define SMALL_FILES "ERRBUS_NUMBER_SEGMENT_BYTES=4194304" /* which errbusd_failpoints alone reads */
enum { EXIT_OVER = 3 };

bool crew_is_well(const struct crew *crew)
{
    return crew->words[0] == '\0' && process_stopped_by() == 0;
}

void crew_blame(struct crew *crew, const char *format, ...)
{
    va_list args;
    if (crew_is_well(crew)) { /* the first reason counts; who is stopped has nothing to tell */
        va_start(args, format);
        vsnprintf(crew->words, sizeof crew->words, format, args);
        va_end(args);
        for (char *at = crew->words; (at = strchr(at, '\n')) != NULL;) {
            *at = ' '; /* what a process complained of has lines */
        }
    }
}

/* ---- starting ---------------------------------------------------------------------------------*/

static bool start(struct crew *crew, struct process *process, size_t host, const char *const *argv)
{
    char job[64];
    snprintf(job, sizeof job, "ERRBUS_JOB=%s", crew->job);
    const char *const environment[] = {job, TORTURE_WAIT, SMALL_FILES, NULL};
    bool is_there = !crew->has_links || hosts_enter(&crew->hosts, host);
    bool is_started = is_there && process_start(process, argv, environment);
    if (crew->has_links) {
        hosts_leave(&crew->hosts);
    }
    if (!is_started) {
        crew_blame(crew, "%s cannot be started: %s", argv[0], strerror(errno));
    }
    return is_started;
}

static bool start_broker(struct crew *crew, const char *program)
{
    /* What a topic keeps for late subscribers comes to its bound within minutes, so that a soak
     * does not take it for growth. */
    const char *const argv[] = {program,    "--control", crew->control, "--data",
                                crew->data, "--journal", crew->journal, "--durability",
                                "process",  "--linger",  "5s",          "--test-topic-keep-slots",
                                "1024",     "--open",    NULL};
    const char *line = NULL;
    crew->has_broker = start(crew, &crew->broker, 0, argv) &&
                       process_line(&crew->broker, READY_MS, &line) &&
                       strncmp(line, "errbusd ready", strlen("errbusd ready")) == 0;
    if (!crew->has_broker) {
        crew_blame(crew, "errbusd is not ready: %s%s", process_said(&crew->broker),
                   process_complained(&crew->broker));
    }
    return crew->has_broker;
}

bool crew_start_broker(struct crew *crew)
{
    return start_broker(crew, "errbusd");
}

bool crew_start_small_broker(struct crew *crew)
{
    return start_broker(crew, "errbusd_failpoints");
}

void crew_kill_broker(struct crew *crew)
{
    process_signal(&crew->broker, SIGKILL);
    (void)process_wait(&crew->broker, READY_MS);
    process_fini(&crew->broker);
    crew->has_broker = false;
}

/* A reader sees for itself when the end has come. */
static bool is_to_end(const struct crew *crew, const struct victim *victim)
{
    return (victim->role == VICTIM_WRITES && crew->is_ending) ||
           (victim->role == VICTIM_WORKS && crew->is_work_done);
}

static bool start_torturer(struct crew *crew, struct victim *victim, const char *number)
{
    char diary[CREW_PATH];
    char last[32];
    bool is_writer = victim->role == VICTIM_WRITES;
    snprintf(diary, sizeof diary, "%s/%s.diary", crew->diaries.path, victim->name);
    snprintf(last, sizeof last, "%d", is_writer ? (int)victim->starts * 7919 : CREW_WRITERS);
    const char *const argv[] = {"test_torturer",
                                crew->control,
                                is_writer ? "write" : "read",
                                victim->name,
                                number,
                                diary,
                                last,
                                NULL};
    return start(crew, &victim->process, victim->host, argv);
}

static bool start_worker(struct crew *crew, struct victim *victim, const char *number)
{
    const char *const argv[] = {"prove_worker", crew->control,    victim->name,
                                number,         crew->asker.name, NULL};
    return start(crew, &victim->process, victim->host, argv);
}

void crew_start_victim(struct crew *crew, struct victim *victim)
{
    char number[16];
    snprintf(number, sizeof number, "%u", victim->starts++);
    victim->is_held = false;
    victim->is_running = victim->role == VICTIM_WORKS ? start_worker(crew, victim, number)
                                                      : start_torturer(crew, victim, number);
    if (is_to_end(crew, victim) && victim->is_running) {
        process_say(&victim->process, "\n", 1);
    }
}

void crew_kill_victim(struct victim *victim)
{
    victim->is_held = true;
    process_signal(&victim->process, SIGKILL);
    (void)process_wait(&victim->process, READY_MS);
    process_fini(&victim->process);
    victim->is_running = false;
}

static void start_pulse(struct crew *crew, size_t index)
{
    struct pulse_process *pulse = &crew->pulses[index];
    const char *argv[5 + CREW_VICTIMS] = {"prove_pulse", crew->control, pulse->name,
                                          crew->pulses[1 - index].name};
    for (size_t i = 0; i < CREW_VICTIMS; i++) {
        argv[4 + i] = crew->victims[i].name;
    }
    pulse->is_ready = false;
    (void)start(crew, &pulse->process, pulse->host, argv); /* it blames */
}

static void start_asker(struct crew *crew)
{
    const char *argv[4 + CREW_WORKERS] = {"prove_asker", crew->control, crew->asker.name};
    for (size_t i = 0; i < CREW_WORKERS; i++) {
        argv[3 + i] = crew->victims[CREW_WRITERS + CREW_READERS + i].name;
    }
    crew->asker.is_ready = false;
    (void)start(crew, &crew->asker.process, crew->asker.host, argv); /* it blames */
}

static void start_tap(struct crew *crew)
{
    const char *const argv[] = {"errbus", "tap", "--since",     "oldest",
                                "--json", "-s",  crew->control, NULL};
    (void)start(crew, &crew->tap, 0, argv); /* it blames */
}

static void start_learners(struct crew *crew)
{
    char job[64];
    snprintf(job, sizeof job, "%s-fedavg", crew->job);
    const char *const aggregator[] = {
        "fedavg",          "aggregator",  "-s",     crew->control, "-j",       job,
        "--data",          LEARNERS_DATA, "--min",  "2",           "--rounds", "20",
        "--round-timeout", "120",         "silo-1", "silo-2",      NULL};
    (void)start(crew, &crew->learners[0], 0, aggregator); /* it blames */
    for (size_t i = 1; i <= CREW_SILOS; i++) {
        const char *const silo[] = {
            "fedavg",  "silo",   "-s",           crew->control, "-j",
            job,       "--data", LEARNERS_DATA,  "--shard",     i == 1 ? "1/2" : "2/2",
            "--steps", "1000",   "--lost-after", "60",          "--reconnect-grace",
            "60",      NULL};
        (void)start(crew, &crew->learners[i], 0, silo); /* it blames */
    }
}

/* All rounds, with all silos. */
static void end_learners(struct crew *crew)
{
    for (size_t i = 0; i <= CREW_SILOS; i++) {
        struct process *process = &crew->learners[i];
        int code = crew_is_well(crew) ? process_wait(process, END_MS) : 0;
        if (code != 0) {
            crew_blame(crew, "fedavg ended with %d: %s", code, process_complained(process));
        }
        process_fini(process);
    }
}

static void start_members(struct crew *crew)
{
    static const char first_fails[] = "echo attempt $ERRBUS_ATTEMPT rank $ERRBUS_RANK; sleep 2;"
                                      "test $ERRBUS_ATTEMPT -gt 1 || test $ERRBUS_RANK -gt 0";
    char job[64];
    char logs[CREW_PATH];
    snprintf(job, sizeof job, "%s-members", crew->job);
    snprintf(logs, sizeof logs, "%s/members", crew->diaries.path);
    const char *const argv[] = {"errbus", "run", "-s", crew->control,    "-j", job,         "-p",
                                "m",      "-n",  "3",  "--max-restarts", "1",  "--log-dir", logs,
                                "--",     "sh",  "-c", first_fails,      NULL};
    (void)start(crew, &crew->members, 0, argv); /* it blames */
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) {
        count++;
    }
    return count;
}

/* There was each rank once in each attempt, and the second went well. */
static void end_members(struct crew *crew)
{
    int code = crew_is_well(crew) ? process_wait(&crew->members, END_MS) : 0;
    if (code != 0) {
        crew_blame(crew, "errbus run ended with %d: %s", code, process_complained(&crew->members));
    }
    for (unsigned i = 0; crew_is_well(crew) && i < 2 * CREW_MEMBERS; i++) {
        char words[64];
        snprintf(words, sizeof words, "attempt %u rank %u\n", 1 + i / CREW_MEMBERS,
                 i % CREW_MEMBERS);
        size_t times = count_of(process_said(&crew->members), words);
        if (times != 1) {
            crew_blame(crew, "%zu programs had %.*s", times, (int)strcspn(words, "\n"), words);
        }
    }
    process_fini(&crew->members);
}

/* ---- listening --------------------------------------------------------------------------------*/

static struct victim *find_victim(struct crew *crew, const char *name)
{
    for (size_t i = 0; i < CREW_VICTIMS; i++) {
        if (strcmp(crew->victims[i].name, name) == 0) {
            return &crew->victims[i];
        }
    }
    return NULL;
}

static void hear_tap(struct crew *crew)
{
    const char *line = NULL;
    while (crew->tap.pid != 0 && process_line(&crew->tap, 0, &line)) {
        char name[8] = "";
        const char *party = strstr(line, "\"party\":\"");
        if (strstr(line, "\"event\":\"journal.full\"") != NULL) {
            crew->full_ms = test_now_ms();
        }
        if (strstr(line, "\"event\":\"party.lost\"") == NULL || party == NULL ||
            sscanf(party, "\"party\":\"%7[^\"]\"", name) != 1) {
            continue;
        }
        struct victim *victim = find_victim(crew, name);
        if (victim != NULL) {
            victim->lost_ms = test_now_ms();
        } else {
            crew_blame(crew, "%s, which nobody harmed, is lost: %s", name, line);
        }
    }
}

static void hear_wait(struct crew *crew, size_t waiter, long long ms)
{
    if (ms > crew->slowest_ms[waiter]) {
        crew->slowest_ms[waiter] = ms;
    }
}

static void hear_pulse_line(struct crew *crew, size_t index, const char *line)
{
    char name[8] = "";
    size_t lane = 0;
    unsigned long long count = 0;
    long long median_us = 0;
    long long most_us = 0;
    long long waited_ms = 0;
    if (sscanf(line, "C %zu %llu", &lane, &count) == 2) {
        meter_frames(crew->meter, lane, count);
    } else if (sscanf(line, "L %lld %lld", &median_us, &most_us) == 2) {
        meter_beats(crew->meter, median_us, most_us);
    } else if (sscanf(line, "W %lld", &waited_ms) == 1) {
        hear_wait(crew, index, waited_ms);
    } else if (sscanf(line, "N %7s", name) == 1 || sscanf(line, "E %7s", name) == 1) {
        struct victim *victim = find_victim(crew, name);
        if (victim != NULL) {
            int64_t *at_ms = line[0] == 'N' ? victim->told_ms : victim->error_ms;
            at_ms[index] = test_now_ms();
        }
    } else if (line[0] == 'X') {
        crew_blame(crew, "%s", line + 2);
    } else if (strcmp(line, "ready") == 0) {
        crew->pulses[index].is_ready = true;
    }
}

static void tell_to_end(struct crew *crew, enum victim_role role)
{
    for (size_t i = 0; i < CREW_VICTIMS; i++) {
        if (crew->victims[i].role == role && crew->victims[i].is_running) {
            process_say(&crew->victims[i].process, "\n", 1);
        }
    }
}

static void hear_asker_line(struct crew *crew, const char *line)
{
    unsigned long long count[7];
    long long waited_ms = 0;
    struct crew_tasks *tasks = &crew->tasks;
    if (sscanf(line, "T %llu %llu %llu %llu %llu %llu %llu", &count[0], &count[1], &count[2],
               &count[3], &count[4], &count[5], &count[6]) == 7) {
        tasks->answered += count[0];
        tasks->failed += count[1];
        tasks->done += count[2];
        tasks->dead += count[3];
        tasks->again += count[4];
        tasks->needs += count[5];
        tasks->attachments += count[6];
        crew->is_work_done = true;
        tell_to_end(crew, VICTIM_WORKS);
    } else if (sscanf(line, "W %lld", &waited_ms) == 1) {
        hear_wait(crew, CREW_PULSES, waited_ms);
    } else if (line[0] == 'X') {
        crew_blame(crew, "%s", line + 2);
    } else if (strcmp(line, "ready") == 0) {
        crew->asker.is_ready = true;
    }
}

uint64_t crew_task_count(const struct crew *crew)
{
    const struct crew_tasks *tasks = &crew->tasks;
    return tasks->answered + tasks->failed + tasks->done + tasks->dead;
}

/* A reader is told of writers that ended. */
static void hear_victim_line(struct crew *crew, const struct victim *victim, const char *line)
{
    char name[8] = "";
    struct victim *ended = NULL;
    if (victim->role == VICTIM_READS && sscanf(line, "N %7s", name) == 1) {
        ended = find_victim(crew, name);
    }
    if (ended != NULL) {
        size_t reader = (size_t)(victim - crew->victims) - CREW_WRITERS;
        ended->told_ms[CREW_PULSES + reader] = test_now_ms();
    }
}

static void look_at_victim(struct crew *crew, struct victim *victim)
{
    const char *line = NULL;
    if (!victim->is_running) {
        return;
    }
    while (process_line(&victim->process, 0, &line)) {
        hear_victim_line(crew, victim, line);
    }
    int code = process_wait(&victim->process, 0);
    if (code < 0) {
        return;
    }
    bool may_end = victim->role == VICTIM_WORKS ? crew->is_work_done : crew->is_ending;
    if (code != EXIT_OVER && (code != 0 || !may_end)) {
        crew_blame(crew, "%s ended with %d: %s", victim->name, code,
                   process_complained(&victim->process));
    }
    process_fini(&victim->process);
    victim->is_running = false;
    victim->is_done = code == 0;
    crew->incarnations_over += code == EXIT_OVER;
    if (code == EXIT_OVER && !victim->is_held) {
        crew_start_victim(crew, victim);
    }
}

/* They tell much, of which that something is wrong matters here. */
static void hear_residents(struct crew *crew)
{
    const char *line = NULL;
    for (size_t i = 0; i < CREW_PULSES; i++) {
        struct pulse_process *resident = &crew->residents[i];
        while (resident->process.pid != 0 && process_line(&resident->process, 0, &line)) {
            resident->is_ready = resident->is_ready || strcmp(line, "ready") == 0;
            if (line[0] == 'X') {
                crew_blame(crew, "%s", line + 2);
            }
        }
    }
}

static void hear_all(struct crew *crew)
{
    const char *line = NULL;
    hear_tap(crew);
    for (size_t i = 0; i < CREW_PULSES; i++) {
        while (crew->pulses[i].process.pid != 0 &&
               process_line(&crew->pulses[i].process, 0, &line)) {
            hear_pulse_line(crew, i, line);
        }
    }
    while (crew->asker.process.pid != 0 && process_line(&crew->asker.process, 0, &line)) {
        hear_asker_line(crew, line);
    }
    for (size_t i = 0; i < CREW_VICTIMS; i++) {
        look_at_victim(crew, &crew->victims[i]);
    }
    if (crew->has_broker && process_wait(&crew->broker, 0) >= 0) {
        crew_blame(crew, "errbusd ended by itself, with %d: %s", crew->broker.result,
                   process_complained(&crew->broker));
    }
    hear_residents(crew);
    meter_look(crew->meter, crew->has_broker ? crew->broker.pid : 0, crew->residents[0].process.pid,
               crew->results);
}

void crew_listen(struct crew *crew, int64_t ms)
{
    int64_t until_ms = test_now_ms() + ms;
    do {
        struct pollfd fds[2 + CREW_PULSES] = {
            {.fd = crew->tap.output, .events = POLLIN},
            {.fd = crew->asker.process.output, .events = POLLIN},
        };
        for (size_t i = 0; i < CREW_PULSES; i++) {
            fds[2 + i] = (struct pollfd){.fd = crew->pulses[i].process.output, .events = POLLIN};
        }
        int64_t from_ns = test_now_ns();
        if (poll(fds, crew->tap.pid != 0 ? 2 + CREW_PULSES : 0, LISTEN_MS) == 0) {
            meter_late(crew->meter, (test_now_ns() - from_ns) / 1000 - LISTEN_MS * 1000);
        }
        hear_all(crew);
    } while (crew_is_well(crew) && test_now_ms() < until_ms);
}

/* ---- watches ----------------------------------------------------------------------------------*/

static bool await_ready(struct crew *crew, struct process *process, const char *name)
{
    const char *line = NULL;
    if (process_line(process, READY_MS, &line) && strcmp(line, "ready") == 0) {
        return true;
    }
    crew_blame(crew, "%s is not ready: %s %s", name, line != NULL ? line : "",
               process_complained(process));
    return false;
}

static bool all_are_ready(const struct crew *crew)
{
    bool are_ready = crew->asker.is_ready;
    for (size_t i = 0; i < CREW_PULSES; i++) {
        are_ready = are_ready && crew->pulses[i].is_ready;
    }
    return are_ready;
}

bool crew_begin_watch(struct crew *crew)
{
    crew->is_ending = false;
    crew->is_work_done = false;
    snprintf(crew->job, sizeof crew->job, "watch-%u", ++crew->watch);
    if (!folder_make(&crew->diaries)) {
        crew_blame(crew, "no folder for the diaries: %s", strerror(errno));
        return false;
    }
    start_tap(crew);
    start_learners(crew);
    start_members(crew);
    /* Workers and readers first: they shall miss nothing. */
    for (size_t i = CREW_VICTIMS; crew_is_well(crew) && i-- > 0;) {
        struct victim *victim = &crew->victims[i];
        victim->starts = 0;
        victim->is_done = false;
        crew_start_victim(crew, victim);
        if (crew_is_well(crew) && victim->role != VICTIM_WRITES) {
            (void)await_ready(crew, &victim->process, victim->name);
        }
    }
    for (size_t i = 0; crew_is_well(crew) && i < CREW_PULSES; i++) {
        start_pulse(crew, i);
    }
    if (crew_is_well(crew)) {
        start_asker(crew);
    }
    int64_t until_ms = test_now_ms() + READY_MS;
    while (crew_is_well(crew) && !all_are_ready(crew)) {
        crew_listen(crew, 0);
        if (test_now_ms() > until_ms) {
            crew_blame(crew, "a pulse, or who asks, is not ready");
        }
    }
    return crew_is_well(crew);
}

static bool all_are_done(const struct crew *crew)
{
    bool are_done = true;
    for (size_t i = 0; i < CREW_VICTIMS; i++) {
        are_done = are_done && crew->victims[i].is_done;
    }
    return are_done;
}

static void end_pulse(struct crew *crew, struct pulse_process *pulse)
{
    struct process *process = &pulse->process;
    int code = process_wait(process, READY_MS);
    if (code != 0) {
        const char *x = strstr(process_said(process), "\nX ");
        crew_blame(crew, "%s ended with %d: %s", pulse->name, code,
                   x != NULL ? x + 3 : process_complained(process));
    }
    process_fini(process);
}

bool crew_start_residents(struct crew *crew)
{
    int64_t until_ms = test_now_ms() + READY_MS;
    snprintf(crew->job, sizeof crew->job, "resident");
    for (size_t i = 0; i < CREW_PULSES; i++) {
        struct pulse_process *resident = &crew->residents[i];
        snprintf(resident->name, sizeof resident->name, "q%zu", i);
        const char *const argv[] = {"prove_pulse", crew->control, i == 0 ? "q0" : "q1",
                                    i == 0 ? "q1" : "q0", NULL};
        (void)start(crew, &resident->process, crew->pulses[i].host, argv); /* it blames */
    }
    while (crew_is_well(crew) && !(crew->residents[0].is_ready && crew->residents[1].is_ready)) {
        crew_listen(crew, 0);
        if (test_now_ms() > until_ms) {
            crew_blame(crew, "a resident is not ready");
        }
    }
    return crew_is_well(crew);
}

void crew_end_residents(struct crew *crew)
{
    for (size_t i = 0; i < CREW_PULSES && crew->residents[i].process.pid != 0; i++) {
        process_say(&crew->residents[i].process, "\n", 1);
    }
    for (size_t i = 0; i < CREW_PULSES && crew->residents[i].process.pid != 0; i++) {
        end_pulse(crew, &crew->residents[i]);
    }
}

/* Those who were not harmed. */
static void end_pulses(struct crew *crew)
{
    process_say(&crew->asker.process, "\n", 1);
    end_pulse(crew, &crew->asker);
    for (size_t i = 0; i < CREW_PULSES; i++) {
        process_say(&crew->pulses[i].process, "\n", 1);
    }
    for (size_t i = 0; i < CREW_PULSES; i++) {
        end_pulse(crew, &crew->pulses[i]);
    }
}

static void add_sums(struct diaries_sums *sums, const struct diaries_sums *more)
{
    sums->written += more->written;
    sums->promises += more->promises;
    sums->outcomes += more->outcomes;
    sums->failures += more->failures;
    sums->again += more->again;
}

/* Strikes the last value of the first reader out of its diary, and says which it was. */
static void tamper(const struct crew *crew)
{
    char path[CREW_PATH];
    snprintf(path, sizeof path, "%s/r0.diary", crew->diaries.path);
    FILE *file = fopen(path, "r+e");
    long end = file != NULL && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
    char *text = end > 0 ? calloc(1, (size_t)end + 1) : NULL;
    if (text != NULL && fseek(file, 0, SEEK_SET) == 0 &&
        fread(text, 1, (size_t)end, file) == (size_t)end) {
        char *last = text;
        for (char *at = text; (at = strstr(at, "\nV ")) != NULL; at++) {
            last = at;
        }
        size_t length = strcspn(last + 1, "\n");
        printf("struck out of r0's diary: %.*s\n", (int)length, last + 1);
        memmove(last, last + 1 + length, strlen(last + 1 + length) + 1);
        if (fseek(file, 0, SEEK_SET) == 0 && fputs(text, file) != EOF) {
            (void)ftruncate(fileno(file), (off_t)strlen(text)); /* else the check complains, too */
        }
    }
    free(text);
    if (file != NULL) {
        fclose(file);
    }
}

/* Of a promise that was broken they are all there is to go by. */
static void keep_diaries(struct crew *crew)
{
    if (!crew->is_tampered) {
        printf("the diaries are kept in %s\n", crew->diaries.path);
        crew->diaries.path[0] = '\0';
    }
}

bool crew_end_watch(struct crew *crew)
{
    char complaint[DIARIES_COMPLAINT_BYTES];
    struct diaries_sums sums = {0};
    int64_t until_ms = test_now_ms() + END_MS;
    crew->is_ending = true;
    tell_to_end(crew, VICTIM_WRITES);
    process_say(&crew->asker.process, "\n", 1);
    while (crew_is_well(crew) && !all_are_done(crew)) {
        crew_listen(crew, LISTEN_MS);
        if (test_now_ms() > until_ms) {
            crew_blame(crew, "a watch comes to no end: somebody waits for ever");
        }
    }
    if (crew_is_well(crew)) {
        end_pulses(crew);
    }
    end_learners(crew);
    end_members(crew);
    process_fini(&crew->tap);
    if (crew->is_tampered) {
        tamper(crew);
    }
    if (crew_is_well(crew) &&
        !diaries_check(crew->diaries.path, CREW_WRITERS, CREW_READERS, &sums, complaint)) {
        crew_blame(crew, "%s", complaint);
        keep_diaries(crew);
    }
    add_sums(&crew->sums, &sums);
    folder_fini(&crew->diaries);
    return crew_is_well(crew);
}

/* ---- all of it --------------------------------------------------------------------------------*/

static void name_all(struct crew *crew)
{
    for (size_t i = 0; i < CREW_VICTIMS; i++) {
        struct victim *victim = &crew->victims[i];
        bool is_writer = i < CREW_WRITERS;
        bool is_reader = !is_writer && i < CREW_WRITERS + CREW_READERS;
        victim->role = is_writer ? VICTIM_WRITES : is_reader ? VICTIM_READS : VICTIM_WORKS;
        victim->host = 1 + i;
        snprintf(victim->name, sizeof victim->name, "%c%zu", "wrk"[victim->role],
                 i - (is_writer   ? 0
                      : is_reader ? CREW_WRITERS
                                  : CREW_WRITERS + CREW_READERS));
    }
    crew->asker.host = 1 + CREW_VICTIMS + CREW_PULSES;
    snprintf(crew->asker.name, sizeof crew->asker.name, "a0");
    for (size_t i = 0; i < CREW_PULSES; i++) {
        crew->pulses[i].host = 1 + CREW_VICTIMS + i;
        snprintf(crew->pulses[i].name, sizeof crew->pulses[i].name, "p%zu", i);
    }
}

bool crew_open(struct crew *crew, bool with_links, char why_not[HOSTS_PROBLEM_BYTES_MAX])
{
    char address[HOST_ADDRESS_BYTES_MAX];
    memset(crew, 0, sizeof *crew);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* what ours leave behind is waited for, too */
    why_not[0] = '\0';
    crew->has_links = with_links && hosts_open(&crew->hosts, CREW_HOSTS, why_not);
    name_all(crew);
    if (!folder_make(&crew->folder)) {
        crew_blame(crew, "no folder: %s", strerror(errno));
        return false;
    }
    snprintf(crew->journal, sizeof crew->journal, "%s/journal", crew->folder.path);
    if (crew->has_links) {
        host_address(0, false, address);
        snprintf(crew->control, sizeof crew->control, "tcp://%s:7370", address);
        snprintf(crew->data, sizeof crew->data, "tcp://%s:7371", address);
    } else {
        snprintf(crew->control, sizeof crew->control, "ipc://%s/control", crew->folder.path);
        snprintf(crew->data, sizeof crew->data, "ipc://%s/data", crew->folder.path);
    }
    return true;
}

bool crew_mount(struct crew *crew, char why_not[VOLUME_PROBLEM_BYTES])
{
    char path[CREW_PATH];
    snprintf(path, sizeof path, "%s/volume", crew->folder.path);
    bool is_there = volume_open(&crew->volume, path, why_not);
    if (is_there) {
        snprintf(crew->journal, sizeof crew->journal, "%s/journal", crew->volume.path);
    }
    return is_there;
}

void crew_close(struct crew *crew)
{
    for (size_t i = 0; i < CREW_VICTIMS; i++) {
        process_fini(&crew->victims[i].process);
    }
    for (size_t i = 0; i < CREW_PULSES; i++) {
        process_fini(&crew->pulses[i].process);
    }
    for (size_t i = 0; i < CREW_PULSES; i++) {
        process_fini(&crew->residents[i].process);
    }
    for (size_t i = 0; i <= CREW_SILOS; i++) {
        process_fini(&crew->learners[i]);
    }
    process_fini(&crew->asker.process);
    process_fini(&crew->members);
    process_fini(&crew->tap);
    process_fini(&crew->broker);
    while (wait(NULL) >= 0 || errno == EINTR) { /* programs of `errbus run`, which end soon */
    }
    folder_fini(&crew->diaries);
    volume_close(&crew->volume);
    folder_fini(&crew->folder);
    hosts_close(&crew->hosts);
}
