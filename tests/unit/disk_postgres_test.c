/* SPDX-License-Identifier: MPL-2.0 */
/* disk_postgres_test.c -- what a sync commits, and what the next holder finds, through a door to a
 * server in memory.  It knows the statements of postgres_store.c by how they begin. */
#include "broker/journal/postgres_copy.h"

#include "broker/journal/layout.h"
#include "libbus/base/must.h"
#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SEGMENT "00000000000000000000.journal"
#define SECOND "00000000000000065536.journal"
#define THIRD "00000000000000131072.journal"
#define TERMS "on on "
enum {
    FILES_MAX = 16,
    PIECES_MAX = COPY_FOLLOW_ANSWERS + 1,
    FIELDS_MAX = 8,
    TEXT_BYTES = DISK_HOLDER_BYTES,
    BODY_BYTES = 2 * STORE_PIECE_BYTES + 1,
    WATCHED_AT = 120,
};

struct piece {
    uint64_t file;
    uint64_t seq;
    uint64_t at;
    size_t bytes;
    char *body;
};
struct file_row {
    uint64_t number;
    uint64_t bytes;
    char name[FORMAT_NAME_BYTES];
    bool is_named; /* it has a row in errbus_file */
    bool has_table;
};

/* The tables of one server. */
static struct {
    uint64_t epoch;
    uint64_t seq;
    char holder[DISK_HOLDER_BYTES];
    struct file_row files[FILES_MAX];
    size_t file_count;
    struct piece pieces[PIECES_MAX];
    size_t piece_count;
    unsigned commits;
    size_t statements; /* of the last commit, without its fence */
    unsigned replaced; /* so often another one takes the shard while pieces are read */
    unsigned looks;
    bool is_named_first; /* by a commit, before a piece */
    bool is_locked;      /* no table can be dropped */
    bool breaks;         /* whoever drops one loses the connection */
    unsigned drops;      /* so often that was tried */
    bool is_held;        /* by another broker: nobody takes the shard */
    bool is_gone;        /* whoever asks for the shard loses the connection */
    uint64_t dropped;    /* the file whose table is dropped behind the next list; 0: none */
    unsigned lists;      /* of files, that were answered */
    unsigned tables;     /* the number of each table */
    size_t at_once;      /* pieces of one answer */
    unsigned fetches;    /* answers with pieces */
    /* What a commit finds in the cache, when its statements are here and when it is over. */
    uint8_t cached_before, cached_behind;
    bool is_idle; /* it lets the caller do nothing meanwhile */
} server;

static struct folder folders[2]; /* caches of two machines */

/* What a statement answers. */
struct rows {
    char texts[FILES_MAX + PIECES_MAX][FIELDS_MAX][TEXT_BYTES];
    struct span bodies[FILES_MAX + PIECES_MAX]; /* the third field, where it is one */
    size_t count;
};

/* ---- the server ------------------------------------------------------------------------------ */

static bool begins(const struct door_statement *statement, const char *text)
{
    return strncmp(statement->sql, text, strlen(text)) == 0;
}

static struct file_row *row_of(uint64_t number)
{
    size_t i = 0;
    while (i < server.file_count && server.files[i].number != number)
        i++;
    if (i == server.file_count) {
        cr_assert_lt(i, FILES_MAX);
        server.files[server.file_count++] = (struct file_row){.number = number};
    }
    return &server.files[i];
}

/* The file whose table the statement names. */
static uint64_t table_of(const struct door_statement *statement)
{
    unsigned shard = 0;
    uint64_t number = 0;
    const char *table = strstr(statement->sql, "errbus_piece_");
    cr_assert_eq(sscanf(table, "errbus_piece_%u_%" SCNu64, &shard, &number), 2);
    cr_assert_eq(shard, 5);
    return number;
}

static uint64_t number_of(const struct door_statement *statement, unsigned i)
{
    return (uint64_t)statement->params[i].number;
}

static void insert_piece(const struct door_statement *statement)
{
    struct span body = statement->params[2].bytes;
    cr_assert_lt(server.piece_count, PIECES_MAX);
    cr_assert_leq(body.bytes, STORE_PIECE_BYTES);
    struct piece *piece = &server.pieces[server.piece_count++];
    *piece = (struct piece){.file = table_of(statement),
                            .seq = number_of(statement, 0),
                            .at = number_of(statement, 1),
                            .bytes = body.bytes,
                            .body = malloc(body.bytes)};
    cr_assert(row_of(piece->file)->has_table, "a piece without its table");
    memcpy(piece->body, body.data, body.bytes);
}

static void drop_table(uint64_t number)
{
    size_t kept = 0;
    for (size_t i = 0; i < server.piece_count; i++)
        if (server.pieces[i].file != number)
            server.pieces[kept++] = server.pieces[i];
        else
            free(server.pieces[i].body);
    server.piece_count = kept;
    row_of(number)->has_table = false;
}

static void change(const struct door_statement *statement)
{
    if (begins(statement, "CREATE TABLE errbus_piece_")) {
        row_of(table_of(statement))->has_table = true;
    } else if (begins(statement, "INSERT INTO errbus_piece_")) {
        insert_piece(statement);
    } else if (begins(statement, "INSERT INTO errbus_file")) {
        struct file_row *row = row_of(number_of(statement, 1));
        row->is_named = true;
        row->bytes = number_of(statement, 3);
        snprintf(row->name, sizeof row->name, "%s", (const char *)statement->params[2].bytes.data);
    } else if (begins(statement, "DELETE FROM errbus_file")) {
        row_of(number_of(statement, 1))->is_named = false;
    } else {
        cr_assert(begins(statement, "ALTER TABLE errbus_piece_"), "%s", statement->sql);
    }
}

static void add_row(struct rows *rows, const char *const *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        snprintf(rows->texts[rows->count][i], TEXT_BYTES, "%s", fields[i]);
    rows->count++;
}

static void list_files(struct rows *rows)
{
    for (size_t i = 0; i < server.file_count; i++) {
        const struct file_row *row = &server.files[i];
        char number[TEXT_BYTES], bytes[TEXT_BYTES], table[TEXT_BYTES];
        snprintf(number, sizeof number, "%" PRIu64, row->number);
        snprintf(bytes, sizeof bytes, "%" PRIu64, row->bytes);
        snprintf(table, sizeof table, "%u", row->has_table ? server.tables : 0);
        const char *const fields[] = {number, row->name, bytes, table};
        if (row->is_named)
            add_row(rows, fields, 4);
    }
}

/* false: there is no such table. */
static bool list_pieces(const struct door_statement *statement, struct rows *rows)
{
    uint64_t seq = number_of(statement, 0), at = number_of(statement, 1), before = 0;
    for (size_t i = 0;
         i < server.piece_count && before < STORE_ANSWER_BYTES && rows->count < server.at_once;
         i++) {
        const struct piece *piece = &server.pieces[i];
        char seq_text[TEXT_BYTES], at_text[TEXT_BYTES];
        bool is_behind = piece->seq > seq || (piece->seq == seq && piece->at > at);
        if (piece->file != table_of(statement) || !is_behind)
            continue;
        snprintf(seq_text, sizeof seq_text, "%" PRIu64, piece->seq);
        snprintf(at_text, sizeof at_text, "%" PRIu64, piece->at);
        rows->bodies[rows->count] = span_of(piece->body, piece->bytes);
        const char *const fields[] = {seq_text, at_text};
        add_row(rows, fields, 2);
        before += piece->bytes;
    }
    server.fetches += rows->count > 0;
    return row_of(table_of(statement))->has_table;
}

/* Tables without a file, as a holder that ended leaves them. */
static void list_left(struct rows *rows)
{
    for (size_t i = 0; i < server.file_count; i++) {
        char number[TEXT_BYTES];
        const char *const fields[] = {number};
        snprintf(number, sizeof number, "%" PRIu64, server.files[i].number);
        if (server.files[i].has_table && !server.files[i].is_named)
            add_row(rows, fields, 1);
    }
}

static void answer_row(struct rows *rows)
{
    char epoch[TEXT_BYTES], seq[TEXT_BYTES];
    const char *const fields[] = {epoch, seq, TERMS, server.holder};
    snprintf(epoch, sizeof epoch, "%" PRIu64, server.epoch);
    snprintf(seq, sizeof seq, "%" PRIu64, server.seq);
    add_row(rows, fields, 4);
}

/* As another program reads it; 0: nothing is there. */
static uint8_t cached_byte(int machine, const char *name, uint64_t at)
{
    char path[FOLDER_PATH_BYTES_MAX + FORMAT_NAME_BYTES];
    uint8_t byte = 0;
    snprintf(path, sizeof path, "%s/%s", folders[machine].path, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && pread(fd, &byte, 1, (off_t)at) != 1)
        byte = 0;
    if (fd >= 0)
        close(fd);
    return byte;
}

static void work_meanwhile(struct door *door)
{
    void (*meanwhile)(void *arg) = server.is_idle ? NULL : door->meanwhile;
    door->meanwhile = NULL;
    server.cached_before = cached_byte(0, SEGMENT, WATCHED_AT);
    if (meanwhile != NULL)
        meanwhile(door->meanwhile_arg);
    server.cached_behind = cached_byte(0, SEGMENT, WATCHED_AT);
}

/* The whole of it, or nothing. */
static enum door_verdict commit_all(const struct door_statement *statements, size_t count)
{
    const struct door_statement *fence = &statements[count - 1];
    if (number_of(fence, 1) != server.epoch || number_of(fence, 2) != server.seq + 1 ||
        !span_equal(fence->params[4].bytes, span_text(TERMS)))
        return DOOR_REFUSED;
    for (size_t i = 0; i + 1 < count; i++) {
        change(&statements[i]);
        server.is_named_first |= begins(&statements[i], "INSERT INTO errbus_piece_") && i > 0 &&
                                 begins(&statements[i - 1], "INSERT INTO errbus_file");
    }
    server.seq++;
    server.commits++;
    server.statements = count - 1;
    return DOOR_DONE;
}

static void server_run(struct door *door, const struct door_statement *statements, size_t count,
                       struct door_answer *out)
{
    static const char *const settings[] = {"150020", "false", "on", "on", "", "0", "0", TERMS};
    char version[TEXT_BYTES];
    const char *const versions[] = {version};
    const struct door_statement *last = &statements[count - 1];
    struct rows *rows = calloc(1, sizeof *rows);
    cr_assert_not_null(rows);
    *out = (struct door_answer){.verdict = DOOR_DONE, .check = TERMS, .rows = rows};
    if (begins(last, "SELECT current_setting")) {
        add_row(rows, settings, FIELDS_MAX);
    } else if (begins(last, "SELECT version")) {
        snprintf(version, sizeof version, "%d", STORE_VERSION);
        add_row(rows, versions, 1);
    } else if (begins(last, "WITH taken AS (UPDATE errbus_shard SET epoch") && server.is_gone) {
        out->verdict = DOOR_DOUBT;
    } else if (begins(last, "WITH taken AS (UPDATE errbus_shard SET epoch") && server.is_held) {
        out->verdict = DOOR_DONE; /* and no row */
    } else if (begins(last, "WITH taken AS (UPDATE errbus_shard SET epoch")) {
        server.epoch++;
        snprintf(server.holder, sizeof server.holder, "%s",
                 (const char *)last->params[1].bytes.data);
        answer_row(rows);
    } else if (begins(last, "SELECT epoch")) {
        server.looks++;
        answer_row(rows);
    } else if (begins(last, "SELECT file")) {
        list_files(rows);
        server.lists++;
        if (server.dropped != 0)
            drop_table(server.dropped);
        server.dropped = 0;
    } else if (begins(last, "SELECT piece.seq")) {
        snprintf(out->why, sizeof out->why, "there is no such table");
        if (!list_pieces(last, rows))
            out->verdict = DOOR_REFUSED;
        server.epoch += server.replaced > 0;
        server.replaced -= server.replaced > 0;
    } else if (begins(last, "SELECT substring")) {
        list_left(rows);
    } else if (begins(last, "DROP TABLE")) {
        server.drops++;
        snprintf(out->why, sizeof out->why, "as the test wants");
        if (server.is_locked || server.breaks)
            out->verdict = server.breaks ? DOOR_DOUBT : DOOR_REFUSED;
        else
            drop_table(table_of(last));
    } else if (begins(last, "UPDATE errbus_shard SET seq = CASE")) {
        out->verdict = commit_all(statements, count);
        out->changed = 1;
        work_meanwhile(door);
        snprintf(out->state, sizeof out->state, "22012");
    } else {
        cr_assert(begins(last, "UPDATE errbus_shard SET ends"), "%s", last->sql);
    }
}

static bool server_connect(struct door *door, const char *conninfo, char *why)
{
    (void)door;
    (void)conninfo;
    (void)why;
    return true;
}

static void server_disconnect(struct door *door)
{
    (void)door;
}

static size_t server_rows(const struct door_answer *answer)
{
    const struct rows *rows = answer->rows;
    return rows->count;
}

static struct span server_field(const struct door_answer *answer, size_t row, unsigned column)
{
    const struct rows *rows = answer->rows;
    must(row < rows->count && column < FIELDS_MAX);
    bool is_body = column == 2 && rows->bodies[row].data != NULL;
    if (column >= 4 && rows->texts[row][column][0] == '\0')
        return SPAN_NONE; /* it knows nothing of other epochs */
    return is_body ? rows->bodies[row] : span_text(rows->texts[row][column]);
}

static void server_clear(struct door_answer *answer)
{
    free(answer->rows);
    answer->rows = NULL;
}

static void server_rest(struct door *door)
{
    (void)door;
    cr_assert_fail("nothing is waited for");
}

static void server_close(struct door *door)
{
    free(door);
}

static const struct door_ops server_ops = {.connect = server_connect,
                                           .disconnect = server_disconnect,
                                           .run = server_run,
                                           .rows = server_rows,
                                           .field = server_field,
                                           .clear = server_clear,
                                           .rest = server_rest,
                                           .close = server_close};

/* ---- the disks ------------------------------------------------------------------------------- */

static char bytes[BODY_BYTES];

static void begin(void)
{
    memset(&server, 0, sizeof server);
    server.tables = 1;
    server.at_once = STORE_PIECES_AT_ONCE;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        cr_assert(folder_make(&folders[i]));
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7 + i / 251);
}

static void free_pieces(void)
{
    for (size_t i = 0; i < server.piece_count; i++)
        free(server.pieces[i].body);
    server.piece_count = 0;
}

static void end(void)
{
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        folder_fini(&folders[i]);
    free_pieces();
}

TestSuite(disk_postgres, .init = begin, .fini = end);

static unsigned copies; /* how often a disk said that it makes its copy */

static void count_copy(void *arg)
{
    *(unsigned *)arg += 1;
}

static struct door *new_door(void)
{
    struct door *door = calloc(1, sizeof *door);
    cr_assert_not_null(door);
    door->ops = &server_ops;
    return door;
}

static struct disk *must_open(int machine)
{
    struct disk_shard shard = {
        .number = 5, .cache = folders[machine].path, .on_copy = count_copy, .on_copy_arg = &copies};
    struct disk *disk = NULL;
    char complaint[DISK_COMPLAINT_BYTES] = "";
    struct door *door = new_door();
    cr_assert_eq(disk_postgres_open_door(&door, "", &shard, &disk, complaint), 0, "%s", complaint);
    return disk;
}

/* The holder from here on. */
static struct disk *must_take(int machine)
{
    struct disk_owner owner;
    struct disk *disk = must_open(machine);
    cr_assert_eq(disk->ops->lock(disk, false, &owner), 0, "%s", disk->why);
    cr_expect_eq(owner.lease, server.epoch);
    return disk;
}

static int must_make(struct disk *disk, const char *name)
{
    int file = disk->ops->open(disk, name, DISK_MAKE);
    cr_assert_geq(file, 0);
    return file;
}

static void write_at(struct disk *disk, int file, size_t count, uint64_t at)
{
    struct iovec piece = {.iov_base = bytes, .iov_len = count};
    cr_assert_eq(disk_write_all(disk, file, &piece, 1, at), 0);
}

static void must_sync(struct disk *disk, int file)
{
    cr_assert_eq(disk->ops->sync(disk, file), 0, "%s", disk->why);
}

/* A new file of ten bytes, which the store has.  Returns its handle. */
static int must_store(struct disk *disk, const char *name)
{
    int file = must_make(disk, name);
    write_at(disk, file, 10, 0);
    must_sync(disk, file);
    return file;
}

static const struct file_row *named(const char *name)
{
    const struct file_row *found = NULL;
    for (size_t i = 0; i < server.file_count; i++)
        if (server.files[i].is_named && strcmp(server.files[i].name, name) == 0)
            found = &server.files[i];
    return found;
}

/* ---- what a sync commits --------------------------------------------------------------------- */

Test(disk_postgres, commits_what_was_written_and_nothing_else)
{
    struct disk *disk = must_take(0);
    int file = must_make(disk, SEGMENT);
    cr_expect_eq(server.commits, 0, "before a sync there is nothing in the store");
    write_at(disk, file, 100, 0);
    write_at(disk, file, 50, 100);
    write_at(disk, file, 10, 4096);
    must_sync(disk, file);
    cr_expect_eq(server.commits, 1);
    cr_expect_eq(server.statements, 5, "a name, a table and its storage, two pieces");
    cr_assert_eq(server.piece_count, 2, "what touches is one piece");
    cr_expect_eq(server.pieces[0].bytes, 150);
    cr_expect_eq(memcmp(server.pieces[0].body + 100, bytes, 50), 0);
    cr_expect_eq(server.pieces[1].at, 4096);
    cr_expect_eq(named(SEGMENT)->bytes, 4106);
    must_sync(disk, file);
    cr_expect_eq(server.commits, 1, "there is nothing more to say");
    write_at(disk, file, 10, 0);
    must_sync(disk, file);
    cr_expect_eq(server.statements, 1, "a name and a size that stay are not said again");
    disk->ops->shut(disk, file);
    disk_close(&disk);
}

/* Who is stopped while it sends pieces must hold no row that the next holder changes. */
Test(disk_postgres, changes_names_behind_all_pieces)
{
    struct disk *disk = must_take(0);
    int first = must_make(disk, SEGMENT);
    int second = must_make(disk, SECOND);
    write_at(disk, first, 100, 0);
    write_at(disk, second, 100, 0);
    must_sync(disk, first);
    write_at(disk, first, 100, 100);
    write_at(disk, second, 100, 100);
    must_sync(disk, first);
    cr_expect_eq(server.piece_count, 4);
    cr_expect_not(server.is_named_first);
    disk_close(&disk);
}

/* One byte below the size of a piece, that size, one byte above it, and above two of them. */
Test(disk_postgres, cuts_a_long_range_into_pieces)
{
    static const struct {
        size_t bytes;
        size_t pieces;
    } rows[] = {{STORE_PIECE_BYTES - 1, 1},
                {STORE_PIECE_BYTES, 1},
                {STORE_PIECE_BYTES + 1, 2},
                {2 * STORE_PIECE_BYTES + 1, 3}};
    struct disk *disk = must_take(0);
    int file = must_make(disk, SEGMENT);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t before = server.piece_count;
        write_at(disk, file, rows[i].bytes, 0);
        must_sync(disk, file);
        cr_assert_eq(server.piece_count - before, rows[i].pieces, "%zu", rows[i].bytes);
        const struct piece *last = &server.pieces[server.piece_count - 1];
        cr_expect_eq(last->at + last->bytes, rows[i].bytes);
    }
    disk->ops->shut(disk, file);
    disk_close(&disk);
}

/* A file keeps its table under a new name; what it replaces goes, in the same commit. */
Test(disk_postgres, renames_and_removes_in_one_commit)
{
    struct disk *disk = must_take(0);
    int spare = must_make(disk, "spare");
    int next = must_make(disk, "next");
    write_at(disk, spare, 10, 0);
    write_at(disk, next, 20, 0);
    must_sync(disk, next);
    uint64_t number = named("next")->number;
    uint64_t old = named("spare")->number;
    disk->ops->shut(disk, spare);
    disk->ops->shut(disk, next);
    cr_assert_eq(disk->ops->rename(disk, "next", "spare"), 0);
    cr_expect_not_null(named("next"), "nothing is changed before it is synced");
    cr_assert_eq(disk->ops->sync_names(disk), 0);
    cr_expect_eq(server.statements, 2);
    cr_expect_null(named("next"));
    cr_expect_eq(named("spare")->number, number);
    cr_assert_eq(disk->ops->keep(disk), 0);
    cr_expect_not(row_of(old)->has_table, "the table of a file that is gone is dropped");
    cr_assert_eq(disk->ops->unlink(disk, "spare"), 0);
    cr_expect_not_null(named("spare"));
    cr_assert_eq(disk->ops->sync_names(disk), 0);
    cr_expect_null(named("spare"));
    cr_assert_eq(disk->ops->keep(disk), 0);
    cr_expect_eq(server.piece_count, 0);
    disk_close(&disk);
}

static void must_remove(struct disk *disk, int number)
{
    char name[FORMAT_NAME_BYTES];
    snprintf(name, sizeof name, "gone%d", number);
    cr_assert_eq(disk->ops->unlink(disk, name), 0);
    cr_assert_eq(disk->ops->sync_names(disk), 0);
}

static void keep_often(struct disk *disk, int times)
{
    for (int i = 0; i < times; i++)
        cr_assert_eq(disk->ops->keep(disk), 0);
}

/* A backup holds a lock on the tables of files that are gone.  To try to drop one takes time, and
 * who publishes waits for each commit. */
Test(disk_postgres, tries_a_locked_table_again_after_a_while)
{
    enum { WAITING = 8, PAUSE = 1000, PAUSE_KEEPS = 20 };
    struct disk *disk = must_take(0);
    int file = must_make(disk, SECOND);
    for (int i = 0; i <= WAITING; i++) {
        char name[FORMAT_NAME_BYTES];
        snprintf(name, sizeof name, "gone%d", i);
        int gone = must_make(disk, name);
        write_at(disk, gone, 10, 0);
        disk->ops->shut(disk, gone);
    }
    write_at(disk, file, 10, 0);
    must_sync(disk, file);
    server.is_locked = true;
    for (int i = 0; i < WAITING; i++)
        must_remove(disk, i);
    cr_expect_eq(server.drops, 0, "commits come first");
    keep_often(disk, PAUSE_KEEPS);
    cr_expect_eq(server.drops, 1);
    keep_often(disk, 1);
    cr_expect_eq(server.drops, 2);
    must_remove(disk, WAITING); /* now there are more than may wait */
    for (int i = 1; i + 1 < PAUSE; i++) {
        free_pieces();
        write_at(disk, file, 10, 0);
        must_sync(disk, file);
    }
    cr_expect_eq(server.drops, 2);
    write_at(disk, file, 10, 0);
    must_sync(disk, file);
    cr_expect_eq(server.drops, 3);
    server.is_locked = false;
    keep_often(disk, PAUSE_KEEPS);
    for (size_t i = 0; i < server.file_count; i++)
        cr_expect_eq(server.files[i].has_table, server.files[i].is_named, "%zu", i);
    disk->ops->shut(disk, file);
    disk_close(&disk);
}

/* The server may have ended by itself just then.  One on which it takes too long to drop a table
 * loses its connection with each attempt. */
Test(disk_postgres, tries_a_table_again_soon_behind_a_connection_that_broke)
{
    enum { PAUSE_KEEPS = 20 };
    struct disk *disk = must_take(0);
    int file = must_store(disk, "gone0");
    disk->ops->shut(disk, file);
    must_remove(disk, 0);
    server.breaks = true;
    keep_often(disk, 1);
    cr_expect_eq(server.drops, 1);
    keep_often(disk, 1);
    cr_expect_eq(server.drops, 2);
    keep_often(disk, PAUSE_KEEPS - 1);
    cr_expect_eq(server.drops, 2, "it breaks each time");
    keep_often(disk, 1);
    cr_expect_eq(server.drops, 3);
    server.breaks = false;
    keep_often(disk, PAUSE_KEEPS);
    cr_expect_eq(server.drops, 4);
    for (size_t i = 0; i < server.file_count; i++)
        cr_expect_not(server.files[i].has_table, "%zu", i);
    disk_close(&disk);
}

/* A file that came and went between two syncs was never in the store. */
Test(disk_postgres, says_nothing_of_a_file_that_is_gone_again)
{
    struct disk *disk = must_take(0);
    int file = must_make(disk, "next");
    write_at(disk, file, 10, 0);
    disk->ops->shut(disk, file);
    cr_assert_eq(disk->ops->unlink(disk, "next"), 0);
    cr_assert_eq(disk->ops->sync_names(disk), 0);
    cr_expect_eq(server.commits, 0);
    cr_expect_eq(server.file_count, 0);
    disk_close(&disk);
}

/* ---- what the cache gets later --------------------------------------------------------------- */

/* A file with room, as a segment has it: only then its bytes may wait. */
static int must_make_with_room(struct disk *disk, uint64_t room)
{
    int file = must_make(disk, SEGMENT);
    cr_assert_eq(disk->ops->reserve(disk, file, room), 0);
    return file;
}

static void write_from(struct disk *disk, int file, const char *from, size_t count, uint64_t at)
{
    struct iovec piece = {.iov_base = (void *)(uintptr_t)from, .iov_len = count};
    cr_assert_eq(disk_write_all(disk, file, &piece, 1, at), 0);
}

/* What the next holder finds in the file. */
static void expect_stored(const char *expected, size_t count)
{
    struct disk *next = must_take(1);
    int file = next->ops->open(next, SEGMENT, DISK_READ);
    char *found = calloc(1, count);
    cr_assert_not_null(found);
    cr_assert_geq(file, 0);
    cr_assert_eq(disk_read_at(next, file, found, count, 0), (int64_t)count);
    cr_expect_eq(memcmp(found, expected, count), 0);
    free(found);
    next->ops->shut(next, file);
    disk_close(&next);
}

Test(disk_postgres, brings_bytes_to_its_cache_while_the_server_works)
{
    struct disk *disk = must_take(0);
    int file = must_make_with_room(disk, 65536);
    write_from(disk, file, bytes, 100, 0);
    write_from(disk, file, bytes + 100, 50, 100);
    must_sync(disk, file);
    cr_expect_eq(server.cached_before, 0, "the server has the bytes first");
    cr_expect_eq(server.cached_behind, (uint8_t)bytes[WATCHED_AT]);
    cr_assert_eq(server.piece_count, 1);
    cr_expect_eq(server.pieces[0].bytes, 150);
    cr_expect_eq(memcmp(server.pieces[0].body, bytes, 150), 0);
    disk->ops->shut(disk, file);
    disk_close(&disk);
}

Test(disk_postgres, brings_bytes_to_its_cache_behind_a_commit_at_the_latest)
{
    struct disk *disk = must_take(0);
    int file = must_make_with_room(disk, 65536);
    server.is_idle = true;
    write_from(disk, file, bytes, 150, 0);
    must_sync(disk, file);
    cr_expect_eq(server.cached_behind, 0);
    cr_expect_eq(cached_byte(0, SEGMENT, WATCHED_AT), (uint8_t)bytes[WATCHED_AT]);
    disk->ops->shut(disk, file);
    disk_close(&disk);
}

/* One file goes on where the bytes of another end, and has bytes where the other has some. */
Test(disk_postgres, keeps_the_bytes_of_files_apart)
{
    struct disk *disk = must_take(0);
    int file = must_make_with_room(disk, 400);
    int other = must_make(disk, SECOND);
    cr_assert_eq(disk->ops->reserve(disk, other, 400), 0);
    write_from(disk, file, bytes, 300, 0);
    write_from(disk, other, bytes + 1300, 50, 300);
    write_from(disk, other, bytes + 1000, 100, 0);
    must_sync(disk, file);
    cr_assert_eq(server.piece_count, 3);
    for (size_t i = 0; i < server.piece_count; i++) {
        const struct piece *piece = &server.pieces[i];
        const char *expected =
            bytes + piece->at + (piece->file == named(SECOND)->number ? 1000 : 0);
        cr_expect_eq(memcmp(piece->body, expected, piece->bytes), 0, "piece %zu", i);
    }
    cr_expect_eq(cached_byte(0, SECOND, 310), (uint8_t)bytes[1310]);
    disk->ops->shut(disk, other);
    disk->ops->shut(disk, file);
    disk_close(&disk);
}

/* Bytes of one range that were written in three places, two of them read back from the cache. */
Test(disk_postgres, commits_what_its_cache_has_and_what_it_has_not)
{
    char expected[9000] = {0};
    struct disk *disk = must_take(0);
    int file = must_make_with_room(disk, sizeof expected);
    write_from(disk, file, bytes, 200, 0);
    write_from(disk, file, bytes + 8192, 50, 8192);
    write_from(disk, file, bytes + 210, 90, 210);
    write_from(disk, file, bytes + 200, 10, 200);
    must_sync(disk, file);
    memcpy(expected, bytes, 300);
    memcpy(expected + 8192, bytes + 8192, 50);
    cr_expect_eq(server.piece_count, 4, "two that were read back around the last one, and another");
    disk->ops->shut(disk, file);
    disk_close(&disk);
    expect_stored(expected, sizeof expected);
}

Test(disk_postgres, commits_what_was_written_over_before_its_cache_had_it)
{
    char expected[300];
    struct disk *disk = must_take(0);
    int file = must_make_with_room(disk, sizeof expected);
    write_from(disk, file, bytes, 300, 0);
    write_from(disk, file, bytes + 1000, 100, 50);
    write_from(disk, file, bytes + 2000, 10, 290);
    must_sync(disk, file);
    memcpy(expected, bytes, sizeof expected);
    memcpy(expected + 50, bytes + 1000, 100);
    memcpy(expected + 290, bytes + 2000, 10);
    disk->ops->shut(disk, file);
    disk_close(&disk);
    expect_stored(expected, sizeof expected);
}

/* Each of these finds in the cache what was written before. */
Test(disk_postgres, brings_bytes_to_its_cache_before_it_reads_them)
{
    enum { READ, OPEN, SHUT, WAYS };
    char found[150];
    struct disk *disk = must_take(0);
    for (int way = 0; way < WAYS; way++) {
        int file = must_make_with_room(disk, 65536);
        int reader = -1;
        write_from(disk, file, bytes, sizeof found, 0);
        if (way == READ) {
            cr_assert_eq(disk_read_at(disk, file, found, sizeof found, 0), sizeof found);
            cr_expect_eq(memcmp(found, bytes, sizeof found), 0);
        } else if (way == OPEN) {
            reader = disk->ops->open(disk, SEGMENT, DISK_READ);
            cr_assert_geq(reader, 0);
        } else {
            disk->ops->shut(disk, file);
        }
        cr_expect_eq(cached_byte(0, SEGMENT, WATCHED_AT), (uint8_t)bytes[WATCHED_AT], "%d", way);
        if (reader >= 0)
            disk->ops->shut(disk, reader);
        if (way != SHUT)
            disk->ops->shut(disk, file);
        must_sync(disk, -1);
    }
    disk_close(&disk);
}

/* What is written under a new name follows it; what is made anew keeps nothing of the old. */
Test(disk_postgres, keeps_bytes_apart_from_names)
{
    char expected[300] = {0};
    struct disk *disk = must_take(0);
    int old = must_make_with_room(disk, sizeof expected);
    write_from(disk, old, bytes, 150, 0);
    int file = must_make(disk, SEGMENT);
    cr_assert_eq(disk->ops->reserve(disk, file, sizeof expected), 0);
    write_from(disk, file, bytes + 1000, 10, 200);
    cr_assert_eq(disk->ops->rename(disk, SEGMENT, SECOND), 0);
    write_from(disk, file, bytes + 1010, 10, 210);
    cr_assert_eq(disk->ops->rename(disk, SECOND, SEGMENT), 0);
    must_sync(disk, file);
    disk->ops->shut(disk, old);
    disk->ops->shut(disk, file);
    memcpy(expected + 200, bytes + 1000, 20);
    cr_expect_eq(cached_byte(0, SEGMENT, WATCHED_AT), 0);
    cr_expect_eq(cached_byte(0, SEGMENT, 205), (uint8_t)bytes[1005]);
    disk_close(&disk);
    expect_stored(expected, sizeof expected);
}

/* 8 MiB are kept from the cache, and not one byte more. */
Test(disk_postgres, keeps_no_more_from_its_cache_than_it_has_memory_for)
{
    enum { KEPT = 8 * 1024 * 1024, HALF_MIB = 512 * 1024 };
    struct disk *disk = must_take(0);
    int file = must_make_with_room(disk, 2 * KEPT);
    for (uint64_t at = 0; at < KEPT - HALF_MIB; at += HALF_MIB)
        write_at(disk, file, HALF_MIB, at);
    write_at(disk, file, HALF_MIB - 1, KEPT - HALF_MIB);
    cr_expect_eq(cached_byte(0, SEGMENT, WATCHED_AT), 0);
    write_at(disk, file, 1, KEPT - 1);
    cr_expect_eq(cached_byte(0, SEGMENT, WATCHED_AT), 0);
    write_at(disk, file, 1, KEPT);
    cr_expect_eq(cached_byte(0, SEGMENT, WATCHED_AT), (uint8_t)bytes[WATCHED_AT]);
    must_sync(disk, file);
    uint64_t stored = 0;
    for (size_t i = 0; i < server.piece_count; i++)
        stored += server.pieces[i].bytes;
    cr_expect_eq(stored, KEPT + 1);
    disk->ops->shut(disk, file);
    disk_close(&disk);
}

/* Without room in the file a write may fail, and whoever writes wants to know. */
Test(disk_postgres, writes_at_once_where_a_file_has_no_room)
{
    struct disk *disk = must_take(0);
    int file = must_make_with_room(disk, WATCHED_AT);
    write_from(disk, file, bytes, WATCHED_AT + 1, 0);
    cr_expect_eq(cached_byte(0, SEGMENT, WATCHED_AT), (uint8_t)bytes[WATCHED_AT]);
    disk->ops->shut(disk, file);
    disk_close(&disk);
}

/* A cache that cannot be written is the end of the journal here: the next sync fails, and each one
 * behind it. */
Test(disk_postgres, fails_where_its_cache_takes_nothing)
{
    struct rlimit limit;
    struct disk *disk = must_take(0);
    int file = must_make_with_room(disk, 65536);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    cr_assert_eq(sigaction(SIGXFSZ, &ignore, NULL), 0);
    write_from(disk, file, bytes, 150, 4096);
    struct rlimit small = {.rlim_cur = 4096, .rlim_max = limit.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    cr_expect_eq(disk->ops->sync(disk, file), -EFBIG);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    write_from(disk, file, bytes + 150, 10, 4246);
    cr_expect_eq(disk->ops->sync(disk, file), -EFBIG, "%s", "though this write succeeds");
    cr_expect_null(disk->why);
    disk->ops->shut(disk, file);
    disk_close(&disk);
}

/* A table that is locked says nothing of what is wrong with the cache. */
Test(disk_postgres, tells_no_reason_of_a_fault_before)
{
    struct disk *disk = must_take(0);
    int file = must_store(disk, "gone0");
    disk->ops->shut(disk, file);
    must_remove(disk, 0);
    server.is_locked = true;
    keep_often(disk, 1);
    cr_expect_eq(server.drops, 1);
    file = must_make(disk, SEGMENT);
    write_at(disk, file, 10, 0);
    char path[FOLDER_PATH_BYTES_MAX + FORMAT_NAME_BYTES];
    snprintf(path, sizeof path, "%s/%s", folders[0].path, SEGMENT);
    cr_assert_eq(unlink(path), 0); /* so it cannot be read back */
    cr_expect_eq(disk->ops->sync(disk, file), -ENOENT);
    cr_expect_null(disk->why, "%s", disk->why);
    disk->ops->shut(disk, file);
    disk_close(&disk);
}

/* ---- the next holder ------------------------------------------------------------------------- */

/* What was written twice is there as it was written last, and what was not synced is not there. */
Test(disk_postgres, gives_the_next_holder_what_was_synced)
{
    char found[300];
    struct disk *disk = must_take(0);
    int file = must_make(disk, SEGMENT);
    cr_assert_eq(disk->ops->reserve(disk, file, 300), 0);
    write_at(disk, file, 200, 0);
    must_sync(disk, file);
    write_at(disk, file, 10, 100);
    must_sync(disk, file);
    write_at(disk, file, 50, 250);
    disk->ops->shut(disk, file);
    struct disk *next = must_take(1);
    cr_expect_eq(server.epoch, 2);
    file = next->ops->open(next, SEGMENT, DISK_READ);
    cr_assert_geq(file, 0);
    cr_expect_eq(next->ops->size(next, file), 300);
    cr_assert_eq(disk_read_at(next, file, found, sizeof found, 0), 300);
    cr_expect_eq(memcmp(found, bytes, 100), 0);
    cr_expect_eq(memcmp(found + 100, bytes, 10), 0);
    cr_expect_eq(memcmp(found + 110, bytes + 110, 90), 0);
    for (size_t i = 200; i < sizeof found; i++)
        cr_expect_eq(found[i], 0, "%zu", i);
    next->ops->shut(next, file);
    disk_close(&next);
    disk_close(&disk);
}

/* 0: there is no such file in the cache. */
static uint64_t inode_of(const char *name)
{
    char path[FOLDER_PATH_BYTES_MAX + FORMAT_NAME_BYTES];
    struct stat stat_of = {.st_ino = 0};
    snprintf(path, sizeof path, "%s/%s", folders[0].path, name);
    return stat(path, &stat_of) == 0 ? stat_of.st_ino : 0;
}

/* A segment that is written, and given up. */
static void use_up(struct disk *disk, const char *name)
{
    int file = must_make(disk, LAYOUT_NEXT);
    cr_assert_eq(disk->ops->reserve(disk, file, 300), 0);
    write_at(disk, file, 300, 0);
    must_sync(disk, file);
    disk->ops->shut(disk, file);
    cr_assert_eq(disk->ops->rename(disk, LAYOUT_NEXT, name), 0);
    cr_assert_eq(disk->ops->unlink(disk, name), 0);
    cr_assert_eq(disk->ops->sync_names(disk), 0);
}

/* The cache has it still, and the store never gets it. */
Test(disk_postgres, gives_nobody_what_a_file_had_before_it_was_used_again)
{
    char found[300];
    struct disk *disk = must_take(0);
    use_up(disk, SEGMENT);
    uint64_t inode = inode_of(LAYOUT_KEPT "0");
    cr_assert_neq(inode, 0);
    cr_expect_null(named(SEGMENT));
    int file = must_make(disk, LAYOUT_NEXT);
    cr_expect_eq(inode_of(LAYOUT_NEXT), inode);
    cr_assert_eq(disk->ops->reserve(disk, file, 300), 0);
    write_at(disk, file, 200, 0);
    must_sync(disk, file);
    cr_assert_eq(disk->ops->keep(disk), 0);
    cr_expect_eq(server.piece_count, 1, "the table of the other one is gone");
    cr_expect_eq(server.pieces[0].bytes, 200);
    disk->ops->shut(disk, file);
    struct disk *next = must_take(1);
    file = next->ops->open(next, LAYOUT_NEXT, DISK_READ);
    cr_assert_geq(file, 0);
    cr_assert_eq(disk_read_at(next, file, found, sizeof found, 0), 300);
    cr_expect_eq(memcmp(found, bytes, 200), 0);
    for (size_t i = 200; i < sizeof found; i++)
        cr_expect_eq(found[i], 0, "%zu", i);
    next->ops->shut(next, file);
    disk_close(&next);
    disk_close(&disk);
}

Test(disk_postgres, uses_no_file_again_that_is_open)
{
    struct disk *disk = must_take(0);
    int file = must_store(disk, SEGMENT);
    cr_assert_eq(disk->ops->unlink(disk, SEGMENT), 0);
    cr_expect_eq(inode_of(LAYOUT_KEPT "0"), 0);
    disk->ops->shut(disk, file);
    disk_close(&disk);
}

/* A memory file system refuses at once what is larger than all of it. */
Test(disk_postgres, gives_its_disk_back_what_it_keeps_when_there_is_no_room)
{
    struct statvfs room = {.f_blocks = 0};
    if (statvfs("/dev/shm", &room) != 0 || room.f_blocks == 0)
        cr_skip("/dev/shm is no memory file system of a bounded size");
    folder_fini(&folders[0]);
    cr_assert_eq(setenv("TMPDIR", "/dev/shm", 1), 0);
    cr_assert(folder_make(&folders[0]));
    struct disk *disk = must_take(0);
    use_up(disk, SEGMENT);
    cr_expect_neq(inode_of(LAYOUT_KEPT "0"), 0);
    int file = must_make(disk, LAYOUT_SPARE);
    cr_expect_eq(disk->ops->reserve(disk, file, (room.f_blocks + 1) * room.f_frsize), -ENOSPC);
    cr_expect_eq(inode_of(LAYOUT_KEPT "0"), 0);
    disk->ops->shut(disk, file);
    disk_close(&disk);
}

/* All that changes something asks the server, which knows another epoch. */
Test(disk_postgres, is_fenced_when_another_took_the_shard)
{
    struct disk *disk = must_take(0);
    int file = must_make(disk, SEGMENT);
    struct disk *next = must_take(1);
    write_at(disk, file, 10, 0);
    cr_expect_eq(disk->ops->sync(disk, file), -DISK_FENCED);
    cr_expect_eq(disk->ops->sync_until(disk, file, 10), -DISK_FENCED);
    cr_expect_eq(disk->ops->sync_names(disk), -DISK_FENCED);
    cr_expect_eq(disk->ops->keep(disk), -DISK_FENCED);
    cr_expect_eq(next->ops->keep(next), 0);
    cr_expect_null(named(SEGMENT));
    disk->ops->shut(disk, file);
    disk_close(&next);
    disk_close(&disk);
}

/* What it read may be in part of the other one: it reads all of it again under an epoch of its own.
 */
Test(disk_postgres, takes_again_what_was_taken_while_it_read)
{
    struct disk_owner owner;
    struct disk *first = must_take(0);
    int file = must_make(first, SEGMENT);
    write_at(first, file, 100, 0);
    must_sync(first, file);
    struct disk *next = must_open(1);
    server.replaced = 1;
    cr_expect_eq(next->ops->lock(next, false, &owner), -EWOULDBLOCK);
    cr_assert_eq(next->ops->lock(next, false, &owner), 0, "%s", next->why);
    cr_expect_eq(owner.lease, server.epoch);
    file = next->ops->open(next, SEGMENT, DISK_WRITE);
    write_at(next, file, 100, 100);
    must_sync(next, file);
    disk_close(&first);
    disk_close(&next);
}

/* Each 16 MiB; the last look is that behind all. */
Test(disk_postgres, says_that_it_is_there_while_it_reads_for_long)
{
    enum { PIECES = 48 * 1024 * 1024 / STORE_PIECE_BYTES };
    static struct iovec piece;
    struct disk *first = must_take(0);
    int file = must_make(first, SEGMENT);
    write_at(first, file, STORE_PIECE_BYTES, 0);
    must_sync(first, file);
    piece = (struct iovec){.iov_base = bytes, .iov_len = STORE_PIECE_BYTES};
    server.looks = 0;
    for (int i = 0; i < PIECES; i++)
        cr_assert_eq(first->ops->read(first, file, &piece, 1, 0), STORE_PIECE_BYTES);
    cr_expect_eq(server.looks, 3);
    disk_close(&first);
}

/* Whoever waits for the start hears of each piece, as a long journal takes long. */
Test(disk_postgres, says_that_it_makes_its_copy)
{
    struct disk *disk = must_take(0);
    int file = must_make(disk, SEGMENT);
    for (uint64_t i = 0; i < 3; i++) {
        write_at(disk, file, 10, 10 * i);
        must_sync(disk, file);
    }
    disk->ops->shut(disk, file);
    cr_expect_eq(copies, 0);
    struct disk *next = must_take(1);
    cr_expect_eq(copies, 3);
    disk_close(&next);
    disk_close(&disk);
}

/* Numbers of files are never used again, so a table that a holder left is nobody's. */
Test(disk_postgres, sweeps_what_a_holder_left)
{
    struct disk *disk = must_take(0);
    int file = must_store(disk, SEGMENT);
    uint64_t number = named(SEGMENT)->number;
    row_of(number)->is_named = false; /* it ended before it dropped the table */
    disk->ops->shut(disk, file);
    disk_close(&disk);
    disk = must_take(0);
    cr_expect_not(row_of(number)->has_table);
    file = must_make(disk, SECOND);
    must_sync(disk, file);
    cr_expect_gt(named(SECOND)->number, number);
    disk->ops->shut(disk, file);
    disk_close(&disk);
}

/* ---- a broker that waits --------------------------------------------------------------------- */

/* Attempts to take the shard, which another one has. */
static void must_wait(struct disk *disk, int attempts)
{
    struct disk_owner owner;
    server.is_held = true;
    for (int i = 0; i < attempts; i++) {
        cr_assert_eq(disk->ops->lock(disk, false, &owner), -EWOULDBLOCK, "%s", disk->why);
        cr_expect_null(disk->why, "%s", disk->why);
    }
    server.is_held = false;
}

static void must_take_now(struct disk *disk)
{
    struct disk_owner owner;
    cr_assert_eq(disk->ops->lock(disk, false, &owner), 0, "%s", disk->why);
}

static void must_read(struct disk *disk, const char *name, size_t count)
{
    static char found[BODY_BYTES];
    int file = disk->ops->open(disk, name, DISK_READ);
    cr_assert_geq(file, 0, "%s", name);
    cr_expect_geq(disk_read_at(disk, file, found, sizeof found, 0), (int64_t)count);
    cr_expect_eq(memcmp(found, bytes, count), 0, "%s", name);
    disk->ops->shut(disk, file);
}

static void write_and_sync(struct disk *disk, int file, size_t count, uint64_t at)
{
    write_from(disk, file, bytes + at, count, at);
    must_sync(disk, file);
}

static void expect_no_copy(void *arg, const char *name)
{
    (void)arg;
    cr_expect_neq(strncmp(name, "copy", 4), 0, "%s is left", name);
}

/* One that has the shard and a file, and one that waits for it. */
struct pair {
    struct disk *holder;
    int file;
    struct disk *spare;
};

/* The file has so many bytes in a commit each; the spare has not looked yet. */
static struct pair begin_pair(size_t commits, size_t count)
{
    struct pair pair = {.holder = must_take(0)};
    pair.file = must_make(pair.holder, SEGMENT);
    for (uint64_t i = 0; i < commits; i++)
        write_and_sync(pair.holder, pair.file, count, i * count);
    pair.spare = must_open(1);
    server.lists = server.fetches = 0;
    copies = 0;
    return pair;
}

static void end_pair(struct pair *pair)
{
    pair->holder->ops->shut(pair->holder, pair->file);
    disk_close(&pair->spare);
    disk_close(&pair->holder);
}

/* And not what it has. */
Test(disk_postgres, reads_what_came_since_it_looked_last)
{
    struct pair pair = begin_pair(2, 10);
    int gone = must_make(pair.holder, SECOND);
    write_and_sync(pair.holder, gone, 10, 0);
    int next = must_make(pair.holder, LAYOUT_NEXT);
    write_and_sync(pair.holder, next, 10, 0);
    must_wait(pair.spare, 1);
    cr_assert_eq(pair.holder->ops->unlink(pair.holder, SECOND), 0);
    cr_assert_eq(pair.holder->ops->rename(pair.holder, LAYOUT_NEXT, THIRD), 0);
    write_and_sync(pair.holder, next, 10, 10);
    must_take_now(pair.spare);
    cr_expect_eq(copies, 1, "%u", copies);
    must_read(pair.spare, SEGMENT, 20);
    must_read(pair.spare, THIRD, 20);
    cr_expect_eq(pair.spare->ops->open(pair.spare, LAYOUT_NEXT, DISK_READ), -ENOENT);
    cr_expect_eq(pair.spare->ops->open(pair.spare, SECOND, DISK_READ), -ENOENT);
    cr_assert_eq(pair.spare->ops->list(pair.spare, expect_no_copy, NULL), 0);
    end_pair(&pair);
}

/* Whoever took the shard writes on to the files that it followed, and the next one reads that. */
Test(disk_postgres, goes_on_with_the_files_that_it_followed)
{
    struct pair pair = begin_pair(1, 10);
    must_wait(pair.spare, 1);
    must_take_now(pair.spare);
    int file = pair.spare->ops->open(pair.spare, SEGMENT, DISK_WRITE);
    cr_assert_geq(file, 0);
    write_and_sync(pair.spare, file, 10, 10);
    pair.spare->ops->shut(pair.spare, file);
    end_pair(&pair);
    struct disk *next = must_take(0);
    must_read(next, SEGMENT, 20);
    disk_close(&next);
}

/* The file has ten bytes of these, and ten zeros. */
static void expect_ten(struct disk *disk, const char *ten)
{
    char found[20] = "";
    int file = disk->ops->open(disk, SEGMENT, DISK_READ);
    cr_expect_eq(disk_read_at(disk, file, found, sizeof found, 0), 20);
    cr_expect_arr_eq(found, ten, 10);
    cr_expect_arr_eq(found + 10, "\0\0\0\0\0\0\0\0\0\0", 10);
    disk->ops->shut(disk, file);
}

/* The next server may lack what the one before showed, and have another piece at its place. */
Test(disk_postgres, makes_its_copy_anew_in_another_session)
{
    struct disk_owner owner;
    struct pair pair = begin_pair(1, 20);
    must_wait(pair.spare, 1);
    server.is_gone = true;
    cr_expect_eq(pair.spare->ops->lock(pair.spare, false, &owner), -EWOULDBLOCK);
    server.is_gone = false;
    memset(server.pieces[0].body, 'x', 10);
    server.pieces[0].bytes = 10;
    must_take_now(pair.spare);
    cr_expect_eq(copies, 1);
    expect_ten(pair.spare, "xxxxxxxxxx");
    end_pair(&pair);
}

/* Other tables under the same names have what they have, in the same session, too. */
Test(disk_postgres, reads_tables_anew_that_were_restored)
{
    struct pair pair = begin_pair(2, 10);
    must_wait(pair.spare, 1);
    free(server.pieces[--server.piece_count].body);
    server.tables++;
    must_take_now(pair.spare);
    expect_ten(pair.spare, bytes);
    end_pair(&pair);
}

/* Whoever has all looks less often: each look asks the server for all of its files. */
Test(disk_postgres, looks_at_each_tenth_attempt_when_it_is_not_behind)
{
    struct pair pair = begin_pair(1, 10);
    must_wait(pair.spare, COPY_FOLLOW_TRIES);
    cr_expect_eq(server.lists, 1);
    must_wait(pair.spare, 1);
    cr_expect_eq(server.lists, 2);
    end_pair(&pair);
}

/* A look ends with the answer that reaches the bound, and then the next attempt looks.  So many
 * pieces reach it, which come in so many answers; with one less there are that many less. */
struct bound {
    size_t pieces;
    size_t piece_bytes;
    size_t at_once;
    unsigned answers;
    unsigned less;
};

static void expect_looks(const struct bound *bound, size_t pieces, unsigned first, unsigned all)
{
    struct pair pair = begin_pair(0, 0);
    server.at_once = bound->at_once;
    for (uint64_t i = 0; i < pieces; i++) {
        write_at(pair.holder, pair.file, bound->piece_bytes, i * bound->piece_bytes);
        must_sync(pair.holder, pair.file);
    }
    must_wait(pair.spare, 1);
    cr_expect_eq(server.fetches, first, "%u", server.fetches);
    must_wait(pair.spare, 2);
    cr_expect_eq(server.fetches, all, "%u", server.fetches);
    cr_expect_eq(server.lists, pieces < bound->pieces ? 1 : 2, "%u", server.lists);
    must_take_now(pair.spare);
    cr_expect_eq(copies, 0, "%u", copies);
    end_pair(&pair);
    end();
    begin();
}

static void expect_bound(const struct bound *bound)
{
    unsigned answers = bound->answers, fewer = answers - bound->less;
    expect_looks(bound, bound->pieces - 1, fewer, fewer);
    expect_looks(bound, bound->pieces, answers, answers);
    expect_looks(bound, bound->pieces + 1, answers, answers + 1);
}

Test(disk_postgres, reads_so_many_bytes_at_a_look)
{
    expect_bound(&(struct bound){.pieces = COPY_FOLLOW_BYTES / STORE_PIECE_BYTES,
                                 .piece_bytes = STORE_PIECE_BYTES,
                                 .at_once = STORE_PIECES_AT_ONCE,
                                 .answers = 1});
}

Test(disk_postgres, reads_so_many_answers_at_a_look)
{
    expect_bound(&(struct bound){.pieces = COPY_FOLLOW_ANSWERS,
                                 .piece_bytes = 10,
                                 .at_once = 1,
                                 .answers = COPY_FOLLOW_ANSWERS,
                                 .less = 1});
}

Test(disk_postgres, waits_on_where_a_file_goes_while_it_looks)
{
    struct pair pair = begin_pair(1, 10);
    int file = must_make(pair.holder, SECOND);
    write_and_sync(pair.holder, file, 10, 0);
    server.dropped = named(SEGMENT)->number;
    must_wait(pair.spare, 1);
    cr_assert_eq(server.dropped, 0);
    row_of(named(SEGMENT)->number)->is_named = false;
    must_take_now(pair.spare);
    must_read(pair.spare, SECOND, 10);
    end_pair(&pair);
}

/* A look ends with the first file that is gone.  The next one may be gone, too, before it has a
 * copy. */
Test(disk_postgres, waits_on_where_a_file_goes_before_it_has_a_copy)
{
    struct pair pair = begin_pair(1, 10);
    write_and_sync(pair.holder, must_make(pair.holder, SECOND), 10, 0);
    write_and_sync(pair.holder, must_make(pair.holder, THIRD), 10, 0);
    server.dropped = named(SEGMENT)->number;
    must_wait(pair.spare, 1);
    row_of(named(SEGMENT)->number)->is_named = false;
    row_of(named(SECOND)->number)->is_named = false;
    must_wait(pair.spare, COPY_FOLLOW_TRIES);
    cr_expect_eq(server.lists, 2);
    must_take_now(pair.spare);
    must_read(pair.spare, THIRD, 10);
    end_pair(&pair);
}

/* A spare without room for the copy could not take over: it says so at once. */
Test(disk_postgres, says_where_its_copy_cannot_be_written)
{
    struct rlimit limit;
    struct disk_owner owner;
    struct pair pair = begin_pair(1, 8192);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    cr_assert_eq(sigaction(SIGXFSZ, &ignore, NULL), 0);
    struct rlimit small = {.rlim_cur = 4096, .rlim_max = limit.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    server.is_held = true;
    cr_expect_eq(pair.spare->ops->lock(pair.spare, false, &owner), -EFBIG);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const char *why = pair.spare->why;
    cr_assert_not_null(why);
    cr_expect_not_null(strstr(why, folders[1].path), "%s", why);
    cr_expect_not_null(strstr(why, "cannot be written: File too large"), "%s", why);
    end_pair(&pair);
}

static int64_t write_nothing(struct disk *disk, int file, const struct iovec *pieces, int count,
                             uint64_t offset)
{
    (void)disk, (void)file, (void)pieces, (void)count, (void)offset;
    return -EIO;
}

/* The store fails with this errno, too, and is waited for. */
Test(disk_postgres, waits_for_no_disk_that_fails)
{
    struct store store;
    struct postgres_copy copy;
    struct disk *folder = NULL;
    char complaint[DISK_COMPLAINT_BYTES];
    struct door *door = new_door();
    struct pair pair = begin_pair(1, 10);
    cr_assert_eq(store_init(&store, &door, "", 5, 0), 0);
    cr_assert(store_connect(&store), "%s", store.why);
    cr_assert_eq(disk_folder_open(folders[1].path, false, &folder, complaint), 0, "%s", complaint);
    struct disk_ops ops = *folder->ops;
    ops.write = write_nothing;
    folder->ops = &ops;
    copy_init(&copy, &store, folder);
    cr_expect_eq(copy_follow(&copy), -EIO);
    cr_expect_not_null(strstr(store.why, "cannot be written: Input/output error"), "%s", store.why);
    copy_fini(&copy);
    store_fini(&store);
    disk_close(&folder);
    end_pair(&pair);
}

/* ---- the cache ------------------------------------------------------------------------------- */

static bool is_cached(int machine, const char *name)
{
    char path[FOLDER_PATH_BYTES_MAX + FORMAT_NAME_BYTES];
    snprintf(path, sizeof path, "%s/%s", folders[machine].path, name);
    FILE *file = fopen(path, "re");
    if (file != NULL)
        fclose(file);
    return file != NULL;
}

Test(disk_postgres, empties_its_cache_at_each_start)
{
    char path[FOLDER_PATH_BYTES_MAX];
    struct disk *disk = must_take(0);
    int file = must_make(disk, SEGMENT);
    write_at(disk, file, 10, 0); /* never synced */
    disk->ops->shut(disk, file);
    disk_close(&disk);
    cr_expect(is_cached(0, SEGMENT));
    cr_assert(folder_write(&folders[0], "copy1", "of a spare that was killed", path));
    disk = must_take(0);
    cr_expect_not(is_cached(0, SEGMENT));
    cr_expect_not(is_cached(0, "copy1"));
    disk_close(&disk);
}

/* It may be one that somebody needs. */
Test(disk_postgres, empties_no_journal_that_is_no_cache)
{
    char path[FOLDER_PATH_BYTES_MAX];
    struct disk_owner owner;
    cr_assert(folder_write(&folders[0], SEGMENT, "a journal", path));
    struct disk *disk = must_open(0);
    cr_expect_eq(disk->ops->lock(disk, false, &owner), -EEXIST);
    cr_expect_not_null(strstr(disk->why, "--cache DIR"), "%s", disk->why);
    cr_expect(is_cached(0, SEGMENT));
    disk_close(&disk);
}
