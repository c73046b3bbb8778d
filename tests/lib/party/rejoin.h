/* SPDX-License-Identifier: MPL-2.0 */
/* rejoin.h -- how a party that is killed and started again opens its bus. */
#ifndef TESTS_LIB_PARTY_REJOIN_H
#define TESTS_LIB_PARTY_REJOIN_H

#include <bus/bus.h>
#include <poll.h>
#include <string.h>

/* As bus_open(), but waits while the incarnation before has the name.  patience_ms bounds each
 * attempt, the loss of the broker, and each send. */
static inline enum bus_err rejoin(const char *endpoint, const char *party, int64_t patience_ms,
                                  struct bus **out_bus, struct bus_error **reterr)
{
    struct bus_options options;
    enum bus_err err;
    bus_options_init(&options);
    options.party = party;
    options.heartbeat_ms = 200;
    options.lost_after_ms = 2500;
    options.reconnect_grace_ms = 2000;
    options.broker_lost_ms = patience_ms;
    options.send_timeout_ms = patience_ms;
    while ((err = bus_open(endpoint, &options, patience_ms, out_bus, reterr)) == BUS_EDENIED &&
           strcmp(bus_error_type(*reterr), "errbus.name_taken") == 0) {
        bus_error_unref(reterr);
        (void)poll(NULL, 0, 50);
    }
    return err;
}

#endif
