/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_explain.c -- errbusd --explain-store: what a server has of what a journal needs. */
#include "broker/journal/postgres_store.h"
#include "broker/journal/tool.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { COMMITS = 20, EXPLAIN_LINE_BYTES = 1024 };

struct explaining {
    void (*report)(void *arg, const char *line);
    void *arg;
};

static void explain_line(const struct explaining *explaining, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void explain_line(const struct explaining *explaining, const char *format, ...)
{
    char line[EXPLAIN_LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    explaining->report(explaining->arg, line);
}

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static const char *yes(bool is_so)
{
    return is_so ? "on" : "off";
}

static void explain_found(const struct explaining *explaining, const struct store_found *found)
{
    explain_line(explaining, "server: PostgreSQL %" PRId64 ", %s", found->version / 10000,
                 found->is_standby ? "a standby" : "takes writes");
    explain_line(explaining, "fsync: %s", yes(found->has_fsync));
    explain_line(explaining, "full_page_writes: %s", yes(found->has_full_pages));
    explain_line(explaining, "synchronous_standby_names: '%s', so a commit waits for %u",
                 found->quorum, found->confirming);
    explain_line(explaining, "synchronous standbys connected: %u", found->synchronous);
    if (found->hidden > 0)
        explain_line(explaining, "standbys that this user may not see: %u", found->hidden);
}

/* A commit that changes nothing would wait for nobody, so each of these writes a row. */
static void explain_commits(const struct explaining *explaining, struct store *store)
{
    static const struct door_statement make = {
        .sql = "CREATE TABLE IF NOT EXISTS errbus_probe (at timestamptz)"};
    static const struct door_statement insert = {
        .sql = "INSERT INTO errbus_probe VALUES (clock_timestamp())"};
    static const struct door_statement drop = {.sql = "DROP TABLE errbus_probe"};
    const struct door_ops *ops = store->door->ops;
    struct door_answer answer;
    int64_t least_us = INT64_MAX, most_us = 0;
    ops->run(store->door, &make, 1, &answer);
    for (int i = 0; answer.verdict == DOOR_DONE && i < COMMITS; i++) {
        int64_t from_us = now_us();
        ops->clear(&answer);
        ops->run(store->door, &insert, 1, &answer);
        int64_t took_us = now_us() - from_us;
        least_us = took_us < least_us ? took_us : least_us;
        most_us = took_us > most_us ? took_us : most_us;
    }
    if (answer.verdict == DOOR_DONE)
        explain_line(explaining, "a commit: %" PRId64 " to %" PRId64 " us, of %d", least_us,
                     most_us, COMMITS);
    else
        explain_line(explaining, "a commit: not confirmed: %s", answer.why);
    ops->clear(&answer);
    ops->run(store->door, &drop, 1, &answer);
    ops->clear(&answer);
}

enum journal_err journal_explain_store(const char *where, unsigned replicas,
                                       void (*report)(void *arg, const char *line), void *arg)
{
    static const char scheme[] = "postgres:";
    struct explaining explaining = {report, arg};
    struct store store = {.door = NULL};
    struct door *door = door_new();
    enum journal_err err = JOURNAL_IO;
    size_t skipped = strncmp(where, scheme, strlen(scheme)) == 0 ? strlen(scheme) : 0;
    if (door == NULL || store_init(&store, &door, where + skipped, 0, replicas) < 0) {
        explain_line(&explaining, "out of memory");
        store_fini(&store);
        return JOURNAL_MEMORY;
    }
    bool is_fit = store_connect(&store);
    if (store.found.version > 0)
        explain_found(&explaining, &store.found);
    if (is_fit) {
        explain_commits(&explaining, &store);
        explain_line(&explaining, "this store keeps what 'shared' promises, with %u standby%s",
                     replicas, replicas == 1 ? "" : "s");
        err = JOURNAL_OK;
    } else {
        explain_line(&explaining, "errbusd refuses this store: %s", store.why);
    }
    store_fini(&store);
    return err;
}
