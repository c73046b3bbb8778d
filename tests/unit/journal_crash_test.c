/* SPDX-License-Identifier: MPL-2.0 */
/* journal_crash_test.c -- random histories of a journal whose process or machine ends at any
 * moment, on a disk that loses, tears and delays: what was synced is there, and what is there is
 * the beginning of what was appended, in whole batches. */
#include "broker/journal/layout.h"
#include "broker/journal/format.h"
#include "tests/lib/sim_disk.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS_MAX 4096
#define BATCH_MAX 12
#define BODY_MAX 700
#define SEGMENT 4096
#define STEPS 60 /* of a history that ends with its machine */

struct history {
    struct sim_disk *sim;
    struct journal *journal;
    uint64_t seed;
    uint64_t number;                /* of the next record */
    uint64_t synced;                /* all with lower numbers are on the disk */
    uint64_t there;                 /* all with lower numbers are found by the next opening */
    uint64_t trimmed;               /* what has a lower number may be gone */
    uint64_t attempt;               /* of the last batch */
    uint64_t failed;                /* the attempt that failed at the end; 0: none */
    uint64_t attempts[RECORDS_MAX]; /* by number: the attempt that appended it */
    uint64_t at[RECORDS_MAX];
    bool is_end[RECORDS_MAX]; /* with it a batch ends */
    uint64_t cuts;            /* openings that cut something */
    uint64_t wide_cuts;       /* ... from more than one segment */
    bool is_lazy;
    struct journal_flush *flush; /* begun and not ended */
    uint64_t flushed;            /* with it, all with lower numbers are on the disk */
    bool has_run;
};

/* Few sizes, so that what an attempt left lies where records of the next one begin. */
static size_t make_body(uint64_t number, uint64_t attempt, uint8_t *body)
{
    size_t bytes = 16 + (number % 5 == 0 ? BODY_MAX - 16 : 24);
    memset(body, (int)(number + attempt), bytes);
    format_put64(body, number);
    format_put64(body + 8, attempt);
    return bytes;
}

/* ---- what is done ---------------------------------------------------------------------------- */

static enum journal_err append(struct history *history)
{
    static uint8_t bodies[BATCH_MAX][BODY_MAX];
    struct journal_record records[BATCH_MAX];
    uint64_t at[BATCH_MAX];
    uint64_t kind = sim_disk_below(history->sim, 8);
    size_t count = 1 + sim_disk_below(history->sim, kind == 0 ? BATCH_MAX : 3);
    unsigned how = kind == 1 ? JOURNAL_CHECKPOINT_BEGIN : kind == 2 ? JOURNAL_CHECKPOINT_END : 0;
    struct journal *journal = history->journal;
    cr_assert_lt(history->number + count, RECORDS_MAX);
    history->attempt++;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = make_body(history->number + i, history->attempt, bodies[i]);
        records[i] = (struct journal_record){1, span_of(bodies[i], bytes)};
    }
    if (sim_disk_below(history->sim, 10) < 3)
        how |= JOURNAL_ESSENTIAL;
    enum journal_err err = journal_append(journal, journal_lease(journal), journal_next(journal),
                                          records, count, how, at);
    history->failed = err == JOURNAL_OK ? 0 : history->attempt;
    for (size_t i = 0; err == JOURNAL_OK && i < count; i++) {
        history->attempts[history->number + i] = history->attempt;
        history->at[history->number + i] = at[i];
        history->is_end[history->number + i] = i + 1 == count;
    }
    history->number += err == JOURNAL_OK ? count : 0;
    return err;
}

static enum journal_err trim(struct history *history)
{
    uint64_t number = history->trimmed;
    if (history->number > number)
        number += sim_disk_below(history->sim, history->number - number);
    if (number == history->number)
        return JOURNAL_OK;
    history->trimmed = number;
    return journal_trim(history->journal, history->at[number]);
}

/* The next step of a flush; others do what they do in between. */
static enum journal_err step_flush(struct history *history)
{
    enum journal_err err = JOURNAL_OK;
    if (history->flush == NULL) {
        bool is_sync = sim_disk_below(history->sim, 2) == 0; /* it writes no proof */
        err = is_sync ? journal_sync_begin(history->journal, &history->flush)
                      : journal_flush_begin(history->journal, &history->flush);
        history->flushed = history->number;
        history->has_run = false;
    } else if (!history->has_run) {
        journal_flush_run(history->flush);
        history->has_run = true;
    } else {
        err = journal_flush_end(history->journal, &history->flush);
        history->synced = err == JOURNAL_OK ? history->flushed : history->synced;
    }
    return err;
}

static void end_flush(struct history *history)
{
    while (history->flush != NULL)
        (void)step_flush(history);
}

static enum journal_err act(struct history *history)
{
    enum journal_err err = JOURNAL_OK;
    if (history->is_lazy && (history->flush != NULL || sim_disk_below(history->sim, 12) == 0) &&
        sim_disk_below(history->sim, 3) == 0)
        return step_flush(history);
    uint64_t what = sim_disk_below(history->sim, 10);
    if (what < 8)
        return append(history);
    if (what == 9 && history->number > 20)
        return trim(history);
    if (history->flush != NULL || (history->is_lazy && sim_disk_below(history->sim, 4) > 0))
        return JOURNAL_OK; /* one sync at a time, and most by a flush */
    err = journal_sync(history->journal, journal_next(history->journal));
    history->synced = err == JOURNAL_OK ? history->number : history->synced;
    return err;
}

/* ---- what must be ---------------------------------------------------------------------------- */

/* Takes a batch of which it was said that it failed, if the crash came before it was gone. */
static void take_failed(struct history *history, uint64_t number, uint64_t attempt,
                        const struct journal_found *found)
{
    uint8_t body[BODY_MAX];
    cr_assert(history->failed != 0 && attempt == history->failed,
              "seed %llu: record %llu is not of its attempt", (unsigned long long)history->seed,
              (unsigned long long)number);
    cr_assert(span_equal(found->body, span_of(body, make_body(number, attempt, body))));
    history->attempts[number] = attempt;
    history->at[number] = found->at;
    history->is_end[number] = true;
    if (number > 0 && history->attempts[number - 1] == attempt)
        history->is_end[number - 1] = false;
}

/* Reads all; what was not there any more is forgotten. */
static void check(struct history *history, uint64_t least)
{
    uint8_t body[BODY_MAX];
    struct journal_found found;
    enum journal_err err = JOURNAL_OK;
    uint64_t number = UINT64_MAX;
    for (uint64_t at = journal_first(history->journal);
         (err = journal_read(history->journal, at, &found)) == JOURNAL_OK; at = found.next) {
        cr_assert_geq(found.body.bytes, 16);
        uint64_t got = format_get64(found.body.data);
        uint64_t attempt = format_get64((const uint8_t *)found.body.data + 8);
        cr_assert(number == UINT64_MAX ? got <= history->trimmed : got == number,
                  "seed %llu: record %llu where %llu was due", (unsigned long long)history->seed,
                  (unsigned long long)got, (unsigned long long)number);
        number = got + 1;
        if (got >= history->number) {
            take_failed(history, got, attempt, &found);
            continue;
        }
        cr_assert_eq(attempt, history->attempts[got], "seed %llu: record %llu is of attempt %llu",
                     (unsigned long long)history->seed, (unsigned long long)got,
                     (unsigned long long)attempt);
        cr_assert_eq(found.at, history->at[got]);
        cr_assert(span_equal(found.body, span_of(body, make_body(got, attempt, body))));
    }
    cr_assert_eq(err, JOURNAL_END, "seed %llu: %s", (unsigned long long)history->seed,
                 journal_complaint(history->journal));
    number = number == UINT64_MAX ? 0 : number; /* a trim always leaves a record */
    cr_assert(number >= least, "seed %llu: %llu of %llu are there, %llu were promised",
              (unsigned long long)history->seed, (unsigned long long)number,
              (unsigned long long)history->number, (unsigned long long)least);
    cr_assert(number == 0 || number >= RECORDS_MAX || history->is_end[number - 1],
              "seed %llu: half a batch", (unsigned long long)history->seed);
    history->number = number;
    if (!history->is_lazy)
        history->synced = number; /* opening syncs what it finds */
    history->failed = 0;
    if (history->trimmed > number)
        history->trimmed = number;
}

static enum journal_err try_open(struct history *history)
{
    struct disk *disk = sim_disk_open(history->sim);
    struct journal_options options = {
        .may_create = true, .id = 99, .segment_bytes = SEGMENT, .is_lazy = history->is_lazy};
    struct journal_opened opened;
    char complaint[JOURNAL_COMPLAINT_BYTES] = "";
    enum journal_err err =
        journal_open_disk(&disk, &options, &history->journal, &opened, complaint);
    cr_assert(err == JOURNAL_OK || err == JOURNAL_IO || err == JOURNAL_FULL ||
                  err == JOURNAL_FAILED,
              "seed %llu: %s", (unsigned long long)history->seed, complaint);
    history->cuts += err == JOURNAL_OK && opened.cut_bytes > 0;
    history->wide_cuts += err == JOURNAL_OK && strstr(opened.cut, "B in later files") != NULL;
    return err;
}

static struct history *history_new(uint64_t seed)
{
    struct history *history = calloc(1, sizeof *history);
    cr_assert_not_null(history);
    history->seed = seed;
    history->sim = sim_disk_new(seed);
    return history;
}

static void history_free(struct history *history)
{
    end_flush(history);
    journal_close(&history->journal);
    sim_disk_free(&history->sim);
    free(history);
}

/* ---- the machine stops at each call ---------------------------------------------------------- */

/* A history of so many steps that ends with the machine at a given call.  False: it came to its end
 * before. */
static bool crash_at(uint64_t seed, bool is_lazy, uint64_t call, uint64_t *cuts,
                     uint64_t *wide_cuts)
{
    struct history *history = history_new(seed);
    enum journal_err err = JOURNAL_OK;
    history->is_lazy = is_lazy;
    sim_disk_stop_after(history->sim, call);
    err = try_open(history);
    for (size_t i = 0; err == JOURNAL_OK && i < STEPS; i++)
        err = act(history);
    bool is_stopped = err != JOURNAL_OK;
    end_flush(history);
    journal_close(&history->journal);
    sim_disk_crash(history->sim);
    /* The second opening may be ended, too, and must leave what the first would have found. */
    for (uint64_t again = 1 + seed % 7; err != JOURNAL_OK && again < 40; again += 5) {
        sim_disk_stop_after(history->sim, again);
        err = try_open(history);
        journal_close(&history->journal);
        sim_disk_crash(history->sim);
    }
    cr_assert_eq(try_open(history), JOURNAL_OK);
    check(history, history->synced);
    for (size_t i = 0; i < 10; i++)
        cr_assert_eq(act(history), JOURNAL_OK);
    end_flush(history);
    journal_close(&history->journal);
    history->is_lazy = is_lazy && seed % 2 == 0; /* either way reads what the other wrote */
    cr_assert_eq(try_open(history), JOURNAL_OK);
    check(history, history->number);
    *cuts += history->cuts;
    *wide_cuts += history->wide_cuts;
    history_free(history);
    return is_stopped;
}

/* Each history stops at each of its calls.  How often one stopped. */
static uint64_t crash_everywhere(uint64_t seeds, bool is_lazy, uint64_t *cuts, uint64_t *wide_cuts)
{
    uint64_t stops = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        uint64_t call = 0;
        while (crash_at(seed, is_lazy, call, cuts, wide_cuts))
            call++;
        stops += call;
    }
    return stops;
}

Test(journal_crash, keeps_what_was_synced_wherever_the_machine_stops)
{
    uint64_t cuts = 0;
    uint64_t wide_cuts = 0;
    uint64_t stops = crash_everywhere(24, false, &cuts, &wide_cuts);
    cr_expect_eq(wide_cuts, 0);
    /* The test is about something: it stopped often, and often left a torn tail. */
    cr_expect(stops > 1000 && cuts > 200, "%llu stops, %llu cuts", (unsigned long long)stops,
              (unsigned long long)cuts);
}

/* What was synced is there, of several segments that were not the beginning, and never a batch
 * behind one that is missing. */
Test(journal_crash, keeps_what_was_flushed_wherever_the_machine_stops)
{
    uint64_t cuts = 0;
    uint64_t wide_cuts = 0;
    uint64_t stops = crash_everywhere(40, true, &cuts, &wide_cuts);
    cr_expect(stops > 2000 && cuts > 500 && wide_cuts > 50, "%llu stops, %llu cuts, %llu wide",
              (unsigned long long)stops, (unsigned long long)cuts, (unsigned long long)wide_cuts);
}

/* ---- anything fails -------------------------------------------------------------------------- */

static void plan_fault(struct history *history)
{
    static const unsigned calls[] = {SIM_WRITE,  SIM_RESERVE, SIM_RENAME, SIM_SYNC_NAMES,
                                     SIM_UNLINK, SIM_OPEN,    SIM_SYNC};
    static const int errs[] = {EIO, ENOSPC, EIO, EDQUOT};
    size_t which = sim_disk_below(history->sim, sizeof calls / sizeof *calls);
    sim_disk_fault(history->sim, calls[which], sim_disk_below(history->sim, 12),
                   1 + sim_disk_below(history->sim, 3), errs[sim_disk_below(history->sim, 4)]);
}

/* One process with the journal; it ends of itself, by a kill or with its machine. */
static void live(struct history *history)
{
    uint64_t faults = sim_disk_below(history->sim, 4);
    for (uint64_t i = 0; i < faults; i++)
        plan_fault(history);
    if (try_open(history) != JOURNAL_OK) {
        sim_disk_kill(history->sim);
        cr_assert_eq(try_open(history), JOURNAL_OK);
    }
    check(history, history->there);
    uint64_t steps = 5 + sim_disk_below(history->sim, 40);
    enum journal_err err = JOURNAL_OK;
    for (uint64_t i = 0; i < steps && err != JOURNAL_FAILED; i++) {
        err = act(history);
        cr_assert(err == JOURNAL_OK || err == JOURNAL_FULL || err == JOURNAL_IO ||
                  err == JOURNAL_FAILED);
        cr_assert(err == JOURNAL_OK || journal_complaint(history->journal)[0] != '\0');
    }
    if (err == JOURNAL_FAILED)
        cr_assert_eq(append(history), JOURNAL_FAILED);
    uint64_t end = sim_disk_below(history->sim, 3);
    if (end < 2)
        sim_disk_stop_after(history->sim, 0);
    end_flush(history);
    journal_close(&history->journal);
    /* After a kill all that was appended is in the cache. */
    history->there = end == 0 ? history->synced : history->number;
    if (end == 0)
        sim_disk_crash(history->sim); /* power failure */
}

Test(journal_crash, goes_on_whatever_the_disk_refuses)
{
    uint64_t cuts = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct history *history = history_new(seed);
        if (seed % 2 == 0)
            sim_disk_stint(history->sim);
        for (size_t run = 0; run < 12; run++) {
            history->is_lazy = seed % 3 == 0 || (seed % 3 == 1 && run % 2 == 0);
            live(history);
        }
        cr_assert_eq(try_open(history), JOURNAL_OK);
        check(history, history->there);
        cuts += history->cuts;
        history_free(history);
    }
    cr_expect(cuts > 100, "%llu cuts", (unsigned long long)cuts);
}
