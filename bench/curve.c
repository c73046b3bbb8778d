/* SPDX-License-Identifier: MPL-2.0 */
/* curve.c -- see curve.h. */
#include "bench/curve.h"

#include "bench/harness.h"
#include "tests/lib/folder.h"

#include <bus/access.h>
#include <stdio.h>
#include <stdlib.h>

#define PATH_BYTES 192

size_t curve_words(const char *folder, const char **words, size_t count)
{
    static char access[FOLDER_PATH_BYTES_MAX], broker_key[PATH_BYTES];
    char client_key[PATH_BYTES];
    char public_text[BUS_KEY_TEXT_BYTES];
    char text[256];
    struct folder place;
    snprintf(place.path, sizeof place.path, "%s", folder);
    snprintf(client_key, sizeof client_key, "%s/client.key", folder);
    snprintf(broker_key, sizeof broker_key, "%s/broker.key", folder);
    bench_check(bus_key_new(client_key, public_text, NULL), "a key");
    snprintf(text, sizeof text, "key all %s\nallow all party as * in *\nallow all admin\n",
             public_text);
    if (!folder_write(&place, "access", text, access)) {
        bench_die("no access file can be written in %s", folder);
    }
    words[count++] = "--access";
    words[count++] = access;
    words[count++] = "--key";
    words[count++] = broker_key;
    return count;
}

void curve_use(const char *folder)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/client.key", folder);
    if (setenv("ERRBUS_KEY", path, 1) != 0) {
        bench_die("the environment has no room");
    }
}

void curve_forget(void)
{
    unsetenv("ERRBUS_KEY");
}
