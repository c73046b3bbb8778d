/* SPDX-License-Identifier: MPL-2.0 */
/* key.c -- files with a key, as the public calls have them. */
#include "libbus/api/error.h"
#include "libbus/api/model.h"
#include "libbus/io/key_file.h"

#include <bus/access.h>

#include <stdio.h>
#include <stdlib.h>

_Static_assert(BUS_KEY_TEXT_BYTES == KEY_TEXT_BYTES + 1, "a key as text");

/* The public half goes to the caller, the secret one nowhere. */
static enum bus_err give(enum key_file_err done, struct key_pair *pair, const char *complaint,
                         char *public_text, struct bus_error **reterr)
{
    if (done == KEY_FILE_OK)
        key_text_write(pair->public_key, KEY_PUBLIC, public_text);
    key_pair_forget(pair);
    switch (done) {
    case KEY_FILE_OK: return BUS_OK;
    case KEY_FILE_DENIED:
        return error_say(reterr, BUS_EDENIED, ERROR_TYPE_NOT_AUTHORISED, "%s", complaint);
    case KEY_FILE_WRONG: break;
    }
    return error_say(reterr, BUS_EPROTO, ERROR_TYPE_ARGUMENT, "%s", complaint);
}

static enum bus_err say_null(struct bus_error **reterr, const char *call)
{
    return error_say(reterr, BUS_EINVAL, ERROR_TYPE_ARGUMENT, "%s needs all of its arguments",
                     call);
}

enum bus_err bus_key_new(const char *path, char *public_text, struct bus_error **reterr)
{
    char complaint[KEY_FILE_COMPLAINT_BYTES] = "";
    struct key_pair pair;
    if (path == NULL || public_text == NULL)
        return say_null(reterr, "bus_key_new()");
    return give(key_file_make(path, &pair, complaint), &pair, complaint, public_text, reterr);
}

enum bus_err bus_key_show(const char *path, char *public_text, struct bus_error **reterr)
{
    char complaint[KEY_FILE_COMPLAINT_BYTES] = "";
    struct key_pair pair;
    if (path == NULL || public_text == NULL)
        return say_null(reterr, "bus_key_show()");
    return give(key_file_read(path, &pair, complaint), &pair, complaint, public_text, reterr);
}

enum bus_err bus_key_import(const char *path, const char *source, char *public_text,
                            struct bus_error **reterr)
{
    char complaint[KEY_FILE_COMPLAINT_BYTES] = "";
    struct key_pair pair;
    if (path == NULL || source == NULL || public_text == NULL)
        return say_null(reterr, "bus_key_import()");
    return give(key_file_import(path, source, &pair, complaint), &pair, complaint, public_text,
                reterr);
}

static const char *value_of(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && *value != '\0' ? value : NULL;
}

enum bus_err bus_key_path(char *place, size_t place_bytes, struct bus_error **reterr)
{
    int length;
    if (place == NULL)
        return say_null(reterr, "bus_key_path()");
    if (value_of("ERRBUS_KEY") != NULL)
        length = snprintf(place, place_bytes, "%s", value_of("ERRBUS_KEY"));
    else if (value_of("XDG_CONFIG_HOME") != NULL)
        length = snprintf(place, place_bytes, "%s/errbus/key", value_of("XDG_CONFIG_HOME"));
    else if (value_of("HOME") != NULL)
        length = snprintf(place, place_bytes, "%s/.config/errbus/key", value_of("HOME"));
    else
        return error_say(reterr, BUS_EDENIED, ERROR_TYPE_ARGUMENT,
                         "there is no place for a key: none of ERRBUS_KEY, XDG_CONFIG_HOME and "
                         "HOME is set");
    if (length < 0 || (size_t)length >= place_bytes)
        return error_say(reterr, BUS_ETOOBIG, ERROR_TYPE_ARGUMENT,
                         "the path of the key is longer than %zu bytes", place_bytes);
    return BUS_OK;
}
