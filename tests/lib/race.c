/* SPDX-License-Identifier: MPL-2.0 */
/* race.c -- see race.h. */
#include "tests/lib/race.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void race_fail(const char *claim, const char *file, int line)
{
    fprintf(stderr, "%s:%d: false: %s\n", file, line, claim);
    exit(1);
}

void race_check_code(enum bus_err err, enum bus_err expected, struct bus_error **error,
                     const char *file, int line)
{
    char text[1024] = "";
    if (err != expected) {
        if (error != NULL && *error != NULL)
            (void)bus_error_describe(*error, text, sizeof text); /* cut is fine */
        fprintf(stderr, "%s:%d: %s instead of %s\n%s\n", file, line, bus_strerror(err),
                bus_strerror(expected), text);
        exit(1);
    }
    bus_error_unref(error);
}

void race_options(struct bus_options *options, const char *party)
{
    bus_options_init(options);
    options->party = party;
    options->heartbeat_ms = 100;
    options->lost_after_ms = SOON_MS; /* slow machines are no failures here */
    options->broker_lost_ms = SOON_MS;
}

struct bus *race_open_with(const struct race_broker *broker, const struct bus_options *options)
{
    struct bus *bus = NULL;
    struct bus_error *error = NULL;
    enum bus_err err = bus_open(race_broker_endpoint(broker), options, SOON_MS, &bus, &error);
    check_code_of(err, BUS_OK, &error);
    return bus;
}

struct bus *race_open(const struct race_broker *broker, const char *party)
{
    struct bus_options options;
    race_options(&options, party);
    return race_open_with(broker, &options);
}

int race_rounds(int argc, char **argv, int otherwise)
{
    if (argc > 1)
        return (int)strtol(argv[1], NULL, 10);
    return race_is_live ? (otherwise + 19) / 20 : otherwise;
}
