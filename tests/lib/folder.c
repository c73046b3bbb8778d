/* SPDX-License-Identifier: MPL-2.0 */
/* folder.c -- a folder of one's own that goes with everything in it. */
#include "tests/lib/folder.h"

#include "tests/lib/process.h"

#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define WALK_FDS 16
enum { PATH_BYTES = 1024, COPY_BYTES = 65536 };

bool folder_make(struct folder *folder)
{
    const char *parent = getenv("TMPDIR");
    snprintf(folder->path, sizeof folder->path, "%s/errbus-XXXXXX",
             parent != NULL && strlen(parent) < 80 ? parent : "/tmp");
    if (mkdtemp(folder->path) != NULL) {
        return true;
    }
    folder->path[0] = '\0';
    return false;
}

bool folder_write(const struct folder *folder, const char *name, const char *text, char *path)
{
    int length = snprintf(path, FOLDER_PATH_BYTES_MAX, "%s/%s", folder->path, name);
    FILE *file = length < FOLDER_PATH_BYTES_MAX ? fopen(path, "we") : NULL;
    if (file == NULL) {
        return false;
    }
    bool is_written = fputs(text, file) >= 0;
    return fclose(file) == 0 && is_written;
}

static FILE *open_in(const char *folder, const char *name, const char *mode)
{
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length < PATH_BYTES ? fopen(path, mode) : NULL;
}

bool folder_copy(const char *from, const char *to, const char *name)
{
    char bytes[COPY_BYTES];
    size_t count = 0;
    FILE *source = open_in(from, name, "re");
    FILE *copy = source != NULL ? open_in(to, name, "we") : NULL;
    bool is_copied = copy != NULL;
    while (is_copied && (count = fread(bytes, 1, sizeof bytes, source)) > 0)
        is_copied = fwrite(bytes, 1, count, copy) == count;
    if (source != NULL)
        is_copied = !ferror(source) && is_copied;
    if (source != NULL)
        fclose(source);
    return copy != NULL && fclose(copy) == 0 && is_copied;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status;
    (void)kind;
    (void)at;
    return remove(path);
}

void folder_fini(struct folder *folder)
{
    if (folder->path[0] != '\0') {
        nftw(folder->path, remove_one, WALK_FDS, FTW_DEPTH | FTW_PHYS);
    }
    folder->path[0] = '\0';
}

bool folder_await(const char *path, bool (*is_so)(void *arg), void *arg, int64_t timeout_ms)
{
    char news[4096];
    int64_t until_ms = test_now_ms() + timeout_ms;
    struct pollfd item = {.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), .events = POLLIN};
    bool is_watched =
        item.fd >= 0 && inotify_add_watch(item.fd, path, IN_CREATE | IN_DELETE | IN_MOVE) >= 0;
    bool is_done = is_so(arg);
    while (is_watched && !is_done && test_now_ms() < until_ms &&
           poll(&item, 1, (int)(until_ms - test_now_ms())) > 0) {
        (void)!read(item.fd, news, sizeof news); /* what it is does not matter */
        is_done = is_so(arg);
    }
    if (item.fd >= 0) {
        close(item.fd);
    }
    return is_done;
}
