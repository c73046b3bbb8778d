/* SPDX-License-Identifier: MPL-2.0 */
/* alone.c -- whether a process has threads of its application that are not blocked in this bus.
 *
 * Any other thread may settle what the others wait for, whatever it does at the moment.  So all
 * threads of the process are counted.  Those of the library count themselves.  Those of ZeroMQ are
 * known by their names.  A name alone would not do for ours: a thread that a failure handler starts
 * inherits it.
 *
 * A thread that begins or ends just now makes the answer false, and so does a timer of the process
 * that will send a signal. */
#include "libbus/api/alone.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define TASKS "/proc/self/task"
#define TRANSPORT_NAME "ZMQbg"

enum {
    TASKS_MAX = 256, /* with more threads nobody is alone; it bounds what this costs */
    PATH_BYTES = 64,
};

static atomic_uint own_threads;
static atomic_uint own_changes;

void alone_thread_begins(void)
{
    atomic_fetch_add(&own_changes, 1);
    atomic_fetch_add(&own_threads, 1);
}

void alone_thread_ends(void)
{
    atomic_fetch_add(&own_changes, 1);
    atomic_fetch_sub(&own_threads, 1);
}

void alone_forked(void)
{
    atomic_store(&own_threads, 0);
}

static bool is_of_transport(const char *task)
{
    char path[PATH_BYTES];
    char name[sizeof TRANSPORT_NAME] = "";
    int length = snprintf(path, sizeof path, TASKS "/%s/comm", task);
    int fd = length < (int)sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return false;
    ssize_t bytes = read(fd, name, sizeof name - 1);
    (void)close(fd); /* it was only read */
    return bytes == (ssize_t)sizeof name - 1 && strcmp(name, TRANSPORT_NAME) == 0;
}

/* A signal that comes by itself may do anything: end the process, or leave a call. */
static bool has_alarm(void)
{
    struct itimerval alarm;
    return getitimer(ITIMER_REAL, &alarm) != 0 || alarm.it_value.tv_sec != 0 ||
           alarm.it_value.tv_usec != 0;
}

/* A folder of processes or threads has a link for each, and two more. */
static bool has_few_tasks(void)
{
    struct stat folder;
    return stat(TASKS, &folder) == 0 && folder.st_nlink < TASKS_MAX + 2;
}

bool alone_is(unsigned blocked)
{
    if (has_alarm() || !has_few_tasks())
        return false;
    unsigned threads = 0; /* without those of the transport */
    unsigned tasks = 0;
    unsigned changes = atomic_load(&own_changes);
    unsigned known = atomic_load(&own_threads) + blocked;
    DIR *directory = opendir(TASKS);
    const struct dirent *entry;
    if (directory == NULL)
        return false;
    while (tasks < TASKS_MAX && threads <= known && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        tasks += 1;
        threads += !is_of_transport(entry->d_name);
    }
    (void)closedir(directory); /* it was only read */
    bool is_steady = atomic_load(&own_changes) == changes;
    return is_steady && tasks < TASKS_MAX && threads <= known;
}
