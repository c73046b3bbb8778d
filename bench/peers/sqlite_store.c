/* SPDX-License-Identifier: MPL-2.0 */
/* sqlite_store.c -- what the journal is measured against: SQLite with a write-ahead log, a record a
 * row, so many rows a transaction. */
#include "bench/harness.h"
#include "tests/lib/folder.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

static void run(sqlite3 *db, const char *sql)
{
    char *why = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) {
        bench_die("sqlite: %s: %s", sql, why != NULL ? why : "?");
    }
}

static sqlite3 *open_store(const struct folder *folder, const char *synchronous)
{
    char text[FOLDER_PATH_BYTES_MAX + 16];
    sqlite3 *db = NULL;
    snprintf(text, sizeof text, "%s/store.db", folder->path);
    if (sqlite3_open(text, &db) != SQLITE_OK) {
        bench_die("sqlite: %s", sqlite3_errmsg(db));
    }
    run(db, "pragma journal_mode = wal");
    snprintf(text, sizeof text, "pragma synchronous = %s", synchronous);
    run(db, text);
    run(db, "create table log (position integer primary key, body blob)");
    return db;
}

static void insert_all(sqlite3 *db, size_t bytes, uint64_t group, uint64_t count)
{
    sqlite3_stmt *insert = NULL;
    uint8_t *body = malloc(bytes);
    if (body == NULL ||
        sqlite3_prepare_v2(db, "insert into log values (?, ?)", -1, &insert, NULL) != SQLITE_OK) {
        bench_die("sqlite: %s", sqlite3_errmsg(db));
    }
    memset(body, 'x', bytes);
    for (uint64_t i = 0; i < count; i++) {
        memcpy(body, &i, sizeof i);
        if (i % group == 0 && group > 1) {
            run(db, "begin");
        }
        sqlite3_bind_int64(insert, 1, (sqlite3_int64)i);
        sqlite3_bind_blob(insert, 2, body, (int)bytes, SQLITE_STATIC);
        if (sqlite3_step(insert) != SQLITE_DONE || sqlite3_reset(insert) != SQLITE_OK) {
            bench_die("sqlite: %s", sqlite3_errmsg(db));
        }
        if ((i + 1) % group == 0 && group > 1) {
            run(db, "commit");
        }
    }
    sqlite3_finalize(insert);
    free(body);
}

/* SYNCHRONOUS BYTES GROUP COUNT */
int main(int argc, char **argv)
{
    struct folder folder;
    if (argc != 5 || !folder_make(&folder)) {
        return 2;
    }
    sqlite3 *db = open_store(&folder, argv[1]);
    role_ready();
    role_wait_go();
    int64_t start_ns = test_now_ns();
    insert_all(db, strtoul(argv[2], NULL, 10), strtoull(argv[3], NULL, 10),
               strtoull(argv[4], NULL, 10));
    int64_t took_ns = test_now_ns() - start_ns;
    sqlite3_close(db);
    folder_fini(&folder);
    role_say_done(took_ns);
    return 0;
}
