/* SPDX-License-Identifier: MPL-2.0 */
/* disk_probe.c -- see disk_probe.h. */
#include "bench/disk_probe.h"

#include "bench/harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4096, BLOCKS = 256 };
/* Between two syncs.  Servers sync thousands of times a second meanwhile. */
#define REST_NS INT64_C(5000000)

struct disk_probe {
    char *path;
    int fd;
    int64_t limit_ns;
    int64_t still_ns; /* the thread's, until it has ended */
    atomic_bool is_over;
    pthread_t thread;
};

static void write_block(const struct disk_probe *probe, unsigned number)
{
    static const char block[BLOCK_BYTES];
    if (pwrite(probe->fd, block, sizeof block, (off_t)(number % BLOCKS) * BLOCK_BYTES) !=
            (ssize_t)sizeof block ||
        fdatasync(probe->fd) != 0)
        bench_die("cannot write to %s", probe->path);
}

/* One sync at least, however soon it is over. */
static void *disk_probe_run(void *arg)
{
    struct disk_probe *probe = arg;
    unsigned number = 0;
    do {
        int64_t began_ns = test_now_ns();
        write_block(probe, number++);
        int64_t end_ns = test_now_ns();
        if (end_ns - began_ns > probe->limit_ns)
            probe->still_ns += end_ns - began_ns;
        bench_sleep_until(end_ns + REST_NS);
    } while (!atomic_load(&probe->is_over));
    return NULL;
}

struct disk_probe *disk_probe_start(const char *path, int64_t limit_ns)
{
    struct disk_probe *probe = calloc(1, sizeof *probe);
    if (probe == NULL)
        bench_die("no memory");
    probe->path = strdup(path);
    probe->limit_ns = limit_ns;
    probe->fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (probe->path == NULL || probe->fd < 0)
        bench_die("cannot make %s", path);
    for (unsigned i = 0; i < BLOCKS; i++)
        write_block(probe, i); /* what follows changes no size of the file */
    if (pthread_create(&probe->thread, NULL, disk_probe_run, probe) != 0)
        bench_die("no thread for the probe of the disk");
    return probe;
}

int64_t disk_probe_end(struct disk_probe **probe)
{
    struct disk_probe *old = *probe;
    *probe = NULL;
    atomic_store(&old->is_over, true);
    pthread_join(old->thread, NULL);
    int64_t still_ns = old->still_ns;
    close(old->fd);
    (void)unlink(old->path); /* the folder goes soon */
    free(old->path);
    free(old);
    return still_ns;
}
