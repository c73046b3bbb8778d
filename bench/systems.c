/* SPDX-License-Identifier: MPL-2.0 */
/* systems.c -- Errbus and what it is measured against; see systems.h. */
#include "bench/systems.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROLE_MS 60000
#define COUNT_MIN 20
#define WORDS_MAX 24
#define NATS "nats-server"
#define NATS_LIBRARY "nats-server libnats-dev"
#define MOSQUITTO "mosquitto libmosquitto-dev"
#define REDIS "redis-server libhiredis-dev"

/* The expected rates are of two cores of 2026, rounded. */
static const struct system all[] = {
    [SYSTEM_ERRBUS] = {"errbus", "errbus_peer", "", NULL, "", LARGE_TOO, 2e7, 2e9},
    [SYSTEM_ERRBUS_IPC] = {"errbus ipc", "errbus_peer", "", NULL, "", OVER_IPC, 2e7, 2e9},
    [SYSTEM_ERRBUS_DISK] = {"errbus disk", "errbus_peer", "disk", NULL, "", 0, 1e7, 5e8},
    {"errbus shared", "errbus_peer", "shared", NULL, "", BY_NAME, 1e7, 5e8},
    {"errbus process", "errbus_peer", "process", NULL, "", 0, 2e7, 2e9},
    {"errbus spin", "errbus_peer", "spin", NULL, "", 0, 2e7, 2e9},
    {"errbus short", "errbus_peer", "short", NULL, "", 0, 2e7, 2e9},
    {"errbus many", "errbus_peer", "many", NULL, "", RATE_ALONE, 6e7, 2e9},
    {"errbus curve", "errbus_peer", "curve", NULL, "", ENCRYPTED, 2e7, 1e9},
    {"errbus curve many", "errbus_peer", "curve_many", NULL, "", ENCRYPTED | RATE_ALONE, 6e7, 1e9},
    {"relay", "zmq_relay", "", NULL, "", LARGE_TOO, 6e7, 2e9},
    {"relay ipc", "zmq_relay", "", NULL, "", OVER_IPC, 6e7, 2e9},
    {"raw", "raw_relay", "", NULL, "", ONE_TOPIC | LARGE_TOO, 9e7, 3e9},
    {"raw ipc", "raw_relay", "", NULL, "", OVER_IPC | ONE_TOPIC, 9e7, 3e9},
    {"zmq proxy", "zmq_proxy", "", NULL, "", 0, 4e6, 1.5e9},
    {"zmq proxy ipc", "zmq_proxy", "", NULL, "", OVER_IPC, 4e6, 1.5e9},
    {"nats socket", "nats_socket", "", "nats-server", NATS, 0, 4e6, 6e8},
    {"nats library", "nats_library", "", "nats-server", NATS_LIBRARY, 0, 3e6, 5e8},
    {"jetstream", "nats_library", "file", "nats-server", NATS_LIBRARY, ONE_TOPIC | TO_DISK, 1e5,
     3e8},
    {"mosquitto", "mqtt_peer", "", "mosquitto", MOSQUITTO, 0, 1e5, 8e8},
    {"mosquitto ipc", "mqtt_peer", "", "mosquitto", MOSQUITTO, OVER_IPC, 1e5, 8e8},
    {"redis", "redis_peer", "pubsub", "redis-server", REDIS, 0, 5e5, 6e8},
    {"redis ipc", "redis_peer", "pubsub", "redis-server", REDIS, OVER_IPC, 5e5, 6e8},
    {"redis stream", "redis_peer", "stream", "redis-server", REDIS, ONE_TOPIC | RATE_ALONE, 2e5,
     4e8},
};
#define ALL_COUNT (sizeof all / sizeof all[0])

/* ---- which are here ---------------------------------------------------------------------------*/

/* Debian has daemons where a user's path does not look. */
bool system_server(const struct system *system, char *path, size_t bytes)
{
    char folders[4096];
    char *rest = folders;
    const char *told = getenv("PATH");
    snprintf(folders, sizeof folders, "%s:/usr/local/sbin:/usr/sbin", told != NULL ? told : "");
    for (char *folder = strsep(&rest, ":"); folder != NULL; folder = strsep(&rest, ":")) {
        snprintf(path, bytes, "%s/%s", folder, system->server);
        if (folder[0] == '/' && access(path, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_built(const struct system *system)
{
    char path[512];
    return access(process_path(system->program, path, sizeof path), X_OK) == 0;
}

/* NULL: it is here. */
static const char *missing(const struct system *system)
{
    char path[512];
    if (system->server != NULL && !system_server(system, path, sizeof path)) {
        return "its server is not installed";
    }
    return is_built(system) ? NULL : "its library was not there when this was built";
}

/* Is it one of "relay,nats socket"? */
static bool is_named(const char *names, const char *name)
{
    size_t bytes = strlen(name);
    for (const char *at = names; at != NULL && *at != '\0'; at += strspn(at, ",")) {
        size_t count = strcspn(at, ",");
        if (count == bytes && strncmp(at, name, bytes) == 0) {
            return true;
        }
        at += count;
    }
    return names == NULL;
}

void systems_find(struct systems *systems, const struct bench *bench, enum systems_for purpose)
{
    systems->count = 0;
    for (size_t i = 0; i < ALL_COUNT; i++) {
        const char *why = missing(&all[i]);
        bool is_usual =
            (all[i].flags & BY_NAME) == 0 && (bench->is_curve || (all[i].flags & ENCRYPTED) == 0);
        bool is_asked = bench->systems != NULL || is_usual;
        if (!is_asked || !is_named(bench->systems, all[i].name) ||
            (purpose == FOR_LATENCY && (all[i].flags & RATE_ALONE) != 0)) {
            continue;
        }
        if (why != NULL) {
            printf("%-11s %s: skipped, %s (Debian: %s)\n", bench->question, all[i].name, why,
                   all[i].package);
            continue;
        }
        systems->at[systems->count++] = &all[i];
    }
    if (systems->count == 0) {
        bench_die("there is no system named %s",
                  bench->systems != NULL ? bench->systems : "anything");
    }
}

void systems_find_all(struct systems *systems)
{
    systems->count = 0;
    for (size_t i = 0; i < ALL_COUNT; i++) {
        if (missing(&all[i]) == NULL) {
            systems->at[systems->count++] = &all[i];
        }
    }
}

const struct system *system_counterpart(const struct system *system)
{
    if ((system->flags & TO_DISK) != 0) {
        return &all[SYSTEM_ERRBUS_DISK];
    }
    return &all[(system->flags & OVER_IPC) != 0 ? SYSTEM_ERRBUS_IPC : SYSTEM_ERRBUS];
}

bool system_is_ours(const struct system *system)
{
    return strcmp(system->program, all[SYSTEM_ERRBUS].program) == 0;
}

/* ---- one run ----------------------------------------------------------------------------------*/

uint64_t load_count(const struct load *load, const struct system *system, double seconds)
{
    double each = (1 / system->values_rate + (double)load->bytes / system->bytes_rate) *
                  (double)load->readers;
    double count = seconds / each;
    return count > COUNT_MIN ? (uint64_t)count : COUNT_MIN;
}

bool stage_complain(const struct stage *stage, struct process *role, const char *what)
{
    const char *text = process_complained(role);
    printf("            %s: %s: %.*s\n", stage->system->name, what, (int)strcspn(text, "\n"), text);
    fflush(stdout);
    return false;
}

static bool start(const struct stage *stage, struct process *role, const char *name, char *text)
{
    const char *words[WORDS_MAX] = {stage->system->program, name};
    const char *line = NULL;
    size_t count = 2;
    while (text != NULL && count + 1 < WORDS_MAX) {
        words[count++] = strsep(&text, " ");
    }
    if (!process_start(role, words, NULL) || !process_line(role, ROLE_MS, &line) ||
        strcmp(line, "ready") != 0) {
        return stage_complain(stage, role, "does not start");
    }
    return true;
}

bool stage_open(struct stage *stage, const struct system *system, size_t bytes)
{
    char text[1024];
    char server[512] = "";
    const char *line = NULL;
    memset(stage, 0, sizeof *stage);
    stage->system = system;
    if (!folder_make(&stage->folder)) {
        bench_die("no folder can be made");
    }
    if (system->server != NULL && !system_server(system, server, sizeof server)) {
        bench_die("%s is gone", system->server);
    }
    snprintf(text, sizeof text, "mode=%s folder=%s server=%s ipc=%d bytes=%zu", system->mode,
             stage->folder.path, server, (system->flags & OVER_IPC) != 0, bytes);
    if (!start(stage, &stage->service, "serve", text)) {
        return false;
    }
    if (!process_line(&stage->service, ROLE_MS, &line)) {
        return stage_complain(stage, &stage->service, "does not tell its endpoint");
    }
    snprintf(stage->at, sizeof stage->at, "%s", line);
    return true;
}

bool stage_role(const struct stage *stage, struct process *role, const char *role_name,
                const char *format, ...)
{
    char text[1024];
    va_list args;
    int count = snprintf(text, sizeof text, "at=%s mode=%s folder=%s ", stage->at,
                         stage->system->mode, stage->folder.path);
    va_start(args, format);
    vsnprintf(text + count, sizeof text - (size_t)count, format, args);
    va_end(args);
    return start(stage, role, role_name, text);
}

bool stage_go(const struct stage *stage, struct process *role)
{
    return process_say(role, "go\n", 3) || stage_complain(stage, role, "is gone");
}

bool stage_result(const struct stage *stage, struct process *reader, int64_t *out_at_ns,
                  struct samples *samples)
{
    const char *line = NULL;
    long long at_ns = 0;
    size_t count = 0;
    do {
        if (!process_line(reader, ROLE_MS, &line)) {
            return stage_complain(stage, reader, "did not get all values");
        }
    } while (sscanf(line, "read %lld %zu", &at_ns, &count) != 2);
    *out_at_ns = at_ns;
    if (samples != NULL) {
        samples_read(samples, reader, samples->count + count);
    }
    return true;
}

bool stage_tenth(const struct stage *stage, struct process *writer, int64_t *out_at_ns)
{
    const char *line = NULL;
    long long at_ns = 0;
    if (!process_line(writer, ROLE_MS, &line) || sscanf(line, "done %lld", &at_ns) != 1) {
        return stage_complain(stage, writer, "did not send all values");
    }
    *out_at_ns = at_ns;
    return true;
}

/* Our own service ends its broker, and waits for it: then the broker's processor time counts. */
static void stop_service(struct stage *stage)
{
    if (system_is_ours(stage->system) && stage_go(stage, &stage->service)) {
        (void)process_wait(&stage->service, ROLE_MS); /* or it is killed */
    }
}

void stage_close(struct stage *stage)
{
    process_fini(&stage->service);
    folder_fini(&stage->folder);
}

/* Writer and readers of one load: from a tenth sent to the last value at the slowest reader. */
static bool run_load(const struct stage *stage, const struct load *load, uint64_t count,
                     struct process *roles, int64_t *out_ns)
{
    struct process *writer = &roles[READERS_MAX];
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    bool is_done = stage_role(stage, writer, "write", "bytes=%zu count=%llu group=%zu readers=%zu",
                              load->bytes, (unsigned long long)count, load->group, load->readers);
    for (size_t i = 0; is_done && i < load->readers; i++) {
        is_done = stage_role(stage, &roles[i], "read", "bytes=%zu count=%llu", load->bytes,
                             (unsigned long long)count);
    }
    is_done = is_done && stage_go(stage, writer);
    for (size_t i = 0; is_done && i < load->readers; i++) {
        int64_t at_ns = 0;
        is_done = stage_result(stage, &roles[i], &at_ns, NULL);
        end_ns = at_ns > end_ns ? at_ns : end_ns;
    }
    is_done = is_done && stage_tenth(stage, writer, &start_ns);
    *out_ns = end_ns > start_ns ? end_ns - start_ns : 1;
    return is_done;
}

bool system_rate(const struct system *system, const struct load *load, uint64_t count,
                 double *out_rate)
{
    struct process roles[READERS_MAX + 1] = {0};
    struct stage stage;
    int64_t took_ns = 1;
    bool is_done =
        stage_open(&stage, system, load->bytes) && run_load(&stage, load, count, roles, &took_ns);
    for (size_t i = 0; i <= READERS_MAX; i++) {
        process_fini(&roles[i]);
    }
    stop_service(&stage);
    stage_close(&stage);
    *out_rate = (double)(count - count / 10) * 1e9 / (double)took_ns;
    return is_done;
}

bool system_latency(const struct system *system, size_t bytes, int64_t every_ns, uint64_t count,
                    struct samples *samples)
{
    struct process writer = {0};
    struct process reader = {0};
    struct stage stage;
    int64_t ns = 0;
    bool is_done =
        stage_open(&stage, system, bytes) &&
        stage_role(&stage, &writer, "write", "bytes=%zu count=%llu every_ns=%lld readers=1", bytes,
                   (unsigned long long)count, (long long)every_ns) &&
        stage_role(&stage, &reader, "read", "bytes=%zu count=%llu", bytes,
                   (unsigned long long)count) &&
        stage_go(&stage, &writer) && stage_result(&stage, &reader, &ns, samples);
    samples_drop(samples, samples->count / 10);
    process_fini(&writer);
    process_fini(&reader);
    stage_close(&stage);
    return is_done;
}

/* ---- several runs -----------------------------------------------------------------------------*/

static double median_of(const struct bench *bench, const struct systems *systems,
                        const struct results *results, const struct system *system)
{
    for (size_t i = 0; i < systems->count; i++) {
        if (systems->at[i] == system && !results->is_out[i]) {
            return bench_median(results->values[i], bench->runs);
        }
    }
    return 0;
}

void systems_tell(const struct bench *bench, const struct systems *systems,
                  const struct results *results, const char *what, const char *unit)
{
    for (size_t i = 0; i < systems->count; i++) {
        const struct system *ours = system_counterpart(systems->at[i]);
        double median = median_of(bench, systems, results, systems->at[i]);
        double our_median = median_of(bench, systems, results, ours);
        if (results->is_out[i]) {
            continue;
        }
        struct bench_row row = {.what = what,
                                .system = systems->at[i]->name,
                                .unit = unit,
                                .values = results->values[i],
                                .runs = bench->runs,
                                .n = results->n[i],
                                .ratio =
                                    median > 0 && systems->at[i] != ours ? our_median / median : 0};
        bench_tell(bench, &row);
    }
}
