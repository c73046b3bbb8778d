/* SPDX-License-Identifier: MPL-2.0 */
/* connection_warnings.h -- warnings about connections that did not become clients.
 *
 * A flood of them must not fill the log.  So each kind is told at most every few seconds, and
 * closed connections and refused addresses are told as a number. */
#ifndef IO_CONNECTION_WARNINGS_H
#define IO_CONNECTION_WARNINGS_H

#include <stdint.h>

struct connection_warnings {
    int64_t accepting_ns; /* when it was last said that connections cannot be accepted; 0: never */
    int64_t closed_ns;    /* ... that connections were closed or refused */
    uint64_t silent;      /* connections that were closed since then: they said nothing */
    uint64_t refusals;    /* of addresses that had been told then; see refused_addresses.h */
};

/* A connection to this channel was not accepted; fault: an errno. */
void connection_warnings_not_accepted(struct connection_warnings *warnings, const char *channel,
                                      int fault, int64_t now_ns);
/* Tells what was counted, if it is time; refusals: of addresses, since the broker runs, the last
 * one of this address. */
void connection_warnings_tell(struct connection_warnings *warnings, uint64_t refusals,
                              uint64_t address, int64_t now_ns);

#endif
