/* SPDX-License-Identifier: MPL-2.0 */
/* state_folder.c -- where the journal is kept when nobody says where; see state_folder.h. */
#include "broker/io/state_folder.h"

#include <stdio.h>
#include <string.h>

bool state_folder_journal(const struct state_places *places, char *out_path, size_t bytes,
                          char complaint[STATE_FOLDER_COMPLAINT_BYTES])
{
    const struct {
        const char *variable, *value, *below;
    } rows[] = {{"STATE_DIRECTORY", places->service, "journal"},
                {"XDG_STATE_HOME", places->state, "errbus/journal"},
                {"HOME", places->home, ".local/state/errbus/journal"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *value = rows[i].value;
        if (value == NULL || value[0] != '/')
            continue;
        size_t length = strcspn(value, value == places->service ? ":" : "");
        int needed = snprintf(out_path, bytes, "%.*s/%s", (int)(length < bytes ? length : bytes),
                              value, rows[i].below);
        if (needed > 0 && (size_t)needed < bytes)
            return true;
        snprintf(complaint, STATE_FOLDER_COMPLAINT_BYTES,
                 "the directory in $%s is too long for a journal's path", rows[i].variable);
        return false;
    }
    snprintf(complaint, STATE_FOLDER_COMPLAINT_BYTES,
             "no directory for the journal: set $STATE_DIRECTORY, $XDG_STATE_HOME or $HOME to an "
             "absolute path");
    return false;
}
