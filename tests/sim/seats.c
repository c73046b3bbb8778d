/* SPDX-License-Identifier: MPL-2.0 */
/* seats.c -- see seats.h. */
#include "tests/sim/seats.h"

#include "broker/io/journal_thread.h"
#include "libbus/base/must.h"
#include "tests/lib/folder.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

enum {
    SEGMENT_BYTES = 64 * 1024, /* so that there are several files */
    SPARE_POLL_MS = 50,        /* as in broker/io/main.c */
    AGAIN_MS = 1000,           /* a process that could not open its journal begins again */
};

struct seat {
    struct seats *all;
    unsigned number;
    struct folder cache;
    pthread_t thread;
    sem_t go;
    bool is_taken;
    bool is_killed;
    bool is_idle; /* it waits for work, or for wake_ms */
    int64_t wake_ms;
    int64_t kept_ms;
    enum seat_news news;
    struct journal *journal;
};

struct seats {
    struct nodes *nodes;
    uint64_t seed;
    seats_write_fn *write;
    void *arg;
    sem_t back; /* the thread that runs has handed back */
    struct seat items[SEATS];
};

/* ---- in the thread of a seat ----------------------------------------------------------------- */

static void await(sem_t *sem)
{
    while (sem_wait(sem) != 0) { /* a signal came */
    }
}

static void hand_back(struct seat *seat, enum seat_news news)
{
    if (seat->is_killed)
        return; /* it runs to its end */
    seat->news = news;
    must(sem_post(&seat->all->back) == 0);
    await(&seat->go);
}

static void let_pass(struct seat *seat, int64_t ms)
{
    seat->wake_ms = nodes_now_ms(seat->all->nodes) + ms;
    hand_back(seat, SEAT_WAITS);
}

static void meanwhile(void *arg, unsigned client, int64_t ms)
{
    struct seats *seats = arg;
    let_pass(&seats->items[client], ms);
}

static bool wait_for_shard(void *arg, const char *why)
{
    struct seat *seat = arg;
    (void)why;
    let_pass(seat, SPARE_POLL_MS);
    return !seat->is_killed;
}

static bool open_journal(struct seat *seat)
{
    struct disk *disk = NULL;
    struct disk_shard shard = {.number = 0, .replicas = 1, .cache = seat->cache.path};
    struct door *door = nodes_door(seat->all->nodes, seat->number);
    struct journal_options options = {.may_create = true,
                                      .id = seat->all->seed | 1,
                                      .segment_bytes = SEGMENT_BYTES,
                                      .shard = &shard,
                                      .on_locked = wait_for_shard,
                                      .on_locked_arg = seat};
    struct journal_opened opened;
    char complaint[JOURNAL_COMPLAINT_BYTES];
    return disk_postgres_open_door(&door, "", &shard, &disk, complaint) == 0 &&
           journal_open_disk(&disk, &options, &seat->journal, &opened, complaint) == JOURNAL_OK;
}

/* As the journal thread of a broker: what is there is written and synced; else it is said now and
 * then that the journal is ours.  false: it is over. */
static bool serve(struct seat *seat)
{
    int64_t now_ms = nodes_now_ms(seat->all->nodes);
    struct journal *journal = seat->journal;
    bool has_written = seat->all->write(seat->all->arg, seat->number);
    if (!has_written && now_ms - seat->kept_ms < JOURNAL_THREAD_KEEP_MS) {
        seat->is_idle = true;
        let_pass(seat, JOURNAL_THREAD_KEEP_MS / 2);
        seat->is_idle = false;
        return !seat->is_killed;
    }
    enum journal_err err =
        has_written ? journal_sync(journal, journal_next(journal)) : journal_keep(journal);
    if (err != JOURNAL_OK)
        return false;
    seat->kept_ms = now_ms;
    if (has_written)
        hand_back(seat, SEAT_HAS_SYNCED);
    return !seat->is_killed;
}

static void *live(void *arg)
{
    struct seat *seat = arg;
    await(&seat->go);
    while (!seat->is_killed && !open_journal(seat))
        let_pass(seat, AGAIN_MS);
    seat->kept_ms = nodes_now_ms(seat->all->nodes);
    if (!seat->is_killed)
        hand_back(seat, SEAT_HAS_SHARD);
    while (!seat->is_killed && serve(seat)) {
    }
    journal_close(&seat->journal);
    seat->news = SEAT_IS_OVER;
    must(sem_post(&seat->all->back) == 0);
    return NULL;
}

/* ---- in the caller's thread ------------------------------------------------------------------ */

static void let_run(struct seat *seat)
{
    must(sem_post(&seat->go) == 0);
    await(&seat->all->back);
    if (seat->news != SEAT_IS_OVER)
        return;
    must(pthread_join(seat->thread, NULL) == 0);
    seat->is_taken = false;
}

struct seats *seats_new(uint64_t seed, seats_write_fn *write, void *arg)
{
    struct seats *seats = calloc(1, sizeof *seats);
    must(seats != NULL && sem_init(&seats->back, 0, 0) == 0);
    seats->nodes = nodes_new(seed, meanwhile, seats);
    seats->seed = seed;
    seats->write = write;
    seats->arg = arg;
    for (unsigned i = 0; i < SEATS; i++) {
        seats->items[i].all = seats;
        seats->items[i].number = i;
        must(folder_make(&seats->items[i].cache) && sem_init(&seats->items[i].go, 0, 0) == 0);
    }
    return seats;
}

void seats_free(struct seats **seats)
{
    struct seats *old = *seats;
    *seats = NULL;
    if (old == NULL)
        return;
    for (unsigned i = 0; i < SEATS; i++) {
        seats_kill(old, i);
        folder_fini(&old->items[i].cache);
        must(sem_destroy(&old->items[i].go) == 0);
    }
    must(sem_destroy(&old->back) == 0);
    nodes_free(&old->nodes);
    free(old);
}

struct nodes *seats_nodes(struct seats *seats)
{
    return seats->nodes;
}

void seats_start(struct seats *seats, unsigned number)
{
    struct seat *seat = &seats->items[number];
    must(!seat->is_taken);
    seat->is_taken = true;
    seat->is_killed = false;
    seat->wake_ms = 0;
    must(pthread_create(&seat->thread, NULL, live, seat) == 0);
}

void seats_kill(struct seats *seats, unsigned number)
{
    struct seat *seat = &seats->items[number];
    if (!seat->is_taken)
        return;
    seat->is_killed = true;
    nodes_kill(seats->nodes, number);
    let_run(seat);
    must(!seat->is_taken);
}

bool seats_are_taken(const struct seats *seats, unsigned seat)
{
    return seats->items[seat].is_taken;
}

enum seat_news seats_run(struct seats *seats, unsigned number, int64_t now_ms,
                         int64_t *out_again_ms)
{
    struct seat *seat = &seats->items[number];
    *out_again_ms = INT64_MAX;
    nodes_pass(seats->nodes, now_ms - nodes_now_ms(seats->nodes));
    if (!seat->is_taken || now_ms < seat->wake_ms)
        return SEAT_WAITS;
    let_run(seat);
    if (seat->news == SEAT_WAITS)
        *out_again_ms = seat->wake_ms;
    else if (seat->news != SEAT_IS_OVER)
        *out_again_ms = now_ms;
    return seat->news;
}

void seats_wake(struct seats *seats, unsigned number)
{
    struct seat *seat = &seats->items[number];
    if (seat->is_idle)
        seat->wake_ms = 0;
}

struct journal *seats_journal(struct seats *seats, unsigned seat)
{
    return seats->items[seat].journal;
}

int64_t seats_kept_ms(const struct seats *seats, unsigned seat)
{
    return seats->items[seat].kept_ms;
}
