/* SPDX-License-Identifier: MPL-2.0 */
/* kill_bench.c -- the time from kill -9 of a party until a reader of its slots has the error.
 *
 * First without errbus run: the time beyond the reconnect grace, of the first slot and of the last,
 * with one open slot and with 10,000.  Then under errbus run, which sees the end by itself and
 * needs no grace: the whole time, alone, and beside a copy that writes as much output as errbus run
 * takes in. */
#include "bench/harness.h"
#include "tests/lib/folder.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRACE_NS INT64_C(100000000) /* bench_open() */
#define COUNT 20

/* shout: says as much as it is let, until it is ended */
static int shout(void)
{
    static const char line[] = "a line of standard error, fifty bytes with its end\n";
    while (write(STDERR_FILENO, line, sizeof line - 1) > 0) {
    }
    return 0;
}

/* hold ENDPOINT SLOTS: promises, and waits for its end; with a word more, says when that is, and
 * brings it about.  The first of two copies, which has no input, is told by the waiting one. */
static int hold(char **words)
{
    const char *party = getenv("ERRBUS_PARTY"); /* under errbus run */
    bool is_of_two = party != NULL && strcmp(party, "dying-0") == 0;
    if (party != NULL && strcmp(party, "dying-1") == 0) {
        return shout();
    }
    struct bus *bus = bench_open(words[0], party != NULL ? party : "dying");
    uint64_t count = strtoull(words[1], NULL, 10);
    for (uint64_t i = 0; i < count; i++) {
        struct bus_slot *slot = NULL;
        bench_check(bus_slot_reserve(bus, "w", BUS_FOREVER, &slot), "reserve");
    }
    bench_check(bus_flush(bus, 10000), "flush");
    role_ready();
    if (is_of_two) {
        bench_check(bus_await(bus, "waiting/go", 0, BUS_FOREVER, NULL, NULL), "await");
    } else {
        role_wait_go();
    }
    if (words[2] != NULL) {
        role_say_done(test_now_ns());
        kill(getpid(), SIGKILL);
    }
    return 0;
}

/* wait ENDPOINT SLOTS PARTY: says when the first error was raised, and when the last */
static int wait_for_errors(char **words)
{
    struct bus *bus = bench_open(words[0], "waiting");
    uint64_t count = strtoull(words[1], NULL, 10);
    char topic[64];
    snprintf(topic, sizeof topic, "%s/w", words[2]);
    struct bus_sub *sub = bench_subscribe(bus, topic);
    role_ready();
    bench_check(bus_publish(bus, "go", NULL, 0), "publish");
    for (uint64_t i = 0; i < count; i++) {
        struct bus_error *error = bench_take_error(sub);
        bus_error_unref(&error);
        if (i == 0) {
            role_say_done(test_now_ns());
        }
    }
    role_say_done(test_now_ns());
    role_wait_go();
    bus_sub_close(&sub);
    bus_close(&bus, 10000);
    return 0;
}

static void run_one(const char *slots, struct samples *first, struct samples *last)
{
    struct broker broker;
    struct process dying;
    struct process waiting;
    bench_broker(&broker);
    const char *const dying_words[] = {"kill_bench", "hold", broker.control, slots, NULL};
    const char *const waiting_words[] = {"kill_bench", "wait",  broker.control,
                                         slots,        "dying", NULL};
    role_start(&dying, dying_words);
    role_start(&waiting, waiting_words);
    int64_t killed_ns = test_now_ns();
    process_signal(&dying, SIGKILL);
    samples_add(first, role_done(&waiting) - killed_ns - GRACE_NS);
    samples_add(last, role_done(&waiting) - killed_ns - GRACE_NS);
    role_fini(&dying);
    role_fini(&waiting);
    broker_fini(&broker);
}

/* Under errbus run, dying alone or as the first of two copies. */
static void run_below(const char *slots, bool is_of_two, struct samples *first,
                      struct samples *last)
{
    struct broker broker;
    struct process dying;
    struct process waiting;
    struct folder folder;
    char self[1024];
    char path[1024];
    ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
    if (bytes < 0 || !folder_make(&folder)) {
        bench_die("no folder, or no name of our own");
    }
    self[bytes] = '\0';
    bench_broker(&broker);
    const char *const dying_words[] = {"sh",
                                       "-c",
                                       "exec \"$0\" run \"$@\" 2> /dev/null",
                                       process_path("errbus", path, sizeof path),
                                       "-s",
                                       broker.control,
                                       "-p",
                                       "dying",
                                       "-n",
                                       is_of_two ? "2" : "1",
                                       "--plain",
                                       "--log-dir",
                                       folder.path,
                                       "--",
                                       self,
                                       "hold",
                                       broker.control,
                                       slots,
                                       "self",
                                       NULL};
    const char *const waiting_words[] = {
        "kill_bench", "wait", broker.control, slots, is_of_two ? "dying-0" : "dying", NULL};
    role_start(&dying, dying_words);
    role_start(&waiting, waiting_words);
    role_go(&dying);
    int64_t killed_ns = role_done(&dying);
    samples_add(first, role_done(&waiting) - killed_ns);
    samples_add(last, role_done(&waiting) - killed_ns);
    role_fini(&dying);
    role_fini(&waiting);
    broker_fini(&broker);
    folder_fini(&folder);
}

static void run_one_below(const char *slots, struct samples *first, struct samples *last)
{
    run_below(slots, false, first, last);
}

static void run_one_beside(const char *slots, struct samples *first, struct samples *last)
{
    run_below(slots, true, first, last);
}

typedef void run_fn(const char *slots, struct samples *first, struct samples *last);

static void ask(const struct bench *bench, run_fn *run_it, const char *how, const char *slots,
                uint64_t n)
{
    static const char *const whats[] = {"first raised", "last raised", "last behind first"};
    double values[6][BENCH_RUNS_MAX];
    bool is_many = strcmp(slots, "1") != 0;
    for (size_t run = 0; run < bench->runs; run++) {
        struct samples first = {.count = 0};
        struct samples last = {.count = 0};
        struct samples between = {.count = 0};
        for (uint64_t i = 0; i < n; i++) {
            run_it(slots, &first, &last);
            samples_add(&between, last.at[i] - first.at[i]);
        }
        values[0][run] = samples_percentile(&first, 50);
        values[1][run] = samples_percentile(&first, 100);
        values[2][run] = samples_percentile(&last, 50);
        values[3][run] = samples_percentile(&last, 100);
        values[4][run] = samples_percentile(&between, 50);
        values[5][run] = samples_percentile(&between, 100);
        samples_fini(&first);
        samples_fini(&last);
        samples_fini(&between);
    }
    for (size_t i = 0; i < (is_many ? 6 : 2); i++) {
        char what[64];
        snprintf(what, sizeof what, "%s%s open, %s, %s", how, slots, whats[i / 2],
                 i % 2 == 0 ? "p50" : "max");
        struct bench_row row = {.what = what,
                                .system = "errbus",
                                .unit = "us",
                                .values = values[i],
                                .runs = bench->runs,
                                .n = n};
        bench_tell(bench, &row);
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    if ((argc == 4 || argc == 5) && strcmp(argv[1], "hold") == 0) {
        return hold(argv + 2);
    }
    if (argc == 5 && strcmp(argv[1], "wait") == 0) {
        return wait_for_errors(argv + 2);
    }
    if (!bench_init(&bench, "kill", argc, argv)) {
        return 2;
    }
    ask(&bench, run_one, "", "1", bench_count(&bench, COUNT));
    ask(&bench, run_one, "", "10000", bench_count(&bench, COUNT));
    ask(&bench, run_one_below, "under errbus run: ", "1", bench_count(&bench, COUNT));
    ask(&bench, run_one_beside, "beside a loud copy: ", "1", bench_count(&bench, COUNT));
    return 0;
}
