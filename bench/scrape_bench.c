/* SPDX-License-Identifier: MPL-2.0 */
/* scrape_bench.c -- what operators cost the others: the round trip of a value and its answer, with
 * so many parties and topics, while nobody looks; while errbus web is asked for all metrics every
 * second, as Prometheus asks it; and while a page is open as well.
 *
 * All are measured in turn, four seconds each, over the same broker, several times a run.  On a
 * machine that others use only neighbours can be compared: its p99 jumps between one second and
 * the next.  The round trips of a run are taken together, and compared within the run.
 *
 * One party publishes the moment; another publishes it back.  The page is played: a stream of
 * events, and the questions of page/feed.js as often as it asks them.  Who asks is on another
 * machine, as a rule.  So the process that asks runs only where a core has nothing else to do, and
 * what a browser does with the answers is not measured.  errbus web has the priority that it gives
 * itself. */
#include "bench/harness.h"

#include <arpa/inet.h>
#include <bus/metrics.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define COUNT 12000 /* round trips of a run: twelve seconds */
#define EVERY_NS INT64_C(1000000)
#define SCRAPE_NS INT64_C(1100000000) /* errbus web keeps what it has for a second */
#define PAGE_NS INT64_C(1100000000)   /* as page/feed.js; errbus web keeps answers for a second */
#define WAIT_MS 60000
#define CROWD_MS 600000 /* no crowd takes as long */

enum {
    LAPS = 3, /* of a run: a part of its round trips, each way in turn */
    CROWDS = 10,
    CROWD_PARTIES = 100, /* in one process */
    CROWD_TOPICS = 100,  /* of each party */
    QUICK_PARTIES = 4,
    NAME_BYTES = 32,
    REQUEST_BYTES = 256,
    PATH_BYTES = 512,
    PIECE_BYTES = 64 * 1024,
    TURN_BYTES = 32768, /* as page/feed.js: for each so many of an answer one turn is left out */
    FIRST_EVENTS = 4,   /* a page that has so many is live */
    SILENT_MS = 1100,   /* so long nothing comes: it has all, and answers are made anew */
};

/* ---- roles ----------------------------------------------------------------------------------- */

/* crowd ENDPOINT NUMBER PARTIES: parties with topics, a value in each, who then do nothing */
static int crowd(char **words)
{
    unsigned parties = (unsigned)strtoul(words[2], NULL, 10);
    char name[NAME_BYTES];
    struct bus **buses = calloc(parties, sizeof *buses);
    if (buses == NULL) {
        bench_die("no memory");
    }
    for (unsigned i = 0; i < parties; i++) {
        snprintf(name, sizeof name, "crowd%s_%u", words[1], i);
        buses[i] = bench_open(words[0], name);
        for (unsigned j = 0; j < CROWD_TOPICS; j++) {
            snprintf(name, sizeof name, "t%u", j);
            bench_check(bus_publish(buses[i], name, "x", 1), "publish");
        }
    }
    for (unsigned i = 0; i < parties; i++) {
        bench_check(bus_flush(buses[i], WAIT_MS), "flush");
    }
    role_ready();
    role_wait_go(); /* until it is killed */
    return 0;
}

static int64_t take_moment(struct bus_sub *sub)
{
    struct bus_msg *msg = NULL;
    int64_t at_ns = 0;
    bench_check(bus_sub_recv(sub, WAIT_MS, &msg, NULL), "receive");
    memcpy(&at_ns, bus_msg_value(msg, NULL), sizeof at_ns);
    bus_msg_free(&msg);
    return at_ns;
}

/* echo ENDPOINT: publishes what it receives, until it is killed */
static int echo(char **words)
{
    struct bus *bus = bench_open(words[0], "echoing");
    struct bus_sub *sub = bench_subscribe(bus, "asking/w");
    role_ready();
    for (;;) {
        int64_t at_ns = take_moment(sub);
        bench_check(bus_publish(bus, "w", &at_ns, sizeof at_ns), "publish");
    }
    return 0;
}

/* ask ENDPOINT COUNT: round trips at a steady pace, each time that it is told to go */
static int ask_round_trips(char **words)
{
    struct bus *bus = bench_open(words[0], "asking");
    struct bus_sub *sub = bench_subscribe(bus, "echoing/w");
    uint64_t count = strtoull(words[1], NULL, 10);
    role_ready();
    for (;;) {
        struct samples samples = {.count = 0};
        role_wait_go();
        int64_t at_ns = test_now_ns();
        for (uint64_t i = 0; i < count; i++) {
            bench_sleep_until(at_ns += EVERY_NS);
            int64_t now_ns = test_now_ns();
            bench_check(bus_publish(bus, "w", &now_ns, sizeof now_ns), "publish");
            int64_t began_ns = take_moment(sub);
            samples_add(&samples, test_now_ns() - began_ns);
        }
        role_say_done((int64_t)samples.count);
        samples_say(&samples);
        samples_fini(&samples);
    }
    return 0;
}

/* ---- who looks ------------------------------------------------------------------------------- */

static int visit(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        bench_die("errbus web is not reached: %s", strerror(errno));
    }
    return fd;
}

static void request(int fd, const char *path)
{
    char text[REQUEST_BYTES];
    int bytes = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    if (send(fd, text, (size_t)bytes, MSG_NOSIGNAL) != bytes) {
        bench_die("errbus web does not take %s: %s", path, strerror(errno));
    }
}

/* The connection stays open, as those of Prometheus and of browsers do.  How many bytes the answer
 * has, without its headers. */
static size_t ask_page(int fd, const char *path)
{
    static char answer[PIECE_BYTES];
    static const char good[] = "HTTP/1.1 200 ";
    static const char length[] = "\r\nContent-Length: ";
    const char *body = NULL;
    size_t bytes = 0;
    request(fd, path);
    while (body == NULL) {
        ssize_t count = recv(fd, answer + bytes, sizeof answer - 1 - bytes, 0);
        if (count <= 0) {
            bench_die("errbus web does not answer %s", path);
        }
        bytes += (size_t)count;
        answer[bytes] = '\0';
        body = strstr(answer, "\r\n\r\n");
    }
    const char *number = strstr(answer, length);
    if (strncmp(answer, good, sizeof good - 1) != 0 || number == NULL) {
        bench_die("errbus web answers %s with: %.100s", path, answer);
    }
    size_t whole = strtoul(number + sizeof length - 1, NULL, 10);
    size_t got = bytes - (size_t)(body + 4 - answer);
    while (got < whole) {
        ssize_t count = recv(fd, answer, sizeof answer, 0);
        if (count <= 0) {
            bench_die("errbus web ends its answer to %s after %zu bytes", path, got);
        }
        got += (size_t)count;
    }
    return whole;
}

/* Waits until the stream has given so many events. */
static void await_events(int fd, unsigned wanted)
{
    static char piece[PIECE_BYTES];
    static const char word[] = "\ndata: ";
    unsigned seen = 0;
    size_t kept = 0;
    while (seen < wanted) {
        ssize_t bytes = recv(fd, piece + kept, sizeof piece - kept - 1, 0);
        if (bytes <= 0) {
            bench_die("the stream of events ends after %u", seen);
        }
        kept += (size_t)bytes;
        piece[kept] = '\0';
        const char *rest = piece;
        for (const char *at = piece; (at = strstr(at, word)) != NULL; rest = at) {
            at += sizeof word - 1;
            seen += 1;
        }
        size_t left = kept - (size_t)(rest - piece);
        kept = left < sizeof word ? left : sizeof word - 1; /* it may have a part of the word */
        memmove(piece, rest + left - kept, kept);
    }
}

/* What has come meanwhile. */
static void drain(int fd)
{
    static char piece[PIECE_BYTES];
    ssize_t bytes = 1;
    while (bytes > 0) {
        bytes = recv(fd, piece, sizeof piece, MSG_DONTWAIT);
    }
    if (bytes == 0) {
        bench_die("the stream of events ends");
    }
}

/* Starts errbus web; its port. */
static unsigned start_web(struct process *web, const char *endpoint)
{
    const char *const argv[] = {"errbus", "web", "-s", endpoint, "-l", "127.0.0.1:0", NULL};
    const char *line = NULL;
    unsigned port = 0;
    if (!process_start(web, argv, NULL) || !process_line(web, WAIT_MS, &line) ||
        sscanf(line, "errbus web: ready: http://127.0.0.1:%u", &port) != 1) {
        bench_die("errbus web does not start: %s", process_complained(web));
    }
    return port;
}

/* From here on it takes no core from anybody. */
static void be_elsewhere(void)
{
    const struct sched_param none = {.sched_priority = 0};
    if (sched_setscheduler(0, SCHED_IDLE, &none) != 0) {
        bench_die("sched_setscheduler: %s", strerror(errno));
    }
}

/* scrape ENDPOINT: errbus web, and a scrape of it every second until it is killed */
static int scrape(char **words)
{
    struct process web;
    int prometheus = visit(start_web(&web, words[0]));
    be_elsewhere();
    ask_page(prometheus, "/metrics");
    role_ready();
    for (int64_t at_ns = test_now_ns();; at_ns += SCRAPE_NS) {
        ask_page(prometheus, "/metrics");
        bench_sleep_until(at_ns + SCRAPE_NS);
    }
    return 0;
}

/* What the page asks for. */
static struct {
    const char *path;
    size_t rests; /* so many turns more it is left out */
} questions[] = {{.path = "/api/status"},
                 {.path = "/api/status?job=default"},
                 {.path = "/api/why?job=default"},
                 {.path = "/api/verdict?job=default"}};
enum { QUESTIONS = sizeof questions / sizeof questions[0] };

/* One turn: what has a long answer is asked for less often. */
static void ask_in_turn(int browser)
{
    for (size_t i = 0; i < QUESTIONS; i++) {
        if (questions[i].rests > 0) {
            questions[i].rests -= 1;
        } else {
            questions[i].rests = ask_page(browser, questions[i].path) / TURN_BYTES;
        }
    }
}

/* page ENDPOINT: errbus web, a scrape of it and an open page every second until it is killed.  The
 * page has been opened before: it has the events of the past. */
static int page(char **words)
{
    struct process web;
    unsigned port = start_web(&web, words[0]);
    int stream = visit(port), browser = visit(port), prometheus = visit(port);
    struct pollfd news = {.fd = stream, .events = POLLIN};
    be_elsewhere();
    request(stream, "/api/stream?job=default");
    await_events(stream, FIRST_EVENTS);
    for (size_t i = 0; i < QUESTIONS; i++) {
        ask_page(browser, questions[i].path);
    }
    while (poll(&news, 1, SILENT_MS) > 0) {
        drain(stream);
    }
    ask_page(prometheus, "/metrics");
    role_ready();
    for (int64_t at_ns = test_now_ns();; at_ns += PAGE_NS) {
        ask_page(prometheus, "/metrics");
        ask_in_turn(browser);
        drain(stream);
        bench_sleep_until(at_ns + PAGE_NS);
    }
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

enum way { QUIET, SCRAPED, PAGED, WAYS };
static const char *const ways[WAYS] = {"nobody scrapes", "scraped every second",
                                       "with a page open"};
/* Who looks meanwhile. */
static const char *const watchers[WAYS] = {NULL, "scrape", "page"};

struct answer {
    double p50[BENCH_RUNS_MAX];
    double p99[BENCH_RUNS_MAX];
    double p99_to_quiet[BENCH_RUNS_MAX];
    double slow_steps[BENCH_RUNS_MAX]; /* of the broker, above 2.5 ms, while this was measured */
    struct samples run;
    struct samples together;
};

/* How many steps of the broker have taken longer than the bound of the histogram above 2 ms. */
static double count_slow_steps(const char *endpoint)
{
    struct bus_admin *admin = NULL;
    struct bus_metrics *metrics = NULL;
    double fast = -1, all = -1;
    bench_check(bus_admin_open(endpoint, NULL, WAIT_MS, &admin, NULL), "open");
    bench_check(bus_admin_metrics_get(admin, WAIT_MS, &metrics, NULL), "metrics");
    for (size_t i = 0; i < bus_metrics_count(metrics); i++) {
        const struct bus_metric *metric = bus_metrics_at(metrics, i);
        for (size_t j = metric->first; j < metric->first + metric->count; j++) {
            const struct bus_metric_sample *sample = bus_metrics_sample_at(metrics, j);
            if (strcmp(metric->name, "errbus_step_seconds") != 0) {
                continue;
            }
            if (strcmp(sample->suffix, "_count") == 0) {
                all = sample->value;
            } else if (sample->label_count > 0 && strcmp(sample->labels[0].value, "0.0025") == 0) {
                fast = sample->value;
            }
        }
    }
    bus_metrics_free(&metrics);
    bus_admin_close(&admin);
    if (fast < 0 || all < fast) {
        bench_die("the broker does not tell how long its steps take");
    }
    return all - fast;
}

static void measure(struct process *asking, const char *endpoint, enum way way,
                    struct answer *answer, size_t run)
{
    struct process watching = {.pid = 0};
    struct samples samples = {.count = 0};
    const char *const words[] = {"scrape_bench", watchers[way], endpoint, NULL};
    if (watchers[way] != NULL) {
        role_start(&watching, words);
    }
    double before = count_slow_steps(endpoint);
    role_go(asking);
    samples_read(&samples, asking, (size_t)role_done(asking));
    answer->slow_steps[run] += count_slow_steps(endpoint) - before;
    samples_add_all(&answer->run, &samples);
    samples_add_all(&answer->together, &samples);
    samples_fini(&samples);
    role_fini(&watching);
}

static void end_run(struct answer answers[WAYS], enum way count, size_t run)
{
    for (enum way way = QUIET; way < count; way++) {
        struct answer *answer = &answers[way];
        answer->p50[run] = samples_percentile(&answer->run, 50);
        answer->p99[run] = samples_percentile(&answer->run, 99);
        answer->p99_to_quiet[run] = answer->p99[run] / answers[QUIET].p99[run];
        samples_fini(&answer->run);
    }
}

/* Where errbus web is not built nobody can look. */
static enum way count_ways(void)
{
    char path[PATH_BYTES];
    char program[sizeof path + sizeof "-web"];
    snprintf(program, sizeof program, "%s-web", process_path("errbus", path, sizeof path));
    if (access(program, X_OK) == 0) {
        return WAYS;
    }
    fprintf(stderr, "scrape: no errbus web here (package libmicrohttpd-dev): nobody looks\n");
    return SCRAPED;
}

static void tell(const struct bench *bench, const char *what, enum way way, const char *unit,
                 const double *values, size_t runs, uint64_t n)
{
    struct bench_row row = {
        .what = what, .system = ways[way], .unit = unit, .values = values, .runs = runs, .n = n};
    bench_tell(bench, &row);
}

static void report(const struct bench *bench, struct answer answers[WAYS], enum way count,
                   uint64_t n)
{
    double quiet = samples_percentile(&answers[QUIET].together, 99);
    for (enum way way = QUIET; way < count; way++) {
        struct answer *answer = &answers[way];
        double ratio = samples_percentile(&answer->together, 99) / quiet;
        tell(bench, "round trip, p50", way, "us", answer->p50, bench->runs, n);
        tell(bench, "round trip, p99", way, "us", answer->p99, bench->runs, n);
        if (way != QUIET) {
            tell(bench, "p99 to nobody, each run", way, "x", answer->p99_to_quiet, bench->runs, n);
            tell(bench, "p99 to nobody, all runs", way, "x", &ratio, 1, n * bench->runs);
        }
        tell(bench, "steps above 2.5 ms", way, "", answer->slow_steps, bench->runs, n);
        bench_draw_percentiles(bench, "scrape: a value and its answer", ways[way],
                               &answer->together);
    }
}

/* All at once: each joins one party after the other. */
static void open_crowds(const struct bench *bench, const char *endpoint,
                        struct process crowds[CROWDS])
{
    char number[NAME_BYTES], parties[NAME_BYTES];
    const char *line = NULL;
    snprintf(parties, sizeof parties, "%d", bench->is_quick ? QUICK_PARTIES : CROWD_PARTIES);
    for (int i = 0; i < CROWDS; i++) {
        snprintf(number, sizeof number, "%d", i);
        const char *const words[] = {"scrape_bench", "crowd", endpoint, number, parties, NULL};
        if (!process_start(&crowds[i], words, NULL)) {
            bench_die("a crowd cannot be started");
        }
    }
    for (int i = 0; i < CROWDS; i++) {
        if (!process_line(&crowds[i], CROWD_MS, &line) || strcmp(line, "ready") != 0) {
            bench_die("a crowd is not ready: %s", process_complained(&crowds[i]));
        }
    }
}

static void run_all(const struct bench *bench)
{
    static struct answer answers[WAYS];
    struct process crowds[CROWDS];
    struct process echoing, asking;
    struct broker broker;
    char count[NAME_BYTES];
    uint64_t n = bench_count(bench, COUNT);
    enum way way_count = count_ways();
    snprintf(count, sizeof count, "%llu", (unsigned long long)n / LAPS);
    bench_broker(&broker);
    open_crowds(bench, broker.control, crowds);
    const char *const echo_words[] = {"scrape_bench", "echo", broker.control, NULL};
    const char *const ask_words[] = {"scrape_bench", "ask", broker.control, count, NULL};
    role_start(&echoing, echo_words);
    role_start(&asking, ask_words);
    for (size_t run = 0; run < bench->runs; run++) {
        for (unsigned i = 0; i < LAPS * way_count; i++) { /* each is the first one in turn */
            enum way way = (enum way)((run + i / way_count + i) % way_count);
            measure(&asking, broker.control, way, &answers[way], run);
        }
        end_run(answers, way_count, run);
    }
    report(bench, answers, way_count, n);
    role_fini(&asking);
    role_fini(&echoing);
    for (int i = 0; i < CROWDS; i++) {
        role_fini(&crowds[i]);
    }
    broker_fini(&broker);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(char **words);
    } roles[] = {{"crowd", crowd},
                 {"echo", echo},
                 {"ask", ask_round_trips},
                 {"scrape", scrape},
                 {"page", page}};
    struct bench bench;
    for (size_t i = 0; argc > 2 && i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(argv[1], roles[i].name) == 0) {
            return roles[i].run(argv + 2);
        }
    }
    if (!bench_init(&bench, "scrape", argc, argv)) {
        return 2;
    }
    run_all(&bench);
    return 0;
}
