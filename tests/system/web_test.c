/* SPDX-License-Identifier: MPL-2.0 */
/* web_test.c -- errbus web over a real broker: metrics, health, and requests that it must refuse.
 *
 * The text is read by a strict reader below, and by those of Prometheus where they are there. */
#include "clients/web/priority.h"
#include "tests/lib/expect.h"
#include "tests/lib/fetch.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TEXT_BYTES = 1024 * 1024,
    NAMES_MAX = 128,
    REQUESTS = 50,
    CONNECTIONS_MAX = 64,
    QUESTIONS_MAX = 32,
    ANSWER_BYTES_MAX = 4096
};

static struct process web;
static unsigned port;

static void start_web(const char *first, const char *second)
{
    port = fetch_start_web(&web, stage.control, first, second);
}

static void set_up(void)
{
    fetch_needs_web();
    stage_open();
}

static void tear_down(void)
{
    process_fini(&web);
    stage_close();
}

TestSuite(web, .init = set_up, .fini = tear_down, .timeout = 120);

static unsigned get(const char *path)
{
    return fetch(port, path);
}

static unsigned request(const char *method, const char *path, const char *headers)
{
    return fetch_with(port, method, path, headers);
}

/* ---- a strict reader of the text format ------------------------------------------------------ */

struct reader {
    char names[NAMES_MAX][96]; /* of metrics, as TYPE has them */
    char type[16];             /* of the last metric */
    unsigned count;
    unsigned samples;
};

static size_t name_bytes(const char *text)
{
    size_t bytes = isalpha((unsigned char)*text) || *text == '_' ? 1 : 0;
    while (bytes > 0 && (isalnum((unsigned char)text[bytes]) || text[bytes] == '_'))
        bytes++;
    return bytes;
}

/* Whether the values of the label are bounded, whatever parties do: none names a party, a topic or
 * an error. */
static bool is_bounded(const char *name, size_t bytes)
{
    static const char *const labels[] = {"by",     "channel", "direction", "group",   "job",
                                         "kind",   "le",      "limit",     "outcome", "reason",
                                         "result", "state",   "version"};
    bool is_known = false;
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++)
        is_known |= strlen(labels[i]) == bytes && strncmp(labels[i], name, bytes) == 0;
    return is_known;
}

/* Behind the labels at text; NULL: they are not well formed, or may have any number of values. */
static const char *skip_labels(const char *text)
{
    if (*text != '{')
        return text;
    do {
        text++;
        size_t bytes = name_bytes(text);
        if (!is_bounded(text, bytes) || text[bytes] != '=' || text[bytes + 1] != '"')
            return NULL;
        for (text += bytes + 2; *text != '"'; text++) {
            if (*text == '\\')
                text++;
            if (*text == '\0' || *text == '\n')
                return NULL;
        }
        text++;
    } while (*text == ',');
    return *text == '}' ? text + 1 : NULL;
}

static void read_type(struct reader *reader, const char *line)
{
    char name[96];
    char rest[2];
    cr_assert_eq(sscanf(line, "# TYPE %95s %15s%1s", name, reader->type, rest), 2, "%s", line);
    cr_assert_lt(reader->count, NAMES_MAX);
    for (unsigned i = 0; i < reader->count; i++)
        cr_expect_str_neq(reader->names[i], name, "a metric has one place");
    memcpy(reader->names[reader->count++], name, sizeof name);
}

/* A sample belongs to the metric above it. */
static void read_sample(struct reader *reader, const char *line)
{
    static const char *const suffixes[] = {"", "_bucket", "_sum", "_count"};
    bool is_histogram = strcmp(reader->type, "histogram") == 0;
    size_t bytes = name_bytes(line);
    bool is_own = false;
    cr_assert_gt(reader->count, 0, "a sample before any TYPE: %s", line);
    const char *name = reader->names[reader->count - 1];
    for (int i = is_histogram ? 1 : 0; i < (is_histogram ? 4 : 1); i++)
        is_own |= bytes == strlen(name) + strlen(suffixes[i]) &&
                  strncmp(line, name, strlen(name)) == 0 &&
                  strncmp(line + strlen(name), suffixes[i], strlen(suffixes[i])) == 0;
    cr_expect(is_own, "no sample of %s: %s", name, line);
    const char *value = skip_labels(line + bytes);
    cr_assert(value != NULL && *value == ' ', "%s", line);
    char *end = NULL;
    double number = strtod(value + 1, &end);
    cr_expect(end != value + 1 && *end == '\0', "%s", line);
    cr_expect(number >= 0, "%s", line);
    if (strcmp(reader->type, "counter") == 0)
        cr_expect_eq(strncmp(line + bytes - 6, "_total", 6), 0, "%s", line);
    reader->samples += 1;
}

static struct reader read_text(const char *text)
{
    static struct reader reader;
    static char copy[TEXT_BYTES];
    char *rest = NULL;
    memset(&reader, 0, sizeof reader);
    snprintf(copy, sizeof copy, "%s", text);
    cr_assert(strlen(text) > 0 && text[strlen(text) - 1] == '\n', "the last line has no end");
    for (char *line = strtok_r(copy, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "# TYPE ", 7) == 0)
            read_type(&reader, line);
        else if (line[0] != '#')
            read_sample(&reader, line);
        else
            cr_expect(strncmp(line, "# HELP errbus_", 14) == 0, "%s", line);
    }
    return reader;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void publish_some(void)
{
    struct bus *alice = must_open("alice");
    struct bus_slot *slot = must_reserve(alice, "x");
    must_publish(alice, "x", "one");
    fail_slot(&slot, "test.failed", "a \"quote\"");
    must_flush(alice);
    must_close(&alice);
}

/* All metrics: a broker on a busy machine may not answer in time at once. */
static void get_metrics(const char *headers)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    do {
        cr_assert_lt(test_now_ms(), until_ms, "%s", fetch_answer());
        cr_assert_eq(request("GET", "/metrics", headers), 200, "%s", fetch_answer());
    } while (strstr(fetch_body(), "errbus_up 1\n") == NULL);
}

#define OWN_HOST "Host: localhost\r\n"

Test(web, serves_metrics_as_text)
{
    start_web(NULL, NULL);
    publish_some();
    get_metrics(OWN_HOST);
    fetch_expect_header("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
    fetch_expect_header("X-Content-Type-Options: nosniff\r\n");
    struct reader reader = read_text(fetch_body());
    cr_expect_gt(reader.samples, 60);
    fetch_expect_in_body("errbus_slots_settled_total{job=\"default\",outcome=\"value\"} 1\n");
    fetch_expect_in_body("errbus_slots_settled_total{job=\"default\",outcome=\"error\"} 1\n");
    fetch_expect_in_body("errbus_errors_total{job=\"default\",kind=\"application\"} 1\n");
    fetch_expect_in_body("errbus_step_seconds_bucket{le=\"+Inf\"} ");
    fetch_expect_in_body("errbus_connections{channel=\"control\"} ");
}

/* Each histogram saw something: a step, a write to the journal, an error on its way to a reader. */
Test(web, measures_durations)
{
    static const char *const never[] = {"errbus_step_seconds_count 0\n",
                                        "errbus_journal_write_seconds_count 0\n",
                                        "errbus_error_delivery_seconds_count 0\n"};
    char journal[FOLDER_PATH_BYTES_MAX + 16];
    struct folder own;
    cr_assert(folder_make(&own));
    snprintf(journal, sizeof journal, "%s/journal", own.path);
    stage_close();
    stage_open_with((const char *const[]){"--journal", journal, NULL});
    start_web(NULL, NULL);
    struct bus *bob = must_open("bob");
    struct bus_sub *sub = must_subscribe(bob, "alice/x");
    publish_some();
    expect_failed(sub, "alice/x", 0, "application");
    get_metrics(OWN_HOST);
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        cr_expect_null(strstr(fetch_body(), never[i]), "%s", never[i]);
    fetch_expect_in_body("errbus_journal_state{state=\"well\"} 1\n");
    bus_sub_close(&sub);
    must_close(&bob);
    stage_close();
    folder_fini(&own);
}

Test(web, serves_openmetrics_to_who_likes_it_better)
{
    start_web(NULL, NULL);
    get_metrics(OWN_HOST "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n");
    fetch_expect_header(
        "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n");
    fetch_expect_in_body("# TYPE errbus_messages counter\n");
    cr_expect_str_eq(fetch_body() + strlen(fetch_body()) - 6, "# EOF\n");
}

/* Each name of the man page is served, and no other. */
Test(web, serves_what_its_page_lists)
{
    char listed[NAMES_MAX][96];
    char line[256];
    unsigned count = 0;
    start_web(NULL, NULL);
    get_metrics(OWN_HOST);
    struct reader reader = read_text(fetch_body());
    FILE *page = fopen(TEST_SOURCE_DIR "/clients/errbus-web.1", "re");
    cr_assert_not_null(page);
    while (fgets(line, sizeof line, page) != NULL)
        if (sscanf(line, ".It Li %95s", listed[count]) == 1)
            count += strncmp(listed[count], "errbus_", 7) == 0;
    fclose(page);
    cr_assert_eq(count, reader.count, "the page has %u, and %u are served", count, reader.count);
    for (unsigned i = 0; i < count; i++)
        cr_expect_str_eq(listed[i], reader.names[i], "in the order of the page");
}

/* ---- whether the broker is ready ------------------------------------------------------------- */

static void await_readiness(unsigned status, const char *words)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (get("/readyz") != status) /* the answer of the last second may be served */
        cr_assert_lt(test_now_ms(), until_ms, "no %u: %s", status, fetch_answer());
    fetch_expect_in_body(words);
    cr_expect_eq(get("/healthz"), 200, "errbus web itself is well");
    cr_expect_str_eq(fetch_body(), "ok\n");
}

/* The metrics are served all the same. */
static void expect_down(void)
{
    cr_expect_eq(get("/metrics"), 200);
    (void)read_text(fetch_body());
    fetch_expect_in_body("errbus_up 0\n");
}

static struct folder folder;

/* A broker that can be started again at the same place. */
static void open_stage_here(void)
{
    char control[FOLDER_PATH_BYTES_MAX + 16], data[FOLDER_PATH_BYTES_MAX + 16];
    snprintf(control, sizeof control, "ipc://%s/control", folder.path);
    snprintf(data, sizeof data, "ipc://%s/data", folder.path);
    stage_close();
    stage_open_with((const char *const[]){"--control", control, "--data", data, NULL});
}

/* A full disk: journal_disk_test.c; other states of a journal: unit/ready_test.c. */
Test(web, tells_whether_the_broker_is_ready)
{
    static const char nobody[] = "not ready: the broker does not answer: ";
    double took_s = 0;
    cr_assert(folder_make(&folder));
    open_stage_here();
    start_web(NULL, NULL);
    await_readiness(200, "ready\n");
    get_metrics(OWN_HOST);
    process_signal(&stage.process, SIGSTOP);
    await_readiness(503, nobody);
    expect_down();
    const char *took = strstr(fetch_body(), "\nerrbus_web_scrape_seconds ");
    cr_assert_not_null(took);
    cr_expect_eq(sscanf(took, "\nerrbus_web_scrape_seconds %lf", &took_s), 1);
    cr_expect(took_s >= 1.9 && took_s < (double)SOON_MS / 1000, "it took %g s", took_s);
    process_signal(&stage.process, SIGCONT);
    await_readiness(200, "ready\n");
    cr_expect_eq(broker_stop(&stage, SOON_MS), 0);
    await_readiness(503, nobody);
    expect_down();
    open_stage_here();
    await_readiness(200, "ready\n");
    get_metrics(OWN_HOST);
    folder_fini(&folder);
}

/* It begins before there is a broker. */
Test(web, waits_for_a_broker_that_starts)
{
    cr_assert(folder_make(&folder));
    open_stage_here();
    cr_expect_eq(broker_stop(&stage, SOON_MS), 0);
    start_web(NULL, NULL);
    await_readiness(503, "not ready: the broker does not answer: ");
    open_stage_here();
    await_readiness(200, "ready\n");
    folder_fini(&folder);
}

/* It listens, and still reads its journal. */
Test(web, is_not_ready_while_the_broker_replays)
{
    char control[FOLDER_PATH_BYTES_MAX + 16], data[FOLDER_PATH_BYTES_MAX + 16];
    char journal[FOLDER_PATH_BYTES_MAX + 16];
    const char *line = NULL;
    cr_assert(folder_make(&folder));
    snprintf(control, sizeof control, "ipc://%s/control", folder.path);
    snprintf(data, sizeof data, "ipc://%s/data", folder.path);
    snprintf(journal, sizeof journal, "%s/journal", folder.path);
    const char *const argv[] = {"errbusd_failpoints", "--control", control, "--data", data,
                                "--journal",          journal,     NULL};
    stage_close();
    stage_open_with(argv + 1);
    struct bus *alice = must_open("alice");
    must_publish(alice, "a", "x");
    must_close(&alice);
    process_signal(&stage.process, SIGKILL);
    stage_close();
    cr_assert(
        process_start(&stage.process, argv, (const char *const[]){"ERRBUS_HOLD=record:2", NULL}));
    cr_assert(process_complaint(&stage.process, SOON_MS, &line));
    cr_assert_str_eq(line, "held");
    port = fetch_start_web(&web, control, NULL, NULL);
    await_readiness(503, "not ready: the broker does not answer: ");
    process_signal(&stage.process, SIGKILL);
    stage_close();
    stage_open_with(argv + 1);
    await_readiness(200, "ready\n");
    folder_fini(&folder);
}

/* A party that does not leave keeps the broker a while after its SIGTERM. */
Test(web, is_not_ready_while_the_broker_stops)
{
    struct process party = {0};
    const char *line = NULL;
    const char *const argv[] = {"errbus", "sub", "-s",    stage.control, "-p",
                                "alice",  "-v",  "bob/x", NULL};
    start_web(NULL, NULL);
    await_readiness(200, "ready\n");
    cr_assert(process_start(&party, argv, NULL));
    struct bus *bob = must_open("bob");
    must_publish(bob, "x", "here");
    cr_assert(process_line(&party, SOON_MS, &line), "%s", process_complained(&party));
    must_close(&bob);
    process_signal(&party, SIGSTOP);
    process_signal(&stage.process, SIGTERM);
    await_readiness(503, "not ready: the broker does not answer: ");
    process_fini(&party);
}

/* The broker's own counter of messages shows how often it was asked. */
Test(web, asks_the_broker_at_most_once_a_second)
{
    start_web(NULL, NULL);
    int64_t began_ms = test_now_ms();
    for (int i = 0; i < REQUESTS; i++)
        cr_assert_eq(get("/metrics"), 200);
    get_metrics(OWN_HOST);
    int64_t took_ms = test_now_ms() - began_ms;
    const char *steps =
        strstr(fetch_body(), "errbus_messages_total{channel=\"control\",direction=\"in\"} ");
    cr_assert_not_null(steps);
    double messages = strtod(strchr(steps, ' ') + 1, NULL);
    /* HELLO, READY, and beats beside the questions: far fewer than requests unless each asks. */
    cr_expect_leq(messages, 12 + 4 * (double)(took_ms / 1000 + 1), "%g messages in %lld ms",
                  messages, (long long)took_ms);
}

/* All threads, those of libraries too: parties come first where there are too few cores. */
Test(web, stays_behind_those_who_work)
{
    char path[64];
    unsigned threads = 0;
    start_web(NULL, NULL);
    cr_assert_eq(get("/metrics"), 200);
    cr_assert_eq(get("/api/status"), 200);
    snprintf(path, sizeof path, "/proc/%d/task", (int)web.pid);
    DIR *tasks = opendir(path);
    cr_assert_not_null(tasks);
    for (const struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread == 0)
            continue;
        threads += 1;
        cr_expect(sched_getscheduler(thread) == SCHED_BATCH ||
                  sched_getscheduler(0) != SCHED_OTHER); /* the tests have a policy of their own */
        cr_expect_geq(getpriority(PRIO_PROCESS, (id_t)thread), PRIORITY_NICE);
    }
    closedir(tasks);
    cr_expect_gt(threads, 2);
}

/* ---- requests that it must refuse ------------------------------------------------------------ */

Test(web, answers_get_and_head_alone)
{
    static const char *const wrong[] = {"POST",  "PUT",   "DELETE", "OPTIONS",
                                        "PATCH", "TRACE", "get",    "GETS"};
    start_web(NULL, NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_expect_eq(request(wrong[i], "/metrics", "Host: localhost\r\nContent-Length: 0\r\n"), 405,
                     "%s: %.200s", wrong[i], fetch_answer());
        fetch_expect_header("Allow: GET, HEAD\r\n");
    }
    /* It does not wait for a body that never comes. */
    cr_expect_eq(request("POST", "/metrics", "Host: localhost\r\nContent-Length: 9999999\r\n"),
                 405);
    cr_expect_eq(request("HEAD", "/metrics", "Host: localhost\r\n"), 200);
    fetch_expect_header("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
    cr_expect_str_empty(fetch_body());
}

Test(web, answers_to_its_own_names_alone)
{
    static const struct {
        const char *headers;
        unsigned status;
    } cases[] = {
        {"Host: localhost\r\n", 200},
        {"Host: LOCALHOST:80\r\n", 200},
        {"Host: 127.0.0.1:7372\r\n", 200},
        {"Host: [::1]\r\n", 200},
        {"Host: metrics.example:443\r\n", 200},
        {"", 403},
        {"Host:\r\n", 403},
        {"Host: evil.example\r\n", 403},
        {"Host: localhost.evil.example\r\n", 403},
        {"Host: evil.example\r\nX-Forwarded-Host: localhost\r\n", 403},
        {"Host: localhost@evil.example\r\n", 403},
        {"Host: 127.0.0.1.evil.example\r\n", 403},
        {"Host: 0x7f000001\r\n", 403},
        {"Host: evil.example\r\nHost: localhost\r\n", 403},
        {"Host: localhost\r\nHost: evil.example\r\n", 403},
    };
    start_web("--host", "metrics.example");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned status = request("GET", "/healthz", cases[i].headers);
        /* libmicrohttpd itself refuses a request of HTTP/1.1 without a host. */
        cr_expect(status == cases[i].status || (status == 400 && cases[i].status == 403),
                  "'%s': %u", cases[i].headers, status);
    }
}

Test(web, has_its_paths_alone)
{
    static const char *const wrong[] = {"//metrics",
                                        "/metrics/",
                                        "/metrics/../metrics",
                                        "/./metrics",
                                        "/METRICS",
                                        "/%6detrics",
                                        "/metrics%00",
                                        "/metrics%2f",
                                        "/metrics;x=1",
                                        "/metrics\t",
                                        "/../etc/passwd",
                                        "/%2e%2e/etc/",
                                        "/healthz/readyz",
                                        "metrics",
                                        "*",
                                        "http://localhost/metrics"};
    start_web(NULL, NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        unsigned status = get(wrong[i]);
        cr_expect(status == 404 || status == 400, "'%s': %u", wrong[i], status);
    }
    cr_expect_eq(get("/metrics?x=1"), 200, "a query is not part of the path");
    cr_expect_eq(get("/healthz"), 200);
    cr_expect_eq(get("/readyz"), 200);
}

/* A header of this many bytes. */
static unsigned request_with_header(size_t bytes)
{
    static char text[64 * 1024];
    static const char head[] =
        "GET /healthz HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\nX: ";
    size_t used = sizeof head - 1;
    memcpy(text, head, used);
    memset(text + used, 'x', bytes);
    memcpy(text + used + bytes, "\r\n\r\n", 4);
    return fetch_raw(port, text, used + bytes + 4);
}

Test(web, takes_headers_of_so_many_bytes)
{
    static char path[8200];
    unsigned status = 0;
    start_web(NULL, NULL);
    cr_expect_eq(request_with_header(4096), 200);
    cr_expect_eq(request_with_header(8192), 431, "%.200s", fetch_answer());
    cr_expect_eq(request_with_header(60000), 431, "%.200s", fetch_answer());
    memset(path, 'a', sizeof path - 1);
    memcpy(path, "GET /", 5);
    status = fetch_raw(port, path, sizeof path - 1);
    cr_expect(status == 0 || status == 414 || status == 431, "%u", status);
    status = fetch_raw(port, "\x16\x03\x01\x02\x00\x01", 6); /* TLS */
    cr_expect(status == 0 || status == 400, "%u", status);
    cr_expect_eq(get("/healthz"), 200, "it lives");
}

/* Each answer is read before the next request. */
static void ask_in_turn(int fd, unsigned times)
{
    static const char request_text[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char text[ANSWER_BYTES_MAX];
    for (unsigned i = 0; i < times; i++) {
        size_t bytes = 0;
        cr_assert_eq(send(fd, request_text, sizeof request_text - 1, MSG_NOSIGNAL),
                     sizeof request_text - 1);
        do {
            struct pollfd item = {.fd = fd, .events = POLLIN};
            cr_assert_eq(poll(&item, 1, (int)SOON_MS), 1);
            ssize_t got = recv(fd, text + bytes, sizeof text - bytes - 1, 0);
            cr_assert_gt(got, 0);
            bytes += (size_t)got;
            text[bytes] = '\0';
        } while (strstr(text, "\r\n\r\nok\n") == NULL);
    }
}

/* One more connection waits until another closes, while those that are there are served. */
Test(web, serves_so_many_connections_and_goes_on)
{
    static const char last[] =
        "GET /healthz HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n\r\n";
    int fds[CONNECTIONS_MAX];
    start_web(NULL, NULL);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        fds[i] = fetch_connect(port);
        ask_in_turn(fds[i], 1);
    }
    int more = fetch_connect(port);
    cr_assert_eq(send(more, last, sizeof last - 1, MSG_NOSIGNAL), sizeof last - 1);
    ask_in_turn(fds[0], 20);
    struct pollfd item = {.fd = more, .events = POLLIN};
    cr_expect_eq(poll(&item, 1, 0), 0, "it did not wait");
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        close(fds[i]);
    cr_expect_eq(fetch_rest(more), 200);
    cr_expect_eq(get("/healthz"), 200);
}

/* So many different questions at once; how many were too many. */
static unsigned ask_at_once(unsigned count)
{
    static unsigned asked; /* so that no question comes twice */
    int fds[CONNECTIONS_MAX];
    unsigned refused = 0;
    for (unsigned i = 0; i < count; i++) {
        char text[128];
        int bytes = snprintf(text, sizeof text,
                             "GET /api/why?job=job%u HTTP/1.1\r\nConnection: close\r\n"
                             "Host: localhost\r\n\r\n",
                             asked++);
        fds[i] = fetch_connect(port);
        cr_assert_eq(send(fds[i], text, (size_t)bytes, MSG_NOSIGNAL), bytes);
    }
    for (unsigned i = 0; i < count; i++) {
        unsigned status = fetch_rest(fds[i]);
        bool is_refused = strstr(fetch_answer(), "too many different questions") != NULL;
        cr_expect_eq(status, is_refused ? 503 : 404, "%s", fetch_answer());
        refused += is_refused;
    }
    return refused;
}

/* On a slow machine a round may take two seconds, and so none of it be too many. */
Test(web, asks_so_many_different_questions_a_second)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    start_web(NULL, NULL);
    cr_expect_eq(ask_at_once(QUESTIONS_MAX), 0);
    while (ask_at_once(CONNECTIONS_MAX - 1) == 0)
        cr_assert_lt(test_now_ms(), until_ms, "nothing is too many");
}

Test(web, needs_a_token_where_others_can_reach_it)
{
    const char *const argv[] = {"errbus", "web", "-l", "0.0.0.0:0", NULL};
    struct process process = {0};
    cr_assert(process_start(&process, argv, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 2);
    cr_expect_not_null(strstr(process_complained(&process), "--token FILE"), "%s",
                       process_complained(&process));
    process_fini(&process);
}

Test(web, asks_for_its_token)
{
    char path[FOLDER_PATH_BYTES_MAX * 2];
    cr_assert(folder_make(&folder));
    cr_assert(folder_write(&folder, "token", "0123456789abcdef\n", path));
    start_web("--token", path);
    cr_expect_eq(get("/metrics"), 401);
    cr_expect_eq(get("/healthz"), 200);
    cr_expect_eq(
        request("GET", "/metrics", "Host: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\n"),
        200);
    folder_fini(&folder);
}

/* A page whose name was made to point here has no token: for any name it reads as little. */
Test(web, is_called_by_any_name_where_it_asks_for_a_token)
{
    static const char *const hosts[] = {"Host: broker.example:7372\r\n", "Host: 192.0.2.7\r\n"};
    char path[FOLDER_PATH_BYTES_MAX * 2];
    char headers[128];
    cr_assert(folder_make(&folder));
    cr_assert(folder_write(&folder, "token", "0123456789abcdef\n", path));
    start_web("--token", path);
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        snprintf(headers, sizeof headers, "%sAuthorization: Bearer 0123456789abcdef\r\n", hosts[i]);
        cr_expect_eq(request("GET", "/metrics", headers), 200, "%s", hosts[i]);
        cr_expect_eq(request("GET", "/healthz", hosts[i]), 200, "%s", hosts[i]);
        cr_expect_eq(request("GET", "/metrics", hosts[i]), 401, "%s", hosts[i]);
        cr_expect_eq(request("GET", "/api/status", hosts[i]), 401, "%s", hosts[i]);
        cr_expect_eq(request("GET", "/api/login", hosts[i]), 401, "%s", hosts[i]);
    }
    folder_fini(&folder);
}

/* ---- what other readers make of it ----------------------------------------------------------- */

/* The body of the last answer, as a file. */
static void keep_body(char path[FOLDER_PATH_BYTES_MAX])
{
    cr_assert(folder_make(&folder));
    cr_assert(folder_write(&folder, "metrics", fetch_body(), path));
}

/* A line of shell, in which the file is $1; it must succeed, and say nothing. */
static void expect_silent(const char *line, const char *path)
{
    struct process process = {0};
    const char *const argv[] = {"/bin/sh", "-c", line, "sh", path, NULL};
    cr_assert(process_start(&process, argv, NULL));
    cr_expect_eq(process_wait(&process, 3 * SOON_MS), 0, "%s", process_complained(&process));
    cr_expect_str_empty(process_complained(&process), "%s", process_complained(&process));
    cr_expect_str_empty(process_said(&process), "%s", process_said(&process));
    process_fini(&process);
    folder_fini(&folder);
}

Test(web, is_well_formed_as_promtool_sees_it)
{
    char path[FOLDER_PATH_BYTES_MAX];
    start_web(NULL, NULL);
    if (access("/usr/bin/promtool", X_OK) != 0)
        cr_skip_test("promtool is not installed (Debian's package prometheus)");
    publish_some();
    get_metrics(OWN_HOST);
    keep_body(path);
    expect_silent("exec /usr/bin/promtool check metrics <\"$1\"", path);
}

/* The parser of Prometheus' own library for Python is strict. */
Test(web, is_openmetrics_as_a_strict_parser_sees_it)
{
    static const char parse[] =
        "import sys\n"
        "from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse\n"
        "families = {f.name: f for f in parse(open(sys.argv[1], encoding='utf-8').read())}\n"
        "steps = {s.name: s.value for s in families['errbus_step_seconds'].samples}\n"
        "assert steps['errbus_step_seconds_count'] > 0, steps\n"
        "assert families['errbus_slots_settled'].type == 'counter'\n"
        "assert families['errbus_kept_bytes'].unit == 'bytes'\n";
    char path[FOLDER_PATH_BYTES_MAX];
    char line[2048];
    start_web(NULL, NULL);
    if (system("/usr/bin/python3 -c 'import prometheus_client' 2>/dev/null") != 0)
        cr_skip_test("prometheus_client is not installed (Debian's python3-prometheus-client)");
    publish_some();
    get_metrics(OWN_HOST "Accept: application/openmetrics-text\r\n");
    keep_body(path);
    snprintf(line, sizeof line, "exec /usr/bin/python3 -c \"%s\" \"$1\"", parse);
    expect_silent(line, path);
}
