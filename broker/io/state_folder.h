/* SPDX-License-Identifier: MPL-2.0 */
/* state_folder.h -- where the journal is kept when nobody says where: below the place that systemd,
 * or the XDG Base Directory Specification, names for what a program keeps between runs. */
#ifndef IO_STATE_FOLDER_H
#define IO_STATE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

enum { STATE_FOLDER_COMPLAINT_BYTES = 256 };

/* What the environment says; NULL: nothing. */
struct state_places {
    const char
        *service; /* $STATE_DIRECTORY: the service's own; several by colons, the first counts */
    const char *state; /* $XDG_STATE_HOME: of all programs of a user */
    const char *home;  /* $HOME */
};

/* The first of them that is an absolute path; others do not count, as that specification has it.
 * false: there is none, or out_path, of so many bytes, is too short; the complaint says what to do.
 */
bool state_folder_key(const struct state_places *places, char *out_path, size_t bytes,
                      char complaint[STATE_FOLDER_COMPLAINT_BYTES]);
/* The same for the copy of a shard of a journal in a database. */
bool state_folder_cache(const struct state_places *places, unsigned shard, char *out_path,
                        size_t bytes, char complaint[STATE_FOLDER_COMPLAINT_BYTES]);
/* The same for the journal. */
bool state_folder_journal(const struct state_places *places, char *out_path, size_t bytes,
                          char complaint[STATE_FOLDER_COMPLAINT_BYTES]);

#endif
