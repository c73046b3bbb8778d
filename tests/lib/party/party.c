/* SPDX-License-Identifier: MPL-2.0 */
/* party.c -- a party as a process of its own: does what standard input says, line by line.
 *
 *   test_party ENDPOINT PARTY [OPTION=NUMBER...]     options: members of struct bus_options
 *
 * Each command is answered by one line, "= CODE ...", CODE as in enum bus_err without BUS_E ("OK",
 * "FAILED").  What happens beside is a line that begins with "! ".  SIGTERM is bus_stop().  At the
 * end of its input the process ends as it is, without a word to the broker. */
#include <bus/bus.h>
#include <ctype.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES_MAX 65536
#define SLOTS_MAX 20000
#define WORDS_MAX 8

static struct bus *bus;
static struct bus_sub *sub;
static struct bus_msg *held;
static struct bus_slot *slots[SLOTS_MAX];
static char slot_topics[SLOTS_MAX][32];
static size_t slot_count;

static const char *const code_names[] = {"OK",      "INVAL",  "NOMEM",  "TIMEDOUT", "FULL",
                                         "TOOBIG",  "PROTO",  "LOST",   "OVERRUN",  "FAILED",
                                         "SETTLED", "FENCED", "DENIED", "CLOSED",   "ENDED"};

/* One write a line: the handler says its own from another thread. */
static void say(const char *format, ...)
{
    char line[LINE_BYTES_MAX];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    size_t bytes = length < (int)sizeof line - 1 ? (size_t)length : sizeof line - 2;
    line[bytes++] = '\n';
    ssize_t written = write(STDOUT_FILENO, line, bytes);
    (void)written; /* who does not listen has gone */
}

static void answer(enum bus_err err)
{
    say("= %s", code_names[err]);
}

static void on_failure(const struct bus_error *verdict, void *arg)
{
    (void)arg;
    say("! handler %s %s", bus_error_kind(verdict), bus_error_type(verdict));
}

static void on_term(int number)
{
    (void)number;
    bus_stop(bus);
}

/* ---- commands ---------------------------------------------------------------------------------*/

static void reserve(const char *topic, size_t count)
{
    enum bus_err err = BUS_OK;
    for (size_t i = 0; i < count && err == BUS_OK && slot_count < SLOTS_MAX; i++) {
        err = bus_slot_reserve(bus, topic, BUS_FOREVER, &slots[slot_count]);
        if (err == BUS_OK) {
            snprintf(slot_topics[slot_count++], sizeof slot_topics[0], "%.31s", topic);
        }
    }
    answer(err);
}

/* The handle of a slot that was reserved here; a dead end of its own if there is none. */
static struct bus_slot **find_slot(const char *topic, uint64_t seq)
{
    static struct bus_slot *none;
    for (size_t i = 0; i < slot_count; i++) {
        if (slots[i] != NULL && bus_slot_seq(slots[i]) == seq &&
            strcmp(slot_topics[i], topic) == 0) {
            return &slots[i];
        }
    }
    return &none;
}

static void publish(const char *topic, uint64_t count, const char *text)
{
    enum bus_err err = BUS_OK;
    for (uint64_t i = 0; i < count && err == BUS_OK; i++) {
        char value[256];
        int length = snprintf(value, sizeof value, "%.200s-%" PRIu64, text, i);
        err = bus_publish(bus, topic, value, (size_t)length);
    }
    answer(err);
}

static void fail_slot(const char *topic, uint64_t seq, const char *type, const char *text)
{
    struct bus_error *error = bus_error_new(type, NULL, "%s", text);
    bus_slot_fail(find_slot(topic, seq), error);
    bus_error_unref(&error);
    answer(BUS_OK);
}

/* blamed: NULL: nobody. */
static void fail_party(const char *type, const char *text, const char *blamed)
{
    struct bus_error *error = bus_error_new(type, NULL, "%s", text);
    if (blamed != NULL) {
        (void)bus_error_set_blame(error, blamed); /* the test sees whom it blames */
    }
    bus_fail(bus, error);
    bus_error_unref(&error);
    answer(BUS_OK);
}

static void subscribe(const char *pattern, const char *name)
{
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.name = name;
    bus_sub_close(&sub);
    enum bus_err err = bus_sub_open(bus, pattern, &options, &sub);
    answer(err == BUS_OK ? bus_flush(bus, 20000) : err);
}

/* "= OK TOPIC SEQ VALUE" or "= FAILED TOPIC SEQ KIND TYPE PARTY"; the message is held. */
static void receive(int64_t timeout_ms)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    uint64_t seq = 0;
    enum bus_err err = bus_sub_recv(sub, timeout_ms, &msg, &error);
    const char *topic = bus_sub_slot(sub, &seq);
    if (err == BUS_OK) {
        size_t bytes = 0;
        const char *value = bus_msg_value(msg, &bytes);
        say("= OK %s %" PRIu64 " %.*s", topic, seq, (int)(bytes < 256 ? bytes : 256), value);
        bus_msg_return(&held);
        held = msg;
    } else if (err == BUS_EFAILED) {
        say("= FAILED %s %" PRIu64 " %s %s %s", topic != NULL ? topic : "-", seq,
            bus_error_kind(error), bus_error_type(error), bus_error_party(error));
    } else {
        answer(err);
    }
    bus_error_unref(&error);
}

static void take_refusal(void)
{
    struct bus_error *refusal = NULL;
    uint64_t seq = 0;
    enum bus_err err = bus_refusal(bus, &refusal);
    if (err != BUS_OK) {
        answer(err);
        return;
    }
    const char *topic = bus_error_topic(refusal, &seq);
    say("= OK %s %" PRIu64 " %s", topic != NULL ? topic : "?", seq, bus_error_kind(refusal));
    bus_error_unref(&refusal);
}

static void tell_failure(void)
{
    struct bus_error *failure = bus_failure(bus);
    say("= OK %s", failure != NULL ? bus_error_kind(failure) : "none");
    bus_error_unref(&failure);
}

static void answer_because(enum bus_err err, struct bus_error **why)
{
    say("= %s %s", code_names[err], bus_error_type(*why));
    bus_error_unref(why);
}

/* "= OK EPOCH RANK WORLD_SIZE ATTEMPT" or "= CODE TYPE". */
static void tell_membership(uint64_t after_epoch)
{
    struct bus_membership membership;
    struct bus_error *why = NULL;
    enum bus_err err = bus_membership_wait(bus, after_epoch, 20000, &membership, &why);
    if (err == BUS_OK) {
        say("= OK %" PRIu64 " %u %u %u", membership.epoch, membership.rank, membership.world_size,
            membership.attempt);
    } else {
        answer_because(err, &why);
    }
}

static void meet(uint64_t epoch, int64_t timeout_ms)
{
    struct bus_error *why = NULL;
    enum bus_err err = bus_barrier(bus, epoch, timeout_ms, &why);
    if (err == BUS_OK) {
        answer(err);
    } else {
        answer_because(err, &why);
    }
}

static void await_slot(const char *topic, uint64_t seq)
{
    struct bus_error *why = NULL;
    enum bus_err err = bus_await(bus, topic, seq, BUS_FOREVER, NULL, &why);
    if (err == BUS_OK) {
        answer(err);
    } else {
        size_t causes = 0;
        while (bus_error_cause_at(why, causes) != NULL) {
            causes++;
        }
        say("= %s %s %s, %zu causes", code_names[err], bus_error_kind(why), bus_error_type(why),
            causes);
        bus_error_unref(&why);
    }
}

/* Another thread publishes a value later, and says so. */
struct helper {
    int64_t after_ms;
    char topic[32];
};

static void *help(void *arg)
{
    struct helper *helper = arg;
    const struct timespec pause = {.tv_sec = helper->after_ms / 1000,
                                   .tv_nsec = helper->after_ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
    say("! helped %s", code_names[bus_publish(bus, helper->topic, "help", 4)]);
    return NULL;
}

static void start_helper(int64_t after_ms, const char *topic)
{
    static struct helper helper;
    pthread_t thread;
    helper.after_ms = after_ms;
    snprintf(helper.topic, sizeof helper.topic, "%.31s", topic);
    bool is_started = pthread_create(&thread, NULL, help, &helper) == 0;
    answer(is_started ? BUS_OK : BUS_ENOMEM);
}

/* Busy, with no call into the library. */
static void compute(int64_t for_ms)
{
    struct timespec start;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < for_ms);
    answer(BUS_OK);
}

/* Takes every descriptor there is, and each that becomes free, as long as it is to. */
enum { HOGGED_MAX = 256, HOG_EVERY_NS = 200000 };
static atomic_bool is_hogging;

static void *hog(void *arg)
{
    static const struct timespec pause = {.tv_nsec = HOG_EVERY_NS};
    int hogged[HOGGED_MAX];
    int count = 0;
    (void)arg;
    while (atomic_load(&is_hogging)) {
        int fd = count < HOGGED_MAX ? dup(STDIN_FILENO) : -1;
        if (fd >= 0) {
            hogged[count++] = fd;
        } else {
            nanosleep(&pause, NULL);
        }
    }
    while (count > 0) {
        close(hogged[--count]);
    }
    return NULL;
}

/* None for anybody else in this process, or as many as before. */
static void allow_descriptors(bool is_allowed)
{
    static pthread_t thread;
    static struct rlimit before;
    bool is_done = true;
    if (is_allowed) {
        atomic_store(&is_hogging, false);
        is_done = pthread_join(thread, NULL) == 0 && setrlimit(RLIMIT_NOFILE, &before) == 0;
    } else {
        int next = dup(STDIN_FILENO);
        close(next);
        is_done = getrlimit(RLIMIT_NOFILE, &before) == 0;
        struct rlimit few = {.rlim_cur = (rlim_t)next + 8, .rlim_max = before.rlim_max};
        atomic_store(&is_hogging, true);
        is_done = is_done && setrlimit(RLIMIT_NOFILE, &few) == 0 &&
                  pthread_create(&thread, NULL, hog, NULL) == 0;
        while (is_done && (next = dup(STDIN_FILENO)) >= 0) {
            close(next); /* until it has them all */
        }
    }
    answer(is_done ? BUS_OK : BUS_EINVAL);
}

/* ---- the loop ---------------------------------------------------------------------------------*/

static uint64_t number(const char *text)
{
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static void obey_about_slots(char *const *word)
{
    if (strcmp(word[0], "reserve") == 0) {
        reserve(word[1], number(word[2]));
    } else if (strcmp(word[0], "publish") == 0) {
        publish(word[1], number(word[2]), word[3]);
    } else if (strcmp(word[0], "commit") == 0) {
        answer(bus_slot_commit(find_slot(word[1], number(word[2])), word[3], strlen(word[3])));
    } else if (strcmp(word[0], "fail") == 0) {
        fail_slot(word[1], number(word[2]), word[3], word[4]);
    } else {
        say("= unknown command %s", word[0]);
    }
}

static void obey(char *const *word)
{
    if (strcmp(word[0], "flush") == 0) {
        answer(bus_flush(bus, (int64_t)number(word[1])));
    } else if (strcmp(word[0], "refusal") == 0) {
        take_refusal();
    } else if (strcmp(word[0], "failure") == 0) {
        tell_failure();
    } else if (strcmp(word[0], "fail_party") == 0) {
        fail_party(word[1], word[2], word[3]);
    } else if (strcmp(word[0], "subscribe") == 0) {
        subscribe(word[1], word[2]);
    } else if (strcmp(word[0], "receive") == 0) {
        receive((int64_t)number(word[1]));
    } else if (strcmp(word[0], "receive_forever") == 0) {
        receive(BUS_FOREVER);
    } else if (strcmp(word[0], "acknowledge") == 0) {
        bus_msg_free(&held);
        answer(BUS_OK);
    } else if (strcmp(word[0], "await") == 0) {
        await_slot(word[1], number(word[2]));
    } else if (strcmp(word[0], "helper") == 0) {
        start_helper((int64_t)number(word[1]), word[2]);
    } else if (strcmp(word[0], "compute") == 0) {
        compute((int64_t)number(word[1]));
    } else if (strcmp(word[0], "descriptors") == 0) {
        allow_descriptors(number(word[1]) != 0);
    } else if (strcmp(word[0], "progress") == 0) {
        bus_progress_at(bus, (int64_t)number(word[1]), word[2]);
        answer(bus_flush(bus, 20000));
    } else if (strcmp(word[0], "membership") == 0) {
        tell_membership(number(word[1]));
    } else if (strcmp(word[0], "barrier") == 0) {
        meet(number(word[1]), (int64_t)number(word[2]));
    } else if (strcmp(word[0], "complete") == 0) {
        answer(bus_complete(bus, (int64_t)number(word[1])));
    } else if (strcmp(word[0], "close") == 0) {
        bus_sub_close(&sub);
        answer(bus_close(&bus, (int64_t)number(word[1])));
    } else {
        obey_about_slots(word);
    }
}

static void read_options(struct bus_options *options, int argc, char **argv)
{
    const struct {
        const char *name;
        int64_t *out;
    } known[] = {
        {"heartbeat_ms", &options->heartbeat_ms},
        {"lost_after_ms", &options->lost_after_ms},
        {"reconnect_grace_ms", &options->reconnect_grace_ms},
        {"broker_lost_ms", &options->broker_lost_ms},
        {"send_timeout_ms", &options->send_timeout_ms},
    };
    for (int i = 3; i < argc; i++) {
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
            size_t length = strlen(known[k].name);
            if (strncmp(argv[i], known[k].name, length) == 0 && argv[i][length] == '=') {
                *known[k].out = (int64_t)number(argv[i] + length + 1);
            }
        }
    }
}

int main(int argc, char **argv)
{
    static char line[LINE_BYTES_MAX];
    struct bus_options options;
    struct bus_error *error = NULL;
    if (argc < 3) {
        return 2;
    }
    bus_options_init(&options);
    options.party = argv[2];
    options.on_failure = on_failure;
    read_options(&options, argc, argv);
    enum bus_err err = bus_open(argv[1], &options, 20000, &bus, &error);
    answer(err);
    if (err != BUS_OK) {
        say("! %s %s", bus_error_type(error), bus_error_message(error));
        return 1;
    }
    struct sigaction action = {.sa_handler = on_term, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    while (bus != NULL && fgets(line, sizeof line, stdin) != NULL) {
        char *word[WORDS_MAX] = {NULL};
        char *rest = NULL;
        size_t count = 0;
        for (char *at = strtok_r(line, " \n", &rest); at != NULL && count + 1 < WORDS_MAX;
             at = strtok_r(NULL, " \n", &rest)) {
            word[count++] = at;
        }
        if (count > 0) {
            obey(word);
        }
    }
    _exit(0);
}
