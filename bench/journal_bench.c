/* SPDX-License-Identifier: MPL-2.0 */
/* journal_bench.c -- how fast the broker's journal takes records, beside SQLite (a WAL, a blob a
 * row) doing the same work on the same disk; and how fast both the scan of an opening and a replay
 * are.
 *
 * "synced": each group of appends is on the disk before the next begins (fdatasync; synchronous =
 * FULL).  "not synced": it survives the end of the process (synchronous = NORMAL). */
#include "bench/harness.h"
#include "broker/journal/journal.h"
#include "tests/lib/folder.h"

#include <stdlib.h>
#include <string.h>

#define TRIM_BYTES ((uint64_t)512 * 1024 * 1024) /* more than that is not kept */
#define REPLAY_BYTES ((uint64_t)512 * 1024 * 1024)

struct load {
    const char *what;
    size_t bytes;
    size_t group; /* appends, or rows of a transaction, before a sync */
    bool is_synced;
    uint64_t count;
};
static const struct load loads[] = {
    {"100 B, not synced", 100, 1, false, 400000},
    {"100 B, not synced, 16", 100, 16, false, 400000},
    {"100 B, synced", 100, 1, true, 2000},
    {"100 B, synced, 16", 100, 16, true, 32000},
    {"4 KiB, not synced", 4096, 1, false, 100000},
    {"4 KiB, not synced, 16", 4096, 16, false, 100000},
    {"4 KiB, synced", 4096, 1, true, 2000},
    {"4 KiB, synced, 16", 4096, 16, true, 16000},
    {"128 KiB, not synced", 131072, 1, false, 4000},
    {"128 KiB, not synced, 16", 131072, 16, false, 4000},
    {"128 KiB, synced", 131072, 1, true, 800},
    {"128 KiB, synced, 16", 131072, 16, true, 4000},
};

static struct journal *open_journal(const char *where)
{
    struct journal *journal = NULL;
    struct journal_options options = {.may_create = true, .id = 1};
    struct journal_opened opened;
    char complaint[JOURNAL_COMPLAINT_BYTES];
    if (journal_open(where, &options, &journal, &opened, complaint) != JOURNAL_OK) {
        bench_die("%s", complaint);
    }
    return journal;
}

static void check(const struct journal *journal, enum journal_err err)
{
    if (err != JOURNAL_OK) {
        bench_die("%s: %s", journal_strerror(err), journal_complaint(journal));
    }
}

/* One after the other, as batches of one; a sync after each group. */
static void append_all(struct journal *journal, const struct load *load, uint64_t count)
{
    uint8_t *bytes = malloc(load->bytes);
    if (bytes == NULL) {
        bench_die("no memory");
    }
    memset(bytes, 'x', load->bytes);
    struct journal_record record = {1, span_of(bytes, load->bytes)};
    for (uint64_t i = 0; i < count; i++) {
        memcpy(bytes, &i, sizeof i);
        check(journal, journal_append(journal, journal_lease(journal), journal_next(journal),
                                      &record, 1, 0, NULL));
        if (load->is_synced && (i + 1) % load->group == 0) {
            check(journal, journal_sync(journal, journal_next(journal)));
        }
        if (journal_next(journal) - journal_first(journal) > 2 * TRIM_BYTES) {
            check(journal, journal_trim(journal, journal_next(journal) - TRIM_BYTES));
        }
    }
    free(bytes);
}

static double run_journal(const struct load *load, uint64_t count)
{
    struct folder folder;
    if (!folder_make(&folder)) {
        bench_die("no folder can be made");
    }
    struct journal *journal = open_journal(folder.path);
    int64_t start_ns = test_now_ns();
    append_all(journal, load, count);
    int64_t took_ns = test_now_ns() - start_ns;
    journal_close(&journal);
    folder_fini(&folder);
    return (double)count * 1e9 / (double)took_ns;
}

/* The same work, by peers/sqlite_store.c. */
static double run_sqlite(const struct load *load, uint64_t count)
{
    struct process store;
    char bytes_text[32];
    char group_text[32];
    char count_text[32];
    snprintf(bytes_text, sizeof bytes_text, "%zu", load->bytes);
    snprintf(group_text, sizeof group_text, "%zu", load->group);
    snprintf(count_text, sizeof count_text, "%llu", (unsigned long long)count);
    const char *const words[] = {"sqlite_store", load->is_synced ? "FULL" : "NORMAL",
                                 bytes_text,     group_text,
                                 count_text,     NULL};
    role_start(&store, words);
    role_go(&store);
    int64_t took_ns = role_done(&store);
    role_fini(&store);
    return (double)count * 1e9 / (double)took_ns;
}

static void ask(const struct bench *bench, const struct load *load)
{
    double by_sqlite[BENCH_RUNS_MAX];
    double by_journal[BENCH_RUNS_MAX];
    uint64_t count = bench_count(bench, load->count) / 16 * 16;
    struct bench_row row = {
        .what = load->what, .system = "sqlite", .unit = "1/s", .runs = bench->runs, .n = count};
    double peer = 0;
    for (size_t run = 0; run < bench->runs; run++) {
        by_sqlite[run] = BENCH_HAS_SQLITE ? run_sqlite(load, count) : 0;
        by_journal[run] = run_journal(load, count);
    }
    if (BENCH_HAS_SQLITE) {
        row.values = by_sqlite;
        peer = bench_tell(bench, &row);
    }
    row.system = "errbus";
    row.values = by_journal;
    row.ratio = peer > 0 ? bench_median(by_journal, bench->runs) / peer : 0;
    bench_tell(bench, &row);
}

/* What an opening and a replay cost, with what was written still in memory: in records a second. */
static void ask_replay(const struct bench *bench, const char *what, size_t bytes)
{
    double opened[BENCH_RUNS_MAX];
    double replayed[BENCH_RUNS_MAX];
    struct load load = {.what = what, .bytes = bytes, .group = 1};
    uint64_t count = bench_count(bench, REPLAY_BYTES / bytes);
    for (size_t run = 0; run < bench->runs; run++) {
        struct folder folder;
        if (!folder_make(&folder)) {
            bench_die("no folder can be made");
        }
        struct journal *journal = open_journal(folder.path);
        append_all(journal, &load, count);
        journal_close(&journal);
        int64_t start_ns = test_now_ns();
        journal = open_journal(folder.path);
        int64_t open_ns = test_now_ns();
        struct journal_found found = {.next = journal_first(journal)};
        uint64_t seen = 0;
        while (journal_read(journal, found.next, &found) == JOURNAL_OK) {
            seen++;
        }
        int64_t end_ns = test_now_ns();
        if (seen != count) {
            bench_die("%llu of %llu were there", (unsigned long long)seen,
                      (unsigned long long)count);
        }
        opened[run] = (double)count * 1e9 / (double)(open_ns - start_ns);
        replayed[run] = (double)count * 1e9 / (double)(end_ns - open_ns);
        journal_close(&journal);
        folder_fini(&folder);
    }
    struct bench_row row = {.what = what,
                            .system = "errbus, open",
                            .unit = "1/s",
                            .values = opened,
                            .runs = bench->runs,
                            .n = count};
    bench_tell(bench, &row);
    row.system = "errbus, replay";
    row.values = replayed;
    bench_tell(bench, &row);
}

int main(int argc, char **argv)
{
    struct bench bench;
    if (!bench_init(&bench, "journal", argc, argv)) {
        return 2;
    }
    if (!BENCH_HAS_SQLITE) {
        printf("journal     sqlite: skipped, libsqlite3-dev was not there when this was built\n");
    }
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        ask(&bench, &loads[i]);
    }
    ask_replay(&bench, "100 B, read", 100);
    ask_replay(&bench, "4 KiB, read", 4096);
    ask_replay(&bench, "128 KiB, read", 131072);
    return 0;
}
