/* SPDX-License-Identifier: MPL-2.0 */
/* state_folder.c -- where the journal is kept when nobody says where; see state_folder.h. */
#include "broker/io/state_folder.h"

#include <stdio.h>
#include <string.h>

/* what: for people, "the journal"; name: of it in the service's own directory. */
static bool choose(const struct state_places *places, const char *what, const char *name,
                   char *out_path, size_t bytes, char complaint[STATE_FOLDER_COMPLAINT_BYTES])
{
    const struct {
        const char *variable, *value, *below;
    } rows[] = {{"STATE_DIRECTORY", places->service, ""},
                {"XDG_STATE_HOME", places->state, "errbus/"},
                {"HOME", places->home, ".local/state/errbus/"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *value = rows[i].value;
        if (value == NULL || value[0] != '/')
            continue;
        size_t length = strcspn(value, value == places->service ? ":" : "");
        int needed = snprintf(out_path, bytes, "%.*s/%s%s", (int)(length < bytes ? length : bytes),
                              value, rows[i].below, name);
        if (needed > 0 && (size_t)needed < bytes)
            return true;
        snprintf(complaint, STATE_FOLDER_COMPLAINT_BYTES,
                 "the directory in $%s is too long for the path of %s", rows[i].variable, what);
        return false;
    }
    snprintf(
        complaint, STATE_FOLDER_COMPLAINT_BYTES,
        "no directory for %s: set $STATE_DIRECTORY, $XDG_STATE_HOME or $HOME to an absolute path",
        what);
    return false;
}

bool state_folder_journal(const struct state_places *places, char *out_path, size_t bytes,
                          char complaint[STATE_FOLDER_COMPLAINT_BYTES])
{
    return choose(places, "the journal", "journal", out_path, bytes, complaint);
}

bool state_folder_cache(const struct state_places *places, unsigned shard, char *out_path,
                        size_t bytes, char complaint[STATE_FOLDER_COMPLAINT_BYTES])
{
    char name[32];
    snprintf(name, sizeof name, "cache-%u", shard);
    return choose(places, "the journal's cache", name, out_path, bytes, complaint);
}

bool state_folder_key(const struct state_places *places, char *out_path, size_t bytes,
                      char complaint[STATE_FOLDER_COMPLAINT_BYTES])
{
    return choose(places, "the broker's key", "broker.key", out_path, bytes, complaint);
}
