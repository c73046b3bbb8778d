/* SPDX-License-Identifier: MPL-2.0 */
/* volume.c -- a tmpfs, whose size is what it is told last; see volume.h. */
#include "tests/prove/volume.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ROOM "size=4g" /* takes no memory before it is written to */

bool volume_open(struct volume *volume, const char *path, char problem[VOLUME_PROBLEM_BYTES])
{
    bool is_there = mkdir(path, 0700) == 0 && unshare(CLONE_NEWNS) == 0 &&
                    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                    mount("errbus-prove", path, "tmpfs", 0, ROOM) == 0;
    volume->path[0] = '\0';
    if (is_there) {
        snprintf(volume->path, sizeof volume->path, "%s", path);
    } else {
        snprintf(problem, VOLUME_PROBLEM_BYTES, "no file system may be mounted here: %s",
                 strerror(errno));
    }
    return is_there;
}

/* Who writes may be quicker than we: then it is told anew how much there is. */
bool volume_fill(const struct volume *volume)
{
    enum { TRIES = 100 };
    bool is_full = false;
    for (int i = 0; !is_full && i < TRIES; i++) {
        struct statvfs now;
        char size[64] = "";
        if (statvfs(volume->path, &now) == 0) {
            uint64_t used = (uint64_t)(now.f_blocks - now.f_bfree) * now.f_frsize;
            snprintf(size, sizeof size, "size=%llu", (unsigned long long)used);
        }
        is_full = size[0] != '\0' && mount("none", volume->path, "tmpfs", MS_REMOUNT, size) == 0;
    }
    return is_full;
}

bool volume_clear(const struct volume *volume)
{
    return mount("none", volume->path, "tmpfs", MS_REMOUNT, ROOM) == 0;
}

void volume_close(struct volume *volume)
{
    if (volume->path[0] != '\0') {
        (void)umount2(volume->path, MNT_DETACH); /* it goes with us in any case */
    }
    volume->path[0] = '\0';
}
