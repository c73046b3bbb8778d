/* SPDX-License-Identifier: MPL-2.0 */
/* round_bench.c -- the round of federated learning: every silo commits a model, the aggregator
 * gathers them all and commits one back, and every silo awaits that one.  For each number of silos
 * and size of a model:
 *
 *   round      from the word to begin until the last silo has the model that came back
 *   delivered  the bytes of 2 n models, n to the aggregator and n to the silos, by that time
 *   memory     the most that the broker had in memory, over all rounds of a run
 *
 * Errbus stands beside raw_relay, which passes the same bytes on between as many processes, and its
 * disk beside plain appends of the n + 1 models that a round stores, each with a sync. */
#include "bench/peer.h"
#include "bench/stream.h"
#include "bench/systems.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SILOS_MAX 32
#define ROUNDS 3        /* the first warms up */
#define ROUND_MS 120000 /* no round takes as long */
#define QUICK_PART 16   /* --quick: models are so many times smaller */
#define MEMORY_COPIES 5 /* of all models, that all processes together hold at a time */
#define MIB 1048576.0

static const struct shape {
    const char *name;
    size_t silos;
    size_t bytes;
} shapes[] = {
    {"4 x 16 MiB", 4, (size_t)16 << 20},
    {"32 x 4 MiB", 32, (size_t)4 << 20},
    {"8 x 64 MiB", 8, (size_t)64 << 20},
    {"8 x 256 MiB", 8, (size_t)256 << 20},
};
enum { SHAPES = 4, SHAPE_64 = 2, SHAPE_256 = 3 };

enum way { MEMORY, DISK, RAW, DEVICE, WAYS };
static const char *const ways[WAYS] = {"errbus", "errbus disk", "raw", "device"};

/* ---- models -----------------------------------------------------------------------------------*/

/* A model begins and ends with its round and who made it. */
struct mark {
    uint64_t round;
    uint64_t maker;
};

static void mark_model(char *model, size_t bytes, uint64_t round, uint64_t maker)
{
    struct mark mark = {round, maker};
    memcpy(model, &mark, sizeof mark);
    memcpy(model + bytes - sizeof mark, &mark, sizeof mark);
}

static void expect_model(const char *model, size_t bytes, size_t due_bytes, uint64_t round,
                         uint64_t maker)
{
    struct mark mark = {round, maker};
    if (bytes != due_bytes || memcmp(model, &mark, sizeof mark) != 0 ||
        memcmp(model + bytes - sizeof mark, &mark, sizeof mark) != 0) {
        bench_die("not the model of round %llu by %llu", (unsigned long long)round,
                  (unsigned long long)maker);
    }
}

static char *new_model(size_t bytes)
{
    char *model = peer_allocate(bytes);
    memset(model, 1, bytes); /* its pages are there */
    return model;
}

/* ---- roles of Errbus --------------------------------------------------------------------------*/

#define AGGREGATOR SILOS_MAX /* as the maker of a model */

static sem_t is_unused; /* the library reads nothing of the model */

/* Of a role that commits it again and again. */
static char *new_own_model(size_t bytes)
{
    if (sem_init(&is_unused, 0, 1) != 0) {
        bench_die("no semaphore");
    }
    return new_model(bytes);
}

static void give_back(void *value, void *arg)
{
    (void)value;
    (void)arg;
    sem_post(&is_unused);
}

static void commit(struct bus *bus, char *model, size_t bytes, uint64_t round, uint64_t maker)
{
    struct bus_slot *slot = NULL;
    while (sem_wait(&is_unused) != 0) {
        continue; /* a signal came */
    }
    mark_model(model, bytes, round, maker);
    bench_check(bus_slot_reserve(bus, "model", BUS_FOREVER, &slot), "reserve");
    bench_check(bus_slot_commit_owned(&slot, model, bytes, give_back, NULL), "commit");
}

/* silo ENDPOINT BYTES INDEX */
static void play_silo(char **words)
{
    char party[32];
    size_t bytes = strtoull(words[1], NULL, 10);
    uint64_t index = strtoull(words[2], NULL, 10);
    char *model = new_own_model(bytes);
    snprintf(party, sizeof party, "silo%s", words[2]);
    struct bus *bus = bench_open(words[0], party);
    role_ready();
    for (uint64_t round = 0;; round++) {
        struct bus_msg *msg = NULL;
        size_t came = 0;
        role_wait_go();
        commit(bus, model, bytes, round, index);
        bench_check(bus_await(bus, "aggregator/model", round, ROUND_MS, &msg, NULL), "await");
        role_say_done(test_now_ns());
        const char *value = bus_msg_value(msg, &came);
        expect_model(value, came, bytes, round, AGGREGATOR);
        bus_msg_free(&msg);
    }
}

static void gather(struct bus *bus, size_t silos, size_t bytes, uint64_t round)
{
    char topics[SILOS_MAX][32];
    struct bus_want wants[SILOS_MAX];
    memset(wants, 0, sizeof wants);
    for (size_t i = 0; i < silos; i++) {
        snprintf(topics[i], sizeof topics[i], "silo%zu/model", i);
        wants[i].topic = topics[i];
        wants[i].seq = round;
    }
    bench_check(bus_gather(bus, wants, silos, silos, 0, ROUND_MS, NULL), "gather");
    for (size_t i = 0; i < silos; i++) {
        size_t came = 0;
        const char *value = bus_msg_value(wants[i].msg, &came);
        expect_model(value, came, bytes, round, i);
        bus_msg_free(&wants[i].msg);
    }
}

/* aggregator ENDPOINT BYTES SILOS */
static void play_aggregator(char **words)
{
    size_t bytes = strtoull(words[1], NULL, 10);
    size_t silos = strtoull(words[2], NULL, 10);
    char *model = new_own_model(bytes);
    struct bus *bus = bench_open(words[0], "aggregator");
    role_ready();
    for (uint64_t round = 0;; round++) {
        role_wait_go();
        gather(bus, silos, bytes, round);
        commit(bus, model, bytes, round, AGGREGATOR);
        role_say_done(test_now_ns());
    }
}

/* ---- the same over the raw relay --------------------------------------------------------------*/

/* As raw_relay.c has it: a role and a topic, and the role is the answer. */
static int greet(const char *at, char role, char topic)
{
    char hello[] = {role, topic};
    char answer = '\0';
    int fd = stream_connect(at);
    if (!stream_write(fd, hello, sizeof hello) || recv(fd, &answer, 1, 0) != 1 || answer != role) {
        bench_die("the relay does not answer");
    }
    return fd;
}

static void read_all(int fd, char *at, size_t bytes)
{
    while (bytes > 0) {
        ssize_t count = recv(fd, at, bytes, 0);
        if (count == 0 || (count < 0 && errno != EINTR)) {
            bench_die("the relay is gone");
        }
        at += count > 0 ? count : 0;
        bytes -= count > 0 ? (size_t)count : 0;
    }
}

/* Sends one sort of bytes and reads another, in one order or the other. */
static void play_raw(const char *at, char out, char in, size_t out_bytes, size_t in_bytes,
                     bool is_first)
{
    char *sent = new_model(out_bytes);
    char *came = new_model(in_bytes);
    int reader = greet(at, 'R', in);
    int writer = greet(at, 'W', out);
    role_ready();
    for (;;) {
        role_wait_go();
        if (!is_first) {
            read_all(reader, came, in_bytes);
        }
        if (!stream_write(writer, sent, out_bytes)) {
            bench_die("the relay is gone");
        }
        if (is_first) {
            read_all(reader, came, in_bytes);
        }
        role_say_done(test_now_ns());
    }
}

/* raw_silo ENDPOINT BYTES INDEX */
static void play_raw_silo(char **words)
{
    size_t bytes = strtoull(words[1], NULL, 10);
    play_raw(words[0], 'u', 'd', bytes, bytes, true);
}

/* raw_aggregator ENDPOINT BYTES SILOS: the bytes of all silos come mixed */
static void play_raw_aggregator(char **words)
{
    size_t bytes = strtoull(words[1], NULL, 10);
    play_raw(words[0], 'd', 'u', bytes, bytes * strtoull(words[2], NULL, 10), false);
}

/* ---- one run ----------------------------------------------------------------------------------*/

struct cast {
    struct process aggregator;
    struct process silos[SILOS_MAX];
};

static void start(struct process *role, const char *name, const char *at, size_t bytes,
                  size_t number)
{
    char bytes_text[32];
    char number_text[32];
    snprintf(bytes_text, sizeof bytes_text, "%zu", bytes);
    snprintf(number_text, sizeof number_text, "%zu", number);
    const char *const words[] = {"round_bench", name, at, bytes_text, number_text, NULL};
    role_start(role, words);
}

/* From the word to begin until the last silo is done. */
static double play_round(struct cast *cast, size_t silos)
{
    int64_t end_ns = 0;
    int64_t start_ns = test_now_ns();
    role_go(&cast->aggregator);
    for (size_t i = 0; i < silos; i++) {
        role_go(&cast->silos[i]);
    }
    for (size_t i = 0; i < silos; i++) {
        int64_t at_ns = role_done(&cast->silos[i]);
        end_ns = at_ns > end_ns ? at_ns : end_ns;
    }
    (void)role_done(&cast->aggregator);
    return (double)(end_ns - start_ns) / 1e6;
}

/* The median of all rounds but the first, in ms. */
static double play_rounds(const char *at, const struct shape *shape, size_t bytes, bool is_raw)
{
    static struct cast cast;
    double ms[ROUNDS];
    memset(&cast, 0, sizeof cast);
    start(&cast.aggregator, is_raw ? "raw_aggregator" : "aggregator", at, bytes, shape->silos);
    for (size_t i = 0; i < shape->silos; i++) {
        start(&cast.silos[i], is_raw ? "raw_silo" : "silo", at, bytes, i);
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        ms[i] = play_round(&cast, shape->silos);
    }
    role_fini(&cast.aggregator);
    for (size_t i = 0; i < shape->silos; i++) {
        role_fini(&cast.silos[i]);
    }
    return bench_median(ms + 1, ROUNDS - 1);
}

/* The most that a process had in memory; 0: it is gone. */
static double peak_mib(pid_t pid)
{
    char path[64];
    char line[128];
    double kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && kib == 0 && fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "VmHWM: %lf", &kib);
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib / 1024;
}

static double run_errbus(const struct shape *shape, size_t bytes, bool is_disk, double *out_mib)
{
    struct folder folder;
    struct broker broker;
    char journal[FOLDER_PATH_BYTES_MAX + 16];
    if (!folder_make(&folder)) {
        bench_die("no folder can be made");
    }
    snprintf(journal, sizeof journal, "%s/journal", folder.path);
    const char *const words[] = {"--journal", journal, "--durability", "disk", NULL};
    if (!broker_start(&broker, is_disk ? words : NULL)) {
        bench_die("errbusd is not ready: %s", process_complained(&broker.process));
    }
    double ms = play_rounds(broker.control, shape, bytes, false);
    *out_mib = peak_mib(broker.process.pid);
    broker_fini(&broker);
    folder_fini(&folder);
    return ms;
}

static double run_raw(const struct shape *shape, size_t bytes, double *out_mib)
{
    static const struct system raw = {.name = "raw", .program = "raw_relay", .mode = ""};
    struct stage stage;
    if (!stage_open(&stage, &raw, bytes)) {
        bench_die("the raw relay does not start");
    }
    double ms = play_rounds(stage.at, shape, bytes, true);
    *out_mib = peak_mib(stage.service.pid);
    stage_close(&stage);
    return ms;
}

/* Appends what a round stores to a file, with a sync behind each model. */
static double run_device(const struct shape *shape, size_t bytes)
{
    struct folder folder;
    char path[FOLDER_PATH_BYTES_MAX + 8];
    char *model = new_model(bytes);
    if (!folder_make(&folder)) {
        bench_die("no folder can be made");
    }
    snprintf(path, sizeof path, "%s/models", folder.path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int64_t start_ns = test_now_ns();
    for (size_t i = 0; i <= shape->silos; i++) {
        for (size_t done = 0; done < bytes;) {
            ssize_t count = write(fd, model + done, bytes - done);
            if (count <= 0) {
                bench_die("%s: %s", path, strerror(errno));
            }
            done += (size_t)count;
        }
        if (fdatasync(fd) != 0) {
            bench_die("%s: %s", path, strerror(errno));
        }
    }
    double ms = (double)(test_now_ns() - start_ns) / 1e6;
    close(fd);
    free(model);
    folder_fini(&folder);
    return ms;
}

/* ---- all of it --------------------------------------------------------------------------------*/

static double round_ms[SHAPES][WAYS][BENCH_RUNS_MAX];
static double memory_mib[SHAPES][WAYS][BENCH_RUNS_MAX];

static double run_way(enum way way, const struct shape *shape, size_t bytes, double *out_mib)
{
    switch (way) {
    case RAW: return run_raw(shape, bytes, out_mib);
    case DEVICE: return run_device(shape, bytes);
    default: return run_errbus(shape, bytes, way == DISK, out_mib);
    }
}

static bool has_memory(const struct shape *shape, size_t bytes)
{
    double free_bytes = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return free_bytes > MEMORY_COPIES * (double)bytes * (double)shape->silos;
}

/* The ratio is that of errbus to it, of its disk to the device. */
static void tell(const struct bench *bench, const struct shape *shape, const char *figure,
                 const char *unit, enum way way, double values[WAYS][BENCH_RUNS_MAX])
{
    char what[64];
    enum way ours = way == DEVICE ? DISK : MEMORY;
    double median = bench_median(values[way], bench->runs);
    snprintf(what, sizeof what, "%s, %s", shape->name, figure);
    struct bench_row row = {.what = what,
                            .system = ways[way],
                            .unit = unit,
                            .values = values[way],
                            .runs = bench->runs,
                            .n = ROUNDS - 1};
    if ((way == RAW || way == DEVICE) && median > 0) {
        row.ratio = bench_median(values[ours], bench->runs) / median;
    }
    if (median > 0) {
        bench_tell(bench, &row);
    }
}

static void ask(const struct bench *bench, size_t index)
{
    static double delivered[WAYS][BENCH_RUNS_MAX];
    const struct shape *shape = &shapes[index];
    size_t bytes = bench->is_quick ? shape->bytes / QUICK_PART : shape->bytes;
    if (!bench_wants(bench, shape->name)) {
        return;
    }
    if (!has_memory(shape, bytes)) {
        printf("%-11s %s: skipped, this machine has too little memory free\n", bench->question,
               shape->name);
        return;
    }
    memset(delivered, 0, sizeof delivered);
    for (size_t run = 0; run < bench->runs; run++) {
        for (enum way way = MEMORY; way < WAYS; way++) {
            double ms = run_way(way, shape, bytes, &memory_mib[index][way][run]);
            round_ms[index][way][run] = ms;
            delivered[way][run] = way == DEVICE ? 0 : 2e-3 * (double)(shape->silos * bytes) / ms;
        }
    }
    for (enum way way = MEMORY; way < WAYS; way++) {
        tell(bench, shape, "round", "ms", way, round_ms[index]);
    }
    for (enum way way = MEMORY; way < WAYS; way++) {
        tell(bench, shape, "delivered", "MB/s", way, delivered);
    }
    for (enum way way = MEMORY; way < WAYS; way++) {
        tell(bench, shape, "memory", "MiB", way, memory_mib[index]);
    }
}

/* How much longer each byte takes where there are four times as many. */
static void tell_growth(const struct bench *bench)
{
    double growth[BENCH_RUNS_MAX];
    for (enum way way = MEMORY; way <= RAW; way++) {
        for (size_t run = 0; run < bench->runs; run++) {
            double small = round_ms[SHAPE_64][way][run];
            growth[run] = small > 0 ? round_ms[SHAPE_256][way][run] / small / 4 : 0;
        }
        struct bench_row row = {.what = "256 MiB to 64 MiB, each byte",
                                .system = ways[way],
                                .unit = "x",
                                .values = growth,
                                .runs = bench->runs,
                                .n = ROUNDS - 1};
        if (growth[0] > 0) {
            bench_tell(bench, &row);
        }
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    const struct {
        const char *name;
        void (*play)(char **words);
    } roles[] = {{"silo", play_silo},
                 {"aggregator", play_aggregator},
                 {"raw_silo", play_raw_silo},
                 {"raw_aggregator", play_raw_aggregator}};
    for (size_t i = 0; argc > 4 && i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(argv[1], roles[i].name) == 0) {
            roles[i].play(argv + 2);
        }
    }
    if (!bench_init(&bench, "round", argc, argv)) {
        return 2;
    }
    for (size_t i = 0; i < SHAPES; i++) {
        ask(&bench, i);
    }
    tell_growth(&bench);
    return 0;
}
