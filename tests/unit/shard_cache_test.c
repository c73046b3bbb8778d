/* SPDX-License-Identifier: MPL-2.0 */
/* shard_cache_test.c -- files of a shard's cache that are used again, on a disk in memory. */
#include "broker/journal/shard_cache.h"

#include "broker/journal/layout.h"
#include "tests/lib/sim_disk.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

enum { BYTES = 4096, MARK_AT = 100 };

static struct sim_disk *sim;
static struct disk *disk;
static struct shard_kept kept;

static void begin(void)
{
    struct disk_owner owner;
    sim = sim_disk_new(1);
    disk = sim_disk_open(sim);
    kept = (struct shard_kept){.count = 0};
    cr_assert_eq(disk->ops->lock(disk, false, &owner), 0);
}

static void end(void)
{
    disk_close(&disk);
    sim_disk_free(&sim);
}

TestSuite(shard_cache, .init = begin, .fini = end);

static void must_make(const char *name, uint64_t bytes)
{
    char mark = 'm';
    struct iovec piece = {.iov_base = &mark, .iov_len = 1};
    int file = disk->ops->open(disk, name, DISK_MAKE);
    cr_assert_geq(file, 0);
    cr_assert_eq(disk->ops->reserve(disk, file, bytes), 0);
    cr_assert_eq(disk_write_all(disk, file, &piece, 1, MARK_AT), 0);
    disk->ops->shut(disk, file);
}

static void give_up_segment(uint64_t number, uint64_t bytes)
{
    char name[FORMAT_NAME_BYTES];
    segment_name_write(number * BYTES, name);
    must_make(name, bytes);
    cr_assert_eq(shard_cache_give_up(disk, &kept, name, bytes), 0);
}

static void count_name(void *arg, const char *name)
{
    *(unsigned *)arg += strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static unsigned count_files(void)
{
    unsigned count = 0;
    cr_assert_eq(disk->ops->list(disk, count_name, &count), 0);
    return count;
}

/* Whether a new file of this name is one that had been given up. */
static bool is_used(const char *name)
{
    char mark = 0;
    int file = shard_cache_make(disk, &kept, name);
    cr_assert_geq(file, 0);
    int64_t got = disk_read_at(disk, file, &mark, 1, MARK_AT);
    disk->ops->shut(disk, file);
    return got == 1 && mark == 'm';
}

Test(shard_cache, uses_a_segments_file_again)
{
    give_up_segment(0, BYTES);
    cr_expect_eq(count_files(), 1);
    cr_expect(is_used(LAYOUT_NEXT));
    cr_expect_eq(count_files(), 1, "it has the new name alone");
    cr_expect_not(is_used(LAYOUT_NEXT), "each is used once");
}

Test(shard_cache, makes_other_files_anew)
{
    give_up_segment(0, BYTES);
    cr_expect_not(is_used(LAYOUT_SPARE));
    cr_expect(is_used(LAYOUT_NEXT), "it is kept still");
}

Test(shard_cache, keeps_so_many_files)
{
    for (unsigned i = 1; i <= LAYOUT_KEPT_MAX + 1; i++) {
        give_up_segment(i, BYTES);
        cr_expect_eq(count_files(), i < LAYOUT_KEPT_MAX ? i : LAYOUT_KEPT_MAX, "of %u", i);
    }
    for (unsigned i = 0; i < LAYOUT_KEPT_MAX; i++)
        cr_expect(is_used(LAYOUT_NEXT));
    cr_expect_not(is_used(LAYOUT_NEXT));
}

Test(shard_cache, keeps_segments_of_one_size_alone)
{
    give_up_segment(0, BYTES);
    give_up_segment(1, BYTES + 1);
    cr_expect_eq(count_files(), 1, "another size is removed");
    must_make(LAYOUT_SPARE, BYTES);
    cr_assert_eq(shard_cache_give_up(disk, &kept, LAYOUT_SPARE, BYTES), 0);
    cr_expect_eq(count_files(), 1, "so is what is no segment");
    cr_expect(is_used(LAYOUT_NEXT));
    give_up_segment(2, BYTES + 1);
    cr_expect(is_used(LAYOUT_NEXT), "the size is that of the first one that is kept");
}

Test(shard_cache, removes_what_cannot_be_renamed)
{
    sim_disk_fault(sim, SIM_RENAME, 0, 1, EIO);
    give_up_segment(0, BYTES);
    cr_expect_eq(count_files(), 0);
    cr_expect_eq(kept.count, 0);
    give_up_segment(1, BYTES);
    sim_disk_fault(sim, SIM_RENAME, 0, 1, EIO);
    cr_expect_not(is_used(LAYOUT_NEXT), "a new one does as well");
}

Test(shard_cache, makes_room_on_a_full_disk)
{
    give_up_segment(0, BYTES);
    give_up_segment(1, BYTES);
    int file = disk->ops->open(disk, LAYOUT_SPARE, DISK_MAKE);
    sim_disk_limit(sim, UINT64_C(3) * BYTES);
    cr_expect_eq(shard_cache_reserve(disk, &kept, file, BYTES), 0);
    cr_expect_eq(count_files(), 3, "there is room without that");
    cr_expect_eq(shard_cache_reserve(disk, &kept, file, UINT64_C(3) * BYTES), 0);
    cr_expect_eq(count_files(), 1);
    cr_expect_eq(shard_cache_reserve(disk, &kept, file, UINT64_C(3) * BYTES + 1), -ENOSPC);
    disk->ops->shut(disk, file);
}
