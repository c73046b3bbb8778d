/* SPDX-License-Identifier: MPL-2.0 */
/* directory_thread_test.c -- what the thread tells the loop, before a server that gives one answer
 * to each question. */
#include "broker/io/directory_thread.h"

#include "broker/journal/postgres_store.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 8, SOON_MS = 20000, LACKING_ANSWERS = 3 };

/* The epoch of the broker is 3. */
static struct {
    struct door door;
    const char *epoch;   /* in the row of the shard */
    atomic_uint lacking; /* so many answers more have an older one */
    atomic_uint connects;
} server;
static struct directory_thread *thread;
static const char *const greeting[FIELDS] = {"150005", "false", "on", "on", "", "0", "0", "on on "};

static bool server_connect(struct door *door, const char *conninfo, char *why)
{
    (void)door;
    (void)conninfo;
    (void)why;
    atomic_fetch_add(&server.connects, 1);
    return true;
}

static void server_run(struct door *door, const struct door_statement *statements, size_t count,
                       struct door_answer *out)
{
    static const char *row[FIELDS] = {"", "0", "", "", "a 1 x"};
    bool is_greeting = strstr(statements[0].sql, "client_min_messages") != NULL;
    (void)door;
    (void)count;
    *out = (struct door_answer){.verdict = DOOR_DONE};
    snprintf(out->check, sizeof out->check, "%s", greeting[7]);
    out->rows = (void *)(uintptr_t)(is_greeting ? greeting : row);
    if (is_greeting)
        return;
    row[0] = server.epoch;
    if (atomic_load(&server.lacking) > 0) {
        atomic_fetch_sub(&server.lacking, 1);
        row[0] = "2";
    }
}

static size_t server_rows(const struct door_answer *answer)
{
    return answer->rows != NULL;
}

static struct span server_field(const struct door_answer *answer, size_t row, unsigned column)
{
    (void)row;
    return span_text(((const char *const *)answer->rows)[column]);
}

static void server_clear(struct door_answer *answer)
{
    answer->rows = NULL;
}

static void server_ignore(struct door *door)
{
    (void)door;
}

static void start(const char *epoch, unsigned lacking)
{
    static const struct door_ops ops = {.connect = server_connect,
                                        .disconnect = server_ignore,
                                        .run = server_run,
                                        .rows = server_rows,
                                        .field = server_field,
                                        .clear = server_clear,
                                        .rest = server_ignore,
                                        .close = server_ignore};
    static const struct disk_shard shard = {.number = 4};
    static const struct directory_asker asker = {3, "a 1 x"};
    server.door = (struct door){.ops = &ops};
    server.epoch = epoch;
    atomic_store(&server.lacking, lacking);
    struct door *door = &server.door;
    struct directory *directory = directory_open_door(&door, "host=a,b", &shard, &asker);
    cr_assert_not_null(directory);
    thread = directory_thread_open(&directory, "tcp://a:1", "");
    cr_assert_not_null(thread);
}

static void fini(void)
{
    directory_thread_close(&thread);
}

TestSuite(directory_thread, .fini = fini, .timeout = 60);

static void next(struct directory_answer *out)
{
    while (!directory_thread_next(thread, out)) {
        struct pollfd item = {.fd = directory_thread_fd(thread), .events = POLLIN};
        cr_assert_eq(poll(&item, 1, SOON_MS), 1);
    }
}

/* Otherwise nobody would know why no newcomer is let in. */
Test(directory_thread, says_that_it_ends_where_another_broker_has_the_shard)
{
    struct directory_answer answer;
    start("4", 0);
    next(&answer);
    cr_expect_eq(answer.kind, DIRECTORY_TEXT);
    cr_expect_not_null(strstr(answer.why, "another broker has the shard"), "%s", answer.why);
}

/* The first server of the list may be one that was replaced, and does not know that. */
Test(directory_thread, asks_on_where_a_server_lacks_its_epoch)
{
    struct directory_answer answer;
    start("3", LACKING_ANSWERS);
    next(&answer);
    cr_expect_eq(answer.kind, DIRECTORY_TEXT);
    cr_expect_not_null(strstr(answer.why, "lacks the epoch"), "%s", answer.why);
    next(&answer);
    cr_expect_eq(answer.kind, DIRECTORY_BEGUN);
    cr_expect_eq(atomic_load(&server.connects), LACKING_ANSWERS + 1);
    free(answer.names);
}
