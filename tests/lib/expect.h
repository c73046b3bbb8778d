/* SPDX-License-Identifier: MPL-2.0 */
/* expect.h -- what system tests say and expect, in one line each.  Each of them fails the test that
 * calls it; so from the test's own thread alone. */
#ifndef TESTS_LIB_EXPECT_H
#define TESTS_LIB_EXPECT_H

#include "libbus/base/limits.h"
#include "tests/lib/broker.h"
#include "tests/lib/folder.h"

#include <bus/access.h>
#include <bus/dead.h>
#include <bus/metrics.h>
#include <bus/report.h>
#include <bus/bus.h>
#include <bus/tap.h>
#include <bus/why.h>
#include <pthread.h>
#include <stdint.h>

/* What must come has come by then: a bound against hanging, not a measurement. */
#define SOON_MS INT64_C(20000)
/* Most of what the bus does at once takes some ms; at least ten times that, with a loaded
 * machine. */
#define AT_ONCE_MS INT64_C(2000)

struct relay;

/* The broker of the running test; test files name stage_open and stage_close as init and fini. */
extern struct broker stage;
void stage_open(void);
/* The same with options, for a test that has closed the stage or has none. */
void stage_open_with(const char *const *more);
/* The same with small windows of topics, where nothing is kept for readers that come late. */
void stage_open_small(void);
/* More than one topic of that broker, and one reader that takes nothing, can have at a time.  The
 * window of a topic grows with its links, and a busy machine looks like a long link. */
#define SMALL_STAGE_BYTES_MAX ((LIMIT_TOPIC_WINDOW_TIMES + 1) * (size_t)1024 * 1024)
/* The same with a relay that carries all data. */
void stage_open_with_relay(struct relay *relay);
void stage_close(void);

/* A handle on the broker of the stage, opened by the first call and closed with the stage. */
struct bus_admin *stage_admin(void);

/* True: this environment variable asks for the long form of a test. */
bool is_asked(const char *variable);

const char *code_name(enum bus_err err);
void expect_code(enum bus_err err, enum bus_err expected);
/* The same, telling and freeing the error that came along. */
void expect_code_of(enum bus_err err, enum bus_err expected, struct bus_error **error);

/* ---- parties in this process ------------------------------------------------------------------*/

struct bus *must_open(const char *party);
/* Of a party that waits while the broker is away. */
struct bus_options patient_options(const char *party);
struct bus *must_open_with(const struct bus_options *options);
/* The same, by this endpoint. */
struct bus *must_open_at(const char *endpoint, const struct bus_options *options);
/* One that lets others see all of its errors. */
struct bus *must_open_frank(const char *party);
/* One whose connections go over the relay. */
struct bus *must_open_over(const struct relay *relay, const char *party, int disclosure);
void must_close(struct bus **bus);

void must_publish(struct bus *bus, const char *topic, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void must_flush(struct bus *bus);
struct bus_slot *must_reserve(struct bus *bus, const char *topic);
void must_commit(struct bus_slot **slot, const char *text);
/* An error of type, with a message. */
void fail_slot(struct bus_slot **slot, const char *type, const char *text);

/* In force when it returns.  options may be NULL. */
struct bus_sub *must_subscribe(struct bus *bus, const char *pattern);
struct bus_sub *must_subscribe_with(struct bus *bus, const char *pattern,
                                    const struct bus_sub_options *options);

void expect_value(struct bus_sub *sub, const char *topic, uint64_t seq, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The caller's to unref. */
struct bus_error *expect_error(struct bus_sub *sub, const char *topic, uint64_t seq,
                               const char *kind);
/* The same, freed. */
void expect_failed(struct bus_sub *sub, const char *topic, uint64_t seq, const char *kind);
/* The end of a party that owed something, as an error of this kind, or that owed nothing (NULL). */
void expect_end(struct bus_sub *sub, const char *kind);
/* Nothing is there, and nothing comes in the time that a round trip to the broker takes. */
void expect_nothing(struct bus *bus, struct bus_sub *sub);

void expect_awaited(struct bus *bus, const char *topic, uint64_t seq, const char *text);
struct bus_error *expect_await_failed(struct bus *bus, const char *topic, uint64_t seq,
                                      const char *kind);
void expect_message(struct bus_msg *msg, const char *text);

/* A thread in bus_sub_recv() or, with a topic, in bus_await(). */
struct waiter {
    struct bus *bus;
    struct bus_sub *sub;
    const char *topic;
    uint64_t seq;
    int64_t timeout_ms;
    pthread_t thread;
    enum bus_err err; /* what came of it */
    struct bus_msg *msg;
    struct bus_error *error;
    int64_t ended_ms;
};
void waiter_start(struct waiter *waiter);
void waiter_join(struct waiter *waiter);
void waiter_fini(struct waiter *waiter);

/* ---- watching ---------------------------------------------------------------------------------*/

struct bus_tap *must_tap(const char *job, uint64_t from_id);
/* The next event of this name about this party (NULL: any); others are passed over. */
const struct bus_event *expect_event(struct bus_tap *tap, const char *name, const char *party);
/* What a new tap reads of the default job from its first event on: for the message of a failure. */
const char *tell_story(void);
/* How many of them have come up to and without the next event of the name until. */
size_t count_events_until(struct bus_tap *tap, const char *name, const char *until);

uint64_t refused_count(void);
/* The row of this name, copied; its strings are not to be used.  False: there is none. */
bool find_row(const char *job, enum bus_status_kind kind, const char *name,
              struct bus_status_row *out_row);

/* ---- parties in processes of their own ------------------------------------------------------- */

struct party {
    struct process process;
};

/* words: OPTION=NUMBER of party.c, NULL at their end; or NULL. */
void party_start(struct party *party, const char *name, const char *const *words);
/* environment: as for process_start(). */
void party_start_in(struct party *party, const char *name, const char *const *words,
                    const char *const *environment);
/* Says the command and expects this answer, without the "= ". */
void party_do(struct party *party, const char *answer, const char *command, ...)
    __attribute__((format(printf, 3, 4)));
void party_command(struct party *party, const char *command);
void party_expect(struct party *party, const char *answer);
/* What it answers, good until it says more. */
const char *party_answer(struct party *party);
/* How often it said "! WHAT..." so far. */
size_t party_count(const struct party *party, const char *what);
/* SIGKILL, and the process is gone. */
void party_kill(struct party *party);
void party_fini(struct party *party);

#endif
