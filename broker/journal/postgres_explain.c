/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_explain.c -- errbusd --explain-store: what a server has of what a journal needs. */
#include "broker/journal/postgres_store.h"
#include "broker/journal/tool.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COMMITS = 21, EXPLAIN_LINE_BYTES = 1024 };

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
    explain_line(explaining, "server: PostgreSQL %" PRId64 ".%" PRId64 ", %s",
                 found->version / 10000, found->version % 10000,
                 found->is_standby ? "a standby" : "takes writes");
    explain_line(explaining, "fsync: %s", yes(found->has_fsync));
    explain_line(explaining, "full_page_writes: %s", yes(found->has_full_pages));
    explain_line(explaining, "synchronous_standby_names: '%s', so a commit waits for %u",
                 found->quorum, found->confirming);
    explain_line(explaining, "synchronous standbys connected: %u", found->synchronous);
    if (found->hidden > 0)
        explain_line(explaining,
                     "standbys that this user may not see: %u; GRANT pg_monitor TO this user",
                     found->hidden);
}

/* A line for the server that answers, and one for each standby that is connected to it. */
static void explain_nodes(const struct explaining *explaining, struct store *store)
{
    static const struct door_statement list = {
        .sql = "SELECT 'node ' || coalesce(nullif(current_setting('cluster_name'), ''), '(no"
               " cluster_name)') || coalesce(' at ' || host(inet_server_addr()) || ':' ||"
               " inet_server_port(), '') || ': answers', 0 AS place, '' AS name UNION ALL "
               "SELECT 'node ' || coalesce(nullif(application_name, ''), '(no application_name)')"
               " || coalesce(' at ' || host(client_addr), '') || ': a standby, ' ||"
               " coalesce(state || ', ' || sync_state || CASE WHEN state = 'streaming' AND"
               " sync_state IN ('sync', 'quorum') THEN ': confirms commits'"
               " ELSE ': confirms nothing' END, 'which this user may not see'), 1, application_name"
               " FROM pg_stat_replication ORDER BY place, name"};
    const struct door_ops *ops = store->door->ops;
    struct door_answer answer;
    char why[DOOR_WHY_BYTES];
    bool is_refused = !store->is_connected; /* then who is there is of most use */
    if (is_refused && !ops->connect(store->door, store->conninfo, why))
        return;
    ops->run(store->door, &list, 1, &answer);
    for (size_t i = 0; answer.verdict == DOOR_DONE && i < ops->rows(&answer); i++) {
        struct span line = ops->field(&answer, i, 0);
        explain_line(explaining, "%.*s", (int)line.bytes, (const char *)line.data);
    }
    if (answer.verdict != DOOR_DONE)
        explain_line(explaining, "nodes: not told: %s", answer.why);
    ops->clear(&answer);
    if (is_refused)
        ops->disconnect(store->door);
}

static int compare_times(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
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
    int64_t took_us[COMMITS] = {0};
    ops->run(store->door, &make, 1, &answer);
    for (int i = 0; answer.verdict == DOOR_DONE && i < COMMITS; i++) {
        int64_t from_us = now_us();
        ops->clear(&answer);
        ops->run(store->door, &insert, 1, &answer);
        took_us[i] = now_us() - from_us;
    }
    qsort(took_us, COMMITS, sizeof *took_us, compare_times);
    if (answer.verdict == DOOR_DONE)
        explain_line(explaining,
                     "a commit: %" PRId64 " us; of %d the shortest took %" PRId64
                     ", the longest %" PRId64 " us",
                     took_us[COMMITS / 2], COMMITS, took_us[0], took_us[COMMITS - 1]);
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
    if (store.found.version > 0)
        explain_nodes(&explaining, &store);
    if (is_fit) {
        explain_commits(&explaining, &store);
        explain_line(&explaining, "a broker with --replicas %u would start: %s", replicas,
                     replicas > 0 ? "each commit is confirmed by so many standbys"
                                  : "it asks for no standby");
        err = JOURNAL_OK;
    } else {
        explain_line(&explaining, "errbusd refuses this store: %s", store.why);
    }
    store_fini(&store);
    return err;
}
