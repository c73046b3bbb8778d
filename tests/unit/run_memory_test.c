/* SPDX-License-Identifier: MPL-2.0 */
/* run_memory_test.c -- kills for want of memory are read from where the kernel counts them. */
#include "clients/run_memory.h"
#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FIRST "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"
#define SECOND "low 0\nhigh 0\nmax 12\noom 5\noom_kill 3\noom_group_kill 9\n"

/* A file below the folder of the test, with the folders that lead to it. */
static void put(const struct folder *root, const char *name, const char *text)
{
    char path[2 * FOLDER_PATH_BYTES_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", root->path, name); /* it fits */
    for (char *at = strchr(path + strlen(root->path) + 1, '/'); at != NULL;
         at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(path, 0700); /* or it is there */
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s", path);
    cr_assert_geq(fputs(text, file), 0);
    cr_assert_eq(fclose(file), 0);
}

Test(run_memory, counts_where_our_group_is)
{
    static const struct {
        const char *groups;
        const char *file; /* or NULL */
        const char *text;
        uint64_t kills;
    } rows[] = {
        {"0::/user/a\n", "sys/fs/cgroup/user/a/memory.events", SECOND, 3},
        {"0::/\n", "sys/fs/cgroup/memory.events", SECOND, 3},
        {"0::/a\n", "sys/fs/cgroup/memory.events", SECOND, 3}, /* in a container */
        {"0::/a\n", "sys/fs/cgroup/b/memory.events", SECOND, 0},
        {"4:memory:/x\n0::/\n", "sys/fs/cgroup/memory/x/memory.oom_control", FIRST, 7},
        {"0::/\n4:cpu,memory:/x\n", "sys/fs/cgroup/memory/x/memory.oom_control", FIRST, 7},
        {"9:cpu:/\n4:memory:/host\n", "sys/fs/cgroup/memory/memory.oom_control", FIRST, 7},
        {"4:memory:/x\n0::/x\n", "sys/fs/cgroup/x/memory.events", SECOND, 0},
        {"4:memoryx:/x\n0::/y\n", "sys/fs/cgroup/y/memory.events", SECOND, 3},
        {"4:name=memory:/x\n", "sys/fs/cgroup/memory/x/memory.oom_control", FIRST, 0},
        {"0::/a\n", "sys/fs/cgroup/a/memory.events", "low 0\nmax 1\noom_killer 8", 0},
        {"0::/a\n", "sys/fs/cgroup/a/memory.events", "", 0},
        {"0::/a\n", NULL, NULL, 0},
        {"nonsense\n\n::\n", NULL, NULL, 0},
        {"", NULL, NULL, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct folder root;
        cr_assert(folder_make(&root));
        put(&root, "proc/self/cgroup", rows[i].groups);
        if (rows[i].file != NULL)
            put(&root, rows[i].file, rows[i].text);
        cr_expect_eq(run_memory_kills(root.path), rows[i].kills, "row %zu", i);
        folder_fini(&root);
    }
}

Test(run_memory, counts_nothing_where_nothing_is_told)
{
    struct folder root;
    cr_assert(folder_make(&root));
    cr_expect_eq(run_memory_kills(root.path), 0);
    folder_fini(&root);
}
