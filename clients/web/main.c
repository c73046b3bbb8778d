/* SPDX-License-Identifier: MPL-2.0 */
/* main.c -- errbus web: metrics, health and a live page of a broker over HTTP. */
#include "clients/cli.h"
#include "clients/web/exposition.h"
#include "clients/web/http.h"
#include "clients/web/listen.h"
#include "clients/web/priority.h"
#include "clients/web/ready.h"
#include "clients/web/site.h"
#include "clients/web_flags.h"

#include <bus/metrics.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define ANSWER_MS INT64_C(2000) /* a broker that takes longer counts as down */
enum { TOKEN_BYTES_MIN = 16, TOKEN_BYTES_MAX = HTTP_TOKEN_BYTES_MAX };

struct web {
    struct cli cli;
    struct web_flags flags;
    char token[TOKEN_BYTES_MAX + 2];
    struct bus_admin *admin; /* NULL: the broker was not reached last time */
    struct bus_admin *scout; /* asks what may have to wait, and so holds up nothing else */
    struct http *http;
    struct site *site;
};

/* ---- what is served -------------------------------------------------------------------------- */

/* Two metrics are this program's own. */
static const struct bus_metric metric_up = {.name = "errbus_up",
                                            .help = "Whether the broker answered within 2 s.",
                                            .unit = "",
                                            .type = BUS_METRIC_GAUGE};
static const struct bus_metric metric_scrape = {
    .name = "errbus_web_scrape_seconds",
    .help = "How long the broker took to answer for this page.",
    .unit = "seconds",
    .type = BUS_METRIC_GAUGE};

static void write_own(FILE *out, enum exposition format, const struct bus_metric *metric,
                      double value)
{
    const struct bus_metric_sample sample = {.suffix = "", .value = value};
    exposition_metric(out, format, metric);
    exposition_sample(out, format, metric, &sample);
}

/* metrics NULL: the broker did not answer.  NULL: no memory. */
static char *write_all(enum exposition format, const struct bus_metrics *metrics, int64_t took_ms,
                       size_t *out_bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, out_bytes);
    if (out == NULL) {
        return NULL;
    }
    write_own(out, format, &metric_up, metrics != NULL);
    write_own(out, format, &metric_scrape, (double)took_ms / 1000);
    for (size_t i = 0; i < bus_metrics_count(metrics); i++) {
        const struct bus_metric *metric = bus_metrics_at(metrics, i);
        exposition_metric(out, format, metric);
        for (size_t j = 0; j < metric->count; j++) {
            exposition_sample(out, format, metric,
                              bus_metrics_sample_at(metrics, metric->first + j));
        }
    }
    exposition_end(out, format);
    bool is_whole = fflush(out) == 0 && !ferror(out);
    fclose(out);
    if (!is_whole) {
        free(text);
        text = NULL;
    }
    return text;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static int64_t left_until(int64_t until_ms)
{
    int64_t left_ms = until_ms - cli_now_ms();
    return left_ms > 0 ? left_ms : 0;
}

/* A handle goes on over restarts of the broker.  It is made anew only where none could be made. */
static struct bus_metrics *ask(struct web *web, int64_t until_ms, struct bus_error **reterr)
{
    struct bus_admin_options options;
    struct bus_metrics *metrics = NULL;
    enum bus_err err = BUS_OK;
    bus_admin_options_init(&options);
    if (web->admin == NULL) {
        err = bus_admin_open(web->cli.server, &options, ANSWER_MS, &web->admin, reterr);
    }
    if (err == BUS_OK) {
        err = bus_admin_metrics_get(web->admin, left_until(until_ms), &metrics, reterr);
    }
    if (err != BUS_OK && err != BUS_ETIMEDOUT) {
        bus_admin_close(&web->admin);
    }
    return metrics;
}

/* A shard asks the directory where a job is before it lets a party in, and so it does for this
 * question.  *reterr: it gets no answer. */
static void ask_directory(struct web *web, int64_t until_ms, struct bus_error **reterr)
{
    struct bus_shards *shards = NULL;
    enum bus_err err = BUS_OK;
    if (web->scout == NULL) {
        err = bus_admin_open(web->cli.server, NULL, left_until(until_ms), &web->scout, reterr);
    }
    if (err == BUS_OK) {
        err = bus_shards_get(web->scout, left_until(until_ms), &shards, reterr);
    }
    if (err != BUS_OK) {
        bus_admin_close(&web->scout);
    }
    bus_shards_free(&shards);
}

/* false: no memory. */
static bool refresh(struct web *web)
{
    struct bus_error *error = NULL;
    struct http_answer answer = {0};
    char ready[READY_BYTES];
    int64_t began_ms = cli_now_ms();
    struct bus_metrics *metrics = ask(web, began_ms + ANSWER_MS, &error);
    int64_t took_ms = cli_now_ms() - began_ms;
    if (metrics != NULL) {
        ask_directory(web, began_ms + ANSWER_MS, &error);
    }
    bool is_made = true;
    for (int i = 0; i < EXPOSITION_COUNT; i++) {
        answer.metrics[i] =
            write_all((enum exposition)i, metrics, took_ms, &answer.metrics_bytes[i]);
        is_made &= answer.metrics[i] != NULL;
    }
    answer.is_ready = ready_say(metrics, error, ready);
    answer.ready = strdup(ready);
    is_made &= answer.ready != NULL;
    if (is_made) {
        http_publish(web->http, &answer, cli_now_ms());
    }
    bus_metrics_free(&metrics);
    bus_error_unref(&error);
    return is_made;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* The first line of the file.  CLI_OK, or the exit status after saying why not. */
static int read_token(struct web *web)
{
    FILE *file = fopen(web->flags.token_path, "re");
    char *line = file != NULL ? fgets(web->token, sizeof web->token, file) : NULL;
    if (file != NULL) {
        fclose(file);
    }
    if (line == NULL) {
        fprintf(stderr, "%s: cannot read a token from %.200s\n", web->cli.program,
                web->flags.token_path);
        return CLI_DENIED;
    }
    web->token[strcspn(web->token, "\r\n")] = '\0';
    size_t bytes = strlen(web->token);
    if (bytes < TOKEN_BYTES_MIN || bytes > TOKEN_BYTES_MAX) {
        return cli_usage(&web->cli, "a token has %d to %d bytes; the one in %.200s has %zu",
                         TOKEN_BYTES_MIN, TOKEN_BYTES_MAX, web->flags.token_path, bytes);
    }
    if (!listen_is_plain_token(web->token)) {
        return cli_usage(
            &web->cli,
            "a token has letters, digits and -._~+/= alone; the one in %.200s has others",
            web->flags.token_path);
    }
    return CLI_OK;
}

static int open_http(struct web *web)
{
    struct http_options options = {.host = web->flags.host};
    char complaint[256] = "";
    const char *fault = listen_read(web->flags.listen, &options.address);
    if (fault != NULL) {
        return cli_usage(&web->cli, "--listen '%.200s': %s", web->flags.listen, fault);
    }
    if (!options.address.is_loopback && web->flags.token_path == NULL) {
        return cli_usage(&web->cli,
                         "%.200s can be reached by other machines: name a file with --token FILE "
                         "(openssl rand -hex 32 makes a token), or listen at " WEB_LISTEN_DEFAULT,
                         web->flags.listen);
    }
    if (web->flags.token_path != NULL) {
        int result = read_token(web);
        if (result != CLI_OK) {
            return result;
        }
        options.token = web->token;
    }
    web->site = site_open(web->cli.server);
    if (web->site == NULL) {
        fprintf(stderr, "%s: out of memory\n", web->cli.program);
        return CLI_FAILED;
    }
    options.site = web->site;
    web->http = http_open(&options, complaint, sizeof complaint);
    if (web->http == NULL) {
        site_stop(web->site);
        site_close(&web->site);
        fprintf(stderr, "%s: cannot listen at %.200s: %s\n", web->cli.program, web->flags.listen,
                complaint);
        return CLI_FAILED;
    }
    return CLI_OK;
}

/* A descriptor that is readable when a request waits, or standard input has something; -1: errno
 * says why not. */
static int watch(const struct web *web)
{
    struct epoll_event wanted = {.events = EPOLLIN, .data.fd = http_wanted_fd(web->http)};
    struct epoll_event input = {.events = EPOLLIN, .data.fd = STDIN_FILENO};
    int fd = epoll_create1(EPOLL_CLOEXEC);
    bool is_made =
        fd >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, wanted.data.fd, &wanted) == 0 &&
        (!web->flags.is_until_eof || epoll_ctl(fd, EPOLL_CTL_ADD, STDIN_FILENO, &input) == 0);
    if (is_made || fd < 0) {
        return fd;
    }
    close(fd);
    return -1;
}

/* What is in it before its end is dropped. */
static bool has_input_ended(const struct web *web, int fd)
{
    char dropped[256];
    struct epoll_event events[2];
    int count = web->flags.is_until_eof ? epoll_wait(fd, events, 2, 0) : 0;
    for (int i = 0; i < count; i++) {
        if (events[i].data.fd == STDIN_FILENO && read(STDIN_FILENO, dropped, sizeof dropped) <= 0) {
            return true;
        }
    }
    return false;
}

static int serve(struct web *web)
{
    const char *colon = strrchr(web->flags.listen, ':');
    int host_bytes = colon != NULL ? (int)(colon - web->flags.listen) : 0;
    printf("errbus web: ready: http://%.*s:%u\n", host_bytes > 0 ? host_bytes : 9,
           host_bytes > 0 ? web->flags.listen : "127.0.0.1", http_port(web->http));
    int result = CLI_OK;
    if (!cli_flush_output(&web->cli, &result)) {
        return result;
    }
    int fd = watch(web);
    if (fd < 0) {
        fprintf(stderr, "%s: cannot wait: %s\n", web->cli.program, strerror(errno));
        return CLI_FAILED;
    }
    while (cli_wait(&web->cli, fd, -1) == CLI_WOKEN_READABLE && !has_input_ended(web, fd)) {
        if (!refresh(web)) {
            fprintf(stderr, "%s: out of memory\n", web->cli.program);
            return CLI_FAILED;
        }
    }
    return CLI_OK;
}

int main(int argc, char **argv)
{
    struct web web = {.admin = NULL};
    int result = CLI_OK;
    if (!web_flags_read(&web.cli, &web.flags, argc, argv, &result)) {
        return result;
    }
    priority_lower();
    result = open_http(&web);
    if (result != CLI_OK) {
        return result;
    }
    cli_watch(NULL, NULL);
    result = serve(&web);
    http_close(&web.http);
    site_close(&web.site);
    bus_admin_close(&web.admin);
    bus_admin_close(&web.scout);
    return cli_end(result);
}
