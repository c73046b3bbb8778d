/* SPDX-License-Identifier: MPL-2.0 */
/* postgres_store.c -- the commits of a shard's holder, and their doubts; see postgres_store.h. */
#include "broker/journal/postgres_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a row that is not what the last statement of a commit expects. */
#define STATE_UNEXPECTED "22012"

enum { FENCE_TERMS = 4 }; /* which parameter of that statement */

/* What the row says after a doubt. */
enum store_row {
    ROW_OURS,   /* and `seq` of it is known to a quorum */
    ROW_FENCED, /* it has another holder */
    ROW_WRONG,  /* it lacks what was confirmed: it is older, another's under our epoch, or gone */
    ROW_AWAY,   /* the server does not say */
};

/* ---- changes --------------------------------------------------------------------------------- */

void store_change_init(struct store_change *change)
{
    *change = (struct store_change){.count = 0};
}

void store_change_fini(struct store_change *change)
{
    free(change->statements);
    *change = (struct store_change){.count = 0};
}

/* Without memory: one that is never sent. */
static struct door_statement *add_statement(struct store_change *change)
{
    struct door_statement *statement = &change->unsent;
    if (change->count == change->room) {
        size_t room = change->room > 0 ? 2 * change->room : 16;
        struct door_statement *grown = realloc(change->statements, room * sizeof *grown);
        change->is_short = change->is_short || grown == NULL;
        change->statements = grown != NULL ? grown : change->statements;
        change->room = grown != NULL ? room : change->room;
    }
    if (change->count < change->room)
        statement = &change->statements[change->count++];
    *statement = (struct door_statement){.count = 0};
    return statement;
}

static void add_number(struct door_statement *statement, uint64_t number)
{
    statement->params[statement->count++] =
        (struct door_param){.kind = DOOR_NUMBER, .number = (int64_t)number};
}

static void add_text(struct door_statement *statement, const char *text)
{
    statement->params[statement->count++] =
        (struct door_param){.kind = DOOR_TEXT, .bytes = span_text(text)};
}

void store_change_make(struct store_change *change, const struct store *store, uint64_t file)
{
    struct door_statement *make = add_statement(change);
    snprintf(make->sql, sizeof make->sql,
             "CREATE TABLE errbus_piece_%u_%" PRIu64
             " (seq int8, at int8, body bytea NOT NULL, PRIMARY KEY (seq, at))"
             " WITH (autovacuum_enabled = false)",
             store->shard, file);
    struct door_statement *alter = add_statement(change);
    snprintf(alter->sql, sizeof alter->sql,
             "ALTER TABLE errbus_piece_%u_%" PRIu64 " ALTER body SET STORAGE EXTERNAL",
             store->shard, file);
}

void store_change_name(struct store_change *change, const struct store *store,
                       const struct store_file *file)
{
    struct door_statement *statement = add_statement(change);
    snprintf(statement->sql, sizeof statement->sql,
             "INSERT INTO errbus_file (shard, file, name, bytes) VALUES ($1, $2, $3, $4)"
             " ON CONFLICT (shard, file) DO UPDATE SET name = excluded.name,"
             " bytes = excluded.bytes");
    add_number(statement, store->shard);
    add_number(statement, file->number);
    add_text(statement, file->name);
    add_number(statement, file->bytes);
}

void store_change_remove(struct store_change *change, const struct store *store, uint64_t file)
{
    struct door_statement *statement = add_statement(change);
    snprintf(statement->sql, sizeof statement->sql,
             "DELETE FROM errbus_file WHERE shard = $1 AND file = $2");
    add_number(statement, store->shard);
    add_number(statement, file);
}

void store_change_write(struct store_change *change, const struct store *store, uint64_t file,
                        uint64_t at, struct span body)
{
    struct door_statement *statement = add_statement(change);
    snprintf(statement->sql, sizeof statement->sql,
             "INSERT INTO errbus_piece_%u_%" PRIu64 " (seq, at, body) VALUES ($1, $2, $3)",
             store->shard, file);
    add_number(statement, store->seq + 1);
    add_number(statement, at);
    statement->params[statement->count++] = (struct door_param){.kind = DOOR_BYTES, .bytes = body};
}

/* Behind all else: whoever is stopped in the midst of a commit holds no lock of the row, so another
 * broker need not wait for it.  The row of another holder, or commit, ends in a division by zero,
 * which undoes all of it.  So do settings that nobody looked at.  A row that is gone is not
 * changed.  A count of the rows that an update in a WITH changed says the same, and takes 11 to 21
 * us longer; an update that returns a field takes 4 to 14 us longer (bench/README.md). */
static void add_fence(struct store_change *change, const struct store *store)
{
    struct door_statement *statement = add_statement(change);
    snprintf(statement->sql, sizeof statement->sql,
             "UPDATE errbus_shard SET seq = CASE"
             " WHEN epoch = $2 AND seq = $3::int8 - 1 AND holder = $4"
             " AND " STORE_TERMS " = $5 THEN $3::int8"
             " ELSE 1 / (seq - seq) END, session = pg_backend_pid(),"
             " ends = clock_timestamp() + %d * interval '1 ms'"
             " WHERE shard = $1",
             STORE_LEASE_MS);
    add_number(statement, store->shard);
    add_number(statement, store->epoch);
    add_number(statement, store->seq + 1);
    add_text(statement, store->holder);
    add_text(statement, store->found.terms); /* FENCE_TERMS */
}

/* ---- looking --------------------------------------------------------------------------------- */

static uint64_t field_number(const struct store *store, const struct door_answer *answer,
                             unsigned column)
{
    struct span field = store->door->ops->field(answer, 0, column);
    return field.data != NULL ? strtoull(field.data, NULL, 10) : 0;
}

static void store_disconnect(struct store *store)
{
    if (store->is_connected)
        store->door->ops->disconnect(store->door);
    store->is_connected = false;
}

bool store_is_as_found(struct store *store, struct span terms)
{
    if (span_equal(terms, span_text(store->found.terms)))
        return true;
    snprintf(
        store->why, sizeof store->why,
        "its settings were changed (fsync, full_page_writes, synchronous_standby_names): '%.255s' "
        "before, and now '%.*s'",
        store->found.terms, (int)terms.bytes, terms.data != NULL ? (const char *)terms.data : "");
    return false;
}

/* Whether the answer, of at least one row, was given under the settings that were looked at, and
 * they were still in force behind its commit. */
static bool is_as_found(struct store *store, const struct door_answer *answer, unsigned column)
{
    return store_is_as_found(store, store->door->ops->field(answer, 0, column)) &&
           store_is_as_found(store, span_text(answer->check));
}

void store_away(struct store *store, char *out)
{
    pthread_mutex_lock(&store->away.lock);
    memcpy(out, store->away.why, sizeof store->away.why);
    pthread_mutex_unlock(&store->away.lock);
}

static void tell_away(struct store *store, const char *why)
{
    pthread_mutex_lock(&store->away.lock);
    snprintf(store->away.why, sizeof store->away.why, "%s", why);
    pthread_mutex_unlock(&store->away.lock);
}

/* It is away no more.  No other thread says whether it is. */
static void tell_back(struct store *store)
{
    if (store->away.why[0] != '\0')
        tell_away(store, "");
}

/* Of a row with a later epoch.  *seq: what the next holder found, if that is too few commits.
 * Nothing is known of epochs that a broker of an older version took. */
static enum store_row read_later_row(const struct store *store, const struct door_answer *answer,
                                     uint64_t *seq)
{
    uint64_t taken = field_number(store, answer, 4);
    struct span ours = store->door->ops->field(answer, 0, 5);
    if (ours.data != NULL && !span_equal(ours, span_text(store->holder)))
        return ROW_WRONG;
    if (taken == 0 || taken > store->seq)
        return ROW_FENCED;
    *seq = taken - 1;
    return ROW_WRONG;
}

/* A server that lacks our epoch, and was promoted, gives it to another holder. */
static enum store_row read_row(const struct store *store, const struct door_answer *answer,
                               uint64_t *seq)
{
    uint64_t epoch = field_number(store, answer, 0);
    struct span holder = store->door->ops->field(answer, 0, 3);
    if (epoch > store->epoch)
        return read_later_row(store, answer, seq);
    return epoch == store->epoch && span_equal(holder, span_text(store->holder)) ? ROW_OURS
                                                                                 : ROW_WRONG;
}

static void add_ours(struct door_statement *statement, const struct store *store)
{
    add_number(statement, store->shard);
    add_number(statement, store->epoch);
    add_text(statement, store->holder);
}

/* Ends the session that this holder had before, if that waits for the rest of a commit.  It never
 * gets it, and keeps the locks of what had come: the same commit would wait for it.  A session that
 * works still is left alone, for that commit may be there soon.  The time of the last renewal tells
 * it from another one that has got its number since. */
static void end_session_before(struct door_statement *statement, const struct store *store)
{
    snprintf(statement->sql, sizeof statement->sql,
             "SELECT pg_terminate_backend(pid) FROM errbus_shard"
             " JOIN pg_stat_activity ON pid = session AND pid <> pg_backend_pid()"
             " WHERE shard = $1 AND epoch = $2 AND holder = $3 AND usename = current_user"
             " AND wait_event = 'ClientRead'"
             " AND backend_start < ends - %d * interval '1 ms'",
             STORE_LEASE_MS);
    add_ours(statement, store);
}

/* Updates the row under our epoch, on a quorum, and reads it.  If the row is not ours, a quorum
 * confirms the answer all the same.  is_first: of this session. */
static enum store_row look(struct store *store, bool is_first, uint64_t *out_seq)
{
    struct door_statement statements[4] = {{.sql = STORE_CONFIRM}};
    size_t count = 1;
    struct door_answer answer;
    enum store_row row = ROW_AWAY;
    if (is_first)
        end_session_before(&statements[count++], store);
    struct door_statement *renew = &statements[count++];
    snprintf(renew->sql, sizeof renew->sql,
             "UPDATE errbus_shard SET session = pg_backend_pid(),"
             " ends = clock_timestamp() + %d * interval '1 ms'"
             " WHERE shard = $1 AND epoch = $2 AND holder = $3",
             STORE_LEASE_MS);
    add_ours(renew, store);
    struct door_statement *read = &statements[count++];
    snprintf(read->sql, sizeof read->sql,
             "SELECT epoch::text, seq::text, " STORE_TERMS ", holder,"
             " (SELECT seq::text FROM errbus_taken WHERE shard = $1 AND epoch = $2::int8 + 1),"
             " (SELECT holder FROM errbus_taken WHERE shard = $1 AND epoch = $2::int8)"
             " FROM errbus_shard WHERE shard = $1");
    add_number(read, store->shard);
    add_number(read, store->epoch);
    store->door->ops->run(store->door, statements, count, &answer);
    bool is_there = answer.verdict == DOOR_DONE && store->door->ops->rows(&answer) == 1;
    if (is_there && !is_as_found(store, &answer, 2)) {
        store_disconnect(store);
    } else if (answer.verdict == DOOR_DONE) {
        *out_seq = is_there ? field_number(store, &answer, 1) : 0;
        row = is_there ? read_row(store, &answer, out_seq) : ROW_WRONG;
    } else {
        snprintf(store->why, sizeof store->why, "%s", answer.why);
        store_disconnect(store); /* another server may take writes by now */
    }
    store->door->ops->clear(&answer);
    return row;
}

/* What another try cannot mend: the statement itself is wrong for this server.  All else may pass:
 * lost connections, lack of room or memory, locks, a shutdown. */
static bool is_final(const char *state)
{
    static const char *const passing[] = {"08", "40", "53", "55", "57", "58", "25", "XX"};
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++)
        if (strncmp(state, passing[i], 2) == 0)
            return false;
    return strcmp(state, STATE_UNEXPECTED) != 0;
}

static int forgot(struct store *store, uint64_t seq)
{
    char what[128] = "that this broker has the shard";
    if (seq < store->seq)
        snprintf(what, sizeof what, "what it had confirmed: it has %" PRIu64 " commits of %" PRIu64,
                 seq, store->seq);
    snprintf(store->why, sizeof store->why,
             "the store forgot %s. A server that lacks that was promoted, or restored from a "
             "backup; do not start another broker before the right one is back",
             what);
    return -DISK_FORGOT;
}

/* ---- committing ------------------------------------------------------------------------------ */

static bool is_given_up(const struct store *store)
{
    return atomic_load(&store->door->is_given_up);
}

/* Until the row says what became of commit number `seq`: 1, it is there; 0, it is not; or a
 * negative errno. */
static int settle_doubt(struct store *store, uint64_t seq)
{
    uint64_t found = 0;
    while (!is_given_up(store)) {
        enum store_row row = ROW_AWAY;
        bool is_first = !store->is_connected;
        if (!is_first || store_connect(store))
            row = look(store, is_first, &found);
        if (row == ROW_FENCED) {
            store->is_fenced = true;
            return -DISK_FENCED;
        }
        if (row == ROW_WRONG || (row == ROW_OURS && (found + 1 < seq || found > seq)))
            return forgot(store, found);
        if (row == ROW_OURS)
            return found == seq;
        tell_away(store, store->why);
        store->door->ops->rest(store->door);
    }
    return -ECANCELED;
}

static int refuse_for_good(struct store *store, const struct door_answer *answer)
{
    snprintf(store->why, sizeof store->why,
             "the server refused a commit: %s (SQLSTATE %s); mend that, then start errbusd again",
             answer->why, answer->state);
    return -EIO;
}

/* The server answers, and carries out no commit: so whoever asks why nothing goes on is told. */
static void rest_refused(struct store *store, const struct door_answer *answer)
{
    if (strcmp(answer->state, STATE_UNEXPECTED) == 0)
        snprintf(store->why, sizeof store->why,
                 "the server had other settings for a moment; the commit is tried again");
    else
        snprintf(store->why, sizeof store->why, "the server refuses commits: %s (SQLSTATE %s)",
                 answer->why, answer->state);
    tell_away(store, store->why);
    store->door->ops->rest(store->door);
}

/* One attempt: 1, it is committed; 0, it is not, and may be tried again; or a negative errno. */
static int try_commit(struct store *store, struct store_change *change)
{
    struct door_answer answer;
    int result = 0;
    /* As they were found when the server was connected to last. */
    change->statements[change->count - 1].params[FENCE_TERMS] = door_text(store->found.terms);
    store->door->ops->run(store->door, change->statements, change->count, &answer);
    bool is_refused = answer.verdict == DOOR_REFUSED;
    bool is_done = answer.verdict == DOOR_DONE;
    bool is_there = is_done && answer.changed == 1;
    if (is_there && store_is_as_found(store, span_text(answer.check))) {
        result = 1;
    } else if (is_refused && is_final(answer.state)) {
        /* The next holder may have dropped a table.  And a first copy of this commit may have come
         * through late, so that this one meets its rows. */
        result = settle_doubt(store, store->seq + 1);
        result = result == 0 ? refuse_for_good(store, &answer) : result;
    } else {
        if (!is_done)
            snprintf(store->why, sizeof store->why, "%s", answer.why);
        if (!is_refused)
            store_disconnect(store);
        result = settle_doubt(store, store->seq + 1);
        if (result == 0 && is_refused)
            rest_refused(store, &answer);
    }
    store->door->ops->clear(&answer);
    return result;
}

int store_commit(struct store *store, struct store_change *change)
{
    int result = 0;
    add_fence(change, store);
    if (store->is_fenced)
        return -DISK_FENCED;
    if (change->is_short)
        return -ENOMEM;
    if (!store->is_connected)
        result = settle_doubt(store, store->seq + 1);
    while (result == 0)
        result = is_given_up(store) ? -ECANCELED : try_commit(store, change);
    if (result < 0)
        return result;
    store->seq++;
    tell_back(store);
    return 0;
}

int store_keep(struct store *store)
{
    if (store->is_fenced)
        return -DISK_FENCED;
    int result = settle_doubt(store, store->seq + 1);
    if (result == 0)
        tell_back(store);
    return result > 0 ? forgot(store, store->seq + 1) : result;
}
