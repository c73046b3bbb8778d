/* SPDX-License-Identifier: MPL-2.0 */
/* first.c -- a first value and a first failure.  Run both, in any order:
 *
 *   ./first alice &
 *   ./first bob */
#include <bus/bus.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Slot 0 of alice/grads gets a value, slot 1 gets an error. */
static int write_both(struct bus *bus)
{
    struct bus_slot *slot = NULL;
    if (bus_publish(bus, "grads", "0.25", 4) != BUS_OK ||
        bus_slot_reserve(bus, "grads", BUS_FOREVER, &slot) != BUS_OK)
        return 1;
    struct bus_error *error = bus_error_new("app.no_memory", NULL, "64 GiB asked, 24 are there");
    bus_slot_fail(&slot, error);
    bus_error_unref(&error);
    return 0;
}

/* There is no timeout to choose: each slot has its value or its error in the end. */
static int read_both(struct bus *bus)
{
    for (uint64_t seq = 0; seq < 2; seq++) {
        struct bus_msg *msg = NULL;
        struct bus_error *why = NULL;
        size_t bytes = 0;
        enum bus_err err = bus_await(bus, "alice/grads", seq, BUS_FOREVER, &msg, &why);
        if (err == BUS_OK) {
            const char *value = bus_msg_value(msg, &bytes);
            printf("slot %" PRIu64 " has the value %.*s\n", seq, (int)bytes, value);
        } else {
            printf("slot %" PRIu64 " has the error of %s: %s: %s\n", seq, bus_error_party(why),
                   bus_error_type(why), bus_error_message(why));
        }
        bus_msg_free(&msg);
        bus_error_unref(&why);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct bus *bus = NULL;
    struct bus_error *why = NULL;
    struct bus_options options;
    bus_options_init(&options);
    options.party = argc == 2 ? argv[1] : "nobody";
    if (bus_open(NULL, &options, 9000, &bus, &why) != BUS_OK) {
        fprintf(stderr, "first: %s\n", bus_error_message(why));
        return 1;
    }
    int status = strcmp(options.party, "alice") == 0 ? write_both(bus) : read_both(bus);
    return bus_close(&bus, 5000) != BUS_OK || status != 0;
}
