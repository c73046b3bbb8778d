/* SPDX-License-Identifier: MPL-2.0 */
/* web_test.c -- errbus web over a real broker: metrics, health, and requests that it must refuse.
 *
 * The text is read by a strict reader below, and by promtool where that is installed. */
#include "tests/lib/expect.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <ctype.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_BYTES = 1024 * 1024, NAMES_MAX = 128, REQUESTS = 50 };

static struct process web;
static unsigned port;
static char answer[ANSWER_BYTES]; /* of the last request */

/* Skips the test where this build has no errbus-web. */
static void start_web(const char *first, const char *second)
{
    char errbus[512];
    char path[sizeof errbus + sizeof "-web"];
    const char *line = NULL;
    process_path("errbus", errbus, sizeof errbus);
    snprintf(path, sizeof path, "%s-web", errbus);
    if (access(path, X_OK) != 0)
        cr_skip_test("errbus-web is not built here");
    const char *argv[] = {"errbus",      "web", "-s",   stage.control, "-l",
                          "127.0.0.1:0", first, second, NULL};
    cr_assert(process_start(&web, argv, NULL));
    cr_assert(process_line(&web, SOON_MS, &line), "%s", process_complained(&web));
    cr_assert_eq(sscanf(line, "errbus web: ready: http://127.0.0.1:%u", &port), 1, "%s", line);
}

static void set_up(void)
{
    stage_open();
}

static void tear_down(void)
{
    process_fini(&web);
    stage_close();
}

TestSuite(web, .init = set_up, .fini = tear_down, .timeout = 120);

/* ---- HTTP ------------------------------------------------------------------------------------ */

static int connect_web(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Reads until the other side closes. */
static void read_all(int fd)
{
    size_t bytes = 0;
    struct pollfd item = {.fd = fd, .events = POLLIN};
    for (;;) {
        cr_assert_eq(poll(&item, 1, (int)SOON_MS), 1, "no answer");
        ssize_t got = recv(fd, answer + bytes, sizeof answer - bytes - 1, 0);
        if (got <= 0)
            break;
        bytes += (size_t)got;
    }
    answer[bytes] = '\0';
    close(fd);
}

/* The status; 0: the connection was closed without an answer. */
static unsigned send_raw(const char *request, size_t bytes)
{
    unsigned status = 0;
    int fd = connect_web();
    (void)!send(fd, request, bytes, MSG_NOSIGNAL); /* it may be closed before all is sent */
    read_all(fd);
    (void)sscanf(answer, "HTTP/1.1 %u", &status);
    return status;
}

static unsigned request(const char *method, const char *path, const char *headers)
{
    char text[1024];
    int bytes = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nConnection: close\r\n%s\r\n", method,
                         path, headers);
    return send_raw(text, (size_t)bytes);
}

static unsigned get(const char *path)
{
    return request("GET", path, "Host: localhost\r\n");
}

static const char *body(void)
{
    const char *end = strstr(answer, "\r\n\r\n");
    return end != NULL ? end + 4 : "";
}

static void expect_header(const char *line)
{
    const char *end = strstr(answer, "\r\n\r\n");
    const char *at = strstr(answer, line);
    cr_expect(at != NULL && at < end, "not '%s' in: %.600s", line, answer);
}

static void expect_in_body(const char *text)
{
    cr_expect_not_null(strstr(body(), text), "not '%s' in: %s", text, body());
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

/* Behind the labels at text; NULL: they are not well formed. */
static const char *skip_labels(const char *text)
{
    if (*text != '{')
        return text;
    do {
        text++;
        size_t bytes = name_bytes(text);
        if (bytes == 0 || text[bytes] != '=' || text[bytes + 1] != '"')
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
    static char copy[ANSWER_BYTES];
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

Test(web, serves_metrics_as_text)
{
    start_web(NULL, NULL);
    publish_some();
    cr_assert_eq(get("/metrics"), 200, "%s", answer);
    expect_header("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
    expect_header("X-Content-Type-Options: nosniff\r\n");
    struct reader reader = read_text(body());
    cr_expect_gt(reader.samples, 60);
    expect_in_body("errbus_up 1\n");
    expect_in_body("errbus_slots_settled_total{job=\"default\",outcome=\"value\"} 1\n");
    expect_in_body("errbus_slots_settled_total{job=\"default\",outcome=\"error\"} 1\n");
    expect_in_body("errbus_errors_total{job=\"default\",kind=\"application\"} 1\n");
    expect_in_body("errbus_step_seconds_bucket{le=\"+Inf\"} ");
    expect_in_body("errbus_connections{channel=\"control\"} ");
}

Test(web, serves_openmetrics_to_who_likes_it_better)
{
    start_web(NULL, NULL);
    cr_assert_eq(request("GET", "/metrics",
                         "Host: localhost\r\nAccept: application/openmetrics-text;version=1.0.0,"
                         "text/plain;q=0.5\r\n"),
                 200);
    expect_header("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n");
    expect_in_body("# TYPE errbus_messages counter\n");
    cr_expect_str_eq(body() + strlen(body()) - 6, "# EOF\n");
}

/* Each name of the man page is served, and no other. */
Test(web, serves_what_its_page_lists)
{
    char listed[NAMES_MAX][96];
    char line[256];
    unsigned count = 0;
    start_web(NULL, NULL);
    cr_assert_eq(get("/metrics"), 200);
    struct reader reader = read_text(body());
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

Test(web, says_that_the_broker_does_not_answer)
{
    start_web(NULL, NULL);
    cr_expect_eq(get("/readyz"), 200);
    cr_expect_str_eq(body(), "ready\n");
    process_signal(&stage.process, SIGSTOP);
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (get("/readyz") == 200) /* the answer of this second */
        cr_assert_lt(test_now_ms(), until_ms);
    expect_in_body("not ready: the broker did not answer within 2 s: ");
    cr_expect_eq(get("/metrics"), 200);
    (void)read_text(body());
    expect_in_body("errbus_up 0\n");
    cr_expect_eq(get("/healthz"), 200);
    cr_expect_str_eq(body(), "ok\n");
    process_signal(&stage.process, SIGCONT);
    while (get("/readyz") != 200)
        cr_assert_lt(test_now_ms(), until_ms + SOON_MS, "%s", answer);
}

/* The broker's own counter of messages shows how often it was asked. */
Test(web, asks_the_broker_at_most_once_a_second)
{
    start_web(NULL, NULL);
    int64_t began_ms = test_now_ms();
    for (int i = 0; i < REQUESTS; i++)
        cr_assert_eq(get("/metrics"), 200);
    int64_t took_ms = test_now_ms() - began_ms;
    const char *steps =
        strstr(body(), "errbus_messages_total{channel=\"control\",direction=\"in\"} ");
    cr_assert_not_null(steps);
    double messages = strtod(strchr(steps, ' ') + 1, NULL);
    /* HELLO, READY, and beats beside the questions: far fewer than requests unless each asks. */
    cr_expect_leq(messages, 12 + 4 * (double)(took_ms / 1000 + 1), "%g messages in %lld ms",
                  messages, (long long)took_ms);
}

Test(web, refuses_what_is_not_meant_for_it)
{
    static char long_header[16384];
    start_web("--host", "metrics.example");
    cr_expect_eq(request("GET", "/metrics", "Host: evil.example\r\n"), 403);
    cr_expect_eq(request("GET", "/metrics", ""), 403, "%s", answer);
    cr_expect_eq(request("GET", "/healthz", "Host: metrics.example:443\r\n"), 200);
    cr_expect_eq(request("POST", "/metrics", "Host: localhost\r\nContent-Length: 0\r\n"), 405);
    expect_header("Allow: GET, HEAD\r\n");
    cr_expect_eq(request("DELETE", "/metrics", "Host: localhost\r\n"), 405);
    cr_expect_eq(get("/"), 404);
    cr_expect_eq(get("/metrics/../../etc/passwd"), 404);
    cr_expect_eq(get("/%6detrics%00"), 404);
    cr_expect_eq(request("HEAD", "/healthz", "Host: localhost\r\n"), 200);
    cr_expect_str_empty(body());
    memset(long_header, 'a', sizeof long_header);
    memcpy(long_header, "GET /", 5);
    unsigned status = send_raw(long_header, sizeof long_header);
    cr_expect(status == 0 || status >= 400, "%u", status);
    cr_expect_eq(get("/healthz"), 200, "it lives");
}

Test(web, serves_so_many_connections_and_goes_on)
{
    int fds[64];
    start_web(NULL, NULL);
    for (size_t i = 0; i < 64; i++)
        fds[i] = connect_web();
    int more = connect_web(); /* it is closed, or waits */
    close(more);
    for (size_t i = 0; i < 64; i++)
        close(fds[i]);
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (get("/healthz") != 200)
        cr_assert_lt(test_now_ms(), until_ms);
}

Test(web, needs_a_token_where_others_can_reach_it)
{
    const char *const argv[] = {"errbus", "web", "-l", "0.0.0.0:0", NULL};
    start_web(NULL, NULL); /* skips where there is none */
    struct process process = {0};
    cr_assert(process_start(&process, argv, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 2);
    cr_expect_not_null(strstr(process_complained(&process), "--token FILE"), "%s",
                       process_complained(&process));
    process_fini(&process);
}

Test(web, asks_for_its_token)
{
    struct folder folder;
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

/* Through a shell, which finds promtool where there is one. */
Test(web, is_well_formed_as_promtool_sees_it)
{
    char command[256];
    start_web(NULL, NULL);
    if (system("command -v promtool >/dev/null && command -v curl >/dev/null") != 0)
        cr_skip_test("promtool and curl are not installed (Debian's packages prometheus and curl)");
    publish_some();
    snprintf(command, sizeof command,
             "curl -sf http://127.0.0.1:%u/metrics | promtool check metrics", port);
    struct process process = {0};
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    cr_assert(process_start(&process, argv, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 0, "%s", process_complained(&process));
    cr_expect_str_empty(process_complained(&process), "%s", process_complained(&process));
    cr_expect_str_empty(process_said(&process), "%s", process_said(&process));
    process_fini(&process);
}
