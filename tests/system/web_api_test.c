/* SPDX-License-Identifier: MPL-2.0 */
/* web_api_test.c -- what errbus web says below /api/: in a large job, of a broker that is stopped,
 * of a bus of several shards, of what a party claims, without the right to tap. */
#include "tests/lib/crowd.h"
#include "tests/lib/expect.h"
#include "tests/lib/fetch.h"
#include "tests/lib/postgres.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

enum {
    CROWD = 1100,
    ROWS_MAX = 1000, /* of one kind */
    QUESTIONS = 30,
    JOBS_LOOKED_AT = 8,
    LOOK_MS = 50,
    SHARDS = 2,
    PATH_BYTES = POSTGRES_PATH_BYTES + 16,
};

static struct process web, party;
static unsigned port;
static struct postgres postgres;
static struct process brokers[SHARDS];
static char controls[SHARDS][PATH_BYTES];

static void tear_down(void)
{
    process_fini(&party);
    process_fini(&web);
    stage_close();
    for (int shard = 0; shard < SHARDS; shard++)
        process_fini(&brokers[shard]);
    postgres_fini(&postgres);
}

TestSuite(web_api, .init = fetch_needs_web, .fini = tear_down, .timeout = 300);

static void start_stage(void)
{
    stage_open();
    port = fetch_start_web(&web, stage.control, NULL, NULL);
}

/* The first line of the last answer in which the member has this value; NULL: there is none.  The
 * caller's. */
static json_t *line_with(const char *member, const char *value)
{
    const char *at = fetch_body();
    while (at != NULL && *at != '\0') {
        const char *end = strchr(at, '\n');
        json_t *line = end != NULL ? json_loadb(at, (size_t)(end - at), 0, NULL) : NULL;
        const char *text = json_string_value(json_object_get(line, member));
        if (text != NULL && strcmp(text, value) == 0)
            return line;
        json_decref(line);
        at = end != NULL ? end + 1 : NULL;
    }
    return NULL;
}

static bool has_text(const json_t *line, const char *member, const char *value)
{
    const char *text = json_string_value(json_object_get(line, member));
    return text != NULL && strcmp(text, value) == 0;
}

/* ---- a large job ----------------------------------------------------------------------------- */

static void *crowd[CROWD];

static void bring_crowd(void *context)
{
    char name[16];
    for (int i = 0; i < CROWD; i++) {
        snprintf(name, sizeof name, "p%d", i);
        crowd[i] = crowd_dial(context, stage.control, NULL);
        cr_assert_not_null(crowd[i]);
        cr_assert(crowd_greet(crowd[i], name, 60000));
    }
    for (int i = 0; i < CROWD; i++)
        cr_assert(crowd_is_welcome(crowd[i], 3 * SOON_MS), "p%d is not welcome", i);
}

/* Asks for the job until the first of its parties is zoe, in this state. */
static void await_zoe_first(const char *state)
{
    int64_t until_ms = test_now_ms() + 3 * SOON_MS;
    bool is_so = false;
    while (!is_so) {
        unsigned status = fetch(port, "/api/status?job=default");
        json_t *first = status == 200 ? line_with("kind", "party") : NULL;
        is_so = has_text(first, "name", "zoe") && has_text(first, "state", state);
        cr_assert(is_so || test_now_ms() < until_ms, "%u: the first is %s", status,
                  json_string_value(json_object_get(first, "name")));
        json_decref(first);
        usleep(LOOK_MS * 1000);
    }
}

Test(web_api, tells_of_a_killed_party_before_a_thousand_others)
{
    const char *line = NULL;
    start_stage();
    const char *const argv[] = {"errbus",         "pub",    "-s",  stage.control, "-p", "zoe", "x",
                                "--reserve-only", "--hold", "600", NULL};
    void *context = zmq_ctx_new();
    zmq_ctx_set(context, ZMQ_MAX_SOCKETS, CROWD + 16);
    bring_crowd(context);
    cr_assert(process_start(&party, argv, NULL));
    cr_assert(process_line(&party, SOON_MS, &line), "%s", process_complained(&party));
    await_zoe_first("running"); /* no other owes a slot */
    process_signal(&party, SIGKILL);
    await_zoe_first("lost");
    json_t *left = line_with("kind", "left_out");
    cr_expect(has_text(left, "of", "party"), "%s", fetch_body());
    cr_expect_eq(json_integer_value(json_object_get(left, "rows")), CROWD + 1 - ROWS_MAX);
    json_decref(left);
    for (int i = 0; i < CROWD; i++)
        zmq_close(crowd[i]);
    zmq_ctx_term(context);
}

/* ---- a broker that is stopped ---------------------------------------------------------------- */

static int ask(const char *format, int number)
{
    char path[64];
    char text[192];
    int fd = fetch_connect(port);
    snprintf(path, sizeof path, format, number);
    int bytes = snprintf(text, sizeof text,
                         "GET %s HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n\r\n", path);
    cr_assert_eq(send(fd, text, (size_t)bytes, MSG_NOSIGNAL), bytes);
    return fd;
}

/* All questions wait together, not one behind the other: that would be a minute. */
Test(web_api, says_in_time_that_the_broker_does_not_answer)
{
    int fds[QUESTIONS];
    start_stage();
    cr_assert_eq(fetch(port, "/api/status"), 200);
    process_signal(&stage.process, SIGSTOP);
    int64_t from_ms = test_now_ms();
    for (int i = 0; i < QUESTIONS; i++)
        fds[i] = ask(i < JOBS_LOOKED_AT ? "/api/events?job=j%d" : "/api/why?job=j%d", i);
    for (int i = 0; i < QUESTIONS; i++)
        cr_expect_eq(fetch_rest(fds[i]), 503, "%s", fetch_answer());
    int64_t took_ms = test_now_ms() - from_ms;
    cr_expect_geq(took_ms, 1900, "they were not asked");
    cr_expect_lt(took_ms, 10000, "they waited for each other: %lld ms", (long long)took_ms);
    process_signal(&stage.process, SIGCONT);
}

/* ---- shards ---------------------------------------------------------------------------------- */

static void start_shard(int shard)
{
    char data[PATH_BYTES], cache[PATH_BYTES], number[16];
    char journal[POSTGRES_CONNINFO_BYTES + 16];
    const char *line = NULL;
    snprintf(controls[shard], PATH_BYTES, "ipc://%s/control%d", postgres.folder.path, shard);
    snprintf(data, sizeof data, "ipc://%s/data%d", postgres.folder.path, shard);
    snprintf(cache, sizeof cache, "%s/cache%d", postgres.folder.path, shard);
    snprintf(journal, sizeof journal, "postgres:%s", postgres.conninfo);
    snprintf(number, sizeof number, "%d", shard);
    const char *const argv[] = {
        "errbusd",   "--control", controls[shard], "--data", data,         "--cache", cache,
        "--journal", journal,     "--shard",       number,   "--replicas", "0",       NULL};
    cr_assert(process_start(&brokers[shard], argv, NULL));
    cr_assert(process_line(&brokers[shard], SOON_MS, &line), "%s",
              process_complained(&brokers[shard]));
}

static struct bus *join(int shard, const char *job)
{
    struct bus_options options = patient_options("alice");
    options.job = job;
    return must_open_at(controls[shard], &options);
}

/* /api/status is of shard 0: it has job0, and not job1.  Its instance. */
static void expect_first_shard(char instance[32])
{
    int64_t until_ms = test_now_ms() + 3 * SOON_MS;
    json_t *shard = NULL;
    while (shard == NULL) { /* errbus web asks for them in turns */
        cr_assert_lt(test_now_ms(), until_ms, "no shards: %s", fetch_answer());
        cr_assert_eq(fetch(port, "/api/status"), 200, "%s", fetch_answer());
        shard = line_with("kind", "shard");
        usleep(LOOK_MS * 1000);
    }
    json_t *broker = line_with("kind", "broker");
    json_t *job0 = line_with("name", "job0");
    json_t *job1 = line_with("name", "job1");
    cr_assert_not_null(broker);
    snprintf(instance, 32, "%s", json_string_value(json_object_get(broker, "instance")));
    cr_expect_eq(json_integer_value(json_object_get(shard, "shard")), 0, "%s", fetch_body());
    cr_expect(json_is_true(json_object_get(shard, "here")), "%s", fetch_body());
    cr_expect_not_null(job0, "%s", fetch_body());
    cr_expect_null(job1, "%s", fetch_body());
    json_decref(broker);
    json_decref(shard);
    json_decref(job0);
    json_decref(job1);
}

static void await_readiness(unsigned status, const char *words)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    while (fetch(port, "/readyz") != status)
        cr_assert_lt(test_now_ms(), until_ms, "not %u: %s", status, fetch_answer());
    fetch_expect_in_body(words);
}

/* A question about a job of another shard leads to its broker, and no other question does. */
Test(web_api, stays_with_its_shard)
{
    char before[32], after[32];
    if (!postgres_is_installed())
        cr_skip_test(POSTGRES_MISSING);
    cr_assert(postgres_start(&postgres, 0), "%s", postgres.why);
    for (int shard = 0; shard < SHARDS; shard++)
        start_shard(shard);
    struct bus *first = join(0, "job0");
    struct bus *second = join(1, "job1");
    port = fetch_start_web(&web, controls[0], NULL, NULL);
    expect_first_shard(before);
    cr_expect_eq(fetch(port, "/api/status?job=job1"), 200);
    fetch_expect_in_body("\"name\":\"alice\"");
    cr_expect_eq(fetch(port, "/api/why?job=job1"), 200, "%s", fetch_answer());
    cr_expect_eq(fetch(port, "/api/why?job=job0"), 200, "%s", fetch_answer());
    cr_expect_eq(fetch(port, "/api/verdict?job=job1"), 200, "%s", fetch_answer());
    usleep(1100 * 1000); /* an answer is kept for a second */
    expect_first_shard(after);
    cr_expect_str_eq(after, before);
    await_readiness(200, "ready\n");
    /* The directory of shards is away: parties of new jobs would wait. */
    postgres_freeze(&postgres, 0);
    await_readiness(503, "not ready: ");
    cr_expect_eq(fetch(port, "/api/status"), 200, "%s", fetch_answer());
    postgres_thaw(&postgres, 0);
    await_readiness(200, "ready\n");
    must_close(&first);
    must_close(&second);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* Reads the stream of the default job from this event on (0: as a new page does) until this is in
 * it; what it has read. */
static const char *read_stream_until(int from, const char *words)
{
    static char text[64 * 1024];
    size_t bytes = 0;
    int fd = ask("/api/stream?job=default&from=%d", from);
    struct pollfd item = {.fd = fd, .events = POLLIN};
    text[0] = '\0';
    while (strstr(text, words) == NULL) {
        cr_assert_eq(poll(&item, 1, (int)SOON_MS), 1, "no '%s': %s", words, text);
        ssize_t count = recv(fd, text + bytes, sizeof text - 1 - bytes, 0);
        cr_assert_gt(count, 0, "no '%s': %s", words, text);
        bytes += (size_t)count;
        text[bytes] = '\0';
    }
    close(fd);
    return text;
}

static int first_event_of_stream(int from)
{
    int id = 0;
    const char *told = strstr(read_stream_until(from, "\ndata: "), "\nid: ");
    cr_assert_not_null(told);
    cr_assert_eq(sscanf(told, "\nid: %d", &id), 1, "%.200s", told);
    return id;
}

/* A page begins with the newest 2000 events: its failures over time are those of these. */
Test(web_api, begins_a_stream_with_so_many_events_of_the_past)
{
    enum { BEGIN = 2000 };
    struct bus_sub_options options;
    start_stage();
    struct bus *alice = must_open("alice"); /* the first event */
    bus_sub_options_init(&options);
    options.group = "crew";
    struct bus_sub *sub = must_subscribe_with(alice, "alice/tasks", &options);
    for (int events = 2; events <= BEGIN + 1; events++) {
        must_publish(alice, "tasks", "x");
        struct bus_msg *msg = NULL;
        expect_code(bus_sub_recv(sub, SOON_MS, &msg, NULL), BUS_OK);
        bus_msg_reject(&msg, NULL, BUS_FOREVER); /* each is an event: task.dead */
        if (events < BEGIN - 1)
            continue;
        must_flush(alice);
        cr_assert_eq(first_event_of_stream(events), events); /* it is there */
        cr_expect_eq(first_event_of_stream(0), events <= BEGIN ? 1 : 2, "of %d events", events);
    }
    bus_sub_close(&sub);
    must_close(&alice);
}

/* ---- what a party claims --------------------------------------------------------------------- */

/* Bob fails because of an error of another job, which the broker does not find in his. */
Test(web_api, says_who_claims_a_root)
{
    struct bus_options options = patient_options("alice");
    start_stage();
    options.job = "other";
    struct bus *alice = must_open_with(&options);
    struct bus_slot *slot = must_reserve(alice, "w");
    fail_slot(&slot, "app.bad", "why");
    struct bus_error *cause = expect_await_failed(alice, "alice/w", 0, "application");
    struct bus *bob = must_open("bob");
    slot = must_reserve(bob, "w");
    struct bus_error *worse = bus_error_new("app.worse", cause, "it fails, too");
    bus_slot_fail(&slot, worse);
    bus_error_unref(&worse);
    must_flush(bob);
    const char *told = read_stream_until(1, "\"root_party\":");
    cr_expect_not_null(strstr(told, "\"root_party\":\"alice\",\"root_claimed_by\":\"bob\""), "%s",
                       told);
    bus_error_unref(&cause);
    must_close(&alice);
    must_close(&bob);
}

/* ---- rights ---------------------------------------------------------------------------------- */

/* What a page asks for with this key, by the rules that are in force. */
static void await_stream(unsigned status, const char *words)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    unsigned told = 0;
    do {
        int fd = ask("/api/events?job=default&from=%d", 1);
        told = fetch_rest(fd);
        cr_assert_lt(test_now_ms(), until_ms, "not %u: %s", status, fetch_answer());
    } while (told != status);
    fetch_expect_in_body(words);
}

/* Without the right to tap there are figures, and a stream is refused instead of being silent. */
Test(web_api, refuses_events_that_its_key_may_not_see)
{
    static struct crowd_pair key;
    struct folder folder;
    char text[256], access[FOLDER_PATH_BYTES_MAX], broker_key[FOLDER_PATH_BYTES_MAX + 16];
    cr_assert(folder_make(&folder));
    crowd_make_key(&folder, "web", &key);
    snprintf(broker_key, sizeof broker_key, "%s/broker.key", folder.path);
    snprintf(text, sizeof text, "key web %s\nallow web status in *\n", key.text);
    cr_assert(folder_write(&folder, "access", text, access));
    stage_open_with((const char *const[]){"--access", access, "--key", broker_key, NULL});
    port = fetch_start_web(&web, stage.control, "--key", key.file);
    cr_expect_eq(fetch(port, "/api/status"), 200, "%s", fetch_answer());
    cr_expect_eq(fetch(port, "/api/stream?job=default"), 403, "%s", fetch_answer());
    await_stream(403, "must allow it tap");
    snprintf(text, sizeof text, "key web %s\nallow web tap status in *\n", key.text);
    cr_assert(folder_write(&folder, "access", text, access));
    process_signal(&stage.process, SIGHUP);
    await_stream(200, "");
    folder_fini(&folder);
}
