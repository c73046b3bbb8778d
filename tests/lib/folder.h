/* SPDX-License-Identifier: MPL-2.0 */
/* folder.h -- a folder of one's own that goes with everything in it. */
#ifndef TESTS_LIB_FOLDER_H
#define TESTS_LIB_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FOLDER_PATH_BYTES_MAX 128

struct folder {
    char path[FOLDER_PATH_BYTES_MAX]; /* "": none */
};

bool folder_make(struct folder *folder);
/* Writes a file in it; path has room for FOLDER_PATH_BYTES_MAX. */
bool folder_write(const struct folder *folder, const char *name, const char *text, char *path);
/* Copies a file from the folder at one path to that at another, under the same name. */
bool folder_copy(const char *from, const char *to, const char *name);
void folder_fini(struct folder *folder);
/* Waits until is_so(arg), which is asked at first and whenever a name in the folder at path came
 * or went; false: not within timeout_ms. */
bool folder_await(const char *path, bool (*is_so)(void *arg), void *arg, int64_t timeout_ms);

#endif
