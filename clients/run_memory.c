/* SPDX-License-Identifier: MPL-2.0 */
/* run_memory.c -- finds our control group and reads its count of kills. */
#include "clients/run_memory.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    GROUPS_BYTES = 8192, /* of /proc/self/cgroup: a line for each of some ten hierarchies */
    EVENTS_BYTES = 1024, /* of memory.events, or memory.oom_control */
    PATH_BYTES = GROUPS_BYTES + 256,
};

/* Reads a small file of the kernel, and appends a NUL.  False: it cannot be read. */
static bool read_small(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = fd >= 0 ? read(fd, text, room - 1) : -1;
    text[count > 0 ? count : 0] = '\0';
    if (fd >= 0) {
        (void)close(fd);
    }
    return count >= 0;
}

/* Whether a list such as "cpu,memory" names memory. */
static bool has_memory(const char *list, size_t bytes)
{
    static const char name[] = "memory";
    while (bytes > 0) {
        const char *comma = memchr(list, ',', bytes);
        size_t length = comma != NULL ? (size_t)(comma - list) : bytes;
        if (length == sizeof name - 1 && memcmp(list, name, length) == 0) {
            return true;
        }
        size_t step = comma != NULL ? length + 1 : length;
        list += step;
        bytes -= step;
    }
    return false;
}

/* Finds our control group that accounts for memory.  Its line is "4:memory:/path" in version 1 and
 * "0::/path" in version 2.  A line of version 1 counts first: version 2 then does not account for
 * memory. NULL: there is none. */
static const char *find_group(char *groups, bool *out_is_first_version)
{
    const char *found = NULL;
    char *rest = NULL;
    *out_is_first_version = false;
    for (char *line = strtok_r(groups, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        const char *list = strchr(line, ':');
        const char *path = list != NULL ? strchr(list + 1, ':') : NULL;
        if (path == NULL) {
            continue;
        }
        *out_is_first_version = has_memory(list + 1, (size_t)(path - list) - 1);
        if (*out_is_first_version) {
            return path + 1;
        }
        if (path == list + 1) {
            found = path + 1;
        }
    }
    return found;
}

/* Reads the number behind "oom_kill" at the beginning of a line. */
static uint64_t count_of(const char *text)
{
    static const char name[] = "oom_kill ";
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, sizeof name - 1) == 0) {
            return strtoull(line + sizeof name - 1, NULL, 10);
        }
    }
    return 0;
}

uint64_t run_memory_kills(const char *root)
{
    char groups[GROUPS_BYTES];
    char text[EVENTS_BYTES];
    char path[PATH_BYTES];
    bool is_first_version;
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!read_small(path, groups, sizeof groups)) {
        return 0;
    }
    const char *group = find_group(groups, &is_first_version);
    if (group == NULL) {
        return 0;
    }
    const char *mount = is_first_version ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    const char *file = is_first_version ? "memory.oom_control" : "memory.events";
    (void)snprintf(path, sizeof path, "%s%s%s/%s", root, mount, group, file);
    if (!read_small(path, text, sizeof text)) {
        /* In a container the path may be the host's, while what is mounted is our group itself. */
        (void)snprintf(path, sizeof path, "%s%s/%s", root, mount, file);
        (void)read_small(path, text, sizeof text); /* on failure text is "", which counts as 0 */
    }
    return count_of(text);
}
