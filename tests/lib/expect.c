/* SPDX-License-Identifier: MPL-2.0 */
/* expect.c -- what system tests say and expect, in one line each. */
#include "tests/lib/expect.h"

#include "tests/lib/relay.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DESCRIPTION_BYTES_MAX 2048
#define COMMAND_BYTES_MAX 1024
#define WORDS_MAX 12
#define STORY_MS 1000
#define COMPUTING_MS INT64_C(60000) /* what a party is told to do may take so long: TEST_LONG */
#define ANSWER_MS (COMPUTING_MS + SOON_MS)

struct broker stage;
static struct bus_admin *admin_of_stage;

void stage_open_with(const char *const *more)
{
    if (stage.process.pid > 0) {
        stage_close(); /* that of the test's suite, which is begun before the test's own */
    }
    cr_assert(broker_start(&stage, more), "errbusd is not ready: %s%s",
              process_said(&stage.process), process_complained(&stage.process));
}

void stage_open(void)
{
    stage_open_with(NULL);
}

void stage_open_small(void)
{
    static const char *const small[] = {
        "--topic-window", "1M", "--topic-keep", "0", "--test-like-errors", "1000000", NULL};
    stage_open_with(small);
}

void stage_open_with_relay(struct relay *relay)
{
    cr_assert(relay_open(relay));
    const char *const more[] = {"--advertise", relay->data_endpoint, NULL};
    stage_open_with(more);
    cr_assert(relay_start(relay, stage.control, stage.data));
}

/* A broker that still runs ends well when it is told to, whatever the test did to it. */
void stage_close(void)
{
    bus_admin_close(&admin_of_stage);
    if (stage.process.pid > 0) {
        process_signal(&stage.process, SIGCONT);
        int code = broker_stop(&stage, SOON_MS);
        if (code != 0 && code != 128 + SIGKILL) {
            (void)fprintf(stderr, "errbusd ended with %d: %s\n", code,
                          process_complained(&stage.process));
            abort(); /* an assertion fails no test once its body is over */
        }
    }
    broker_fini(&stage);
}

struct bus_admin *stage_admin(void)
{
    struct bus_error *error = NULL;
    if (admin_of_stage == NULL) {
        enum bus_err err = bus_admin_open(stage.control, NULL, SOON_MS, &admin_of_stage, &error);
        expect_code_of(err, BUS_OK, &error);
    }
    return admin_of_stage;
}

bool is_asked(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

const char *code_name(enum bus_err err)
{
    static const char *const names[] = {
        "BUS_OK",       "BUS_EINVAL",  "BUS_ENOMEM",  "BUS_ETIMEDOUT", "BUS_EFULL",
        "BUS_ETOOBIG",  "BUS_EPROTO",  "BUS_ELOST",   "BUS_EOVERRUN",  "BUS_EFAILED",
        "BUS_ESETTLED", "BUS_EFENCED", "BUS_EDENIED", "BUS_ECLOSED",   "BUS_EENDED"};
    return (size_t)err < sizeof names / sizeof names[0] ? names[err] : "?";
}

void expect_code(enum bus_err err, enum bus_err expected)
{
    cr_assert(err == expected, "%s, not %s", code_name(err), code_name(expected));
}

static const char *describe(const struct bus_error *error, char text[DESCRIPTION_BYTES_MAX])
{
    text[0] = '\0';
    if (error != NULL) {
        bus_error_describe(error, text, DESCRIPTION_BYTES_MAX);
    }
    return text;
}

void expect_code_of(enum bus_err err, enum bus_err expected, struct bus_error **error)
{
    char text[DESCRIPTION_BYTES_MAX];
    cr_assert(err == expected, "%s, not %s: %s", code_name(err), code_name(expected),
              describe(err != BUS_OK ? *error : NULL, text));
    if (err != BUS_OK) {
        cr_assert_not_null(*error, "%s comes without an error", code_name(err));
        bus_error_unref(error);
    }
}

/* ---- parties in this process ------------------------------------------------------------------*/

struct bus *must_open_at(const char *endpoint, const struct bus_options *options)
{
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_open(endpoint, options, SOON_MS, &bus, &error);
    expect_code_of(err, BUS_OK, &error);
    return bus;
}

struct bus_options patient_options(const char *party)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.heartbeat_ms = 100;
    options.broker_lost_ms = SOON_MS;
    options.send_timeout_ms = SOON_MS;
    return options;
}

struct bus *must_open_with(const struct bus_options *options)
{
    return must_open_at(stage.control, options);
}

struct bus *must_open_over(const struct relay *relay, const char *party, int disclosure)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.disclosure = disclosure;
    return must_open_at(relay->control_endpoint, &options);
}

struct bus *must_open(const char *party)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    return must_open_with(&options);
}

struct bus *must_open_frank(const char *party)
{
    struct bus_options options;
    bus_options_init(&options);
    options.party = party;
    options.disclosure = BUS_DISCLOSURE_FULL;
    return must_open_with(&options);
}

void must_close(struct bus **bus)
{
    expect_code(bus_close(bus, SOON_MS), BUS_OK);
    cr_assert_null(*bus);
}

/* To be freed. */
static char *format_text(const char *format, va_list args)
{
    char *text = NULL;
    cr_assert_geq(vasprintf(&text, format, args), 0);
    return text;
}

void must_publish(struct bus *bus, const char *topic, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    expect_code(bus_publish(bus, topic, text, strlen(text)), BUS_OK);
    free(text);
}

void must_flush(struct bus *bus)
{
    expect_code(bus_flush(bus, SOON_MS), BUS_OK);
}

struct bus_slot *must_reserve(struct bus *bus, const char *topic)
{
    struct bus_slot *slot = NULL;
    expect_code(bus_slot_reserve(bus, topic, BUS_FOREVER, &slot), BUS_OK);
    return slot;
}

void must_commit(struct bus_slot **slot, const char *text)
{
    expect_code(bus_slot_commit(slot, text, strlen(text)), BUS_OK);
    cr_assert_null(*slot, "a commit that is fine takes the slot over");
}

void fail_slot(struct bus_slot **slot, const char *type, const char *text)
{
    struct bus_error *error = bus_error_new(type, NULL, "%s", text);
    bus_slot_fail(slot, error);
    bus_error_unref(&error);
}

struct bus_sub *must_subscribe_with(struct bus *bus, const char *pattern,
                                    const struct bus_sub_options *options)
{
    struct bus_sub *sub = NULL;
    expect_code(bus_sub_open(bus, pattern, options, &sub), BUS_OK);
    must_flush(bus);
    return sub;
}

struct bus_sub *must_subscribe(struct bus *bus, const char *pattern)
{
    return must_subscribe_with(bus, pattern, NULL);
}

void expect_message(struct bus_msg *msg, const char *text)
{
    size_t bytes = 0;
    const char *value = bus_msg_value(msg, &bytes);
    cr_assert(bytes == strlen(text) && memcmp(value, text, bytes) == 0,
              "the value of %s %llu is '%.*s', not '%s'", bus_msg_topic(msg),
              (unsigned long long)bus_msg_seq(msg), (int)(bytes < 200 ? bytes : 200), value, text);
}

static void expect_position(const struct bus_sub *sub, const char *topic, uint64_t seq)
{
    uint64_t got = 0;
    const char *name = bus_sub_slot(sub, &got);
    cr_assert(name != NULL && strcmp(name, topic) == 0 && got == seq,
              "received at %s %llu, not at %s %llu", name != NULL ? name : "nowhere",
              (unsigned long long)got, topic, (unsigned long long)seq);
}

/* It is this value; frees it. */
static void take_value(struct bus_msg **msg, const char *topic, uint64_t seq, const char *text)
{
    cr_assert_str_eq(bus_msg_topic(*msg), topic);
    cr_assert_eq(bus_msg_seq(*msg), seq);
    expect_message(*msg, text);
    bus_msg_free(msg);
}

void expect_value(struct bus_sub *sub, const char *topic, uint64_t seq, const char *format, ...)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, &error);
    expect_code_of(err, BUS_OK, &error);
    expect_position(sub, topic, seq);
    take_value(&msg, topic, seq, text);
    free(text);
}

/* The call ended with an error of this kind, for this slot. */
static void check_failure(enum bus_err err, const struct bus_error *error, const char *topic,
                          uint64_t seq, const char *kind)
{
    char text[DESCRIPTION_BYTES_MAX];
    cr_assert(err == BUS_EFAILED, "%s, where the error of %s %llu was due: %s", code_name(err),
              topic, (unsigned long long)seq, describe(err != BUS_OK ? error : NULL, text));
    cr_assert_str_eq(bus_error_kind(error), kind, "%s", describe(error, text));
}

struct bus_error *expect_error(struct bus_sub *sub, const char *topic, uint64_t seq,
                               const char *kind)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, &error);
    check_failure(err, error, topic, seq, kind);
    expect_position(sub, topic, seq);
    return error;
}

void expect_failed(struct bus_sub *sub, const char *topic, uint64_t seq, const char *kind)
{
    struct bus_error *error = expect_error(sub, topic, seq, kind);
    bus_error_unref(&error);
}

void expect_end(struct bus_sub *sub, const char *kind)
{
    char text[DESCRIPTION_BYTES_MAX];
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_sub_recv(sub, SOON_MS, &msg, &error);
    cr_assert(err == (kind != NULL ? BUS_EFAILED : BUS_EENDED), "%s, where an end was due: %s",
              code_name(err), describe(err != BUS_OK ? error : NULL, text));
    if (kind != NULL) {
        cr_assert_str_eq(bus_error_kind(error), kind, "%s", describe(error, text));
    }
    bus_error_unref(&error);
}

void expect_nothing(struct bus *bus, struct bus_sub *sub)
{
    char text[DESCRIPTION_BYTES_MAX];
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    must_flush(bus);
    enum bus_err err = bus_sub_recv(sub, BUS_POLL, &msg, &error);
    cr_assert(err == BUS_ETIMEDOUT, "%s, where nothing was due: %s", code_name(err),
              describe(err != BUS_OK ? error : NULL, text));
    bus_error_unref(&error);
}

void expect_awaited(struct bus *bus, const char *topic, uint64_t seq, const char *text)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_await(bus, topic, seq, SOON_MS, &msg, &error);
    expect_code_of(err, BUS_OK, &error);
    take_value(&msg, topic, seq, text);
}

struct bus_error *expect_await_failed(struct bus *bus, const char *topic, uint64_t seq,
                                      const char *kind)
{
    struct bus_msg *msg = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_await(bus, topic, seq, SOON_MS, &msg, &error);
    check_failure(err, error, topic, seq, kind);
    return error;
}

static void *wait_for_it(void *arg)
{
    struct waiter *waiter = arg;
    if (waiter->topic != NULL) {
        waiter->err = bus_await(waiter->bus, waiter->topic, waiter->seq, waiter->timeout_ms,
                                &waiter->msg, &waiter->error);
    } else {
        waiter->err = bus_sub_recv(waiter->sub, waiter->timeout_ms, &waiter->msg, &waiter->error);
    }
    waiter->ended_ms = test_now_ms();
    return NULL;
}

void waiter_start(struct waiter *waiter)
{
    if (waiter->timeout_ms == 0) {
        waiter->timeout_ms = SOON_MS;
    }
    cr_assert_eq(pthread_create(&waiter->thread, NULL, wait_for_it, waiter), 0);
}

void waiter_join(struct waiter *waiter)
{
    pthread_join(waiter->thread, NULL);
}

void waiter_fini(struct waiter *waiter)
{
    bus_msg_free(&waiter->msg);
    bus_error_unref(&waiter->error);
}

/* ---- watching ---------------------------------------------------------------------------------*/

struct bus_tap *must_tap(const char *job, uint64_t from_id)
{
    struct bus_tap *tap = NULL;
    struct bus_error *error = NULL;
    struct bus_tap_options options;
    bus_tap_options_init(&options);
    options.job = job;
    options.from_id = from_id;
    enum bus_err err = bus_tap_open(stage.control, &options, SOON_MS, &tap, &error);
    expect_code_of(err, BUS_OK, &error);
    return tap;
}

const char *tell_story(void)
{
    static char story[8192];
    size_t at = 0;
    int64_t begin_ns = 0;
    struct bus_tap *tap = must_tap(NULL, 0);
    const struct bus_event *event = NULL;
    story[0] = '\0';
    while (at + 512 < sizeof story && bus_tap_next(tap, STORY_MS, &event, NULL) == BUS_OK) {
        if (strcmp(bus_event_name(event), "slot.failed") == 0) {
            continue; /* too many, and of no help */
        }
        const struct bus_error *error = bus_event_error(event);
        begin_ns = begin_ns == 0 ? bus_event_at_ns(event) : begin_ns;
        at += (size_t)snprintf(story + at, 512, "\n%llu %.3f s: %s %.100s %.100s%.200s",
                               (unsigned long long)bus_event_id(event),
                               (double)(bus_event_at_ns(event) - begin_ns) / 1e9,
                               bus_event_name(event), bus_event_party(event), bus_event_text(event),
                               error != NULL ? bus_error_message(error) : "");
    }
    bus_tap_close(&tap);
    return story;
}

const struct bus_event *expect_event(struct bus_tap *tap, const char *name, const char *party)
{
    int64_t until_ms = test_now_ms() + SOON_MS;
    for (;;) {
        const struct bus_event *event = NULL;
        struct bus_error *error = NULL;
        int64_t left_ms = until_ms - test_now_ms();
        enum bus_err err = bus_tap_next(tap, left_ms > 0 ? left_ms : 0, &event, &error);
        cr_assert(err == BUS_OK, "%s, where the event %s of %s was due; there was:%s",
                  code_name(err), name, party != NULL ? party : "anybody",
                  err == BUS_ETIMEDOUT ? tell_story() : "");
        if (strcmp(bus_event_name(event), name) == 0 &&
            (party == NULL || strcmp(bus_event_party(event), party) == 0)) {
            return event;
        }
    }
}

size_t count_events_until(struct bus_tap *tap, const char *name, const char *until)
{
    size_t count = 0;
    for (;;) {
        const struct bus_event *event = NULL;
        struct bus_error *error = NULL;
        enum bus_err err = bus_tap_next(tap, SOON_MS, &event, &error);
        cr_assert(err == BUS_OK, "%s, where the event %s was due", code_name(err), until);
        if (strcmp(bus_event_name(event), until) == 0) {
            return count;
        }
        count += strcmp(bus_event_name(event), name) == 0;
    }
}

/* job NULL: all. */
static struct bus_status *must_ask(const char *job)
{
    struct bus_status *status = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_admin_status_get(stage_admin(), job != NULL ? job : BUS_JOB_ALL, SOON_MS,
                                            &status, &error);
    expect_code_of(err, BUS_OK, &error);
    return status;
}

uint64_t refused_count(void)
{
    struct bus_status *status = must_ask(NULL);
    uint64_t count = bus_status_refused(status);
    bus_status_free(&status);
    return count;
}

bool find_row(const char *job, enum bus_status_kind kind, const char *name,
              struct bus_status_row *out_row)
{
    struct bus_status *status = must_ask(job);
    bool is_found = false;
    for (size_t i = 0; i < bus_status_count(status) && !is_found; i++) {
        const struct bus_status_row *row = bus_status_at(status, i);
        is_found = row->kind == kind && strcmp(row->name, name) == 0 &&
                   (job == NULL || strcmp(row->job, job) == 0);
        if (is_found) {
            *out_row = *row;
        }
    }
    bus_status_free(&status);
    return is_found;
}

/* ---- parties in processes of their own ------------------------------------------------------- */

void party_start_in(struct party *party, const char *name, const char *const *words,
                    const char *const *environment)
{
    const char *argv[WORDS_MAX + 4] = {"test_party", stage.control, name};
    for (size_t i = 0; words != NULL && words[i] != NULL && i < WORDS_MAX; i++) {
        argv[3 + i] = words[i];
    }
    cr_assert(process_start(&party->process, argv, environment), "test_party cannot be started");
    party_expect(party, "OK");
}

void party_start(struct party *party, const char *name, const char *const *words)
{
    party_start_in(party, name, words, NULL);
}

void party_command(struct party *party, const char *command)
{
    char line[COMMAND_BYTES_MAX];
    int length = snprintf(line, sizeof line, "%s\n", command);
    cr_assert(process_say(&party->process, line, (size_t)length), "it does not listen: %s",
              process_said(&party->process));
}

const char *party_answer(struct party *party)
{
    const char *line = NULL;
    do {
        cr_assert(process_line(&party->process, ANSWER_MS, &line), "no answer; it said: %s%s",
                  process_said(&party->process), process_complained(&party->process));
    } while (strncmp(line, "= ", 2) != 0);
    return line + 2;
}

void party_expect(struct party *party, const char *answer)
{
    cr_assert_str_eq(party_answer(party), answer);
}

void party_do(struct party *party, const char *answer, const char *command, ...)
{
    char line[COMMAND_BYTES_MAX];
    va_list args;
    va_start(args, command);
    vsnprintf(line, sizeof line, command, args);
    va_end(args);
    party_command(party, line);
    party_expect(party, answer);
}

size_t party_count(const struct party *party, const char *what)
{
    size_t count = 0;
    size_t length = strlen(what);
    const char *at = process_said(&party->process);
    while ((at = strstr(at, "! ")) != NULL) {
        at += 2;
        count += strncmp(at, what, length) == 0;
    }
    return count;
}

void party_kill(struct party *party)
{
    process_signal(&party->process, SIGKILL);
    cr_assert_eq(process_wait(&party->process, SOON_MS), 128 + SIGKILL);
    party_fini(party);
}

void party_fini(struct party *party)
{
    process_fini(&party->process);
}
