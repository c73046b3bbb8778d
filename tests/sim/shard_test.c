/* SPDX-License-Identifier: MPL-2.0 */
/* shard_test.c -- three brokers and one shard in PostgreSQL (nodes.h), under faults: brokers that
 * are killed, stopped, and cut off, standbys that are cut off, nodes that are lost, waits that are
 * cancelled, a quorum that is set aside, sessions that end.  The brokers are what they are below
 * the journal: the disk of disk_postgres.c, with files that they write, rename and remove.
 *
 * - What was confirmed to a broker, or was read by one that took the shard, is there for each that
 *   takes it later, at the same place.
 * - A broker that was replaced confirms nothing that the next one has not read.
 * - A shard is taken only from a holder that is gone, and taken at last.
 * - In the end of some seeds a standby takes writes that lacks what was confirmed.  The broker that
 *   has that confirmed confirms nothing more, and says that the store forgot, even if another one
 *   has the shard by now.
 *
 *   ERRBUS_SIM_SEEDS, ERRBUS_SIM_FROM   as in sim_test.c (default 200, from 1) */
#include "tests/lib/folder.h"
#include "tests/sim/nodes.h"
#include "tests/sim/seeds.h"

#include "broker/journal/layout.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SEEDS_DEFAULT = 200,
    BROKERS = 3,
    STEPS = 400,
    NUMBERS_MAX = 4096,
    FILES_MAX = 4, /* then the first one goes */
    AT_ONCE_MAX = 7,
    HEALED_STEPS_MAX = 2000,
};

struct broker {
    unsigned number;
    struct folder cache;
    struct disk *disk;
    bool is_busy;   /* in a call */
    bool is_killed; /* in a call: it ends behind it */
    bool is_holder;
    uint64_t epoch;
    int file;
    uint64_t firsts[FILES_MAX + 1]; /* of its files, oldest first */
    size_t file_count;
    uint64_t next;                /* the number of its next value */
    uint64_t values[NUMBERS_MAX]; /* as it has them */
};

static struct nodes *nodes;
static struct broker brokers[BROKERS];
static struct dice dice;
static bool is_calm;            /* nothing fails any more */
static struct broker *betrayed; /* something is lost that was confirmed to it; NULL: nobody */
static bool has_noticed;        /* it did */
static uint64_t seed, nonce;

/* What anybody was told. */
static uint64_t told[NUMBERS_MAX];
static uint64_t told_until;
static uint64_t floor_most;   /* values below may be gone */
static uint64_t newest_epoch; /* of a broker that took the shard */
static uint64_t newest_read;  /* what it read, up to here */
static struct {
    uint64_t confirmed, taken, fenced, killed, failed_over, set_aside, doubts, undone, behind,
        betrayed;
} sums;

#define MUST(truth, ...)                                                                           \
    do {                                                                                           \
        char what[200];                                                                            \
        snprintf(what, sizeof what, __VA_ARGS__);                                                  \
        cr_assert(truth, "seed %" PRIu64 ": %s", seed, what);                                      \
    } while (0)

/* ---- what must be ---------------------------------------------------------------------------- */

/* The broker says that these values are there. */
static void tell(const struct broker *broker, uint64_t from, uint64_t until)
{
    if (betrayed != NULL)
        return;
    for (uint64_t i = from; i < until; i++) {
        if (i < told_until) {
            MUST(told[i] == broker->values[i], "value %" PRIu64 " is another one than was told", i);
            continue;
        }
        told[i] = broker->values[i];
        told_until = i + 1;
    }
}

static void see_confirmed(struct broker *broker, uint64_t from)
{
    sums.confirmed++;
    MUST(broker != betrayed, "it confirms what follows on what is lost");
    if (betrayed != NULL)
        return;
    if (broker->epoch < newest_epoch) {
        sums.behind++; /* the answer came late */
        MUST(broker->next <= newest_read,
             "epoch %" PRIu64 " confirms value %" PRIu64 " behind epoch %" PRIu64, broker->epoch,
             broker->next - 1, newest_epoch);
    }
    tell(broker, from, broker->next);
}

/* It may have been replaced meanwhile; then it has nothing that the next one lacks. */
static void see_taken(struct broker *broker)
{
    sums.taken++;
    if (betrayed != NULL)
        return;
    MUST(broker->epoch != newest_epoch, "epoch %" PRIu64 " was taken twice", broker->epoch);
    MUST(broker->epoch < newest_epoch || broker->next >= told_until,
         "%" PRIu64 " values are there of %" PRIu64, broker->next, told_until);
    MUST(broker->epoch > newest_epoch || broker->next <= newest_read,
         "epoch %" PRIu64 " has read what epoch %" PRIu64 " wrote", broker->epoch, newest_epoch);
    MUST(broker->firsts[0] <= floor_most, "values below %" PRIu64 " are gone", broker->firsts[0]);
    if (broker->epoch > newest_epoch) {
        newest_epoch = broker->epoch;
        newest_read = broker->next;
    }
    tell(broker, broker->firsts[0], broker->next);
}

/* ---- a broker -------------------------------------------------------------------------------- */

/* A holder has one file open, which the end of its process closes. */
static void leave(struct broker *broker)
{
    if (broker->is_holder)
        broker->disk->ops->shut(broker->disk, broker->file);
    disk_close(&broker->disk);
    broker->is_holder = broker->is_killed = false;
}

static void kill_broker(struct broker *broker)
{
    if (broker->disk == NULL || broker->is_killed)
        return;
    sums.killed++;
    nodes_kill(nodes, broker->number);
    if (broker->is_busy)
        broker->is_killed = true;
    else
        leave(broker);
}

static void open_disk(struct broker *broker)
{
    char complaint[DISK_COMPLAINT_BYTES];
    struct door *door = nodes_door(nodes, broker->number);
    struct disk_shard shard = {.number = 0, .replicas = 1, .cache = broker->cache.path};
    (void)disk_postgres_open_door(&door, "", &shard, &broker->disk, complaint); /* or later */
}

static int must_open_file(struct broker *broker, const char *name, enum disk_how how)
{
    int file = broker->disk->ops->open(broker->disk, name, how);
    MUST(file >= 0, "%s cannot be opened: %d", name, file);
    return file;
}

static void see_name(void *arg, const char *name)
{
    struct broker *broker = arg;
    uint64_t first;
    if (!segment_name_read(name, &first))
        return;
    first /= FORMAT_ALIGN;
    MUST(broker->file_count < FILES_MAX + 1, "there are too many files");
    size_t at = broker->file_count++;
    for (; at > 0 && broker->firsts[at - 1] > first; at--)
        broker->firsts[at] = broker->firsts[at - 1];
    broker->firsts[at] = first;
}

/* The values of one file: from its first one on, without a gap. */
static void read_file(struct broker *broker, uint64_t first)
{
    char name[FORMAT_NAME_BYTES];
    uint64_t value = 0;
    segment_name_write(first * FORMAT_ALIGN, name);
    int file = must_open_file(broker, name, DISK_READ);
    MUST(first == broker->next, "values before %" PRIu64 " are missing from %" PRIu64 " on", first,
         broker->next);
    while (disk_read_at(broker->disk, file, &value, sizeof value,
                        (broker->next - first) * sizeof value) == sizeof value &&
           value != 0)
        broker->values[broker->next++] = value;
    broker->disk->ops->shut(broker->disk, file);
}

static void read_all(struct broker *broker)
{
    char name[FORMAT_NAME_BYTES];
    broker->file_count = 0;
    (void)broker->disk->ops->list(broker->disk, see_name, broker);
    broker->next = broker->file_count > 0 ? broker->firsts[0] : 0;
    for (size_t i = 0; i < broker->file_count; i++)
        read_file(broker, broker->firsts[i]);
    if (broker->file_count == 0)
        broker->firsts[broker->file_count++] = 0;
    segment_name_write(broker->firsts[broker->file_count - 1] * FORMAT_ALIGN, name);
    bool is_new = broker->next == broker->firsts[broker->file_count - 1];
    broker->file = must_open_file(broker, name, is_new ? DISK_MAKE : DISK_WRITE);
}

/* Ends it, if it must end. */
static void see_result(struct broker *broker, int result)
{
    bool is_fenced = result == -DISK_FENCED;
    if (betrayed != NULL && result == -DISK_FORGOT) {
        MUST(strstr(broker->disk->why, "the store forgot") != NULL, "it says: %s",
             broker->disk->why);
        has_noticed = has_noticed || broker == betrayed;
        leave(broker);
        return;
    }
    MUST(!is_fenced || broker != betrayed, "it takes a store that forgot for one that was taken");
    MUST(result == 0 || is_fenced || result == -ECANCELED, "it failed with %d: %s", result,
         broker->disk->why != NULL ? broker->disk->why : "");
    MUST(!is_fenced || betrayed != NULL || broker->epoch < newest_epoch ||
             broker->epoch < nodes_epoch(nodes),
         "it was fenced by nobody");
    sums.fenced += is_fenced;
    if (result != 0 || broker->is_killed)
        leave(broker);
}

static void try_to_take(struct broker *broker)
{
    struct disk_owner owner;
    int result = broker->disk->ops->lock(broker->disk, false, &owner);
    if (result == 0 && !broker->is_killed) {
        broker->epoch = owner.lease;
        broker->is_holder = true;
        read_all(broker);
        see_taken(broker);
    } else if (result != -EWOULDBLOCK || broker->is_killed) {
        leave(broker); /* as it could not read all */
    }
}

/* A new file, under its name at once or later; and the oldest one goes. */
static void rotate(struct broker *broker)
{
    char name[FORMAT_NAME_BYTES], oldest[FORMAT_NAME_BYTES];
    if (broker->next == broker->firsts[broker->file_count - 1])
        return; /* it is empty */
    bool is_renamed = dice_hits(&dice, 500);
    segment_name_write(broker->next * FORMAT_ALIGN, name);
    broker->disk->ops->shut(broker->disk, broker->file);
    broker->file = must_open_file(broker, is_renamed ? LAYOUT_NEXT : name, DISK_MAKE);
    if (is_renamed)
        MUST(broker->disk->ops->rename(broker->disk, LAYOUT_NEXT, name) == 0, "no new name");
    broker->firsts[broker->file_count++] = broker->next;
    if (broker->file_count <= FILES_MAX)
        return;
    segment_name_write(broker->firsts[0] * FORMAT_ALIGN, oldest);
    MUST(broker->disk->ops->unlink(broker->disk, oldest) == 0, "%s stays", oldest);
    memmove(broker->firsts, broker->firsts + 1, FILES_MAX * sizeof broker->firsts[0]);
    broker->file_count--;
    if (floor_most < broker->firsts[0] && broker->epoch == newest_epoch)
        floor_most = broker->firsts[0];
}

static void write_some(struct broker *broker)
{
    uint64_t from = broker->next;
    if (dice_hits(&dice, 200))
        rotate(broker);
    for (uint64_t left = 1 + dice_below(&dice, AT_ONCE_MAX); left > 0; left--) {
        uint64_t first = broker->firsts[broker->file_count - 1];
        uint64_t value = ++nonce;
        struct iovec piece = {.iov_base = &value, .iov_len = sizeof value};
        MUST(broker->next < NUMBERS_MAX, "there are too many values");
        MUST(disk_write_all(broker->disk, broker->file, &piece, 1,
                            (broker->next - first) * sizeof value) == 0,
             "a value cannot be written");
        broker->values[broker->next++] = value;
    }
    int result = broker->disk->ops->sync(broker->disk, broker->file);
    if (result == 0 && !broker->is_killed)
        see_confirmed(broker, from);
    see_result(broker, result);
}

static void step(struct broker *broker)
{
    broker->is_busy = true;
    if (broker->disk == NULL)
        open_disk(broker);
    else if (!broker->is_holder)
        try_to_take(broker);
    else if (dice_hits(&dice, 700))
        write_some(broker);
    else if (dice_hits(&dice, 950))
        see_result(broker, broker->disk->ops->keep(broker->disk));
    else if (broker != betrayed)
        leave(broker); /* it is told to end */
    broker->is_busy = false;
    MUST(nodes_wrong(nodes) == NULL, "%s", nodes_wrong(nodes));
}

/* ---- what happens meanwhile ------------------------------------------------------------------ */

static void fail_something(void)
{
    unsigned client = (unsigned)dice_below(&dice, BROKERS);
    switch (dice_below(&dice, 11)) {
    case 0: nodes_cut(nodes, client, NODES_CLOSED); break;
    case 1: nodes_cut(nodes, client, NODES_SILENT); break;
    case 2: nodes_cut_standbys(nodes, true); break;
    case 3:
        nodes_fail_over(nodes, dice_between(&dice, 100, 8000));
        sums.failed_over++;
        break;
    case 4: nodes_cancel(nodes); break;
    case 5: nodes_terminate(nodes, client); break;
    case 6: kill_broker(&brokers[client]); break;
    case 7:
        nodes_set_aside(nodes, true);
        sums.set_aside++;
        break;
    default: nodes_heal(nodes);
    }
}

static void let_another_act(void)
{
    struct broker *broker = &brokers[dice_below(&dice, BROKERS)];
    if (!broker->is_busy)
        step(broker);
}

/* Rarely the client is stopped, for long. */
static void meanwhile(void *arg, unsigned client, int64_t ms)
{
    (void)arg;
    (void)client;
    nodes_pass(nodes, ms);
    if (is_calm)
        return;
    if (dice_hits(&dice, 30))
        fail_something();
    if (dice_hits(&dice, 100))
        let_another_act();
    if (dice_hits(&dice, 10))
        for (int64_t left = dice_between(&dice, 1, 50); left > 0; left--) {
            nodes_pass(nodes, 200);
            let_another_act();
        }
}

/* ---- the test -------------------------------------------------------------------------------- */

static void begin(uint64_t number)
{
    seed = number;
    nonce = told_until = floor_most = newest_epoch = newest_read = 0;
    is_calm = has_noticed = false;
    betrayed = NULL;
    dice_init(&dice, seed);
    nodes = nodes_new(seed + UINT64_C(1000000007), meanwhile, NULL);
    for (unsigned i = 0; i < BROKERS; i++) {
        struct folder cache = brokers[i].cache;
        brokers[i] = (struct broker){.number = i, .cache = cache};
    }
}

static void end(void)
{
    sums.doubts += nodes_doubts(nodes);
    sums.undone += nodes_undone(nodes);
    for (unsigned i = 0; i < BROKERS; i++)
        if (brokers[i].disk != NULL)
            leave(&brokers[i]);
    nodes_free(&nodes);
}

/* Nothing fails any more: somebody has the shard soon, and writes. */
static void must_go_on(void)
{
    uint64_t before = sums.confirmed;
    is_calm = true;
    nodes_heal(nodes);
    for (int i = 0; sums.confirmed == before; i++) {
        MUST(i < HEALED_STEPS_MAX, "nobody takes the shard");
        nodes_pass(nodes, 100);
        step(&brokers[dice_below(&dice, BROKERS)]);
    }
}

/* Behind a moment in which all is well, so that there is a holder that confirmed something. */
static void must_notice(void)
{
    struct broker *holder = NULL;
    for (unsigned i = 0; i < BROKERS; i++)
        if (brokers[i].is_holder && brokers[i].epoch == newest_epoch)
            holder = &brokers[i];
    if (holder == NULL || !nodes_promote_lagging(nodes))
        return;
    betrayed = holder;
    sums.betrayed++;
    bool is_late = dice_hits(&dice, 500); /* another one takes the shard before it looks */
    uint64_t before = sums.taken;
    for (int i = 0; !has_noticed; i++) {
        MUST(i < HEALED_STEPS_MAX, "nobody notices that the store forgot");
        nodes_pass(nodes, 100);
        struct broker *broker = &brokers[dice_below(&dice, BROKERS)];
        if (broker != betrayed || !is_late || sums.taken > before)
            step(broker);
    }
}

static void check_seed(uint64_t number)
{
    begin(number);
    for (int i = 0; i < STEPS; i++) {
        nodes_pass(nodes, dice_between(&dice, 0, 200));
        step(&brokers[dice_below(&dice, BROKERS)]);
    }
    must_go_on();
    if (seed % 4 == 0)
        must_notice();
    end();
}

static void make_caches(void)
{
    for (unsigned i = 0; i < BROKERS; i++)
        cr_assert(folder_make(&brokers[i].cache));
}

static void clear_caches(void)
{
    for (unsigned i = 0; i < BROKERS; i++)
        folder_fini(&brokers[i].cache);
}

/* A file that is opened now: its number grows with each one that was left open. */
static int next_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    close(fd);
    return fd;
}

TestSuite(shard, .init = make_caches, .fini = clear_caches);

Test(shard, keeps_what_was_confirmed_under_every_seed)
{
    uint64_t from = seeds_first();
    uint64_t count = seeds_count(SEEDS_DEFAULT);
    int descriptor = next_descriptor();
    for (uint64_t number = from; number < from + count; number++)
        check_seed(number);
    cr_expect_eq(next_descriptor(), descriptor, "files were left open");
    fprintf(stderr,
            "%" PRIu64 " confirmed, %" PRIu64 " of them by a broker that was replaced; %" PRIu64
            " taken, %" PRIu64 " fenced, %" PRIu64 " killed, %" PRIu64 " nodes lost, %" PRIu64
            " quorums set aside, %" PRIu64 " doubts, %" PRIu64 " commits undone, %" PRIu64
            " lagging nodes promoted\n",
            sums.confirmed, sums.behind, sums.taken, sums.fenced, sums.killed, sums.failed_over,
            sums.set_aside, sums.doubts, sums.undone, sums.betrayed);
    if (count < SEEDS_DEFAULT)
        return;
    cr_expect_gt(sums.confirmed, 10 * count); /* where nothing happens nothing is proved */
    cr_expect_gt(sums.taken, 3 * count);
    cr_expect_gt(sums.fenced, count / 4);
    cr_expect_gt(sums.killed, count);
    cr_expect_gt(sums.failed_over, count);
    cr_expect_gt(sums.set_aside, count);
    cr_expect_gt(sums.doubts, count);
    cr_expect_gt(sums.undone, count);
    cr_expect_gt(sums.betrayed, count / 8);
}
