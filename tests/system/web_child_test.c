/* SPDX-License-Identifier: MPL-2.0 */
/* web_child_test.c -- errbusd --web: the broker starts errbus web, lets it in whatever its access
 * file says, keeps it up, and takes it along. */
#include "tests/lib/expect.h"
#include "tests/lib/fetch.h"
#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 192, ENDPOINT_BYTES = PATH_BYTES + 8, OPTIONS_MAX = 16, LOOK_MS = 20 };

static struct folder folder;
static char alice_path[PATH_BYTES], alice_key[BUS_KEY_TEXT_BYTES];
static char access_path[FOLDER_PATH_BYTES_MAX];
static char broker_key[PATH_BYTES];
static unsigned port; /* of the child */

static void set_up(void)
{
    fetch_needs_web();
    unsetenv("ERRBUS_KEY");
    cr_assert(folder_make(&folder));
    snprintf(broker_key, sizeof broker_key, "%s/broker.key", folder.path);
    snprintf(alice_path, sizeof alice_path, "%s/alice.key", folder.path);
    expect_code(bus_key_new(alice_path, alice_key, NULL), BUS_OK);
}

static void tear_down(void)
{
    stage_close();
    folder_fini(&folder);
}

TestSuite(web_child, .init = set_up, .fini = tear_down, .timeout = 120);

/* The child says its port in the log of the broker. */
static void await_child(void)
{
    const char *line = NULL;
    do
        cr_assert(process_complaint(&stage.process, SOON_MS, &line), "%s",
                  process_complained(&stage.process));
    while (sscanf(line, "errbus web: ready: http://127.0.0.1:%u", &port) != 1);
}

static void await_complaint(const char *words)
{
    const char *line = NULL;
    do
        cr_assert(process_complaint(&stage.process, SOON_MS, &line), "no '%s': %s", words,
                  process_complained(&stage.process));
    while (strstr(line, words) == NULL);
}

static void start_with_web(const char *const *more)
{
    const char *options[OPTIONS_MAX] = {"--web", "127.0.0.1:0"};
    for (size_t i = 0; more != NULL && more[i] != NULL; i++) {
        cr_assert_lt(i + 3, OPTIONS_MAX);
        options[i + 2] = more[i];
    }
    stage_open_with(options);
    await_child();
}

/* lines: behind the one that says whose key alice has. */
static void write_access(const char *lines)
{
    char text[1024];
    snprintf(text, sizeof text, "key alice %s\n%s", alice_key, lines);
    cr_assert(folder_write(&folder, "access", text, access_path));
}

static void await_metric(const char *line)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (fetch(port, "/metrics") != 200 || strstr(fetch_body(), line) == NULL) {
        cr_assert_lt(test_now_ms(), until_ms, "no '%s' in: %s", line, fetch_body());
        usleep(LOOK_MS * 1000);
    }
}

/* The only child of the broker. */
static pid_t child_of_broker(void)
{
    char path[64];
    int pid = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)stage.process.pid,
             (int)stage.process.pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        cr_skip_test("this kernel does not tell children (CONFIG_PROC_CHILDREN)");
    int count = fscanf(file, "%d", &pid);
    fclose(file);
    return count == 1 ? pid : 0;
}

static void await_end(pid_t pid)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (kill(pid, 0) == 0) {
        cr_assert_lt(test_now_ms(), until_ms, "errbus-web outlives its broker");
        usleep(LOOK_MS * 1000);
    }
}

/* ---- without an access file ------------------------------------------------------------------ */

Test(web_child, serves_and_ends_with_its_broker)
{
    start_with_web(NULL);
    pid_t child = child_of_broker();
    await_metric("errbus_up 1\n");
    cr_expect_null(strstr(fetch_body(), "errbus_handshakes_total{result=\"ok\"} 0\n"),
                   "it has one");
    cr_expect_eq(fetch(port, "/healthz"), 200);
    cr_expect_eq(broker_stop(&stage, SOON_MS), 0);
    cr_expect_neq(kill(child, 0), 0, "it is waited for");
}

Test(web_child, ends_with_a_broker_that_is_killed)
{
    start_with_web(NULL);
    pid_t child = child_of_broker();
    process_signal(&stage.process, SIGKILL);
    await_end(child);
}

Test(web_child, is_started_again_when_it_dies)
{
    start_with_web(NULL);
    pid_t child = child_of_broker();
    cr_assert_eq(kill(child, SIGKILL), 0);
    await_complaint("web: errbus-web ended with signal 9, and starts again in 1000 ms");
    await_child();
    cr_expect_neq(child_of_broker(), child);
    await_metric("errbus_up 1\n");
}

Test(web_child, that_is_told_nonsense_stays_away)
{
    stage_open_with((const char *const[]){"--web", "127.0.0.1:x", NULL});
    await_complaint("errbus web: --listen '127.0.0.1:x': ");
    await_complaint("web: errbus-web was started wrongly, as it says, and stays away");
    cr_expect_eq(child_of_broker(), 0);
    struct bus *alice = must_open("alice"); /* the broker serves */
    must_close(&alice);
}

Test(web_child, needs_a_token_where_others_reach_it)
{
    char path[FOLDER_PATH_BYTES_MAX];
    const char *const open[] = {"errbusd", "--journal", "none", "--web", "0.0.0.0:0", NULL};
    struct process process = {0};
    cr_assert(process_start(&process, open, NULL));
    cr_expect_eq(process_wait(&process, SOON_MS), 2, "as any wrong option");
    cr_expect_not_null(strstr(process_complained(&process), "--web-token FILE"), "%s",
                       process_complained(&process));
    process_fini(&process);
    cr_assert(folder_write(&folder, "token", "0123456789abcdef\n", path));
    start_with_web((const char *const[]){"--web-token", path, NULL});
    cr_expect_eq(fetch(port, "/metrics"), 401);
    cr_expect_eq(fetch_with(port, "GET", "/metrics",
                            "Host: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\n"),
                 200);
    cr_expect_eq(fetch_with(port, "GET", "/metrics",
                            "Host: broker.example:7372\r\n"
                            "Authorization: Bearer 0123456789abcdef\r\n"),
                 200, "as Prometheus on another machine calls it");
}

/* Reads the log until this program says these words at this level.  Each line must be an object;
 * one that says so brings the port. */
static void await_object(const char *program, const char *level, const char *words)
{
    bool is_found = false;
    while (!is_found) {
        const char *line = NULL;
        json_error_t fault;
        cr_assert(process_complaint(&stage.process, SOON_MS, &line), "%s does not say '%s': %s",
                  program, words, process_complained(&stage.process));
        json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &fault);
        cr_assert_not_null(object, "%s: %s", fault.text, line);
        const char *said = json_string_value(json_object_get(object, "message"));
        const char *by = json_string_value(json_object_get(object, "program"));
        cr_assert(said != NULL && by != NULL, "%s", line);
        if (strcmp(by, program) == 0 && strstr(said, words) != NULL) {
            is_found = true;
            cr_expect_str_eq(json_string_value(json_object_get(object, "level")), level);
            (void)sscanf(said, "errbus web: ready: http://127.0.0.1:%u", &port);
        }
        json_decref(object);
    }
}

Test(web_child, has_the_form_of_its_brokers_log)
{
    port = 0;
    stage_open_with((const char *const[]){"--web", "127.0.0.1:0", "--log", "json", NULL});
    await_object("errbus-web", "info", "errbus web: ready: ");
    cr_expect_eq(fetch(port, "/healthz"), 200);
    cr_assert_eq(kill(child_of_broker(), SIGKILL), 0);
    await_object("errbusd", "warning", "web: errbus-web ended with signal 9");
    await_object("errbus-web", "info", "errbus web: ready: "); /* the next one, too */
}

Test(web_child, says_in_that_form_what_is_wrong)
{
    stage_open_with((const char *const[]){"--web", "127.0.0.1:x", "--log", "json", NULL});
    await_object("errbus-web", "warning", "errbus web: --listen '127.0.0.1:x': ");
    await_object("errbusd", "warning", "web: errbus-web was started wrongly");
}

/* ---- with an access file --------------------------------------------------------------------- */

static struct bus *must_open_as_alice(void)
{
    struct bus_options options;
    struct bus *bus = NULL;
    bus_options_init(&options);
    options.party = "alice";
    options.key = alice_path;
    expect_code(bus_open(stage.control, &options, SOON_MS, &bus, NULL), BUS_OK);
    return bus;
}

/* A stranger, whose key nobody knows. */
static void knock(void)
{
    char path[PATH_BYTES];
    char key[BUS_KEY_TEXT_BYTES];
    struct bus_admin *admin = NULL;
    struct bus_admin_options options;
    snprintf(path, sizeof path, "%s/eve.key", folder.path);
    expect_code(bus_key_new(path, key, NULL), BUS_OK);
    bus_admin_options_init(&options);
    options.key = path;
    expect_code(bus_admin_open(stage.control, &options, SOON_MS, &admin, NULL), BUS_EDENIED);
}

Test(web_child, has_a_key_of_its_own)
{
    write_access("allow alice party in *\nlimit alice topics 1\n");
    start_with_web((const char *const[]){"--access", access_path, "--key", broker_key, NULL});
    await_metric("errbus_access_file_valid 1\n");
    await_metric("errbus_quota_refused_total{limit=\"topics\"} 0\n");
    await_metric("errbus_handshakes_total{result=\"unknown_key\"} 0\n");
    struct bus *alice = must_open_as_alice();
    must_publish(alice, "x", "one");
    must_flush(alice);
    cr_expect_neq(bus_publish(alice, "y", "two", 3), BUS_OK);
    await_metric("errbus_quota_refused_total{limit=\"topics\"} 1\n");
    await_metric("errbus_values_total 1\n");
    must_close(&alice);
    knock();
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (strstr(fetch_body(), "{result=\"unknown_key\"} 0\n") != NULL) {
        cr_assert_lt(test_now_ms(), until_ms, "%s", fetch_body());
        cr_assert_eq(fetch(port, "/metrics"), 200);
    }
}

/* Whom the file refuses elsewhere, the page does not. */
Test(web_child, is_warned_of_where_it_shows_more_than_the_access_file)
{
    static const char warning[] = "shows all jobs to every user of this machine";
    char path[FOLDER_PATH_BYTES_MAX];
    const char *options[] = {"--access", access_path, "--key", broker_key, NULL, path, NULL};
    write_access("");
    start_with_web(options);
    cr_expect_not_null(strstr(process_complained(&stage.process), warning));
    cr_expect_not_null(strstr(process_complained(&stage.process), "--web-token FILE"));
    stage_close();
    cr_assert(folder_write(&folder, "token", "0123456789abcdef\n", path));
    options[4] = "--web-token";
    start_with_web(options);
    cr_expect_null(strstr(process_complained(&stage.process), warning), "it asks for a token");
    stage_close();
    start_with_web(NULL);
    cr_expect_null(strstr(process_complained(&stage.process), warning), "all may see all");
}

/* It keeps its rights with another file, and says that one could not be read. */
Test(web_child, outlives_a_file_that_cannot_be_read)
{
    write_access("allow alice party in *\n");
    start_with_web((const char *const[]){"--access", access_path, "--key", broker_key, NULL});
    write_access("allow alice everything in *\n");
    process_signal(&stage.process, SIGHUP);
    await_metric("errbus_access_file_valid 0\n");
    write_access("");
    process_signal(&stage.process, SIGHUP);
    await_metric("errbus_access_file_valid 1\n");
    await_metric("errbus_up 1\n");
}

/* By ipc nobody shows a key, and the file names no uid: the child is known by its process. */
Test(web_child, is_known_by_ipc)
{
    char control[ENDPOINT_BYTES], data[ENDPOINT_BYTES];
    struct bus_admin *admin = NULL;
    snprintf(control, sizeof control, "ipc://%s/control", folder.path);
    snprintf(data, sizeof data, "ipc://%s/data", folder.path);
    write_access("");
    start_with_web((const char *const[]){"--access", access_path, "--key", broker_key, "--control",
                                         control, "--data", data, NULL});
    await_metric("errbus_up 1\n");
    expect_code(bus_admin_open(control, NULL, SOON_MS, &admin, NULL), BUS_EDENIED);
}
