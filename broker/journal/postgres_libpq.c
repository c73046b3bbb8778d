/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_libpq.c -- the door to PostgreSQL: libpq.
 *
 * All statements of a call go out together, in a pipeline of libpq, and are one transaction: the
 * server commits at the end of the pipeline, or undoes all of it.  A commit whose wait for standbys
 * was cancelled succeeds, with a warning that libpq shows to a notice receiver alone.  So any
 * warning of that class makes the answer a doubt.  The check of the door goes out with them, behind
 * the end of that pipeline: the server carries it out when the commit is over.
 *
 * The conninfo may name several servers.  The first one that takes writes is not always the right
 * one: it may have been replaced, and not know that.  And one that stands still costs time whenever
 * it is tried.  So each connect may begin with another one of the list.
 *
 * A statement with parameters is prepared when it comes first: to plan the two of a commit takes as
 * long as to carry them out.  Those that were not used for long make room for others. */
#include "broker/journal/postgres_door.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NUMBER_TEXT_BYTES = 24, WAIT_SLICE_MS = 100, REST_MS = 100 };
/* A commit has two or three, a look one more; and each file and the check have one of their own. */
enum { PREPARED_MAX = 9, PREPARED_NAME_BYTES = 24 };
/* So many bytes of bodies are left to libpq before they are sent: a socket takes about that. */
enum { UNSENT_BYTES = 64 * 1024 };
#define WARNING_STATE "01000"

struct prepared {
    char sql[DOOR_SQL_BYTES]; /* "": none */
    char name[PREPARED_NAME_BYTES];
    bool is_ready;      /* the server has it; otherwise it is on its way */
    uint64_t last_used; /* number of the call */
};

struct libpq {
    struct door door;
    struct prepared prepared[PREPARED_MAX]; /* of this connection */
    uint64_t named;
    uint64_t calls;
    PGconn *connection; /* NULL: none */
    bool is_warned;     /* by the statements that run */
    char warning[DOOR_WHY_BYTES];
};

static struct libpq *libpq_of(struct door *door)
{
    return (struct libpq *)(void *)door;
}

/* A message of libpq without the newline at its end, in one line. */
static void copy_line(char *out, const char *text)
{
    snprintf(out, DOOR_WHY_BYTES, "%s", text != NULL ? text : "");
    size_t length = strlen(out);
    while (length > 0 && out[length - 1] == '\n')
        out[--length] = '\0';
    for (char *at = out; *at != '\0'; at++)
        if (*at == '\n' || *at == '\t')
            *at = ' ';
}

static void hear_notice(void *arg, const PGresult *result)
{
    struct libpq *libpq = arg;
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (state == NULL || strcmp(state, WARNING_STATE) != 0)
        return;
    libpq->is_warned = true;
    copy_line(libpq->warning, PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
}

/* ---- the connection -------------------------------------------------------------------------- */

static void libpq_disconnect(struct door *door)
{
    struct libpq *libpq = libpq_of(door);
    if (libpq->connection != NULL)
        PQfinish(libpq->connection);
    libpq->connection = NULL;
    memset(libpq->prepared, 0, sizeof libpq->prepared);
}

static unsigned count_items(const char *list)
{
    unsigned count = list != NULL && *list != '\0';
    for (; count > 0 && *list != '\0'; list++)
        count += *list == ',';
    return count;
}

/* The list with so many items of its beginning behind its end; NULL: no memory. */
static char *turn_list(const char *list, unsigned turn)
{
    const char *from = list;
    size_t bytes = strlen(list) + 1;
    char *turned = malloc(bytes);
    for (; turn > 0 && strchr(from, ',') != NULL; turn--)
        from = strchr(from, ',') + 1;
    if (turned != NULL)
        snprintf(turned, bytes, "%s%s%.*s", from, from > list ? "," : "",
                 from > list ? (int)(from - list) - 1 : 0, list);
    return turned;
}

/* The servers of a conninfo, beginning with the one whose turn it is. */
struct servers {
    char *values[3]; /* of server_names; NULL: as the conninfo has it */
};
static const char *const server_names[] = {"host", "hostaddr", "port"};

static void turn_servers(struct libpq *libpq, const char *conninfo, struct servers *out)
{
    PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
    libpq->door.hosts = 0;
    for (const PQconninfoOption *at = options; at != NULL && at->keyword != NULL; at++)
        if (strcmp(at->keyword, "port") != 0 && strncmp(at->keyword, "host", 4) == 0 &&
            count_items(at->val) > libpq->door.hosts)
            libpq->door.hosts = count_items(at->val);
    unsigned turn = libpq->door.hosts > 1 ? libpq->door.turn % libpq->door.hosts : 0;
    for (const PQconninfoOption *at = options; at != NULL && at->keyword != NULL; at++)
        for (size_t i = 0; turn > 0 && i < sizeof server_names / sizeof server_names[0]; i++)
            if (strcmp(at->keyword, server_names[i]) == 0 && count_items(at->val) > 1)
                out->values[i] = turn_list(at->val, turn);
    PQconninfoFree(options);
}

/* What stands before dbname is a default that the conninfo overrules; what stands behind it
 * overrules the conninfo. */
static bool libpq_connect(struct door *door, const char *conninfo, char *why)
{
    static const char seconds[] = {'0' + DOOR_CONNECT_S, '\0'};
    const char *const names[] = {"connect_timeout",
                                 "tcp_user_timeout",
                                 "keepalives_idle",
                                 "application_name",
                                 "target_session_attrs",
                                 "dbname",
                                 "client_encoding",
                                 server_names[0],
                                 server_names[1],
                                 server_names[2],
                                 NULL};
    struct libpq *libpq = libpq_of(door);
    struct servers servers = {.values = {NULL}};
    libpq_disconnect(door);
    turn_servers(libpq, conninfo, &servers);
    const char *const values[] = {seconds,
                                  "5000",
                                  "5",
                                  "errbusd",
                                  "read-write",
                                  conninfo,
                                  "UTF8",
                                  servers.values[0],
                                  servers.values[1],
                                  servers.values[2],
                                  NULL};
    libpq->connection = PQconnectdbParams(names, values, 1);
    for (size_t i = 0; i < sizeof servers.values / sizeof servers.values[0]; i++)
        free(servers.values[i]);
    if (libpq->connection == NULL) {
        snprintf(why, DOOR_WHY_BYTES, "out of memory");
        return false;
    }
    PQsetNoticeReceiver(libpq->connection, hear_notice, libpq);
    if (PQstatus(libpq->connection) == CONNECTION_OK &&
        PQsetnonblocking(libpq->connection, 1) == 0 && PQenterPipelineMode(libpq->connection) == 1)
        return true;
    copy_line(why, PQerrorMessage(libpq->connection));
    libpq_disconnect(door);
    return false;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Waits until the socket is ready.  false: the server said nothing for too long, or nobody waits
 * any more. */
static bool wait_for_socket(struct libpq *libpq, short events)
{
    struct pollfd item = {.fd = PQsocket(libpq->connection), .events = events};
    for (int waited_ms = 0; waited_ms < DOOR_ANSWER_MS; waited_ms += WAIT_SLICE_MS) {
        int ready = poll(&item, 1, WAIT_SLICE_MS);
        if (ready > 0)
            return true;
        if ((ready < 0 && errno != EINTR) || atomic_load(&libpq->door.is_given_up))
            return false;
    }
    libpq->door.turn++; /* another server may have been promoted meanwhile */
    return false;
}

/* Sends what libpq holds, and reads what comes meanwhile. */
static bool flush_all(struct libpq *libpq)
{
    int left;
    while ((left = PQflush(libpq->connection)) == 1) {
        if (!wait_for_socket(libpq, POLLIN | POLLOUT) || PQconsumeInput(libpq->connection) == 0)
            return false;
    }
    return left == 0;
}

/* The next result, which may be NULL.  false: the connection is of no use any more. */
static bool next_result(struct libpq *libpq, PGresult **out_result)
{
    while (PQisBusy(libpq->connection) == 1)
        if (!wait_for_socket(libpq, POLLIN) || PQconsumeInput(libpq->connection) == 0)
            return false;
    *out_result = PQgetResult(libpq->connection);
    return PQstatus(libpq->connection) == CONNECTION_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static struct prepared *find_prepared(struct libpq *libpq, const char *sql)
{
    for (size_t i = 0; i < PREPARED_MAX; i++)
        if (strcmp(libpq->prepared[i].sql, sql) == 0)
            return &libpq->prepared[i];
    return NULL;
}

/* Names are never used again, so one that the server still has does no harm.  NULL: not sent. */
static struct prepared *prepare_statement(struct libpq *libpq, const char *sql)
{
    char drop[PREPARED_NAME_BYTES + 16];
    struct prepared *oldest = &libpq->prepared[0];
    for (size_t i = 1; i < PREPARED_MAX; i++)
        if (libpq->prepared[i].last_used < oldest->last_used)
            oldest = &libpq->prepared[i];
    snprintf(drop, sizeof drop, "DEALLOCATE %s", oldest->name);
    if (oldest->is_ready &&
        PQsendQueryParams(libpq->connection, drop, 0, NULL, NULL, NULL, NULL, 1) != 1)
        return NULL;
    *oldest = (struct prepared){.last_used = libpq->calls};
    snprintf(oldest->sql, sizeof oldest->sql, "%s", sql);
    snprintf(oldest->name, sizeof oldest->name, "errbus_%llu", (unsigned long long)++libpq->named);
    return PQsendPrepare(libpq->connection, oldest->name, sql, 0, NULL) == 1 ? oldest : NULL;
}

/* Of a pipeline that the server undid, nobody knows how far it came. */
static void note_prepared(struct libpq *libpq, bool is_carried_out)
{
    for (size_t i = 0; i < PREPARED_MAX; i++) {
        struct prepared *prepared = &libpq->prepared[i];
        if (!prepared->is_ready && !is_carried_out)
            *prepared = (struct prepared){.is_ready = false};
        prepared->is_ready = prepared->sql[0] != '\0';
    }
}

static bool send_statement(struct libpq *libpq, const struct door_statement *statement)
{
    char numbers[DOOR_PARAMS_MAX][NUMBER_TEXT_BYTES];
    const char *values[DOOR_PARAMS_MAX];
    int lengths[DOOR_PARAMS_MAX];
    int formats[DOOR_PARAMS_MAX];
    for (unsigned i = 0; i < statement->count; i++) {
        const struct door_param *param = &statement->params[i];
        snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)param->number);
        values[i] = param->kind == DOOR_NUMBER ? numbers[i] : param->bytes.data;
        lengths[i] = (int)param->bytes.bytes; /* of bytes alone: ignored where it is text */
        formats[i] = param->kind == DOOR_BYTES;
    }
    if (statement->count == 0)
        return PQsendQueryParams(libpq->connection, statement->sql, 0, NULL, NULL, NULL, NULL, 1) ==
               1;
    struct prepared *prepared = find_prepared(libpq, statement->sql);
    if (prepared == NULL)
        prepared = prepare_statement(libpq, statement->sql);
    if (prepared == NULL)
        return false;
    prepared->last_used = libpq->calls;
    return PQsendQueryPrepared(libpq->connection, prepared->name, (int)statement->count, values,
                               lengths, formats, 1) == 1;
}

/* It has no parameters, and is prepared all the same: it comes with each commit. */
static bool send_check(struct libpq *libpq)
{
    const char *check = libpq->door.check;
    if (check == NULL)
        return true;
    struct prepared *prepared = find_prepared(libpq, check);
    if (prepared == NULL)
        prepared = prepare_statement(libpq, check);
    if (prepared == NULL)
        return false;
    prepared->last_used = libpq->calls;
    return PQsendQueryPrepared(libpq->connection, prepared->name, 0, NULL, NULL, NULL, 1) == 1 &&
           PQpipelineSync(libpq->connection) == 1;
}

static uint64_t body_bytes(const struct door_statement *statement)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < statement->count; i++)
        if (statement->params[i].kind == DOOR_BYTES)
            bytes += statement->params[i].bytes.bytes;
    return bytes;
}

/* libpq keeps a copy of what the socket does not take, and moves all of that each time it sends.
 * So a body is sent before the next one comes. */
static bool send_all(struct libpq *libpq, const struct door_statement *statements, size_t count)
{
    uint64_t unsent = 0;
    bool is_sent = libpq->connection != NULL;
    for (size_t i = 0; is_sent && i < count; i++) {
        unsent += body_bytes(&statements[i]);
        is_sent = send_statement(libpq, &statements[i]);
        if (is_sent && unsent >= UNSENT_BYTES) {
            is_sent = flush_all(libpq);
            unsent = 0;
        }
    }
    return is_sent && PQpipelineSync(libpq->connection) == 1 && send_check(libpq) &&
           flush_all(libpq);
}

/* Notes what one result says.  The rows of the last one with any are kept. */
static void see_result(struct door_answer *out, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_TUPLES_OK) {
        PQclear(out->rows);
        out->rows = result;
        return;
    }
    if (status == PGRES_COMMAND_OK)
        out->changed = strtoull(PQcmdTuples(result), NULL, 10);
    if (status == PGRES_FATAL_ERROR && out->verdict == DOOR_DONE) {
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
        out->verdict = DOOR_REFUSED;
        snprintf(out->state, sizeof out->state, "%s", state != NULL ? state : "");
        copy_line(out->why, message != NULL ? message : PQresultErrorMessage(result));
    }
    PQclear(result);
}

/* Reads up to the end of the pipeline.  false: the connection ended before. */
static bool read_results(struct libpq *libpq, struct door_answer *out)
{
    for (;;) {
        PGresult *result = NULL;
        if (!next_result(libpq, &result)) {
            PQclear(result);
            return false;
        }
        if (result == NULL)
            continue; /* the end of one statement */
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            return true;
        }
        see_result(out, result);
    }
}

/* The same for the check. */
static bool read_check(struct libpq *libpq, struct door_answer *out)
{
    struct door_answer checked = {.verdict = DOOR_DONE};
    bool is_whole = libpq->door.check == NULL || read_results(libpq, &checked);
    bool is_there = is_whole && checked.rows != NULL && PQntuples(checked.rows) == 1;
    if (is_there)
        snprintf(out->check, sizeof out->check, "%s", PQgetvalue(checked.rows, 0, 0));
    PQclear(checked.rows);
    return is_whole;
}

static void libpq_clear(struct door_answer *answer)
{
    PQclear(answer->rows);
    answer->rows = NULL;
}

static void work_meanwhile(struct door *door)
{
    void (*meanwhile)(void *arg) = door->meanwhile;
    door->meanwhile = NULL;
    if (meanwhile != NULL)
        meanwhile(door->meanwhile_arg);
}

static void libpq_run(struct door *door, const struct door_statement *statements, size_t count,
                      struct door_answer *out)
{
    struct libpq *libpq = libpq_of(door);
    *out = (struct door_answer){.verdict = DOOR_DONE};
    libpq->is_warned = false;
    libpq->calls++;
    bool is_sent = send_all(libpq, statements, count);
    work_meanwhile(door);
    bool is_whole = is_sent && read_results(libpq, out) && read_check(libpq, out);
    note_prepared(libpq, is_whole && out->verdict == DOOR_DONE);
    if (!is_whole) {
        const char *message =
            libpq->connection != NULL ? PQerrorMessage(libpq->connection) : "not connected";
        out->verdict = DOOR_DOUBT;
        copy_line(out->why, *message != '\0' ? message : "the server does not answer");
    } else if (out->verdict == DOOR_DONE && libpq->is_warned) {
        out->verdict = DOOR_DOUBT;
        memcpy(out->why, libpq->warning, sizeof out->why);
    }
    if (!is_whole)
        libpq_disconnect(door);
    if (out->verdict != DOOR_DONE)
        libpq_clear(out);
}

static size_t libpq_rows(const struct door_answer *answer)
{
    return answer->rows != NULL ? (size_t)PQntuples(answer->rows) : 0;
}

static struct span libpq_field(const struct door_answer *answer, size_t row, unsigned column)
{
    int at = (int)row;
    if (PQgetisnull(answer->rows, at, (int)column))
        return SPAN_NONE;
    return span_of(PQgetvalue(answer->rows, at, (int)column),
                   (size_t)PQgetlength(answer->rows, at, (int)column));
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void libpq_rest(struct door *door)
{
    struct timespec time = {.tv_nsec = REST_MS * 1000000L};
    (void)door;
    (void)nanosleep(&time, NULL); /* or shorter */
}

static void libpq_close(struct door *door)
{
    libpq_disconnect(door);
    free(libpq_of(door));
}

struct door *door_new(void)
{
    static const struct door_ops ops = {.connect = libpq_connect,
                                        .disconnect = libpq_disconnect,
                                        .run = libpq_run,
                                        .rows = libpq_rows,
                                        .field = libpq_field,
                                        .clear = libpq_clear,
                                        .rest = libpq_rest,
                                        .close = libpq_close};
    struct libpq *libpq = calloc(1, sizeof *libpq);
    if (libpq == NULL)
        return NULL;
    libpq->door.ops = &ops;
    return &libpq->door;
}
