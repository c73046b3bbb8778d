/* SPDX-License-Identifier: MPL-2.0 */
/* disk_probe_test.c -- that a probe of the disk tells how long syncs took, and leaves nothing. */
#include "bench/disk_probe.h"

#include "tests/lib/folder.h"
#include "tests/lib/process.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

static struct folder folder;
static char path[FOLDER_PATH_BYTES_MAX + 8];

static void open_folder(void)
{
    cr_assert(folder_make(&folder));
    snprintf(path, sizeof path, "%s/probe", folder.path);
}

static void close_folder(void)
{
    folder_fini(&folder);
}

TestSuite(disk_probe, .init = open_folder, .fini = close_folder, .timeout = 60);

static int64_t probe_for(int64_t limit_ns, int64_t *out_took_ns)
{
    int64_t began_ns = test_now_ns();
    struct disk_probe *probe = disk_probe_start(path, limit_ns);
    cr_expect_eq(access(path, F_OK), 0);
    int64_t still_ns = disk_probe_end(&probe);
    *out_took_ns = test_now_ns() - began_ns;
    cr_expect_null(probe);
    cr_expect_eq(access(path, F_OK), -1, "nothing is left behind");
    return still_ns;
}

Test(disk_probe, takes_all_syncs_above_the_limit_for_a_disk_that_is_still)
{
    int64_t took_ns;
    int64_t still_ns = probe_for(0, &took_ns);
    cr_expect_gt(still_ns, 0, "each sync takes longer than nothing");
    cr_expect_lt(still_ns, took_ns, "and is counted once");
}

Test(disk_probe, takes_no_sync_below_the_limit_for_that)
{
    int64_t took_ns;
    cr_expect_eq(probe_for(3600 * NS_PER_S, &took_ns), 0);
}
