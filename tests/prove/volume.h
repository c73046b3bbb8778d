/* SPDX-License-Identifier: MPL-2.0 */
/* volume.h -- a file system of one's own that can be made full: in memory, seen by this process and
 * those it starts alone, and gone with them. */
#ifndef TESTS_PROVE_VOLUME_H
#define TESTS_PROVE_VOLUME_H

#include <stdbool.h>
#include <stddef.h>

enum { VOLUME_PATH_BYTES = 144, VOLUME_PROBLEM_BYTES = 256 };

struct volume {
    char path[VOLUME_PATH_BYTES]; /* "": none */
};

/* At a path that is not there yet.  False: problem is a sentence why not. */
bool volume_open(struct volume *volume, const char *path, char problem[VOLUME_PROBLEM_BYTES]);

/* There is room for what is there now, and for nothing more.  To be called again when something may
 * have been let go.  False: the system refused. */
bool volume_fill(const struct volume *volume);
/* There is as much room as in the beginning. */
bool volume_clear(const struct volume *volume);

/* Takes a zeroed struct too. */
void volume_close(struct volume *volume);

#endif
