/* SPDX-License-Identifier: MPL-2.0 */
/* unloader.c -- a party that loads the library itself, and unloads it while its bus is open.
 *
 *   test_unloader ENDPOINT
 *
 * It joins as alice, publishes "before" in "w", calls dlclose(), publishes "after", and ends by
 * exit(3), without bus_close(). */
#include <bus/bus.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { SOON_MS = 20000, STATUS = 3 };

static void *library;

/* A pointer to this function of the library. */
#define FIND(name, out)                                                                            \
    do {                                                                                           \
        *(void **)(out) = dlsym(library, #name);                                                   \
        if (*(void **)(out) == NULL) {                                                             \
            fprintf(stderr, "%s\n", dlerror());                                                    \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

int main(int argc, char **argv)
{
    __typeof__(bus_options_init_sized) *options_init = NULL;
    __typeof__(bus_open) *open = NULL;
    __typeof__(bus_publish) *publish = NULL;
    struct bus_options options;
    struct bus *bus = NULL;
    if (argc != 2)
        return 2;
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    FIND(bus_options_init_sized, &options_init);
    FIND(bus_open, &open);
    FIND(bus_publish, &publish);
    options_init(&options, sizeof options);
    options.party = "alice";
    enum bus_err err = open(argv[1], &options, SOON_MS, &bus, NULL);
    if (err == BUS_OK)
        err = publish(bus, "w", "before", 6);
    if (err == BUS_OK && dlclose(library) != 0)
        return 1;
    if (err == BUS_OK)
        err = publish(bus, "w", "after", 5);
    if (err != BUS_OK) {
        fprintf(stderr, "test_unloader: code %d\n", (int)err);
        return 1;
    }
    exit(STATUS);
}
