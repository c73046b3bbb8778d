/* SPDX-License-Identifier: MPL-2.0 */
/* cast.c -- starts broker, observers and parties, and reads their lines. */
#include "tests/cut/cast.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 40
#define WORD_BYTES 320
#define READY_MS 60000
#define ROUND_MS 500 /* at least, as long as the slow silo has to compute */
#define STEPS_QUICK 5
#define STEPS_SLOW 12000
#define DEADLINE_S 300
#define PEER_HEARTBEAT_MS 250
#define OTHERS_LOST_AFTER_MS 60000 /* of those whose link nobody cuts */

/* ---- words ------------------------------------------------------------------------------------*/

struct words {
    char texts[WORDS_MAX][WORD_BYTES];
    const char *argv[WORDS_MAX + 1];
    size_t count;
};

static void add(struct words *words, const char *format, ...)
{
    va_list args;
    if (words->count < WORDS_MAX) {
        va_start(args, format);
        vsnprintf(words->texts[words->count], WORD_BYTES, format, args);
        va_end(args);
        words->argv[words->count] = words->texts[words->count];
        words->argv[++words->count] = NULL;
    }
}

static void add_all(struct words *words, const char *const *texts)
{
    for (; *texts != NULL; texts++) {
        add(words, "%s", *texts);
    }
}

static bool start(const struct cast *cast, struct actor *actor, size_t host,
                  const struct words *words)
{
    actor->host = host;
    bool is_started =
        hosts_enter(cast->hosts, host) && process_start(&actor->process, words->argv, NULL);
    hosts_leave(cast->hosts);
    return is_started;
}

/* ---- who --------------------------------------------------------------------------------------*/

static bool start_broker(struct cast *cast)
{
    static const char *const options[] = {"errbusd", "--journal", "none", NULL};
    struct words words = {.count = 0};
    char address[HOST_ADDRESS_BYTES_MAX];
    const char *line = NULL;
    host_address(0, false, address);
    add_all(&words, options);
    add(&words, "--open");
    add(&words, "--control");
    add(&words, "tcp://%s:*", address);
    add(&words, "--data");
    add(&words, "tcp://%s:*", address);
    snprintf(cast->broker.name, sizeof cast->broker.name, "errbusd");
    return start(cast, &cast->broker, 0, &words) &&
           process_line(&cast->broker.process, READY_MS, &line) &&
           sscanf(line, "errbusd ready control=%255s ", cast->endpoint) == 1;
}

static bool start_observers(struct cast *cast)
{
    struct words tap = {.count = 0};
    struct words reader = {.count = 0};
    const char *const follow[] = {"errbus", "tap", "--since",      "oldest",
                                  "--json", "-s",  cast->endpoint, NULL};
    const char *const read[] = {"errbus", "sub", "--json",       "--block", "-p",
                                "reader", "-s",  cast->endpoint, NULL};
    add_all(&tap, follow);
    add_all(&reader, read);
    add(&reader, "%s/%s", cast->last->name, plan_is_fedavg(cast->plan) ? "#" : "count");
    snprintf(cast->tap.name, sizeof cast->tap.name, "tap");
    snprintf(cast->reader.name, sizeof cast->reader.name, "reader");
    return start(cast, &cast->tap, 0, &tap) && start(cast, &cast->reader, 0, &reader);
}

static void add_fedavg(const struct cast *cast, struct words *words, const char *role)
{
    add(words, "fedavg");
    add(words, "%s", role);
    add(words, "-s");
    add(words, "%s", cast->endpoint);
    add(words, "--data");
    add(words, "%s", TEST_SOURCE_DIR "/clients/fedavg/breast_cancer.csv");
}

static bool start_aggregator(struct cast *cast)
{
    struct words words = {.count = 0};
    add_fedavg(cast, &words, "aggregator");
    add(&words, "--min");
    add(&words, "%d", cast->plan->parties - 1);
    add(&words, "--rounds");
    add(&words, "%d", cast_rounds(cast->plan));
    add(&words, "--round-timeout");
    add(&words, "%d", DEADLINE_S);
    for (size_t i = 1; i < cast->party_count; i++) {
        add(&words, "%s", cast->parties[i].name);
    }
    return start(cast, &cast->parties[0], 1, &words);
}

static double seconds(int64_t ms)
{
    return (double)ms / 1000;
}

static bool start_silo(struct cast *cast, size_t index)
{
    struct words words = {.count = 0};
    struct actor *silo = &cast->parties[index];
    bool is_slow = cast->plan->phase == PHASE_COMPUTES ? silo == cast->last : index == 1;
    add_fedavg(cast, &words, "silo");
    add(&words, "--shard");
    add(&words, "%zu/%zu", index, cast->party_count - 1);
    add(&words, "--steps");
    add(&words, "%d", is_slow ? STEPS_SLOW : STEPS_QUICK);
    add(&words, "--deadline");
    add(&words, "%d", DEADLINE_S);
    add(&words, "--lost-after");
    add(&words, "%.3f",
        seconds(silo == cast->last ? cast->plan->lost_after_ms : OTHERS_LOST_AFTER_MS));
    add(&words, "--reconnect-grace");
    add(&words, "%.3f", seconds(cast->plan->grace_ms));
    return start(cast, silo, index + 1, &words);
}

static bool start_peer(struct cast *cast, size_t index)
{
    struct words words = {.count = 0};
    const struct plan *plan = cast->plan;
    struct actor *peer = &cast->parties[index];
    const struct actor *writer = plan->phase == PHASE_SENDS ? cast->last : &cast->parties[0];
    bool is_last = peer == cast->last;
    add(&words, "cut_peer");
    add(&words, "%s", cast->endpoint);
    add(&words, "%s", peer->name);
    add(&words, "%d", PEER_HEARTBEAT_MS);
    add(&words, "%lld", (long long)(is_last ? plan->lost_after_ms : OTHERS_LOST_AFTER_MS));
    add(&words, "%lld", (long long)plan->grace_ms);
    add(&words, "%zu", LARGE_BYTES);
    add(&words, "%s", writer->name);
    for (size_t i = 0; i < cast->party_count; i++) {
        if (i != index) {
            add(&words, "%s", cast->parties[i].name);
        }
    }
    return start(cast, peer, index + 1, &words);
}

static void name_parties(struct cast *cast)
{
    bool is_fedavg = plan_is_fedavg(cast->plan);
    cast->party_count = cast_hosts(cast->plan) - 1;
    for (size_t i = 0; i < cast->party_count; i++) {
        const char *format = !is_fedavg ? "peer-%zu" : "silo-%zu";
        snprintf(cast->parties[i].name, CAST_NAME_BYTES, format, is_fedavg ? i : i + 1);
    }
    if (is_fedavg) {
        snprintf(cast->parties[0].name, CAST_NAME_BYTES, "aggregator");
    }
    cast->last = &cast->parties[cast->party_count - 1];
}

size_t cast_hosts(const struct plan *plan)
{
    return (size_t)plan->parties + (plan_is_fedavg(plan) ? 2 : 1);
}

int cast_rounds(const struct plan *plan)
{
    bool is_going_on =
        plan->kind == KIND_LOSS || plan->kind == KIND_DELAY || plan->kind == KIND_RATE;
    return 3 + (is_going_on ? (int)(plan->cut_ms / ROUND_MS) : plan->times);
}

bool cast_start(struct cast *cast, const struct hosts *hosts, const struct plan *plan)
{
    memset(cast, 0, sizeof *cast);
    cast->plan = plan;
    cast->hosts = hosts;
    name_parties(cast);
    bool is_started = start_broker(cast) && start_observers(cast);
    for (size_t i = 0; is_started && i < cast->party_count; i++) {
        is_started = !plan_is_fedavg(plan) ? start_peer(cast, i)
                     : i == 0              ? start_aggregator(cast)
                                           : start_silo(cast, i);
    }
    return is_started;
}

/* ---- what they say ----------------------------------------------------------------------------*/

/* The text or number behind "key": in a line of JSON; false: there is none. */
static bool take_key(const char *line, const char *key, char *text, size_t bytes)
{
    char quoted[48];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(line, quoted);
    if (at == NULL) {
        return false;
    }
    at += strlen(quoted);
    bool is_text = *at == '"';
    at += is_text;
    size_t count = strcspn(at, is_text ? "\"" : ",}");
    snprintf(text, bytes, "%.*s", (int)count, at);
    return true;
}

static void hear_tap(struct cast *cast, const char *line)
{
    char event[48] = "";
    char party[CAST_NAME_BYTES] = "";
    take_key(line, "event", event, sizeof event);
    take_key(line, "party", party, sizeof party);
    bool is_last = strcmp(party, cast->last->name) == 0;
    bool is_end = strcmp(event, "party.lost") == 0 || strcmp(event, "party.failed") == 0;
    if (is_end && is_last && cast->lost_ms == 0) {
        cast->lost_ms = test_now_ms();
    } else if (is_end || strcmp(event, "refused") == 0) {
        cast->strays += !is_last;
    } else if (is_last && strcmp(event, "party.suspect") == 0) {
        cast->suspect_ms = test_now_ms();
    } else if (is_last && strcmp(event, "party.joined") == 0) {
        cast->incarnations++;
    }
}

static struct followed *follow(struct cast *cast, const char *topic)
{
    struct followed *followed = cast->followed;
    while (followed < cast->followed + CAST_TOPICS_MAX - 1 && followed->topic[0] != '\0' &&
           strcmp(followed->topic, topic) != 0) {
        followed++;
    }
    snprintf(followed->topic, sizeof followed->topic, "%s", topic);
    return followed;
}

static void hear_reader(struct cast *cast, const char *line)
{
    char kind[16] = "";
    char topic[64] = "";
    char seq[24] = "0";
    take_key(line, "kind", kind, sizeof kind);
    take_key(line, "seq", seq, sizeof seq);
    bool is_slot = take_key(line, "topic", topic, sizeof topic) && strchr(topic, '/') != NULL;
    if (is_slot) {
        struct followed *followed = follow(cast, topic);
        uint64_t number = strtoull(seq, NULL, 10);
        cast->twice += number < followed->next;
        cast->lost += number > followed->next ? number - followed->next : 0;
        cast->lost += strcmp(kind, "gap") == 0;
        followed->next = number + 1;
        cast->values += strcmp(kind, "value") == 0;
        cast->after_end += cast->end_ms != 0;
    } else if (cast->end_ms == 0 && kind[0] != '\0') {
        cast->end_ms = test_now_ms();
        cast->is_end_error = strstr(line, "party_lost") != NULL;
    }
}

static void hear_party(struct cast *cast, struct actor *actor, const char *line)
{
    if (actor == cast->last) {
        cast->has_matched |= strstr(line, cast->plan->pattern) != NULL;
    } else if (actor->error_ms == 0 && strstr(line, "party_lost") != NULL &&
               strstr(line, cast->last->name) != NULL &&
               (plan_is_fedavg(cast->plan) || strstr(line, " done ") != NULL)) {
        actor->error_ms = test_now_ms();
    }
}

static void hear(struct cast *cast, struct actor *actor)
{
    const char *line = NULL;
    while (process_line(&actor->process, 0, &line)) {
        if (actor == &cast->tap) {
            hear_tap(cast, line);
        } else if (actor == &cast->reader) {
            hear_reader(cast, line);
        } else {
            hear_party(cast, actor, line);
        }
    }
    actor->is_over = process_wait(&actor->process, 0) >= 0;
}

void cast_listen(struct cast *cast, int64_t within_ms)
{
    struct pollfd fds[2 * (CAST_PARTIES_MAX + 2)];
    nfds_t count = 0;
    fds[count++] = (struct pollfd){.fd = cast->tap.process.output, .events = POLLIN};
    fds[count++] = (struct pollfd){.fd = cast->reader.process.output, .events = POLLIN};
    for (size_t i = 0; i < cast->party_count; i++) {
        const struct actor *actor = &cast->parties[i];
        int end_fd = actor->is_over ? -1 : actor->process.pid_fd;
        fds[count++] = (struct pollfd){.fd = actor->process.output, .events = POLLIN};
        fds[count++] = (struct pollfd){.fd = end_fd, .events = POLLIN};
    }
    poll(fds, count, within_ms > 0 ? (int)within_ms : 0);
    hear(cast, &cast->tap);
    hear(cast, &cast->reader);
    for (size_t i = 0; i < cast->party_count; i++) {
        hear(cast, &cast->parties[i]);
    }
}

bool cast_is_over(const struct cast *cast)
{
    bool is_over = cast->end_ms != 0;
    for (size_t i = 0; i < cast->party_count; i++) {
        is_over = is_over && cast->parties[i].is_over;
    }
    return is_over;
}

/* ---- the end ----------------------------------------------------------------------------------*/

static void print_actor(const struct actor *actor)
{
    printf("--- %s (%s)\n%s%s", actor->name, actor->is_over ? "over" : "runs",
           process_said(&actor->process), process_complained(&actor->process));
    if (actor->is_over) {
        printf("--- %s ended with %d\n", actor->name, actor->process.result);
    }
}

void cast_print(const struct cast *cast)
{
    print_actor(&cast->broker);
    print_actor(&cast->tap);
    print_actor(&cast->reader);
    for (size_t i = 0; i < cast->party_count; i++) {
        print_actor(&cast->parties[i]);
    }
}

void cast_fini(struct cast *cast)
{
    for (size_t i = 0; i < cast->party_count; i++) {
        process_fini(&cast->parties[i].process);
    }
    process_fini(&cast->reader.process);
    process_fini(&cast->tap.process);
    process_fini(&cast->broker.process);
}
