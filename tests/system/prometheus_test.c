/* SPDX-License-Identifier: MPL-2.0 */
/* prometheus_test.c -- a real Prometheus reads a broker by errbus web for a minute, and fires the
 * alerts of clients/web/alerts.yml: when a party is killed, and when the broker is. */
#include "tests/lib/expect.h"
#include "tests/lib/fetch.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROMETHEUS "/usr/bin/prometheus"

enum { PATH_BYTES = 2 * FOLDER_PATH_BYTES_MAX, LOOK_MS = 100, READS = 55, LOOKS_S = 200 };

static struct process web, prometheus, party;
static struct folder folder;
static unsigned web_port, prometheus_port;

static void tear_down(void)
{
    process_fini(&prometheus);
    process_fini(&party);
    process_fini(&web);
    stage_close();
    folder_fini(&folder);
}

static void set_up(void)
{
    fetch_needs_web();
    if (access(PROMETHEUS, X_OK) != 0)
        cr_skip_test("prometheus is not installed (Debian's package prometheus)");
}

/* Longer than all waits of a test together. */
TestSuite(prometheus, .init = set_up, .fini = tear_down, .timeout = 5 * LOOKS_S);

/* Its log tells the port that the system chose. */
static void await_port(void)
{
    const char *line = NULL;
    const char *at = NULL;
    do {
        cr_assert(process_complaint(&prometheus, SOON_MS, &line), "%s",
                  process_complained(&prometheus));
        at = strstr(line, "msg=\"Listening on\" address=127.0.0.1:");
    } while (at == NULL);
    cr_assert_eq(sscanf(strrchr(at, ':'), ":%u", &prometheus_port), 1, "%s", line);
}

static void start_prometheus(void)
{
    char text[1024];
    char path[PATH_BYTES];
    char config[PATH_BYTES + 32];
    char storage[PATH_BYTES + 32];
    snprintf(text, sizeof text,
             "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
             "rule_files: ['%s/clients/web/alerts.yml']\n"
             "scrape_configs:\n"
             "  - job_name: errbus\n"
             "    honor_labels: true\n"
             "    static_configs: [{targets: ['127.0.0.1:%u']}]\n",
             TEST_SOURCE_DIR, web_port);
    cr_assert(folder_make(&folder));
    cr_assert(folder_write(&folder, "prometheus.yml", text, path));
    snprintf(config, sizeof config, "--config.file=%s", path);
    snprintf(storage, sizeof storage, "--storage.tsdb.path=%s/data", folder.path);
    const char *const argv[] = {PROMETHEUS, config, storage, "--web.listen-address=127.0.0.1:0",
                                NULL};
    cr_assert(process_start(&prometheus, argv, NULL));
    await_port();
}

/* Looks until the answer of this path has all of these words. */
static void await_answer(const char *path, const char *first, const char *second)
{
    int64_t until_ms = test_now_ms() + LOOKS_S * INT64_C(1000);
    while (fetch(prometheus_port, path) != 200 || strstr(fetch_body(), first) == NULL ||
           strstr(fetch_body(), second) == NULL) {
        cr_assert_lt(test_now_ms(), until_ms, "no '%s' and '%s': %s", first, second,
                     fetch_answer());
        usleep(LOOK_MS * 1000);
    }
}

/* It reads the broker once a second for a minute; nearly all reads succeed. */
static void read_for_a_minute(void)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/api/v1/query?query=sum_over_time(errbus_up%%5B1m%%5D)%%3E%%3D%d",
             READS);
    await_answer(path, "\"metric\"", "\"job\":\"errbus\"");
    cr_expect_eq(fetch(prometheus_port, "/api/v1/query?query=avg_over_time(up%5B1m%5D)%3E0.9"),
                 200);
    fetch_expect_in_body("\"job\":\"errbus\"");
}

static void expect_no_alert(void)
{
    cr_expect_eq(fetch(prometheus_port, "/api/v1/alerts"), 200);
    cr_expect_null(strstr(fetch_body(), "firing"), "%s", fetch_body());
}

Test(prometheus, fires_the_alert_of_a_killed_party)
{
    stage_open();
    const char *const argv[] = {"errbus", "sub", "-s",    stage.control, "-j",
                                "train",  "-p",  "alice", "bob/x",       NULL};
    web_port = fetch_start_web(&web, stage.control, NULL, NULL);
    start_prometheus();
    cr_assert(process_start(&party, argv, NULL));
    await_answer("/api/v1/query?query=errbus_parties%7Bstate%3D%22running%22%7D%3D%3D1",
                 "\"job\":\"train\"", "\"state\":\"running\"");
    read_for_a_minute();
    expect_no_alert();
    process_signal(&party, SIGKILL);
    await_answer("/api/v1/alerts", "\"alertname\":\"ErrbusPartyLost\"", "\"state\":\"firing\"");
    fetch_expect_in_body("Lost parties of job train: 1.");
}

/* The program that the broker started ends with it: Prometheus reaches nobody. */
Test(prometheus, fires_the_alert_of_a_killed_broker)
{
    const char *line = NULL;
    stage_open_with((const char *const[]){"--web", "127.0.0.1:0", NULL});
    do
        cr_assert(process_complaint(&stage.process, SOON_MS, &line), "%s",
                  process_complained(&stage.process));
    while (sscanf(line, "errbus web: ready: http://127.0.0.1:%u", &web_port) != 1);
    start_prometheus();
    await_answer("/api/v1/query?query=errbus_up%3D%3D1", "\"metric\"", "\"job\":\"errbus\"");
    expect_no_alert();
    process_signal(&stage.process, SIGKILL);
    await_answer("/api/v1/alerts", "\"alertname\":\"ErrbusDown\"", "\"state\":\"firing\"");
    fetch_expect_in_body("\"job\":\"errbus\"");
}
