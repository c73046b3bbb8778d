/* SPDX-License-Identifier: MPL-2.0 */
/* durable.c -- a reader that continues where it was, whoever was killed in between.
 *
 *   ./durable alice one two three four
 *   ./durable bob 2     the first two values; run it again for the next two */
#include <bus/bus.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int write_all(struct bus *bus, int count, char **values)
{
    for (int i = 0; i < count; i++)
        if (bus_publish(bus, "log", values[i], strlen(values[i])) != BUS_OK)
            return 1;
    return bus_flush(bus, 9000) != BUS_OK; /* now the broker has them all */
}

/* The broker keeps a place for the name "archive" of this party.  Values that were freed do not
 * come again; the others do. */
static int read_some(struct bus *bus, int count)
{
    struct bus_sub *sub = NULL;
    struct bus_sub_options options;
    bus_sub_options_init(&options);
    options.name = "archive";
    if (bus_sub_open(bus, "alice/log", &options, &sub) != BUS_OK)
        return 1;
    while (count > 0) {
        struct bus_msg *msg = NULL;
        size_t bytes = 0;
        enum bus_err err = bus_sub_recv(sub, 9000, &msg, NULL);
        if (err == BUS_OK) {
            const char *value = bus_msg_value(msg, &bytes);
            printf("%d %.*s\n", (int)bus_msg_seq(msg), (int)bytes, value);
            count--;
        } else if (err != BUS_EENDED) { /* that alice ended is no reason to end */
            break;
        }
        bus_msg_free(&msg);
    }
    bus_sub_close(&sub);
    return count > 0;
}

int main(int argc, char **argv)
{
    struct bus *bus = NULL;
    struct bus_options options;
    bus_options_init(&options);
    options.party = argc > 2 ? argv[1] : "nobody";
    if (argc < 3 || bus_open(NULL, &options, 9000, &bus, NULL) != BUS_OK)
        return 1;
    int status = strcmp(argv[1], "alice") == 0 ? write_all(bus, argc - 2, argv + 2)
                                               : read_some(bus, (int)strtol(argv[2], NULL, 10));
    return bus_close(&bus, 5000) != BUS_OK || status != 0;
}
