/* SPDX-License-Identifier: MPL-2.0 */
/* newcomer.c -- what a newcomer's own program does wrong in the first hour.
 *
 * newcomer exit: owes a value, fails, and ends by exit() without bus_close().
 * newcomer handler: the same, from within the failure handler.
 * newcomer null: NULL in the places where a check is forgotten. */
#include <bus/bus.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void leave(const struct bus_error *verdict, void *arg)
{
    (void)arg;
    fprintf(stderr, "handler: %s\n", bus_error_type(verdict));
    exit(4);
}

static int fail_and_exit(struct bus *bus, int is_handler_last)
{
    struct bus_slot *slot = NULL;
    if (bus_slot_reserve(bus, "grads", BUS_FOREVER, &slot) != BUS_OK)
        return 1;
    struct bus_error *error = bus_error_new("app.disk_full", NULL, "no space left");
    bus_fail(bus, error);
    while (is_handler_last)
        (void)pause();
    exit(3);
}

static int expect(const char *what, int got, int wanted)
{
    if (got != wanted)
        printf("%s: %s\n", what, bus_strerror((enum bus_err)got));
    return got != wanted;
}

static int forget_checks(struct bus *bus)
{
    struct bus_slot *slot = NULL;
    int wrong = expect("commit(NULL)", (int)bus_slot_commit(&slot, "x", 1), BUS_EINVAL);
    wrong += strcmp(bus_error_message(NULL), "") != 0;
    wrong += bus_error_describe(NULL, NULL, 0) != 0;
    wrong += strcmp(bus_party(NULL), "") != 0;
    struct bus_error *error = bus_error_new("errbus.mine", NULL, "x");
    wrong += strcmp(bus_error_type(error), "errbus.reserved_type") != 0;
    bus_error_unref(&error);
    wrong += expect("complete", (int)bus_complete(bus, 10000), BUS_OK);
    wrong += expect("publish behind it", (int)bus_publish(bus, "w", "x", 1), BUS_EENDED);
    wrong += expect("close", (int)bus_close(&bus, 10000), BUS_OK);
    printf(wrong == 0 ? "all is refused\n" : "%d wrong\n", wrong);
    return wrong != 0;
}

int main(int argc, char **argv)
{
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    struct bus_options options;
    const char *verb = argc > 1 ? argv[1] : "";
    bus_options_init(&options);
    options.on_failure = strcmp(verb, "handler") == 0 ? leave : NULL;
    if (bus_open(NULL, &options, 10000, &bus, &error) != BUS_OK) {
        fprintf(stderr, "newcomer: %s\n", bus_error_message(error));
        return 1;
    }
    if (strcmp(verb, "null") == 0)
        return forget_checks(bus);
    return fail_and_exit(bus, options.on_failure != NULL);
}
