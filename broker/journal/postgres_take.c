/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_take.c -- how a shard in PostgreSQL is opened: the server is looked at, the tables are
 * made, the row is taken, and the files are fetched; see postgres_store.h. */
#include "broker/journal/postgres_store.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Any number, the same for all brokers: one of them makes the tables at a time. */
#define SCHEMA_LOCK "727732453"

static struct door_param number_param(uint64_t number)
{
    return (struct door_param){.kind = DOOR_NUMBER, .number = (int64_t)number};
}

static struct door_param text_param(const char *text)
{
    return (struct door_param){.kind = DOOR_TEXT, .bytes = span_text(text)};
}

int store_init(struct store *store, struct door **door, const char *conninfo, unsigned shard,
               unsigned replicas)
{
    char host[DISK_HOLDER_BYTES / 2] = "";
    uint64_t random = 0;
    *store = (struct store){.door = *door, .shard = shard, .replicas = replicas};
    (*door)->check = "SELECT " STORE_TERMS;
    *door = NULL;
    pthread_mutex_init(&store->away.lock, NULL); /* which cannot fail on Linux */
    (void)gethostname(host, sizeof host - 1);    /* for people: may stay empty */
    (void)!getrandom(&random, sizeof random, 0); /* two attempts of one process may be alike */
    snprintf(store->holder, sizeof store->holder, "%s %ld %016" PRIx64, host, (long)getpid(),
             random);
    store->conninfo = strdup(conninfo);
    return store->conninfo != NULL ? 0 : -ENOMEM;
}

void store_fini(struct store *store)
{
    if (store->door != NULL)
        store->door->ops->close(store->door);
    store->door = NULL;
    free(store->conninfo);
    store->conninfo = NULL;
}

/* ---- what the server promises ---------------------------------------------------------------- */

/* FIRST n (...), ANY n (...), n (...), or a list of names, which is FIRST 1. */
unsigned store_quorum(const char *setting)
{
    const char *at = setting + strspn(setting, " ");
    if (*at == '\0')
        return 0;
    if (strncasecmp(at, "any ", 4) == 0)
        at += 4;
    else if (strncasecmp(at, "first ", 6) == 0)
        at += 6;
    at += strspn(at, " ");
    char *end = NULL;
    unsigned long count = strtoul(at, &end, 10);
    end += strspn(end, " ");
    bool is_counted = isdigit((unsigned char)*at) && *end == '(';
    return is_counted ? (unsigned)count : 1;
}

static uint64_t number_at(const struct store *store, const struct door_answer *answer,
                          unsigned column)
{
    struct span field = store->door->ops->field(answer, 0, column);
    return field.data != NULL ? strtoull(field.data, NULL, 10) : 0;
}

static bool is_word(const struct store *store, const struct door_answer *answer, unsigned column,
                    const char *word)
{
    return span_equal(store->door->ops->field(answer, 0, column), span_text(word));
}

static void read_found(struct store *store, const struct door_answer *answer)
{
    struct store_found *found = &store->found;
    struct span quorum = store->door->ops->field(answer, 0, 4);
    found->version = (int64_t)number_at(store, answer, 0);
    found->is_standby = is_word(store, answer, 1, "true");
    found->has_fsync = is_word(store, answer, 2, "on");
    found->has_full_pages = is_word(store, answer, 3, "on");
    snprintf(found->quorum, sizeof found->quorum, "%.*s", (int)quorum.bytes,
             quorum.data != NULL ? (const char *)quorum.data : "");
    found->confirming = store_quorum(found->quorum);
    found->synchronous = (unsigned)number_at(store, answer, 5);
    found->hidden = (unsigned)number_at(store, answer, 6);
    struct span terms = store->door->ops->field(answer, 0, 7);
    snprintf(found->terms, sizeof found->terms, "%.*s", (int)terms.bytes,
             terms.data != NULL ? (const char *)terms.data : "");
}

/* The settings of a session, and those of the server.  A server whose client is gone without a word
 * learns it by keepalives: the system's own come after two hours, and a commit that came in part
 * keeps its locks as long.  On a socket in the file system they are ignored. */
static bool greet(struct store *store)
{
    static const struct door_statement statements[] = {
        {.sql = "SELECT set_config('synchronous_commit', 'on', false),"
                " set_config('client_min_messages', 'warning', false),"
                " set_config('statement_timeout', '0', false),"
                " set_config('lock_timeout', '0', false),"
                " set_config('idle_session_timeout', '0', false),"
                " set_config('client_connection_check_interval', '2s', false),"
                " set_config('tcp_keepalives_idle', '5', false),"
                " set_config('tcp_keepalives_interval', '1', false),"
                " set_config('tcp_keepalives_count', '3', false)"},
        {.sql = "SELECT current_setting('server_version_num'), pg_is_in_recovery()::text,"
                " current_setting('fsync'), current_setting('full_page_writes'),"
                " current_setting('synchronous_standby_names'),"
                " (SELECT count(*)::text FROM pg_stat_replication"
                " WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum')),"
                " (SELECT count(*)::text FROM pg_stat_replication WHERE sync_state IS NULL),"
                " " STORE_TERMS}};
    struct door_answer answer;
    store->door->ops->run(store->door, statements, 2, &answer);
    bool is_done = answer.verdict == DOOR_DONE && store->door->ops->rows(&answer) == 1;
    if (is_done)
        read_found(store, &answer);
    else
        snprintf(store->why, sizeof store->why, "cannot begin a session: %s", answer.why);
    store->door->ops->clear(&answer);
    return is_done;
}

/* NULL: it keeps what was promised. */
static const char *store_lack(const struct store *store)
{
    const struct store_found *found = &store->found;
    if (found->is_standby)
        return "this server is a standby: name all servers of the cluster in the connection string";
    if (!found->has_fsync)
        return "fsync is off, so a power failure loses commits: set fsync = on";
    if (!found->has_full_pages)
        return "full_page_writes is off, so a power failure damages tables: set it on";
    if (found->confirming < store->replicas)
        return "synchronous_standby_names lets too few standbys confirm a commit: set it to "
               "'ANY 1 (NAME, NAME)', or say with --replicas how many are enough";
    if (found->synchronous < store->replicas && found->hidden > 0)
        return "this user may not see which standbys are synchronous: GRANT pg_monitor TO it";
    if (found->synchronous < store->replicas)
        return "too few synchronous standbys are connected: start them, or look at "
               "pg_stat_replication";
    return NULL;
}

/* One attempt.  *out_is_unfit: there was a server, and it lacks something. */
static bool connect_once(struct store *store, bool *out_is_unfit)
{
    char why[DOOR_WHY_BYTES] = "";
    if (!store->door->ops->connect(store->door, store->conninfo, why)) {
        snprintf(store->why, sizeof store->why, "cannot connect to the server: %s", why);
        return false;
    }
    store->session++;
    store->is_connected = greet(store);
    const char *lack = store->is_connected ? store_lack(store) : NULL;
    if (lack != NULL)
        snprintf(store->why, sizeof store->why, "%s", lack);
    if (lack == NULL && store->is_connected)
        return true;
    store->door->ops->disconnect(store->door);
    store->is_connected = false;
    *out_is_unfit = lack != NULL;
    return false;
}

/* A server that was replaced may not know that, and take writes.  It has no standbys any more.  So
 * the next one is tried, until each was. */
bool store_connect(struct store *store)
{
    for (unsigned tries = 1;; tries++) {
        bool is_unfit = false;
        if (connect_once(store, &is_unfit))
            return true;
        if (!is_unfit)
            return false;
        store->door->turn++;
        if (tries >= store->door->hosts)
            return false;
    }
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Runs it, and leaves a sentence where it failed.  true: answer is to be cleared. */
static bool ask(struct store *store, const struct door_statement *statements, size_t count,
                const char *what, struct door_answer *answer)
{
    store->door->ops->run(store->door, statements, count, answer);
    if (answer->verdict == DOOR_DONE)
        return true;
    snprintf(store->why, sizeof store->why, "%s: %s", what, answer->why);
    if (answer->verdict == DOOR_DOUBT) {
        store->door->ops->disconnect(store->door);
        store->is_connected = false;
    }
    store->door->ops->clear(answer);
    return false;
}

int store_prepare(struct store *store)
{
    const struct door_statement statements[] = {
        {.sql = "SELECT pg_advisory_xact_lock(" SCHEMA_LOCK ")"},
        {.sql = "CREATE TABLE IF NOT EXISTS errbus_meta (version int NOT NULL)"},
        {.sql = "CREATE TABLE IF NOT EXISTS errbus_shard (shard int PRIMARY KEY,"
                " epoch int8 NOT NULL DEFAULT 0, seq int8 NOT NULL DEFAULT 0, holder text,"
                " session int, ends timestamptz NOT NULL DEFAULT '-infinity')"
                " WITH (fillfactor = 20)"},
        {.sql = "CREATE TABLE IF NOT EXISTS errbus_file (shard int, file int8, name text NOT NULL,"
                " bytes int8 NOT NULL, PRIMARY KEY (shard, file))"},
        {.sql = "CREATE TABLE IF NOT EXISTS errbus_taken (shard int, epoch int8,"
                " seq int8 NOT NULL, holder text NOT NULL, PRIMARY KEY (shard, epoch))"},
        {.sql = "DELETE FROM errbus_taken WHERE shard = $1 AND epoch <"
                " (SELECT epoch FROM errbus_shard WHERE shard = $1) - $2",
         .params = {number_param(store->shard), number_param(STORE_EPOCHS_KEPT)},
         .count = 2},
        {.sql = "CREATE TABLE IF NOT EXISTS errbus_job (job text PRIMARY KEY, shard int NOT NULL)"},
        {.sql = "CREATE TABLE IF NOT EXISTS errbus_endpoint (shard int PRIMARY KEY,"
                " epoch int8 NOT NULL, control text NOT NULL)"},
        {.sql = "INSERT INTO errbus_meta SELECT 2 WHERE NOT EXISTS (SELECT FROM errbus_meta)"},
        {.sql = "UPDATE errbus_meta SET version = 2 WHERE version = 1"},
        {.sql = "INSERT INTO errbus_shard (shard) VALUES ($1) ON CONFLICT DO NOTHING",
         .params = {number_param(store->shard)},
         .count = 1},
        {.sql = "SELECT version::text FROM errbus_meta"}};
    struct door_answer answer;
    if (!ask(store, statements, sizeof statements / sizeof statements[0],
             "cannot make the tables of the journal", &answer))
        return -EIO;
    uint64_t version = number_at(store, &answer, 0);
    store->door->ops->clear(&answer);
    if (version == STORE_VERSION)
        return 0;
    snprintf(store->why, sizeof store->why,
             "a newer errbusd made the tables (version %" PRIu64 ", not %d): use that errbusd",
             version, STORE_VERSION);
    return -EPROTO;
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* The age of our own session tells how long this server has been the one to ask.  The number of the
 * commit is left out: who was stopped in the midst of it holds the lock of its pieces' keys. */
static const char take_sql[] =
    "WITH taken AS (UPDATE errbus_shard SET epoch = epoch + 1, seq = seq + 1, holder = $2,"
    " session = pg_backend_pid(), ends = clock_timestamp() + %d * interval '1 ms'"
    " WHERE shard = $1 AND (ends = '-infinity' OR holder = $2 OR"
    " (EXISTS (SELECT FROM pg_stat_activity WHERE pid = pg_backend_pid()"
    " AND backend_start < clock_timestamp() - %d * interval '1 ms')"
    " AND (ends < clock_timestamp() OR (ends < clock_timestamp() + %d * interval '1 ms'"
    " AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = session)))))"
    " RETURNING shard, epoch, seq, holder)"
    " INSERT INTO errbus_taken (shard, epoch, seq, holder) SELECT shard, epoch, seq, holder"
    " FROM taken ON CONFLICT (shard, epoch) DO UPDATE SET seq = excluded.seq,"
    " holder = excluded.holder RETURNING epoch::text, seq::text";

int store_take(struct store *store)
{
    struct door_statement take = {.params = {number_param(store->shard), text_param(store->holder)},
                                  .count = 2};
    struct door_answer answer;
    store->why[0] = '\0'; /* of an attempt before */
    if (!store->is_connected && !store_connect(store))
        return -EWOULDBLOCK;
    snprintf(take.sql, sizeof take.sql, take_sql, STORE_LEASE_MS, STORE_SETTLED_MS,
             STORE_LEASE_MS - STORE_GONE_MS);
    if (!ask(store, &take, 1, "cannot take the shard", &answer))
        return -EWOULDBLOCK; /* in doubt: the next attempt knows its holder again */
    bool is_taken = store->door->ops->rows(&answer) == 1;
    if (is_taken) {
        store->epoch = number_at(store, &answer, 0);
        store->seq = number_at(store, &answer, 1);
        store->is_fenced = false; /* it was, if it was replaced while it read */
    }
    store->door->ops->clear(&answer);
    return is_taken ? 0 : -EWOULDBLOCK;
}

void store_release(struct store *store)
{
    struct door_statement release = {
        .sql = "UPDATE errbus_shard SET ends = '-infinity', holder = NULL, session = NULL"
               " WHERE shard = $1 AND epoch = $2 AND holder = $3",
        .params = {number_param(store->shard), number_param(store->epoch),
                   text_param(store->holder)},
        .count = 3};
    struct door_answer answer;
    if (store->epoch == 0 || store->is_fenced || !store->is_connected)
        return;
    store->epoch = 0;
    if (ask(store, &release, 1, "cannot release the shard", &answer))
        store->door->ops->clear(&answer);
}

/* ---- files ----------------------------------------------------------------------------------- */

int store_list(struct store *store, int (*visit)(void *arg, const struct store_file *file),
               void *arg)
{
    struct door_statement list = {
        .sql = "SELECT file::text, name, bytes::text,"
               " pg_relation_filenode(to_regclass('errbus_piece_' || shard || '_' || file))::text"
               " FROM errbus_file WHERE shard = $1 ORDER BY errbus_file.file",
        .params = {number_param(store->shard)},
        .count = 1};
    struct door_answer answer;
    int result = 0;
    const struct door_ops *ops = store->door->ops;
    if (!ask(store, &list, 1, "cannot list the files", &answer))
        return -EIO;
    for (size_t i = 0; result == 0 && i < ops->rows(&answer); i++) {
        struct store_file file = {.number = strtoull(ops->field(&answer, i, 0).data, NULL, 10),
                                  .bytes = strtoull(ops->field(&answer, i, 2).data, NULL, 10)};
        struct span table = ops->field(&answer, i, 3);
        file.filenode = table.data != NULL ? strtoull(table.data, NULL, 10) : 0;
        file.has_pieces = file.filenode != 0;
        snprintf(file.name, sizeof file.name, "%s", (const char *)ops->field(&answer, i, 1).data);
        result = visit(arg, &file);
    }
    ops->clear(&answer);
    return result;
}

/* The server keeps the plan of a statement.  It is made when the table is small, and would read and
 * sort all pieces of a large one for each answer. */
static const struct door_statement by_index = {
    .sql = "SELECT set_config('enable_seqscan', 'off', true),"
           " set_config('enable_bitmapscan', 'off', true)"};

/* The sum tells where an answer is full without a look at the bodies: their sizes are known from
 * the rows that point to them. */
int store_fetch(struct store *store, uint64_t file, struct store_place *place,
                int (*visit)(void *arg, uint64_t at, struct span body), void *arg)
{
    struct door_statement statements[] = {
        by_index, {.params = {number_param(place->seq), number_param(place->at)}, .count = 2}};
    const struct door_ops *ops = store->door->ops;
    struct door_answer answer;
    int result = 0;
    /* Without its table a name behind ORDER BY is that of a field, which is a text here. */
    snprintf(statements[1].sql, sizeof statements[1].sql,
             "SELECT piece.seq::text, piece.at::text, piece.body FROM (SELECT seq, at, body,"
             " sum(octet_length(body)) OVER (ORDER BY seq, at) - octet_length(body) AS before"
             " FROM (SELECT seq, at, body FROM errbus_piece_%u_%" PRIu64
             " WHERE (seq, at) > ($1, $2) ORDER BY seq, at LIMIT %d) AS next) AS piece"
             " WHERE piece.before < %d ORDER BY piece.seq, piece.at",
             store->shard, file, STORE_PIECES_AT_ONCE, STORE_ANSWER_BYTES);
    if (!ask(store, statements, 2, "cannot read the pieces of a file", &answer))
        return -EIO;
    size_t count = ops->rows(&answer);
    for (size_t i = 0; result == 0 && i < count; i++) {
        struct store_place next = {.seq = strtoull(ops->field(&answer, i, 0).data, NULL, 10),
                                   .at = strtoull(ops->field(&answer, i, 1).data, NULL, 10)};
        result = visit(arg, next.at, ops->field(&answer, i, 2));
        if (result == 0)
            *place = next;
    }
    ops->clear(&answer);
    return result < 0 ? result : (int)count;
}

/* Neither waits long for a lock, nor for the standbys: the next sweep drops what is left. */
static const struct door_statement hurry = {.sql =
                                                "SELECT set_config('lock_timeout', '10ms', true),"
                                                " set_config('synchronous_commit', 'local', true)"};

bool store_drop(struct store *store, uint64_t file)
{
    struct door_statement statements[] = {hurry, {.count = 0}};
    struct door_answer answer;
    snprintf(statements[1].sql, sizeof statements[1].sql,
             "DROP TABLE IF EXISTS errbus_piece_%u_%" PRIu64, store->shard, file);
    if (!store->is_connected || !ask(store, statements, 2, "cannot drop a table", &answer))
        return false;
    store->door->ops->clear(&answer);
    return true;
}

void store_sweep(struct store *store)
{
    struct door_statement list = {
        .sql = "SELECT substring(relname FROM '[0-9]+$') FROM pg_class WHERE relkind = 'r'"
               " AND pg_table_is_visible(oid) AND relname ~ ('^errbus_piece_' || $1::text || "
               "'_[0-9]+$')"
               " AND NOT EXISTS (SELECT FROM errbus_file WHERE shard::text = $1::text"
               " AND file::text = substring(relname FROM '[0-9]+$'))",
        .count = 1};
    char shard[16];
    struct door_answer answer;
    const struct door_ops *ops = store->door->ops;
    snprintf(shard, sizeof shard, "%u", store->shard);
    list.params[0] = text_param(shard);
    if (!ask(store, &list, 1, "cannot list the tables", &answer))
        return;
    for (size_t i = 0; i < ops->rows(&answer); i++)
        (void)store_drop(store, strtoull(ops->field(&answer, i, 0).data, NULL, 10));
    ops->clear(&answer); /* those that were not dropped are swept another time */
}
